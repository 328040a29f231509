"""Operands of statements: scalar expressions, memory and places. `nodes` re-exports most of these names."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..dataclass import field, lean
from ..dtypes import DType, bool_, int32, int64
from ..layout import TileLayout
from ..scopes import THREAD_IDS
from ..source import Span
from ..target import MAX_CLUSTER, MAX_GRID

SPACES = ("global", "shared", "local", "tmem")


class SpecialRegister(NamedTuple):
    """A special register's type and the inclusive range of its values.

    register: the PTX name of a register of the grid or of a cluster, else "".
    """

    dtype: DType
    least: int
    greatest: int
    register: str = ""


SPECIALS: dict[str, SpecialRegister] = {
    **{name: SpecialRegister(int32, 0, number.greatest) for name, number in THREAD_IDS.items()},
    **{f"cta_id.{k}": SpecialRegister(int64, 0, n - 1, f"ctaid.{'xyz'[k]}") for k, n in enumerate(MAX_GRID)},
    **{f"num_ctas.{k}": SpecialRegister(int64, 1, n, f"nctaid.{'xyz'[k]}") for k, n in enumerate(MAX_GRID)},
    "cluster_rank": SpecialRegister(int32, 0, MAX_CLUSTER - 1, "cluster.ctarank"),
    **{f"cluster_rank.{k}": SpecialRegister(int32, 0, MAX_CLUSTER - 1, f"cluster.ctaid.{'xyz'[k]}") for k in range(3)},
    **{f"cluster_id.{k}": SpecialRegister(int64, 0, n - 1, f"clusterid.{'xyz'[k]}") for k, n in enumerate(MAX_GRID)},
}

#: scopes of the memory model: the sets of threads for which an access or a fence is ordered
MEMORY_SCOPES = ("cta", "cluster", "gpu", "sys")
#: memory orders of atomic operations
MEMORY_ORDERS = ("relaxed", "acquire", "release", "acq_rel")

#: possible memory orders of each kind of access to global or shared memory; "" is a weak access
ORDERS: dict[str, tuple[str, ...]] = {
    "load": ("", "volatile", *(f"{order}.{scope}" for order in ("relaxed", "acquire") for scope in MEMORY_SCOPES)),
    "store": ("", "volatile", *(f"{order}.{scope}" for order in ("relaxed", "release") for scope in MEMORY_SCOPES)),
    # a `Move` may access a vector; LLVM's NVPTX backend supports relaxed accesses to scalars only
    "move": ("", "volatile"),
    "atomic": tuple(f"{order}.{scope}" for order in MEMORY_ORDERS for scope in MEMORY_SCOPES),
}


@lean(frozen=True, slots=True)
class Const:
    """A literal; `value` is a bool, int or float, including NaN and infinities."""

    value: bool | int | float
    dtype: DType
    span: Span | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        # all NaNs become one object, because `__eq__` and `hash` distinguish NaNs by identity
        if self.value != self.value:
            object.__setattr__(self, "value", math.nan)

    def __eq__(self, other: object) -> bool:
        """True for constants of equal type and value. Unlike in IEEE 754, 0.0 and -0.0 differ, and NaNs are equal."""
        if self is other or other.__class__ is not Const:
            return self is other
        assert isinstance(other, Const)
        if self.dtype is not other.dtype or (self.value is not other.value and self.value != other.value):
            return False
        return self.value != 0 or math.copysign(1, self.value) == math.copysign(1, other.value)


@lean(frozen=True, slots=True)
class Var:
    """A scalar variable, defined by a statement (`walk.VARIABLES`), or a parameter of a kernel or of a `Combine`."""

    name: str
    dtype: DType
    #: a divisor of all of the variable's values (1: no other is known, 0: the value is always zero)
    multiple_of: int = 1
    #: inclusive bounds of its value, or None if unknown
    bounds: tuple[int, int] | None = None
    span: Span | None = field(default=None, compare=False, repr=False)
    #: name of the scope over which the user declared the value uniform, or ""
    uniform: str = ""
    #: the variable may hold any value of its integer type, so int64 arithmetic on it may overflow. False for ids,
    #: extents, strides, and loop variables that range over them. See `facts.is_data`
    data: bool = False

    def __hash__(self) -> int:
        # fast, because affine sums look up their terms by hash; distinct variables rarely have the same name
        return hash(self.name)


@lean(frozen=True, slots=True)
class Special:
    """A special register from `SPECIALS`."""

    name: str
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def dtype(self) -> DType:
        return SPECIALS[self.name].dtype


@lean(frozen=True, slots=True)
class Op:
    """A scalar operation from the table of elementwise operations (`tilejit.ops.elementwise`), by name.

    All arguments have the type in which the operation computes, except the condition of `where`, which is bool_.
    dtype: the result's; bool_ for comparisons.
    """

    name: str
    args: tuple[Expr, ...]
    dtype: DType
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class Cast:
    """`x` converted to `dtype`, as by `ops.cast.convert`.

    saturate: False for a conversion to fp8 without saturation, as by ml_dtypes.
    """

    x: Expr
    dtype: DType
    saturate: bool = True
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class Load:
    """The value at a place.

    A load must be the entire value of a `Let`, except that loads from local buffers may occur in any expression at lane
    level.
    order: one of `ORDERS["load"]`.
    """

    place: Element | Vector
    order: str = ""
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def dtype(self) -> DType:
        return self.place.buffer.dtype


Expr = Const | Var | Special | Op | Cast | Load


@lean(frozen=True, slots=True)
class Strided:
    """The layout of a global tensor whose strides may be known only at launch.

    strides: in elements: an int if known (1 for the stride-1 dimension), else an int64 parameter.
    align: in bytes, a power of two that divides the base address and all strides that are parameters.
    extent_align: a power of two that divides the extent of the stride-1 dimension in bytes.
    """

    strides: tuple[int | Var, ...]
    align: int
    extent_align: int = 1

    @property
    def unit_dim(self) -> int | None:
        """The last dimension with stride 1, or None."""
        dims = [d for d, s in enumerate(self.strides) if s == 1]
        return dims[-1] if dims else None


@lean(frozen=True, slots=True)
class Open:
    """A placeholder for a local tile's layout, which the compiler has yet to choose (open level).

    scope: name of the scope whose threads hold the tile.
    dims: for each dimension of a view, the corresponding dimension of its base, or None for an added dimension of
    extent 1. The whole field is None for a tile that isn't a view.
    """

    scope: str
    dims: tuple[int | None, ...] | None = None


@lean(frozen=True, slots=True)
class Buffer:
    """Memory with a shape, a type and a layout."""

    name: str
    #: one of `SPACES`
    space: str
    dtype: DType
    #: for each dimension, an int or (only in global memory) an int64 extent parameter
    shape: tuple[int | Var, ...]
    #: maps each element to an offset from the buffer's start in elements (global, shared), to threads and an index
    #: among each thread's elements (local), or to a lane and an index among the lane's elements (tmem)
    layout: TileLayout | Strided | Open
    #: divisor of the base address in bytes; for a global tensor, as in the argument's type
    align: int
    #: for a view, the buffer whose storage it reinterprets, else None
    base: Buffer | None = None
    span: Span | None = field(default=None, compare=False, repr=False)
    #: for a local tile, the shape of its layout if that is larger than `shape`: an extent per dimension, or one
    #: extent for all elements in row-major order. Slots without an element are padding with undefined contents
    slots: tuple[int, ...] = ()
    #: for a view at lane level, its offset from `base` in elements; the view then has the type and layout of `base`.
    #: None for a view that starts where `base` does
    offset: Expr | None = None
    #: the buffer that owns the storage
    root: Buffer = field(init=False, compare=False, repr=False)
    #: the nearest of the buffer and its bases that has an offset, else the root
    start: Buffer = field(init=False, compare=False, repr=False)
    #: type of indices and offsets: int64 for global memory, int32 for other memory
    index_dtype: DType = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        base = self.base
        object.__setattr__(self, "root", self if base is None else base.root)
        object.__setattr__(self, "start", self if base is None or self.offset is not None else base.start)
        object.__setattr__(self, "index_dtype", int64 if self.space == "global" else int32)

    def __hash__(self) -> int:
        # a kernel's buffers have distinct names, and hashing a layout is slow
        return hash(self.name)

    def is_laid_out_as(self, other: Buffer) -> bool:
        """True if both layouts provably map each element to the same place, even if they are written differently."""
        if self.layout == other.layout:
            return True
        layouts = self.layout, other.layout
        return all(isinstance(each, TileLayout) for each in layouts) and self.tile_layout.equivalent(other.tile_layout)

    @property
    def tile_layout(self) -> TileLayout:
        """The layout, which must be neither `Open` nor `Strided`."""
        assert isinstance(self.layout, TileLayout), f"{self.name} is laid out as {self.layout}"
        return self.layout

    @property
    def size_bytes(self) -> int:
        """The size in bytes (per thread if local), rounded up to a multiple of the swizzle's period, if any."""
        return self.tile_layout.footprint() * self.dtype.bytes

    @property
    def columns(self) -> int:
        """The number of 32-bit columns that the buffer needs in tensor memory."""
        return -(-self.tile_layout.span("TCol") * self.dtype.bits // 32)

    @property
    def fixed_shape(self) -> tuple[int, ...]:
        """The shape; all extents must be known at compile time."""
        for extent in self.shape:
            assert isinstance(extent, int), f"{self.name} has extents that are known only at launch"
        return self.shape  # type: ignore[return-value]

    @property
    def laid_out(self) -> tuple[int | Var, ...]:
        """The shape that the layout covers: `slots` if not empty, else `shape`."""
        return self.slots or self.shape


@lean(frozen=True, slots=True)
class Gathered:
    """A gathered dimension: each element of the operation's operand `index` is the start of a box in `dim`.

    shape: the shape of `index`; () for a scalar.
    """

    dim: int
    shape: tuple[int, ...]


@lean(frozen=True, slots=True)
class Region:
    """A box of a buffer or, if gathered, one box per element of an index."""

    buffer: Buffer
    starts: tuple[Expr, ...]
    #: elements per dimension; None for one that a scalar index dropped (one element), and for the gathered dimension
    extents: tuple[int | None, ...]
    #: the region, or the part that a mask selects, is inside its global tensor, by proof or by the user's promise
    in_bounds: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)
    #: the dimension along which an index positions the boxes; its start and extent are 0 and None
    gathered: Gathered | None = None
    #: the extents of the index if the region is gathered, followed by those of `extents` that aren't None
    shape: tuple[int, ...] = field(init=False, compare=False, repr=False)
    #: number of elements of a box in each of the buffer's dimensions
    counts: tuple[int, ...] = field(init=False, compare=False, repr=False)
    dtype: DType = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        kept = counts = self.extents
        if None in kept:
            counts = tuple([1 if extent is None else extent for extent in kept])
            kept = tuple([extent for extent in kept if extent is not None])
        object.__setattr__(self, "shape", kept if self.gathered is None else self.gathered.shape + kept)
        object.__setattr__(self, "counts", counts)
        object.__setattr__(self, "dtype", self.buffer.dtype)

    @property
    def index_shape(self) -> tuple[int, ...]:
        """The shape of the index that gathers the region, i.e. the leading extents of `shape`; () if not gathered."""
        return () if self.gathered is None else self.gathered.shape

    @property
    def box_dims(self) -> tuple[int, ...]:
        """The dimensions of the buffer in which `starts` positions the box."""
        dims = range(len(self.starts))
        return tuple(dims) if self.gathered is None else tuple([d for d in dims if d != self.gathered.dim])


@lean(frozen=True, slots=True)
class Element:
    """One element of a buffer, by its logical indices (open and tile level)."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def counts(self) -> tuple[int, ...]:
        """The extent accessed in each of the buffer's dimensions: always 1."""
        return (1,) * len(self.indices)


@lean(frozen=True, slots=True)
class Vector:
    """`width` contiguous elements of a buffer's flat storage from element `offset` (lane level).

    The layout, with its swizzle, is already applied to the offset. In a local buffer, the offset is an index among the
    thread's elements; in tensor memory, it is 65536 * lane + 32-bit column.
    """

    buffer: Buffer
    offset: Expr
    width: int = 1
    span: Span | None = field(default=None, compare=False, repr=False)

TRUE = Const(True, bool_)
FALSE = Const(False, bool_)
