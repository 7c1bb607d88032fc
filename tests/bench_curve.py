"""How many calibration problems does a scorer need? Accuracy against their number, of many kinds and of few.

    python tests/bench.py curve runs/model/math_a/32 --eval runs/model/math_b/32 --configs 2 --rollouts 8

All runs are labelled. The k-th RUN is calibrated on and evaluated on the k-th run after --eval. For each seed
problems are drawn at random, one of each family in turn: either of all families ("many") or of as few
families as have that many problems ("few", at least 4). On these problems 03_train_scorer.py trains SCaTR
and SCaTR+ with the options that are not known here. The table shows right picks in percent, mean and
standard deviation over the seeds.
"""

import argparse
import contextlib
import importlib
import itertools
import json
import random
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np

import common

trainer = importlib.import_module("03_train_scorer")
DESIGNS = {"SCaTR": "scatr", "SCaTR+": "scatr+"}  # names in tables -> 03's names
PICKS = {"best of N": "best-of-n", "weighted vote": "weighted-vote"}
MEASURES = [f"{method}, {pick}" for pick in PICKS for method in DESIGNS]
SEEDS = [32, 42, 52]
SIZES = [12, 25, 50, 100, 200]
LOOKS = {  # colour and marker of each measure; the points of few kinds are joined by dashes
    "SCaTR, best of N": ("#888888", "o"),
    "SCaTR+, best of N": ("#c0392b", "o"),
    "SCaTR+, weighted vote": ("#2471a3", "s"),
}


def families_of(run):
    """{family: ids of its problems}; a problem without a family is one of its own."""
    families = defaultdict(list)
    for row in common.read_jsonl(Path(run) / "problems.jsonl", needs=("id",)):
        families[row.get("family", row["id"])].append(row["id"])
    return families


def draw_problems(families, count, kinds, seed):
    """The ids of `count` problems: of all families in turn, or of as few families as have so many."""
    rng = random.Random(f"curve {seed}")
    shuffled = [rng.sample(ids, len(ids)) for ids in families.values()]
    rng.shuffle(shuffled)
    if kinds == "few":
        totals = itertools.accumulate(len(ids) for ids in shuffled)
        needed = 1 + sum(total < count for total in totals)
        shuffled = shuffled[: max(needed, 4)]  # 03 cannot split fewer families into two parts
    one_of_each_in_turn = itertools.chain(*itertools.zip_longest(*shuffled))
    drawn = [id for id in one_of_each_in_turn if id is not None]
    return set(drawn[:count])


def copy_part(run, folder, ids):
    """Write to `folder` a run that has only these problems."""
    run = Path(run)
    folder.mkdir()
    common.write_json(folder / "meta.json", common.read_meta(run))
    for name in ("problems.jsonl", "rollouts.jsonl", "labels.jsonl"):
        rows = common.read_jsonl(run / name, needs=("id",))
        common.write_jsonl(folder / name, [row for row in rows if row["id"] in ids])
    hidden = common.load_pt(run / "hidden.pt")
    kept = [place for place, (id, _) in enumerate(hidden["keys"]) if id in ids]
    keys = [hidden["keys"][place] for place in kept]
    common.save_pt(folder / "hidden.pt", hidden | {"keys": keys, "hidden": hidden["hidden"][kept]})


def evaluate(run, evaluated, path, design, seed, options):
    """Train a scorer on a run -> 03's {strategy: share of right picks} for the problems of another run."""
    command = [run, "-o", path, "--design", design, "--seed", seed, *options]
    with contextlib.redirect_stdout(sys.stderr):
        trainer.main([str(word) for word in command])
    scorer = common.load_scorer(path)
    rollouts = trainer.load_rollouts([evaluated], scorer.vector)
    return trainer.shares_right(rollouts, scorer(rollouts.x, rollouts.features))


def measure(run, evaluated, count, kinds, seeds, options):
    """One point of the curve; its families and measures are lists, with a value for each seed."""
    families = families_of(run)
    point = defaultdict(list, run=run, eval=evaluated, problems=count, kinds=kinds)
    for seed in seeds:
        ids = draw_problems(families, count, kinds, seed)
        point["families"].append(sum(not ids.isdisjoint(members) for members in families.values()))
        with tempfile.TemporaryDirectory() as temporary:
            part = Path(temporary) / "part"
            copy_part(run, part, ids)
            for method, design in DESIGNS.items():
                shares = evaluate(part, evaluated, Path(temporary) / f"{method}.pt", design, seed, options)
                for pick, strategy in PICKS.items():
                    if strategy in shares:  # programs do not vote
                        point[f"{method}, {pick}"].append(100 * shares[strategy])
    print(json.dumps(point), flush=True)
    return point


def measure_all(args, options):
    """All points in the order of the table."""
    points = []
    for run, evaluated in zip(args.runs, args.eval, strict=True):
        families = families_of(run)
        total = sum(len(ids) for ids in families.values())
        for count in sorted({min(count, total) for count in args.problems}):
            both = len(families) < total and count < total
            for kinds in ("many", "few") if both else ("many",):
                points.append(measure(run, evaluated, count, kinds, args.seed, options))
    return points


def by_pair(points):
    """{(run to calibrate on, run to evaluate on): its points}"""
    pairs = defaultdict(list)
    for point in points:
        pairs[point["run"], point["eval"]].append(point)
    return pairs


def print_tables(points):
    for (run, evaluated), of_pair in by_pair(points).items():
        measures = [name for name in MEASURES if name in of_pair[0]]
        cells = []
        for point in of_pair:
            shown = [f"{np.mean(point[m]):.1f} ± {np.std(point[m], ddof=1):.1f}" for m in measures]
            cells.append([point["problems"], round(np.mean(point["families"])), *shown])
        print(f"\n{run} -> {evaluated}, right %\n")
        print(common.table(["problems", "kinds", *measures], cells))


def draw_figure(points, path):
    """A panel for each pair of runs: accuracy against the number of calibration problems."""
    from matplotlib.figure import Figure

    pairs = by_pair(points)
    figure = Figure(figsize=(4.2 * len(pairs), 3.6), layout="constrained")
    panels = figure.subplots(1, len(pairs), squeeze=False)[0]
    for axes, ((run, evaluated), of_pair) in zip(panels, pairs.items()):
        for (name, (colour, marker)), kinds in itertools.product(LOOKS.items(), ("many", "few")):
            shown = [point for point in of_pair if point["kinds"] == kinds and name in point]
            sizes = [point["problems"] for point in shown]
            means = [np.mean(point[name]) for point in shown]
            line, label = ("-", name) if kinds == "many" else ("--", None)
            if shown:
                axes.plot(sizes, means, line, color=colour, marker=marker, markersize=4, label=label)
        labels = [row["label"] for row in common.read_labels(evaluated) if row["label"] is not None]
        axes.axhline(100 * np.mean(labels), color="#bbbbbb", linewidth=1, linestyle=":", label="chance")
        sizes = sorted({point["problems"] for point in of_pair})
        axes.set_xscale("log")
        axes.set_xticks(sizes, sizes)
        axes.minorticks_off()
        axes.set_xlabel("calibration problems (dashes: of few kinds)")
        axes.set_ylabel("right %")
        axes.set_title(f"{name_of(run)} to {name_of(evaluated)}", loc="left", fontsize=11)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=80)


def name_of(run):
    return Path(run).resolve().parent.name


def main(argv=None):
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="labelled runs to calibrate on")
    parser.add_argument("--eval", nargs="+", required=True, metavar="RUN", help="as many to evaluate on")
    parser.add_argument("--problems", type=int, nargs="+", default=SIZES, help="calibration problems")
    parser.add_argument("--seed", type=int, nargs="+", default=SEEDS, help="of the draw and of 03")
    parser.add_argument("--plot", metavar="PNG", help="draw the figure, by matplotlib")
    args, options = parser.parse_known_args(argv)
    if len(args.runs) != len(args.eval):
        parser.error(f"{len(args.runs)} runs to calibrate on, {len(args.eval)} to evaluate on")
    points = measure_all(args, options)
    print_tables(points)
    if args.plot:
        draw_figure(points, args.plot)
    print(json.dumps(points))


if __name__ == "__main__":
    main()
