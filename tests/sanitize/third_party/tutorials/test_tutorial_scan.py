"""Running sums and other scans: of rows, with a carry from block to block, and by programs that wait for another."""

import os

import pytest
import torch
import triton
import triton.language as tl

DEVICE = os.environ.get("DEVICE", "cuda")


@triton.jit
def row_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr, REVERSE: tl.constexpr):
    row = tl.program_id(0)
    carry = 0.0
    blocks = tl.cdiv(N, BLOCK)
    for i in range(blocks):
        block = blocks - 1 - i if REVERSE else i
        offsets = block * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + offsets, mask=offsets < N, other=0.0)
        tl.store(y_ptr + row * N + offsets, carry + tl.cumsum(x, axis=0, reverse=REVERSE), mask=offsets < N)
        carry += tl.sum(x, axis=0)


@triton.jit
def then(decay_a, value_a, decay_b, value_b):
    """Return the step that does step a, s -> decay_a * s + value_a, and then step b."""
    return decay_a * decay_b, value_a * decay_b + value_b


@triton.jit
def recurrence_kernel(decay_ptr, x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < N
    decay = tl.load(decay_ptr + row * N + offsets, mask=inside, other=1.0)
    x = tl.load(x_ptr + row * N + offsets, mask=inside, other=0.0)
    _, y = tl.associative_scan((decay, x), 0, then)
    tl.store(y_ptr + row * N + offsets, y, mask=inside)


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def column_kernel(x_ptr, maximum_ptr, product_ptr, M, N: tl.constexpr, BLOCK_M: tl.constexpr):
    rows, columns = tl.arange(0, BLOCK_M), tl.arange(0, N)
    offsets = rows[:, None] * N + columns[None, :]
    inside = rows[:, None] < M
    x = tl.load(x_ptr + offsets, mask=inside, other=1)
    tl.store(maximum_ptr + offsets, tl.associative_scan(x, 0, larger), mask=inside)
    tl.store(product_ptr + offsets, tl.cumprod(x, axis=0), mask=inside)


@triton.jit
def chained_kernel(x_ptr, y_ptr, sums_ptr, ready_ptr, n, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    offsets = block * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside, other=0)
    total = tl.sum(x, axis=0)
    # The block before has written the sum of all up to its end when its flag is set.
    before = 0
    if block > 0:
        while tl.atomic_add(ready_ptr + block - 1, 0, sem="acquire") == 0:
            pass
        before = tl.load(sums_ptr + block - 1)
    tl.store(sums_ptr + block, before + total)
    tl.debug_barrier()
    tl.atomic_xchg(ready_ptr + block, 1, sem="release")
    tl.store(y_ptr + offsets, before + tl.cumsum(x, axis=0), mask=inside)


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("n", [128, 300])
def test_rows(n, reverse):
    """Sums of up to 300 numbers in float32, in any order."""
    torch.manual_seed(n)
    x = torch.randn(3, n).to(DEVICE)
    y = torch.empty_like(x)
    row_kernel[(3,)](x, y, n, BLOCK=128, REVERSE=reverse)
    d = x.double()
    expected = d.flip(1).cumsum(1).flip(1) if reverse else d.cumsum(1)
    torch.testing.assert_close(y, expected.float(), rtol=2**-20, atol=2**-17)


@pytest.mark.parametrize("n", [64, 200])
def test_linear_recurrence(n):
    """Decays below 1 let errors of 2^-24 of earlier terms fade."""
    torch.manual_seed(n)
    decay, x = torch.rand(4, n).to(DEVICE), torch.randn(4, n).to(DEVICE)
    y = torch.empty_like(x)
    recurrence_kernel[(4,)](decay, x, y, n, BLOCK=triton.next_power_of_2(n))
    s, expected = torch.zeros(4, dtype=torch.double, device=DEVICE), []
    for i in range(n):
        s = decay[:, i] * s + x[:, i]
        expected.append(s)
    torch.testing.assert_close(y, torch.stack(expected, 1).float(), rtol=2**-20, atol=2**-20)


def test_maximum_and_product_of_columns():
    torch.manual_seed(5)
    x = torch.randint(-2, 3, (21, 16), dtype=torch.int32)
    x[x == 0] = 1
    maximum, product = (torch.empty_like(x).to(DEVICE) for _ in range(2))
    column_kernel[(1,)](x.to(DEVICE), maximum, product, 21, N=16, BLOCK_M=32)
    assert torch.equal(maximum.cpu(), x.cummax(0).values)
    assert torch.equal(product.cpu(), x.cumprod(0).int())


@pytest.mark.parametrize("n", [100, 1000])
def test_programs_in_a_chain(n):
    torch.manual_seed(n)
    x = torch.randint(-1000, 1000, (n,), dtype=torch.int32).to(DEVICE)
    y = torch.empty_like(x)
    blocks = triton.cdiv(n, 128)
    sums = torch.empty(blocks, dtype=torch.int32).to(DEVICE)
    ready = torch.zeros(blocks, dtype=torch.int32).to(DEVICE)
    chained_kernel[(blocks,)](x, y, sums, ready, n, BLOCK=128)
    assert torch.equal(y, x.cumsum(0).int())
