"""vLLM on a CPU beside our engine: tokens a second of processor time, of all processes, engines running already,
one thread each.

    python tests/bench.py vllm FOLDER [--rounds 3]   # with a Python that has vllm; FOLDER: a model

12 problems of the demo x 16 rollouts of at most --tokens. Ours keeps the vectors while it samples; vLLM samples,
and reads in a second engine.
"""

import importlib
import itertools
import json
import os
import tempfile
from collections import deque
from contextlib import suppress
from pathlib import Path

import psutil  # which vLLM brings along
import torch

import common

generate = importlib.import_module("01_generate")
ROOT = Path(__file__).resolve().parents[1]
# The share is of the memory, a CPU's too; our model takes some of it
ENGINE_ARGS = '{"enforce_eager": true, "max_num_seqs": 128, "gpu_memory_utilization": 0.5}'


def main(argv):
    parser = common.argument_parser(__doc__)
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", default="60")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    os.environ |= {"OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "0"}
    given = ["-n", "16", "--max-new-tokens", args.tokens, "--engine", "vllm", "--engine-args", ENGINE_ARGS]
    options = generate.parse_args([args.model, str(ROOT / "demo/math_a.jsonl"), *given])
    model, tokenizer = common.load_model(args.model, "cpu", "float32")
    settings = generate.settings_of(options, model, tokenizer)
    problems = common.load_problems(ROOT / "demo/math_a.jsonl", 12)
    jobs = [*itertools.chain(*generate.rollout_jobs(settings, problems).values())]
    by_vllm = generate.load_engine(options, settings.config)
    rounds = []
    for _ in range(args.rounds):
        rounds.append(of_ours(model, settings, jobs) | of_vllm(options, by_vllm, settings, jobs))
        print(rounds[-1])
    best = {name: max(found[name] for found in rounds) for name in rounds[0]}
    print(common.table(["tokens a CPU second", "best of the rounds"], [[name, f"{x:.1f}"] for name, x in best.items()]))
    print(json.dumps(best | {"vLLM : ours, each round": [round(x["vLLM, both"] / x["ours"], 2) for x in rounds]}))


def processor_seconds():
    """Of this process and all below it."""
    own = psutil.Process()
    seconds = 0.0
    for process in (own, *own.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # it has just ended
            seconds += sum(process.cpu_times()[:2])
    return seconds


def of_ours(model, settings, jobs):
    n_layers = settings.config.num_hidden_layers
    longest = max(len(job["prompt"]) for job in jobs), max(job["limit"] for job in jobs)
    begin = processor_seconds()
    engine = generate.Engine(model, [n_layers - 1], settings.sampling, settings.n, 128, *longest)
    found = list(engine.run(deque(map(generate.BatchRow, jobs))))
    return {"ours": sum(len(rollout["ids"]) for rollout in found) / (processor_seconds() - begin)}


def of_vllm(options, model, settings, jobs):
    longest = max(len(job["prompt"]) + job["limit"] for job in jobs) + 1
    with generate.vllm_engine(options, model, longest) as engine:
        begin = processor_seconds()
        sampled = list(generate.sample_by_vllm(engine, settings, jobs))
        sampling = processor_seconds() - begin
    layers = [settings.config.num_hidden_layers - 1]
    with tempfile.TemporaryDirectory() as folder:
        with generate.vllm_engine(options, model, longest, layers, Path(folder)) as engine:
            begin = processor_seconds()
            rollouts = list(generate.read_by_vllm(engine, sampled, layers))
            reading = processor_seconds() - begin
    tokens = sum(len(rollout["ids"]) for rollout in rollouts)
    return {"vLLM, sampling": tokens / sampling, "vLLM, reading": tokens / reading,
            "vLLM, both": tokens / (sampling + reading)}  # fmt: skip
