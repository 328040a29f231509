"""Hints of asynchronous copies: an eviction priority in L2, and the number of bytes fetched into L2."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilejit as tj
from tests.support.programs import source_of
from tests.support.ptxas import ptxas_accepts
from tilejit.ir.text.parser import from_text
from tilejit.ir.verify import verify
from tilejit.isa.hints import CACHES, SIZES

CP_ASYNC, TMA, BULK = "cp.async.c[ag].shared", "cp.async.bulk.tensor", r"cp\.async\.bulk\.(?:shared|global)"


@pytest.fixture(params=["sim", pytest.param("cuda", marks=pytest.mark.gpu)])
def where(request: pytest.FixtureRequest) -> Any:
    with tj.use_device(request.param):
        yield request.param


@tj.kernel(threads=64)
def by_threads(A: tj.Tensor, B: tj.Tensor, columns: tj.constexpr, cache: tj.constexpr, l2: tj.constexpr):
    s = tj.alloc_shared((16, columns), A.dtype)
    tj.cta.copy_async(s, A[0:16, 0:columns], cache=cache, l2=l2)
    tj.cp_async.commit()
    tj.cp_async.wait(0)
    tj.cta_sync()
    tj.cta.copy(B[0:16, 0:columns], s)


@tj.kernel(threads=32, target="sm_90")
def by_boxes(A: tj.Tensor, B: tj.Tensor, columns: tj.constexpr, cache: tj.constexpr, l2: tj.constexpr):
    s = tj.alloc_shared((16, columns), A.dtype)
    full = tj.alloc_barrier()
    tj.warp.copy_async(s, A[0:16, 0:columns], barrier=full, cache=cache, l2=l2)
    tj.warp.arrive(full)
    full.wait(0)
    tj.warp.copy_async(B[0:16, 0:columns], s, cache=cache)
    tj.bulk.wait(0)


@tj.kernel(threads=32, target="sm_90")
def by_runs(A: tj.Tensor, B: tj.Tensor, columns: tj.constexpr, cache: tj.constexpr, l2: tj.constexpr):
    s = tj.alloc_shared((1, columns), A.dtype)
    full = tj.alloc_barrier()
    tj.warp.copy_async(s, tj.assume_in_bounds(A[0:1, 0:columns]), barrier=full, cache=cache, l2=l2)
    tj.warp.arrive(full)
    full.wait(0)
    tj.warp.copy_async(tj.assume_in_bounds(B[0:1, 0:columns]), s, cache=cache)
    tj.bulk.wait(0)


WAYS = {by_threads: CP_ASYNC, by_boxes: TMA, by_runs: BULK}

each_way = pytest.mark.parametrize("kernel", WAYS, ids=lambda k: k.name)
each_cache = pytest.mark.parametrize("cache", (None, *CACHES))
each_size = pytest.mark.parametrize("l2", (None, *SIZES))


def arrays(rows: int = 13, columns: int = 64) -> tuple[np.ndarray, np.ndarray]:
    a = np.random.default_rng(rows).random((rows, columns), np.float32)
    return a, np.zeros_like(a)


def compiled(kernel: tj.Kernel, cache: str | None, l2: str | None, target: str = "sm_90a") -> tj.CompiledKernel:
    return kernel.compile(*arrays(), columns=64, cache=cache, l2=l2, target=target)


def copies(kernel: tj.Kernel, ptx: str) -> list[str]:
    return re.findall(rf"{WAYS[kernel]}[^;]*;", ptx)


@each_way
@each_cache
@each_size
def test_the_copy_is_the_same(kernel: tj.Kernel, cache: str | None, l2: str | None, where: str) -> None:
    a, b = arrays()
    kernel[1](a, b, columns=64, cache=cache, l2=None if kernel is by_runs else l2)
    rows = 1 if kernel is by_runs else len(a)
    np.testing.assert_array_equal(b[:rows], a[:rows])


@each_way
@each_cache
def test_each_copy_has_the_eviction_priority(kernel: tj.Kernel, cache: str | None) -> None:
    ptx = compiled(kernel, cache, None).ptx
    found = copies(kernel, ptx)
    assert found
    assert all((".L2::cache_hint" in each and each.endswith(", policy;")) == (cache is not None) for each in found)
    created = re.findall(r"createpolicy\.fractional\.L2::(\w+)\.b64 policy, 1\.0;", ptx)
    assert created == [cache] * len(found) * (cache is not None)
    ptxas_accepts(ptx, "sm_90a")


@each_cache
@each_size
def test_copies_of_threads_name_the_bytes_to_fetch(cache: str | None, l2: str | None) -> None:
    for target in ("sm_80", "sm_120"):
        ptx = compiled(by_threads, cache, l2, target).ptx
        found = copies(by_threads, ptx)
        assert found
        assert {size for each in found for size in re.findall(r"\.L2::(\d+B)", each)} == ({l2} if l2 else set())
        ptxas_accepts(ptx, target)


@each_size
def test_the_tensor_map_has_the_bytes_to_fetch(l2: str | None) -> None:
    made = compiled(by_boxes, None, l2)
    maps = {spec.of: spec.fetch for spec in made.explain().maps}
    assert maps == {"A": l2 or "256B", "B": "256B"}
    assert made.ptx == compiled(by_boxes, None, None).ptx


def test_two_sizes_of_one_array_are_two_maps() -> None:
    @tj.kernel(threads=32, target="sm_90")
    def twice(A: tj.Tensor):
        s = tj.alloc_shared((2, 16, 64), A.dtype)
        full = tj.alloc_barrier()
        tj.warp.copy_async(s[0], A[0:16, 0:64], barrier=full, l2="64B")
        tj.warp.copy_async(s[1], A[0:16, 0:64], barrier=full)
        tj.warp.arrive(full)
        full.wait(0)

    made = twice.compile(tj.spec((16, 64), tj.float32))
    assert [spec.fetch for spec in made.explain().maps] == ["64B", "256B"]


def test_a_run_of_bytes_with_bytes_to_fetch_is_copied_as_a_box() -> None:
    assert len(copies(by_runs, compiled(by_runs, None, None).ptx)) == 2
    made = compiled(by_runs, None, "128B")
    assert len(copies(by_runs, made.ptx)) == 1 and [spec.fetch for spec in made.explain().maps] == ["128B"]


#: a statement -> what is said of it
REFUSED = {
    "tj.warp.copy_async(s, A[0:16, 0:64], cache='streaming')": "is 'evict_first' or 'evict_last'; got 'streaming'",
    "tj.warp.copy_async(s, A[0:16, 0:64], l2='32B')": "l2= is '64B' or '128B' or '256B'; got '32B'",
    "tj.warp.copy_async(s, A[0:16, 0:64], l2=128)": "l2= takes str; got 128",
    "tj.warp.copy_async(A[0:16, 0:64], s, l2='128B')": "a store fetches nothing into L2; got l2='128B'",
    "tj.warp.copy(s, A[0:16, 0:64], l2='128B')": "has no parameter l2",
}


@pytest.mark.parametrize("statement", REFUSED)
def test_a_hint_that_the_copy_cannot_have_is_refused_by_name(statement: str) -> None:
    source = f"def k(A):\n    s = tj.alloc_shared((16, 64), A.dtype)\n    {statement}\n"
    with pytest.raises(tj.TilejitError) as error:
        tj.kernel(threads=32)(source_of(source)).compile(tj.spec((16, 64), tj.float32), target="sm_90a")
    assert REFUSED[statement] in str(error.value)


@pytest.mark.parametrize("hint", ["cache='evict_first'", "l2='64B'"])
def test_tensor_memory_has_no_hints(hint: str) -> None:
    source = (
        "def k(A):\n    t = tj.alloc_tmem((128, 8), tj.float32)\n"
        "    r = tj.alloc_local((128, 8), tj.float32, layout=tj.S[(128, 8) : (1 @ tj.tid_in_wg, 1)])\n"
        f"    tj.wg.fill(r, 0)\n    tj.wg.copy_async(t, r, {hint})\n"
    )
    with pytest.raises(tj.TilejitError) as error:
        tj.kernel(threads=128)(source_of(source)).compile(tj.spec((16, 64), tj.float32), target="sm_100a")
    assert f"moves nothing through L2; got {hint}" in str(error.value)


def test_a_tensor_map_fetches_a_known_number_of_bytes() -> None:
    text = (Path(__file__).parents[1] / "golden/copy_async/tma_load_hints.tile").read_text()
    lane = text.partition("---\n")[2]
    assert not verify(from_text(lane), "lane")
    (fault,) = verify(from_text(lane.replace('fetch "64B"', 'fetch "32B"')), "lane")
    assert "a tensor map fetches 64B, 128B, 256B; got '32B'" in str(fault)
