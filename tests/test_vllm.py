"""`--engine vllm` on the real command line; tests/README.md says how to install vLLM for a CPU."""

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from conftest import LATENT, ROOT, full_forward, generate, random_model, refusal_of, stored, tokens_of
from safetensors.torch import save_file
from transformers import AutoTokenizer

import common

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
    return sample(problems, tmp_path_factory.mktemp("whole"), "--layers", "penultimate,2,1")


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
    assert meta["layers"] == ["penultimate", "2", "1"] and not [*whole.glob("parts/vectors/*")]
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
def test_layers_that_are_added_to_a_finished_run(whole, problems, tmp_path):
    """They lie below those that are there, and are asked for in no order."""
    shutil.copytree(whole.parents[2], tmp_path / "out")
    run = sample(problems, tmp_path / "out", "--layers", "4,3")
    assert common.read_meta(run)["layers"] == ["penultimate", "2", "1", "4", "3"]
    assert_vectors_and_statistics(run)


@with_vllm
def test_its_processes_end_with_the_command_however_that_ends(problems, tmp_path):
    process = subprocess.Popen(command_of(problems, tmp_path, "-n", "99"), env=os.environ | OF_A_CPU)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while not (engines := [pid for pid in children.read_text().split() if "VLLM" in command_line(pid)]):
        assert process.poll() is None
        time.sleep(0.1)
    process.kill()
    process.wait()
    end = time.monotonic() + 30
    while any(map(command_line, engines)) and time.monotonic() < end:
        time.sleep(0.1)
    assert not any(map(command_line, engines))


def command_line(pid):
    """Of a running process; "" of one that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


@with_vllm
@pytest.mark.parametrize("architecture, options", [("deepseek_v3", LATENT), ("glm4", {"head_dim": 8})])
def test_a_model_whose_layers_it_does_not_hand_out_is_refused_before_it_samples(
    architecture, options, problems, tmp_path
):  # fmt: skip
    random_model(architecture, **options).save_pretrained(tmp_path / "model")
    AutoTokenizer.from_pretrained(MODEL).save_pretrained(tmp_path / "model")
    command = [x if x != str(MODEL) else tmp_path / "model" for x in command_of(problems, tmp_path / "out")]
    assert "so it could not read the answers; see which it can in README.md" in refusal_of(*command[1:])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("flags, words", [
    (["--layers", "final"], ", before the final one; leave out others"),
    (["--layers", "0"], ", before the final one; leave out others"),
    (["--engine-args", '{"pipeline_parallel_size":2}'], "leave out pipeline_parallel_size"),
    (["--extra", "last10"], "does without"),
    (["--engine-args", "dtype=bfloat16"], "; write it as -h shows"),
])  # fmt: skip
def test_what_vllm_cannot_do_is_one_line(problems, tmp_path, flags, words, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: True)
    assert words in refusal_of("01_generate.py", MODEL, problems, "--engine", "vllm", "--out", tmp_path, *flags)
    assert not any(tmp_path.iterdir())


def test_several_workers_are_refused(problems, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: True)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    error = refusal_of("01_generate.py", MODEL, problems, "--engine", "vllm", "--out", tmp_path)
    assert error == "--engine vllm is one process for all GPUs: leave out torchrun and RANK"
    assert not any(tmp_path.iterdir())


def test_a_model_of_several_parts_has_the_number_type_of_its_files(tmp_path, monkeypatch):
    config = {"model_type": "gemma3", "dtype": "bfloat16", "text_config": {"model_type": "gemma3_text"}}
    common.write_json(tmp_path / "config.json", config)
    args = SimpleNamespace(engine="vllm", model=str(tmp_path), revision=None, dtype="auto")
    monkeypatch.setattr(os, "environ", os.environ.copy())
    monkeypatch.setattr(common, "pick_device", lambda: "cuda:0")
    model = generate.load_engine(args, common.load_config(args.model).get_text_config())
    assert (model.device, model.dtype) == ("cuda:0", torch.bfloat16)


@pytest.mark.skipif(has_vllm, reason="it takes a Python without vllm")
def test_without_vllm_one_line_says_how_to_get_it(problems, tmp_path):
    error = refusal_of("01_generate.py", MODEL, problems, "--engine", "vllm", "--out", tmp_path)
    assert error == f"--engine vllm: this Python has no vllm; {sys.executable} -m pip install vllm (docs.vllm.ai)"


def test_vectors_that_are_written_a_step_after_their_answer_are_waited_for(tmp_path, monkeypatch):
    """A step of long answers takes long on a CPU, and the next answers must be asked for meanwhile."""

    def ask(engine, requests):
        paths = []
        for number, (row, *_) in enumerate(requests):
            paths.append(tmp_path / f"{number}.safetensors")
            yield row, SimpleNamespace(kv_transfer_params={"hidden_states_path": str(paths[-1])})
            for path in paths[:-1]:
                save_file({"vectors": torch.full((1, 2, 3), float(path.stem))}, path)
                paths.remove(path)
        save_file({"vectors": torch.full((1, 2, 3), float(number))}, paths[-1])

    monkeypatch.setattr(generate, "ask_vllm", ask)
    rows = [{"prompt": [1], "tokens": [2], "stats": None, "finish": "stop", "id": i} for i in range(4)]
    found = {row["id"]: row["hidden"][7] for row in generate.read_by_vllm(None, rows, [7])}
    assert sorted(found) == [0, 1, 2, 3] and all((vectors == i).all() for i, vectors in found.items())
    assert not [*tmp_path.iterdir()]
