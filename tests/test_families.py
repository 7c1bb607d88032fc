"""The families of models that the README names: prompts, sampling and reasoning of each; architectures against
transformers.
"""

import importlib
import os
from datetime import date

import pytest
import torch
from conftest import (
    CHATML,
    EXPERTS,
    LATENT,
    byte_tokenizer,
    dies,
    full_forward,
    random_model,
    read_jobs,
    with_flat_vectors,
)  # fmt: skip
from transformers import CONFIG_MAPPING, GenerationConfig

import common

generate, judge = map(importlib.import_module, ("01_generate", "02_label"))

# ---- The families: templates with the features of the real ones, in our words

OLMO = """\
{{ bos_token }}{% for message in messages %}<|{{ message.role }}|>
{{ message.content }}
{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% endif %}"""

HARMONY = """\
{%- macro system_message() %}
{{- "Current date: " + strftime_now("%Y-%m-%d") + "\\n\\nReasoning: " + (reasoning_effort or "medium") }}
{%- endmacro %}
{{- "<|start|>system<|message|>" + system_message() + "<|end|>" }}
{%- for message in messages %}
{%- if message.role == "system" %}
{{- "<|start|>developer<|message|># Instructions\\n\\n" + message.content + "<|end|>" }}
{%- else %}{{ "<|start|>" + message.role + "<|message|>" + message.content + "<|end|>" }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ "<|start|>assistant" }}{% endif %}"""

WARM = {"do_sample": True, "temperature": 0.6, "top_p": 0.95, "top_k": 20}
QWEN = {"special": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], "plain": ["<think>", "</think>"],
        "eos": "<|im_end|>", "pad": "<|endoftext|>", "stop": ["<|im_end|>", "<|endoftext|>"],
        "template": CHATML, "sampling": WARM}  # fmt: skip
CHANNELS = "startoftext endoftext return constrain channel start end message call"
HALVES = {"layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 6}
LINEAR = {"linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "head_dim": 8,
          "linear_value_head_dim": 8, "layer_types": ["linear_attention", "full_attention"] * 2}  # fmt: skip
PER_LAYER = {"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 300, "head_dim": 8} | HALVES
GEMMA3N = {"laurel_rank": 4, "num_kv_shared_layers": 0, "activation_sparsity_pattern": [0.0] * 4}
INDEXED = {"index_topk": 4, "index_n_heads": 2, "index_head_dim": 16}
BY_GENERATE = {  # what our own engine cannot run: its options, and the reason that 01 gives
    "gemma2": ({"head_dim": 8}, "its attention also takes softcap"),
    "qwen3_5_text": (LINEAR, "token by token it gives other vectors (off by "),
    "zaya": ({"num_experts": 4, "head_dim": 8}, "token by token it gives other vectors (off by "),
    "deepseek_v32": (LATENT | INDEXED, "our engine fails with it, TypeError"),
    "deepseek_v4": ({"head_dim": 8}, "token by token it gives other vectors (off by "),
    "phimoe": ({"sliding_window": 6, "num_local_experts": 4}, "its sliding window is a mask"),
}  # fmt: skip

CHAT = "<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{question}<|im_end|>\n"
FAMILIES = {  # "prompt" is what stands around the question
    "qwen3": QWEN | {"prompt": CHAT + "<|im_start|>assistant\n"},
    "qwen2": QWEN | {
        "plain": [], "template": "{% set default_system = 'You are a helper.' %}" + CHATML,
        "sampling": WARM | {"temperature": 0.7, "top_p": 0.8, "repetition_penalty": 1.05},
        "prompt": CHAT + "<|im_start|>assistant\n",
    },
    "olmo2": {
        "special": ["<|endoftext|>", "<|pad|>"], "plain": [], "eos": "<|endoftext|>", "pad": "<|pad|>",
        "stop": ["<|endoftext|>"], "template": OLMO, "sampling": {},
        "prompt": "<|endoftext|><|system|>\n{system}\n<|user|>\n{question}\n<|assistant|>\n",
    },
    "gpt_oss": {
        "special": [f"<|{name}|>" for name in CHANNELS.split()], "plain": [], "eos": "<|return|>",
        "pad": "<|endoftext|>", "template": HARMONY, "stop": ["<|return|>", "<|endoftext|>", "<|call|>"],
        "sampling": {"do_sample": True},
        "prompt": "<|start|>system<|message|>Current date: 2025-08-05\n\nReasoning: high<|end|>"
        "<|start|>developer<|message|># Instructions\n\n{system}<|end|>"
        "<|start|>user<|message|>{question}<|end|><|start|>assistant",
    },
}  # fmt: skip
QUESTION = {"id": "0", "prompt": "1+2=?", "kind": "math"}


def make_tokenizer(family):
    """A token a byte, with the family's special tokens and template."""
    added = {"special": family["special"], "plain": family["plain"], "chat_template": family["template"]}
    return byte_tokenizer(**added, eos_token=family["eos"], pad_token=family["pad"], bos_token="<|endoftext|>")


# ---- Prompts, sampling, where it ends


@pytest.fixture(params=FAMILIES)
def files(request, tmp_path):
    """(a family, its files without weights, its tokenizer)"""
    family = FAMILIES[request.param]
    tokenizer = make_tokenizer(family)
    tokenizer.save_pretrained(tmp_path)
    CONFIG_MAPPING[request.param]().save_pretrained(tmp_path)
    stop = tokenizer.convert_tokens_to_ids(family["stop"])
    GenerationConfig(**family["sampling"], eos_token_id=stop).save_pretrained(tmp_path)
    return family, *common.load_tokenizer(str(tmp_path))


def test_prompts(files):
    family, _, tokenizer = files
    ids = common.encode_prompt(tokenizer, QUESTION)
    assert tokenizer.decode(ids) == family["prompt"].format(system=common.SYSTEM["math"], question="1+2=?")
    assert all(isinstance(token, int) for token in ids) and str(date.today()) not in tokenizer.decode(ids)


def test_sampling_and_stop_ids(files):
    family, files, tokenizer = files
    stop = sorted(tokenizer.convert_tokens_to_ids(family["stop"]))
    wanted = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "repetition_penalty": 1.0, "stop_ids": stop}
    wanted |= {key: value for key, value in family["sampling"].items() if key in wanted}
    assert common.sampling_defaults(files, tokenizer) == wanted
    files.generation_config.eos_token_id = [*stop, stop[0]]
    if "<|call|>" in family["stop"]:  # a copy of gpt-oss whose file lists the end of a message
        files.generation_config.eos_token_id.append(tokenizer.convert_tokens_to_ids("<|end|>"))
    assert common.sampling_defaults(files, tokenizer) == wanted
    files.generation_config.eos_token_id = None
    assert common.sampling_defaults(files, tokenizer)["stop_ids"] == [tokenizer.eos_token_id]


REFUSES = "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}"
TURNS = ("system", "S"), ("user", "A"), ("assistant", "B"), ("user", "C")
TURNS = [{"role": role, "content": text} for role, text in TURNS]


@pytest.mark.parametrize("template, prompt, messages", [
    (None, "{system}\n\nWrite f.", {}),
    (REFUSES + "{{ messages[0].content }}", "{system}\n\nWrite f.", {}),
    (REFUSES + "{% for m in messages %}{{ m.role[0] }}: {{ m.content }}; {% endfor %}",
     "u: S\n\nA; a: B; u: C; ", {"messages": TURNS}),  # the turns of a chat stay turns
    ("{% for m in messages if m.role == 'user' %}U: {{ m.content }}{% endfor %}", "U: Write f.", {}),
    ("{{ strftime_now( '%d %b %Y' ) }} {{ strftime_now(\"%A, it's\") }}", "05 Aug 2025 Tuesday, it's", {}),
    ("{% if strftime_now is defined %}{{ enable_thinking }} {{ reasoning_effort }}{% endif %}",
     "True high", {}),
])  # fmt: skip
def test_templates_of_other_models(template, prompt, messages):
    tokenizer = make_tokenizer(FAMILIES["qwen3"] | {"template": template})
    ids = common.encode_prompt(tokenizer, {"id": "0", "kind": "code", "prompt": "Write f."} | messages)
    assert tokenizer.decode(ids) == prompt.format(system=common.SYSTEM["code"])


THOUGHT = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant"


@pytest.mark.parametrize("reasoning, between, answer", [
    ("", "", "It is 4."),
    ("<think>\nhm\n", "</think>", "\n\nIt is 4."),
    ("hm", "</think>", "It is 4."),  # the template opened it
    ("<think>a</think>b", "</think>", "It is 4."),
    ("<think>\nhm, \\boxed{4}", "", ""),
    (THOUGHT, "<|channel|>final<|message|>", "It is 4."),
    (THOUGHT, "<|channel|>final <|constrain|>json<|message|>", "4"),
    ("<|channel|>final<|message|>a<|end|><|start|>assistant", "<|channel|>final<|message|>", "b"),
    ("<|channel|>analysis<|message|>the final answer is \\boxed{4}", "", ""),
    ("<|channel|>commentary to=python<|message|>x<|call|>", "", ""),
    ("analysisWe add. ", "assistantfinal", "It is 4."),
    ("analysisWe add, and then", "", ""),
    ("", "", "analysis of the sum: 4"),
    ("", "", "My assistantfinal words: 4"),
])  # fmt: skip
def test_split_reasoning(reasoning, between, answer):
    for end in ("", "<|return|>", "<|call|>c") if "channel" in between else ("",):
        assert judge.split_reasoning(reasoning + between + answer + end) == (reasoning, answer)


# ---- Architectures: tokens, vectors and statistics of transformers' own generate and forward pass, or one
# line that says no. Windows, scalings and rotations are small enough to matter within some thirty tokens.

ROPE = {"rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 16}
LONG = {"rope_type": "longrope", "short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [2.0, 3.0, 4.0, 5.0]}
SAME = {
    "llama": {"rope_parameters": ROPE | {"rope_type": "llama3", "low_freq_factor": 1, "high_freq_factor": 4}},
    "qwen2": {"rope_parameters": ROPE | {"rope_type": "yarn"}},
    "qwen3_moe": EXPERTS | {"num_experts": 4, "head_dim": 8},
    "gpt_oss": {"num_experts_per_tok": 2, "num_local_experts": 4, "head_dim": 8, "sliding_window": 12},
    "mistral": {"sliding_window": 6, "head_dim": 8},
    "smollm3": {"no_rope_layer_interval": 2},
    "phi3": {"rope_parameters": ROPE | LONG, "original_max_position_embeddings": 40, "sliding_window": 6},
    "granite": {"logits_scaling": 8.0, "embedding_multiplier": 12.0, "attention_multiplier": 0.2},
    "gemma3_text": {"head_dim": 8, "query_pre_attn_scalar": 16} | HALVES,
    "gemma4_text": PER_LAYER | {"global_head_dim": 16, "num_kv_shared_layers": 2},
    "olmo3": HALVES,
    "glm4": {"head_dim": 8},
    "deepseek_v3": LATENT,
    "cohere2": {"logit_scale": 0.2} | HALVES,
    "gemma3n_text": PER_LAYER | GEMMA3N,
}


PLAIN = {"temperature": 0, "top_k": 0, "top_p": 1.0, "repetition_penalty": 1.0, "stop_ids": []}


def sampled(model, jobs, layers, sampling=PLAIN):
    """The rollouts that 01 samples, in the order of their jobs."""
    by_problem = {}
    for job in jobs:
        by_problem.setdefault(job["id"], []).append(job)
    n = len(by_problem[0])
    settings = generate.Settings(byte_tokenizer(), model.config.get_text_config(), sampling, n, 0, 0)
    found = dict(generate.sample_problems(model, settings, by_problem, layers, 3, "sample"))
    return [with_flat_vectors(rollout) for i in by_problem for rollout in found[i]]


@pytest.mark.parametrize("name", [*SAME, *BY_GENERATE])
def test_an_architecture_gives_what_transformers_gives(name, capsys):
    """Sampled greedily, and read as given tokens."""
    options, reason = BY_GENERATE.get(name) or (SAME[name], None)
    model, layers, jobs, want = random_model(name, **options), (0, 3, 4), [], []
    assert common.context_of(model.config) == (40 if name == "phi3" else 512)
    for i, length in enumerate((1, 9, 20)):
        prompt = list(range(12, 12 + length))
        ids, model.generation_config.eos_token_id = torch.tensor([prompt]), None
        model.set_attn_implementation("eager")
        options = {"attention_mask": torch.ones_like(ids), "do_sample": False, "max_new_tokens": 20}
        tokens = model.generate(ids, **options)[0, length:].tolist()
        jobs.append({"id": i, "sample": 0, "prompt": prompt, "limit": 20, "key": i, "tokens": tokens})
        want.append(full_forward(model, prompt + tokens))
    found = sampled(model, jobs, layers)
    found += read_jobs(model, jobs, layers) + read_jobs(model, found, layers)  # without and with statistics
    assert (f"sampled by model.generate, slower: {reason}" in capsys.readouterr().err) == bool(reason)
    for row in found:
        assert row["ids"].tolist() == row["tokens"]
        states, logits = want[row["id"]]
        vectors = torch.stack([states[layer][-1] for layer in layers for _ in common.TOKENS])
        torch.testing.assert_close(row["hidden"], vectors, atol=1e-4, rtol=1e-4)
        stats = common.token_stats(logits[len(row["prompt"]) - 1 : -1], row["ids"].long())
        torch.testing.assert_close(row["stats"].float(), stats, atol=2e-3, rtol=2e-3)


def test_model_generate_samples_what_our_engine_does(monkeypatch):
    """By the same draws, so a rollout does not depend on how many are sampled beside it."""
    model = random_model("qwen3", head_dim=8)
    sampling = PLAIN | {"temperature": 0.9, "top_k": 40, "top_p": 0.95, "repetition_penalty": 2}
    sampling["stop_ids"] = [*range(2, 20)]
    job = {"id": 0, "prompt": [12, 13], "limit": 20}
    jobs = [job | {"sample": sample, "key": sample << 20} for sample in range(9)]
    ours = sampled(model, jobs, [3], sampling)
    assert {row["finish"] for row in ours} == {"stop", "length"}
    monkeypatch.setattr(generate, "probe", lambda *_: "so that model.generate has to")
    for row, other in zip(ours, sampled(model, jobs[:5], [3], sampling)):
        assert row["ids"].equal(other["ids"]) and row["finish"] == other["finish"]
        torch.testing.assert_close(row["hidden"], other["hidden"], atol=1e-4, rtol=1e-4)


def test_a_model_without_layers_and_norm_is_refused_in_one_line(capsys):
    job = {"id": 0, "sample": 0, "prompt": [12, 13], "limit": 5, "key": 0, "tokens": [14, 15]}
    for way in (sampled, read_jobs):
        assert "has no `layers` and `norm`" in dies(capsys, way, random_model("gpt2"), [job], (0, 4))


# ---- Many workers


@pytest.mark.parametrize("env, place, gpu", [
    ({}, (0, 1), 0),
    ({"RANK": 2, "WORLD_SIZE": 4}, (2, 4), 2),
    ({"RANK": 2, "WORLD_SIZE": 8, "LOCAL_RANK": 3}, (2, 8), 3),
    ({"RANK": 5, "WORLD_SIZE": 8, "LOCAL_RANK": 5}, (5, 8), 1),
])  # fmt: skip
def test_which_worker_of_how_many_and_on_which_gpu(env, place, gpu, monkeypatch):
    """Only the choice, of four GPUs; a machine without any has none to put a model on."""
    env = {name: str(value) for name, value in env.items()}
    monkeypatch.setattr(os, "environ", env)
    assert generate.worker() == place
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    assert common.pick_device() == common.pick_device("cuda") == f"cuda:{gpu}"
    assert common.pick_device("cpu") == "cpu"


def test_weights_are_float32_on_a_cpu_and_the_files_type_elsewhere():
    assert common.pick_dtype("auto", "cpu") is torch.float32 and common.pick_dtype("auto", "cuda:0") == "auto"
    assert common.pick_dtype("float16", "cpu") is torch.float16
