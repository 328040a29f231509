"""Every product of a warpgroup against NumPy: int-valued factors, whose sums are exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilejit as tj
from tests.kernels.chained_products import Chain, chains
from tests.lower.running import Run
from tests.support.drafts import Operation
from tests.support.orders import EVERY_ORDER, Order
from tilejit.dtypes import DType, float32, int64
from tilejit.ir import allocation
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import Buffer, Region, TileOp
from tilejit.isa.wgmma import FactorPlace, Product, products
from tilejit.layout import TileLayout, swizzled_atom_layout, warpgroup
from tilejit.layout.swizzle import SWIZZLE_BITS
from tilejit.runtime.device import Device
from tilejit.target import target

#: every product with few columns, and some with more
EVERY = [each for each in products() if each.n in (8, 24)]
SAMPLE = EVERY[::7]


def whole(name: str, space: str, dtype: DType, shape: tuple[int, ...], layout: TileLayout) -> Region:
    buffer = Buffer(name, space, dtype, shape, layout, allocation.alignment(space, dtype, layout))
    return Region(buffer, tuple(build.const(0, int64) for _ in shape), shape)


def stored(name: str, dtype: DType, rows: int, columns: int, *, turned: bool) -> Region:
    """A factor of (rows, columns), stored as (columns, rows) where it is turned, in the widest swizzle that fits."""
    held = (columns, rows) if turned else (rows, columns)
    if held[1] * dtype.bytes % 32:
        # a part of rows of 128 bytes
        return replace(stored(name, dtype, rows, 128 // dtype.bytes, turned=turned), extents=(rows, columns))
    mode = max((m for m in SWIZZLE_BITS if held[1] * dtype.bytes % (16 << SWIZZLE_BITS[m]) == 0), key=SWIZZLE_BITS.get)
    layout = swizzled_atom_layout(held, dtype.bits, mode)
    if turned:
        layout = layout.permute_groups((0, 1, len(layout.shard)), (1, 0))
    return whole(name, "shared", dtype, (rows, columns), layout)


def operation(one: Product, blocks: int = 1, steps: int = 2) -> Operation:
    """A product of `blocks` times 64 rows, `one.n` columns and `steps` of k."""
    m, n, k = 64 * blocks, one.n, one.k * steps
    acc = whole("acc", "local", one.acc, (m, n), warpgroup.layout_c((m, n)))
    if one.a_place is FactorPlace.REGISTERS:
        a = whole("a", "local", one.a, (m, k), warpgroup.layout_a((m, k), one.a))
    else:
        a = stored("a", one.a, m, k, turned=one.a_place is FactorPlace.MN_MAJOR)
    b = stored("b", one.b, k, n, turned=one.b_place is FactorPlace.K_MAJOR)
    attrs = (("precision", "tf32"),) if one.a == float32 else ()
    op = TileOp("gemm_async", "warpgroup", (acc, a, b), (*attrs, ("variant", "wgmma")))
    return Operation(op, target("sm_90a"), 128, {})


def called(one: Product) -> str:
    return f"{one.opcode.rpartition('aligned.')[2]}.{one.a_place.value}.{one.b_place.value}"


@pytest.mark.parametrize("one", SAMPLE, ids=called)
def test_a_product_is_numpys(one: Product) -> None:
    Run(operation(one)).check()


@pytest.mark.long
@pytest.mark.parametrize("one", EVERY, ids=called)
def test_every_product_is_numpys(one: Product) -> None:
    Run(operation(one, blocks=2, steps=3), seed=1).check()


# whole kernels: a quarter as many as of other properties
@settings(max_examples=settings.default.max_examples // 4)
@given(chains(), st.sampled_from(EVERY_ORDER))
def test_any_two_products_one_after_the_other_are_numpys(hopper: Device, chain: Chain, order: Order) -> None:
    chain.runs(hopper, order)


@tj.kernel(threads=128, target="sm_90a")
def from_its_own_factor(X: tj.Tensor, Y: tj.Tensor, C: tj.Tensor):
    """The sums begin as what A is, in registers: two values in one, as far as LLVM knows."""
    b = tj.alloc_shared((64, 64), X.dtype, swizzle="128B")
    a = tj.alloc_local((64, 64), X.dtype, layout=tj.wgmma.layout_a((64, 64), X.dtype))
    acc = tj.alloc_local((64, 64), X.dtype, layout=tj.wgmma.layout_c((64, 64)))
    tj.wg.copy(b, Y[0:64, 0:64])
    tj.wg.copy(a, X[0:64, 0:64])
    tj.wg.copy(acc, a)
    tj.warpgroup_sync()
    tj.wg.gemm_async(acc, a, b)
    tj.wgmma.wait(0)
    tj.wg.copy(C[0:64, 0:64], acc)


def test_sums_and_factors_of_equal_values_have_registers_of_their_own() -> None:
    x, y = np.random.default_rng(0).integers(-2, 3, (2, 64, 64)).astype(np.float16)
    result = np.zeros_like(x)
    tj.simulate(from_its_own_factor, 1, x, y, result)
    np.testing.assert_array_equal(result, x @ y + x)


@tj.kernel(threads=128, target="sm_90a")
def parts_of_rows(
    A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, mode: tj.constexpr, first: tj.constexpr, part: tj.constexpr
):
    """Columns of A and rows of B from `first` on, in parts that begin inside the atoms' rows."""
    a = tj.alloc_shared((64, 128), A.dtype, swizzle=mode)
    b = tj.alloc_shared((64, 128), A.dtype, swizzle=mode)
    last = tj.alloc_shared((64, 128), A.dtype, swizzle=mode)
    acc = tj.alloc_local((64, 64), tj.float32, layout=tj.wgmma.layout_c((64, 64)))
    for s in (a, last):
        tj.wg.copy(s, A[0:64, 0:128])
    tj.wg.copy(b, B[0:64, 0:128])
    tj.warpgroup_sync()
    for k in range(first, 128 - part, part):
        tj.wg.gemm_async(acc, a[:, k : k + part], b[:, k : k + part].T, accumulate=k > first)
    tj.wg.gemm_async(acc, last[:, 128 - part :], b[:, 128 - part :].T)
    tj.wgmma.wait(0)
    tj.wg.copy(C[0:64, 0:64], acc)


@pytest.mark.parametrize(
    ("mode", "first", "part"), [("128B", 16, 16), ("128B", 32, 32), ("64B", 48, 16), ("32B", 64, 16)]
)
def test_k_begins_at_any_step_inside_an_atom(hopper: Device, mode: str, first: int, part: int) -> None:
    a, b = np.random.default_rng(first).integers(-3, 4, (2, 64, 128)).astype(np.float16)
    c = np.zeros((64, 64), np.float32)
    with tj.use_device("cuda" if hopper.number >= 0 else "sim:sm_90a"):
        parts_of_rows[1](a, b, c, mode, first, part)
    expected = a[:, first:].astype(np.float32) @ b[:, first:].astype(np.float32).T
    np.testing.assert_array_equal(c, expected)


@tj.kernel(threads=128, target="sm_90a")
def parts_between(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, k: tj.int32, last: tj.constexpr, begin: tj.constexpr):
    """Rows and columns that begin at a place of which only a part is known when this is compiled."""
    a = tj.alloc_shared((2, 128, 128), A.dtype, swizzle="128B")
    b = tj.alloc_shared((128, 64), A.dtype, swizzle="128B")
    acc = tj.alloc_local((64, 64), tj.float32, layout=tj.wgmma.layout_c((64, 64)))
    for s in tj.static_range(2):
        tj.wg.copy(a[s], A[0:128, 0:128])
    tj.wg.copy(b, B[0:128, 0:64])
    tj.warpgroup_sync()
    k = begin + 16 * min(max(k, 0), 3)
    row = 64 * min(max(k, 0), 1)
    tj.wg.gemm_async(acc, a[last, row : row + 64, k : k + 16], b[k : k + 16], accumulate=False)
    tj.wgmma.wait(0)
    tj.wg.copy(C[0:64, 0:64], acc)


@pytest.mark.parametrize(("last", "begin"), [(0, 64), (1, 0), (1, 64)])
def test_a_factor_begins_at_a_constant_beside_what_run_time_says(last: int, begin: int) -> None:
    a, b = (np.random.default_rng(n).integers(-3, 4, (128, n)).astype(np.float16) for n in (128, 64))
    for k in (0, 3):
        c = np.zeros((64, 64), np.float32)
        tj.simulate(parts_between, 1, a, b, c, k, last, begin)
        first = begin + 16 * k
        row = 64 * min(first, 1)
        expected = a[row : row + 64, first : first + 16].astype(np.float32) @ b[first : first + 16].astype(np.float32)
        np.testing.assert_array_equal(c, expected)
