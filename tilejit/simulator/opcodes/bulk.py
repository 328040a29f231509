"""cp.async.bulk and cp.async.bulk.tensor: copies by TMA, their groups and waits; prefetches of tensor maps."""

from __future__ import annotations

import re

from ..decode.emitter import BlockWriter, Entries, Match, statement
from ..decode.ptx import vector
from .copies import MOST_GROUPS, literal
from .mbarrier import barrier_site
from .memory import CHUNK_SHIFT, agent_site, operands_of, site

# [map, {c0, c1, …}]
_BOX = re.compile(r"\[\s*([%$\w@.]+)\s*,\s*(\{[^}]*\})\s*\]")
_SHARED = {"space": "shared"}


def start_of(e: BlockWriter, kind: str, space: str, operand: str) -> tuple[str, str]:
    """Declare a copy's reads or writes at an address. Return (index of the memory instruction, address expression)."""
    return site(e, kind, {"space": space}, operand, CHUNK_SHIFT, "V16", part=True)


def box(e: BlockWriter, m: Match, operand: str) -> str:
    """Return the argument expressions for a box: its map's address, and the tuple of its coordinates."""
    match = _BOX.fullmatch(operand)
    coordinates = vector(match[2]) if match else []
    if match is None or len(coordinates) != int(m["rank"]):
        e.fail(f"{operand!r} must be a tensor map and a coordinate vector of length {m['rank']}")
    values = e.sources(coordinates, "i4")
    return f"{e.source(match[1], 'u8')}, {values}"


def tensor_load(e: BlockWriter, m: Match) -> None:
    to, where, signals, *ctas = operands_of(e, m, 4 if m["multicast"] else 3)
    source = agent_site(e, "load", "global")
    target, address = start_of(e, "store", "shared", to)
    number, bar = barrier_site(e, _SHARED, signals)
    mask = e.source(ctas[0], "u2") if ctas else "None"
    e.stmt(f"S.bulk.load_box({source}, {target}, {number}, {address}, {box(e, m, where)}, {bar}, {mask})")


def tensor_store(e: BlockWriter, m: Match) -> None:
    where, start = operands_of(e, m, 2)
    target = agent_site(e, "store", "global")
    source, address = start_of(e, "load", "shared", start)
    e.stmt(f"S.bulk.store_box({source}, {target}, {address}, {box(e, m, where)})")


def load(e: BlockWriter, m: Match) -> None:
    to, start, size, signals = operands_of(e, m, 4)
    source, origin = start_of(e, "load", "global", start)
    target, address = start_of(e, "store", "shared", to)
    number, bar = barrier_site(e, _SHARED, signals)
    e.stmt(f"S.bulk.load({source}, {target}, {number}, {address}, {origin}, {e.source(size, 'u4')}, {bar})")


def store(e: BlockWriter, m: Match) -> None:
    to, start, size = operands_of(e, m, 3)
    target, address = start_of(e, "store", "global", to)
    source, origin = start_of(e, "load", "shared", start)
    e.stmt(f"S.bulk.store({source}, {target}, {origin}, {address}, {e.source(size, 'u4')})")


def wait(e: BlockWriter, m: Match) -> None:
    (newest,) = e.exactly(1)
    e.stmt(f"S.bulk.wait({literal(e, newest, MOST_GROUPS)}, {m['read'] is not None})")


def prefetch(e: BlockWriter, m: Match) -> None:
    """Emit a check of the address for prefetch.tensormap [map], which has no other effect."""
    (where,) = e.exactly(1)
    e.stmt(f"S.bulk.check_map({e.source(where.strip('[] '), 'u8')}, {e.pc})")


_HINT = r"(?P<hint>\.L2::cache_hint)?"
_LOAD = r"\.shared::(?:cluster|cta)\.global"
_STORE = r"\.global\.shared::cta"
_SIGNAL = r"\.mbarrier::complete_tx::bytes"
ENTRIES: Entries = {
    "cp": (
        (rf"\.async\.bulk\.tensor\.(?P<rank>[1-5])d{_LOAD}(?:\.tile)?{_SIGNAL}(?P<multicast>\.multicast::cluster)?"
         + _HINT, tensor_load),
        (rf"\.async\.bulk\.tensor\.(?P<rank>[1-5])d{_STORE}(?:\.tile)?\.bulk_group{_HINT}", tensor_store),
        (rf"\.async\.bulk{_LOAD}{_SIGNAL}{_HINT}", load),
        (rf"\.async\.bulk{_STORE}\.bulk_group{_HINT}", store),
        (r"\.async\.bulk\.commit_group", statement("S.bulk.commit()")),
        (r"\.async\.bulk\.wait_group(?P<read>\.read)?", wait)),
    "prefetch": ((r"(?:\.param|\.const)?\.tensormap", prefetch),),
}
