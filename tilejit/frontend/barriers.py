"""Barriers and rings: `tj.alloc_barrier`, `tj.alloc_ring`, `tj.named_barrier`, ring steps, arrivals, waits, multicast.

A ring has a `full` and an `empty` barrier per stage. Step i is use number i // stages of stage i % stages, so producers
wait for phase i // stages - 1 of `empty`, and consumers for phase i // stages of `full`. Waits take phase numbers, not
parities, because code that tracks parity by hand is easily off by one phase, and may then hang.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ..dtypes import DTYPES, barrier, bool_, int32, int64
from ..errors import KernelTypeError, ResourceError
from ..ir import walk
from ..ir.arithmetic import build, facts
from ..ir.clusters import ctas_along
from ..ir.nodes import (
    Alloc,
    Arrive,
    Assert,
    Buffer,
    Const,
    Element,
    Expect,
    Expr,
    Instruction,
    Kernel,
    Region,
    TileOp,
    Var,
    WaitPhase,
)
from ..isa import Row
from ..isa.barriers import BAR_ARRIVE_NUMBERED, BAR_SYNC_NUMBERED, OF_WARPGROUPS, USERS
from ..isa.mbarrier import MOST_IN_A_PHASE
from ..layout import TileLayout
from ..ops.copies import MULTICAST
from ..target import TENSOR_MEMORY_TARGETS, WARP
from ..wording import counted
from .annotations import members
from .arguments import Arguments, bind, optional
from .buffers import as_index
from .context import Context
from .values import (
    Barrier,
    Constant,
    Method,
    NamedBarrier,
    Ring,
    RingStep,
    Scalar,
    ScopedOperation,
    Value,
    describe,
)

#: the kinds of values whose attributes `attribute` looks up
WITH_ATTRIBUTES = (Barrier, NamedBarrier, Ring, RingStep)
#: the kinds of values that `subscript` indexes
INDEXED = (Barrier, Ring)


def alloc_barrier(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.alloc_barrier(arrivals=1, stages=None)`."""
    arrivals = _count(ctx, arguments, "arrivals", "the number of arrivals that complete a phase")
    has_stages = optional(ctx, arguments, "stages") is not None
    stages = _count(ctx, arguments, "stages", "the number of barriers")
    buffer = _allocated(ctx, node, ctx.hint or "barrier", stages, arrivals)
    return Barrier(buffer, None if has_stages else build.const(0, int32))


def alloc_ring(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.alloc_ring(stages, producers=1, consumers=1, multicast=None)`."""
    stages = _count(ctx, arguments, "stages", "the number of stages")
    producers = _count(ctx, arguments, "producers", "the number of producers")
    consumers = _count(ctx, arguments, "consumers", "the number of consumers")
    axis = cluster_axis(ctx, arguments, "multicast")
    ctas = ctas_along(ctx.cluster, axis)
    name = ctx.hint or "ring"
    return Ring(
        _allocated(ctx, node, f"{name}.full", stages, producers, "commit", axis),
        _allocated(ctx, node, f"{name}.empty", stages, consumers, "release", axis, ctas),
    )


def _count(ctx: Context, arguments: Arguments, name: str, what: str) -> int:
    value = optional(ctx, arguments, name)
    count = 1 if value is None else ctx.integer(value, arguments[name], what)
    if count < 1:
        raise ctx.type_error(arguments[name], f"{what} must be at least 1; got {count}", f"write {name}=1 or more")
    return count


def _allocated(
    ctx: Context, node: ast.Call, name: str, stages: int, arrivals: int, call: str = "", axis: int | None = None,
    ctas: int = 1,
) -> Buffer:
    """Allocate `stages` barriers.

    call, axis: `Alloc.call` and `Alloc.along`. ctas: number of CTAs that each arrive `arrivals` times.
    """
    span = ctx.span(node)
    if not ctx.target.has_barriers:
        raise ResourceError(
            f"{ctx.target.name} has no barriers in shared memory that count bytes of copies", span=span,
            hint="compile for sm_90 or newer, or use tj.cta_sync()",
        )
    if arrivals * ctas > MOST_IN_A_PHASE:
        raise ResourceError(
            f"{arrivals * ctas:,} arrivals in a phase of {name}; a barrier counts up to {MOST_IN_A_PHASE:,}", span=span,
            hint="pass a smaller number: an arrival of a warp or of the CTA, as in tj.warp.arrive(b), counts once",
        )
    layout = TileLayout.row_major((stages,))
    buffer = Buffer(ctx.unique(name), "shared", barrier, (stages,), layout, barrier.bytes, None, span)
    ctx.allocate(Alloc(buffer, arrivals=arrivals, call=call, along=axis, span=span))
    return buffer


def named_barrier(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.named_barrier(id, threads)`."""
    number = _number(ctx, arguments["id"], "the number of a barrier")
    count = ctx.integer(ctx.evaluate(arguments["threads"]), arguments["threads"], "the number of threads")
    if count < 1 or count % WARP or count > ctx.threads:
        raise ctx.type_error(
            arguments["threads"],
            f"{counted(count, 'thread')} can't synchronize at a named barrier of a CTA of {ctx.threads} threads",
            f"pass a multiple of {WARP} from {WARP} to {ctx.threads}" if ctx.threads >= WARP else "use tj.cta_sync()",
        )
    low, high = facts.bounds(number)
    first, last = USERS[0], USERS[-1]
    if (low is not None and low > last) or (high is not None and high < first):
        bound = f"{high} or less" if high is not None and high < first else f"{low} or more"
        which = str(number.value) if isinstance(number, Const) else bound
        raise ResourceError(
            f"named barrier {which} is out of range; named barriers are {first} to {last}: tj.cta_sync() uses 0, and "
            f"tj.warpgroup_sync() uses {OF_WARPGROUPS} and above", span=ctx.span(arguments["id"]),
            hint="use a barrier in shared memory, tj.alloc_barrier()",
        )
    if low is None or high is None or low < first or high > last:
        is_one = build.logical_and(
            build.greater_equal(number, build.const(first, int32)), build.less_equal(number, build.const(last, int32))
        )
        message = f"named barrier {{0}} is out of range; named barriers are {first} to {last}"
        ctx.emit(Assert(is_one, message, "bounds", (build.cast(number, int64),), ctx.span(arguments["id"])))
    return NamedBarrier(number, count)


def subscript(ctx: Context, node: ast.Subscript, base: Barrier | Ring) -> Value:
    """Return `b[i]`, one of several barriers, or `ring[i]`, a step of a ring."""
    if isinstance(node.slice, (ast.Slice, ast.Tuple)):
        raise ctx.type_error(node, f"{describe(base)} takes one index", f"write {ast.unparse(node.value)}[i]")
    value = ctx.evaluate(node.slice)
    index = ctx.scalar(value, node.slice, int32, "an index")
    if not index.dtype.is_integer:
        raise ctx.type_error(node.slice, f"an index must be an integer; this is {describe(value)}", "write int(x)")
    if isinstance(base, Ring):
        return _step(ctx, node, base, index)
    if base.index is not None:
        raise ctx.type_error(
            node, f"{ast.unparse(node.value)} is one barrier", "use it without an index, or allocate several: stages=4"
        )
    count = base.count
    if isinstance(index, Const) and not 0 <= index.value < count:
        raise ctx.type_error(
            node, f"index {index.value} is outside {base.buffer.name}, an array of {counted(count, 'barrier')}",
            f"write an index from 0 to {count - 1}",
        )
    return Barrier(base.buffer, as_index(ctx, node, index, base.buffer))


def _step(ctx: Context, node: ast.Subscript, ring: Ring, number: Expr) -> RingStep:
    if isinstance(number, Const) and number.value < 0:
        raise ctx.type_error(node, f"a ring has no step {number.value}; steps are numbered from 0", "count from 0")
    span, stages = ctx.span(node), ring.stages
    # steps aren't negative, and unsigned division is cheaper
    unsigned = DTYPES[f"uint{max(number.dtype.bits, 32)}"]
    whole = build.cast(build.cast(number, int32) if number.dtype.bits < 32 else number, unsigned)
    stage = ctx.let(f"{ring.name}.stage", build.cast(build.mod(whole, build.const(stages, unsigned)), int32), span)
    phase = ctx.let(f"{ring.name}.use", build.cast(build.floordiv(whole, build.const(stages, unsigned)), int32), span)
    names = {part.id for part in ast.walk(node.slice) if isinstance(part, ast.Name)}
    env = ctx.frame.env
    counters = tuple([(name, env[name].value) for name in sorted(names) if name in env])
    return RingStep(ring, stage, phase, ctx.frame, counters, node.slice)


def ring_number_hint(value: Value) -> str | None:
    """Return the hint for a ring or a step that is used as a number; None for other values."""
    if isinstance(value, Ring):
        return f"take the stage of a step: {value.name}[i].stage"
    if isinstance(value, RingStep):
        return f"take its stage: {value.ring.name}[{ast.unparse(value.number)}].stage"
    return None


def ring_loop_hint(value: Value) -> str | None:
    """Return the hint for a loop over a ring, which has no length; None for other values."""
    if not isinstance(value, Ring):
        return None
    return f"count its steps: for i in range(n), with t = {value.name}[i]"


def _current(ctx: Context, node: ast.AST, step: RingStep) -> RingStep:
    """Return `step`; raise KernelTypeError if a name in its number has been rebound since the step was created."""
    for name, value in step.counters:
        binding = step.frame.env.get(name)
        if binding is None or binding.value != value:
            raise ctx.type_error(
                node, f"{name} has been reassigned since this step of {step.ring.name} was taken",
                f"a step keeps its number: write {step.ring.name}[{ast.unparse(step.number)}] again where you need it",
            )
    return step


def attribute(ctx: Context, node: ast.Attribute, base: Barrier | NamedBarrier | Ring | RingStep) -> Value:
    """Return an attribute of a barrier or a step of a ring.

    raises: KernelTypeError for a missing attribute, or for `stage`, `full` or `empty` of an outdated step.
    """
    names = members(type(base).__name__)
    if node.attr not in names:
        raise ctx.type_error(node, f"{describe(base)} has no attribute {node.attr}", _instead(node, base, names))
    if not isinstance(base, RingStep) or node.attr in METHODS:
        return Method(base, node.attr)
    step = _current(ctx, node, base)
    if node.attr == "stage":
        return Scalar(step.stage)
    return step.full if node.attr == "full" else step.empty


#: the calls that producers and consumers make, with a placeholder for the step
_ROLES = (
    "a producer calls {step}.acquire(), fills the stage and calls tj.warp.commit({step}); "
    "a consumer calls {step}.wait(), reads it and calls tj.warp.release({step})"
)


def _instead(node: ast.Attribute, base: Barrier | NamedBarrier | Ring | RingStep, names: Sequence[str]) -> str:
    written = ast.unparse(node.value)
    if isinstance(base, Barrier) and node.attr in ("arrive", "commit"):
        return f"call it on the scope that arrives: tj.cta.arrive({written}{'[i]' * (base.index is None)})"
    if isinstance(base, Barrier) and node.attr in ("acquire", "release"):
        return f"a step of a ring has it: {_ROLES.format(step='ring[i]')}"
    if isinstance(base, (Ring, RingStep)):
        step = written if isinstance(base, RingStep) else f"{written}[i]"
        if node.attr in ("commit", "release"):
            return f"call it on the scope that arrives: tj.warp.{node.attr}({step})"
        if node.attr in ("arrive", "producer", "consumer"):
            return _ROLES.format(step=step)
        if node.attr in members("RingStep"):
            return f"a step has it: {step}.{node.attr}{'()' * (node.attr in METHODS)}"
    return f"it has {', '.join(names)}" if names else "index it first: a step, ring[i], has attributes"


def operand(ctx: Context, node: ast.expr, what: str, value: Value) -> Region:
    """Return a single barrier, or the `full` barrier of a step of a ring, as an operand of a tile operation.

    raises: KernelTypeError for any other value, for several barriers, or for an outdated step.
    """
    if isinstance(value, RingStep):
        value = _current(ctx, node, value).full
    if not isinstance(value, Barrier):
        raise ctx.type_error(
            node, f"{what} must be a barrier or a step of a ring; this is {describe(value)}",
            "pass the result of tj.alloc_barrier(), or a step ring[i]",
        )
    place = _place(ctx, node, value)
    return Region(place.buffer, place.indices, (None,), span=ctx.span(node))


def _one(ctx: Context, node: ast.AST, value: Barrier) -> Barrier:
    if value.index is None:
        name = value.buffer.name
        raise ctx.type_error(node, f"{name} is an array of {counted(value.count, 'barrier')}", f"index it: {name}[i]")
    return value


def _place(ctx: Context, node: ast.AST, value: Barrier) -> Element:
    one = _one(ctx, node, value)
    assert one.index is not None
    return Element(one.buffer, (one.index,), ctx.span(node))


def _number(ctx: Context, argument: ast.expr, what: str) -> Expr:
    value = ctx.evaluate(argument)
    number = ctx.scalar(value, argument, int32, what)
    if not number.dtype.is_integer:
        raise ctx.type_error(argument, f"{what} must be an integer; this is {describe(value)}", "convert it: int(x)")
    return build.cast(number, int32)


def _wait(ctx: Context, node: ast.Call, receiver: Value) -> Value:
    if isinstance(receiver, RingStep):
        bind(ctx, node, ".wait", (), 0)
        step = _current(ctx, node, receiver)
        awaited, phase = step.full, step.phase
    else:
        assert isinstance(receiver, Barrier)
        phase = _number(ctx, bind(ctx, node, ".wait", ("n",), 1)["n"], "the number of a phase")
        awaited = receiver
    ctx.emit(WaitPhase(_place(ctx, node, awaited), phase, None, ctx.span(node)))
    return Constant(None)


def _acquire(ctx: Context, node: ast.Call, receiver: Value) -> Value:
    assert isinstance(receiver, RingStep)
    bind(ctx, node, ".acquire", (), 0)
    step = _current(ctx, node, receiver)
    before = build.sub(step.phase, build.const(1, int32))
    ctx.emit(WaitPhase(_place(ctx, node, step.empty), before, None, ctx.span(node)))
    return Constant(None)


def _test(ctx: Context, node: ast.Call, receiver: Value) -> Value:
    assert isinstance(receiver, Barrier)
    phase = _number(ctx, bind(ctx, node, ".test", ("n",), 1)["n"], "the number of a phase")
    answer = Var(ctx.unique(ctx.hint or "is_complete"), bool_, span=ctx.span(node))
    ctx.emit(WaitPhase(_place(ctx, node, receiver), phase, answer, ctx.span(node)))
    return Scalar(answer)


def _expect(ctx: Context, node: ast.Call, receiver: Value) -> Value:
    assert isinstance(receiver, Barrier)
    argument = bind(ctx, node, ".expect", ("bytes",), 1)["bytes"]
    count = _number(ctx, argument, "a number of bytes")
    low, high = facts.bounds(count)
    name = receiver.buffer.name
    if low is not None and low > MOST_IN_A_PHASE:
        raise ResourceError(
            f"{low:,} bytes in a phase of {name}; a barrier counts up to {MOST_IN_A_PHASE:,}",
            span=ctx.span(argument), hint="copy fewer bytes per phase",
        )
    if high is not None and high < 0:
        raise ResourceError(
            f"{high:,} bytes in a phase of {name}; the number of bytes can't be negative",
            span=ctx.span(argument), hint="pass the number of bytes that the copies write",
        )
    ctx.emit(Expect(_place(ctx, node, receiver), count, span=ctx.span(node)))
    return Constant(None)


def _by_number(row: Row, ctx: Context, node: ast.Call, receiver: Value) -> Value:
    assert isinstance(receiver, NamedBarrier)
    bind(ctx, node, f".{row.called.rpartition('.')[2]}", (), 0)
    ctx.emit(Instruction(row.name, (), (receiver.number, build.const(receiver.threads, int32)), ctx.span(node)))
    return Constant(None)


METHODS: dict[str, Callable[[Context, ast.Call, Value], Value]] = {
    "acquire": _acquire, "arrive": partial(_by_number, BAR_ARRIVE_NUMBERED), "expect": _expect,
    "sync": partial(_by_number, BAR_SYNC_NUMBERED), "test": _test, "wait": _wait,
}


def arrive(ctx: Context, node: ast.Call, operation: ScopedOperation, arguments: Arguments) -> Value:
    """Translate `arrive`, or at a step of a ring, `commit` of a producer or `release` of a consumer."""
    (argument,) = arguments.values()
    value = ctx.evaluate(argument)
    if operation.name == "arrive":
        place = _place(ctx, node, _single(ctx, operation, argument, value))
    else:
        step = _stepped(ctx, operation, argument, value)
        place = _place(ctx, node, step.full if operation.name == "commit" else step.empty)
    ctx.emit(Arrive(place, operation.scope, None, ctx.span(node), operation.name))
    return Constant(None)


def _single(ctx: Context, operation: ScopedOperation, argument: ast.expr, value: Value) -> Barrier:
    if isinstance(value, RingStep):
        scope, step = operation.scope, ast.unparse(argument)
        hint = f"producers write tj.{scope}.commit({step}), consumers tj.{scope}.release({step})"
        raise ctx.type_error(argument, "a step has two barriers to arrive at", hint)
    if not isinstance(value, Barrier):
        hint = "pass the result of tj.alloc_barrier(); steps of a ring take commit and release"
        raise ctx.type_error(argument, f"arrive takes a barrier; this is {describe(value)}", hint)
    return _one(ctx, argument, value)


def _stepped(ctx: Context, operation: ScopedOperation, argument: ast.expr, value: Value) -> RingStep:
    if isinstance(value, RingStep):
        return _current(ctx, argument, value)
    if isinstance(value, Barrier) and operation.name == "commit":
        having = " or ".join(TENSOR_MEMORY_TARGETS)
        raise ctx.type_error(
            argument, f"commit takes a step of a ring; matrix products on {having} that report to a barrier are "
            "not available in this version", f"arrive at a barrier with tj.{operation.scope}.arrive(b)",
        )
    raise ctx.type_error(
        argument, f"{operation.name} takes a step of a ring; this is {describe(value)}", "pass a step, such as ring[i]"
    )


def cluster_axis(ctx: Context, arguments: Arguments, name: str) -> int | None:
    """Return the axis of the cluster that an argument names; None if the argument is missing or None."""
    value = optional(ctx, arguments, name)
    axis = None if value is None else ctx.integer(value, arguments[name], "the axis")
    if axis not in (None, 0, 1, 2):
        hint = "write 0, 1 or 2: a cluster has three axes"
        raise ctx.type_error(arguments[name], f"a cluster has no axis {axis}", hint)
    return axis


def multicast(ctx: Context, argument: ast.expr, axis: int, operands: Mapping[str, Region | Expr]) -> int | None:
    """Return `axis`, or None if the cluster has only one CTA along it.

    raises: KernelTypeError unless the operand `barrier` is a `full` barrier of a ring with the same axis.
    """
    place = operands.get("barrier")
    if not isinstance(place, Region):
        raise ctx.type_error(
            argument, "multicast= needs barrier=: each CTA waits at its own barrier for the parts that other CTAs copy",
            f"write barrier=ring[i], with ring = tj.alloc_ring(..., multicast={axis})",
        )
    name = place.buffer.name
    ring = next(a for a in ctx.allocations if isinstance(a, Alloc) and a.buffer is place.buffer)
    if ring.call == "release":
        raise ctx.type_error(
            argument, f"a copy reports to a step, not to {name}, at which producers wait for free stages",
            f"write barrier={name.partition('.empty')[0]}[i]",
        )
    if ring.along != axis:
        what = f"multicast={ring.along}" if ring.along is not None else "no multicast="
        ring_name = name.partition(".full")[0] if ring.call else name
        raise ctx.type_error(
            argument, f"multicast={axis}, but {ring_name} has {what}: a stage must be free in all CTAs of the copy",
            f"write {ring_name} = tj.alloc_ring(..., multicast={axis}), or leave multicast= out of the copy",
        )
    return axis if ctas_along(ctx.cluster, axis) > 1 else None


def check_steps(kernel: Kernel) -> None:
    """Raise KernelTypeError if a step that more than two CTAs release is committed without an earlier multicast copy.

    The copy must be in the commit's block of statements. It synchronizes the CTAs, because it completes only after each
    of them has acquired the step. Otherwise, a CTA's second release of a stage may overtake another CTA's first one.
    """
    if kernel.cluster is None:
        return
    rings = {
        alloc.buffer.name: ctas_along(kernel.cluster, alloc.along) for alloc in walk.each(kernel.body, Alloc)
        if alloc.call == "commit" and ctas_along(kernel.cluster, alloc.along) > 2
    }
    if rings:
        _check_block(kernel.body, rings)


def _check_block(body: walk.Block, rings: Mapping[str, int]) -> None:
    """Implement `check_steps` for a block and its nested blocks. rings: name of `full` -> number of releasing CTAs."""
    copied: set[str] = set()
    for stmt in body:
        for block in walk.blocks(stmt):
            _check_block(block, rings)
        if isinstance(stmt, TileOp) and stmt.attr(MULTICAST.name) is not None:
            copied.add(stmt.region("barrier").buffer.name)
        elif isinstance(stmt, Arrive) and stmt.place.buffer.name in copied:
            copied.remove(stmt.place.buffer.name)
        elif isinstance(stmt, Arrive) and stmt.place.buffer.name in rings:
            name = stmt.place.buffer.name
            raise KernelTypeError(
                f"a step of {name.partition('.full')[0]} is committed without a multicast= copy before it in this "
                f"block; {rings[name]} CTAs release it, and only such a copy keeps more than two CTAs in sync",
                span=stmt.span,
                hint="copy with multicast= before it, in the same block, or allocate the ring without multicast=",
            )
