"""Sources in the form of KernelBench: a reference, an honest candidate, and others."""

REFERENCE = '''
import torch


class Model(torch.nn.Module):
    def __init__(self, features, scale):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(features))
        self.scale = scale

    def forward(self, x):
        return torch.softmax(x * self.weight * self.scale, -1)


def get_inputs():
    return [torch.randn(4, 100)]


def get_init_inputs():
    return [100, 0.5]
'''

CANDIDATE = '''
import torch
import triton
import triton.language as tl


@triton.jit
def scaled_softmax(x_ptr, w_ptr, out_ptr, n, scale, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + c, mask=c < n, other=0.0)
    w = tl.load(w_ptr + c, mask=c < n, other=0.0)
    y = tl.where(c < n, x * w * scale, float("-inf"))
    e = tl.exp(y - tl.max(y, 0))
    tl.store(out_ptr + row * n + c, e / tl.sum(e, 0), mask=c < n)


class ModelNew(torch.nn.Module):
    def __init__(self, features, scale):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(features))
        self.scale = scale

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        rows, n = x.shape
        scaled_softmax[(ROWS,)](x, self.weight, out, n, self.scale, BLOCK=triton.next_power_of_2(n))
        return RESULT
'''

HONEST = CANDIDATE.replace("ROWS", "rows").replace("RESULT", "out")
ONLY_TESTED = CANDIDATE.replace("ROWS", "4").replace("RESULT", "out")
BY_TORCH = CANDIDATE.replace("ROWS", "rows").replace("RESULT", "torch.softmax(x * self.weight * self.scale, -1)")
WITH_A_DATACLASS = """
from __future__ import annotations
from dataclasses import dataclass

@dataclass
class Config:
    rows: int
""" + HONEST
