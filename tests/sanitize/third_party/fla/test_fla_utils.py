"""Operators of fla.ops.utils beside torch's in float64: sums, softmax, products, triangular inverses."""

import os

import pytest
import torch
from fla.ops.utils import chunk_global_cumsum, chunk_local_cumsum, solve_tril
from fla.ops.utils.logsumexp import logsumexp_fwd
from fla.ops.utils.matmul import addmm, matmul
from fla.ops.utils.sinkhorn import sinkhorn
from fla.ops.utils.softmax import softmax_bwd, softmax_fwd

DEVICE = os.environ.get("DEVICE", "cuda")

#: float32 has 24 bits of mantissa; sums of up to 100 terms in any order and exp.approx agree to 2^-19
FLOAT32 = 2**-19


def normal(*shape, dtype=torch.float32):
    """Return normal numbers."""
    return torch.randn(*shape).to(DEVICE, dtype)


def boundaries(*lengths):
    """Return the offsets of sequences that lie one after the other."""
    return torch.tensor([0, *lengths]).cumsum(0).to(DEVICE)


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("shape", [(2, 70, 3), (1, 40, 2, 24)], ids=["heads", "vectors"])
def test_cumulative_sums_within_chunks(check, shape, reverse):
    """A chunk is 16 rows; the last one has fewer."""
    x = normal(*shape)
    order = (lambda part: part.flip(1)) if reverse else (lambda part: part)
    expected = torch.cat([order(order(part).cumsum(1)) for part in x.double().split(16, dim=1)], dim=1)
    check("sums", chunk_local_cumsum(x, 16, reverse=reverse), expected, FLOAT32)


@pytest.mark.parametrize("shape", [(2, 75, 2), (1, 75, 2, 20)], ids=["heads", "vectors"])
def test_cumulative_sums(check, shape):
    x = normal(*shape)
    check("sums", chunk_global_cumsum(x), x.double().cumsum(1), FLOAT32)


def test_reverse_cumulative_sums_of_packed_sequences(check):
    x = normal(1, 60, 4)
    expected = torch.cat([p.flip(1).cumsum(1).flip(1) for p in x.double().split([7, 40, 13], dim=1)], dim=1)
    actual = chunk_global_cumsum(x, reverse=True, cu_seqlens=boundaries(7, 40, 13))
    check("sums", actual, expected, FLOAT32)


@pytest.mark.parametrize("columns", [64, 190])
def test_softmax_and_its_derivative(check, columns):
    x, dp = normal(5, columns), normal(5, columns)
    p = softmax_fwd(x)
    expected = x.double().softmax(-1)
    check("softmax", p, expected, FLOAT32)
    dx = expected * (dp.double() - (expected * dp.double()).sum(-1, keepdim=True))
    # products of p and dp, nearly as large as their mean, are subtracted from each other: one or two bits are lost
    check("derivative", softmax_bwd(p, dp), dx, 2 * FLOAT32)


def test_logsumexp_of_scaled_rows(check):
    x = normal(3, 4, 150)
    check("logsumexp", logsumexp_fwd(x, scale=0.5), (0.5 * x.double()).logsumexp(-1), FLOAT32)


@pytest.mark.parametrize("activation", ["", "leaky_relu", "sigmoid"], ids=["plain", "leaky_relu", "sigmoid"])
def test_matmul_with_activation(check, activation):
    """Rows past the end wrap around, columns of K are masked. float16 rounds by up to 2^-11 of a result."""
    a, b = normal(33, 40, dtype=torch.half), normal(40, 50, dtype=torch.half)
    expected = a.double() @ b.double()
    if activation:
        expected = getattr(torch.nn.functional, activation)(expected)
    check("product", matmul(a, b, activation), expected, 2**-11)


def test_addmm_of_a_batch_in_half_precision(check):
    """float16 has 11 bits of mantissa: the sum in float32 is rounded once, by up to 2^-11 of itself."""
    x, a, b = normal(40, dtype=torch.half), normal(2, 20, 64, dtype=torch.half), normal(64, 40, dtype=torch.half)
    alpha, beta = torch.tensor(0.5, device=DEVICE), torch.tensor(2.0, device=DEVICE)
    expected = 0.5 * (a.double() @ b.double()) + 2 * x.double()
    check("sum", addmm(x, a, b, alpha, beta), expected, 2**-11)


@pytest.mark.parametrize("size", [16, 32, 64])
def test_inverse_of_unit_triangular_blocks(check, size):
    """Rows of T are grouped in blocks; the last one is cut off in the middle."""
    rows = 2 * size - 5
    below = torch.ones(size, size).tril(-1).repeat(2, 1)[:rows]
    a = (0.3 * torch.randn(1, rows, 2, size) * below[None, :, None]).to(DEVICE)
    expected = torch.zeros(1, rows, 2, size, dtype=torch.double, device=DEVICE)
    for start in range(0, rows, size):
        n = min(size, rows - start)
        block = a[0, start : start + n, :, :n].double().transpose(0, 1)
        inverse = torch.linalg.inv(torch.eye(n, dtype=torch.double, device=DEVICE) + block)
        expected[0, start : start + n, :, :n] = inverse.transpose(0, 1)
    # Blocks of 16 are solved row by row and joined by products, all in float32 without TF32: sums of at most 64 terms.
    check("inverse", solve_tril(a), expected, FLOAT32)


def test_sinkhorn_iterations(compare):
    def reference(x):
        for _ in range(4):
            x = x - x.logsumexp(-2, keepdim=True)
            x = x - x.logsumexp(-1, keepdim=True)
        return x.exp()

    # each of 8 steps takes exp and log of what the one before rounded
    compare(lambda x: sinkhorn(x, 4), reference, {"x": normal(6, 4, 4).requires_grad_()}, 8 * FLOAT32)
