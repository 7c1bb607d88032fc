"""Train a scorer on checked rollouts: hidden.pt and labels.jsonl of one or more run folders -> scorer.pt.

    python 03_train_scorer.py runs/model/humaneval/32 -o scorer.pt
    python 03_train_scorer.py runs/model/humaneval/32 --inputs vector+stats -o scorer+.pt   # SCaTR+
    python 03_train_scorer.py runs/model/*/32 --seed 32 42 52 -o '{run}/scatr.{name}-{seed}.pt'   # one a run
    python 03_train_scorer.py runs/model/humaneval/32 --study layers --eval runs/model/kodcode/32

The paper's random search: 100 small MLPs, problems split 75/25, the lowest validation loss wins. Problems of
one `family` (a field of theirs: a template, a topic) are all on one side of the split. Several runs
are one mixed calibration set; rollouts with the label null are left out. scorer.pt rebuilds itself and has a
table of all trials. A seed gives the same scorer, to the bit on one machine, with any number of --workers.

The paper's tables. C: three calibration runs of one data set, D: of another, E: the run to be judged by.

    table              command, with --seed 32 42 52 --eval E  vectors, of 01                          trials
    main results       RUNS=3 bash run_all.sh MODEL CAL EVAL                                              900
    layers             03 C --study layers    --layers .15,.3,.45,.6,.75,.9,penultimate                 6,300
    calibration set    03 C --study fraction                                                            3,600
    rollouts           03 C --study rollouts                                                            3,600
    scorer design      03 C --study designs   --layers all --extra last10,special   900 x (4 + layers)
    mixed domains      03 C D --study mixed                                                             2,700
    same data set      03 C --study halves                                                              1,800

A search that two tables share, or that run_all.sh has done, is done once. Inputs are checked and hours
estimated before anything trains. A row is the mean over calibration sets (each RUN is one) and seeds;
05 --studies prints all in the paper's shape.
"""

import argparse
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
import timeit
from collections import Counter, defaultdict, namedtuple
from concurrent.futures import ProcessPoolExecutor, process
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import common
from common import np, torch

# ---- The search space

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
    "mlp": common.DEFAULT_VECTOR, "best-layer": "all/eos", "ensemble": "all/eos",
    "transformer-final": "all/eos", "transformer-last10": "last10", "transformer-special": "special",
    "logistic": common.DEFAULT_VECTOR,
}  # fmt: skip
OVER_LAYERS = ("best-layer", "ensemble")  # of one mlp a layer: the lowest validation loss, or a mixture


def draw_configs(n, job):
    """`job.configs` different configurations for n training rollouts, numbered in the order drawn."""
    shapes, *others = next(choices for below, choices in SPACES if n < below)
    choices = SMALL if job.paper_space else shapes, *others
    knobs = dict(zip(KNOBS, LINEAR if job.design == "logistic" else choices, strict=True))
    if job.design.startswith("transformer"):
        knobs = {k: v for k, v in (knobs | TRANSFORMER).items() if k not in ("hidden", "batch_norm")}
    grid = [dict(zip(knobs, values, strict=True)) for values in itertools.product(*knobs.values())]
    random.Random(job.seed).shuffle(grid)
    return [{"number": number, **config} for number, config in enumerate(grid[: job.configs])]


# ---- A job: the arguments for one calibration set (its runs) and one seed. What it learns from


def jobs_of(args, sets, **changes):
    pairs = itertools.product([[*map(str, runs)] for runs in sets], args.seed)
    jobs = [changed(args, runs=runs, seed=seed, **changes) for runs, seed in pairs]
    for job in jobs:
        job.vector = job.vector or DESIGNS[job.design]
        several = job.vector in common.EXTRA_INPUTS or job.vector.startswith("all/")
        if job.design not in OVER_LAYERS and several != job.design.startswith("transformer"):
            common.die(f"--design {job.design} takes a --vector as {DESIGNS[job.design]}, not {job.vector}")
        job.standardise |= job.design == "logistic"
    return jobs


def changed(args, **changes):
    return argparse.Namespace(**{**vars(args), **changes})


# n rollouts. x [n, d] or [n, positions, d]; features [n, 29], the last is the length; y [n], NaN: not judged;
# group [n], -1: no answer; lists: problem (data set, id), family (data set, "family", its name), which is the
# problem where it has none, and keys (run, id, sample)
Data = namedtuple("Data", "x features y group problem family keys")
# One search. x is scaled; x, y and the rows train and valid are on the device
Task = namedtuple("Task", "job data x y train valid scale feature_scale pos_weight configs")


def load_data(runs, vector):
    parts = []
    for run in runs:
        keys, fetch = common.read_inputs(run, vector)
        judged, name = map(torch.from_numpy, read_judged(run, keys)), data_set(run)
        problems = [(name, key[0]) for key in keys]
        named = common.read_families(run)
        families = [(name, "family", named[id]) if id in named else (name, id) for name, id in problems]
        lists = problems, families, [(run, *key) for key in keys]
        parts.append((fetch(slice(None)), common.read_features(run, keys), *judged, *lists))
    columns = list(zip(*parts))
    return Data(*map(torch.cat, columns[:4]), *(sum(column, []) for column in columns[4:]))


def read_judged(run, keys):
    """float32 [R] labels and groups, as in Data."""
    given = lambda value, missing: missing if value is None else value
    rows = common.read_labels(run, keys)
    rows = [(given(row["label"], math.nan), given(row.get("group"), -1)) for row in rows]
    return np.array(rows, dtype=np.float32).T.copy()


def data_set(run):
    return common.short_name(common.read_meta(run)["dataset"])


def halves(problems, seed):
    """Two sets of problems, the same for everybody who asks with this seed."""
    names, half = sorted(set(problems)), len(set(problems)) // 2
    random.Random(f"half {seed}").shuffle(names)
    return set(names[:half]), set(names[half:])


def choose(data, job):
    """Judged rollouts that job.half, balance (as many problems a data set), fraction and rollouts leave."""
    problems = sorted(halves(data.problem, job.seed)[0] if job.half else set(data.problem))
    if job.balance:
        sets = [list(own) for _, own in itertools.groupby(problems, lambda problem: problem[0])]
        rng, fewest = random.Random(f"balance {job.seed}"), min(map(len, sets))
        problems = [p for own in sets for p in rng.sample(own, fewest)]
    if job.fraction < 1:
        count = min(len(problems), max(4, round(job.fraction * len(problems))))  # fewer cannot be split
        problems = random.Random(f"fraction {job.seed}").sample(problems, count)
    kept, most, judged = set(problems), job.rollouts or math.inf, data.y.isfinite().tolist()
    rows = [i for i, key in enumerate(data.keys) if judged[i] and data.problem[i] in kept and key[2] < most]
    return part_of(data, rows)


def part_of(data, rows):
    return Data(*(x[rows] for x in data[:4]), *([column[row] for row in rows] for column in data[4:]))


def split_by_problem(data, seed):
    """(training rows, validation rows): 75 % of the problems and the rest; training has both labels.

    Families are drawn until their problems are that many, never the last: none is on both sides.
    """
    sizes = Counter(family for family, _ in dict.fromkeys(zip(data.family, data.problem)))
    families, rng = list(sizes), random.Random(f"split {seed}")
    while True:
        rng.shuffle(families)
        before = [0, *itertools.accumulate(sizes[family] for family in families[:-1])]
        enough = round(0.75 * sizes.total())
        training = {family for family, count in zip(families[:-1], before) if count < enough}
        sides = [[i for i, f in enumerate(data.family) if (f in training) == side] for side in (True, False)]
        if len(set(data.y[sides[0]].tolist())) == 2:
            return sides


ONE_KIND = """\
right and wrong ones are both needed: take easier or harder problems, or more rollouts of each, \
or see in the reasons in labels.jsonl whether the answers are judged as you mean it"""


def make_task(data, job):
    data = choose(data, job)
    count, right, labelled = len(set(data.family)), int(data.y.sum()), len(data.y)
    broken = [key for key, x in zip(data.keys, data.x) if not x.isfinite().all()]
    for wrong, told in (
        (right in (0, labelled), f"{right} of {labelled} labelled rollouts are right; {ONE_KIND}"),
        (count < 4, f"labelled rollouts of {count} problem(s) or families; the split needs 4"),
        (broken, f"{len(broken)} vectors are not finite, such as {broken[:3]}; generate them again"),
    ):
        if wrong:
            common.die(f"{', '.join(job.runs)}: {told}")
    train, valid = split_by_problem(data, job.seed)
    scale = fit_scale(data.x[train]) if job.standardise else None
    feature_scale = fit_scale(data.features[train]) if job.inputs != "vector" else None
    x = common.standardise(data.x, scale)
    x = common.with_features(x, data.features, feature_scale) if feature_scale else x
    right, tensors = data.y[train].sum().item(), (x, data.y, torch.tensor(train), torch.tensor(valid))
    weight, configs = (len(train) - right) / right, draw_configs(len(train), job)
    return Task(job, data, *(t.to(job.device) for t in tensors), scale, feature_scale, weight, configs)


def fit_scale(x):
    """(mean, deviation) of each dimension over what is there (finite, no absent position)."""
    there = x.isfinite() & (x != 0).any(-1, keepdim=True) if x.ndim == 3 else x.isfinite()
    count, x = there.sum(0).clamp(min=1), x.double().where(there, 0)
    mean = x.sum(0) / count
    deviation = ((x - mean).square() * there).sum(0).div(count).sqrt()
    deviation[deviation <= 1e-6 * (1 + mean.abs())] = 1.0
    return [mean.float(), deviation.float()]


# ---- Training


# An objective: the weight of right answers -> a function of logits [B] and labels [B]
LOSSES = {"bce": lambda weight: torch.nn.BCEWithLogitsLoss(pos_weight=weight)}


@contextmanager
def fast_products():
    """Of bfloat16 on a CPU where oneDNN can, of TF32 on CUDA; the caller's precision comes back in any case."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@fast_products()
def train(task, config, board=None, epochs=EPOCHS):
    """Train one configuration -> (its row in the table of trials, the weights of its best epoch).

    board: [configurations, rungs], the best losses of a search's trials by each rung, for --search halving.
    """
    job, device, started = task.job, task.x.device, time.time()
    seed, features = job.seed * 1_000_003 + config["number"], task.x.shape[-1] - task.data.x.shape[-1]
    torch.manual_seed(seed)  # of the first weights and the dropout; the order of rows has its own
    orders = torch.Generator().manual_seed(seed)
    model = common.build_scorer(job.design, config, tuple(task.x.shape[1:]), features).to(device)
    rate, decay = config["lr"], config["weight_decay"]
    optimiser = torch.optim.Adam(model.parameters(), lr=rate, weight_decay=decay, fused=True)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, factor=0.5, patience=PLATEAU)
    loss_of = LOSSES[job.loss](torch.tensor(task.pos_weight, device=device))
    row, state = {**config, "losses": [], "val_loss": math.inf, "best_epoch": 0}, {}
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
        row["losses"].append(loss)
        if loss < row["val_loss"]:
            row.update(val_loss=loss, best_epoch=epoch)
            state = {name: value.cpu().numpy().copy() for name, value in model.state_dict().items()}
        if not math.isfinite(loss) or epoch - row["best_epoch"] >= PATIENCE:
            break
        if board is not None and epoch in RUNGS and is_hopeless(row, task.configs, board):
            break
    if board is not None:  # it gets to no other rung; those drawn after it wait for every one
        np.nan_to_num(board[config["number"]], copy=False, nan=math.inf, posinf=math.inf)
    places = task.x.shape[1] if job.design.startswith("transformer") else 1  # each passes all the weights
    weights = places * sum(p.numel() for p in model.parameters() if p.ndim > 1)
    flops = 2 * weights * epoch * (3 * len(task.train) + len(task.valid))  # back is twice as far as forth
    return {**row, "epochs": epoch, "flops": flops, "seconds": time.time() - started}, state


def batches(rows, size, generator):
    """Rows in a new order, cut; a last batch of one row joins the one before: batch norm needs two."""
    order = rows[torch.randperm(len(rows), generator=generator).to(rows.device)]
    cuts = list(range(size, len(order), size))
    return order.tensor_split(cuts[:-1] if cuts and len(order) - cuts[-1] == 1 else cuts)


def is_hopeless(row, configs, board):
    """Is it in the worse half of those of its rate drawn before it that got this far? It waits for them."""
    number, rung = row["number"], RUNGS.index(len(row["losses"]))
    rivals = [config["number"] for config in configs[:number] if config["lr"] == row["lr"]]
    board[number, rung] = row["val_loss"]
    while np.isnan(board[rivals, rung]).any():
        time.sleep(0.005)
    reached = [best for best in board[rivals, rung] if best < math.inf]
    return sum(best <= row["val_loss"] for best in reached) >= (len(reached) + 2) // 2


# ---- The search: trials in the order drawn, given to processes


def search(tasks):
    """Yield (task, its rows of trials, the weights of the best) as searches end."""
    job, rows, best = tasks[0].job, [[] for _ in tasks], [(math.inf, None)] * len(tasks)
    trials = [(place, config) for place, task in enumerate(tasks) for config in task.configs]
    if job.search == "halving":  # a run's searches side by side: a trial seldom waits for another
        trials.sort(key=lambda trial: (tasks[trial[0]].job.runs, trial[1]["number"]))
    trained, name = train_all(trials, tasks), f"train {job.design} on {job.vector}"
    for place, row, state in common.progress(trained, len(trials), name, "trial"):
        rows[place].append(row)
        best[place] = min(best[place], (row["val_loss"], state), key=lambda trial: trial[0])
        if len(rows[place]) == len(tasks[place].configs):
            yield tasks[place], rows[place], best[place][1]


def train_all(trials, tasks):
    """Yield (task number, row, weights) in order; on a CPU from a process a core, each of one thread."""
    job, processes = tasks[0].job, min(tasks[0].job.workers, len(trials))
    torch.optim.Adam([torch.zeros(1)])  # loads here what else each process would load at its first step
    context = multiprocessing.get_context("fork" if job.device == "cpu" else "spawn")  # a fork copies no data
    board = context.RawArray("d", [math.nan] * len(tasks) * job.configs * len(RUNGS))
    if processes == 1:
        set_up(tasks, board)
        yield from itertools.starmap(train_one, trials)
        return
    with ProcessPoolExecutor(processes, context, set_up, (tasks, board)) as pool:
        futures = [pool.submit(train_one, *trial) for trial in trials]  # pool.map: tracebacks at Ctrl-C
        try:
            while futures:
                yield futures.pop(0).result()
        except process.BrokenProcessPool:
            common.die("a search process was killed, it seems for want of memory: take fewer --workers")


WORK = {}  # of a process: the tasks, and their boards


def set_up(tasks, board):
    boards = np.frombuffer(board).reshape(len(tasks), -1, len(RUNGS))
    WORK.update(tasks=tasks, boards=boards if tasks[0].job.search == "halving" else [None] * len(tasks))
    if tasks[0].job.device == "cpu":
        torch.set_num_threads(1)  # more would change the last bits, and are slower than a process each
    if parent := multiprocessing.parent_process():  # it hears Ctrl-C; killed, it leaves none behind
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


def train_one(place, config):
    return place, *train(WORK["tasks"][place], config, WORK["boards"][place])


# ---- scorer.pt


def make_scorers(jobs):
    """Each job's path: searches share the processes; what was finished before is left alone."""
    paths = [find_finished(job) for job in jobs]
    for path in filter(None, () if jobs[0].study else paths):
        print(f"{path}: finished before, with these arguments and inputs")
    train_jobs = combine_layers if jobs[0].design in OVER_LAYERS else train_scorers
    for job, scorer in train_jobs([job for job, path in zip(jobs, paths) if path is None]):
        path, cost, auroc = path_of(job), costs(scorer), scorer["val_auroc"]
        common.save_pt(path, {**scorer, "cost": cost, "fingerprint": fingerprint(job)})
        told = f"{len(scorer['trials'])} trials in {cost['train_seconds']:.0f} s of computing"
        shown = "unknown (no right or no wrong answer was held out)" if auroc is None else f"{auroc:.3f}"
        print(f"{path}: validation loss {scorer['val_loss']:.4f}, AUROC {shown}; {told}")
    return [path or path_of(job) for path, job in zip(paths, jobs)]


def train_scorers(jobs):
    tasks = []
    for (runs, vector), own in itertools.groupby(jobs, lambda job: (job.runs, job.vector)):
        data = load_data(runs, vector)
        tasks += [make_task(data, job) for job in own]
        warn_of_few_problems(tasks[-1])
        told = f"{np.nanmean(data.y):.1%} of {len(data.y)} rollouts right"
        print(f"{', '.join(runs)}, {vector}: {told}; {data.y.isnan().sum()} could not be judged: left out")
    for task, rows, state in search(tasks) if tasks else ():
        yield task.job, make_checkpoint(task, rows, state)


def warn_of_few_problems(task):
    problems = len(set(task.data.problem))
    held_out = len({task.data.problem[row] for row in task.valid.tolist()})
    if problems < 50 or held_out < 12:
        told = f"{problems} calibration problems, {held_out} held out"
        spread = f"accuracies ± {50 / math.sqrt(held_out):.0f} points; give 50 or more"
        print(f"warning: {', '.join(task.job.runs)}: {told}: {spread}", file=sys.stderr)


def make_checkpoint(task, rows, state):
    job, data, best = task.job, task.data, min(rows, key=lambda row: row["val_loss"])
    meta, valid = common.read_meta(job.runs[0]), part_of(data, task.valid.tolist())
    if not state:
        common.die(f"none of {len(rows)} configurations reached a finite loss; try --standardise")
    state = {name: torch.from_numpy(value) for name, value in state.items()}
    checkpoint = {
        "design": job.design, "vector": job.vector, "shape": list(data.x.shape[1:]),
        "inputs": job.inputs, "scale": task.scale, "feature_scale": task.feature_scale,
        "model": common.model_name(meta),
        "layers_of_model": meta["n_layers"], "seed": job.seed, "runs": job.runs,
        "sampling": common.sampling_of(meta),
        "config": task.configs[best["number"]], "state": state,
        "val_loss": best["val_loss"], "pos_weight": task.pos_weight, "trials": rows,
        "settings": {name: getattr(job, name) for name in DECIDE},
        "n_rollouts": len(data.y), "problems": sorted(set(data.problem)),
    }  # fmt: skip
    logits = common.Scorer(checkpoint)(valid.x, valid.features)
    table = problem_table(valid, logits.sigmoid())
    stop = common.stop_rows(table["p"], table["labels"], table["tokens"])
    auroc = common.auroc(valid.y.numpy() > 0, logits.numpy())
    return {**checkpoint, "stop": stop, "held_out": held_out(table), "val_auroc": auroc}


def problem_table(valid, p):
    """Each [P, N]: p, labels, tokens and groups of the validation problems; p and groups are -1 where one has
    fewer rollouts. p [R] is what the scorer says."""
    places = by_problem(valid.keys)
    shape = len(places), max(map(len, places.values()))
    values = {"p": p, "labels": valid.y, "tokens": valid.features[:, -1].nan_to_num(0), "groups": valid.group}
    missing = {"p": -1, "labels": 0, "tokens": 0, "groups": -1}
    table = {name: np.full(shape, missing[name], np.float64) for name in values}
    for i, own in enumerate(places.values()):
        for name, value in values.items():
            table[name][i, : len(own)] = value[own]
    return table


def held_out(table):
    """How often each strategy is right on the validation problems, by which 04 chooses between scorers."""
    p, groups = table["p"], table["groups"].astype(int)
    right = {"best-of-n": right_of(common.best_of_n(p), table), "weighted-vote": None}
    if (groups >= 0).any():
        right["weighted-vote"] = right_of(common.weighted_vote(groups, p, p), table)
    return {"how": "validation", "problems": len(p), **right}


def right_of(picks, table):
    """The share of problems whose pick is right."""
    return float(np.take_along_axis(table["labels"], picks[:, None], 1).mean())


def by_problem(keys):
    """{key without its sample: places of its rollouts, in their order}"""
    places = defaultdict(list)
    for place in sorted(range(len(keys)), key=lambda i: keys[i]):
        places[keys[place][:-1]].append(place)
    return places


def costs(checkpoint):
    """What the search took, and scoring a problem where 05 runs its verifiers."""
    device, n = common.pick_device(), round(checkpoint["n_rollouts"] / len(checkpoint["problems"]))
    scorer = common.Scorer(checkpoint, device)
    x, features = torch.ones(n, *scorer.shape), torch.ones(n, len(common.RULES) + 1)
    times = timeit.repeat(lambda: scorer(x, features).tolist(), number=1, repeat=60)[10:]
    seconds, flops = (sum(trial[name] for trial in checkpoint["trials"]) for name in ("seconds", "flops"))
    size = sum(p.numel() for part in scorer.parts or [scorer] for p in part.module.parameters())
    ms, name = 1e3 * float(np.median(times)) / n, common.device_name(device)
    return {"parameters": size, "train_seconds": seconds, "train_flops": flops,
            "ms_per_rollout": ms, "device": name}  # fmt: skip


# What the fingerprint in scorer.pt is of, beside the seed, and the labels and values that it was shown
DECIDE = ["design", "inputs", "search", "configs", "paper_space", "loss", "standardise", "fraction"]
DECIDE += ["rollouts", "half", "balance"]
KEPT = "{design}.{name}-{seed}.{mark}.pt"  # the file of a study's scorer, and of an ensemble's layer


def path_of(job):
    runs = [Path(run).resolve() for run in job.runs]
    name = "+".join(f"{run.parent.name}@{run.name}" for run in runs)
    path, known = str(job.out), {"run": job.runs[0], "name": name, "seed": job.seed, "design": job.design}
    for word, value in {**known, "mark": fingerprint(job)}.items():
        path = path.replace(f"{{{word}}}", str(value))
    return Path(path)


def find_finished(job):
    """The path of the scorer that these arguments and inputs make, or None; a study's also beside the run."""
    path = path_of(job)
    if path.is_file():
        common.load_scorer(path)  # ends here where it is none, which is not written over
    beside = Path(job.runs[0]).glob("*@*.pt") if job.study else ()  # as run_all.sh names them; LoRA's, too
    for file in (path, *beside):
        if file.is_file() and common.load_pt(file).get("fingerprint") == fingerprint(job):
            return file


def fingerprint(job):
    decided = {name: getattr(job, name) for name in ("seed", *DECIDE)}
    return digest([decided, job.vector.split("/")[-1], [content_of(run, job.vector) for run in job.runs]])


@cache
def content_of(run, vector):
    """Of what is shown, not of the file: a run that is given more vectors keeps its scorers."""
    *tensors, _, families, keys = load_data([run], vector)
    names = [(*key[1:], *family) for key, family in zip(keys, families)]
    return digest(names), *(common.hash_of(values.numpy()) for values in tensors)


def digest(value):
    return common.hash_of(json.dumps(value).encode())


# ---- The paper's designs over layers, from one scorer a layer that stays as it is


def searches_of(job):
    """The searches a job consists of: itself, or one a layer."""
    if job.design not in OVER_LAYERS:
        return [job]
    out = Path(job.out).parent / ("" if job.study else "layers") / KEPT
    stored, columns = common.open_hidden(job.runs[0], job.vector)
    layers = [stored["vectors"][column] for column in columns]
    return [changed(job, design="mlp", vector=layer, out=out) for layer in layers]


def combine_layers(jobs):
    for job in jobs:
        parts = [common.load_scorer(path) for path in make_scorers(searches_of(job))]
        facts = [part.checkpoint for part in parts]
        best = min(facts, key=lambda own: own["val_loss"])
        trials = [{"layer": own["vector"], **trial} for own in facts for trial in own["trials"]]
        best = mix(parts, facts, job) if job.design == "ensemble" else best
        yield job, {**best, "trials": trials}


def mix(parts, facts, job):
    """An ensemble: the weights, found by EM, whose mixture of the layers has the lowest validation loss."""
    data = choose(load_data(job.runs, job.vector), job)
    valid = part_of(data, split_by_problem(data, job.seed)[1])
    logits = torch.stack([part(valid.x[:, i]) for i, part in enumerate(parts)], 1)  # [V, layers]
    right, p = valid.y[:, None] > 0, logits.sigmoid().double().clamp(1e-7, 1 - 1e-7)
    told = torch.where(right, p, 1 - p)  # the chance each gave to what is true
    count = 1 + (facts[0]["pos_weight"] - 1) * right.double()
    weights = torch.full((len(parts),), 1 / len(parts), dtype=torch.double)
    for _ in range(2000):
        share = told * weights
        weights = (count * share / share.sum(1, keepdim=True)).sum(0) / count.sum()
    loss, weights = -(count[:, 0] * (told @ weights).log()).mean().item(), weights.float()
    auroc = common.auroc(right[:, 0].numpy(), common.mixture(logits, weights).numpy())
    found = {"parts": facts, "weights": weights, "val_loss": loss, "val_auroc": auroc, "state": None}
    whole = {"design": "ensemble", "vector": job.vector, "shape": list(data.x.shape[1:]), "stop": []}
    whole["held_out"] = held_out(problem_table(valid, common.mixture(logits, weights).sigmoid()))
    return {**facts[0], **whole, **found}


# ---- Studies: rows, each a name and what it changes; `sets`: its calibration sets, if not each RUN alone

STUDIES = ("layers", "fraction", "rollouts", "designs", "mixed", "halves")


def study_rows(args):
    token = (args.vector or common.DEFAULT_VECTOR).partition("/")[2]
    n = min(common.read_meta(run).get("n", 16) for run in args.runs)
    layers = {f"{x}L": x for x in (".15", ".3", ".45", ".6", ".75", ".9")} | {"L-1": "penultimate"}
    sets = defaultdict(list)
    for run in args.runs:
        sets[data_set(run)].append(run)
    if args.study == "mixed" and (len(sets) < 2 or len({*map(len, sets.values())}) > 1):
        told = ", ".join(f"{len(own)} of {name}" for name, own in sets.items())
        common.die(f"--study mixed takes as many runs of each of two data sets, not {told}")
    # As many problems of each data set, the k-th runs of all in the k-th calibration set; and each alone
    mixed = {"mixed": {"sets": [*map(list, zip(*sets.values()))], "balance": True}}
    rows = {
        "layers": {row: {"vector": f"{layer}/{token}"} for row, layer in layers.items()},
        "fraction": {f"{share:.0%}": {"fraction": share} for share in (1.0, 0.5, 0.25, 0.1)},
        "rollouts": {f"N={k}": {"rollouts": k if k < n else None} for k in (16, 12, 8, 4)},
        "designs": {design: {"design": design, "vector": None} for design in DESIGNS},
        "mixed": mixed | {name: {"sets": [[run] for run in own]} for name, own in sets.items()},
        "halves": {"other data set": {}, "same data set": {"sets": [args.eval], "half": True}},
    }
    return rows[args.study]


def run_study(args):
    """Train what is missing, evaluate all, keep the numbers and print their table."""
    if both := {*map(data_set, args.runs)} & {*map(data_set, args.eval)}:
        common.die(f"{', '.join(both)} is in both RUN and --eval: what was learned from proves nothing")
    usual = {"sets": [[run] for run in args.runs], "out": Path(args.out) / "scorers" / KEPT}
    plan = {name: jobs_of(args, **{**usual, **change}) for name, change in study_rows(args).items()}
    for job in itertools.chain(*plan.values()):  # all that will be read is looked at first
        for run in (*job.runs, *args.eval):
            content_of(run, job.vector)
    announce(plan, args)
    rows, sides = [], {"calibration": args.runs, "evaluation": args.eval}
    for name, jobs in plan.items():
        found = [evaluate(path, job, args) for path, job in zip(make_scorers(jobs), jobs)]
        means = {m: [100 * np.mean(one[m], dtype=float) for one in found if m in one] for m in found[0]}
        std = lambda values: np.std(values, ddof=1) if len(values) > 1 else None
        facts = {m: {"mean": np.mean(own), "std": std(own), "values": own} for m, own in means.items()}
        rows.append({"row": name, "measures": facts})
    report = {
        "study": args.study, "model": common.model_name(common.read_meta(args.runs[0])),
        **{side: list(dict.fromkeys(map(data_set, runs))) for side, runs in sides.items()},
        "problems": len(found[0]["best of 16"]), "command": shlex.join(["python", *sys.argv]), "rows": rows,
        "settings": {name: getattr(args, name) for name in (*DECIDE, "vector", "seed", "runs", "eval")},
    }  # fmt: skip
    pair, mark = "-".join("+".join(report[side]) for side in sides), digest(report["settings"])[:8]
    path = Path(args.out) / f"{args.study}.{report['model']}.{pair}.{mark}.json"
    common.write_json(path, report)
    write = lambda m: f"{m['mean']:.1f}" + ("" if m["std"] is None else f" ± {m['std']:.1f}")
    cells = [[row["row"], *map(write, row["measures"].values())] for row in rows]
    print(f"\n{common.table([args.study, *(f'{name} %' for name in facts)], cells)}\n\n{path}")


def announce(plan, args):
    """What is to be trained, and about how long that takes, by an epoch of two trials of each row."""
    missing, trials, hours = {}, 0, 0.0
    for row, jobs in plan.items():
        for job in itertools.chain(*map(searches_of, jobs)):
            if not find_finished(job):
                missing.setdefault(fingerprint(job), (row, job))
    for _, own in itertools.groupby(missing.values(), lambda found: found[0]):
        (_, job), *others = own
        task, started = make_task(load_data(job.runs, job.vector), job), time.time()
        for config in task.configs[:2]:
            train(task, config, epochs=1)
        count, epochs = (1 + len(others)) * len(task.configs), 11 if job.search == "halving" else 25
        trials, hours = trials + count, hours + count * epochs * (time.time() - started) / 2 / 3600
    told = f"about {hours / args.workers:.1f} hours with {args.workers} processes"
    print(f"study of {args.study}: {trials:,} trials to train, {told}", flush=True)


def evaluate(path, job, args):
    """{measure: its values}: of each problem of the --eval runs; AUROC: of each run."""
    scorer, found = common.load_scorer(path), defaultdict(list)
    for run in args.eval:
        keys, logits = common.score_run(scorer, run, path)
        scores, p = logits.numpy(), logits.sigmoid().numpy()
        (right, group), places = read_judged(run, keys), by_problem(keys)
        kept = halves(places, job.seed)[1] if args.study == "halves" else places  # not learned from
        judged = [own for key, own in places.items() if key in kept and np.isfinite(right[own]).all()]
        if not judged:
            common.die(f"{run}: no problem has all its rollouts judged; nothing to evaluate on")
        every = np.concatenate(judged)
        found["AUROC"].append(common.auroc(right[every] > 0, scores[every]))
        for own in judged:
            score, label, answers = scores[own], right[own], group[own]
            found["within a problem"].append(common.auroc(label > 0, score))
            ranked = label[np.argsort(-score, kind="stable")]
            for n in (4, 8, 12, 16):
                found[f"best of {n}"].append(common.first_of_subset(len(own), n) @ ranked)
            if (answers >= 0).any():
                found["weighted vote"].append(label[common.weighted_vote(answers, p[own], score)])
    known = lambda values: [value for value in values if value is not None]
    return {name: known(values) for name, values in found.items() if known(values)}


def main(argv=None):
    args = parse_args(argv)
    args.device = common.pick_device(args.device)
    args.workers = args.workers or (len(os.sched_getaffinity(0)) if args.device == "cpu" else 1)
    facts = lambda meta: f"{common.model_name(meta)!r} ({meta['n_layers']} layers, width {meta.get('width')})"
    first, *others = [(run, facts(common.read_meta(run))) for run in (*args.runs, *args.eval)]
    for run, own in others:
        if own != first[1]:
            common.die(f"{first[0]} is of {first[1]} and {run} of {own}; a scorer is for one model")
    if args.study:
        return run_study(args)
    make_scorers(jobs_of(args, [[run] for run in args.runs] if "{run}" in args.out else [args.runs]))


def parse_args(argv=None):
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="labelled run folders; several are one mixed calibration set")
    add("-o", "--out", help="scorer to write (scorer.pt), or a study's folder (studies). {seed}: its seed; "
        "{run}: its RUN, for a scorer each; {name}: that as SET@SEED")  # fmt: skip
    add("--seed", type=int, nargs="+", default=[32], help="of split, search and training (paper: 32 42 52)")
    add("--inputs", choices=("vector", "vector+stats"), default="vector", help="vector+stats: SCaTR+")
    add("--design", choices=DESIGNS, default="mlp", help="default: mlp")
    add("--vector", help=f"layer/token, all/token for designs over layers (default: {common.DEFAULT_VECTOR})")
    add("--search", choices=("paper", "halving"), default="paper", help="halving ends hopeless trials early")
    add("--configs", type=int, default=100, help="configurations to try (default: 100)")
    add("--paper-space", action="store_true", help="the paper's four shapes above 5,000 rollouts too")
    add("--loss", choices=LOSSES, default="bce", help="default: bce")
    add("--standardise", action="store_true", help="dimensions to mean 0, deviation 1 of the training part")
    add("--rollouts", type=int, help="calibrate on the first so many rollouts of each problem")
    add("--study", choices=STUDIES, help="train and compare scorers that differ in one thing")
    add("--eval", nargs="+", default=[], metavar="RUN", help="labelled runs to evaluate a study on")
    add("--device", help="cpu, cuda, cuda:1, mps (default: the GPU if there is one)")
    add("--workers", type=int, help="processes (default: a CPU's cores; on a GPU, which they share, 1)")
    parser.set_defaults(fraction=1.0, half=False, balance=False)  # what only studies change
    args = parser.parse_args(argv)
    args.out = args.out or ("studies" if args.study else "scorer.pt")
    for wrong, told in (
        (len(args.seed) > 1 and not args.study and "{seed}" not in args.out,
         "several seeds need {seed} in -o, such as -o 'scatr@{seed}.pt'"),
        (not args.study and Path(args.out).is_dir(), f"-o {args.out} is a folder; name a file in it"),
        (args.study and (not args.eval or args.study == "halves" and len(args.eval) > 1),
         "--study needs --eval RUN, labelled runs to evaluate on (one for the study of halves)"),
        (min(args.configs, args.rollouts or 1, args.workers or 1) < 1,
         "--configs, --rollouts, --workers: 1 or more"),
        (args.inputs != "vector" and (args.design not in ("mlp", "logistic") or args.study == "designs"),
         "--inputs vector+stats is for the designs mlp and logistic"),
    ):  # fmt: skip
        if wrong:
            common.die(told)
    return args


if __name__ == "__main__":
    common.entry(main, "finished scorers are kept; the same command makes the others")
