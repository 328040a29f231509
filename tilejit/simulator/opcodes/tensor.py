"""tcgen05: allocation, loads, stores, waits and fences of tensor memory."""

from __future__ import annotations

from ..decode.emitter import BlockWriter, Entries, Match, statement
from ..machine.tensor_layout import COLUMNS, SHAPES
from .copies import literal
from .matrix import shared_site
from .memory import address


def alloc(e: BlockWriter, m: Match) -> None:
    target, columns = e.exactly(2)
    number, value = shared_site(e, m, "store", target, 2, "u4")
    e.stmt(f"S.tmem.alloc({number}, {value}, {e.source(columns, 'u4')}, {e.pc})")


def dealloc(e: BlockWriter, m: Match) -> None:
    taddr, columns = e.exactly(2)
    e.stmt(f"S.tmem.dealloc({e.source(taddr, 'u4')}, {e.source(columns, 'u4')}, {e.pc})")


def load(e: BlockWriter, m: Match) -> None:
    """Emit tcgen05.ld r, [taddr]{, immHalfSplitoff}."""
    parts = e.exactly(3 if m["shape"] == "16x32bx2" else 2)
    registers, where = form(e, m, parts[0], parts[1], parts[2] if len(parts) == 3 else "0")
    e.write_each(registers, "u4", e.temp(f"S.tmem.load({where}, {e.pc})"))
    e.stmt(f"S.tmem.pending({tuple(registers)!r}, {e.pc})")


def store(e: BlockWriter, m: Match) -> None:
    """Emit tcgen05.st [taddr]{, immHalfSplitoff}, r."""
    parts = e.exactly(3 if m["shape"] == "16x32bx2" else 2)
    registers, where = form(e, m, parts[-1], parts[0], parts[1] if len(parts) == 3 else "0")
    e.stmt(f"S.tmem.store({where}, {e.sources(registers, 'u4')}, {e.pc})")


def form(e: BlockWriter, m: Match, operand: str, where: str, split: str) -> tuple[list[str], str]:
    """Return an access's registers, and the argument expressions for its cells: shape, num, packed, split, address."""
    _, each, most = SHAPES[m["shape"]]
    num = int(m["num"])
    if num > most:
        e.fail(f".{m['shape']} supports at most .x{most}")
    registers = e.vector(operand, each * num)
    value, dtype, offset = address(e, where)
    if dtype != "u4":
        e.fail("a tensor memory address must have 32 bits")
    if offset:
        value = f"({value} + {e.names.constant(offset, 'u4')})"
    return registers, f"{m['shape']!r}, {num}, {m['packed'] is not None}, {literal(e, split, COLUMNS)}, {value}"


_GROUP = r"\.cta_group::1\.sync\.aligned"
_SHAPE = r"\.sync\.aligned\.(?P<shape>32x32b|16x64b|16x128b|16x256b|16x32bx2)\.x(?P<num>1|2|4|8|16|32|64|128)"
ENTRIES: Entries = {
    "tcgen05": ((rf"\.alloc{_GROUP}(?P<space>\.shared::cta|\.shared)?\.b32", alloc),
                (rf"\.dealloc{_GROUP}\.b32", dealloc),
                (rf"\.relinquish_alloc_permit{_GROUP}", statement("S.tmem.relinquish({pc})")),
                (rf"\.ld{_SHAPE}(?P<packed>\.pack::16b)?\.b32", load),
                (rf"\.st{_SHAPE}(?P<packed>\.unpack::16b)?\.b32", store),
                (r"\.wait::(?P<what>ld|st)\.sync\.aligned", statement("S.tmem.wait_{what}({pc})")),
                (r"\.fence::(?P<how>before|after)_thread_sync", statement("S.tmem.fence({how!r})"))),
}
