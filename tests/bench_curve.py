"""How many calibration problems does a scorer need? Accuracy against their number, of many kinds and of few.

    python tests/bench.py curve runs/model/math_a/32 --eval runs/model/math_b/32 --configs 2 --rollouts 8

All runs are labelled. The k-th RUN is calibrated on and evaluated on the k-th run after --eval. For each seed
problems are drawn at random, one of each family in turn: either of all families ("many") or of as few families
as have that many problems ("few", at least 4). On these problems 03_train_scorer.py trains SCaTR and SCaTR+
with the options that are not known here. The table shows right picks in percent, mean and standard deviation
over the seeds. --points keeps each measurement in a file, so that a killed benchmark resumes and --plot can
draw the figure again without training.
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
INPUTS = {"SCaTR": "vector", "SCaTR+": "vector+stats"}
MEASURES = [f"{method}, {pick}" for pick in ("best of N", "weighted vote") for method in INPUTS]
SEEDS = [32, 42, 52]
SIZES = [12, 25, 50, 100, 200]
LOOKS = {  # colour and marker of each measure; the points of few kinds are joined by dashes
    "SCaTR, best of N": ("#888888", "o"),
    "SCaTR+, best of N": ("#c0392b", "o"),
    "SCaTR+, weighted vote": ("#2471a3", "s"),
}


def families_of(run):
    """{family: ids of its problems}; a problem without a family is one of its own."""
    named = common.read_families(run)
    families = defaultdict(list)
    for row in common.read_jsonl(Path(run) / "problems.jsonl", needs=("id",)):
        families[named.get(row["id"], row["id"])].append(row["id"])
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


def train_scorer(run, path, inputs, seed, options):
    command = [run, "-o", path, "--inputs", inputs, "--seed", seed, *options]
    with contextlib.redirect_stdout(sys.stderr):
        trainer.main([str(word) for word in command])
    return common.load_scorer(path)


def evaluate(scorer, run):
    """The share of problems whose pick is right, for best-of-N and, where answers can be equal, the vote."""
    keys, logits = common.score_run(scorer, run)
    scores = logits.numpy()
    p = logits.sigmoid().numpy()
    labels = common.read_labels(run, keys)
    right = np.array([np.nan if row["label"] is None else row["label"] for row in labels])
    groups = np.array([-1 if row.get("group") is None else row["group"] for row in labels])
    places = defaultdict(list)
    for place, (id, _) in enumerate(keys):
        places[id].append(place)
    picks = defaultdict(list)
    for own in map(np.array, places.values()):
        picks["best of N"].append(own[common.best_of_n(scores[own])])
        if (groups >= 0).any():
            vote = common.weighted_vote(groups[own], p[own], scores[own])
            picks["weighted vote"].append(own[vote])
    return {pick: float(np.nanmean(right[chosen])) for pick, chosen in picks.items()}


def measure(run, evaluated, count, kinds, seed, options):
    """One point of the curve for one seed, as a row of the --points file."""
    families = families_of(run)
    ids = draw_problems(families, count, kinds, seed)
    drawn_families = sum(not ids.isdisjoint(members) for members in families.values())
    row = {"run": run, "eval": evaluated, "problems": count, "kinds": kinds, "seed": seed,
           "options": options, "families": drawn_families}  # fmt: skip
    with tempfile.TemporaryDirectory() as temporary:
        part = Path(temporary) / "part"
        copy_part(run, part, ids)
        for method, inputs in INPUTS.items():
            scorer = train_scorer(part, Path(temporary) / f"{method}.pt", inputs, seed, options)
            for pick, right in evaluate(scorer, evaluated).items():
                row[f"{method}, {pick}"] = 100 * right
    return row


def measure_all(args, options):
    """Rows of all points in the order of the table; those in the --points file are not measured again."""
    names = ("run", "eval", "problems", "kinds", "seed", "options")
    rows = []
    if args.points and Path(args.points).is_file():
        rows = common.read_jsonl(args.points, needs=names)
    measured = {json.dumps([row[name] for name in names]): row for row in rows}
    wanted = []
    for run, evaluated in zip(args.runs, args.eval, strict=True):
        families = families_of(run)
        total = sum(len(ids) for ids in families.values())
        for count in sorted({min(count, total) for count in args.problems}):
            both = len(families) < total and count < total
            for kinds in ("many", "few") if both else ("many",):
                wanted += [[run, evaluated, count, kinds, seed, options] for seed in args.seed]
    for point in wanted:
        key = json.dumps(point)
        if key not in measured:
            measured[key] = measure(*point)
            print(json.dumps(measured[key]), flush=True)
            if args.points:
                common.write_jsonl(args.points, [*measured.values()])
    return [measured[json.dumps(point)] for point in wanted]


def average_seeds(rows):
    """[(the facts that rows of one point share, {measure: its values})] in the order of the rows."""
    points = defaultdict(list)
    for row in rows:
        points[row["run"], row["eval"], row["problems"], row["kinds"]].append(row)
    averaged = []
    for (run, evaluated, count, kinds), own in points.items():
        families = round(np.mean([row["families"] for row in own]))
        facts = {"run": run, "eval": evaluated, "problems": count, "kinds": kinds, "families": families}
        values = {m: [row[m] for row in own] for m in MEASURES if m in own[0]}
        averaged.append((facts, values))
    return averaged


def print_tables(points):
    for evaluated in dict.fromkeys(facts["eval"] for facts, _ in points):
        own = [point for point in points if point[0]["eval"] == evaluated]
        measures = [*own[0][1]]
        cells = []
        for facts, values in own:
            shown = [f"{np.mean(values[m]):.1f} ± {np.std(values[m], ddof=1):.1f}" for m in measures]
            cells.append([facts["problems"], facts["families"], *shown])
        print(f"\n{own[0][0]['run']} -> {evaluated}, right %\n")
        print(common.table(["problems", "kinds", *measures], cells, markdown=True))


def draw_figure(points, path):
    """A panel for each pair of runs: accuracy against the number of calibration problems."""
    from matplotlib.figure import Figure

    pairs = [*dict.fromkeys((facts["run"], facts["eval"]) for facts, _ in points)]
    figure = Figure(figsize=(4.2 * len(pairs), 3.6), layout="constrained")
    for axes, (run, evaluated) in zip(figure.subplots(1, len(pairs), squeeze=False)[0], pairs):
        own = [point for point in points if point[0]["run"] == run and point[0]["eval"] == evaluated]
        for name, (colour, marker) in LOOKS.items():
            for kinds, line in (("many", "-"), ("few", "--")):
                shown = [(facts["problems"], np.mean(values[name]))
                         for facts, values in own if facts["kinds"] == kinds and name in values]  # fmt: skip
                if shown:
                    label = name if kinds == "many" else None
                    axes.plot(*zip(*shown), line, color=colour, marker=marker, markersize=4, label=label)
        labels = [row["label"] for row in common.read_labels(evaluated) if row["label"] is not None]
        axes.axhline(100 * np.mean(labels), color="#bbbbbb", linewidth=1, linestyle=":", label="chance")
        sizes = sorted({facts["problems"] for facts, _ in own})
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
    parser.add_argument("--points", metavar="FILE", help="keep each measurement here, and resume from it")
    parser.add_argument("--plot", metavar="PNG", help="draw the figure, by matplotlib")
    args, options = parser.parse_known_args(argv)
    if len(args.runs) != len(args.eval):
        parser.error(f"{len(args.runs)} runs to calibrate on, {len(args.eval)} to evaluate on")
    points = average_seeds(measure_all(args, options))
    print_tables(points)
    if args.plot:
        draw_figure(points, args.plot)
    print(json.dumps([facts | values for facts, values in points]))


if __name__ == "__main__":
    main()
