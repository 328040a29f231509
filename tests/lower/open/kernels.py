"""Kernels with open tiles, as text."""

from __future__ import annotations

from tilejit.ir.nodes import Kernel
from tilejit.ir.text.parser import from_text


def tensor(name: str, rank: int, dtype: str = "float32", align: int = 16, multiple: int = 16) -> str:
    """The parameters of a tensor whose extents and pitches the launch decides."""
    extents = [f"{name}.shape.{d}" for d in range(rank)]
    pitches = [f"{name}.stride.{d}" for d in range(rank - 1)]
    layout = f"strides({', '.join([*pitches, '1'])}; align {align}; extent_align {align})"
    lines = [f"param {name}: global {dtype}[{', '.join(extents)}] {layout} align {align} written"]
    for kind, names in (("extent", extents), ("stride", pitches)):
        lines += [
            f"param {each}: int64 multiple_of {multiple} within 0..1099511627776 {kind} {d} of {name}"
            for d, each in enumerate(names)
        ]
    return "\n".join(f"  {line}" for line in lines)


def tile(name: str, shape: tuple[int, ...], dtype: str = "float32", scope: str = "cta") -> str:
    return f"  alloc {name}: local {dtype}{list(shape)} open {scope} align 16"


def whole(name: str, shape: tuple[int, ...]) -> str:
    """A region: all of a tile, or the first elements of a tensor."""
    return f"{name}[{', '.join(f'0 +: {n}' for n in shape)}]"


def kernel(threads: int, *lines: str, name: str = "k", target: str = "sm_90a") -> Kernel:
    body = [line if line.startswith("  ") else f"  {line}" for line in lines]
    return from_text("\n".join([f"kernel {name} threads={threads} target={target}", *body]) + "\n")
