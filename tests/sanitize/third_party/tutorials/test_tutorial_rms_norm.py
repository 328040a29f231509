"""RMS normalization with gradients; a few programs take the rows in turn and keep a share of the weight's gradient."""

import os

import pytest
import torch
import triton
import triton.language as tl

DEVICE = os.environ.get("DEVICE", "cuda")


@triton.jit
def forward_kernel(x_ptr, w_ptr, y_ptr, rstd_ptr, stride_x, stride_y, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    inside = columns < N
    x = tl.load(x_ptr + row * stride_x + columns, mask=inside, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + columns, mask=inside, other=0.0).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, axis=0) / N + eps)
    tl.store(rstd_ptr + row, rstd)
    tl.store(y_ptr + row * stride_y + columns, (x * rstd * w).to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def backward_kernel(
    dy_ptr, x_ptr, w_ptr, rstd_ptr, dx_ptr, dw_ptr, stride_dy, stride_x, rows, N, BLOCK: tl.constexpr
):
    program = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < N
    w = tl.load(w_ptr + columns, mask=inside, other=0.0).to(tl.float32)
    dw = tl.zeros([BLOCK], dtype=tl.float32)
    for row in range(program, rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * stride_x + columns, mask=inside, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * stride_dy + columns, mask=inside, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        wdy = w * dy
        along = tl.sum(wdy * x, axis=0) / N
        dx = rstd * (wdy - x * (rstd * rstd * along))
        # The gradient replaces that of the output, which nothing reads afterwards.
        tl.store(dx_ptr + row * stride_dy + columns, dx.to(dx_ptr.dtype.element_ty), mask=inside)
        dw += dy * x * rstd
    tl.store(dw_ptr + program * N + columns, dw, mask=inside)


class RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, eps, programs):
        flat = x.reshape(-1, x.shape[-1])
        rows, n = flat.shape
        y, rstd = torch.empty_like(flat), torch.empty(rows, dtype=torch.float32, device=x.device)
        block = triton.next_power_of_2(n)
        forward_kernel[(rows,)](flat, w, y, rstd, flat.stride(0), y.stride(0), n, eps, BLOCK=block, num_warps=4)
        ctx.save_for_backward(flat, w, rstd)
        ctx.programs = min(programs, rows)
        return y.view(x.shape)

    @staticmethod
    def backward(ctx, dy):
        x, w, rstd = ctx.saved_tensors
        rows, n = x.shape
        shape, dy = dy.shape, dy.reshape(rows, n).clone()
        dw = torch.empty((ctx.programs, n), dtype=torch.float32, device=x.device)
        backward_kernel[(ctx.programs,)](
            dy, x, w, rstd, dy, dw, dy.stride(0), x.stride(0), rows, n, BLOCK=triton.next_power_of_2(n), num_warps=2
        )
        return dy.view(shape), dw.sum(0).to(w.dtype), None, None


@pytest.mark.parametrize("n", [64, 100, 128, 512])
def test_rms_norm(n):
    """Sums of up to 512 squares in float32, in any order."""
    torch.manual_seed(n)
    x = torch.randn(2, 4, n).to(DEVICE).requires_grad_()
    w = torch.rand(n).to(DEVICE).requires_grad_()
    dy = torch.randn(2, 4, n).to(DEVICE)
    y = RmsNorm.apply(x, w, 1e-6, 3)
    y.backward(dy)
    exact_x, exact_w = (t.detach().double().requires_grad_() for t in (x, w))
    expected = torch.nn.functional.rms_norm(exact_x, (n,), exact_w, 1e-6)
    expected.backward(dy.double())
    torch.testing.assert_close(y, expected.float(), rtol=2**-19, atol=0)
    torch.testing.assert_close(x.grad, exact_x.grad.float(), rtol=2**-19, atol=2**-19)
    torch.testing.assert_close(w.grad, exact_w.grad.float(), rtol=2**-19, atol=2**-19)


def test_rms_norm_of_a_slice_in_bfloat16():
    """Rows lie apart; bfloat16 keeps 8 bits of a result."""
    torch.manual_seed(0)
    x = torch.randn(5, 160).bfloat16().to(DEVICE)[:, 16:112]
    w = torch.rand(96).bfloat16().to(DEVICE)
    y = RmsNorm.apply(x, w, 1e-6, 1)
    expected = torch.nn.functional.rms_norm(x.double(), (96,), w.double(), 1e-6)
    torch.testing.assert_close(y, expected.bfloat16(), rtol=2**-7, atol=0)
