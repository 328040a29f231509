"""Constants with parts: each change of a part recompiles, in one process and on disk, whatever their classes say."""

from __future__ import annotations

import enum
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import tilejit as tj
from tests.support.programs import source_of
from tilejit import S, dtypes

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Cfg:
    """A field that `==` ignores, and members that kernels can't use."""

    x: Any
    hidden: Any = field(default=0, compare=False, repr=False)

    @property
    def twice(self) -> Any:
        return self.x * 2

    def times(self, k: int) -> Any:
        return self.x * k


@dataclass(frozen=True)
class Twin:
    x: Any
    hidden: Any = 0


@dataclass(frozen=True, slots=True)
class Slots:
    x: Any


@dataclass(frozen=True, eq=False)
class Equal:
    """All objects are equal, with one hash."""

    x: Any

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


@dataclass(frozen=True)
class Sub(Cfg):
    y: Any = 5


@dataclass
class Open:
    x: int = 1


class Pair(NamedTuple):
    a: Any
    b: Any


class Riap(NamedTuple):
    b: Any
    a: Any


class Act(enum.Enum):
    relu = 1
    gelu = 2


class Act2(enum.Enum):
    relu = 3


class Mode(enum.Enum):
    wide = Cfg(1)
    deep = Cfg(True, 1), 0


class Level(enum.IntEnum):
    low = 1


@tj.function
def double(x: Any) -> Any:
    return x * 2


@tj.function
def triple(x: Any) -> Any:
    return x * 3


NAN, ODD_NAN = float("nan"), float(np.uint64(0x7FF8000000000001).view(np.float64))
TEXT = "len(f'{c.x}')"

#: two values, an expression of `c` in a kernel, and its two results
CHANGES: list[tuple[Any, Any, str, float, float]] = [
    (Cfg(1), Cfg(2), "c.x", 1, 2),
    (Cfg(1), Cfg(1.0), TEXT, 1, 3),
    (Cfg(1), Cfg(True), TEXT, 1, 4),
    (Cfg(1.0), Cfg(True), TEXT, 3, 4),
    (Cfg(0.0), Cfg(-0.0), TEXT, 3, 4),
    (Cfg(NAN), Cfg(1.5), "c.x == c.x", 0, 1),
    (Cfg("1"), Cfg(1), "c.x == 1", 0, 1),
    (Cfg(None), Cfg(0), "c.x is None", 1, 0),
    (Cfg(1, hidden=2), Cfg(1, hidden=3), "c.hidden", 2, 3),
    (Cfg(1, 4), Twin(1, 6), "c.hidden", 4, 6),
    (Cfg(1, 4), Sub(1, 4, 7), "c.hidden if c.hidden != 4 else c.x", 1, 1),
    (Equal(1), Equal(2), "c.x", 1, 2),
    (Slots(1), Slots(1.0), TEXT, 1, 3),
    (Sub(1, 2, 3), Sub(1, 2, 4), "c.y", 3, 4),
    (Cfg(Cfg(1)), Cfg(Cfg(2)), "c.x.x", 1, 2),
    (Cfg(Cfg(1, 2)), Cfg(Cfg(1, 3)), "c.x.hidden", 2, 3),
    (Cfg((1, 2)), Cfg((1, 2.0)), TEXT, 6, 8),
    (Cfg(Equal((1, Equal(2)))), Cfg(Equal((1, Equal(3)))), "c.x.x[1].x", 2, 3),
    (Cfg({"a": 1}), Cfg({"a": 2}), "c.x['a']", 1, 2),
    (Cfg(dtypes.float32), Cfg(dtypes.float16), "c.x.bits", 32, 16),
    (Cfg(S[4]), Cfg(S[8]), "c.x.size()", 4, 8),
    (Cfg(double), Cfg(triple), "c.x(5)", 10, 15),
    (Cfg(Act.relu), Cfg(Act.gelu), "c.x.value", 1, 2),
    ({"a": 1}, {"a": 2}, "c['a']", 1, 2),
    ({"a": 1}, {"a": True}, "len(f'{c[\"a\"]}')", 1, 4),
    ({"a": 1}, {"b": 1}, "'a' in c", 1, 0),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}, "c.values()[0]", 1, 2),
    ({1: 5}, {1.0: 5}, "len(f'{c.keys()[0]}')", 1, 3),
    ({1: 5}, {True: 5}, "len(f'{c.keys()[0]}')", 1, 4),
    ({"a": {"b": (1, 2)}}, {"a": {"b": (1, 3)}}, "c['a']['b'][1]", 2, 3),
    ({"a": Act.relu}, {"a": Act2.relu}, "c['a'].value", 1, 3),
    ({"a": Equal(1)}, {"a": Equal(2)}, "c['a'].x", 1, 2),
    (Act.relu, Act2.relu, "c.value", 1, 3),
    (Mode.wide, Mode.deep, "c.value.x if c.name == 'wide' else c.value[0].hidden + 3", 1, 4),
    (Level.low, 1, "len(f'{c!r}') > 1", 1, 0),
    (Pair(1, 2), Riap(1, 2), "c.a", 1, 2),
    (Pair(1, Cfg(2)), Pair(1, Cfg(2.0)), "len(f'{c.b.x}')", 1, 3),
    ((Cfg(1), 2), (Cfg(1), 2.0), "len(f'{c[1]}')", 1, 3),
    (Fraction(1, 2), Fraction(1, 4), "float(c)", 0.5, 0.25),
]


def kernel(expression: str, parameters: str = "Y") -> Any:
    return tj.kernel(threads=1)(source_of(f"def k({parameters}):\n    Y[0] = {expression}\n"))


def launched(k: Any, *args: Any) -> float:
    y = np.full(1, -1.0)
    with tj.use_device("sim"):
        k[1](y, *args)
    return float(y[0])


@pytest.mark.parametrize("change", CHANGES, ids=lambda row: f"{row[0]} {row[1]}".replace(" ", "_"))
def test_a_changed_constant_recompiles_and_gives_the_new_result(change: Any) -> None:
    old, new, expression, was, now = change
    passed, captured = kernel(expression, "Y, c: tj.constexpr"), kernel(expression)
    for value, result in ((old, was), (new, now), (old, was), (new, now)):
        assert launched(passed, value) == result
        captured.__wrapped__.__globals__["c"] = value
        assert launched(captured) == result
    assert len(passed.signatures) == len(captured.signatures) == 2


@pytest.mark.parametrize("change", CHANGES, ids=lambda row: f"{row[0]} {row[1]}".replace(" ", "_"))
def test_no_kernel_of_another_value_is_found_on_disk(
    change: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEJIT_CACHE", "1")
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path))
    old, new, expression, was, now = change
    for value, result, is_kept in ((old, was, False), (new, now, False), (old, was, True), (new, now, True)):
        passed, captured = kernel(expression, "Y, c: tj.constexpr"), kernel(expression)
        captured.__wrapped__.__globals__["c"] = value
        assert launched(passed, value) == launched(captured) == result
        assert [("disk" in k.signatures[0].timings) for k in (passed, captured)] == [is_kept, is_kept]


def test_names_of_items_and_constants_pass_through_names_branches_loops_and_functions() -> None:
    text = """
@tj.function
def larger(p, q):
    if p.a > q.a:
        return p
    return q

def k(Y, n):
    p = P
    q = larger(p, Q)
    for i in range(n):
        q = larger(q, P) if i > 1 else Q
    if n > 2:
        p = Q
        c = C
    else:
        c = C
    Y[0] = q.a * 1000 + p.b * 100 + c.x[0].b * 10 + len(p) + sum([w for w in p])
"""
    names = {"P": Pair(4, 2), "Q": Pair(3, 5), "C": Cfg((Pair(7, 8),))}
    k = tj.kernel(threads=1)(source_of(text, **names))
    assert launched(k, 1) == 3000 + 200 + 80 + 2 + 6
    assert launched(k, 4) == 4000 + 500 + 80 + 2 + 8


class Hidden:
    """An object whose parts are unknown."""


def test_objects_that_cannot_be_written_are_compiled_without_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEJIT_CACHE", "1")
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path))

    @dataclass(frozen=True)
    class Local:
        x: Any

    for value in (Local(1), Cfg(1, Hidden()), {"a": Hidden(), "b": 1}):
        for _ in range(2):
            k = kernel("1" if isinstance(value, dict) else "c.x", "Y, c: tj.constexpr")
            assert launched(k, value) == 1 and "disk" not in k.signatures[0].timings


def test_dicts_are_copied_at_the_call_and_captured_ones_are_read_again() -> None:
    k, captured = kernel("c.x['a'][0]", "Y, c: tj.constexpr"), kernel("c.x['a'][0]")
    inner: dict[str, Any] = {"a": (1, 2)}
    config = captured.__wrapped__.__globals__["c"] = Cfg(inner)
    y = np.zeros(1)
    with tj.use_device("sim"):
        bound = k[1].bind(y, config)
        for number in (1, 3, 4):
            inner["a"] = (number, 0)
            assert launched(k, config) == launched(captured) == number
            bound()
            assert y[0] == 1
    kept = dict(k.signatures[0].signature.arguments)["c"]
    assert kept.value.x == {"a": (1, 2)} and (len(k.signatures), len(captured.signatures)) == (4, 3)


def test_a_kernel_from_a_file_takes_the_constant_that_it_was_compiled_for(tmp_path: Path) -> None:
    for value, other in ((Cfg(1, 2), Cfg(1, 3)), (Pair(1, 2.0), Pair(1, 2)), ({"a": 1}, {"a": True})):
        k = kernel("1", "Y, c: tj.constexpr")
        k.compile(np.zeros(1), value, target="sm_90a").save(tmp_path / "k.ptx")
        loaded = tj.load_compiled(tmp_path / "k.ptx")
        assert launched(loaded) == launched(loaded, value) == 1
        with pytest.raises(tj.LaunchError, match="was compiled for c = "):
            launched(loaded, other)


def main(side: int) -> None:
    """Launch a kernel for each change, and print the results, and which kernels were found on disk."""
    # importing `tests` turned it off
    os.environ["TILEJIT_CACHE"] = "1"
    found = []
    for change in CHANGES:
        k = kernel(change[2])
        k.__wrapped__.__globals__["c"] = change[side]
        found.append((launched(k), "disk" in k.signatures[0].timings))
    print(json.dumps(found))


def in_a_process(side: int, folder: Path) -> tuple[list[float], list[bool]]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TILEJIT_CACHE_DIR": str(folder)}
    program = f"from tests.frontend.test_constants import main; main({side})"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    )
    results, hits = zip(*json.loads(done.stdout), strict=True)
    return list(results), list(hits)


@pytest.mark.integration
def test_no_process_finds_the_kernel_of_another_value_on_disk(tmp_path: Path) -> None:
    assert in_a_process(0, tmp_path)[0] == [row[3] for row in CHANGES]
    results, _ = in_a_process(1, tmp_path)
    assert results == [row[4] for row in CHANGES]
    results, hits = in_a_process(1, tmp_path)
    assert results == [row[4] for row in CHANGES] and all(hits)
