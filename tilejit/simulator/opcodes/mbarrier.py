"""Barriers in shared memory (mbarrier), and setmaxnreg."""

from __future__ import annotations

from ..decode.emitter import BlockWriter, Entries, Entry, Match, expression
from .copies import literal
from .memory import any_order, site

_SHARED = r"(?P<space>\.shared)(?:::cta)?"
_ANY_SHARED = r"(?P<space>\.shared)(?:::cta|(?P<far>::cluster))?"
_RELEASES = any_order(r"(?P<sem>\.release|\.relaxed)", r"\.(?P<scope>cta|cluster)", _ANY_SHARED)
_ACQUIRES = any_order(r"(?P<sem>\.acquire|\.relaxed)", r"\.(?P<scope>cta|cluster)", _SHARED)
_RELAXED = any_order(r"\.relaxed", r"\.(?P<scope>cta|cluster)", _SHARED)
_PLAIN = any_order(_SHARED)


def barrier_site(e: BlockWriter, m: Match, operand: str) -> tuple[str, str]:
    """Declare a use of an mbarrier operand. Return (index of the memory instruction, address expression)."""
    fields = {"space": "shared" if m["space"] else "", "far": m.get("far") or ""}
    return site(e, "barrier", fields, operand, 3, "u8")


def on_barrier(method: str, operands: int) -> Entry:
    """Return a function that emits a call of an `MBarriers` method, with a count if `operands` is 2."""

    def emit(e: BlockWriter, m: Match) -> None:
        place, *counts = e.exactly(operands)
        arguments = [*barrier_site(e, m, place), *(e.source(x, "u4") for x in counts)]
        e.stmt(f"S.mbarriers.{method}({', '.join(arguments)})")

    return emit


def arrive(e: BlockWriter, m: Match) -> None:
    """Emit mbarrier.arrive or .arrive_drop. The last operand counts bytes with .expect_tx, else arrivals."""
    operands = list(e.ins.operands)
    target = operands.pop(0)
    needs_count = m["expects"] or m["incomplete"]
    if len(operands) not in ((2,) if needs_count else (1, 2)):
        e.fail(f"expected a state, an address and {'a' if needs_count else 'an optional'} count")
    number, address = barrier_site(e, m, operands[0])
    last = e.source(operands[1], "u4") if len(operands) > 1 else "None"
    count, expected = ("None", last) if m["expects"] else (last, "None")
    if m["far"]:
        if target != "_" or m["incomplete"]:
            e.fail("an arrival with .shared::cluster must have the destination _, and can't have .noComplete")
        scope = "" if m["sem"] == ".relaxed" else m["scope"] or "cta"
        arguments = f"{number}, {address}, {count}, {expected}, {bool(m['drop'])}, {scope!r}"
        e.stmt(f"S.far.arrive({arguments})")
        return
    wanted, drop, incomplete = target != "_", bool(m["drop"]), bool(m["incomplete"])
    releases = m.get("sem") != ".relaxed"
    call = f"S.mbarriers.arrive({number}, {address}, {count}, {expected}, {wanted}, {drop}, {incomplete}, {releases})"
    e.write(target, "u8", call)


def arrive_after_copies(e: BlockWriter, m: Match) -> None:
    (place,) = e.exactly(1)
    number, address = barrier_site(e, m, place)
    e.stmt(f"S.copies.arrive({number}, {address}, {bool(m['noinc'])})")


def wait(e: BlockWriter, m: Match) -> None:
    """Emit mbarrier.test_wait or .try_wait, whose time hint is ignored."""
    operands = list(e.ins.operands)
    if len(operands) == 4 and m["how"] == "try":
        e.source(operands.pop(), "u4")
    if len(operands) != 3:
        e.fail("expected a predicate, an address and a phase")
    number, address = barrier_site(e, m, operands[1])
    acquires = "" if m["sem"] == ".relaxed" else m["scope"] or "cta"
    kind, phase = awaited(e, m, operands[2])
    e.write(operands[0], "p", f"S.mbarriers.wait({number}, {address}, {phase}, {kind!r}, {acquires!r})")


def awaited(e: BlockWriter, m: Match, operand: str) -> tuple[str, str]:
    """Return the kind of a wait's phase operand, "state", "parity" or "number", and an expression for the phase.

    The kind is "number", and the expression n, if the parity p is declared in inner braces and the previous instruction
    is `and.b32 p, n, 1` without a guard.
    """
    if not m["parity"]:
        return "state", e.source(operand, "u8")
    before = e.before
    inner = "@" in operand and before is not None and before.guard is None
    if inner and before is not None and (before.root, before.suffix) == ("and", ".b32"):
        target, number, mask = before.operands
        if target == operand and mask == "1":
            return "number", e.source(number, "i4")
    return "parity", e.source(operand, "u4")


def set_registers(e: BlockWriter, m: Match) -> None:
    """Emit setmaxnreg; fail unless its operand is a multiple of 8 from 24 to 256."""
    (operand,) = e.exactly(1)
    count = literal(e, operand, 2**32 - 1)
    if not 24 <= count <= 256 or count % 8:
        e.fail(f"{count} registers: the number must be a multiple of 8 from 24 to 256")
    e.stmt(f"S.set_registers({m['how']!r}, {count}, {e.pc})")


_ARRIVE = r"\.arrive(?P<drop>_drop)?(?P<expects>\.expect_tx)?(?P<incomplete>\.noComplete)?"
ENTRIES: Entries = {
    "mbarrier": (
        (r"\.init" + _PLAIN + r"\.b64", on_barrier("init", 2)),
        (r"\.inval" + _PLAIN + r"\.b64", on_barrier("inval", 1)),
        (_ARRIVE + _RELEASES + r"\.b64", arrive), (r"\.expect_tx" + _RELAXED + r"\.b64", on_barrier("expect_tx", 2)),
        (r"\.complete_tx" + _RELAXED + r"\.b64", on_barrier("complete_tx", 2)),
        (r"\.(?P<how>test|try)_wait(?P<parity>\.parity)?" + _ACQUIRES + r"\.b64", wait),
        (r"\.pending_count\.b64", expression("u4", "S.mbarriers.pending_count({0})", "u8")),
    ),
    "cp": ((r"\.async\.mbarrier\.arrive(?P<noinc>\.noinc)?" + _PLAIN + r"\.b64", arrive_after_copies),),
    "setmaxnreg": ((r"\.(?P<how>inc|dec)\.sync\.aligned\.u32", set_registers),),
}
