"""A rehearsal for a CUDA GPU on a machine without one: the real code on tensors that say they are on `cuda`
and hold no numbers. It finds what mixes devices or types; what comes out, and how fast, only a GPU can say.
"""

import importlib
from collections import deque
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch
from bench_train import draw_rollouts, make_world
from conftest import TINY, read_jobs
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.overrides import TorchFunctionMode
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

import common

SCRIPTS = "01_generate", "03_train_scorer", "05_baselines"
generate, trainer, verifiers = map(importlib.import_module, SCRIPTS)
pytestmark = pytest.mark.skipif(
    torch.version.cuda is None, reason="torch is built without CUDA: tests/README.md says how to install one"
)
EXPERTS = {"moe_intermediate_size": 16, "num_experts_per_tok": 2}
FAMILIES = {
    "qwen3": {"head_dim": 8}, "qwen2": {}, "llama": {}, "olmo2": {"num_key_value_heads": 4},
    "gpt_oss": {"head_dim": 8, "num_experts_per_tok": 2, "num_local_experts": 4, "sliding_window": 12},
    "qwen3_moe": EXPERTS | {"num_experts": 4, "head_dim": 8},
    "gemma3_text": {"head_dim": 8, "sliding_window": 12},
}  # fmt: skip
PLAIN = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "repetition_penalty": 1.0, "stop_ids": [2]}
WARM = {"top_p": 0.9, "repetition_penalty": 1.1}
SETTINGS = [(family, WARM) for family in FAMILIES]
SETTINGS += [("qwen3", setting) for setting in ({"temperature": 0}, {}, {"top_k": 20})]


def real(function, *args, **options):
    """Numbers for the host, which looks at them."""
    with unset_fake_temporarily():
        return function(*args, **options)


class WithoutNumbers(TorchFunctionMode):
    """Where the host looks at a number, or sends some, there is one; everything else is torch's own."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        looks = {
            torch.Tensor.cpu: lambda x: real(torch.zeros, x.shape, dtype=x.dtype),
            torch.Tensor.tolist: lambda x: real(torch.zeros, x.shape, dtype=x.dtype).tolist(),
            torch.Tensor.numpy: lambda x: real(x.numpy),
            torch.Tensor.item: number_of,
            torch.Tensor.__int__: lambda x: 0,
            torch.Tensor.__bool__: lambda x: False,
            torch.allclose: lambda *_, **__: True,
            torch.Tensor.backward: give_gradients,
        }
        if function in looks:
            return looks[function](*args, **kwargs)
        if function in (torch.tensor, torch.as_tensor) and kwargs.get("device") is not None:
            like = real(function, *args, **kwargs | {"device": "cpu"})
            return torch.empty(like.shape, dtype=like.dtype, device=kwargs["device"])
        if function is torch.Tensor.new_tensor:
            return torch.empty(np.shape(args[1]), dtype=torch.int64, device=args[0].device)
        return function(*args, **kwargs)


def number_of(x):
    """0 on the device, where it is the size of an error; 1 on the host: a count of steps, or a token."""
    number = 0.0 if x.is_cuda else 1.0
    return number if x.is_floating_point() else int(number)


def give_gradients(loss, **_):
    """Of all that the loss depends on: autograd's own threads ask for a driver."""
    nodes, seen = [loss.grad_fn], set()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            node.variable.grad = torch.empty_like(node.variable)
        nodes += [next for next, _ in node.next_functions]


@contextmanager
def rehearsal():
    with pytest.MonkeyPatch.context() as patch, FakeTensorMode(allow_non_fake_inputs=True), WithoutNumbers():
        patch.setattr(torch.cuda, "get_device_capability", lambda *_: (9, 0))  # an H100's, which experts ask
        yield


@pytest.fixture
def rehearsed():
    with rehearsal():
        yield


def make_model(family):
    config = CONFIG_MAPPING[family](**TINY | {"num_hidden_layers": 2} | FAMILIES[family])
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    assert {x.device.type for x in model.parameters()} == {"cuda"}
    return model


def make_jobs(**more):
    """Prompts without and with a whole page, two rollouts each."""
    return [
        {"problem": i, "sample": sample, "prompt": [5] * size, "limit": 6, "key": sample, **more}
        for i, size in enumerate((1, 20, 300))
        for sample in range(2)
    ]


@pytest.mark.parametrize("family, setting", SETTINGS, ids=str)
def test_sampling(family, setting, rehearsed, capsys):
    """Each step both ways, then by varlen_attn alone; with too few pages for all rows."""
    model = make_model(family)
    sampling = PLAIN | setting
    token = 2 * 2 * 2 * model.config.num_key_value_heads * 8
    engine = generate.Engine(model, [1, 2, 0], sampling, 2, 5, 300, 6, budget=9 * 256 * token)
    found = list(engine.run(deque(map(generate.Row, make_jobs()))))
    assert len(found) == 6 and {len(row["ids"]) for row in found} == {6}
    assert {row["hidden"].device.type for row in found} == {"cpu"}
    assert engine.by_tables and max(engine.widths.values()) > 2 and not capsys.readouterr().err


@pytest.mark.parametrize("family", FAMILIES)
def test_reading(family, rehearsed):
    jobs = make_jobs(tokens=[7, 8, 9, 2])
    found = read_jobs(make_model(family), jobs, [1, 2], [2], ["last10"])
    assert len(found) == 6 and all(row["hidden"].shape == (4, 32) for row in found)


@pytest.mark.parametrize("family", FAMILIES)
def test_lora_and_a_reward_head(family, rehearsed):
    model = make_model(family)
    adapters = verifiers.add_adapters(model, 0)
    verifiers.save_memory(model.train())
    optimizer = torch.optim.AdamW(adapters.values(), weight_decay=0.0)
    verifiers.learn_from(model, [5] * 20, 3, 1)
    assert all(weight.grad is not None for weight in adapters.values())
    optimizer.step()
    model.eval()
    head = torch.nn.Linear(32, 1, device=model.device)
    with torch.inference_mode():
        verifiers.next_logits(model, [5] * 20)[[3, 4]].diff()
        head(verifiers.states_of(model, [5] * 20)[-1].float())


@pytest.mark.parametrize("config", [{}, {"batch_norm": True, "dropout": 0.3, "input_dropout": 0.1}])
def test_training_a_scorer(config, monkeypatch):
    build = common.build_scorer

    def build_there(*args):  # fake weights cannot be moved
        with torch.device("cuda"):
            return build(*args)

    monkeypatch.setattr(common, "build_scorer", build_there)
    monkeypatch.setattr(torch.nn.Module, "to", lambda module, device: module)
    recipe = trainer.make_recipe(trainer.parse_args(["run"]), ["run"], seed=32)
    task = trainer.make_task(draw_rollouts(make_world(12), problems=40, n=4, seed=0), recipe, "cpu")
    with rehearsal():
        parts = {name: getattr(task, name) for name in ("x", "y", "train", "valid")}
        parts = {name: torch.empty(x.shape, dtype=x.dtype, device="cuda") for name, x in parts.items()}
        trial, weights = trainer.train(replace(task, **parts), task.configs[0] | config, epochs=1)
    assert trial["best_epoch"] == 1 and weights
