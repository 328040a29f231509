"""Values in kernels as type checkers see them: annotations of parameters, of helpers' parameters and results.

Nothing makes objects of these classes: a kernel is read, not run. Types say what kind of value it is and which members
it has; shapes and element types are checked when the kernel is compiled.
"""

# mypy: disable-error-code="empty-body, misc, no-overload-impl, override"
from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, TypeAlias, overload

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from ..dtypes import DType
    from ..layout import TileLayout

    class ElementType(type, DType):
        """What `tj.float32` is: an element type, an annotation of scalars, and a conversion."""

        # a variable that begins so may hold any scalar later
        @overload
        def __call__(cls, value: float) -> Any: ...
        @overload
        def __call__(cls, value: Tile | Region) -> Tile: ...
        def __eq__(cls, other: object) -> bool: ...
        def __hash__(cls) -> int: ...

    #: whatever takes a number takes a scalar of a kernel too: Python's `min`, `range`, slices, tuples' indices
    _Number = int
    Index: TypeAlias = int | slice | EllipsisType | None
    Indices: TypeAlias = Index | tuple[Index, ...]
    Operand: TypeAlias = "Tile | float"
else:
    _Number = object

__all__ = [
    "Barrier", "Gather", "NamedBarrier", "Region", "RegionElement", "Ring", "RingStep", "Scalar", "Tensor", "Tile",
    "TileElement",
]


class Scalar(_Number):
    """Annotation of a run-time number in a `@tj.function`: what ids, extents, elements and reductions give.

    Example:
        @tj.function
        def after(i: tj.Scalar, n: tj.Scalar) -> tj.Scalar:
            return (i + 1) % n
    """

    @property
    def dtype(self) -> ElementType:
        """Its element type."""

    def astype(self, dtype: DType | DTypeLike, saturate: bool = True) -> Scalar:
        """Converted."""

    def view(self, dtype: DType | DTypeLike) -> Scalar:
        """Its bits as another type of the same width."""

    if TYPE_CHECKING:
        def __index__(self) -> int: ...
        def __hash__(self) -> int: ...
        # with a tile the tile's operators answer
        def __neg__(self) -> Scalar: ...
        def __pos__(self) -> Scalar: ...
        def __invert__(self) -> Scalar: ...
        def __abs__(self) -> Scalar: ...
        def __lt__(self, other: float) -> bool: ...
        def __le__(self, other: float) -> bool: ...
        def __gt__(self, other: float) -> bool: ...
        def __ge__(self, other: float) -> bool: ...
        def __add__(self, other: float, /) -> Scalar: ...
        def __radd__(self, other: float, /) -> Scalar: ...
        def __sub__(self, other: float, /) -> Scalar: ...
        def __rsub__(self, other: float, /) -> Scalar: ...
        def __mul__(self, other: float, /) -> Scalar: ...
        def __rmul__(self, other: float, /) -> Scalar: ...
        def __truediv__(self, other: float, /) -> Scalar: ...
        def __rtruediv__(self, other: float, /) -> Scalar: ...
        def __floordiv__(self, other: float, /) -> Scalar: ...
        def __rfloordiv__(self, other: float, /) -> Scalar: ...
        def __mod__(self, other: float, /) -> Scalar: ...
        def __rmod__(self, other: float, /) -> Scalar: ...
        def __pow__(self, other: float, /) -> Scalar: ...
        def __rpow__(self, other: float, /) -> Scalar: ...
        def __and__(self, other: float, /) -> Scalar: ...
        def __rand__(self, other: float, /) -> Scalar: ...
        def __or__(self, other: float, /) -> Scalar: ...
        def __ror__(self, other: float, /) -> Scalar: ...
        def __xor__(self, other: float, /) -> Scalar: ...
        def __rxor__(self, other: float, /) -> Scalar: ...
        def __lshift__(self, other: float, /) -> Scalar: ...
        def __rlshift__(self, other: float, /) -> Scalar: ...
        def __rshift__(self, other: float, /) -> Scalar: ...
        def __rrshift__(self, other: float, /) -> Scalar: ...


if TYPE_CHECKING:

    class TypedScalar(Scalar, metaclass=ElementType):
        """What `tj.float32` and the others are classes of: numbers of a type that is known."""

        # some checkers ask the metaclass what a call gives, others this
        @overload
        def __new__(cls, value: float, /) -> Any: ...
        @overload
        def __new__(cls, value: Tile | Region, /) -> Tile: ...


class Region:
    """Annotation of memory that has a place: a tensor, what `tj.alloc_shared` and `tj.alloc_tmem` give, parts of them.

    `x[i, j]` is an element, and `x[i, j] = value` converts the value to its type as C does: a float that is known only
    at run time loses its fraction in memory of integers.

    Example:
        @tj.function
        def first_rows(x: tj.Region) -> tj.Region:
            return x[0:8]
    """

    @property
    def shape(self) -> tuple[Scalar, ...]:
        """Its extents."""

    @property
    def size(self) -> Scalar:
        """How many elements it has."""

    def __len__(self) -> int:
        """Its first extent."""

    @property
    def strides(self) -> tuple[Scalar, ...]:
        """The steps from an element to the next, along each dimension, in elements."""

    @property
    def dtype(self) -> ElementType:
        """Its element type."""

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""

    @property
    def layout(self) -> TileLayout:
        """Its layout, which tensors with strides that are known only at launch don't have."""

    @property
    def T(self) -> Region:
        """The dimensions in the opposite order; nothing is moved."""

    @overload
    def __getitem__(self, index: int | tuple[int, ...], /) -> RegionElement | Any: ...
    @overload
    def __getitem__(self, index: Indices, /) -> Region: ...
    def __getitem__(self, index: Indices, /) -> Region:
        """An element, or the region that slices name; an integer drops a dimension."""

    def __setitem__(self, index: Indices, value: float | Tile | Region, /) -> None:
        """Stores an element."""

    def tile(self, shape: int | Sequence[int], index: int | Sequence[int]) -> Region:
        """The index-th tile of a shape; past the edge of a tensor it reads as fill and isn't written."""

    def at(self, index: Tile | int, axis: int = 0) -> Gather:
        """The rows that a tile of indices names: a place for load, store and `tj.atomic`."""

    def permute(self, *axes: int) -> Region:
        """The dimensions in another order; nothing is moved."""

    @overload
    def view(self, shape: int | Sequence[int] | DType | DTypeLike, layout: TileLayout | None = None) -> Region: ...
    @overload
    def view(self, *shape: int) -> Region: ...
    def view(self, *shape: Any, layout: TileLayout | None = None) -> Region:
        """The same memory with another shape and layout, or as another element type."""

    @overload
    def reshape(self, shape: int | Sequence[int]) -> Region: ...
    @overload
    def reshape(self, *shape: int) -> Region: ...
    def reshape(self, *shape: Any) -> Region:
        """The same memory in another shape, elements in row-major order; one extent may be -1."""

    def astype(self, dtype: DType | DTypeLike, saturate: bool = True) -> Scalar:
        """An element, converted."""


class Tensor(Region):
    """Annotation of an array parameter; its default may be a `tj.spec(...)` that pins the type.

    Example:
        @tj.kernel(threads=32)
        def double(A: tj.Tensor) -> None:
            x = tj.warp.load(A[0:32])
            tj.warp.store(A[0:32], x * 2)
    """


class RegionElement(Scalar, Region):
    """What an index of integers names: an element as a value or as a place, or a region of fewer dimensions."""

    def astype(self, dtype: DType | DTypeLike, saturate: bool = True) -> Scalar:
        """Converted."""


class Gather:
    """What `.at` gives: rows named by a tile of indices."""

    @property
    def shape(self) -> tuple[Scalar, ...]:
        """Its extents: the index's, then those of the other dimensions."""

    @property
    def size(self) -> Scalar:
        """How many elements it has."""

    def __len__(self) -> int:
        """Its first extent."""

    @property
    def dtype(self) -> ElementType:
        """Its element type."""

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""

    def __getitem__(self, index: Indices, /) -> Gather:
        """A part of it."""


class Tile:
    """Annotation of a tile in registers: what `tj.alloc_local`, `s.load` and expressions of tiles give.

    Example:
        @tj.function
        def half(x: tj.Tile) -> tj.Tile:
            return x.astype(tj.float32) * 0.5
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extents."""

    @property
    def size(self) -> int:
        """How many elements it has."""

    def __len__(self) -> int:
        """Its first extent."""

    @property
    def strides(self) -> tuple[int, ...]:
        """Of a tile without thread axes: steps in elements."""

    @property
    def dtype(self) -> ElementType:
        """Its element type."""

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""

    @property
    def layout(self) -> TileLayout:
        """Its layout; asking for it fixes that of an open tile."""

    @property
    def scope(self) -> Any:
        """The threads that own it, as in `x.scope.copy(...)`."""

    @property
    def registers(self) -> Tile:
        """The calling thread's own part, as one dimension."""

    @property
    def T(self) -> Tile:
        """The dimensions in the opposite order."""

    @overload
    def __getitem__(self, index: int | tuple[int, ...], /) -> TileElement: ...
    @overload
    def __getitem__(self, index: Indices, /) -> Tile: ...
    def __getitem__(self, index: Indices, /) -> Tile:
        """An element, or a part; None adds a dimension of 1."""

    def __setitem__(self, index: Indices, value: float | Tile | Region, /) -> None:
        """Stores an element of what `tj.alloc_local` gave."""

    def astype(self, dtype: DType | DTypeLike, saturate: bool = True) -> Tile:
        """Converted; fp8 saturates as hardware does, or overflows as in ml_dtypes."""

    @overload
    def reshape(self, shape: int | Sequence[int]) -> Tile: ...
    @overload
    def reshape(self, *shape: int) -> Tile: ...
    def reshape(self, *shape: Any) -> Tile:
        """The elements in row-major order, in another shape; one extent may be -1."""

    def permute(self, *axes: int) -> Tile:
        """The dimensions in another order."""

    @overload
    def view(self, shape: int | Sequence[int] | DType | DTypeLike, layout: TileLayout | None = None) -> Tile: ...
    @overload
    def view(self, *shape: int) -> Tile: ...
    def view(self, *shape: Any, layout: TileLayout | None = None) -> Tile:
        """The same registers with another shape and layout, or as another element type."""

    def tile(self, shape: int | Sequence[int], index: int | Sequence[int]) -> Tile:
        """The index-th part of a shape."""

    if TYPE_CHECKING:
        def __hash__(self) -> int: ...
        def __neg__(self) -> Tile: ...
        def __pos__(self) -> Tile: ...
        def __invert__(self) -> Tile: ...
        def __abs__(self) -> Tile: ...
        def __matmul__(self, other: Tile | Region) -> Tile: ...
        def __eq__(self, other: Operand) -> Tile: ...
        def __ne__(self, other: Operand) -> Tile: ...
        def __add__(self, other: Operand, /) -> Tile: ...
        def __radd__(self, other: Operand, /) -> Tile: ...
        def __sub__(self, other: Operand, /) -> Tile: ...
        def __rsub__(self, other: Operand, /) -> Tile: ...
        def __mul__(self, other: Operand, /) -> Tile: ...
        def __rmul__(self, other: Operand, /) -> Tile: ...
        def __truediv__(self, other: Operand, /) -> Tile: ...
        def __rtruediv__(self, other: Operand, /) -> Tile: ...
        def __floordiv__(self, other: Operand, /) -> Tile: ...
        def __rfloordiv__(self, other: Operand, /) -> Tile: ...
        def __mod__(self, other: Operand, /) -> Tile: ...
        def __rmod__(self, other: Operand, /) -> Tile: ...
        def __pow__(self, other: Operand, /) -> Tile: ...
        def __rpow__(self, other: Operand, /) -> Tile: ...
        def __and__(self, other: Operand, /) -> Tile: ...
        def __rand__(self, other: Operand, /) -> Tile: ...
        def __or__(self, other: Operand, /) -> Tile: ...
        def __ror__(self, other: Operand, /) -> Tile: ...
        def __xor__(self, other: Operand, /) -> Tile: ...
        def __rxor__(self, other: Operand, /) -> Tile: ...
        def __lshift__(self, other: Operand, /) -> Tile: ...
        def __rlshift__(self, other: Operand, /) -> Tile: ...
        def __rshift__(self, other: Operand, /) -> Tile: ...
        def __rrshift__(self, other: Operand, /) -> Tile: ...
        def __lt__(self, other: Operand, /) -> Tile: ...
        def __le__(self, other: Operand, /) -> Tile: ...
        def __gt__(self, other: Operand, /) -> Tile: ...
        def __ge__(self, other: Operand, /) -> Tile: ...


class TileElement(Scalar, Tile):
    """What an index of integers names in a tile: an element, or a part of fewer dimensions."""


class Barrier:
    """What `tj.alloc_barrier` gives: a barrier in shared memory, or several of them."""

    def __getitem__(self, index: int, /) -> Barrier:
        """One of several."""

    def wait(self, n: int) -> None:
        """Waits until phase n is complete, counted from 0; returns at once for n below 0."""

    def test(self, n: int) -> bool:
        """Whether phase n is complete."""

    def expect(self, bytes: int) -> None:
        """Has the present phase await so many bytes of copies besides; each thread that comes here does."""


class NamedBarrier:
    """What `tj.named_barrier` gives: one of the CTA's barriers by its number."""

    def sync(self) -> None:
        """Waits for all of its threads; orders their memory accesses."""

    def arrive(self) -> None:
        """Counts as some of its threads, and goes on."""


class RingStep:
    """What `ring[i]` gives: use i of a ring's stages."""

    @property
    def stage(self) -> Scalar:
        """Which of the ring's stages it uses."""

    @property
    def full(self) -> Barrier:
        """The barrier at which producers arrive."""

    @property
    def empty(self) -> Barrier:
        """The barrier at which consumers arrive."""

    def acquire(self) -> None:
        """Waits until consumers are done with the stage's last use."""

    def wait(self) -> None:
        """Waits until producers have filled the stage."""


class Ring:
    """What `tj.alloc_ring` gives: stages that producers fill and consumers empty."""

    def __getitem__(self, index: int, /) -> RingStep:
        """RingStep i, which uses stage i % stages."""
