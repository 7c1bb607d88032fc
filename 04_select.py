"""Score rollouts by trained scorers and pick an answer a problem, without labels.

    python 04_select.py RUN --scorer runs/model/cal/32/scatr*.pt
    python 04_select.py RUN        # without a scorer: by majority or likelihood

It reads what 01_generate.py wrote, and labels.jsonl, where 02_label.py keeps
the answers and which of them are equal, also where there are no references:
    answers.jsonl        for each problem {"id", "prompt", "scorer", "strategy",
                         "sample", "p", "answer", "vote"?, "label"?, "response"}
                         answer: for code the program; p: the probability that
                         it is right; vote: its share of all votes
    selected.jsonl       such rows for each scorer and strategy, without texts
    scores/SCORER.jsonl  for each rollout id, sample, "score", "weight" and "p"
    scores/SCORER.cost.json  costs; the files that scores were "made_of"; which
                         problems of this run the scorer "learned" from

best-of-n takes the rollout with the highest score, of equal scores the first.
weighted-vote, where answers can be equal, takes the answer with the largest sum
of weights, and the best-scored of its rollouts. A weight is the sigmoid of the
score, as in the paper; p also undoes the weight of right answers in training.

Scorers whose file names are equal up to an @ are seeds of one; their logits are
averaged. answers.jsonl is picked by the scorer and strategy that were right
most often on the validation part of the calibration problems, so give scorers
of one calibration set; to decide, give one, or --strategy. That share and the
file of the scorer's first seed are printed. The share is of the quarter of the
problems that also chose the configuration (10 of them: ± 16 points), and says
little of other data: for README's pairs it was 26 too high to 20 too low.

Without a scorer the most frequent answer is taken, or where no answers can be
equal the one whose tokens are likeliest; "scorer" and "p" are null then.
"""

from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import common
from common import np, torch

SHOWN, LINES, WIDTH = 3, 12, 100  # how many answers are printed, with at most so many lines and columns each


def main():
    args = parse_args()
    scorers = {path: common.load_scorer(path) for path in args.scorer}
    for run in map(read_candidates, args.runs):
        strategies = [args.strategy] if args.strategy else run.strategies
        if strategies[0] not in run.strategies:
            common.die(f"{run.path}: --strategy {args.strategy}: there are no answers that can be equal")
        if scorers:
            picks, reason, by = pick_by_scorers(run, scorers, strategies)
        else:
            picks, reason, by = pick_without_scorer(run, strategies[-1])
        answers = write_answers(run, picks)
        labels = [row["label"] for row in answers if "label" in row]
        right = f", {sum(labels)} of {len(labels)} judged ones right" if labels else ""
        print(*map(in_brief, answers[:SHOWN]), sep="\n\n")
        print(f"\n{run.path / 'answers.jsonl'}: {len(answers)} answers, one a problem{right}, picked by")
        print(f"{reason}\nthe scorer that picked: {by}")


def pick_by_scorers(run, scorers, strategies):
    """Write all scores; return (rows for answers.jsonl, what picked them, the file of its first seed)."""
    doubts = [doubt for path in scorers for doubt in doubts_about_scorer(run, seedless(path), scorers[path])]
    for doubt in dict.fromkeys(doubts):  # once for all seeds of a scorer
        common.warn(f"{run.path}: {doubt}")
    logits = {}
    picks = []
    for path, scorer in scorers.items():
        logits[path] = write_scores(run, path, scorer)
        for strategy in run.strategies:
            picks += pick(run, path.stem, strategy, logits[path], scorer.log_weight)
    common.write_jsonl(run.path / "selected.jsonl", picks)
    chosen, strategy, reason = choose(scorers, strategies)
    seeds = [path for path in scorers if seedless(path) == chosen]
    mean = np.mean([logits[path] for path in seeds], axis=0)
    log_weight = np.mean([scorers[path].log_weight for path in seeds])
    return pick(run, chosen, strategy, mean, log_weight), reason, seeds[0]


def pick_without_scorer(run, strategy):
    """Return the same as pick_by_scorers: the most frequent answers, or the likeliest ones."""
    rollouts = common.with_confidence(run.path, common.each_rollout(run.path))
    likelihoods = common.scores_by_rule([conf["likelihood/avg"] for _, conf in rollouts], "likelihood/avg")
    picks = pick(run, None, strategy, likelihoods)
    for row in picks:
        row["strategy"] = "majority" if "vote" in row and strategy == "weighted-vote" else "likeliest"
    common.write_jsonl(run.path / "selected.jsonl", picks)
    reason = "likelihood: the answer whose tokens are likeliest on average"
    if strategy == "weighted-vote":
        reason = "majority vote; among equal answers, and where there is none, the likeliest"
    return picks, reason, "none was given"


def seedless(path):
    """Return the name of the scorer of which this file is a seed."""
    return path.stem.partition("@")[0]


def read_candidates(path):
    """Return what 04 reads of a run with R rollouts."""
    keys = common.keys_of(common.each_rollout(path))
    places = defaultdict(list)
    for place, (problem, _) in enumerate(keys):
        places[problem].append(place)
    if (path / "labels.jsonl").exists():
        rows = common.read_labels(path, keys)
    else:
        print(f"{path}: no labels.jsonl, so no answers and no votes: run 02_label.py, references or not")
        rows = [{"id": problem, "sample": sample, "label": None} for problem, sample in keys]
    groups = np.array([-1 if row.get("group") is None else row["group"] for row in rows])
    return SimpleNamespace(
        path=path,
        meta=common.read_meta(path),
        rows=rows,  # [R] of labels.jsonl, in the order of rollouts.jsonl; labels are only copied and shown
        places=places,  # problem -> the places of its rollouts among the R
        problems=common.check_same_problems(path, rows),  # problem -> its row of problems.jsonl
        groups=groups,  # [R] classes of equal answers, -1 for no answer
        strategies=common.strategies_for(groups),
    )


def learned_by(scorer, run):
    """Return the problems of a run that a scorer was trained or validated on."""
    return [name for name, row in run.problems.items() if common.text_stamp(row) in scorer.learned]


def doubts_about_scorer(run, name, scorer):
    """Yield reasons why its p or its accuracy on this run may mislead."""
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


def write_scores(run, path, scorer):
    """Write the scores of all rollouts in the order of rollouts.jsonl, and the costs; return logits [R]."""
    keys, logits = common.score_run(scorer, run.path, path.name)
    p = common.probability(logits, scorer.log_weight)
    columns = [*zip(*keys), logits.tolist(), logits.sigmoid().tolist(), p.tolist()]
    rows = [dict(zip(("id", "sample", "score", "weight", "p"), row)) for row in zip(*columns)]
    rows = common.align(rows, common.keys_of(run.rows), run.path / "hidden.pt")
    common.write_jsonl(run.path / "scores" / f"{path.stem}.jsonl", rows)
    sources = path, run.path / "rollouts.jsonl"  # 05 leaves out scores of which one has changed
    made_of = {str(source.absolute()): common.stamp(source) for source in sources}
    cost = scorer.checkpoint.get("cost", {}) | {
        "learned": learned_by(scorer, run), "made_of": made_of, "model_stamp": run.meta.get("model_stamp"),
        "best_rule": scorer.checkpoint.get("best_rule"),  # without hindsight, for 05
    }  # fmt: skip
    common.write_json(run.path / "scores" / f"{path.stem}.cost.json", cost)
    return np.array([row["score"] for row in rows])


def pick(run, name, strategy, scores, log_weight=None):
    """Return a row of selected.jsonl for each problem.

    scores [R]: logits, or with no log_weight the likelihoods of answers whose votes are equal.
    """
    if log_weight is None:
        all_weights, p = np.ones(len(scores)), [None] * len(scores)
    else:
        all_weights = torch.from_numpy(scores).sigmoid().numpy()
        p = common.probability(torch.from_numpy(scores), log_weight).tolist()
    picks = []
    for problem, places in run.places.items():
        groups, weights = run.groups[places], all_weights[places]
        best = common.STRATEGIES[strategy](groups, weights, scores[places])[0]
        place = places[best]
        row = run.rows[place]
        pick = {"id": problem, "scorer": name, "strategy": strategy, "sample": row["sample"],
                "score": float(scores[place]), "p": p[place], "answer": row.get("answer")}  # fmt: skip
        if groups[best] >= 0:
            pick["vote"] = float(common.vote_shares(groups, weights)[best])
        if row["label"] is not None:
            pick["label"] = row["label"]
        picks.append(pick)
    return picks


def choose(scorers, strategies):
    """Return (scorer, strategy, why): the pair that was right most often in validation, or the first one."""
    accuracies = defaultdict(list)  # of the seeds of each pair
    for path, scorer in scorers.items():
        for strategy in strategies:
            share = scorer.checkpoint.get("right_of_validation", {}).get(strategy, -1)
            accuracies[seedless(path), strategy].append(share)
    (scorer, strategy), shares = max(accuracies.items(), key=lambda item: np.mean(item[1]))
    reason = f"{100 * np.mean(shares):.1f} % of the validation problems right"
    if len(accuracies) > 1:
        reason += f", the most of {len(accuracies)} choices"
    if min(shares) < 0:
        reason = "the first given, as its file does not say how often it was right"
    return scorer, strategy, f"{scorer}, {strategy}: {reason}"


def write_answers(run, picks):
    chosen = {row["id"]: row["sample"] for row in picks}
    rollouts = common.each_rollout(run.path)  # all of their texts may not fit into memory
    responses = {row["id"]: row["response"] for row in rollouts if row["sample"] == chosen[row["id"]]}
    answers = []
    for row in picks:
        del row["score"]
        prompt = run.problems[row["id"]]["prompt"]
        answers.append({"id": row["id"], "prompt": prompt, **row, "response": responses[row["id"]]})
    common.write_jsonl(run.path / "answers.jsonl", answers)
    return answers


def in_brief(row):
    """Return a row of answers.jsonl as a person reads it."""
    question = " ".join(row["prompt"].split())[:WIDTH]
    answer = row["answer"] or f"(no answer found) ... {row['response'][-WIDTH:]}"
    lines = [f"    {line[: WIDTH - 4]}" for line in answer.strip().splitlines()[:LINES]]
    remarks = [f", {name} {row[name]:.2g}" for name in ("p", "vote", "label") if row.get(name) is not None]
    return "\n".join([question, *lines, f"    [{row['strategy']}{''.join(remarks)}]"])


def parse_args(words=None):
    parser = common.argument_parser(__doc__)
    add = parser.add_argument
    add("runs", nargs="+", type=Path, metavar="RUN", help="run folders of 01_generate.py")
    add("--scorer", nargs="+", type=Path, default=[], metavar="PT", help="scorers of 03_train_scorer.py")
    add("--strategy", choices=common.STRATEGIES, help="for answers.jsonl (default: see above)")
    args = parser.parse_args(words)
    if len({path.stem for path in args.scorer}) < len(args.scorer):
        common.die("--scorer: two files have one name, which their scores would take over")
    return args


if __name__ == "__main__":
    common.entry(main, "what is written is kept; the same command scores all runs again")
