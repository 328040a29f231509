"""The relation between the dimensions of an operation's operands.

A relation labels the dimensions of each tile; dimensions with equal labels form one axis. The label is None if a
dimension belongs to no axis, because its extent is 1 or nothing is known about it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from ..dataclass import dataclass
from ..remember import LIMIT

#: the label of each dimension of a tile
Labels = tuple[int | None, ...]

Shapes = Mapping[str, tuple[int, ...] | None]
Attributes = Mapping[str, object]


@dataclass(frozen=True, slots=True, eq=False)
class Relation:
    """The relation between the dimensions of an operation's tiles.

    labels: (shapes, attributes) -> labels of each tile's dimensions, by operand; shapes are None for scalars, and the
    destination's comes first. Tiles without labels are unrelated.
    share_layouts: tiles should be distributed in the same way along a common axis. If False, as for a product, each
    tile has its own layout, and labels only relate extents.
    """

    name: str
    labels: Callable[[Shapes, Attributes], dict[str, Labels]]
    share_layouts: bool = True


def _tiles(shapes: Shapes) -> dict[str, tuple[int, ...]]:
    return {name: shape for name, shape in shapes.items() if shape is not None}


@lru_cache(LIMIT)
def _broadcast(shape: tuple[int, ...], rank: int) -> Labels:
    """Label dimensions, aligned from the right to a destination of `rank` dimensions; None for an extent of 1."""
    return tuple(None if n == 1 else rank - len(shape) + d for d, n in enumerate(shape))


def _elementwise(shapes: Shapes, attrs: Attributes) -> dict[str, Labels]:
    tiles = _tiles(shapes)
    rank = max(map(len, tiles.values()), default=0)
    return {name: _broadcast(shape, rank) for name, shape in tiles.items()}


def _copy(shapes: Shapes, attrs: Attributes) -> dict[str, Labels]:
    tiles = _tiles(shapes)
    labels = {name: _broadcast(shape, len(tiles["dst"])) for name, shape in tiles.items()}
    along = iter([label for label in labels["dst"] if label is not None])
    labels["src"] = tuple(None if n == 1 else next(along) for n in tiles["src"])
    if "index" in tiles:
        # an index has the leading dimensions of the destination
        labels["index"] = labels["dst"][: len(tiles["index"])]
    return labels


def _update(shapes: Shapes, attrs: Attributes) -> dict[str, Labels]:
    """Label an index with the leading dimensions of the place; other operands broadcast to the place."""
    tiles = _tiles(shapes)
    place = tiles["place"]
    labels = {name: _broadcast(shape, len(place)) for name, shape in tiles.items()}
    if "index" in tiles:
        labels["index"] = labels["place"][: len(tiles["index"])]
    return labels


def _reduction(shapes: Shapes, attrs: Attributes) -> dict[str, Labels]:
    """Label each destination and the source that follows it; all sources are reduced over the same axes."""
    tiles = _tiles(shapes)
    names, axis = list(tiles), attrs.get("axis")
    labels: dict[str, Labels] = {}
    for to, of in zip(names[::2], names[1::2], strict=True):
        dst, src = tiles[to], tiles[of]
        reduced = axis if isinstance(axis, tuple) else range(len(src)) if axis is None else (axis,)
        kept = iter([d for d, n in enumerate(src) if d not in reduced and n != 1])
        labels[to] = tuple(None if n == 1 else next(kept) for n in dst)
        labels[of] = tuple(None if n == 1 else d for d, n in enumerate(src))
    return labels


def _product(shapes: Shapes, attrs: Attributes) -> dict[str, Labels]:
    tiles, along = _tiles(shapes), {"acc": (0, 1), "a": (0, 2), "b": (2, 1)}
    return {
        name: tuple(None if n == 1 else label for label, n in zip(labels, tiles[name], strict=True))
        for name, labels in along.items()
    }


def _reshape(shapes: Shapes, attrs: Attributes) -> dict[str, Labels]:
    """Give dimensions of equal extent and row-major stride the same label, and others of the destination None."""
    dst, src = _tiles(shapes)["dst"], _tiles(shapes)["src"]
    starts = _starts(src)
    return {
        "dst": tuple(None if n == 1 else starts.get((n, step)) for n, step in zip(dst, _strides(dst), strict=True)),
        "src": tuple(None if n == 1 else starts[n, step] for n, step in zip(src, _strides(src), strict=True)),
    }


def _strides(shape: tuple[int, ...]) -> list[int]:
    steps = [1]
    for n in reversed(shape):
        steps.append(steps[-1] * n)
    return steps[-2::-1]


def _starts(shape: tuple[int, ...]) -> dict[tuple[int, int], int]:
    return {pair: d for d, pair in enumerate(zip(shape, _strides(shape), strict=True)) if pair[0] != 1}


def _generated(shapes: Shapes, attrs: Attributes) -> dict[str, Labels]:
    return {name: _broadcast(shape, len(shape)) for name, shape in _tiles(shapes).items()}


#: dimensions correspond from the right; those of extent 1 belong to no axis
ELEMENTWISE = Relation("elementwise", _elementwise)
#: shapes are equal without dimensions of 1; an index has the leading dimensions, other operands broadcast to dst
COPY = Relation("copy", _copy)
#: an index has the leading dimensions of the updated place, and other operands broadcast to the place
UPDATE = Relation("update", _update)
#: a destination has the axes of its source that aren't reduced
REDUCTION = Relation("reduction", _reduction)
#: acc (m, n), a (m, k), b (k, n), each in the layout that its instruction requires
PRODUCT = Relation("product", _product, share_layouts=False)
#: row-major order is preserved
RESHAPE = Relation("reshape", _reshape)
#: elements of the destination depend only on their indices and on scalars
GENERATED = Relation("generated", _generated)

RELATIONS = (ELEMENTWISE, COPY, UPDATE, REDUCTION, PRODUCT, RESHAPE, GENERATED)
