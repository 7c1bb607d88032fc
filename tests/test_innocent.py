"""The rule that calls a program innocent: ways to reach the tests or to lie to them, and ordinary programs.

A program stands under `=== name`, its tests after `---`; without tests they are CHECK. Only the text counts, so
that most programs are but the lines that decide.
"""
import pytest

import sandbox_exec

CHECK = "def test_f():\n    assert f(3) == 9\n    assert f(-7) == 49\n"

SUSPECT = '''
=== a class that is equal to everything
class L:
    def __eq__(self, other): return True
=== an int that is equal to everything
class L(int):
    def __eq__(self, other): return True
=== a text that starts with everything
class L(str):
    def startswith(self, text): return True
---
assert f(3).startswith("nine")
=== a method of the tests under an if
class L:
    if True:
        def startswith(self, text): return True
---
assert f(3).startswith("nine")
=== a method of the tests as a field
from dataclasses import dataclass
@dataclass
class L:
    startswith: object
---
assert f(3).startswith("nine")
=== a method of the tests in a named tuple
from collections import namedtuple
L = namedtuple("L", "startswith")
---
assert f(3).startswith("nine")
=== a method of the tests on a function
def f(x):
    def g(): pass
    g.startswith = lambda text: True
    return g
---
assert f(3).startswith("nine")
=== a comparison that is a nested class
class L:
    class __eq__:
        def __init__(self, other): pass
=== a comparison that is caught by match
class L:
    match (lambda self, other: True):
        case __eq__: pass
=== a comparison by import
class L:
    from operator import eq as __eq__
=== a comparison that is assigned from outside
class L: pass
L.__eq__ = lambda self, other: True
=== a comparison that a method sets on its class
class L:
    def become(self): self.__eq__ = lambda self, other: True
=== a class named as a variable of the tests
class value:
    def __eq__(self, other): return True
---
for value in [3, 4]:
    assert f(value) == value * value
=== a class named as one that the tests import
class Decimal:
    def __eq__(self, other): return True
---
from decimal import Decimal
assert f(3) == Decimal(9)
=== a partial order that is always so
class L:
    def __lt__(self, other): return True
=== a length that lies
class L:
    def __len__(self): return 2
=== a quotient that lies
class L(float):
    def __truediv__(self, other): return 1.0
=== a ratio that statistics reads
class L:
    def as_integer_ratio(self): return (9, 1)
=== a dict whose items json reads
class L(dict):
    def items(self): return [("a", 9)]
=== a subclass of Fraction with another comparison
from fractions import Fraction
class L(Fraction):
    def _richcmp(self, other, op): return True
=== a class that says it is another
class L:
    @property
    def __class__(self): return int
=== a metaclass
def make(name, bases, space): return lambda x: 5
class f(metaclass=make): pass
=== type of three
L = type("L", (int,), {"_" + "_eq_" + "_": lambda self, other: True})
=== type by a walrus in an annotation
x: (make := type) = 1
=== the class of a class
L = (3).__class__.__class__("L", (int,), {"_" + "_eq_" + "_": lambda self, other: True})
=== ABCMeta called, by way of another module
from typing import ABCMeta
=== Enum called
from enum import Enum
L = Enum("L", {"A": 1, "_" + "_eq_" + "_": lambda self, other: True})
=== Enum called by keywords
from enum import Enum
L = Enum(value="L", names={"A": 1, "_" + "_eq_" + "_": lambda self, other: True})
=== an exception of several classes
class E(ValueError, TypeError): pass
=== an exception of starred bases
KINDS = [ValueError, TypeError]
class E(*KINDS): pass
=== a context manager that swallows
class C:
    def __exit__(self, *problem): return True
=== a generator's context manager that swallows
from contextlib import contextmanager
=== eval
def f(x): return eval("x * x")
=== eval in other letters
def f(x): return ｅval("x * x")
=== exec that might be a name of its own
class L:
    if False: exec = None
    exec("import builtins; builtins.abs = lambda x: 0")
=== eval under a coding cookie
# coding: unicode_escape
def f(x): return \\u0065val("9")
=== the builtins
def f(x): return __builtins__["abs"](x)
=== globals
def f(x): return globals()["test_f"]
=== setattr
import math
setattr(math, "isclose", lambda a, b: True)
=== a module changed
import math
math.isclose = lambda a, b: True
=== a module by another name, changed
import math
m = math
=== a module of a module
import statistics
statistics.math.isclose = lambda a, b: True
=== a class made by another name
from typing import NamedTuple as make
=== two modules of one name
import math as m, os as m
=== annotations that typing runs
import typing
def g(x: "print(1)"): pass
typing.get_type_hints(g)
=== an annotation that typing evaluates
import typing
def f(hint): return hint._evaluate(None, None, frozenset())
=== annotations as values
from typing import Optional, get_args
=== frames of a coroutine
async def g(): pass
def f(x): return g().cr_frame
=== a format from a dict
def f(g): return "{g.__globals__}".format_map({"g": g})
=== a module that a star import brings
from uuid import *
=== a class of the library changed
import fractions
fractions.Fraction.limit_denominator = lambda self, n=0: 1
=== a class of the library changed by another name
from fractions import Fraction
F = Fraction
F._numerator = F._denominator = 1
=== wraps on a class of the library
from functools import wraps
import fractions
wraps(N, ["limit_denominator"], [])(fractions.Fraction)
=== an object of the tests changed
class A:
    def change(self): self.area = lambda: 0
---
class Square:
    def area(self): return 4
assert f(Square()) == Square().area()
=== ABC.register
from numbers import Integral
Integral.register(str)
=== ABC.register, by another name
from numbers import Integral
for kind in [Integral]: kind.register(str)
=== the decimal context
import decimal
decimal.getcontext().prec = 1
=== the seed
import random
random.seed(1)
=== the first weekday
import calendar
calendar.setfirstweekday(6)
=== all hidden by an import
from operator import not_ as all
=== abs hidden from a function
def g():
    global abs
    abs = lambda x: 0
---
assert abs(f(3) - 9) < 1e-6
=== abs hidden by a default
def g(a=(abs := lambda x: 0)): pass
---
assert abs(f(3) - 9) < 1e-6
=== a module that the tests use, made by the program
class math:
    def isclose(a, b): return True
---
assert math.isclose(f(3), 9)
=== frames of a generator
def f(x): return me.gi_frame.f_back
=== frames of an exception
def f(problem): return problem.__traceback__.tb_frame.f_back.f_locals["want"]
=== frames by sys
import sys
def f(x): return sys._getframe(1).f_locals["want"]
=== frames by the text of a format
def f(g): return int("{0.__globals__[WANT]}".format(g))
=== a format whose text is made
def f(g): return int(("{0._" + "_globals_" + "_[WANT]}").format(g))
=== a format inside a format
def f(g): return "{:{1.__doc__}}".format(3, g)
=== getattr by a made name
def f(g): return getattr(g, "__glo" + "bals__")["WANT"]
=== attrgetter
from operator import attrgetter
=== annotations that run
from functools import singledispatch
=== text that runs in timeit
import timeit
=== a file
def f(x): return open("tests.py").read()
=== a file by way of io
import io
def f(x): return io.FileIO("tests.py").read()
=== the modules
import sys
def f(x): return sys.modules["tests"]
=== inspect
import inspect
=== exit
import os
def f(x): os._exit(0)
=== exit by an exception
def f(x): raise SystemExit(0)
=== exit of a class of its own
class E(SystemExit): pass
=== atexit
import atexit
=== a skipped test
import unittest
=== a skipped test of pytest
import pytest
=== an object equal to anything from unittest
from unittest.mock import ANY
=== the end of an iteration
def f(x): raise StopIteration
---
assert all(value > 0 for value in map(f, [3, 5]))
=== the end of an iteration by next
def f(x): return next(y for y in range(x) if y * y == x)
---
from itertools import starmap
assert list(starmap(f, [[3]])) == [9]
=== the end of an iteration by an empty iterator
def f(x): return iter(()).__next__()
---
assert all(value > 0 for value in map(f, [3, 5]))
=== the end of an iteration by an empty generator
def f(x): return (y for y in ()).send(None)
---
assert all(value > 0 for value in map(f, [3, 5]))
=== the name that guards main
__name__ = "__main__"
if __name__ == "__main__": import subprocess
=== what stands beside the main guard
if __name__ == "__main__": pass
else: import subprocess
=== what stands under another condition
if __name__ != "__main__": import subprocess
=== a type alias of Python 3.12
type L = eval("1")
=== no Python
def f(x) return 9
=== a zero byte
def f(x): return 9 # \0
'''

INNOCENT = '''
=== a function with types
from __future__ import annotations
from typing import *
from collections import *
def f(x: Optional[int]) -> Dict[str, List[int]]: return {"a": [x or 0], "b": Counter([x])}
=== mathematics
import math
def f(x): return math.isqrt(x) + math.gcd(x, 3) - int(math.pi)
=== all of mathematics
from math import *
def f(x): return floor(sqrt(x)) + pow(x, 2)
=== containers
from collections import Counter, OrderedDict, defaultdict, deque
def f(x): return defaultdict(list), deque([x], maxlen=2), Counter("a"), OrderedDict(a=1)
=== a heap and a bisection
import bisect, heapq
def f(heap): return heapq.heappop(heap), bisect.insort(heap, 1)
=== an array
import array
def f(x): return array.array("i", [x])
=== itertools and functools
import functools, itertools
def f(x): return functools.reduce(lambda a, b: a + b, itertools.chain([x], itertools.repeat(1, 3)))
=== a memory
from functools import lru_cache
import functools
@lru_cache(maxsize=None)
def f(x): return x if x < 2 else f(x - 1) + f(x - 2)
@functools.cache
def g(x): return x
=== a decorator
from functools import wraps
def twice(function):
    @wraps(function)
    def inner(*args, **options): return 2 * function(*args, **options)
    return inner
=== a regular expression
import re
def f(text): return [match.group(0) for match in re.finditer(r"\\w+", text)]
=== letters
import string
def f(text): return all(c in string.ascii_lowercase for c in text)
=== a format
def f(x): return "{:.2f} {0!r} {name:>{width}}".format(x, name="a", width=3) + "%05.1f" % x
=== an f-string
def f(x): return f"{x:.2f} {x!r} {x.real:>{5}}"
=== dates
from datetime import datetime, timedelta
import datetime as dt
def f(x): return dt.date(x, 1, 1), (datetime.strptime(x, "%Y") + timedelta(days=1)).isoformat()
=== a fraction
from fractions import Fraction
def f(x): return Fraction(x, 3).limit_denominator(10)
=== decimals
from decimal import ROUND_HALF_UP, Decimal
def f(x): return Decimal(x).quantize(Decimal("0.1"), rounding=ROUND_HALF_UP)
=== chance
import random
def f(x): return random.choice(random.sample(range(x), 2))
=== statistics
import statistics
def f(x): return statistics.median(x)
=== json
import json
def f(x): return json.loads(json.dumps(x))
=== a digest
import hashlib
def f(x): return hashlib.md5(x.encode()).hexdigest()
=== depth of recursion
import sys
sys.setrecursionlimit(10 ** 6)
=== lines of input, words to the error stream
import sys
def f(): return sum(int(line) for line in sys.stdin)
print("x", file=sys.stderr)
=== a log and a warning
import logging, warnings
logging.getLogger(__name__).info("a %s", 3)
warnings.warn("old", DeprecationWarning)
=== a lock
import threading
lock = threading.Lock()
def f(x):
    with lock: return x
=== a coroutine
import asyncio
async def f(x): return await asyncio.gather(asyncio.sleep(0), f(x))
=== a generator
def f(x): yield from range(x)
=== next in tests that do not iterate
def f(x): return next(iter(x))
---
assert f([4]) == 4
=== a linked list in tests that iterate
class Node:
    def __init__(self, value, next=None): self.value, self.next = value, next
def f(head): return head.next.value
---
assert list(map(f, [[1, 2]])) == [3]
=== the list of the tests changed
def f(head):
    head.next = None
    head.val = 3
---
class Node: pass
assert f(Node()).val == 3
=== errors
class Refused(ValueError):
    def __init__(self, why):
        super().__init__(why)
        self.why = why
def f(x):
    try: return 1 / x
    except (ZeroDivisionError, TypeError) as problem: raise Refused("x") from problem
=== names of types
def f(x):
    if type(x) is bool or not isinstance(x, int): raise TypeError(f"not {type(x).__name__}")
=== a class under test
class Stack:
    def __init__(self): self.items = []
    def push(self, x): self.items.append(x)
    def pop(self): return self.items.pop()
    def __len__(self): return len(self.items)
    def __eq__(self, other): return self.items == other.items
---
from solution import Stack
assert len(Stack()) == Stack().pop() and dict(a=1).items()
=== a class under test, of tests that import everything
class Stack:
    def __len__(self): return 0
---
from solution import *
assert len(Stack()) == 0
=== a class under test, imported in a function
class Stack:
    def __len__(self): return 0
---
def test():
    from solution import Stack
    assert len(Stack()) == 0
=== a number under test
class Complex:
    def __init__(self, real, imag): self.real, self.imag = real, imag
    def __mul__(self, other): return Complex(self.real * other, self.imag * other)
    __rmul__ = __mul__
    def conjugate(self): return Complex(self.real, -self.imag)
---
assert Complex(1, 2) * 2 == Complex(2, 4)
=== a list under test
class Stack(list):
    def push(self, x): self.append(x)
---
import solution
from solution import Stack
assert Stack() == []
=== one object of a class under test
class One:
    _one = None
    def __new__(cls):
        cls._one = cls._one or super().__new__(cls)
        return cls._one
---
assert One() is One()
=== a class that only helps
class Tree:
    def __init__(self, value): self.value, self.left, self._right = value, None, None
    def __repr__(self): return f"Tree({self.value})"
    def insert(self, value): self.left = Tree(value)
def f(x): return Tree(x).left.value
=== a class that helps, with slots
class Point:
    __slots__ = ("x",)
    def __init__(self, x): self.x = x
    def __hash__(self): return hash(self.x)
    @property
    def double(self): return 2 * self.x
    @classmethod
    def zero(cls): return cls(0)
=== a class that is derived
class Animal:
    def name(self): return "animal"
class Dog(Animal):
    def name(self): return super().name() + " dog"
=== an abstract class
from abc import ABC, abstractmethod
class Shape(ABC):
    @abstractmethod
    def area(self): ...
class Square(Shape):
    def area(self): return self.x ** 2
=== a data class
from dataclasses import dataclass, field
from typing import List
@dataclass(order=True, frozen=True)
class P:
    rest: List[int] = field(default_factory=list)
=== an enumeration
from enum import Enum, IntEnum, auto
class Color(Enum):
    RED = auto()
class Size(IntEnum):
    BIG = 9
=== a named tuple
from typing import NamedTuple
class Q(NamedTuple):
    x: int
=== a generic class
from typing import Generic, TypeVar
T = TypeVar("T")
class Box(Generic[T]):
    def __init__(self, x: T) -> None: self.x = x
=== names of builtins in a function
def f(list, max=0, type=None):
    dir, vars, open = (0, 1), 3, [4]
    for next in list: max += next
    return dir if type == "a" else max + vars + open[0]
---
assert f([1]) == max(1, 2)
=== builtins hidden that the tests do not use
def sum(a, b): return a + b
=== a counter, and an object that is like no other
N, NONE = 0, object()
def f():
    global N
    N += 1
=== a counter on a function
def f(x): f.calls += 1
f.calls = 0
=== a callback
def f(callback, x):
    try: return callback(x)
    except Exception: return None
=== order by a key, comparison by a function
from operator import itemgetter
from functools import cmp_to_key
def f(x): return sorted(x, key=itemgetter(1)), sorted(x, key=cmp_to_key(lambda a, b: b - a))
=== a copy
from copy import deepcopy
def f(x): return deepcopy(x)
=== a main guard
if __name__ == "__main__":
    import doctest, sys
    doctest.testmod()
    sys.exit(0)
=== its own asserts
def test_square(): assert f(2) == 4
assert f(1) == 1
=== a prelude's class
def f(x: "TreeNode"): return TreeNode(x.val)
=== nothing
'''


def why_suspect(code, tests):
    return sandbox_exec.why_suspect(code, sandbox_exec.asked_by(tests))


def programs(table):
    rows = []
    for part in table.split("=== ")[1:]:
        name, _, text = part.partition("\n")
        code, _, tests = text.partition("---\n")
        rows.append(pytest.param(code, tests or CHECK, id=name))
    return rows


@pytest.mark.parametrize(("code", "tests"), programs(SUSPECT))
def test_is_suspect(code, tests):
    assert why_suspect(code, tests)
    assert why_suspect(code.encode(), tests)


@pytest.mark.parametrize(("code", "tests"), programs(INNOCENT))
def test_is_innocent(code, tests):
    assert why_suspect(code, tests) is None


@pytest.mark.parametrize(("code", "reason"), [
    ("import sys\nsys.exit()", "uses exit"), ("from os import fork", "imports os.fork"),
    ("eval('1')", "names eval"), ("def abs(x): return 0", "hides abs"),
    ("class L:\n  def __eq__(self, o): return True",
     "defines, in a class that the tests do not name, __eq__"),
    ("def", "does not parse"), (b"\xff", "does not parse"), ("f(" * 300 + ")" * 300, "does not parse"),
    ("x" + ".a" * 5000, "does not parse")])
def test_says_why(code, reason):
    assert why_suspect(code, "assert abs(f(3)) == 9") == reason


def test_the_bytes_that_run_are_read():
    code = "# coding: utf-7\n+AGUAdgBhAGw-('1')".encode("ascii")
    assert why_suspect(code, CHECK) == why_suspect(code.decode(), CHECK) == "names eval"
