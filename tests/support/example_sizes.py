"""The kernels of the examples at the sizes that people run them at, each as what compiles it with an empty cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tilejit as tj
from examples import (
    attention,
    attention_small,
    autotune,
    bias_gelu,
    copy_global_shared,
    copy_registers,
    copy_tma,
    cross_entropy,
    distributed,
    dropout,
    elementwise_registers,
    embedding,
    gemm_hopper,
    histogram,
    int4_weights,
    layernorm,
    matmul,
    matmul_float32,
    matmul_small,
    pipeline,
    quantize,
    quickstart,
    reduce,
    rmsnorm,
    scan,
    softmax,
    sort,
    tensor_memory,
    top_k,
    transpose,
    tuples,
    vector_add,
)
from tilejit.compiled import Compiled
from tilejit.jit import Kernel

__all__ = ["EXAMPLES", "Make"]

F16, BF16, F32, I32 = tj.float16, tj.bfloat16, tj.float32, tj.int32
ROWS = 16384


@dataclass(frozen=True, eq=False)
class Make:
    """A kernel with arguments of one size; called, it compiles as if for the first time."""

    kernel: Kernel
    arguments: tuple[Any, ...]
    target: str
    threads: int | None
    constexprs: dict[str, Any]

    def __call__(self) -> Compiled:
        anew = Kernel(self.kernel.__wrapped__, self.kernel.options)  # type: ignore[attr-defined]
        return anew.compile(*self.arguments, target=self.target, threads=self.threads, **self.constexprs)


def compilation(
    kernel: Kernel, *arguments: Any, threads: int | None = None, target: str = "sm_90a", **constexprs: Any
) -> Make:
    return Make(kernel, arguments, target, threads, constexprs)


def vector(count: int, dtype: tj.DType = F32) -> Any:
    return tj.spec((count,), dtype)


def matrix(rows: int, columns: int, dtype: tj.DType) -> Any:
    return tj.spec((rows, columns), dtype)


def _examples() -> Iterator[tuple[str, Make]]:
    yield from _memory_bound()
    yield from _normalisation()
    yield from _products()
    yield from _early()


def _memory_bound() -> Iterator[tuple[str, Make]]:
    x = vector(2**28)
    yield "vector_add", compilation(vector_add.vector_add, x, x, x)
    for columns, dtype in ((4096, F16), (4095, F16), (16384, F32)):
        x = matrix(ROWS, columns, dtype)
        threads = softmax.threads_for(columns * dtype.bytes)
        yield f"softmax {dtype} {columns}", compilation(softmax.softmax, x, x, N=columns, threads=threads)
        yield f"fast_softmax {dtype} {columns}", compilation(softmax.fast_softmax, x, x, N=columns, threads=threads)
    x, window = vector(ROWS * 4095, F16), softmax.threads_for(4096 * F16.bytes + 16)
    unaligned = softmax.softmax_of_unaligned_rows
    yield "softmax_of_unaligned_rows", compilation(unaligned, x, x, N=4095, V=8, threads=window)
    x = matrix(4096, 65536, F16)
    yield "fast_softmax float16 65536", compilation(softmax.fast_softmax, x, x, N=65536, threads=1024)
    yield "softmax_of_long_rows float16 65536", compilation(softmax.softmax_of_long_rows, x, x)
    x = matrix(ROWS, 65536, F32)
    yield "softmax_of_long_rows float32 65536", compilation(softmax.softmax_of_long_rows, x, x)
    x, bias = matrix(ROWS, 8192, F16), vector(8192)
    flat = tj.spec((2**28,), tj.float32)
    yield "dropout", compilation(dropout.dropout, flat, flat, tj.float32, tj.int64)
    yield "noisy", compilation(dropout.noisy, flat, flat, tj.float32, tj.int64)
    yield "bias_gelu", compilation(bias_gelu.bias_gelu, x, bias, x, x)
    for dtype in (F32, F16):
        x = matrix(8192, 8192, dtype)
        yield f"transpose {dtype}", compilation(transpose.transpose, x, x)
        yield f"transpose_staged {dtype}", compilation(transpose.transpose_staged, x, x)
    x, parts, one = matrix(16384, 16384, F32), vector(reduce.CTAS), vector(1)
    yield "sum_rows", compilation(reduce.sum_rows, x, vector(16384), N=16384)
    yield "sum_columns", compilation(reduce.sum_columns, x, matrix(16, 16384, F32))
    yield "sum_all", compilation(reduce.sum_all, vector(16384 * 16384), parts)
    in_one = reduce.sum_in_one_launch
    yield "sum_in_one_launch", compilation(in_one, vector(16384 * 16384), parts, vector(1, I32), one)
    yield "autotune", compilation(autotune.row_sums, matrix(ROWS, 500, F32), vector(ROWS), N=500, ROWS=4)
    weight = tuples.Weight(*[matrix(4096, 4096, F32)] * 4)
    yield "adamw", compilation(tuples.adamw, (weight,), tuples.AdamW(1e-2, 0.9, 0.999, 0.1, 3))
    yield "histogram", compilation(histogram.histogram, vector(2**28, tj.uint8), vector(histogram.BINS, I32))
    states = vector(2**28 // scan.BLOCK, tj.uint64)
    yield "inclusive_sum", compilation(scan.inclusive_sum, vector(2**28), vector(2**28), states)
    keys, counts = vector(2**28, tj.uint32), matrix(sort.PASSES, sort.DIGITS, I32)
    yield "sort.count", compilation(sort.count, keys, counts)
    yield "sort.first_places", compilation(sort.first_places, counts)
    states = matrix(tj.cdiv(2**28, sort.THREADS * sort.ITEMS), sort.DIGITS, tj.uint32)
    yield "sort.sweep", compilation(sort.sweep, keys, keys, counts, states, I32)
    best = matrix(4096, top_k.K, F32)
    yield "top_k", compilation(top_k.top_k, matrix(4096, 65536, F32), best, matrix(4096, top_k.K, I32))
    x, targets, rows = matrix(8192, 128256, BF16), vector(8192, I32), vector(8192)
    yield "cross_entropy", compilation(cross_entropy.cross_entropy, x, targets, rows, rows)
    yield "cross_entropy_backward", compilation(cross_entropy.cross_entropy_backward, x, targets, rows, rows, x)
    yield "cross_entropy_fused", compilation(cross_entropy.cross_entropy_fused, x, targets, rows, x, F32)
    table, tokens, y = matrix(128256, 4096, F16), vector(8192, tj.int64), matrix(8192, 4096, F16)
    yield "embedding", compilation(embedding.embedding, table, tokens, y, N=4096)
    sums = matrix(128256, 4096, F32)
    yield "embedding_backward", compilation(embedding.embedding_backward, y, tokens, sums, N=4096)
    x, scales = matrix(ROWS, 4096, F16), vector(ROWS)
    for dtype, greatest in quantize.GREATEST.items():
        q = matrix(ROWS, 4096, dtype)
        yield f"quantize {dtype}", compilation(quantize.quantize, x, q, scales, N=4096, greatest=greatest)
        yield f"dequantize {dtype}", compilation(quantize.dequantize, q, scales, x, N=4096)


def _normalisation() -> Iterator[tuple[str, Make]]:
    each = vector(ROWS)
    for columns in (4096, 8192):
        x, gain = matrix(ROWS, columns, F16), vector(columns, F16)
        parts, threads = matrix(layernorm.CTAS, columns, F32), columns // 16  # two vectors of 16 bytes each
        sizes: dict[str, Any] = {"N": columns, "threads": threads}
        forward = {**sizes, "epsilon": 1e-5}
        norm, rms = layernorm.layernorm_backward, rmsnorm.rmsnorm_backward
        yield f"layernorm {columns}", compilation(layernorm.layernorm, x, gain, gain, x, each, each, **forward)
        yield f"layernorm_backward {columns}", compilation(norm, x, gain, each, each, x, x, parts, parts, **sizes)
        yield f"rmsnorm {columns}", compilation(rmsnorm.rmsnorm, x, gain, x, each, **forward)
        yield f"rmsnorm_backward {columns}", compilation(rms, x, gain, each, x, x, parts, **sizes)
        yield f"sum_of_rows {columns}", compilation(rmsnorm.sum_of_rows, parts, vector(columns, F16))
        both, sums = tj.spec((2, layernorm.CTAS, columns), F32), matrix(2, columns, F16)
        yield f"sum_of_rows of two {columns}", compilation(layernorm.sum_of_rows, both, sums)


def _products() -> Iterator[tuple[str, Make]]:
    square = matrix(8192, 8192, F16)
    yield "matmul", compilation(matmul.matmul, square, square, None, square, None)
    yield "matmul relu", compilation(matmul.matmul, square, square, square, square, "relu")
    for kernel in (pipeline.running_sum, pipeline.early, pipeline.unreleased):
        yield f"pipeline.{kernel.name}", compilation(kernel, *[tj.spec((ROWS, pipeline.COLUMNS), F32)] * 2)
    batch = tj.spec((1, 4096, 4096), F16)
    for kernel in (gemm_hopper.gemm, gemm_hopper.gemm_with_producer):
        arguments = (batch, batch, batch, None, None, 16, True, True, None, True, False)
        yield f"gemm_hopper.{kernel.name}", compilation(kernel, *arguments)
    sharing = compilation(gemm_hopper.PAIRED[gemm_hopper.gemm_with_producer.name], *arguments)
    yield "gemm_hopper.gemm_with_producer that shares B", sharing
    for d, causal in ((128, False), (128, True), (64, False)):
        x, lse = tj.spec((4, 32, 4096, d), F16), tj.spec((4, 32, 4096), F32)
        kind = "causal" if causal else "full"
        yield f"attention {kind} {d}", compilation(attention.attention, x, x, x, x, lse, D=d, causal=causal)
    x, scales = matrix(16, 4096, F16), matrix(4096, 4096 // int4_weights.GROUP, F16)
    packed = matrix(4096, 2048, tj.uint8)
    yield "int4_weights", compilation(int4_weights.linear, x, packed, scales, matrix(16, 4096, F16))
    yield "matmul_small", compilation(matmul_small.matmul, square, square, square)
    single = matrix(4096, 4096, F32)
    for precision in ("tf32x3", "ieee"):
        yield f"matmul_float32 {precision}", compilation(matmul_float32.matmul, single, single, single, precision)
    x, up, up_bias = matrix(4096, 8192, BF16), matrix(8192, 14336, BF16), vector(14336, BF16)
    hidden, down, down_bias = matrix(4096, 14336, BF16), matrix(14336, 8192, BF16), vector(8192, BF16)
    yield "distributed.product up", compilation(distributed.product, x, up, up_bias, hidden, "gelu")
    yield "distributed.product down", compilation(distributed.product, hidden, down, None, x, None)
    yield "distributed.finish", compilation(distributed.finish, x, down_bias, x)
    x = tj.spec((16, 4096, 64), F16)
    for causal in (False, True):
        kind = "causal" if causal else "full"
        yield f"attention {kind}", compilation(attention_small.attention, x, x, x, x, D=64, causal=causal)


def _early() -> Iterator[tuple[str, Make]]:
    """The examples of tiles with layouts."""
    image = matrix(quickstart.HEIGHT, quickstart.WIDTH, F32)
    yield "tone_map", compilation(quickstart.tone_map, image, image, F32, F32)
    yield "copy_registers", compilation(copy_registers.round_trip, matrix(32, 16, F16), K=16)
    x = matrix(32, 32, F32)
    yield "through_shared", compilation(copy_global_shared.through_shared, x, x)
    wide = tj.spec((32768, 8192), F32)
    yield "copy_tma", compilation(copy_tma.copy, wide, wide)
    x = matrix(32, 8, F32)
    yield "three_operations", compilation(elementwise_registers.three_operations, x, x)
    half, single = matrix(128, 8, F16), matrix(128, tensor_memory.COLUMNS, F32)
    yield "tensor_memory.round_trip", compilation(tensor_memory.round_trip, half, half, target="sm_100a")
    yield "tensor_memory.transpose", compilation(tensor_memory.transpose, single, single, target="sm_100a")


EXAMPLES: dict[str, Make] = dict(_examples())
