"""Train a scorer on checked rollouts: hidden.pt and labels.jsonl of one or more run folders -> scorer.pt.

    python 03_train_scorer.py runs/model/humaneval/32 -o scorer.pt
    python 03_train_scorer.py runs/model/humaneval/32 --seed 32 42 52 -o 'scorers/scatr@{seed}.pt'

A random search over small MLPs as in the paper: 100 configurations, problems split 75/25, the lowest validation loss wins.
Several run folders are one mixed calibration set; a problem that is in two of them (same data set) stays on one side of
the split. Rollouts with the label null are counted and left out. scorer.pt rebuilds itself (common.load_scorer) and holds
the whole trial table. The same seed on the same kind of device gives the same scorer, whatever the number of processes.
"""

import argparse
import hashlib
import itertools
import json
import math
import os
import random
import statistics
import sys
import time
import zipfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import common

# ---------------------------------------------------------------------------------------------------------------------
# The search space

EPOCHS, PATIENCE, PLATEAU, CLIP = 100, 10, 3, 1.0
RUNGS = (3, 9)  # --search halving: after these epochs the worse half (by learning rate) is dropped
SMALL = [[512, 256], [512, 256, 128], [1024, 512], [1024, 512, 256]]
LARGE = [[1024, 512], [2048, 1024], [1024, 512, 256], [2048, 1024, 512]]
RATES = [1e-4, 5e-4, 1e-3]
SPACES = (  # up to this many training rollouts: hidden, lr, dropout, input_dropout, batch_size, weight_decay, batch_norm
    (1000, (SMALL, RATES, [0.5, 0.6, 0.7], [0.2, 0.3, 0.4], [16, 32], [1e-3, 5e-3, 1e-2], [False])),
    (5000, (SMALL, RATES, [0.4, 0.5, 0.6], [0.1, 0.2, 0.3], [32, 64, 128], [1e-4, 1e-3, 5e-3], [False, True])),
    (math.inf, (LARGE, RATES, [0.3, 0.4, 0.5], [0.0, 0.1, 0.2], [64, 128, 256], [1e-5, 1e-4, 1e-3], [False, True])),
)
KNOBS = ("hidden", "lr", "dropout", "input_dropout", "batch_size", "weight_decay", "batch_norm")


def draw_configs(n, count, seed, paper_space=False):
    """`count` different configurations for n training rollouts, numbered in the order drawn."""
    choices = next(choices for below, choices in SPACES if n < below)
    if paper_space:
        choices = (SMALL, *choices[1:])
    grid = [dict(zip(KNOBS, values, strict=True)) for values in itertools.product(*choices)]
    random.Random(seed).shuffle(grid)
    return [{"number": number, **config} for number, config in enumerate(grid[:count])]


# ---------------------------------------------------------------------------------------------------------------------
# What it learns from


@dataclass
class Data:
    """The labelled rollouts of the calibration runs; n of them of P problems."""

    x: object  # float32 [n, d], or [n, positions, d]
    y: object  # float32 [n], 0 or 1
    problem: object  # int64 [n], 0 .. P-1
    keys: list  # (run, id, sample)


def load_data(runs, vector):
    import torch

    check_same_model(runs)
    xs, ys, problems, keys, unjudged = [], [], [], [], 0
    for run in runs:
        run_keys, fetch = common.read_inputs(run, vector)
        labels = [row["label"] for row in common.read_labels(run, run_keys)]
        rows = [i for i, label in enumerate(labels) if label in (0, 1)]
        unjudged += len(labels) - len(rows)
        xs.append(fetch(rows))
        ys += [float(labels[i]) for i in rows]
        dataset = common.read_meta(run).get("dataset", str(run))
        problems += [(str(dataset), run_keys[i][0]) for i in rows]
        keys += [(str(run), *run_keys[i]) for i in rows]
    if len({x.shape[1:] for x in xs}) > 1:
        common.die(f"{', '.join(map(str, runs))}: vectors of different widths {[tuple(x.shape[1:]) for x in xs]}")
    if unjudged:
        print(f"{unjudged} of {unjudged + len(keys)} rollouts could not be judged (label null) and are left out")
    numbers = {problem: number for number, problem in enumerate(dict.fromkeys(problems))}
    data = Data(torch.cat(xs), torch.tensor(ys), torch.tensor([numbers[p] for p in problems]), keys)
    check_data(data, runs)
    return data


def check_same_model(runs):
    metas = [common.read_meta(run) for run in runs]
    for run, meta in zip(runs, metas, strict=True):
        first, this = [(common.model_name(m), m["n_layers"]) for m in (metas[0], meta)]
        if first != this:
            common.die(
                f"{runs[0]} is of the model {first[0]!r} ({first[1]} layers), {run} of {this[0]!r} ({this[1]} layers); "
                "a scorer is for one model"
            )


def check_data(data, runs):
    where = ", ".join(map(str, runs))
    if not len(data.y) or data.y.min() == data.y.max():
        common.die(f"{where}: {len(data.y)} labelled rollouts, {int(data.y.sum())} of them right; both kinds are needed to train")
    count = len(data.problem.unique())
    if count < 4:
        common.die(f"{where}: labelled rollouts of {count} problem(s); at least 4 are needed to train and validate")
    finite = data.x.isfinite().flatten(1).all(1)
    if not finite.all():
        bad = [data.keys[i] for i in (~finite).nonzero().flatten()[:3].tolist()]
        common.die(f"{where}: {int((~finite).sum())} vectors are not finite (NaN or Inf), such as {bad}; generate them again")


def split_by_problem(data, seed):
    """(training rows, validation rows): 75 % of the problems and the rest; drawn again until training has both labels."""
    problems = data.problem.unique().tolist()
    rng = random.Random(f"split {seed}")
    while True:
        rng.shuffle(problems)
        training = set(problems[: round(0.75 * len(problems))])
        rows = [[i for i, p in enumerate(data.problem.tolist()) if (p in training) == side] for side in (True, False)]
        if len(set(data.y[rows[0]].tolist())) == 2:
            return rows


@dataclass
class Task:
    """One search: the data of one seed, split, scaled, on its device."""

    seed: int
    x: object
    y: object
    problem: object
    train: object  # rows
    valid: object
    scale: list  # (mean, deviation) of the training part, or None: raw inputs
    pos_weight: float
    configs: list


def make_task(data, args, seed, device):
    import torch

    train, valid = split_by_problem(data, seed)
    scale = fit_scale(data.x[train]) if args.standardise else None
    warn_of_massive_dimensions(data.x[train], args)
    right = float(data.y[train].sum())
    x = common.standardise(data.x, scale)
    return Task(
        seed, x.to(device), data.y.to(device), data.problem.to(device), torch.tensor(train), torch.tensor(valid), scale,
        (len(train) - right) / right, draw_configs(len(train), args.configs, seed, args.paper_space),
    )  # fmt: skip


def fit_scale(x):
    """(mean, deviation) of each dimension over the rows that are there; constant dimensions get deviation 1."""
    there = (x != 0).any(-1, keepdim=True).double() if x.ndim == 3 else x.new_ones(len(x), 1).double()
    count = there.sum(0).clamp(min=1)
    mean = (x * there).sum(0) / count
    deviation = (((x - mean) * there).square().sum(0) / count).sqrt()
    deviation[deviation <= 1e-6 * (1 + mean.abs())] = 1.0
    return [mean.float(), deviation.float()]


def warn_of_massive_dimensions(x, args, limit=50):
    size = x.flatten(0, -2).square().mean(0).sqrt()
    massive = int((size > limit * size.median()).sum())
    if massive and not args.standardise:
        print(
            f"warning: {massive} of {len(size)} dimensions are over {limit} times larger than the median one; "
            "they can drive a raw MLP to chance: compare with --standardise"
        )


# ---------------------------------------------------------------------------------------------------------------------
# Objectives: logits [G, B], labels [G, B], problems [G, B], pos_weight [G, 1] -> [G]


def bce(logits, y, problem, pos_weight):
    from torch.nn.functional import softplus

    return (softplus(logits) * (1 - y) + pos_weight * softplus(-logits) * y).mean(-1)


LOSSES = {"bce": bce}


# ---------------------------------------------------------------------------------------------------------------------
# Training: the trials of one shape side by side


class Stack:
    """G MLPs of one shape with flat parameters, gradients and Adam moments [G, P]; on a CPU G is 1 (stacks leave its cache).

    The backward pass is written out: it saves autograd's bookkeeping, a fifth of a small model's step.
    """

    def __init__(self, configs, shape, seeds, device):
        import torch

        self.configs, self.device = configs, device
        modules = []
        for config, seed in zip(configs, seeds, strict=True):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                modules.append(common.build_scorer("mlp", config, shape))
        self.template = modules[0]
        flat = torch.stack([torch.nn.utils.parameters_to_vector(m.parameters()).detach() for m in modules]).to(device)
        self.rows = {"flat": flat, "m": torch.zeros_like(flat), "v": torch.zeros_like(flat)}
        for name, buffer in self.template.named_buffers():
            self.rows[name] = torch.stack([buffer] * len(configs)).to(device)
        self.rates = [config["lr"] for config in configs]
        self.generators = [torch.Generator(device).manual_seed(seed) for seed in seeds]
        self.steps = [torch.zeros((), device=device) for _ in configs]
        self._make_views()

    def _make_views(self):
        import torch

        self.grad = torch.zeros_like(self.rows["flat"])
        cuts = [round(256 * c["input_dropout"]) for c in self.configs], [round(256 * c["dropout"]) for c in self.configs]
        self.cuts = [torch.tensor(cut, device=self.device, dtype=torch.uint8)[:, None, None] for cut in cuts]
        self.scales = [256 / (256 - cut.float()) for cut in self.cuts]
        self.views, self.slopes, start = {}, {}, 0
        for name, parameter in self.template.named_parameters():
            part = slice(start, start := start + parameter.numel())
            self.views[name] = self.rows["flat"][:, part].unflatten(1, parameter.shape)
            self.slopes[name] = self.grad[:, part].unflatten(1, parameter.shape)
        self.linears = [name[:-7] for name, view in self.views.items() if name.endswith(".weight") and view.ndim == 3]
        self.norms = [str(int(name) + 1) if f"{int(name) + 1}.weight" in self.views else None for name in self.linears]

    def select(self, keep):
        """Only these trials stay."""
        self.rows = {name: tensor[keep] for name, tensor in self.rows.items()}
        for name in ("configs", "rates", "generators", "steps"):
            setattr(self, name, [getattr(self, name)[g] for g in keep])
        self._make_views()

    def state(self, g):
        """The weights of one trial as its module's state dict."""
        names = [*self.views, *(name for name, _ in self.template.named_buffers())]
        return {name: (self.views.get(name, self.rows.get(name)))[g].clone() for name in names}

    def logits(self, x):
        """x [m, d] or [G, m, d] -> [G, m], without dropout, with the running statistics."""
        for name, norm in zip(self.linears, self.norms, strict=True):
            x = x @ self.views[f"{name}.weight"].mT + self.views[f"{name}.bias"][:, None]
            if norm:
                mean, variance = self.rows[f"{norm}.running_mean"], self.rows[f"{norm}.running_var"]
                x = (x - mean[:, None]) * (variance + 1e-5).rsqrt()[:, None]
                x = x * self.views[f"{norm}.weight"][:, None] + self.views[f"{norm}.bias"][:, None]
            if name != self.linears[-1]:
                x = x.relu_()
        return x.squeeze(-1)

    def gradient(self, x, loss):
        """One pass over a batch x [G, B, d] (overwritten): the slopes of loss(logits [G, B]) of every parameter."""
        import torch

        sizes = [self.views[f"{name}.weight"].shape[-1] for name in self.linears]
        noise = torch.stack([random_bytes(x.shape[1] * sum(sizes), g) for g in self.generators])
        noise = noise.view(len(x), x.shape[1], -1).split(sizes, -1)
        inputs, lives, norms = [x.mul_(noise[0] >= self.cuts[0]).mul_(self.scales[0])], [], []
        for i, (name, norm) in enumerate(zip(self.linears, self.norms, strict=True)):
            bias = self.views[f"{name}.bias"][:, None]
            z = torch.baddbmm(bias, inputs[-1], self.views[f"{name}.weight"].mT)
            if i == len(sizes) - 1:
                break
            z, kept = self._normalise(z, norm)
            norms.append(kept)
            lives.append((z > 0).logical_and_(noise[i + 1] >= self.cuts[1]))  # ReLU and dropout in one mask
            inputs.append(z.mul_(lives[-1]).mul_(self.scales[1]))
        logits = z.squeeze(-1).requires_grad_()
        (slope,) = torch.autograd.grad(loss(logits).sum(), logits)
        self._backward(slope[..., None], inputs, lives, norms)

    def _backward(self, slope, inputs, lives, norms):
        import torch

        for i in range(len(self.linears) - 1, -1, -1):
            name = self.linears[i]
            self.slopes[f"{name}.bias"].copy_(slope.sum(1))
            torch.bmm(slope.mT, inputs[i], out=self.slopes[f"{name}.weight"])
            if i:
                slope = torch.bmm(slope, self.views[f"{name}.weight"]).mul_(lives[i - 1]).mul_(self.scales[1])
                slope = self._normalise_backward(slope, norms[i - 1], self.norms[i - 1])

    def _normalise(self, z, norm):
        """Batch normalisation [G, B, h] with the batch's own statistics; also moves the running ones by a tenth."""
        if norm is None:
            return z, None
        variance, mean = z.var(1, correction=0, keepdim=True), z.mean(1, keepdim=True)
        self.rows[f"{norm}.running_mean"].lerp_(mean[:, 0], 0.1)
        self.rows[f"{norm}.running_var"].lerp_(variance[:, 0] * (z.shape[1] / (z.shape[1] - 1)), 0.1)
        scale = (variance + 1e-5).rsqrt()
        unit = (z - mean).mul_(scale)
        return unit * self.views[f"{norm}.weight"][:, None] + self.views[f"{norm}.bias"][:, None], (unit, scale)

    def _normalise_backward(self, slope, kept, norm):
        if norm is None:
            return slope
        unit, scale = kept
        self.slopes[f"{norm}.bias"].copy_(slope.sum(1))
        self.slopes[f"{norm}.weight"].copy_((slope * unit).sum(1))
        slope = slope * self.views[f"{norm}.weight"][:, None]
        return (slope - slope.mean(1, keepdim=True) - unit * (slope * unit).mean(1, keepdim=True)).mul_(scale)

    def update(self):
        """Clip each trial's gradient to norm 1 and take Adam's step with its own rate and weight decay; no synchronisation."""
        from torch.optim.adam import adam

        norm = self.grad.norm(dim=1, keepdim=True)
        self.grad.mul_((CLIP / (norm + 1e-6)).clamp_(max=1.0))
        for g, config in enumerate(self.configs):
            adam(
                [self.rows["flat"][g]], [self.grad[g]], [self.rows["m"][g]], [self.rows["v"][g]], [], [self.steps[g]],
                fused=True, amsgrad=False, beta1=0.9, beta2=0.999, lr=self.rates[g],
                weight_decay=config["weight_decay"], eps=1e-8, maximize=False,
            )  # fmt: skip


def random_bytes(count, generator):
    """uint8 [count]: eight dropout decisions for one random number, ten times cheaper than Bernoulli draws."""
    import torch

    words = torch.empty((count + 7) // 8, dtype=torch.int64, device=generator.device)
    return words.random_(-(2**63), 2**63 - 1, generator=generator).view(torch.uint8)[:count]


def batches(n, size):
    """(start, end) of each batch; a last batch of one row joins the one before (batch norm needs two)."""
    starts = list(range(0, n, size))
    if len(starts) > 1 and n - starts[-1] == 1:
        starts.pop()
    return list(zip(starts, [*starts[1:], n], strict=True))


def trial_seed(task, config):
    return task.seed * 1_000_003 + config["number"]


def train(task, configs, loss, seen=None):
    """Train configurations of one shape side by side; a result per configuration, in their order.

    seen: {(rate, rung): validation losses so far} for `--search halving`; None trains every one to its own end.
    """
    import torch

    started, device = time.time(), task.x.device
    seeds = [trial_seed(task, config) for config in configs]
    stack = Stack(configs, tuple(task.x.shape[1:]), seeds, device)
    orders = [torch.Generator().manual_seed(seed) for seed in seeds]
    pos_weight = torch.full((1, 1), task.pos_weight, device=device)
    records = [{"number": c["number"], "best": math.inf, "best_epoch": 0, "plateau": math.inf, "bad": 0, "dropped": False} for c in configs]
    live, train_rows, valid = list(range(len(configs))), task.train, task.valid.to(device)
    x_valid, y_valid, problem_valid = task.x[valid], task.y[valid][None], task.problem[valid][None]
    for epoch in range(1, EPOCHS + 1):
        order = torch.stack([train_rows[torch.randperm(len(train_rows), generator=orders[g])] for g in live]).to(device)
        for start, end in batches(len(train_rows), configs[0]["batch_size"]):
            rows = order[:, start:end]
            stack.gradient(task.x[rows], partial(loss, y=task.y[rows], problem=task.problem[rows], pos_weight=pos_weight))
            stack.update()
        losses = loss(stack.logits(x_valid), y_valid, problem_valid, pos_weight).tolist()
        keep = []
        for place, (g, value) in enumerate(zip(live, losses, strict=True)):
            if goes_on(records[g], value, epoch, stack, place, configs[g], seen):
                keep.append(place)
        live = [live[place] for place in keep]
        if not live:
            break
        if len(keep) < len(losses):
            stack.select(keep)
    for record in records:
        record["seconds"] = (time.time() - started) / len(records)
    return records


def goes_on(record, value, epoch, stack, place, config, seen):
    """Write down one epoch of one trial: keep its weights if best, halve its rate on a plateau; False ends it."""
    record["epochs"] = epoch
    if value < record["best"]:
        record.update(best=value, best_epoch=epoch, state=stack.state(place))
    if value < record["plateau"] * (1 - 1e-4):  # the rule of torch's ReduceLROnPlateau
        record.update(plateau=value, bad=0)
    else:
        record["bad"] += 1
        if record["bad"] > PLATEAU:
            stack.rates[place] *= 0.5
            record["bad"] = 0
    if seen is not None and epoch in RUNGS:
        so_far = seen.setdefault((config["lr"], epoch), [])
        so_far.append(record["best"])
        record["dropped"] = sorted(so_far).index(record["best"]) >= (len(so_far) + 1) // 2
    return math.isfinite(value) and epoch - record["best_epoch"] < PATIENCE and not record["dropped"]


# ---------------------------------------------------------------------------------------------------------------------
# The search


def search(tasks, args):
    """Per task its trials in the order of their numbers; only the best `--top` keep their weights."""
    from tqdm import tqdm

    jobs = make_jobs(tasks, args)
    found = [[] for _ in tasks]
    with tqdm(total=sum(len(task.configs) for task in tasks), desc="search", unit="trial", disable=None) as bar:
        for task, records in run_jobs(jobs, tasks, args):
            found[task] += records
            bar.update(len(records))
            for record in sorted(found[task], key=lambda r: (r["best"], r["number"]))[args.top :]:
                record.pop("state", None)
    return [sorted(records, key=lambda r: r["number"]) for records in found]


def make_jobs(tasks, args):
    """[(task number, list of stacks)]: what runs one after the other in one process."""
    jobs = []
    for number, task in enumerate(tasks):
        if task.x.device.type == "cpu":
            stacks = [[config] for config in task.configs]
        else:
            shape = lambda c: (c["hidden"], c["batch_norm"], c["batch_size"])
            stacks = [list(group) for _, group in itertools.groupby(sorted(task.configs, key=shape), shape)]
            jobs.append((number, stacks))
            continue
        if args.search == "halving":  # trials of one learning rate are compared with each other, in their order
            jobs += [(number, [s for s in stacks if s[0]["lr"] == rate]) for rate in RATES]
        else:
            jobs += [(number, [stack]) for stack in stacks]
    return jobs


def run_job(tasks, args, job):
    number, stacks = job
    seen = {} if args.search == "halving" else None
    return number, [record for stack in stacks for record in train(tasks[number], stack, LOSSES[args.loss], seen)]


def run_jobs(jobs, tasks, args):
    """The results of jobs in any order. On a Linux CPU one process a core, each with one thread: results do not depend on them."""
    import torch

    torch.set_float32_matmul_precision("medium")
    workers = min(args.workers or usable_cores(), len(jobs))
    if tasks[0].x.device.type != "cpu" or sys.platform != "linux" or workers < 2:
        torch.set_num_threads(1 if tasks[0].x.device.type == "cpu" else torch.get_num_threads())
        yield from (run_job(tasks, args, job) for job in jobs)
        return
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    torch.set_num_threads(1)
    WORK.update(tasks=tasks, args=args)  # forked processes see it without a copy
    with ProcessPoolExecutor(workers, get_context("fork"), _die_with_parent) as pool:
        for future in as_completed([pool.submit(_run_job_in_worker, job) for job in jobs]):
            number, records = future.result()
            for record in records:
                record["state"] = {k: torch.from_numpy(v) for k, v in record.get("state", {}).items()}
            yield number, records


WORK = {}


def _die_with_parent():
    import ctypes

    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL: no process is left behind a killed search


def _run_job_in_worker(job):
    number, records = run_job(WORK["tasks"], WORK["args"], job)
    for record in records:
        record["state"] = {k: v.numpy() for k, v in record.get("state", {}).items()}
    return number, records


def usable_cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


# ---------------------------------------------------------------------------------------------------------------------
# The checkpoint


def make_checkpoint(data, task, records, args, fingerprint):
    meta = common.read_meta(args.runs[0])
    best = sorted((r for r in records if math.isfinite(r["best"])), key=lambda r: (r["best"], r["number"]))[: args.top]
    if not best:
        common.die(f"none of {len(records)} configurations reached a finite validation loss; try --standardise")
    shape, configs = list(task.x.shape[1:]), {config["number"]: config for config in task.configs}
    checkpoint = {
        "format": 1, "design": args.design, "vector": args.vector, "shape": shape,
        "model": common.model_name(meta), "model_given": meta["model"], "revision": meta.get("revision"),
        "layers_of_model": meta["n_layers"], "scale": task.scale, "calibration": [1.0, 0.0],
        "members": [{"config": configs[r["number"]], "state": {k: v.cpu() for k, v in r["state"].items()}} for r in best],
        "seed": task.seed, "val_loss": best[0]["best"], "pos_weight": task.pos_weight, "fingerprint": fingerprint,
        "trials": [trial_row(configs[r["number"]], r) for r in records],
        "arguments": {k: v for k, v in vars(args).items() if isinstance(v, (str, int, float, list, type(None)))},
        "runs": [str(run) for run in args.runs], "n_rollouts": len(data.y), "n_problems": len(data.problem.unique()),
    }  # fmt: skip
    return add_costs(checkpoint, data, task)


def trial_row(config, record):
    loss = record["best"] if math.isfinite(record["best"]) else None
    ended = "dropped" if record["dropped"] else "finished"
    return {**config, "val_loss": loss, "best_epoch": record["best_epoch"], "epochs": record["epochs"], "ended": ended, "seconds": record["seconds"]}


def add_costs(checkpoint, data, task):
    """Parameters, seconds and FLOPs (a backward pass counts as two forward ones) of the search, and of scoring a problem."""
    import torch

    shape, trials = tuple(checkpoint["shape"]), checkpoint["trials"]
    scorer = common.Scorer(checkpoint)
    rollouts = int(torch.bincount(data.problem.cpu()).float().median())
    x = data.x[:rollouts]
    forward = {str(t["hidden"]): flops(common.build_scorer(checkpoint["design"], t, shape), shape) for t in trials}
    passes = 3 * len(task.train) + len(task.valid)
    checkpoint["cost"] = {
        "parameters": sum(p.numel() for module in scorer.modules for p in module.parameters()),
        "search_seconds": sum(t["seconds"] for t in trials),
        "search_flops": sum(forward[str(t["hidden"])] * passes * t["epochs"] for t in trials),
        "rollouts_scored": rollouts,
        "scoring_flops": rollouts * sum(forward[str(member["config"]["hidden"])] for member in checkpoint["members"]),
        "scoring_ms": median_ms(lambda: scorer(x)),
    }
    return checkpoint


def flops(module, shape):
    """Floating-point operations of one rollout's forward pass, as torch counts them."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module.eval()(torch.zeros(1, *shape))
    return counter.get_total_flops()


def median_ms(call, warm_up=10, repeats=50):
    times = []
    for _ in range(warm_up + repeats):
        started = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - started))
    return statistics.median(times[warm_up:])


def fingerprint_of(args, seed):
    """Of all that decides the result: the arguments, the labels, and the checksums that hidden.pt itself carries."""
    facts = {k: v for k, v in vars(args).items() if k not in ("runs", "out", "seed", "workers")}
    parts = [json.dumps([seed, facts], sort_keys=True, default=str)]
    for run in args.runs:
        file = "extra.pt" if args.vector in common.EXTRA_INPUTS else "hidden.pt"
        for path in (Path(run) / "labels.jsonl", Path(run) / file):
            if not path.is_file():
                return None  # the loading that follows says what is missing
        parts.append(hashlib.sha256((Path(run) / "labels.jsonl").read_bytes()).hexdigest())
        parts.append(content_checksums(Path(run) / file))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def content_checksums(path):
    try:
        with zipfile.ZipFile(path) as archive:
            return str(sorted((item.CRC, item.file_size) for item in archive.infolist() if "/data" in item.filename))
    except zipfile.BadZipFile:
        return "damaged"


def is_finished(path, fingerprint):
    """Does this scorer.pt carry the fingerprint? Read from its archive, without loading torch."""
    if fingerprint is None or not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(fingerprint.encode() in archive.read(n) for n in archive.namelist() if n.endswith("data.pkl"))


def describe(path, checkpoint):
    best, cost = checkpoint["members"][0]["config"], checkpoint["cost"]
    rate = f"{cost['search_flops'] / 1e12:.2f} TFLOPs"
    print(
        f"{path}: validation loss {checkpoint['val_loss']:.4f}, hidden {best['hidden']}, lr {best['lr']:g}, "
        f"{cost['parameters']:,} parameters; {len(checkpoint['trials'])} trials in {cost['search_seconds']:.0f} s of computing, "
        f"{rate}; scoring {cost['rollouts_scored']} rollouts: {cost['scoring_ms']:.2f} ms"
    )


# ---------------------------------------------------------------------------------------------------------------------


def train_scorers(args, outputs):
    """One scorer per seed; their searches share the processes."""
    data = load_data(args.runs, args.vector)
    right = int(data.y.sum())
    print(f"{len(data.y)} rollouts of {len(data.problem.unique())} problems, {right} right ({100 * right / len(data.y):.1f} %), {args.vector}")
    tasks = [make_task(data, args, seed, args.device) for seed, _, _ in outputs]
    for task, records, (_, path, fingerprint) in zip(tasks, search(tasks, args), outputs, strict=True):
        checkpoint = make_checkpoint(data, task, records, args, fingerprint)
        common.save_pt(path, checkpoint)
        describe(path, checkpoint)


def main(argv=None):
    args = parse_args(argv)
    paths = [Path(args.out.replace("{seed}", str(seed))) for seed in args.seed]
    outputs = [(seed, path, fingerprint_of(args, seed)) for seed, path in zip(args.seed, paths, strict=True)]
    for _, path, fingerprint in outputs:
        if is_finished(path, fingerprint):
            print(f"{path}: finished before with these arguments and inputs")
    outputs = [output for output in outputs if not is_finished(*output[1:])]
    if outputs:
        args.device = common.pick_device(args.device)
        train_scorers(args, outputs)


def parse_args(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="labelled run folders; several are one mixed calibration set")
    add("-o", "--out", default="scorer.pt", help="the scorer to write; {seed} stands for the seed (default: scorer.pt)")
    add("--seed", type=int, nargs="+", default=[32], help="seeds of split, search and training; the paper's: 32 42 52 (default: 32)")
    add("--vector", default=common.DEFAULT_VECTOR, help=f"layer/token (default: {common.DEFAULT_VECTOR})")
    add("--search", choices=("paper", "halving"), default="paper", help="halving drops hopeless configurations early")
    add("--configs", type=int, default=100, help="configurations to try (default: 100)")
    add("--paper-space", action="store_true", help="the paper's four hidden shapes also above 5,000 training rollouts")
    add("--design", choices=("mlp",), default="mlp", help="the kind of scorer (default: mlp)")
    add("--loss", choices=LOSSES, default="bce", help="the objective (default: bce)")
    add("--standardise", action="store_true", help="scale every dimension to mean 0, deviation 1 of the training part")
    add("--top", type=int, default=1, help="score with the mean of this many best configurations (default: 1)")
    add("--device", help="cpu, cuda, cuda:1, mps (default: the GPU if there is one)")
    add("--workers", type=int, help="processes on a CPU, one thread each (default: one a core; the result is the same)")
    args = parser.parse_args(argv)
    if len(args.seed) > 1 and "{seed}" not in args.out:
        parser.error("several seeds need {seed} in -o, such as -o 'scorers/scatr@{seed}.pt'")
    if args.configs < 1 or args.top < 1:
        parser.error("--configs and --top are 1 or more")
    return args


if __name__ == "__main__":
    main()
