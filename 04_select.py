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
import json
import shlex
import sys
from pathlib import Path

import numpy as np

import common


def main():
    args = parse_args()
    for run in map(Path, args.runs):
        if up_to_date(run, args.scorer) and not args.force:
            if (run / "labels.jsonl").exists():
                common.read_labels(run)  # warns of an answer edited since
            print(f"{run}: the scores are newer than the run and its scorers (--force scores again)")
        else:
            keys = common.keys_of(common.each_rollout(run))
            common.check_same_problems(run, [{"id": name} for name, _ in keys])
            scores = {Path(path).stem: score(run, path, keys, args.chunk) for path in args.scorer}
            write_selected(run, list(select(run, keys, scores)))
        summarise(run, args.json)


def outputs_of(run, scorer_path):
    """The paths of its scores and of what they cost."""
    return [run / "scores" / (Path(scorer_path).stem + end) for end in (".jsonl", ".cost.json")]


def up_to_date(run, scorers):
    """As make does it, outputs are younger than inputs; and scores and selection are by these scorers."""
    inputs = [run / name for name in ("hidden.pt", "rollouts.jsonl", "labels.jsonl")] + [*map(Path, scorers)]
    outputs = [run / "selected.jsonl"] + [path for scorer in scorers for path in outputs_of(run, scorer)]
    if not all(path.exists() for path in [*outputs, *inputs[3:]]):
        return False
    changed, made = ([path.stat().st_mtime for path in paths if path.exists()] for paths in (inputs, outputs))
    costs = [common.read_json(outputs_of(run, scorer)[1]) for scorer in scorers]
    by = [cost.get("scorer") if isinstance(cost, dict) else None for cost in costs]
    selected = {row["scorer"] for row in common.read_jsonl(run / "selected.jsonl", needs=("scorer",))}
    same = by == [*map(identity_of, scorers)] and selected == {Path(path).stem for path in scorers}
    return same and max(changed) < min(made)


def identity_of(scorer_path):
    """By it another scorer of the same name is known, which may be older than the scores of the first."""
    return common.hash_of(Path(scorer_path).read_bytes())


def score(run, scorer_path, keys, chunk):
    """Write the scores of all rollouts in the order of rollouts.jsonl, and what they cost -> the rows."""
    scorer = common.load_scorer(scorer_path)
    stored_keys, logits = common.score_run(scorer, run, scorer_path, chunk)
    columns = zip(stored_keys, logits.tolist(), logits.sigmoid().tolist())
    rows = [{"id": key[0], "sample": key[1], "score": logit, "p": p} for key, logit, p in columns]
    rows = common.align(rows, keys, run / "hidden.pt")
    scores_path, cost_path = outputs_of(run, scorer_path)
    common.write_jsonl(scores_path, rows)
    common.write_json(cost_path, cost_of(scorer_path, scorer.checkpoint))
    return rows


def cost_of(scorer_path, facts):
    """What 03 measured, in the words that 05 has for each scorer's cost; which scorer, and where it stops."""
    cost, command = facts.get("cost") or {}, shlex.join(["python", "04_select.py", *sys.argv[1:]])
    found = {"command": command, "scorer": identity_of(scorer_path), "stop": facts.get("stop")}
    found |= {"parameters": cost.get("parameters"), "trained_parameters": cost.get("parameters"),
              "train_seconds": cost.get("search_seconds"), "train_flops": cost.get("search_flops"),
              "device": cost.get("device")}  # fmt: skip
    if cost.get("scoring_ms"):
        found["ms_per_rollout"] = cost["scoring_ms"] / cost["rollouts_scored"]
        found["flops_per_rollout"] = 2 * cost["parameters"]
    return found


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


def summarise(run, as_json):
    """A line a scorer and strategy: how many were picked, how many of these are right where 02 could say."""
    labels = {}
    for row in common.read_jsonl(run / "selected.jsonl", needs=("id", "scorer", "strategy")):
        labels.setdefault((row["scorer"], row["strategy"]), []).append(row.get("label"))
    cells, results = [], []
    for (scorer, strategy), found in labels.items():
        right, judged = found.count(1), len(found) - found.count(None)
        told = f"{100 * right / judged:.1f} ({right}/{judged})" if judged else "not judged"
        cells.append([scorer, strategy, len(found), told])
        results.append({"scorer": scorer, "strategy": strategy, "problems": len(found), "judged": judged,
                        "accuracy": right / judged if judged else None})  # fmt: skip
    print(common.table(["scorer", "strategy", "problems", "right %"], cells))
    if as_json:
        print(json.dumps({"run": str(run), "selected": results}))


def parse_args():
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="run folders of 01_generate.py")
    add("--scorer", nargs="+", required=True, metavar="PT", help="of 03_train_scorer.py, for the same model")
    add("--chunk", type=int, default=8192, help="rollouts scored at a time, for memory (default %(default)s)")
    add("--force", action="store_true", help="score again although the scores are newer than their inputs")
    add("--json", action="store_true", help="also a line of JSON a run, for programs")
    args = parser.parse_args()
    names = {Path(path).stem for path in args.scorer}
    if len(names) != len(args.scorer):
        common.die(f"--scorer: {len(args.scorer)} files but only {len(names)} names, which scores take over")
    if args.chunk < 1:
        common.die("--chunk: give at least 1 rollout")
    return args


if __name__ == "__main__":
    common.entry(main, "runs that are scored; the same command goes on with the others")
