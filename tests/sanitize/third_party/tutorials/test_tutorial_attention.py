"""Attention that keeps a running maximum and sum of each row's scores, and recomputes the scores for gradients."""

import os

import pytest
import torch
import triton
import triton.language as tl

DEVICE = os.environ.get("DEVICE", "cuda")

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def forward_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, scale, T,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):
    start, head = tl.program_id(0) * BLOCK_M, tl.program_id(1)
    rows, depth, columns = start + tl.arange(0, BLOCK_M), tl.arange(0, D), tl.arange(0, BLOCK_N)
    base = head.to(tl.int64) * T * D
    tile = base + rows[:, None] * D + depth[None, :]
    q = tl.load(q_ptr + tile, mask=rows[:, None] < T, other=0.0)
    largest = tl.full([BLOCK_M], -float("inf"), dtype=tl.float32)
    total = tl.zeros([BLOCK_M], dtype=tl.float32)
    acc = tl.zeros([BLOCK_M, D], dtype=tl.float32)
    end = min(start + BLOCK_M, T) if CAUSAL else T
    for n in range(0, end, BLOCK_N):
        keys = n + columns
        k = tl.load(k_ptr + base + keys[None, :] * D + depth[:, None], mask=keys[None, :] < T, other=0.0)
        v = tl.load(v_ptr + base + keys[:, None] * D + depth[None, :], mask=keys[:, None] < T, other=0.0)
        s = tl.dot(q, k) * (scale * LOG2_E)
        seen = keys[None, :] < T
        if CAUSAL:
            seen = seen & (keys[None, :] <= rows[:, None])
        s = tl.where(seen, s, -float("inf"))
        larger = tl.maximum(largest, tl.max(s, 1))
        p = tl.exp2(s - larger[:, None])
        shrink = tl.exp2(largest - larger)
        total = total * shrink + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None])
        largest = larger
    tl.store(o_ptr + tile, (acc / total[:, None]).to(o_ptr.dtype.element_ty), mask=rows[:, None] < T)
    tl.store(lse_ptr + head * T + rows, largest + tl.log2(total), mask=rows < T)


@triton.jit
def delta_kernel(o_ptr, do_ptr, delta_ptr, T, D: tl.constexpr, BLOCK: tl.constexpr):
    rows, head = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1)
    tile = head.to(tl.int64) * T * D + rows[:, None] * D + tl.arange(0, D)[None, :]
    o = tl.load(o_ptr + tile, mask=rows[:, None] < T, other=0.0).to(tl.float32)
    do = tl.load(do_ptr + tile, mask=rows[:, None] < T, other=0.0).to(tl.float32)
    tl.store(delta_ptr + head * T + rows, tl.sum(o * do, 1), mask=rows < T)


@triton.jit
def dkv_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, dk_ptr, dv_ptr, lse_ptr, delta_ptr, scale, T,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):
    start, head = tl.program_id(0) * BLOCK_N, tl.program_id(1)
    keys, depth = start + tl.arange(0, BLOCK_N), tl.arange(0, D)
    base = head.to(tl.int64) * T * D
    tile = base + keys[:, None] * D + depth[None, :]
    k = tl.load(k_ptr + tile, mask=keys[:, None] < T, other=0.0)
    v = tl.load(v_ptr + tile, mask=keys[:, None] < T, other=0.0)
    dk, dv = tl.zeros([BLOCK_N, D], dtype=tl.float32), tl.zeros([BLOCK_N, D], dtype=tl.float32)
    first = (start // BLOCK_M) * BLOCK_M if CAUSAL else 0
    for m in range(first, T, BLOCK_M):
        rows = m + tl.arange(0, BLOCK_M)
        q_t = tl.load(q_ptr + base + rows[None, :] * D + depth[:, None], mask=rows[None, :] < T, other=0.0)
        do = tl.load(do_ptr + base + rows[:, None] * D + depth[None, :], mask=rows[:, None] < T, other=0.0)
        lse = tl.load(lse_ptr + head * T + rows, mask=rows < T, other=0.0)
        delta = tl.load(delta_ptr + head * T + rows, mask=rows < T, other=0.0)
        p_t = tl.exp2(tl.dot(k, q_t) * (scale * LOG2_E) - lse[None, :])
        seen = (rows[None, :] < T) & (keys[:, None] < T)
        if CAUSAL:
            seen = seen & (keys[:, None] <= rows[None, :])
        p_t = tl.where(seen, p_t, 0.0)
        dv = tl.dot(p_t.to(do.dtype), do, dv)
        ds_t = p_t * (tl.dot(v, tl.trans(do)) - delta[None, :])
        dk = tl.dot(ds_t.to(q_t.dtype), tl.trans(q_t), dk)
    tl.store(dk_ptr + tile, (dk * scale).to(dk_ptr.dtype.element_ty), mask=keys[:, None] < T)
    tl.store(dv_ptr + tile, dv.to(dv_ptr.dtype.element_ty), mask=keys[:, None] < T)


@triton.jit
def dq_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, dq_ptr, lse_ptr, delta_ptr, scale, T,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):
    start, head = tl.program_id(0) * BLOCK_M, tl.program_id(1)
    rows, depth = start + tl.arange(0, BLOCK_M), tl.arange(0, D)
    base = head.to(tl.int64) * T * D
    tile = base + rows[:, None] * D + depth[None, :]
    q = tl.load(q_ptr + tile, mask=rows[:, None] < T, other=0.0)
    do = tl.load(do_ptr + tile, mask=rows[:, None] < T, other=0.0)
    lse = tl.load(lse_ptr + head * T + rows, mask=rows < T, other=0.0)
    delta = tl.load(delta_ptr + head * T + rows, mask=rows < T, other=0.0)
    dq = tl.zeros([BLOCK_M, D], dtype=tl.float32)
    end = min(start + BLOCK_M, T) if CAUSAL else T
    for n in range(0, end, BLOCK_N):
        keys = n + tl.arange(0, BLOCK_N)
        offsets = base + keys[None, :] * D + depth[:, None]
        k_t = tl.load(k_ptr + offsets, mask=keys[None, :] < T, other=0.0)
        v_t = tl.load(v_ptr + offsets, mask=keys[None, :] < T, other=0.0)
        p = tl.exp2(tl.dot(q, k_t) * (scale * LOG2_E) - lse[:, None])
        seen = keys[None, :] < T
        if CAUSAL:
            seen = seen & (keys[None, :] <= rows[:, None])
        ds = tl.where(seen, p * (tl.dot(do, v_t) - delta[:, None]), 0.0)
        dq = tl.dot(ds.to(k_t.dtype), tl.trans(k_t), dq)
    tl.store(dq_ptr + tile, (dq * scale).to(dq_ptr.dtype.element_ty), mask=rows[:, None] < T)


class Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, causal):
        heads, t, d = q.shape[0] * q.shape[1], *q.shape[2:]
        o = torch.empty_like(q)
        lse = torch.empty((heads, t), dtype=torch.float32, device=q.device)
        ctx.options = {"D": d, "BLOCK_M": 32, "BLOCK_N": 32, "CAUSAL": causal, "num_warps": 4}
        forward_kernel[(triton.cdiv(t, 32), heads)](q, k, v, o, lse, d**-0.5, t, **ctx.options, num_stages=2)
        ctx.save_for_backward(q, k, v, o, lse)
        return o

    @staticmethod
    def backward(ctx, do):
        q, k, v, o, lse = ctx.saved_tensors
        do = do.contiguous()
        heads, t, d = q.shape[0] * q.shape[1], *q.shape[2:]
        grid = (triton.cdiv(t, 32), heads)
        dq, dk, dv, delta = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v), torch.empty_like(lse)
        delta_kernel[grid](o, do, delta, t, D=d, BLOCK=32)
        dkv_kernel[grid](q, k, v, do, dk, dv, lse, delta, d**-0.5, t, **ctx.options)
        dq_kernel[grid](q, k, v, do, dq, lse, delta, d**-0.5, t, **ctx.options)
        return dq, dk, dv, None


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize(("heads", "t", "d"), [(2, 64, 32), (1, 75, 16)], ids=str)
def test_attention(heads, t, d, causal):
    torch.manual_seed(t)
    q, k, v = (torch.randn(1, heads, t, d).half().to(DEVICE).requires_grad_() for _ in range(3))
    do = torch.randn(1, heads, t, d).half().to(DEVICE)
    o = Attention.apply(q, k, v, causal)
    o.backward(do)
    exact = [x.detach().double().requires_grad_() for x in (q, k, v)]
    s = exact[0] @ exact[1].transpose(-1, -2) * d**-0.5
    if causal:
        s = s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(1), -torch.inf)
    expected = s.softmax(-1) @ exact[2]
    expected.backward(do.double())
    # float16 has 11 bits: a weight, at most 1, is off by 2^-11 of itself before it is multiplied, and so is what is
    # stored; sums of these errors over the row, of either sign, stay below 2^-9. Gradients multiply once more.
    torch.testing.assert_close(o, expected.half(), rtol=2**-9, atol=2**-10)
    for actual, wanted in zip((q, k, v), exact, strict=True):
        torch.testing.assert_close(actual.grad, wanted.grad.half(), rtol=2**-8, atol=2**-8)
