#!/usr/bin/env python3
"""Run untrusted (model-written) Python against tests: a verdict nobody can forge, on a machine nobody can hurt.

    python sandbox_exec.py program.py tests.py         # one verdict, and what protects this machine
    python sandbox_exec.py program.py tests.json       # {"inputs": [...], "outputs": [...]}: standard input and output

    from sandbox_exec import run_tests, Pool
    run_tests("def f(x): return x * x", "assert f(3) == 9").passed                               # True
    with Pool() as pool:                               # one warm fork server a core; may be used from several threads
        for key, result in pool.imap_unordered([("a", {"code": ..., "tests": ...}), ...]):       # as they finish
            print(key, result.passed, result.reason)

A job is the keyword arguments of `run_tests`:

    code         the program to judge, text (None or blank: verdict `no code`)
    tests        text of the tests (asserts, pytest's functions, unittest's classes), or {"inputs": [...], "outputs":
                 [...]}: what is printed must be equal line by line, up to trailing blanks and to how a number is
                 written, and the exit status 0; with "fn_name" also: that function is called with the inputs (JSON)
    style        "check": the tests define check(candidate), called once with the entry point; "auto": if they do
    entry_point  name of the function under test; needed by "check", useful elsewhere
    prelude      trusted code of the problem statement, run in front of the program and, for its helpers, of the tests
    beside       True: tests that must reach into the program (patch its imports) decide beside it, see below
    cpu_s        seconds of processor time, default 10, of the program with its children: the limit that decides
    wall_s       seconds of real time, default 10 * cpu_s, but only 2 * cpu_s asleep; a run that only waited for a
                 busy processor is repeated once, alone
    memory_mb    for each process; the whole tree may hold 1.5 times as much

`result.reason` is `passed`, `failed: <which assert or exception>`, `timeout`, `memory`, `killed`, `no code`, `syntax`,
`not judged: passes only beside its tests`, or `error: <what the sandbox could not do>`; `passed` is True, False or,
for the last two, None.

The rule. A pass is believed only from a judge that the program cannot touch, a failure only from a run in which
everything can cross. So the tests run in the judge and the program in a process of its own. If the tests pass there,
`passed`. If they fail and only plain data crossed (and the tests touch nothing of the process they run in), `failed`.
Else the program runs once more with its tests beside it in one process, where it could forge a pass but nothing is in
the way of an honest one: fails there too, `failed`; passes there, `not judged`. With `beside` that pass counts, as
`passed: beside its tests`: worth what a program is worth that nobody asked to cheat.

                          caller    threads, secrets, expected outputs of stdio jobs; forks nothing
      control socket, stdin |       one G and one F for each worker
                            G       guard: does nothing but wait; when F or the caller dies it kills all that is left
                            F       fork server: single-threaded, in namespaces; never reads a program, test or verdict
                    ________|________
                   J                 S      one S a job, confined before it gets the program: no descriptor but one
     judge, confined as S is,        |      end of a socket to J. Holds no test and no expected value. (In a stdio job:
     for up to 500 jobs; holds the  program files as 0, 1, 2 and no J. Beside: S has the tests and answers the caller.)
     tests, tells its verdict to     |
     the caller on a job's socket    |
                   J ------- S ------'

    J <-> S: a pickle with its length in front, either way. J's reader is written in Python, makes nothing but plain
    data, and looks up names in tables (VALUES, MODULES, exceptions of modules that J has loaded).
      message = ("ask", verb, args, how)           verb: call get set delete op method read next await freeze thaw ...
              | ("ok" | "raise", value, [(n, items)...], [event...])        n: the n-th container in the ask's args
              | ("ready", names) | ("syntax" | "raised", text, ...)         S's first, once it has the program
      event   = ("out" | "err", text) | ("warn", class, text) | ("log", logger, level, text)
    What is no plain data is one of pickle's persistent ids:
              ("arg", n) | ("class", module, name, ancestor) | ("array", dtype, shape, is array, items)
              | ("view", kind, items) | ("member", enumeration, value) | ("exception", class, args, state, cause)
              | ("file", path, mode), from J only
              | ("mine", number, description or None, items) | ("yours", number, items)           a handle

Rules of J: what S names is looked up in tables of data types, never imported. A handle is never equal to plain data.
What a function returned as a handle is read once, into a list or dict that serves len, in, [], for, items; operators
work on instances of classes that the tests name (with a capital). S may call what the tests gave it, and read public
attributes of objects of the tests' classes. A malformed message is the program's failure. A pass needs an assert that
ran and an answer of the program.

Layers: as many as the machine has stand around S and J; `pool.banner` says which. A Pool starts only where the verdict
is sound: where the program cannot write what the judge or the caller reads later (a private root, Landlock, or another
user), unless the caller writes `unsafe=True`. `Pool(require="namespaces")` refuses to work with less.

Not covered: bugs of the kernel, side channels, reading /usr and the Python installation, a class that the tests name
and that lies about its own instances, files that tests leave in the folder both share. Sockets are always refused.
"""
# ruff: noqa: SIM905
import abc
import array
import ast
import asyncio
import atexit
import builtins
import collections
import contextlib
import ctypes
import enum
import errno
import fcntl
import functools
import gc
import importlib
import importlib.util
import inspect
import io
import itertools
import json
import linecache
import logging
import marshal
import os
import pickle
import random
import re
import resource
import select
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import types
import typing
import warnings
from decimal import Decimal

LAYERS = ("rlimits", "namespaces", "landlock", "seccomp")
LEVELS = {"rlimits": (), "seccomp": ("network", "signals"), "landlock": ("network", "signals", "files"),
          "namespaces": ("network", "signals", "files", "namespaces")}
CPU_S, MEMORY_MB, TREE_FACTOR = 10, 1024, 1.5
FILE_MB, SCRATCH_MB, SCRATCH_FILES, OPEN_FILES, PROCESSES, STACK_MB = 64, 256, 20000, 256, 64, 64
JUDGE_MEMORY_MB, JUDGE_JOBS, FRAME_LIMIT = 2048, 500, 64 << 20
BESIDE_ONLY = "not judged: passes only beside its tests"


class Result(typing.NamedTuple):
    reason: str
    detail: str = ""
    cpu_s: float = 0.0
    wall_s: float = 0.0
    memory_mb: float = 0.0                          # highest resident memory of the tree that was seen
    layers: str = ""

    @property
    def verdict(self):
        return self.reason.partition(":")[0]

    @property
    def passed(self):
        return None if self.verdict in ("error", "not judged") else self.verdict == "passed"


# ------------------------------------------------------------------------------------------------- the caller's process

def run_tests(code, tests, **job):
    """Judge one program in a server that stays warm until the interpreter ends; `job` as in the module's docstring."""
    return next(shared_pool(os.getpid()).imap_unordered([(None, dict(job, code=code, tests=tests))]))[1]


@functools.cache
def shared_pool(_pid):
    return Pool(1)


class Pool(contextlib.AbstractContextManager):
    """`workers` fork servers (default: one a core); `require` is a key of LEVELS; `disable` names layers not to use."""

    def __init__(self, workers=None, *, require="rlimits", disable=(), unsafe=False):
        self.servers, self.holders, self.freed = [], {}, threading.Condition()
        unknown, disabled = set(disable) - {*LAYERS, "pytest", "subreaper"}, set(disable)
        if unknown or require not in LEVELS:
            raise ValueError(f"unknown: {unknown or require!r}; layers are {LAYERS}, levels {tuple(LEVELS)}")
        try:
            for _ in range(workers or os.cpu_count() or 1):
                self.servers.append(Server(disabled))
            self.banner, protected = self.servers[0].banner, self.servers[0].protected
            missing = [name for name in LEVELS[require] if name not in protected]
            if missing:
                raise RuntimeError(f"{require!r} needs {', '.join(missing)}, which this machine lacks; {self.banner}")
            if "verdict" not in protected and not unsafe:
                raise RuntimeError("a program could write what its judge reads later, so verdicts would not be sound; "
                                   f"unsafe=True runs all the same; {self.banner}")
        except BaseException:
            self.close()
            raise

    def close(self, *_):
        while self.servers:
            self.servers.pop().stop()

    __exit__ = close

    def imap_unordered(self, jobs):
        """Yield (key, Result) for each (key, job) of an iterable, in order of completion."""
        jobs, ready, starved, running = iter(jobs), [], [], {}
        try:
            while True:
                while server := self.take(wait=not running):
                    if not ready and (job := next(jobs, None)):
                        ready.append((job[0], judge(**job[1]), None))
                    elif not ready and starved and not running:
                        ready.append(starved.pop())
                    if not ready:
                        self.give(server)
                        break
                    key, steps, status = ready.pop()
                    try:
                        job_run = steps.send(status)
                    except StopIteration as end:
                        self.give(server)
                        yield key, end.value._replace(layers=self.banner)
                    else:
                        if job_run:
                            running[server] = key, steps
                            server.begin(*job_run)
                        else:
                            starved.append((key, steps, None))
                            self.give(server)
                if not running:
                    return
                for server in answering(running):
                    key, steps = running[server]
                    ready.append((key, steps, server.collect()))
                    del running[server]
                    self.give(server)
        finally:
            for server in running:                  # the caller stopped early
                server.restart()
                self.give(server)

    def take(self, wait):
        """A server that is at work for nobody."""
        me = threading.get_ident()
        with self.freed:
            while not (idle := [server for server in self.servers if server not in self.holders]) and wait:
                if not self.servers or set(self.holders.values()) == {me}:
                    raise RuntimeError("this Pool is closed, or all of it is at work for another loop of this thread")
                self.freed.wait()
            if idle:
                self.holders[idle[0]] = me
        return idle[0] if idle else None

    def give(self, server):
        with self.freed:
            del self.holders[server]
            self.freed.notify()


def answering(servers):
    """Wait until some servers have an answer, died, or are past their deadline."""
    poller = select.poll()
    for server in servers:
        poller.register(server.socket, select.POLLIN)
    patience = max(0, min(server.deadline for server in servers) - time.monotonic())
    ready = {fd for fd, _ in poller.poll(patience * 1000 + 1)}
    return [server for server in servers if server.socket.fileno() in ready or time.monotonic() > server.deadline]


def judge(code, tests, style="auto", entry_point=None, prelude="", beside=False, cpu_s=CPU_S, wall_s=None,
          memory_mb=MEMORY_MB):
    """A generator of one job's Result: yields (header, files) for each run by a server, is sent the status; yields None
    when it should only go on once no other job runs."""
    spent, is_stdio = collections.Counter(), isinstance(tests, dict)
    if not (code or "").strip():
        return Result("no code")
    cases = [list(tests.get(name) or ()) for name in ("inputs", "outputs")] if is_stdio else [[], []]
    if not isinstance(tests, (str, dict)) or is_stdio and not cases[0] or len(cases[0]) != len(cases[1]):
        return Result("error: tests must be text or {'inputs': [...], 'outputs': [...]} of equal length")
    if is_stdio and tests.get("fn_name"):
        tests, style, is_stdio = calls_of(tests["fn_name"], *cases), "auto", False
    if style == "check" and not entry_point:
        return Result("error: tests of the style check need an entry_point")
    header = {"cpu": cpu_s, "wall": wall_s or 10 * cpu_s, "asleep": wall_s or 2 * cpu_s, "memory_mb": memory_mb,
              "preload": ["numpy"] if "numpy" in code or "numpy" in str(tests) else []}
    job = {"code": code, "tests": tests, "style": style, "entry_point": entry_point, "prelude": prelude or ""}
    reason, detail = (yield from judge_stdio(code, cases, header, spent)) if is_stdio else (
        yield from judge_tests(job, header, bool(beside), spent))
    return Result(reason, detail, round(spent["cpu"], 3), round(spent["wall"], 3), round(spent["rss"] / 2**20, 1))


def judge_tests(job, header, beside, spent):
    """Apart first; where that fails and does not show that the program is wrong, beside."""
    reason, detail, is_certain = yield from run_apart(job, header, spent)
    if reason == "passed" or is_certain:
        return reason, detail
    status, answer = yield from run({**header, "mode": "beside"}, [as_bytes(job)], spent)
    second = why_ended(status, header)
    if status["died"]:
        return second
    with contextlib.suppress(ValueError, TypeError):            # this one may say what it likes, and escapes nothing
        word, told = json.loads(answer)
        second = second or (str(word)[:500], str(told)[:1000])
    word, told = second or ("failed: the program ended beside its tests", "")
    if word == "passed":
        return ("passed: beside its tests" if beside else BESIDE_ONLY), f"apart from them: {reason}"
    return (word if re.match("failed: |timeout$|memory$|killed$|syntax$", word) else f"failed: {word}"), told


def run_apart(job, header, spent):
    """(reason, detail, whether it is certain)"""
    status, answer = yield from run({**header, "mode": "apart"}, [as_bytes(job)], spent)
    ended = why_ended(status, header)
    if status["died"] == JUDGE_DIED:                # twice: it is the program's doing
        return *ended, False
    if status["died"] or status["limit"]:
        return *ended, bool(status["died"]) or not status["opaque"]
    reason, detail, is_certain = json.loads(answer)
    if reason == "gone":
        how = "its connection" if status["exit"] is None else f"(exit status {status['exit']}) before it answered"
        reason, detail = ended or (f"failed: the program ended {how}", "")
    return reason, detail, is_certain


def calls_of(name, inputs, outputs):
    """LiveCodeBench's functional problems as tests: arguments as JSON, one a line; a function or Solution's method."""
    given = [[json.loads(line) for line in text.split("\n") if line.strip()] if isinstance(text, str) else text
             for text in inputs]
    wanted = [json.loads(text) if isinstance(text, str) else text for text in outputs]
    return (f"import solution\ncalled = getattr(solution, 'Solution', None)\n"
            f"called = getattr(called() if called else solution, {name!r})\n"
            f"for given, wanted in zip({given!r}, {wanted!r}):\n"
            "    got = called(*given)\n    assert (list(got) if isinstance(got, tuple) else got) == wanted\n")


def judge_stdio(code, cases, header, spent):
    for n, (given, wanted) in enumerate(zip(*[[joined(text) for text in texts] for texts in cases]), 1):
        where = f"input {n} of {len(cases[0])}"
        contents = [encode(given), b"", b"", as_bytes(["", code, None])]
        status, (_, printed, errors, _) = yield from run({**header, "mode": "stdio"}, contents, spent)
        last = errors[-2000:].decode("utf-8", "replace").strip().rpartition("\n")[2]
        if ended := why_ended(status, header):
            return ended
        if status["exit"]:
            word = {"MemoryError": "memory", "SyntaxError": "syntax"}.get(last.partition(":")[0])
            return word or f"failed: {where}: exit status {status['exit']} {last[:200]}".strip(), last[:1000]
        is_flood = len(printed) > 10 * len(encode(wanted)) + 2**20         # too much to take apart
        if is_flood or not same_lines(lines(printed.decode("utf-8", "replace")), lines(wanted)):
            return f"failed: {where}: wrong output", repr(printed[:200])
    return "passed", ""


def joined(text):
    return "\n".join(map(str, text)) if isinstance(text, list) else str(text)


def lines(text):
    return [line.rstrip() for line in text.rstrip().splitlines()]


NUMBER = re.compile(r"[+-]?(\d{1,5000}(\.\d{0,5000})?|\.\d{1,5000})([eE][+-]?\d{1,4})?", re.ASCII)


def same_lines(printed, wanted):
    """Equal; or lines of numbers, one of which is no integer, that are equal as numbers: 0.50 is .5, and 2.0 is 2."""
    def is_same(ours, theirs):
        pairs = list(itertools.zip_longest(ours.split(), theirs.split(), fillvalue=""))
        return ours == theirs or bool(re.search("[.eE]", ours + theirs)) and all(
            NUMBER.fullmatch(a) and NUMBER.fullmatch(b) and Decimal(a) == Decimal(b) for a, b in pairs)
    return len(printed) == len(wanted) and all(map(is_same, printed, wanted))


def run(header, contents, spent):
    """(status, the verdict or what the files hold then) of one run; of a second if something of ours died, or it got no
    processor. A verdict crosses on a socket, which nobody can open: not F, nor a program through /proc."""
    for attempt in (1, 2):
        with contextlib.ExitStack() as closing:
            files = [closing.enter_context(memory_file(data)) for data in contents]
            ours, theirs = map(closing.enter_context, socket.socketpair())
            status = yield header, files + [theirs] * (header["mode"] != "stdio")
            ours.setblocking(False)
            with contextlib.suppress(OSError):
                answer = b"" if header["mode"] != "stdio" else [read_file(file) for file in files]
                answer = answer or ours.recv(1 << 16)
        if attempt == 2 or not (status["died"] or status["starved"]):
            spent.update(cpu=status["cpu"], wall=status["wall"])
            spent["rss"] = max(spent["rss"], status["rss"])
            return status, answer
        if status["starved"]:
            yield None


def new_status(died=None):
    return {"died": died, "limit": None, "signal": 0, "exit": None, "cpu": 0.0, "wall": 0.0, "rss": 0, "starved": False,
            "opaque": False}


def why_ended(status, header):
    """(reason, detail) of a run that was ended, or ended on a signal; None if it ended as programs do."""
    limit = status["limit"]
    if status["signal"] in (signal.SIGXCPU, signal.SIGKILL) and status["cpu"] >= header["cpu"]:
        limit = "cpu"
    if status["died"]:
        return status["died"], ""
    if limit in ("cpu", "wall"):
        return "timeout", f"{limit} time: {status['cpu']:.1f} s of cpu, {status['wall']:.1f} s of wall time"
    if limit == "memory":
        return "memory", f"{status['rss'] / 2**20:.0f} MB in all processes"
    if limit or status["signal"]:
        return "killed", f"limit of {limit}" if limit else f"signal {status['signal']}"
    return None


JUDGE_DIED, SERVER_DIED = "error: the judge died", "error: the server of this job died or hung"


class Server:
    """The caller's end of one guard and fork server."""

    def __init__(self, disabled):
        self.disabled = disabled
        self.start()

    def start(self):
        """Layers are probed by using them: a server that cannot set one up says which, and is started again without."""
        while True:
            self.socket, theirs = socket.socketpair()
            with theirs, memory_file(this_file_compiled()) as code:
                fds = theirs.fileno(), code.fileno()
                start = (f"import marshal, sys\ndel sys.path[0]\nit = {{'__name__': 'sandbox_exec'}}\n"  # the caller's folder
                         f"exec(marshal.load(open({fds[1]}, 'rb')), it)\nit['guard']({fds[0]}, {[*self.disabled]})")
                self.process = subprocess.Popen([sys.executable, "-s", "-B", "-c", start], pass_fds=fds,
                                                env=clean_environment(), stdin=subprocess.PIPE,
                                                stdout=subprocess.DEVNULL)
            hello, _ = receive(self.socket) or ({"failed": "rlimits", "why": "it died at once"}, [])
            self.banner, self.protected = hello.get("banner"), hello.get("protected")
            if "failed" not in hello:
                return
            self.stop()
            if hello["failed"] in {"rlimits", *self.disabled}:
                raise RuntimeError(f"the sandbox cannot start: {hello['failed']}: {hello['why']}")
            self.disabled.add(hello["failed"])

    def stop(self):
        """Closing both is the order to end, and to end all that was started; the guard sees to it within seconds."""
        self.socket.close()
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            end_tree(self.process.pid)
            self.process.wait()

    def restart(self):
        """With patience: what ended the last one may end the next, and without a server the whole run is lost."""
        for pause in (0.1, 1, 5):
            self.stop()
            try:
                return self.start()
            except (RuntimeError, OSError):
                time.sleep(pause)
        return self.start()

    def begin(self, header, files):
        self.deadline = time.monotonic() + header["wall"] + 60
        with contextlib.suppress(OSError):          # dead: collect() sees it
            send(self.socket, header, [file.fileno() for file in files])
        if header["mode"] != "stdio":               # whoever may look into this process finds no tests
            for file in files:
                file.close()

    def collect(self):
        try:
            status, _ = time.monotonic() < self.deadline and receive(self.socket) or (None, [])
        except OSError:
            status = None
        if not status or "failed" in status:
            self.restart()
            return new_status(SERVER_DIED if "signals" in self.protected else "killed")
        return status


@functools.cache
def this_file_compiled():
    """A server that compiled it would keep megabytes of memory for that, and each fork would copy their page tables."""
    source = "".join(linecache.getlines(__file__, globals()))              # also from an archive
    return marshal.dumps(compile(source, __file__, "exec", dont_inherit=True, optimize=0))  # its asserts hold under -O


def clean_environment():
    """None of the caller's secrets; one thread for each numeric library, so that a job's processor time is its own."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "TMPDIR") if name in os.environ}
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONUTF8": "1", "PYTHONHASHSEED": "0",
            "MALLOC_ARENA_MAX": "2", "USER": "sandbox", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **threads, **kept}


def memory_file(data):
    """An anonymous file: the program cannot block on it, and the servers pass it on unread."""
    try:
        file = open(os.memfd_create("job"), "w+b", buffering=0)
    except (AttributeError, OSError):               # not Linux; or in a sandbox already
        file = tempfile.TemporaryFile(buffering=0)
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
    socket.send_fds(sock, [as_bytes(message) + b"\n"], fds)


def receive(sock, data=b""):
    """(message, descriptors); None at the end of the connection."""
    fds = []
    while not data.endswith(b"\n"):
        part, more, *_ = socket.recv_fds(sock, 1 << 16, 8)
        if not part:
            return None
        data, fds = data + part, fds + list(more)
    return json.loads(data), fds


# ------------------------------------------------------------------------------------------------- G and F: the servers

cage = proc_fd = None                               # of this server and its forks; /proc, which a private root has not


def guard(fd, disabled):
    """G: become the parent of all orphans below, start F, wait until it or the caller is gone, kill what is left."""
    global cage
    cage = Cage(set(disabled))
    become_subreaper()
    ours, theirs = socket.socketpair()
    server = os.fork()
    if server == 0:
        ours.close()
        try:
            serve(fd, theirs)
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(0)
    theirs.close()
    os.close(fd)
    if select.select([0, ours], [], [])[0] == [0]:  # the caller is gone: F knows too
        select.select([ours], [], [], 3)
    ours.close()
    kill(server)
    while end_tree(os.getpid()):
        time.sleep(0.01)
    if not cage.private:
        with contextlib.suppress(OSError):
            cage.empty_scratch()
            os.rmdir(cage.scratch)


def become_subreaper():
    if sys.platform == "linux":
        libc("prctl", SUBREAPER, 1)


def serve(fd, guard_end):
    """F: fork a program (and once in a while a judge) per job. This process never reads a program, a test or a verdict,
    for whatever it has in memory, its forks have too."""
    control = socket.socket(fileno=fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100))
    cage.guard = fcntl.fcntl(guard_end, fcntl.F_DUPFD_CLOEXEC, 100)
    os.close(fd)
    guard_end.close()
    try:
        cage.enter()
        judge = Judge()
        send(control, cage.hello())
        while job_and_files := receive(control):
            job, fds = job_and_files
            judge = prepare(job, judge)
            send(control, run_job(job, fds, judge, control))
        judge.stop()
    except LayerFailed as failure:
        send(control, {"failed": failure.layer, "why": str(failure)})


def prepare(job, judge):
    """What the job imports is imported before the fork, once; the judge is a fork, too."""
    missing = [name for name in job["preload"] if name not in sys.modules and importlib.util.find_spec(name)]
    for name in missing:
        importlib.import_module(name)
    if missing:
        cage.settle()
        judge.stop()
    return judge if judge.pid and not exited(judge.pid) else Judge()


def run_job(job, fds, judge, control):
    """Fork the program, hand the tests to the judge, watch both; then nothing of the job is left."""
    started, status, program = time.monotonic(), new_status(), None
    try:
        if job["mode"] == "apart":
            ours, theirs = socket.socketpair()
            with ours, theirs:
                program = cage.spawn([cage.null, cage.null, cage.null, theirs.fileno()], job, serve_program)
                send(judge.socket, "job", [*fds, ours.fileno()])
            awaited = judge.socket.fileno()
        else:
            is_stdio = job["mode"] == "stdio"
            program = cage.spawn(fds, job, run_script) if is_stdio else (
                cage.spawn([cage.null] * 3 + fds, job, run_beside))
            awaited = os.pidfd_open(program) if hasattr(os, "pidfd_open") else None
            fds = fds + [awaited] * bool(awaited)
    except (OSError, LayerFailed) as problem:
        status["died"] = f"error: no process could be started ({problem})"
        judge.stop()
    else:
        if job["mode"] == "apart":
            close_all(fds)                          # only those who need to can reach the job
        watch(job, status, program, awaited, judge, control)
        if job["mode"] != "apart":
            close_all(fds)
        finish(job, status, program, judge)
    while not cage.private and end_tree(os.getpid(), spare=judge.pid):
        time.sleep(0.001)
    cage.empty_scratch()
    status["wall"] = time.monotonic() - started
    return status


def close_all(fds):
    for fd in fds:
        os.close(fd)


def watch(job, status, program, awaited, judge, control):
    """Until the judge (or, without one, the program) is done, or a limit is reached."""
    started, judge_before = time.monotonic(), None
    poller = select.poll()
    for fd in {control.fileno(), cage.guard, control.fileno() if awaited is None else awaited}:
        poller.register(fd, select.POLLIN)
    pause = 0.2 if awaited is not None else 0.002   # most jobs end before the first look at their processes
    while not status["limit"]:
        ready = {fd for fd, _ in poller.poll(pause * 1000)}
        if ready & {control.fileno(), cage.guard}:  # the caller or the guard is gone
            while end_tree(os.getpid()):
                time.sleep(0.001)
            os._exit(1)
        is_over = awaited in ready or awaited is None and exited(program)
        if is_over and (job["mode"] != "apart" or judge.has_ended(status)):
            break
        wall = time.monotonic() - started
        if wall > 0.2:
            pause = 0.05
            cpu, waited, memory, processes = usage(strays(os.getpid(), judge.pid) or [program])
            judge_now = usage([judge.pid])
            judge_before = judge_before or judge_now
            judged, waited = judge_now[0] - judge_before[0], waited + judge_now[1] - judge_before[1]
            status["cpu"], status["rss"] = max(status["cpu"], cpu), max(status["rss"], memory)
            status["limit"] = ("cpu" if max(cpu, judged) > job["cpu"] else
                               "memory" if memory > TREE_FACTOR * job["memory_mb"] * 2**20 else
                               "processes" if processes > 2 * PROCESSES else
                               "files" if not cage.private and cage.scratch_is_full() else
                               "wall" if wall > job["wall"] or wall - cpu - judged - waited > job["asleep"] else None)
            status["starved"] = status["limit"] == "wall" and waited > 0.1 * wall


def finish(job, status, program, judge):
    """Reap the program; how it ended counts only if it ended by itself."""
    if job["mode"] == "apart" and status["limit"]:
        judge.stop()                                # it still examines
    elif job["mode"] == "apart":
        if judge.said is None:
            status["died"] = JUDGE_DIED
        patience = time.monotonic() + 0.5
        while judge.said == "gone" and not exited(program) and time.monotonic() < patience:
            time.sleep(0.001)
    by_itself = exited(program)
    kill(program)
    _, ended, used = os.wait4(program, 0)
    status["cpu"] = max(status["cpu"], used.ru_utime + used.ru_stime)
    status["rss"] = max(status["rss"], used.ru_maxrss * (1024 if sys.platform == "linux" else 1))
    if by_itself and os.WIFSIGNALED(ended):
        status["signal"] = os.WTERMSIG(ended)
    elif by_itself:
        status["exit"] = os.WEXITSTATUS(ended)


class Judge:
    """The fork server's end of a judge process, which serves many jobs."""

    def __init__(self):
        self.jobs, self.said, (self.socket, theirs) = 0, None, socket.socketpair()
        with theirs:
            limits = {"cpu": None, "memory_mb": JUDGE_MEMORY_MB}
            self.pid = cage.spawn([cage.null, cage.null, cage.null, theirs.fileno()], limits, judge_jobs)
        hello, _ = receive(self.socket) or ({"failed": "rlimits", "why": "the judge died at once"}, [])
        if "failed" in hello:
            raise LayerFailed(hello["failed"], hello["why"])

    def has_ended(self, status):
        """Read what it says of a job: "!" when more than plain data crosses, then "done", or "gone" if its program
        ended too early; None if it died. A judge that is not clean or old is ended."""
        first = self.socket.recv(1)
        if first == b"!":
            status["opaque"] = True
            return False
        answer, _ = first and receive(self.socket, first) or (None, [])
        self.jobs, self.said = self.jobs + 1, answer and answer["said"]
        if not answer or not answer["clean"] or self.jobs >= JUDGE_JOBS:
            self.stop()
        return True

    def stop(self):
        if self.pid:
            end_tree(self.pid)
            kill(self.pid)
            os.waitpid(self.pid, 0)
            self.socket.close()
        self.pid = None


def exited(pid):
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def kill(pid):
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def end_tree(pid, spare=None):
    """Kill all descendants and reap those that are ours: the one way to kill, used by caller, G and F. Again and again,
    until this finds none: what it kills may have been starting more."""
    found = strays(pid, spare)
    for child in [child for root in found for child in (root, *tree(root))]:
        kill(child)
    for child in found:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, os.WNOHANG)
    return found


def strays(pid, spare=None):
    """The children of a process."""
    return [int(child) for thread in proc(f"{pid}/task", os.listdir)
            for child in proc(f"{pid}/task/{thread}/children").split() if int(child) != spare]


def tree(pid):
    """All descendants of a process."""
    found = [pid]
    for parent in found:
        found += strays(parent)
    return found[1:]


def proc(path, read=lambda fd: os.read(fd, 4096)):
    """The content of a file under /proc, or what else `read` makes of it; empty if there is none."""
    try:
        fd = os.open(path if proc_fd else "/proc/" + path, os.O_RDONLY, dir_fd=proc_fd)
    except OSError:
        return b""
    try:
        return read(fd)
    except OSError:
        return b""
    finally:
        os.close(fd)


def usage(roots):
    """(seconds of cpu, seconds in the queue for a processor, resident bytes, number) of processes and descendants."""
    cpu = waited = memory = 0
    pids = [pid for root in roots for pid in (root, *tree(root))]
    for pid in pids:
        stat = proc(f"{pid}/stat").rpartition(b")")[2].split()
        if stat:
            cpu += sum(map(int, stat[11:15])) / os.sysconf("SC_CLK_TCK")
            memory += max(0, int(stat[21]) * resource.getpagesize() - cage.base_rss)    # what it shares with F is F's
        for thread in proc(f"{pid}/task", os.listdir):
            waited += int((proc(f"{pid}/task/{thread}/schedstat").split() or [0, 0])[1]) / 1e9
    return cpu, waited, memory, len(pids)


# ------------------------------------------------------------------------------------------------- S: the program

def load_code(name, prelude, code, entry_point):
    """The program's module, and a function that runs the prelude and the program in it."""
    sys.modules[name] = module = types.ModuleType(name)
    module.__file__ = "solution.py"

    def execute():
        if prelude:
            with contextlib.suppress(SyntaxError):
                exec(compile_prelude(prelude), module.__dict__)
            module.__dict__.pop(entry_point, None)  # the prelude's own is a stub
        linecache.cache["solution.py"] = (len(code), None, code.splitlines(True), "solution.py")
        exec(compile(encode(code), "solution.py", "exec", dont_inherit=True), module.__dict__)
    return module, execute


def compile_prelude(text, flags=0):
    """A prelude may end inside a function: the head that a completion continues."""
    try:
        return compile(text, "prelude.py", "exec", flags, dont_inherit=True)
    except SyntaxError:
        return compile(text + "\n    pass\n", "prelude.py", "exec", flags, dont_inherit=True)


def run_script():
    """A stdio job: 0, 1 and 2 are files, 3 holds the program; end as a script does."""
    sys.stdin, sys.stdout, sys.stderr = (open(fd, mode, encoding="utf-8", errors="surrogateescape", closefd=False)
                                         for fd, mode in ((0, "r"), (1, "w"), (2, "w")))
    with open(3, "rb", buffering=0) as file:
        _, execute = load_code("__main__", *json.loads(read_file(file)))
    status = 0
    try:
        execute()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException as problem:
        sys.stderr.write("".join(traceback.format_exception_only(type(problem), problem)))
        status = 1
    try:
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        status = status or 120
    os._exit(status & 255)


def serve_program():
    """Load the program, then do what the judge asks, for ever."""
    global peer
    sock = socket.socket(fileno=3)
    peer = Peer(sock)
    prelude, code, entry_point = peer.read()
    module, execute = load_code("solution", prelude, code, entry_point)
    peer.exports[0], peer.execute = module, execute
    sys.setrecursionlimit(sys.getrecursionlimit() + 50)
    try:
        execute()
        peer.prelude = prelude_classes(prelude, vars(module))
        report = "ready", list(module.__dict__)
    except SyntaxError as problem:
        report = "syntax", str(problem)
    except BaseException as problem:
        report = "raised", describe(problem), isinstance(problem, MemoryError)
    peer.write(report)
    while True:
        peer.answer(*peer.read()[1:])


def prelude_classes(prelude, names):
    """Those of the prelude, by name: their objects are copied over, for both sides have them."""
    with contextlib.suppress(SyntaxError):
        body = compile_prelude(prelude, ast.PyCF_ONLY_AST).body
        found = [names.get(node.name) for node in body if isinstance(node, ast.ClassDef)]
        return {kind.__name__: kind for kind in found if isinstance(kind, type)}
    return {}


def run_beside():
    """The program and its tests in this process; what it answers is believed only where the tests say beside."""
    with open(3, "rb", buffering=0) as file, socket.socket(fileno=4) as caller:
        job = json.loads(read_file(file))
        module, execute = load_code("solution", job["prelude"], job["code"], job["entry_point"])
        sys.modules["__main__"] = module
        with open("solution.py", "w", encoding="utf-8", errors="surrogatepass") as copy:
            copy.write(job["prelude"] + "\n" + job["code"])
        try:
            sys.path.insert(0, os.getcwd())
            execute()
            tests = read_tests(job["prelude"], job["tests"])
            space = types.ModuleType("tests")
            sys.modules["tests"] = space
            vars(space).update({name: value for name, value in vars(module).items() if not name.startswith("__")})
            answer = run_all(job, tests, space)
        except SyntaxError as problem:
            answer = "syntax", str(problem)
        except BaseException as problem:
            answer = explain(problem)
        caller.send(as_bytes(answer))
        os._exit(0)


# ------------------------------------------------------------------------------------------------- between J and S
# Both ends hold a Peer. A message is a pickle with its length in front. J reads with a reader written in Python that
# knows only types of data. Containers in the arguments of an ask are counted; the answer names them by number, and says
# which have changed. What is no data stays where it is: the other side gets a stand-in that asks back.

FLAT = {type(None), bool, int, float, str, bytes, complex}
PLAIN = FLAT | {tuple, list, dict, set, frozenset, bytearray, collections.deque, collections.OrderedDict,
                collections.Counter, collections.defaultdict, array.array}
ROOTS = list, dict, set, collections.deque, bytearray              # of classes whose objects carry their content along
BASES = {int: int.__index__, float: float.__float__, str: str.__str__, complex: complex.__pos__,
         bytes: lambda v: bytes.__getitem__(v, slice(None)), tuple: lambda v: tuple(tuple.__iter__(v)),
         frozenset: lambda v: frozenset(frozenset.__iter__(v))}    # what a subclass's instance is equal to
VIEWS = {type({}.keys()): lambda items: dict.fromkeys(items).keys(),
         type({}.items()): lambda items: dict(items).items(),
         type({}.values()): lambda items: dict(enumerate(items)).values(),
         memoryview: lambda items: memoryview(bytes(items)),
         types.MappingProxyType: lambda pairs: types.MappingProxyType(dict(pairs))}
BY_NAME = {kind.__name__: kind for kind in [*VIEWS, type(None), type(...), type(NotImplemented)]}
FUNCTIONS = types.FunctionType, types.BuiltinFunctionType, types.MethodType
VALUES = set("""builtins.int builtins.float builtins.complex builtins.bool builtins.str builtins.bytes builtins.bytearray
builtins.list builtins.tuple builtins.dict builtins.set builtins.frozenset builtins.range builtins.slice builtins.object
collections.deque collections.OrderedDict collections.Counter collections.defaultdict collections.ChainMap
collections.UserDict collections.UserList collections.UserString array.array array._array_reconstructor
datetime.date datetime.time datetime.datetime datetime.timedelta datetime.timezone decimal.Decimal fractions.Fraction
uuid.UUID re._compile re.Pattern types.SimpleNamespace time.struct_time http.HTTPStatus pathlib.PosixPath
pathlib.PurePosixPath pathlib.Path ipaddress.IPv4Address ipaddress.IPv6Address ipaddress.IPv4Network ipaddress.IPv6Network
io.StringIO io.BytesIO _io.StringIO _io.BytesIO zoneinfo.ZoneInfo numpy.ndarray numpy.int8 numpy.int16 numpy.int32
numpy.int64 numpy.uint8 numpy.uint16 numpy.uint32 numpy.uint64 numpy.float16 numpy.float32 numpy.float64 numpy.complex64
numpy.complex128 numpy.bool numpy.bool_ numpy.str_ numpy.bytes_ numpy.datetime64 numpy.timedelta64""".split())
MODULES = set("abc array bisect calendar cmath collections contextlib copy dataclasses datetime decimal enum fractions "
              "functools heapq itertools json math numbers numpy operator pathlib random re statistics string textwrap "
              "time types typing uuid".split())                    # what S may name to J, as in VALUES
STANDARD = sys.stdlib_module_names - set("unittest test bdb doctest asyncio concurrent".split()) | {"numpy"}
ODD = StopIteration, StopAsyncIteration, GeneratorExit, KeyboardInterrupt          # mean something where they arrive
ABSTRACT = {value: name for name, value in vars(collections.abc).items() if isinstance(value, abc.ABCMeta)}

COMPARISONS = {"__lt__", "__le__", "__gt__", "__ge__"}
ARITHMETIC = {f"__{r}{name}__" for r in ("", "r") for name in
              "add sub mul matmul truediv floordiv mod divmod pow and or xor lshift rshift".split()}
NUMERIC = {f"__{name}__" for name in "abs neg pos invert int float complex index round trunc floor ceil".split()}
HELD = {f"__{name}__" for name in "len iter getitem contains reversed".split()}    # served by a snapshot
OTHER = {f"__{name}__" for name in "next bool hash eq call enter exit aenter aexit str repr format setitem delitem "
         "missing copy fspath".split()}
OPERATIONS = COMPARISONS | ARITHMETIC | NUMERIC | HELD | OTHER
ON_VALUES = OPERATIONS - {"__eq__", "__hash__", "__bool__", *COMPARISONS}          # of subclasses of list, int, str...


class StandIn:
    """What stand-ins for objects and for classes have in common."""

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__") and name != "__annotations__":
            raise AttributeError(name)
        return peer.ask("get", self, name)

    def __setattr__(self, name, value):
        if name.startswith(("__", "_abc_")):
            return (type if isinstance(self, type) else object).__setattr__(self, name, value)
        peer.ask("set", self, name, value)

    def __delattr__(self, name):
        peer.ask("delete", self, name)


class StandInObject(StandIn):
    __dict__ = property(lambda self: peer.ask("get", self, "__dict__"))

    def __reduce_ex__(self, _):                     # so copy.deepcopy() and pickle
        return thaw, (peer.ask("freeze", self),)


def thaw(data):
    return peer.ask("thaw", data)


def forward(name, root=None):
    """The method of a stand-in that has the other side do the operation."""
    if name == "__call__":
        return lambda self, *args, **kwargs: peer.ask("call", self, args, kwargs)

    def method(self, *args, **kwargs):              # a stranger's list is a list, whatever its class made of it
        if root and hasattr(root, name) and not peer.trusts(self):
            return getattr(root, name)(self, *args, **kwargs)
        if name in ("__exit__", "__aexit__"):
            args = *args[:2], None
        return peer.ask("op", name, self, *args) if name in OPERATIONS else peer.ask("method", self, name, args, kwargs)
    return method


class StandInClass(StandIn, abc.ABCMeta):
    """Class of the classes made for those of the other side; enumerations are iterated."""
    __call__, __iter__, __len__, __getitem__, __contains__ = map(
        forward, ("__call__", "__iter__", "__len__", "__getitem__", "__contains__"))

    def __bool__(cls):
        return True

    def __new__(cls, *_):
        raise TypeError("a class of the program's cannot be a base on this side")


class Handle(typing.NamedTuple):
    """Written as a handle even if the other side has the same."""
    thing: object


class Function(StandInObject):
    __call__ = forward("__call__")

    @property
    def __signature__(self):
        return inspect.Signature([inspect.Parameter(*part) for part in peer.ask("signature", self)])


class Writer(pickle.Pickler):
    def persistent_id(self, value):
        kind = type(value)
        if kind in FLAT:
            return None
        if id(value) in self.bag:
            return "arg", self.bag[id(value)]
        return None if kind in PLAIN else peer.instead_of(value, kind)


class AnyReader(pickle.Unpickler):
    """For S, which may trust J."""

    def persistent_load(self, what):
        return self.things[what[1]] if what[0] == "arg" else getattr(peer, "load_" + what[0])(*what[1:])


class DataReader(pickle._Unpickler):
    """For J: makes nothing but data, stand-ins, and exceptions; what is looked up is in the tables above."""
    dispatch = {code: load for code, load in pickle._Unpickler.dispatch.items() if code not in {
        opcode[0] for opcode in (pickle.INST, pickle.OBJ, pickle.EXT1, pickle.EXT2, pickle.EXT4, pickle.NEWOBJ_EX,
                                 pickle.GLOBAL, pickle.PERSID, pickle.NEXT_BUFFER, pickle.READONLY_BUFFER)}}

    def persistent_load(self, what):
        loaded = AnyReader.persistent_load(self, what)
        self.found.update({id(loaded): loaded} if what[0] == "class" else {})
        return loaded

    def find_class(self, module, name):
        return self.persistent_load(("class", module, name))

    def guarded(self, load, target):
        assert id(target) in self.found
        load(self)

    def load_reduce(self):
        self.guarded(pickle._Unpickler.load_reduce, self.stack[-2])

    def load_newobj(self):
        self.guarded(pickle._Unpickler.load_newobj, self.stack[-2])

    def load_build(self):
        self.guarded(pickle._Unpickler.load_build, type(self.stack[-2]))

    dispatch.update({pickle.REDUCE[0]: load_reduce, pickle.NEWOBJ[0]: load_newobj, pickle.BUILD[0]: load_build})


class Peer:
    reader = AnyReader

    def __init__(self, sock):
        self.sock, self.incoming = sock, sock.makefile("rb")
        self.lock, self.serving, self.prelude = threading.RLock(), 0, {}
        self.exports, self.export_ids, self.described = {0: None}, {}, set()       # ours that the other side may name
        self.stand_ins, self.stand_in_ids = {}, {}                      # theirs that we may name

    # ---- messages

    def write(self, message, things=()):
        """`things` are containers that the other side has, by their number in what it sent."""
        file, known = io.BytesIO(), set(self.described)
        writer = Writer(file, 4)
        writer.bag = {id(thing): n for n, thing in enumerate(things)}
        try:
            writer.dump(message)
            if file.tell() > FRAME_LIMIT:
                raise ValueError("more data than may cross at once")
        except BaseException:
            self.described = known
            raise
        self.sock.sendall(struct.pack("<Q", file.tell()) + file.getvalue())

    def read(self, things=()):
        size = struct.unpack("<Q", self.incoming.read(8) or self.end())[0]
        data = self.incoming.read(size) if size <= FRAME_LIMIT else b""
        reader = self.reader(io.BytesIO(data))
        reader.things, reader.found = things, {}
        return reader.load()

    def end(self):
        os._exit(0)                                 # S; a judge goes on to the next

    def trusts(self, _thing):
        return True

    def how(self):
        return ()

    def ask(self, verb, *args):
        """Have the other side do something and return (or raise) what comes of it; meanwhile do what it asks."""
        with self.lock:
            if not self.serving:
                raise RuntimeError("the tests are not waiting: a call from a thread came too late")
            things = containers(args)
            self.write(("ask", verb, args, self.how()))
            while (message := self.read(things))[0] == "ask":
                self.answer(*message[1:])
            outcome, value, events = self.accept(message, things, verb)
        for event in events:
            tell(*event)
        if outcome == "raise":
            raise value
        return value

    def accept(self, message, things, _verb):
        outcome, value, changes, events = message
        for n, items in changes:
            fill(things[n], items)
        return outcome, value, events

    def answer(self, verb, args, how):
        things, events = containers(args), []
        before = [content(thing) for thing in things]
        self.serving += 1
        try:
            with listening(how) as events:
                outcome, value = "ok", self.perform(verb, *args)
        except Gone:
            raise
        except BaseException as problem:
            outcome, value = "raise", problem
        with self.lock:
            self.serving -= 1
            self.reply(outcome, value, things, before, events)

    def reply(self, outcome, value, things, before, events):
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, 20000))    # the data may be nested deeper than the program may call
        try:
            now = [content(thing) for thing in things]
            changes = [(n, now[n]) for n, old in enumerate(before) if not is_same(now[n], old)]
            self.write((outcome, value, changes, events), things)
        except Exception as problem:                # not to be written: too deep, too large, a property that raises
            self.write(("raise", ValueError(str(problem)[:300]), [], []))
        finally:
            sys.setrecursionlimit(limit)

    def perform(self, verb, *args):
        return VERBS[verb](*args)

    # ---- what is no plain data

    def instead_of(self, value, kind):
        """What to write for it; None: what pickle would."""
        if kind is Handle:
            return self.export(value.thing)
        if id(value) in self.stand_in_ids:
            return "yours", self.stand_in_ids[id(value)], content(value) if isinstance(value, ROOTS) else None
        if kind in VIEWS:
            return "view", kind.__name__, list(value.items() if kind is types.MappingProxyType else value)
        if kind.__module__ == "typing" and vars(typing).get(getattr(value, "_name", None)) is value:
            return "class", "typing", value._name   # List; List[int] is a handle
        if isinstance(value, type):
            if self.prelude.get(value.__name__) is value:
                return "class", "", value.__name__
            if BY_NAME.get(value.__name__) is value:
                return "class", "builtins", value.__name__
            if self.speaks_of(value):
                ancestors = [base.__name__ for base in value.__mro__ if base.__module__ == "builtins"]
                return "class", *library_name(value), ancestors[0]
        elif value is ... or value is NotImplemented:
            return "view", repr(value), ()
        elif isinstance(value, (io.TextIOWrapper, io.BufferedReader)) and value.readable() and not value.tell():
            return "file", os.path.abspath(value.name), value.mode          # of the folder that both share
        elif kind is types.ModuleType:
            return ("class", value.__name__, "") if value.__name__ in MODULES else self.export(value)
        elif is_numpy(value, "generic") or is_numpy(value, "ndarray") and kind.__name__ == "ndarray":
            dtype = value.dtype.descr if value.dtype.names else value.dtype.str
            return "array", dtype, getattr(value, "shape", None), isinstance(value, sys.modules["numpy"].ndarray), (
                list(value.flat) if value.dtype.hasobject else value.tobytes())
        elif isinstance(value, enum.Enum) and (self.speaks_of(kind) or self.prelude.get(kind.__name__) is kind):
            return "member", kind, value.value
        elif isinstance(value, BaseException) and (self.speaks_of(kind) or self.prelude.get(kind.__name__) is kind):
            return "exception", kind, list(value.__reduce__()[1]), dict(value.__dict__), value.__cause__
        elif self.prelude.get(kind.__name__) is kind or self.speaks_of(kind) and can_pickle(value) or (
                isinstance(value, FUNCTIONS) and self.speaks_of(value)):
            return None
        return self.export(value)

    def speaks_of(self, value):
        """Whether the other side will make what is of this class."""
        return is_known(library_name(value), value)

    def export(self, value):
        number = self.export_ids.setdefault(id(value), len(self.exports))
        self.exports[number], about = value, None
        if number not in self.described:
            self.described.add(number)
            about = describe_export(value)
        return "mine", number, about, content(value) if isinstance(value, ROOTS) else None

    def load_yours(self, number, items):
        assert type(number) is int                  # None, True and 1.0 would find something, too
        return self.filled(self.exports[number], items)

    def load_mine(self, number, about, items):
        assert type(number) is int
        if about is not None and number not in self.stand_ins:
            self.stand_ins[number] = made = STAND_INS[about[0]](*about[1:])
            self.stand_in_ids[id(made)] = number
        return self.filled(self.stand_ins[number], items)

    def filled(self, value, items):
        if isinstance(value, ROOTS) and items is not None:
            fill(value, items)
        return value

    def load_class(self, module, name, ancestor=""):
        return self.look_up(module, name, ancestor)

    def look_up(self, module, name, _ancestor=""):
        if module == "":
            return self.prelude[name]
        if module == "builtins" and name in BY_NAME:
            return BY_NAME[name]
        return functools.reduce(getattr, name.split(".") if name else [], importlib.import_module(module))

    def load_view(self, name, items):
        single = {"Ellipsis": ..., "NotImplemented": NotImplemented}
        return single[name] if name in single else VIEWS[BY_NAME[name]](items)

    def load_array(self, dtype, shape, is_array, items):
        numpy = importlib.import_module("numpy")
        dtype = numpy.dtype([tuple(part) for part in dtype] if isinstance(dtype, list) else dtype)
        if isinstance(items, list):
            made = numpy.empty(len(items), object)
            made[:] = items
        else:
            assert not dtype.hasobject              # the bytes would be pointers
            made = numpy.frombuffer(items, dtype)
        return made.reshape(shape).copy() if is_array else made[0]

    def load_file(self, path, mode):
        return open(path, mode)

    def load_member(self, kind, value):
        assert issubclass(kind, enum.Enum) and not isinstance(kind, StandInClass)
        return kind(value)

    def load_exception(self, kind, args, state, cause):
        assert issubclass(kind, BaseException) and not isinstance(kind, StandInClass)
        made = kind(*args)
        made.__dict__.update(state)
        made.__cause__ = cause
        return made


def can_pickle(value):
    """Whether pickle has a rule for it; files and iterators have a place in their stream, which would be copied."""
    if hasattr(type(value), "__next__") and not isinstance(value, (io.StringIO, io.BytesIO)):
        return False
    with contextlib.suppress(Exception):
        return bool(value.__reduce_ex__(4))
    return False


def operation(name, thing, *rest):
    if name == "__copy__":
        return importlib.import_module("copy").copy(thing)
    return thing[rest[0]] if name == "__getitem__" else getattr(type(thing), name)(thing, *rest)    # also Stack[int]


def read_once(thing):
    """What an object holds, as a dictionary or a list; one of a million things is too long."""
    if hasattr(type(thing), "keys"):
        return {key: thing[key] for key in thing.keys()}            # noqa: SIM118
    items = list(itertools.islice(iter(thing), 10**6))
    if hasattr(type(thing), "__next__") or len(items) == 10**6:
        raise TypeError("not a container")
    return items


loops = []                                          # kept: a loop that ends closes the generators it has seen


def run_coroutine(thing):
    """To its end, also while another loop of this thread waits for it."""
    async def wait():
        return await thing

    outer = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    loop = next((loop for loop in loops if not loop.is_running()), None) or asyncio.new_event_loop()
    loops[:] = {*loops, loop}
    try:
        return loop.run_until_complete(wait())
    finally:
        asyncio._set_running_loop(outer)


VERBS = {"call": lambda function, args, kwargs: function(*args, **kwargs), "get": getattr, "set": setattr,
         "method": lambda thing, name, args, kwargs: getattr(thing, name)(*args, **kwargs), "op": operation,
         "delete": delattr, "read": read_once, "await": run_coroutine, "freeze": pickle.dumps, "thaw": pickle.loads,
         "next": lambda thing, sent: thing.send(sent) if sent is not None else next(thing),
         "signature": lambda function: [(p.name, int(p.kind)) for p in inspect.signature(function).parameters.values()],
         "sleep": time.sleep, "reload": lambda: peer.execute(),
         "seed": lambda module, *args: importlib.import_module(module).seed(*args)}
OURS = {"solution", "tests", "prelude", "__main__", "sandbox_exec", None}


def library_name(value):
    """(module, name) of a class or function of the libraries, None for one of ours."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or module in OURS or not isinstance(name, str):
        return None
    found = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return (module, name) if found is value else None


def is_known(named, value):
    """Whether S may name it to J: types of data, exceptions of the library."""
    return named is not None and (f"{named[0].partition('._')[0]}.{named[1]}" in VALUES or isinstance(value, type)
                                  and issubclass(value, BaseException) and named[0].partition(".")[0] in STANDARD)


def is_ours(kind):
    return kind.__module__ in OURS


def describe_export(value):
    """The kind of stand-in that the other side makes, and what it needs to know for that."""
    kind = type(value)
    if isinstance(value, type):
        return "class", *describe_class(value)
    if isinstance(value, types.CoroutineType):
        return "coroutine",
    if isinstance(value, types.AsyncGeneratorType):
        return "async_generator",
    if hasattr(kind, "__next__") and not hasattr(kind, "__enter__") and not is_ours(kind):
        return "iterator",
    if isinstance(value, BaseException):
        args = [arg if type(arg) in FLAT else repr(arg)[:1000] for arg in value.args]
        return "exception", Handle(kind), args, value.__cause__
    if isinstance(value, FUNCTIONS) or callable(value) and kind.__module__ == "functools":
        doc = getattr(value, "__doc__", None)
        return "function", str(getattr(value, "__name__", "")), doc if type(doc) is str else None
    return "object", Handle(kind), [BASES[base](value) for base in BASES if isinstance(value, base)][:1]


def describe_class(value):
    """Name, doc; the operations its objects have; bases: classes of ours, one that holds a value, an abstract one."""
    ours = [base for base in value.__mro__ if is_ours(base)]
    roots = [base for base in value.__mro__ if base in BASES or base in ROOTS
             or issubclass(base, BaseException) and peer.speaks_of(base)][:1]
    skipped = {object, *roots, *BASES, *ROOTS, *ABSTRACT}
    bases = [base for base in value.__mro__
             if base in ours or base not in skipped and not issubclass(base, BaseException)]
    operations = {name for base in bases for name, thing in vars(base).items() if thing is not None and (
                      name in OPERATIONS or roots and not name.startswith("_") and hasattr(roots[0], name))}
    return (value.__name__, value.__doc__ if type(value.__doc__) is str else None, sorted(operations),
            [base for base in value.__bases__ if base in ours], roots,
            [ABSTRACT[base] for base in value.__mro__ if base in ABSTRACT][:1], library_name(value))


def stand_in_class(name, doc, operations, parents, roots, abstract, library):
    assert all(root in BASES or root in ROOTS or issubclass(root, BaseException) for root in roots) and len(roots) < 2
    assert all(isinstance(parent, StandInClass) for parent in parents)
    allowed = ON_VALUES if roots else OPERATIONS
    space = {op: forward(op, *roots) for op in operations if op in allowed or roots and not op.startswith("_")}
    space |= {"__module__": "solution", "__doc__": doc}
    if "__eq__" in space and "__hash__" not in space:
        space["__hash__"] = None
    found = library and vars(sys.modules.get(library[0]) or types).get(library[1])
    if isinstance(found, type):                     # so isinstance() works with what the tests import
        space["__class__"] = property(lambda self: found)
    inherited = lambda base: any(issubclass(parent, base) for parent in parents)
    abstract = [getattr(collections.abc, base) for base in abstract if base in ABSTRACT.values() and not roots]
    bases = *(parents or [StandInObject]), *[base for base in [*roots, *abstract] if not inherited(base)]
    made = abc.ABCMeta.__new__(StandInClass, str(name), bases, space)
    made.__abstractmethods__ = frozenset()
    return made


def stand_in_object(cls, base):
    root = type(base[0]) if base else next((root for root in ROOTS if issubclass(cls, root)), object)
    assert isinstance(cls, StandInClass) and (root in BASES or not base)
    return root.__new__(cls, *base)


def stand_in_exception(cls, args, cause):
    assert issubclass(cls, BaseException) and isinstance(cause, (BaseException, type(None)))
    made = cls.__new__(cls, *args)
    BaseException.args.__set__(made, tuple(args))
    made.__cause__ = cause
    return made


def stand_in_function(name, doc):
    function = Function()
    for key, value in {"__name__": str(name), "__qualname__": str(name), "__doc__": doc}.items():
        object.__setattr__(function, key, value)
    return function


def stand_in_iterator():
    def iterator():
        sent = None
        with contextlib.suppress(StopIteration):
            while True:
                sent = yield peer.ask("next", this, sent)
    this = iterator()
    return this


def stand_in_coroutine():
    async def coroutine():
        return peer.ask("await", this)
    this = coroutine()
    return this


def stand_in_async_generator():
    async def generator():
        with contextlib.suppress(StopAsyncIteration):
            while True:
                yield peer.ask("await", peer.ask("op", "__anext__", this))
    this = generator()
    return this


STAND_INS = {name[9:]: make for name, make in globals().items() if name.startswith("stand_in_")}


# ---- containers

def containers(value):
    """The containers in a value that can change, in an order that is the same on both sides."""
    found, seen, left = [], set(), [value]
    while left:
        value = left.pop()
        if type(value) in FLAT or id(value) in seen:
            continue
        seen.add(id(value))
        is_mutable = type(value) in PLAIN - {tuple, frozenset} or is_attributes(value) or (
            isinstance(value, (*ROOTS, io.StringIO, io.BytesIO))) or (
            is_numpy(value, "ndarray") and type(value).__name__ == "ndarray")
        if is_mutable:
            found.append(value)
        if type(value) in (tuple, frozenset) or is_mutable and not isinstance(value, array.array):
            left += content(value)
    return found


def is_attributes(value):
    """Whether it is an object of a class of the prelude that is made of its attributes alone."""
    kind = type(value)
    return peer.prelude.get(kind.__name__) is kind and hasattr(value, "__dict__") and not isinstance(
        value, (*BASES, *ROOTS, BaseException, enum.Enum))


def content(value):
    """What a container holds, as a flat list; by the methods of its root, whatever its class made of them."""
    if isinstance(value, dict):
        root = collections.OrderedDict if isinstance(value, collections.OrderedDict) else dict
        return [part for pair in root.items(value) for part in pair]
    if isinstance(value, (io.StringIO, io.BytesIO)):
        return ["", 0] if value.closed else [value.getvalue(), value.tell()]
    if isinstance(value, bytearray):
        return [memoryview(value).tobytes()]
    if is_numpy(value, "ndarray"):
        return list(value.flat) if value.dtype.hasobject else [value.tobytes()]
    for root in (list, set, collections.deque, tuple, frozenset, array.array):
        if isinstance(value, root):
            return list(root.__iter__(value))
    return [part for pair in vars(value).items() for part in pair]


def is_same(new, old):
    return len(new) == len(old) and all(
        a is b or type(a) in FLAT and type(a) is type(b) and a == b for a, b in zip(new, old))


def fill(container, items):
    """Make a container hold these items, in place."""
    if isinstance(container, dict):
        root = collections.OrderedDict if isinstance(container, collections.OrderedDict) else dict
        root.clear(container)
        for key, value in zip(items[::2], items[1::2]):
            root.__setitem__(container, key, value)
    elif isinstance(container, (list, bytearray, array.array)):
        root = next(root for root in (list, bytearray, array.array) if isinstance(container, root))
        root.__setitem__(container, slice(None), items if root is list else items[0] if root is bytearray else
                         array.array(container.typecode, items))
    elif isinstance(container, (set, collections.deque)):
        root = set if isinstance(container, set) else collections.deque
        root.clear(container)
        (set.update if root is set else collections.deque.extend)(container, items)
    elif isinstance(container, (io.StringIO, io.BytesIO)):
        container.seek(0)
        container.truncate()
        container.write(items[0])
        container.seek(items[1])
    elif is_numpy(container, "ndarray"):
        items = items if container.dtype.hasobject else items[0]
        container[...] = peer.load_array(container.dtype, container.shape, True, items)
    else:
        vars(container).clear()
        vars(container).update(zip(items[::2], items[1::2]))


def is_numpy(value, kind):
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, getattr(numpy, kind))


def is_plain(value):
    return type(value) in FLAT or type(value) in PLAIN and all(map(is_plain, content(value)))


# ---- what tests observe besides: printed text, input, warnings, log records

class Teller(io.TextIOBase):
    def __init__(self, events, word):
        self.events, self.word = events, word

    def write(self, text):
        self.events.append([self.word, str(text)])
        return len(text)


class Input(io.TextIOBase):
    def readline(self, *_):
        return peer.ask("io", "readline", (), {})

    def read(self, *_):
        return peer.ask("io", "read", (), {})


@contextlib.contextmanager
def listening(how):
    """While S does what tests that touch their process asked: its output to them, its input from them, and so on."""
    events, saved, level = [], (sys.stdout, sys.stderr, sys.stdin), logging.root.level
    if not how:
        yield events
        return
    if how[0]:
        cwd, environment = how[0]
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(environment)
    patched = {name: getattr(builtins, name) for name in how if name in ("input", "print", "open")}
    handler = logging.Handler()
    handler.emit = lambda record: events.append(["log", record.name, record.levelno, record.getMessage()])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if "stdout" in how:
            sys.stdout, sys.stderr = Teller(events, "out"), Teller(events, "err")
        if "input" in how:
            sys.stdin = Input()
        for name in patched:
            setattr(builtins, name, lambda *args, name=name, **kwargs: peer.ask("io", name, args, kwargs))
        logging.root.setLevel(1)
        logging.root.addHandler(handler)
        try:
            yield events
        finally:
            sys.stdout, sys.stderr, sys.stdin = saved
            logging.root.setLevel(level)
            logging.root.removeHandler(handler)
            vars(builtins).update(patched)
            events += [["warn", warning.category, str(warning.message)] for warning in caught]


def tell(word, *told):
    """In J: as if it had happened here."""
    if word == "warn" and issubclass(told[0], Warning):
        warnings.warn(str(told[1]), told[0], stacklevel=4)
    elif word == "log":
        logging.getLogger(str(told[0])).log(int(told[1]), "%s", told[2])
    elif word in ("out", "err"):
        (sys.stdout if word == "out" else sys.stderr).write(str(told[0]))


peer = None                                         # of this process: J has one for each job, S one for its life


# ------------------------------------------------------------------------------------------------- J: the judge

SIMPLE_IMPORTS = MODULES | {"solution", "pytest", "unittest", "io", "contextlib", "__future__"}
NOT_SIMPLE = set("setattr delattr exec eval globals vars monkeypatch mock patch seed setrecursionlimit getcontext "
                 "setcontext simplefilter filterwarnings modules environ builtins __builtins__ __dict__ __import__ "
                 "import_module chdir seterr set_printoptions open capsys capfd caplog recwarn tmp_path tmpdir input "
                 "redirect_stdout redirect_stderr assertLogs assertWarns warns stdin stdout".split())
REACHING = NOT_SIMPLE | {"sleep", "reload", "signature", "isfunction"}             # may need the program's process
DATA_NAMES = {name for kind in (str, bytes, list, dict, set, frozenset, tuple, int, float, complex,
                                collections.deque) for name in dir(kind)} | {"all", "any", "equals"}
CHANCE = random.SystemRandom()                      # S has a copy of any other generator, and could tell a decoy


class Gone(BaseException):
    """The program closed the connection or broke its rules: nothing the tests catch."""


class Verdict(Exception):
    """The reason that ends the examination; raised where no program and no test is being run."""


def judge_jobs():
    """Judge one job after the other as long as the tests leave this process as it was."""
    server = socket.socket(fileno=3)
    sys.modules["sandbox_exec"] = types.SimpleNamespace(thaw=thaw)      # where pickle looks for it
    gc.collect()
    gc.freeze()
    send(server, "ready")
    while message := receive(server):
        job, caller, channel = message[1]
        with open(job, "rb", buffering=0) as file:
            job = json.loads(read_file(file))
        with socket.socket(fileno=caller) as caller, socket.socket(fileno=channel) as sock:
            reason, detail, is_certain, is_clean = examine(job, sock, server)
            caller.send(as_bytes([reason, detail, is_certain]))
        send(server, {"clean": is_clean, "said": "gone" if reason == "gone" else "done"})


def examine(job, channel, server):
    """(reason, detail, whether it is certain, whether this process can judge another job)"""
    global peer
    peer = Examiner(channel, server)
    try:
        tests = read_tests(job["prelude"], job["tests"])
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        return f"error: the tests or the prelude do not parse: {problem}"[:500], "", True, True
    try:
        peer.reaches = peer.opaque = tests.reaches
        with mirrored(tests.words):
            peer.write((job["prelude"], job["code"], job["entry_point"]))
            reason, detail = run_all(job, tests, test_module(job["prelude"], job["entry_point"], tests))
        if reason == "passed" and not peer.answers:
            reason, detail = "error: the tests ask nothing of the program", ""
    except BaseException as problem:
        reason, detail = explain(problem)
    finally:
        for name in ("solution", "tests"):
            sys.modules.pop(name, None)
    if peer.gone is not None:                       # also if the tests caught it
        reason = "failed: " + peer.gone if peer.gone else "gone"
    return reason, detail, reason.startswith("error: ") or not peer.opaque, tests.leave_nothing


@functools.lru_cache(16)
def read_tests(prelude, tests):
    """The tests compiled, and what else there is to know about them; many programs in a row are judged by the same."""
    prelude, tests = compile_prelude(prelude, ast.PyCF_ONLY_AST), ast.parse(tests, "tests.py")
    nodes, simple, counting = list(ast.walk(tests)), is_simple(tests) and is_simple(prelude), Counting()
    words = words_of(tests)
    code = compile(counting.visit(tests), "tests.py", "exec", dont_inherit=True)
    return types.SimpleNamespace(
        leave_nothing=simple, reaches=not simple or bool(words & REACHING), words=words, asserts=counting.seen,
        code=code,
        has_check=any(isinstance(node, ast.FunctionDef) and node.name == "check" for node in tests.body),
        names={node.id for node in nodes if isinstance(node, ast.Name)},
        imported={alias.name for node in nodes if isinstance(node, ast.ImportFrom) and node.module == "solution"
                  for alias in node.names},
        prelude=compile(prelude, "prelude.py", "exec", dont_inherit=True))


def words_of(tree):
    """All names in a program text, of whatever kind."""
    return {word for node in ast.walk(tree) for attribute in ("id", "attr", "arg", "name", "asname", "module")
            for word in str(getattr(node, attribute, None)).split(".")}


def test_module(prelude, entry_point, tests):
    """The module that the tests run in: the prelude's names, then those of the program that the tests use."""
    module, solution = types.ModuleType("tests"), RemoteModule("solution")
    offered = peer.loaded_names()
    sys.modules.update(solution=solution, tests=module)
    peer.stand_in_ids[id(solution)] = 0
    exec(tests.prelude, module.__dict__)
    peer.prelude = prelude_classes(prelude, vars(module))
    vars(module).pop(entry_point, None)             # a stub
    asked_for, given = {entry_point} | tests.imported, []
    for name in offered:
        if name not in vars(module) and name in tests.names | asked_for:
            library = {"np": "numpy"}.get(name, name)
            is_taken = name not in asked_for and (name in vars(builtins) or library in MODULES)
            value = getattr(solution, name)         # what shadows a builtin or a module of the library is not believed
            peer.opaque |= is_taken and not isinstance(value, types.ModuleType)
            if not is_taken or library in MODULES:
                vars(module)[name] = importlib.import_module(library) if is_taken else value
            given += [] if is_taken else [name]
    types.ModuleType.__setattr__(solution, "__all__", given)
    return module


class RemoteModule(types.ModuleType):
    """The tests' `solution`: each name asks S."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name in peer.prelude and name in vars(sys.modules["tests"]):
            return vars(sys.modules["tests"])[name]
        value = peer.ask("get", self, name)
        if isinstance(value, StandInClass) and name[:1].isupper():
            peer.named.add(value)
        return value

    def __setattr__(self, name, value):
        peer.ask("set", self, name, value)

    def __delattr__(self, name):
        peer.ask("delete", self, name)


class Counting(ast.NodeTransformer):
    """Count the checks that run: assert statements, calls of assert..., raises, warns and fail, and ifs that raise."""
    ran = seen = 0

    @staticmethod
    def count(value):
        Counting.ran += 1
        return value

    def wrap(self, node):
        self.seen += 1
        name = ast.copy_location(ast.Name("__counted__", ast.Load()), node)
        return ast.copy_location(ast.Call(name, [node], []), node)

    def generic_visit(self, node):
        super().generic_visit(node)
        if isinstance(node, ast.Assert) or isinstance(node, ast.If) and any(
                isinstance(inner, ast.Raise) for inner in node.body):
            node.test = self.wrap(node.test)
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            return self.wrap(node) if name.startswith("assert") or name in ("raises", "warns", "fail") else node
        return node


def is_simple(tree):
    """Whether tests can be trusted to leave nothing behind in the process that runs them, and to need nothing of it."""
    imports, changed = {}, set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            module = getattr(node, "module", None)
            imports |= {alias.asname or alias.name.split(".")[0]: (module or alias.name).split(".")[0]
                        for alias in node.names}
        if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            changed |= {name.id for name in ast.walk(node.value) if isinstance(name, ast.Name)}
    return not words_of(tree) & NOT_SIMPLE and {*imports.values()} <= SIMPLE_IMPORTS and not imports.keys() & changed


@contextlib.contextmanager
def mirrored(words):
    """Where tests seed a generator, they seed the program's too; while they sleep, its threads may call back."""
    def both(module, function):
        def mirrored(*args):
            if function is time_sleep or isinstance(args and args[0], RemoteModule):
                return peer.ask(function.__name__, *args[:function is time_sleep]) or args[0]
            if function is not reload:
                peer.ask("seed", module.__name__, *args)
            return function(*args)
        return mirrored

    time_sleep, reload = time.sleep, importlib.reload

    modules = [importlib.import_module(name) for name in ("random", "numpy.random")
               if {"seed", name.split(".")[0]} <= words]
    saved = [(time, "sleep", time.sleep), (importlib, "reload", importlib.reload),
             *[(module, "seed", module.seed) for module in modules]]
    for module, name, function in saved:
        setattr(module, name, both(module, function))
    try:
        yield
    finally:
        for module, name, function in saved:
            setattr(module, name, function)


def explain(problem):
    """(reason, detail) that goes with what the tests raised."""
    frames = [frame for frame in traceback.extract_tb(problem.__traceback__) if frame.filename == "tests.py"]
    line = f": {frames[-1].line}" if frames and frames[-1].line else ""
    from_program, told = peer is not None and id(problem) in peer.raised, describe(problem)
    if type(problem) is Verdict:
        return str(problem), ""
    if isinstance(problem, MemoryError):
        return "memory", ""
    if isinstance(problem, ModuleNotFoundError) and not from_program and problem.name not in (None, "solution"):
        return f"error: the tests need {problem.name!r}, which is not installed", ""
    if not frames and not from_program and peer is not None:    # nothing that the tests or the program did
        return f"error: the judge failed: {told[:300]}", ""
    if isinstance(problem, AssertionError) and not from_program:
        return f"failed{line or ': ' + told}"[:500], told
    return f"failed: {told[:300]}{', in' + line if line else ''}"[:500], ""


def describe(problem):
    try:
        return f"{type(problem).__name__}: {problem}"[:1000].rstrip(": ")
    except BaseException:
        return type(problem).__name__


class Examiner(Peer):
    """The judge's end: what S says is checked, what the tests know is not shown to the operators of S."""

    def __init__(self, channel, server):
        super().__init__(channel)
        self.server, self.gone, self.serving, self.raised = server, None, 1, {}
        self.named, self.tainted = set(), set()     # classes that the tests name; what came of an expected value
        self.views, self.answers, self.reaches, self._opaque = {}, 0, False, False
        self.world = os.getcwd(), dict(os.environ)
        self.base = sys.stdout, sys.stderr, sys.stdin, builtins.input, builtins.print, builtins.open

    @property
    def opaque(self):
        """Whether something crossed, or did not, that may be why the tests fail."""
        return self._opaque

    @opaque.setter
    def opaque(self, value):
        if value and not self._opaque:
            self.server.send(b"!")
        self._opaque = value

    reader = DataReader

    def end(self, why=""):
        self.gone = self.gone or why
        raise Gone(why)

    def checked(self, function, *args):
        """What comes from S is malformed only if S made it so."""
        try:
            return function(*args)
        except (ConnectionError, Gone):
            self.end()
        except Exception as problem:
            self.opaque = True
            self.end(f"the program's answer is malformed ({type(problem).__name__})")

    def loaded_names(self):
        word, *rest = self.read()
        if word == "raised":
            told = f"failed: {str(rest[0])[:300]}, while the program was loaded"
            raise Verdict("memory" if rest[1:] == [True] else told)
        if word == "syntax":
            raise Verdict("syntax")
        return self.checked(lambda: [str(name) for name in rest[0] if not name.startswith("_")])

    def read(self, things=()):
        message = self.checked(super().read, things)
        return message if type(message) is tuple and message else self.end("the program sent no answer")

    def write(self, message, things=()):
        try:
            super().write(message, things)
        except OSError:
            self.end()

    def accept(self, message, things, verb):
        outcome, value, events = self.checked(super().accept, message, things, verb)
        if outcome == "raise":
            self.checked(lambda: BaseException.args.__get__(value))
            if isinstance(value, ODD) and verb not in ("next", "await", "op"):
                self.opaque, value = True, RuntimeError(f"the program raised {type(value).__name__}")
            self.raised[id(value)] = value
        self.answers += not isinstance(value, Function) if verb == "get" else verb not in ("sleep", "seed", "reload")
        return outcome, value, events

    def answer(self, *ask):
        try:
            verb, args, _ = ask
            super().answer(verb, args if type(args) is tuple else (), ())
        except ValueError:
            self.end("the program asks what is malformed")

    def how(self):
        """What S is to tell and to ask, if these tests may want to know."""
        if not self.reaches:
            return ()
        now = sys.stdout, sys.stderr, sys.stdin, builtins.input, builtins.print, builtins.open
        out, err, given, asked, printed, opened = [a is not b for a, b in zip(now, self.base)]
        world, self.world = self.world, (os.getcwd(), dict(os.environ))
        changed = {"stdout": out or err, "input": given or asked, "print": printed, "open": opened}
        names = [name for name, is_changed in changed.items() if is_changed]
        return (self.world if self.world != world else None, *names)

    # ---- what may be named, packed and made

    def speaks_of(self, value):
        return library_name(value) is not None

    def look_up(self, module, name, ancestor=""):
        if (module == "" or f"{module.partition('._')[0]}.{name}" in VALUES or module == "builtins" and name in BY_NAME
                or not name and module in MODULES or module == "typing" and name in typing.__all__):
            return super().look_up(module, name)
        found = sys.modules.get(module)             # an exception: nothing is imported because S says so
        for part in name.split("."):
            found = getattr(found, part, None)
        found = found if found is not None else vars(builtins)[ancestor]
        assert issubclass(found, BaseException) and is_known(library_name(found), found)
        return found

    load_file = None                                # S opens nothing here

    def load_mine(self, number, about, items):
        self.opaque = self.opaque or bool(about) and about[0] != "function"
        return super().load_mine(number, about, items)

    def export(self, value):
        self.opaque = True
        return super().export(value)

    # ---- what S may ask

    def perform(self, verb, *args):
        """S may call what it was handed, use public attributes of objects of the tests' classes, and iterate."""
        if verb == "io":
            return self.input_or_output(*args)
        name, thing = args[:2] if verb == "op" else ("", args[0])
        name = args[1] if verb in ("get", "set", "delete", "method") else name
        kind = thing if isinstance(thing, type) else type(thing)
        is_mock = kind.__module__ == "unittest.mock" and not name.startswith(("_", "assert")) and (
            name.startswith("__") or name not in dir(sys.modules["unittest.mock"].NonCallableMock))
        of_tests = kind.__module__ == "tests"
        allowed = id(thing) in self.export_ids and not is_test_case(kind) and {
            "get": (of_tests or is_mock) and not name.startswith("_"), "method": of_tests and not name.startswith("_"),
            "set": of_tests and not (
                name.startswith("_") or isinstance(thing, type) or callable(getattr(kind, name, None))),
            "call": of_tests or kind.__module__ == "unittest.mock" or isinstance(thing, FUNCTIONS),
            "next": hasattr(kind, "__next__"), "await": inspect.isawaitable(thing),
            "op": name in OPERATIONS and (of_tests or kind.__module__ == "unittest.mock" or name in HELD)}.get(verb)
        if not allowed:
            raise (AttributeError if verb == "get" else PermissionError)(f"{name or verb} is not for the program")
        return super().perform(verb, *args)

    def input_or_output(self, name, args=(), kwargs=None):
        if {"readline": "input", "read": "input"}.get(name, name) not in {"input", "print", "open"} & {*self.how()[1:]}:
            raise PermissionError("not for the program")
        return getattr(sys.stdin if name.startswith("read") else builtins, name)(*args, **kwargs or {})

    # ---- what the tests may do with what is the program's

    def trusts(self, thing):
        kind = thing if isinstance(thing, type) else type(thing)
        return any(base in self.named for base in kind.__mro__)

    def is_handle(self, thing):
        return id(thing) in self.stand_in_ids

    def ask(self, verb, *args):
        if verb == "op":
            return self.operate(*args)
        if verb == "get":
            return self.attribute(*args)
        if verb not in ("next", "read"):
            self.views.clear()                      # may change what objects hold
        return super().ask(verb, *args)

    def attribute(self, thing, name):
        if isinstance(thing, Function):             # its call is all that is certain
            self.opaque = True
        value = super().ask("get", thing, name)
        is_stranger = isinstance(thing, StandInObject) and (not self.trusts(thing) or id(thing) in self.tainted)
        if is_stranger and name in DATA_NAMES and (self.is_handle(value) or id(thing) in self.tainted):
            return getattr(self.held(thing), name)  # a method that lists or numbers have is theirs
        if isinstance(thing, ROOTS) and isinstance(value, Function):
            return lambda *args, **kwargs: self.ask("method", thing, name, args, kwargs)
        return value

    def held(self, thing):
        """What an object of no class that the tests name holds, read once: it cannot say one thing, then another."""
        if id(thing) not in self.views:
            self.views[id(thing)] = super().ask("read", thing)
        assert type(self.views[id(thing)]) in (list, dict), "the program's object has no such method"
        return self.views[id(thing)]

    def operate(self, name, thing, *rest):
        """Operators. No object of the program is equal to plain data, and none gets to see what it is held against: a
        class that answers every comparison would pass every test."""
        ask = functools.partial(super().ask, "op", name, thing)
        is_trusted = self.trusts(thing)
        if name == "__eq__":
            return self.equal(thing, *rest)
        if name == "__iter__" and hasattr(type(thing), "__next__"):
            return thing
        if name in HELD and not is_trusted and not isinstance(thing, type):
            return getattr(self.held(thing), name)(*rest)
        if name == "__hash__" and not is_trusted:
            return object.__hash__(thing)
        if name == "__contains__" and rest and not self.is_handle(rest[0]):
            return bool(ask(*rest)) and not any(bool(ask(decoy)) for decoy in decoys(rest[0]))
        if name in NUMERIC | COMPARISONS | ARITHMETIC:
            return self.compute(name, ask, thing, *rest) if is_trusted else self.refuse(name)
        return ask(*rest)

    def refuse(self, name):
        raise TypeError(f"{name}: only for objects of classes that the tests name")

    def compute(self, name, ask, thing, *other):
        is_tainted = id(thing) in self.tainted
        if other and not self.is_handle(other[0]):
            if not is_plain(other[0]):
                return NotImplemented
            result = self.refuse(name) if name in COMPARISONS else ask(*other)
            if result is not NotImplemented and not self.is_handle(result):
                raise TypeError(f"{name}: a plain result of the program's own operator and a plain value")
            is_tainted |= name not in ("__mul__", "__rmul__", "__matmul__", "__rmatmul__")
        else:
            result = self.refuse(name) if is_tainted and name not in ARITHMETIC else ask(*other)
        self.tainted |= {id(result)} if is_tainted and result is not NotImplemented else set()
        return result

    def equal(self, thing, other):
        if not self.is_handle(other):
            return False if is_plain(other) else NotImplemented
        if thing is other or not self.trusts(thing) or not self.trusts(other):
            return thing is other
        answers = {}
        for question in CHANCE.sample([other, decoys(0)[0]], 2):                  # S cannot tell which one counts
            try:
                answers[question is other] = super().ask("op", "__eq__", thing, question)
            except Exception:
                answers[question is other] = False
                if question is other:
                    raise
        real, decoy = answers[True], answers[False]
        return NotImplemented if real is NotImplemented else real is True and decoy is not True


def decoys(value):
    """Values of the same kind that only an object which agrees with everything agrees with."""
    if isinstance(value, str):
        return ["".join(CHANCE.choices("abcdefghijklmnopqrstuvwxyz", k=len(value) + n)) for n in (7, 9)]
    return [CHANCE.randrange(10**9, 10**12), -CHANCE.randrange(10**9, 10**12) - 0.5]


def is_test_case(kind):
    return "unittest" in sys.modules and issubclass(kind, sys.modules["unittest"].TestCase)


# ------------------------------------------------------------------------------------------------- running tests
# Functions, plain classes of them, raises, approx, parametrize and fixtures without options are run here, as quickly as
# that goes; unittest's classes by unittest; all that needs more by the real pytest, and without it nobody can judge.

HOOKS = {f"{part}_{scope}" for part in ("setup", "teardown") for scope in ("method", "class", "module", "function")}
PLAIN_MARKS = {"parametrize", "asyncio", "timeout", "slow", "unit"}


class NeedPytest(BaseException):
    """These tests use more of pytest than is here."""


def run_all(job, tests, module):
    """(reason, detail) of the tests in their module, whose names are there already: in J or beside the program."""
    linecache.cache["tests.py"] = (len(job["tests"]), None, job["tests"].splitlines(True), "tests.py")
    is_check = job["style"] == "check" or job["style"] == "auto" and job["entry_point"] and tests.has_check
    names = {**vars(module), "__counted__": Counting.count}
    try:
        if not tests.asserts:
            raise Verdict("error: the tests have no assert")
        if is_check and job["entry_point"] not in names:
            raise Verdict(f"failed: the program does not define {job['entry_point']}")
        for attempt in run_small, run_with_pytest:
            Counting.ran = 0
            vars(module).clear()
            vars(module).update(names)
            with contextlib.suppress(NeedPytest):
                attempt(module, tests.code, module_of_check=job["entry_point"] if is_check else None)
                break
        return ("passed" if Counting.ran else "failed: the tests ran no assert"), ""
    except BaseException as problem:
        return explain(problem)


def run_small(module, code, module_of_check):
    """Run what pytest would collect in the tests: functions test*, classes Test*, unittest's test cases."""
    sys.modules["pytest"] = small_pytest()
    exec(code, vars(module))
    if module_of_check:
        module.check(vars(module)[module_of_check])
    cases = []
    for name, thing in list(vars(module).items()):
        if name in HOOKS or name == "pytestmark":
            raise NeedPytest
        if isinstance(thing, (type, types.FunctionType)) and thing.__module__ == "tests":
            if isinstance(thing, type) and is_test_case(thing):
                cases.append(functools.partial(run_test_case, thing))
            elif isinstance(thing, type) and name.startswith("Test"):
                parts = {name: part for base in reversed(thing.__mro__) for name, part in vars(base).items()}
                if parts.keys() & {*HOOKS, "pytestmark"} or any(
                        hasattr(part, "is_fixture") or isinstance(part, type) for part in parts.values()):
                    raise NeedPytest
                cases += [case for part in parts if part.startswith("test")
                          for case in cases_of(getattr(thing(), part), module)]
            elif isinstance(thing, types.FunctionType) and name.startswith("test"):
                cases += cases_of(thing, module)
    for case in cases:
        case()


def run_test_case(cls):
    unittest, errors = sys.modules["unittest"], []
    result = unittest.TestResult()
    result.addError = result.addFailure = lambda test, problem: errors.append(problem[1])
    result.addSubTest = lambda test, subtest, problem: problem and errors.append(problem[1])
    result.addUnexpectedSuccess = lambda test: errors.append(AssertionError(f"{test}: unexpected success"))
    unittest.TestSuite([unittest.defaultTestLoader.loadTestsFromTestCase(cls)]).run(result)
    if errors:
        raise errors[0]


def cases_of(function, module):
    """A test as functions to call, one for each combination of its parameter lists."""
    combined = [{}]
    for mark in [mark for mark in getattr(function, "pytestmark", ()) if mark.name == "parametrize"]:
        given = dict(zip(("argnames", "argvalues"), mark.args)) | mark.kwargs
        names, rows = given.pop("argnames"), given.pop("argvalues")
        if given.keys() - {"ids"}:
            raise NeedPytest
        names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
        rows = [row.values if isinstance(row, ParameterSet) else row if len(names) > 1 else [row] for row in rows]
        combined = [{**old, **dict(zip(names, row))} for row in rows for old in combined]

    def run(given):
        with contextlib.ExitStack() as closing:
            result = function(**arguments(function, module, given, closing))
            if inspect.iscoroutine(result):
                asyncio.run(result)

    for given in combined:
        need_fixtures(function, module, given)
    return [functools.partial(run, given) for given in combined]


def need_fixtures(function, module, given):
    for name in inspect.signature(function).parameters.keys() - given:
        if not hasattr(vars(module).get(name), "is_fixture"):
            raise NeedPytest
        need_fixtures(vars(module)[name], module, {})


def arguments(function, module, given, closing):
    """What a test or fixture is called with: parameters, and the values of fixtures, which end after the test."""
    for name in inspect.signature(function).parameters.keys() - given:
        value = vars(module)[name](**arguments(vars(module)[name], module, given, closing))
        given[name] = next(value) if inspect.isgenerator(value) else value
        if inspect.isgenerator(value):
            closing.callback(next, value, None)
    return {name: given[name] for name in inspect.signature(function).parameters}


def run_with_pytest(module, code, **_):
    """The real one; it gets the module as it is, for there is no file that the program could not read or change."""
    del sys.modules["pytest"]
    if "pytest" in cage.disabled or not importlib.util.find_spec("pytest"):
        raise ModuleNotFoundError("No module named 'pytest'", name="pytest")
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

        def pytest_exception_interact(self, call):
            problems.append(call.excinfo.value)

    ended = pytest.main(["-q", "-s", "-c", os.devnull, "--rootdir", os.getcwd(), "--noconftest", "--assert=plain",
                         "-p", "no:cacheprovider", "-p", "no:faulthandler"], plugins=[Plugin()])
    if problems or ended:
        raise problems[0] if problems else AssertionError(f"pytest ends with {ended!r}")


def small_pytest():
    """What tests get for `import pytest` first."""
    def lacking(name):
        raise AttributeError(name) if name.startswith("__") else NeedPytest

    def fail(reason="", **_):
        raise AssertionError(reason)

    def fixture(function=None, **options):
        if options or function is None:
            raise NeedPytest
        function.is_fixture = True
        return function

    pytest = types.ModuleType("pytest")
    pytest.__getattr__, pytest.raises, pytest.approx, pytest.mark = lacking, raises, Approx, Mark("", (), {})
    pytest.param, pytest.fail, pytest.fixture = ParameterSet.of, fail, fixture
    return pytest


class ParameterSet(typing.NamedTuple):
    values: tuple

    @classmethod
    def of(cls, *values, marks=None, id=None):
        if marks:
            raise NeedPytest
        return cls(values)


class Mark(typing.NamedTuple):
    """pytest.mark: a decorator that notes its name and arguments, with or without a call."""
    name: str
    args: tuple
    kwargs: dict

    def __getattr__(self, name):
        if name not in PLAIN_MARKS:
            raise NeedPytest
        return Mark(name, (), {})

    def __call__(self, *args, **kwargs):
        if not (len(args) == 1 and not kwargs and isinstance(args[0], (types.FunctionType, type))):
            return Mark(self.name, args, kwargs)
        args[0].pytestmark = [*getattr(args[0], "pytestmark", ()), self]
        return args[0]


def raises(expected, function=None, *args, match="", **kwargs):
    """As a context manager, or called with a function."""
    if function is None:
        return raising(expected, match)
    with raising(expected, match) as caught:
        function(*args, **kwargs)
    return caught


@contextlib.contextmanager
def raising(expected, match):
    def matches(pattern):
        if not re.search(pattern, str(caught.value)):
            raise AssertionError(f"{str(caught.value)!r} does not match {pattern!r}") from None
        return True

    caught = types.SimpleNamespace(type=None, value=None, match=matches)
    try:
        yield caught
    except expected as problem:
        caught.type, caught.value = type(problem), problem
        matches(match or "")
    else:
        raise AssertionError(f"did not raise {expected}")


class Approx:
    """Equal to within 1e-6 of the expected value, or 1e-12; also inside lists, tuples, dictionaries and arrays."""
    __array_ufunc__ = __hash__ = None

    def __init__(self, expected, rel=None, abs=None, nan_ok=False):
        self.expected, self.rest = expected.tolist() if is_numpy(expected, "ndarray") else expected, (rel, abs, nan_ok)
        self.rel, self.abs = 1e-6 if rel is None and abs is None else rel or 0, 1e-12 if abs is None else abs

    def __eq__(self, actual):
        actual, expected = actual.tolist() if is_numpy(actual, "ndarray") else actual, self.expected
        if isinstance(expected, dict):
            return actual == {key: Approx(value, *self.rest) for key, value in expected.items()}
        if isinstance(expected, (list, tuple)):
            return isinstance(actual, (list, tuple)) and list(actual) == [Approx(item, *self.rest) for item in expected]
        if not all(isinstance(side, (int, float, complex, Decimal)) for side in (actual, expected)):
            return bool(actual == expected)
        if actual == expected or expected != expected:
            return bool(actual == expected or self.rest[2] and actual != actual)
        return bool(abs(actual - expected) <= max(self.abs, self.rel * abs(expected)) < float("inf"))


# ------------------------------------------------------------------------------------------------- the layers

LIBC, LIBC_WITH_GIL = ctypes.CDLL(None, use_errno=True), ctypes.PyDLL(None, use_errno=True)
NEWNS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 0x1000, 0x4000, 0x40000
PDEATHSIG, DUMPABLE, SUBREAPER, NO_NEW_PRIVS = 1, 4, 36, 38                            # prctl
X86 = os.uname().machine == "x86_64"
DEVICES = [f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom")]
# Numbers of system calls: name, x86-64, aarch64 ("-": has none). What needs a capability is not among them: no program
# has one. Refused with EPERM, as nothing legitimate needs them:
REFUSED = """ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, kcmp 312 272, pidfd_getfd 438 438,
  bpf 321 280, perf_event_open 298 241, userfaultfd 323 282, add_key 248 217, request_key 249 218, keyctl 250 219,
  open_by_handle_at 304 265, fanotify_init 300 262, personality 135 92, setns 308 268, unshare 272 97, syslog 103 116,
  sched_setparam 142 118, sched_setscheduler 144 119, sched_setattr 314 274, ioprio_set 251 30, modify_ldt 154 -,
  shmget 29 194, shmctl 31 195, shmat 30 196, semget 64 190, semctl 66 191, semop 65 193, semtimedop 220 192,
  msgget 68 186, msgctl 71 187, msgsnd 69 189, msgrcv 70 188, mq_open 240 180, mq_unlink 241 181, setxattr 188 5,
  lsetxattr 189 6, fsetxattr 190 7, removexattr 197 14, lremovexattr 198 15, fremovexattr 199 16, move_pages 279 239,
  migrate_pages 256 238, mbind 237 235"""
# As if the kernel did not have them: the C library then takes another way (and memfd pages would escape every limit).
ABSENT = "clone3 435 435, io_uring_setup 425 425, memfd_create 319 279, memfd_secret 447 447"
# Without a private root: Landlock does not rule over these; success is pretended, so that shutil.copy() works.
ALWAYS_PRETENDED = "setpriority 141 140"            # would slow down the whole account
PRETENDED = "chmod 90 -, fchmodat 268 53, fchmodat2 452 452, chown 92 -, lchown 94 -, fchownat 260 54, utime 132 -, " \
            "utimes 235 -, futimesat 261 -, utimensat 280 88"
KILLS = "kill 62 129, tkill 200 130, tgkill 234 131, rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240"
GROUPS = "pidfd_send_signal 424 424"
NO_SOCKETS = "socket 41 198"
NEW_ANYTHING, TIOCSTI, TIOCLINUX = 0x7E020000, 0x5412, 0x541C
CLONE, PRLIMIT, IOCTL, SECCOMP, CAPSET, PIVOT_ROOT = (
    (56, 302, 16, 317, 126, 155) if X86 else (220, 261, 29, 277, 91, 41))
MOUNT_SETATTR, CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 442, 444, 445, 446
OWN_PID = 0x7ABCDEF1                                # in the filter: to be replaced


class LayerFailed(Exception):
    def __init__(self, layer, why):
        super().__init__(f"{layer}: {why}")
        self.layer = layer


def libc(name, *args):
    """Call a function of the C library, or a system call by its number."""
    function, args = (LIBC.syscall, (name, *args)) if isinstance(name, int) else (getattr(LIBC, name), args)
    result = function(*(ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args))
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")
    return result


class Cage:
    """What the fork server enters once, and what each of its forks is put into."""

    def __init__(self, disabled):
        self.disabled, self.is_root = disabled, os.getuid() == 0
        self.on = set(LAYERS if sys.platform == "linux" else ["rlimits"]) - disabled
        self.home, self.ruleset, self.abi, self.base_rss = os.path.expanduser("~"), None, 0, 0
        self.private = "namespaces" in self.on
        self.scratch = "/job" if self.private else tempfile.mkdtemp(prefix="sandbox-")
        self.writable = ["/dev/shm", self.scratch] if self.private else [self.scratch]
        self.folders = []                           # open: what lies at the paths later need not be they
        self.guard, self.has_own_uid = None, False

    def enter(self):
        global proc_fd
        set_limit(resource.RLIMIT_STACK, STACK_MB << 20, soft=True)
        set_limit(resource.RLIMIT_NOFILE, OPEN_FILES)
        self.null = fcntl.fcntl(os.open("/dev/null", os.O_RDWR), fcntl.F_DUPFD_CLOEXEC, 100)
        if os.path.isdir("/proc/self"):
            proc_fd = fcntl.fcntl(os.open("/proc", os.O_RDONLY), fcntl.F_DUPFD_CLOEXEC, 100)
        become_subreaper()
        self.try_layer("namespaces", self.enter_namespaces)
        if self.is_root and not self.private:
            self.drop_uid()
        os.environ.update(HOME=self.scratch, TMPDIR=self.scratch)
        tempfile.tempdir = None
        os.chdir(self.scratch)
        self.open_folders()
        if "landlock" in self.on and not self.private:
            importlib.import_module("_multiprocessing").SemLock = PipeSemaphore
        if sys.platform == "linux":
            libc("prctl", NO_NEW_PRIVS, 1, 0, 0, 0)
        self.try_layer("landlock", self.make_ruleset)
        for_all, self.fork_filter = self.make_filters()
        self.try_layer("seccomp", self.filter_calls, for_all)
        if sys.platform == "linux":
            libc("prctl", DUMPABLE, 0)
        self.settle()

    def try_layer(self, layer, function, *args):
        if layer in self.on:
            try:
                function(*args)
            except OSError as problem:
                raise LayerFailed(layer, problem) from None

    def enter_namespaces(self):
        """An ordinary user needs the user namespace first; root makes the others, becomes an ordinary user, then it."""
        others = NEWNS | NEWNET | NEWIPC
        if self.is_root:
            libc("unshare", others)
            self.make_root()
            self.drop_uid()
        uid, gid = os.getuid(), os.getgid()
        libc("unshare", NEWUSER if self.is_root else NEWUSER | others)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            fd = os.open(f"self/{name}", os.O_WRONLY, dir_fd=proc_fd)
            os.write(fd, text.encode())
            os.close(fd)
        if not self.is_root:
            self.make_root()

    def drop_uid(self):
        """From root to a user of this server's own: uid 0 is above RLIMIT_NPROC and file modes."""
        uid = 61000 + os.getpid() % 4000
        needed = [] if self.private else parents(os.__file__) + parents(self.scratch)
        if any(os.stat(path).st_mode & 1 == 0 for path in needed):
            return                                  # only root may read this Python, or enter TMPDIR
        self.has_own_uid = True
        for folder in self.writable:
            os.chown(folder, uid, uid)
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        libc("prctl", DUMPABLE, 1, 0, 0, 0)

    def readable(self):
        """What a program may read: the system's libraries and this Python; nothing that holds the user's home."""
        packages = [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
        paths = {"/usr", "/lib", "/lib32", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/localtime", sys.prefix,
                 sys.base_prefix, sys.exec_prefix, *packages}
        home = os.path.realpath(self.home) + "/"
        return sorted(path for path in paths
                      if os.path.exists(path) and not home.startswith(os.path.realpath(path) + "/"))

    def make_root(self):
        """A root of its own: a tmpfs with read-only views of the readable paths, a scratch folder, and no /proc."""
        views = [(path, os.path.realpath(path)) for path in self.readable() + DEVICES]
        mount(None, "/", None, MS_REC | MS_PRIVATE)
        mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID, "size=4m,mode=755")
        os.chdir("/tmp")
        os.mkdir("old")
        libc(PIVOT_ROOT, b".", b"old")
        os.chdir("/")
        for real in sorted({real for _, real in views}):
            if not os.path.exists(real):            # else inside one that is there
                os.makedirs(real if os.path.isdir("/old" + real) else os.path.dirname(real), exist_ok=True)
                if not os.path.isdir(real):
                    open(real, "w").close()
                mount("/old" + real, real, None, MS_BIND | MS_REC)
        for path, real in views:
            if not os.path.lexists(path):
                os.makedirs(os.path.dirname(path), exist_ok=True)
                os.symlink(real, path)
        for path in self.writable:
            os.makedirs(path, exist_ok=True)
        if not os.path.lexists("/tmp"):
            os.symlink(self.scratch, "/tmp")
        libc("umount2", b"/old", 2)                 # MNT_DETACH
        os.rmdir("/old")
        read_only = struct.pack("<4Q", 1 | MS_NOSUID, 0, 0, 0)
        libc(MOUNT_SETATTR, -100, b"/", 0x8000, read_only, len(read_only))         # recursive
        for path in self.writable:
            mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, f"size={SCRATCH_MB}m,nr_inodes=20000,mode=1777")

    def make_ruleset(self):
        """Landlock: read what is readable, write in the scratch folder, no TCP, no signals to others."""
        self.abi = libc(CREATE_RULESET, None, 0, 1)
        rights = (1 << (16 if self.abi >= 5 else 15 if self.abi >= 3 else 14 if self.abi >= 2 else 13)) - 1
        size = 24 if self.abi >= 6 else 16 if self.abi >= 4 else 8
        ruleset = libc(CREATE_RULESET, struct.pack("<3Q", rights, 3, 3)[:size], size, 0)
        self.ruleset = fcntl.fcntl(ruleset, fcntl.F_DUPFD_CLOEXEC, 100)
        read, on_files = 0b1101, 0b1100000000000111
        rules = dict.fromkeys(["/"] if self.private else self.readable(), read)
        for path, allowed in [*rules.items(), *((path, rights) for path in self.writable + DEVICES)]:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
            allowed &= rights if os.path.isdir(path) else rights & on_files
            libc(ADD_RULE, self.ruleset, 1, struct.pack("<Qi", allowed, fd), 0)
            os.close(fd)

    def settle(self):
        """Note what a fork starts with; keep the collector from touching, and so copying, every page of it."""
        self.base_rss = int(proc("self/statm").split()[1]) * resource.getpagesize() if proc_fd else 0
        gc.collect()
        gc.freeze()

    def fork(self):
        if not self.private:
            return os.fork()
        pid = LIBC_WITH_GIL.syscall(CLONE, ctypes.c_long(NEWPID | signal.SIGCHLD), 0, 0, 0, 0)
        if pid == 0:                                # CPython's own fork hooks renew locks that no thread here can hold
            random.seed()
            return 0
        if pid < 0:
            problem = OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            raise problem if problem.errno in (errno.EAGAIN, errno.ENOMEM) else LayerFailed("namespaces", problem)
        return pid

    def spawn(self, fds, job, body):
        """Fork a confined process that has these descriptors, from 0 on, and no other."""
        pid = self.fork()
        if pid:
            return pid
        try:
            for target, fd in enumerate([fcntl.fcntl(fd, fcntl.F_DUPFD, 128) for fd in fds]):
                os.dup2(fd, target, inheritable=target < 3)
            self.confine(len(fds), job)
            body()
        except LayerFailed as failure:
            if body is judge_jobs:
                os.write(3, as_bytes({"failed": failure.layer, "why": str(failure)}) + b"\n")
        finally:
            os._exit(71)

    def confine(self, descriptors, job):
        """The last steps, in an order in which none forbids the next."""
        os.setsid()
        memory = job["memory_mb"] << 20
        set_limit(resource.RLIMIT_DATA, memory)
        set_limit(resource.RLIMIT_AS, 4 * memory)   # threads reserve much more than they use
        set_limit(resource.RLIMIT_FSIZE, FILE_MB << 20)
        set_limit(resource.RLIMIT_CORE, 0)
        if job["cpu"]:
            set_limit(resource.RLIMIT_CPU, int(job["cpu"]) + 2)
        if self.has_own_user():                     # else the limit would count every process of the account
            set_limit(resource.RLIMIT_NPROC, PROCESSES)
        if sys.platform == "linux":
            libc("prctl", PDEATHSIG, signal.SIGKILL)
            libc("prctl", DUMPABLE, int(bool(job["cpu"])))      # nobody looks into a judge
            libc(CAPSET, struct.pack("<Ii", 0x20080522, 0), bytes(24))
        self.try_layer("landlock", libc, RESTRICT_SELF, self.ruleset, 0)
        os.closerange(descriptors, OPEN_FILES)
        self.try_layer("seccomp", self.filter_calls, self.fork_filter)

    def filter_calls(self, program):
        program = program.replace(struct.pack("<I", OWN_PID), struct.pack("<I", os.getpid()))
        array = ctypes.create_string_buffer(program)
        libc(SECCOMP, 1, 4, struct.pack("<HxxxxxxQ", len(program) // 8, ctypes.addressof(array)))

    def make_filters(self):
        """Classic BPF over (number, architecture, arguments) of a call: one for this server and with it for all forks,
        and one, short because installing takes its time, that forbids the forks what the server does."""
        load, equal, at_least, any_bit, give = 0x20, 0x15, 0x35, 0x45, 0x06
        allow, deny, absent = 0x7FFF0000, 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS

        def answers(table, answer):
            return [step for number in numbers(table) for step in ((equal, 0, 1, number), (give, 0, 0, answer))]

        start = [(load, 0, 0, 4), (equal, 1, 0, 0xC000003E if X86 else 0xC00000B7), (give, 0, 0, 0x80000000),
                 (load, 0, 0, 0), (at_least, 0, 1, 470), (give, 0, 0, absent)]
        finish = [(give, 0, 0, deny), (give, 0, 0, allow)]
        for_all = answers(REFUSED, deny) + answers(ABSENT, absent) + answers(NO_SOCKETS, 0x50000 | errno.EACCES)
        for_all += answers(ALWAYS_PRETENDED, 0x50000)
        for_all += [(equal, 0, 4, PRLIMIT), (load, 0, 0, 16), (equal, 1, 0, 0), *finish]
        for_all += [(equal, 0, 4, IOCTL), (load, 0, 0, 24), (equal, 1, 0, TIOCSTI), (equal, 0, 1, TIOCLINUX), *finish]
        for_forks = [(equal, 0, 4, CLONE), (load, 0, 0, 16), (any_bit, 0, 1, NEW_ANYTHING), *finish]
        if not self.private:
            for_forks += answers(PRETENDED, 0x50000) + answers(GROUPS, deny)
            for_forks += answers("truncate 76 45", deny) if self.abi < 3 else []
            for number in numbers(KILLS) if self.abi < 6 else ():
                for_forks += [(equal, 0, 5, number), (load, 0, 0, 16), (equal, 2, 0, OWN_PID), (equal, 1, 0, 0), *finish]
        return [b"".join(struct.pack("<HBBI", *step) for step in [*start, *steps, finish[1]])
                for steps in (for_all, for_forks)]

    def open_folders(self):
        how = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
        self.folders = [fcntl.fcntl(os.open(path, how), fcntl.F_DUPFD_CLOEXEC, 100) for path in self.writable]

    def empty_scratch(self):
        for folder in self.folders:
            empty(folder)

    def scratch_is_full(self):
        return any(is_over(folder, SCRATCH_MB << 20, SCRATCH_FILES) for folder in self.folders)

    def has_own_user(self):
        return self.private or self.is_root and os.getuid()

    def hello(self):
        private, seccomp = self.private, "seccomp" in self.on
        protected = {"verdict": ["separate process"] * bool(private or "landlock" in self.on or self.has_own_uid),
                     "files": ["private root"] * private + [f"landlock (abi {self.abi})"] * ("landlock" in self.on),
                     "network": ["no sockets"] * seccomp,                          # a network namespace has AF_VSOCK
                     "signals": ["pid namespace"] * private + ["seccomp"] * seccomp}
        words = [f"{name}={' + '.join(how) or 'NOT PROTECTED'}" for name, how in protected.items()]
        words += [f"processes={PROCESSES if self.has_own_user() else 'watched' if proc_fd else 'NOT LIMITED'}",
                  f"tree memory={'watched' if proc_fd else 'NOT WATCHED'}",
                  f"layers={','.join(layer for layer in LAYERS if layer in self.on)}"]
        return {"banner": "sandbox: " + "; ".join(words),
                "protected": [name for name, how in protected.items() if how] + sorted(self.on)}


class PipeSemaphore:
    """For multiprocessing where /dev/shm, which its own would need, is shared with the machine: bytes in a pipe."""
    SEM_VALUE_MAX = 1 << 15

    def __init__(self, kind, value, maxvalue, name, unlink):
        self.kind, self.maxvalue, self.name, self.handle, self.count, self.owner = kind, maxvalue, name, 0, 0, None
        self.ends = os.pipe()
        os.write(self.ends[1], b"x" * min(value, self.SEM_VALUE_MAX))

    def acquire(self, block=True, timeout=None):
        if self.kind or not self._is_mine():        # 0 is the recursive one
            if not select.select([self.ends[0]], [], [], timeout if block else 0)[0]:
                return False
            os.read(self.ends[0], 1)
        self.count, self.owner = self.count + 1, (os.getpid(), threading.get_ident())
        return True

    def release(self):
        self.count -= 1
        if self.kind or not self.count:
            os.write(self.ends[1], b"x")

    def _is_mine(self):
        return self.count > 0 and self.owner == (os.getpid(), threading.get_ident())

    def _count(self):
        return self.count

    def _get_value(self):
        return struct.unpack("i", fcntl.ioctl(self.ends[0], 0x541B, bytes(4)))[0]          # FIONREAD

    def _is_zero(self):
        return not self._get_value()

    def _after_fork(self):
        self.count = 0

    __enter__ = acquire

    def __exit__(self, *_):
        self.release()


def parents(path):
    return [path[:n] for n, letter in enumerate(path) if letter == "/" and n]


def mount(source, target, kind, flags, options=None):
    texts = [text if text is None else text.encode() for text in (source, target, kind, options)]
    libc("mount", *texts[:3], flags, texts[3])


def numbers(table):
    found = [row.split()[1 if X86 else 2] for row in table.split(",")]
    return [int(number) for number in found if number != "-"]


def set_limit(which, value, soft=False):
    hard = resource.getrlimit(which)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, hard if soft else value))


def empty(folder):
    """By descriptors, for a path may have become a link, and without recursion, for a tree may be deep: what is in a
    directory moves up before the directory goes."""
    os.fchmod(folder, 0o700)
    while entries := os.listdir(folder):
        for name in entries:
            try:
                os.unlink(name, dir_fd=folder)
                continue
            except (IsADirectoryError, PermissionError):
                pass
            inner = open_below(name, folder)
            try:
                os.fchmod(inner, 0o700)
                for inside in os.listdir(inner):
                    if stat.S_ISDIR(os.lstat(inside, dir_fd=inner).st_mode):
                        os.rename(inside, os.urandom(16).hex(), src_dir_fd=inner, dst_dir_fd=folder)
                    else:
                        os.unlink(inside, dir_fd=inner)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=folder)


def is_over(folder, most_bytes, most_files):
    """Whether more than that lies in a tree; it is walked by its dots, for its paths may be longer than paths can."""
    files = size = 0
    here, left = os.dup(folder), [[]]
    with contextlib.suppress(OSError):              # it changes while this looks
        names = os.listdir(here)
        while True:
            for name in names:
                about = os.lstat(name, dir_fd=here)
                files, size = files + 1, size + about.st_blocks * 512
                left[-1] += [name] if stat.S_ISDIR(about.st_mode) else []
            while left and not left[-1]:
                left.pop()
                here = moved("..", here) if left else here
            if not left or size > most_bytes or files > most_files:
                break
            here = moved(left[-1].pop(), here)
            left.append([])
            names = os.listdir(here)
    os.close(here)
    return size > most_bytes or files > most_files


def open_below(name, folder):
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)


def moved(name, folder):
    try:
        return open_below(name, folder)
    finally:
        os.close(folder)


# ------------------------------------------------------------------------------------------------- by hand

def main():
    import argparse
    parser = argparse.ArgumentParser(description="Run one untrusted program against tests.")
    parser.add_argument("program", help="file with the untrusted program")
    parser.add_argument("tests", help='file with the tests, or .json with {"inputs": [...], "outputs": [...]}')
    parser.add_argument("--entry-point", help="name of the function under test (tests with check(candidate) need it)")
    parser.add_argument("--prelude", help="file with trusted code to run in front of both")
    parser.add_argument("--unsafe", action="store_true", help="run even where the program could reach its judge")
    parser.add_argument("--beside", action="store_true", help="for tests that patch the program's imports")
    parser.add_argument("--require", default="rlimits", choices=LEVELS, help="refuse to run with less protection")
    args = parser.parse_args()
    try:
        code, tests, prelude = [open(path, encoding="utf-8").read() if path else "" for path in
                                (args.program, args.tests, args.prelude)]
        tests = json.loads(tests) if args.tests.endswith(".json") else tests
        with Pool(1, require=args.require, unsafe=args.unsafe) as pool:
            print(pool.banner, file=sys.stderr)
            job = {"code": code, "tests": tests, "prelude": prelude, "entry_point": args.entry_point,
                   "beside": args.beside}
            (_, result), = pool.imap_unordered([(None, job)])
    except (OSError, ValueError, RuntimeError) as problem:
        sys.exit(print(f"sandbox_exec.py: {problem}", file=sys.stderr) or 2)
    print(result.reason + (f" ({result.detail})" if result.detail else ""))
    sys.exit({True: 0, False: 1, None: 3}[result.passed])


if __name__ == "__main__":
    main()
