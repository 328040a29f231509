"""`tj.matmul` of float32 in its precisions, and products of float64: whole kernels against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tilejit as tj
from examples import matmul_float32
from tests.support.goldens import Golden
from tests.support.profiles import times
from tests.support.ptxas import EmittedPtx
from tilejit.frontend.products import PRECISIONS
from tilejit.runtime.device import Device
from tilejit.testing import check

Array = np.ndarray

EXTENTS = st.sampled_from((1, 2, 3, 7, 8, 9, 13, 16, 17, 24, 32, 33))
SCOPES = {"cta": tj.cta, "warpgroup": tj.wg, "warp": tj.warp}

LARGEST = float(np.finfo(np.float32).max)


@tj.kernel(threads=128)
def product(
    A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, Start: tj.Tensor | None, s: tj.constexpr, SHAPE: tj.constexpr,
    P: tj.constexpr,
):
    M, N, K = SHAPE
    a, b = s.load(A[0:M, 0:K]), s.load(B[0:K, 0:N])
    if Start is not None:
        acc = s.load(Start[0:M, 0:N])
        acc += tj.matmul(a, b, precision=P)
        s.store(C[0:M, 0:N], acc)
    else:
        s.store(C[0:M, 0:N], tj.matmul(a, b, P))


def multiplied(
    a: Array, b: Array, precision: str | None, device: Device, start: Array | None = None, scope: Any = tj.cta
) -> Array:
    """The product, added to `start`."""
    (m, k), n = a.shape, b.shape[1]
    c = np.full((m, n), 77, a.dtype)
    with tj.use_device("cuda" if device.number >= 0 else "sim"):
        product[1](a, b, c, start, s=scope, P=precision, SHAPE=(m, n, k))
        device.synchronize()
    return c


def fma(a: Array, b: Array, c: Array) -> Array:
    """a · b + c, rounded once: the sum in float64 of the exact product is rounded to odd, so that a second rounding is
    right."""
    with np.errstate(all="ignore"):
        product, addend = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
        total = product + addend
        virtual = total - product
        rest = (product - (total - virtual)) + (addend - virtual)
        is_even = (total.view(np.int64) & 1) == 0
        moved = np.nextafter(total, np.where(rest > 0, np.inf, -np.inf))
        odd = np.where(np.isfinite(total) & (rest != 0) & is_even, moved, total)
        return np.asarray(odd.astype(np.float32))


def in_order(a: Array, b: Array, start: Array) -> Array:
    """acc = fma(a[k], b[k], acc) for each k in turn."""
    total = start
    for k in range(a.shape[1]):
        total = fma(a[:, k, None], b[None, k], total)
    return total


def any_floats(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Numbers near 1, a few of any magnitude, and rarely an infinity or NaN."""
    values = random.standard_normal(shape)
    bits = random.integers(0, 1 << 32, shape, dtype=np.uint32).view(np.float32)
    special = random.choice([0.0, -0.0, np.inf, -np.inf, np.nan, LARGEST, 1e-45], shape)
    kind = random.random(shape)
    return np.where(kind < 0.8, values, np.where(kind < 0.97, bits, special)).astype(np.float32)


@settings(max_examples=times(0.5))
@given(
    shape=st.tuples(EXTENTS, EXTENTS, EXTENTS), scope=st.sampled_from(list(SCOPES)), adds=st.booleans(),
    seed=st.integers(0, 99),
)
@example(shape=(33, 17, 33), scope="cta", adds=True, seed=0)
@example(shape=(16, 24, 8), scope="warp", adds=False, seed=0)
@example(shape=(1, 1, 1), scope="warpgroup", adds=False, seed=1)
def test_ieee_adds_in_the_order_of_k_bit_for_bit(
    device: Device, shape: tuple[int, int, int], scope: str, adds: bool, seed: int
) -> None:
    random, (m, n, k) = np.random.default_rng(seed), shape
    a, b = any_floats(random, (m, k)), any_floats(random, (k, n))
    start = any_floats(random, (m, n)) if adds else None
    found = multiplied(a, b, "ieee", device, start, SCOPES[scope])
    wanted = in_order(a, b, np.zeros((m, n), np.float32) if start is None else start)
    is_nan = np.isnan(wanted)
    np.testing.assert_array_equal(np.isnan(found), is_nan)
    np.testing.assert_array_equal(found.view(np.uint32)[~is_nan], wanted.view(np.uint32)[~is_nan])


def adversarial(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Numbers whose parts round badly: all low bits set, or halfway between two tf32, over many magnitudes."""
    top = random.integers(0, 1 << 10, shape) << 13
    low = random.choice([0x0FFF, 0x1000, 0x1001, 0x1FFF, 0x0001, 0x0003, 0x1003, 0x0000, 0x17FF], shape)
    exponent = random.integers(127 - 20, 127 + 20, shape) << 23
    sign = random.integers(0, 2, shape) << 31
    return (sign | exponent | top | low).astype(np.uint32).view(np.float32)


def within_the_bound(found: Array, a: Array, b: Array) -> None:
    exact, size = a.astype(np.longdouble) @ b.astype(np.longdouble), np.abs(a).astype(float) @ np.abs(b).astype(float)
    bound = (2.0**-20 + a.shape[1] * 2.0**-22) * size
    assert (np.abs(found - exact) <= bound).all(), np.max(np.abs(found - exact) / bound)


@settings(max_examples=times(0.5))
@given(
    shape=st.tuples(EXTENTS, EXTENTS, EXTENTS), way=st.sampled_from(("adversarial", "random")), seed=st.integers(0, 99)
)
@example(shape=(32, 32, 1), way="adversarial", seed=0)
@example(shape=(33, 33, 33), way="adversarial", seed=1)
def test_tf32x3_stays_within_its_bound(device: Device, shape: tuple[int, int, int], way: str, seed: int) -> None:
    random, (m, n, k) = np.random.default_rng(seed), shape
    if way == "adversarial":
        a, b = adversarial(random, (m, k)), adversarial(random, (k, n))
    else:
        a, b = (random.standard_normal(size).astype(np.float32) for size in ((m, k), (k, n)))
    within_the_bound(multiplied(a, b, "tf32x3", device), a, b)


def test_tf32x3_is_far_better_than_tf32(device: Device) -> None:
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((32, 32), (32, 32)))
    exact = a.astype(np.float64) @ b
    worst = {p: np.abs(multiplied(a, b, p, device) - exact).max() for p in ("tf32", "tf32x3", "ieee")}
    assert worst["tf32"] > 100 * worst["tf32x3"] and worst["tf32x3"] < 4 * worst["ieee"]


#: factors whose products by each other tf32x3 must give as float32 does
SPECIAL = np.array([
    0.0, -0.0, 1.0, -1.0, 1 + 2.0**-10, 1 + 2.0**-11, -(1 + 2.0**-12), 2.0, 3.0, np.inf, -np.inf, np.nan, LARGEST,
    -LARGEST, float(np.uint32(0x7F7FEFFF).view(np.float32)), float(np.uint32(0x7F7FF000).view(np.float32)), 2.0**-60,
    2.0**100,
], np.float32)


@pytest.mark.parametrize("precision", ["tf32x3", "ieee"])
def test_special_values_multiply_as_float32(device: Device, precision: str) -> None:
    found = multiplied(SPECIAL[:, None], SPECIAL[None], precision, device)
    with np.errstate(all="ignore"):
        wanted = SPECIAL[:, None] * SPECIAL[None]
    is_finite, bound = np.isfinite(wanted), 1.25 * 2.0**-20
    np.testing.assert_array_equal(found[~is_finite], wanted[~is_finite])
    # an error within the bound may exceed the largest number
    close = is_finite & (np.abs(wanted) < LARGEST * (1 - bound))
    np.testing.assert_allclose(found[close], wanted[close], rtol=bound)


def test_an_infinity_among_other_factors_of_tf32x3(device: Device) -> None:
    a, b = np.ones((16, 24), np.float32), np.ones((24, 8), np.float32)
    a[3, 5], a[4, 6], a[4, 7], b[9, 2] = np.inf, np.inf, -np.inf, -np.inf
    found = multiplied(a, b, "tf32x3", device)
    with np.errstate(invalid="ignore"):
        wanted = a.astype(np.float64) @ b
    np.testing.assert_array_equal(found, wanted.astype(np.float32))


@tj.kernel(threads=64)
def in_batches(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, P: tj.constexpr):
    acc = tj.cta.zeros((3, 16, 24), tj.float32)
    for k in range(2):
        acc += tj.matmul(tj.cta.load(A[0:3, 0:16, k * 9 : k * 9 + 9]), tj.cta.load(B[k * 9 : k * 9 + 9, 0:24]), P)
    tj.cta.store(C[0:3, 0:16, 0:24], acc)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_batches(device: Device, precision: str) -> None:
    random = np.random.default_rng(0)
    a = random.integers(-4, 5, (3, 16, 18)).astype(np.float32)
    b = random.integers(-4, 5, (18, 24)).astype(np.float32)
    check(
        in_batches, 1, a, b, np.zeros((3, 16, 24), np.float32), expected=a @ b, P=precision,
        device="cuda" if device.number >= 0 else "sim",
    )


@pytest.mark.parametrize("precision", PRECISIONS)
def test_empty_products(device: Device, precision: str) -> None:
    start = np.ones((4, 5), np.float32)
    empty = np.zeros((4, 0), np.float32), np.zeros((0, 5), np.float32)
    assert not multiplied(*empty, precision, device).any()
    np.testing.assert_array_equal(multiplied(*empty, precision, device, start), start)


@tj.kernel(threads=64)
def staged(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, n: tj.int32):
    """Products of parts of shared memory, each in an iteration of its own."""
    sa, sb = tj.alloc_shared((32, 24), A.dtype), tj.alloc_shared((24, 16), B.dtype)
    acc = tj.cta.zeros((32, 16), C.dtype)
    for k in range(n):
        tj.cta.copy(sa, A[0:32, k * 24 : k * 24 + 24])
        tj.cta.copy(sb, B[k * 24 : k * 24 + 24, 0:16])
        tj.cta_sync()
        for part in tj.static_range(0, 24, 8):
            left, right = tj.cta.load(sa[0:32, part : part + 8]), tj.cta.load(sb[part : part + 8, 0:16])
            acc += left @ right if A.dtype == tj.float64 else tj.matmul(left, right, precision="ieee")
        tj.cta_sync()
    tj.cta.store(C[0:32, 0:16], acc)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_of_staged_tiles(device: Device, dtype: type) -> None:
    random = np.random.default_rng(0)
    a, b = (random.integers(-4, 5, shape).astype(dtype) for shape in ((32, 72), (72, 16)))
    check(
        staged, 1, a, b, np.zeros((32, 16), dtype), 3, expected=a @ b, device="cuda" if device.number >= 0 else "sim"
    )


@pytest.mark.parametrize("shape", [(16, 8, 4), (17, 9, 5), (48, 40, 24)], ids=str)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_float64_on_simulated_targets(shape: tuple[int, int, int], target: str) -> None:
    m, n, k = shape
    random = np.random.default_rng(0)
    a, b, c = random.standard_normal((m, k)), random.standard_normal((k, n)), np.zeros((m, n))
    tj.simulate(product, 1, a, b, c, None, target=target, s=tj.cta, SHAPE=shape, P=None)
    np.testing.assert_allclose(c, a @ b, rtol=0, atol=k * 2.0**-52 * (np.abs(a) @ np.abs(b)).max())


def compiled(precision: str | None, dtype: tj.DType, target: str, shape: tuple[int, int, int] = (64, 32, 32)) -> Any:
    m, n, k = shape
    specs = (tj.spec(size, dtype) for size in ((m, k), (k, n), (m, n)))
    return product.compile(*specs, None, s=tj.cta, SHAPE=shape, P=precision, target=target)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_120a"])
@pytest.mark.parametrize("precision", [*PRECISIONS, None])
def test_ptxas_accepts_whole_products(emitted_ptx: EmittedPtx, precision: str | None, target: str) -> None:
    made = compiled(precision, tj.float64 if precision is None else tj.float32, target)
    assert ".local" not in made.ptx
    emitted_ptx.add(made.ptx, target, f"{precision} for {target}")


def test_each_precision_takes_its_instructions() -> None:
    assert "mma" not in compiled("ieee", tj.float32, "sm_75").ptx
    ptx = {p: compiled(p, tj.float32, "sm_90a").ptx for p in PRECISIONS}
    assert ptx["tf32x3"].count("mma.sync") == 3 * ptx["tf32"].count("mma.sync") > 0
    assert "mma" not in ptx["ieee"] and "fma.rn.f32" in ptx["ieee"]
    assert str(compiled("tf32x3", tj.float32, "sm_90a").tile_ir).count('precision="tf32x3"') == 1


@pytest.mark.parametrize("precision", ["ieee", "tf32x3"])
def test_a_product_has_its_golden_layouts(precision: str, golden: Golden) -> None:
    made = compiled(precision, tj.float32, "sm_90a", (64, 32, 18))
    golden.check(f"open/product_{precision}.open", f"{made.open_ir}---\n{made.tile_ir}")


def test_an_ieee_product_loops_over_the_depth() -> None:
    few, many = (compiled("ieee", tj.float32, "sm_90a", (64, 32, k)) for k in (16, 256))
    assert few.ptx.count("fma.rn.f32") == many.ptx.count("fma.rn.f32")


def test_fragments_of_the_example_are_read_without_bank_conflicts() -> None:
    random, c = np.random.default_rng(0), np.zeros((128, 128), np.float32)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((128, 48), (48, 128)))
    grid = matmul_float32.grid(128, 128)
    report = tj.simulate(matmul_float32.matmul, grid, a, b, c, "tf32x3", target="sm_90a", profile=True)
    traffic = [line.traffic for line in report.lines.values()]
    assert sum(t.wavefronts for t in traffic) > 0
    assert [t for t in traffic if t.wavefronts != t.ideal_wavefronts] == []
