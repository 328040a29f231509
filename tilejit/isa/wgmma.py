"""wgmma: asynchronous products of a warpgroup. A is in shared memory or registers, B in shared memory.

The row of a form is a whole `gemm_async`: a fence, its products, and the commit of the group.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from itertools import product

from ..dataclass import dataclass
from ..dtypes import DType, bfloat16, float16, float32, int8, int32, uint8
from ..scopes import WARPGROUP
from ..target import WARPGROUP as THREADS
from .mma import PTX, PTX_SUMS, WORD_BITS
from .row import (
    B32,
    F32,
    AsyncWork,
    Capability,
    Direction,
    OpenFamily,
    Operand,
    Row,
    carried,
    constant,
    descriptor,
    predicate,
    register,
)

#: rows of A, and bytes of a row of A, in every product
WGMMA_M, K_BYTES = 64, 32

#: maximum columns of B in a product
_MOST_COLUMNS = 256

_DTYPES = {text: dtype for dtype, text in (*PTX.items(), *PTX_SUMS.items())}

PRODUCTS = AsyncWork(
    "products of tensor cores", "gemm_async", wait="wgmma.wait", fills=True, reads=True, is_awaited=True
)

_SOURCE = 'PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions"'


class FactorPlace(Enum):
    """The place of A or B: shared memory with k (K-major) or the other dimension contiguous, or registers (only A)."""

    K_MAJOR = "k"
    MN_MAJOR = "mn"
    REGISTERS = "r"


@dataclass(frozen=True, slots=True)
class Product:
    """One wgmma.mma_async: D (64 x n) = A (64 x k) @ B (k x n), or D + A @ B. a, b, acc: the types of A, B and D."""

    n: int
    a: DType
    b: DType
    acc: DType
    a_place: FactorPlace = FactorPlace.K_MAJOR
    b_place: FactorPlace = FactorPlace.K_MAJOR

    @property
    def k(self) -> int:
        return K_BYTES * 8 // self.a.bits

    @property
    def opcode(self) -> str:
        types = f"{PTX_SUMS[self.acc]}.{PTX[self.a]}.{PTX[self.b]}"
        return f"wgmma.mma_async.sync.aligned.m{WGMMA_M}n{self.n}k{self.k}.{types}"

    @property
    def sums(self) -> int:
        """The number of registers per thread that hold D."""
        return WGMMA_M * self.n // THREADS * self.acc.bits // WORD_BITS

    @property
    def flags(self) -> tuple[int, ...]:
        """Immediates: signs of A and B; for each 16-bit operand in memory, 1 if MN-major, else 0. () for integers."""
        if not self.a.is_float:
            return ()
        places = (self.a_place, self.b_place)
        transposed = [int(place is FactorPlace.MN_MAJOR) for place in places if place is not FactorPlace.REGISTERS]
        return (1, 1, *(transposed if self.a.bits == 16 else ()))


def is_column_count(n: int, a: DType) -> bool:
    """True if products with A of type `a` may have `n` columns."""
    if not 8 <= n <= _MOST_COLUMNS or n % 8:
        return False
    return a.is_float or n in (8, 24) or n % 16 == 0


def sums_of(a: DType, b: DType) -> tuple[DType, ...]:
    """Return the possible accumulator types for A and B of types `a` and `b`; () if wgmma can't multiply these."""
    is_fp8 = a.is_fp8 and b.is_fp8
    if is_fp8 or (a, b) == (float16, float16):
        return float32, float16
    if (a, b) in ((bfloat16, bfloat16), (float32, float32)):
        return (float32,)
    return (int32,) if {a, b} <= {int8, uint8} else ()


def products() -> Iterator[Product]:
    for a, b in product(PTX, repeat=2):
        transposed = (FactorPlace.K_MAJOR, FactorPlace.MN_MAJOR) if a.bits == b.bits == 16 else (FactorPlace.K_MAJOR,)
        for acc, a_place, b_place in product(sums_of(a, b), (*transposed, FactorPlace.REGISTERS), transposed):
            for n in range(8, _MOST_COLUMNS + 1, 8):
                if is_column_count(n, a):
                    yield Product(n, a, b, acc, a_place, b_place)


@dataclass(frozen=True, slots=True)
class WgmmaForm:
    """All products of one gemm_async. m, n, k: the number of products along each dimension; k varies slowest."""

    product: Product
    m: int = 1
    n: int = 1
    k: int = 1

    @property
    def name(self) -> str:
        one = self.product
        types = f"{PTX_SUMS[one.acc]}.{PTX[one.a]}.{PTX[one.b]}"
        sides = f"a_{one.a_place.value}.b_{one.b_place.value}"
        return f"wgmma.m{WGMMA_M}n{one.n}k{one.k}.{types}.{sides}.{self.m}x{self.n}x{self.k}"

    @staticmethod
    def called(name: str) -> WgmmaForm | None:
        """Parse a row's name; return None if there is no such form."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        columns, k, acc, a, b, a_place, b_place, *counts = match.groups()
        one = Product(int(columns), _DTYPES[a], _DTYPES[b], _DTYPES[acc], FactorPlace(a_place), FactorPlace(b_place))
        form = WgmmaForm(one, *map(int, counts))
        is_one = form.name == name and one.acc in sums_of(one.a, one.b) and is_column_count(one.n, one.a)
        return form if is_one and (one.a.bits == 16 or FactorPlace.MN_MAJOR not in (one.a_place, one.b_place)) else None


_TYPES = "|".join(_DTYPES)
_NAME = re.compile(
    rf"wgmma\.m{WGMMA_M}n(\d+)k(\d+)\.({_TYPES})\.({_TYPES})\.({_TYPES})\.a_(k|mn|r)\.b_(k|mn)\.(\d+)x(\d+)x(\d+)"
)


def _wgmma(form: WgmmaForm) -> Row:
    one = form.product
    lines = ["wgmma.fence.sync.aligned;"]
    for k, i, j in product(range(form.k), range(form.m), range(form.n)):
        a = f"{{$a{i}_{k}}}" if one.a_place is FactorPlace.REGISTERS else f"$a{i}_{k}"
        flags = ", ".join(map(str, one.flags))
        accumulate = "$accumulate" if k == 0 else "1"
        tail = f", {flags}" if flags else ""
        lines.append(f"{one.opcode} {{$d{i}_{j}}}, {a}, $b{j}_{k}, {accumulate}{tail};")
    lines.append("wgmma.commit_group.sync.aligned;")
    return Row(
        name=form.name,
        text=" ".join(lines),
        meaning=(
            f"starts to multiply {one.a} {WGMMA_M * form.m}x{one.k * form.k} by {one.b} {one.k * form.k}x"
            f"{one.n * form.n} into {one.acc}, adding to it if $accumulate, as a group"
        ),
        operands=(*_sums(form), *_a(form), *_b(form), predicate("accumulate")),
        since=_TARGET.since,
        ptx=_TARGET.ptx if one.a == one.b or one.a.is_float else _MIXED_INTEGERS,
        only=_TARGET.only, scope=WARPGROUP, starts=PRODUCTS, commits=PRODUCTS, asynchronous=True, memory=True,
        convergent=True, accumulates=True, elides_sync=True, source=_SOURCE,
    )


def _sums(form: WgmmaForm) -> Iterator[Operand]:
    one = form.product
    kind = F32 if one.acc == float32 else B32
    for i, j in product(range(form.m), range(form.n)):
        yield register(f"d{i}_{j}", kind, Direction.INOUT, one.sums, one.acc)


def _a(form: WgmmaForm) -> Iterator[Operand]:
    one = form.product
    for i, k in product(range(form.m), range(form.k)):
        name = f"a{i}_{k}"
        yield register(name, B32, count=4, element=one.a) if one.a_place is FactorPlace.REGISTERS else descriptor(name)


def _b(form: WgmmaForm) -> Iterator[Operand]:
    for j, k in product(range(form.n), range(form.k)):
        yield descriptor(f"b{j}_{k}")


#: the first PTX version with products of int8 and uint8, in either order
_MIXED_INTEGERS = (8, 4)

_TARGET = Capability(name="wgmma", since=90, ptx=(8, 0), only=("sm_90a",))

WGMMA = OpenFamily("wgmma", _TARGET, _wgmma, WgmmaForm.called)

WAIT = Row(
    name="wgmma.wait",
    text="wgmma.wait_group.sync.aligned $groups;",
    meaning="waits until at most the $groups latest gemm_async of this warpgroup are unfinished",
    operands=(carried("registers"), constant("groups", range(8))),
    since=_TARGET.since, ptx=_TARGET.ptx, only=_TARGET.only, scope=WARPGROUP, completes=PRODUCTS, memory=True,
    convergent=True, elides_sync=True, source=_SOURCE,
)

ROWS = (WAIT,)
