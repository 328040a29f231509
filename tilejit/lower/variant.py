"""What a variant is: one way to carry out a tile operation.

    operation ─▶ operands ─▶ when ─▶ plan ─▶ a Plan ─▶ emit ─▶ lane IR
                 `- conditions -´    |                 `- writes statements with a Builder
                    each says None   `- layout arithmetic; LayoutError, or a Decline,
                    or a reason         where it doesn't fit

A file of `variants/` has a docstring (*accepts*, *emits*, *source*), its `Plan`, `plan`, `emit` and `VARIANT`. The
engine takes the variant of the highest priority that no condition has a reason against and that doesn't decline.
What a plan is stands in `plans`. Conditions that several variants share stand at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any, Generic, TypeVar

from ..dataclass import dataclass, field
from ..dtypes import barrier
from ..errors import LayoutError
from ..ir.clusters import Cluster
from ..ir.nodes import Region, TileOp
from ..isa import AsyncWork, Capability, Family
from ..isa.row import ANOTHER_TARGET
from ..ops.copies import MULTICAST
from ..ops.record import TILE
from ..scopes import SCOPES, THREAD, WARP
from ..target import Target
from .builder import Builder
from .plans import Plan
from .rematerialized import Recomputed

__all__ = [
    "COPY_CONDITIONS", "FILLS_ONE", "KINDS", "PRODUCT_CONDITIONS", "SCOPE", "SHAPES", "TYPES", "WHOLE_WARPS",
    "Condition", "Decline", "DispatchContext", "Variant", "among", "between", "copy_sides", "from_to", "lead_of",
    "local_side", "needs", "outside",
]

P = TypeVar("P", bound=Plan)


# without slots: `Variant[SomePlan](...)` sets an attribute, which slotted dataclasses refuse with a TypeError
@dataclass(frozen=True, kw_only=True)
class Variant(Generic[P]):
    """One way to carry out some tile operations.

    operations: names of the tile operations. priority: a multiple of ten, the highest that accepts wins;
    None for a variant that is chosen by name only.
    operands: conditions on the operands' kinds, number and spaces. when: conditions that are tested where those hold
    and may assume them. Who asks for the reasons gets those of all.
    honours: the optional operands that it carries out, by name; it declines an operation that has another.
    starts: the asynchronous work that it starts, for which users wait by a call of its own.
    plan: layout arithmetic, run when all hold; where it raises LayoutError it declines. emit: writes lane IR; it can't.
    """

    name: str
    operations: tuple[str, ...]
    priority: int | None
    operands: tuple[Condition, ...]
    when: tuple[Condition, ...]
    plan: Callable[[TileOp, DispatchContext], P | Decline]
    emit: Callable[[P, TileOp, Builder], None]
    honours: tuple[str, ...] = ()
    starts: tuple[AsyncWork, ...] = ()

    def accepts(self, op: TileOp, context: DispatchContext, tested: dict[Condition, str | None]) -> bool:
        """Whether `op` meets all conditions; tested: as of `reasons`, which takes longer."""
        if not _hold(self.operands, op, context, tested):
            return False
        for name in op.options:
            if name not in self.honours:
                return False
        return _hold(self.when, op, context, tested)

    def reasons(self, op: TileOp, context: DispatchContext, tested: dict[Condition, str | None]) -> tuple[str, ...]:
        """Why `op` doesn't meet the conditions: all reasons of the first tier in which there are any.

        tested: what the conditions say that other variants of the operation have, too; each is tested once.
        """
        failed = _failed(self.operands, op, context, tested)
        for name in op.options:
            if name not in self.honours:
                failed.append(self._refusal(op, name))
        return tuple(failed or _failed(self.when, op, context, tested))

    def is_elsewhere(self, op: TileOp, context: DispatchContext) -> bool:
        """True if it carries out operations on operands in other memory spaces."""
        return any(condition is not KINDS and condition.test(op, context) is not None for condition in self.operands)

    def _refusal(self, op: TileOp, option: str) -> str:
        """Why it doesn't carry out an optional operand."""
        operand = op.operand(option)
        if not self.starts or not isinstance(operand, Region) or operand.dtype != barrier:
            return f"takes no {option}; one is given"
        waits = " or ".join(f"tj.{work.wait}" for work in self.starts)
        return f"completes on {waits}; needs no barrier, got {operand.buffer.name}"

    def planned(self, op: TileOp, context: DispatchContext) -> P | Decline:
        """How `op`, which meets all conditions, is carried out, or why it isn't."""
        try:
            plan = self.plan(op, context)
        except LayoutError as error:
            return Decline((error.message,), error.hint)
        return plan if isinstance(plan, Decline) else _too_narrow(plan, op) or plan


@dataclass(frozen=True, slots=True)
class DispatchContext:
    """What an operation is dispatched for.

    threads: of the CTA. recomputed: the masks that can be computed again where it stands; None where it stands alone.
    cluster: CTAs of a cluster in each dimension; None where the kernel has none.
    """

    target: Target
    threads: int
    recomputed: Recomputed | None = field(default=None, compare=False, repr=False)
    cluster: Cluster | None = None

    def count(self, scope: str) -> int:
        """Threads of one scope that carry out an operation together."""
        return SCOPES[scope].threads(self.threads)


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """One thing that a variant needs, or several do.

    test: the reason why an operation doesn't meet it, or None. hint: what to change then.
    """

    name: str
    test: Callable[[TileOp, DispatchContext], str | None]
    hint: str = ""


def _hold(
    tier: tuple[Condition, ...], op: TileOp, context: DispatchContext, tested: dict[Condition, str | None]
) -> bool:
    """Whether all conditions hold; `tested` has what is known of them already."""
    for condition in tier:
        if condition not in tested:
            tested[condition] = condition.test(op, context)
        if tested[condition] is not None:
            return False
    return True


def _failed(
    tier: tuple[Condition, ...], op: TileOp, context: DispatchContext, tested: dict[Condition, str | None]
) -> list[str]:
    """Why conditions don't hold; `tested` has what is known of them already."""
    reasons = []
    for condition in tier:
        if condition not in tested:
            tested[condition] = condition.test(op, context)
        reason = tested[condition]
        if reason is not None:
            reasons.append(reason)
    return reasons


@dataclass(frozen=True, slots=True)
class Decline:
    """Why a variant can't carry out an operation. hint: what to change."""

    reasons: tuple[str, ...]
    hint: str | None = None


def _too_narrow(plan: Plan, op: TileOp) -> Decline | None:
    """Why a plan moves fewer bits at a time than the call requires, or None."""
    required = op.attr("require_bits")
    if not isinstance(required, int):
        return None
    facts = plan.facts()
    bits = facts.vector_bits
    if bits is None or bits >= required:
        return None
    why = f": {facts.limit}" if facts.limit else ""
    return Decline(
        (f"moves {bits} bits at a time; require_bits={required}{why}",),
        "change what the reason names, or require fewer bits",
    )


#: one instruction, or a family of which one form is enough
_Needed = Capability | Family[Any]


def _scope(op: TileOp, context: DispatchContext) -> str | None:
    if op.scope not in SCOPES:
        return f"needs a scope among {', '.join(SCOPES)}; got {op.scope}"
    need = context.count(op.scope)
    if need > context.threads:
        return f"a {op.scope} has {need} threads; the CTA has {context.threads}"
    return None


def _kinds(op: TileOp, context: DispatchContext) -> str | None:
    record = op.record
    fault = record.count_fault(op.operands)
    if fault is not None:
        return fault
    for operand, rule in zip(op.operands, record.operands, strict=False):
        if operand is None or rule.kind(is_region=isinstance(operand, Region)) is not None:
            continue
        if isinstance(operand, Region):
            return f"needs a scalar as {rule.name}; got {operand.buffer.name}, in {operand.buffer.space} memory"
        kind = rule.kinds[0]
        wanted = f"{rule.name} in memory or registers" if kind is TILE else f"a {kind.name} as {rule.name}"
        return f"needs {wanted}; got a scalar"
    return None


def _types(op: TileOp, context: DispatchContext) -> str | None:
    fault = op.record.type_fault(op.dtypes, dict(op.attrs))
    return None if fault is None else fault.message


def _rule_shapes(op: TileOp, context: DispatchContext) -> str | None:
    fault = op.record.shape_fault(op.shapes, dict(op.attrs))
    return None if fault is None else fault.message


def _dtypes(op: TileOp, context: DispatchContext) -> str | None:
    dst, src = copy_sides(op)
    if op.record.type_fault({"dst": dst.dtype, "src": src.dtype}, {}) is not None:
        return f"needs one dtype on both sides; got {dst.dtype} and {src.dtype} (cast converts)"
    return None


def _shapes(op: TileOp, context: DispatchContext) -> str | None:
    dst, src = copy_sides(op)
    if op.record.shape_fault(op.shapes, dict(op.attrs)) is None:
        return None
    return f"needs equal shapes; got {dst.shape} and {src.shape}"


def outside(op: TileOp, *spaces: str) -> str:
    """The tiles that live in none of `spaces`, as a list for a reason."""
    found: list[str] = []
    for tile in op.tiles.values():
        if tile.buffer.space not in spaces:
            found.append(f"{tile.buffer.name} is {tile.buffer.space}")
    return ", ".join(found)


def copy_sides(op: TileOp) -> tuple[Region, Region]:
    """Destination and source of a copy."""
    return op.region("dst"), op.region("src")


def local_side(op: TileOp) -> tuple[Region, Region, bool]:
    """Of a copy with one local side: that, the other, and whether it loads; then the destination is local."""
    dst, src = copy_sides(op)
    loads = dst.buffer.space == "local"
    return (dst, src, loads) if loads else (src, dst, loads)


def _whole_warps(op: TileOp, context: DispatchContext) -> str | None:
    """Why the scope isn't made of whole warps, or None."""
    if op.scope == THREAD.name:
        return "needs whole warps; called on one thread"
    threads = context.count(op.scope)
    return f"needs whole warps; the {op.scope} has {threads} threads" if WARP.left_over(threads) else None


def lead_of(src: Region) -> str:
    """Whose order a copy follows: the global side's, for coalescing."""
    return "src" if src.buffer.space == "global" else "dst"


def from_to(src: str, dst: str) -> Condition:
    """Needs a source in one space and a destination in the other."""
    return _memory_pair(f"{src} -> {dst}", {(src, dst)})


def between(one: str, *others: str) -> Condition:
    """Needs one side in a space and the other side in one of the other spaces."""
    pairs = {pair for other in others for pair in ((one, other), (other, one))}
    return _memory_pair(f"{one} <-> {' or '.join(others)}", pairs)


def among(*spaces: str) -> Condition:
    """Needs both sides in some of the spaces."""
    *first, last = spaces
    return _memory_pair(f"among {', '.join(first)} and {last}", {(src, dst) for src in spaces for dst in spaces})


def _memory_pair(text: str, pairs: Set[tuple[str, str]]) -> Condition:
    """Needs (source, destination) in one of `pairs` of spaces. text: these, for the reason."""

    def test(op: TileOp, context: DispatchContext) -> str | None:
        tiles = op.tiles
        # a scalar is for the condition on kinds to refuse
        if "dst" not in tiles or "src" not in tiles:
            return None
        src, dst = tiles["src"].buffer.space, tiles["dst"].buffer.space
        return None if (src, dst) in pairs else f"moves {text}; got {src} -> {dst}"

    return Condition("memory pair", test)


def needs(
    instruction: _Needed | Callable[[TileOp], _Needed], what: str = "", hint: str = ANOTHER_TARGET
) -> Condition:
    """Needs a target that has an instruction, which may depend on the operation.

    what: how the reason calls it, where that isn't the instruction's name.
    """

    def test(op: TileOp, context: DispatchContext) -> str | None:
        needed = instruction if isinstance(instruction, (Capability, Family)) else instruction(op)
        missing = needed.missing(context.target)
        return None if missing is None else f"{what or needed.name} {missing}"

    return Condition("instruction", test, hint)


def _fills_one(op: TileOp, context: DispatchContext) -> str | None:
    axis = op.attr(MULTICAST.name)
    return None if axis is None else f"fills the memory of one CTA; got multicast={axis}"


SCOPE = Condition("scope", _scope)

#: what every asynchronous copy needs that goes to one CTA
FILLS_ONE = Condition("one CTA", _fills_one)
WHOLE_WARPS = Condition("whole warps", _whole_warps)

#: the operands are what the table of tile operations says: regions or scalars, as many
KINDS = Condition("operands", _kinds)

#: the operands' types are what the operation's rule says
TYPES = Condition("types", _types)

#: the operands' shapes are what the operation's rule says
SHAPES = Condition("shapes", _rule_shapes)

#: what every product needs
PRODUCT_CONDITIONS = (SCOPE, TYPES, SHAPES)

#: what every copy needs of two regions
COPY_CONDITIONS = (SCOPE, Condition("dtype", _dtypes), Condition("shape", _shapes))
