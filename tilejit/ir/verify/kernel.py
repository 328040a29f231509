"""Invariants of a kernel at each level. All violations are collected and returned.

`tilejit/ir/README.md` lists the invariants. `placements` checks a kernel's placements; other modules check its nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...dataclass import dataclass
from ...dtypes import barrier, bool_, int32, int64, signed, uint32
from ...errors import assert_never
from ...isa import row_called
from ...isa.atomics import OPERATIONS, has_type
from ...isa.barriers import BARRIERS
from ...layout.swizzle import SWIZZLE_BITS
from ...ops.copies import CACHE, FETCH, MASK
from ...scopes import GRID, SCOPES
from ...source import Span
from ...target import MAX_THREADS, TARGETS
from .. import nodes as ir
from .. import params as ir_params
from ..combine import Combine
from . import instructions, memory
from .operations import combine_faults, tile_op_faults
from .placements import placement_faults
from .values import Values, Violation

#: in order of lowering: "open" allows tiles without layouts, "tile" doesn't, and "lane" is the code of one thread
LEVELS = ("open", "tile", "lane")


@dataclass(frozen=True, slots=True)
class Examined:
    """The violations that a walk over a kernel finds, and the names in it.

    vars, buffers: names of the variables that are read or assigned, and of the buffers (roots, not views) whose storage
    is accessed or viewed. At lane level, a buffer's definition doesn't count as a use of its extents and strides.
    """

    violations: list[Violation]
    vars: set[str]
    buffers: set[str]


def verify(kernel: ir.Kernel, level: str) -> list[Violation]:
    """Return the violations of the invariants of `level`: "open", "tile" or "lane"."""
    return examine(kernel, level).violations


def examine(kernel: ir.Kernel, level: str) -> Examined:
    """Return the violations, like `verify`, and the names that the kernel uses."""
    if level not in LEVELS:
        raise ValueError(f"level must be one of {', '.join(LEVELS)}; got {level!r}")
    statements = _Statements(level)
    statements.kernel(kernel)
    return Examined(statements.violations, statements.used_vars, statements.used_buffers)


class _Statements(Values):
    """The walk over statements. loop: the innermost enclosing loop's kind, "loop", "for" or "unrolled", or None."""

    def __init__(self, level: str) -> None:
        super().__init__(level)
        self.target = ""
        self.is_cooperative = False
        self.loop: str | None = None
        #: values of the bool_ variables that are defined as constants, by name
        self.constants: dict[str, bool] = {}

    def kernel(self, kernel: ir.Kernel) -> None:
        if not 1 <= kernel.threads <= MAX_THREADS:
            self.fault(f"a CTA has 1 to {MAX_THREADS} threads; got {kernel.threads}", kernel.span)
        if kernel.target not in TARGETS:
            self.fault(f"unknown target {kernel.target!r}", kernel.span)
        self.target, self.is_cooperative = kernel.target, kernel.cooperative
        # tensors refer to extents and strides that are defined after them
        tensors = [param for param in kernel.params if isinstance(param, ir_params.PointerParam)]
        others = [param for param in kernel.params if not isinstance(param, ir_params.PointerParam)]
        for param in (*others, *tensors):
            self.param(param)
        self.block(kernel.body)
        if kernel.memory and self.is_tile:
            self.fault("buffers can be placed only at lane level", kernel.span)
        if kernel.memory:
            self.faults(placement_faults(kernel, self.buffers.values()), kernel.span)

    def param(self, param: ir_params.Param) -> None:
        match param:
            case ir_params.PointerParam(buffer=buffer, scratch=scratch):
                self.buffer(buffer, buffer.span)
                for extent in () if scratch is None else scratch.extents:
                    self.value(extent, int64, buffer.span, f"an extent of {buffer.name}")
                if buffer.space != "global" or buffer.base is not None:
                    self.fault(f"parameter {buffer.name} must be global memory, and not a view", buffer.span)
            case ir_params.ScalarParam(var=var):
                self.define(var, None)
            case ir_params.ExtentParam(var=var) | ir_params.StrideParam(var=var) | ir_params.AddressParam(var=var):
                self.define(var, None)
                if var.dtype != int64:
                    self.fault(f"{var.name}: an extent, a stride or an address must be int64", None)
            case ir_params.BarrierParam(buffer):
                self.buffer(buffer, buffer.span)
                if buffer.space != "global" or buffer.dtype != uint32 or buffer.shape != (1,):
                    self.fault(f"the barrier {buffer.name} must be one uint32 in global memory", buffer.span)
            case ir_params.TensorMapParam(var=var):
                self.define(var, None)
                if var.dtype != int64:
                    self.fault(f"{var.name}: the address of a tensor map must be int64", None)
                for message in _map_faults(param):
                    self.fault(f"{var.name}: {message}", None)
            case ir_params.AssertionsParam():
                pass
            case _:
                assert_never(param)

    def block(self, body: tuple[ir.Stmt, ...], loop: ir.For | None = None) -> None:
        """Verify a block, whose variables are visible only in it. loop: the `For` whose body it is, or None."""
        self.begin_scope()
        if loop is not None:
            self.define(loop.var, loop.span)
        for stmt in body:
            _CHECKS[type(stmt)](self, stmt)
        self.end_scope()

    def branch(self, stmt: ir.If) -> None:
        self.value(stmt.cond, bool_, stmt.span, "a condition")
        outer, self.in_branch = self.in_branch, True
        cond = self._constant(stmt.cond)
        outer_dead = self.is_dead
        for block, taken in ((stmt.then, True), (stmt.orelse, False)):
            self.is_dead = outer_dead or cond is (not taken)
            if block:
                self.block(block)
        self.is_dead = outer_dead
        self.in_branch = outer

    def _constant(self, cond: ir.Expr) -> bool | None:
        if isinstance(cond, ir.Const):
            return bool(cond.value)
        return self.constants.get(cond.name) if isinstance(cond, ir.Var) else None

    def endless(self, stmt: ir.Loop) -> None:
        outer, self.loop = self.loop, "loop"
        self.block(stmt.body)
        self.loop = outer

    def end(self, stmt: ir.Return) -> None:
        """Accept a return, which is valid anywhere."""

    def print(self, stmt: ir.Print) -> None:
        self.exprs([part for part in stmt.parts if not isinstance(part, str)], stmt.span)

    def breakpoint(self, stmt: ir.Breakpoint) -> None:
        for value in stmt.values:
            if isinstance(value, ir.Region):
                self.region(value, stmt.span, is_masked=True)
            elif isinstance(value, ir.Vector):
                self.vector(value, stmt.span)
            else:
                self.exprs([value], stmt.span)

    def sync(self, stmt: ir.Sync) -> None:
        is_of_grid = stmt.scope == GRID.name and self.is_tile and self.is_cooperative
        if SCOPES.get(stmt.scope) not in BARRIERS and not is_of_grid:
            self.fault(f"the threads of {stmt.scope!r} have no barrier", stmt.span)

    def barrier(self, stmt: ir.Arrive | ir.WaitPhase | ir.Expect) -> None:
        place, span = stmt.place, stmt.span
        self.named(place, span)
        if place.buffer.space != "shared" or place.buffer.dtype != barrier:
            self.fault(f"{place.buffer.name} isn't a barrier in shared memory", place.span or span)
        if isinstance(place, ir.Vector) and place.width != 1:
            self.fault(f"a barrier operation needs one barrier; got {place.width} of {place.buffer.name}", span)
        if isinstance(stmt, (ir.Arrive, ir.Expect)) and stmt.scope not in SCOPES:
            self.fault(f"unknown scope {stmt.scope!r} at a barrier", span)
        if isinstance(stmt, ir.WaitPhase):
            self.value(stmt.phase, int32, span, "a phase")
            if stmt.var is not None:
                if stmt.var.dtype != bool_:
                    self.fault(f"{stmt.var.name} must be bool_; got {stmt.var.dtype}", span)
                self.define(stmt.var, span)
        elif stmt.bytes is not None:
            self.value(stmt.bytes, int32, span, "the bytes of a phase")

    def assertion(self, stmt: ir.Assert) -> None:
        self.value(stmt.cond, bool_, stmt.span, "an assertion")
        for value in stmt.values:
            self.value(value, int64, stmt.span, "a value of an assertion")
        if stmt.rule not in ir.RULES:
            self.fault(f"unknown assertion rule {stmt.rule!r}", stmt.span)
        if len(stmt.values) > ir_params.AssertionsParam.VALUES:
            self.fault(f"{len(stmt.values)} values; an assertion holds {ir_params.AssertionsParam.VALUES}", stmt.span)

    def let(self, stmt: ir.Let) -> None:
        var, value = stmt.var, stmt.value
        self.value(value, var.dtype, stmt.span, var.name, whole=True)
        self.define(var, stmt.span)
        if isinstance(value, ir.Const) and var.dtype is bool_:
            self.constants[var.name] = bool(value.value)

    def declare(self, stmt: ir.Declare) -> None:
        var = stmt.var
        if stmt.init is not None:
            self.value(stmt.init, var.dtype, stmt.span, var.name)
        self.define(var, stmt.span)
        self.mutable.add(var.name)
        if var.multiple_of != 1 or var.bounds is not None or var.uniform:
            self.fault(f"{var.name} may change, so it can't have facts", stmt.span)

    def assign(self, stmt: ir.Assign) -> None:
        name = stmt.var.name
        self.value(stmt.value, stmt.var.dtype, stmt.span, name)
        self.var(stmt.var, stmt.span)
        if name in self.vars and name not in self.mutable:
            self.fault(f"{name} is assigned, but not declared as mutable", stmt.span)

    def alloc(self, stmt: ir.Alloc) -> None:
        buffer = stmt.buffer
        span = stmt.span or buffer.span
        self.buffer(buffer, span)
        self.fault(memory.arrivals_fault(buffer, stmt.arrivals), span)
        if stmt.call and not stmt.arrivals:
            self.fault(f"{buffer.name} awaits no arrivals, so it can't have arrivals by {stmt.call}", span)
        if stmt.along is not None and (not stmt.call or stmt.along not in range(3)):
            self.fault(f"{buffer.name} along cluster axis {stmt.along}: only rings have an axis, from 0 to 2", span)
        if buffer.space == "global" or buffer.base is not None:
            self.fault(f"{buffer.name}: only shared, local and tensor memory can be allocated, and not as a view", span)
        if stmt.addressed:
            self.addressed.add(buffer.name)
            if self.is_tile or buffer.space != "local":
                self.fault(f"{buffer.name}: only local buffers can be addressed, and only at lane level", span)

    def view(self, stmt: ir.BufferView) -> None:
        buffer = stmt.buffer
        span = stmt.span or buffer.span
        self.buffer(buffer, span)
        if buffer.base is None:
            self.fault(f"{buffer.name} is a view without a base", span)
        else:
            self.use_buffer(buffer.base, span)
            if buffer.offset is not None:
                self.displaced(buffer, buffer.base, buffer.offset, span)
                self.names[-1][1].append(buffer.name)

    def displaced(self, view: ir.Buffer, base: ir.Buffer, offset: ir.Expr, span: Span | None) -> None:
        if self.is_tile or self.unrolled:
            self.fault(f"{view.name} can be at an offset only at lane level, outside unrolled loops", span)
        if base.space == "local" and base.root.name not in self.addressed:
            self.fault(f"{view.name} is at an offset from {base.name}, which is in registers", span)
        self.exprs((offset,), span)
        self.faults(memory.displaced_faults(view, base, offset, self.mutable), span)

    def store(self, stmt: ir.Store) -> None:
        self.place(stmt.place, stmt.span)
        if isinstance(stmt.place, ir.Vector) and stmt.place.width != 1:
            self.fault(f"a store writes one element; got a vector of {stmt.place.width}", stmt.span)
        self.value(stmt.value, stmt.place.buffer.dtype, stmt.span, stmt.place.buffer.name)
        if stmt.order:
            self.order("store", stmt.order, stmt.place.buffer, stmt.span)

    def atomic(self, stmt: ir.Atomic) -> None:
        buffer, operation = stmt.place.buffer, OPERATIONS.get(stmt.op)
        self.place(stmt.place, stmt.span)
        if isinstance(stmt.place, ir.Vector) and stmt.place.width != 1:
            self.fault(f"an atomic update changes one element; got a vector of {stmt.place.width}", stmt.span)
        for value in stmt.operands:
            self.value(value, buffer.dtype, stmt.span, buffer.name)
        if operation is None:
            self.fault(f"unknown atomic operation {stmt.op!r}", stmt.span)
        elif len(stmt.operands) != len(operation.operands):
            self.fault(f"{stmt.op} takes ({', '.join(operation.operands)}); got {len(stmt.operands)}", stmt.span)
        elif not has_type(stmt.op, buffer.dtype):
            self.fault(f"no atomic {stmt.op} exists for {buffer.dtype}", stmt.span)
        self.order("atomic", stmt.order, buffer, stmt.span)
        if stmt.var is not None:
            if stmt.var.dtype != buffer.dtype:
                self.fault(f"{stmt.var.name} must be {buffer.dtype}; got {stmt.var.dtype}", stmt.span)
            self.define(stmt.var, stmt.span)

    def counted(self, stmt: ir.For) -> None:
        if not stmt.var.dtype.is_integer:
            self.fault(f"loop variable {stmt.var.name} must be an integer; got {stmt.var.dtype}", stmt.span)
        parts = (stmt.start, stmt.stop, stmt.step)
        # the step of an unsigned variable may be signed, so that the loop can count down
        step_type = signed(stmt.var.dtype) if stmt.step.dtype.kind == "int" else stmt.var.dtype
        dtypes = (stmt.var.dtype, stmt.var.dtype, step_type)
        for word, part, dtype in zip(("start", "stop", "step"), parts, dtypes, strict=True):
            self.value(part, dtype, stmt.span, f"the {word} of {stmt.var.name}")
        if isinstance(stmt.step, ir.Const) and stmt.step.value == 0:
            self.fault(f"the step of {stmt.var.name} is zero", stmt.span)
        if stmt.unrolled and self.is_tile:
            self.fault("loops are unrolled at lane level only", stmt.span)
        if stmt.unrolled and [part for part in parts if not isinstance(part, ir.Const)]:
            self.fault(f"the unrolled loop over {stmt.var.name} needs a constant start, stop and step", stmt.span)
        outer, unrolled = self.loop, self.unrolled
        self.loop = "unrolled" if stmt.unrolled else "for"
        if stmt.unrolled:
            self.unrolled = {*unrolled, stmt.var.name}
        self.block(stmt.body, stmt)
        self.loop, self.unrolled = outer, unrolled

    def jump(self, stmt: ir.Break | ir.Continue) -> None:
        word = type(stmt).__name__.lower()
        if self.loop is None:
            self.fault(f"{word} outside a loop", stmt.span)
        elif self.loop == "unrolled":
            self.fault(f"{word} in an unrolled loop", stmt.span)

    def tile_op(self, stmt: ir.TileOp) -> None:
        if not self.is_tile:
            self.fault(f"tile operation {stmt.name} at lane level", stmt.span)
        for operand in stmt.operands:
            if isinstance(operand, ir.Region):
                is_masked = operand.in_bounds and MASK.name in stmt.options
                self.region(operand, stmt.span, is_masked=is_masked)
            elif operand is not None:
                self.exprs((operand,), stmt.span)
        self.faults(tile_op_faults(stmt), stmt.span)
        for _, value in stmt.attrs:
            if isinstance(value, Combine):
                self.faults(combine_faults(value), stmt.span)

    def move(self, stmt: ir.Move) -> None:
        if self.is_tile:
            self.fault("a move is valid only at lane level", stmt.span)
        is_masked = stmt.predicate is not None
        for vector in (stmt.dst, stmt.src):
            self.vector(vector, stmt.span, is_masked=is_masked)
            # a vector in a local buffer may have any size, and contains no barriers
            if vector.buffer.space != "local" and (message := memory.access_fault(vector)) is not None:
                self.fault(message, vector.span or stmt.span)
        if stmt.dst.width != stmt.src.width or stmt.dst.buffer.dtype != stmt.src.buffer.dtype:
            self.fault(f"a move of {_vector(stmt.src)} to {_vector(stmt.dst)}: widths or types differ", stmt.span)
        spaces = (stmt.dst.buffer.space, stmt.src.buffer.space)
        if "local" not in spaces:
            self.fault(f"a move from {spaces[1]} to {spaces[0]} memory must go through registers", stmt.span)
        if stmt.order:
            self.order("move", stmt.order, stmt.memory.buffer, stmt.span)
        if stmt.cache and (stmt.cache not in CACHE.choices or "global" not in spaces):
            self.fault(f"a move from {spaces[1]} to {spaces[0]} memory has no cache hint {stmt.cache!r}", stmt.span)
        if stmt.predicate is not None:
            self.value(stmt.predicate, bool_, stmt.span, "a predicate")
        if stmt.otherwise is not None:
            self.value(stmt.otherwise, stmt.dst.buffer.dtype, stmt.span, stmt.dst.buffer.name)
            if stmt.predicate is None or spaces[0] != "local":
                self.fault("`otherwise` needs a predicate and a destination in registers", stmt.span)

    def instruction(self, stmt: ir.Instruction) -> None:
        if self.is_tile and (stmt.outputs or stmt.places):
            self.fault(f"{stmt.name} accesses registers or memory, so it is valid only at lane level", stmt.span)
        for output in stmt.outputs:
            self.vector(output, stmt.span)
            if output.buffer.space != "local":
                self.fault(f"{stmt.name} writes registers; {output.buffer.name} is {output.buffer.space}", stmt.span)
        row = row_called(stmt.name)
        cut = instructions.cut_inputs(row, stmt) if row is not None and row.cuts else ()
        for k, value in enumerate(stmt.inputs):
            if isinstance(value, ir.Descriptor):
                self.vector(value.place, stmt.span)
            elif isinstance(value, ir.Vector):
                self.vector(value, stmt.span, is_masked=k in cut)
            else:
                self.exprs((value,), stmt.span)
        if row is not None and row.starts is not None:
            self.pending(stmt)
        self.faults(instructions.instruction_faults(row, stmt, None if self.is_tile else self.target), stmt.span)
        if stmt.var is not None:
            self.define(stmt.var, stmt.span)

    def pending(self, stmt: ir.Instruction) -> None:
        """Report the first operand in local memory, if any, of an instruction that starts asynchronous work."""
        for vector in (*stmt.outputs, *stmt.places):
            if vector.buffer.root.name in self.addressed:
                self.fault(f"{stmt.name} uses registers until its wait; {vector.buffer.name} is addressed", stmt.span)
                return


#: class of statement -> the method that verifies it
_CHECKS: Mapping[type[ir.Stmt], Callable[[_Statements, Any], None]] = {
    ir.Let: _Statements.let,
    ir.Declare: _Statements.declare,
    ir.Assign: _Statements.assign,
    ir.Alloc: _Statements.alloc,
    ir.BufferView: _Statements.view,
    ir.Store: _Statements.store,
    ir.Atomic: _Statements.atomic,
    ir.If: _Statements.branch,
    ir.For: _Statements.counted,
    ir.Loop: _Statements.endless,
    ir.Break: _Statements.jump,
    ir.Continue: _Statements.jump,
    ir.Return: _Statements.end,
    ir.Sync: _Statements.sync,
    ir.Arrive: _Statements.barrier,
    ir.WaitPhase: _Statements.barrier,
    ir.Expect: _Statements.barrier,
    ir.Assert: _Statements.assertion,
    ir.Print: _Statements.print,
    ir.Breakpoint: _Statements.breakpoint,
    ir.TileOp: _Statements.tile_op,
    ir.Move: _Statements.move,
    ir.Instruction: _Statements.instruction,
}


def _vector(vector: ir.Vector) -> str:
    return f"{vector.width} x {vector.buffer.dtype}"


def _map_faults(param: ir_params.TensorMapParam) -> list[str]:
    spec = param.map
    ranks, unit, box = spec.RANKS, spec.UNIT_BYTES, spec.box
    if len(box) not in ranks or spec.swizzle not in SWIZZLE_BITS:
        return [f"a box needs {ranks[0]} to {ranks[-1]} dimensions and a known swizzle; got {box}, {spec.swizzle!r}"]
    if spec.fetch not in FETCH.choices:
        return [f"a tensor map fetches {', '.join(map(str, FETCH.choices))}; got {spec.fetch!r}"]
    counts = range(1, spec.MOST_BOX + 1)
    faults = [f"a box must have 1 to {counts[-1]} elements per dimension; got {n}" for n in box if n not in counts]
    row, bits = box[0] * spec.dtype.bytes, SWIZZLE_BITS[spec.swizzle]
    if row % unit:
        faults.append(f"a row of a box must be a multiple of {unit} bytes; got {row}")
    if bits and row > unit << bits:
        faults.append(f"a row of a box must fit in the {unit << bits} bytes of the swizzle; got {row}")
    if len(set(spec.axes)) != len(spec.axes) or any(axis < 0 for axis in spec.axes):
        faults.append(f"a tensor map must have distinct dimensions of {spec.of}, from 0; got {spec.axes}")
    if len(box) != max(len(spec.axes), ranks[0]):
        faults.append(f"a box of {box} doesn't fit the dimensions {spec.axes} of {spec.of}")
    apart = [share.coordinates for share in param.shares if len(share.coordinates) != len(box)]
    faults += [f"a share of a box needs {len(box)} coordinates; got {step}" for step in apart]
    return faults
