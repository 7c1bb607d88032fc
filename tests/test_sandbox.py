"""sandbox_exec.py: verdicts with their reasons, every style of tests, legitimate programs, limits, throughput without leaks.

What hostile programs try is in test_sandbox_attacks.py.
"""

import json
import os
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

import sandbox_exec
from sandbox_exec import Pool, run_tests

SQUARE = "def f(x): return x * x\n"
CHECK = "def check(candidate):\n    assert candidate(3) == 9\n    assert candidate(-7) == 49\n"


@pytest.fixture(scope="module")
def pool():
    with Pool(2) as pool:
        yield pool


def judge(pool, code, tests=CHECK, **job):
    """One verdict; tests of the style `check` are about f."""
    job = {"entry_point": "f", **job}
    ((_, result),) = pool.imap_unordered([(None, {"code": code, "tests": tests, **job})])
    return result


def stdio(*pairs):
    return {"inputs": [given for given, _ in pairs], "outputs": [wanted for _, wanted in pairs]}


VERDICTS = [
    (SQUARE, CHECK, "passed"),
    ("def f(x): return x + x\n", CHECK, "failed: assert candidate(3) == 9"),
    ("def f(x): return x * x if x > 0 else None\n", CHECK, "failed: assert candidate(-7) == 49"),
    ("def f(x): return [][x]\n", CHECK, "failed: IndexError: list index out of range, in: assert candidate(3) == 9"),
    ("def g(x): return x * x\n", CHECK, "failed: the program does not define f"),
    ("1 / 0\n" + SQUARE, CHECK, "failed: ZeroDivisionError: division by zero, while the program was loaded"),
    ("def f(x): return x *\n", CHECK, "syntax"),
    ("", CHECK, "no code"),
    (None, CHECK, "no code"),
    (SQUARE, "x = f(3)\n", "error: the tests have no assert"),
    (SQUARE, "if f(3) == 0:\n    assert False\n", "failed: the tests ran no assert"),
    (SQUARE, "assert 1 + 1 == 2\n", "error: the tests ask nothing of the program"),
    (SQUARE, "import no_such_package\nassert f(3) == 9\n", "error: the tests need 'no_such_package', which is not installed"),
    ("import no_such_package\n" + SQUARE, "import no_such_package\nassert f(3) == 9\n",
     "error: the tests need 'no_such_package', which is not installed"),
    ("import no_such_package\n" + SQUARE, "assert f(3) == 9\n",
     "failed: ModuleNotFoundError: No module named 'no_such_package', while the program was loaded"),
    ("import no_such_package\n" + SQUARE, "import os\nos.environ['A'] = ''\nassert f(3) == 9\n",  # beside, too
     "failed: ModuleNotFoundError: No module named 'no_such_package'"),
    (SQUARE, "assert f(3) ==\n", "error: the tests or the prelude do not parse"),
    (SQUARE, {"inputs": ["1"], "outputs": []}, "error: tests must be text or"),
    ("class A: pass\n", "from solution import A\nclass B(A): pass\nassert B()\n", "not judged: passes only beside its tests"),
    ("import sys\nclass V:\n    def __init__(self, x): self.x = x\n    def __eq__(self, o): return self.x == o\n",
     "from solution import V\nassert V(3) == 3\n", "not judged: passes only beside its tests"),
    ("class V:\n    def __init__(self, x): self.x = x\n", "from solution import V\nassert V(3) == 3\n", "failed: assert V(3) == 3"),
    ("MEMO = {}\ndef f(x): return x * x\n", "MEMO = [1]\nassert f(3) == 9\n", "passed"),
    ("def f(x): return bytearray(1 << 40)\n", CHECK, "memory"),
    ("import os\ndef f(x): os.abort()\n", CHECK, "killed"),
    ("def f(x): return 'x' * (100 << 20)\n", CHECK, "failed: ValueError: more data than may cross at once, in: assert candidate(3)"),
    ("import os\ndef f(x): os._exit(0)\n", CHECK, "failed: the program ended (exit status 0) before it answered"),
    ("print(int(input()) ** 2)\n", stdio(("3", "9"), ("4", "16\n")), "passed"),
    ("print(int(input()) * 2)\n", stdio(("2", "4"), ("3", "9")), "failed: input 2 of 2: wrong output"),
    ("print(1)\nraise ValueError('no')\n", stdio(("", "1")), "failed: input 1 of 1: exit status 1 ValueError: no"),
    ("print(1\n", stdio(("", "1")), "syntax"),
    ("print('0.50 2.0')\n", stdio(("", ".5 2")), "passed"),
    ("print('0.5  0.25')\nprint('1  2')\n", stdio(("", ".5 .25\n1 2")), "failed: input 1 of 1: wrong output"),
    ("print('\u0669.0')\n", stdio(("", "9.0")), "failed: input 1 of 1: wrong output"),
    ("class Solution:\n    def add(self, a, b): return a + b, a\n", {**stdio(("1\n2", "[3, 1]")), "fn_name": "add"}, "passed"),
    ("def add(a, b): return a * b\n", {"inputs": [[1, 2]], "outputs": [3], "fn_name": "add"}, "failed: assert (list(got)"),
]


@pytest.mark.parametrize("code, tests, reason", VERDICTS)
def test_verdict_and_reason(pool, code, tests, reason):
    result = judge(pool, code, tests)
    assert result.reason.startswith(reason)
    assert result.verdict == reason.split(":")[0]
    assert result.passed is {"passed": True, "error": None, "not judged": None}.get(result.verdict, False)
    assert reason in ("passed", "timeout", "memory", "killed", "no code", "syntax") or ": " in reason


STYLES = {                                                       # those named real need the package, the others work without
    "pytest that imports": (SQUARE, "from solution import f\ndef test_f():\n    assert f(3) == 9\n"),
    "pytest, module": (SQUARE, "import solution\ndef test_f():\n    assert solution.f(3) == 9\n"),
    "raises, approx": (
        "def f(x):\n    if x < 0: raise ValueError('negative')\n    return x ** .5\n",
        "import pytest\nfrom solution import *\ndef test_f():\n    assert f(2) == pytest.approx(1.414213562) and [f(4)] == pytest.approx([2])\n"
        "def test_raises():\n    with pytest.raises(ValueError, match='neg'):\n        f(-1)\n    pytest.raises(ValueError, f, -1)\n",
    ),
    "real marks and classes": (
        "def f(x):\n    if x < 0: raise ValueError('negative')\n    return x ** .5\n",
        "import pytest\nfrom solution import *\n"
        "@pytest.mark.parametrize('x, y', [(4, 2), pytest.param(2, 1.414213562)])\n"
        "def test_f(x, y):\n    assert f(x) == pytest.approx(y)\n    assert [f(x)] == pytest.approx([y])\n"
        "def test_raises():\n    with pytest.raises(ValueError, match='neg'):\n        f(-1)\n"
        "class TestIt:\n    def test_m(self):\n        assert f(9) == 3\n"
        "@pytest.fixture\ndef four():\n    yield 4\ndef test_four(four):\n    assert f(four) == 2\n",
    ),
    "real fixtures": (
        "def f(x):\n    print('got', x)\n    return x * x\n",
        "import pytest\n@pytest.fixture\ndef nine():\n    yield 9\n"
        "@pytest.fixture(params=[1, 2])\ndef each(request):\n    return request.param\n"
        "def test_f(nine, capsys, tmp_path):\n    assert f(3) == nine\n    assert capsys.readouterr().out == 'got 3\\n'\n"
        "def test_each(each):\n    assert f(each) == each ** 2\n"
        "class TestIt:\n    def setup_method(self):\n        self.x = 3\n    def test_m(self, nine):\n        assert f(self.x) == nine\n",
    ),
    "unittest": (
        SQUARE,
        "import unittest\nclass TestCases(unittest.TestCase):\n    def setUp(self): self.x = 3\n"
        "    def test_a(self): self.assertEqual(f(self.x), 9)\n"
        "    def test_b(self):\n        with self.assertRaises(TypeError): f('a')\nif __name__ == '__main__': unittest.main()\n",
    ),
    "assert": (SQUARE, "assert f(3) == 9\nassert f(4) == 16\n"),
}


@pytest.mark.parametrize("name", STYLES)
def test_styles_pass_and_can_fail(name, pool):
    code, tests = STYLES[name]
    assert judge(pool, code, tests).reason == "passed"
    assert judge(pool, "def f(x):\n    return x + 1\n", tests).passed is False


def test_a_server_for_each_core_that_it_may_use():
    told = "import os, sandbox_exec; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); pool = sandbox_exec.Pool()"
    command = [sys.executable, "-c", f"{told}; print(len(pool.servers)); pool.close()"]
    done = subprocess.run(command, cwd=os.path.dirname(sandbox_exec.__file__), capture_output=True)
    assert done.stdout == b"1\n", done.stderr


def test_without_pytest_nothing_is_called_wrong():
    with Pool(1, disable=["pytest"]) as pool:
        for name, (code, tests) in STYLES.items():
            lacking = "error: the tests need 'pytest', which is not installed"
            assert judge(pool, code, tests).reason == (lacking if name.startswith("real") else "passed")


def test_prelude_stands_in_front_of_program_and_tests(pool):
    prelude = 'import math\ndef helper(x):\n    return x + 1\ndef f(x):\n    """A stub."""\n'
    tests = "def check(candidate):\n    assert candidate(3) == helper(9)\n"
    assert judge(pool, "def f(x): return math.floor(helper(x * x))\n", tests, prelude=prelude, style="check").reason == "passed"
    assert judge(pool, "y = 1\n", tests, prelude=prelude, style="check").reason == "failed: the program does not define f"
    redefined = "def helper(x): return 3\ndef f(x): return 3\n"
    assert judge(pool, redefined, tests, prelude=prelude, style="check").passed is False


LEGITIMATE = {
    "multiprocessing": "import multiprocessing\ndef g(x): return x * x\ndef f(x):\n"
                       "    with multiprocessing.Pool(2) as pool: return pool.map(g, [x])[0]\n",
    "deep recursion": "import sys\nsys.setrecursionlimit(50000)\ndef g(n): return 0 if n == 0 else 1 + g(n - 1)\n"
                      "def f(x): return x * x if g(20000) == 20000 else 0\n",
    "big integers": "import sys\nsys.set_int_max_str_digits(0)\ndef f(x): return x * x + len(str(7 ** 9999)) - 8451\n",
    "standard library": "import collections, csv, decimal, fractions, functools, hashlib, heapq, io, itertools, json, random, re, sqlite3, "
                        "statistics, string, typing, uuid, xml.dom, zlib, ssl, socket, ctypes, unittest, logging, pathlib, subprocess\n"
                        "def f(x): return int(sqlite3.connect(':memory:').execute('select ? * ?', (x, x)).fetchone()[0])\n",
    "subprocess": "import subprocess, sys\ndef f(x):\n"
                  "    return int(subprocess.run([sys.executable, '-c', f'print(({x}) ** 2)'], capture_output=True, text=True).stdout)\n",
    "own alarm": "import signal\ndef f(x):\n    class T(Exception): pass\n    def h(*a): raise T\n    signal.signal(signal.SIGALRM, h)\n"
                 "    try:\n        signal.setitimer(signal.ITIMER_REAL, .02)\n        while True: pass\n    except T: return x * x\n",
    "future and main guard": "from __future__ import annotations\ndef f(x: int | None): return x * x\n"
                             "if __name__ == '__main__':\n    input(); raise SystemExit(1)\n",
    "300 MB": "def f(x):\n    y = bytearray(b'x') * (300 << 20)\n    return x * x + y[5] - 120\n",
}


@pytest.mark.parametrize("name", LEGITIMATE)
def test_legitimate_programs_pass(pool, name):
    result = judge(pool, LEGITIMATE[name])
    assert result.reason == "passed"
    assert name != "300 MB" or 300 < result.memory_mb < 400


PRELUDE = "class Bad(Exception): pass\nclass N:\n    def __init__(self, v, next=None): self.v, self.next = v, next\n"


@pytest.mark.parametrize("again", ["", PRELUDE])                 # models like to write down the classes of the prompt once more
def test_classes_of_the_prelude_are_the_same_on_both_sides(pool, again):
    code = again + "def f(n):\n    if n is None: raise Bad('no')\n    n.v += 1\n    return N(n.v, n)\n"
    tests = "a = N(1)\nr = f(a)\nassert isinstance(r, N) and r.next is a and (r.v, a.v) == (2, 2)\ntry: f(None)\nexcept Bad as e: assert str(e) == 'no'\nelse: assert False\n"
    assert judge(pool, code, tests, prelude=PRELUDE).reason == "passed"
    assert judge(pool, code.replace("+= 1", "+= 2"), tests, prelude=PRELUDE).passed is False


def test_numpy_values_cross_with_their_types(pool):
    code = ("import numpy as np\ndef f(x): return np.int64(x) * np.int64(x)\ndef g(n): return np.arange(n, dtype=np.float32) ** 2\n"
            "def h(a):\n    a += 1\n")  # fmt: skip
    tests = ("import numpy as np\nfrom solution import f, g, h\ndef test_np():\n    assert f(3) == 9 and isinstance(f(3), np.int64)\n"
             "    assert g(4).dtype == np.float32 and (g(4) == np.array([0, 1, 4, 9])).all()\n"
             "    a = np.zeros((2, 3)); h(a)\n    assert a.shape == (2, 3) and a.sum() == 6\n")  # fmt: skip
    assert judge(pool, code, tests).reason == "passed"
    assert judge(pool, code.replace("+= 1", "+= 2"), tests).passed is False
    loaded = "import sys\nthere = 'numpy' in sys.modules\nimport numpy\ndef f(x): return x * x * there\n"
    assert judge(pool, loaded).reason == "passed"                # a program that wants it need not load it


CROSSING = {  # what the tests and the program hand each other: program, tests, and a change to the program that must fail
    "exact types": ("def f(): return [1, (2, {3: {4}}), 'ü\\ud800', b'x', 1.5, None, True, 2 ** 80, float('inf'), range(3), 1j]\n",
                    "r = f()\nassert r == [1, (2, {3: {4}}), 'ü\\ud800', b'x', 1.5, None, True, 2 ** 80, float('inf'), range(3), 1j]\n"
                    "assert type(r[1]) is tuple and r[6] is True\n", ("(2, {3", "[2, {3")),
    "collections": ("from collections import *\nimport datetime, decimal\ndef f(): return Counter('aab'), deque([1], 3), OrderedDict(a=1), "
                    "decimal.Decimal('1.5'), datetime.date(2020, 1, 2)\n",
                    "from collections import *\nimport datetime, decimal\nassert f() == (Counter('aab'), deque([1]), OrderedDict(a=1), "
                    "decimal.Decimal('1.5'), datetime.date(2020, 1, 2))\nassert f()[1].maxlen == 3\n", ("deque([1], 3)", "deque([1], 4)")),
    "in place": ("def f(l, d): l.sort(); d['n'] = l; return l\n",
                 "l, d = [3, 1, 2], {}\nassert f(l, d) is l and l == [1, 2, 3] and d['n'] is l\n", ("l.sort()", "l = sorted(l)")),
    "callback": ("def f(g, xs): return [g(x) for x in xs]\n",
                 "seen = []\ndef g(x):\n    seen.append(x)\n    return x + 1\nassert f(g, [1, 2]) == [2, 3] and seen == [1, 2]\n",
                 ("g(x) for", "x + 1 for")),
    "class of the tests": ("def f(t): return 0 if t is None else 1 + max(f(t.left), f(t.right))\n",
                           "class Tree:\n    def __init__(self, left=None, right=None): self.left, self.right = left, right\n"
                           "assert f(Tree(Tree(), Tree(None, Tree()))) == 3\n", ("max", "min")),
    "own exception": ("class Bad(ValueError):\n    def __init__(self, v): super().__init__(f'bad {v}'); self.v = v\n"
                      "def f(x): raise Bad(x)\n",
                      "import pytest\nfrom solution import f, Bad\ndef test():\n    with pytest.raises(Bad) as e: f(7)\n"
                      "    assert str(e.value) == 'bad 7' and e.value.v == 7\n    with pytest.raises(ValueError): f(1)\n",
                      ("raise Bad", "raise ValueError")),
    "namedtuple, enum, dataclass": (
        "import enum, typing, dataclasses\nclass P(typing.NamedTuple):\n    x: int\n    y: int\nclass C(enum.Enum):\n    RED = 1\n    BLUE = 2\n"
        "@dataclasses.dataclass\nclass D:\n    a: int\n    b: list = dataclasses.field(default_factory=list)\n"
        "def f(x): return P(x, x * x), C.RED, D(x)\n",
        "from solution import *\np, c, d = f(3)\nassert p == (3, 9) and p.y == 9 and isinstance(p, P) and c is C.RED and c.value == 1\n"
        "assert d == D(3) and d.a == 3 and d != D(4) and [x.name for x in C] == ['RED', 'BLUE']\nx, y = p\nassert y == 9\n",
        ("P(x, x * x)", "P(x, x)")),
    "operators": ("class V:\n    def __init__(self, *c): self.c = c\n    def __add__(self, o): return V(*(a + b for a, b in zip(self.c, o.c)))\n"
                  "    def __mul__(self, k): return V(*(a * k for a in self.c))\n    __rmul__ = __mul__\n"
                  "    def __eq__(self, o): return isinstance(o, V) and self.c == o.c\n    def __lt__(self, o): return self.c < o.c\n"
                  "    def __len__(self): return len(self.c)\n    def __getitem__(self, i): return self.c[i]\n"
                  "    def __contains__(self, x): return x in self.c\n",
                  "from solution import V\na, b = V(1, 2), V(3, 4)\nassert a + b == V(4, 6) and 2 * a == V(2, 4) and a < b and len(a) == 2\n"
                  "assert 2 in a and 7 not in a and a[1] == 2 and list(b) == [3, 4] and a != b and sorted([b, a])[0] == a\n",
                  ("a + b for", "a - b for")),
    "objects of the library": ("import re, json\ndef f(s): return re.match('a+', s)\ndef g(s): json.loads(s)\n",
                               "import json, pytest\nfrom solution import f, g\ndef test():\n    assert f('aab').group() == 'aa' and f('aab').span() == (0, 2)\n"
                               "    with pytest.raises(json.JSONDecodeError): g('{')\n", ("'a+'", "'a'")),
    "subclasses of containers": ("class D(dict):\n    def __missing__(self, k): return k\nclass L(list):\n    def total(self): return sum(self)\ndef f(): return D(a=1), L([1, 2])\n",
                                 "d, l = f()\nassert d == {'a': 1} and d['z'] == 'z' and 'a' in d and 'z' not in d and l == [1, 2] and l.total() == 3 and 2 in l\n",
                                 ("D(a=1)", "D(a=2)")),
    "own sequences": ("class S:\n    def __init__(self, items): self.items = items\n    def __len__(self): return len(self.items)\n    def __iter__(self): return iter(self.items)\n"
                      "    def __getitem__(self, i): return self.items[i]\n    def pop(self): return self.items.pop()\ndef f(n): return S(list(range(n)))\n",
                      "s = f(3)\nassert len(s) == 3 and list(s) == [0, 1, 2] and [a for a, b in zip(s, 'ab')] == [0, 1] and s.pop() == 2\n"
                      "assert list(s) == [0, 1] and [s[i] for i in range(len(s))] == [0, 1]\ntry: s[2]\nexcept IndexError: assert sorted(s, reverse=True) == [1, 0]\n",
                      ("range(n)", "range(1, n + 1)")),
    "generators": ("def f(n):\n    for i in range(n): yield i * i\n",
                   "import types\ng = f(4)\nassert isinstance(g, types.GeneratorType) and next(g) == 0 and list(g) == [1, 4, 9]\n", ("i * i", "i")),
    "captured output": ("def f(x): print('hi', x)\n", "import io, contextlib\nb = io.StringIO()\nwith contextlib.redirect_stdout(b): f(3)\n"
                        "assert b.getvalue() == 'hi 3\\n'\n", ("'hi'", "'ho'")),
    "library values": ("import array, collections, io, types\ndef f(): return {1: 2}.keys(), collections.ChainMap({'a': 1}), types.SimpleNamespace(a=1), array.array('i', [1, 2]), io.StringIO('abc')\n",
                       "import array, types\nk, c, n, a, s = f()\nassert k == {1} and c == {'a': 1} and n == types.SimpleNamespace(a=1) and a == array.array('i', [1, 2]) and s.read() == 'abc'\n",
                       ("'abc'", "'abd'")),
    "files and mocks": ("def f(h, m): m.save(h.read()); h.write('x'); return m.get('a')\n",
                        "import io\nfrom unittest.mock import Mock\nm, h = Mock(), io.StringIO('abc')\nm.get.return_value = 7\nassert f(h, m) == 7 and h.getvalue() == 'abcx'\nm.save.assert_called_once_with('abc')\n",
                        ("h.write('x')", "h.write('y')")),
    "a mock to leave": ("def f(m):\n    with m: return 3\n",
                        "from unittest.mock import MagicMock\nm = MagicMock()\n"
                        "m.__exit__.side_effect = lambda kind, value, trace: None\nassert f(m) == 3\n", ("3", "4")),
    "seeds": ("import random\ndef f(): return random.random()\n", "import random\nrandom.seed(1); a = f(); random.seed(1)\nassert a == f() == 0.13436424411240122\n", ("random()\n", "random() / 2\n")),
    "environment": ("import os\ndef f(): return os.environ['A'], os.path.basename(os.getcwd())\n",
                    "import os\nos.environ['A'] = '1'; os.mkdir('d'); os.chdir('d')\nassert f() == ('1', 'd')\n", ("['A']", "['HOME']")),
    "asynchronous": ("async def f(n, g):\n    for i in range(n): yield await g(i)\n",
                     "import asyncio\nasync def g(x): return x * x\nasync def main(): return [x async for x in f(3, g)]\nassert asyncio.run(main()) == [0, 1, 4]\n", ("await g(i)", "i")),
    "callback of a thread": ("import threading\ndef f(g): threading.Timer(.05, g, [3]).start()\n",
                             "import time\nseen = []\nf(seen.append); time.sleep(.5)\nassert seen == [3]\n", ("[3]", "[4]")),
    "patched program": ("def helper(): return 1\ndef f(): return helper() + 1\n",
                        "from unittest.mock import patch\nimport solution\nwith patch('solution.helper', return_value=5): assert solution.f() == 6\nassert solution.f() == 2\n", ("+ 1", "+ 2")),
    "warnings and logs": ("import logging, warnings\ndef f(): logging.getLogger('a').info('hi'); warnings.warn('old')\n",
                          "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        with self.assertLogs('a', 'INFO') as c, self.assertWarns(UserWarning): f()\n        self.assertEqual(c.output, ['INFO:a:hi'])\n", ("'hi'", "'ho'")),
}  # fmt: skip


@pytest.mark.parametrize("name", CROSSING)
def test_data_between_tests_and_program(pool, name):
    code, tests, (old, new) = CROSSING[name]
    assert old in code
    assert judge(pool, code, tests).reason == "passed"
    assert judge(pool, code.replace(old, new), tests).passed is False


LEAVING = {  # tests after which the judge would call a wrong answer right
    "builtins": "import builtins\nbuiltins.abs = lambda x: 0\nassert f(3) == 9\n",
    "attribute": "import math\nmath.fabs = lambda x: 0\nassert f(3) == 9\n",
    "alias": "import math as m\nm.fabs = lambda x: 0\nassert f(3) == 9\n",
    "setattr": "import math\nsetattr(math, 'fabs', lambda x: 0)\nassert f(3) == 9\n",
    "mock": "from unittest.mock import patch as p\np('builtins.abs', lambda x: 0).start()\nassert f(3) == 9\n",
    "environment": "import os\nos.environ['LEFT'] = '1'\nassert f(3) == 9\n",
    "random": "import random\nrandom.seed(1)\nassert f(3) == 9\n",
}


@pytest.mark.parametrize("name", LEAVING)
def test_judge_is_renewed_after_tests_that_change_it(name):
    look = "import math, os\nassert f(3) == 0 and abs(f(3) - 9) == math.fabs(f(3) - 9) == 9 and 'LEFT' not in os.environ\n"
    with Pool(1) as pool:
        def judges():
            return sandbox_exec.tree(pool.servers[0].process.pid)[1:]              # the first is the fork server

        assert judge(pool, SQUARE).reason == "passed"
        first = judges()
        assert judge(pool, SQUARE).reason == "passed" and judges() == first != []          # these tests left nothing
        assert judge(pool, SQUARE, LEAVING[name]).reason == "passed" and judges() == []
        assert judge(pool, "def f(x): return 0\n", look).reason == "passed"


def test_stdio_is_a_real_file_and_lenient_about_blanks(pool):
    code = "import os, sys\nd = open(0).read().split()\nsys.stdout.write(' '.join(d) + '  \\n')\nsys.stdout.flush()\nos.write(1, b'end\\n\\n')\n"
    big = "7 " * 700_000
    assert judge(pool, code, stdio(("a b", "a b\nend"), (big, big + "\nend\n"))).reason == "passed"
    assert judge(pool, code, stdio(("a b", "a  b\nend"))).passed is False
    assert judge(pool, "input(); input()\n", stdio(("one line", ""))).reason.endswith("EOFError: EOF when reading a line")
    assert judge(pool, "if __name__ == '__main__':\n    print(1); exit()\n", stdio(("", "1"))).reason == "passed"


SPIN = "def f(x):\n    while True: pass\n"
SLEEP = "import time\ndef f(x): time.sleep(1000)\n"
CHILD_SPINS = "import os\ndef f(x):\n    if not os.fork():\n        while True: pass\n    os.wait()\n"
IGNORES = "import signal\nfor s in range(1, 65):\n    try: signal.signal(s, signal.SIG_IGN)\n    except (OSError, ValueError): pass\n" + SPIN


BACKTRACK = "import re\ndef f(x): re.match('(a+)+$', 'a' * 60 + 'b')\n"


def test_time_is_limited(pool):
    """Spinning, in children too, deaf to signals, inside a C function, asleep; with a judge and as a script."""
    jobs = [((code, style), {"code": code + "f(1)\n" * (style == "stdio"), "tests": stdio(("", "")) if style == "stdio" else CHECK,
                             "entry_point": "f", "cpu_s": 0.5})
            for code in (SPIN, SLEEP, CHILD_SPINS, IGNORES, BACKTRACK) for style in ("judge", "stdio")]  # fmt: skip
    jobs.append((("generator", "judge"), {"code": "def f():\n    while True: yield 1\n", "tests": "assert sum(f()) == 1\n", "cpu_s": 0.5}))
    jobs.append((("tests", "judge"), {"code": SQUARE, "tests": "assert f(3)\nwhile True: pass\n", "cpu_s": 0.5}))
    for (code, _), result in pool.imap_unordered(jobs):
        assert result.reason == "timeout" and result.detail.startswith("wall" if code == SLEEP else "cpu"), (code, result)
        assert result.wall_s < (4 if code == SLEEP else 20), (code, result)


@pytest.fixture
def busy():
    """Four busy processes a core, each a session of its own: Linux shares processors fairly among sessions."""
    spinning = [subprocess.Popen([sys.executable, "-Sc", "while True: pass"], start_new_session=True) for _ in range(4 * os.cpu_count())]
    yield
    for process in spinning:
        process.kill()
        process.wait()


NEEDS = "import time\ndef f(x):\n    while time.process_time() < .3: pass\n    return x * x\n"


def test_busy_machine_turns_no_right_answer_into_a_timeout(pool, busy):
    """The program needs more than half of its processor time, and more than that in real time."""
    jobs = [(n, {"code": NEEDS, "tests": CHECK, "entry_point": "f", "cpu_s": 0.5}) for n in range(2)]
    results = [result for _, result in pool.imap_unordered(jobs)]
    assert [result.reason for result in results] == ["passed"] * 2 and max(result.wall_s for result in results) > 0.5, results


@pytest.mark.parametrize("who", ["guard", "server", "judge", "program"])
def test_death_of_our_own_processes_is_no_verdict(who, monkeypatch):
    """What dies once costs a repetition; what dies each time cannot judge, or not without a run beside the tests."""
    run, deaths = sandbox_exec.Server.exchange, []

    def kill(guard):
        server, *forks = sandbox_exec.tree(guard)
        sandbox_exec.kill({"guard": guard, "server": server, "judge": min(forks), "program": max(forks)}[who])

    def run_and_be_killed(server, *args):
        if deaths:
            threading.Timer(deaths.pop(), kill, [server.process.pid]).start()
        return run(server, *args)

    monkeypatch.setattr(sandbox_exec.Server, "exchange", run_and_be_killed)
    slow = SQUARE.replace("return", "import time; time.sleep(.5); return")
    twice = {"judge": "not judged: passes only", "program": "killed"}.get(who, "error: the server")
    with Pool(1) as pool:
        for deaths[:], reason in (([0.2], "killed" if who == "program" else "passed"), ([0.2, 0.2], twice), ([], "passed")):
            assert judge(pool, slow, "assert f(3) == 9\n").reason.startswith(reason)


def test_a_pool_may_be_used_from_several_threads(pool):
    seen = []

    def work(n):
        jobs = [(i, {"code": SQUARE, "tests": f"assert f({i}) == {i * i}\n"}) for i in range(n, n + 10)]
        seen.extend(result.reason for _, result in pool.imap_unordered(jobs))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    [thread.start() for thread in threads]
    [thread.join(60) for thread in threads]
    assert seen == ["passed"] * 40


PATCHES = {  # tests that reach into the program: what it is worth where they say beside, and where they do not
    "library": ("import random\ndef f(): return random.randint(1, 6)\n",
                "from unittest.mock import patch\ndef test():\n    with patch('random.randint', return_value=9): assert f() == 9\n"),
    "script": ("def f(): return 3\nif __name__ == '__main__': print(f())\n",
               "import subprocess, sys\nout = subprocess.run([sys.executable, 'solution.py'], capture_output=True, text=True).stdout\nassert out == '3\\n'\n"),
}


@pytest.mark.parametrize("name", PATCHES)
def test_what_only_passes_beside_the_program(pool, name):
    code, tests = PATCHES[name]
    assert judge(pool, code, tests, entry_point=None).reason == "not judged: passes only beside its tests"
    assert judge(pool, code, tests, entry_point=None, beside=True).reason == "passed: beside its tests"
    assert judge(pool, "def f(): return 7\n", tests, entry_point=None, beside=True).passed is False
    assert judge(pool, SQUARE, CHECK, beside=True).reason == "passed"                    # the judge's word is worth more


def test_results_come_as_they_finish_from_an_endless_iterator(pool):
    slow = {"code": "import time\ndef f(x):\n    time.sleep(.5)\n    return x * x\n", "tests": CHECK, "entry_point": "f"}
    quick = {"code": SQUARE, "tests": CHECK, "entry_point": "f"}

    def jobs():
        yield "slow", slow
        while True:
            yield "quick", quick

    seen = []
    for key, result in pool.imap_unordered(jobs()):
        assert result.reason == "passed"
        seen.append(key)
        if key == "slow":
            break
    assert seen.count("quick") >= 5
    assert judge(pool, SQUARE).reason == "passed"                # the pool outlives a caller that stops early


def test_run_tests_and_command_line(tmp_path):
    assert run_tests(SQUARE, CHECK, entry_point="f").passed is True
    assert run_tests("def f(x): return x", CHECK, entry_point="f").reason == "failed: assert candidate(3) == 9"
    (tmp_path / "good.py").write_text(SQUARE)
    (tmp_path / "bad.py").write_text("def f(x): return 1\n")
    (tmp_path / "tests.py").write_text("assert f(3) == 9\n")
    (tmp_path / "tests.json").write_text(json.dumps(stdio(("", ""))))
    for program, tests, code, said in (("good.py", "tests.py", 0, "passed"), ("bad.py", "tests.py", 1, "failed: assert f(3) == 9"),
                                       ("good.py", "tests.json", 0, "passed"), ("none.py", "tests.py", 2, "")):  # fmt: skip
        done = subprocess.run([sys.executable, sandbox_exec.__file__, tmp_path / program, tmp_path / tests], capture_output=True, text=True)
        assert done.returncode == code and done.stdout.startswith(said) and "Traceback" not in done.stderr
    assert "none.py" in done.stderr


def test_how_the_caller_was_started_does_not_matter(tmp_path):
    """From an archive, without asserts, in a folder with a module named like one of the library's: the same verdicts."""
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.write(sandbox_exec.__file__, "sandbox_exec.py")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "tempfile.py").write_text("raise SystemExit('not the library')")
    any_value = "import os, struct\nd = b'\\x80\\x04(\\x8c\\x02ok\\x8c\\x0dunittest.mock\\x8c\\x03ANY\\x93]t.'\ndef f(x): os.write(3, struct.pack('<Q', len(d)) + d); os.read(3, 9)\n"
    (tmp_path / "caller.py").write_text("import sys\nsys.path.insert(0, '../all.zip')\nfrom sandbox_exec import run_tests\n"
                                        f"print(*[run_tests(code, 'assert f(3) == 9').verdict for code in ({SQUARE!r}, {any_value!r})])\n")  # fmt: skip
    for flags in ([], ["-O"]):
        command = [sys.executable, *flags, tmp_path / "caller.py"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path / "here")
        assert done.stdout.split() == ["passed", "failed"], done.stderr


def test_many_jobs_leave_nothing_behind():
    """Judges are renewed on the way; descriptors, processes and memory stay where they were."""
    def state(pool):
        rss = int(Path(f"/proc/{os.getpid()}/statm").read_text().split()[1])
        servers = [sandbox_exec.tree(server.process.pid)[0] for server in pool.servers]         # only root may look into them
        servers = [len(os.listdir(f"/proc/{pid}/fd")) for pid in servers] if os.getuid() == 0 else []
        return len(os.listdir("/proc/self/fd")), servers, threading.active_count(), rss

    jobs = [(n, {"code": code, "tests": tests, "entry_point": "f"}) for n in range(60)
            for code, tests in ((SQUARE, CHECK), ("f = 3", CHECK), (SQUARE, "import os\nassert f(3) == 9\n"), ("print(1)", stdio(("", "1"))))]
    before_any = set(os.listdir("/proc/self/fd"))
    with Pool(2) as pool:
        list(pool.imap_unordered(jobs[:60]))
        before = state(pool)
        verdicts = [result.verdict for _, result in pool.imap_unordered(jobs)]
        after = state(pool)
        children = {server.process.pid for server in pool.servers}
    assert verdicts.count("passed") == 180 and verdicts.count("failed") == 60
    assert before[0] == after[0] and before[2] == after[2] and after[3] - before[3] < 1000          # pages
    assert all(abs(a - b) <= 1 for a, b in zip(before[1], after[1]))                # a judge is there, or not yet again
    assert set(os.listdir("/proc/self/fd")) == before_any
    assert not any(os.path.exists(f"/proc/{pid}") for pid in children)
