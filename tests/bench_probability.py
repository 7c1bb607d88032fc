"""Is a scorer's p a probability? p against the share of answers that are right, in ten bins.

    python tests/bench.py probability runs/model/math_b/32 runs/model/math_a/32/scatr+.*.pt

RUN is labelled. The scorers are seeds of one scorer, and their answers are counted together. A bin holds a
tenth of the answers, from the smallest p to the largest. `p before` is the sigmoid of the logit, by which the
paper scores and votes; `p after` is that of answers.jsonl, with the weight of the loss taken out. Below are the
mean over the bins of |p - share that is right|, and p and share of each problem's answer with the largest p.
"""

import argparse
import json
from pathlib import Path

import numpy as np

import common

BINS = 10


def read_probabilities(run, path):
    """(p before [R], p after [R], labels [R], ids of the problems) of the judged rollouts."""
    scorer = common.load_scorer(path)
    keys, logits = common.score_run(scorer, run, path)
    labels = [row["label"] for row in common.read_labels(run, keys)]
    judged = [place for place, label in enumerate(labels) if label is not None]
    before = logits.sigmoid().numpy()[judged]
    after = common.probability(logits, scorer.log_weight).numpy()[judged]
    return before, after, np.array(labels, dtype=float)[judged], [keys[place][0] for place in judged]


def in_bins(p, right):
    """[(mean p, share right)] of each bin."""
    ranked = np.argsort(p, kind="stable")
    return [(p[rows].mean(), right[rows].mean()) for rows in np.array_split(ranked, BINS)]


def of_picks(p, right, problems):
    """(mean p, share right) of each problem's answer with the largest p."""
    best = {}
    for place, problem in enumerate(problems):
        if problem not in best or p[place] > p[best[problem]]:
            best[problem] = place
    places = [*best.values()]
    return p[places].mean(), right[places].mean()


def main(argv=None):
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("scorers", nargs="+", type=Path, metavar="SCORER")
    args = parser.parse_args(argv)
    found = [read_probabilities(args.run, path) for path in args.scorers]
    right = np.concatenate([labels for _, _, labels, _ in found])
    columns = {"before": np.concatenate([before for before, _, _, _ in found])}
    columns["after"] = np.concatenate([after for _, after, _, _ in found])
    facts = {"run": str(args.run), "scorers": [path.stem for path in args.scorers], "right": right.mean()}
    rows = [[str(number)] for number in range(1, BINS + 1)]
    gaps, picks = ["mean |p - right|"], ["picked"]
    for name, p in columns.items():
        bins = in_bins(p, right)
        gap = float(np.mean([abs(mean - share) for mean, share in bins]))
        of_seeds = zip(np.split(p, len(found)), found)
        picked = np.mean([of_picks(part, labels, problems) for part, (_, _, labels, problems) in of_seeds], 0)
        for row, (mean, share) in zip([*rows, picks], [*bins, picked]):
            row += [f"{mean:.3f}", f"{share:.3f}"]
        gaps += [f"{gap:.3f}", None]
        facts[name] = {"bins": np.array(bins).tolist(), "gap": gap, "picked": picked.tolist()}
    print(common.table(["bin", "p before", "right", "p after", "right"], [*rows, gaps, picks]))
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
