#!/usr/bin/env python3
"""Run untrusted (model-written) Python against tests, and return a verdict that the program cannot forge.

    python sandbox_exec.py program.py tests.py       # prints the verdict (Linux only)
    python sandbox_exec.py program.py tests.json     # {"inputs": [...], "outputs": [...]}: reads and prints

    from sandbox_exec import run_tests, Pool
    run_tests("def f(x): return x * x", "assert f(3) == 9").passed                               # True
    with Pool() as pool:                      # one fork server a core; several threads may share the pool
        for key, result in pool.imap_unordered([("a", {"code": ..., "tests": ...}), ...]):
            print(key, result.passed, result.reason)                  # in the order in which they finish

A job is the keyword arguments of `run_tests`:

    code         text of the program; None or blank text gives the verdict `no code`
    tests        text with asserts, pytest's functions or unittest's classes; or {"inputs": [...], "outputs":
                 [...]}: for each input the program must print the output and exit with status 0. Lines are
                 compared without trailing blanks, numbers as decimals
    style        "check": the tests define check(candidate), which is called with the entry point; "auto":
                 "check" if the tests define it, else they are collected as pytest would
    entry_point  name of the function under test; the style "check" needs it
    prelude      trusted code of the problem statement, which runs in front of the program and of the tests; a
                 program that uses what it imports is looked at as if it imported that itself
    beside       True: accept a suspect program's pass, for tests that patch what the program imports
    cpu_s        seconds of processor time for the program and its tests, default 10
    wall_s       seconds that they may sleep, default 2 * cpu_s; waiting for a busy processor does not count
    memory_mb    memory of each process, default 1024; all processes together may hold 1.5 times as much

`result.reason` is `passed`, `failed: <assert or exception>`, `timeout`, `memory`, `killed`, `no code`,
`syntax`, `not judged: passes only beside its tests (<why it is suspect>)`, or `error: <what went wrong in the
sandbox or the tests>`. `result.passed` is True or False, and None for the last two.

What happens to a program:

1. A fork server, which was started with a clean environment and has entered all layers of protection that the
   machine has, forks a process for the job, confines it, limits its time and memory, and at the end kills all
   that is left of it.
2. Before that process runs any of the program, `why_suspect` walks over the program's syntax tree, and the
   process tells the caller what it found. A program is innocent if nothing in it could reach the tests or lie
   to them; what the rule does not know makes it suspect. Most real programs are innocent.
3. The process runs the program together with its tests, as every other evaluator does. Of an innocent program
   that verdict counts. A suspect one could forge a pass, but nothing hinders an honest one: if it fails, it
   has failed; if it passes, it is not judged.

A class under test that lies about itself is believed. A program that reads and prints runs alone, and the
caller compares what it printed. Tests that need more than functions, asserts, unittest's classes and pytest's
`raises` are run by pytest itself, in the same process; where it is missing, they are not judged.

    caller         two threads for each server; only this process holds secrets and expected outputs
      fork server  one thread, in namespaces; never reads a program, a test or a verdict
        process    has the program and its tests; sends the verdict to the caller on a socket of the job's own

`pool.banner` lists the layers of protection that the machine offers. A Pool starts only where no program can
write what the caller reads later (by a private root, Landlock, or another user), unless the caller writes
`unsafe=True`; `Pool(require="namespaces")` refuses to work with less. Not covered: bugs of the kernel, side
channels, reading /usr and the Python installation, files that tests leave in the folder that they share with
the program, and what the rule overlooks: a model that is trained against it would find that. Sockets are
always refused.
"""
# ruff: noqa: SIM905
import ast
import atexit
import builtins
import contextlib
import ctypes
import errno
import functools
import gc
import importlib
import importlib.util
import inspect
import itertools
import json
import linecache
import marshal
import mmap
import os
import queue
import random
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import symtable
import sys
import tempfile
import threading
import time
import traceback
import types
import typing
from concurrent import futures
from decimal import Decimal

LAYERS = ("rlimits", "namespaces", "landlock", "seccomp")
LEVELS = {"rlimits": (), "seccomp": ("network", "signals"), "landlock": ("network", "signals", "files"),
          "namespaces": ("network", "signals", "files", "namespaces")}         # what each must protect
CPU_S = 10                                        # defaults of a job
MEMORY_MB = 1024
TREE_FACTOR = 1.5                                 # what all processes may hold, in units of memory_mb
PROCESSES = 64                                    # limits that no job can change
OPEN_FILES = 256
STACK_MB = 64
FILE_MB = 64                                      # of one file
SCRATCH_MB = 256                                  # of all files
SCRATCH_FILES = 20000
SERVER_DIED = "error: the server of this job died or hung"


class Result(typing.NamedTuple):
    reason: str
    detail: str = ""
    cpu_s: float = 0.0
    wall_s: float = 0.0
    memory_mb: float = 0.0                        # the most that all processes of the job were seen to hold
    layers: str = ""

    @property
    def verdict(self):
        return self.reason.partition(":")[0]

    @property
    def passed(self):
        return None if self.verdict in ("error", "not judged") else self.verdict == "passed"


# ------------------------------------------------------------------------------------- the caller's process
# A Pool has two threads for each fork server, so that the next job is ready when one ends. `judge` turns a
# job into one process, or one for each input of a program that prints, and their answers into a
# Result.

def run_tests(code, tests, **job):
    """Judge one program on a server that stays until the interpreter ends; `job` as in the first page."""
    return shared_pool(os.getpid()).judge(dict(job, code=code, tests=tests))


@functools.cache
def shared_pool(_pid):
    return Pool(1)


class Pool(contextlib.AbstractContextManager):
    """`workers` fork servers (default: one a core); `require`: one of LEVELS; `disable`: some of LAYERS."""

    def __init__(self, workers=None, *, require="rlimits", disable=(), unsafe=False):
        unknown = set(disable) - {*LAYERS, "pytest"}
        if unknown or require not in LEVELS:
            raise ValueError(f"unknown: {unknown or require!r}; layers: {LAYERS}, levels: {tuple(LEVELS)}")
        workers = workers or len(os.sched_getaffinity(0))      # a batch job has few of a large machine
        self.threads = futures.ThreadPoolExecutor(2 * workers)    # half of them make the next jobs ready
        self.servers = []
        self.idle = queue.SimpleQueue()
        try:
            for _ in range(workers):
                self.servers.append(Server(disable))
                self.idle.put(self.servers[-1])
            self.banner = self.servers[0].banner
            protected = self.servers[0].protected
            missing = [name for name in LEVELS[require] if name not in protected]
            if missing:
                raise RuntimeError(f"{require!r} needs {', '.join(missing)}, not found; {self.banner}")
            if "verdict" not in protected and not unsafe:
                raise RuntimeError("a program could write what the caller reads later, so verdicts would not "
                                   f"be sound; unsafe=True runs all the same; {self.banner}")
        except BaseException:
            self.close()
            raise

    def close(self, *_):
        for server in self.servers:
            server.is_closed = True
            server.end()
        self.threads.shutdown(cancel_futures=True)

    __exit__ = close

    def imap_unordered(self, jobs):
        """Yield (key, Result) for each (key, job) of an iterable, in order of completion."""
        jobs = iter(jobs)
        running = {}
        while True:
            for key, job in itertools.islice(jobs, 2 * len(self.servers) - len(running)):
                running[self.threads.submit(self.judge, job)] = key
            if not running:
                return
            for done in futures.wait(running, return_when="FIRST_COMPLETED").done:
                yield running.pop(done), done.result()

    def judge(self, job):
        if {"code", "tests"} - job.keys() or job.keys() - {*ARGUMENTS}:
            raise TypeError(f"run_tests needs code and tests, and may have {', '.join(ARGUMENTS[2:])}; "
                            f"it was given {', '.join(job)}")
        return judge(self.run, **job)._replace(layers=self.banner)

    def run(self, header, job, given=b""):
        """One Outcome, or a second one if the sandbox itself failed. `job` is for the process, and `given` is
        the standard input of a program that reads and prints. The verdict comes on a socket: a program could
        open files of another process through /proc, but no sockets."""
        is_script = header["mode"] == "script"
        contents = [given, b"", b""] if is_script else []
        contents.append(marshal.dumps(job))
        for _ in range(2):
            with contextlib.ExitStack() as closing:
                files = [closing.enter_context(memory_file(data)) for data in contents]
                ours, theirs = map(closing.enter_context, socket.socketpair())
                server = self.idle.get()
                try:
                    outcome = Outcome(**server.exchange(header, [*files, theirs]))
                finally:
                    self.idle.put(server)
                if is_script:
                    outcome = outcome._replace(printed=read_file(files[1]), errors=read_file(files[2]))
                with contextlib.suppress(BlockingIOError):
                    outcome = outcome._replace(answer=ours.recv(1 << 16, socket.MSG_DONTWAIT))
            if not outcome.ended or not outcome.ended[0].startswith("error: "):
                return outcome
        if outcome.ended[0] == SERVER_DIED and "signals" not in server.protected:
            return outcome._replace(ended=("killed", ""))                      # the program may have done it
        return outcome


def judge(run_job, code, tests, style="auto", entry_point=None, prelude="", beside=False, cpu_s=CPU_S,
          wall_s=None, memory_mb=MEMORY_MB):
    """The Result of one job. `run_job` is a pool's: it runs a process."""
    if not isinstance(code, str | None):
        return Result(f"error: code must be text, not {type(code).__name__}")
    code = str(code or "")                        # a text of numpy's is one of a class of its own
    if not code.strip():
        return Result("no code")
    texts = f"{code} {tests} {prelude}"
    preload = [library for library in ("numpy", "unittest") if library in texts]
    header = {"preload": preload, "cpu_s": float(cpu_s), "memory_mb": int(memory_mb),
              "asleep_s": 2 * float(cpu_s) if wall_s is None else float(wall_s)}
    if not all(0 < header[limit] < 1e7 for limit in ("cpu_s", "asleep_s", "memory_mb")):
        limits = f"cpu_s={cpu_s}, wall_s={wall_s}, memory_mb={memory_mb}"
        raise ValueError(f"{limits}: limits must be above 0 and below 10,000,000")
    outcomes = []

    def run(mode, job, **given):
        outcomes.append(run_job({**header, "mode": mode}, job, **given))
        return outcomes[-1]

    try:
        if isinstance(tests, str):
            tests = read_tests(str(tests), str(prelude or ""), style, str(entry_point or ""),
                               looks="numpy" in preload)
            preload += ["pytest"] * tests["need_pytest"]
            reason, detail = judge_tests(run, {**tests, "code": code}, beside)
        else:
            reason, detail = judge_script(run, code, *read_pairs(tests))
    except Verdict as verdict:
        return Result(str(verdict))
    cpu_s = round(sum(outcome.cpu_s for outcome in outcomes), 3)
    wall_s = round(sum(outcome.wall_s for outcome in outcomes), 3)
    return Result(reason, detail, cpu_s, wall_s, round(max(outcome.memory_mb for outcome in outcomes), 1))


ARGUMENTS = [*inspect.signature(judge).parameters][1:]


def read_pairs(tests):
    """The inputs and outputs of {"inputs": [...], "outputs": [...]}."""
    pairs = [tests.get(name) if isinstance(tests, dict) else None for name in ("inputs", "outputs")]
    if not all(isinstance(side, (list, tuple)) and len(side) == len(pairs[0]) > 0 for side in pairs):
        raise Verdict("error: tests must be text or {'inputs': [...], 'outputs': [...]} of equal length")
    others = [name for name in tests if name not in ("inputs", "outputs") and tests[name] is not None]
    if others:                                    # such as fn_name, of a function that would be called
        raise Verdict(f"error: beside inputs and outputs nothing is known, not {', '.join(map(str, others))}")
    return pairs


def judge_tests(run, job, beside):
    """(reason, detail), by step 3 of the first page."""
    for _ in range(3):
        why, reason, detail = answer_of(run("tests", job))
        if reason not in AGAIN:
            break
        job = {**job, **AGAIN[reason]}
    if not why:
        return reason, detail
    if reason == "passed" and beside:
        return "passed: beside its tests", why
    if reason == "passed":
        return f"not judged: passes only beside its tests ({why})", ""
    is_failure = re.match("failed: |timeout$|memory$|killed$|syntax$", reason)
    return reason if is_failure else f"failed: {reason}", detail       # the program may have sent anything


def answer_of(outcome):
    """(why the program is suspect, reason, detail). The first part of an answer was sent before the program
    ran, the others by tests that it may have taken over, if it is suspect."""
    if outcome.ended:
        return "", *outcome.ended
    if not outcome.answer:
        return "", f"error: the sandbox failed with exit status {outcome.exit}", ""
    parts = outcome.answer.decode("utf-8", "replace").split("\0")
    why, odd, reason, detail = [*parts, "", "", "", ""][:4]
    ended = f"failed: the program ended (exit status {outcome.exit}) before its tests did"
    return why or odd, reason or ended, detail


def judge_script(run, code, inputs, outputs):
    """(reason, detail) of a program that reads its standard input and prints."""
    for number, (given, wanted) in enumerate(zip(map(as_text, inputs), map(as_text, outputs)), 1):
        done = run("script", code, given=encode(given))
        if done.ended:
            return done.ended
        where = f"failed: input {number} of {len(inputs)}"
        if done.exit:
            last = done.errors[-2000:].decode("utf-8", "replace").strip().rpartition("\n")[2]
            reasons = {"MemoryError": "memory", "SyntaxError": "syntax"}
            usual = f"{where}: exit status {done.exit} {last[:200]}".strip()
            return reasons.get(last.partition(":")[0], usual), last[:1000]
        is_flood = len(done.printed) > 10 * len(encode(wanted)) + 2**20    # too much to compare by lines
        if is_flood or not same_lines(done.printed.decode("utf-8", "replace"), wanted):
            return f"{where}: wrong output", repr(done.printed[:200])
    return "passed", ""


def as_text(lines):
    return "\n".join(map(str, lines)) if isinstance(lines, list) else str(lines)


NUMBER = re.compile(r"[+-]?(\d{1,5000}(\.\d{0,5000})?|\.\d{1,5000})([eE][+-]?\d{1,4})?", re.ASCII)


def same_lines(printed, wanted):
    """Whether two texts are equal line by line, but for trailing blanks and how numbers are written."""
    printed, wanted = [[line.rstrip() for line in text.rstrip().splitlines()] for text in (printed, wanted)]
    return len(printed) == len(wanted) and all(map(same_line, printed, wanted))


def same_line(ours, theirs):
    """Equal, or equal as decimals, word by word, where at least one of them is no integer: 0.50 is .5."""
    if ours == theirs or not re.search("[.eE]", ours + theirs):
        return ours == theirs
    words = itertools.zip_longest(ours.split(), theirs.split(), fillvalue="")
    return all(NUMBER.fullmatch(a) and NUMBER.fullmatch(b) and Decimal(a) == Decimal(b) for a, b in words)


class Outcome(typing.NamedTuple):
    """How one process ended: what the fork server reports, and what was answered."""
    ended: tuple = None                           # (reason, detail) if the process did not end by itself
    exit: int = 0                                 # its exit status
    cpu_s: float = 0.0
    wall_s: float = 0.0
    memory_mb: float = 0.0
    answer: bytes = b""                           # the verdict
    printed: bytes = b""                          # by a program that reads and prints
    errors: bytes = b""                           # what it wrote to its standard error


class Server:
    """The caller's end of one fork server."""

    def __init__(self, disabled):
        self.disabled = set(disabled)
        self.is_closed = False
        self.start()

    def start(self):
        """Start a server. One that finds that it cannot use a layer says so, and is started without it."""
        while True:
            self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            # the caller's folder, the first of sys.path, may have a module named as one of the library's
            start = ("import marshal, sys\ndel sys.path[0]\nmodule = {'__name__': 'sandbox_exec'}\n"
                     "exec(marshal.load(sys.stdin.buffer), module)\n"
                     f"module['serve']({theirs.fileno()}, {[*self.disabled]})")
            with theirs:
                self.process = subprocess.Popen([sys.executable, "-s", "-B", "-c", start],
                                                pass_fds=[theirs.fileno()], env=clean_environment(),
                                                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
            with contextlib.suppress(OSError), self.process.stdin as file:
                file.write(this_file_compiled())
            hello = {"failed": ("rlimits", "the server died at once")}
            with contextlib.suppress(OSError):
                hello = ast.literal_eval(receive(self.socket)[0].decode())
            if "failed" not in hello:
                self.banner = hello["banner"]
                self.protected = hello["protected"]
                return
            self.end()
            layer, why = hello["failed"]
            if layer in {"rlimits", *self.disabled}:
                raise RuntimeError(f"the sandbox cannot start: {layer}: {why}")
            self.disabled.add(layer)

    def end(self):
        """Close the connection: for the server this is the order to kill all that it has started."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)                         # wakes a thread that reads it
        self.socket.close()
        try:
            self.process.wait(60)                 # a busy machine takes its time
        except subprocess.TimeoutExpired:
            end_tree(self.process.pid)
            self.process.kill()
            self.process.wait()

    def exchange(self, header, files):
        """The fork server's report on one run; if there is none, start a new server."""
        with contextlib.suppress(OSError):
            self.socket.settimeout(60 + 20 * (header["cpu_s"] + header["asleep_s"]))     # it may be busy
            socket.send_fds(self.socket, [marshal.dumps(header)], [file.fileno() for file in files])
            return ast.literal_eval(receive(self.socket)[0].decode())
        self.end()
        if not self.is_closed:
            with contextlib.suppress(RuntimeError, OSError):               # the next job tries again
                self.start()
        if self.is_closed:                        # the pool was closed while this started
            self.end()
        return {"ended": (SERVER_DIED, "")}


@functools.cache
def this_file_compiled():
    """A server that compiled this file would keep megabytes of memory for it, and so would all its forks."""
    source = "".join(linecache.getlines(__file__, globals()))              # it may lie in an archive
    return marshal.dumps(compile(source, __file__, "exec", dont_inherit=True, optimize=0))


def clean_environment():
    """None of the caller's secrets; one thread for each numeric library, so that a job's time is its own."""
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "TMPDIR") if name in os.environ}
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONUTF8": "1", "USER": "sandbox",
            "PYTHONHASHSEED": "0", "MALLOC_ARENA_MAX": "2", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "LD_BIND_NOW": "1",                   # what is bound later costs each fork copied pages
            "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", **kept}


def memory_file(data):
    """An anonymous file: a process that writes to it never blocks, and servers can pass it on unread."""
    file = open(os.memfd_create("job"), "w+b", buffering=0)
    file.write(data)
    file.seek(0)
    return file


def read_file(file):
    file.seek(0)
    return file.read()


def encode(text):
    return text.encode("utf-8", "surrogatepass")


def receive(sock):
    """(data, descriptors). The server gets marshal, which is fast, and answers in the text of a literal,
    which is no danger to the caller even from a server that a program had taken over."""
    data, descriptors, _, _ = socket.recv_fds(sock, 1 << 16, 8)
    if not data:
        raise ConnectionError
    return data, descriptors


# ------------------------------------------------------------------------------------- reading the tests
# The caller's process compiles the tests, once for many programs with the same tests. Each assert and other
# check is wrapped in a call that counts it, because tests that check nothing must not pass.

# Tests that only pytest itself can run; what this does not show, running them does.
MORE_OF_PYTEST = re.compile(r"\bpytest\.(?!raises\b)\w|^from pytest import (?!raises$)|"
                            r"^def (setup|teardown)_|^class Test\w*(?!.*TestCase)", re.MULTILINE)
# What a process may answer to be started again, as only running the program and the tests has shown: how.
AGAIN = {"needs pytest": {"need_pytest": True}, "evaluates a text": {"why": "evaluates a text"}}
STARTS_A_FILE = re.compile(r"\b(py|reload|subprocess|runpy)\b")


class Verdict(Exception):
    """A reason, raised where neither the program nor the tests are running."""


@functools.lru_cache(16)
def read_tests(text, prelude, style, entry_point, looks=False):
    """What the process of a job needs to know of its tests: a dictionary for marshal."""
    if style == "check" and not entry_point:
        raise Verdict("error: tests of the style check need an entry_point")
    asserts = Asserts(looks)
    try:
        ast.parse(prelude)
    except SyntaxError:                           # it ends inside a function, which the program continues
        prelude += "\n    pass\n"
    try:
        tree = ast.parse(text, "tests.py")
        asked = asked_by(text, prelude, entry_point)
        has_check = any(isinstance(node, ast.FunctionDef) and node.name == "check" for node in tree.body)
        tests_code = compile(asserts.visit(tree), "tests.py", "exec", dont_inherit=True, optimize=0)
        prelude_code = compile(prelude, "prelude.py", "exec", dont_inherit=True, optimize=0)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        raise Verdict(f"error: the tests or the prelude do not parse: {problem}"[:500]) from None
    if not asserts.found:
        raise Verdict("error: the tests have no assert")
    if style == "check" and not has_check:
        raise Verdict("error: tests of the style check must define check(candidate)")
    is_check = style == "check" or style == "auto" and entry_point and has_check
    names_solution = re.search(r"^(?! *(from|import) ).*\bsolution\b", text, re.MULTILINE)
    if not (is_check or asked["lacking"] or names_solution):
        raise Verdict("error: the tests ask nothing of the program")
    packages = {module.partition(".")[0] for module in asked["modules"]}
    return {
        "tests": text,
        "tests_code": tests_code,
        "prelude_code": prelude_code,
        "shares": bool(re.search(r"^\s+global ", prelude, re.MULTILINE)),      # such as a counter
        "asked": asked,
        "lacking": sorted(asked["lacking"] | {entry_point}),
        "packages": sorted(packages - {"solution", "tests", "__main__", "pytest"}),
        "entry_point": entry_point,
        "checked": entry_point if is_check else None,          # what check() is called with
        "why": None,                                           # the program is suspect, if that is known
        "need_pytest": bool(MORE_OF_PYTEST.search(text)),
        "need_file": bool(STARTS_A_FILE.search(text)),         # whether solution.py must be there
    }


def symbols_of(source):
    """(name, what a scope does with it, the scope) for all names of all scopes."""
    tables = [symtable.symtable(source, "text", "exec")]
    for table in tables:
        tables += table.get_children()
    return [(symbol.get_name(), symbol, table) for table in tables for symbol in table.get_symbols()]


def asked_by(tests, prelude="", entry_point=""):
    """What tests and prelude use: names, modules, the imports of the prelude, methods that they call, names
    that only the program can define, and which of these are classes that the tests test."""
    of_prelude = [*ast.walk(ast.parse(prelude))]
    nodes = [*ast.walk(ast.parse(tests)), *of_prelude]
    symbols = symbols_of(tests)
    trusted = symbols + symbols_of(prelude)
    imports = [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]
    modules = {getattr(node, "module", None) or alias.name for node in imports for alias in node.names}
    from_program = [node for node in imports if getattr(node, "module", "") == "solution"]
    given = {alias.name for node in from_program for alias in node.names}
    defined = {name for name, symbol, table in trusted if table.get_type() == "module" and (
               symbol.is_assigned() or symbol.is_imported())}
    used = {name for name, symbol, table in symbols if symbol.is_referenced() and (
            symbol.is_global() or table.get_type() == "module" or name in given)}
    lacking = used - (defined - given - {entry_point}) - vars(builtins).keys()
    tested = {name for name in {*lacking, *given, entry_point} if name[:1].isupper()}
    methods = {getattr(node.func, "attr", "") for node in nodes if isinstance(node, ast.Call)}
    return {"names": {name for name, _, _ in trusted} | given | modules, "modules": modules,
            "imported": "\n".join(ast.unparse(node) for node in imports if node in of_prelude),
            "methods": methods, "lacking": lacking, "tested": tested}


class Asserts(ast.NodeTransformer):
    """Count the checks that run: asserts, calls of assert..., raises, warns and fail, and ifs that raise; and
    look at what is compared, handed on and asked by a method, if numpy may be about."""
    found = 0                                     # in the text
    ran = 0
    swallowed = False                             # whether the program caught a failing assert of the tests
    odd = ""                                      # what the tests got that may equal what it is not

    def __init__(self, looks):
        self.looks = looks

    @classmethod
    def count(cls, value):
        cls.ran += 1
        return value

    @classmethod
    def check(cls, value):
        """The value of an assert. If it fails in a function of the tests that the program calls, the program
        could catch it, and has failed all the same."""
        is_true = bool(cls.count(value))
        frame = sys._getframe()
        while frame and not is_true and not cls.swallowed:
            cls.swallowed = frame.f_code.co_filename == "solution.py"
            frame = frame.f_back
        return is_true

    @classmethod
    def look(cls, value):
        if "numpy" in sys.modules and not cls.odd and may_equal_anything(value):
            cls.odd = "gives numbers of numpy's that may equal others"
        return value

    def visit_Constant(self, node):
        return node                               # most nodes of some tests

    def wrap(self, node, function):
        self.found += function != "__look__"
        name = ast.copy_location(ast.Name(function, ast.Load()), node)
        return ast.copy_location(ast.Call(name, [node], []), node)

    def generic_visit(self, node):
        super().generic_visit(node)
        if isinstance(node, ast.Assert):
            node.test = self.wrap(node.test, "__check__")
        if isinstance(node, ast.If) and any(isinstance(inner, ast.Raise) for inner in node.body):
            node.test = self.wrap(node.test, "__count__")
        if isinstance(node, ast.Compare) and self.looks:
            node.left = self.wrap(node.left, "__look__")
            node.comparators = [self.wrap(side, "__look__") for side in node.comparators]
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if self.looks:
                for place, argument in enumerate(node.args):
                    if isinstance(argument, ast.Starred):
                        argument.value = self.wrap(argument.value, "__look__")
                    else:
                        node.args[place] = self.wrap(argument, "__look__")
                for argument in node.keywords:
                    argument.value = self.wrap(argument.value, "__look__")
                if isinstance(node.func, ast.Attribute):
                    node.func.value = self.wrap(node.func.value, "__look__")
            if name.startswith("assert") or name in ("raises", "warns", "fail"):
                return self.wrap(node, "__count__")
        return node


def may_equal_anything(value, levels=3):
    """Whether a value, or one in it, is of numpy's and without any number, as `all` and pytest's approx are
    true of none; or of so few bits that every large number is its infinity; or of integers so large that the
    tests' difference of two of them may overflow."""
    if type(value) in (list, tuple, dict):
        parts = value.values() if type(value) is dict else value
        return levels > 0 and any(may_equal_anything(part, levels - 1) for part in parts)
    numpy = sys.modules["numpy"]
    if type(value) is not numpy.ndarray and not issubclass(type(value), numpy.generic):
        return False
    kind = value.dtype.kind
    bits = 8 * value.dtype.itemsize
    if not value.size or kind in "iuf" and bits < 32:
        return True
    largest = max(-int(value.min()), int(value.max())) if kind == "i" else 0
    return largest.bit_length() > bits - 2


# ------------------------------------------------------------------------------------- the fork server
# It runs one job after the other, and reads neither programs nor tests. Whatever it has in memory, its forks
# have, too.

cage = None                                       # the Cage of this server and of its forks
proc_fd = None                                    # descriptor of /proc, which a private root does not have


def serve(descriptor, disabled):
    """Run jobs until the caller closes the connection or dies; then kill all descendants."""
    global cage
    cage = Cage(set(disabled))
    control = socket.socket(fileno=descriptor)
    try:
        cage.enter()
        cage.probe()
        control.send(repr(cage.hello()).encode())
        while True:
            data, descriptors = receive(control)
            job = marshal.loads(data)
            for library in job["preload"]:        # once, before the fork
                if library not in sys.modules and importlib.util.find_spec(library):
                    importlib.import_module(library)
                    cage.settle()
            report = run_job(job, descriptors, control)
            for descriptor in descriptors:
                os.close(descriptor)
            control.send(repr(report).encode())
    except LayerFailed as failure:
        control.send(repr({"failed": failure.args}).encode())
    except ConnectionError:
        pass                                      # the caller is gone
    finally:
        while end_tree(os.getpid()):
            time.sleep(0.001)
        if not cage.private:
            with contextlib.suppress(OSError):
                cage.empty_scratch()
                os.rmdir(cage.scratch)


def run_job(job, descriptors, control):
    """Start the process of a job, watch it, and leave nothing of it behind: the report for `Outcome`."""
    started = time.monotonic()
    try:
        pid = start_job(job, descriptors)
    except (OSError, LayerFailed) as problem:
        end_tree(os.getpid())
        return {"ended": ("error: no process could be started", str(problem))}
    awaited = os.pidfd_open(pid)
    ended, cpu, memory = watch(job, awaited, control)
    os.close(awaited)
    kill(pid)                                     # if it has ended by itself, it keeps its status
    _, status, usage = os.wait4(pid, 0)
    status = os.waitstatus_to_exitcode(status)
    if status < 0 and not ended:
        ended = "killed", f"signal {-status}"
    while not cage.private and end_tree(os.getpid()):
        time.sleep(0.001)
    cage.empty_scratch()
    cpu = max(cpu, usage.ru_utime + usage.ru_stime)
    memory = max(memory, usage.ru_maxrss << 10)
    return {"ended": ended, "exit": status, "cpu_s": cpu, "wall_s": time.monotonic() - started,
            "memory_mb": memory / 2**20}


def start_job(job, descriptors):
    """The process of a job, with descriptors from 0 on as its function expects them."""
    if job["mode"] == "script":
        return cage.spawn(descriptors[:4], job, run_script)
    return cage.spawn([cage.null] * 3 + descriptors, job, run_tests_beside)


def watch(job, awaited, control):
    """(limit reached, seconds of cpu, bytes), once the awaited process has ended or a limit is reached."""
    started = time.monotonic()
    cpu = memory = 0
    limit = None
    poller = select.poll()
    for descriptor in (control.fileno(), awaited):
        poller.register(descriptor, select.POLLIN)
    while not limit:
        ready = {descriptor for descriptor, _ in poller.poll(50)}
        if ready - {awaited}:
            raise ConnectionError
        if ready:
            break
        processes = tree(os.getpid())
        cpu_now, queued, memory_now = usage(processes)
        cpu = max(cpu, cpu_now)
        memory = max(memory, memory_now)
        wall = time.monotonic() - started
        times = f"time: {cpu:.1f} s of cpu, {wall:.1f} s of wall time"
        if cpu > job["cpu_s"]:
            limit = "timeout", f"cpu {times}"
        elif memory > TREE_FACTOR * job["memory_mb"] * 2**20:
            limit = "memory", f"{memory >> 20} MB in all processes"
        elif len(processes) > 2 * PROCESSES:
            limit = "killed", "limit of processes"
        elif not cage.private and cage.scratch_is_full():
            limit = "killed", "limit of files"
        elif wall - cpu - queued > job["asleep_s"]:
            limit = "timeout", f"wall {times}"
    return limit, cpu, memory


def kill(pid):
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def end_tree(pid):
    """Kill all descendants and reap those that are children of this process. Call it until it finds none:
    what it kills may have started more."""
    found = tree(pid)
    for child in found:
        kill(child)
    for child in found:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, os.WNOHANG)
    return found


def tree(pid):
    """All descendants of a process."""
    found = [pid]
    for parent in found:
        for thread in proc(f"{parent}/task", os.listdir):
            children = proc(f"{parent}/task/{thread}/children").split()
            found += [int(child) for child in children]
    return found[1:]


def proc(path, read=lambda descriptor: os.read(descriptor, 1 << 16)):
    """The content of a file under /proc, or what else `read` makes of it; empty if there is none."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path if proc_fd else "/proc/" + path, os.O_RDONLY, dir_fd=proc_fd)
        try:
            return read(descriptor)
        finally:
            os.close(descriptor)
    return b""


def usage(pids):
    """(seconds of cpu, seconds in a processor's queue, resident bytes) of these processes."""
    cpu = queued = memory = 0
    for pid in pids:
        stat = proc(f"{pid}/stat").rpartition(b")")[2].split()
        if stat:
            cpu += sum(map(int, stat[11:15])) / os.sysconf("SC_CLK_TCK")
            memory += max(0, int(stat[21]) * resource.getpagesize() - cage.base_rss)   # without the server's
        for thread in proc(f"{pid}/task", os.listdir):
            queued += int((proc(f"{pid}/task/{thread}/schedstat").split() or [0, 0])[1]) / 1e9
    return cpu, queued, memory


# ------------------------------------------------------------------------------------- a program's process
# `run_tests_beside` or `run_script` is the whole life of a forked process. Descriptors 0, 1 and 2 are those
# of every program, 3 is a file with the job. A process with tests answers the caller through 4.

def read_job():
    return marshal.loads(os.pread(3, os.lseek(3, 0, os.SEEK_END), 0))


CONSTANTS = (ast.Expression, ast.Constant, ast.BinOp, ast.operator, ast.UnaryOp, ast.unaryop, ast.Compare,
             ast.cmpop, ast.BoolOp, ast.boolop, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.Load)


def say(*parts):
    """Parts of the answer to the caller: why the program is suspect, then what is odd about its values, the
    reason and the detail."""
    os.write(4, encode("".join(part[:1000].replace("\0", " ") + "\0" for part in parts)))


def run_tests_beside():
    """The program and its tests in one process."""
    job = read_job()
    for package in job["packages"] + ["pytest"] * job["need_pytest"]:
        if package in cage.disabled or not importlib.util.find_spec(package):
            return say("", "", f"error: the tests need {package!r}, which is not installed", "")
    try:
        compiled = compile_program(job["code"])
    except BaseException as problem:
        return say("", "", *explain(problem, loading=True))
    why = job["why"] or why_suspect(job["code"], job["asked"])
    say(why or "")
    try:
        program, prelude = load_program(job, compiled, is_innocent=not why)
    except BaseException as problem:
        return say("", *explain(problem, loading=True))
    reason, detail = run_tests_in(job, program, prelude)
    say(Asserts.odd, reason, detail)


def new_module(*names):
    module = types.ModuleType(names[0])
    module.__file__ = names[0] + ".py"
    sys.modules.update(dict.fromkeys(names, module))
    return module


def compile_program(code):
    linecache.cache["solution.py"] = (len(code), None, code.splitlines(True), "solution.py")
    return compile(encode(code), "solution.py", "exec", dont_inherit=True)


def load_program(job, compiled, is_innocent):
    """Run the prelude and the program in one module: its names, and those that the prelude has for tests."""
    if job["need_file"]:
        with open("solution.py", "w", encoding="utf-8", errors="surrogatepass") as copy:
            copy.write(job["code"])
        sys.path.insert(0, os.getcwd())
    module = new_module("solution", "__main__")
    program = vars(module)
    if is_innocent and b"eval" in marshal.dumps(compiled):      # for others the copied pages would cost time
        program["__builtins__"] = {**vars(builtins), "eval": evaluate}
    before = set(program)
    try:
        exec(job["prelude_code"], program)
    except BaseException as problem:              # it is trusted code
        raise Verdict(f"error: the prelude ends in {type(problem).__name__}: {problem}"[:500]) from None
    name = job["entry_point"]
    program.pop(name, None)                       # a stub there
    own = dict(program)                           # which the program cannot change: the tests' copies of the
    for key, value in own.items():                # prelude's functions read it
        if type(value) is types.FunctionType and value.__globals__ is program and not job["shares"]:
            own[key] = types.FunctionType(value.__code__, own, key, value.__defaults__, value.__closure__)
            own[key].__kwdefaults__ = value.__kwdefaults__
            own[key].__dict__.update(vars(value))
    prelude = {key: value for key, value in own.items() if key not in before}
    exec(compiled, program)
    for key in program.keys() - own:              # what the prelude calls of the program
        own[key] = program[key]
    if name not in program and hasattr(program.get("Solution"), name):
        program[name] = getattr(program["Solution"](), name)
    module.__all__ = []                           # tests that import * get only the names that they lack
    return program, prelude


def evaluate(text, *_):
    """An innocent program's eval: of constants and operators. A program that wants more is suspect."""
    tree = ast.parse(text.lstrip(), mode="eval")
    if not all(isinstance(node, CONSTANTS) for node in ast.walk(tree)):
        say("", "evaluates a text", "")
        os._exit(0)
    return eval(compile(tree, "eval", "eval"))


def run_script():
    """A program that reads and prints: 0, 1 and 2 are files; it ends as scripts do."""
    how = {"encoding": "utf-8", "errors": "surrogateescape", "closefd": False}
    sys.stdin, sys.stdout, sys.stderr = [open(number, "w" if number else "r", **how) for number in range(3)]
    status = 0

    def run():
        exec(compile_program(read_job()), vars(new_module("__main__")))

    def flush():
        sys.stdout.flush()                        # which may not be the file from above any more

    for step in run, threading._shutdown, atexit._run_exitfuncs, flush:
        try:
            step()
        except SystemExit as end:
            if end.code is not None:
                status = end.code if isinstance(end.code, int) else 1
        except BaseException as problem:
            sys.stderr.write("".join(traceback.format_exception_only(type(problem), problem)))
            status = 1
    with contextlib.suppress(Exception):
        sys.stderr.flush()
    os._exit(status & 255)


# ------------------------------------------------------------------------------------- running tests
# Functions, asserts, unittest's classes and pytest's raises are run here, because that is fast and works
# without pytest. Tests that need more of pytest are run by pytest itself.

class NeedPytest(BaseException):
    """These tests use more of pytest than its raises."""


def run_tests_in(job, program, prelude):
    """(reason, detail) of the tests of a job, which get the names of program and prelude that they lack."""
    linecache.cache["tests.py"] = (len(job["tests"]), None, job["tests"].splitlines(True), "tests.py")
    tests = new_module("tests")
    names = {name: program[name] for name in job["lacking"] if name in program}
    for name, value in prelude.items():
        ours = program.get(name)                  # models like to repeat the classes of a prompt
        names[name] = ours if isinstance(value, type) and isinstance(ours, type) else value
    vars(tests).update(names, __check__=Asserts.check, __count__=Asserts.count, __look__=Asserts.look)
    try:
        if job["checked"] and job["checked"] not in names:
            raise Verdict(f"failed: the program does not define {job['checked']}")
        if not job["need_pytest"]:
            sys.modules["pytest"] = small_pytest()
        exec(job["tests_code"], vars(tests))
        if job["checked"]:
            vars(tests)["check"](vars(tests)[job["checked"]])
        run = run_with_pytest if job["need_pytest"] else run_small
        run(tests)
    except NeedPytest:
        return "needs pytest", ""
    except BaseException as problem:
        return explain(problem)
    if Asserts.swallowed:
        return "failed: the program caught an assert of the tests", ""
    return ("passed" if Asserts.ran else "failed: the tests ran no assert"), ""


def explain(problem, loading=False):
    """(reason, detail) for what the tests raised, or the program while it was loaded."""
    if type(problem) is Verdict:
        return str(problem), ""
    if isinstance(problem, MemoryError):
        return "memory", ""
    text = traceback.format_exception_only(type(problem), problem)[-1].strip()[:300]
    if loading:
        is_syntax = isinstance(problem, SyntaxError)
        return "syntax" if is_syntax else f"failed: {text}, while the program was loaded", text
    frames = traceback.extract_tb(problem.__traceback__)
    lines = [frame.line for frame in frames if frame.filename == "tests.py" and frame.line]
    own = [frame.filename for frame in frames if frame.filename in ("tests.py", "solution.py")]
    if isinstance(problem, SystemExit) and not problem.code and own[-1:] == ["tests.py"]:
        return "error: the tests end the process", ""
    if not own:
        return f"error: the sandbox failed: {text}", ""
    if not lines:
        return f"failed: {text}", ""
    if isinstance(problem, AssertionError) and frames[-1].filename == "tests.py":
        return f"failed: {lines[-1]}"[:500], text
    return f"failed: {text}, in: {lines[-1]}"[:500], ""


def run_small(module):
    """Run what pytest would collect: functions named test... and unittest's test cases."""
    own = [thing for thing in list(vars(module).values()) if getattr(thing, "__module__", None) == "tests"]
    functions = [thing for thing in own if type(thing) is types.FunctionType and thing.__name__[:4] == "test"]
    if any(inspect.signature(function).parameters for function in functions):
        raise NeedPytest                          # for a fixture
    run_test_cases([thing for thing in own if isinstance(thing, type)])
    for function in functions:
        result = function()
        if inspect.iscoroutine(result):
            importlib.import_module("asyncio").run(result)


def run_test_cases(classes):
    unittest = sys.modules.get("unittest")
    if not unittest:
        return
    errors = []

    class Cases(unittest.TestResult):
        def addError(self, test, problem):
            errors.append(problem[1])

        addFailure = addError

        def addSubTest(self, test, subtest, problem):
            if problem:
                errors.append(problem[1])

        def addUnexpectedSuccess(self, test):
            errors.append(Verdict(f"failed: {test}: unexpected success"))

        def addExpectedFailure(self, test, problem):
            if problem[0] is AssertionError:
                Asserts.count(None)

    cases = [kind for kind in classes if issubclass(kind, unittest.TestCase)]
    unittest.TestSuite(map(unittest.defaultTestLoader.loadTestsFromTestCase, cases)).run(Cases())
    if errors:
        raise errors[0]


def run_with_pytest(module):
    """Run the tests by pytest, which gets the module as it is: a program could change a file."""
    pytest = importlib.import_module("pytest")
    problems = []

    class Tests(pytest.Module):
        obj = module

    class Plugin:
        def pytest_collection(self, session):
            node = Tests.from_parent(session, path=importlib.import_module("pathlib").Path(os.devnull))
            session.items[:] = session.genitems(node)
            session.testscollected = len(session.items)
            return True

        def pytest_pyfunc_call(self, pyfuncitem):
            test = pyfuncitem.obj
            if inspect.iscoroutinefunction(test):
                values = {name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}
                importlib.import_module("asyncio").run(test(**values))
                return True

        def pytest_exception_interact(self, call):
            problems.append(call.excinfo.value)

    options = "-q -s --noconftest --assert=plain -p no:cacheprovider -p no:faulthandler"
    ended = pytest.main([*options.split(), "-c", os.devnull, "--rootdir", os.getcwd()], plugins=[Plugin()])
    if problems or ended not in (0, pytest.ExitCode.NO_TESTS_COLLECTED):    # asserts may stand alone
        raise problems[0] if problems else AssertionError(f"pytest ends with {ended!r}")


def small_pytest():
    pytest = types.ModuleType("pytest")
    pytest.raises = raises
    pytest.__getattr__ = need_pytest
    return pytest


def need_pytest(name):
    raise AttributeError(name) if name.startswith("__") else NeedPytest


class raises(contextlib.AbstractContextManager):
    """As a context manager, or called with a function."""

    def __init__(self, expected, function=None, *args, match="", **kwargs):
        self.expected = expected
        self.pattern = match or ""
        if function is None and kwargs:
            raise NeedPytest
        if function is not None:
            with self:
                function(*args, **kwargs)

    def __exit__(self, kind, value, _):
        assert kind, f"did not raise {self.expected}"
        self.type = kind
        self.value = value
        return issubclass(kind, self.expected) and self.match(self.pattern)

    def match(self, pattern):
        assert re.search(pattern, str(self.value)), f"{str(self.value)!r} does not match {pattern!r}"
        return True

    def __getattr__(self, name):
        return need_pytest(name)


# ------------------------------------------------------------------------------------- the rule
# A program is innocent if it uses only what these tables list, and if no object or name of its own could
# answer to the tests in place of a value. What the rule does not know makes a program suspect.

# Of numpy: arrays, reductions, linear algebra and random numbers; nothing that reads or writes files, runs
# text, is a class to derive from, or sets what the tests share with the program.
NUMPY = """
    abs absolute add all allclose amax amin angle any append arange arccos arcsin arctan arctan2 argmax argmin
    argsort argwhere around array array_equal array_split asarray ascontiguousarray asfortranarray atleast_1d
    atleast_2d average bincount bitwise_and bitwise_or bitwise_xor bool_ broadcast_to cbrt ceil clip
    column_stack complex128 concatenate conj convolve copy corrcoef correlate cos cosh count_nonzero cov cross
    cumprod cumsum datetime64 deg2rad degrees delete diag diagonal diff digitize divide dot e einsum empty
    empty_like equal exp expand_dims expm1 eye fix flatnonzero flip fliplr flipud float32 float64 floating
    floor floor_divide fmax fmin full full_like gcd gradient greater greater_equal histogram hstack hypot
    identity imag in1d inf inner insert int32 int64 integer interp intersect1d isclose isfinite isin isinf
    isnan kron lcm less less_equal linalg linspace log log10 log1p log2 logical_and logical_not logical_or
    logical_xor logspace matmul max maximum mean median meshgrid min minimum mod moveaxis multiply nan
    nan_to_num nanmax nanmean nanmedian nanmin nanstd nansum ndarray newaxis nonzero not_equal number ones
    ones_like outer pad percentile pi polyfit polyval power prod ptp quantile rad2deg radians random ravel
    real remainder repeat reshape rint roll roots rot90 round searchsorted select setdiff1d sign sin sinh sort
    split sqrt square squeeze stack std str_ subtract sum swapaxes take tan tanh tensordot tile timedelta64
    trace transpose trapezoid trapz tril triu true_divide trunc union1d unique var vstack where zeros
    zeros_like"""

# Modules of which a program may use every public name. None of them runs text, reads files, ends or skips a
# test, or changes what the tests share with the program.
WHOLE = """__future__ array bisect cmath collections collections.abc difflib fractions graphlib hashlib
    heapq itertools math numbers pprint queue re secrets statistics struct textwrap time typing unicodedata"""
# Modules of which it may use only these names, because others would do one of these things.
LIBRARY = {
    **dict.fromkeys(WHOLE.split(), ""),
    "abc": "ABC abstractmethod", "copy": "copy deepcopy", "io": "BytesIO StringIO", "warnings": "warn",
    "asyncio": "Event Lock Queue Semaphore TimeoutError create_task gather run sleep wait_for",
    "base64": "b16decode b16encode b64decode b64encode", "calendar": "isleap leapdays monthrange weekday",
    "contextlib": "closing nullcontext",
    "csv": "DictReader DictWriter Error QUOTE_ALL QUOTE_MINIMAL QUOTE_NONE QUOTE_NONNUMERIC excel excel_tab "
           "reader writer",
    "enum": "Enum Flag IntEnum IntFlag auto unique",
    "http": "HTTPStatus", "ipaddress": "ip_address ip_interface ip_network",
    "dataclasses": "dataclass field is_dataclass",
    "datetime": "date datetime time timedelta timezone tzinfo",
    "decimal": "Decimal InvalidOperation ROUND_DOWN ROUND_FLOOR ROUND_HALF_EVEN ROUND_HALF_UP ROUND_UP",
    "functools": "cache cached_property cmp_to_key lru_cache partial reduce total_ordering wraps",
    "json": "JSONDecodeError dumps load loads",
    "logging": "DEBUG ERROR INFO Logger WARNING critical debug error exception getLogger info warning",
    "numpy": NUMPY,
    "numpy.linalg": "LinAlgError cholesky cond det eig eigh eigvals eigvalsh inv lstsq matrix_power "
                    "matrix_rank norm pinv qr slogdet solve svd",
    "numpy.random": "choice default_rng normal permutation rand randint randn random shuffle uniform",
    "operator": "add and_ eq floordiv ge gt itemgetter le lt mod mul ne neg not_ or_ pow sub truediv xor",
    "random": "Random choice choices gauss randint random randrange sample shuffle uniform",
    "string": "ascii_letters ascii_lowercase ascii_uppercase digits hexdigits punctuation whitespace",
    "sys": "getrecursionlimit getsizeof maxsize setrecursionlimit stderr stdin stdout version_info",
    "threading": "Condition Event Lock RLock Semaphore Thread Timer local",
    "types": "MappingProxyType SimpleNamespace", "uuid": "UUID uuid3 uuid4 uuid5",
}
# Builtins that a program may use; the others reach names, files or the end of the process.
ERRORS = {name for name, kind in vars(builtins).items() if type(kind) is type and issubclass(kind, Exception)}
BUILTINS = ERRORS.union("""__name__ abs all any ascii bin bool bytearray bytes callable chr classmethod
    complex dict divmod enumerate eval filter float format frozenset hasattr hash hex id input int isinstance
    issubclass iter len list map max memoryview min next object oct ord pow print property range repr reversed
    round set slice sorted staticmethod str sum super tuple type zip Ellipsis NotImplemented""".split())
# Names in the modules above, and attributes, that lead to frames, files, text that runs, processes, classes
# made of texts, or attributes with names of texts; a prelude's `from operator import *` has some of them.
HIDDEN = """ABCMeta ForwardRef NamedTupleMeta _evaluate _get_loop _loop ag_frame attrgetter attrname cr_frame
    detach format_map get_args get_loop get_stack get_type_hints gi_frame methodcaller raw register send
    stdlib_re tb_frame""".split()
# The same where objects of these modules may be about: an array leads to memory, files and classes, and a log
# record has attributes whose names are made of texts. A task of asyncio hands on the error of a module that
# lacks a name, and that has the module.
HIDDEN_OF = {
    "asyncio": ["obj"],
    "numpy": """_bit_generator _ctypes _get_strided_loop _implementation _module_source
        _resolve_dtypes_and_context _set_dtype _set_shape base bit_generator ctypes dump flags getfield
        resize setfield setflags strides tofile view""".split(),
    "logging": "_log addFilter addHandler callHandlers filters handle handlers makeRecord manager".split(),
}
# As attributes only: by these a path, a generator or a class leads to modules, frames and the makers of
# classes, and an exception by `obj`.
LEADING = "_getframe ag_code cr_code f_back f_globals f_locals gi_code mro os sys".split()
# What a class that the tests do not name may derive from, besides `object` and one exception or class of the
# program. Called by the program, they make classes.
MAKERS = "ABC Enum Flag Generic IntEnum IntFlag NamedTuple Protocol TypedDict".split()
# The special methods that such a class may have: no comparison, so that no object can be equal to everything.
METHODS = "__init__ __post_init__ __repr__ __str__ __hash__ __call__ __slots__".split()
# Special names that a program may read, but not set.
READABLE = [*METHODS, *"__add__ __and__ __doc__ __eq__ __lt__ __mul__ __name__ __new__ __or__".split()]
# By these the tests iterate over calls of the program, which must not end that.
ITERATING = {"filter", "iter", "itertools", "map"}
is_special = re.compile(r"__\w+__").fullmatch


class Suspect(Exception):
    """What makes a program suspect."""


def forbid(is_found, *words):
    if is_found:
        raise Suspect(" ".join(words))


def why_suspect(code, asked):
    """None if the syntax tree shows no way to reach the tests or to lie to them, else a reason in words;
    `asked` is what `asked_by` gives."""
    source = code if isinstance(code, bytes) else encode(code)
    try:
        tree = ast.parse(source, feature_version=(3, 9))       # newer syntax is not known to the rule
        rule = Rule(symbols_of(source), asked)
        rule.look_at(tree)
        has_numpy = any(path.startswith("numpy") for path in rule.imported.values())
        is_spelled = b"numpy" in source + encode(asked["imported"])
        forbid(has_numpy and not is_spelled, "spells in an odd way", "numpy")
    except Suspect as suspect:
        return str(suspect)
    except (SyntaxError, ValueError):
        return "does not parse as Python 3.9"
    except (RecursionError, MemoryError):         # some Pythons parse what is deeper than Rule can look
        return "is too deep"


def is_offered(module, name):
    """Whether a program may use this name of a module; it must not be a module that the module imported."""
    if LIBRARY.get(module):
        return name in LIBRARY[module].split()
    is_module = name in sys.stdlib_module_names and name != module
    return module in LIBRARY and name[0] != "_" and name not in HIDDEN and not is_module


def has_member(node):
    """Whether an enumeration has a member: called, one without makes classes. What its body assigns to names
    is one, but for functions and the like."""
    if re.search(r"\b(_ignore_|global|nonlocal)\b", ast.unparse(node)):
        return False
    for part in node.body:
        if isinstance(part, (ast.Assign, ast.AnnAssign)) and part.value:
            is_plain = all(isinstance(inner, CONSTANTS) for inner in ast.walk(part.value))
            is_plain = is_plain or isinstance(part.value, (ast.Tuple, ast.List, ast.Dict))
            is_value = is_plain or ast.unparse(part.value) in ("auto()", "enum.auto()")
            is_public_name = re.match(r"\(?[^\W_]\w*(,| =|: )", ast.unparse(part))
            if is_value and is_public_name:
                return True
    return False


def call_of(node):
    """The call of what this node names, or None."""
    is_called = isinstance(node.parent, ast.Call) and node.parent.func is node
    return node.parent if is_called else None


class Rule:
    """One look at all of a program, which ends at the first thing that makes it suspect."""

    def __init__(self, symbols, asked):
        self.symbols = symbols
        self.names = asked["names"]
        self.imports_of_prelude = ast.parse(asked["imported"]).body
        self.methods = asked["methods"]
        self.modules = {module.partition(".")[0] for module in asked["modules"]}
        self.classes = {name for name, symbol, _ in symbols if symbol.is_namespace() and any(
                        table.get_type() == "class" for table in symbol.get_namespaces())}
        self.tested = self.classes.intersection(asked["tested"])
        self.globals = {name for name, symbol, scope in symbols if symbol.is_referenced() and (
                        symbol.is_global() or scope.get_type() != "function")}
        self.own = {name for name, symbol, _ in symbols if symbol.is_assigned() or symbol.is_parameter()}
        self.imported = {}                        # what names stand for: {"dt": "datetime"}
        self.hidden = {*HIDDEN}

    def look_at(self, tree):
        for symbol in self.symbols:
            self.look_at_symbol(*symbol)
        tree.body = [node for node in tree.body if not isinstance(node, ast.If) or node.orelse
                     or ast.unparse(node.test) != "__name__ == '__main__'"]
        for node in self.imports_of_prelude:      # whose names the program has, too
            node.names = [alias for alias in node.names if
                          (alias.asname or alias.name).partition(".")[0] in self.globals]
            self.look_at_import(node)
        nodes = [tree]
        for node in nodes:                        # it grows to all nodes
            for child in ast.iter_child_nodes(node):
                child.parent = node
                nodes.append(child)
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                self.look_at_import(node)
        for module in self.modules.union(path.partition(".")[0] for path in self.imported.values()):
            self.hidden.update(HIDDEN_OF.get(module, ()))
        names = [node for node in nodes if isinstance(node, ast.Name)]
        self.stored = {node.id for node in names if isinstance(node.ctx, ast.Store)}
        self.stored.update(node.arg for node in nodes if isinstance(node, ast.arg))
        caught = {node.name for node in nodes if isinstance(node, ast.ExceptHandler)} - {None}
        self.stored.update(caught)
        self.hidden.update(["obj"] if caught else ())
        looks = {ast.Attribute: self.look_at_attribute, ast.Name: self.look_at_name,
                 ast.ClassDef: self.look_at_class}
        for node in nodes:                        # now it is known what names stand for
            look = looks.get(type(node))
            if look:
                look(node)

    def module_of(self, node):
        """The listed module that an expression such as np.linalg names, or None."""
        path = self.imported.get(getattr(node, "id", ""))
        if isinstance(node, ast.Attribute):
            path = f"{self.module_of(node.value)}.{node.attr}"
        return path if path in LIBRARY else None

    def is_answer(self, name):
        """Whether the tests ask an object for this, or any number has it, so that the library may ask for it
        on their behalf: an object that has it could lie to them."""
        return name in self.methods or hasattr(1, name) or is_special(name)

    def look_at_symbol(self, name, symbol, scope):
        """A name in a scope: no unlisted builtin, none that hides what the tests use, no lying method."""
        is_builtin = hasattr(builtins, name)
        is_listed = name in BUILTINS or name in READABLE
        is_unknown = name in HIDDEN or not is_listed and (is_builtin or is_special(name))
        forbid(name in self.globals and is_unknown, "names", name)
        forbid(scope.get_type() == "class" and symbol.is_imported(), "imports in a class", name)
        is_set = symbol.is_assigned() or symbol.is_annotated()
        is_used = name in self.names and (is_builtin or name in LIBRARY)
        forbid(is_set and symbol.is_global() and (is_used or name == "__name__"), "hides", name)
        is_of_class = scope.get_type() == "class" and scope.get_name() not in self.tested
        forbid(is_of_class and self.is_answer(name) and name not in METHODS,
               "defines, in a class that the tests do not name,", name)

    def look_at_import(self, node):
        """Only what is listed, and under names that tell what it is: the other looks go by these names."""
        module = getattr(node, "module", "")
        for alias in node.names:
            name = alias.asname or alias.name
            path = f"{module}.{alias.name}" if module else alias.name
            is_listed = is_offered(module, alias.name) if module else path in LIBRARY and "." not in name
            forbid(not is_listed, "imports", path)
            forbid(alias.asname and (module or name in LIBRARY), "renames", path)
            forbid(name != "*" and self.imported.get(name, path) != path, "imports a second", name)
            self.imported[name] = path

    def look_at_attribute(self, node):
        """Nothing of a module but what is listed, and no change of what is not the program's own."""
        name = node.attr
        owner = getattr(node.value, "id", "")
        is_set = not isinstance(node.ctx, ast.Load)
        is_closed = name in self.hidden or name in LEADING or is_special(name) and (
            is_set or name not in READABLE)
        forbid(is_closed or name == "__init__" and not self.is_own_init(node), "names", name)
        module = self.module_of(node.value)
        forbid(module and not is_offered(module, name), "uses", name)
        self.look_at_module(node, name)
        is_hidden = name[0] == "_" and owner not in ("self", "cls")
        is_foreign = is_set and ast.unparse(node).partition(".")[0] in self.imported
        is_lie = self.is_answer(name) and not self.tested
        forbid(is_foreign or is_set and (is_hidden or is_lie), "changes", name)
        text = getattr(node.value, "value", None)
        is_plain = isinstance(text, str) and not re.search(r"\{[^{}:!]*[.\[]", text)
        forbid(name == "format" and not is_plain, "formats a text by", name)
        self.look_at_maker(node, name)

    def is_own_init(self, node):
        """Whether __init__ is of a class of the program or of an error, or makes an object as it was: by that
        of a file the file would get another descriptor."""
        owner = node.value
        call = call_of(node)
        if isinstance(owner, ast.Call):
            return ast.unparse(owner.func) == "super" and "super" not in self.own
        has_no_arguments = call and not call.args and not call.keywords
        of_classes = self.classes - self.stored | (ERRORS | {"object"}) - self.own
        return has_no_arguments or getattr(owner, "id", "") in of_classes

    def look_at_module(self, node, name):
        """Modules are no values."""
        forbid(self.module_of(node) and not isinstance(node.parent, ast.Attribute), "hands on", name)

    def look_at_name(self, node):
        """`type` is only asked for the type of an object."""
        name = node.id
        self.look_at_module(node, name)
        is_builtin = name in self.globals
        call = call_of(node)
        user = call.parent if call and len(call.args) == 1 and not call.keywords else None
        is_compared = isinstance(user, ast.Compare) or getattr(user, "attr", "") == "__name__"
        is_of_none = name == "type" and ast.unparse(node.parent) == "type(None)"
        forbid(is_builtin and name == "type" and not (is_compared or is_of_none),
               "makes or looks into a class by", name)
        is_end = is_builtin and name in ("StopIteration", "next")
        forbid(is_end and self.names & ITERATING, "ends an iteration of the tests by", name)
        self.look_at_maker(node, name)

    def look_at_maker(self, node, name):
        """Names that make classes, copy attributes or make objects of fields, which could lie if all uses of
        them were allowed."""
        is_generic = isinstance(node.parent, ast.Subscript) and node.parent.value is node
        is_base = is_generic or isinstance(node.parent, ast.ClassDef)
        forbid(name in MAKERS and not is_base, "makes or looks into a class by", name)
        call = call_of(node)
        if name == "wraps":                       # @wraps(function)
            is_decorator = call and isinstance(call.parent, ast.FunctionDef)
            has_one = is_decorator and len(call.args) == 1 and not call.keywords
            forbid(not has_one or isinstance(call.args[0], ast.Starred), "does not decorate with", name)
        if name in ("dataclass", "total_ordering"):
            forbid(not isinstance((call or node).parent, ast.ClassDef), "does not decorate with", name)
        if name in ("namedtuple", "SimpleNamespace"):
            forbid(not self.fields_are_plain(call), "may lie by fields of", name)
        if name == "ndarray":                     # called, it gives arrays of any memory
            forbid(not self.is_only_named(node), "makes or looks into a class by", name)

    def is_only_named(self, node):
        """Whether a class is the whole annotation of an argument or result, or what `isinstance` asks for."""
        if isinstance(node.parent, ast.Tuple):
            node = node.parent
        user = node.parent
        if isinstance(user, ast.Call) and "isinstance" not in self.own:
            return ast.unparse(user.func) == "isinstance"
        is_of_argument = isinstance(user, ast.arg)
        return is_of_argument or node is getattr(user, "returns", None)

    def fields_are_plain(self, call):
        """Whether a call has all fields written out, none of which could answer the tests."""
        if not call:
            return False
        fields = [keyword.arg or "" for keyword in call.keywords]
        for argument in call.args:
            for part in ast.walk(argument):
                if not isinstance(part, (ast.Constant, ast.List, ast.Tuple, ast.Load)):
                    return False
                fields += re.findall(r"\w+", str(getattr(part, "value", "")))
        return not any(field in ("", "field_names") or self.is_answer(field) for field in fields)

    def look_at_class(self, node):
        """No metaclass, nothing of numpy's as a base; a class that the tests do not name derives from no
        data, whose methods it could replace, and is no exception of several kinds."""
        paths = [ast.unparse(base).partition("[")[0] for base in node.bases]
        is_numpys = any(self.imported.get(path.partition(".")[0], "").startswith("numpy") for path in paths)
        forbid(node.keywords or is_special(node.name) or is_numpys, "makes in an odd way", node.name)
        is_enum = any(path.endswith(("Enum", "Flag")) for path in paths)
        forbid(is_enum and not has_member(node), "could be called to make a class,", node.name)
        bases = {path.rpartition(".")[2] for path in paths}.difference(MAKERS, ["object"])
        forbid(node.name not in self.tested and (bases - ERRORS - self.classes or len(bases) > 1),
               "derives from data or several classes", node.name)


# ------------------------------------------------------------------------------------- the layers
# A Cage is what protects the machine. The fork server enters namespaces once; each fork is confined by limits
# on resources, Landlock (files and signals) and a seccomp filter (system calls). A layer that the kernel does
# not offer is left out, and the next ones make up for it as far as they can.

LIBC = ctypes.PyDLL(None, use_errno=True)
NEWNS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000       # clone
PERTURB = -6                                      # of mallopt: what is freed is overwritten
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 0x1000, 0x4000, 0x40000                      # mount
PDEATHSIG, DUMPABLE, SUBREAPER, NO_NEW_PRIVS = 1, 4, 36, 38                                           # prctl
DEVICES = [f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom")]
X86 = os.uname().machine == "x86_64"              # else aarch64
CLONE, PRLIMIT, SECCOMP, CAPSET, PIVOT_ROOT = (56, 302, 317, 126, 155) if X86 else (220, 261, 277, 91, 41)
MOUNT_SETATTR, CREATE_RULESET, ADD_RULE, RESTRICT_SELF, CLOSE_RANGE = 442, 444, 445, 446, 436
NEW_ANYTHING = 0x7E020000                         # flags of clone that make a namespace
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06                                 # BPF
AT_NUMBER, AT_ARCHITECTURE, AT_ARGUMENT = 0, 4, 16          # of a system call, in struct seccomp_data
RETURN_ERRNO = 0x50000                            # a filter's answer: fail with the error in the low bits
NO_CAPABILITIES = struct.pack("<Ii", 0x20080522, 0), bytes(24)
NEWER = 424                                       # calls from this number on do not exist for a program:
#                                                   libraries then take another way

# Numbers of system calls on x86-64 | on aarch64. Calls that need a capability are not among them, for no
# program has one. These are refused:
REFUSED = """
  ptrace, syslog, process_vm_*, kcmp, setns, unshare   101 103 310-312 308 272 | 116-117 270-272 268 97
  socket, *_key, keyctl, ioprio_set, sched_set*        41 248-251 142 144 314 | 198 217-219 30 118-119 274
  setpriority                                          141 | 140
  shm*, sem*, msg*, mq_*, memfd_create: lasting pages  29-31 64-71 220 240-241 319 | 186-197 180-181 279
  setxattr, removexattr, and for links and descriptors 188-190 197-199 | 5-7 14-16
  bpf, perf_event_open, userfaultfd                    321 298 323 | 280 241 282
  truncate, which old versions of Landlock let through 76 | 45"""
# These only seem to succeed. Without a private root Landlock does not rule over them, and copying needs them.
PRETENDED = "  chmod, chown, utime and their kin  90 268 92 94 260 132 235 261 280 | 53 54 88"
# These are refused where neither Landlock nor a pid namespace keeps signals from other processes.
KILLS = "  kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo  62 200 234 129 297 | 129-131 138 240"


def call_numbers(table):
    """[(first, last)...] of this machine's calls in a table."""
    spans = []
    for line in table.strip().splitlines():
        on_x86, on_aarch64 = line.rpartition("  ")[2].split("|")
        for first, last in re.findall(r"\b(\d+)-?(\d*)", on_x86 if X86 else on_aarch64):
            spans.append((int(first), int(last or first)))
    return spans


class LayerFailed(Exception):
    """(layer, why)"""


def libc(name, *args):
    """Call a function of the C library, or a system call by its number; OSError if it fails."""
    function = LIBC.syscall if isinstance(name, int) else getattr(LIBC, name)
    if isinstance(name, int):
        args = (name, *args)
    result = function(*(ctypes.c_long(arg) if isinstance(arg, int) else
                        arg.encode() if isinstance(arg, str) else arg for arg in args))
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")
    return result


class Cage:
    """What the fork server enters once, and what each of its forks is put into."""

    def __init__(self, disabled):
        self.disabled = disabled
        self.is_root = os.getuid() == 0
        self.on = set(LAYERS) - disabled
        self.private = "namespaces" in self.on    # whether it has a root folder of its own
        self.has_own_user = self.private
        self.ruleset = None
        self.abi = 0                              # Landlock's version
        self.scratch = "/job" if self.private else tempfile.mkdtemp(prefix="sandbox-")

    def enter(self):
        """All that the fork server needs to do once."""
        global proc_fd
        set_limit(resource.RLIMIT_STACK, STACK_MB << 20, soft=True)
        set_limit(resource.RLIMIT_NOFILE, OPEN_FILES)
        set_limit(resource.RLIMIT_FSIZE, FILE_MB << 20)
        set_limit(resource.RLIMIT_CORE, 0)
        proc_fd = os.open("/proc", os.O_RDONLY)
        self.null = os.open("/dev/null", os.O_RDWR)
        while self.null < 10:                     # so that a job's descriptors lie above those it is to get
            self.null = os.open("/dev/null", os.O_RDWR)
        libc("prctl", SUBREAPER, 1)
        self.try_layer("namespaces", self.enter_namespaces)
        if self.is_root and not self.private:
            self.drop_uid()
        os.environ.update(HOME=self.scratch, TMPDIR=self.scratch)
        tempfile.tempdir = None
        os.chdir(self.scratch)
        self.folder = os.open(".", os.O_RDONLY)
        if "landlock" in self.on and not self.private:
            replace_semaphores()
        libc("prctl", NO_NEW_PRIVS, 1, 0, 0, 0)
        libc("prctl", DUMPABLE, 0)
        self.try_layer("landlock", self.make_ruleset)
        self.filter = self.make_filter()          # once: whatever a fork need not make saves it copied pages
        warm_up = "import math\ndef f(x): return math.sqrt(x)"    # what a first use of the rule loads, forks
        why_suspect(warm_up, asked_by("f(3)"))                   # then have
        self.settle()

    def try_layer(self, layer, function, *args):
        if layer in self.on:
            try:
                return function(*args)
            except OSError as problem:
                raise LayerFailed(layer, str(problem)) from None

    def enter_namespaces(self):
        """An ordinary user needs the user namespace first. Root makes the other ones, becomes an ordinary
        user, and then makes it."""
        others = NEWNS | NEWNET | NEWIPC
        if self.is_root:
            libc("unshare", others)
            self.make_root()
            self.drop_uid()
        uid = os.getuid()
        gid = os.getgid()
        libc("unshare", NEWUSER if self.is_root else NEWUSER | others)
        maps = {"setgroups": "deny", "uid_map": f"{uid} {uid} 1", "gid_map": f"{gid} {gid} 1"}
        for name, text in maps.items():
            descriptor = os.open(f"self/{name}", os.O_WRONLY, dir_fd=proc_fd)
            os.write(descriptor, text.encode())
            os.close(descriptor)
        if not self.is_root:
            self.make_root()

    def drop_uid(self):
        """From root to a user of this server's own: uid 0 is above RLIMIT_NPROC and file modes."""
        uid = 61000 + os.getpid() % 4000
        needed = [] if self.private else [os.__file__, self.scratch]
        above = [path[:n] for path in needed for n, letter in enumerate(path) if letter == "/" and n]
        if not all(os.stat(folder).st_mode & 1 for folder in above):
            return                                # only root may read this Python, or enter TMPDIR
        self.has_own_user = True
        os.chown(self.scratch, uid, uid)
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        libc("prctl", DUMPABLE, 1, 0, 0, 0)       # else it may not write its uid_map

    def readable(self):
        """What a program may read: the system's libraries and this Python."""
        packages = [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
        paths = {"/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/localtime", sys.prefix,
                 sys.base_prefix, *packages}
        return sorted(filter(os.path.exists, paths))

    def make_root(self):
        """A root of its own: a tmpfs with read-only views of what is readable, a scratch folder, no /proc."""
        views = [(path, os.path.realpath(path)) for path in self.readable() + DEVICES]
        libc("mount", None, "/", None, MS_REC | MS_PRIVATE, None)
        libc("mount", "tmpfs", "/tmp", "tmpfs", MS_NOSUID, "size=4m,mode=755")
        os.chdir("/tmp")
        os.mkdir("old")
        libc(PIVOT_ROOT, ".", "old")
        os.chdir("/")
        for real in sorted({real for _, real in views}):
            if not os.path.exists(real):          # else it lies inside a view that is there
                os.makedirs(real if os.path.isdir("/old" + real) else os.path.dirname(real), exist_ok=True)
                if not os.path.isdir(real):
                    open(real, "w").close()
                libc("mount", "/old" + real, real, None, MS_BIND | MS_REC, None)
        os.mkdir(self.scratch)
        for path, real in [*views, ("/tmp", self.scratch), ("/dev/shm", self.scratch)]:
            if not os.path.lexists(path):
                os.makedirs(os.path.dirname(path), exist_ok=True)
                os.symlink(real, path)
        libc("umount2", "/old", 2)                # MNT_DETACH
        os.rmdir("/old")
        read_only = struct.pack("<4Q", 1 | MS_NOSUID, 0, 0, 0)
        libc(MOUNT_SETATTR, -100, "/", 0x8000, read_only, len(read_only))         # with all mounts below
        options = f"size={SCRATCH_MB}m,nr_inodes={SCRATCH_FILES},mode=1777"
        libc("mount", "tmpfs", self.scratch, "tmpfs", MS_NOSUID | MS_NODEV, options)

    def make_ruleset(self):
        """Landlock: read what is readable, write in the scratch folder, no TCP, no signals to others."""
        self.abi = libc(CREATE_RULESET, None, 0, 1)
        rights = (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(self.abi, 16)) - 1    # all that this version knows
        fields = 3 if self.abi >= 6 else 2 if self.abi >= 4 else 1            # on files, on TCP, on signals
        ruled = struct.pack("<3Q", rights, 0b11, 0b11)[:8 * fields]
        self.ruleset = libc(CREATE_RULESET, ruled, len(ruled), 0)
        to_read = 0b1101                                                      # files and folders, execute
        on_files = 0b1100000000000111                                         # what a plain file can have
        rules = dict.fromkeys(["/"] if self.private else self.readable(), to_read)
        for path, allowed in {**rules, **dict.fromkeys([self.scratch, *DEVICES], rights)}.items():
            descriptor = os.open(path, os.O_PATH)
            allowed &= rights if os.path.isdir(path) else rights & on_files
            libc(ADD_RULE, self.ruleset, 1, struct.pack("<Qi", allowed, descriptor), 0)
            os.close(descriptor)

    def make_filter(self):
        """The seccomp filter of all forks, in classic BPF. A step is (what it does, how many steps it skips
        if that is true, how many if not, a number)."""
        allow = (RETURN, 0, 0, 0x7FFF0000)
        pretend = (RETURN, 0, 0, RETURN_ERRNO)
        deny = (RETURN, 0, 0, RETURN_ERRNO | errno.EPERM)
        absent = (RETURN, 0, 0, RETURN_ERRNO | errno.ENOSYS)
        kill_process = (RETURN, 0, 0, 0x80000000)
        architecture = 0xC000003E if X86 else 0xC00000B7
        steps = [(LOAD, 0, 0, AT_ARCHITECTURE), (EQUAL, 1, 0, architecture), kill_process,
                 (LOAD, 0, 0, AT_NUMBER), (EQUAL, 0, 1, CLOSE_RANGE), allow, (AT_LEAST, 0, 1, NEWER), absent]

        def answer_to(table, answer):
            for first, last in call_numbers(table):
                steps.extend([(AT_LEAST, 0, 2, first), (AT_LEAST, 1, 0, last + 1), answer])

        def deny_unless(number, test):            # of the call's first argument
            steps.extend([(EQUAL, 0, 4, number), (LOAD, 0, 0, AT_ARGUMENT), test, deny, allow])

        answer_to(REFUSED, deny)
        deny_unless(PRLIMIT, (EQUAL, 1, 0, 0))                                # of the process itself
        deny_unless(CLONE, (ANY_BIT, 0, 1, NEW_ANYTHING))
        if not self.private:
            answer_to(PRETENDED, pretend)
            if self.abi < 6:
                answer_to(KILLS, deny)
        code = b"".join(struct.pack("<HBBI", *step) for step in [*steps, allow])
        self.filter_code = ctypes.create_string_buffer(code)
        return struct.pack("<HxxxxxxQ", len(code) // 8, ctypes.addressof(self.filter_code))

    def settle(self):
        """Note what a fork starts with; keep the collector from touching, and so copying, its pages."""
        pages = proc(f"{os.getpid()}/statm").split() or [0, 0]    # ru_maxrss begins as the caller's
        self.base_rss = int(pages[1]) * resource.getpagesize()
        gc.collect()
        gc.freeze()

    def spawn(self, descriptors, job, body):
        """Fork a confined process that has these descriptors, from 0 on, and no other, and runs `body`."""
        if self.private:                          # without CPython's hooks, which renew locks nobody holds
            pid = self.try_layer("namespaces", libc, CLONE, NEWPID | signal.SIGCHLD, 0, 0, 0, 0)
        else:
            pid = os.fork()
        if pid:
            return pid
        try:
            random.seed()
            for target, descriptor in enumerate(descriptors):
                os.dup2(descriptor, target, inheritable=target < 3)
            self.confine(len(descriptors), job)
            libc("prctl", DUMPABLE, 1)
            if "numpy" in job.get("preload", ()):
                with contextlib.suppress(AttributeError):      # only glibc has it
                    libc("mallopt", PERTURB, 0xA5)             # np.empty would show what was freed
            body()
            os._exit(0)                           # whatever threads are running
        except LayerFailed as failure:
            os._exit(LAYERS.index(failure.args[0]))            # for `probe`
        finally:
            os._exit(71)

    def confine(self, descriptors, job):
        """Put this process into all layers, in an order in which none forbids the next."""
        os.setsid()
        libc("prctl", PDEATHSIG, signal.SIGKILL)
        memory = job["memory_mb"] << 20
        set_limit(resource.RLIMIT_DATA, memory)
        set_limit(resource.RLIMIT_AS, 4 * memory)              # threads reserve much more than they use
        if self.has_own_user:                     # else the limit would count every process of the account
            set_limit(resource.RLIMIT_NPROC, PROCESSES)
        libc(CAPSET, *NO_CAPABILITIES)
        self.try_layer("landlock", libc, RESTRICT_SELF, self.ruleset, 0)
        os.closerange(descriptors, OPEN_FILES)
        self.try_layer("seccomp", libc, SECCOMP, 1, 4, self.filter)

    def probe(self):
        """Find out whether the machine has the layers, by putting a process into them."""
        child = self.spawn([self.null] * 3, {"memory_mb": MEMORY_MB}, functools.partial(os._exit, 0))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status:
            layer = LAYERS[status] if status in range(len(LAYERS)) else "rlimits"
            raise LayerFailed(layer, f"a process that was put into it ended with status {status}")

    def empty_scratch(self):
        """By its descriptor, because a program can move it; `find` copes with deep trees."""
        os.fchmod(self.folder, 0o700)
        os.fchdir(self.folder)
        if os.listdir():
            subprocess.run("chmod -R u+rwx . ; find . -mindepth 1 -delete", shell=True,
                           stderr=subprocess.DEVNULL)

    def scratch_is_full(self):
        """As `du` counts, which copes with any tree. The server is in the folder, wherever that was moved."""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired, ValueError):
            done = subprocess.run("du -s --inodes ; du -sm", shell=True, capture_output=True, timeout=5)
            files, _, megabytes, _ = done.stdout.split()
            return int(files) > SCRATCH_FILES or int(megabytes) > SCRATCH_MB

    def hello(self):
        """What protects this machine: in words for the banner, and as names for LEVELS."""
        private = ["private root"] * self.private
        seccomp = "seccomp" in self.on
        landlock = [f"landlock (abi {self.abi})"] * ("landlock" in self.on)
        protected = {"verdict": ["separate process"] * (self.has_own_user or "landlock" in self.on),
                     "files": private + landlock,
                     "network": ["no sockets"] * seccomp,      # a network namespace alone has AF_VSOCK
                     "signals": ["pid namespace"] * self.private + ["seccomp"] * seccomp}
        words = [f"{name}={' + '.join(how) or 'NOT PROTECTED'}" for name, how in protected.items()]
        words += [f"processes={PROCESSES if self.has_own_user else 'watched'}", "tree memory=watched",
                  f"layers={','.join(layer for layer in LAYERS if layer in self.on)}"]
        return {"banner": "sandbox: " + "; ".join(words),
                "protected": [name for name, how in protected.items() if how] + sorted(self.on)}


def replace_semaphores():
    """Those of multiprocessing lie in /dev/shm, which is the machine's here; these in memory of the forks."""
    own = importlib.import_module("_multiprocessing").SemLock
    kept = []

    def semaphore(kind, value, maxvalue, *_):
        kept.append(mmap.mmap(-1, 64))
        address = ctypes.addressof(ctypes.c_char.from_buffer(kept[-1]))
        libc("sem_init", ctypes.c_void_p(address), 1, value)
        return own._rebuild(address, kind, maxvalue, None)

    semaphore.SEM_VALUE_MAX = own.SEM_VALUE_MAX
    semaphore._rebuild = own._rebuild
    sys.modules["_multiprocessing"].SemLock = semaphore


def set_limit(which, value, soft=False):
    hard = resource.getrlimit(which)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, hard if soft else value))


# ------------------------------------------------------------------------------------- the command line

def main():
    import argparse
    parser = argparse.ArgumentParser(description="Run one untrusted program against tests.")
    parser.add_argument("program", help="file with the untrusted program")
    parser.add_argument("tests", help='file with tests, or .json with {"inputs": [...], "outputs": [...]}')
    parser.add_argument("--entry-point", help="name of the function under test; check(candidate) needs it")
    parser.add_argument("--prelude", help="file with trusted code that runs in front of program and tests")
    parser.add_argument("--beside", action="store_true",
                        help="a suspect program's pass counts: for tests that patch what the program imports")
    parser.add_argument("--cpu-s", type=float, default=CPU_S, metavar="SECONDS",
                        help="processor time for the program and its tests (default: %(default)s)")
    parser.add_argument("--wall-s", type=float, metavar="SECONDS",
                        help="time that they may sleep (default: twice --cpu-s)")
    parser.add_argument("--memory-mb", type=int, default=MEMORY_MB, metavar="MB",
                        help="memory of each process; all of them may hold 1.5 times as much "
                             "(default: %(default)s)")
    parser.add_argument("--unsafe", action="store_true",
                        help="run even if this machine cannot keep a program from changing its verdict")
    parser.add_argument("--require", default="rlimits", choices=LEVELS,
                        help="the least protection without which nothing is run (default: rlimits)")
    args = parser.parse_args()
    try:
        texts = {}
        for name in ("program", "tests", "prelude"):
            with open(getattr(args, name) or os.devnull, encoding="utf-8") as file:
                texts[name] = file.read()
        is_json = args.tests.endswith(".json")
        tests = texts["tests"]
        if is_json:
            try:
                tests = json.loads(tests)
            except ValueError as problem:
                raise ValueError(f"{args.tests}: not JSON ({problem})") from None
        job = {"code": texts["program"], "tests": tests, "prelude": texts["prelude"],
               "entry_point": args.entry_point, "beside": args.beside, "cpu_s": args.cpu_s,
               "wall_s": args.wall_s, "memory_mb": args.memory_mb}
        with Pool(1, require=args.require, unsafe=args.unsafe) as pool:
            print(pool.banner, file=sys.stderr)
            result = pool.judge(job)
    except (OSError, ValueError, RuntimeError) as problem:
        print(f"sandbox_exec.py: {problem}", file=sys.stderr)
        sys.exit(2)
    print(result.reason + (f" ({result.detail})" if result.detail else ""))
    sys.exit({True: 0, False: 1, None: 3}[result.passed])


if __name__ == "__main__":
    main()
