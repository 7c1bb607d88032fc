"""SCaTR+, and what 04 chose, beside SCaTR and the best confidence rule: for each run and over all of them.

    python tests/bench.py pool runs/model/{math_a,math_b,code_a,code_b}/32  # after bash run_all.sh

The table has differences in points of right picks, averaged over the scorer seeds of a run, and intervals of
95 % by a paired bootstrap over problems, or over families where problems name them. The best rule of each run is chosen with hindsight. Weighted votes
are of the runs in which answers can be equal.
"""

import argparse
import importlib
import json
from pathlib import Path

import numpy as np

import common

report = importlib.import_module("05_baselines")
DIFFERENCES = (
    ("SCaTR+", "SCaTR"),
    ("SCaTR+", report.BEST_OF_ALL),
    ("SCaTR", report.BEST_OF_ALL),
    ("SCaTR+, weighted vote", "SCaTR, weighted vote"),
    ("answers.jsonl, 04's choice", "SCaTR+"),
    ("answers.jsonl, 04's choice", report.BEST_OF_ALL),
)


def right_picks(run):
    """{row of the report's summary: [P] how often its picks of each problem are right}, and the P families"""
    runs, _, _ = report.load_repetitions([run])
    by_rule = report.score_by_rules(runs)
    by_scorer, _ = report.read_all_scores(runs, (), ())
    rows = report.make_rows(runs, None, by_rule, by_scorer)
    report.compare(rows, runs[0].families)
    (calibration,) = report.calibrations_of({"rows": rows})
    summary = report.summary_rows({"rows": rows}, calibration)
    families = [f"{run} {family}" for family in runs[0].families]
    return {name: row.right for name, row in summary.items()}, families


def as_text(difference, families):
    """The mean of [P] in points and its interval; nothing where a run has no such row."""
    if len(difference) == 0:
        return ""
    return "{delta:+.1f} [{low:.1f}, {high:.1f}]".format(**report.with_interval(100 * difference, families))


def main(argv=None):
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    args = parser.parse_args(argv)
    right, families = zip(*map(right_picks, args.runs))
    lines = []
    pooled = {}
    for ours, other in DIFFERENCES:
        name = f"{ours} − {other}"
        differences = [rows[ours] - rows[other] if ours in rows else np.zeros(0) for rows in right]
        together = np.concatenate(differences)
        if len(together):
            pool = [one for rows, own in zip(right, families) if ours in rows for one in own]
            lines.append([name, *map(as_text, differences, families), as_text(together, pool)])
            pooled[name] = report.with_interval(100 * together, pool)
    names = [run.resolve().parent.name for run in args.runs]
    print(common.table(["points", *names, "all"], lines))
    print(json.dumps(pooled))


if __name__ == "__main__":
    main()
