"""Compare every way to pick an answer on the same labelled rollouts; score rollouts by larger verifiers.

    python 05_baselines.py RUN ... --out DIR          the report: a table of all methods, and its details
    python 05_baselines.py RUN ... --study layers     also the table of a study of 03_train_scorer.py
    python 05_baselines.py lora RUN_CAL --eval RUN    fine-tune the model itself to judge its own answers
    python 05_baselines.py prm RUN --prm NAME         a process reward model: Gen-Verse/ReasonFlux-PRM-1.5B
    python 05_baselines.py route RUN --math M.pt --code C.pt    the model names the domain of each problem,
                                                      and the scorer of that domain picks

The report prints a short table and writes report.md, results.json and, with --plots, figures. It compares
the scores in RUN/scores/*.jsonl: those of 04_select.py, those that the other three commands write, and your
own. Yours is a file with a line {"id", "sample", "score"} for each rollout, where a higher score is better;
with a probability "p" in each line the method also votes. Files named METHOD.CALSET@CALRUN-SEED.jsonl are
one method: its row is the mean over evaluation runs (of one model and data set), calibration runs and scorer
seeds, ± the standard deviation (ddof=1). A labelled run in a folder `greedy` beside RUN is a row, too.

The first page of this file is the report, in the order in which it is made: runs become arrays, methods pick
rollouts, picks become rows, rows become tables and figures. The second page is the three verifiers.
"""

from __future__ import annotations  # the annotations name numpy, which is imported when it is first used

import argparse
import importlib.util
import itertools
import math
import os
import re
import shlex
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from pathlib import Path

import common
from common import RULES, np, torch

# ==== Page one: the report ==================================================================================

SUBSETS = 128  # where a problem has more subsets of n rollouts, votes are averaged over so many random ones
DRAWS = 1000  # of the bootstrap
SEED = 0  # of the random subsets and of the bootstrap
SIZES = (1, 2, 4, 8, 12, 16, 32, 64, 128)  # numbers of rollouts at which accuracy is shown

PAPERS_STATISTICS = ("mean", "median", "variance", "gap", "entropy")
ALL_RULES = f"all {len(RULES)}"
REFERENCES = {  # the sets of confidence rules whose best the other methods are compared with
    "the paper's 20": [rule for rule in RULES if rule.split("/")[0] in PAPERS_STATISTICS],
    ALL_RULES: RULES,
}
COSTS = {  # field of NAME.cost.json: (column, unit)
    "parameters": ("parameters", 1), "train_seconds": ("training min", 60),
    "train_flops": ("training TFLOPs", 1e12), "ms_per_rollout": ("ms a rollout", 1),
    "ms_per_problem": ("ms a problem", 1),
}  # fmt: skip
FAMILIES = {  # METHOD up to its first dot: its name, in the order of the tables; other methods come before
    "logistic": "logistic regression", "lora": "LoRA verifier", "prm": "PRM",
    "routed": "SCaTR, routed by domain", "scatr": "SCaTR", "scatr+": "SCaTR+",
}  # fmt: skip
CALIBRATED = ("logistic", "lora", "scatr", "scatr+")  # what follows their dot is the calibration set
STUDIES = {  # the rows of each study of 03, in the paper's order
    "layers": [".15L", ".3L", ".45L", ".6L", ".75L", ".9L", "L-1"],
    "fraction": ["10%", "25%", "50%", "100%"],
    "designs": ["transformer-final", "transformer-last10", "transformer-special", "ensemble", "best-layer",
                "mlp", "logistic"],
    "mixed": ["mixed"],  # then each data set alone
    "halves": ["same", "other"],
}  # fmt: skip
STUDY_METHOD = re.compile(rf"({'|'.join(STUDIES)})-(\.?[^.]+)\.(.+)")  # STUDY-ROW.CALSET
STUDY_SIZES = (4, 8, 12, 16)

# ---- Runs: labelled rollouts and their scores as arrays ----------------------------------------------------


@dataclass
class ScoreFile:
    """What a file in scores/, or a confidence rule, says of each rollout."""

    score: np.ndarray | None = None  # [P, N], higher is better, -inf where padded
    p: np.ndarray | None = None  # [P, N], the probability to be right, where the file has it
    calibration_run: str = ""
    seed: str = ""
    cost: dict = field(default_factory=dict)  # NAME.cost.json


@dataclass(eq=False)  # hashed by identity, because its random subsets are cached
class Run:
    """Arrays are [P problems, N rollouts]; a problem with fewer rollouts is padded at the end of its row."""

    path: Path
    meta: dict
    ids: list  # of the problems
    valid: np.ndarray  # False where padded
    labels: np.ndarray
    cut: np.ndarray  # 1 where the rollout ended at the length limit
    tokens: np.ndarray
    answer_groups: np.ndarray  # equal answers of a problem have the same number; -1: no answer
    chosen: np.ndarray  # 1 where the rollout is in answers.jsonl, 04's one answer a problem
    scores: dict  # {a rule, "oracle" or METHOD: {the file's name after @: ScoreFile}}


def load_repetitions(paths, windows, only=(), studies=()):
    """Load runs of one model and data set -> (runs, the greedy run beside them or None, ids left out).

    A problem with a label that could not be judged in one of the runs is left out of all of them.
    """
    greedy_paths = [file.parent for file in paths[0].resolve().parent.glob("greedy/labels.jsonl")]
    labels = {path: common.read_labels(path) for path in [*paths, *greedy_paths]}
    left_out = {row["id"] for rows in labels.values() for row in rows if row["label"] is None}
    runs = [load_run(path, labels[path], left_out, windows, only, studies) for path in paths]
    for run in runs:
        if (run.ids, run.meta.get("n")) != (runs[0].ids, runs[0].meta.get("n")):
            n = run.meta.get("n")
            common.die(f"{run.path} has {len(run.ids)} judged problems and N={n}, which are not those of "
                       f"{runs[0].path}; report them apart")  # fmt: skip
    greedy = [load_run(path, labels[path], left_out, windows, only, studies) for path in greedy_paths]
    greedy = [run for run in greedy if run.ids == runs[0].ids]
    return runs, greedy[0] if greedy else None, left_out


def windows_for(paths):
    """(window, tail) of the confidence rules in tokens: the paper's, or less where answers are short.

    In an answer that is shorter than a window all rules of a statistic are its mean. So the window is the
    power of two nearest to half of the median answer, and at most the paper's.
    """
    if not all((path / "tokens.pt").is_file() for path in paths):
        return common.WINDOW, common.TAIL  # only these are in rollouts.jsonl; others need the tokens
    lengths = [row["n_tokens"] for path in paths for row in common.each_rollout(path)]
    nearest = 2 ** round(math.log2(max(np.median(lengths), 2) / 2))
    return min(nearest, common.WINDOW), min(nearest, common.TAIL)


def load_run(path, label_rows, left_out, windows, only, studies):
    rollouts = common.read_rollouts(path)
    common.check_same_problems(path, rollouts)
    keys = common.keys_of(rollouts)
    label_rows = common.align(label_rows, keys, path / "labels.jsonl")
    places = defaultdict(list)  # problem -> places of its rollouts in rollouts.jsonl
    for place, (problem, _) in enumerate(keys):
        if problem not in left_out:
            places[problem].append(place)
    if not places:
        common.die(f"{path}: no problem has all its labels; 05 needs labelled runs (04 selects without)")
    absent = len(keys)  # the place at which `padded` finds the value of an absent rollout
    index = np.array([*itertools.zip_longest(*places.values(), fillvalue=absent)]).T  # [P, N]
    groups = [-1 if row.get("group") is None else row["group"] for row in label_rows]
    answers = path / "answers.jsonl"
    chosen = common.keys_of(common.read_jsonl(answers, needs=("id", "sample"))) if answers.is_file() else []
    chosen = set(chosen)
    run = Run(
        path, common.read_meta(path), [*places], index < absent,
        labels=padded([row["label"] or 0 for row in label_rows], index),
        cut=padded([row.get("finish") == "length" for row in rollouts], index),
        tokens=padded([row["n_tokens"] for row in rollouts], index),
        answer_groups=padded(groups, index, empty=-1).astype(int),
        chosen=padded([key in chosen for key in keys], index),
        scores=score_by_rules(path, rollouts, index, windows),
    )  # fmt: skip
    run.scores["oracle"] = {"": ScoreFile(np.where(run.valid, run.labels, -np.inf))}
    for file in sorted((path / "scores").glob("*.jsonl")):
        method, _, name = file.stem.partition("@")
        if method in (*RULES, "oracle"):
            common.die(f"{file}: the table has a row {method} of its own; give the file another name")
        if is_asked_for(method, file.stem, only, studies):
            run.scores.setdefault(method, {})[name] = read_scores(file, keys, index)
    return run


def padded(values, index, empty=0.0):
    """The values [R] of a run's rollouts as [P, N], with `empty` where a problem has fewer than N."""
    return np.array([*values, empty], dtype=float)[index]


def score_by_rules(path, rollouts, index, windows):
    """{rule: {"": its scores}}; a rollout without tokens ranks below all others."""
    conf = [values for _, values in common.with_confidence(path, rollouts, *windows)]
    scores = {}
    for rule in RULES:
        sign = -1 if rule.split("/")[0] in common.LOWER_IS_BETTER else 1
        values = sign * np.array([each[rule] for each in conf], dtype=float)  # None becomes NaN
        values = np.nan_to_num(values, nan=np.nanmin([0, *values]) - 1)
        scores[rule] = {"": ScoreFile(padded(values, index, -np.inf))}
    return scores


def study_of(method):
    """The study that a scorer of this name belongs to, or None."""
    found = STUDY_METHOD.fullmatch(method)
    return found and found[1]


def is_asked_for(method, stem, only, studies):
    """--study asks for the scores of studies; for the others --only does, or all are asked for."""
    if study_of(method):
        return study_of(method) in studies
    return not only or method in only or stem in only


def read_scores(file, keys, index):
    rows = common.align(common.read_jsonl(file, needs=("id", "sample", "score")), keys, file)
    for row in rows:
        if not is_number(row["score"], -1e300, 1e300) or not is_number(row.get("p") or 0, 0, 1):
            common.die(f"{file}: a score is a finite number and p a probability, or absent; not so in {row}")
    p = None
    if all(row.get("p") is not None for row in rows):
        p = padded([row["p"] for row in rows], index)
    calibration_run, _, seed = file.stem.partition("@")[2].rpartition("-")
    cost_file = file.with_name(f"{file.stem}.cost.json")
    cost = common.read_json(cost_file) if cost_file.is_file() else {}
    return ScoreFile(padded([row["score"] for row in rows], index, -np.inf), p, calibration_run, seed, cost)


def is_number(value, low, high):
    return isinstance(value, (int, float)) and low <= value <= high


# ---- Picks -------------------------------------------------------------------------------------------------
# pick(run, file, n) gives the chance [P, N] of each rollout to be what a method picks from n random rollouts
# of its problem by the scores in a ScoreFile, or its share [S, P, N] in the pick from each of S subsets of n


def at_random(run, file, n):
    return run.valid / run.valid.sum(1, keepdims=True)


def by_score(run, file, n):
    """The highest score, of equal ones the lowest sample number: exact over all subsets."""
    chances = np.zeros(run.valid.shape)  # of the r-th best rollout of each problem
    for i, total in enumerate(run.valid.sum(1)):
        chances[i, :total] = first_of_subset(total, n)
    best_first = np.argsort(-file.score, 1, kind="stable")
    ranks = np.argsort(best_first, 1)
    return np.take_along_axis(chances, ranks, 1)


first_of_subset = cache(common.first_of_subset)


def by_answers_file(run, file, n):
    return run.chosen


def by_vote(vote, run, file, n):
    """vote(groups, weights, valid), all [P, n], gives the shares in the pick; weights: p, or the scores."""
    weights = file.score if file.p is None else file.p
    subsets = subsets_of(run, n)
    shares = np.zeros((len(subsets), *run.valid.shape))
    for i, columns in enumerate(subsets):
        drawn = [np.take_along_axis(array, columns, 1) for array in (run.answer_groups, weights, run.valid)]
        np.put_along_axis(shares[i], columns, vote(*drawn), 1)
    return shares


def majority(groups, weights, valid):
    """Tied answers share the credit, as do the rollouts of each; without an answer nothing is picked."""
    totals = common.group_totals(groups, np.ones(groups.shape))
    winners = (groups >= 0) & (totals == totals.max(1, keepdims=True))
    return winners / np.maximum(winners.sum(1, keepdims=True), 1)


def weighted_majority(groups, weights, valid):
    winner = common.weighted_vote(groups, np.where(valid, weights, 0), weights)
    return winner[:, None] == np.arange(groups.shape[1])


VOTES = {  # by the confidence rule VOTES_BY; scorers vote by their probabilities
    "majority vote": majority,
    "confidence-weighted vote": weighted_majority,
}
VOTES_BY = "mean/tail"


@lru_cache(maxsize=64)
def subsets_of(run, n):
    """[S, P, n] columns: all subsets or, if these are more, SUBSETS random ones, the same for every vote."""
    problems, largest = run.labels.shape
    if n >= largest or (run.valid.all() and math.comb(largest, n) < SUBSETS):
        subsets = np.array([*itertools.combinations(range(largest), min(n, largest))])
        return np.broadcast_to(subsets[:, None], (len(subsets), problems, subsets.shape[1]))
    noise = np.random.default_rng(SEED).random((SUBSETS, problems, largest))
    noise = np.where(run.valid, noise, 2)  # padding is drawn last
    return np.sort(np.argsort(noise, -1)[:, :, :n], -1)


# ---- Methods and their rows --------------------------------------------------------------------------------


@dataclass
class Method:
    """A way to pick one of the answers to a problem."""

    name: str  # of its row
    kind: str  # random, greedy, confidence, scorer, vote, choice or oracle
    pick: callable  # see Picks
    scores: str = ""  # the key in Run.scores of what it picks by; "": it needs none
    short: str | None = None  # its row in the summary; None: it has none of its own
    calibration: str = ""  # its calibration set


def make_rows(runs, greedy=None):
    """{name: row} of all methods, in the order of the tables."""
    largest = max(run.labels.shape[1] for run in runs)
    sizes = [n for n in SIZES if n < largest] + [largest]
    rows = {"random": make_row(Method("random", "random", at_random, short="random"), runs, sizes)}
    rows["random"]["cut"] = mean_of(run.cut[run.valid].mean() for run in runs)  # of all rollouts
    if greedy:  # one rollout a problem, which stands at every number of rollouts
        rows["greedy"] = make_row(Method("greedy", "greedy", at_random, short="greedy"), [greedy], sizes)
    for rule in RULES:
        rows[rule] = make_row(Method(rule, "confidence", by_score, rule), runs, sizes)
        rows[rule] |= quality_of(runs, rule) | {"equals": twin_of(runs, rule)}
    scorers, votes = scorers_of(runs)
    for method in scorers:
        row = make_row(method, runs, sizes)
        rows[method.name] = row | quality_of(runs, method.scores) | cost_of(runs, method.scores)
    if all((run.answer_groups >= 0).any() for run in runs):
        for method in votes:
            rows[method.name] = make_row(method, runs, sizes)
    if all((run.chosen.sum(1) == 1).all() for run in runs):
        name = "answers.jsonl, 04's choice"
        rows[name] = make_row(Method(name, "choice", by_answers_file, short=name), runs, [largest])
    rows["oracle"] = make_row(Method("oracle", "oracle", by_score, "oracle", "oracle"), runs, sizes)
    rows["oracle"]["cut"] = None
    return rows


def scorers_of(runs):
    """(a best-of-N Method for each scorer that every run has scores of, the votes)"""
    scorers = []
    votes = [Method(name, "vote", partial(by_vote, VOTES[name]), VOTES_BY, name) for name in VOTES]
    shared = set.intersection(*[{*run.scores} for run in runs]) - {*RULES, "oracle"}
    for scores in sorted(shared, key=place_of):
        if study_of(scores):
            continue
        name, short, calibration = names_of(scores)
        scorers.append(Method(f"{name}, best-of-N", "scorer", by_score, scores, short, calibration))
        if all(file.p is not None for _, _, file in files_of(runs, scores)):
            short = f"{short}, weighted vote" if scores.startswith("scatr") else None
            pick = partial(by_vote, weighted_majority)
            votes.append(Method(f"{name}, weighted vote", "vote", pick, scores, short, calibration))
    return scorers, votes


def place_of(scores):
    """By which scorers are sorted: our families come last, next to the votes."""
    family = scores.partition(".")[0]
    return [*FAMILIES].index(family) if family in FAMILIES else -1, scores


def names_of(scores):
    """(a scorer's name, what the summary calls it, its calibration set)"""
    family, _, suffix = scores.partition(".")
    short = FAMILIES.get(family, family)
    name = f"{short} ({suffix})" if suffix else short
    if family in CALIBRATED:
        return name, short, suffix
    return name, name, ""


def files_of(runs, scores):
    """Yield (place of the run, run, ScoreFile) for each of a method's score files that every run has."""
    files = [run.scores[scores] if scores else {"": ScoreFile()} for run in runs]
    names = sorted(set.intersection(*map(set, files)))
    for i, run in enumerate(runs):
        for name in names:
            yield i, run, files[i][name]


def make_row(method, runs, sizes):
    """A method's row of results.json, and `right`: the chance [P] that its pick of all rollouts is right."""
    sources = []  # (evaluation run, calibration run, scorer seed) of each file
    right = []  # [files, sizes, P]
    cut = []
    errors = defaultdict(list)  # of random subsets: n -> of each file
    for i, run, file in files_of(runs, method.scores):
        sources.append((i, file.calibration_run, file.seed))
        right.append([])
        for n in sizes:
            picks = method.pick(run, file, n)
            credit = np.atleast_2d((run.labels * picks).sum(-1))  # [S, P]
            right[-1].append(credit.mean(0))
            if len(credit) == SUBSETS:
                errors[str(n)].append(subset_error(credit))
        cut.append(np.atleast_2d((run.cut * picks).sum(-1)).mean())
    accuracies = np.array(right).mean(2)  # [files, sizes]
    right = np.array(right).mean(0)  # [sizes, P]
    learned = [file.cost.get("learned") for _, _, file in files_of(runs, method.scores)]
    return {
        "method": method.name, "kind": method.kind, "scores": method.scores,
        "short": method.short, "calibration": method.calibration, "in_sample": any(learned),
        "right": right[-1], "correct": float(right[-1].sum()), "problems": len(right[-1]),
        **mean_and_std(accuracies[:, -1]), "runs": len(accuracies),
        "over": name_varied(sources, ("eval", "cal", "seeds")),
        "cut": mean_of(cut), "tokens": mean_of(run.tokens.sum(1).mean() for run in runs),
        "curve": dict(zip(map(str, sizes), right.mean(1).tolist())),
        "curve_std": accuracies.std(0, ddof=1).tolist() if len(accuracies) > 1 else None,
        "curve_subset_error": {n: mean_of(values) for n, values in errors.items()},
        "best_of": [], "against": {},  # see compare
    }  # fmt: skip


def name_varied(sources, names):
    """What varies between sources, which have a value for each of the names: "2 cal × 3 seeds"."""
    counts = [len(set(values)) for values in zip(*sources)]
    return " × ".join(f"{count} {name}" for count, name in zip(counts, names) if count > 1)


def mean_and_std(values, name="accuracy"):
    std = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return {name: float(np.mean(values)), "std": std}


def mean_of(values):
    """The mean of those that are not None."""
    values = [value for value in values if value is not None]
    return float(np.mean(values)) if values else None


def subset_error(credit):
    """Standard error of the mean of credit [S, P], drawn S times and independently for each problem."""
    return float(np.sqrt((credit.var(0, ddof=1) / len(credit)).sum()) / credit.shape[1])


def quality_of(runs, scores):
    found = [auroc_of(run, file, run.valid) for _, run, file in files_of(runs, scores)]
    return {name: mean_of(each[name] for each in found) for name in ("auroc", "auroc_within")}


def auroc_of(run, file, kept):
    """AUROC over the rollouts that are kept [P, N], and the mean over problems of that within a problem."""
    right = run.labels > 0
    within = [common.auroc(right[i][rows], file.score[i][rows]) for i, rows in enumerate(kept)]
    return {"auroc": common.auroc(right[kept], file.score[kept]), "auroc_within": mean_of(within)}


def cost_of(runs, scores):
    """What a method cost on average, and the commands that made its scores; nothing where no file says."""
    costs = [file.cost for _, _, file in files_of(runs, scores) if file.cost]
    if not costs:
        return {}
    cost = {name: mean_of(each.get(name) for each in costs) for name in COSTS}
    if cost["ms_per_rollout"]:
        cost["ms_per_problem"] = cost["ms_per_rollout"] * rollouts_of(runs)
    cost["device"] = ", ".join(sorted({each["device"] for each in costs if each.get("device")}))
    return {"cost": cost, "made_by": sorted({each["command"] for each in costs if each.get("command")})}


def rollouts_of(runs):
    """Of a problem, on average."""
    return mean_of(run.valid.sum(1).mean() for run in runs)


def twin_of(runs, rule):
    """An earlier rule of the same statistic with the same values, as in answers shorter than a window."""
    statistic = rule.split("/")[0]
    for other in RULES[: RULES.index(rule)]:
        pairs = [(run.scores[other][""].score, run.scores[rule][""].score) for run in runs]
        if other.startswith(f"{statistic}/") and all(np.allclose(*pair, rtol=1e-9) for pair in pairs):
            return other
    return None


# ---- Comparison with the best confidence rule: Δ and the share of the gap to the oracle that is closed -----


def compare(rows):
    """Add `against` to all rows: how far each is above the best rule of the paper's 20, and of all."""
    for reference, rules in REFERENCES.items():
        best = max((rows[rule] for rule in rules), key=lambda row: row["accuracy"])
        best["best_of"].append(reference)
        gap = rows["oracle"]["accuracy"] - best["accuracy"]
        for row in rows.values():
            gain = with_interval(row["right"] - best["right"])
            too_small = gap * row["problems"] < 2  # a gap of less than two problems is noise
            row["against"][reference] = gain | {"gap_closed": None if too_small else gain["delta"] / gap}


def with_interval(difference):
    """The mean of paired differences [P], with a 95 % bootstrap interval over problems."""
    means = problem_draws(len(difference)) @ difference / len(difference)
    low, high = np.percentile(means, [2.5, 97.5])
    return {"delta": float(difference.mean()), "low": float(low), "high": float(high)}


@cache
def problem_draws(n):
    """[DRAWS, n]: how often each of n problems is drawn."""
    return np.random.default_rng(SEED).multinomial(n, [1 / n] * n, DRAWS)


# ---- Stopping: what sampling that ends when the scorer is sure would have cost and lost, replayed ----------


def replay_stopping(runs, rows):
    """A row for each scorer that has thresholds, at the one that its calibration problems chose."""
    replayed = []
    if any(run.meta.get("stop") for run in runs):
        return replayed  # these runs stopped themselves: what was not sampled cannot be replayed
    for row in rows.values():
        files = [*files_of(runs, row["scores"])] if row["kind"] == "scorer" else []
        if files and all(file.cost.get("stop") and file.p is not None for _, _, file in files):
            replayed.append(stopped_row(row, [replay(run, file) for _, run, file in files]))
    return replayed


def replay(run, file):
    """A curve: its first threshold is the chosen one, its last takes all rollouts, a grid is between."""
    p = np.where(run.valid, file.p, -1)
    grid = np.quantile(p[run.valid], np.linspace(0, 1, 31))
    chosen = common.stop_threshold(file.cost["stop"])
    return common.stop_curve(p, run.labels, run.tokens, np.array([chosen, *grid, common.NEVER]))


def stopped_row(row, curves):
    mean = {name: np.mean([curve[name] for curve in curves], 0) for name in curves[0]}
    right, rollouts, tokens = mean["right"], mean["rollouts"], mean["tokens"]  # each [thresholds, P]
    share = tokens.mean(1) / tokens[-1].mean()  # [thresholds], of the tokens of all rollouts
    largest = max(map(int, row["curve"]))
    fixed_shares = [int(n) / largest for n in row["curve"]]  # where every problem gets n rollouts
    fixed_accuracies = [*row["curve"].values()]
    return {
        **{key: row[key] for key in ("method", "kind", "scores", "short")},
        **mean_and_std([curve["right"][0].mean() for curve in curves]),
        "threshold": float(mean["threshold"][0]), "all": float(right[-1].mean()),
        **with_interval(right[0] - right[-1]), "rollouts": float(rollouts[0].mean()),
        "tokens": float(tokens[0].mean()), "share": float(share[0]),
        "curve": sorted(zip(share.tolist(), right.mean(1).tolist())),
        "fixed": float(np.interp(share[0], fixed_shares, fixed_accuracies)),
        "fixed_curve": [*zip(fixed_shares, fixed_accuracies)],
    }  # fmt: skip


# ---- Studies: scorers of 03 --study, which differ in one thing ---------------------------------------------


def evaluate_study(study, runs):
    """Rows of a study in the paper's order: how well the scorers of a row and calibration set pick.

    A value is the mean over evaluation runs; ± is over calibration runs and scorer seeds. The problems from
    which a scorer of some row learned are left out of all rows of that seed.
    """
    shared = set.intersection(*[{*run.scores} for run in runs])
    methods = [method for method in shared if study_of(method) == study]
    learned = defaultdict(set)  # scorer seed -> ids of problems
    for method in methods:
        for _, _, file in files_of(runs, method):
            learned[file.seed].update(file.cost.get("learned") or [])
    places = {name: place for place, name in enumerate(STUDIES[study])}
    rows = [study_row(method, runs, learned) for method in sorted(methods)]
    return sorted(rows, key=lambda row: places.get(row["row"], len(places)))


def study_row(method, runs, learned):
    _, name, calibration = STUDY_METHOD.fullmatch(method).groups()
    values = defaultdict(lambda: defaultdict(list))  # measure -> (calibration run, seed) -> of each run
    for _, run, file in files_of(runs, method):
        is_new = np.array([id not in learned[file.seed] for id in run.ids])
        for measure, value in measure_scorer(method, run, file, is_new).items():
            values[measure][file.calibration_run, file.seed].append(value)
    measures = {}
    for measure, of_scorers in values.items():
        means = [mean_of(of_runs) for of_runs in of_scorers.values()]
        defined = [mean for mean in means if mean is not None]  # AUROC needs right and wrong answers
        if defined:
            measures[measure] = mean_and_std(defined, "mean") | {"values": means}
    over = name_varied(values["problems"], ("cal", "seeds"))
    return {"row": name, "calibration": calibration, "over": over, "measures": measures}


def measure_scorer(method, run, file, is_new):
    """{measure: value} over the problems that are new to all scorers of the seed."""
    if not is_new.any():
        common.die(f"{run.path}: {method} and the scorers beside it learned from all of its problems")
    largest = run.labels.shape[1]
    measures = {"problems": is_new.sum()}
    for n in [n for n in STUDY_SIZES if n <= largest] or [largest]:
        measures[f"best of {n}"] = (run.labels * by_score(run, file, n)).sum(1)[is_new].mean()
    auroc = auroc_of(run, file, run.valid & is_new[:, None])
    measures |= {"AUROC": auroc["auroc"], "within a problem": auroc["auroc_within"]}
    if file.p is not None and (run.answer_groups >= 0).any():
        (shares,) = by_vote(weighted_majority, run, file, largest)
        measures["weighted vote"] = (run.labels * shares).sum(1)[is_new].mean()
    return measures


# ---- The paper's numbers -----------------------------------------------------------------------------------
# Of its tables "Best-of-N results for math domain", "for coding domain" and "Comparison of SCaTR with
# ReasonFlux models". It says AIME; its problems are those of 2025.

PAPER_ROWS = ("SCaTR", "best of the paper's 20", "LoRA verifier", "PRM (ReasonFlux-PRM-1.5B)",
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


def paper_numbers(model, calibration, dataset):
    """{row of the summary: the paper's number} for a model, calibration set and test set; {} for others."""
    name = f"{model} {calibration} {dataset}".lower()
    for line in PAPER.splitlines():
        sets, numbers = line.split(": ")
        if sets.lower() == name:
            pairs = zip(PAPER_ROWS, numbers.split())
            return {row: number.replace("±", " ± ") for row, number in pairs if number != "-"}
    return {}


# ---- Tables: rows {column: cell}; bold is written as in Markdown -------------------------------------------

SUMMARY_ENDS = ("oracle", "SCaTR, stopped when sure", "SCaTR+, stopped when sure", "Δ", f"Δ to {ALL_RULES}",
                "gap closed %", "cut %")  # fmt: skip
SUMMARY_COLUMNS = 4  # as many as fit beside each other


def grid(rows):
    """(header, cells) with all columns that some row has."""
    header = [*dict.fromkeys(itertools.chain(*rows))]
    return header, [[row.get(column) for column in header] for row in rows]


def on_screen(header, cells):
    return common.table(header, [[(cell or "").strip("*") for cell in row] for row in cells])


def best_bold(cells):
    """{name: cell} with the largest number in bold; a cell begins with its number."""
    values = {name: float(cell.split()[0]) for name, cell in cells.items() if cell}
    best = max(values.values(), default=None)
    return {name: f"**{cell}**" if cell and values[name] == best else cell for name, cell in cells.items()}


def percent(value, digits=1, sign=""):
    """0.123 -> 12.3; what is added makes no number "-0.0"."""
    return None if value is None else f"{round(100 * value, digits) + 0.0:{sign}.{digits}f}"


def percent_and_std(mean, std):
    return percent(mean) if std is None else f"{percent(mean)} ± {percent(std)}"


def accuracy_of(row):
    in_sample = " in sample" if row.get("in_sample") else ""
    return percent_and_std(row["accuracy"], row["std"]) + in_sample


def gain_of(row):
    return f"{percent(row['delta'], sign='+')} [{percent(row['low'])}, {percent(row['high'])}]"


def number(value, unit=1):
    """Three digits; from a hundred on, none after the point."""
    if value is None:
        return None
    return f"{value / unit:,.0f}" if value >= 100 * unit else f"{value / unit:.3g}"


def shown_rows(section):
    """{name: row} of all rows, but of the confidence rules only of the best."""
    shown = {}
    for row in section["rows"]:
        if row["kind"] != "confidence" or row["best_of"]:
            shown["".join(f"best of {rules}: " for rules in row["best_of"]) + row["method"]] = row
    return shown


def methods_table(section):
    shown = shown_rows(section)
    bold = best_bold({name: accuracy_of(row) for name, row in shown.items() if row["kind"] != "oracle"})
    for name, row in shown.items():
        cells = {"method": name, "accuracy %": bold.get(name, accuracy_of(row)), "over": row["over"]}
        cells["right/problems"] = f"{row['correct']:.1f}/{row['problems']}".replace(".0/", "/")
        for rules, gain in row["against"].items():
            cells[f"Δ to {rules} [95 %]"] = None if rules in row["best_of"] else gain_of(gain)
            closed = (percent(gain["gap_closed"], 0) or "–") if row["kind"] in ("scorer", "vote") else None
            cells[f"gap closed to {rules}, %"] = closed
        yield cells | {"cut %": percent(row["cut"]), "tokens a problem": number(row["tokens"])}


def curves_table(section):
    for name, row in shown_rows(section).items():
        cells = {"method": name}
        for n, accuracy in row["curve"].items():
            error = row["curve_subset_error"].get(n)
            cells[f"N={n}"] = percent(accuracy) + (f" (± {percent(error, 2)})" if error else "")
        for key, column in (("auroc", "AUROC"), ("auroc_within", "within a problem")):
            cells[column] = None if row.get(key) is None else f"{row[key]:.3f}"
        yield cells | {"cut %": percent(row["cut"])}


def stopping_table(section):
    for row in section["stopping"]:
        yield {
            "method, stopped": row["method"], "when sure by": f"{row['threshold']:.3f}",
            "accuracy %": accuracy_of(row), "all rollouts: %": percent(row["all"]), "Δ [95 %]": gain_of(row),
            "rollouts": f"{row['rollouts']:.1f}", "tokens a problem": number(row["tokens"]),
            "% of all tokens": percent(row["share"]), "% of a fixed N of that cost": percent(row["fixed"]),
        }  # fmt: skip


def rules_table(section):
    rows = {row["method"]: row for row in section["rows"]}
    for statistic in common.STATISTICS:
        cells = {"statistic": statistic}
        for way in common.AGGREGATIONS:
            row = rows[f"{statistic}/{way}"]
            cells[way] = f"**{accuracy_of(row)}**" if row["best_of"] else accuracy_of(row)
            if row["equals"]:
                cells[way] = f"as {row['equals'].split('/')[1]}"
        cut = mean_of(rows[f"{statistic}/{way}"]["cut"] for way in common.AGGREGATIONS)
        yield cells | {"cut %": percent(cut)}


def cost_table(section):
    rows = [row for row in section["rows"] if "cost" in row]
    scatr = next((row["cost"] for row in rows if row["scores"].startswith("scatr.")), {})
    for row in rows:
        cost = row["cost"]
        cells = {"cost": row["method"].removesuffix(", best-of-N")}
        for name, (column, unit) in COSTS.items():
            cells[column] = number(cost[name], unit)
            is_timed = name.startswith(("train_seconds", "ms_"))
            if cost[name] and scatr.get(name) and not (is_timed and cost["device"] != scatr["device"]):
                cells[column] += f" ({number(cost[name] / scatr[name])}×)"
        cells |= {"measured on": cost["device"] or "–", "accuracy %": accuracy_of(row)}
        yield cells | {"cut %": percent(row["cut"])}


TABLES = {
    "Methods": methods_table,
    "Fewer rollouts (±: standard error of random subsets), and AUROC": curves_table,
    "Sampling that stops when the scorer is sure (for 1 point on calibration problems)": stopping_table,
    "Confidence rules: the paper's five statistics, and two more": rules_table,
    "Costs (×: as many times SCaTR's; minutes and ms are measured, FLOPs computed)": cost_table,
}


def study_tables(section):
    """{title: rows}, a table for each calibration set; those of mixed and halves compare calibration sets."""
    tables = defaultdict(list)
    for study, rows in section["studies"].items():
        for row in rows:
            cells = {study: row["row"]}
            if study in ("mixed", "halves"):
                cells["calibrated on"] = row["calibration"]
                sets = section["dataset"]
            else:
                sets = f"{row['calibration']} → {section['dataset']}"
            for measure, value in row["measures"].items():
                if measure != "problems":
                    cells[f"{measure} %"] = percent_and_std(value["mean"], value["std"])
            cells |= {"over": row["over"], "problems": number(row["measures"]["problems"]["mean"])}
            tables[f"Study of {study}: {section['model']}, {sets}"].append(cells)
    return tables


def summary_blocks(sections):
    """Yield (header, cells) with a row for each method and a column for each calibration and test set, and
    for the paper's numbers of these, a few columns at a time."""
    columns = []
    for section in sections:
        for calibration in calibrations_of(section):
            title = " → ".join(filter(None, [calibration, section["dataset"]]))
            if len({section["model"] for section in sections}) > 1:
                title = f"{section['model']}: {title}"
            columns.append((title, summary_cells(section, calibration)))
            paper = paper_numbers(section["model"], calibration, section["dataset"])
            columns += [("paper", paper)] if paper else []
    names = dict.fromkeys(name for title, cells in columns if title != "paper" for name in cells)
    methods = [name for name in names if name not in SUMMARY_ENDS]
    ends = [name for name in SUMMARY_ENDS if name in names]
    for i in range(0, len(columns), SUMMARY_COLUMNS):
        titles, several = zip(*columns[i : i + SUMMARY_COLUMNS])
        several = [cells | best_bold({name: cells.get(name) for name in methods}) for cells in several]
        rows = [[name, *(cells.get(name) for cells in several)] for name in methods + ends]
        yield ["picked by", *titles], [row for row in rows if any(row[1:])]


def calibrations_of(section):
    return sorted({row["calibration"] for row in section["rows"]} - {""}) or [""]


def summary_cells(section, calibration):
    cells = {}
    for row in section["rows"]:
        for rules in row["best_of"]:
            cells[f"best of {rules}"] = accuracy_of(row)
        if row["short"] and row["calibration"] in ("", calibration):
            cells[row["short"]] = accuracy_of(row)
            if row["short"] == "SCaTR":
                papers, of_all = (row["against"][rules] for rules in REFERENCES)
                cells["Δ"] = percent(papers["delta"], sign="+")
                cells[f"Δ to {ALL_RULES}"] = percent(of_all["delta"], sign="+")
                cells["gap closed %"] = percent(papers["gap_closed"]) or "–"
    stopped = {row["scores"]: row for row in section["stopping"]}
    row = stopped.get(f"scatr+.{calibration}") or stopped.get(f"scatr.{calibration}")
    if row:
        result = f"{percent(row['accuracy'])} for {percent(row['share'], 0)} %"
        cells[f"{row['short']}, stopped when sure"] = result
    return cells | {"cut %": percent(section["cut"])}


# ---- The report --------------------------------------------------------------------------------------------

LEGEND = """\
## What the names and numbers mean

Confidence rules are statistic/aggregation, of each token's ten largest log-probabilities unless it says else:

- `mean`, `median`: minus their mean, minus their median; `variance`: their variance
- `gap`: the largest probability minus the second; `entropy`: of the ten, scaled to add up to 1 (low is sure)
- `self_certainty`: how far the whole distribution is from uniform; `likelihood`: the token's own
  log-probability
- `avg`: the mean over all tokens; `tail`: over the last ones; `lowest`: of the window where it is least
  confident; `bottom10`: the mean of the least confident tenth of the windows. Windows and tail are the
  paper's (1,024 and 2,048 tokens) where answers are long, else the power of two nearest to half of the
  median answer

Columns and numbers:

- Random, best-of-N and oracle are the exact expectation over all subsets of N rollouts; votes are exact where
  these are few, else the mean over random ones, with its standard error. Tied majorities share the credit. A
  problem with a label that could not be judged is in no row
- `over`: what the mean and ± are taken over; `right/problems`: right picks (expected ones) of all problems
- `Δ to ... [95 %]`: points above the best of these confidence rules, which is picked with hindsight on these
  labels, with a paired bootstrap interval over problems; `gap closed`: Δ as a share of the distance from that
  rule to the oracle, a dash where this is less than two problems
- `cut %`: picks (`random`: all rollouts) that ended at the length limit; `N=4`: right % with four rollouts
- `AUROC`: the chance that a right answer scores above a wrong one, over all rollouts and `within a problem`
- `when sure by`: the probability at which sampling stops, found on the calibration problems; `% of a fixed N
  of that cost`: right % when all problems get as many rollouts as stopping took on average
- `×`: how many times as much as SCaTR's; what is measured is compared only on the same device. LoRA and PRM
  read one rollout at a time"""


def report(args):
    check_inputs(args)
    repetitions = defaultdict(list)  # (model, data set) -> runs
    for path in map(Path, args.runs):
        meta = common.read_meta(path)
        repetitions[common.model_name(meta), common.short_name(meta["dataset"])].append(path)
    sections = [make_section(*names, paths, args) for names, paths in repetitions.items()]
    out = Path(args.out or os.path.commonpath([*map(os.path.abspath, args.runs)]))
    common.write_json(out / "results.json", {"command": the_command(), "sections": sections})
    blocks = [*summary_blocks(sections)]
    footnotes = [*footnotes_of(sections, blocks)]
    write_report(out, sections, blocks, footnotes, args.plots)
    print(*(section["title"] for section in sections), sep="\n")
    print(*(f"\n{on_screen(*block)}" for block in blocks), "", sep="\n")
    print(*(note for section in sections for note in section["notes"]), *footnotes, sep="\n")
    for section in sections:
        for title, rows in study_tables(section).items():
            print(f"\n{title}\n\n{on_screen(*grid(rows))}")
    print(f"report: {out / 'report.md'}")


def check_inputs(args):
    if args.plots and not importlib.util.find_spec("matplotlib"):
        common.die("--plots needs matplotlib: pip install matplotlib")
    if len({os.path.realpath(path) for path in args.runs}) < len(args.runs):
        common.die("a run is given twice; each counts as a repetition of its own")
    stems = {file.stem for path in args.runs for file in Path(path, "scores").glob("*.jsonl")}
    methods = {stem.partition("@")[0] for stem in stems}
    names = {name for name in stems | methods if not study_of(name.partition("@")[0])}
    for name in args.only:
        if name not in names:
            known = ", ".join(sorted(names)) or "none"
            common.die(f"--only {name}: no such scores; there are {known}")
    for study in args.study:
        if study not in map(study_of, methods):
            common.die(f"--study {study}: no scores of it; 03_train_scorer.py --study {study} makes scorers, "
                       "with which 04_select.py scores the runs")  # fmt: skip


def make_section(model, dataset, paths, args):
    """What results.json has of one model and data set."""
    window, tail = windows_for(paths)
    runs, greedy, left_out = load_repetitions(paths, (window, tail), args.only, args.study)
    rows = make_rows(runs, greedy)
    compare(rows)
    title = f"{model} on {dataset}: {len(runs[0].ids)} problems, N={rollouts_of(runs):.4g}"
    if len(runs) > 1:
        title += f", {len(runs)} runs"
    if (window, tail) != (common.WINDOW, common.TAIL):
        title += f", windows of {window:,} tokens, tail {tail:,}"
    return {
        "title": title, "model": model, "dataset": dataset, "problems": len(runs[0].ids),
        "cut": rows["random"]["cut"], "window": window, "tail": tail,
        "runs": [str(run.path) for run in runs], "metas": [run.meta for run in runs],
        "notes": [f"{model} on {dataset}: {note}" for note in notes_of(runs, left_out, rows)],
        "rows": [{key: value for key, value in row.items() if key != "right"} for row in rows.values()],
        "stopping": replay_stopping(runs, rows),
        "studies": {study: evaluate_study(study, runs) for study in args.study},
    }  # fmt: skip


def notes_of(runs, left_out, rows):
    """What a reader must know before believing the numbers."""
    in_sample = [name for name, row in rows.items() if row["in_sample"]]
    twins = [rule for rule in RULES if rows[rule]["equals"]]
    methods = [{*run.scores} for run in runs]
    missing = set.union(*methods) - set.intersection(*methods)
    cut = rows["random"]["cut"]
    if in_sample:
        yield f"in sample: {', '.join(in_sample)} learned from these problems, which proves nothing"
    if twins:
        count = f"{len(twins)} of {len(RULES)} confidence rules"
        yield f"{count} equal another: answers are shorter than the windows"
    if left_out:
        yield f"{len(left_out)} problems left out of all rows: a label could not be judged"
    if missing:
        yield f"no row for {', '.join(sorted(missing))}: not in every run"
    if cut > 0.05:
        yield f"{percent(cut)} % of the rollouts were cut: with room all would rise (01 --max-new-tokens 0)"


def footnotes_of(sections, blocks):
    """What explains the rows of the summary that are there."""
    names = {row[0] for _, cells in blocks for row in cells}
    varied = max((row["over"] for section in sections for row in section["rows"]), key=len)
    if varied:
        yield f"±: standard deviation over what varies for the row, at most {varied}."
    if "Δ" in names:
        yield f"Δ: SCaTR's points above the best rule of the paper's 20 (of {ALL_RULES}), with hindsight."
        yield "Gap closed: the share of the distance from that rule to the oracle."
    if {"SCaTR, stopped when sure", "SCaTR+, stopped when sure"} & names:
        yield "Stopped when sure: right %, and the share of the tokens of all rollouts that it takes."
    yield "A confidence rule is a statistic of each token, summed up over the answer; report.md names each."


def write_report(out, sections, blocks, footnotes, plots):
    parts = ["# Report", f"Made by `{the_command()}`.", "### Summary"]
    parts += [common.table(*block, markdown=True) for block in blocks] + footnotes
    for section in sections:
        parts += [f"## {section['title']}", *section["notes"]]
        tables = {title: [*table(section)] for title, table in TABLES.items()} | study_tables(section)
        for title, rows in tables.items():
            if rows:
                parts += [f"### {title}", common.table(*grid(rows), markdown=True)]
        commands = sorted({f"`{command}`" for row in section["rows"] for command in row.get("made_by", [])})
        parts.append("\n".join(f"- {line}" for line in [*section["runs"], *commands]))
        if plots:
            parts += [f"![{caption}]({name})" for name, caption in draw_figures(out, section)]
    with common.atomic(out / "report.md") as file:
        file.write("\n\n".join([*parts, LEGEND]))


def the_command():
    return shlex.join(["python", "05_baselines.py", *sys.argv[1:]])


# ---- Figures: a file each. A method has one colour in all, and a line of its own for prints in grey --------

LOOKS = {  # a method's part in a figure: (colour, line, mark)
    "random": ("#888888", ":", ""),
    "rule": ("#e69f00", "--", "s"),
    "vote": ("#56b4e9", "-.", "v"),
    "SCaTR": ("#0072b2", "-", "o"),
    "SCaTR+": ("#882255", "-", "D"),
    "SCaTR vote": ("#009e73", "-", "^"),
    "oracle": ("#000000", "--", ""),
}
SHADES = dict(zip(common.AGGREGATIONS, ("#f9dc9f", "#eeb03c", "#b9770e", "#5f3c05")))  # of the rules' orange
SIZE = (7, 4.3)  # inches


def draw_figures(out, section):
    """Yield (file name, caption) of each figure that the rows of a section can fill."""
    for calibration in calibrations_of(section):
        title = f"{section['model']} on {section['dataset']}"
        pair = section["dataset"]
        if calibration:
            title += f", calibrated on {calibration}"
            pair = f"{calibration}-to-{pair}"
        rows = choose_rows(section, calibration)
        for name, (caption, draw) in FIGURES.items():
            if name != "stopping" or stopped_parts(section, rows):
                file = f"{name}.{section['model']}.{pair}.png"
                draw_figure(out / file, f"{caption}\n{title}", draw, section, rows)
                yield file, caption


def draw_figure(path, title, draw, section, rows):
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    draw(axes, section, rows)
    with common.atomic(path, "wb") as file:
        figure.savefig(file, format="png", dpi=120)


def choose_rows(section, calibration):
    """{part in a figure: row}, seven at most: of the rules, the plain votes and SCaTR's votes the best."""
    candidates = defaultdict(list)
    for row in section["rows"]:
        is_ours = row["calibration"] == calibration and row["scores"].startswith("scatr")
        if row["kind"] in ("random", "oracle"):
            candidates[row["kind"]].append(row)
        elif row["kind"] == "confidence":
            candidates["rule"].append(row)
        elif row["method"] in VOTES:
            candidates["vote"].append(row)
        elif is_ours and row["kind"] == "scorer":
            candidates[row["short"]].append(row)
        elif is_ours and row["kind"] == "vote":
            candidates["SCaTR vote"].append(row)
    parts = [part for part in LOOKS if candidates[part]]
    return {part: max(candidates[part], key=lambda row: row["accuracy"]) for part in parts}


def draw_accuracy(axes, section, rows):
    ends = []
    for part, row in rows.items():
        colour, line, mark = LOOKS[part]
        sizes = [int(n) for n in row["curve"]]
        heights = 100 * np.array([*row["curve"].values()])
        axes.plot(sizes, heights, line, marker=mark, color=colour, markersize=4, clip_on=False)
        if row["curve_std"]:
            std = 100 * np.array(row["curve_std"])
            axes.fill_between(sizes, heights - std, heights + std, color=colour, alpha=0.18, linewidth=0)
        name = f"best rule: {row['method']}" if part == "rule" else row["short"]
        ends.append((heights[-1], f"{name}  {heights[-1]:.1f}", colour))
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, sizes)
    axes.minorticks_off()
    axes.set(xlabel="rollouts a problem (N)", ylabel="right answers, %", xlim=(1, max(2, sizes[-1])))
    name_ends(axes, ends)


def name_ends(axes, names, share=0.055):
    """Write (height, text, colour) at the right edge, moved apart to at least this share of the axis."""
    low, high = axes.get_ylim()
    gap = share * (high - low)
    last = -math.inf
    for i, (height, text, colour) in enumerate(sorted(names)):
        room_for_those_above = gap * (len(names) - i - 1)
        last = min(max(height, last + gap), high - room_for_those_above)
        axes.annotate(text, (1, last), xycoords=("axes fraction", "data"), xytext=(6, 0), color=colour,
                      textcoords="offset points", va="center", fontsize=9)  # fmt: skip


STOPPING_KEY = """\
line: stops when sure, from the lowest threshold to the highest
mark: the threshold that the calibration problems chose
dotted: the same number of rollouts for every problem"""


def stopped_parts(section, rows):
    """{part: row of section["stopping"]} of the methods in a figure that have one."""
    stopped = {row["method"]: row for row in section["stopping"]}
    return {part: stopped[row["method"]] for part, row in rows.items() if row["method"] in stopped}


def draw_stopping(axes, section, rows):
    ends = []
    for part, row in stopped_parts(section, rows).items():
        colour, _, mark = LOOKS[part]
        axes.plot(*100 * np.array(row["curve"]).T, color=colour)
        axes.plot(*100 * np.array(row["fixed_curve"]).T, ":", color=colour)
        share, accuracy, accuracy_of_all = 100 * np.array([row["share"], row["accuracy"], row["all"]])
        axes.plot(share, accuracy, mark, color=colour, markersize=9, markeredgecolor="white")
        text = f"{row['short']}  {accuracy_of_all:.1f}\nstopped: {accuracy:.1f} for {share:.0f} %"
        ends.append((accuracy_of_all, text, colour))
    axes.text(0.98, 0.03, STOPPING_KEY, transform=axes.transAxes, ha="right", va="bottom", fontsize=8.5)
    axes.set(xlabel="tokens, % of those of all rollouts", ylabel="right answers, %", xlim=(0, 100))
    name_ends(axes, ends, 0.11)


def draw_rules(axes, section, rows):
    """The rules and SCaTR as bars from the best to the worst; the dotted line is a random pick."""
    bars = []  # (row, name, colour)
    for row in section["rows"]:
        if row["kind"] == "confidence" and not row["equals"]:
            bars.append((row, row["method"], SHADES[row["method"].split("/")[1]]))
    bars += [(rows[part], part, LOOKS[part][0]) for part in ("SCaTR", "SCaTR+") if part in rows]
    axes.figure.set_size_inches(SIZE[0], 1.4 + 0.18 * len(bars))
    text = {"textcoords": "offset points", "xytext": (4, 0), "va": "center", "fontsize": 8,
            "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 0.5}}  # fmt: skip
    for row, name, colour in sorted(bars, key=lambda bar: bar[0]["accuracy"]):
        accuracy = 100 * row["accuracy"]
        std = 100 * (row["std"] or 0)
        axes.barh(name, accuracy, color=colour, height=0.78)
        axes.errorbar(accuracy, name, xerr=std, fmt="none", ecolor="#333333")
        axes.annotate(f"{accuracy:.1f}", (accuracy + std, name), **text)
    random = 100 * rows["random"]["accuracy"]
    axes.axvline(random, color=LOOKS["random"][0], linestyle=":", zorder=0)
    axes.annotate(f"random  {random:.1f}", (random, 0), color="#555555", **text)
    handles = [axes.bar([0], [0], color=shade) for shade in SHADES.values()]
    axes.legend(handles, SHADES, title="over the tokens", loc="lower right", fontsize=9, frameon=False)
    axes.tick_params(axis="y", labelsize=8, length=0)
    axes.set(xlabel="right answers, %", ylabel="confidence rule: statistic/aggregation", xlim=(0, None))
    axes.margins(y=0.01)


FIGURES = {
    "accuracy": ("Accuracy against the number of rollouts", draw_accuracy),
    "stopping": ("Sampling that stops when the scorer is sure", draw_stopping),
    "rules": ("All confidence rules, best of N", draw_rules),
}

# ==== Page two: learned verifiers ===========================================================================
# They read one rollout at a time, since a long one fills a GPU.

SAVED = 256  # rollouts after which scores are written; a killed command resumes there


@dataclass
class Verifier:
    """What reads a problem and an answer, and judges."""

    model: object
    encode: callable  # (problem, response) -> token ids
    judge: callable  # token ids -> logit that the answer is right


def score_rollouts(run, name, verifier, cost, *made_of):
    """Write scores/NAME.jsonl and what it cost; scores of the same rollouts by the same files are kept."""
    rollouts = common.read_rollouts(run)
    common.check_same_problems(run, rollouts)
    problems = {row["id"]: row for row in common.read_jsonl(run / "problems.jsonl")}
    path = run / "scores" / f"{name}.jsonl"
    cost_file = path.with_suffix(".cost.json")
    model = verifier.model
    cost = cost | {"parameters": model.num_parameters(), "device": common.device_name(model.device)}
    cost |= {"command": the_command(), "made_of": mark_of(*made_of, run / "rollouts.jsonl")}
    earlier = common.read_json(cost_file) if path.is_file() and cost_file.is_file() else {}
    rows = common.read_jsonl(path) if earlier.get("made_of") == cost["made_of"] else []
    seconds = [(earlier.get("ms_per_rollout") or 0) / 1000] * len(rows)
    left = rollouts[len(rows) :]
    for row in common.progress(left, desc=f"{name} {run}", unit="rollout"):
        started = time.perf_counter()
        ids = verifier.encode(problems[row["id"]], row["response"])
        with torch.inference_mode():
            logit = verifier.judge(ids)
        score = {"score": logit.item(), "p": logit.sigmoid().item()}
        seconds.append(time.perf_counter() - started)
        rows.append({"id": row["id"], "sample": row["sample"]} | score)
        if len(rows) % SAVED == 0 or len(rows) == len(rollouts):
            common.write_jsonl(path, rows)
            common.write_json(cost_file, cost | {"ms_per_rollout": 1000 * float(np.mean(seconds))})
    print(f"{run}: {len(left)} of {len(rollouts)} rollouts scored by {name}")


def mark_of(*files):
    """A few letters that change when one of the files does."""
    return common.hash_of(b"\n".join(file.read_bytes() for file in files))


def states_of(model, ids):
    """The last hidden states [T, d] of a sequence."""
    ids = model.get_input_embeddings().weight.new_tensor([ids], dtype=int)
    return model.base_model(input_ids=ids, use_cache=False).last_hidden_state[0]


def next_logits(model, ids):
    """[vocabulary] at the last position alone: the logits of a long answer would take gigabytes."""
    return model.get_output_embeddings()(states_of(model, ids)[-1]).float()


def has_channels(tokenizer):
    return "<|channel|>" in tokenizer.added_tokens_encoder  # gpt-oss's


def fit_answer(model, tokenizer, most, write, problem, answer):
    """Token ids of write(problem, answer) with the answer's last tokens: `most`, or what the context fits."""
    answer = re.sub(r"<\|(?:start|channel)\|>\w*|<\|\w+\|>", " ", answer)  # gpt-oss's channels
    context = common.context_of(model.config)
    room = min(most, context - len(write(problem, "")))
    tokens = tokenizer(answer, add_special_tokens=False)["input_ids"][-room:] if room > 0 else []
    return write(problem, tokenizer.decode(tokens, skip_special_tokens=True))[-context:]


def direct_prompt(tokenizer, question):
    """Token ids of a question whose very next token is the answer: no reasoning before it."""
    ids = [*common.encode_prompt(tokenizer, {"kind": "text", "prompt": question}, thinking=False)]
    skipped = ""
    if has_channels(tokenizer):
        skipped = "<|channel|>final<|message|>"
    elif tokenizer.decode(ids[-16:]).rstrip().endswith("<think>"):
        skipped = "\n</think>\n\n"
    return ids + tokenizer(skipped, add_special_tokens=False)["input_ids"]


def first_tokens(tokenizer, *words):
    ids = [tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in words]
    if ids[0] == ids[1]:
        common.die(f"{words} begin with one token, {tokenizer.decode(ids[0])!r}: this model cannot choose")
    return ids


def load_model_of(runs, args):
    """The model that made the runs, and its tokenizer."""
    metas = [common.read_meta(run) for run in runs]
    names = sorted({common.model_name(meta) for meta in metas})
    if len(names) > 1:
        common.die(f"these runs are of {' and '.join(map(repr, names))}; give runs of one model")
    revision = None if args.model else metas[0].get("revision")
    model, tokenizer = common.load_model(args.model or metas[0]["model"], args.device, revision=revision)
    if model.config.model_type == "gpt_oss":  # transformers' own keeps all scores: 10 GB a layer at 4,096
        common.use_attention(model, "whole", common.causal_attention)
    return model, tokenizer


# ---- LoRA verifier: the model that made the rollouts learns to say yes or no after them --------------------

RANK, ALPHA, DROPOUT = 16, 32, 0.05
BATCH = 16  # rollouts a step
WARM_UP = 100  # steps to the full learning rate
CLIP = 1.0  # norm of the gradient
QUESTION = """\
Determine the correctness of the following answer:
Problem: {problem}
Answer: {answer}
Is this answer correct (yes/no)?"""


def lora(args):
    """Train adapters for each seed, or load finished ones, and score the --eval runs. A training that was
    killed starts over, and ends the same."""
    run = Path(args.run)
    dataset = common.short_name(common.read_meta(run)["dataset"])
    examples = read_examples(run)
    model, tokenizer = load_model_of([run, *args.eval], args)
    words = first_tokens(tokenizer, "yes", "no")

    def write(problem, answer):
        return direct_prompt(tokenizer, QUESTION.format(problem=problem["prompt"], answer=answer))

    def judge(ids):
        yes, no = next_logits(model, ids)[words]
        return yes - no

    most = 4096 if has_channels(tokenizer) else 16384
    verifier = Verifier(model, partial(fit_answer, model, tokenizer, most, write), judge)
    made_of = [args.epochs, args.lr, mark_of(run / "labels.jsonl", run / "rollouts.jsonl")]
    for seed in args.seed:
        path = run / f"lora@{seed}.pt"
        adapters = add_adapters(model, seed)
        checkpoint = common.load_pt(path) if path.is_file() else {}
        if checkpoint.get("made_of") != made_of:
            cost = train_adapters(verifier, adapters, words, examples, args, seed)
            weights = {name: weight.detach().cpu() for name, weight in adapters.items()}
            checkpoint = {"adapters": weights, "cost": cost, "made_of": made_of, "command": the_command()}
            common.save_pt(path, checkpoint)
        model.load_state_dict(checkpoint["adapters"], strict=False)
        for evaluated in map(Path, args.eval):
            name = f"lora.{dataset}@{run.name}-{seed}"
            score_rollouts(evaluated, name, verifier, checkpoint["cost"], path)


def read_examples(run):
    """[(problem, response, label)] of the judged rollouts."""
    problems = {row["id"]: row for row in common.read_jsonl(run / "problems.jsonl", needs=("id", "prompt"))}
    rollouts = common.read_rollouts(run)
    examples = []
    for rollout, row in zip(rollouts, common.read_labels(run, common.keys_of(rollouts))):
        if row["label"] is not None:
            examples.append((problems[rollout["id"]], rollout["response"], row["label"]))
    right = sum(label for _, _, label in examples)
    if right in (0, len(examples)):
        common.die(f"{run}: {right} of {len(examples)} rollouts are right; a verifier needs both kinds")
    return examples


def add_adapters(model, seed):
    """Add two weights, which change nothing yet, to each linear layer of the blocks -> {name: weight}.

    Experts that are kept as 3-D parameters get none.
    """

    def add_adapted(layer, inputs, output):  # in float32, since bfloat16 would round small steps away
        low = torch.nn.functional.dropout(inputs[0], DROPOUT, layer.training) @ layer.down.mT.to(output.dtype)
        return output + low @ layer.up.mT.to(output.dtype) * (ALPHA / RANK)

    torch.manual_seed(seed)
    for layer in model.requires_grad_(False).base_model.modules():
        if isinstance(layer, torch.nn.Linear):
            if not hasattr(layer, "down"):
                layer.register_forward_hook(add_adapted)
            device = layer.weight.device
            layer.down = torch.nn.Parameter(torch.zeros(RANK, layer.in_features, device=device))
            layer.up = torch.nn.Parameter(torch.zeros(layer.out_features, RANK, device=device))
            torch.nn.init.kaiming_uniform_(layer.down, a=math.sqrt(5))
    return {name: weight for name, weight in model.named_parameters() if weight.requires_grad}


def train_adapters(verifier, adapters, words, examples, args, seed):
    """Minimise the cross-entropy of the word after the question -> what it cost."""
    model = verifier.model
    optimizer = torch.optim.AdamW(adapters.values(), weight_decay=0.0)
    batches = math.ceil(len(examples) / BATCH)
    steps = args.epochs * batches
    lengths = []  # of all sequences that were read
    save_memory(model.train())
    started = time.perf_counter()
    for step in common.progress(range(steps), desc=f"train lora@{seed}", unit="step"):
        epoch, place = divmod(step, batches)
        order = np.random.default_rng([seed, epoch]).permutation(len(examples))
        batch = [examples[i] for i in order[place * BATCH :][:BATCH]]
        for problem, response, label in batch:
            ids = verifier.encode(problem, response)
            learn_from(model, ids, words[1 - label], len(batch))
            lengths.append(len(ids))
        torch.nn.utils.clip_grad_norm_(adapters.values(), CLIP)
        optimizer.param_groups[0]["lr"] = args.lr * rate_at(step, steps)
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    seconds = time.perf_counter() - started
    print(f"lora@{seed}: {steps} steps in {seconds / 60:.1f} min")
    return {"train_seconds": seconds, "train_flops": training_flops(model, lengths)}


def save_memory(model):
    """Compute activations again in the backward pass, so that a long answer fits."""
    enable = getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)
    enable({"use_reentrant": False})


def rate_at(step, steps):
    """A factor of the learning rate: warm-up, for half of the steps at most, then a straight line to zero."""
    warm = min(WARM_UP, max(1, steps // 2))
    return min((step + 1) / warm, (steps - step) / max(1, steps - warm))


def learn_from(model, ids, word, batch_size):
    """Add one rollout's share of the gradient of its batch's mean loss."""
    (-next_logits(model, ids).log_softmax(0)[word] / batch_size).backward()


def training_flops(model, lengths):
    """For each token 2 a weight that it uses forward, 2 backward, 2 more where that learns; and attention."""
    config = model.config.get_text_config()
    experts = getattr(config, "num_experts", None) or getattr(config, "num_local_experts", None) or 1
    share = (getattr(config, "num_experts_per_tok", None) or 1) / experts  # of weights [experts, in, out]
    embeddings = model.get_input_embeddings().weight
    weights = [p for p in model.base_model.parameters() if p.ndim > 1 and p is not embeddings]
    used = sum(p.numel() * (share if p.ndim == 3 else 1) for p in weights)
    trained = sum(p.numel() for p in weights if p.requires_grad)
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    attention = config.num_hidden_layers * config.num_attention_heads * width
    n = np.array(lengths, dtype=float)
    return float((4 * used + 2 * trained) * n.sum() + 6 * attention * (n * (n + 1)).sum())


# ---- Process reward models, without code from the Hub ------------------------------------------------------

STEP_END = "<extra_0>"
PRM_TOKENS = 2048  # so many of an answer's last tokens are read


def prm(args):
    for run in args.runs:
        common.read_meta(run)  # what is no run ends here, before the model is loaded
    # with a score at each step (ReasonFlux-PRM-7B), or one at the end (ReasonFlux-PRM-1.5B)?
    architectures = common.load_config(args.prm).architectures or ()
    load = load_step_prm if "Qwen2ForProcessRewardModel" in architectures else load_final_prm
    verifier = load(args)
    for run in args.runs:
        score_rollouts(Path(run), f"prm.{common.model_name({'model': args.prm})}", verifier, {})


def load_final_prm(args):
    """A causal model with a linear head, reward_head.pt, on the last state of a plain text."""
    from transformers.utils import cached_file

    with common.loading(args.prm) as options:
        weights = common.load_pt(cached_file(args.prm, "reward_head.pt", **options))
        model, tokenizer = common.load_model(args.prm, args.device)
        head = torch.nn.Linear(model.config.hidden_size, 1, device=model.device)
        head.load_state_dict(weights)

    def write(problem, answer):
        return tokenizer(f"{problem['prompt']}\n{answer}")["input_ids"]

    def judge(ids):
        return head(states_of(model, ids)[-1].float())

    return Verifier(model, partial(fit_answer, model, tokenizer, PRM_TOKENS, write), judge)


def load_step_prm(args):
    """Qwen2 with a two-layer head at the mark behind each paragraph: the mean probability to be good."""
    from transformers import AutoTokenizer, Qwen2Model, Qwen2PreTrainedModel

    class StepRewardModel(Qwen2PreTrainedModel):
        def __init__(self, config):
            super().__init__(config)
            width = config.hidden_size
            linear = torch.nn.Linear
            self.model = Qwen2Model(config)
            self.score = torch.nn.Sequential(linear(width, width), torch.nn.ReLU(), linear(width, 2))
            self.post_init()

    device = common.pick_device(args.device)
    dtype = common.pick_dtype("auto", device)
    with common.loading(args.prm):
        tokenizer = AutoTokenizer.from_pretrained(args.prm)
        model, loaded = StepRewardModel.from_pretrained(args.prm, dtype=dtype, output_loading_info=True)
    if loaded["missing_keys"]:
        common.die(f"--prm {args.prm}: its files lack {', '.join(sorted(loaded['missing_keys'])[:3])}")
    model.to(device).eval().score.float()
    mark = tokenizer.convert_tokens_to_ids(STEP_END)

    def write(problem, answer):
        steps = [step for step in answer.replace(STEP_END, "").split("\n\n") if step.strip()] or [""]
        answer = "".join(step + STEP_END for step in steps)
        messages = [{"role": "user", "content": problem["prompt"]}, {"role": "assistant", "content": answer}]
        return tokenizer.apply_chat_template(messages, return_dict=True)["input_ids"]

    def judge(ids):
        steps = states_of(model, ids)[torch.tensor(ids) == mark].float()
        return model.score(steps).softmax(-1)[:, 1].mean().double().logit(eps=1e-9)  # finite also at 1

    return Verifier(model, partial(fit_answer, model, tokenizer, PRM_TOKENS, write), judge)


# ---- Domain routing: the model that answers also says whether a problem is one of maths or of code ---------

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
        problems = common.read_jsonl(run / "problems.jsonl", needs=("id", "kind", "prompt"))
        domains = {}  # id of a problem -> the likelier of the two words as the model's answer
        for row in problems:
            with torch.inference_mode():
                logits = next_logits(model, direct_prompt(tokenizer, ROUTER.format(problem=row["prompt"])))
            domains[row["id"]] = DOMAINS[logits[words].argmax()]
        right = [domains[row["id"]] == row["kind"] for row in problems if row["kind"] in DOMAINS]
        print(f"{run}: domains right %: {percent(mean_of(right))} ({sum(right)}/{len(right)})")
        for file in (run / "scores").glob("routed@*"):
            file.unlink()  # of an earlier call, which may have had more scorers
        for i, (math_path, code_path) in enumerate(zip(args.math, args.code)):
            keys, math_logits = common.score_run(scorers[math_path], run, math_path)
            _, code_logits = common.score_run(scorers[code_path], run, code_path)
            is_math = torch.tensor([domains[id] == "math" for id, _ in keys])
            logits = torch.where(is_math, math_logits, code_logits)
            columns = zip(keys, logits.tolist(), logits.sigmoid().tolist())
            rows = [{"id": key[0], "sample": key[1], "score": score, "p": p} for key, score, p in columns]
            common.write_jsonl(run / "scores" / f"routed@{i}.jsonl", rows)


# ---- The command line --------------------------------------------------------------------------------------

COMMANDS = {"report": report, "lora": lora, "prm": prm, "route": route}


def main():
    command, args = parse_args(sys.argv[1:])
    COMMANDS[command](args)


def parse_args(words):
    """(command, its arguments). The first word names the command; otherwise it is `report`."""
    command = words[0] if words and words[0] in COMMANDS else "report"
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(f"05_baselines.py {command}", description=__doc__, formatter_class=raw)
    add = parser.add_argument
    if command == "lora":
        add("run", metavar="RUN_CAL", help="labelled run to learn from; keeps the adapters, lora@SEED.pt")
        add("--eval", nargs="+", metavar="RUN", default=[], help="runs of the same model to score")
        add("--seed", type=int, nargs="+", default=[32], help="one verifier each; the paper: 32 42 52")
        add("--epochs", type=one_or_more, default=1, help="the paper: 6 for small sets (%(default)s)")
        add("--lr", type=float, default=2e-5, help="highest rate; tiny models need more (%(default)s)")
    else:
        add("runs", nargs="+", metavar="RUN", help="run folders, labelled for the report")
    if command == "report":
        add("--out", help="folder of the report (default: the run, or what the runs have in common)")
        add("--only", nargs="+", default=[], metavar="NAME", help="score files, or methods (names up to the "
            "@), that are rows (default: all in scores/)")  # fmt: skip
        add("--study", action="append", default=[], choices=STUDIES, help="also this study; may be repeated")
        add("--plots", action="store_true", help="also PNG figures; needs matplotlib")
    if command == "prm":
        add("--prm", required=True, help="Hub id or folder: reward_head.pt, or Qwen2ForProcessRewardModel")
    if command == "route":
        for domain in DOMAINS:
            add(f"--{domain}", nargs="+", required=True, help=f"scorers calibrated on {domain}, one a seed")
    if command in ("lora", "route"):
        add("--model", help="the runs' model, if no longer where meta.json says")
    if command != "report":
        add("--device", help="cpu, cuda, cuda:1, mps (default: the GPU if there is one)")
    return command, parser.parse_args(words[1:] if words[:1] == [command] else words)


def one_or_more(text):
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"give a whole number, 1 or more, not {text!r}")
    return int(text)


if __name__ == "__main__":
    kept = "written scores and adapters are kept, a report is written at its end; the same command resumes"
    common.entry(main, kept)
