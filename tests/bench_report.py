"""The report of a large run on one core: 16,000 rollouts x 28 rules x votes x curves x 10,000 draws.

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
from conftest import ROOT, add_scores, make_run

import common


def main(argv):
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    for option, default in (("--problems", 1000), ("--rollouts", 16), ("--repeats", 3)):
        parser.add_argument(option, type=int, default=default)
    args, found = parser.parse_args(argv), []
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(Path(folder) / "run", problems=args.problems, n=args.rollouts)
        for seed in range(9):  # the paper's nine scorers
            add_scores(run, f"scatr.cal@{seed}", seed)
        for _ in range(args.repeats):
            start, cpu = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
            command = ["taskset", "-c", "0", sys.executable, str(ROOT / "05_baselines.py"), str(run)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            now = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = now.ru_utime + now.ru_stime - cpu.ru_utime - cpu.ru_stime
            found.append((time.perf_counter() - start, used))
    seconds, cpu = map(float, np.median(found, 0))
    facts = {"problems": args.problems, "rollouts": args.problems * args.rollouts, "score files": 9,
             "seconds, median": seconds, "CPU seconds, median (what counts if busy)": cpu}  # fmt: skip
    print(common.table(["report on one core", ""], [[name, f"{value:g}"] for name, value in facts.items()]))
    print(json.dumps(facts | {"seconds_and_cpu_seconds": found}))
