"""The report of a large run on one core: 16,000 rollouts x 28 rules x votes x curves x 10,000 draws.

python tests/bench.py report [--problems 1000]
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from conftest import ROOT, add_scores, make_run

import common


def main(argv):
    parser = common.argument_parser(__doc__)
    parser.add_argument("--problems", type=int, default=1000)
    args, found = parser.parse_args(argv), []
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(Path(folder) / "run", problems=args.problems, n=16)
        for seed in range(9):  # the paper's nine scorers
            add_scores(run, f"scatr.cal@{seed}", seed)
        for _ in range(3):
            start, cpu = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
            command = ["taskset", "-c", "0", sys.executable, str(ROOT / "05_baselines.py"), str(run)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            now = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = now.ru_utime + now.ru_stime - cpu.ru_utime - cpu.ru_stime
            found.append((time.perf_counter() - start, used))
    seconds, cpu = map(float, np.median(found, 0))
    row = [16 * args.problems, f"{seconds:.1f}", f"{cpu:.1f}"]
    print(common.table(["rollouts", "seconds, median", "CPU seconds, median (what counts if busy)"], [row]))
    print(json.dumps({"problems": args.problems, "seconds": seconds, "cpu": cpu, "each": found}))
