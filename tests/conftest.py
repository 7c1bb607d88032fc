"""What several test files share: the scripts as programs, and small run folders made up on the spot."""

import importlib
import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace

os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads that wait make tiny models a hundred times slower
import numpy as np
import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

import common

ROOT = Path(__file__).resolve().parents[1]


# What a processor's arithmetic could change; `.ci/run` runs these once more with another kind of it.
NUMERIC = "families", "generate", "train", "stop", "verifiers", "demo", "select"


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.stem.removeprefix("test_") in NUMERIC:
            item.add_marker(pytest.mark.numeric)


@pytest.fixture(autouse=True)
def torch_as_it_was():
    """03 sets threads and precision for its own process; no test sees what another left."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision("highest")


@pytest.fixture(scope="session")
def run_script():
    """run_script("04_select.py", *args, code=0) -> the process; `code` is checked, tracebacks never pass."""

    def run(script, *args, code=0, **options):
        command = [sys.executable, str(ROOT / script), *map(str, args)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
        assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"
        assert code == 1 or "Traceback" not in done.stderr, done.stderr
        if code == 2:
            assert done.stderr.strip().splitlines()[-1].startswith("error: "), done.stderr
        return done

    return run


@pytest.fixture(scope="session")
def run_here():
    """As run_script, within this process: a new one imports torch, which takes longer than most tests."""

    def run(script, *args, code=0):
        out, err, ended = io.StringIO(), io.StringIO(), 0
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.setattr(sys, "argv", [script, *map(str, args)])
            try:
                importlib.import_module(Path(script).stem).main()
            except SystemExit as stop:
                ended = stop.code
            except common.BadInput as error:  # as common.entry ends a program
                print(f"error: {error}", file=err)
                ended = 2
        stdout, stderr = out.getvalue(), err.getvalue()
        assert ended == code, stdout + stderr
        assert code != 2 or stderr.splitlines()[-1].startswith("error: "), stderr
        return SimpleNamespace(stdout=stdout, stderr=stderr)

    return run


@pytest.fixture
def parts(monkeypatch):
    """parts(most=None) -> the parts written from now on; the program is killed instead of one more."""
    save_pt = common.save_pt

    def watch(most=None):
        written = []

        def save(path, value):
            if path.parent.name == "parts":
                if len(written) == most:
                    raise KeyboardInterrupt
                written.append(path)
            save_pt(path, value)

        monkeypatch.setattr(common, "save_pt", save)
        return written

    return watch


TINY = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 512, "initializer_range": 0.15,
        "vocab_size": 300, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None}  # fmt: skip


def random_model(name, **options):
    """A tiny causal model of transformers' architecture `name`; biases and sinks too: zeros hide mistakes."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(CONFIG_MAPPING[name](**TINY | options)).float().eval()
    for x in (x for parameter, x in model.named_parameters() if "sinks" in parameter or "bias" in parameter):
        torch.nn.init.normal_(x, std=0.5)
    return model


@torch.no_grad()
def full_forward(model, ids):
    """(hidden states, logits) of one sequence by transformers' own eager attention."""
    model.set_attn_implementation("eager")
    out = model(torch.tensor([ids]), output_hidden_states=True, use_cache=False)
    return [x[0] for x in out.hidden_states], out.logits[0]


def make_run(
    path, problems=12, n=4, width=8, seed=0, kind="math", signal=2.0, labels=True, model="tiny", n_layers=5,
    dataset="made_up",
):
    """A run folder as 01 and 02 leave it. Half of the vector's dimensions carry the label with `signal`."""
    rng = np.random.default_rng(seed)
    keys = [(f"p{i}", j) for i in range(problems) for j in range(n)]
    right = rng.random(len(keys)) < np.repeat(rng.uniform(0.2, 0.8, problems), n)
    vectors = ["penultimate/last", "penultimate/eos", "final/last", "final/eos"]
    hidden = rng.normal(size=(len(keys), len(vectors), width))
    hidden += signal * (right[:, None, None] * (np.arange(width) < width // 2))
    lengths = rng.integers(1, 30, len(keys))
    stats = -np.sort(rng.exponential(2, (lengths.sum(), 12)), 1).astype(np.float16)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    groups = np.where(right, 0, rng.integers(1, 3, len(keys)))
    common.write_json(path / "meta.json", {
        "model": model, "revision": None, "dataset": dataset, "seed": seed, "n": n, "n_layers": n_layers,
        "width": width, "vocab_size": 50, "git": None, "layers": ["penultimate", "final"],
    })  # fmt: skip
    asked = {f"p{i}": {"kind": kind, "prompt": f"What is {i}?", "answer": str(i)} for i in range(problems)}
    common.write_jsonl(path / "problems.jsonl", ({"id": id} | row for id, row in asked.items()))
    rollouts, judged = [], []
    for (id, sample), is_right, group, a, b in zip(keys, right, groups, offsets, offsets[1:]):
        rollouts.append({"id": id, "sample": sample, "response": f"answer {is_right}", "n_tokens": int(b - a),
                         "finish": "stop", "conf": common.confidence(stats[a:b], 50)})  # fmt: skip
        judged.append({"id": id, "sample": sample, "label": int(is_right), "answer": str(group),
                       "group": int(group) if kind == "math" else None, "reason": "equal"})  # fmt: skip
    common.write_jsonl(path / "rollouts.jsonl", rollouts)
    hidden, ids = torch.tensor(hidden).bfloat16(), torch.zeros(len(stats), dtype=torch.int32)
    common.save_pt(path / "hidden.pt", {"keys": keys, "vectors": vectors, "hidden": hidden})
    tokens = {"offsets": torch.tensor(offsets), "ids": ids, "stats": torch.tensor(stats)}
    common.save_pt(path / "tokens.pt", tokens)
    if labels:
        common.write_jsonl(path / "labels.jsonl", judged)
    return path


def read_vectors(run, vector=common.DEFAULT_VECTOR):
    """(keys, hidden [R, d] in the model's dtype) of one vector of a run."""
    stored, column = common.open_hidden(run, vector)
    return [tuple(key) for key in stored["keys"]], stored["hidden"][:, column]


def python(program, *args, **options):
    """A new Python that runs a program of a few lines, with common.py at hand."""
    command = [sys.executable, "-c", program, *map(str, args)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, **options)


def stored(run):
    return common.load_pt(run / "tokens.pt"), common.load_pt(run / "hidden.pt")


def assert_same_run(a, b, statistics=1e-6):
    """The batch moves a float32 by 1e-7, and so now and then a statistic, a float16, by its last bit."""
    for x, y in zip(common.read_rollouts(a), common.read_rollouts(b), strict=True):
        assert {**x, "conf": 0} == {**y, "conf": 0}
    (tokens, hidden), (other_tokens, other_hidden) = stored(a), stored(b)
    assert tokens["ids"].equal(other_tokens["ids"]) and hidden["keys"] == other_hidden["keys"]
    stats, others = (x["stats"].float() for x in (tokens, other_tokens))
    torch.testing.assert_close(stats, others, rtol=2e-3, atol=statistics)
    torch.testing.assert_close(hidden["hidden"], other_hidden["hidden"], atol=1e-4, rtol=1e-4)


def dies(capsys, function, *args, **options):
    """The one line with which `function` refuses what it is given; only a command line prints it."""
    with pytest.raises(common.BadInput) as refused:
        function(*args, **options)
    assert "error: " not in capsys.readouterr().err
    message = str(refused.value)
    assert len(message.splitlines()) == 1, message
    return message


def last_json(done):
    """The JSON line that ends a script's output."""
    return json.loads(done.stdout.strip().splitlines()[-1])
