"""The code for CUDA; tests/README.md names the commands.

With a GPU: the real thing. Without one, where Triton is installed: the kernel, by Triton's interpreter.
Everywhere: what must leave a GPU alone.
"""

import importlib.util
import json
import os
import threading
from collections import deque
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from bench_train import draw_rollouts, make_world
from conftest import ROOT, TINY, exact_attention, generate, python, read_jobs, trainer, with_flat_vectors
from conftest import report as verifiers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

import common

HAS_GPU = torch.cuda.is_available()
on_gpu = pytest.mark.skipif(not HAS_GPU, reason="it takes a GPU, and SCATR_GPU=1: see tests/README.md")
with_triton = pytest.mark.skipif(
    not (HAS_GPU or os.environ.get("TRITON_INTERPRET") and importlib.util.find_spec("triton")),
    reason="it takes a GPU, or Triton and TRITON_INTERPRET=1: see tests/README.md",
)
EXPERTS = {"moe_intermediate_size": 16, "num_experts_per_tok": 2}
FAMILIES = {
    "qwen3": {"head_dim": 8}, "qwen2": {}, "llama": {}, "olmo2": {"num_key_value_heads": 4},
    "gpt_oss": {"head_dim": 8, "num_experts_per_tok": 2, "num_local_experts": 4, "sliding_window": 12},
    "qwen3_moe": EXPERTS | {"num_experts": 4, "head_dim": 8},
    "gemma3_text": {"head_dim": 8, "sliding_window": 12},
}  # fmt: skip
PLAIN = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "repetition_penalty": 1.0, "stop_ids": [2]}


def make_model(family):
    config = CONFIG_MAPPING[family](**TINY | {"num_hidden_layers": 2} | FAMILIES[family])
    torch.manual_seed(0)  # with one seed of twelve gpt-oss came near the bound below: .027, on a CPU
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    assert {x.device.type for x in model.parameters()} == {"cuda"}
    return model


def make_jobs():
    """Prompts without and with a whole page, two rollouts each."""
    return [
        {"id": i, "sample": sample, "prompt": [5] * size, "limit": 6, "key": sample}
        for i, size in enumerate((1, 20, 300))
        for sample in range(2)
    ]


# ---- Beside a GPU

BESIDE_A_GPU = """\
import importlib, json, os, sys
from types import SimpleNamespace
import torch

notes, steps = sys.argv[1:]

def note(what):  # in this process or in a fork
    with open(notes, "a") as file:
        print(step[0], what, file=file)

def is_available():
    is_seen = os.environ.get("CUDA_VISIBLE_DEVICES") != ""
    if is_seen:
        note("asks for a GPU")
    return is_seen

def current_accelerator(check_available=False):
    return torch.device("cuda") if is_available() else None

def current_stream(device=None):
    note("makes a context")
    return SimpleNamespace(is_capturing=bool)

torch.cuda.is_available = is_available
torch.cuda.device_count = lambda: 1
torch.accelerator.current_accelerator = current_accelerator
torch.accelerator.current_stream = current_stream
for step in json.loads(steps):
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    sys.argv = step
    importlib.import_module(step[0]).main()
"""


def test_the_demos_five_steps_leave_a_gpu_alone(tmp_path):
    """By torch's rules in place of a driver's: where there is a GPU, each step of Adam asks for its stream, also
    on a CPU. That makes a context, or is an error in a fork of a process that has asked if there is a GPU."""
    demo = ROOT / "demo"
    runs = [str(tmp_path / "model" / name / "32") for name in ("math_a", "math_b")]
    scorers = [f"{runs[0]}/{design}.math_a@32-32.pt" for design in ("scatr", "logistic")]
    sizes = ["-n", 4, "--limit", 6, "--max-new-tokens", 40, "--out", tmp_path]
    steps = [
        ["01_generate", demo / "model", demo / "math_a.jsonl", demo / "math_b.jsonl", *sizes],
        ["02_label", *runs],
        ["03_train_scorer", runs[0], "--separate", "--configs", 2, "--workers", 2,
         "--design", "scatr", "logistic"],
        ["04_select", *runs, "--scorer", *scorers],
        ["05_baselines", runs[1]],
    ]  # fmt: skip
    notes = tmp_path / "notes"
    done = python(BESIDE_A_GPU, notes, json.dumps([[*map(str, step)] for step in steps]))
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(notes.read_text().splitlines()) == {"01_generate asks for a GPU"}
    assert done.stderr.count("so small a model stays on the CPU; --device cuda moves it") == 1
    for scorer in scorers:
        assert common.load_pt(scorer)["cost"]["device"].startswith("cpu, ")
    assert common.read_meta(runs[0])["device"].startswith("cpu, ")


def test_processes_load_a_model_on_its_way_to_a_gpu_one_after_another(monkeypatch):
    """Here on its way to `meta`, which is no CPU either."""
    name = str(ROOT / "demo" / "model")
    order = []
    load = AutoModelForCausalLM.from_pretrained

    def watched(*args, **options):
        order.append("another")
        return load(*args, **options)

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", watched)
    other = threading.Thread(target=common.load_model, args=(name, "meta"))
    with common.turn_to_load(name):
        other.start()
        common.load_model(name, "cpu")
        other.join(1)
        order.append("one")
    other.join()
    assert order == ["another", "one", "another"], "the first of them is that of a CPU, which waits for none"


# ---- The kernel, on a GPU or by Triton's interpreter


@with_triton
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("H, G, D, DV, P, window, has_sinks, shares", [
    (16, 8, 128, 128, 256, None, False, 1), (4, 4, 8, 8, 32, None, False, 1),
    (32, 32, 128, 128, 256, None, False, 4),
    (8, 1, 64, 64, 256, 12, False, 1), (64, 8, 64, 64, 256, 128, True, 3), (12, 4, 96, 96, 64, None, True, 2),
    (8, 4, 256, 256, 256, 700, False, 2), (4, 4, 192, 128, 256, None, False, 1),
])  # fmt: skip
def test_kernel(H, G, D, DV, P, window, has_sinks, shares, dtype):
    """Grouped heads, windows, sinks, odd widths; one key to all pages; NaN where nothing may be read."""
    if not HAS_GPU and dtype == "bfloat16":
        dtype = "float32"  # the interpreter has no bfloat16
    torch.manual_seed(0)
    device = "cuda" if HAS_GPU else "cpu"
    rows, width, pages = 5, 6, 40

    def draw(*shape):
        return torch.randn(*shape, device=device).to(getattr(torch, dtype))

    q, keys, values = draw(rows, H, D), draw(pages, G, P, D), draw(pages, G, P, DV)
    keys[0] = values[0] = float("nan")
    sizes = torch.tensor([1, P - 1, P, P + 1, width * P - 3], device=device).int()
    table = torch.randperm(pages - 1, device=device)[: rows * width].view(rows, width).int() + 1
    for row, size in enumerate(sizes.tolist()):
        table[row, -(-size // P) :] = 0
    sinks = torch.randn(H, device=device) if has_sinks else None
    inputs = q, keys, values, table, sizes, D**-0.5, window, sinks
    exact = exact_attention(*inputs)
    error = (generate.table_attention(*inputs, shares).double() - exact).norm() / exact.norm()
    assert error < {"bfloat16": 8e-3, "float16": 1e-3, "float32": 1e-5}[dtype]


# ---- On a GPU

WITHOUT_GRAPHS = "going on without CUDA graphs: "


def sampled(model, sampling, **changes):
    """What an engine on the GPU samples; changes: of its attributes."""
    engine = generate.Engine(model, [1, 2], PLAIN | {"stop_ids": []} | sampling, 2, 6, 300, 40)
    vars(engine).update(changes)
    # Rows end one after the other, so that graphs of several sizes replay, and rows are padded
    jobs = [job | {"limit": 40 - 3 * i} for i, job in enumerate(make_jobs())]
    found = map(with_flat_vectors, engine.run(deque(map(generate.BatchRow, jobs))))
    return sorted(found, key=lambda row: (row["id"], row["sample"]))


@on_gpu
@pytest.mark.parametrize("family", FAMILIES)
def test_sampled_vectors_are_the_read_ones(family, capsys):
    model = make_model(family)
    found = sampled(model, {})
    lines = capsys.readouterr().err.splitlines()
    if "num_experts_per_tok" in FAMILIES[family] and torch.cuda.get_device_capability()[0] not in (9, 10):
        assert lines.pop().startswith(WITHOUT_GRAPHS)  # elsewhere torch's product for experts waits
    assert not lines, "no step is done by page attention alone, or without a graph"
    jobs = [job | {"limit": 40, "tokens": row["ids"].tolist()} for job, row in zip(make_jobs(), found)]
    for one, other in zip(found, read_jobs(model, jobs, [1, 2], [2]), strict=True):
        one, other = one["hidden"].float(), other["hidden"].float()
        assert ((one - other).norm(dim=1) / other.norm(dim=1)).max() < 0.03


@on_gpu
@pytest.mark.parametrize("sampling", [{}, {"top_k": 20}, {"top_p": 0.9, "repetition_penalty": 1.1}], ids=str)
def test_a_graph_changes_no_token(sampling):
    model = make_model("qwen3").float()
    with_graphs, without = sampled(model, sampling), sampled(model, sampling, graphs=None)
    assert all(one["ids"].equal(other["ids"]) for one, other in zip(with_graphs, without, strict=True))


@on_gpu
def test_after_a_capture_that_fails_all_goes_on(capsys):
    """Of a model that waits for the device; the next engine has its graphs again."""

    def wait(module, inputs, output):
        output.sum().item()

    model = make_model("qwen3").float()
    hook = model.model.norm.register_forward_hook(wait)
    waiting = sampled(model, {})
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(WITHOUT_GRAPHS) and "captur" in line
    hook.remove()
    free = sampled(model, {})
    assert not capsys.readouterr().err
    assert all(one["ids"].equal(other["ids"]) for one, other in zip(waiting, free, strict=True))


def encode(problem, response):
    return [5] * 20


@on_gpu
@pytest.mark.parametrize("family", FAMILIES)
def test_lora_and_a_reward_head(family):
    """LoRA learns, and what the two kinds of reward models read is there."""
    model = make_model(family)
    adapters = verifiers.add_adapters(model, 0)
    before = [weight.detach().clone() for weight in adapters.values()]
    settings = SimpleNamespace(epochs=1, lr=1e-4)
    verifiers.train_adapters(SimpleNamespace(model=model, encode=encode), adapters, [3, 4], [("", "", 1)], settings, 0)
    assert not all(map(torch.equal, adapters.values(), before))
    head = torch.nn.Linear(32, 1, device=model.device)
    with torch.inference_mode():
        difference = verifiers.next_logits(model, [5] * 20)[[3, 4]].diff()
        assert difference.isfinite().all()
        head(verifiers.states_of(model, [5] * 20)[-1].float())


@on_gpu
def test_training_a_scorer(monkeypatch):
    monkeypatch.setattr(trainer, "EPOCHS", 1)
    recipe = trainer.make_recipe(trainer.parse_args(["run"]), ["run"], seed=32)
    task = trainer.make_task(draw_rollouts(make_world(12), problems=40, n=4, seed=0), recipe, "cuda")
    trial, weights = trainer.train(task, task.configs[0])
    assert np.isfinite(trial["val_loss"]) and weights
