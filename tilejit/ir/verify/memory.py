"""Invariants of buffers and places: spaces, ranks, extents, layouts, alignments, bounds and access sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Set

from ...dtypes import barrier, int64
from ...isa.mbarrier import MOST_IN_A_PHASE
from ...layout import TileLayout
from ...remember import remembered
from ...scopes import SCOPES
from ...wording import counted
from .. import nodes as ir
from .. import walk
from ..arithmetic.facts import bounds
from ..values import SPACES

#: possible sizes of one memory access in bytes
ACCESS_BYTES = (1, 2, 4, 8, 16, 32)


def _is_power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


@remembered
def buffer_faults(buffer: ir.Buffer) -> list[str]:
    """Return the faults of a buffer's definition."""
    return list(_buffer_faults(buffer))


def _buffer_faults(buffer: ir.Buffer) -> Iterator[str]:
    name = buffer.name
    if buffer.space not in SPACES:
        yield f"{name} is in unknown memory space {buffer.space!r}"
    if not _is_power_of_two(buffer.align):
        yield f"{name} is aligned to {buffer.align} bytes, which isn't a power of two"
    if buffer.base is not None and buffer.base.space != buffer.space:
        yield f"{name}, in {buffer.space} memory, is a view of {buffer.base.name} in {buffer.base.space}"
    sizes = [n for n in buffer.shape if not isinstance(n, ir.Var)]
    if min(sizes, default=1) < (0 if buffer.space == "global" else 1):
        yield f"{name} has invalid shape {tuple(sizes)}"
    if len(sizes) != len(buffer.shape) and buffer.space != "global":
        yield f"{name}: only global memory can have extents known only at launch"
    if [n for n in buffer.shape if isinstance(n, ir.Var) and n.dtype != int64]:
        yield f"{name}: an extent known only at launch must be int64"
    if buffer.slots:
        yield from _slot_faults(buffer, tuple(sizes))
    match buffer.layout:
        case ir.Strided():
            yield from _strided_faults(buffer, buffer.layout)
        case ir.Open():
            yield from _open_faults(buffer, buffer.layout)
        case TileLayout() if len(sizes) == len(buffer.shape):
            yield from _tile_layout_faults(buffer, buffer.layout, math.prod(buffer.slots or sizes))


def displaced_faults(view: ir.Buffer, base: ir.Buffer, offset: ir.Expr, changing: Set[str]) -> Iterator[str]:
    """Yield the faults of a view at an offset from its base. changing: names of the variables that may be assigned."""
    if offset.dtype != base.index_dtype:
        yield f"the offset of {view.name} from {base.name} must be {base.index_dtype}; got {offset.dtype}"
    if view.dtype != base.dtype or view.layout != base.layout:
        yield f"{view.name}, at an offset from {base.name}, must have the same type and layout"
    if base.space == "tmem":
        yield f"{view.name} is at an offset from {base.name}, which is in tensor memory"
    for part in walk.subexpressions(offset):
        if isinstance(part, ir.Load) or (isinstance(part, ir.Var) and part.name in changing):
            yield f"the offset of {view.name} may change"


def _slot_faults(buffer: ir.Buffer, shape: tuple[int, ...]) -> Iterator[str]:
    name, slots = buffer.name, buffer.slots
    if buffer.space != "local" or isinstance(buffer.layout, ir.Open):
        yield f"{name} has slots {slots}; only a local tile with a layout can have slots"
    elif len(slots) == 1:
        if slots[0] < math.prod(shape):
            yield f"{name} has {counted(math.prod(shape), 'element')} but {counted(slots[0], 'slot')}"
    elif len(slots) != len(shape) or any(slot < extent for slot, extent in zip(slots, shape, strict=True)):
        yield f"{name} of shape {shape} doesn't fit in slots {slots}"


def _open_faults(buffer: ir.Buffer, layout: ir.Open) -> Iterator[str]:
    name, base = buffer.name, buffer.base
    if buffer.space != "local":
        yield f"{name} is in {buffer.space} memory; only local tiles can be open"
    if layout.scope not in SCOPES:
        yield f"{name} is open on unknown scope {layout.scope!r}"
    if (base is None) != (layout.dims is None):
        yield f"{name} is open; it must have dims if and only if it is a view"
    if base is None or layout.dims is None:
        return
    if not isinstance(base.layout, ir.Open) or base.layout.scope != layout.scope:
        yield f"{name} is an open view of {base.name}, which isn't open on the same scope"
    if base.dtype.bits != buffer.dtype.bits:
        yield f"{name} of {buffer.dtype} is an open view of {base.name} of {base.dtype}, which has another width"
    mapped = [d for d in layout.dims if d is not None]
    if len(layout.dims) != len(buffer.shape) or len(set(mapped)) != len(mapped):
        yield f"{name} of shape {buffer.shape} can't map to dimensions {layout.dims} of {base.name}"
        return
    left_out = [n for d, n in enumerate(base.shape) if d not in mapped]
    wanted = tuple(1 if d is None else base.shape[d] if d < len(base.shape) else None for d in layout.dims)
    if buffer.shape != wanted or any(n != 1 for n in left_out):
        yield f"{name} of shape {buffer.shape} doesn't match {layout.dims} of {base.name}, of shape {base.shape}"


def _strided_faults(buffer: ir.Buffer, layout: ir.Strided) -> Iterator[str]:
    if buffer.space != "global":
        yield f"{buffer.name}: only global memory can have strides known only at launch"
    if len(layout.strides) != len(buffer.shape):
        dimensions, strides = counted(len(buffer.shape), "dimension"), counted(len(layout.strides), "stride")
        yield f"{buffer.name} has {dimensions} and {strides}"
    if not (_is_power_of_two(layout.align) and _is_power_of_two(layout.extent_align)):
        yield f"{buffer.name}: align {layout.align} and extent_align {layout.extent_align} must be powers of two"


def _tile_layout_faults(buffer: ir.Buffer, layout: TileLayout, size: int) -> Iterator[str]:
    if layout.size() != size:
        filled = counted(size, "slot" if buffer.slots else "element")
        yield f"{buffer.name} has {filled}; its layout {layout!r} has {layout.size()}"
    threads = [a.name for a in layout.axes() if a.is_thread]
    if threads and buffer.space != "local":
        yield f"{buffer.name} is in {buffer.space} memory, so its layout can't have thread axis {threads[0]}"


def is_whole(region: ir.Region) -> bool:
    """True if a region covers its whole, non-empty buffer, with constant starts, and thus has no faults."""
    extents = region.extents
    if extents != region.buffer.shape or len(region.starts) != len(extents) or min(region.counts, default=1) < 1:
        return False
    for start in region.starts:
        if not isinstance(start, ir.Const) or start.value != 0 or not start.dtype.is_integer:
            return False
    return True


def region_faults(region: ir.Region, *, is_masked: bool = False) -> Iterator[str]:
    """Yield the faults of a region: in its rank, starts, extents or gathering, or a provably out-of-bounds box.

    A box may exceed a global tensor unless the region is `in_bounds` and isn't masked.
    is_masked: a mask selects the elements that are accessed.
    """
    buffer = region.buffer
    if not len(region.starts) == len(region.extents) == len(buffer.shape):
        yield f"a region has {counted(len(region.starts), 'dimension')}, but {buffer.name} has {len(buffer.shape)}"
        return
    if region.gathered is not None:
        yield from _gathered_faults(region, region.gathered)
    for start, extent in zip(region.starts, region.extents, strict=True):
        if not start.dtype.is_integer:
            yield f"a region of {buffer.name} must start at an integer; got {start.dtype}"
        if extent is not None and extent < 1:
            yield f"a region of {buffer.name} has extent {extent}"
    if buffer.space != "global" or (region.in_bounds and not is_masked):
        yield from _outside(buffer, region.starts, region.counts, region.box_dims)


def _gathered_faults(region: ir.Region, gathered: ir.Gathered) -> Iterator[str]:
    name, dim = region.buffer.name, gathered.dim
    if region.buffer.space not in ("global", "shared"):
        yield f"a region of {name} is gathered, but it is in {region.buffer.space} memory"
    if not 0 <= dim < len(region.starts):
        yield f"a region of {name} is gathered in invalid dimension {dim}"
        return
    start = region.starts[dim]
    if region.extents[dim] is not None or not isinstance(start, ir.Const) or start.value:
        yield f"a region of {name} has a start or an extent in dimension {dim}, which is gathered"
    if any(extent < 1 for extent in gathered.shape):
        yield f"a region of {name} is gathered by an empty index of shape {gathered.shape}"


def element_faults(element: ir.Element) -> Iterator[str]:
    """Yield the faults of an element: in its rank or its indices' types, or a provably out-of-bounds access."""
    buffer = element.buffer
    if len(element.indices) != len(buffer.shape):
        indices, dimensions = counted(len(element.indices), "index"), counted(len(buffer.shape), "dimension")
        yield f"an element has {indices}, but {buffer.name} has {dimensions}"
        return
    if any(not i.dtype.is_integer for i in element.indices):
        yield f"an index of {buffer.name} isn't an integer"
        return
    dims = range(len(buffer.shape))
    yield from _outside(buffer, element.indices, (1,) * len(dims), dims)


def _outside(
    buffer: ir.Buffer, starts: tuple[ir.Expr, ...], extents: tuple[int, ...], dims: Iterable[int]
) -> Iterator[str]:
    for dim in dims:
        start, extent, size = starts[dim], extents[dim], buffer.shape[dim]
        if isinstance(size, ir.Var):
            continue
        low, high = (start.value, start.value) if isinstance(start, ir.Const) else bounds(start)
        if (high is not None and high < 0) or (low is not None and low + extent > size):
            at = low if low == high else f"{low} or more" if high is None or high >= 0 else f"{high} or less"
            held = counted(size, "element")
            yield f"dimension {dim} of {buffer.name} has {held}; accessing {extent} from {at} is out of bounds"


def vector_faults(
    vector: ir.Vector, unrolled: Set[str] | None, *, is_masked: bool = False, is_dead: bool = False
) -> list[str]:
    """Return the faults of a vector: in its width or offset, or a provably out-of-bounds access unless `is_dead`.

    unrolled: variables of unrolled loops, which may index registers; None for a vector in memory.
    is_masked: a condition may exclude elements outside a global tensor from the access. is_dead: it never executes.
    """
    buffer, offset, width = vector.buffer, vector.offset, vector.width
    if not offset.dtype.is_integer:
        return [f"an offset into {buffer.name} must be an integer; got {offset.dtype}"]
    faults = [] if width >= 1 else [f"a vector of {width} elements of {buffer.name}; it must have at least 1"]
    if unrolled is not None:
        variable = None if isinstance(offset, ir.Const) else _variable_part(offset, unrolled)
        if variable is not None:
            faults.append(f"a register of {buffer.name} is indexed by {variable}, which isn't constant")
    elif buffer.space != "local" and offset.dtype != buffer.index_dtype:
        faults.append(f"offsets into {buffer.space} memory must be {buffer.index_dtype}; got {offset.dtype}")
    limit = _storage(buffer)
    if limit is None or is_dead or (is_masked and buffer.space == "global"):
        return faults
    low, high = (offset.value, offset.value) if isinstance(offset, ir.Const) else bounds(offset)
    if (low is not None and low + width > limit) or (high is not None and high < 0):
        at = low if low == high else "the vector's offset"
        held = counted(limit, "element")
        faults.append(f"{buffer.name} holds {held}; accessing {width} from {at} is out of bounds")
    return faults


def arrivals_fault(buffer: ir.Buffer, arrivals: int) -> str | None:
    """Return the fault of a buffer's arrival count or, if it contains barriers, of its space and alignment; or None."""
    if buffer.dtype != barrier:
        awaited = counted(arrivals, "arrival")
        return f"{buffer.name} of {buffer.dtype} isn't a barrier, but awaits {awaited}" if arrivals else None
    if not 1 <= arrivals <= MOST_IN_A_PHASE:
        return f"{buffer.name} awaits {arrivals} arrivals; a phase needs 1 to {MOST_IN_A_PHASE:,}"
    if buffer.space != "shared" or buffer.align < barrier.bytes:
        return f"{buffer.name}: barriers must be in shared memory, at multiples of {barrier.bytes} bytes"
    return None


def access_fault(place: ir.Element | ir.Vector) -> str | None:
    """Return the reason why one load or store can't move the whole element or vector, or None."""
    buffer = place.buffer
    if buffer.dtype == barrier:
        return f"{buffer.name} contains barriers, which can't be loaded or stored"
    if buffer.space == "local" or isinstance(place, ir.Element):
        return None
    if buffer.space == "tmem":
        return f"{buffer.name} is in tensor memory, which only its own instructions can access"
    size = place.width * buffer.dtype.bytes
    return None if size in ACCESS_BYTES else f"an access of {size} bytes to {buffer.name}; valid: 1, 2, 4, 8, 16, 32"


@remembered
def _storage(buffer: ir.Buffer) -> int | None:
    """Return a buffer's storage in elements (per thread if local); None for `Strided`, tmem and views at an offset."""
    if isinstance(buffer.layout, ir.Strided) or buffer.space == "tmem" or buffer.offset is not None:
        return None
    layout = buffer.tile_layout
    return layout.span() if buffer.space == "local" else layout.footprint()


def _variable_part(expr: ir.Expr, unrolled: Set[str]) -> str | None:
    """Return the first name that keeps an offset from being constant after unrolling, or None."""
    if isinstance(expr, ir.Var):
        return None if expr.name in unrolled else expr.name
    for part in walk.inputs(expr):
        if isinstance(part, ir.Load):
            return part.place.buffer.name
        if part.name not in unrolled:
            return part.name
    return None
