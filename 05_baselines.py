"""Compare every way to pick an answer on the same labelled rollouts.

    python 05_baselines.py RUN ... --out DIR        the report: all methods
    python 05_baselines.py RUN ... --study layers   also a study of 03
    python 05_baselines.py lora RUN_CAL --eval RUN  the model learns to judge
    python 05_baselines.py prm RUN --prm NAME       a process reward model
    python 05_baselines.py route RUN --math M.pt --code C.pt
                                                    by each problem's domain
    python 05_baselines.py paper results.json ...   all tables of the paper

The report compares the scores in RUN/scores/*.jsonl, also your own: a file with
a line {"id", "sample", "score"} for each rollout, where a higher score is
better. With a "weight" from 0 to 1 it also votes; a "p" from 0 to 1 is compared
with the share of answers that are right. Files METHOD.CALSET@CALRUN-SEED.jsonl
are one method: its row is the mean over evaluation runs, calibration runs and
scorer seeds, ± the standard deviation (ddof=1). A labelled run in a folder
`greedy` beside RUN is a row, too.
"""

from __future__ import annotations  # the annotations name numpy, which is imported when it is first used

import argparse
import importlib.util
import itertools
import json
import math
import os
import re
import shlex
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache, lru_cache, partial
from pathlib import Path

import common
from common import RULES, STUDIES, np, torch

# ==== Page one: the report. Runs become arrays, methods pick, picks become rows, rows become tables ========

SUBSETS = 128  # where a problem has more subsets of n rollouts, votes are averaged over so many random ones
DRAWS = 10_000  # of the bootstrap
DRAWING_SEED = 0  # of the random subsets and of the bootstrap
SIZES = (1, 2, 4, 8, 12, 16, 32, 64, 128)  # numbers of rollouts at which accuracy is shown

PAPERS_STATISTICS = ("mean", "median", "variance", "gap", "entropy")
CHOSEN_RULE = "the rule best on the calibration problems"
BEST_OF_ALL = f"best of all {len(RULES)} rules"
PAPERS_BEST = "best of the paper's 20 rules"
COSTS = {  # field of NAME.cost.json: (column, unit)
    "parameters": ("parameters", 1), "train_seconds": ("training: processor min", 60),
    "clock_seconds": ("min by the clock", 60), "train_flops": ("TFLOPs", 1e12),
    "trials": ("configurations", 1), "examples": ("rollouts learned from", 1),
    "ms_per_rollout": ("scoring: ms a rollout", 1),
}  # fmt: skip
NAMES = {  # of methods in the tables, by METHOD up to its first dot
    "logistic": "logistic regression", "lora": "LoRA verifier", "prm": "PRM",
    "routed": "SCaTR, routed by domain", "scatr": "SCaTR", "scatr+": "SCaTR+",
}  # fmt: skip
CALIBRATED = ("logistic", "lora", "routed", "scatr", "scatr+")  # their dot is followed by the calibration set
STUDY_METHOD = re.compile(rf"({'|'.join(STUDIES)})-(\.?[^.]+)\.(.+)")  # STUDY-ROW.CALSET

# ---- Runs: labelled rollouts and their scores as arrays ----------------------------------------------------


@dataclass(eq=False)  # hashed by identity, because its random subsets are cached
class RunArrays:
    """Arrays are [P problems, N rollouts]; of a problem with fewer rollouts the end of the row is empty."""

    path: Path
    meta: dict
    rollouts: list  # of all problems, in the order of rollouts.jsonl, without the responses
    ids: list  # of the P problems
    families: list  # of the P problems; one that names none is its own
    places: np.ndarray  # of the rollouts in rollouts.jsonl; past its end where empty
    present: np.ndarray  # False where empty
    labels: np.ndarray  # 0 where `judged` is False
    judged: np.ndarray  # False where empty, too
    cut: np.ndarray  # 1 where the rollout ended at the length limit
    answer_groups: np.ndarray  # equal answers of a problem have the same number; -1: no answer
    answers: list  # the rows of answers.jsonl, 04's one answer a problem


@dataclass
class Scores:
    """What a file in scores/, or a confidence rule, says of each rollout of a run."""

    run: RunArrays
    score: np.ndarray | None = None  # [P, N], higher is better, -inf where empty
    weight: np.ndarray | None = None  # [P, N], from 0 to 1: the votes, where the file has them
    p: np.ndarray | None = None  # [P, N]: the probability to be right, where the file has it
    calibration_run: str = ""
    seed: str = ""
    cost: dict = field(default_factory=dict)  # NAME.cost.json
    excluded: set = frozenset()  # problems that do not count for this method, see evaluate_study


@dataclass
class Method:
    """What was measured of a way to pick. Its fields but `right` are those of a row of results.json."""

    method: str  # its name in the tables
    kind: str  # random, greedy, confidence, scorer, vote, choice or oracle
    calibration: str  # the data set that it learned from, or ""
    problems: float  # how many it is judged on
    unjudged: float  # how many are left out, because what it picks has no label
    correct: float  # picks of all N rollouts that are right, expected
    accuracy: float  # their share: the mean of `runs` values, one for each of a method's Scores
    std: float | None
    runs: int
    over: str  # what varies, as "3 eval × 3 cal × 3 seeds"
    curve: dict  # {number of rollouts: accuracy}
    curve_std: list | None
    cut: float  # the share of picks that ended at the length limit
    in_sample: bool  # it learned from some of these problems
    right: np.ndarray | None = None  # [P], the chance that its pick of all rollouts is right; NaN: not judged
    auroc: float | None = None  # within a problem, the mean over problems
    reliability: dict | None = None  # how good a probability its p is, see measure_reliability
    cost: dict | None = None  # {one of COSTS: mean}, and the devices
    domains_right: float | None = None  # by routing: the share of problems that went to their kind's scorer
    # Beside the other methods, see `compare`
    best_of: list = field(default_factory=list)  # PAPERS_BEST and BEST_OF_ALL, if it is that rule
    against: dict = field(default_factory=dict)  # {PAPERS_BEST or BEST_OF_ALL: how far it is above that rule}


def load_repetitions(paths: list[Path]) -> tuple[list[RunArrays], RunArrays | None, set]:
    """Load runs of one model and data set -> (runs, the greedy run beside them or None, ids excluded).

    A problem without a judged rollout in one of the runs is excluded from all of them. A greedy run of other
    problems is not read.
    """
    texts = [*common.texts_of(paths[0]).items()]
    greedy_paths = [path for path in greedy_beside(paths[0]) if [*common.texts_of(path).items()] == texts]
    labels = {path: common.read_labels(path) for path in [*paths, *greedy_paths]}
    excluded = set()
    for rows in map(labels.get, paths):
        excluded |= {row["id"] for row in rows} - {row["id"] for row in rows if row["label"] is not None}
    runs = [load_arrays(path, labels[path], excluded) for path in paths]
    for run in runs:
        is_alike = (run.ids, run.meta.get("n")) == (runs[0].ids, runs[0].meta.get("n"))
        if not is_alike or [*common.texts_of(run.path).items()] != texts:
            common.die(f"{run.path} has other problems or another N than {runs[0].path}; report them apart")
    greedy = [load_arrays(path, labels[path], excluded) for path in greedy_paths]
    return runs, greedy[0] if greedy else None, excluded


def greedy_beside(run):
    """Return [the labelled greedy run beside a run], or [] if there is none."""
    return [file.parent for file in run.resolve().parent.glob("greedy/labels.jsonl")]


def load_arrays(path, label_rows, excluded):
    rollouts = []
    for row in common.each_rollout(path):
        del row["response"]  # the texts of several runs may not fit into memory
        rollouts.append(row)
    problems = common.check_same_problems(path, rollouts)
    keys = common.keys_of(rollouts)
    label_rows = common.align(label_rows, keys, path / "labels.jsonl")
    places = defaultdict(list)
    for place, row in enumerate(label_rows):
        if row["id"] not in excluded:
            places[row["id"]].append(place)
    if not places:
        common.die(f"{path}: no answer has a label; 05 needs labelled runs (04 selects without)")
    ids = [*places]
    places = np.array([*itertools.zip_longest(*places.values(), fillvalue=len(keys))]).T
    groups = [-1 if row.get("group") is None else row["group"] for row in label_rows]
    return RunArrays(
        path, common.read_meta(path), rollouts, ids,
        families=[problems[id].get("family", id) for id in ids],
        places=places, present=places < len(keys),
        labels=as_grid([row["label"] or 0 for row in label_rows], places),
        judged=as_grid([row["label"] is not None for row in label_rows], places) > 0,
        cut=as_grid([row.get("finish") == "length" for row in rollouts], places),
        answer_groups=as_grid(groups, places, empty=-1).astype(int),
        answers=read_choices(path),
    )  # fmt: skip


def read_choices(run):
    """The rows of answers.jsonl; none where what picked them has changed since."""
    file = run / "answers.jsonl"
    rows = common.read_jsonl(file) if file.is_file() else []
    costs = costs_of_answers(run, rows)
    return [] if costs and all(map(changed_since, costs)) else rows


def costs_of_answers(run, rows):
    """The contents of NAME.cost.json of each seed of the scorer that picked, also of one not in --only."""
    scorers = {row.get("scorer") for row in rows}
    files = sorted((run / "scores").glob("*.jsonl"))
    return [read_cost(file) for file in files if file.stem.partition("@")[0] in scorers]


def as_grid(values, places, empty=0.0):
    """The values of all rollouts as [P, N], with `empty` where a problem has fewer than N."""
    return np.array([*values, empty], dtype=float)[places]


def score_by_rules(runs: list[RunArrays]) -> dict[str, list[Scores]]:
    """{rule: [Scores of each run]}"""
    by_rule = defaultdict(list)
    for run in runs:
        conf = [values for _, values in common.with_confidence(run.path, run.rollouts)]
        for rule in RULES:
            scores = common.scores_by_rule([each[rule] for each in conf], rule)
            by_rule[rule].append(Scores(run, as_grid(scores, run.places, -np.inf)))
    return by_rule


def read_all_scores(runs: list[RunArrays], only: list, studies: list) -> tuple[dict, dict]:
    """({METHOD: its Scores}, {name of a file that is not read: why})

    A file may be in one run alone if it is of the calibration run with that name: LoRA reads every rollout
    once a file, so that crossing all runs would take as many times as long.
    """
    found = defaultdict(list)  # name of a file -> its Scores in each run
    not_read = {}
    for run in runs:
        for file in sorted((run.path / "scores").glob("*.jsonl")):
            method = file.stem.partition("@")[0]
            if study_of(method) not in (None, *studies):
                continue
            cost = read_cost(file)
            changed = changed_since(cost)
            names = {file.stem, method}  # which may have brackets of their own
            is_named = names & {*only} or any(fnmatchcase(name, one) for name in names for one in only)
            if only and not is_named:
                not_read[file.stem] = "not in --only"
            elif changed:
                not_read[file.stem] = f"{changed[0]} has changed since"
            else:
                found[file.stem].append(read_scores(file, run, cost))
    methods = defaultdict(list)
    for name, scores in found.items():
        is_of_own_run = len(scores) == 1 and scores[0].calibration_run == scores[0].run.path.name
        if len(scores) == len(runs) or is_of_own_run:
            methods[name.partition("@")[0]] += scores
        else:
            not_read.setdefault(name, "not in every run")
    return methods, not_read


def read_cost(file):
    """The content of NAME.cost.json beside NAME.jsonl."""
    cost_file = file.with_suffix(".cost.json")
    return common.read_json(cost_file) if cost_file.is_file() else {}


def changed_since(cost):
    """The files that scores were made of and that are others now."""
    return [path for path, stamp in cost.get("made_of", {}).items() if is_changed(path, stamp)]


@cache
def is_changed(path, stamp):
    """Has a source of scores changed? Not if it is gone, as where a run was moved."""
    return os.path.isfile(path) and common.stamp(Path(path)) != stamp


def study_of(method):
    """The study that a scorer of this name belongs to, or None."""
    found = STUDY_METHOD.fullmatch(method)
    return found and found[1]


def read_scores(file, run, cost):
    rows = common.read_jsonl(file, needs=("id", "sample", "score"))
    rows = common.align(rows, common.keys_of(run.rollouts), file)
    try:
        score = as_grid([float(row["score"]) for row in rows], run.places, -np.inf)
        shares = {}  # from 0 to 1
        for name in ("weight", "p"):
            if all(row.get(name) is not None for row in rows):
                shares[name] = as_grid([float(row[name]) for row in rows], run.places)
        if np.isnan(score).any() or not all(0 <= x.min() <= x.max() <= 1 for x in shares.values()):
            raise ValueError
    except (TypeError, ValueError):
        common.die(f"{file}: a score is a number, and weight and p are numbers from 0 to 1, or absent")
    calibration_run, _, seed = file.stem.partition("@")[2].rpartition("-")
    return Scores(run, score, **shares, calibration_run=calibration_run, seed=seed, cost=cost)


# ---- Picks: pick(scores, n) gives the chance [P, N] of each rollout to be what a method picks from n random
# rollouts of its problem


def at_random(scores, n):
    return scores.run.present / scores.run.present.sum(1, keepdims=True)


def by_score(scores, n):
    """The highest score, of equal ones the lowest sample number: exact over all subsets."""
    chances = np.zeros(scores.score.shape)  # of the r-th best rollout of each problem
    for i, total in enumerate(scores.run.present.sum(1)):
        chances[i, :total] = first_of_subset(total, n)
    best_first = np.argsort(-scores.score, 1, kind="stable")
    ranks = np.argsort(best_first, 1)
    return np.take_along_axis(chances, ranks, 1)


@cache
def first_of_subset(total, n):
    """[total]: the chance that the r-th best of `total` is the best of a random n-subset (r from 0)."""
    n = min(n, total)
    return np.array([math.comb(total - 1 - r, n - 1) / math.comb(total, n) for r in range(total)])


def by_vote(vote, scores, n):
    """The mean over subsets of vote(groups, weights), both [P, n], which gives the shares in a pick."""
    run = scores.run
    weights = np.where(run.present, scores.score if scores.weight is None else scores.weight, 0)
    subsets = subsets_of(run, n)
    problems = np.arange(len(run.ids))[:, None]
    chances = np.zeros(run.present.shape)
    for columns in subsets:
        shares = vote(run.answer_groups[problems, columns], weights[problems, columns])
        chances[problems, columns] += shares / len(subsets)
    return chances


def majority(groups, weights):
    """Tied answers share the credit, as do the rollouts of each; without an answer nothing is picked."""
    totals = common.group_totals(groups, np.ones(groups.shape))
    winners = (groups >= 0) & (totals == totals.max(1, keepdims=True))
    return winners / np.maximum(winners.sum(1, keepdims=True), 1)


def weighted_majority(groups, weights):
    winner = common.weighted_vote(groups, weights, weights)[:, 0]
    return winner[:, None] == np.arange(groups.shape[1])


VOTES = {  # name: vote(groups, weights) as in by_vote; the weights are of the confidence rule VOTES_BY
    "majority vote": majority,
    "confidence-weighted vote": weighted_majority,
}
VOTES_BY = "mean/tail"


@lru_cache(maxsize=64)
def subsets_of(run, n):
    """[S, P, n] columns: all subsets or, if these are more, SUBSETS random ones, the same for every vote."""
    problems, largest = run.labels.shape
    if n >= largest or (run.present.all() and math.comb(largest, n) < SUBSETS):
        subsets = np.array([*itertools.combinations(range(largest), min(n, largest))])
        return np.broadcast_to(subsets[:, None], (len(subsets), problems, subsets.shape[1]))
    noise = np.random.default_rng(DRAWING_SEED).random((SUBSETS, problems, largest))
    noise = np.where(run.present, noise, 2)  # what is empty is drawn last
    return np.sort(np.argsort(noise, -1)[:, :, :n], -1)


# ---- Methods: what is measured of each ---------------------------------------------------------------------


def make_rows(runs: list[RunArrays], greedy, by_rule: dict, by_scorer: dict) -> list[Method]:
    """The rows of all methods, in the order of the tables."""
    without = [Scores(run) for run in runs]
    rows = [measure("random", "random", at_random, without)]
    if greedy:
        rows.append(measure("greedy", "greedy", at_random, [Scores(greedy)]))
    rows += [measure(rule, "confidence", by_score, scores) for rule, scores in by_rule.items()]
    can_vote = all((run.answer_groups >= 0).any() for run in runs)  # else answers cannot be equal
    votes = []
    for name, vote in VOTES.items() if can_vote else ():
        votes.append(measure(name, "vote", partial(by_vote, vote), by_rule[VOTES_BY]))
    scorers = [(*name_scorer(key), by_scorer[key]) for key in by_scorer if not study_of(key)]
    for calibration, scores in score_by_best_rules(scorers, by_rule).items():
        rows.append(measure(CHOSEN_RULE, "choice", by_score, scores, calibration))
    for name, calibration, scores in sorted(scorers, key=lambda scorer: (scorer[0].lower(), scorer[1])):
        rows.append(measure(name, "scorer", by_score, scores, calibration))
        if can_vote and all(each.weight is not None for each in scores):
            vote = partial(by_vote, weighted_majority)
            votes.append(measure(f"{name}, weighted vote", "vote", vote, scores, calibration))
    rows += votes
    if all({row["id"] for row in run.answers} >= {*run.ids} for run in runs):
        rows.append(row_of_answers(runs))
    truth = [Scores(run, run.labels - ~run.judged) for run in runs]
    return [*rows, measure("oracle", "oracle", by_score, truth)]


def score_by_best_rules(scorers, by_rule):
    """Return {calibration set: Scores by the rule that is best on each of its runs}, as scorers say it."""
    found = defaultdict(dict)
    for _, calibration, of_method in scorers:
        for scores in of_method:
            rule = scores.cost.get("best_rule")
            if rule in by_rule:
                (of_rule,) = [each for each in by_rule[rule] if each.run is scores.run]
                cost = {"learned": scores.cost.get("learned")}
                by_best = replace(of_rule, calibration_run=scores.calibration_run, cost=cost)
                found[calibration][scores.run.path, scores.calibration_run] = by_best
    return {calibration: [*of_places.values()] for calibration, of_places in found.items()}


def row_of_answers(runs):
    """Measure what stands in answers.jsonl."""
    of_answers = []
    for run in runs:
        answers = {*common.keys_of(run.answers)}
        chosen = as_grid([key in answers for key in common.keys_of(run.rollouts)], run.places)
        gone = {run.ids[place] for place in np.flatnonzero(chosen.sum(1) == 0)}
        of_answers.append(Scores(run, chosen, excluded=gone))
    scorers = {row.get("scorer") or "" for run in runs for row in run.answers}
    calibration = "+".join(sorted({name_scorer(name)[1] for name in scorers}))
    n = max(run.labels.shape[1] for run in runs)
    row = measure("answers.jsonl, 04's choice", "choice", by_score, of_answers, calibration, sizes=[n])
    costs = [cost for run in runs for cost in costs_of_answers(run.path, run.answers)]
    row.in_sample = any(cost.get("learned") for cost in costs)
    return row


def name_scorer(key):
    """(name in the tables, calibration set) of the scorer whose files' names begin with `key`, up to the @"""
    family, _, suffix = key.partition(".")
    name = NAMES.get(family, family)
    if family in CALIBRATED:
        return name, suffix
    return f"{name} ({suffix})" if suffix else name, ""


def measure(name, kind, pick, of_method, calibration="", sizes=None):
    """Measure a pick (see Picks) by its Scores of each evaluation run, calibration run and scorer seed."""
    largest = max(scores.run.labels.shape[1] for scores in of_method)
    sizes = sizes or [n for n in SIZES if n < largest] + [largest]
    credits = []  # [scores, sizes, P]
    cut = []
    for scores in of_method:
        picks = [pick(scores, n) for n in sizes]
        credits.append([credit_of(scores, chances) for chances in picks])
        if np.isnan(credits[-1][-1]).all():
            common.die(f"{scores.run.path}: nothing that {name} picks has a label; labels.jsonl says why")
        cut.append((scores.run.cut * picks[-1]).sum(1)[counted(scores)].mean())
    accuracies = np.nanmean(credits, 2)  # [scores, sizes]
    curve = accuracies.mean(0).tolist()
    right = np.ma.masked_invalid([of_sizes[-1] for of_sizes in credits])  # [scores, P]
    problems = mean_of(right.count(1))
    right = right.mean(0).filled(np.nan)
    row = Method(
        method=name, kind=kind, calibration=calibration, problems=problems,
        unjudged=mean_of(counted(scores).sum() for scores in of_method) - problems,
        correct=float(np.nansum(right)), right=right,
        accuracy=curve[-1], std=std_of(accuracies[:, -1]),
        runs=len(accuracies), over=name_varied(of_method),
        curve=dict(zip(map(str, sizes), curve)), curve_std=std_of(accuracies),
        cut=mean_of(cut),
        in_sample=any({*(scores.cost.get("learned") or ())} - scores.excluded for scores in of_method),
        domains_right=mean_of(scores.cost.get("domains_right") for scores in of_method),
    )  # fmt: skip
    if kind in ("confidence", "scorer"):
        row.auroc = mean_of(map(auroc_within, of_method))
    if kind == "scorer":
        row.reliability = measure_reliability(of_method)
        row.cost = cost_of(of_method)
    return row


def credit_of(scores, chances):
    """Return [P]: the chance of a pick with a label to be right; NaN without one, or if it does not count."""
    right = (scores.run.labels * chances).sum(1)
    judged = 1 - (~scores.run.judged * chances).sum(1)  # or nothing is picked, which is wrong
    is_judged = counted(scores) & (judged > 1e-9)
    return np.divide(right, judged, out=np.full(len(right), np.nan), where=is_judged)


def counted(scores):
    """Return bool [P]: which problems count for a method."""
    return np.array([problem not in scores.excluded for problem in scores.run.ids])


def name_varied(of_method):
    """Return what varies, such as "3 eval × 2 cal × 3 seeds"."""
    sources = zip(*((scores.run.path, scores.calibration_run, scores.seed) for scores in of_method))
    counts = dict(zip(("eval", "cal", "seeds"), [len({*values}) for values in sources]))
    varied = " × ".join(f"{count} {name}" for name, count in counts.items() if count > 1)
    return varied if math.prod(counts.values()) == len(of_method) else f"{len(of_method)} of {varied}"


def std_of(values):
    return np.std(values, 0, ddof=1).tolist() if len(values) > 1 else None


def mean_of(values):
    """Return the mean of the values that are not None, or None without one."""
    values = [value for value in values if value is not None]
    return float(np.mean(values)) if values else None


def auroc_within(scores):
    """The mean over problems of the AUROC of a problem's rollouts."""
    rows = scores.run.judged & counted(scores)[:, None]
    right = scores.run.labels > 0
    return mean_of(auroc(right[i][rows[i]], scores.score[i][rows[i]]) for i in range(len(rows)))


def auroc(right: np.ndarray, scores: np.ndarray) -> float | None:
    """The chance that a right answer (bool [R]) scores above a wrong one, ties half; None with one class."""
    if right.all() or not right.any():
        return None
    wrong = np.sort(scores[~right])
    below, up_to = (np.searchsorted(wrong, scores[right], side) for side in ("left", "right"))
    return float((below + up_to).mean() / 2 / len(wrong))


def measure_reliability(of_method):
    """How far p, of all Scores together, is from the share of answers that are right; None without p.

    tenths: (mean p, share that is right) of each tenth of the answers, from the smallest p to the largest;
    off: the mean distance of the two; brier: the mean of (p - label)²; picked: the mean p of the best of N.
    """
    if any(scores.p is None for scores in of_method):
        return None
    p = np.concatenate([scores.p[scores.run.judged] for scores in of_method])
    right = np.concatenate([scores.run.labels[scores.run.judged] for scores in of_method])
    picked = [(scores.p * by_score(scores, scores.p.shape[1])).sum(1).mean() for scores in of_method]
    by_p = np.array_split(np.argsort(p, kind="stable"), min(10, len(p)))
    tenths = [(float(p[rows].mean()), float(right[rows].mean())) for rows in by_p]
    off = mean_of(abs(mean - share) for mean, share in tenths)
    return {"tenths": tenths, "off": off, "brier": mean_of((p - right) ** 2), "picked": mean_of(picked)}


def cost_of(of_method):
    """What a method cost on average; None where no file says."""
    costs = [scores.cost for scores in of_method if not COSTS.keys().isdisjoint(scores.cost)]
    if not costs:
        return None
    mean = {name: mean_of(cost.get(name) for cost in costs) for name in COSTS}
    for name in ("train_device", "device"):
        mean[name] = ", ".join(sorted({cost[name] for cost in costs if cost.get(name)}))
    return mean


# ---- Comparison: Δ to the best confidence rule, and the share of the gap to the oracle that is closed ------


def compare(rows: list[Method], families: list):
    """Add `against` to all rows: how far each is above the rules that are best, chosen with hindsight."""
    (oracle,) = [row for row in rows if row.kind == "oracle"]
    by_rule = {row.method: row for row in rows if row.kind == "confidence"}
    papers = {rule: row for rule, row in by_rule.items() if rule.split("/")[0] in PAPERS_STATISTICS}
    for reference, rules in {PAPERS_BEST: papers, BEST_OF_ALL: by_rule}.items():
        best = max(rules.values(), key=lambda row: row.accuracy)
        best.best_of.append(reference)
        gap = oracle.accuracy - best.accuracy
        for row in rows:
            gain = with_interval(row.right - best.right, families)
            too_small = gap * row.problems < 2  # a gap of less than two problems is noise
            row.against[reference] = gain | {"gap_closed": None if too_small else gain["delta"] / gap}


def with_interval(difference: np.ndarray, families: list) -> dict:
    """The mean of paired differences [P], with a 95 % bootstrap interval over families; NaN: not judged."""
    is_judged = np.isfinite(difference)
    difference = difference[is_judged]
    _, family = np.unique(np.array(families)[is_judged], return_inverse=True)
    sizes = np.bincount(family)
    drawn = family_draws(len(sizes))
    low, high = np.percentile(drawn @ np.bincount(family, difference) / (drawn @ sizes), [2.5, 97.5])
    return {"delta": float(difference.mean()), "low": float(low), "high": float(high)}


@lru_cache(maxsize=4)
def family_draws(n):
    """float [DRAWS, n]: how often each of n families is drawn."""
    return np.random.default_rng(DRAWING_SEED).multinomial(n, [1 / n] * n, DRAWS).astype(float)


# ---- Studies: scorers of 03 --study, which differ in one thing ---------------------------------------------


def evaluate_study(study, runs, by_scorer):
    """Return the rows of a study. What a scorer learned from is excluded from all rows of that seed."""
    keys = sorted(key for key in by_scorer if study_of(key) == study)
    learned = defaultdict(set)  # scorer seed -> ids of problems
    for scores in itertools.chain(*(by_scorer[key] for key in keys)):
        learned[scores.seed].update(scores.cost.get("learned") or [])
    rows = []
    for key in keys:
        _, name, calibration = STUDY_METHOD.fullmatch(key).groups()
        if study == "halves" and name == "other":  # the paper's row is of all problems
            rows.append(measure("other, all problems", "scorer", by_score, by_scorer[key], calibration))
            if not any(learned.values()):  # without a scorer of the half there is no other half
                continue
        for scores in by_scorer[key]:
            scores.excluded = learned[scores.seed]
            if not counted(scores).any():
                common.die(f"{scores.run.path}: the scorers of --study {study} learned from all its problems")
        rows.append(measure(name, "scorer", by_score, by_scorer[key], calibration))
    return sorted(rows, key=lambda row: [float(number) for number in re.findall(r"\.?\d+", row.method)])


# ---- Tables: rows {column: cell} ---------------------------------------------------------------------------

SUMMARY_COLUMNS = 4  # as many as fit beside each other
SUMMARY_VOTES = (*VOTES, "SCaTR, weighted vote", "SCaTR+, weighted vote")


def as_table(rows):
    """Return a table of {column: cell} rows, without the columns that are empty in all of them."""
    rows = [*rows]
    header = [*dict.fromkeys(name for row in rows for name in row if row[name] is not None)]
    return common.table(header, [[row.get(column) for column in header] for row in rows])


def as_percent(value, digits=1, sign=""):
    """Return 0.123 as 12.3; what is added makes no number "-0.0"."""
    return None if value is None else f"{round(100 * value, digits) + 0.0:{sign}.{digits}f}"


def percent_and_std(mean, std):
    return as_percent(mean) if std is None else f"{as_percent(mean)} ± {as_percent(std)}"


def accuracy_of(row):
    in_sample = " in sample" if row.in_sample else ""
    return percent_and_std(row.accuracy, row.std) + in_sample


def accuracy_with(n, row):
    """Return the accuracy with n rollouts a problem; n is a text, as in `row.curve`."""
    if n not in row.curve:
        return f"N < {n}"
    stds = dict(zip(row.curve, row.curve_std or ()))
    return percent_and_std(row.curve[n], stds.get(n))


def gap_closed(row):
    return as_percent(row.against[PAPERS_BEST]["gap_closed"]) or "gap too small"


def domains_right(row):
    return as_percent(row.domains_right)


def three_digits(value, unit=1):
    """Return a value in three digits; from a hundred on, none after the point."""
    if value is None:
        return None
    return f"{value / unit:,.0f}" if value >= 100 * unit else f"{value / unit:.3g}"


def summary_tables(sections):
    """A row for each method, a column for each calibration and test set."""
    columns = []
    for section in sections:
        for calibration in calibrations_of(section):
            title = " → ".join(filter(None, [calibration, section["dataset"]]))
            if len({section["model"] for section in sections}) > 1:
                title = f"{section['model']}: {title}"
            cells = {name: accuracy_of(row) for name, row in summary_rows(section, calibration).items()}
            columns.append({"picked by": title} | cells | {"cut %": as_percent(section["cut"])})
    names = [*dict.fromkeys(name for cells in columns for name in [*cells][:-2]), "oracle", "cut %"]
    for i in range(0, len(columns), SUMMARY_COLUMNS):
        several = columns[i : i + SUMMARY_COLUMNS]
        header, *rows = [[name, *(cells.get(name) for cells in several)] for name in names]
        yield common.table(header, [row for row in rows if any(row[1:])])


def calibrations_of(section: dict) -> list[str]:
    rows = [row for row in section["rows"] if row.domains_right is None]
    return sorted({row.calibration for row in rows} - {""}) or [""]


def summary_rows(section: dict, calibration: str) -> dict[str, Method]:
    """{name: row} of a calibration set: of the confidence rules the best ones, of the votes SUMMARY_VOTES."""
    rows = {}
    for row in section["rows"]:
        rows |= dict.fromkeys(row.best_of, row)
        is_shown = row.kind != "confidence" and (row.kind != "vote" or row.method in SUMMARY_VOTES)
        is_routed = row.domains_right is not None and calibration in row.calibration.split("+")
        if is_shown and (row.calibration in ("", calibration) or is_routed):
            rows[row.method] = row
    return rows


def shown_rows(section):
    """The rows of all methods, but of the confidence rules only of the best."""
    return [row for row in section["rows"] if row.kind != "confidence" or row.best_of]


def columns_of(row):
    name = ": ".join(filter(None, [" and ".join(row.best_of), row.method]))
    return {"method": name, "calibrated on": row.calibration, "cut %": as_percent(row.cut)}


def methods_table(section):
    for row in shown_rows(section):
        correct = f"{row.correct:.1f}".removesuffix(".0")
        cells = {"accuracy %": accuracy_of(row), "over": row.over}
        cells["right/problems"] = f"{correct}/{row.problems:.0f}"
        cells["not judged"] = three_digits(row.unjudged or None)
        cells["domains right %"] = domains_right(row)
        for best, gain in row.against.items():
            interval = f"[{as_percent(gain['low'])}, {as_percent(gain['high'])}]"
            cells[f"Δ to the {best} [95 %]"] = f"{as_percent(gain['delta'], sign='+')} {interval}"
        cells["closed %"] = gap_closed(row)
        yield columns_of(row) | cells


def curves_table(section):
    for row in shown_rows(section):
        cells = {f"N={n}": accuracy_with(n, row) for n in row.curve}
        cells["AUROC"] = None if row.auroc is None else f"{row.auroc:.3f}"
        yield columns_of(row) | cells | {"over": row.over, "problems": three_digits(row.problems)}


def rules_table(section):
    ways = defaultdict(dict)  # statistic -> {aggregation: row}
    for row in section["rows"]:
        if row.kind == "confidence":
            statistic, way = row.method.split("/")
            ways[statistic][way] = row
    for statistic, rows in ways.items():
        cells = {way: accuracy_of(row) for way, row in rows.items()}
        cut = mean_of(row.cut for row in rows.values())
        yield {"statistic": statistic} | cells | {"cut %": as_percent(cut)}


def reliability_table(section):
    for row in section["rows"]:
        if row.reliability:
            found = row.reliability
            cells = {"p is off by, %": as_percent(found["off"]), "Brier score": three_digits(found["brier"])}
            pairs = {"picked: p → right, %": (found["picked"], row.accuracy)}
            pairs |= {f"tenth {tenth}": pair for tenth, pair in enumerate(found["tenths"], 1)}
            for column, (p, right) in pairs.items():
                cells[column] = f"{as_percent(p, 0)} → {as_percent(right, 0)}"
            yield columns_of(row) | cells


def cost_table(section):
    for row in section["rows"]:
        if row.cost:
            cells = {column: three_digits(row.cost[name], unit) for name, (column, unit) in COSTS.items()}
            cells |= {"trained on": row.cost["train_device"], "scored on": row.cost["device"]}
            yield columns_of(row) | cells | {"accuracy %": accuracy_of(row)}


TABLES = {
    "Methods": methods_table,
    "Fewer rollouts, and AUROC": curves_table,
    "Confidence rules: the paper's five statistics, and two more": rules_table,
    "Is p a probability?": reliability_table,
    "Costs (minutes and ms are measured, FLOPs computed)": cost_table,
}


# ---- The report --------------------------------------------------------------------------------------------

LEGEND = f"""\
## What the names and numbers mean

Confidence rules are statistic/aggregation. The statistics are of each token's ten largest log-probabilities:
`mean` and `median`, negated; `variance`; `gap`, the largest probability minus the second; `entropy` of the
ten, scaled to add up to 1 (low is sure). `self_certainty` is how far the whole distribution is from uniform,
`likelihood` the token's own log-probability. They are aggregated over the tokens: `avg` of all; `tail`, the
last {common.TAIL:,}; `lowest`, the least confident window; `bottom10`, the mean of the means of the least
confident tenth of the windows. Windows are the authors': one ends at each token and holds the last
{common.WINDOW:,} up to it, so that the first ones are shorter.

The best of the paper's 20 rules (five statistics × four aggregations, as we read App. B.2; Sec. 5 names four)
and the best of all {len(RULES)} are chosen with hindsight on these labels; {CHOSEN_RULE}
is of all, without hindsight. `Δ`: points above that rule, and a paired bootstrap interval over problems, or
over families where problems name them. `closed %`: Δ to the paper's as a share of the gap from that rule to
the oracle, where it is two problems or more.

Random, best-of-N and oracle are exact expectations over all subsets of N rollouts; votes are averaged over
128 random subsets where there are more. Tied majorities share the credit. Confidence-weighted votes are by
{VOTES_BY}. `right/problems` counts expected picks. A problem whose picked answer has no label is left out of
that row and counted as `not judged`; in means over subsets, those picks are left out. `cut %`: picks (in the
summary: rollouts) that ended at the length limit. `AUROC`: the chance that a right answer scores above a
wrong one of its problem. `in sample`: the scorer learned from some of these problems, so its accuracy proves
nothing.

± is the standard deviation over what varies (`over`): evaluation runs, calibration runs and scorer seeds, all
crossed: 27 values of 3 each. In the study of halves, `other` and `same` are judged on the half of the
problems that `same` did not learn from; the paper's row of another data set is `other, all problems`.

p is a scorer's probability that an answer is right. A `tenth` of the answers, from the smallest p to the
largest, has its mean p and the share that is right; p is off by the mean distance of the two. The Brier score
is the mean of (p − label)². A search's processor minutes are those of all its trainings, which run side by
side; scoring is timed with one rollout at a time."""


def report(args):
    repetitions = defaultdict(list)  # (model, data set) -> runs
    for path in dict.fromkeys(map(Path, args.runs)):
        meta = common.read_meta(path)
        repetitions[common.model_name(meta["model"]), common.short_name(meta["dataset"])].append(path)
    for paths in repetitions.values():
        common.check_same_model({path: common.read_meta(path) for path in paths})
    sections = [make_section(*names, paths, args) for names, paths in repetitions.items()]
    for study in args.study:
        if not any(section["studies"][study] for section in sections):
            common.warn(f"there are no scores of --study {study}; see 03_train_scorer.py -h")
    out = Path(args.out or os.path.commonpath([*map(os.path.abspath, args.runs)]))
    results = {"command": the_command(), "sets": dict(zip(PAPERS_SETS, args.sets))}
    results["sections"] = [change_rows(section, fields_of) for section in sections]
    common.write_json(out / "results.json", results)
    summary = [*summary_paragraphs(sections)]
    details = [text for section in sections for text in describe(section, out, args.plots)]
    made_by = f"This report was made by\n\n    {the_command()}\n"
    with common.atomic(out / "report.md") as file:
        file.write("\n\n".join(["# Report", *summary, *details, LEGEND, made_by]))
    print(*summary, f"more tables, and what the names and numbers mean: {out / 'report.md'}", sep="\n\n")


def fields_of(row):
    return {name: value for name, value in vars(row).items() if name != "right"}


def change_rows(section, change):
    """The section with change(row) instead of each row."""
    studies = {study: [*map(change, rows)] for study, rows in section["studies"].items()}
    return section | {"rows": [*map(change, section["rows"])], "studies": studies}


def make_section(model, dataset, paths, args):
    """What results.json has of one model and data set."""
    runs, greedy, excluded = load_repetitions(paths)
    by_scorer, not_read = read_all_scores(runs, args.only, args.study)
    studies = {study: evaluate_study(study, runs, by_scorer) for study in args.study}
    rows = make_rows(runs, greedy, score_by_rules(runs), by_scorer)
    compare(rows, runs[0].families)
    n = mean_of(run.present.sum(1).mean() for run in runs)
    title = f"{model} on {dataset}: {len(runs[0].ids)} problems, N={n:.4g}"
    if len(runs) > 1:
        title += f", {len(runs)} runs"
    notes = []
    if unjudged := sum((run.present & ~run.judged).sum() for run in runs):
        notes.append(f"{dataset}: {unjudged} answers have no label: a row leaves out where it picks one")
    for path in greedy_beside(paths[0]) if greedy is None else ():
        notes.append(f"{dataset}: no row for {path}: its problems are others")
    if excluded:
        notes.append(f"{dataset}: {len(excluded)} problems left out of all rows: no answer could be judged")
    for why in sorted({*not_read.values()}):
        names = [name for name in not_read if not_read[name] == why]
        if len(names) > 4:
            names[4:] = [f"{len(names) - 4} more"]
        notes.append(f"{dataset}: no row for {', '.join(names)}: {why}")
    return {
        "title": title, "notes": notes, "model": model, "dataset": dataset,
        "cut": mean_of(run.cut[run.present].mean() for run in runs), "runs": [str(run.path) for run in runs],
        "seeds": sorted({scores.seed for scores in itertools.chain(*by_scorer.values())} - {""}),
        "metas": [run.meta for run in runs], "rows": rows, "studies": studies,
    }  # fmt: skip


def summary_paragraphs(sections):
    """Yield the paragraphs that are printed and that begin report.md."""
    lines = [line for section in sections for line in [section["title"], *section["notes"]]]
    yield "\n".join(f"- {line}" for line in lines)
    yield from summary_tables(sections)
    for section in sections:
        for study, rows in section["studies"].items():
            if rows:
                table = as_table(curves_table({"rows": rows}))
                yield f"Study of {study}: {section['title']}\n\n{table}"


def describe(section, out, plots):
    """Yield the paragraphs of report.md about a section."""
    yield f"## {section['title']}"
    for title, table in TABLES.items():
        rows = [*table(section)]
        if rows:
            yield f"### {title}\n\n{as_table(rows)}"
    if plots:
        for calibration in calibrations_of(section):
            yield draw_accuracy(out, section, calibration)


def the_command():
    return shlex.join(["python", "05_baselines.py", *sys.argv[1:]])


# ---- Figures: a method has one colour in all of them, and a line of its own for prints in grey -------------

LOOKS = {  # what a figure shows, by names of the summary up to a parenthesis: (colour, line, mark)
    "random": ("#888888", ":", ""),
    PAPERS_BEST: ("#e69f00", "--", "s"),
    BEST_OF_ALL: ("#b9770e", "--", "d"),
    "majority vote": ("#56b4e9", "-.", "v"),
    "SCaTR": ("#0072b2", "-", "o"),
    "SCaTR+": ("#882255", "-", "D"),
    "SCaTR, weighted vote": ("#009e73", "-", "^"),
    "LoRA verifier": ("#d55e00", "-.", "P"),
    "PRM": ("#cc79a7", "-.", "X"),
    "oracle": ("#000000", "--", ""),
}
CAPTION = "Accuracy against the number of rollouts. Bands are ± the standard deviation over runs and seeds."


def draw_accuracy(out, section, calibration):
    """Draw the accuracy against N of a calibration set -> the lines of a page that show it."""
    from matplotlib.figure import Figure

    title = " → ".join(filter(None, [calibration, section["dataset"]]))
    figure = Figure(figsize=(5.5, 3.6), layout="constrained")  # inches: the width of a journal's text
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(f"{section['model']}: {title}", loc="left", fontsize=9)
    axes.tick_params(labelsize=7)
    rows = summary_rows(section, calibration)
    for name in sorted(rows, key=lambda name: -rows[name].accuracy):
        look = LOOKS.get(name.partition(" (")[0])
        if look:
            draw_line(axes, name, rows[name], *look)
    sizes = [int(n) for n in rows["oracle"].curve]
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, sizes)
    axes.minorticks_off()
    axes.set_xlabel("rollouts a problem (N)", fontsize=8)
    axes.set_ylabel("right answers, %", fontsize=8)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize=7)
    name = f"accuracy.{section['model']}.{title.replace(' → ', '-to-')}"
    for ending in ("png", "pdf"):
        with common.atomic(out / f"{name}.{ending}", "wb") as file:
            figure.savefig(file, format=ending, dpi=200)
    return f"![{CAPTION}]({name}.png)\n\n{CAPTION} ([PDF]({name}.pdf))"


def draw_line(axes, name, row, colour, line, mark):
    sizes = [int(n) for n in row.curve]
    heights = 100 * np.array([*row.curve.values()])
    label = f"{name}  {heights[-1]:.1f}"
    axes.plot(sizes, heights, line, marker=mark, color=colour, markersize=4, clip_on=False, label=label)
    if row.curve_std:
        std = 100 * np.array(row.curve_std)
        axes.fill_between(sizes, heights - std, heights + std, color=colour, alpha=0.18, linewidth=0)


# ==== Page two: learned verifiers ===========================================================================
# They read one rollout at a time, since a long one fills a GPU.

CHANNEL = "<|channel|>"  # a token of gpt-oss, which others do not have
SAVED = 256  # rollouts after which scores are written; a killed command resumes there


@dataclass
class Verifier:
    """What reads a problem and an answer, and judges."""

    model: object
    encode: callable  # (problem, response) -> token ids
    judge: callable  # token ids -> logit that the answer is right
    is_calibrated: bool = False  # whether it learned how likely this model's answers are right


def score_rollouts(run, name, verifier, cost, *made_of):
    """Write scores/NAME.jsonl and what it cost; scores of the same rollouts by the same files are kept."""
    rollouts = common.read_rollouts(run)
    problems = common.check_same_problems(run, rollouts)
    path = run / "scores" / f"{name}.jsonl"
    model = verifier.model
    origin = origin_of(*made_of, run / "rollouts.jsonl") | {"model_stamp": vars(model).get("model_stamp")}
    cost = cost | {"parameters": model.num_parameters(), "device": common.device_name(model.device)} | origin
    has_begun = path.is_file() and read_cost(path).get("stamp") == origin["stamp"]
    rows = common.read_jsonl(path) if has_begun else []
    left = rollouts[len(rows) :]
    for row in common.progress(left, desc=f"{name} {run}", unit="rollout"):
        started = time.perf_counter()
        ids = verifier.encode(problems[row["id"]], row["response"])
        with torch.inference_mode():
            logit = verifier.judge(ids)
        p = logit.sigmoid().item()
        score = {"score": logit.item(), "weight": p} | ({"p": p} if verifier.is_calibrated else {})
        ms = 1000 * (time.perf_counter() - started)
        rows.append({"id": row["id"], "sample": row["sample"], **score, "ms": ms})
        if len(rows) % SAVED == 0 or len(rows) == len(rollouts):
            common.write_jsonl(path, rows)
            cost["ms_per_rollout"] = mean_of(row["ms"] for row in rows)
            common.write_json(path.with_suffix(".cost.json"), cost)
    print(f"{run}: {len(left)} of {len(rollouts)} rollouts scored by {name}")


def origin_of(*parts):
    """Return what is written beside scores: the command, the stamp of these parts, and those of the files."""
    files = {str(part): common.stamp(part) for part in parts if isinstance(part, Path)}
    return {"command": the_command(), "stamp": common.stamp(*parts), "made_of": files}


def learned_in(run, texts):
    """The problems of a run whose texts are among those that a verifier or scorers learned from."""
    return [problem for problem, text in common.texts_of(run).items() if text in texts]


def states_of(model, ids):
    """The last hidden states [T, d] of a sequence."""
    ids = model.get_input_embeddings().weight.new_tensor([ids], dtype=int)
    return model.base_model(input_ids=ids, use_cache=False).last_hidden_state[0]


def next_logits(model, ids):
    """[vocabulary] at the last position alone: the logits of a long answer would take gigabytes."""
    return model.get_output_embeddings()(states_of(model, ids)[-1]).float()


def fit_answer(model, tokenizer, most, write, problem, answer):
    """Token ids of write(problem, answer) with the answer's last tokens: `most`, or what the context fits."""
    answer = re.sub(r"<\|(?:start|channel)\|>\w*|<\|\w+\|>", " ", answer)  # gpt-oss's channels
    context = common.context_of(model.config)
    room = min(most, context - len(write(problem, "")))
    tokens = tokenizer(answer, add_special_tokens=False)["input_ids"][-room:] if room > 0 else []
    return write(problem, tokenizer.decode(tokens, skip_special_tokens=True))[-context:]


def direct_prompt(tokenizer, question):
    """Token ids of a question whose very next token is the answer: no reasoning before it."""
    chat = {"messages": [{"role": "user", "content": question}]}
    ids = [*common.encode_prompt(tokenizer, chat, thinking=False)]
    skipped = ""
    if CHANNEL in tokenizer.added_tokens_encoder:
        skipped = f"{CHANNEL}final<|message|>"
    elif tokenizer.decode(ids[-16:]).rstrip().endswith("<think>"):
        skipped = "\n</think>\n\n"
    return ids + tokenizer(skipped, add_special_tokens=False)["input_ids"]


def load_model_of(runs, args):
    """The model that made the runs, and its tokenizer."""
    common.check_same_model({run: common.read_meta(run) for run in runs})
    meta = common.read_meta(runs[0])
    revision = None if args.model else meta.get("revision")
    model, tokenizer = common.load_model(args.model or meta["model"], args.device, revision=revision)
    if meta.get("model_stamp") not in (None, model.model_stamp):
        common.die(f"{runs[0]} was made by other weights than {args.model or meta['model']}; give --model")
    if model.config.model_type == "gpt_oss":  # transformers' own keeps all scores: 10 GB a layer at 4,096
        common.use_attention(model, "whole", common.causal_attention)
    return model, tokenizer


# ---- LoRA verifier: the model that made the rollouts learns to say yes or no after them --------------------

RANK, ALPHA, DROPOUT = 16, 32, 0.05
BATCH = 16  # rollouts a step
WARM_UP = 100  # steps to the full learning rate, at most half of all; then a straight line to zero
CLIP = 1.0  # norm of the gradient
LORA_QUESTION = """\
Determine the correctness of the following answer:
Problem: {problem}
Answer: {answer}
Is this answer correct (yes/no)?"""


def lora(args):
    """Train adapters for each seed, or load finished ones, and score the --eval runs."""
    run = Path(args.run)
    dataset = common.short_name(common.read_meta(run)["dataset"])
    examples = read_examples(run, args.limit)
    texts = {common.text_stamp(problem) for problem, _, _ in examples}
    model, tokenizer = load_model_of([run, *args.eval], args)
    words = [tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in ("yes", "no")]

    def write(problem, answer):
        return direct_prompt(tokenizer, LORA_QUESTION.format(problem=problem["prompt"], answer=answer))

    def judge(ids):
        yes, no = next_logits(model, ids)[words]
        return yes - no

    most = 4096 if CHANNEL in tokenizer.added_tokens_encoder else 16384
    encode = partial(fit_answer, model, tokenizer, most, write)
    verifier = Verifier(model, encode, judge, is_calibrated=True)
    made_of = args.epochs, args.lr, args.limit, run / "labels.jsonl", run / "rollouts.jsonl"
    stamp = common.stamp(*made_of)
    for seed in args.seed:
        path = run / f"lora@{seed}.pt"
        adapters = add_adapters(model, seed)
        checkpoint = common.load_pt(path) if path.is_file() else {}
        if checkpoint.get("stamp") != stamp:
            cost = train_adapters(verifier, adapters, words, examples, args, seed)
            weights = {name: weight.detach().cpu() for name, weight in adapters.items()}
            checkpoint = {"adapters": weights, "cost": cost, "stamp": stamp, "command": the_command()}
            common.save_pt(path, checkpoint)
        model.load_state_dict(checkpoint["adapters"], strict=False)
        for evaluated in map(Path, args.eval):
            name = f"lora.{dataset}@{run.name}-{seed}"
            cost = checkpoint["cost"] | {"learned": learned_in(evaluated, texts)}
            score_rollouts(evaluated, name, verifier, cost, *made_of)


def read_examples(run, limit):
    """[(problem, response, label)] of the judged rollouts of all problems, or of the first so many."""
    rows = common.read_jsonl(run / "problems.jsonl", needs=("id", "prompt"))
    problems = {row["id"]: row for row in rows[:limit]}
    rollouts = common.read_rollouts(run)
    examples = []
    for rollout, row in zip(rollouts, common.read_labels(run, common.keys_of(rollouts))):
        if row["label"] is not None and row["id"] in problems:
            examples.append((problems[rollout["id"]], rollout["response"], row["label"]))
    right = sum(label for _, _, label in examples)
    if right in (0, len(examples)):
        common.die(f"{run}: {right} of {len(examples)} rollouts are right; a verifier needs both kinds")
    return examples


def add_adapters(model, seed):
    """Add two weights, which change nothing yet, to each linear layer of the blocks -> {name: weight}."""

    def add_adapted(layer, inputs, output):  # in float32, since bfloat16 would round small steps away
        low = torch.nn.functional.dropout(inputs[0], DROPOUT, layer.training) @ layer.down.mT.to(output.dtype)
        return output + low @ layer.up.mT.to(output.dtype) * (ALPHA / RANK)

    torch.manual_seed(seed)
    for layer in model.requires_grad_(False).base_model.modules():
        if isinstance(layer, torch.nn.Linear):  # experts that are kept as 3-D parameters get none
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
    batches = math.ceil(len(examples) / BATCH)
    steps = args.epochs * batches
    optimizer = torch.optim.AdamW(adapters.values(), args.lr, weight_decay=0.0)
    warm = min(WARM_UP, max(1, steps // 2))
    lengths = []  # of all sequences that were read
    # Activations are computed again in the backward pass, so that a long answer fits
    recompute = getattr(model.train(), "activation_checkpointing_enable", model.gradient_checkpointing_enable)
    recompute({"use_reentrant": False})
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
        decay = (steps - step) / max(1, steps - warm)
        optimizer.param_groups[0]["lr"] = args.lr * min((step + 1) / warm, decay)
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    seconds = time.perf_counter() - started
    print(f"lora@{seed}: {steps} steps in {seconds / 60:.1f} min")
    device = common.device_name(model.device)
    return {"clock_seconds": seconds, "train_device": device, "examples": len(examples),
            "train_flops": training_flops(model, lengths)}  # fmt: skip


def learn_from(model, ids, word, batch_size):
    """Add one rollout's share of the gradient of its batch's mean loss."""
    (-next_logits(model, ids).log_softmax(0)[word] / batch_size).backward()


def training_flops(model, lengths):
    """Return 2 a token and weight forward, 2 backward, 2 more where the weight learns; and attention's."""
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
PRM_TOKENS = 2048  # so many of an answer's last tokens are read, as in the authors' evaluate_prm.py


def prm(args):
    has_steps = "Qwen2ForProcessRewardModel" in (common.load_config(args.prm).architectures or ())
    verifier = load_step_prm(args) if has_steps else load_final_prm(args)
    for run in args.runs:
        name = f"prm.{common.model_name(args.prm)}"
        score_rollouts(Path(run), name, verifier, {}, common.model_stamp(args.prm))


def load_final_prm(args):
    """ReasonFlux-PRM-1.5B: a causal model with a linear head, reward_head.pt, on the last state of a text."""
    from transformers.utils import cached_file

    with common.loading(args.prm):
        weights = common.load_pt(cached_file(args.prm, "reward_head.pt"))
        model, tokenizer = common.load_model(args.prm, args.device)
        head = torch.nn.Linear(model.config.hidden_size, 1, device=model.device)
        head.load_state_dict(weights)

    def write(problem, answer):
        return tokenizer(f"{problem['prompt']}\n{answer}")["input_ids"]

    def judge(ids):
        return head(states_of(model, ids)[-1].float())

    return Verifier(model, partial(fit_answer, model, tokenizer, PRM_TOKENS, write), judge)


def load_step_prm(args):
    """ReasonFlux-PRM-7B: a two-layer head at each paragraph's end: the mean probability to be good."""
    from transformers import AutoTokenizer, Qwen2ForTokenClassification

    class StepRewardModel(Qwen2ForTokenClassification):
        def __init__(self, config):
            super().__init__(config)
            width, linear = config.hidden_size, torch.nn.Linear
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

DOMAINS = {"math": "math", "coding": "code"}  # what the model may answer: the kind of problem that it names
MOST_SAID = 5  # tokens of its answer
ROUTER = """Is the following a mathematics problem or a programming task?\n
{problem}\n
Answer with one word, math or coding."""


def route(args):
    """Score RUNs by the scorer of each problem's domain, as the model names it."""
    scorers = {path: common.load_scorer(path) for path in (*args.math, *args.code)}
    pairs = {pair_name(*pair): pair for pair in zip(args.math, args.code)}
    if len(pairs) < max(len(args.math), len(args.code)):
        common.die("--math and --code: give scorers in pairs, each pair with names of its own")
    runs = [*map(Path, args.runs)]
    load = cache(partial(load_model_of, runs, args))  # where something is left to do

    @cache  # runs of a data set have the same problems
    def ask(prompt):
        model, tokenizer = load()
        ids = direct_prompt(tokenizer, ROUTER.format(problem=prompt))
        word = re.search(r"\b(math|coding)", likeliest_answer(model, tokenizer, ids).lower())
        return word and DOMAINS[word[1]]

    for run in runs:
        problems = common.read_jsonl(run / "problems.jsonl", needs=("id", "kind", "prompt"))
        origin = origin_of(ROUTER, run / "rollouts.jsonl", *map(Path, (*args.math, *args.code)))
        last = run / "scores" / f"{[*pairs][-1]}.jsonl"  # is written after all others
        if read_cost(last).get("stamp") == origin["stamp"]:
            continue
        with torch.inference_mode():
            domains = {row["id"]: ask(row["prompt"]) for row in problems}
        right = [domains[row["id"]] == row["kind"] for row in problems if row["kind"] in DOMAINS.values()]
        print(f"{run}: domains right %: {as_percent(mean_of(right))} ({sum(right)}/{len(right)})")
        for name, pair in pairs.items():
            file = run / "scores" / f"{name}.jsonl"
            common.write_jsonl(file, routed_scores(run, domains, *pair, scorers))
            learned = learned_in(run, scorers[pair[0]].learned | scorers[pair[1]].learned)
            facts = {"domains_right": mean_of(right), "learned": learned}
            common.write_json(file.with_suffix(".cost.json"), origin | facts)


def pair_name(*paths):
    """routed.CALSETS@CALRUNS-SEED of scorers METHOD.CALSET@CALRUN-SEED.pt; of others routed.NAME+NAME."""
    names = [Path(path).stem for path in paths]
    found = [re.fullmatch(r"[^.]+\.(.+)@(.+)-([^-]+)", name) for name in names]
    if not all(found):
        return f"routed.{'+'.join(names)}"
    sets, runs, seeds = zip(*(one.groups() for one in found))
    return f"routed.{'+'.join(sets)}@{'+'.join(runs)}-{'+'.join(dict.fromkeys(seeds))}"


def likeliest_answer(model, tokenizer, ids):
    """Return the likeliest answer to a prompt, of at most MOST_SAID tokens."""
    said = []
    while len(said) < MOST_SAID and not {*said} & {*tokenizer.all_special_ids}:
        said.append(int(next_logits(model, ids + said).argmax()))
    return tokenizer.decode(said, skip_special_tokens=True)


def routed_scores(run, domains, math_path, code_path, scorers):
    """Rows of a file of scores. A problem without a domain has no scorer: its rollouts are all equal."""
    keys, of_maths = common.score_run(scorers[math_path], run, math_path)
    _, of_code = common.score_run(scorers[code_path], run, code_path)
    choices = {"math": of_maths, "code": of_code, None: torch.zeros(len(keys))}
    logits = torch.stack([choices[domains[problem]][place] for place, (problem, _) in enumerate(keys)])
    columns = zip(keys, logits.tolist(), logits.sigmoid().tolist())
    return [{"id": id, "sample": sample, "score": score, "weight": p} for (id, sample), score, p in columns]


# ==== Page three: the paper's tables, from the results.json of one model or several =========================

PAPERS_SETS = ("humaneval", "kodcode", "math500", "aime25", "aime24", "openthoughts")
PARTNER = {"humaneval": "kodcode", "kodcode": "humaneval", "math500": "aime25", "aime25": "math500"}
MISSING = "missing"


@cache
def the_paper():
    """demo/paper.json: the paper's tables, in its order, a legend and the reasons why ours differ.

    Of a table it has
    differs: some of the reasons
    columns: [column, what it shows (a key of SHOWN), the rows of the report or STUDY-ROW that this is of]
    like: instead of the columns, [a table with the same, text in them, what stands here in its place]
    rows: what the rows are named by, and how, if not by the calibration set {0} and the evaluation set {1}
    learned from: {column: a calibration set other than the pair's, from which its rows learned; see our_cell}
    paper: {"MODEL CALIBRATED_ON EVALUATED_ON": its cells, - where it has none}; "any" stands for all models
    """
    content = common.read_json(Path(__file__).with_name("demo") / "paper.json")
    for table in content["tables"].values():
        if "like" in table:
            other, theirs, ours = table["like"]
            columns = json.dumps(content["tables"][other]["columns"])
            table["columns"] = json.loads(columns.replace(theirs, ours))
    return content


@dataclass
class Results:
    """All that was found of a model."""

    names: dict  # a data set of the paper -> the one in its place
    sections: list = field(default_factory=list)
    rows: dict = field(default_factory=dict)  # (test set, row or STUDY-ROW, calibration set) -> Method

    def add(self, section):
        self.sections.append(section)
        for row in section["rows"]:
            for name in (row.method, *row.best_of):
                self.rows[section["dataset"], name, row.calibration] = row
        for study, rows in section["studies"].items():
            for row in rows:
                self.rows[section["dataset"], f"{study}-{row.method}", row.calibration] = row

    def row(self, name, calibration, test):
        """Return the Method of this name, or None if it is missing."""
        calibration = "+".join(self.names[name] for name in calibration.split("+"))
        test = self.names[test]
        return self.rows.get((test, name, calibration)) or self.rows.get((test, name, ""))


def points_above(row, *others):
    return as_percent(row.accuracy - max(other.accuracy for other in others), sign="+")


def cost_of_row(name, row):
    return row.cost and three_digits(row.cost[name], COSTS[name][1])


def times_as_much(name, row, other):
    costs = [each.cost and each.cost[name] for each in (row, other)]
    if not all(costs):
        return None
    if name == "ms_per_rollout" and row.cost["device"] != other.cost["device"]:
        return "other device"
    return f"{three_digits(costs[0] / costs[1])}×"


def problem_count(row):
    return three_digits(row.problems)


SHOWN = {  # what a column shows, of its rows; None where it is missing
    "accuracy": accuracy_of, "points above": points_above,
    "% of gap closed": gap_closed, "domains right %": domains_right, "problems": problem_count,
    **{f"best of {n}": partial(accuracy_with, n) for n in ("4", "8", "12")},
    **{name: partial(cost_of_row, name) for name in COSTS},
    **{f"times {name}": partial(times_as_much, name) for name in COSTS},
}  # fmt: skip


def paper(args):
    """Write paper.md: all tables of the paper, for each of the models that the results are of."""
    contents = {file: common.read_json(file, needs=("sets", "sections")) for file in args.results}
    of_papers_sets = [file for file, content in contents.items() if has_papers_sets(content["sets"])]
    models = {}
    for file, content in contents.items():
        if of_papers_sets and file not in of_papers_sets:
            common.warn(f"{file} is left out, as it is of other problems than the paper's")
            continue
        for section in content["sections"]:
            results = models.setdefault(section["model"], Results(content["sets"]))
            try:
                results.add(change_rows(section, lambda fields: Method(**fields)))
            except TypeError:
                common.die(f"{file} was made by another version of this file: make that report again")
    out = Path(args.out or os.path.commonpath([Path(file).absolute().parent for file in args.results]))
    parts = [*describe_models(models)]
    for count, table in enumerate(the_paper()["tables"].values(), 1):
        heading, form = table.get("rows", ["calibrated → evaluated", "{0} → {1}"])
        rows = [row for model, results in models.items() for row in paper_rows(table, form, model, results)]
        header = ["model", heading, "", *(column[0] for column in table["columns"])]
        reasons = itertools.chain(*(the_paper()["reasons"][name] for name in table.get("differs", ())))
        parts += [f"## Table {count}: {table['title']}", common.table(header, rows), "\n".join(reasons)]
    parts.append(f"This page was made by\n\n    {the_command()}")
    text = "\n\n".join(filter(None, parts))
    with common.atomic(out / "paper.md") as file:
        file.write(text + "\n")
    missing = len(re.findall(rf"\| +{MISSING} (?=\|)", text))
    print(f"{out / 'paper.md'}: {count} tables of the paper; {missing} cells are missing")


def has_papers_sets(places):
    return all(name == place for name, place in places.items())


def describe_models(models):
    """Yield the paragraphs that begin paper.md: what made it, and what its numbers mean."""
    if all(has_papers_sets(results.names) for results in models.values()):
        yield "# The paper's tables"
    else:
        yield "# The paper's tables, on other problems than the paper's"
        yield "\n".join(the_paper()["other problems"])
    lines, rows = [], []
    for model, results in models.items():
        meta = results.sections[0]["metas"][0]
        sampling = ", ".join(f"{name} {value}" for name, value in common.sampling_of(meta).items())
        seeds = " ".join(sorted({seed for section in results.sections for seed in section["seeds"]}))
        lines.append(f"{meta['model']}: sampled with {sampling} (0: up to the end of the context) on "
                     f"{meta.get('device')}; scorer seeds {seeds}.")  # fmt: skip
        sections = {section["dataset"]: section for section in results.sections}
        for name, dataset in results.names.items():
            costs = {method: row.cost for (_, method, of), row in results.rows.items() if of == dataset}
            scatr, lora = (costs.get(method) or {} for method in ("SCaTR", "LoRA verifier"))
            row = {"model": model, "data set": dataset, "in the place of": name}
            if section := sections.get(dataset):  # else it is only learned from
                row["problems"] = three_digits(results.rows[dataset, "random", ""].problems)
                row |= {"N": section["metas"][0].get("n"), "runs": len(section["runs"])}
                row["cut %"] = as_percent(section["cut"])
            row["configurations"] = three_digits(scatr.get("trials"))
            row["SCaTR learns from (rollouts)"] = three_digits(scatr.get("examples"))
            row["LoRA learns from"] = three_digits(lora.get("examples"))
            rows.append(row)
    yield "\n".join(lines)
    yield as_table(rows)
    yield "\n".join(the_paper()["legend"])


def paper_rows(table, form, model, results):
    """Of each pair of data sets our row and, where there is one, the paper's."""
    of_model = {row.lower(): cells for row, cells in table["paper"].items()}
    for pair in dict.fromkeys(tuple(row.split()[1:]) for row in table["paper"]):
        places = [results.names[name] for name in pair]
        name = form.format(*places, **results.names) if pair else None
        cells = [our_cell(results, table, pair, column) for column in table["columns"]]
        yield [model, name, "ours", *cells]
        papers = of_model.get(" ".join([model.lower(), *pair]))
        if places == [*pair]:  # else "any" model's row is of other problems
            papers = papers or of_model.get(" ".join(["any", *pair]))
        if papers:
            papers = ["" if cell == "-" else cell.replace("±", " ± ") for cell in papers.split()]
            yield ["", "", "paper", *papers, *[None] * (len(cells) - len(papers))]


def our_cell(results, table, pair, column):
    """The text of a cell; a table of models instead of pairs shows a field of meta.json."""
    title, shows, *names = column
    if not pair:
        return str(results.sections[0]["metas"][0][shows])
    learned_from = table.get("learned from", {}).get(title, "{0}").format(*pair, PARTNER.get(pair[-1]))
    rows = [results.row(name, learned_from, pair[-1]) for name in names]
    return MISSING if None in rows else SHOWN[shows](*rows) or MISSING


# ---- The command line --------------------------------------------------------------------------------------

COMMANDS = {"report": report, "lora": lora, "prm": prm, "route": route, "paper": paper}


def main():
    command, args = parse_args(sys.argv[1:])
    with common.enough_memory("run it where there is more memory"):
        COMMANDS[command](args)


def parse_args(words: list[str]) -> tuple[str, argparse.Namespace]:
    """(command, its arguments). The first word names the command; otherwise it is `report`."""
    command = words[0] if words and words[0] in COMMANDS else "report"
    parser = common.argument_parser(__doc__, f"05_baselines.py {command}")
    add = parser.add_argument
    if command in ("report", "prm", "route"):
        add("runs", nargs="+", metavar="RUN", help="run folders, labelled for the report")
    if command == "report":
        add("--out", help="folder of the report (default: the run, or what the runs have in common)")
        add("--only", nargs="+", action="extend", default=[], metavar="NAME", help="score files, or methods "
            "(names up to the @), that are rows; * stands for any letters (default: all)")  # fmt: skip
        add("--study", action="append", default=[], choices=STUDIES, help="also this study; may be repeated")
        add("--plots", action="store_true", help="also figures, as PNG and PDF; needs matplotlib")
        add("--sets", nargs=len(PAPERS_SETS), default=PAPERS_SETS, metavar="NAME", help="for the paper's "
            f"tables: data sets in the place of {' '.join(PAPERS_SETS)}")  # fmt: skip
    elif command == "lora":
        add("run", metavar="RUN_CAL", help="labelled run to learn from; keeps the adapters, lora@SEED.pt")
        add("--eval", nargs="+", metavar="RUN", default=[], help="runs of the same model to score")
        add("--seed", type=int, nargs="+", default=[32], help="one verifier each; the paper: 32 42 52")
        add("--epochs", type=int, default=1, help="the authors' code: 6 for AIME, 1 for others (%(default)s)")
        add("--limit", type=int, help="learn from the first so many problems (default: all)")
        add("--lr", type=float, default=2e-5, help="highest rate; tiny models need more (%(default)s)")
    elif command == "prm":
        add("--prm", required=True, help="Hub id or folder: reward_head.pt, or Qwen2ForProcessRewardModel")
    elif command == "route":
        for domain in DOMAINS.values():
            add(f"--{domain}", nargs="+", required=True, help=f"scorers calibrated on {domain}, one a seed")
    else:
        add("results", nargs="+", metavar="RESULTS", help="results.json of reports, of one model or several")
        add("--out", help="folder of paper.md (default: the folder of all results)")
    if command in ("lora", "route"):
        add("--model", help="the runs' model, if no longer where meta.json says")
    if command in ("lora", "prm", "route"):
        add("--device", help="cpu, cuda, cuda:1 (default: the GPU if there is one)")
    args = parser.parse_args(words[1:] if words[:1] == [command] else words)
    if getattr(args, "epochs", 1) < 1:
        common.die(f"--epochs {args.epochs}: give 1 or more")
    if getattr(args, "out", None):
        common.check_writable(args.out)
    if getattr(args, "plots", False) and not importlib.util.find_spec("matplotlib"):
        common.die("--plots needs matplotlib: pip install matplotlib")
    return command, args


if __name__ == "__main__":
    common.entry(main, "scores that were written are kept; the same command goes on with the others")
