"""03_train_scorer.py: the search is the one it says, its fast path equals the slow one, and bad input is one line."""

import copy
import importlib
import itertools
import math
from argparse import Namespace

import numpy as np
import pytest
import torch
from conftest import last_json, make_run

import common

trainer = importlib.import_module("03_train_scorer")
MLP = {"number": 0, "hidden": [16, 8], "lr": 1e-3, "dropout": 0.0, "input_dropout": 0.0, "batch_size": 16,
       "weight_decay": 1e-3, "batch_norm": False}  # fmt: skip


@pytest.fixture(autouse=True)
def small_models(monkeypatch, request):
    """The space's knobs on layers that train in a blink; the test of the space itself sees the real one."""
    if "the_space" not in request.node.name:
        tiny = tuple((below, ([[24, 12], [32, 16, 8]], *choices[1:])) for below, choices in trainer.SPACES)
        monkeypatch.setattr(trainer, "SPACES", tiny)


def make_data(problems=40, n=4, d=12, seed=0, signal=1.5):
    rng = np.random.default_rng(seed)
    label = rng.random((problems, n)) < rng.uniform(0.2, 0.8, (problems, 1))
    x = rng.normal(size=(problems * n, d)) + signal * label.reshape(-1, 1) * (np.arange(d) < 3)
    keys = [("run", f"p{i}", j) for i in range(problems) for j in range(n)]
    return trainer.Data(
        torch.tensor(x).float(), torch.tensor(label.reshape(-1)).float(), [("set", key[1]) for key in keys], keys
    )


def settings(**changes):
    usual = {"design": "mlp", "loss": "bce", "search": "paper", "configs": 3, "standardise": False, "fraction": 1.0,
             "rollouts": None, "half": None, "inputs": "vector", "paper_space": False, "top": 1, "workers": 1,
             "device": torch.device("cpu"), "runs": ["run"]}  # fmt: skip
    return Namespace(**{**usual, **changes})


def make_task(configs, data=None, **changes):
    task = trainer.make_task(data or make_data(), settings(**changes), 32, "penultimate/eos")
    task.configs = [{**MLP, "number": number, **config} for number, config in enumerate(configs)]
    return task


def train_run(run, *options, out=None):
    """03 in this process -> the loaded scorer."""
    out = out or run / "scorer.pt"
    trainer.main([str(run), "-o", str(out), "--workers", "1", *map(str, options)])
    return common.load_scorer(out)


def refusal(capsys, *argv):
    with pytest.raises(SystemExit) as stop:
        trainer.main([*map(str, argv), "--workers", "1"])
    assert stop.value.code == 2
    return capsys.readouterr().err


# ---------------------------------------------------------------------------------------------------------------------
# The search itself


SPACE = {  # DESIGN's table: n rollouts of training -> dropout, input dropout, batch size, weight decay, batch norm
    999: ({0.5, 0.6, 0.7}, {0.2, 0.3, 0.4}, {16, 32}, {1e-3, 5e-3, 1e-2}, {False}),
    1000: ({0.4, 0.5, 0.6}, {0.1, 0.2, 0.3}, {32, 64, 128}, {1e-4, 1e-3, 5e-3}, {False, True}),
    4999: ({0.4, 0.5, 0.6}, {0.1, 0.2, 0.3}, {32, 64, 128}, {1e-4, 1e-3, 5e-3}, {False, True}),
    5000: ({0.3, 0.4, 0.5}, {0.0, 0.1, 0.2}, {64, 128, 256}, {1e-5, 1e-4, 1e-3}, {False, True}),
}
SHAPES = [(512, 256), (512, 256, 128), (1024, 512), (1024, 512, 256)]
WIDER = [(1024, 512), (2048, 1024), (1024, 512, 256), (2048, 1024, 512)]


@pytest.mark.parametrize("n", SPACE)
def test_the_space_is_the_papers(n):
    knobs = ("dropout", "input_dropout", "batch_size", "weight_decay", "batch_norm")
    for paper_space, shapes in ((False, WIDER if n >= 5000 else SHAPES), (True, SHAPES)):
        drawn = trainer.draw_configs(n, 100, 32, paper_space=paper_space)
        assert tuple({c[knob] for c in drawn} for knob in knobs) == SPACE[n]
        assert {tuple(c["hidden"]) for c in drawn} == set(shapes) and {c["lr"] for c in drawn} == {1e-4, 5e-4, 1e-3}


def test_drawn_configurations_differ_and_follow_the_seed():
    small, middle, large = (trainer.draw_configs(n, 100, 32) for n in (999, 1000, 5000))
    for drawn in (small, middle, large):
        assert len({str({**c, "number": 0}) for c in drawn}) == 100 and [c["number"] for c in drawn] == list(range(100))
    assert trainer.draw_configs(999, 7, 32) == small[:7] and trainer.draw_configs(999, 7, 42) != small[:7]


def test_no_problem_is_on_both_sides_of_the_split_and_training_has_both_labels():
    data = make_data(problems=4, n=4)
    data.y = torch.tensor([1.0] * 4 + [0.0] * 12)  # one right problem only: a careless split leaves training without it
    for seed in range(20):
        train, valid = trainer.split_by_problem(data, seed)
        assert len({data.problem[i] for i in train}) == 3 and len({data.problem[i] for i in valid}) == 1
        assert not {data.problem[i] for i in train} & {data.problem[i] for i in valid}
        assert sorted(train + valid) == list(range(16)) and set(data.y[train].tolist()) == {0.0, 1.0}


def test_training_has_three_quarters_of_the_problems():
    train, valid = trainer.split_by_problem(data := make_data(problems=40, n=4), 32)
    assert (len({data.problem[row] for row in train}), len({data.problem[row] for row in valid})) == (30, 10)


def test_training_ends_after_100_epochs():
    task = make_task([{"lr": 1e-5}])
    (record,) = trainer.train([task], [(0, task.configs[0])], settings())
    assert len(record["losses"]) == 100 and record["best_epoch"] > 90, "it would have gone on"


def test_the_weight_of_right_answers_is_wrong_to_right_of_the_training_part():
    task = make_task([], make_data(problems=12))
    right = task.y[task.train].sum().item()
    assert task.pos_weight == pytest.approx((len(task.train) - right) / right)
    assert task.pos_weight != pytest.approx((len(task.y) - task.y.sum().item()) / task.y.sum().item(), rel=1e-3)


def test_a_problem_of_two_runs_of_one_data_set_stays_on_one_side(tmp_path):
    a, b = make_run(tmp_path / "a", seed=1), make_run(tmp_path / "b", seed=2)
    data = trainer.load_data([a, b], "penultimate/eos")
    assert len(data.y) == 96 and len(set(data.problem)) == 12 and len(set(data.keys)) == 96
    meta = common.read_json(b / "meta.json")
    common.write_json(b / "meta.json", {**meta, "dataset": "another"})
    assert len(set(trainer.load_data([a, b], "penultimate/eos").problem)) == 24


@pytest.mark.parametrize("batch_norm", [False, True])
def test_the_written_out_gradient_is_autograds(batch_norm):
    """Also with dropout: the masks are drawn again from the same generators and put into a plain module."""
    configs = [
        {**MLP, "dropout": p, "input_dropout": q, "batch_norm": batch_norm}
        for p, q in ((0.5, 0.25), (0.25, 0.0), (0.0, 0.5))
    ]
    stack = trainer.Stack("mlp", configs, (12,), [1, 2, 3], torch.device("cpu"))
    states = [stack.state(g) for g in range(3)]
    x, y = torch.randn(3, 10, 12), (torch.rand(3, 10) < 0.5).float()
    noise = [trainer.random_bytes(10 * 36, torch.Generator().manual_seed(seed)).view(10, 36) for seed in (1, 2, 3)]
    loss = lambda logits: trainer.bce(logits, y, None, torch.tensor([[1.5]]))
    stack.gradient(x.clone(), loss)
    for g, config in enumerate(configs):
        module = common.build_scorer("mlp", config, (12,)).train()
        module.load_state_dict(states[g])
        z, masks = x[g], list(noise[g].split([12, 16, 8], 1))
        for layer in module:
            if isinstance(layer, torch.nn.Dropout):
                cut = round(256 * layer.p)
                z = z * (masks.pop(0) >= cut) * (256 / (256 - cut))
            else:
                z = layer(z)
        torch.nn.functional.binary_cross_entropy_with_logits(z, y[g], pos_weight=torch.tensor(1.5)).backward()
        for name, parameter in module.named_parameters():
            torch.testing.assert_close(stack.slopes[name][g], parameter.grad, atol=1e-6, rtol=1e-4)
        for name, buffer in module.named_buffers():
            if "running" in name:
                torch.testing.assert_close(stack.rows[name][g], buffer)


def test_rounded_products_give_nearly_the_same_gradient_and_only_where_no_input_is_rounded(monkeypatch):
    generator, found = torch.Generator().manual_seed(0), []
    x, y = torch.randn(1, 64, 12, generator=generator).bfloat16().float(), torch.arange(64)[None] % 2
    for operands in (torch.float32, torch.bfloat16):
        config = {**MLP, "dropout": 0.5, "input_dropout": 0.25, "batch_norm": True}
        stack = trainer.Stack("mlp", [config], (12,), [1], torch.device("cpu"), operands)
        stack.gradient(x.clone(), lambda logits: trainer.bce(logits, y, None, torch.tensor([[1.5]])))
        found.append(stack.grad.clone())
        assert stack.rows["flat"].dtype == stack.grad.dtype == stack.state(0)["1.weight"].dtype == torch.float32
    assert 0 < (found[1] - found[0]).norm() < 0.1 * found[0].norm()
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    assert trainer.operands_of_products(x) == torch.bfloat16
    assert trainer.operands_of_products(x + 3000) == torch.float32, "3000 and 3007 would be one number"
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    assert trainer.operands_of_products(x) == torch.float32


def test_dropout_keeps_the_share_it_says_with_masks_that_change():
    generator = torch.Generator().manual_seed(0)
    first, second = (trainer.random_bytes(100_001, generator) for _ in range(2))
    assert len(first) == 100_001 and (first >= round(256 * 0.3)).float().mean().item() == pytest.approx(0.7, abs=0.01)
    assert (first == second).float().mean() < 0.01


def plain_training(task, config, orders):
    """The paper's training as torch's own parts do it, without dropout; losses of each epoch."""
    torch.manual_seed(task.seed * 1_000_003 + config["number"])
    module = common.build_scorer("mlp", config, tuple(task.x.shape[1:]))
    optimiser = torch.optim.Adam(module.parameters(), lr=config["lr"], weight_decay=config["weight_decay"])
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, factor=0.5, patience=3)
    criterion, losses = torch.nn.BCEWithLogitsLoss(pos_weight=torch.tensor(task.pos_weight)), []
    for _ in range(100):
        order = task.train[torch.randperm(len(task.train), generator=orders)]
        module.train()
        for start, end in trainer.batches(len(order), config["batch_size"]):
            optimiser.zero_grad()
            criterion(module(task.x[order[start:end]]), task.y[order[start:end]]).backward()
            torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimiser.step()
        with torch.no_grad():
            losses.append(criterion(module.eval()(task.x[task.valid]), task.y[task.valid]).item())
        scheduler.step(losses[-1])
        if len(losses) - 1 - int(np.argmin(losses)) >= 10:
            break
    return losses


@pytest.mark.parametrize("batch_norm", [False, True])
def test_training_is_torchs_adam_clipping_plateau_and_early_stop(batch_norm):
    config = {"batch_norm": batch_norm, "lr": 1e-2, "weight_decay": 1e-2}
    task = make_task([config])
    (record,) = trainer.train([task], [(0, task.configs[0])], settings())
    plain = plain_training(task, task.configs[0], torch.Generator().manual_seed(32 * 1_000_003))
    assert 12 < len(plain) < 100, "the schedule and the stop must both have had their say"
    assert len(record["losses"]) == len(plain)
    np.testing.assert_allclose(record["losses"], plain, rtol=2e-3)
    assert record["best_epoch"] == 1 + int(np.argmin(plain))
    module = common.build_scorer("mlp", task.configs[0], (12,)).eval()
    module.load_state_dict(record["state"])
    with torch.no_grad():
        value = trainer.bce(module(task.x[task.valid])[None], task.y[task.valid][None], None, task.pos_weight)
    assert value.item() == pytest.approx(record["best"], rel=1e-4), "the weights kept are those of the best epoch"


@pytest.mark.parametrize(
    "change",
    [{}, {"loss": "pairwise"}, {"loss": "listwise"}, {"loss": "centred", "standardise": True}, {"design": "logistic"}],
    ids=lambda change: " ".join(map(str, change.values())) or "paper",
)
def test_a_stacked_search_gives_each_trial_what_it_gets_alone(monkeypatch, change):
    """What a GPU does, on the CPU: two calibration sets in one stack, each trial with its own rate, decay, masks, stop."""
    args = settings(configs=4, top=4, **change)
    tasks = [trainer.make_task(make_data(problems=24, seed=seed), args, seed, "penultimate/eos") for seed in (32, 42)]
    for config in (config for task in tasks for config in task.configs):
        config.update(hidden=config["hidden"] and [16, 8], batch_norm=config["number"] == 3, batch_size=16)
        config.update(lr=0.01 * 4 ** (config["number"] % 2))  # the odd ones leave a stack early
    alone = trainer.search(tasks, args)
    monkeypatch.setattr(trainer, "stacks_pay", lambda *_: True)
    monkeypatch.setattr(trainer, "stack_limit", lambda *_: 4)
    (stacks,) = trainer.make_jobs(tasks, args)
    assert max(map(len, stacks)) == 4 and any(len({task for task, _ in stack}) == 2 for stack in stacks)
    together = trainer.search(tasks, args)
    epochs = {(record["task"], record["config"]["number"]): len(record["losses"]) for record in sum(alone, [])}
    ends = [[epochs[task, config["number"]] for task, config in stack] for stack in stacks]
    assert any(a < b for stack in ends for a, b in itertools.combinations(stack, 2)), "none leaves before a later one"
    for one, other in zip(sum(together, []), sum(alone, []), strict=True):
        assert (one["task"], one["config"], one["best_epoch"]) == (other["task"], other["config"], other["best_epoch"])
        np.testing.assert_allclose(one["losses"], other["losses"], rtol=1e-3)
        torch.testing.assert_close(one["state"], other["state"], atol=1e-3, rtol=1e-2)


def test_halving_in_a_stack_drops_trials_and_changes_no_other(monkeypatch):
    args = settings(configs=12, search="halving")
    task = make_task([{"lr": 1e-3, "hidden": [8], "dropout": 0.1 * (i % 5)} for i in range(12)])
    full = [trainer.train([task], [(0, config)], args)[0] for config in task.configs]
    monkeypatch.setattr(trainer, "stacks_pay", lambda *_: True)
    (halved,) = trainer.search([task], args)
    assert sum(record["dropped"] for record in halved) >= 4
    for one, other in zip(full, halved, strict=True):
        np.testing.assert_allclose(one["losses"][: len(other["losses"])], other["losses"], rtol=1e-4)


def test_on_a_gpu_trials_of_one_shape_are_stacked_and_every_trial_runs_once():
    tasks = [
        make_task([{"hidden": h, "batch_size": b} for h in ([16, 8], [8]) for b in (16, 32)] * 2) for _ in range(2)
    ]
    for task in tasks:
        task.x = Namespace(device=torch.device("meta"), shape=task.x.shape)
    (job,) = trainer.make_jobs(tasks, settings())
    assert [len(stack) for stack in job] == [4] * 4
    assert sorted((number, config["number"]) for stack in job for number, config in stack) == [
        (t, c) for t in (0, 1) for c in range(8)
    ]


def test_no_batch_has_a_single_row():
    assert trainer.batches(33, 32) == [(0, 33)]
    assert trainer.batches(65, 32) == [(0, 32), (32, 65)]
    assert trainer.batches(66, 32) == [(0, 32), (32, 64), (64, 66)]
    assert trainer.batches(1, 32) == [(0, 1)]


def test_halving_drops_trials_but_never_the_one_that_leads():
    configs = [
        {"lr": 1e-3, "hidden": [8], "dropout": 0.1 * (i % 5), "weight_decay": 10.0 ** -(i % 4)} for i in range(12)
    ]
    task, seen = make_task(configs), {}
    full = [trainer.train([task], [(0, config)], settings())[0] for config in task.configs]
    halved = [trainer.train([task], [(0, config)], settings(), seen)[0] for config in task.configs]
    dropped = [record for record in halved if record["dropped"]]
    assert len(dropped) >= 4 and {len(record["losses"]) for record in dropped} <= set(trainer.RUNGS)
    assert sum(len(r["losses"]) for r in halved) < 0.6 * sum(len(r["losses"]) for r in full)
    for one, other in zip(full, halved, strict=True):  # what was trained is not another training
        assert one["losses"][: len(other["losses"])] == other["losses"]
    for rung in trainer.RUNGS:
        reached = [
            record
            for record in halved
            if len(record["losses"]) > rung or (record["dropped"] and len(record["losses"]) == rung)
        ]
        leader = min(reached, key=lambda record: min(record["losses"][:rung]), default=None)
        assert leader is None or not (leader["dropped"] and len(leader["losses"]) == rung)


@pytest.mark.parametrize("search", ["paper", "halving"])
def test_the_result_does_not_depend_on_the_number_of_processes(tmp_path, run_script, search):
    run = make_run(tmp_path / "run", problems=16)
    for workers in (1, 3):
        run_script("03_train_scorer.py", run, "-o", tmp_path / f"{workers}-{{seed}}.pt", "--workers", workers,
                   "--configs", 2, "--seed", 32, 42, "--search", search)  # fmt: skip
    for seed in (32, 42):
        one, three = (common.load_scorer(tmp_path / f"{workers}-{seed}.pt").checkpoint for workers in (1, 3))
        for name, tensor in one["members"][0]["state"].items():
            assert torch.equal(tensor, three["members"][0]["state"][name])
        assert [t["losses"] for t in one["trials"]] == [t["losses"] for t in three["trials"]]


# ---------------------------------------------------------------------------------------------------------------------
# Objectives


def test_objectives_are_their_definitions():
    logits, y = torch.tensor([[1.0, -0.5, 0.25, 2.0, 0.0]]), torch.tensor([[1.0, 0.0, 0.0, 1.0, 1.0]])
    problem = torch.tensor([[0, 0, 0, 1, 1]])  # the second problem has right answers only
    softplus = lambda v: math.log1p(math.exp(v))
    weight = torch.tensor([[3.0]])
    right, wrong = 3 * (softplus(-1) + softplus(-2) + softplus(0)), softplus(-0.5) + softplus(0.25)
    assert trainer.bce(logits, y, problem, weight).item() == pytest.approx((right + wrong) / 5)
    assert trainer.pairwise(logits, y, problem, weight).item() == pytest.approx((softplus(-1.5) + softplus(-0.75)) / 2)
    share = math.exp(1) / (math.exp(1) + math.exp(-0.5) + math.exp(0.25))
    assert trainer.listwise(logits, y, problem, weight).item() == pytest.approx(-math.log(share))
    error = logits - y
    error = torch.cat([error[0, :3] - error[0, :3].mean(), error[0, 3:] - error[0, 3:].mean()])
    assert trainer.centred(logits, y, problem, weight).item() == pytest.approx(error.square().mean().item())


def test_ranking_objectives_see_whole_problems_in_a_batch():
    task = make_task([], make_data(problems=12))
    problem, generator = task.problem, torch.Generator().manual_seed(0)
    order = trainer.batch_order(task, generator, together=True)
    assert sorted(order.tolist()) == task.train.tolist() and order.tolist() != task.train.tolist()
    assert all(len(set(problem[order[i : i + 4]].tolist())) == 1 for i in range(0, len(order), 4))
    mixed = trainer.batch_order(task, generator, together=False)
    assert any(len(set(problem[mixed[i : i + 4]].tolist())) > 1 for i in range(0, len(order), 4))


def test_ranking_scores_are_calibrated_before_they_are_probabilities(tmp_path):
    scorer = train_run(make_run(tmp_path / "run", problems=40), "--loss", "pairwise", "--configs", 1)
    assert scorer.checkpoint["calibration"] != [1.0, 0.0] and scorer.checkpoint["calibration"][0] > 0
    rng = np.random.default_rng(0)
    logits = rng.normal(size=20_000)
    y = rng.random(20_000) < 1 / (1 + np.exp(-(0.5 * logits - 1)))
    assert trainer.fit_sigmoid(logits, y) == pytest.approx([0.5, -1], abs=0.06)
    assert trainer.fit_sigmoid(-logits, y)[0] > 0, "a probability never falls when the score rises"


# ---------------------------------------------------------------------------------------------------------------------
# scorer.pt


def test_a_scorer_rebuilds_itself_and_knows_what_it_is(tmp_path, capsys):
    run = make_run(tmp_path / "run", problems=40)
    scorer = train_run(run, "--configs", 3, "--standardise", "--top", 2)
    facts = scorer.checkpoint
    assert (scorer.model, scorer.vector, scorer.shape, facts["seed"]) == ("tiny", "penultimate/eos", (8,), 32)
    assert [t["number"] for t in facts["trials"]] == [0, 1, 2] and facts["val_loss"] == pytest.approx(
        min(t["val_loss"] for t in facts["trials"]), abs=1e-6
    )
    keys, logits = common.score_run(scorer, run)
    _, hidden = common.read_vectors(run)
    mean, deviation = facts["scale"]
    x = (hidden.float() - mean) / deviation
    modules = [common.mlp(8, m["config"]["hidden"]).eval() for m in facts["members"]]
    for module, member in zip(modules, facts["members"], strict=True):
        module.load_state_dict(member["state"])
    with torch.no_grad():
        torch.testing.assert_close(logits, (modules[0](x) + modules[1](x)) / 2)
    labels = np.array([row["label"] for row in common.read_labels(run, keys)])
    assert common.auroc(labels > 0, logits.numpy()) > 0.85, "the planted signal is found"
    torch.testing.assert_close(
        scorer(hidden.double()), scorer(hidden), atol=1e-6, rtol=1e-6
    )  # widened before any arithmetic
    cost = facts["cost"]
    assert cost["parameters"] == sum(p.numel() for module in modules for p in module.parameters())
    weights = sum(p.numel() for module in modules for p in module.parameters() if p.ndim == 2)
    assert cost["scoring_flops"] == 2 * 4 * weights and cost["rollouts_scored"] == 4 and cost["scoring_ms"] > 0
    assert "TFLOPs" in capsys.readouterr().out


def test_a_scorer_of_vector_and_statistics_is_fed_without_a_flag(tmp_path, run_script):
    run = make_run(tmp_path / "run", problems=30, signal=0.0)
    rows = common.read_jsonl(run / "rollouts.jsonl")
    for row, label in zip(rows, common.read_labels(run), strict=True):
        row["conf"]["gap/avg"] += label["label"]  # only a statistic knows
    rows[5]["conf"] = {name: None for name in rows[5]["conf"]}  # a rollout without tokens
    common.write_jsonl(run / "rollouts.jsonl", rows[::-1])
    scorer = train_run(run, "--configs", 2, "--inputs", "vector+stats")
    keys, logits = common.score_run(scorer, run)
    right = np.array([row["label"] for row in common.read_labels(run, keys)]) > 0
    assert common.auroc(right, logits.numpy()) > 0.8
    _, hidden = common.read_vectors(run)
    features = np.stack([common.rollout_features(row["conf"], row["n_tokens"]) for row in rows])
    assert np.isnan(features[5][:28]).all() and features.shape == (120, 29)
    torch.testing.assert_close(scorer(hidden, features), logits)
    mean = scorer.feature_scale[0]
    torch.testing.assert_close(scorer(hidden[5:6], np.append(mean[:28], features[5, 28])[None]), logits[5:6])
    with pytest.raises(TypeError, match="rollout_features"):
        scorer(hidden)
    run_script("04_select.py", run, "--scorer", run / "scorer.pt")
    assert [row["score"] for row in common.read_jsonl(run / "scores/scorer.jsonl")] == pytest.approx(logits.tolist()[::-1], abs=1e-5)


@pytest.mark.parametrize("change", [{"model": "other"}, {"n_layers": 9}, {"width": 6}])
def test_a_scorer_refuses_what_it_was_not_made_for(tmp_path, capsys, change):
    scorer = train_run(make_run(tmp_path / "run"), "--configs", 1)
    other = make_run(tmp_path / "other", **change)
    with pytest.raises(SystemExit) as stop:
        common.score_run(scorer, other, "my.pt")
    told = capsys.readouterr().err
    assert stop.value.code == 2 and "my.pt" in told
    for name in {"model": ("'tiny'", "'other'"), "n_layers": ("5", "9"), "width": ("8", "6")}[next(iter(change))]:
        assert name in told


def test_scoring_names_the_rollouts_whose_vectors_are_not_finite(tmp_path, capsys):
    run = make_run(tmp_path / "run")
    scorer = train_run(run, "--configs", 1)
    spoil(run, 7)
    with pytest.raises(SystemExit):
        common.score_run(scorer, run, chunk=5)
    assert "('p1', 3)" in capsys.readouterr().err


def spoil(run, row, value=math.nan):
    stored = common.load_pt(run / "hidden.pt")
    hidden = stored["hidden"].clone()
    hidden[row] = value
    common.save_pt(run / "hidden.pt", {**stored, "hidden": hidden})


def test_finished_scorers_are_left_alone_until_something_changes(tmp_path, capsys):
    run = make_run(tmp_path / "run")
    train_run(run, "--configs", 1)
    written = (run / "scorer.pt").stat().st_mtime_ns
    capsys.readouterr()
    train_run(run, "--configs", 1)
    assert "finished before" in capsys.readouterr().out and (run / "scorer.pt").stat().st_mtime_ns == written
    for change in (lambda: None, lambda: flip_label(run), lambda: spoil(run, 0, 1.0)):
        change()
        train_run(run, "--configs", 2)
        assert "finished before" not in capsys.readouterr().out


def flip_label(run):
    rows = common.read_jsonl(run / "labels.jsonl")
    rows[0]["label"] = 1 - rows[0]["label"]
    common.write_jsonl(run / "labels.jsonl", rows)


# ---------------------------------------------------------------------------------------------------------------------
# What goes in


def test_rollouts_that_could_not_be_judged_are_counted_and_left_out(tmp_path, capsys):
    run = make_run(tmp_path / "run")
    rows = common.read_jsonl(run / "labels.jsonl")
    for row in rows[:6]:
        row["label"] = None
    common.write_jsonl(run / "labels.jsonl", rows)
    data = trainer.load_data([run], "penultimate/eos")
    assert "6 of 48 rollouts could not be judged" in capsys.readouterr().out
    assert data.keys == [(str(run), row["id"], row["sample"]) for row in rows[6:]]
    assert data.y.tolist() == [row["label"] for row in rows[6:]]


def test_vectors_are_widened_and_of_the_layer_and_token_asked_for(tmp_path):
    run = make_run(tmp_path / "run")
    stored = common.load_pt(run / "hidden.pt")
    data = trainer.load_data([run], "-2/last")  # of 5 layers: the penultimate one
    assert data.x.dtype == torch.float32 and torch.equal(data.x, stored["hidden"][:, 0].float())


def test_bad_calibration_sets_are_one_line(tmp_path, capsys):
    one_class, few, broken = (make_run(tmp_path / name) for name in ("one_class", "few", "broken"))
    common.write_jsonl(
        one_class / "labels.jsonl", [{**row, "label": 1} for row in common.read_jsonl(one_class / "labels.jsonl")]
    )
    assert "48 of 48 labelled rollouts are right" in refusal(capsys, one_class)
    rows = common.read_jsonl(few / "labels.jsonl")
    common.write_jsonl(
        few / "labels.jsonl", [{**row, "label": row["label"] if i < 12 else None} for i, row in enumerate(rows)]
    )
    assert "3 problem(s)" in refusal(capsys, few)
    spoil(broken, 7, math.inf)
    assert "'p1', 3)" in refusal(capsys, broken)
    good, model, layers, width = (make_run(tmp_path / name, **change) for name, change in
                                  (("good", {}), ("model", {"model": "other"}), ("layers", {"n_layers": 9}),
                                   ("width", {"width": 6})))  # fmt: skip
    for other, named in ((model, "'other'"), (layers, "9 layers"), (width, "(6,)")):
        assert named in refusal(capsys, good, other)
    assert "{seed}" in refusal(capsys, good, "--seed", 32, 42)
    (broken / "labels.jsonl").unlink()
    assert "02_label.py" in refusal(capsys, good, broken)
    assert "01_generate.py" in refusal(capsys, good, tmp_path / "nowhere")


def test_massive_dimensions_are_warned_of_and_standardising_saves_the_day(tmp_path, capsys):
    run = make_run(tmp_path / "run", problems=40, width=200)  # the signal is in the first hundred
    stored = common.load_pt(run / "hidden.pt")
    hidden = stored["hidden"].clone()
    hidden[..., -2:] = 1000 * torch.randn(*hidden.shape[:-1], 2).to(hidden.dtype)
    common.save_pt(run / "hidden.pt", {**stored, "hidden": hidden})
    raw = train_run(run, "--configs", 1).checkpoint["val_auroc"]
    assert "2 of 200 dimensions are over 50 times larger" in capsys.readouterr().err
    assert train_run(run, "--configs", 1, "--standardise").checkpoint["val_auroc"] > max(0.9, raw)
    assert "warning" not in capsys.readouterr().err


def test_constant_dimensions_survive_standardising():
    x = torch.cat([torch.randn(50, 3) * 1e-2 + 5, torch.full((50, 1), 3000.0)], 1)
    scaled = common.standardise(x, trainer.fit_scale(x))
    torch.testing.assert_close(scaled[:, :3].std(0, correction=0), torch.ones(3), atol=1e-3, rtol=0)
    assert (scaled[:, 3] == 0).all()


def test_parts_of_the_calibration_set(tmp_path):
    data = make_data(problems=20, n=4)
    first, second = (trainer.choose(data, settings(half=half), 32) for half in (0, 1))
    assert len(set(first.problem)) == len(set(second.problem)) == 10 and not set(first.problem) & set(second.problem)
    some = trainer.choose(data, settings(fraction=0.25, rollouts=2), 32)
    assert len(set(some.problem)) == 5 and {key[2] for key in some.keys} == {0, 1} and len(some.y) == 10
    place = [data.keys.index(key) for key in some.keys]
    assert torch.equal(some.x, data.x[place]) and torch.equal(some.y, data.y[place])


# ---------------------------------------------------------------------------------------------------------------------
# Designs and studies


@pytest.fixture(scope="module")
def layered(tmp_path_factory):
    """A run of six layers of which only layer 2 knows anything, with the last ten tokens and ragged special ones."""
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
    special = torch.randn(int(offsets[-1]), 8, generator=generator)
    extra = {"keys": stored["keys"], "last10": last10, "last10_len": torch.full((rows,), 6), "special": special}
    common.save_pt(run / "extra.pt", {**extra, "special_offsets": offsets, "special_tokens": torch.zeros(len(special))})
    return run


@pytest.mark.parametrize(
    "design",
    ["best-layer", "ensemble", "transformer-final", "transformer-last10", "transformer-special", "logistic", "ridge"],
)
def test_every_design_trains_and_rebuilds_itself(layered, tmp_path, design):
    scorer = train_run(layered, "--design", design, "--configs", 1, out=tmp_path / "scorer.pt")
    keys, logits = common.score_run(scorer, layered, chunk=7)
    same = common.score_run(scorer, layered)[1]
    torch.testing.assert_close(logits, same, atol=1e-5, rtol=1e-5)
    right = np.array([row["label"] for row in common.read_labels(layered, keys)]) > 0
    if design == "best-layer":
        assert scorer.vector == "2/eos" and scorer.shape == (8,)
    if design in ("best-layer", "ensemble", "transformer-last10"):
        assert common.auroc(right, logits.numpy()) > 0.8


def test_linear_rivals_find_a_linear_truth():
    data = make_data(problems=80, n=8, signal=1.0)
    for design in ("logistic", "ridge"):
        args = trainer.settle(settings(design=design, vector=None))
        task = trainer.make_task(data, args, 32, "penultimate/eos")
        best = min((r for config in task.configs for r in trainer.train([task], [(0, config)], args)), key=trainer.rank)
        weight = best["state"]["1.weight"][0] / task.scale[1]
        assert weight[:3].min() > 3 * weight[3:].abs().max()


def test_absent_positions_change_nothing():
    module = common.build_scorer(
        "transformer-special", {"width": 16, "depth": 2, "dropout": 0.3, "input_dropout": 0.2}, (6, 8)
    ).eval()
    x = torch.randn(5, 6, 8)
    x[:, :3] = 0
    x[4] = 0  # an answer with no special token at all
    shorter = copy.deepcopy(module)
    with torch.no_grad():
        shorter.place = torch.nn.Parameter(torch.cat([module.place[:1], module.place[4:]]))
        torch.testing.assert_close(module(x), shorter(x[:, 3:]))
        scaled = common.standardise(x, trainer.fit_scale(x))
    assert (scaled[:, :3] == 0).all() and module(scaled).isfinite().all()


def test_missing_layers_and_extra_vectors_name_the_command(tmp_path, capsys):
    run = make_run(tmp_path / "run")
    assert "--extra last10" in refusal(capsys, run, "--design", "transformer-last10")
    common.save_pt(
        run / "hidden.pt",
        {
            **common.load_pt(run / "hidden.pt"),
            "vectors": ["penultimate/last", "penultimate/eos", "final/last", "3/last"],
        },
    )
    assert "--layers all" in refusal(capsys, run, "--design", "ensemble")


def test_a_study_evaluates_exactly_and_is_not_done_twice(tmp_path, run_script):
    cal, other = make_run(tmp_path / "cal", problems=20), make_run(tmp_path / "eval", problems=10, seed=1)
    command = ["03_train_scorer.py", cal, "--study", "rollouts", "--eval", other, "-o", tmp_path / "s", "-n", 1, 4,
               "--design", "logistic", "--configs", 1, "--seed", 1, 2, "--json"]  # fmt: skip
    report = last_json(run_script(*command))
    assert [row["row"] for row in report["rows"]] == ["N=16", "N=12", "N=8", "N=4"]
    labels = [row["label"] for row in common.read_labels(other)]
    for row in report["rows"]:
        assert row["accuracy"][0] == pytest.approx(100 * np.mean(labels)), "the best of one is a random one"
        assert len(row["scorers"]) == 2 and row["problems"] == 10
    keys, logits = common.score_run(common.load_scorer(tmp_path / "s/rollouts/N=4@0-1.pt"), other)
    best = logits.view(10, 4).argmax(1)
    picked = torch.tensor(labels).view(10, 4)[range(10), best]
    assert report["rows"][3]["scorers"][0][1] == pytest.approx(100 * picked.float().mean().item())
    again = run_script(*command)
    assert again.stdout.count("finished before") == 8 and last_json(again) == report


def test_a_study_measures_what_it_says(tmp_path):
    run = make_run(tmp_path / "run", problems=60, n=6, signal=0.5)
    scorer = train_run(run, "--design", "logistic", "--configs", 1)
    rows = common.read_labels(run)
    rows[0]["label"] = None  # its problem is left out whole
    common.write_jsonl(run / "labels.jsonl", rows)
    args = trainer.parse_args([str(run), "--study", "options", "--eval", str(run), "-n", "2", "6"])
    values = trainer.evaluate(run / "scorer.pt", args, 32, None)
    logits = common.score_run(scorer, run)[1].view(60, 6).numpy()
    right = np.array([row["label"] == 1 for row in rows]).reshape(60, 6)
    names, out = [row["id"] for row in rows[::6]], ~np.isfinite(values[2])
    order = [sorted(names).index(name) for name in names]  # of the columns
    assert out[order].tolist() == [True] + 59 * [False]
    for column, score, label, group in zip(
        values.T[order][1:], logits[1:], right[1:], np.split(np.array(rows), 60)[1:]
    ):
        within = common.auroc(label, score)
        assert column[1] == pytest.approx(within) if within is not None else math.isnan(column[1])
        pairs = [label[max(pair, key=lambda i: score[i])] for pair in itertools.combinations(range(6), 2)]
        assert column[2] == pytest.approx(np.mean(pairs)) and column[3] == label[score.argmax()]
        weight = {}
        for row, logit in zip(group, score, strict=True):
            weight[row["group"]] = weight.get(row["group"], 0) + 1 / (1 + math.exp(-logit))
        voted = [i for i in range(6) if group[i]["group"] == max(weight, key=weight.get)]
        assert column[4] == label[max(voted, key=lambda i: score[i])]
    assert np.nanmean(values[0]) == pytest.approx(common.auroc(right[1:].ravel(), logits[1:].ravel()))


def test_errors_of_a_study_are_those_of_drawing_problems_and_scorers_again():
    rng = np.random.default_rng(0)
    right, problems = rng.random((150, 8)) < rng.uniform(0.2, 0.8, (150, 1)), np.arange(1200).reshape(150, 8)
    scores = np.round(right + rng.normal(size=(150, 1)) + rng.normal(size=(150, 8)), 1)  # ties, problems that differ
    shares = trainer.auroc_shares(right.ravel(), scores.ravel(), list(problems))
    assert shares.mean() == pytest.approx(common.auroc(right.ravel(), scores.ravel()))
    drawn = [rng.integers(0, 150, 150) for _ in range(400)]
    spread = np.std([common.auroc(right[again].ravel(), scores[again].ravel()) for again in drawn])
    assert shares.std(ddof=1) / math.sqrt(150) == pytest.approx(spread, rel=0.15)
    one_kind = trainer.auroc_shares(np.ones(1200, bool), scores.ravel(), list(problems))
    assert np.isnan(one_kind).all()

    difference, errors = [], []
    for _ in range(400):  # 4 scorers on 30 problems: each has its own luck
        problem, scorer, noise = rng.normal(size=30), rng.normal(size=(4, 1)), rng.normal(size=(4, 30))
        first = rng.normal(size=(4, 30))
        mean, error = trainer.compare(first + 2 + problem + scorer + noise, first)
        difference.append(mean)
        errors.append(error)
    assert np.mean(difference) == pytest.approx(2, abs=0.1)
    assert np.std(difference) * 0.9 < np.sqrt(np.mean(np.square(errors))) < np.std(difference) * 1.25
    assert trainer.compare(first, first) == (0, 0)


def test_rows_of_the_options_study_share_a_search_and_differ_in_how_many_members_judge(tmp_path, monkeypatch):
    cal, other = make_run(tmp_path / "cal", problems=20, signal=0.5), make_run(tmp_path / "eval", seed=1, signal=0.5)
    usual = trainer.study_rows
    few = ("default", "default, top 5", "default, top 10")
    monkeypatch.setattr(trainer, "study_rows", lambda args: {name: usual(args)[name] for name in few})
    options = ["--study", "options", "--eval", str(other), "-n", "4", "--configs", "8", "--workers", "1"]
    trainer.main([str(cal), *options, "-o", str(tmp_path)])
    report = common.read_json(tmp_path / "options.json")
    assert [path.name for path in (tmp_path / "options").iterdir()] == ["default@0-32.pt"]
    labels = np.array([row["label"] for row in common.read_labels(other)]) > 0
    for members, row in zip((1, 5, 8), report["rows"], strict=True):
        best = train_run(cal, "--configs", 8, "--top", members, out=tmp_path / f"{members}.pt")
        auroc = common.auroc(labels, common.score_run(best, other)[1].numpy())
        assert row["measures"]["AUROC"]["mean"] == pytest.approx(100 * auroc)


def test_the_study_of_halves_never_evaluates_on_a_training_problem(tmp_path):
    cal, other = make_run(tmp_path / "cal"), make_run(tmp_path / "eval", seed=1)
    meta = common.read_json(cal / "meta.json")
    common.write_json(cal / "meta.json", {**meta, "dataset": "calibration"})
    trained, held_out = trainer.halves([("made_up", f"p{i}") for i in range(12)], 32)
    labels = common.read_jsonl(other / "labels.jsonl")
    common.write_jsonl(
        other / "labels.jsonl",
        [{**row, "label": 1 if ("made_up", row["id"]) in held_out else row["label"]} for row in labels],
    )
    trainer.main(
        [
            str(cal),
            "--study",
            "halves",
            "--eval",
            str(other),
            "-o",
            str(tmp_path),
            "-n",
            "1",
            "--configs",
            "1",
            "--workers",
            "1",
        ]
    )
    report = common.read_json(tmp_path / "halves.json")
    assert [(row["problems"], row["accuracy"]) for row in report["rows"]] == [(6, [100.0])] * 2, (
        "the half with right answers only"
    )
    scorer = common.load_scorer(tmp_path / "halves/same data set@0-32.pt")
    assert {tuple(problem) for problem in scorer.checkpoint["problems"]} == trained
