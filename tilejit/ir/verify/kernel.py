"""What must hold of a kernel at each level; every violation is returned, none is raised.

Names: each variable and each buffer is defined once, before its uses; a use of a variable has the type and facts of the
definition, and stands in the block of the definition or in one inside it. Only declared variables are assigned; no
facts hold of them.
Types: an operation is in the table; its arguments have the type in which it computes, and its result has the type that
the table says; conditions are bool_; a value has the type of the variable or place that receives it; constants are
values of their type.
Control: `Break` and `Continue` stand in a loop that isn't unrolled; a step isn't zero; unrolled loops are of the lane
level and have constant bounds.
Memory: spaces, ranks, extents, layouts and alignments fit together (see `memory`); a region or an element of
shared, local or tensor memory that is provably outside is a violation, as is one with an unknown scope.
Places: where any are, every shared and every tmem buffer has one (see `placements`).
Instructions: their names are in the instruction table; operands have the number, kinds, sizes, types and memory that
the row says (see `instructions`); at lane level the target has them.
Functions that a tile operation carries: of their own variables only, each defined once (see `combine`).
Open level: as tile level, and local tiles may be open.
Tile level: no `Vector`, `Move`; an `Instruction` takes scalars and fills no registers; tile operations have the
operands and attributes of their table, a `Load` is the whole value of a `Let`.
Lane level: no `TileOp`, `Element`, `Region`; vectors stand in `Move`, `Load`, `Store` and `Instruction` only; a load
from memory is the whole value of a `Let`; registers are named by constants and variables of unrolled loops, elements
of an addressed local buffer by any value; what an asynchronous instruction reads or fills isn't addressed.
"""

from __future__ import annotations

from typing import Any

from ...dataclass import dataclass, field
from ...dtypes import DType, barrier, bool_, int32, int64, signed, uint32
from ...errors import assert_never
from ...isa import row_called
from ...isa.atomics import OPERATIONS, has_type
from ...isa.barriers import BARRIERS
from ...ops.copies import CACHE
from ...scopes import GRID, SCOPES
from ...source import Span
from ...target import MAX_THREADS, TARGETS
from .. import nodes as ir
from .. import params as ir_params
from ..combine import Combine
from . import instructions, memory
from .combine import combine_faults
from .maps import map_faults
from .operations import const_fault, op_fault, tile_op_faults
from .placements import placement_faults

#: how far a kernel has come: tiles may be open; all are laid out; one thread's view
LEVELS = ("open", "tile", "lane")


@dataclass(frozen=True, slots=True)
class Violation:
    """One invariant that doesn't hold.

    message: what is wrong. span: the place in the user's source, or None where the node has none.
    """

    message: str
    span: Span | None = None

    def __str__(self) -> str:
        return self.message if self.span is None else f"{self.message}\n{self.span.render()}"


@dataclass(frozen=True, slots=True)
class Examined:
    """What one walk over a kernel finds.

    vars, buffers: names of the variables that are read or assigned, and of the buffers whose storage is touched. At
    lane level a buffer's extents and strides aren't read by touching it.
    """

    violations: list[Violation]
    vars: set[str]
    buffers: set[str]


def verify(kernel: ir.Kernel, level: str) -> list[Violation]:
    """Every violation of the invariants of `level`, "open", "tile" or "lane"; none where the kernel is sound."""
    return examine(kernel, level).violations


def examine(kernel: ir.Kernel, level: str) -> Examined:
    """As `verify`, with the names that the kernel uses."""
    if level not in LEVELS:
        raise ValueError(f"level is one of {', '.join(LEVELS)}; got {level!r}")
    checker = _Checker(level != "lane", takes_open=level == "open")
    checker.kernel(kernel)
    return Examined(checker.violations, checker.used_vars, checker.used_buffers)


@dataclass(slots=True)
class _Environment:
    """The definitions that are visible at one place, and the kind of the innermost loop around it.

    sound: identities of expressions without a violation, since most expressions are met several times: they share
    parts. Such an expression is sound in inner blocks, too, where more is visible.
    """

    vars: dict[str, ir.Var] = field(default_factory=dict)
    mutable: dict[str, None] = field(default_factory=dict)
    unrolled: set[str] = field(default_factory=set)
    sound: dict[int, None] = field(default_factory=dict)
    loop: str | None = None

    def sizes(self) -> tuple[int, int, int]:
        """How much is visible, for `cut` behind a block."""
        return len(self.vars), len(self.mutable), len(self.sound)

    def cut(self, sizes: tuple[int, int, int]) -> None:
        """Makes what a block defined invisible again.

        Nothing is copied, which for thousands of branches would take as many times as long as reading them: what was
        put into a dictionary last is taken out first.
        """
        tables: tuple[dict[Any, Any], ...] = (self.vars, self.mutable, self.sound)
        for table, size in zip(tables, sizes, strict=True):
            while len(table) > size:
                table.popitem()


class _Checker:
    def __init__(self, is_tile: bool, *, takes_open: bool) -> None:
        self.is_tile = is_tile
        self.takes_open = takes_open
        self.target = ""
        self.is_cooperative = False
        self.violations: list[Violation] = []
        self.defined: set[str] = set()
        self.buffers: dict[str, ir.Buffer] = {}
        self.addressed: set[str] = set()
        self.used_vars: set[str] = set()
        self.used_buffers: set[str] = set()

    def fault(self, message: str | None, span: Span | None) -> None:
        if message is not None:
            self.violations.append(Violation(message, span))

    def kernel(self, kernel: ir.Kernel) -> None:
        if not 1 <= kernel.threads <= MAX_THREADS:
            self.fault(f"a CTA has 1 to {MAX_THREADS} threads; got {kernel.threads}", kernel.span)
        if kernel.target not in TARGETS:
            self.fault(f"unknown target {kernel.target!r}", kernel.span)
        self.target, self.is_cooperative = kernel.target, kernel.cooperative
        env = _Environment()
        # tensors name extents and strides that are defined after them
        for param in sorted(kernel.params, key=lambda p: isinstance(p, ir_params.PointerParam)):
            self.param(param, env)
        self.block(kernel.body, env)
        if kernel.memory:
            self.memory_of(kernel)

    def memory_of(self, kernel: ir.Kernel) -> None:
        if self.is_tile:
            self.fault("where buffers live is decided at lane level", kernel.span)
        for message in placement_faults(kernel, self.buffers.values()):
            self.fault(message, kernel.span)

    def param(self, param: ir_params.Param, env: _Environment) -> None:
        match param:
            case ir_params.PointerParam(buffer=buffer):
                self.buffer(buffer, env, buffer.span)
                if buffer.space != "global" or buffer.base is not None:
                    self.fault(f"parameter {buffer.name} must be global memory, and no view", buffer.span)
            case ir_params.ScalarParam(var=var):
                self.define(var, env, None)
            case ir_params.ExtentParam(var=var) | ir_params.StrideParam(var=var) | ir_params.AddressParam(var=var):
                self.define(var, env, None)
                if var.dtype != int64:
                    self.fault(f"{var.name}: an extent, a stride or an address is of int64", None)
            case ir_params.BarrierParam(buffer):
                self.buffer(buffer, env, buffer.span)
                if buffer.space != "global" or buffer.dtype != uint32 or buffer.shape != (1,):
                    self.fault(f"the barrier {buffer.name} must be one uint32 in global memory", buffer.span)
            case ir_params.TensorMapParam(var=var, map=spec):
                self.define(var, env, None)
                if var.dtype != int64:
                    self.fault(f"{var.name}: the address of a tensor map is of int64", None)
                for message in map_faults(spec):
                    self.fault(f"{var.name}: {message}", None)
            case ir_params.AssertionsParam():
                pass
            case _:
                assert_never(param)

    def define(self, var: ir.Var, env: _Environment, span: Span | None) -> None:
        if var.name in self.defined:
            self.fault(f"{var.name} is defined twice", span)
        if var.bounds is not None and var.bounds[0] > var.bounds[1]:
            self.fault(f"{var.name} is in {var.bounds[0]}..{var.bounds[1]}, which is empty", span)
        if var.multiple_of < 0:
            self.fault(f"{var.name} is said to be a multiple of {var.multiple_of}", span)
        if var.uniform and var.uniform not in SCOPES:
            self.fault(f"{var.name} is said to be uniform over unknown scope {var.uniform!r}", span)
        self.defined.add(var.name)
        env.vars[var.name] = var

    def buffer(self, buffer: ir.Buffer, env: _Environment, span: Span | None) -> None:
        if buffer.name in self.buffers:
            self.fault(f"buffer {buffer.name} is defined twice", span)
        sizes = buffer.shape + (buffer.layout.strides if isinstance(buffer.layout, ir.Strided) else ())
        for size in sizes:
            # lane IR addresses memory through vectors: extents and strides that it doesn't name are no parameters
            if isinstance(size, ir.Var) and self.is_tile:
                self.var(size, env, span)
        for message in memory.buffer_faults(buffer):
            self.fault(message, span)
        if isinstance(buffer.layout, ir.Open) and not self.takes_open:
            self.fault(f"{buffer.name} has no layout yet", span)
        self.buffers[buffer.name] = buffer

    def use_buffer(self, buffer: ir.Buffer, span: Span | None) -> None:
        self.used_buffers.add(buffer.root.name)
        definition = self.buffers.get(buffer.name)
        if definition is None:
            self.fault(f"buffer {buffer.name} is used before its definition", span)
        elif definition is not buffer and definition != buffer:
            self.fault(f"buffer {buffer.name} isn't the one that was defined", span)

    def var(self, var: ir.Var, env: _Environment, span: Span | None) -> None:
        self.used_vars.add(var.name)
        definition = env.vars.get(var.name)
        if definition is None:
            where = "outside the block that defines it" if var.name in self.defined else "before its definition"
            self.fault(f"{var.name} is used {where}", var.span or span)
        elif definition is not var and definition != var:
            self.fault(f"{var.name} is used as {var}; defined as {definition}", var.span or span)

    def block(self, body: tuple[ir.Stmt, ...], env: _Environment) -> None:
        """A block: what it defines is no longer visible behind it."""
        sizes = env.sizes()
        for stmt in body:
            self.stmt(stmt, env)
        env.cut(sizes)

    def stmt(self, stmt: ir.Stmt, env: _Environment) -> None:
        match stmt:
            case ir.Let() | ir.Declare() | ir.Assign():
                self.binding(stmt, env)
            case ir.Alloc() | ir.BufferView():
                self.memory(stmt, env)
            case ir.Store():
                self.store(stmt, env)
            case ir.For():
                self.loop(stmt, env)
            case ir.Move():
                self.move(stmt, env)
            case ir.Instruction():
                self.instruction(stmt, env)
            case ir.TileOp():
                self.tile_op(stmt, env)
            case ir.Atomic():
                self.atomic(stmt, env)
            case ir.If(cond, then, orelse):
                self.value(cond, bool_, env, stmt.span, "a condition")
                for block in (then, orelse):
                    self.block(block, env)
            case ir.Loop(body):
                outer, env.loop = env.loop, "loop"
                self.block(body, env)
                env.loop = outer
            case ir.Break() | ir.Continue():
                self.jump(stmt, env)
            case ir.Assert():
                self.assertion(stmt, env)
            case ir.Print(parts):
                for part in parts:
                    if not isinstance(part, str):
                        self.expr(part, env, stmt.span)
            case ir.Sync(name):
                is_of_grid = name == GRID.name and self.is_tile and self.is_cooperative
                has_barrier = SCOPES.get(name) in BARRIERS or is_of_grid
                self.fault(None if has_barrier else f"no barrier among the threads of {name!r}", stmt.span)
            case ir.Arrive() | ir.WaitPhase() | ir.Expect():
                self.barrier(stmt, env)
            case ir.Return():
                pass
            case _:
                assert_never(stmt)

    def barrier(self, stmt: ir.Arrive | ir.WaitPhase | ir.Expect, env: _Environment) -> None:
        place, span = stmt.place, stmt.span
        self.named(place, env, span)
        if place.buffer.space != "shared" or place.buffer.dtype != barrier:
            self.fault(f"{place.buffer.name} is no barrier in shared memory", place.span or span)
        if isinstance(place, ir.Vector) and place.width != 1:
            self.fault(f"one barrier is waited for, or arrived at; got {place.width} of {place.buffer.name}", span)
        if isinstance(stmt, (ir.Arrive, ir.Expect)) and stmt.scope not in SCOPES:
            self.fault(f"no threads of {stmt.scope!r} come to a barrier together", span)
        if isinstance(stmt, ir.WaitPhase):
            self.value(stmt.phase, int32, env, span, "a phase")
            if stmt.var is not None:
                if stmt.var.dtype != bool_:
                    self.fault(f"{stmt.var.name} must be of bool_; got {stmt.var.dtype}", span)
                self.define(stmt.var, env, span)
        elif stmt.bytes is not None:
            self.value(stmt.bytes, int32, env, span, "the bytes of a phase")

    def assertion(self, stmt: ir.Assert, env: _Environment) -> None:
        self.value(stmt.cond, bool_, env, stmt.span, "an assertion")
        for value in stmt.values:
            self.value(value, int64, env, stmt.span, "what an assertion tells")
        if stmt.rule not in ir.RULES:
            self.fault(f"an assertion of the rule {stmt.rule!r}", stmt.span)
        if len(stmt.values) > ir_params.AssertionsParam.VALUES:
            self.fault(f"{len(stmt.values)} values: a record keeps {ir_params.AssertionsParam.VALUES}", stmt.span)

    def binding(self, stmt: ir.Let | ir.Declare | ir.Assign, env: _Environment) -> None:
        value = stmt.init if isinstance(stmt, ir.Declare) else stmt.value
        if value is not None:
            self.value(value, stmt.var.dtype, env, stmt.span, stmt.var.name, whole=isinstance(stmt, ir.Let))
        if isinstance(stmt, ir.Assign):
            self.var(stmt.var, env, stmt.span)
            if stmt.var.name in self.defined and stmt.var.name not in env.mutable:
                self.fault(f"{stmt.var.name} isn't declared as one that changes", stmt.span)
            return
        self.define(stmt.var, env, stmt.span)
        if isinstance(stmt, ir.Declare):
            env.mutable[stmt.var.name] = None
            if stmt.var.multiple_of != 1 or stmt.var.bounds is not None or stmt.var.uniform:
                self.fault(f"{stmt.var.name} may change; no facts hold of it", stmt.span)

    def memory(self, stmt: ir.Alloc | ir.BufferView, env: _Environment) -> None:
        buffer = stmt.buffer
        span = stmt.span or buffer.span
        self.buffer(buffer, env, span)
        if isinstance(stmt, ir.Alloc):
            if (message := memory.arrivals_fault(buffer, stmt.arrivals)) is not None:
                self.fault(message, span)
            if stmt.call and not stmt.arrivals:
                self.fault(f"{buffer.name}: nothing arrives by {stmt.call}, as it is no barrier", span)
        if isinstance(stmt, ir.Alloc) and (buffer.space == "global" or buffer.base is not None):
            self.fault(f"{buffer.name}: only shared, local and tensor memory is allocated, and no view", span)
        if isinstance(stmt, ir.Alloc) and stmt.addressed:
            self.addressed.add(buffer.name)
            if self.is_tile or buffer.space != "local":
                self.fault(f"{buffer.name}: only local buffers are addressed, at lane level", span)
        if isinstance(stmt, ir.BufferView):
            if buffer.base is None:
                self.fault(f"{buffer.name} is a view of nothing", span)
            else:
                self.use_buffer(buffer.base, span)

    def store(self, stmt: ir.Store, env: _Environment) -> None:
        self.place(stmt.place, env, stmt.span)
        if isinstance(stmt.place, ir.Vector) and stmt.place.width != 1:
            self.fault(f"a store writes one element; got a vector of {stmt.place.width}", stmt.span)
        self.value(stmt.value, stmt.place.buffer.dtype, env, stmt.span, stmt.place.buffer.name)
        self.order("store", stmt.order, stmt.place.buffer, stmt.span)

    def atomic(self, stmt: ir.Atomic, env: _Environment) -> None:
        buffer, operation = stmt.place.buffer, OPERATIONS.get(stmt.op)
        self.place(stmt.place, env, stmt.span)
        if isinstance(stmt.place, ir.Vector) and stmt.place.width != 1:
            self.fault(f"an atomic update is of one element; got a vector of {stmt.place.width}", stmt.span)
        for value in stmt.operands:
            self.value(value, buffer.dtype, env, stmt.span, buffer.name)
        if operation is None:
            self.fault(f"no atomic operation is called {stmt.op!r}", stmt.span)
        elif len(stmt.operands) != len(operation.operands):
            self.fault(f"{stmt.op} takes {', '.join(operation.operands)}; got {len(stmt.operands)}", stmt.span)
        elif not has_type(stmt.op, buffer.dtype):
            self.fault(f"there is no atomic {stmt.op} of {buffer.dtype}", stmt.span)
        self.order("atomic", stmt.order, buffer, stmt.span)
        if stmt.var is not None:
            if stmt.var.dtype != buffer.dtype:
                self.fault(f"{stmt.var.name} must be of {buffer.dtype}; got {stmt.var.dtype}", stmt.span)
            self.define(stmt.var, env, stmt.span)

    def loop(self, stmt: ir.For, env: _Environment) -> None:
        if not stmt.var.dtype.is_integer:
            self.fault(f"loop variable {stmt.var.name} must be an integer; got {stmt.var.dtype}", stmt.span)
        parts = (stmt.start, stmt.stop, stmt.step)
        # what counts an unsigned variable down is signed
        step_type = signed(stmt.var.dtype) if stmt.step.dtype.kind == "int" else stmt.var.dtype
        for part, dtype in zip(parts, (stmt.var.dtype, stmt.var.dtype, step_type), strict=True):
            self.value(part, dtype, env, stmt.span, f"a bound of {stmt.var.name}")
        if isinstance(stmt.step, ir.Const) and stmt.step.value == 0:
            self.fault(f"the step of {stmt.var.name} is zero", stmt.span)
        if stmt.unrolled and self.is_tile:
            self.fault("loops are unrolled at lane level only", stmt.span)
        if stmt.unrolled and not all(isinstance(p, ir.Const) for p in parts):
            self.fault(f"the bounds of unrolled {stmt.var.name} aren't constant", stmt.span)
        sizes, outer, unrolled = env.sizes(), env.loop, env.unrolled
        env.loop = "unrolled" if stmt.unrolled else "for"
        self.define(stmt.var, env, stmt.span)
        if stmt.unrolled:
            env.unrolled = {*unrolled, stmt.var.name}
        self.block(stmt.body, env)
        env.loop, env.unrolled = outer, unrolled
        env.cut(sizes)

    def jump(self, stmt: ir.Break | ir.Continue, env: _Environment) -> None:
        word = type(stmt).__name__.lower()
        if env.loop is None:
            self.fault(f"{word} outside a loop", stmt.span)
        elif env.loop == "unrolled":
            self.fault(f"{word} in an unrolled loop", stmt.span)

    def tile_op(self, stmt: ir.TileOp, env: _Environment) -> None:
        if not self.is_tile:
            self.fault(f"tile operation {stmt.name} at lane level", stmt.span)
        for operand in stmt.operands:
            if isinstance(operand, ir.Region):
                self.region(operand, env, stmt.span)
            elif operand is not None:
                self.expr(operand, env, stmt.span)
        for message in tile_op_faults(stmt):
            self.fault(message, stmt.span)
        for _, value in stmt.attrs:
            for message in combine_faults(value) if isinstance(value, Combine) else ():
                self.fault(message, stmt.span)

    def move(self, stmt: ir.Move, env: _Environment) -> None:
        self.lane_only(stmt, stmt.span)
        for vector in (stmt.dst, stmt.src):
            self.vector(vector, env, stmt.span, is_masked=stmt.predicate is not None)
            self.fault(memory.access_fault(vector), vector.span or stmt.span)
        if stmt.dst.width != stmt.src.width or stmt.dst.buffer.dtype != stmt.src.buffer.dtype:
            self.fault(f"a move of {_vector(stmt.src)} into {_vector(stmt.dst)}", stmt.span)
        spaces = (stmt.dst.buffer.space, stmt.src.buffer.space)
        if "local" not in spaces:
            self.fault(f"a move from {spaces[1]} to {spaces[0]} memory goes through registers", stmt.span)
        self.order("move", stmt.order, stmt.memory.buffer, stmt.span)
        if stmt.cache and (stmt.cache not in CACHE.choices or "global" not in spaces):
            self.fault(f"no cache keeps a move from {spaces[1]} to {spaces[0]} memory as {stmt.cache!r}", stmt.span)
        if stmt.predicate is not None:
            self.value(stmt.predicate, bool_, env, stmt.span, "a predicate")
        if stmt.otherwise is not None:
            self.value(stmt.otherwise, stmt.dst.buffer.dtype, env, stmt.span, stmt.dst.buffer.name)
            if stmt.predicate is None or spaces[0] != "local":
                self.fault("`otherwise` fills registers where a predicate doesn't hold", stmt.span)

    def instruction(self, stmt: ir.Instruction, env: _Environment) -> None:
        if stmt.outputs or stmt.places:
            self.lane_only(stmt, stmt.span)
        for output in stmt.outputs:
            self.vector(output, env, stmt.span)
            if output.buffer.space != "local":
                self.fault(f"{stmt.name} fills registers; {output.buffer.name} is {output.buffer.space}", stmt.span)
        cut = instructions.cut_inputs(stmt)
        for k, value in enumerate(stmt.inputs):
            if isinstance(value, ir.Descriptor):
                self.vector(value.place, env, stmt.span)
            elif isinstance(value, ir.Vector):
                self.vector(value, env, stmt.span, is_masked=k in cut)
            else:
                self.expr(value, env, stmt.span)
        self.fault(self.pending_fault(stmt), stmt.span)
        for message in instructions.instruction_faults(stmt, None if self.is_tile else self.target):
            self.fault(message, stmt.span)
        if stmt.var is not None:
            self.define(stmt.var, env, stmt.span)

    def pending_fault(self, stmt: ir.Instruction) -> str | None:
        """What an asynchronous instruction reads or fills later can't be memory, which is read or written now."""
        row = row_called(stmt.name)
        if row is None or row.starts is None:
            return None
        vectors = (*stmt.outputs, *stmt.places)
        addressed = next((v.buffer.name for v in vectors if v.buffer.root.name in self.addressed), None)
        return None if addressed is None else f"{stmt.name} needs registers until its wait; {addressed} is addressed"

    def lane_only(self, stmt: ir.Stmt, span: Span | None) -> None:
        if self.is_tile:
            self.fault(f"{type(stmt).__name__} at tile level", span)

    def place(self, place: ir.Element | ir.Vector, env: _Environment, span: Span | None) -> None:
        """The place of an access."""
        self.named(place, env, span)
        if (message := memory.access_fault(place)) is not None:
            self.fault(message, place.span or span)

    def named(self, place: ir.Element | ir.Vector, env: _Environment, span: Span | None) -> None:
        if isinstance(place, ir.Vector):
            if self.is_tile:
                self.fault(f"a vector of {place.buffer.name} at tile level", place.span or span)
            self.vector(place, env, span)
            return
        if not self.is_tile:
            self.fault(f"an element of {place.buffer.name} at lane level", place.span or span)
        self.use_buffer(place.buffer, place.span or span)
        for index in place.indices:
            self.expr(index, env, place.span or span)
        for message in memory.element_faults(place):
            self.fault(message, place.span or span)

    def region(self, region: ir.Region, env: _Environment, span: Span | None) -> None:
        self.use_buffer(region.buffer, region.span or span)
        for start in region.starts:
            if id(start) not in env.sound:
                self.expr(start, env, region.span or span)
        for message in memory.region_faults(region):
            self.fault(message, region.span or span)

    def vector(
        self, vector: ir.Vector, env: _Environment, span: Span | None, *, is_masked: bool = False
    ) -> None:
        self.use_buffer(vector.buffer, vector.span or span)
        if id(vector.offset) not in env.sound:
            self.expr(vector.offset, env, vector.span or span)
        in_registers = vector.buffer.space == "local" and vector.buffer.root.name not in self.addressed
        for message in memory.vector_faults(vector, env.unrolled if in_registers else None, is_masked=is_masked):
            self.fault(message, vector.span or span)

    def value(
        self, expr: ir.Expr, dtype: DType, env: _Environment, span: Span | None, what: str, whole: bool = False
    ) -> None:
        """An expression that must be of `dtype`; whole: it is the value of a `Let`, which may load."""
        if expr.dtype != dtype:
            self.fault(f"{what} must be of {dtype}; got {expr.dtype}", expr.span or span)
        if whole and isinstance(expr, ir.Load):
            self.load(expr, env, span)
        elif id(expr) not in env.sound:
            self.expr(expr, env, span)

    def expr(self, expr: ir.Expr, env: _Environment, span: Span | None) -> None:
        if id(expr) in env.sound:
            return
        before = len(self.violations)
        here = expr.span or span
        match expr:
            case ir.Const():
                if (message := const_fault(expr)) is not None:
                    self.fault(message, here)
            case ir.Var():
                self.var(expr, env, here)
            case ir.Op():
                if (message := op_fault(expr)) is not None:
                    self.fault(message, here)
                for arg in expr.args:
                    if id(arg) not in env.sound:
                        self.expr(arg, env, here)
            case ir.Cast():
                self.expr(expr.x, env, here)
            case ir.Special():
                self.fault(None if expr.name in ir.SPECIALS else f"no special is called {expr.name!r}", here)
            case ir.Load():
                if self.is_tile or expr.place.buffer.space != "local":
                    self.fault(f"a load of {expr.place.buffer.name} must be the whole value of a `Let`", here)
                self.load(expr, env, here)
            case _:
                assert_never(expr)
        if len(self.violations) == before:
            env.sound[id(expr)] = None

    def load(self, load: ir.Load, env: _Environment, span: Span | None) -> None:
        self.place(load.place, env, load.span or span)
        if isinstance(load.place, ir.Vector) and load.place.width != 1:
            self.fault(f"a load reads one element; got a vector of {load.place.width}", load.span or span)
        self.order("load", load.order, load.place.buffer, load.span or span)

    def order(self, what: str, order: str, buffer: ir.Buffer, span: Span | None) -> None:
        """What is wrong with how an access is ordered. what: its kind."""
        access = "an atomic update" if what == "atomic" else f"a {what}"
        if order not in ir.ORDERS[what]:
            self.fault(f"{access} has no order {order!r}", span)
        elif order and buffer.space not in ("global", "shared"):
            self.fault(f"nobody else sees {buffer.name}: {access} of {buffer.space} memory has no order", span)


def _vector(vector: ir.Vector) -> str:
    return f"{vector.width} x {vector.buffer.dtype}"
