"""SCaTR+ beside SCaTR and the best confidence rule, run by run and pooled over all of them.

    python tests/bench.py pool runs/model/{math_a,math_b,code_a,code_b}/32   # labelled, scored by run_all.sh

Differences in points, scorer seeds averaged first; 95 % by a paired bootstrap over problems. The best
of all rules is picked with hindsight for each run. Weighted votes: of the runs that have votes.
"""

import argparse
import importlib
import json
from pathlib import Path

import numpy as np

import common

report = importlib.import_module("05_baselines")
PAIRS = (("SCaTR+", "SCaTR"), ("SCaTR+", "best of all rules"), ("SCaTR", "best of all rules"),
         ("SCaTR+, weighted vote", "SCaTR, weighted vote"))  # fmt: skip


def rows_of(path):
    """{short name: its row} of one run, and the best of the rules."""
    runs, _, _ = report.load_repetitions([path], report.windows_for([path]))
    rows = report.make_rows(runs)
    best = max((rows[rule] for rule in report.RULES), key=lambda row: row["accuracy"])
    return {row["short"]: row for row in rows.values()} | {"best of all rules": best}


def in_points(difference):
    found = report.with_interval(100 * difference)
    return "{delta:+.1f} [{low:.1f}, {high:.1f}]".format(**found), found


def main(argv=None):
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    args = parser.parse_args(argv)
    found, cells = [rows_of(path) for path in args.runs], []
    report_of = {}
    for ours, other in PAIRS:
        own = [one[ours]["right"] - one[other]["right"] if ours in one else np.zeros(0) for one in found]
        texts = [in_points(each)[0] if len(each) else "" for each in own]
        if any(texts):
            text, report_of[f"{ours} - {other}"] = in_points(np.concatenate(own))
            cells.append([f"{ours} − {other}", *texts, text])
    names = [path.resolve().parent.name for path in args.runs]
    print(common.table(["points", *names, "all"], cells, markdown=True))
    print(json.dumps(report_of))


if __name__ == "__main__":
    main()
