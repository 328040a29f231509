"""Layer normalization with gradients; programs add their shares of the weight's gradient to a few rows under locks."""

import os

import pytest
import torch
import triton
import triton.language as tl

DEVICE = os.environ.get("DEVICE", "cuda")


@triton.jit
def forward_kernel(x_ptr, y_ptr, w_ptr, b_ptr, mean_ptr, rstd_ptr, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row * stride
    y_ptr += row * stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / N
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
        centred = tl.where(columns < N, x - mean, 0.0)
        squares += centred * centred
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / N + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < N
        x = tl.load(x_ptr + columns, mask=inside, other=0.0).to(tl.float32)
        w, b = tl.load(w_ptr + columns, mask=inside), tl.load(b_ptr + columns, mask=inside)
        tl.store(y_ptr + columns, (x - mean) * rstd * w + b, mask=inside)


@triton.jit
def backward_kernel(
    dx_ptr, dy_ptr, dw_ptr, db_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, locks_ptr, stride, N,
    GROUPS: tl.constexpr, BLOCK: tl.constexpr,
):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < N
    x = tl.load(x_ptr + row * stride + columns, mask=inside, other=0).to(tl.float32)
    dy = tl.load(dy_ptr + row * stride + columns, mask=inside, other=0).to(tl.float32)
    w = tl.load(w_ptr + columns, mask=inside).to(tl.float32)
    mean, rstd = tl.load(mean_ptr + row), tl.load(rstd_ptr + row)
    normed = tl.where(inside, (x - mean) * rstd, 0.0)
    wdy = tl.where(inside, w * dy, 0.0)
    along = tl.sum(normed * wdy, axis=0) / N
    common = tl.sum(wdy, axis=0) / N
    tl.store(dx_ptr + row * stride + columns, (wdy - (normed * along + common)) * rstd, mask=inside)

    # The row's share of dw and db goes to row % GROUPS of the partial sums. The first program there stores, as the
    # memory isn't initialized, later ones add.
    group = row % GROUPS
    lock_ptr, count_ptr = locks_ptr + group, locks_ptr + GROUPS + group
    dw_ptrs, db_ptrs = dw_ptr + group * N + columns, db_ptr + group * N + columns
    dw, db = dy * normed, dy
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    count = tl.load(count_ptr)
    if count == 0:
        tl.atomic_xchg(count_ptr, 1)
    else:
        dw += tl.load(dw_ptrs, mask=inside)
        db += tl.load(db_ptrs, mask=inside)
    tl.store(dw_ptrs, dw, mask=inside)
    tl.store(db_ptrs, db, mask=inside)
    # All threads have stored before one of them opens the lock.
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def reduce_kernel(
    partial_dw_ptr, partial_db_ptr, dw_ptr, db_ptr, rows, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    columns = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    dw = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    db = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, rows, BLOCK_M):
        r = start + tl.arange(0, BLOCK_M)
        inside = (r[:, None] < rows) & (columns[None, :] < N)
        offsets = r[:, None] * N + columns[None, :]
        dw += tl.load(partial_dw_ptr + offsets, mask=inside, other=0.0)
        db += tl.load(partial_db_ptr + offsets, mask=inside, other=0.0)
    tl.store(dw_ptr + columns, tl.sum(dw, axis=0), mask=columns < N)
    tl.store(db_ptr + columns, tl.sum(db, axis=0), mask=columns < N)


class LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b, eps, groups):
        rows, n = x.shape
        y = torch.empty_like(x)
        mean, rstd = (torch.empty(rows, dtype=torch.float32, device=x.device) for _ in range(2))
        block = min(triton.next_power_of_2(n), 128)
        forward_kernel[(rows,)](x, y, w, b, mean, rstd, x.stride(0), n, eps, BLOCK=block, num_warps=4)
        ctx.save_for_backward(x, w, mean, rstd)
        ctx.groups = groups
        return y

    @staticmethod
    def backward(ctx, dy):
        x, w, mean, rstd = ctx.saved_tensors
        rows, n = x.shape
        groups = min(ctx.groups, rows)
        dx, dw, db = torch.empty_like(x), torch.empty_like(w), torch.empty_like(w)
        locks = torch.zeros(2 * groups, dtype=torch.int32, device=x.device)
        partial_dw, partial_db = (torch.empty((groups, n), dtype=torch.float32, device=x.device) for _ in range(2))
        backward_kernel[(rows,)](
            dx, dy, partial_dw, partial_db, x, w, mean, rstd, locks, x.stride(0), n,
            GROUPS=groups, BLOCK=triton.next_power_of_2(n), num_warps=4,
        )
        reduce_kernel[(triton.cdiv(n, 64),)](partial_dw, partial_db, dw, db, groups, n, BLOCK_M=4, BLOCK_N=64)
        return dx, dw, db, None, None


@pytest.mark.parametrize(("rows", "n", "groups"), [(5, 128, 1), (7, 200, 3), (2, 512, 4)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_layer_norm(rows, n, groups, dtype):
    """Sums of up to 512 terms in float32, in an order that depends on the locks; float16 keeps 11 bits of a result."""
    torch.manual_seed(n)
    x = (2 * torch.randn(rows, n) - 0.5).to(dtype).to(DEVICE).requires_grad_()
    w, b = (torch.rand(n).to(dtype).to(DEVICE).requires_grad_() for _ in range(2))
    dy = (0.1 * torch.randn(rows, n)).to(dtype).to(DEVICE)
    y = LayerNorm.apply(x, w, b, 1e-5, groups)
    y.backward(dy)
    exact = [t.detach().double().requires_grad_() for t in (x, w, b)]
    expected = torch.nn.functional.layer_norm(exact[0], (n,), exact[1], exact[2], 1e-5)
    expected.backward(dy.double())
    relative, absolute = (2**-10, 2**-20) if dtype == torch.float16 else (2**-18, 2**-19)
    torch.testing.assert_close(y, expected.to(dtype), rtol=relative, atol=absolute)
    for actual, wanted in zip((x, w, b), exact, strict=True):
        torch.testing.assert_close(actual.grad, wanted.grad.to(dtype), rtol=relative, atol=absolute)
