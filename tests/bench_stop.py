"""How many rollouts does `01_generate.py --scorer S --stop P` save, and at what cost?

    python tests/bench.py stop runs/model/math_b/32 --scorer 'scatr+*' --stop .9 .7

Sampling that stops makes the first ones of the rollouts that a run without --scorer has. So a labelled run with
scores/ of 04_select.py shows for each of its scorers, and each threshold: the rollouts, the right picks in percent
among them, among all, and of a fixed N with as many rollouts on average. ± is over seeds.
"""

import importlib
import json
import math
from pathlib import Path

import numpy as np

import common

generate = importlib.import_module("01_generate")
report = importlib.import_module("05_baselines")


def count_kept(ps, threshold):
    """How many of a problem's rollouts are made, of which 0, 1, 2, ... would be right with these probabilities."""
    jobs = [{"p": p} for p in ps]
    kept = []
    while wave := generate.next_wave(jobs, kept, threshold):
        kept += wave
    return len(kept)


def right_percent(scores, chances):
    return 100 * float(np.nanmean(report.credit_of(scores, chances)))


def measure(scores, threshold):
    """{column: its value} of one scorer on one run."""
    sizes = scores.run.present.sum(1)
    rows = [p[:size] for p, size in zip(scores.p, sizes)]
    counts = np.array([count_kept(row, threshold) for row in rows])
    chances = np.zeros(scores.score.shape)
    for problem, count in enumerate(counts):
        chances[problem, scores.score[problem, :count].argmax()] = 1
    below = math.floor(counts.mean())
    share = counts.mean() - below
    fixed = [right_percent(scores, report.by_score(scores, n)) for n in (below, below + 1)]
    return {
        "rollouts": int(counts.sum()),
        "right": right_percent(scores, chances),
        "of all": right_percent(scores, report.by_score(scores, sizes.max())),
        "a fixed N": fixed[0] * (1 - share) + fixed[1] * share,
    }


def as_text(values):
    digits = 0 if isinstance(values[0], int) else 1
    return f"{np.mean(values):.{digits}f}" + (f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else "")


def main(argv):
    parser = common.argument_parser(__doc__)
    parser.add_argument("run", metavar="RUN", type=Path)
    parser.add_argument("--scorer", nargs="+", default=["scatr+*"], metavar="NAME", help="* is any letters")
    parser.add_argument("--stop", nargs="+", type=float, default=[generate.STOP], metavar="P")
    args = parser.parse_args(argv)
    runs, _, _ = report.load_repetitions([args.run])
    by_scorer, _ = report.read_all_scores(runs, args.scorer, [])
    found = []
    for name, seeds in by_scorer.items():
        for threshold in args.stop:
            of_seeds = [measure(scores, threshold) for scores in seeds]
            columns = {column: [one[column] for one in of_seeds] for column in of_seeds[0]}
            found.append({"scorer": name, "stop": threshold} | columns)
    total = int(runs[0].present.sum())
    header = ["scorer", "stop", f"rollouts of {total}", "right %, stopped", "of all", "a fixed N"]
    rows = [[row["scorer"], row["stop"], *map(as_text, [*row.values()][2:])] for row in found]
    print(common.table(header, rows))
    print(json.dumps(found))
