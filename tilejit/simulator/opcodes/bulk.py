"""cp.async.bulk and cp.async.bulk.tensor: copies by TMA, their groups and waits; prefetches of tensor maps."""

from __future__ import annotations

import re

from ..decode.emitter import BlockWriter, Entries, Fidelity, Match, approximated, statement
from ..decode.names import PTX_DTYPE, SIZE
from ..decode.ptx import vector
from .copies import MOST_GROUPS, literal
from .mbarrier import barrier_site
from .memory import CHUNK_SHIFT, address, agent_site, operands_of, site, whole_of

# [map, {c0, c1, …}]
_BOX = re.compile(r"\[\s*([%$\w@.]+)\s*,\s*(\{[^}]*\})\s*\]")
_SHARED = {"space": "shared"}
_CLUSTER = {"space": "shared", "far": "::cluster", "raw": "raw"}


def part(e: BlockWriter, kind: str, m: Match, operand: str) -> tuple[str, str]:
    """Declare a copy's reads or writes at an address. Return (index of the memory instruction, address expression)."""
    return site(e, kind, m, operand, CHUNK_SHIFT, "V16", part=True)


def box(e: BlockWriter, m: Match, operand: str) -> str:
    """Return the argument expressions for a box: its map's address, and the tuple of its coordinates."""
    match = _BOX.fullmatch(operand)
    coordinates = vector(match[2]) if match else []
    if match is None or len(coordinates) != int(m["rank"]):
        e.fail(f"{operand!r} must be a tensor map and a coordinate vector of length {m['rank']}")
    values = e.sources(coordinates, "i4")
    where = e.source(match[1], "u8")
    if e.names.changes_maps:
        number, _ = part(e, "load", {}, f"[{match[1]}]")
        e.stmt(f"S.tensor_maps.use({number}, {where})")
    return f"{where}, {values}"


def tensor_load(e: BlockWriter, m: Match) -> None:
    to, where, signals, *ctas = operands_of(e, m, 4 if m["multicast"] else 3)
    source = agent_site(e, "load", "global")
    target, place = part(e, "store", _SHARED, to)
    number, bar = barrier_site(e, _SHARED, signals)
    mask = e.source(ctas[0], "u2") if ctas else "None"
    e.stmt(f"S.bulk.load_box({source}, {target}, {number}, {place}, {box(e, m, where)}, {bar}, {mask})")


def tensor_store(e: BlockWriter, m: Match) -> None:
    where, start = operands_of(e, m, 2)
    target = agent_site(e, "store", "global")
    source, place = part(e, "load", _SHARED, start)
    e.stmt(f"S.bulk.store_box({source}, {target}, {place}, {box(e, m, where)})")


def copy(e: BlockWriter, m: Match) -> None:
    """Emit a copy or a reduction of bytes between global and shared memory, or to that of a CTA of the cluster."""
    if m.get("multicast") and m["to"] == "cta":
        e.fail("a multicast copies to .shared::cluster")
    signals = m["into"] == "shared"
    to, start, size, *more = operands_of(e, m, 3 + signals + bool(m.get("multicast")))
    op = reduction(e, m, _OUTER if m["into"] == "global" else _REMOTE)
    space = _CLUSTER if m["into"] == m["from"] else {"space": m["into"]}
    target, place = part(e, *target_of(op, space), to)
    source, origin = part(e, "load", {"space": m["from"]}, start)
    number, bar = barrier_site(e, space, more[0]) if signals else ("None", "None")
    mask = e.source(more[1], "u2") if m.get("multicast") else "None"
    count = e.source(size, "u4")
    e.stmt(f"S.bulk.copy({source}, {target}, {number}, {origin}, {place}, {count}, {bar}, {mask}, {op!r})")


def reduction(e: BlockWriter, m: Match, allowed: dict[str, str]) -> str:
    """Return the operation and type of a reduction, such as "add.u32"; "" for a copy."""
    if m.get("op") and m["op"] + (m.get("noftz") or "") not in allowed.get(m["t"], "").split():
        e.fail(f"{e.ins.root}{e.ins.suffix} is not supported")
    return f"{m['op']}.{m['t']}" if m.get("op") else ""


def target_of(op: str, space: Match) -> tuple[str, Match]:
    """Return the kind of access to a target, and the groups of a pattern that describe it."""
    return ("atomic", {**space, "op": op, "sink": "_"}) if op else ("store", space)


def store_one(e: BlockWriter, m: Match) -> None:
    """Emit st.async or red.async [dst], value, [mbarrier]."""
    to, value, signals = e.exactly(3)
    t, op = m["t"], reduction(e, m, _REMOTE_ONE)
    dtype = PTX_DTYPE[t] if op else f"u{SIZE[PTX_DTYPE[t]]}"
    count = int(m["vec"][1:]) if m.get("vec") else 1
    total = SIZE[dtype] * count
    if total > 16:
        e.fail(f"{e.ins.root}{e.ins.suffix} is not supported")
    whole = dtype if count == 1 else whole_of(e, total)
    kind, groups = target_of(op, _CLUSTER)
    target, place = site(e, kind, groups, to, total.bit_length() - 1, whole)
    parts = ", ".join(e.source(x, dtype, t) for x in e.vector(value, count))
    data = f"joined(S.n, {dtype}, {whole}, ({parts},))" if count > 1 else parts
    number, bar = barrier_site(e, _CLUSTER, signals)
    e.stmt(f"S.bulk.store_one({target}, {number}, {place}, {data}, {bar}, {op!r})")


def prefetch_bytes(e: BlockWriter, m: Match) -> None:
    start, size = operands_of(e, m, 2)
    value, _, offset = address(e, start)
    moved = f"{value} + {e.names.constant(offset, 'u8')}" if offset else value
    e.stmt(f"S.bulk.check_prefetch({moved}, {e.source(size, 'u4')}, {e.pc})")


def prefetch_box(e: BlockWriter, m: Match) -> None:
    (where,) = operands_of(e, m, 1)
    encoded, _, _ = box(e, m, where).partition(", ")
    e.stmt(f"S.tensor_maps.check({encoded}, {e.pc})")


def wait(e: BlockWriter, m: Match) -> None:
    (newest,) = e.exactly(1)
    e.stmt(f"S.bulk.wait({literal(e, newest, MOST_GROUPS)}, {m['read'] is not None})")


def prefetch(e: BlockWriter, m: Match) -> None:
    """Emit a check of the address for prefetch.tensormap [map], which has no other effect."""
    (where,) = e.exactly(1)
    e.stmt(f"S.tensor_maps.check({e.source(where.strip('[] '), 'u8')}, {e.pc})")


_HINT = r"(?P<hint>\.L2::cache_hint)?"
_LOAD = r"\.(?P<into>shared)::(?P<to>cluster|cta)\.(?P<from>global)"
_STORE = r"\.(?P<into>global)\.(?P<from>shared)::cta"
_SEND = r"\.(?P<into>shared)::(?P<to>cluster)\.(?P<from>shared)::cta"
# Type → operations of reductions in global memory, of bulk reductions in shared memory, and of red.async.
# source: PTX ISA, "Data Movement and Conversion Instructions: cp.reduce.async.bulk", "red.async"
_OUTER = {
    "s32": "add min max", "u32": "add min max inc dec", "u64": "add min max", "s64": "min max", "b32": "and or xor",
    "b64": "and or xor", "f16": "add.noftz min max", "bf16": "add.noftz min max", "f32": "add", "f64": "add",
}
_REMOTE = {"s32": "add min max", "u32": "add min max inc dec", "u64": "add", "b32": "and or xor"}
_REMOTE_ONE = {**_REMOTE, "s64": "add"}
_OP = r"\.(?P<op>add|min|max|inc|dec|and|or|xor)\.(?P<t>[bsu]32|[bsu]64)"
_FLOAT_OP = r"\.(?P<op>add|min|max)(?P<noftz>\.noftz)?\.(?P<t>f16|bf16|f32|f64)"
_ADDITIONS = approximated(
    "one reduction after the other, each addition rounded once; .add.f32 keeps the subnormals that a GPU flushes"
)
_PREFETCH = Fidelity("exact", "a hint without effect; operands are checked")
_SIGNAL = r"\.mbarrier::complete_tx::bytes"
ENTRIES: Entries = {
    "cp": (
        (rf"\.async\.bulk\.tensor\.(?P<rank>[1-5])d{_LOAD}(?:\.tile)?{_SIGNAL}(?P<multicast>\.multicast::cluster)?"
         + _HINT, tensor_load),
        (rf"\.async\.bulk\.tensor\.(?P<rank>[1-5])d{_STORE}(?:\.tile)?\.bulk_group{_HINT}", tensor_store),
        (rf"\.async\.bulk{_LOAD}{_SIGNAL}(?P<multicast>\.multicast::cluster)?{_HINT}", copy),
        (rf"\.async\.bulk{_SEND}{_SIGNAL}", copy),
        (rf"\.async\.bulk{_STORE}\.bulk_group{_HINT}", copy),
        (r"\.async\.bulk\.commit_group", statement("S.bulk.commit()")),
        (r"\.async\.bulk\.wait_group(?P<read>\.read)?", wait),
        (rf"\.async\.bulk\.prefetch\.L2\.global{_HINT}", prefetch_bytes, _PREFETCH),
        (rf"\.async\.bulk\.prefetch\.tensor\.(?P<rank>[1-5])d\.L2\.global(?:\.tile)?{_HINT}", prefetch_box,
         _PREFETCH),
        (rf"\.reduce\.async\.bulk{_STORE}\.bulk_group{_HINT}{_OP}", copy),
        (rf"\.reduce\.async\.bulk{_STORE}\.bulk_group{_HINT}{_FLOAT_OP}", copy, _ADDITIONS),
        (rf"\.reduce\.async\.bulk{_SEND}{_SIGNAL}{_OP}", copy)),
    "st": ((rf"\.async(?:\.weak)?\.shared::cluster{_SIGNAL}(?:\.(?P<vec>v[24]))?\.(?P<t>[bus](?:32|64)|f32|f64)",
            store_one),),
    "red": ((rf"\.async\.relaxed\.cluster\.shared::cluster{_SIGNAL}{_OP}", store_one),),
    "prefetch": ((r"(?:\.param|\.const)?\.tensormap", prefetch),),
}
