"""The examples' kernels at the sizes that they are made for: no spills, no stack frame, and few instructions.

Sizes are those of `tests/bench/bench_memory_bound.py`; threads those that the example launches.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import pytest

import tilejit as tj
from examples import softmax
from tests.support.ptxas import ptxas_path, usage

F16, BF16, F32 = tj.float16, tj.bfloat16, tj.float32


def array(dtype: tj.DType, *shape: int) -> tj.TensorSpec:
    return tj.spec(shape, dtype)


@dataclass(frozen=True)
class Sized:
    """A kernel of an example with the arguments of one size."""

    kernel: str
    arrays: tuple[Any, ...]
    constants: dict[str, Any] = field(default_factory=dict)
    threads: int | None = None

    def compiled(self) -> tj.Compiled:
        example, name = self.kernel.split(".")
        kernel = getattr(import_module(f"examples.{example}"), name)
        return kernel.compile(*self.arrays, target="sm_90a", threads=self.threads, **self.constants)

    def __str__(self) -> str:
        return f"{self.kernel}-{'x'.join(map(str, self.arrays[0].shape))}-{self.arrays[0].dtype}"


def rows(kernel: str, dtype: tj.DType, columns: int, *more: Any, threads: int | None = None, **constants: Any) -> Sized:
    return Sized(kernel, (array(dtype, 16384, columns), *more), {"N": columns, **constants}, threads)


def softmax_of(dtype: tj.DType, columns: int, *, accurate: bool = False) -> Sized:
    """What `softmax_of_rows` launches, or the kernel with an accurate exp."""
    x, size = array(dtype, 16384, columns), columns * dtype.bytes
    if size > softmax.LONGEST:
        return Sized("softmax.softmax_of_long_rows", (x, x))
    if accurate:
        return rows("softmax.softmax", dtype, columns, x, threads=softmax.threads_for(size))
    if size % 16 == 0:
        return rows("softmax.fast_softmax", dtype, columns, x, threads=softmax.threads_for(size))
    flat, constants = array(dtype, 16384 * columns), {"N": columns, "V": 16 // dtype.bytes}
    return Sized("softmax.softmax_of_unaligned_rows", (flat, flat), constants, softmax.threads_for(size + 16))


def normalised(columns: int) -> list[Sized]:
    """Forward and backward of both norms."""
    x, gain, column, parts = (
        array(F16, 16384, columns), array(F16, columns), array(F32, 16384), array(F32, 264, columns),
    )
    threads = 512 if columns > 4096 else 256  # of a backward pass: two vectors of 16 bytes each
    return [
        rows("layernorm.layernorm", F16, columns, gain, gain, x, column, column, epsilon=1e-5),
        rows("layernorm.layernorm_backward", F16, columns, gain, column, column, x, x, parts, parts, threads=threads),
        rows("rmsnorm.rmsnorm", F16, columns, gain, x, column, epsilon=1e-5),
        rows("rmsnorm.rmsnorm_backward", F16, columns, gain, column, x, x, parts, threads=threads),
        Sized("layernorm.sum_of_rows", (array(F32, 2, 264, columns), array(F16, 2, columns))),
        Sized("rmsnorm.sum_of_rows", (parts, array(F16, columns))),
    ]


VECTOR, LOGITS = array(F32, 2**28), array(BF16, 8192, 128256)
TARGETS, LOSSES = array(tj.int32, 8192), array(F32, 8192)
HALVES, SINGLES = array(F16, 8192, 8192), array(F32, 8192, 8192)
SQUARE, ONE = array(F32, 16384, 16384), array(F32, 1)
TOKENS, TABLE, TAKEN = array(tj.int64, 8192), array(F16, 128256, 4096), array(F16, 8192, 4096)
HEADS = array(F16, 16, 4096, 64)

KERNELS = [
    Sized("vector_add.vector_add", (VECTOR, VECTOR, VECTOR)),
    softmax_of(F16, 4096), softmax_of(F32, 16384), softmax_of(F16, 65536), softmax_of(F16, 4095),
    softmax_of(F16, 4096, accurate=True), softmax_of(F32, 65536),
    *normalised(4096), *normalised(8192),
    Sized("cross_entropy.cross_entropy", (LOGITS, TARGETS, LOSSES, LOSSES)),
    Sized("cross_entropy.cross_entropy_backward", (LOGITS, TARGETS, LOSSES, LOSSES, LOGITS)),
    Sized("cross_entropy.cross_entropy_fused", (LOGITS, TARGETS, LOSSES, LOGITS, 1 / 8192)),
    Sized("bias_gelu.bias_gelu", (HALVES, array(F32, 8192), HALVES, HALVES)),
    *(Sized(f"transpose.{name}", (x, x)) for name in ("transpose", "transpose_staged") for x in (HALVES, SINGLES)),
    Sized("reduce.sum_rows", (SQUARE, array(F32, 16384)), {"N": 16384}),
    Sized("reduce.sum_columns", (SQUARE, array(F32, 64, 16384))),
    Sized("reduce.sum_all", (VECTOR, array(F32, 264))),
    Sized("reduce.sum_in_one_launch", (VECTOR, array(F32, 264), array(tj.int32, 1), ONE)),
    Sized("embedding.embedding", (TABLE, TOKENS, TAKEN), {"N": 4096}),
    Sized("embedding.embedding_backward", (TAKEN, TOKENS, array(F32, 128256, 4096)), {"N": 4096}),
    rows("quantize.quantize", F16, 4096, array(tj.int8, 16384, 4096), array(F32, 16384), greatest=127),
    rows("quantize.dequantize", tj.int8, 4096, array(F32, 16384), array(F16, 16384, 4096)),
    Sized("histogram.histogram", (array(tj.uint8, 2**28), array(tj.int32, 256))),
    Sized("attention_small.attention", (HEADS,) * 4, {"D": 64, "causal": True}),
    Sized("attention_small.attention", (HEADS,) * 4, {"D": 64, "causal": False}),
    Sized("matmul_small.matmul", (array(F16, 4096, 4096),) * 3),
]


def test_every_kernel_of_the_examples_of_tiles_is_here() -> None:
    from tests.examples.test_tiles import CASES

    for example in CASES:
        members = vars(import_module(f"examples.{example}")).items()
        kernels = {f"{example}.{name}" for name, value in members if isinstance(value, tj.Kernel)}
        assert kernels <= {sized.kernel for sized in KERNELS}, example


@pytest.mark.parametrize("sized", KERNELS, ids=str)
def test_nothing_is_spilled_and_there_is_no_stack_frame(sized: Sized) -> None:
    if ptxas_path() is None:
        pytest.skip("no ptxas: install nvidia-cuda-nvcc")
    found = usage(sized.compiled().ptx, "sm_90a")
    assert (found.stack_frame, found.spill_stores, found.spill_loads) == (0, 0, 0), found


def test_no_kernel_has_over_3000_instructions() -> None:
    counts = {str(sized): sized.compiled().explain().density.census.instructions for sized in KERNELS}
    assert {name: count for name, count in counts.items() if count > 3000} == {}


def test_ones_of_the_histogram_are_added_by_a_literal() -> None:
    ptx = next(s for s in KERNELS if s.kernel == "histogram.histogram").compiled().ptx
    added = re.findall(r"red\S*\.shared\S*\.add\S*\s+\[[^\]]*\], ([^;]+);", ptx)
    assert added and set(added) == {"1"}


@tj.kernel(threads=128)
def copied(X: tj.Tensor, Y: tj.Tensor):
    tj.cta.store(Y[0:4096], tj.cta.load(X[0:4096]))


@tj.kernel(threads=128)
def exponentials(X: tj.Tensor, Y: tj.Tensor):
    tj.cta.store(Y[0:4096], tj.exp(tj.cta.load(X[0:4096])))


@tj.kernel(threads=128)
def gelus(X: tj.Tensor, Y: tj.Tensor):
    tj.cta.store(Y[0:4096], tj.gelu(tj.cta.load(X[0:4096])))


def instructions_per_element(kernel: tj.Kernel, dtype: tj.DType) -> float:
    x = tj.spec((4096,), dtype)
    shown = kernel.explain(x, x, target="sm_90a")
    assert f"per {dtype} written" in str(shown) and "per byte" in str(shown)
    density = shown.density.per_element
    assert density is not None
    return density


@pytest.mark.parametrize(("kernel", "dtype", "most"), [(exponentials, F32, 16), (gelus, F16, 35)], ids=["exp", "gelu"])
def test_a_function_takes_few_instructions_beside_its_load_and_store(
    kernel: tj.Kernel, dtype: tj.DType, most: int
) -> None:
    assert instructions_per_element(kernel, dtype) - instructions_per_element(copied, dtype) <= most
