#!/usr/bin/env python3
"""Run untrusted (model-written) Python against tests: a verdict nobody can forge, a machine nobody can hurt.

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
    beside       True: tests that must reach into the program (patch its imports) decide beside it, see below
    cpu_s        seconds of processor time of the program with its children, default 10: what decides
    wall_s       seconds that it may sleep, default 2 * cpu_s; waiting for a busy processor is not counted
    memory_mb    for each process; the whole tree may hold 1.5 times as much

`result.reason` is `passed`, `failed: <which assert or exception>`, `timeout`, `memory`, `killed`, `no
code`, `syntax`, `not judged: passes only beside its tests`, or `error: <what the sandbox could not do>`;
`passed` is True, False or, for the last two, None.

The rule: a pass is believed only from a judge that the program cannot touch, a failure only from a run in
which everything can cross. So the tests run in the judge, the program in a process of its own. A pass there
is `passed`; a failure is `failed` if only plain data crossed (and the tests touch nothing of their process).
Else the program runs once more with its tests beside it in one process, where it could forge a pass but
nothing hinders an honest one: fails there too, `failed`; passes there, `not judged`. With `beside` that pass
counts, as `passed: beside its tests`: worth what a program is worth that nobody asked to cheat.

      caller         one thread a server; has the secrets, and the expected outputs of stdio jobs
        G            guard: only waits; when F or the caller dies it kills all that is left
        F            fork server: one thread, in namespaces; never reads a program, a test, a verdict
       / \
      J - S          both confined. J: the judge of up to 500 jobs, holds the tests, tells its verdict to the
                     caller on a job's own socket. S: one a job, holds the program and one end of a socket to
                     J. (In a stdio job: files as 0, 1, 2, no J. Beside: it has the tests, and answers.)

    caller <-> F <-> J: JSON with descriptors; J -> caller: "!" once more than plain data crosses, then
    [reason, detail] as JSON. J <-> S: a pickle with its length in front, either way. J's reader is written in
    Python, makes plain data, and looks names up in tables (VALUES; exceptions of loaded modules).
      message = ("ask", verb, args)             verb: load (first), call get set delete read await ...
              | ("ok" | "raise", value, [(n, items)...])     n: n-th container in the ask's args, if changed
    What is no plain data is one of pickle's persistent ids:
              ("arg", n) | ("class", module, name, ancestor) | ("made", maker, args...)
              | ("mine", number, description or None, items) | ("yours", number, items)         a handle

Rules of J: a handle is never equal to plain data. What a function returned as a handle is read once, into a
list or dict that serves len, in, [], for, items; operators work on instances of classes that the tests name
(with a capital). S may call what the tests gave it, and read public attributes of objects of the tests'
classes. A malformed message is the program's failure. A pass needs an assert that ran and an answer of the
program.

Layers: as many as the machine has stand around S and J; `pool.banner` says which. A Pool starts only where
the program cannot write what judge or caller read later (a private root, Landlock, or another user), unless
the caller writes `unsafe=True`. `Pool(require="namespaces")` refuses to work with less. Not covered: bugs of
the kernel, side channels, reading /usr and the Python installation, a class that the tests name and that lies
about its own instances, files that tests leave in the folder both share. No sockets, ever."""
# ruff: noqa: SIM905
import ast
import asyncio
import atexit
import builtins
import collections
import concurrent.futures
import contextlib
import ctypes
import enum
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
import logging
import marshal
import mmap
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
CPU_S, MEMORY_MB, TREE_FACTOR, JUDGE_MEMORY_MB, JUDGE_JOBS, FRAME_LIMIT = 10, 1024, 1.5, 2048, 500, 64 << 20
FILE_MB, SCRATCH_MB, SCRATCH_FILES, OPEN_FILES, PROCESSES, STACK_MB = 64, 256, 20000, 256, 64, 64
JUDGE_DIED, SERVER_DIED = "error: the judge died", "error: the server of this job died or hung"


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
        self.threads = concurrent.futures.ThreadPoolExecutor(workers)
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
                for done in concurrent.futures.wait(running, return_when="FIRST_COMPLETED").done:
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


def judge(server, code, tests, style="auto", entry_point=None, prelude="", beside=False, cpu_s=CPU_S,
          wall_s=None, memory_mb=MEMORY_MB):
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
    if is_stdio and tests.get("fn_name"):
        tests, style, is_stdio = calls_of(tests["fn_name"], given, wanted), "auto", False
    if style == "check" and not entry_point:
        return Result("error: tests of the style check need an entry_point")
    limits = {"cpu_s": cpu_s, "asleep_s": wall_s or 2 * cpu_s, "memory_mb": memory_mb,
              "numpy": "numpy" in code or "numpy" in str(tests)}

    def run(mode, *contents):
        runs.append(server.run({**limits, "mode": mode}, contents))
        return runs[-1]

    if is_stdio:
        reason, detail = judge_stdio(run, code, given, wanted)
    else:
        job = {"code": code, "tests": tests, "style": style, "entry_point": entry_point,
               "prelude": prelude or ""}
        reason, detail = judge_tests(run, as_bytes(job), beside)
    return Result(reason, detail, round(sum(run.cpu_s for run in runs), 3),
                  round(sum(run.wall_s for run in runs), 3), round(max(run.memory_mb for run in runs), 1))


def judge_tests(run, job, beside):
    """Apart first; where that fails and does not show that the program is wrong, beside."""
    apart = run("apart", job)
    reason, detail = apart.ended or json.loads(apart.answer.lstrip(b"!"))
    if reason == "gone":
        end = f"failed: the program ended (exit status {apart.exit}) before it answered"
        reason, detail = apart.why or (end, "")
    is_certain = reason == "passed" or reason.startswith("error: ") or not apart.answer.startswith(b"!")
    if is_certain and reason != JUDGE_DIED:       # which may be the program's doing
        return reason, detail
    second = run("beside", job)
    if second.why:
        return second.why
    word, told = "the program ended beside its tests", ""
    with contextlib.suppress(ValueError, TypeError, RecursionError):       # it may say what it likes
        word, told = [str(part)[:1000] for part in json.loads(second.answer)]
    if word == "passed":
        not_judged = "not judged: passes only beside its tests"
        return "passed: beside its tests" if beside else not_judged, f"apart from them: {reason}"
    return word if re.match("failed: |timeout$|memory$|killed$|syntax$", word) else f"failed: {word}", told


def calls_of(name, inputs, outputs):
    """LiveCodeBench's functional problems as tests: arguments as JSON, one a line; may be Solution's."""
    given = [[json.loads(line) for line in text.splitlines() if line.strip()] if isinstance(text, str)
             else text for text in inputs]
    wanted = [json.loads(text) if isinstance(text, str) else text for text in outputs]
    return (f"import solution\ncalled = getattr(solution, 'Solution', None)\n"
            f"called = getattr(called() if called else solution, {name!r})\n"
            f"for given, wanted in zip({given!r}, {wanted!r}):\n"
            "    got = called(*given)\n    assert (list(got) if isinstance(got, tuple) else got) == wanted\n")


def judge_stdio(run, code, given, wanted):
    for n, pair in enumerate(zip(given, wanted), 1):
        text, right = ["\n".join(map(str, each)) if isinstance(each, list) else str(each) for each in pair]
        done = run("stdio", encode(text), b"", b"", as_bytes(["", code, None]))
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
            if header["mode"] == "apart" and not run.ended and not run.answer.strip(b"!"):
                run = run._replace(ended=(JUDGE_DIED, ""))
            if not run.ended or not run.ended[0].startswith("error: "):
                break
        is_theirs = run.ended == (SERVER_DIED, "") and "signals" not in self.protected
        return run._replace(ended=("killed", "")) if is_theirs else run

    def exchange(self, header, files):
        """What F answers with; G, F and J are started anew if it does not."""
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
    """F: fork a program (and once in a while a judge) per job. This process never reads a program, a test or
    a verdict, for whatever it has in memory, its forks have too."""
    try:
        cage.enter()
        judge = Judge()
        judge.start()
        send(control, cage.hello())
        while (job_and_files := receive(control)) is not None:
            job, fds = job_and_files
            if job["numpy"] and "numpy" not in sys.modules and importlib.util.find_spec("numpy"):
                importlib.import_module("numpy")           # once, before the fork
                cage.settle()
                judge.stop()
            send(control, run_job(job, fds, judge, control))
    except LayerFailed as failure:
        send(control, {"failed": failure.args})
    except ConnectionError:                       # the caller or the guard is gone
        pass


def run_job(job, fds, judge, control):
    """Fork the program, hand the tests to the judge, watch both; then nothing of the job is left."""
    started, is_apart = time.monotonic(), job["mode"] == "apart"
    try:
        if is_apart:
            ours, theirs = socket.socketpair()
            with ours, theirs:
                judge.send([*fds, ours.fileno()])
                program = cage.spawn([cage.null] * 3 + [theirs.fileno()], job, serve_program)
            fds.append(os.dup(judge.socket.fileno()))
        else:
            if job["mode"] == "stdio":
                program = cage.spawn(fds[:4], job, run_script)
            else:
                program = cage.spawn([cage.null] * 3 + fds, job, run_beside)
            fds.append(os.pidfd_open(program))
    except (OSError, LayerFailed) as problem:
        judge.stop()
        told = {"ended": ("error: no process could be started", str(problem))}
    else:
        ended, cpu, memory = watch(job, fds[-1], judge, control)
        if is_apart and (ended or not judge.may_go_on()):
            judge.stop()                          # `ended`: it still examines
        kill(program)                             # one that is ending by itself keeps its status
        _, status, used = os.wait4(program, 0)
        told = {"ended": ended, "exit": os.waitstatus_to_exitcode(status),
                "cpu_s": max(cpu, used.ru_utime + used.ru_stime),
                "memory_mb": max(memory, used.ru_maxrss * 1024) / 2**20}
    for fd in fds:
        os.close(fd)
    while not cage.private and end_tree(os.getpid(), spare=judge.pid):
        time.sleep(0.001)
    cage.empty_scratch()
    return {**told, "wall_s": time.monotonic() - started}


def watch(job, awaited, judge, control):
    """(limit reached, seconds of cpu, bytes), once the judge, or without one the program, is done."""
    started, cpu, memory, judge_before, pause, limit = time.monotonic(), 0, 0, None, 200, None
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
        processes = tree(os.getpid(), spare=judge.pid)
        cpu_now, waited, memory_now = usage(processes)
        judge_now = usage([judge.pid, *tree(judge.pid)] if judge.pid else [])
        judge_before = judge_before or judge_now
        judged, waited = judge_now[0] - judge_before[0], waited + judge_now[1] - judge_before[1]
        cpu, memory = max(cpu, cpu_now), max(memory, memory_now)
        times = f"time: {cpu:.1f} s of cpu, {wall:.1f} s of wall time"
        limit = (("timeout", f"cpu {times}") if max(cpu, judged) > job["cpu_s"] else
                 ("memory", f"{memory >> 20} MB in all processes")
                 if memory > TREE_FACTOR * job["memory_mb"] * 2**20 else
                 ("killed", "limit of processes") if len(processes) > 2 * PROCESSES else
                 ("killed", "limit of files") if not cage.private and cage.scratch_is_full() else
                 ("timeout", f"wall {times}") if wall - cpu - judged - waited > job["asleep_s"] else None)
    return limit, cpu, memory


class Judge:
    """The fork server's end of a judge process, which serves many jobs."""
    pid = None

    def start(self):
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            fds, limits = [cage.null] * 3 + [theirs.fileno()], {"memory_mb": JUDGE_MEMORY_MB}
            self.pid = cage.spawn(fds, limits, judge_jobs)
        hello, _ = receive(self.socket) or ({"failed": ["rlimits", "the judge died at once"]}, [])
        if "failed" in hello:
            raise LayerFailed(*hello["failed"])

    def send(self, fds):
        if not self.pid:
            self.start()
        send(self.socket, "job", fds)

    def may_go_on(self):
        """What it says after a job; nothing if it is dead."""
        message = receive(self.socket)
        return bool(message and message[0])

    def stop(self):
        if self.pid:
            kill(self.pid)
            os.waitpid(self.pid, 0)
            self.socket.close()
        self.pid = None


def kill(pid):
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def end_tree(pid, spare=None):
    """Kill all descendants and reap those that are ours: the one way to kill, used by caller, G and F. Again
    and again, until this finds none: what it kills may have been starting more."""
    found = tree(pid, spare)
    for child in found:
        kill(child)
    for child in found:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, os.WNOHANG)
    return found


def tree(pid, spare=None):
    """All descendants of a process, but for one of its children with its own."""
    found = [pid]
    for parent in found:
        for thread in proc(f"{parent}/task", os.listdir):
            children = proc(f"{parent}/task/{thread}/children").split()
            found += [int(child) for child in children if int(child) != spare]
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


# ------------------------------------------------------------------------------------- S: the program

def run_program(module, prelude, code, entry_point):
    """The prelude, then the program, in their module."""
    shared = run_prelude(prelude, module, entry_point) if prelude else []
    linecache.cache["solution.py"] = (len(code), None, code.splitlines(True), "solution.py")
    exec(compile(encode(code), "solution.py", "exec", dont_inherit=True), vars(module))
    for kind in map(vars(module).get, shared):    # models like to write them down once more
        if isinstance(kind, type):
            kind.__module__ = "prelude"


def new_module(*names):
    module = types.ModuleType(names[0])
    module.__file__ = "solution.py"
    sys.modules.update(dict.fromkeys(names, module))
    return module


def run_prelude(prelude, module, entry_point):
    """The names of its classes: both sides have them, in a module of that name, so their objects are data."""
    names, name = vars(module), module.__name__
    sys.modules["prelude"], module.__name__ = module, "prelude"
    with contextlib.suppress(SyntaxError):
        exec(compile_prelude(prelude) if isinstance(prelude, str) else prelude, names)
    module.__name__ = name
    names.pop(entry_point, None)                  # the prelude's own is a stub
    return [name for name, value in names.items() if getattr(value, "__module__", "") == "prelude"]


def compile_prelude(text, flags=0):
    """A prelude may end inside a function: the head that a completion continues."""
    try:
        return compile(text, "prelude.py", "exec", flags, dont_inherit=True)
    except SyntaxError:
        return compile(text + "\n    pass\n", "prelude.py", "exec", flags, dont_inherit=True)


def run_script():
    """A stdio job: 0, 1 and 2 are files, 3 holds the program; end as a script does."""
    how = {"encoding": "utf-8", "errors": "surrogateescape", "closefd": False}
    sys.stdin, sys.stdout, sys.stderr = [open(fd, "w" if fd else "r", **how) for fd in range(3)]
    job, status = json.loads(read_file(open(3, "rb", buffering=0))), 0
    for step in (lambda: run_program(new_module("__main__"), *job), threading._shutdown,
                 atexit._run_exitfuncs, lambda: sys.stdout.flush(), lambda: sys.stderr.flush()):
        try:
            step()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        except BaseException as problem:
            sys.stderr.write("".join(traceback.format_exception_only(type(problem), problem)))
            status = 1
    os._exit(status & 255)


def serve_program():
    """Do what the judge asks, for ever; first it asks to load the program."""
    global peer
    peer, module = Peer(socket.socket(fileno=3)), new_module("solution")
    peer.exports[0] = module

    def load(*job):
        VERBS["reload"] = lambda: run_program(module, *job)
        VERBS["reload"]()
        return list(vars(module))

    VERBS["load"] = load
    sys.setrecursionlimit(sys.getrecursionlimit() + 50)
    while True:
        peer.answer(*peer.read()[1:])


def run_beside():
    """The program and its tests in this process; its answer is believed only where the tests say beside."""
    job, tests = json.loads(read_file(open(3, "rb", buffering=0))), None
    module = new_module("solution", "__main__")
    with open("solution.py", "w", encoding="utf-8", errors="surrogatepass") as copy:
        copy.write(job["prelude"] + "\n" + job["code"])
    try:
        sys.path.insert(0, os.getcwd())
        run_program(module, job["prelude"], job["code"], job["entry_point"])
        tests = read_tests(job["prelude"], job["tests"])
        space = sys.modules["tests"] = types.ModuleType("tests")
        vars(space).update((name, value) for name, value in vars(module).items() if name[:2] != "__")
        answer = run_all(job, tests, space), ""
    except SyntaxError as problem:
        answer = "syntax", str(problem)
    except BaseException as problem:
        answer = explain(problem, from_program=not tests)
    socket.socket(fileno=4).send(as_bytes(answer))
    os._exit(0)


def enter_world(folder, environment, replaced):
    """In S: what tests may capture or stand in for (streams, `input`, warnings, logs) is the judge's."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for (module, name), own in OWN.items():
        setattr(sys.modules[module], name, replaced.get((module, name), own))
    handler = logging.Handler()
    handler.emit = lambda record: replaced["log"](record.name, record.levelno, record.getMessage())
    logging.root.setLevel(1)
    logging.root.handlers[:] = [handler]
    warnings.simplefilter("always")


# ------------------------------------------------------------------------------------- between J and S
# Both ends hold a Peer. Containers in the arguments of an ask are counted; the answer says by number which
# have changed. What is no data stays where it is: the other side gets a stand-in that asks back.

FLAT = {type(None), bool, int, float, str, bytes, complex}
BASES = int, float, complex, str, bytes, tuple                             # objects of subclasses equal one
DEQUE, ORDERED = collections.deque, collections.OrderedDict
ROOTS = {list: list.append, ORDERED: ORDERED.__setitem__, dict: dict.__setitem__, set: set.add,
         DEQUE: DEQUE.append, bytearray: bytearray.append}                 # how they are filled
ROOT_TYPES = tuple(ROOTS)
PLAIN = {*FLAT, *ROOTS, collections.Counter, collections.defaultdict, tuple, frozenset}
VIEWS = {type({}.keys()): (list, lambda items: dict.fromkeys(items).keys()),       # (to plain data, from it)
         type({}.items()): (list, lambda items: dict(items).items()),
         type({}.values()): (list, lambda items: dict(enumerate(items)).values()),
         memoryview: (bytes, memoryview), types.MappingProxyType: (dict, types.MappingProxyType),
         type(...): (repr, lambda _: ...), type(NotImplemented): (repr, lambda _: NotImplemented)}
FUNCTIONS = types.FunctionType, types.BuiltinFunctionType, types.MethodType
# What S may name to J: any class of these modules, and these; exceptions of the standard library.
VALUE_MODULES = set("prelude collections datetime decimal fractions uuid array pathlib ipaddress "
                    "zoneinfo".split())
VALUES = set("bool int float complex str bytes bytearray list tuple dict set frozenset range slice "
             "array._array_reconstructor re._compile re.Pattern types.SimpleNamespace types.NoneType "
             "time.struct_time http.HTTPStatus".split())
STANDARD = {"numpy", *sys.stdlib_module_names} - set("unittest test bdb doctest asyncio concurrent".split())
OURS = {"solution", "tests", "__main__", "sandbox_exec", None}
ODD = StopIteration, StopAsyncIteration, GeneratorExit, KeyboardInterrupt  # mean something where they arrive
TYPES = {id(value): name for name, value in vars(types).items() if isinstance(value, type)}
OWN = {("builtins", name): getattr(builtins, name) for name in ("input", "print", "open")} | {
    ("sys", name): getattr(sys, name) for name in ("stdin", "stdout", "stderr")} | {
    ("warnings", "showwarning"): warnings.showwarning}
dunders = lambda names: {f"__{name}__" for name in names.split()}
SCALING = dunders("mul matmul truediv floordiv mod pow rmul rmatmul rtruediv rfloordiv rmod rpow")
ARITHMETIC = SCALING | dunders(
    "lt le gt ge add sub divmod and or xor lshift rshift radd rsub rdivmod rand ror rxor rlshift rrshift "
    "abs neg pos invert int float complex index round trunc floor ceil")
HELD = dunders("len iter getitem contains reversed")                       # served by a snapshot
STEPS = dunders("next anext aiter await")
OPERATIONS = ARITHMETIC | HELD | STEPS | dunders(
    "bool hash eq call enter exit aenter aexit str repr format setitem delitem missing copy deepcopy fspath")


class StandIn:
    """What stand-ins for objects, classes and the program's module have in common."""

    def __getattr__(self, name):
        if name[:2] == name[-2:] == "__":
            raise AttributeError(name)
        return peer.ask("get", self, name)

    def __setattr__(self, name, value):
        if name.startswith("__"):
            return super().__setattr__(name, value)
        peer.ask("set", self, name, value)

    def __delattr__(self, name):
        peer.ask("delete", self, name)


def forward(name, root=None):
    """The method of a stand-in that has the other side do the operation."""
    def method(self, *args, **kwargs):            # a stranger's list is a list, whatever its class made of it
        if root and hasattr(root, name) and not peer.trusts(self):
            return getattr(root, name)(self, *args, **kwargs)
        if name in ("__exit__", "__aexit__"):
            args = *args[:2], None                # a traceback stays here
        return peer.ask("call", self, name, args, kwargs)
    return method


class StandInObject(StandIn):
    __dict__ = property(lambda self: peer.ask("get", self, "__dict__"))
    __copy__ = forward("__copy__")
    __deepcopy__ = lambda self, _: peer.ask("call", self, "__deepcopy__", (), {})


class Function(StandInObject):
    __call__ = forward("__call__")


class StandInClass(StandIn, type):
    """Class of the classes made for those of the other side; enumerations are iterated."""
    __call__, __iter__, __len__, __getitem__, __contains__ = map(
        forward, ("__call__", "__iter__", "__len__", "__getitem__", "__contains__"))
    __bool__ = lambda cls: True

    def __new__(cls, *_):
        raise TypeError("a class of the program's cannot be a base on this side")


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
        return self.things[what[1]] if what[0] == "arg" else peer.load(*what)


class DataReader(pickle._Unpickler):
    """For J: makes data, stand-ins and exceptions only; what is looked up is in the tables above."""
    dispatch = {code: load for code, load in pickle._Unpickler.dispatch.items()
                if code not in (pickle.INST[0], pickle.OBJ[0], pickle.NEWOBJ_EX[0])}
    persistent_load = AnyReader.persistent_load

    def find_class(self, module, name):
        return peer.load_class(module, name)

    def guarded(load, kind_of=lambda made: made):
        def guard(self):                          # only what may be named is called, or its objects changed
            assert is_for_data(kind_of(self.stack[-2]))
            load(self)
            drop_functions(self.stack[-1])
        return guard

    dispatch.update({pickle.REDUCE[0]: guarded(pickle._Unpickler.load_reduce),
                     pickle.NEWOBJ[0]: guarded(pickle._Unpickler.load_newobj),
                     pickle.BUILD[0]: guarded(pickle._Unpickler.load_build, type)})


class Peer:
    """One end of the connection: S's as it is, the judge's with the rules below."""
    reader, may_name = AnyReader, staticmethod(lambda value: is_for_data(value))
    note_opaque, trusts = lambda self: None, lambda self, thing: True

    def __init__(self, sock):
        self.sock, self.incoming = sock, sock.makefile("rb")
        self.lock, self.serving = threading.RLock(), 0
        self.exports, self.export_ids = {0: None}, {}                      # ours that they may name
        self.stand_ins, self.stand_in_ids = {}, {}                         # theirs that we may name

    # ---- messages

    def write(self, message, things=()):
        """`things` are containers that the other side has, by their number in what it sent."""
        file, limit = io.BytesIO(), sys.getrecursionlimit()
        writer = Writer(file, 4)
        writer.bag = {id(thing): n for n, thing in enumerate(things)}
        sys.setrecursionlimit(max(limit, 20000))                           # data may be nested deep
        try:
            writer.dump(message)
        finally:
            sys.setrecursionlimit(limit)
        if file.tell() > FRAME_LIMIT:
            raise ValueError("more data than may cross at once")
        try:
            self.sock.sendall(struct.pack("<Q", file.tell()) + file.getvalue())
        except OSError:
            self.end()

    def read(self, things=()):
        size = struct.unpack("<Q", self.incoming.read(8) or self.end())[0]
        reader = self.reader(io.BytesIO(self.incoming.read(size) if size <= FRAME_LIMIT else b""))
        reader.things = things
        return reader.load()

    def end(self):
        os._exit(0)                               # S; a judge goes on to the next

    def ask(self, verb, *args):
        """Have the other side do something, return (or raise) what comes of it; meanwhile do what it asks."""
        with self.lock:
            if not self.serving:
                raise RuntimeError("the tests are not waiting: a call from a thread came too late")
            things = containers(args)
            self.write(("ask", verb, args))
            while (message := self.read(things))[0] == "ask":
                self.answer(*message[1:])
            outcome, value = self.accept(message, things, verb, *args[1:2])
        if outcome == "raise":
            raise value
        return value

    def accept(self, message, things, _verb, _name=None):
        outcome, value, changes = message
        for n, items in changes:
            fill(things[n], items)
        return outcome, value

    def answer(self, verb, args):
        things = containers(args)
        before = [content(thing) for thing in things]
        self.serving += 1
        try:
            outcome, value = "ok", self.perform(verb, *args)
        except Gone:
            raise
        except BaseException as problem:
            outcome, value = "raise", problem
        with self.lock:
            self.serving -= 1
            try:
                now = [content(thing) for thing in things]
                changes = [(n, now[n]) for n, old in enumerate(before) if not is_same(now[n], old)]
                self.write((outcome, value, changes), things)
            except Exception as problem:          # not to be written: too deep, too large, a failing property
                self.write(("raise", ValueError(str(problem)[:300]), []))

    def perform(self, verb, *args):
        return VERBS[verb](*args)

    # ---- what is no plain data

    def instead_of(self, value, kind):
        """What to write for it; None: what pickle would."""
        if id(value) in self.stand_in_ids:
            items = content(value) if isinstance(value, ROOT_TYPES) else None
            return "yours", self.stand_in_ids[id(value)], items
        self.note_opaque()
        if kind in VIEWS:
            return "made", kind.__name__, VIEWS[kind][0](value)
        if is_array(value, or_scalar=True):
            return "made", "array" if is_array(value) else "scalar", array_bytes(value)
        thing = value if hasattr(value, "__qualname__") else kind          # Cython's functions, too
        named = self.may_name(thing) and library_name(thing)
        if named and isinstance(value, type):
            ancestors = [base.__name__ for base in value.__mro__ if base.__module__ == "builtins"]
            return "class", *named, ancestors[0]
        if named and isinstance(value, BaseException):
            return "made", "exception", kind, list(value.__reduce__()[1]), dict(vars(value)), value.__cause__
        with contextlib.suppress(Exception):      # files and iterators have a place in their stream
            if named and (isinstance(value, FUNCTIONS) or not hasattr(kind, "__next__") and
                          value.__reduce_ex__(4)):
                return None
        return self.export(value)

    def export(self, value):
        number, about = self.export_ids.setdefault(id(value), len(self.exports)), None
        if number not in self.exports:
            self.exports[number] = value
            about = describe(value)
        return "mine", number, about, content(value) if isinstance(value, ROOT_TYPES) else None

    def load(self, what, key, about=None, *rest):
        """What it stands for."""
        if what == "made":
            return MAKERS[key](about, *rest)
        if what == "class":
            return self.load_class(key, about, *rest)
        assert type(key) is int                   # None, True and 1.0 would find something, too
        if what == "yours":
            return fill(self.exports[key], about)
        if about is not None and key not in self.stand_ins:
            if about[0] != "function":
                self.note_opaque()
            self.stand_ins[key] = made = STAND_INS[about[0]](*about[1:])
            self.stand_in_ids[id(made)] = key
        return fill(self.stand_ins[key], *rest)

    def load_class(self, module, name, _ancestor=""):
        return functools.reduce(getattr, name.split("."), importlib.import_module(module))


def is_array(value, or_scalar=False):
    """Of numpy, and of numbers or texts: other arrays stay where they are, as any object does."""
    numpy, kind = sys.modules.get("numpy"), type(value)
    is_one = numpy and (kind is numpy.ndarray or or_scalar and issubclass(kind, numpy.generic))
    return is_one and not value.dtype.hasobject


def array_bytes(array):
    file = io.BytesIO()
    sys.modules["numpy"].save(file, array, allow_pickle=False)
    return file.getvalue()


def make_array(data):
    return importlib.import_module("numpy").load(io.BytesIO(data))         # no objects: it refuses pickles


def make_exception(kind, args, state, cause):
    assert issubclass(kind, BaseException) and not isinstance(kind, StandInClass)
    made = kind(*args)
    made.__dict__.update(state)
    made.__cause__ = cause
    return drop_functions(made)


MAKERS = {kind.__name__: make for kind, (_, make) in VIEWS.items()} | {
    "array": make_array, "scalar": lambda data: make_array(data)[()], "exception": make_exception}


def drop_functions(made):
    """In J: data has the methods of its class, none of its own, as a startswith that agrees to all."""
    for name, value in list(getattr(made, "__dict__", {}).items()):
        if callable(value) and not peer.trusts(value):
            peer.note_opaque()
            del vars(made)[name]
    return made


def is_for_data(value):
    """What S may name to J: types of data, exceptions of the library."""
    module, name = library_name(value) or ("", "")
    is_type, module = isinstance(value, type), module.partition("._")[0]
    return (is_type and module in VALUE_MODULES or f"{module}.{name}".removeprefix("builtins.") in VALUES
            or is_type and issubclass(value, BaseException) and module.partition(".")[0] in STANDARD)


def library_name(value):
    """(module, name) of a class or function of the libraries, None for one of ours."""
    if id(value) in TYPES:                        # they say builtins, but are not there
        return "types", TYPES[id(value)]
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    is_named = isinstance(module, str) and isinstance(name, str) and module not in OURS
    return (module, name) if is_named and find(module, name) is value else None


def find(module, path):
    """Something in a module that is loaded, or None."""
    found = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def call(thing, name, args, kwargs):
    """Its method; an operator as Python finds it, in the class: a mock's gets no self."""
    if name == "__call__":
        return thing(*args, **kwargs)
    if name in ("__copy__", "__deepcopy__"):
        return getattr(importlib.import_module("copy"), name.strip("_"))(thing)
    if name == "__getitem__":                     # also Stack[int]
        return thing[args[0]]
    if name not in OPERATIONS:
        return getattr(thing, name)(*args, **kwargs)
    method = inspect.getattr_static(type(thing), name)
    return getattr(method, "__get__", lambda *_: method)(thing, type(thing))(*args)


def read_once(thing):
    """What an object holds, as a dictionary or a list; one of a million things is too long."""
    if hasattr(type(thing), "keys"):
        return {key: thing[key] for key in thing.keys()}  # noqa: SIM118
    items = list(itertools.islice(iter(thing), 10**6))
    if hasattr(type(thing), "__next__") or len(items) == 10**6:
        raise TypeError("not a container")
    return items


loops = collections.defaultdict(asyncio.new_event_loop)        # by depth; one that ends closes its generators


def run_coroutine(thing):
    """To its end, also while another loop of this thread waits for it."""
    async def wait():
        return await thing

    outer = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        return loops[peer.serving].run_until_complete(wait())
    finally:
        asyncio._set_running_loop(outer)


VERBS = {"call": call, "get": getattr, "set": setattr, "delete": delattr, "read": read_once,
         "await": run_coroutine, "world": enter_world,
         "mirror": lambda module, name, args: getattr(importlib.import_module(module), name)(*args)}


def describe(value):
    """The kind of stand-in that the other side makes, and what it needs to know for that."""
    doc = getattr(value, "__doc__", None)
    doc = doc if type(doc) is str else None
    if isinstance(value, type):                   # bases of ours, the one it holds a value of, a library's
        root = next(base for base in value.__mro__ if base in BASES or base in ROOTS or base is object
                    or issubclass(base, BaseException) and peer.may_name(base))
        root, own = None if root is object else root, value.__mro__[:value.__mro__.index(root)]
        operations = {name for base in own for name, thing in vars(base).items() if thing is not None and (
                      name in OPERATIONS or root and name[0] != "_" and hasattr(root, name))}
        return ("class", value.__name__, doc, [base for base in value.__bases__ if base.__module__ in OURS],
                root, next(filter(None, map(library_name, own)), None), sorted(operations))
    if isinstance(value, FUNCTIONS) or callable(value) and type(value).__module__ == "functools":
        return "function", str(getattr(value, "__name__", "")), doc
    if isinstance(value, BaseException):
        held = [arg if type(arg) in FLAT else repr(arg)[:1000] for arg in value.args]
    else:
        held = next((base.__getnewargs__(value) for base in BASES if isinstance(value, base)), ())
    return "object", peer.export(type(value)), held


def stand_in_class(name, doc, parents, root, library, operations):
    is_exception = root is not None and issubclass(root, BaseException)
    assert root is None or is_exception or root in BASES or root in ROOTS
    assert all(isinstance(parent, StandInClass) for parent in parents)
    space = {op: forward(op, root) for op in operations if op in OPERATIONS or root and op[0] != "_"}
    space |= {"__module__": "solution", "__doc__": doc}
    if "__await__" in space:                      # for loops: the other side runs it to its end
        space |= {"__await__": awaited, "send": lambda self, _: next(awaited(self)), "throw": None,
                  "close": lambda self: None}
    if "__eq__" in space and "__hash__" not in space:
        space["__hash__"] = None
    found = library and find(*library)
    if isinstance(found, type) and not is_exception:           # isinstance() works with what the tests import
        space["__class__"] = property(lambda self: found)
    roots = [root] if root and not any(issubclass(parent, root) for parent in parents) else []
    return type.__new__(StandInClass, str(name), (*(parents or [StandInObject]), *roots), space)


def awaited(self):
    return peer.ask("await", self)
    yield


def stand_in_object(about_class, held):
    cls = peer.load(*about_class)
    assert isinstance(cls, StandInClass)
    return cls.__new__(cls, *held)


def stand_in_function(name, doc):
    function = Function()
    function.__name__, function.__qualname__, function.__doc__ = str(name), str(name), doc
    return function


STAND_INS = {"class": stand_in_class, "object": stand_in_object, "function": stand_in_function}


# ---- containers

def containers(value):
    """The containers in a value that can change, in an order that is the same on both sides."""
    found, seen, left = [], set(), [value]
    while left:
        value = left.pop()
        if type(value) in FLAT or id(value) in seen:
            continue
        seen.add(id(value))
        if type(value) in (tuple, frozenset):
            left += value
        elif isinstance(holder(value), ROOT_TYPES) or is_array(value):
            found.append(value)
            left += content(value)
    return found


def holder(value):
    """What holds its items: for an object of the prelude that is made of its attributes alone, these."""
    if type(value).__module__ != "prelude" or not hasattr(value, "__dict__") or isinstance(
            value, (*BASES, frozenset, *ROOTS, BaseException, enum.Enum)):
        return value
    return vars(value)


def content(value):
    """What a container holds, as a flat list; by the methods of its root, whatever its class made of them."""
    if is_array(value):
        return [array_bytes(value)]
    value = holder(value)
    root = next((root for root in ROOTS if isinstance(value, root)), type(value))
    if issubclass(root, dict):
        return [part for pair in root.items(value) for part in pair]
    return [*root.__iter__(value)]


def is_same(new, old):
    return len(new) == len(old) and all(
        a is b or type(a) in FLAT and type(a) is type(b) and a == b for a, b in zip(new, old))


def fill(container, items):
    """Make a container hold these items, in place; what is none comes without items."""
    if items is not None and is_array(container):
        container[...] = make_array(*items)
    elif items is not None:
        held = holder(container)
        root = next(root for root in ROOTS if isinstance(held, root))
        root.clear(held)
        for item in zip(items[::2], items[1::2]) if issubclass(root, dict) else zip(items):
            ROOTS[root](held, *item)
        if held is not container:
            drop_functions(container)
    return container


peer = None                                       # of this process: J has one for each job, S one


# ------------------------------------------------------------------------------------- J: the judge

MODULES = set("abc array bisect calendar cmath collections contextlib copy dataclasses datetime decimal enum "
              "fractions functools heapq itertools json math numbers numpy operator pathlib random re "
              "statistics string textwrap time types typing uuid".split())
SIMPLE_IMPORTS = MODULES | {"solution", "pytest", "unittest", "io", "__future__"}
NOT_SIMPLE = set("setattr delattr exec eval globals vars monkeypatch mock patch seed setrecursionlimit "
                 "getcontext setcontext simplefilter filterwarnings modules environ builtins __builtins__ "
                 "__dict__ __import__ import_module chdir seterr set_printoptions open capsys capfd caplog "
                 "recwarn tmp_path tmpdir input redirect_stdout redirect_stderr assertLogs assertWarns warns "
                 "stdin stdout sleep reload signature isfunction".split())
DATA_NAMES = {"all", "any", "equals"}.union(*map(dir, [str, bytes, list, dict, set, float, complex, DEQUE]))
SERVED = {"_io", "_sqlite3", "sqlite3", "_pytest.capture"}     # modules of objects whose methods S may call
MIRRORED = ("time", "sleep"), ("random", "seed"), ("numpy.random", "seed")
TOLD = {"log": lambda name, level, text: logging.getLogger(str(name)).log(int(level), "%s", text),
        ("warnings", "showwarning"): lambda text, kind, *_: warnings.warn(text, kind, stacklevel=3)}
CHANCE = random.SystemRandom()                    # S has a copy of any other generator


class Gone(BaseException):
    """The program closed the connection or broke its rules: nothing the tests catch."""


class Verdict(Exception):
    """The reason that ends the examination; raised where no program and no test is being run."""


def judge_jobs():
    """Judge one job after the other as long as the tests leave this process as it was."""
    server = socket.socket(fileno=3)
    mirror_functions()
    gc.collect()
    gc.freeze()
    send(server, "ready")
    for left in reversed(range(JUDGE_JOBS)):
        _, (job, caller, channel) = receive(server)
        job = json.loads(read_file(open(job, "rb", buffering=0)))
        with socket.socket(fileno=caller) as caller, socket.socket(fileno=channel) as channel:
            reason, detail, is_clean = examine(job, channel, caller)
            caller.send(as_bytes([reason, detail]))
        send(server, is_clean and left > 0)


def examine(job, channel, caller):
    """(reason, detail, whether this process can judge another job)"""
    global peer
    peer, detail = Examiner(channel, caller), ""
    try:
        tests = read_tests(job["prelude"], job["tests"])
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        return f"error: the tests or the prelude do not parse: {problem}"[:500], "", True
    try:
        if tests.missing:
            raise Verdict(f"error: the tests need {tests.missing[0]!r}, which is not installed")
        reason = run_all(job, tests, test_module(job, tests))
        if reason == "passed" and not peer.answers:
            reason = "error: the tests ask nothing of the program"
    except BaseException as problem:
        reason, detail = explain(problem)
    if peer.gone is not None:                     # also if the tests caught it
        reason = "failed: " + peer.gone if peer.gone else "gone"
    return reason, detail, tests.are_simple


@functools.lru_cache(16)
def read_tests(prelude, tests):
    """The tests compiled, and what else to know of them; many programs in a row are judged by the same."""
    prelude, tests = compile_prelude(prelude, ast.PyCF_ONLY_AST), ast.parse(tests, "tests.py")
    imports, used, bound, changed, words, counting = {}, set(), set(), set(), set(), Counting()
    for node in (*ast.walk(tests), *ast.walk(prelude)):
        for attribute in ("id", "attr", "arg", "name", "asname", "module"):
            words.update(str(getattr(node, attribute, None)).split("."))
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            imports |= {alias.asname or alias.name.split(".")[0]: getattr(node, "module", None) or alias.name
                        for alias in node.names}
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            bound.add(node.name)
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            changed |= {name.id for name in ast.walk(node.value) if isinstance(name, ast.Name)}
    needed = {module.partition(".")[0] for module in imports.values()}
    return types.SimpleNamespace(
        has_check=any(isinstance(node, ast.FunctionDef) and node.name == "check" for node in tests.body),
        code=compile(counting.visit(tests), "tests.py", "exec", dont_inherit=True), asserts=counting.seen,
        prelude=compile(prelude, "prelude.py", "exec", dont_inherit=True),
        are_simple=needed <= SIMPLE_IMPORTS and not words & NOT_SIMPLE and not imports.keys() & changed,
        missing=[name for name in needed - OURS - {"pytest"} if not importlib.util.find_spec(name)],
        names=used, bound=bound | imports.keys())


def test_module(job, tests):
    """The module that the tests run in: the prelude's names, then those of the program that they use."""
    offered, entry_point = peer.start(job, tests), job["entry_point"]
    module, solution = types.ModuleType("tests"), RemoteModule("solution")
    sys.modules.update(solution=solution, tests=module)
    peer.stand_in_ids[id(solution)] = 0
    run_prelude(tests.prelude, module, entry_point)
    for name in offered:
        if name == entry_point or name in tests.names and name not in vars(module):
            known = None if name == entry_point else known_to_all(name)
            if known is not None:                 # what shadows these is not believed
                peer.note_opaque()
            vars(module)[name] = getattr(solution, name) if known is None else known
    others = map(vars(module).get, tests.bound)   # these mean something else to them
    peer.named -= {value for value in others if isinstance(value, StandInClass)}
    return module


def known_to_all(name):
    """A module, something of typing or a builtin that tests mean by a name."""
    name = {"np": "numpy"}.get(name, name)
    if name in MODULES:
        return importlib.import_module(name)
    return getattr(typing, name) if name in typing.__all__ else vars(builtins).get(name)


class RemoteModule(StandIn, types.ModuleType):
    """The tests' `solution`: each name asks S."""
    __all__ = ()                                  # the tests have all names that they use

    def __getattr__(self, name):
        value = super().__getattr__(name)
        if isinstance(value, StandInClass) and name[:1].isupper():
            peer.named.add(value)
        return value


class Counting(ast.NodeTransformer):
    """Count the checks that run: asserts, calls of assert..., raises, warns and fail, and ifs that raise."""
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
        called = getattr(node, "func", None)
        name = str(getattr(called, "attr", getattr(called, "id", "")))
        return self.wrap(node) if name.startswith("assert") or name in ("raises", "warns", "fail") else node


def mirror_functions():
    """In J: a generator that tests seed is seeded in S, too; while they sleep, its threads may call back."""
    def mirrored(module, name, own, *args):
        if peer and peer.gone is None:
            peer.ask("mirror", module, name, args)
        return own(*args)

    for module, name in MIRRORED:
        if module.partition(".")[0] in sys.modules:
            ours = importlib.import_module(module)
            setattr(ours, name, functools.partial(mirrored, module, name, getattr(ours, name)))
    reload = importlib.reload
    importlib.reload = lambda module: (
        peer.ask("reload") or module if isinstance(module, RemoteModule) else reload(module))


def explain(problem, from_program=False):
    """(reason, detail) that goes with what the tests raised."""
    if type(problem) is Verdict:
        return str(problem), ""
    if isinstance(problem, MemoryError):
        return "memory", ""
    frames = [frame for frame in traceback.extract_tb(problem.__traceback__) if frame.filename == "tests.py"]
    line = f": {frames[-1].line}" if frames and frames[-1].line else ""
    from_program, told = from_program or bool(peer) and id(problem) in peer.raised, describe_error(problem)
    if not frames and not from_program and peer is not None:   # nothing that the tests or the program did
        return f"error: the judge failed: {told[:300]}", ""
    if isinstance(problem, AssertionError) and not from_program:
        return f"failed{line or ': ' + told}"[:500], told
    return f"failed: {told[:300]}{', in' + line if line else ''}"[:500], ""


def describe_error(problem):
    try:
        return f"{type(problem).__name__}: {problem}"[:1000].rstrip(": ")
    except BaseException:
        return type(problem).__name__


class Examiner(Peer):
    """The judge's end: what S says is checked, what the tests know is not shown to the operators of S."""
    reader, may_name = DataReader, staticmethod(library_name)

    def __init__(self, channel, caller):
        super().__init__(channel)
        self.caller, self.gone, self.serving, self.raised = caller, None, 1, {}
        self.named, self.views = {RemoteModule}, {}            # what the tests name; what other objects hold
        self.answers, self.opaque, self.world = 0, False, None             # None: the tests need no world

    def note_opaque(self):
        """Something crossed, or did not, that may be why the tests fail."""
        if not self.opaque:
            self.caller.send(b"!")
        self.opaque = True

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
            self.note_opaque()
            self.end(f"the program's answer is malformed ({type(problem).__name__})")

    def start(self, job, tests):
        """The names of the program; from then on, both processes look alike to tests that look around."""
        try:
            names = self.ask("load", job["prelude"], job["code"], job["entry_point"])
        except Exception as problem:
            word = "syntax" if isinstance(problem, SyntaxError) else "memory"
            told = f"failed: {describe_error(problem)[:300]}, while the program was loaded"
            raise Verdict(word if isinstance(problem, (SyntaxError, MemoryError)) else told) from None
        if not tests.are_simple:
            self.note_opaque()
            self.world = ()
        return self.checked(lambda: [str(name) for name in names if not name.startswith("_")])

    def read(self, things=()):
        message = self.checked(super().read, things)
        is_well_formed = type(message) is tuple and len(message) == 3
        if not is_well_formed or message[0] == "ask" and not (type(message[2]) is tuple and message[2]):
            self.end("the program sent no answer")
        return message

    def accept(self, message, things, verb, name=None):
        outcome, value = self.checked(super().accept, message, things, verb)
        if outcome == "raise":
            self.checked(lambda: BaseException.args.__get__(value))
            if isinstance(value, ODD) and verb != "await" and not (verb == "call" and name in STEPS):
                self.note_opaque()
                value = RuntimeError(f"the program raised {type(value).__name__}")
            self.raised[id(value)] = value
        asks_program = verb not in ("load", "reload", "mirror", "world")
        self.answers += type(value) is not Function if verb == "get" else asks_program
        return outcome, value

    def load_class(self, module, name, ancestor=""):
        """Nothing is imported because S says so, but for types of data."""
        if module.partition("._")[0] in VALUE_MODULES | {"re", "time", "http"}:
            importlib.import_module(module)
        found = find(module, name)
        found = found if found is not None else vars(builtins)[ancestor]
        assert is_for_data(found)                 # it may be reached by another name
        return found

    # ---- what S may ask

    def perform(self, verb, *args):
        """S may call what it was handed, use public attributes of objects of the tests' classes, iterate."""
        thing, name = args[0], args[1] if len(args) > 1 and type(args[1]) is str else ""
        kind = thing if isinstance(thing, type) else type(thing)
        module, is_public = kind.__module__, not name.startswith("_")
        of_tests, of_mock = module == "tests" and not is_test_case(kind), module == "unittest.mock"
        of_library = module in SERVED and "extension" not in name          # sqlite's could be any code
        may_use = is_public and (of_tests or of_library or of_mock and not (
            name.startswith("assert") or hasattr(sys.modules["unittest.mock"].NonCallableMock, name)))
        may_call = (of_tests or of_mock or isinstance(thing, (*FUNCTIONS, functools.partial))
                    if name == "__call__" else
                    may_use or name in (OPERATIONS if of_tests or of_mock or of_library else HELD | STEPS))
        is_allowed = id(thing) in self.export_ids and {
            "get": may_use, "call": may_call, "await": inspect.isawaitable(thing),
            "set": of_tests and is_public and thing is not kind and not callable(getattr(kind, name, None)),
        }.get(verb)
        if not is_allowed:
            raise AttributeError(f"{name or verb} is not for the program")
        return super().perform(verb, *args)

    # ---- what the tests may do with what is the program's

    def trusts(self, thing):
        kind = thing if isinstance(thing, type) else type(thing)
        return any(base in self.named for base in kind.__mro__)

    def ask(self, verb, *args):
        if verb == "call" and args[1] in OPERATIONS and args[1] != "__call__":
            return self.operate(args[0], args[1], *args[2])
        if verb == "get":
            return self.attribute(*args)
        self.views.clear()                        # it may change what objects hold
        if self.world is not None:                # what tests may change around a program
            now = {key: getattr(sys.modules[key[0]], key[1]) for key in OWN}
            replaced = {key: value for key, value in now.items() if value is not OWN[key]} | TOLD
            world = os.getcwd(), dict(os.environ), replaced
            if world != self.world:
                self.world = world
                super().ask("world", *world)
        return super().ask(verb, *args)

    def attribute(self, thing, name):
        if type(thing) is Function:               # its call is all that is certain
            self.note_opaque()
        value = super().ask("get", thing, name)
        if not self.trusts(thing) and name in DATA_NAMES and id(value) in self.stand_in_ids:
            return getattr(self.held(thing), name)             # a method that lists or numbers have is theirs
        if isinstance(thing, ROOT_TYPES) and type(value) is Function:
            return lambda *args, **kwargs: self.ask("call", thing, name, args, kwargs)
        return value

    def held(self, thing):
        """What an object of no class that the tests name holds, read once: it cannot say this, then that."""
        if id(thing) not in self.views:
            self.views[id(thing)] = super().ask("read", thing)
        assert type(self.views[id(thing)]) in (list, dict), "the program's object has no such method"
        return self.views[id(thing)]

    def operate(self, thing, name, *rest):
        """Operators. No object of the program is equal to plain data, and none gets to see what it is held
        against, or tells how far it is from that: one that answers every comparison would pass every test."""
        is_trusted, is_handle = self.trusts(thing), not rest or id(rest[0]) in self.stand_in_ids
        if name == "__eq__" and not (is_trusted and is_handle and self.trusts(rest[0])):
            return thing is rest[0] or NotImplemented
        if name == "__iter__" and hasattr(type(thing), "__next__"):
            return thing
        if name in HELD and not is_trusted:
            return getattr(self.held(thing), name)(*rest)
        if name in ARITHMETIC and not (is_trusted and (is_handle or name in SCALING)):
            raise TypeError(f"{name}: only for objects of classes that the tests name")
        result = super().ask("call", thing, name, rest, {})
        if name in ("__exit__", "__aexit__") and isinstance(rest[1], AssertionError):
            raise rest[1]                         # whatever it says: the tests' own is not for it to end
        is_plain_result = result is not NotImplemented and id(result) not in self.stand_in_ids
        if name in SCALING and not is_handle and is_plain_result:
            raise TypeError(f"{name}: a plain result of the program's own operator and a plain value")
        if name == "__contains__" or name == "__eq__" and result is not NotImplemented:
            with contextlib.suppress(Exception):  # of one that agrees with all, this is no news
                result = result is True and super().ask(
                    "call", thing, name, (CHANCE.getrandbits(60),), {}) is not True
            return result is True
        return result


def is_test_case(kind):
    return "unittest" in sys.modules and issubclass(kind, sys.modules["unittest"].TestCase)


# ------------------------------------------------------------------------------------- running tests
# Functions, asserts, raises and approx are run here, as quickly as that goes; unittest's classes by unittest;
# all that needs more by the real pytest, and without it nobody can judge.

HOOKS = {"pytestmark", "setup_module", "teardown_module", "setup_function", "teardown_function"}


class NeedPytest(BaseException):
    """These tests use more of pytest than is here."""


def run_all(job, tests, module):
    """The reason, if the tests in their module, which has their names, raise nothing: in J or beside."""
    linecache.cache["tests.py"] = (len(job["tests"]), None, job["tests"].splitlines(True), "tests.py")
    is_check = job["style"] == "check" or job["style"] == "auto" and job["entry_point"] and tests.has_check
    if not tests.asserts:
        raise Verdict("error: the tests have no assert")
    if is_check and job["entry_point"] not in vars(module):
        raise Verdict(f"failed: the program does not define {job['entry_point']}")
    for attempt in run_small, run_with_pytest:
        Counting.ran, module.__counted__ = 0, Counting.count
        with contextlib.suppress(NeedPytest):
            attempt(module, tests.code, job["entry_point"] if is_check else None)
            break
    return "passed" if Counting.ran else "failed: the tests ran no assert"


def run_small(module, code, checked):
    """Run what pytest would collect in the tests: functions test*, unittest's test cases."""
    sys.modules["pytest"] = pytest = types.ModuleType("pytest")
    vars(pytest).update(__getattr__=need_pytest, raises=raises, approx=Approx)
    exec(code, vars(module))
    if checked:
        module.check(vars(module)[checked])
    own = [thing for thing in list(vars(module).values()) if getattr(thing, "__module__", None) == "tests"]
    functions = [thing for thing in own if type(thing) is types.FunctionType and thing.__name__[:4] == "test"]
    classes = [thing for thing in own if isinstance(thing, type)]
    if (vars(module).keys() & HOOKS or any(inspect.signature(function).parameters for function in functions)
            or any(kind.__name__[:4] == "Test" and not is_test_case(kind) for kind in classes)):
        raise NeedPytest
    for kind in filter(is_test_case, classes):
        run_test_case(kind)
    for function in functions:
        result = function()
        if inspect.iscoroutine(result):
            asyncio.run(result)


def run_test_case(cls):
    unittest, errors = sys.modules["unittest"], []
    result = unittest.TestResult()
    result.addError = result.addFailure = lambda test, problem: errors.append(problem[1])
    result.addSubTest = lambda test, subtest, problem: problem and errors.append(problem[1])
    result.addUnexpectedSuccess = lambda test: errors.append(Verdict(f"failed: {test}: unexpected success"))
    result.addExpectedFailure = lambda test, problem: problem[0] is AssertionError and Counting.count(None)
    unittest.TestSuite([unittest.defaultTestLoader.loadTestsFromTestCase(cls)]).run(result)
    if errors:
        raise errors[0]


def run_with_pytest(module, code, _):
    """The real one; it gets the module as it is: a file is what the program could read or change."""
    del sys.modules["pytest"]
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
                names = inspect.signature(test).parameters
                asyncio.run(test(**{name: pyfuncitem.funcargs[name] for name in names}))
                return True

        def pytest_exception_interact(self, call):
            problems.append(call.excinfo.value)

    options = "-q -s --noconftest --assert=plain -p no:cacheprovider -p no:faulthandler"
    ended = pytest.main([*options.split(), "-c", os.devnull, "--rootdir", os.getcwd()], plugins=[Plugin()])
    if problems or ended:
        raise problems[0] if problems else AssertionError(f"pytest ends with {ended!r}")


# What tests get for `import pytest` first.

def need_pytest(name):
    raise AttributeError(name) if name.startswith("__") else NeedPytest


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


class Approx:
    """Numbers and lists or tuples of them, equal to within 1e-6 of what is expected, or 1e-12."""
    __array_ufunc__ = __hash__ = None

    def __init__(self, expected, rel=None, abs=None, **more):
        if more or not isinstance(expected, (int, float, complex, list, tuple)):
            raise NeedPytest
        self.expected, self.rest = expected, (rel, abs)
        self.rel, self.abs = 1e-6 if rel is None and abs is None else rel or 0, 1e-12 if abs is None else abs

    def __eq__(self, actual):
        if isinstance(self.expected, (list, tuple)):
            wanted = [Approx(item, *self.rest) for item in self.expected]
            return isinstance(actual, (list, tuple)) and list(actual) == wanted
        if not isinstance(actual, (int, float, complex, Decimal)) or actual == self.expected:
            return bool(actual == self.expected)
        within = max(self.abs, self.rel * abs(self.expected))
        return bool(abs(actual - self.expected) <= within < float("inf"))


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


def numbers(table):
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
            for first, last in numbers(table):
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
            for first, last in numbers(KILLS) if self.abi < 6 else ():
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
            for target, fd in enumerate(fds):       # they are above 4: F opens others first, and keeps them
                os.dup2(fd, target, inheritable=target < 3)
            self.confine(len(fds), job)
            body()
        except LayerFailed as failure:
            if body is judge_jobs:
                os.write(3, as_bytes({"failed": failure.args}))
        finally:
            os._exit(71)

    def confine(self, descriptors, job):
        """The last steps, in an order in which none forbids the next."""
        os.setsid()
        libc("prctl", PDEATHSIG, signal.SIGKILL)
        memory = job["memory_mb"] << 20
        set_limit(resource.RLIMIT_DATA, memory)
        set_limit(resource.RLIMIT_AS, 4 * memory)   # threads reserve much more than they use
        set_limit(resource.RLIMIT_FSIZE, FILE_MB << 20)
        set_limit(resource.RLIMIT_CORE, 0)
        libc("prctl", DUMPABLE, int("cpu_s" in job))                # nobody looks into a judge
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
    parser.add_argument("--require", default="rlimits", choices=LEVELS, help="refuse to work with less")
    args = parser.parse_args()
    try:
        code, tests, prelude = [open(path, encoding="utf-8").read() if path else "" for path in
                                (args.program, args.tests, args.prelude)]
        tests = json.loads(tests) if args.tests.endswith(".json") else tests
        with Pool(1, require=args.require, unsafe=args.unsafe) as pool:
            print(pool.banner, file=sys.stderr)
            result = pool.judge({"code": code, "tests": tests, "prelude": prelude, "beside": args.beside,
                                 "entry_point": args.entry_point})
    except (OSError, ValueError, RuntimeError) as problem:
        sys.exit(print(f"sandbox_exec.py: {problem}", file=sys.stderr) or 2)
    print(result.reason + (f" ({result.detail})" if result.detail else ""))
    sys.exit({True: 0, False: 1, None: 3}[result.passed])


if __name__ == "__main__":
    main()
