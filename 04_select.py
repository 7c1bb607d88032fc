"""Score every rollout of a run with trained scorers and pick one answer for each problem. No label is used.

    python 04_select.py RUN --scorer scorer.pt
    python 04_select.py RUN --scorer runs/model/cal/32/*.pt      the best of several scorers picks the answers
    python 04_select.py RUN --scorer scorer.pt --strategy best-of-n

It reads what 01_generate.py wrote, and labels.jsonl, where 02_label.py keeps the answer of each rollout and
which answers are equal (also for problems without a reference). It writes
    answers.jsonl        for each problem {"id", "prompt", "answer", "response", "p", "vote"?, "sample",
                         "scorer", "strategy", "label"?}. answer: as 02 extracts it, for code the program;
                         p: the probability that it is right; vote: its share of the sum of all answers' p
    selected.jsonl       for each problem, scorer and strategy the same without the prompt, and with the
                         "score". The rows of scorers that are not given this time are kept
    scores/SCORER.jsonl  for each rollout {"id", "sample", "score": its logit, "p": its probability}. In
                         SCORER.cost.json beside it are costs, and "learned", the problems of this run that
                         the scorer was trained or validated on

There are two strategies. best-of-n takes the rollout with the highest score, of equal scores the lowest
sample number. weighted-vote, where answers can be equal, takes the answer with the largest sum of p, and the
best-scored of its rollouts. If there are labels they are copied beside the picks afterwards.

Scorers whose file names are equal up to an @ are seeds of one scorer: their logits are averaged for
answers.jsonl. The scorer and strategy for answers.jsonl are those which were right most often on the
calibration problems that 03 held out, so give scorers of one calibration set: how often they were right on
different problems does not compare. Give one scorer, or --strategy, to decide yourself.
"""

from __future__ import annotations  # numpy is imported when it is first used

import argparse
import itertools
import shlex
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import common
from common import np, torch

STRATEGIES = ("best-of-n", "weighted-vote")
SHOWN, LINES, WIDTH = 3, 12, 100  # how many answers are printed, with at most so many lines and columns each


def main():
    args = parse_args()
    paths = {Path(path).stem: path for path in args.scorer}
    scorers = {name: common.load_scorer(path) for name, path in paths.items()}
    seeds = defaultdict(list)  # scorer -> the names of its seeds' files
    for name in scorers:
        seeds[name.partition("@")[0]].append(name)
    for run in map(load_run, args.runs):
        strategies = [args.strategy] if args.strategy else run.strategies
        if strategies[0] not in run.strategies:
            common.die(f"{run.path}: --strategy {args.strategy}: there are no answers that can be equal")
        warn(run, {scorer: scorers[names[0]].checkpoint for scorer, names in seeds.items()})
        logits = {name: write_scores(run, name, scorers[name], path) for name, path in paths.items()}
        picks = []
        for name, strategy in itertools.product(logits, run.strategies):
            picks += pick(run, name, strategy, logits[name])
        write_selected(run, picks)
        scorer, strategy, reason = choose(scorers, seeds, strategies)
        mean = np.mean([logits[name] for name in seeds[scorer]], axis=0)
        answers = write_answers(run, pick(run, scorer, strategy, mean))
        print(*map(in_brief, answers[:SHOWN]), summary(run, answers, reason), sep="\n\n")


@dataclass
class Run:
    path: Path
    meta: dict
    keys: list  # [R] of (problem, sample)
    places: dict  # problem -> the places of its rollouts among the R
    groups: np.ndarray  # [R] classes of equal answers, -1 for no answer
    answers: list  # [R] what 02 extracted, or None
    labels: list  # [R] 1, 0 or None; only copied and shown
    strategies: tuple  # weighted-vote only if there are answers that can be equal


def load_run(path):
    path = Path(path)
    keys = common.keys_of(common.each_rollout(path))
    common.check_same_problems(path, [{"id": problem} for problem, _ in keys])
    places = defaultdict(list)
    for place, (problem, _) in enumerate(keys):
        places[problem].append(place)
    if (path / "labels.jsonl").exists():
        rows = common.read_labels(path, keys)
    else:
        print(f"{path}: no labels.jsonl, so no votes; 02_label.py extracts answers, references or not")
        rows = [{"label": None} for _ in keys]
    groups = np.array([-1 if row.get("group") is None else row["group"] for row in rows])
    strategies = STRATEGIES if (groups >= 0).any() else STRATEGIES[:1]
    answers, labels = [row.get("answer") for row in rows], [row["label"] for row in rows]
    return Run(path, common.read_meta(path), keys, places, groups, answers, labels, strategies)


def warn(run, checkpoints):
    """Print a line for each reason to doubt the scores of this run, with the scorers that it is about."""
    scorers = defaultdict(list)
    for scorer, checkpoint in checkpoints.items():
        for doubt in doubts_about(run, checkpoint):
            scorers[doubt].append(scorer)
    for doubt, names in scorers.items():
        print(f"warning: {run.path}: {', '.join(names)}: {doubt}", file=sys.stderr)


def doubts_about(run, checkpoint):
    learned = learned_problems(run, checkpoint)
    if learned:
        count = f"{len(learned)} of its {len(run.places)} problems"
        yield f"learned from {count}, so its accuracy proves nothing"
    here = common.sampling_of(run.meta)
    there = checkpoint.get("sampling", here)
    changed = [f"{name} {here.get(name)}, not {value}" for name, value in there.items()
               if here.get(name) != value]  # fmt: skip
    if there and not here:
        yield "it is unknown how its answers were sampled; p may be off"
    elif here and not there:
        yield "it is unknown how the calibration answers were sampled; p may be off"
    elif changed:
        yield f"sampled otherwise than the calibration ({'; '.join(changed)}); p may be off"


def learned_problems(run, checkpoint):
    """The problems of this run that the scorer was trained or validated on."""
    data_set = common.short_name(run.meta["dataset"])
    learned = {tuple(problem) for problem in checkpoint.get("problems", [])}
    return [problem for problem in run.places if (data_set, problem) in learned]


def write_scores(run, name, scorer, path):
    """Write the scores of all rollouts in the order of rollouts.jsonl, and the costs -> logits [R]."""
    keys, logits = common.score_run(scorer, run.path, path)
    rows = []
    for (problem, sample), logit, p in zip(keys, logits.tolist(), logits.sigmoid().tolist()):
        rows.append({"id": problem, "sample": sample, "score": logit, "p": p})
    rows = common.align(rows, run.keys, run.path / "hidden.pt")
    common.write_jsonl(run.path / "scores" / f"{name}.jsonl", rows)
    costs = scorer.checkpoint.get("cost", {}) | {
        "command": shlex.join(["python", "04_select.py", *sys.argv[1:]]),
        "stop": scorer.checkpoint.get("stop"),  # from which 05 takes a threshold
        "learned": learned_problems(run, scorer.checkpoint),
    }
    common.write_json(run.path / "scores" / f"{name}.cost.json", costs)
    return np.array([row["score"] for row in rows])


def pick(run, name, strategy, logits):
    """A row of selected.jsonl for each problem."""
    p = torch.from_numpy(logits).sigmoid().numpy()
    rows = []
    for problem, places in run.places.items():
        groups, weights = run.groups[places], p[places]
        if strategy == "weighted-vote":
            best = common.weighted_vote(groups, weights, logits[places])
        else:
            best = common.best_of_n(logits[places])
        place = places[best]
        row = {"id": problem, "scorer": name, "strategy": strategy, "sample": run.keys[place][1],
               "score": float(logits[place]), "p": float(p[place]), "answer": run.answers[place]}  # fmt: skip
        if groups[best] >= 0:
            row["vote"] = float(weights[groups == groups[best]].sum() / weights[groups >= 0].sum())
        if set(run.labels) != {None}:
            row["label"] = run.labels[place]
        rows.append(row)
    return rows


def write_selected(run, picks):
    """Write the picks below those of other scorers, which must be of this run's rollouts."""
    path, others = run.path / "selected.jsonl", []
    given = {row["scorer"] for row in picks}
    if path.is_file():
        rows = common.read_jsonl(path, needs=("id", "sample", "scorer"))
        others = [row for row in rows if row["scorer"] not in given]
    unknown = set(common.keys_of(others)) - set(run.keys)
    if unknown:
        common.die(f"{path}: has picks of rollouts that the run has not, such as {min(unknown)}; delete it")
    responses = responses_of(run, picks)
    picks = [row | {"response": responses[row["id"], row["sample"]]} for row in picks]
    common.write_jsonl(path, others + picks)


def responses_of(run, picks):
    """{(problem, sample): text} of the picks, read from rollouts.jsonl: all texts may not fit into memory."""
    picked = set(common.keys_of(picks))
    responses = {}
    for rollout in common.each_rollout(run.path):
        key = rollout["id"], rollout["sample"]
        if key in picked:
            responses[key] = rollout["response"]
    return responses


def choose(scorers, seeds, strategies):
    """(scorer, strategy, why): the pair that was right most often on held-out problems, or the first pair."""
    accuracy = {}
    for scorer, names in seeds.items():
        for strategy in strategies:
            of_seeds = [scorers[name].checkpoint.get("held_out", {}).get(strategy) for name in names]
            measured = [share for share in of_seeds if share is not None]
            accuracy[scorer, strategy] = np.mean(measured) if measured else -1
    scorer, strategy = max(accuracy, key=accuracy.get)
    reason = scorer
    if len(seeds[scorer]) > 1:
        reason += f" (mean of {len(seeds[scorer])} seeds)"
    if accuracy[scorer, strategy] < 0:
        reason += f", {strategy}: the first given, as its file does not say how often it was right"
        return scorer, strategy, reason
    reason += f", {strategy}: {100 * accuracy[scorer, strategy]:.1f} % right on held-out calibration problems"
    if len(accuracy) > 1:
        reason += f", the most of {len(accuracy)} choices"
    return scorer, strategy, reason


def write_answers(run, picks):
    problems = common.read_jsonl(run.path / "problems.jsonl", needs=("id", "prompt"))
    prompts = {row["id"]: row["prompt"] for row in problems}
    responses = responses_of(run, picks)
    fields = ("id", "prompt", "answer", "response", "p", "vote", "sample", "scorer", "strategy", "label")
    answers = []
    for row in picks:
        row = row | {"prompt": prompts[row["id"]], "response": responses[row["id"], row["sample"]]}
        answers.append({field: row[field] for field in fields if field in row})
    common.write_jsonl(run.path / "answers.jsonl", answers)
    return answers


def in_brief(row):
    """A row of answers.jsonl as a person reads it."""
    question = " ".join(row["prompt"].split())
    answer = row["answer"] or f"(no answer found) ... {row['response'][-WIDTH:]}"
    lines = [f"    {line[: WIDTH - 4]}" for line in answer.strip().splitlines()[:LINES]]
    remarks = [f"p {row['p']:.2f}"]
    if "vote" in row:
        remarks.append(f"{100 * row['vote']:.0f} % of the votes")
    if row.get("label") is not None:
        remarks.append("right" if row["label"] else "wrong")
    return "\n".join([question[:WIDTH], *lines, f"    [{', '.join(remarks)}]"])


def summary(run, answers, reason):
    labels = [row["label"] for row in answers if row.get("label") is not None]
    accuracy = "not judged: there are no labels"
    if labels:
        accuracy = f"{sum(labels)} of {len(labels)} judged answers are right ({100 * np.mean(labels):.1f} %)"
    path = run.path / "answers.jsonl"
    return f"{accuracy}\n\n{path}: {len(answers)} answers, one a problem, picked by\n{reason}"


def parse_args(words=None):
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folders of 01_generate.py")
    scorer_help = "scorers that 03_train_scorer.py made for the same model"
    parser.add_argument("--scorer", nargs="+", required=True, metavar="PT", help=scorer_help)
    parser.add_argument("--strategy", choices=STRATEGIES, help="for answers.jsonl (default: see above)")
    args = parser.parse_args(words)
    names = {Path(path).stem for path in args.scorer}
    if len(names) != len(args.scorer):
        common.die(f"--scorer: {len(args.scorer)} files but only {len(names)} names, which scores take over")
    return args


if __name__ == "__main__":
    common.entry(main, "what is written is kept; the same command scores all runs again")
