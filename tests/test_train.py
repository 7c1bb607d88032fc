"""03_train_scorer.py: the search is the one it says, studies make what they say, bad input is one line."""

import copy
import itertools
import math
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from bench_train import draw_rollouts, make_world, plain_loop
from conftest import CREDITS, dies, edit_hidden, edit_jsonl, make_run, read_vectors, report, trainer

import common

MLP = {"number": 0, "hidden": [16, 8], "lr": 1e-3, "dropout": 0.0, "input_dropout": 0.0, "batch_size": 16,
       "weight_decay": 1e-3, "batch_norm": False}  # fmt: skip


def make_quick(patch):
    for space in (trainer.FOR_FEW, trainer.FOR_SOME, trainer.FOR_MANY):
        patch.setitem(space, "hidden", [[24, 12], [32, 16, 8]])
        patch.setitem(space, "lr", [3e-3, 1e-2])
    patch.setitem(trainer.TRANSFORMER, "width", [32])
    patch.setattr(trainer, "EPOCHS", 9)
    patch.setattr(trainer, "PATIENCE", 2)


@pytest.fixture(autouse=True)
def quick(monkeypatch, request):
    if "the_space" not in request.node.name and "training" not in request.node.name:
        make_quick(monkeypatch)


def make_rollouts(problems=40, n=4, seed=0):
    return draw_rollouts(make_world(12), problems, n, seed)


def make_recipe(*runs, design="scatr", **changes):
    """03's recipe for one search, as its command line makes it."""
    args = trainer.parse_args(["run", "--configs", "3"])
    return replace(trainer.make_recipe(args, runs or args.runs, 32, design), **changes)


def make_task(configs, rollouts=None, **changes):
    task = trainer.make_task(rollouts or make_rollouts(), make_recipe(**changes), "cpu")
    return replace(task, configs=[{**MLP, "number": i, **config} for i, config in enumerate(configs)])


def call(*arguments):
    """03 in this process, on one core of a CPU."""
    trainer.main([*map(str, arguments), "--workers", "1", "--device", "cpu"])


def train_run(run, *options, out=None):
    """03 in this process -> the loaded scorer."""
    out = out or run / "scorer.pt"
    call(run, "-o", out, *options)
    return common.load_scorer(out)


def auroc_of(scorer, run):
    keys, logits = common.score_run(scorer, run)
    right = np.array([row["label"] for row in common.read_labels(run, keys)]) > 0
    return report.auroc(right, logits.numpy())


def spoil(run, row, value):
    def edit(hidden, **_):
        hidden[row] = value
        return {"hidden": hidden}

    edit_hidden(run, edit)


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


@pytest.mark.parametrize("paper_space", [False, True])
@pytest.mark.parametrize("n", SPACE)
def test_the_space_is_the_papers(n, paper_space):
    drawn = trainer.draw_configs(n, make_recipe(configs=100, paper_space=paper_space))
    shapes, *others = SPACE[n]
    knobs = ("dropout", "input_dropout", "batch_size", "weight_decay", "batch_norm")
    assert {tuple(config["hidden"]) for config in drawn} == (SHAPES if paper_space else shapes)
    assert [{config[knob] for config in drawn} for knob in knobs] == others
    assert {config["lr"] for config in drawn} == {1e-4, 5e-4, 1e-3}


@pytest.mark.parametrize("sizes, counts", [
    ([2] * 8 + [3] * 4, (30, 31, 32)),  # families of 2 and 3 problems beside problems of their own
    ([37], (3, 37, 38, 39)),  # a family that is nearly all there is
])  # fmt: skip
def test_a_family_of_problems_stays_on_one_side_as_far_as_three_to_one_goes(tmp_path, sizes, counts):
    run = make_run(tmp_path / "run", problems=40)
    names = [f"kind {i}" for i, size in enumerate(sizes) for _ in range(size)]
    family_of = {f"p{i}": name for i, name in enumerate(names)}

    def name_family(row):
        return {**row, "family": family_of[row["id"]]} if row["id"] in family_of else row

    edit_jsonl(run / "problems.jsonl", name_family)
    rollouts = trainer.load_rollouts([run], "penultimate/eos")
    for i, row in enumerate(rollouts.problems):  # all right answers are of one problem
        rollouts.labels[i] = float(row == rollouts.problems[-1])
    for seed in range(20):
        sides = trainer.split_by_problem(rollouts, seed)
        problems = [{rollouts.keys[row][1] for row in side} for side in sides]
        families = [{family_of.get(problem, problem) for problem in side} for side in problems]
        assert not families[0] & families[1] and all(families)
        assert len(problems[0]) in counts
        assert set(rollouts.labels[sides[0]].tolist()) == {0.0, 1.0}, "training has both labels"


@pytest.mark.parametrize("batch_norm", [False, True])
def test_training_is_torchs_adam_clipping_plateau_and_early_stop(batch_norm):
    """As a naive loop without dropout has it; right answers weigh wrong to right of the training part."""
    task = make_task([{}, {"batch_norm": batch_norm, "lr": 3e-3, "weight_decay": 1e-2}])
    config = task.configs[1]  # each has a seed of its own
    trial, _ = trainer.train(task, config)
    right, wrong = ((task.y[task.train] == y).sum().item() for y in (1, 0))
    plain, _ = plain_loop(replace(task, pos_weight=wrong / right), config, epochs=100)
    assert 12 < len(plain["losses"]) < 100, "the schedule and the stop must both have had their say"
    assert len(trial["losses"]) == trial["epochs"] == len(plain["losses"])
    np.testing.assert_allclose(trial["losses"], plain["losses"], rtol=2e-3)
    assert trial["best_epoch"] == 1 + int(np.argmin(plain["losses"]))


def test_training_ends_after_100_epochs_and_leaves_the_precision_of_products():
    """01 and 05 in the same process, and one's own code, must not compute in what is good enough for 03."""
    torch.set_float32_matmul_precision("high")
    task = make_task([{"lr": 1e-4, "batch_size": 64}], make_rollouts(seed=3))
    trial, _ = trainer.train(task, task.configs[0])
    assert len(trial["losses"]) == 100 and trial["best_epoch"] > 90, "it would have gone on"
    assert torch.get_float32_matmul_precision() == "high"


def test_dropout_is_drawn_anew_and_keeps_the_mean():
    config = {"hidden": [8], "dropout": 0.75, "input_dropout": 0.5, "batch_norm": False}
    first, *_, last, _, _ = common.build_scorer("scatr", config, (1000,)).train()
    for layer, kept in ((first, 0.5), (last, 0.25)):
        masks = [layer(torch.ones(9, 1000)) for _ in range(2)]
        assert set(masks[0].flatten().tolist()) == {0.0, 1 / kept} and not torch.equal(*masks)
        assert (layer.eval()(torch.ones(9)) == 1).all()


@pytest.mark.parametrize("n, sizes", [(33, [33]), (65, [32, 33]), (66, [32, 32, 2]), (1, [1])])
def test_no_batch_has_a_single_row(n, sizes):
    assert [len(rows) for rows in trainer.batches(torch.arange(n), 32, torch.Generator())] == sizes


def test_separate_runs_and_any_number_of_processes_make_the_same_scorers(tmp_path):
    runs = [make_run(tmp_path / name / "32", problems=8, seed=seed) for seed, name in enumerate("ab")]
    options = ["--configs", "2"]
    side_by_side = ["--separate", "--design", "scatr", "logistic", "--seed", "32", "42", "--workers", "3"]
    trainer.main([*map(str, runs), *options, *side_by_side])
    for run, design, seed in itertools.product(runs, ("logistic", "scatr"), (32, 42)):
        made = common.load_pt(run / f"{design}.{run.parent.name}@32-{seed}.pt")
        assert (made["runs"], made["design"], made["seed"]) == ([str(run)], design, seed)
    alone = train_run(runs[1], *options, "--seed", 42, out=tmp_path / "alone.pt").checkpoint
    assert alone["right_of_validation"] == made["right_of_validation"]
    for name, tensor in alone["state"].items():
        assert torch.equal(tensor, made["state"][name])
    assert [trial["losses"] for trial in alone["trials"]] == [trial["losses"] for trial in made["trials"]]


# ---- scorer.pt


def test_a_scorer_rebuilds_itself_with_the_best_trials_weights(tmp_path):
    run = make_run(tmp_path / "run", problems=40)
    rollouts = trainer.load_rollouts([run], common.DEFAULT_VECTOR)
    train, valid = trainer.split_by_problem(rollouts, 32)
    scorer = train_run(run, "--configs", 3, "--standardise")
    checkpoint, cost = scorer.checkpoint, scorer.checkpoint["cost"]
    assert (scorer.model, scorer.vector, scorer.shape) == ("tiny", "penultimate/eos", (8,))
    assert checkpoint["seed"] == 32 and checkpoint["recipe"]["standardise"]
    texts = [common.text_stamp({"prompt": f"What is {i}?"}) for i in range(40)]
    assert checkpoint["problems"] == sorted(("made_up", f"p{i}", text) for i, text in enumerate(texts))
    mean, deviation = checkpoint["scale"]
    torch.testing.assert_close(mean, rollouts.x[train].mean(0))  # of the training part alone
    module = common.mlp(8, checkpoint["config"]["hidden"]).eval()
    module.load_state_dict(checkpoint["state"])
    x = (rollouts.x - mean) / deviation
    loss_of = torch.nn.BCEWithLogitsLoss(pos_weight=torch.tensor(checkpoint["pos_weight"]))
    with torch.no_grad():
        torch.testing.assert_close(common.score_run(scorer, run)[1], module(x))
        torch.set_float32_matmul_precision("medium")  # as in training: bfloat16, if the processor has it
        loss = loss_of(module(x[valid]), rollouts.labels[valid]).item()
    assert loss == pytest.approx(checkpoint["val_loss"], rel=1e-4)
    assert auroc_of(scorer, run) > 0.85, "the planted signal is found"
    assert cost["parameters"] == sum(value.numel() for value in checkpoint["state"].values())
    assert cost["ms_per_rollout"] > 0
    products = 0
    for trial in checkpoint["trials"]:
        sizes = [8, *trial["hidden"], 1]
        products += trial["epochs"] * sum(a * b for a, b in itertools.pairwise(sizes))
    assert cost["train_flops"] == 2 * (3 * len(train) + len(valid)) * products


def shares_by_hand(rollouts, logits):
    """How often each strategy is right, by brute force over the rows of each problem."""
    problems = {}
    for i, problem in enumerate(rollouts.problems):
        row = {"label": rollouts.labels[i].item(), "group": rollouts.groups[i].item()}
        row |= {"score": logits[i].item(), "weight": logits[i].sigmoid().item()}
        problems.setdefault(problem, []).append(row)
    shares = {}
    for strategy, rule in (("best-of-n", "mine"), ("weighted-vote", "mine, weighted vote")):
        shares[strategy] = pytest.approx(np.mean([CREDITS[rule](rows) for rows in problems.values()]))
    return shares


def test_the_share_of_right_picks_is_that_of_the_validation_part(tmp_path):
    run = make_run(tmp_path / "run", problems=40, signal=0.5)
    scorer = train_run(run, "--configs", 2)
    rollouts = trainer.load_rollouts([run], common.DEFAULT_VECTOR)
    _, valid = trainer.split_by_problem(rollouts, 32)
    validation = rollouts.part(valid)
    assert scorer.checkpoint["right_of_validation"] == shares_by_hand(validation, scorer(validation.x))
    code = make_run(tmp_path / "code", problems=40, kind="code")
    assert [*train_run(code, "--configs", 1).checkpoint["right_of_validation"]] == ["best-of-n"], "programs do not vote"


def test_the_best_rule_is_that_of_the_calibration_problems(tmp_path):
    """Also one that is better where it is lower, and without a value for some rollouts."""
    run = make_run(tmp_path / "run", problems=20)
    labels = {(row["id"], row["sample"]): row["label"] for row in common.read_labels(run)}

    def lower_if_right(row):
        value = -labels[row["id"], row["sample"]] if row["sample"] else None
        return row | {"conf": row["conf"] | {"entropy/tail": value}}

    edit_jsonl(run / "rollouts.jsonl", lower_if_right)
    assert train_run(run, "--configs", 1).checkpoint["best_rule"] == "entropy/tail"


@pytest.mark.parametrize("other", [0, 1])
def test_p_is_the_probability_where_right_answers_are_rare_or_frequent(tmp_path, other):
    """Seven of ten labels become one; with the weight of the loss left in, a scorer says about one half."""
    runs = [make_run(tmp_path / name, problems=200, seed=i, signal=0.3) for i, name in enumerate("ab")]
    for run in runs:
        relabel(run, lambda i, row: row["label"] if i % 10 < 3 else other)
    scorer = train_run(runs[0], "--configs", 2)
    _, logits = common.score_run(scorer, runs[1])
    right = np.mean([row["label"] for row in common.read_labels(runs[1])])
    assert common.probability(logits, scorer.log_weight).mean().item() == pytest.approx(right, abs=0.05)
    assert abs(logits.sigmoid().mean().item() - right) > 0.25


def test_a_scorer_of_vector_and_statistics_is_fed_both_by_key(tmp_path):
    run = make_run(tmp_path / "run", problems=30, signal=0.0)
    rows = common.read_jsonl(run / "rollouts.jsonl")
    for row, label in zip(rows, common.read_labels(run), strict=True):
        row["conf"]["gap/avg"] += label["label"]  # only a statistic tells right from wrong
    rows[5]["conf"] = {name: None for name in rows[5]["conf"]}  # a rollout without tokens
    common.write_jsonl(run / "rollouts.jsonl", rows[::-1])
    scorer = train_run(run, "--configs", 2, "--design", "scatr+")
    assert auroc_of(scorer, run) > 0.8
    logits, (_, hidden) = common.score_run(scorer, run)[1], read_vectors(run)
    features = np.stack([common.rollout_features(row["conf"], row["n_tokens"]) for row in rows])
    assert np.isnan(features[5][:28]).all() and features.shape == (120, 29)
    torch.testing.assert_close(scorer(hidden, features), logits)
    rollouts, mean = trainer.load_rollouts([run], scorer.vector), scorer.checkpoint["feature_scale"][0]
    train, _ = trainer.split_by_problem(rollouts, 32)
    torch.testing.assert_close(mean, rollouts.features[train].nanmean(0))
    filled = np.append(mean[:28], features[5, 28])  # a missing statistic counts as the training mean
    torch.testing.assert_close(scorer(hidden[5:6], filled[None]), logits[5:6])


def test_a_new_statistic_is_read_by_scorers_that_are_trained_anew_and_the_others_are_done(
    tmp_path, monkeypatch, capsys
):
    run = make_run(tmp_path / "a" / "32")
    arguments = [run, "--separate", "--design", "scatr", "scatr+", "--configs", 1]
    call(*arguments)
    scorer = common.load_scorer(run / "scatr+.a@32-32.pt")
    monkeypatch.setitem(common.STATISTICS, "top", lambda s: s.p[:, 0])
    monkeypatch.setattr(common, "RULES", common.RULES + tuple(f"top/{way}" for way in common.AGGREGATIONS))
    monkeypatch.setattr(common, "RULES_STAMP", "with top")
    error = dies(capsys, common.score_run, scorer, run, "old.pt")
    assert "old.pt: made for other token statistics than there are now; train it again" in error
    call(*arguments)
    assert "1 scorer(s) finished before" in capsys.readouterr().out
    assert len(common.load_scorer(run / "scatr+.a@32-32.pt").checkpoint["feature_scale"][0]) == 33


@pytest.mark.parametrize("change", [
    "place", "configurations", "a label", "a vector", "a family", "growth", "code of 03", "code of common.py",
])  # fmt: skip
def test_a_finished_scorer_is_made_again_only_after_a_change(tmp_path, capsys, monkeypatch, change):
    monkeypatch.setattr(trainer, "code_stamp", trainer.code_stamp.__wrapped__)  # which is not cached
    run = make_run(tmp_path / "run")
    train_run(run, "--configs", 1)
    written = (run / "scorer.pt").stat().st_mtime_ns
    if change == "a label":
        relabel(run, lambda i, row: 1 - row["label"] if i == 0 else row["label"])
    elif change == "a vector":
        spoil(run, 0, 1.0)
    elif change == "a family":  # p1, p10 and p11 are of one family
        edit_jsonl(run / "problems.jsonl", lambda row: row | {"family": row["id"][:2]})
    elif change == "growth":
        make_run(run, n=5)
    elif change == "code of 03":
        monkeypatch.setattr(trainer, "__file__", __file__)
    elif change == "code of common.py":
        mlp = common.mlp
        monkeypatch.setattr(common, "mlp", lambda *args, **knobs: mlp(*args, **knobs))
    elif change == "place":  # a run folder may be moved
        run = run.rename(tmp_path / "moved")
    capsys.readouterr()
    train_run(run, "--configs", 2 if change == "configurations" else 1)
    is_kept = (run / "scorer.pt").stat().st_mtime_ns == written
    assert is_kept == ("finished before" in capsys.readouterr().out) == (change == "place")


# ---- What goes in


def test_a_problem_that_two_sets_share_is_in_training_or_in_validation(tmp_path):
    """As those of aime25 are in aime, under other names or not."""
    runs = [make_run(tmp_path / name, problems=20, dataset=name) for name in ("aime", "aime25")]
    edit_jsonl(runs[1] / "problems.jsonl", lambda row: row | ({} if row["id"] > "p15" else {"prompt": "Only here"}))
    rollouts = trainer.load_rollouts(runs, common.DEFAULT_VECTOR)
    for seed in range(5):
        train, valid = trainer.split_by_problem(rollouts, seed)
        texts = [{rollouts.problems[row][2] for row in side} for side in (train, valid)]
        assert not texts[0] & texts[1]


def test_rollouts_that_could_not_be_judged_are_counted_and_left_out(tmp_path, capsys):
    run = make_run(tmp_path / "run")
    rows = relabel(run, lambda i, row: row["label"] if i % 4 else None)  # of each problem the first of four
    common.write_jsonl(run / "labels.jsonl", [*rows[:-1], {**rows[-1], "group": None}])  # no answer
    train_run(run, "--configs", 1, "--rollouts", 3)
    said = capsys.readouterr()
    assert "of 24 rollouts right; 12 could not be judged" in said.out, "of the first three"
    assert "only 9 right and 15 wrong answers; a scorer needs" in said.err
    assert said.err.count("warning: ") == 2 and "12 problems, 3 for validation (accuracy ± 29 points)" in said.err
    chosen, _ = trainer.choose_rollouts(trainer.load_rollouts([run], "penultimate/eos"), make_recipe(run))
    judged = [row for row in rows if row["label"] is not None]
    assert chosen.keys == [(run, row["id"], row["sample"]) for row in judged]
    assert chosen.labels.tolist() == [row["label"] for row in judged]
    assert chosen.groups.tolist() == [*(row["group"] for row in judged[:-1]), -1]


BAD = [  # arguments, where a name is that of a run; what is said
    ("broken", "'p1', 3)"), ("good model", "'other'"), ("good deeper", "9 layers"),
    ("good unlabelled", "02_label.py"), ("good nowhere", "01_generate.py"), ("good -o .", "folder"),
    ("good --configs 1 -o hidden.pt", "hidden.pt: not a scorer"),
    ("good -o /proc/none/x.pt", "cannot write into /proc/none: "),
    ("good --rollouts -1", "-1: give 1 or more"),
    ("good --design transformer-last10", "--extra last10"), ("good --design ensemble", "--layers all"),
    ("good --design scatr scatr", "would be made twice"), ("good --vector all/eos", "scatr takes"),
    ("good --design scatr logistic -o a.pt", "take one --design"),
    ("good --vector final/eos --design ensemble", "all/eos, not final/eos"),
    ("good --study mixed", "two data sets"), ("good --study layers", "no vector '.15/eos'"),
    ("good good_too other --study mixed", "2 of made_up, 1 of other"),
]  # fmt: skip


@pytest.fixture(scope="module")
def bad_runs(tmp_path_factory):
    """{name: run}, each good or with one thing that is wrong with it."""
    folder = tmp_path_factory.mktemp("runs")
    changes = {"model": {"model": "other"}, "deeper": {"n_layers": 9}, "other": {"dataset": "other"}}
    names = ("good", "good_too", "broken", "unlabelled")
    runs = {name: make_run(folder / name, **changes.get(name, {})) for name in (*names, *changes)}
    spoil(runs["broken"], 7, math.inf)
    (runs["unlabelled"] / "labels.jsonl").unlink()
    return {**runs, "hidden.pt": runs["good"] / "hidden.pt"}


@pytest.mark.parametrize("arguments, words", BAD)
def test_bad_calibration_sets_and_arguments_are_one_line_before_anything_is_made(
    tmp_path, capsys, monkeypatch, bad_runs, arguments, words
):
    monkeypatch.chdir(tmp_path)
    assert words in dies(capsys, call, *(bad_runs.get(word, word) for word in arguments.split()))
    assert not list(tmp_path.iterdir())


def test_a_run_that_teaches_nothing_is_named_once_and_the_others_are_learned_from(tmp_path, run_here):
    """What all designs and seeds share is said once."""
    runs = [make_run(tmp_path / name / "32", problems=8) for name in "abc"]
    edit_jsonl(runs[1] / "problems.jsonl", lambda row: row | {"family": str(int(row["id"][1:]) % 3)})
    relabel(runs[2], lambda i, row: None)
    options = ["--separate", "--design", "scatr", "logistic", "--seed", 32, 42, "--configs", 1]
    said = run_here("03_train_scorer.py", *runs, *options, "--workers", 1)
    why = " (a family counts as one); a scorer learns from right and wrong answers to 4 problems or more"
    _, few, three_families, unjudged = sorted(said.stderr.splitlines())
    assert few.startswith(f"warning: {runs[0]}: 8 problems, 2 for validation (accuracy ± 35 points)")
    assert three_families.startswith(f"warning: {runs[1]}: ") and three_families.endswith(f"to 3 problems{why}")
    assert unjudged == f"warning: {runs[2]}: 0 of 0 judged answers are right, to 0 problems{why}"
    names = ("scatr.a@32-32", "scatr.a@32-42", "logistic.a@32-32", "logistic.a@32-42")
    assert {path.stem for path in tmp_path.rglob("*@*.pt")} == {*names}
    said = run_here("03_train_scorer.py", *runs, *options, "--workers", 1)
    lines = [line.removeprefix("scorer: ") for line in said.stdout.splitlines() if line.startswith("scorer: ")]
    assert lines == [f"{runs[0]}/{name}.a@32-{seed}.pt" for name in ("scatr", "logistic") for seed in (32, 42)]
    relabel(runs[0], lambda i, row: 1)
    refused = run_here("03_train_scorer.py", *runs, *options, code=2)
    assert "32 of 32 judged answers are right" in refused.stderr and "scorer: " not in refused.stdout


# ---- Designs


@pytest.fixture(scope="module")
def layered(tmp_path_factory):
    """A run of six layers of which only layer 2 knows anything; the last ten and ragged special tokens."""
    run = make_run(tmp_path_factory.mktemp("layered") / "run", problems=16, signal=3.0)
    stored = common.load_pt(run / "hidden.pt")
    rows, generator = len(stored["hidden"]), torch.Generator().manual_seed(0)
    hidden = torch.randn(rows, 6, 8, generator=generator).bfloat16()
    hidden[:, 2] = stored["hidden"][:, 1]
    names = ["0/eos", "1/eos", "2/eos", "3/eos", "penultimate/eos", "final/eos"]
    common.save_pt(run / "hidden.pt", {**stored, "vectors": names, "hidden": hidden})
    counts = torch.randint(0, 40, (rows,), generator=generator)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    last10 = torch.randn(rows, 10, 8, generator=generator)
    last10[:, :4], last10[:, 9] = 0, hidden[:, 2].float()
    extra = {"last10": last10, "special": torch.randn(int(offsets[-1]), 8, generator=generator)}
    common.save_pt(run / "extra.pt", {"keys": stored["keys"], **extra, "special_offsets": offsets})
    return run


@pytest.fixture(scope="module")
def designs(layered):
    """{design: the path of its scorer}, made by the study of designs."""
    with pytest.MonkeyPatch.context() as patch:
        make_quick(patch)
        call(layered, "--study", "designs", "-o", layered.parent, "--configs", 2)
    paths = layered.parent.glob("designs-*.pt")
    return {path.name.removeprefix("designs-").split(".")[0]: path for path in paths}


@pytest.mark.parametrize("design", [design for design in trainer.DESIGNS if design != "scatr+"])
def test_every_design_trains_and_rebuilds_itself(layered, designs, design):
    scorer = common.load_scorer(designs[design])
    _, logits = common.score_run(scorer, layered, chunk=7)
    torch.testing.assert_close(logits, common.score_run(scorer, layered)[1], atol=1e-5, rtol=1e-5)
    if design == "best-layer":
        assert scorer.vector == "2/eos" and scorer.shape == (8,)
    if design in ("best-layer", "ensemble", "transformer-last10"):
        assert auroc_of(scorer, layered) > 0.8
    assert (scorer.checkpoint["scale"] is None) == (design != "logistic"), "a linear rule is standardised"
    assert len(scorer.checkpoint["trials"]) == (2 * 6 if design in trainer.OVER_LAYERS else 2)


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


def test_an_ensemble_is_the_mixture_of_frozen_layers_that_fits_the_validation_part_best(layered, designs):
    scorer = common.load_scorer(designs["ensemble"])
    weights, parts = scorer.checkpoint["weights"], scorer.parts
    assert weights.sum().item() == pytest.approx(1) and (weights >= 0).all() and len(parts) == 6
    rollouts = trainer.load_rollouts([layered], "all/eos")
    train, valid = trainer.split_by_problem(rollouts, 32)
    p = torch.stack([part(rollouts.x[:, i]) for i, part in enumerate(parts)], 1).sigmoid()
    torch.testing.assert_close(scorer(rollouts.x).sigmoid(), p @ weights)
    right = rollouts.labels[train].sum().item()

    def loss(w):
        mixed, y = p[valid] @ w, rollouts.labels[valid]
        return -((len(train) - right) / right * y * mixed.log() + (1 - y) * (1 - mixed).log()).mean().item()

    assert scorer.checkpoint["val_loss"] == pytest.approx(loss(weights), abs=1e-5)
    validation = rollouts.part(valid)
    assert scorer.checkpoint["right_of_validation"] == shares_by_hand(validation, scorer(validation.x))
    others = [torch.eye(6)[i] * 0.05 + weights * 0.95 for i in range(6)]
    assert all(loss(weights) <= loss(other) + 1e-6 for other in others)
    assert (scorer(200 * torch.randn(4, 6, 8)).abs() < 1e6).all(), "no infinite logit where a sigmoid is 1"


# ---- Studies


@pytest.fixture
def study(tmp_path, capsys):
    """study(name, *options) -> ({name of a scorer without .pt: what is in it}, all that was printed)

    The runs are of two data sets of 8 and 20 problems, two of each.
    """
    runs = [
        make_run(tmp_path / name / str(seed), dataset=name, problems=count, seed=seed, n_layers=50)
        for name, count in (("few", 8), ("many", 20))
        for seed in (1, 2)
    ]

    def study(name, *options, runs=runs):
        call(*runs, "--study", name, "-o", tmp_path / "studies", "--configs", 1, *options)
        made = {path.stem: common.load_pt(path) for path in (tmp_path / "studies").glob(f"{name}-*.pt")}
        return made, "".join(capsys.readouterr())

    study.runs = runs
    return study


def test_the_study_of_the_calibration_set_learns_from_fractions_of_the_problems(study):
    made, said = study("fraction", "--seed", 32, 42, runs=study.runs[2:])
    assert "16 scorer(s) to train, of at most 1 configurations each: 16 trainings; " in said
    expected = itertools.product(("100%", "50%", "25%", "10%"), (1, 2), (32, 42))
    assert made.keys() == {f"fraction-{row}.many@{run}-{seed}" for row, run, seed in expected}
    for name, scorer in made.items():
        share = int(name.split("-")[1].split("%")[0]) / 100
        assert len(scorer["problems"]) == max(4, round(20 * share))


def test_the_study_of_layers(study):
    names = (".15", ".3", ".45", ".6", ".75", ".9", "penultimate")
    edit_hidden(study.runs[3], lambda hidden, **_: {
        "vectors": [f"{name}/eos" for name in names], "hidden": hidden[:, [0, 1, 2, 3, 0, 1, 2]]
    })  # fmt: skip
    made, _ = study("layers", runs=study.runs[3:])
    rows = (".15L", ".3L", ".45L", ".6L", ".75L", ".9L", "L-1")
    assert {name: scorer["vector"] for name, scorer in made.items()} == {
        f"layers-{row}.many@2-32": f"{name}/eos" for row, name in zip(rows, names)
    }


def test_mixed_is_half_and_half_by_problems_over_the_sets(study):
    made, _ = study("mixed")
    assert made.keys() == {
        "mixed-few.few@1-32", "mixed-few.few@2-32", "mixed-many.many@1-32", "mixed-many.many@2-32",
        "mixed-mixed.few+many@1+1-32", "mixed-mixed.few+many@2+2-32",
    }  # fmt: skip
    for run in (1, 2):
        names = [name for name, *_ in made[f"mixed-mixed.few+many@{run}+{run}-32"]["problems"]]
        assert (names.count("few"), names.count("many")) == (8, 8)


def test_halves_learn_from_half_of_the_second_data_set(study):
    made, _ = study("halves", "--seed", 32, 42)
    halves = {}
    for name, scorer in made.items():
        row, calibration = name.removeprefix("halves-").split(".", 1)
        data_set, count = {"other": ("few", 8), "same": ("many", 10)}[row]
        assert {name for name, *_ in scorer["problems"]} == {data_set} and calibration.startswith(data_set)
        assert len(scorer["problems"]) == count
        halves.setdefault((row, scorer["seed"]), set()).add(str(scorer["problems"]))
    assert all(len(found) == 1 for found in halves.values()), "the same half of both runs"
    assert halves["same", 32] != halves["same", 42]


def test_a_scorer_is_done_under_another_name_and_when_the_run_gets_more_vectors(tmp_path, study):
    """So that what run_all.sh trained serves a study: 03 -h names the copy."""
    run = study.runs[0]
    call(run, "--separate", "--design", "scatr", "logistic", "--configs", 1)
    edit_hidden(run, lambda vectors, hidden, **_: {
        "vectors": [*vectors, "1/eos"], "hidden": hidden[:, [0, 1, 2, 3, 0]]
    })  # fmt: skip
    (tmp_path / "studies").mkdir()
    shutil.copy(run / "scatr.few@1-32.pt", tmp_path / "studies" / "fraction-100%.few@1-32.pt")
    _, said = study("fraction", runs=[run])
    assert "1 scorer(s) finished before" in said and "3 scorer(s) to train" in said
    assert "4 scorer(s) to train" in study("fraction", "--seed", 32, 42, runs=[run])[1]


def test_a_killed_study_resumes_with_the_scorers_that_are_missing(study, watch_writes):
    run = study.runs[0]
    watch_writes("*.pt", stop_at=2)
    with pytest.raises(KeyboardInterrupt):
        study("fraction", runs=[run])
    finished = watch_writes("*.pt")
    made, _ = study("fraction", runs=[run])
    assert len(finished) == 2 and len(made) == 4
