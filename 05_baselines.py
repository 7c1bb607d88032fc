"""Every way to pick an answer, beside each other on the same rollouts: exact expectations, honest intervals.

    python 05_baselines.py RUN ... --out DIR        labelled runs; scores/*.jsonl (04's, or yours) are rows
    python 05_baselines.py RUN ... --studies DIR    also what 03_train_scorer.py --study wrote
    python 05_baselines.py lora RUN_CAL --eval RUN  the run's model learns to say whether an answer is right
    python 05_baselines.py prm RUN --prm NAME       process reward model, as Gen-Verse/ReasonFlux-PRM-1.5B
    python 05_baselines.py route RUN --math M.pt --code C.pt  the model names the domain, its scorer picks

The first two read rollouts.jsonl, labels.jsonl and scores/*.jsonl of each run, print one short table and
write report.md (the rest, for people) and results.json (for programs). The others write scores/NAME.jsonl,
and what it cost into NAME.cost.json beside it: rows of the next report.

A row for your own scorer: drop scores/NAME.jsonl into the run, {"id", "sample", "score"} a line, higher is
better, with "p" in [0, 1] beside it if votes may use it as a weight.

Runs of one model and data set are repetitions. A score file METHOD.CALSET@CALRUN-SEED.jsonl is one of its
method's: a row is the mean over evaluation runs x calibration runs x scorer seeds, ± its standard deviation
(ddof=1) over those of the three that vary for this row ("over"). A folder `greedy` beside a run
(01_generate.py --greedy, labelled) is a row.

What the numbers are. Random, best-of-n by any score and oracle at n < N rollouts: the exact expectation over
all n-subsets; votes: exact where these are few, else the mean over seeded random ones with its standard
error. Tied answers share the credit of a majority. Δ: points above the best confidence rule, of the paper's
20 and of all 28, picked with hindsight on these labels (which favours it), with a paired bootstrap interval
over problems. Gap closed: Δ as a share of the distance from that rule to the oracle, a dash where this is
under two problems; in the summary both are to the paper's. Cut: the share of a row's picks (random: of all
rollouts) that ended at the length limit. A problem with a label that could not be judged is in no row. FLOPs
are computed, all by one formula: forward 2 a weight and token and 4 a pair of tokens, layer and attention
dimension; training twice that, and 2 a token and trained weight; nothing for what is computed again to save
memory. Minutes and ms are measured, on the device named.
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
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import common

SUBSETS, DRAWS, SEED = 128, 1000, 0  # random subsets of a vote, bootstrap draws, and their seed
BINS = 10  # of the probabilities, equally wide, for their calibration
RULES = [f"{name}/{way}" for name in common.STATISTICS for way in common.AGGREGATIONS]
REFERENCES = {"the paper's 20": RULES[:20], "all 28": RULES}  # the paper's five statistics stand first
LENGTHS = ("longest", "shortest")
QUALITIES = ("auroc", "auroc_within", "ece")  # of scores as such: of all rollouts, inside a problem, of p
CUT, WIDTH = 0.05, 110  # share of cut rollouts from which a line says so; columns of the screen
COSTS = ("parameters", "trained_parameters", "train_seconds", "train_flops",
         "ms_per_rollout", "flops_per_rollout")  # fmt: skip

# ------------------------------------------------------------------------------------------------------------
# A labelled run as arrays [P problems, N rollouts]; a problem with fewer rollouts is padded at the end


@dataclass(eq=False)  # compared and hashed by identity: its subsets are cached
class Run:
    path: Path
    meta: dict
    ids: list  # [P] problem ids
    valid: np.ndarray  # [P, N] False where padded
    labels: np.ndarray  # [P, N] 0, 1
    groups: np.ndarray  # [P, N] equality class of the answer, -1: none
    tokens: np.ndarray  # [P, N]
    cut: np.ndarray  # [P, N] 1 where it ended at the length limit
    scores: dict = field(default_factory=dict)  # method -> run name -> [P, N], -inf where padded
    p: dict = field(default_factory=dict)  # the same, of methods that give probabilities
    costs: dict = field(default_factory=dict)  # method -> run name -> what it cost


def load_run(path, window=common.WINDOW, tail=common.TAIL, skipped=(), labels=None):
    """`skipped`: problems to leave out, beside those with a label that could not be judged."""
    path, meta, rollouts = Path(path), common.read_meta(path), common.read_rollouts(path)
    common.check_same_problems(path, rollouts)
    keys = common.keys_of(rollouts)
    labels = common.align(labels or common.read_labels(path), keys, path / "labels.jsonl")
    skipped = unjudged(labels) | set(skipped)
    kept = [i for i, (problem, _) in enumerate(keys) if problem not in skipped]
    if not kept:
        common.die(f"{path}: no problem has all its labels; 05 needs labelled runs (04 selects without)")
    places = {}  # problem -> places of its rollouts
    for i in kept:
        places.setdefault(keys[i][0], []).append(i)
    shape = len(places), max(map(len, places.values()))

    def spread(values, empty=0.0):
        array, values = np.full(shape, empty, dtype=float), np.array(values, dtype=float)
        for row, some in zip(array, places.values()):
            row[: len(some)] = values[some]
        return array

    groups = spread([-1 if row.get("group") is None else row["group"] for row in labels], -1).astype(int)
    right, valid = spread([row["label"] or 0 for row in labels]), spread([1] * len(keys)) > 0
    lengths, cut = zip(*[(row["n_tokens"], row.get("finish") == "length") for row in rollouts])
    run = Run(path, meta, list(places), valid, right, groups, spread(lengths), spread(cut))
    add_confidence(run, rollouts, spread, window, tail)
    for name, sign in zip(LENGTHS, (1, -1)):
        run.scores[name] = {"": spread(np.multiply(sign, lengths), -np.inf)}
    for file in sorted((path / "scores").glob("*.jsonl")):
        add_scores(run, file, keys, spread)
    return run


def unjudged(labels):
    return {row["id"] for row in labels if row["label"] is None}


def add_confidence(run, rollouts, spread, window, tail):
    """The 28 rules as scores: as 01 stored them, or recomputed from tokens.pt for another window or tail."""
    values = [row.get("conf") for row in rollouts]
    if (window, tail) != (common.WINDOW, common.TAIL):
        tokens = common.load_pt(run.path / "tokens.pt")
        offsets, stats = tokens["offsets"].tolist(), tokens["stats"].numpy()
        if len(offsets) != len(rollouts) + 1:
            common.die(f"{run.path}: tokens.pt holds {len(offsets) - 1} of {len(rollouts)} rollouts")
        pairs = zip(offsets[:-1], offsets[1:])
        values = [common.confidence(stats[a:b], run.meta["vocab_size"], window, tail) for a, b in pairs]
    if None in values:
        common.die(f"{run.path}: rollouts.jsonl has no token statistics; 01 --responses computes them")
    for rule in RULES:
        sign = -1 if rule.split("/")[0] in common.LOWER_IS_BETTER else 1
        column = np.array([math.nan if value[rule] is None else sign * value[rule] for value in values])
        lowest = np.fmin.reduce(column, initial=0)  # a rollout without tokens ranks below all others
        run.scores[rule] = {"": spread(np.nan_to_num(column, nan=lowest - 1), -np.inf)}


def add_scores(run, file, keys, spread):
    rows = common.align(common.read_jsonl(file, needs=("id", "sample", "score")), keys, file)
    for row in rows:
        where, p = f"{file}: sample {row['sample']} of {row['id']!r}", row.get("p")
        if not isinstance(row["score"], (int, float)) or not abs(row["score"]) < 1e300:
            common.die(f"{where} has the score {row['score']!r}; every rollout needs a finite number")
        if p is not None and (not isinstance(p, (int, float)) or not 0 <= p <= 1):
            common.die(f"{where} has the p {p!r}; it is a probability, or absent")
    method, _, name = file.stem.partition("@")
    if method in (*RULES, *LENGTHS):
        common.die(f"{file}: the table has a row {method} of its own; give the file another name")
    run.scores.setdefault(method, {})[name] = spread([row["score"] for row in rows], -np.inf)
    if all(row.get("p") is not None for row in rows):
        run.p.setdefault(method, {})[name] = spread([row["p"] for row in rows])
    if (cost := file.with_name(f"{file.stem}.cost.json")).is_file():
        run.costs.setdefault(method, {})[name] = read_cost(cost)


def read_cost(path):
    cost = common.read_json(path)
    number = lambda value: value is None or isinstance(value, (int, float)) and 0 <= value < math.inf
    if not isinstance(cost, dict) or not all(number(cost.get(key)) for key in COSTS):
        common.die(f"{path}: not what a scorer cost (numbers named {', '.join(COSTS)}, or absent); delete it")
    return cost


# ------------------------------------------------------------------------------------------------------------
# Expected correctness of each problem, [P], when n of its rollouts are drawn and a method picks one


def pick_by_score(run, scores, n):
    """Exact over all n-subsets; ties go to the lowest sample number."""
    order = np.argsort(-scores, 1, kind="stable")
    ranked, weights = np.take_along_axis(run.labels, order, 1), np.zeros(scores.shape)
    for total in set(run.valid.sum(1)):
        weights[run.valid.sum(1) == total, :total] = common.first_of_subset(int(total), n)
    return (ranked * weights).sum(1)


def pick_oracle(run, n):
    """1 - the chance that an n-subset holds no right answer."""
    pairs = zip(run.valid.sum(1).tolist(), run.labels.sum(1).astype(int).tolist())
    subsets = lambda of, total: math.comb(of, min(n, total))
    return np.array([1 - subsets(total - right, total) / subsets(total, total) for total, right in pairs])


def pick_by_vote(run, ballot, scores, n):
    """[2, S, P]: is what S subsets of n pick right, is it cut; all subsets if few, else SUBSETS."""
    found = []
    for columns in subsets_of(run, n):
        whole = (run.groups, scores, run.valid, run.labels, run.cut)
        groups, some, valid, labels, cut = (np.take_along_axis(array, columns, 1) for array in whole)
        chosen = ballot(groups, some, valid)
        found.append([(labels * chosen).sum(1), (cut * chosen).sum(1)])
    return np.swapaxes(found, 0, 1)


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


# Ballots: (groups, scores, valid), each [P, n] -> [P, n], a rollout's share of the pick


def majority(groups, scores, valid):
    """Tied answers share the credit; where there is no answer nothing is picked."""
    totals = common.group_totals(groups, np.ones(groups.shape))
    winners = (groups >= 0) & (totals == totals.max(1, keepdims=True))
    return winners / np.maximum(winners.sum(1, keepdims=True), 1)


def weighted(weights_of):
    """weights_of(scores, valid): what each rollout's vote counts."""
    winner = lambda groups, scores, valid: common.weighted_vote(groups, weights_of(scores, valid), scores)
    return lambda groups, scores, valid: winner(groups, scores, valid)[:, None] == np.arange(groups.shape[1])


def rank_of(scores):
    """0 for the best of its problem."""
    return np.argsort(np.argsort(-scores, -1, kind="stable"), -1, kind="stable")


def top_share(share):
    """Confidence as the weight of the best share of the rollouts (DeepConf, offline)."""
    kept = lambda scores, valid: rank_of(scores) < np.ceil(share * valid.sum(-1, keepdims=True))
    return lambda scores, valid: np.where(valid & kept(scores, valid), scores, 0)


borda = lambda scores, valid: (valid.sum(-1, keepdims=True) - rank_of(scores)) * valid

# name: (the score it uses, its ballot)
VOTES = {
    "majority vote": ("mean/tail", majority),
    "Borda vote, self-certainty": ("self_certainty/avg", weighted(borda)),
    "top 10% by confidence, vote": ("mean/tail", weighted(top_share(0.1))),
    "top 90% by confidence, vote": ("mean/tail", weighted(top_share(0.9))),
    "confidence-weighted vote": ("mean/tail", weighted(top_share(1.0))),
}
MINOR = [*VOTES][1:-1]  # not in the short tables

# ------------------------------------------------------------------------------------------------------------
# Rows of the table

KINDS = ("random", "greedy", "length", "confidence", "scorer", "vote", "oracle")  # in the table's order
# what score files are called before the dot, in the table's order; other people's come before them
FAMILIES = {
    "logistic": "logistic regression", "lora": "LoRA verifier", "prm": "PRM",
    "routed": "SCaTR, routed by domain", "mixed": "SCaTR, mixed domains",
    "scatr": "SCaTR", "scatr+": "SCaTR+",
}  # fmt: skip
CALIBRATED = ("logistic", "lora", "scatr", "scatr+")  # FAMILY.CALIBRATION SET


@dataclass
class Row:
    name: str
    kind: str
    curves: dict  # (evaluation run, calibration run, scorer seed) -> {n: [P] expected correctness}
    method: str = ""  # the score files' name before the @
    cut: float | None = None  # share of the picks among all rollouts that were cut at the length limit
    tokens: float | None = None  # generated for a problem
    quality: dict = field(default_factory=dict)  # AUROC and the like, for methods that score
    errors: dict = field(default_factory=dict)  # n -> standard error of a vote's mean over random subsets

    def problems(self, n):
        """[P]: expected correctness of each problem, averaged over the runs."""
        return np.mean([curve[n] for curve in self.curves.values()], 0)

    def accuracy(self, n):
        return float(self.problems(n).mean())

    def spread(self, n):
        """Standard deviation over runs, None for a single one."""
        means = [curve[n].mean() for curve in self.curves.values()]
        return float(np.std(means, ddof=1)) if len(means) > 1 else None


def sizes_of(runs):
    top = max(run.labels.shape[1] for run in runs)
    return [n for n in (1, 2, 4, 8, 12, 16, 32, 64, 128) if n < top] + [top]


def make_rows(runs, greedy=()):
    """All methods that every run has. greedy: the greedy rollout of each problem, with its label."""
    ns, votable = sizes_of(runs), all((run.groups >= 0).any() for run in runs)
    each = lambda pick: {(i, "", ""): {n: pick(run, n) for n in ns} for i, run in enumerate(runs)}
    random = each(lambda run, n: run.labels.sum(1) / run.valid.sum(1))
    rows = [Row("random", "random", random, cut=mean_of([run.cut[run.valid].mean() for run in runs]))]
    rows.append(Row("oracle", "oracle", each(pick_oracle)))
    if votable:
        rows += [vote_row(runs, ns, name, rule, ballot) for name, (rule, ballot) in VOTES.items()]
    for method in set.intersection(*[set(run.scores) for run in runs]):
        rows.append(score_row(runs, ns, method))
        if votable and all(method in run.p for run in runs):  # p ranks as the score does
            name, ballot = f"{label_of(method)}, weighted vote", weighted(lambda p, valid: p * valid)
            rows.append(vote_row(runs, ns, name, method, ballot, "p"))
    for row in rows:
        row.tokens = mean_of([run.tokens.sum(1).mean() for run in runs])
    if greedy:
        facts = [(row["label"], row.get("finish") == "length", row["n_tokens"]) for row in greedy]
        right, cut, tokens = np.array(facts, dtype=float).T
        curves = {(0, "", ""): dict.fromkeys(ns, right)}
        rows.append(Row("greedy", "greedy", curves, "", cut.mean().item(), tokens.mean().item()))
    return sorted(rows, key=row_order)


def row_order(row):
    """As KINDS has them; of one kind ours last, next to the oracle."""
    family = row.method.partition(".")[0]
    rank = [*FAMILIES].index(family) if family in FAMILIES else -1
    return KINDS.index(row.kind), [*VOTES, *RULES, row.name].index(row.name), rank, row.method


def label_of(method):
    """scatr.math_a -> SCaTR (math_a)"""
    name, _, calibration = method.partition(".")
    return FAMILIES.get(name, name) + (f" ({calibration})" if calibration else "")


def files_of(runs, method, of="scores"):
    """(key of the curve, run, [P, N]) of each score file that every run has; a name is CALRUN-SEED."""
    names = set.intersection(*[set(getattr(run, of)[method]) for run in runs])
    for (i, run), name in itertools.product(enumerate(runs), sorted(names)):
        calibration, _, seed = name.rpartition("-")
        yield (i, calibration, seed), run, name, getattr(run, of)[method][name]


def score_row(runs, ns, method):
    curves, quality, bins = {}, [], np.zeros((BINS, 3))
    for key, run, name, scores in files_of(runs, method):
        p, right = run.p.get(method, {}).get(name), run.labels[run.valid] > 0
        curves[key] = {n: pick_by_score(run, scores, n) for n in ns}
        cut = run.cut[np.arange(len(scores)), common.best_of_n(scores)].mean()
        error = None if p is None else calibration_error(right, p[run.valid])
        quality.append((cut, common.auroc(right, scores[run.valid]), auroc_within(run, scores), error))
        bins += 0 if p is None else calibration_bins(right, p[run.valid])
    cut, *means = map(mean_of, zip(*quality))
    kind = "confidence" if method in RULES else "length" if method in LENGTHS else "scorer"
    name = f"{label_of(method)}, best-of-N" if kind == "scorer" else method
    means = dict(zip(QUALITIES, means)) | {"reliability": bins.tolist() if bins.any() else None}
    return Row(name, kind, curves, method, cut, quality=means)


def vote_row(runs, ns, name, method, ballot, of="scores"):
    files = files_of(runs, method, of)
    picks = {key: {n: pick_by_vote(run, ballot, scores, n) for n in ns} for key, run, _, scores in files}
    curves = {key: {n: right.mean(0) for n, (right, _) in pick.items()} for key, pick in picks.items()}
    sampled = [n for n in ns if not all(has_few_subsets(run, n) for run in runs)]
    errors = {n: mean_of([subset_error(pick[n][0]) for pick in picks.values()]) for n in sampled}
    cut = mean_of([pick[ns[-1]][1].mean() for pick in picks.values()])
    return Row(name, "vote", curves, method if of == "p" else "", cut, errors=errors)


def subset_error(credits):
    """Standard error of the mean of credits [S, P], drawn S times and independently for each problem."""
    draws, problems = credits.shape
    return float(np.sqrt((credits.var(0, ddof=1) / draws).sum()) / problems) if draws > 1 else 0.0


def mean_of(values):
    values = [value for value in values if value is not None]
    return float(np.mean(values)) if values else None


def auroc_within(run, scores):
    """AUROC inside each problem, averaged over the problems that have both classes."""
    problems = zip(run.labels > 0, scores, run.valid)
    return mean_of([common.auroc(right[there], row[there]) for right, row, there in problems])


def calibration_bins(right, p):
    """[BINS, 3]: of each bin the sum of the probabilities, of the right answers, and their number."""
    bin_of = np.minimum((p * BINS).astype(int), BINS - 1)
    return np.stack([np.bincount(bin_of, of, BINS) for of in (p, right, np.ones_like(p))], 1)


def calibration_error(right, p):
    """Expected calibration error: |mean probability - share right|, weighted over the bins."""
    bins = calibration_bins(right, p)
    return float(np.abs(bins[:, 0] - bins[:, 1]).sum() / len(p))


# ------------------------------------------------------------------------------------------------------------
# Comparison


def compare(rows, n):
    """One dict a row: accuracy, spread, difference to the two best confidence rules, curve."""
    oracle, problems = next(row for row in rows if row.kind == "oracle"), len(rows[0].problems(n))
    best = {name: max((row for row in rows if row.name in rules), key=lambda row: row.accuracy(n))
            for name, rules in REFERENCES.items()}  # fmt: skip
    results = []
    for row in rows:
        over = zip(("eval", "cal", "seeds"), [len(set(part)) for part in zip(*row.curves)])
        ns = next(iter(row.curves.values()))
        results.append({
            "method": row.name, "kind": row.kind, "scores": row.method, "best_of_n": bool(row.quality),
            "accuracy": row.accuracy(n), "std": row.spread(n), "runs": len(row.curves),
            "over": " × ".join(f"{count} {what}" for what, count in over if count > 1),
            "correct": row.accuracy(n) * problems, "problems": problems, "cut": row.cut, "tokens": row.tokens,
            "best_of": [name for name, rule in best.items() if rule is row],
            "against": {name: gain(row, rule, oracle, n) for name, rule in best.items()},
            "curve": {str(k): row.accuracy(k) for k in ns}, "curve_std": {str(k): row.spread(k) for k in ns},
            "curve_subset_error": {str(k): error for k, error in row.errors.items()}, **row.quality,
        })  # fmt: skip
    return results


def gain(row, reference, oracle, n):
    """Points above a reference with their interval, and the share of its distance to the oracle."""
    difference = row.problems(n) - reference.problems(n)  # [P]
    gap = oracle.accuracy(n) - reference.accuracy(n)
    closed = float(difference.mean() / gap) if gap * len(difference) >= 2 else None  # else noise
    return {**with_interval(difference), "gap_closed": closed}


def with_interval(difference):
    """The mean over problems of paired differences [P], with a 95 % bootstrap interval."""
    draws = draws_of(len(difference)) @ difference / len(difference)
    low, high = np.percentile(draws, [2.5, 97.5])
    return {"delta": float(difference.mean()), "low": float(low), "high": float(high)}


@functools.lru_cache(maxsize=4)
def draws_of(problems):
    """[DRAWS, P]: how often each problem is drawn."""
    return np.random.default_rng(SEED).multinomial(problems, [1 / problems] * problems, DRAWS)


def add_costs(results, members):
    """What a method's files cost, on average, beside its best-of-N row."""
    rollouts = float(np.mean([run.valid.sum() / len(run.ids) for run in members]))
    for result in results:
        costs = [cost for run in members for cost in run.costs.get(result["scores"], {}).values()]
        if result["best_of_n"] and costs:
            devices = sorted({str(cost["device"]) for cost in costs if cost.get("device")})
            cost = {key: mean_of([cost.get(key) for cost in costs]) for key in COSTS}
            result["cost"] = cost | {"rollouts": rollouts, "device": ", ".join(devices)}
            result["made_by"] = sorted({cost["command"] for cost in costs if "command" in cost})


# ------------------------------------------------------------------------------------------------------------
# Stopping: what sampling that ends when the scorer is sure would have cost and lost, replayed


def stopping(runs, results, price):
    """A dict for each scorer and rule, at the threshold that its calibration run chose.

    Runs that are themselves the outcome of stopping (01 --stop) have no other rollouts to compare with.
    """
    found = []
    for r in [] if any(run.meta.get("stop") for run in runs) else results:
        if r["scores"] and all(r["scores"] in run.p for run in runs):
            files = files_of(runs, r["scores"], "p")
            replays = [replay(run, r, name, p, price) for _, run, name, p in files]
            found += [summary_of(r, replays) | {"price": price}] if all(replays) else []
    return found


def replay(run, r, name, p, price):
    """The curve of one score file, its first point the chosen threshold; None where its scorer chose none."""
    votes, cost = r["kind"] == "vote", run.costs.get(r["scores"], {}).get(name, {})
    rows = (cost.get("stop") or {}).get(common.STOP_RULES[votes])
    if not rows:
        return None
    grid = np.linspace(0.5, 1, 31) if votes else np.quantile(p[run.valid], np.linspace(0, 1, 31))
    thresholds = np.array([common.stop_threshold(rows, price), *grid, common.NEVER])
    groups = run.groups if votes else None
    return common.stop_curve(np.where(run.valid, p, -1), run.labels, run.tokens, groups, thresholds)


def summary_of(r, replays):
    mean = lambda key: np.mean([curve[key] for curve in replays], 0)
    right, rollouts, tokens = mean("right"), mean("rollouts"), mean("tokens")  # [T, P]
    each, share = [curve["right"][0].mean() for curve in replays], tokens.mean(1) / tokens[-1].mean()  # [T]
    sizes, fixed = [int(n) / max(map(int, r["curve"])) for n in r["curve"]], [*r["curve"].values()]
    return {
        "method": r["method"], "scores": r["scores"],
        "threshold": float(mean("threshold")[0]), "error": float(mean("error")[0]),
        "accuracy": float(np.mean(each)), "std": float(np.std(each, ddof=1)) if len(each) > 1 else None,
        "all": float(right[-1].mean()), **with_interval(right[0] - right[-1]),
        "rollouts": float(rollouts[0].mean()), "tokens": float(tokens[0].mean()), "share": float(share[0]),
        "curve": sorted(zip(share.tolist(), right.mean(1).tolist())),
        "fixed": float(np.interp(share[0], sizes, fixed)), "fixed_curve": [*zip(sizes, fixed)],
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------------------
# The paper's numbers (Shyamal et al., SCaTR; tables "Best-of-N results for math domain", "for coding domain",
# "Comparison of SCaTR with ReasonFlux models"). It says AIME; its problems are those of 2025.

PAPER_COLUMNS = (
    "SCaTR", "best of the paper's 20", "LoRA verifier", "PRM (ReasonFlux-PRM-1.5B)", "SCaTR, weighted vote",
    "oracle", "PRM (ReasonFlux-PRM-7B)",
)  # fmt: skip
PAPER_GAP = ("SCaTR", "best of the paper's 20", "oracle")
PAPER = """\
gpt-oss-20b math500 aime25: 89.8±2.9 93.3±0.0 94.8±2.4 92.2±1.9 94.0±1.3 97.8
gpt-oss-20b aime25 math500: 95.0±0.5 94.6±0.9 94.8±0.3 95.5±0.3 96.1±0.3 97.7
Qwen3-1.7B math500 aime25: 48.9±3.1 52.2±5.1 50.4±5.9 41.1±8.4 55.2±2.9 68.9
Qwen3-1.7B aime25 math500: 88.3±0.7 88.1±0.4 88.9±0.5 87.3±0.8 90.6±0.4 94.9
Qwen3-30B-A3B math500 aime25: 42.4±5.5 33.3±3.3 - 37.8±5.1 45.7±3.8 57.8
Qwen3-30B-A3B aime25 math500: 91.3±0.5 85.0±1.6 - 88.9±0.2 91.6±0.3 93.2
gpt-oss-20b kodcode humaneval: 93.2±0.6 91.7±0.9 92.3±0.4 89.8±2.5 - 93.9
gpt-oss-20b humaneval kodcode: 86.8±0.7 83.8±0.9 85.2±1.0 82.5±4.0 - 94.5
OLMo-2-1124-7B-Instruct kodcode humaneval: 35.0±1.7 31.7±1.1 37.7±2.7 32.9±1.6 - 73.4
OLMo-2-1124-7B-Instruct humaneval kodcode: 33.1±0.9 27.0±0.2 32.7±0.8 29.3±1.3 - 66.7
Qwen3-1.7B kodcode humaneval: 59.3±8.1 56.1±2.1 63.8±9.2 60.4±4.3 - 87.4
Qwen3-1.7B humaneval kodcode: 67.1±12.2 61.3±11.6 68.3±9.1 64.5±6.9 - 90.8
Qwen3-30B-A3B kodcode humaneval: 90.4±0.8 90.0±0.7 - 87.6±0.7 - 92.7
Qwen3-30B-A3B humaneval kodcode: 88.2±0.6 87.0±1.0 - 84.6±1.1 - 93.7
Qwen2.5-14B-Instruct openthoughts aime24: 18.5±4.5 - - 17.8±1.9 - - 24.4±1.9
Qwen2.5-14B-Instruct openthoughts aime25: 21.6±5.5 - - 14.4±1.9 - - 23.3±3.3
Qwen2.5-14B-Instruct openthoughts math500: 80.4±0.7 - - 79.2±0.4 - - 85.7±0.5
"""


def paper_numbers(model, calibration, dataset):
    """{column: "67.1 ± 12.2"} where the paper has this pair, else {}."""
    pairs = (line.split(": ") for line in PAPER.splitlines())
    numbers = next((x for pair, x in pairs if pair.lower() == f"{model} {calibration} {dataset}".lower()), "")
    return {name: x.replace("±", " ± ") for name, x in zip(PAPER_COLUMNS, numbers.split()) if x != "-"}


# ------------------------------------------------------------------------------------------------------------
# Tables


@dataclass
class Table:
    title: str
    header: list
    rows: list
    bold: set = frozenset()  # (row, column) of the best

    def marked(self, write, bold):
        """[header, *rows], each cell written, the best bold."""
        mark = lambda place, text: bold(text) if place in self.bold else text
        lines = enumerate([self.header, *self.rows], -1)
        return [[mark((i, j), write(str(cell or ""))) for j, cell in enumerate(row)] for i, row in lines]

    def markdown(self):
        header, *rows = self.marked(str, lambda text: f"**{text}**")
        return f"### {self.title}\n\n{common.markdown_table(header, rows)}"

    def latex(self):
        signs = {sign: "\\" + sign for sign in "%_&#${}"} | {"\\": r"\textbackslash{}", "–": "--"}
        signs |= {"^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "→": r"$\to$"}
        escape = str.maketrans(signs | {"±": r"$\pm$", "Δ": r"$\Delta$", "×": r"$\times$"})
        lines = self.marked(lambda text: text.translate(escape), r"\textbf{{{}}}".format)
        header, *body = [" & ".join(line) + r" \\" for line in lines]
        begin = [f"% {self.title}", rf"\begin{{tabular}}{{l{'r' * (len(self.header) - 1)}}}", r"\toprule"]
        return "\n".join([*begin, header, r"\midrule", *body, r"\bottomrule", r"\end{tabular}", ""])


def percent(value, digits=1):
    return None if value is None else f"{round(100 * value, digits) + 0.0:.{digits}f}"  # + 0.0: no "-0.0"


def points(value):
    return f"{round(100 * value, 1) + 0.0:+.1f}"


def with_spread(result):
    return percent(result["accuracy"]) + (f" ± {percent(result['std'])}" if result["std"] is not None else "")


def number(value, unit=1):
    """Three digits, none after the point above a hundred."""
    return value and (f"{value / unit:,.0f}" if value >= 100 * unit else f"{value / unit:.3g}")


def best_of(rows, columns):
    """{(row, column)} of the largest number in each row."""
    best = set()
    for i, row in enumerate(rows):
        numbers = {(i, j): float(row[j].split()[0]) for j in columns if row[j]}
        best |= {place for place, value in numbers.items() if value == max(numbers.values())}
    return best


def shown_rows(results):
    """(name, row) of all but the confidence rules that are no best one."""
    for r in results:
        if r["kind"] != "confidence" or r["best_of"]:
            yield "".join(f"best of {name}: " for name in r["best_of"]) + r["method"], r


def methods_table(results):
    rows = []
    for name, r in shown_rows(results):
        count, gains = f"{r['correct']:.1f}/{r['problems']}".replace(".0/", "/"), []
        for reference, to in r["against"].items():
            closed = (percent(to["gap_closed"], 0) or "–") if r["kind"] in ("scorer", "vote") else None
            gain = [points(to["delta"]), f"[{percent(to['low'])}, {percent(to['high'])}]", closed]
            gains += [None] * 3 if reference in r["best_of"] else gain
        rows.append([name, with_spread(r), r["over"], count, *gains, percent(r["cut"]), number(r["tokens"])])
    header = ["method", "accuracy %", "over", "right/problems"]
    header += [name for to in REFERENCES for name in (f"Δ to {to}", "95% interval", "gap closed %")]
    best = best_of([[row[1] for row in rows[:-1]]], range(len(rows) - 1))  # the last is the oracle
    return Table("Methods", [*header, "cut %", "tokens a problem"], rows, {(i, 1) for _, i in best})


def curves_table(results):
    ns, rows = list(results[0]["curve"]), []
    for name, r in shown_rows(results):
        errors = {n: f" (± {percent(error, 2)})" for n, error in r["curve_subset_error"].items()}
        scores = [f"{r[key]:.3f}" if r.get(key) is not None else None for key in QUALITIES]
        curve = [percent(r["curve"][n]) + errors.get(n, "") for n in ns]
        rows.append([name, *curve, *scores, percent(r["cut"])])
    header = ["method", *[f"N={n}" for n in ns], "AUROC", "within a problem", "calibration error", "cut %"]
    return Table("Fewer rollouts (±: standard error of drawn subsets), and the scores as such", header, rows)


def confidence_table(results):
    """Statistics by aggregations; cut: the mean of the row's four."""
    by_name, rows, best = {r["method"]: r for r in results}, [], set()
    for i, name in enumerate(common.STATISTICS):
        rules = [by_name[f"{name}/{way}"] for way in common.AGGREGATIONS]
        rows.append([name, *map(with_spread, rules), percent(mean_of([r["cut"] for r in rules]))])
        best |= {(i, j) for j, r in enumerate(rules, 1) if r["best_of"]}
    header = ["statistic", *common.AGGREGATIONS, "cut %"]
    return Table("Confidence rules: the paper's five statistics, and two more", header, rows, best)


def cost_table(results):
    """Ratios are to the first SCaTR row, of time only where it was measured on the same device."""
    rows, cells = [r for r in results if "cost" in r], []
    scatr = next((r["cost"] for r in rows if r["scores"].startswith("scatr.")), dict.fromkeys(COSTS))
    for r in rows:
        cost, same = r["cost"], r["cost"]["device"] and r["cost"]["device"] == scatr.get("device")
        more = {key: cost[key] and scatr[key] and f"{number(cost[key] / scatr[key])}×" for key in COSTS}
        ms = cost["ms_per_rollout"]
        cells.append([
            label_of(r["scores"]), number(cost["parameters"]), number(cost["trained_parameters"]),
            number(cost["train_seconds"], 60), number(cost["train_flops"], 1e12), more["train_flops"],
            number(ms), number(ms and ms * cost["rollouts"]), more["ms_per_rollout"] if same else "–",
            number(cost["flops_per_rollout"], 1e6), more["flops_per_rollout"],
            cost["device"] or "–", with_spread(r), percent(r["cut"]),
        ])  # fmt: skip
    header = [
        "cost", "parameters", "trained", "training min", "training TFLOPs", "× SCaTR's", "ms a rollout",
        "ms a problem", "× SCaTR's", "MFLOPs a rollout", "× SCaTR's", "measured on", "accuracy %", "cut %",
    ]  # fmt: skip
    return Table("Costs: minutes and ms measured on the device named, FLOPs computed", header, cells)


def stopping_table(found):
    rows = []
    for r in found:
        drawn = f" (± {percent(r['error'], 2)})" if r["error"] else ""
        rows.append([
            r["method"], f"{r['threshold']:.3f}", with_spread(r) + drawn, points(r["delta"]),
            f"[{percent(r['low'])}, {percent(r['high'])}]", f"{r['rollouts']:.1f}", number(r["tokens"]),
            percent(r["share"]), percent(r["fixed"]),
        ])  # fmt: skip
    header = ["method, stopped", "when sure by", "accuracy %", "Δ to all rollouts", "95% interval",
              "rollouts", "tokens a problem", "% of all tokens", "% of a fixed N of that cost"]  # fmt: skip
    price = found[0]["price"] if found else 0
    title = f"Sampling that stops, {price:g} points below at most where calibrated (±: of drawn orders)"
    return Table(title, header, rows)


def pairs_of(groups):
    """[(group, calibration set, {role: its row}, the paper's numbers)]; all roles in the table's order."""
    pairs, kinds = [], {}
    for group in groups:
        split = [(r, *r["scores"].partition(".")[::2]) for r in group["rows"]]
        for wanted in sorted({name for _, family, name in split if family in CALIBRATED}) or [""]:
            roles = {}
            for r, family, calibration in split:
                vote = ", weighted vote" if family and r["kind"] == "vote" else ""
                hidden = vote or r["kind"] == "length" or r["method"] in MINOR
                if r["kind"] == "confidence":
                    roles |= {f"best of {name}": r for name in r["best_of"]}
                elif family in CALIBRATED and calibration == wanted and (not vote or "scatr" in family):
                    roles[FAMILIES[family] + vote] = r
                elif family not in CALIBRATED and not hidden:
                    roles[r["method"].removesuffix(", best-of-N")] = r
            kinds |= {role: KINDS.index(r["kind"]) for role, r in roles.items()}
            pairs.append((group, wanted, roles, paper_numbers(group["model"], wanted, group["dataset"])))
    return pairs, sorted(kinds, key=kinds.get)


def summary_table(groups):
    """A row for each model, data set and calibration set, as in the paper, whose numbers stand below."""
    (pairs, names), rows = pairs_of(groups), []
    names = list(dict.fromkeys([*names, *(name for *_, theirs in pairs for name in theirs)]))
    for group, calibration, roles, theirs in pairs:
        own, gains = roles.get("SCaTR") or roles.get("LoRA verifier"), [None] * 3
        if own:
            to = own["against"]["the paper's 20"]
            gains = [own["over"], points(to["delta"]), percent(to["gap_closed"]) or "–"]
        ours = [with_spread(roles[name]) if name in roles else None for name in names]
        rows.append([group["model"], calibration, group["dataset"], *ours, *gains, percent(group["cut"])])
        if theirs:
            scatr, best, oracle = (float(theirs.get(name, "nan").split()[0]) for name in PAPER_GAP)
            gains = [f"{scatr - best:+.1f}", f"{100 * (scatr - best) / (oracle - best):.1f}"]
            gains = ["9 runs", *([None, None] if math.isnan(best) else gains), None]
            rows.append(["the paper", calibration, group["dataset"], *map(theirs.get, names), *gains])
    header = ["model", "calibration set", "test", *names, "over", "Δ", "gap closed %", "cut %"]
    own = [i for i, name in enumerate(names, 3) if name != "oracle"]
    return Table("Summary", header, rows, best_of(rows, own))


def draw(columns):
    header, *rows = zip(*columns)
    return common.table(header, rows)


def screen(groups):
    """A method a row, two columns a pair of sets; in as many blocks of WIDTH columns as they need."""
    (pairs, names), several, blocks = pairs_of(groups), len({group["model"] for group in groups}) > 1, []
    for group, calibration, roles, theirs in pairs:
        title = f"{calibration} → {group['dataset']}" if calibration else group["dataset"]
        title = f"{group['model']}: {title}" if several else title
        gain = lambda r: "/".join(points(to["delta"]) for to in r["against"].values())
        gains = {name: gain(r) for name, r in roles.items()}
        ours = [with_spread(roles[name]) if name in roles else None for name in names]
        pair = [[title, *ours, percent(group["cut"])], ["Δ 20/28", *map(gains.get, names), None]]
        if theirs:
            pair.append(["paper", *[theirs.get(name, "").split(" ")[0] for name in names], None])
        if not blocks or len(draw([*blocks[-1], *pair]).splitlines()[1]) > WIDTH:
            blocks.append([["picks by", *names, "cut at the length limit"]])
        blocks[-1] += pair
    return "\n\n".join(map(draw, blocks))


def study_tables(paths):
    """A row a model, pair and measure, a column a layer, fraction or design. paths: files or folders."""
    files = [sorted(path.glob("*.json")) if path.is_dir() else [path] for path in map(Path, paths)]
    studies = {}
    for file in itertools.chain(*files):
        study = common.read_json(file)
        if not isinstance(study, dict) or study.get("format") != 1 or not study.get("rows"):
            common.die(f"{file}: not a study of 03_train_scorer.py")
        studies.setdefault(study["study"], []).append(study)
    return [study_table(name, several) for name, several in studies.items()]


def study_table(name, studies):
    each = [row for study in studies for row in study["rows"]]
    columns, rows = list(dict.fromkeys(row["row"] for row in each)), []
    measures = dict.fromkeys(measure for row in each for measure in row["measures"])
    for measure, study in itertools.product(measures, studies):
        found = {row["row"]: row["measures"][measure] for row in study["rows"] if measure in row["measures"]}
        write = lambda x: f"{x['mean']:.1f}" + ("" if x["std"] is None else f" ± {x['std']:.1f}")
        shown = {name: write(x) for name, x in found.items()}
        sets = ["+".join(study["calibration"]), "+".join(study["evaluation"])]
        rows += [[measure, study["model"], *sets, *map(shown.get, columns)]] if shown else []
    header = ["measure, %", "model", "calibration set", "test", *columns]
    return Table(f"Study: {name}", header, rows, best_of(rows, range(4, len(header))))


# ------------------------------------------------------------------------------------------------------------
# The report

SHORT_NOTE = """\
±: standard deviation over what varies for the row, at most {over} (column "over" of the report).
Δ: points above the best confidence rule of the paper's 20 / of all 28, both picked with hindsight."""
NOTE = __doc__.partition("What the numbers are. ")[2].strip()


def report(args):
    if args.plots:
        import_matplotlib()
    out, studies = report_folder(args), study_tables(args.studies)
    groups = [report_group(*some, args.price) for some in load_groups(args.runs, args.window, args.tail)]
    overall = [summary_table(groups), *studies]
    tables = {group["title"]: tables_of(group) for group in groups}
    figures = plot(out, groups, studies) if args.plots else {}
    facts = {"command": the_command(), "window": args.window, "tail": args.tail, "groups": groups}
    common.write_json(out / "results.json", facts)
    texts = {"report.md": markdown(groups, tables, overall, figures)}
    if args.latex:
        several = [table.latex() for some in (overall, *tables.values()) for table in some]
        texts["tables.tex"] = "\n".join(["% needs \\usepackage{booktabs}\n", *several])
    for name, text in texts.items():
        with common.atomic(out / name) as file:
            file.write(text)
    over = max((r["over"] for group in groups for r in group["rows"]), key=len) or "nothing here"
    notes = [note for group in groups for note in notes_of(group)]
    print(*tables, "", screen(groups), "", *notes, SHORT_NOTE.format(over=over), sep="\n")
    for table in studies:
        print("", table.title, "", common.table(table.header, table.rows), sep="\n")
    accuracies = lambda group: {name: r["accuracy"] for name, r in shown_rows(group["rows"])}
    shown = {group["title"]: accuracies(group) for group in groups}
    last = json.dumps({"report": str(out / "report.md"), "accuracy": shown})
    print(last if args.json else f"report: {out / 'report.md'}")


def tables_of(group):
    rows = group["rows"]
    tables = [methods_table(rows), curves_table(rows), stopping_table(group["stopping"])]
    return [table for table in [*tables, confidence_table(rows), cost_table(rows)] if table.rows]


def load_groups(paths, window, tail):
    """Repetitions of one model and data set: (runs, problems left out of all, greedy rollouts)."""
    groups = {}
    if len({os.path.realpath(path) for path in paths}) < len(paths):
        common.die("a run is given twice; each counts as a repetition of its own")
    for path in map(Path, paths):
        meta = common.read_meta(path)
        groups.setdefault((common.model_name(meta), dataset_name(meta)), []).append(path)
    for members in groups.values():
        greedy = read_greedy(members)
        labels = {path: common.read_labels(path) for path in members}
        skipped = unjudged(itertools.chain(*labels.values(), greedy.values()))
        runs = [load_run(path, window, tail, skipped, labels[path]) for path in members]
        for run in runs[1:]:
            if run.ids != runs[0].ids:
                counts = f"{len(run.ids)} and {len(runs[0].ids)} judged problems"
                common.die(f"{run.path} and {runs[0].path}: {counts}, not the same ones; report them apart")
            if run.meta["n"] != runs[0].meta["n"]:
                n = f"{run.meta['n']} and {runs[0].meta['n']}"
                common.die(f"{run.path} and {runs[0].path}: {n} rollouts a problem; report them apart")
        yield runs, skipped, [greedy[name] for name in runs[0].ids] if set(runs[0].ids) <= set(greedy) else []


def read_greedy(members):
    """{problem: its greedy rollout, with its label} of a labelled folder `greedy` beside the runs."""
    folder = members[0].resolve().parent / "greedy"
    if not (folder / "labels.jsonl").is_file() or folder in [path.resolve() for path in members]:
        return {}
    rollouts = common.read_rollouts(folder)
    labels = common.read_labels(folder, common.keys_of(rollouts))
    return {row["id"]: row | label for row, label in zip(rollouts, labels)}


def report_group(members, skipped, greedy, price):
    rows, meta = compare(make_rows(members, greedy), sizes_of(members)[-1]), members[0].meta
    add_costs(rows, members)
    names, routes = [set(run.scores) for run in members], [run.path / "routes.json" for run in members]
    share = lambda run, chosen: run.labels[chosen & run.valid].mean() if (chosen & run.valid).any() else None
    n = mean_of([run.valid.sum() / len(run.ids) for run in members])
    group = {
        "model": common.model_name(meta), "dataset": dataset_name(meta), "problems": len(members[0].ids),
        "rollouts_per_problem": n, "runs": [str(run.path) for run in members], "left_out": sorted(skipped),
        "not_in_every_run": sorted(set.union(*names) - set.intersection(*names)),
        "cut": rows[0]["cut"], "right_if_cut": mean_of([share(run, run.cut > 0) for run in members]),
        "right_if_ended": mean_of([share(run, run.cut == 0) for run in members]),
        "limit": meta.get("max_new_tokens") or meta.get("arguments", {}).get("max_new_tokens"),
        "routing": [{"run": str(path.parent), **common.read_json(path)} for path in routes if path.is_file()],
        "metas": [run.meta for run in members], "rows": rows, "stopping": stopping(members, rows, price),
    }  # fmt: skip
    title = f"{group['model']} on {group['dataset']}: {group['problems']} problems, N={n:.4g}"
    return {"title": title + (f", {len(members)} runs" if len(members) > 1 else ""), **group}


def dataset_name(meta):
    return Path(meta["dataset"]).name.split(".json")[0]


def notes_of(group):
    """What a reader must know before believing the numbers of a group, a line each."""
    where = group["title"].split(":")[0]
    cut, ended = percent(group["right_if_cut"]), percent(group["right_if_ended"])
    if group["left_out"]:
        yield f"{where}: {len(group['left_out'])} problems left out of all rows: a label could not be judged"
    if group["not_in_every_run"]:
        yield f"{where}: no row for {', '.join(group['not_in_every_run'])}: not in every run"
    if group["cut"] > CUT:
        share = percent(group["cut"])
        yield f"{where}: {share} % of the rollouts were cut at {group['limit']} tokens; {cut} % of"
        yield f"  them are right, {ended} % of the others: with room all would rise (01 --max-new-tokens 0)"
    for r in group["stopping"]:
        if r["scores"].startswith("scatr"):
            cost = f"{percent(r['share'], 0)} % of the tokens ({r['rollouts']:.1f} rollouts)"
            right = f"{percent(r['accuracy'])} % for {cost}, all: {percent(r['all'])} %"
            yield f"{where}: {r['method']}, stopped when sure:"
            yield f"  {right}"


def markdown(groups, tables, overall, figures):
    """report.md: the tables, the figures, and what made them."""
    picture = lambda title: [f"![{name}]({name})" for name in figures.get(title, [])]
    parts = ["# Report", f"Made by `{the_command()}`.", *map(Table.markdown, overall), *picture("studies")]
    for group in groups:
        title, facts = group["title"], ("model", "revision", "dataset", "seed", "n", "git")
        metas = [json.dumps({key: meta.get(key) for key in facts}) for meta in group["metas"]]
        made = [f"`{run}`: {meta}" for run, meta in zip(group["runs"], metas)]
        made += [f"`{c}`" for c in sorted({c for row in group["rows"] for c in row.get("made_by", [])})]
        made += [f"domains named by the model, right: {routing_text(routes)}" for routes in group["routing"]]
        parts += [f"## {title}", *notes_of(group), *map(Table.markdown, tables[title]), *picture(title)]
        parts.append("\n".join(f"- {line}" for line in made))
    return "\n\n".join([*parts, NOTE]) + "\n"


def report_folder(args):
    """--out, else the run's folder, or the one that holds all runs."""
    alone = len(args.runs) == 1
    shared = Path(args.runs[0] if alone else os.path.commonpath(map(os.path.abspath, args.runs)))
    if not args.out and shared.is_absolute() and shared.parent == shared:
        common.die(f"the runs share no folder but {shared}; say where the report goes: --out DIR")
    return Path(args.out or shared)


# ------------------------------------------------------------------------------------------------------------
# Figures


def import_matplotlib():
    try:
        import matplotlib
    except ImportError:
        common.die("--plots needs matplotlib: pip install matplotlib")
    matplotlib.use("Agg")


def plot(out, groups, studies):
    """{title: names of the PNG files}. drawer(axes, what) -> the axes' settings; None: nothing to show."""
    from matplotlib import pyplot

    wanted = [(group["title"], f"{name}-{i}.png", group)
              for (i, group), name in itertools.product(enumerate(groups, 1), FIGURES)]  # fmt: skip
    wanted += [("studies", f"{table.title.split(': ')[1]}-{i}.png", (table, row))
               for table in studies for i, row in enumerate(table.rows, 1)]  # fmt: skip
    figures = {}
    for title, name, what in wanted:
        canvas, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
        drawer = draw_study if title == "studies" else FIGURES[name.split("-")[0]]
        if settings := drawer(axes, what):
            axes.set(**{"title": title, "ylabel": "accuracy %"} | settings)
            if axes.get_legend_handles_labels()[0]:
                canvas.legend(loc="outside right upper", fontsize="small")
            with common.atomic(out / name, "wb") as file:
                canvas.savefig(file, format="png", dpi=150)
            figures.setdefault(title, []).append(name)
        pyplot.close(canvas)
    return figures


def draw_curves(axes, group):
    ns = [int(n) for n in group["rows"][0]["curve"]]
    for name, r in shown_rows(group["rows"]):
        if r["kind"] != "length" and r["method"] not in MINOR:
            values, spread = ([100 * (x or 0) for x in r[key].values()] for key in ("curve", "curve_std"))
            style = {"random": "k:", "oracle": "k--"}.get(r["kind"], ".-")
            axes.errorbar(ns, values, spread if any(spread) else None, fmt=style, capsize=2, label=name)
    axes.set_xscale("log")
    axes.minorticks_off()
    return {"xticks": ns, "xticklabels": ns, "xlabel": "rollouts a problem"}


def draw_stopping(axes, group):
    """Accuracy against the share of the tokens: stopping, the chosen threshold, and (dotted) a fixed N."""
    for r in group["stopping"]:
        (line,) = axes.plot(*100 * np.array(r["curve"]).T, label=r["method"])
        axes.plot(*100 * np.array(r["fixed_curve"]).T, ":", color=line.get_color())
        axes.plot(100 * r["share"], 100 * r["accuracy"], "o", color=line.get_color())
    return {"xlabel": "% of the tokens of all rollouts"} if group["stopping"] else None


def draw_reliability(axes, group):
    """How often answers with a given probability are right."""
    rows = [r for r in group["rows"] if r.get("reliability")]
    axes.plot([0, 1], [0, 1], "--", color="grey")
    for r in rows:
        found = [(p / count, right / count) for p, right, count in r["reliability"] if count]
        axes.plot(*zip(*found), marker="o", label=f"{label_of(r['scores'])}, error {r['ece']:.3f}")
    return {"xlabel": "probability given", "ylabel": "share that is right"} if rows else None


def draw_rules(wanted):
    """Bars of these rules beside SCaTR, between random and the oracle."""

    def draw_bars(axes, group):
        ours = lambda r: r["best_of_n"] and r["scores"].startswith("scatr")
        rows = [r for r in group["rows"] if r["method"] in wanted or ours(r)]
        bars(axes, [(r["method"], 100 * r["accuracy"], 100 * (r["std"] or 0)) for r in rows])
        for r in group["rows"]:
            if r["kind"] in ("random", "oracle"):
                style = ":" if r["kind"] == "random" else "--"
                axes.axhline(100 * r["accuracy"], color="black", linestyle=style, label=r["method"])
        return {"ylabel": "accuracy %"}

    return draw_bars


def draw_study(axes, what):
    table, row = what
    cells = [(name, *map(float, (cell or "0").split(" ± "))) for name, cell in zip(table.header[4:], row[4:])]
    bars(axes, [(*cell, 0)[:3] for cell in cells])
    return {"title": "{1}: {2} → {3}, {0} %".format(*row), "ylabel": "%"}


def bars(axes, rows):
    """rows: name, height, spread."""
    names, heights, spreads = zip(*rows)
    axes.bar(names, heights, yerr=spreads, capsize=3)
    axes.tick_params(axis="x", rotation=30)


FIGURES = {
    "curves": draw_curves, "stopping": draw_stopping, "reliability": draw_reliability,
    # the paper's five statistics over the tail, and its confidence in the four aggregations
    "statistics": draw_rules([f"{name}/tail" for name in common.STATISTICS[:5]]),
    "aggregations": draw_rules(RULES[:4]),
}  # fmt: skip


# ------------------------------------------------------------------------------------------------------------
# Learned verifiers: what they share

TOKENS_AT_ONCE = 16384  # in one forward pass, padding included; bounds the memory


def final_states(model, sequences):
    """[[T, d], ...]: the states the head reads. Padding is to the right, where no causal model looks."""
    import torch

    width = max(map(len, sequences))
    ids = torch.tensor([[*ids, *[0] * (width - len(ids))] for ids in sequences], device=model.device)
    states = model.base_model(input_ids=ids, use_cache=False).last_hidden_state
    return [state[: len(ids)] for state, ids in zip(states, sequences)]


def next_logits(model, sequences):
    """[B, vocabulary] after each sequence; all positions of long answers would take gigabytes."""
    import torch

    last = torch.stack([states[-1] for states in final_states(model, sequences)])
    return model.get_output_embeddings()(last).float()


def in_batches(sequences):
    """Lists of places, of like length; none over TOKENS_AT_ONCE with its padding if it can be split."""
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
            for place, result in zip(places, judge([sequences[i] for i in places]), strict=True):
                results[place] = result
    return results


def with_probability(logits):
    return list(zip(logits.tolist(), logits.sigmoid().tolist()))


def fit_answer(tokenizer, answer, keep, model, write):
    """Token ids of write(text) with the last `keep` tokens of an answer, fewer where the context is short."""
    answer = re.sub(r"<\|(?:start|channel)\|>\w*|<\|\w+\|>", " ", answer)  # gpt-oss's channels
    context = common.context_of(model.config)
    tokens = tokenizer(answer, add_special_tokens=False)["input_ids"][-keep:]
    while len(ids := write(tokenizer.decode(tokens, skip_special_tokens=True))) > context and tokens:
        tokens = tokens[len(ids) - context :]
    return ids[-context:]


def has_channels(tokenizer):
    """gpt-oss"""
    return tokenizer.convert_tokens_to_ids("<|channel|>") not in (None, tokenizer.unk_token_id)


def direct_prompt(tokenizer, question):
    """Token ids of a question whose very next token is the answer: no reasoning before it."""
    problem, skip = {"kind": "text", "prompt": question}, ""
    ids = list(common.encode_prompt(tokenizer, problem, thinking=False))
    if has_channels(tokenizer):
        skip = "<|channel|>final<|message|>"
    elif tokenizer.decode(ids[-16:]).rstrip().endswith("<think>"):
        skip = "\n</think>\n\n"
    return ids + tokenizer(skip, add_special_tokens=False)["input_ids"]


def first_tokens(tokenizer, *words):
    """Of words that must differ in it: yes and no, math and code."""
    ids = [tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in words]
    if ids[0] == ids[1]:
        common.die(f"{words} begin with one token, {tokenizer.decode(ids[0])!r}: this model cannot choose")
    return ids


def load_model_of(runs, args):
    meta = common.read_meta(runs[0])
    for run in runs[1:]:
        if (name := common.model_name(common.read_meta(run))) != (first := common.model_name(meta)):
            common.die(f"{runs[0]} is of the model {first!r}, {run} of {name!r}; give runs of one model")
    revision = None if args.model else meta.get("revision")
    return common.load_model(args.model or meta["model"], args.device, revision=revision)


def size_of(model):
    """What the costs of running it follow from."""
    config = model.config.get_text_config()
    experts = getattr(config, "num_experts", None) or getattr(config, "num_local_experts", None) or 1
    share = (getattr(config, "num_experts_per_tok", None) or 1) / experts  # of [experts, in, out]
    embeddings = model.get_input_embeddings().weight
    weights = [p for p in model.base_model.parameters() if p.ndim > 1 and p is not embeddings]
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "used": sum(p.numel() * (share if p.ndim == 3 else 1) for p in weights),  # by one token
        "attention": config.num_hidden_layers * config.num_attention_heads * width,
        "device": common.device_name(model.device),
    }


def flops(size, lengths, trained=None):
    """Of a forward pass over sequences of these lengths, or of a training step that moves `trained` weights.

    Backward is twice the forward, but nobody computes the gradients of weights that are not trained.
    """
    tokens, pairs = sum(lengths), sum(n * (n + 1) / 2 for n in lengths)
    products, attention = 2 * size["used"] * tokens, 4 * size["attention"] * pairs
    return products + attention if trained is None else 2 * products + 2 * trained * tokens + 3 * attention


def named(method, args, defaults):
    """With every setting that is not the default, so that other settings never overwrite its scores."""
    others = [f"{key}={getattr(args, key)}" for key in defaults if getattr(args, key) != defaults[key]]
    return ",".join([method, *others])


def mark_of(facts, *files):
    """Of all that decides a result: the same mark, the same result."""
    contents = [Path(file).read_bytes() for file in files]
    return hashlib.sha256(b"\n".join([json.dumps(facts).encode(), *contents])).hexdigest()


def is_finished(path, read, mark):
    """Does a file say that it was made of the same? read(path) -> what it says."""
    finished = path.is_file() and read(path).get("mark") == mark
    if finished:
        print(f"{path}: finished before")
    return finished


def score_rollouts(run, name, facts, load, at_once=256):
    """scores/NAME.jsonl and what it cost, unless they are there already, of the same facts and rollouts.

    load() -> (encode, judge, cost): encode(problem, response) -> token ids, judge(batch) -> [(score, p)].
    What is known is written every `at_once` rollouts: a killed run goes on from there.
    """
    folder, mark = Path(run) / "scores", mark_of(facts, Path(run) / "rollouts.jsonl")
    if is_finished(folder / f"{name}.cost.json", read_cost, mark) and (folder / f"{name}.jsonl").is_file():
        return
    encode, judge, cost = load()
    rollouts = common.read_rollouts(run)
    common.check_same_problems(run, rollouts)
    problems = {row["id"]: row for row in common.read_jsonl(Path(run) / "problems.jsonl")}
    partial, done = folder / f"{name}.partial.json", {"mark": mark, "seconds": 0.0, "flops": 0, "scores": []}
    if partial.is_file() and common.read_json(partial)["mark"] == mark:
        done = common.read_json(partial)
    order, known = sorted(range(len(rollouts)), key=lambda i: rollouts[i]["n_tokens"]), len(done["scores"])
    with common.progress(total=len(order), initial=known, desc=f"{name} {run}", unit="rollout") as bar:
        while rest := order[len(done["scores"]) :][:at_once]:
            started = time.perf_counter()
            sequences = [encode(problems[rollouts[i]["id"]], rollouts[i]["response"]) for i in rest]
            done["scores"] += judge_all(judge, sequences)
            done["seconds"] += time.perf_counter() - started
            done["flops"] += flops(cost, [len(ids) for ids in sequences])
            common.write_json(partial, done)
            bar.update(len(rest))
    write_scores(run, name, rollouts, [pair for _, pair in sorted(zip(order, done["scores"], strict=True))])
    ms, operations = 1000 * done["seconds"] / len(order), done["flops"] / len(order)
    more = {"mark": mark, "command": the_command(), "ms_per_rollout": ms, "flops_per_rollout": operations}
    common.write_json(folder / f"{name}.cost.json", cost | more)
    partial.unlink()
    print(f"{folder / name}.jsonl: {len(rollouts)} rollouts, {ms:.1f} ms each")


def write_scores(run, name, rows, pairs):
    """pairs: (score, p) of each row."""
    rows = [{"id": row["id"], "sample": row["sample"], "score": score, "p": p}
            for row, (score, p) in zip(rows, pairs, strict=True)]  # fmt: skip
    common.write_jsonl(Path(run) / "scores" / f"{name}.jsonl", rows)


# ------------------------------------------------------------------------------------------------------------
# LoRA verifier: the model that made the rollouts learns to say yes or no after them

RANK, ALPHA, DROPOUT = 16, 32, 0.05
BATCH, WARM_UP, CLIP = 16, 100, 1.0  # rollouts a step, steps to the full rate, norm of the gradient
LORA = {"epochs": 1, "lr": 2e-5, "last_tokens": None, "limit": None}  # the settings by default
QUESTION = """\
Determine the correctness of the following answer:
Problem: {problem}
Answer: {answer}
Is this answer correct (yes/no)?"""


def lora(args):
    """Adapters for each seed, and scores by them. A killed training starts over, and ends the same."""
    run, meta = Path(args.run), common.read_meta(args.run)
    facts = [meta["model"], args.model, *[getattr(args, key) for key in LORA]]
    mark = mark_of(facts, run / "labels.jsonl", run / "rollouts.jsonl")
    verifier = functools.cache(lambda: load_verifier(args))
    for seed in args.seed:
        path = run / f"{named('lora', args, LORA)}@{seed}.pt"
        if not is_finished(path, common.load_pt, mark):
            examples = read_examples(run, args.limit)
            model, adapters, encode, _, words = verifier()
            cost = train_adapters(model, adapters, examples, encode, words, args, seed)
            pair = lambda layer: [layer.down.detach().cpu(), layer.up.detach().cpu()]
            saved = {"format": 1, "rank": RANK, "alpha": ALPHA, "mark": mark, "cost": cost}
            saved["adapters"] = {name: pair(layer) for name, layer in adapters.items()}
            common.save_pt(path, saved | {"command": the_command()})

        def load(path=path):
            model, adapters, encode, judge, _ = verifier()
            saved = common.load_pt(path)
            for name, pair in saved["adapters"].items():
                adapters[name].load_state_dict(dict(zip(("down", "up"), pair)), strict=False)
            return encode, judge, saved["cost"] | size_of(model)

        name = f"{named(f'lora.{dataset_name(meta)}', args, LORA)}@{run.name}-{seed}"
        for other in args.eval:
            score_rollouts(other, name, mark, load)


def load_verifier(args):
    model, tokenizer = load_model_of([args.run, *args.eval], args)
    words, adapters = first_tokens(tokenizer, "yes", "no"), add_adapters(model)
    keep = args.last_tokens or (4096 if has_channels(tokenizer) else 16384)

    def encode(problem, response):
        question = lambda answer: QUESTION.format(problem=problem["prompt"], answer=answer)
        write = lambda answer: direct_prompt(tokenizer, question(answer))
        return fit_answer(tokenizer, response, keep, model, write)

    def judge(batch):
        yes, no = next_logits(model, batch)[:, words].unbind(-1)
        return with_probability(yes - no)

    return model, adapters, encode, judge, words


def read_examples(run, limit):
    """[(problem, response, label)] of the judged rollouts; `limit`: that many, the same for all seeds."""
    problems = {row["id"]: row for row in common.read_jsonl(run / "problems.jsonl", needs=("id", "prompt"))}
    rollouts = common.read_rollouts(run)
    labels = [row["label"] for row in common.read_labels(run, common.keys_of(rollouts))]
    judged = [(row, label) for row, label in zip(rollouts, labels) if label is not None]
    examples = [(problems[row["id"]], row["response"], label) for row, label in judged]
    if limit:
        drawn = np.random.default_rng(SEED).permutation(len(examples))[:limit]
        examples = [examples[i] for i in sorted(drawn)]
    right = sum(label for *_, label in examples)
    print(f"{run}: {len(examples)} of {len(labels)} rollouts to learn from, {right} right")
    if right in (0, len(examples)):
        common.die(f"{run}: {right} of {len(examples)} rollouts are right; a verifier needs both")
    return examples


def add_adapters(model):
    """{name: adapter} in place of every linear layer of the blocks; not of experts kept as 3-D parameters."""
    import torch
    from torch import nn

    class Adapter(nn.Module):
        """y = W x + B A x alpha / rank; in float32, since bfloat16 would round small steps away."""

        def __init__(self, base):
            super().__init__()
            self.base, device = base, base.weight.device
            self.down = nn.Parameter(torch.empty(RANK, base.in_features, device=device))
            self.up = nn.Parameter(torch.empty(base.out_features, RANK, device=device))

        def forward(self, x):
            low = nn.functional.dropout(x, DROPOUT, self.training) @ self.down.mT.to(x.dtype)
            return self.base(x) + low @ self.up.mT.to(x.dtype) * (ALPHA / RANK)

    model.requires_grad_(False)
    layers = model.base_model.named_modules()
    adapters = {name: Adapter(layer) for name, layer in layers if isinstance(layer, nn.Linear)}
    for name, adapter in adapters.items():
        model.base_model.set_submodule(name, adapter)
    return adapters


def start_adapters(adapters, seed):
    """Fresh ones, which change nothing -> their parameters."""
    import torch

    torch.manual_seed(seed)
    for adapter in adapters.values():
        torch.nn.init.kaiming_uniform_(adapter.down, a=math.sqrt(5))
        torch.nn.init.zeros_(adapter.up)
    return [parameter for adapter in adapters.values() for parameter in (adapter.down, adapter.up)]


def train_adapters(model, adapters, examples, encode, words, args, seed):
    """Cross-entropy of the one word after the question -> what it cost."""
    import torch

    parameters, size = start_adapters(adapters, seed), size_of(model)
    trained, steps = sum(p.numel() for p in parameters), args.epochs * math.ceil(len(examples) / BATCH)
    optimizer, operations, started = torch.optim.AdamW(parameters, weight_decay=0.0), 0, time.perf_counter()
    checkpoint_activations(model.train())
    with common.progress(total=steps, desc=f"train lora@{seed}", unit="step") as bar:
        for step in range(steps):
            optimizer.param_groups[0]["lr"] = args.lr * rate_at(step, steps)
            batch = [examples[i] for i in rows_of_step(len(examples), step, seed)]
            sequences = [encode(problem, response) for problem, response, _ in batch]
            loss = learn_from(model, sequences, [words[0] if label else words[1] for *_, label in batch])
            torch.nn.utils.clip_grad_norm_(parameters, CLIP)
            optimizer.step()
            optimizer.zero_grad()
            operations += flops(size, [len(ids) for ids in sequences], trained)
            bar.set_postfix(loss=f"{loss:.3f}")
            bar.update()
    model.eval()
    seconds = time.perf_counter() - started
    print(f"lora@{seed}: {steps} steps in {seconds / 60:.1f} min, {trained:,} parameters trained")
    return {"trained_parameters": trained, "train_seconds": seconds, "train_flops": operations}


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


# ------------------------------------------------------------------------------------------------------------
# Process reward models, without code from the Hub

STEP_END = "<extra_0>"
PRM = {"last_tokens": 2048, "steps": "mean"}  # the settings by default


def prm(args):
    # of the kind with a score at each step (ReasonFlux-PRM-7B), or one at the end (ReasonFlux-PRM-1.5B)?
    steps = "Qwen2ForProcessRewardModel" in (common.load_config(args.prm).architectures or ())
    name = named(f"prm.{common.model_name({'model': args.prm})}", args, PRM)
    load = functools.cache(lambda: (load_step_prm if steps else load_final_prm)(args))
    for run in args.runs:
        score_rollouts(run, name, [args.prm, args.last_tokens, args.steps], load)


def load_final_prm(args):
    """A causal model with a linear head, reward_head.pt, on the last state; reads plain text."""
    import torch
    from transformers.utils import cached_file

    with common.loading(args.prm) as more:
        file = cached_file(args.prm, "reward_head.pt", **more())
    model, tokenizer = common.load_model(args.prm, args.device)
    head = torch.nn.Linear(model.config.hidden_size, 1)
    with common.loading(args.prm):
        head.load_state_dict(common.load_pt(file))
    head.to(model.device)

    def encode(problem, response):
        write = lambda answer: tokenizer(f"{problem['prompt']}\n{answer}")["input_ids"]
        return fit_answer(tokenizer, response, args.last_tokens, model, write)

    def judge(batch):
        last = torch.stack([states[-1] for states in final_states(model, batch)])
        return with_probability(head(last.float())[:, 0])

    return encode, judge, size_of(model)


def load_step_prm(args):
    """Qwen2 with a two-layer head, read at the mark behind each paragraph: the chance that it is good."""
    import torch
    from transformers import AutoTokenizer, Qwen2Model, Qwen2PreTrainedModel

    class StepRewardModel(Qwen2PreTrainedModel):
        def __init__(self, config):
            super().__init__(config)
            self.model, width = Qwen2Model(config), config.hidden_size
            layers = torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, 2)
            self.score = torch.nn.Sequential(*layers)
            self.post_init()

    device = common.pick_device(args.device)
    with common.loading(args.prm):
        tokenizer, dtype = AutoTokenizer.from_pretrained(args.prm), common.pick_dtype("auto", device)
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
            roles = {"user": problem["prompt"], "assistant": STEP_END.join([*steps, ""])}
            talk = [{"role": role, "content": content} for role, content in roles.items()]
            return tokenizer.apply_chat_template(talk, return_dict=True)["input_ids"]

        return fit_answer(tokenizer, response, args.last_tokens, model, write)

    def judge(batch):
        each = zip(batch, final_states(model, batch))
        marked = [states[torch.tensor(ids) == mark].float() for ids, states in each]
        return [(sum_up(model.score(states).softmax(-1)[:, 1]).item(),) * 2 for states in marked]

    return encode, judge, size_of(model)


# ------------------------------------------------------------------------------------------------------------
# Domain routing: the model that answers also says whether a problem is one of maths or of code

DOMAINS = ("math", "code")
ROUTER = """Is the following a mathematics problem or a programming task?

{problem}

Answer with one word, math or code."""


def route(args):
    if len(args.math) != len(args.code):
        common.die(f"--math and --code: {len(args.math)} and {len(args.code)} scorers; give them in pairs")
    scorers = {f"routed@{i}": pair for i, pair in enumerate(zip(args.math, args.code))}
    scorers |= {f"mixed@{i}": (path, path) for i, path in enumerate(args.mixed)}
    for path in {path for pair in scorers.values() for path in pair}:
        common.load_scorer(path)  # a mistyped name ends it here, before any work
    model, tokenizer = load_model_of(args.runs, args)
    for run in map(Path, args.runs):
        domains = name_domains(run, model, tokenizer)
        for old in [*(run / "scores").glob("routed@*"), *(run / "scores").glob("mixed@*")]:
            old.unlink()  # of an earlier call with more scorers
        for name, pair in scorers.items():
            write_routed(run, name, domains, dict(zip(DOMAINS, pair)))


def name_domains(run, model, tokenizer):
    """{problem: the likelier of the two words as the answer's first}; also into routes.json."""
    problems = common.read_jsonl(run / "problems.jsonl", needs=("id", "kind", "prompt"))
    words = first_tokens(tokenizer, *DOMAINS)
    write = lambda text: direct_prompt(tokenizer, ROUTER.format(problem=text))
    prompts = [fit_answer(tokenizer, row["prompt"], 2**20, model, write) for row in problems]
    likelier = judge_all(lambda batch: next_logits(model, batch)[:, words].argmax(1).tolist(), prompts)
    domains = {row["id"]: DOMAINS[word] for row, word in zip(problems, likelier)}
    judged = [row for row in problems if row["kind"] in DOMAINS]
    right = sum(domains[row["id"]] == row["kind"] for row in judged)
    routes = {"right": right, "judged": len(judged), "domains": domains}
    common.write_json(run / "routes.json", routes)
    print(f"{run}: domains right %: {routing_text(routes)}")
    return domains


def routing_text(routes):
    right, known = routes["right"], routes["judged"]
    return f"{percent(right / known)} ({right}/{known})" if known else "no problem with a known domain"


def write_routed(run, name, domains, scorers):
    """Scores of a run, each problem's by the scorer of its domain."""
    pairs = {}
    for domain, path in scorers.items():
        scorer = common.load_scorer(path)
        keys, logits = common.score_run(scorer, run, path)
        found = zip(keys, zip(logits.tolist(), scorer.probability(logits).tolist()))
        pairs |= {key: pair for key, pair in found if domains[key[0]] == domain}
    rollouts = common.read_rollouts(run)
    rows = common.align([{"id": key[0], "sample": key[1], "pair": pair} for key, pair in pairs.items()],
                        common.keys_of(rollouts), run / "hidden.pt")  # fmt: skip
    write_scores(run, name, rollouts, [row["pair"] for row in rows])


# ------------------------------------------------------------------------------------------------------------


def the_command():
    return shlex.join(["python", "05_baselines.py", *sys.argv[1:]])


FLAG, MANY = {"action": "store_true"}, {"nargs": "+", "default": []}
PAIRED = MANY | {"required": True, "metavar": "PT"}
OPTIONS = (  # of which commands, the option, what it says, the rest
    ("report", "runs", "labelled run folders", MANY | {"metavar": "RUN"}),
    ("report", "--out", "folder for the report (default: the run, or what the runs have in common)", {}),
    ("report", "--window", "tokens in a confidence window", {"type": int, "default": common.WINDOW}),
    ("report", "--tail", "tokens in the tail", {"type": int, "default": common.TAIL}),
    ("report", "--price", "points that stopping early may cost", {"type": float, "default": 1.0}),
    ("report", "--studies", "files or folders of 03_train_scorer.py --study", MANY | {"metavar": "JSON"}),
    ("report", "--latex", "also tables.tex: all tables with booktabs, the best in bold", FLAG),
    ("report", "--plots", "also PNG figures: curves, reliability, bars; needs matplotlib", FLAG),
    ("report", "--json", "a last line of JSON, for programs", FLAG),
    ("lora", "run", "labelled run to learn from; keeps the adapters, lora@SEED.pt", {"metavar": "RUN_CAL"}),
    ("lora", "--eval", "runs of the same model to score", MANY | {"metavar": "RUN"}),
    ("lora", "--seed", "one verifier each; the paper's: 32 42 52", MANY | {"type": int, "default": [32]}),
    ("lora", "--epochs", "the paper: 6 for small sets", {"type": int, "default": LORA["epochs"]}),
    ("lora", "--lr", "highest learning rate; tiny models need more", {"type": float, "default": LORA["lr"]}),
    ("lora", "--last-tokens", "read the last this many of an answer (16384; gpt-oss 4096)", {"type": int}),
    ("lora", "--limit", "learn from this many rollouts, drawn at random (all)", {"type": int}),
    ("prm route", "runs", "run folders; to route, of one model", MANY | {"metavar": "RUN"}),
    ("prm", "--prm", "Hub id or folder: reward_head.pt, or Qwen2ForProcessRewardModel", {"required": True}),
    ("prm", "--last-tokens", "read of an answer", {"type": int, "default": PRM["last_tokens"]}),
    ("prm", "--steps", "steps to one score", {"choices": ("mean", "min", "last"), "default": PRM["steps"]}),
    ("route", "--math", "scorers calibrated on maths, one a seed", PAIRED),
    ("route", "--code", "scorers calibrated on code, as many", PAIRED),
    ("route", "--mixed", "scorers calibrated on both, to compare with", MANY | {"metavar": "PT"}),
    ("lora prm route", "--device", "cpu, cuda, cuda:1, mps (the GPU if there is one)", {}),
    ("lora route", "--model", "the model's Hub id or folder, if no longer where meta.json says", {}),
)
COMMANDS = {"report": report, "lora": lora, "prm": prm, "route": route}


def main():
    words = sys.argv[1:]
    command = words.pop(0) if words and words[0] in COMMANDS else "report"
    COMMANDS[command](parse_args(command, words))


def parse_args(command, words):
    name = f"{Path(sys.argv[0]).name}{'' if command == 'report' else ' ' + command}"
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(name, description=__doc__, formatter_class=plain)
    for commands, option, text, more in OPTIONS:
        if command in commands.split():
            default = " (default: %(default)s)" if more.get("default") else ""
            parser.add_argument(option, help=text + default, **more)
    args = parser.parse_args(words)
    for option in ("window", "tail", "epochs", "lr", "last_tokens", "limit"):
        if getattr(args, option, None) is not None and getattr(args, option) <= 0:
            common.die(f"--{option.replace('_', '-')}: give a number above 0, not {getattr(args, option)}")
    return args


if __name__ == "__main__":
    common.entry(main, "finished scores and adapters, and half a run's scores; the same command goes on")
