"""Answers from a serving engine: what 01_generate.py asks of it, and what it makes of its answers."""

import importlib
import shutil

import pytest
from conftest import ROOT, dies
from transformers import AutoTokenizer

import common

generate = importlib.import_module("01_generate")
MODEL, N = ROOT / "demo/model", 4
OPENAI = {"model", "messages", "prompt", "max_tokens", "seed", "temperature", "top_p", "reasoning_effort"}


def program(*command):
    generate.main([str(x) for x in command])


@pytest.fixture
def folder(tmp_path):
    """Problems and a model that has lost its weights: nothing here needs them."""
    left_out = shutil.ignore_patterns("*.safetensors")
    shutil.copytree(MODEL, tmp_path / "model", ignore=left_out)
    problems = common.read_jsonl(ROOT / "demo/math_a.jsonl")[:3]
    long = {"id": "long", "prompt": "so " * 400}
    chat = {"id": "chat", "messages": [{"role": "user", "content": "Hello?"}]}
    common.write_jsonl(tmp_path / "p.jsonl", [*problems, long, chat])
    return tmp_path


def ask(folder, *flags):
    """The bodies of the requests by custom_id."""
    file = folder / "requests.jsonl"
    program(folder / "model", folder / "p.jsonl", "-n", N, "--out", folder / "runs", "--requests", file, *flags)
    assert not (folder / "runs").exists()
    rows = common.read_jsonl(file)
    url = "/v1/completions" if "completions" in flags else "/v1/chat/completions"
    assert {(row["method"], row["url"]) for row in rows} == {("POST", url)}
    assert len({row["body"]["seed"] for row in rows}) == len({row["custom_id"] for row in rows}) == len(rows)
    return {row["custom_id"]: row["body"] for row in rows}


def prompts_of(folder):
    """What our own engine would be given, but for the prompt that leaves no room."""
    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    problems = [row for row in common.load_problems(folder / "p.jsonl") if row["id"] != "long"]
    return tokenizer, {row["id"]: list(common.encode_prompt(tokenizer, row)) for row in problems}


def test_requests_ask_for_what_our_own_engine_would_sample(folder, capsys):
    flags = ["--max-new-tokens", 200, "--top-k", 7, "--temperature", 0.5, "--repetition-penalty", 1.5]
    bodies = ask(folder, *flags)
    assert "4 requests for 16 of 20 rollouts" in capsys.readouterr().err
    tokenizer, prompts = prompts_of(folder)
    assert bodies.keys() == {f"{id}#0" for id in prompts}
    for id, prompt in prompts.items():
        body = bodies[f"{id}#0"]
        told = body.pop("messages"), body.pop("chat_template_kwargs")
        encoded = tokenizer.apply_chat_template(told[0], add_generation_prompt=True, **told[1])["input_ids"]
        assert encoded == prompt
        assert body.pop("seed") < 2**31 and body == {
            "model": str(folder / "model"), "max_tokens": min(200, 256 - len(prompt)), "n": N, "top_k": 7,
            "temperature": 0.5, "top_p": 1.0, "repetition_penalty": 1.5, "return_token_ids": True,
            "skip_special_tokens": False,
        }  # fmt: skip


def test_prompts_as_token_ids(folder):
    bodies, (_, prompts) = ask(folder, "--endpoint", "completions"), prompts_of(folder)
    assert {id: body["prompt"] for id, body in bodies.items()} == {f"{id}#0": x for id, x in prompts.items()}
    assert all(body["top_k"] == -1 and "messages" not in body for body in bodies.values())


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
def test_plain_requests_have_fields_that_every_server_knows_and_one_rollout_each(folder, endpoint, capsys):
    bodies = ask(folder, "--plain", "--endpoint", endpoint, "--top-k", 3)
    assert len(bodies) == 4 * N and "'top_k': 3" in capsys.readouterr().err
    assert all(body.keys() <= OPENAI for body in bodies.values())


EFFORT = (
    "{{ reasoning_effort }}{% for m in messages %}{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}A{% endif %}"
)
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}" + EFFORT


@pytest.mark.parametrize("template, roles", [(EFFORT, ["system", "user"]), (NO_SYSTEM, ["user"])])
def test_messages_are_those_that_the_template_takes(folder, template, roles):
    (folder / "model/chat_template.jinja").write_text(template)
    bodies, (tokenizer, prompts) = ask(folder, "--plain"), prompts_of(folder)
    for id, prompt in prompts.items():
        body = bodies[f"{id}#0"]
        assert [message["role"] for message in body["messages"]] == (["user"] if id == "chat" else roles)
        effort = {"reasoning_effort": body["reasoning_effort"], "add_generation_prompt": True}
        assert tokenizer.apply_chat_template(body["messages"], **effort)["input_ids"] == prompt


def test_a_model_without_a_chat_template_takes_completions(folder, capsys):
    (folder / "model/chat_template.jinja").unlink()
    assert "--endpoint completions" in dies(capsys, ask, folder)
    assert len(ask(folder, "--endpoint", "completions")) == 4


def test_requests_are_of_one_data_set_and_without_stopping(folder, capsys):
    told = "--requests: one data set, no --stop"
    assert told in dies(capsys, ask, folder, "--scorer", "x.pt", "--stop")
    data = folder / "p.jsonl", folder / "p.jsonl"
    assert told in dies(capsys, program, folder / "model", *data, "--requests", folder / "requests.jsonl")


@pytest.mark.parametrize("file", ["generation_config.json", None])
def test_settings_without_the_weights_are_those_with_them(tmp_path, file):
    """Where the file of settings is lost, both fall back to the model's configuration."""
    model = shutil.copytree(MODEL, tmp_path / "model")
    settings = common.read_json(model / "generation_config.json") | {"top_k": 5, "temperature": 0.3}
    common.write_json(model / "generation_config.json", settings)
    if file:
        (model / file).unlink()
    found = [common.sampling_defaults(*load(str(model))) for load in (common.load_tokenizer, common.load_model)]
    assert found[0] == found[1] and found[0]["top_k"] == (0 if file else 5)
