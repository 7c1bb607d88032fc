"""Score every rollout of a run with a trained scorer and pick an answer for each problem. No label is used.

    python 04_select.py RUN --scorer scorer.pt
    python 04_select.py RUN --scorer dir/scatr@*.pt        several scorers: each gets its own scores and selection

Reads hidden.pt and rollouts.jsonl, and labels.jsonl for the `group` of each answer (what 02 judges to be equal; without it
there is no vote). Writes
    scores/<scorer's file name>.jsonl   {"id", "sample", "score": logit, "p": probability}, and its .cost.json for 05
    selected.jsonl                      {"id", "scorer", "strategy", "sample", "score", "response", "label"?}
Strategies: best-of-n, the highest score, ties to the lowest sample number; weighted-vote (where answers have groups), the
answer with the largest sum of probabilities, its best-scored rollout standing for it. A label, where 02 gave one, is copied
beside the selection after it is made, and shown as accuracy.
"""

import argparse
import hashlib
import json
import shlex
import sys
from pathlib import Path

import numpy as np

from common import (
    align,
    best_of_n,
    check_same_problems,
    die,
    each_rollout,
    entry,
    keys_of,
    read_json,
    read_jsonl,
    read_labels,
    table,
    warn_of_old_labels,
    weighted_vote,
    write_json,
    write_jsonl,
)


def main():
    args = parse_args()
    for run in map(Path, args.runs):
        if up_to_date(run, args.scorer) and not args.force:
            warn_of_old_labels(run)
            print(f"{run}: the scores are newer than the run and its scorers (--force scores again)")
        else:
            rollouts = [{"id": row["id"], "sample": row["sample"]} for row in each_rollout(run)]
            check_same_problems(run, rollouts)
            scores = {Path(path).stem: score(run, path, keys_of(rollouts), args.chunk) for path in args.scorer}
            write_jsonl(run / "selected.jsonl", with_texts(run, list(select_all(run, rollouts, scores))))
        summarise(run, args.json)


def up_to_date(run, scorers):
    """As make does it: every output is younger than every input; and scores and selection are by these very scorers."""
    inputs = [run / name for name in ("hidden.pt", "rollouts.jsonl", "labels.jsonl")] + [Path(path) for path in scorers]
    outputs = [run / "scores" / f"{Path(path).stem}.jsonl" for path in scorers] + [run / "selected.jsonl"]
    outputs += [cost_path(run, path) for path in scorers]
    if not all(path.exists() for path in outputs):
        return False
    if max(path.stat().st_mtime for path in inputs if path.exists()) >= min(path.stat().st_mtime for path in outputs):
        return False
    if any(read_json(cost_path(run, path)).get("scorer") != hash_of(path) for path in scorers):
        return False  # another scorer of the same name, which may be older than the scores
    return {row["scorer"] for row in read_jsonl(run / "selected.jsonl", needs=("scorer",))} == {Path(path).stem for path in scorers}


def score(run, scorer_path, keys, chunk):
    """Write the scores of all rollouts, in the order of rollouts.jsonl -> [R, 2] logits and probabilities."""
    from common import load_scorer, score_run

    scorer = load_scorer(scorer_path)
    stored_keys, logits = score_run(scorer, run, scorer_path, chunk)
    order = list(range(len(keys)))
    if stored_keys != keys:
        places = [{"id": key[0], "sample": key[1], "place": place} for place, key in enumerate(stored_keys)]
        order = [row["place"] for row in align(places, keys, run / "hidden.pt")]
    columns = [values[order].tolist() for values in (logits, scorer.probability(logits))]
    rows = ({"id": key[0], "sample": key[1], "score": score, "p": p} for key, score, p in zip(keys, *columns, strict=True))
    write_jsonl(run / "scores" / f"{Path(scorer_path).stem}.jsonl", rows)
    facts = scorer.checkpoint
    write_cost(run, scorer_path, (facts.get("cost") or {}) | {"stop": facts.get("stop")})
    return np.array(columns).T


def cost_path(run, scorer_path):
    return run / "scores" / f"{Path(scorer_path).stem}.cost.json"


def hash_of(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]


def write_cost(run, scorer_path, cost):
    """What 03 measured, in the words that every scorer's cost has in 05's table, which scorer it was, and where it stops."""
    names = {"parameters": "parameters", "trained_parameters": "parameters", "train_seconds": "search_seconds",
             "train_flops": "search_flops", "device": "device", "stop": "stop"}  # fmt: skip
    command, measured = shlex.join(["python", "04_select.py", *sys.argv[1:]]), {name: cost.get(key) for name, key in names.items()}
    if cost.get("scoring_ms"):
        measured |= {"ms_per_rollout": cost["scoring_ms"] / cost["rollouts_scored"], "flops_per_rollout": 2 * cost["parameters"]}
    write_json(cost_path(run, scorer_path), {"command": command, "scorer": hash_of(scorer_path), **measured})


def select_all(run, rollouts, scores):
    """The rows of selected.jsonl, for every scorer, strategy and problem; the response is still to come."""
    groups, labels = groups_and_labels(run, rollouts)
    problems = {}  # id -> places of its rollouts
    for place, row in enumerate(rollouts):
        problems.setdefault(row["id"], []).append(place)
    for name, values in scores.items():
        for problem, places in problems.items():
            logits, p = values[places].T
            picks = {"best-of-n": best_of_n(logits)}
            if (groups >= 0).any():  # a problem without any answer falls back to best-of-N: every strategy picks for every problem
                picks["weighted-vote"] = weighted_vote(groups[places], p, logits)
            for strategy, pick in picks.items():
                row = rollouts[places[pick]]
                label = {} if labels is None else {"label": labels[places[pick]]}
                yield {"id": problem, "scorer": name, "strategy": strategy, "sample": row["sample"],
                       "score": float(logits[pick]), "response": None, **label}  # fmt: skip


def with_texts(run, selected):
    """A second reading for the few texts that were picked: all of them together may not fit into memory."""
    picked = set(keys_of(selected))
    texts = {key: row["response"] for row in each_rollout(run) if (key := (row["id"], row["sample"])) in picked}
    for row in selected:
        yield row | {"response": texts[row["id"], row["sample"]]}


def groups_and_labels(run, rollouts):
    """([R] equality classes, -1 for none; [R] labels or None): the labels only travel along."""
    if not (run / "labels.jsonl").exists():
        print(f"{run}: no labels.jsonl, so no votes; 02_label.py groups equal answers, references or not")
        return np.full(len(rollouts), -1), None
    rows = read_labels(run, keys_of(rollouts))
    labels = [row["label"] for row in rows]
    groups = np.array([-1 if row.get("group") is None else row["group"] for row in rows])
    return groups, None if all(label is None for label in labels) else labels


def summarise(run, as_json):
    """One line a scorer and strategy: how many were picked, and how many of them are right where 02 could say."""
    rows = read_jsonl(run / "selected.jsonl", needs=("id", "scorer", "strategy"))
    lines = {}
    for row in rows:
        lines.setdefault((row["scorer"], row["strategy"]), []).append(row.get("label"))
    cells, results = [], []
    for (scorer, strategy), labels in lines.items():
        judged = [label for label in labels if label is not None]
        accuracy = sum(judged) / len(judged) if judged else None
        right = f"{100 * accuracy:.1f} ({sum(judged)}/{len(judged)})" if judged else "not judged"
        cells.append([scorer, strategy, len(labels), right])
        results.append({"scorer": scorer, "strategy": strategy, "problems": len(labels), "judged": len(judged), "accuracy": accuracy})
    print(table(["scorer", "strategy", "problems", "right %"], cells))
    if as_json:
        print(json.dumps({"run": str(run), "selected": results}))


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folders of 01_generate.py")
    parser.add_argument("--scorer", nargs="+", required=True, metavar="PT", help="scorers of 03_train_scorer.py for the same model")
    parser.add_argument("--chunk", type=int, default=8192, help="rollouts scored at a time; bounds the memory (default %(default)s)")
    parser.add_argument("--force", action="store_true", help="score again although the scores are newer than their inputs")
    parser.add_argument("--json", action="store_true", help="also a line of JSON a run, for programs")
    args = parser.parse_args()
    names = [Path(path).stem for path in args.scorer]
    if len(set(names)) != len(names):
        die(f"--scorer: {len(names)} files but only {len(set(names))} different names; the scores are named after them")
    if args.chunk < 1:
        die("--chunk: give at least 1 rollout")
    return args


if __name__ == "__main__":
    entry(main, "runs that are scored; the same command goes on with the others")
