"""Kernels of Triton as users write them, and functions that launch them."""
# Triton's names of types are annotations
# ruff: noqa: F821

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    y = tl.load(y_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, x + y, mask=inside)


def add(x, y, out=None):
    out = torch.empty_like(x) if out is None else out
    n = out.numel()
    add_kernel[(triton.cdiv(n, 128),)](x, y, out, n, BLOCK=128)
    return out


@triton.jit
def copy_without_mask(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets))


@triton.jit
def all_store_to_one_place(out_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, offsets + tl.program_id(0))


@triton.jit
def store_scalars(
    out_ptr, half: "fp16", brain: "bf16", single: "fp32", double: "fp64", byte: "i8", word: "u16", long: "i64",
    flag: "i1",
):
    tl.store(out_ptr, half)
    tl.store(out_ptr + 1, brain)
    tl.store(out_ptr + 2, single)
    tl.store(out_ptr + 3, double)
    tl.store(out_ptr + 4, byte)
    tl.store(out_ptr + 5, word)
    tl.store(out_ptr + 6, long)
    tl.store(out_ptr + 7, flag)


@triton.jit
def gather_rows(table_ptr, out_ptr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    source = tl.load(table_ptr + row).to(tl.pointer_type(tl.float32))
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + row * BLOCK + offsets, tl.load(source + offsets))


@triton.jit
def softmax_kernel(x_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + columns, mask=columns < n, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * stride + columns, e / tl.sum(e, 0), mask=columns < n)


def softmax(x):
    out = torch.empty_like(x)
    rows, n = x.shape
    softmax_kernel[(rows,)](x, out, x.stride(0), n, BLOCK=triton.next_power_of_2(n))
    return out


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, m, n, k, stride_a, stride_b, stride_c,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        at = start + inner
        a = tl.load(a_ptr + rows[:, None] * stride_a + at, mask=(rows[:, None] < m) & (at < k), other=0)
        b = tl.load(b_ptr + at[:, None] * stride_b + columns, mask=(at[:, None] < k) & (columns < n), other=0)
        total = tl.dot(a, b, total)
    inside = (rows[:, None] < m) & (columns < n)
    tl.store(c_ptr + rows[:, None] * stride_c + columns, total, mask=inside)


def matmul(a, b, tile=(64, 64, 32), **options):
    m, k = a.shape
    n = b.shape[1]
    c = torch.empty((m, n), device=a.device, dtype=torch.float32)
    grid = (triton.cdiv(m, tile[0]), triton.cdiv(n, tile[1]))
    matmul_kernel[grid](a, b, c, m, n, k, a.stride(0), b.stride(0), c.stride(0), *tile, **options)
    return c


@triton.jit
def matmul_by_descriptors_kernel(a, b, c, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row = tl.program_id(0) * BM
    column = tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        total = tl.dot(a.load([row, start]), b.load([start, column]), total)
    c.store([row, column], total)


def matmul_by_descriptors(a, b, tile=(64, 64, 32)):
    bm, bn, bk = tile
    m, k = a.shape
    n = b.shape[1]
    c = torch.empty((m, n), device=a.device, dtype=torch.float32)
    described = [
        TensorDescriptor.from_tensor(x, list(box)) for x, box in ((a, (bm, bk)), (b, (bk, bn)), (c, (bm, bn)))
    ]
    matmul_by_descriptors_kernel[(triton.cdiv(m, bm), triton.cdiv(n, bn))](*described, k, bm, bn, bk)
    return c


@triton.jit
def layer_norm_kernel(x_ptr, weight_ptr, bias_ptr, out_ptr, mean_ptr, inverse_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    x = tl.load(x_ptr + row * n + columns, mask=inside, other=0)
    mean = tl.sum(x, 0) / n
    centred = tl.where(inside, x - mean, 0)
    inverse = 1 / tl.sqrt(tl.sum(centred * centred, 0) / n + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(inverse_ptr + row, inverse)
    weight = tl.load(weight_ptr + columns, mask=inside)
    bias = tl.load(bias_ptr + columns, mask=inside)
    tl.store(out_ptr + row * n + columns, centred * inverse * weight + bias, mask=inside)


@triton.jit
def layer_norm_backward_kernel(
    dx_ptr, dout_ptr, sums_ptr, x_ptr, weight_ptr, mean_ptr, inverse_ptr, locks_ptr, n,
    GROUPS: tl.constexpr, BLOCK: tl.constexpr,
):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    x = tl.load(x_ptr + row * n + columns, mask=inside, other=0)
    dout = tl.load(dout_ptr + row * n + columns, mask=inside, other=0)
    weight = tl.load(weight_ptr + columns, mask=inside, other=0)
    inverse = tl.load(inverse_ptr + row)
    normal = tl.where(inside, (x - tl.load(mean_ptr + row)) * inverse, 0)
    scaled = weight * dout
    along = tl.sum(normal * scaled, 0) / n
    tl.store(dx_ptr + row * n + columns, (scaled - normal * along - tl.sum(scaled, 0) / n) * inverse, mask=inside)
    group = row % GROUPS
    lock = locks_ptr + group
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    sums = sums_ptr + group * n + columns
    tl.store(sums, tl.load(sums, mask=inside) + dout * normal, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


class LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        rows, n = x.shape
        out = torch.empty_like(x)
        mean, inverse = (torch.empty(rows, dtype=torch.float32, device=x.device) for _ in range(2))
        ctx.block = triton.next_power_of_2(n)
        layer_norm_kernel[(rows,)](x, weight, bias, out, mean, inverse, n, eps, BLOCK=ctx.block)
        ctx.save_for_backward(x, weight, mean, inverse)
        return out

    @staticmethod
    def backward(ctx, dout):
        x, weight, mean, inverse = ctx.saved_tensors
        groups = 2
        rows, n = x.shape
        dx = torch.empty_like(x)
        sums = torch.zeros((groups, n), dtype=torch.float32, device=x.device)
        locks = torch.zeros(groups, dtype=torch.int32, device=x.device)
        layer_norm_backward_kernel[(rows,)](
            dx, dout.contiguous(), sums, x, weight, mean, inverse, locks, n, GROUPS=groups, BLOCK=ctx.block
        )
        return dx, sums.sum(0), dout.sum(0), None


def layer_norm(x, weight, bias, eps):
    return LayerNorm.apply(x, weight, bias, eps)


@triton.autotune(
    configs=[triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in ((64, 1), (128, 2), (256, 4))],
    key=["n"],
)
@triton.jit
def tuned_negation(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(out_ptr + offsets, -tl.load(x_ptr + offsets, mask=inside), mask=inside)


def negated(x):
    out = torch.empty_like(x)
    n = x.numel()
    tuned_negation[lambda values: (triton.cdiv(n, values["BLOCK"]),)](x, out, n)
    return out


@triton.jit
def sum_of_squares_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + columns, mask=columns < n, other=0)
    tl.store(out_ptr + row, tl.sum(x * x, 0))


def sums_of_squares(x):
    rows, n = x.shape
    out = torch.empty(rows, device=x.device, dtype=torch.float32)
    sum_of_squares_kernel[(rows,)](x, out, n, BLOCK=triton.next_power_of_2(n))
    return out


@triton.jit
def double_in_place_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(x_ptr + offsets, 2 * x, mask=offsets < n)
