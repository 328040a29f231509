"""The record of `reduce`: its meaning, and what it can't take."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import tilejit as tj
from tests.support.programs import source_of
from tilejit.dtypes import DType, float8_e4m3fn, float16, float32, int32
from tilejit.ops.fold import COMBINE, PAIRS, REDUCE, folded
from tilejit.ops.record import CombineFunction

Array = np.ndarray


class Minus(CombineFunction):
    """a - 2b of each value."""

    def __init__(self, *dtypes: DType, gives: Sequence[DType] | None = None) -> None:
        self._takes, self._gives = dtypes, dtypes if gives is None else tuple(gives)

    @property
    def takes(self) -> tuple[DType, ...]:
        return self._takes

    @property
    def gives(self) -> tuple[DType, ...]:
        return self._gives

    def __call__(self, lower: Sequence[Array], higher: Sequence[Array]) -> tuple[Array, ...]:
        return tuple(a - 2 * b for a, b in zip(lower, higher, strict=True))


@pytest.mark.parametrize(
    ("axes", "wanted"),
    [((0,), [0 - 6, 1 - 8, 2 - 10]), ((1,), [0 - 2 - 4, 3 - 8 - 10]), ((0, 1), -2 * (1 + 2 + 3 + 4 + 5))],
)
def test_elements_are_folded_from_the_first_to_the_last(axes: tuple[int, ...], wanted: object) -> None:
    x = np.arange(6).reshape(2, 3)
    made = folded([x, x], axes, Minus(int32, int32))
    assert len(made) == 2
    for each in made:
        np.testing.assert_array_equal(each, wanted)


def test_operands_come_in_pairs() -> None:
    assert [o.name for o in REDUCE.operands] == [name for pair in PAIRS for name in pair]
    assert [o.written for o in REDUCE.operands] == [True, False] * len(PAIRS)
    assert [o.optional for o in REDUCE.operands] == [False] * 2 + [True] * 2 * (len(PAIRS) - 1)


SHAPES = [
    ({"dst": (4,), "src": (4, 8)}, None),
    ({"dst": (4, 1), "src": (4, 8), "dst2": (4,), "src2": (4, 8)}, None),
    ({"dst": (8,), "src": (4, 8)}, "shapes differ"),
    ({"dst": (4,), "src": (4, 8), "dst2": (8,), "src2": (4, 8)}, "shapes differ"),
    ({"dst": (4,), "src": (4, 8), "dst2": (4,), "src2": (4, 9)}, r"the tiles have shapes \(4, 8\) and \(4, 9\)"),
    ({"dst": (4,), "src": (4, 8), "dst2": (4,)}, "dst2 is given without src2"),
    ({"dst": (4,), "src": (4, 8), "src3": (4, 8)}, "src3 is given without dst3"),
]


@pytest.mark.parametrize(("shapes", "message"), SHAPES)
def test_shapes(shapes: dict[str, tuple[int, ...]], message: str | None) -> None:
    fault = REDUCE.shape_fault(shapes, {"axis": (1,)})
    if message is None:
        assert fault is None
        return
    assert fault is not None and fault.hint
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(fault.message)


ONE, TWO = {"dst": float32, "src": float32}, {"dst": float32, "src": float32, "dst2": int32, "src2": int32}
TYPES = [
    (ONE, Minus(float32), None),
    (TWO, Minus(float32, int32), None),
    (ONE, None, "reduce needs a function"),
    (ONE, Minus(float32, float32), "combine returns 2 values for 1 tile"),
    (TWO, Minus(float32), "combine returns 1 value for 2 tiles"),
    (ONE, Minus(float16), "combine takes float16; the tiles are of float32"),
    (ONE, Minus(float32, gives=(float16,)), "combine changes the dtype: it returns float16 for float32"),
    (
        TWO, Minus(float32, int32, gives=(float32,) * 2),
        "combine changes the dtype of value 1: it returns float32 for int32",
    ),
    ({"dst": float16, "src": float32}, Minus(float32), "reduce of float32 gives float32; the destination is float16"),
    ({"dst": float8_e4m3fn, "src": float8_e4m3fn}, Minus(float8_e4m3fn), "fp8 is a storage type"),
]


@pytest.mark.parametrize(("dtypes", "combine", "message"), TYPES)
def test_types(dtypes: dict[str, DType], combine: CombineFunction | None, message: str | None) -> None:
    fault = REDUCE.type_fault(dtypes, {COMBINE.name: combine})
    assert (None if fault is None else fault.message.partition(" (")[0]) == (
        message if message != "fp8 is a storage type" else "reduce of float8_e4m3fn: fp8 is a storage type"
    )
    assert fault is None or fault.hint


def test_the_attribute_is_a_function() -> None:
    assert COMBINE.fault(Minus(float32)) is None
    assert COMBINE.fault(3) == "combine= takes CombineFunction; got 3"


def test_the_example_computes_what_the_record_says() -> None:
    lines = "".join(f"    {line}\n" for line in [*REDUCE.example.splitlines(), "tj.thread.store(OUT[0:32], x)"])
    a = (np.arange(256).reshape(32, 8) * 7 % 5).astype(np.float32)
    out = np.zeros(32, np.float32)
    with tj.use_device("sim"):
        tj.kernel(threads=1)(source_of(f"def k(A, OUT):\n{lines}"))[1](a, out)
    np.testing.assert_array_equal(out, [row[np.flatnonzero(row)[-1]] for row in a])
