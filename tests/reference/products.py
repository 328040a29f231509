"""mma.sync longhand: which element each register of each lane is, as the PTX ISA says it form by form.

i counts a lane's elements of one operand, from the lowest bits of its first register on; g is lane // 4, t lane % 4.
source: PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f64 floating point type", "... mma.m16n8k4", "... mma.m16n8k8",
    "... mma.m16n8k16 with floating point type", "... mma.m16n8k32".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tilejit.ir import nodes as ir

if TYPE_CHECKING:
    from tests.reference.threads import Threads

Array = np.ndarray
Place = Callable[[int, int, int], tuple[int, int]]

#: (k, bits of a factor) -> (elements of A in a lane, row and column of element i), and the same of B
A_PLACES: dict[tuple[int, int], tuple[int, Place]] = {
    (8, 16): (4, lambda g, t, i: (g if i in (0, 1) else g + 8, t * 2 + (i & 1))),
    (16, 16): (8, lambda g, t, i: (g if i in (0, 1, 4, 5) else g + 8, t * 2 + (i & 1) + (0 if i < 4 else 8))),
    (8, 32): (4, lambda g, t, i: (g if i in (0, 2) else g + 8, t if i in (0, 1) else t + 4)),
    (4, 64): (2, lambda g, t, i: (g if i == 0 else g + 8, t)),
    (8, 64): (4, lambda g, t, i: (g if i in (0, 2) else g + 8, t if i in (0, 1) else t + 4)),
    (32, 8): (
        16,
        lambda g, t, i: (g if i < 4 or 8 <= i < 12 else g + 8, t * 4 + (i & 3) + (0 if i < 8 else 16)),
    ),
}
B_PLACES: dict[tuple[int, int], tuple[int, Place]] = {
    (8, 16): (2, lambda g, t, i: (t * 2 + i, g)),
    (16, 16): (4, lambda g, t, i: (t * 2 + (i & 1) + (0 if i < 2 else 8), g)),
    (8, 32): (2, lambda g, t, i: (t if i == 0 else t + 4, g)),
    (4, 64): (1, lambda g, t, i: (t, g)),
    (8, 64): (2, lambda g, t, i: (t if i == 0 else t + 4, g)),
    (32, 8): (8, lambda g, t, i: (t * 4 + (i & 3) + (0 if i < 4 else 16), g)),
}


def c_place(g: int, t: int, i: int) -> tuple[int, int]:
    """The row and column of element i of C and D, in every form."""
    return (g if i < 2 else g + 8), t * 2 + (i & 1)


_NAME = re.compile(r"mma\.sync\.aligned\.m(8|16)n8k(\d+)\.row\.col\.(\w+)\.(\w+)\.(\w+)\.(\w+)")
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "f64": 64}


def rounded(cta: Threads, stmt: ir.Instruction, active: Array) -> None:
    """cvt.rna.tf32.f32: half of the last bit kept is added to the magnitude, what is below it cut off."""
    (source,), (output,) = stmt.inputs, stmt.outputs
    assert isinstance(source, ir.Vector)
    (values,) = cta.get(source, active)
    patterns = (values.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    cta.put(output, [patterns.view(np.float32)], active)


def split(cta: Threads, stmt: ir.Instruction, active: Array) -> None:
    """split.tf32.f32 of finite numbers: each part is cut to 11 bits after 2^-11 of it is added."""
    (source,) = stmt.inputs
    assert isinstance(source, ir.Vector)
    (rest,) = cta.get(source, active)
    for output in stmt.outputs:
        patterns = (rest.astype(np.float64) * (1 + 2.0**-11)).view(np.uint64) >> np.uint64(42) << np.uint64(42)
        part = patterns.view(np.float64).astype(np.float32)
        cta.put(output, [part], active)
        rest = rest - part


def multiply(cta: Threads, stmt: ir.Instruction, active: Array) -> None:
    """mma.sync by all warps, without the hardware's rounding inside a product."""
    assert active.all() and cta.threads % 32 == 0, "a part of a warp multiplies"
    form = _NAME.fullmatch(stmt.name)
    assert form is not None
    rows, k, bits = int(form[1]), int(form[2]), _BITS[form[4]]
    (a_count, a_place), (b_count, b_place) = A_PLACES[k, bits], B_PLACES[k, bits]
    # the lanes of a form of 8 rows hold the first half of what they hold in one of 16
    a_count, c_count = a_count * rows // 16, rows // 4
    held = [np.array(cta.get(v, active)) for v in stmt.inputs if isinstance(v, ir.Vector)]
    c, a, b = _parted(held, (c_count, a_count, b_count))
    sums: Array = np.empty((c_count, cta.threads), c.dtype)
    for first in range(0, cta.threads, 32):
        lanes = slice(first, first + 32)
        left = _matrix(a[:, lanes], (rows, k), a_place)
        right = _matrix(b[:, lanes], (k, 8), b_place)
        made = _matrix(c[:, lanes], (rows, 8), c_place) + left @ right
        for lane in range(32):
            for i in range(c_count):
                sums[i, first + lane] = made[c_place(lane // 4, lane % 4, i)]
    at = 0
    for output in stmt.outputs:
        cta.put(output, list(sums[at : at + output.width]), active)
        at += output.width
    assert at == c_count


def _parted(held: list[Array], counts: tuple[int, ...]) -> list[Array]:
    """The elements of each operand, one row an element, from those of each vector in turn."""
    rows = [row for vector in held for row in vector]
    assert len(rows) == sum(counts), f"{len(rows)} elements of a lane for {counts}"
    ends = np.cumsum(counts)
    return [np.array(rows[end - n : end]) for n, end in zip(counts, ends, strict=True)]


def _matrix(elements: Array, shape: tuple[int, int], place: Place) -> Array:
    made = np.full(shape, np.nan)
    for lane in range(32):
        for i, values in enumerate(elements):
            made[place(lane // 4, lane % 4, i)] = float(values[lane])
    assert not np.isnan(made).any(), "the lanes' elements don't cover the matrix"
    return made
