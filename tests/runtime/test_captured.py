"""A captured value that changes is noticed, whatever way it came."""

import sys
import types
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import tilejit as tj
from tilejit.frontend import KernelSource
from tilejit.runtime.captured import Captured

CONFIG = types.ModuleType("config")
CONFIG.SIZE = 3
NUMBER = 1
PAIR = (1, 2)


@tj.function
def helper(x):
    return x + NUMBER


HELPERS = (helper,)


@tj.function
def with_defaults(x, then=helper, *, after=(helper,)):
    return after[0](then(x))


def of_global(A):
    A[0] = NUMBER


def of_tuple(A):
    A[0] = PAIR[0]


def of_module(A):
    A[0] = CONFIG.SIZE


def of_helper(A):
    A[0] = helper(A[0])


def of_default(A):
    A[0] = with_defaults(A[0])


def of_helper_in_a_tuple(A):
    A[0] = HELPERS[0](A[0])


def of_builtin(A):
    A[0] = abs(A[0])


def of_missing(A):
    A[0] = ABSENT  # noqa: F821


HERE = sys.modules[__name__]


@pytest.mark.parametrize(
    ("fn", "where", "name", "values"),
    [
        (of_global, HERE, "NUMBER", (2, 1.0, True)),
        (of_tuple, HERE, "PAIR", ((1, 3), (1.0, 2))),
        (of_module, CONFIG, "SIZE", (4, 3.0)),
        (of_module, HERE, "CONFIG", (types.SimpleNamespace(SIZE=4),)),
        (of_helper, HERE, "NUMBER", (2,)),
        (of_helper_in_a_tuple, HERE, "NUMBER", (2,)),
        (of_default, HERE, "NUMBER", (2,)),
        (of_global, HERE, "NUMBER", (Fraction(1), Fraction(2), 1j)),
        (of_global, HERE, "NUMBER", (frozenset((1,)), frozenset((2,)), range(2), range(3), b"a", b"b")),
    ],
)
def test_every_new_value_gives_a_new_number_and_an_old_one_its_own(monkeypatch, fn, where, name, values):
    captured = Captured(KernelSource.of(fn))
    first, seen = captured.number(), set()
    original = getattr(where, name)
    for value in values:
        monkeypatch.setattr(where, name, value)
        seen.add(captured.number())
        assert captured.number() in seen
    assert len(seen) == len(values) and first not in seen
    monkeypatch.setattr(where, name, original)
    assert captured.number() == first


@pytest.mark.parametrize(("fn", "name"), [(of_builtin, "abs"), (of_missing, "ABSENT")])
def test_a_name_that_appears_is_noticed(monkeypatch, fn, name):
    captured = Captured(KernelSource.of(fn))
    first = captured.number()
    monkeypatch.setattr(HERE, name, 5, raising=False)
    assert captured.number() != first
    monkeypatch.delattr(HERE, name)
    assert captured.number() == first


def test_a_closure_cell_that_is_filled_later_is_noticed():
    def make():
        def fn(A):
            A[0] = late

        captured = Captured(KernelSource.of(fn))
        first = captured.number()
        late = 7
        return first, captured.number()

    first, second = make()
    assert first != second


def test_a_number_in_an_array_is_read_each_time(monkeypatch):
    monkeypatch.setattr(HERE, "NUMBER", np.array(1 / 3))
    captured = Captured(KernelSource.of(of_global))
    first = captured.number()
    # the two look the same as NumPy shows an array
    HERE.NUMBER[()] = 1 / 3 + 1e-12
    second = captured.number()
    HERE.NUMBER[()] = 1 / 3
    assert second != first and captured.number() == first


def test_numbers_of_numpy_differ_by_their_types_too(monkeypatch):
    captured, numbers = Captured(KernelSource.of(of_global)), []
    for value in (np.array(1.0), np.array(1.0, np.float32), np.float32(1), ml_dtypes.bfloat16(1), np.int8(1), 1, 1.0):
        monkeypatch.setattr(HERE, "NUMBER", value)
        numbers.append(captured.number())
    assert len(set(numbers)) == len(numbers)


def test_changes_are_reported_by_value(monkeypatch):
    captured = Captured(KernelSource.of(of_global))
    old = captured.number()
    for value, text in ((np.array(0.1), "0.1"), (Fraction(1, 3), "Fraction(1, 3)"), (np.float32(0.5), "0.5")):
        monkeypatch.setattr(HERE, "NUMBER", value)
        assert captured.changes(old, captured.number()) == [f"NUMBER {text}, compiled with 1"]


def test_what_does_not_change_is_read_once(monkeypatch):
    from tilejit.runtime import captured as module

    reads = []
    monkeypatch.setattr(module, "captures", lambda source: reads.append(source))
    captured = Captured(KernelSource.of(of_helper))
    for _ in range(5):
        captured.number()
    assert len(reads) == 1


def test_a_value_deeper_than_python_recurses_is_refused(monkeypatch):
    loop = {}
    loop["a"] = loop
    monkeypatch.setattr(HERE, "NUMBER", loop)
    with pytest.raises(tj.LaunchError, match="of_global captures a value nested several hundred levels deep"):
        Captured(KernelSource.of(of_global)).number()


def test_a_dict_is_read_each_time(monkeypatch):
    monkeypatch.setattr(HERE, "NUMBER", (1, {"a": 1}))
    captured = Captured(KernelSource.of(of_global))
    first = captured.number()
    HERE.NUMBER[1]["a"] = True
    second = captured.number()
    HERE.NUMBER[1]["a"] = 1
    assert second != first and captured.number() == first
    assert captured.changes(first, second) == ["NUMBER (1, {'a': True}), compiled with (1, {'a': 1})"]
