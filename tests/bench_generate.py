"""How fast 01_generate.py makes rollouts, beside transformers' `generate` and `generate_batch` on the same.

    python tests/bench.py generate                 # CPU: about 20M parameters; GPU: the shape of Qwen3-1.7B
    python tests/bench.py generate --scale 0.1     # a tenth of the lengths, for a look
    python tests/bench.py generate --model FOLDER --top-p 0.9 --prompts 6 --length 200 --slots 96 --threads 1

Work: 16 rollouts a prompt, of long-tailed lengths or all --length, imposed on every side. Each side runs
in a process of its own, `--rounds` times; the best counts. On a CPU ours takes three turns with and without
keeping vectors and statistics, which differ by less than the noise. `generate` runs in the fixed batch that a
pilot of 32 steps finds fastest, with hooks and statistics as good as ours; `generate_batch` (continuous
batching) keeps neither. On a CPU speed is by processor time, which neighbours disturb less. On a GPU a step of
256 rows of 2,048 tokens (fewer where they do not fit) is measured, too, beside the time to read the weights
and these rows' keys and values at the speed of a large copy.
"""

import argparse
import importlib
import json
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM, ContinuousBatchingConfig, GenerationConfig, Qwen3Config

import common

SIDES = ("ours", "ours, nothing kept", "generate", "generate_batch")
WARP = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
OURS = {"repetition_penalty": 1.0, "stop_ids": []}  # what our engine takes beside these
CUDA = torch.cuda.is_available()


def main(argv):
    parser = common.argument_parser(__doc__)
    add = parser.add_argument
    scale = "of the lengths: 1 is a median of 200 tokens (GPU: 4 times; default: %(default)s)"
    add("--scale", type=float, default=0.1 if CUDA else 0.5, help=scale)
    add("--rounds", type=int, default=1)
    add("--slots", type=int, default=256 if CUDA else 64, help="default 64 on a CPU, 256 on a GPU")
    add("--threads", type=int, help="of a CPU; default: what torch takes")
    add("--model", help="a folder or a Hub id, instead of random weights")
    add("--dtype", default="auto", help="number type of that model's weights, as 01 takes it")
    add("--prompts", type=int, default=16)
    add("--length", type=int, help="of every rollout, in tokens")
    add("--run", help="take prompts and lengths of this run, which has 16 rollouts a problem")
    add("--temperature", type=float, default=1.0)
    add("--top-k", type=int, default=0)
    add("--top-p", type=float, default=1.0)
    add("--sides", nargs="+", choices=SIDES, default=SIDES, metavar="SIDE", help="only these (default all)")
    add("--side", choices=SIDES, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.side:
        return print(json.dumps(measure(args)))
    turns = (*SIDES[:2] * (1 if CUDA else 3), *SIDES[2:])
    wanted = [side for _ in range(args.rounds) for side in turns if side in args.sides]
    found = [run_side(side, argv) for side in wanted]
    report([side for side in found if side])


def run_side(side, given):
    command = [sys.executable, str(Path(__file__).with_name("bench.py")), "generate", *given, "--side", side]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        return print(f"{side}: failed, so the table is without it", file=sys.stderr)
    last = done.stdout.strip().splitlines()[-1]
    print(f"{side}: {last}", file=sys.stderr)
    return json.loads(last)


def report(found):
    best = {x["side"]: x for x in sorted(found, key=lambda x: -x["cost"])}
    rows = []
    for side, x in best.items():
        speeds = [f"{x['tokens'] / x[clock]:.0f}" for clock in ("wall", "cpu")]
        rows.append([side, *speeds, f"{x['wall']:.1f}", x["batch"]])
    print(common.table(["side", "tokens/s", "tok/CPU-s", "seconds", "batch"], rows))
    if "ours" in best:
        ours = best["ours"]
        ratios = {side: round(x["cost"] / ours["cost"], 3) for side, x in best.items() if side != "ours"}
        print(json.dumps({"times as fast as": ratios, "step": ours.get("step"), "device": ours["device"]}))


# ---- One side


def measure(args):
    if args.threads:
        torch.set_num_threads(args.threads)
    model, tokenizer = common.load_model(args.model, dtype=args.dtype) if args.model else (make_model(), None)
    model.generation_config.update(eos_token_id=None, pad_token_id=0)  # lengths are imposed
    if args.run:
        work = work_of_run(Path(args.run), tokenizer, args.prompts)
    else:
        work = make_work(args.scale * (4 if CUDA else 1), model.config.vocab_size, args.prompts, args.length)
    WARP.update(temperature=args.temperature, top_k=args.top_k, top_p=args.top_p)
    side = {"generate": by_generate, "generate_batch": by_generate_batch}.get(args.side, by_ours)
    found = side(model, work, args.slots, args.side == "ours")
    if args.side == "ours" and CUDA:
        found["step"] = measure_step(model, rows=256, context=2048)
    return found | {
        "side": args.side, "tokens": sum(length for _, length in work),
        "cost": found["wall" if CUDA else "cpu"], "device": common.device_name(model.device),
    }  # fmt: skip


def make_model():
    small = {"vocab_size": 32000, "hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 10,
             "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 32}  # fmt: skip
    qwen3 = {"vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28,
             "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128}  # fmt: skip
    torch.manual_seed(0)
    more = {"tie_word_embeddings": True, "max_position_embeddings": 16384, "bos_token_id": None}
    config = Qwen3Config(**(qwen3 if CUDA else small), **more, eos_token_id=None, pad_token_id=0)
    with torch.device("cuda" if CUDA else "cpu"):
        dtype = torch.bfloat16 if CUDA else torch.float32
        return AutoModelForCausalLM.from_config(config, dtype=dtype).eval()


def make_work(scale, vocab, count, length):
    """[(prompt, answer length)]: prompts of 20 to 200 tokens; log-normal lengths, alike within a problem."""
    rng = np.random.default_rng(0)
    prompts = [rng.integers(10, vocab, size).tolist() for size in rng.integers(20, 200, count)]
    noise = 0.6 * rng.normal(size=(count, 1)) + 0.8 * rng.normal(size=(count, 16))
    lengths = np.clip(200 * scale * np.exp(0.85 * noise), 4, 1500 * scale).astype(int)
    return [(prompt, length or int(own)) for prompt, row in zip(prompts, lengths) for own in row]


def work_of_run(run, tokenizer, count):
    """As make_work, of the first problems of a run."""
    problems = {row["id"]: row for row in common.read_jsonl(run / "problems.jsonl")[:count]}
    prompts = {name: list(common.encode_prompt(tokenizer, problem)) for name, problem in problems.items()}
    rows = common.each_rollout(run)
    return [(prompts[row["id"]], row["n_tokens"]) for row in rows if row["id"] in prompts]


def measure_step(model, rows, context, steps=40):
    """One decode step of rows that have so many tokens each, sampled by top-k 20 and top-p .95."""
    generate = importlib.import_module("01_generate")
    sampling = OURS | {"temperature": 0.6, "top_k": 20, "top_p": 0.95}
    n_layers = model.config.num_hidden_layers
    prompt = 100
    engine = generate.Engine(model, [n_layers - 1, n_layers], sampling, 16, rows, prompt, context)
    for i in range(rows):
        problem = i // 16
        job = {"id": problem, "sample": i % 16, "prompt": [10 + problem] * prompt}
        job |= {"limit": context, "key": i << 32}
        before = [10 + (11 * i + 3 * t) % 900 for t in range(context - prompt - 2 * steps)]
        engine.queue.append(generate.BatchRow(job, before=before))
    with torch.inference_mode():
        engine.admit()  # as many as fit
        run_steps(engine, 8)  # the check of the kernel, and the capture
        begin = clock()
        run_steps(engine, steps)
        wall = since(begin)["wall"] / steps
    read = sum(x.nbytes for x in model.parameters())
    read += sum(row.end for row in engine.rows) * bytes_of_token(model)
    engine.close()
    return {
        "rows": len(engine.rows), "ms a step": round(1000 * wall, 2),
        "ms at the memory's speed": round(1000 * read / memory_speed(model.device), 2),
    }  # fmt: skip


def run_steps(engine, count):
    for _ in range(count):
        engine.extend()
        engine.collect(*engine.step())


def bytes_of_token(model):
    """Of its keys and values."""
    config = model.config
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return 2 * config.num_hidden_layers * config.num_key_value_heads * head * model.dtype.itemsize


def memory_speed(device):
    """Bytes a second that a large copy reads and writes."""
    x = torch.empty(1 << 30, dtype=torch.uint8, device=device)
    y = torch.empty_like(x)
    times = []
    for _ in range(8):
        begin = clock()
        y.copy_(x)
        times.append(since(begin)["wall"])
    return 2 * x.numel() / min(times)


def clock():
    if CUDA:
        torch.cuda.synchronize()
    return np.array([time.perf_counter(), time.process_time()])


def since(begin):
    return dict(zip(("wall", "cpu"), (clock() - begin).tolist()))


def no_stats(logits, tokens, likeliest=None):
    return logits.new_zeros(len(logits), 12)


def by_ours(model, work, slots, keep):
    generate = importlib.import_module("01_generate")
    if not keep:
        generate.token_stats = no_stats
    layers = [model.config.num_hidden_layers - 1, model.config.num_hidden_layers] if keep else []
    jobs = [{"id": i // 16, "sample": i % 16, "prompt": prompt, "limit": length, "key": i << 32}
            for i, (prompt, length) in enumerate(work)]  # fmt: skip
    longest = [max(len(prompt) for prompt, _ in work), max(length for _, length in work)]
    for part in ([jobs[0] | {"limit": 1}], jobs):  # the first to warm up
        begin = clock()
        engine = generate.Engine(model, layers, WARP | OURS, 16, slots, *longest)
        made = sum(len(rollout["ids"]) for rollout in engine.run(deque(map(generate.BatchRow, part))))
        found = since(begin) | {"batch": slots}
    assert made == sum(length for _, length in work)
    return found


def by_generate(model, work, slots, keep):
    """Fixed batches of whole prompts, as large as a pilot finds fastest."""
    newest = {}
    n_layers = model.config.num_hidden_layers

    def keep_vector(column, out):
        newest[column] = out[:, -1].clone()

    common.watch_layers(model, [n_layers - 1, n_layers], keep_vector)
    guess = {}
    for rows in (16, 64, 256):
        batches = [work[i : i + rows] for i in range(0, len(work), rows)]
        run_batch(model, batches[0], 4)
        begin = clock()
        steps = run_batch(model, batches[0], 32)
        spent = since(begin)["wall" if CUDA else "cpu"]
        guess[rows] = spent / steps * sum(max(length for _, length in batch) for batch in batches)
    for rows in sorted(guess, key=guess.get):
        try:
            begin = clock()
            for batch in range(0, len(work), rows):
                run_batch(model, work[batch : batch + rows])
            return since(begin) | {"batch": rows}
        except torch.OutOfMemoryError:
            print(f"generate: {rows} rows of this length do not fit", file=sys.stderr)


def run_batch(model, batch, most=10**9):
    """The steps of a batch; rows are done when their length is reached, as by a stop token."""
    stats = {}
    width = max(len(prompt) for prompt, _ in batch)
    pads = [width - len(prompt) for prompt, _ in batch]
    ids = [[0] * pad + prompt for pad, (prompt, _) in zip(pads, batch)]
    mask = [[0] * pad + [1] * (width - pad) for pad in pads]
    ids, mask = torch.tensor([ids, mask], device=model.device)
    lengths = torch.tensor([min(length, most) for _, length in batch], device=model.device)

    def keep_stats(ids, logits):
        stats[ids.shape[1] - width] = common.token_stats(logits, logits.argmax(-1)).half()
        return logits

    def done(ids, *_, **__):
        return ids.shape[1] - width >= lengths

    model.generate(ids, attention_mask=mask, do_sample=True, max_new_tokens=int(lengths.max()), **WARP,
                   stopping_criteria=[done], pad_token_id=0, logits_processor=[keep_stats])  # fmt: skip
    return int(lengths.max())


def by_generate_batch(model, work, slots, keep):
    model.set_attn_implementation("sdpa")
    longest = sorted((len(prompt) + length for prompt, length in work), reverse=True)[:slots]
    blocks = None if CUDA else sum(-(-each // 256) + 1 for each in longest)
    size = ContinuousBatchingConfig(max_requests_per_batch=slots, num_blocks=blocks, max_batch_tokens=512)
    settings = GenerationConfig(do_sample=True, eos_token_id=-1, max_new_tokens=2048, **WARP)
    for part in (work[:1], work):  # the first to warm up
        begin = clock()
        options = {"continuous_batching_config": size}
        with model.continuous_batching_context_manager(settings, **options) as manager:
            for prompt, length in part:
                manager.add_request(prompt, max_new_tokens=length if part is work else 4)
            made = sum(len(manager.get_result(timeout=600).generated_tokens) for _ in part)
        found = since(begin) | {"batch": slots}
    assert made == sum(length for _, length in work), made
    return found
