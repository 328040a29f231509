"""Changes of tensor maps in memory."""

from __future__ import annotations

from ..decode.emitter import BlockWriter, Entries, Fidelity, Match
from ..machine.tensor_map import LAYOUT, MAP_BYTES
from .copies import literal
from .memory import CHUNK_SHIFT, base_of, site

_FIELD, _ORDINAL = "global_address|rank", "box_dim|global_dim|global_stride|element_stride"
_ENUMERATED = "elemtype|interleave_layout|swizzle_mode|swizzle_atomicity|fill_mode"


def replace(e: BlockWriter, m: Match) -> None:
    """Emit tensormap.replace.tile [map]{, ordinal}, value."""
    place, *ordinal, value = e.exactly(3 if m["field"] in _ORDINAL.split("|") else 2)
    assert LAYOUT.fields is not None, "a map has fields"
    kind, offset = LAYOUT.fields[m["field"]][:2]
    size = kind.base.itemsize
    if m["bits"] != str(8 * size):
        e.fail(f"{m['field']} has {8 * size} bits")
    number = literal(e, ordinal[0], kind.itemsize // size - 1) if ordinal else 0
    if m["field"] in _ENUMERATED.split("|"):
        literal(e, value, 15)
    offset += number * size
    space = {"space": (m["space"] or "").removeprefix(".").removesuffix("::cta")}
    index, address = site(e, "store", space, place, size.bit_length() - 1, f"u{size}", offset)
    e.stmt(f"S.tensor_maps.replace({index}, {address}, {e.source(value, f'u{size}')}, {offset})")


def copy(e: BlockWriter, m: Match) -> None:
    """Emit tensormap.cp_fenceproxy [to], [from], 128."""
    to, start, size = e.exactly(3)
    check_size(e, size)
    source, origin = site(e, "load", {"space": "shared"}, start, CHUNK_SHIFT, "V16", part=True)
    target, address = site(e, "store", {"space": "global"}, to, CHUNK_SHIFT, "V16", part=True)
    e.stmt(f"S.tensor_maps.publish({source}, {target}, {origin}, {address})")


def acquire(e: BlockWriter, m: Match) -> None:
    """Emit fence.proxy.tensormap::generic.acquire [map], 128."""
    place, size = e.exactly(2)
    check_size(e, size)
    name, offset = base_of(e, place)
    address = f"{e.source(name, 'u8')} + {e.names.constant(offset, 'u8')}"
    e.stmt(f"S.tensor_maps.acquire({address}, {e.pc})")


def release(e: BlockWriter, m: Match) -> None:
    e.exactly(0)
    e.stmt("S.tensor_maps.release()")


def check_size(e: BlockWriter, operand: str) -> None:
    if literal(e, operand, 2**31 - 1) != MAP_BYTES:
        e.fail(f"the size of a tensor map is {MAP_BYTES} bytes")


_LAYOUT = Fidelity("exact", "the 128 bytes of a map have a layout of the simulator's own")
_SCOPE = r"\.(?:cta|cluster|gpu|sys)"
_SPACE = r"(?P<space>\.global|\.shared::cta)?"
ENTRIES: Entries = {
    "tensormap": (
        (rf"\.replace\.tile\.(?P<field>{_FIELD}|{_ORDINAL}|{_ENUMERATED}){_SPACE}\.b1024\.b(?P<bits>32|64)", replace,
         _LAYOUT),
        (rf"\.cp_fenceproxy\.global\.shared::cta\.tensormap::generic\.release{_SCOPE}\.sync\.aligned", copy),
    ),
    "fence": ((rf"\.proxy\.tensormap::generic\.release{_SCOPE}", release),
              (rf"\.proxy\.tensormap::generic\.acquire{_SCOPE}", acquire)),
}
