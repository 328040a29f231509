"""cp.async.bulk and cp.async.bulk.tensor: copies by TMA, their groups and waits; prefetches of tensor maps."""

from __future__ import annotations

import re

from ...dataclass import replace
from ..decode.emitter import BlockWriter, Entries, Match, statement, vector
from .copies import literal
from .memory import Site, operands_of, site

_MOST_GROUPS = 2**31 - 1
# [map, {c0, c1, …}]
_BOX = re.compile(r"\[\s*([%$\w@.]+)\s*,\s*(\{[^}]*\})\s*\]")
_CHUNKS = 4


def agents_site(e: BlockWriter, kind: str, space: str) -> int:
    """Register an asynchronous operation's accesses to `space`; return the number of the new memory instruction."""
    sites = e.names.sites
    sites.append(Site(len(sites), e.pc, space, 0, _CHUNKS, "V16", "u8", kind, part=True))
    return len(sites) - 1


def start_of(e: BlockWriter, kind: str, space: str, operand: str) -> tuple[int, str]:
    """Register the reads or writes of a copy at an operand. Return (number of the memory instruction, address)."""
    _, address = site(e, kind, {"space": space}, operand, _CHUNKS, "V16")
    sites = e.names.sites
    sites[-1] = replace(sites[-1], part=True)
    return len(sites) - 1, address


def barrier(e: BlockWriter, operand: str) -> tuple[int, str]:
    """Register a use of an mbarrier operand. Return (number of the memory instruction, address)."""
    number, address = site(e, "barrier", {"space": "shared"}, operand, 3, "u8")
    return int(number), address


def box(e: BlockWriter, m: Match, operand: str) -> str:
    """Return the arguments for a box: the map's address, and a tuple of coordinates."""
    match = _BOX.fullmatch(operand)
    coordinates = vector(match[2]) if match else []
    if match is None or len(coordinates) != int(m["rank"]):
        e.fail(f"{operand!r} must be a tensor map and a coordinate vector of length {m['rank']}")
    values = ", ".join(e.source(x, "i4") for x in coordinates)
    return f"{e.source(match[1], 'u8')}, ({values},)"


def tensor_load(e: BlockWriter, m: Match) -> None:
    to, where, signals, *ctas = operands_of(e, m, 4 if m["multicast"] else 3)
    source = agents_site(e, "load", "global")
    target, address = start_of(e, "store", "shared", to)
    number, bar = barrier(e, signals)
    mask = e.source(ctas[0], "u2") if ctas else "None"
    e.stmt(f"S.bulk.load_box({source}, {target}, {number}, {address}, {box(e, m, where)}, {bar}, {mask})")


def tensor_store(e: BlockWriter, m: Match) -> None:
    where, start = operands_of(e, m, 2)
    target = agents_site(e, "store", "global")
    source, address = start_of(e, "load", "shared", start)
    e.stmt(f"S.bulk.store_box({source}, {target}, {address}, {box(e, m, where)})")


def load(e: BlockWriter, m: Match) -> None:
    to, start, size, signals = operands_of(e, m, 4)
    source, origin = start_of(e, "load", "global", start)
    target, address = start_of(e, "store", "shared", to)
    number, bar = barrier(e, signals)
    e.stmt(f"S.bulk.load({source}, {target}, {number}, {address}, {origin}, {e.source(size, 'u4')}, {bar})")


def store(e: BlockWriter, m: Match) -> None:
    to, start, size = operands_of(e, m, 3)
    target, address = start_of(e, "store", "global", to)
    source, origin = start_of(e, "load", "shared", start)
    e.stmt(f"S.bulk.store({source}, {target}, {origin}, {address}, {e.source(size, 'u4')})")


def wait(e: BlockWriter, m: Match) -> None:
    (newest,) = e.exactly(1)
    e.stmt(f"S.bulk.wait({literal(e, newest, _MOST_GROUPS)}, {m['read'] is not None})")


def prefetch(e: BlockWriter, m: Match) -> None:
    """Emit prefetch.tensormap [map], which only checks the address."""
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
