"""04: scores of a known scorer, selections by hand, no label reaches a choice, broken joins are refused."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from conftest import ROOT, last_json, make_run, read_vectors

import common


def first_dimension_scorer(path, width=8, **changes):
    """A scorer whose logit is the first dimension of the vector."""
    module = common.mlp(width, [])
    state = {name: torch.zeros_like(value) for name, value in module.state_dict().items()}
    state[next(name for name in state if name.endswith("weight"))][0, 0] = 1.0
    config = {"hidden": [], "dropout": 0.0, "input_dropout": 0.0, "batch_norm": False}
    checkpoint = {
        "design": "mlp", "model": "tiny", "vector": "penultimate/eos", "shape": [width], "layers_of_model": 5,
        "scale": None, "model_content": None, "config": config, "state": state,
    }  # fmt: skip
    common.save_pt(path, {**checkpoint, **changes})
    return path


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path / "run", problems=10, n=6)


@pytest.fixture
def select(run, tmp_path, run_here):
    """select(*arguments, scorers=...) -> 04 as it ended, of `run`."""
    first = first_dimension_scorer(tmp_path / "first.pt")
    ours = "04_select.py", run, "--scorer"
    return lambda *args, scorers=(first,), code=0: run_here(*ours, *scorers, *args, code=code)


def selected(run):
    return {(row["id"], row["strategy"]): row for row in common.read_jsonl(run / "selected.jsonl")}


def picks(run):
    return {key: row["sample"] for key, row in selected(run).items()}


def change(run, file, function):
    rows = common.read_jsonl(run / file)
    common.write_jsonl(run / file, [row | function(row) for row in rows])


def test_scores_and_selection_by_hand(run, select):
    done = select("--chunk", 7, "--json")
    keys, hidden = read_vectors(run)
    logits = hidden[:, 0].float().numpy()
    scores = common.read_jsonl(run / "scores" / "first.jsonl")
    assert common.keys_of(scores) == keys
    assert [row["score"] for row in scores] == pytest.approx(logits.tolist(), abs=1e-6)
    assert [row["p"] for row in scores] == pytest.approx((1 / (1 + np.exp(-logits))).tolist(), abs=1e-6)
    rollouts, labels, right = common.read_rollouts(run), common.read_labels(run), 0
    for i in range(10):
        mine = [j for j, key in enumerate(keys) if key[0] == f"p{i}"]
        best = max(mine, key=lambda j: logits[j])
        sums = {}
        for j in mine:
            sums[labels[j]["group"]] = sums.get(labels[j]["group"], 0) + scores[j]["p"]
        winner = max(sums, key=sums.get)
        voted = max((j for j in mine if labels[j]["group"] == winner), key=lambda j: logits[j])
        for strategy, pick in (("best-of-n", best), ("weighted-vote", voted)):
            row = selected(run)[f"p{i}", strategy]
            assert row["sample"] == keys[pick][1] and row["response"] == rollouts[pick]["response"]
            assert row["label"] == labels[pick]["label"] and row["scorer"] == "first"
        right += labels[best]["label"]
    told = {"scorer": "first", "strategy": "best-of-n", "problems": 10, "judged": 10, "accuracy": right / 10}
    assert last_json(done)["selected"][0] == told


def test_ranking_is_by_logits_where_a_sigmoid_saturates(run, select):
    stored = common.load_pt(run / "hidden.pt")
    hidden = stored["hidden"].clone()
    hidden[:, :, 0] = torch.tensor([[40.0 + key[1]] for key in stored["keys"]])
    common.save_pt(run / "hidden.pt", {**stored, "hidden": hidden})
    select()
    assert {row["p"] for row in common.read_jsonl(run / "scores" / "first.jsonl")} == {1.0}
    assert {sample for (_, strategy), sample in picks(run).items() if strategy == "best-of-n"} == {5}


def test_no_label_reaches_the_selection(run, select):
    select()
    before = picks(run)
    change(run, "labels.jsonl", lambda row: {"label": 1 - row["label"]})
    select()
    assert picks(run) == before
    change(run, "labels.jsonl", lambda row: {"label": None})  # a data set without answers
    assert "not judged" in select().stdout and picks(run) == before
    assert not any("label" in row for row in selected(run).values())
    (run / "labels.jsonl").unlink()
    select("--force")
    assert picks(run) == {key: sample for key, sample in before.items() if key[1] == "best-of-n"}


def test_labels_older_than_an_edited_answer_are_named_each_time(run, select):
    later = (run / "labels.jsonl").stat().st_mtime + 5
    os.utime(run / "problems.jsonl", (later, later))
    for _ in range(2):
        done = select()
        assert "labels.jsonl is older than problems.jsonl" in done.stderr
        assert f"02_label.py {run} judges again" in done.stderr
    assert "newer than the run" in done.stdout


def test_every_strategy_picks_for_every_problem(run, select):
    """One without any answer cannot vote; dropping it would raise the vote's accuracy."""
    change(run, "labels.jsonl", lambda row: {"group": None} if row["id"] == "p3" else {})
    select()
    assert len(selected(run)) == 20
    assert selected(run)["p3", "weighted-vote"]["sample"] == selected(run)["p3", "best-of-n"]["sample"]


def test_ties_go_to_the_lowest_sample(run, select):
    stored = common.load_pt(run / "hidden.pt")
    stored["hidden"] = torch.zeros_like(stored["hidden"])
    common.save_pt(run / "hidden.pt", stored)
    select()
    assert {row["sample"] for (_, strategy), row in selected(run).items() if strategy == "best-of-n"} == {0}


def test_hidden_states_are_joined_by_key(run, select):
    """The rows of hidden.pt in another order: the same selection."""
    select()
    before = selected(run)
    stored = common.load_pt(run / "hidden.pt")
    order = torch.randperm(len(stored["keys"]), generator=torch.Generator().manual_seed(0))
    keys = [stored["keys"][i] for i in order]
    common.save_pt(run / "hidden.pt", {**stored, "keys": keys, "hidden": stored["hidden"][order]})
    select()
    assert selected(run) == before


def test_a_second_run_does_nothing_until_an_input_changes(run, tmp_path, select):
    scorers = [first_dimension_scorer(tmp_path / "one.pt"), first_dimension_scorer(tmp_path / "two.pt")]
    select(scorers=scorers)
    written = os.stat(run / "selected.jsonl").st_mtime_ns
    assert "newer" in select(scorers=scorers).stdout
    assert os.stat(run / "selected.jsonl").st_mtime_ns == written
    time.sleep(0.02)
    os.utime(scorers[1])
    select(scorers=scorers)
    assert os.stat(run / "selected.jsonl").st_mtime_ns > written
    assert {row["scorer"] for row in common.read_jsonl(run / "selected.jsonl")} == {"one", "two"}


def test_another_scorer_of_the_same_name_is_not_taken_for_the_first(run, tmp_path, select):
    """Two scorer.pt, both older than the scores of the first."""
    for folder, offset in (("one", 0.0), ("two", 5.0)):
        (tmp_path / folder).mkdir()
        scorer = first_dimension_scorer(tmp_path / folder / "scorer.pt")
        checkpoint = torch.load(scorer, weights_only=True)
        state = checkpoint["state"]
        state[next(name for name in state if name.endswith("bias"))].fill_(offset)
        common.save_pt(scorer, checkpoint)
    found = []
    for folder in ("one", "two"):
        select(scorers=[tmp_path / folder / "scorer.pt"])
        found.append([row["score"] for row in common.read_jsonl(run / "scores" / "scorer.jsonl")])
    assert found[1] == pytest.approx([score + 5 for score in found[0]])


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"model": "other"}, ("'other'", "'tiny'")),
        ({"layers_of_model": 28}, ("28", "5")),
        ({"vector": "2/eos"}, ("2/eos", "penultimate/eos")),
        ({"shape": [9]}, ("9", "8")),
    ],
)
def test_a_scorer_made_for_something_else_names_both(run, tmp_path, changes, words, select):
    width = {"width": 9} if "shape" in changes else {}
    scorer = first_dimension_scorer(tmp_path / "other.pt", **width, **changes)
    error = select(scorers=[scorer], code=2).stderr
    assert all(word in error for word in words), error
    assert not (run / "selected.jsonl").exists()


def test_broken_runs_are_refused(run, tmp_path, select):
    stored = common.load_pt(run / "hidden.pt")
    fewer = {"keys": stored["keys"][:-1], "hidden": stored["hidden"][:-1].clone()}
    common.save_pt(run / "hidden.pt", stored | fewer)
    assert "59 rows for a run of 60" in select(code=2).stderr
    hidden = stored["hidden"].clone()
    hidden[3, :, 0] = float("nan")
    common.save_pt(run / "hidden.pt", {**stored, "hidden": hidden})
    assert "('p0', 3)" in select(code=2).stderr
    assert "no such file" in select(scorers=[tmp_path / "none.pt"], code=2).stderr
    assert "not a scorer" in select(scorers=[run / "tokens.pt"], code=2).stderr


def test_memory_is_bounded_by_the_chunk(tmp_path):
    """A file of 200 MB is scored within 120 MB above what a run of nothing needs."""
    scorer = first_dimension_scorer(tmp_path / "wide.pt", width=40960)
    for rollouts in (4, 2500):
        run = make_run(tmp_path / f"{rollouts}", problems=rollouts // 4, n=4, labels=False)
        hidden = {"vectors": ["penultimate/eos"], "hidden": torch.zeros(rollouts, 1, 40960).bfloat16()}
        common.save_pt(run / "hidden.pt", {"keys": common.load_pt(run / "hidden.pt")["keys"], **hidden})
        common.write_json(run / "meta.json", {**common.read_meta(run), "width": 40960})
    script = (
        "import importlib, sys\n"
        "for run in ('4', '2500'):\n"
        "    sys.argv = ['04', run, '--scorer', 'wide.pt', '--chunk', '64']\n"
        f"    sys.path.insert(0, {str(ROOT)!r})\n"
        "    importlib.import_module('04_select').main()\n"
        "    print(next(line for line in open('/proc/self/status') if line.startswith('RssAnon')).split()[1])"
    )
    said = subprocess.check_output([sys.executable, "-c", script], cwd=scorer.parent, text=True)
    before, after = (int(line) for line in said.splitlines() if line.isdigit())
    assert (after - before) / 1024 < 120
