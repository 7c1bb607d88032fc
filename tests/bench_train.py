"""How fast the scorer search is, beside a naive loop of the same search.

    python tests/bench.py train      two epochs of six configurations

2,624 vectors (164 x 16) of width 2048; the same vectors, configurations, split and seeds for both, one thread,
processor time. They take turns configuration by configuration, so that a busy machine slows both.
"""

import importlib
import json
import math
import time

import numpy as np
import torch
from torch import nn
from tqdm import tqdm

import common

trainer = importlib.import_module("03_train_scorer")


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


def main(argv):
    parser = common.argument_parser(__doc__)
    parser.add_argument("--configs", type=int, default=6, help="configurations of the search")
    parser.add_argument("--epochs", type=int, default=2, help="of each configuration, at most")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    trainer.EPOCHS = args.epochs
    options = trainer.parse_args(["bench", "--configs", str(args.configs)])
    recipe = trainer.make_recipe(options, options.runs, seed=32)
    task = trainer.make_task(draw_rollouts(make_world(2048), 164, 16, seed=32), recipe, "cpu")
    seconds, epochs = {"naive": 0.0, "ours": 0.0}, {"naive": 0, "ours": 0}
    for config in tqdm(task.configs, unit="configuration"):
        for name, train, more in (("naive", plain_loop, [args.epochs]), ("ours", trainer.train, [])):
            started = time.process_time()
            trial, _ = train(task, config, *more)
            seconds[name] += time.process_time() - started
            epochs[name] += len(trial["losses"])
    an_epoch = {name: seconds[name] / epochs[name] for name in seconds}
    print(common.table(["search", "seconds an epoch"], [[name, f"{x:.4g}"] for name, x in an_epoch.items()]))
    print(json.dumps(vars(args) | {"ratio_per_epoch": an_epoch["naive"] / an_epoch["ours"]}))
