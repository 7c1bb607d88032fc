"""sandbox_exec.py against hostile programs: nothing left behind, nothing read or written outside; as root and
as an ordinary user, and with each layer switched off in turn: then what the banner still promises must hold.
"""

import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import SQUARE, judge, python, sandbox_job

import sandbox_exec
from sandbox_exec import LAYERS, X86, Pool


@pytest.fixture(scope="module")
def pool():
    with Pool(2) as pool:
        yield pool


@pytest.mark.parametrize("data", ["b'passed'", "b'startedpassed'", "bytes(9)", "b'\\xff' * 70000"])
def test_garbage_is_no_pass(pool, data):
    """Whatever a program sends as its answer: no pass, and no error of the sandbox's own."""
    code = f"import os\ndef f(x):\n    os.set_blocking(4, False)\n    os.write(4, {data})\n    os._exit(0)\n"
    assert judge(pool, code, "assert f(3)\n").passed is False


# ---- the machine around the program


def open_to_all(folder):
    """Also the folders above, as far as they are pytest's: a server of root's becomes another user."""
    for parent in folder.parents:
        if parent.name.startswith(("pytest-", "popen-")):            # the second: of a worker of pytest-xdist
            parent.chmod(0o755)
    folder.chmod(0o777)


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    """A folder that no program has business in, services on the loopback device and on a path, a secret in
    the environment."""
    folder = tmp_path_factory.mktemp("outside")
    open_to_all(folder)
    (folder / "secret").write_text("CANARY")
    (folder / "secret").chmod(0o666)
    tcp, unix = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)
    unix.bind(str(folder / "s"))
    unix.listen()
    home = os.path.expanduser("~")
    pythons = f"{sys.prefix}/ {sys.base_prefix}/"
    shown = [name for name in os.listdir(home) if os.path.join(home, name) + "/" not in pythons]
    bystander = subprocess.Popen(["/bin/sleep", "1000"])
    os.environ["SANDBOX_TEST_TOKEN"] = "CANARY-IN-THE-ENVIRONMENT"
    yield {"folder": str(folder), "port": tcp.getsockname()[1], "pid": bystander.pid, "home": home,
           "names": shown}
    assert bystander.poll() is None                              # nobody killed it
    bystander.kill()
    bystander.wait()
    del os.environ["SANDBOX_TEST_TOKEN"]
    tcp.close()
    unix.close()


SHELL = "import ctypes, glob, mmap, os, resource, socket, subprocess\nLIBC = ctypes.CDLL(None)\n"
TRIES = {  # what must be protected: expressions that are true if they got through
    "files": {
        "read": "open(OUT['folder'] + '/secret').read()",
        "write": "open(OUT['folder'] + '/new', 'w').write('x')",
        "remove": "os.unlink(OUT['folder'] + '/secret') is None",
        "link": "os.link(OUT['folder'] + '/secret', 'mine') or open('mine').read()",
        "root before": "os.listdir('/old')",
        "truncate": "os.truncate(OUT['folder'] + '/secret', 0) is None",
        "shell": "not os.system(f'echo x > {OUT[\"folder\"]}/new')",
        "home": "set(os.listdir(OUT['home'])) & set(OUT['names'])",
        "passwords": "open('/etc/passwd').read()",
        "environment": "[v for v in os.environ.values() if 'CANARY' in v]",
        "environment of others":
            "[p for p in glob.glob('/proc/[0-9]*/environ') if 'CANARY' in open(p).read()]",
        "memory of others": "[open(p, 'rb') for p in glob.glob(f'/proc/{OUT[\"pid\"]}/mem')]",
    },
    "network": {
        "tcp": "socket.create_connection(('127.0.0.1', OUT['port']), 1)",
        "listen": "socket.create_server(('127.0.0.1', 0))",
        "unix": "socket.socket(socket.AF_UNIX).connect(OUT['folder'] + '/s') is None",
        **{f"family {family}": f"socket.socket({family}, {kind}).fileno()"
           for family, kind in ((16, 3), (17, 3), (40, 1), (38, 5), (2, 2), (2, 3))},
    },
    "signals": {
        "kill": "os.kill(OUT['pid'], 9) is None",
        "kill the parent": "os.getppid() > 0 and os.kill(os.getppid(), 0) is None",
        "kill a thread": f"LIBC.syscall({234 if X86 else 131}, OUT['pid'], OUT['pid'], 9) == 0",
        "limits": "resource.prlimit(OUT['pid'], resource.RLIMIT_NOFILE)",
        "trace": "LIBC.ptrace(16, OUT['pid'], None, None) == 0",
    },
    "namespaces": {"tcp": "socket.create_connection(('127.0.0.1', OUT['port']), 1)"},  # also if not refused
    "seccomp": {
        "namespaces": "LIBC.unshare(0x10000000) == 0",
        "keys": f"LIBC.syscall({248 if X86 else 217}, b'user', b'k', b'v', 1, -4) > 0",
        "priority": "os.setpriority(os.PRIO_USER, 0, 19) or os.getpriority(os.PRIO_PROCESS, 0) == 19",
        "memfd": "os.memfd_create('m') >= 0",
    },
    "rlimits": {
        "capabilities": "LIBC.capget((ctypes.c_uint32 * 2)(0x20080522), found := (ctypes.c_uint32 * 6)())"
                        " or any(found)",
        "address space": "mmap.mmap(-1, 5 << 30)",
        "own limits": "resource.setrlimit(resource.RLIMIT_DATA, (1 << 40, 1 << 40)) is None",
        "descriptors": "[os.dup(0) for _ in range(1000)]",
        "file size": "open('big', 'wb', 0).write(bytes(80 << 20)) >= 80 << 20",
    },
}


def protected(pool):
    """What the banner says is protected, and the layers."""
    kept = {word.split("=")[0] for word in pool.banner.split() if word.endswith("=protected;")}
    return kept | set(pool.banner.rpartition("=")[2].split(","))


def tried(pool, outside, kinds):
    """What got through, and what changed outside."""
    before = sorted((path.name, path.stat().st_size) for path in Path(outside["folder"]).iterdir())
    tests = ("def check(candidate):\n    try: got = candidate(1)\n    except Exception: got = None\n"
             "    assert got\n")
    code = f"{SHELL}OUT = {outside!r}\ndef f(x): return "
    jobs = [((kind, name), sandbox_job(f"{code}{expression}\n", tests, cpu_s=2))
            for kind in kinds for name, expression in TRIES[kind].items()]
    through = [key for key, result in pool.imap_unordered(jobs) if result.passed is not False]
    after = sorted((path.name, path.stat().st_size) for path in Path(outside["folder"]).iterdir())
    return through + sorted({*before} ^ {*after})


def test_own_folder_is_there_and_empty_each_time(pool):
    messy = ("import os\ndef f(x):\n    for d in ('.', '/tmp', '/dev/shm'):\n"
             "        for n in ('random.py', 'mark'):\n"
             "            try: open(os.path.join(d, n), 'w').write('raise SystemExit(0)')\n"
             "            except OSError: pass\n"
             "    os.mkfifo('fifo'); os.symlink('/', 'link'); open(b'\\xff\\n', 'w')\n"
             "    for i in range(1500): os.mkdir('d'); os.chdir('d')\n"
             "    os.chdir(os.environ['HOME']); os.mkdir('shut'); open('shut/x', 'w')\n"
             "    os.chmod('shut', 0); os.chmod('.', 0)\n    return x * x\n")
    look = ("import os, random\ndef f(x):\n"
            "    seen = [d for d in ('.', '/tmp', '/dev/shm') if os.path.exists(d + '/mark')]\n"
            "    open('mine', 'w').write('x')\n    at_home = os.environ['HOME'] == os.getcwd()\n"
            "    return x * x if at_home and not seen and os.listdir() == ['mine'] else 0\n")
    for code in (messy, look, messy, look):
        assert judge(pool, code, "assert f(3) == 9\n").passed


def test_a_private_root_is_read_only_whoever_owns_the_files():
    with Pool(1, disable=["landlock"], unsafe=True) as pool:
        if "namespaces" in protected(pool):
            for folder in ("/", "/usr", sys.prefix, sys.base_prefix):
                said = judge(pool, f"def f(x): return open({folder + '/mark'!r}, 'w')\n").reason
                assert said.startswith("failed: OSError: [Errno 30] Read-only file system"), folder


def alive(marker):
    """Processes, anywhere on this machine, whose command line has the marker."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found += [path] if marker in path.read_bytes().decode(errors="replace") else []
    return found


def leaves_nothing(pool, marker):
    """Whether daemons and children, started in four ways, are gone when the verdicts are there."""
    marker = f"{marker}{os.getpid()}"  # tests that run beside this one have processes, too
    child = f"['/bin/sh', '-c', 'trap \"\" 1 2 15; sleep {marker}; true']"
    start = (f"import subprocess, os\nD = subprocess.DEVNULL\n"
             f"def start(**how): subprocess.Popen({child}, stdin=D, stdout=D, stderr=D, **how)\n")
    daemon = ("def f(x):\n    if os.fork() == 0:\n        try: os.setsid()\n        except OSError: pass\n"
              "        if os.fork() == 0: start(); os._exit(0)\n        os._exit(0)\n    os.wait()\n"
              "    return x * x\n")
    codes = [start + "def f(x):\n    start()\n    return x * x\n", start + daemon,
             start + "def f(x):\n    start()\n    os._exit(0)\n",
             start + "def f(x):\n    try: start(start_new_session=True)\n    except OSError: start()\n"
                     "    while True: pass\n"]
    verdicts = dict(pool.imap_unordered((n, sandbox_job(code, cpu_s=1)) for n, code in enumerate(codes)))
    ended = [verdicts[n].reason[:6] for n in range(4)]
    return ended == ["passed", "passed", "failed", "timeou"] and alive(f"sleep {marker}") == []


BOMBS = {
    "fork": "import os\ndef f(x):\n    while True:\n        try: os.fork()\n        except OSError: pass\n",
    # one a second: all at once, they hold what a machine of many cores fills until the server looks again
    "processes that hold memory":
        "import os, time\ndef f(x):\n    for _ in range(9):\n        if os.fork() == 0:\n"
        "            b = bytearray(400 << 20); b[::4096] = b'x' * len(b[::4096]); time.sleep(99)\n"
        "        time.sleep(1)\n",
    "shared memory": "import mmap\ndef f(x):\n    l = [mmap.mmap(-1, 64 << 20) for _ in range(60)]\n"
                     "    for m in l: m[::4096] = b'x' * len(m[::4096])\n",
    "output": "import os\ndef f(x):\n    while True: os.write(1, b'x' * 65536); print('x' * 65536)\n",
    "files": "def f(x):\n    for i in range(10 ** 6):\n"
             "        with open(f'f{i % 9999}', 'wb') as h: h.write(bytes(1 << 20))\n",
    "recursion": "import sys\nsys.setrecursionlimit(10 ** 9)\ndef f(x): return f(x + 1) + 1\n",
}


def test_a_caller_with_much_memory_limits_its_programs_all_the_same():
    """A process that was started by a large one seems to be as large itself, by its largest size so far."""
    held = ("import os, time\ndef f(x):\n    for _ in range(3):\n        if os.fork() == 0:\n"
            "            b = b'x' * (200 << 20); time.sleep(9)\n    time.sleep(9)\n")
    program = ("import sandbox_exec, sys\nlarge = b'x' * (600 << 20)\n"
               "print(sandbox_exec.run_tests(sys.stdin.read(), 'assert f(1)', memory_mb=300, wall_s=5).reason)\n")
    assert python(program, input=held).stdout == "memory\n"


def test_bombs_are_bounded(pool):
    """Each ends as a failure, in bounded memory and time, and the jobs after and beside it do not notice."""
    bombs = {name: code for name, code in BOMBS.items()
             if "fork" not in name or "processes=watched" not in pool.banner}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    jobs = []
    for name, code in bombs.items():
        is_slow = "hold" in name  # ended by its own limit, not by processor time's
        limits = {"cpu_s": 15, "wall_s": 30} if is_slow else {"cpu_s": 0.3, "wall_s": 4}
        jobs.append((name, sandbox_job(code, memory_mb=600, **limits)))
    jobs = [each for bomb in jobs for each in (bomb, ("good", sandbox_job(SQUARE)))]
    for flood in ("while True: print('x' * 65536)\n",
                  "import os\nfor _ in range(15): os.write(1, b'x\\n' * (2 << 20))\n"):
        jobs.append(("flood", sandbox_job(flood, {"inputs": [""], "outputs": ["x"]}, cpu_s=2)))
    for name, result in pool.imap_unordered(jobs):
        assert result.passed is (name == "good"), (name, result)
        assert result.memory_mb < 2.5 * 600, (name, result)
        assert result.reason == "memory" or "hold" not in name, (name, result)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 << 10  # of ours, too


def test_killing_all_and_odd_sources_harm_nobody(pool):
    before = [server.process.pid for server in pool.servers]
    if "signals" in protected(pool):
        for kill in ("os.kill(-1, 9)", "os.kill(os.getppid(), 9); os.killpg(0, 9)"):
            assert judge(pool, f"import os\ndef f(x): {kill}\n").passed is False
    for code in ("def f(x): return x * x if '\ud800' else 0\n", "# -*- coding: utf-7 -*-\n" + SQUARE, "\0",
                 "f" * 10**6, "import os; os.close(4)\n"):
        assert judge(pool, code).passed is not None
    assert [server.process.pid for server in pool.servers] == before
    assert judge(pool, SQUARE).reason == "passed"


@pytest.mark.parametrize("who, off", [("caller", []), ("caller", LAYERS[1:]), ("server", []),
                                      ("caller and server", [])], ids=str)
def test_nothing_remains_whoever_is_killed(who, off, tmp_path):
    """The program's daemons have a session of their own, and a name that can be looked for."""
    open_to_all(tmp_path)
    marker = f"1{os.getpid()}{len(off)}"
    daemon = f"['/bin/sh', '-c', 'trap \"\" 1 2 15; sleep {marker}; true']"
    code = (f"import os, subprocess, time\ndef f(x):\n    if not os.fork():\n        os.setsid()\n"
            f"        subprocess.Popen({daemon})\n        os._exit(0)\n"
            "    os.mkdir('d'); open('d/x', 'w')\n    time.sleep(2 if x else 1000)\n"
            f"    return x\n")
    script = (f"from sandbox_exec import Pool\nwith Pool(1, disable={[*off]!r}, unsafe=True) as p:\n"
              f"    print(p.servers[0].process.pid, flush=True)\n"
              f"    job = dict(code={code!r}, tests='assert f({int('caller' not in who)})', cpu_s=2)\n"
              "    print(list(p.imap_unordered([(1, job)])))\n")
    caller = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True,
                              cwd=Path(sandbox_exec.__file__).parent,
                              env={**os.environ, "TMPDIR": str(tmp_path)})
    server = int(caller.stdout.readline())
    wait_until(lambda: alive(f"sleep {marker}") and len(sandbox_exec.tree(server)) >= 2)
    forks = sandbox_exec.tree(server)
    for name in who.split(" and "):
        sandbox_exec.kill({"caller": caller.pid, "server": server}[name])
    assert "'error: the server" in caller.communicate(timeout=60)[0] or "caller" in who
    wait_until(lambda: not any(map(running, [server, *forks])) and not alive(f"sleep {marker}"))
    wait_until(lambda: not os.listdir(tmp_path))


def test_scratch_folder_without_namespaces(tmp_path, monkeypatch):
    """It may be replaced by a link: what that leads to stays."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    for name in ("kept", "tmp"):
        (tmp_path / name).mkdir()
        open_to_all(tmp_path / name)
    (tmp_path / "kept" / "file").write_text("x")
    link = ("import os\ndef f(x):\n    here = os.getcwd(); os.rename(here, here + '-moved')\n"
            f"    os.symlink({str(tmp_path / 'kept')!r}, here)\n    return x * x\n")
    with Pool(1, disable=LAYERS[1:], unsafe=True) as pool:
        assert judge(pool, link).passed is not None
    assert (tmp_path / "kept" / "file").read_text() == "x"


def running(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def wait_until(condition):
    end = time.monotonic() + 60                   # a busy disk takes its time
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


# ---- all layers, each layer off in turn, and none


@pytest.mark.parametrize("off", [[], *([layer] for layer in LAYERS[1:]), LAYERS[1:]], ids=" and ".join)
def test_nothing_outside_is_reached_and_without_a_layer_the_others_hold(off, outside, tmp_path, monkeypatch):
    """What the banner promises it keeps; what it does not, it says."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    open_to_all(tmp_path)
    with Pool(2, disable=off, unsafe=bool(off)) as pool:
        kept = protected(pool)
        assert "verdict" in kept or {"namespaces", "landlock"} <= set(off)
        assert kept & set(LAYERS) == set(LAYERS) - set(off)
        assert all((f"{name}=NOT PROTECTED" in pool.banner) == (name not in kept)
                   for name in ("verdict", "files", "network", "signals"))
        assert tried(pool, outside, [kind for kind in TRIES if kind in kept]) == []
        assert leaves_nothing(pool, 86420 + len("".join(off)))
        limits = {"timeout: processor time": "def f(x):\n    while True: pass\n", "passed": SQUARE,
                  "memory": "def f(x): return bytearray(1 << 40)\n"}
        jobs = ((wanted, sandbox_job(code, cpu_s=0.3)) for wanted, code in limits.items())
        assert all(wanted == result.reason for wanted, result in pool.imap_unordered(jobs))
    assert os.listdir(tmp_path) == []


def test_a_pool_starts_only_where_verdicts_are_sound():
    with Pool(1) as pool:
        assert pool.banner.startswith("sandbox: verdict=protected")
    with Pool(1, disable=LAYERS[1:], unsafe=True) as pool:
        is_sound = "verdict" in protected(pool)
    if not is_sound:
        with pytest.raises(RuntimeError, match="would not be sound"):
            Pool(1, disable=LAYERS[1:])


UNSHARE = 272 if X86 else 97
LACKING = {  # steps of a seccomp filter: calls from 424 on are those that Linux 4.18 does not have
    "newer calls": "(AT_LEAST, 0, 1, 424), absent",
    "user namespaces": f"(EQUAL, 0, 4, {UNSHARE}), (LOAD, 0, 0, 16), (ANY_BIT, 0, 1, NEWUSER), absent, allow",
}


@pytest.mark.parametrize("lacking", LACKING)
def test_what_an_older_kernel_lacks_is_left_out(lacking):
    """A filter over the caller answers ENOSYS: other calls are taken, and the banner says what is left."""
    script = ("import ctypes, struct\nfrom sandbox_exec import *\n"
              "allow, absent = (RETURN, 0, 0, 0x7FFF0000), (RETURN, 0, 0, 0x50026)\n"
              f"steps = [(LOAD, 0, 0, 0), {LACKING[lacking]}, allow]\n"
              "code = b''.join(struct.pack('<HBBI', *step) for step in steps)\n"
              "kept = ctypes.create_string_buffer(code)\n"
              "libc('prctl', NO_NEW_PRIVS, 1, 0, 0, 0)\n"
              "libc(SECCOMP, 1, 4, struct.pack('<HxxxxxxQ', len(steps), ctypes.addressof(kept)))\n"
              "with Pool(1, unsafe=True) as p:\n    print(p.banner)\n"
              "    for code in ('def f(x): return x * x', 'def f(x):\\n    while True: pass'):\n"
              "        print(p.judge(dict(code=code, tests='assert f(3) == 9', cpu_s=.3)).reason[:6])\n")
    done = python(script)
    assert done.returncode == 0, done.stderr
    banner, *verdicts = done.stdout.splitlines()
    assert verdicts == ["passed", "timeou"]
    with Pool(1, unsafe=True) as pool:
        left = {*LAYERS} & protected(pool)
    left.discard("namespaces" if lacking == "user namespaces" else "landlock")
    assert {*banner.rpartition("=")[2].split(",")} == left


def python_of(user):
    """A Python that this account may run."""
    for name in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        with suppress(OSError):
            if subprocess.run([name, "-c", "import json"], **user).returncode == 0:
                return name


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_as_an_ordinary_user(tmp_path):
    """The same file under another account."""
    shutil.copy(sandbox_exec.__file__, tmp_path)
    (tmp_path / "own").write_text("x")
    os.chown(tmp_path / "own", 12345, 12345)
    shut = (f"import os\nown = {str(tmp_path / 'own')!r}\n"
            "def f(x): return os.chmod(own, 0) or os.setxattr(own, 'user.x', b'')\n")
    write = "def f(path): return open(path + '/mark', 'w')\n"
    wrote = [("wrote", sandbox_job(write, f"assert f({path!r})\n")) for path in ("", "/usr", "/dev")]
    wrote += [("shut", sandbox_job(shut, "assert f(1)\n")), ("good", sandbox_job(SQUARE))]
    script = ("import sys, json; sys.path.insert(0, '.'); from sandbox_exec import Pool\n"
              "for disable, jobs in json.load(sys.stdin):\n"
              "    with Pool(2, disable=disable) as p:\n"
              "        passed = [n for n, r in p.imap_unordered(jobs) if r.passed]\n"
              "        print(json.dumps([p.banner, passed]))\n")
    pools = [([], wrote), (["landlock"], wrote), (["namespaces"], wrote)]
    open_to_all(tmp_path)
    as_user = {"user": 12345, "group": 12345, "extra_groups": [], "cwd": tmp_path, "text": True,
               "capture_output": True, "env": {"PATH": os.environ["PATH"]}}
    done = subprocess.run([python_of(as_user), "-c", script], input=json.dumps(pools), **as_user)
    for line in done.stdout.splitlines():
        banner, passed = json.loads(line)
        assert passed == ["good"] and banner.startswith("sandbox: verdict=protected"), line
    assert len(done.stdout.splitlines()) == 3, done.stderr
    assert (tmp_path / "own").stat().st_mode & 0o777 and os.listxattr(tmp_path / "own") == []
