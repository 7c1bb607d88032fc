"""Every way to pick an answer, beside each other on the same rollouts: exact expectations, honest intervals.

    python 05_baselines.py RUN ... --out DIR        labelled runs; scores/*.jsonl (04's, or yours) are rows
    python 05_baselines.py RUN ... --studies DIR    also what 03_train_scorer.py --study wrote
    python 05_baselines.py lora RUN_CAL --eval RUN  the run's model learns to say whether an answer is right
    python 05_baselines.py prm RUN --prm NAME       process reward model, as Gen-Verse/ReasonFlux-PRM-1.5B
    python 05_baselines.py route RUN --math M.pt --code C.pt  the model names the domain, its scorer picks

The first two print a short table and write report.md, tables.tex and results.json; the others write
scores/NAME.jsonl and NAME.cost.json, rows of the next report. A row of your own is such a file, of lines
{"id", "sample", "score"}, higher is better, and "p" for votes. METHOD.CALSET@CALRUN-SEED.jsonl is one of its
method's: a row is the mean over evaluation runs (of one model and data set) x calibration runs x scorer
seeds, ± the standard deviation (ddof=1) over those that vary ("over"). A labelled folder `greedy` beside a
run is a row. In reading order: runs as arrays; picks and votes; rows; Δ and gap closed; stopping; the
paper's numbers; tables; report; figures; verifiers: LoRA, PRM, routing.

What the numbers are. Random, best-of-n and oracle at n < N rollouts: the exact expectation over all
n-subsets; votes: exact where these are few, else the mean over seeded random ones with its standard error.
Tied answers share the credit of a majority. Δ: points above the best confidence rule, of the paper's 20 and
of all, picked with hindsight on these labels (which favours it), with a paired bootstrap interval over
problems. Gap closed: Δ as a share of the distance from that rule to the oracle, a dash where this is under
two problems. Cut: the share of a row's picks (random: of all rollouts) that ended at the length limit. A
problem with a label that could not be judged is in no row. Windows of the confidence rules: the paper's
(1,024 tokens, tail 2,048) where answers are long, else the power of two nearest to half of the median answer.
FLOPs are computed, minutes and ms measured on the device named, their ratios on one device only; LoRA and PRM
read one rollout at a time.
"""

from __future__ import annotations  # numpy is not there yet

import argparse
import functools
import importlib.util
import itertools
import math
import os
import re
import shlex
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import common
from common import np, torch  # imported by their first use

SUBSETS, DRAWS, SEED = 128, 1000, 0  # random subsets of a vote, bootstrap draws, and their seed
RULES = common.RULES
ALL = f"all {len(RULES)}"
PAPERS_WINDOWS = f"{common.WINDOW:,} and {common.TAIL:,}"
FIVE = [*common.STATISTICS][:5]  # the paper's statistics
REFERENCES = {
    "the paper's 20": [f"{name}/{way}" for name in FIVE for way in common.AGGREGATIONS[:4]], ALL: RULES
}  # fmt: skip
ORACLE = "oracle"
OWN = {ORACLE, *RULES}  # score files that every run has by itself
CUT = 0.05  # the share of cut rollouts from which a line says so
COSTS = {  # in NAME.cost.json: (column, its unit)
    "parameters": ("parameters", 1), "train_seconds": ("training min", 60),
    "train_flops": ("training TFLOPs", 1e12), "ms_per_rollout": ("ms a rollout", 1),
    "ms_per_problem": ("ms a problem", 1),
}  # fmt: skip
SCORES_AS_SUCH = {"auroc": "AUROC", "auroc_within": "within a problem", "ece": "calibration error"}

# ---- A labelled run as arrays [P problems, N rollouts]; a problem with fewer rollouts is padded at the end


@dataclass(eq=False)  # hashed by identity: its subsets are cached
class Run:
    path: Path
    meta: dict
    ids: list  # of the problems
    valid: np.ndarray  # False where padded
    labels: np.ndarray
    cut: np.ndarray  # 1: at the length limit
    tokens: np.ndarray
    groups: np.ndarray  # of equal answers, -1: none
    window: int  # of the confidence rules, in tokens
    tail: int
    answers: np.ndarray  # 1: it is in answers.jsonl, 04's one answer a problem
    files: dict  # method -> name of its file -> {"score": [P, N], "p": the same or None, "cost": {}}


def load_group(paths, window=None, tail=None, only=()):
    """Repetitions of one model and data set, `greedy` beside them or None, the problems left out of all."""
    by_length = windows_for(paths)
    window, tail = window or by_length[0], tail or by_length[1]
    greedy = [file.parent for file in paths[0].resolve().parent.glob("greedy/labels.jsonl")]
    labels = [common.read_labels(path) for path in [*paths, *greedy]]
    left_out = {row["id"] for rows in labels for row in rows if row["label"] is None}
    load = functools.partial(load_run, left_out=left_out, window=window, tail=tail, only=only)
    runs = [load(path, rows) for path, rows in zip([*paths, *greedy], labels)]
    first, runs, others = runs[0], runs[: len(paths)], runs[len(paths) :]
    for run in runs:
        if (run.ids, run.meta.get("n")) != (first.ids, first.meta.get("n")):
            of = [f"{r.path} has {len(r.ids)} judged problems, N={r.meta.get('n')}" for r in (run, first)]
            common.die(f"{', '.join(of)}: not the same ones; report them apart")
    return runs, next((run for run in others if run.ids == first.ids), None), left_out


def windows_for(paths):
    """(window, tail) of the confidence rules: the paper's, or fewer tokens where answers are short.

    They are the power of two nearest to half of the median answer: in an answer that is shorter than a window
    all rules of a statistic are its mean.
    """
    if not all((path / "tokens.pt").is_file() for path in paths):
        return common.WINDOW, common.TAIL  # as in rollouts.jsonl; others are computed from the tokens
    median = np.median([row["n_tokens"] for path in paths for row in common.each_rollout(path)])
    nearest = 2 ** round(math.log2(max(median, 2) / 2))
    return min(nearest, common.WINDOW), min(nearest, common.TAIL)


def load_run(path, labels, left_out, window, tail, only):
    rollouts = common.read_rollouts(path)
    common.check_same_problems(path, rollouts)
    keys, places = common.keys_of(rollouts), {}  # problem -> places of its rollouts
    labels = common.align(labels, keys, path / "labels.jsonl")
    for place, (problem, _) in enumerate(keys):
        if problem not in left_out:
            places.setdefault(problem, []).append(place)
    if not places:
        common.die(f"{path}: no problem has all its labels; 05 needs labelled runs (04 selects without)")
    padded = itertools.zip_longest(*places.values(), fillvalue=len(keys))  # with the place behind the last
    index = np.array([*padded]).T
    spread = lambda values, empty=0.0: np.array([*values, empty], dtype=float)[index]
    rows = [rollout | label for rollout, label in zip(rollouts, labels)]
    facts = ((row["label"] or 0, row.get("finish") == "length", row["n_tokens"]) for row in rows)
    groups = spread((-1 if row.get("group") is None else row["group"] for row in rows), -1).astype(int)
    arrays = index < len(keys), *map(spread, zip(*facts)), groups
    file = path / "answers.jsonl"
    answers = {*common.keys_of(common.read_jsonl(file, needs=("id", "sample")))} if file.is_file() else ()
    answers = spread(key in answers for key in keys)
    run = Run(path, common.read_meta(path), [*places], *arrays, window, tail, answers, files={})
    for name, values in own_scores(path, rows, window, tail):
        run.files[name] = {"": {"score": spread(values, -np.inf), "p": None, "cost": {}}}
    for file in sorted((path / "scores").glob("*.jsonl")):
        method, _, name = file.stem.partition("@")
        if method in OWN:
            common.die(f"{file}: the table has a row {method} of its own; give the file another name")
        if only and not {method, file.stem} & {*only}:
            continue
        run.files.setdefault(method, {})[name] = read_scores(file, keys, spread)
    return run


def own_scores(path, rows, window, tail):
    """Yield (one of OWN, a score for each rollout)"""
    found = [conf for _, conf in common.with_confidence(path, rows, window, tail)]
    for rule in RULES:
        sign = -1 if rule.split("/")[0] in common.LOWER_IS_BETTER else 1
        values = sign * np.array([conf[rule] for conf in found], dtype=float)  # None becomes nan:
        yield rule, np.nan_to_num(values, nan=np.nanmin([0, *values]) - 1)  # no tokens rank below all others
    yield ORACLE, [row["label"] or 0 for row in rows]


def read_scores(file, keys, spread):
    rows = common.align(common.read_jsonl(file, needs=("id", "sample", "score")), keys, file)
    number = lambda x, low, high: isinstance(x, (int, float)) and low <= x <= high
    for row in rows:
        if not number(row["score"], -1e300, 1e300) or not number(row.get("p") or 0, 0, 1):
            common.die(f"{file}: a score is a finite number and p a probability, or absent; not so in {row}")
    p, path = [row.get("p") for row in rows], file.with_name(f"{file.stem}.cost.json")
    cost = common.read_json(path) if path.is_file() else {}
    if not all(number(cost.get(key) or 0, 0, 1e300) for key in COSTS):
        common.die(f"{path}: a cost is a number, or absent: {', '.join(COSTS)}")
    score = spread((row["score"] for row in rows), -np.inf)
    return {"score": score, "p": None if None in p else spread(p), "cost": cost}


# ---- Picks: a rollout's chance, or share, to be what a method picks [P, N]; in each of S subsets [S, P, N]


def blindly(run, file, n):
    return run.valid / run.valid.sum(1, keepdims=True)


def by_score(run, file, n):
    """The exact expectation over all n-subsets, as if there were one."""
    chances = np.zeros(run.valid.shape)  # of the r-th best rollout
    for i, total in enumerate(run.valid.sum(1)):
        chances[i, :total] = first_of_subset(total, n)
    return np.take_along_axis(chances, ranks(file["score"]), 1)


first_of_subset = functools.cache(common.first_of_subset)
ranks = lambda scores: np.argsort(np.argsort(-scores, 1, kind="stable"), 1)  # 0: the best; ties in order


def by_vote(run, file, n, weighted, scores="score"):
    subsets = subsets_of(run, n)
    found = np.zeros((len(subsets), *run.valid.shape))
    for shares, columns in zip(found, subsets):
        some = (np.take_along_axis(array, columns, 1) for array in (run.groups, file[scores], run.valid))
        np.put_along_axis(shares, columns, vote(*some, weighted), 1)
    return found


def vote(groups, scores, valid, weighted):
    """[P, n]: a rollout's share of the pick. Tied majorities share it; without an answer none is picked."""
    if weighted:
        pick = common.weighted_vote(groups, np.where(valid, scores, 0), scores)
        return pick[:, None] == np.arange(groups.shape[1])
    totals = common.group_totals(groups, np.ones(groups.shape))
    winners = (groups >= 0) & (totals == totals.max(1, keepdims=True))
    return winners / np.maximum(winners.sum(1, keepdims=True), 1)


@functools.lru_cache(maxsize=64)
def subsets_of(run, n):
    """[S, P, n] columns: all subsets or, if these are not fewer, SUBSETS of them, the same for every vote."""
    problems, top = run.labels.shape
    if n >= top or (run.valid.all() and math.comb(top, n) < SUBSETS):
        some = np.array(list(itertools.combinations(range(top), min(n, top))))
        return np.broadcast_to(some[:, None], (len(some), problems, some.shape[1]))
    noise = np.random.default_rng(SEED).random((SUBSETS, problems, top))
    return np.sort(np.argsort(np.where(run.valid, noise, 2), -1)[:, :, :n], -1)  # padding is drawn last


VOTES = {  # name: (the score it uses, does a vote count as much as its score)
    "majority vote": ("mean/tail", False),
    "confidence-weighted vote": ("mean/tail", True),
}

# ---- Rows: a dict for each method, as in results.json

# what score files are called before the dot, in the table's order; other people's come before them
FAMILIES = {
    "logistic": "logistic regression", "lora": "LoRA verifier", "prm": "PRM",
    "routed": "SCaTR, routed by domain", "mixed": "SCaTR, mixed domains",
    "scatr": "SCaTR", "scatr+": "SCaTR+",
}  # fmt: skip
CALIBRATED = ("logistic", "lora", "scatr", "scatr+")  # scatr.math_a: SCaTR (math_a), in the summary SCaTR


def make_rows(runs, greedy=None):
    """All methods that every run has, and the greedy run's one rollout a problem."""
    top = max(run.labels.shape[1] for run in runs)
    ns = [n for n in (1, 2, 4, 8, 12, 16, 32, 64, 128) if n < top] + [top]
    tokens, rows = mean_of(run.tokens.sum(1).mean() for run in runs), []
    for name, (kind, scores, pick, facts) in methods_of(runs).items():
        files = files_of(runs, scores)
        picks = {key: [picked(run, pick(run, file, n)) for n in ns] for key, run, file in files}
        rows.append(row_of(name, kind, ns, picks, tokens=tokens, **facts))
    rows[0]["cut"], rows[-1]["cut"] = mean_of(run.cut[run.valid].mean() for run in runs), None
    if all((run.answers.sum(1) == 1).all() for run in runs):
        picks = {(i, "", ""): [picked(run, run.answers)] for i, run in enumerate(runs)}
        rows.insert(-1, row_of("answers.jsonl, 04's choice", "choice", [top], picks, tokens=tokens))
    if greedy:
        picks = {(0, "", ""): [picked(greedy, greedy.valid)] * len(ns)}
        rows.insert(1, row_of("greedy", "greedy", ns, picks, tokens=greedy.tokens.mean()))
    return rows


def methods_of(runs):
    """{name: (kind, the score files it reads, pick(run, file, n), facts)} in the table's order."""
    found, votes, part = {"random": ("random", ORACLE, blindly, {})}, {}, functools.partial
    for name in RULES:
        facts = {"short": None, "scores": name, "equals": twin_of(runs, name)}
        found[name] = "confidence", name, by_score, facts | quality_of(runs, name)
    for name, (rule, weighted) in VOTES.items():
        votes[name] = "vote", rule, part(by_vote, weighted=weighted), {}
    rank = {family: place for place, family in enumerate(FAMILIES)}  # ours last, next to the votes
    shared = set.intersection(*[set(run.files) for run in runs]) - OWN
    for method in sorted(shared, key=lambda method: (rank.get(method.partition(".")[0], -1), method)):
        name, short, calibration = names_of(method)
        learned = any(file["cost"].get("learned") for *_, file in files_of(runs, method))
        facts = {"scores": method, "calibration": calibration, "short": short, "in_sample": learned}
        more = quality_of(runs, method) | cost_of(runs, method)
        found[f"{name}, best-of-N"] = "scorer", method, by_score, facts | more
        if all(file["p"] is not None for *_, file in files_of(runs, method)):
            short = f"{short}, weighted vote" if method.startswith("scatr") else None
            pick = part(by_vote, weighted=True, scores="p")
            votes[f"{name}, weighted vote"] = "vote", method, pick, facts | {"short": short}
    votable = all((run.groups >= 0).any() for run in runs)
    return found | (votes if votable else {}) | {ORACLE: (ORACLE, ORACLE, by_score, {})}


def twin_of(runs, rule):
    """An earlier rule of the same statistic with the same values, as in answers shorter than a window."""
    for other in RULES[: RULES.index(rule)]:
        pairs = [(run.files[other][""]["score"], run.files[rule][""]["score"]) for run in runs]
        if other.split("/")[0] == rule.split("/")[0] and all(np.allclose(*pair, rtol=1e-9) for pair in pairs):
            return other


def names_of(method):
    """Of score files: the name of their row, what the summary calls it, the calibration set or nothing."""
    family, _, more = method.partition(".")
    name = FAMILIES.get(family, family)
    full = f"{name} ({more})" if more else name
    return (full, name, more) if family in CALIBRATED else (full, full, "")


def files_of(runs, method):
    """(key of the picks, run, the file) of each file that every run has; its name is CALRUN-SEED."""
    names = set.intersection(*[set(run.files[method]) for run in runs])
    for (i, run), name in itertools.product(enumerate(runs), sorted(names)):
        calibration, _, seed = name.rpartition("-")
        yield (i, calibration, seed), run, run.files[method][name]


def picked(run, picks):
    """[2, S, P]: is the pick right, is it cut"""
    return np.array([np.atleast_2d((x * picks).sum(-1)) for x in (run.labels, run.cut)])


def row_of(name, kind, ns, picks, **facts):
    """picks: (evaluation run, calibration run, scorer seed) -> with each of ns rollouts [2, S, P]"""
    right = np.array([[pick[0].mean(0) for pick in each] for each in picks.values()])  # [runs, T, P]
    drawn = {str(n): [pick[i][0] for pick in picks.values()] for i, n in enumerate(ns)}
    errors = {n: mean_of(map(subset_error, some)) for n, some in drawn.items() if len(some[0]) == SUBSETS}
    counts = zip([len(set(part)) for part in zip(*picks)], ("eval", "cal", "seeds"))
    each, mean = right.mean(2), right.mean(0)  # [runs, T], [T, P]
    return {
        "method": name, "kind": kind, "short": name, "calibration": "", "scores": "", "right": mean[-1],
        **mean_and_std(each[:, -1]), "runs": len(each),
        "curve_std": each.std(0, ddof=1).tolist() if len(each) > 1 else None,
        "over": " × ".join(f"{count} {what}" for count, what in counts if count > 1),
        "correct": float(mean[-1].sum()), "problems": len(mean[-1]),
        "cut": mean_of(pick[-1][1].mean() for pick in picks.values()), "best_of": [], "against": {},
        "curve": dict(zip(drawn, mean.mean(1).tolist())), "curve_subset_error": errors, **facts,
    }  # fmt: skip


def mean_and_std(each):
    std = float(np.std(each, ddof=1)) if len(each) > 1 else None
    return {"accuracy": float(np.mean(each)), "std": std}


def subset_error(credits):
    """Standard error of the mean of credits [S, P], drawn S times and independently for each problem."""
    return float(np.sqrt((credits.var(0, ddof=1) / len(credits)).sum()) / credits.shape[1])


def mean_of(values):
    values = [value for value in values if value is not None]
    return float(np.mean(values)) if values else None


def quality_of(runs, method):
    """AUROC, its mean inside problems, and the expected calibration error over ten bins."""
    found = []
    for _, run, file in files_of(runs, method):
        right, score, p, there = run.labels > 0, file["score"], file["p"], run.valid
        within = mean_of(common.auroc(a[few], b[few]) for a, b, few in zip(right, score, there))
        found.append({"auroc": common.auroc(right[there], score[there]), "auroc_within": within})
        if p is not None:
            bins = np.minimum(p[there] * 10, 9).astype(int)
            found[-1]["ece"] = np.abs(np.bincount(bins, (p - right)[there])).sum() / there.sum()
    return means(found, SCORES_AS_SUCH)


def cost_of(runs, method):
    costs = [file["cost"] for *_, file in files_of(runs, method) if file["cost"]]
    if not costs:
        return {}
    cost, told = means(costs, COSTS), lambda key: sorted({each[key] for each in costs if each.get(key)})
    cost["ms_per_problem"] = cost["ms_per_rollout"] and cost["ms_per_rollout"] * rollouts_of(runs)
    return {"cost": cost | {"device": ", ".join(told("device"))}, "made_by": told("command")}


means = lambda rows, keys: {key: mean_of(row.get(key) for row in rows) for key in keys}
rollouts_of = lambda runs: mean_of(run.valid.sum(1).mean() for run in runs)  # a problem

# ---- Comparison: Δ and gap closed, each row's `against`


def compare(rows):
    for reference, rules in REFERENCES.items():
        best = max((row for row in rows if row["method"] in rules), key=lambda row: row["accuracy"])
        best["best_of"].append(reference)
        gap = rows[-1]["accuracy"] - best["accuracy"]  # the last is the oracle
        for row in rows:
            found = with_interval(row["right"] - best["right"])
            closed = found["delta"] / gap if gap * row["problems"] >= 2 else None  # else noise
            row["against"][reference] = found | {"gap_closed": closed}
    return [{key: value for key, value in row.items() if key != "right"} for row in rows]


# how often each of n problems is drawn [DRAWS, n]
draws_of = functools.cache(lambda n: np.random.default_rng(SEED).multinomial(n, [1 / n] * n, DRAWS))


def with_interval(difference):
    """The mean of paired differences [P], with a 95 % bootstrap interval over problems."""
    low, high = np.percentile(draws_of(len(difference)) @ difference / len(difference), [2.5, 97.5])
    return {"delta": float(difference.mean()), "low": float(low), "high": float(high)}


# ---- Stopping: what sampling that ends when the scorer is sure would have cost and lost, replayed


def stopping(runs, rows, price):
    """A dict for each scorer, at the threshold that its calibration run chose."""
    found = []
    if any(run.meta.get("stop") for run in runs):
        return found  # the rollouts that these runs did not sample are not there to be replayed
    for r in rows:
        curves = []
        for _, run, file in files_of(runs, r["scores"] or ORACLE):
            if r["kind"] == "scorer" and file["cost"].get("stop"):
                p = np.where(run.valid, file["p"], -1)
                grid = np.quantile(p[run.valid], np.linspace(0, 1, 31))
                chosen = common.stop_threshold(file["cost"]["stop"], price)
                thresholds = np.array([chosen, *grid, common.NEVER])
                curves.append(common.stop_curve(p, run.labels, run.tokens, thresholds))
        found += [stopped_row(r, curves)] if len(curves) == r["runs"] else []
    return found


def stopped_row(r, curves):
    mean = lambda key: np.mean([curve[key] for curve in curves], 0)
    right, rollouts, tokens = mean("right"), mean("rollouts"), mean("tokens")  # [T, P]
    share = tokens.mean(1) / tokens[-1].mean()  # [T]
    sizes, fixed = [int(n) / max(map(int, r["curve"])) for n in r["curve"]], [*r["curve"].values()]
    return {
        **{key: r[key] for key in ("method", "kind", "scores", "short")},
        "threshold": float(mean("threshold")[0]),
        **mean_and_std([curve["right"][0].mean() for curve in curves]),
        "all": float(right[-1].mean()), **with_interval(right[0] - right[-1]),
        "rollouts": float(rollouts[0].mean()), "tokens": float(tokens[0].mean()), "share": float(share[0]),
        "curve": sorted(zip(share.tolist(), right.mean(1).tolist())),
        "fixed": float(np.interp(share[0], sizes, fixed)), "fixed_curve": [*zip(sizes, fixed)],
    }  # fmt: skip

# ---- The paper's numbers, of its tables "Best-of-N results for math domain", "for coding domain" and
# "Comparison of SCaTR with ReasonFlux models". It says AIME; its problems are those of 2025.

PAPER_COLUMNS = ("SCaTR", "best of the paper's 20", "LoRA verifier", "PRM (ReasonFlux-PRM-1.5B)",
                 "SCaTR, weighted vote", "oracle", "PRM (ReasonFlux-PRM-7B)")  # fmt: skip
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


def paper_numbers(*sets):
    lines = dict(line.lower().split(": ") for line in PAPER.splitlines())
    found = zip(PAPER_COLUMNS, lines.get(" ".join(sets).lower(), "").split())
    return {name: number.replace("±", " ± ") for name, number in found if number != "-"}


# ---- Tables: rows {column: cell}, for the screen, in Markdown and in LaTeX; bold is written as in Markdown

SETS = ("model", "calibration set", "test")
LAST = ("oracle", "SCaTR, stopped when sure", "SCaTR+, stopped when sure",
        "over", "Δ", f"Δ to {ALL}", "gap closed %", "cut %")  # fmt: skip
LATEX = str.maketrans({sign: f"\\{sign}" for sign in "%_&#${}"} | {
    "^": r"\^{}", "~": r"\~{}", "–": "--", "±": r"$\pm$", "Δ": r"$\Delta$", "×": r"$\times$"})  # fmt: skip


def grid(rows):
    """(header, cells): all columns that some row has."""
    header = [*dict.fromkeys(itertools.chain(*rows))]
    return header, [[row.get(column) for column in header] for row in rows]


def in_latex(title, rows):
    header, cells = grid(rows)
    lines = [" & ".join((cell or "").translate(LATEX) for cell in row) + r" \\" for row in (header, *cells)]
    lines = [re.sub(r"\*\*(.*?)\*\*", r"\\textbf{\1}", line) for line in lines]
    begin, end = rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}", "\\bottomrule\n\\end{tabular}\n"
    return "\n".join([f"% {title}", begin, r"\toprule", lines[0], r"\midrule", *lines[1:], end])


def on_screen(header, rows):
    return common.table(header, [[(cell or "").strip("*") for cell in row] for row in rows])


def best_bold(cells):
    """{column: cell}, the largest number bold."""
    value = lambda cell: float(cell.split()[0]) if cell else -math.inf
    best = max(map(value, cells.values()), default=0)
    return {column: f"**{cell}**" if cell and value(cell) == best else cell for column, cell in cells.items()}


def percent(value, digits=1, sign=""):
    return None if value is None else f"{round(100 * value, digits) + 0.0:{sign}.{digits}f}"  # no "-0.0"


points = lambda value: percent(value, sign="+")
gained = lambda r: f"{points(r['delta'])} [{percent(r['low'])}, {percent(r['high'])}]"
spread = lambda mean, std: f"{mean:.1f}" + ("" if std is None else f" ± {std:.1f}")
in_sample = lambda r: " in sample" if r.get("in_sample") else ""
accuracy = lambda r: spread(100 * r["accuracy"], r["std"] and 100 * r["std"]) + in_sample(r)
drawn = lambda error: f" (± {percent(error, 2)})" if error else ""  # the standard error of drawn subsets


def number(value, unit=1):  # in three digits, none after the point above a hundred
    return value and (f"{value / unit:,.0f}" if value >= 100 * unit else f"{value / unit:.3g}")


def shown_rows(group):
    """{name: row} of all, and of confidence rules of the best."""
    shown = [r for r in group["rows"] if r["kind"] != "confidence" or r["best_of"]]
    return {"".join(f"best of {name}: " for name in r["best_of"]) + r["method"]: r for r in shown}


def methods_table(group):
    shown = shown_rows(group)
    bold = best_bold({name: accuracy(r) for name, r in shown.items() if r["kind"] != "oracle"})
    for name, r in shown.items():
        row = {"method": name, "accuracy %": bold.get(name, accuracy(r)), "over": r["over"]}
        row["right/problems"] = f"{r['correct']:.1f}/{r['problems']}".replace(".0/", "/")
        for to, gain in r["against"].items():
            row[f"Δ to {to} [95 %]"] = None if to in r["best_of"] else gained(gain)
            closed = (percent(gain["gap_closed"], 0) or "–") if r["kind"] in ("scorer", "vote") else None
            row[f"gap closed to {to}, %"] = closed
        yield row | {"cut %": percent(r["cut"]), "tokens a problem": number(r["tokens"])}


def curves_table(group):
    for name, r in shown_rows(group).items():
        errors = r["curve_subset_error"]
        row = {f"N={n}": percent(x) + drawn(errors.get(n)) for n, x in r["curve"].items()}
        for key, column in SCORES_AS_SUCH.items():
            row[column] = None if r.get(key) is None else f"{r[key]:.3f}"
        yield {"method": name} | row | {"cut %": percent(r["cut"])}


def confidence_table(group):
    by_name = {r["method"]: r for r in group["rows"]}
    for name in common.STATISTICS:
        rules = {way: by_name[f"{name}/{way}"] for way in common.AGGREGATIONS}
        cells = {way: f"**{accuracy(r)}**" if r["best_of"] else accuracy(r) for way, r in rules.items()}
        cells |= {way: f"as {r['equals'].split('/')[1]}" for way, r in rules.items() if r["equals"]}
        yield {"statistic": name} | cells | {"cut %": percent(mean_of(r["cut"] for r in rules.values()))}


def cost_table(group):
    found = [r for r in group["rows"] if "cost" in r]
    scatr = next((r["cost"] for r in found if r["scores"].startswith("scatr.")), {})
    for r in found:
        cost, row = r["cost"], {"cost": r["method"].removesuffix(", best-of-N")}
        for key, (column, unit) in COSTS.items():
            row[column], usual = number(cost[key], unit), scatr.get(key)
            timed = key.startswith(("train_seconds", "ms_"))
            if cost[key] and usual and not (timed and cost["device"] != scatr["device"]):
                row[column] += f" ({number(cost[key] / usual)}×)"
        row |= {"measured on": cost["device"] or "–", "accuracy %": accuracy(r)}
        yield row | {"cut %": percent(r["cut"])}


def stopping_table(group):
    for r in group["stopping"]:
        yield {
            "method, stopped": r["method"], "when sure by": f"{r['threshold']:.3f}",
            "accuracy %": accuracy(r), "all rollouts: %": percent(r["all"]),
            "Δ [95 %]": gained(r), "rollouts": f"{r['rollouts']:.1f}",
            "tokens a problem": number(r["tokens"]), "% of all tokens": percent(r["share"]),
            "% of a fixed N of that cost": percent(r["fixed"]),
        }  # fmt: skip


TABLES = {
    "Methods": methods_table,
    "Fewer rollouts (±: standard error of drawn subsets), and the scores as such": curves_table,
    "Sampling that stops: at most {price:g} % of the answers lost where calibrated": stopping_table,
    "Confidence rules: the paper's five statistics, and more": confidence_table,
    "Costs (×: SCaTR's): minutes and ms measured on the device named, FLOPs computed": cost_table,
}


def summary_table(groups):
    """A row for each model, calibration and test set, as in the paper, whose numbers stand below."""
    ours, rows = [], []
    for group in groups:
        for wanted in sorted({r["calibration"] for r in group["rows"]} - {""}) or [""]:
            sets = dict(zip(SETS, (group["model"], wanted, group["dataset"])))
            ours.append(sets | summary_cells(group, wanted))
            theirs = paper_numbers(*sets.values())
            rows += [ours[-1], sets | {"model": "the paper"} | theirs] if theirs else [ours[-1]]
    columns = sorted(grid(ours)[0], key=lambda name: LAST.index(name) if name in LAST else -1)
    rows = [{name: row.get(name) for name in columns} for row in rows]
    return [row | best_bold({name: row[name] for name in columns if name not in SETS + LAST}) for row in rows]


def summary_cells(group, wanted):
    cells = {}
    for r in group["rows"]:
        own = [r["short"]] if r["short"] and r["calibration"] in ("", wanted) else []
        cells |= dict.fromkeys([f"best of {name}" for name in r["best_of"]] + own, accuracy(r))
        if own == ["SCaTR"]:
            paper, both = r["against"].values()
            cells |= {"over": r["over"], "gap closed %": percent(paper["gap_closed"]) or "–",
                      "Δ": points(paper["delta"]), f"Δ to {ALL}": points(both["delta"])}  # fmt: skip
    stopped = {r["scores"]: r for r in group["stopping"] if r["kind"] == "scorer"}
    if r := stopped.get(f"scatr+.{wanted}") or stopped.get(f"scatr.{wanted}"):
        cells[f"{r['short']}, stopped when sure"] = f"{percent(r['accuracy'])} for {percent(r['share'], 0)} %"
    return cells | {"cut %": percent(group["cut"])}


def turned(summary):
    """Yield (header, rows): a method a row; four columns, of pairs of sets and of the paper, at once."""
    models, columns = {row["model"] for row in summary} - {"the paper"}, []
    names = [name for name in summary[0] if name not in (*SETS, "over")]
    for row in summary:
        pair = " → ".join(row[name] for name in SETS[1:] if row[name])
        title = f"{row['model']}: {pair}" if len(models) > 1 else pair
        columns.append(["paper" if row["model"] == "the paper" else title, *map(row.get, names)])
    for i in range(0, len(columns), 4):
        some = columns[i : i + 4]
        filled = [(name, *cells) for name, *cells in zip(["picks by", *names], *some) if any(cells)]
        yield filled[0], filled[1:]


def study_tables(paths):
    """{title: rows}: a row a measure, model and pair, a column a layer, fraction or design."""
    studies, tables = defaultdict(list), {}
    for file in itertools.chain(*(sorted(Path(path).glob("*.json")) or [path] for path in paths)):
        study = common.read_json(file, needs=("study", "model", "calibration", "evaluation", "rows"))
        studies[study["study"]].append(study)
    for name, several in studies.items():
        measures = dict.fromkeys(x for study in several for row in study["rows"] for x in row["measures"])
        rows = tables[f"Study: {name}"] = []
        for measure, study in itertools.product(measures, several):
            found = {row["row"]: row["measures"].get(measure) for row in study["rows"]}
            cells = best_bold({column: x and spread(x["mean"], x["std"]) for column, x in found.items()})
            sets = study["model"], "+".join(study["calibration"]), "+".join(study["evaluation"])
            rows += [{"measure, %": measure} | dict(zip(SETS, sets)) | cells] if any(cells.values()) else []
    return tables


# ---- The report

the_command = lambda: shlex.join(["python", "05_baselines.py", *sys.argv[1:]])
NOTES = {  # beneath the table, where a row begins so
    "Δ": f"Δ, gap closed: SCaTR's, above the best confidence rule of the paper's 20 (of {ALL}), picked with "
         "hindsight.",
    "SCaTR, stopped": "Stopped when sure: right % for so much of all tokens.",
    "SCaTR+, stopped": "Stopped when sure: right % for so much of all tokens.",
    "best of all": "A confidence rule is a statistic of each token and a way to sum it up: see report.md.",
}  # fmt: skip
NAMES = """\
## What the names say

Confidence rules are statistic/aggregation, of each token's ten largest log-probabilities unless it says else:

- `mean`, `median`: minus their mean, minus their median; `variance`: their variance
- `gap`: the largest probability minus the second; `entropy`: of the ten, scaled to add up to 1 (low is sure)
- `self_certainty`: how far the whole distribution is from even; `likelihood`: the token's own log-probability
- `avg`: the mean over all tokens; `tail`: over the last ones; `lowest`: of the window where it is least
  confident; `bottom10`: the mean of the least confident tenth of the windows

Columns:

- `over`: what ± is taken over; `right/problems`: right picks (expected ones, where random) of all problems
- `Δ to ... [95 %]`: points above that best rule, with its interval; `gap closed`: Δ as a share of the way to
  the oracle; `cut %`: picks that ended at the length limit; `N=4`: right % with four rollouts a problem
- `AUROC`: the chance that a right answer scores above a wrong one, over all rollouts, and `within a problem`;
  `calibration error`: how far p is from the share that is right, in ten bins
- `when sure by`: the threshold at which sampling stops; `% of a fixed N of that cost`: right % when all
  problems get as many rollouts as stopping took on average
- `×`: how many times as much as SCaTR's"""


def report(args):
    if args.plots and not importlib.util.find_spec("matplotlib"):
        common.die("--plots needs matplotlib: pip install matplotlib")
    studies, paths = study_tables(args.studies), defaultdict(list)
    if len({os.path.realpath(path) for path in args.runs}) < len(args.runs):
        common.die("a run is given twice; each counts as a repetition of its own")
    for path in map(Path, args.runs):
        meta = common.read_meta(path)
        paths[common.model_name(meta), common.short_name(meta["dataset"])].append(path)
    files = [file.stem for path in args.runs for file in Path(path, "scores").glob("*.jsonl")]
    known = {*files, *(stem.partition("@")[0] for stem in files)}
    if unknown := {*args.only} - known:
        common.die(f"--only {min(unknown)}: no such scores; there are {', '.join(sorted(known)) or 'none'}")
    groups = [report_group(*names, some, args) for names, some in paths.items()]
    out = Path(args.out or os.path.commonpath([*map(os.path.abspath, args.runs)]))
    common.write_json(out / "results.json", {"command": the_command(), "groups": groups})
    summary = summary_table(groups)
    write_report(out, groups, {"Summary": summary} | studies, args.plots)
    blocks = [*turned(summary)]
    print(*(group["title"] for group in groups), *(f"\n{on_screen(*block)}" for block in blocks), sep="\n")
    print("", *itertools.chain(*(group["notes"] for group in groups)), *notes_below(groups, blocks), sep="\n")
    for title, rows in studies.items():
        print(f"{title}\n\n{on_screen(*grid(rows))}\n")
    print(f"report: {out / 'report.md'}")


def report_group(model, dataset, paths, args):
    runs, greedy, left_out = load_group(paths, args.window, args.tail, args.only)
    rows, where, problems = compare(make_rows(runs, greedy)), f"{model} on {dataset}", len(runs[0].ids)
    more, windows = f", {len(runs)} runs" if len(runs) > 1 else "", (runs[0].window, runs[0].tail)
    if windows != (common.WINDOW, common.TAIL):
        more += f", windows of {windows[0]:,} tokens, tail {windows[1]:,}"
    return {
        "title": f"{where}: {problems} problems, N={rollouts_of(runs):.4g}{more}",
        "model": model, "dataset": dataset, "problems": problems, "cut": rows[0]["cut"],
        "runs": [str(run.path) for run in runs], "metas": [run.meta for run in runs],
        "window": runs[0].window, "tail": runs[0].tail,
        "notes": [f"{where}: {note}" for note in notes_of(runs, left_out, rows)],
        "rows": rows, "price": args.price, "stopping": stopping(runs, rows, args.price),
    }  # fmt: skip


def notes_of(runs, left_out, rows):
    """What a reader must know before believing the numbers."""
    cut, twins = rows[0]["cut"], sum(r["kind"] == "confidence" and r["equals"] is not None for r in rows)
    if learned := [r["method"] for r in rows if r.get("in_sample")]:
        yield f"in sample: {', '.join(learned)} learned from these problems, which proves nothing"
    if twins:
        yield f"{twins} of {len(RULES)} confidence rules equal another: answers are shorter than the windows"
    if left_out:
        yield f"{len(left_out)} problems left out of all rows: a label could not be judged"
    methods = [set(run.files) for run in runs]
    if missing := set.union(*methods) - set.intersection(*methods):
        yield f"no row for {', '.join(sorted(missing))}: not in every run"
    if cut > CUT:
        yield f"{percent(cut)} % of the rollouts were cut: with room all would rise (01 --max-new-tokens 0)"


def notes_below(groups, blocks):
    """What explains rows of the table on the screen that are there."""
    if over := max((r["over"] for group in groups for r in group["rows"]), key=len):
        yield f"±: standard deviation over what varies for the row, at most {over}."
    names = [row[0] for _, rows in blocks for row in rows]
    yield from dict.fromkeys(told for start, told in NOTES.items() if any(n.startswith(start) for n in names))


def write_report(out, groups, tables, plots):
    """report.md and tables.tex: the tables, what made them; the figures."""
    parts, tex = ["# Report", f"Made by `{the_command()}`."], ["% needs \\usepackage{booktabs}\n"]

    def add(title, rows):
        if rows:
            parts.append(f"### {title}\n\n{common.table(*grid(rows), markdown=True)}")
            tex.append(in_latex(title, rows))

    tables = dict(tables)
    summary = tables.pop("Summary")
    parts += ["### Summary", *(common.table(*block, markdown=True) for block in turned(summary))]
    parts += notes_below(groups, [*turned(summary)])
    tex.append(in_latex("Summary", summary))
    for title, rows in tables.items():
        add(title, rows)
    for group in groups:
        parts += [f"## {group['title']}", *group["notes"]]
        for title, table in TABLES.items():
            add(title.format(**group), [*table(group)])
        commands = sorted({f"`{command}`" for r in group["rows"] for command in r.get("made_by", [])})
        parts.append("\n".join(f"- {line}" for line in [*group["runs"], *commands]))
        if plots:
            parts += [f"![{caption}]({name})" for name, caption in draw_figures(out, group)]
    parts += [NAMES, __doc__.partition("What the numbers are. ")[2]]
    for name, text in (("report.md", "\n\n".join(parts)), ("tables.tex", "\n".join(tex))):
        with common.atomic(out / name) as file:
            file.write(text)


# ---- Figures: a file each; a method has one colour in all, and its line another form, for prints in grey

LOOKS = {  # role in a figure: (colour, line, mark)
    "random": ("#888888", ":", ""), "rule": ("#e69f00", "--", "s"), "vote": ("#56b4e9", "-.", "v"),
    "SCaTR": ("#0072b2", "-", "o"), "SCaTR+": ("#882255", "-", "D"), "SCaTR vote": ("#009e73", "-", "^"),
    "oracle": ("#000000", "--", ""),
}  # fmt: skip
SHADES = dict(zip(common.AGGREGATIONS, ("#f9dc9f", "#eeb03c", "#b9770e", "#5f3c05")))  # the rules' orange
SIZE, DPI = (7, 4.3), 120


def draw_figures(out, group):
    """Yield (file name, caption) of each figure that the group's rows can fill."""
    for wanted in sorted({r["calibration"] for r in group["rows"]} - {""}) or [""]:
        title = f"{group['model']} on {group['dataset']}" + (f", calibrated on {wanted}" if wanted else "")
        rows = roles_of(group, wanted)
        stopped = {role: s for role, r in rows.items() for s in group["stopping"] if s["method"] == r["method"]}
        pictures = {
            "accuracy": (draw_accuracy, rows, "Accuracy against the number of rollouts"),
            "stopping": (draw_stopping, stopped, "Sampling that stops when the scorer is sure"),
            "rules": (draw_rules, [rows, group["rows"]], "All confidence rules, best of N"),
        }  # fmt: skip
        for name, (draw, content, caption) in pictures.items():
            if content:
                file = f"{name}.{group['model']}.{f'{wanted}-to-' if wanted else ''}{group['dataset']}.png"
                save_figure(out / file, draw, content, f"{caption}\n{title}")
                yield file, caption


def save_figure(path, draw, content, title):
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    draw(axes, content)
    with common.atomic(path, "wb") as file:
        figure.savefig(file, format="png", dpi=DPI)


def roles_of(group, wanted):
    """{role: row} of at most seven methods: of rules, of plain votes and of SCaTR's votes the best."""
    candidates = defaultdict(list)
    for r in group["rows"]:
        if r["kind"] in ("random", "oracle"):
            candidates[r["kind"]].append(r)
        elif r["kind"] == "confidence":
            candidates["rule"].append(r)
        elif r["method"] in VOTES:
            candidates["vote"].append(r)
        elif r["calibration"] == wanted and r["short"] in ("SCaTR", "SCaTR+"):
            candidates[r["short"]].append(r)
        elif r["calibration"] == wanted and (r["short"] or "").endswith("weighted vote"):
            candidates["SCaTR vote"].append(r)
    return {role: max(candidates[role], key=lambda r: r["accuracy"]) for role in LOOKS if candidates[role]}


def name_ends(axes, names, share=0.055):
    """names: [(height, text, colour)] at the right edge, moved apart to this share of the axis."""
    low, high = axes.get_ylim()
    gap, last = share * (high - low), -math.inf
    for i, (height, text, colour) in enumerate(sorted(names)):
        room = high - gap * (len(names) - i - 1)  # for those above
        last = min(max(height, last + gap), room)
        axes.annotate(text, (1, last), xycoords=("axes fraction", "data"), xytext=(6, 0), color=colour,
                      textcoords="offset points", va="center", fontsize=9)  # fmt: skip


def draw_accuracy(axes, rows):
    ends = []
    for role, r in rows.items():
        colour, line, mark = LOOKS[role]
        ns, heights = [int(n) for n in r["curve"]], 100 * np.array([*r["curve"].values()])
        axes.plot(ns, heights, line, marker=mark, color=colour, markersize=4, clip_on=False)
        if r["curve_std"]:
            spread = 100 * np.array(r["curve_std"])
            axes.fill_between(ns, heights - spread, heights + spread, color=colour, alpha=0.18, linewidth=0)
        name = {"rule": f"best rule: {r['method']}"}.get(role, r["short"] or r["method"])
        ends.append((heights[-1], f"{name}  {heights[-1]:.1f}", colour))
    axes.set_xscale("log", base=2)
    axes.set_xticks(ns, ns)
    axes.minorticks_off()
    axes.set(xlabel="rollouts a problem (N)", ylabel="right answers, %", xlim=(1, max(2, ns[-1])))
    name_ends(axes, ends)


def draw_stopping(axes, rows):
    ends = []
    for role, r in rows.items():
        colour, _, mark = LOOKS[role]
        axes.plot(*100 * np.array(r["curve"]).T, color=colour)
        axes.plot(*100 * np.array(r["fixed_curve"]).T, ":", color=colour)
        x, y = 100 * r["share"], 100 * r["accuracy"]
        axes.plot(x, y, mark, color=colour, markersize=9, markeredgecolor="white")
        told = f"{r['short']}  {100 * r['all']:.1f}\nstopped: {y:.1f} for {x:.0f} %"
        ends.append((100 * r["all"], told, colour))
    axes.text(0.98, 0.03, "line: stops when sure, from the lowest threshold to the highest\n"
              "mark: the threshold that the calibration problems chose\n"
              "dotted: the same number of rollouts for every problem",
              transform=axes.transAxes, ha="right", va="bottom", fontsize=8.5)  # fmt: skip
    axes.set(xlabel="tokens, % of those of all rollouts", ylabel="right answers, %", xlim=(0, 100))
    name_ends(axes, ends, 0.11)


def draw_rules(axes, content):
    """Rules and SCaTR's as bars from the best to the worst; the line is a random pick."""
    rows, all_rows = content
    bars = [(r["accuracy"], r["method"], SHADES[r["method"].split("/")[1]], r["std"])
            for r in all_rows if r["kind"] == "confidence" and not r["equals"]]  # fmt: skip
    bars += [(rows[role]["accuracy"], role, LOOKS[role][0], rows[role]["std"])
             for role in ("SCaTR", "SCaTR+") if role in rows]  # fmt: skip
    heights, names, colours, spreads = zip(*sorted(bars, key=lambda bar: bar[0]))
    axes.figure.set_size_inches(SIZE[0], 1.4 + 0.18 * len(bars))
    heights = 100 * np.array(heights)
    axes.barh(names, heights, color=colours, height=0.78)
    axes.errorbar(heights, names, xerr=[100 * (std or 0) for std in spreads], fmt="none", ecolor="#333333")
    white = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
    for height, name, std in zip(heights, names, spreads):
        axes.annotate(f"{height:.1f}", (height + 100 * (std or 0), name), (4, 0), va="center", fontsize=8,
                      textcoords="offset points", bbox=white)  # fmt: skip
    random = 100 * rows["random"]["accuracy"]
    axes.axvline(random, color=LOOKS["random"][0], linestyle=":", zorder=0)
    axes.annotate(f"random  {random:.1f}", (random, 0), (4, 0), textcoords="offset points", va="center",
                  fontsize=8, color="#555555", bbox=white)  # fmt: skip
    handles = [axes.bar([0], [0], color=shade) for shade in SHADES.values()]
    axes.legend(handles, SHADES, title="over the tokens", loc="lower right", fontsize=9, frameon=False)
    axes.tick_params(axis="y", labelsize=8, length=0)
    axes.set(xlabel="right answers, %", ylabel="confidence rule: statistic/aggregation", xlim=(0, None))
    axes.margins(y=0.01)


# ---- Learned verifiers: what they share. One rollout at a time, since a long one fills a GPU


def states_of(model, ids):
    """What the head reads, [T, d]."""
    ids = model.get_input_embeddings().weight.new_tensor([ids], dtype=int)
    return model.base_model(input_ids=ids, use_cache=False).last_hidden_state[0]


def next_logits(model, ids):
    """[vocabulary], of the last position: those of a long answer would take gigabytes."""
    return model.get_output_embeddings()(states_of(model, ids)[-1]).float()


has_channels = lambda tokenizer: "<|channel|>" in tokenizer.added_tokens_encoder  # gpt-oss


def fit_answer(model, tokenizer, last, write, problem, answer):
    """Token ids of write(problem, text) with an answer's last tokens, as many as the context has room for."""
    answer = re.sub(r"<\|(?:start|channel)\|>\w*|<\|\w+\|>", " ", answer)  # gpt-oss's channels
    context = common.context_of(model.config)
    room = min(last, context - len(write(problem, "")))
    tokens = tokenizer(answer, add_special_tokens=False)["input_ids"][-room:] if room > 0 else []
    return write(problem, tokenizer.decode(tokens, skip_special_tokens=True))[-context:]


def direct_prompt(tokenizer, question):
    """Token ids of a question whose very next token is the answer: no reasoning before it."""
    ids = [*common.encode_prompt(tokenizer, {"kind": "text", "prompt": question}, thinking=False)]
    thinks = tokenizer.decode(ids[-16:]).rstrip().endswith("<think>")
    skip = "<|channel|>final<|message|>" if has_channels(tokenizer) else "\n</think>\n\n" if thinks else ""
    return ids + tokenizer(skip, add_special_tokens=False)["input_ids"]


def first_tokens(tokenizer, *words):
    ids = [tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in words]
    if ids[0] == ids[1]:
        common.die(f"{words} begin with one token, {tokenizer.decode(ids[0])!r}: this model cannot choose")
    return ids


def load_model_of(runs, args):
    metas = [common.read_meta(run) for run in runs]
    if len(names := {common.model_name(meta) for meta in metas}) > 1:
        common.die(f"these runs are of {' and '.join(map(repr, sorted(names)))}; give runs of one model")
    revision = None if args.model else metas[0].get("revision")
    model, tokenizer = common.load_model(args.model or metas[0]["model"], args.device, revision=revision)
    if model.config.model_type == "gpt_oss":  # transformers' own keeps all scores: 10 GB a layer at 4,096
        common.use_attention(model, "whole", common.causal_attention)
    return model, tokenizer


SAVED = 256  # rollouts after which scores are written, for a killed run to go on from
facts_of = lambda model: {"parameters": model.num_parameters(), "device": common.device_name(model.device)}
mark_of = lambda *files: common.hash_of(b"\n".join(file.read_bytes() for file in files))


def score_rollouts(run, name, encode, judge, cost, *made_of):
    """scores/NAME.jsonl and what it cost; rows that are there, of these rollouts and `made_of`, stay.

    encode(problem, response) -> token ids, judge(ids) -> logit to be right.
    """
    rollouts, path = common.read_rollouts(run), run / "scores" / f"{name}.jsonl"
    common.check_same_problems(run, rollouts)
    problems = {row["id"]: row for row in common.read_jsonl(run / "problems.jsonl")}
    cost_file, mark = path.with_suffix(".cost.json"), mark_of(*made_of, run / "rollouts.jsonl")
    known = common.read_json(cost_file) if path.is_file() and cost_file.is_file() else {}
    rows = common.read_jsonl(path) if known.get("made_of") == mark else []
    left, seconds = rollouts[len(rows) :], [(known.get("ms_per_rollout") or 0) / 1000] * len(rows)
    for row in common.progress(left, desc=f"{name} {run}", unit="rollout"):
        started, ids = time.perf_counter(), encode(problems[row["id"]], row["response"])
        with torch.inference_mode():
            logit = judge(ids)
        found = {"score": logit.item(), "p": logit.sigmoid().item()}
        seconds.append(time.perf_counter() - started)
        rows.append({"id": row["id"], "sample": row["sample"]} | found)
        if len(rows) % SAVED == 0 or len(rows) == len(rollouts):
            common.write_jsonl(path, rows)
            facts = {"ms_per_rollout": 1000 * float(np.mean(seconds)), "command": the_command()}
            common.write_json(cost_file, cost | facts | {"made_of": mark})
    print(f"{run}: {len(left)} of {len(rollouts)} rollouts scored by {name}")


# ---- LoRA verifier: the model that made the rollouts learns to say yes or no after them

RANK, ALPHA, DROPOUT = 16, 32, 0.05
BATCH, WARM_UP, CLIP = 16, 100, 1.0  # rollouts a step, steps to the full rate, norm of the gradient
QUESTION = """\
Determine the correctness of the following answer:
Problem: {problem}
Answer: {answer}
Is this answer correct (yes/no)?"""


def lora(args):
    """A killed training starts over, and ends the same."""
    run, dataset = Path(args.run), common.short_name(common.read_meta(args.run)["dataset"])
    examples, (model, tokenizer) = read_examples(run), load_model_of([run, *args.eval], args)
    ask = lambda problem, answer: QUESTION.format(problem=problem["prompt"], answer=answer)
    write = lambda problem, answer: direct_prompt(tokenizer, ask(problem, answer))
    last = 4096 if has_channels(tokenizer) else 16384
    encode = functools.partial(fit_answer, model, tokenizer, last, write)
    words = first_tokens(tokenizer, "yes", "no")
    judge = lambda ids: -next_logits(model, ids)[words].diff()
    mark = [args.epochs, args.lr, mark_of(run / "labels.jsonl", run / "rollouts.jsonl")]
    for seed in args.seed:
        path, adapters = run / f"lora@{seed}.pt", add_adapters(model, seed)
        saved = common.load_pt(path) if path.is_file() else {}
        if saved.get("made_of") != mark:
            cost = train_adapters(model, adapters, encode, words, examples, args, seed)
            weights = {name: weight.detach().cpu() for name, weight in adapters.items()}
            saved = {"adapters": weights, "cost": cost, "made_of": mark, "command": the_command()}
            common.save_pt(path, saved)
        model.load_state_dict(saved["adapters"], strict=False)
        for other in map(Path, args.eval):
            name, cost = f"lora.{dataset}@{run.name}-{seed}", saved["cost"] | facts_of(model)
            score_rollouts(other, name, encode, judge, cost, path)


def read_examples(run):
    """[(problem, response, label)] of the judged rollouts."""
    problems = {row["id"]: row for row in common.read_jsonl(run / "problems.jsonl", needs=("id", "prompt"))}
    rollouts = common.read_rollouts(run)
    pairs = zip(rollouts, common.read_labels(run, common.keys_of(rollouts)))
    found = [(problems[row["id"]], row["response"], judged["label"]) for row, judged in pairs]
    found = [example for example in found if example[-1] is not None]
    right = sum(label for *_, label in found)
    if right in (0, len(found)):
        common.die(f"{run}: {right} of {len(found)} rollouts are right; a verifier needs both")
    return found


def add_adapters(model, seed):
    """Two new weights beside each of the blocks' linear layers, which change nothing yet -> {name: weight}.

    Not beside experts that are kept as 3-D parameters.
    """

    def adapted(layer, inputs, output):  # in float32, since bfloat16 would round small steps away
        low = torch.nn.functional.dropout(inputs[0], DROPOUT, layer.training) @ layer.down.mT.to(output.dtype)
        return output + low @ layer.up.mT.to(output.dtype) * (ALPHA / RANK)

    torch.manual_seed(seed)
    for layer in model.requires_grad_(False).base_model.modules():
        if isinstance(layer, torch.nn.Linear):
            if not hasattr(layer, "down"):
                layer.register_forward_hook(adapted)
            zeros = functools.partial(torch.zeros, device=layer.weight.device)
            layer.down = torch.nn.Parameter(zeros(RANK, layer.in_features))
            layer.up = torch.nn.Parameter(zeros(layer.out_features, RANK))
            torch.nn.init.kaiming_uniform_(layer.down, a=math.sqrt(5))
    return {name: weight for name, weight in model.named_parameters() if weight.requires_grad}


def train_adapters(model, adapters, encode, words, examples, args, seed):
    """Cross-entropy of the word after the question -> what it cost."""
    optimizer, started = torch.optim.AdamW(adapters.values(), weight_decay=0.0), time.perf_counter()
    batches, seen = math.ceil(len(examples) / BATCH), []
    steps = args.epochs * batches
    save_memory(model.train())
    for step in common.progress(range(steps), desc=f"train lora@{seed}", unit="step"):
        epoch, place = divmod(step, batches)
        order = np.random.default_rng([seed, epoch]).permutation(len(examples))
        batch = [examples[i] for i in order[place * BATCH :][:BATCH]]
        for problem, response, label in batch:
            ids = encode(problem, response)
            learn_from(model, ids, words[1 - label], len(batch))
            seen.append(len(ids))
        torch.nn.utils.clip_grad_norm_(adapters.values(), CLIP)
        optimizer.param_groups[0]["lr"] = args.lr * rate_at(step, steps)
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    seconds = time.perf_counter() - started
    print(f"lora@{seed}: {steps} steps in {seconds / 60:.1f} min")
    return {"train_seconds": seconds, "train_flops": training_flops(model, seen)}


def save_memory(model):
    """Activations are computed again in the backward pass: a long answer fits."""
    enable = getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)
    enable({"use_reentrant": False})


def rate_at(step, steps):
    """Warm-up, over half of the steps at most, then a straight line to zero."""
    warm = min(WARM_UP, max(1, steps // 2))
    return min((step + 1) / warm, (steps - step) / max(1, steps - warm))


def learn_from(model, ids, word, batch):
    """Adds the gradient of one of `batch` rollouts."""
    (-next_logits(model, ids).log_softmax(0)[word] / batch).backward()


def training_flops(model, lengths):
    """Of a token 2 a weight that it uses forward, 2 backward, 2 more where that learns; and attention."""
    config, embeddings = model.config.get_text_config(), model.get_input_embeddings().weight
    get = lambda *names: next((value for name in names if (value := getattr(config, name, None))), 1)
    share = get("num_experts_per_tok") / get("num_experts", "num_local_experts")  # of [experts, in, out]
    weights = [p for p in model.base_model.parameters() if p.ndim > 1 and p is not embeddings]
    used = sum(p.numel() * (share if p.ndim == 3 else 1) for p in weights)
    trained = sum(p.numel() for p in weights if p.requires_grad)
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    attention = config.num_hidden_layers * config.num_attention_heads * width
    n = np.array(lengths, dtype=float)
    return float((4 * used + 2 * trained) * n.sum() + 6 * attention * (n * (n + 1)).sum())


# ---- Process reward models, without code from the Hub

STEP_END, PRM_TOKENS = "<extra_0>", 2048  # the last of an answer that are read


def prm(args):
    # with a score at each step (ReasonFlux-PRM-7B), or one at the end (ReasonFlux-PRM-1.5B)?
    steps = "Qwen2ForProcessRewardModel" in (common.load_config(args.prm).architectures or ())
    [common.read_meta(run) for run in args.runs]  # what is no run ends here, before the model is loaded
    model, tokenizer, write, judge = (load_step_prm if steps else load_final_prm)(args)
    encode = functools.partial(fit_answer, model, tokenizer, PRM_TOKENS, write)
    for run in args.runs:
        name = f"prm.{common.model_name({'model': args.prm})}"
        score_rollouts(Path(run), name, encode, judge, facts_of(model))


def load_final_prm(args):
    """A causal model with a linear head, reward_head.pt, on the last state; reads plain text."""
    from transformers.utils import cached_file

    with common.loading(args.prm) as options:
        weights = common.load_pt(cached_file(args.prm, "reward_head.pt", **options))
        model, tokenizer = common.load_model(args.prm, args.device)
        head = torch.nn.Linear(model.config.hidden_size, 1, device=model.device)
        head.load_state_dict(weights)
    write = lambda problem, answer: tokenizer(f"{problem['prompt']}\n{answer}")["input_ids"]
    return model, tokenizer, write, lambda ids: head(states_of(model, ids)[-1].float())


def load_step_prm(args):
    """Qwen2 with a two-layer head, read at the mark behind each paragraph: the mean chance to be good."""
    from transformers import AutoTokenizer, Qwen2Model, Qwen2PreTrainedModel

    class StepRewardModel(Qwen2PreTrainedModel):
        def __init__(self, config):
            super().__init__(config)
            self.model, d, linear = Qwen2Model(config), config.hidden_size, torch.nn.Linear
            self.score = torch.nn.Sequential(linear(d, d), torch.nn.ReLU(), linear(d, 2))
            self.post_init()

    device = common.pick_device(args.device)
    with common.loading(args.prm):
        tokenizer, dtype = AutoTokenizer.from_pretrained(args.prm), common.pick_dtype("auto", device)
        model, loaded = StepRewardModel.from_pretrained(args.prm, dtype=dtype, output_loading_info=True)
    if loaded["missing_keys"]:
        common.die(f"--prm {args.prm}: its files lack {', '.join(sorted(loaded['missing_keys'])[:3])}")
    model.to(device).eval().score.float()
    mark = tokenizer.convert_tokens_to_ids(STEP_END)

    def write(problem, answer):
        steps = [step for step in answer.replace(STEP_END, "").split("\n\n") if step.strip()] or [""]
        told = ("user", problem["prompt"]), ("assistant", STEP_END.join([*steps, ""]))
        talk = [{"role": role, "content": content} for role, content in told]
        return tokenizer.apply_chat_template(talk, return_dict=True)["input_ids"]

    def judge(ids):
        steps = states_of(model, ids)[torch.tensor(ids) == mark].float()
        return model.score(steps).softmax(-1)[:, 1].mean().double().logit(eps=1e-9)  # finite also at 1

    return model, tokenizer, write, judge


# ---- Domain routing: the model that answers also says whether a problem is one of maths or of code

DOMAINS = ("math", "code")
ROUTER = """Is the following a mathematics problem or a programming task?\n
{problem}\n
Answer with one word, math or code."""


def route(args):
    if len(args.math) != len(args.code):
        common.die(f"--math and --code: {len(args.math)} and {len(args.code)} scorers; give them in pairs")
    scorers = {path: common.load_scorer(path) for path in (*args.math, *args.code)}
    model, tokenizer = load_model_of(args.runs, args)
    words = first_tokens(tokenizer, *DOMAINS)
    for run in map(Path, args.runs):
        problems, domains = common.read_jsonl(run / "problems.jsonl", needs=("id", "kind", "prompt")), {}
        for row in problems:  # the likelier of the two words as the answer's first
            with torch.inference_mode():
                logits = next_logits(model, direct_prompt(tokenizer, ROUTER.format(problem=row["prompt"])))
            domains[row["id"]] = DOMAINS[logits[words].argmax()]
        right = [domains[row["id"]] == row["kind"] for row in problems if row["kind"] in DOMAINS]
        print(f"{run}: domains right %: {percent(mean_of(right))} ({sum(right)}/{len(right)})")
        [old.unlink() for old in (run / "scores").glob("routed@*")]  # of a call with more scorers
        for i, pair in enumerate(zip(args.math, args.code)):
            (keys, maths), (_, code) = (common.score_run(scorers[path], run, path) for path in pair)
            logits = torch.where(torch.tensor([domains[id] == "math" for id, _ in keys]), maths, code)
            found = zip(keys, logits.tolist(), logits.sigmoid().tolist())
            rows = ({"id": key[0], "sample": key[1], "score": score, "p": p} for key, score, p in found)
            common.write_jsonl(run / "scores" / f"routed@{i}.jsonl", rows)


# ---- Commands

COMMANDS = {"report": report, "lora": lora, "prm": prm, "route": route}


def main():
    words = sys.argv[1:]
    command = words.pop(0) if words and words[0] in COMMANDS else "report"
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(f"05_baselines.py {command}", description=__doc__, formatter_class=plain)
    add, many = parser.add_argument, {"nargs": "+", "metavar": "RUN"}
    if command != "lora":
        add("runs", **many, help="run folders, labelled for the report")
    if command == "report":
        add("--out", help="folder of the report (default: the run, or what the runs have in common)")
        add("--only", nargs="+", default=[], metavar="NAME", help="score files, or methods (names up to the "
            "@), that are rows (default: all in scores/)")  # fmt: skip
        by_length = f"by the answers' length, the paper's {PAPERS_WINDOWS} at most"
        add("--window", type=int, help=f"tokens in a confidence window (default: {by_length})")
        add("--tail", type=int, help="tokens in the tail (default: the same)")
        add("--price", type=float, default=1.0, help="points that stopping may cost (%(default)s)")
        add("--studies", nargs="+", default=[], help="files or folders of 03_train_scorer.py --study")
        add("--plots", action="store_true", help="also PNG figures; needs matplotlib")
    if command == "lora":
        add("run", metavar="RUN_CAL", help="labelled run to learn from; keeps the adapters, lora@SEED.pt")
        add("--eval", **many, default=[], help="runs of the same model to score")
        add("--seed", type=int, nargs="+", default=[32], help="one verifier each; the paper: 32 42 52")
        add("--epochs", type=int, default=1, help="the paper: 6 for small sets (%(default)s)")
        add("--lr", type=float, default=2e-5, help="highest rate; tiny models need more (%(default)s)")
    if command == "prm":
        add("--prm", required=True, help="Hub id or folder: reward_head.pt, or Qwen2ForProcessRewardModel")
    for domain in DOMAINS if command == "route" else ():
        add(f"--{domain}", nargs="+", required=True, help=f"scorers calibrated on {domain}, one a seed")
    if command in ("lora", "route"):
        add("--model", help="the runs' model, if no longer where meta.json says")
    if command != "report":
        add("--device", help="cpu, cuda, cuda:1, mps (the GPU if there is one)")
    args = parser.parse_args(words)
    least = {"window": 1, "tail": 1, "epochs": 1, "price": 0}
    given = {name: value for name, value in vars(args).items() if value is not None}
    if not all(given.get(name, 1) >= value for name, value in least.items()):
        parser.error("--window, --tail, --epochs: 1 or more; --price: 0 or more")
    COMMANDS[command](args)


if __name__ == "__main__":
    kept = "written scores and adapters are kept, a report is written at its end only; the same command goes on"
    common.entry(main, kept)
