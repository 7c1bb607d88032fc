"""04: scores of a known scorer, selections by hand, no label ever reaches a choice, broken joins are refused."""

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
    checkpoint = {"design": "mlp", "model": "tiny", "vector": "penultimate/eos", "shape": [width], "layers_of_model": 5, "scale": None,
                  "model_content": None, "calibration": (1.0, 0.0), "members": [{"config": config, "state": state}]}  # fmt: skip
    common.save_pt(path, {**checkpoint, **changes})
    return path


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path / "run", problems=10, n=6)


def selected(run):
    return {(row["id"], row["strategy"]): row for row in common.read_jsonl(run / "selected.jsonl")}


def test_scores_and_selection_by_hand(run, tmp_path, run_here):
    done = run_here("04_select.py", run, "--scorer", first_dimension_scorer(tmp_path / "first.pt"), "--chunk", 7, "--json")
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
    assert last_json(done)["selected"][0] == {"scorer": "first", "strategy": "best-of-n", "problems": 10, "judged": 10, "accuracy": right / 10}


def test_ranking_is_by_logits_where_a_sigmoid_saturates(run, tmp_path, run_here):
    stored = common.load_pt(run / "hidden.pt")
    hidden = stored["hidden"].clone()
    hidden[:, :, 0] = torch.tensor([[40.0 + key[1]] for key in stored["keys"]])
    common.save_pt(run / "hidden.pt", {**stored, "hidden": hidden})
    run_here("04_select.py", run, "--scorer", first_dimension_scorer(tmp_path / "first.pt"))
    assert {row["p"] for row in common.read_jsonl(run / "scores" / "first.jsonl")} == {1.0}
    assert {row["sample"] for row in common.read_jsonl(run / "selected.jsonl") if row["strategy"] == "best-of-n"} == {5}


def test_no_label_reaches_the_selection(run, tmp_path, run_here):
    scorer = first_dimension_scorer(tmp_path / "first.pt")
    run_here("04_select.py", run, "--scorer", scorer)
    before = {key: row["sample"] for key, row in selected(run).items()}
    rows = common.read_jsonl(run / "labels.jsonl")
    common.write_jsonl(run / "labels.jsonl", [{**row, "label": 1 - row["label"]} for row in rows])
    run_here("04_select.py", run, "--scorer", scorer)
    assert {key: row["sample"] for key, row in selected(run).items()} == before
    common.write_jsonl(run / "labels.jsonl", [{**row, "label": None} for row in rows])  # a data set without answers
    done = run_here("04_select.py", run, "--scorer", scorer)
    assert {key: row["sample"] for key, row in selected(run).items()} == before and "not judged" in done.stdout
    assert not any("label" in row for row in selected(run).values())
    (run / "labels.jsonl").unlink()
    run_here("04_select.py", run, "--scorer", scorer, "--force")
    assert {key: row["sample"] for key, row in selected(run).items()} == {k: v for k, v in before.items() if k[1] == "best-of-n"}


def test_labels_older_than_an_edited_answer_are_named_each_time(run, tmp_path, run_here):
    scorer, later = first_dimension_scorer(tmp_path / "first.pt"), (run / "labels.jsonl").stat().st_mtime + 5
    os.utime(run / "problems.jsonl", (later, later))
    for _ in range(2):
        done = run_here("04_select.py", run, "--scorer", scorer)
        assert "labels.jsonl is older than problems.jsonl" in done.stderr and f"02_label.py {run} judges again" in done.stderr
    assert "newer than the run" in done.stdout


def test_every_strategy_picks_for_every_problem(run, tmp_path, run_here):
    """One without any answer cannot vote; dropping it would raise the vote's accuracy."""
    rows = common.read_jsonl(run / "labels.jsonl")
    common.write_jsonl(run / "labels.jsonl", [{**row, "group": None} if row["id"] == "p3" else row for row in rows])
    run_here("04_select.py", run, "--scorer", first_dimension_scorer(tmp_path / "first.pt"))
    assert len(selected(run)) == 20
    assert selected(run)["p3", "weighted-vote"]["sample"] == selected(run)["p3", "best-of-n"]["sample"]


def test_ties_go_to_the_lowest_sample(run, tmp_path, run_here):
    stored = common.load_pt(run / "hidden.pt")
    stored["hidden"] = torch.zeros_like(stored["hidden"])
    common.save_pt(run / "hidden.pt", stored)
    run_here("04_select.py", run, "--scorer", first_dimension_scorer(tmp_path / "first.pt"))
    assert {row["sample"] for (_, strategy), row in selected(run).items() if strategy == "best-of-n"} == {0}


def test_hidden_states_are_joined_by_key(run, tmp_path, run_here):
    """The rows of hidden.pt in another order: the same selection."""
    scorer = first_dimension_scorer(tmp_path / "first.pt")
    run_here("04_select.py", run, "--scorer", scorer)
    before = selected(run)
    stored = common.load_pt(run / "hidden.pt")
    order = torch.randperm(len(stored["keys"]), generator=torch.Generator().manual_seed(0))
    common.save_pt(run / "hidden.pt", {**stored, "keys": [stored["keys"][i] for i in order], "hidden": stored["hidden"][order]})
    run_here("04_select.py", run, "--scorer", scorer)
    assert selected(run) == before


def test_a_second_run_does_nothing_until_an_input_changes(run, tmp_path, run_here):
    scorers = [first_dimension_scorer(tmp_path / "one.pt"), first_dimension_scorer(tmp_path / "two.pt")]
    run_here("04_select.py", run, "--scorer", *scorers)
    written = os.stat(run / "selected.jsonl").st_mtime_ns
    assert "newer" in run_here("04_select.py", run, "--scorer", *scorers).stdout
    assert os.stat(run / "selected.jsonl").st_mtime_ns == written
    time.sleep(0.02)
    os.utime(scorers[1])
    run_here("04_select.py", run, "--scorer", *scorers)
    assert os.stat(run / "selected.jsonl").st_mtime_ns > written
    assert {row["scorer"] for row in common.read_jsonl(run / "selected.jsonl")} == {"one", "two"}


def test_another_scorer_of_the_same_name_is_not_taken_for_the_first(run, tmp_path, run_here):
    """Two scorer.pt, both older than the scores of the first."""
    for folder, offset in (("one", 0.0), ("two", 5.0)):
        (tmp_path / folder).mkdir()
        scorer = first_dimension_scorer(tmp_path / folder / "scorer.pt")
        checkpoint = torch.load(scorer, weights_only=True)
        next(x for name, x in checkpoint["members"][0]["state"].items() if name.endswith("bias")).fill_(offset)
        common.save_pt(scorer, checkpoint)
    found = []
    for folder in ("one", "two"):
        run_here("04_select.py", run, "--scorer", tmp_path / folder / "scorer.pt")
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
def test_a_scorer_made_for_something_else_names_both(run, tmp_path, run_here, changes, words):
    scorer = first_dimension_scorer(tmp_path / "other.pt", **({"width": 9} if "shape" in changes else {}), **changes)
    error = run_here("04_select.py", run, "--scorer", scorer, code=2).stderr
    assert all(word in error for word in words), error
    assert not (run / "selected.jsonl").exists()


def test_broken_runs_are_refused(run, tmp_path, run_here):
    scorer = first_dimension_scorer(tmp_path / "first.pt")
    stored = common.load_pt(run / "hidden.pt")
    common.save_pt(run / "hidden.pt", {**stored, "keys": stored["keys"][:-1], "hidden": stored["hidden"][:-1].clone()})
    assert "59 rows for a run of 60" in run_here("04_select.py", run, "--scorer", scorer, code=2).stderr
    hidden = stored["hidden"].clone()
    hidden[3, :, 0] = float("nan")
    common.save_pt(run / "hidden.pt", {**stored, "hidden": hidden})
    assert "('p0', 3)" in run_here("04_select.py", run, "--scorer", scorer, code=2).stderr
    assert "no such file" in run_here("04_select.py", run, "--scorer", tmp_path / "none.pt", code=2).stderr
    assert "not a scorer" in run_here("04_select.py", run, "--scorer", run / "tokens.pt", code=2).stderr


def test_memory_is_bounded_by_the_chunk(tmp_path):
    """A file of 200 MB is scored within 120 MB above what a run of nothing needs."""
    scorer = first_dimension_scorer(tmp_path / "wide.pt", width=40960)
    for rollouts in (4, 2500):
        run = make_run(tmp_path / f"{rollouts}", problems=rollouts // 4, n=4, labels=False)
        keys, hidden = common.load_pt(run / "hidden.pt")["keys"], torch.zeros(rollouts, 1, 40960, dtype=torch.bfloat16)
        common.save_pt(run / "hidden.pt", {"keys": keys, "vectors": ["penultimate/eos"], "hidden": hidden})
        common.write_json(run / "meta.json", {**common.read_meta(run), "width": 40960})
    script = (
        "import importlib, sys\n"
        "for run in ('4', '2500'):\n"
        "    sys.argv = ['04', run, '--scorer', 'wide.pt', '--chunk', '64']\n"
        f"    sys.path.insert(0, {str(ROOT)!r})\n"
        "    importlib.import_module('04_select').main()\n"
        "    print(next(line for line in open('/proc/self/status') if line.startswith('RssAnon')).split()[1])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=scorer.parent, capture_output=True, text=True, check=True)
    before, after = (int(line) for line in done.stdout.splitlines() if line.isdigit())
    assert (after - before) / 1024 < 120
