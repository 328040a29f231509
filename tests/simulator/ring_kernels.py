"""Kernels in which warps hand each other stages of a ring, as PTX text: what rings of mbarriers compile to.

Buffers come first in shared memory, stage by stage, behind them `full` and then `empty`, a barrier a stage.
"""

from __future__ import annotations

import numpy as np

from tests.simulator.small_kernels import Pointer, pointer
from tilejit.simulator import run

HEADER = ".version 8.6\n.target sm_90a\n.address_size 64\n"
REGISTERS = (
    ".reg .pred %p<32>;\n.reg .b32 %r<64>;\n.reg .b64 %x<32>;\n"
    ".shared .align 1024 .b8 sm[{size}];\n"
)


def wait(name: str, address: str, number: str, registers: str = "%p31") -> str:
    """Wait for phase `number` of the barrier at `address`. name: of the loop's label."""
    return (
        f"{name}: {{ .reg .b32 p; and.b32 p, {number}, 1; "
        f"mbarrier.try_wait.parity.shared::cta.b64 {registers}, [{address}], p; }}\n"
        f"@!{registers} bra {name};\n"
    )


def module(body: str, params: str = ".param .u64 out", size: int = 4096, directives: str = "") -> str:
    return f"{HEADER}.visible .entry k({params})\n{directives}\n{{\n{REGISTERS.format(size=size)}{body}\n}}\n"


def launch(text: str, *arrays: np.ndarray | Pointer, block: int, grid: int = 1, **options: object):
    args = [a if isinstance(a, Pointer) else pointer(a, f"p{i}") for i, a in enumerate(arrays)]
    return run(text, "k", (grid,), (block,), args, **options)
