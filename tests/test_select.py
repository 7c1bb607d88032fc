"""04: scores of a known scorer, selections by hand, no label reaches a choice, broken joins are refused."""

from collections import Counter

import numpy as np
import pytest
import torch
from conftest import edit_hidden, edit_jsonl, first_dimension_scorer, make_run, read_vectors

import common


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path / "run", problems=10, n=6)


@pytest.fixture
def select(run, tmp_path, run_here):
    """select(*arguments, scorers=...) -> 04 as it ended, of `run`."""
    first = first_dimension_scorer(tmp_path / "first.pt")

    def select(*arguments, scorers=(first,), code=0):
        return run_here("04_select.py", run, "--scorer", *scorers, *arguments, code=code)

    return select


def selected(run):
    """{(problem, strategy): row}"""
    return {(row["id"], row["strategy"]): row for row in common.read_jsonl(run / "selected.jsonl")}


def samples(run, strategy):
    return [row["sample"] for row in selected(run).values() if row["strategy"] == strategy]


def answers(run):
    return common.read_jsonl(run / "answers.jsonl")


def sigmoid(logits):
    return 1 / (1 + np.exp(-logits))


def probability(logits, pos_weight=3):
    """Of odds that the loss made pos_weight times as high."""
    odds = np.exp(logits) / pos_weight
    return odds / (1 + odds)


def set_logits(run, logit_of):
    """Make logit_of(sample) the first dimension of each vector, which is the logit of the scorers here."""

    def edit(keys, hidden, **_):
        logits = torch.tensor([logit_of(sample) for _, sample in keys])
        return {"hidden": logits[:, None, None].expand_as(hidden).clone()}

    edit_hidden(run, edit)


# ---- Scores and selections


def test_scores_are_logits_and_weights_are_their_sigmoids_in_the_order_of_the_rollouts(run, select):
    """Also where the rows of hidden.pt have another order."""
    keys, hidden = read_vectors(run)
    logits = hidden[:, 0].float().numpy()
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    edit_hidden(run, lambda keys, hidden, **_: {"keys": [keys[i] for i in order], "hidden": hidden[order]})
    select()
    scores = common.read_jsonl(run / "scores" / "first.jsonl")
    assert common.keys_of(scores) == keys
    assert [row["score"] for row in scores] == pytest.approx(logits.tolist(), abs=1e-6)
    assert [row["weight"] for row in scores] == pytest.approx(sigmoid(logits).tolist(), abs=1e-6)


def by_hand(run, scorer, logits, pos_weight=3):
    """{(problem, strategy): the row of selected.jsonl that these logits of all rollouts lead to}"""
    problems = {}
    for label, logit in zip(common.read_labels(run), logits):
        row = {name: label[name] for name in ("id", "sample", "label", "answer")}
        row |= {"scorer": scorer, "score": logit, "weight": sigmoid(logit)}
        row["p"] = probability(logit, pos_weight)
        problems.setdefault(row["id"], []).append(row)
    picks = {}
    for problem, rows in problems.items():
        sums = Counter()
        for row in rows:
            sums[row["answer"]] += row["weight"]
        winner = max(sums, key=sums.get)
        candidates = {"best-of-n": rows, "weighted-vote": [row for row in rows if row["answer"] == winner]}
        for strategy, some in candidates.items():
            row = dict(max(some, key=lambda row: row["score"]))
            del row["weight"]
            numbers = row | {"vote": sums[row["answer"]] / sum(sums.values())}
            numbers = {name: pytest.approx(numbers[name], rel=1e-5) for name in ("score", "p", "vote")}
            picks[problem, strategy] = row | numbers | {"strategy": strategy}
    return picks


def test_selections_by_hand(run, select):
    said = select().stdout
    _, hidden = read_vectors(run)
    expected = by_hand(run, "first", hidden[:, 0].float().tolist())
    assert selected(run) == expected
    right = sum(row["label"] for (_, strategy), row in expected.items() if strategy == "best-of-n")
    assert f"10 answers, one a problem, {right} of 10 judged ones right, picked by" in said


def test_ranking_is_by_logits_where_a_sigmoid_is_1(run, select):
    set_logits(run, lambda sample: 40.0 + sample)
    select()
    assert {row["weight"] for row in common.read_jsonl(run / "scores" / "first.jsonl")} == {1}
    assert {*samples(run, "best-of-n")} == {5}


def test_labels_change_no_selection_and_accuracy_counts_judged_answers(run, select):
    def chosen():
        return samples(run, "best-of-n"), samples(run, "weighted-vote")

    select()
    before = chosen()

    def flip(row):
        return row | {"label": None if row["id"] == "p0" else 1 - row["label"]}

    edit_jsonl(run / "labels.jsonl", flip)
    said = select().stdout
    right = sum(row["label"] for row in answers(run) if row["id"] != "p0")
    assert "label" not in answers(run)[0]
    assert f"{right} of 9 judged ones right" in said and chosen() == before
    edit_jsonl(run / "labels.jsonl", lambda row: row | {"label": None})  # as 02 without references
    assert "one a problem, picked by" in select().stdout and chosen() == before
    assert not any("label" in row for row in [*selected(run).values(), *answers(run)])
    (run / "labels.jsonl").unlink()
    assert "no labels.jsonl, so no answers and no votes: run 02_label.py" in select().stdout
    assert chosen() == (before[0], [])
    assert {row["answer"] for row in answers(run)} == {None} and "vote" not in answers(run)[0]


# ---- answers.jsonl


def validated(path, best_of_n=None, weighted_vote=None, **changes):
    """A scorer that says how often each strategy was right on the validation part."""
    known = {"best-of-n": best_of_n, "weighted-vote": weighted_vote}
    accuracy = {strategy: share for strategy, share in known.items() if share is not None}
    return first_dimension_scorer(path, right_of_validation=accuracy, **changes)


def test_one_answer_a_problem_by_the_mean_of_seeds(run, tmp_path, select):
    moved = [torch.ones(8), torch.full((8,), 0.25)]
    first = validated(tmp_path / "scatr.cal@32-1.pt", best_of_n=0.5)
    second = validated(tmp_path / "scatr.cal@32-2.pt", best_of_n=0.5, scale=moved, pos_weight=12.0)
    said = select(scorers=[first, second]).stdout
    _, hidden = read_vectors(run)
    logits = 2.5 * hidden[:, 0].float() - 2  # the mean of x and 4 (x - 1)
    expected = by_hand(run, "scatr.cal", logits.tolist(), pos_weight=6)  # in logarithms the mean of 3 and 12
    responses = {(row["id"], row["sample"]): row["response"] for row in common.read_rollouts(run)}
    for i, row in enumerate(answers(run)):
        pick = expected[f"p{i}", "best-of-n"]
        texts = {"prompt": f"What is {i}?", "response": responses[row["id"], row["sample"]]}
        assert row | {"score": pick["score"]} == pick | texts
    last = answers(run)[2]  # of three that are printed
    remarks = f"best-of-n, p {last['p']:.2g}, vote {last['vote']:.2g}, label {last['label']}"
    assert f"What is 2?\n    {last['answer']}\n    [{remarks}]" in said and "What is 3?" not in said


@pytest.mark.parametrize("names, options, wanted, reason", [
    ("a@1 a@2 b@1", "", ("b", "weighted-vote"), "b, weighted-vote: 70.0 % of the validation problems right"),
    ("a@1 a@2 b@1", "--strategy best-of-n", ("a", "best-of-n"), "a, best-of-n: 60.0 % of the validation problems right, the most of 2"),
    ("plain a@1 a@2", "", ("a", "best-of-n"), "60.0 % of the validation problems right, the most of 4"),
    ("plain", "--strategy weighted-vote", ("plain", "weighted-vote"), "the first given"),
    ("a@1 a@plain", "", ("a", "best-of-n"), "the first given"),
])  # fmt: skip
def test_what_was_right_most_often_in_validation_picks(
    run, tmp_path, select, names, options, wanted, reason
):
    """Accuracies of seeds are averaged; an unknown accuracy is less than any known one."""
    validated(tmp_path / "a@1.pt", 0.9, 0.2)
    validated(tmp_path / "a@2.pt", 0.3, 0.4)
    validated(tmp_path / "b@1.pt", 0.5, 0.7)
    first_dimension_scorer(tmp_path / "plain.pt")
    first_dimension_scorer(tmp_path / "a@plain.pt")
    scorers = [tmp_path / f"{name}.pt" for name in names.split()]
    said = select(*options.split(), scorers=scorers).stdout.splitlines()
    assert {(row["scorer"], row["strategy"]) for row in answers(run)} == {wanted} and reason in said[-2]
    assert "answers.jsonl: 10 answers, one a problem, " in said[-3] and said[-3].endswith(" right, picked by")
    first = next(path for path in scorers if path.stem.partition("@")[0] == wanted[0])
    assert said[-1] == f"the scorer that picked: {first}"
    assert {row["scorer"] for row in common.read_jsonl(run / "selected.jsonl")} == {*names.split()}


def test_programs_do_not_vote_and_are_cut_on_the_screen(run, tmp_path, select):
    b = validated(tmp_path / "b@1.pt", 0.5, 0.7)
    program = "def f():\n    return 1\n" * 9
    edit_jsonl(run / "labels.jsonl", lambda row: row | {"group": None, "answer": program})
    said = select(scorers=[b]).stdout
    assert "b, best-of-n: 50.0 %" in said and "the most of" not in said
    assert said.count("    def f():\n        return 1\n") == 3 * 6
    error = select("--strategy", "weighted-vote", scorers=[b], code=2).stderr
    assert "no answers that can be equal" in error


# ---- Without a scorer


def set_likelihoods(run, of_samples):
    """The mean log-probability of each sample's tokens; None: unknown."""

    def edit(row):
        return row | {"conf": row["conf"] | {"likelihood/avg": of_samples[row["sample"]]}}

    edit_jsonl(run / "rollouts.jsonl", edit)


@pytest.mark.parametrize("groups, likelihoods, options, wanted", [
    ([0, 1, 1, 1, 2, 2], [-1, -5, -4, -6, -2, -3], "", (2, "majority", 3 / 6)),
    ([0, 0, 1, 1, None, None], [-5, -4, -3, -6, -1, -2], "", (2, "majority", 2 / 4)),
    ([0, 1, 1, 1, 2, 2], [-1, -5, -4, -6, -2, -3], "--strategy best-of-n", (0, "likeliest", 1 / 6)),
    ([None] * 6, [-5, None, -4, -6, -2, -3], "", (4, "likeliest", None)),
])  # fmt: skip
def test_without_a_scorer_the_majority_picks_or_likelihood(
    run, run_here, groups, likelihoods, options, wanted
):
    """Of equal votes the likelier answer wins. No p is claimed."""
    edit_jsonl(run / "labels.jsonl", lambda row: row | {"group": groups[row["sample"]]})
    set_likelihoods(run, likelihoods)
    said = run_here("04_select.py", run, *options.split()).stdout
    for row in answers(run):
        assert (row["sample"], row["strategy"], row.get("vote")) == wanted
        assert row["scorer"] is None and row["p"] is None
    assert said.endswith("the scorer that picked: none was given\n")
    assert samples(run, wanted[1]) == [wanted[0]] * 10


# ---- What is refused, and what is a warning


@pytest.mark.parametrize("changes, words", [
    ({"model": "other"}, ("'other'", "'tiny'")),
    ({"n_layers": 28}, ("28", "5")),
    ({"vector": "2/eos"}, ("2/eos", "penultimate/eos")),
    ({"shape": [9], "width": 9}, ("9", "8")),
])  # fmt: skip
def test_a_scorer_made_for_something_else_names_both(run, tmp_path, changes, words, select):
    error = select(scorers=[first_dimension_scorer(tmp_path / "other.pt", **changes)], code=2).stderr
    assert all(word in error for word in words) and not (run / "selected.jsonl").exists(), error


def test_other_files_are_refused_as_scorers(run, tmp_path, select):
    common.save_pt(tmp_path / "list.pt", [1])
    common.save_pt(tmp_path / "old.pt", {"members": [], "parts": [{"members": []}]})
    for other in (tmp_path / "list.pt", tmp_path / "old.pt", run / "tokens.pt"):
        assert "not a scorer" in select(scorers=[other], code=2).stderr
    assert "no such file" in select(scorers=[tmp_path / "none.pt"], code=2).stderr
    one = first_dimension_scorer(tmp_path / "one.pt")
    assert "--scorer: two files have one name" in select(scorers=[one, one], code=2).stderr


def test_broken_runs_are_refused(run, select):
    set_logits(run, [0.0, 0.0, 0.0, float("nan"), 0.0, 0.0].__getitem__)
    assert "10 vectors are not finite, such as ('p0', 3)" in select(code=2).stderr
    edit_hidden(run, lambda keys, hidden, **_: {"keys": keys[:-1], "hidden": hidden[:-1].nan_to_num()})
    assert "59 rows for a run of 60" in select(code=2).stderr


SAMPLED = {"temperature": 1.0, "top_k": 0, "max_new_tokens": 64}
AS_CALIBRATED = {
    "sampling": {"temperature": 1.0, "top_k": 0, "stop_ids": [2]}, "stamp": {"max_new_tokens": 64},
}  # fmt: skip


@pytest.mark.parametrize("meta, calibration, said", [
    (AS_CALIBRATED, SAMPLED, None),
    (AS_CALIBRATED | {"stamp": {"max_new_tokens": 16}}, SAMPLED | {"temperature": 0.2},
     "temperature 1.0, not 0.2; max_new_tokens 16, not 64"),
    (AS_CALIBRATED | {"arguments": {"responses": "made.jsonl"}}, {"top_k": 0}, "top_k unknown, not 0"),
])  # fmt: skip
def test_other_sampling_settings_than_the_calibrations_are_named_once(
    run, tmp_path, select, meta, calibration, said
):
    common.write_json(run / "meta.json", common.read_meta(run) | meta)
    scorers = []
    for seed in (1, 2):
        scorers.append(first_dimension_scorer(tmp_path / f"scatr.c@32-{seed}.pt", sampling=calibration))
    line = f"warning: {run}: sampled otherwise than the calibration ({said}); p may be off\n"
    assert select(scorers=scorers).stderr == ("" if said is None else line)
