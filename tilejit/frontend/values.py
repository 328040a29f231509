"""What names stand for while a kernel is read: compile-time values, run-time scalars, memory, tuples, functions."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dataclass import field, lean, replace
from ..dtypes import DType, as_dtype, bool_, float32, int32
from ..errors import KernelTypeError, shown_file
from ..ir.nodes import Buffer, Const, Expr, Gathered, Open, Region
from ..scopes import THREAD
from ..source import Span
from ..wording import shown
from .sizes import check_elements, check_value
from .source import KernelSource

if TYPE_CHECKING:
    from .context import Frame

__all__ = [
    "Barrier", "Binding", "Closure", "Conflict", "Constant", "Counter", "Items", "Memory", "Method", "NamedBarrier",
    "Ring", "Rows",
    "Scalar", "ScopedOperation", "RingStep", "Unset", "Value",
]


def _same(a: object, b: object) -> bool:
    """True for values that a kernel cannot tell apart, also within tuples: 0, False and -0.0 differ from 0.0."""
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    # repr tells 0.0 from -0.0 and finds nan equal to itself
    return repr(a) == repr(b) if isinstance(a, float) else bool(a == b)


@lean(frozen=True, slots=True)
class Constant:
    """A Python value that is known when the kernel is compiled. Numbers are weak: they take the other side's type."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and _same(self.value, other.value)


@lean(frozen=True, slots=True)
class Scalar:
    """A run-time scalar.

    weak: its type is still open: it is a variable that has joined only literals so far.
    """

    expr: Expr
    weak: bool = False

    @property
    def dtype(self) -> DType:
        return self.expr.dtype


@lean(frozen=True, slots=True)
class Items:
    """A tuple.

    size: how many values it holds, those in its tuples included.
    """

    items: tuple[Value, ...]
    size: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        size = sum([item.size if isinstance(item, Items) else 1 for item in self.items])
        check_elements(size)
        object.__setattr__(self, "size", size)


#: the types of extents that are known at compile time, and of none
_STATIC = frozenset((int, NoneType))


@lean(frozen=True, slots=True)
class Memory:
    """A buffer or a box of one.

    extents: per dimension of the buffer; None where a scalar index dropped it; an expression where it is known
    only at run time (dimensions of a global tensor).
    writable: made by `alloc_*` or a parameter, not the result of an expression.
    constant_indices: its elements are the thread's registers, so that indices must be known at compile time.
    """

    buffer: Buffer
    starts: tuple[Expr, ...]
    extents: tuple[int | Expr | None, ...]
    writable: bool = True
    in_bounds: bool = False
    constant_indices: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)

    @staticmethod
    def whole(buffer: Buffer, *, writable: bool = True, constant_indices: bool = False) -> Memory:
        """All of a buffer."""
        zero = Const(0, buffer.index_dtype)
        starts = (zero,) * len(buffer.shape)
        return Memory(buffer, starts, tuple(buffer.shape), writable, False, constant_indices, buffer.span)

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype

    @property
    def dims(self) -> tuple[int, ...]:
        """The buffer's dimensions that are kept."""
        return tuple([d for d, e in enumerate(self.extents) if e is not None])

    @property
    def is_local(self) -> bool:
        return self.buffer.space == "local"

    @property
    def is_whole(self) -> bool:
        """Whether it is all of its buffer."""
        at_start = all(isinstance(s, Const) and s.value == 0 for s in self.starts)
        return at_start and self.extents == self.buffer.shape

    @property
    def is_value(self) -> bool:
        """Whether names can hold it as a value: a local tile, whole or a part of one that never changes."""
        return self.is_local and (self.is_whole or not self.writable and all(isinstance(s, Const) for s in self.starts))

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the dimensions that are kept, which must be static."""
        return tuple([extent for extent in self._static_extents(self.span) if extent is not None])

    def region(self, span: Span | None = None) -> Region:
        """As the IR's region; KernelTypeError where an extent is known only at run time."""
        place = span or self.span
        return Region(self.buffer, self.starts, self._static_extents(place), self.in_bounds, place)

    def _static_extents(self, place: Span | None) -> tuple[int | None, ...]:
        """The extents, which must be static; errors get the place."""
        if _STATIC.issuperset(map(type, self.extents)):
            return self.extents  # type: ignore[return-value]
        static: list[int | None] = []
        for dim, extent in enumerate(self.extents):
            if extent is None or isinstance(extent, int):
                static.append(extent)
            elif isinstance(extent, Const):
                static.append(int(extent.value))
            else:
                raise KernelTypeError(
                    f"dimension {dim} of {self.buffer.name} has an extent that is known only at run time",
                    span=place,
                    hint="take a part of static extent, from 0 to N where N is a tj.constexpr, "
                    f"or pin the shape: {self.buffer.root.name}: tj.Tensor = tj.spec(...)",
                )
        return tuple(static)

    def at(self, span: Span) -> Memory:
        return self if self.span is span else replace(self, span=span)


@lean(frozen=True, slots=True)
class Rows:
    """`X.at(index, axis)`: boxes of memory, each where a number of an index says.

    memory: one of them, that of number 0. dim: the buffer's dimension that is numbered.
    index: a local tile, or a scalar.
    """

    memory: Memory
    dim: int
    index: Memory | Expr

    @property
    def dtype(self) -> DType:
        return self.memory.dtype

    @property
    def index_shape(self) -> tuple[int, ...]:
        """The leading extents of the shape."""
        return self.index.shape if isinstance(self.index, Memory) else ()

    @property
    def extents(self) -> tuple[int | Expr, ...]:
        """The shape, of which extents may be known only at run time."""
        return (*self.index_shape, *[extent for extent in self.memory.extents if extent is not None])

    def region(self, span: Span | None = None) -> Region:
        """As the IR's region; KernelTypeError where an extent is known only at run time."""
        return replace(self.memory.region(span), gathered=Gathered(self.dim, self.index_shape))

    def operand(self, span: Span) -> Region | Expr:
        """The index, as an operation's operand."""
        return self.index.region(span) if isinstance(self.index, Memory) else self.index


@lean(frozen=True, slots=True)
class Barrier:
    """Barriers in shared memory. index: which of the buffer's it is; None for all of them, of which none is named."""

    buffer: Buffer
    index: Expr | None

    @property
    def count(self) -> int:
        """How many the buffer has."""
        return self.buffer.tile_layout.size()


@lean(frozen=True, slots=True)
class Ring:
    """Stages that producers fill and consumers empty. full, empty: a barrier for each stage."""

    full: Buffer
    empty: Buffer

    @property
    def stages(self) -> int:
        return self.full.tile_layout.size()

    @property
    def name(self) -> str:
        return self.full.name.partition(".full")[0]


@lean(frozen=True, slots=True)
class NamedBarrier:
    """One of a CTA's barriers by its number, for so many threads."""

    number: Expr
    threads: int


@lean(frozen=True, slots=True)
class Counter:
    """A name in the number of a step, and what it stood for in its function when the step was taken."""

    frame: Frame
    name: str
    value: Value


@lean(frozen=True, slots=True)
class RingStep:
    """A use of one stage of a ring.

    stage: which. phase: how often it was used before. counters: the names in the step's number. number: as written.
    """

    ring: Ring
    stage: Expr
    phase: Expr
    counters: tuple[Counter, ...]
    number: ast.expr = field(compare=False, repr=False)

    @property
    def full(self) -> Barrier:
        return Barrier(self.ring.full, self.stage)

    @property
    def empty(self) -> Barrier:
        return Barrier(self.ring.empty, self.stage)


@lean(frozen=True, slots=True, eq=False)
class Closure:
    """A function that is inlined where it is called.

    frame: the running function that defined it, for a nested one; None for a `@tj.function`.
    """

    node: ast.FunctionDef
    source: KernelSource
    frame: Frame | None
    defaults: dict[str, Value]


@lean(frozen=True, slots=True)
class Method:
    """`receiver.name`, to be called."""

    receiver: Value
    name: str


@lean(frozen=True, slots=True)
class ScopedOperation:
    """`tj.<scope>.<name>`, to be called."""

    scope: str
    name: str


@lean(frozen=True, slots=True)
class Unset:
    """A name that has no usable value here.

    problem: what is wrong, said of the name; hint: what to do.
    """

    name: str
    problem: str
    hint: str

    @property
    def reason(self) -> str:
        """The sentence for the error."""
        return f"{self.name} {self.problem}"


@lean(frozen=True, slots=True)
class Conflict(Unset):
    """A name that has values on several paths which don't fit together.

    difference: what it is on which path, said of the name; remedy: what makes them fit.
    """

    difference: str
    remedy: str

    @staticmethod
    def between(name: str, first: tuple[str, Span], second: tuple[str, Span], remedy: str) -> Conflict:
        """first, second: what the name is, and where it is given that."""
        (what_a, a), (what_b, b) = first, second
        difference = f"is {what_a} where line {a.line} gives it, and {what_b} where line {b.line} does"
        problem = f"{difference}: paths that meet must agree in dtype, shape and layout"
        hint = f"{remedy}, or use another name (lines {a.line} and {b.line} of {shown_file(a.file)})"
        return Conflict(name, problem, hint, difference, remedy)


Value = (
    Constant | Scalar | Items | Memory | Rows | Barrier | NamedBarrier | Ring | RingStep | Closure | Method
    | ScopedOperation | Unset
)


@lean(frozen=True, slots=True)
class Binding:
    """A name's value and where it was given."""

    value: Value
    span: Span


def default_type(number: bool | int | float) -> DType:
    """The type of a literal that meets no typed value."""
    if isinstance(number, bool):
        return bool_
    return int32 if isinstance(number, int) else float32


def is_number(value: Value) -> bool:
    return isinstance(value, Constant) and isinstance(value.value, (bool, int, float))


def owner_scope(buffer: Buffer) -> str:
    """The scope that owns a local tile: its layout's outermost level, thread where it has no thread axis."""
    if isinstance(buffer.layout, Open):
        return buffer.layout.scope
    layout = buffer.tile_layout
    return THREAD.name if layout.scope is None else layout.scope[1]


def how_to_load(memory: Memory) -> str:
    """What a hint says of memory where a value is needed; a whole tensor may stand for a pointer."""
    hint = "bring it into registers first: x = tj.cta.load(region)"
    name = memory.buffer.root.name
    is_tensor = memory.buffer.space == "global" and memory.is_whole
    return f"{hint}; a place in {name} is {name}[i : i + N], or {name}.at(indices)" if is_tensor else hint


def unsuitable(what: str, value: Value, *, is_constant: bool = False) -> tuple[str, str]:
    """Message and hint where a value stands that is no scalar; or, if it is to be a constant, not known in time."""
    if is_constant:
        hint = "use a literal, a captured constant or a tj.constexpr parameter"
        return f"{what} must be known at compile time; this is {describe(value)}", hint
    hint = "give a number, or a scalar that is known at run time"
    if isinstance(value, Memory):
        hint = "index it, as in A[i, j], or use an operation on tiles such as tj.maximum and &"
    elif isinstance(value, (Barrier, RingStep)):
        hint = "a barrier is passed by its parameter's name: barrier=..."
    elif isinstance(value, Constant) and value.value is None:
        hint = "None is what a function without return gives, and what is left out: return a value, or pass one"
    return f"{what} is needed here; this is {describe(value)}", hint


def describe(value: Value) -> str:
    """What a value is, for error messages."""
    if isinstance(value, Constant):
        return f"the constant {shown(value.value)}"
    if isinstance(value, Scalar):
        return f"a scalar of {value.dtype}"
    if isinstance(value, Items):
        return f"a tuple of {len(value.items)}"
    if isinstance(value, Memory):
        kind = "tile" if value.is_local else "region"
        return f"a {value.buffer.space} {kind} of shape {_shown(value.extents)} and {value.dtype}"
    if isinstance(value, Rows):
        return f"a gathered region of shape {_shown(value.extents)} and {value.dtype}"
    if isinstance(value, Barrier):
        return "a barrier" if value.index is not None else f"{value.count} barriers"
    if isinstance(value, NamedBarrier):
        return "a named barrier"
    if isinstance(value, Ring):
        return f"a ring of {value.stages} stages"
    if isinstance(value, RingStep):
        return f"a step of {value.ring.name}"
    if isinstance(value, Closure):
        return f"the function {value.node.name}"
    if isinstance(value, Method):
        return f"the method {value.name}"
    return f"tj.{value.scope}.{value.name}" if isinstance(value, ScopedOperation) else "an unset name"


def _shown(extents: Sequence[int | Expr | None]) -> str:
    """A shape in which ? stands for what is known only at run time."""
    kept = [e.value if isinstance(e, Const) else e for e in extents if e is not None]
    return f"({', '.join(str(e) if isinstance(e, int) else '?' for e in kept)})"


def as_python(value: Value) -> Any:
    """The Python value of a constant, or of a tuple of constants; ValueError for anything else."""
    if isinstance(value, Constant):
        return value.value
    if isinstance(value, Items):
        return tuple(as_python(item) for item in value.items)
    raise ValueError(describe(value))


def from_python(value: Any) -> Value:
    """A compile-time Python value; tuples become `Items`.

    raises: KernelTypeError, without a place, for a value that is too large.
    """
    if type(value) is tuple:
        check_elements(len(value))
        return Items(tuple(from_python(item) for item in value))
    if isinstance(value, (np.dtype, type)):
        return Constant(as_dtype(value) or value)
    check_value(value)
    return Constant(value)
