"""Score every rollout of a run with trained scorers and pick one answer for each problem. No label is used.

    python 04_select.py RUN --scorer scorer.pt
    python 04_select.py RUN --scorer runs/model/cal/32/*.pt      the best of several scorers picks the answers
    python 04_select.py RUN --scorer scorer.pt --strategy best-of-n

Reads what 01_generate.py wrote, and labels.jsonl, which holds each rollout's answer and says which answers
are equal (02_label.py writes it for problems without references, too). Writes
    answers.jsonl        one row a problem: {"id", "prompt", "answer", "response", "p", "vote"?, "sample",
                         "scorer", "strategy", "label"?}. answer: as 02 extracts it, for code the program;
                         p: the probability that it is right; vote: its share of the sum of all answers' p
    selected.jsonl       a row for each problem, scorer and strategy, with the same fields but the prompt, and
                         "score"; the rows of scorers that are not given this time are kept
    scores/SCORER.jsonl  {"id", "sample", "score": logit, "p": probability}, and SCORER.cost.json for 05

Strategies: best-of-n takes the highest score, of equal ones the lowest sample number. weighted-vote (where
answers can be equal) takes the answer with the largest sum of p; its best-scored rollout stands for it. A
label is copied beside a pick after it is made, and shown as accuracy.

Who picks answers.jsonl: scorers whose file names are equal up to an @ are seeds of one scorer, and their
logits are averaged. The scorer and strategy are taken that were right most often on the calibration problems
that 03 held out of training. To decide yourself, give one scorer, or --strategy.
"""

from __future__ import annotations  # numpy is not there yet

import argparse
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import common
from common import np, torch

STRATEGIES = ("best-of-n", "weighted-vote")
SHOWN, LINES, WIDTH = 3, 12, 100  # answers that are printed, and the most lines and columns of each


def main():
    args = parse_args()
    scorers = {Path(path).stem: common.load_scorer(path) for path in args.scorer}
    for run in map(load_run, args.runs):
        warn(run, scorers)
        logits = {}
        for path in args.scorer:
            logits[Path(path).stem] = score(run, path, scorers[Path(path).stem])
        picks = [pick(run, name, strategy, logits[name]) for name in logits for strategy in run.strategies]
        selected = write_selected(run, sum(picks, []))
        if args.strategy not in (None, *run.strategies):
            common.die(f"{run.path}: --strategy {args.strategy}: there are no answers that can be equal")
        name, strategy, reason = choose(scorers, [args.strategy] if args.strategy else run.strategies)
        mean = np.mean([logits[seed] for seed in seeds_of_each(scorers)[name]], axis=0)
        answers = write_answers(run, pick(run, name, strategy, mean))
        print(summary(selected, answers), *map(in_brief, answers[:SHOWN]), sep="\n\n")
        print(f"\n{run.path / 'answers.jsonl'}: {len(answers)} answers, one a problem, picked by\n{reason}")


@dataclass
class Run:
    path: Path
    keys: list  # [R] of (problem, sample)
    places: dict  # problem -> the places of its rollouts among the R
    groups: np.ndarray  # [R] classes of equal answers, -1 for no answer
    answers: list  # [R] what 02 extracted, or None
    labels: list | None  # [R] only for display; None where nothing could be judged
    strategies: tuple  # weighted-vote only where there are answers that can be equal
    meta: dict


def load_run(path):
    path = Path(path)
    keys = common.keys_of(common.each_rollout(path))
    common.check_same_problems(path, [{"id": problem} for problem, _ in keys])
    places = {}
    for place, (problem, _) in enumerate(keys):
        places.setdefault(problem, []).append(place)
    if (path / "labels.jsonl").exists():
        rows = common.read_labels(path, keys)
    else:
        print(f"{path}: no labels.jsonl, so no votes; 02_label.py extracts answers, references or not")
        rows = [{"label": None} for _ in keys]
    groups = np.array([-1 if row.get("group") is None else row["group"] for row in rows])
    labels = [row["label"] for row in rows]
    return Run(
        path, keys, places, groups, answers=[row.get("answer") for row in rows],
        labels=None if all(label is None for label in labels) else labels,
        strategies=STRATEGIES if (groups >= 0).any() else STRATEGIES[:1], meta=common.read_meta(path),
    )  # fmt: skip


def score(run, scorer_path, scorer):
    """Write the scores of all rollouts in the order of rollouts.jsonl, and what they cost -> logits [R]."""
    stored_keys, logits = common.score_run(scorer, run.path, scorer_path)
    columns = zip(stored_keys, logits.tolist(), logits.sigmoid().tolist())
    rows = [{"id": key[0], "sample": key[1], "score": logit, "p": p} for key, logit, p in columns]
    rows = common.align(rows, run.keys, run.path / "hidden.pt")
    path = run.path / "scores" / f"{Path(scorer_path).stem}.jsonl"
    common.write_jsonl(path, rows)
    command = shlex.join(["python", "04_select.py", *sys.argv[1:]])
    facts = {"command": command, "stop": scorer.checkpoint.get("stop")}  # stop: the thresholds, for 05
    facts["in_sample"] = count_learned(run, scorer)
    common.write_json(path.with_suffix(".cost.json"), scorer.checkpoint.get("cost", {}) | facts)
    return np.array([row["score"] for row in rows])


def count_learned(run, scorer):
    """How many of the run's problems the scorer was trained or validated on."""
    dataset = common.short_name(run.meta["dataset"])
    learned = {tuple(problem) for problem in scorer.checkpoint.get("problems", [])}
    return sum((dataset, problem) in learned for problem in run.places)


def warn(run, scorers):
    """A line for what makes the scores of this run doubtful, with the scorers that it is true of."""
    here, told = common.sampling_of(run.meta), {}
    for name, seeds in seeds_of_each(scorers).items():
        facts = scorers[seeds[0]].checkpoint
        there = facts.get("sampling", here)
        changed = [f"{key} {here.get(key)}, not {there[key]}" for key in there if there[key] != here.get(key)]
        if learned := count_learned(run, scorers[seeds[0]]):
            text = f"learned from {learned} of its {len(run.places)} problems, so its accuracy proves nothing"
            told.setdefault(text, []).append(name)
        if "sampling" in facts and not (here and there):
            whose = "its" if there else "the calibration"
            text = f"it is unknown how {whose} answers were sampled; p may be off"
            told.setdefault(text, []).append(name)
        elif changed:
            text = f"sampled otherwise than the calibration ({'; '.join(changed)}); p may be off"
            told.setdefault(text, []).append(name)
    for text, names in told.items():
        print(f"warning: {run.path}: {', '.join(names)}: {text}", file=sys.stderr)


def pick(run, name, strategy, logits):
    """A row of selected.jsonl for each problem; the response is still to come."""
    p, rows = torch.from_numpy(logits).sigmoid().numpy(), []
    for problem, places in run.places.items():
        groups, weights = run.groups[places], p[places]
        if strategy == "weighted-vote":  # where no rollout has an answer, this is best-of-n
            best = common.weighted_vote(groups, weights, logits[places])
        else:
            best = common.best_of_n(logits[places])
        place = places[best]
        row = {"id": problem, "scorer": name, "strategy": strategy, "sample": run.keys[place][1],
               "score": float(logits[place]), "p": float(p[place]), "answer": run.answers[place]}  # fmt: skip
        if groups[best] >= 0:
            row["vote"] = float(weights[groups == groups[best]].sum() / weights[groups >= 0].sum())
        if run.labels is not None:
            row["label"] = run.labels[place]
        rows.append(row)
    return rows


def seeds_of_each(scorers):
    """{scorer, its name up to the @: the full names of its seeds}"""
    found = {}
    for name in scorers:
        found.setdefault(name.partition("@")[0], []).append(name)
    return found


def choose(scorers, strategies):
    """(scorer, strategy, why): right most often on held-out calibration problems, of equal ones the first."""
    found = {}
    for name, seeds in seeds_of_each(scorers).items():
        for strategy in strategies:
            held_out = [scorers[seed].checkpoint.get("held_out", {}).get(strategy) for seed in seeds]
            known = [accuracy for accuracy in held_out if accuracy is not None]
            found[name, strategy] = np.mean(known) if known else -1
    name, strategy = max(found, key=found.get)
    seeds = len(seeds_of_each(scorers)[name])
    who = f"{name}{f' (mean of {seeds} seeds)' if seeds > 1 else ''}, {strategy}"
    if found[name, strategy] < 0:
        return name, strategy, f"{who}: the first given, as its file does not say how often it was right"
    did = f"{100 * found[name, strategy]:.1f} % right on held-out calibration problems"
    return name, strategy, f"{who}: {did}{f', the most of {len(found)} choices' if len(found) > 1 else ''}"


def responses_of(run, rows):
    """A second reading for the few texts that were picked: all of them together may not fit into memory."""
    texts = dict.fromkeys(common.keys_of(rows))
    for rollout in common.each_rollout(run.path):
        if (rollout["id"], rollout["sample"]) in texts:
            texts[rollout["id"], rollout["sample"]] = rollout["response"]
    return texts


def write_selected(run, selected):
    """The rows of other scorers stay, as long as they are picks of this run's rollouts."""
    path, others = run.path / "selected.jsonl", []
    given, texts = {row["scorer"] for row in selected}, responses_of(run, selected)
    if path.is_file():
        rows = common.read_jsonl(path, needs=("id", "sample", "scorer"))
        others = [row for row in rows if row["scorer"] not in given]
    if unknown := {*common.keys_of(others)} - {*run.keys}:
        common.die(f"{path}: has picks of rollouts that the run has not, such as {min(unknown)}; delete it")
    selected = [row | {"response": texts[row["id"], row["sample"]]} for row in selected]
    common.write_jsonl(path, others + selected)
    return selected


def write_answers(run, picks):
    fields = "id", "prompt", "answer", "response", "p", "vote", "sample", "scorer", "strategy", "label"
    problems = common.read_jsonl(run.path / "problems.jsonl", needs=("id", "prompt"))
    prompts, texts = {row["id"]: row["prompt"] for row in problems}, responses_of(run, picks)
    answers = []
    for row in picks:
        row |= {"prompt": prompts[row["id"]], "response": texts[row["id"], row["sample"]]}
        answers.append({field: row[field] for field in fields if field in row})
    common.write_jsonl(run.path / "answers.jsonl", answers)
    return answers


def summary(selected, answers):
    """A line a scorer and strategy: how many were picked, how many of these are right where 02 could say."""
    if "label" not in answers[0]:
        return f"{len(selected)} picks of all scorers and strategies: not judged, there are no labels"
    labels, cells = {}, []
    for row in selected:
        labels.setdefault((row["scorer"], row["strategy"]), []).append(row["label"])
    labels["answers.jsonl", answers[0]["strategy"]] = [row["label"] for row in answers]
    for names, found in labels.items():
        right, judged = found.count(1), len(found) - found.count(None)
        told = f"{100 * right / judged:.1f} ({right}/{judged})" if judged else "not judged"
        cells.append([*names, len(found), told])
    return common.table(["scorer", "strategy", "problems", "right %"], cells)


def in_brief(row):
    """A row of answers.jsonl as a person reads it."""
    question, facts = " ".join(row["prompt"].split()), [f"p {row['p']:.2f}"]
    answer = row["answer"] or f"(no answer found) ... {row['response'][-WIDTH:]}"
    if "vote" in row:
        facts.append(f"{100 * row['vote']:.0f} % of the votes")
    if row.get("label") is not None:
        facts.append("right" if row["label"] else "wrong")
    lines = [f"    {line[: WIDTH - 4]}" for line in answer.strip().splitlines()[:LINES]]
    return "\n".join([question[:WIDTH], *lines, f"    [{', '.join(facts)}]"])


def parse_args():
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folders of 01_generate.py")
    parser.add_argument("--scorer", nargs="+", required=True, metavar="PT", help="of 03, for the same model")
    parser.add_argument("--strategy", choices=STRATEGIES, help="of answers.jsonl (default: see above)")
    args = parser.parse_args()
    names = {Path(path).stem for path in args.scorer}
    if len(names) != len(args.scorer):
        common.die(f"--scorer: {len(args.scorer)} files but only {len(names)} names, which scores take over")
    return args


if __name__ == "__main__":
    common.entry(main, "what is written is kept; the same command scores all runs again")
