"""Which option picks more right answers? Scorers that differ in one thing, on pairs of labelled runs.

    python tests/bench.py options runs/model/math_a/32 --eval runs/model/math_b/32

The k-th run is calibrated on, and evaluated on the k-th run after --eval. A run that is evaluated on itself is
calibrated on a random half of its problems for each seed, that of 03's study of halves, and evaluated on the other.
03_train_scorer.py searches for each option among as many --configs on the same parts of the problems, except for
what its name says. A table of each pair shows right picks in percent, and how often a right answer scores above a
wrong one to the same problem: means over the seeds, and standard deviations of the picks. Vectors that a run does
not have are left out.
"""

import fnmatch
import importlib
import json
import os
from collections import defaultdict
from dataclasses import replace

import numpy as np

import common

trainer = importlib.import_module("03_train_scorer")
report = importlib.import_module("05_baselines")

PLUS = {"design": "scatr+"}
OPTIONS = {"SCaTR": {}, "SCaTR, standardised": {"standardise": True}, "logistic": {"design": "logistic"}}
for vector in ("final/last", "penultimate/last", ".75/eos"):
    OPTIONS[f"SCaTR, {vector}"] = {"vector": vector}
for count in (16, 30):
    OPTIONS[f"SCaTR, {count} configurations"] = {"configs": count}
OPTIONS |= {
    "SCaTR+": PLUS, "SCaTR+, standardised": PLUS | {"standardise": True},
    "SCaTR+, final/last": PLUS | {"vector": "final/last"},
    # these change what is read; `load` does it
    "logistic, vector minus its mean over the problem's answers": {"design": "logistic"},
    "SCaTR+, centred: statistics minus their mean over the problem's answers": PLUS,
    "SCaTR+, without the vector": PLUS,
}  # fmt: skip


def load(run, vector, option):
    """The judged rollouts of a run, as an option reads them."""
    rollouts = trainer.load_rollouts([run], vector)
    for rows in rows_of_problems(rollouts):
        if "vector minus" in option:
            rollouts.x[rows] -= rollouts.x[rows].mean(0)
        if "centred" in option:
            rollouts.features[rows] -= rollouts.features[rows].nanmean(0)
    if "without the vector" in option:
        rollouts = replace(rollouts, x=0 * rollouts.x[:, :1])
    return rollouts.part(rollouts.labels.isfinite().nonzero()[:, 0].tolist())


def rows_of_problems(rollouts):
    rows_of = defaultdict(list)
    for row, problem in enumerate(rollouts.problems):
        rows_of[problem].append(row)
    return [*rows_of.values()]


def search(option, run, half, args):
    """The scorers of an option, one a seed; half: learn from half of the problems."""
    changes = {"configs": args.configs} | OPTIONS[option]
    options = trainer.parse_args([run, "--configs", str(changes.pop("configs"))])
    standardise = changes.pop("standardise", False)
    tasks = []
    for seed in args.seed:
        recipe = trainer.make_recipe(options, [run], seed, half=half, **changes)
        recipe = replace(recipe, standardise=recipe.standardise or standardise)
        rollouts, _ = trainer.choose_rollouts(load(run, recipe.vector, option), recipe)
        tasks.append(trainer.make_task(rollouts, recipe, "cpu"))
    with common.progress(total=sum(len(task.configs) for task in tasks), desc=option) as bar:
        trainer.run_searches(tasks, args.workers, bar)
    return [common.Scorer(trainer.make_checkpoint(task)) for task in tasks]


def measure(scorer, rollouts):
    """{what: its value} of the picks among all answers to problems that the scorer did not learn from."""
    learned = set(scorer.checkpoint["problems"])
    rollouts = rollouts.part([row for row, problem in enumerate(rollouts.problems) if problem not in learned])
    logits = scorer(rollouts.x, rollouts.features)
    shares = trainer.shares_right(rollouts, logits)
    right = rollouts.labels.numpy() > 0
    rows_of = rows_of_problems(rollouts)
    found = {"random": 100 * report.mean_of(right[rows].mean() for rows in rows_of)}
    found["best of N"] = 100 * shares["best-of-n"]
    if "weighted-vote" in shares:
        by_p = trainer.shares_right(rollouts, logits - scorer.log_weight)
        found |= {"vote": 100 * shares["weighted-vote"], "vote by p": 100 * by_p["weighted-vote"]}
    scores = logits.numpy()
    within = [report.auroc(right[rows], scores[rows]) for rows in rows_of]
    return found | {"AUROC": report.mean_of(within)}


def measure_pair(run, evaluated, args):
    """{option: {what: its values, one a seed}}"""
    stored = [set(common.load_pt(f"{one}/hidden.pt")["vectors"]) for one in (run, evaluated)]
    table = {}
    for option, changes in OPTIONS.items():
        vector = changes.get("vector", common.DEFAULT_VECTOR)
        if all(vector in vectors for vectors in stored) and any(fnmatch.fnmatch(option, name) for name in args.only):
            rollouts = load(evaluated, vector, option)
            found = [measure(scorer, rollouts) for scorer in search(option, run, run == evaluated, args)]
            table[option] = {what: [of_seed[what] for of_seed in found] for what in found[0]}
            print(json.dumps({"run": run, "eval": evaluated, "option": option} | table[option]), flush=True)
    return table


def as_text(what, values):
    if what == "AUROC":
        return f"{np.mean(values):.3f}"
    return f"{np.mean(values):.1f} ± {np.std(values, ddof=1):.1f}"


def main(argv):
    parser = common.argument_parser(__doc__)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="labelled runs to calibrate on")
    parser.add_argument("--eval", nargs="+", required=True, metavar="RUN", help="as many to evaluate on")
    parser.add_argument("--only", nargs="+", default=["*"], help="names of options; * is any letters")
    parser.add_argument("--configs", type=int, default=8)
    parser.add_argument("--seed", type=int, nargs="+", default=[32, 42, 52])
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args(argv)
    tables = [measure_pair(run, evaluated, args) for run, evaluated in zip(args.runs, args.eval, strict=True)]
    for run, evaluated, table in zip(args.runs, args.eval, tables):
        measures = list(next(iter(table.values())))
        rows = [[option, *map(as_text, found, found.values())] for option, found in table.items()]
        print(f"\n{run} -> {evaluated}, right %\n\n{common.table(['', *measures], rows)}")
    print(json.dumps(tables))
