"""Score rollouts by trained scorers and pick an answer a problem, without labels.

    python 04_select.py RUN --scorer scorer.pt
    python 04_select.py RUN --scorer runs/model/cal/32/scatr*.pt
    python 04_select.py RUN        # without a scorer: by majority or likelihood

It reads what 01_generate.py wrote, and labels.jsonl, where 02_label.py keeps
the answers and which of them are equal, also where there are no references:
    answers.jsonl        for each problem {"id", "prompt", "scorer", "strategy",
                         "sample", "p", "answer", "vote"?, "label"?, "response"}
                         answer: as 02 extracts it, for code the program
                         p: the probability that it is right
                         vote: its share of all votes
    selected.jsonl       such rows for each scorer and strategy, without texts
    scores/SCORER.jsonl  for each rollout id, sample, "score", "weight" and "p"
                         score: its logit; weight: of its vote
    scores/SCORER.cost.json  costs; the files that scores were "made_of"; which
                         problems of this run the scorer "learned" from

best-of-n takes the rollout with the highest score, of equal scores the first.
weighted-vote, where answers can be equal, takes the answer with the largest sum
of weights, and the best-scored of its rollouts. A weight is the sigmoid of the
score, as in the paper. It is not p, because scorers are trained as if there
were as many right answers as wrong ones.

Scorers whose file names are equal up to an @ are seeds of one scorer. Their
logits are averaged for answers.jsonl. It is picked by the scorer and strategy
that were right most often on the validation part of the calibration problems,
so give scorers of one calibration set; to decide, give one, or --strategy. That
share is printed. It is of the quarter of the problems that also chose the
configuration (10 of them: ± 16 points): for others of their kind it was up to 2
points too high on the demo's files. Of new kinds it says little: there it was
23 points too high to 22 too low. The file of its first seed is named, too.

Without a scorer the most frequent answer is taken, or where no answers can be
equal the one whose tokens are likeliest; "scorer" and "p" are null then.
"""

from __future__ import annotations  # numpy is imported when it is first used

import argparse
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import common
from common import np, torch

STRATEGIES = ("best-of-n", "weighted-vote")
SHOWN, LINES, WIDTH = 3, 12, 100  # how many answers are printed, with at most so many lines and columns each


def main():
    args = parse_args()
    scorers = {path: common.load_scorer(path) for path in args.scorer}
    for run in map(load_run, args.runs):
        strategies = [args.strategy] if args.strategy else run.strategies
        if strategies[0] not in run.strategies:
            common.die(f"{run.path}: --strategy {args.strategy}: there are no answers that can be equal")
        if scorers:
            picks, reason, by = pick_by_scorers(run, scorers, strategies)
        else:
            picks, reason, by = *pick_without_scorer(run, strategies[-1]), "none was given"
        answers = write_answers(run, picks)
        print(*map(in_brief, answers[:SHOWN]), how_many_are_right(answers), sep="\n\n")
        print(f"\n{run.path / 'answers.jsonl'}: {len(answers)} answers, one a problem, picked by\n{reason}")
        print(f"the scorer that picked: {by}")


def pick_by_scorers(run, of_paths, strategies):
    """(rows for answers.jsonl, what picked them, the file of its first seed), when all scores are written."""
    scorers = {Path(path).stem: scorer for path, scorer in of_paths.items()}
    doubts = [doubt for name in scorers for doubt in doubts_about(run, seedless(name), scorers[name])]
    for doubt in dict.fromkeys(doubts):  # once for all seeds of a scorer
        common.warn(f"{run.path}: {doubt}")
    made_of = stamped(run.path / "rollouts.jsonl")
    logits = {}
    for path, scorer in of_paths.items():
        logits[Path(path).stem] = write_scores(run, Path(path).stem, scorer, stamped(path) | made_of)
    picks = []
    for name in scorers:
        for strategy in run.strategies:
            picks += pick_by_logits(run, name, strategy, logits[name], scorers[name].log_weight)
    common.write_jsonl(run.path / "selected.jsonl", picks)
    chosen, strategy, reason = choose(scorers, strategies)
    seeds = [name for name in scorers if seedless(name) == chosen]
    mean = np.mean([logits[name] for name in seeds], axis=0)
    log_weight = np.mean([scorers[name].log_weight for name in seeds])
    first = next(path for path in of_paths if Path(path).stem == seeds[0])
    return pick_by_logits(run, chosen, strategy, mean, log_weight), reason, first


def pick_without_scorer(run, strategy):
    """(rows for answers.jsonl, what picked them): the answer of most rollouts, or the likeliest rollout."""
    rollouts = common.with_confidence(run.path, common.each_rollout(run.path))
    likelihoods = np.array([conf["likelihood/avg"] for _, conf in rollouts], dtype=float)  # None becomes NaN
    likelihoods = np.nan_to_num(likelihoods, nan=np.nanmin([0, *likelihoods]) - 1)  # below all others
    all_equal = np.ones(len(likelihoods))
    picks = pick(run, None, strategy, likelihoods, all_equal, [None] * len(likelihoods))
    for row in picks:
        row["strategy"] = "majority" if "vote" in row and strategy == "weighted-vote" else "likeliest"
    common.write_jsonl(run.path / "selected.jsonl", picks)
    if strategy == "weighted-vote":
        return picks, "majority vote; among equal answers, and where there is none, the likeliest"
    return picks, "likelihood: the answer whose tokens are likeliest on average"


def seedless(name):
    """The scorer of which the scorer with this file name is a seed."""
    return name.partition("@")[0]


@dataclass
class Candidates:
    path: Path
    meta: dict
    rows: list  # [R] of labels.jsonl, in the order of rollouts.jsonl; labels are only copied and shown
    places: dict  # problem -> the places of its rollouts among the R
    texts: dict  # problem -> a stamp of its text
    groups: np.ndarray  # [R] classes of equal answers, -1 for no answer
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
        print(f"{path}: no labels.jsonl, so no answers and no votes: run 02_label.py, references or not")
        rows = [{"id": problem, "sample": sample, "label": None} for problem, sample in keys]
    groups = np.array([-1 if row.get("group") is None else row["group"] for row in rows])
    strategies = STRATEGIES if (groups >= 0).any() else STRATEGIES[:1]
    return Candidates(path, common.read_meta(path), rows, places, common.texts_of(path), groups, strategies)


def learned_by(scorer, run):
    """The problems of a run that a scorer was trained or validated on."""
    return [problem for problem, text in run.texts.items() if text in scorer.learned]


def doubts_about(run, name, scorer):
    learned = learned_by(scorer, run)
    if learned and not scorer.checkpoint.get("recipe", {}).get("half"):  # 05 judges by the other half
        count = f"{len(learned)} of its {len(run.places)} problems"
        yield f"{name} learned from {count}, so its accuracy proves nothing"
    here = common.sampling_of(run.meta)
    there = scorer.checkpoint.get("sampling", here)
    changed = common.asked_otherwise(run.meta.get("asked", []), scorer, run.meta.get("prompt_stamp"))
    for setting in {**here, **there}:
        if here.get(setting) != there.get(setting):
            changed.append(f"{setting} {here.get(setting, 'unknown')}, not {there.get(setting, 'unknown')}")
    if changed:
        yield f"sampled otherwise than the calibration ({'; '.join(changed)}); p may be off"


def stamped(path):
    """{a file: its stamp}; 05 leaves out scores whose sources have changed."""
    return {str(Path(path).absolute()): common.stamp(Path(path))}


def write_scores(run, name, scorer, made_of):
    """Write the scores of all rollouts in the order of rollouts.jsonl, and the costs -> logits [R]."""
    keys, logits = common.score_run(scorer, run.path, f"{name}.pt")
    rows = []
    p = common.probability(logits, scorer.log_weight)
    for (problem, sample), *scores in zip(keys, logits.tolist(), logits.sigmoid().tolist(), p.tolist()):
        rows.append({"id": problem, "sample": sample} | dict(zip(("score", "weight", "p"), scores)))
    rows = common.align(rows, common.keys_of(run.rows), run.path / "hidden.pt")
    common.write_jsonl(run.path / "scores" / f"{name}.jsonl", rows)
    facts = {"learned": learned_by(scorer, run), "model_stamp": run.meta.get("model_stamp")}
    cost = scorer.checkpoint.get("cost", {}) | facts | {"made_of": made_of}
    common.write_json(run.path / "scores" / f"{name}.cost.json", cost)
    return np.array([row["score"] for row in rows])


def pick_by_logits(run, name, strategy, logits, log_weight):
    weights = torch.from_numpy(logits).sigmoid().numpy()
    p = common.probability(torch.from_numpy(logits), log_weight).tolist()
    return pick(run, name, strategy, logits, weights, p)


def pick(run, name, strategy, scores, all_weights, p):
    """A row of selected.jsonl for each problem; scores, weights and p are of all rollouts."""
    has_labels = any(row["label"] is not None for row in run.rows)
    picks = []
    for problem, places in run.places.items():
        groups, weights = run.groups[places], all_weights[places]
        if strategy == "weighted-vote":
            best = common.weighted_vote(groups, weights, scores[places])[0]
        else:
            best = common.best_of_n(scores[places])
        place = places[best]
        row = run.rows[place]
        pick = {"id": problem, "scorer": name, "strategy": strategy, "sample": row["sample"],
                "score": float(scores[place]), "p": p[place], "answer": row.get("answer")}  # fmt: skip
        if groups[best] >= 0:
            pick["vote"] = float(common.vote_shares(groups, weights)[best])
        if has_labels:
            pick["label"] = row["label"]
        picks.append(pick)
    return picks


def choose(scorers, strategies):
    """(scorer, strategy, why): the pair that was right most often in validation, or the first one."""
    accuracies = defaultdict(list)  # of the seeds of each pair
    for name, scorer in scorers.items():
        for strategy in strategies:
            share = scorer.checkpoint.get("right_of_validation", {}).get(strategy)
            accuracies[seedless(name), strategy].append(-1 if share is None else share)
    (scorer, strategy), shares = max(accuracies.items(), key=lambda item: np.mean(item[1]))
    seeds = f" (mean of {len(shares)} seeds)" if len(shares) > 1 else ""
    reason = f"{scorer}{seeds}, {strategy}"
    if min(shares) < 0:
        return scorer, strategy, f"{reason}: the first given, as its file does not say how often it was right"
    reason += f": {100 * np.mean(shares):.1f} % of the validation problems right"
    if len(accuracies) > 1:
        reason += f", the most of {len(accuracies)} choices"
    return scorer, strategy, reason


def write_answers(run, picks):
    problems = common.read_jsonl(run.path / "problems.jsonl", needs=("id", "prompt"))
    prompts = {row["id"]: row["prompt"] for row in problems}
    responses = dict.fromkeys(common.keys_of(picks))  # the other texts may not fit into memory
    for rollout in common.each_rollout(run.path):
        key = rollout["id"], rollout["sample"]
        if key in responses:
            responses[key] = rollout["response"]
    answers = []
    for row in picks:
        del row["score"]
        key = row["id"], row["sample"]
        answers.append({"id": row["id"], "prompt": prompts[row["id"]]} | row | {"response": responses[key]})
    common.write_jsonl(run.path / "answers.jsonl", answers)
    return answers


def in_brief(row):
    """A row of answers.jsonl as a person reads it."""
    question = " ".join(row["prompt"].split())
    answer = row["answer"] or f"(no answer found) ... {row['response'][-WIDTH:]}"
    lines = [f"    {line[: WIDTH - 4]}" for line in answer.strip().splitlines()[:LINES]]
    remarks = [row["strategy"] if row["p"] is None else f"p {row['p']:.2f}"]
    if "vote" in row:
        remarks.append(f"{100 * row['vote']:.0f} % of the votes")
    if row.get("label") is not None:
        remarks.append("right" if row["label"] else "wrong")
    return "\n".join([question[:WIDTH], *lines, f"    [{', '.join(remarks)}]"])


def how_many_are_right(answers):
    labels = [row["label"] for row in answers if row.get("label") is not None]
    if not labels:
        return "not judged: there are no labels"
    return f"{sum(labels)} of {len(labels)} judged answers are right ({100 * np.mean(labels):.1f} %)"


def parse_args(words=None):
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form, allow_abbrev=False)
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="run folders of 01_generate.py")
    add("--scorer", nargs="+", default=[], metavar="PT", help="scorers of 03_train_scorer.py")
    add("--strategy", choices=STRATEGIES, help="for answers.jsonl (default: see above)")
    args = parser.parse_args(words)
    names = {Path(path).stem for path in args.scorer}
    if len(names) != len(args.scorer):
        common.die(f"--scorer: {len(args.scorer)} files but only {len(names)} names, which scores take over")
    return args


if __name__ == "__main__":
    common.entry(main, "what is written is kept; the same command scores all runs again")
