"""Sampling that stops when sure: its waves, 01 --scorer; 01's sample()."""

import io
import re
import shutil
from collections import Counter
from contextlib import redirect_stderr, suppress
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from conftest import ROOT, assert_same_run, call_main, dies, full_forward, generate, read_vectors, tokens_of

import common

MODEL = str(ROOT / "demo" / "model")

# ---- The rule


def waves(n):
    """How many rollouts there are after each wave, where none is sure."""
    ends, unsure = [], []
    while wave := generate.next_wave([{"p": 0.1}] * n, unsure, 0.9):
        unsure += wave
        ends.append(len(unsure))
    return ends


def test_waves_grow_by_half_and_end_at_n():
    ends = {1: [1], 4: [1, 2, 3, 4], 6: [1, 2, 3, 5, 6], 16: [1, 2, 3, 5, 8, 12, 16]}
    assert {n: waves(n) for n in ends} == ends
    assert generate.next_wave([1, 2, 3], [], None) == [1, 2, 3]
    assert generate.parse_args([MODEL, "humaneval", "--scorer", "scorer.pt"]).stop == 0.9


def end_of(p, threshold):
    """How many rollouts of these probabilities are sampled. Plain, one rollout after the other."""
    return next(end for end in waves(len(p)) if p[:end].max() >= threshold or end == len(p))


# ---- Answers in your own code


@pytest.fixture(scope="module")
def demo_model():
    return common.load_model(MODEL, "cpu")


def linear_scorer(vector, width=96, n_layers=8, features=False):
    """A scorer of the demo's model by a fixed random direction of the vector, and of the statistics too."""
    config = {"hidden": [], "dropout": 0.0, "input_dropout": 0.0, "batch_norm": False}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        state = common.build_scorer("scatr", config, (width + 29 * features,), 29 * features).state_dict()
    checkpoint = {"design": "scatr", "vector": vector, "shape": [width], "model": "model"}
    checkpoint |= {"n_layers": n_layers, "scale": None, "config": config, "state": state}
    checkpoint["pos_weight"] = 2.0
    if features:
        checkpoint["feature_scale"] = [torch.zeros(29), torch.full((29,), 10.0)]
        checkpoint["rules"] = common.RULES_STAMP
    return common.Scorer(checkpoint)


def probability(score):
    """By linear_scorer: its loss made the odds twice as high."""
    return 1 / (1 + 2 * np.exp(-score))


PROBLEM = {"id": "0", "kind": "math", "prompt": "What is 17 * 23?"}


def forced(model, tokenizer, tokens, problem=PROBLEM):
    """(logits [T, V], hidden states, each [T, d]) of an independent pass over the prompt and an answer, from
    the position on that the first token of the answer is sampled from."""
    prompt = list(common.encode_prompt(tokenizer, problem))
    states, logits = full_forward(model, prompt + tokens)
    return logits[len(prompt) - 1 :], [x[len(prompt) - 1 :] for x in states]


@pytest.mark.parametrize("vector, features", [
    ("penultimate/eos", False), ("penultimate/last", True), ("final/eos", True), ("final/last", False),
])  # fmt: skip
def test_sample_gives_the_scorers_vector_of_every_answer_the_cut_ones_too(demo_model, vector, features):
    model, tokenizer = demo_model
    scorer = linear_scorer(vector, features=features)
    layer, token = common.vector_key(vector, 8)
    answers = generate.sample(model, tokenizer, PROBLEM, 8, scorer, max_new_tokens=40, temperature=1.6)
    assert {answer["finish"] for answer in answers} == {"stop", "length"}
    scores = [answer["score"] for answer in answers]
    assert scores == sorted(scores, reverse=True)
    stop_ids = common.sampling_defaults(model, tokenizer)["stop_ids"]
    for answer in answers:
        tokens, stopped = answer["tokens"], answer["finish"] == "stop"
        ends = [t in stop_ids for t in tokens]
        assert not any(ends[:-1]) and ends[-1] == stopped and (stopped or len(tokens) == 40)
        assert answer["text"] == tokenizer.decode(tokens[:-1] if stopped else tokens)
        logits, states = forced(model, tokenizer, tokens)
        expected = states[layer][-2 if stopped and token == "last" else -1]
        assert torch.allclose(answer["hidden"], expected, atol=1e-4) and not answer["hidden"].is_inference()
        stats = common.token_stats(logits[:-1], torch.tensor(tokens)).half().numpy()
        row = common.rollout_features(common.confidence(stats, model.config.vocab_size), len(tokens))
        score = scorer(expected[None], torch.tensor(row)[None])
        assert answer["score"] == pytest.approx(score.item(), abs=2e-3)
        assert answer["p"] == pytest.approx(probability(score.item()), abs=1e-3)


def test_sample_takes_texts_repeats_itself_and_leaves_the_model_as_it_was(demo_model):
    model, tokenizer = demo_model
    problems = common.load_problems(ROOT / "demo" / "math_a.jsonl", 2)
    prompt = torch.tensor([common.encode_prompt(tokenizer, problems[0])])
    usual = model.generate(prompt, max_new_tokens=5, do_sample=False)
    text, options = "What is 2 + 2?", {"n": 3, "max_new_tokens": 5}
    answers, again = (generate.sample(model, tokenizer, text, **options) for _ in range(2))
    assert [x["tokens"] for x in again] == [x["tokens"] for x in answers]
    assert [x["sample"] for x in answers] == [0, 1, 2] and not {"p", "score", "vote"} & answers[0].keys()
    other = generate.sample(model, tokenizer, text, **options, seed=1, temperature=2)
    assert [x["tokens"] for x in other] != [x["tokens"] for x in answers]
    greedy = generate.sample(model, tokenizer, problems, **options, temperature=0)
    for problem, answers in zip(problems, greedy, strict=True):
        logits, _ = forced(model, tokenizer, answers[0]["tokens"], problem)
        assert answers[0]["tokens"] == answers[2]["tokens"] == logits.argmax(-1)[:-1].tolist()
    assert model.generate(prompt, max_new_tokens=5, do_sample=False).equal(usual)


def test_sample_votes_for_the_answer_with_the_largest_sum(demo_model):
    problems = common.load_problems(ROOT / "demo" / "math_a.jsonl", 4)
    options = {"n": 8, "max_new_tokens": 48, "temperature": 1.3}
    for scorer in (linear_scorer("penultimate/eos"), None):
        ranked = generate.sample(*demo_model, problems, scorer=scorer, **options)
        voted = generate.sample(*demo_model, problems, scorer=scorer, vote=True, **options)
        for by_score, by_vote in zip(ranked, voted, strict=True):
            sums = Counter()  # this model's answers are plain numbers: equal ones are equal texts
            for x in by_vote:
                weight = 1 / (1 + np.exp(-x["score"])) if scorer else 1
                sums[x["answer"]] += weight * (x["answer"] is not None)
            shares = [sums[x["answer"]] / sum(sums.values()) for x in by_vote]
            assert [x["vote"] for x in by_vote] == pytest.approx(shares) and shares[0] == max(shares)
            answers = {x["sample"]: x["answer"] for x in by_vote}
            best = next(x for x in by_score if answers[x["sample"]] == by_vote[0]["answer"])
            assert by_vote[0]["sample"] == best["sample"]
        assert [x[0]["sample"] for x in voted] != [x[0]["sample"] for x in ranked]
    code = {"id": "0", "kind": "code", "prompt": "Complete the function.\ndef solve(xs):\n    \"\"\"Return the sum.\"\"\""}
    answer = generate.sample(*demo_model, code, 2, vote=True)[0]
    assert "vote" not in answer and answer["text"] == f"```python\n{answer['answer']}\n```"


@pytest.mark.parametrize("arguments, error", [
    ({"repetition_penalty": 0}, "repetition_penalty 0: give a number from 1 to inf"),
    ({"problems": "and " * 9000}, "leave no room for an answer"),
    ({"problems": [{"query": "What?"}]}, "problem 1: 'prompt' or 'messages' is missing"),
    ({"scorer": "nowhere.pt"}, "nowhere.pt: no such file"),
    ({"scorer": ("all/eos", 8, (9, 96))}, "layer 'all'"),
    ({"scorer": ("20/eos", 28, (96,))}, "the scorer is of the model 'model' (28 layers), the run is of"),
])  # fmt: skip
def test_sample_refuses_in_words_what_it_cannot_do(demo_model, arguments, error, capsys):
    arguments = {"problems": PROBLEM} | arguments
    if isinstance(arguments.get("scorer"), tuple):
        vector, n_layers, shape = arguments["scorer"]
        arguments["scorer"] = linear_scorer(vector, n_layers=n_layers)
        arguments["scorer"].shape = shape
    assert error in dies(capsys, generate.sample, *demo_model, **arguments)


# ---- 01 --scorer --stop

SIZES = ("-n", 6, "--max-new-tokens", 48, "--device", "cpu")


def run_01(problems, out, *flags, model=MODEL):
    common.write_jsonl(out / "problems.jsonl", problems)
    call_main("01_generate.py", model, out / "problems.jsonl", *SIZES, "--out", out, *flags)
    return out / "model" / "problems" / "32"


def between(values, low, high):
    """A number in the widest gap of the values at that part of their range: not at a value's last bits."""
    ranked = np.unique(np.round(values, 6))
    gap = max(range(int(low * len(ranked)), int(high * len(ranked))), key=lambda i: ranked[i + 1] - ranked[i])
    return float(ranked[gap] + ranked[gap + 1]) / 2


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of all rollouts, a scorer, its probabilities, a threshold, and the run that stops there."""
    base = tmp_path_factory.mktemp("stop")
    problems = common.read_jsonl(ROOT / "demo" / "math_a.jsonl")[:8]
    full = run_01(problems, base / "full")
    scorer = linear_scorer("penultimate/eos", features=True)
    common.save_pt(base / "scorer.pt", scorer.checkpoint)
    keys, logits = common.score_run(scorer, full)
    p = np.reshape(probability(logits.double().numpy()), (8, 6))
    threshold = between(p.flatten(), 0.55, 0.75)
    stop = "--scorer", base / "scorer.pt", "--stop", threshold, "--slots", 5
    with redirect_stderr(io.StringIO()) as said:
        live = run_01(problems, base / "live", *stop)
    return SimpleNamespace(base=base, problems=problems, full=full, keys=keys, p=p, threshold=threshold,
                           stop=stop, live=live, said=said.getvalue())  # fmt: skip


def test_sample_gives_the_tokens_and_vectors_of_a_run_folder(runs, demo_model):
    found = generate.sample(*demo_model, runs.problems, n=6, max_new_tokens=48)
    answers = [answer for answers in found for answer in answers]
    assert [answer["tokens"] for answer in answers] == tokens_of(runs.full)
    vectors = torch.stack([answer["hidden"] for answer in answers])
    assert torch.allclose(vectors, read_vectors(runs.full)[1], atol=1e-4)


def test_the_program_of_the_readme_runs_as_pasted(runs, capsys):
    """In a model folder's place stands the demo's; that its scores are right is tested above."""
    code = re.search(r"^```python\n(import importlib, sys\n.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)[1]
    here = {"PATH/OF/THIS/REPOSITORY": ROOT, "Qwen/Qwen3-1.7B": MODEL, "scorer.pt": runs.base / "scorer.pt", "4096": 40}
    for old, new in here.items():
        assert old in code
        code = code.replace(old, str(new))
    space = {}
    exec(code, space)
    votes = [answer["vote"] for answer in space["answers"]]
    assert len(votes) == 16 and votes == sorted(votes, reverse=True)
    printed = capsys.readouterr().out
    assert space["answers"][0]["text"].strip() in printed
    assert "\nTrue\n" in printed and "passed" in printed.splitlines()[-1], "the judge, the sandbox"


def test_sampling_stops_at_the_wave_that_reaches_the_probability(runs):
    ends = [end_of(p, runs.threshold) for p in runs.p]
    assert len(set(ends)) > 2  # some stop early, some late
    rollouts = common.read_rollouts(runs.live)
    kept = [(problem["id"], sample) for problem, end in zip(runs.problems, ends) for sample in range(end)]
    assert common.keys_of(rollouts) == kept
    texts = {(row["id"], row["sample"]): row["response"] for row in common.read_rollouts(runs.full)}
    assert all(row["response"] == texts[row["id"], row["sample"]] for row in rollouts)
    meta = common.read_meta(runs.live)
    assert meta["n"] == 6 and meta["stamp"]["stop"] == runs.threshold
    assert f"sampling that stops took {sum(ends)} of 48 rollouts" in runs.said


def test_of_a_stopped_run_the_best_of_what_was_sampled_is_picked(runs, run_here):
    run_here("02_label.py", runs.live)
    run_here("04_select.py", runs.live, "--scorer", runs.base / "scorer.pt")
    selected = common.read_jsonl(runs.live / "selected.jsonl")
    counts = Counter(row["id"] for row in common.read_rollouts(runs.live))
    best = [int(p[: counts[problem["id"]]].argmax()) for problem, p in zip(runs.problems, runs.p)]
    assert [row["sample"] for row in selected if row["strategy"] == "best-of-n"] == best


@pytest.fixture(scope="module")
def trained(runs, run_here):
    """The path of a scorer of the run of all rollouts."""
    run_here("02_label.py", runs.full)
    run_here("03_train_scorer.py", runs.full, "--configs", 1, "-o", runs.base / "trained.pt")
    return runs.base / "trained.pt"


@pytest.mark.parametrize("kind, template, change", [
    ("math", "", None), (None, "", "kind text, not math"), ("code", "", "kind code, not math"),
    ("math", "Q: ", "another chat template or system text"),
])  # fmt: skip
def test_what_is_asked_otherwise_than_in_calibration_is_said_by_stop_sample_and_04(
    runs, trained, tmp_path, run_here, kind, template, change
):
    model = shutil.copytree(MODEL, tmp_path / "model")
    (model / "chat_template.jinja").write_text(template + (model / "chat_template.jinja").read_text())
    questions = [{"prompt": f"{problem['prompt']} Say it."} for problem in runs.problems[:2]]
    with redirect_stderr(io.StringIO()) as said:
        flags = ("--kind", kind) if kind else ()
        run = run_01(questions, tmp_path / "runs", *flags, "--scorer", trained, model=model)
        problems = common.read_jsonl(run / "problems.jsonl")
        assert {problem["kind"] for problem in problems} == {kind or "text"}
        generate.sample(*common.load_model(str(model), "cpu"), problems, 1, trained, max_new_tokens=5)
    said = said.getvalue()
    line = f"warning: asked otherwise than the scorer's calibration ({change}); p may be off\n"
    assert said.count(line) == 2 if change else "warning" not in said
    assert ("2 of 2 problems have no answer, tests or kind: they are asked as text" in said) == (not kind)
    said = run_here("04_select.py", run, "--scorer", trained).stderr
    assert f"sampled otherwise than the calibration ({change})" in said if change else not said


def test_a_killed_stopping_run_goes_on_to_the_same_end_and_sees_no_reference_answer(runs, parts):
    wrong = [problem | {"answer": "-1"} for problem in runs.problems]
    written = parts(most=3)
    with suppress(KeyboardInterrupt):
        run_01(wrong, runs.base / "killed", *runs.stop, "--slots", 3)
    assert len(written) == 3 and not (written[0].parent.parent / "rollouts.jsonl").exists()
    again = parts()
    assert_same_run(run_01(wrong, runs.base / "killed", *runs.stop), runs.live)
    assert len(again) == 5 and not {*again} & {*written}


@pytest.mark.parametrize("flags, error", [
    (["--stop", "0.9"], "--stop needs --scorer"),
    (["--scorer", "SCORER", "--stop", "1.5"], "stop 1.5: give a number from 0 to 1"),
    (["--scorer", "SCORER", "--stop", "0.9", "--layers", "final"], "reads penultimate/eos; here it must be"),
])  # fmt: skip
def test_what_stopping_cannot_do_is_one_line(runs, flags, error, tmp_path, capsys):
    flags = [runs.base / "scorer.pt" if flag == "SCORER" else flag for flag in flags]
    assert error in dies(capsys, run_01, runs.problems, tmp_path, *flags)


def test_a_run_is_resumed_by_the_same_scorer_and_threshold_alone(runs, capsys):
    other = runs.base / "other.pt"
    common.save_pt(other, linear_scorer("penultimate/eos").checkpoint)
    error = dies(capsys, run_01, runs.problems, runs.base / "live")
    assert "was made with other settings (stop, scorer, n), by " in error
    error = dies(capsys, run_01, runs.problems, runs.base / "live", *runs.stop, "--scorer", other)
    assert "was made with other settings (scorer), by " in error
