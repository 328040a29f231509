"""Operations on several tiles of which some are one tile: the same as on tiles with the same contents."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import tilejit as tj
from tests.support.programs import source_of
from tilejit.dtypes import DType, bool_, float16, float32, int32, uint8
from tilejit.ops.elementwise import ELEMENTWISE, result_type

#: what one tile may be, by kind of type: read from memory, or computed
TILES = {
    "int": ("tj.cta.load(X0[0:32])", "tj.cta.indices((32,), 0)", "tj.cta.full((32,), 3, X0.dtype)"),
    "uint": ("tj.cta.load(X0[0:32])", "tj.cta.full((32,), 3, X0.dtype)"),
    "float": ("tj.cta.load(X0[0:32])", "tj.cta.full((32,), 3, X0.dtype)"),
    "bool": ("tj.cta.load(X0[0:32])", "tj.cta.indices((32,), 0) < 9", "tj.cta.full((32,), True, X0.dtype)"),
}
CONTENTS = {
    "tj.cta.load(X0[0:32])": np.arange(32) * 7 % 32, "tj.cta.indices((32,), 0)": np.arange(32),
    "tj.cta.indices((32,), 0) < 9": np.arange(32) < 9,
}

STORED = "tj.cta.store(out, {})"
#: statements on the tiles {0}, {1}, ... of a type, which write the row `out` of 32
STATEMENTS: list[tuple[DType, str]] = [
    (int32, "tj.cta.store(O.at({0}), {1})"),
    (uint8, "tj.cta.store(O.at({0}), {1})"),
    (int32, "tj.warp.store(O.at({0}), {1})"),
    (int32, "tj.atomic.add(O.at({0}), {1})"),
    (int32, "tj.atomic.add(O.at({0}), {1}, mask={2} > 4)"),
    (int32, "tj.atomic.cas(O.at({0}), {1}, {2})"),
    (bool_, "tj.cta.store(out, {0}, mask={1})"),
    (bool_, "tj.cta.copy(out, {0}, mask={1})"),
    (bool_, "s = tj.alloc_shared(32, tj.bool_)\n    tj.cta.fill(s, False)\n    tj.cta_sync()\n"
            "    tj.cta.store(s, {0}, mask={1})\n    tj.cta_sync()\n    tj.cta.copy(out, s)"),
    *[(int32, STORED.format(text)) for text in (
        "(tj.rand({0}, {1}) * 1000).astype(tj.int32)", "(tj.randn({0}, {1}) * 1000).astype(tj.int32)",
        "tj.randint({0}, {1}, 0, 99)",
        'tj.ptx("mad.lo.s32 $0, $1, $2, $3;", out=tj.int32, inputs=({0}, {1}, {2}))', "tj.gather({0}, {1}, 0)",
        "tj.sort(({0}, {1}))[1]", "tj.where({0} > {1}, {1}, {2})", "tj.clamp({0}, {1}, {2})",
        "tj.scan(({0}, {1}), 0, lambda a, b: (a[0] + b[0], a[1] * b[1]))[1]",
        "{0} + tj.reduce(({0}, {1}), 0, lambda a, b: (a[0] + b[0], a[1] * b[1]), keepdims=True)[1]",
    )],
    (float16, STORED.format("tj.sum({0}[:, None] @ {1}[None, :], axis=0).astype(tj.float16)")),
]


def type_of(name: str) -> DType:
    """Return the first type on which an elementwise operation is defined."""
    rule = ELEMENTWISE[name]
    fits = [t for t in (int32, float32, bool_) if not isinstance(result_type(name, (t,) * rule.arity), str)]
    return fits[0]


for name, rule in ELEMENTWISE.items():
    if rule.arity > 1 and rule.kind != "select":
        operands = ", ".join(f"{{{k}}}" for k in range(rule.arity))
        STATEMENTS.append((type_of(name), STORED.format(f"(tj.{name}({operands})).astype(out.dtype)")))


def equalities(count: int) -> list[tuple[int, ...]]:
    """Return for each way in which `count` operands may be equal the number of the first that is."""
    every = product(range(count), repeat=count)
    return [row for row in every if all(row[k] <= k and row[row[k]] == row[k] for k in range(count))]


@pytest.mark.parametrize(("dtype", "text"), STATEMENTS, ids=[f"{d.name}: {t[:50]}" for d, t in STATEMENTS])
def test_operands_may_be_one_tile(dtype: DType, text: str) -> None:
    count = sum(f"{{{k}}}" in text for k in range(4))
    rows = equalities(count)
    for tile in TILES[dtype.kind]:
        made = []
        for row in rows:
            names = [f"t{k}" for k in row]
            lines = [f"t{k} = {tile if row.count(k) > 1 else f'tj.cta.load(X{k}[0:32])'}" for k in sorted(set(row))]
            body = "\n    ".join([*lines, "out = O[0:32]", text.format(*names)])
            k = tj.kernel(threads=32)(source_of(f"def k(X0, X1, X2, X3, O):\n    {body}\n"))
            contents = CONTENTS.get(tile, np.full(32, 3)).astype(dtype.numpy)
            out = np.zeros(32, dtype.numpy)
            k[1](*[contents.copy() for _ in range(4)], out)
            made.append(out.tobytes())
        assert set(made) == {made[-1]}, (tile, rows, made)


def test_a_row_is_added_to_a_tile_of_one_row() -> None:
    """The regions differ, but their registers are the same: the compiler simplifies x + x of integers."""

    @tj.kernel(threads=32)
    def k(A: tj.Tensor, O: tj.Tensor):  # noqa: E741 - a tensor
        x = tj.warp.load(A[0:1, 0:1])
        j = x
        j = j + x[0, :]
        tj.warp.store(O[0:1, 0:1], j)

    a, o = np.full((1, 1), 21, np.int32), np.zeros((1, 1), np.int32)
    with tj.use_device("sim"):
        k[1](a, o)
    assert o[0, 0] == 42
