"""How fast 01_generate.py makes rollouts, beside transformers' `generate` and `generate_batch` on the same work.

    python tests/bench.py generate                 # CPU: a model of about 20M parameters; GPU: the shape of Qwen3-1.7B
    python tests/bench.py generate --scale 0.1     # a tenth of the lengths, for a look
    python tests/bench.py generate --model FOLDER --top-p 0.9 --prompts 6 --length 200 --slots 96 --threads 1

Work: 16 rollouts of each of 16 prompts, of long-tailed lengths or all --length, imposed on every side. Without --model
random weights, nothing to download. Every side runs in a process of its own, `--rounds` times; the best counts. On a CPU
ours takes three turns with and without keeping vectors and statistics, which differ by less than the noise. `generate`
runs in the fixed batch that a pilot of 32 steps finds fastest, with hooks and statistics as good as ours;
`generate_batch` (continuous batching) keeps neither. On a CPU speed is by processor time, which neighbours disturb less.
forward_fraction (CPU): ours in parts of the tokens per CPU second of the bare forward pass, one token of as many rows
with nothing before it, no sampling and nothing kept, measured before and after in the same process.
bandwidth_fraction (GPU): the time to read the weights once and the rows' keys and values once a step at the speed of a
large copy, divided by the time the steps took.
"""

import argparse
import importlib
import json
import resource
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

import numpy as np

SIDES = ("ours", "ours, nothing kept", "generate", "generate_batch")


def main(argv=None):
    parser = argparse.ArgumentParser(prog="bench.py generate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.5, help="of the lengths: 1 is a median of 200 tokens, 1500 at most (GPU: 4 times that)")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--slots", type=int, help="default 64 on a CPU, 256 on a GPU")
    parser.add_argument("--threads", type=int, help="of a CPU; default: what torch takes")
    parser.add_argument("--model", help="a folder or a Hub id, instead of random weights")
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--length", type=int, help="of every rollout, in tokens")
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--top-k", type=int, default=0)
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=SIDES, metavar="SIDE", help="only these (default all)")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.side:
        print(json.dumps(measure(args)))
        return
    import torch

    quick = SIDES[:2] * (1 if torch.cuda.is_available() else 3)
    found = [run_side(side, args) for _ in range(args.rounds) for side in (*quick, *SIDES[2:]) if side in args.sides]
    report([x for x in found if x])


def run_side(side, args):
    command = [sys.executable, str(Path(__file__).with_name("bench.py")), "generate", "--side", side, "--scale", str(args.scale)]
    for name in ("slots", "threads", "model", "prompts", "length", "temperature", "top_k", "top_p"):
        command += [f"--{name.replace('_', '-')}", str(getattr(args, name))] if getattr(args, name) else []
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        print(f"{side}: failed, so the table is without it", file=sys.stderr)
        return None
    print(f"{side}: {done.stdout.strip().splitlines()[-1]}", file=sys.stderr)
    return json.loads(done.stdout.strip().splitlines()[-1])


def report(found):
    best = {side: min(sides, key=lambda x: x["cost"]) for side in SIDES if (sides := [x for x in found if x["side"] == side])}
    print(f"{'side':20} {'tokens/s':>9} {'tok/CPU-s':>9} {'seconds':>8} {'steps':>7} {'peak MB':>8}  batch")
    for side, x in best.items():
        print(
            f"{side:20} {x['tokens'] / x['wall']:9.0f} {x['tokens'] / x['cpu']:9.0f} {x['wall']:8.1f} {x['steps']:7} {x['peak_mb']:8.0f}  {x['batch']}"
        )
    ours = best["ours"]
    ratio = lambda side, name: round(best[side][name] / ours[name], 3) if side in best else None
    print(json.dumps({
        "ratio_vs_generate": ratio("generate", "cost"),
        "ratio_vs_generate_batch": ratio("generate_batch", "cost"),
        "ratio_by_wall_clock": [ratio(side, "wall") for side in SIDES[2:]],
        "capture_overhead": round(1 / ratio("ours, nothing kept", "cost") - 1, 3) if "ours, nothing kept" in best else None,
        "forward_fraction": round(ours["tokens"] / ours["cpu"] / ours["bare"], 3) if ours.get("bare") else None,
        "bandwidth_fraction": round(ours["limit"] / ours["wall"], 3),
        "peak_mb": {side: round(x["peak_mb"]) for side, x in best.items()},
        "tokens": ours["tokens"],
        "device": ours["device"],
    }))  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# One side


def measure(args):
    import torch

    if args.threads:
        torch.set_num_threads(args.threads)
    cuda = torch.cuda.is_available()
    model = load(args.model) if args.model else make_model(cuda)
    work = make_work(args.scale * (4 if cuda else 1), model.config.vocab_size, args.prompts, args.length)
    PLAIN.update(temperature=args.temperature, top_k=args.top_k, top_p=args.top_p)
    slots = args.slots or (256 if cuda else 64)
    side = {"generate": by_generate, "generate_batch": by_generate_batch}.get(args.side, by_ours)
    bare, before = bare_forward(model, slots) if args.side == "ours" and not cuda else None, memory(cuda)
    found = side(model, work, slots, args.side == "ours")
    found |= {"side": args.side, "tokens": int(sum(length for _, length in work)), "peak_mb": (memory(cuda) - before) / 2**20}
    limit = limit_of(model, work, found["steps"])
    found |= {"bare": bare and (bare + bare_forward(model, slots)) / 2}
    device = torch.cuda.get_device_name() if cuda else f"{torch.get_num_threads()} CPU threads"
    return found | {"cost": found["wall" if cuda else "cpu"], "limit": limit, "device": device}


def make_model(cuda):
    import torch
    from transformers import AutoModelForCausalLM, Qwen3Config

    sizes = {"vocab_size": 32000, "hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 10, "num_attention_heads": 8,
             "num_key_value_heads": 4, "head_dim": 32, "tie_word_embeddings": True}  # fmt: skip
    if cuda:  # Qwen3-1.7B
        sizes = {"vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28, "num_attention_heads": 16,
                 "num_key_value_heads": 8, "head_dim": 128, "tie_word_embeddings": True}  # fmt: skip
    torch.manual_seed(0)
    with torch.device("cuda" if cuda else "cpu"):
        config = Qwen3Config(**sizes, max_position_embeddings=16384, eos_token_id=None, pad_token_id=0, bos_token_id=None)
        return AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16 if cuda else torch.float32).eval()


def load(name):
    import common

    model = common.load_model(name)[0]
    model.generation_config.update(eos_token_id=None, pad_token_id=0)  # lengths are imposed
    return model


def bare_forward(model, rows):
    """Tokens per CPU second of the model alone, one token a row."""
    import torch

    model.set_attn_implementation("sdpa")
    ids = torch.arange(rows)[:, None] + 10
    with torch.inference_mode():
        model(input_ids=ids, use_cache=False)
        clock = Clock(model)
        for _ in range(8):
            model(input_ids=ids, use_cache=False)
    return 8 * rows / clock.stop()["cpu"]


def make_work(scale, vocab, count=16, length=None):
    """[(prompt, answer length)]: prompts of 20 to 200 tokens; log-normal lengths, alike within a problem."""
    rng = np.random.default_rng(0)
    prompts = [rng.integers(10, vocab, size).tolist() for size in rng.integers(20, 200, count)]
    noise = 0.6 * rng.normal(size=(count, 1)) + 0.8 * rng.normal(size=(count, 16))
    lengths = np.clip(200 * scale * np.exp(0.85 * noise), 4, 1500 * scale).astype(int)
    lengths = np.full_like(lengths, length) if length else lengths
    return [(prompt, int(length)) for prompt, row in zip(prompts, lengths, strict=True) for length in row]


def memory(cuda):
    import torch

    return torch.cuda.max_memory_allocated() if cuda else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def limit_of(model, work, steps):
    """Seconds to read the weights in every step and each token's keys and values as often as they are needed."""
    import torch

    config = model.config
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    token = 2 * config.num_hidden_layers * config.num_key_value_heads * head * model.dtype.itemsize
    weights = sum(x.numel() * x.element_size() for x in model.parameters())
    read = sum((len(prompt) + (length + 1) / 2) * (length + 1) for prompt, length in work) * token + steps * weights
    x = torch.empty(1 << (30 if model.device.type == "cuda" else 28), dtype=torch.uint8, device=model.device)
    y, best = torch.empty_like(x), float("inf")
    for _ in range(8):
        synchronize(model)
        begin = time.perf_counter()
        y.copy_(x)
        synchronize(model)
        best = min(best, time.perf_counter() - begin)
    return read / (2 * x.numel() / best)


def synchronize(model):
    import torch

    if model.device.type == "cuda":
        torch.cuda.synchronize()


class Clock:
    def __init__(self, model):
        self.model = model
        synchronize(model)
        self.begin = time.perf_counter(), time.process_time()

    def stop(self, **more):
        synchronize(self.model)
        return {"wall": time.perf_counter() - self.begin[0], "cpu": time.process_time() - self.begin[1], **more}


PLAIN = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "repetition_penalty": 1.0, "stop_ids": []}


def by_ours(model, work, slots, keep):
    generate = importlib.import_module("01_generate")
    if not keep:
        generate.token_stats = lambda logits, tokens: logits.new_zeros(len(logits), 12)
    layers = [model.config.num_hidden_layers - 1, model.config.num_hidden_layers] if keep else []
    job = lambda i, prompt, length: {"problem": i // 16, "sample": i % 16, "prompt": prompt, "limit": length, "key": i << 32}
    jobs = [job(i, *row) for i, row in enumerate(work)]
    for part in ([jobs[0] | {"limit": 4}], jobs):  # the first to warm up
        clock = Clock(model)
        engine = generate.Engine(model, layers, PLAIN, 16, slots, 200, max(length for _, length in work))
        steps, step = [], engine.step
        engine.step = lambda steps=steps, step=step: (steps.append(1), step())[1]
        made = sum(len(rollout["ids"]) for rollout in engine.run(deque(part)))
        found = clock.stop(steps=len(steps), batch=slots)
        engine.close()
    assert made == sum(length for _, length in work)
    return found


def by_generate(model, work, slots, keep):
    """Fixed batches of whole prompts; rows are done when their length is reached, as by a stop token."""
    import torch
    from transformers import LogitsProcessorList, StoppingCriteriaList

    generate = importlib.import_module("01_generate")
    newest, stats = {}, torch.zeros(0)
    generate.watch_layers(
        model,
        [model.config.num_hidden_layers - 1, model.config.num_hidden_layers],
        lambda column, out: newest.__setitem__(column, out[:, -1].clone()),
    )

    def run(batch, cap):
        nonlocal stats
        width = max(len(prompt) for prompt, _ in batch)
        ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt, _ in batch], device=model.device)
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt, _ in batch], device=model.device)
        lengths = torch.tensor([min(length, cap) for _, length in batch], device=model.device)
        stats = torch.zeros(int(lengths.max()), len(batch), 12, device=model.device, dtype=torch.float16)

        def keep_stats(ids, logits):
            stats[ids.shape[1] - width] = generate.token_stats(logits, logits.argmax(-1)).half()
            return logits

        done = lambda ids, _: ids.shape[1] - width >= lengths
        warp = {name: PLAIN[name] for name in ("temperature", "top_k", "top_p")}
        model.generate(ids, attention_mask=mask, do_sample=True, **warp, max_new_tokens=int(lengths.max()), pad_token_id=0,
                       logits_processor=LogitsProcessorList([keep_stats]), stopping_criteria=StoppingCriteriaList([done]))  # fmt: skip
        return int(lengths.max())

    def cut(rows):
        return [work[i : i + rows] for i in range(0, len(work), rows)]

    guess = {}
    for rows in (16, 64, 256):
        run(cut(rows)[0], 4)
        clock = Clock(model)
        steps = run(cut(rows)[0], 32)
        found = clock.stop()
        guess[rows] = found["cpu" if model.device.type == "cpu" else "wall"] / steps * sum(max(n for _, n in batch) for batch in cut(rows))
    for rows in sorted(guess, key=guess.get):
        try:
            clock = Clock(model)
            return clock.stop(steps=sum(run(batch, 10**9) for batch in cut(rows)), batch=rows)
        except torch.OutOfMemoryError:
            print(f"generate: {rows} rows of this length do not fit", file=sys.stderr)


def by_generate_batch(model, work, slots, keep):
    from transformers import ContinuousBatchingConfig, GenerationConfig

    model.set_attn_implementation("sdpa")
    blocks = sum(-(-(len(prompt) + length) // 256) + 1 for prompt, length in sorted(work, key=lambda x: -x[1])[:slots])
    size = ContinuousBatchingConfig(max_requests_per_batch=slots, num_blocks=None if model.device.type == "cuda" else blocks, max_batch_tokens=512)
    settings = GenerationConfig(do_sample=True, temperature=PLAIN["temperature"], top_k=PLAIN["top_k"], top_p=PLAIN["top_p"], eos_token_id=-1, max_new_tokens=2048)
    for part in (work[:1], work):  # the first to warm up
        clock = Clock(model)
        with model.continuous_batching_context_manager(settings, continuous_batching_config=size) as manager:
            for prompt, length in part:
                manager.add_request(prompt, max_new_tokens=length if part is work else 4)
            made = 0
            for _ in part:
                made += len(manager.get_result(timeout=600).generated_tokens)
        found = clock.stop(steps=0, batch=slots)
    assert made == sum(length for _, length in work), made
    return found


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[1])]
    main()
