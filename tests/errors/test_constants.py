"""Mistakes with constants that have parts, comprehensions, lambdas and `in`: the message, its place and its help."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tilejit as tj
from tests.support.marked import HEADER, default_arguments, kernel_text, points_at, refused
from tests.support.programs import source_of

SYNTAX, TYPE = tj.KernelSyntaxError, tj.KernelTypeError

OBJECTS = """
__name__ = "tests.errors.test_constants"
import enum
from collections import Counter, namedtuple
from dataclasses import dataclass, field
from functools import cached_property

@dataclass(frozen=True)
class Cfg:
    bm: object = 16
    KIND = "a"

    @property
    def twice(self):
        return self.bm * 2

    @cached_property
    def thrice(self):
        return self.bm * 3

    def area(self, n):
        return self.bm * n

@dataclass
class Open:
    bm: int = 16

class Act(enum.Enum):
    relu = 1

Pair = namedtuple("Pair", "rows columns")
cfg, other, opened, pair = Cfg(), Cfg(8), Open(), Pair(8, 16)
table = {"rows": 8, 2: 16}
inner = {"a": Cfg([1]), (1, 2): 3}
listed = Cfg([1, 2])
of_arrays = {"w": np.ones(3)}
of_open = (Cfg(Open()),)
counter = Counter("ab")
outside = lambda x: x
"""

#: statements with the place of the error between « and », what the message says, what the help says; … is anything
CASES = [
    ("x = «cfg.bn»", "a Cfg(bm) has no attribute bn", "its fields: bm", TYPE),
    ("x = «cfg.twice»", "twice is a property of a Cfg(bm)", "its fields: bm", TYPE),
    ("x = «cfg.thrice»", "thrice is a property of a Cfg(bm)", "its fields: bm", TYPE),
    ("x = «cfg.area»(n)", "area is a method of a Cfg(bm): a kernel can only read its fields", "@tj.function", TYPE),
    ("x = «cfg.KIND»", "KIND is a class attribute of a Cfg(bm)", "its fields: bm", TYPE),
    ("x = «cfg.__class__»", "__class__ is … of a Cfg(bm)", "its fields: bm", TYPE),
    ("«cfg.bm» = 3", "an attribute can't be assigned", "in a variable", SYNTAX),
    ("x = «cfg[0]»", "a Cfg(bm) can't be indexed", "index a tensor", TYPE),
    ("x = «cfg + 1»", "add takes scalars and local tiles; got a Cfg(bm)", "", TYPE),
    ("x = «cfg == other»", "equal takes scalars and local tiles; got a Cfg(bm)", "", TYPE),
    ("x = «cfg is other»", "is can't compare a Cfg(bm) with a Cfg(bm)", "with ==", TYPE),
    ("x = «cfg in (cfg, other)»", "equal takes … got a Cfg(bm)", "", TYPE),
    ("if «cfg»:\n    pass", "a condition must be a scalar; this is a Cfg", "", TYPE),
    ("x = f'{«cfg»}'", "this is a Cfg", "", TYPE),
    ("x = «cfg()»", "a Cfg(bm) can't be called", "call a function", TYPE),
    ("x = «Cfg(3)»", "Cfg can't be called in a kernel", "outside and capture", SYNTAX),
    ("x = «isinstance(cfg, Cfg)»", "isinstance runs at compile time; this is a Cfg", "", TYPE),
    ("print(«cfg»)", "print takes scalars, …; this is a Cfg", "", TYPE),
    ("A[«cfg», 0] = 1", "this is a Cfg", "index with integers", TYPE),
    ("a, b = cfg", "only a tuple can be unpacked; this is a Cfg", "", TYPE),
    ("x = «opened».bm", "opened is an Open; a kernel captures", "frozen=True", TYPE),
    ("x = «of_open»[0]", "of_open[0].bm is an Open; a kernel captures", "frozen=True", TYPE),
    ("x = «listed».bm", "listed.bm is a list; a kernel captures", "make it a tuple", TYPE),
    ("x = «counter»['a']", "counter is a Counter; a kernel captures", "make it a dict", TYPE),
    ("x = «of_arrays»['w']", "of_arrays['w'] is an array, an ndarray of shape (3,)", "pass it as an argument", TYPE),
    ("x = «inner»['a']", "inner has the key (1, 2)", "strings or numbers", TYPE),
    ("x = «pair.row»", "a tuple of 2 items has no attribute row", "did you mean rows?", TYPE),
    ("x = «pair.count»(8)", "a tuple of 2 items has no attribute count", "its fields: rows, columns", TYPE),
    ("x = «(n, 1).count»(1)", "a tuple of 2 items has no attribute count", "index it", TYPE),
    ("x = «table['row']»", "the dict has no key 'row'", "did you mean rows?", TYPE),
    ("x = «table[5]»", "the dict has no key 5", "its keys: 'rows', 2", TYPE),
    ("x = table[«n»]", "the key of a dict must be known at compile time; this is a scalar", "tj.constexpr", TYPE),
    ("x = table[«(1, 2)»]", "the keys of a dict are strings and numbers", "write a string or a number", TYPE),
    ("x = «table.rows»", "a dict of 2 items has no attribute rows", "table['rows']", TYPE),
    ("x = «table.pop»('rows')", "a dict of 2 items has no attribute pop", "it has get, items, keys, values", TYPE),
    ("x = «table.keys(1)»", ".keys takes no arguments", "write table.keys()", TYPE),
    ("«table['rows']» = 3", "a dict can't be changed", "make a new tuple", TYPE),
    ("x = «table | table»", "takes scalars and local tiles; got a dict", "", TYPE),
    ("x = «{'a': 1}»", "a dict can't be used in a kernel", "capture it", SYNTAX),
    ("x = «A.dtype in n»", "in takes a tuple on its right side; this is a scalar", "x in (a, b)", TYPE),
    ("x = tj.cta.load(A[0, 0:16])\ny = «x in (1, 2)»", "in takes a scalar; this is a local tile", "(x == a) |", TYPE),
    ("x = «n in ('a', 'b')»", "equal takes scalars … got the constant 'a'", "", TYPE),
    ("x = [i for i in «A»]", "a comprehension iterates over tj.static_range", "tj.static_range(N), and index", SYNTAX),
    ("x = [i for i in (1, n) if «i > 1»]", "the condition of a comprehension must be known", "a if condition", TYPE),
    ("x = [i for i, j in ((1, 2), 3)]", "only a tuple can be unpacked", "one name", TYPE),
    ("x = [i for i in (1, 2)] + «[i]»", "a list can't be used in a kernel", "", SYNTAX),
    ("x = [i for i in (1, 2)]\ny = «i»", "i is not defined", "", TYPE),
    ("x = «[i for i in tj.static_range(80) for j in tj.static_range(80)]»", "a comprehension unrolls 4097", "", TYPE),
    (
        "x = [i for i in tj.static_range(999) for j in «tj.static_range(99)» if j < 0]",
        "nested unrolled loops have more than 16,384 iterations", "range(...)", TYPE,
    ),
    ("x = «{i for i in (1, 2)}»", "a set comprehension", "a list comprehension makes a tuple", SYNTAX),
    ("x = «any(n > i for i in (1, 2))»", "any runs at compile time; this is a tuple of 2 items", "index its", TYPE),
    ("f = lambda x: x\ny = «f()»", "lambda needs x", "its parameters: x", TYPE),
    ("f = lambda x: «f(x)»\ny = f(1)", "lambda calls itself", "write a loop", TYPE),
    ("f = «lambda *x: x»", "*args and **kwargs", "name the parameters", SYNTAX),
    ("x = «outside(n)»", "a lambda that is defined outside it", "a def, decorated with @tj.function", SYNTAX),
    ("f = (lambda: (yield n))\nx = f()", "yield", "return a value", SYNTAX),
    ("x = «round(n * 0.5, 2)»", "round of a run-time scalar takes no ndigits", "tj.round(x * 100) / 100", TYPE),
    ("for i in reversed(«n»):\n    pass", "reversed takes tuples; this is a scalar", "range(n)", TYPE),
    ("for i in zip(«cfg», (1, 2)):\n    pass", "zip takes tuples; this is a Cfg", "", TYPE),
    ("x = «len(cfg)»", "this is a Cfg", "", TYPE),
]


@pytest.mark.parametrize(("body", "words", "hint", "kind"), CASES, ids=[case[0] for case in CASES])
def test_a_refused_kernel_says_what_is_wrong_and_where(body: str, words: str, hint: str, kind: type) -> None:
    error, marked = refused(kernel_text(body), default_arguments(), header=HEADER + OBJECTS)
    assert type(error) is kind, error
    assert re.search(".*".join(map(re.escape, words.split("…"))), error.message), error
    assert hint in (error.hint or ""), error
    if marked.line:
        points_at(error, marked)


@dataclass(frozen=True)
class Cfg:
    x: Any


@dataclass
class Open:
    x: int = 1


LOOP: dict[str, Any] = {}
LOOP["a"] = LOOP

#: a constexpr argument, what the message says, what the help says
ARGUMENTS = [
    (Open(), "an Open can't be one", "@dataclass(frozen=True)"),
    (Cfg([1]), "a list, c.x, can't be one", "dicts of these"),
    (Cfg(np.ones(3)), "an ndarray, c.x, can't be one", "numbers"),
    ((1, {"a": Cfg({2})}), "a set, c[1]['a'].x, can't be one", "numbers"),
    (Counter("ab"), "a Counter can't be one", "dicts of these"),
    ({(1, 2): 3}, "its dict has the key (1, 2)", "strings or numbers"),
    ({"a": Open()}, "an Open, c['a'], can't be one", "frozen=True"),
    (LOOP, "nested several hundred levels deep", "flat"),
]


@pytest.mark.parametrize(("value", "words", "hint"), ARGUMENTS, ids=[words for _, words, _ in ARGUMENTS])
def test_a_refused_argument_is_named(value: Any, words: str, hint: str) -> None:
    k = tj.kernel(source_of("def k(Y, c: tj.constexpr):\n    pass\n"))
    with tj.use_device("sim"), pytest.raises(tj.LaunchError, match=re.escape(words)) as caught:
        k[1](np.zeros(1), value)
    assert hint in (caught.value.hint or "")
