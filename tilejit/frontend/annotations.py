"""The types of values in kernels, for type checkers and for annotations of the parameters of kernels and helpers.

Kernels are translated, never executed, so these classes have no instances. Each declares the members of one kind of
value, which the translator and its messages look up here. Shapes and element types are checked when a kernel is
compiled.
"""

# mypy: disable-error-code="empty-body, misc, no-overload-impl, override"
from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, overload

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from ..dtypes import DType
    from ..layout import TileLayout

    class ElementType(type, DType):
        """To type checkers, the metaclass of `tj.float32` and the like, which annotate scalars and convert values."""

        # the result is Any because a variable that is initialized with it may later hold any scalar
        @overload
        def __call__(cls, value: float) -> Any: ...
        @overload
        def __call__(cls, value: Tile | Region) -> Tile: ...
        def __eq__(cls, other: object) -> bool: ...
        def __hash__(cls) -> int: ...

    _Other = TypeVar("_Other")
    _Result = TypeVar("_Result")
    _Truth = TypeVar("_Truth")

    class _Operators(Generic[_Other, _Result, _Truth]):
        """The operators of a value: arithmetic with an `_Other` returns a `_Result`, a comparison a `_Truth`."""

        def __hash__(self) -> int: ...
        def __neg__(self) -> _Result: ...
        def __pos__(self) -> _Result: ...
        def __invert__(self) -> _Result: ...
        def __abs__(self) -> _Result: ...
        def __lt__(self, other: _Other) -> _Truth: ...
        def __le__(self, other: _Other) -> _Truth: ...
        def __gt__(self, other: _Other) -> _Truth: ...
        def __ge__(self, other: _Other) -> _Truth: ...
        def __add__(self, other: _Other, /) -> _Result: ...
        def __radd__(self, other: _Other, /) -> _Result: ...
        def __sub__(self, other: _Other, /) -> _Result: ...
        def __rsub__(self, other: _Other, /) -> _Result: ...
        def __mul__(self, other: _Other, /) -> _Result: ...
        def __rmul__(self, other: _Other, /) -> _Result: ...
        def __truediv__(self, other: _Other, /) -> _Result: ...
        def __rtruediv__(self, other: _Other, /) -> _Result: ...
        def __floordiv__(self, other: _Other, /) -> _Result: ...
        def __rfloordiv__(self, other: _Other, /) -> _Result: ...
        def __mod__(self, other: _Other, /) -> _Result: ...
        def __rmod__(self, other: _Other, /) -> _Result: ...
        def __pow__(self, other: _Other, /) -> _Result: ...
        def __rpow__(self, other: _Other, /) -> _Result: ...
        def __and__(self, other: _Other, /) -> _Result: ...
        def __rand__(self, other: _Other, /) -> _Result: ...
        def __or__(self, other: _Other, /) -> _Result: ...
        def __ror__(self, other: _Other, /) -> _Result: ...
        def __xor__(self, other: _Other, /) -> _Result: ...
        def __rxor__(self, other: _Other, /) -> _Result: ...
        def __lshift__(self, other: _Other, /) -> _Result: ...
        def __rlshift__(self, other: _Other, /) -> _Result: ...
        def __rshift__(self, other: _Other, /) -> _Result: ...
        def __rrshift__(self, other: _Other, /) -> _Result: ...

    Index: TypeAlias = int | slice | EllipsisType | None
    Indices: TypeAlias = Index | tuple[Index, ...]
    Operand: TypeAlias = "Tile | float"

    class _Number(_Operators[float, "Scalar", bool], int):
        """Base class of run-time scalars; to type checkers they are ints, for `min`, `range`, slices and tuple indices.

        If the other operand is a tile, the operators of `Tile` apply.
        """

    class _Elements(_Operators["Operand", "Tile", "Tile"]):
        """The operators of tiles, element by element."""
else:
    _Number = _Elements = object


class Scalar(_Number):
    """Annotation of a run-time number, such as an id, an extent, an element or the result of a reduction.

    Example:
        @tj.function
        def after(i: tj.Scalar, n: tj.Scalar) -> tj.Scalar:
            return (i + 1) % n
    """

    @property
    def dtype(self) -> ElementType:
        """The element type of the value."""

    def astype(self, dtype: DType | DTypeLike, saturate: bool = True) -> Scalar:
        """Return the value converted to `dtype`; without `saturate`, conversions to fp8 overflow as in ml_dtypes."""

    def view(self, dtype: DType | DTypeLike) -> Scalar:
        """Return the bits of the value reinterpreted as another type of the same width."""

    if TYPE_CHECKING:
        def __index__(self) -> int: ...


if TYPE_CHECKING:

    class TypedScalar(Scalar, metaclass=ElementType):
        """To type checkers, the base class of `tj.float32` and the other element types: scalars of a known type."""

        # some type checkers take the type of a call from the metaclass, others from `__new__`
        @overload
        def __new__(cls, value: float, /) -> Any: ...
        @overload
        def __new__(cls, value: Tile | Region, /) -> Tile: ...


_Extent = TypeVar("_Extent")


class _Shaped(Generic[_Extent]):
    """The members of all values that have a shape, whose extents are of type `_Extent`."""

    @property
    def shape(self) -> tuple[_Extent, ...]:
        """The extents, in elements."""

    @property
    def size(self) -> _Extent:
        """The number of elements."""

    def __len__(self) -> int:
        """Return the first extent."""

    @property
    def dtype(self) -> ElementType:
        """The element type."""

    @property
    def ndim(self) -> int:
        """The number of dimensions."""


class Region(_Shaped[Scalar]):
    """Annotation of memory: a tensor, a buffer in shared or tensor memory, or a part of one.

    For an `x` of two dimensions, `x[i, j]` is an element, and `x[i, j] = value` converts the value to the element type
    as in C; for example, a run-time float that is stored to integer memory is truncated.

    Example:
        @tj.function
        def first_rows(x: tj.Region) -> tj.Region:
            return x[0:8]
    """

    @property
    def strides(self) -> tuple[Scalar, ...]:
        """The strides, in elements; raises KernelTypeError if a dimension has none, as in a swizzled buffer."""

    @property
    def layout(self) -> TileLayout:
        """The layout; raises KernelTypeError unless this is a whole buffer whose layout is known at compile time."""

    @property
    def T(self) -> Region:
        """The region with its dimensions reversed; no data is moved."""

    @overload
    def __getitem__(self, index: int | tuple[int, ...], /) -> RegionElement | Any: ...
    @overload
    def __getitem__(self, index: Indices, /) -> Region: ...
    def __getitem__(self, index: Indices, /) -> Region:
        """Return an element or a region; each integer in the index drops a dimension.

        The step of a slice is positive and known at compile time; the start is a constant more than a multiple of it.
        """

    def __setitem__(self, index: Indices, value: float | Tile | Region, /) -> None:
        """Store a scalar to an element."""

    def tile(self, shape: int | Sequence[int], index: int | Sequence[int]) -> Region:
        """Return the tile at `index` in a grid of tiles of `shape`; elements past a tensor's edge are masked."""

    def at(self, index: Tile | int, axis: int = 0) -> Gather:
        """Return the elements at indices along `axis`, to load, store or update; the index's dimensions come first."""

    def permute(self, *axes: int) -> Region:
        """Return the region with its dimensions reordered; no data is moved."""

    @overload
    def view(self, shape: int | Sequence[int] | DType | DTypeLike, layout: TileLayout | None = None) -> Region: ...
    @overload
    def view(self, *shape: int) -> Region: ...
    def view(self, *shape: Any, layout: TileLayout | None = None) -> Region:
        """Return the same memory with another shape and layout, or as another element type."""

    @overload
    def reshape(self, shape: int | Sequence[int]) -> Region: ...
    @overload
    def reshape(self, *shape: int) -> Region: ...
    def reshape(self, *shape: Any) -> Region:
        """Return the same memory in another shape, in row-major order; one extent may be -1."""

    def astype(self, dtype: DType | DTypeLike, saturate: bool = True) -> Scalar:
        """Like `Scalar.astype`, for an element; raises KernelTypeError for any other region."""


class Tensor(Region):
    """Annotation of an array parameter; a default of `tj.spec(...)` fixes its shape, strides and dtype.

    `X.reshape(...)` takes extents that are known at compile time or computed from the kernel's arguments, even if the
    strides of `X` are known only at run time. Equal products of extents, such as `X.shape[0]` in both shapes, keep
    their dimensions; others are merged and split. A launch raises LaunchError unless merged dimensions are adjacent
    (`X.strides[i] == X.shape[i + 1] * X.strides[i + 1]`; extents of 1 don't count, except that of the dimension with
    stride 1) and the number of elements is equal.

    Example:
        @tj.kernel(threads=32)
        def double(A: tj.Tensor) -> None:
            x = tj.warp.load(A[0:32])
            tj.warp.store(A[0:32], x * 2)
    """


class RegionElement(Scalar, Region):
    """The result of indexing a region with integers: an element to read or assign, or a region of lower rank."""

    def astype(self, dtype: DType | DTypeLike, saturate: bool = True) -> Scalar:
        """Return the element converted to `dtype`; without `saturate`, conversions to fp8 overflow as in ml_dtypes."""


class Gather(_Shaped[Scalar]):
    """The result of `.at`: rows of memory that an index or a tile of indices selects."""

    @property
    def shape(self) -> tuple[Scalar, ...]:
        """The extents of the index tile, if any, followed by the extents of a row."""

    def __getitem__(self, index: Indices, /) -> Gather:
        """Return a part of each row; the dimensions of the index tile can't be sliced."""


class Tile(_Shaped[int], _Elements):
    """Annotation of a tile in registers, from `tj.alloc_local`, a load or an expression on tiles.

    Example:
        @tj.function
        def half(x: tj.Tile) -> tj.Tile:
            return x.astype(tj.float32) * 0.5
    """

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides in elements; raises KernelTypeError if a dimension has none, such as a distributed one."""

    @property
    def layout(self) -> TileLayout:
        """The layout of a whole tile; reading it fixes the layout of a tile that has none yet."""

    @property
    def scope(self) -> Any:
        """The scope that owns the tile, for calls such as `x.scope.copy(...)`."""

    @property
    def registers(self) -> Tile:
        """The calling thread's elements, as a one-dimensional tile; indices must be known at compile time."""

    @property
    def T(self) -> Tile:
        """The tile with its dimensions reversed."""

    @overload
    def __getitem__(self, index: int | tuple[int, ...], /) -> TileElement: ...
    @overload
    def __getitem__(self, index: Indices, /) -> Tile: ...
    def __getitem__(self, index: Indices, /) -> Tile:
        """Return an element or a part of the tile; None adds a dimension of extent 1.

        A run-time index must be the same in all threads that hold the tile (see `tj.gather`). The step of a slice is
        known at compile time; if it is negative, elements come in reverse order.
        """

    def __setitem__(self, index: Indices, value: float | Tile | Region, /) -> None:
        """Store a scalar to an element of a thread's own tile, which must come from `tj.alloc_local`."""

    def astype(self, dtype: DType | DTypeLike, saturate: bool = True) -> Tile:
        """Return the tile converted to `dtype`; without `saturate`, conversions to fp8 overflow as in ml_dtypes."""

    @overload
    def reshape(self, shape: int | Sequence[int]) -> Tile: ...
    @overload
    def reshape(self, *shape: int) -> Tile: ...
    def reshape(self, *shape: Any) -> Tile:
        """Return the elements in another shape, in row-major order; one extent may be -1."""

    def permute(self, *axes: int) -> Tile:
        """Return the tile with its dimensions reordered."""

    @overload
    def view(self, shape: int | Sequence[int] | DType | DTypeLike, layout: TileLayout | None = None) -> Tile: ...
    @overload
    def view(self, *shape: int) -> Tile: ...
    def view(self, *shape: Any, layout: TileLayout | None = None) -> Tile:
        """Return the same registers with another shape and layout, or as another element type."""

    def tile(self, shape: int | Sequence[int], index: int | Sequence[int]) -> Tile:
        """Return the part at `index` in a grid of tiles of `shape`."""

    if TYPE_CHECKING:
        def __matmul__(self, other: Tile | Region) -> Tile: ...
        def __eq__(self, other: Operand) -> Tile: ...
        def __ne__(self, other: Operand) -> Tile: ...


class TileElement(Scalar, Tile):
    """The result of indexing a tile with integers: an element, or a part of lower rank."""


class Barrier:
    """The result of `tj.alloc_barrier`: one or more barriers in shared memory, whose phases are numbered from 0."""

    def __getitem__(self, index: int, /) -> Barrier:
        """Return one of several barriers."""

    def wait(self, n: int) -> None:
        """Wait until phase n, the current or the previous phase, is complete; if n is negative, return at once."""

    def test(self, n: int) -> bool:
        """Return True if phase n, the current or the previous phase, is complete, or if n is negative."""

    def expect(self, bytes: int) -> None:
        """Increase the number of bytes that copies must write in the current phase by `bytes` per calling thread."""


class NamedBarrier:
    """The result of `tj.named_barrier`: one of the numbered barriers of the CTA."""

    def sync(self) -> None:
        """Wait for all threads of the barrier, and order their memory accesses."""

    def arrive(self) -> None:
        """Arrive without waiting."""


class RingStep:
    """The result of `ring[i]`: step i, which uses stage `i % stages` of the ring."""

    @property
    def stage(self) -> Scalar:
        """The index of the stage that the step uses."""

    @property
    def full(self) -> Barrier:
        """The barrier at which producers arrive."""

    @property
    def empty(self) -> Barrier:
        """The barrier at which consumers arrive."""

    def acquire(self) -> None:
        """Wait until consumers have released the previous use of the stage."""

    def wait(self) -> None:
        """Wait until producers have filled the stage."""


class Ring:
    """The result of `tj.alloc_ring`: stages that producers fill and consumers empty."""

    def __getitem__(self, index: int, /) -> RingStep:
        """Return step i, which uses stage `i % stages`."""


@cache
def members(*kinds: str) -> tuple[str, ...]:
    """Return the names of the public members of the classes named in `kinds`, in alphabetical order."""
    return tuple(sorted({name for kind in kinds for name in dir(globals()[kind]) if not name.startswith("_")}))
