"""Kernel parameters: the values that a launch passes, as seen by the IR and by the loader of compiled kernels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from ..dataclass import dataclass
from ..dtypes import DType
from .values import Buffer, Expr, Var


@dataclass(frozen=True, slots=True)
class ScratchShape:
    """The extents of an array that each launch allocates, as expressions of arguments and the grid.

    zeroed: its elements are 0 at entry, and the kernel must leave them 0.
    """

    extents: tuple[Expr, ...]
    zeroed: bool = False


@dataclass(frozen=True, slots=True)
class PointerParam:
    """The address of an array's first element.

    of: the argument's name. written: the kernel may write through this pointer.
    noalias: no other argument's array overlaps this one, unless the kernel writes neither.
    scratch: not None if the launch allocates the array, from `tj.scratch`, which `of` then names; None at lane level.
    """

    of: str
    buffer: Buffer
    written: bool = False
    noalias: bool = False
    scratch: ScratchShape | None = None

    size_bytes: ClassVar[int] = 8
    align_bytes: ClassVar[int] = 8

    @property
    def defines(self) -> Buffer:
        return self.buffer

    @property
    def writes(self) -> str | None:
        return self.of if self.written else None


@dataclass(frozen=True, slots=True)
class _NumberParam:
    """A number that the kernel uses as `var`. of: the name of the argument that determines it."""

    of: str
    var: Var

    writes: ClassVar[None] = None

    @property
    def defines(self) -> Var:
        return self.var

    @property
    def size_bytes(self) -> int:
        return self.var.dtype.bytes

    align_bytes = size_bytes


@dataclass(frozen=True, slots=True)
class ScalarParam(_NumberParam):
    """A scalar argument."""


@dataclass(frozen=True, slots=True)
class ExtentParam(_NumberParam):
    """The extent of an array's dimension `axis`."""

    axis: int


@dataclass(frozen=True, slots=True)
class StrideParam(_NumberParam):
    """The stride of an array's dimension `axis`, in elements."""

    axis: int


@dataclass(frozen=True, slots=True)
class AddressParam(_NumberParam):
    """The address of an array's first element as a number, for comparisons in checked builds."""


@dataclass(frozen=True, slots=True)
class AssertionsParam:
    """The address of a record that the first thread to fail an assertion fills in.

    WORDS: names of the 32-bit words at the start of the record. code: 0, or 1 + the index of the failed assertion in
    the kernel. padding: aligns the `VALUES` int64 values that follow.
    """

    WORDS: ClassVar[tuple[str, ...]] = ("code", "thread", "cta_x", "cta_y", "cta_z", "padding")
    WORDS_BYTES: ClassVar[int] = 4 * len(WORDS)
    VALUES: ClassVar[int] = 4
    RECORD_BYTES: ClassVar[int] = WORDS_BYTES + 8 * VALUES

    size_bytes: ClassVar[int] = 8
    align_bytes: ClassVar[int] = 8
    defines: ClassVar[None] = None
    writes: ClassVar[None] = None


@dataclass(frozen=True, slots=True)
class BarrierParam:
    """The address of a 32-bit word through which the CTAs of a cooperative launch synchronize.

    The word's highest bit flips when all CTAs have arrived; its other bits are 0 before the first CTA arrives and after
    the last one has. Concurrent launches use different words.
    """

    buffer: Buffer

    size_bytes: ClassVar[int] = 8
    align_bytes: ClassVar[int] = 8
    writes: ClassVar[None] = None

    @property
    def defines(self) -> Buffer:
        return self.buffer


@dataclass(frozen=True, slots=True)
class TensorMapSpec:
    """The array dimensions, element type, extents and swizzle of the boxes that TMA copies.

    source: CUDA driver API, "Tensor Map Object Management": cuTensorMapEncodeTiled
    """

    #: the default of `fetch`: 2 to 4 % faster than 128B where memory is the limit, equal on large products (H100)
    FETCH: ClassVar[str] = "256B"

    #: the argument's name
    of: str
    dtype: DType
    #: the array's dimensions in TMA's order: first the dimension with stride 1
    axes: tuple[int, ...]
    #: elements along each axis; for a one-dimensional array also 1 along an added axis of extent 1
    box: tuple[int, ...]
    #: swizzle of the box in shared memory: "none", "32B", "64B" or "128B"
    swizzle: str
    #: number of bytes that a load fetches into L2 together, one of the choices of `ops.copies.FETCH`
    fetch: str = FETCH

    #: possible numbers of dimensions of a box; one-dimensional boxes, which TMA supports, aren't used
    RANKS: ClassVar[range] = range(2, 6)
    #: maximum number of elements along one dimension of a box
    MOST_BOX: ClassVar[int] = 256
    #: addresses, strides, and the sizes and starts of a box's rows must be multiples of this
    UNIT_BYTES: ClassVar[int] = 16
    #: maximum size of a box: a CTA's shared memory on an H100, which agrees with what its driver accepted and refused
    MOST_BOX_BYTES: ClassVar[int] = 232_448
    #: exclusive upper bound of an array's extents. A map can encode extents up to 2^32, but coordinates are clamped to
    #: int32: the greatest clamped coordinate, a multiple of 16, must be outside the array
    EXTENT_END: ClassVar[int] = (1 << 31) - 16
    #: exclusive upper bound of an array's strides
    STRIDE_END_BYTES: ClassVar[int] = 1 << 40


@dataclass(frozen=True, slots=True)
class BoxShare:
    """The distance between the boxes of consecutive CTAs of a cluster that share a copy.

    coordinates: in elements, along each dimension of a box. bytes: in shared memory.
    """

    coordinates: tuple[int, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class TensorMapParam:
    """The 128-byte tensor map through which TMA accesses an array; a launch encodes it.

    var: the map's address. written: the kernel may write the array through it.
    shares: the distinct `BoxShare`s of multicast copies through this map; only the simulator needs them.
    """

    var: Var
    map: TensorMapSpec
    written: bool = False
    shares: tuple[BoxShare, ...] = ()

    size_bytes: ClassVar[int] = 128
    align_bytes: ClassVar[int] = 64

    @property
    def of(self) -> str:
        """The argument's name."""
        return self.map.of

    @property
    def defines(self) -> Var:
        return self.var

    @property
    def writes(self) -> str | None:
        return self.of if self.written else None


#: one kernel parameter. size_bytes, align_bytes: the PTX parameter's. defines: its variable or buffer, or None.
#: writes: the name of the argument whose memory the kernel may write through it, or None.
Param = (
    PointerParam | ScalarParam | ExtentParam | StrideParam | AddressParam | AssertionsParam | BarrierParam
    | TensorMapParam
)


def written_arguments(params: Iterable[Param]) -> frozenset[str]:
    """Return the names of the arguments whose memory a kernel with these parameters may write."""
    return frozenset(p.writes for p in params if p.writes is not None)
