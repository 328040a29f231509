"""Comparison of shapes: broadcasting, as in NumPy, and equality apart from dimensions of extent 1."""

from __future__ import annotations

from collections.abc import Sequence

from .record import Attributes, Fault, Shape, Shapes


def without_units(shape: Shape) -> tuple[int, ...]:
    """Return the extents other than 1; () for a scalar."""
    return tuple([n for n in shape or () if n != 1])


def broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    """True if `shape` broadcasts to `to`."""
    if len(shape) > len(to):
        return False
    if shape == to:
        return True
    return all(a in (1, b) for a, b in zip(reversed(shape), reversed(to), strict=False))


def common_shape(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...] | Fault:
    """Return the shape to which all of the shapes broadcast, or a fault if none exists."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    # an extent of 0 broadcasts only with 0 and 1, and gives 0
    result = tuple([max(extents) if all(extents) else 0 for extents in zip(*padded, strict=True)])
    if all(broadcasts(shape, result) for shape in shapes):
        return result
    return Fault(
        f"shapes {' and '.join(map(str, shapes))} don't broadcast",
        "extents must be equal or 1, counted from the right; x[:, None] adds a dimension",
    )


def broadcast_fault(shapes: Shapes, attrs: Attributes) -> Fault | None:
    """Return why the inputs don't broadcast to the destination, whose shape comes first, or None."""
    dst, *inputs = [shape for shape in shapes.values() if shape is not None]
    if all(shape == dst for shape in inputs):
        return None
    common = common_shape([dst, *inputs])
    if isinstance(common, Fault):
        return common
    if common == dst:
        return None
    return Fault(
        f"inputs of shape {' and '.join(map(str, inputs))} don't broadcast to the destination's {dst}",
        "give the destination the shape to which the inputs broadcast",
    )
