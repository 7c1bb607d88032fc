"""Train a scorer on labelled rollouts: hidden.pt and labels.jsonl of one or more run folders -> scorer.pt.

    python 03_train_scorer.py runs/model/humaneval/32 -o scorer.pt
    python 03_train_scorer.py runs/model/humaneval/32 --inputs vector+stats -o scorer+.pt   # SCaTR+
    python 03_train_scorer.py runs/model/*/32 --separate --seed 32 42 52 -o scatr.pt   # one a run and seed

This is the paper's random search: it trains 100 small MLPs on three quarters of the problems and keeps the
one with the lowest loss on the others. Problems of one `family` (a field of a problem: its template, its
topic) are all on one side of that split. Several runs are one mixed calibration set unless --separate is
given. Rollouts whose label is null are left out. scorer.pt contains all that is needed to rebuild the scorer,
and a table of all trials. On one machine a seed gives the same scorer with any number of --workers.

A study trains scorers that differ in one thing, as STUDY-ROW.CALSET@CALRUN-SEED.pt. 04 then scores the runs
to evaluate on, and 05 prints the table:

    python 03_train_scorer.py C --study layers --seed 32 42 52 -o FOLDER
    python 04_select.py E --scorer FOLDER/layers-*.pt
    python 05_baselines.py E --study layers

These are the paper's tables. C stands for three calibration runs of one data set, D for three of another, and
E for the runs to evaluate on:

    table            command, with --seed 32 42 52  01 captures the vectors by                          trials
    main results     RUNS=3 bash run_all.sh MODEL CAL EVAL                                               3,780
    layers           03 C --study layers            --layers .15,.3,.45,.6,.75,.9,penultimate            6,300
    calibration set  03 C --study fraction                                                               3,600
    scorer design    03 C --study designs           --layers all --extra last10,special   900 x (3.1 + layers)
    mixed domains    03 C D --study mixed                                                                2,700
    same data set    03 C E --study halves                                                               1,800

04 also picks answers.jsonl again, by a scorer of the study; run_all.sh later picks by its own scorers.
A search that was done before, for another study or by run_all.sh, is not done again: its scorer is copied.
"""

from __future__ import annotations  # the annotations name torch, which is imported when it is first used

import argparse
import itertools
import json
import math
import multiprocessing
import os
import random
import signal
import threading
import time
import timeit
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import common
from common import np, torch

# ---- The search space: the choices for each knob, in an order on which the drawn configurations depend

EPOCHS, PATIENCE, PLATEAU, CLIP = 100, 10, 3, 1.0
RUNGS = (2, 4, 8)  # --search halving: after so many epochs the worse half of the configurations is dropped

SHAPES = [[512, 256], [512, 256, 128], [1024, 512], [1024, 512, 256]]
WIDE = [[1024, 512], [2048, 1024], [1024, 512, 256], [2048, 1024, 512]]
RATES, BOTH = [1e-4, 5e-4, 1e-3], [False, True]
FEW = {"hidden": SHAPES, "lr": RATES, "dropout": [0.5, 0.6, 0.7], "input_dropout": [0.2, 0.3, 0.4],
       "batch_size": [16, 32], "weight_decay": [1e-3, 5e-3, 1e-2], "batch_norm": [False]}  # fmt: skip
SOME = {"hidden": SHAPES, "lr": RATES, "dropout": [0.4, 0.5, 0.6], "input_dropout": [0.1, 0.2, 0.3],
        "batch_size": [32, 64, 128], "weight_decay": [1e-4, 1e-3, 5e-3], "batch_norm": BOTH}  # fmt: skip
MANY = {"hidden": WIDE, "lr": RATES, "dropout": [0.3, 0.4, 0.5], "input_dropout": [0, 0.1, 0.2],
        "batch_size": [64, 128, 256], "weight_decay": [1e-5, 1e-4, 1e-3], "batch_norm": BOTH}  # fmt: skip
LINEAR = {"hidden": [[]], "lr": [1e-3, 1e-2], "dropout": [0.0], "input_dropout": [0.0], "batch_size": [32],
          "weight_decay": [1e-4, 1e-3, 1e-2, 0.1, 1.0], "batch_norm": [False]}  # fmt: skip
TRANSFORMER = {"width": [128, 256], "depth": [1, 2], "dropout": [0.1, 0.2, 0.3]}
DESIGNS = {  # each design, and the vector that it reads unless --vector names another
    "mlp": common.DEFAULT_VECTOR,
    "best-layer": "all/eos",
    "ensemble": "all/eos",
    "transformer-final": "all/eos",
    "transformer-last10": "last10",
    "transformer-special": "special",
    "logistic": common.DEFAULT_VECTOR,
}
OVER_LAYERS = ("best-layer", "ensemble")  # made of one mlp for each layer: the best of them, or their mixture


def space_for(n, recipe):
    if recipe.design == "logistic":
        return LINEAR
    space = FEW if n < 1000 else SOME if n < 5000 else MANY  # n: training rollouts
    if recipe.paper_space:
        space = space | {"hidden": SHAPES}
    if recipe.design.startswith("transformer"):
        shared = {knob: choices for knob, choices in space.items() if knob not in ("hidden", "batch_norm")}
        return shared | TRANSFORMER
    return space


def draw_configs(n, recipe):
    """recipe.configs different configurations for n training rollouts, numbered in the order drawn."""
    space = space_for(n, recipe)
    grid = [dict(zip(space, choices)) for choices in itertools.product(*space.values())]
    random.Random(recipe.seed).shuffle(grid)
    return [{"number": number, **config} for number, config in enumerate(grid[: recipe.configs])]


# ---- What a scorer is made by, and what it is made of


@dataclass(frozen=True)
class Recipe:
    """All that decides a scorer, apart from the content of the runs."""

    runs: tuple
    seed: int
    vector: str
    design: str
    inputs: str
    search: str
    configs: int
    paper_space: bool
    standardise: bool
    rollouts: int | None  # only the first so many of each problem
    fraction: float = 1.0  # of the problems
    half: bool = False  # only that half of the problems which the study of halves learns from
    balance: bool = False  # as many problems of each data set


def make_recipe(args, runs, seed, design=None, vector=None, **changes):
    design = design or args.design
    vector = vector or args.vector or DESIGNS[design]
    if design not in OVER_LAYERS and has_positions(vector) != design.startswith("transformer"):
        common.die(f"--design {design} takes a --vector as {DESIGNS[design]}, not {vector}")
    return Recipe(
        tuple(map(str, runs)), seed, vector, design, args.inputs, args.search, args.configs, args.paper_space,
        args.standardise or design == "logistic", args.rollouts, **changes,
    )  # fmt: skip


def has_positions(vector):
    return vector in common.EXTRA_INPUTS or vector.startswith("all/")


@dataclass
class Rollouts:
    """R rollouts of one or more runs."""

    x: torch.Tensor  # [R, d] or [R, positions, d]
    features: torch.Tensor  # [R, 29]: the token statistics and, last, the length
    labels: torch.Tensor  # [R] 1 or 0; NaN: could not be judged
    groups: torch.Tensor  # [R] classes of equal answers; -1: no answer
    problems: list  # (data set, id)
    families: list  # (data set, "family", its name); the problem itself where it names none
    keys: list  # (run, id, sample)

    def part(self, rows):
        """Those at some places."""
        columns = {}
        for name, values in vars(self).items():
            columns[name] = [values[row] for row in rows] if isinstance(values, list) else values[rows]
        return Rollouts(**columns)


def load_rollouts(runs, vector):
    parts = [vars(load_run(run, vector)) for run in runs]
    columns = {}
    for name, first in parts[0].items():
        values = [part[name] for part in parts]
        columns[name] = sum(values, []) if isinstance(first, list) else torch.cat(values)
    return Rollouts(**columns)


def load_run(run, vector):
    keys, fetch = common.read_inputs(run, vector)
    rows = common.read_labels(run, keys)
    labels = [math.nan if row["label"] is None else row["label"] for row in rows]
    groups = [-1 if row.get("group") is None else row["group"] for row in rows]
    name, families = data_set(run), common.read_families(run)
    family_of = {problem: (name, "family", family) for problem, family in families.items()}
    return Rollouts(
        x=fetch(slice(None)), features=common.read_features(run, keys),
        labels=torch.tensor(labels, dtype=torch.float32), groups=torch.tensor(groups, dtype=torch.float32),
        problems=[(name, problem) for problem, _ in keys],
        families=[family_of.get(problem, (name, problem)) for problem, _ in keys],
        keys=[(run, *key) for key in keys],
    )  # fmt: skip


def data_set(run):
    return common.short_name(common.read_meta(run)["dataset"])


def choose_rollouts(rollouts, recipe):
    """(the rollouts that the recipe is about and that could be judged, how many could not be judged)"""
    problems = sorted(set(rollouts.problems))
    if recipe.half:  # the study of halves evaluates on the other half
        random.Random(f"half {recipe.seed}").shuffle(problems)
        problems = sorted(problems[: len(problems) // 2])
    if recipe.balance:
        problems = balance(problems, recipe.seed)
    if recipe.fraction < 1:
        count = min(len(problems), max(4, round(recipe.fraction * len(problems))))  # fewer cannot be split
        problems = random.Random(f"fraction {recipe.seed}").sample(problems, count)
    chosen = set(problems)
    rows = []
    for row, (_, _, sample) in enumerate(rollouts.keys):
        is_early = recipe.rollouts is None or sample < recipe.rollouts
        if is_early and rollouts.problems[row] in chosen:
            rows.append(row)
    is_judged = rollouts.labels.isfinite().tolist()
    judged = rollouts.part([row for row in rows if is_judged[row]])
    check_rollouts(judged, recipe.runs)
    return judged, len(rows) - len(judged.keys)


def balance(problems, seed):
    """As many problems of each data set as the smallest of them has."""
    problems_of = defaultdict(list)
    for data_set, problem in problems:
        problems_of[data_set].append((data_set, problem))
    fewest = min(map(len, problems_of.values()))
    rng = random.Random(f"balance {seed}")
    return [problem for problems in problems_of.values() for problem in rng.sample(problems, fewest)]


def check_rollouts(rollouts, runs):
    where = ", ".join(runs)
    right, judged = int(rollouts.labels.sum()), len(rollouts.labels)
    if right in (0, judged):
        common.die(
            f"{where}: {right} of {judged} labelled rollouts are right; right and wrong ones are both "
            "needed: take problems with an answer or tests, easier or harder ones, or see in the reasons in "
            "labels.jsonl whether the answers are judged as you mean it"
        )
    families = len(set(rollouts.families))
    if families < 4:
        common.die(f"{where}: labelled rollouts of {families} problem(s) or families; the split needs 4")
    broken = [key for key, x in zip(rollouts.keys, rollouts.x) if not x.isfinite().all()]
    if broken:
        common.die(f"{where}: vectors are not finite, such as that of {broken[0]}; generate them again")


def split_by_problem(rollouts, seed):
    """(training rows, validation rows). Training gets both labels and about three quarters of the problems.

    Families are drawn until their problems are that many. The last family is never drawn.
    """
    sizes = Counter(family for family, _ in dict.fromkeys(zip(rollouts.families, rollouts.problems)))
    enough = round(0.75 * sizes.total())
    families = list(sizes)
    rng = random.Random(f"split {seed}")
    while True:
        rng.shuffle(families)
        drawn, count = set(), 0
        for family in families[:-1]:
            if count < enough:
                drawn.add(family)
                count += sizes[family]
        train = [row for row, family in enumerate(rollouts.families) if family in drawn]
        valid = [row for row, family in enumerate(rollouts.families) if family not in drawn]
        if len(set(rollouts.labels[train].tolist())) == 2:
            return train, valid


@dataclass
class Task:
    """One search: the chosen rollouts as the training loop reads them, and what has been found so far."""

    recipe: Recipe
    rollouts: Rollouts
    x: torch.Tensor  # scaled, with features [R, d + 29]; x, y, train and valid are on the device
    y: torch.Tensor
    train: torch.Tensor  # rows
    valid: torch.Tensor  # rows
    scale: list | None
    feature_scale: list | None
    pos_weight: float  # wrong answers of the training part for each right one
    configs: list
    trials: list = field(default_factory=list)
    best: dict | None = None  # the trial with the lowest validation loss
    weights: dict | None = None  # of its best epoch


def make_task(rollouts, recipe, device):
    train, valid = split_by_problem(rollouts, recipe.seed)
    x, scale, feature_scale = rollouts.x, None, None
    if recipe.standardise:
        scale = fit_scale(rollouts.x[train])
        x = common.standardise(x, scale)
    if recipe.inputs == "vector+stats":
        feature_scale = fit_scale(rollouts.features[train])
        x = common.with_features(x, rollouts.features, feature_scale)
    right = rollouts.labels[train].sum().item()
    return Task(
        recipe, rollouts, x.to(device), rollouts.labels.to(device), torch.tensor(train, device=device),
        torch.tensor(valid, device=device), scale, feature_scale, pos_weight=(len(train) - right) / right,
        configs=draw_configs(len(train), recipe),
    )  # fmt: skip


def fit_scale(x):
    """(mean, deviation) of each dimension, over finite values and positions that are not absent."""
    is_there = x.isfinite()
    if x.ndim == 3:
        is_there &= (x != 0).any(-1, keepdim=True)
    count = is_there.sum(0).clamp(min=1)
    x = x.double().where(is_there, 0)
    mean = x.sum(0) / count
    deviation = ((x - mean).square() * is_there).sum(0).div(count).sqrt()
    deviation[deviation <= 1e-6 * (1 + mean.abs())] = 1.0  # a constant, apart from rounding errors
    return [mean.float(), deviation.float()]


# ---- Training one configuration


@contextmanager
def fast_products():
    """Matrix products in bfloat16 on a CPU that has it, in TF32 on CUDA; then again as the caller had it."""
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)


@fast_products()
def train(task, config, epochs=EPOCHS):
    """Train one configuration -> (the trial: its row in the table, the weights of its best epoch)."""
    recipe, device, started = task.recipe, task.x.device, time.time()
    seed = recipe.seed * 1_000_003 + config["number"]
    torch.manual_seed(seed)  # of the first weights and of dropout; the order of rows has its own generator
    orders = torch.Generator().manual_seed(seed)
    features = task.x.shape[-1] - task.rollouts.x.shape[-1]
    model = common.build_scorer(recipe.design, config, tuple(task.x.shape[1:]), features).to(device)
    optimiser = torch.optim.Adam(
        model.parameters(), lr=config["lr"], weight_decay=config["weight_decay"], fused=True
    )
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, factor=0.5, patience=PLATEAU)
    loss_of = torch.nn.BCEWithLogitsLoss(pos_weight=torch.tensor(task.pos_weight, device=device))
    trial = {**config, "losses": [], "val_loss": math.inf, "best_epoch": 0}
    weights = {}
    for epoch in range(1, epochs + 1):
        model.train()
        for rows in batches(task.train, config["batch_size"], orders):
            optimiser.zero_grad()
            loss_of(model(task.x[rows]), task.y[rows]).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimiser.step()
        model.eval()
        with torch.no_grad():
            logits = torch.cat([model(task.x[rows]) for rows in task.valid.split(1024)])
            loss = loss_of(logits, task.y[task.valid]).item()
        scheduler.step(loss)
        trial["losses"].append(loss)
        if loss < trial["val_loss"]:
            trial.update(val_loss=loss, best_epoch=epoch)
            weights = {name: value.cpu().numpy().copy() for name, value in model.state_dict().items()}
        if not math.isfinite(loss) or epoch - trial["best_epoch"] >= PATIENCE:
            break
    positions = task.x.shape[1] if recipe.design.startswith("transformer") else 1  # each passes all weights
    products = positions * sum(p.numel() for p in model.parameters() if p.ndim > 1)
    flops = 2 * products * epoch * (3 * len(task.train) + len(task.valid))  # backwards is twice forwards
    return {**trial, "epochs": epoch, "flops": flops, "seconds": time.time() - started}, weights


def batches(rows, size, generator):
    """Rows in a new order, cut; a last batch of one row joins the one before: batch norm needs two."""
    order = rows[torch.randperm(len(rows), generator=generator).to(rows.device)]
    cuts = list(range(size, len(order), size))
    if cuts and len(order) - cuts[-1] == 1:
        cuts.pop()
    return order.tensor_split(cuts)


# ---- The search, in processes: on a CPU one a core, each of one thread

TASKS = []  # those that this process works on


@contextmanager
def open_processes(tasks, workers):
    """Gives run(function, arguments): the results of function(*those) for all `arguments`, in their order."""
    torch.optim.Adam([torch.zeros(1)])  # imports here what each process would import at its first step
    if workers == 1:
        start_process(tasks)
        yield itertools.starmap
        return
    is_cpu = tasks[0].x.device.type == "cpu"
    context = multiprocessing.get_context("fork" if is_cpu else "spawn")  # a fork copies no data
    with ProcessPoolExecutor(workers, context, start_process, (tasks,)) as pool:

        def run(function, arguments):
            return pool.map(function, *zip(*arguments))

        try:
            yield run
        except BrokenProcessPool:
            common.die("a search process was killed, it seems for want of memory: take fewer --workers")


def start_process(tasks):
    TASKS[:] = tasks
    if tasks[0].x.device.type == "cpu":
        torch.set_num_threads(1)  # more would change the last bits, and are slower than more processes
    parent = multiprocessing.parent_process()
    if parent:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # at Ctrl-C the parent ends its processes

        def end_with_parent():
            parent.join()
            os._exit(1)

        threading.Thread(target=end_with_parent, daemon=True).start()


def train_one(number, config, epochs):
    return train(TASKS[number], config, epochs)


def run_searches(tasks, run):
    """Search for all tasks side by side.

    Halving trains all configurations for as many epochs as the first rung says, and drops the worse half of
    each learning rate. Those that remain are trained again from the start, up to the next rung, and so on;
    after the last rung, without a limit. As a seed gives the same training again, no state has to be kept.
    """
    recipe = tasks[0].recipe
    remaining = [task.configs for task in tasks]  # the configurations that are still in the running
    rungs = [rung for rung in RUNGS if rung < EPOCHS and recipe.search == "halving"]
    for epochs in [*rungs, EPOCHS]:
        trainings = [(n, config, epochs) for n, configs in enumerate(remaining) for config in configs]
        name = f"train {recipe.design} on {recipe.vector}"
        trained = common.progress(run(train_one, trainings), len(trainings), name, "trial")
        for (number, _, _), (trial, weights) in zip(trainings, trained):
            task = tasks[number]
            task.trials.append(trial)
            if task.best is None or trial["val_loss"] < task.best["val_loss"]:
                task.best, task.weights = trial, weights
        remaining = [better_halves(configs, task.trials) for configs, task in zip(remaining, tasks)]
    for task in tasks:
        if not task.weights:
            common.die(f"none of {len(task.trials)} trainings reached a finite loss; try --standardise")


def better_halves(configs, trials):
    """The better half of the configurations of each learning rate, by their validation loss so far."""
    loss = {trial["number"]: trial["val_loss"] for trial in trials}
    better = []
    for rate in {config["lr"] for config in configs}:
        rivals = [config for config in configs if config["lr"] == rate]
        rivals.sort(key=lambda config: loss[config["number"]])
        better += rivals[: math.ceil(len(rivals) / 2)]
    return sorted(better, key=lambda config: config["number"])


# ---- How often a scorer is right on problems that it was not trained on, by which 04 chooses between scorers

FOLDS = 5


def score_folds(tasks, run):
    """[R] logits for each task: each fifth of the families is scored by a scorer trained on the others.

    These scorers have the configuration that was found, and are trained for at most as many epochs as that
    took to its lowest loss. NaN: the others did not suffice to train a scorer.
    """
    trainings = []
    for number, task in enumerate(tasks):
        config, epochs = task.configs[task.best["number"]], task.best["best_epoch"]
        trainings += [(number, config, epochs, rows) for rows in split_folds(task)]
    logits = [torch.full((len(task.rollouts.keys),), math.nan) for task in tasks]
    scored = common.progress(run(score_fold, trainings), len(trainings), "held-out folds", "fold")
    for (number, _, _, rows), scores in zip(trainings, scored):
        logits[number][rows] = torch.tensor(scores)
    return logits


def split_folds(task):
    """The rows of each fold."""
    families = sorted(set(task.rollouts.families))
    random.Random(f"folds {task.recipe.seed}").shuffle(families)
    folds = []
    for first in range(min(FOLDS, len(families))):
        fold = set(families[first::FOLDS])
        folds.append([row for row, family in enumerate(task.rollouts.families) if family in fold])
    return folds


def score_fold(number, config, epochs, rows):
    task = TASKS[number]
    rollouts = task.rollouts
    others = rollouts.part(sorted(set(range(len(rollouts.keys))) - set(rows)))
    if len(set(others.labels.tolist())) < 2:
        return [math.nan] * len(rows)  # nothing to learn from
    fold_task = make_task(others, task.recipe, task.x.device)
    _, weights = train(fold_task, config, epochs)
    if not weights:
        return [math.nan] * len(rows)  # no epoch had a finite loss
    scorer = common.Scorer(describe(fold_task, config, weights))
    return scorer(rollouts.x[rows], rollouts.features[rows]).tolist()


def accuracy_of(rollouts, logits):
    """{strategy of 04: the share of problems for which it is right}; logits [R], NaN where there is none."""
    rows = logits.isfinite().nonzero().flatten().tolist()
    if not rows:
        return {}
    rollouts = rollouts.part(rows)
    places = places_by_problem(rollouts)
    p = at_places(logits[rows].sigmoid(), places)
    groups = at_places(rollouts.groups, places)
    labels = at_places(rollouts.labels, places)

    def share_right(picks):
        return float(np.nanmean(np.take_along_axis(labels, picks[:, None], 1)))

    accuracy = {"problems": len(p), "best-of-n": share_right(common.best_of_n(p)), "weighted-vote": None}
    if (groups >= 0).any():
        accuracy["weighted-vote"] = share_right(common.weighted_vote(groups, p, p))
    return accuracy


def places_by_problem(rollouts):
    """[P, N]: the places of each problem's rollouts, by sample; -1 where a problem has fewer than N."""
    places = defaultdict(list)
    for key, place in sorted(zip(rollouts.keys, range(len(rollouts.keys)))):
        places[key[:-1]].append(place)
    return np.array([*itertools.zip_longest(*places.values(), fillvalue=-1)]).T


def at_places(values, places):
    """[R] -> float64 [P, N]; -1 where there is no rollout."""
    return np.where(places < 0, -1, values.double().numpy()[places])


# ---- scorer.pt


def describe(task, config, weights):
    """What common.Scorer needs to rebuild a scorer."""
    recipe = task.recipe
    meta = common.read_meta(recipe.runs[0])
    return {
        "design": recipe.design, "vector": recipe.vector, "shape": list(task.rollouts.x.shape[1:]),
        "scale": task.scale, "feature_scale": task.feature_scale, "pos_weight": task.pos_weight,
        "model": common.model_name(meta), "layers_of_model": meta["n_layers"],
        "sampling": common.sampling_of(meta),
        "config": config, "state": {name: torch.from_numpy(value) for name, value in weights.items()},
    }  # fmt: skip


def make_checkpoint(task, fold_logits):
    recipe = task.recipe
    checkpoint = describe(task, task.configs[task.best["number"]], task.weights)
    return checkpoint | {
        "seed": recipe.seed, "runs": list(recipe.runs), "recipe": asdict(recipe),
        "problems": sorted(set(task.rollouts.problems)), "n_rollouts": len(task.rollouts.keys),
        "trials": task.trials, "val_loss": task.best["val_loss"],
        "held_out": accuracy_of(task.rollouts, fold_logits),
    }  # fmt: skip


def measure_costs(checkpoint):
    """What the search took, and what scoring a problem takes on the device that 05 runs its verifiers on."""
    device = common.pick_device()
    scorer = common.Scorer(checkpoint, device)
    modules = [part.module for part in scorer.parts or [scorer]]
    n = round(checkpoint["n_rollouts"] / len(checkpoint["problems"]))
    x, features = torch.ones(n, *scorer.shape), torch.ones(n, len(common.RULES) + 1)
    times = timeit.repeat(lambda: scorer(x, features).tolist(), number=1, repeat=60)[10:]
    return {
        "parameters": sum(p.numel() for module in modules for p in module.parameters()),
        "train_seconds": sum(trial["seconds"] for trial in checkpoint["trials"]),
        "train_flops": sum(trial["flops"] for trial in checkpoint["trials"]),
        "ms_per_rollout": 1e3 * float(np.median(times)) / n,
        "device": common.device_name(device),
    }


def make_scorers(recipes, args):
    """Write a scorer for each {path: recipe}, or copy it if the same recipe and inputs made one before."""
    marks = read_inputs(recipes)
    made = find_finished(recipes, set(marks.values()))
    if made:
        print(f"{len(made)} scorer(s) finished before, with these arguments and inputs")
    searches = {}  # fingerprint -> path
    for path, mark in marks.items():
        if mark not in made and recipes[path].design not in OVER_LAYERS:
            searches.setdefault(mark, path)
    if searches:
        print(f"{len(searches)} scorer(s) to train, each by {args.configs} trials at most", flush=True)
    for path, checkpoint in train_scorers({path: recipes[path] for path in searches.values()}, args):
        save_scorer(path, checkpoint, marks[path])
        made[marks[path]] = path
    for path, recipe in recipes.items():
        mark = marks[path]
        if mark not in made:
            layers = [made[marks[layer]] for layer in layer_recipes(path, recipe)]
            save_scorer(path, combine_layers(recipe, layers), mark)
            made[mark] = path
        elif made[mark] != path:
            common.save_pt(path, common.load_pt(made[mark]))
            print(f"{path}: a copy of {made[mark]}")


def save_scorer(path, checkpoint, mark):
    cost = measure_costs(checkpoint)
    common.save_pt(path, checkpoint | {"cost": cost, "fingerprint": mark})
    quality = f"validation loss {checkpoint['val_loss']:.4f}"
    if checkpoint["held_out"]:
        quality += f", best-of-n right for {checkpoint['held_out']['best-of-n']:.1%} held out"
    trials = f"{len(checkpoint['trials'])} trials in {cost['train_seconds']:.0f} s of computing"
    print(f"{path}: {quality}; {trials}", flush=True)


def find_finished(recipes, marks):
    """{fingerprint: path} of the scorers with these fingerprints that are there: at the paths of the recipes,
    in the same folders, and in the folders of the calibration runs, where run_all.sh puts them."""
    folders = {path.parent for path in recipes} | {Path(recipe.runs[0]) for recipe in recipes.values()}
    files = [file for folder in sorted(folders) for file in sorted(folder.glob("*@*.pt"))]
    for path in recipes:
        if path.is_file():
            common.load_scorer(path)  # stops here if the file is no scorer: it is not to be written over
            files.append(path)
    found = {common.load_pt(file).get("fingerprint"): file for file in files}
    return {mark: file for mark, file in found.items() if mark in marks}


def fingerprint(recipe, rollouts):
    """A hash of all that decides a scorer: the recipe, with the content of the runs instead of their names.

    It is that of what is learned from, not of the files: a run that is given more vectors keeps its scorers.
    """
    names = [(*key[1:], *family) for key, family in zip(rollouts.keys, rollouts.families)]
    tensors = (rollouts.x, rollouts.features, rollouts.labels, rollouts.groups)
    content = [digest(names), *(common.hash_of(values.numpy()) for values in tensors)]
    vector = recipe.vector
    if not has_positions(vector):  # .75/eos and 21/eos are the same
        vector = common.vector_key(vector, common.read_meta(recipe.runs[0])["n_layers"])
    return digest(asdict(replace(recipe, runs=[content], vector=vector)))


def digest(value):
    return common.hash_of(json.dumps(value).encode())


def alike(recipes):
    """Lists of the paths whose recipes differ in the seed alone."""
    paths = defaultdict(list)
    for path, recipe in recipes.items():
        paths[replace(recipe, seed=0)].append(path)
    return paths.values()


def read_inputs(recipes):
    """{path: fingerprint}. All is read, so that what is wrong is said before anything is trained."""
    marks = {}
    for paths in alike(recipes):
        rollouts = load_rollouts(recipes[paths[0]].runs, recipes[paths[0]].vector)
        for path in paths:
            choose_rollouts(rollouts, recipes[path])
            marks[path] = fingerprint(recipes[path], rollouts)
    return marks


def train_scorers(recipes, args):
    """Yield (path, checkpoint). Recipes that differ in the seed alone are searched side by side."""
    for paths in alike(recipes):
        recipe = recipes[paths[0]]
        rollouts = load_rollouts(recipe.runs, recipe.vector)
        tasks = []
        for path in paths:
            chosen, unjudged = choose_rollouts(rollouts, recipes[path])
            tasks.append(make_task(chosen, recipes[path], args.device))
        right = f"{chosen.labels.mean():.1%} of {len(chosen.keys)} rollouts right"
        where = ", ".join(recipe.runs)
        print(f"{where}, {recipe.vector}: {right}; {unjudged} could not be judged: left out", flush=True)
        problems = len(set(chosen.problems))
        held_out = len({chosen.problems[row] for row in tasks[-1].valid.tolist()})
        if problems < 50 or held_out < 12:
            counts = f"{problems} problems, {held_out} held out"
            spread = f"accuracy ± {50 / math.sqrt(held_out):.0f} points"
            common.warn(f"{where}: {counts} ({spread}); calibrate on 50 or more")
        with open_processes(tasks, min(args.workers, len(tasks) * recipe.configs)) as run:
            run_searches(tasks, run)
            fold_logits = score_folds(tasks, run)
        yield from zip(paths, map(make_checkpoint, tasks, fold_logits))


# ---- Designs over layers: made of one scorer for each layer, which is a scorer like any other


def layer_recipes(path, recipe):
    """{path: recipe} of the scorers of the layers, in a folder `layers` beside the path."""
    stored, columns = common.open_hidden(recipe.runs[0], recipe.vector)
    recipes = {}
    for column in columns:
        layer = stored["vectors"][column]
        name = f"{layer.replace('/', '-')}.{calibration_name(recipe.runs)}-{recipe.seed}.pt"
        recipes[path.parent / "layers" / name] = replace(recipe, design="mlp", vector=layer)
    return recipes


def combine_layers(recipe, paths):
    parts = [common.load_scorer(path) for path in paths]
    best = min((part.checkpoint for part in parts), key=lambda checkpoint: checkpoint["val_loss"])
    trials = []
    for part in parts:
        trials += [{"layer": part.vector, **trial} for trial in part.checkpoint["trials"]]
    if recipe.design == "best-layer":
        return best | {"trials": trials}
    return mix_layers(recipe, parts) | {"trials": trials}


def mix_layers(recipe, parts):
    """An ensemble: the mixture of the layers' probabilities with the lowest loss on the validation part.

    Its weights are found by expectation maximisation.
    """
    rollouts, _ = choose_rollouts(load_rollouts(recipe.runs, recipe.vector), recipe)
    valid = rollouts.part(split_by_problem(rollouts, recipe.seed)[1])
    first = parts[0].checkpoint
    logits = torch.stack([part(valid.x[:, layer]) for layer, part in enumerate(parts)], 1)  # [V, layers]
    p = logits.sigmoid().double().clamp(1e-7, 1 - 1e-7)
    right = valid.labels[:, None] > 0  # [V, 1]
    likelihood = torch.where(right, p, 1 - p)  # that each layer gives to the label
    count = 1 + (first["pos_weight"] - 1) * right.double()  # a right answer counts pos_weight times
    weights = torch.full((len(parts),), 1 / len(parts), dtype=torch.double)
    for _ in range(2000):
        share = likelihood * weights
        weights = (count * share / share.sum(1, keepdim=True)).sum(0) / count.sum()
    loss = -(count[:, 0] * (likelihood @ weights).log()).mean().item()
    return first | {
        "design": "ensemble", "vector": recipe.vector, "shape": list(rollouts.x.shape[1:]),
        "parts": [part.checkpoint for part in parts], "weights": weights.float(), "state": None,
        "val_loss": loss, "recipe": asdict(recipe),
        "held_out": {},  # no fold was left out when the weights were found
    }  # fmt: skip


# ---- Which scorers to make: one, one for each seed and run, or all of a study

LAYERS = {
    ".15L": ".15", ".3L": ".3", ".45L": ".45", ".6L": ".6", ".75L": ".75", ".9L": ".9", "L-1": "penultimate",
}  # fmt: skip
FRACTIONS = {"100%": 1.0, "50%": 0.5, "25%": 0.25, "10%": 0.1}
STUDIES = ("layers", "fraction", "designs", "mixed", "halves")


def study_rows(args):
    """[(row of the table, the runs of a calibration set, what the row changes in the recipe)]"""
    token = (args.vector or common.DEFAULT_VECTOR).partition("/")[2]
    changes_of = {
        "layers": {name: {"vector": f"{layer}/{token}"} for name, layer in LAYERS.items()},
        "fraction": {name: {"fraction": fraction} for name, fraction in FRACTIONS.items()},
        "designs": {design: {"design": design} for design in DESIGNS},
    }
    if args.study in changes_of:
        rows = changes_of[args.study].items()
        return [(name, [run], changes) for run in args.runs for name, changes in rows]
    runs_of = defaultdict(list)
    for run in args.runs:
        runs_of[data_set(run)].append(run)
    counts = [len(runs) for runs in runs_of.values()]
    if len(counts) != 2 or args.study == "mixed" and counts[0] != counts[1]:
        given = ", ".join(f"{len(runs)} of {name}" for name, runs in runs_of.items())
        common.die(f"--study {args.study} takes runs of two data sets (mixed: as many of each), not {given}")
    first, second = runs_of.values()
    if args.study == "halves":
        rows = [("other", [run], {}) for run in first]
        return rows + [("same", [run], {"half": True}) for run in second]
    rows = [(data_set(run), [run], {}) for run in args.runs]
    return rows + [("mixed", runs, {"balance": True}) for runs in zip(first, second)]


def recipes_of(args):
    """{path: recipe} of all scorers that are asked for; those of layers come before what is made of them."""
    out = Path(args.out)
    rows = [(out.stem, args.runs, {})]
    if args.separate:
        rows = [(out.stem, [run], {}) for run in args.runs]
    if args.study:
        rows = [(f"{args.study}-{name}", *row) for name, *row in study_rows(args)]
    wanted = {}
    for (name, runs, changes), seed in itertools.product(rows, args.seed):
        path = out
        if args.study or args.separate or len(args.seed) > 1:
            folder = out if args.study else Path(runs[0]) if args.separate else out.parent
            path = folder / f"{name}.{calibration_name(runs)}-{seed}.pt"
        if path in wanted:
            common.die(f"two RUNs would both make {path}: give each once, in folders of different names")
        wanted[path] = make_recipe(args, runs, seed, **changes)
    recipes = {}
    for path, recipe in wanted.items():
        if recipe.design in OVER_LAYERS:
            recipes |= layer_recipes(path, recipe)
        recipes[path] = recipe
    return recipes


def calibration_name(runs):
    """CALSET@CALRUN, from the names of the run folders."""
    folders = [Path(run).resolve() for run in runs]
    data_sets = "+".join(folder.parent.name for folder in folders)
    return f"{data_sets}@{'+'.join(folder.name for folder in folders)}"


def check_same_model(runs):
    models = {}
    for run in runs:
        meta = common.read_meta(run)
        name, layers, width = common.model_name(meta), meta["n_layers"], meta.get("width")
        models[f"{name!r} ({layers} layers, width {width})"] = run
    if len(models) > 1:
        sources = " and ".join(f"{run} is of {model}" for model, run in models.items())
        common.die(f"{sources}; a scorer is for one model")


def main(argv=None):
    args = parse_args(argv)
    args.device = common.pick_device(args.device)
    args.workers = args.workers or (len(os.sched_getaffinity(0)) if args.device == "cpu" else 1)
    check_same_model(args.runs)
    if args.study:
        args.out = args.out or Path("studies", common.model_name(common.read_meta(args.runs[0])))
    make_scorers(recipes_of(args), args)


def parse_args(argv=None):
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="labelled run folders; several are one mixed calibration set")
    add("--separate", action="store_true", help="one scorer for each RUN, written into its folder")
    add("-o", "--out", help="scorer to write (default: scorer.pt), with --separate or several seeds named "
        "NAME.CALSET@CALRUN-SEED.pt; the folder of a study (default: studies/MODEL)")  # fmt: skip
    add("--seed", type=int, nargs="+", default=[32], help="of split, search and training (paper: 32 42 52)")
    add("--inputs", choices=("vector", "vector+stats"), default="vector", help="vector+stats: SCaTR+")
    add("--design", choices=DESIGNS, default="mlp", help="default: mlp")
    add("--vector", help=f"layer/token, all/token for designs over layers (default: {common.DEFAULT_VECTOR})")
    add("--search", choices=("paper", "halving"), default="paper", help="halving drops bad trials early")
    add("--configs", type=int, default=100, help="configurations to try (default: 100)")
    add("--paper-space", action="store_true", help="the paper's four shapes above 5,000 rollouts, too")
    add("--standardise", action="store_true", help="dimensions to mean 0, deviation 1 of the training part")
    add("--rollouts", type=int, help="calibrate on the first so many rollouts of each problem")
    add("--study", choices=STUDIES, help="train all scorers of a study, one for each row, RUN and seed")
    add("--device", help="cpu, cuda, cuda:1, mps (default: the GPU if there is one)")
    add("--workers", type=int, help="processes (default: a CPU's cores; on a GPU, which they share, 1)")
    args = parser.parse_args(argv)
    for name in ("configs", "rollouts", "workers"):
        value = getattr(args, name)
        if value is not None and value < 1:
            common.die(f"--{name} {value}: give 1 or more")
    if len(set(args.seed)) < len(args.seed):
        common.die("--seed: give each number once")
    if args.inputs != "vector" and (args.design not in ("mlp", "logistic") or args.study == "designs"):
        common.die("--inputs vector+stats is for the designs mlp and logistic")
    if not args.study:
        args.out = args.out or "scorer.pt"
        if Path(args.out).is_dir():
            common.die(f"-o {args.out} is a folder; name a file in it")
        if args.separate and Path(args.out).name != args.out:
            common.die(f"-o {args.out}: with --separate give a name without a folder; each RUN gets one")
    return args


if __name__ == "__main__":
    common.entry(main, "finished scorers are kept; the same command makes the others")
