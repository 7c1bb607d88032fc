"""`--engine vllm` on the real command line; tests/README.md says how to install vLLM for a CPU."""

import importlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from conftest import ROOT, full_forward, refusal_of, stored, tokens_of

import common

generate = importlib.import_module("01_generate")
MODEL = Path(os.environ.get("SCATR_REAL_MODEL") or ROOT / "demo/model")
N = 3
has_vllm = importlib.util.find_spec("vllm") is not None
with_vllm = pytest.mark.skipif(not has_vllm, reason="it takes vllm: see tests/README.md")
ARGUMENTS = '{"enforce_eager":true,"max_num_seqs":64}'
OF_A_CPU = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1",
            "VLLM_HOST_IP": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo"}  # fmt: skip


@pytest.fixture(scope="module")
def problems(tmp_path_factory):
    path = tmp_path_factory.mktemp("vllm") / "p.jsonl"
    common.write_jsonl(path, common.read_jsonl(ROOT / "demo/math_a.jsonl")[:4])
    return path


def command_of(problems, out, *flags):
    command = [sys.executable, ROOT / "01_generate.py", MODEL, problems, "-n", N, "--max-new-tokens", 30]
    engine = "--engine", "vllm", "--engine-args", ARGUMENTS, "--out", out
    return [str(x) for x in (*command, *engine, *flags)]


def run_of(out, name="32"):
    return out / MODEL.name / "p" / name


def sample(problems, out, *flags):
    done = subprocess.run(command_of(problems, out, *flags), env=os.environ | OF_A_CPU, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return run_of(out, "greedy" if "--greedy" in flags else "32")


@pytest.fixture(scope="module")
def whole(problems, tmp_path_factory):
    return sample(problems, tmp_path_factory.mktemp("whole"), "--layers", "0,2,penultimate")


def assert_vectors_and_statistics(run):
    """Those of transformers' forward pass in float32."""
    model, tokenizer = common.load_model(str(MODEL), "cpu", "float32")
    n_layers = common.read_meta(run)["n_layers"]
    problems = {row["id"]: row for row in common.read_jsonl(run / "problems.jsonl")}
    rollouts = common.read_rollouts(run)
    tokens, hidden = stored(run)
    stats = tokens["stats"].tensor_split(tokens["offsets"][1:-1])
    for row, ids, vectors, found in zip(rollouts, tokens_of(run), hidden["hidden"], stats, strict=True):
        prompt = list(common.encode_prompt(tokenizer, problems[row["id"]]))
        states, logits = full_forward(model, prompt + ids)
        for name, vector in zip(hidden["vectors"], vectors, strict=True):
            layer, token = common.vector_key(name, n_layers)
            want = states[layer][-2 if token == "last" and row["finish"] == "stop" else -1]
            assert (vector - want).norm() / want.norm() < 1e-5
        want = common.token_stats(logits[len(prompt) - 1 : -1], torch.tensor(ids))
        torch.testing.assert_close(found[:, :11].float(), want[:, :11], atol=2e-3, rtol=2e-3)
        assert found[:, 11].isnan().all() and row["conf"]["self_certainty/avg"] is None
        assert all(row["conf"][rule] is not None for rule in common.RULES if "certainty" not in rule)


@with_vllm
def test_vectors_and_statistics_are_those_of_transformers(whole):
    meta = common.read_meta(whole)
    assert meta["engine"] == "vllm" and meta["versions"]["vllm"]
    assert meta["layers"] == ["0", "2", "penultimate"] and not (whole / "parts").exists()
    assert len(common.read_rollouts(whole)) == 4 * N
    assert_vectors_and_statistics(whole)


@with_vllm
def test_greedy_answers_are_our_engines(problems, tmp_path):
    run = sample(problems, tmp_path, "--greedy")
    generate.main([str(MODEL), str(problems), "--greedy", "--max-new-tokens", "30", "--out", str(tmp_path / "ours")])
    assert tokens_of(run) == tokens_of(run_of(tmp_path / "ours", "greedy"))


@with_vllm
def test_answers_made_elsewhere(whole, problems, tmp_path):
    rows = [row | {"response": "", "tokens": ids} for row, ids in zip(common.read_rollouts(whole), tokens_of(whole))]
    common.write_jsonl(tmp_path / "answers.jsonl", rows)
    run = sample(problems, tmp_path, "--responses", tmp_path / "answers.jsonl")
    assert tokens_of(run) == tokens_of(whole)
    assert_vectors_and_statistics(run)


@with_vllm
def test_killed_while_it_reads_and_run_again(whole, problems, tmp_path, monkeypatch):
    """It goes on with the problems that it had sampled and not read."""
    flags = "--layers", "0,2,penultimate"
    run = run_of(tmp_path)
    process = subprocess.Popen(command_of(problems, tmp_path, *flags), env=os.environ | OF_A_CPU, start_new_session=True)
    while len([*run.glob("parts/*.pt")]) < 4:
        assert process.poll() is None
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (run / "rollouts.jsonl").exists()
    for name, value in OF_A_CPU.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(generate, "sample_by_vllm", lambda *_: pytest.fail("it samples again"))
    generate.main(command_of(problems, tmp_path, *flags)[2:])
    assert tokens_of(run) == tokens_of(whole) and not (run / "parts").exists()
    assert_vectors_and_statistics(run)


@with_vllm
def test_vectors_that_do_not_come_are_asked_for_again(whole, problems, tmp_path, monkeypatch):
    """Here the first file is lost; the engine and what it answers are real."""
    for name, value in OF_A_CPU.items():
        monkeypatch.setenv(name, value)
    lost = []
    comes = generate.comes

    def lose_the_first(path):
        if not lost:
            lost.append(path)
            return False
        return comes(path)

    monkeypatch.setattr(generate, "comes", lose_the_first)
    rows = [row | {"response": "", "tokens": ids} for row, ids in zip(common.read_rollouts(whole), tokens_of(whole))]
    common.write_jsonl(tmp_path / "answers.jsonl", rows)
    generate.main(command_of(problems, tmp_path, "--responses", tmp_path / "answers.jsonl")[2:])
    assert len(lost) == 1
    assert_vectors_and_statistics(run_of(tmp_path))


@pytest.mark.parametrize("flags, words", [
    (["--layers", "final"], "gives the vectors of the layers before the final one"),
    (["--extra", "last10"], "does without"), (["--slots", 3], "does without"),
    (["--engine-args", "dtype=bfloat16"], "; write it as -h shows"),
])  # fmt: skip
def test_what_vllm_cannot_do_is_one_line(problems, tmp_path, flags, words, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: True)
    assert words in refusal_of("01_generate.py", MODEL, problems, "--engine", "vllm", "--out", tmp_path, *flags)
    assert not any(tmp_path.iterdir())


def test_a_model_of_several_parts_has_the_number_type_of_its_files(tmp_path, monkeypatch):
    config = {"model_type": "gemma3", "dtype": "bfloat16", "text_config": {"model_type": "gemma3_text"}}
    common.write_json(tmp_path / "config.json", config)
    args = SimpleNamespace(model=str(tmp_path), revision=None, dtype="auto")
    monkeypatch.setattr(os, "environ", os.environ.copy())
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(common, "pick_device", lambda: "cuda:0")
    model = generate.stand_in(args, common.load_config(args.model).get_text_config())
    assert (model.device, model.dtype) == ("cuda:0", torch.bfloat16)


@pytest.mark.skipif(has_vllm, reason="it takes a Python without vllm")
def test_without_vllm_one_line_says_how_to_get_it(problems, tmp_path):
    error = refusal_of("01_generate.py", MODEL, problems, "--engine", "vllm", "--out", tmp_path)
    assert error == f"--engine vllm: this Python has no vllm; {sys.executable} -m pip install vllm (docs.vllm.ai)"
