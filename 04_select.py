"""Score every rollout of a run with a trained scorer and pick an answer for each problem. No label is used.

    python 04_select.py RUN --scorer scorer.pt
    python 04_select.py RUN --scorer dir/scatr@*.pt      each scorer gets its own scores and selection

Reads hidden.pt, rollouts.jsonl and labels.jsonl, whose `group` says which answers are equal, for votes. Makes
    scores/SCORER.jsonl   {"id", "sample", "score": logit, "p": probability}, and SCORER.cost.json for 05
    selected.jsonl        {"id", "scorer", "strategy", "sample", "score", "response", "label"?}
Strategies: best-of-n, the highest score, ties to the lowest sample number; weighted-vote (where answers have
groups), the answer with the largest sum of probabilities, its best-scored rollout standing for it. A label is
copied beside the selection after it is made, and shown as accuracy.
"""

import argparse
import shlex
import sys
from pathlib import Path

import numpy as np

import common


def main():
    args = parse_args()
    for run in map(Path, args.runs):
        keys = common.keys_of(common.each_rollout(run))
        common.check_same_problems(run, [{"id": name} for name, _ in keys])
        scores = {Path(path).stem: score(run, path, keys) for path in args.scorer}
        selected = list(select(run, keys, scores))
        write_selected(run, selected)
        print(summary(selected))


def score(run, scorer_path, keys):
    """Write the scores of all rollouts in the order of rollouts.jsonl, and what they cost -> the rows."""
    scorer = common.load_scorer(scorer_path)
    stored_keys, logits = common.score_run(scorer, run, scorer_path)
    columns = zip(stored_keys, logits.tolist(), logits.sigmoid().tolist())
    rows = [{"id": key[0], "sample": key[1], "score": logit, "p": p} for key, logit, p in columns]
    rows = common.align(rows, keys, run / "hidden.pt")
    path = run / "scores" / f"{Path(scorer_path).stem}.jsonl"
    common.write_jsonl(path, rows)
    command = shlex.join(["python", "04_select.py", *sys.argv[1:]])
    facts = {"command": command, "stop": scorer.checkpoint.get("stop")}  # stop: the thresholds, for 05
    common.write_json(path.with_suffix(".cost.json"), scorer.checkpoint.get("cost", {}) | facts)
    return rows


def select(run, keys, scores):
    """The rows of selected.jsonl, for every scorer, strategy and problem; the response is still to come."""
    groups, labels = groups_and_labels(run, keys)
    problems = {}  # id -> places of its rollouts
    for place, (problem, _) in enumerate(keys):
        problems.setdefault(problem, []).append(place)
    for name, rows in scores.items():
        logits, p = np.array([(row["score"], row["p"]) for row in rows]).T
        for problem, places in problems.items():
            picks = {"best-of-n": common.best_of_n(logits[places])}
            if (groups >= 0).any():  # every strategy picks for every problem: without answers, by best-of-N
                picks["weighted-vote"] = common.weighted_vote(groups[places], p[places], logits[places])
            for strategy, pick in picks.items():
                row, label = rows[places[pick]], {} if labels is None else {"label": labels[places[pick]]}
                yield {"id": problem, "scorer": name, "strategy": strategy, "sample": row["sample"],
                       "score": row["score"], "response": None, **label}  # fmt: skip


def groups_and_labels(run, keys):
    """([R] equality classes, -1 for none; [R] labels or None): the labels only travel along."""
    if not (run / "labels.jsonl").exists():
        print(f"{run}: no labels.jsonl, so no votes; 02_label.py groups equal answers, references or not")
        return np.full(len(keys), -1), None
    rows = common.read_labels(run, keys)
    labels = [row["label"] for row in rows]
    groups = np.array([-1 if row.get("group") is None else row["group"] for row in rows])
    return groups, None if all(label is None for label in labels) else labels


def write_selected(run, selected):
    """A second reading for the few texts that were picked: all of them together may not fit into memory."""
    texts = dict.fromkeys(common.keys_of(selected))
    for row in common.each_rollout(run):
        if (row["id"], row["sample"]) in texts:
            texts[row["id"], row["sample"]] = row["response"]
    rows = (row | {"response": texts[row["id"], row["sample"]]} for row in selected)
    common.write_jsonl(run / "selected.jsonl", rows)


def summary(selected):
    """A line a scorer and strategy: how many were picked, how many of these are right where 02 could say."""
    labels, cells = {}, []
    for row in selected:
        labels.setdefault((row["scorer"], row["strategy"]), []).append(row.get("label"))
    for names, found in labels.items():
        right, judged = found.count(1), len(found) - found.count(None)
        told = f"{100 * right / judged:.1f} ({right}/{judged})" if judged else "not judged"
        cells.append([*names, len(found), told])
    return common.table(["scorer", "strategy", "problems", "right %"], cells)


def parse_args():
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folders of 01_generate.py")
    parser.add_argument("--scorer", nargs="+", required=True, metavar="PT", help="of 03, for the same model")
    args = parser.parse_args()
    names = {Path(path).stem for path in args.scorer}
    if len(names) != len(args.scorer):
        common.die(f"--scorer: {len(args.scorer)} files but only {len(names)} names, which scores take over")
    return args


if __name__ == "__main__":
    common.entry(main, "runs that are scored; the same command scores all")
