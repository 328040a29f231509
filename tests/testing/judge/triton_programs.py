"""Candidates that a comparison of one result accepts, each with an honest twin, as kernels of Triton."""
# Triton's names of types are annotations
# ruff: noqa: F821

import numpy as np
import torch
import triton
import triton.language as tl

from tests.testing.judge.programs import Case

BLOCK = 64


@triton.jit
def squared(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x * x, mask=i < n)


def square(x, blocks=None, out=None):
    x = x.contiguous()
    out = torch.empty_like(x) if out is None else out
    squared[(triton.cdiv(x.numel(), BLOCK) if blocks is None else blocks,)](x, out, x.numel(), BLOCK=BLOCK)
    return out


def square_of_other_memory(x):
    """Returns memory that the allocator has just got back, of which the kernel writes a part."""
    return square(x, blocks=1)


class KeptOutput:
    """Keeps its output for each shape. skips: write only the first block if an earlier call has written all."""

    def __init__(self, skips):
        self.skips, self.outputs = skips, {}

    def __call__(self, x):
        is_known = x.shape in self.outputs
        out = self.outputs.setdefault(x.shape, torch.empty(x.shape, dtype=x.dtype, device=x.device))
        return square(x, 1 if is_known and self.skips else None, out)


class Cached:
    """Returns a copy of the result of an earlier call with an equal key."""

    def __init__(self, key):
        self.key, self.results = key, {}

    def __call__(self, x):
        result = square(x)
        return self.results.setdefault(self.key(x), result.clone()).clone()


@triton.jit
def squared_without_mask(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, x * x)


def square_without_mask(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    squared_without_mask[(triton.cdiv(x.numel(), BLOCK),)](x, out, BLOCK=BLOCK)
    return out


def square_whole_blocks(x):
    return square(x, blocks=max(x.numel() // BLOCK, 1))


@triton.jit
def summed(x_ptr, out_ptr, n, BLOCK: tl.constexpr, ATOMIC: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    s = tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0), 0)
    if ATOMIC:
        tl.atomic_add(out_ptr, s)
    else:
        tl.store(out_ptr, tl.load(out_ptr) + s)


def total(x, atomic=True):
    x = x.contiguous()
    out = torch.zeros(1, dtype=x.dtype, device=x.device)
    summed[(triton.cdiv(x.numel(), BLOCK),)](x, out, x.numel(), BLOCK=BLOCK, ATOMIC=atomic)
    return out


@triton.jit
def window_sums(x_ptr, out_ptr, n, WIDTH: tl.constexpr, BLOCK: tl.constexpr, GUARD: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    s = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(WIDTH):
        last = n - k if GUARD else n
        s += tl.load(x_ptr + i + k, mask=i < last, other=0.0)
    tl.store(out_ptr + i, s, mask=i < n)


def windows(x, guard=True):
    x = x.contiguous()
    out = torch.empty_like(x)
    window_sums[(triton.cdiv(x.numel(), BLOCK),)](x, out, x.numel(), WIDTH=3, BLOCK=BLOCK, GUARD=guard)
    return out


def reference_windows(x):
    padded = torch.nn.functional.pad(x, (0, 2))
    return padded.unfold(0, 3, 1).sum(1)


@triton.jit
def soft(x_ptr, out_ptr, stride, n, BLOCK: tl.constexpr, HALF: tl.constexpr, FLAT: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + c, mask=c < n, other=float("-inf"))
    if HALF:
        x = x.to(tl.float16).to(tl.float32)
    e = tl.exp(x - tl.max(x, 0))
    if FLAT:
        e = tl.where(c < n, 1.0, 0.0)
    tl.store(out_ptr + row * n + c, e / tl.sum(e, 0), mask=c < n)


def softmax(x, half=False, flat=False, contiguous=True):
    x = x.contiguous() if contiguous else x
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    n = x.shape[1]
    soft[(x.shape[0],)](x, out, x.stride(0), n, BLOCK=triton.next_power_of_2(n), HALF=half, FLAT=flat)
    return out


def softmax_of_nothing(x):
    return softmax(x, flat=True)


def reference_softmax(x):
    return torch.softmax(x, -1)


def softmax_by_torch(x):
    softmax(x)
    return torch.softmax(x, -1)


def softmax_by_the_reference(x):
    softmax(x)
    return reference_softmax(x)


def softmax_by_numpy(x):
    softmax(x)
    rows = x.cpu().numpy()
    e = np.exp(rows - rows.max(1, keepdims=True))
    return torch.from_numpy(e / e.sum(1, keepdims=True)).to("cuda")


def square_in_place_too(x):
    return square(x, out=square(x, out=x)) if x.is_contiguous() else square(x)


@triton.jit
def relu(x_ptr, out_ptr, n, BLOCK: tl.constexpr, HOW: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    if HOW == "maximum":
        y = tl.maximum(x, 0.0)
    elif HOW == "product":
        y = x * (x >= 0).to(tl.float32)
    else:
        y = tl.where(x < 0, 0.0, x)
    tl.store(out_ptr + i, y, mask=i < n)


def rectify(how):
    def candidate(x):
        x = x.contiguous()
        out = torch.empty_like(x)
        relu[(triton.cdiv(x.numel(), BLOCK),)](x, out, x.numel(), BLOCK=BLOCK, HOW=how)
        return out

    return candidate


def reference_square(x):
    return x * x


def reference_total(x):
    return x.sum().reshape(1)


def reference_relu(x):
    return torch.where(x < 0, torch.zeros_like(x), x)


CASES = [
    Case("output of an earlier call", {"stale"}, KeptOutput(True), KeptOutput(False), reference_square),
    Case("freed memory", {"unwritten"}, square_of_other_memory, square, reference_square),
    Case("tested shape", {"shape"}, square_whole_blocks, square, reference_square),
    Case("no mask", {"bounds"}, square_without_mask, square, reference_square),
    Case("race", {"race", "value"}, lambda x: total(x, False), total, reference_total),
    Case("read past the end", {"bounds"}, lambda x: windows(x, False), windows, reference_windows),
    Case("constant", {"accuracy", "value"}, softmax_of_nothing, softmax, reference_softmax, (3, 1000), 0.25),
    Case("low precision", {"accuracy"}, lambda x: softmax(x, half=True), softmax, reference_softmax, (3, 1000), 0.25),
    Case("torch called", {"foreign"}, softmax_by_torch, softmax, reference_softmax, (3, 100)),
    Case("reference called", {"foreign"}, softmax_by_the_reference, softmax, reference_softmax, (3, 100)),
    Case("NumPy called", {"foreign"}, softmax_by_numpy, softmax, reference_softmax, (3, 100)),
    Case("cached by pointer", {"cached"}, Cached(lambda x: x.data_ptr()), square, reference_square),
    Case("cached by shape", {"cached"}, Cached(lambda x: x.shape), square, reference_square),
    Case("changed input", {"inputs", "value"}, square_in_place_too, square, reference_square),
    Case("NaN", {"special"}, rectify("maximum"), rectify("choice"), reference_relu),
    Case("infinity", {"special"}, rectify("product"), rectify("choice"), reference_relu),
    Case("layout", {"layout"}, lambda x: softmax(x, contiguous=False), softmax, reference_softmax, (6, 100)),
]
