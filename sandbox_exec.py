#!/usr/bin/env python3
"""Run untrusted (model-written) Python against tests: a verdict to rely on, a machine that stays unharmed.

    python sandbox_exec.py program.py tests.py       # one verdict, and what protects this machine (Linux)
    python sandbox_exec.py program.py tests.json     # {"inputs": [...], "outputs": [...]}: what is printed

    from sandbox_exec import run_tests, Pool
    run_tests("def f(x): return x * x", "assert f(3) == 9").passed                               # True
    with Pool() as pool:                             # one warm fork server a core; several threads may use it
        for key, result in pool.imap_unordered([("a", {"code": ..., "tests": ...}), ...]):
            print(key, result.passed, result.reason)    # as they finish

A job is the keyword arguments of `run_tests`:

    code         the program to judge, text (None or blank: verdict `no code`)
    tests        text of the tests (asserts, pytest's functions, unittest's classes), or {"inputs": [...],
                 "outputs": [...]}: what is printed must be equal line by line, up to trailing blanks and how
                 a number is written, and the exit status 0; with "fn_name": that is called, inputs are JSON
    style        "check": the tests define check(candidate), called with the entry point; "auto": if they do
    entry_point  name of the function under test; needed by "check", useful elsewhere
    prelude      trusted code of the problem statement, run in front of the program and of the tests
    beside       True: a suspect program's pass beside its tests counts, for tests that patch its imports
    strict       True: no pass is believed but from a judge that the program cannot touch; see below
    cpu_s        seconds of processor time of the program with its tests, default 10: what decides
    wall_s       seconds that it may sleep, default 2 * cpu_s; waiting for a busy processor is not counted
    memory_mb    for each process; the whole tree may hold 1.5 times as much

`result.reason` is `passed`, `failed: <which assert or exception>`, `timeout`, `memory`, `killed`, `no
code`, `syntax`, `not judged: passes only beside its tests (<why it is suspect>)`, or `error: <what the sandbox
could not do>`; `passed` is True, False or, for the last two, None.

The rule. A program is innocent if a walk over its syntax tree finds nothing by which it could reach its tests
or lie to them (`why_suspect`); what the rule does not know is suspect, as a few of a hundred real programs
are. An innocent program runs in one process with its tests, as everywhere, and that verdict counts. A suspect
one is first judged apart: the tests run in a process that it cannot touch, and only plain data crosses
(numbers, texts, lists, dictionaries, sets, numpy's arrays of numbers, exceptions by a builtin's name). A pass
there is `passed`. Else it runs beside its tests, where it could forge a pass, but nothing hinders an honest
one: fails there too, `failed`; passes there, `not judged`. With `strict` every program is judged so: for those
of a model that was trained against this judge. A class under test that lies about itself is believed.

      caller         one thread a server; has the secrets, and the expected outputs of stdio jobs
        G            guard: only waits; when F or the caller dies it kills all that is left
        F            fork server: one thread, in namespaces; never reads a program, a test, a verdict
       / \
      J - S          forked for one job and confined. S holds the program, with its tests or, judged apart,
                     with one end of a socket to J, which holds them. (In a stdio job: files as 0, 1, 2.)

    caller <-> F: JSON with descriptors. Who runs the tests -> caller: [reason, detail] as JSON, on a socket of
    the job's own. J <-> S: pickles of plain data. S tells (values, names of functions), then J asks
    (name, arguments, keywords), and S answers (outcome, value, what the containers among the arguments hold).

Layers: as many as the machine has stand around S and J; `pool.banner` says which. A Pool starts only where
the program cannot write what judge or caller read later (a private root, Landlock, or another user), unless
the caller writes `unsafe=True`. `Pool(require="namespaces")` refuses to work with less. Not covered: bugs of
the kernel, side channels, reading /usr and the Python installation, files that tests leave in the folder both
share. No sockets, ever.

In this file: the caller's process, reading tests, the servers, running tests, the program's process, the judge
apart, plain data between these two, the rule, the layers."""
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
import io
import itertools
import json
import linecache
import marshal
import mmap
import numbers
import os
import pickle
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
          "namespaces": ("network", "signals", "files", "namespaces")}
CPU_S, MEMORY_MB, TREE_FACTOR, FRAME_LIMIT = 10, 1024, 1.5, 64 << 20
FILE_MB, SCRATCH_MB, SCRATCH_FILES, OPEN_FILES, PROCESSES, STACK_MB = 64, 256, 20000, 256, 64, 64
SERVER_DIED = "error: the server of this job died or hung"


class Result(typing.NamedTuple):
    reason: str
    detail: str = ""
    cpu_s: float = 0.0
    wall_s: float = 0.0
    memory_mb: float = 0.0                        # highest resident memory of the tree that was seen
    layers: str = ""

    @property
    def verdict(self):
        return self.reason.partition(":")[0]

    @property
    def passed(self):
        return None if self.verdict in ("error", "not judged") else self.verdict == "passed"


# ------------------------------------------------------------------------------------- the caller's process

def run_tests(code, tests, **job):
    """Judge one program in a server that stays warm until the interpreter ends; `job` as described above."""
    return shared_pool(os.getpid()).judge(dict(job, code=code, tests=tests))


@functools.cache
def shared_pool(_pid):
    return Pool(1)


class Pool(contextlib.AbstractContextManager):
    """`workers` fork servers (default: one a core); `require`: one of LEVELS; `disable`: of the LAYERS."""

    def __init__(self, workers=None, *, require="rlimits", disable=(), unsafe=False):
        unknown = set(disable) - {*LAYERS, "pytest"}
        if unknown or require not in LEVELS:
            raise ValueError(f"unknown: {unknown or require!r}; layers: {LAYERS}, levels: {tuple(LEVELS)}")
        workers = workers or len(os.sched_getaffinity(0))      # a batch job has few of a large machine
        self.threads = futures.ThreadPoolExecutor(workers)
        self.servers, self.idle = [], queue.SimpleQueue()
        try:
            for _ in range(workers):
                self.servers.append(Server(disable))
                self.idle.put(self.servers[-1])
            self.banner, protected = self.servers[0].banner, self.servers[0].protected
            if missing := [name for name in LEVELS[require] if name not in protected]:
                raise RuntimeError(f"{require!r} needs {', '.join(missing)}, not found; {self.banner}")
            if "verdict" not in protected and not unsafe:
                raise RuntimeError("a program could write what its judge reads later, so verdicts would not "
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
        jobs, running = iter(jobs), {}
        try:
            while True:
                while len(running) < 2 * len(self.servers) and (item := next(jobs, None)):
                    running[self.threads.submit(self.judge, item[1])] = item[0]
                if not running:
                    return
                for done in futures.wait(running, return_when="FIRST_COMPLETED").done:
                    yield running.pop(done), done.result()
        finally:
            for future in running:                # the caller stopped early; what runs already ends by itself
                future.cancel()

    def judge(self, job):
        server = self.idle.get()
        try:
            return judge(server, **job)._replace(layers=self.banner)
        finally:
            self.idle.put(server)


def judge(server, code, tests, style="auto", entry_point=None, prelude="", beside=False, strict=False,
          cpu_s=CPU_S, wall_s=None, memory_mb=MEMORY_MB):
    """One job's Result."""
    if not isinstance(code, str | None):
        return Result(f"error: code must be text, not {type(code).__name__}")
    if not (code or "").strip():
        return Result("no code")
    is_stdio, runs = isinstance(tests, dict), []
    given, wanted = [tests.get(name) if is_stdio else [""] for name in ("inputs", "outputs")]
    if not (isinstance(tests, (str, dict)) and isinstance(given, (list, tuple)) and given
            and isinstance(wanted, (list, tuple)) and len(given) == len(wanted)):
        return Result("error: tests must be text or {'inputs': [...], 'outputs': [...]} of equal length")
    fn_name = tests.get("fn_name") if is_stdio else None
    if fn_name:
        tests, style = calls_of(fn_name, given, wanted), "auto"
    if style == "check" and not entry_point:
        return Result("error: tests of the style check need an entry_point")
    if not isinstance(tests, dict):
        try:
            known = read_tests(tests, prelude or "", style, entry_point or fn_name)
        except Verdict as error:
            return Result(str(error))
    used = {"numpy": "numpy" in code or "numpy" in str(tests), "unittest": "unittest" in str(tests),
            "pytest": bool(MORE_OF_PYTEST.search(str(tests)))}
    limits = {"cpu_s": cpu_s, "asleep_s": wall_s or 2 * cpu_s, "memory_mb": memory_mb,
              "preload": [name for name in used if used[name]]}

    def run(mode, *contents):
        runs.append(server.run({**limits, "mode": mode}, contents))
        return runs[-1]

    if isinstance(tests, dict):
        reason, detail = judge_stdio(run, code, given, wanted)
    else:
        reason, detail = judge_tests(run, {**known, "fn_name": fn_name}, code, beside, strict)
    return Result(reason, detail, round(sum(run.cpu_s for run in runs), 3),
                  round(sum(run.wall_s for run in runs), 3), round(max(run.memory_mb for run in runs), 1))


def judge_tests(run, tests, code, beside, strict):
    """An innocent program's word beside its tests counts; of a suspect one, a pass apart from them does."""
    both, why = {**tests, "code": code}, "strict"
    if not strict:
        reason, detail = answer_of(run("beside", as_bytes({**both, "only_innocent": True})))
        if reason != "suspect":
            return reason, detail
        why = detail
    program = {name: tests[name] for name in ("prelude_code", "entry_point", "fn_name")}
    apart, detail = answer_of(run("apart", as_bytes(tests), as_bytes({**program, "code": code})))
    if apart == "passed" or apart.startswith("error: the tests"):
        return apart, detail
    reason, detail = answer_of(run("beside", as_bytes({**both, "only_innocent": False})))
    if reason == "passed":
        not_judged = f"not judged: passes only beside its tests ({why})"
        return "passed: beside its tests" if beside and not strict else not_judged, f"apart: {apart}"
    is_known = re.match("failed: |timeout$|memory$|killed$|syntax$", reason)       # it may say what it likes
    return reason if is_known else f"failed: {reason}", detail


def answer_of(run):
    """(reason, detail) that a run ended with."""
    if run.why:
        return run.why
    try:
        reason, detail = json.loads(run.answer)
        return str(reason)[:1000], str(detail)[:1000]
    except (ValueError, TypeError, RecursionError):
        return f"failed: the program ended (exit status {run.exit}) before its tests did", ""


def calls_of(name, inputs, outputs):
    """LiveCodeBench's functional problems as tests: arguments as JSON, one a line."""
    given = [[json.loads(line) for line in text.splitlines() if line.strip()] if isinstance(text, str)
             else text for text in inputs]
    wanted = [json.loads(text) if isinstance(text, str) else text for text in outputs]
    return (f"for given, wanted in zip({given!r}, {wanted!r}):\n    got = {name}(*given)\n"
            "    assert (list(got) if isinstance(got, tuple) else got) == wanted\n")


def judge_stdio(run, code, given, wanted):
    for n, pair in enumerate(zip(given, wanted), 1):
        text, right = ["\n".join(map(str, each)) if isinstance(each, list) else str(each) for each in pair]
        done = run("stdio", encode(text), b"", b"", as_bytes(code))
        if done.why:
            return done.why
        _, printed, errors, _ = done.files
        last = errors[-2000:].decode("utf-8", "replace").strip().rpartition("\n")[2]
        if done.exit:
            told = f"failed: input {n} of {len(given)}: exit status {done.exit} {last[:200]}".strip()
            words = {"MemoryError": "memory", "SyntaxError": "syntax"}
            return words.get(last.partition(":")[0], told), last[:1000]
        is_flood = len(printed) > 10 * len(encode(right)) + 2**20          # too much to take apart
        if is_flood or not same_lines(printed.decode("utf-8", "replace"), right):
            return f"failed: input {n} of {len(given)}: wrong output", repr(printed[:200])
    return "passed", ""


NUMBER = re.compile(r"[+-]?(\d{1,5000}(\.\d{0,5000})?|\.\d{1,5000})([eE][+-]?\d{1,4})?", re.ASCII)


def same_lines(printed, wanted):
    """Equal; or lines of numbers, one of which is no integer, that are equal as numbers: 0.50 is .5."""
    def is_same(ours, theirs):
        pairs = list(itertools.zip_longest(ours.split(), theirs.split(), fillvalue=""))
        return ours == theirs or bool(re.search("[.eE]", ours + theirs)) and all(
            NUMBER.fullmatch(a) and NUMBER.fullmatch(b) and Decimal(a) == Decimal(b) for a, b in pairs)
    printed, wanted = [[line.rstrip() for line in text.rstrip().splitlines()] for text in (printed, wanted)]
    return len(printed) == len(wanted) and all(map(is_same, printed, wanted))


class Run(typing.NamedTuple):
    """One run of a program: how it went, as F tells, and what was answered."""
    ended: tuple = None                           # (reason, detail) if a limit or a death of ours ended it
    exit: int = 0                                 # status of the process; -9: by signal 9
    cpu_s: float = 0.0
    wall_s: float = 0.0
    memory_mb: float = 0.0
    answer: bytes = b""                           # the verdict
    files: list = ()                              # what the files it got hold then

    @property
    def why(self):
        """(reason, detail) if it did not end as programs do."""
        return self.ended or (("killed", f"signal {-self.exit}") if self.exit < 0 else None)


class Server:
    """The caller's end of one guard and fork server."""

    def __init__(self, disabled):
        self.disabled, self.is_closed = set(disabled), False
        self.start()

    def start(self):
        """Layers are probed by using them: a server that lacks one says so, and is started without."""
        while True:
            self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            start = ("import marshal, sys\ndel sys.path[0]\nit = {'__name__': 'sandbox_exec'}\n"
                     "exec(marshal.load(sys.stdin.buffer), it)\n"         # without the caller's folder
                     f"it['guard']({theirs.fileno()}, {[*self.disabled]})")
            with theirs:
                self.process = subprocess.Popen([sys.executable, "-s", "-B", "-c", start],
                                                pass_fds=[theirs.fileno()], env=clean_environment(),
                                                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
            with contextlib.suppress(OSError), self.process.stdin as file:
                file.write(this_file_compiled())
            hello, _ = receive(self.socket) or ({"failed": ["rlimits", "it died at once"]}, [])
            if "failed" not in hello:
                self.banner, self.protected = hello["banner"], hello["protected"]
                return
            self.end()
            layer, why = hello["failed"]
            if layer in {"rlimits", *self.disabled}:
                raise RuntimeError(f"the sandbox cannot start: {layer}: {why}")
            self.disabled.add(layer)

    def end(self):
        """The end of the connection is the order to end all that was started; the guard sees to it."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)                         # wakes a thread that reads it
        self.socket.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            end_tree(self.process.pid)
            self.process.kill()
            self.process.wait()

    def run(self, header, contents):
        """A Run; a second one if something of ours died. What decides crosses on a socket, which nobody can
        open: not F, nor a program through /proc."""
        for _ in range(2):
            with contextlib.ExitStack() as closing:
                files = [closing.enter_context(memory_file(data)) for data in contents]
                ours, theirs = map(closing.enter_context, socket.socketpair())
                run = Run(**self.exchange(header, [*files, theirs]))
                with contextlib.suppress(BlockingIOError):
                    run = run._replace(answer=ours.recv(1 << 16, socket.MSG_DONTWAIT))
                run = run._replace(files=[read_file(file) for file in files])
            if not run.ended or not run.ended[0].startswith("error: "):
                break
        is_theirs = run.ended == (SERVER_DIED, "") and "signals" not in self.protected
        return run._replace(ended=("killed", "")) if is_theirs else run

    def exchange(self, header, files):
        """What F answers with; G and F are started anew if it does not."""
        with contextlib.suppress(OSError):
            self.socket.settimeout(60 + 20 * (header["cpu_s"] + header["asleep_s"]))     # it may be busy
            send(self.socket, header, [file.fileno() for file in files])
            told, _ = receive(self.socket) or ({"failed": True}, [])
            if "failed" not in told:
                return told
        self.end()
        if not self.is_closed:
            with contextlib.suppress(RuntimeError, OSError):               # the next job tries again
                self.start()
        if self.is_closed:                        # meanwhile
            self.end()
        return {"ended": (SERVER_DIED, "")}


@functools.cache
def this_file_compiled():
    """A server that compiled it would keep megabytes of memory for that, which each fork would have, too."""
    source = "".join(linecache.getlines(__file__, globals()))     # from an archive, too; asserts hold
    return marshal.dumps(compile(source, __file__, "exec", dont_inherit=True, optimize=0))


def clean_environment():
    """None of the caller's secrets; one thread for each numeric library, so that a job's time is its own."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "TMPDIR") if name in os.environ}
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONUTF8": "1", "USER": "sandbox",
            "PYTHONHASHSEED": "0", "MALLOC_ARENA_MAX": "2", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            **threads, **kept}


def memory_file(data):
    """An anonymous file: the program cannot block on it, and the servers pass it on unread."""
    file = open(os.memfd_create("job"), "w+b", buffering=0)
    file.write(data)
    file.seek(0)
    return file


def read_file(file):
    file.seek(0)
    return file.read()


def as_bytes(message):
    return json.dumps(message).encode()


def encode(text):
    return text.encode("utf-8", "surrogatepass")


def send(sock, message, fds=()):
    socket.send_fds(sock, [as_bytes(message)], fds)


def receive(sock):
    """(message, descriptors); None at the end of the connection."""
    data, fds, *_ = socket.recv_fds(sock, 1 << 16, 8)
    return (json.loads(data), fds) if data else None

# ------------------------------------------------------------------------------------- reading tests
# The caller's process does this, once for many programs with the same tests: the tests are trusted.

OURS = {"solution", "tests", "__main__", "pytest"}
MORE_OF_PYTEST = re.compile(r"\bpytest\.(?!(raises|approx|mark\.parametrize)\b)\w|^from pytest import .*fixture"
                            r"|^class Test\w*(?!.*TestCase)|^def (setup|teardown)_", re.MULTILINE)


class Verdict(Exception):
    """A reason, raised where no program and no test is being run."""


@functools.lru_cache(16)
def read_tests(text, prelude, style, entry_point):
    """What whoever runs the tests needs to know of them, for JSON."""
    asserts, prelude, words = Asserts(), complete(prelude), {*re.findall(r"\w+", text)}
    try:
        tree = ast.parse(text, "tests.py")
        is_class = (entry_point or "")[:1].isupper()     # check() calls it by another name, candidate
        asked = asked_by("\n".join([prelude, text, entry_point if is_class else ""]))
        code = compile(asserts.visit(tree), "tests.py", "exec", dont_inherit=True, optimize=0)
        prelude_code = compile(prelude, "prelude.py", "exec", dont_inherit=True, optimize=0)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        raise Verdict(f"error: the tests or the prelude do not parse: {problem}"[:500]) from None
    has_check = any(isinstance(node, ast.FunctionDef) and node.name == "check" for node in tree.body)
    is_check = style == "check" or style == "auto" and entry_point and has_check
    if not asserts.seen:
        raise Verdict("error: the tests have no assert")
    if not (is_check or ask_something(text, prelude, entry_point)):
        raise Verdict("error: the tests ask nothing of the program")
    return {"tests": text, "words": [*words, entry_point], "imports": [*imported(tree)],
            "checked": entry_point if is_check else None, "need_pytest": bool(MORE_OF_PYTEST.search(text)),
            "entry_point": entry_point, "tests_code": as_text(code), "prelude_code": as_text(prelude_code),
            "asked": [sorted(names) for names in asked]}


def as_text(code):
    return marshal.dumps(code).decode("latin-1")


def from_text(text):
    return marshal.loads(text.encode("latin-1"))


def complete(prelude):
    """A prelude may end inside a function: the head that a completion continues."""
    try:
        compile(prelude, "prelude.py", "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
        return prelude
    except SyntaxError:
        return prelude + "\n    pass\n"


def imported(tree):
    """The first part of the name of each module that is imported somewhere."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = [getattr(node, "module", None) or alias.name for node in nodes for alias in node.names]
    return {name.partition(".")[0] for name in names} - OURS


def ask_something(tests, prelude, entry_point):
    """Whether tests use a name that neither they, the prelude nor Python define, or say `solution`."""
    found = symbols_of(tests)
    used = {name for name, symbol, table in found if symbol.is_referenced() and (
            symbol.is_global() or table.get_type() == "module")}
    own = {name for name, symbol, table in found + symbols_of(prelude) if table.get_type() == "module" and (
           symbol.is_assigned() or symbol.is_imported())}
    own -= {alias.asname or alias.name for node in ast.walk(ast.parse(tests))
            if getattr(node, "module", "") == "solution" for alias in node.names} | {entry_point}
    return used - own - vars(builtins).keys() or re.search(r"^(?! *(from|import) ).*\bsolution\b", tests, re.M)


class Asserts(ast.NodeTransformer):
    """Count the checks that run: asserts, calls of assert..., raises, warns and fail, and ifs that raise."""
    ran = seen = 0
    swallowed = False

    @classmethod
    def count(cls, value):
        cls.ran += 1
        return value

    @classmethod
    def check(cls, value):
        """An assert that fails while the program runs, in a function it was handed, is not for it to catch."""
        is_true, frame = bool(cls.count(value)), sys._getframe()
        while frame and not is_true and not cls.swallowed:
            cls.swallowed = frame.f_code.co_filename == "solution.py"
            frame = frame.f_back
        return is_true

    def wrap(self, node, function):
        self.seen += 1
        name = ast.copy_location(ast.Name(function, ast.Load()), node)
        return ast.copy_location(ast.Call(name, [node], []), node)

    def generic_visit(self, node):
        super().generic_visit(node)
        if isinstance(node, ast.Assert):
            node.test = self.wrap(node.test, "__check__")
        if isinstance(node, ast.If) and any(isinstance(inner, ast.Raise) for inner in node.body):
            node.test = self.wrap(node.test, "__count__")
        called = getattr(node, "func", None)
        name = str(getattr(called, "attr", getattr(called, "id", "")))
        is_check = name.startswith("assert") or name in ("raises", "warns", "fail")
        return self.wrap(node, "__count__") if is_check else node


# ------------------------------------------------------------------------------------- G and F: the servers

cage = proc_fd = None                             # of this server and its forks; /proc, for a root without


def guard(fd, disabled):
    """G: the parent of all orphans below; start F, wait until it or the caller is gone, kill all."""
    global cage
    cage, control, poller = Cage(set(disabled)), socket.socket(fileno=fd), select.poll()
    libc("prctl", SUBREAPER, 1)
    cage.guard = os.pidfd_open(os.getpid())
    poller.register(control, 0)                   # only its end, what it says is for F
    try:
        if server := os.fork():
            poller.register(os.pidfd_open(server), select.POLLIN)
            poller.poll()
        else:
            serve(control)
    except Exception:
        traceback.print_exc()
    finally:
        while end_tree(os.getpid()):
            time.sleep(0.001)
        if not cage.private:
            with contextlib.suppress(OSError):
                cage.empty_scratch()
                os.rmdir(cage.scratch)
        os._exit(0)


def serve(control):
    """F: fork the processes of one job after the other. It never reads a program, a test or a verdict, for
    whatever it has in memory, its forks have, too."""
    try:
        cage.enter()
        cage.probe()
        send(control, cage.hello())
        while (job_and_files := receive(control)) is not None:
            job, fds = job_and_files
            preload(job["preload"])
            send(control, run_job(job, fds, control))
    except LayerFailed as failure:
        send(control, {"failed": failure.args})
    except ConnectionError:                       # the caller or the guard is gone
        pass


def preload(libraries):
    """Import what jobs use once, before the fork."""
    missing = [name for name in libraries if name not in sys.modules and importlib.util.find_spec(name)]
    if missing:
        for name in missing:
            importlib.import_module(name)
        cage.settle()


def run_job(job, fds, control):
    """Fork who runs the job, watch them; then nothing of the job is left."""
    started = time.monotonic()
    try:
        pids = start_job(job, fds)                # the first has the tests, and is waited for
    except (OSError, LayerFailed) as problem:
        end_tree(os.getpid())
        told = {"ended": ("error: no process could be started", str(problem))}
    else:
        fds.append(os.pidfd_open(pids[0]))
        ended, cpu, memory = watch(job, fds[-1], control)
        for pid in pids:
            kill(pid)                             # one that is ending by itself keeps its status
        statuses, used = zip(*[os.wait4(pid, 0)[1:] for pid in pids])
        told = {"ended": ended, "exit": os.waitstatus_to_exitcode(statuses[0]),
                "cpu_s": max(cpu, sum(each.ru_utime + each.ru_stime for each in used)),
                "memory_mb": max(memory, *[each.ru_maxrss * 1024 for each in used]) / 2**20}
    for fd in fds:
        os.close(fd)
    while not cage.private and end_tree(os.getpid()):
        time.sleep(0.001)
    cage.empty_scratch()
    return {**told, "wall_s": time.monotonic() - started}


def start_job(job, fds):
    """The processes of a job; what they get is told where they are."""
    std = [cage.null] * 3
    if job["mode"] == "stdio":
        return [cage.spawn(fds[:4], job, run_script)]
    if job["mode"] == "beside":
        return [cage.spawn(std + fds, job, run_beside)]
    tests, program, answer = fds
    for_judge, for_program = socket.socketpair()
    with for_judge, for_program:
        judge = cage.spawn([*std, tests, answer, for_judge.fileno()], job, run_judge)
        return [judge, cage.spawn([*std, program, for_program.fileno()], job, run_apart)]


def watch(job, awaited, control):
    """(limit reached, seconds of cpu, bytes), once the process that is awaited is done."""
    started, cpu, memory, pause, limit = time.monotonic(), 0, 0, 200, None
    poller = select.poll()
    for fd in (control.fileno(), cage.guard, awaited):
        poller.register(fd, select.POLLIN)
    while not limit:
        ready = {fd for fd, _ in poller.poll(pause)}       # most jobs end before the first look at them
        if ready - {awaited}:
            raise ConnectionError
        if ready:
            break
        pause, wall = 50, time.monotonic() - started
        processes = tree(os.getpid())
        cpu_now, waited, memory_now = usage(processes)
        cpu, memory = max(cpu, cpu_now), max(memory, memory_now)
        times = f"time: {cpu:.1f} s of cpu, {wall:.1f} s of wall time"
        limit = (("timeout", f"cpu {times}") if cpu > job["cpu_s"] else
                 ("memory", f"{memory >> 20} MB in all processes")
                 if memory > TREE_FACTOR * job["memory_mb"] * 2**20 else
                 ("killed", "limit of processes") if len(processes) > 2 * PROCESSES else
                 ("killed", "limit of files") if not cage.private and cage.scratch_is_full() else
                 ("timeout", f"wall {times}") if wall - cpu - waited > job["asleep_s"] else None)
    return limit, cpu, memory


def kill(pid):
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def end_tree(pid):
    """Kill all descendants and reap those that are ours: the one way to kill, used by caller, G and F. Again
    and again, until this finds none: what it kills may have been starting more."""
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


def proc(path, read=lambda fd: os.read(fd, 1 << 16)):
    """The content of a file under /proc, or what else `read` makes of it; empty if there is none."""
    with contextlib.suppress(OSError):
        fd = os.open(path if proc_fd else "/proc/" + path, os.O_RDONLY, dir_fd=proc_fd)
        try:
            return read(fd)
        finally:
            os.close(fd)
    return b""


def usage(pids):
    """(seconds of cpu, seconds in a processor's queue, resident bytes) of these processes."""
    cpu = waited = memory = 0
    for pid in pids:
        if stat := proc(f"{pid}/stat").rpartition(b")")[2].split():
            cpu += sum(map(int, stat[11:15])) / os.sysconf("SC_CLK_TCK")
            memory += max(0, int(stat[21]) * resource.getpagesize() - cage.base_rss)     # shared with F: F's
        for thread in proc(f"{pid}/task", os.listdir):
            waited += int((proc(f"{pid}/task/{thread}/schedstat").split() or [0, 0])[1]) / 1e9
    return cpu, waited, memory

# ------------------------------------------------------------------------------------- running tests
# Functions, asserts, unittest's classes, and of pytest raises, approx and parametrize are run here, as quickly
# as that goes; all that needs more by the real pytest, and without it nobody can judge.


class NeedPytest(BaseException):
    """These tests use more of pytest than is here."""


def run_tests_in(module, job):
    """(reason, detail) of the tests of a job, run in their module, which has the names of the program."""
    code, checked = from_text(job["tests_code"]), job["checked"]
    linecache.cache["tests.py"] = (len(job["tests"]), None, job["tests"].splitlines(True), "tests.py")
    vars(module).update(__check__=Asserts.check, __count__=Asserts.count)
    try:
        if checked and checked not in vars(module):
            raise Verdict(f"failed: the program does not define {checked}")
        try:
            if job["need_pytest"]:
                raise NeedPytest
            run_small(module, code, checked)
        except NeedPytest:
            Asserts.ran = 0
            run_with_pytest(module, code)
    except BaseException as problem:
        return explain(problem)
    if Asserts.swallowed:
        return "failed: the program caught an assert of the tests", ""
    return ("passed" if Asserts.ran else "failed: the tests ran no assert"), ""


def look_for_packages(job):
    for name in job["imports"]:
        if name not in sys.modules and not importlib.util.find_spec(name):
            raise Verdict(f"error: the tests need {name!r}, which is not installed")


def explain(problem, loading=False):
    """(reason, detail) that goes with what the tests raised, or the program while it was loaded."""
    if type(problem) is Verdict:
        return str(problem), ""
    if isinstance(problem, MemoryError):
        return "memory", ""
    told = traceback.format_exception_only(type(problem), problem)[-1].strip()[:300]
    if loading:
        is_syntax = isinstance(problem, SyntaxError)
        return "syntax" if is_syntax else f"failed: {told}, while the program was loaded", told
    frames = traceback.extract_tb(problem.__traceback__)
    lines = [frame.line for frame in frames if frame.filename == "tests.py" and frame.line]
    if not {"tests.py", "solution.py"} & {frame.filename for frame in frames}:
        return f"error: the judge failed: {told}", ""
    if not lines:
        return f"failed: {told}", ""
    if isinstance(problem, AssertionError) and frames[-1].filename == "tests.py":
        return f"failed: {lines[-1]}"[:500], told
    return f"failed: {told}, in: {lines[-1]}"[:500], ""


def run_small(module, code, checked):
    """Run what pytest would collect in the tests: functions test*, unittest's test cases."""
    sys.modules["pytest"] = small_pytest()
    exec(code, vars(module))
    if checked:
        vars(module)["check"](vars(module)[checked])
    own = [thing for thing in list(vars(module).values()) if getattr(thing, "__module__", None) == "tests"]
    functions = [thing for thing in own if type(thing) is types.FunctionType and thing.__name__[:4] == "test"]
    calls = [(function, values) for function in functions for values in getattr(function, "calls", [{}])]
    if any(inspect.signature(function).parameters.keys() != values.keys() for function, values in calls):
        raise NeedPytest                          # for a fixture
    run_test_cases([thing for thing in own if isinstance(thing, type)])
    for function, values in calls:
        result = function(**values)
        if inspect.iscoroutine(result):
            importlib.import_module("asyncio").run(result)


def run_test_cases(classes):
    unittest, errors = sys.modules.get("unittest"), []
    if not unittest:
        return
    result = unittest.TestResult()
    result.addError = result.addFailure = lambda test, problem: errors.append(problem[1])
    result.addSubTest = lambda test, subtest, problem: problem and errors.append(problem[1])
    result.addUnexpectedSuccess = lambda test: errors.append(Verdict(f"failed: {test}: unexpected success"))
    result.addExpectedFailure = lambda test, problem: problem[0] is AssertionError and Asserts.count(None)
    cases = [kind for kind in classes if issubclass(kind, unittest.TestCase)]
    unittest.TestSuite(map(unittest.defaultTestLoader.loadTestsFromTestCase, cases)).run(result)
    if errors:
        raise errors[0]


def run_with_pytest(module, code):
    """The real one; it gets the module as it is: a file is what the program could read or change."""
    sys.modules.pop("pytest", None)                # ours
    if "pytest" in cage.disabled or not importlib.util.find_spec("pytest"):
        raise Verdict("error: the tests need 'pytest', which is not installed")
    pytest, problems = importlib.import_module("pytest"), []
    exec(code, vars(module))

    class Tests(pytest.Module):
        obj = module

    class Plugin:
        def pytest_collection(self, session):
            node = Tests.from_parent(session, path=importlib.import_module("pathlib").Path(os.devnull))
            session.items[:] = session.genitems(node)
            session.testscollected = len(session.items)
            return True

        def pytest_pyfunc_call(self, pyfuncitem):
            if inspect.iscoroutinefunction(test := pyfuncitem.obj):
                values = {name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}
                importlib.import_module("asyncio").run(test(**values))
                return True

        def pytest_exception_interact(self, call):
            problems.append(call.excinfo.value)

    options = "-q -s --noconftest --assert=plain -p no:cacheprovider -p no:faulthandler"
    ended = pytest.main([*options.split(), "-c", os.devnull, "--rootdir", os.getcwd()], plugins=[Plugin()])
    if problems or ended:
        raise problems[0] if problems else AssertionError(f"pytest ends with {ended!r}")


# What tests get for `import pytest` first.

def small_pytest():
    pytest = types.ModuleType("pytest")
    vars(pytest).update(raises=raises, approx=Approx, mark=types.SimpleNamespace(parametrize=parametrize),
                        __getattr__=need_pytest)
    return pytest


def need_pytest(name):
    raise AttributeError(name) if name.startswith("__") else NeedPytest


def parametrize(argnames, argvalues, ids=None, **more):
    """The arguments of each call, for `run_small`."""
    rows, names = list(argvalues), argnames
    if isinstance(argnames, str):
        names = [name.strip() for name in argnames.split(",") if name.strip()]
        rows = [[row] for row in rows] if len(names) == 1 else rows

    def decorate(function):
        if more or isinstance(function, type):
            raise NeedPytest
        calls = getattr(function, "calls", [{}])
        function.calls = [{**call, **dict(zip(names, row))} for row in rows for call in calls]
        return function
    return decorate


class raises:
    """As a context manager, or called with a function."""

    def __init__(self, expected, function=None, *args, match="", **kwargs):
        self.expected, self.pattern, self.type, self.value = expected, match or "", None, None
        if function is not None:
            with self:
                function(*args, **kwargs)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, _):
        assert kind, f"did not raise {self.expected}"
        self.type, self.value = kind, value
        return issubclass(kind, self.expected) and self.match(self.pattern)

    def match(self, pattern):
        assert re.search(pattern, str(self.value)), f"{str(self.value)!r} does not match {pattern!r}"
        return True

    def __getattr__(self, name):
        return need_pytest(name)


class Approx:
    """Numbers, and lists, tuples or dictionaries of them, to within 1e-6 of what is expected, or 1e-12."""
    __array_ufunc__ = __hash__ = None

    def __init__(self, expected, rel=None, abs=None, nan_ok=False):
        if nan_ok:
            raise NeedPytest
        self.expected, self.absolute = expected, 1e-12 if abs is None else abs
        self.relative = rel or (1e-6 if rel is None and abs is None else 0)

    def __eq__(self, actual):
        return self.is_near(actual, self.expected)

    def is_near(self, actual, expected):
        if isinstance(expected, dict):
            return (isinstance(actual, dict) and actual.keys() == expected.keys()
                    and all(self.is_near(actual[key], expected[key]) for key in expected))
        if isinstance(expected, (list, tuple)):
            is_sequence = hasattr(actual, "__len__") and not isinstance(actual, (str, bytes, dict, set))
            return (is_sequence and len(actual) == len(expected)
                    and all(map(self.is_near, actual, expected)))
        if expected is None or isinstance(expected, (str, bool)):
            return actual == expected
        if type(expected) not in (int, float, complex) or hasattr(actual, "__len__"):
            raise NeedPytest
        if isinstance(actual, Decimal):
            actual = float(actual)
        if not isinstance(actual, numbers.Complex) or actual == expected:
            return bool(actual == expected)
        within = max(self.absolute, self.relative * abs(expected))
        return bool(abs(actual - expected) <= within < float("inf"))


# ------------------------------------------------------------------------------------- the program's process
# What a process gets besides the three descriptors of every program: 3, the job, a file. Who runs the tests
# answers the caller through 4; judge and program apart talk through 5 and 4.

def read_job():
    return json.loads(read_file(open(3, "rb", buffering=0)))


def tell(answer):
    socket.socket(fileno=4).send(as_bytes(answer))
    os._exit(0)                                   # whatever threads there are


def run_beside():
    """The program and its tests in this process; if asked to, only of an innocent program."""
    job = read_job()
    try:
        look_for_packages(job)
        compiled = compile_program(job["code"])
        why = why_suspect(job["code"], map(set, job["asked"])) if job["only_innocent"] else None
        answer = ("suspect", why) if why else run_both(job, compiled)
    except BaseException as problem:
        answer = explain(problem, loading=True)
    tell(answer)


def run_both(job, compiled):
    """(reason, detail) of tests in the same process as the program."""
    module, words = new_module("solution", "__main__"), set(job["words"])
    if words & {"py", "reload", "subprocess", "runpy"}:
        with open("solution.py", "w", encoding="utf-8", errors="surrogatepass") as copy:
            copy.write(job["code"])
        sys.path.insert(0, os.getcwd())
    prelude = load_program(job, module, compiled)
    space = new_module("tests")
    for name, value in vars(module).items():
        if name in words and name[:2] != "__":
            vars(space)[name] = value
    for name, value in prelude.items():           # models like to write down the prompt's classes once more
        if not (isinstance(value, type) and isinstance(vars(module).get(name), type)):
            vars(space)[name] = value
    return run_tests_in(space, job)


def new_module(*names):
    module = types.ModuleType(names[0])
    module.__file__ = names[0] + ".py"
    sys.modules.update(dict.fromkeys(names, module))
    return module


def compile_program(code):
    linecache.cache["solution.py"] = (len(code), None, code.splitlines(True), "solution.py")
    return compile(encode(code), "solution.py", "exec", dont_inherit=True)


def load_program(job, module, compiled):
    """Run the prelude and the program in their module; what the prelude has for the tests."""
    names = run_prelude(job, module)
    exec(compiled, vars(module))
    if job["fn_name"] and hasattr(module, "Solution"):
        setattr(module, job["fn_name"], getattr(module.Solution(), job["fn_name"]))
    return names


def run_prelude(job, module):
    """The names that it defines; its own function under test is a stub."""
    before = set(vars(module))
    exec(from_text(job["prelude_code"]), vars(module))
    vars(module).pop(job["entry_point"], None)
    return {name: value for name, value in vars(module).items() if name not in before}


def run_script():
    """A stdio job: 0, 1 and 2 are files, 3 holds the program; end as a script does."""
    how = {"encoding": "utf-8", "errors": "surrogateescape", "closefd": False}
    sys.stdin, sys.stdout, sys.stderr = [open(fd, "w" if fd else "r", **how) for fd in range(3)]
    code, status = read_job(), 0
    for step in (lambda: exec(compile_program(code), vars(new_module("__main__"))), threading._shutdown,
                 atexit._run_exitfuncs, lambda: sys.stdout.flush(), lambda: sys.stderr.flush()):
        try:
            step()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        except BaseException as problem:
            sys.stderr.write("".join(traceback.format_exception_only(type(problem), problem)))
            status = 1
    os._exit(status & 255)


def run_apart():
    """Tell the judge which names the program has, then call what it asks for, until it ends the connection."""
    job, channel, module = read_job(), Channel(4), new_module("solution", "__main__")
    try:
        load_program(job, module, compile_program(job["code"]))
        channel.send({name: value for name, value in vars(module).items() if is_plain(value)},
                     [name for name, value in vars(module).items()
                      if callable(value) or isinstance(value, types.ModuleType)])
    except BaseException as problem:
        channel.send(None, explain(problem, loading=True)[0])
    while True:
        name, args, kwargs = channel.receive()
        things = containers((args, kwargs))
        try:
            outcome, value = "returned", vars(module)[name](*args, **kwargs)
        except BaseException as problem:
            outcome, value = "raised", by_builtin_name(problem)
        try:
            channel.send(outcome, value, [thing.copy() for thing in things], known=things)
        except (NotPlain, RecursionError) as problem:
            channel.send("not plain", str(problem), [])


def by_builtin_name(problem):
    """(name, arguments) of an exception, as the nearest builtin class that it is one of."""
    kind = next(kind for kind in type(problem).__mro__ if kind.__module__ == "builtins")
    has_its_own = kind is type(problem) and is_plain(problem.args)
    return kind.__name__, problem.args if has_its_own else (str(problem),)


# ------------------------------------------------------------------------------------- the judge apart

ODD = "StopIteration", "StopAsyncIteration", "GeneratorExit", "KeyboardInterrupt"


class Gone(BaseException):
    """The program has ended, broke the rules, or plain data does not do: nothing for the tests to catch."""


def run_judge():
    """The tests in this process, with functions in place of the program's that ask it."""
    job, program = read_job(), Program(Channel(5))
    try:
        look_for_packages(job)
        program.load()
        answer = run_tests_in(test_module(job, program.names), job)
    except BaseException as problem:
        answer = explain(problem)
    tell(("failed: " + program.gone, "") if program.gone else answer)          # also if the tests caught it


def test_module(job, offered):
    """The tests' module, with the names of the program that they use, and of the prelude."""
    space, entry_point = new_module("tests"), job["entry_point"]
    vars(new_module("solution")).update(offered, __all__=[])   # the tests have all that they use
    for name in offered.keys() & set(job["words"]):
        known = known_to_all(name)
        vars(space)[name] = offered[name] if known is None else known
    run_prelude(job, space)
    if entry_point in offered:
        vars(space)[entry_point] = offered[entry_point]
    return space


def known_to_all(name):
    """A module, something of typing or a builtin that tests mean by a name, whatever it is in the program."""
    module = {"np": "numpy"}.get(name, name)
    if module in LIBRARY or module == "numpy":
        return importlib.import_module(module)
    return getattr(typing, name) if name in typing.__all__ else vars(builtins).get(name)


class Program:
    """The judge's view of the program in the other process; what that says is checked."""

    def __init__(self, channel):
        self.channel, self.lock, self.names, self.gone = channel, threading.Lock(), {}, ""

    def give_up(self, why):
        self.gone = self.gone or why
        raise Gone(why)

    def load(self):
        """Ask which names there are."""
        values, called = self.receive(2)
        if values is None:
            self.give_up(f"the program could not be loaded: {called}")
        functions = {str(name): functools.partial(self.call, name) for name in called}
        self.names = {name: value for name, value in {**values, **functions}.items() if name[:2] != "__"}

    def receive(self, length, known=()):
        try:
            message = self.channel.receive(known)
        except (OSError, struct.error):
            self.give_up("the program ended before it answered")
        except Exception:                         # whatever it sent: only it could have made it so
            self.give_up("the program's answer is malformed")
        if type(message) is not tuple or len(message) != length:
            self.give_up("the program sent no answer")
        return message

    def call(self, name, *args, **kwargs):
        with self.lock:
            things = containers((args, kwargs))
            try:
                self.channel.send(name, args, kwargs)
            except (NotPlain, RecursionError) as problem:
                self.give_up(f"the tests hand over what is no plain data: {problem}")
            except OSError:
                self.give_up("the program ended before it was called")
            outcome, value, held = self.receive(3, things)
            if outcome == "not plain":
                self.give_up(f"the program gives what is no plain data: {value}")
            try:
                for thing, items in zip(things, held):
                    fill(thing, items)
                problem = make_exception(*value) if outcome == "raised" else None
            except Exception:
                self.give_up("the program's answer is malformed")
            if problem is not None:
                raise problem
            return value


def make_exception(name, args):
    """Some mean something where they arrive: they would end a loop of the tests."""
    kind = vars(builtins)[name]
    if name in ODD or not issubclass(kind, BaseException):
        return RuntimeError(f"the program raised {name}")
    return kind(*args)


# ------------------------------------------------------------------------------------- plain data
# Between the two goes a pickle with its length in front. The writer refuses what is no plain data; the reader,
# written in Python, knows only the operations that make such data. Containers of the arguments that the call
# can change are counted on both sides; the answer names those it holds by number, and tells what is in them.

FLAT = {type(None), bool, int, float, str, bytes}
PLAIN = FLAT | {complex, list, tuple, dict, set, frozenset}
OPERATIONS = """PROTO FRAME STOP NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 LONG4 BINFLOAT MARK
    SHORT_BINUNICODE BINUNICODE BINUNICODE8 SHORT_BINBYTES BINBYTES BINBYTES8 EMPTY_LIST APPEND APPENDS TUPLE
    EMPTY_TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_DICT SETITEM SETITEMS EMPTY_SET ADDITEMS FROZENSET MEMOIZE BINGET
    LONG_BINGET BINPERSID""".split()


class NotPlain(Exception):
    """The name of a type that does not cross."""


class Writer(pickle.Pickler):
    def persistent_id(self, value):
        """How to write what a pickle would make by a call, or what the other side has."""
        if type(value) in FLAT:
            return None
        if id(value) in self.numbers:
            return "known", self.numbers[id(value)]
        if type(value) is complex:
            return "complex", value.real, value.imag
        if is_array(value, or_scalar=True):
            return "array" if is_array(value) else "scalar", value.dtype.str, value.shape, value.tobytes()
        if type(value) not in PLAIN:
            raise NotPlain(type(value).__name__)


class Reader(pickle._Unpickler):
    dispatch = {getattr(pickle, name)[0]: pickle._Unpickler.dispatch[getattr(pickle, name)[0]]
                for name in OPERATIONS}

    def persistent_load(self, what):
        kind, *parts = what
        if kind == "known":
            return self.known[parts[0]]
        if kind == "complex":
            return complex(*parts)
        array = make_array(*parts)
        return array if kind == "array" else array[()]


class Channel:
    """One end of the connection between program and judge."""

    def __init__(self, descriptor):
        self.socket = socket.socket(fileno=descriptor)
        self.incoming = self.socket.makefile("rb")

    def send(self, *message, known=()):
        data = dump(message, known)
        if len(data) > FRAME_LIMIT:
            raise NotPlain("more than may cross at once")
        self.socket.sendall(struct.pack("<Q", len(data)) + data)

    def receive(self, known=()):
        """What comes; struct.error if nothing does any more."""
        size, = struct.unpack("<Q", self.incoming.read(8))
        reader = Reader(io.BytesIO(self.incoming.read(min(size, FRAME_LIMIT))))
        reader.known = known
        return reader.load()


def dump(value, known=()):
    file = io.BytesIO()
    writer = Writer(file, 4)
    writer.numbers = {id(thing): number for number, thing in enumerate(known)}
    writer.dump(value)
    return file.getvalue()


def is_plain(value):
    try:
        return bool(dump(value))
    except (NotPlain, RecursionError):
        return False


def containers(value):
    """The containers in it that a call can change, in an order that is the same on both sides."""
    found, left = {}, [value]
    while left:
        value = left.pop()
        if type(value) in (list, tuple, dict, set) or is_array(value):
            if id(value) not in found and type(value) in (list, tuple, dict):
                left += value.values() if type(value) is dict else value
            found[id(value)] = value
    return [thing for thing in found.values() if type(thing) is not tuple]


def fill(thing, items):
    """Make a container hold what its copy on the other side does."""
    if type(thing) is list:
        thing[:] = items
    elif is_array(thing):
        thing[...] = items
    else:
        thing.clear()
        thing.update(items)


def is_array(value, or_scalar=False):
    """Of numpy, and of numbers, truth values, texts or times."""
    numpy = sys.modules.get("numpy")
    is_numpys = numpy and (type(value) is numpy.ndarray or or_scalar and isinstance(value, numpy.generic))
    return bool(is_numpys) and value.dtype.kind in "biufcUmM"


def make_array(kind, shape, data):
    """Integers so large that a difference of them may overflow, which makes it small, are refused."""
    if not re.fullmatch(r"[<>|=]([biufcU]\d+|[mM]8\[\w+\])", kind):
        raise ValueError(kind)
    array = importlib.import_module("numpy").frombuffer(data, kind).reshape(shape).copy()
    if array.dtype.kind == "i" and array.size:
        bits = max(-int(array.min()), int(array.max())).bit_length()
        if bits > 8 * array.itemsize - 2:
            raise OverflowError
    return array


# ------------------------------------------------------------------------------------- the rule

# What a program may use of which modules; without a list, all public names. None of it runs text, reads
# files, ends or skips a test, or changes what the tests share with the program.
LIBRARY = dict(part.partition(": ")[::2] for part in """__future__; array; bisect; cmath; collections
collections.abc; csv; difflib; fractions; graphlib; hashlib; heapq; itertools; math; numbers
pprint; queue; re; secrets; statistics; struct; textwrap; time; typing; unicodedata
ipaddress: ip_address ip_interface ip_network; uuid: NAMESPACE_DNS NAMESPACE_URL UUID uuid3 uuid4 uuid5
abc: ABC abstractmethod; copy: copy deepcopy; http: HTTPStatus; io: BytesIO StringIO; os: path
asyncio: Event Lock Queue Semaphore TimeoutError create_task gather iscoroutinefunction run sleep wait_for
base64: b16decode b16encode b64decode b64encode; calendar: isleap leapdays monthrange weekday
contextlib: closing nullcontext; warnings: warn
dataclasses: asdict astuple dataclass field fields is_dataclass replace
datetime: date datetime time timedelta timezone tzinfo; enum: Enum Flag IntEnum IntFlag auto unique
decimal: Decimal InvalidOperation ROUND_CEILING ROUND_DOWN ROUND_FLOOR ROUND_HALF_EVEN ROUND_HALF_UP ROUND_UP
functools: cache cached_property cmp_to_key lru_cache partial reduce total_ordering wraps
json: JSONDecodeError JSONEncoder dump dumps load loads
logging: DEBUG ERROR INFO Logger WARNING critical debug error exception getLogger info warning
operator: add and_ eq floordiv ge gt itemgetter le lt mod mul ne neg not_ or_ pow sub truediv xor
os.path: basename dirname exists isabs isdir isfile join normpath sep split splitext
random: Random choice choices gauss randint random randrange sample shuffle uniform
string: ascii_letters ascii_lowercase ascii_uppercase capwords digits hexdigits punctuation whitespace
sys: getrecursionlimit getsizeof maxsize setrecursionlimit stderr stdin stdout version_info
threading: Condition Event Lock RLock Semaphore Thread Timer local""".replace("; ", "\n").splitlines())
# What no program says: ways to frames, to attributes by their text, to text that runs; hooks of test runners.
HIDDEN = """ABCMeta ForwardRef ag_frame cr_frame format_map get_stack get_type_hints gi_frame load_tests
    pytest_plugins pytestmark setUpModule setup_function setup_module stdlib_re tb_frame""".split()
# Builtins that a program may say; the others reach names, files or the program's end.
ERRORS = {name for name, kind in vars(builtins).items() if type(kind) is type and issubclass(kind, Exception)}
BUILTINS = ERRORS.union("""__name__ abs all any ascii bin bool bytearray bytes callable chr classmethod
    complex dict divmod enumerate filter float format frozenset hasattr hash hex id input int isinstance
    issubclass iter len list map max memoryview min next object oct ord pow print property range repr reversed
    round set slice sorted staticmethod str sum super tuple type zip Ellipsis NotImplemented""".split())
# What a class that the tests do not name derives from, besides one exception or class of the program.
BASES = "ABC Enum Flag Generic IntEnum IntFlag NamedTuple Protocol TypedDict object".split()
# Special methods of such a class, and special names that any program may read.
METHODS = ["__init__", "__post_init__", "__repr__", "__str__", "__hash__", "__call__"]
READABLE = [*METHODS, "__doc__", "__eq__", "__getitem__", "__len__", "__lt__", "__name__", "__new__"]
is_special = re.compile(r"__\w+__").fullmatch


def why_suspect(code, asked):
    """None if the syntax tree shows no way to reach the tests or lie to them, else a reason in words."""
    source = code if isinstance(code, bytes) else code.encode(errors="surrogatepass")
    try:
        tree = ast.parse(source, feature_version=(3, 9))    # newer syntax is not known
        looks = look_at_program(tree, symbols_of(source), *asked)
        return next((f"{why} {what}" for what, look in looks for why, holds in look.items() if holds), None)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "does not parse"


def symbols_of(source):
    """(name, what a scope does with it, the scope) for all names of all scopes."""
    tables = [symtable.symtable(source, "text", "exec")]
    for table in tables:
        tables += table.get_children()
    return [(symbol.get_name(), symbol, table) for table in tables for symbol in table.get_symbols()]


def asked_by(tests):
    """The names in tests, the methods that they call, and the classes of the program that they name."""
    nodes, symbols = list(ast.walk(ast.parse(tests))), symbols_of(tests)
    own = {name for name, symbol, _ in symbols if symbol.is_assigned() or symbol.is_imported()}
    given = {alias.name for node in nodes if getattr(node, "module", 0) == "solution" for alias in node.names}
    asked = {name for name, _, _ in symbols} | given
    tested = {name for name in asked - own | given if name[0].isupper() and not hasattr(builtins, name)}
    return asked, {getattr(node.func, "attr", "") for node in nodes if isinstance(node, ast.Call)}, tested


def is_offered(path):
    """Whether a program may use `module.name`, which must not be a module that the module has imported."""
    module, _, name = path.rpartition(".")
    is_public = name[0] != "_" and (name == module or name not in sys.stdlib_module_names)
    listed = LIBRARY.get(module, "-").split()
    return path in LIBRARY or name in listed or is_public and not listed


def look_at_program(tree, symbols, asked, called, tested):
    """(a name, {what is wrong with it: whether it is}) for all that a program says."""
    said = {name for name, symbol, table in symbols
            if symbol.is_referenced() and (symbol.is_global() or table.get_type() != "function")}
    classes = {table.get_name() for _, _, table in symbols if table.get_type() == "class"}
    tested = tested & classes
    for name, symbol, table in symbols:
        is_builtin, is_read = hasattr(builtins, name), name in called or hasattr(1, name) or is_special(name)
        is_set = symbol.is_assigned() or symbol.is_annotated() or is_builtin and symbol.is_imported()
        is_method = name in METHODS and symbol.is_namespace() or name == "__slots__"
        in_class = table.get_type() == "class" and table.get_name() not in tested
        yield name, {
            "is asked for all names by": "*" in asked,
            "names": name in HIDDEN or name in said - BUILTINS and (is_builtin or is_special(name)),
            "hides": is_set and symbol.is_global() and (
                name == "__name__" or name in asked and (is_builtin or name in LIBRARY)),
            "defines, in a class that the tests do not name,": (
                in_class and is_set and is_read and not is_method)}
    tree.body = [node for node in tree.body if not isinstance(node, ast.If) or node.orelse
                 or ast.unparse(node.test) != "__name__ == '__main__'"]
    nodes, known = [tree], {}
    for node in nodes:
        for child in ast.iter_child_nodes(node):
            child.parent = node
            nodes.append(child)
        if isinstance(node, ast.alias):
            module, first = getattr(node.parent, "module", ""), node.name.partition(".")[0]
            path = f"{module}.{node.name}" if module else node.name if node.asname else first
            name = node.asname or path.rpartition(".")[2]
            yield path, {
                "imports": not is_offered(path),
                "renames": node.asname and (module or name in LIBRARY),
                "imports a second": name != "*" and known.get(name, path) != path,
                "hides pow by": path == "math.*" and "pow" in asked}
            known[name] = path
    for node in reversed(nodes):
        node.path = known.get(getattr(node, "id", ""), "")
        if isinstance(node, (ast.Name, ast.Attribute)):
            yield from look_at_use(node, said, asked, called, tested)
        elif isinstance(node, ast.ClassDef):
            yield node.name, look_at_class(node, classes, tested)


def look_at_use(node, said, asked, called, tested):
    """A name, or an attribute of something."""
    name = word = getattr(node, "id", "")
    call = node.parent if getattr(node.parent, "func", None) is node else None
    args, user = (call.args, call.parent) if call else ([], None)
    if isinstance(node, ast.Attribute):
        name, base, text = node.attr, node.value.path, getattr(node.value, "value", None)
        node.path = f"{base}.{name}" if base in LIBRARY else ""
        is_set = not isinstance(node.ctx, ast.Load)
        is_own = getattr(node.value, "id", "") in ("self", "cls")
        is_method = name in called and not tested or not is_own and (hasattr(1, name) or name[0] == "_")
        yield name, {
            "names": name in HIDDEN or is_special(name) and (is_set or name not in READABLE),
            "uses": node.path and not is_offered(node.path),
            "changes": is_set and (base or is_method) or base and (name[0] == "_" or name == "register"),
            "formats a text by": name == "format" and (
                not isinstance(text, str) or re.search(r"\{[^{}:!]*[.\[]", text))}
    is_named = isinstance(user, (ast.Compare, ast.FormattedValue)) or getattr(user, "attr", "") == "__name__"
    is_end = word in said and (word == "StopIteration" or word == "next" and len(args) != 2)
    yield name, {
        "hands on": node.path in LIBRARY and not isinstance(node.parent, ast.Attribute),
        "makes or looks into a class by": word == "type" in said and not is_named or name in BASES and args,
        "gives a method of the tests to": name == "namedtuple" and (
            not call or called & set(re.findall(r"\w+", ast.unparse(call)))),
        "does not decorate with": name == "wraps" and not isinstance(user, ast.FunctionDef),
        "compares less by": name == "field" and call and "compare" in {arg.arg for arg in call.keywords},
        "ends an iteration of the tests by": is_end and asked & {"map", "filter", "iter", "itertools"}}


def look_at_class(node, classes, tested):
    roots = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
    names = {getattr(root, "id", getattr(root, "attr", "")) for root in roots}.difference(BASES)
    return {
        "makes in an odd way": node.keywords or is_special(node.name),
        "derives from data or several classes": node.name not in tested and (
            names - ERRORS - classes or len(names) > 1)}


# ------------------------------------------------------------------------------------- the layers

LIBC = ctypes.PyDLL(None, use_errno=True)
NEWNS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 0x1000, 0x4000, 0x40000
PDEATHSIG, DUMPABLE, SUBREAPER, NO_NEW_PRIVS = 1, 4, 36, 38        # prctl
X86 = os.uname().machine == "x86_64"
DEVICES = [f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom")]
CLONE, PRLIMIT, SECCOMP, CAPSET, PIVOT_ROOT = (56, 302, 317, 126, 155) if X86 else (220, 261, 277, 91, 41)
MOUNT_SETATTR, CREATE_RULESET, ADD_RULE, RESTRICT_SELF, CLOSE_RANGE = 442, 444, 445, 446, 436
NEW_ANYTHING, NEWER, OWN_PID = 0x7E020000, 424, 0x7ABCDEF1          # the last: to be replaced in the filter

# System calls by name and by number on x86-64 | on aarch64. What needs a capability is not among them, for no
# program has one. Of NEWER kernels there is one (posix_spawn would look into /proc): libraries then take
# another way. Refused:
REFUSED = """
  ptrace, syslog, process_vm_*, kcmp, setns, unshare   101 103 310-312 308 272 | 116-117 270-272 268 97
  socket, *_key, keyctl, ioprio_set, sched_set*        41 248-251 142 144 314 | 198 217-219 30 118-119 274
  shm*, sem*, msg*, mq_*, memfd_create: lasting pages  29-31 64-71 220 240-241 319 | 186-197 180-181 279
  setxattr, removexattr, and for links and descriptors 188-190 197-199 | 5-7 14-16
  bpf, perf_event_open, userfaultfd                    321 298 323 | 280 241 282"""
# Pretended to succeed: without a private root Landlock does not rule over these, and copying needs them
PRETENDED = "  chmod, chown, utime and their kin  90 268 92 94 260 132 235 261 280 | 53 54 88"
TRUNCATE, SETPRIORITY = "  76 | 45", "  141 | 140"     # the second is pretended always
KILLS = "  kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo  62 200 234 129 297 | 129-131 138 240"


def call_numbers(table):
    """[(first, last)...] of this machine's calls in a table."""
    sides = [re.findall(r"\b(\d+)-?(\d*)", line.rpartition("  ")[2].split("|")[not X86])
             for line in table.strip().splitlines()]
    return [(int(first), int(last or first)) for side in sides for first, last in side]


class LayerFailed(Exception):
    """(layer, why)"""


def libc(name, *args):
    """Call a function of the C library, or a system call by its number."""
    function, args = (LIBC.syscall, (name, *args)) if isinstance(name, int) else (getattr(LIBC, name), args)
    result = function(*(ctypes.c_long(arg) if isinstance(arg, int) else
                        arg.encode() if isinstance(arg, str) else arg for arg in args))
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")
    return result


class Cage:
    """What the fork server enters once, and what each of its forks is put into."""

    def __init__(self, disabled):
        self.disabled, self.is_root = disabled, os.getuid() == 0
        self.on = set(LAYERS) - disabled
        self.private = self.has_own_user = "namespaces" in self.on
        self.ruleset, self.abi = None, 0
        self.scratch = "/job" if self.private else tempfile.mkdtemp(prefix="sandbox-")
        self.folder = None if self.private else os.open(self.scratch, os.O_RDONLY)

    def enter(self):
        global proc_fd
        set_limit(resource.RLIMIT_STACK, STACK_MB << 20, soft=True)
        set_limit(resource.RLIMIT_NOFILE, OPEN_FILES)
        proc_fd, self.null = os.open("/proc", os.O_RDONLY), os.open("/dev/null", os.O_RDWR)
        while self.null < 10:                       # so that those of a job lie above what its processes get
            self.null = os.open("/dev/null", os.O_RDWR)
        libc("prctl", SUBREAPER, 1)
        self.try_layer("namespaces", self.enter_namespaces)
        if self.is_root and not self.private:
            self.drop_uid()
        os.environ.update(HOME=self.scratch, TMPDIR=self.scratch)
        tempfile.tempdir = None
        os.chdir(self.scratch)
        if self.private:
            self.folder = os.open(self.scratch, os.O_RDONLY)
        elif "landlock" in self.on:
            replace_semaphores()
        libc("prctl", NO_NEW_PRIVS, 1, 0, 0, 0)
        libc("prctl", DUMPABLE, 0)
        self.try_layer("landlock", self.make_ruleset)
        self.filter = self.make_filter()
        why_suspect("def f(x):\n    return x", asked_by("assert f(3) == 9"))      # what runs once is warm in forks
        self.settle()

    def try_layer(self, layer, function, *args):
        if layer in self.on:
            try:
                return function(*args)
            except OSError as problem:
                raise LayerFailed(layer, str(problem)) from None

    def enter_namespaces(self):
        """An ordinary user needs the user namespace first; root makes the others, becomes one, then it."""
        others = NEWNS | NEWNET | NEWIPC
        if self.is_root:
            libc("unshare", others)
            self.make_root()
            self.drop_uid()
        uid, gid = os.getuid(), os.getgid()
        libc("unshare", NEWUSER if self.is_root else NEWUSER | others)
        maps = {"setgroups": "deny", "uid_map": f"{uid} {uid} 1", "gid_map": f"{gid} {gid} 1"}
        for name, text in maps.items():
            fd = os.open(f"self/{name}", os.O_WRONLY, dir_fd=proc_fd)
            os.write(fd, text.encode())
            os.close(fd)
        if not self.is_root:
            self.make_root()

    def drop_uid(self):
        """From root to a user of this server's own: uid 0 is above RLIMIT_NPROC and file modes."""
        uid = 61000 + os.getpid() % 4000
        needed = [] if self.private else [os.__file__, self.scratch]
        above = [path[:n] for path in needed for n, letter in enumerate(path) if letter == "/" and n]
        if not all(os.stat(folder).st_mode & 1 for folder in above):
            return                                  # only root may read this Python, or enter TMPDIR
        self.has_own_user = True
        os.chown(self.scratch, uid, uid)
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        libc("prctl", DUMPABLE, 1, 0, 0, 0)         # else it may not write its uid_map

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
            if not os.path.exists(real):            # else inside one that is there
                os.makedirs(real if os.path.isdir("/old" + real) else os.path.dirname(real), exist_ok=True)
                if not os.path.isdir(real):
                    open(real, "w").close()
                libc("mount", "/old" + real, real, None, MS_BIND | MS_REC, None)
        os.mkdir(self.scratch)
        for path, real in [*views, ("/tmp", self.scratch), ("/dev/shm", self.scratch)]:
            if not os.path.lexists(path):
                os.makedirs(os.path.dirname(path), exist_ok=True)
                os.symlink(real, path)
        libc("umount2", "/old", 2)                 # MNT_DETACH
        os.rmdir("/old")
        read_only = struct.pack("<4Q", 1 | MS_NOSUID, 0, 0, 0)
        libc(MOUNT_SETATTR, -100, "/", 0x8000, read_only, len(read_only))         # recursive
        options = f"size={SCRATCH_MB}m,nr_inodes={SCRATCH_FILES},mode=1777"
        libc("mount", "tmpfs", self.scratch, "tmpfs", MS_NOSUID | MS_NODEV, options)

    def make_ruleset(self):
        """Landlock: read what is readable, write in the scratch folder, no TCP, no signals to others."""
        self.abi = libc(CREATE_RULESET, None, 0, 1)
        rights = (1 << (16 if self.abi >= 5 else 15 if self.abi >= 3 else 14 if self.abi >= 2 else 13)) - 1
        size = 24 if self.abi >= 6 else 16 if self.abi >= 4 else 8
        self.ruleset = libc(CREATE_RULESET, struct.pack("<3Q", rights, 3, 3)[:size], size, 0)
        read, on_files = 0b1101, 0b1100000000000111
        rules = dict.fromkeys(["/"] if self.private else self.readable(), read)
        for path, allowed in {**rules, **dict.fromkeys([self.scratch, *DEVICES], rights)}.items():
            fd = os.open(path, os.O_PATH)
            allowed &= rights if os.path.isdir(path) else rights & on_files
            libc(ADD_RULE, self.ruleset, 1, struct.pack("<Qi", allowed, fd), 0)
            os.close(fd)

    def make_filter(self):
        """Classic BPF over (number, architecture, arguments) of a call, one for all forks."""
        load, equal, at_least, any_bit, give = 0x20, 0x15, 0x35, 0x45, 0x06
        allow, pretend, deny, absent = [(give, 0, 0, answer) for answer in (
            0x7FFF0000, 0x50000, 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS)]
        steps = [(load, 0, 0, 4), (equal, 1, 0, 0xC000003E if X86 else 0xC00000B7), (give, 0, 0, 0x80000000),
                 (load, 0, 0, 0), (equal, 0, 1, CLOSE_RANGE), allow, (at_least, 0, 1, NEWER), absent]

        def answer_to(table, answer):
            for first, last in call_numbers(table):
                steps.extend([(at_least, 0, 2, first), (at_least, 1, 0, last + 1), answer])

        def look_at_argument(number, *tests):
            steps.extend([(equal, 0, len(tests) + 3, number), (load, 0, 0, 16), *tests, deny, allow])

        answer_to(REFUSED, deny)
        answer_to(SETPRIORITY, pretend)
        look_at_argument(PRLIMIT, (equal, 1, 0, 0))
        look_at_argument(CLONE, (any_bit, 0, 1, NEW_ANYTHING))
        if not self.private:
            answer_to(PRETENDED, pretend)
            if self.abi < 3:
                answer_to(TRUNCATE, deny)
            for first, last in call_numbers(KILLS) if self.abi < 6 else ():
                for number in range(first, last + 1):
                    look_at_argument(number, (equal, 2, 0, OWN_PID), (equal, 1, 0, 0))
        return b"".join(struct.pack("<HBBI", *step) for step in [*steps, allow])

    def settle(self):
        """Note what a fork starts with; keep the collector from touching, and so copying, its pages."""
        self.base_rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        gc.collect()
        gc.freeze()

    def spawn(self, fds, job, body):
        """Fork a confined process that has these descriptors, from 0 on, and no other."""
        if self.private:                            # without CPython's hooks, which renew locks nobody holds
            pid = self.try_layer("namespaces", libc, CLONE, NEWPID | signal.SIGCHLD, 0, 0, 0, 0)
        else:
            pid = os.fork()
        if pid:
            return pid
        try:
            random.seed()
            for target, fd in enumerate(fds):
                os.dup2(fd, target, inheritable=target < 3)
            self.confine(len(fds), job)
            if body is not run_judge:
                libc("prctl", DUMPABLE, 1)          # nobody looks into a judge
            body()
        except LayerFailed as failure:
            if body is say_ready:
                os.write(3, as_bytes(failure.args))
        finally:
            os._exit(71)

    def probe(self):
        """Layers are there if a process can be put into them."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            child = self.spawn([self.null] * 3 + [theirs.fileno()], {"memory_mb": MEMORY_MB}, say_ready)
            theirs.close()
            said = ours.recv(1 << 16)
        os.waitpid(child, 0)
        if said != b"ready":
            raise LayerFailed(*json.loads(said or '["rlimits", "the first process died at once"]'))

    def confine(self, descriptors, job):
        """The last steps, in an order in which none forbids the next."""
        os.setsid()
        libc("prctl", PDEATHSIG, signal.SIGKILL)
        memory = job["memory_mb"] << 20
        set_limit(resource.RLIMIT_DATA, memory)
        set_limit(resource.RLIMIT_AS, 4 * memory)   # threads reserve much more than they use
        set_limit(resource.RLIMIT_FSIZE, FILE_MB << 20)
        set_limit(resource.RLIMIT_CORE, 0)
        if self.has_own_user:                       # else the limit would count every process of the account
            set_limit(resource.RLIMIT_NPROC, PROCESSES)
        libc(CAPSET, struct.pack("<Ii", 0x20080522, 0), bytes(24))
        self.try_layer("landlock", libc, RESTRICT_SELF, self.ruleset, 0)
        os.closerange(descriptors, OPEN_FILES)
        self.try_layer("seccomp", install_filter, self.filter)

    def empty_scratch(self):
        """By its descriptor, the path may lead elsewhere; trees are left to `find`, at home in deep ones."""
        os.fchmod(self.folder, 0o700)
        os.fchdir(self.folder)
        if os.listdir():
            subprocess.run("chmod -R u+rwx . ; find . -mindepth 1 -delete", shell=True,
                           stderr=subprocess.DEVNULL)

    def scratch_is_full(self):
        """As `du` counts, which finds its way through any tree; F is in the folder, wherever it went."""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired, ValueError):
            done = subprocess.run("du -s --inodes ; du -sm", shell=True, capture_output=True, timeout=5)
            files, _, megabytes, _ = done.stdout.split()
            return int(files) > SCRATCH_FILES or int(megabytes) > SCRATCH_MB

    def hello(self):
        private, seccomp = self.private, "seccomp" in self.on
        is_sound = self.has_own_user or "landlock" in self.on
        landlock = [f"landlock (abi {self.abi})"] * ("landlock" in self.on)
        protected = {"verdict": ["separate process"] * is_sound,
                     "files": ["private root"] * private + landlock,
                     "network": ["no sockets"] * seccomp,                  # a network namespace has AF_VSOCK
                     "signals": ["pid namespace"] * private + ["seccomp"] * seccomp}
        words = [f"{name}={' + '.join(how) or 'NOT PROTECTED'}" for name, how in protected.items()]
        words += [f"processes={PROCESSES if self.has_own_user else 'watched'}", "tree memory=watched",
                  f"layers={','.join(layer for layer in LAYERS if layer in self.on)}"]
        return {"banner": "sandbox: " + "; ".join(words),
                "protected": [name for name, how in protected.items() if how] + sorted(self.on)}


def say_ready():
    os.write(3, b"ready")


def install_filter(program):
    program = program.replace(struct.pack("<I", OWN_PID), struct.pack("<I", os.getpid()))
    array = ctypes.create_string_buffer(program)
    libc(SECCOMP, 1, 4, struct.pack("<HxxxxxxQ", len(program) // 8, ctypes.addressof(array)))


def replace_semaphores():
    """multiprocessing's own lie in /dev/shm, the machine's here; these in memory that forks share."""
    own, kept = importlib.import_module("_multiprocessing").SemLock, []

    def semaphore(kind, value, maxvalue, *_):
        kept.append(mmap.mmap(-1, 64))
        address = ctypes.addressof(ctypes.c_char.from_buffer(kept[-1]))
        libc("sem_init", ctypes.c_void_p(address), 1, value)
        return own._rebuild(address, kind, maxvalue, None)

    semaphore.SEM_VALUE_MAX, semaphore._rebuild = own.SEM_VALUE_MAX, own._rebuild
    sys.modules["_multiprocessing"].SemLock = semaphore


def set_limit(which, value, soft=False):
    hard = resource.getrlimit(which)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, hard if soft else value))


# ------------------------------------------------------------------------------------- by hand

def main():
    import argparse
    parser = argparse.ArgumentParser(description="Run one untrusted program against tests.")
    parser.add_argument("program", help="file with the untrusted program")
    parser.add_argument("tests", help='file with tests, or .json with {"inputs": [...], "outputs": [...]}')
    parser.add_argument("--entry-point", help="name of the function under test (check(candidate) needs it)")
    parser.add_argument("--prelude", help="file with trusted code to run in front of both")
    parser.add_argument("--unsafe", action="store_true", help="even where a program could reach its judge")
    parser.add_argument("--beside", action="store_true", help="for tests that patch the program's imports")
    parser.add_argument("--strict", action="store_true", help="believe only a judge that it cannot touch")
    parser.add_argument("--require", default="rlimits", choices=LEVELS, help="refuse to work with less")
    args = parser.parse_args()
    try:
        code, tests, prelude = [open(path, encoding="utf-8").read() if path else "" for path in
                                (args.program, args.tests, args.prelude)]
        tests = json.loads(tests) if args.tests.endswith(".json") else tests
        with Pool(1, require=args.require, unsafe=args.unsafe) as pool:
            print(pool.banner, file=sys.stderr)
            result = pool.judge({"code": code, "tests": tests, "prelude": prelude, "beside": args.beside,
                                 "strict": args.strict, "entry_point": args.entry_point})
    except (OSError, ValueError, RuntimeError) as problem:
        sys.exit(print(f"sandbox_exec.py: {problem}", file=sys.stderr) or 2)
    print(result.reason + (f" ({result.detail})" if result.detail else ""))
    sys.exit({True: 0, False: 1, None: 3}[result.passed])


if __name__ == "__main__":
    main()
