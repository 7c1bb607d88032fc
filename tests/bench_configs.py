"""How many configurations and rollouts does a search need? Validation loss and right picks against both.

    python tests/bench.py configs runs/model/math_a/32 --eval runs/model/math_b/32

For each seed and each number of rollouts 03_train_scorer.py's search trains the most configurations once. Of
the first k of them, the one with the lowest validation loss is what a search of k would have kept; its picks
are the best of all answers of each problem of the run after --eval. The table shows means over the seeds, and
the standard deviation of the right picks.
"""

import argparse
import importlib
import json
import os
from collections import defaultdict

import numpy as np

import common

trainer = importlib.import_module("03_train_scorer")


def search(run, evaluated, seed, rollouts, args):
    """(validation loss, right %) of a search of each number of configurations, of one seed."""
    options = ["--seed", seed, "--rollouts", rollouts, "--configs", max(args.configs), "--design", args.design]
    recipe = trainer.make_recipe(trainer.parse_args([str(word) for word in (run, *options)]), [run], seed)
    chosen, _ = trainer.choose_rollouts(trainer.load_rollouts([run], recipe.vector), recipe)
    task = trainer.make_task(chosen, recipe, "cpu")
    others = trainer.load_rollouts([evaluated], recipe.vector)
    found = []
    trainings = [(0, config) for config in task.configs]
    trained = trainer.train_all([task], trainings, args.workers)
    name = f"seed {seed}, {rollouts} rollouts"
    for number, (trial, weights) in enumerate(common.progress(trained, len(trainings), name, "trial"), 1):
        task.trials.append(trial)
        if task.best is None or trial["val_loss"] < task.best["val_loss"]:
            task.best = trial
            task.weights = weights
        if number in args.configs:
            scorer = common.Scorer(trainer.make_checkpoint(task))
            shares = trainer.shares_right(others, scorer(others.x, others.features))
            found.append((task.best["val_loss"], 100 * shares["best-of-n"]))
    return found


def main(argv=None):
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("run", metavar="RUN", help="labelled run to calibrate on")
    parser.add_argument("--eval", required=True, metavar="RUN", help="labelled run to evaluate on")
    parser.add_argument("--configs", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32, 100])
    parser.add_argument("--rollouts", type=int, nargs="+", default=[4, 8, 16])
    parser.add_argument("--seed", type=int, nargs="+", default=[32, 42, 52])
    parser.add_argument("--design", choices=("scatr", "scatr+"), default="scatr")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args(argv)
    points = defaultdict(list)  # (configurations, rollouts) -> of each seed
    for rollouts in args.rollouts:
        for seed in args.seed:
            for count, point in zip(sorted(args.configs), search(args.run, args.eval, seed, rollouts, args)):
                points[count, rollouts].append(point)
    rows = []
    for count in sorted(args.configs):
        cells = [str(count)]
        for rollouts in args.rollouts:
            losses, right = zip(*points[count, rollouts])
            cells += [f"{np.mean(losses):.3f}", f"{np.mean(right):.1f} ± {np.std(right, ddof=1):.1f}"]
        rows.append(cells)
    header = [word for rollouts in args.rollouts for word in (f"{rollouts} rollouts: loss", "right %")]
    print(common.table(["configurations", *header], rows))
    facts = [{"configs": key[0], "rollouts": key[1], "points": found} for key, found in points.items()]
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
