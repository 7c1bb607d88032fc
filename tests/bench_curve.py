"""How many calibration problems does a scorer need? Right % against their number, of many kinds and of few.

    python tests/bench.py curve runs/model/math_a/32 --eval runs/model/math_b/32 --configs 2 --rollouts 8

Both runs are labelled. Problems are drawn for each seed, one of each family in turn: of many kinds, of all
families; of few, of as few families as have that many problems (at least 4). Options that are not this script's
go to 03_train_scorer.py. Prints the values of each point as they come, and a table: best of N by SCaTR and by
SCaTR+, and the vote weighted by SCaTR, mean and deviation over the seeds.
"""

import argparse
import importlib
import itertools
import json
import random
from collections import defaultdict

import numpy as np

import common

trainer = importlib.import_module("03_train_scorer")
INPUTS = {"SCaTR": "vector", "SCaTR+": "vector+stats"}


def draw_problems(data, count, kinds, seed):
    """`count` problems: of as many families as there are, or of as few as will do."""
    families = defaultdict(list)
    for family, problem in dict.fromkeys(zip(data.family, data.problem)):
        families[family].append(problem)
    rng = random.Random(f"curve {seed}")
    drawn = [rng.sample(problems, len(problems)) for problems in families.values()]
    rng.shuffle(drawn)
    if kinds == "few":
        needed = sum(total < count for total in itertools.accumulate(map(len, drawn))) + 1
        drawn = drawn[: max(needed, 4)]  # 03 cannot split fewer families
    in_turn = itertools.chain(*itertools.zip_longest(*drawn))
    return set(itertools.islice(filter(None, in_turn), count))


def train_on(data, problems, options, run, seed, inputs):
    """A scorer that saw only these problems; no file is written."""
    command = [run, "-o", "curve.pt", "--inputs", inputs, "--seed", str(seed), *options]
    args = trainer.parse_args(command)
    args.device = common.pick_device(args.device)
    args.workers = args.workers or 1
    (job,) = trainer.jobs_of(args, [[run]])
    rows = [row for row, problem in enumerate(data.problem) if problem in problems]
    ((task, trials, state),) = trainer.search([trainer.make_task(trainer.part_of(data, rows), job)])
    return common.Scorer(trainer.make_checkpoint(task, trials, state))


def accuracy_of(scorer, run):
    """Right % of the best of N and, where answers have groups, of the weighted vote."""
    keys, logits = common.score_run(scorer, run)
    scores, p = logits.numpy(), logits.sigmoid().numpy()
    right, group = trainer.read_judged(run, keys)
    best, votes = [], []
    for rows in trainer.by_problem(keys).values():
        best.append(right[rows[np.argmax(scores[rows])]])
        if (group[rows] >= 0).any():
            votes.append(right[rows[common.weighted_vote(group[rows], p[rows], scores[rows])]])
    in_percent = lambda credits: 100 * float(np.nanmean(credits)) if credits else None
    return {"best": in_percent(best), "vote": in_percent(votes)}


def measure_point(data, count, kinds, args, options):
    """{"problems": their number, "kinds": families drawn for each seed, measure: its value for each seed}"""
    values = defaultdict(list)
    for seed in args.seed:
        problems = draw_problems(data, count, kinds, seed)
        families = {family for family, problem in zip(data.family, data.problem) if problem in problems}
        values["kinds"].append(len(families))
        for name, inputs in INPUTS.items():
            scorer = train_on(data, problems, options, args.run, seed, inputs)
            for measure, value in accuracy_of(scorer, args.eval).items():
                values[f"{name}, {measure}"].append(value)
    return {"problems": count, **values}


def mean_and_deviation(values):
    if None in values:
        return ""
    deviation = np.std(values, ddof=1) if len(values) > 1 else 0.0
    return f"{np.mean(values):.1f} ± {deviation:.1f}"


def main(argv=None):
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("run", metavar="RUN", help="labelled run to calibrate on")
    parser.add_argument("--eval", required=True, metavar="RUN", help="labelled run to evaluate on")
    parser.add_argument("--problems", type=int, nargs="+", default=[12, 25, 50, 100, 200])
    parser.add_argument("--seed", type=int, nargs="+", default=[32, 42, 52], help="of draw, split and search")
    args, options = parser.parse_known_args(argv)
    data = trainer.load_data([args.run], common.DEFAULT_VECTOR)
    total = len(set(data.problem))
    has_families = len(set(data.family)) < total
    points = []
    for count in sorted({min(count, total) for count in args.problems}):
        for kinds in ("many", "few") if has_families and count < total else ("many",):
            points.append(measure_point(data, count, kinds, args, options))
            print(json.dumps(points[-1]), flush=True)
    measures = ("SCaTR, best", "SCaTR+, best", "SCaTR, vote")
    cells = [[point["problems"], round(np.mean(point["kinds"])), *(mean_and_deviation(point[m]) for m in measures)]
             for point in points]  # fmt: skip
    header = ["problems", "kinds", "SCaTR, best of N %", "SCaTR+, best of N %", "SCaTR, weighted vote %"]
    print(common.table(header, cells, markdown=True))
    print(json.dumps({"run": args.run, "eval": args.eval, "points": points}))


if __name__ == "__main__":
    main()
