"""Every way to pick an answer, beside each other on the same rollouts: one table, exact expectations, honest intervals.

    python 05_baselines.py RUN                      a labelled run; its scores/*.jsonl (04, or your own) become rows
    python 05_baselines.py RUN RUN --out DIR        several: runs of one model and data set are averaged, others compared

Reads rollouts.jsonl, labels.jsonl and scores/*.jsonl of each run; writes results.json (for programs) and report.md (for
people) into the run's folder, or into --out.

A row for your own scorer: drop scores/NAME.jsonl into the run, {"id", "sample", "score"} a line, higher is better, with
"p" in [0, 1] beside it if votes may use it as a weight. Files METHOD.CALIBRATION@RUN.jsonl that differ only behind the @
are runs of one method: the row shows their mean and standard deviation.

What the numbers are. A rank-based method at n < N rollouts: the exact expectation over all n-subsets. A vote at n < N: the
mean over seeded random subsets. Random: the mean label. Tied majorities share the credit. Delta: the difference to the best
confidence rule (picked with hindsight on these labels, which favours it) with a paired bootstrap interval over problems;
"gap closed": Delta as a share of the distance from that rule to the oracle. A problem with a label that could not be judged
is left out of all rows alike.
"""

import argparse
import functools
import json
import math
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common import (
    AGGREGATIONS,
    LOWER_IS_BETTER,
    STATISTICS,
    TAIL,
    WINDOW,
    align,
    atomic,
    confidence,
    die,
    group_totals,
    keys_of,
    load_pt,
    markdown_table,
    read_jsonl,
    read_labels,
    read_meta,
    read_rollouts,
    table,
    weighted_vote,
    write_json,
)

SUBSETS, DRAWS, SEED = 100, 1000, 0  # random subsets a vote's curve averages over, bootstrap draws, and their seed
CONFIDENCE = [f"{name}/{way}" for name in STATISTICS for way in AGGREGATIONS]

# ---------------------------------------------------------------------------------------------------------------------
# A labelled run as arrays [P problems, N rollouts]; a problem with fewer rollouts is padded at the end


@dataclass(eq=False)  # compared and hashed by identity: its subsets are cached
class Run:
    path: Path
    meta: dict
    ids: list  # [P] problem ids
    valid: np.ndarray  # [P, N] False where padded
    labels: np.ndarray  # [P, N] 0, 1
    groups: np.ndarray  # [P, N] equality class of the answer, -1: none
    scores: dict  # method -> run name -> [P, N], higher is better, -inf where padded
    p: dict  # method -> run name -> [P, N], for the methods that give probabilities
    left_out: int  # problems with a label that could not be judged


def load_run(path, window, tail):
    meta, rollouts = read_meta(path), read_rollouts(path)
    keys = keys_of(rollouts)
    labels = read_labels(path, keys)
    place, shape = places(keys, {row["id"] for row in labels if row["label"] is None})
    if shape[0] == 0:
        die(f"{path}: no problem has all its labels; 05 compares methods on labelled runs only (04_select.py works without)")

    def spread(values, empty):
        array = np.full(shape, empty, dtype=float)
        rows = [(problem, column, value) for (problem, column), value in zip(place, values) if problem is not None]
        problems, columns, kept = zip(*rows)
        array[list(problems), list(columns)] = kept
        return array

    ids = list(dict.fromkeys(key[0] for key, (problem, _) in zip(keys, place) if problem is not None))
    run = Run(
        path=Path(path),
        meta=meta,
        ids=ids,
        valid=spread([1] * len(keys), 0) > 0,
        labels=spread([row["label"] or 0 for row in labels], 0),
        groups=spread([-1 if row.get("group") is None else row["group"] for row in labels], -1).astype(int),
        scores={},
        p={},
        left_out=len({key[0] for key in keys}) - len(ids),
    )
    add_confidence(run, rollouts, spread, window, tail)
    for file in sorted((Path(path) / "scores").glob("*.jsonl")):
        add_scores(run, file, keys, spread)
    return run


def places(keys, skipped):
    """Row and column of each key in the [P, N] arrays, (None, None) for problems left out; and the shape."""
    rows, counts, place = {}, {}, []
    for problem, _ in keys:
        if problem in skipped:
            place.append((None, None))
            continue
        row = rows.setdefault(problem, len(rows))
        place.append((row, counts.get(row, 0)))
        counts[row] = counts.get(row, 0) + 1
    return place, (len(rows), max(counts.values(), default=0))


def add_confidence(run, rollouts, spread, window, tail):
    """The 28 rules as scores: as 01 stored them, or recomputed from tokens.pt for another window or tail."""
    if (window, tail) == (WINDOW, TAIL):
        values = [row["conf"] for row in rollouts]
    else:
        tokens = load_pt(run.path / "tokens.pt")
        offsets, stats = tokens["offsets"].tolist(), tokens["stats"].numpy()
        if len(offsets) != len(rollouts) + 1:
            die(f"{run.path}: tokens.pt holds {len(offsets) - 1} rollouts, rollouts.jsonl {len(rollouts)}")
        pairs = zip(offsets[:-1], offsets[1:])
        values = [confidence(stats[a:b], run.meta["vocab_size"], window, tail) for a, b in pairs]
    for rule in CONFIDENCE:
        sign = -1 if rule.split("/")[0] in LOWER_IS_BETTER else 1
        column = [None if value[rule] is None else sign * value[rule] for value in values]
        lowest = min((value for value in column if value is not None), default=0)
        # a rollout without tokens has no statistic: it ranks below all others
        run.scores[rule] = {"": spread([lowest - 1 if value is None else value for value in column], -np.inf)}
    lengths = [row["n_tokens"] for row in rollouts]
    run.scores["shortest"] = {"": spread([-length for length in lengths], -np.inf)}
    run.scores["longest"] = {"": spread(lengths, -np.inf)}


def add_scores(run, file, keys, spread):
    rows = align(read_jsonl(file, needs=("id", "sample", "score")), keys, file)
    for row in rows:
        if not isinstance(row["score"], (int, float)) or not math.isfinite(row["score"]):
            die(f"{file}: the score of {row['id']!r}, sample {row['sample']} is {row['score']!r}; every rollout needs a finite number")
    method, _, name = file.stem.partition("@")
    run.scores.setdefault(method, {})[name] = spread([row["score"] for row in rows], -np.inf)
    if all(row.get("p") is not None for row in rows):
        run.p.setdefault(method, {})[name] = spread([row["p"] for row in rows], 0)


# ---------------------------------------------------------------------------------------------------------------------
# Expected correctness of each problem, [P], when n of its rollouts are drawn and a method picks one


def first_of_subset(total, n):
    """[total]: the chance that the r-th best of `total` rollouts is the best of a random n-subset (r from 0)."""
    n = min(n, total)
    return np.array([math.comb(total - 1 - r, n - 1) / math.comb(total, n) for r in range(total)])


def pick_by_score(run, scores, n):
    """Exact over all n-subsets; ties go to the lowest sample number."""
    order = np.argsort(-scores, 1, kind="stable")
    ranked = np.take_along_axis(run.labels, order, 1)
    weights = np.zeros_like(ranked)
    for total in set(run.valid.sum(1)):
        weights[run.valid.sum(1) == total, :total] = first_of_subset(int(total), n)
    return (ranked * weights).sum(1)


def pick_random(run, n):
    return run.labels.sum(1) / run.valid.sum(1)


def pick_oracle(run, n):
    """1 - the chance that an n-subset holds no right answer."""
    total, right = run.valid.sum(1), run.labels.sum(1).astype(int)
    wrong = [math.comb(int(t - r), min(n, int(t))) / math.comb(int(t), min(n, int(t))) for t, r in zip(total, right)]
    return 1 - np.array(wrong)


def majority_credit(labels, groups, weights, scores):
    """The mean label of the largest group; tied groups share. No answer at all: nothing is right."""
    totals = group_totals(groups, weights)
    best = totals.max(-1, keepdims=True)
    share = np.where((totals == best) & np.isfinite(best), 1 / np.maximum(totals, 1), 0)  # 1/size: a group counts once
    return (share * labels).sum(-1) / np.maximum(share.sum(-1), 1e-9)


def weighted_credit(labels, groups, weights, scores):
    """The label of the rollout that stands for the winner."""
    winner = weighted_vote(groups, weights, scores)
    return np.take_along_axis(labels, winner[..., None], -1)[..., 0]


def pick_by_vote(run, credit, weights_of, scores, n):
    """[S, P] for S subsets of n rollouts: the whole set, or SUBSETS random ones where n is smaller."""
    credits = []
    for columns in random_subsets(run, n):
        labels, groups, some, valid = (np.take_along_axis(array, columns, 1) for array in (run.labels, run.groups, scores, run.valid))
        credits.append(credit(labels, groups, weights_of(some, valid), some))
    return np.array(credits)


@functools.lru_cache(maxsize=64)
def random_subsets(run, n):
    """[S, P, n] columns: the same subsets for every vote, so that votes are compared on the same draws."""
    if n >= run.labels.shape[1]:
        return np.broadcast_to(np.arange(run.labels.shape[1]), (1, *run.labels.shape))
    noise = np.random.default_rng(SEED).random((SUBSETS, *run.labels.shape))
    return np.argsort(np.where(run.valid, noise, 2), -1)[:, :, :n]  # padding is drawn last


def rank_of(scores):
    """0 for the best of its problem."""
    return np.argsort(np.argsort(-scores, -1, kind="stable"), -1, kind="stable")


def top_share(share):
    """Confidence as the weight of the best share of the rollouts, nothing for the rest (DeepConf, offline)."""
    return lambda scores, valid: np.where(valid & (rank_of(scores) < np.ceil(share * valid.sum(-1, keepdims=True))), scores, 0)


# name: (how the winner is credited, the score it uses, score and validity of the rollouts -> weights)
VOTES = {
    "majority vote": (majority_credit, "mean/tail", lambda scores, valid: 1.0 * valid),
    "confidence-weighted vote": (weighted_credit, "mean/tail", top_share(1.0)),
    "top 50% by confidence, vote": (weighted_credit, "mean/tail", top_share(0.5)),
    "top 10% by confidence, vote": (weighted_credit, "mean/tail", top_share(0.1)),
    "Borda vote, self-certainty": (weighted_credit, "self_certainty/avg", lambda s, valid: (s.shape[-1] - rank_of(s)) * valid),
}

# ---------------------------------------------------------------------------------------------------------------------
# Rows of the table


@dataclass
class Row:
    name: str
    kind: str  # baseline, vote, length, confidence, scorer, bound
    curves: list  # one per (run, score file): {n: [P] expected correctness}
    quality: dict  # AUROC and the like, for methods that score
    errors: dict  # n -> standard error of the subsets that a vote's accuracy is averaged over

    def problems(self, n):
        """[P]: expected correctness of each problem, averaged over the runs."""
        return np.mean([curve[n] for curve in self.curves], 0)

    def accuracy(self, n):
        return float(self.problems(n).mean())

    def spread(self, n):
        """Standard deviation over runs, None for a single one."""
        return float(np.std([curve[n].mean() for curve in self.curves], ddof=1)) if len(self.curves) > 1 else None


def sizes(runs):
    top = max(run.labels.shape[1] for run in runs)
    return [n for n in (1, 2, 4, 8, 12, 16, 32, 64, 128) if n < top] + [top]


def make_rows(runs):
    """All methods that every run has, over all runs."""
    ns = sizes(runs)
    rows = [Row("random", "baseline", [{n: pick_random(run, n) for n in ns} for run in runs], {}, {})]
    if all((run.groups >= 0).any() for run in runs):
        for name, (credit, rule, weights) in VOTES.items():
            rows.append(vote_row(name, "vote", ns, credit, weights, [(run, run.scores[rule][""]) for run in runs]))
    methods = set.intersection(*[set(run.scores) for run in runs])
    for method in sorted(methods, key=row_order):
        rows.append(score_row(runs, ns, method))
        if all(method in run.p and (run.groups >= 0).any() for run in runs):
            votes = [(run, p) for run in runs for p in run.p[method].values()]  # p ranks as the score does
            rows.append(vote_row(label_of(method) + ", weighted vote", "scorer", ns, weighted_credit, lambda p, valid: p * valid, votes))
    return rows + [Row("oracle", "bound", [{n: pick_oracle(run, n) for n in ns} for run in runs], {}, {})]


def row_order(method):
    """Sanity rows, confidence rules, other people's scorers, SCaTR last: next to the oracle."""
    kinds = ["length", "confidence", "scorer"]
    return kinds.index(kind_of(method)), method.startswith("scatr"), method


def kind_of(method):
    return "confidence" if method in CONFIDENCE else "length" if method in ("shortest", "longest") else "scorer"


def label_of(method):
    """scatr.math_a -> SCaTR (math_a)"""
    name, _, calibration = method.partition(".")
    name = {"scatr": "SCaTR", "logistic": "logistic regression", "lora": "LoRA verifier", "prm": "PRM"}.get(name, name)
    return f"{name} ({calibration})" if calibration else name


def score_row(runs, ns, method):
    curves, quality = [], []
    for run in runs:
        for name, scores in run.scores[method].items():
            curves.append({n: pick_by_score(run, scores, n) for n in ns})
            quality.append(score_quality(run, scores, run.p.get(method, {}).get(name)))
    means = {key: mean_of([q[key] for q in quality]) for key in quality[0]}
    kind = kind_of(method)
    return Row(label_of(method) + (", best-of-N" if kind == "scorer" else ""), kind, curves, means, {})


def vote_row(name, kind, ns, credit, weights, ballots):
    """ballots: (run, scores [P, N]) pairs, one curve each."""
    credits = [{n: pick_by_vote(run, credit, weights, scores, n) for n in ns} for run, scores in ballots]
    errors = {n: float(np.mean([(np.sqrt((c[n].var(0) / len(c[n])).sum()) / c[n].shape[1]) for c in credits])) for n in ns}
    return Row(name, kind, [{n: c[n].mean(0) for n in ns} for c in credits], {}, errors)


# ---------------------------------------------------------------------------------------------------------------------
# How good scores are as such: ranking over all rollouts, ranking inside a problem, calibration of probabilities


def score_quality(run, scores, p=None):
    right, given = run.labels[run.valid] > 0, scores[run.valid]
    quality = {"auroc": auroc(right, given), "auroc_within": auroc_within(run, scores), "ece": None}
    if p is not None:
        quality["ece"] = calibration_error(right, p[run.valid])
    return quality


def auroc(right, scores):
    """The chance that a right answer scores above a wrong one, ties half; None with a single class."""
    wins = right.sum() * (~right).sum()
    if wins == 0:
        return None
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    mean_rank = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return float((mean_rank[right].sum() - right.sum() * (right.sum() + 1) / 2) / wins)


def auroc_within(run, scores):
    """The same inside each problem, averaged over the problems that have both classes."""
    pairs = ((run.labels > 0) & run.valid)[:, :, None] & ((run.labels == 0) & run.valid)[:, None, :]
    higher = (scores[:, :, None] > scores[:, None, :]) + 0.5 * (scores[:, :, None] == scores[:, None, :])
    count = pairs.sum((1, 2))
    return mean_of(((pairs * higher).sum((1, 2))[count > 0] / count[count > 0]).tolist())


def calibration_error(right, p, bins=10):
    """Expected calibration error: |mean probability - share right|, weighted over equal-width bins."""
    bin_of = np.minimum((p * bins).astype(int), bins - 1)
    gaps = [abs((p[bin_of == b] - right[bin_of == b]).sum()) for b in range(bins)]
    return float(np.sum(gaps) / len(p))


def mean_of(values):
    values = [value for value in values if value is not None]
    return float(np.mean(values)) if values else None


# ---------------------------------------------------------------------------------------------------------------------
# Comparison and report


def compare(rows, n):
    """One dict a row: accuracy, spread, count, difference to the best confidence rule with its interval, gap closed, curve."""
    best = max((row for row in rows if row.kind == "confidence"), key=lambda row: row.accuracy(n))
    oracle = rows[-1].accuracy(n)
    problems = len(best.problems(n))
    draws = np.random.default_rng(SEED).multinomial(problems, np.full(problems, 1 / problems), DRAWS) / problems  # [B, P]
    differences = np.stack([row.problems(n) - best.problems(n) for row in rows], 1)  # [P, rows]
    low, high = np.percentile(draws @ differences, [2.5, 97.5], axis=0)
    results = []
    for i, row in enumerate(rows):
        delta, gap = float(differences[:, i].mean()), oracle - best.accuracy(n)
        results.append(
            {
                "method": row.name,
                "kind": row.kind,
                "accuracy": row.accuracy(n),
                "std": row.spread(n),
                "runs": len(row.curves),
                "correct": row.accuracy(n) * problems,
                "problems": problems,
                "delta": delta,
                "delta_low": float(low[i]),
                "delta_high": float(high[i]),
                "gap_closed": delta / gap if gap > 1e-12 else None,
                "best_confidence": row is best,
                "curve": {str(k): row.accuracy(k) for k in row.curves[0]},
                "curve_std": {str(k): row.spread(k) for k in row.curves[0]},
                "curve_subset_error": {str(k): error for k, error in row.errors.items()},
                **row.quality,
            }
        )
    return results


def percent(value, digits=1):
    return None if value is None else f"{100 * value:.{digits}f}"


def with_spread(result):
    return percent(result["accuracy"]) + (f" ± {percent(result['std'])}" if result["std"] is not None else "")


def main_table(results):
    """Everything but the 27 confidence rules that are not the best one."""
    ns = list(results[0]["curve"])
    header = ["method", "accuracy %", "right/problems", "Δ", "95% interval", "gap closed %", *[f"N={n}" for n in ns[:-1]]]
    rows = []
    for r in results:
        if r["kind"] == "confidence" and not r["best_confidence"]:
            continue
        name = f"best confidence: {r['method']}" if r["best_confidence"] else r["method"]
        apart = not r["best_confidence"]
        interval = f"[{percent(r['delta_low'])}, {percent(r['delta_high'])}]" if apart else None
        delta = f"{100 * r['delta']:+.1f}" if apart else None
        gap = percent(r["gap_closed"], 0) if apart and r["kind"] == "scorer" else None
        count = f"{r['correct']:.1f}/{r['problems']}".replace(".0/", "/")
        rows.append([name, with_spread(r), count, delta, interval, gap, *[percent(r["curve"][n]) for n in ns[:-1]]])
    return header, rows


def confidence_table(results):
    """Statistics by aggregations, the best cell marked."""
    by_name = {r["method"]: r for r in results if r["kind"] == "confidence"}
    cell = lambda r: percent(r["accuracy"]) + (" *" if r["best_confidence"] else "  ")
    return ["confidence rule", *AGGREGATIONS], [[s, *[cell(by_name[f"{s}/{a}"]) for a in AGGREGATIONS]] for s in STATISTICS]


def quality_table(results):
    rows = [r for r in results if r["kind"] == "scorer" and "auroc" in r or r["best_confidence"]]
    number = lambda value: None if value is None else f"{value:.3f}"
    header = ["scores as such", "AUROC", "within a problem", "calibration error"]
    return header, [[r["method"], number(r["auroc"]), number(r["auroc_within"]), number(r["ece"])] for r in rows]


def group_by_set(runs):
    """Runs of one model and one data set are repetitions; the others are compared."""
    groups = {}
    for run in runs:
        groups.setdefault((run.meta["model"], run.meta["dataset"]), []).append(run)
    for members in groups.values():
        for run in members[1:]:
            if run.ids != members[0].ids:
                die(f"{run.path} and {members[0].path}: {len(run.ids)} and {len(members[0].ids)} judged problems, not the same ones; report them apart")
    return groups


def describe(group):
    meta = group[0].meta
    left_out = sum(run.left_out for run in group)
    text = f"{Path(meta['model']).name} on {Path(meta['dataset']).name}: {len(group[0].ids)} problems, N={group[0].labels.shape[1]}"
    text += f", {len(group)} runs" if len(group) > 1 else ""
    return text + (f"; {left_out} problems left out of all rows: a label could not be judged" if left_out else "")


def report(groups, command):
    """(text for the terminal, markdown, results for programs)"""
    text, markdown, results = [], ["# Report", f"Made by `{command}`."], []
    for members in groups.values():
        rows = make_rows(members)
        compared = compare(rows, sizes(members)[-1])
        tables = [main_table(compared), confidence_table(compared), quality_table(compared)]
        text += [describe(members), "", *["\n".join([table(*t), ""]) for t in tables]]
        markdown += [f"## {describe(members)}", *[markdown_table(*t) for t in tables], provenance(members)]
        results.append({"runs": [str(run.path) for run in members], "meta": members[0].meta, "rows": compared,
                        "left_out": [run.left_out for run in members]})  # fmt: skip
    text.append(NOTE)
    return "\n".join(text), "\n\n".join([*markdown, NOTE]) + "\n", results


NOTE = """\
Mean ± standard deviation over runs (calibration sets × scorer seeds). Δ: points above the best confidence rule (*, picked
with hindsight), with a paired bootstrap interval over problems. N=k: exact expectation over all k-subsets; for votes the
mean of seeded subsets."""


def provenance(members):
    lines = [f"- `{run.path}`: {json.dumps({k: run.meta.get(k) for k in ('model', 'revision', 'dataset', 'seed', 'n', 'commit')})}" for run in members]
    return "\n".join(lines)


def main():
    args = parse_args()
    runs = [load_run(path, args.window, args.tail) for path in args.runs]
    groups = group_by_set(runs)
    command = "python 05_baselines.py " + " ".join(sys.argv[1:])
    text, markdown, results = report(groups, command)
    out = Path(args.out or (args.runs[0] if len(args.runs) == 1 else os.path.commonpath(args.runs)))
    write_json(out / "results.json", {"command": command, "window": args.window, "tail": args.tail, "groups": results})
    with atomic(out / "report.md") as file:
        file.write(markdown)
    print(text)
    print(json.dumps({"report": str(out / "report.md"), "accuracy": {r["method"]: round(r["accuracy"], 4) for r in results[0]["rows"] if r["kind"] != "confidence" or r["best_confidence"]}}))  # fmt: skip


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="labelled run folders")
    parser.add_argument("--out", help="folder for report.md and results.json (default: the run, or what the runs have in common)")
    parser.add_argument("--window", type=int, default=WINDOW, help="tokens in a confidence window; another than %(default)s is recomputed from tokens.pt")
    parser.add_argument("--tail", type=int, default=TAIL, help="tokens in the tail (default %(default)s), likewise")
    args = parser.parse_args()
    if args.window < 1 or args.tail < 1:
        die("--window and --tail count tokens: give at least 1")
    return args


if __name__ == "__main__":
    main()
