"""TMA copies: a region is split into boxes, each moved by one instruction that a single thread executes.

The tensor map lists the tensor's dimensions in the order of the shared tile: the dimension that is contiguous there,
then the tile's row dimensions, fastest first, then the dimensions in which the region has a single element.

    A[r : r + 64, c : c + 256] -> a tile of 64 x 256 float16 in four blocks of columns (`schedule.swizzle_atoms`)

    map dims (1, 0), box (64, 64)     box 0 at (c, r), 1 at (c + 64, r), ...     to byte 0, 8192, ... of the tile

In a multicast copy each CTA of the multicast axis loads an equal share and writes it to the same offset in all CTAs
of the axis. The CTAs divide the boxes along the columns or, if they can't do so evenly, the rows along one dimension.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import gcd, prod

import numpy as np

from ...dataclass import dataclass
from ...dtypes import int32, int64
from ...errors import LayoutError
from ...ir.arithmetic import build, facts
from ...ir.arithmetic.evaluate import evaluate
from ...ir.clusters import Cluster, ctas_along, rank_name
from ...ir.nodes import TRUE, Expect, Expr, Instruction, Region, Special, TileOp, Var, Vector
from ...ir.params import BoxShare, TensorMapSpec
from ...isa import Row
from ...isa.tma import BULK_COMMIT, LOADS, STORES, BoxForm
from ...layout import Swizzle
from ...ops.copies import FETCH, MULTICAST
from ...remember import remembered_pair
from ...wording import counted
from ..builder import Builder
from ..passes.clusters import multicast_mask
from ..plans import Facts, Moves, Plan, launch_values
from ..schedule.placement import element_offset, extent_of, global_strides, inside, place
from ..schedule.swizzle_atoms import ATOM_ROWS, Atoms, atoms_of
from ..variant import DispatchContext

#: minimum alignment of a box in shared memory, in bytes; swizzles need more (`_unit`)
_SHARED_ALIGN = 128

#: bytes that each of TMA's swizzle modes keeps contiguous
_CHUNK_BYTES = 16


@dataclass(frozen=True, slots=True)
class _Issue:
    """A box, in elements: its coordinates relative to the region's start, and its unswizzled offset in the tile."""

    coordinates: tuple[int, ...]
    shared: int

    def after(self, times: int, step: _Issue) -> _Issue:
        coordinates = (c + times * s for c, s in zip(self.coordinates, step.coordinates, strict=True))
        return _Issue(tuple(coordinates), self.shared + times * step.shared)


@dataclass(frozen=True, slots=True)
class _Shares:
    """The split of a multicast copy among the CTAs of a cluster axis. step: from a CTA's boxes to the next CTA's."""

    cluster: Cluster
    axis: int
    step: _Issue

    @property
    def ctas(self) -> int:
        return self.cluster[self.axis]

    @property
    def rank(self) -> Special:
        return Special(rank_name(self.cluster, self.axis))


@dataclass(frozen=True, slots=True)
class BoxCopy(Plan):
    """A TMA copy between a tensor and shared memory."""

    tensor: Region
    #: the dimensions of the tensor's region in the order of the map, without those that a view added
    dims: tuple[int, ...]
    tile: Atoms
    map: TensorMapSpec
    #: the boxes that a CTA copies; in a multicast copy, those of the first CTA along the axis
    issues: tuple[_Issue, ...]
    #: True if the tensor is the source
    loads: bool
    threads: int
    shares: _Shares | None = None

    @property
    def ranks(self) -> Sequence[Mapping[str, int]]:
        shares = self.shares
        return ({},) if shares is None else [{shares.rank.name: rank} for rank in range(shares.ctas)]

    @property
    def row(self) -> Row:
        return (LOADS if self.loads else STORES).row(BoxForm(len(self.map.box), self.shares is not None))

    @property
    def boxes(self) -> tuple[_Issue, ...]:
        if self.shares is None:
            return self.issues
        step = self.shares.step
        return tuple([issue.after(rank, step) for rank in range(self.shares.ctas) for issue in self.issues])

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]:
        """(mnemonic, number of times that the leader executes it) of the copy instruction."""
        return ((self.row.mnemonic, len(self.issues)),)

    @property
    def bytes(self) -> int:
        """The size of all boxes, of all CTAs in a multicast copy, including elements outside the tensor."""
        return len(self.boxes) * prod(self.map.box) * self.map.dtype.bytes

    def facts(self) -> Facts:
        outermost = len(self.map.box)
        while outermost > 2 and self.map.box[outermost - 1] == 1:
            outermost -= 1
        box = " x ".join(str(n) for n in reversed(self.map.box[:outermost]))
        swizzle = "" if self.map.swizzle == "none" else f", {self.map.swizzle}"
        shares = "" if self.shares is None else f", to {self.shares.ctas} CTAs, each copying a share"
        return Facts(f"box {box}{swizzle}{shares}", len(self.issues), 8 * self.map.box[0] * self.map.dtype.bytes)

    def emit(self, op: TileOp, b: Builder) -> None:
        """Emit the leader's copies, one per box, and for a load the barrier's `Expect`, for a store the commit."""
        tensor_map = b.tensor_map(self.map, written=not self.loads, share=self._share())
        starts = [b.let("start", start) for start in self._starts()]
        shared = b.let("tile", self._start())
        masks = () if self.shares is None else (multicast_mask(self.shares.cluster, self.shares.axis),)
        barrier = barrier_of(op) if self.loads else None
        if barrier is not None:
            b.append(Expect(barrier, build.const(self.bytes, int32), op.scope, b.span))
        with b.when(b.leads(op.scope, self.threads)):
            for issue in self.issues:
                at = (_coordinate(start, more) for start, more in zip(starts, issue.coordinates, strict=True))
                coordinates = (*at, *[build.const(0, int32)] * (len(self.map.box) - len(self.dims)))
                box = Vector(self.tile.placement.buffer, build.add(shared, issue.shared), prod(self.map.box))
                inputs: tuple[Expr | Vector, ...] = (tensor_map, *coordinates, box)
                if barrier is not None:
                    inputs = (box, tensor_map, *coordinates, barrier, *masks)
                b.append(Instruction(self.row.name, (), inputs, b.span))
            if barrier is None:
                b.append(Instruction(BULK_COMMIT.name, (), (), b.span))

    def _share(self) -> BoxShare | None:
        if self.shares is None:
            return None
        step = self.shares.step
        filled = (0,) * (len(self.map.box) - len(self.dims))
        return BoxShare((*step.coordinates, *filled), step.shared * self.map.dtype.bytes)

    def _starts(self) -> list[Expr]:
        starts = [build.cast(self.tensor.starts[d], int64) for d in self.dims]
        if self.shares is None:
            return starts
        rank, steps = build.cast(self.shares.rank, int64), self.shares.step.coordinates
        return [build.add(start, build.mul(rank, step)) for start, step in zip(starts, steps, strict=True)]

    def _start(self) -> Expr:
        if self.shares is None:
            return self.tile.start
        return build.add(self.tile.start, build.mul(self.shares.rank, self.shares.step.shared))

    def _rows(self) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield, for each box, the index of its issue, and the coordinates and swizzled addresses of its elements.

        Coordinates are in the map's order. Variables in starts take their possible values nearest 0.
        source: PTX ISA, "Swizzling Modes": without a swizzle, a box has the same order in shared as in global memory.
        """
        box, dtype = self.map.box, self.map.dtype
        within = [index.ravel() for index in np.indices(tuple(reversed(box)))][::-1]
        starts = [int(evaluate(self.tensor.starts[d], {})) for d in self.dims]
        base = int(evaluate(self.tile.start, {}))
        swizzle = Swizzle.for_dtype(dtype, self.map.swizzle)
        linear = np.arange(prod(box))
        for number, issue in enumerate(self.boxes):
            pairs = zip(starts, issue.coordinates, within, strict=False)
            coordinates = np.stack([start + more + index for start, more, index in pairs])
            yield number % len(self.issues), coordinates, swizzle.apply(base + issue.shared + linear)

    def moves(self) -> Moves:
        """Return the moves in chunks of 16 bytes, all attributed to thread 0."""
        strides = self._strides()
        chunk = _CHUNK_BYTES // self.map.dtype.bytes
        issue, tensor, shared = [], [], []
        for number, coordinates, places in self._rows():
            at = sum(c * s for c, s in zip(coordinates, strides, strict=True))
            issue.append(np.full(len(places) // chunk, number))
            tensor.append(np.asarray(at)[::chunk])
            shared.append(places[::chunk])
        in_tensor, in_shared = np.concatenate(tensor), np.concatenate(shared)
        sides = (in_shared, in_tensor) if self.loads else (in_tensor, in_shared)
        rows = len(in_shared)
        thread, width = np.zeros(rows, np.int64), np.full(rows, chunk)
        return Moves(np.concatenate(issue), thread, np.stack(sides, axis=1), width, (1, 1))

    def schedule(self) -> np.ndarray:
        """Return one row per element: (issue, row-major index in the region, swizzled address in elements)."""
        counts = self.tensor.counts
        weights = [prod(counts[d + 1 :]) for d in self.dims]
        starts = [int(evaluate(self.tensor.starts[d], {})) for d in self.dims]
        rows = []
        for number, coordinates, places in self._rows():
            every = zip(coordinates, starts, weights, strict=True)
            element = sum((c - start) * weight for c, start, weight in every)
            rows.append(np.stack([np.full(len(places), number), np.asarray(element), places], axis=1))
        return np.concatenate(rows)

    def _strides(self) -> list[int]:
        """Return the tensor's strides in elements, in the map's order; run-time strides have made-up values."""
        strides, names = global_strides(self.tensor.buffer), launch_values((self.tensor,))
        assert strides is not None
        of_dims = (strides[d] for d in self.dims)
        return [names[stride.name] if isinstance(stride, Var) else stride for stride in of_dims]


def barrier_of(op: TileOp) -> Vector:
    region = op.region("barrier")
    return Vector(region.buffer, element_offset(region.buffer, region.starts), span=region.span)


@remembered_pair
def _coordinate(start: Expr, more: int) -> Expr:
    """Return `start` + `more`, clamped and cast to int32; clamping only changes coordinates outside every tensor."""
    at = build.add(start, build.const(more, int64))
    if not facts.fits(facts.bounds(at), int32):
        low, high = facts.full_range(int32)[0], TensorMapSpec.EXTENT_END
        at = build.minimum(build.maximum(at, build.const(low, int64)), build.const(high, int64))
    return build.cast(at, int32)


def box_copy(op: TileOp, context: DispatchContext) -> BoxCopy:
    """Plan a TMA copy between a tensor and shared memory, or raise LayoutError if TMA can't copy these regions."""
    loads = op.region("dst").buffer.space == "shared"
    tensor, tile = (op.region(name) for name in (("src", "dst") if loads else ("dst", "src")))
    along = op.attr(MULTICAST.name)
    assert along is None or isinstance(along, int)
    if tensor.gathered is not None:
        raise LayoutError(f"{tensor.buffer.name} is gathered by an index; TMA copies boxes")
    placement, atoms = place(tensor, "cta"), atoms_of(tile)
    if placement.shape != atoms.placement.shape:
        raise LayoutError(f"shapes must be equal except for extents of 1; got {tensor.shape} and {tile.shape}")
    root = tensor.buffer.root
    major = placement.places[atoms.major]
    axes = _axes(tensor)
    _need_strides(tensor, major)
    _need_start(tensor, major)
    if not loads:
        _need_inside(tensor)
        _need_whole_chunks(tensor, major)
    ones = [d for d in reversed(range(len(axes))) if d not in placement.places and axes[d] is not None]
    dims = (major, *(placement.places[d] for d in reversed(atoms.row_dims)), *ones)
    box, issues, step = _boxes(atoms, len(ones), ctas_along(context.cluster, along))
    named = tuple([axis for d in dims if (axis := axes[d]) is not None])
    ranks = TensorMapSpec.RANKS
    if len(named) > ranks[-1]:
        raise LayoutError(f"{root.name} has {len(named)} dimensions; TMA takes at most {ranks[-1]}")
    box += (1,) * (ranks[0] - len(box))
    assert prod(box) * tensor.dtype.bytes <= TensorMapSpec.MOST_BOX_BYTES, "a box must fit in shared memory"
    fetch = op.attr(FETCH.name) or TensorMapSpec.FETCH
    spec = TensorMapSpec(root.name, tensor.dtype, named, box, atoms.mode, str(fetch))
    shares = None if context.cluster is None or along is None else _Shares(context.cluster, along, step)
    return BoxCopy(tensor, dims, atoms, spec, issues, loads, context.threads, shares)


def _axes(tensor: Region) -> list[int | None]:
    """Return the argument's dimension for each dimension of the buffer, None for an added one, or raise LayoutError."""
    buffer, root = tensor.buffer, tensor.buffer.root
    strides, of_root = global_strides(buffer), global_strides(root)
    axes: list[int | None] = []
    if strides is not None and of_root is not None:
        left = list(enumerate(zip(root.shape, of_root, strict=True)))
        for size, stride, start in zip(buffer.shape, strides, tensor.starts, strict=True):
            same = next((item for item in left if item[1] == (size, stride)), None)
            if same is None and (size != 1 or start != build.const(0, int64)):
                break
            axes.append(None if same is None else same[0])
            left = [item for item in left if item is not same]
        if len(axes) == len(buffer.shape) and not left:
            return axes
    raise LayoutError(
        f"the dimensions of the view {buffer.name} aren't a permutation of those of {root.name}, "
        "which TMA iterates over",
        hint="take a region of the argument itself, or of a .permute of it",
    )


def _need_strides(tensor: Region, major: int) -> None:
    buffer, unit = tensor.buffer, TensorMapSpec.UNIT_BYTES
    strides = global_strides(buffer)
    assert strides is not None
    if strides[major] != 1:
        listed = ", ".join(s.name if isinstance(s, Var) else str(s) for s in strides)
        raise LayoutError(
            f"dimension {major} of {buffer.name} has no unit stride; strides are ({listed})",
            hint="allocate the shared tile in the tensor's order of dimensions, and use it through .T"
            if 1 in strides else "use copy, which moves single elements",
        )
    root = buffer.root
    if root.align % unit:
        raise LayoutError(
            f"{root.name} is aligned to {root.align} bytes; TMA needs {unit}",
            hint=f"begin {root.name} and each of its rows at a multiple of {unit // buffer.dtype.bytes} elements, as "
            "padded rows do; or use copy instead of copy_async",
        )
    bytes_each = buffer.dtype.bytes
    for d, stride in enumerate(strides):
        if d == major or buffer.shape[d] == 1:
            continue
        multiple = stride.multiple_of if isinstance(stride, Var) else stride
        if multiple < 0:
            step = f"steps back by {-multiple * bytes_each} bytes"
            raise LayoutError(f"dimension {d} of {buffer.name} {step}; TMA supports no negative strides")
        if multiple * bytes_each % unit:
            is_known = not isinstance(stride, Var)
            step = f"every {multiple * bytes_each}" if is_known else f"at multiples of {multiple * bytes_each}"
            raise LayoutError(
                f"rows of {buffer.name} {'' if is_known else 'are only known to '}start {step} bytes; TMA needs a "
                f"multiple of {unit}",
                hint="pad the rows, or use copy instead of copy_async",
            )


def _need_start(tensor: Region, major: int) -> None:
    """Raise LayoutError if the rows of the region may start inside a chunk of 16 bytes, where TMA traps.

    source: measured on an H100 (CUDA_ERROR_ILLEGAL_INSTRUCTION); also in Triton's Gluon tutorial on TMA.
    """
    unit, size = TensorMapSpec.UNIT_BYTES, tensor.buffer.dtype.bytes
    multiple = facts.multiple_of(tensor.starts[major])
    if multiple * size % unit:
        raise LayoutError(
            f"the region of {tensor.buffer.name} starts at a multiple of {multiple * size} bytes in dimension {major}; "
            f"TMA needs a multiple of {unit}",
            hint=f"start at multiples of {unit // size} elements: i * {unit // size}, or .tile(...)",
        )


def _need_inside(tensor: Region) -> None:
    """Raise LayoutError if a stored region is known to start before index 0 in a dimension, where TMA traps.

    The simulator detects this for starts known only at run time. Loads may start before index 0.
    source: measured on an H100 (CUDA_ERROR_ILLEGAL_INSTRUCTION)
    """
    for d, start in enumerate(tensor.starts):
        _, high = facts.bounds(start)
        if high is not None and high < 0:
            raise LayoutError(
                f"the region of {tensor.buffer.name} starts before index 0 in dimension {d}; TMA can't store there",
                hint="store only the part inside the tensor",
            )


def _need_whole_chunks(tensor: Region, major: int) -> None:
    """Raise LayoutError if the region may exceed rows that end inside a chunk of 16 bytes; TMA writes whole chunks.

    source: measured on an H100; also in Triton's issue 11583.
    """
    buffer, unit, size = tensor.buffer, TensorMapSpec.UNIT_BYTES, tensor.buffer.dtype.bytes
    multiple = facts.multiple_of(extent_of(buffer, major))
    if multiple * size % unit == 0 or tensor.in_bounds or inside(tensor, major) == TRUE:
        return
    end = f"{'after' if isinstance(buffer.shape[major], int) else 'at a multiple of'} {multiple * size} bytes"
    raise LayoutError(
        f"rows of {buffer.name} end {end}; TMA writes whole chunks of {unit} bytes, even past the end of a row",
        hint="store the tiles at the edge by copy, and the others to tj.assume_in_bounds(...)",
    )


def _boxes(atoms: Atoms, ones: int, ctas: int) -> tuple[tuple[int, ...], tuple[_Issue, ...], _Issue]:
    """Return (box extents, first CTA's boxes, step to the next CTA), or raise LayoutError. ones: added extents of 1."""
    _need_aligned(atoms)
    width, parts = _columns(atoms)
    extents = [atoms.placement.shape[d] for d in reversed(atoms.row_dims)]
    whole, unit = tuple(extents), _unit(atoms)
    # stride of each row dimension within a block, in elements
    inner = [atoms.row_elements * prod(extents[:d]) for d in range(len(extents))]
    step = _Issue((0,) * (1 + len(extents)), 0)
    if ctas > 1 and parts % ctas == 0:
        parts //= ctas
        step = _Issue((width * parts, *[0] * len(extents)), atoms.at(0, width * parts))
    elif ctas > 1:
        d = _shared_dim(atoms, extents, inner, ctas)
        extents[d] //= ctas
        coordinates = [0] * (1 + len(extents))
        coordinates[1 + d] = extents[d]
        step = _Issue(tuple(coordinates), extents[d] * inner[d])
    box, steps = [width], [[(width * j, atoms.at(0, width * j)) for j in range(parts)]]
    is_cut = False
    for extent, of_all, apart in zip(extents, whole, inner, strict=True):
        # a box is contiguous, so once a dimension is split, each index of the slower dimensions needs its own box
        count = extent if is_cut else _parts(extent, apart, unit)
        part = extent // count
        is_cut = is_cut or part < of_all
        box.append(part)
        steps.append([(part * k, part * k * apart) for k in range(count)])
    issues = []
    # boxes along the columns vary fastest
    for each in product(*steps[::-1]):
        taken = each[::-1]
        issues.append(_Issue((*(c for c, _ in taken), *[0] * ones), sum(s for _, s in taken)))
    return (*box, *[1] * ones), tuple(issues), _Issue((*step.coordinates, *[0] * ones), step.shared)


def _shared_dim(atoms: Atoms, extents: Sequence[int], inner: Sequence[int], ctas: int) -> int:
    """Return the slowest row dimension that CTAs can divide evenly, or raise LayoutError. inner: row strides."""
    for d in reversed(range(len(extents))):
        if extents[d] % ctas == 0 and extents[d] // ctas * inner[d] % _unit(atoms) == 0:
            return d
    rows = f"{' x '.join(map(str, reversed(extents)))} rows" if extents else "1 row"
    raise LayoutError(
        f"multicast: {counted(ctas, 'CTA')} can't share {rows} in {counted(atoms.blocks, 'block')} of columns "
        f"evenly, in parts that begin at multiples of {_unit(atoms) * atoms.element_bits // 8} bytes",
        hint=f"copy a multiple of {ctas * ATOM_ROWS} rows along one dimension, or leave out multicast=: each CTA then "
        "copies what it needs",
    )


def _unit(atoms: Atoms) -> int:
    """Return the alignment of a box in shared memory, in elements: the swizzle's period, but at least 128 bytes."""
    aligned = _SHARED_ALIGN * 8 // atoms.element_bits
    return max(ATOM_ROWS * atoms.row_elements, aligned) if atoms.bits else aligned


def _need_aligned(atoms: Atoms) -> None:
    placement, size = atoms.placement, atoms.element_bits // 8
    name = placement.buffer.name
    if not atoms.is_dense:
        raise LayoutError(
            f"groups of 8 rows of {name} start every {atoms.sbo_bytes} bytes; "
            f"TMA needs contiguous rows, so groups must start every {ATOM_ROWS * atoms.row_bytes} bytes"
        )
    if placement.buffer.align % _SHARED_ALIGN:
        raise LayoutError(f"{name} is aligned to {placement.buffer.align} bytes; TMA needs {_SHARED_ALIGN}")
    for offset in placement.offsets:
        if offset.multiple * size % _SHARED_ALIGN:
            step = offset.multiple * size
            raise LayoutError(f"{offset.what} is a multiple of {step} bytes; TMA needs a multiple of {_SHARED_ALIGN}")
    if atoms.blocks > 1 and atoms.lbo_bytes % _SHARED_ALIGN:
        raise LayoutError(
            f"blocks of columns of {name} start every {atoms.lbo_bytes} bytes; TMA needs a multiple of {_SHARED_ALIGN}"
        )


def _columns(atoms: Atoms) -> tuple[int, int]:
    """Return the number of columns of a box and the number of boxes along the columns, or raise LayoutError."""
    e, most = atoms.row_elements, TensorMapSpec.MOST_BOX
    if atoms.bits and atoms.columns % e:
        raise LayoutError(
            f"the tile is {atoms.columns} columns wide; a row of the {atoms.mode} swizzle holds {e}",
            hint=f"take whole rows of the swizzle: a multiple of {e} columns",
        )
    if atoms.row_bytes % TensorMapSpec.UNIT_BYTES:
        raise LayoutError(f"rows have {atoms.row_bytes} bytes; TMA needs a multiple of {TensorMapSpec.UNIT_BYTES}")
    if e <= most:
        return e, atoms.blocks
    count = _equal_parts(e, 1, _unit(atoms)) if atoms.rows == 1 and atoms.blocks == 1 else None
    if count is None:
        raise LayoutError(
            f"{e} columns are contiguous; a box holds at most {most}",
            hint='use tj.alloc_shared(..., swizzle="128B") or, for a single row, copy it in parts',
        )
    return e // count, count


def _parts(extent: int, inner: int, unit: int) -> int:
    """Return the number of boxes along a row dimension, or raise LayoutError. inner: the dimension's stride."""
    count = _equal_parts(extent, inner, unit)
    if count is None:
        raise LayoutError(
            f"{extent} rows can't be divided into equal parts of at most {TensorMapSpec.MOST_BOX} rows that are "
            f"multiples of {unit // gcd(unit, inner)}",
            hint="copy them in parts",
        )
    return count


def _equal_parts(extent: int, inner: int, unit: int) -> int | None:
    """Return the least number of equal parts that fit in a box and start at multiples of `unit` elements, if any."""
    if extent <= TensorMapSpec.MOST_BOX:
        return 1
    counts: Sequence[int] = [n for n in range(2, extent + 1) if extent % n == 0]
    fitting = (n for n in counts if extent // n <= TensorMapSpec.MOST_BOX and extent // n * inner % unit == 0)
    return next(fitting, None)
