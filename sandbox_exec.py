#!/usr/bin/env python3
"""Run untrusted (model-written) Python against tests: a verdict nobody can forge, on a machine nobody can hurt.

    python sandbox_exec.py program.py tests.py         # one verdict, and what protects this machine
    python sandbox_exec.py program.py tests.json       # {"inputs": [...], "outputs": [...]}: standard input and output

    from sandbox_exec import run_tests, Pool
    run_tests("def f(x): return x * x", "assert f(3) == 9").passed                               # True
    with Pool() as pool:                               # one warm fork server a core
        for key, result in pool.imap_unordered([("a", {"code": ..., "tests": ...}), ...]):       # as they finish
            print(key, result.passed, result.reason)

A job is the keyword arguments of `run_tests`:

    code         the program to judge, text (None or blank: verdict `no code`)
    tests        text of the tests (asserts, pytest's functions, unittest's classes), or {"inputs": [...],
                 "outputs": [...]}: lines must be equal up to trailing blanks, and the exit status 0
    style        "check": the tests define check(candidate), called once with the entry point; "auto": if they do
    entry_point  name of the function under test; needed by "check", useful elsewhere
    prelude      trusted code of the problem statement, run in front of the program and, for its helpers, of the tests
    cpu_s        seconds of processor time, default 10, of the program with its children: the limit that decides
    wall_s       seconds of real time, default 10 * cpu_s, but only 2 * cpu_s asleep; a run that only waited for a
                 busy processor is repeated once, alone
    memory_mb    for each process; the whole tree may hold 1.5 times as much

`result.reason` is `passed`, `failed: <which assert or exception>`, `timeout`, `memory`, `killed`, `no code`, `syntax`,
or `error: <what the sandbox could not do>`; `passed` is True, False, or (error) None.

How: parent -> fork server F (clean, single-threaded) -> judge J (runs the tests) and, for each job, a fork S (runs the
program). S holds no test, no expected value, and no descriptor but a socket to J on which plain data crosses by value
and everything else as an opaque handle. Printed text, exit codes and early exits never count. Around both stand as many
layers as the machine allows (LAYERS); `pool.banner` says which; `Pool(require="namespaces")` refuses to work with less.

Not covered: bugs of the kernel, side channels, reading /usr and the Python installation, a class that lies about
equality between its own instances or whose instances change their items from one look to the next, tests that patch
what the program imports. Sockets are always refused.
"""
# ruff: noqa: SIM905
import ast
import atexit
import builtins
import collections
import contextlib
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
import marshal
import os
import random
import re
import resource
import select
import shutil
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

LAYERS = ("rlimits", "subreaper", "namespaces", "landlock", "seccomp")
LEVELS = {"rlimits": (), "seccomp": ("network", "signals"), "landlock": ("network", "signals", "files"),
          "namespaces": ("network", "signals", "files", "namespaces")}
CPU_S, MEMORY_MB, TREE_FACTOR = 10, 1024, 1.5
FILE_MB, SCRATCH_MB, OPEN_FILES, PROCESSES, STACK_MB = 64, 256, 256, 64, 64
JUDGE_MEMORY_MB, JUDGE_JOBS, FRAME_LIMIT = 2048, 500, 64 << 20


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
        return None if self.verdict == "error" else self.verdict == "passed"


# ------------------------------------------------------------------------------------------------- the caller's process

def run_tests(code, tests, **job):
    """Judge one program in a server that stays warm until the interpreter ends; `job` as in the module's docstring."""
    pool, lock = shared_pool(os.getpid())
    with lock:
        return next(pool.imap_unordered([(None, dict(job, code=code, tests=tests))]))[1]


@functools.cache
def shared_pool(_pid):
    return Pool(1), threading.Lock()


class Pool(contextlib.AbstractContextManager):
    """`workers` fork servers (default: one a core); `require` is a key of LEVELS; `disable` names layers not to use."""

    def __init__(self, workers=None, *, require="rlimits", disable=()):
        self.servers, disabled = [], set(disable)
        unknown = disabled - {*LAYERS, "pytest"}
        if unknown or require not in LEVELS:
            raise ValueError(f"unknown: {unknown or require!r}; layers are {LAYERS}, levels {tuple(LEVELS)}")
        try:
            for _ in range(workers or os.cpu_count() or 1):
                self.servers.append(Server(disabled))
            self.banner = self.servers[0].banner
            missing = [name for name in LEVELS[require] if name not in self.servers[0].protected]
            if missing:
                raise RuntimeError(f"{require!r} needs {', '.join(missing)}, which this machine lacks; {self.banner}")
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
                while len(running) < len(self.servers):
                    if not ready and (job := next(jobs, None)):
                        ready.append((job[0], judge(**job[1]), None))
                    elif not ready and starved and not running:
                        ready.append((*starved.pop(), None))
                    elif not ready:
                        break
                    key, steps, status = ready.pop()
                    try:
                        run = steps.send(status)
                    except StopIteration as end:
                        yield key, end.value._replace(layers=self.banner)
                        continue
                    if run:
                        server = next(server for server in self.servers if server not in running)
                        server.begin(*run)
                        running[server] = key, steps
                    else:
                        starved.append((key, steps))
                if not running:
                    return
                for server in answering(running):
                    ready.append((*running.pop(server), server.collect()))
        finally:
            for server in running:                  # the caller stopped early
                server.restart()


def answering(servers):
    """Wait until some servers have an answer, died, or are past their deadline."""
    poller = select.poll()
    for server in servers:
        poller.register(server.socket, select.POLLIN)
    patience = max(0, min(server.deadline for server in servers) - time.monotonic())
    ready = {fd for fd, _ in poller.poll(patience * 1000 + 1)}
    return [server for server in servers if server.socket.fileno() in ready or time.monotonic() > server.deadline]


def judge(code, tests, style="auto", entry_point=None, prelude="", cpu_s=CPU_S, wall_s=None, memory_mb=MEMORY_MB):
    """A generator of one job's Result: yields (header, files) for each run by a server, is sent the status; yields None
    when it should only go on once no other job runs."""
    is_stdio, spent = isinstance(tests, dict), collections.Counter()
    cases = [["\n".join(map(str, text)) if isinstance(text, list) else text for text in tests.get(name) or ()]
             for name in ("inputs", "outputs")] if is_stdio else [[], []]
    if not (code or "").strip():
        return Result("no code")
    if not isinstance(tests, (str, dict)) or is_stdio and not cases[0] or len(cases[0]) != len(cases[1]):
        return Result("error: tests must be text or {'inputs': [...], 'outputs': [...]} of equal length")
    if style == "check" and not entry_point:
        return Result("error: tests of the style check need an entry_point")
    header = {"stdio": is_stdio, "cpu": cpu_s, "wall": wall_s or 10 * cpu_s, "asleep": wall_s or 2 * cpu_s,
              "memory_mb": memory_mb, "preload": ["numpy"] if "numpy" in code or "numpy" in str(tests) else []}
    examination = {"tests": tests, "style": style, "entry_point": entry_point, "prelude": prelude or ""}
    reason, detail = (yield from judge_stdio(code, cases, header, spent)) if is_stdio else (
        yield from judge_tests([prelude or "", code, entry_point], examination, header, spent))
    return Result(reason, detail, round(spent["cpu"], 3), round(spent["wall"], 3), round(spent["rss"] / 2**20, 1))


def judge_tests(program, examination, header, spent):
    status, (_, _, answer) = yield from run(header, [as_bytes(program), as_bytes(examination), b""], spent)
    ended = why_ended(status, header)
    if status["died"] or status["limit"]:
        return ended
    reason, detail = json.loads(answer)
    if reason != "gone":
        return reason, detail
    how = "its connection" if status["exit"] is None else f"(exit status {status['exit']}) before it answered"
    return ended or (f"failed: the program ended {how}", "")


def judge_stdio(code, cases, header, spent):
    for n, (given, wanted) in enumerate(zip(*cases), 1):
        where = f"input {n} of {len(cases[0])}"
        contents = [as_bytes(["", code, None]), encode(given), b"", b""]
        status, (_, _, printed, errors) = yield from run(header, contents, spent)
        last = errors[-2000:].decode("utf-8", "replace").strip().rpartition("\n")[2]
        if ended := why_ended(status, header):
            return ended
        if status["exit"]:
            word = {"MemoryError": "memory", "SyntaxError": "syntax"}.get(last.partition(":")[0])
            return word or f"failed: {where}: exit status {status['exit']} {last[:200]}".strip(), last[:1000]
        is_flood = len(printed) > 10 * len(encode(wanted)) + 2**20         # too much to take apart
        if is_flood or lines(printed.decode("utf-8", "replace")) != lines(wanted):
            return f"failed: {where}: wrong output", repr(printed[:200])
    return "passed", ""


def lines(text):
    return [line.rstrip() for line in text.rstrip().splitlines()]


def run(header, contents, spent):
    """(status, what the files hold then) of one run; of a second if something of ours died, or it got no processor."""
    for attempt in (1, 2):
        files = [memory_file(data) for data in contents]
        try:
            status = yield header, files
            contents_now = [read_file(file) for file in files]
        finally:
            for file in files:
                file.close()
        if attempt == 2 or not (status["died"] or status["starved"]):
            spent.update(cpu=status["cpu"], wall=status["wall"])
            spent["rss"] = max(spent["rss"], status["rss"])
            return status, contents_now
        if status["starved"]:
            yield None


def new_status(died=None):
    return {"died": died, "limit": None, "signal": 0, "exit": None, "cpu": 0.0, "wall": 0.0, "rss": 0, "starved": False}


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


class Server:
    """The caller's end of one fork server."""

    def __init__(self, disabled):
        self.disabled = disabled
        self.start()

    def start(self):
        """Layers are probed by using them: a server that cannot set one up says which, and is started again without."""
        while True:
            self.socket, theirs = socket.socketpair()
            with theirs, memory_file(this_file_compiled()) as code:
                fds = theirs.fileno(), code.fileno()
                start = (f"import marshal, sys\ndel sys.path[0]\nit = {{'__name__': 'sandbox_exec'}}\n"      # the caller's folder
                         f"exec(marshal.load(open({fds[1]}, 'rb')), it)\nit['serve']({fds[0]}, {[*self.disabled]})")
                self.process = subprocess.Popen([sys.executable, "-s", "-B", "-c", start], pass_fds=fds,
                                                env=clean_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            hello, _ = receive(self.socket) or ({"failed": "rlimits", "why": "it died at once"}, [])
            self.banner, self.protected, self.scratch = (hello.get(name) for name in ("banner", "protected", "scratch"))
            if "failed" not in hello:
                return
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

    def collect(self):
        try:
            status, _ = time.monotonic() < self.deadline and receive(self.socket) or (None, [])
        except OSError:
            status = None
        if not status or "failed" in status:
            self.restart()
            return new_status("error: the server of this job died or hung" if "signals" in self.protected else "killed")
        return status


@functools.cache
def this_file_compiled():
    """A server that compiled it would keep megabytes of memory for that, and each fork would copy their page tables."""
    source = "".join(linecache.getlines(__file__, globals()))              # also from an archive
    return marshal.dumps(compile(source, __file__, "exec", dont_inherit=True, optimize=0))  # its asserts hold under -O too


def clean_environment():
    """None of the caller's secrets; one thread for each numeric library, so that a job's processor time is its own."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "TMPDIR") if name in os.environ}
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONUTF8": "1", "PYTHONHASHSEED": "0",
            "MALLOC_ARENA_MAX": "2", "USER": "sandbox", **threads, **kept}


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

cage = proc_fd = None                               # of this server and its forks; /proc, which a private root has not


def serve(fd, disabled):
    """Fork a program (and once in a while a judge) per job. This process never reads a program or a test, for whatever
    it has in memory, its forks have too."""
    global cage
    control = socket.socket(fileno=fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100))
    os.close(fd)
    cage = Cage(set(disabled))
    try:
        cage.enter()
        judge = Judge()
        send(control, cage.hello())
        while job_and_files := receive(control):
            job, fds = job_and_files
            judge = prepare(job, judge)
            status = run_job(job, fds, judge, control)
            for fd in fds:
                os.close(fd)
            send(control, status)
        judge.stop()
    except LayerFailed as failure:
        send(control, {"failed": failure.layer, "why": str(failure)})
    finally:
        if not cage.private:
            shutil.rmtree(cage.scratch, ignore_errors=True)


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
        if job["stdio"]:
            code, stdin, stdout, stderr = fds
            program = cage.spawn([stdin, stdout, stderr, code], job, run_script)
            awaited = os.pidfd_open(program) if hasattr(os, "pidfd_open") else None
            fds += [awaited] if awaited else []
        else:
            ours, theirs = socket.socketpair()
            with ours, theirs:
                program = cage.spawn([cage.null, cage.null, cage.null, fds[0], theirs.fileno()], job, serve_program)
                send(judge.socket, "job", [fds[1], fds[2], ours.fileno()])
            awaited = judge.socket.fileno()
    except (OSError, LayerFailed) as problem:
        status["died"] = f"error: no process could be started ({problem})"
        judge.stop()
        if program:
            kill(program)
            os.waitpid(program, 0)
    else:
        watch(job, status, program, awaited, judge, control)
        finish(job, status, program, judge)
    cage.kill_strays(judge)
    cage.empty_scratch()
    status["wall"] = time.monotonic() - started
    return status


def watch(job, status, program, awaited, judge, control):
    """Until the judge (or, without one, the program) is done, or a limit is reached."""
    started, judge_before = time.monotonic(), None
    poller = select.poll()
    for fd in {control.fileno(), control.fileno() if awaited is None else awaited}:
        poller.register(fd, select.POLLIN)
    pause = 0.2 if awaited is not None else 0.002   # most jobs end before the first look at their processes
    while not status["limit"]:
        ready = {fd for fd, _ in poller.poll(pause * 1000)}
        if control.fileno() in ready:               # the caller is gone
            for pid in (judge.pid, *cage.strays(judge), program):
                kill(pid)
            os.waitpid(program, 0)
            sys.exit()
        if awaited in ready or awaited is None and exited(program):
            break
        wall = time.monotonic() - started
        if wall > 0.2:
            pause = 0.05
            cpu, waited, memory, processes = usage(cage.strays(judge) or [program])
            judge_now = usage([judge.pid])
            judge_before = judge_before or judge_now
            judged, waited = judge_now[0] - judge_before[0], waited + judge_now[1] - judge_before[1]
            status["cpu"], status["rss"] = max(status["cpu"], cpu), max(status["rss"], memory)
            status["limit"] = ("cpu" if max(cpu, judged) > job["cpu"] else
                               "memory" if memory > TREE_FACTOR * job["memory_mb"] * 2**20 else
                               "processes" if processes > 2 * PROCESSES else
                               "wall" if wall > job["wall"] or wall - cpu - judged - waited > job["asleep"] else None)
            status["starved"] = status["limit"] == "wall" and waited > 0.1 * wall


def finish(job, status, program, judge):
    """Reap the program; how it ended counts only if it ended by itself."""
    if job["stdio"]:
        pass
    elif status["limit"]:
        judge.stop()                                # it still examines
    else:
        answer = judge.collect()
        if answer is None:
            status["died"] = "error: the judge died" if "signals" in cage.hello()["protected"] else "killed"
        patience = time.monotonic() + 0.5
        while answer == "gone" and not exited(program) and time.monotonic() < patience:
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
        self.jobs, (self.socket, theirs) = 0, socket.socketpair()
        with theirs:
            limits = {"cpu": None, "memory_mb": JUDGE_MEMORY_MB}
            self.pid = cage.spawn([cage.null, cage.null, cage.null, theirs.fileno()], limits, judge_jobs)
        hello, _ = receive(self.socket) or ({"failed": "rlimits", "why": "the judge died at once"}, [])
        if "failed" in hello:
            raise LayerFailed(hello["failed"], hello["why"])

    def collect(self):
        """"done", "gone" if its program ended too early, None if it died. A judge that is not clean or old is ended."""
        answer, _ = receive(self.socket) or (None, [])
        self.jobs += 1
        if not answer or not answer["clean"] or self.jobs >= JUDGE_JOBS:
            self.stop()
        return answer and answer["said"]

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
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)


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


def tree(pid):
    """All descendants of a process."""
    children = [int(child) for thread in proc(f"{pid}/task", os.listdir)
                for child in proc(f"{pid}/task/{thread}/children").split()]
    return children + [inner for child in children for inner in tree(child)]


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

def load_code(name):
    """The program's module, and a function that runs the prelude and the program in it."""
    with open(3, "rb", buffering=0) as file:
        prelude, code, entry_point = json.loads(read_file(file))
    sys.modules[name] = module = types.ModuleType(name)
    module.__file__ = "solution.py"

    def run():
        if prelude:
            with contextlib.suppress(SyntaxError):
                exec(compile_prelude(prelude), module.__dict__)
            module.__dict__.pop(entry_point, None)  # the prelude's own is a stub
        linecache.cache["solution.py"] = (len(code), None, code.splitlines(True), "solution.py")
        exec(compile(encode(code), "solution.py", "exec", dont_inherit=True), module.__dict__)
    return module, run


def compile_prelude(text, flags=0):
    """A prelude may end inside a function: the head that a completion continues."""
    try:
        return compile(text, "prelude.py", "exec", flags, dont_inherit=True)
    except SyntaxError:
        return compile(text + "\n    pass\n", "prelude.py", "exec", flags, dont_inherit=True)


def run_script():
    """A stdio job: 0, 1 and 2 are files; end as a script does."""
    sys.stdin, sys.stdout, sys.stderr = (open(fd, mode, encoding="utf-8", errors="surrogateescape", closefd=False)
                                         for fd, mode in ((0, "r"), (1, "w"), (2, "w")))
    status = 0
    _, run = load_code("__main__")
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
    try:
        run()
        report = ["ready", [name for name in module.__dict__ if not name.startswith("_")], False, ""]
    except SyntaxError as problem:
        report = ["syntax", [], False, str(problem)]
    except BaseException as problem:
        report = ["raised", [], isinstance(problem, MemoryError), describe(problem)]
    peer.write(report)
    while True:
        peer.answer(peer.read())


# ------------------------------------------------------------------------------------------------- between J and S
# Both ends hold a Peer. A message is one JSON list on a line. Plain data crosses by value, tagged so that types stay
# exact; containers are numbered in the order of packing, so that aliases, cycles and changed arguments can be named by
# number. All else stays where it is: the other side gets a stand-in, an object of a class made for it, that asks back.

FLAT, FROZEN = {type(None), bool, str, float}, {tuple, frozenset}
TEXTS = {int: (hex, lambda text: int(text, 16)), bytes: (bytes.hex, bytes.fromhex),
         type(NotImplemented): (repr, lambda _: NotImplemented), type(Ellipsis): (repr, lambda _: Ellipsis)}
CONTAINERS = {kind.__name__: kind for kind in (list, tuple, dict, set, frozenset, bytearray, collections.deque,
                                               collections.OrderedDict, collections.Counter, collections.defaultdict)}
VALUES = {name: attributes for name, *attributes in map(str.split, """
builtins.complex real imag, builtins.range start stop step, builtins.slice start stop step, decimal.Decimal, uuid.UUID,
fractions.Fraction numerator denominator, pathlib.PosixPath, pathlib.PurePosixPath, re.Pattern pattern flags,
datetime.timedelta days seconds microseconds, datetime.date year month day, datetime.timezone,
datetime.time hour minute second microsecond tzinfo,
datetime.datetime year month day hour minute second microsecond tzinfo""".split(","))}  # what rebuilds one; or its text
BASES = {int: int.__index__, float: float.__float__, str: str.__str__, complex: complex.__pos__,
         bytes: lambda v: bytes.__getitem__(v, slice(None)), tuple: lambda v: tuple(tuple.__iter__(v)),
         frozenset: lambda v: frozenset(frozenset.__iter__(v))}            # what a subclass's instance is equal to
LIBRARY = set("builtins math cmath itertools functools collections operator string re datetime decimal fractions heapq "
              "statistics bisect typing abc enum dataclasses copy json random numbers types textwrap uuid pathlib time "
              "numpy".split())                      # modules whose classes are the same on both sides
STANDARD = sys.stdlib_module_names - set("unittest test idlelib lib2to3 tkinter turtledemo antigravity this".split())
NUMPY_KINDS = "biufcSUmM?"
NOT_LIBRARY = {"attrgetter", "methodcaller"}        # would reach what an underscore hides

COMPARISONS = {"__lt__", "__le__", "__gt__", "__ge__"}
ARITHMETIC = {f"__{r}{name}__" for r in ("", "r") for name in
              "add sub mul matmul truediv floordiv mod divmod pow and or xor lshift rshift".split()}
SCALING = {"__mul__", "__rmul__", "__matmul__", "__rmatmul__"}
UNARY = {f"__{name}__" for name in "abs neg pos invert int float complex index round trunc floor ceil bool".split()}
ITERATION = {f"__{name}__" for name in "iter next len getitem contains reversed bool hash eq".split()}
SEQUENCE = {"__len__", "__iter__", "__next__", "__getitem__"}
ON_VALUES = {"__call__", "__enter__", "__exit__", "__str__", "__repr__"}           # of subclasses of int, str, tuple...
ATTRIBUTES = {"get": getattr, "set": setattr, "delete": delattr}
OPERATIONS = {*ON_VALUES, *COMPARISONS, *ARITHMETIC, *UNARY, *ITERATION, "__format__", "__setitem__", "__delitem__"}


def forward(name):
    """The method of a stand-in that has the other side do the operation."""
    if name == "__call__":
        return lambda self, *args, **kwargs: peer.ask("call", self, args, kwargs)
    if name == "__exit__":
        return lambda self, kind, problem, _: peer.ask("special", name, self, kind, problem, None)
    return lambda self, *args: peer.ask("special", name, self, *args)


class StandIn:
    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return peer.ask("get", self, name)

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value) if name.startswith("__") else peer.ask("set", self, name, value)

    def __delattr__(self, name):
        peer.ask("delete", self, name)


class StandInClass(StandIn, type):
    """Class of the classes made for those of the other side; enumerations are iterated."""
    __call__, __iter__, __len__, __getitem__ = map(forward, ("__call__", "__iter__", "__len__", "__getitem__"))

    def __new__(cls, *_):
        raise Verdict("error: the tests derive a class from one of the program's, which cannot cross")


class Peer:
    by_name = (type,)                               # what S may name to J: classes. A function of J's would run in J

    def __init__(self, sock, root=None):
        self.sock, self.incoming = sock, sock.makefile("rb")
        self.lock, self.serving = threading.RLock(), 0
        self.exports, self.export_ids = {0: root}, {id(root): 0}        # ours that the other side may name
        self.stand_ins, self.stand_in_ids = {}, {}                      # theirs that we may name
        self.described, self.fresh = set(), []                          # exports described to the other side; just now

    # ---- messages

    def write(self, message):
        data = json.dumps(message).encode()
        if len(data) > FRAME_LIMIT:
            raise ValueError("more data than may cross at once")
        self.sock.sendall(data + b"\n")

    def read(self):
        line = self.incoming.readline(FRAME_LIMIT + 1)
        return json.loads(line) if line.endswith(b"\n") else self.end()

    def end(self):
        os._exit(0)                                 # S; a judge goes on to the next

    def ask(self, action, *args):
        """Have the other side do something and return (or raise) what comes of it; meanwhile do what it asks."""
        with self.lock:
            if not self.serving:
                raise RuntimeError("the tests are not waiting: a call from a thread came too late")
            bag, self.fresh = {}, []
            try:
                self.write(["ask", action, self.pack_all(args, bag), self.redirected()])
            except BaseException:
                self.described.difference_update(self.fresh)
                raise
            while (message := self.read())[0] == "ask":
                self.answer(message)
            outcome, value, printed = self.accept(message, [thing for _, thing in bag.values()], action, args)
            if printed:
                sys.stdout.write(printed)
            if outcome == "raised":
                raise value
            return value

    def accept(self, message, things, action, args):
        outcome, value, changes, printed = message
        value = self.unpack(value, things)
        changes = [(things[n], [self.unpack(item, things) for item in content]) for n, content in changes]
        for thing, content in changes:
            replace(thing, content)
        return outcome, value, printed

    def answer(self, message):
        _, action, args, redirection = message
        things, before, printed = [], [], None
        self.serving += 1
        try:
            args = [self.unpack(arg, things) for arg in args]
            before = [(n, thing, items(thing)) for n, thing in enumerate(things) if type(thing) not in FROZEN]
            with redirected(redirection) as printed:
                outcome, value = "returned", self.perform(action, *args)
        except Gone:
            raise
        except BaseException as problem:
            outcome, value = "raised", problem
        with self.lock:
            self.serving -= 1
            self.reply(outcome, value, things, before, printed and printed.getvalue())

    def reply(self, outcome, value, things, before, printed):
        limit, self.fresh = sys.getrecursionlimit(), []
        sys.setrecursionlimit(max(limit, 20000))    # the data may be nested deeper than the program may call
        try:
            bag = {id(thing): (n, thing) for n, thing in enumerate(things)}
            value = self.pack(value, bag)
            changes = [[n, self.pack_all(items(thing), bag)] for n, thing, old in before if not same(items(thing), old)]
            self.write([outcome, value, changes, printed])
        except Exception as problem:                # not packable: nested too deep, too large, a property that raises
            self.described.difference_update(self.fresh)
            self.write(["raised", self.pack(type(problem)(*problem.args[:1]), {}), [], None])
        finally:
            sys.setrecursionlimit(limit)

    def redirected(self):
        return 0

    # ---- what can be asked

    def perform(self, action, *args):
        if action == "call":
            return args[0](*args[1], **args[2])
        if action == "special":
            name, thing, *rest = args
            return thing[rest[0]] if name == "__getitem__" else getattr(type(thing), name)(thing, *rest)  # also Stack[int]
        if action == "copy":                        # of a subclass of list, dict or set: the plain thing it is equal to
            kind = next(kind for kind in (list, dict, set) if isinstance(args[0], kind))
            return dict(dict.items(args[0])) if kind is dict else kind(kind.__iter__(args[0]))
        if action == "await":
            return importlib.import_module("asyncio").run(args[0])
        return ATTRIBUTES[action](*args) if action in ATTRIBUTES else args[0].send(args[1])

    # ---- packing

    def pack_all(self, values, bag):
        return [value if type(value) in FLAT else self.pack(value, bag) for value in values]

    def pack(self, value, bag):
        kind = type(value)
        if kind in FLAT:
            return value
        if kind is int and -1 << 63 <= value < 1 << 63:
            return value
        if kind in TEXTS:
            return [kind.__name__, TEXTS[kind][0](value)]
        if id(value) in bag:
            return ["same", bag[id(value)][0]]
        if CONTAINERS.get(kind.__name__) is kind or is_numpy(value) and kind.__name__ == "ndarray":
            bag[id(value)] = len(bag), value
            extra = (value.dtype.str, *value.shape) if kind.__name__ == "ndarray" else getattr(
                value, "maxlen" if kind is collections.deque else "default_factory", None)
            return [kind.__name__, self.pack(extra, bag), *self.pack_all(items(value), bag)]
        if is_numpy(value):
            return ["numpy", value.dtype.str, value.tobytes().hex()]
        if id(value) in self.stand_in_ids:
            return ["yours", self.stand_in_ids[id(value)]]
        name = f"{kind.__module__.partition('._')[0]}.{kind.__qualname__}"         # pathlib._local.PosixPath
        if name in VALUES:
            text = value.utcoffset(None) if name == "datetime.timezone" else str(value)
            return ["value", name, *self.pack_all([getattr(value, part) for part in VALUES[name]] or [text], bag)]
        if isinstance(value, self.by_name) and (named := library_name(value)):
            return ["library", *named]
        return self.export(value, bag)

    def export(self, value, bag):
        number = self.export_ids.setdefault(id(value), len(self.exports))
        self.exports[number] = value
        if number in self.described:
            return ["mine", number]
        self.described.add(number)
        self.fresh.append(number)
        return ["mine", number, *self.describe(value, bag)]

    def describe(self, value, bag):
        if isinstance(value, type):
            roots = [base for base in value.__mro__
                     if base in BASES or library_name(base) and issubclass(base, BaseException)]
            operations = {name for base in value.__mro__ if base not in roots and base is not object
                          for name in OPERATIONS & vars(base).keys() if vars(base)[name] is not None}
            parents = [base for base in value.__bases__ if not library_name(base)]
            about = [sorted(operations), roots[:1], parents, issubclass(value, (list, dict, set))]
            return ["class", value.__name__, str(value.__module__), *self.pack_all(about, bag)]
        if isinstance(value, (types.GeneratorType, types.CoroutineType)):
            return [type(value).__name__]
        if isinstance(value, (types.FunctionType, types.MethodType, types.BuiltinMethodType)):
            return ["function", value.__name__, value.__doc__ if isinstance(value.__doc__, str) else None]
        if isinstance(value, BaseException):
            args = [arg if is_plain(arg) else repr(arg)[:1000] for arg in value.args]
            return ["exception", self.pack(type(value), bag), *self.pack_all(args, bag)]
        plain = [BASES[base](value) for base in BASES if isinstance(value, base)]
        return ["object", self.export(type(value), bag), *self.pack_all(plain, bag)]

    # ---- unpacking

    def unpack(self, data, things):
        if type(data) is not list:
            return data
        tag, *rest = data
        if tag in CONTAINERS or tag == "ndarray":
            return self.unpack_container(tag, rest, things)
        if tag == "same":
            return things[rest[0]]
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
        return {kind.__name__: read for kind, (_, read) in TEXTS.items()}[tag](rest[0])

    def unpack_container(self, tag, rest, things):
        n = len(things)
        things.append(None if tag in ("tuple", "frozenset", "ndarray", "deque") else CONTAINERS[tag]())
        extra = self.unpack(rest[0], things)
        if tag == "deque":
            things[n] = collections.deque(maxlen=extra)
        elif tag == "defaultdict":
            things[n].default_factory = extra
        content = [self.unpack(item, things) for item in rest[1:]]
        if tag == "ndarray":
            things[n] = from_bytes(extra[0], content[0]).reshape(extra[1:]).copy()
        elif things[n] is None:
            things[n] = CONTAINERS[tag](content)
        else:
            replace(things[n], content)
        return things[n]

    def stand_in(self, things, number, kind=None, *rest):
        if kind is None or number in self.stand_ins:
            return self.stand_ins[number]
        made = STAND_INS[kind](*[self.unpack(part, things) for part in rest])
        self.stand_ins[number] = made
        self.stand_in_ids[id(made)] = number
        return made


def stand_in_class(name, module, operations, roots, parents, is_container):
    assert all(root in BASES or issubclass(root, BaseException) for root in roots)
    assert all(isinstance(parent, StandInClass) for parent in parents)
    space = {name: forward(name) for name in operations if name in (ON_VALUES if roots else OPERATIONS)}
    space |= {"__module__": str(module), "_is_container": bool(is_container)}
    if "__eq__" in space and "__hash__" not in space:
        space["__hash__"] = None
    lacking = [root for root in roots if not any(issubclass(parent, root) for parent in parents)]
    try:
        return type.__new__(StandInClass, name, (*parents, *([] if parents else [StandIn]), *lacking), space)
    except TypeError:                               # an order of bases that is possible there but not here
        return type.__new__(StandInClass, name, (StandIn, *roots), space)


def stand_in_object(cls, *base):
    root = type(base[0]) if base else object
    assert isinstance(cls, StandInClass) and (root in BASES or not base)
    return root.__new__(cls, *base[:1])


def stand_in_exception(cls, *args):
    assert issubclass(cls, BaseException)
    made = cls.__new__(cls, *args)
    if not isinstance(cls, StandInClass):
        with contextlib.suppress(Exception):        # a class with rules for its arguments
            made.__init__(*args)
    BaseException.args.__set__(made, args)
    return made


def stand_in_function(name, doc):
    def function(*args, **kwargs):
        return peer.ask("call", function, args, kwargs)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def stand_in_generator():
    def generator():
        sent = None
        with contextlib.suppress(StopIteration):
            while True:
                sent = yield peer.ask("send", this, sent)
    this = generator()
    return this


def stand_in_coroutine():
    async def coroutine():
        return peer.ask("await", this)
    this = coroutine()
    return this


STAND_INS = {"class": stand_in_class, "object": stand_in_object, "exception": stand_in_exception,
             "function": stand_in_function, "generator": stand_in_generator, "coroutine": stand_in_coroutine}


def is_plain(value):
    kind = type(value)
    return kind in FLAT or kind in (int, bytes) or kind in CONTAINERS.values() and all(map(is_plain, items(value)))


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


def is_numpy(value):
    """Whether it is a numpy array or scalar of numbers, dates or characters."""
    np = sys.modules.get("numpy")
    return np and (type(value) is np.ndarray or isinstance(value, np.generic)) and value.dtype.kind in NUMPY_KINDS


def from_bytes(dtype, data):
    numpy = importlib.import_module("numpy")
    assert numpy.dtype(dtype).kind in NUMPY_KINDS
    return numpy.frombuffer(data, dtype)


def library_name(value):
    """(module, name) under which both sides find the same class or function; None for all else."""
    module, name = value.__module__, value.__qualname__
    known = isinstance(module, str) and name not in NOT_LIBRARY and not name.startswith("_") and (
        module in LIBRARY or isinstance(value, type) and issubclass(value, BaseException)
        and module.split(".")[0] in STANDARD)
    return (module, name) if known and getattr(sys.modules.get(module), name, None) is value else None


def from_library(module, name):
    assert module.split(".")[0] in LIBRARY | STANDARD and "__" not in module
    found = getattr(importlib.import_module(module), name)
    assert library_name(found) and isinstance(found, type if isinstance(peer, Examiner) else object)
    return found


@contextlib.contextmanager
def redirected(how):
    """While the program does what it was asked: its output to the tests' capture, its input from their stand-in."""
    saved, printed = (sys.stdout, sys.stdin, builtins.input), io.StringIO()
    if how & 1:
        sys.stdout = printed
    if how & 2:
        builtins.input = lambda prompt="": peer.ask("input", "input", str(prompt))
        readers = {name: functools.partial(peer.ask, "input", name) for name in ("readline", "read")}
        sys.stdin = types.SimpleNamespace(**readers)
    try:
        yield printed
    finally:
        if how:
            sys.stdout, sys.stdin, builtins.input = saved


peer = None                                         # of this process: J has one for each job, S one for its life


# ------------------------------------------------------------------------------------------------- J: the judge

SIMPLE_IMPORTS = LIBRARY | {"solution", "pytest", "unittest", "io", "contextlib", "__future__"}
NOT_SIMPLE = set("setattr delattr exec eval globals vars monkeypatch mock patch seed setrecursionlimit getcontext "
                 "setcontext simplefilter filterwarnings modules environ builtins __builtins__ __dict__ __import__ "
                 "import_module chdir seterr set_printoptions".split())
MODULE_ALIASES = {"np": "numpy", "pd": "pandas", "plt": "matplotlib.pyplot", "nx": "networkx", "sp": "scipy"}
NEVER_FROM_STRANGERS = set("startswith endswith issubset issuperset isdisjoint difference equals isclose "
                           "allclose".split())
CHANCE = random.SystemRandom()                      # S has a copy of any other generator, and could tell a decoy
NO_ANSWER = "the program sent what is not an answer"
FEWER = "an object of the program's own has fewer items than it says"


class Gone(BaseException):
    """The program closed the connection or broke its rules: nothing the tests catch."""


class Verdict(BaseException):
    """The reason that ends the examination."""


def judge_jobs():
    """Judge one job after the other as long as the tests leave this process as it was."""
    server = socket.socket(fileno=3)
    if importlib.util.find_spec("pytest") is None or "pytest" in cage.disabled:
        sys.modules["pytest"] = stand_in_pytest()
    gc.collect()
    gc.freeze()
    send(server, "ready")
    while message := receive(server):
        tests, answer, channel = message[1]
        with open(tests, "rb", buffering=0) as file, open(answer, "wb") as out, socket.socket(fileno=channel) as sock:
            reason, detail, clean = examine(json.loads(read_file(file)), sock)
            out.write(as_bytes([reason, detail]))
        send(server, {"clean": clean, "said": "gone" if reason == "gone" else "done"})


def examine(job, channel):
    """(reason, detail, whether this process can judge another job)"""
    global peer
    peer, Counting.ran = Examiner(channel), 0
    try:
        tests = read_tests(job["prelude"], job["tests"])
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        return f"error: the tests or the prelude do not parse: {problem}", "", True
    linecache.cache["tests.py"] = (len(job["tests"]), None, job["tests"].splitlines(True), "tests.py")
    is_check = job["style"] == "check" or job["style"] == "auto" and job["entry_point"] and tests.has_check
    try:
        if "pytest" in job["tests"]:
            importlib.import_module("pytest").fixture = fixture
        module = test_module(job["entry_point"], tests)
        if is_check and job["entry_point"] not in vars(module):
            raise Verdict(f"failed: the program does not define {job['entry_point']}")
        exec(tests.code, module.__dict__)
        if is_check:
            module.check(vars(module)[job["entry_point"]])
        run_collected(module)
        reason, detail = "passed" if Counting.ran else "failed: the tests ran no assert", ""
    except BaseException as problem:
        reason, detail = explain(problem)
    finally:
        for name in ("solution", "tests"):
            sys.modules.pop(name, None)
    if peer.gone is not None:                       # also if the tests caught it
        reason = "failed: " + peer.gone if peer.gone else "gone"
    return reason, detail, tests.leave_nothing


@functools.lru_cache(16)
def read_tests(prelude, tests):
    """The tests compiled, and what else there is to know about them; many programs in a row are judged by the same."""
    prelude, tests = compile_prelude(prelude, ast.PyCF_ONLY_AST), ast.parse(tests, "tests.py")
    nodes = list(ast.walk(tests))
    return types.SimpleNamespace(
        leave_nothing=is_simple(tests) and is_simple(prelude),
        has_check=any(isinstance(node, ast.FunctionDef) and node.name == "check" for node in tests.body),
        names={node.id for node in nodes if isinstance(node, ast.Name)},
        imported={alias.name for node in nodes if isinstance(node, ast.ImportFrom) and node.module == "solution"
                  for alias in node.names},
        prelude=compile(prelude, "prelude.py", "exec", dont_inherit=True),
        code=compile(Counting().visit(tests), "tests.py", "exec", dont_inherit=True))


def test_module(entry_point, tests):
    """The module that the tests run in: the prelude's names, then those of the program that the tests use."""
    module, solution = types.ModuleType("tests"), RemoteModule("solution")
    sys.modules.update(solution=solution, tests=module)
    offered = peer.loaded_names()
    peer.stand_in_ids[id(solution)] = 0
    exec(tests.prelude, module.__dict__)
    vars(module).pop(entry_point, None)             # a stub
    asked_for = {entry_point} | tests.imported
    for name in offered:
        library = MODULE_ALIASES.get(name, name)
        if name in vars(module) or name not in tests.names | asked_for or name in vars(builtins) and name not in asked_for:
            continue
        top = library.split(".")[0]
        ours = name not in asked_for and (top in sys.stdlib_module_names or top in MODULE_ALIASES.values())
        vars(module)[name] = importlib.import_module(library) if ours else getattr(solution, name)
    vars(solution).update((name, value) for name, value in vars(module).items() if not name.startswith("__"))
    vars(solution)["__all__"] = [name for name in offered if name in vars(module)]
    vars(module)["__counted__"] = Counting.count
    return module


class RemoteModule(types.ModuleType):
    """The tests' `solution`: each name asks S."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return peer.ask("get", self, name)


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
    """Whether tests can be trusted to leave nothing behind in the process that runs them."""
    names, imports, changed = set(), set(), set()
    for node in ast.walk(tree):
        names |= {getattr(node, attribute, None) for attribute in ("id", "attr", "arg", "name", "asname")}
        if isinstance(node, ast.alias):
            imports |= {node.asname or node.name.split(".")[0]}
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            names |= {module.split(".")[0] for module in modules} - SIMPLE_IMPORTS and NOT_SIMPLE
        if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
            changed |= {name.id for name in ast.walk(node.value) if isinstance(name, ast.Name)}
    return not names & NOT_SIMPLE and not imports & changed


def explain(problem):
    """(reason, detail) that goes with what the tests raised."""
    frames = [frame for frame in traceback.extract_tb(problem.__traceback__) if frame.filename == "tests.py"]
    line = f": {frames[-1].line}" if frames and frames[-1].line else ""
    from_program, told = id(problem) in peer.raised, describe(problem)
    if isinstance(problem, Verdict):
        return str(problem), ""
    if isinstance(problem, MemoryError):
        return "memory", ""
    if isinstance(problem, ModuleNotFoundError) and not from_program and problem.name not in (None, "solution"):
        return f"error: the tests need {problem.name!r}, which is not installed", ""
    if not frames and not from_program:             # nothing that the tests or the program did
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
    by_name = (type, types.FunctionType, types.BuiltinFunctionType)

    def __init__(self, channel):
        super().__init__(channel)
        self.gone, self.serving, self.raised = None, 1, {}
        self.made, self.tainted = set(), set()      # stand-ins that the tests constructed; results of operators on such
        self.sizes = {}                             # of other stand-ins, as they said
        self.base = sys.stdout, sys.stdin, builtins.input

    def end(self, why=""):
        self.gone = self.gone or why
        raise Gone(why)

    def checked(self, function, *args):
        """What comes from S is malformed only if S made it so."""
        try:
            return function(*args)
        except ConnectionError:
            self.end()
        except (ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, TypeError, ValueError,
                OSError, RuntimeError, StopIteration, SyntaxError) as problem:
            self.end(f"the program's answer is malformed ({type(problem).__name__})")

    def loaded_names(self):
        word, names, is_memory, told = self.read()
        if word == "raised":
            raise Verdict("memory" if is_memory is True else f"failed: {str(told)[:300]}, while the program was loaded")
        if word != "ready" or type(names) is not list:
            raise Verdict("syntax" if word == "syntax" else "failed: " + NO_ANSWER)
        return [name for name in names if type(name) is str and not name.startswith("_")]

    def read(self):
        message = self.checked(super().read)
        return message if type(message) is list and len(message) == 4 else self.end(NO_ANSWER)

    def write(self, message):
        try:
            super().write(message)
        except OSError:
            self.end()

    def accept(self, message, things, action, args):
        outcome, value, printed = self.checked(super().accept, message, things, action, args)
        if outcome == "raised":
            ends = isinstance(value, (StopIteration, StopAsyncIteration)) and action != "send" and args[0] != "__next__"
            if isinstance(value, GeneratorExit) or ends:            # would end a map() of the tests early
                value = RuntimeError(f"the program raised {type(value).__name__}")
            if not isinstance(value, BaseException):
                self.end(NO_ANSWER)
            self.raised[id(value)] = value
        return outcome, value, printed if type(printed) is str else None

    def answer(self, message):
        super().answer([*message[:3], 0])

    def redirected(self):
        now = sys.stdout, sys.stdin, builtins.input
        return (now[0] is not self.base[0]) + 2 * (now[1:] != self.base[1:])

    def perform(self, action, *args):
        """S may call what it was handed, use public attributes of objects of the tests' classes, and iterate."""
        if action == "input" and self.redirected() & 2:
            return {"input": input, "readline": sys.stdin.readline, "read": sys.stdin.read}[args[0]](*args[1:])
        name, thing = args[:2] if action == "special" else (args[1] if action in ATTRIBUTES else "", args[0])
        of_tests = (thing if isinstance(thing, type) else type(thing)).__module__ == "tests"
        if action in ATTRIBUTES:
            allowed = of_tests and type(name) is str and not name.startswith("_") and (
                action == "get" or not isinstance(thing, type) and not callable(getattr(type(thing), name, None)))
        else:
            allowed = (action == "call" and (of_tests or not isinstance(thing, type))
                       or action == "send" and isinstance(thing, types.GeneratorType)
                       or action == "special" and name in OPERATIONS and (of_tests or name in ITERATION))
        if not allowed or id(thing) not in self.export_ids or is_test_case(thing):
            raise PermissionError("not for the program")
        return super().perform(action, *args)

    def number(self, thing):
        return self.stand_in_ids.get(id(thing))

    def ask(self, action, *args):
        if action == "special" and args[0] in COMPARISONS | ARITHMETIC | UNARY | {"__eq__", "__contains__"}:
            return self.operate(*args)
        if action == "special" and args[0] in SEQUENCE and self.number(args[1]) not in self.made:
            return self.as_many(*args)
        if action in ("call", "set", "special"):    # may change how many there are
            self.sizes.clear()
        answer = super().ask(action, *args)
        if action == "call" and isinstance(args[0], StandInClass) and args[0].__name__[:1].isupper():  # not `class f`
            self.made |= {self.number(answer)} - {None}
        stranger = type(type(args[0])) is StandInClass and self.number(args[0]) not in self.made
        if action == "get" and args[1] in NEVER_FROM_STRANGERS and stranger:
            raise AttributeError(f"{args[1]}: the answer is an object of the program's own, not a value")
        return answer

    def as_many(self, name, thing, *args):
        """Length and items of what a function returned: one that says it has many, and gives none, would be equal to
        all that it is held against item by item."""
        size = self.sizes.get(self.number(thing))
        try:
            answer = super().ask("special", name, thing, *args)
        except IndexError:
            if args[0] not in range(size or 0):
                raise
            raise TypeError(FEWER) from None
        if name == "__len__":
            self.sizes[self.number(thing)] = answer
        return counted(answer, size) if name == "__iter__" and size is not None else answer

    def operate(self, name, thing, *args):
        """Operators. No object of the program is equal to a plain value, and none gets to see the value it is held
        against: a class that answers every comparison would pass every test."""
        if self.number(thing) in self.tainted and name in UNARY | COMPARISONS:
            raise TypeError(f"{name} on what came of the program's own operator and a plain value")
        if name in UNARY:
            return super().ask("special", name, thing, *args)
        other = args[0]
        if name == "__eq__":
            return self.equal(thing, other)
        if name == "__contains__" and type(thing)._is_container:
            return other in super().ask("copy", thing)
        foreign = self.number(other) is not None
        if not foreign and not is_plain(other) and name != "__contains__":
            return NotImplemented
        if not foreign and (self.number(thing) not in self.made or name in COMPARISONS):
            raise TypeError(f"{name}: a plain value of the tests against an object of the program's own")
        result = super().ask("special", name, thing, *args)
        if name == "__contains__" and not foreign:
            return bool(result) and not all(
                super(Examiner, self).ask("special", name, thing, decoy) for decoy in decoys(other))
        if self.number(result) is None and not foreign and result is not NotImplemented:
            raise TypeError(f"{name}: a plain result of the program's own operator and a plain value")
        if self.number(result) is not None and name in ARITHMETIC:
            self.made |= {self.number(result)} if self.number(thing) in self.made else set()
            self.tainted |= {self.number(result)} if not foreign and name not in SCALING else set()
        return result

    def equal(self, thing, other):
        if self.number(other) is None:
            if type(thing)._is_container:
                return self.ask("copy", thing) == other
            return False if is_plain(other) else NotImplemented
        answers = {}
        for question in CHANCE.sample([other, decoys(0)[0]], 2):                  # S cannot tell which one counts
            try:
                answers[question is other] = super().ask("special", "__eq__", thing, question)
            except Exception:
                answers[question is other] = False
                if question is other:
                    raise
        real, decoy = answers[True], answers[False]
        return NotImplemented if real is NotImplemented else bool(real) and (decoy is NotImplemented or not decoy)


def counted(iterator, size):
    for item in iterator:
        size -= 1
        yield item
    if size > 0:
        raise TypeError(FEWER)


def decoys(value):
    """Values of the same kind that only an object which agrees with everything agrees with."""
    if isinstance(value, str):
        return ["".join(CHANCE.choices("abcdefghijklmnopqrstuvwxyz", k=len(value) + n)) for n in (7, 9)]
    return [CHANCE.randrange(10**9, 10**12), -CHANCE.randrange(10**9, 10**12) - 0.5]


def is_test_case(thing):
    kind = thing if isinstance(thing, type) else type(thing)
    return "unittest" in sys.modules and issubclass(kind, sys.modules["unittest"].TestCase)


# ------------------------------------------------------------------------------------------------- J: pytest in small

def run_collected(module):
    """Run what pytest would collect in the tests: functions test*, classes Test*, unittest's test cases."""
    shared = {}                                     # values of fixtures of a wider scope than one test
    call_hook(module, "setup_module", "setUpModule")
    for name, thing in list(vars(module).items()):
        if getattr(thing, "__module__", None) != "tests" or peer.number(thing) is not None:
            continue
        if isinstance(thing, type) and is_test_case(thing):
            run_test_case(thing)
        elif isinstance(thing, type) and name.startswith("Test"):
            for method in [method for method in dir(thing) if method.startswith("test")]:
                run_test(getattr(thing, method), thing(), module, shared)
        elif isinstance(thing, types.FunctionType) and name.startswith("test"):
            run_test(thing, None, module, shared)
    call_hook(module, "teardown_module", "tearDownModule")


def call_hook(thing, *names):
    for function in [getattr(thing, name) for name in names if callable(getattr(thing, name, None))]:
        function(*[None] * len(inspect.signature(function).parameters))


def run_test_case(cls):
    unittest, errors = sys.modules["unittest"], []
    result = unittest.TestResult()
    result.addError = result.addFailure = lambda test, problem: errors.append(problem[1])
    result.addSubTest = lambda test, subtest, problem: problem and errors.append(problem[1])
    result.addUnexpectedSuccess = lambda test: errors.append(AssertionError(f"{test}: unexpected success"))
    unittest.defaultTestLoader.loadTestsFromTestCase(cls).run(result)
    if errors:
        raise errors[0]


def run_test(function, instance, module, shared):
    """A test once for each combination of its parameter lists and its fixtures' params."""
    marks, combined = [*getattr(type(instance), "pytestmark", ()), *getattr(function, "pytestmark", ())], [{}]
    if any(mark.name == "skip" or mark.name == "skipif" and any(mark.args) for mark in marks):
        return
    for names, rows in [mark.args[:2] for mark in marks if mark.name == "parametrize"]:
        names = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
        rows = [row.values if type(row).__name__ == "ParameterSet" else row if len(names) > 1 else [row]
                for row in rows]
        combined = [{**old, **dict(zip(names, row))} for row in rows for old in combined]
    for name in inspect.signature(function).parameters:
        if params := fixture_options(module, name).get("params"):
            combined = [{**old, "request of " + name: value} for value in params for old in combined]
    for given in combined:
        try:
            run_case(function, instance, module, given, shared)
        except BaseException as problem:
            skipped = type(problem).__name__ == "Skipped" and peer.number(type(problem)) is None
            expected = isinstance(problem, Exception) and any(mark.name == "xfail" for mark in marks)
            if not skipped and not expected:
                raise


def run_case(function, instance, module, given, shared):
    """One test with its arguments: parameters, fixtures of the tests, or pytest's own."""
    def provide(name):
        about = fixture_options(module, name)
        values = shared if about.get("scope", "function") != "function" else given
        if name not in {**given, **values}:
            make = vars(module)[name] if about else OWN_FIXTURES.get(name)
            if not make:
                raise Verdict(f"error: the tests need the fixture {name!r}, which is not known here")
            request = types.SimpleNamespace(param=given.get("request of " + name))
            parameters = inspect.signature(make).parameters
            value = make(*[request if inner == "request" else provide(inner) for inner in parameters])
            values[name] = next(value) if inspect.isgenerator(value) else value
            if inspect.isgenerator(value) and values is given:
                closing.callback(next, value, None)
        return {**values, **given}[name]

    with contextlib.ExitStack() as closing:
        for name in [name for name in list(vars(module)) if fixture_options(module, name).get("autouse")]:
            provide(name)
        call_hook(*((module, "setup_function") if instance is None else (instance, "setup_method")))
        wanted = {name: provide(name) for name in inspect.signature(function).parameters if name != "self"}
        result = function(**wanted) if instance is None else function(instance, **wanted)
        if inspect.iscoroutine(result):
            importlib.import_module("asyncio").run(result)
        call_hook(*((module, "teardown_function") if instance is None else (instance, "teardown_method")))


def fixture_options(module, name):
    thing = vars(module).get(name)
    return thing.__dict__.get("fixture_options", {}) if isinstance(thing, types.FunctionType) else {}


def fixture(function=None, **options):
    """Stands in for pytest's decorator, whether pytest is installed or not."""
    if function is None:
        return lambda function: fixture(function, **options)
    function.fixture_options = {"scope": "function", **options}
    return function


def capsys():
    saved, sys.stdout = sys.stdout, io.StringIO()

    def readouterr():
        printed, sys.stdout = sys.stdout.getvalue(), io.StringIO()
        return collections.namedtuple("CaptureResult", "out err")(printed, "")
    yield types.SimpleNamespace(readouterr=readouterr)
    sys.stdout = saved


def monkeypatch():
    patch = importlib.import_module("pytest").MonkeyPatch()
    yield patch
    patch.undo()


def tmp_path():
    return importlib.import_module("pathlib").Path(tempfile.mkdtemp(dir=os.getcwd()))


OWN_FIXTURES = {"capsys": capsys, "monkeypatch": monkeypatch, "tmp_path": tmp_path}


def stand_in_pytest():
    """For machines without pytest: what the tests of data sets use of it. What is lacking cannot be judged."""
    def lacking(name):
        raise AttributeError(name) if name.startswith("__") else ModuleNotFoundError(name=f"pytest.{name}")

    def skip(reason="", **_):
        raise type("Skipped", (BaseException,), {})(reason)

    def fail(reason="", **_):
        raise AssertionError(reason)

    pytest = types.ModuleType("pytest")
    pytest.__getattr__, pytest.raises, pytest.approx, pytest.mark = lacking, raises, Approx, Mark("", ())
    pytest.param, pytest.skip, pytest.fail = lambda *values, **_: ParameterSet(values), skip, fail
    return pytest


ParameterSet = collections.namedtuple("ParameterSet", "values")


class Mark(typing.NamedTuple):
    """pytest.mark: a decorator that notes its name and arguments, with or without a call."""
    name: str
    args: tuple

    def __getattr__(self, name):
        return Mark(name, ())

    def __call__(self, *args, **kwargs):
        if not (len(args) == 1 and not kwargs and isinstance(args[0], (types.FunctionType, type))):
            return Mark(self.name, args)
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
    caught = types.SimpleNamespace(type=None, value=None)
    try:
        yield caught
    except expected as problem:
        caught.type, caught.value = type(problem), problem
        if not re.search(match or "", str(problem)):
            raise AssertionError(f"{str(problem)!r} does not match {match!r}") from None
    else:
        raise AssertionError(f"did not raise {expected}")


class Approx:
    """Equal to within 1e-6 of the expected value, or 1e-12; also inside lists, tuples, dictionaries and arrays."""
    __array_ufunc__ = __hash__ = None

    def __init__(self, expected, rel=None, abs=None, nan_ok=False):
        self.expected, self.rest = expected.tolist() if is_numpy(expected) else expected, (rel, abs, nan_ok)
        self.rel, self.abs = 1e-6 if rel is None and abs is None else rel or 0, 1e-12 if abs is None else abs

    def __eq__(self, actual):
        actual, expected = actual.tolist() if is_numpy(actual) else actual, self.expected
        if isinstance(expected, dict):
            return actual == {key: Approx(value, *self.rest) for key, value in expected.items()}
        if isinstance(expected, (list, tuple)):
            return isinstance(actual, (list, tuple)) and list(actual) == [Approx(item, *self.rest) for item in expected]
        if actual == expected or not all(isinstance(side, (int, float, complex)) for side in (actual, expected)):
            return bool(actual == expected)
        if expected != expected:
            return self.rest[2] and actual != actual
        return abs(actual - expected) <= max(self.abs, self.rel * abs(expected)) < float("inf")


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
PRETENDED = "chmod 90 -, fchmodat 268 53, fchmodat2 452 452, chown 92 -, lchown 94 -, fchownat 260 54, utime 132 -, " \
            "utimes 235 -, futimesat 261 -, utimensat 280 88"
KILLS = "kill 62 129, tkill 200 130, tgkill 234 131, rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240"
GROUPS = "setsid 112 157, setpgid 109 154, pidfd_send_signal 424 424"
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

    def enter(self):
        global proc_fd
        set_limit(resource.RLIMIT_STACK, STACK_MB << 20, soft=True)
        set_limit(resource.RLIMIT_NOFILE, OPEN_FILES)
        self.null = fcntl.fcntl(os.open("/dev/null", os.O_RDWR), fcntl.F_DUPFD_CLOEXEC, 100)
        if os.path.isdir("/proc/self"):
            proc_fd = fcntl.fcntl(os.open("/proc", os.O_RDONLY), fcntl.F_DUPFD_CLOEXEC, 100)
        self.try_layer("subreaper", libc, "prctl", SUBREAPER, 1)
        self.try_layer("namespaces", self.enter_namespaces)
        if self.is_root and not self.private:
            self.drop_uid()
        os.environ.update(HOME=self.scratch, TMPDIR=self.scratch)
        tempfile.tempdir = None
        os.chdir(self.scratch)
        if sys.platform == "linux":
            libc("prctl", NO_NEW_PRIVS, 1, 0, 0, 0)
        self.try_layer("landlock", self.make_ruleset)
        for_all, self.fork_filter = self.make_filters()
        self.try_layer("seccomp", self.filter_calls, for_all)
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

    def strays(self, judge):
        """Children of the server that are not the judge: without a pid namespace, the program's daemons too."""
        me = os.getpid()
        children = b"" if self.private else proc(f"{me}/task/{me}/children")
        return [int(pid) for pid in children.split() if int(pid) != judge.pid]

    def kill_strays(self, judge):
        """Without a pid namespace: again and again, until the program's descendants have stopped having more."""
        while strays := self.strays(judge):
            for pid in [pid for stray in strays for pid in (stray, *tree(stray))]:
                kill(pid)
            for pid in strays:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def empty_scratch(self):
        for folder in self.writable:
            try:
                empty(folder)
            except OSError as problem:
                raise SystemExit(f"{folder} cannot be emptied: {problem}") from None

    def has_own_user(self):
        return self.private or self.is_root and os.getuid()

    def hello(self):
        private, seccomp = self.private, "seccomp" in self.on
        protected = {"files": ["private root"] * private + [f"landlock (abi {self.abi})"] * ("landlock" in self.on),
                     "network": ["no sockets"] * seccomp,                          # a network namespace has AF_VSOCK
                     "signals": ["pid namespace"] * private + ["seccomp"] * seccomp}
        words = [f"{name}={' + '.join(how) or 'NOT PROTECTED'}" for name, how in protected.items()]
        words += [f"processes={PROCESSES if self.has_own_user() else 'watched' if proc_fd else 'NOT LIMITED'}",
                  f"tree memory={'watched' if proc_fd else 'NOT WATCHED'}",
                  f"layers={','.join(layer for layer in LAYERS if layer in self.on)}"]
        return {"banner": "sandbox: verdict=separate process; " + "; ".join(words),
                "protected": [name for name, how in protected.items() if how] + sorted(self.on),
                "scratch": None if private else self.scratch}


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
    """Without recursion, for a tree may be deep: what is in a directory moves up before the directory goes."""
    os.chmod(folder, 0o700)
    while entries := list(os.scandir(folder)):
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                os.chmod(entry.path, 0o700)
                for inner in list(os.scandir(entry.path)):
                    if inner.is_dir(follow_symlinks=False):
                        os.chmod(inner.path, 0o700)
                    os.rename(inner.path, os.path.join(folder, os.urandom(16).hex()))
                os.rmdir(entry.path)
            else:
                os.unlink(entry.path)


# ------------------------------------------------------------------------------------------------- by hand

def main():
    import argparse
    parser = argparse.ArgumentParser(description="Run one untrusted program against tests.")
    parser.add_argument("program", help="file with the untrusted program")
    parser.add_argument("tests", help='file with the tests, or .json with {"inputs": [...], "outputs": [...]}')
    parser.add_argument("--entry-point", help="name of the function under test (tests with check(candidate) need it)")
    parser.add_argument("--prelude", help="file with trusted code to run in front of both")
    parser.add_argument("--require", default="rlimits", choices=LEVELS, help="refuse to run with less protection")
    args = parser.parse_args()
    try:
        code, tests, prelude = [open(path, encoding="utf-8").read() if path else "" for path in
                                (args.program, args.tests, args.prelude)]
        tests = json.loads(tests) if args.tests.endswith(".json") else tests
        with Pool(1, require=args.require) as pool:
            print(pool.banner, file=sys.stderr)
            job = {"code": code, "tests": tests, "prelude": prelude, "entry_point": args.entry_point}
            (_, result), = pool.imap_unordered([(None, job)])
    except (OSError, ValueError, RuntimeError) as problem:
        sys.exit(print(f"sandbox_exec.py: {problem}", file=sys.stderr) or 2)
    print(result.reason + (f" ({result.detail})" if result.detail else ""))
    sys.exit({True: 0, False: 1, None: 3}[result.passed])


if __name__ == "__main__":
    main()
