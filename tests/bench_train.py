"""How fast the scorer search is, and whether its scorers are as good, beside a naive loop of the same search.

    python tests/bench.py train                      speed alone: two epochs of six configurations
    python tests/bench.py train --full               speed and quality: 100 configurations, 3 seeds: hours
    python tests/bench.py train --cores 4            and how much faster several processes are, by the clock

2,624 vectors (164 x 16) of width 2048; the same vectors, configurations, split and seeds for each. On a CPU
one thread and process time. The naive loop and ours take turns configuration by configuration, so that a busy
machine slows both. Prints tables; the last line is a JSON object.
"""

import argparse
import importlib
import json
import math
import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from tqdm import tqdm

import common

trainer = importlib.import_module("03_train_scorer")
report = importlib.import_module("05_baselines")


def make_world(d, seed=0, topics=64):
    """A direction that tells right from wrong, and topics that move all answers of a problem together."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=d) / math.sqrt(d), rng.normal(size=(d, topics)) / math.sqrt(topics)


def draw_rollouts(world, problems, n, seed):
    """Rollouts whose labels follow the direction within a problem, and the problem's own difficulty."""
    direction, topics = world
    rng = np.random.default_rng(seed)
    topic = (rng.normal(size=(problems, topics.shape[1])) @ topics.T)[:, None]
    own = rng.normal(size=(problems, n, len(direction)))
    logit = 2.0 * own @ direction + topic @ direction + rng.normal(size=(problems, 1))
    label = rng.random((problems, n)) < 1 / (1 + np.exp(-logit))
    keys = [("bench", f"p{i}", j) for i in range(problems) for j in range(n)]
    x = torch.tensor((topic + own).reshape(-1, len(direction)), dtype=torch.bfloat16).float()
    y = torch.tensor(label.reshape(-1)).float()
    problems = [key[:2] for key in keys]
    return trainer.Rollouts(x, torch.ones(len(x), 29), y, y, problems, problems, keys)


def plain_module(width, config):
    layers = [nn.Dropout(config["input_dropout"])]
    for size in config["hidden"]:
        norm = [nn.BatchNorm1d(size)] if config["batch_norm"] else []
        layers += [nn.Linear(width, size), *norm, nn.ReLU(), nn.Dropout(config["dropout"])]
        width = size
    return nn.Sequential(*layers, nn.Linear(width, 1), nn.Flatten(0))


def plain_loop(task, config, epochs):
    """What one would write: torch's dropout, Adam and precision as they are, the loss read at each step."""
    device, seed = task.x.device, task.recipe.seed * 1_000_003 + config["number"]
    torch.manual_seed(seed)
    orders = torch.Generator().manual_seed(seed)  # the same as in 03
    module = plain_module(task.x.shape[1], config).to(device)
    optimiser = torch.optim.Adam(module.parameters(), lr=config["lr"], weight_decay=config["weight_decay"])
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, factor=0.5, patience=3)
    criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(task.pos_weight, device=device))
    x, y, x_valid, y_valid = task.x[task.train], task.y[task.train], task.x[task.valid], task.y[task.valid]
    losses, state = [], None
    while len(losses) < epochs and len(losses) - np.argmin(losses or [0]) <= 10:
        module.train()
        total = 0.0
        for rows in torch.randperm(len(x), generator=orders).to(device).split(config["batch_size"]):
            if len(rows) == 1 and len(x) > 1:  # batch norm cannot
                continue
            optimiser.zero_grad()
            loss = criterion(module(x[rows]), y[rows])
            loss.backward()
            nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimiser.step()
            total += loss.item()
        module.eval()
        with torch.no_grad():
            losses.append(criterion(module(x_valid), y_valid).item())
        scheduler.step(losses[-1])
        if losses[-1] == min(losses):
            state = {name: value.cpu().numpy().copy() for name, value in module.state_dict().items()}
    return {"val_loss": min(losses), **config, "losses": losses}, state


METHODS = ("naive", "ours")


@dataclass
class Outcome:
    """What the trainings of one method took, and the best of them."""

    seconds: float = 0.0
    epochs: int = 0
    trial: dict | None = None
    weights: dict | None = None


def search(task, epochs):
    """{method: Outcome} of the same search by each method."""
    outcomes = {name: Outcome() for name in METHODS}
    trainer.EPOCHS = epochs

    def measure(name, train, *arguments):
        outcome = outcomes[name]
        started = clock(task.x.device)
        trial, weights = train(*arguments)
        outcome.seconds += clock(task.x.device) - started
        outcome.epochs += len(trial["losses"])
        if outcome.trial is None or trial["val_loss"] < outcome.trial["val_loss"]:
            outcome.trial, outcome.weights = trial, weights

    for config in tqdm(task.configs, desc=f"seed {task.recipe.seed}", unit="configuration"):
        measure("naive", plain_loop, task, config, epochs)
        measure("ours", trainer.train, task, config)
    return outcomes


def clock(device):
    if device.type == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def judge(task, row, state, test, n):
    """AUROC and best-of-n accuracy on test rollouts of the scorer a search chose."""
    module = common.build_scorer("scatr", row, tuple(task.x.shape[1:])).to(task.x.device).eval()
    module.load_state_dict({name: torch.from_numpy(value) for name, value in state.items()})
    with torch.inference_mode():
        logits = module(test.x.to(task.x.device)).cpu().numpy()
    right = test.labels.numpy()
    best_of_n = float(right.reshape(-1, n)[range(len(right) // n), logits.reshape(-1, n).argmax(1)].mean())
    return {"val_loss": row["val_loss"], "auroc": report.auroc(right > 0, logits), "accuracy": best_of_n}


def time_searches(args):
    """A row a seed and search, printed as they come."""
    problems, n = 164, 16
    world, rows = make_world(2048), []
    test = draw_rollouts(world, 500, n, seed=999)
    for recipe in recipes_of(args):
        task = trainer.make_task(draw_rollouts(world, problems, n, recipe.seed), recipe, args.device)
        for name, found in search(task, args.epochs).items():
            row = {"seed": recipe.seed, "search": name, "seconds": found.seconds, "epochs": found.epochs}
            rows.append(row | judge(task, found.trial, found.weights, test, n))
        cells = [[f"{x:.4g}" if isinstance(x, float) else x for x in row.values()] for row in rows]
        print(common.table(list(rows[0]), cells), flush=True)
    return rows


def ratios(rows):
    """What seconds and chosen scorers come to; differences to the naive loop with errors over seeds."""

    def of(name, field):
        return np.array([row[field] for row in rows if row["search"] == name])

    an_epoch = {name: of(name, "seconds").sum() / of(name, "epochs").sum() for name in METHODS}
    report = {
        "ratio_per_epoch": an_epoch["naive"] / an_epoch["ours"],
        "ratio": of("naive", "seconds").sum() / of("ours", "seconds").sum(),
    }
    for field in ("val_loss", "auroc", "accuracy"):
        paired = of("ours", field) - of("naive", field)
        error = paired.std(ddof=1) / math.sqrt(len(paired)) if len(paired) > 1 else None
        report[f"{field}_minus_naive"] = {"mean": paired.mean(), "standard_error": error}
    return report


def recipes_of(args):
    given = trainer.parse_args(["bench", "--configs", str(args.configs)])
    return [trainer.make_recipe(given, given.runs, seed) for seed in args.seeds]


def time_processes(args):
    """Seconds by the clock of one search, by one process and by args.cores."""
    rollouts, found = draw_rollouts(make_world(512), 40, 8, seed=32), {}
    for workers in (1, args.cores):
        started = time.perf_counter()
        tasks = [trainer.make_task(rollouts, recipe, args.device) for recipe in recipes_of(args)]
        trainer.run_searches(tasks, workers, common.progress())
        found[f"{workers} processes"] = time.perf_counter() - started
    return found


def main(argv=None):
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    add = parser.add_argument
    add("--full", action="store_true", help="the setting of the README's claim")
    add("--configs", type=int, help="configurations a search (default: 6, with --full 100)")
    add("--epochs", type=int, help="at most (default: 2, with --full 100)")
    add("--seeds", type=int, nargs="+", help="default: 32, with --full 32 42 52")
    add("--device", default="cpu", help="cpu or cuda (default: cpu)")
    add("--cores", type=int, help="also one search by so many processes; for an idle machine")
    args = parser.parse_args(argv)
    args.configs = args.configs or (100 if args.full else 6)
    args.seeds = args.seeds or ([32, 42, 52] if args.full else [32])
    args.epochs = args.epochs or (100 if args.full else 2)
    torch.set_num_threads(1)
    report = ratios(time_searches(args)) | ({"processes": time_processes(args)} if args.cores else {})
    print(json.dumps({**vars(args), **report}))


if __name__ == "__main__":
    main()
