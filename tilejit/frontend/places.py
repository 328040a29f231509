"""Names that hold different regions on different paths.

Regions of one buffer differ only in their starts, which are kept in variables. Regions of several buffers of one memory
space and dtype are represented by a *buffer phi*, a placeholder buffer that can only be read. A variable with the name
of the phi holds the index of the actual buffer in `Context.alternatives`; `selections` replaces a read by a branch per
buffer. The buffers have one shape and layout, or are tensors whose extents and strides are kept in variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from ..dataclass import dataclass, field, replace
from ..dtypes import int64
from ..ir.arithmetic import build
from ..ir.arithmetic.facts import is_data
from ..ir.nodes import Buffer, Const, Expr, Strided, Var
from ..source import Span
from .values import Memory, describe

#: the memory spaces that buffers of phis may be in; local tiles are copied to slots instead
_SPACES = ("global", "shared")

#: the name of a buffer, and the location of its allocation
Source = tuple[str, Span | None]


class PlacePart(Enum):
    """The parts of a region that may vary."""

    START = "start"
    EXTENT = "extent"
    STRIDE = "stride"
    BUFFER = "buffer"


#: a part, and the dimension that it belongs to, which is 0 for the buffer
Varying = tuple[PlacePart, int]


@dataclass(frozen=True, slots=True)
class PlaceKind:
    """Regions that are equal to `like` except in the parts listed in `varying`."""

    like: Memory
    varying: tuple[Varying, ...]
    in_bounds: bool
    #: True if the start of any region may be data
    data: bool
    sources: tuple[Source, ...] = field(compare=False, repr=False)

    @property
    def is_phi(self) -> bool:
        return (PlacePart.BUFFER, 0) in self.varying

    def moving(self) -> PlaceKind:
        """Return the kind with `varying` extended by every part of `like` that isn't constant."""
        parts = (*_parts(self.like, self.is_phi), (PlacePart.BUFFER, 0))
        changing = {part for part in parts[:-1] if not isinstance(_held(self.like, part), (int, Const))}
        return replace(self, varying=tuple(part for part in parts if part in changing or part in self.varying))


def difference(a: Memory, b: Memory) -> tuple[str, str] | None:
    """Return descriptions of two regions if a name can't hold both; None if it can."""
    if a.constant_indices or b.constant_indices:
        return describe(a), describe(b)
    if a.buffer == b.buffer:
        return None if a.extents == b.extents else (describe(a), describe(b))
    if a.buffer.space != b.buffer.space or a.buffer.space not in _SPACES:
        return describe(a), describe(b)
    if a.dtype != b.dtype:
        return str(a.dtype), str(b.dtype)
    if _taken(a) != _taken(b):
        return describe(a), describe(b)
    one, other = a.buffer, b.buffer
    if isinstance(one.layout, Strided) and isinstance(other.layout, Strided):
        return None
    if one.shape != other.shape or not one.is_laid_out_as(other):
        return _laid_out(one), _laid_out(other)
    return None


def _taken(memory: Memory) -> tuple[int | Expr | str | None, ...]:
    pairs = zip(memory.extents, memory.buffer.shape, strict=True)
    return tuple("all" if isinstance(extent, Var) and extent == whole else extent for extent, whole in pairs)


def _laid_out(buffer: Buffer) -> str:
    return f"in a buffer of shape {buffer.shape} and layout {buffer.layout}"


def place_kind(places: Sequence[Memory], sources: Sequence[Source], *, is_phi: bool) -> PlaceKind:
    """Return the kind of regions between which `difference` is None. is_phi: True if they may be in several buffers."""
    like = places[0]
    varying = [part for part in _parts(like, is_phi) if len({_held(place, part) for place in places}) > 1]
    in_bounds = all(place.in_bounds for place in places)
    data = any(is_data(start) for place in places for start in place.starts)
    parts = (*varying, (PlacePart.BUFFER, 0)) if is_phi else tuple(varying)
    return PlaceKind(like, parts, in_bounds, data, tuple(sources))


def _parts(like: Memory, is_phi: bool) -> list[Varying]:
    dims = range(len(like.starts))
    parts = [(PlacePart.START, d) for d in dims]
    if is_phi:
        parts += [(PlacePart.EXTENT, d) for d in dims]
    if is_phi and isinstance(like.buffer.layout, Strided):
        parts += [(PlacePart.STRIDE, d) for d in dims]
    return parts


def _held(place: Memory, varying: Varying) -> int | Expr:
    part, dim = varying
    if part is PlacePart.START:
        return place.starts[dim]
    if part is PlacePart.EXTENT:
        return place.buffer.shape[dim]
    assert part is PlacePart.STRIDE and isinstance(place.buffer.layout, Strided)
    return place.buffer.layout.strides[dim]


def part_of(place: Memory, varying: Varying) -> Expr:
    """Return the value of a part other than the buffer, as an expression."""
    value = _held(place, varying)
    return build.const(value, int64) if isinstance(value, int) else value


def with_parts(kind: PlaceKind, name: str, held: dict[Varying, Var], span: Span) -> Memory:
    """Return the region whose varying parts are held in variables. name: the name of the phi, if any."""
    like, starts, shape = kind.like, list(kind.like.starts), list(kind.like.buffer.shape)
    layout = like.buffer.layout
    strides = list(layout.strides) if isinstance(layout, Strided) else []
    for (part, dim), var in held.items():
        if part is PlacePart.START:
            starts[dim] = var
        if part is PlacePart.EXTENT:
            shape[dim] = var
        if part is PlacePart.STRIDE:
            strides[dim] = var
    buffer = like.buffer
    if kind.is_phi:
        if isinstance(layout, Strided):
            layout = replace(layout, strides=tuple(strides))
        buffer = Buffer(name, buffer.space, buffer.dtype, tuple(shape), layout, buffer.align, None, span)
    extents = tuple(
        whole if isinstance(extent, Var) and extent == before else extent
        for extent, before, whole in zip(like.extents, like.buffer.shape, shape, strict=True)
    )
    writable = like.writable and not kind.is_phi
    return Memory(buffer, tuple(starts), extents, writable, kind.in_bounds)
