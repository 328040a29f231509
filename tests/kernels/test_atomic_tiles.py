"""Atomic updates of regions by tiles: against NumPy, old values, vectors of `red`, masks, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilejit as tj
from tests.support.programs import source_of
from tests.support.ptxas import ptxas_accepts

EXTENTS = st.sampled_from((1, 2, 3, 5, 8, 16, 31, 32))
INTEGERS = ("int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
MEANINGS = {
    "add": np.add, "sub": np.subtract, "max": np.maximum, "min": np.minimum, "and_": np.bitwise_and,
    "or_": np.bitwise_or, "xor": np.bitwise_xor,
}


@st.composite
def updates(draw: st.DrawFn) -> dict[str, Any]:
    scope, threads = draw(st.sampled_from((("thread", 1), ("warp", 32), ("warpgroup", 128), ("cta", 48), ("cta", 128))))
    shape = draw(st.lists(EXTENTS, min_size=1, max_size=2).map(tuple).filter(lambda s: math.prod(s) <= 512))
    if scope == "thread":
        shape = tuple(min(n, 5) for n in shape)
    name = draw(st.sampled_from(tuple(MEANINGS)))
    dtype = draw(st.sampled_from(INTEGERS if name in ("and_", "or_", "xor") else (*INTEGERS, *FLOATS)))
    gathered, masked = draw(st.booleans()), draw(st.booleans())
    value = draw(st.sampled_from(("tile", "row", "column", *(["scalar"] if gathered or masked else []))))
    return {
        "scope": scope, "threads": threads, "shape": shape, "name": name, "dtype": dtype, "value": value,
        "gathered": gathered, "masked": masked, "returned": draw(st.booleans()),
        "space": draw(st.sampled_from(("global", "shared"))), "target": draw(st.sampled_from(("sm_80", "sm_90a"))),
        "seed": draw(st.integers(0, 2**32 - 1)), "rows": draw(st.integers(1, 40)),
    }


def value_shape(case: dict[str, Any]) -> tuple[int, ...]:
    first, *others = case["shape"]
    return {"tile": case["shape"], "row": tuple(others) or (first,), "column": (first, *(1 for _ in others))}.get(
        case["value"], (1,)
    )


def box(shape: tuple[int, ...]) -> str:
    return ", ".join(f"0:{extent}" for extent in shape)


def kernel_of(case: dict[str, Any]) -> Any:
    scope, shape, size = case["scope"], case["shape"], (case["rows"], *case["shape"][1:])
    lines = ["def updated(P, V, I, M, O):"]
    memory = "P"
    if case["space"] == "shared":
        memory = "s"
        lines += [f"    s = tj.alloc_shared({size}, P.dtype)", f"    tj.cta.copy(s, P[{box(size)}])"]
        lines += ["    tj.cta_sync()"]
    value = f"tj.{scope}.load(V[{box(value_shape(case))}])"
    value = "V[0]" if case["value"] == "scalar" else value
    columns = "".join(f", 0:{n}" for n in shape[1:])
    place = f"{memory}[0:{shape[0]}{columns}]"
    if case["gathered"]:
        place = f"{memory}.at(tj.{scope}.load(I[0:{shape[0]}]))" + (f"[:{columns}]" if columns else "")
    units = ", None" * (len(shape) - 1)
    mask = f", mask=(tj.{scope}.load(M[0:{shape[0]}]) != 0)[:{units}]" if case["masked"] else ""
    lines += [f"    old = tj.atomic.{case['name']}({place}, {value}{mask})"]
    lines += [f"    tj.{scope}.store(O[{box(shape)}], old)"] if case["returned"] else []
    if case["space"] == "shared":
        lines += ["    tj.cta_sync()", f"    tj.cta.copy(P[{box(size)}], s)"]
    return tj.kernel(threads=case["threads"])(source_of("\n".join(lines) + "\n"))


@given(case=updates())
def test_a_region_is_updated_as_numpy_does(case: dict[str, Any]) -> None:
    if not case["gathered"]:
        case = {**case, "rows": case["shape"][0]}
    random, dtype = np.random.default_rng(case["seed"]), np.dtype(case["dtype"])
    p = random.integers(0, 20, (case["rows"], *case["shape"][1:])).astype(dtype)
    v = random.integers(0, 4, value_shape(case)).astype(dtype)
    index = random.integers(0, case["rows"], case["shape"][0]) if case["gathered"] else np.arange(case["shape"][0])
    mask = random.integers(0 if case["masked"] else 1, 2, case["shape"][0])
    # an index that is masked off may lie outside
    indices = np.where(mask != 0, index, -5).astype(np.int32)
    o, result = np.full(case["shape"], 77).astype(dtype), p.copy()
    with tj.use_device(f"sim:{case['target']}"):
        kernel_of(case)[1](result, v, indices, mask.astype(np.int32), o)
    values = np.broadcast_to(v if case["value"] != "scalar" else v.ravel()[0], case["shape"])
    # numbers are small and whole, so that no order of additions rounds
    wide = np.float64 if dtype.kind not in "iu" else dtype
    wanted, some = p.astype(wide), mask != 0
    MEANINGS[case["name"]].at(wanted, index[some], values[some].astype(wide))
    np.testing.assert_array_equal(result.astype(wide), wanted.astype(dtype).astype(wide))
    if case["returned"] and len(set(index[some])) == some.sum():
        olds = np.where(some.reshape(-1, *[1] * (p.ndim - 1)), p[index], np.zeros((), dtype))
        np.testing.assert_array_equal(o.astype(wide), olds.astype(wide))


@tj.kernel(threads=128)
def slots(C: tj.Tensor, X: tj.Tensor, Y: tj.Tensor):
    taken = tj.atomic.add(C[0:8], tj.cta.indices((8,), 0))
    x = tj.cta.load(X[0:8, 0:64])
    tj.cta.store(Y[0:8, 0:64], x + taken[:, None])


def test_old_values_reach_all_that_hold_the_same_element() -> None:
    c, x, y = np.arange(8, dtype=np.int32) * 10, np.ones((8, 64), np.int32), np.zeros((8, 64), np.int32)
    slots[1](c, x, y)
    np.testing.assert_array_equal(c, np.arange(8) * 11)
    np.testing.assert_array_equal(y, np.arange(8)[:, None] * 10 + np.ones((8, 64), int))


@tj.kernel(threads=64)
def swapped(P: tj.Tensor, X: tj.Tensor, Y: tj.Tensor):
    index = tj.cta.load(X[0:16])
    won = tj.atomic.cas(P.at(index), 0, index + 1, order="acq_rel", scope="cta") == 0
    tj.cta.store(Y[0, 0:16], tj.where(won, 1, 0))
    tj.cta.store(Y[1, 0:16], tj.atomic.exch(P.at(index), tj.cta.full((16,), 9, tj.int32), mask=won))


def test_of_equal_indices_one_wins_a_compare_and_swap() -> None:
    p, index, o = np.zeros(8, np.int32), np.arange(16, dtype=np.int32) % 5, np.zeros((2, 16), np.int32)
    swapped[1](p, index, o)
    assert [o[0][index == k].sum() for k in range(5)] == [1] * 5
    np.testing.assert_array_equal(o[1], np.where(o[0] == 1, index + 1, 0))
    np.testing.assert_array_equal(p, [9] * 5 + [0] * 3)


@tj.kernel(threads=32)
def counted(X: tj.Tensor, H: tj.Tensor, n: tj.int32):
    s = tj.alloc_shared((16,), tj.int32)
    tj.cta.fill(s, 0)
    tj.cta_sync()
    tj.atomic.add(s.at(tj.cta.load(X[0:100])), 1, mask=tj.cta.indices((100,), 0) < n)
    tj.cta_sync()
    tj.atomic.add(H[0:16], tj.cta.load(s))
    tj.atomic.add(H[16], 1, mask=tj.thread_id() < 5)


def test_a_constant_reaches_the_instruction_and_masks_hold() -> None:
    x, h = np.random.default_rng(3).integers(0, 16, 100).astype(np.uint8), np.zeros(17, np.int32)
    counted[1](x, h, 93)
    np.testing.assert_array_equal(h, [*np.bincount(x[:93], minlength=16), 5])
    ptx = counted.compile(x, h, 93, target="sm_90a").ptx
    assert "red.shared.add.u32" in ptx and "], 1;" in ptx
    ptxas_accepts(ptx, "sm_90a")


@tj.kernel(threads=64)
def summed(P: tj.Tensor, X: tj.Tensor):
    tj.atomic.add(P[0:16, 0:64], tj.cta.load(X[0:16, 0:64]))


@tj.kernel(threads=64)
def summed_shared(P: tj.Tensor, X: tj.Tensor):
    s = tj.alloc_shared((16, 64), P.dtype)
    tj.cta.copy(s, P[0:16, 0:64])
    tj.cta_sync()
    tj.atomic.add(s, tj.cta.load(X[0:16, 0:64]))
    tj.cta_sync()
    tj.cta.copy(P[0:16, 0:64], s)


@pytest.mark.parametrize(
    ("kernel", "dtype", "columns", "target", "instruction"),
    [
        (summed, np.float32, 64, "sm_90a", "red.global.add.v4.f32"),
        (summed, np.float32, 66, "sm_90a", "red.global.add.v2.f32"),
        (summed, np.float32, 64, "sm_80", "red.global.add.f32"),
        (summed, np.float16, 64, "sm_90a", "red.global.add.noftz.v4.f16x2"),
        (summed, np.float16, 66, "sm_90a", "red.global.add.noftz.f16x2"),
        (summed, np.float16, 65, "sm_90a", "red.global.add.noftz.f16 "),
        (summed, np.float16, 64, "sm_80", "red.global.add.noftz.f16x2"),
        (summed, ml_dtypes.bfloat16, 64, "sm_90a", "red.global.add.noftz.v4.bf16x2"),
        (summed, ml_dtypes.bfloat16, 68, "sm_90a", "red.global.add.noftz.v2.bf16x2"),
        (summed, ml_dtypes.bfloat16, 64, "sm_80", "atom.global.cas.b16"),
        (summed, np.int32, 64, "sm_90a", "red.global.add.u32"),
        (summed_shared, np.float16, 64, "sm_80", "red.shared.add.noftz.f16x2"),
        (summed_shared, ml_dtypes.bfloat16, 64, "sm_90a", "red.shared.add.noftz.bf16x2"),
        (summed_shared, np.float32, 64, "sm_90a", "red.shared.add.f32"),
    ],
)
def test_sums_go_by_the_widest_instruction(
    kernel: Any, dtype: Any, columns: int, target: str, instruction: str
) -> None:
    x = (np.arange(16 * columns) % 7).astype(dtype).reshape(16, columns)
    p, wanted = np.ones_like(x), np.ones_like(x)
    wanted[:, :64] += x[:, :64]
    with tj.use_device(f"sim:{target}"):
        kernel[1](p, x)
    np.testing.assert_array_equal(p.astype(np.float64), wanted.astype(np.float64))
    made = kernel.compile(p, x, target=target)
    assert instruction in made.ptx
    ptxas_accepts(made.ptx, target)
    (row,) = [row for row in made.explain().rows if row.variant == "update"]
    assert row.instructions[0][0] == instruction.strip()


def test_a_region_past_the_edge_is_an_error_in_checked_builds() -> None:
    with tj.use_device("sim"), pytest.raises(tj.OutOfBoundsError) as caught:
        summed[1](np.zeros((16, 63), np.float32), np.zeros((16, 64), np.float32))
    assert "[0 : 64] leaves dimension 1 of P, whose extent is 63" in str(caught.value)


@tj.kernel(threads=64)
def masked_at_edges(H: tj.Tensor, M: tj.Tensor, rows: tj.Tensor, n: tj.int32, m: tj.int32):
    mask = tj.cta.load(M[0:4, 0:16]) != 0
    value = tj.cta.full((4, 16), 1, tj.float32)
    tj.atomic.add(H[n : n + 4, m : m + 16], value, mask=mask)
    tj.atomic.add(H.at(tj.cta.load(rows[0:4]))[:, m : m + 16], value, mask=mask)


#: first row, first column, rows of the mask, columns of the mask, and what lies outside: (index, dimension)
AT_EDGES = [
    (4, 24, slice(0, 4), slice(0, 16), None),
    (4, 30, slice(0, 4), slice(0, 10), None),
    (4, 30, slice(0, 4), slice(0, 11), (40, 1)),
    (6, 0, slice(0, 2), slice(0, 16), None),
    (6, 0, slice(0, 3), slice(3, 4), (8, 0)),
    (-2, 0, slice(2, 4), slice(0, 16), None),
    (-2, 0, slice(1, 4), slice(0, 16), (-1, 0)),
    (0, -5, slice(0, 4), slice(5, 16), None),
    (0, -5, slice(0, 4), slice(4, 16), (-1, 1)),
]


@pytest.mark.parametrize(("row", "column", "rows", "columns", "outside"), AT_EDGES)
def test_a_masked_update_is_checked_by_the_extents(
    row: int, column: int, rows: slice, columns: slice, outside: tuple[int, int] | None
) -> None:
    # next to the tensor there is memory, in which an address past an edge lies
    whole, mask = np.zeros((12, 60), np.float32), np.zeros((4, 16), np.int32)
    h = whole[2:10, 10:50]
    mask[rows, columns] = 1
    index = np.clip(row + np.arange(4), 0, 7).astype(np.int32)
    with tj.use_device("sim"):
        if outside is not None:
            with pytest.raises(tj.OutOfBoundsError, match=f"index {outside[0]} is outside dimension {outside[1]} of H"):
                masked_at_edges[1](h, mask, index, row, column)
            return
        masked_at_edges[1](h, mask, index, row, column)
    assert whole.sum() == h.sum() == 2 * mask.sum()


@pytest.mark.parametrize("rows", [2, 3, 40])
def test_masked_updates_may_name_a_region_that_lies_outside(rows: int) -> None:
    # a row a register: few rounds are written out, each with its address
    text = f"""def k(M: tj.Tensor, H: tj.Tensor = tj.spec((1, 32), tj.float32)):
    row = tj.S[({rows}, 32) : (1, 1 @ tj.laneid)]
    ones = tj.warp.full(({rows}, 32), 1, tj.float32, layout=row)
    tj.atomic.add(H[0:{rows}, 0:32], ones, mask=tj.warp.load(M[0:{rows}, 0:32], layout=row))
    tj.atomic.add(H[0:{rows}, 0:32], ones, mask=tj.warp.indices(({rows}, 32), 0, layout=row) < 1)
    tj.warp.store(tj.assume_in_bounds(H[5:{5 + rows}, 0:32]), ones, mask=tj.warp.load(M[1 : {1 + rows}, 0:32]))
"""
    k = tj.kernel(threads=32)(source_of(text))
    mask, h = np.zeros((rows + 1, 32), np.bool_), np.zeros((1, 32), np.float32)
    mask[0] = True
    with tj.use_device("sim"):
        k[1](mask, h)
    np.testing.assert_array_equal(h, 2)


@pytest.mark.parametrize("place", ["H[8:16, 0:4]", "H[0:8, 1:5]", "H[-1:7, 0:4]", "H.at(i)[:, 1:5]"])
def test_updates_of_what_is_sure_to_lie_outside_are_refused(place: str) -> None:
    text = f"""def k(H: tj.Tensor = tj.spec((8, 4), tj.float32)):
    i = tj.cta.indices((8,), 0)
    tj.atomic.add({place}, tj.cta.full((8, 4), 1, tj.float32))
"""
    message = r"dimension [01] of H has [48] elements; accessing [48] from (8|1|-1) is out of bounds"
    with pytest.raises(tj.KernelTypeError, match=message):
        tj.kernel(threads=32)(source_of(text)).compile(tj.spec((8, 4), tj.float32), target="sm_90a")


@pytest.mark.parametrize("pinned", ["", " = tj.spec((3, 40), tj.float32)"])
def test_an_update_of_more_rows_than_there_are_is_outside_wherever_it_begins(pinned: str) -> None:
    # one row more than there are, and several: what remains after the region's start is below 0 then
    text = f"""def k(n: tj.int32, H: tj.Tensor{pinned}):
    if n < 10:
        tj.atomic.add(H[n : n + 4, 0:32], tj.warp.full((4, 32), 1, tj.float32))
    else:
        tj.atomic.add(H[n - 10 : n - 1, 0:32], tj.warp.full((9, 32), 1, tj.float32))
"""
    k = tj.kernel(threads=32)(source_of(text))
    whole = np.zeros((64, 40), np.float32)
    with tj.use_device("sim"):
        for n, rows in ((-1, "-1 : 3"), (0, "0 : 4"), (1, "1 : 5"), (10, "0 : 9"), (12, "2 : 11"), (15, "5 : 14")):
            with pytest.raises(tj.OutOfBoundsError, match=rf"\[{rows}\] leaves dimension 0 of H, whose extent is 3"):
                k[1](n, whole[20:23])
    assert not whole.any()


def test_masked_updates_that_are_proved_inside_are_not_checked() -> None:
    text = """def k(H: tj.Tensor = tj.spec((8, 40), tj.float32)):
    tj.atomic.add(H[0:4, 8:24], tj.cta.full((4, 16), 1, tj.float32), mask=tj.cta.indices((4, 16), 0) < 2)
"""
    k = tj.kernel(threads=64, debug=True)(source_of(text))
    assert "is_wrong" not in str(k.compile(tj.spec((8, 40), tj.float32), target="sm_90a").lane_ir)


#: statements -> what P, (4, 8) of zeros, holds after them; x is (2, 8) from 0 on, and i is 1
PARTS = {
    "tj.atomic.add(P[0:1, 0:3], x[0:1, 5:8])": lambda p, x: np.add(p[0:1, 0:3], x[0:1, 5:8], out=p[0:1, 0:3]),
    "tj.atomic.max(P[0:2, 0:1], x.T[6:8, 0:1])": lambda p, x: np.maximum(p[0:2, 0:1], x.T[6:8, 0:1], out=p[0:2, 0:1]),
    "tj.atomic.add(P.at(i)[0:3], x[0, 5:8], mask=i > 0)": lambda p, x: np.add(p[1, 0:3], x[0, 5:8], out=p[1, 0:3]),
    "tj.cta.store(P.at(i)[0:3], x[0, 5:8])": lambda p, x: np.copyto(p[1, 0:3], x[0, 5:8]),
}


@pytest.mark.parametrize("threads", [48, 128])
@pytest.mark.parametrize("statement", PARTS)
def test_a_part_that_some_threads_own_updates_memory(statement: str, threads: int) -> None:
    """A mask that lies elsewhere in the same axis has the tile's rows spread over the threads."""
    kernel = tj.kernel(threads=threads)(source_of(
        "def kernel(X, P, O, i):\n"
        "    x = tj.cta.load(X[0:2, 0:8])\n"
        f"    {statement}\n"
        "    tj.cta.store(O[0:3, 0:1], x.T[4:7, 1:2], mask=x.T[5:8, 0:1] > 3)\n"
    ))
    x, wanted, o = np.arange(16, dtype=np.int32).reshape(2, 8), np.zeros((4, 8), np.int32), np.zeros((3, 1), np.int32)
    got = wanted.copy()
    kernel[1](x, got, o, 1)
    PARTS[statement](wanted, x)
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(o, x.T[4:7, 1:2])
