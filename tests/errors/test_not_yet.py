"""What isn't there yet is refused by a sentence that names what is."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilejit as tj
from examples import attention, gemm_hopper
from tests.support.programs import source_of
from tilejit.errors import KernelTypeError, ResourceError, TilejitError

PREPARED = """def k(A):
    a = tj.alloc_shared((64, 64), A.dtype, swizzle="128B")
    b = tj.alloc_shared((64, 64), A.dtype, swizzle="128B")
    acc = tj.alloc_local((64, 64), tj.float32, layout=tj.wgmma.layout_c((64, 64)))
    full = tj.alloc_barrier()
"""
LOAD = "tj.cta.copy_async(a, A[0:64, 0:64], barrier=full"
PRODUCT = "tj.wg.gemm_async(acc, a, b, accumulate=False"

#: a line -> what is said of it, where, and what there is
WORDS = {
    "tj.warp.arrive(full, cta=1)": ("arrive with cta= is not available", "cta=1", "a release reaches the other CTAs"),
    "b = a.in_cta(1)": ("no attribute in_cta", "a.in_cta", "tj.alloc_ring(..., multicast=0)"),
    f"{LOAD}, multicast=0)": ("multicast=0, but full has no multicast=", "multicast=0", "tj.alloc_ring(..., multicast"),
    "tj.cta.copy_async(A[0:64, 0:64], a, reduce='add')": ("with reduce= is not", "reduce='add'", "tj.atomic.add"),
    "tj.grid_wait()": ("which waits for the previous kernel, is not", "tj.grid_wait", "run in order"),
    "tj.grid_trigger()": ("which lets the next kernel start, is not", "tj.grid_trigger", "run in order"),
    "m = tj.TensorMap(A)": ("a tensor map that the caller creates, is not", "tj.TensorMap", "creates the tensor maps"),
    "tj.warp.commit(full)": ("not available in this version", "full", "arrive at a barrier with tj.warp.arrive(b)"),
    f"{PRODUCT}, scale_a=a)": ("takes no scale_a; one is given", PRODUCT, ""),
    f"{PRODUCT}, barrier=full)": ("takes no barrier; one is given", PRODUCT, ""),
}


@pytest.mark.parametrize("line", WORDS)
def test_a_word_or_an_argument_that_comes_later_is_refused_at_its_location(line: str) -> None:
    says, at, there_is = WORDS[line]
    with pytest.raises(TilejitError) as error:
        tj.kernel(threads=128)(source_of(f"{PREPARED}    {line}\n")).compile(
            tj.spec((256, 256), tj.float16), target="sm_90a"
        )
    assert says in error.value.message and there_is in (error.value.hint or ""), str(error.value)
    assert error.value.span is not None and at in error.value.span.text


def test_clusters_larger_than_a_gpu_has_are_refused() -> None:
    with pytest.raises(ResourceError, match="has 32 CTAs; a cluster can have at most 16"):
        tj.kernel(threads=128, cluster=(32,))(source_of("def k(A):\n    A[0] = 1.0\n")).compile(
            tj.spec((4,), tj.float32), target="sm_90a"
        )


@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.float64, ml_dtypes.float8_e4m3fn], ids=str)
def test_the_product_for_hopper_multiplies_16_bits(dtype: Any) -> None:
    a = np.zeros((64, 64), dtype)
    with pytest.raises(ValueError, match=rf"^a holds {a.dtype}; .*convert it, or use tj\.cta\.gemm"):
        gemm_hopper.arranged(a, a, np.zeros((64, 64), np.float16))


@pytest.mark.parametrize(
    ("d", "dtype", "says"),
    [
        (256, tj.float16, "heads of 256: 64 and 128 are here, attention_small.py takes others"),
        (96, tj.bfloat16, "heads of 96"),
        (64, tj.float32, "float32: convert Q, K and V to 16 bits"),
        (128, tj.float8_e4m3fn, "float8_e4m3fn: convert"),
    ],
)
def test_attention_for_hopper_says_which_heads_and_types_it_takes(d: int, dtype: tj.DType, says: str) -> None:
    x, lse = tj.spec((1, 2, 256, d), dtype), tj.spec((1, 2, 256), tj.float32)
    with pytest.raises(KernelTypeError, match=says) as error:
        attention.attention.compile(x, x, x, x, lse, D=d, causal=False, target="sm_90a")
    assert error.value.span is not None and "static_assert" in error.value.span.text


@pytest.mark.parametrize("name", ["window", "dropout", "slopes", "page_table", "cu_seqlens"])
def test_attention_for_hopper_has_no_such_argument(name: str) -> None:
    x, lse = tj.spec((1, 2, 256, 64), tj.float16), tj.spec((1, 2, 256), tj.float32)
    with pytest.raises(TilejitError, match=f"{name}(.|\n)*Q, K, V, Out, lse, D, causal"):
        attention.attention.compile(x, x, x, x, lse, D=64, causal=False, target="sm_90a", **{name: 1})
