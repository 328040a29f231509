"""Loops: `while`, run-time `for` over `range`, and unrolled `for` over `tj.static_range` or a tuple."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from math import gcd

from ..dtypes import DType, int32, int64, promote, signed, uint64
from ..ir.arithmetic import build, facts
from ..ir.nodes import Assert, Const, Expr, For, Loop, Var
from . import flow, joins
from .assignments import assign_to
from .barriers import ring_loop_hint
from .context import Context, Frame, Located
from .scalars import as_scalar, truth
from .source import as_function, assigned_names
from .values import Binding, Constant, Items, Memory, Scalar, Table, Unset, Value, describe

_MAX_UNROLLED = 4096
#: the limit for a nest of unrolled loops, which takes several seconds to compile at this size
_MAX_ITERATIONS = 16_384


def while_loop(ctx: Context, node: ast.While) -> bool:
    """Translate a `while` loop; return True if control can reach the statement after it."""
    _no_else(ctx, node)

    def body(loop: flow.Enclosure) -> bool:
        cond = truth(ctx, node.test, ctx.evaluate(node.test))

        def stop() -> bool:
            ctx.leave(loop, ctx.span(node.test))
            return False

        if isinstance(cond, bool):
            goes_on = cond or stop()
        else:
            goes_on = joins.branch(ctx, build.op("logical_not", cond), stop, lambda: True, ctx.span(node.test))
        return goes_on and ctx.execute(node.body)

    names, span = sorted(assigned_names(node)), ctx.span(node)
    return joins.run_loop(ctx, node, names, body, lambda block: Loop(block, span), only_breaks=True)


def _no_else(ctx: Context, node: ast.While | ast.For) -> None:
    if node.orelse:
        raise ctx.syntax_error(
            node.orelse[0], "the else of a loop can't be used in a kernel",
            "set a flag before break, and test it after the loop",
        )


def for_loop(ctx: Context, node: ast.For) -> bool:
    """Translate a loop over `range(...)`, `tj.static_range(...)` or a tuple.

    returns: True if control can reach the statement after the loop.
    """
    _no_else(ctx, node)
    called = node.iter.func if isinstance(node.iter, ast.Call) else None
    if isinstance(called, (ast.Name, ast.Attribute)) and ctx.evaluate(called) == Constant(range):
        assert isinstance(node.iter, ast.Call)
        return _range_loop(ctx, node, _range(ctx, node.iter))
    items = _items(ctx, node.iter, "a for loop iterates over range(...), tj.static_range(...) or a tuple")
    _check_count(ctx, node.iter, "a loop over a tuple", len(items))
    return _static_loop(ctx, node, items)


def _items(ctx: Context, node: ast.expr, message: str, hint: str = "") -> Sequence[Value]:
    value = ctx.evaluate(node)
    if isinstance(value, Table):
        return value.keys
    if not isinstance(value, Items):
        raise ctx.syntax_error(node, message, hint or how_to_loop(ctx, node, value))
    return value.items


def comprehension(ctx: Context, node: ast.ListComp | ast.GeneratorExp) -> Items:
    """Return the items of a comprehension as a tuple. Its names are those of a nested function."""
    outer, items, before = ctx.frame, list[Value](), ctx.unrolled

    def generate(generators: Sequence[ast.comprehension], listed: Sequence[Value]) -> None:
        first, *others = generators
        for item in listed:
            _count_unrolled(ctx, first.iter)
            assign_to(ctx, first.target, item)
            if not all(_holds(ctx, test) for test in first.ifs):
                continue
            if others:
                generate(others, _generated(ctx, others[0]))
                continue
            items.append(ctx.evaluate(node.elt))
            _check_count(ctx, node, "a comprehension", len(items))

    listed = _generated(ctx, node.generators[0])
    ctx.frame = Frame(outer.source, as_function(node), outer.caller, outer, back=outer.back)
    try:
        generate(node.generators, listed)
    finally:
        ctx.frame = outer
        ctx.unrolled = None if before is None else ctx.unrolled
    return Items(tuple(items))


def _generated(ctx: Context, generator: ast.comprehension) -> Sequence[Value]:
    if generator.is_async:
        raise ctx.syntax_error(generator.iter, "async can't be used in a kernel", "leave it out")
    return _items(
        ctx, generator.iter, "a comprehension iterates over tj.static_range(...) or a tuple",
        "its length must be known at compile time: write for i in tj.static_range(N), and index",
    )


def _holds(ctx: Context, test: ast.expr) -> bool:
    holds = truth(ctx, test, ctx.evaluate(test))
    if not isinstance(holds, bool):
        raise ctx.type_error(
            test, "the condition of a comprehension must be known at compile time",
            "choose each item's value instead: a if condition else b, or tj.where(condition, a, b)",
        )
    return holds


def how_to_loop(ctx: Context, node: ast.expr, value: Value) -> str:
    """Return the hint for a value that a loop, `enumerate`, `reversed` or `zip` can't iterate over."""
    written = ast.unparse(node)
    if isinstance(value, Memory) and value.dims:
        if not value.is_local:
            return f"loop over range(len({written})) and index: {written}[i]"
        return "compute with the whole tile, or copy it to shared memory and index that"
    is_integer = isinstance(value, (Scalar, Memory)) and value.dtype.is_integer
    if is_integer or isinstance(value, Constant) and type(value.value) is int:
        return f"loop over range({written})"
    bindings = [ctx.frame.env.get(part.id) for part in ast.walk(node) if isinstance(part, ast.Name)]
    hints = [ring_loop_hint(binding.value) for binding in bindings if binding is not None]
    return next(filter(None, hints), "make it a tuple")


def _range_arguments(ctx: Context, node: ast.Call, what: str) -> list[Value]:
    if node.keywords or not 1 <= len(node.args) <= 3 or any(isinstance(a, ast.Starred) for a in node.args):
        message = f"{what} takes (stop), (start, stop) or (start, stop, step)"
        raise ctx.type_error(node, message, "pass one to three positional arguments, without *")
    values = [as_scalar(ctx, argument, ctx.evaluate(argument)) for argument in node.args]
    if len(values) == 1:
        values.insert(0, Constant(0))
    return values if len(values) == 3 else [*values, Constant(1)]


def _range(ctx: Context, node: ast.Call) -> tuple[Expr, Expr, Expr]:
    values = _range_arguments(ctx, node, "range")
    for value in values:
        integral = isinstance(value, Constant) and isinstance(value.value, int) and not isinstance(value.value, bool)
        if not integral and not (isinstance(value, Scalar) and value.dtype.is_integer):
            raise ctx.type_error(node, f"range takes integers; this is {describe(value)}", "convert it: int(x)")
    values[1] = _signed_stop(ctx, node, values)
    typed = [v.dtype for v in values if isinstance(v, Scalar) and not v.weak]
    with Located(ctx, node):
        dtype = promote(*typed) if typed else int32
    for value in values:
        ctx.takes_type(value, dtype)
    start, stop, step = (_limit(ctx, node, value, dtype, down=k == 2) for k, value in enumerate(values))
    low, high = facts.bounds(step)
    if (low is None or low <= 0) and (high is None or high >= 0):
        _need_step(ctx, node, step)
    return start, stop, step


def _signed_stop(ctx: Context, node: ast.Call, values: Sequence[Value]) -> Value:
    """Return the stop of a range; a uint64 becomes an int64 if the start or the step is signed and neither is uint64.

    Literals don't count as signed. Checked builds assert that the stop fits; unchecked builds clamp it.
    """
    start, stop, step = values
    others = [v.dtype for v in (start, step) if isinstance(v, Scalar) and not v.weak]
    if not isinstance(stop, Scalar) or stop.weak or stop.dtype != uint64:
        return stop
    if uint64 in others or "int" not in [dtype.kind for dtype in others]:
        return stop
    most = build.const(2**63 - 1, uint64)
    message = f"a range from a signed number ends past int64: {ctx.frame.source.segment(node)}"
    ctx.emit(Assert(build.op("less_equal", stop.expr, most), message, span=ctx.span(node)))
    return Scalar(build.cast(build.minimum(stop.expr, most), int64))


def _limit(ctx: Context, node: ast.AST, value: Value, dtype: DType, *, down: bool) -> Expr:
    """Return an argument of range as `dtype`; if `down`, a negative constant gets the signed type of the same width."""
    if isinstance(value, Constant):
        return ctx.literal(value.value, signed(dtype) if down and value.value < 0 else dtype, node)
    assert isinstance(value, Scalar)
    return build.cast(value.expr, dtype)


def _need_step(ctx: Context, node: ast.Call, step: Expr) -> None:
    if isinstance(step, Const):
        raise ctx.type_error(node, "range has a step of 0", "give a step other than 0")
    message = f"range has a step of 0: {ctx.frame.source.segment(node)}"
    ctx.emit(Assert(build.op("not_equal", step, build.const(0, step.dtype)), message, span=ctx.span(node)))


def _range_loop(ctx: Context, node: ast.For, limits: tuple[Expr, Expr, Expr]) -> bool:
    if not isinstance(node.target, ast.Name):
        raise ctx.syntax_error(node.target, "the variable of a range loop must be a name", "write for i in range(...)")
    span, name = ctx.span(node), node.target.id
    ends = zip(("start", "stop", "step"), limits, strict=True)
    start, stop, step = (ctx.let(f"{name}.{what}", e, span) for what, e in ends)
    constants = [int(e.value) for e in limits if isinstance(e, Const)]
    if len(constants) == len(limits) and not range(*constants):
        return True
    loop_vars: list[Var] = []

    def body(_: flow.Enclosure) -> bool:
        loop_vars.append(_loop_var(ctx, node.target, name, start, stop, step))
        ctx.frame.env[name] = Binding(Scalar(loop_vars[-1]), ctx.span(node.target))
        return ctx.execute(node.body)

    before = ctx.frame.env.get(name)
    names = sorted(assigned_names(node) - {name})
    reached = joins.run_loop(
        ctx, node, names, body, lambda block: For(loop_vars[-1], start, stop, step, block, False, span)
    )
    problem = f"has no value after its loop (line {span.line})"
    unset = Unset(name, problem, "copy it to another name inside the loop")
    ctx.frame.env[name] = Binding(unset, before.span if before else span)
    return reached


def _loop_var(ctx: Context, node: ast.AST, name: str, start: Expr, stop: Expr, step: Expr) -> Var:
    multiple = gcd(facts.multiple_of(start), facts.multiple_of(step))
    bounds = _index_bounds(facts.bounds(start), facts.bounds(stop), facts.bounds(step))
    data = any(facts.flagged(end, bounds) for end in (start, stop, step))
    return Var(ctx.unique(name), start.dtype, multiple, bounds, ctx.span(node), data=data)


def _index_bounds(start: facts.Bounds, stop: facts.Bounds, step: facts.Bounds) -> tuple[int, int] | None:
    """Return bounds of the index of a range, not necessarily tight; None if either bound is unknown."""
    is_up = step[0] is not None and step[0] >= 0
    is_down = not is_up and step[1] is not None and step[1] <= 0
    # the least and the greatest index if the range goes up, then the same if it goes down
    ends = [*([] if is_down else [(start[0], 0), (stop[1], -1)]), *([] if is_up else [(stop[0], 1), (start[1], 0)])]
    known = [end + by for end, by in ends if end is not None]
    if len(known) < len(ends):
        return None
    low, high = min(known[::2]), max(known[1::2])
    # an empty range has no index, so any bounds are correct
    return min(low, high), max(low, high)


def static_range(ctx: Context, node: ast.Call) -> Items:
    """Return the integers of `tj.static_range(...)` as a tuple."""
    values = _range_arguments(ctx, node, "tj.static_range")
    hint = "loop over range(...), or give a literal, a captured constant or a tj.constexpr parameter"
    limits = [ctx.integer(v, node, "an argument of tj.static_range", hint) for v in values]
    if limits[2] == 0:
        raise ctx.type_error(node, "tj.static_range has a step of 0", "give a step other than 0")
    _check_count(ctx, node, "tj.static_range", -((limits[0] - limits[1]) // limits[2]))
    return Items(tuple([Constant(i) for i in range(*limits)]))


def _check_count(ctx: Context, node: ast.AST, what: str, count: int) -> None:
    if count > _MAX_UNROLLED:
        message = f"{what} unrolls {count} iterations; the limit is {_MAX_UNROLLED}"
        raise ctx.type_error(node, message, "loop over range(...)")


def _count_unrolled(ctx: Context, node: ast.AST) -> None:
    ctx.unrolled = (ctx.unrolled or 0) + 1
    if ctx.unrolled > _MAX_ITERATIONS:
        raise ctx.type_error(
            node, f"nested unrolled loops have more than {_MAX_ITERATIONS:,} iterations",
            "make one of them a loop over range(...)",
        )


def _static_loop(ctx: Context, node: ast.For, items: Sequence[Value]) -> bool:
    names = sorted(assigned_names(node))

    def unrolled() -> bool:
        for k, item in enumerate(items):
            _count_unrolled(ctx, node.iter)
            assign_to(ctx, node.target, item)
            if not joins.run_block(ctx, node, flow.Construct.ITERATION, k, names, lambda: ctx.execute(node.body)):
                return False
        return True

    before = ctx.unrolled
    ctx.unrolled = before or 0
    ends = joins.run_block(ctx, node, flow.Construct.STATIC, node, names, unrolled)
    ctx.unrolled = None if before is None else ctx.unrolled
    return ends
