"""Register fragments of products: the digits that acc, a and b share along m, n and k, and the registers of wgmma.

In a warp's product, lane 4g + t holds the t-th of every four 32-bit words along k in rows g and g + 8 of A and in
column g of B, and columns 2t and 2t + 1 of rows g and g + 8 of the accumulator. A dimension may be in any order on
which the operands that share it agree. One of extent 1 has no digits: all lanes along it hold the same element.

In wgmma, thread 32w + 4g + t of the warpgroup holds these elements, where pack is the number of elements of A in 32
bits:

    accumulator  row 16w + g + 8i     column 8h + 2t + e                   index 4h + 2i + e in its fragment
    A            row 16w + g + 8i     column 4 * pack * h + pack * t + e   index pack * (2h + i) + e

With pack = 2, the formulas of A are those of the accumulator.
source: PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16" and those for other k.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import gcd, prod

import numpy as np

from ...dataclass import dataclass, replace
from ...dtypes import int32
from ...errors import LayoutError
from ...ir.arithmetic import build
from ...ir.arithmetic.evaluate import number
from ...ir.nodes import Const, Expr, Region
from ...isa.mma import MMA_M, MMA_N, Mma
from ...isa.wgmma import WGMMA_M
from ...scopes import WARPGROUP
from ...target import WARP
from ...wording import counted
from .addresses import Stride, Thread, total_along
from .placement import DigitStep, Placement, need_all_threads, need_slice, place
from .views import Digit, DigitSchedule, View

Array = np.ndarray

_M, _N, _K = range(3)

#: (distance between lanes, number of lanes) of the indices g and t, and of dimensions 0 and 1 of each operand
_G, _T = (4, 8), (1, 4)
_LANES = {"acc": (_G, _T), "a": (_G, _T), "b": (_T, _G)}


@dataclass(frozen=True, slots=True)
class Depth:
    """The indices along k of the elements in an instruction's registers."""

    #: the extent of k; indices from this one on are padding
    count: int
    #: the digits over the instructions along k, slowest first
    tiles: tuple[Digit, ...]
    #: the digit over the halves of an instruction's k; None or of extent 1 if instructions don't split k
    half: Digit | None
    #: the digits over lanes
    lanes: tuple[Digit, ...]
    #: the digits over the elements of a 32-bit register, fastest first
    pack: tuple[Digit, ...]

    @staticmethod
    def of_one(form: Mma) -> Depth:
        """Return the `Depth` for k of extent 1, as if an instruction's registers held elements in the order of k."""
        digit = partial(Digit, dim=_K, strides=dict.fromkeys(_LANES, 0))
        lanes = replace(digit(_T[1], weight=form.pack), strides=dict.fromkeys(_LANES, Thread(_T[0])))
        return Depth(1, (), digit(form.halves, weight=4 * form.pack), (lanes,), (digit(form.pack, weight=1),))

    def elements(self, tile: int, half: int) -> Iterator[tuple[int, int]]:
        """Yield (least, greatest) k over all lanes, for each element of a register in `half` of instruction `tile`."""
        reach = sum((digit.extent - 1) * digit.weight for digit in self.lanes)
        first = (half * self.half.weight if self.half is not None else 0) + _worth(tile, self.tiles[::-1])
        for k in range(prod(digit.extent for digit in self.pack)):
            at = first + _worth(k, self.pack)
            yield at, at + reach

    @property
    def lane_step(self) -> int:
        """A common divisor of the lanes' contributions to k."""
        return gcd(*(digit.weight for digit in self.lanes))

    def of_lane(self, thread: Expr) -> Expr:
        values = (DigitStep(digit.extent, digit.strides["a"]).of_thread(thread) for digit in self.lanes)
        return build.weighted_sum([(value, d.weight) for value, d in zip(values, self.lanes, strict=True)], int32)


def _worth(value: int, digits: Iterable[Digit]) -> int:
    total = 0
    for digit in digits:
        value, at = divmod(value, digit.extent)
        total += at * digit.weight
    return total


@dataclass(frozen=True, slots=True)
class Fragments:
    """The digits over registers of the operands "acc", "a" and "b" of a warp's product, in dimensions (m, n, k)."""

    #: the digits over instruction tiles, slowest first
    m: DigitSchedule
    n: DigitSchedule
    k: DigitSchedule
    #: the digit over the two groups of 8 rows of an instruction; None if m is 1
    row: Digit | None
    #: the digit over a lane's two columns of the accumulator; None if n is 1
    pair: Digit | None
    #: the digit over the two halves of an instruction's k; None if k is 1 or isn't split
    half: Digit | None
    depth: Depth


def _need_lanes(placement: Placement, operand: str) -> None:
    for dim, at, (distance, count) in zip(range(2), _dims(placement), _LANES[operand], strict=True):
        if at is None:
            continue
        steps = [s for s in placement.dims[at] if isinstance(s.stride, Thread)]
        wanted = {distance << bit for bit in range(count.bit_length() - 1)}
        taken: set[int] = set()
        for step in steps:
            bits = _lane_bits(step)
            if bits is None or not bits <= wanted:
                raise LayoutError(_no_fragment(placement, operand, dim, _shown(step), f"{count}:{distance}@laneid"))
            taken |= bits
        if taken != wanted:
            shown = ", ".join(map(_shown, steps)) or "no lanes"
            raise LayoutError(_no_fragment(placement, operand, dim, shown, f"{count}:{distance}@laneid"))


def _dims(placement: Placement) -> list[int | None]:
    """Return the placement's dimension for each dimension of the matrix; None for an extent of 1."""
    region = placement.region
    kept = [d for d, extent in enumerate(region.extents) if extent is not None]
    return [placement.places.index(d) if d in placement.places else None for d in kept]


def _no_fragment(placement: Placement, operand: str, dim: int, shown: str, wanted: str) -> str:
    name = placement.buffer.name
    which = name if name == operand else f"{operand} ({name})"
    return f"{which} is not a fragment: dimension {dim} is spread over {shown}; needs lanes {wanted}"


def _lane_bits(step: DigitStep) -> set[int] | None:
    """Return the lane distances of a step's bits within a warp; None if its stride or extent isn't a power of two."""
    first, extent = step.threads, step.extent
    if first >= WARP:
        return set()
    if first & (first - 1) or extent & (extent - 1):
        return None
    return {first << bit for bit in range(extent.bit_length() - 1) if first << bit < WARP}


def _shown(step: DigitStep) -> str:
    if not isinstance(step.stride, Thread):
        return f"{step.extent}:{step.stride}"
    stride = step.threads
    return f"{step.extent}:{stride}@laneid" if stride < WARP else f"{step.extent}:{stride // WARP}@warpid"


def fragment(region: Region, name: str, scope: str, threads: int, pack: int) -> Placement:
    """Return operand `name`'s placement, or raise LayoutError if it isn't a fragment. pack: elements in 32 bits."""
    placement = place(region, scope)
    need_slice(placement)
    _need_lanes(placement, name)
    need_all_threads(placement, scope, threads)
    first = placement.start
    assert isinstance(first, Const)
    if int(first.value) % pack:
        raise LayoutError(
            f"the region of {region.buffer.name} starts at element {first.value} of a lane, inside a 32-bit register; "
            f"needs a multiple of {pack}"
        )
    return placement


def share(operands: Mapping[str, Placement], form: Mma) -> Fragments:
    """Return the digits that placements from `fragment` share, or raise LayoutError if they disagree."""
    (m, n), (_, k) = operands["acc"].region.shape, operands["a"].region.shape
    along = {"acc": (_M, _N), "a": (_M, _K), "b": (_K, _N)}
    sides = {name: (placement, _along(placement, along[name])) for name, placement in operands.items()}
    product = DigitSchedule.of((m, n, k), sides)
    rows = _registers(product, _M, "acc", "a")
    columns = _registers(product, _N, "acc", "b")
    depth, pack = _without_packs(_registers(product, _K, "a", "b"), product, form) if k > 1 else ([], ())
    row = pair = half = None
    if n > 1:
        pair, columns = _without_pair(columns, product, form)
    # The registers of these operands must be whole 32-bit words. An accumulator with m or n = 1, and A and B with
    # k = 1, are copied to scratch registers, so theirs need not be.
    words = ("acc",) * (m > 1 and n > 1) + ("a", "b") * (k > 1)
    _need_words(product, words, (*rows, *columns, *depth), form)
    if m > 1:
        row, rows = _halved(rows, "a second group of 8 rows in registers")
    if k > 1 and form.halves == 2:
        half, depth = _halved(depth, f"{form.k} elements along k in registers")
    lanes = tuple(d for d in product.digits if d.dim == _K and d.is_spread("a"))
    deep = Depth(k, tuple(depth), half, lanes, pack) if k > 1 else Depth.of_one(form)
    return Fragments(product.over(rows), product.over(columns), product.over(depth), row, pair, half, deep)


def _along(placement: Placement, dims: tuple[int, int]) -> list[int | None]:
    at = dict(zip(dims, _dims(placement), strict=True))
    return [at.get(dim) for dim in (_M, _N, _K)]


def _registers(product: DigitSchedule, dim: int, first: str, second: str) -> list[Digit]:
    """Return a dimension's digits over registers, or raise LayoutError if the operands distribute it differently."""
    name, x, y = "mnk"[dim], product[first], product[second]
    digits: list[Digit] = []
    for digit in (d for d in product.digits if d.dim == dim):
        if dim in product.folded:
            raise LayoutError(f"{x.buffer.name} and {y.buffer.name} split {name} into tiles that don't match")
        if _is_threads(name, digit.strides[first], digit.strides[second]):
            continue
        # one lane of acc holds columns 2t and 2t + 1, which in B begin at lanes 8t and 8t + 4
        is_pair = dim == _N and digit.extent == 2 and digit.strides["b"] == Thread(4)
        if digit.is_spread(first) or (digit.is_spread(second) and not is_pair):
            raise LayoutError(_disagree(name, x, y, digit))
        digits.append(digit)
    return digits


def _is_threads(name: str, p: Stride, q: Stride) -> bool:
    """True if strides `p` of the accumulator or A and `q` of the other operand assign a digit to the same threads.

    Along k only lanes are allowed. Along n, a lane stride in B is 8 times that in the accumulator.
    """
    if not isinstance(p, Thread) or not isinstance(q, Thread):
        return False
    if name == "k":
        # warps can't divide k, since their sums aren't added
        return p == q and p.stride < WARP
    return q.stride == (8 if name == "n" and p.stride < WARP else 1) * p.stride


def _disagree(name: str, x: View, y: View, digit: Digit) -> str:
    first = digit.strides[x.name]
    p, q = (_shown(DigitStep(digit.extent, digit.strides[view.name])) for view in (x, y))
    if name == "k" and isinstance(first, Thread) and first.stride >= WARP:
        return f"k is spread over {p} in {x.buffer.name}: each warp has only a part of each dot product"
    return f"{x.buffer.name} and {y.buffer.name} distribute {name} differently: over {p} in one, over {q} in the other"


def _without_pair(digits: list[Digit], product: DigitSchedule, form: Mma) -> tuple[Digit, list[Digit]]:
    """Return the digit over a lane's two columns and the other digits of n, or raise LayoutError."""
    (pair,) = (d for d in digits if d.is_spread("b"))
    step = pair.elements("acc")
    if form.acc_pack == 2 and step != 1:
        name = product["acc"].buffer.name
        raise LayoutError(
            f"a lane's columns 2t and 2t + 1 of {name} are {step} elements apart; must be 1 apart, in a 32-bit register"
        )
    return pair, [d for d in digits if d is not pair]


def _without_packs(digits: list[Digit], product: DigitSchedule, form: Mma) -> tuple[list[Digit], tuple[Digit, ...]]:
    """Return the digits of k over 32-bit registers and those over a register's elements, or raise LayoutError."""
    unpacked, packed, pack = list(digits), 1, list[Digit]()
    while packed < form.pack:
        at = next((i for i, d in enumerate(unpacked) if d.strides["a"] == packed == d.strides["b"]), None)
        taken = 0 if at is None else min(unpacked[at].extent, form.pack // packed)
        if at is None or unpacked[at].extent % taken or form.pack % (packed * taken):
            names = " and ".join(product[name].buffer.name for name in ("a", "b"))
            raise LayoutError(
                f"a 32-bit register holds {form.pack} consecutive elements along k; "
                f"the runs common to {names} have {packed}"
            )
        outer, inner = unpacked.pop(at).split(taken)
        unpacked[at:at] = [outer] if outer.extent > 1 else []
        pack.append(inner)
        packed *= taken
    return unpacked, tuple(pack)


def _need_words(product: DigitSchedule, names: Sequence[str], digits: Iterable[Digit], form: Mma) -> None:
    packs = {"acc": form.acc_pack, "a": form.pack, "b": form.pack}
    for digit in digits:
        for name in names:
            stride = digit.strides[name]
            if isinstance(stride, int) and stride % packs[name]:
                raise LayoutError(
                    f"tiles of {product[name].buffer.name} start every {stride} elements of a lane "
                    f"({digit.extent}:{stride}); needs a multiple of {packs[name]}, whole 32-bit registers"
                )


def _halved(digits: list[Digit], what: str) -> tuple[Digit, list[Digit]]:
    """Return the digit over an instruction's two halves of a dimension and the other digits, or raise LayoutError."""
    even = [d for d in digits if d.extent % 2 == 0]
    if not even:
        raise LayoutError(f"no tile has {what}")
    chosen = min(even, key=lambda d: d.weight)
    outer, half = chosen.split(2)
    others = [outer if d is chosen else d for d in digits]
    return half, [d for d in others if d.extent > 1]


def nearest(regions: Mapping[str, Region], names: Sequence[str], scope: str, threads: int) -> str:
    """Return a hint with layouts of `tj.mma` that fit the operands `names`, or the reason why none fit."""
    (rows, columns), (_, depth) = regions["acc"].shape, regions["a"].shape
    if 1 in (rows, columns, depth):
        return "replicate the elements over the lanes along a dimension of extent 1; tj.mma has no layouts for it"
    warps = _grid(regions["acc"], scope, threads // WARP)
    if warps is None:
        return f"{counted(threads // WARP, 'warp')} can't divide {rows} rows and {columns} columns into 16 x 8 tiles"
    shapes = {"acc": (rows, columns), "a": (rows, depth), "b": (depth, columns)}
    among = "" if warps == (1, 1) else f", warps={warps}"
    among += ', scope="warpgroup"' if among and scope == WARPGROUP.name else ""
    layouts = {"acc": "layout_c", "a": "layout_a", "b": "layout_b"}
    calls = (f"layout=tj.mma.{layouts[n]}({shapes[n]}, tj.{regions[n].dtype}{among}) for {n}" for n in names)
    return "use " + ", ".join(calls)


def _grid(acc: Region, scope: str, warps: int) -> tuple[int, int] | None:
    """Return (warps along m, along n): acc's if they fit, else those with the squarest parts; None if none fit."""
    rows, columns = acc.shape
    possible = [
        (wm, warps // wm)
        for wm in range(1, warps + 1)
        if warps % wm == 0 and rows % (MMA_M * wm) == 0 and columns % (MMA_N * (warps // wm)) == 0
    ]
    try:
        dims = place(acc, scope).dims
    except LayoutError:
        dims = ()
    counts = tuple([prod(s.extent for s in d if isinstance(s.stride, Thread) and s.threads >= WARP) for d in dims])
    if counts in possible:
        return counts
    return min(possible, key=lambda g: abs(rows // g[0] - columns // g[1]), default=None)


@dataclass(frozen=True, slots=True)
class Elements:
    """The places of a region's elements; run-time starts count as 0."""

    #: the owner's index in the scope; 0 for memory
    threads: Array
    #: the index in the thread's tile; in tensor memory, lane * TMEM_LANE + column, in elements
    places: Array

    @staticmethod
    def of(placement: Placement) -> Elements:
        """Return the places of all elements in row-major order. accepts: placements that `need_slice` accepts."""
        threads, places = np.zeros(1, np.int64), np.full(1, first_place(placement))
        for dim in Elements.along(placement):
            threads, places = _each(threads, dim.threads), _each(places, dim.places)
        return Elements(threads, places)

    @staticmethod
    def along(placement: Placement) -> list[Elements]:
        """Return, for each dimension, the distance of each index from index 0. accepts: the same as `of`."""
        dims: list[Elements] = []
        for extent, steps in zip(placement.shape, placement.dims, strict=True):
            threads = places = np.zeros(1, np.int64)
            for step in steps:
                index = np.arange(step.extent)
                threads = _each(threads, index * (step.threads if isinstance(step.stride, Thread) else 0))
                places = _each(places, index * (step.stride if isinstance(step.stride, int) else 0))
            # drop padding: slots past the extent
            dims.append(Elements(threads[:extent], places[:extent]))
        return dims


def first_place(placement: Placement) -> int:
    """Return the place of a region's first element, as in `Elements`."""
    return number(total_along([(o.stride, o.index) for o in placement.offsets if isinstance(o.index, Const)], int32))


def _each(slower: Array, faster: Array) -> Array:
    return np.asarray(np.add.outer(slower, faster).ravel())


@dataclass(frozen=True, slots=True)
class FragmentRun:
    """Consecutive elements of a thread's tile: `first` to `first` + `width` - 1."""

    first: int
    width: int


def warpgroup_registers(region: Region, name: str) -> Array:
    """Return, for each block of 64 rows of "acc" or "a", its elements' indices in a thread's tile, in wgmma's order.

    raises: LayoutError if the region isn't a fragment.
    """
    pack, layout = 2, f"tj.wgmma.layout_c({region.shape})"
    if name == "a":
        pack, layout = 32 // region.dtype.bits, f"tj.wgmma.layout_a({region.shape}, tj.{region.dtype})"
    hint, what = f"use layout={layout}", region.buffer.name
    what = what if what == name else f"{name} ({what})"
    placement = place(region, WARPGROUP.name)
    need_slice(placement)
    rows, columns = Elements.along(placement)
    row, column = np.arange(len(rows.threads)), np.arange(len(columns.threads))
    of_row, of_column = row % WGMMA_M // 16 * 32 + row % 8 * 4, column // pack % 4
    wrong = [(0, int(c)) for c in np.flatnonzero(columns.threads != of_column)]
    wrong += [(int(r), 0) for r in np.flatnonzero(rows.threads != of_row)]
    if wrong or placement.replicas:
        (r, c) = wrong[0] if wrong else (0, 0)
        thread, wanted = rows.threads[r] + columns.threads[c], of_row[r] + of_column[c]
        owner = f" (its element {r}, {c} is in thread {thread}; wgmma needs it in thread {wanted})" if wrong else ""
        raise LayoutError(f"{what} is not a wgmma fragment; needs {layout}{owner}", hint=hint)
    by_row, by_column = rows.places.reshape(-1, 4, 2, 8), columns.places.reshape(-1, 4, pack)
    # offsets of rows 0 and 8 in warp 0, and of the columns in lane 0; those in other rows, warps and lanes must match
    i, e = by_row[:, :1, :, :1], by_column[:, :1]
    if (by_row != i).any() or (by_column != e).any():
        raise LayoutError(f"threads hold {what} in different registers; needs {layout}", hint=hint)
    held = first_place(placement) + i.reshape(-1, 1, 2, 1) + e.reshape(1, -1, 1, pack)
    return np.asarray(held.reshape(len(by_row), -1))


def runs(registers: Array, pack: int, name: str) -> tuple[FragmentRun, ...]:
    """Split elements into runs of whole 32-bit registers, of `pack` elements each, or raise LayoutError."""
    breaks = np.flatnonzero(np.diff(registers) != 1) + 1
    found = [FragmentRun(int(part[0]), len(part)) for part in np.split(registers, breaks)]
    if any(run.first % pack or run.width % pack for run in found):
        raise LayoutError(f"the elements of {name} don't fill whole 32-bit registers with {pack} consecutive ones each")
    return tuple(found)
