"""Train a scorer on checked rollouts: hidden.pt and labels.jsonl of one or more run folders -> scorer.pt.

    python 03_train_scorer.py runs/model/humaneval/32 -o scorer.pt
    python 03_train_scorer.py runs/model/humaneval/32 --inputs vector+stats -o scorer+.pt   # SCaTR+
    python 03_train_scorer.py runs/model/*/32 --seed 32 42 52 -o '{run}/scatr.{name}-{seed}.pt'   # one a run
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
    what might help    03 C --study options                                                             5,500

01 with a finished run's arguments and these adds vectors to it. A search that two tables share, or that
run_all.sh has done, is done once. Inputs are checked and hours estimated before anything trains. A row is the
mean over calibration sets (each RUN is one) and seeds; 05 --studies prints all in the paper's shape.
"""

import argparse
import hashlib
import itertools
import json
import math
import multiprocessing
import os
import random
import shlex
import signal
import sys
import threading
import time
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
}
OVER_LAYERS = ("best-layer", "ensemble")


def draw_configs(n, job):
    """`job.configs` different configurations for n training rollouts, numbered in the order drawn."""
    choices = next(choices for below, choices in SPACES if n < below)
    choices = (SMALL, *choices[1:]) if job.paper_space else choices
    knobs = dict(zip(KNOBS, LINEAR if job.design == "logistic" else choices, strict=True))
    if job.design.startswith("transformer"):
        knobs = {**{k: v for k, v in knobs.items() if k not in ("hidden", "batch_norm")}, **TRANSFORMER}
    grid = [dict(zip(knobs, values, strict=True)) for values in itertools.product(*knobs.values())]
    random.Random(job.seed).shuffle(grid)
    return [{"number": number, **config} for number, config in enumerate(grid[: job.configs])]


# ------------------------------------------------------------------------------------------------------------
# A job: the arguments for one calibration set (its runs) and one seed


def jobs_of(args, sets, **changes):
    jobs = []
    for runs, seed in itertools.product(sets, args.seed):
        job = changed(args, runs=list(map(str, runs)), seed=seed, **changes)
        job.vector = job.vector or DESIGNS[job.design]
        job.standardise |= job.design == "logistic"
        job.device = common.pick_device(job.device) if job.device != "cpu" else "cpu"
        jobs.append(job)
    return jobs


def changed(args, **changes):
    return argparse.Namespace(**{**vars(args), **changes})


def path_of(job):
    runs = [Path(run).resolve() for run in job.runs]
    known = {"run": job.runs[0], "name": "+".join(f"{run.parent.name}@{run.name}" for run in runs),
             "seed": job.seed, "design": job.design, "mark": fingerprint(job)[:12]}  # fmt: skip
    path = str(job.out)
    for name, value in known.items():
        path = path.replace(f"{{{name}}}", str(value))
    return Path(path)


# ------------------------------------------------------------------------------------------------------------
# What it learns from

# n rollouts. Tensors: x [n, d] or [n, positions, d], features [n, 29] or [n, 0], y (0, 1 or NaN: not judged),
# tokens and group (-1: no answer) [n]. Lists: problem (data set, id) and keys (run, id, sample)
Data = namedtuple("Data", "x features y tokens group problem keys")

# One search. x is scaled; what is trained on is on the device; train and valid are rows, problem is numbers
Task = namedtuple("Task", "job data x y problem train valid scale feature_scale pos_weight configs")


def load_data(job):
    """All rollouts of a job's runs."""
    import torch

    parts = []
    for run in job.runs:
        keys, fetch = common.read_inputs(run, job.vector)
        sizes = ({k: row.get(k) for k in ("id", "sample", "n_tokens")} for row in common.each_rollout(run))
        sizes, labels = common.align(list(sizes), keys, run), common.read_labels(run, keys)
        features = common.read_features(run, keys) if job.inputs != "vector" else torch.empty(len(keys), 0)
        facts = column(labels, "label"), column(sizes, "n_tokens", 0), column(labels, "group", -1)
        names = [(data_set(run), key[0]) for key in keys], [(run, *key) for key in keys]
        parts.append((fetch(slice(None)), features, *map(torch.from_numpy, facts), *names))
    widths = sorted({tuple(part[0].shape[1:]) for part in parts})
    if len(widths) > 1:
        common.die(f"{', '.join(job.runs)}: vectors of different widths {widths}")
    columns = list(zip(*parts))
    return Data(*map(torch.cat, columns[:5]), *(list(itertools.chain(*column)) for column in columns[5:]))


def column(rows, name, missing=math.nan):
    return np.array([missing if row.get(name) is None else row[name] for row in rows], dtype=np.float32)


def data_set(run):
    return str(common.read_meta(run).get("dataset", run))


def short_name(run):
    return common.short_name(data_set(run))


def check_same_model(runs):
    metas = {run: common.read_meta(run) for run in runs}
    seen = {(common.model_name(meta), meta["n_layers"]): run for run, meta in metas.items()}
    if len(seen) > 1:
        told = " and ".join(f"{run} is of {name!r} ({layers} layers)" for (name, layers), run in seen.items())
        common.die(f"{told}; a scorer is for one model")


def halves(problems, seed):
    """Two sets of problems, the same for everybody who asks with this seed."""
    names = sorted(set(problems))
    random.Random(f"half {seed}").shuffle(names)
    return set(names[: len(names) // 2]), set(names[len(names) // 2 :])


def choose(data, job):
    """Judged rollouts that job.half, balance (of problems a data set), fraction and rollouts leave."""
    problems = sorted(set(data.problem) if job.half is None else halves(data.problem, job.seed)[job.half])
    if job.balance:
        sets = [[p for p in problems if p[0] == name] for name in sorted({name for name, _ in problems})]
        rng, fewest = random.Random(f"balance {job.seed}"), min(map(len, sets))
        problems = [p for own in sets for p in rng.sample(own, fewest)]
    if job.fraction < 1:
        count = min(len(problems), max(4, round(job.fraction * len(problems))))  # fewer cannot be split
        problems = random.Random(f"fraction {job.seed}").sample(problems, count)
    kept, most, judged = set(problems), job.rollouts or math.inf, data.y.isfinite().tolist()
    rows = [i for i, key in enumerate(data.keys) if judged[i] and data.problem[i] in kept and key[2] < most]
    return data if len(rows) == len(data.keys) else part_of(data, rows)


def part_of(data, rows):
    return Data(*(x[rows] for x in data[:5]), *([column[row] for row in rows] for column in data[5:]))


def check_data(data, job):
    count, right = len(set(data.problem)), int(data.y.sum())
    broken = [data.keys[i] for i in (~data.x.isfinite().flatten(1).all(1)).nonzero().flatten().tolist()]
    for wrong, told in (
        (right in (0, len(data.y)), f"{right} of {len(data.y)} labelled rollouts are right; both are needed"),
        (count < 4, f"labelled rollouts of {count} problem(s); the split needs 4"),
        (broken, f"{len(broken)} vectors are not finite, such as {broken[:3]}; generate them again"),
        (not data.features.isfinite().any(0).all(), "no token statistics; 01_generate.py writes them"),
    ):
        if wrong:
            common.die(f"{', '.join(job.runs)}: {told}")


def split_by_problem(data, seed):
    """(training rows, validation rows): 75 % of the problems and the rest; training has both labels."""
    problems, rng = list(dict.fromkeys(data.problem)), random.Random(f"split {seed}")
    while True:
        rng.shuffle(problems)
        training = set(problems[: round(0.75 * len(problems))])
        sides = [[i for i, p in enumerate(data.problem) if (p in training) == side] for side in (True, False)]
        if len(set(data.y[sides[0]].tolist())) == 2:
            return sides


def make_task(data, job):
    import torch

    data = choose(data, job)
    check_data(data, job)
    train, valid = split_by_problem(data, job.seed)
    scale = fit_scale(data.x[train]) if job.standardise else warn_of_massive_dimensions(data.x[train])
    feature_scale = fit_scale(data.features[train]) if job.inputs != "vector" else None
    x = common.standardise(data.x, scale)
    x = common.with_features(x, data.features, feature_scale) if feature_scale else x
    number = {problem: i for i, problem in enumerate(dict.fromkeys(data.problem))}
    tensors = (x, data.y, *map(torch.tensor, ([number[p] for p in data.problem], train, valid)))
    right, configs = data.y[train].sum().item(), draw_configs(len(train), job)
    return Task(job, data, *(tensor.to(job.device) for tensor in tensors), scale, feature_scale,
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
# Training


def pairwise(logits, y, problem):
    """-log of the chance that a right answer beats a wrong one of its problem (RankNet)."""
    from torch.nn.functional import softplus

    pairs = (problem[:, None] == problem) * y[:, None] * (1 - y)  # [right, wrong]
    return (pairs * softplus(logits - logits[:, None])).sum() / pairs.sum().clamp(min=1)


# Objectives beside torch's: logits [B], labels [B], problem numbers [B] -> loss; they rank within a problem
LOSSES = {"pairwise": pairwise}


def train(task, config, board=None, epochs=EPOCHS):
    """Train one configuration -> (its row in the table of trials, the weights of its best epoch).

    board: [configurations, rungs], the best losses of a search's trials by each rung, for --search halving.
    """
    import torch
    from torch import nn

    job, device, started = task.job, task.x.device, time.time()
    seed, width = job.seed * 1_000_003 + config["number"], task.data.features.shape[1]
    torch.manual_seed(seed)  # of the first weights and the dropout; the order of rows has its own
    orders = torch.Generator().manual_seed(seed)
    model = common.build_scorer(job.design, config, tuple(task.x.shape[1:]), width).to(device)
    rate, decay = config["lr"], config["weight_decay"]
    optimiser = torch.optim.Adam(model.parameters(), lr=rate, weight_decay=decay, fused=True)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, factor=0.5, patience=PLATEAU)
    bce = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(task.pos_weight, device=device))
    loss_of = LOSSES.get(job.loss, lambda logits, y, problem: bce(logits, y))
    row, state = {**config, "losses": [], "val_loss": math.inf, "best_epoch": 0, "ended": "finished"}, {}
    for epoch in range(1, epochs + 1):
        model.train()
        for rows in batches(task, config["batch_size"], orders):
            optimiser.zero_grad()
            loss_of(model(task.x[rows]), task.y[rows], task.problem[rows]).backward()
            nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimiser.step()
        model.eval()
        with torch.no_grad():
            logits = torch.cat([model(task.x[rows]) for rows in task.valid.split(1024)])
            loss = loss_of(logits, task.y[task.valid], task.problem[task.valid]).item()
        scheduler.step(loss)
        row["losses"].append(loss)
        if loss < row["val_loss"]:
            row.update(val_loss=loss, best_epoch=epoch)
            state = {name: value.cpu().numpy().copy() for name, value in model.state_dict().items()}
        if not math.isfinite(loss) or epoch - row["best_epoch"] >= PATIENCE:
            break
        if board is not None and epoch in RUNGS and is_hopeless(row, task.configs, board):
            row["ended"] = "dropped"
            break
    if board is not None:  # it gets to no other rung; those drawn after it wait for every one
        np.nan_to_num(board[config["number"]], copy=False, nan=math.inf, posinf=math.inf)
    weights = sum(p.numel() for p in model.parameters() if p.ndim > 1)
    return {**row, "epochs": len(row["losses"]), "weights": weights, "seconds": time.time() - started}, state


def batches(task, size, generator):
    """The training rows in a new order, cut; objectives that rank get the rows of a problem side by side.

    A last batch of one row joins the one before: batch norm needs two.
    """
    import torch

    order = task.train[torch.randperm(len(task.train), generator=generator).to(task.train.device)]
    if task.job.loss in LOSSES:
        places = torch.randperm(int(task.problem.max()) + 1, generator=generator).to(order.device)
        order = order[places[task.problem[order]].argsort(stable=True)]
    cuts = list(range(size, len(order), size))
    return order.tensor_split(cuts[:-1] if cuts and len(order) - cuts[-1] == 1 else cuts)


def is_hopeless(row, configs, board):
    """Is it in the worse half of those of its learning rate that were drawn before it and got to this rung?

    It waits for those that other processes still train: the answer is the same however many there are.
    """
    number, rung = row["number"], RUNGS.index(len(row["losses"]))
    rivals = [config["number"] for config in configs[:number] if config["lr"] == row["lr"]]
    board[number, rung] = row["val_loss"]
    while np.isnan(board[rivals, rung]).any():
        time.sleep(0.005)
    reached = [best for best in board[rivals, rung] if best < math.inf]
    return sum(best <= row["val_loss"] for best in reached) >= (len(reached) + 2) // 2


# ------------------------------------------------------------------------------------------------------------
# The search: trials in the order drawn, given to processes


def search(tasks):
    """Yield (task, its rows of trials, {number: weights} of the best `--top`) as searches end."""
    job, rows, states = tasks[0].job, [[] for _ in tasks], [{} for _ in tasks]
    trials = [(place, config) for place, task in enumerate(tasks) for config in task.configs]
    if job.search == "halving":  # a run's searches side by side: a trial seldom waits for another
        trials.sort(key=lambda trial: (tasks[trial[0]].job.runs, trial[1]["number"]))
    name = f"train {job.design} on {job.vector}"
    for place, row, state in common.progress(train_all(trials, tasks), len(trials), name, "trial"):
        rows[place].append(row)
        states[place][row["number"]] = state
        best = sorted(filter(lambda row: row["best_epoch"], rows[place]), key=lambda row: row["val_loss"])
        states[place] = {row["number"]: states[place][row["number"]] for row in best[: job.top]}
        if len(rows[place]) == len(tasks[place].configs):
            yield tasks[place], rows[place], states[place]


def train_all(trials, tasks):
    """Yield (task number, row, weights) in order; on a CPU from a process a core, each of one thread."""
    from concurrent.futures import ProcessPoolExecutor, process

    import torch

    job = tasks[0].job
    torch.optim.Adam([torch.zeros(1)])  # loads here what else each process would load at its first step
    fork = job.device == "cpu" and sys.platform == "linux"  # copies no data
    context = multiprocessing.get_context("fork" if fork else "spawn")
    board = context.RawArray("d", [math.nan] * len(tasks) * job.configs * len(RUNGS))
    if min(workers(job), len(trials)) == 1:
        set_up(tasks, board)
        yield from map(train_one, trials)
        return
    with ProcessPoolExecutor(min(workers(job), len(trials)), context, set_up, (tasks, board)) as pool:
        futures = [pool.submit(train_one, trial) for trial in trials]  # pool.map: tracebacks at Ctrl-C
        try:
            while futures:
                yield futures.pop(0).result()
        except process.BrokenProcessPool:
            common.die("a search process was killed, it seems for want of memory: take fewer --workers")


def workers(job):
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return job.workers or (cores if job.device == "cpu" else 1)


WORK = {}


def set_up(tasks, board):
    import torch

    boards = np.frombuffer(board).reshape(len(tasks), -1, len(RUNGS))
    WORK.update(tasks=tasks, boards=boards if tasks[0].job.search == "halving" else [None] * len(tasks))
    if tasks[0].job.device == "cpu":
        torch.set_num_threads(1)  # more would change the last bits, and are slower than a process each
    if multiprocessing.parent_process():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to hear
        parent = multiprocessing.parent_process()  # a killed search leaves no process behind
        threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


def train_one(trial):
    place, config = trial
    return place, *train(WORK["tasks"][place], config, WORK["boards"][place])


# ------------------------------------------------------------------------------------------------------------
# scorer.pt


def make_scorers(jobs):
    """Each job's path: searches share the processes; what was finished before is left alone."""
    paths = [find_finished(job) for job in jobs]
    missing = [job for job, path in zip(jobs, paths) if path is None]
    for path in filter(None, () if jobs[0].study else paths):
        print(f"{path}: finished before, with these arguments and inputs")
    for job, checkpoint in (combine_layers if jobs[0].design in OVER_LAYERS else train_scorers)(missing):
        path, cost, auroc = path_of(job), checkpoint["cost"], checkpoint["val_auroc"] or math.nan
        common.save_pt(path, {**checkpoint, "fingerprint": fingerprint(job)})
        told = f"{len(checkpoint['trials'])} trials in {cost['search_seconds']:.0f} s of computing"
        print(f"{path}: validation loss {checkpoint['val_loss']:.4f}, AUROC {auroc:.3f}; {told}")
    return [path or path_of(job) for path, job in zip(paths, jobs)]


def train_scorers(jobs):
    tasks = []
    for _, own in itertools.groupby(jobs, lambda job: (job.runs, job.vector)):
        own = list(own)
        data = load_data(own[0])
        tasks += [make_task(data, job) for job in own]
        unknown, told = int(data.y.isnan().sum()), f"{np.nanmean(data.y):.1%} of {len(data.y)} rollouts right"
        told += f"; {unknown} could not be judged (label null): left out" if unknown else ""
        print(f"{', '.join(own[0].runs)}, {own[0].vector}: {told}")
    for task, rows, states in search(tasks) if tasks else ():
        yield task.job, make_checkpoint(task, rows, states)


def make_checkpoint(task, rows, states):
    import torch

    job, data, configs = task.job, task.data, {config["number"]: config for config in task.configs}
    meta, valid = common.read_meta(job.runs[0]), part_of(data, task.valid.tolist())
    if not states:
        common.die(f"none of {len(rows)} configurations reached a finite loss; try --standardise")
    tensors = lambda state: {name: torch.from_numpy(value) for name, value in state.items()}
    checkpoint = {
        "format": 2, "design": job.design, "vector": job.vector, "shape": list(data.x.shape[1:]),
        "inputs": job.inputs, "scale": task.scale, "feature_scale": task.feature_scale,
        "model": common.model_name(meta), "model_content": meta.get("identity", {}).get("model"),
        "layers_of_model": meta["n_layers"], "calibration": [1.0, 0.0], "seed": job.seed, "runs": job.runs,
        "members": [{"config": configs[number], "state": tensors(states[number])} for number in states],
        "val_loss": min(row["val_loss"] for row in rows), "pos_weight": task.pos_weight, "trials": rows,
        "arguments": {k: v for k, v in vars(job).items() if isinstance(v, (str, int, float, list))},
        "n_rollouts": len(data.y), "problems": sorted(set(data.problem)),
    }  # fmt: skip
    logits = common.Scorer(checkpoint)(valid.x, valid.features)
    if job.loss in LOSSES:
        checkpoint["calibration"] = fit_sigmoid(logits.numpy(), valid.y.numpy())
    checkpoint["stop"] = stop_curves(valid, common.Scorer(checkpoint).probability(logits))
    checkpoint["val_auroc"] = common.auroc(valid.y.numpy() > 0, logits.numpy())
    places = task.x.shape[1] if job.design.startswith("transformer") else 1  # each passes all the weights
    passes = 2 * places * (3 * len(task.train) + len(task.valid))  # a backward pass is two forward ones
    spent = sum(row["seconds"] for row in rows), sum(passes * row["weights"] * row["epochs"] for row in rows)
    return {**checkpoint, "cost": costs(checkpoint, data, *spent)}


def stop_curves(valid, p):
    """{rule: common.stop_rows} of sampling that stops, on validation problems, new to the weights."""
    places = by_problem(valid.keys)
    table = np.zeros((4, len(places), max(map(len, places.values()))))
    table[[0, 3]] = -1  # no rollout, no answer
    for i, own in enumerate(places.values()):
        table[:, i, : len(own)] = np.stack([p[own], valid.y[own], valid.tokens[own], valid.group[own]])
    curves = {"best-of-n": common.stop_rows(*table[:3])}
    if (valid.group >= 0).any():
        curves["weighted-vote"] = common.stop_rows(*table[:3], table[3].astype(int))
    return curves


def by_problem(keys):
    """{key without its sample: places of its rollouts, in their order}"""
    places = {}
    for place in sorted(range(len(keys)), key=lambda i: keys[i]):
        places.setdefault(keys[place][:-1], []).append(place)
    return places


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
    """What the search took (FLOPs of the weights), and scoring a problem where 05 runs its verifiers."""
    device, n = common.pick_device(), round(len(data.y) / len(by_problem(data.keys)))
    scorer, times = common.Scorer(checkpoint, device), []
    for _ in range(60):
        started = time.perf_counter()
        scorer(data.x[:n], data.features[:n]).tolist()
        times.append(1e3 * (time.perf_counter() - started))
    size = sum(p.numel() for module in scorer.modules for p in module.parameters())
    return {"parameters": size, "search_seconds": seconds, "search_flops": flops, "rollouts_scored": n,
            "scoring_ms": float(np.median(times[10:])), "device": common.device_name(device)}  # fmt: skip


# ------------------------------------------------------------------------------------------------------------
# Made before? A scorer carries the fingerprint of its arguments, and of the labels and values it was shown

KEPT = "{design}.{name}-{seed}.{mark}.pt"  # the file of a study's scorer
DECIDE = ("design", "inputs", "search", "configs", "paper_space", "loss", "standardise", "top", "fraction",
          "rollouts", "half", "balance")  # fmt: skip


def find_finished(job):
    """The path of the scorer that these arguments and inputs make, or None; a study's also beside the run."""
    beside = Path(job.runs[0]).glob("*@*.pt") if job.study else ()  # as run_all.sh names them
    there = (path for path in (path_of(job), *beside) if path.is_file())
    return next((path for path in there if made_by(path, path.stat().st_mtime_ns) == fingerprint(job)), None)


@cache
def made_by(path, written):
    return common.load_pt(path).get("fingerprint")


def fingerprint(job):
    by_name = job.vector in common.EXTRA_INPUTS or job.vector.startswith("all/")
    layers = common.read_meta(job.runs[0])["n_layers"]
    vector = job.vector if by_name else common.vector_key(job.vector, layers)
    content = [content_of(str(run), job.vector, job.inputs) for run in job.runs]
    return digest([job.seed, vector, [str(getattr(job, name)) for name in DECIDE], content])


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


def searches_of(job):
    """The searches a job consists of: itself, or one a layer."""
    if job.design not in OVER_LAYERS:
        return [job]
    out = Path(job.out).parent / ("" if job.study else "layers") / KEPT
    stored, columns = common.open_hidden(job.runs[0], job.vector)
    layers = [stored["vectors"][column] for column in columns]
    return [changed(job, design="mlp", vector=layer, top=1, out=out) for layer in layers]


def combine_layers(jobs):
    import torch

    for job in jobs:
        parts, data = [common.load_scorer(path) for path in make_scorers(searches_of(job))], load_data(job)
        facts = [part.checkpoint for part in parts]
        if job.design == "best-layer":
            best = min(range(len(facts)), key=lambda i: facts[i]["val_loss"])
            checkpoint, data = facts[best], data._replace(x=data.x[:, best])
        else:
            own = choose(data, job)
            valid = part_of(own, split_by_problem(own, job.seed)[1])
            logits = torch.stack([part(valid.x[:, i]) for i, part in enumerate(parts)], 1)  # [V, layers]
            weights, loss = fit_mixture(logits.sigmoid(), valid.y, facts[0]["pos_weight"])
            auroc = common.auroc(valid.y.numpy() > 0, common.mixture(logits, weights).numpy())
            whole = {"design": "ensemble", "vector": job.vector, "shape": list(data.x.shape[1:]), "stop": {}}
            found = {"parts": facts, "weights": weights, "val_loss": loss, "val_auroc": auroc, "members": []}
            checkpoint = {**facts[0], **whole, **found}
        spent = [sum(part["cost"][name] for part in facts) for name in ("search_seconds", "search_flops")]
        trials = [{"layer": part["vector"], **trial} for part in facts for trial in part["trials"]]
        yield job, {**checkpoint, "trials": trials, "cost": costs(checkpoint, data, *spent)}


def fit_mixture(p, y, pos_weight):
    """p [V, layers] -> (weights, adding up to 1, whose mixture has the lowest loss; that loss), by EM."""
    import torch

    right = y[:, None] > 0
    p, count = p.double().clamp(1e-7, 1 - 1e-7), 1 + (pos_weight - 1) * right.double()
    told = torch.where(right, p, 1 - p)  # [V, layers], the chance each gave to what is true
    weights = torch.full((p.shape[1],), 1 / p.shape[1], dtype=torch.double)
    for _ in range(2000):
        share = told * weights
        weights = (count * share / share.sum(1, keepdim=True)).sum(0) / count.sum()
    return weights.float(), -(count[:, 0] * (told @ weights).log()).mean().item()


# ------------------------------------------------------------------------------------------------------------
# Studies: rows, each a name and what it changes; `sets`: its calibration sets, if not each RUN alone

STUDIES = ("layers", "fraction", "rollouts", "designs", "mixed", "halves", "options")


def study_rows(args):
    token = (args.vector or common.DEFAULT_VECTOR).partition("/")[2]
    n = min(common.read_meta(run).get("n", 16) for run in args.runs)
    layers = {f"{share}L": f"{share}/{token}" for share in (".15", ".3", ".45", ".6", ".75", ".9")}
    rows = {
        "layers": {row: {"vector": name} for row, name in (layers | {"L-1": f"penultimate/{token}"}).items()},
        "fraction": {f"{share:.0%}": {"fraction": share} for share in (1.0, 0.5, 0.25, 0.1)},
        "rollouts": {f"N={k}": {"rollouts": k if k < n else None} for k in (16, 12, 8, 4)},
        "designs": {design: {"design": design, "vector": None} for design in DESIGNS},
        "mixed": mixed_rows(args) if args.study == "mixed" else None,
        "halves": {"other data set": {}, "same data set": {"sets": [[run] for run in args.eval], "half": 0}},
        "options": {"default": {}, "halving": {"search": "halving"}, "top 5": {"top": 5},
                    "standardise": {"standardise": True}, "vector+stats": {"inputs": "vector+stats"},
                    **{loss: {"loss": loss} for loss in LOSSES},
                    "logistic": {"design": "logistic"}},
    }  # fmt: skip
    return rows[args.study]


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


def run_study(args):
    """Train what is missing, evaluate all, print the tables and keep their numbers."""
    plan, results = study_plan(args), {}
    announce(plan, args)
    for name, jobs in plan.items():
        results[name] = [evaluate(path, job, args) for path, job in zip(make_scorers(jobs), jobs)]
    report = study_report(results, args)
    sides = ("+".join(report[side]) for side in ("calibration", "evaluation"))
    name = f"{args.study}.{report['model']}.{'-'.join(sides)}.{digest(report['settings'])[:8]}.json"
    common.write_json(Path(args.out) / name, report)
    rows, measures = report["rows"], [f"{measure} %" for measure in report["rows"][0]["measures"]]
    spread = lambda m: f"{m['mean']:.1f}" + ("" if m["std"] is None else f" ± {m['std']:.1f}")
    change = lambda m: f"{m['difference']:+.1f} ± {m['standard_error']:.1f}"
    for title, cell in ((args.study, spread), (f"difference to {rows[0]['row']!r}", change)):
        cells = [[row["row"], *map(cell, row["measures"].values())] for row in rows]
        print("\n" + common.table([title, *measures], cells))
    print(json.dumps(report) if args.json else f"\n{Path(args.out) / name}")


def study_plan(args):
    """{row: its jobs}, after a look at all that they will read."""
    both = set(map(data_set, args.runs)) & set(map(data_set, args.eval))
    if both:
        common.die(f"{', '.join(both)} is in both RUN and --eval: what was learned from proves nothing")
    usual = {"sets": [[run] for run in args.runs], "out": Path(args.out) / "scorers" / KEPT}
    plan = {name: jobs_of(args, **{**usual, **change}) for name, change in study_rows(args).items()}
    jobs = list(itertools.chain(*plan.values()))
    read = {(run, job.vector, job.inputs) for job in jobs for run in (*job.runs, *args.eval)}
    for run, *shown in sorted(read):
        content_of(run, *shown)
    return plan


def announce(plan, args):
    """How much is to be trained, and about how long that takes, by an epoch of two trials of each row."""
    trials, hours, seen = 0, 0.0, set()
    for jobs in plan.values():
        searches = {fingerprint(part): part for job in jobs for part in searches_of(job)}
        missing = [part for mark, part in searches.items() if mark not in seen and not find_finished(part)]
        seen |= set(searches)
        if missing:
            task, started = make_task(load_data(missing[0]), missing[0]), time.time()
            for config in task.configs[:2]:
                train(task, config, epochs=1)
            epochs, count = 11 if missing[0].search == "halving" else 25, len(missing) * len(task.configs)
            trials, hours = trials + count, hours + count * epochs * (time.time() - started) / 2 / 3600
    processes = workers(jobs[0])
    told = f"about {hours / processes:.1f} hours with {processes} processes"
    print(f"study of {args.study}: {trials:,} trials to train, {told}", flush=True)


def evaluate(path, job, args):
    """{(run, problem): {measure: value}}; the AUROC of a run as a whole stands under (run,)."""
    scorer, found = common.load_scorer(path), {}
    for run in args.eval:
        keys, logits = common.score_run(scorer, run, path)
        labels, scores, p = common.read_labels(run, keys), logits.numpy(), scorer.probability(logits).numpy()
        right, group, places = column(labels, "label"), column(labels, "group", -1), by_problem(keys)
        kept = halves(places, job.seed)[1] if args.study == "halves" else places  # the half not learned from
        judged = {key: own for key, own in places.items() if key in kept and np.isfinite(right[own]).all()}
        if not judged:
            common.die(f"{run}: no problem has all its rollouts judged, so nothing to evaluate on")
        every = np.concatenate(list(judged.values()))
        found[(run,)] = {"AUROC": common.auroc(right[every] > 0, scores[every])}
        for key, i in judged.items():
            found[(run, *key)] = measure(scores[i], p[i], right[i], group[i], args.n)
    return found


def measure(scores, p, right, group, ns):
    """Of a problem, its rollouts in order: AUROC, the expected accuracy of best of n, and of the vote."""
    ranked = right[np.argsort(-scores, kind="stable")]
    vote = right[common.weighted_vote(group, p, scores)] if (group >= 0).any() else None
    best = {f"best of {n}": common.first_of_subset(len(right), n) @ ranked for n in ns}
    return {"within a problem": common.auroc(right > 0, scores), **best, "weighted vote": vote}


def study_report(results, args):
    """What is kept of {row: [`evaluate` of each scorer]}; a measure without a value is left out."""
    keys = list(dict.fromkeys(key for found in itertools.chain(*results.values()) for key in found))
    names = dict.fromkeys(name for values in next(iter(results.values()))[0].values() for name in values)
    rows = {row: {"row": row, "measures": {}} for row in results}
    for name, row in itertools.product(names, results):
        first, values = (np.array([[found.get(key, {}).get(name) for key in keys] for found in results[own]],
                                  dtype=float) * 100 for own in (next(iter(results)), row))  # fmt: skip
        if np.isfinite(values).any():
            means = np.nanmean(values, 1)  # [scorers]
            facts = {"mean": means.mean(), "std": means.std(ddof=1) if len(means) > 1 else None}
            rows[row]["measures"][name] = {**facts, "values": means.tolist(), **compare(values, first)}
    sides = {"calibration": args.runs, "evaluation": args.eval}
    settings = {name: getattr(args, name) for name in (*DECIDE, "vector", "seed", "n", "runs", "eval")}
    return {
        "format": 1, "study": args.study, "command": shlex.join(["python", *sys.argv]), "settings": settings,
        "date": str(date.today()), "model": common.model_name(common.read_meta(args.runs[0])),
        **{side: list(dict.fromkeys(map(short_name, runs))) for side, runs in sides.items()},
        "problems": len(keys) - len(args.eval), "rows": list(rows.values()),
    }  # fmt: skip


def compare(values, first):
    """Two rows' [scorers, P]: the difference of means, its standard error over problems and scorers."""
    both = np.isfinite(values).any(0) & np.isfinite(first).any(0)
    values, first = values[:, both], first[:, both]
    paired = np.nanmean(values, 0) - np.nanmean(first, 0)  # [P]
    sides = [np.nanmean(values, 1), np.nanmean(first, 1)]  # [scorers]
    sides = [sides[0] - sides[1]] if len(sides[0]) == len(sides[1]) else sides  # the same sets and seeds
    error = math.sqrt(sum(part.var(ddof=1) / len(part) for part in (paired, *sides) if len(part) > 1))
    return {"difference": paired.mean(), "standard_error": error}


# ------------------------------------------------------------------------------------------------------------


def main(argv=None):
    args = parse_args(argv)
    check_same_model([*args.runs, *args.eval])
    if args.study:
        return run_study(args)
    sets = [[run] for run in args.runs] if "{run}" in args.out else [args.runs]
    paths = make_scorers(jobs_of(args, sets))
    if args.json:
        print(json.dumps({"scorers": list(map(str, paths))}))


def parse_args(argv=None):
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="labelled run folders; several are one mixed calibration set")
    add("-o", "--out", help="scorer to write (scorer.pt), or a study's folder (studies). {seed}: its seed; "
        "{run}: its RUN, so that each has a scorer of its own; {name}: that as SET@SEED")  # fmt: skip
    add("--seed", type=int, nargs="+", default=[32], help="of split, search and training (paper: 32 42 52)")
    add("--inputs", choices=("vector", "vector+stats"), default="vector", help="vector+stats, SCaTR+: show a "
        "scorer the 28 token statistics and the length too")  # fmt: skip
    add("--design", choices=DESIGNS, default="mlp", help="default: mlp")
    add("--vector", help=f"layer/token, all/token for designs over layers (default: {common.DEFAULT_VECTOR})")
    add("--search", choices=("paper", "halving"), default="paper", help="halving ends hopeless trials early")
    add("--configs", type=int, default=100, help="configurations to try (default: 100)")
    add("--paper-space", action="store_true", help="the paper's four shapes above 5,000 rollouts too")
    add("--loss", choices=("bce", *LOSSES), default="bce", help="bce, or one that ranks within a problem")
    add("--standardise", action="store_true", help="dimensions to mean 0, deviation 1 of the training part")
    add("--top", type=int, default=1, help="score with the mean of so many best configurations (default: 1)")
    add("--fraction", type=float, default=1.0, help="calibrate on this share of the problems")
    add("--rollouts", type=int, help="calibrate on the first so many rollouts of each problem")
    add("--study", choices=STUDIES, help="train and compare scorers that differ in one thing")
    add("--eval", nargs="+", default=[], metavar="RUN", help="labelled runs to evaluate a study on")
    add("-n", type=int, nargs="+", default=[4, 8, 12, 16], help="a study: rollouts to choose from")
    add("--device", help="cpu, cuda, cuda:1, mps (default: the GPU if there is one)")
    add("--workers", type=int, help="processes (default: a CPU's cores; on a GPU, which they share, 1)")
    add("--json", action="store_true", help="a last line of JSON, for programs")
    parser.set_defaults(half=None, balance=False)  # what only studies change
    args = parser.parse_args(argv)
    args.out = args.out or ("studies" if args.study else "scorer.pt")
    if len(args.seed) > 1 and not args.study and "{seed}" not in args.out:
        parser.error("several seeds need {seed} in -o, such as -o 'scorers/scatr@{seed}.pt'")
    if not args.study and Path(args.out).is_dir():
        parser.error(f"-o {args.out} is a folder; name a file in it, such as {args.out}/scorer.pt")
    if args.study and (not args.eval or (args.study == "halves" and len(args.eval) > 1)):
        parser.error("--study needs --eval RUN, labelled runs to evaluate on (one for the study of halves)")
    counts = (args.configs, args.top, args.rollouts or 1, args.workers or 1, *args.n)
    if min(counts) < 1 or not 0 < args.fraction <= 1:
        parser.error("--configs, --top, --rollouts, --workers, -n: 1 or more; --fraction: above 0 to 1")
    if args.inputs != "vector" and args.design not in ("mlp", "logistic"):
        parser.error("--inputs vector+stats is for the designs mlp and logistic")
    if args.design == "ensemble" and args.loss != "bce":
        parser.error("--design ensemble mixes probabilities, so it takes --loss bce")
    return args


if __name__ == "__main__":
    common.entry(main, "scorers that are written; the same command makes the others")
