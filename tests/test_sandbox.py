"""sandbox_exec.py: verdicts with their reasons, every style of tests, legitimate programs, limits, no leaks.

What hostile programs try is in test_sandbox_attacks.py, most programs are in sandbox_programs.txt.
"""

import json
import os
import subprocess
import sys
import threading
import time
import venv
from pathlib import Path

import pytest
from conftest import CHECK, SQUARE, judge, programs, sandbox_job

import sandbox_exec
from sandbox_exec import Pool


@pytest.fixture(scope="module")
def pool():
    with Pool(2) as pool:
        yield pool


def stdio(*pairs):
    """Tests of what is printed, from pairs of an input and an output."""
    return {"inputs": [given for given, _ in pairs], "outputs": [wanted for _, wanted in pairs]}


LACKING = "import no_such_package\n"
AT_9 = "assert f(3) == 9\n"
FAILING = ("import unittest\nclass T(unittest.TestCase):\n    @unittest.expectedFailure\n"
           "    def test(self): self.assertEqual(f(3), 9)\n")
VERDICTS = [
    (SQUARE, CHECK, "passed"),
    ("def f(x): return x + x\n", CHECK, "failed: assert candidate(3) == 9"),
    ("def f(x): return [][x]\n", AT_9, "failed: IndexError: list index out of range, in: assert f(3) == 9"),
    ("def g(x): return x * x\n", CHECK, "failed: the program does not define f"),
    ("1 / 0\n" + SQUARE, CHECK, "failed: ZeroDivisionError: division by zero, while the program was loaded"),
    ("def f(x): return x *\n", CHECK, "syntax"),
    ("def f(x): return x\n", FAILING, "passed"),
    (SQUARE, FAILING, "failed: test (tests.T"),
    (None, CHECK, "no code"),
    (SQUARE, "x = f(3)\n", "error: the tests have no assert"),
    (SQUARE, "if f(3) == 0:\n    assert False\n", "failed: the tests ran no assert"),
    (LACKING + SQUARE, LACKING + AT_9, "error: the tests need 'no_such_package', which is not installed"),
    (LACKING + SQUARE, AT_9, "failed: ModuleNotFoundError: No module named 'no_such_package', while the"),
    (SQUARE, "assert f(3) ==\n", "error: the tests or the prelude do not parse"),
    ("def f(x): raise ValueError('no')\n",
     "import pytest\nwith pytest.raises(ValueError, match='yes'): f(3)\n", "failed: "),
    (SQUARE, {"inputs": ["1"], "outputs": []}, "error: tests must be text or"),
    (SQUARE, ["x = 9\n" + AT_9, "assert 'x' not in globals() and f(2) == 4"], "passed"),
    (SQUARE, [AT_9, "assert f(2) == 5", AT_9], "failed: assert f(2) == 5"),
    (SQUARE, stdio(("1", "1")) | {"fn_name": "f"}, "error: beside inputs and outputs nothing is known, not fn_"),
    (SQUARE, AT_9 + "import sys\nsys.exit(0)\n", "error: the tests end the process"),
    ("def f(x): return 0\n", "import sys\nassert f\nif f(3) != 9: sys.exit(1)\n", "failed: SystemExit: 1"),
    ("MEMO = {}\n" + SQUARE, "MEMO = [1]\n" + AT_9, "passed"),
    ("def f(x): return bytearray(1 << 40)\n", CHECK, "memory"),
    ("import os\ndef f(x): os.abort()\n", CHECK, "killed: signal"),
    ("import os\ndef f(x): os._exit(0)\n", CHECK, "failed: the program ended (exit status 0) before its"),
    ("print(int(input()) ** 2)\n", stdio(("3", "9"), ("4", "16\n")), "passed"),
    ("print(int(input()) * 2)\n", stdio(("2", "4"), ("3", "9")), "failed: input 2 of 2: wrong output"),
    ("raise ValueError('no')\n", stdio(("", "1")), "failed: input 1 of 1: exit status 1 ValueError: no"),
    ("print('0.50 2.0')\n", stdio(("", ".5 2")), "passed"),
    ("print('1_0.0')\n", stdio(("", "10")), "failed: input 1 of 1: wrong output"),
    ("print('0.5  0.25')\nprint('1  2')\n", stdio(("", ".5 .25\n1 2")), "failed: input 1 of 1: wrong output"),
]


@pytest.mark.parametrize("code, tests, reason", VERDICTS)
def test_verdict_and_reason(pool, code, tests, reason):
    result = judge(pool, code, tests)
    assert result.reason.startswith(reason)
    assert result.passed is {"passed": True, "error": None}.get(reason.split(":")[0], False)


EARLY = programs("early")


@pytest.mark.parametrize("name", EARLY)
def test_what_ends_or_skips_the_tests_has_not_passed(name, pool):
    reason = judge(pool, *EARLY[name]).reason
    assert reason.startswith(("failed: the program ended", "failed: the program skipped", "failed: SystemExit"))


STYLES = programs("style")                       # those named real need the package


@pytest.mark.parametrize("name", STYLES)
def test_styles_pass_and_can_fail(name, pool):
    code, tests = STYLES[name]
    assert judge(pool, code, tests).reason == "passed"
    assert judge(pool, "def f(x):\n    return x + 1\n", tests).passed is False


def test_without_pytest_nothing_is_called_wrong(tmp_path):
    venv.create(tmp_path)
    script = ("import json, sys\nsys.path.insert(0, sys.argv[1])\nfrom sandbox_exec import Pool\n"
              "with Pool(1) as pool:\n    for job in json.load(sys.stdin): print(pool.judge(job).reason)\n")
    jobs = [sandbox_job(code, tests) for code, tests in STYLES.values()]
    done = subprocess.run([tmp_path / "bin" / "python", "-c", script, Path(sandbox_exec.__file__).parent],
                          input=json.dumps(jobs), capture_output=True, text=True)
    lacking = "error: the tests need 'pytest', which is not installed"
    wanted = [lacking if name.startswith("real") else "passed" for name in STYLES]
    assert done.stdout.splitlines() == wanted, done.stderr


def test_prelude_stands_in_front_of_program_and_tests(pool):
    prelude = 'import math\ndef helper(x): return x + 1\ndef f(x):\n    """A stub."""\n'
    tests = "def check(candidate): assert candidate(3) == helper(9)\n"
    options = {"prelude": prelude, "style": "check"}
    assert judge(pool, "def f(x): return math.floor(helper(x * x))\n", tests, **options).reason == "passed"
    assert judge(pool, "y = 1\n", tests, **options).reason == "failed: the program does not define f"
    redefined = "def helper(x): return 3\ndef f(x): return 3\n"
    assert judge(pool, redefined, tests, **options).passed is False
    assert judge(pool, SQUARE, prelude="def f(x):\n").reason == "passed"     # it may end inside a function
    error = "error: the prelude ends in ImportError: cannot import name 'nope'"
    assert judge(pool, SQUARE, prelude="from math import nope\n").reason.startswith(error)
    error = "error: tests of the style check define check(candidate) and need an entry_point"
    assert judge(pool, SQUARE, AT_9, style="check").reason == error
    helper = "def check(x): return x == 9\nassert check(f(3))\n"
    assert judge(pool, SQUARE, helper, style="pytest").passed
    assert judge(pool, SQUARE, helper, style="check", entry_point=None).passed
    assert judge(pool, "def f(x): return x\n", helper, entry_point=None).passed is False
    assert judge(pool, SQUARE, "def check(candidate): assert candidate(3) == 9", entry_point=None).reason == error


LEGITIMATE = programs("legitimate")


@pytest.mark.parametrize("name", LEGITIMATE)
def test_legitimate_programs_pass(pool, name):
    """The layers and limits leave them alone."""
    result = judge(pool, *LEGITIMATE[name])
    assert result.passed and (name != "300 MB" or 300 < result.memory_mb < 400)


PRELUDE = ("class Bad(Exception): pass\nclass N:\n"
           "    def __init__(self, v, next=None): self.v, self.next = v, next\n")


@pytest.mark.parametrize("again", ["", PRELUDE])  # models like to write down the prompt's classes once more
def test_classes_of_the_prelude_are_the_same_on_both_sides(pool, again):
    code = again + "def f(n):\n    if n is None: raise Bad('no')\n    n.v += 1\n    return N(n.v, n)\n"
    tests = ("a = N(1)\nr = f(a)\nassert isinstance(r, N) and r.next is a and (r.v, a.v) == (2, 2)\n"
             "try: f(None)\nexcept Bad as e: assert str(e) == 'no'\nelse: assert False\n")
    assert judge(pool, code, tests, prelude=PRELUDE).reason == "passed"
    assert judge(pool, code.replace("+= 1", "+= 2"), tests, prelude=PRELUDE).passed is False


RIGHT = programs("right")


@pytest.mark.parametrize("name", RIGHT)
def test_right_programs_pass_and_can_fail(pool, name):
    code, tests, change = RIGHT[name]
    old, new = change.strip().split(" -> ")
    assert old in code
    assert judge(pool, code, tests).reason == "passed"
    assert judge(pool, code.replace(old, new), tests).passed is False


def test_stdio_is_a_real_file_and_lenient_about_blanks(pool):
    code = ("import os, sys\nd = open(0).read().split()\nsys.stdout.write(' '.join(d) + '  \\n')\n"
            "sys.stdout.flush()\nos.write(1, b'end\\n\\n')\n")
    big = "7 " * 700_000
    assert judge(pool, code, stdio(("a b", "a b\nend"), (big, big + "\nend\n"))).reason == "passed"
    assert judge(pool, code, stdio(("a b", "a  b\nend"))).passed is False
    result = judge(pool, "input(); input()\n", stdio(("one line", "")))
    assert result.reason.endswith("EOFError: EOF when reading a line")
    assert judge(pool, "if __name__ == '__main__': print(1); exit()\n", stdio(("", "1"))).passed
    assert judge(pool, "import sys\nprint(1, file=sys.__stdout__)\nsys.stdout.close()\n", stdio(("", "1"))).passed


SPIN = "def f(x):\n    while True: pass\n"
SLEEP = "import time\ndef f(x): time.sleep(1000)\n"
CHILD_SPINS = "import os\ndef f(x):\n    if not os.fork():\n        while True: pass\n    os.wait()\n"
IGNORES = ("import signal\nfor s in range(1, 65):\n    try: signal.signal(s, signal.SIG_IGN)\n"
           "    except (OSError, ValueError): pass\n") + SPIN
BACKTRACK = "import re\ndef f(x): re.match('(a+)+$', 'a' * 60 + 'b')\n"


def test_time_is_limited(pool):
    """Spinning, in children too, deaf to signals, in a C function, asleep; with tests and as a script."""
    pairs = [(code + called, tests) for code in (SPIN, SLEEP, CHILD_SPINS, IGNORES, BACKTRACK)
             for called, tests in (("", CHECK), ("f(1)\n", stdio(("", ""))))]
    pairs.append(("def f():\n    while True: yield 1\n", "assert sum(f()) == 1\n"))
    pairs.append((SQUARE, "assert f(3)\nwhile True: pass\n"))
    started = time.monotonic()
    for code, result in pool.imap_unordered((pair[0], sandbox_job(*pair, cpu_s=0.3)) for pair in pairs):
        which = "time asleep" if code.startswith(SLEEP) else "processor time"
        assert result.reason == f"timeout: {which}", (code, result)
    assert time.monotonic() - started < 60


def test_busy_machine_turns_no_right_answer_into_a_timeout(pool):
    """The program needs most of its processor time, beside four busy processes a core, each a session of its
    own: Linux shares among sessions."""
    needs = "import time\ndef f(x):\n    while time.process_time() < .3: pass\n    return x * x\n"
    spin = [sys.executable, "-Sc", "while True: pass"]
    spinning = [subprocess.Popen(spin, start_new_session=True) for _ in range(4 * os.cpu_count())]
    try:
        jobs = [(n, sandbox_job(needs, cpu_s=0.5)) for n in range(2)]
        started = time.monotonic()
        results = [result for _, result in pool.imap_unordered(jobs)]
        took = time.monotonic() - started
    finally:
        for process in spinning:
            process.kill()
            process.wait()
    assert [result.reason for result in results] == ["passed"] * 2, results
    assert took > 0.5


def test_death_of_the_server_is_no_verdict(monkeypatch):
    """The job cannot be judged, and the next one has a new server, with the same layers."""
    error = "error: the server of this job died"
    slow = SQUARE.replace("return", "import time; time.sleep(1); return")
    with Pool(1) as pool:
        threading.Timer(0.3, sandbox_exec.kill, [pool.servers[0].process.pid]).start()
        assert judge(pool, slow).reason.startswith(error)
        assert judge(pool, SQUARE).reason == "passed"
        starts = iter([b"not a server", sandbox_exec.this_file_compiled()])
        monkeypatch.setattr(sandbox_exec, "this_file_compiled", starts.__next__)
        sandbox_exec.kill(pool.servers[0].process.pid)
        for _ in range(2):                        # the second finds that the new server died at once
            assert judge(pool, SQUARE).reason.startswith(error)
        assert judge(pool, SQUARE).reason == "passed"
        assert pool.servers[0].banner == pool.banner


def test_tests_may_name_the_program_in_texts(pool):
    """In what they evaluate, and as the module."""
    code = "def add(a, b): return a + b\ndef helper(): return 1\n"
    for tests in ("assert eval('add(1, 2)') == 3; assert helper() == 1",
                  "import importlib\nassert importlib.import_module('solution').add(1, 2) == 3"):
        assert judge(pool, code, tests).reason == "passed"
        assert judge(pool, code.replace("a + b", "a - b"), tests).reason.startswith("failed: assert")


def test_tests_may_run_the_program_as_a_file(pool):
    code = ("import os\ndef f(): return len(os.sep) + 2\nif __name__ == '__main__': print(f())\n")
    tests = ("import subprocess, sys\nscript = [sys.executable, 'solution.py']\n"
             "assert subprocess.run(script, capture_output=True, text=True).stdout == '3\\n'\n")
    assert judge(pool, code, tests).reason == "passed"
    assert judge(pool, code.replace("+ 2", "+ 3"), tests).reason.startswith("failed: assert subprocess")


def test_results_come_as_they_finish_from_an_endless_iterator(pool):
    def jobs():
        yield "slow", sandbox_job("import time\ndef f(x):\n    time.sleep(.5)\n    return x * x\n")
        while True:
            yield "quick", sandbox_job(SQUARE)

    seen = []
    for key, result in pool.imap_unordered(jobs()):
        assert result.reason == "passed"
        seen.append(key)
        if key == "slow":
            break
    assert seen.count("quick") >= 5
    assert judge(pool, SQUARE).reason == "passed"                # the pool outlives a caller that stops early


def test_command_line(tmp_path):
    (tmp_path / "good.py").write_text(SQUARE)
    (tmp_path / "bad.py").write_text("def f(x): return 1\n")
    (tmp_path / "tests.py").write_text("assert f(3) == 9\n")
    (tmp_path / "tests.json").write_text(json.dumps(stdio(("", ""))))
    for words, code, said in (
            ("good.py tests.py", 0, "passed"), ("bad.py tests.py", 1, "failed: assert f(3) == 9"),
            ("good.py tests.json", 0, "passed"), ("none.py tests.py", 2, "")):
        command = [sys.executable, sandbox_exec.__file__, *words.split()]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == code and done.stdout.startswith(said) and "Traceback" not in done.stderr
    assert "none.py" in done.stderr


def test_how_the_caller_was_started_does_not_matter(tmp_path):
    """Without asserts, in a folder with a module named as one of the library's: the same verdicts."""
    (tmp_path / "tempfile.py").write_text("raise SystemExit('not the library')")
    program = ("import sys\ndel sys.path[0]\nsys.path.append(sys.argv[1])\n"
               "from sandbox_exec import run_tests\nfor code in ('def f(x): return 9', 'def f(x): return 8'):\n"
               "    print(run_tests(code, 'assert f(3) == 9').passed)\n")
    command = [sys.executable, "-O", "-c", program, Path(sandbox_exec.__file__).parent]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.split() == ["True", "False"], done.stderr


def test_many_jobs_leave_nothing_behind():
    """Descriptors, processes and memory stay where they were. SCATR_SOAK: how many times as many jobs."""
    def state(pool):
        rss = int(Path(f"/proc/{os.getpid()}/statm").read_text().split()[1])
        pids = [server.process.pid for server in pool.servers] if os.getuid() == 0 else []  # root may look
        servers = [len(os.listdir(f"/proc/{pid}/fd")) for pid in pids]
        return len(os.listdir("/proc/self/fd")), servers, threading.active_count(), rss

    messy = ("import os\ndef f(x):\n    os.mkdir('d'); open('d/f', 'w').write('x' * 9999)\n"
             "    os.fork() or os._exit(0)\n    return x * x\n")
    pairs = [(SQUARE, CHECK), ("f = 3", CHECK), ("import os\nn = os.getpid()\n" + SQUARE, AT_9),
             ("print(1)", stdio(("", "1"))), (messy, "assert f(3) == 9\n")]
    rounds = 60 * int(os.environ.get("SCATR_SOAK", 1))
    jobs = [(n, sandbox_job(*pair)) for n in range(rounds) for pair in pairs]
    before_any = set(os.listdir("/proc/self/fd"))
    with Pool(2) as pool:
        list(pool.imap_unordered(jobs[:60]))
        before = state(pool)
        passed = [result.passed for _, result in pool.imap_unordered(jobs)]
        after = state(pool)
        children = {server.process.pid for server in pool.servers}
    assert passed.count(True) == 4 * rounds and passed.count(False) == rounds
    assert before[0] == after[0] and before[2] == after[2] and after[3] - before[3] < 1000          # pages
    assert all(abs(a - b) <= 1 for a, b in zip(before[1], after[1]))
    assert set(os.listdir("/proc/self/fd")) == before_any
    assert not any(os.path.exists(f"/proc/{pid}") for pid in children)
