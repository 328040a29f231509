"""Products of small integers, exact in every form: whole kernels against NumPy."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilejit as tj
from tilejit.dtypes import DType, bfloat16, float16, float32
from tilejit.isa.mma import MMA, Mma
from tilejit.ops.gemm import reference
from tilejit.runtime.device import Device
from tilejit.testing import check

Array = np.ndarray


@tj.kernel(threads=32)
def product(
    A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, SHAPE: tj.constexpr, WARPS: tj.constexpr,
    PRECISION: tj.constexpr = None, SCOPE: tj.constexpr = "cta",
):
    M, N, K = SHAPE
    within = "warpgroup" if SCOPE == "warpgroup" else "cta"
    acc = tj.alloc_local((M, N), C.dtype, layout=tj.mma.layout_c((M, N), C.dtype, WARPS, within))
    tj.cta.copy(acc, C[0:M, 0:N])
    a = tj.cta.load(A[0:M, 0:K], layout=tj.mma.layout_a((M, K), A.dtype, WARPS, within))
    b = tj.cta.load(B[0:K, 0:N], layout=tj.mma.layout_b((K, N), B.dtype, WARPS, within))
    if SCOPE == "warp":
        tj.warp.gemm(acc, a, b, precision=PRECISION)
    elif SCOPE == "warpgroup":
        tj.wg.gemm(acc, a, b, precision=PRECISION)
    else:
        tj.cta.gemm(acc, a, b, precision=PRECISION)
    tj.cta.store(C[0:M, 0:N], acc)


@tj.kernel(threads=128)
def staged(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, K: tj.constexpr):
    sa = tj.alloc_shared((64, 32), A.dtype, swizzle="64B")
    sb = tj.alloc_shared((32, 64), A.dtype, swizzle="128B")
    acc = tj.alloc_local((64, 64), tj.float32, layout=tj.mma.layout_c((64, 64), warps=(2, 2)))
    tj.cta.fill(acc, 0)
    for k in range(0, K, 32):
        tj.cta.copy(sa, A[0:64, k : k + 32])
        tj.cta.copy(sb, B[k : k + 32, 0:64])
        tj.cta_sync()
        a = tj.cta.load(sa, layout=tj.mma.layout_a((64, 32), A.dtype, warps=(2, 2)))
        b = tj.cta.load(sb, layout=tj.mma.layout_b((32, 64), A.dtype, warps=(2, 2)))
        tj.cta.gemm(acc, a, b)
        tj.cta_sync()
    tj.cta.store(C[0:64, 0:64], acc)


@tj.kernel(threads=256)
def each_warpgroup_its_rows(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor):
    g = tj.warpgroup_id()
    acc = tj.alloc_local((64, 16), tj.float32, layout=tj.mma.layout_c((64, 16), warps=(4, 1), scope="warpgroup"))
    tj.wg.fill(acc, 0)
    a = tj.wg.load(A[g * 64 : g * 64 + 64, :32], layout=tj.mma.layout_a((64, 32), A.dtype, (4, 1), "warpgroup"))
    b = tj.wg.load(B[:32, 0:16], layout=tj.mma.layout_b((32, 16), A.dtype, (4, 1), "warpgroup"))
    tj.wg.gemm(acc, a, b)
    tj.wg.store(C[g * 64 : g * 64 + 64, 0:16], acc)


def integers(shape: tuple[int, ...], dtype: DType, seed: int = 0, most: int = 4) -> Array:
    low = 0 if dtype.kind == "uint" else -most
    return np.random.default_rng(seed).integers(low, most + 1, shape).astype(dtype.numpy)


def named(device: Device) -> str:
    return "cuda" if device.number >= 0 else "sim"


def multiplies(
    form: Mma, tiles: tuple[int, int, int], warps: tuple[int, int], device: Device, seed: int = 0, scope: str = "cta"
) -> None:
    if device.number >= 0 and MMA.row(form).missing(device.target) is not None:
        pytest.skip(f"the device has no {form.name}")
    m, n, k = 16 * warps[0] * tiles[0], 8 * warps[1] * tiles[1], form.k * tiles[2]
    a, b, c = integers((m, k), form.a, seed), integers((k, n), form.b, seed + 1), integers((m, n), form.acc, seed + 2)
    check(
        product, 1, a, b, c, expected={"C": reference(c, a, b)}, device=named(device), threads=32 * prod(warps),
        SHAPE=(m, n, k), WARPS=warps, PRECISION="tf32" if form.a == float32 else None, SCOPE=scope,
    )


@pytest.mark.parametrize("form", MMA.forms(), ids=lambda f: f.name)
def test_every_form_is_exact_on_small_integers(form: Mma, device: Device) -> None:
    multiplies(form, (1, 1, 1), (1, 1), device)
    multiplies(form, (2, 3, 3), (1, 1), device)


@given(st.data(), st.sampled_from(MMA.forms()))
def test_any_size_over_any_warps_is_exact(device: Device, data: st.DataObject, form: Mma) -> None:
    m, n, k = (data.draw(st.integers(1, 3)) for _ in range(3))
    warps = data.draw(st.sampled_from([(1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (3, 1), (1, 4), (4, 2)]))
    scope = data.draw(st.sampled_from(["cta", *{1: ["warp"], 4: ["warpgroup"]}.get(prod(warps), [])]))
    multiplies(form, (m, n, k), warps, device, data.draw(st.integers(0, 99)), scope)


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=str)
def test_a_product_through_swizzled_shared_memory_is_exact(dtype: DType, device: Device) -> None:
    a, b, c = integers((64, 96), dtype), integers((96, 64), dtype, 1), np.zeros((64, 64), np.float32)
    check(staged, 1, a, b, c, expected={"C": reference(c, a, b)}, device=named(device), K=96)


def test_warpgroups_multiply_each_its_own(device: Device) -> None:
    a, b, c = integers((128, 32), float16), integers((32, 16), float16, 1), np.zeros((128, 16), np.float32)
    check(each_warpgroup_its_rows, 1, a, b, c, expected={"C": reference(c, a, b)}, device=named(device))


def test_tf32_rounds_to_10_bits_of_fraction_ties_away_from_zero(device: Device) -> None:
    low = np.float32(2.0**-11)
    a = np.zeros((16, 8), np.float32)
    a[:5, 0] = [1 + low, -(1 + low), 1 + low * np.float32(0.99), 1 + 3 * low, 1 + 2 * low]
    b = np.zeros((8, 8), np.float32)
    b[0] = 1
    wanted = np.zeros((16, 8), np.float32)
    wanted[:5] = np.array([1 + 2 * low, -(1 + 2 * low), 1, 1 + 4 * low, 1 + 2 * low], np.float32)[:, None]
    c = np.zeros((16, 8), np.float32)
    check(product, 1, a, b, c, expected={"C": wanted}, device=named(device), SHAPE=(16, 8, 8), WARPS=(1, 1),
          PRECISION="tf32")
