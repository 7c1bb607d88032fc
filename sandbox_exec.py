"""Run untrusted (model-written) Python against tests, where it cannot harm the machine.

    python sandbox_exec.py program.py tests.py    # prints the verdict (Linux only)
    python sandbox_exec.py program.py tests.json  # {"inputs": [...], "outputs": [...]}: reads and prints

    from sandbox_exec import run_tests, Pool
    run_tests("def f(x): return x * x", "assert f(3) == 9").passed  # True
    with Pool() as pool:  # one fork server a core; several threads may share the pool
        for key, result in pool.imap_unordered([("a", {"code": ..., "tests": ...}), ...]):
            print(key, result.passed, result.reason)  # in the order in which they finish

A job is the keyword arguments of `run_tests`:

    code         text of the program; None or blank text gives the verdict `no code`
    tests        text with asserts, pytest's functions or unittest's classes; or a list of such texts, each of
                 which runs after the program by itself; or {"inputs": [...], "outputs": [...]}, which it must
                 print, and exit with status 0; 0.50 is .5, trailing blanks are nothing
    style        "check": the tests define check(candidate), which is called with the entry point; "pytest":
                 a function check is a helper; "auto", the default: "check" if they define it
    entry_point  name of the function under test; the style "check" needs it
    prelude      trusted code of the problem statement, which runs in front of the program and of the tests
    cpu_s        seconds of processor time for the program and its tests, default 10
    wall_s       seconds that they may sleep, default 2 * cpu_s; waiting for a busy processor does not count
    memory_mb    memory of each process, default 1024; all processes together may hold 1.5 times as much

`result.reason` is `passed`, `failed: <assert, exception or what the program did>`, `timeout: <which time>`,
`memory`, `killed: <why>`, `no code`, `syntax`, or `error: <what went wrong in the sandbox or the tests>`.
`result.passed` is True or False, and None for an error.

The machine is protected; the verdict is the tests', which run in one process with the program. Right is a
program with which they run to their end, run an assert, and fail or skip nothing. That is all: one that
changes what they use, or whose objects answer their comparisons, can cheat here as it can everywhere.

Tests that need more of pytest than `raises` are run by it; where it is not installed, they are not judged.
A program that reads and prints runs alone, and the caller compares what it printed.

`pool.banner` says what protects this machine (from Linux 4.18 on). A Pool starts only where no program can
write what the caller reads later, unless the caller says `unsafe=True`. Not covered: bugs of the kernel, side
channels, reading /usr and the Python installation, filling the disk where there are no namespaces, and files
that tests leave in the folder that they share with the program. Sockets are always refused.
"""

import ast
import atexit
import builtins
import contextlib
import ctypes
import errno
import functools
import gc
import importlib.util
import inspect
import itertools
import json
import linecache
import marshal
import mmap
import os
import queue
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
from concurrent import futures
from decimal import Decimal

LAYERS = ("rlimits", "namespaces", "landlock", "seccomp")
CPU_S = 10  # defaults of a job
MEMORY_MB = 1024
TREE_FACTOR = 1.5  # what all processes may hold, in units of memory_mb
PROCESSES = 64  # limits that no job can change
OPEN_FILES = 256
STACK_MB = 64
FILE_MB = 64  # of one file


class Result(typing.NamedTuple):
    reason: str
    cpu_s: float = 0.0
    memory_mb: float = 0.0  # the most that all processes of the job were seen to hold

    @property
    def passed(self) -> bool | None:
        return None if self.reason.startswith("error") else self.reason == "passed"


# ---- The caller's process
# A Pool has two threads for each fork server, so that the next job is ready when one ends. `judge` turns a
# job into one process, or one for each input of a program that prints, and their answers into a Result.


def run_tests(code: str, tests: str | dict, **job) -> Result:
    """Judge one program on a server that stays until the interpreter ends; `job` as in the first page."""
    return shared_pool(os.getpid()).judge(dict(job, code=code, tests=tests))


@functools.cache
def shared_pool(_pid):
    return Pool(1)


class Pool(contextlib.AbstractContextManager):
    """`workers` fork servers (default: one a core). `disable` names some of LAYERS, to try what remains."""

    def __init__(self, workers: int | None = None, disable: typing.Sequence[str] = (), unsafe: bool = False):
        workers = workers or len(os.sched_getaffinity(0))  # a batch job has few of a large machine
        self.threads = futures.ThreadPoolExecutor(2 * workers)  # half of them make the next jobs ready
        self.servers = []
        self.idle = queue.SimpleQueue()
        try:
            for _ in range(workers):
                self.servers.append(Server(disable))
                self.idle.put(self.servers[-1])
            self.banner = self.servers[0].banner
            if "verdict=protected" not in self.banner and not unsafe:
                why = "a program could write what the caller reads; only Pool(unsafe=True) runs here"
                raise RuntimeError(f"verdicts would not be sound: {why}; {self.banner}")
        except BaseException:
            self.close()
            raise

    def close(self, *_) -> None:
        for server in self.servers:
            server.end()
        self.threads.shutdown(cancel_futures=True)
        for server in self.servers:  # those that a thread has started again meanwhile
            server.end()

    __exit__ = close

    def imap_unordered(self, jobs: typing.Iterable[tuple]) -> typing.Iterator[tuple]:
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

    def judge(self, job: dict) -> Result:
        return judge(self.run, **job)

    def run(self, header, outcomes, job, given=None):
        """Run a process for a job, a script's with its input; return its outcome and add it to `outcomes`."""
        # Answers come on a socket: a program could open another's files through /proc, but no sockets.
        is_script = given is not None
        header = {**header, "is_script": is_script}
        contents = [given, b"", b""] if is_script else []
        contents.append(marshal.dumps(job))
        with contextlib.ExitStack() as closing:
            files = [closing.enter_context(memory_file(data)) for data in contents]
            ours, theirs = map(closing.enter_context, socket.socketpair())
            server = self.idle.get()
            try:
                outcome = types.SimpleNamespace(answer=b"", **server.exchange(header, [*files, theirs]))
            finally:
                self.idle.put(server)
            if is_script:
                outcome.printed = os.pread(files[1].fileno(), FILE_MB << 20, 0)
                outcome.errors = os.pread(files[2].fileno(), FILE_MB << 20, 0)
            with contextlib.suppress(BlockingIOError):
                outcome.answer = ours.recv(1 << 16, socket.MSG_DONTWAIT)
        outcomes.append(outcome)
        return outcome


def judge(
    run_job, code, tests, style="auto", entry_point=None, prelude="", cpu_s=CPU_S, wall_s=None,
    memory_mb=MEMORY_MB,
):  # fmt: skip
    """Return the Result of one job. `run_job` is a pool's: it runs a process."""
    code = str(code or "")  # a text of numpy's is one of a class of its own
    if not code.strip():
        return Result("no code")
    preload = [library for library in ("numpy", "unittest") if library in f"{code} {tests} {prelude}"]
    asleep_s = float(2 * cpu_s if wall_s is None else wall_s)
    header = {"preload": preload, "cpu_s": float(cpu_s), "memory_mb": int(memory_mb), "asleep_s": asleep_s}
    outcomes = []
    run = functools.partial(run_job, header, outcomes)
    try:
        texts = [tests] if isinstance(tests, str) else tests
        if texts and isinstance(texts, list):
            about = str(prelude or ""), style, str(entry_point or "")
            jobs = [read_tests(str(text), *about) for text in texts]
            preload += ["pytest"] * any(job["need_pytest"] for job in jobs)
            reasons = (judge_tests(run, {**job, "code": code}) for job in jobs)
            reason = next((reason for reason in reasons if reason != "passed"), "passed")
        else:
            reason = judge_script(run, code, *read_pairs(tests))
    except Verdict as verdict:
        return Result(str(verdict))
    cpu_s = round(sum(outcome.cpu_s for outcome in outcomes), 3)
    return Result(reason, cpu_s, round(max(outcome.memory_mb for outcome in outcomes), 1))


def read_pairs(tests):
    """Return the inputs and outputs of {"inputs": [...], "outputs": [...]}."""
    pairs = [tests.get(name) if isinstance(tests, dict) else None for name in ("inputs", "outputs")]
    if not all(isinstance(side, (list, tuple)) and len(side) == len(pairs[0]) > 0 for side in pairs):
        raise Verdict("error: tests must be text or {'inputs': [...], 'outputs': [...]} of equal length")
    others = [name for name in tests if name not in ("inputs", "outputs") and tests[name] is not None]
    if others:  # such as fn_name, of a function that would be called
        raise Verdict(f"error: beside inputs and outputs nothing is known, not {', '.join(map(str, others))}")
    return pairs


def judge_tests(run, job):
    """Return the reason that the process sends when the tests have ended."""
    # With a token, so that what a program writes to the same socket is not taken for an answer
    token = os.urandom(8).hex()
    outcome = run({**job, "token": token})
    if outcome.ended:
        return outcome.ended
    if not outcome.answer:
        return f"error: the sandbox failed with exit status {outcome.exit}"
    _, has_ended, reason = outcome.answer.decode("utf-8", "replace").partition(token)
    if not has_ended:
        return f"failed: the program ended (exit status {outcome.exit}) before its tests did"
    return reason


def judge_script(run, code, inputs, outputs):
    """Return the reason for a program that reads its standard input and prints."""
    for number, (given, wanted) in enumerate(zip(map(as_text, inputs), map(as_text, outputs)), 1):
        done = run(code, given=given.encode("utf-8", "surrogatepass"))
        if done.ended:
            return done.ended
        where = f"failed: input {number} of {len(inputs)}"
        if done.exit:
            last = done.errors[-2000:].decode("utf-8", "replace").strip().rpartition("\n")[2]
            return f"{where}: exit status {done.exit} {last[:200]}".strip()
        is_flood = len(done.printed) > 40 * len(wanted) + 2**20  # too much to compare by lines
        if is_flood or not same_lines(done.printed.decode("utf-8", "replace"), wanted):
            return f"{where}: wrong output"
    return "passed"


def as_text(lines):
    return "\n".join(map(str, lines)) if isinstance(lines, list) else str(lines)


def same_lines(printed, wanted):
    """Are two texts equal line by line, but for trailing blanks and how numbers are written?"""
    printed, wanted = [[line.rstrip() for line in text.rstrip().splitlines()] for text in (printed, wanted)]
    return len(printed) == len(wanted) and all(map(same_line, printed, wanted))


def same_line(ours, theirs):
    """Are they equal, or as decimals, word by word, where at least one of them is no integer? 0.50 is .5."""
    both = ours + theirs
    are_numbers = re.search("[.eE]", both) and not re.search(r"[^-+.\deE\s]", both)  # no 1_0, no inf
    if ours == theirs or not are_numbers:
        return ours == theirs
    try:
        return [*map(Decimal, ours.split())] == [*map(Decimal, theirs.split())]
    except ArithmeticError:  # such as "e"
        return False


class Server:
    """The caller's end of one fork server."""

    def __init__(self, disabled):
        """Start a server with as many layers as it can use: one that can't use a layer ends."""
        for count in range(len(LAYERS)):
            for more in itertools.combinations(LAYERS[1:], count):
                self.disabled = [*disabled, *more]
                if self.launch():
                    return
        raise RuntimeError(f"the sandbox cannot start: {self.banner}")

    def launch(self):
        """Start a process, and return whether it can use all layers that are not disabled."""
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # The caller's folder, the first of sys.path, may have a module named as one of the library's
        start = (
            "import marshal, sys\ndel sys.path[0]\nmodule = {'__name__': 'sandbox_exec'}\n"
            "exec(marshal.load(sys.stdin.buffer), module)\n"
            f"module['serve']({theirs.fileno()}, {self.disabled})"
        )
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-s", "-B", "-c", start], pass_fds=[theirs.fileno()],
                env=clean_environment(), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            )  # fmt: skip
        with contextlib.suppress(OSError), self.process.stdin as file:
            file.write(this_file_compiled())
        self.banner = "its server died at once"
        with contextlib.suppress(OSError):
            self.banner = receive(self.socket)[0].decode()
        is_ready = self.banner.startswith("sandbox: ")  # else it says why not
        if not is_ready:
            self.end()
        return is_ready

    def end(self):
        """Close the connection: for the server this is the order to kill all that it has started."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes a thread that reads it
        self.socket.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(60)  # a busy machine takes its time
        end_tree(self.process.pid)
        self.process.kill()
        self.process.wait()

    def exchange(self, header, files):
        """Return the fork server's report on one run; if there is none, start a new server."""
        with contextlib.suppress(OSError):
            self.socket.settimeout(60 + 20 * (header["cpu_s"] + header["asleep_s"]))  # it may be busy
            socket.send_fds(self.socket, [marshal.dumps(header)], [file.fileno() for file in files])
            return ast.literal_eval(receive(self.socket)[0].decode())
        self.end()
        with contextlib.suppress(OSError):  # with the same layers; the next job tries again
            self.launch()
        raise Verdict("error: the server of this job died or hung")


@functools.cache
def this_file_compiled():
    """Return this file compiled: a server that compiled it would keep megabytes, as would its forks."""
    source = "".join(linecache.getlines(__file__, globals()))  # it may lie in an archive
    return marshal.dumps(compile(source, __file__, "exec", dont_inherit=True, optimize=0))


def clean_environment():
    """Return variables without the caller's secrets, and one thread a library: a job's time is its own."""
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "TMPDIR") if name in os.environ}
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONUTF8": "1", "USER": "sandbox",
        "PYTHONHASHSEED": "0", "MALLOC_ARENA_MAX": "2", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "LD_BIND_NOW": "1",  # what is bound later costs each fork copied pages
        "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", **kept,
    }  # fmt: skip


def memory_file(data):
    """Return an anonymous file: who writes to it never blocks, and servers can pass it on unread."""
    file = open(os.memfd_create("job"), "w+b", buffering=0)
    file.write(data)
    file.seek(0)
    return file


def receive(sock):
    """Return (data, descriptors) of the next message."""
    # The server gets marshal, which is fast, and answers in the text of a literal, which is no danger to
    # the caller even from a server that a program had taken over.
    data, descriptors, _, _ = socket.recv_fds(sock, 1 << 16, 8)
    if not data:
        raise ConnectionError
    return data, descriptors


# ---- Reading the tests
# The caller's process compiles the tests, once for many programs with the same tests. Each assert and other
# check is wrapped in a call that counts it.

MORE_OF_PYTEST = re.compile(
    r"""                  # what only pytest itself can run
    \bpytest\.(?!(raises|main)\b)\w | \bpytest[ ]as\b | ^from[ ]pytest[ ]import[ ](?!raises$)
    | \braises\([^()'"]*,(?!\s*match=) | \braises\([^:]*\)[ ]as[ ](?P<e>\w+)(?s:.*)\b(?P=e)[.](?!type|value)
    | ^[ ]*async[ ]def[ ]test | ^[ ]*def[ ]test\w*\((?!\)|self\b|cls\b)        # with fixtures
    | ^def[ ](setup|teardown)_ | ^class[ ]Test\w*(?!.*TestCase)""",
    re.MULTILINE | re.VERBOSE,
)


class Verdict(Exception):
    """A reason, raised where neither the program nor the tests are running."""


@functools.lru_cache(128)
def read_tests(text, prelude, style, entry_point):
    """Return what the process of a job needs to know of its tests: a dictionary for marshal."""
    counter = CheckCounter()
    try:
        ast.parse(prelude)
    except SyntaxError:  # it ends inside a function, which the program continues
        prelude += "\n    pass\n"
    try:
        tree = ast.parse(text, "tests.py")
        nodes = ast.walk(ast.parse(f"{text}\n{prelude}"))
        imports = [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]
        modules = {getattr(node, "module", None) or name.name for node in imports for name in node.names}
        functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        tree = ast.fix_missing_locations(counter.visit(tree))
        tests_code = compile(tree, "tests.py", "exec", dont_inherit=True, optimize=0)
        prelude_code = compile(prelude, "prelude.py", "exec", dont_inherit=True, optimize=0)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Verdict(f"error: the tests or the prelude do not parse: {error}"[:500]) from None
    if not counter.found:
        raise Verdict("error: the tests have no assert")
    is_helper = text.count("check(") > 1 and not entry_point  # the tests call it themselves
    is_check = (style == "check" or style == "auto" and "check" in functions) and not is_helper
    if is_check and not (entry_point and "check" in functions):
        raise Verdict("error: tests of the style check define check(candidate) and need an entry_point")
    return {
        "tests": text,
        "tests_code": tests_code,
        "prelude_code": prelude_code,
        "modules": sorted(modules - {"solution", "tests", "__main__", "pytest"}),
        "used": sorted({*re.findall(r"\w+", text), entry_point}),  # also in eval("add(1, 2)")
        "entry_point": entry_point,
        "is_check": is_check,
        "need_pytest": bool(MORE_OF_PYTEST.search(text)),
    }


class CheckCounter(ast.NodeTransformer):
    """Wraps the checks of tests (assert, assert...(), raises, warns, fail, an if that raises) in a call."""

    found = 0  # checks in the text

    def generic_visit(self, node):
        super().generic_visit(node)
        function = getattr(node, "func", None)  # of a call
        called = getattr(function, "attr", getattr(function, "id", ""))
        is_call = called.startswith("assert") or called in ("raises", "warns", "fail")
        is_if = isinstance(node, ast.If) and any(isinstance(inner, ast.Raise) for inner in node.body)
        if is_call or is_if or isinstance(node, ast.Assert):
            field = "func" if is_call else "test"
            setattr(node, field, ast.Call(ast.Name("__ran__", ast.Load()), [getattr(node, field)], []))
            self.found += 1
        return node


# ---- The fork server
# It runs one job after the other, and reads no program and no tests, because its forks inherit its memory.

cage = None  # the Cage of this server and of its forks
proc_fd = None  # descriptor of /proc, which a private root does not have


def serve(descriptor, disabled):
    """Run jobs until the caller closes the connection or dies; then kill all descendants."""
    global cage
    cage = Cage(set(disabled))
    control = socket.socket(fileno=descriptor)
    try:
        try:
            cage.enter()
        except OSError as error:  # the machine lacks a layer
            control.send(str(error).encode())
            return
        control.send(cage.banner().encode())
        while True:
            data, descriptors = receive(control)
            job = marshal.loads(data)
            for library in job["preload"]:  # once, before the fork
                if library not in sys.modules and importlib.util.find_spec(library):
                    importlib.import_module(library)
                    cage.settle()
            report = run_job(job, descriptors, control)
            for descriptor in descriptors:
                os.close(descriptor)
            control.send(repr(report).encode())
    except ConnectionError:  # the caller is gone
        pass
    finally:
        while end_tree(os.getpid()):
            time.sleep(0.001)
        if not cage.private:
            with contextlib.suppress(OSError):
                cage.empty_scratch()
                os.rmdir(cage.scratch)


def run_job(job, descriptors, control):
    """Start the process of a job, watch it, leave nothing of it behind, and report how it ended."""
    try:
        if job["is_script"]:  # descriptors are from 0 on, as the function expects them
            pid = cage.spawn(descriptors[:4], job, run_script)
        else:
            pid = cage.spawn([cage.null] * 3 + descriptors, job, run_program_and_tests)
    except OSError as error:
        end_tree(os.getpid())
        return {"ended": f"error: no process started: {error}", "exit": 0, "cpu_s": 0, "memory_mb": 0}
    ended, cpu, memory = watch(job, pid, control)
    kill(pid)  # if it has ended by itself, it keeps its status
    _, status, usage = os.wait4(pid, 0)
    status = os.waitstatus_to_exitcode(status)
    if status < 0 and not ended:
        ended = f"killed: signal {-status}"
    while not cage.private and end_tree(os.getpid()):
        time.sleep(0.001)
    cage.empty_scratch()
    cpu = max(cpu, usage.ru_utime + usage.ru_stime)
    memory = max(memory, usage.ru_maxrss << 10)
    return {"ended": ended, "exit": status, "cpu_s": cpu, "memory_mb": memory / 2**20}


def watch(job, pid, control):
    """Return (limit reached, seconds of cpu, bytes), when the process has ended or a limit is reached."""
    started = time.monotonic()
    cpu = memory = 0
    limit = ""
    while not limit:
        signal.sigtimedwait([signal.SIGCHLD], 0.05)
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            break
        if select.select([control], [], [], 0)[0]:  # nothing is sent meanwhile
            raise ConnectionError
        processes = tree(os.getpid())
        cpu_now, queued, memory_now = usage(processes)
        cpu = max(cpu, cpu_now)
        memory = max(memory, memory_now)
        wall = time.monotonic() - started
        if cpu > job["cpu_s"]:
            limit = "timeout: processor time"
        elif memory > TREE_FACTOR * job["memory_mb"] * 2**20:
            limit = "memory"
        elif len(processes) > 2 * PROCESSES:
            limit = "killed: limit of processes"
        elif wall - cpu - queued > job["asleep_s"]:
            limit = "timeout: time asleep"
    return limit, cpu, memory


def kill(pid):
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def end_tree(pid):
    """Kill all descendants and reap the children; call it until it finds none, as these may start more."""
    found = tree(pid)
    for child in found:
        kill(child)
    for child in found:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, os.WNOHANG)
    return found


def tree(pid):
    """Return all descendants of a process."""
    found = [pid]
    for parent in found:
        for thread in proc(f"{parent}/task", os.listdir):
            found += map(int, proc(f"{parent}/task/{thread}/children").split())
    return found[1:]


def proc(path, read=lambda descriptor: os.read(descriptor, 1 << 16)):
    """Return the content of a file under /proc, or what else `read` makes of it; empty if there is none."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path if proc_fd else "/proc/" + path, os.O_RDONLY, dir_fd=proc_fd)
        try:
            return read(descriptor)
        finally:
            os.close(descriptor)
    return b""


def usage(pids):
    """Return (seconds of cpu, seconds in a processor's queue, resident bytes) of these processes."""
    cpu = queued = memory = 0
    for pid in pids:
        stat = proc(f"{pid}/stat").rpartition(b")")[2].split()
        if stat:
            cpu += sum(map(int, stat[11:15])) / os.sysconf("SC_CLK_TCK")
            memory += max(0, int(stat[21]) * resource.getpagesize() - cage.base_rss)  # without the server's
        for thread in proc(f"{pid}/task", os.listdir):
            queued += int((proc(f"{pid}/task/{thread}/schedstat").split() or [0, 0])[1]) / 1e9
    return cpu, queued, memory


# ---- A program's process
# `run_program_and_tests` or `run_script` is the whole life of a forked process. Descriptors 0, 1 and 2 are
# those of every program, 3 is a file with the job. A process with tests answers the caller through 4.


def read_job():
    job = marshal.loads(os.pread(3, os.lseek(3, 0, os.SEEK_END), 0))
    os.close(3)  # the program must not read it again
    return job


def run_program_and_tests():
    """Run the program and its tests in one process, and send the reason to the caller."""
    job = read_job()
    token = job.pop("token")
    try:
        import_for_tests(job)
        os.write(4, b"started")
        run_tests_in(job, *load_program(job))
        reason = "passed"
    except BaseException as error:
        reason = explain(error)
    os.write(4, (token + reason[:500]).encode("utf-8", "replace"))


def import_for_tests(job):
    """Import what the tests and the prelude import, before the program could change it."""
    modules = job["modules"] + ["pytest"] * job["need_pytest"]
    for module in modules:
        package = module.partition(".")[0]
        if not importlib.util.find_spec(package):
            raise Verdict(f"error: the tests need {package!r}, which is not installed")
        with contextlib.suppress(Exception):  # the tests will say it
            importlib.import_module(module)


def new_module(*names):
    module = types.ModuleType(names[0])
    module.__file__ = names[0] + ".py"
    sys.modules.update(dict.fromkeys(names, module))
    return module


def compile_program(code):
    linecache.cache["solution.py"] = (len(code), None, code.splitlines(True), "solution.py")
    return compile(code.encode("utf-8", "surrogatepass"), "solution.py", "exec", dont_inherit=True)


def load_program(job):
    """Run the prelude and the program in one module: its names, and those that the prelude has for tests."""
    compiled = compile_program(job["code"])
    if {"py", "reload", "subprocess", "runpy"} & set(job["used"]):  # tests that start it as a file
        with open("solution.py", "w", encoding="utf-8", errors="surrogatepass") as copy:
            copy.write(job["code"])
        sys.path.insert(0, os.getcwd())
    module = new_module("solution", "__main__")
    program = vars(module)
    before = set(program)
    try:
        exec(job["prelude_code"], program)
    except BaseException as error:  # it is trusted code
        raise Verdict(f"error: the prelude ends in {type(error).__name__}: {error}") from None
    name = job["entry_point"]
    program.pop(name, None)  # a stub there
    prelude = {key: value for key, value in program.items() if key not in before}
    exec(compiled, program)
    if name not in program and hasattr(program.get("Solution"), name):
        program[name] = getattr(program["Solution"](), name)
    module.__all__ = []  # tests that import * get only the names that they lack
    return program, prelude


def run_script():
    """Run a program that reads and prints: descriptors 0, 1 and 2 are files. It ends as scripts do."""
    status = 0

    def run():
        exec(compile_program(read_job()), vars(new_module("__main__")))

    def flush():
        for file in sys.stdout, sys.__stdout__, sys.stderr:
            with contextlib.suppress(Exception):  # it is closed
                file.flush()

    for step in run, threading._shutdown, atexit._run_exitfuncs, flush:
        try:
            step()
        except SystemExit as end:
            if end.code is not None:
                status = end.code if isinstance(end.code, int) else 1
        except BaseException as error:
            sys.stderr.write("".join(traceback.format_exception_only(type(error), error)))
            status = 1
    os._exit(status & 255)


# ---- Running tests


def run_tests_in(job, program, prelude):
    """Run the tests, and raise what is wrong; they get the names of program and prelude that they lack."""
    linecache.cache["tests.py"] = (len(job["tests"]), None, job["tests"].splitlines(True), "tests.py")
    tests = new_module("tests")
    shadows = {*vars(tests), *vars(builtins)} - {job["entry_point"]}
    names = {name: program[name] for name in job["used"] if name in program and name not in shadows}
    for name, value in prelude.items():
        ours = program.get(name)  # models like to repeat the classes of a prompt
        names[name] = ours if isinstance(value, type) and isinstance(ours, type) else value
    checks_ran = itertools.count()

    def ran(value):
        next(checks_ran)
        return value

    vars(tests).update(names, __ran__=ran)
    if job["is_check"] and job["entry_point"] not in names:
        raise Verdict(f"failed: the program does not define {job['entry_point']}")
    if not job["need_pytest"]:
        sys.modules["pytest"] = types.SimpleNamespace(raises=raises)
    exec(job["tests_code"], vars(tests))
    if job["is_check"]:
        vars(tests)["check"](vars(tests)[job["entry_point"]])
    run = run_with_pytest if job["need_pytest"] else run_small
    have_skipped = run(tests)
    if have_skipped and not re.search("skip|xfail", job["tests"], re.IGNORECASE):
        raise Verdict("failed: the program skipped a test")
    if not next(checks_ran):
        raise Verdict("failed: the tests ran no assert")


def explain(error):
    """Return the reason for what the tests raised, or the program while it was loaded."""
    if type(error) is Verdict:
        return str(error)
    if isinstance(error, MemoryError):
        return "memory"
    text = traceback.format_exception_only(type(error), error)[-1].strip()[:300]
    if "tests" not in sys.modules:  # the program was being loaded
        is_syntax = isinstance(error, SyntaxError)
        return "syntax" if is_syntax else f"failed: {text}, while the program was loaded"
    of_job = ("tests.py", "solution.py")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in of_job]
    lines = [frame.line for frame in frames if frame.filename == "tests.py"]
    if not frames:
        return f"error: the sandbox failed: {text}"
    is_of_tests = frames[-1].filename == "tests.py"
    if is_of_tests and isinstance(error, SystemExit) and not error.code:
        return "error: the tests end the process"
    if is_of_tests and isinstance(error, AssertionError):
        return f"failed: {lines[-1]}"
    return f"failed: {text}, in: {lines[-1]}" if lines else f"failed: {text}"


def run_small(module):
    """Run functions named test... and unittest's test cases; return whether one was skipped."""
    own = {name: thing for name, thing in vars(module).items() if getattr(thing, "__module__", "") == "tests"}
    for name, thing in own.items():
        if name.startswith("test") and inspect.isfunction(thing):
            thing()
    cases = [thing for thing in own.values() if isinstance(thing, type) and hasattr(thing, "assertEqual")]
    if not cases:
        return False
    unittest = importlib.import_module("unittest")
    result = unittest.TestResult()
    unittest.TestSuite(map(unittest.defaultTestLoader.loadTestsFromTestCase, cases)).run(result)
    for error in [text for _, text in result.errors + result.failures] + result.unexpectedSuccesses:
        raise Verdict(f"failed: {str(error).strip().splitlines()[-1]}")
    return bool(result.skipped)


def run_with_pytest(module):
    """Give pytest the module as it is: a program could change a file. Return whether a test was skipped."""
    pytest = importlib.import_module("pytest")
    errors = []
    collected = []
    reports = []

    class Tests(pytest.Module):
        obj = module

    class Plugin:
        def pytest_collection(self, session):
            node = Tests.from_parent(session, path=importlib.import_module("pathlib").Path(os.devnull))
            session.items[:] = session.genitems(node)
            session.testscollected = len(session.items)
            collected.extend(session.items)
            return True

        def pytest_pyfunc_call(self, pyfuncitem):
            test = pyfuncitem.obj
            if inspect.iscoroutinefunction(test):
                values = {name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}
                importlib.import_module("asyncio").run(test(**values))
                return True

        def pytest_exception_interact(self, call):
            errors.append(call.excinfo.value)

        def pytest_runtest_logreport(self, report):
            reports.append(report)

    options = "-q -s --noconftest --assert=plain -p no:cacheprovider -p no:faulthandler"
    ended = pytest.main([*options.split(), "-c", os.devnull, "--rootdir", os.getcwd()], plugins=[Plugin()])
    if errors:
        raise errors[0]
    if [report.when for report in reports].count("teardown") < len(collected):
        raise Verdict("failed: the program ended before its tests did")
    if ended not in (0, pytest.ExitCode.NO_TESTS_COLLECTED):  # asserts may stand alone
        raise AssertionError(f"pytest ends with {ended!r}")
    return any(report.skipped for report in reports)


@contextlib.contextmanager
def raises(expected_exception, match=None):
    """pytest.raises, as it is mostly used."""
    caught = types.SimpleNamespace()
    try:
        yield caught
    except expected_exception as error:
        caught.type, caught.value = type(error), error
        assert re.search(match or "", str(error)), f"{str(error)!r} does not match {match!r}"
    else:
        raise AssertionError(f"did not raise {expected_exception}")


# ---- The layers
# The fork server enters namespaces once; each fork is confined by limits on resources, Landlock (files and
# signals) and a seccomp filter (system calls). Layers that a machine lacks are left out.

LIBC = ctypes.PyDLL(None, use_errno=True)
NEWNS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000  # clone
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND = 1, 2, 4, 32, 0x1000  # mount
MS_REC, MS_PRIVATE = 0x4000, 0x40000
MS_OPTIONS = {"nodev": MS_NODEV, "noexec": 8}  # which a remount in a user namespace has to keep
PDEATHSIG, DUMPABLE, SUBREAPER, NO_NEW_PRIVS = 1, 4, 36, 38  # prctl
DEVICES = [f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom")]
X86 = os.uname().machine == "x86_64"  # else aarch64
CLONE, PRLIMIT, SECCOMP, CAPSET, PIVOT_ROOT = (56, 302, 317, 126, 155) if X86 else (220, 261, 277, 91, 41)
CREATE_RULESET, ADD_RULE, RESTRICT_SELF, CLOSE_RANGE = 444, 445, 446, 436
NEW_ANYTHING = 0x7E020000  # flags of clone that make a namespace
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # BPF
AT_NUMBER, AT_ARCHITECTURE, AT_ARGUMENT = 0, 4, 16  # of a system call, in struct seccomp_data
RETURN_ERRNO = 0x50000  # a filter's answer: fail with the error in the low bits
NO_CAPABILITIES = struct.pack("<Ii", 0x20080522, 0), bytes(24)
NEWER = 424  # calls from here on are absent: libraries do without

# Numbers of system calls on x86-64 | on aarch64. Those that need a capability are not listed: none has one.
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


def libc(name, *args):
    """Call a function of the C library, or a system call by its number; OSError if it fails."""
    function = LIBC.syscall if isinstance(name, int) else getattr(LIBC, name)
    if isinstance(name, int):
        args = (name, *args)
    args = [arg.encode() if isinstance(arg, str) else arg for arg in args]
    result = function(*(ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args))
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")
    return result


class Cage:
    """What the fork server enters once, and what each of its forks is put into."""

    def __init__(self, disabled):
        self.is_root = os.getuid() == 0
        self.on = set(LAYERS) - disabled
        self.private = "namespaces" in self.on  # whether it has a root folder of its own
        version = [int(number) for number in re.findall(r"\d+", os.uname().release)[:2]]
        self.has_own_user = self.private and version >= [5, 14]  # before, all of an account count together
        self.abi = 0  # Landlock's version
        self.scratch = "/job" if self.private else tempfile.mkdtemp(prefix="sandbox-")

    def enter(self):
        """Do what the fork server does once; OSError if it cannot use a layer."""
        global proc_fd
        set_limit(resource.RLIMIT_STACK, STACK_MB << 20, soft=True)
        set_limit(resource.RLIMIT_NOFILE, OPEN_FILES)
        set_limit(resource.RLIMIT_FSIZE, FILE_MB << 20)
        set_limit(resource.RLIMIT_CORE, 0)
        proc_fd = os.open("/proc", os.O_RDONLY)
        self.null = os.open("/dev/null", os.O_RDWR)
        while self.null < 10:  # so that a job's descriptors lie above those it is to get
            self.null = os.open("/dev/null", os.O_RDWR)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])  # `watch` waits for it
        libc("prctl", SUBREAPER, 1)
        if self.private:
            self.enter_namespaces()
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
        if "landlock" in self.on:
            self.make_ruleset()
        self.filter = self.make_filter()  # once: whatever a fork need not make saves it copied pages
        self.settle()
        child = self.spawn([self.null] * 3, {"memory_mb": MEMORY_MB}, int)  # `int` does nothing
        if os.waitpid(child, 0)[1]:
            raise OSError("a process could not be confined")

    def enter_namespaces(self):
        """Enter the namespaces: root makes that of users last, as an ordinary user, who needs it first."""
        others = NEWNS | NEWNET | NEWIPC
        if self.is_root:
            libc("unshare", others)
            self.make_root()
            self.drop_uid()
        user, group = os.getuid(), os.getgid()
        maps = {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
        libc("unshare", NEWUSER if self.is_root else NEWUSER | others)
        for name, text in maps.items():
            with open(os.open(f"self/{name}", os.O_WRONLY, dir_fd=proc_fd), "w") as file:
                file.write(text)
        if not self.is_root:
            self.make_root()

    def drop_uid(self):
        """Change from root to a user of this server's own: uid 0 is above RLIMIT_NPROC and file modes."""
        uid = 61000 + os.getpid() % 4000
        needed = [] if self.private else [os.__file__, self.scratch]
        above = [path[:n] for path in needed for n, letter in enumerate(path) if letter == "/" and n]
        if not all(os.stat(folder).st_mode & 1 for folder in above):
            return  # only root may read this Python, or enter TMPDIR
        self.has_own_user = True
        os.chown(self.scratch, uid, uid)
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        libc("prctl", DUMPABLE, 1, 0, 0, 0)  # else it may not write its uid_map

    def readable(self):
        """Return what a program may read: the system's libraries and this Python."""
        packages = [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
        of_system = ["/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/localtime"]
        paths = {*of_system, sys.prefix, sys.base_prefix, *packages}
        return sorted(filter(os.path.exists, paths))

    def make_root(self):
        """Make a root: a tmpfs with read-only views of what is readable, a scratch folder, no /proc."""
        views = [(path, os.path.realpath(path)) for path in self.readable() + DEVICES]
        libc("mount", None, "/", None, MS_REC | MS_PRIVATE, None)
        libc("mount", "tmpfs", "/tmp", "tmpfs", MS_NOSUID, "size=4m,mode=755")
        os.chdir("/tmp")
        os.mkdir("old")
        libc(PIVOT_ROOT, ".", "old")
        os.chdir("/")
        for real in sorted({real for _, real in views}):
            if not os.path.exists(real):  # else it lies inside a view that is there
                os.makedirs(real if os.path.isdir("/old" + real) else os.path.dirname(real), exist_ok=True)
                if not os.path.isdir(real):
                    open(real, "w").close()
                libc("mount", "/old" + real, real, None, MS_BIND | MS_REC, None)
        os.mkdir(self.scratch)
        for path, real in [*views, ("/tmp", self.scratch), ("/dev/shm", self.scratch)]:
            if not os.path.lexists(path):
                os.makedirs(os.path.dirname(path), exist_ok=True)
                os.symlink(real, path)
        libc("umount2", "/old", 2)  # MNT_DETACH
        os.rmdir("/old")
        with open(os.open("self/mountinfo", os.O_RDONLY, dir_fd=proc_fd), encoding="utf-8") as file:
            mounts = [line.split()[4:6] for line in file]
        for path, options in mounts:  # one by one: mount_setattr would need Linux 5.12
            kept = sum(MS_OPTIONS.get(option, 0) for option in options.split(","))
            path = path.replace(r"\040", " ")
            libc("mount", None, path, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | kept, None)
        size = "size=256m,nr_inodes=20000,mode=1777"
        libc("mount", "tmpfs", self.scratch, "tmpfs", MS_NOSUID | MS_NODEV, size)

    def make_ruleset(self):
        """Make Landlock's rules: read what is readable, write in the scratch folder, no TCP, no signals."""
        self.abi = libc(CREATE_RULESET, None, 0, 1)
        rights = (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(self.abi, 16)) - 1  # all that this version knows
        fields = 3 if self.abi >= 6 else 2 if self.abi >= 4 else 1  # on files, on TCP, on signals
        ruled = struct.pack("<3Q", rights, 0b11, 0b11)[: 8 * fields]
        self.ruleset = libc(CREATE_RULESET, ruled, len(ruled), 0)
        to_read = 0b1101  # files and folders, execute
        on_files = 0b1100000000000111  # what a plain file can have
        rules = dict.fromkeys(["/"] if self.private else self.readable(), to_read)
        for path, allowed in {**rules, **dict.fromkeys([self.scratch, *DEVICES], rights)}.items():
            descriptor = os.open(path, os.O_PATH)
            allowed &= rights if os.path.isdir(path) else rights & on_files
            libc(ADD_RULE, self.ruleset, 1, struct.pack("<Qi", allowed, descriptor), 0)
            os.close(descriptor)

    def make_filter(self):
        """Return the seccomp filter of all forks, in classic BPF."""
        # A step: (what it does, how many steps it skips if that is true, how many if not, a number)
        allow = (RETURN, 0, 0, 0x7FFF0000)
        pretend = (RETURN, 0, 0, RETURN_ERRNO)
        deny = (RETURN, 0, 0, RETURN_ERRNO | errno.EPERM)
        absent = (RETURN, 0, 0, RETURN_ERRNO | errno.ENOSYS)
        kill_process = (RETURN, 0, 0, 0x80000000)
        architecture = 0xC000003E if X86 else 0xC00000B7
        steps = [
            (LOAD, 0, 0, AT_ARCHITECTURE), (EQUAL, 1, 0, architecture), kill_process,
            (LOAD, 0, 0, AT_NUMBER), (EQUAL, 0, 1, CLOSE_RANGE), allow, (AT_LEAST, 0, 1, NEWER), absent,
        ]  # fmt: skip

        def answer_to(table, answer):
            for line in table.strip().splitlines():
                numbers = line.rpartition("  ")[2].split("|")[not X86]
                for first, last in re.findall(r"(\d+)-?(\d*)", numbers):
                    after = int(last or first) + 1
                    steps.extend([(AT_LEAST, 0, 2, int(first)), (AT_LEAST, 1, 0, after), answer])

        def deny_unless(number, test):  # of the call's first argument
            steps.extend([(EQUAL, 0, 4, number), (LOAD, 0, 0, AT_ARGUMENT), test, deny, allow])

        answer_to(REFUSED, deny)
        deny_unless(PRLIMIT, (EQUAL, 1, 0, 0))  # of the process itself
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
        pages = proc(f"{os.getpid()}/statm").split() or [0, 0]  # ru_maxrss begins as the caller's
        self.base_rss = int(pages[1]) * resource.getpagesize()
        gc.collect()
        gc.freeze()

    def spawn(self, descriptors, job, body):
        """Fork a confined process that has these descriptors, from 0 on, and no other, and runs `body`."""
        # A plain clone, without CPython's hooks, which renew locks nobody holds
        pid = libc(CLONE, NEWPID | signal.SIGCHLD, 0, 0, 0, 0) if self.private else os.fork()
        if pid:
            return pid
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
            for target, descriptor in enumerate(descriptors):
                os.dup2(descriptor, target, inheritable=target < 3)
            self.confine(len(descriptors), job)
            libc("prctl", DUMPABLE, 1)
            body()
            os._exit(0)  # whatever threads are running
        finally:
            os._exit(71)

    def confine(self, descriptors, job):
        """Put this process into all layers, in an order in which none forbids the next."""
        os.setsid()
        libc("prctl", PDEATHSIG, signal.SIGKILL)
        memory = job["memory_mb"] << 20
        set_limit(resource.RLIMIT_DATA, memory)
        set_limit(resource.RLIMIT_AS, 4 * memory)  # threads reserve much more than they use
        if self.has_own_user:  # else the limit would count every process of the account
            set_limit(resource.RLIMIT_NPROC, PROCESSES)
        libc(CAPSET, *NO_CAPABILITIES)
        if "landlock" in self.on:
            libc(RESTRICT_SELF, self.ruleset, 0)
        os.closerange(descriptors, OPEN_FILES)
        if "seccomp" in self.on:
            libc(SECCOMP, 1, 4, self.filter)

    def empty_scratch(self):
        """Empty the scratch folder, by its descriptor as it can be moved; `find` copes with deep trees."""
        os.fchmod(self.folder, 0o700)
        os.fchdir(self.folder)
        if os.listdir():
            command = "chmod -R u+rwx . ; find . -mindepth 1 -delete"
            subprocess.run(command, shell=True, stderr=subprocess.DEVNULL)

    def banner(self):
        """Return a line on what is protected here, and by which layers."""
        walls = self.private or "landlock" in self.on
        is_kept = {
            "verdict": walls or self.has_own_user,
            "files": walls,
            "network": "seccomp" in self.on,
            "signals": self.private or "seccomp" in self.on,
        }
        words = [f"{name}={'protected' if kept else 'NOT PROTECTED'}" for name, kept in is_kept.items()]
        words.append(f"processes={PROCESSES if self.has_own_user else 'watched'}")
        layers = ",".join(layer for layer in LAYERS if layer in self.on)
        return f"sandbox: {'; '.join(words)}; layers={layers}"


def replace_semaphores():
    """Put multiprocessing's semaphores in the forks' memory, not in /dev/shm, which is the machine's here."""
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


# ---- The command line


def main():
    import argparse
    from pathlib import Path

    parser = argparse.ArgumentParser(description="Run one untrusted program against tests.")
    parser.add_argument("program", help="file with the untrusted program")
    parser.add_argument("tests", help='file with tests, or .json with {"inputs": [...], "outputs": [...]}')
    parser.add_argument("--entry-point", help="name of the function under test; check(candidate) needs it")
    args = parser.parse_args()
    try:
        code = Path(args.program).read_text(encoding="utf-8")
        tests = Path(args.tests).read_text(encoding="utf-8")
        if args.tests.endswith(".json"):
            tests = json.loads(tests)
        result = run_tests(code, tests, entry_point=args.entry_point)
    except (OSError, ValueError, RuntimeError) as error:
        parser.error(str(error))
    print(result.reason)
    sys.exit({True: 0, False: 1, None: 3}[result.passed])


if __name__ == "__main__":
    main()
