"""Loop-invariant code motion of variables, views, and parts of expressions.

    for k in …                                    let row.1 = row * stride
      store x[row * stride + k * 64] <- 0         for k in …
                                                    store x[row.1 + k * 64] <- 0

Integer arithmetic and special registers are moved, but no comparisons, and no divisions or shifts by variables (see
`loop_depths`). Allocations are moved so that their views can be. A sum whose terms differ in loop depth is expanded at
its uses, so that its outer terms and those of the use are added before the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any

from ...dataclass import dataclass, field, replace
from ...dtypes import DType
from ...forks import cached_property
from ...ir import walk
from ...ir.analyses.loop_depths import STAYS, LoopDepths, Sum, added
from ...ir.arithmetic.facts import flagged, full_range, multiple_of
from ...ir.arithmetic.intern import integer, with_args
from ...ir.arithmetic.iterations import ends
from ...ir.names import FreshNames
from ...ir.nodes import (
    Alloc,
    Buffer,
    BufferView,
    Cast,
    Const,
    Declare,
    Expr,
    For,
    If,
    Instruction,
    Kernel,
    Let,
    Load,
    Loop,
    Move,
    Op,
    Special,
    Stmt,
    Store,
    Var,
    Vector,
)
from ...ir.rewriting import Rewriting
from ...ir.walk import Block
from ...scopes import THREAD_IDS
from ...source import Span


def hoist(kernel: Kernel) -> Kernel:
    """Move loop-invariant code of a kernel at lane level out of its loops."""
    if walk.inventory(kernel.body).kinds.isdisjoint((For, Loop)):
        return kernel
    return replace(kernel, body=_Hoisting(kernel).block(kernel.body))


_COMPARISONS = frozenset({"less", "less_equal", "greater", "greater_equal"})


@dataclass(slots=True, eq=False)
class _OpenBlock:
    """A block that is being emitted.

    values: id of a value -> (value, variable hoisted into the block). views: (name of the base, id of the offset) ->
    (offset, view hoisted into the block).
    """

    made: list[Stmt] = field(default_factory=list)
    values: dict[int, tuple[Expr, Var]] = field(default_factory=dict)
    views: dict[tuple[str, int], tuple[Expr, Buffer]] = field(default_factory=dict)


class _Hoisting(Rewriting):
    """Hoists in one walk over the kernel. `_preheaders` holds, for each enclosing loop, the block that contains it.

    `_rewritten` caches rewritten expressions for the body of each enclosing loop.
    """

    def __init__(self, kernel: Kernel) -> None:
        super().__init__({})
        self._kernel = kernel
        self._depths = LoopDepths()
        self._depths.variables.update({stmt.var.name: STAYS for stmt in walk.each(kernel.body, Declare)})
        self._view_depths: dict[str, int] = {}
        self._open_block = _OpenBlock()
        self._preheaders: list[_OpenBlock] = []
        self._rewritten: list[dict[int, tuple[Expr, Expr]]] = []
        self._place: Span | None = None

    @cached_property
    def _names(self) -> FreshNames:
        return FreshNames.of(self._kernel)

    def block(self, body: Block) -> Block:
        outside, self._open_block = self._open_block, _OpenBlock()
        made = self._open_block.made
        for stmt in body:
            self._place = stmt.span
            if self._preheaders or type(stmt) in walk.COMPOUND_KINDS:
                made += _WRITE.get(type(stmt), _Hoisting._other)(self, stmt)
            else:
                made.append(stmt)
        self._open_block = outside
        return tuple(made)

    def _branch(self, stmt: If) -> tuple[Stmt, ...]:
        return (If(self.expr(stmt.cond), self.block(stmt.then), self.block(stmt.orelse), stmt.span),)

    def _endless(self, stmt: Loop) -> tuple[Stmt, ...]:
        return (Loop(self._loop_body(stmt.body), stmt.span),)

    def _counted(self, stmt: For) -> tuple[Stmt, ...]:
        self._depths.variables[stmt.var.name] = len(self._preheaders) + 1
        start, stop, step = self.expr(stmt.start), self.expr(stmt.stop), self.expr(stmt.step)
        return (replace(stmt, start=start, stop=stop, step=step, body=self._loop_body(stmt.body)),)

    def _loop_body(self, body: Block) -> Block:
        self._preheaders.append(self._open_block)
        self._rewritten.append({})
        made = self.block(body)
        self._preheaders.pop()
        self._rewritten.pop()
        return made

    def _other(self, stmt: Stmt) -> tuple[Stmt, ...]:
        defined = walk.defines(stmt)
        if isinstance(defined, Var) and not isinstance(stmt, Declare):
            self._depths.variables[defined.name] = len(self._preheaders)
        return (self.stmt(stmt),)

    def _let(self, stmt: Let) -> tuple[Stmt, ...]:
        var, value, level = stmt.var, stmt.value, len(self._preheaders)
        if isinstance(value, Load):
            self._depths.variables[var.name] = level
            return (self.stmt(stmt),)
        depth = self._depths.of(value)
        self._depths.variables[var.name] = min(depth, level)
        if depth < level:
            preheader = self._preheaders[depth]
            made = self.expr(value, depth)
            preheader.made.append(stmt if made is value else replace(stmt, value=made))
            if not _knows_more(var, value):
                preheader.values.setdefault(id(value), (value, var))
            return ()
        if depth == level and self._depths.record_sum(var, value):
            return ()
        return (self.stmt(stmt),)

    def _alloc(self, stmt: Alloc) -> tuple[Stmt, ...]:
        """Move an allocation before the outermost loop around it, since views of the buffer may move there."""
        self._preheaders[0].made.append(stmt)
        return ()

    def _defined_view(self, stmt: BufferView) -> tuple[Stmt, ...]:
        view, level = stmt.buffer, len(self._preheaders)
        assert view.base is not None, "the verifier requires a base"
        base = self._buffers.get(view.base.name, view.base)
        depth = self._view_depths.get(base.name, 0)
        if view.offset is not None:
            depth = max(depth, self._depths.of(view.offset))
        self._view_depths[view.name] = min(depth, level)
        offset = None if view.offset is None else self.expr(view.offset, min(depth, level))
        if base is not view.base or offset is not view.offset:
            self._buffers[view.name] = replace(view, base=base, offset=offset)
        made = self._buffers.get(view.name, view)
        if depth >= level:
            return (stmt if made is view else BufferView(made, stmt.span),)
        preheader = self._preheaders[depth]
        if view.offset is None:
            preheader.made.append(BufferView(made, stmt.span))
            return ()
        key = (base.name, id(view.offset))
        if key not in preheader.views:
            preheader.views[key] = (view.offset, made)
            preheader.made.append(BufferView(made, stmt.span))
        self._buffers[view.name] = preheader.views[key][1]
        return ()

    def _move(self, stmt: Move) -> tuple[Stmt, ...]:
        dst, src = self.place(stmt.dst), self.place(stmt.src)
        predicate = None if stmt.predicate is None else self.expr(stmt.predicate)
        otherwise = None if stmt.otherwise is None else self.expr(stmt.otherwise)
        if dst is stmt.dst and src is stmt.src and predicate is stmt.predicate and otherwise is stmt.otherwise:
            return (stmt,)
        return (Move(dst, src, predicate, otherwise, stmt.order, stmt.cache, stmt.span),)

    def _store(self, stmt: Store) -> tuple[Stmt, ...]:
        place, value = stmt.place, stmt.value
        # fast path: most values are float operations
        is_float = isinstance(value, Op) and value.dtype.is_float
        level = len(self._preheaders)
        value = self._operation(value, level) if isinstance(value, Op) and is_float else self.expr(value)
        if not isinstance(place, Vector) or type(place.offset) is not Const or place.buffer.offset is not None:
            place = self.place(place)
        return (stmt if place is stmt.place and value is stmt.value else Store(place, value, stmt.order, stmt.span),)

    def _instruction(self, stmt: Instruction) -> tuple[Stmt, ...]:
        if stmt.var is not None:
            self._depths.variables[stmt.var.name] = len(self._preheaders)
        for operand in (*stmt.outputs, *stmt.inputs):
            # fast path: most operands are registers at constant offsets
            if type(operand) is not Vector or type(operand.offset) is not Const or operand.buffer.name in self._buffers:
                break
        else:
            return (stmt,)
        return (self.stmt(stmt),)

    def expr(self, expr: Expr, inside: int | None = None) -> Expr:
        """Return `expr` rewritten for the loop depth `inside`, by default that of the current statement."""
        level = len(self._preheaders) if inside is None else inside
        if type(expr) is Const or not level:
            return expr
        if type(expr) is Var:
            total = self._depths.sums.get(expr.name)
            return expr if total is None else self._total(total, expr.dtype, level)
        if type(expr) is Load:
            return super().expr(expr)
        if type(expr) is Op and not expr.dtype.is_integer and expr.name not in _COMPARISONS:
            return self._operation(expr, level)
        rewritten = self._rewritten[level - 1]
        entry = rewritten.get(id(expr))
        if entry is None:
            depth = self._depths.of(expr)
            made = self._hoisted(expr, depth) if depth < level else self._here(expr, level)
            entry = rewritten[id(expr)] = (expr, made)
        return entry[1]

    def _operation(self, op: Op, level: int) -> Expr:
        """Rewrite the operands of an unhoisted operation, except constants and registers at constant offsets."""
        args: list[Expr] = []
        for arg in op.args:
            place = arg.place if isinstance(arg, Load) else None
            is_register = isinstance(place, Vector) and type(place.offset) is Const and place.buffer.offset is None
            args.append(arg if is_register or type(arg) is Const else self.expr(arg, level))
        return with_args(op, tuple(args))

    def _hoisted(self, expr: Expr, depth: int) -> Expr:
        """Return a variable with the value of the expression, defined before the loops in which it is invariant."""
        preheader = self._preheaders[depth]
        entry = preheader.values.get(id(expr))
        if entry is None:
            name, dtype, divisor = self._names.name(_stem(expr)), expr.dtype, multiple_of(expr) or 1
            known = None if ends(expr) == full_range(dtype) else ends(expr)
            var = Var(name, dtype, divisor, known, data=flagged(expr, known))
            value = self.expr(expr, depth)
            self._depths.variables[var.name] = depth
            preheader.made.append(Let(var, value, self._place))
            entry = preheader.values[id(expr)] = (expr, var)
        return entry[1]

    def _here(self, expr: Expr, level: int) -> Expr:
        """Rewrite an expression that isn't hoisted as a whole; its invariant parts are hoisted."""
        if isinstance(expr, Op):
            if expr.name == "add" and expr.dtype.is_integer:
                return self._sum(expr, level)
            if expr.name in _COMPARISONS:
                left, right = expr.args
                return with_args(expr, (self._compared(left, level), self._compared(right, level)))
            return self._operation(expr, level)
        if isinstance(expr, Cast):
            x = self.expr(expr.x, level)
            return expr if x is expr.x else replace(expr, x=x)
        return expr

    def _compared(self, expr: Expr, level: int) -> Expr:
        """Rewrite an operand of a comparison, but keep its constant term, which can be folded into the comparison."""
        if not isinstance(expr, Op) or expr.name != "add" or not isinstance(expr.args[1], Const):
            return self.expr(expr, level)
        return with_args(expr, (self.expr(expr.args[0], level), expr.args[1]))

    def _sum(self, op: Op, level: int) -> Expr:
        """Rewrite a sum; if it has invariant terms, these come first, and the constant last."""
        total = self._depths.summands(op)
        if min(map(self._depths.of, total.terms)) < level:
            return self._total(total, op.dtype, level)
        left, right = op.args
        return with_args(op, (self.expr(left, level), self.expr(right, level)))

    def _total(self, total: Sum, dtype: DType, level: int) -> Expr:
        outer: list[Expr] = []
        inner: list[Expr] = []
        for term in total.terms:
            (outer if self._depths.of(term) < level else inner).append(term)
        if len(outer) == 2 and len(inner) == 1 and _is_of_cta(outer[0]) is not _is_of_cta(outer[1]):
            # A three-operand add takes both outer terms; the one that is uniform over the CTA is in a uniform register.
            # If they are added before the loop, ptxas copies other values to uniform registers and back:
            # `transpose_staged` of float16 has 203 instructions instead of 184.
            terms = [self.expr(term, level) for term in outer]
        else:
            terms = [self.expr(added(outer), level)] if outer else []
        for term in inner:
            terms.append(self.expr(term, level))
        return added([*terms, integer(total.constant, dtype)] if total.constant else terms)


def _knows_more(var: Var, value: Expr) -> bool:
    """True if a variable's facts are tighter than those of its value, and so may hold only at its definition."""
    (low, high), (least, greatest) = ends(var), ends(value)
    return low > least or high < greatest or gcd(var.multiple_of, multiple_of(value)) != var.multiple_of


def _is_of_cta(expr: Expr) -> bool:
    """True if an expression depends only on constants and special registers that are uniform over the CTA."""
    for part in walk.inputs(expr):
        if not isinstance(part, Special) or part.name in THREAD_IDS:
            return False
    return True


def _stem(expr: Expr) -> str:
    if isinstance(expr, Special):
        return expr.name
    for part in walk.inputs(expr):
        if isinstance(part, Var):
            return part.name
    return "value"


_WRITE: dict[type, Callable[[_Hoisting, Any], tuple[Stmt, ...]]] = {
    Let: _Hoisting._let, Alloc: _Hoisting._alloc, BufferView: _Hoisting._defined_view, If: _Hoisting._branch,
    Loop: _Hoisting._endless, For: _Hoisting._counted, Store: _Hoisting._store, Move: _Hoisting._move,
    Instruction: _Hoisting._instruction,
}
