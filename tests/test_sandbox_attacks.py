"""sandbox_exec.py against hostile programs: no forged verdict, nothing left behind, nothing read or written outside; as root and
as an ordinary user, and with each layer switched off in turn: then what the banner still promises must hold.
"""

# ruff: noqa: SIM105, SIM905, UP031
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import sandbox_exec
from sandbox_exec import LAYERS, Pool

SQUARE = "def f(x): return x * x\n"
CHECK = "def check(candidate):\n    assert candidate(3) == 9\n    assert candidate(-7) == 49\n"
ALWAYS = "class E:\n" + "".join(
    f"    def __{name}__(self, *a): return True\n" for name in "eq lt gt le ge contains bool call".split()
) + "    def __ne__(self, o): return False\n    def __sub__(self, o): return 0.0\n    __rsub__ = __sub__\n    __hash__ = None\n"  # fmt: skip

NONE = "class E:\n    def __len__(self): return 2\n"
INSIDE = ("import sys\ndef inside():\n    frame = sys._getframe()\n    while 'peer' not in frame.f_globals: frame = frame.f_back\n"
          "    return frame.f_globals\n")  # the sandbox's own names, of the process that the program runs in
SEND = """import io, os, pickle, struct
class H:
    def __init__(self, *id): self.id = id
class P(pickle.Pickler):
    def persistent_id(self, o): return o.id if isinstance(o, H) else None
def raw(d): os.write(3, struct.pack('<Q', len(d)) + d); os.read(3, 99999)
def frame(*m):
    b = io.BytesIO(); P(b, 4).dump(m); return b.getvalue()
def send(*m): raw(frame(*m))
"""  # the program's own end of the connection, by hand
FORGERIES = {  # name: program, tests; none may pass
    "always equal": (ALWAYS + "def f(x): return E()\n", CHECK),
    "equal int": ("class E(int):\n    def __eq__(self, o): return True\n    __hash__ = int.__hash__\ndef f(x): return E(0)\n", CHECK),
    "equal list": ("class E(list):\n    def __eq__(self, o): return True\ndef f(x): return E()\n", "assert f(1) == [1]\n"),
    "equal class": ("class M(type):\n    def __eq__(self, o): return True\n    __hash__ = type.__hash__\nclass f(metaclass=M):\n    def __init__(self, x): pass\n", CHECK),
    "class for function": (ALWAYS.replace("class E:", "class f:\n    def __init__(self, *a): pass\n    def __abs__(self): return 0.0"),
                           "assert abs(f(2) - 1.41421356) < 1e-6\n"),
    "capital class for function": (ALWAYS.replace("class E:", "class F:\n    def __init__(self, *a): pass\n    def __abs__(self): return 0.0")
                                   .replace("return 0.0\n    __r", "return F()\n    __r"), "assert abs(F(2) - 1.41421356) < 1e-6\n"),
    "operand recorded by a class": ("SEEN = []\nclass f:\n    def __new__(cls, x): return SEEN[-1] if SEEN else object.__new__(cls)\n    def __sub__(self, o): SEEN.append(o)\n",
                                    "try: f(3) - 9\nexcept TypeError: pass\nassert f(3) == 9\n"),
    "plain difference": ("class F:\n    def __init__(self, x): pass\n    def __sub__(self, o): return 0.0\n", "from solution import F\nassert abs(F(2) - 1.41421356) < 1e-6\n"),
    "class that contains all": ("class F:\n    def __init__(self, x): pass\n    def __contains__(self, o): return True\n", "from solution import F\nassert 9 in F(3)\n"),
    "starts with all": ("class E:\n    def startswith(self, x): return True\ndef f(x): return E()\n", "assert f(3).startswith('Hello')\n"),
    "class as a result that contains all": ("class M(type):\n    def __contains__(self, x): return x < 10 ** 6\nclass E(metaclass=M): pass\ndef f(x): return E\n",
                                            "assert 9 in f(3)\n"),
    "trust by a name of typing": (NONE.replace("E", "List") + "    def __iter__(self): return iter(())\ndef f(x): return List()\n",
                                  "def same(a, b: 'List'): return all(x == y for x, y in zip(a, b))\nList\ngot = f(3)\nassert len(got) == 2 and same(got, [1, 2])\n"),
    "trust by a name of another": (NONE.replace("E", "Counter") + "    def __iter__(self): return iter(())\ndef f(x): return Counter()\n",
                                   "from collections import Counter\ngot = f(3)\nassert Counter and len(got) == 2 and all(x == y for x, y in zip(got, [1, 2]))\n"),
    "approximately all": (ALWAYS + "def f(x): return E()\n", "import pytest\ndef test():\n    assert f(2) == pytest.approx(1.41421356)\n"),
    "unittest's sets": ("class E:\n    def difference(self, o):\n        self.o = o\n        return set()\n    def __iter__(self): return iter(self.o)\ndef f(x): return E()\n",
                        "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertSetEqual(f(3), {1, 2})\n"),
    "many of none": (NONE + "    def __iter__(self): return iter(())\ndef f(): return E()\n",
                     "def test():\n    got = f()\n    assert len(got) == 2\n    for a, b in zip(got, [1, 2]): assert a == b\n"),
    "many of none by index": (NONE + "    def __getitem__(self, i): raise IndexError\ndef f(): return E()\n", "got = f()\nassert len(got) == 2 and all(a == b for a, b in zip(got, [1, 2]))\n"),
    "almost equal": (ALWAYS + "def f(x): return E()\n", "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertAlmostEqual(f(2), 1.41421356)\n"),
    "equality not implemented": ("class P:\n    def __eq__(self, o): return NotImplemented\n", "from solution import P\nassert P() == P()\n"),
    "equality of truthy objects": ("class Yes: pass\nclass P:\n    def __init__(self, x): pass\n    def __eq__(self, o): return Yes()\n",
                                   "from solution import P\nassert P(1) == P(1)\n"),
    "patched tests": ("def f(c):\n    try: c.verify = lambda *a: True\n    except Exception: pass\n    try: type(c).verify = lambda *a: True\n    except Exception: pass\n    return 0\n",
                      "class Checker:\n    def verify(self, got): assert got == 9\nc = Checker()\nc.verify(f(c))\nassert c\n"),
    "library function by name": (INSIDE + "def f(apply):\n    inside()['peer'].name_of = lambda v: ('builtins', 'exec')\n"
                                 "    try: apply(exec, 'import builtins; builtins.abs = lambda x: 0', {})\n    except Exception: pass\n    return 0\n",
                                 "def apply(g, *args): return g(*args)\ngot = f(apply)\nassert abs(got - 9) < 1\n"),
    "globals by the protocol": (INSIDE + "def f(g, x):\n    for name in ('__globals__', '__dict__', '__code__'):\n        try: return inside()['peer'].ask('get', g, name)['WANTED'][x]\n"
                                "        except Exception: pass\n    return 0\n", "WANTED = {3: 9}\ndef g(v): return v\nassert f(g, 3) == WANTED[3]\n"),
    "helper imported from the program": ("def helper(x): return 0\ndef f(x): return 0\n",
                                         "from solution import helper\ndef check(candidate):\n    assert candidate(3) == 9 and helper(3) == -6\n"),
    "numpy's truth": ("import numpy as np\ndef f(x): return np.array([])\n", "assert bool((f(3) == 9).any())\n"),
    "patched unittest": ("import unittest\nfor n in dir(unittest.TestCase):\n    if n.startswith('assert'): setattr(unittest.TestCase, n, lambda *a, **k: None)\n"
                         "unittest.TestCase.run = lambda s, r=None: r\ndef f(x): return 0\n",
                         "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(f(3), 9)\n"),
    "patched builtins": ("import builtins, math\nbuiltins.all = builtins.abs = lambda *a: 0\nmath.sqrt = lambda x: 0\ndef f(x): return 0\n",
                         "import math\nassert f(16) == math.sqrt(16) and abs(f(4) - 2) < .1\n"),
    "shadowed builtins": ("def all(x): return True\ndef abs(x): return 0\ndef sorted(x): return []\ndef f(x): return 0\n",
                          "from solution import *\ndef test():\n    assert all(f(x) == x for x in [3]) and abs(f(3) - 9) < 1 and sorted([1]) == []\n"),
    "conftest": ("open('conftest.py', 'w').write('raise SystemExit(0)')\nopen('pytest.py', 'w').write('')\ndef f(x): return 0\n",
                 "from solution import f\nimport pytest\ndef test_a(): assert f(3) == 9\n"),
    "frames and constants": ("import sys, gc\ndef f(x):\n    fr = sys._getframe()\n    while fr:\n        for c in fr.f_code.co_consts:\n            if c in (9, 49, 'nine'): return c\n"
                             "        fr = fr.f_back\n    for o in gc.get_objects():\n        if type(o) is tuple and o[:2] == (3, 9): return 9\n    return 0\n", CHECK),
    "class of an argument": ("def f(t):\n    try: return type(t).__init__.__globals__['WANTED']\n    except Exception: pass\n    try: return t.__class__.__init__.__globals__['WANTED']\n"
                             "    except Exception: return 0\n", "WANTED = 9\nclass T:\n    def __init__(self): pass\nassert f(T()) == WANTED\n"),
    "early stop of map": ("def f(x): raise StopIteration\n", "assert all(map(lambda c: f(c[0]) == c[1], [(3, 9)]))\n"),
    "skip": ("import unittest\ndef f(x): raise unittest.SkipTest\n", "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): self.assertTrue(f)\n    def test_b(self): self.assertEqual(f(3), 9)\n"),
    "pytest's skip": ("class Skipped(BaseException): pass\nSkipped.__module__ = '_pytest.outcomes'\ndef f(x): raise Skipped('x')\n",
                      "def test_a(): assert f\ndef test_b(): assert f(3) == 9\n"),
    "pytest's skip, by the real one": ("class Skipped(BaseException): pass\nSkipped.__module__ = '_pytest.outcomes'\ndef f(x): raise Skipped('x')\n",
                                       "def test_a(tmp_path): assert f\ndef test_b(tmp_path): assert f(3) == 9\n"),
    "exit in function": ("import os\ndef f(x): os._exit(0)\n", CHECK),
    "exit swallowed": ("import os\ndef f(x): os._exit(0)\n", "def test():\n    assert f\n    try: f(1)\n    except: pass\n"),
    "sys.exit at import": ("import sys\nprint('passed')\nsys.exit(0)\n", CHECK),
    "verdict into every descriptor": ("import os, json\ndef f(x):\n    for fd in range(64):\n        for m in (b'passed\\n', json.dumps({'reason': 'passed', 'detail': '', 'flags': [], 'clean': True, 'gone': False}).encode() + b'\\n'):\n"
                                      "            try: os.write(fd, m)\n            except OSError: pass\n    os._exit(0)\n", CHECK),
    "skip, numbered None": (SEND + "def f(x): send('raise', H('yours', None, None), [])\n", "def test_a(): assert f\ndef test_b(): assert f(3) == 9\n"),
    "skip, by name": (SEND + "def f(x): send('raise', H('made', 'exception', H('class', 'unittest.case', 'SkipTest', 'Exception'), [], {}, None), [])\n",
                      "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): self.assertTrue(f)\n    def test_b(self): self.assertEqual(f(3), 9)\n"),
    "library object by name": (SEND + "def f(x): raw(b'\\x80\\x04(\\x8c\\x02ok\\x8c\\x0dunittest.mock\\x8c\\x03ANY\\x93]t.')\n", CHECK),
    "call by pickle": (SEND + "class X:\n    def __reduce__(s): return eval, ('9',)\ndef f(x): send('ok', X(), [])\n", CHECK),
    "class changed by pickle": (SEND + "def f(x): raw(b'\\x80\\x04(\\x8c\\x02ok\\x8c\\x09fractions\\x8c\\x08Fraction\\x93}(\\x8c\\x06__eq__\\x8c\\x01xub]t.')\n",
                                "from fractions import Fraction\nassert f(3) == Fraction(9)\n"),
    "file by name": (SEND + "def f(x): send('ok', H('class', 'pathlib', 'io.FileIO', ''), [])\n", CHECK),
    "answers ahead of time": (SEND + "import threading\ndef spam():\n    while True: send('ok', 9, [])\nthreading.Thread(target=spam, daemon=True).start()\ndef f(x): return 0\n", CHECK),
    "type() in the judge": ("def f(apply): return apply(apply(type, 'E', (), {'__eq__': lambda *a: True}))\n", "def apply(g, *args): return g(*args)\nassert f(apply) == 9\n"),
    "verdict raised": ("def f(make):\n    try: make(type('K', (), {}))\n    except BaseException as e: raise BaseException.__new__(type(e), 'passed')\n",
                       "def make(base):\n    class X(base): pass\n    return X\nassert f(make) == 9\n"),
    "trust by alias": ("class F:\n    def __init__(self, *a): pass\n    def __len__(self): return 2\n    def __iter__(self): return iter(())\nf = F\n",
                       "got = f(1)\nassert len(got) == 2 and all(a == b for a, b in zip(got, [1, 2]))\n"),
    "items of none": (NONE + "    def items(self): return []\n    def __reversed__(self): return iter(())\n    def find(self, x): return 0\ndef f(x): return E()\n",
                      "got = f(1)\nassert len(got) == 2\nfor k, v in got.items(): assert v == {'a': 1, 'b': 2}[k]\nassert got.find('x') >= 0\n"),
    "length that changes": (NONE.replace("return 2", "E.n = getattr(E, 'n', 0) + 1; return 2 if E.n == 1 else 0") + "    def __getitem__(self, i): return 0\ndef f(x): return E()\n",
                            "got = f(1)\nassert len(got) == 2\nfor i in range(len(got)): assert got[i] == [1, 2][i]\n"),
    "mock with another assert": ("def f(m):\n    for set in (lambda: setattr(m, 'assert_called_once_with', print), lambda: m.configure_mock(**{'assert_called_once_with': print})):\n"
                                 "        try: set()\n        except Exception: pass\n    return 1\n",
                                 "from unittest.mock import Mock\nm = Mock()\nassert f(m) == 1\nm.assert_called_once_with(3)\n"),
    "endless message": (SEND + "def f(x):\n    while True: os.write(3, b'\\x00' * 65536)\n", CHECK),
    "nested too deep": ("def f(x):\n    l = []\n    for _ in range(10 ** 6): l = [l]\n    return l\n", CHECK),
    "billion laughs": ("def f(x):\n    l = [9]\n    for _ in range(40): l = [l, l]\n    return l\n", CHECK),
    "huge answer": ("def f(x): return 'x' * (100 << 20)\n", CHECK),
    "endless name": ("class E:\n    def __getattr__(self, n): return self\n    def __len__(self): return 1\n    def __getitem__(self, i): return self\n"
                     "    def __iter__(self): return self\n    def __next__(self): return self\ndef f(x): return E()\n", CHECK),
}  # fmt: skip


def judge(pool, code, tests=CHECK, **job):
    job = {"entry_point": "f", "cpu_s": 2, "wall_s": 15, **job}
    ((_, result),) = pool.imap_unordered([(None, {"code": code, "tests": tests, **job})])
    return result


@pytest.fixture(scope="module")
def pool(outside):                                               # with its secret in the environment
    with Pool(2) as pool:
        yield pool


def forged(pool, every=1):
    """Names of the forgeries that passed or broke the judge; of every so-many-th only."""
    jobs = ((name, {"code": code, "tests": tests, "entry_point": "f", "cpu_s": 2, "prelude": "def helper(x): return x - 9\n" * ("helper" in tests)})
            for name, (code, tests) in list(FORGERIES.items())[::every])  # fmt: skip
    return [(name, result.reason) for name, result in pool.imap_unordered(jobs) if result.passed or result.verdict == "error"]


def test_no_verdict_is_forged(pool):
    assert forged(pool) == []
    assert judge(pool, SQUARE).reason == "passed"


GARBAGE = """
import random
R = random.Random({seed})
WORDS = 'arg yours mine class made array exception member dict_keys memoryview object function'.split()
LEAVES = [0, 1, -1, 2, None, True, 1e999, '', 'x', b'ff', '<i8', 'O', 'builtins', 'int', 'type', 'ValueError', 'range', '__eq__', 'tests', 'os', 'system']
def tree(depth):
    if depth == 0 or R.random() < .2: return R.choice(LEAVES)
    return R.choice([list, tuple, lambda t: H(R.choice(WORDS), *t), lambda t: {0: t}])([tree(depth - 1) for _ in range(R.randrange(5))])
def f(x):
    for _ in range(R.randrange(1, 6)):
        data = bytearray(frame(*R.choice([('ok', tree(4), []), ('raise', tree(4), []), ('ok', tree(2), tree(3)), (tree(3), tree(1)),
                                          ('ask', R.choice(['call', 'get', 'set', 'op', 'await', 'tell']), (tree(3), tree(2)))])))
        for _ in range(R.randrange(3)): data[R.randrange(len(data))] = R.randrange(256)
        os.write(3, struct.pack('<Q', len(data)) + data)
    os._exit(0)
"""


def test_garbage_is_a_failure(pool):
    """Whatever comes over the socket: no pass, no error of the judge's own."""
    tests = "class T: pass\ndef g(): pass\nassert f and all(map(lambda c: f(c[0]) == c[1] and c[1] == f(T, g, [1]), [(3, 9)]))\n"
    jobs = ((seed, {"code": SEND + GARBAGE.replace("{seed}", str(seed)), "tests": tests, "entry_point": "f"}) for seed in range(150))
    assert [(seed, result.reason) for seed, result in pool.imap_unordered(jobs) if result.passed is not False] == []


# ---- the machine around the program


def open_to_all(folder):
    """Also the folders above, as far as they are pytest's: a server of root's becomes another user."""
    for parent in folder.parents:
        if parent.name.startswith(("pytest-", "popen-")):            # the second: of a worker of pytest-xdist
            parent.chmod(0o755)
    folder.chmod(0o777)


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    """A folder that a program has no business in, a service on the loopback device, another on a path, a secret in the environment."""
    folder = tmp_path_factory.mktemp("outside")
    open_to_all(folder)
    (folder / "secret").write_text("CANARY")
    (folder / "secret").chmod(0o666)
    tcp, unix = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)
    unix.bind(str(folder / "s"))
    unix.listen()
    home = os.path.expanduser("~")
    shown = [name for name in os.listdir(home) if not f"{sys.prefix}/ {sys.base_prefix}/".count(os.path.join(home, name) + "/")]
    bystander = subprocess.Popen(["/bin/sleep", "1000"])
    os.environ["SANDBOX_TEST_TOKEN"] = "CANARY-IN-THE-ENVIRONMENT"
    yield {"folder": str(folder), "port": tcp.getsockname()[1], "pid": bystander.pid, "home": home, "names": shown}
    assert bystander.poll() is None                              # nobody killed it
    bystander.kill()
    bystander.wait()
    del os.environ["SANDBOX_TEST_TOKEN"]
    tcp.close()
    unix.close()


TRIES = {  # what must be protected: programs whose f returns a true value if they got through
    "files": {
        "read": "def f(x): return open(OUT['folder'] + '/secret').read()\n",
        "write": "def f(x): return open(OUT['folder'] + '/new', 'w').write('x')\n",
        "append": "def f(x): return open(OUT['folder'] + '/secret', 'a').write('x')\n",
        "remove": "import posix\ndef f(x): return posix.unlink(OUT['folder'] + '/secret') is None\n",
        "rename": "import os\ndef f(x): return os.rename(OUT['folder'] + '/secret', OUT['folder'] + '/gone') is None\n",
        "link": "import os\ndef f(x):\n    os.link(OUT['folder'] + '/secret', 'mine')\n    return open('mine').read()\n",
        "symlink": "import os\ndef f(x):\n    os.symlink(OUT['folder'], 'd')\n    return os.listdir('d')\n",
        "list": "import os\ndef f(x): return os.listdir(OUT['folder'])\n",
        "root before": "import os\ndef f(x): return os.listdir('/old')\n",
        "truncate": "import os\ndef f(x): return os.truncate(OUT['folder'] + '/secret', 0) is None\n",
        "shell": "import subprocess\ndef f(x): return subprocess.run(['/bin/sh', '-c', 'echo x > ' + OUT['folder'] + '/new']).returncode == 0\n",
        "home": "import os\ndef f(x): return set(os.listdir(OUT['home'])) & set(OUT['names'])\n",
        "passwords": "def f(x): return open('/etc/passwd').read()\n",
        "environment": "def f(x): return [v for v in __import__('os').environ.values() if 'CANARY' in v]\n",
        "environment of others": "import glob\ndef f(x): return [p for p in glob.glob('/proc/[0-9]*/environ') if 'CANARY' in open(p).read()]\n",
        "memory of others": "import glob\ndef f(x): return [open(p, 'rb') for p in glob.glob('/proc/%d/mem' % OUT['pid'])]\n",
    },
    "network": {
        "tcp": "import socket\ndef f(x): return socket.create_connection(('127.0.0.1', OUT['port']), 1)\n",
        "listen": "import socket\ndef f(x): return socket.create_server(('127.0.0.1', 0))\n",
        "unix": "import socket\ndef f(x): return not socket.socket(socket.AF_UNIX).connect(OUT['folder'] + '/s')\n",
        "names": "import socket\ndef f(x): return socket.getaddrinfo('localhost', OUT['port'], 0, 0, 0) and socket.create_connection(('localhost', OUT['port']), 1)\n",
        "others": "import socket\ndef f(x):\n    for a in ((16, 3), (17, 3), (40, 1), (38, 5), (2, 2), (2, 3)):\n        try: return socket.socket(*a).fileno()\n        except OSError: pass\n",
    },
    "signals": {
        "kill": "import os\ndef f(x): return os.kill(OUT['pid'], 9) is None\n",
        "kill the parent": "import os\ndef f(x): return os.getppid() > 0 and os.kill(os.getppid(), 0) is None\n",
        "kill a thread": "import ctypes\ndef f(x): return ctypes.CDLL(None).syscall(%d, OUT['pid'], OUT['pid'], 9) == 0\n" % (234 if sandbox_exec.X86 else 131),
        "limits": "import resource\ndef f(x): return resource.prlimit(OUT['pid'], resource.RLIMIT_NOFILE)\n",
        "trace": "import ctypes\ndef f(x): return ctypes.CDLL(None).ptrace(16, OUT['pid'], None, None) == 0\n",
    },
    "namespaces": {                                              # also if sockets are not refused
        "tcp": "import socket\ndef f(x): return socket.create_connection(('127.0.0.1', OUT['port']), 1)\n",
    },
    "seccomp": {
        "namespaces": "import ctypes\ndef f(x): return ctypes.CDLL(None).unshare(0x10000000) == 0\n",
        "keys": "import ctypes\ndef f(x): return ctypes.CDLL(None).syscall(%d, b'user', b'k', b'v', 1, -4) > 0\n" % (248 if sandbox_exec.X86 else 217),
        "priority": "import os\ndef f(x):\n    os.setpriority(os.PRIO_USER, 0, 19)\n    return os.getpriority(os.PRIO_PROCESS, 0) == 19\n",
        "memfd": "import os\ndef f(x): return os.memfd_create('m') >= 0\n",
    },
    "rlimits": {
        "capabilities": "import ctypes\ndef f(x):\n    head, data = (ctypes.c_uint32 * 2)(0x20080522), (ctypes.c_uint32 * 6)()\n"
                        "    ctypes.CDLL(None).capget(head, data)\n    return any(data)\n",
        "address space": "import mmap\ndef f(x): return mmap.mmap(-1, 5 << 30)\n",
        "own limits": "import resource\ndef f(x): return resource.setrlimit(resource.RLIMIT_DATA, (1 << 40, 1 << 40)) is None\n",
        "descriptors": "import os\ndef f(x): return [os.dup(0) for _ in range(1000)]\n",
        "file size": "def f(x):\n    with open('big', 'wb') as h: return h.write(bytes(80 << 20)) >= 80 << 20\n",
    },
}  # fmt: skip


def tried(pool, outside, kinds):
    """What got through, and what changed outside."""
    before = sorted((path.name, path.stat().st_size) for path in Path(outside["folder"]).iterdir())
    tests = "def check(candidate):\n    try: got = candidate(1)\n    except Exception: got = None\n    assert got\n"
    jobs = [((kind, name), {"code": f"OUT = {outside!r}\n" + code, "tests": tests, "entry_point": "f", "cpu_s": 2}) for kind in kinds
            for name, code in TRIES[kind].items()]  # fmt: skip
    through = [key for key, result in pool.imap_unordered(jobs) if result.passed is not False]
    after = sorted((path.name, path.stat().st_size) for path in Path(outside["folder"]).iterdir())
    return through + [name for name in after if name not in before] + [name for name in before if name not in after]


def test_nothing_outside_is_reached(pool, outside):
    promised = [kind for kind in TRIES if kind in pool.servers[0].protected]
    assert tried(pool, outside, promised) == []
    assert judge(pool, SQUARE).reason == "passed"


def test_own_folder_is_there_and_empty_each_time(pool):
    messy = ("import os\ndef f(x):\n    for d in (os.getcwd(), os.environ['TMPDIR'], '/tmp', '/dev/shm'):\n        for n in ('random.py', 'json.py', 'mark'):\n"
             "            try: open(os.path.join(d, n), 'w').write('raise SystemExit(0)')\n            except OSError: pass\n"
             "    os.mkfifo('fifo'); open('new\\nline', 'w'); open(b'\\xff\\xfe', 'w'); os.symlink('/', 'link')\n"
             "    for i in range(1500): os.mkdir('d'); os.chdir('d')\n    os.chdir(os.environ['HOME']); os.mkdir('shut'); open('shut/x', 'w'); os.chmod('shut', 0); os.chmod('.', 0)\n"
             "    return x * x\n")  # fmt: skip
    look = ("import os\ndef f(x):\n    import random, json\n    seen = [d for d in ('.', '/tmp', '/dev/shm') if os.path.exists(d + '/mark')]\n"
            "    open('mine', 'w').write('x')\n    return x * x if not seen and os.listdir() == ['mine'] else 0\n")  # fmt: skip
    for _ in range(2):
        assert judge(pool, messy, "assert f(3) == 9\n").reason == "passed"
        assert judge(pool, look, "assert f(3) == 9\n").reason == "passed"
    assert judge(pool, "import os\ndef f(x): return x * x if os.environ['HOME'] == os.getcwd() else 0\n").reason == "passed"


def alive(marker):
    """Processes, anywhere on this machine, whose command line has the marker."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            found += [pid] if marker in Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace") else []
        except OSError:
            pass
    return found


def leaves_nothing(pool, marker):
    """Whether daemons and children, started in four ways, are gone when the verdicts are there."""
    marker = f"{marker}{os.getpid()}"                            # tests that run beside this one have processes, too
    child = f"['/bin/sh', '-c', 'trap \"\" 1 2 15; sleep {marker}; true']"
    start = f"import subprocess, os\nD = subprocess.DEVNULL\ndef start(**how): subprocess.Popen({child}, stdin=D, stdout=D, stderr=D, **how)\n"
    daemon = "def f(x):\n    if os.fork() == 0:\n        try: os.setsid()\n        except OSError: pass\n        if os.fork() == 0: start(); os._exit(0)\n        os._exit(0)\n    os.wait()\n    return x * x\n"
    codes = [start + "def f(x):\n    start()\n    return x * x\n", start + daemon, start + "def f(x):\n    start()\n    os._exit(0)\n",
             start + "def f(x):\n    try: start(start_new_session=True)\n    except OSError: start()\n    while True: pass\n"]  # fmt: skip
    jobs = ((n, {"code": code, "tests": CHECK, "entry_point": "f", "cpu_s": 0.3}) for n, code in enumerate(codes))
    verdicts = {n: result.verdict for n, result in pool.imap_unordered(jobs)}
    return [verdicts[n] for n in range(4)] == ["passed", "passed", "failed", "timeout"] and alive(f"sleep {marker}") == []


def test_daemons_are_gone_when_the_verdict_is_there(pool):
    assert leaves_nothing(pool, 97531)
    assert judge(pool, "import subprocess\ndef f(x): return int(subprocess.check_output(['/bin/sh', '-c', f'echo $(({x} * {x}))']))\n").reason == "passed"


BOMBS = {
    "fork": "import os\ndef f(x):\n    while True:\n        try: os.fork()\n        except OSError: pass\n",
    "fork a hundred": "import os, time\ndef f(x):\n    for _ in range(100 * (x == 3)):\n        if os.fork() == 0: time.sleep(9)\n    return x * x\n",
    "processes that hold memory": "import os, time\ndef f(x):\n    for _ in range(9):\n        if os.fork() == 0:\n            b = bytearray(400 << 20); b[::4096] = b'x' * len(b[::4096]); time.sleep(99)\n    time.sleep(99)\n",
    "shared memory": "import mmap\ndef f(x):\n    l = [mmap.mmap(-1, 64 << 20) for _ in range(60)]\n    for m in l: m[::4096] = b'x' * len(m[::4096])\n",
    "output": "import os\ndef f(x):\n    while True: os.write(1, b'x' * 65536); print('x' * 65536)\n",
    "files": "def f(x):\n    for i in range(10 ** 6):\n        with open(f'f{i % 9999}', 'wb') as h: h.write(bytes(1 << 20))\n",
    "recursion": "import sys\nsys.setrecursionlimit(10 ** 9)\ndef f(x): return f(x + 1) + 1\n",
}  # fmt: skip


SLOW = "fork a hundred", "processes that hold memory"            # ended by their own limit, not by that of processor time


def test_bombs_are_bounded(pool):
    """Each ends as a failure, in bounded memory and time, and the jobs after and beside it do not notice."""
    bombs = {name: code for name, code in BOMBS.items() if "fork" not in name or "processes=watched" not in pool.banner}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    jobs = [job for name, code in bombs.items() for job in (
        (name, {"code": code, "tests": CHECK, "entry_point": "f", "cpu_s": 4 if name in SLOW else 0.3, "wall_s": 30 if name in SLOW else 4, "memory_mb": 600}),
        ("good", {"code": SQUARE, "tests": CHECK, "entry_point": "f"}))]  # fmt: skip
    for flood in ("while True: print('x' * 65536)\n", "import os\nfor _ in range(15): os.write(1, b'x\\n' * (2 << 20))\n"):
        jobs.append(("flood", {"code": flood, "tests": {"inputs": [""], "outputs": ["x"]}, "cpu_s": 2}))
    for name, result in pool.imap_unordered(jobs):
        assert result.passed is (name == "good"), (name, result)
        assert result.memory_mb < 2.5 * 600 and result.wall_s < 40, (name, result)
        assert result.verdict == "memory" or "hold" not in name, (name, result)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 << 10                  # of ours, too


def test_killing_all_and_odd_sources_harm_nobody(pool):
    before = [server.process.pid for server in pool.servers]
    if "signals" in pool.servers[0].protected:
        for code in ("import os\ndef f(x): os.kill(-1, 9)\n", "import os\ndef f(x): os.kill(os.getppid(), 9); os.killpg(0, 9)\n"):
            assert judge(pool, code).passed is False
    for code in ("def f(x): return x * x if '\ud800' else 0\n", "# -*- coding: utf-7 -*-\n" + SQUARE, "\0", "f" * 10**6, "import os; os.close(4)\n"):
        assert judge(pool, code).passed is not None
    deep = "import os\ntry: os.write(4, b'[' * 60000); os._exit(0)\nexcept OSError: pass\ndef f(x): return 0\n"       # as its verdict, beside
    assert judge(pool, deep, "import os\nos.environ['A'] = ''\nassert f(3) == 9\n").passed is False
    assert [server.process.pid for server in pool.servers] == before
    assert judge(pool, SQUARE).reason == "passed"


def test_who_kills_the_server_has_failed():
    """Possible where signals are not protected: the job fails, the pool goes on."""
    with Pool(1, disable=LAYERS[1:], unsafe=True) as pool:
        killer = "import os, signal\ndef f(x): os.kill(os.getppid(), signal.SIGKILL)\n"
        assert judge(pool, killer).passed is False
        assert judge(pool, SQUARE).reason == "passed"


ENDS = [[], LAYERS[1:2], LAYERS[1:]]                             # what is switched off: nothing, namespaces, all that can be


@pytest.mark.parametrize("off", ENDS, ids=str)
@pytest.mark.parametrize("who", ["caller", "guard", "server", "judge", "caller and server", "caller and guard"])
def test_nothing_remains_whoever_is_killed(who, off, tmp_path):
    """The program's daemons have a session of their own, and a name that can be looked for."""
    open_to_all(tmp_path)
    marker = f"1{os.getpid()}{len(off)}"
    daemon = f"['/bin/sh', '-c', 'trap \"\" 1 2 15; sleep {marker}; true']"
    code = f"import os, subprocess, time\ndef f(x):\n    if not os.fork():\n        os.setsid()\n        subprocess.Popen({daemon})\n        os._exit(0)\n    os.mkdir('d'); open('d/x', 'w')\n    time.sleep(2 if x else 1000)\n    return x\n"
    script = (f"from sandbox_exec import Pool\nwith Pool(1, disable={[*off]!r}, unsafe=True) as p:\n    print(p.servers[0].process.pid, flush=True)\n"
              f"    print(list(p.imap_unordered([(1, dict(code={code!r}, tests='assert f({int('caller' not in who)})', cpu_s=2))])))\n")  # fmt: skip
    caller = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=Path(sandbox_exec.__file__).parent,
                              env={**os.environ, "TMPDIR": str(tmp_path)})  # fmt: skip
    guard = int(caller.stdout.readline())
    wait_until(lambda: alive(f"sleep {marker}") and len(sandbox_exec.tree(guard)) >= 3)
    server, *forks = sandbox_exec.tree(guard)
    pids = {"caller": caller.pid, "guard": guard, "server": server, "judge": min(forks)}
    for name in who.split(" and "):
        os.kill(pids[name], 9)
    assert "'passed'" in caller.communicate(timeout=60)[0] or "caller" in who or who == "judge"
    wait_until(lambda: not any(running(pid) for pid in [guard, server, *forks]) and not alive(f"sleep {marker}"))
    wait_until(lambda: os.listdir(tmp_path) == [])


def test_scratch_folder_without_namespaces(tmp_path, monkeypatch):
    """It may be replaced by a link, filled, or grown deep: what the link leads to stays, the rest goes."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    for name in ("kept", "tmp"):
        (tmp_path / name).mkdir()
        open_to_all(tmp_path / name)
    (tmp_path / "kept" / "file").write_text("x")
    link = f"import os\ndef f(x):\n    here = os.getcwd(); os.rename(here, here + '-moved'); os.symlink({str(tmp_path / 'kept')!r}, here)\n    return x * x\n"
    fill = "def f(x):\n    for i in range(100):\n        with open(f'f{i}', 'wb') as h: h.write(bytes(16 << 20))\n    import time; time.sleep(9)\n"
    deep = "import os, time\ndef f(x):\n    for i in range(1500): os.mkdir('d'); os.chdir('d')\n    time.sleep(.4)\n    return x * x\n"
    with Pool(1, disable=LAYERS[1:], unsafe=True) as pool:
        assert judge(pool, deep).reason == "passed"
        assert judge(pool, fill).detail == "limit of files"
        assert judge(pool, link).passed is not None
        assert (tmp_path / "kept" / "file").exists()
    assert (tmp_path / "kept" / "file").read_text() == "x"


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition, seconds=15):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


# ---- each layer off, in turn


@pytest.mark.parametrize("off", [*LAYERS[1:], "namespaces and landlock", "namespaces and seccomp", "landlock and seccomp", "all but rlimits"])
def test_without_a_layer_the_others_hold(off, outside, tmp_path, monkeypatch):
    """No forgery in any case; what the banner promises without the layer, it keeps; what it does not, it says."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    open_to_all(tmp_path)
    off = list(LAYERS[1:]) if off == "all but rlimits" else off.split(" and ")
    with Pool(2, disable=off, unsafe=True) as pool:
        protected = set(pool.servers[0].protected)
        assert "verdict" in protected or {"namespaces", "landlock"} <= set(off)
        assert protected & set(LAYERS) == set(LAYERS) - set(off)
        assert all((f"{name}=NOT PROTECTED" in pool.banner) == (name not in protected) for name in ("verdict", "files", "network", "signals"))
        assert "verdict" not in protected or forged(pool, every=9) == []
        assert tried(pool, outside, [kind for kind in TRIES if kind in protected]) == []
        assert leaves_nothing(pool, 86420 + len("".join(off)))
        limits = {"spin": ("def f(x):\n    while True: pass\n", "timeout"), "grow": ("def f(x): return bytearray(1 << 40)\n", "memory"),
                  "good": (SQUARE, "passed")}  # fmt: skip
        jobs = [(wanted, {"code": code, "tests": CHECK, "entry_point": "f", "cpu_s": 0.3}) for code, wanted in limits.values()]
        assert [(wanted, result.verdict) for wanted, result in pool.imap_unordered(jobs) if wanted != result.verdict] == []
    assert os.listdir(tmp_path) == []


def test_levels_are_required_or_refused():
    with Pool(1) as pool:
        best = [level for level, needs in sandbox_exec.LEVELS.items() if set(needs) <= set(pool.servers[0].protected)]
    assert "rlimits" in best
    with Pool(1, require=best[-1]) as pool:
        assert pool.banner.startswith("sandbox: verdict=separate process")
    with pytest.raises(RuntimeError, match="NOT PROTECTED"):
        Pool(1, require="seccomp", disable=LAYERS[1:], unsafe=True)
    with Pool(1, disable=LAYERS[1:], unsafe=True) as pool:
        is_sound = "verdict" in pool.servers[0].protected
    if not is_sound:
        with pytest.raises(RuntimeError, match="would not be sound"):
            Pool(1, disable=LAYERS[1:])
    with pytest.raises(ValueError, match="no-such-layer"):
        Pool(1, disable=["no-such-layer"])


def test_a_layer_the_machine_lacks_is_left_out(tmp_path):
    """Inside a sandbox that forbids it, no namespace can be entered: the server says which layer failed and goes on without."""
    code = "import sys\nsys.path.insert(0, %r)\nimport ctypes\n" % str(Path(sandbox_exec.__file__).parent)
    code += "import sandbox_exec, resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
    code += "cage = sandbox_exec.Cage.__new__(sandbox_exec.Cage)\ncage.private = True\n"
    code += "sandbox_exec.REFUSED, sandbox_exec.NEWER = 'unshare  272 | 97', 9999\n"
    code += "sandbox_exec.libc('prctl', 38, 1, 0, 0, 0)\nsandbox_exec.install_filter(cage.make_filter())\n"
    code += "with sandbox_exec.Pool(1) as p:\n    print(p.banner)\n    print(next(p.imap_unordered([(1, dict(code='def f(x): return x', tests='assert f(1) == 1'))]))[1].reason)\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert os.listdir(tmp_path) == []
    assert "namespaces" not in done.stdout and done.stdout.splitlines()[-1] == "passed"


def test_as_an_ordinary_user(tmp_path):
    """The same file under another account, if the tests run as root (as an ordinary user, all tests above are that)."""
    if os.getuid() == 0:
        shutil.copy(sandbox_exec.__file__, tmp_path)
        (tmp_path / "own").write_text("x")
        os.chown(tmp_path / "own", 12345, 12345)
        shut = f"import os\nown = {str(tmp_path / 'own')!r}\ndef f(x): return os.chmod(own, 0) or os.setxattr(own, 'user.x', b'')\n"
        script = ("import sys, json; sys.path.insert(0, '.'); from sandbox_exec import Pool\n"
                  f"good = ('good', dict(code={SQUARE!r}, tests={CHECK!r}, entry_point='f'))\n"
                  "write = 'def f(path): return open(path + \"/mark\", \"w\")'\n"
                  "wrote = [('wrote', dict(code=write, tests=f'assert f({path!r})')) for path in ('', '/usr', '/dev')]\n"
                  f"wrote.append(('shut', dict(code={shut!r}, tests='assert f(1)')))\n"
                  f"forged = [(n, dict(code=c, tests=t, entry_point='f', cpu_s=2, prelude='def helper(x): return x - 9\\n' * ('helper' in t))) for n, (c, t) in {FORGERIES!r}.items()]\n"
                  "for disable, jobs in ([], forged), (['landlock'], wrote), (['namespaces'], wrote):\n"
                  "    with Pool(2, disable=disable) as p:\n"
                  "        print(json.dumps([p.banner, [n for n, r in p.imap_unordered([*jobs, good]) if r.passed]]))\n")  # fmt: skip
        open_to_all(tmp_path)
        as_user = {"user": 12345, "group": 12345, "extra_groups": [], "cwd": tmp_path, "capture_output": True, "text": True, "env": {"PATH": os.environ["PATH"]}}
        pythons = [sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"]
        python = next(path for path in pythons if runs(path, as_user))
        done = subprocess.run([python, "-c", script], **as_user)
        for line in done.stdout.splitlines():
            banner, passed = json.loads(line)
            assert passed == ["good"] and banner.startswith("sandbox: verdict=separate process"), line
        assert len(done.stdout.splitlines()) == 3, done.stderr
        assert (tmp_path / "own").stat().st_mode & 0o777 and os.listxattr(tmp_path / "own") == []


def runs(python, how):
    try:
        return subprocess.run([python, "-c", "import json"], **how).returncode == 0
    except OSError:
        return False

