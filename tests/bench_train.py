"""How fast the scorer search is, and whether it finds scorers as good, against a plain PyTorch loop of the same search.

    python tests/bench.py train                         a small setting, within a minute
    python tests/bench.py train --full                  100 configurations, d=2048, 164 x 16 vectors, 3 seeds: hours
    python tests/bench.py train --quality runs/model    what standardising, the mean of several, ... are worth

The same vectors, configurations, split and seeds for each; on a CPU one thread, process time, and the three take turns
configuration by configuration, so that a busy machine slows all of them. Prints tables; the last line is a JSON object.

--quality runs 03's study of options on the demo's four pairs (labelled runs of FOLDER, as `bash run_all.sh` leaves
them) and on three synthetic worlds with known truth, and pools the differences. Killed and run again, it goes on.
"""

import argparse
import importlib
import json
import math
import time
from argparse import Namespace
from pathlib import Path

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
    """What one would write: nn.Dropout, autograd, torch's Adam and scheduler, the loss read at each step."""
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
    for configs in tqdm(turns, desc=f"seed {task.seed}", unit="turn"):
        for name in METHODS:
            torch.set_float32_matmul_precision("highest" if name == "sequential" else "medium")
            started = clock(cpu)
            if name == "sequential":
                records = [plain_loop(task, config) for config in configs]
            elif cpu:
                records = trainer.train([task], [(0, configs[0])], args, seen if name == "halving" else None)
            else:
                own = Namespace(**{**vars(args), "search": name})
                records = [
                    r
                    for job in trainer.make_jobs([task], own)
                    for part in trainer.run_job(job, [task], own)
                    for r in part
                ]
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
    """AUROC and best-of-n accuracy on test rollouts of the scorer a search chose."""
    module = common.build_scorer("mlp", record["config"], tuple(task.x.shape[1:])).to(task.x.device).eval()
    module.load_state_dict(record["state"])
    with torch.inference_mode():
        logits = module(test.x.to(task.x.device)).cpu().numpy()
    right = test.y.numpy()
    picked = logits.reshape(-1, n).argmax(1)
    best_of_n = float(right.reshape(-1, n)[range(len(picked)), picked].mean())
    return {"val_loss": record["best"], "auroc": common.auroc(right > 0, logits), "accuracy": best_of_n}


def time_searches(args):
    """A row a seed and search, printed as they come."""
    d, problems, n = (2048, 164, 16) if args.full else (512, 40, 8)
    world, rows, cells = make_world(d), [], []
    test = draw_rollouts(world, 500, n, seed=999)
    settings = Namespace(configs=args.configs, standardise=False, fraction=1.0, rollouts=None, half=None, design="mlp",
                         paper_space=False, device=torch.device(args.device), runs=["bench"])  # fmt: skip
    header = ["seed, search", "seconds", "epochs", "validation loss", "test AUROC", f"best of {n} %"]
    for seed in args.seeds:
        task = trainer.make_task(draw_rollouts(world, problems, n, seed), settings, seed, "synthetic")
        for name, (seconds, records) in take_turns(task).items():
            epochs, chosen = sum(len(record["losses"]) for record in records), judge(task, records[0], test, n)
            rows.append({"seed": seed, "search": name, "seconds": seconds, "epochs": epochs, **chosen})
            shown = [f"{chosen['val_loss']:.4f}", f"{chosen['auroc']:.4f}", f"{100 * chosen['accuracy']:.1f}"]
            cells.append([f"{seed} {name}", f"{seconds:.1f}", epochs, *shown])
        print(common.table(header, cells), flush=True)
    return rows


def ratios(rows):
    """What seconds and chosen scorers come to; a difference to the plain loop has its standard error over seeds."""
    of = lambda name, field: np.array([row[field] for row in rows if row["search"] == name])
    seconds, epochs = ({name: of(name, field).sum() for name in METHODS} for field in ("seconds", "epochs"))
    of_an_epoch = {name: seconds[name] / epochs[name] for name in METHODS}
    report = {
        "ratio_vs_sequential": seconds["sequential"] / seconds["paper"],
        "ratio_halving_vs_sequential": seconds["sequential"] / seconds["halving"],
        "ratio_per_epoch": of_an_epoch["sequential"] / of_an_epoch["paper"],
    }
    for field in ("val_loss", "auroc", "accuracy"):
        report[field] = {name: of(name, field).mean() for name in METHODS}
        for name in METHODS[1:]:
            paired = of(name, field) - of("sequential", field)
            error = paired.std(ddof=1) / math.sqrt(len(paired)) if len(paired) > 1 else None
            report[field][f"{name}_difference"] = {"mean": paired.mean(), "standard_error": error}
    return report


# ---------------------------------------------------------------------------------------------------------------------
# Quality

PAIRS = [("math_a", "math_b"), ("math_b", "math_a"), ("code_a", "code_b"), ("code_b", "code_a")]
WORLDS = ("linear", "curved", "massive")


def make_synthetic_run(folder, world, seed, problems, n=16, d=128):
    """A labelled run whose truth is known: right follows a line, or a curve, through the vector within each problem."""
    direction, other = np.random.default_rng(WORLDS.index(world)).normal(size=(2, d)) / math.sqrt(d)
    rng = np.random.default_rng(seed)
    topic, own = rng.normal(size=(problems, 1, d)) * 0.7, rng.normal(size=(problems, n, d))
    logit = 2.2 * abs(own @ direction) + 1.2 * own @ other - 1.6 if world == "curved" else 2.0 * own @ direction
    logit = logit + topic @ direction + rng.normal(size=(problems, 1))
    label = rng.random((problems, n)) < 1 / (1 + np.exp(-logit))
    x = topic + own
    if world == "massive":  # a few huge dimensions, as language models have them
        x[..., :4] = 300 * x[..., :4] + 1000
    keys = [(f"p{i}", j) for i in range(problems) for j in range(n)]
    common.write_json(folder / "meta.json", {"model": "synthetic", "n_layers": 2, "vocab_size": 2, "dataset": folder.name, "seed": seed})
    hidden = torch.tensor(x.reshape(-1, 1, d), dtype=torch.bfloat16)
    common.save_pt(folder / "hidden.pt", {"keys": keys, "vectors": [common.DEFAULT_VECTOR], "hidden": hidden})
    rows = [
        {"id": key[0], "sample": key[1], "label": int(right)}
        for key, right in zip(keys, label.reshape(-1), strict=True)
    ]
    common.write_jsonl(folder / "labels.jsonl", rows)
    return folder


def compare_options(args):
    """{"demo" or "synthetic": the pooled differences of each option to the paper's search}"""
    out, plan, studies = Path(args.out), [], {"synthetic": [], "demo": []}
    for world in WORLDS:
        *runs, evaluated = [out / world / "runs" / name for name in ("cal1", "cal2", "cal3", "eval")]
        for seed, run in enumerate([*runs, evaluated]):
            if not (run / "labels.jsonl").is_file():
                make_synthetic_run(run, world, seed, 300 if run == evaluated else 160)
        plan.append(("synthetic", world, runs, evaluated, args.seeds[:1]))  # three sets with a seed, not one with three
    plan += [("demo", f"{a}-{b}", [f"{args.quality}/{a}/32"], f"{args.quality}/{b}/32", args.seeds) for a, b in PAIRS]
    for kind, name, runs, evaluated, seeds in plan:
        options = f"--study options -n 16 --workers 1 --configs {args.configs} --search {args.search}"
        paths = ["--fraction", args.fraction, "--eval", evaluated, "-o", out / name, "--seed", *seeds]
        trainer.main([*map(str, runs), *options.split(), *map(str, paths)])
        studies[kind].append(common.read_json(out / name / "options.json")["rows"])
    report = {kind: [pool(rows) for rows in zip(*found, strict=True)] for kind, found in studies.items()}
    for kind, rows in report.items():
        header = [f"{kind}: mean of {len(studies[kind])}", *(f"{measure} %" for measure in rows[0]["measures"])]
        form = "{mean:.1f} ({difference:+.1f} ± {standard_error:.1f})"
        cells = [[row["row"], *(form.format(**measure) for measure in row["measures"].values())] for row in rows]
        print("\n" + common.table(header, cells))
    return report


def pool(rows):
    """One option in several studies: the mean over those that have the measure; errors of studies are independent."""
    measures = {}
    for name in dict.fromkeys(name for row in rows for name in row["measures"]):
        own = [row["measures"][name] for row in rows if name in row["measures"]]
        measures[name] = {field: float(np.mean([m[field] for m in own])) for field in ("mean", "difference")}
        measures[name]["standard_error"] = math.sqrt(sum(m["standard_error"] ** 2 for m in own)) / len(own)
    return {"row": rows[0]["row"], "measures": measures}


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--full", action="store_true", help="the setting of the README's claim")
    add("--quality", metavar="FOLDER", help="compare 03's options; FOLDER has the demo's labelled runs")
    add("--configs", type=int, help="configurations a search (default: 6, with --full 100, with --quality 20)")
    add("--seeds", type=int, nargs="+", help="default: 32 42, with --full and --quality 32 42 52")
    add("--fraction", type=float, default=1.0, help="of the calibration problems, for --quality (default: 1)")
    add("--search", choices=("paper", "halving"), default="paper", help="of 03, for --quality (default: paper)")
    add("--device", default="cpu", help="cpu or cuda (default: cpu)")
    add("-o", "--out", default="runs/quality", help="where --quality keeps runs and scorers (default: %(default)s)")
    args = parser.parse_args(argv)
    args.configs = args.configs or (20 if args.quality else 100 if args.full else 6)
    args.seeds = args.seeds or ([32, 42, 52] if args.full or args.quality else [32, 42])
    torch.set_num_threads(1)
    report = compare_options(args) if args.quality else ratios(time_searches(args))
    print(json.dumps({**{name: getattr(args, name) for name in ("full", "configs", "seeds", "device")}, **report}))


if __name__ == "__main__":
    main()
