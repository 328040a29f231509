"""Targets with and without tensor memory."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit as tj
from tests.kernels.tensor_memory.whole_tiles import check_pairs, layouts, pairs, sizes
from tests.support.ptxas import ptxas_accepts
from tilejit.dtypes import DType, float16, float32, uint8
from tilejit.layout import datapath

#: data path, 32-bit columns, type
KERNELS = [("D", 16, float32), ("D", 8, float16), ("F", 32, uint8), ("B", 16, float32)]
kernels = pytest.mark.parametrize(("path", "columns", "dtype"), KERNELS, ids=str)


def compiled(path: str, columns: int, dtype: DType, target: str) -> tj.Compiled:
    moved = sizes(path, columns)
    shape = (128 if path == "D" else 64, columns * 32 // dtype.bits)
    elements = shape[0] * shape[1] // 128
    a = tj.spec((len(moved), 128, elements), dtype)
    b = tj.spec((len(moved), len(moved), 128, elements), dtype)
    return pairs.compile(
        a, b, SHAPE=shape, LAYOUTS=layouts(path, moved, dtype), TMEM=datapath(path, *shape),
        target=target,
    )


@kernels
def test_all_targets_with_tensor_memory_get_the_same_instructions(path: str, columns: int, dtype: DType) -> None:
    first = compiled(path, columns, dtype, "sm_100a").ptx
    assert "tcgen05.ld" in first
    for target in ("sm_100a", "sm_103a", "sm_110a"):
        ptx = compiled(path, columns, dtype, target).ptx
        body = ptx[ptx.index(".target") :]
        assert body == first[first.index(".target") :].replace("sm_100a", target)
        ptxas_accepts(ptx, target)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100", "sm_120a"])
@kernels
def test_other_targets_are_refused_with_those_that_have_it(
    path: str, columns: int, dtype: DType, target: str
) -> None:
    with pytest.raises((tj.ResourceError, tj.DispatchError)) as caught:
        compiled(path, columns, dtype, target)
    assert f"{target} has no tensor memory" in str(caught.value)
    assert "sm_100a or sm_103a" in str(caught.value)
    assert caught.value.span is not None


@pytest.mark.parametrize("device", ["sim:sm_90a", "sim:sm_120a", "sim"])
def test_a_device_without_tensor_memory_is_refused_before_anything_runs(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEJIT_DEVICE", device)
    with pytest.raises(tj.ResourceError, match="has no tensor memory"):
        check_pairs("D", 0, 8, float32)


def test_the_simulator_of_sm_103a_moves_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_DEVICE", "sim:sm_103a")
    check_pairs("D", 0, 16, float32)


@tj.kernel(threads=256)
def handed_over(A: tj.Tensor, B: tj.Tensor):
    r = tj.alloc_local((128, 32), tj.float32, layout=tj.tcgen05.atom_layout("32x32b", 32, tj.float32))
    q = tj.alloc_local((128, 32), tj.float32, layout=tj.tcgen05.atom_layout("16x128b", 8, tj.float32))
    m = tj.alloc_tmem((128, 32), tj.float32)
    if tj.warpgroup_id() == 0:
        tj.wg.copy(r, A[0:128, 0:32])
        tj.wg.copy_async(m, r)
        tj.tcgen05.wait_st()
    tj.cta_sync()
    if tj.warpgroup_id() == 1:
        tj.wg.copy_async(q, m)
        tj.tcgen05.wait_ld()
        tj.wg.copy(B[0:128, 0:32], q)


def test_one_warpgroup_loads_what_another_has_stored() -> None:
    a = np.arange(128 * 32, dtype=np.float32).reshape(128, 32)
    b = np.zeros_like(a)
    handed_over[1](a, b)
    np.testing.assert_array_equal(a, b)


@tj.kernel(threads=128)
def exchanged(A: tj.Tensor, B: tj.Tensor):
    x = tj.alloc_tmem((128, 40), tj.float32)
    y = tj.alloc_tmem((64, 48), tj.float16, layout=tj.tmem.datapath("F", 64, 48))
    z = tj.alloc_tmem((128, 64), tj.float32)
    r = tj.alloc_local((128, 64), tj.float32, layout=tj.tcgen05.atom_layout("32x32b", 64, tj.float32))
    h = tj.alloc_local((64, 32), tj.float16, layout=tj.tcgen05.atom_layout("16x128b", 4, tj.float16, rows=64))
    tj.wg.copy(r, A[0:128, 0:64])
    tj.wg.fill(h, 1)
    tj.wg.copy_async(z, r)
    tj.wg.copy_async(x, r[0:128, 0:40])
    tj.wg.copy_async(y[0:64, 8:40], h)
    tj.tcgen05.wait_st()
    if A[0, 0] < 0:
        return
    tj.wg.fill(r, 0)
    tj.wg.copy_async(r[0:128, 24:64], x)
    tj.tcgen05.wait_ld()
    tj.wg.copy_async(r[0:128, 0:24], z[0:128, 40:64])
    tj.tcgen05.wait_ld()
    tj.wg.copy(B[0:128, 0:64], r)


@pytest.mark.parametrize("leaves", [False, True])
def test_several_allocations_stay_apart_and_all_ways_out_free_them(leaves: bool) -> None:
    a = np.random.default_rng(5).random((128, 64)).astype(np.float32)
    a[0, 0] = -1 if leaves else 1
    b = np.zeros_like(a)
    exchanged[3](a, b) if leaves else exchanged[1](a, b)
    np.testing.assert_array_equal(b, 0 if leaves else np.hstack([a[:, 40:], a[:, :40]]))
