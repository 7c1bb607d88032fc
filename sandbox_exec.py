#!/usr/bin/env python3
"""Run untrusted (model-written) Python against tests: a verdict nobody can forge, on a machine nobody can hurt.

    python sandbox_exec.py program.py tests.py             # one verdict, and what protects this machine
    python sandbox_exec.py program.py tests.json           # {"inputs": [...], "outputs": [...]}: standard input and output

    from sandbox_exec import run_tests, Pool
    run_tests("def f(x): return x * x", "assert f(3) == 9").passed                                   # True
    with Pool() as pool:                                   # one warm fork server a core
        for key, result in pool.imap_unordered([("a", {"code": ..., "tests": ...}), ...]):           # as they finish
            print(key, result.passed, result.reason)

A job is the keyword arguments of `run_tests`:

    code         the program to judge, text (None or blank: verdict `no code`)
    tests        text of the tests, or {"inputs": [...], "outputs": [...]}
    style        "check" (tests define check(candidate), called once with the entry point), "pytest", "unittest", "assert",
                 "stdio", or "auto" (the default: read off the tests)
    entry_point  name of the function under test; needed by "check", useful elsewhere
    prelude      trusted code of the problem statement (imports, helpers); run in front of the program *and* in the judge,
                 whose copy of its helpers is the one that the tests use
    cpu_s        seconds of processor time of the program and its children, default 10: the limit that decides
    wall_s       seconds of real time, default 10 * cpu_s, but only 2 * cpu_s asleep; a run that did not sleep but wait for a
                 busy processor is repeated once, alone
    memory_mb    for each process; the whole tree may hold 1.5 times as much
    one_process  True: run tests and program in one process, for tests that patch the program. THE VERDICT CAN BE FORGED.

Result: verdict, reason, passed, detail, cpu_s, wall_s, memory_mb, layers, mode, flags. `reason` is `passed`, `failed: <which
assert or exception>`, `timeout`, `memory`, `killed`, `no code`, `syntax`, or `error: <what the sandbox could not do>`;
`passed` is True, False, or (error) None. `flags` names what the tests took from the program although neither the entry
point nor an import of theirs asks for it. In stdio jobs the lines must be equal after trailing blanks, and blank lines at
the end, are dropped; the exit status must be 0.

How: parent -> fork server (clean, single-threaded) -> judge J (runs the tests) and, for each job, a fork S (runs the program).
S holds no test, no expected value, and no descriptor but a socket to J on which plain data crosses by value and everything
else as an opaque handle. Printed text, exit codes and early exits never count. Around both stand as many layers as the
machine allows (LAYERS); `pool.banner` says which, and `Pool(require="namespaces")` refuses to work with less.
"""
import os
import sys

# ruff: noqa: E402, SIM105, SIM905
at_fork = []  # in a server: what its imports (threading, random) want done after a fork: a quarter of what a fork costs
if sys.argv[1:2] == ["--serve"] and __name__ == "__main__":
    register_at_fork, os.register_at_fork = os.register_at_fork, lambda **handlers: at_fork.append(handlers)

import ast
import atexit
import builtins
import collections
import ctypes
import errno
import fcntl
import functools
import gc
import importlib
import importlib.util
import inspect
import io
import json
import linecache
import random
import re
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import traceback
import types
import typing

LAYERS = ("rlimits", "subreaper", "uid", "userns", "pidns", "netns", "root", "landlock", "seccomp")
LEVELS = {"rlimits": (), "seccomp": ("network", "signals"), "landlock": ("network", "signals", "files"),
          "namespaces": ("network", "signals", "files", "pidns", "netns", "root")}
CPU_S, MEMORY_MB, TREE_FACTOR = 10, 1024, 1.5
FILE_MB, SCRATCH_MB, OPEN_FILES, PROCESSES, STACK_MB = 64, 256, 128, 64, 64
JUDGE_MEMORY_MB, JUDGE_JOBS, FRAME_LIMIT = 2048, 500, 64 << 20
LINUX = sys.platform == "linux"


class Result(typing.NamedTuple):
    verdict: str                                    # the first word of reason
    reason: str
    passed: bool | None                   # None: could not be judged
    detail: str = ""
    cpu_s: float = 0.0
    wall_s: float = 0.0
    memory_mb: float = 0.0                          # highest resident memory of the tree that was seen
    layers: str = ""
    mode: str = "judge"
    flags: tuple = ()


def verdict(reason, detail="", **more):
    word = reason.split(":")[0]
    return Result(word, reason, None if word == "error" else word == "passed", detail, **more)


# ------------------------------------------------------------------------------------------------- the caller's process

def run_tests(code, tests, **job):
    """Judge one program in a server that stays warm until the interpreter ends; `job` as in the module's docstring."""
    with _shared_lock:
        if not _shared or _shared[0].owner != os.getpid():
            _shared[:] = [Pool(1)]
        return next(_shared[0].imap_unordered([(None, dict(job, code=code, tests=tests))]))[1]


_shared, _shared_lock = [], threading.Lock()


class Pool:
    """`workers` fork servers (default: one a core); `disable` names layers not to use; `require` is a key of LEVELS."""

    def __init__(self, workers=None, *, require="rlimits", disable=()):
        self.disabled = {*disable, *os.environ.get("SANDBOX_DISABLE", "").replace(",", " ").split()}
        self.owner, self.servers = os.getpid(), []
        unknown = self.disabled - {*LAYERS, "pytest"}
        if unknown or require not in LEVELS:
            raise ValueError(f"unknown: {unknown or require!r}; layers are {LAYERS}, levels {tuple(LEVELS)}")
        try:
            for _ in range(workers or os.cpu_count() or 1):
                self.servers.append(Server(self.disabled))
        except BaseException:
            self.close()
            raise
        self.banner, protected = self.servers[0].banner, self.servers[0].protected
        missing = [name for name in LEVELS[require] if name not in protected]
        if missing:
            self.close()
            raise RuntimeError(f"level {require!r} needs {', '.join(missing)}, which this machine lacks; {self.banner}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        while self.servers:
            self.servers.pop().stop()

    def imap_unordered(self, jobs):
        """Yield (key, Result) for each (key, job) of an iterable, in order of completion."""
        jobs, repeats, running = iter(jobs), collections.deque(), {}
        try:
            while True:
                for server in self.servers:
                    while jobs and server not in running:
                        task = next_task(jobs)
                        if task is None:
                            jobs = None
                        elif task.result:
                            yield task.key, task.result
                        else:
                            running[server] = task.dispatch(server)
                if not running and repeats:         # those that starved, alone at the end
                    running[self.servers[0]] = repeats.popleft().dispatch(self.servers[0])
                if not running:
                    return
                for server in answering(running):
                    task = running.pop(server)
                    task.collect(server)
                    if task.result:
                        yield task.key, task.result._replace(layers=self.banner)
                    elif task.repeat:
                        repeats.append(task)
                    else:                           # the next input of a stdio job, or the server died
                        running[server] = task.dispatch(server)
        finally:
            for server in running:                  # the caller stopped early
                server.restart()


def next_task(jobs):
    for key, job in jobs:
        task = Task(key, **job)
        if not (task.code or "").strip():
            task.result = verdict("no code")
        elif not isinstance(task.tests, (str, dict)) or (isinstance(task.tests, dict) and not task.cases):
            task.result = verdict("error: tests must be text or {'inputs': [...], 'outputs': [...]} of equal length")
        return task


def answering(running):
    """Wait until some servers have an answer, died, or are past their deadline."""
    poller = select.poll()
    for server in running:
        poller.register(server.socket, select.POLLIN)
    while True:
        left = min(task.deadline for task in running.values()) - time.monotonic()
        ready = {fd for fd, _ in poller.poll(max(0, left) * 1000 + 1)}
        now = time.monotonic()
        done = [s for s, task in running.items() if s.socket.fileno() in ready or now > task.deadline]
        if done:
            return done


class Task:
    """One job on its way through a server: once, or once for each input of a stdio job."""

    def __init__(self, key, code, tests, style="auto", entry_point=None, prelude="", cpu_s=CPU_S, wall_s=None,
                 memory_mb=MEMORY_MB, one_process=False):
        self.key, self.code, self.tests, self.prelude = key, code, tests, prelude or ""
        self.cpu, self.wall, self.memory_mb = cpu_s, wall_s or 10 * cpu_s, memory_mb
        self.asleep = wall_s or 2 * cpu_s
        self.case = self.deaths = 0
        self.result, self.repeat, self.spent = None, False, collections.Counter()
        self.mode = "stdio" if isinstance(tests, dict) else "one process" if one_process else "judge"
        self.cases = []
        if self.mode == "stdio" and len(tests.get("inputs", ())) == len(tests.get("outputs", ())):
            self.cases = [[text if isinstance(text, str) else "\n".join(map(str, text)) for text in pair]
                          for pair in zip(tests["inputs"], tests["outputs"])]
        self.judge_job = {"tests": tests, "style": style, "entry_point": entry_point, "prelude": self.prelude,
                          "code": code if one_process else None}

    def dispatch(self, server):
        first = [self.prelude, self.code] if self.mode == "judge" else ["", self.code]
        self.files = [memory_file(json.dumps([*first, self.judge_job["entry_point"]]).encode())]
        if self.mode == "stdio":
            self.files += [memory_file(encode(self.cases[self.case][0])), memory_file(), memory_file()]
        else:
            self.files.append(memory_file(json.dumps(self.judge_job).encode()))
        preload = ["numpy"] if "numpy" in self.code or "numpy" in str(self.tests) else []
        header = {"mode": self.mode, "cpu": self.cpu, "wall": self.wall, "asleep": self.asleep,
                  "memory_mb": self.memory_mb, "preload": preload}
        self.deadline = time.monotonic() + self.wall + 60
        try:
            send(server.socket, header, self.files)
        except OSError:
            pass                                    # dead: collect() sees it
        return self

    def collect(self, server):
        """Set `result`, or `repeat`, or neither if there is another run to dispatch."""
        try:
            status, _ = time.monotonic() < self.deadline and receive(server.socket) or (None, [])
        except OSError:
            status = None
        if status is None:
            server.restart()
            self.deaths += 1
            if time.monotonic() > self.deadline or self.deaths > 1:
                self.result = verdict("killed", "the server of this job died or hung, twice")
        else:
            self.spent.update({name: status[name] for name in ("cpu", "wall")})
            self.spent["rss"] = max(self.spent["rss"], status["rss"])
            self.repeat = status["limit"] == "wall" and status["starved"] and not self.repeat
            if self.repeat:
                self.spent.clear()
            else:
                self.result = self.conclude(status)
        for fd in self.files:
            os.close(fd)

    def conclude(self, status):
        reason, detail, flags = self.stdio_reason(status) if self.mode == "stdio" else self.judge_reason(status)
        if reason == "passed" and self.mode == "stdio":
            self.case += 1
            if self.case < len(self.cases):
                return None
        return verdict(reason, detail, cpu_s=round(self.spent["cpu"], 3), wall_s=round(self.spent["wall"], 3),
                       memory_mb=round(self.spent["rss"] / 2**20, 1), mode=self.mode, flags=tuple(flags))

    def judge_reason(self, status):
        try:
            said = json.loads(read_file(self.files[1]))
        except ValueError:
            said = {}
        stopped = stop_reason(status)
        if status["limit"] or status.get("error"):
            return *stopped, ()
        if "reason" not in said:
            return "killed", "the judge died: " + stopped[1], ()
        if said["reason"] == "gone":
            return *(stopped or ("failed: the program ended its connection", "")), ()
        return said["reason"], said["detail"], said["flags"]

    def stdio_reason(self, status):
        where = f"input {self.case + 1} of {len(self.cases)}"
        printed, errors = read_file(self.files[2]), read_file(self.files[3])[-2000:].decode("utf-8", "replace").strip()
        last = errors.splitlines()[-1] if errors else ""
        if status["limit"] or status.get("error") or status["signal"] or status["exit"]:
            reason, detail = stop_reason(status)
            if status["exit"] and last.startswith("MemoryError"):
                reason = "memory"
            elif status["exit"] and last.startswith("SyntaxError:"):
                reason, detail = "syntax", last
            elif status["exit"]:
                reason = f"failed: {where}: exit status {status['exit']} {last[:200]}".strip()
            return reason, detail or where, ()
        if lines(printed.decode("utf-8", "replace")) != lines(self.cases[self.case][1]):
            return f"failed: {where}: wrong output", repr(printed[:200]), ()
        return "passed", "", ()


def stop_reason(status):
    """(reason, detail) of a program that was stopped or stopped by itself; None if it was still there."""
    if status.get("error"):
        return "error: " + status["error"], ""
    limit = status["limit"] or ("cpu" if status["signal"] in (signal.SIGXCPU, signal.SIGKILL) and status["cpu_used_up"] else "")
    if limit in ("cpu", "wall"):
        return "timeout", f"{limit} time: {status['cpu']:.1f} s of cpu, {status['wall']:.1f} s of wall time"
    if limit == "memory":
        return "memory", f"{status['rss'] / 2**20:.0f} MB in all processes"
    if limit:
        return "killed", f"limit of {limit}"
    if status["signal"]:
        return "killed", f"signal {status['signal']}"
    if status["exit"] is not None:
        return f"failed: the program ended (exit status {status['exit']}) before it answered", ""


def lines(text):
    return [line.rstrip() for line in text.rstrip().splitlines()]


class Server:
    """The caller's end of one fork server."""

    def __init__(self, disabled):
        self.disabled = disabled
        self.start()

    def start(self):
        """Layers are probed by using them: a server that cannot set one up says which, and is started again without."""
        while True:
            self.socket, theirs = socket.socketpair()
            with theirs:
                self.process = subprocess.Popen(
                    [sys.executable, "-s", "-B", os.path.abspath(__file__), "--serve", str(theirs.fileno()), *self.disabled],
                    env=clean_environment(), pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            hello, _ = receive(self.socket) or ({"failed": "rlimits", "why": "it died at once"}, [])
            if "failed" not in hello:
                self.banner, self.protected, self.scratch = hello["banner"], hello["protected"], hello["scratch"]
                return
            self.scratch = None
            self.stop()
            if hello["failed"] in {"rlimits", *self.disabled}:
                raise RuntimeError(f"the sandbox cannot start: {hello['failed']}: {hello['why']}")
            self.disabled.add(hello["failed"])

    def stop(self):
        """Closing the socket is the order to end; a server that does not obey is killed with all that it started."""
        self.socket.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            for pid in [self.process.pid, *tree(self.process.pid)]:
                kill(pid)
            self.process.wait()
        if self.scratch:
            shutil.rmtree(self.scratch, ignore_errors=True)

    def restart(self):
        self.stop()
        self.start()


def clean_environment():
    """None of the caller's secrets; one thread for each numeric library, so that a job's processor time is its own."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "TMPDIR") if name in os.environ}
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONUTF8": "1", "PYTHONHASHSEED": "0",
            "MALLOC_ARENA_MAX": "2", "USER": "sandbox", **threads, **kept}


def memory_file(data=b""):
    """A descriptor of an anonymous file: the program cannot block on it, and the servers pass it on unread."""
    try:
        fd = os.memfd_create("job")
    except (AttributeError, OSError):               # not Linux; or in a sandbox already
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    while data:
        data = data[os.write(fd, data):]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def read_file(fd):
    os.lseek(fd, 0, os.SEEK_SET)
    with open(fd, "rb", closefd=False) as file:
        return file.read()


def encode(text):
    return text.encode("utf-8", "surrogatepass")


def send(sock, message, fds=()):
    socket.send_fds(sock, [json.dumps(message).encode() + b"\n"], fds)


def receive(sock):
    """(message, descriptors); None at the end of the connection."""
    data, fds = b"", []
    while not data.endswith(b"\n"):
        part, more, *_ = socket.recv_fds(sock, 1 << 16, 8)
        if not part:
            return None
        data, fds = data + part, fds + list(more)
    return json.loads(data), fds


# ------------------------------------------------------------------------------------------------- F: the fork server

def serve(fd, disabled):
    """Fork a program (and once in a while a judge) per job. This process never reads a program or a test, for whatever
    it has in memory, its forks have too."""
    control = socket.socket(fileno=fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100))
    os.close(fd)
    sys.path[:] = [path for path in sys.path if path != os.path.dirname(os.path.abspath(__file__))]
    global cage
    cage = Cage({*disabled})
    try:
        serve_jobs(control)
    except LayerFailed as failure:
        send(control, {"failed": failure.layer, "why": str(failure)})
    finally:
        if "root" not in cage.on:
            shutil.rmtree(cage.scratch, ignore_errors=True)


def serve_jobs(control):
    cage.enter()
    judge = Judge(cage)
    send(control, cage.hello())
    preloaded = set()
    while job_and_files := receive(control):
        job, fds = job_and_files
        if not preloaded.issuperset(job["preload"]):
            preloaded.update(job["preload"])
            for name in filter(importlib.util.find_spec, job["preload"]):
                importlib.import_module(name)
            cage.settle()
            judge.stop()
        if not judge.usable():
            judge = Judge(cage)
        status = run_job(job, fds, cage, judge, control)
        for fd in fds:
            os.close(fd)
        send(control, status)
    judge.stop()


cage = None                                         # of this server and its forks


def run_job(job, fds, cage, judge, control):
    """Fork the program, hand the tests to the judge, watch both; then nothing of the job is left."""
    started = time.monotonic()
    status = {"limit": None, "signal": 0, "exit": None, "cpu": 0.0, "wall": 0.0, "rss": 0, "starved": False}
    try:
        if job["mode"] == "stdio":
            code, stdin, stdout, stderr = fds
            program = cage.spawn([stdin, stdout, stderr, code], job, run_script)
            end = os.pidfd_open(program) if hasattr(os, "pidfd_open") else None
            watch(job, status, program, end, judge, control, cage)
        else:
            ours, theirs = socket.socketpair()
            with ours, theirs:
                program = cage.spawn([cage.null, cage.null, cage.null, fds[0], theirs.fileno()], job, serve_program)
                judge.begin([fds[1], ours.fileno()])
            watch(job, status, program, None, judge, control, cage)
    except (OSError, LayerFailed) as problem:
        status["error"] = f"no process could be started ({problem})"
    else:
        finish(status, program, judge)
    cage.kill_strays(judge)
    cage.empty_scratch()
    status["wall"] = time.monotonic() - started
    status["cpu_used_up"] = status["cpu"] >= job["cpu"]
    return status


def watch(job, status, program, end, judge, control, cage):
    """Until the judge (or, without one, the program) is done, or a limit is reached."""
    started, judge_cpu, judge_waited = time.monotonic(), judge.cpu_time(), waited_for_cpu(judge.pid)
    awaited = judge.socket.fileno() if job["mode"] != "stdio" else end
    poller = select.poll()
    for fd in (control.fileno(), awaited):
        if fd is not None:
            poller.register(fd, select.POLLIN)
    pause = 0.2 if awaited is not None else 0.002   # most jobs end before the first look at their processes
    while True:
        ready = {fd for fd, _ in poller.poll(pause * 1000)}
        if control.fileno() in ready:               # the caller is gone
            for pid in (judge.pid, *cage.strays(judge), program):
                kill(pid)
            os.waitpid(program, 0)
            sys.exit()
        if awaited in ready or (awaited is None and exited(program)):
            break
        wall = time.monotonic() - started
        if wall > 0.2:
            pause = 0.05
            cpu, memory, processes = usage(cage.strays(judge) or [program], cage.base_rss)
            judged, waited = judge.cpu_time() - judge_cpu, waited_for_cpu(program) + waited_for_cpu(judge.pid) - judge_waited
            status["cpu"], status["rss"] = max(status["cpu"], cpu), max(status["rss"], memory)
            status["limit"] = ("cpu" if max(cpu, judged) > job["cpu"] else
                               "memory" if memory > TREE_FACTOR * job["memory_mb"] * 2**20 else
                               "processes" if processes > 2 * PROCESSES else
                               "wall" if wall > job["wall"] or wall - cpu - judged - waited > job["asleep"] else None)
        if status["limit"]:
            status["starved"] = waited > 0.1 * wall
            break
    if end is not None:
        os.close(end)


def finish(status, program, judge):
    """Reap the program; how it ended counts only if it ended by itself."""
    gone = judge.collect() if not status["limit"] else False
    patience = time.monotonic() + 0.5
    while gone and not exited(program) and time.monotonic() < patience:
        time.sleep(0.001)
    by_itself = exited(program)
    kill(program)
    _, ended, used = os.wait4(program, 0)
    status["cpu"] = max(status["cpu"], used.ru_utime + used.ru_stime)
    status["rss"] = max(status["rss"], used.ru_maxrss * (1024 if LINUX else 1))
    if by_itself and os.WIFSIGNALED(ended):
        status["signal"] = os.WTERMSIG(ended)
    elif by_itself:
        status["exit"] = os.WEXITSTATUS(ended)
    if status["limit"]:
        judge.collect(wait=0.5)


class Judge:
    """The fork server's end of a judge process, which serves many jobs."""

    def __init__(self, cage):
        self.socket, theirs = socket.socketpair()
        limits = {"cpu": None, "memory_mb": JUDGE_MEMORY_MB}
        with theirs:
            self.pid = cage.spawn([cage.null, cage.null, cage.null, theirs.fileno()], limits, judge_jobs)
        self.cage, self.jobs, self.busy = cage, 0, False
        hello, _ = receive(self.socket) or ({"failed": "rlimits", "why": "the judge died at once"}, [])
        if "failed" in hello:
            raise LayerFailed(hello["failed"], hello["why"])

    def begin(self, fds):
        self.jobs, self.busy = self.jobs + 1, True
        send(self.socket, "job", fds)

    def collect(self, wait=None):
        """True if the judge says that its program is gone; a judge that is silent, dead or no longer clean is ended."""
        if not self.busy:
            return False
        self.busy, answer = False, None
        if wait is None or select.select([self.socket], [], [], wait)[0]:
            answer, _ = receive(self.socket) or (None, [])
        if not answer or not answer["clean"] or self.jobs >= JUDGE_JOBS:
            self.stop()
        return bool(answer and answer["gone"])

    def usable(self):
        return self.pid and not exited(self.pid)

    def cpu_time(self):
        return usage([self.pid], 0)[0] if self.pid and LINUX else 0

    def stop(self):
        if self.pid:
            for pid in [*tree(self.pid), self.pid]:
                kill(pid)
            os.waitpid(self.pid, 0)
            self.socket.close()
        self.pid = None


def exited(pid):
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass


proc_fd = None                                      # of /proc, kept open by F: its private root has none


def proc(path, read=lambda fd: os.read(fd, 4096)):
    """The content of a file under /proc; None if there is none."""
    try:
        fd = os.open(path if proc_fd else "/proc/" + path, os.O_RDONLY, dir_fd=proc_fd)
    except OSError:
        return None
    try:
        return read(fd)
    except OSError:
        return None
    finally:
        os.close(fd)


def tree(pid):
    """All descendants of a process."""
    found = []
    for thread in proc(f"{pid}/task", os.listdir) or ():
        for child in (proc(f"{pid}/task/{thread}/children") or b"").split():
            found += [int(child), *tree(int(child))]
    return found


def usage(roots, base_rss):
    """(seconds of cpu, resident bytes, number) of the processes and their descendants."""
    cpu = memory = 0
    pids = [pid for root in roots for pid in (root, *tree(root))]
    for pid in pids:
        stat = (proc(f"{pid}/stat") or b"").rpartition(b")")[2].split()
        if stat:
            cpu += sum(map(int, stat[11:15])) / os.sysconf("SC_CLK_TCK")
            memory += max(0, int(stat[21]) * resource.getpagesize() - base_rss)      # what it shares with F is F's
    return cpu, memory, len(pids)


def waited_for_cpu(pid):
    """Seconds that the threads of a process stood in the queue for a processor: the machine's fault, not the program's."""
    waits = [(proc(f"{pid}/task/{thread}/schedstat") or b"0 0").split()[1] for thread in proc(f"{pid}/task", os.listdir) or ()]
    return sum(map(int, waits)) / 1e9


# ------------------------------------------------------------------------------------------------- S: the program

def load_code(name):
    """The program's module, and a function that runs the prelude and the program in it."""
    prelude, code, entry_point = json.loads(read_file(3))
    os.close(3)
    module = types.ModuleType(name)
    sys.modules[name] = module
    module.__file__ = "solution.py"

    def run():
        if prelude:
            try:
                exec(compile_prelude(prelude), module.__dict__)
            except SyntaxError:
                pass
            module.__dict__.pop(entry_point, None)  # the prelude's own is a stub
        linecache.cache["solution.py"] = (len(code), None, code.splitlines(True), "solution.py")
        exec(compile(encode(code), "solution.py", "exec", dont_inherit=True), module.__dict__)
    return module, run


def compile_prelude(text):
    """A prelude may end inside a function: the head that a completion continues."""
    try:
        return compile(text, "prelude.py", "exec", dont_inherit=True)
    except SyntaxError:
        return compile(text + "\n    pass\n", "prelude.py", "exec", dont_inherit=True)


def run_script():
    """A stdio job: 0, 1 and 2 are files; end as a script does."""
    sys.stdin, sys.stdout, sys.stderr = (open(fd, mode, encoding="utf-8", errors="surrogateescape", closefd=False)
                                         for fd, mode in ((0, "r"), (1, "w"), (2, "w")))
    _, run = load_code("__main__")
    status = 0
    try:
        run()
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
    module, run = load_code("solution")
    peer = Peer(socket.socket(fileno=4), module)
    sys.setrecursionlimit(sys.getrecursionlimit() + 50)
    report = []
    try:
        run()
        report = ["ready", [name for name in module.__dict__ if not name.startswith("_")]]
    except SyntaxError as problem:
        report = ["syntax", str(problem)]
    except BaseException as problem:
        report = ["raised", isinstance(problem, MemoryError), describe(problem)]
    peer.write(report)
    while True:
        peer.answer(peer.read())


# ------------------------------------------------------------------------------------------------- between J and S
# Both ends hold a Peer. A message is one JSON list, its length in front. Plain data crosses by value, tagged so that types
# stay exact; containers are numbered in the order of packing, so that aliases, cycles and changed arguments can be named by
# number. All else stays where it is: the other side gets a stand-in, an object of a class made for it, that asks back.

FLAT = {type(None), bool, str, float}
CONTAINERS = {kind.__name__: kind for kind in (list, tuple, dict, set, frozenset, bytearray, collections.deque,
                                               collections.OrderedDict, collections.Counter, collections.defaultdict)}
FROZEN = (tuple, frozenset)
VALUES = {                                          # immutable classes of the standard library: what rebuilds one
    "builtins.complex": lambda v: (v.real, v.imag), "builtins.range": lambda v: (v.start, v.stop, v.step),
    "builtins.slice": lambda v: (v.start, v.stop, v.step), "decimal.Decimal": lambda v: (str(v),),
    "fractions.Fraction": lambda v: (v.numerator, v.denominator), "uuid.UUID": lambda v: (str(v),),
    "datetime.timedelta": lambda v: (v.days, v.seconds, v.microseconds), "datetime.date": lambda v: (v.year, v.month, v.day),
    "datetime.time": lambda v: (v.hour, v.minute, v.second, v.microsecond, v.tzinfo),
    "datetime.datetime": lambda v: (*v.timetuple()[:6], v.microsecond, v.tzinfo),
    "datetime.timezone": lambda v: (v.utcoffset(None),), "pathlib.PosixPath": lambda v: (str(v),),
    "pathlib.PurePosixPath": lambda v: (str(v),), "re.Pattern": lambda v: (v.pattern, v.flags)}
BASES = {int: int.__index__, float: float.__float__, str: str.__str__, bytes: lambda v: bytes.__getitem__(v, slice(None)),
         complex: complex.__pos__, tuple: lambda v: tuple(tuple.__iter__(v)),
         frozenset: lambda v: frozenset(frozenset.__iter__(v))}                   # what a subclass's instance is equal to
LIBRARY = set("builtins math cmath itertools functools collections operator string re datetime decimal fractions statistics "
              "heapq bisect typing abc enum dataclasses copy json random numbers types textwrap uuid pathlib time numpy"
              .split())                             # modules whose functions and classes are the same on both sides
NOT_LIBRARY = {"exec", "eval", "compile", "globals", "locals", "vars", "open", "input", "setattr", "delattr", "breakpoint",
               "exit", "quit", "__import__", "attrgetter", "methodcaller"}

COMPARISONS = {"__lt__", "__le__", "__gt__", "__ge__"}
ARITHMETIC = {f"__{r}{name}__" for r in ("", "r") for name in
              "add sub mul matmul truediv floordiv mod divmod pow and or xor lshift rshift".split()}
SCALING = {"__mul__", "__rmul__", "__matmul__", "__rmatmul__"}
UNARY = {f"__{name}__" for name in "abs neg pos invert int float complex index round trunc floor ceil bool".split()}
ITERATION = {"__iter__", "__next__", "__len__", "__getitem__", "__contains__", "__reversed__", "__bool__", "__hash__", "__eq__"}
OPERATIONS = {"__call__", "__enter__", "__exit__", "__str__", "__repr__", "__format__", "__setitem__", "__delitem__",
              *COMPARISONS, *ARITHMETIC, *UNARY, *ITERATION}
ON_VALUES = {"__call__", "__enter__", "__exit__", "__str__", "__repr__"}           # of subclasses of int, str, tuple...


class Gone(BaseException):
    """The other end closed the connection or broke its rules: nothing the tests catch."""


class StandInClass(type):
    """Class of the classes made for those of the other side."""

    def __call__(cls, *args, **kwargs):
        return peer.construct(cls, args, kwargs)

    def __getattr__(cls, name):
        return peer.get(cls, name)

    def __setattr__(cls, name, value):
        peer.ask("set", cls, name, value)

    def __iter__(cls):                              # enumerations
        return iter(peer.ask("special", "__iter__", cls))

    def __len__(cls):
        return peer.ask("special", "__len__", cls)

    def __getitem__(cls, key):
        return peer.ask("special", "__getitem__", cls, key)


class StandIn:
    def __getattr__(self, name):
        return peer.get(self, name)

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value) if name.startswith("__") else peer.ask("set", self, name, value)

    def __delattr__(self, name):
        peer.ask("delete", self, name)


def forward(name):
    def method(self, *args):
        return peer.special(name, self, *args)
    if name == "__call__":
        def method(self, *args, **kwargs):
            return peer.ask("call", self, args, kwargs)
    if name == "__exit__":
        def method(self, kind, problem, _):
            return peer.ask("special", name, self, kind, problem, None)
    method.__name__ = name
    return method


FORWARD = {name: forward(name) for name in OPERATIONS}


class Peer:
    def __init__(self, sock, root=None):
        self.sock, self.lock, self.serving = sock, threading.RLock(), 0
        self.exports, self.export_ids = {0: root}, {id(root): 0}        # ours that the other side may name
        self.stand_ins, self.stand_in_ids = {}, {}                      # theirs that we may name
        self.described, self.describing = set(), set()

    # ---- messages

    def write(self, message):
        data = json.dumps(message).encode()
        if len(data) > FRAME_LIMIT:
            raise ValueError("more data than may cross at once")
        self.sock.sendall(struct.pack("<I", len(data)) + data)

    def read(self):
        head = self.receive(4)
        size = struct.unpack("<I", head)[0] if len(head) == 4 else 0
        if not size or size > FRAME_LIMIT:
            self.end("more data than may cross at once" if size else "")
        data = self.receive(size)
        return json.loads(data) if len(data) == size else self.end("")

    def receive(self, size):
        data = self.sock.recv(size, socket.MSG_WAITALL)
        while 0 < len(data) < size and (more := self.sock.recv(size - len(data), socket.MSG_WAITALL)):
            data += more                            # a signal came in between
        return data

    def end(self, why):
        os._exit(0)                                 # S; a judge goes on to the next

    def ask(self, action, *args):
        """Have the other side do something and return (or raise) what comes of it; meanwhile do what it asks."""
        with self.lock:
            if not self.serving:
                raise RuntimeError("the tests are not waiting: a call from a thread came too late")
            bag = {}
            self.write(["ask", action, self.pack_all(args, bag), self.redirected()])
            self.described |= self.describing
            while True:
                message = self.read()
                if message[0] != "ask":
                    return self.conclude(message, [thing for _, thing in bag.values()], action, args)
                self.answer(message)

    def conclude(self, message, things, action, args):
        outcome, value, changes, printed = message
        value = self.unpack(value, things)
        changes = [(things[n], [self.unpack(item, things) for item in items]) for n, items in changes]
        for thing, items in changes:
            replace(thing, items)
        if printed:
            sys.stdout.write(printed)
        if outcome == "raised":
            raise value
        return value

    def answer(self, message):
        _, action, args, redirected = message
        things, before, printed = [], [], None
        self.serving += 1
        try:
            args = [self.unpack(arg, things) for arg in args]
            before = [(n, thing, items(thing)) for n, thing in enumerate(things) if not isinstance(thing, FROZEN)]
            with redirect(redirected) as printed:
                outcome, value = "returned", self.perform(action, *args)
        except Gone:
            raise
        except BaseException as problem:
            outcome, value = "raised", problem
        with self.lock:
            self.serving -= 1
            self.reply(outcome, value, things, before, printed and printed.getvalue())

    def reply(self, outcome, value, things, before, printed):
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, 20000))    # the data may be nested deeper than the program may call
        try:
            bag = {id(thing): (n, thing) for n, thing in enumerate(things)}
            value = self.pack(value, bag)
            changes = [[n, self.pack_all(items(thing), bag)] for n, thing, old in before if not same(items(thing), old)]
            self.write([outcome, value, changes, printed])
            self.described |= self.describing
        except Exception as problem:                # not packable: nested too deep, too large, a property that raises
            self.describing = set()
            self.write(["raised", self.pack(type(problem)(*problem.args[:1]), {}), [], None])
        finally:
            sys.setrecursionlimit(limit)

    def redirected(self):
        return 0

    # ---- what can be asked

    def perform(self, action, *args):
        if action == "call":
            return args[0](*args[1], **args[2])
        if action == "get":
            return getattr(*args)
        if action == "set":
            return setattr(*args)
        if action == "delete":
            return delattr(*args)
        if action == "special":
            name, thing, *rest = args
            return getattr(type(thing), name)(thing, *rest)
        if action == "send":
            return args[0].send(args[1])
        if action == "copy":                        # of a subclass of list, dict or set: the plain thing it is equal to
            kind = next(kind for kind in (list, dict, set) if isinstance(args[0], kind))
            return dict(dict.items(args[0])) if kind is dict else kind(kind.__iter__(args[0]))
        if action == "await":
            import asyncio
            return asyncio.run(args[0])
        raise ValueError(action)

    def get(self, thing, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return self.ask("get", thing, name)

    def construct(self, cls, args, kwargs):
        return self.ask("call", cls, args, kwargs)

    def special(self, name, thing, *args):
        return self.ask("special", name, thing, *args)

    # ---- packing

    def pack_all(self, values, bag):
        return [value if type(value) in FLAT else self.pack(value, bag) for value in values]

    def pack(self, value, bag):
        kind = type(value)
        if kind in FLAT:
            return value
        if kind is int:
            return value if -1 << 63 <= value < 1 << 63 else ["int", hex(value)]
        if kind is bytes:
            return ["bytes", value.hex()]
        if id(value) in bag:
            return ["same", bag[id(value)][0]]
        if CONTAINERS.get(kind.__name__) is kind or kind.__module__ == "numpy" and is_array(value):
            bag[id(value)] = len(bag), value
            extra = getattr(value, "maxlen", None) if kind is collections.deque else getattr(value, "default_factory", None)
            if kind.__name__ == "ndarray":
                extra = (value.dtype.str, *value.shape)
            return [kind.__name__, self.pack(extra, bag), *self.pack_all(items(value), bag)]
        if kind.__module__ == "numpy" and hasattr(value, "dtype") and plain_dtype(value.dtype):
            return ["numpy", value.dtype.str, value.tobytes().hex()]
        if id(value) in self.stand_in_ids:
            return ["yours", self.stand_in_ids[id(value)]]
        name = f"{kind.__module__}.{kind.__qualname__}"
        if name in VALUES:
            return ["value", name, *self.pack_all(VALUES[name](value), bag)]
        named = library_name(value)
        return ["library", *named] if named else self.export(value, bag)

    def export(self, value, bag):
        number = self.export_ids.setdefault(id(value), len(self.exports))
        self.exports[number] = value
        if number in self.described or number in self.describing:
            return ["mine", number]
        self.describing.add(number)
        return ["mine", number, *self.describe(value, bag)]

    def describe(self, value, bag):
        if isinstance(value, type):
            own = [base for base in value.__mro__ if not library_name(base)]
            roots = [base for base in value.__mro__ if base in BASES or library_name(base) and issubclass(base, BaseException)]
            operations = {name for base in value.__mro__ if base not in roots and base is not object
                          for name in OPERATIONS & vars(base).keys() if vars(base)[name] is not None}
            parents = [base for base in value.__bases__ if base in own]
            return ["class", value.__name__, value.__module__, sorted(operations), self.pack(roots[:1], bag),
                    self.pack(parents, bag), isinstance(value, type) and issubclass(value, (list, dict, set))]
        if isinstance(value, BaseException):
            args = [arg if is_plain(arg) else repr(arg)[:1000] for arg in value.args]
            return ["exception", self.pack(type(value), bag), self.pack(args, bag)]
        if isinstance(value, types.GeneratorType):
            return ["generator"]
        if isinstance(value, types.CoroutineType):
            return ["coroutine"]
        if isinstance(value, (types.FunctionType, types.MethodType, types.BuiltinMethodType)):
            return ["function", value.__name__, value.__doc__ if isinstance(value.__doc__, str) else None]
        base = next((base for base in BASES if isinstance(value, base)), None)
        return ["object", self.pack(type(value), bag), *([self.pack(BASES[base](value), bag)] if base else [])]

    # ---- unpacking

    def unpack(self, data, things):
        if type(data) is not list:
            return data
        tag, *rest = data
        if tag in CONTAINERS or tag == "ndarray":
            return self.unpack_container(tag, rest, things)
        if tag == "same":
            return things[rest[0]]
        if tag == "int":
            return int(rest[0], 16)
        if tag == "bytes":
            return bytes.fromhex(rest[0])
        if tag == "numpy":
            return from_bytes(rest[0], bytes.fromhex(rest[1]))[0]
        if tag == "yours":
            return self.exports[rest[0]]
        if tag == "value":
            assert rest[0] in VALUES
            module, _, name = rest[0].rpartition(".")
            kind = re.compile if name == "Pattern" else getattr(importlib.import_module(module), name)
            return kind(*[self.unpack(arg, things) for arg in rest[1:]])
        if tag == "library":
            return from_library(*rest)
        if tag == "mine":
            return self.stand_in(things, *rest)
        raise ValueError(tag)

    def unpack_container(self, tag, rest, things):
        n = len(things)
        extra = None
        if tag in ("tuple", "frozenset"):
            things.append(None)
            things[n] = CONTAINERS[tag](self.unpack(item, things) for item in rest[1:])
        elif tag == "ndarray":
            things.append(None)
            extra = self.unpack(rest[0], things)
            things[n] = from_bytes(extra[0], self.unpack(rest[1], things)).reshape(extra[1:]).copy()
        else:
            kind = CONTAINERS[tag]
            things.append(kind() if tag != "deque" else None)
            extra = self.unpack(rest[0], things)
            if tag == "deque":
                things[n] = collections.deque(maxlen=extra)
            elif tag == "defaultdict":
                things[n].default_factory = extra
            replace(things[n], [self.unpack(item, things) for item in rest[1:]])
        return things[n]

    def stand_in(self, things, number, kind=None, *rest):
        if kind is None or number in self.stand_ins:
            return self.stand_ins[number]
        if kind == "class":
            made = self.stand_in_class(things, *rest)
        elif kind == "exception":
            made = self.stand_in_exception(*[self.unpack(part, things) for part in rest])
        elif kind == "object":
            cls = self.unpack(rest[0], things)
            base = [self.unpack(part, things) for part in rest[1:]]
            root = type(base[0]) if base else object
            assert isinstance(cls, StandInClass) and (root in BASES or not base)
            made = root.__new__(cls, *base)
        else:
            made = {"function": stand_in_function, "generator": stand_in_generator,
                    "coroutine": stand_in_coroutine}[kind](number, *rest)
        self.stand_ins[number] = made
        self.stand_in_ids[id(made)] = number
        return made

    def stand_in_class(self, things, name, module, operations, roots, parents, is_container):
        roots, parents = self.unpack(roots, things), self.unpack(parents, things)
        assert all(root in BASES or issubclass(root, BaseException) for root in roots)
        assert all(isinstance(parent, StandInClass) for parent in parents)
        methods = {name: FORWARD[name] for name in operations if not roots or name in ON_VALUES}
        space = {**methods, "__module__": str(module), "_is_container": bool(is_container)}
        if "__eq__" in methods and "__hash__" not in methods:
            space["__hash__"] = None
        lacking = [root for root in roots if not any(issubclass(parent, root) for parent in parents)]
        try:
            return type.__new__(StandInClass, name, (*parents, *([] if parents else [StandIn]), *lacking), space)
        except TypeError:                           # an order of bases that is possible there but not here
            return type.__new__(StandInClass, name, (StandIn, *roots), space)

    def stand_in_exception(self, cls, args):
        assert issubclass(cls, BaseException)
        if isinstance(cls, StandInClass):
            made = cls.__new__(cls, *args)
            BaseException.args.__set__(made, tuple(args))
            return made
        try:
            return cls(*args)
        except Exception:                           # a class with rules for its arguments
            return RuntimeError(f"{cls.__name__}: {args}")


def stand_in_function(number, name, doc):
    def function(*args, **kwargs):
        return peer.ask("call", function, args, kwargs)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def stand_in_generator(number):
    def generator():
        sent = None
        while True:
            try:
                value = peer.ask("send", this, sent)
            except StopIteration as stop:
                return stop.value
            sent = yield value
    this = generator()
    return this


def stand_in_coroutine(number):
    async def coroutine():
        return peer.ask("await", this)
    this = coroutine()
    return this


def is_plain(value):
    return type(value) in FLAT or type(value) in (int, bytes) or type(value) in CONTAINERS.values() and all(
        is_plain(item) for item in items(value))


def items(container):
    """The content of a container as a flat list."""
    if isinstance(container, dict):
        return [part for pair in container.items() for part in pair]
    if isinstance(container, bytearray):
        return [bytes(container)]
    return [container.tobytes()] if hasattr(container, "tobytes") else list(container)


def same(new, old):
    return len(new) == len(old) and all(a is b or type(a) is bytes and a == b for a, b in zip(new, old))


def replace(container, content):
    if isinstance(container, (list, bytearray)):
        container[:] = content if isinstance(container, list) else content[0]
    elif isinstance(container, dict):
        container.clear()
        for key, value in zip(content[::2], content[1::2]):
            container[key] = value                  # update() would add to a Counter
    elif isinstance(container, (set, collections.deque)):
        container.clear()
        (container.update if isinstance(container, set) else container.extend)(content)
    else:
        container[...] = from_bytes(container.dtype.str, content[0]).reshape(container.shape)


def is_array(value):
    return type(value).__name__ == "ndarray" and plain_dtype(value.dtype)


def plain_dtype(dtype):
    return dtype.kind in "biufcSUmM?"


def from_bytes(dtype, data):
    import numpy
    dtype = numpy.dtype(dtype)
    assert plain_dtype(dtype)
    return numpy.frombuffer(data, dtype)


def library_name(value):
    """(module, name) under which both sides find the same function, class or module; None for all else."""
    if isinstance(value, types.ModuleType):
        return (value.__name__, "") if value.__name__.split(".")[0] in LIBRARY else None
    if not isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)) or isinstance(value, StandInClass):
        return None
    module, name = value.__module__, value.__qualname__
    if not isinstance(module, str) or name in NOT_LIBRARY or name.startswith("_") or not (
            module.split(".")[0] in LIBRARY or is_library_exception(module, value)):
        return None
    return (module, name) if getattr(sys.modules.get(module), name, None) is value else None


def is_library_exception(module, value):
    return (module.split(".")[0] in sys.stdlib_module_names - {"unittest"} and isinstance(value, type)
            and issubclass(value, BaseException))


def from_library(module, name):
    assert module.split(".")[0] in LIBRARY | sys.stdlib_module_names and "_" not in (module[:1], name[:1])
    found = importlib.import_module(module)
    found = getattr(found, name) if name else found
    assert library_name(found)
    return found


class redirect:
    """While the program does what it was asked: its output to the tests' capture, its input from the tests' stand-in."""

    def __init__(self, how):
        self.how = how

    def __enter__(self):
        self.saved = sys.stdout, sys.stdin, builtins.input
        printed = io.StringIO()
        if self.how & 1:
            sys.stdout = printed
        if self.how & 2:
            builtins.input = lambda prompt="": peer.ask("input", str(prompt))
            sys.stdin = types.SimpleNamespace(readline=lambda: peer.ask("stdin", "readline"),
                                              read=lambda: peer.ask("stdin", "read"))
        return printed

    def __exit__(self, *_):
        if self.how:
            sys.stdout, sys.stdin, builtins.input = self.saved


peer = None                                         # of this process: J has one for each job, S one for its life


# ------------------------------------------------------------------------------------------------- J: the judge

SIMPLE_IMPORTS = LIBRARY | {"solution", "pytest", "unittest", "io", "contextlib", "__future__"}
NOT_SIMPLE = set("setattr delattr exec eval globals vars monkeypatch mock patch seed setrecursionlimit getcontext setcontext "
                 "simplefilter filterwarnings modules environ builtins __builtins__ __dict__ chdir".split())
MODULE_ALIASES = {"np": "numpy", "pd": "pandas", "plt": "matplotlib.pyplot", "nx": "networkx", "sp": "scipy", "dt": "datetime"}
NEVER_FROM_STRANGERS = {"startswith", "endswith", "issubset", "issuperset", "isdisjoint", "equals", "isclose", "allclose"}


def judge_jobs():
    """Judge one job after the other as long as the tests leave this process as it was."""
    server = socket.socket(fileno=3)
    if importlib.util.find_spec("pytest") is None or "pytest" in cage.disabled:
        sys.modules["pytest"] = stand_in_pytest()
    gc.collect()
    gc.freeze()
    send(server, "ready")
    while True:
        _, fds = receive(server) or os._exit(0)
        with socket.socket(fileno=fds[1]) as channel:
            job = json.loads(read_file(fds[0]))
            answer, clean = examine(job, channel)
        os.ftruncate(fds[0], 0)
        os.pwrite(fds[0], json.dumps(answer).encode(), 0)
        os.close(fds[0])
        send(server, {"clean": clean, "gone": answer["reason"] == "gone"})


def examine(job, channel):
    """({"reason", "detail", "flags"}, whether this process can judge another job)"""
    global peer
    answer = {"reason": "passed", "detail": "", "flags": []}
    peer, Counting.ran = Examiner(channel), 0
    try:
        prelude = compile_prelude(job["prelude"])
        tree = ast.parse(job["tests"], "tests.py")
        defines_check = any(isinstance(node, ast.FunctionDef) and node.name == "check" for node in tree.body)
        if job["style"] == "auto" and job["entry_point"] and defines_check:
            job["style"] = "check"
        clean = is_simple(tree) and is_simple(ast.parse(job["prelude"])) if compiles(job["prelude"]) else is_simple(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        return dict(answer, reason=f"error: the tests or the prelude do not parse: {problem}"), True
    linecache.cache["tests.py"] = (len(job["tests"]), None, job["tests"].splitlines(True), "tests.py")
    try:
        solution = own_solution(job) if job["code"] is not None else remote_solution()
        module = test_module(job, prelude, tree, solution, answer)
        Counting().visit(tree)
        exec(compile(tree, "tests.py", "exec", dont_inherit=True), module.__dict__)
        if job["style"] == "check":
            module.check(vars(module)[job["entry_point"]])
        run_collected(module)
        if not Counting.ran:
            answer["reason"] = "failed: the tests ran no assert"
    except Verdict as known:
        answer["reason"] = str(known)
    except BaseException as problem:
        answer.update(explain(problem))
    finally:
        for name in ("solution", "tests"):
            sys.modules.pop(name, None)
    if peer.gone is not None:                       # also if the tests caught it
        answer["reason"] = "failed: " + peer.gone if peer.gone else "gone"
    return answer, clean and job["code"] is None


class Verdict(BaseException):
    """The reason that ends the examination."""


def compiles(text):
    try:
        return bool(ast.parse(text)) or True
    except SyntaxError:
        return False


def remote_solution():
    """The module `solution` of the tests: each name asks S."""
    report = peer.receive_report()
    if report[0] == "syntax":
        raise Verdict("syntax")
    if report[0] == "raised":
        raise Verdict("memory" if report[1] else f"failed: {str(report[2])[:300]}, while the program was loaded")
    solution = RemoteModule("solution")
    peer.stand_in_ids[id(solution)] = 0
    vars(solution)["__all__"] = [name for name in report[1] if isinstance(name, str) and not name.startswith("_")]
    return solution


class RemoteModule(types.ModuleType):
    def __getattr__(self, name):
        return peer.get(self, name)


def own_solution(job):
    """One-process mode: the program runs here, beside the tests."""
    solution = types.ModuleType("solution")
    sys.modules["solution"] = solution
    exec(compile_prelude(job["prelude"]), solution.__dict__)
    try:
        exec(compile(encode(job["code"]), "solution.py", "exec", dont_inherit=True), solution.__dict__)
    except SyntaxError:
        raise Verdict("syntax") from None
    solution.__all__ = [name for name in vars(solution) if not name.startswith("_")]
    return solution


def test_module(job, prelude, tree, solution, answer):
    """The module that the tests run in: the prelude's names first, then those of the program that the tests use."""
    module = types.ModuleType("tests")
    sys.modules.update(solution=solution, tests=module)
    space, entry = module.__dict__, job["entry_point"]
    exec(prelude, space)
    space["__counted__"] = Counting.count
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "solution"
                for alias in node.names}
    trusted = {name for name in space if name != entry}
    offered = []
    for name in solution.__all__:
        if name in trusted or name not in used | imported | {entry} or name in vars(builtins) and name not in imported | {entry}:
            continue
        library = MODULE_ALIASES.get(name, name)
        if library.split(".")[0] in sys.stdlib_module_names or library != name:
            space[name] = importlib.import_module(library)         # ours, whatever the program says it is
            continue
        space[name] = getattr(solution, name)
        offered.append(name)
        if name not in imported and name != entry:
            answer["flags"].append(name)
    vars(solution)["__all__"] = offered
    if job["style"] == "check" and entry not in offered:
        raise Verdict(f"failed: the program does not define {entry}")
    return module


class Counting(ast.NodeTransformer):
    """Count the checks that run: assert statements, calls of assert..., raises, warns and fail, and ifs that raise."""
    ran = 0

    @staticmethod
    def count(value):
        Counting.ran += 1
        return value

    def wrap(self, node):
        name = ast.copy_location(ast.Name("__counted__", ast.Load()), node)
        return ast.copy_location(ast.Call(name, [node], []), node)

    def visit_Assert(self, node):
        self.generic_visit(node)
        node.test = self.wrap(node.test)
        return node

    def visit_If(self, node):
        self.generic_visit(node)
        if any(isinstance(inner, ast.Raise) for inner in node.body):
            node.test = self.wrap(node.test)
        return node

    def visit_Call(self, node):
        self.generic_visit(node)
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        return self.wrap(node) if name.startswith("assert") or name in ("raises", "warns", "fail") else node


def is_simple(tree):
    """Whether tests can be trusted to leave nothing behind in the process that runs them."""
    imports = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            if any(module.split(".")[0] not in SIMPLE_IMPORTS or module == "unittest.mock" for module in modules):
                return False
            imports |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    for node in ast.walk(tree):
        if {getattr(node, "id", None), getattr(node, "attr", None), getattr(node, "arg", None)} & NOT_SIMPLE:
            return False
        if isinstance(node, ast.alias) and node.name in NOT_SIMPLE:
            return False
        if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            base = node
            while isinstance(base, (ast.Attribute, ast.Subscript)):
                base = base.value
            if isinstance(base, ast.Name) and base.id in imports:
                return False
    return True


def explain(problem):
    """The reason that goes with what the tests raised."""
    frames = [frame for frame in traceback.extract_tb(problem.__traceback__) if frame.filename == "tests.py"]
    line = f": {frames[-1].line}" if frames and frames[-1].line else ""
    from_program = id(problem) in peer.raised
    if isinstance(problem, MemoryError):
        return {"reason": "memory"}
    if isinstance(problem, ModuleNotFoundError) and not from_program and problem.name not in (None, "solution"):
        return {"reason": f"error: the tests need {problem.name!r}, which is not installed"}
    told = describe(problem)
    if not frames and not from_program:             # nothing that the tests or the program did
        return {"reason": f"error: the judge failed: {told[:300]}"}
    if isinstance(problem, AssertionError) and not from_program:
        return {"reason": f"failed{line or ': ' + told}"[:500], "detail": told[:1000]}
    return {"reason": f"failed: {told[:300]}{', in' + line if line else ''}"[:500]}


def describe(problem):
    try:
        return f"{type(problem).__name__}: {problem}"[:1000].rstrip(": ")
    except BaseException:
        return type(problem).__name__


class Examiner(Peer):
    """The judge's end: what S says is checked, what the tests know is not shown to the operators of S."""

    def __init__(self, channel):
        super().__init__(channel)
        self.gone, self.serving, self.raised = None, 1, {}
        random.seed()                               # S has a copy of the server's generator, and could tell what is a decoy
        self.made, self.tainted = set(), set()      # stand-ins that the tests constructed; results of operators on such
        self.base = sys.stdout, sys.stdin, builtins.input

    def end(self, why):
        self.gone = self.gone or why
        raise Gone(why)

    def receive_report(self):
        report = self.checked(self.read)
        if type(report) is not list or len(report) < 2 or report[0] not in ("ready", "syntax", "raised"):
            self.end("the program sent what is not an answer")
        return report

    def checked(self, function, *args):
        """What comes from S is malformed only if S made it so."""
        try:
            return function(*args)
        except RecursionError:
            self.end("the program's answer is nested too deeply")
        except (ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, TypeError, ValueError, OSError,
                RuntimeError) as problem:
            self.end(f"the program's answer is malformed ({type(problem).__name__})")

    def read(self):
        try:
            message = super().read()
        except (ValueError, RecursionError, ConnectionError):
            self.end("the program sent what is not an answer")
        return message if type(message) is list and len(message) >= 2 else self.end("the program sent what is not an answer")

    def write(self, message):
        try:
            super().write(message)
        except OSError:
            self.end("")

    def conclude(self, message, things, action, args):
        outcome, value, printed = self.checked(self.accept, message, things)
        if type(printed) is str:
            sys.stdout.write(printed)
        if outcome != "raised":
            return value
        stops = isinstance(value, (StopIteration, StopAsyncIteration))
        if isinstance(value, GeneratorExit) or stops and action != "send" and args[0] not in ("__next__", "__anext__"):
            value = RuntimeError(f"the program raised {type(value).__name__}")         # would end a map() of the tests early
        self.raised[id(value)] = value
        raise value

    def accept(self, message, things):
        outcome, value, changes, printed = message
        value = self.unpack(value, things)
        for n, content in [(n, [self.unpack(item, things) for item in content]) for n, content in changes]:
            replace(things[n], content)
        assert outcome == "returned" or isinstance(value, BaseException)
        return outcome, value, printed

    def answer(self, message):
        if len(message) != 4 or message[0] != "ask" or type(message[2]) is not list:
            self.end("the program sent what is not a question")
        super().answer(message)

    def redirected(self):
        return (sys.stdout is not self.base[0]) + 2 * (sys.stdin is not self.base[1] or builtins.input is not self.base[2])

    def perform(self, action, *args):
        """S may call what it was handed, use public attributes of objects of the tests' classes, and iterate."""
        if action == "input" and self.redirected() & 2:
            return input(*args)
        if action == "stdin" and args[0] in ("readline", "read") and self.redirected() & 2:
            return getattr(sys.stdin, args[0])()
        name, thing = args[:2] if action == "special" else (args[1] if action in ("get", "set", "delete") else "", args[0])
        of_tests = "tests" in (type(thing).__module__, getattr(thing, "__module__", None) if isinstance(thing, type) else "")
        allowed = (action == "call" or action == "send" and isinstance(thing, types.GeneratorType)
                   or action in ("get", "set", "delete") and of_tests and type(name) is str and not name.startswith("_")
                   or action == "special" and name in OPERATIONS and (of_tests or name in ITERATION))
        if not allowed or id(thing) not in self.export_ids or is_test_case(thing):
            raise PermissionError("not for the program")
        return super().perform(action, *args)

    def get(self, thing, name):
        found = super().get(thing, name)
        if name in NEVER_FROM_STRANGERS and isinstance(thing, StandIn) and self.number(thing) not in self.made:
            raise AttributeError(f"{name}: the answer is an object of the program's own, not a value")
        return found

    def number(self, thing):
        return self.stand_in_ids.get(id(thing))

    def construct(self, cls, args, kwargs):
        thing = self.ask("call", cls, args, kwargs)
        if isinstance(thing, StandIn) and cls.__name__[:1].isupper():              # `class f` is no function f
            self.made.add(self.number(thing))
        return thing

    def special(self, name, thing, *args):
        """Operators. No object of the program is equal to a plain value, and none gets to see the value it is held against:
        a class that answers every comparison would pass every test."""
        if self.number(thing) in self.tainted and name in UNARY | COMPARISONS:
            raise TypeError(f"{name} on what came of the program's own operator and a plain value")
        if name not in COMPARISONS | ARITHMETIC | {"__eq__", "__contains__"}:
            return self.ask("special", name, thing, *args)
        other = args[0]
        if name == "__eq__":
            return self.equal(thing, other)
        if self.number(other) is not None:
            return self.keep(name, thing, self.ask("special", name, thing, other))
        if not is_plain(other) and name != "__contains__":
            return NotImplemented
        if self.number(thing) not in self.made or name in COMPARISONS:
            raise TypeError(f"{name}: a plain value of the tests against an object of the program's own")
        result = self.ask("special", name, thing, other)
        if name == "__contains__":
            return bool(result) and not all(self.ask("special", name, thing, decoy) for decoy in decoys(other))
        if result is NotImplemented:
            return result
        if self.number(result) is None:
            raise TypeError(f"{name}: a plain result of the program's own operator and a plain value")
        if name not in SCALING:
            self.tainted.add(self.number(result))
        return self.keep(name, thing, result)

    def keep(self, name, thing, result):
        if self.number(thing) in self.made and self.number(result) is not None and name in ARITHMETIC:
            self.made.add(self.number(result))
        return result

    def equal(self, thing, other):
        if self.number(other) is None:
            if is_plain(other) and type(thing)._is_container:
                return self.ask("copy", thing) == other
            return False if is_plain(other) else NotImplemented
        answers = {}
        for n, question in random.sample([(0, other), (1, decoys(0)[0])], 2):       # S cannot tell which one counts
            try:
                answers[n] = self.ask("special", "__eq__", thing, question)
            except Exception:
                answers[n] = False
                if n == 0:
                    raise
        return NotImplemented if answers[0] is NotImplemented else bool(answers[0]) and answers[1] is not True


def decoys(value):
    """Values of the same kind that only an object which agrees with everything agrees with."""
    if isinstance(value, str):
        return ["".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=len(value) + n)) for n in (7, 9)]
    return [random.randrange(10**9, 10**12), -random.randrange(10**9, 10**12) - 0.5]


def is_test_case(thing):
    kind = thing if isinstance(thing, type) else type(thing)
    return "unittest" in sys.modules and issubclass(kind, sys.modules["unittest"].TestCase)


# ------------------------------------------------------------------------------------------------- J: pytest in small

def run_collected(module):
    """Run what pytest would collect in the tests: functions test*, classes Test*, unittest's test cases."""
    call_if_there(module, "setup_module", "setUpModule")
    session = {}
    for name, thing in list(vars(module).items()):
        if getattr(thing, "__module__", None) != "tests" or peer.number(thing) is not None:
            continue
        if isinstance(thing, type) and is_test_case(thing):
            run_test_case(thing)
        elif isinstance(thing, type) and name.startswith("Test"):
            for method in [method for method in dir(thing) if method.startswith("test")]:
                run_test(getattr(thing, method), thing(), module, session)
        elif isinstance(thing, types.FunctionType) and name.startswith("test"):
            run_test(thing, None, module, session)
    call_if_there(module, "teardown_module", "tearDownModule")


def call_if_there(thing, *names):
    for function in [getattr(thing, name) for name in names if callable(getattr(thing, name, None))]:
        function(*[None] * len(inspect.signature(function).parameters))


def run_test_case(cls):
    result, errors = sys.modules["unittest"].TestResult(), []
    result.addError = result.addFailure = lambda test, problem: errors.append(problem[1])
    result.addSubTest = lambda test, subtest, problem: problem and errors.append(problem[1])
    result.addUnexpectedSuccess = lambda test: errors.append(AssertionError(f"{test}: unexpected success"))
    sys.modules["unittest"].defaultTestLoader.loadTestsFromTestCase(cls).run(result)
    if errors:
        raise errors[0]


def run_test(function, instance, module, session):
    marks = [*getattr(type(instance), "pytestmark", ()), *getattr(function, "pytestmark", ())]
    if any(mark.name == "skip" or mark.name == "skipif" and any(mark.args) for mark in marks):
        return
    for given in cases_of(function, marks, module):
        try:
            run_case(function, instance, module, session, given)
        except BaseException as problem:
            skipped = type(problem).__name__ == "Skipped" and peer.number(type(problem)) is None
            expected = isinstance(problem, Exception) and any(mark.name == "xfail" for mark in marks)
            if not skipped and not expected:
                raise


def cases_of(function, marks, module):
    """One dictionary of arguments for each combination of the function's parameter lists and its fixtures' params."""
    combined = [{}]
    for mark in [mark for mark in marks if mark.name == "parametrize"]:
        names = [name.strip() for name in mark.args[0].split(",")] if isinstance(mark.args[0], str) else mark.args[0]
        rows = [getattr(row, "values", row) if type(row).__name__ == "ParameterSet" else row if len(names) > 1 else [row]
                for row in mark.args[1]]
        combined = [{**old, **dict(zip(names, row))} for row in rows for old in combined]
    for name in inspect.signature(function).parameters:
        _, about = fixture_of(module, name)
        if about and about.params:
            combined = [{**old, "request " + name: value} for value in about.params for old in combined]
    return combined


def run_case(function, instance, module, session, given):
    closing = []
    provide = functools.partial(fixture_value, instance=instance, module=module, session=session, made=given, closing=closing)
    try:
        for name in [name for name in list(vars(module)) if getattr(fixture_of(module, name)[1], "autouse", False)]:
            provide(name)
        call_if_there(*((module, "setup_function") if instance is None else (instance, "setup_method")))
        wanted = {name: provide(name) for name in inspect.signature(function).parameters if name != "self"}
        result = function(**wanted) if instance is None else function(instance, **wanted)
        if inspect.iscoroutine(result):
            importlib.import_module("asyncio").run(result)
        call_if_there(*((module, "teardown_function") if instance is None else (instance, "teardown_method")))
    finally:
        while closing:
            closing.pop()()


def fixture_of(module, name):
    """(function, its description) of a fixture of the tests, made by the real pytest or by the stand-in."""
    thing = vars(module).get(name)
    for attribute in ("_fixture_function_marker", "_pytestfixturefunction"):
        if not isinstance(thing, type) and attribute in dir(thing) and peer.number(thing) is None:
            inner = getattr(thing, "_get_wrapped_function", lambda: getattr(thing, "__pytest_wrapped__", None))()
            return getattr(inner, "obj", inner) or thing, getattr(thing, attribute)
    return None, None


def fixture_value(name, instance, module, session, made, closing):
    """The value of a test's parameter: an argument, a fixture of the tests, or one of pytest's own."""
    if name in made or name in session:
        return made[name] if name in made else session[name]
    if name in OWN_FIXTURES:
        return made.setdefault(name, OWN_FIXTURES[name](closing))
    function, about = fixture_of(module, name)
    if not function:
        raise LookupError(f"fixture {name!r} is not known")
    arguments = {inner: instance if inner == "self" else
                 types.SimpleNamespace(param=made.get("request " + name), addfinalizer=closing.append) if inner == "request" else
                 fixture_value(inner, instance, module, session, made, closing) for inner in inspect.signature(function).parameters}
    value = function(**arguments)
    if inspect.isgenerator(value):
        steps, value = value, next(value)
        if about.scope == "function":
            closing.append(lambda: next(steps, None))
    (made if about.scope == "function" else session)[name] = value
    return value


def own_capsys(closing):
    closing.append(functools.partial(setattr, sys, "stdout", sys.stdout))
    sys.stdout = io.StringIO()

    def readouterr():
        printed, sys.stdout = sys.stdout.getvalue(), io.StringIO()
        return collections.namedtuple("CaptureResult", "out err")(printed, "")
    return types.SimpleNamespace(readouterr=readouterr)


def own_tmp_path(closing):
    return importlib.import_module("pathlib").Path(tempfile.mkdtemp(dir=os.getcwd()))


def own_monkeypatch(closing):
    """pytest's, or what mock.patch can do of it."""
    pytest = importlib.import_module("pytest")
    if hasattr(pytest, "MonkeyPatch"):
        patch = pytest.MonkeyPatch()
        closing.append(patch.undo)
        return patch
    mock = importlib.import_module("unittest.mock")

    def start(patcher):
        patcher.start()
        closing.append(patcher.stop)
    return types.SimpleNamespace(
        setattr=lambda target, *rest, **_: start(mock.patch(target, *rest) if isinstance(target, str) else mock.patch.object(target, *rest)),
        setitem=lambda mapping, key, value: start(mock.patch.dict(mapping, {key: value})),
        setenv=lambda name, value: start(mock.patch.dict(os.environ, {name: value})))


OWN_FIXTURES = {"capsys": own_capsys, "tmp_path": own_tmp_path, "monkeypatch": own_monkeypatch}


class Skipped(BaseException):
    """Raised by the stand-in's skip()."""


def stand_in_pytest():
    """For machines without pytest: what the tests of data sets use of it."""
    pytest = types.ModuleType("pytest")
    pytest.raises, pytest.approx, pytest.mark = raises, Approx, Mark()
    pytest.param = lambda *values, **_: collections.namedtuple("ParameterSet", "values")(values)
    pytest.skip, pytest.fail, pytest.importorskip = raising(Skipped), raising(AssertionError), importlib.import_module

    def fixture(function=None, *, scope="function", params=None, autouse=False, **_):
        if function is None:
            return lambda function: fixture(function, scope=scope, params=params, autouse=autouse)
        function._pytestfixturefunction = types.SimpleNamespace(scope=scope, params=params, autouse=autouse)
        return function
    pytest.fixture = fixture
    return pytest


def raising(kind):
    def function(reason="", *_, **__):
        raise kind(reason)
    return function


class Mark:
    """pytest.mark: a decorator that notes its name and arguments, with or without a call."""

    def __init__(self, name="", args=()):
        self.name, self.args = name, args

    def __getattr__(self, name):
        return Mark(name)

    def __call__(self, *args, **kwargs):
        if len(args) == 1 and not kwargs and (inspect.isfunction(args[0]) or inspect.isclass(args[0])):
            args[0].pytestmark = [*getattr(args[0], "pytestmark", ()), self]
            return args[0]
        return Mark(self.name, args)


class raises:
    """As a context manager, or called with a function."""

    def __init__(self, expected, function=None, *args, match=None, **kwargs):
        self.expected, self.match, self.value = expected, match, None
        if function:
            with self:
                function(*args, **kwargs)

    def __enter__(self):
        return self

    def __exit__(self, kind, problem, _):
        if kind is None:
            raise AssertionError(f"did not raise {self.expected}")
        self.type, self.value = kind, problem
        if issubclass(kind, self.expected) and self.match and not re.search(self.match, str(problem)):
            raise AssertionError(f"{str(problem)!r} does not match {self.match!r}")
        return issubclass(kind, self.expected)


class Approx:
    """Equal to within 1e-6 of the expected value, or 1e-12; also inside lists, tuples, dictionaries and arrays."""
    __array_ufunc__ = __hash__ = None

    def __init__(self, expected, rel=None, abs=None, nan_ok=False):
        self.expected, self.nan_ok = expected, nan_ok
        self.rel, self.abs = 1e-6 if rel is None and abs is None else rel or 0, 1e-12 if abs is None else abs

    def __eq__(self, actual):
        return self.close(actual, self.expected)

    def close(self, actual, expected):
        if peer.number(actual) is not None and not isinstance(actual, tuple(BASES)):
            return False
        actual, expected = (side.tolist() if hasattr(side, "tolist") else side for side in (actual, expected))
        if isinstance(expected, dict):
            return (isinstance(actual, dict) and actual.keys() == expected.keys()
                    and all(self.close(actual[key], expected[key]) for key in expected))
        if isinstance(expected, (list, tuple)):
            return isinstance(actual, (list, tuple)) and len(actual) == len(expected) and all(map(self.close, actual, expected))
        if actual == expected or not isinstance(actual, (int, float, complex)) or not isinstance(expected, (int, float, complex)):
            return actual == expected
        if expected != expected:
            return self.nan_ok and actual != actual
        return abs(actual - expected) <= max(self.abs, self.rel * abs(expected)) < float("inf")

    def __repr__(self):
        return f"approx({self.expected!r})"


# ------------------------------------------------------------------------------------------------- the layers

LIBC, LIBC_WITH_GIL = ctypes.CDLL(None, use_errno=True), ctypes.PyDLL(None, use_errno=True)
NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 0x1000, 0x4000, 0x40000
PDEATHSIG, DUMPABLE, KEEPCAPS, SUBREAPER, NO_NEW_PRIVS = 1, 4, 8, 36, 38                # prctl
DAC_READ_SEARCH = 1 << 2
X86 = os.uname().machine == "x86_64"
# Numbers of system calls: name, x86-64, aarch64 ("-": has none). Refused with EPERM, as nothing legitimate needs them:
REFUSED = """ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, kcmp 312 272, pidfd_getfd 438 438,
  bpf 321 280, perf_event_open 298 241, userfaultfd 323 282, add_key 248 217, request_key 249 218, keyctl 250 219,
  name_to_handle_at 303 264, open_by_handle_at 304 265, fanotify_init 300 262, personality 135 92, setns 308 268,
  unshare 272 97, mount 165 40, umount2 166 39, pivot_root 155 41, chroot 161 51, open_tree 428 428, move_mount 429 429,
  fsopen 430 430, fsconfig 431 431, fsmount 432 432, fspick 433 433, mount_setattr 442 442, sched_setparam 142 118,
  sched_setscheduler 144 119, sched_setattr 314 274, ioprio_set 251 30, shmget 29 194, shmctl 31 195, shmat 30 196,
  semget 64 190, semctl 66 191, semop 65 193, semtimedop 220 192, msgget 68 186, msgctl 71 187, msgsnd 69 189,
  msgrcv 70 188, mq_open 240 180, mq_unlink 241 181, setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7,
  removexattr 197 14, lremovexattr 198 15, fremovexattr 199 16, init_module 175 105, finit_module 313 273,
  delete_module 176 106, kexec_load 246 104, kexec_file_load 320 294, reboot 169 142, swapon 167 224, swapoff 168 225,
  quotactl 179 60, acct 163 89, clock_settime 227 112, settimeofday 164 170, adjtimex 159 171, clock_adjtime 305 266,
  sethostname 170 161, setdomainname 171 162, syslog 103 116, ioperm 173 -, iopl 172 -, modify_ldt 154 -,
  lookup_dcookie 212 18, vhangup 153 58, move_pages 279 239, migrate_pages 256 238, mbind 237 235"""
# As if the kernel did not have them: the C library then takes another way (and memfd pages would escape every limit).
ABSENT = "clone3 435 435, io_uring_setup 425 425, io_uring_enter 426 426, io_uring_register 427 427, " \
         "memfd_create 319 279, memfd_secret 447 447"
# Without a private root: Landlock does not rule over these; success is pretended, so that shutil.copy() works.
PRETENDED = "chmod 90 -, fchmodat 268 53, fchmodat2 452 452, chown 92 -, lchown 94 -, fchownat 260 54, utime 132 -, " \
            "utimes 235 -, futimesat 261 -, utimensat 280 88"
KILLS = "kill 62 129, tkill 200 130, tgkill 234 131, rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240"
GROUPS = "setsid 112 157, setpgid 109 154, pidfd_send_signal 424 424"
TRUNCATE = "truncate 76 45"
SYSCALL = {"clone": 56 if X86 else 220, "prlimit64": 302 if X86 else 261, "ioctl": 16 if X86 else 29,
           "socket": 41 if X86 else 198, "seccomp": 317 if X86 else 277, "capset": 126 if X86 else 91,
           "pivot_root": 155 if X86 else 41}


class LayerFailed(Exception):
    def __init__(self, layer, why):
        super().__init__(f"{layer}: {why}")
        self.layer = layer


OWN_PID = 0x7ABCDEF1                                # in the filter: to be replaced
DEVICES = [f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom")]


def syscall(number, *args):
    result = LIBC.syscall(*(ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in (number, *args)))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def libc(name, *args):
    result = getattr(LIBC, name)(
        *(ctypes.c_ulong(arg) if isinstance(arg, int) else arg for arg in args))
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")


class Cage:
    """What the fork server enters once, and what each of its forks is put into."""

    def __init__(self, disabled):
        self.disabled = disabled
        self.on = {layer for layer in LAYERS if layer not in disabled and (LINUX or layer == "rlimits")}
        self.on -= {"uid"} if os.getuid() else set()
        self.on -= {"pidns"} if "userns" not in self.on else set()
        self.on -= {"netns", "root"} if "userns" not in self.on and os.getuid() else set()
        self.owner, self.caps, self.ruleset, self.abi = os.getuid(), 0, None, 0
        self.scratch = "/job" if "root" in self.on else tempfile.mkdtemp(prefix="sandbox-")

    def enter(self):
        global proc_fd
        set_limit(resource.RLIMIT_STACK, STACK_MB << 20, soft=True)
        set_limit(resource.RLIMIT_NOFILE, 256)
        self.null = fcntl.fcntl(os.open("/dev/null", os.O_RDWR), fcntl.F_DUPFD_CLOEXEC, 100)
        if os.path.isdir("/proc/self"):
            proc_fd = fcntl.fcntl(os.open("/proc", os.O_RDONLY), fcntl.F_DUPFD_CLOEXEC, 100)
        self.try_layer("subreaper", libc, "prctl", SUBREAPER, 1)
        self.enter_namespaces()
        os.environ.update(HOME=self.scratch, TMPDIR=self.scratch)
        tempfile.tempdir = None
        os.chdir(self.scratch)
        if self.on & {"landlock", "seccomp"}:
            libc("prctl", NO_NEW_PRIVS, 1, 0, 0, 0)
        self.try_layer("landlock", self.make_ruleset)
        self.make_filter()
        self.settle()

    def try_layer(self, layer, function, *args):
        if layer in self.on:
            try:
                function(*args)
            except OSError as problem:
                raise LayerFailed(layer, problem) from None

    def enter_namespaces(self):
        """An ordinary user needs the user namespace first; root makes the others, becomes an ordinary user, then that."""
        separate = [flag for layer, flag in (("root", NEWNS), ("netns", NEWNET), ("userns", NEWIPC), ("userns", NEWUTS))
                    if layer in self.on]
        if "uid" in self.on:
            for flag in separate:
                self.try_layer({NEWNS: "root", NEWNET: "netns"}.get(flag, "userns"), libc, "unshare", flag)
            self.try_layer("root", self.make_root)
            self.try_layer("uid", self.drop_uid)
            self.try_layer("userns", self.enter_user_namespace, 0)
        else:
            self.try_layer("userns", self.enter_user_namespace, sum(separate))
            self.try_layer("root", self.make_root)

    def enter_user_namespace(self, others):
        uid, gid = os.getuid(), os.getgid()
        libc("unshare", NEWUSER | others)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            fd = os.open(f"self/{name}", os.O_WRONLY, dir_fd=proc_fd)
            os.write(fd, text.encode())
            os.close(fd)

    def drop_uid(self):
        """From root to a user of this server's own, for uid 0 is above RLIMIT_NPROC and file modes."""
        uid = 61000 + os.getpid() % 4000
        for folder in self.writable():
            os.chown(folder, uid, uid)
        libc("prctl", KEEPCAPS, 1, 0, 0, 0)
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        libc("prctl", DUMPABLE, 1, 0, 0, 0)
        if not os.access(os.__file__, os.R_OK):     # Python lives in root's home: read on, if Landlock says what
            if "userns" in self.on or "landlock" not in self.on:
                raise LayerFailed("userns" if "userns" in self.on else "uid", "only root may read this Python")
            self.caps = DAC_READ_SEARCH
        if "userns" not in self.on:
            self.set_capabilities()

    def set_capabilities(self):
        syscall(SYSCALL["capset"], struct.pack("<Ii", 0x20080522, 0), struct.pack("<6I", self.caps, self.caps, 0, 0, 0, 0))

    def readable(self):
        """What a program may read: the system's libraries and this Python; nothing that holds the user's home."""
        packages = [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
        paths = {"/usr", "/lib", "/lib32", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/localtime", sys.prefix,
                 sys.base_prefix, sys.exec_prefix, *packages}
        home = os.path.realpath(os.path.expanduser(f"~{self.owner}")) + "/"
        return sorted(path for path in paths if os.path.exists(path) and not home.startswith(os.path.realpath(path) + "/"))

    def writable(self):
        return ["/dev/shm"] * ("root" in self.on) + [self.scratch]

    def make_root(self):
        """A root of its own: a tmpfs with read-only views of the readable paths, a scratch folder, and no /proc."""
        views = [(path, os.path.realpath(path)) for path in self.readable() + DEVICES]
        mount(None, "/", None, MS_REC | MS_PRIVATE)
        mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID, "size=4m,mode=755")
        os.chdir("/tmp")
        os.mkdir("old")
        syscall(SYSCALL["pivot_root"], b".", b"old")
        os.chdir("/")
        for real in sorted({real for _, real in views}):
            if not os.path.exists(real):            # else inside one that is there
                (os.makedirs(real) if os.path.isdir("/old" + real) else touch(real))
                mount("/old" + real, real, None, MS_BIND | MS_REC)
        for path, real in views:
            if not os.path.lexists(path):
                os.makedirs(os.path.dirname(path), exist_ok=True)
                os.symlink(real, path)
        for path in self.writable():
            os.makedirs(path, exist_ok=True)
        if not os.path.lexists("/tmp"):
            os.symlink(self.scratch, "/tmp")
        libc("umount2", b"/old", 2)                 # MNT_DETACH
        os.rmdir("/old")
        read_only = struct.pack("<4Q", 1 | MS_NOSUID, 0, 0, 0)
        syscall(442, -100, b"/", 0x8000, read_only, len(read_only))                # mount_setattr, recursive
        for path in self.writable():
            mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, f"size={SCRATCH_MB}m,nr_inodes=20000,mode=1777")

    def make_ruleset(self):
        """Landlock: read what is readable, write in the scratch folder, no TCP, no signals to others."""
        self.abi = syscall(444, None, 0, 1)
        rights = (1 << (16 if self.abi >= 5 else 15 if self.abi >= 3 else 14 if self.abi >= 2 else 13)) - 1
        size = 24 if self.abi >= 6 else 16 if self.abi >= 4 else 8
        self.ruleset = fcntl.fcntl(syscall(444, struct.pack("<3Q", rights, 3, 3)[:size], size, 0), fcntl.F_DUPFD_CLOEXEC, 100)
        read, on_files = 0b1101, 0b1100000000000111
        rules = [(path, read) for path in (["/"] if "root" in self.on else self.readable())]
        for path, allowed in [*rules, *((path, rights) for path in self.writable()), *((path, rights) for path in DEVICES)]:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
            allowed &= rights if os.path.isdir(path) else rights & on_files
            syscall(445, self.ruleset, 1, struct.pack("<Qi", allowed, fd), 0)
            os.close(fd)

    def settle(self):
        """Note what a fork starts with; keep the collector from touching, and so copying, every page of it."""
        pages = [int(number) * resource.getpagesize() for number in (proc("self/statm") or b"0 0 0 0 0 0 0").split()]
        self.base_size, self.base_rss, self.base_data = pages[0], pages[1], pages[5]
        gc.collect()
        gc.freeze()

    def fork(self):
        if "pidns" not in self.on:
            return os.fork()
        ctypes.pythonapi.PyOS_BeforeFork()
        pid = LIBC_WITH_GIL.syscall(SYSCALL["clone"], ctypes.c_long(NEWPID | signal.SIGCHLD), 0, 0, 0, 0)
        if pid == 0:
            ctypes.pythonapi.PyOS_AfterFork_Child()
            return 0
        ctypes.pythonapi.PyOS_AfterFork_Parent()
        if pid < 0:
            problem = OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            raise problem if problem.errno in (errno.EAGAIN, errno.ENOMEM) else LayerFailed("pidns", problem)
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
            os.register_at_fork = register_at_fork
            for handlers in at_fork:                # for the forks of this process
                register_at_fork(**handlers)
            body()
        except LayerFailed as failure:
            if body is judge_jobs:
                os.write(3, json.dumps({"failed": failure.layer, "why": str(failure)}).encode() + b"\n")
        finally:
            os._exit(71)

    def confine(self, descriptors, job):
        """The last steps, in an order in which none forbids the next."""
        if LINUX:
            libc("prctl", PDEATHSIG, signal.SIGKILL)
        os.setsid()
        memory = job["memory_mb"] << 20
        set_limit(resource.RLIMIT_DATA, self.base_data + memory)
        set_limit(resource.RLIMIT_AS, self.base_size + 4 * memory)               # threads reserve much more than they use
        set_limit(resource.RLIMIT_FSIZE, FILE_MB << 20)
        set_limit(resource.RLIMIT_NOFILE, OPEN_FILES)
        set_limit(resource.RLIMIT_CORE, 0)
        if job["cpu"]:
            set_limit(resource.RLIMIT_CPU, int(job["cpu"]) + 2)
        if self.on & {"userns", "uid"}:             # else the limit would count every process of the account
            set_limit(resource.RLIMIT_NPROC, PROCESSES)
        if "userns" in self.on:
            self.set_capabilities()
        self.try_layer("landlock", syscall, 446, self.ruleset, 0)
        os.closerange(descriptors, 256)
        self.try_layer("seccomp", self.filter_calls)

    def filter_calls(self):
        program = self.filter.replace(struct.pack("<I", OWN_PID), struct.pack("<I", os.getpid()))
        array = ctypes.create_string_buffer(program)
        syscall(SYSCALL["seccomp"], 1, 4, struct.pack("<HxxxxxxQ", len(program) // 8, ctypes.addressof(array)))

    def make_filter(self):
        """Classic BPF over (number, architecture, arguments) of a call."""
        load, equal, at_least, any_bit, give = 0x20, 0x15, 0x35, 0x45, 0x06
        allow, deny, absent = 0x7FFF0000, 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS
        steps = [(load, 0, 0, 4), (equal, 1, 0, 0xC000003E if X86 else 0xC00000B7), (give, 0, 0, 0x80000000), (load, 0, 0, 0),
                 (at_least, 0, 1, 470), (give, 0, 0, absent)]
        steps += answers(REFUSED, deny) + answers(ABSENT, absent)
        steps += [(equal, 0, 1, SYSCALL["socket"]), (give, 0, 0, 0x50000 | errno.EACCES)]
        if "root" not in self.on:
            steps += answers(PRETENDED, 0x50000)
        if self.abi < 3 and "root" not in self.on:
            steps += answers(TRUNCATE, deny)
        if "pidns" not in self.on:
            steps += answers(GROUPS, deny)
            if self.abi < 6:
                for number in numbers(KILLS):
                    steps += [(equal, 0, 5, number), (load, 0, 0, 16), (equal, 2, 0, OWN_PID), (equal, 1, 0, 0),
                              (give, 0, 0, deny), (give, 0, 0, allow)]
        steps += [(equal, 0, 4, SYSCALL["clone"]), (load, 0, 0, 16), (any_bit, 0, 1, 0x7E020000), (give, 0, 0, deny),
                  (give, 0, 0, allow)]
        steps += [(equal, 0, 4, SYSCALL["prlimit64"]), (load, 0, 0, 16), (equal, 1, 0, 0), (give, 0, 0, deny), (give, 0, 0, allow)]
        steps += [(equal, 0, 4, SYSCALL["ioctl"]), (load, 0, 0, 24), (equal, 1, 0, 0x5412), (equal, 0, 1, 0x541C),
                  (give, 0, 0, deny)]               # TIOCSTI, TIOCLINUX
        self.filter = b"".join(struct.pack("<HBBI", *step) for step in [*steps, (give, 0, 0, allow)])

    def strays(self, judge):
        """Children of the server that are not the judge: without a pid namespace, daemons of the program are among them."""
        if "pidns" in self.on:
            return []
        return [int(pid) for pid in (proc(f"{os.getpid()}/task/{os.getpid()}/children") or b"").split()
                if int(pid) != judge.pid]

    def kill_strays(self, judge):
        """Without a pid namespace: again and again, until the program's descendants have stopped having more."""
        while strays := self.strays(judge):
            for pid in [pid for stray in strays for pid in (stray, *tree(stray))]:
                kill(pid)
            for pid in strays:
                try:
                    os.waitpid(pid, os.WNOHANG)
                except ChildProcessError:
                    pass

    def empty_scratch(self):
        for folder in self.writable():
            try:
                empty(folder)
            except OSError as problem:
                raise SystemExit(f"{folder} cannot be emptied: {problem}") from None

    def hello(self):
        on, abi = self.on, f"landlock (abi {self.abi})"
        files = ["private root"] * ("root" in on) + [abi] * ("landlock" in on)
        network = (["no sockets"] + ["own namespace"] * ("netns" in on)) * ("seccomp" in on)        # AF_VSOCK has no namespace
        signals = ["pid namespace"] * ("pidns" in on) + ["seccomp"] * ("seccomp" in on and "pidns" not in on)
        protected = {"files": files, "network": network, "signals": signals}
        words = [f"{name}={' + '.join(how) or 'NOT PROTECTED'}" for name, how in protected.items()]
        limited = on & {"userns", "uid"}
        words += [f"processes={PROCESSES if limited else 'watched' if proc_fd else 'NOT LIMITED'}",
                  f"tree memory={'watched' if proc_fd else 'NOT WATCHED'}",
                  f"layers={','.join(layer for layer in LAYERS if layer in on)}"]
        return {"banner": "sandbox: verdict=separate process; " + "; ".join(words),
                "protected": [name for name, how in protected.items() if how] + sorted(on),
                "scratch": None if "root" in on else self.scratch}


def mount(source, target, kind, flags, options=None):
    texts = [text if text is None else text.encode() for text in (source, target, kind, options)]
    libc("mount", *texts[:3], flags, texts[3])


def touch(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").close()


def numbers(table):
    found = [row.split()[1 if X86 else 2] for row in table.split(",")]
    return [int(number) for number in found if number != "-"]


def answers(table, answer):
    return [step for number in numbers(table) for step in ((0x15, 0, 1, number), (0x06, 0, 0, answer))]


def set_limit(which, value, soft=False):
    hard = resource.getrlimit(which)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, hard if soft else value))


def empty(folder):
    """Remove what is in a folder: without recursion, for a tree may be deep, and without following links."""
    os.chmod(folder, 0o700)
    os.chdir(folder)
    above = []
    while True:
        inner = None
        for entry in os.scandir():
            if entry.is_dir(follow_symlinks=False):
                inner = entry.name
            else:
                os.unlink(entry.name)
        if inner:
            os.chmod(inner, 0o700)
            os.chdir(inner)
            above.append(inner)
        elif above:
            os.chdir("..")
            os.rmdir(above.pop())
        else:
            return


# ------------------------------------------------------------------------------------------------- by hand

def main():
    import argparse
    parser = argparse.ArgumentParser(description="Run one untrusted program against tests.")
    parser.add_argument("program", help="file with the untrusted program")
    parser.add_argument("tests", help='file with the tests, or .json with {"inputs": [...], "outputs": [...]}')
    parser.add_argument("--style", default="auto", choices=("auto", "check", "pytest", "unittest", "assert", "stdio"))
    parser.add_argument("--entry-point", help="name of the function under test (style check needs it)")
    parser.add_argument("--prelude", help="file with trusted code to run in front of both")
    parser.add_argument("--cpu", type=float, default=CPU_S, help="limit in seconds of processor time")
    parser.add_argument("--memory", type=int, default=MEMORY_MB, help="limit in MB for each process")
    parser.add_argument("--require", default="rlimits", choices=LEVELS, help="refuse to run with less protection")
    parser.add_argument("--disable", nargs="*", default=[], help="layers not to use: " + " ".join(LAYERS))
    args = parser.parse_args()
    try:
        code, tests, prelude = (open(path, encoding="utf-8").read() if path else "" for path in
                                (args.program, args.tests, args.prelude))
        job = {"code": code, "tests": json.loads(tests) if args.tests.endswith(".json") else tests, "style": args.style,
               "entry_point": args.entry_point, "prelude": prelude, "cpu_s": args.cpu, "memory_mb": args.memory}
        with Pool(1, require=args.require, disable=args.disable) as pool:
            print(pool.banner, file=sys.stderr)
            (_, result), = pool.imap_unordered([(None, job)])
    except (OSError, ValueError, RuntimeError) as problem:
        sys.exit(print(f"sandbox_exec.py: {problem}", file=sys.stderr) or 2)
    print(result.reason + (f" ({result.detail})" if result.detail else ""))
    sys.exit({True: 0, False: 1, None: 3}[result.passed])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(int(sys.argv[2]), sys.argv[3:])
    else:
        main()
