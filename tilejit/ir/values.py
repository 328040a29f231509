"""What statements work on: scalar expressions, memory, and places in it. `nodes` has these names, too."""

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


class HardwareNumber(NamedTuple):
    """An id or a size that the hardware knows: its type, its least and its greatest value.

    register: the special register that has it, of a number of the grid or of a cluster.
    """

    dtype: DType
    least: int
    greatest: int
    register: str = ""


SPECIALS: dict[str, HardwareNumber] = {
    **{name: HardwareNumber(int32, 0, number.greatest) for name, number in THREAD_IDS.items()},
    **{f"cta_id.{k}": HardwareNumber(int64, 0, n - 1, f"ctaid.{'xyz'[k]}") for k, n in enumerate(MAX_GRID)},
    **{f"num_ctas.{k}": HardwareNumber(int64, 1, n, f"nctaid.{'xyz'[k]}") for k, n in enumerate(MAX_GRID)},
    "cluster_rank": HardwareNumber(int32, 0, MAX_CLUSTER - 1, "cluster.ctarank"),
    **{f"cluster_rank.{k}": HardwareNumber(int32, 0, MAX_CLUSTER - 1, f"cluster.ctaid.{'xyz'[k]}") for k in range(3)},
    **{f"cluster_id.{k}": HardwareNumber(int64, 0, n - 1, f"clusterid.{'xyz'[k]}") for k, n in enumerate(MAX_GRID)},
}

#: scopes of the memory model: the threads with which an access or a fence is ordered
MEMORY_SCOPES = ("cta", "cluster", "gpu", "sys")

#: how a statement's access to global or shared memory may be ordered with other threads' accesses; "" is not at all
ORDERS: dict[str, tuple[str, ...]] = {
    "load": ("", "volatile", *(f"{order}.{scope}" for order in ("relaxed", "acquire") for scope in MEMORY_SCOPES)),
    "store": ("", "volatile", *(f"{order}.{scope}" for order in ("relaxed", "release") for scope in MEMORY_SCOPES)),
    # of a vector: LLVM has relaxed accesses of single values only
    "move": ("", "volatile"),
    "atomic": tuple(
        f"{order}.{scope}" for order in ("relaxed", "acquire", "release", "acq_rel") for scope in MEMORY_SCOPES
    ),
}


@lean(frozen=True, slots=True)
class Const:
    """A literal of a type; `value` is a bool, int or float (NaN and infinities included)."""

    value: bool | int | float
    dtype: DType
    span: Span | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        # one NaN object for all, so that equal constants compare equal
        if self.value != self.value:
            object.__setattr__(self, "value", math.nan)

    def __eq__(self, other: object) -> bool:
        """True for the same bits: 0.0 and -0.0 are two constants, one NaN is one."""
        if self is other or other.__class__ is not Const:
            return self is other
        assert isinstance(other, Const)
        if self.dtype is not other.dtype or (self.value is not other.value and self.value != other.value):
            return False
        return self.value != 0 or math.copysign(1, self.value) == math.copysign(1, other.value)


@lean(frozen=True, slots=True)
class Var:
    """A scalar by name: defined by `Let`, `Declare`, `For` or a parameter.

    multiple_of: a number that divides every value it takes (1: nothing is known; 0 would mean always zero).
    bounds: (least, greatest) value, inclusive, or None where unknown.
    uniform: name of the scope whose threads all hold the same value, because the user said so; "" where nobody did.
    data: it may hold any value of an integer type, so that int64 arithmetic on it may overflow; ids, extents, strides
    and ranges over them are not data. See `facts.is_data`.
    """

    name: str
    dtype: DType
    multiple_of: int = 1
    bounds: tuple[int, int] | None = None
    span: Span | None = field(default=None, compare=False, repr=False)
    uniform: str = ""
    data: bool = False

    def __hash__(self) -> int:
        # few have the same name, and sums look their terms up
        return hash(self.name)


@lean(frozen=True, slots=True)
class Special:
    """A hardware id or size from `SPECIALS`."""

    name: str
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def dtype(self) -> DType:
        return SPECIALS[self.name].dtype


@lean(frozen=True, slots=True)
class Op:
    """A scalar operation, by its name in the table of elementwise operations (`tilejit.ops.elementwise`).

    All arguments have the dtype in which the operation computes, except the condition of `where`, which is bool_.
    dtype: the result's; bool_ for comparisons.
    """

    name: str
    args: tuple[Expr, ...]
    dtype: DType
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class Cast:
    """`x` converted to `dtype`: to nearest even; to integers toward zero; saturating where the target is fp8.

    saturate: for fp8 only: as the hardware (True) or as ml_dtypes (False).
    """

    x: Expr
    dtype: DType
    saturate: bool = True
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class Load:
    """The value at a place.

    It is the whole value of a `Let`. Only at lane level, loads of local places may stand anywhere in an expression.
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
    """The layout of a global tensor whose strides are known only at launch.

    strides: elements, an int where known (1 for the stride-1 dimension), else an int64 parameter.
    align: bytes, a power of two that divides the base address and every stride but the 1.
    extent_align: bytes, a power of two that divides the stride-1 dimension's extent.
    """

    strides: tuple[int | Var, ...]
    align: int
    extent_align: int = 1

    @property
    def unit_dim(self) -> int | None:
        """The dimension with stride 1, the last such one, or None."""
        dims = [d for d, s in enumerate(self.strides) if s == 1]
        return dims[-1] if dims else None


@lean(frozen=True, slots=True)
class Open:
    """The layout of a local tile that nobody has laid out yet (open level).

    scope: name of the scope whose threads will own the tile.
    dims: of a view, the dimension of its base that goes along each of its own, None for one of extent 1 that the base
    lacks; else None.
    """

    scope: str
    dims: tuple[int | None, ...] | None = None


@lean(frozen=True, slots=True)
class Buffer:
    """Memory with a shape, a type and a layout.

    space: one of `SPACES`. shape: an int a dimension, or for global tensors an int64 extent parameter.
    layout: where each element lives, in elements of `dtype` from the base (global, shared), or in which thread's
    which register (local).
    align: bytes that divide the base address; for a global tensor as its signature promises.
    base: for a view the buffer whose storage it reinterprets, else None. offset: of a view at lane level, where it
    starts: so many elements behind its base, of which it has the type and the layout; None where it starts where its
    base does.
    slots: of a local tile, the shape that its layout has where that is larger: an extent for each dimension, or one
    for all in row-major order. A slot past the shape is padding, and holds anything. Empty where there is none.
    root: the buffer that owns the storage. start: the buffer, or the one of its bases that says where it starts.
    index_dtype: of indices and of offsets: int32 suffices for what fits in an SM.
    """

    name: str
    space: str
    dtype: DType
    shape: tuple[int | Var, ...]
    layout: TileLayout | Strided | Open
    align: int
    base: Buffer | None = None
    span: Span | None = field(default=None, compare=False, repr=False)
    slots: tuple[int, ...] = ()
    offset: Expr | None = None
    root: Buffer = field(init=False, compare=False, repr=False)
    start: Buffer = field(init=False, compare=False, repr=False)
    index_dtype: DType = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        base = self.base
        object.__setattr__(self, "root", self if base is None else base.root)
        object.__setattr__(self, "start", self if base is None or self.offset is not None else base.start)
        object.__setattr__(self, "index_dtype", int64 if self.space == "global" else int32)

    def __hash__(self) -> int:
        # a kernel's buffers differ in their names, and a hash of the layout walks over it
        return hash(self.name)

    def is_laid_out_as(self, other: Buffer) -> bool:
        """True if both layouts put every element in the same places, however they are written."""
        if self.layout == other.layout:
            return True
        layouts = self.layout, other.layout
        return all(isinstance(each, TileLayout) for each in layouts) and self.tile_layout.equivalent(other.tile_layout)

    @property
    def tile_layout(self) -> TileLayout:
        """The layout of what is no tensor with strides known only at launch, and not open."""
        assert isinstance(self.layout, TileLayout), f"{self.name} is laid out as {self.layout}"
        return self.layout

    @property
    def size_bytes(self) -> int:
        """What it takes: in one thread where it is local; in shared memory with whole periods of a swizzle."""
        return self.tile_layout.footprint() * self.dtype.bytes

    @property
    def columns(self) -> int:
        """How many 32-bit columns of tensor memory it takes."""
        return -(-self.tile_layout.span("TCol") * self.dtype.bits // 32)

    @property
    def fixed_shape(self) -> tuple[int, ...]:
        """The shape of what is no tensor with extents that are known only at launch."""
        for extent in self.shape:
            assert isinstance(extent, int), f"{self.name} has extents that are known only at launch"
        return self.shape  # type: ignore[return-value]

    @property
    def laid_out(self) -> tuple[int | Var, ...]:
        """The shape that its layout has: the slots where there are any."""
        return self.slots or self.shape


@lean(frozen=True, slots=True)
class Gathered:
    """Where a region lies in one dimension is said by the operation's operand `index`, for each of its numbers.

    dim: the buffer's dimension. shape: the operand's, () for a scalar.
    """

    dim: int
    shape: tuple[int, ...]


@lean(frozen=True, slots=True)
class Region:
    """A box of a buffer: per dimension where it starts and how many elements it has. Or many, gathered by an index.

    extents: None for a dimension that a scalar index dropped (one element of it).
    in_bounds: the box is known not to pass a global tensor's edge: by proof, or because the user said so.
    gathered: there is a box for each number of an index, as far along one dimension as that says. Start and extent say
    nothing of this dimension: they are 0 and None.
    shape: the extents of the index, if it is gathered by one, and of the dimensions that are kept.
    counts: how many elements it has in each of the buffer's dimensions; of a gathered one, a box has.
    """

    buffer: Buffer
    starts: tuple[Expr, ...]
    extents: tuple[int | None, ...]
    in_bounds: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)
    gathered: Gathered | None = None
    shape: tuple[int, ...] = field(init=False, compare=False, repr=False)
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
        """The leading extents of the shape: those of the index by which it is gathered."""
        return () if self.gathered is None else self.gathered.shape

    @property
    def box_dims(self) -> tuple[int, ...]:
        """The buffer's dimensions in which start and extent say where it lies."""
        dims = range(len(self.starts))
        return tuple(dims) if self.gathered is None else tuple([d for d in dims if d != self.gathered.dim])


@lean(frozen=True, slots=True)
class Element:
    """One element of a buffer by its logical indices (tile level)."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def counts(self) -> tuple[int, ...]:
        """How many elements it has in each of the buffer's dimensions."""
        return (1,) * len(self.indices)


@lean(frozen=True, slots=True)
class Vector:
    """`width` elements in a row of a buffer's flat storage, from element `offset` (lane level).

    The offset already holds layout and swizzle. For a local buffer it counts the thread's own registers.
    """

    buffer: Buffer
    offset: Expr
    width: int = 1
    span: Span | None = field(default=None, compare=False, repr=False)

TRUE = Const(True, bool_)
FALSE = Const(False, bool_)
