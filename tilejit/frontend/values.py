"""The values of names during translation: compile-time values, run-time scalars, tuples, memory, barriers, functions.

Compile-time values have size limits.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..constants import field_names, fields_of, key_of, parts_of
from ..dataclass import field, lean, replace
from ..dtypes import DType, as_dtype, bool_, float32, int32
from ..errors import KernelTypeError
from ..ir.nodes import Buffer, Const, Expr, Gathered, Open, Region
from ..ir.types import ContainerType
from ..scopes import THREAD
from ..source import Span
from ..wording import counted, cut, shown, with_article
from .containers import declaration
from .source import KernelSource

if TYPE_CHECKING:
    from .context import Frame


#: an upper bound of an array's extents
LARGEST_EXTENT = 2**40
#: the maximum number of bits of an integer
MAX_BITS = 4096
#: the maximum length of a string or bytes, and the maximum number of elements of a tuple, counting nested tuples'
MAX_ELEMENTS = 65_536

_SMALLER = "use a smaller value, or compute what depends on it outside the kernel and capture the result"


def check_elements(count: int, what: str = "tuple") -> None:
    """Raise KernelTypeError if a sequence has too many elements. what: the name of its type."""
    if count > MAX_ELEMENTS:
        raise KernelTypeError(
            f"a compile-time {what} has {_approximate(count)} elements; the limit is {MAX_ELEMENTS:,}", hint=_SMALLER
        )


def check_bits(bits: int) -> None:
    """Raise KernelTypeError if an integer has too many bits."""
    if bits > MAX_BITS:
        raise KernelTypeError(
            f"a compile-time integer has {_approximate(bits)} bits; the limit is {MAX_BITS:,}", hint=_SMALLER
        )


def _approximate(count: int) -> str:
    return f"{count:,}" if count.bit_length() <= 64 else f"about 2**{count.bit_length() - 1}"


def _same(a: object, b: object) -> bool:
    """True if a kernel can't distinguish two values; 0, False and -0.0 differ from 0.0."""
    return a is b or type(a) is type(b) and key_of(a) == key_of(b)


@lean(frozen=True, slots=True)
class Constant:
    """A Python value known at compile time. Numbers are weak: their type depends on the other operands."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and _same(self.value, other.value)


@lean(frozen=True, slots=True)
class Scalar:
    """A run-time scalar. weak: True if its type may still change, because so far its values derive from literals."""

    expr: Expr
    weak: bool = False

    @property
    def dtype(self) -> DType:
        return self.expr.dtype


@lean(frozen=True, slots=True)
class Items:
    """A tuple, or a container that is an argument. names: the names of its items if it is a NamedTuple or dataclass."""

    items: tuple[Value, ...]
    names: tuple[str, ...] = ()
    #: the structure of a named tuple or dataclass that is an argument
    container: ContainerType | None = None
    #: the number of values in the tuple, counting those in nested tuples
    size: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        size = sum([item.size if isinstance(item, Items) else 1 for item in self.items])
        check_elements(size)
        object.__setattr__(self, "size", size)


@lean(frozen=True, slots=True)
class Record:
    """An object of a user's frozen dataclass, which kernels see as the values of its fields."""

    kind: type
    names: tuple[str, ...]
    items: tuple[Value, ...]


@lean(frozen=True, slots=True)
class Table:
    """A dict. Its keys are strings and numbers."""

    keys: tuple[Constant, ...]
    items: tuple[Value, ...]


@lean(frozen=True, slots=True)
class Memory:
    """A buffer, or a rectangular part of one."""

    buffer: Buffer
    starts: tuple[Expr, ...]
    #: per dimension of the buffer; None if a scalar index dropped it; an expression for a run-time extent
    extents: tuple[int | Expr | None, ...]
    #: True for parameters and allocations, False for results of expressions and for buffer phis
    writable: bool = True
    in_bounds: bool = False
    #: True if the elements are registers, which need compile-time indices
    constant_indices: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)

    @staticmethod
    def whole(buffer: Buffer, *, writable: bool = True, constant_indices: bool = False) -> Memory:
        zero = Const(0, buffer.index_dtype)
        starts = (zero,) * len(buffer.shape)
        return Memory(buffer, starts, tuple(buffer.shape), writable, False, constant_indices, buffer.span)

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions of the buffer that no index dropped."""
        return tuple([d for d, e in enumerate(self.extents) if e is not None])

    @property
    def is_local(self) -> bool:
        return self.buffer.space == "local"

    @property
    def is_whole(self) -> bool:
        at_start = all(isinstance(s, Const) and s.value == 0 for s in self.starts)
        return at_start and self.extents == self.buffer.shape

    def covers(self, dim: int) -> bool:
        """True if this is provably the whole buffer in a dimension."""
        start, extent, full = self.starts[dim], self.extents[dim], self.buffer.shape[dim]
        return isinstance(start, Const) and start.value == 0 and (extent is full or extent == full)

    @property
    def is_value(self) -> bool:
        """True if names can hold this by value: a whole local tile, or a read-only part of one with constant starts."""
        return self.is_local and (self.is_whole or not self.writable and all(isinstance(s, Const) for s in self.starts))

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the dimensions that no index dropped; they must be static."""
        return tuple([extent for extent in self._static_extents(self.span) if extent is not None])

    def region(self, span: Span | None = None) -> Region:
        """Return the `Region` of the IR; raise KernelTypeError for a run-time extent."""
        place = span or self.span
        return Region(self.buffer, self.starts, self._static_extents(place), self.in_bounds, place)

    def _static_extents(self, place: Span | None) -> tuple[int | None, ...]:
        for dim, extent in enumerate(self.extents):
            if not isinstance(extent, (int, NoneType)):
                raise KernelTypeError(
                    f"dimension {dim} of {self.buffer.root.name} has a run-time extent",
                    span=place,
                    hint="take a slice of static extent, such as 0:N with a tj.constexpr N, "
                    f"or pin the shape: {declaration(self.buffer.root.name, 'tj.Tensor')} = tj.spec(...)",
                )
        return self.extents  # type: ignore[return-value]

    def at(self, span: Span) -> Memory:
        return self if self.span is span else replace(self, span=span)


@lean(frozen=True, slots=True)
class Rows:
    """Rows of memory that an index selects, `X.at(index, axis)`."""

    #: the row at index 0
    memory: Memory
    #: the dimension of the buffer along which the index selects
    dim: int
    index: Memory | Expr

    @property
    def dtype(self) -> DType:
        return self.memory.dtype

    @property
    def index_shape(self) -> tuple[int, ...]:
        return self.index.shape if isinstance(self.index, Memory) else ()

    @property
    def extents(self) -> tuple[int | Expr, ...]:
        """The extents of the index, followed by the extents of a row."""
        return (*self.index_shape, *[extent for extent in self.memory.extents if extent is not None])

    def region(self, span: Span | None = None) -> Region:
        return replace(self.memory.region(span), gathered=Gathered(self.dim, self.index_shape))

    def operand(self, span: Span) -> Region | Expr:
        return self.index.region(span) if isinstance(self.index, Memory) else self.index


@lean(frozen=True, slots=True)
class Barrier:
    """One or more barriers in shared memory. index: the index of one barrier in the buffer; None for all of them."""

    buffer: Buffer
    index: Expr | None

    @property
    def count(self) -> int:
        return self.buffer.tile_layout.size()


@lean(frozen=True, slots=True)
class Ring:
    """Stages that producers fill and consumers empty, each with a `full` and an `empty` barrier."""

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
    """A numbered barrier of the CTA, and the number of threads that use it."""

    number: Expr
    threads: int


@lean(frozen=True, slots=True)
class RingStep:
    """One use of a stage of a ring."""

    ring: Ring
    stage: Expr
    #: the number of earlier uses of the stage
    phase: Expr
    #: the function that created the step
    frame: Frame
    #: the names in `number` that this function had bound, each with its value when the step was created
    counters: tuple[tuple[str, Value], ...]
    #: the expression of the step number
    number: ast.expr = field(compare=False, repr=False)

    @property
    def full(self) -> Barrier:
        return Barrier(self.ring.full, self.stage)

    @property
    def empty(self) -> Barrier:
        return Barrier(self.ring.empty, self.stage)


@lean(frozen=True, slots=True, eq=False)
class Closure:
    """A function that is inlined at its calls. frame: the enclosing function's; None for a captured `@tj.function`."""

    node: ast.FunctionDef
    source: KernelSource
    frame: Frame | None
    defaults: dict[str, Value]


@lean(frozen=True, slots=True)
class Method:
    """A bound method, `receiver.name`."""

    receiver: Value
    name: str


@lean(frozen=True, slots=True)
class ScopedOperation:
    """An operation of a scope, `tj.<scope>.<name>`, which can be called."""

    scope: str
    name: str


@lean(frozen=True, slots=True)
class Unset:
    """A name without a usable value."""

    name: str
    #: the predicate of a sentence whose subject is the name
    problem: str
    hint: str

    @property
    def reason(self) -> str:
        return f"{self.name} {self.problem}"


@lean(frozen=True, slots=True)
class Conflict(Unset):
    """A name whose values on two paths conflict."""

    #: the predicate of a sentence that describes the name on each of the two paths
    difference: str
    remedy: str


Value = (
    Constant | Scalar | Items | Record | Table | Memory | Rows | Barrier | NamedBarrier | Ring | RingStep | Closure
    | Method | ScopedOperation | Unset
)


@lean(frozen=True, slots=True)
class Binding:
    """The value of a name, and the location of the binding."""

    value: Value
    span: Span


def weak_type(value: Value) -> DType:
    """Return a scalar's type, or a literal's default type: its type in an operation without typed operands."""
    if isinstance(value, Scalar):
        return value.dtype
    assert isinstance(value, Constant)
    if isinstance(value.value, bool):
        return bool_
    return int32 if isinstance(value.value, int) else float32


def is_number(value: Value) -> bool:
    return isinstance(value, Constant) and isinstance(value.value, (bool, int, float))


def owner_scope(buffer: Buffer) -> str:
    """Return the scope that owns a local tile: the level that its layout spans; "thread" if it has no thread axes."""
    if isinstance(buffer.layout, Open):
        return buffer.layout.scope
    layout = buffer.tile_layout
    return THREAD.name if layout.scope is None else layout.scope[1]


def how_to_load(memory: Memory) -> str:
    """Return the hint for a region outside registers that is used as a tile."""
    if memory.buffer.space == "tmem":
        return "copy it into registers first: tj.warpgroup.copy_async(x, region), then tj.tcgen05.wait_ld()"
    hint = "load it into registers first: x = tj.cta.load(region)"
    name = memory.buffer.root.name
    is_tensor = memory.buffer.space == "global" and memory.is_whole
    return f"{hint}; a region of {name} is {name}[i : i + N] or {name}.at(indices)" if is_tensor else hint


def unsuitable(what: str, value: Value) -> tuple[str, str]:
    """Return the message and the hint for a value that should be a scalar."""
    hint = "give a number or a run-time scalar"
    if isinstance(value, Memory):
        hint = "index it, as in A[i, j], or use an operation on tiles such as tj.maximum or &"
    elif isinstance(value, (Barrier, RingStep)):
        hint = "pass a barrier by keyword: barrier=..."
    elif isinstance(value, Constant) and value.value is None:
        hint = "a function without return returns None, and an omitted argument is None: return or pass a value"
    return f"{what} is needed here; this is {describe(value)}", hint


def describe(value: Value) -> str:
    """Return a noun phrase that describes a value in messages."""
    if isinstance(value, Constant):
        return f"the constant {shown(value.value)}"
    if isinstance(value, Scalar):
        return f"a scalar of {value.dtype}"
    if isinstance(value, Items):
        is_tuple = value.container is None
        return f"a tuple of {counted(len(value.items), 'item')}" if is_tuple else with_article(str(value.container))
    if isinstance(value, Record):
        return f"{with_article(value.kind.__name__)}({cut(', '.join(value.names))})"
    if isinstance(value, Table):
        return f"a dict of {counted(len(value.items), 'item')}"
    if isinstance(value, Memory):
        kind = "tile" if value.is_local else "region"
        return f"a {value.buffer.space} {kind} of shape {_shown(value.extents)} and {value.dtype}"
    if isinstance(value, Rows):
        return f"a gathered region of shape {_shown(value.extents)} and {value.dtype}"
    if isinstance(value, Barrier):
        return "a barrier" if value.index is not None else f"an array of {counted(value.count, 'barrier')}"
    if isinstance(value, NamedBarrier):
        return "a named barrier"
    if isinstance(value, Ring):
        return f"a ring of {counted(value.stages, 'stage')}"
    if isinstance(value, RingStep):
        return f"a step of {value.ring.name}"
    if isinstance(value, Closure):
        return f"the function {value.node.name}"
    if isinstance(value, Method):
        return f"the method {value.name}"
    return f"tj.{value.scope}.{value.name}" if isinstance(value, ScopedOperation) else "an unset name"


def _shown(extents: Sequence[int | Expr | None]) -> str:
    return f"({', '.join(str(e) if isinstance(e, int) else '?' for e in extents if e is not None)})"


def as_python(value: Value) -> Any:
    """Return the Python value of a constant or a tuple of constants; raise ValueError for anything else."""
    if isinstance(value, Constant):
        return value.value
    if isinstance(value, Items):
        return tuple(as_python(item) for item in value.items)
    raise ValueError(describe(value))


def from_python(value: Any) -> Value:
    """Return a Python object as a value; raise KernelTypeError for a value that is too large."""
    container = from_parts(value, lambda part, _: from_python(part))
    if container is not None:
        return container
    if isinstance(value, (np.dtype, type)):
        return Constant(as_dtype(value) or value)
    if isinstance(value, int):
        check_bits(value.bit_length())
    elif isinstance(value, (str, bytes)):
        check_elements(len(value), type(value).__name__)
    return Constant(value)


def from_parts(value: Any, convert: Callable[[Any, str], Value]) -> Value | None:
    """Return a tuple, dict or object of a frozen dataclass as a value; None for any other object.

    convert: returns a part as a value; its second argument is the suffix of the part's name, such as `[0]`.
    """
    if field_names(type(value)) is None and type(value) is not tuple and type(value) is not dict:
        return None
    fields = fields_of(value)
    check_elements(len(value if fields is None else fields), type(value).__name__)
    items, names = tuple([convert(part, suffix) for suffix, part in parts_of(value)]), tuple(fields or ())
    if isinstance(value, tuple):
        return Items(items, names)
    return Table(tuple(map(Constant, value)), items) if fields is None else Record(type(value), names, items)
