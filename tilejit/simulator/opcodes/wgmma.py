"""wgmma: products of a warpgroup, with their fences, groups and waits."""

from __future__ import annotations

import numpy as np

from ..decode.emitter import BlockWriter, Entries, Match, statement
from ..numerics.products import ProductForm
from .copies import literal
from .matrix import ELEMENT_DTYPE, FLOAT_SUMS, FLOATS
from .memory import agent_site

# K of a wgmma instruction, in elements, by the type of A
_DEPTH = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32}
_FP8 = ("e4m3", "e5m2")
_INTEGERS = ("s8", "u8")
_HALF = ("f16", *_FP8)


def shape(e: BlockWriter, m: Match) -> int:
    """Return N, after checking that the instruction exists for this shape and these types."""
    n, a, b, d = int(m["n"]), m["a"], m["b"], m["d"]
    integer = a in _INTEGERS
    pair = integer or a == b or all(x in _FP8 for x in (a, b))
    accumulates = d != "f16" or a in _HALF
    extents = n % 8 == 0 and 8 <= n <= 256 and (not integer or n % 16 == 0 or n in (8, 24))
    if not (pair and accumulates and extents and int(m["k"]) == _DEPTH[a]):
        e.fail("wgmma doesn't exist for this shape and these types")
    return n


def immediate(e: BlockWriter, operand: str, values: tuple[int, ...]) -> int:
    """Return the value of an immediate operand; fail unless it is one of `values`."""
    if operand not in [str(x) for x in values]:
        e.fail(f"immediate operand {operand!r} must be one of {', '.join(map(str, values))}")
    return int(operand)


def multiply(e: BlockWriter, m: Match) -> None:
    """Emit wgmma.mma_async d, a | a-desc, b-desc, scale-d{, imm-scale-a, imm-scale-b}{, imm-trans-a}{, imm-trans-b}."""
    n, a_type, element = shape(e, m), m["a"], m["d"]
    operands = list(e.ins.operands)
    in_registers = len(operands) > 1 and operands[1][0] == "{"
    majors = 0 if a_type not in ("f16", "bf16") else 1 if in_registers else 2
    e.exactly(4 + (0 if a_type in _INTEGERS else 2) + majors)
    d = e.vector(operands[0], n // 4 if element == "f16" else n // 2)
    signs = [immediate(e, x, (-1, 1)) for x in operands[4:6]] if a_type not in _INTEGERS else [1, 1]
    transposes = [bool(immediate(e, x, (0, 1))) for x in operands[6 : 6 + majors]]
    trans_a, trans_b = [*[False] * (2 - majors), *transposes]
    a_registers: list[str] = []
    if in_registers:
        a_registers = e.vector(operands[1], 4)
        a = e.sources(a_registers, "u4")
    else:
        a = e.source(operands[1], "u8")
    b = e.source(operands[2], "u8")
    scale = e.source(operands[3], "p")
    dtype = ELEMENT_DTYPE[element]
    start = e.sources(d, dtype)
    number = agent_site(e, "load", "shared")
    form = e.names.value(ProductForm(
        n, int(m["k"]), a_type, m["b"], element, m.get("sat") is not None, signs[0], signs[1], trans_a, trans_b,
    ))
    rows = ([e.names.product_rows[x] for x in registers] for registers in (d, a_registers))
    d_rows, a_rows = (e.names.value(np.array(x, np.int64)) for x in rows)
    arguments = f"{form}, {a}, {b}, {scale}, {start}, {d_rows}, {a_rows}, {number}, {e.pc}"
    e.write_each(d, dtype, e.temp(f"S.products.multiply({arguments})"))


def wait(e: BlockWriter, m: Match) -> None:
    (newest,) = e.exactly(1)
    e.stmt(f"S.products.wait({literal(e, newest, 7)}, {e.pc})")


_MULTIPLY = r"\.mma_async\.sync\.aligned\.m64n(?P<n>\d+)k(?P<k>\d+)"
ENTRIES: Entries = {
    "wgmma": (
        (_MULTIPLY + r"(?P<sat>\.satfinite)?\.(?P<d>s32)\.(?P<a>s8|u8)\.(?P<b>s8|u8)", multiply),
        (_MULTIPLY + rf"\.(?P<d>f32|f16)\.(?P<a>{FLOATS})\.(?P<b>{FLOATS})", multiply, FLOAT_SUMS),
        (r"\.fence\.sync\.aligned", statement("S.products.fence({pc})")),
        (r"\.commit_group\.sync\.aligned", statement("S.products.commit({pc})")),
        (r"\.wait_group\.sync\.aligned", wait)),
}
