"""Matrix loads, stores and products of a warp (ldmatrix, stmatrix, mma)."""

from __future__ import annotations

from ..decode.emitter import BlockWriter, Entries, Match, approximated
from .memory import site
from .move import WINDOWS

_ROW_SHIFT = 4

# Type of A → shape → numbers of registers of A and of B: PTX ISA, "Matrix Fragments for mma.m16n8k…".
_F16 = {"m16n8k8": (2, 1), "m16n8k16": (4, 2)}
_8_BITS = {"m16n8k16": (2, 1), "m16n8k32": (4, 2)}
_REGISTERS = {
    "f16": _F16, "bf16": _F16, "tf32": {"m16n8k4": (2, 1), "m16n8k8": (4, 2)},
    "s8": _8_BITS, "u8": _8_BITS, "e4m3": _8_BITS, "e5m2": _8_BITS,
}
#: type of an accumulator → dtype of its registers
ELEMENT_DTYPE = {"f32": "f4", "f16": "u4", "s32": "i4"}


def shared_site(e: BlockWriter, m: Match, kind: str, operand: str, shift: int, dtype: str) -> tuple[str, str]:
    """Declare an access by a shared or generic address. Return (index of the access, shared-address expression)."""
    number, address = site(e, kind, {"space": "shared"}, operand, shift, dtype)
    if m["space"]:
        return number, address
    if e.names.sites[-1].address_dtype != "u8":
        e.fail("a generic address must have 64 bits; a 32-bit address needs .shared")
    window = e.names.constant(WINDOWS["shared"], "u8")
    return number, f"({address} - {window})"


def ldmatrix(e: BlockWriter, m: Match) -> None:
    targets, source = e.exactly(2)
    registers = e.vector(targets, int(m["num"]))
    number, address = shared_site(e, m, "load", source, _ROW_SHIFT, "V16")
    trans = m["trans"] is not None
    values = e.temp(f"S.ldmatrix({number}, {address}, {len(registers)}, {trans}, {e.pc})")
    e.write_each(registers, "u4", values)


def stmatrix(e: BlockWriter, m: Match) -> None:
    target, sources = e.exactly(2)
    values = e.sources(e.vector(sources, int(m["num"])), "u4")
    number, address = shared_site(e, m, "store", target, _ROW_SHIFT, "V16")
    e.stmt(f"S.stmatrix({number}, {address}, {values}, {m['trans'] is not None}, {e.pc})")


def mma(e: BlockWriter, m: Match) -> None:
    """Emit mma.sync. A and B have the same type, or are both 8-bit integers or both 8-bit floats; C has D's type."""
    a_type, b_type, element = m["a"], m["b"], m["d"]
    counts = _REGISTERS[a_type].get(m["shape"])
    integer, narrow = element == "s32", a_type in ("e4m3", "e5m2")
    if counts is None or m["c"] != element:
        e.fail("mma doesn't exist for this shape and these types")
    if a_type != b_type and not integer and not (narrow and b_type in ("e4m3", "e5m2")):
        e.fail(f"mma doesn't exist for {a_type} and {b_type}")
    if element == "f16" and a_type in ("bf16", "tf32"):
        e.fail(f"mma doesn't exist for {a_type} with f16 accumulators")
    dtype, half = ELEMENT_DTYPE[element], element == "f16"
    size = 2 if half else 4
    d, a, b, c = (e.vector(x, n) for x, n in zip(e.exactly(4), (size, *counts, size), strict=True))
    e.stmt(f"S.warps.whole({e.pc})")
    left = e.once(f"fragment_a({e.sources(a, 'u4')}, S.n, {a_type!r})")
    right = e.once(f"fragment_b({e.sources(b, 'u4')}, S.n, {b_type!r})")
    start = tuple(e.source(x, dtype) for x in c)
    # if C is the result of an earlier product in the basic block, it is available as a matrix
    total = e.computed.get(start) or e.temp(f"fragment_c(({', '.join(start)},), S.n, {half})")
    matrix = e.temp(f"product({left}, {right}, {total}, {element!r}, {m.get('sat') is not None})")
    values = e.temp(f"registers_d({matrix}, {half})")
    e.write_each(d, dtype, values)
    e.computed[tuple(e.source(x, dtype) for x in d)] = matrix


_FORM = r"\.sync\.aligned\.m8n8\.x(?P<num>[124])(?P<trans>\.trans)?(?P<space>\.shared(?:::cta)?)?\.b16"
FLOATS = r"f16|bf16|tf32|e4m3|e5m2"
# A GPU may add the products in a different order and with less precision.
FLOAT_SUMS = approximated(
    "exact products, whose sum in float64 errs by at most 2^-44 of the sum of their magnitudes, rounded once; the "
    "lower 13 bits of tf32 are ignored"
)
ENTRIES: Entries = {
    "ldmatrix": ((_FORM, ldmatrix),),
    "stmatrix": ((_FORM, stmatrix),),
    "mma": ((r"\.sync\.aligned\.(?P<shape>m16n8k(?:16|32))\.row\.col(?P<sat>\.satfinite)?"
             r"\.(?P<d>s32)\.(?P<a>s8|u8)\.(?P<b>s8|u8)\.(?P<c>s32)", mma),
            (r"\.sync\.aligned\.(?P<shape>m16n8k(?:4|8|16|32))\.row\.col"
             rf"\.(?P<d>f32|f16)\.(?P<a>{FLOATS})\.(?P<b>{FLOATS})\.(?P<c>f32|f16)", mma, FLOAT_SUMS)),
}
