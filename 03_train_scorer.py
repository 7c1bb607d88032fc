"""Train a scorer on checked rollouts: hidden.pt and labels.jsonl of one or more run folders -> scorer.pt.

    python 03_train_scorer.py runs/model/humaneval/32 -o scorer.pt
    python 03_train_scorer.py runs/model/humaneval/32 --seed 32 42 52 -o 'scorers/scatr@{seed}.pt'
    python 03_train_scorer.py runs/model/humaneval/32 --inputs vector+stats -o scorer+.pt   # SCaTR+
    python 03_train_scorer.py runs/model/humaneval/32 --study layers --eval runs/model/kodcode/32

The paper's random search: 100 small MLPs, problems split 75/25, the lowest validation loss wins. Several runs
are one mixed calibration set. Rollouts with the label null are left out. scorer.pt rebuilds itself and has a
table of all trials. A seed gives the same scorer, to the bit on one machine, with any number of --workers.

The paper's tables. C: three calibration runs of one data set, D: of another, E: the run to be judged by.

    table              command, with --seed 32 42 52 --eval E  vectors, of 01                          trials
    main results       SETS=3 bash run_all.sh MODEL CAL EVAL                                              900
    layers             03 C --study layers    --layers .15,.3,.45,.6,.75,.9,penultimate                 6,300
    calibration set    03 C --study fraction                                                            3,600
    rollouts           03 C --study rollouts                                                            3,600
    scorer design      03 C --study designs   --layers all --extra both        900 x (4 + number of layers)
    mixed domains      03 C D --study mixed                                                             2,700
    same data set      03 C --study halves                                                              1,800
    what might help    03 C --study options                                                             7,400

01 with a finished run's arguments and these adds vectors to it. A search that two tables share, or that
run_all.sh has done, is done once. Inputs are checked and hours estimated before anything trains. A row is the
mean over calibration sets (each RUN is one) and seeds; 05 --studies prints all in the paper's shape.
"""

import argparse
import hashlib
import itertools
import json
import math
import os
import random
import shlex
import signal
import statistics
import sys
import threading
import time
import zipfile
from collections import namedtuple
from datetime import date
from functools import cache
from pathlib import Path

import numpy as np

import common

# ------------------------------------------------------------------------------------------------------------
# The search space

EPOCHS, PATIENCE, PLATEAU, CLIP = 100, 10, 3, 1.0
RUNGS = (2, 4, 8, 16)  # --search halving: after these epochs the worse half of a learning rate's trials ends
SMALL = [[512, 256], [512, 256, 128], [1024, 512], [1024, 512, 256]]
LARGE = [[1024, 512], [2048, 1024], [1024, 512, 256], [2048, 1024, 512]]
RATES, BOTH = [1e-4, 5e-4, 1e-3], [False, True]
KNOBS = ("hidden", "lr", "dropout", "input_dropout", "batch_size", "weight_decay", "batch_norm")
SPACES = (  # below this many training rollouts: the choices of each knob
    (1000, (SMALL, RATES, [0.5, 0.6, 0.7], [0.2, 0.3, 0.4], [16, 32], [1e-3, 5e-3, 1e-2], [False])),
    (5000, (SMALL, RATES, [0.4, 0.5, 0.6], [0.1, 0.2, 0.3], [32, 64, 128], [1e-4, 1e-3, 5e-3], BOTH)),
    (math.inf, (LARGE, RATES, [0.3, 0.4, 0.5], [0, 0.1, 0.2], [64, 128, 256], [1e-5, 1e-4, 1e-3], BOTH)),
)
LINEAR = ([[]], [1e-3, 1e-2], [0.0], [0.0], [32], [1e-4, 1e-3, 1e-2, 0.1, 1.0], [False])
TRANSFORMER = {"width": [128, 256], "depth": [1, 2], "dropout": [0.1, 0.2, 0.3]}
DESIGNS = {  # what each is shown unless --vector says otherwise
    "mlp": common.DEFAULT_VECTOR,
    "best-layer": "all/eos",  # of one mlp a layer the one with the lowest validation loss
    "ensemble": "all/eos",  # a mixture of them, fitted on the validation part
    "transformer-final": "all/eos",
    "transformer-last10": "last10",
    "transformer-special": "special",
    "logistic": common.DEFAULT_VECTOR,
    "ridge": common.DEFAULT_VECTOR,
}


def draw_configs(n, count, seed, design="mlp", paper_space=False):
    """`count` different configurations for n training rollouts, numbered in the order drawn."""
    choices = next(choices for below, choices in SPACES if n < below)
    choices = (SMALL, *choices[1:]) if paper_space else choices
    knobs = dict(zip(KNOBS, LINEAR if design in ("logistic", "ridge") else choices, strict=True))
    if design.startswith("transformer"):
        knobs = {**{k: v for k, v in knobs.items() if k not in ("hidden", "batch_norm")}, **TRANSFORMER}
    grid = [dict(zip(knobs, values, strict=True)) for values in itertools.product(*knobs.values())]
    random.Random(seed).shuffle(grid)
    return [{"number": number, **config} for number, config in enumerate(grid[:count])]


# ------------------------------------------------------------------------------------------------------------
# What it learns from

# n labelled rollouts: x float32 [n, d] or [n, positions, d], features [n, 29] or [n, 0], y [n] 0 or 1; lists:
# problem (data set, id) and keys (run, id, sample)
Data = namedtuple("Data", "x features y problem keys")

# One search: one seed's data, split, scaled and on its device; train and valid are rows, problem is numbers
Task = namedtuple("Task", "seed data x y problem train valid scale feature_scale pos_weight configs")


def load_data(args):
    import torch

    check_same_model(args.runs)
    xs, features, ys, problems, keys, unjudged = [], [], [], [], [], 0
    for run in args.runs:
        run_keys, fetch = common.read_inputs(run, args.vector)
        labels = [row["label"] for row in common.read_labels(run, run_keys)]
        rows = [i for i, label in enumerate(labels) if label is not None]
        unjudged += len(labels) - len(rows)
        xs.append(fetch(rows))
        stats = args.inputs == "vector+stats"
        features.append(common.read_features(run, run_keys)[rows] if stats else torch.empty(len(rows), 0))
        ys += [float(labels[i]) for i in rows]
        problems += [(data_set(run), run_keys[i][0]) for i in rows]
        keys += [(str(run), *run_keys[i]) for i in rows]
    if len({x.shape[1:] for x in xs}) > 1:
        common.die(f"{where(args)}: vectors of different widths {[tuple(x.shape[1:]) for x in xs]}")
    if unjudged:
        print(f"{unjudged} of {unjudged + len(keys)} rollouts could not be judged (label null): left out")
    data = Data(torch.cat(xs), torch.cat(features), torch.tensor(ys), problems, keys)
    check_data(data, args)
    return data


def data_set(run):
    return str(common.read_meta(run).get("dataset", run))


def where(args):
    return ", ".join(map(str, args.runs))


def check_same_model(runs):
    metas = {run: common.read_meta(run) for run in runs}
    seen = {(common.model_name(meta), meta["n_layers"]): run for run, meta in metas.items()}
    if len(seen) > 1:
        told = " and ".join(f"{run} is of {name!r} ({layers} layers)" for (name, layers), run in seen.items())
        common.die(f"{told}; a scorer is for one model")


def check_data(data, args):
    count, right = len(set(data.problem)), int(data.y.sum())
    if right in (0, len(data.y)):
        common.die(f"{where(args)}: {right} of {len(data.y)} labelled rollouts are right; we need both kinds")
    if count < 4:
        common.die(f"{where(args)}: labelled rollouts of {count} problem(s); the split needs 4")
    broken = (~data.x.isfinite().flatten(1).all(1)).nonzero().flatten().tolist()
    if broken:
        told = f"{len(broken)} vectors are not finite, such as {[data.keys[i] for i in broken[:3]]}"
        common.die(f"{where(args)}: {told}; generate them again")
    if not data.features.isfinite().any(0).all():
        common.die(f"{where(args)}: no token statistics in rollouts.jsonl; 01_generate.py writes them")


def part_of(data, rows):
    columns = ([column[row] for row in rows] for column in (data.problem, data.keys))
    return Data(data.x[rows], data.features[rows], data.y[rows], *columns)


def halves(problems, seed):
    """Two sets of problems, the same for everybody who asks with this seed."""
    names = sorted(set(problems))
    random.Random(f"half {seed}").shuffle(names)
    return set(names[: len(names) // 2]), set(names[len(names) // 2 :])


def choose(data, args, seed):
    """What --half, --balance, --fraction (of the problems) and --rollouts (the first of each) leave."""
    problems = sorted(set(data.problem) if args.half is None else halves(data.problem, seed)[args.half])
    if args.balance:
        sets = [[p for p in problems if p[0] == name] for name in sorted({name for name, _ in problems})]
        rng, fewest = random.Random(f"balance {seed}"), min(map(len, sets))
        problems = [p for own in sets for p in rng.sample(own, fewest)]
    if args.fraction < 1:
        count = min(len(problems), max(4, round(args.fraction * len(problems))))  # fewer cannot be split
        problems = random.Random(f"fraction {seed}").sample(problems, count)
    kept, seen, rows = set(problems), {}, []
    for row in sorted(range(len(data.keys)), key=lambda i: data.keys[i][2]):
        place = data.keys[row][:2]  # (run, id)
        seen[place] = seen.get(place, 0) + 1
        if data.problem[row] in kept and seen[place] <= (args.rollouts or math.inf):
            rows.append(row)
    return data if len(rows) == len(data.keys) else part_of(data, sorted(rows))


def split_by_problem(data, seed):
    """(training rows, validation rows): 75 % of the problems and the rest; training has both labels."""
    problems, rng = list(dict.fromkeys(data.problem)), random.Random(f"split {seed}")
    while True:
        rng.shuffle(problems)
        training = set(problems[: round(0.75 * len(problems))])
        sides = [[i for i, p in enumerate(data.problem) if (p in training) == side] for side in (True, False)]
        if len(set(data.y[sides[0]].tolist())) == 2:
            return sides


def make_task(data, args, seed):
    import torch

    data = choose(data, args, seed)
    check_data(data, args)
    train, valid = split_by_problem(data, seed)
    scale, feature_scale = fit_scale(data.x[train]) if args.standardise else None, None
    if data.features.shape[1]:
        feature_scale = fit_scale(data.features[train])
    if scale is None:
        warn_of_massive_dimensions(data.x[train])
    x = common.standardise(data.x, scale)
    x = common.with_features(x, data.features, feature_scale) if feature_scale else x
    number = {problem: i for i, problem in enumerate(dict.fromkeys(data.problem))}
    tensors = (x, data.y, *map(torch.tensor, ([number[p] for p in data.problem], train, valid)))
    right = float(data.y[train].sum())
    configs = draw_configs(len(train), args.configs, seed, args.design, args.paper_space)
    return Task(seed, data, *(tensor.to(args.device) for tensor in tensors), scale, feature_scale,
                (len(train) - right) / right, configs)  # fmt: skip


def fit_scale(x):
    """(mean, deviation) of each dimension over what is there (finite, no absent position)."""
    there = x.isfinite() & (x != 0).any(-1, keepdim=True) if x.ndim == 3 else x.isfinite()
    count, x = there.sum(0).clamp(min=1), x.double().where(there, 0)
    mean = x.sum(0) / count
    deviation = ((x - mean).square() * there).sum(0).div(count).sqrt()
    deviation[deviation <= 1e-6 * (1 + mean.abs())] = 1.0
    return [mean.float(), deviation.float()]


def warn_of_massive_dimensions(x, limit=50):
    size = x.flatten(0, -2).square().mean(0).sqrt()
    massive = int((size > limit * size.median()).sum())
    if massive:
        told = f"{massive} of {len(size)} dimensions are over {limit} times larger than the median one"
        print(f"warning: {told}; a raw MLP may be at chance: compare with --standardise", file=sys.stderr)


# ------------------------------------------------------------------------------------------------------------
# Objectives beside torch's: logits [B], labels [B], problem numbers [B] -> loss; they rank within a problem


def pairwise(logits, y, problem):
    """-log of the chance that a right answer beats a wrong one of its problem (RankNet)."""
    from torch.nn.functional import softplus

    pairs = same_problem(problem) * y[:, None] * (1 - y)  # [right, wrong]
    return (pairs * softplus(logits - logits[:, None])).sum() / pairs.sum().clamp(min=1)


def listwise(logits, y, problem):
    """-log of the share that a right answer has in the softmax over its problem's rollouts."""
    same = same_problem(problem)
    share = logits - logits.expand_as(same).masked_fill(same == 0, -math.inf).logsumexp(-1)
    counted = y * (same @ (1 - y)).clamp(max=1)  # right answers of problems with wrong ones too
    return -(counted * share).sum() / counted.sum().clamp(min=1)


def centred(logits, y, problem):
    """Squared error after a problem's mean is taken off both: what problems differ in is no signal."""
    same, error = same_problem(problem), logits - y
    return (error - same @ error / same.sum(-1)).square().mean()


def same_problem(problem):
    return (problem[:, None] == problem).float()


RANKING = {"pairwise": pairwise, "listwise": listwise, "centred": centred}


# ------------------------------------------------------------------------------------------------------------
# Training


def train(task, config, args, board=None, epochs=EPOCHS):
    """Train one configuration -> its losses on the validation part, and the weights of its best epoch.

    board: [configurations, rungs], the best losses of a search's trials by each rung, for --search halving.
    """
    import torch
    from torch import nn

    started, seed, device = time.time(), task.seed * 1_000_003 + config["number"], task.x.device
    torch.manual_seed(seed)  # of the first weights and the dropout; the order of rows has its own
    orders = torch.Generator().manual_seed(seed)
    width = task.data.features.shape[1]
    model = common.build_scorer(args.design, config, tuple(task.x.shape[1:]), width).to(device)
    rate, decay = config["lr"], config["weight_decay"]
    optimiser = torch.optim.Adam(model.parameters(), lr=rate, weight_decay=decay, fused=True)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, factor=0.5, patience=PLATEAU)
    bce = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(task.pos_weight, device=device))
    loss_of = RANKING.get(args.loss, lambda logits, y, problem: bce(logits, y))
    record = {"config": config, "losses": [], "best": math.inf, "best_epoch": 0, "ended": "finished"}
    for epoch in range(1, epochs + 1):
        model.train()
        for rows in batches(task, config["batch_size"], orders, together=args.loss in RANKING):
            optimiser.zero_grad()
            loss_of(model(task.x[rows]), task.y[rows], task.problem[rows]).backward()
            nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimiser.step()
        model.eval()
        with torch.no_grad():
            logits = torch.cat([model(task.x[rows]) for rows in task.valid.split(1024)])
            loss = loss_of(logits, task.y[task.valid], task.problem[task.valid]).item()
        scheduler.step(loss)
        record["losses"].append(loss)
        if loss < record["best"]:
            state = {name: value.to("cpu", copy=True) for name, value in model.state_dict().items()}
            record.update(best=loss, best_epoch=epoch, state=state)
        if not math.isfinite(loss) or epoch - record["best_epoch"] >= PATIENCE:
            break
        if board is not None and epoch in RUNGS and is_hopeless(record, epoch, task.configs, board):
            record["ended"] = "dropped"
            break
    if board is not None:
        rungs = board[config["number"]]
        rungs[np.isnan(rungs)] = math.inf  # it will not get there; those after it wait for every rung
    weights = sum(p.numel() for p in model.parameters() if p.ndim > 1)
    return {**record, "weights": weights, "seconds": time.time() - started}


def batches(task, size, generator, together):
    """The training rows in a new order, cut; the rows of a problem stay `together` for objectives that rank.

    A last batch of one row joins the one before: batch norm needs two.
    """
    import torch

    order = task.train[torch.randperm(len(task.train), generator=generator).to(task.train.device)]
    if together:
        places = torch.randperm(int(task.problem.max()) + 1, generator=generator).to(order.device)
        order = order[places[task.problem[order]].argsort(stable=True)]
    cuts = list(range(size, len(order), size))
    return order.tensor_split(cuts[:-1] if cuts and len(order) - cuts[-1] == 1 else cuts)


def is_hopeless(record, epoch, configs, board):
    """Is it in the worse half of those of its learning rate that were drawn before it and got to this rung?

    It waits for those that other processes still train: the answer is the same however many there are.
    """
    number, rate, rung = record["config"]["number"], record["config"]["lr"], RUNGS.index(epoch)
    rivals = [config["number"] for config in configs[:number] if config["lr"] == rate]
    board[number, rung] = record["best"]
    while np.isnan(board[rivals, rung]).any():
        time.sleep(0.005)
    reached = [best for best in board[rivals, rung] if best < math.inf]
    return sum(best <= record["best"] for best in reached) >= (len(reached) + 2) // 2


# ------------------------------------------------------------------------------------------------------------
# The search: trials in the order drawn, given to processes


def search(tasks, args):
    """Yield (task, its records in the order drawn) as they end; only the best `--top` keep their weights."""
    trials = [(place, config) for place, task in enumerate(tasks) for config in task.configs]
    if args.search == "halving":  # all searches side by side: a trial seldom waits for the one before it
        trials.sort(key=lambda trial: trial[1]["number"])
    found = [[] for _ in tasks]
    name = f"train {args.design} on {args.vector}"
    with common.progress(total=len(trials), desc=name, unit="trial") as bar:
        for place, record in train_all(trials, tasks, args):
            bar.update()
            found[place].append(record)
            for worse in sorted(found[place], key=rank)[args.top :]:
                worse.pop("state", None)
            if len(found[place]) == len(tasks[place].configs):
                yield tasks[place], sorted(found[place], key=lambda record: record["config"]["number"])


def rank(record):
    return record["best"], record["config"]["number"]


def train_all(trials, tasks, args):
    """Yield (task number, record) as they come; on a CPU from a process a core, each of one thread."""
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    import torch

    cpu = tasks[0].x.device.type == "cpu"
    context = get_context("fork" if cpu and sys.platform == "linux" else "spawn")  # forked ones copy no data
    boards = context.RawArray("d", len(tasks) * max(len(task.configs) for task in tasks) * len(RUNGS))
    np.frombuffer(boards)[:] = math.nan
    work, processes = (tasks, args, boards, os.getpid()), min(workers(args), len(trials))
    if processes == 1:
        set_up(*work)
        yield from map(train_one, trials)
        return
    with ProcessPoolExecutor(processes, context, set_up, work) as pool:
        try:
            for done in as_completed([pool.submit(train_apart, trial) for trial in trials]):
                place, record, state = done.result()
                state = {name: torch.from_numpy(value) for name, value in state.items()}
                yield place, {**record, "state": state}
        except BrokenProcessPool:
            common.die("a search process was killed, it seems for want of memory: take fewer --workers")


def workers(args):
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return args.workers or (cores if str(args.device) == "cpu" else 1)


WORK = {}


def set_up(tasks, args, boards, parent):
    import torch

    boards = np.frombuffer(boards).reshape(len(tasks), -1, len(RUNGS))
    WORK.update(tasks=tasks, args=args, boards=boards if args.search == "halving" else [None] * len(tasks))
    if str(args.device) == "cpu":
        torch.set_num_threads(1)  # more would change the last bits, and are slower than a process each
    if os.getpid() != parent:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to hear
        threading.Thread(target=end_with, args=[parent], daemon=True).start()


def end_with(parent):
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)  # a killed search leaves no process behind


def train_one(trial):
    place, config = trial
    return place, train(WORK["tasks"][place], config, WORK["args"], WORK["boards"][place])


def train_apart(trial):
    place, record = train_one(trial)
    state = record.pop("state", {})  # tensors would travel as open files, too many of them
    return place, record, {name: value.numpy() for name, value in state.items()}


# ------------------------------------------------------------------------------------------------------------
# scorer.pt


def make_scorers(args):
    """{seed: path}: one scorer a seed, their searches sharing the processes; finished ones are left alone."""
    paths = {seed: find_finished(args, seed) for seed in args.seed}
    for path in filter(None, paths.values() if not args.study else ()):
        print(f"{path}: finished before, with these arguments and inputs")
    missing = [seed for seed, path in paths.items() if path is None]
    if missing:
        make = combine_layers if args.design in ("best-layer", "ensemble") else train_scorers
        for seed, checkpoint in make(args, missing):
            paths[seed] = path_of(args, seed)
            common.save_pt(paths[seed], {**checkpoint, "fingerprint": fingerprint(args, seed)})
            describe(paths[seed], checkpoint)
    return paths


def train_scorers(args, seeds):
    data = load_data(args)
    right, count = int(data.y.sum()), len(data.y)
    told = f"{count} rollouts of {len(set(data.problem))} problems"
    print(f"{args.vector}: {told}, {right} right ({100 * right / count:.1f} %)")
    for task, records in search([make_task(data, args, seed) for seed in seeds], args):
        yield task.seed, make_checkpoint(task, records, args)


def make_checkpoint(task, records, args):
    import torch

    meta, data = common.read_meta(args.runs[0]), task.data
    best = sorted((record for record in records if math.isfinite(record["best"])), key=rank)[: args.top]
    if not best:
        common.die(f"none of {len(records)} configurations reached a finite loss; try --standardise")
    checkpoint = {
        "format": 2, "design": args.design, "vector": args.vector, "shape": list(data.x.shape[1:]),
        "inputs": args.inputs, "scale": task.scale, "feature_scale": task.feature_scale,
        "model": common.model_name(meta), "model_content": common.model_content(meta),
        "layers_of_model": meta["n_layers"], "calibration": [1.0, 0.0],
        "members": [{"config": record["config"], "state": record["state"]} for record in best],
        "seed": task.seed, "val_loss": best[0]["best"], "pos_weight": task.pos_weight,
        "trials": [trial_row(record) for record in records],
        "arguments": {k: v for k, v in vars(args).items() if isinstance(v, (str, int, float, list))},
        "runs": list(map(str, args.runs)), "n_rollouts": len(data.y), "problems": sorted(set(data.problem)),
    }  # fmt: skip
    valid = part_of(data, task.valid.tolist())
    logits, right = common.Scorer(checkpoint)(valid.x, valid.features).numpy(), valid.y.numpy()
    if args.loss in RANKING:
        checkpoint["calibration"] = fit_sigmoid(logits, right)
    p = common.Scorer(checkpoint).probability(torch.from_numpy(logits)).numpy()
    checkpoint["stop"] = stop_curves(valid, p, args)
    places = task.x.shape[1] if args.design.startswith("transformer") else 1  # each passes all the weights
    passes = 2 * places * (3 * len(task.train) + len(task.valid))  # a backward pass is two forward ones
    flops = sum(passes * record["weights"] * len(record["losses"]) for record in records)
    cost = costs(checkpoint, data, sum(record["seconds"] for record in records), flops)
    return {**checkpoint, "val_auroc": common.auroc(right > 0, logits), "cost": cost}


def stop_curves(valid, p, args):
    """{rule: common.stop_rows} of sampling that stops, on validation problems, new to the weights."""
    facts, places = {}, {}
    for run in args.runs:
        rollouts = common.read_rollouts(run)
        for row, label in zip(rollouts, common.read_labels(run, common.keys_of(rollouts))):
            group = -1 if label.get("group") is None else label["group"]
            facts[str(run), row["id"], row["sample"]] = row.get("n_tokens", 0), group
    for i in sorted(range(len(valid.keys)), key=lambda i: valid.keys[i]):
        places.setdefault(valid.keys[i][:2], []).append(i)
    arrays = np.zeros((4, len(places), max(map(len, places.values()))))
    arrays[0], arrays[3] = -1, -1  # no rollout, no answer
    for row, own in enumerate(places.values()):
        arrays[:, row, : len(own)] = np.transpose([(p[i], valid.y[i], *facts[valid.keys[i]]) for i in own])
    curves = {"best-of-n": common.stop_rows(*arrays[:3])}
    if (arrays[3] >= 0).any():
        curves["weighted-vote"] = common.stop_rows(*arrays[:3], arrays[3].astype(int))
    return curves


def trial_row(record):
    finite = lambda value: round(value, 6) if math.isfinite(value) else None
    facts = {"val_loss": finite(record["best"]), "best_epoch": record["best_epoch"], "ended": record["ended"],
             "epochs": len(record["losses"]), "seconds": round(record["seconds"], 3)}  # fmt: skip
    return {**record["config"], **facts, "losses": [finite(value) for value in record["losses"]]}


def fit_sigmoid(logits, y):
    """[slope, offset] of the logistic curve from logits to the chance of being right (Platt), by Newton."""
    spread = logits.std() + 1e-9
    columns, w = np.stack([logits / spread, np.ones_like(logits)], 1).astype(float), np.zeros(2)
    for _ in range(50):
        p = 1 / (1 + np.exp(-columns @ w))
        hessian = columns.T @ (columns * (p * (1 - p))[:, None]) + 1e-3 * np.eye(2)
        w += np.linalg.solve(hessian, columns.T @ (y - p) - 1e-3 * w)
    return [float(max(w[0], 1e-3) / spread), float(w[1])]  # never against the score


def costs(checkpoint, data, seconds, flops):
    """What the search took, and scoring a problem's rollouts takes where 05's verifiers run by default.

    FLOPs are those of the weights.
    """
    device, n = common.pick_device(), round(len(data.y) / len({key[:2] for key in data.keys}))
    scorer, times = common.Scorer(checkpoint, device), []
    sizes = [p.numel() for module in scorer.modules for p in module.parameters()]
    for _ in range(60):
        started = time.perf_counter()
        scorer(data.x[:n], data.features[:n]).tolist()
        times.append(1e3 * (time.perf_counter() - started))
    return {"parameters": sum(sizes), "search_seconds": seconds, "search_flops": flops, "rollouts_scored": n,
            "scoring_ms": statistics.median(times[10:]), "device": common.device_name(device)}  # fmt: skip


def describe(path, checkpoint):
    cost, auroc = checkpoint["cost"], checkpoint["val_auroc"]
    auroc = "" if auroc is None else f", AUROC {auroc:.3f}"
    print(f"{path}: validation loss {checkpoint['val_loss']:.4f}{auroc}; {cost['parameters']:,} parameters\n"
          f"  {len(checkpoint['trials'])} trials in {cost['search_seconds']:.0f} s of computing, "
          f"{cost['search_flops']:.2g} FLOPs; {cost['rollouts_scored']} rollouts scored "
          f"in {cost['scoring_ms']:.2f} ms")


# ------------------------------------------------------------------------------------------------------------
# Made before? A scorer carries the fingerprint of its arguments, and of the labels and values it was shown

DECIDE = ("design", "inputs", "search", "configs", "paper_space", "loss", "standardise", "top", "fraction",
          "rollouts", "half", "balance")  # fmt: skip


def path_of(args, seed):
    if not args.study and args.store is None:
        return Path(args.out.replace("{seed}", str(seed)))
    names = "+".join(f"{short_name(run)}@{Path(run).name}" for run in args.runs)
    return Path(args.store) / f"{args.design}.{names}-{seed}.{fingerprint(args, seed)[-12:]}.pt"


def find_finished(args, seed):
    """The path of the scorer that these arguments and inputs make, or None; a study's also beside the run."""
    beside = sorted(Path(args.runs[0]).glob("*@*.pt")) if args.store else []  # as run_all.sh names them
    mark = fingerprint(args, seed).encode()
    return next((path for path in (path_of(args, seed), *beside) if mark in pickle_of(path)), None)


def pickle_of(path):
    """What a scorer.pt holds but its numbers, without loading them."""
    if not zipfile.is_zipfile(path):
        return b""
    with zipfile.ZipFile(path) as archive:
        return b"".join(archive.read(name) for name in archive.namelist() if name.endswith("data.pkl"))


def fingerprint(args, seed):
    by_name = args.vector in common.EXTRA_INPUTS or args.vector.startswith("all/")
    layers = common.read_meta(args.runs[0])["n_layers"]
    vector = args.vector if by_name else common.vector_key(args.vector, layers)
    content = [content_of(str(run), args.vector, args.inputs) for run in args.runs]
    return digest([seed, vector, [str(getattr(args, name)) for name in DECIDE], content])


@cache
def content_of(run, vector, inputs):
    """Of what is shown, not of the file: a run that is given more vectors keeps its scorers."""
    keys, fetch = common.read_inputs(run, vector)
    found = hashlib.sha256(repr([keys, common.read_labels(run, keys)]).encode())
    for start in range(0, len(keys), 4096):
        found.update(fetch(slice(start, start + 4096)).numpy().tobytes())
    found.update(common.read_features(run, keys).numpy().tobytes() if inputs == "vector+stats" else b"")
    return found.hexdigest()


def digest(value):
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


# ------------------------------------------------------------------------------------------------------------
# The paper's designs over layers, from one scorer a layer that stays as it is


def searches_of(args):
    """The searches a design consists of, as arguments: its own, or one a layer."""
    if args.design not in ("best-layer", "ensemble"):
        return [args]
    store = args.store or Path(args.out).parent / "layers"
    layers = common.captured_layers(args.runs[0], args.vector)
    return [changed(args, design="mlp", vector=layer, top=1, store=store) for layer in layers]


def combine_layers(args, seeds):
    import torch

    layers, data = [make_scorers(own) for own in searches_of(args)], load_data(args)
    for seed in seeds:
        parts = [common.load_scorer(found[seed]) for found in layers]
        facts = [part.checkpoint for part in parts]
        spent = [sum(part["cost"][name] for part in facts) for name in ("search_seconds", "search_flops")]
        trials = [{"layer": part["vector"], **trial} for part in facts for trial in part["trials"]]
        if args.design == "best-layer":
            best = min(range(len(facts)), key=lambda i: facts[i]["val_loss"])
            checkpoint, shown = facts[best], data._replace(x=data.x[:, best])
        else:
            own = choose(data, args, seed)
            valid = part_of(own, split_by_problem(own, seed)[1])
            logits = torch.stack([part(valid.x[:, i]) for i, part in enumerate(parts)], 1)  # [V, layers]
            weights, loss = fit_mixture(logits.sigmoid(), valid.y, facts[0]["pos_weight"])
            whole = {"design": "ensemble", "vector": args.vector, "shape": list(data.x.shape[1:])}
            mixed = {"members": [], "stop": {}, "parts": facts, "weights": weights, "val_loss": loss}
            checkpoint, shown = {**facts[0], **whole, **mixed}, data
            found = common.Scorer(checkpoint)(valid.x).numpy()
            checkpoint["val_auroc"] = common.auroc(valid.y.numpy() > 0, found)
        yield seed, {**checkpoint, "trials": trials, "cost": costs(checkpoint, shown, *spent)}


def fit_mixture(p, y, pos_weight):
    """p [V, layers] -> (weights, adding up to 1, whose mixture of columns has the lowest loss; that loss)."""
    import torch

    p, free = p.clone().double(), torch.zeros(p.shape[1], dtype=torch.double, requires_grad=True)
    optimiser = torch.optim.LBFGS([free], max_iter=200, line_search_fn="strong_wolfe")

    def loss():
        optimiser.zero_grad()
        mixed = (p @ free.softmax(0)).clamp(1e-7, 1 - 1e-7)
        value = -(pos_weight * y * mixed.log() + (1 - y) * (1 - mixed).log()).mean()
        value.backward()
        return value

    optimiser.step(loss)
    return free.detach().softmax(0).float(), loss().item()


def changed(args, **changes):
    return argparse.Namespace(**{**vars(args), **changes})


# ------------------------------------------------------------------------------------------------------------
# Studies: rows, each a name and what it changes; `sets`: its calibration sets, if not each RUN alone


STUDIES = ("layers", "fraction", "rollouts", "designs", "mixed", "halves", "options")


def study_rows(args):
    token = (args.vector or common.DEFAULT_VECTOR).partition("/")[2]
    n = min(common.read_meta(run).get("n", 16) for run in args.runs)
    layers = {f"{share}L": f"{share}/{token}" for share in (".15", ".3", ".45", ".6", ".75", ".9")}
    layers["L-1"] = f"penultimate/{token}"
    rows = {
        "layers": {row: {"vector": vector} for row, vector in layers.items()},
        "fraction": {f"{share:.0%}": {"fraction": share} for share in (1.0, 0.5, 0.25, 0.1)},
        "rollouts": {f"N={k}": {"rollouts": k if k < n else None} for k in (16, 12, 8, 4)},
        "designs": {design: {"design": design, "vector": None} for design in DESIGNS},
        "mixed": None,
        "halves": {"other data set": {}, "same data set": {"sets": [[run] for run in args.eval], "half": 0}},
        "options": {"default": {}, "halving": {"search": "halving"}, "top 5": {"top": 5},
                    "standardise": {"standardise": True}, "vector+stats": {"inputs": "vector+stats"},
                    **{loss: {"loss": loss} for loss in RANKING},
                    "logistic": {"design": "logistic"}, "ridge": {"design": "ridge"}},
    }  # fmt: skip
    return rows[args.study] or mixed_rows(args)


def mixed_rows(args):
    """Half and half by problems of two data sets (or more), the k-th runs in the k-th set; and each alone."""
    runs = {}
    for run in args.runs:
        runs.setdefault(short_name(run), []).append(run)
    if len(runs) < 2 or len(set(map(len, runs.values()))) > 1:
        told = ", ".join(f"{len(own)} of {name}" for name, own in runs.items())
        common.die(f"--study mixed takes as many runs of one data set as of the other, not {told}")
    alone = {name: {"sets": [[run] for run in own]} for name, own in runs.items()}
    return {"mixed": {"sets": list(map(list, zip(*runs.values()))), "balance": True}, **alone}


def short_name(run):
    return Path(data_set(run)).name.split(".json")[0]


def run_study(args):
    """Train what is missing, evaluate all, print the tables and keep their numbers."""
    plan, results = study_plan(args), {}
    announce(plan, args)
    for name, sets in plan.items():
        made = [(seed, path) for own in sets for seed, path in make_scorers(own).items()]
        found = [evaluate(path, args, seed) for seed, path in made]
        results[name] = {measure: np.array([own[measure] for own in found]) for measure in found[0]}
    report = study_report(results, args)
    print_study(report)
    path = study_path(report, Path(args.out))
    common.write_json(path, report)
    print(json.dumps(report) if args.json else f"\n{path}")


def study_plan(args):
    """{row: [the arguments of each calibration set]}, after a look at all that it will read."""
    check_same_model([*args.runs, *args.eval])
    both = {data_set(run) for run in args.runs} & {data_set(run) for run in args.eval}
    if both:
        common.die(f"{', '.join(both)} is in both RUN and --eval: what was learned from proves nothing")
    plan, shown = {}, set()
    for name, change in study_rows(args).items():
        sets = change.pop("sets", [[run] for run in args.runs])
        store = Path(args.out) / "scorers"
        plan[name] = [settle(changed(args, runs=runs, store=store, **change)) for runs in sets]
        shown |= {(str(run), own.vector, own.inputs) for own in plan[name] for run in (*own.runs, *args.eval)}
    for run, vector, inputs in sorted(shown):
        content_of(run, vector, inputs)
    return plan


def announce(plan, args):
    """How much is to be trained, and about how long that takes, by an epoch of two trials of each row."""
    trials, seconds, seen = 0, 0.0, set()
    for sets in plan.values():
        searches = [(part, seed) for own in sets for part in searches_of(own) for seed in args.seed]
        missing = {fingerprint(*search): search[0] for search in searches if not find_finished(*search)}
        missing = [part for mark, part in missing.items() if mark not in seen and not seen.add(mark)]
        if missing:
            task, started = make_task(load_data(missing[0]), missing[0], args.seed[0]), time.time()
            for config in task.configs[:2]:
                train(task, config, missing[0], epochs=1)
            epochs = 11 if missing[0].search == "halving" else 25  # as trials usually have
            trials += len(missing) * len(task.configs)
            seconds += len(missing) * len(task.configs) * epochs * (time.time() - started) / 2
    told = f"about {seconds / 3600 / workers(args):.1f} hours with {workers(args)} processes"
    print(f"study of {args.study}: {trials:,} trials to train, {told}", flush=True)



def evaluate(path, args, seed):
    """{measure: percent of each problem of the --eval runs, NaN where it has no say}; AUROC: of each run."""
    scorer = common.load_scorer(path)
    runs = [evaluate_run(scorer, run, path, args, seed) for run in args.eval]
    return {measure: 100 * np.concatenate([run[measure] for run in runs]) for measure in runs[0]}


def evaluate_run(scorer, run, path, args, seed):
    keys, logits = common.score_run(scorer, run, path)
    labels, scores, p = common.read_labels(run, keys), logits.numpy(), scorer.probability(logits).numpy()
    right = np.array([math.nan if row["label"] is None else row["label"] for row in labels])
    group = np.array([-1 if row.get("group") is None else row["group"] for row in labels])
    places = {}
    for place in sorted(range(len(keys)), key=lambda i: keys[i]):
        places.setdefault(keys[place][0], []).append(place)
    kept = halves(places, seed)[1] if args.study == "halves" else places  # the half that was not learned from
    counts = {key: own for key, own in places.items() if key in kept and np.isfinite(right[own]).all()}
    if not counts:
        common.die(f"{run}: no problem has all its rollouts judged, so nothing to evaluate on")
    rows = {key: measure(scores[i], p[i], right[i], group[i], args.n) for key, i in counts.items()}
    every = np.concatenate(list(counts.values()))
    auroc = common.auroc(right[every] > 0, scores[every])
    of = lambda name: np.array([rows[key][name] if key in rows else math.nan for key in places])
    names = next(iter(rows.values()))
    return {"AUROC": np.array([math.nan if auroc is None else auroc]), **{name: of(name) for name in names}}


def measure(scores, p, right, group, ns):
    """Of a problem, its rollouts in order: AUROC, the expected accuracy of best of n, and of the vote."""
    ranked, auroc = right[np.argsort(-scores, kind="stable")], common.auroc(right > 0, scores)
    vote = right[common.weighted_vote(group, p, scores)] if (group >= 0).any() else math.nan
    best = {f"best of {n}": common.first_of_subset(len(right), n) @ ranked for n in ns}
    return {"within a problem": math.nan if auroc is None else auroc, **best, "weighted vote": vote}


def compare(values, first):
    """Two rows' [scorers, P]: the difference of means, its standard error over problems and scorers."""
    both = np.isfinite(values).any(0) & np.isfinite(first).any(0)
    values, first = values[:, both], first[:, both]
    paired = np.nanmean(values, 0) - np.nanmean(first, 0)  # [P]
    sides = [np.nanmean(values, 1), np.nanmean(first, 1)]  # [scorers]
    sides = [sides[0] - sides[1]] if len(sides[0]) == len(sides[1]) else sides  # the same sets and seeds
    error = math.sqrt(sum(part.var(ddof=1) / len(part) for part in (paired, *sides) if len(part) > 1))
    return {"difference": paired.mean(), "standard_error": error}


def study_report(results, args):
    """What is kept of {row: {measure: [scorers, P]}}; a measure without a value anywhere is left out."""
    first, rows = next(iter(results.values())), []
    for name, found in results.items():
        row = {"row": name, "problems": 0, "scorers": len(found["AUROC"]), "measures": {}}
        for label, values in found.items():
            if np.isfinite(values).any():
                means = np.nanmean(values, 1)
                facts = {"mean": means.mean(), "std": means.std(ddof=1) if len(means) > 1 else None}
                row["measures"][label] = {**facts, "values": means.tolist(), **compare(values, first[label])}
        row["problems"] = int(np.isfinite(found[f"best of {args.n[0]}"][0]).sum())
        rows.append(row)
    sides = {"calibration": args.runs, "evaluation": args.eval}
    return {
        "format": 1, "study": args.study, "command": shlex.join(["python", *sys.argv]),
        "date": str(date.today()), "model": common.model_name(common.read_meta(args.runs[0])),
        "n": args.n, "problems": rows[0]["problems"],
        **{side: list(dict.fromkeys(map(short_name, runs))) for side, runs in sides.items()},
        **{f"{side}_runs": list(map(str, runs)) for side, runs in sides.items()},
        "settings": {name: getattr(args, name) for name in (*DECIDE, "vector", "seed", "n")}, "rows": rows,
    }  # fmt: skip


def study_path(report, folder):
    """A file a study, model and pair of data sets; one made with other settings or runs keeps its own."""
    made_by = [report[key] for key in ("settings", "calibration_runs", "evaluation_runs")]
    path = folder / ".".join([report["study"], report["model"], "-".join(
        "+".join(report[side]) for side in ("calibration", "evaluation")), "json"])  # fmt: skip
    there = common.read_json(path) if path.is_file() else report
    same = made_by == [there[key] for key in ("settings", "calibration_runs", "evaluation_runs")]
    return path if same else path.with_suffix(f".{digest(made_by)[:8]}.json")


def print_study(report):
    rows = report["rows"]
    spread = lambda m: f"{m['mean']:.1f}" + ("" if m["std"] is None else f" ± {m['std']:.1f}")
    change = lambda m: f"{m['difference']:+.1f} ± {m['standard_error']:.1f}"
    for title, shown, cell in ((report["study"], rows, spread),
                               (f"difference to {rows[0]['row']!r}", rows[1:], change)):  # fmt: skip
        cells = [[row["row"], *map(cell, row["measures"].values())] for row in shown]
        print("\n" + common.table([title, *(f"{label} %" for label in rows[0]["measures"])], cells))


# ------------------------------------------------------------------------------------------------------------


def main(argv=None):
    args = settle(parse_args(argv))
    if args.study:
        run_study(args)
    else:
        paths = make_scorers(args)
        if args.json:
            print(json.dumps({"scorers": {seed: str(path) for seed, path in paths.items()}}))


def settle(args):
    """Fill in what a design decides: its input, and for the linear ones their scale and objective."""
    args.vector = args.vector or (None if args.study and not args.store else DESIGNS[args.design])
    args.standardise |= args.design in ("logistic", "ridge")
    args.loss = {"logistic": "bce", "ridge": "centred"}.get(args.design, args.loss)
    args.device = common.pick_device(args.device) if args.device != "cpu" else "cpu"
    return args


def parse_args(argv=None):
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="labelled run folders; several are one mixed calibration set")
    add("-o", "--out", help="scorer to write, {seed}: its seed (scorer.pt); a study: a folder (studies)")
    add("--seed", type=int, nargs="+", default=[32], help="of split, search and training (paper: 32 42 52)")
    add("--inputs", choices=("vector", "vector+stats"), default="vector", help="vector+stats, SCaTR+: show a "
        "scorer the 28 token statistics and the length too")  # fmt: skip
    add("--design", choices=DESIGNS, default="mlp", help="default: mlp; logistic and ridge are linear rivals")
    add("--vector", help=f"layer/token, all/token for designs over layers (default: {common.DEFAULT_VECTOR})")
    add("--search", choices=("paper", "halving"), default="paper", help="halving ends hopeless trials early")
    add("--configs", type=int, default=100, help="configurations to try (default: 100)")
    add("--paper-space", action="store_true", help="the paper's four shapes above 5,000 rollouts too")
    add("--loss", choices=("bce", *RANKING), default="bce", help="bce, or one that ranks within a problem")
    add("--standardise", action="store_true", help="dimensions to mean 0, deviation 1 of the training part")
    add("--top", type=int, default=1, help="score with the mean of so many best configurations (default: 1)")
    add("--fraction", type=float, default=1.0, help="calibrate on this share of the problems")
    add("--rollouts", type=int, help="calibrate on the first so many rollouts of each problem")
    add("--half", type=int, choices=(0, 1), help="calibrate on one half of the problems, drawn by the seed")
    add("--balance", action="store_true", help="calibrate on as many problems of each data set")
    add("--study", choices=STUDIES, help="train and compare scorers that differ in one thing")
    add("--eval", nargs="+", default=[], metavar="RUN", help="labelled runs to evaluate a study on")
    add("-n", type=int, nargs="+", default=[4, 8, 12, 16], help="a study: rollouts to choose from")
    add("--device", help="cpu, cuda, cuda:1, mps (default: the GPU if there is one)")
    add("--workers", type=int, help="processes (default: a CPU's cores; on a GPU, which they share, 1)")
    add("--json", action="store_true", help="a last line of JSON, for programs")
    args = parser.parse_args(argv)
    args.out, args.store = args.out or ("studies" if args.study else "scorer.pt"), None
    if len(args.seed) > 1 and not args.study and "{seed}" not in args.out:
        parser.error("several seeds need {seed} in -o, such as -o 'scorers/scatr@{seed}.pt'")
    if args.study and (not args.eval or (args.study == "halves" and len(args.eval) > 1)):
        parser.error("--study needs --eval RUN, labelled runs to evaluate on (one for the study of halves)")
    counts = (args.configs, args.top, args.rollouts or 1, args.workers or 1, *args.n)
    if min(counts) < 1 or not 0 < args.fraction <= 1:
        parser.error("--configs, --top, --rollouts, --workers, -n: 1 or more; --fraction: above 0 to 1")
    if args.inputs != "vector" and args.design not in ("mlp", "logistic", "ridge"):
        parser.error("--inputs vector+stats is for the designs mlp, logistic and ridge")
    if args.design == "ensemble" and args.loss != "bce":
        parser.error("--design ensemble mixes probabilities, so it takes --loss bce")
    return args


if __name__ == "__main__":
    common.entry(main, "scorers that are written; the same command makes the others")
