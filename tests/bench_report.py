"""The report of a large run: 16,000 rollouts x 28 confidence rules x votes x curves x 1,000 bootstrap draws, on one core.

python tests/bench.py report [--problems 1000] [--rollouts 16] [--repeats 3]
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from conftest import ROOT, make_run

import common


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=1000)
    parser.add_argument("--rollouts", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(Path(folder) / "run", problems=args.problems, n=args.rollouts)
        labels, rng = common.read_labels(run), np.random.default_rng(0)
        for seed in range(9):  # the paper's nine scorers
            logits = rng.normal(size=len(labels)) + [row["label"] for row in labels]
            rows = [{"id": r["id"], "sample": r["sample"], "score": x, "p": 1 / (1 + np.exp(-x))} for r, x in zip(labels, logits)]
            common.write_jsonl(run / "scores" / f"scatr.cal@{seed}.jsonl", rows)
        command = ["taskset", "-c", "0", sys.executable, str(ROOT / "05_baselines.py"), str(run)]
        seconds, cpu = [], []
        for _ in range(args.repeats):
            start, cpu_start = time.perf_counter(), cpu_of_children()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            seconds.append(time.perf_counter() - start)
            cpu.append(cpu_of_children() - cpu_start)
    rollouts = args.problems * args.rollouts
    rows = [["rollouts", rollouts], ["score files", 9], ["seconds, median", f"{np.median(seconds):.2f}"],
            ["CPU seconds, median (what counts on a busy machine)", f"{np.median(cpu):.2f}"]]  # fmt: skip
    print(common.table([f"report of {args.problems} problems on one core", ""], rows))
    print(json.dumps({"rollouts": rollouts, "seconds_median": float(np.median(seconds)), "cpu_seconds_median": float(np.median(cpu)),
                      "seconds": seconds, "cpu_seconds": cpu}))  # fmt: skip


def cpu_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
