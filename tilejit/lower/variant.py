"""Variants: alternative implementations of tile operations.

    operation ─▶ operands ─▶ when ─▶ plan ─▶ a Plan ─▶ emit ─▶ lane IR
                 `- conditions -´    |                 `- appends statements to a Builder
                    each returns     `- layout arithmetic; raises LayoutError
                    None or a reason    if the operation doesn't fit

A file of `variants/` has a docstring (*accepts*, *emits*, *source*), `plan`, `emit`, `VARIANT` and usually a `Plan`.
Variants that share code are in one file, whose docstring has a paragraph for each. Unless a call names a variant, the
engine takes the one of the highest priority for which no condition returns a reason and whose plan doesn't decline.
Conditions that several variants share are at the end of this file. `KINDS` and `SCOPE` apply to all variants, which
don't list them.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from math import copysign
from typing import Any, Generic, TypeVar

from ..dataclass import dataclass, field
from ..dtypes import barrier
from ..errors import LayoutError
from ..ir.clusters import Cluster
from ..ir.nodes import Const, Region, TileOp
from ..isa import AsyncWork, Capability, Family
from ..isa.row import ANOTHER_TARGET
from ..ops.copies import MASK, MULTICAST
from ..ops.record import TILE, Attribute
from ..scopes import SCOPES, THREAD, WARP, WARPGROUP
from ..target import Target
from ..wording import counted
from .builder import Builder
from .plans import Plan
from .rematerialized import Recomputed

P = TypeVar("P", bound=Plan)


@dataclass(frozen=True, kw_only=True)
class Variant(Generic[P]):
    """One implementation of some tile operations."""

    name: str
    operations: tuple[str, ...]
    #: a multiple of ten; the highest wins. None if the variant is chosen by name only.
    priority: int | None
    #: conditions on the memory spaces of operands
    operands: tuple[Condition, ...]
    #: conditions that are tested if those of `operands` hold, and may rely on them
    when: tuple[Condition, ...]
    #: layout arithmetic, run if all conditions hold; LayoutError means a decline
    plan: Callable[[TileOp, DispatchContext], P]
    #: emits lane IR; can't decline
    emit: Callable[[P, TileOp, Builder], None]
    #: names of the supported optional operands; operations with other optional operands are rejected
    honours: tuple[str, ...] = ()
    #: asynchronous work that the variant starts and users wait for with a separate call
    starts: tuple[AsyncWork, ...] = ()

    def reasons(self, op: TileOp, context: DispatchContext, tested: dict[Condition, str | None]) -> tuple[str, ...]:
        """Return the reasons from `operands` and for unsupported options; if there are none, those from `when`.

        tested: the results of conditions, shared between variants so that each condition is tested once.
        """
        failed = _failed((KINDS, *self.operands), op, context, tested)
        for name in op.options:
            if name not in self.honours:
                failed.append(self._refusal(op, name))
        return tuple(failed or _failed((SCOPE, *self.when), op, context, tested))

    def is_elsewhere(self, op: TileOp, context: DispatchContext) -> bool:
        """True if the variant is for operands in other memory spaces."""
        return any(condition.test(op, context) is not None for condition in self.operands)

    def _refusal(self, op: TileOp, option: str) -> str:
        operand = op.operand(option)
        if not self.starts or not isinstance(operand, Region) or operand.dtype != barrier:
            return f"takes no {option}; one is given"
        waits = " or ".join(f"tj.{work.wait}" for work in self.starts)
        return f"completes on {waits}; needs no barrier, got {operand.buffer.name}"

    def planned(self, op: TileOp, context: DispatchContext) -> P | Decline:
        """Return the plan for `op`, for which all conditions hold, or a `Decline`."""
        try:
            plan = self.plan(op, context)
            _need_bits(plan, op)
        except LayoutError as error:
            return Decline(error.message, error.hint)
        return plan


@dataclass(frozen=True, slots=True)
class DispatchContext:
    """The context in which a variant is chosen for an operation.

    threads: number of threads of the CTA. recomputed: the tiles that can be recomputed at the operation; None without a
    kernel. cluster: number of CTAs in each dimension of a cluster; None without clusters.
    """

    target: Target
    threads: int
    recomputed: Recomputed | None = field(default=None, compare=False, repr=False)
    cluster: Cluster | None = None

    def count(self, scope: str) -> int:
        return SCOPES[scope].threads(self.threads)


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """A condition on operations. test: returns the reason why it fails, or None. hint: the remedy."""

    name: str
    test: Callable[[TileOp, DispatchContext], str | None]
    hint: str = ""


def _failed(
    tier: tuple[Condition, ...], op: TileOp, context: DispatchContext, tested: dict[Condition, str | None]
) -> list[str]:
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
    """The reason why a variant can't carry out an operation for which its conditions hold. hint: the remedy."""

    reason: str
    hint: str | None = None


def _need_bits(plan: Plan, op: TileOp) -> None:
    """Raise LayoutError if a plan moves fewer bits at a time than `require_bits`."""
    required = op.attr("require_bits")
    if not isinstance(required, int):
        return
    facts = plan.facts()
    bits = facts.vector_bits
    if bits is not None and bits < required:
        why = f": {facts.limit}" if facts.limit else ""
        raise LayoutError(
            f"moves {bits} bits at a time; require_bits={required}{why}",
            hint="remove the stated cause, or require fewer bits" if why else "require fewer bits",
        )


#: an instruction or another capability, or a family of instructions of which one form suffices
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
    dst, src = op.region("dst"), op.region("src")
    if op.record.type_fault({"dst": dst.dtype, "src": src.dtype}, {}) is not None:
        return f"needs one dtype on both sides; got {dst.dtype} and {src.dtype} (cast converts)"
    return None


def _shapes(op: TileOp, context: DispatchContext) -> str | None:
    dst, src = op.region("dst"), op.region("src")
    fault = op.record.shape_fault(op.shapes, dict(op.attrs))
    if fault is None or MASK.name in op.options:
        return None if fault is None else fault.message
    return f"needs equal shapes; got {dst.shape} and {src.shape}"


def local_side(op: TileOp) -> tuple[Region, Region, bool]:
    """Return (local side, other side, whether the local side is the destination) of a copy with one local side."""
    dst, src = op.region("dst"), op.region("src")
    loads = dst.buffer.space == "local"
    return (dst, src, loads) if loads else (src, dst, loads)


def _whole_warps(op: TileOp, context: DispatchContext) -> str | None:
    if op.scope == THREAD.name:
        return "needs whole warps; called on one thread"
    threads = context.count(op.scope)
    return f"needs whole warps; the {op.scope} has {counted(threads, 'thread')}" if WARP.left_over(threads) else None


def on_warpgroup(op: TileOp, context: DispatchContext) -> str | None:
    """Return None if the scope is a warpgroup, else the reason to reject the operation."""
    if op.scope == WARPGROUP.name:
        return None
    return f"needs the scope {WARPGROUP.name}, {WARPGROUP.size} threads; called on {op.scope}"


def from_to(src: str, dst: str) -> Condition:
    """Return the condition that the source is in `src` and the destination in `dst`."""
    return _memory_pair(f"{src} -> {dst}", {(src, dst)})


def between(one: str, *others: str) -> Condition:
    """Return the condition that one side is in `one` and the other in one of `others`."""
    pairs = {pair for other in others for pair in ((one, other), (other, one))}
    return _memory_pair(f"{one} <-> {' or '.join(others)}", pairs)


def among(*spaces: str) -> Condition:
    """Return the condition that each side is in one of `spaces`."""
    *first, last = spaces
    return _memory_pair(f"among {', '.join(first)} and {last}", {(src, dst) for src in spaces for dst in spaces})


def tiles_in(*spaces: str, does: str, remedy: str = "") -> Condition:
    """Return the condition that all tiles are in `spaces`. does, remedy: the beginning and the end of the reason."""

    def test(op: TileOp, context: DispatchContext) -> str | None:
        buffers = [tile.buffer for tile in op.tiles.values() if tile.buffer.space not in spaces]
        others = ", ".join(f"{buffer.name} is {buffer.space}" for buffer in buffers)
        return f"{does}; {others}{remedy}" if others else None

    return Condition("memory", test)


def _memory_pair(text: str, pairs: Set[tuple[str, str]]) -> Condition:
    """Return the condition that (source, destination) is one of `pairs`, which `text` describes in the reason."""

    def test(op: TileOp, context: DispatchContext) -> str | None:
        tiles = op.tiles
        # `KINDS` rejects scalars
        if "dst" not in tiles or "src" not in tiles:
            return None
        src, dst = tiles["src"].buffer.space, tiles["dst"].buffer.space
        return None if (src, dst) in pairs else f"moves {text}; got {src} -> {dst}"

    return Condition("memory pair", test)


def fills_zero(reason: str) -> Condition:
    """Return the condition that the fill value, if given, is 0, not -0. reason: a format string with "{value}"."""

    def test(op: TileOp, context: DispatchContext) -> str | None:
        fill = op.value("fill")
        if fill is None or isinstance(fill, Const) and fill.value == 0 and copysign(1, fill.value) > 0:
            return None
        value = fill.value if isinstance(fill, Const) else "a value known only at run time"
        return reason.format(value=value)

    return Condition("fill", test)


def needs(
    instruction: _Needed | Callable[[TileOp], _Needed], what: str = "", hint: str = ANOTHER_TARGET
) -> Condition:
    """Return the condition that the target has `instruction`, which the reason calls `what` (by default its name)."""

    def test(op: TileOp, context: DispatchContext) -> str | None:
        needed = instruction if isinstance(instruction, (Capability, Family)) else instruction(op)
        missing = needed.missing(context.target)
        return None if missing is None else f"{what or needed.name} {missing}"

    return Condition("instruction", test, hint)


def without(attribute: Attribute, reason: str) -> Condition:
    """Return the condition that an attribute isn't given."""

    def test(op: TileOp, context: DispatchContext) -> str | None:
        value = op.attr(attribute.name)
        return None if value is None else f"{reason}; got {attribute.name}={value!r}"

    return Condition(f"no {attribute.name}", test)


def known_starts(remedy: str = "") -> Condition:
    """Return the condition that regions of local tiles have constant starts. remedy: appended to the reason."""

    def test(op: TileOp, context: DispatchContext) -> str | None:
        for region in op.tiles.values():
            if region.buffer.space == "local" and not all(isinstance(start, Const) for start in region.starts):
                return f"the region of {region.buffer.name} starts at a register known only at run time{remedy}"
        return None

    return Condition("starts", test)


def _load_has_barrier(op: TileOp, context: DispatchContext) -> str | None:
    is_missing = op.region("dst").buffer.space == "shared" and "barrier" not in op.options
    return "needs barrier=: a load completes on a barrier" if is_missing else None


#: for asynchronous copies that can write the memory of one CTA only
FILLS_ONE = without(MULTICAST, "fills the memory of one CTA")

#: for asynchronous copies that complete on a barrier if they write shared memory
LOAD_HAS_BARRIER = Condition("barrier of a load", _load_has_barrier)

WHOLE_WARPS = Condition("whole warps", _whole_warps)

#: conditions of all variants: the number and the kinds of operands (region or scalar) follow the table of tile
#: operations, and the CTA has enough threads for the scope
KINDS, SCOPE = Condition("operands", _kinds), Condition("scope", _scope)

#: the operands' types, and their shapes, follow the operation's rules
TYPES, SHAPES = Condition("types", _types), Condition("shapes", _rule_shapes)
RULE_CONDITIONS = (TYPES, SHAPES)

COPY_CONDITIONS = (Condition("dtype", _dtypes), Condition("shape", _shapes))

#: for products, whose instructions name the registers of their operands
KNOWN_STARTS = known_starts(": loop with tj.static_range, whose index is known at compile time")
