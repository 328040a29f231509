"""Invariants of definitions and uses of variables, buffers, expressions and places, at each level."""

from __future__ import annotations

from collections.abc import Iterable

from ...dataclass import dataclass
from ...dtypes import DType
from ...errors import assert_never
from ...scopes import SCOPES
from ...source import Span
from .. import nodes as ir
from . import memory
from .operations import const_fault, dtype_of, op_fault


@dataclass(frozen=True, slots=True)
class Violation:
    """One violated invariant. span: the location in the user's source, or None if the node has none."""

    message: str
    span: Span | None = None

    def __str__(self) -> str:
        return self.message if self.span is None else f"{self.message}\n{self.span.render()}"


#: the index of the parameters' scope, also that of expressions without variables
OUTERMOST = 0


class Values:
    """Verifies definitions and uses, and records the names that a kernel has defined and used so far.

    There is a scope for the parameters and for each block around the current point, outermost first. An expression
    without violations stays valid until the innermost scope of its variables ends, and isn't verified again until then.
    """

    def __init__(self, level: str) -> None:
        #: the kernel is at open or tile level
        self.is_tile = level != "lane"
        self.takes_open = level == "open"
        #: in the order in which they are found
        self.violations: list[Violation] = []
        #: the visible variables, by name
        self.vars: dict[str, ir.Var] = {}
        #: the index of each visible variable's scope
        self.scope_of: dict[str, int] = {}
        #: names of the variables that may be assigned
        self.mutable: set[str] = set()
        #: per scope, the names of its variables, and of its views at an offset
        self.names: list[tuple[list[str], list[str]]] = [([], [])]
        #: names of views at an offset whose scopes have ended
        self.gone: set[str] = set()
        #: ids of expressions without violations -> index of the scope at whose end they become invalid
        self._sound: dict[int, int] = {}
        #: per scope, the ids of the expressions that are valid until its end
        self._ending: list[list[int]] = [[]]
        #: names of all variables defined so far, visible or not
        self.defined: set[str] = set()
        self.buffers: dict[str, ir.Buffer] = {}
        #: names of the buffers in local memory (`Alloc.addressed`)
        self.addressed: set[str] = set()
        #: names of the variables of the enclosing unrolled loops, which may index registers
        self.unrolled: set[str] = set()
        #: the current statement is in a branch, and so may never execute
        self.in_branch = False
        #: the current statement can't execute, so its offsets may be out of bounds
        self.is_dead = False
        self.used_vars: set[str] = set()
        self.used_buffers: set[str] = set()
        # ids of buffers that equal their definitions and needn't be checked again
        self._sound_buffers: set[int] = set()

    def fault(self, message: str | None, span: Span | None) -> None:
        """Record a violation, unless the message is None."""
        if message is not None:
            self.violations.append(Violation(message, span))

    def faults(self, messages: Iterable[str], span: Span | None) -> None:
        self.violations += [Violation(message, span) for message in messages]

    def begin_scope(self) -> None:
        self.names.append(([], []))
        self._ending.append([])

    def end_scope(self) -> None:
        names, views = self.names.pop()
        for name in names:
            del self.vars[name], self.scope_of[name]
            self.mutable.discard(name)
        for identity in self._ending.pop():
            del self._sound[identity]
        self.gone.update(views)

    def define(self, var: ir.Var, span: Span | None) -> None:
        if var.name in self.defined:
            self.fault(f"{var.name} is defined twice", span)
        if var.bounds is not None and var.bounds[0] > var.bounds[1]:
            self.fault(f"{var.name} has empty bounds {var.bounds[0]}..{var.bounds[1]}", span)
        if var.multiple_of < 0:
            self.fault(f"{var.name} has multiple_of {var.multiple_of}; it must not be negative", span)
        if var.uniform and var.uniform not in SCOPES:
            self.fault(f"{var.name} is uniform over unknown scope {var.uniform!r}", span)
        self.defined.add(var.name)
        if var.name not in self.vars:
            self.scope_of[var.name] = len(self.names) - 1
            self.names[-1][0].append(var.name)
        self.vars[var.name] = var

    def buffer(self, buffer: ir.Buffer, span: Span | None) -> None:
        if buffer.name in self.buffers:
            self.fault(f"buffer {buffer.name} is defined twice", span)
        # lane IR accesses memory through vectors, so it needs only the extents and strides that its expressions use
        if self.is_tile:
            strides = buffer.layout.strides if isinstance(buffer.layout, ir.Strided) else ()
            for size in (*buffer.shape, *strides):
                if isinstance(size, ir.Var):
                    self.var(size, span)
        self.faults(memory.buffer_faults(buffer), span)
        if isinstance(buffer.layout, ir.Open) and not self.takes_open:
            self.fault(f"{buffer.name} has no layout yet", span)
        self.buffers[buffer.name] = buffer

    def use_buffer(self, buffer: ir.Buffer, span: Span | None) -> None:
        self.used_buffers.add(buffer.root.name)
        definition = self.buffers.get(buffer.name)
        if definition is None:
            self.fault(f"buffer {buffer.name} is used without a prior definition", span)
        elif definition is not buffer and definition != buffer:
            self.fault(f"buffer {buffer.name} differs from its definition", span)
        elif buffer.start.name in self.gone:
            self.fault(f"buffer {buffer.start.name} is used outside the block that defines it", span)
        elif buffer.start.offset is None:
            # not for a view at an offset, or a view of one: it isn't visible after its block, so each use is checked
            self._sound_buffers.add(id(buffer))

    def var(self, var: ir.Var, span: Span | None) -> int:
        """Verify a use of a variable, and return the index of its scope, or `OUTERMOST` if it isn't visible."""
        self.used_vars.add(var.name)
        definition = self.vars.get(var.name)
        if definition is None:
            where = "outside the block that defines it" if var.name in self.defined else "without a prior definition"
            self.fault(f"{var.name} is used {where}", var.span or span)
        elif definition is not var and definition != var:
            self.fault(f"{var.name} is used as {var}; defined as {definition}", var.span or span)
        return self.scope_of.get(var.name, OUTERMOST)

    def place(self, place: ir.Element | ir.Vector, span: Span | None) -> int:
        scope = self.named(place, span)
        self.fault(memory.access_fault(place), place.span or span)
        return scope

    def named(self, place: ir.Element | ir.Vector, span: Span | None) -> int:
        if isinstance(place, ir.Vector):
            if self.is_tile:
                self.fault(f"a vector of {place.buffer.name} is valid only at lane level", place.span or span)
            return self.vector(place, span)
        if not self.is_tile:
            self.fault(f"an element of {place.buffer.name} is valid only above lane level", place.span or span)
        if id(place.buffer) not in self._sound_buffers:
            self.use_buffer(place.buffer, place.span or span)
        scope = self.exprs(place.indices, place.span or span)
        self.faults(memory.element_faults(place), place.span or span)
        return scope

    def region(self, region: ir.Region, span: Span | None, *, is_masked: bool = False) -> None:
        if id(region.buffer) not in self._sound_buffers:
            self.use_buffer(region.buffer, region.span or span)
        self.exprs(region.starts, region.span or span)
        if not memory.is_whole(region):
            self.faults(memory.region_faults(region, is_masked=is_masked), region.span or span)

    def vector(self, vector: ir.Vector, span: Span | None, *, is_masked: bool = False) -> int:
        buffer, here = vector.buffer, vector.span or span
        if id(buffer) not in self._sound_buffers:
            self.use_buffer(buffer, here)
        scope = self._sound.get(id(vector.offset))
        if scope is None:
            scope = self.expr(vector.offset, here)
        in_registers = buffer.space == "local" and buffer.root.name not in self.addressed
        unrolled = self.unrolled if in_registers else None
        for message in memory.vector_faults(
            vector, unrolled, is_masked=is_masked or self.in_branch, is_dead=self.is_dead
        ):
            self.fault(message, here)
        return scope

    def value(self, expr: ir.Expr, dtype: DType, span: Span | None, what: str, whole: bool = False) -> None:
        """Verify an expression that must be of `dtype`. whole: it is the value of a `Let`, and so may be a load."""
        if expr.dtype != dtype:
            self.fault(f"{what} must be {dtype}; got {expr.dtype}", expr.span or span)
        if whole and isinstance(expr, ir.Load):
            self.load(expr, span)
        elif id(expr) not in self._sound:
            self.expr(expr, span)

    def exprs(self, exprs: Iterable[ir.Expr], span: Span | None) -> int:
        """Verify expressions, and return the index of the innermost scope of their variables."""
        innermost = OUTERMOST
        for expr in exprs:
            scope = self._sound.get(id(expr))
            innermost = max(innermost, self.expr(expr, span) if scope is None else scope)
        return innermost

    def expr(self, expr: ir.Expr, span: Span | None) -> int:
        """Verify an expression not known to be sound, and return the index of the innermost scope of its variables."""
        scope, before = OUTERMOST, len(self.violations)
        fault: str | None = None
        match expr:
            case ir.Op():
                here = expr.span or span
                fault = op_fault(expr.name, tuple(map(dtype_of, expr.args)), expr.dtype)
                for arg in expr.args:
                    inner = self._sound.get(id(arg))
                    if inner is None:
                        inner = self.expr(arg, here)
                    if inner > scope:
                        scope = inner
            case ir.Var():
                scope = self.var(expr, span)
            case ir.Const():
                fault = const_fault(expr)
            case ir.Cast():
                inner = self._sound.get(id(expr.x))
                scope = self.expr(expr.x, expr.span or span) if inner is None else inner
            case ir.Special():
                if expr.name not in ir.SPECIALS:
                    fault = f"unknown special register {expr.name!r}"
            case ir.Load():
                if self.is_tile or expr.place.buffer.space != "local":
                    fault = f"a load of {expr.place.buffer.name} must be the whole value of a `Let`"
                scope = self.load(expr, span)
            case _:
                assert_never(expr)
        if fault is not None:
            self.fault(fault, expr.span or span)
        if len(self.violations) == before:
            identity = id(expr)
            self._sound[identity] = scope
            self._ending[scope].append(identity)
        return scope

    def load(self, load: ir.Load, span: Span | None) -> int:
        scope = self.place(load.place, load.span or span)
        if isinstance(load.place, ir.Vector) and load.place.width != 1:
            self.fault(f"a load reads one element; got a vector of {load.place.width}", load.span or span)
        if load.order:
            self.order("load", load.order, load.place.buffer, load.span or span)
        return scope

    def order(self, what: str, order: str, buffer: ir.Buffer, span: Span | None) -> None:
        """Verify the memory order of an access. what: the kind of access, a key of `ORDERS`."""
        access = "an atomic update" if what == "atomic" else f"a {what}"
        if order not in ir.ORDERS[what]:
            self.fault(f"{access} has no order {order!r}", span)
        elif order and buffer.space not in ("global", "shared"):
            self.fault(f"{access} of {buffer.space} memory ({buffer.name}) can't have an order", span)
