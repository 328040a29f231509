"""What tests of emitted PTX share: buffers, kernels through ptxas, and instructions with their lines."""

from __future__ import annotations

import re

from tests.support.ptxas import ptxas_accepts
from tilejit.codegen import Generated, generate
from tilejit.dtypes import (
    DType,
    int32,
)
from tilejit.ir.nodes import (
    Buffer,
    Const,
    For,
    Kernel,
    Special,
    Stmt,
    Var,
)
from tilejit.layout import TileLayout
from tilejit.target import target

THREAD = Special("thread_id")


def const(value: float, dtype: DType = int32) -> Const:
    return Const(value, dtype)


def local(name: str, dtype: DType, size: int) -> Buffer:
    return Buffer(name, "local", dtype, (size,), TileLayout.row_major((size,)), dtype.bytes)


def shared(name: str, dtype: DType, size: int, align: int = 128) -> Buffer:
    return Buffer(name, "shared", dtype, (size,), TileLayout.row_major((size,)), align)


def made(k: Kernel) -> Generated:
    """The kernel's PTX for its target, which ptxas accepts."""
    generated = generate(k, target(k.target))
    ptxas_accepts(generated.ptx, k.target)
    return generated


def instructions(ptx: str) -> list[str]:
    """The instructions, without directives, labels and comments."""
    lines = (line.strip() for line in ptx.splitlines())
    return [line for line in lines if line.endswith(";") and not line.startswith((".", "//"))]


def locations(ptx: str, mnemonic: str) -> list[tuple[str, int, int]]:
    """File number, line and column that hold where each instruction `mnemonic` stands."""
    found: list[tuple[str, int, int]] = []
    current = ("0", 0, 0)
    for line in ptx.splitlines():
        if match := re.match(r"\s*\.loc\s+(\d+) (\d+) (\d+)", line):
            current = (match[1], int(match[2]), int(match[3]))
        elif line.strip().startswith(mnemonic):
            found.append(current)
    return found


def unrolled(var: Var, count: int, *body: Stmt) -> For:
    return For(var, const(0), const(count), const(1), body, unrolled=True)
