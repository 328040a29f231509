"""The state of the translation of one kernel: emitted statements, the call stack, names and errors."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, NoReturn

from ..dataclass import dataclass, field
from ..dtypes import DType, bool_, int64
from ..errors import KernelSyntaxError, KernelTypeError, TilejitError
from ..ir import walk
from ..ir.arithmetic import build, facts
from ..ir.clusters import Cluster
from ..ir.nodes import Alloc, Break, Buffer, BufferView, Const, Continue, Declare, Expr, Let, Open, Stmt, TileOp, Var
from ..isa.cp_async import CP_ASYNC
from ..layout import TileLayout
from ..layout.grid import Projection
from ..scopes import THREAD
from ..source import Span
from ..target import Target
from ..wording import shown
from .buffers import is_idle
from .flow import Carried, Draft, Enclosure, Exit, Nest
from .source import KernelSource
from .values import Binding, Constant, Memory, Scalar, Value, as_python, describe, is_number, unsuitable, weak_type

if TYPE_CHECKING:
    from ..ir.params import Param
    from .buffer_choices import BufferChoice
    from .kinds import Heads

#: true in the elected lane of each warp; defined at the kernel's entry if `Context.elects`
ELECTED = Var("warp.elected", bool_)

#: the lists and dicts of a context that a discarded translation must not change
_RESTORED = (
    "allocations", "used", "definitions", "buffer_choices", "alternatives", "allocated_in", "fixed", "exchanges",
    "scratch",
)


@dataclass(slots=True, eq=False)
class Frame:
    """The activation record of the kernel, or of a function while a call of it is inlined."""

    source: KernelSource
    node: ast.FunctionDef
    #: the location of the call; None for the kernel
    caller: Span | None = None
    outer: Frame | None = None
    env: dict[str, Binding] = field(default_factory=dict)
    #: the function that contains the call; None for the kernel
    back: Frame | None = None
    #: cache of `Context.span`
    spans: dict[ast.AST, Span] = field(default_factory=dict)
    #: loop-carried names that start as literals -> their state, in the loops that are being translated
    carried: dict[str, Carried] = field(default_factory=dict)


@dataclass(slots=True)
class Located:
    """Context manager that passes a raised TilejitError and `node` to `Context.locate`."""

    ctx: Context
    node: ast.AST

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, TilejitError):
            self.ctx.locate(error, self.node)


@dataclass(slots=True)
class EmitInto:
    """Context manager in which statements are emitted into `block`; a class, because a generator would be slower.

    deeper: the increment of `Context.depth`. enclosure: the construct to enter with the block, if any.
    """

    ctx: Context
    block: Draft
    deeper: int = 0
    enclosure: Enclosure | None = None

    def __enter__(self) -> Draft:
        inner, self.block, self.ctx.block = self.block, self.ctx.block, self.block
        self.ctx.depth += self.deeper
        if self.enclosure is not None:
            self.ctx.enclosures.append(self.enclosure)
        return inner

    def __exit__(self, *_: object) -> None:
        self.ctx.block = self.block
        self.ctx.depth -= self.deeper
        if self.enclosure is not None:
            self.ctx.enclosures.pop()


@dataclass(slots=True)
class Hinted:
    """Context manager in which new memory is named after the variable `name`."""

    ctx: Context
    name: str | None

    def __enter__(self) -> None:
        self.ctx.hint, self.name = self.name, self.ctx.hint

    def __exit__(self, *_: object) -> None:
        self.ctx.hint = self.name


_LARGEST_FLOAT = int(sys.float_info.max)


@dataclass(slots=True)
class Context:
    """The state that all translation functions share.

    The fields up to `unrolled` are settings and the current position, which each construct restores at its end. The
    fields from `allocations` to `scratch` are part of a `snapshot`, so that a translation can be discarded.
    """

    #: node type -> translator; this table and the next one cover all expressions and statements of Python
    expressions: Mapping[type[ast.expr], Callable[[Context, Any], Value]]
    statements: Mapping[type[ast.stmt], Callable[[Context, Any], bool]]
    target: Target
    threads: int

    frame: Frame
    is_cooperative: bool = False
    max_registers: int | None = None
    cluster: Cluster | None = None
    is_checked: bool = False
    #: the names of the variables and buffers that are parameters of the IR's kernel
    parameters: frozenset[str] = frozenset()
    block: Draft = field(default_factory=list)
    #: the number of run-time branches and loops around the current position
    depth: int = 0
    #: the constructs around the current position that can be left early, innermost last (see `joins`)
    enclosures: list[Enclosure] = field(default_factory=list)
    calls: list[ast.FunctionDef] = field(default_factory=list)
    #: the variable that new memory is named after
    hint: str | None = None
    #: the number of iterations of unrolled loops translated since the outermost one began; None outside of these loops
    unrolled: int | None = None

    #: the allocations and views, which are emitted at the kernel's entry
    allocations: list[Stmt] = field(default_factory=list)
    #: the names in use, each with the last number that `unique` appended to it
    used: dict[str, int] = field(default_factory=dict)
    #: the values of the integer variables that `let` created, by variable name
    definitions: dict[str, Expr] = field(default_factory=dict)
    #: the slots and phis of buffers, by buffer name (see `check_copies`)
    buffer_choices: dict[str, BufferChoice] = field(default_factory=dict)
    #: buffer name -> a buffer to which phis may refer; a phi holds a position in this dict (see `buffer_choices`)
    alternatives: dict[str, Buffer] = field(default_factory=dict)
    #: name of an allocated buffer -> the locations of the loops around its allocation
    allocated_in: dict[str, tuple[Span, ...]] = field(default_factory=dict)
    #: the layouts chosen for open tiles whose layout the frontend needed, by buffer name (see `buffers`)
    fixed: dict[str, Projection] = field(default_factory=dict)
    #: (scope, type, number of elements) -> the shared memory of exchanges (see `exchanges`)
    exchanges: dict[tuple[str, DType, int], Buffer] = field(default_factory=dict)

    #: name of an array from `tj.scratch` -> its parameters
    scratch: dict[str, tuple[Param, ...]] = field(default_factory=dict)

    #: the kinds of loop-carried names in a loop's last translation, by the path to the loop (see `joins`)
    loop_kinds: dict[tuple[ast.AST | int, ...], Heads] = field(default_factory=dict)
    #: the number of conversions that `takes_type` counted
    converted_literals: int = 0
    outside: dict[tuple[KernelSource, str], Value] = field(default_factory=dict)
    #: (id of a constant, attribute) -> the constant, which is kept alive so that its id stays valid, and the value
    attributes: dict[tuple[int, str], tuple[Constant, Value]] = field(default_factory=dict)
    elects: bool = False

    def span(self, node: ast.AST) -> Span:
        frame = self.frame
        span = frame.spans.get(node)
        if span is None:
            span = frame.spans[node] = frame.source.span(node, frame.caller)
        return span

    def type_error(self, node: ast.AST, message: str, hint: str | None = None) -> KernelTypeError:
        return KernelTypeError(message, span=self.span(node), hint=hint)

    def syntax_error(self, node: ast.AST, message: str, hint: str | None = None) -> KernelSyntaxError:
        return KernelSyntaxError(message, span=self.span(node), hint=hint)

    def evaluate(self, node: ast.expr) -> Value:
        """Translate an expression and return its value; an element `A[i, j]` is loaded."""
        try:
            return self.expressions[type(node)](self, node)
        except TilejitError as error:
            self.locate(error, node)
            raise

    def execute(self, body: list[ast.stmt]) -> bool:
        """Translate statements; return True if control reaches their end."""
        for node in body:
            try:
                if not self.statements[type(node)](self, node):
                    return False
            except TilejitError as error:
                self.locate(error, node)
                raise
        return True

    def refuse(self, node: ast.AST) -> NoReturn:
        """Raise KernelSyntaxError for syntax that kernels don't support."""
        name = type(node).__name__
        other = f"this syntax ({name})", "write it another way, or compute the value outside the kernel"
        what, instead = _INSTEAD.get(name, other)
        raise self.syntax_error(node, f"{what} can't be used in a kernel", instead)

    def locate(self, error: TilejitError, node: ast.AST) -> None:
        """Set the error's location to the node's, unless it already has one."""
        if error.span is None:
            error.span = self.span(node)

    def emit(self, statement: Stmt) -> None:
        """Append a statement to the current block, unless it is a tile operation with an empty operand."""
        if not isinstance(statement, TileOp) or not is_idle(statement):
            self.block.append(statement)

    def nest(self, make: Callable[..., Stmt], *bodies: Draft) -> None:
        """Emit a statement that `make` will build from `bodies` once these are finished."""
        self.block.append(Nest(bodies, make))

    def nested(self) -> EmitInto:
        """Return a context manager that emits into a new block, which is executed conditionally."""
        return EmitInto(self, [], deeper=1)

    def inside(self, enclosure: Enclosure) -> EmitInto:
        """Return a context manager that emits into a new block of an enclosure, one level deeper for a loop."""
        return EmitInto(self, [], int(enclosure.is_loop), enclosure)

    def leave(self, enclosure: Enclosure, span: Span, jump: type[Break | Continue] | None = Break) -> None:
        """Record an exit from an enclosure at the current position, and emit a placeholder for its statements."""
        between = tuple(self.enclosures[self.enclosures.index(enclosure) + 1 :])
        for inner in between:
            inner.passing.setdefault(enclosure, [])
        late: Draft = []
        self.block.append(late)
        enclosure.exits.append(Exit(jump, dict(self.frame.env), late, self.depth, between, span))

    def allocate(self, statement: Alloc | BufferView) -> None:
        """Emit an allocation or a view at the kernel's entry, unless the buffer has no elements."""
        if not is_idle(statement):
            self.allocations.append(statement)

    def snapshot(self) -> list[tuple[object, str, Any]]:
        """Return copies of the lists and dicts that translation changes, each with its owner and the name of its field.

        Bindings are copied only for the current function: no others change while it is translated.
        """
        parts = [(self, _RESTORED), (self.frame, ("env",)), *[(e, ("exits", "passing")) for e in self.enclosures]]
        return [(owner, name, getattr(owner, name).copy()) for owner, names in parts for name in names]

    def restore(self, snapshot: list[tuple[object, str, Any]]) -> None:
        """Undo the changes since a snapshot, which must have been taken in the same function and enclosure."""
        for owner, name, value in snapshot:
            setattr(owner, name, value)

    def unique(self, name: str) -> str:
        """Reserve and return `name`; if it is taken, with a suffix that makes it unique, as in `name.1`."""
        candidate, number = name, self.used.get(name, 0)
        while candidate in self.used:
            number += 1
            candidate = f"{name}.{number}"
        if number:
            self.used[name] = number
        self.used[candidate] = 0
        return candidate

    def let(self, name: str, value: Expr, span: Span) -> Expr:
        """Return a new variable bound to `value`; return a leaf expression unchanged.

        An integer variable gets the divisor of `value` and, if both are known, its bounds.
        """
        if isinstance(value, walk.LEAVES):
            return value
        multiple, bounds, data = 1, None, False
        if value.dtype.is_integer:
            multiple = facts.multiple_of(value)
            low, high = facts.bounds(value)
            bounds = (low, high) if low is not None and high is not None else None
            data = facts.flagged(value, bounds)
        var = Var(self.unique(name), value.dtype, multiple, bounds, span, data=data)
        if value.dtype.is_integer:
            self.definitions[var.name] = value
        self.emit(Let(var, value, span))
        return var

    def declare(self, name: str, dtype: DType, init: Expr | None, span: Span, *, data: bool) -> Var:
        """Declare a mutable variable. data: True if any value assigned to it may be data (see `facts.is_data`)."""
        var = Var(self.unique(name), dtype, span=span, data=data and dtype is int64)
        self.emit(Declare(var, init, span))
        return var

    def tile(
        self, name: str, scope: str, shape: tuple[int, ...], dtype: DType, span: Span, layout: TileLayout | None = None
    ) -> Memory:
        """Return a new read-only tile; without `layout`, a thread's nonempty tile is row-major, any other is `Open`."""
        chosen: TileLayout | Open | None = layout
        if chosen is None:
            is_row_major = scope == THREAD.name and 0 not in shape
            chosen = TileLayout.row_major(shape or (1,)) if is_row_major else Open(scope)
        buffer = Buffer(self.unique(self.hint or name), "local", dtype, shape, chosen, 16, None, span)
        self.allocate(Alloc(buffer, span=span))
        return Memory.whole(buffer, writable=False)

    def phi(self, buffer: Buffer) -> BufferChoice | None:
        """Return the `BufferChoice` of a phi or of a view of a phi; None for any other buffer."""
        choice = self.buffer_choices.get(buffer.root.name)
        return choice if choice is not None and choice.is_phi else None

    def takes_type(self, value: Value, dtype: DType, *, matters: bool = False) -> None:
        """Count the conversion of a literal to `dtype` if `value` is a weak scalar of another type, or if `matters`."""
        if matters or (isinstance(value, Scalar) and value.weak and value.dtype != dtype):
            self.converted_literals += 1

    def scalar(self, value: Value, node: ast.AST, dtype: DType | None = None, what: str = "a scalar") -> Expr:
        """Return a scalar or a number as an expression; a number takes `dtype` or, if None, its default type."""
        if isinstance(value, Scalar):
            return value.expr
        if isinstance(value, Constant) and is_number(value):
            return self.literal(value.value, dtype or weak_type(value), node)
        raise self.type_error(node, *unsuitable(what, value))

    def literal(self, number: bool | int | float, dtype: DType, node: ast.AST) -> Const:
        """Like `fitting`, but set the location of an error to the location of `node`."""
        with Located(self, node):
            return fitting(number, dtype)

    def constant(self, value: Value, node: ast.AST, what: str, hint: str = "") -> Any:
        """Return a compile-time value as a Python object; raise KernelTypeError for any other value.

        hint: the hint of the error; a general one if empty.
        """
        try:
            return as_python(value)
        except ValueError:
            message = f"{what} must be known at compile time; this is {describe(value)}"
            usual = "use a literal, a captured constant or a tj.constexpr parameter"
            raise self.type_error(node, message, hint or usual) from None

    def integer(self, value: Value, node: ast.AST, what: str, hint: str = "") -> int:
        """Return a compile-time integer; raise KernelTypeError for anything else. hint: see `constant`."""
        if isinstance(value, Constant) and type(value.value) is int:
            return value.value
        number = self.constant(value, node, what, hint)
        if isinstance(number, bool) or not isinstance(number, int):
            raise self.type_error(node, f"{what} must be an integer; got {shown(number)}", "write a whole number")
        return number


def fitting(number: bool | int | float, dtype: DType) -> Const:
    """Return a number, or a member of a numeric enum, as a constant of `dtype`, rounded for a float type.

    raises: KernelTypeError if an integer type can't represent it, or if an integer is too large for a Python float.
    """
    number = number._value_ if isinstance(number, Enum) else number
    if not dtype.is_integer:
        if dtype.is_float and isinstance(number, int) and abs(number) > _LARGEST_FLOAT:
            raise KernelTypeError(
                f"an integer of {number.bit_length():,} bits doesn't fit in {dtype}",
                hint=f"write {'-' * (number < 0)}tj.inf, or a number of smaller magnitude",
            )
        return build.const(number, dtype)
    low, high = facts.full_range(dtype)
    if isinstance(number, float) and not number.is_integer():
        raise KernelTypeError(f"{number!r} is not an integer; {dtype} is needed here", hint="write an integer")
    if not low <= number <= high:
        wide = "int64" if dtype is not int64 and -(2**63) <= number < 2**63 else "float64"
        hint = f"use another type, as in tj.{wide}({number})" if abs(number) <= _LARGEST_FLOAT else "use a smaller one"
        raise KernelTypeError(f"{number} doesn't fit in {dtype}", hint=hint)
    return build.const(number, dtype)


#: kind of unsupported syntax -> its name and the hint
_INSTEAD: dict[str, tuple[str, str]] = {
    "SetComp": ("a set comprehension", "write [...]: a list comprehension makes a tuple"),
    "DictComp": ("a dict comprehension", "build the dict outside, and capture it or pass it as a tj.constexpr"),
    "List": ("a list", "write a tuple (a, b), which `items += (x,)` extends, or allocate with tj.alloc_local"),
    "Set": ("a set", "write a tuple"),
    "Dict": ("a dict", "build it outside, and capture it or pass it as a tj.constexpr"),
    "Await": ("await", f"asynchronous operations have waits, such as tj.{CP_ASYNC.wait}"),
    "Yield": ("yield", "return a value from the helper, or store into a buffer"),
    "YieldFrom": ("yield from", "return a value from the helper, or store into a buffer"),
    "NamedExpr": ("an assignment expression :=", "assign in a separate statement"),
    "Starred": ("a starred expression", "write the items out"),
    "Try": ("try", "kernels have no exceptions: test the condition with if"),
    "TryStar": ("try", "kernels have no exceptions: test the condition with if"),
    "With": ("with", "leave it out: kernels have no context managers"),
    "AsyncWith": ("async with", "leave it out: kernels have no context managers"),
    "AsyncFor": ("async for", "write for"),
    "AsyncFunctionDef": ("an async function", "write def"),
    "Raise": ("raise", "write assert condition, 'message'"),
    "ClassDef": ("a class", "define it outside; kernels take numbers, types, layouts and tuples"),
    "Import": ("import", "import at the top of the module"),
    "ImportFrom": ("import", "import at the top of the module"),
    "Global": ("global", "kernels can't change globals: store into an array"),
    "Nonlocal": ("nonlocal", "return the value from the nested function"),
    "Delete": ("del", "leave it out: names need no deletion"),
    "Match": ("match", "write if and elif"),
    "TypeAlias": ("a type alias", "define it at the top of the module"),
}
