"""Kernel parameters: what a launch passes, in the IR and to what loads a compiled kernel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from ..dataclass import dataclass
from ..dtypes import DType
from .values import Buffer, Var

__all__ = [
    "AddressParam", "AssertionsParam", "BarrierParam", "BoxShare", "ExtentParam", "Param", "PointerParam",
    "ScalarParam", "StrideParam", "TensorMapParam", "TensorMapSpec", "written_arguments",
]


@dataclass(frozen=True, slots=True)
class PointerParam:
    """The address of an array's first element.

    of: the name of the argument. written: the kernel may write through it. noalias: no other argument overlaps it.
    """

    of: str
    buffer: Buffer
    written: bool = False
    noalias: bool = False

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
    """A number that the kernel knows as `var`. of: the name of the argument that it comes from."""

    of: str
    var: Var

    writes: ClassVar[None] = None

    @property
    def defines(self) -> Var:
        return self.var

    @property
    def size_bytes(self) -> int:
        return self.var.dtype.bytes

    @property
    def align_bytes(self) -> int:
        return self.var.dtype.bytes


@dataclass(frozen=True, slots=True)
class ScalarParam(_NumberParam):
    """An argument that is a number."""


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
    """The address of an array's first element, as a number: what checked builds compare."""


@dataclass(frozen=True, slots=True)
class AssertionsParam:
    """The address of a record, which the first thread whose `assert` fails fills in.

    WORDS: the names of the record's first 32-bit words. code: 0 while none has failed, else 1 plus the number of the
    assertion in the kernel. padding: aligns what follows, `VALUES` numbers of int64.
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
    """The address of a word by which the CTAs of a cooperative launch wait for each other.

    Its highest bit changes when all have come; the others are 0 before and after. No two launches at a time have one.
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
    """Which boxes of an array TMA copies.

    of: the name of the argument. dtype: of its elements. axes: its dimensions in the order of the hardware, the one
    with stride 1 first. box: elements along each, and along one of extent 1 where the array has a single dimension.
    swizzle: of the box in shared memory, "none", "32B", "64B" or "128B".
    RANKS: dimensions of a box. MOST_BOX: elements along one of them. UNIT_BYTES: what divides addresses, strides and
    rows of boxes, and starts in them. MOST_BOX_BYTES: of a box, as an H100's driver has it.
    EXTENT_END, STRIDE_END_BYTES: below these are an array's extents and strides; a map tells of extents up to 2^32,
    coordinates are int32, and the greatest that is a multiple of 16 lies outside.
    source: CUDA driver API, "Tensor Map Object Management": cuTensorMapEncodeTiled
    """

    of: str
    dtype: DType
    axes: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: str

    RANKS: ClassVar[range] = range(2, 6)
    MOST_BOX: ClassVar[int] = 256
    UNIT_BYTES: ClassVar[int] = 16
    MOST_BOX_BYTES: ClassVar[int] = 232_448
    EXTENT_END: ClassVar[int] = (1 << 31) - 16
    STRIDE_END_BYTES: ClassVar[int] = 1 << 40


@dataclass(frozen=True, slots=True)
class BoxShare:
    """How far a CTA's boxes lie from those of the CTA before it, where CTAs of a cluster share a copy.

    coordinates: in elements, along each dimension of a box. bytes: in shared memory.
    """

    coordinates: tuple[int, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class TensorMapParam:
    """What TMA must know of an array to copy boxes of it: 128 bytes, which a launch makes of the array.

    var: the address of these bytes. written: the kernel may write the array through it.
    shares: of its copies to several CTAs of a cluster, each once; only the simulator asks.
    """

    var: Var
    map: TensorMapSpec
    written: bool = False
    shares: tuple[BoxShare, ...] = ()

    size_bytes: ClassVar[int] = 128
    align_bytes: ClassVar[int] = 64

    @property
    def of(self) -> str:
        """The name of the argument."""
        return self.map.of

    @property
    def defines(self) -> Var:
        return self.var

    @property
    def writes(self) -> str | None:
        return self.of if self.written else None


#: One kernel parameter. size_bytes, align_bytes: of the parameter in the PTX. defines: the variable or buffer that it
#: introduces. writes: the name of the argument whose memory the kernel may write through it.
Param = (
    PointerParam | ScalarParam | ExtentParam | StrideParam | AddressParam | AssertionsParam | BarrierParam
    | TensorMapParam
)


def written_arguments(params: Iterable[Param]) -> frozenset[str]:
    """The arguments whose memory a kernel with these parameters may write."""
    return frozenset(p.writes for p in params if p.writes is not None)
