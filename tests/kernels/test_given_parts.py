"""Parts of tiles with a given layout that only some of the threads own: they are converted where all are needed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilejit as tj
from tests.support.programs import source_of
from tilejit import R, S, TileLayout, laneid, tx
from tilejit.runtime.device import Device

Array = np.ndarray


@tj.function
def summed(a, b):
    return a + b


@tj.function
def summed_and_greatest(a, b):
    return a[0] + b[0], tj.maximum(a[1], b[1])


#: (8, 64): a column a thread; 4 rows and 16 columns; registers along the columns; of a CTA across its two warps
LAYOUTS = {
    "columns": ("warp", 32, S[(8, 2, 32) : (2, 1, 1 @ laneid)]),
    "blocks": ("warp", 32, S[(2, 4, 8, 8) : (8, 8 @ laneid, 1 @ laneid, 1)]),
    "rows": ("warp", 32, S[(8, 64) : (4 @ laneid, 1)] + R[4 : 1 @ laneid]),
    "warps": ("cta", 64, S[(8, 64) : (1, 1 @ tx)]),
}

#: parts of x, which is (8, 64)
PARTS = ["x[:, 0:20]", "x[:, 32:64]", "x[2:5, 3:40]", "x[5, 7:9]", "x.T[9:50, 1:8]", "tj.split(x, 4, axis=1)[1]"]

#: what is computed of a part p, with q as large
USES: dict[str, Callable[[Array, Array], Any]] = {
    "p * 2 + q": lambda p, q: p * 2 + q,
    "tj.sum(p, axis=0)": lambda p, q: p.sum(axis=0),
    "tj.max(p, axis=-1)": lambda p, q: p.max(axis=-1),
    "tj.argmin(p, axis=-1)": lambda p, q: p.argmin(axis=-1),
    "p - tj.sum(p, axis=-1, keepdims=True)": lambda p, q: p - p.sum(axis=-1, keepdims=True),
    "tj.reduce(p, 0, summed)": lambda p, q: p.sum(axis=0),
    "tj.reduce((p, q), -1, summed_and_greatest)[1]": lambda p, q: q.max(axis=-1),
    "tj.where(p > 0, p, q)": lambda p, q: np.where(p > 0, p, q),
}


def _numpy_part(part: str, x: Array) -> Array:
    made: Array = eval(part.replace("tj.split", "np.split"), {"np": np, "x": x})
    return made


#: each part with two layouts, each layout with three parts
PAIRS = [(part, name) for i, part in enumerate(PARTS) for j, name in enumerate(LAYOUTS) if (i + j) % 2 == 0]


@pytest.mark.parametrize(("part", "name"), PAIRS)
def test_what_is_computed_of_a_part_is_numpys(part: str, name: str, device: Device) -> None:
    scope, threads, layout = LAYOUTS[name]
    generator = np.random.default_rng(5)
    x = generator.integers(-99, 99, (8, 64)).astype(np.float32)
    p = _numpy_part(part, x)
    q = generator.integers(-99, 99, p.shape).astype(np.float32)
    wanted = [np.asarray(meaning(p, q), np.float32) for meaning in USES.values()]
    box = ", ".join(f"0:{n}" for n in p.shape)
    lines = [
        f"    x = tj.{scope}.load(X[0:8, 0:64], layout=L)",
        f"    p, q = {part}, tj.{scope}.load(Q[{box}])",
    ]
    for k, (use, made) in enumerate(zip(USES, wanted, strict=True)):
        place = ", ".join([str(k), *(f"0:{n}" for n in made.shape or (1,))])
        tile = f"({use}).astype(tj.float32)" + ("" if made.shape else ".reshape((1,))")
        lines.append(f"    tj.{scope}.store(OUT{made.ndim or 1}[{place}], {tile})")
    text = "\n".join(["def k(X, Q, OUT1, OUT2):", *lines, ""])
    k = tj.kernel(threads=threads)(
        source_of(text, L=layout, summed=summed, summed_and_greatest=summed_and_greatest)
    )
    flat, square = np.full((len(USES), 64), -7, np.float32), np.full((len(USES), 64, 64), -7, np.float32)
    with tj.use_device(device.name):
        k[1](x, q, flat, square)
    for number, made in enumerate(wanted):
        out = (square if made.ndim == 2 else flat)[number]
        got = out[tuple(slice(0, n) for n in made.shape or (1,))]
        np.testing.assert_array_equal(got.reshape(made.shape), made, err_msg=list(USES)[number])
        assert np.count_nonzero(out != -7) == made.size - np.count_nonzero(made == -7)


@tj.kernel(threads=32)
def reduced(X: tj.Tensor, Y: tj.Tensor):
    """Of registers in the order 0, 3, 1, 4, 2, 5 no digit has the middle ones."""
    x = tj.warp.load(X[0:6], layout=S[(3, 2) : (1, 3)] + R[32 : 1 @ laneid])
    tj.warp.store(Y[0:1], tj.sum(x[3:6]).reshape((1,)))
    tj.warp.store(Y[1:2], tj.max(x[1:4]).reshape((1,)))
    tj.warp.store(Y[2:3], tj.argmin(x[2:5], axis=0).astype(tj.float32).reshape((1,)))


def test_a_part_of_no_digit_is_reduced(device: Device) -> None:
    x, y = np.array([5, 1, 4, 2, 3, 9], np.float32), np.zeros(3, np.float32)
    with tj.use_device(device.name):
        reduced[1](x, y)
    assert y.tolist() == [14, 4, 1]


#: registers in the order 0, 4, 1, 5, 2, 6: x of six and y of zeros lie so, and m is where x is above 2
#: statement -> what y holds after it
NO_DIGIT: dict[str, Callable[[Array], Array | list[int]]] = {
    "tj.warp.fill(y[1:5], 7)": lambda x: [0, 7, 7, 7, 7, 0],
    "tj.warp.add(y[1:5], y[1:5], 1)": lambda x: [0, 1, 1, 1, 1, 0],
    "tj.warp.add(y[1:5], x[0:4], y[2:6])": lambda x: np.pad(x[0:4], 1),
    "tj.warp.cast(y[1:5], x[1:5])": lambda x: np.pad(x[1:5], 1),
    "tj.warp.where(y[1:5], m[1:5], x[2:6], 8)": lambda x: np.pad(np.where(x[1:5] > 2, x[2:6], 8), 1),
    "tj.atomic.add(Y[0:4], x[1:5], mask=m[0:4])": lambda x: np.pad(np.where(x[0:4] > 2, x[1:5], 0), (0, 2)),
    "tj.atomic.add(Y[0:4], x[1:5])": lambda x: np.pad(x[1:5], (0, 2)),
    "tj.warp.store(Y[0:4], x[1:5], mask=m[1:5])": lambda x: np.pad(np.where(x[1:5] > 2, x[1:5], 0), (0, 2)),
    "tj.warp.store(Y[0:4], x[1:5], mask=Y[0] == 0)": lambda x: np.pad(x[1:5], (0, 2)),
}


@pytest.mark.parametrize("statement", NO_DIGIT)
def test_a_part_of_no_digit_is_converted_for_any_operation(statement: str, device: Device) -> None:
    text = f"""def k(X, Y):
    x, y = tj.warp.load(X[0:6], layout=L), tj.alloc_local((6,), X.dtype, layout=L)
    m = x > 2
    tj.warp.fill(y, 0)
    {statement}
    {'tj.warp.store(Y[0:6], y)' if '(y[' in statement else 'pass'}
"""
    x, y = np.array([1, 5, 2, 4, 3, 9], np.int32), np.zeros(6, np.int32)
    kernel = tj.kernel(threads=32)(source_of(text, L=S[(3, 2) : (1, 4)] + R[32 : 1 @ laneid]))
    with tj.use_device(device.name):
        kernel[1](x, y)
    np.testing.assert_array_equal(y, NO_DIGIT[statement](x))


@tj.kernel(threads=32)
def changed(X: tj.Tensor, Y: tj.Tensor, sums: tj.Tensor, bins: tj.Tensor, rows: tj.Tensor):
    layout = S[(8, 2, 32) : (2, 1, 1 @ laneid)]
    x = tj.alloc_local((8, 64), tj.float32, layout=layout)
    y = tj.alloc_local((8, 64), tj.float32, layout=layout)
    tj.warp.copy(x, X[0:8, 0:64])
    tj.warp.fill(y, 1.0)
    tj.warp.add(y[:, 0:20], x[:, 0:20], x[:, 12:32])
    tj.warp.fill(y[2:4, 30:50], 5.0)
    tj.warp.sum(y[:, 63], x, axis=1)
    s = tj.alloc_local((8,), tj.float32, layout=S[(8,) : (1,)] + R[32 : 1 @ laneid])
    tj.warp.sum(s, x[:, 3:20], axis=1)
    tj.warp.store(Y[0:8, 0:64], y)
    tj.warp.store(sums[0:8], s)
    tj.atomic.add(bins[0:8, 0:20], x[:, 12:32])
    tj.warp.store(Y[8:16, 0:20], x[:, 0:20], mask=x[:, 12:32] > 0)
    order = tj.warp.load(rows[0:32], layout=S[(32,) : (1 @ laneid,)])
    tj.warp.store(Y.at(order[3:8])[:, 0:64], x[0:5, :])


def test_operations_with_a_destination_take_and_write_parts(device: Device) -> None:
    generator = np.random.default_rng(6)
    x = generator.integers(-99, 99, (8, 64)).astype(np.float32)
    y, sums, bins = np.zeros((24, 64), np.float32), np.zeros(8, np.float32), np.ones((8, 20), np.float32)
    rows = np.arange(32, dtype=np.int32)[::-1] % 5 + 16
    expected = np.zeros((24, 64), np.float32)
    expected[0:8] = 1
    expected[0:8, 0:20] = x[:, 0:20] + x[:, 12:32]
    expected[2:4, 30:50] = 5
    expected[0:8, 63] = x.sum(axis=1)
    expected[8:16, 0:20] = np.where(x[:, 12:32] > 0, x[:, 0:20], 0)
    expected[rows[3:8]] = x[0:5]
    with tj.use_device(device.name):
        changed[1](x, y, sums, bins, rows)
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(sums, x[:, 3:20].sum(axis=1))
    np.testing.assert_array_equal(bins, x[:, 12:32] + 1)


def _explained(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    text = f"def k(X, Y):\n    x = tj.warp.load(X[0:8, 0:64], layout=L)\n{body}"
    k = tj.kernel(threads=32)(source_of(text, L=LAYOUTS["columns"][2], M=LAYOUTS["blocks"][2]))
    tensors = [tj.spec((8, 64), tj.float32)] * 2
    return str(k.explain(*tensors, target="sm_90a"))


def test_explain_shows_the_conversion_and_only_where_there_is_one() -> None:
    cut = _explained("tj.warp.store(Y[0, 0:8], tj.max(x[:, 0:20], axis=1))")
    whole = _explained("tj.warp.store(Y[0, 0:8], tj.max(x, axis=1))")
    assert re.search(r":3 +warp.copy +through_shared .*\n.*:3 +warp.max", cut)
    assert re.search(r":3 +warp.max", whole) and not re.search("warp.copy +(shuffle|through_shared)", whole)


def test_operands_in_two_given_layouts_are_converted() -> None:
    listed = [
        _explained(f"y = tj.warp.load(Y[0:8, 0:64], layout={name})", "tj.warp.store(Y[0:8, 0:64], x + y)")
        for name in "LM"
    ]
    assert [sum("warp.copy" in line for line in text.split("\n\n")[1].splitlines()) for text in listed] == [3, 4]


#: (8, 2) tiles of which only some lanes have a part: from, to
SOME_LANES = [
    (S[(8, 2) : (4 @ laneid, 1)], S[(8, 2) : (4 @ laneid, 2)]),
    (S[(8, 2) : (1 @ laneid, 1)] + R[4 : 8 @ laneid], S[(8, 2) : (1 @ laneid, 1)]),
    (S[(8, 2) : (2 @ laneid, 1)], S[(8, 2) : (1 @ laneid, 8 @ laneid)]),
]


@pytest.mark.parametrize(("before", "after"), SOME_LANES)
def test_tiles_of_some_lanes_are_converted(before: TileLayout, after: TileLayout, device: Device) -> None:
    text = (
        "def k(X, Y):\n"
        "    x, y = tj.alloc_local((8, 2), X.dtype, layout=A), tj.alloc_local((8, 2), X.dtype, layout=B)\n"
        "    tj.warp.copy(x, X[0:8, 0:2])\n    tj.warp.copy(y, x)\n    tj.warp.copy(Y[0:8, 0:2], y)\n"
    )
    x, y = np.arange(16, dtype=np.float32).reshape(8, 2), np.zeros((8, 2), np.float32)
    kernel = tj.kernel(threads=32)(source_of(text, A=before, B=after))
    with tj.use_device(device.name):
        kernel[1](x, y)
    np.testing.assert_array_equal(y, x)


@tj.kernel(threads=32)
def one_column(X: tj.Tensor, Y: tj.Tensor):
    y = tj.alloc_local((8, 64), tj.float32, layout=S[(8, 2, 32) : (2, 1, 1 @ laneid)])
    tj.warp.fill(y, 1.0)
    # every lane has the column, and lane 31 has the place: the other lanes keep what they have in that register
    tj.warp.copy(y[:, 63], tj.warp.load(X[0:8], layout=S[(8,) : (1,)] + R[32 : 1 @ laneid]))
    tj.warp.store(Y[0:8, 0:64], y)


def test_a_copy_to_a_part_leaves_the_rest_as_it_was(device: Device) -> None:
    x, y = np.arange(8, dtype=np.float32), np.zeros((8, 64), np.float32)
    with tj.use_device(device.name):
        one_column[1](x, y)
    expected = np.ones((8, 64), np.float32)
    expected[:, 63] = x
    np.testing.assert_array_equal(y, expected)
    verdict = one_column.explain(tj.spec((8,), tj.float32), tj.spec((8, 64), tj.float32), target="sm_90a")
    assert "not rename: the registers that are written also hold 248 values outside the region" in str(verdict)


#: (rows, columns) that are gathered, the layout of their tile, that of the index, that of shared memory
GATHERED = {
    "8 of 32 lanes": (8, 48, S[(8, 48) : (1 @ laneid, 1)], "", ""),
    "24 of 32 lanes": (8, 48, S[(8, 3, 16) : (1 @ laneid, 8 @ laneid, 1)], "", ""),
    "columns of 12 against 16": (
        8, 48, S[(8, 2, 2, 12) : (4 @ laneid, 2 @ laneid, 1 @ laneid, 1)], "", "S[(32, 3, 16) : (16, 512, 1)]",
    ),
    "an index in other lanes": (8, 32, S[(8, 4, 8) : (4 @ laneid, 1 @ laneid, 1)], "S[8 : 1 @ laneid]", ""),
    "an index in all lanes": (8, 32, S[(8, 4, 8) : (4 @ laneid, 1 @ laneid, 1)], "S[8 : 1] + R[32 : 1 @ laneid]", ""),
}


@pytest.mark.parametrize("name", GATHERED)
def test_gathers_go_to_tiles_of_any_layout(name: str, device: Device) -> None:
    rows, columns, layout, of_index, of_memory = GATHERED[name]
    by_hand = f", layout={of_index}" if of_index else ""
    memory = f"tj.alloc_shared((32, 48), X.dtype, layout={of_memory})" if of_memory else "X"
    text = f"""def k(X, Y, I):
    memory = {memory}
    if {bool(of_memory)}:
        tj.warp.copy(memory, X[0:32, 0:48])
        tj.cta_sync()
    i = tj.warp.load(I[0:{rows}]{by_hand})
    mask = tj.warp.indices(({rows}, {columns}), axis=1) < {columns - 3}
    x = tj.warp.load(memory.at(i)[:, 0:{columns}], layout=L, mask=mask, fill=-1)
    y = tj.warp.load(memory.at(3)[0:{columns}], layout=S[({columns},) : (1,)] + R[32 : 1 @ laneid])
    tj.warp.store(Y.at(i + 1)[:, 0:{columns}], x)
    tj.warp.store(Y.at(0)[0:{columns}], y)
"""
    x, order = np.arange(32 * 48, dtype=np.float32).reshape(32, 48), np.array([5, 9, 2, 30, 17, 7, 0, 22], np.int32)
    expected = np.zeros((32, 48), np.float32)
    expected[order + 1, :columns] = x[order, :columns]
    expected[order + 1, columns - 3 : columns] = -1
    expected[0, :columns] = x[3, :columns]
    k, y = tj.kernel(threads=32)(source_of(text, L=layout, S=S, R=R, laneid=laneid)), np.zeros((32, 48), np.float32)
    with tj.use_device(device.name):
        k[1](x, y, order)
    np.testing.assert_array_equal(y, expected)


def test_an_index_outside_is_found_for_tiles_of_any_layout() -> None:
    text = "def k(X, Y, I):\n    x = tj.warp.load(X.at(tj.warp.load(I[0:8]))[:, 0:48], layout=L)\n"
    k = tj.kernel(threads=32)(source_of(text, L=GATHERED["8 of 32 lanes"][2]))
    order = np.array([5, 9, 2, 30, 32, 7, 0, 22], np.int32)
    with tj.use_device("sim"), pytest.raises(tj.OutOfBoundsError, match="index 32 is outside dimension 0 of X"):
        k[1](np.zeros((32, 48), np.float32), np.zeros((32, 48), np.float32), order)
