"""03_train_scorer.py: the search is the one it says, studies measure what they say, bad input is one line."""

import copy
import importlib
import itertools
import json
import math
import threading
import time

import bench_curve
import numpy as np
import pytest
import torch
from bench_train import draw_rollouts, make_world, plain_loop
from conftest import CREDITS, best, dies, make_run, mean_over_subsets, pairs_in_order, read_vectors

import common

trainer = importlib.import_module("03_train_scorer")
MLP = {"number": 0, "hidden": [16, 8], "lr": 1e-3, "dropout": 0.0, "input_dropout": 0.0, "batch_size": 16,
       "weight_decay": 1e-3, "batch_norm": False}  # fmt: skip


@pytest.fixture(autouse=True)
def small_models(monkeypatch, request):
    """Layers that train in a blink, little patience; tests of the space and of training see the real ones."""
    if "the_space" not in request.node.name and "training" not in request.node.name:
        tiny = tuple((below, ([[24, 12], [32, 16, 8]], *choices[1:])) for below, choices in trainer.SPACES)
        monkeypatch.setattr(trainer, "SPACES", tiny)
        monkeypatch.setattr(trainer, "PATIENCE", 2)


def make_data(problems=40, n=4, seed=0):
    return draw_rollouts(make_world(12), problems, n, seed)


def make_job(*runs, **changes):
    """03's arguments for one search, as its command line makes them."""
    args = trainer.parse_args(["run", "--configs", "3", "--workers", "1", "--device", "cpu"])
    (job,) = trainer.jobs_of(args, [list(runs or args.runs)], **changes)
    return job


def make_task(configs, data=None, **changes):
    task = trainer.make_task(data or make_data(), make_job(**changes))
    return task._replace(configs=[{**MLP, "number": i, **config} for i, config in enumerate(configs)])


def train_run(run, *options, out=None):
    """03 in this process -> the loaded scorer."""
    out = out or run / "scorer.pt"
    trainer.content_of.cache_clear()  # a program reads a run once
    trainer.main([str(run), "-o", str(out), "--workers", "1", *map(str, options)])
    return common.load_scorer(out)


def refusal(capsys, *argv):
    trainer.content_of.cache_clear()
    return dies(capsys, trainer.main, [*map(str, argv), "--workers", "1"])


def right_of(run, keys=None):
    return np.array([row["label"] for row in common.read_labels(run, keys)]) > 0


def auroc_of(scorer, run):
    keys, logits = common.score_run(scorer, run)
    return common.auroc(right_of(run, keys), logits.numpy())


def spoil(run, row, value=math.nan):
    stored = common.load_pt(run / "hidden.pt")
    hidden = stored["hidden"].clone()
    hidden[row] = value
    common.save_pt(run / "hidden.pt", {**stored, "hidden": hidden})
    return run


def relabel(run, change):
    """change(i, row) gives the label of the i-th row."""
    rows = [{**row, "label": change(i, row)} for i, row in enumerate(common.read_labels(run))]
    common.write_jsonl(run / "labels.jsonl", rows)
    return rows


# ---- The search itself


SHAPES = {(512, 256), (512, 256, 128), (1024, 512), (1024, 512, 256)}
WIDER = SHAPES - {(512, 256), (512, 256, 128)} | {(2048, 1024), (2048, 1024, 512)}
MIDDLE = (SHAPES, {0.4, 0.5, 0.6}, {0.1, 0.2, 0.3}, {32, 64, 128}, {1e-4, 1e-3, 5e-3}, {False, True})
SPACE = {  # rollouts of training: shapes, dropout, input dropout, batch size, weight decay, batch norm
    999: (SHAPES, {0.5, 0.6, 0.7}, {0.2, 0.3, 0.4}, {16, 32}, {1e-3, 5e-3, 1e-2}, {False}),
    1000: MIDDLE, 4999: MIDDLE,
    5000: (WIDER, {0.3, 0.4, 0.5}, {0.0, 0.1, 0.2}, {64, 128, 256}, {1e-5, 1e-4, 1e-3}, {False, True}),
}  # fmt: skip


@pytest.mark.parametrize("n", SPACE)
def test_the_space_is_the_papers(n):
    draw = lambda **changes: trainer.draw_configs(n, make_job(**{"configs": 100, **changes}))
    for paper_space, (shapes, *others) in ((False, SPACE[n]), (True, [SHAPES, *SPACE[n][1:]])):
        drawn = draw(paper_space=paper_space)
        knobs = ("dropout", "input_dropout", "batch_size", "weight_decay", "batch_norm")
        assert [{c[knob] for c in drawn} for knob in knobs] == others
        assert {tuple(c["hidden"]) for c in drawn} == shapes
        assert {c["lr"] for c in drawn} == {1e-4, 5e-4, 1e-3}
        assert len({str({**c, "number": 0}) for c in drawn}) == 100, "all differ"
        assert [c["number"] for c in drawn] == list(range(100))
    other = trainer.changed(make_job(configs=7), seed=42)
    assert draw(configs=7) == draw()[:7] != trainer.draw_configs(n, other)


def test_the_split_is_by_problem_three_to_one_and_training_has_both_labels():
    one_right = torch.tensor([1.0] * 4 + [0.0] * 12)  # a careless split leaves training without one
    cases = [(make_data(4)._replace(y=one_right), (3, 1), range(20)), (make_data(40), (30, 10), [32])]
    for data, sizes, seeds in cases:
        for seed in seeds:
            sides = trainer.split_by_problem(data, seed)
            problems = [{data.problem[i] for i in side} for side in sides]
            assert tuple(map(len, problems)) == sizes and not problems[0] & problems[1]
            assert sorted(sum(sides, [])) == list(range(len(data.y)))
            assert set(data.y[sides[0]].tolist()) == {0.0, 1.0}


def test_a_family_of_problems_stays_on_one_side_as_far_as_three_to_one_goes(tmp_path):
    """Families of 2 and 3 problems beside problems of their own; and one that is nearly all there is."""
    run = make_run(tmp_path / "run", problems=40)
    rows = list(common.read_jsonl(run / "problems.jsonl"))
    for sizes in ([2] * 8 + [3] * 4, [37]):
        names = [f"kind {i}" for i, size in enumerate(sizes) for _ in range(size)]
        named = [{**row, "family": name} for row, name in zip(rows, names)]
        common.write_jsonl(run / "problems.jsonl", named + rows[len(named) :])
        data = trainer.load_data([run], "penultimate/eos")
        for seed in range(20):
            sides = trainer.split_by_problem(data, seed)
            families = [{names[int(i[1:])] if int(i[1:]) < len(names) else i for i in ids} for ids in
                        [{data.keys[row][1] for row in side} for side in sides]]  # fmt: skip
            assert not families[0] & families[1] and all(families)
            assert sorted(sum(sides, [])) == list(range(len(data.y)))
            count = len({data.problem[row] for row in sides[0]})
            assert count in ((30, 31, 32) if len(sizes) > 1 else (3, 37, 38, 39))


def test_another_family_makes_another_scorer(tmp_path, capsys):
    run = make_run(tmp_path / "run")
    first, again = (train_run(run, "--configs", "1").checkpoint["fingerprint"] for _ in range(2))
    assert first == again and "finished before" in capsys.readouterr().out
    rows = [{**row, "family": row["id"][:2]} for row in common.read_jsonl(run / "problems.jsonl")]
    common.write_jsonl(run / "problems.jsonl", rows)  # p1, p10 and p11 are of one family
    assert train_run(run, "--configs", "1").checkpoint["fingerprint"] != first
    common.write_jsonl(run / "problems.jsonl", ({**row, "family": row["id"] > "p5"} for row in rows))
    told = "labelled rollouts of 2 problem(s) or families; the split needs 4"
    assert told in refusal(capsys, run, "-o", tmp_path / "none.pt")


def test_a_problem_of_two_runs_of_one_data_set_stays_on_one_side(tmp_path):
    a, b, other = (make_run(tmp_path / name, dataset=name[0]) for name in ("a1", "a2", "b"))
    data = trainer.load_data([a, b], "penultimate/eos")
    assert len(data.y) == 96 and len(set(data.problem)) == 12 and len(set(data.keys)) == 96
    assert len(set(trainer.load_data([a, other], "penultimate/eos").problem)) == 24


@pytest.mark.parametrize("batch_norm", [False, True])
def test_training_is_torchs_adam_clipping_plateau_and_early_stop(batch_norm):
    """As a naive loop without dropout has it; right answers weigh wrong to right of the training part."""
    task = make_task([{}, {"batch_norm": batch_norm, "lr": 3e-3, "weight_decay": 1e-2}])
    config = task.configs[1]  # each has a seed of its own
    row, _ = trainer.train(task, config)
    right, wrong = ((task.y[task.train] == y).sum().item() for y in (1, 0))
    plain, _ = plain_loop(task._replace(pos_weight=wrong / right), config, epochs=100)
    assert 12 < len(plain["losses"]) < 100, "the schedule and the stop must both have had their say"
    assert len(row["losses"]) == row["epochs"] == len(plain["losses"])
    np.testing.assert_allclose(row["losses"], plain["losses"], rtol=2e-3)
    assert row["best_epoch"] == 1 + int(np.argmin(plain["losses"]))


def test_training_ends_after_100_epochs():
    task = make_task([{"lr": 1e-4, "batch_size": 64}], make_data(seed=3))
    row, _ = trainer.train(task, task.configs[0])
    assert len(row["losses"]) == 100 and row["best_epoch"] > 90, "it would have gone on"


def test_the_precision_of_products_is_the_callers_after_training_and_after_an_error():
    """01 and 05 in the same process, and one's own code, must not compute in what is good enough for 03."""
    torch.set_float32_matmul_precision("high")
    trainer.train(make_task([{}]), {**MLP}, epochs=1)
    assert torch.get_float32_matmul_precision() == "high"
    with pytest.raises(ValueError, match="more than 1 value"):
        trainer.train(make_task([{}])._replace(train=torch.arange(1)), {**MLP, "batch_norm": True}, epochs=1)
    assert torch.get_float32_matmul_precision() == "high"


def test_dropout_is_drawn_anew_and_keeps_the_mean():
    config = {"hidden": [8], "dropout": 0.75, "input_dropout": 0.5, "batch_norm": False}
    first, *_, last, _, _ = common.build_scorer("mlp", config, (1000,)).train()
    for layer, kept in ((first, 0.5), (last, 0.25)):
        masks = [layer(torch.ones(9, 1000)) for _ in range(2)]
        assert set(masks[0].flatten().tolist()) == {0.0, 1 / kept} and not torch.equal(*masks)
        assert masks[0].mean().item() == pytest.approx(1, abs=0.1)
        assert (layer.eval()(torch.ones(9)) == 1).all()


@pytest.mark.parametrize("n, sizes", [(33, [33]), (65, [32, 33]), (66, [32, 32, 2]), (1, [1])])
def test_no_batch_has_a_single_row(n, sizes):
    assert [len(rows) for rows in trainer.batches(torch.arange(n), 32, torch.Generator())] == sizes


def test_a_trial_that_stops_at_a_rung_keeps_nobody_waiting(monkeypatch):
    monkeypatch.setattr(trainer, "RUNGS", (1,))
    monkeypatch.setattr(trainer, "PATIENCE", 0)
    task, board = make_task([{}]), np.full((1, 1), math.nan)
    assert trainer.train(task, task.configs[0], board)[0]["epochs"] == 1
    assert not np.isnan(board).any()


def test_halving_ends_trials_at_a_rung_and_changes_no_other():
    usual = {"hidden": [8], "batch_size": 64, "lr": 1e-2}
    configs = [{**usual, "dropout": 0.1 * (i % 5), "weight_decay": 10.0 ** -(i % 4)} for i in range(8)]
    task = make_task(configs)
    full = [trainer.train(task, config)[0] for config in task.configs]
    halving = task._replace(job=trainer.changed(task.job, search="halving", configs=8))
    ((_, halved, _),) = trainer.search([halving])
    dropped = [row for row, whole in zip(halved, full, strict=True) if row["epochs"] < whole["epochs"]]
    assert len(dropped) >= 3 and {row["epochs"] for row in dropped} <= set(trainer.RUNGS)
    assert sum(row["epochs"] for row in halved) < 0.7 * sum(row["epochs"] for row in full)
    for one, other in zip(full, halved, strict=True):  # what was trained is not another training
        assert one["losses"][: len(other["losses"])] == other["losses"]


def test_a_trial_is_in_the_worse_half_of_those_before_it_of_its_rate_that_got_there():
    configs = [{"number": i, "lr": lr} for i, lr in enumerate([1e-3, 1e-4, 1e-3, 1e-3, 1e-3, 1e-3])]
    board = np.full((6, 4), math.nan)
    board[:, 0] = [0.5, 0.1, math.inf, 0.6, math.nan, math.nan]  # the third ended before this rung
    row = lambda number, loss: {**configs[number], "val_loss": loss, "losses": [0, loss]}
    for loss, hopeless in ((0.4, False), (0.55, False), (0.6, True), (0.7, True)):
        assert trainer.is_hopeless(row(4, loss), configs, board) == hopeless
        assert board[4, 0] == loss
    board[:, 0] = math.nan
    assert not trainer.is_hopeless(row(0, 9.0), configs, board), "nobody before it"
    board[0, 0], started = 0.5, time.monotonic()
    threading.Timer(0.3, lambda: board.__setitem__(([2, 3], 0), [0.6, math.inf])).start()
    assert trainer.is_hopeless(row(4, 0.65), configs, board), "both are better"
    assert time.monotonic() - started > 0.25, "it waited for those before it"


@pytest.mark.parametrize("search", ["paper", "halving"])
def test_runs_of_their_own_and_any_number_of_processes_make_the_same_scorers(tmp_path, search):
    runs = [make_run(tmp_path / name / "32", problems=8, seed=seed) for seed, name in enumerate("ab")]
    options = ["--configs", "2", "--search", search]
    out = ["-o", "{run}/all.{name}-{seed}.pt", "--seed", "32", "42", "--workers", "3"]
    trainer.main([*map(str, runs), *options, *out])
    found = {(run, seed): common.load_pt(run / f"all.{run.parent.name}@32-{seed}.pt")
             for run, seed in itertools.product(runs, (32, 42))}  # fmt: skip
    assert all((made["runs"], made["seed"]) == ([str(run)], seed) for (run, seed), made in found.items())
    alone, made = train_run(runs[1], *options, "--seed", 42).checkpoint, found[runs[1], 42]
    for name, tensor in alone["state"].items():
        assert torch.equal(tensor, made["state"][name])
    assert [t["losses"] for t in alone["trials"]] == [t["losses"] for t in made["trials"]]


# ---- scorer.pt


def test_a_scorer_rebuilds_itself_and_knows_what_it_is(tmp_path):
    run = make_run(tmp_path / "run", problems=40)
    scorer = train_run(run, "--configs", 3, "--standardise")
    facts, cost = scorer.checkpoint, scorer.checkpoint["cost"]
    assert (scorer.model, scorer.vector, scorer.shape, facts["seed"]) == ("tiny", "penultimate/eos", (8,), 32)
    assert [t["number"] for t in facts["trials"]] == [0, 1, 2]
    assert facts["val_loss"] == min(t["val_loss"] for t in facts["trials"])
    _, logits = common.score_run(scorer, run)
    _, hidden = read_vectors(run)
    mean, deviation = facts["scale"]
    module = common.mlp(8, facts["config"]["hidden"]).eval()
    module.load_state_dict(facts["state"])
    with torch.no_grad():
        torch.testing.assert_close(logits, module((hidden.float() - mean) / deviation))
    data = trainer.load_data([run], scorer.vector)
    train, valid = trainer.split_by_problem(data, 32)
    torch.testing.assert_close(mean, data.x[train].mean(0))  # of the training part alone
    loss_of = torch.nn.BCEWithLogitsLoss(pos_weight=torch.tensor(facts["pos_weight"]))
    loss = loss_of(logits[valid], data.y[valid]).item()
    assert loss == pytest.approx(facts["val_loss"], rel=1e-4), "the weights are the best trial's"
    assert facts["val_auroc"] == common.auroc(data.y[valid].numpy() > 0, logits[valid].numpy())
    assert auroc_of(scorer, run) > 0.85, "the planted signal is found"
    widened = scorer(hidden.double())  # before any arithmetic
    torch.testing.assert_close(widened, scorer(hidden), atol=1e-6, rtol=1e-6)
    assert cost["parameters"] == sum(p.numel() for p in module.parameters())
    assert cost["ms_per_rollout"] > 0
    of_trial = lambda t: sum(a * b for a, b in itertools.pairwise([8, *t["hidden"], 1])) * t["epochs"]
    assert cost["train_flops"] == 2 * (3 * len(train) + len(valid)) * sum(map(of_trial, facts["trials"]))


def held_out_by_hand(scorer, run):
    """Of the problems that seed 32 keeps out of training: how often each strategy is right."""
    data = trainer.load_data([run], scorer.vector)
    _, valid = trainer.split_by_problem(data, 32)
    keys, logits = common.score_run(scorer, run)
    problems = {}
    for i in valid:
        row = {"label": data.y[i].item(), "group": data.group[i].item(), "score": logits[i].item()}
        problems.setdefault(keys[i][0], []).append(row | {"p": logits[i].sigmoid().item()})
    credits = CREDITS["mine, best-of-N"], CREDITS["mine, weighted vote"]
    right = [np.mean([credit(rows) for rows in problems.values()]) for credit in credits]
    strategies = dict(zip(("best-of-n", "weighted-vote"), map(pytest.approx, right)))
    return {"how": "validation", "problems": len(problems), **strategies}


def test_how_often_it_is_right_on_held_out_problems_is_kept(tmp_path):
    run = make_run(tmp_path / "run", problems=40, signal=0.5)
    scorer = train_run(run, "--configs", 2)
    assert scorer.checkpoint["held_out"] == held_out_by_hand(scorer, run)
    rows = common.read_labels(run)
    common.write_jsonl(run / "labels.jsonl", [row | {"group": None} for row in rows])  # programs do not vote
    code = train_run(run, "--configs", 2, out=tmp_path / "code.pt")
    assert code.checkpoint["held_out"]["weighted-vote"] is None


def test_a_scorer_of_vector_and_statistics_is_fed_both_by_key(tmp_path):
    run = make_run(tmp_path / "run", problems=30, signal=0.0)
    rows = common.read_jsonl(run / "rollouts.jsonl")
    for row, label in zip(rows, common.read_labels(run), strict=True):
        row["conf"]["gap/avg"] += label["label"]  # only a statistic knows
    rows[5]["conf"] = {name: None for name in rows[5]["conf"]}  # a rollout without tokens
    common.write_jsonl(run / "rollouts.jsonl", rows[::-1])
    scorer = train_run(run, "--configs", 2, "--inputs", "vector+stats")
    assert auroc_of(scorer, run) > 0.8
    logits, (_, hidden) = common.score_run(scorer, run)[1], read_vectors(run)
    features = np.stack([common.rollout_features(row["conf"], row["n_tokens"]) for row in rows])
    assert np.isnan(features[5][:28]).all() and features.shape == (120, 29)
    torch.testing.assert_close(scorer(hidden, features), logits)
    data, mean = trainer.load_data([run], scorer.vector), scorer.checkpoint["feature_scale"][0]
    train, _ = trainer.split_by_problem(data, 32)
    torch.testing.assert_close(mean, data.features[train].nanmean(0))
    torch.testing.assert_close(scorer(hidden[5:6], np.append(mean[:28], features[5, 28])[None]), logits[5:6])
    with pytest.raises(TypeError, match="rollout_features"):
        scorer(hidden)


def test_a_new_confidence_rule_is_read_of_finished_runs_and_known_to_be_new(tmp_path, monkeypatch, capsys):
    run = make_run(tmp_path / "run", problems=30)
    train_run(run, "--configs", 1, "--inputs", "vector+stats", out=run / "old.pt")
    monkeypatch.setitem(common.STATISTICS, "surprise", lambda s: -s.sampled)
    rules = tuple(f"{name}/{way}" for name in common.STATISTICS for way in common.AGGREGATIONS)
    monkeypatch.setattr(common, "RULES", rules)
    scorer = train_run(run, "--configs", 1, "--inputs", "vector+stats", out=run / "new.pt")
    features = common.read_features(run, common.score_run(scorer, run)[0])
    assert features.shape == (120, 33) and torch.equal(features[:, 28], -features[:, 24])
    told = dies(capsys, common.score_run, common.load_scorer(run / "old.pt"), run, "old.pt")
    assert "old.pt: made for 28 token statistics, there are 32 now" in told


def test_the_towers_of_vector_and_statistics_add_up_and_each_learns_to_judge_alone():
    module, x = common.build_scorer("mlp", MLP, (12 + 29,), 29).eval(), torch.randn(2000, 41)
    both = module(x)
    of_vector, of_features = module.of_vector(x[:, :12]), module.of_features(x[:, 12:])
    torch.testing.assert_close(both, of_vector + of_features)
    trained = module.train()(x)
    alone, added = torch.isclose(trained, of_features), torch.isclose(trained, both)
    assert (alone | added).all() and alone.float().mean().item() == pytest.approx(0.5, abs=0.1)


def test_finished_scorers_are_left_alone_until_something_changes(tmp_path, capsys):
    run = make_run(tmp_path / "run")
    train_run(run, "--configs", 1)
    written = (run / "scorer.pt").stat().st_mtime_ns
    capsys.readouterr()
    train_run(run, "--configs", 1)
    assert "finished before" in capsys.readouterr().out and (run / "scorer.pt").stat().st_mtime_ns == written
    told = dies(capsys, train_run, run, "--configs", 1, out=run / "hidden.pt")
    assert "hidden.pt: not a scorer" in told, "and it is not overwritten"
    flip = lambda i, row: 1 - row["label"] if i == 0 else row["label"]
    for change in (lambda: None, lambda: relabel(run, flip), lambda: spoil(run, 0, 1.0)):
        change()
        train_run(run, "--configs", 2)
        assert "finished before" not in capsys.readouterr().out


# ---- What goes in


def test_rollouts_that_could_not_be_judged_are_counted_and_left_out(tmp_path, capsys):
    run = make_run(tmp_path / "run")
    rows = relabel(run, lambda i, row: row["label"] if i >= 6 else None)
    common.write_jsonl(run / "labels.jsonl", [*rows[:-1], {**rows[-1], "group": None}])  # no answer
    train_run(run, "--configs", 1)
    said = capsys.readouterr()
    assert "6 could not be judged" in said.out
    assert said.err.count("warning: ") == 1 and "11 calibration problems, 3 held out" in said.err
    assert said.err.endswith(": accuracies ± 29 points; give 50 or more\n")
    data = trainer.choose(trainer.load_data([run], "penultimate/eos"), make_job(run))
    assert data.keys == [(run, row["id"], row["sample"]) for row in rows[6:]]
    assert data.y.tolist() == [row["label"] for row in rows[6:]]
    assert data.group.tolist() == [*(row["group"] for row in rows[6:-1]), -1]
    assert data.x.dtype == torch.float32
    stored = common.load_pt(run / "hidden.pt")["hidden"]  # of 5 layers -2 is the penultimate one
    assert torch.equal(trainer.load_data([run], "-2/last").x, stored[:, 0].float())
    assert data.features[:, -1].tolist() == [row["n_tokens"] for row in common.read_rollouts(run)][6:]


def test_bad_calibration_sets_and_arguments_are_one_line(tmp_path, capsys):
    changes = {"model": {"model": "other"}, "deeper": {"n_layers": 9}, "width": {"width": 6}}
    names = ("good", "one_class", "few", "broken", "unlabelled", *changes)
    runs = {name: make_run(tmp_path / name, **changes.get(name, {})) for name in names}
    relabel(runs["one_class"], lambda i, row: 1)
    relabel(runs["few"], lambda i, row: row["label"] if i < 12 else None)
    spoil(runs["broken"], 7, math.inf)
    (runs["unlabelled"] / "labels.jsonl").unlink()
    for told, words in (
        ("one_class", "48 of 48 labelled rollouts"), ("one_class", "take easier or harder problems"),
        ("few", "3 problem(s)"), ("broken", "'p1', 3)"),
        ("good model", "'other'"), ("good deeper", "9 layers"), ("good width", "width 6"),
        ("good unlabelled", "02_label.py"), ("good nowhere", "01_generate.py"),
        ("good --seed 32 42", "{seed}"), (f"good -o {tmp_path}", "folder"), ("good --rollouts -1", "or more"),
        ("good --design transformer-last10", "--extra last10"), ("good --design ensemble", "--layers all"),
        ("good --design ensemble --inputs vector+stats", "logistic"), ("good --study layers", "--eval"),
        ("good --vector all/eos", "mlp takes"), ("good --vector special --design logistic", "logistic takes"),
        ("good --vector final/eos --design transformer-final", "all/eos, not final/eos"),
    ):  # fmt: skip
        assert words in refusal(capsys, *(runs.get(word, word) for word in told.split())), told


def test_parts_of_the_calibration_set():
    data = make_data(problems=20, n=4)
    learned, left = trainer.halves(data.problem, 32)
    assert len(learned) == len(left) == 10 and not learned & left
    assert learned != trainer.halves(data.problem, 42)[0]
    assert set(trainer.choose(data, make_job(half=True)).problem) == learned
    some = trainer.choose(data, make_job(fraction=0.25, rollouts=2))
    assert len(set(some.problem)) == 5 and {key[2] for key in some.keys} == {0, 1} and len(some.y) == 10
    place = [data.keys.index(key) for key in some.keys]
    assert torch.equal(some.x, data.x[place]) and torch.equal(some.y, data.y[place])


def test_a_curve_draws_problems_of_many_kinds_or_of_few():
    problems = [("set", f"p{i}") for i in range(40)]
    families = [("set", "family", f"kind {i % 10}") for i in range(40)]
    data = make_data(40)._replace(problem=problems, family=families)
    for count, many, few in ((4, 4, 4), (8, 8, 4), (15, 10, 4), (17, 10, 5), (40, 10, 10)):
        for kinds, expected in (("many", many), ("few", few)):
            drawn = bench_curve.draw_problems(data, count, kinds, 32)
            assert len(drawn) == count
            assert len({family for problem, family in zip(problems, families) if problem in drawn}) == expected
    draws = [bench_curve.draw_problems(data, 8, "many", seed) for seed in (32, 42)]
    assert draws[0] != draws[1]


def test_a_curve_of_all_problems_is_the_study_of_them(tmp_path, capsys):
    """The last point of the curve is what 03's own study says of the whole calibration set."""
    a, b = (make_run(tmp_path / name, problems=16, seed=i, dataset=name) for i, name in enumerate("ab"))
    options = ["--configs", "1", "--workers", "1", "--device", "cpu", "--seed", "32", "42"]
    bench_curve.main([str(a), "--eval", str(b), "--problems", "8", "99", *options])
    first, last = json.loads(capsys.readouterr().out.splitlines()[-1])["points"]
    assert (first["problems"], last["problems"]) == (8, 16) and len(first["SCaTR+, best"]) == 2
    trainer.main([str(a), "--study", "fraction", "--eval", str(b), "--out", str(tmp_path), *options])
    (path,) = tmp_path.glob("fraction.*.json")
    rows = {row["row"]: row["measures"] for row in common.read_json(path)["rows"]}
    assert last["SCaTR, best"] == pytest.approx(rows["100%"]["best of 16"]["values"])
    assert last["SCaTR, vote"] == pytest.approx(rows["100%"]["weighted vote"]["values"])


# ---- Designs and studies


@pytest.fixture(scope="module")
def layered(tmp_path_factory):
    """A run of six layers of which only layer 2 knows anything; the last ten and ragged special tokens."""
    run = make_run(tmp_path_factory.mktemp("layered") / "run", problems=16, signal=3.0)
    stored = common.load_pt(run / "hidden.pt")
    rows, generator = len(stored["hidden"]), torch.Generator().manual_seed(0)
    hidden = torch.randn(rows, 6, 8, generator=generator).bfloat16()
    hidden[:, 2] = stored["hidden"][:, 1]
    common.save_pt(run / "hidden.pt", {**stored, "vectors": [f"{i}/eos" for i in range(6)], "hidden": hidden})
    counts = torch.randint(0, 40, (rows,), generator=generator)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    last10 = torch.randn(rows, 10, 8, generator=generator)
    last10[:, :4], last10[:, 9] = 0, hidden[:, 2].float()
    extra = {"last10": last10, "special": torch.randn(int(offsets[-1]), 8, generator=generator)}
    common.save_pt(run / "extra.pt", {"keys": stored["keys"], **extra, "special_offsets": offsets})
    return run


@pytest.mark.parametrize("design", [d for d in trainer.DESIGNS if d not in ("mlp", "ensemble")])
def test_every_design_trains_and_rebuilds_itself(layered, tmp_path, design):
    options = ["--vector", "2/eos", "--configs", 9] if design == "logistic" else ["--configs", 1]
    scorer = train_run(layered, "--design", design, *options, out=tmp_path / "scorer.pt")
    _, logits = common.score_run(scorer, layered, chunk=7)
    torch.testing.assert_close(logits, common.score_run(scorer, layered)[1], atol=1e-5, rtol=1e-5)
    if design == "best-layer":
        assert scorer.vector == "2/eos" and scorer.shape == (8,)
    if design in ("best-layer", "transformer-last10", "logistic"):
        assert auroc_of(scorer, layered) > 0.8
    assert (scorer.checkpoint["scale"] is None) == (design != "logistic"), "a linear rule is standardised"


def test_absent_positions_change_nothing():
    knobs = {"width": 16, "depth": 2, "dropout": 0.3, "input_dropout": 0.2}
    module = common.build_scorer("transformer-special", knobs, (6, 8)).eval()
    x = torch.randn(5, 6, 8)
    x[:, :3] = 0
    x[4] = 0  # an answer with no special token at all
    shorter = copy.deepcopy(module)
    with torch.no_grad():
        shorter.place = torch.nn.Parameter(torch.cat([module.place[:1], module.place[4:]]))
        torch.testing.assert_close(module(x), shorter(x[:, 3:]))
        scaled = common.standardise(x, trainer.fit_scale(x))
    assert (scaled[:, :3] == 0).all() and module(scaled).isfinite().all()


def test_constant_dimensions_survive_standardising():
    """And those that only a rounding error moves."""
    x = torch.cat([torch.randn(50, 3) * 1e-2 + 5, torch.full((50, 1), 3000.0)], 1)
    x[0, 3] += 3e-4
    scaled = common.standardise(x, trainer.fit_scale(x))
    torch.testing.assert_close(scaled[:, :3].std(0, correction=0), torch.ones(3), atol=1e-3, rtol=0)
    assert scaled[:, 3].abs().max() < 1e-3


def test_an_ensemble_is_the_mixture_of_frozen_layers_that_fits_the_validation_part_best(layered, tmp_path):
    scorer = train_run(layered, "--design", "ensemble", "--configs", 1, out=tmp_path / "e.pt")
    assert scorer.checkpoint["held_out"] == held_out_by_hand(scorer, layered)
    weights, parts = scorer.checkpoint["weights"], scorer.parts
    assert weights.sum().item() == pytest.approx(1) and (weights >= 0).all() and len(parts) == 6
    data = trainer.load_data([layered], "all/eos")
    alone = {own.vector: own for own in map(common.load_scorer, (tmp_path / "layers").glob("*.pt"))}
    assert len(alone) == 6, "each layer's scorer is one of its own, made as any other"
    p = torch.stack([part(data.x[:, i]) for i, part in enumerate(parts)], 1).sigmoid()
    for i, part in enumerate(parts):
        assert torch.equal(alone[part.vector](data.x[:, i]), part(data.x[:, i]))
    torch.testing.assert_close(scorer(data.x).sigmoid(), p @ weights)
    train, valid = trainer.split_by_problem(data, 32)
    right = data.y[train].sum().item()

    def loss(w):
        mixed, y = p[valid] @ w, data.y[valid]
        return -((len(train) - right) / right * y * mixed.log() + (1 - y) * (1 - mixed).log()).mean().item()

    assert scorer.checkpoint["val_loss"] == pytest.approx(loss(weights), abs=1e-5)
    others = [torch.eye(6)[i] * 0.05 + weights * 0.95 for i in range(6)]
    assert all(loss(weights) <= loss(other) + 1e-6 for other in others)
    assert (scorer(200 * torch.randn(4, 6, 8)).abs() < 1e6).all(), "no infinite logit where a sigmoid is 1"


@pytest.fixture
def pair(tmp_path):
    """A run to calibrate on and one to evaluate on."""
    cal, other = make_run(tmp_path / "cal", dataset="c"), tmp_path / "eval"
    return cal, make_run(other, dataset="sets/e.jsonl", seed=1)


@pytest.fixture
def study(tmp_path, capsys):
    """study(name, runs, evaluation run, options) -> (the report, all it printed)"""

    def run(name, runs, other, *options):
        trainer.content_of.cache_clear()
        command = [*runs, "--eval", other, "-o", tmp_path / "s", "--study", name, *options]
        trainer.main([*map(str, command), "--workers", "1", "--configs", "1"])
        told = capsys.readouterr().out
        return common.read_json(told.split()[-1]), told

    return run


def scorers_of(tmp_path, pattern):
    return sorted((tmp_path / "s/scorers").glob(pattern))


def test_a_study_evaluates_exactly_and_trains_nothing_twice(tmp_path, study, pair):
    cal, other = pair
    options = ["--design", "logistic", "--seed", 1, 2]
    report, told = study("rollouts", [cal], other, *options)
    assert "study of rollouts: 2 trials to train" in told, "of four samples: all are one search"
    assert [row["row"] for row in report["rows"]] == ["N=16", "N=12", "N=8", "N=4"]
    assert all(len(row["measures"]["best of 8"]["values"]) == 2 for row in report["rows"])
    (path,) = scorers_of(tmp_path, "logistic.*@cal-1.*.pt")
    auroc = report["rows"][3]["measures"]["AUROC"]
    assert auroc["values"][0] == pytest.approx(100 * auroc_of(common.load_scorer(path), other))
    spread = abs(auroc["values"][0] - auroc["values"][1]) / math.sqrt(2)
    assert [auroc["mean"], auroc["std"]] == pytest.approx([np.mean(auroc["values"]), spread])
    assert len(list((tmp_path / "s").glob("rollouts.tiny.c-e.*.json"))) == 1
    facts = [report[key] for key in ("study", "model", "calibration", "evaluation", "problems")]
    assert facts == ["rollouts", "tiny", ["c"], ["e"], 12]
    assert report["settings"]["configs"] == 1 and report["settings"]["runs"] == [str(cal)]
    again, told = study("rollouts", [cal], other, *options)
    assert "0 trials to train" in told and again == report
    told = study("fraction", [cal], other, *options)[1]
    assert "6 trials to train" in told, "100 % is trained already"


def test_a_study_takes_the_scorers_beside_the_run_and_keeps_them_when_vectors_are_added(study, pair):
    cal, other = pair
    made = train_run(cal, "--configs", 1, out=cal / "scatr.c@32-32.pt")
    common.save_pt(cal / "lora@32.pt", {"adapters": {}, "made_of": []})  # of 05, no scorer
    stored = common.load_pt(cal / "hidden.pt")
    more = {"vectors": [*stored["vectors"], "1/eos"], "hidden": stored["hidden"][:, [0, 1, 2, 3, 0]]}
    common.save_pt(cal / "hidden.pt", {**stored, **more})
    report, told = study("fraction", [cal], other)
    assert "study of fraction: 3 trials to train" in told
    auroc = report["rows"][0]["measures"]["AUROC"]["mean"]
    assert auroc == pytest.approx(100 * auroc_of(made, other))


def test_no_study_overwrites_another_pairs_or_settings(tmp_path, study):
    a, b, c = (make_run(tmp_path / name, dataset=name, seed=seed) for seed, name in enumerate("abc"))
    for other, *options in ((b,), (c,), (b, "--standardise")):
        study("rollouts", [a], other, *options)
    names = sorted(path.name.split(".json")[0].rpartition(".")[0] for path in (tmp_path / "s").glob("*.json"))
    assert names == ["rollouts.tiny.a-b"] * 2 + ["rollouts.tiny.a-c"]


def test_a_study_looks_at_all_its_inputs_before_it_trains(tmp_path, capsys, layered, pair):
    cal, other = pair
    for run, name, evals, words in (
        (cal, "designs", other, "no vector 'all/eos'"), (cal, "layers", other, "no vector '.15/eos'"),
        (layered, "designs", other, "no vector 'all/eos'"), (cal, "mixed", layered, "not 1 of c"),
        (cal, "fraction", cal, "in both RUN and --eval"), (cal, "fraction", None, "02_label.py"),
    ):  # fmt: skip
        if evals is None:
            (other / "labels.jsonl").unlink()
        command = run, "--study", name, "--eval", evals or other, "-o", tmp_path / "s", "--configs", 1
        assert words in refusal(capsys, *command)
    assert not (tmp_path / "s").exists()


def test_mixed_is_half_and_half_by_problems_over_the_sets(tmp_path, study):
    runs = [make_run(tmp_path / f"{name}{k}", dataset=name, problems=count, seed=k)
            for name, count in (("few", 8), ("many", 20)) for k in (1, 2)]  # fmt: skip
    report, _ = study("mixed", runs, make_run(tmp_path / "eval", seed=9))
    found = [(row["row"], len(row["measures"]["AUROC"]["values"])) for row in report["rows"]]
    assert found == [("mixed", 2), ("few", 2), ("many", 2)]
    paths = scorers_of(tmp_path, "mlp.*@few*+*@many*.pt")
    assert [path.name.split("-32.")[0][-6:] for path in paths] == ["@many1", "@many2"]
    for path in paths:
        problems = common.load_scorer(path).checkpoint["problems"]
        assert [sum(name == own for name, _ in problems) for own in ("few", "many")] == [8, 8]


def test_a_study_measures_what_it_says(tmp_path):
    run = make_run(tmp_path / "run", problems=30, n=6, signal=0.5)
    scorer = train_run(run, "--design", "logistic", "--configs", 1)
    rows = relabel(run, lambda i, row: row["label"] if i else None)  # its problem is left out whole
    args = trainer.parse_args([str(run), "--study", "fraction", "--eval", str(run)])
    found = trainer.evaluate(run / "scorer.pt", make_job(run), args)
    logits = common.score_run(scorer, run)[1]
    rows = [row | {"score": x.item(), "p": x.sigmoid().item()} for row, x in zip(rows, logits)][6:]
    problems = [rows[i : i + 6] for i in range(0, len(rows), 6)]
    problems.sort(key=lambda own: own[0]["id"])
    of_each = lambda credit, n: [mean_over_subsets({0: own}, credit, n) for own in problems]
    best_score, voted = best(lambda row: row["score"]), CREDITS["mine, weighted vote"]
    assert found["best of 4"] == pytest.approx(of_each(best_score, 4))
    assert found["best of 8"] == pytest.approx(of_each(best_score, 6))
    assert found["weighted vote"] == pytest.approx(of_each(voted, 6))
    assert found["AUROC"] == pytest.approx([np.mean(pairs_in_order(rows))])
    within = [np.mean(pairs) for pairs in map(pairs_in_order, problems) if pairs]
    assert found["within a problem"] == pytest.approx(within)


def test_the_study_of_halves_never_evaluates_on_a_training_problem(tmp_path, study, pair):
    cal, other = pair
    trained, held_out = trainer.halves([f"p{i}" for i in range(12)], 32)
    relabel(other, lambda i, row: 0 if row["id"] in held_out else row["label"])
    report, _ = study("halves", [cal], other)
    found = [(report["problems"], row["measures"]["best of 4"]["mean"]) for row in report["rows"]]
    assert found == [(6, 0.0)] * 2, "the half without a right answer"
    (path,) = scorers_of(tmp_path, "mlp.*@eval-*.pt")
    assert {name for _, name in common.load_scorer(path).checkpoint["problems"]} == trained
