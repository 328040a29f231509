"""Loads and stores that tell caches what to keep."""

import re

import ml_dtypes
import numpy as np
import pytest

import tilejit as tj

HINTS = {"evict_first": "L1::evict_first", "evict_last": "L1::evict_last", "streaming": "cs"}
TYPES = [np.bool_, np.int8, np.float16, ml_dtypes.bfloat16, np.int32, np.float32, np.float64]


@pytest.fixture(params=["sim", pytest.param("cuda", marks=pytest.mark.gpu)])
def where(request):
    with tj.use_device(request.param):
        yield request.param


@tj.kernel(threads=32)
def moved(X: tj.Tensor, Y: tj.Tensor, n: tj.constexpr, cache: tj.constexpr):
    x = tj.cta.load(X[tj.cta_id(0), 0:n], cache=cache)
    tj.cta.store(Y[tj.cta_id(0), 0:n], x, cache=cache)


@tj.kernel(threads=32)
def through_shared(X: tj.Tensor, Y: tj.Tensor, n: tj.constexpr, cache: tj.constexpr):
    s = tj.alloc_shared((n,), X.dtype)
    tj.cta.copy(s, X[tj.cta_id(0), 0:n], cache=cache)
    tj.cta_sync()
    tj.cta.copy(Y[tj.cta_id(0), 0:n], s, cache=cache)


@pytest.mark.parametrize("kernel", [moved, through_shared], ids=lambda k: k.name)
@pytest.mark.parametrize("cache", HINTS)
@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: np.dtype(t).name)
@pytest.mark.parametrize("n", [32, 100, 512])
def test_what_is_moved_is_the_same(kernel, cache, dtype, n, where):
    x = np.random.default_rng(n).integers(0, 2 if dtype == np.bool_ else 100, (3, n)).astype(dtype)
    y = np.zeros_like(x)
    kernel[3](x, y, n=n, cache=cache)
    np.testing.assert_array_equal(y, x)


def accesses(kernel, dtype, n, cache, target="sm_90a"):
    ptx = kernel.compile(np.zeros((3, n), dtype), np.zeros((3, n), dtype), n=n, cache=cache, target=target).ptx
    return re.findall(r"(?:ld|st)\.global\S*", ptx)


@pytest.mark.parametrize("kernel", [moved, through_shared], ids=lambda k: k.name)
@pytest.mark.parametrize("cache", HINTS)
@pytest.mark.parametrize("target", ["sm_75", "sm_90a", "sm_100a"])
def test_every_access_of_global_memory_has_the_hint(kernel, cache, target):
    for dtype in TYPES:
        for n in (32, 512):
            found = accesses(kernel, dtype, n, cache, target)
            assert len(found) >= 2 and all(HINTS[cache] in access.split(".") for access in found), found


def test_vectors_stay_as_wide_as_without_a_hint():
    assert accesses(moved, np.float32, 512, "streaming") == ["ld.global.cs.v4.b32"] * 4 + ["st.global.cs.v4.b32"] * 4
    assert len(accesses(moved, np.float32, 512, None)) == 8


def test_iterations_of_a_copy_share_an_address():
    ptx = moved.compile(*[np.zeros((3, 512), np.float32)] * 2, n=512, cache="streaming", target="sm_90a").ptx
    assert len(re.findall(r"ld\.global\.cs\.v4\.b32 \t?\{[^}]*\}, \[%rd\d+\+\d+\]", ptx)) == 3


def test_a_hint_that_there_isnt_is_refused():
    with pytest.raises(tj.KernelTypeError, match="evict_first.*evict_last.*streaming.*got 'cold'"):
        accesses(moved, np.float32, 32, "cold")
