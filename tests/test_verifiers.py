"""LoRA verifier, reward models, domain routing: tiny models of each kind, against plain forward passes."""

import importlib
import math
import os
import shutil
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers as hf
from conftest import (
    CHATML,
    byte_tokenizer,
    call_main,
    edit_jsonl,
    first_dimension_scorer,
    make_run,
    random_model,
    read_vectors,
    refusal_of,
)
from conftest import report as verifiers
from safetensors.torch import save_file
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import common

run_05 = partial(call_main, "05_baselines.py")
refusal = partial(refusal_of, "05_baselines.py")

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
SIZE = {"vocab_size": 262, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 512,
        "initializer_range": 0.2}  # fmt: skip
YES, NO = (ord(letter) - 33 for letter in "yn")  # their tokens


def make_tokenizer(template=CHATML, special=SPECIAL):
    names = {"eos_token": special[0], "pad_token": special[0], "chat_template": template}
    return byte_tokenizer(special=special, plain=["<extra_0>", "math", "coding"], **names)


def save_model(folder, model):
    model.save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    torch.manual_seed(0)
    model = hf.Qwen3ForCausalLM(hf.Qwen3Config(**SIZE, head_dim=16))
    return save_model(tmp_path_factory.mktemp("models") / "tiny", model)


def with_adapters(folder):
    model, _ = common.load_model(str(folder))
    return model, verifiers.add_adapters(model, seed=1)


def scores_of(run, name):
    """[(score, weight)], in the order of the rollouts."""
    rows = common.read_jsonl(run / "scores" / f"{name}.jsonl")
    rows = common.align(rows, common.keys_of(common.read_rollouts(run)), name)
    assert all(row["weight"] == pytest.approx(1 / (1 + math.exp(-row["score"])), abs=1e-6) for row in rows)
    return [(row["score"], row["weight"]) for row in rows]


def prompts_of(run):
    return {row["id"]: row["prompt"] for row in common.read_jsonl(run / "problems.jsonl")}


# ---- LoRA

LEARN = ["--lr", "2e-2", "--epochs", "5"]  # of 16 rollouts: 5 steps
SCORES, ADAPTERS = "lora.made_up@32-32", "lora@32.pt"


@pytest.fixture(scope="module")
def trained(tiny, tmp_path_factory):
    """A calibration run with adapters and another with their scores: answers say True or False, and are.

    `rollouts` are the token ids that were learned from, `steps` how many of them were before each step.
    """
    folder, rollouts, steps = tmp_path_factory.mktemp("runs"), [], []
    cal = make_run(folder / "cal" / "32", problems=4, seed=1, model=str(tiny))
    test = make_run(folder / "test" / "32", problems=4, seed=2, model=str(tiny))
    learn_from = verifiers.learn_from

    def watch(model, ids, word, batch_size):
        if all(weight.grad is None for weight in model.parameters()):
            steps.append(len(rollouts))
        rollouts.append(tuple(ids))
        learn_from(model, ids, word, batch_size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verifiers, "learn_from", watch)
        run_05("lora", cal, "--eval", test, *LEARN)
    return SimpleNamespace(cal=cal, test=test, rollouts=rollouts, steps=steps)


def test_lora_learns_what_is_right_and_is_a_row_of_the_report_with_its_cost(trained, tiny):
    run_05(trained.test)
    section = common.read_json(trained.test / "results.json")["sections"][0]
    (row,) = [row for row in section["rows"] if row["method"] == "LoRA verifier"]
    assert row["auroc"] > 0.99 and row["calibration"] == "made_up"
    assert row["in_sample"], "both runs are of the same problems"
    adapters = 2 * 16 * (2 * (32 + 32) + 2 * (32 + 16) + 3 * (32 + 48))  # blocks x rank x (in + out)
    model = hf.AutoModelForCausalLM.from_pretrained(tiny)
    assert row["cost"]["parameters"] == model.num_parameters() + adapters
    assert row["cost"]["clock_seconds"] > 0 and row["cost"]["ms_per_rollout"] > 0
    assert row["cost"]["train_seconds"] is None, "the clock's are no processor's"


def test_lora_score_is_the_odds_of_yes(trained, tiny):
    """Each prompt from its words down, by the model with the adapters added into its weights by hand."""
    cal, run = trained.cal, trained.test
    model = hf.AutoModelForCausalLM.from_pretrained(tiny, dtype=torch.float32).eval()
    adapters = common.load_pt(cal / ADAPTERS)["adapters"]
    for name in {name.rpartition(".")[0] for name in adapters}:
        up, down = (adapters[f"{name}.{part}"] for part in ("up", "down"))
        model.get_submodule(name).weight.data += up @ down * (32 / 16)
    tokenizer, problems = hf.AutoTokenizer.from_pretrained(tiny), prompts_of(run)
    for row, (score, _) in list(zip(common.read_rollouts(run), scores_of(run, SCORES)))[:8]:
        question = (f"Determine the correctness of the following answer:\nProblem: {problems[row['id']]}\n"
                    f"Answer: {row['response']}\nIs this answer correct (yes/no)?")  # fmt: skip
        end = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
        ids = tokenizer(f"<|im_start|>user\n{question}{end}", return_tensors="pt")
        with torch.no_grad():
            yes, no = model(**ids).logits[0, -1, [YES, NO]]
        assert score == pytest.approx(float(yes - no), abs=1e-3)


def test_lora_is_not_done_twice_and_other_settings_train_anew(trained, tmp_path, watch_writes):
    """Nor where files only have other times; where the scores are missing, the adapters are kept. A seed
    gives the same ones."""
    cal = shutil.copytree(trained.cal, tmp_path / "cal" / "32")
    test = shutil.copytree(trained.test, tmp_path / "test" / "32")
    for file in (cal / "labels.jsonl", test / "rollouts.jsonl"):
        os.utime(file)
    written = watch_writes()
    run_05("lora", cal, "--eval", test, *LEARN)
    assert written == []
    rows = scores_of(test, SCORES)
    (test / "scores" / f"{SCORES}.jsonl").unlink()
    run_05("lora", cal, "--eval", test, *LEARN)
    assert scores_of(test, SCORES) == rows and cal / ADAPTERS not in written
    for file in (cal / ADAPTERS, test / "scores" / f"{SCORES}.jsonl"):
        file.unlink()
    run_05("lora", cal, "--eval", test, *LEARN)
    assert scores_of(test, SCORES) == rows
    run_05("lora", cal, "--eval", test, "--lr", "1e-3")
    assert not {*scores_of(test, SCORES)} & {*rows} and cal / ADAPTERS in written


def test_each_epoch_takes_each_rollout_once_in_another_order_and_a_step_has_its_own_gradient(trained):
    first, *others = [trained.rollouts[i : i + 16] for i in range(0, 80, 16)]
    assert len(trained.rollouts) == 80 and all(sorted(epoch) == sorted(first) for epoch in others)
    assert first != others[0]
    assert trained.steps == [*range(0, 80, 16)]


@pytest.mark.parametrize("recompute", [False, True])
def test_gradients_are_those_of_the_mean(tiny, monkeypatch, recompute):
    """One rollout after the other, also with activations that are computed again in the backward pass."""
    monkeypatch.setattr(verifiers, "DROPOUT", 0.0)
    rng = np.random.default_rng(0)
    sequences = [rng.integers(0, 250, length).tolist() for length in rng.integers(3, 40, 4)]
    (model, adapters), (by_hand, expected) = with_adapters(tiny), with_adapters(tiny)
    for weights in (adapters, expected):
        weights["model.layers.0.self_attn.q_proj.up"].data.fill_(0.01)
    last = torch.stack([by_hand(torch.tensor([ids])).logits[0, -1] for ids in sequences])
    torch.nn.functional.cross_entropy(last, torch.arange(4)).backward()
    if recompute:
        model.train().activation_checkpointing_enable({"use_reentrant": False})
    for word, ids in enumerate(sequences):
        verifiers.learn_from(model, ids, word, 4)
    for name in adapters:
        if name.endswith("up"):
            assert torch.allclose(adapters[name].grad, expected[name].grad, atol=1e-6), name


def test_flops_are_those_of_the_products(tiny):
    """The formula against torch's own counter, which counts attention over whole squares."""
    model, adapters = with_adapters(tiny)
    head = 2 * 2 * model.get_output_embeddings().weight.numel()  # left out: it runs for the last token only
    first = 2 * 40 * (32 * (32 + 16 + 16) + 3 * 32 * 16)  # the gradient for the embeddings, never needed
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        verifiers.learn_from(model, [1] * 40, 5, 1)
    upper_half = 6 * (2 * 2 * 16) * (2 * 40 * 40 - 40 * 41)  # layers x heads x width
    counted = counter.get_total_flops() - head + first
    assert verifiers.training_flops(model, [40]) + upper_half == pytest.approx(counted)
    assert verifiers.training_flops(model, [40, 40]) == 2 * verifiers.training_flops(model, [40])


def test_of_experts_only_those_used_count_and_none_is_adapted():
    config = hf.Qwen3MoeConfig(
        **SIZE, head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16
    )
    model = hf.Qwen3MoeForCausalLM(config).requires_grad_(False)
    used, attention, router = 2 * 2 * (3 * 32 * 16), 2 * (2 * 32 * 32 + 2 * 32 * 16), 2 * 4 * 32  # two blocks
    pairs = 6 * (2 * 2 * 16) * 2
    assert verifiers.training_flops(model, [1]) == 4 * (used + attention + router) + pairs
    assert {name.split(".")[3] for name in verifiers.add_adapters(model, seed=1)} == {"self_attn"}


CHANNELS = ["<|return|>", "<|channel|>"]


@pytest.mark.parametrize("template, special, end", [
    (CHATML, SPECIAL, "<|im_start|>assistant\n<think>\n\n</think>\n\n"),
    ("{{ messages[0].content }}<|Assistant|><think>\n", SPECIAL, "<|Assistant|><think>\n</think>\n\n"),
    ("{{ messages[0].content }}<|start|>assistant", CHANNELS, "assistant<|channel|>final<|message|>"),
    (None, SPECIAL, "right?"),
])  # fmt: skip
def test_prompts_ask_for_the_word_at_once(template, special, end):
    tokenizer = make_tokenizer(template, special)
    assert tokenizer.decode(verifiers.direct_prompt(tokenizer, "right?")).endswith(end)


@pytest.mark.parametrize("answer, most, prompt", [
    ("0123456789", 4, "problem 6789 end"),
    ("", 16384, "problem end"),
    ("x" * 2000 + "y", 16384, f"problem {'x' * 499}y end"),  # the context: 512 tokens
    ("<|channel|>analysis<|message|>so<|end|><|im_end|>", 100, "problem so end"),
])  # fmt: skip
def test_answers_are_cut_from_the_left_and_have_no_channels(tiny, answer, most, prompt):
    model, tokenizer = common.load_model(str(tiny))

    def write(problem, answer):
        return tokenizer(f"{problem} {answer} end")["input_ids"]

    ids = verifiers.fit_answer(model, tokenizer, most, write, "problem", answer)
    assert tokenizer.decode(ids).split() == prompt.split()


def test_lora_takes_runs_of_one_model_with_right_and_wrong_rollouts(tiny, tmp_path):
    run = make_run(tmp_path / "run", model=str(tiny), problems=4)
    other = make_run(tmp_path / "other", model="elsewhere")
    assert "the model 'elsewhere' (5 layers); take those of one model" in refusal("lora", run, "--eval", other)
    edit_jsonl(run / "labels.jsonl", lambda row: row | {"label": 1})
    assert "16 of 16 rollouts are right" in refusal("lora", run)


def test_scoring_resumes_where_it_was_killed(tmp_path, watch_writes, monkeypatch):
    monkeypatch.setattr(verifiers, "SAVED", 8)
    run, judged = make_run(tmp_path / "run", problems=10, n=4), []

    def encode(problem, response):
        return f"{problem['id']} {response}".encode()

    def judge(text):
        judged.append(text)
        return torch.tensor(sum(text) / 1000)

    def score():
        model = SimpleNamespace(num_parameters=int, device=torch.device("cpu"))
        verifiers.score_rollouts(run, "it", verifiers.Verifier(model, encode, judge), {})

    watch_writes("scores/it.jsonl", stop_at=2)
    with pytest.raises(KeyboardInterrupt):
        score()
    watch_writes()
    assert "16 rows for a run of 40" in refusal(run)
    judged.clear()
    edit_jsonl(run / "scores" / "it.jsonl", lambda row: row | {"ms": 40_000})
    score()
    assert len(judged) == 24
    scores = [score for score, _ in scores_of(run, "it")]
    texts = [encode(row, row["response"]) for row in common.read_rollouts(run)]
    assert scores == pytest.approx([sum(text) / 1000 for text in texts])
    cost = common.read_json(run / "scores" / "it.cost.json")
    assert cost["ms_per_rollout"] == pytest.approx(16_000, rel=0.01), "the mean over all: 16 of 40"
    score()
    assert len(judged) == 24, "nothing was left to do"
    edit_jsonl(run / "rollouts.jsonl", lambda row: row | {"response": "another"})
    score()
    assert len(judged) == 64


# ---- Process reward models


def make_final_prm(folder):
    torch.manual_seed(1)
    save_model(folder, hf.Qwen2ForCausalLM(hf.Qwen2Config(**SIZE)))
    torch.save(torch.nn.Linear(32, 1).state_dict(), folder / "reward_head.pt")
    return folder


def test_prm_with_a_head_on_the_last_token(tmp_path, monkeypatch):
    monkeypatch.setattr(verifiers, "PRM_TOKENS", 6)
    run, prm = make_run(tmp_path / "run", problems=5), make_final_prm(tmp_path / "Final-1.5B")
    weights = common.load_pt(prm / "reward_head.pt")
    (prm / "reward_head.pt").rename(tmp_path / "aside.pt")
    assert "reward_head.pt" in refusal("prm", run, "--prm", prm)
    (tmp_path / "aside.pt").rename(prm / "reward_head.pt")
    model, head = hf.AutoModelForCausalLM.from_pretrained(prm), torch.nn.Linear(32, 1)
    head.load_state_dict(weights)
    run_05("prm", run, "--prm", prm)
    tokenizer, prompts = hf.AutoTokenizer.from_pretrained(prm), prompts_of(run)
    for row, (score, _) in zip(common.read_rollouts(run), scores_of(run, "prm.Final-1.5B")):
        ids = tokenizer(prompts[row["id"]] + "\n" + row["response"][-6:], return_tensors="pt")
        with torch.no_grad():
            state = model.eval()(**ids, output_hidden_states=True).hidden_states[-1][0, -1]
            assert score == pytest.approx(head(state).item(), abs=1e-4)
    cost = common.read_json(run / "scores" / "prm.Final-1.5B.cost.json")
    assert cost["parameters"] == sum(p.numel() for p in model.parameters()) and cost["ms_per_rollout"] > 0


def make_step_prm(folder):
    """As published: remote code named in config.json must not run; the head is in the model's file."""
    torch.manual_seed(2)
    model = hf.Qwen2Model(hf.Qwen2Config(**SIZE))
    save_model(folder, model)
    head = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    weights = torch.nn.ModuleDict({"model": model, "score": head}).state_dict()
    save_file({k: v.contiguous() for k, v in weights.items()}, folder / "model.safetensors", {"format": "pt"})
    auto = {"AutoModel": "modeling_rm.Qwen2ForProcessRewardModel", "AutoConfig": "modeling_rm.Config"}
    facts = {"architectures": ["Qwen2ForProcessRewardModel"], "auto_map": auto}
    common.write_json(folder / "config.json", common.read_json(folder / "config.json") | facts)
    (folder / "modeling_rm.py").write_text(f"open({str(folder / 'it ran')!r}, 'w')\nraise RuntimeError\n")
    return folder, model, head


def test_prm_with_a_score_at_each_step(tmp_path):
    run, (prm, model, head) = make_run(tmp_path / "run", problems=3), make_step_prm(tmp_path / "Steps-7B")
    rows = common.read_rollouts(run)
    rows[0]["response"], rows[1]["response"] = "one\n\n\n\ntwo <extra_0>\n\n\nthree", ""
    common.write_jsonl(run / "rollouts.jsonl", rows)
    run_05("prm", run, "--prm", prm)
    tokenizer, prompts = hf.AutoTokenizer.from_pretrained(prm), prompts_of(run)
    answers = ["one<extra_0>two <extra_0>\nthree<extra_0>", "<extra_0>"]
    answers += [row["response"] + "<extra_0>" for row in rows[2:]]
    for row, answer, (_, p) in zip(rows, answers, scores_of(run, "prm.Steps-7B")):
        user = f"<|im_start|>user\n{prompts[row['id']]}<|im_end|>\n"
        text = f"{user}<|im_start|>assistant\n{answer}<|im_end|>\n"
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            states = model.eval()(ids).last_hidden_state[0]
            steps = head(states[ids[0] == tokenizer.convert_tokens_to_ids("<extra_0>")]).softmax(-1)[:, 1]
        assert len(steps) == answer.count("<extra_0>")
        assert p == pytest.approx(float(steps.mean()), abs=1e-5)
    assert not (prm / "it ran").exists()
    save_file(model.state_dict(), prm / "model.safetensors", {"format": "pt"})
    assert "its files lack score.0.bias" in refusal("prm", run, "--prm", prm)
    (prm / "model.safetensors").write_bytes(b"")
    assert "cannot be loaded" in refusal("prm", run, "--prm", prm)


# ---- Routing


def make_router(folder, source):
    """A model that calls "What is 0?" maths, and "What is 1?" coding, and answers "What is 2?" by neither
    word; whatever its weights are."""
    model, tokenizer = common.load_model(str(source))
    ask = lambda i: verifiers.direct_prompt(tokenizer, verifiers.ROUTER.format(problem=f"What is {i}?"))
    states = torch.stack([verifiers.states_of(model, ask(i))[-1].detach() for i in range(3)])
    rows = torch.linalg.pinv(states).T  # each is 1 on its own state, and 0 on the others
    head = model.get_output_embeddings().weight.data.zero_()
    maths, coding, other = tokenizer.convert_tokens_to_ids(["math", "coding", "x"])
    head[maths], head[coding], head[other] = rows
    return save_model(folder, model)


def test_each_problem_goes_to_the_scorer_of_the_domain_that_the_model_names(tmp_path, tiny, capsys):
    """It may say what it likes in five tokens; scores are named by what both scorers learned from."""
    facts = {"model": str(make_router(tmp_path / "tiny", tiny)), "problems": 3}
    runs = [make_run(tmp_path / kind, kind=kind, dataset=kind, seed=seed, **facts)
            for seed, kind in enumerate(("math", "code"))]  # fmt: skip
    learned = [("a", "x", common.text_stamp({"prompt": "What is 2?"}))]
    first = first_dimension_scorer(tmp_path / "scatr.a@32-1.pt", problems=learned)
    halved = [torch.zeros(8), torch.full((8,), 0.5)]
    doubled = first_dimension_scorer(tmp_path / "scatr.b@32-1.pt", scale=halved)
    run_05("route", *runs, "--math", first, doubled, "--code", doubled, first)
    assert common.read_json(runs[0] / "scores" / "routed.a+b@32+32-1.cost.json")["learned"] == ["p2"]
    said = capsys.readouterr().out
    assert f"{runs[0]}: domains right %: 33.3 (1/3)" in said
    for run in runs:
        keys, vector = read_vectors(run)
        names = [problem for problem, _ in keys]
        for method, factors in (
            ("routed.a+b@32+32-1", {"p0": 1, "p1": 2, "p2": 0}),
            ("routed.b+a@32+32-1", {"p0": 2, "p1": 1, "p2": 0}),
        ):  # fmt: skip
            expected = np.array([factors[name] for name in names]) * vector[:, 0].float().numpy()
            assert [score for score, _ in scores_of(run, method)] == pytest.approx(expected, abs=1e-5)
    common.write_jsonl(runs[1] / "rollouts.jsonl", common.read_rollouts(runs[1])[::-1])
    run_05("route", *runs, "--math", first, doubled, "--code", doubled, first)
    said = capsys.readouterr().out
    assert said.startswith(f"{runs[1]}: domains right"), "the other one was routed before"
    run_05(*runs, "--out", tmp_path / "both")
    for section in common.read_json(tmp_path / "both" / "results.json")["sections"]:
        rows = [row for row in section["rows"] if row["method"] == "SCaTR, routed by domain"]
        assert [row["calibration"] for row in rows] == ["a+b", "b+a"]
        assert [row["domains_right"] for row in rows] == pytest.approx([1 / 3, 1 / 3])
    assert "in pairs" in refusal("route", runs[0], "--math", first, doubled, "--code", first)


def test_gpt_oss_keeps_no_scores(tmp_path, monkeypatch):
    """The same states and gradients as transformers' own attention, by one that CUDA has a kernel for."""
    options = {"head_dim": 8, "num_experts_per_tok": 2, "num_local_experts": 4, "sliding_window": 12}
    plain, ids = random_model("gpt_oss", **options), list(range(20, 60))
    folder = save_model(tmp_path / "model", plain)
    run = make_run(tmp_path / "run")
    args = SimpleNamespace(model=str(folder), device="cpu")
    model = verifiers.load_model_of([run], args)[0]
    adapters = [verifiers.add_adapters(one, 0) for one in (plain, model)]
    verifiers.learn_from(plain, ids, 5, 1)
    own = importlib.import_module("transformers.models.gpt_oss.modeling_gpt_oss")
    monkeypatch.setattr(own, "eager_attention_forward", lambda *_, **__: pytest.fail("all scores are kept"))
    verifiers.learn_from(model, ids, 5, 1)
    for name, weight in adapters[0].items():
        torch.testing.assert_close(adapters[1][name].grad, weight.grad, atol=1e-5, rtol=1e-4)
