"""The state of reading one kernel: what is emitted so far, the running functions, names and errors."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Any, NoReturn

from ..dataclass import dataclass, field
from ..dtypes import DType, bool_, int64
from ..errors import KernelSyntaxError, KernelTypeError, TilejitError
from ..ir import walk
from ..ir.arithmetic import build, facts
from ..ir.clusters import Cluster
from ..ir.nodes import Alloc, Buffer, BufferView, Const, Declare, Expr, Let, Open, Stmt, TileOp, Var
from ..isa.cp_async import CP_ASYNC
from ..layout import TileLayout
from ..layout.grid import Projection
from ..scopes import THREAD
from ..source import Span
from ..target import Target
from ..wording import shown
from .buffer_choices import BufferChoice
from .carried import Carried
from .drafts import Draft, Late, Nest
from .empties import is_idle
from .enclosures import Enclosure
from .journal import Journal
from .kinds import Heads
from .source import KernelSource, local_names
from .values import Binding, Constant, Memory, Scalar, Value, as_python, default_type, is_number, unsuitable

__all__ = ["ELECTED", "Context", "Frame", "Located", "Tentative", "fitting"]

#: true in each warp's leader; defined at the kernel's entry where `Context.elects`
ELECTED = Var("warp.elected", bool_)


@dataclass(slots=True, eq=False)
class Frame:
    """One running function.

    env: what its names stand for now. locals: the names that it binds anywhere. caller: where it was called, None
    for the kernel. outer: the running function that it is nested in. spans: the places of nodes,
    kept once they were asked for. carried: the names that started as literals and are carried round a loop that is
    being read.
    """

    source: KernelSource
    node: ast.FunctionDef
    caller: Span | None = None
    outer: Frame | None = None
    env: dict[str, Binding] = field(default_factory=dict)
    locals: frozenset[str] = frozenset()
    spans: dict[ast.AST, Span] = field(default_factory=dict)
    carried: dict[str, Carried] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.locals = local_names(self.node)


@dataclass(slots=True)
class Tentative:
    """A reading that may prove wrong: unless it is kept, its changes are undone."""

    kept: bool = False

    def keep(self) -> None:
        self.kept = True


@dataclass(slots=True)
class Located:
    """Gives errors from lower parts, which don't know the source, the place of `node`, in a `with`.

    Only where that isn't what is being read: `evaluate` and `execute` give an error without a place that of theirs.
    """

    ctx: Context
    node: ast.AST

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, TilejitError) and error.span is None:
            error.span = self.ctx.span(self.node)


@dataclass(slots=True)
class Elsewhere:
    """What `Context.into` and `Context.nested` give. deeper: run-time branches around the block.

    A class, as that takes 0.6 µs, a generator 2.0.
    """

    ctx: Context
    block: Draft
    deeper: int = 0

    def __enter__(self) -> Draft:
        inner, self.block, self.ctx.block = self.block, self.ctx.block, self.block
        self.ctx.depth += self.deeper
        return inner

    def __exit__(self, *_: object) -> None:
        self.ctx.block = self.block
        self.ctx.depth -= self.deeper


@dataclass(slots=True)
class Hinted:
    """What `Context.hinted` gives."""

    ctx: Context
    name: str | None

    def __enter__(self) -> None:
        self.ctx.hint, self.name = self.name, self.ctx.hint

    def __exit__(self, *_: object) -> None:
        self.ctx.hint = self.name


#: Python makes a float of no greater integer
_LARGEST_FLOAT = int(sys.float_info.max)


@dataclass(slots=True)
class Context:
    """Everything that the reading functions share.

    *Where* it reads; after each construct these are again as they were before it:
    frame: the running function. block: where statements go now. depth: run-time branches and loops around the
    current place. enclosures: what can be left early from there, innermost last (see `exits`). calls: functions that
    are being inlined. hint: the variable after which memory is named. rounds: how many rounds of the unrolled loops
    around the current place have been read, those of loops inside them included; None outside all of them.

    *What* it has made; only the journal changes it, so that a trial can be dropped:
    frame.env; allocations: buffers and views, which come first in the kernel; used: names that are taken, each with
    the last number that `unique` put behind it; definitions: what integer `Let`s stand for; the exits of enclosures;
    stand_ins, made_in: what `stand_ins.check` needs; alternatives: the buffers that eithers stand for, by name, in the
    order of their numbers (see `places`); fixed: the open tiles that were asked for their layout, by name.

    *What* it has learnt; a dropped trial leaves it as it is:
    learnt: the kinds of loops' names, by where the loops stand (see `loops`). converted_literals: how often a
    variable of literals has taken another type than its default. outside: what names from outside the kernel stand
    for, by whose they are and the name. attributes: those of constants, by the constant's identity and the name, with
    the constant: names from outside are one object in all of a kernel.

    expressions, statements: the tables of node kinds, which have all kinds.
    """

    expressions: Mapping[type[ast.expr], Callable[[Context, Any], Value]]
    statements: Mapping[type[ast.stmt], Callable[[Context, Any], bool]]
    target: Target
    threads: int
    frame: Frame
    is_cooperative: bool = False
    max_registers: int | None = None
    cluster: Cluster | None = None
    is_checked: bool = False
    block: Draft = field(default_factory=list)
    depth: int = 0
    enclosures: list[Enclosure] = field(default_factory=list)
    calls: list[ast.FunctionDef] = field(default_factory=list)
    hint: str | None = None
    rounds: int | None = None
    journal: Journal = field(default_factory=Journal)
    allocations: list[Stmt] = field(default_factory=list)
    used: dict[str, int] = field(default_factory=dict)
    definitions: dict[str, Expr] = field(default_factory=dict)
    learnt: dict[tuple[ast.AST | int, ...], Heads] = field(default_factory=dict)
    converted_literals: int = 0
    outside: dict[tuple[KernelSource, str], Value] = field(default_factory=dict)
    attributes: dict[tuple[int, str], tuple[Constant, Value]] = field(default_factory=dict)
    stand_ins: dict[str, BufferChoice] = field(default_factory=dict)
    alternatives: dict[str, Buffer] = field(default_factory=dict)
    made_in: dict[str, tuple[Span, ...]] = field(default_factory=dict)
    fixed: dict[str, Projection] = field(default_factory=dict)
    #: whether the kernel asks which thread leads a warp
    elects: bool = False

    def span(self, node: ast.AST) -> Span:
        """Where `node` stands, one object however often it is asked."""
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
        """What an expression stands for; `A[i, j]` is loaded."""
        try:
            return self.expressions[type(node)](self, node)
        except TilejitError as error:
            self._locate(error, node)
            raise

    def evaluate_for(self, name: str | None, node: ast.expr) -> Value:
        """As `evaluate`; what the expression allocates is named after the variable that it is assigned to."""
        outer, self.hint = self.hint, name
        try:
            return self.evaluate(node)
        finally:
            self.hint = outer

    def execute(self, body: list[ast.stmt]) -> bool:
        """Read statements; returns whether control reaches their end."""
        for node in body:
            try:
                if not self.statements[type(node)](self, node):
                    return False
            except TilejitError as error:
                self._locate(error, node)
                raise
        return True

    def refuse(self, node: ast.AST) -> NoReturn:
        """Refuses a kind of syntax that kernels don't have."""
        raise self.syntax_error(node, *unsupported(node))

    def _locate(self, error: TilejitError, node: ast.AST) -> None:
        """Gives an error of what was being read the place of `node`, unless it has one: that of a part."""
        if error.span is None:
            error.span = self.span(node)

    def emit(self, statement: Stmt | Late | Nest) -> None:
        """Put a statement at the current place, unless it is an operation on no elements."""
        if not isinstance(statement, TileOp) or not is_idle(statement):
            self.block.append(statement)

    def into(self, block: Draft) -> Elsewhere:
        """Emit into a block."""
        return Elsewhere(self, block)

    def nested(self) -> Elsewhere:
        """Emit into a new block, which runs under a condition."""
        return Elsewhere(self, [], deeper=1)

    def allocate(self, statement: Alloc | BufferView) -> None:
        """Put a buffer or a view before all other statements, unless it has no elements."""
        if not is_idle(statement):
            self.journal.append(self.allocations, statement)

    def bind(self, name: str, binding: Binding) -> None:
        """Give a name of the running function its value."""
        self.journal.put(self.frame.env, name, binding)

    def rebind(self, env: dict[str, Binding]) -> None:
        """Give all names of the running function their values."""
        self.journal.set(self.frame, "env", env)

    @contextmanager
    def trial(self) -> Iterator[Tentative]:
        """Read what may prove wrong, into a block of its own."""
        reading, changes, block = Tentative(), len(self.journal.undo), Draft()
        with self.into(block):
            yield reading
        if reading.kept:
            self.block.extend(block)
        else:
            self.journal.back(changes)

    def hinted(self, name: str | None) -> Hinted:
        """Name what is allocated inside after the variable that it is assigned to."""
        return Hinted(self, name)

    def unique(self, name: str) -> str:
        """`name`, or `name.1` and so on where it is taken."""
        candidate, number = name, self.used.get(name, 0)
        while candidate in self.used:
            number += 1
            candidate = f"{name}.{number}"
        if number:
            self.journal.put(self.used, name, number)
        self.journal.put(self.used, candidate, 0)
        return candidate

    def let(self, name: str, value: Expr, span: Span) -> Expr:
        """Name a value by a `Let`, whose variable carries the value's multiple and bounds."""
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
            self.journal.put(self.definitions, var.name, value)
        self.emit(Let(var, value, span))
        return var

    def declare(self, name: str, dtype: DType, init: Expr | None, span: Span, *, data: bool) -> Var:
        """Declare a variable that changes. data: see `Var.data`, of all values that are assigned to it."""
        var = Var(self.unique(name), dtype, span=span, data=data and dtype is int64)
        self.emit(Declare(var, init, span))
        return var

    def tile(
        self, name: str, scope: str, shape: tuple[int, ...], dtype: DType, span: Span, layout: TileLayout | None = None
    ) -> Memory:
        """A fresh local tile for a result: open where no layout is given; a thread's own is row-major."""
        chosen: TileLayout | Open | None = layout
        if chosen is None:
            is_row_major = scope == THREAD.name and 0 not in shape
            chosen = TileLayout.row_major(shape or (1,)) if is_row_major else Open(scope)
        buffer = Buffer(self.unique(self.hint or name), "local", dtype, shape, chosen, 16, None, span)
        self.allocate(Alloc(buffer, span=span))
        return Memory.whole(buffer, writable=False)

    def either(self, buffer: Buffer) -> BufferChoice | None:
        """What is known of the either that this is, or is a view of; None where it is none."""
        stand_in = self.stand_ins.get(buffer.root.name)
        return stand_in if stand_in is not None and stand_in.is_either else None

    def takes_type(self, value: Value, dtype: DType, *, matters: bool = False) -> None:
        """A literal takes a type: count it where a variable of literals takes another type than it has.

        matters: count it in any case.
        """
        if matters or (isinstance(value, Scalar) and value.weak and value.dtype != dtype):
            self.converted_literals += 1

    def scalar(self, value: Value, node: ast.AST, dtype: DType | None = None, what: str = "a scalar") -> Expr:
        """The value as an expression; a literal takes `dtype`, else its own default."""
        if isinstance(value, Scalar):
            return value.expr
        if isinstance(value, Constant) and is_number(value):
            return self.literal(value.value, dtype or default_type(value.value), node)
        raise self.type_error(node, *unsuitable(what, value))

    def literal(self, number: bool | int | float, dtype: DType, node: ast.AST) -> Const:
        """A number as a constant of `dtype`, which must hold it; a member of an IntEnum is its value."""
        number = number._value_ if isinstance(number, Enum) else number
        try:
            return fitting(number, dtype)
        except KernelTypeError as error:
            self._locate(error, node)
            raise

    def constant(self, value: Value, node: ast.AST, what: str, hint: str = "") -> Any:
        """The value when it is known at compile time. hint: what else to write where it isn't."""
        try:
            return as_python(value)
        except ValueError:
            message, usual = unsuitable(what, value, is_constant=True)
            raise self.type_error(node, message, hint or usual) from None

    def integer(self, value: Value, node: ast.AST, what: str, hint: str = "") -> int:
        """A compile-time integer. hint: as in `constant`."""
        if isinstance(value, Constant) and type(value.value) is int:
            return value.value
        number = self.constant(value, node, what, hint)
        if isinstance(number, bool) or not isinstance(number, int):
            raise self.type_error(node, f"{what} must be an integer; got {shown(number)}", "write a whole number")
        return number


def fitting(number: bool | int | float, dtype: DType) -> Const:
    """A number as a constant of `dtype`.

    raises: KernelTypeError where `dtype` can't hold it; a float type rounds what lies within Python's floats.
    """
    if not dtype.is_integer:
        if dtype.is_float and isinstance(number, int) and abs(number) > _LARGEST_FLOAT:
            raise KernelTypeError(
                f"an integer of {number.bit_length():,} bits doesn't fit in {dtype}",
                hint="write tj.inf, or a smaller number",
            )
        return build.const(number, dtype)
    low, high = facts.full_range(dtype)
    if isinstance(number, float) and not number.is_integer():
        raise KernelTypeError(f"{number!r} is not an integer; {dtype} is needed here", hint="convert it: int(x)")
    if not low <= number <= high:
        raise KernelTypeError(
            f"{number} doesn't fit in {dtype}", hint=f"convert one side, for example tj.int64({number})"
        )
    return build.const(number, dtype)


_A_TUPLE_IN_A_LOOP = "make a tuple in a loop over tj.static_range or a tuple: items = (); for …: items += (item,)"

#: what to write instead of syntax that kernels don't have
_INSTEAD: dict[str, tuple[str, str]] = {
    "Lambda": ("a lambda", "write a nested def, or a @tj.function"),
    "ListComp": ("a list comprehension", _A_TUPLE_IN_A_LOOP),
    "SetComp": ("a set comprehension", _A_TUPLE_IN_A_LOOP),
    "DictComp": ("a dict comprehension", _A_TUPLE_IN_A_LOOP),
    "GeneratorExp": ("a generator expression", _A_TUPLE_IN_A_LOOP),
    "List": ("a list", "write a tuple (a, b), or allocate with tj.alloc_local"),
    "Set": ("a set", "write a tuple"),
    "Dict": ("a dict", "pass separate values or tuples"),
    "Await": ("await", f"asynchronous operations have their own waits, such as tj.{CP_ASYNC.wait}"),
    "Yield": ("yield", "return a value from the helper, or store into a buffer"),
    "YieldFrom": ("yield from", "return a value from the helper, or store into a buffer"),
    "NamedExpr": ("an assignment expression :=", "assign on a line of its own"),
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


def unsupported(node: ast.AST) -> tuple[str, str]:
    """Message and hint for a kind of syntax that kernels don't have."""
    name = type(node).__name__
    what, instead = _INSTEAD.get(name, (f"this syntax ({name})", "use the Python that kernels have: see the README"))
    return f"{what} can't be used in a kernel", instead
