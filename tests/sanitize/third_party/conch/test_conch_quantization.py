"""Quantized matrices of conch-triton-kernels: conversions, products, and codes of 4 and 8 bits."""

import os

import pytest
import torch
from conch.ops.quantization.bitsandbytes.functional import (
    dequantize_4bit,
    dequantize_blockwise,
    quantize_4bit,
    quantize_blockwise,
)
from conch.ops.quantization.fp8 import scaled_fp8_quant
from conch.ops.quantization.gemm import mixed_precision_gemm, scaled_gemm
from conch.ops.quantization.int8 import scaled_int8_quant
from conch.platforms import current_platform

DEVICE = os.environ.get("DEVICE", "cuda")
# half an ulp is 2**-11 for 11 bits of mantissa; weights, products with scales and the result are rounded
FLOAT16 = 2.0**-9
# three products in float32 (24 bits of mantissa), of which none cancels
FLOAT32 = 2.0**-22


def rows(*shape, dtype=torch.float32):
    """Return normally distributed numbers, the same on each device."""
    return torch.randn(shape).to(DEVICE, dtype)


def test_scaled_int8_quant():
    torch.manual_seed(121)
    x = rows(4, 150)
    # a power of two, so that products with its inverse are exact
    scale = torch.tensor([2.0**-6], device=DEVICE)
    output, returned = scaled_int8_quant(x, scale)
    assert returned is scale
    assert torch.equal(output, (x * 64).clamp(-128, 127).to(torch.int8))


def test_scaled_fp8_quant():
    if not current_platform.supports_fp8():
        pytest.skip("Triton converts to float8_e4m3fn from compute capability 8.9 on")
    torch.manual_seed(122)
    x = rows(4, 150)
    scale = torch.tensor([0.25], device=DEVICE)
    output, _ = scaled_fp8_quant(x, scale)
    assert torch.equal(output.float(), (x * 4).to(torch.float8_e4m3fn).float())


def pack(weights, bits):
    """Pack neighbouring rows of unsigned numbers into int32, the first in the lowest bits."""
    count = 32 // bits
    shifts = torch.arange(count, device=weights.device)[:, None] * bits
    packed = (weights.long().unflatten(0, (-1, count)) << shifts).sum(1)
    return torch.where(packed >= 2**31, packed - 2**32, packed).to(torch.int32)


@pytest.mark.parametrize(("rows_of_x", "group"), [(5, 64), (33, 128)])
def test_mixed_precision_gemm_of_4_bits(near, rows_of_x, group):
    torch.manual_seed(123)
    x = rows(rows_of_x, 128, dtype=torch.float16)
    weights = torch.randint(16, (128, 64)).to(DEVICE)
    scales = (torch.rand(128 // group, 64) + 0.5).to(DEVICE, torch.float16) / 16
    output = mixed_precision_gemm(
        x, pack(weights, 4), scales, None, weight_size_bits=4, weight_bias=8, group_size=group
    )
    exact = (weights - 8).double() * scales.double().repeat_interleave(group, 0)
    near(output, x.double() @ exact, FLOAT16)


def test_mixed_precision_gemm_of_8_bits_with_zero_points(near):
    torch.manual_seed(124)
    x = rows(9, 64, dtype=torch.float16)
    weights = torch.randint(256, (64, 128)).to(DEVICE)
    scales = (torch.rand(1, 128) + 0.5).to(DEVICE, torch.float16) / 256
    zeros = torch.randint(100, 150, (1, 128)).to(DEVICE, torch.float16)
    output = mixed_precision_gemm(x, pack(weights, 8), scales, zeros, weight_size_bits=8, weight_bias=0, group_size=64)
    near(output, x.double() @ ((weights - zeros.double()) * scales.double()), FLOAT16)


@pytest.mark.parametrize("per_row", [False, True])
def test_scaled_gemm_of_int8(near, per_row):
    torch.manual_seed(125)
    a = torch.randint(-127, 128, (10, 128)).to(DEVICE, torch.int8)
    b = torch.randint(-127, 128, (128, 64)).to(DEVICE, torch.int8)
    scale_a = (torch.rand(10, 1) if per_row else torch.rand(1)).to(DEVICE)
    scale_b = (torch.rand(64, 1) if per_row else torch.rand(1)).to(DEVICE)
    output = scaled_gemm(a, b, scale_a, scale_b, torch.float32)
    # the sum is exact in int32
    expected = scale_a.double() * (a.double() @ b.double()) * scale_b.double().flatten()
    near(output, expected, FLOAT32)


def test_scaled_gemm_with_bias(near):
    torch.manual_seed(126)
    a = torch.randint(-9, 10, (7, 64)).to(DEVICE, torch.int8)
    b = torch.randint(-9, 10, (64, 128)).to(DEVICE, torch.int8)
    scale_a, scale_b = torch.rand(1).to(DEVICE), torch.rand(128, 1).to(DEVICE)
    bias = rows(128, dtype=torch.float16)
    output = scaled_gemm(a, b, scale_a, scale_b, torch.float16, bias=bias)
    near(output, scale_a.double() * (a.double() @ b.double()) * scale_b.double().flatten() + bias.double(), FLOAT16)


# values of 4-bit NormalFloat (arXiv:2305.14314, appendix E), in the order of their codes
NF4 = [
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
]
# magnitudes of bitsandbytes' FP4 in the order of their codes; the fourth bit is the sign
FP4 = [0.0, 1 / 192, 2 / 3, 1.0, 1 / 3, 0.5, 1 / 6, 0.25]


def check_nearest(x, output, table, blocks):
    """Check that elements of `output` are the nearest multiples of the largest element of their block."""
    largest = torch.cat([block.abs().max().expand(len(block)) for block in x.double().split(blocks)])
    table = torch.tensor(table, dtype=torch.float64, device=x.device)
    distances = (x.double() / largest)[:, None] - table
    # products with the inverse of the largest element are rounded to float32, values of the table to six digits
    allowed = distances.abs().min(-1).values + 2e-6
    scaled = output.double() / largest
    assert ((scaled[:, None] - table).abs().min(-1).values <= 2e-6).all()
    assert ((x.double() / largest - scaled).abs() <= allowed).all()


@pytest.mark.parametrize(("kind", "size"), [("nf4", 100), ("fp4", 64)])
def test_quantize_4bit(kind, size):
    torch.manual_seed(127)
    x = rows(size)
    packed, state = quantize_4bit(x, blocksize=64, quant_type=kind)
    assert packed.dtype == torch.uint8
    assert packed.numel() == size // 2
    assert torch.equal(state.absmax, torch.stack([block.abs().max() for block in x.split(64)]))
    output = dequantize_4bit(packed, state, blocksize=64, quant_type=kind)
    check_nearest(x, output, NF4 if kind == "nf4" else FP4 + [-value for value in FP4], 64)


def test_quantize_blockwise_by_a_table_of_256_values():
    torch.manual_seed(128)
    x = rows(40)
    code = torch.linspace(-1, 1, 256).to(DEVICE)
    codes, state = quantize_blockwise(x, code=code, blocksize=64, quant_type="fp8")
    assert codes.shape == x.shape
    output = dequantize_blockwise(codes, state, blocksize=64, quant_type="fp8")
    check_nearest(x, output, code.tolist(), 64)
