"""Train a scorer on labelled rollouts: hidden.pt and labels.jsonl -> scorer.pt.

    python 03_train_scorer.py runs/model/humaneval/32 -o scorer.pt
    python 03_train_scorer.py runs/model/humaneval/32 --design scatr+ -o plus.pt
    python 03_train_scorer.py runs/model/*/32 --separate --seed 32 42 52

This is the paper's random search: it trains 100 small MLPs on three quarters of
the problems and keeps the one with the lowest loss on the others, which are the
validation part. Problems of one `family` (a field: their template or topic) are
all in one of the two. Several runs are one mixed calibration set unless
--separate is given. Rollouts whose label is null are left out. scorer.pt has
all that is needed to rebuild the scorer, and a table of all trials. On one
machine a seed gives the same scorer with any number of --workers.

A scorer that is there and was made of the same rollouts, settings and code is
done; else it is trained anew. A run without right and wrong answers to problems
of four families teaches nothing, and a line says so. In the end `scorer: FILE`
names each file that is now as the command asks for. What to expect of the
printed share of right answers, 04_select.py -h says.

A study trains scorers STUDY-ROW.CALSET@CALRUN-SEED.pt that differ in one thing.
04 scores the runs E to evaluate on, and 05 prints the table. With `--paper`
run_all.sh makes all of the paper's tables so:

    python 03_train_scorer.py C --study layers --seed 32 42 52 -o FOLDER
    python 04_select.py E --scorer FOLDER/layers-*.pt
    python 05_baselines.py E --study layers
"""

from __future__ import annotations  # the annotations name torch, which is imported when it is first used

import ctypes
import inspect
import itertools
import math
import multiprocessing
import os
import random
import signal
import sys
import time
import timeit
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from operator import attrgetter
from pathlib import Path

import common
from common import STUDIES, np, torch

# ---- The search space: the choices for each knob, in an order on which the drawn configurations depend

EPOCHS, PATIENCE, PLATEAU, CLIP = 100, 10, 3, 1.0

SHAPES = [[512, 256], [512, 256, 128], [1024, 512], [1024, 512, 256]]
WIDE = [[1024, 512], [2048, 1024], [1024, 512, 256], [2048, 1024, 512]]
RATES, BOTH = [1e-4, 5e-4, 1e-3], [False, True]
FOR_FEW = {"hidden": SHAPES, "lr": RATES, "dropout": [0.5, 0.6, 0.7], "input_dropout": [0.2, 0.3, 0.4],
           "batch_size": [16, 32], "weight_decay": [1e-3, 5e-3, 1e-2], "batch_norm": [False]}  # fmt: skip
FOR_SOME = {"hidden": SHAPES, "lr": RATES, "dropout": [0.4, 0.5, 0.6], "input_dropout": [0.1, 0.2, 0.3],
            "batch_size": [32, 64, 128], "weight_decay": [1e-4, 1e-3, 5e-3], "batch_norm": BOTH}  # fmt: skip
FOR_MANY = {"hidden": WIDE, "lr": RATES, "dropout": [0.3, 0.4, 0.5], "input_dropout": [0, 0.1, 0.2],
            "batch_size": [64, 128, 256], "weight_decay": [1e-5, 1e-4, 1e-3], "batch_norm": BOTH}  # fmt: skip
LINEAR = {"hidden": [[]], "lr": [1e-3, 1e-2], "dropout": [0.0], "input_dropout": [0.0], "batch_size": [32],
          "weight_decay": [1e-4, 1e-3, 1e-2, 0.1, 1.0], "batch_norm": [False]}  # fmt: skip
TRANSFORMER = {"width": [128, 256], "depth": [1, 2], "dropout": [0.1, 0.2, 0.3]}
DESIGNS = {  # each design, and the vector that it reads unless --vector names another
    "scatr": common.DEFAULT_VECTOR,  # the paper's MLP
    "scatr+": common.DEFAULT_VECTOR,  # the same beside one for the token statistics
    "best-layer": "all/eos",
    "ensemble": "all/eos",
    "transformer-final": "all/eos",
    "transformer-last10": "last10",
    "transformer-special": "special",
    "logistic": common.DEFAULT_VECTOR,
}
OVER_LAYERS = ("best-layer", "ensemble")  # made of an MLP for each layer: the best of them, or their mixture


def draw_configs(n, recipe):
    """Return recipe.configs different configurations for n training rollouts, numbered as drawn."""
    space = FOR_FEW if n < 1000 else FOR_SOME if n < 5000 else FOR_MANY
    if recipe.paper_space:
        space = space | {"hidden": SHAPES}
    if recipe.design == "logistic":
        space = LINEAR
    elif recipe.design.startswith("transformer"):
        shared = {knob: choices for knob, choices in space.items() if knob not in ("hidden", "batch_norm")}
        space = shared | TRANSFORMER
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
    configs: int
    paper_space: bool
    standardise: bool
    rollouts: int | None  # only the first so many of each problem
    fraction: float = 1.0  # of the problems
    half: bool = False  # only that half of the problems which the study of halves learns from
    balance: bool = False  # as many problems of each data set


def make_recipe(args, runs, seed, design=None, vector=None, **changes):
    design = design or args.design[0]
    vector = vector or args.vector or DESIGNS[design]
    has_positions = vector in common.EXTRA_INPUTS or vector.startswith("all/")
    if has_positions != (design in OVER_LAYERS or design.startswith("transformer")):
        common.die(f"--design {design} takes a --vector as {DESIGNS[design]}, not {vector}")
    return Recipe(
        tuple(map(str, runs)), seed, vector, design, args.configs, args.paper_space,
        args.standardise or design == "logistic", args.rollouts, **changes,
    )  # fmt: skip


@dataclass
class Rollouts:
    """R rollouts of one or more runs."""

    x: torch.Tensor  # [R, d] or [R, positions, d]
    features: torch.Tensor  # [R, 29]: the token statistics and, last, the length
    labels: torch.Tensor  # [R] 1 or 0; NaN: could not be judged
    groups: torch.Tensor  # [R] classes of equal answers; -1: no answer
    problems: list  # (data set, id, stamp of its text)
    families: list  # (data set, "family", its name), or (stamp of its text,) where it names none
    keys: list  # (run, id, sample)

    def part(self, rows):
        """Return the rollouts at these places."""
        columns = {}
        for name, values in vars(self).items():
            columns[name] = [values[row] for row in rows] if isinstance(values, list) else values[rows]
        return Rollouts(**columns)


def load_rollouts(runs, vector):
    parts = [vars(rollouts_of(run, vector)) for run in runs]
    columns = {}
    for name, first in parts[0].items():
        values = [part[name] for part in parts]
        columns[name] = sum(values, []) if isinstance(first, list) else torch.cat(values)
    return Rollouts(**columns)


def rollouts_of(run, vector):
    keys, fetch = common.read_inputs(run, vector)
    rows = common.read_labels(run, keys)
    labels = [math.nan if row["label"] is None else row["label"] for row in rows]
    groups = [-1 if row.get("group") is None else row["group"] for row in rows]
    asked = common.check_same_problems(run, rows)
    name = data_set(run)
    texts = {id: common.text_stamp(row) for id, row in asked.items()}
    families = {id: (name, "family", row["family"]) for id, row in asked.items() if "family" in row}
    x = fetch(slice(None))
    common.check_finite(run, keys, x)
    return Rollouts(
        x=x, features=common.read_features(run, keys),
        labels=torch.tensor(labels, dtype=torch.float32), groups=torch.tensor(groups, dtype=torch.float32),
        problems=[(name, id, texts[id]) for id, _ in keys],
        families=[families.get(id, (texts[id],)) for id, _ in keys],
        keys=[(run, *key) for key in keys],
    )  # fmt: skip


def data_set(run):
    return common.short_name(common.read_meta(run)["dataset"])


def choose_rollouts(rollouts, recipe):
    """Return (the rollouts that the recipe is about and that are judged, how many are not)."""
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
    most = recipe.rollouts or math.inf
    of_rollouts = enumerate(zip(rollouts.problems, rollouts.keys))
    rows = [row for row, (problem, (*_, sample)) in of_rollouts if problem in chosen and sample < most]
    is_judged = rollouts.labels.isfinite().tolist()
    judged = rollouts.part([row for row in rows if is_judged[row]])
    return judged, len(rows) - len(judged.keys)


def balance(problems, seed):
    """Return as many problems of each data set as the smallest of them has."""
    problems_of = defaultdict(list)
    for problem in problems:
        problems_of[problem[0]].append(problem)
    fewest = min(map(len, problems_of.values()))
    rng = random.Random(f"balance {seed}")
    return [problem for problems in problems_of.values() for problem in rng.sample(problems, fewest)]


def why_nothing(rollouts):
    """Return why nothing can be learned from these rollouts, in a sentence; None if something can."""
    right = int(rollouts.labels.sum())
    judged = len(rollouts.labels)
    families = len(set(rollouts.families))
    if families >= 4 and 0 < right < judged:
        return None
    answers = f"{right} of {judged} judged answers are right, to {families} problems (a family counts as one)"
    return f"{answers}; a scorer learns from right and wrong answers to 4 problems or more"


def why_poor(rollouts, recipe):
    """Yield reasons why a scorer of these rollouts may be poor."""
    problems = len(set(rollouts.problems))
    _, valid = split_by_problem(rollouts, recipe.seed)
    validated = len({rollouts.problems[row] for row in valid})
    if problems < 50 or validated < 12:
        spread = f"accuracy ± {50 / math.sqrt(validated):.0f} points"
        yield f"{problems} problems, {validated} for validation ({spread}); calibrate on 50 or more"
    right = int(rollouts.labels.sum())
    wrong = len(rollouts.labels) - right
    if min(right, wrong) < 10:
        yield f"only {right} right and {wrong} wrong answers; a scorer needs some dozens of each"


def split_by_problem(rollouts, seed):
    """Return (training rows, validation rows): training gets both labels and three quarters of the problems.

    Families are drawn until their problems are about that many. The last family is never drawn.
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
    clock_seconds: float = 0.0  # its share of the time of the searches that run side by side
    best: dict | None = None  # the trial with the lowest validation loss
    weights: dict | None = None  # of its best epoch


def make_task(rollouts, recipe, device):
    train, valid = split_by_problem(rollouts, recipe.seed)
    x = rollouts.x
    scale = feature_scale = None
    if recipe.standardise:
        scale = fit_scale(rollouts.x[train])
        x = common.standardise(x, scale)
    if recipe.design == "scatr+":
        feature_scale = fit_scale(rollouts.features[train])
        x = common.with_features(x, rollouts.features, feature_scale)
    right = rollouts.labels[train].sum().item()
    return Task(
        recipe, rollouts, x.to(device), rollouts.labels.to(device), torch.tensor(train, device=device),
        torch.tensor(valid, device=device), scale, feature_scale, pos_weight=(len(train) - right) / right,
        configs=draw_configs(len(train), recipe),
    )  # fmt: skip


def fit_scale(x):
    """Return [mean, deviation] of each dimension, over finite values and positions that are not absent."""
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


def train(task: Task, config: dict) -> tuple[dict, dict]:
    """Train one configuration; return (the trial, a row of the table; the weights of its best epoch)."""
    started = time.process_time()
    usual_precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")  # bfloat16 on a CPU that has it, TF32 on CUDA
    recipe = task.recipe
    seed = recipe.seed * 1_000_003 + config["number"]
    torch.manual_seed(seed)  # of the first weights and of dropout; the order of rows has its own generator
    orders = torch.Generator().manual_seed(seed)
    features = task.x.shape[-1] - task.rollouts.x.shape[-1]
    model = common.build_scorer(recipe.design, config, tuple(task.x.shape[1:]), features).to(task.x.device)
    decay = config["weight_decay"]
    optimiser = torch.optim.Adam(model.parameters(), config["lr"], weight_decay=decay, fused=True)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, factor=0.5, patience=PLATEAU)
    loss_of = torch.nn.BCEWithLogitsLoss(pos_weight=task.y.new_tensor(task.pos_weight))
    trial = {**config, "losses": [], "val_loss": math.inf, "best_epoch": 0}
    weights = {}
    for epoch in range(1, EPOCHS + 1):
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
    torch.set_float32_matmul_precision(usual_precision)
    positions = task.x.shape[1] if recipe.design.startswith("transformer") else 1  # each passes all weights
    products = positions * sum(p.numel() for p in model.parameters() if p.ndim > 1)
    flops = 2 * products * epoch * (3 * len(task.train) + len(task.valid))  # backwards is twice forwards
    return {**trial, "epochs": epoch, "flops": flops, "seconds": time.process_time() - started}, weights


def batches(rows, size, generator):
    """Cut rows in a new order; a last batch of one row joins the one before, as batch norm needs two."""
    order = rows[torch.randperm(len(rows), generator=generator).to(rows.device)]
    cuts = list(range(size, len(order), size))
    if cuts and len(order) - cuts[-1] == 1:
        cuts.pop()
    return order.tensor_split(cuts)


# ---- The search, in processes: on a CPU one a core, each of one thread

TASKS = []  # those that this process works on


def train_all(tasks, trainings, workers):
    """Yield what `train` gives for each of `trainings`, in their order: (number of a task, configuration)."""
    torch.optim.Adam([torch.zeros(1)])  # imports here what each process would import at its first step
    if workers == 1:
        start_process(tasks)
        yield from itertools.starmap(train_one, trainings)
        return
    context = multiprocessing.get_context("fork" if tasks[0].x.is_cpu else "spawn")  # a fork copies no data
    with ProcessPoolExecutor(workers, context, start_process, (tasks,)) as pool:
        try:
            yield from pool.map(train_one, *zip(*trainings))
        except BrokenProcessPool:
            common.die("a search process was killed, it seems for want of memory: take fewer --workers")


def start_process(tasks):
    TASKS[:] = tasks
    if tasks[0].x.is_cpu:
        torch.set_num_threads(1)  # more would change the last bits, and are slower than more processes
    if multiprocessing.parent_process():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # at Ctrl-C the parent ends its processes
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: when it is killed, Linux does


def train_one(number, config):
    return train(TASKS[number], config)


def run_searches(tasks, workers, bar):
    """Search for all tasks side by side."""
    trainings = [(number, config) for number, task in enumerate(tasks) for config in task.configs]
    results = train_all(tasks, trainings, min(workers, len(trainings)))
    started = time.time()
    for (trial, weights), (number, _) in zip(results, trainings):
        bar.update()
        task = tasks[number]
        task.trials.append(trial)
        if task.best is None or trial["val_loss"] < task.best["val_loss"]:
            task.best = trial
            task.weights = weights
    for task in tasks:
        task.clock_seconds = (time.time() - started) / len(tasks)
        if not task.weights:
            common.die(f"none of {len(task.trials)} trainings reached a finite loss; try --standardise")


# ---- scorer.pt


def make_checkpoint(task):
    """Return what common.Scorer needs to rebuild a scorer, and how it came about."""
    recipe = task.recipe
    meta = common.read_meta(recipe.runs[0])
    checkpoint = {
        "design": recipe.design, "vector": recipe.vector, "shape": list(task.rollouts.x.shape[1:]),
        "scale": task.scale, "feature_scale": task.feature_scale, "pos_weight": task.pos_weight,
        "model": meta["model"], "model_stamp": meta.get("model_stamp"), "n_layers": meta["n_layers"],
        "sampling": common.sampling_of(meta), "prompt_stamp": meta.get("prompt_stamp"),
        "config": task.configs[task.best["number"]], "rules": common.RULES_STAMP,
        "asked": [way for run in recipe.runs for way in common.read_meta(run).get("asked", [])],
        "state": {name: torch.from_numpy(value) for name, value in task.weights.items()},
    }  # fmt: skip
    valid = task.rollouts.part(task.valid.tolist())
    logits = common.Scorer(checkpoint)(valid.x, valid.features)
    return checkpoint | {
        "seed": recipe.seed, "runs": list(recipe.runs), "recipe": asdict(recipe),
        "problems": sorted(set(task.rollouts.problems)), "n_rollouts": len(task.rollouts.keys),
        "trials": task.trials, "clock_seconds": task.clock_seconds, "val_loss": task.best["val_loss"],
        "right_of_validation": shares_right(valid, logits), "best_rule": best_rule(task.rollouts),
    }  # fmt: skip


def best_rule(rollouts):
    """Return the confidence rule that picks most right answers of these rollouts."""
    shares = {}
    for rule, column in zip(common.RULES, rollouts.features.T.numpy()):
        scores = torch.from_numpy(common.scores_by_rule(column, rule))
        shares[rule] = shares_right(rollouts, scores)["best-of-n"]
    return max(shares, key=shares.get)


def shares_right(rollouts, logits):
    """Return {strategy of 04: the share of problems for which it picks a right answer}; logits: [R].

    04 chooses by these shares, of the validation part, the scorer and the strategy for answers.jsonl.
    """
    rows_of = defaultdict(list)  # of each problem, by sample
    for key, row in sorted(zip(rollouts.keys, range(len(rollouts.keys)))):
        rows_of[key[:-1]].append(row)
    right = defaultdict(list)  # strategy -> the label of its pick for each problem
    for rows in rows_of.values():
        weights = logits[rows].double().sigmoid().numpy()
        labels = rollouts.labels[rows].tolist()
        for strategy in common.strategies_for(rollouts.groups):
            order = common.STRATEGIES[strategy](rollouts.groups[rows].numpy(), weights, logits[rows].numpy())
            right[strategy].append(labels[order[0]])
    return {strategy: float(np.mean(picked)) for strategy, picked in right.items()}


def measure_costs(checkpoint, trained_on):
    """Return what the search took, and what scoring a rollout takes where 04 does it, on the CPU."""
    scorer = common.Scorer(checkpoint)
    modules = [part.module for part in scorer.parts or [scorer]]
    x, features = torch.ones(1, *scorer.shape), torch.ones(1, len(common.RULES) + 1)
    times = timeit.repeat(lambda: scorer(x, features).tolist(), number=1, repeat=60)[10:]
    return {
        "parameters": sum(p.numel() for module in modules for p in module.parameters()),
        "train_seconds": sum(trial["seconds"] for trial in checkpoint["trials"]),
        "clock_seconds": checkpoint["clock_seconds"],
        "train_flops": sum(trial["flops"] for trial in checkpoint["trials"]),
        "trials": len(checkpoint["trials"]),
        "examples": checkpoint["n_rollouts"],
        "train_device": trained_on,
        "ms_per_rollout": 1e3 * float(np.median(times)),
        "device": common.device_name("cpu"),
    }


# ---- Which of the scorers are missing, and making them


def grouped(recipes, key):
    """Return lists of the paths whose recipes have the same key(recipe)."""
    paths = defaultdict(list)
    for path, recipe in recipes.items():
        paths[key(recipe)].append(path)
    return paths.values()


def find_missing(recipes):
    """Return ({path: stamp} of scorers for which there is something to learn, the paths of those to be made).

    All inputs are read here, so that what is wrong is said before anything is trained.
    """
    stamps = {}
    missing = []
    refusals = {}  # runs -> why nothing can be learned from them
    warnings = {}  # runs -> why a scorer of them may be poor
    for paths in grouped(recipes, attrgetter("runs", "vector")):
        recipe = recipes[paths[0]]
        where = ", ".join(recipe.runs)
        rollouts = load_rollouts(recipe.runs, recipe.vector)
        for path in paths:
            chosen, _ = choose_rollouts(rollouts, recipes[path])
            if refusal := why_nothing(chosen):
                refusals[where] = f"{where}: {refusal}"
                continue
            stamps[path] = scorer_stamp(recipes[path], chosen)
            made = common.load_pt(path) if path.is_file() else {"design": None}
            if not isinstance(made, dict) or "design" not in made:
                common.die(f"{path}: not a scorer, so it is not replaced; choose another -o")
            if made.get("stamp") != stamps[path]:
                missing.append(path)
                warnings[where] = [f"{where}: {doubt}" for doubt in why_poor(chosen, recipes[path])]
    if not stamps:
        advice = "take more problems, easier or harder ones, or see the reasons in labels.jsonl"
        print("nothing to learn")  # for run_all.sh, which goes on without scorers
        common.die("; ".join([*refusals.values(), advice]))
    for line in itertools.chain(refusals.values(), *warnings.values()):
        common.warn(line)
    if len(missing) < len(stamps):
        print(f"{len(stamps) - len(missing)} scorer(s) finished before, with these arguments and inputs")
    return stamps, missing


def scorer_stamp(recipe, rollouts):
    """Return a stamp of all that decides a scorer: code, settings, and what is in the runs, not their names.

    A run may get more vectors without its scorers being made again, and more statistics if they read none.
    """
    settings = asdict(replace(recipe, runs=()))
    prompts = [common.read_meta(run).get("prompt_stamp") for run in recipe.runs]
    of_rollouts = zip(rollouts.keys, rollouts.problems, rollouts.families)
    names = [(*key[1:], *problem, *family) for key, problem, family in of_rollouts]
    columns = [rollouts.x, rollouts.labels, rollouts.groups]
    if recipe.design == "scatr+":
        columns.append(rollouts.features)
    values = [memoryview(column.numpy()) for column in columns]
    return common.stamp(code_stamp(), settings, prompts, names, *values)


@cache
def code_stamp():
    """Return a stamp of this file, and of what makes a scorer and picks by it in common.py."""
    of_common = [
        common.build_scorer, common.mlp, common.two_towers, common.transformer, common.Scorer, common.mixture,
        common.standardise, common.with_features, common.group_totals, common.scores_by_rule,
        *common.STRATEGIES.values(),
    ]  # fmt: skip
    return common.stamp(Path(__file__), *map(inspect.getsource, of_common))


def make_scorers(recipes, stamps, args):
    """Write a scorer for each {path: recipe}. What differs only in the seed is searched for side by side."""
    searches = {path: recipe for path, recipe in recipes.items() if recipe.design not in OVER_LAYERS}
    trainings = sum(len(draw_configs(1000, recipe)) for recipe in searches.values())  # of less data no more
    if searches:
        what = f"{len(searches)} scorer(s) to train, of at most {args.configs} configurations each"
        print(f"{what}: {trainings:,} trainings; a bar shows the time left", file=sys.stderr)
    bar = common.progress(total=trainings, desc="train", unit="training")
    trained_on = f"{args.workers} CPU cores" if args.device == "cpu" else common.device_name(args.device)
    for paths in grouped(searches, partial(replace, seed=0)):
        recipe = recipes[paths[0]]
        rollouts = load_rollouts(recipe.runs, recipe.vector)
        tasks = []
        for path in paths:
            chosen, unjudged = choose_rollouts(rollouts, recipes[path])
            tasks.append(make_task(chosen, recipes[path], args.device))
        right = f"{chosen.labels.mean():.1%} of {len(chosen.keys)} rollouts right"
        where = ", ".join(recipe.runs)
        print(f"{where}, {recipe.vector}: {right}; {unjudged} could not be judged: left out", flush=True)
        run_searches(tasks, args.workers, bar)
        for path, task in zip(paths, tasks):
            save_scorer(path, make_checkpoint(task), stamps[path], trained_on)
    bar.close()
    for path, recipe in recipes.items():
        if recipe.design in OVER_LAYERS:
            checkpoint = combine_layers(recipe, layer_recipes(path, recipe))
            save_scorer(path, checkpoint, stamps[path], trained_on)


def save_scorer(path, checkpoint, stamp, trained_on):
    cost = measure_costs(checkpoint, trained_on)
    common.save_pt(path, checkpoint | {"cost": cost, "stamp": stamp})
    right = f"best-of-n right for {checkpoint['right_of_validation']['best-of-n']:.1%} of its problems"
    trials = f"{len(checkpoint['trials'])} trials in {cost['train_seconds']:.0f} s of computing"
    print(f"{path}: validation: loss {checkpoint['val_loss']:.4f}, {right}; {trials}", flush=True)


# ---- Designs over layers: made of one scorer for each layer, which is a scorer like any other


def layer_recipes(path, recipe):
    """Return {path: recipe} of the scorers of the layers, in a folder `layers` beside the path."""
    stored, columns = common.open_hidden(recipe.runs[0], recipe.vector)
    recipes = {}
    for column in columns:
        layer = stored["vectors"][column]
        name = f"{layer.replace('/', '-')}.{calibration_name(recipe.runs)}-{recipe.seed}.pt"
        recipes[path.parent / "layers" / name] = replace(recipe, design="scatr", vector=layer)
    return recipes


def with_layers(wanted):
    """Return {path: recipe} of these scorers; those of layers come before what is made of them."""
    recipes = {}
    for path, recipe in wanted.items():
        if recipe.design in OVER_LAYERS:
            recipes |= layer_recipes(path, recipe)
        recipes[path] = recipe
    return recipes


def combine_layers(recipe, paths):
    parts = [common.load_scorer(path) for path in paths]
    best = min((part.checkpoint for part in parts), key=lambda checkpoint: checkpoint["val_loss"])
    trials = [{"layer": part.vector, **trial} for part in parts for trial in part.checkpoint["trials"]]
    of_all = {"trials": trials, "clock_seconds": sum(part.checkpoint["clock_seconds"] for part in parts)}
    made = best if recipe.design == "best-layer" else mix_layers(recipe, parts)
    return made | of_all


def mix_layers(recipe, parts):
    """Return the mixture of the layers' probabilities with the lowest loss on the validation part.

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
        "right_of_validation": shares_right(valid, common.mixture(logits, weights.float())),
    }  # fmt: skip


# ---- Which scorers to make: one, one for each seed and run, or all of a study

STUDIED_LAYERS = {f"{at}L": at for at in (".15", ".3", ".45", ".6", ".75", ".9")} | {"L-1": "penultimate"}


def study_rows(args):
    """Return [(row of the table, the runs of a calibration set, what the row changes in the recipe)]."""
    token = (args.vector or common.DEFAULT_VECTOR).partition("/")[2]
    changes_of = {
        "layers": {name: {"vector": f"{layer}/{token}"} for name, layer in STUDIED_LAYERS.items()},
        "fraction": {f"{percent}%": {"fraction": percent / 100} for percent in (100, 50, 25, 10)},
        "designs": {design: {"design": design} for design in DESIGNS if design != "scatr+"},
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
    """Return {path: recipe} of all scorers that are asked for."""
    rows = []  # (name, runs, what it changes in the recipe)
    if args.study:
        rows = [(f"{args.study}-{name}", runs, changes) for name, runs, changes in study_rows(args)]
    else:
        for runs in [[run] for run in args.runs] if args.separate else [args.runs]:
            for design in args.design:
                rows.append((Path(args.out).stem if args.out else design, runs, {"design": design}))
    wanted = {}
    for (name, runs, changes), seed in itertools.product(rows, args.seed):
        path = path_of(args, name, runs, seed)
        if path in wanted:
            common.die(f"{path} would be made twice: give each RUN, --design and --seed once")
        wanted[path] = make_recipe(args, runs, seed, **changes)
    return wanted


def path_of(args, name, runs, seed):
    if args.study:
        folder = Path(args.out)
    elif args.separate:
        folder = Path(runs[0])
    elif len(args.seed) > 1 or len(args.design) > 1:
        folder = Path(args.out or "").parent
    else:
        return Path(args.out or "scorer.pt")
    return folder / f"{name}.{calibration_name(runs)}-{seed}.pt"


def calibration_name(runs):
    """Return CALSET@CALRUN, from the names of the run folders."""
    folders = [Path(run).resolve() for run in runs]
    data_sets = "+".join(folder.parent.name for folder in folders)
    return f"{data_sets}@{'+'.join(folder.name for folder in folders)}"


def main(argv=None):
    args = parse_args(argv)
    if args.device == "cpu":  # each step of Adam would ask CUDA for a stream: a context or an error in a fork
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    args.device = common.pick_device(args.device)
    args.workers = args.workers or (len(os.sched_getaffinity(0)) if args.device == "cpu" else 1)
    common.check_same_model({run: common.read_meta(run) for run in args.runs})
    if args.study:
        args.out = args.out or Path("studies", common.model_name(common.read_meta(args.runs[0])["model"]))
    wanted = recipes_of(args)
    recipes = with_layers(wanted)
    stamps, missing = find_missing(recipes)
    for folder in {path.parent for path in missing}:
        common.check_writable(folder)
    make_scorers({path: recipes[path] for path in recipes if path in missing}, stamps, args)
    for path in wanted:
        if path in stamps:
            print(f"scorer: {path}")


def parse_args(argv=None):
    parser = common.argument_parser(__doc__)
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="labelled run folders; several are one mixed calibration set")
    add("--separate", action="store_true", help="one scorer for each RUN, written into its folder")
    add("-o", "--out", help="scorer to write (default: scorer.pt); each of several is named "
        "NAME.CALSET@CALRUN-SEED.pt (NAME: by default its design); folder of a study (default: "
        "studies/MODEL)")  # fmt: skip
    add("--seed", type=int, nargs="+", default=[32], help="of split, search and training (paper: 32 42 52)")
    add("--design", choices=DESIGNS, nargs="+", default=["scatr"], metavar="DESIGN",
        help=f"one scorer of each (default: scatr): {', '.join(DESIGNS)}")  # fmt: skip
    add("--vector", help=f"layer/token, all/token for designs over layers (default: {common.DEFAULT_VECTOR})")
    add("--configs", type=int, default=100, help="configurations to try (default: 100)")
    add("--paper-space", action="store_true", help="the paper's four shapes above 5,000 rollouts, too")
    add("--standardise", action="store_true", help="dimensions to mean 0, deviation 1 of the training part")
    add("--rollouts", type=int, help="calibrate on the first so many rollouts of each problem")
    add("--study", choices=STUDIES, help="train all scorers of a study, one for each row, RUN and seed; "
        "mixed and halves take RUNs of two data sets")  # fmt: skip
    add("--device", default="cpu", help="cpu, cuda or cuda:1 (default: cpu, as training one of these "
        "small nets takes as long on an H200 as on one core)")  # fmt: skip
    add("--workers", type=int, help="processes (default: a CPU's cores; on a GPU, which they share, 1)")
    args = parser.parse_args(argv)
    for name in ("configs", "rollouts", "workers"):
        value = getattr(args, name)
        if value is not None and value < 1:
            common.die(f"--{name} {value}: give 1 or more")
    if len(args.design) > 1 and (args.study or args.out):
        common.die("--study and -o take one --design; scorers of several designs are named by them")
    if args.out and not args.study and Path(args.out).is_dir():
        common.die(f"-o {args.out} is a folder; name a file in it")
    return args


if __name__ == "__main__":
    common.entry(main, "finished scorers are kept; the same command makes the others")
