"""Train a scorer on checked rollouts: hidden.pt and labels.jsonl of one or more run folders -> scorer.pt.

    python 03_train_scorer.py runs/model/humaneval/32 -o scorer.pt
    python 03_train_scorer.py runs/model/humaneval/32 --seed 32 42 52 -o 'scorers/scatr@{seed}.pt'
    python 03_train_scorer.py runs/model/humaneval/32 --study layers --eval runs/model/kodcode/32 -o studies

A random search over small MLPs as in the paper: 100 configurations, problems split 75/25, the lowest validation loss
wins. Several run folders are one mixed calibration set; a problem that is in two of them (same data set) stays on one
side of the split. Rollouts with the label null are counted and left out. scorer.pt rebuilds itself (common.load_scorer)
and holds the whole trial table. The same seed on the same kind of device gives the same scorer, however many processes.

A study trains scorers that differ in one thing (in a study each RUN is a calibration set of its own, unless the study
mixes them), keeps them under -o, and prints what they are worth on the --eval runs, mean ± std over sets and seeds;
differences to the first row have the standard error over problems and scorers. Killed and run again, it goes on.
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
RUNGS = (2, 4, 8, 16)  # --search halving: after these epochs a trial in the worse half of its learning rate is dropped
SMALL = [[512, 256], [512, 256, 128], [1024, 512], [1024, 512, 256]]
LARGE = [[1024, 512], [2048, 1024], [1024, 512, 256], [2048, 1024, 512]]
RATES = [1e-4, 5e-4, 1e-3]
KNOBS = ("hidden", "lr", "dropout", "input_dropout", "batch_size", "weight_decay", "batch_norm")
SPACES = (  # up to this many training rollouts: the choices of each knob
    (1000, (SMALL, RATES, [0.5, 0.6, 0.7], [0.2, 0.3, 0.4], [16, 32], [1e-3, 5e-3, 1e-2], [False])),
    (5000, (SMALL, RATES, [0.4, 0.5, 0.6], [0.1, 0.2, 0.3], [32, 64, 128], [1e-4, 1e-3, 5e-3], [False, True])),
    (math.inf, (LARGE, RATES, [0.3, 0.4, 0.5], [0.0, 0.1, 0.2], [64, 128, 256], [1e-5, 1e-4, 1e-3], [False, True])),
)
TRANSFORMER = {"width": [128, 256], "depth": [1, 2], "dropout": [0.1, 0.2, 0.3]}
ARCHITECTURE = ("hidden", "batch_norm", "width", "depth")
DESIGNS = {  # what each is shown unless --vector says otherwise
    "mlp": common.DEFAULT_VECTOR,
    "best-layer": "all/eos",
    "ensemble": "all/eos",
    "transformer-final": "all/eos",
    "transformer-last10": "last10",
    "transformer-special": "special",
    "logistic": common.DEFAULT_VECTOR,
    "ridge": common.DEFAULT_VECTOR,
}
LINEAR = ([[]], [1e-3, 1e-2], [0.0], [0.0], [32], [1e-4, 1e-3, 1e-2, 0.1, 1.0], [False])
BY_HAND = ("mlp", "best-layer", "logistic", "ridge")  # the designs whose passes are written out below


def draw_configs(n, count, seed, design="mlp", paper_space=False):
    """`count` different configurations for n training rollouts, numbered in the order drawn."""
    choices = next(choices for below, choices in SPACES if n < below)
    if paper_space:
        choices = (SMALL, *choices[1:])
    knobs = dict(zip(KNOBS, LINEAR if design in ("logistic", "ridge") else choices, strict=True))
    if design.startswith("transformer"):
        knobs = {**{k: v for k, v in knobs.items() if k not in ("hidden", "batch_norm")}, **TRANSFORMER}
    grid = [dict(zip(knobs, values, strict=True)) for values in itertools.product(*knobs.values())]
    random.Random(seed).shuffle(grid)
    return [{"number": number, **config} for number, config in enumerate(grid[:count])]


# ---------------------------------------------------------------------------------------------------------------------
# What it learns from


@dataclass
class Data:
    """n labelled rollouts of the calibration runs."""

    x: object  # float32 [n, d], or [n, positions, d]
    y: object  # float32 [n], 0 or 1
    problem: list  # [n] (data set, id)
    keys: list  # [n] (run, id, sample)
    features: object = None  # float32 [n, 29] for --inputs vector+stats

    def part(self, rows):
        features = None if self.features is None else self.features[rows]
        columns = ([column[row] for row in rows] for column in (self.problem, self.keys))
        return Data(self.x[rows], self.y[rows], *columns, features)


def load_data(runs, vector, inputs="vector"):
    import torch

    check_same_model(runs)
    xs, ys, problems, keys, features, unjudged = [], [], [], [], [], 0
    for run in runs:
        run_keys, fetch = common.read_inputs(run, vector)
        labels = [row["label"] for row in common.read_labels(run, run_keys)]
        rows = [i for i, label in enumerate(labels) if label in (0, 1)]
        unjudged += len(labels) - len(rows)
        xs.append(fetch(rows))
        features += [common.read_features(run, run_keys)[rows]] if inputs == "vector+stats" else []
        ys += [float(labels[i]) for i in rows]
        problems += [(data_set(run), run_keys[i][0]) for i in rows]
        keys += [(str(run), *run_keys[i]) for i in rows]
    if len({x.shape[1:] for x in xs}) > 1:
        common.die(f"{', '.join(map(str, runs))}: vectors of different widths {[tuple(x.shape[1:]) for x in xs]}")
    if unjudged:
        print(f"{unjudged} of {unjudged + len(keys)} rollouts could not be judged (label null) and are left out")
    data = Data(torch.cat(xs), torch.tensor(ys), problems, keys, torch.cat(features) if features else None)
    check_data(data, runs)
    return data


def data_set(run):
    return str(common.read_meta(run).get("dataset", run))


def check_same_model(runs):
    seen = {}
    for run in runs:
        meta = common.read_meta(run)
        seen.setdefault((common.model_name(meta), meta["n_layers"]), run)
    if len(seen) > 1:
        told = " and ".join(f"{run} is of {name!r} ({layers} layers)" for (name, layers), run in seen.items())
        common.die(f"{told}; a scorer is for one model")


def check_data(data, runs):
    where, count = ", ".join(map(str, runs)), len(set(data.problem))
    if len(set(data.y.tolist())) < 2:
        common.die(
            f"{where}: {int(data.y.sum())} of {len(data.y)} labelled rollouts are right; both kinds are needed to train"
        )
    if count < 4:
        common.die(f"{where}: labelled rollouts of {count} problem(s); at least 4 are needed to train and validate")
    finite = data.x.isfinite().flatten(1).all(1)
    if not finite.all():
        bad = [data.keys[i] for i in (~finite).nonzero().flatten()[:3].tolist()]
        common.die(
            f"{where}: {int((~finite).sum())} vectors are not finite (NaN or Inf), such as {bad}; generate them again"
        )


def halves(problems, seed):
    """Two sets of problems, the same for everybody who asks with this seed."""
    names = sorted(set(problems))
    random.Random(f"half {seed}").shuffle(names)
    return set(names[: len(names) // 2]), set(names[len(names) // 2 :])


def choose(data, args, seed):
    """The part of the data that --half, --fraction (of the problems) and --rollouts (the first of each) leave."""
    problems = sorted(set(data.problem)) if args.half is None else sorted(halves(data.problem, seed)[args.half])
    if args.fraction < 1:
        count = min(len(problems), max(4, round(args.fraction * len(problems))))  # fewer cannot be split
        problems = random.Random(f"fraction {seed}").sample(problems, count)
    kept, rank, rows = set(problems), {}, []
    for row in sorted(range(len(data.keys)), key=lambda i: data.keys[i][2]):
        place = data.keys[row][:2]  # (run, id)
        rank[place] = rank.get(place, 0) + 1
        if data.problem[row] in kept and (args.rollouts is None or rank[place] <= args.rollouts):
            rows.append(row)
    return data if len(rows) == len(data.keys) else data.part(sorted(rows))


def split_by_problem(data, seed):
    """(training rows, validation rows): 75 % of the problems and the rest; redrawn until training has both labels."""
    problems, rng = list(dict.fromkeys(data.problem)), random.Random(f"split {seed}")
    while True:
        rng.shuffle(problems)
        training = set(problems[: round(0.75 * len(problems))])
        sides = [[row for row, p in enumerate(data.problem) if (p in training) == side] for side in (True, False)]
        if len(set(data.y[sides[0]].tolist())) == 2:
            return sides


@dataclass
class Task:
    """One search: one seed's data, split, scaled and on its device."""

    seed: int
    vector: str
    data: Data
    x: object
    y: object
    problem: object  # int64 [n]
    train: object  # rows
    valid: object
    scale: list  # (mean, deviation) of the training part, or None: raw inputs
    feature_scale: list  # the same of the statistics, or None: not shown
    pos_weight: float
    configs: list


def make_task(data, args, seed, vector):
    import torch

    data = choose(data, args, seed)
    check_data(data, args.runs)
    train, valid = split_by_problem(data, seed)
    scale = fit_scale(data.x[train]) if args.standardise else None
    if scale is None:
        warn_of_massive_dimensions(data.x[train])
    x, feature_scale = common.standardise(data.x, scale), None
    if data.features is not None:
        feature_scale = scale_of_features(data.features[train])
        x = common.with_features(x, data.features, feature_scale)
    number = {problem: i for i, problem in enumerate(dict.fromkeys(data.problem))}
    right = float(data.y[train].sum())
    problem = torch.tensor([number[p] for p in data.problem], device=args.device)
    configs = draw_configs(len(train), args.configs, seed, args.design, args.paper_space)
    return Task(
        seed, vector, data, x.to(args.device), data.y.to(args.device), problem,
        torch.tensor(train), torch.tensor(valid), scale, feature_scale, (len(train) - right) / right, configs,
    )  # fmt: skip


def fit_scale(x):
    """(mean, deviation) of each dimension over the positions that are there; a constant dimension gets deviation 1."""
    there = (x != 0).any(-1, keepdim=True).double() if x.ndim == 3 else x.new_ones(len(x), 1).double()
    count = there.sum(0).clamp(min=1)
    mean = (x * there).sum(0) / count
    deviation = (((x - mean) * there).square().sum(0) / count).sqrt()
    deviation[deviation <= 1e-6 * (1 + mean.abs())] = 1.0
    return [mean.float(), deviation.float()]


def scale_of_features(features):
    """(mean, deviation) of each statistic over the rollouts that have it; a constant one gets deviation 1."""
    if (features.isfinite().sum(0) == 0).any():
        common.die("--inputs vector+stats: rollouts.jsonl has no token statistics (conf); 01_generate.py writes them")
    mean = features.nanmean(0)
    deviation = (features - mean).square().nanmean(0).sqrt()
    deviation[deviation <= 1e-6 * (1 + mean.abs())] = 1.0
    return [mean, deviation]


def warn_of_massive_dimensions(x, limit=50):
    size = x.flatten(0, -2).square().mean(0).sqrt()
    massive = int((size > limit * size.median()).sum())
    if massive:
        told = f"{massive} of {len(size)} dimensions are over {limit} times larger than the median one"
        print(f"warning: {told}; they can drive a raw MLP to chance: compare with --standardise", file=sys.stderr)


# ---------------------------------------------------------------------------------------------------------------------
# Objectives: logits [G, B], labels [G, B], problem numbers [G, B], pos_weight [G, 1] -> [G]


def bce(logits, y, problem, pos_weight):
    from torch.nn.functional import softplus

    return (softplus(logits) * (1 - y) + pos_weight * softplus(-logits) * y).mean(-1)


def pairwise(logits, y, problem, pos_weight):
    """-log of the chance that a right answer beats a wrong one of its problem (RankNet)."""
    from torch.nn.functional import softplus

    pairs = same_problem(problem) * y[..., :, None] * (1 - y[..., None, :])  # [G, right, wrong]
    losses = softplus(logits[..., None, :] - logits[..., :, None])
    return (pairs * losses).sum((-1, -2)) / pairs.sum((-1, -2)).clamp(min=1)


def listwise(logits, y, problem, pos_weight):
    """-log of the share that a right answer has in the softmax over its problem's rollouts."""
    same = same_problem(problem)
    share = logits - logits[..., None, :].masked_fill(same == 0, -math.inf).logsumexp(-1)
    counted = y * (same @ (1 - y)[..., None]).squeeze(-1).clamp(max=1)  # right answers of problems with wrong ones too
    return -(counted * share).sum(-1) / counted.sum(-1).clamp(min=1)


def centred(logits, y, problem, pos_weight):
    """Squared error after a problem's mean is taken off logits and labels: what problems differ in is no signal."""
    same = same_problem(problem)
    error = (logits - y)[..., None]
    return (error - same @ error / same.sum(-1, keepdim=True)).square().mean((-1, -2))


def same_problem(problem):
    return (problem[..., :, None] == problem[..., None, :]).float()


LOSSES = {"bce": bce, "pairwise": pairwise, "listwise": listwise, "centred": centred}


# ---------------------------------------------------------------------------------------------------------------------
# Training: the trials of one shape side by side


class Stack:
    """G models of one shape: parameters, gradients, Adam's moments as [G, P]. On a CPU G is 1: stacks leave its cache.

    For MLPs the passes are batched products with the backward one written out (autograd's bookkeeping is a fifth of a
    small model's step); they may take operands rounded to bfloat16, the parameters and all else stay float32. The other
    designs are stacks of one, with autograd.
    """

    def __init__(self, design, configs, shape, seeds, device, operands=None):
        import torch

        self.configs, self.device, modules = configs, device, []
        for config, seed in zip(configs, seeds, strict=True):
            torch.manual_seed(seed)  # a lone model of another design also draws its dropout from here on
            modules.append(common.build_scorer(design, config, shape))
        self.template = modules[0].to(device)
        self.by_hand = design in BY_HAND
        self.operands = operands if operands and self.by_hand else torch.float32
        flat = torch.stack([torch.nn.utils.parameters_to_vector(m.parameters()).detach() for m in modules]).to(device)
        self.rows = {"flat": flat, "m": torch.zeros_like(flat), "v": torch.zeros_like(flat)}
        for name, buffer in self.template.named_buffers():
            self.rows[name] = torch.stack([buffer] * len(configs))
        self.rates = [config["lr"] for config in configs]
        self.generators = [torch.Generator(device).manual_seed(seed) for seed in seeds]
        self.steps = [torch.zeros((), device=device) for _ in configs]
        self._make_views()

    def _make_views(self):
        import torch

        self.grad = torch.zeros_like(self.rows["flat"])
        self.rounded = self.rows["flat"].to(self.operands)  # in float32 these two are no copies
        self.rounded_grad = self.grad.to(self.operands)
        self.views, self.weights, self.slopes, start = {}, {}, {}, 0
        for name, parameter in self.template.named_parameters():
            part = slice(start, start := start + parameter.numel())
            self.views[name] = self.rows["flat"][:, part].unflatten(1, parameter.shape)
            self.weights[name] = self.rounded[:, part].unflatten(1, parameter.shape)
            self.slopes[name] = self.rounded_grad[:, part].unflatten(1, parameter.shape)
            if not self.by_hand:
                parameter.data, parameter.grad = self.views[name][0], self.slopes[name][0]
        if self.by_hand:
            cuts = [[round(256 * config[knob]) for config in self.configs] for knob in ("input_dropout", "dropout")]
            self.cuts = [torch.tensor(cut, device=self.device, dtype=torch.uint8)[:, None, None] for cut in cuts]
            self.scales = [256 / (256 - cut.float()) for cut in self.cuts]  # of the share that is kept exactly
            self.linears = [
                name[:-7] for name, view in self.views.items() if name.endswith("weight") and view.ndim == 3
            ]
            after = [str(int(name) + 1) for name in self.linears]
            self.norms = [name if f"{name}.weight" in self.views else None for name in after]

    def select(self, keep):
        """Only these trials stay."""
        self.rows = {name: tensor[keep] for name, tensor in self.rows.items()}
        for name in ("configs", "rates", "generators", "steps"):
            setattr(self, name, [getattr(self, name)[g] for g in keep])
        self._make_views()

    def state(self, g):
        """The weights of one trial as its module's state dict."""
        if not self.by_hand:
            return {name: tensor.clone() for name, tensor in self.template.state_dict().items()}
        return {
            name: (self.views[name] if name in self.views else self.rows[name])[g].clone()
            for name in self.template.state_dict()
        }

    def logits(self, x):
        """x [G, m, d] -> [G, m], without dropout, with the running statistics."""
        import torch

        if not self.by_hand:
            with torch.no_grad():
                return self.template.eval()(x[0])[None]
        for name, norm in zip(self.linears, self.norms, strict=True):
            x = torch.baddbmm(self.views[f"{name}.bias"][:, None], x, self.views[f"{name}.weight"].mT)
            if norm:
                mean, variance = self.rows[f"{norm}.running_mean"], self.rows[f"{norm}.running_var"]
                x = (x - mean[:, None]).mul_((variance + 1e-5).rsqrt()[:, None])
                x = x.mul_(self.views[f"{norm}.weight"][:, None]).add_(self.views[f"{norm}.bias"][:, None])
            x = x.relu_() if name != self.linears[-1] else x
        return x.squeeze(-1)

    def gradient(self, x, loss):
        """One pass over a batch x [G, B, d] (overwritten): the slope of loss(logits [G, B]) of every parameter."""
        import torch

        if not self.by_hand:
            self.grad.zero_()
            loss(self.template.train()(x[0])[None]).sum().backward()
            return
        sizes = [self.views[f"{name}.weight"].shape[-1] for name in self.linears]
        noise = torch.stack([random_bytes(x.shape[1] * sum(sizes), g) for g in self.generators])
        noise = noise.view(len(x), x.shape[1], -1).split(sizes, -1)
        self.rounded.copy_(self.rows["flat"])
        inputs, lives, kept = [x.mul_(noise[0] >= self.cuts[0]).mul_(self.scales[0]).to(self.operands)], [], []
        for i, (name, norm) in enumerate(zip(self.linears, self.norms, strict=True)):
            bias, weight = self.weights[f"{name}.bias"][:, None], self.weights[f"{name}.weight"]
            z = torch.baddbmm(bias, inputs[i], weight.mT).float()
            if i < len(sizes) - 1:
                z, normalised = self._normalise(z, norm) if norm else (z, None)
                kept.append(normalised)
                lives.append((z > 0).logical_and_(noise[i + 1] >= self.cuts[1]))  # ReLU and dropout in one mask
                inputs.append(z.mul_(lives[i]).mul_(self.scales[1]).to(self.operands))
        logits = z.squeeze(-1).requires_grad_()
        (slope,) = torch.autograd.grad(loss(logits).sum(), logits)
        self._backward(slope[..., None], inputs, lives, kept)
        self.grad.copy_(self.rounded_grad)

    def _backward(self, slope, inputs, lives, kept):
        import torch

        for i, name in reversed(list(enumerate(self.linears))):
            self.slopes[f"{name}.bias"].copy_(slope.sum(1))
            slope = slope.to(self.operands)
            torch.bmm(slope.mT, inputs[i], out=self.slopes[f"{name}.weight"])
            if i:
                slope = torch.bmm(slope, self.weights[f"{name}.weight"]).float()
                slope = slope.mul_(lives[i - 1]).mul_(self.scales[1])
                slope = self._normalise_backward(slope, self.norms[i - 1], *kept[i - 1]) if kept[i - 1] else slope

    def _normalise(self, z, norm):
        """Batch normalisation of z [G, B, h] by the batch's own statistics; the running ones move by a tenth."""
        import torch

        columns = z.transpose(0, 1).flatten(1)  # [B, G * h]
        facts = [self.views[f"{norm}.weight"], self.views[f"{norm}.bias"]]
        facts += [self.rows[f"{norm}.running_mean"], self.rows[f"{norm}.running_var"]]
        z, mean, scale = torch.native_batch_norm(columns, *(fact.flatten() for fact in facts), True, 0.1, 1e-5)
        return z.unflatten(1, (len(facts[0]), -1)).transpose(0, 1), (columns, mean, scale)

    def _normalise_backward(self, slope, norm, columns, mean, scale):
        import torch

        weight, slopes = self.views[f"{norm}.weight"], slope.transpose(0, 1).flatten(1)
        found = torch.ops.aten.native_batch_norm_backward(
            slopes, columns, weight.flatten(), None, None, mean, scale, True, 1e-5, [True, True, True]
        )
        for name, value in zip(("weight", "bias"), found[1:], strict=True):
            self.slopes[f"{norm}.{name}"].copy_(value.unflatten(0, weight.shape))
        return found[0].unflatten(1, (len(weight), -1)).transpose(0, 1)

    def update(self):
        """Clip each trial's gradient to norm 1, then Adam with its own rate and decay; nothing waits for a value."""
        from torch.optim.adam import adam

        divisors = (self.grad.norm(dim=1) / CLIP).clamp_(min=1.0)  # the fused kernel divides on its way: a pass less
        for g, config in enumerate(self.configs):
            row = [
                [self.rows["flat"][g]],
                [self.grad[g]],
                [self.rows["m"][g]],
                [self.rows["v"][g]],
                [],
                [self.steps[g]],
            ]
            adam(*row, fused=True, amsgrad=False, beta1=0.9, beta2=0.999, lr=self.rates[g], grad_scale=divisors[g],
                 weight_decay=config["weight_decay"], eps=1e-8, maximize=False)  # fmt: skip


def operands_of_products(x):
    """bfloat16 where a CPU multiplies it natively, twice as fast, and the inputs are bfloat16 anyway; else float32.

    Vectors of another type are not rounded: a large dimension whose small changes matter would lose them.
    """
    import torch

    native = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    fits = x.device.type == "cpu" and native and torch.equal(x, x.bfloat16().float())
    return torch.bfloat16 if fits else torch.float32


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


def batch_order(task, generator, together):
    """The training rows in a new order; for the objectives that compare within a problem its rows stay `together`."""
    import torch

    order = task.train[torch.randperm(len(task.train), generator=generator)]
    if together:
        problem = task.problem.cpu()[order]
        order = order[torch.randperm(int(problem.max()) + 1, generator=generator)[problem].argsort(stable=True)]
    return order


def train(tasks, trials, args, seen=None):
    """Train trials [(task number, config)] of one shape side by side; a record per trial, in their order.

    seen: {(task, rate, rung): losses so far} for `--search halving`; None trains every trial to its own end.
    """
    import torch

    started, loss = time.time(), LOSSES[args.loss]
    mine = {number: tasks[number] for number, _ in trials}
    device, batch_size = next(iter(mine.values())).x.device, trials[0][1]["batch_size"]
    one = len(mine) == 1  # then without a copy
    x, y, problem = (
        getattr(tasks[trials[0][0]], name) if one else torch.cat([getattr(task, name) for task in mine.values()])
        for name in ("x", "y", "problem")
    )
    offsets = dict(zip(mine, itertools.accumulate([0, *(len(t.y) for t in mine.values())]), strict=False))
    seeds = [tasks[number].seed * 1_000_003 + config["number"] for number, config in trials]
    configs, shape = [config for _, config in trials], tuple(x.shape[1:])
    stack = Stack(args.design, configs, shape, seeds, device, operands_of_products(x))
    orders = [torch.Generator().manual_seed(seed) for seed in seeds]
    valid = torch.stack([tasks[number].valid + offsets[number] for number, _ in trials]).to(device)
    pos_weight = torch.tensor([[tasks[number].pos_weight] for number, _ in trials], device=device)
    new = {"best": math.inf, "best_epoch": 0, "plateau": math.inf, "bad": 0, "dropped": False}
    records = [{"task": number, "config": config, "losses": [], **new} for number, config in trials]
    live, together = records, args.loss != "bce"
    for epoch in range(1, EPOCHS + 1):
        order = [batch_order(tasks[record["task"]], generator, together) + offsets[record["task"]]
                 for record, generator in zip(live, orders, strict=True)]  # fmt: skip
        order = torch.stack(order).to(device)
        for start, end in batches(order.shape[1], batch_size):
            rows = order[:, start:end]
            stack.gradient(x[rows], partial(loss, y=y[rows], problem=problem[rows], pos_weight=pos_weight))
            stack.update()
        logits = torch.cat([stack.logits(x[rows]) for rows in valid.split(1024, 1)], 1)
        losses = loss(logits, y[valid], problem[valid], pos_weight).tolist()
        keep = [place for place, value in enumerate(losses) if goes_on(live[place], value, epoch, stack, place, seen)]
        if not keep:
            break
        if len(keep) < len(live):
            stack.select(keep)
            live, orders = [live[place] for place in keep], [orders[place] for place in keep]
            valid, pos_weight = valid[keep], pos_weight[keep]
    for record in records:
        record["seconds"] = (time.time() - started) / len(records)
    return records


def goes_on(record, value, epoch, stack, place, seen):
    """Write down one epoch of one trial: keep its weights if best, halve its rate on a plateau; False ends it."""
    record["losses"].append(value)
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
        so_far = seen.setdefault((record["task"], record["config"]["lr"], epoch), [])
        so_far.append(record["best"])
        record["dropped"] = sorted(so_far).index(record["best"]) >= (len(so_far) + 1) // 2
    return math.isfinite(value) and epoch - record["best_epoch"] < PATIENCE and not record["dropped"]


# ---------------------------------------------------------------------------------------------------------------------
# The search


def search(tasks, args):
    """For each task its records in the order of their configurations; only the best `--top` keep their weights."""
    found = [[] for _ in tasks]
    total = sum(len(task.configs) for task in tasks)
    with common.progress(total=total, desc=f"train {args.out}", unit="trial") as bar:
        for records in run_jobs(make_jobs(tasks, args), tasks, args, bar):
            for record in records:
                mine = found[record["task"]]
                mine.append(record)
                for worse in sorted(mine, key=rank)[args.top :]:
                    worse.pop("state", None)
    return [sorted(records, key=lambda r: r["config"]["number"]) for records in found]


def rank(record):
    return record["best"], record["config"]["number"]


def make_jobs(tasks, args):
    """Lists of stacks that run one after the other; a stack is a list of trials (task number, config) of one shape."""
    trials = [(number, config) for number, task in enumerate(tasks) for config in task.configs]
    if stacks_pay(tasks, args):
        shape = lambda trial: (
            len(tasks[trial[0]].train),
            len(tasks[trial[0]].valid),
            trial[1]["batch_size"],
            architecture(trial[1]),
        )
        groups = [list(group) for _, group in itertools.groupby(sorted(trials, key=shape), shape)]
        limits = [stack_limit(tasks, group) for group in groups]
        return [
            [
                group[i : i + limit]
                for group, limit in zip(groups, limits, strict=True)
                for i in range(0, len(group), limit)
            ]
        ]
    if args.search == "halving":  # the trials of one learning rate are compared with each other, in their order
        key = lambda trial: (trial[0], trial[1]["lr"])
        return [[[trial] for trial in group] for _, group in itertools.groupby(sorted(trials, key=key), key)]
    return [[[trial]] for trial in trials]


def stacks_pay(tasks, args):
    return tasks[0].x.device.type != "cpu" and args.design in BY_HAND


def architecture(config):
    return str([config.get(knob) for knob in ARCHITECTURE])


def stack_limit(tasks, group):
    """How many trials fit into half of the free GPU memory: weights, slopes, moments, best weights, a batch, a part."""
    import torch

    (number, config), device = group[0], tasks[0].x.device
    sizes = [tasks[number].x.shape[-1], *config["hidden"], 1]
    each = 4 * (6 * sum(a * b for a, b in itertools.pairwise(sizes)) + 8 * 1024 * sum(sizes))
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 2**32
    return max(1, int(free / 2 / each))


def run_job(job, tasks, args):
    """Records of one job, a list per stack."""
    seen = {} if args.search == "halving" else None
    return (train(tasks, stack, args, seen) for stack in job)


def run_jobs(jobs, tasks, args, bar):
    """Lists of records as they come. On a Linux CPU a process a core, one thread each: how many changes no result."""
    import torch

    cpu = tasks[0].x.device.type == "cpu"
    torch.set_float32_matmul_precision("medium" if cpu else "high")  # faster; float32 on CPUs without AMX, TF32 on GPUs
    workers = min(args.workers or usable_cores(), len(jobs))
    if cpu:
        torch.set_num_threads(1)
    if not cpu or sys.platform != "linux" or workers < 2:
        for records in itertools.chain.from_iterable(run_job(job, tasks, args) for job in jobs):
            bar.update(len(records))
            yield records
        return
    from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    context = get_context("fork")
    WORK.update(tasks=tasks, args=args, done=context.Value("i"))  # forked processes see it without a copy
    with ProcessPoolExecutor(workers, context, _die_with_parent) as pool:
        pending = {pool.submit(_work, job) for job in jobs}
        while pending:
            done, pending = wait(pending, timeout=0.5, return_when=FIRST_COMPLETED)
            bar.update(WORK["done"].value - bar.n)
            try:
                yield from (_with_states(future.result(), torch.from_numpy) for future in done)
            except BrokenProcessPool:
                common.die("a search process was killed, most likely for want of memory; fewer --workers need less")


WORK = {}


def _die_with_parent():
    import ctypes

    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL: a killed search leaves no process behind


def _work(job):
    records = []
    for some in run_job(job, WORK["tasks"], WORK["args"]):
        records += some
        with WORK["done"].get_lock():
            WORK["done"].value += len(some)
    return _with_states(records, lambda tensor: tensor.numpy())  # tensors would travel as open files, too many of them


def _with_states(records, convert):
    for record in records:
        record["state"] = {name: convert(value) for name, value in record.get("state", {}).items()}
    return records


def usable_cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


# ---------------------------------------------------------------------------------------------------------------------
# The checkpoint


def make_checkpoint(task, records, args, fingerprint):
    meta, data = common.read_meta(args.runs[0]), task.data
    best = sorted((record for record in records if math.isfinite(record["best"])), key=rank)[: args.top]
    if not best:
        common.die(f"none of {len(records)} configurations reached a finite validation loss; try --standardise")
    checkpoint = {
        "format": 1, "design": args.design, "vector": task.vector, "shape": list(data.x.shape[1:]), "inputs": args.inputs,
        "model": common.model_name(meta), "model_content": common.model_content(meta),
        "layers_of_model": meta["n_layers"],
        "scale": task.scale, "feature_scale": task.feature_scale, "calibration": [1.0, 0.0],
        "members": [{"config": r["config"], "state": {k: v.cpu() for k, v in r["state"].items()}} for r in best],
        "seed": task.seed, "val_loss": best[0]["best"], "pos_weight": task.pos_weight, "fingerprint": fingerprint,
        "trials": [trial_row(record) for record in records],
        "arguments": {k: v for k, v in vars(args).items() if isinstance(v, (str, int, float, list, type(None)))},
        "runs": [str(run) for run in args.runs], "n_rollouts": len(data.y), "problems": sorted(set(data.problem)),
    }  # fmt: skip
    logits = common.Scorer(checkpoint)(data.x[task.valid], None if data.features is None else data.features[task.valid])
    if args.loss != "bce":
        checkpoint["calibration"] = fit_sigmoid(logits.numpy(), data.y[task.valid].numpy())
    checkpoint["val_auroc"] = common.auroc(data.y[task.valid].numpy() > 0, logits.numpy())
    checkpoint["cost"] = costs(checkpoint, task)
    return checkpoint


def trial_row(record):
    finite = lambda value: round(value, 6) if math.isfinite(value) else None
    row = {
        **record["config"],
        "val_loss": finite(record["best"]),
        "best_epoch": record["best_epoch"],
        "epochs": len(record["losses"]),
    }
    row.update(ended="dropped" if record["dropped"] else "finished", seconds=round(record["seconds"], 3))
    return {**row, "losses": [finite(value) for value in record["losses"]]}


def fit_sigmoid(logits, y):
    """[slope, offset] of the logistic curve from logits to the chance of being right (Platt), by Newton's method."""
    import numpy as np

    spread = logits.std() + 1e-9
    columns, w = np.stack([logits / spread, np.ones_like(logits)], 1).astype(float), np.zeros(2)
    for _ in range(50):
        p = 1 / (1 + np.exp(-columns @ w))
        hessian = columns.T @ (columns * (p * (1 - p))[:, None]) + 1e-3 * np.eye(2)
        w += np.linalg.solve(hessian, columns.T @ (y - p) - 1e-3 * w)
    return [float(max(w[0], 1e-3) / spread), float(w[1])]  # never against the score


def costs(checkpoint, task):
    """Parameters, seconds, FLOPs (a backward pass counts as two forward ones) of the search and of scoring a problem."""
    import torch

    scorer, shape, trials = common.Scorer(checkpoint), tuple(task.x.shape[1:]), checkpoint["trials"]
    rollouts = round(len(task.data.y) / len({key[:2] for key in task.data.keys}))
    x, features = task.data.x[:rollouts], task.data.features
    features = None if features is None else features[:rollouts]
    forward = {}
    for trial in trials:
        if architecture(trial) not in forward:
            forward[architecture(trial)] = flops(common.build_scorer(checkpoint["design"], trial, shape), shape)
    passes = 3 * len(task.train) + len(task.valid)
    torch.set_num_threads(1)
    return {
        "parameters": sum(p.numel() for module in scorer.modules for p in module.parameters()),
        "search_seconds": sum(trial["seconds"] for trial in trials),
        "search_flops": sum(forward[architecture(trial)] * passes * trial["epochs"] for trial in trials),
        "rollouts_scored": rollouts,
        "scoring_flops": rollouts * sum(forward[architecture(member["config"])] for member in checkpoint["members"]),
        "scoring_ms": median_ms(lambda: scorer(x, features)),
    }


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
    """Of all that decides the result: the arguments, the labels, and the checksums that the .pt file itself carries."""
    facts = {k: v for k, v in vars(args).items() if k not in ("runs", "out", "seed", "workers", "study", "eval", "n", "json")}
    parts = [json.dumps([seed, facts], sort_keys=True, default=str)]
    for run in map(Path, args.runs):
        labels = run / "labels.jsonl"
        vectors = run / ("extra.pt" if args.vector in common.EXTRA_INPUTS else "hidden.pt")
        if not (labels.is_file() and zipfile.is_zipfile(vectors)):
            return None  # the loading that follows says what is missing
        with zipfile.ZipFile(vectors) as archive:
            content = sorted((item.CRC, item.file_size) for item in archive.infolist() if "/data" in item.filename)
        parts += [hashlib.sha256(labels.read_bytes()).hexdigest(), str(content)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def is_finished(path, fingerprint):
    """Does this scorer.pt carry the fingerprint? Read from its archive, without loading torch."""
    if fingerprint is None or not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        pickles = [name for name in archive.namelist() if name.endswith("data.pkl")]
        return any(fingerprint.encode() in archive.read(name) for name in pickles)


def describe(path, checkpoint):
    best, cost = checkpoint["members"][0]["config"], checkpoint["cost"]
    choice = ", ".join(f"{knob} {value}" for knob, value in best.items() if knob != "number")
    auroc = "" if checkpoint["val_auroc"] is None else f", AUROC {checkpoint['val_auroc']:.3f}"
    print(f"{path}: {checkpoint['vector']}, validation loss {checkpoint['val_loss']:.4f}{auroc}; {choice}")
    searched = f"{len(checkpoint['trials'])} trials, {cost['search_seconds']:.0f} s of computing"
    scored = f"scoring {cost['rollouts_scored']} rollouts {cost['scoring_ms']:.2f} ms"
    print(f"  {cost['parameters']:,} parameters; {searched}, {cost['search_flops'] / 1e12:.3g} TFLOPs; {scored}")


# ---------------------------------------------------------------------------------------------------------------------
# Studies: rows of a table, each a name and what it changes


def study_rows(args):
    """{name: {argument: value}}; `runs` replaces the calibration set, None keeps each RUN as a set of its own.

    `members` judges the mean of that many best configurations of a search that another row shares ("NAME, top K").
    """
    token = (args.vector or common.DEFAULT_VECTOR).partition("/")[2]
    plain, scaled = {"top": 10}, {"standardise": True, "top": 10}
    halving = {} if args.search == "halving" else {"halving": {"search": "halving"}}
    rows = {
        "layers": {f"{layer}L" if layer[0] == "." else layer: {"vector": f"{layer}/{token}"}
                   for layer in (".15", ".3", ".45", ".6", ".75", ".9", "penultimate")},
        "fraction": {f"{share:.0%}": {"fraction": share} for share in (1.0, 0.5, 0.25, 0.1)},
        "rollouts": {f"N={n}": {"rollouts": n} for n in (16, 12, 8, 4)},
        "designs": {design: {"design": design, "vector": None} for design in DESIGNS},
        "mixed": {"mixed": {"runs": args.runs}, **{str(run): {"runs": [run]} for run in args.runs}},
        "halves": {"other data set": {}, "same data set": {"runs": args.eval, "half": 0}},
        "options": {
            "default": {**plain, "members": 1}, "default, top 5": {**plain, "members": 5},
            "default, top 10": {**plain, "members": 10}, "standardise": {**scaled, "members": 1},
            "standardise, top 5": {**scaled, "members": 5}, "standardise, top 10": {**scaled, "members": 10},
            **halving, "pairwise": {"loss": "pairwise"}, "listwise": {"loss": "listwise"},
            "centred": {"loss": "centred"}, "logistic": {"design": "logistic"}, "ridge": {"design": "ridge"},
        },
    }  # fmt: skip
    return rows[args.study]


STUDIES = ("layers", "fraction", "rollouts", "designs", "mixed", "halves", "options")


def run_study(args):
    """Train what is missing, evaluate all, print the tables and keep their numbers."""
    import numpy as np

    folder, results = Path(args.out), {}
    for name, change in study_rows(args).items():
        members, found = change.pop("members", None), []
        for number, runs in enumerate([change["runs"]] if "runs" in change else [[run] for run in args.runs]):
            own = argparse.Namespace(**{**vars(args), **change, "runs": runs})
            settle(own)
            file = f"{name.split(', top')[0].replace('/', '-')}@{number}-{{seed}}.pt"
            own.out = str(folder / args.study / file)
            found += [evaluate(path, args, seed, members) for seed, path in make_scorers(own).items()]
        results[name] = np.array(found)  # [scorers, measures, P]
    report = study_report(results, args)
    print_study(report)
    common.write_json(folder / f"{args.study}.json", report)
    if args.json:
        print(json.dumps(report))


def evaluate(path, args, seed, members):
    """[measures, P]: each problem of the --eval runs as measured by the scorer's best `members` (None: all)."""
    import numpy as np

    scorer = common.load_scorer(path)
    scorer.modules = scorer.modules[:members]
    return np.concatenate([evaluate_run(scorer, run, path, args, seed) for run in args.eval], 1)


def evaluate_run(scorer, run, path, args, seed):
    """[measures, P]: the rows are named by `measures`; NaN where a problem has no say in one."""
    import numpy as np

    keys, logits = common.score_run(scorer, run, path)
    labels, problems = common.read_labels(run, keys), {}
    for place in sorted(range(len(keys)), key=lambda i: keys[i]):
        problems.setdefault(keys[place][0], []).append(place)
    counts = [None not in [labels[place]["label"] for place in places] for places in problems.values()]
    if args.study == "halves":
        held_out = halves([(data_set(run), problem) for problem in problems], seed)[1]
        counts = [
            judged and (data_set(run), problem) in held_out for judged, problem in zip(counts, problems, strict=True)
        ]
    if not any(counts):
        common.die(f"{run}: no problem has all its rollouts judged, so nothing to evaluate on")
    counted = list(itertools.compress(problems.values(), counts))
    right = np.array([row["label"] == 1 for row in labels])
    group = np.array([-1 if row.get("group") is None else row["group"] for row in labels])
    scores, p = logits.numpy(), scorer.probability(logits).numpy()
    values = np.full((len(measures(args)), len(problems)), math.nan)
    values[0, counts] = auroc_shares(right, scores, counted)
    values[1:, counts] = np.array([measure(scores[i], p[i], right[i], group[i], args.n) for i in counted]).T
    return values


def measures(args):
    return ["AUROC", "within a problem", *(f"best of {n}" for n in args.n), "weighted vote"]


def measure(scores, p, right, group, ns):
    """Of one problem, its rollouts in order: [AUROC, expected accuracy of best of n for each n, of the vote]."""
    import numpy as np

    ranked = right[np.argsort(-scores, kind="stable")]
    auroc = common.auroc(right, scores)
    vote = right[common.weighted_vote(group, p, scores)] if (group >= 0).any() else math.nan
    return [math.nan if auroc is None else auroc, *(common.first_of_subset(len(right), n) @ ranked for n in ns), vote]


def auroc_shares(right, scores, problems):
    """A number a problem (the places of its rollouts): their mean is the AUROC, their spread its error (DeLong's)."""
    import numpy as np

    places, moves = np.concatenate(problems), np.zeros(len(scores))
    if len(set(right[places])) < 2:
        return [math.nan] * len(problems)
    for side in (True, False):
        mine, others = places[right[places] == side], np.sort(scores[places[right[places] != side]])
        below = sum(np.searchsorted(others, scores[mine], end) for end in ("left", "right")) / 2 / len(others)
        won = below if side else 1 - below  # the share of the other kind that it beats, or that beats it
        moves[mine] = (won - won.mean()) / len(mine)
    return won.mean() + len(problems) * np.array([moves[own].sum() for own in problems])


def compare(values, first):
    """Two rows' [scorers, P] -> (difference of the means, its standard error over problems and scorers, never below)."""
    import numpy as np

    both = np.isfinite(values).any(0) & np.isfinite(first).any(0)
    values, first = values[:, both], first[:, both]
    paired = np.nanmean(values, 0) - np.nanmean(first, 0)  # [P]
    sides = [np.nanmean(values, 1), np.nanmean(first, 1)]  # [scorers]
    sides = [sides[0] - sides[1]] if len(sides[0]) == len(sides[1]) else sides  # the same sets and seeds
    error = math.sqrt(sum(part.var(ddof=1) / len(part) for part in (paired, *sides) if len(part) > 1))
    return paired.mean(), error


def study_report(results, args):
    """{"study", "rows": [...]} of {row: [scorers, measures, P]}; a measure without a value anywhere is left out."""
    import numpy as np

    first, rows = next(iter(results.values())), []
    for name, found in results.items():
        row = {"row": name, "n": args.n, "problems": int(np.isfinite(found[0, 2]).sum()), "measures": {}}
        for i, label in enumerate(measures(args)):
            values = 100 * found[:, i]
            if np.isfinite(values).any():
                means = np.nanmean(values, 1)
                difference, error = compare(values, 100 * first[:, i])
                spread = means.std(ddof=1) if len(means) > 1 else 0.0
                row["measures"][label] = {"mean": means.mean(), "std": spread, "values": means.tolist(),
                                          "difference": difference, "standard_error": error}  # fmt: skip
        best = [row["measures"][f"best of {n}"] for n in args.n]
        row.update(accuracy=[m["mean"] for m in best], scorers=np.array([m["values"] for m in best]).T.tolist(),
                   difference=best[-1]["difference"], standard_error=best[-1]["standard_error"])  # fmt: skip
        rows.append(row)
    return {"study": args.study, "rows": rows}


def print_study(report):
    rows = report["rows"]
    header = [f"{label} %" for label in rows[0]["measures"]]
    show = lambda row, form: [row["row"], *(form.format(**measure) for measure in row["measures"].values())]
    cells = [[*show(row, "{mean:.1f} ± {std:.1f}"), len(row["scorers"])] for row in rows]
    print(common.table([report["study"], *header, "scorers"], cells) + "\n")
    cells = [show(row, "{difference:+.1f} ± {standard_error:.1f}") for row in rows[1:]]
    print(common.table([f"difference to {rows[0]['row']!r}, standard error", *header], cells))


# ---------------------------------------------------------------------------------------------------------------------


def make_scorers(args):
    """{seed: path}: one scorer a seed, their searches sharing the processes; finished ones are left alone."""
    paths = {seed: Path(args.out.replace("{seed}", str(seed))) for seed in args.seed}
    prints = {seed: fingerprint_of(args, seed) for seed in args.seed}
    missing = [seed for seed in args.seed if not is_finished(paths[seed], prints[seed])]
    for seed in args.seed:
        if seed not in missing:
            print(f"{paths[seed]}: finished before, with these arguments and inputs")
    if missing:
        args.device = common.pick_device(args.device)
        for seed, checkpoint in train_scorers(args, missing, prints):
            common.save_pt(paths[seed], checkpoint)
            describe(paths[seed], checkpoint)
    return paths


def train_scorers(args, seeds, prints):
    tasks = []
    for vector in vectors_of(args):
        data = load_data(args.runs, vector, args.inputs)
        right, problems = int(data.y.sum()), len(set(data.problem))
        share = 100 * right / len(data.y)
        print(f"{vector}: {len(data.y)} rollouts of {problems} problems, {right} right ({share:.1f} %)")
        tasks += [make_task(data, args, seed, vector) for seed in seeds]
    found = list(zip(tasks, search(tasks, args), strict=True))
    for seed in seeds:  # best-layer has a task for every layer: the lowest validation loss wins
        task, records = min(((t, r) for t, r in found if t.seed == seed), key=lambda pair: min(map(rank, pair[1])))
        yield seed, make_checkpoint(task, records, args, prints[seed])


def vectors_of(args):
    if args.design != "best-layer":
        return [args.vector]
    return common.captured_layers(args.runs[0], args.vector)


def main(argv=None):
    args = parse_args(argv)
    if args.study:
        run_study(args)
    else:
        make_scorers(settle(args))


def settle(args):
    """Fill in what a design decides: its input, and for the linear ones their scale and objective."""
    args.vector = args.vector or DESIGNS[args.design]
    args.standardise |= args.design in ("logistic", "ridge")
    args.loss = {"logistic": "bce", "ridge": "centred"}.get(args.design, args.loss)
    return args


def parse_args(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="labelled run folders; several are one mixed calibration set")
    add("-o", "--out", help="scorer to write, {seed} stands for the seed (scorer.pt); of a study, a folder (studies)")
    add("--seed", type=int, nargs="+", default=[32], help="of split, search and training (the paper: 32 42 52)")
    add("--design", choices=DESIGNS, default="mlp", help="default: mlp; logistic and ridge are linear rivals")
    add("--vector", help=f"layer/token, or all/token for the designs over layers (default: {common.DEFAULT_VECTOR})")
    add("--inputs", choices=("vector", "vector+stats"), default="vector", help="vector+stats (SCaTR+): also the 28 token statistics and the length")
    add("--search", choices=("paper", "halving"), default="paper", help="halving drops hopeless configurations early")
    add("--configs", type=int, default=100, help="configurations to try (default: 100)")
    add("--paper-space", action="store_true", help="the paper's four hidden shapes also above 5,000 training rollouts")
    add("--loss", choices=LOSSES, default="bce", help="default: bce; the others compare the answers to one problem")
    add("--standardise", action="store_true", help="every dimension to mean 0, deviation 1 of the training part")
    add("--top", type=int, default=1, help="score with the mean of this many best configurations (default: 1)")
    add("--fraction", type=float, default=1.0, help="calibrate on this share of the problems")
    add("--rollouts", type=int, help="calibrate on the first this many rollouts of each problem")
    add("--half", type=int, choices=(0, 1), help="calibrate on one half of the problems, drawn by the seed")
    add("--study", choices=STUDIES, help="train and compare scorers that differ in one thing")
    add("--eval", nargs="+", default=[], metavar="RUN", help="labelled runs to evaluate a study on")
    add("-n", type=int, nargs="+", default=[4, 8, 12, 16], help="of a study: rollouts to choose from (4 8 12 16)")
    add("--device", help="cpu, cuda, cuda:1, mps (default: the GPU if there is one)")
    add("--workers", type=int, help="processes on a CPU, one thread each (default: one a core; the result is the same)")
    add("--json", action="store_true", help="of a study, a last line of JSON, for programs")
    args = parser.parse_args(argv)
    args.out = args.out or ("studies" if args.study else "scorer.pt")
    if len(args.seed) > 1 and not args.study and "{seed}" not in args.out:
        parser.error("several seeds need {seed} in -o, such as -o 'scorers/scatr@{seed}.pt'")
    if args.study and (not args.eval or (args.study == "halves" and len(args.eval) > 1)):
        parser.error("--study needs --eval RUN, labelled runs to evaluate on (one for the study of halves)")
    if args.inputs != "vector" and args.design not in BY_HAND[:1] + BY_HAND[2:]:
        parser.error("--inputs vector+stats is for the designs mlp, logistic and ridge")
    if min(args.configs, args.top, args.rollouts or 1, *args.n) < 1 or not 0 < args.fraction <= 1:
        parser.error("--configs, --top, --rollouts and -n are 1 or more, --fraction is above 0 and at most 1")
    return args


if __name__ == "__main__":
    common.entry(main, "scorers that are written; the same command makes the others")
