"""cp.async and its waits."""

from __future__ import annotations

from ...dataclass import replace
from ..decode.emitter import BlockWriter, Entries, Match, statement
from ..decode.ptx import parse_number
from .memory import site

MOST_GROUPS = 2**31 - 1
_WHOLE = {4: "u4", 8: "u8", 16: "V16"}


def cp_async(e: BlockWriter, m: Match) -> None:
    """Emit cp.async [dst], [src], size{, src-size or ignore-src}{, cache-policy}."""
    operands = list(e.ins.operands)
    if m["policy"]:
        policy = operands.pop() if len(operands) > 3 else ""
        e.source(policy, "u8")
    if len(operands) not in (3, 4):
        e.fail("cp.async takes three or four operands, apart from a cache policy")
    size = literal(e, operands[2], 2**31 - 1)
    if size not in ((16,) if m["cache"] == "cg" else (4, 8, 16)):
        e.fail(f"cp.async.{m['cache']} doesn't support size {size}; cg supports 16, and ca 4, 8 and 16")
    kept = kept_bytes(e, operands[3], size) if len(operands) == 4 else "None"
    shift, whole = size.bit_length() - 1, _WHOLE[size]
    target, to = site(e, "store", {"space": "shared"}, operands[0], shift, whole)
    source, address = site(e, "load", {"space": "global"}, operands[1], shift, whole)
    sites = e.names.sites
    sites.append(replace(sites[-1], index=len(sites), shift=0, dtype="u1", part=True))
    e.stmt(f"S.copies.issue({target}, {to}, {source}, {address}, {len(sites) - 1}, {kept})")


def kept_bytes(e: BlockWriter, operand: str, size: int) -> str:
    """Return an expression for the number of bytes to copy: src-size or, for a predicate ignore-src, 0 or `size`."""
    name = operand.lstrip("!").strip()
    if e.names.register_bits.get(name) != 1:
        return e.source(operand, "u4")
    none, every = (e.names.constant(x, "u4") for x in (0, size))
    return e.temp(f"sel({e.source(operand, 'p')}, {none}, {every})")


def literal(e: BlockWriter, operand: str, most: int) -> int:
    """Return the value of an operand. Fail unless it is a constant from 0 to `most`."""
    try:
        value = parse_number(operand)
    except ValueError:
        e.fail(f"{operand!r} must be a constant")
    if value > most:
        e.fail(f"{operand} must be from 0 to {most}")
    return value


def wait(e: BlockWriter, m: Match) -> None:
    (newest,) = e.exactly(1)
    e.stmt(f"S.copies.wait({literal(e, newest, MOST_GROUPS)})")


ENTRIES: Entries = {
    "cp": ((r"\.async\.(?P<cache>ca|cg)\.shared(?:::cta)?\.global(?P<policy>\.L2::cache_hint)?"
            r"(?:\.L2::(?:64|128|256)B)?", cp_async),
           (r"\.async\.commit_group", statement("S.copies.commit()")), (r"\.async\.wait_group", wait),
           (r"\.async\.wait_all", statement("S.copies.commit(); S.copies.wait(0)"))),
}
