"""Every way to pick an answer, beside each other on the same rollouts: one table, exact expectations, honest intervals.

    python 05_baselines.py RUN                      a labelled run; its scores/*.jsonl (04, or your own) become rows
    python 05_baselines.py RUN RUN --out DIR        several: those of one model and data set are averaged
    python 05_baselines.py lora RUN_CAL --eval RUN  the run's model, fine-tuned to say whether an answer is right
    python 05_baselines.py prm RUN --prm NAME       a process reward model, such as Gen-Verse/ReasonFlux-PRM-1.5B
    python 05_baselines.py route RUN --math M.pt --code C.pt    the model names a problem's domain, its scorer picks

The first two read rollouts.jsonl, labels.jsonl and scores/*.jsonl of each run and write results.json (for programs) and
report.md (for people) into the run's folder, or into --out. The others write scores/NAME.jsonl, and NAME.cost.json with
what it cost beside it: rows of the next report.

A row for your own scorer: drop scores/NAME.jsonl into the run, {"id", "sample", "score"} a line, higher is better, with
"p" in [0, 1] beside it if votes may use it as a weight. Files METHOD.CALIBRATION@RUN.jsonl that differ only behind the
@ are runs of one method: the row shows their mean and standard deviation.

What the numbers are. Random, best-of-n by any score, majority vote (tied answers share the credit) and oracle at n < N
rollouts: the exact expectation over all n-subsets. Weighted votes: exact where the subsets are few, else the mean over
seeded random ones with its standard error. Delta: the difference to the best confidence rule (picked with hindsight on
these labels, which favours it) with a paired bootstrap interval over problems; "gap closed": Delta as a share of the
distance from that rule to the oracle. A problem with a label that could not be judged is left out of all rows alike.
"""

import argparse
import functools
import hashlib
import itertools
import json
import math
import os
import re
import shlex
import sys
import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import common

SUBSETS, DRAWS, SEED = 128, 1000, 0  # random subsets a vote's curve averages over, bootstrap draws, and their seed
BINS = 10  # of the probabilities, equally wide, for their calibration
CONFIDENCE = [f"{name}/{way}" for name in common.STATISTICS for way in common.AGGREGATIONS]

# ---------------------------------------------------------------------------------------------------------------------
# A labelled run as arrays [P problems, N rollouts]; a problem with fewer rollouts is padded at the end


@dataclass(eq=False)  # compared and hashed by identity: its subsets are cached
class Run:
    path: Path
    meta: dict
    ids: list  # [P] problem ids
    left_out: list  # ids of the problems with a label that could not be judged
    valid: np.ndarray  # [P, N] False where padded
    labels: np.ndarray  # [P, N] 0, 1
    groups: np.ndarray  # [P, N] equality class of the answer, -1: none
    scores: dict  # method -> run name -> [P, N], higher is better, -inf where padded
    p: dict  # method -> run name -> [P, N], for the methods that give probabilities
    costs: dict  # method -> what each of its files cost


def load_run(path, window=common.WINDOW, tail=common.TAIL, skipped=()):
    """`skipped`: ids of problems that another run of the same comparison leaves out."""
    meta, rollouts = common.read_meta(path), common.read_rollouts(path)
    keys = common.keys_of(rollouts)
    labels = common.read_labels(path, keys)
    skipped = {row["id"] for row in labels if row["label"] is None} | set(skipped)
    place, shape = places(keys, skipped)
    if shape[0] == 0:
        common.die(f"{path}: no problem has all its labels; 05 needs labelled runs (04 selects without)")

    def spread(values, empty):
        array = np.full(shape, empty, dtype=float)
        rows = [(problem, column, value) for (problem, column), value in zip(place, values) if problem is not None]
        problems, columns, kept = zip(*rows)
        array[list(problems), list(columns)] = kept
        return array

    run = Run(
        path=Path(path),
        meta=meta,
        ids=list(dict.fromkeys(key[0] for key, (problem, _) in zip(keys, place) if problem is not None)),
        left_out=sorted(skipped),
        valid=spread([1] * len(keys), 0) > 0,
        labels=spread([row["label"] or 0 for row in labels], 0),
        groups=spread([-1 if row.get("group") is None else row["group"] for row in labels], -1).astype(int),
        scores={},
        p={},
        costs={},
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
    if (window, tail) == (common.WINDOW, common.TAIL):
        if any("conf" not in row for row in rollouts):
            common.die(f"{run.path}: rollouts.jsonl has no token statistics; 01_generate.py --responses computes them")
        values = [row["conf"] for row in rollouts]
    else:
        tokens = common.load_pt(run.path / "tokens.pt")
        offsets, stats = tokens["offsets"].tolist(), tokens["stats"].numpy()
        if len(offsets) != len(rollouts) + 1:
            common.die(f"{run.path}: tokens.pt holds {len(offsets) - 1} rollouts, rollouts.jsonl {len(rollouts)}")
        pairs = zip(offsets[:-1], offsets[1:])
        values = [common.confidence(stats[a:b], run.meta["vocab_size"], window, tail) for a, b in pairs]
    for rule in CONFIDENCE:
        sign = -1 if rule.split("/")[0] in common.LOWER_IS_BETTER else 1
        column = [None if value[rule] is None else sign * value[rule] for value in values]
        lowest = min((value for value in column if value is not None), default=0)
        # a rollout without tokens has no statistic: it ranks below all others
        run.scores[rule] = {"": spread([lowest - 1 if value is None else value for value in column], -np.inf)}
    lengths = [row["n_tokens"] for row in rollouts]
    run.scores["shortest"] = {"": spread([-length for length in lengths], -np.inf)}
    run.scores["longest"] = {"": spread(lengths, -np.inf)}


def add_scores(run, file, keys, spread):
    rows = common.align(common.read_jsonl(file, needs=("id", "sample", "score")), keys, file)
    for row in rows:
        where = f"{file}: sample {row['sample']} of {row['id']!r}"
        if not isinstance(row["score"], (int, float)) or not abs(row["score"]) < 1e300:
            common.die(f"{where} has the score {row['score']!r}; every rollout needs a finite number")
        if row.get("p") is not None and (not isinstance(row["p"], (int, float)) or not 0 <= row["p"] <= 1):
            common.die(f"{where} has the p {row['p']!r}; it is a probability, or absent")
    method, _, name = file.stem.partition("@")
    if kind_of(method) != "scorer":
        common.die(f"{file}: the table has a row {method} of its own; give the file another name")
    run.scores.setdefault(method, {})[name] = spread([row["score"] for row in rows], -np.inf)
    if all(row.get("p") is not None for row in rows):
        run.p.setdefault(method, {})[name] = spread([row["p"] for row in rows], 0)
    if (cost := file.with_name(f"{file.stem}.cost.json")).is_file():
        run.costs.setdefault(method, []).append(common.read_json(cost))


# ---------------------------------------------------------------------------------------------------------------------
# Expected correctness of each problem, [P], when n of its rollouts are drawn and a method picks one


def pick_by_score(run, scores, n):
    """Exact over all n-subsets; ties go to the lowest sample number."""
    order = np.argsort(-scores, 1, kind="stable")
    ranked = np.take_along_axis(run.labels, order, 1)
    weights = np.zeros_like(ranked)
    for total in set(run.valid.sum(1)):
        weights[run.valid.sum(1) == total, :total] = common.first_of_subset(int(total), n)
    return (ranked * weights).sum(1)


def pick_random(run, n):
    return run.labels.sum(1) / run.valid.sum(1)


def pick_oracle(run, n):
    """1 - the chance that an n-subset holds no right answer."""
    total, right = run.valid.sum(1), run.labels.sum(1).astype(int)
    wrong = [math.comb(int(t - r), min(n, int(t))) / math.comb(int(t), min(n, int(t))) for t, r in zip(total, right)]
    return 1 - np.array(wrong)


def pick_by_majority(run, ns):
    """{n: [P]}, exact over all n-subsets; tied answers share the credit, a subset without an answer earns none.

    Counts the subsets with generating functions: the factor of an answer given s times is sum_k C(s, k) x^k over the k
    rollouts drawn of it. If the winner is drawn m times, the others stop at k = m, where a tie has the mark y; t ties
    share as 1 / (t + 1), the integral of y^t from 0 to 1, which Gauss-Legendre nodes give exactly.
    """
    sizes, right = answer_sizes(run)  # [P, G]
    total, top = run.valid.sum(1), run.valid.shape[1]
    choose = np.array([[math.comb(s, k) for k in range(top + 1)] for s in range(top + 1)], dtype=float)
    won = np.zeros((len(sizes), top + 1))  # right subsets by their size
    for m in range(1, sizes.max(initial=0) + 1):
        nodes, weights = np.polynomial.legendre.leggauss(top // m // 2 + 1)
        for y, weight in zip((nodes + 1) / 2, weights / 2):
            ways, wins = choose[total - sizes.sum(1)], np.zeros_like(won)  # rollouts without an answer go anywhere
            for size, hits in zip(sizes.T, right.T):
                factor = choose[size, : m + 1] * [*[1.0] * m, y]
                winning = choose[size, m] * hits / np.maximum(size, 1)
                wins = times(wins, factor)
                wins[:, m:] += ways[:, : top + 1 - m] * winning[:, None]
                ways = times(ways, factor)
            won += weight * wins
    rows, drawn = np.arange(len(sizes)), {n: np.minimum(n, total) for n in ns}
    return {n: won[rows, k] / choose[total, k] for n, k in drawn.items()}


def times(polynomials, factors):
    """[P, K] times [P, m + 1], cut to K coefficients."""
    product = polynomials * factors[:, :1]
    for k in range(1, factors.shape[1]):
        if factors[:, k].any():
            product[:, k:] += polynomials[:, :-k] * factors[:, k, None]
    return product


def answer_sizes(run):
    """([P, G] how often each answer of a problem was given, largest first; [P, G] how many of those are right)."""
    counts = [{} for _ in run.ids]
    for problem, column in zip(*np.nonzero(run.groups >= 0)):
        count = counts[problem].setdefault(run.groups[problem, column], [0, 0])
        count[0] += 1
        count[1] += int(run.labels[problem, column])
    sizes = np.zeros((len(counts), max(map(len, counts)), 2), dtype=int)
    for problem, answers in enumerate(counts):
        if answers:
            sizes[problem, : len(answers)] = sorted(answers.values(), reverse=True)
    return sizes[..., 0], sizes[..., 1]


def pick_by_vote(run, weights_of, scores, n):
    """[S, P] for S subsets of n rollouts: all of them where they are few, else SUBSETS random ones."""
    credits = []
    for columns in subsets_of(run, n):
        arrays = (run.labels, run.groups, scores, run.valid)
        labels, groups, some, valid = (np.take_along_axis(array, columns, 1) for array in arrays)
        winner = common.weighted_vote(groups, weights_of(some, valid), some)
        credits.append(np.take_along_axis(labels, winner[:, None], 1)[:, 0])
    return np.array(credits)


def has_few_subsets(run, n):
    return n >= run.valid.shape[1] or (run.valid.all() and math.comb(run.valid.shape[1], n) <= SUBSETS)


@functools.lru_cache(maxsize=64)
def subsets_of(run, n):
    """[S, P, n] columns: the same subsets for every vote, so that votes are compared on the same draws."""
    problems, top = run.labels.shape
    if has_few_subsets(run, n):
        some = np.array(list(itertools.combinations(range(top), min(n, top))))
        return np.broadcast_to(some[:, None], (len(some), problems, some.shape[1]))
    noise = np.random.default_rng(SEED).random((SUBSETS, problems, top))
    return np.sort(np.argsort(np.where(run.valid, noise, 2), -1)[:, :, :n], -1)  # padding is drawn last


def rank_of(scores):
    """0 for the best of its problem."""
    return np.argsort(np.argsort(-scores, -1, kind="stable"), -1, kind="stable")


def count_of(valid):
    return valid.sum(-1, keepdims=True)


def top_share(share):
    """Confidence as the weight of the best share of the rollouts, nothing for the rest (DeepConf, offline)."""
    return lambda scores, valid: np.where(valid & (rank_of(scores) < np.ceil(share * count_of(valid))), scores, 0)


# name: (the score it uses, score and validity of the rollouts -> weights)
VOTES = {
    "confidence-weighted vote": ("mean/tail", top_share(1.0)),
    "top 90% by confidence, vote": ("mean/tail", top_share(0.9)),
    "top 10% by confidence, vote": ("mean/tail", top_share(0.1)),
    "Borda vote, self-certainty": ("self_certainty/avg", lambda s, valid: (count_of(valid) - rank_of(s)) * valid),
}

# ---------------------------------------------------------------------------------------------------------------------
# Rows of the table


@dataclass
class Row:
    name: str
    kind: str  # baseline, vote, length, confidence, scorer, bound
    curves: list  # one per (run, score file): {n: [P] expected correctness}
    method: str = ""  # the score files' name before the @
    quality: dict = field(default_factory=dict)  # AUROC and the like, for methods that score
    errors: dict = field(default_factory=dict)  # n -> standard error of a vote's mean over random subsets

    def problems(self, n):
        """[P]: expected correctness of each problem, averaged over the runs."""
        return np.mean([curve[n] for curve in self.curves], 0)

    def accuracy(self, n):
        return float(self.problems(n).mean())

    def spread(self, n):
        """Standard deviation over runs, None for a single one."""
        return float(np.std([curve[n].mean() for curve in self.curves], ddof=1)) if len(self.curves) > 1 else None


def sizes_of(runs):
    top = max(run.labels.shape[1] for run in runs)
    return [n for n in (1, 2, 4, 8, 12, 16, 32, 64, 128) if n < top] + [top]


def make_rows(runs):
    """All methods that every run has, over all runs."""
    ns, votable = sizes_of(runs), all((run.groups >= 0).any() for run in runs)
    rows = [Row("random", "baseline", [{n: pick_random(run, n) for n in ns} for run in runs])]
    if votable:
        rows.append(Row("majority vote", "vote", [pick_by_majority(run, ns) for run in runs]))
        for name, (rule, weights) in VOTES.items():
            rows.append(vote_row(name, "vote", ns, weights, [(run, run.scores[rule][""]) for run in runs]))
    methods = set.intersection(*[set(run.scores) for run in runs])
    for method in sorted(methods, key=row_order):
        rows.append(score_row(runs, ns, method))
        if votable and all(method in run.p for run in runs):
            ballots = [(run, p) for run in runs for p in run.p[method].values()]  # p ranks as the score does
            weights = lambda p, valid: p * valid
            rows.append(vote_row(label_of(method) + ", weighted vote", "scorer", ns, weights, ballots, method))
    return rows + [Row("oracle", "bound", [{n: pick_oracle(run, n) for n in ns} for run in runs])]


def row_order(method):
    """Sanity rows, confidence rules, other people's scorers, SCaTR last: next to the oracle."""
    kinds = ["length", "confidence", "scorer"]
    return kinds.index(kind_of(method)), method.startswith("scatr"), method


def kind_of(method):
    return "confidence" if method in CONFIDENCE else "length" if method in ("shortest", "longest") else "scorer"


def label_of(method):
    """scatr.math_a -> SCaTR (math_a)"""
    name, _, calibration = method.partition(".")
    known = {"scatr": "SCaTR", "logistic": "logistic regression", "lora": "LoRA verifier", "prm": "PRM",
             "routed": "SCaTR, routed by domain", "mixed": "SCaTR, mixed domains"}  # fmt: skip
    name = known.get(name, name)
    return f"{name} ({calibration})" if calibration else name


def score_row(runs, ns, method):
    curves, quality, bins = [], [], np.zeros((BINS, 3))
    for run in runs:
        for name, scores in run.scores[method].items():
            p = run.p.get(method, {}).get(name)
            curves.append({n: pick_by_score(run, scores, n) for n in ns})
            quality.append(score_quality(run, scores, p))
            bins += 0 if p is None else calibration_bins(run.labels[run.valid] > 0, p[run.valid])
    means = {key: mean_of([q[key] for q in quality]) for key in quality[0]}
    means["reliability"] = bins.tolist() if bins.any() else None
    kind = kind_of(method)
    return Row(label_of(method) + (", best-of-N" if kind == "scorer" else ""), kind, curves, method, means)


def vote_row(name, kind, ns, weights, ballots, method=""):
    """ballots: (run, scores [P, N]) pairs, one curve each."""
    credits = [{n: pick_by_vote(run, weights, scores, n) for n in ns} for run, scores in ballots]
    sampled = [n for n in ns if not all(has_few_subsets(run, n) for run, _ in ballots)]
    errors = {n: float(np.mean([subset_error(c[n]) for c in credits])) for n in sampled}
    return Row(name, kind, [{n: c[n].mean(0) for n in ns} for c in credits], method, {}, errors)


def subset_error(credits):
    """Standard error of the mean of credits [S, P], drawn S times and independently for each problem."""
    draws, problems = credits.shape
    return float(np.sqrt((credits.var(0, ddof=1) / draws).sum()) / problems) if draws > 1 else 0.0


# ---------------------------------------------------------------------------------------------------------------------
# How good scores are as such: ranking over all rollouts, ranking inside a problem, calibration of probabilities


def score_quality(run, scores, p=None):
    right, given = run.labels[run.valid] > 0, scores[run.valid]
    quality = {"auroc": common.auroc(right, given), "auroc_within": auroc_within(run, scores), "ece": None}
    if p is not None:
        quality["ece"] = calibration_error(right, p[run.valid])
    return quality


def auroc_within(run, scores):
    """The same inside each problem, averaged over the problems that have both classes."""
    pairs = ((run.labels > 0) & run.valid)[:, :, None] & ((run.labels == 0) & run.valid)[:, None, :]
    higher = (scores[:, :, None] > scores[:, None, :]) + 0.5 * (scores[:, :, None] == scores[:, None, :])
    count = pairs.sum((1, 2))
    return mean_of(((pairs * higher).sum((1, 2))[count > 0] / count[count > 0]).tolist())


def calibration_bins(right, p):
    """[BINS, 3]: of each equal-width bin the sum of the probabilities, of the right answers, and their number."""
    bin_of = np.minimum((p * BINS).astype(int), BINS - 1)
    return np.stack([np.bincount(bin_of, of, BINS) for of in (p, right, np.ones_like(p))], 1)


def calibration_error(right, p):
    """Expected calibration error: |mean probability - share right|, weighted over the bins."""
    bins = calibration_bins(right, p)
    return float(np.abs(bins[:, 0] - bins[:, 1]).sum() / len(p))


def mean_of(values):
    values = [value for value in values if value is not None]
    return float(np.mean(values)) if values else None


# ---------------------------------------------------------------------------------------------------------------------
# Comparison


def compare(rows, n):
    """One dict a row: accuracy, spread, count, difference to the best confidence rule with its interval, curve."""
    best = max((row for row in rows if row.kind == "confidence"), key=lambda row: row.accuracy(n))
    oracle = rows[-1].accuracy(n)
    problems = len(best.problems(n))
    draws = np.random.default_rng(SEED).multinomial(problems, [1 / problems] * problems, DRAWS) / problems  # [B, P]
    differences = np.stack([row.problems(n) - best.problems(n) for row in rows], 1)  # [P, rows]
    low, high = np.percentile(draws @ differences, [2.5, 97.5], axis=0)
    results = []
    for i, row in enumerate(rows):
        delta, gap = float(differences[:, i].mean()), oracle - best.accuracy(n)
        results.append(
            {
                "method": row.name,
                "kind": row.kind,
                "scores": row.method,
                "best_of_n": bool(row.quality),
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


def add_costs(results, members):
    """What a method's files cost, on average, beside its best-of-N row."""
    for result in results:
        costs = [cost for run in members for cost in run.costs.get(result["scores"], [])]
        if result["best_of_n"] and costs:
            keys = ("parameters", "trained_parameters", "train_seconds", "train_flops", "ms_per_problem")
            result["cost"] = {key: mean_of([cost.get(key) for cost in costs]) for key in keys}
            result["made_by"] = sorted({cost["command"] for cost in costs if "command" in cost})


# ---------------------------------------------------------------------------------------------------------------------
# Tables: (title, header, rows)


def percent(value, digits=1):
    return None if value is None else f"{round(100 * value, digits) + 0.0:.{digits}f}"  # + 0.0: no "-0.0"


def points(value):
    return f"{100 * value:+.1f}"


def with_spread(result):
    return percent(result["accuracy"]) + (f" ± {percent(result['std'])}" if result["std"] is not None else "")


def tables_of(results):
    tables = [main_table(results), confidence_table(results), quality_table(results), cost_table(results)]
    return [of for of in [*tables, error_table(results)] if of[2]]


def main_table(results):
    """Everything but the 27 confidence rules that are not the best one."""
    ns = list(results[0]["curve"])[:-1]
    header = ["method", "accuracy %", "right/problems", "Δ", "95% interval", "gap closed %", *[f"N={n}" for n in ns]]
    rows = []
    for r in results:
        if r["best_confidence"]:
            name, gain = f"best confidence: {r['method']}", [None, None, None]
        elif r["kind"] != "confidence":
            name, interval = r["method"], f"[{percent(r['delta_low'])}, {percent(r['delta_high'])}]"
            gain = [points(r["delta"]), interval, percent(r["gap_closed"], 0) if r["kind"] == "scorer" else None]
        else:
            continue
        count = f"{r['correct']:.1f}/{r['problems']}".replace(".0/", "/")
        rows.append([name, with_spread(r), count, *gain, *[percent(r["curve"][n]) for n in ns]])
    return "Methods", header, rows


def confidence_table(results):
    """Statistics by aggregations, the best cell marked."""
    by_name = {r["method"]: r for r in results if r["kind"] == "confidence"}
    cell = lambda r: percent(r["accuracy"]) + (" *" if r["best_confidence"] else "  ")
    rows = [[s, *[cell(by_name[f"{s}/{a}"]) for a in common.AGGREGATIONS]] for s in common.STATISTICS]
    return "Confidence rules", ["confidence rule", *common.AGGREGATIONS], rows


def quality_table(results):
    rows = [r for r in results if r["kind"] == "scorer" and r["best_of_n"] or r["best_confidence"]]
    number = lambda value: None if value is None else f"{value:.3f}"
    header = ["scores as such", "AUROC", "within a problem", "calibration error"]
    keys = ("auroc", "auroc_within", "ece")
    return "Scores", header, [[r["method"], *[number(r[key]) for key in keys]] for r in rows]


def cost_table(results):
    """As measured; the last columns say how many times faster a method is than each learned verifier."""
    rows = [r for r in results if "cost" in r]
    verifiers = [r for r in rows if r["scores"].partition(".")[0] in ("lora", "prm") and len(rows) > 1]
    header = ["cost", "parameters", "trained", "training min", "training TFLOPs", "ms/problem", "accuracy %"]
    number = lambda value, unit=1: value and (f"{value / unit:,.0f}" if value >= 100 * unit else f"{value / unit:.3g}")
    cells = []
    for r in rows:
        cost, slower = r["cost"], [v["cost"]["ms_per_problem"] if v is not r else None for v in verifiers]
        sizes = [short(cost["parameters"]), short(cost["trained_parameters"])]
        spent = [number(cost["train_seconds"], 60), number(cost["train_flops"], 1e12), number(cost["ms_per_problem"])]
        faster = [ms and f"{number(ms, cost['ms_per_problem'])}×" for ms in slower]
        cells.append([label_of(r["scores"]), *sizes, *spent, with_spread(r), *faster])
    return "Costs", [*header, *[f"speed-up over {label_of(v['scores'])}" for v in verifiers]], cells


def short(count):
    """1500000 -> 1.5M"""
    if count is None:
        return None
    size, unit = next((size, unit) for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k"), (0, "")) if count >= size)
    return f"{count / (size or 1):.3g}{unit}"


def error_table(results):
    """Points; for the votes whose subsets were drawn at random."""
    rows = [r for r in results if r["curve_subset_error"]]
    ns = sorted({n for r in rows for n in r["curve_subset_error"]}, key=int)
    cells = [[r["method"], *[percent(r["curve_subset_error"].get(n), 2) for n in ns]] for r in rows]
    return "Sampling error", ["standard error of the mean over subsets", *[f"N={n}" for n in ns]], cells


def summary_table(groups):
    """One row for each model, data set and calibration set, as the paper's main tables are."""
    header = ["model", "calibration set", "test", "SCaTR", "best confidence", "LoRA", "PRM", "SCaTR-WMV",
              "SCaTR routed", "SCaTR mixed", "majority", "oracle", "Δ", "gap closed %"]  # fmt: skip
    rows = []
    for group in groups:
        scored = {(r["scores"], r["best_of_n"]): r for r in group["rows"] if r["scores"]}
        named = {r["method"]: r for r in group["rows"]}
        best = next(r for r in group["rows"] if r["best_confidence"])
        prm = next((r for (name, best_of_n), r in scored.items() if name.startswith("prm.") and best_of_n), None)
        others = [scored.get((name, True)) for name in ("routed", "mixed")]
        others += [named.get("majority vote"), named["oracle"]]
        for method in [name for name, best_of_n in scored if name.startswith("scatr") and best_of_n] or [""]:
            calibration, scatr = method.partition(".")[2], scored.get((method, True))
            found = [scatr, best, scored.get((f"lora.{calibration}", True)), prm, scored.get((method, False)), *others]
            gain = [points(scatr["delta"]), percent(scatr["gap_closed"])] if scatr else [None, None]
            rows.append([group["model"], calibration, group["dataset"], *[r and with_spread(r) for r in found], *gain])
    kept = [i for i, column in enumerate(zip(*rows)) if any(column)]
    return "Summary", [header[i] for i in kept], [[row[i] for i in kept] for row in rows]


def study_table(path):
    """What a study of 03 found, as it found it."""
    study = common.read_json(path)
    if not isinstance(study, dict) or not study.get("rows"):
        common.die(f"{path}: not a study of 03_train_scorer.py")
    ns = [f"best of {n} %" for n in study["rows"][0]["n"]]
    rows = []
    for row in study["rows"]:
        spread = np.std(row["scorers"], 0, ddof=1) if len(row["scorers"]) > 1 else [None] * len(ns)
        cells = [f"{mean:.1f}" + ("" if std is None else f" ± {std:.1f}") for mean, std in zip(row["accuracy"], spread)]
        rows.append([row["row"], *cells, f"{row['difference']:+.1f} ± {row['standard_error']:.1f}"])
    return study["study"], [study["study"], *ns, "Δ to the first"], rows


def latex_rows(header, rows):
    signs = {"\\": r"\textbackslash{}", "±": r"$\pm$", "Δ": r"$\Delta$", "×": r"$\times$"}
    signs |= {sign: "\\" + sign for sign in "%_&#${}"} | {"^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
    escape = lambda cell: "" if cell is None else "".join(signs.get(sign, sign) for sign in str(cell).strip())
    return "\n".join(" & ".join(map(escape, row)) + r" \\" for row in [header, *rows])


# ---------------------------------------------------------------------------------------------------------------------
# The report


def report(args):
    if args.plots:
        import_matplotlib()
    out = report_folder(args)
    groups = [report_group(members) for members in load_groups(args.runs, args.window, args.tail)]
    tables = [(group["title"], tables_of(group["rows"])) for group in groups]
    tables.append(("All runs", [summary_table(groups)]))
    tables += [("Studies", [study_table(path) for path in args.studies])] if args.studies else []
    facts = {"command": the_command(), "window": args.window, "tail": args.tail, "groups": groups}
    common.write_json(out / "results.json", facts)
    write_text(out / "report.md", markdown(groups, tables, plot(out, groups) if args.plots else {}))
    if args.latex:
        parts = [f"% {title}: {of[0]}\n{latex_rows(*of[1:])}\n" for title, several in tables for of in several]
        write_text(out / "tables.tex", "\n".join(parts))
    for title, several in tables:
        if title != "All runs" or len(groups) > 1:
            shown = [common.table(*of[1:]) for of in several if of[0] != "Sampling error"]
            print(title, *shown, sep="\n\n", end="\n\n")
    print(NOTE)
    rows = [r for r in groups[0]["rows"] if r["kind"] != "confidence" or r["best_confidence"]]
    accuracy = {r["method"]: round(r["accuracy"], 4) for r in rows}
    if args.json:
        print(json.dumps({"report": str(out / "report.md"), "accuracy": accuracy}))
    else:
        print(f"\n{out / 'report.md'}")


NOTE = """\
Mean ± standard deviation over runs (calibration sets × scorer seeds). Δ: points above the best confidence rule (*,
picked with hindsight), with a paired bootstrap interval over problems. N=k: the exact expectation over all k-subsets; for
weighted votes with many subsets the mean of seeded random ones, whose standard error report.md states."""


def load_groups(paths, window, tail):
    """Runs of one model and data set are repetitions: one list. A problem that one cannot judge is left out of all."""
    groups = {}
    if len({os.path.realpath(path) for path in paths}) < len(paths):
        common.die("a run is given twice; each counts as a repetition of its own")
    for path in paths:
        meta = common.read_meta(path)
        groups.setdefault((common.model_name(meta), dataset_name(meta)), []).append(path)
    for members in groups.values():
        skipped = {row["id"] for path in members for row in common.read_labels(path) if row["label"] is None}
        runs = [load_run(path, window, tail, skipped) for path in members]
        for run in runs[1:]:
            if run.ids != runs[0].ids:
                counts = f"{len(run.ids)} and {len(runs[0].ids)} judged problems"
                common.die(f"{run.path} and {runs[0].path}: {counts}, not the same ones; report them apart")
            if run.labels.shape != runs[0].labels.shape:
                n = f"{run.labels.shape[1]} and {runs[0].labels.shape[1]}"
                common.die(f"{run.path} and {runs[0].path}: {n} rollouts a problem; report them apart")
        yield runs


def report_group(members):
    rows = compare(make_rows(members), sizes_of(members)[-1])
    add_costs(rows, members)
    names, meta = [set(run.scores) for run in members], members[0].meta
    routes = [run.path / "routes.json" for run in members]
    group = {
        "model": common.model_name(meta),
        "dataset": dataset_name(meta),
        "problems": len(members[0].ids),
        "rollouts_per_problem": members[0].labels.shape[1],
        "runs": [str(run.path) for run in members],
        "left_out": members[0].left_out,
        "not_in_every_run": sorted(set.union(*names) - set.intersection(*names)),
        "routing": [{"run": str(path.parent), **common.read_json(path)} for path in routes if path.is_file()],
        "metas": [run.meta for run in members],
        "rows": rows,
    }
    return {"title": title_of(group), **group}


def dataset_name(meta):
    return Path(meta["dataset"]).name.split(".json")[0]


def title_of(group):
    text = f"{group['model']} on {group['dataset']}: {group['problems']} problems, N={group['rollouts_per_problem']}"
    text += f", {len(group['runs'])} runs" if len(group["runs"]) > 1 else ""
    if group["left_out"]:
        text += f"; {len(group['left_out'])} problems left out of all rows: a label could not be judged"
    if group["not_in_every_run"]:
        text += f"; no row for {', '.join(group['not_in_every_run'])}: not in every run"
    return text


def markdown(groups, tables, figures):
    """report.md: the tables, the figures, and what made them."""
    parts = ["# Report", f"Made by `{the_command()}`."]
    for (title, several), group in itertools.zip_longest(tables, groups):
        parts += [f"## {title}", *[f"### {of[0]}\n\n{common.markdown_table(*of[1:])}" for of in several]]
        parts += [f"![{name}]({name})" for name in figures.get(title, [])]
        parts += [provenance(group)] if group else []
    return "\n\n".join([*parts, NOTE]) + "\n"


def report_folder(args):
    """--out, else the run's folder, or the one that holds all runs."""
    shared = Path(args.runs[0] if len(args.runs) == 1 else os.path.commonpath(map(os.path.abspath, args.runs)))
    if not args.out and shared.is_absolute() and shared.parent == shared:
        common.die(f"the runs share no folder but {shared}; say where the report goes: --out DIR")
    return Path(args.out or shared)


def provenance(group):
    facts = ("model", "revision", "dataset", "seed", "n", "git")
    made = zip(group["runs"], group["metas"])
    lines = [f"- `{run}`: {json.dumps({key: meta.get(key) for key in facts})}" for run, meta in made]
    lines += [f"- `{command}`" for command in sorted({c for row in group["rows"] for c in row.get("made_by", [])})]
    lines += [f"- domains named by the model, right: {routing_text(routes)}" for routes in group["routing"]]
    return "\n".join(lines)


def write_text(path, text):
    with common.atomic(path) as file:
        file.write(text)


# ---------------------------------------------------------------------------------------------------------------------
# Figures


def import_matplotlib():
    try:
        import matplotlib
    except ImportError:
        common.die("--plots needs matplotlib: pip install matplotlib")
    matplotlib.use("Agg")


def plot(out, groups):
    """{title: names of the PNG files}: accuracy against n, and how the probabilities of the scorers hold."""
    figures = {}
    for number, group in enumerate(groups, 1):
        for name, draw in (("curves", draw_curves), ("reliability", draw_reliability)):
            if draw(out / f"{name}-{number}.png", group):
                figures.setdefault(group["title"], []).append(f"{name}-{number}.png")
    return figures


@contextmanager
def figure(path, **settings):
    from matplotlib import pyplot

    canvas, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    yield axes
    axes.set(**settings)
    canvas.legend(loc="outside right upper", fontsize="small")
    with common.atomic(path, "wb") as file:
        canvas.savefig(file, format="png", dpi=150)
    pyplot.close(canvas)


def draw_curves(path, group):
    ns = [int(n) for n in group["rows"][0]["curve"]]
    axis = {"xscale": "log", "xticks": ns, "xticklabels": ns}
    with figure(path, title=group["title"], xlabel="rollouts a problem", ylabel="accuracy %", **axis) as axes:
        for r in group["rows"]:
            if r["kind"] in ("baseline", "bound", "scorer") or r["best_confidence"] or r["method"] == "majority vote":
                values, spread = [[100 * (value or 0) for value in r[key].values()] for key in ("curve", "curve_std")]
                style = {"baseline": {"fmt": "k:"}, "bound": {"fmt": "k--"}}.get(r["kind"], {"fmt": ".-", "capsize": 2})
                axes.errorbar(ns, values, spread if any(spread) else None, label=r["method"], **style)
        axes.minorticks_off()
    return True


def draw_reliability(path, group):
    rows = [r for r in group["rows"] if r.get("reliability")]
    if rows:
        with figure(path, title=group["title"], xlabel="probability given", ylabel="share that is right") as axes:
            axes.plot([0, 1], [0, 1], "--", color="grey")
            for r in rows:
                points = [(p / count, right / count) for p, right, count in r["reliability"] if count]
                axes.plot(*zip(*points), marker="o", label=f"{label_of(r['scores'])}, error {r['ece']:.3f}")
    return bool(rows)


# ---------------------------------------------------------------------------------------------------------------------
# Learned verifiers: what they share

TOKENS_AT_ONCE = 16384  # in one forward pass, padding included; bounds the memory


def final_states(model, sequences):
    """[[T, d], ...]: the states the model's head reads. Padding is to the right, where a causal model does not look."""
    import torch

    width = max(map(len, sequences))
    ids = torch.tensor([[*sequence, *[0] * (width - len(sequence))] for sequence in sequences], device=model.device)
    states = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
    return [state[: len(sequence)] for state, sequence in zip(states, sequences)]


def next_logits(model, sequences):
    """[B, vocabulary] after each sequence; only there, since all positions of a long answer would take gigabytes."""
    import torch

    return model.get_output_embeddings()(torch.stack([states[-1] for states in final_states(model, sequences)])).float()


def in_batches(sequences):
    """Lists of places, of like length; none over TOKENS_AT_ONCE with its padding unless it is one sequence."""
    batch = []
    for place in sorted(range(len(sequences)), key=lambda i: len(sequences[i])):
        if batch and (len(batch) + 1) * len(sequences[place]) > TOKENS_AT_ONCE:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def judge_all(judge, sequences):
    """judge(batch) -> a list, for all sequences, in their order."""
    import torch

    results = [None] * len(sequences)
    with torch.inference_mode():
        for places in in_batches(sequences):
            for place, result in zip(places, judge([sequences[place] for place in places]), strict=True):
                results[place] = result
    return results


def with_probability(logits):
    return list(zip(logits.tolist(), logits.sigmoid().tolist()))


def fit_answer(tokenizer, answer, keep, model, write):
    """Token ids of write(text) with the last `keep` tokens of an answer, fewer where the model's context is short."""
    context = getattr(model.config.get_text_config(), "max_position_embeddings", None) or 2**20
    answer = re.sub(r"<\|(?:start|channel)\|>\w*|<\|\w+\|>", " ", answer)  # gpt-oss's channels, and what ends a turn
    tokens = tokenizer(answer, add_special_tokens=False)["input_ids"][-keep:]
    ids = write(tokenizer.decode(tokens, skip_special_tokens=True))
    while len(ids) > context and tokens:
        tokens = tokens[len(ids) - context :]
        ids = write(tokenizer.decode(tokens, skip_special_tokens=True))
    return ids[-context:]


def has_channels(tokenizer):
    """gpt-oss"""
    return tokenizer.convert_tokens_to_ids("<|channel|>") not in (None, tokenizer.unk_token_id)


def direct_prompt(tokenizer, question):
    """Token ids of a question whose very next token is the answer: no reasoning before it."""
    ids = list(common.encode_prompt(tokenizer, {"kind": "text", "prompt": question}, thinking=False))
    skip = ""
    if has_channels(tokenizer):
        skip = "<|channel|>final<|message|>"
    elif tokenizer.decode(ids[-16:]).rstrip().endswith("<think>"):
        skip = "\n</think>\n\n"
    return ids + tokenizer(skip, add_special_tokens=False)["input_ids"]


def check_one_model(runs):
    names = [common.model_name(common.read_meta(run)) for run in runs]
    for run, name in zip(runs, names):
        if name != names[0]:
            common.die(f"{runs[0]} is of the model {names[0]!r}, {run} of {name!r}; this needs runs of one model")


def load_run_model(args, run):
    meta = common.read_meta(run)
    if args.model:
        return common.load_model(args.model, args.device)
    return common.load_model(meta["model"], args.device, revision=meta.get("revision"))


def mark_of(facts, *files):
    """Of all that decides a result: the same mark, the same result."""
    contents = [Path(file).read_bytes() for file in files if Path(file).is_file()]
    return hashlib.sha256(b"\n".join([json.dumps(facts, sort_keys=True).encode(), *contents])).hexdigest()


def is_scored(run, name, mark):
    scores, cost = Path(run) / "scores" / f"{name}.jsonl", Path(run) / "scores" / f"{name}.cost.json"
    if not scores.is_file() or not cost.is_file() or common.read_json(cost).get("mark") != mark:
        return False
    print(f"{scores}: finished before")
    return True


def score_rollouts(run, name, mark, encode, judge, cost, at_once=256):
    """scores/NAME.jsonl and what it cost. encode(problem, response) -> token ids; judge(batch) -> [(score, p)].

    What is known is written every `at_once` rollouts: a killed run goes on from there.
    """
    run, rollouts = Path(run), common.read_rollouts(run)
    common.check_same_problems(run, rollouts)
    problems = {row["id"]: row for row in common.read_jsonl(run / "problems.jsonl")}
    partial, done = run / "scores" / f"{name}.partial.json", {"mark": mark, "seconds": 0.0, "scores": []}
    if partial.is_file() and common.read_json(partial).get("mark") == mark:
        done = common.read_json(partial)
    order = sorted(range(len(rollouts)), key=lambda i: rollouts[i]["n_tokens"])  # like lengths, little padding
    with common.progress(total=len(order), initial=len(done["scores"]), desc=f"{name} {run}", unit="rollout") as bar:
        while rest := order[len(done["scores"]) :][:at_once]:
            started = time.perf_counter()
            texts = [(problems[rollouts[i]["id"]], rollouts[i]["response"]) for i in rest]
            done["scores"] += judge_all(judge, [encode(problem, response) for problem, response in texts])
            done["seconds"] += time.perf_counter() - started
            common.write_json(partial, done)
            bar.update(len(rest))
    in_order = [pair for _, pair in sorted(zip(order, done["scores"], strict=True))]
    write_scores(run, name, common.keys_of(rollouts), in_order)
    cost = {"mark": mark, "command": the_command(), **cost, "ms_per_problem": 1000 * done["seconds"] / len(problems)}
    common.write_json(run / "scores" / f"{name}.cost.json", cost)
    partial.unlink()
    print(f"{run / 'scores' / name}.jsonl: {len(rollouts)} rollouts, {cost['ms_per_problem']:.1f} ms a problem")


def write_scores(run, name, keys, pairs):
    """pairs: (score, p) of each key."""
    rows = zip(keys, pairs, strict=True)
    rows = [{"id": key[0], "sample": key[1], "score": score, "p": p} for key, (score, p) in rows]
    common.write_jsonl(Path(run) / "scores" / f"{name}.jsonl", rows)


# ---------------------------------------------------------------------------------------------------------------------
# LoRA verifier: the model that made the rollouts learns to say yes or no after them

RANK, ALPHA, DROPOUT = 16, 32, 0.05
BATCH, WARM_UP, CLIP = 16, 100, 1.0  # rollouts a step, steps until the full learning rate, norm of the gradient
SAVE_EVERY = 20  # steps
QUESTION = """\
Determine the correctness of the following answer:
Problem: {problem}
Answer: {answer}
Is this answer correct (yes/no)?"""


def lora(args):
    check_one_model([args.run, *args.eval])
    jobs = [job for job in (lora_job(args, seed) for seed in args.seed) if not job["trained"] or job["scores"]]
    if not jobs:
        return
    examples = read_examples(args.run, args.limit)
    model, tokenizer = load_run_model(args, args.run)
    words, adapters = yes_and_no(tokenizer), add_adapters(model)
    keep = args.last_tokens or (4096 if has_channels(tokenizer) else 16384)

    def encode(problem, response):
        write = lambda answer: direct_prompt(tokenizer, QUESTION.format(problem=problem["prompt"], answer=answer))
        return fit_answer(tokenizer, response, keep, model, write)

    def judge(batch):
        yes, no = next_logits(model, batch)[:, words].unbind(-1)
        return with_probability(yes - no)

    for job in jobs:
        if not job["trained"]:
            train_adapters(model, adapters, examples, encode, words, args, job)
        cost = load_adapters(adapters, job["path"])["cost"]
        for run, (name, mark) in job["scores"].items():
            score_rollouts(run, name, mark, encode, judge, cost)


def lora_job(args, seed):
    """What is still to do for a seed: training, and the runs to score."""
    run, meta = Path(args.run), common.read_meta(args.run)
    facts = [seed, meta["model"], args.model, args.epochs, args.lr, args.last_tokens, args.limit]
    mark, path = mark_of(facts, run / "labels.jsonl", run / "rollouts.jsonl"), run / f"lora@{seed}.pt"
    trained = path.is_file() and common.load_pt(path)["mark"] == mark
    if trained:
        print(f"{path}: finished before")
    name = f"lora.{dataset_name(meta)}@{run.name}-{seed}"
    marks = {each: mark_of(mark, Path(each) / "rollouts.jsonl") for each in args.eval}
    scores = {each: (name, marks[each]) for each in args.eval if not is_scored(each, name, marks[each])}
    return {"seed": seed, "path": path, "mark": mark, "scores": scores, "trained": trained}


def read_examples(run, limit):
    """[(problem, response, label)] of the judged rollouts; with `limit` that many, drawn once for all seeds."""
    problems = {row["id"]: row for row in common.read_jsonl(Path(run) / "problems.jsonl", needs=("id", "prompt"))}
    rollouts = common.read_rollouts(run)
    labels = [row["label"] for row in common.read_labels(run, common.keys_of(rollouts))]
    judged = [(row, label) for row, label in zip(rollouts, labels) if label is not None]
    examples = [(problems[row["id"]], row["response"], label) for row, label in judged]
    if limit:
        examples = [examples[i] for i in sorted(np.random.default_rng(SEED).permutation(len(examples))[:limit])]
    right = sum(label for *_, label in examples)
    print(f"{run}: {len(examples)} of {len(labels)} rollouts to learn from, {right} right")
    if right in (0, len(examples)):
        common.die(f"{run}: {right} of {len(examples)} rollouts are right; a verifier needs right and wrong ones")
    return examples


def yes_and_no(tokenizer):
    """The first tokens of the two words."""
    ids = [tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in ("yes", "no")]
    if ids[0] == ids[1]:
        common.die(f'"yes" and "no" begin with the same token of this model, {tokenizer.decode(ids[0])!r}: no verifier')
    return ids


def add_adapters(model):
    """{name: adapter} in place of every linear layer of the blocks; experts kept as 3-D parameters are left alone."""
    import torch
    from torch import nn

    class Adapter(nn.Module):
        """y = W x + B A x alpha / rank; in float32, since bfloat16 would round small steps away."""

        def __init__(self, base):
            super().__init__()
            self.base = base
            self.down = nn.Parameter(torch.empty(RANK, base.in_features, device=base.weight.device))
            self.up = nn.Parameter(torch.empty(base.out_features, RANK, device=base.weight.device))

        def forward(self, x):
            low = nn.functional.dropout(x, DROPOUT, self.training) @ self.down.mT.to(x.dtype)
            return self.base(x) + low @ self.up.mT.to(x.dtype) * (ALPHA / RANK)

    model.requires_grad_(False)
    linears = {name: module for name, module in model.base_model.named_modules() if isinstance(module, nn.Linear)}
    adapters = {name: Adapter(linear) for name, linear in linears.items()}
    for name, adapter in adapters.items():
        parent, _, child = name.rpartition(".")
        setattr(model.base_model.get_submodule(parent), child, adapter)
    return adapters


def load_adapters(adapters, path):
    """Fill the layers of add_adapters with what a training saved -> all that the file says."""
    saved = common.load_pt(path)
    shapes = {name: [down.shape, up.shape] for name, (down, up) in saved["adapters"].items()}
    if shapes != {name: [adapter.down.shape, adapter.up.shape] for name, adapter in adapters.items()}:
        common.die(f"{path}: these adapters belong to another model")
    for name, (down, up) in saved["adapters"].items():
        adapters[name].down.data.copy_(down)
        adapters[name].up.data.copy_(up)
    return saved


def save_adapters(adapters, path, **more):
    weights = {name: [adapter.down.detach().cpu(), adapter.up.detach().cpu()] for name, adapter in adapters.items()}
    common.save_pt(path, {"format": 1, "rank": RANK, "alpha": ALPHA, "adapters": weights, **more})


def train_adapters(model, adapters, examples, encode, words, args, job):
    """Cross-entropy of the one word after the question. Killed, it goes on from the last SAVE_EVERY-th step."""
    import torch

    parameters = [parameter for adapter in adapters.values() for parameter in (adapter.down, adapter.up)]
    optimizer = torch.optim.AdamW(parameters, weight_decay=0.0)
    steps, partial = args.epochs * math.ceil(len(examples) / BATCH), job["path"].with_suffix(".partial.pt")
    done = start_training(adapters, optimizer, partial, job)
    checkpoint_activations(model.train())
    with common.progress(total=steps, initial=done["step"], desc=f"train {job['path']}", unit="step") as bar:
        while done["step"] < steps:
            started = time.perf_counter()
            torch.manual_seed(1_000_003 * job["seed"] + done["step"])  # dropout must not depend on restarts
            optimizer.param_groups[0]["lr"] = args.lr * rate_at(done["step"], steps)
            batch = [examples[i] for i in rows_of_step(len(examples), done["step"], job["seed"])]
            sequences = [encode(problem, response) for problem, response, _ in batch]
            with flop_counter() if done["step"] == 0 else nullcontext() as counter:
                loss = learn_from(model, sequences, [words[0] if label else words[1] for *_, label in batch])
            if counter:
                done["flops_per_token"] = counter.get_total_flops() / sum(map(len, sequences))
            torch.nn.utils.clip_grad_norm_(parameters, CLIP)
            optimizer.step()
            optimizer.zero_grad()
            done["step"] += 1
            done["tokens"] += sum(map(len, sequences))
            done["seconds"] += time.perf_counter() - started
            if done["step"] % SAVE_EVERY == 0:
                save_adapters(adapters, partial, mark=job["mark"], done=done, optimizer=optimizer.state_dict())
            bar.set_postfix(loss=f"{loss:.3f}")
            bar.update()
    trained = sum(parameter.numel() for parameter in parameters)
    cost = {"parameters": sum(p.numel() for p in model.parameters()), "trained_parameters": trained,
            "train_seconds": done["seconds"], "train_flops": done["flops_per_token"] * done["tokens"]}  # fmt: skip
    save_adapters(adapters, job["path"], mark=job["mark"], cost=cost, command=the_command())
    partial.unlink(missing_ok=True)
    model.eval()
    print(f"{job['path']}: {steps} steps in {done['seconds'] / 60:.1f} min, {short(trained)} parameters trained")


def start_training(adapters, optimizer, partial, job):
    """Fresh adapters, or those of a killed training -> how far it is."""
    import torch

    torch.manual_seed(job["seed"])
    for adapter in adapters.values():
        torch.nn.init.kaiming_uniform_(adapter.down, a=math.sqrt(5))
        torch.nn.init.zeros_(adapter.up)
    if partial.is_file() and common.load_pt(partial)["mark"] == job["mark"]:
        saved = load_adapters(adapters, partial)
        optimizer.load_state_dict(saved["optimizer"])
        return saved["done"]
    return {"step": 0, "seconds": 0.0, "tokens": 0, "flops_per_token": None}


def checkpoint_activations(model):
    """Keep the blocks' inputs only and compute the rest again in the backward pass: a long answer fits."""
    enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
    enable({"use_reentrant": False})


def rows_of_step(count, step, seed):
    """The examples of one step: every epoch goes through all of them in an order of its own."""
    epoch, place = divmod(step, math.ceil(count / BATCH))
    return np.random.default_rng([seed, epoch]).permutation(count)[place * BATCH : (place + 1) * BATCH]


def rate_at(step, steps):
    """Warm-up, then a straight line to zero; a short training warms up over half of its steps."""
    warm = min(WARM_UP, max(1, steps // 2))
    return min((step + 1) / warm, (steps - step) / max(1, steps - warm))


def learn_from(model, sequences, targets):
    """Add the gradient of one step, a batch that fits at a time -> its loss."""
    import torch

    total = 0.0
    for places in in_batches(sequences):
        logits = next_logits(model, [sequences[i] for i in places])
        wanted = torch.tensor([targets[i] for i in places], device=logits.device)
        loss = torch.nn.functional.cross_entropy(logits, wanted, reduction="sum") / len(sequences)
        loss.backward()
        total += loss.item()
    return total


def flop_counter():
    """torch's, with the grouped products of experts, which it leaves out."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    grouped = lambda a, b, *_, **__: 2 * math.prod(a) * b[-1]
    return FlopCounterMode(display=False, custom_mapping={torch.ops.aten._grouped_mm: grouped})


# ---------------------------------------------------------------------------------------------------------------------
# Process reward models, without code from the Hub

STEP_END = "<extra_0>"


def prm(args):
    name = f"prm.{common.model_name({'model': args.prm})}"
    marks = {run: mark_of([args.prm, args.last_tokens, args.steps], Path(run) / "rollouts.jsonl") for run in args.runs}
    todo = {run: mark for run, mark in marks.items() if not is_scored(run, name, mark)}
    if not todo:
        return
    load = load_step_prm if judges_steps(args.prm) else load_final_prm
    model, encode, judge = load(args)
    cost = {"parameters": sum(p.numel() for p in model.parameters())}
    for run, mark in todo.items():
        score_rollouts(run, name, mark, encode, judge, cost)


def judges_steps(name):
    """Is it of the kind with a score at each step (ReasonFlux-PRM-7B), not one at the end (ReasonFlux-PRM-1.5B)?"""
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(name, trust_remote_code=False)
    except (OSError, ValueError) as error:
        common.die(f"--prm {name}: cannot be loaded: {str(error).strip().splitlines()[0]}")
    return "Qwen2ForProcessRewardModel" in (config.architectures or ())


def load_final_prm(args):
    """A causal model with a linear head, reward_head.pt, on the last state; reads plain text."""
    import torch

    model, tokenizer = common.load_model(args.prm, args.device)
    head = torch.nn.Linear(model.config.hidden_size, 1)
    try:
        head.load_state_dict(common.load_pt(hub_file(args.prm, "reward_head.pt")))
    except RuntimeError as error:
        common.die(f"--prm {args.prm}: reward_head.pt does not fit: {str(error).splitlines()[-1].strip()}")
    head.to(model.device)

    def encode(problem, response):
        write = lambda answer: tokenizer(f"{problem['prompt']}\n{answer}")["input_ids"]
        return fit_answer(tokenizer, response, args.last_tokens, model, write)

    def judge(batch):
        last = torch.stack([states[-1] for states in final_states(model, batch)])
        return with_probability(head(last.float())[:, 0])

    return model, encode, judge


def hub_file(name, file):
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError

    if Path(name).is_dir():
        if not (Path(name) / file).is_file():
            common.die(f"--prm {name}: neither {file} in it nor a Qwen2ForProcessRewardModel: no reward model")
        return Path(name) / file
    try:
        return hf_hub_download(name, file)
    except (OSError, EntryNotFoundError) as error:
        common.die(f"--prm {name}: no {file} to be had ({str(error).strip().splitlines()[0]})")


def load_step_prm(args):
    """Qwen2 with a two-layer head, read at the mark behind each paragraph of the answer: the chance that it is good."""
    import torch
    from transformers import AutoTokenizer, Qwen2Model, Qwen2PreTrainedModel

    class StepRewardModel(Qwen2PreTrainedModel):
        def __init__(self, config):
            super().__init__(config)
            self.model, width = Qwen2Model(config), config.hidden_size
            self.score = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, 2))
            self.post_init()

    device = common.pick_device(args.device)
    dtype = torch.float32 if device == "cpu" else "auto"
    tokenizer = AutoTokenizer.from_pretrained(args.prm)
    model, loaded = StepRewardModel.from_pretrained(args.prm, dtype=dtype, output_loading_info=True)
    if loaded["missing_keys"]:
        common.die(f"--prm {args.prm}: its files lack {', '.join(sorted(loaded['missing_keys'])[:3])}")
    mark = tokenizer.convert_tokens_to_ids(STEP_END)
    if mark in (None, tokenizer.unk_token_id):
        common.die(f"--prm {args.prm}: its tokenizer has no {STEP_END}, where the steps are scored")
    model.to(device).eval().score.float()
    sum_up = {"mean": torch.mean, "min": torch.min, "last": lambda steps: steps[-1]}[args.steps]

    def encode(problem, response):
        def write(answer):
            steps = [step for step in answer.replace(STEP_END, "").split("\n\n") if step.strip()] or [""]
            talk = [{"role": "user", "content": problem["prompt"]},
                    {"role": "assistant", "content": STEP_END.join([*steps, ""])}]  # fmt: skip
            return tokenizer.apply_chat_template(talk, return_dict=True)["input_ids"]

        return fit_answer(tokenizer, response, args.last_tokens, model, write)

    def judge(batch):
        values = []
        for ids, states in zip(batch, final_states(model, batch)):
            good = model.score(states[torch.tensor(ids) == mark].float()).softmax(-1)[:, 1]
            values.append(sum_up(good).item())
        return [(value, value) for value in values]

    return model, encode, judge


# ---------------------------------------------------------------------------------------------------------------------
# Domain routing: the model that answers also says whether a problem is one of maths or of code

ROUTER = """Is the following a mathematics problem or a programming task?

{problem}

Answer with one word, math or code."""
ROUTER_TOKENS = 5


def route(args):
    check_one_model(args.runs)
    if len(args.math) != len(args.code):
        common.die(f"--math and --code: {len(args.math)} and {len(args.code)} scorers; they are taken in pairs")
    for path in [*args.math, *args.code, *args.mixed]:
        common.load_scorer(path)  # a mistyped name ends it here, before any work
    facts = [common.read_meta(args.runs[0])["model"], args.model, ROUTER]
    marks = {run: mark_of(facts, Path(run) / "problems.jsonl") for run in args.runs}
    todo = [run for run in args.runs if read_routes(run).get("mark") != marks[run]]
    if todo:
        model, tokenizer = load_run_model(args, todo[0])
        for run in todo:
            name_domains(run, model, tokenizer, marks[run])
    for run in args.runs:
        for old in [*(Path(run) / "scores").glob("routed@*"), *(Path(run) / "scores").glob("mixed@*")]:
            old.unlink()  # of an earlier call with more scorers
        for number, (math_scorer, code_scorer) in enumerate(zip(args.math, args.code)):
            write_routed(run, f"routed@{number}", {"math": math_scorer, "code": code_scorer})
        for number, scorer in enumerate(args.mixed):
            write_routed(run, f"mixed@{number}", {"math": scorer, "code": scorer})
    header = ["run", "domains right %", "routed, best-of-N %", "mixed, best-of-N %"]
    print(common.table(header, [routing_row(run) for run in args.runs]))


def read_routes(run):
    path = Path(run) / "routes.json"
    return common.read_json(path) if path.is_file() else {}


def name_domains(run, model, tokenizer, mark):
    """routes.json: each problem's domain, from the first word of the two in at most ROUTER_TOKENS tokens."""
    problems = common.read_jsonl(Path(run) / "problems.jsonl", needs=("id", "kind", "prompt"))
    words = [tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in ("math", "code")]
    stop_ids = common.sampling_defaults(model, tokenizer)["stop_ids"]

    def judge(batch):
        said, first = [list(ids) for ids in batch], None
        for _ in range(ROUTER_TOKENS):
            logits = next_logits(model, said)
            first = logits[:, words] if first is None else first
            said = [[*ids, token] for ids, token in zip(said, logits.argmax(-1).tolist())]
        tokens = [ids[-ROUTER_TOKENS:] for ids in said]
        ends = [next((i for i, token in enumerate(row) if token in stop_ids), ROUTER_TOKENS) for row in tokens]
        return [(tokenizer.decode(row[:end]), pair) for row, end, pair in zip(tokens, ends, first.tolist())]

    write = lambda text: direct_prompt(tokenizer, ROUTER.format(problem=text))
    answers = judge_all(judge, [fit_answer(tokenizer, row["prompt"], 2**20, model, write) for row in problems])
    domains, silent = {}, 0
    for row, (text, (math_logit, code_logit)) in zip(problems, answers):
        word = re.search("math|cod", text.lower())
        silent += word is None
        is_math = word[0] == "math" if word else math_logit >= code_logit  # neither word: the likelier one
        domains[row["id"]] = "math" if is_math else "code"
    judged = [row for row in problems if row["kind"] in ("math", "code")]
    common.write_json(Path(run) / "routes.json", {
        "mark": mark, "right": sum(domains[row["id"]] == row["kind"] for row in judged), "judged": len(judged),
        "neither_word": silent, "domains": domains,
    })  # fmt: skip


def routing_text(routes):
    if not routes["judged"]:
        return "no problem with a known domain"
    share = percent(routes["right"] / routes["judged"])
    return f"{share} ({routes['right']}/{routes['judged']}; {routes['neither_word']} answers with neither word)"


def write_routed(run, name, scorers):
    """Scores of a run, each problem's by the scorer of its domain."""
    import torch

    domains, parts = read_routes(run)["domains"], {}
    for domain, path in scorers.items():
        scorer = common.load_scorer(path)
        keys, logits = common.score_run(scorer, run, path)
        parts[domain] = torch.stack([logits, scorer.probability(logits)], 1).tolist()
    by_key = {key: parts[domains[key[0]]][i] for i, key in enumerate(keys)}
    rollouts = common.read_rollouts(run)
    if len(by_key) != len(rollouts) or set(by_key) != set(common.keys_of(rollouts)):
        common.die(f"{run}: {len(by_key)} vectors for {len(rollouts)} rollouts; run 01_generate.py again")
    write_scores(run, name, common.keys_of(rollouts), [by_key[key] for key in common.keys_of(rollouts)])


def routing_row(run):
    cells = [run, routing_text(read_routes(run))]
    if not (Path(run) / "labels.jsonl").is_file():
        return [*cells, None, None]
    loaded = load_run(run)
    ns = sizes_of([loaded])[-1:]
    rows = [score_row([loaded], ns, name) if name in loaded.scores else None for name in ("routed", "mixed")]
    return [*cells, *[row and percent(row.accuracy(ns[0])) for row in rows]]


# ---------------------------------------------------------------------------------------------------------------------


def the_command():
    return shlex.join(["python", "05_baselines.py", *sys.argv[1:]])


def main():
    args = parse_args()
    {"report": report, "lora": lora, "prm": prm, "route": route}[args.command](args)


def parse_args():
    words, options = sys.argv[1:], {"lora": lora_options, "prm": prm_options, "route": route_options}
    command = words.pop(0) if words and words[0] in options else "report"
    name = f"{Path(sys.argv[0]).name}{'' if command == 'report' else ' ' + command}"
    parser = argparse.ArgumentParser(name, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.get(command, report_options)(parser.add_argument)
    args = parser.parse_args(words)
    for option in ("window", "tail", "epochs", "lr", "last_tokens", "limit"):
        if getattr(args, option, None) is not None and getattr(args, option) <= 0:
            common.die(f"--{option.replace('_', '-')}: give a number above 0, not {getattr(args, option)}")
    args.command = command
    return args


def report_options(add):
    add("runs", nargs="+", metavar="RUN", help="labelled run folders")
    add("--out", help="folder for report.md and results.json (default: the run, or what the runs have in common)")
    add("--window", type=int, default=common.WINDOW, help="tokens in a confidence window (default %(default)s)")
    add("--tail", type=int, default=common.TAIL, help="tokens in the tail (default %(default)s)")
    add("--studies", nargs="+", default=[], metavar="JSON", help="what 03_train_scorer.py --study found")
    add("--json", action="store_true", help="a last line of JSON, for programs")
    add("--latex", action="store_true", help="also tables.tex: the rows of all tables")
    add("--plots", action="store_true", help="also PNG figures, accuracy against n and reliability; needs matplotlib")


def lora_options(add):
    add("run", metavar="RUN_CAL", help="labelled run to learn from; the adapters are kept there, lora@SEED.pt")
    add("--eval", nargs="+", default=[], metavar="RUN", help="runs of the same model to score")
    add("--seed", type=int, nargs="+", default=[32], help="one verifier each; the paper's: 32 42 52 (default 32)")
    add("--epochs", type=int, default=1, help="passes over the rollouts; the paper: 6 for small sets (default 1)")
    add("--lr", type=float, default=2e-5, help="highest learning rate; a tiny model needs more (default %(default)g)")
    add("--last-tokens", type=int, help="of an answer the last this many are read (default 16384; gpt-oss 4096)")
    add("--limit", type=int, help="learn from this many rollouts, drawn at random (default: all)")
    model_options(add)


def prm_options(add):
    add("runs", nargs="+", metavar="RUN", help="run folders")
    add("--prm", required=True, metavar="NAME", help="Hub id or folder; reward_head.pt or Qwen2ForProcessRewardModel")
    add("--last-tokens", type=int, default=2048, help="of an answer the last this many are read (default %(default)s)")
    add("--steps", choices=("mean", "min", "last"), default="mean", help="steps to one score (default %(default)s)")
    device_option(add)


def route_options(add):
    add("runs", nargs="+", metavar="RUN", help="runs of one model, of maths, of code, or of both")
    add("--math", nargs="+", required=True, metavar="PT", help="scorers calibrated on maths (several: one a seed)")
    add("--code", nargs="+", required=True, metavar="PT", help="scorers calibrated on code, in the same order")
    add("--mixed", nargs="+", default=[], metavar="PT", help="scorers calibrated on both, to compare with")
    model_options(add)


def model_options(add):
    add("--model", help="the model's Hub id or folder, where it is no longer where meta.json says")
    device_option(add)


def device_option(add):
    add("--device", help="cpu, cuda, cuda:1, mps (default: the GPU if there is one)")


if __name__ == "__main__":
    common.entry(main, "finished scores and adapters, and those half done; the same command goes on")
