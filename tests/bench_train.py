"""How fast the scorer search is, and whether it finds scorers as good, against a plain PyTorch loop of the same search.

    python tests/bench.py train            a small setting, within a minute
    python tests/bench.py train --full     100 configurations, d=2048, 164 problems x 16 rollouts, 3 seeds (hours on one core)

The same vectors, configurations, split and seeds for each; on a CPU one thread, process time, and the three take turns
configuration by configuration, so that a busy machine slows all of them. Prints a table; the last line is one JSON object.
"""

import argparse
import importlib
import json
import math
import time
from argparse import Namespace

import numpy as np
import torch
from torch import nn

import common

trainer = importlib.import_module("03_train_scorer")


def make_world(d, seed=0, topics=64):
    """A direction that tells right from wrong, and topics that move all answers of a problem together."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=d) / math.sqrt(d), rng.normal(size=(d, topics)) / math.sqrt(topics)


def draw_rollouts(world, problems, n, seed):
    """Data whose labels follow the direction within a problem, and the problem's own difficulty."""
    direction, topics = world
    rng = np.random.default_rng(seed)
    topic = (rng.normal(size=(problems, topics.shape[1])) @ topics.T)[:, None]
    own = rng.normal(size=(problems, n, len(direction)))
    logit = 2.0 * own @ direction + topic @ direction + rng.normal(size=(problems, 1))
    label = rng.random((problems, n)) < 1 / (1 + np.exp(-logit))
    keys = [("bench", f"p{i}", j) for i in range(problems) for j in range(n)]
    x = torch.tensor((topic + own).reshape(-1, len(direction)), dtype=torch.bfloat16).float()
    return trainer.Data(x, torch.tensor(label.reshape(-1)).float(), [key[:2] for key in keys], keys)


def plain_loop(task, config):
    """What one would write: nn.Dropout, autograd, torch's Adam and scheduler, the loss read at each step. -> (loss, module)"""
    device = task.x.device
    torch.manual_seed(task.seed * 1_000_003 + config["number"])
    module = common.build_scorer("mlp", config, tuple(task.x.shape[1:])).to(device)
    optimiser = torch.optim.Adam(module.parameters(), lr=config["lr"], weight_decay=config["weight_decay"])
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, factor=0.5, patience=3)
    criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(task.pos_weight, device=device))
    x, y, x_valid, y_valid = task.x[task.train], task.y[task.train], task.x[task.valid], task.y[task.valid]
    best, best_state, stale, losses = math.inf, None, 0, []
    for _ in range(100):
        module.train()
        total = 0.0
        for start, end in trainer.batches(len(x), config["batch_size"]):
            if start == 0:
                order = torch.randperm(len(x), device=device)
            rows = order[start:end]
            optimiser.zero_grad()
            loss = criterion(module(x[rows]), y[rows])
            loss.backward()
            nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimiser.step()
            total += loss.item()
        module.eval()
        with torch.no_grad():
            value = criterion(module(x_valid), y_valid).item()
        scheduler.step(value)
        losses.append(value)
        if value < best:
            best, stale = value, 0
            best_state = {name: tensor.clone() for name, tensor in module.state_dict().items()}
        else:
            stale += 1
            if stale == 10:
                break
    return {"best": best, "config": config, "state": best_state, "losses": losses}


def take_turns(task):
    """{method: (seconds, records)} of one search, configuration by configuration."""
    cpu, seen, found = task.x.device.type == "cpu", {}, {name: [0.0, []] for name in METHODS}
    args = Namespace(design="mlp", loss="bce", search="paper", workers=1)
    turns = [[config] for config in task.configs] if cpu else [task.configs]
    for configs in turns:
        for name in METHODS:
            torch.set_float32_matmul_precision("highest" if name == "sequential" else "medium")
            started = clock(cpu)
            if name == "sequential":
                records = [plain_loop(task, config) for config in configs]
            elif cpu:
                records = trainer.train([task], [(0, configs[0])], args, seen if name == "halving" else None)
            else:
                own = Namespace(**{**vars(args), "search": name})
                records = [r for job in trainer.make_jobs([task], own) for part in trainer.run_job(job, [task], own) for r in part]
            found[name][0] += clock(cpu) - started
            found[name][1] += records
            found[name][1].sort(key=trainer.rank)
            for record in found[name][1][1:]:
                record.pop("state", None)
    return found


METHODS = ("sequential", "paper", "halving")


def clock(cpu):
    if cpu:
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def judge(task, record, test, n):
    """(AUROC, best-of-n accuracy) on test rollouts of the scorer a search chose."""
    module = common.build_scorer("mlp", record["config"], tuple(task.x.shape[1:])).to(task.x.device).eval()
    module.load_state_dict(record["state"])
    with torch.inference_mode():
        logits = module(test.x.to(task.x.device)).cpu().numpy()
    right = test.y.numpy()
    picked = logits.reshape(-1, n).argmax(1)
    return common.auroc(right > 0, logits), float(right.reshape(-1, n)[range(len(picked)), picked].mean())


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="the setting of the README's claim")
    parser.add_argument("--configs", type=int, help="configurations a search (default: 6, with --full 100)")
    parser.add_argument("--seeds", type=int, nargs="+", help="default: 32 42, with --full 32 42 52")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: cpu)")
    args = parser.parse_args(argv)
    d, problems, n = (2048, 164, 16) if args.full else (512, 40, 8)
    configs, seeds = args.configs or (100 if args.full else 6), args.seeds or ([32, 42, 52] if args.full else [32, 42])
    torch.set_num_threads(1)
    world = make_world(d)
    test = draw_rollouts(world, 500, n, seed=999)
    settings = Namespace(configs=configs, standardise=False, fraction=1.0, rollouts=None, half=None, design="mlp",
                         paper_space=False, device=torch.device(args.device), runs=["bench"])  # fmt: skip
    rows, results = [], []
    for seed in seeds:
        task = trainer.make_task(draw_rollouts(world, problems, n, seed), settings, seed, "synthetic")
        for name, (seconds, records) in take_turns(task).items():
            auroc, accuracy = judge(task, records[0], test, n)
            epochs, loss = sum(len(record["losses"]) for record in records), records[0]["best"]
            results.append({"seed": seed, "search": name, "seconds": seconds, "epochs": epochs, "val_loss": loss, "auroc": auroc, "accuracy": accuracy})
            rows.append([f"{seed} {name}", f"{seconds:.1f}", epochs, f"{loss:.4f}", f"{auroc:.4f}", f"{100 * accuracy:.1f}"])
        print(common.table(["seed, search", "seconds", "epochs", "validation loss", "test AUROC", f"best of {n} %"], rows), flush=True)
    of = lambda name, field: np.array([row[field] for row in results if row["search"] == name])
    report = {
        "device": args.device, "d": d, "rollouts": [problems, n], "configs": configs, "seeds": seeds,
        "ratio_vs_sequential": of("sequential", "seconds").sum() / of("paper", "seconds").sum(),
        "ratio_halving_vs_sequential": of("sequential", "seconds").sum() / of("halving", "seconds").sum(),
        "ratio_per_epoch": of("sequential", "seconds").sum() / of("sequential", "epochs").sum() * of("paper", "epochs").sum() / of("paper", "seconds").sum(),
        **{f"{field}_{name}": of(name, field).mean() for field in ("val_loss", "auroc", "accuracy") for name in METHODS},
        **{f"{field}_standard_error": of("sequential", field).std(ddof=1) / math.sqrt(len(seeds)) if len(seeds) > 1 else None
           for field in ("val_loss", "auroc", "accuracy")},
    }  # fmt: skip
    print(json.dumps(report))


if __name__ == "__main__":
    main()
