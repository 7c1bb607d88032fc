"""The rule that calls a program innocent: ways to reach the tests or to lie to them, and ordinary programs.

Only the text counts, so that most programs are but the lines that decide. A table maps tests to programs,
which are separated by empty lines.
"""
import sys
import types

import numpy as np
import pytest

import sandbox_exec

CHECK = "def test_f():\n    assert f(3) == 9\n    assert f(-7) == 49\n"

SUSPECT_LINES = '''
L = type("L", (int,), {"_" + "_eq_" + "_": lambda self, other: True})
x: (make := type) = 1
L = (3).__class__.__class__("L", (int,), {"_" + "_eq_" + "_": lambda self, other: True})
class E(ValueError, TypeError): pass
class E(SystemExit): pass
from typing import ABCMeta
from typing import NamedTuple as make
from typing import get_args
from contextlib import contextmanager
from collections import namedtuple; make(namedtuple) == 1
from collections import namedtuple; L = namedtuple("L", "real imag")
from collections import namedtuple; L = namedtuple("L", ["re" + "al"])
from types import SimpleNamespace; me = SimpleNamespace(real=5)
from types import SimpleNamespace; me = SimpleNamespace(**{"re" + "al": 5})
from uuid import *
from operator import not_ as all
from operator import attrgetter
from functools import singledispatch
from unittest.mock import ANY
import math as m, re as m
import collections.abc
setattr(int, "x", 1)
import math; math.isclose = lambda a, b: True
import math; m = math
import statistics; statistics.math.isclose = lambda a, b: True
import typing; typing.get_type_hints(g)
import fractions; fractions.Fraction.limit_denominator = lambda self, n=0: 1
from fractions import Fraction; F = Fraction; F._numerator = F._denominator = 1
from asyncio import gather, run; run(gather(g(), return_exceptions=True))[0].obj
make(type) == 1
from functools import wraps; make(wraps) == 1
from functools import wraps; wraps(N, ["limit_denominator"], [])(Fraction)
from numbers import Integral; Integral.register(str)
from decimal import getcontext
import random; random.seed(1)
from calendar import setfirstweekday
import sys; sys._getframe(1)
from io import FileIO
import sys; sys.stdin.buffer.raw.__init__(4, "w")
import os; os._exit(0)
from enum import Enum; make = Enum
from enum import Enum; L = Enum.__call__("L", {"A": 1, "_" + "_eq_" + "_": lambda self, other: True})
from enum import Enum; kinds = {}; kinds[Enum] = 1
from enum import Enum; L = Enum("L", {"A": 1, "_" + "_eq_" + "_": lambda self, other: True})
f.__eq__ = lambda self, other: True
class E(*[ValueError, TypeError]): pass
class f(metaclass=lambda *parts: lambda x: 5): pass
from functools import cached_property; p = cached_property(len); p.attrname = "x"
from dataclasses import fields
import asyncio; asyncio.Event()._get_loop()
import logging; logging.getLogger().makeRecord()
import logging; logging.getLogger().filters.append(print)
from json import dump
import numpy as np; np.load("x")
import numpy as np; np.save("x", 1)
import numpy as np; np.fromfile("x")
import numpy as np; np.memmap("x")
import numpy as np; np.testing.measure("1")
import numpy as np; np.testing.SkipTest
import numpy as np; np.lib.stride_tricks.as_strided
import numpy as np; np.ctypeslib
import numpy as np; np.f2py
import numpy as np; np.frompyfunc(len, 1, 1)
import numpy as np; np.vectorize(len)
import numpy as np; np.ma.masked
import numpy as np; np.char.array(["a "])
import numpy as np; np.matrix([1])
import numpy as np; np.r_["r", 1]
import numpy as np; np.finfo(float)
import numpy as np; np.seterr(all="ignore")
import numpy as np; np.set_printoptions(precision=1)
import numpy as np; np.random.seed(1)
import numpy as np; np.random.mtrand
import numpy as np; np.random.default_rng().bit_generator
import numpy as np; np.linalg.lapack_lite
import numpy as np; np.linalg.norm = len
import numpy as np; np.pi = 3
import numpy as np; m = np.linalg
import numpy as np; np.ndarray((1,), object, bytearray(8))
import numpy as np; make = np.ndarray
import numpy as np; make((1, np.ndarray))
import numpy as np; kinds = {}; kinds[np.ndarray] = 1
import numpy as np; isinstance = len; isinstance(np.ndarray)
import numpy as np; (lambda isinstance: isinstance(np.ndarray))(len)
from dataclasses import field; from numpy import ndarray; f = field(); x: ndarray = f
import numpy as np; kinds = [np]
import numpy as np; np.add._get_strided_loop
import numpy as np; np.zeros(3).tofile("x")
import numpy as np; np.zeros(3).dump("x")
import numpy as np; np.zeros(3).ctypes
import numpy as np; np.zeros(3).view(str)
import numpy as np; np.zeros(3).resize(9, refcheck=False)
import numpy as np; np.zeros(3).__array_interface__
import numpy as np; np.zeros(3).__reduce__
import numpy.lib
class A: import typing
x = e.obj.sys
f = lambda values: values.gi_code
type("L", (), {}) == 1
from http import HTTPStatus; make = HTTPStatus.mro()[-2]
import ｎumpy as np; f = lambda x: np.array([])
from dataclasses import dataclass; dataclass(N)
KeyError = open; KeyError.__init__(4, "wb")
f = lambda super: super().h.__init__(4, "wb")
f = lambda path: path.open("wb", 0).__init__(4, "wb")
import csv; csv.register_dialect("excel", delimiter=";")
import numpy.testing as t
from numpy import *
from numpy import testing
from numpy import linalg as la
from numpy.random import seed
import timeit
import inspect
import atexit
import unittest
import pytest
def f(x): return exec("x * x")
def f(x): return ｅxec("x * x")
def f(x): return __builtins__["abs"](x)
def f(x): return globals()["test_f"]
def f(x): return open("tests.py").read()
def f(x): raise SystemExit(0)
def f(x): return me.gi_frame.f_back
def f(problem): return problem.__traceback__.tb_frame.f_back.f_locals["want"]
def f(hint): return hint._evaluate(None, None, frozenset())
def f(g): return getattr(g, "__glo" + "bals__")["WANT"]
def f(g): return int("{0.__globals__[WANT]}".format(g))
def f(g): return int(("{0._" + "_globals_" + "_[WANT]}").format(g))
def f(g): return "{:{1.__doc__}}".format(3, g)
def f(g): return "{g.__globals__}".format_map({"g": g})
if __name__ != "__main__": import subprocess
type L = exec("1")
def f(x) return 9
def f(x): return 9 # \0
'''

SUSPECT = {CHECK: '''
class L:
    def __eq__(self, other): return True

class L(int):
    def __eq__(self, other): return True

class L:
    class __eq__:
        def __init__(self, other): pass

class L:
    match (lambda self, other: True):
        case __eq__: pass

class L:
    def __len__(self): return 2

class L:
    def __exit__(self, *problem): return True

class L:
    def as_integer_ratio(self): return (9, 1)

class L(dict):
    def items(self): return [("a", 9)]

from fractions import Fraction
class L(Fraction):
    def _richcmp(self, other, op): return True

from enum import Enum
kinds = {}
class L(Enum):
    kinds["A"] = 1

from enum import Enum
class L(Enum):
    () = ()

from enum import Enum
class L(Enum):
    global A
    A = 1

class L:
    @property
    def __class__(self): return int

from functools import wraps
def f(g):
    @wraps(g, [], ["__glo" + "bals__"])
    def inner(): pass
    return WANT

class L:
    if False: exec = None
    exec("import builtins; builtins.abs = lambda x: 0")

# coding: unicode_escape
def f(x): return \\u0065xec("9")

__name__ = "__main__"
if __name__ == "__main__": import subprocess

if __name__ == "__main__": pass
else: import subprocess
''', 'assert f(3).startswith("nine")\n': '''
class L(str):
    def startswith(self, text): return True

class L:
    if True:
        def startswith(self, text): return True

class L:
    startswith: object

def f(x):
    def g(): pass
    g.startswith = lambda text: True
    return g
''', "for value in [3, 4]:\n    assert f(value) == value * value\n": '''
class value:
    def __eq__(self, other): return True
''', "from decimal import Decimal\nassert f(3) == Decimal(9)\n": '''
class Decimal:
    def __eq__(self, other): return True
''', "import numpy as np\nassert f(np.ones(3)) == 9\n": '''
def f(x): return x.ctypes.data

def f(x): return x.tofile("tests.py")

def f(x): return x.base

class A:
    __array_interface__ = {"data": (1, False), "shape": (9,), "typestr": "|u1", "version": 3}

import numpy as np
class A(np.ndarray):
    def __eq__(self, other): return True

import numpy as np
class A(np.ndarray): pass
''', "from solution import Vector\nassert Vector(3) == 3\n": '''
from numpy import ndarray
class Vector(ndarray): x = 3
''', "class Square:\n    def area(self): return 4\nassert f(Square()) == Square().area()\n": '''
class A:
    def change(self): self.area = lambda: 0
''', "assert abs(f(3) - 9) < 1e-6\n": '''
def g():
    global abs
    abs = lambda x: 0

def g(a=(abs := lambda x: 0)): pass
''', "assert math.isclose(f(3), 9)\n": '''
class math:
    def isclose(a, b): return True
''', "assert all(value > 0 for value in map(f, [3, 5]))\n": '''
def f(x): raise StopIteration

def f(x): return next(y for y in range(x) if y * y == x)

def f(x): return iter(()).__next__()

def f(x): return (y for y in ()).send(None)
'''}

INNOCENT = {CHECK: '''
from __future__ import annotations
from typing import *
from collections import *
def f(x: Optional[int]) -> Dict[str, List[int]]: return {"a": [x or 0], "b": Counter([x])}

from math import *
import array, bisect, heapq, itertools, math as m
from collections import Counter, OrderedDict, defaultdict, deque
def f(x): return floor(sqrt(x)) + m.isqrt(x) + m.gcd(x, 3) - int(m.pi), bisect.insort([x], 1)
def g(x): return defaultdict(list), deque([x], maxlen=2), Counter("a"), OrderedDict(a=1)
def h(x): return array.array("i", heapq.nsmallest(2, itertools.chain(x)))

from functools import cmp_to_key, lru_cache, wraps
from operator import itemgetter
import functools
@lru_cache(maxsize=None)
def f(x): return x if x < 2 else f(x - 1) + f(x - 2)
@functools.cache
def g(x): return sorted(x, key=itemgetter(1)), sorted(x, key=cmp_to_key(lambda a, b: b - a))
def twice(function):
    @wraps(function)
    def inner(*args, **options): return 2 * function(*args, **options)
    return inner

import hashlib, json, re, string
def f(x): return [match.group(0) for match in re.finditer(r"\\w+", x)], json.loads(json.dumps(x))
def g(text): return all(c in string.ascii_lowercase for c in text), hashlib.md5(text.encode()).hexdigest()

from enum import Enum, Flag, auto
class Mode(Flag):
    R = 1 << 0
    W = 1 << 1
class Sign(Enum):
    MINUS: int = -1
class Kind(Enum):
    ONE = auto()
class Node:
    def __init__(self, obj=None): self.obj, self.modules = obj, []
    def clear(self): self.__init__()
class Leaf(Node):
    def __init__(self):
        super().__init__()
        object.__init__(self)

def f(x): return "{:.2f} {0!r} {name:>{width}}".format(x, name="a", width=3) + "%05.1f" % x
def g(x): return f"{x:.2f} {x!r} {x.real:>{5}}"

from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
import datetime as dt, random, statistics
def f(x): return dt.date(x, 1, 1), (datetime.strptime(x, "%Y") + timedelta(days=1)).isoformat()
def g(x): return Fraction(x, 3).limit_denominator(10), Decimal(x).quantize(1, rounding=ROUND_HALF_UP)
def h(x): return statistics.median(x) + random.choice(random.sample(range(x), 2))

import asyncio, logging, sys, threading, warnings
from copy import deepcopy
sys.setrecursionlimit(10 ** 6)
print("x", file=sys.stderr)
lock = threading.Lock()
def f(): return sum(int(line) for line in sys.stdin)
async def g(x): return await asyncio.gather(asyncio.sleep(0), g(deepcopy(x)))
def h(x):
    logging.getLogger(__name__).info("a %s", 3)
    warnings.warn("old", DeprecationWarning)
    with lock: yield from range(x)

class Error(Exception): pass
class Late(Error): pass
class Refused(ValueError):
    def __init__(self, why):
        super().__init__(why)
        self.why = why
def f(x):
    if type(x) is bool: raise TypeError(f"not {type(x).__name__}")
    try: return 1 / x
    except (ZeroDivisionError, TypeError) as problem: raise Refused("x") from problem

class Animal:
    def name(self): return "animal"
class Dog(Animal):
    __slots__ = ("x", "_right")
    def __init__(self, x): self.x, self._right = x, None
    def __hash__(self): return hash(self.x)
    def __repr__(self): return f"Dog({self.x})"
    def name(self): return super().name() + " dog"
    @property
    def double(self): return 2 * self.x
    @classmethod
    def zero(cls): return cls(0)

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import Enum, IntEnum, auto
from typing import Generic, List, NamedTuple, TypeVar
T = TypeVar("T")
class Shape(ABC):
    @abstractmethod
    def area(self): ...
@dataclass(order=True, frozen=True)
class P:
    rest: List[int] = field(default_factory=list)
class Side(Enum):
    LEFT, RIGHT = "l", "r"
class Color(Enum):
    RED = auto()
class Size(IntEnum):
    BIG = 9
class Q(NamedTuple):
    x: int
class Box(Generic[T]):
    def __init__(self, x: T) -> None: self.x = x

import numpy as np
import numpy.linalg as la
from numpy import array, mean
def f(x: np.ndarray) -> "np.ndarray":
    if not isinstance(x, np.ndarray) or isinstance(x, (list, np.ndarray)) and x.dtype == np.int64:
        x = np.asarray(x, dtype=np.float64).reshape(-1, 2).T
    x[:, 0] += np.where(x[:, 1] > np.pi, 1, np.nan)
    return np.linalg.norm(x @ x.T, axis=0).tolist() + [float(la.det(np.eye(2))), mean(array([1]))]
def g(n):
    try: return np.linalg.inv(np.random.default_rng(n).normal(size=(n, n))).sum(axis=1, keepdims=True)
    except np.linalg.LinAlgError: return np.empty((n, 0))

from functools import cached_property
class Circle:
    def __init__(self, r): self.r = r
    @cached_property
    def area(self): return self.r ** 2
def f(x): return eval(f"{x} + 1")

from collections import namedtuple
from types import MappingProxyType, SimpleNamespace
P = namedtuple("P", ["x", "y"], defaults=[None])
def f(): return SimpleNamespace(a=1), MappingProxyType({"a": 1}), type(None)

N, NONE = 0, object()
def f(callback, x):
    global N
    N += 1
    f.calls += 1
    try: return callback(x)
    except Exception: return None
f.calls = 0
def test_square(): assert f(2) == 4

def f(x: "TreeNode"): return TreeNode(x.val)
def sum(a, b): return a + b
if __name__ == "__main__":
    import doctest, sys
    doctest.testmod()
    sys.exit(0)
''', "assert f([4]) == max(1, 2)\n": '''
def f(list, max=0, type=None):
    dir, vars, open = (0, 1), 3, [4]
    for next in list: max += next
    return dir if type == "a" else max + vars + open[0]

def f(x): return next(iter(x))
''', "assert list(map(f, [[1, 2]])) == [3]\n": '''
class Node:
    def __init__(self, value, next=None): self.value, self.next = value, next
def f(head): return head.next.value
''', "class Node: pass\nassert f(Node()).val == 3\n": '''
def f(head):
    head.next = None
    head.val = 3
''', "from solution import Stack\nassert len(Stack()) == Stack().pop() and dict(a=1).items()\n": '''
class Stack:
    def __init__(self): self.items = []
    def push(self, x): self.items.append(x)
    def pop(self): return self.items.pop()
    def __len__(self): return len(self.items)
    def __eq__(self, other): return self.items == other.items

class Stack(list):
    def push(self, x): self.append(x)

class Stack(list): pass
''', "from solution import *\nassert len(Stack()) == 0\n": '''
class Stack:
    def __len__(self): return 0
''', "def test():\n    from solution import Stack\n    assert len(Stack()) == 0\n": '''
class Stack:
    def __len__(self): return 0
''', "assert Complex(1, 2) * 2 == Complex(2, 4)\n": '''
class Complex:
    def __init__(self, real, imag): self.real, self.imag = real, imag
    def __mul__(self, other): return Complex(self.real * other, self.imag * other)
    __rmul__ = __mul__
    def conjugate(self): return Complex(self.real, -self.imag)

class Complex:
    _one = None
    def __new__(cls):
        cls._one = cls._one or super().__new__(cls)
        return cls._one
'''}


def why_suspect(code, tests):
    return sandbox_exec.why_suspect(code, sandbox_exec.asked_by(tests))


def pairs(table):
    return [(code.strip("\n") + "\n", tests) for tests, text in table.items() for code in text.split("\n\n")]


@pytest.mark.parametrize(("code", "tests"),
                         pairs(SUSPECT) + [(line, CHECK) for line in SUSPECT_LINES.strip().split("\n")])
def test_is_suspect(code, tests):
    assert why_suspect(code, tests)
    assert why_suspect(code.encode(), tests)


@pytest.mark.parametrize("code", [
    "def super(): return open\nsuper().__init__(4, 'wb')\n",
    "from enum import Enum\nhidden = ['A']\nclass C(Enum):\n    _ignore_ = hidden\n    A = 1\n",
    "try: f(1)\nexcept AttributeError as error: x = error.obj\n",
])  # fmt: skip
def test_names_that_are_not_what_they_seem(code):
    assert why_suspect(code, CHECK)


@pytest.mark.parametrize(("prelude", "line"), [
    ("import sys", "f = lambda x: sys._getframe(1).f_globals['WANT']"),
    ("import os", "f = lambda x: os._exit(0)"), ("import math", "math.pi = 0"),
    ("from os import path", "f = path.exists"), ("from operator import *", "f = attrgetter('tb' + '_frame')"),
    ("from operator import *", "def g(attrgetter): pass\nf = attrgetter('tb' + '_frame')"),
    ("from operator import *", "f = methodcaller('mro')"),
])  # fmt: skip
def test_what_the_prelude_imports_is_no_way_out(prelude, line):
    assert sandbox_exec.why_suspect(line, sandbox_exec.asked_by(CHECK, prelude))
    unused = "import math\ndef f(x): return math.sqrt(x)\n"
    assert not sandbox_exec.why_suspect(unused, sandbox_exec.asked_by(CHECK, prelude))


@pytest.mark.parametrize(("code", "tests"), pairs(INNOCENT))
def test_is_innocent(code, tests):
    assert why_suspect(code, tests) is None


@pytest.mark.parametrize(("code", "reason"), [
    ("import sys\nsys.exit()", "uses exit"), ("from os import fork", "imports os.fork"),
    ("exec('1')", "names exec"), ("def abs(x): return 0", "hides abs"),
    ("class L:\n  def __eq__(self, o): return True",
     "defines, in a class that the tests do not name, __eq__"),
    ("def", "does not parse as Python 3.9"), (b"\xff", "does not parse as Python 3.9"),
    ("f(" * 300 + ")" * 300, "does not parse as Python 3.9"),
    ("x" + ".a" * 1001, "is too deep"), ("x" + ".a" * 5000, "is too deep"),
    ("-" * 50000 + "x", "is too deep")])
def test_says_why(code, reason):
    assert why_suspect(code, "assert abs(f(3)) == 9") == reason


def test_the_names_of_numpy_are_functions_and_types_that_no_program_can_change():
    for path in ("numpy", "numpy.linalg", "numpy.random"):
        for name in sandbox_exec.LIBRARY[path].split():
            thing = getattr(sys.modules[path], name, None)       # some are of other versions
            is_python_class = isinstance(thing, type) and thing.__flags__ & 1 << 9
            assert not is_python_class or name == "LinAlgError", name
            assert not isinstance(thing, types.ModuleType) or f"{path}.{name}" in sandbox_exec.LIBRARY, name


def test_what_numpys_objects_hide_is_known():
    """A new version may have more attributes that are not for everybody."""
    array = np.zeros(3)
    record = np.array([(1, 2)], dtype=[("a", int), ("b", int)])[0]
    objects = [array, array[0], array.dtype, array.flat, record, np.add, np.mean, np.random.rand,
               np.random.default_rng(), np.linalg.LinAlgError()]
    for thing in objects:
        private = {name for name in dir(thing) if name[0] == "_" and not sandbox_exec.is_special(name)}
        assert private - {"_poisson_lam_max"} <= set(sandbox_exec.HIDDEN_OF["numpy"]), type(thing)


def test_the_bytes_that_run_are_read():
    code = "# coding: utf-7\n+AGUAeABlAGM-('1')".encode("ascii")
    assert why_suspect(code, CHECK) == why_suspect(code.decode(), CHECK) == "names exec"
