"""Loads, stores, atomics, fences and cache hints."""

from __future__ import annotations

import re

from ...dataclass import dataclass
from ..decode.emitter import BlockWriter, Entries, Fidelity, Match, approximated, expression, nothing, statement
from ..decode.names import PTX_DTYPE, SIZE
from ..decode.ptx import parse_address, parse_number, vector


def any_order(*parts: str) -> str:
    """Return a pattern that matches `parts` in any order, each at most once. Parts that begin with "!" are required."""
    once = []
    needed = ""
    for i, part in enumerate(parts):
        pattern = part.removeprefix("!")
        again = re.sub(r"\(\?P<\w+>", "(?:", pattern)
        once.append(rf"(?P<part{i}>{pattern})(?!.*{again}(?![\w:]))")
        needed += f"(?(part{i})|(?!))" if part[0] == "!" else ""
    return f"(?:{'|'.join(once)})*{needed}"


SPACE = r"\.(?P<space>global|shared|local|const|param)(?:::cta|::entry|::func|(?P<far>::cluster))?"
SCOPE = r"(?P<scope>\.cta|\.cluster|\.gpu|\.sys)"
VECTOR = r"\.(?P<vec>v[248])"
LEVELS = (
    r"\.L1::(?:evict_normal|evict_unchanged|evict_first|evict_last|no_allocate)",
    r"\.L2::(?:evict_normal|evict_first|evict_last)", r"(?P<hint>\.L2::cache_hint)", r"\.L2::(?:64|128|256)B",
)
TYPES = r"\.(?P<t>[bus]8|[bus]16|[bus]32|[bus]64|f32|f64)"
LOAD = any_order(
    r"(?P<sem>\.weak|\.volatile|\.relaxed|\.acquire|\.mmio\.relaxed)", SCOPE, SPACE, r"\.(?:ca|cg|cs|lu|cv)",
    r"(?P<nc>\.nc)", VECTOR, *LEVELS,
) + TYPES
STORE = any_order(
    r"(?P<sem>\.weak|\.volatile|\.relaxed|\.release|\.mmio\.relaxed)", SCOPE, SPACE, r"\.(?:wb|cg|cs|wt)",
    VECTOR, *LEVELS,
) + TYPES
ATOM, ATOM_FLOAT = (
    any_order(
        r"(?P<sem>\.relaxed|\.acquire|\.release|\.acq_rel)", SCOPE,
        r"\.(?P<space>global|shared)(?:::cta|(?P<far>::cluster))?",
        r"!\.(?P<op>add|min|max|and|or|xor|exch|cas|inc|dec)", r"(?P<noftz>\.noftz)", r"(?P<hint>\.L2::cache_hint)",
        VECTOR, rf"!\.(?P<t>{types})",
    )
    for types in ("b16|[bus]32|[bus]64", "f16x2|f16|bf16x2|bf16|f32|f64")
)
#: log2 of the number of bytes in a chunk, the unit in which TMA copies and wgmma access memory
CHUNK_SHIFT = 4


@dataclass(frozen=True, slots=True)
class Site:
    """A memory instruction of a program, or one of the accesses of an instruction with several, such as a copy."""

    index: int
    pc: int
    #: "" for a generic address
    space: str
    #: constant number of bytes that is added to the address operand
    offset: int
    #: log2 of the number of bytes of each access
    shift: int
    #: dtype of an access; a loaded or stored vector is one element
    dtype: str
    address_dtype: str
    #: "load", "store", "atomic", or "barrier" for mbarrier operands
    kind: str
    #: strong accesses don't race with each other if the scopes of both include the other thread
    strong: bool = False
    acquire: bool = False
    release: bool = False
    #: strong, with a scope that includes all CTAs
    wide: bool = False
    #: False for red, and for atom with destination `_`, which return no old value
    reads: bool = True
    #: a load with .nc, from memory that the kernel must not write
    constant: bool = False
    #: operation and type of an atomic
    op: str = ""
    #: True for a part of a wider access or copy, whose width is unrelated to the kernel's elements
    part: bool = False
    #: the address may be in another CTA of the cluster
    far: bool = False


def address(e: BlockWriter, operand: str) -> tuple[str, str, int]:
    """Return (expression, dtype, constant offset) of `[register+offset]`, `[symbol+offset]` or `[number]`."""
    name, offset = base_of(e, operand)
    if name[0].isdigit():
        return e.names.constant(parse_number(name), "u8"), "u8", offset
    if name in e.names.addresses:
        return e.names.constant(e.names.addresses[name], "u8"), "u8", offset
    bits = e.names.register_bits.get(name, 0)
    if bits not in (32, 64):
        e.fail(f"{name} is not an address register")
    dtype = f"u{bits // 8}"
    value = e.read(name, dtype)
    e.check_defined(name)
    return value, dtype, offset


def base_of(e: BlockWriter, operand: str) -> tuple[str, int]:
    """Return the base and the constant offset of an address operand."""
    found = parse_address(operand)
    if found is None:
        e.fail(f"cannot parse address {operand!r}")
    return found


def site(
    e: BlockWriter, kind: str, m: Match, operand: str, shift: int, dtype: str, displacement: int = 0, part: bool = False
) -> tuple[str, str]:
    """Declare an access to memory. Return (its index in `sites`, the address expression).

    displacement: number of bytes to add to the address. part: see `Site`. In a cluster, the address of a site with the
    group "far" keeps its rank if the machine resolves it: a barrier, a part, or with the group "raw".
    """
    space = m.get("space") or ""
    value, address_dtype, offset = address(e, operand)
    offset += displacement
    if m.get("far") and space != "shared":
        e.fail(f"{e.ins.root}{e.ins.suffix} is not supported")
    in_cluster = e.names.shared and space in ("shared", "") and e.is_register(base_of(e, operand)[0])
    resolved = kind != "barrier" and not part and not m.get("raw")
    far = bool(in_cluster and resolved and (m.get("far") or (not space and e.names.peers)))
    if far:
        value = e.temp(f"S.far.reached({len(e.names.sites)}, {value})")
    elif in_cluster and not m.get("far"):
        value = e.once(f"S.clusters.{'offset' if space else 'generic_offset'}({value})")
    sem = m.get("sem") or ""
    strong = kind == "atomic" or sem in (".volatile", ".relaxed", ".acquire", ".release", ".mmio.relaxed")
    sites = e.names.sites
    sites.append(
        Site(
            len(sites), e.pc, space, offset, shift, dtype, address_dtype, kind, strong,
            acquire=sem in (".acquire", ".acq_rel"), release=sem in (".release", ".acq_rel"),
            wide=strong and m.get("scope") not in (".cta", ".cluster"), reads=m.get("sink") is None,
            constant=bool(m.get("nc")), op=m.get("op") or "", part=part, far=far,
        )
    )
    return str(len(sites) - 1), value


def agent_site(e: BlockWriter, kind: str, space: str) -> str:
    """Declare accesses in 16-byte chunks by an asynchronous operation. Return the memory instruction's index."""
    sites = e.names.sites
    sites.append(Site(len(sites), e.pc, space, 0, CHUNK_SHIFT, "V16", "u8", kind, part=True))
    return str(len(sites) - 1)


_WIDE = {16: "V16", 32: "V32"}


def whole_of(e: BlockWriter, total: int) -> str:
    """Return the dtype of a vector of `total` bytes as one element."""
    if total not in (2, 4, 8, 16, 32):
        e.fail(f"accesses of {total} bytes are not supported")
    return _WIDE.get(total, f"u{total}")


def operands_of(e: BlockWriter, m: Match, count: int) -> list[str]:
    """Return the `count` operands of an instruction, without the cache policy that .L2::cache_hint adds."""
    operands = list(e.ins.operands)
    needed = count + 1 if m.get("hint") else count
    if len(operands) != needed:
        e.fail(f"{e.ins.root}{e.ins.suffix} takes {needed} operands, got {len(operands)}")
    if m.get("hint"):
        e.source(operands.pop(), "u8")
    return operands


def load(e: BlockWriter, m: Match) -> None:
    operands_of(e, m, 2)
    dtype = PTX_DTYPE[m["t"]]
    count = int(m["vec"][1:]) if m["vec"] else 1
    targets = vector(e.ins.operands[0])
    if len(targets) != count:
        e.fail(f"the number of destination registers must be {count}")
    if m["space"] == "param" and _load_param(e, targets, dtype):
        return
    total = SIZE[dtype] * count
    if count == 1:
        number, value = site(e, "load", m, e.ins.operands[1], total.bit_length() - 1, dtype)
        e.write(targets[0], dtype, f"S.load({number}, {value})")
        return
    whole = whole_of(e, total)
    number, value = site(e, "load", m, e.ins.operands[1], total.bit_length() - 1, whole)
    raw = e.temp(f"S.load({number}, {value})")
    parts = e.temp(f"elements({raw}, {dtype}, {count})")
    for i, target in enumerate(targets):
        if target != "_":
            e.write_part(target, dtype, raw, parts, i, count)


def _load_param(e: BlockWriter, targets: list[str], dtype: str) -> bool:
    """Emit a load of a kernel or call parameter at a constant offset. Return False if the operand is neither."""
    name, offset = base_of(e, e.ins.operands[1])
    if name in e.names.call_params:
        for i, target in enumerate(targets):
            e.write(target, dtype, e.read(f"{name}+{offset + i * SIZE[dtype]}", dtype))
        return True
    if name not in e.names.params:
        return False
    start = e.names.params[name] + offset
    for i, target in enumerate(targets):
        if target != "_":
            e.write(target, dtype, f"r{e.param_slot(start + i * SIZE[dtype], dtype)}")
    return True


def store(e: BlockWriter, m: Match) -> None:
    operands_of(e, m, 2)
    dtype = PTX_DTYPE[m["t"]]
    count = int(m["vec"][1:]) if m["vec"] else 1
    sources = vector(e.ins.operands[1])
    if len(sources) != count:
        e.fail(f"the number of source registers must be {count}")
    if m["space"] == "param":
        _store_param(e, sources, dtype)
        return
    if dtype[0] == "i":
        dtype = f"u{dtype[1]}"
    total = SIZE[dtype] * count
    values = [_stored(e, x, dtype, m["t"]) for x in sources]
    if count == 1:
        kind = values[0][1]
        number, value = site(e, "store", m, e.ins.operands[0], total.bit_length() - 1, kind)
        e.stmt(f"S.store({number}, {value}, {values[0][0]})")
        return
    whole = whole_of(e, total)
    number, value = site(e, "store", m, e.ins.operands[0], total.bit_length() - 1, whole)
    unchanged = e.whole_of([x[0] for x in values])
    if unchanged is not None:
        e.stmt(f"S.store({number}, {value}, {unchanged})")
        return
    parts = ", ".join(x[0] for x in values)
    kinds = {x[1] for x in values}
    element = kinds.pop() if len(kinds) == 1 else dtype
    if kinds:
        parts = ", ".join(e.source(x, dtype, m["t"]) for x in sources)
    e.stmt(f"S.store({number}, {value}, joined(S.n, {element}, {whole}, ({parts},)))")


def _stored(e: BlockWriter, source: str, dtype: str, ptx_type: str) -> tuple[str, str]:
    """Return (value, dtype) to store: a float for a 32- or 64-bit register with a float view but no unsigned view."""
    if e.is_register(source) and e.names.register_bits.get(source) == 8 * SIZE[dtype] and SIZE[dtype] >= 4:
        held, other = e.dtypes_held(source), f"f{SIZE[dtype]}"
        if other in held and dtype not in held:
            return e.source(source, other, ptx_type), other
    return e.source(source, dtype, ptx_type), dtype


def _store_param(e: BlockWriter, sources: list[str], dtype: str) -> None:
    base, offset = base_of(e, e.ins.operands[0])
    if base not in e.names.call_params:
        e.fail("st.param can only store to a parameter of a call")
    for i, source in enumerate(sources):
        name = f"{base}+{offset + i * SIZE[dtype]}"
        e.names.register_bits[name] = 8 * SIZE[dtype]
        e.write(name, dtype, e.source(source, dtype))


# Element type → widths of vector atomics: PTX ISA, "Parallel Synchronization and Communication Instructions: atom".
_VECTORS = {
    "f32": ("v2", "v4"), "f16": ("v2", "v4", "v8"), "bf16": ("v2", "v4", "v8"),
    "f16x2": ("v2", "v4"), "bf16x2": ("v2", "v4"),
}


def atomic(e: BlockWriter, m: Match) -> None:
    """Emit atom or red. An atom whose destination is `_` or never read returns no old value."""
    op, t = m["op"], m["t"]
    first = 1 if e.ins.root == "atom" else 0
    operands = operands_of(e, m, first + (3 if op == "cas" else 2))
    targets = vector(operands[0]) if first else ["_"]
    m = {**m, "sink": "_"} if targets == ["_"] else m
    wanted = any(x != "_" and x not in e.names.unread for x in targets)
    dtype = PTX_DTYPE[t]
    if not m["vec"]:
        update_one(e, m, targets[0] if wanted else "_", operands[first], operands[first + 1 :])
        return
    if m["vec"] not in _VECTORS.get(t, ()) or op not in (("add",) if t == "f32" else ("add", "min", "max")):
        e.fail(f"{e.ins.root}{e.ins.suffix} is not supported")
    if m["space"] == "shared":
        e.fail("vector atomics must be in global memory")
    count = int(m["vec"][1:])
    sources = vector(operands[first + 1])
    if len(sources) != count or (wanted and len(targets) != count):
        e.fail(f"expected vectors of {count} registers")
    whole = (SIZE[dtype] * count).bit_length() - 1
    number, value = site(e, "atomic", {**m, "op": f"{op}.{t}"}, operands[first], whole, dtype)
    e.stmt(f"S.access.is_misaligned(S.access.sites[{number}], {value})")
    # each element is updated atomically, but not the vector as a whole
    for i, source in enumerate(sources):
        target = targets[i] if wanted else "_"
        update_one(e, m, target, operands[first], [source], i * SIZE[dtype])


def update_one(e: BlockWriter, m: Match, target: str, place: str, sources: list[str], offset: int = 0) -> None:
    """Emit the atomic update of the element `offset` bytes after `place`. target: for the old value; `_` for none."""
    op, t = m["op"], m["t"]
    dtype = PTX_DTYPE[t]
    m = {**m, "op": f"{op}.{t}"}
    number, value = site(e, "atomic", m, place, SIZE[dtype].bit_length() - 1, dtype, offset)
    values = ", ".join(e.source(x, dtype, t) for x in sources)
    e.write(target, dtype, f"S.atomic({number}, {value}, {target != '_'}, {values})")


def fence(e: BlockWriter, m: Match) -> None:
    """Emit fence{.sem}.scope, or membar, a sequentially consistent fence whose scope .gl means .gpu."""
    sem = "sc" if e.ins.root == "membar" else m["sem"] or "acq_rel"
    e.stmt(f"S.fence({sem!r}, {m['scope'] in ('gl', 'gpu', 'sys')})")


_NO_WIDE_TYPE = "128-bit registers are not supported"
_WIDE_TYPE = (r".*\.b128", lambda e, m: e.fail(_NO_WIDE_TYPE), Fidelity("unsupported", _NO_WIDE_TYPE))
_ADDITIONS = approximated(
    "in the order of the threads, each rounded once; .add.f32 keeps the subnormals that a GPU flushes in global memory"
)
_HINT = Fidelity("exact", "a hint without effect")
ENTRIES: Entries = {
    "ld": ((LOAD, load), _WIDE_TYPE),
    "ldu": ((any_order(SPACE, VECTOR) + TYPES, load), _WIDE_TYPE),
    "st": ((STORE, store), _WIDE_TYPE),
    "atom": ((ATOM, atomic), (ATOM_FLOAT, atomic, _ADDITIONS), _WIDE_TYPE),
    "red": ((ATOM, atomic), (ATOM_FLOAT, atomic, _ADDITIONS)),
    "membar": ((r"\.(?P<scope>cta|gl|sys)", fence),),
    "fence": ((r"(?:\.(?P<sem>sc|acq_rel|acquire|release))?\.(?P<scope>cta|cluster|gpu|sys)", fence),
              (r"\.mbarrier_init\.release\.cluster", statement("S.mbarriers.fence(True)")),
              (r"\.proxy\.async(?:\.(?P<space>global|shared)(?:::(?:cta|cluster))?)?",
               statement("S.fence_proxy({space!r})")),
              (r"\.proxy\.alias", nothing, Fidelity("exact", "no memory has two virtual addresses"))),
    "prefetch": ((r"(?:\.global|\.local)?\.L[12]", nothing, _HINT),
                 (r"\.global\.L2::evict_(?:last|normal)", nothing, _HINT)),
    "prefetchu": ((r"\.L1", nothing, _HINT),),
    "discard": ((r"(?:\.global)?\.L2", nothing, approximated("keeps the data", races=False)),),
    "createpolicy": (
        (r"\.fractional(?:\.L2::evict_(?:first|last|normal|unchanged))(?:\.L2::evict_(?:first|unchanged))?\.b64",
         expression("u8", "u8.type(0)"), approximated("the policy is 0, and policies have no effect")),
    ),
    "applypriority": ((r"(?:\.global)?\.L2::evict_normal", nothing, _HINT),),
}
