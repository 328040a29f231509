"""How the axes of an operation's operands relate: which dimensions run along together.

A relation names each dimension of each tile by a label: dimensions with one label are one axis. None is a dimension
that runs along no axis: its extent is 1, or nothing is known of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from ..dataclass import dataclass
from ..remember import LIMIT

__all__ = [
    "COPY", "ELEMENTWISE", "GENERATED", "PRODUCT", "REDUCTION", "RELATIONS", "RESHAPE", "UPDATE", "Labels",
    "Relation",
]

#: the label of each dimension of a tile
Labels = tuple[int | None, ...]

Shapes = Mapping[str, tuple[int, ...] | None]
Attributes = Mapping[str, object]


@dataclass(frozen=True, slots=True, eq=False)
class Relation:
    """How the dimensions of an operation's tiles run along together.

    labels: of the tiles' dimensions, by operand, from the shapes (None for a scalar) and attributes by name; the
    destination's shape comes first. A tile that isn't named relates to nothing.
    are_alike: tiles along one axis should be spread over threads alike. Where not, as with a product's, each tile has
    its own layout, and the labels only say whose extents are one.
    """

    name: str
    labels: Callable[[Shapes, Attributes], dict[str, Labels]]
    are_alike: bool = True


def _tiles(shapes: Shapes) -> dict[str, tuple[int, ...]]:
    return {name: shape for name, shape in shapes.items() if shape is not None}


@lru_cache(LIMIT)
def _broadcast(shape: tuple[int, ...], rank: int) -> Labels:
    """Counted from the right, in a destination of `rank` dimensions."""
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
        # the leading dimensions of both
        labels["index"] = labels["dst"][: len(tiles["index"])]
    return labels


def _update(shapes: Shapes, attrs: Attributes) -> dict[str, Labels]:
    """An index runs along the place's leading dimensions; others broadcast to it."""
    tiles = _tiles(shapes)
    place = tiles["place"]
    labels = {name: _broadcast(shape, len(place)) for name, shape in tiles.items()}
    if "index" in tiles:
        labels["index"] = labels["place"][: len(tiles["index"])]
    return labels


def _reduction(shapes: Shapes, attrs: Attributes) -> dict[str, Labels]:
    """A destination stands in front of each source; all are reduced over the same axes."""
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
    """A dimension of each is one axis where as many elements lie behind both; the others aren't known to be."""
    dst, src = _tiles(shapes)["dst"], _tiles(shapes)["src"]
    starts = _starts(src)
    return {
        "dst": tuple(None if n == 1 else starts.get((n, behind)) for n, behind in zip(dst, _behind(dst), strict=True)),
        "src": tuple(None if n == 1 else starts[n, behind] for n, behind in zip(src, _behind(src), strict=True)),
    }


def _behind(shape: tuple[int, ...]) -> list[int]:
    """How many elements a step along each dimension is worth."""
    steps = [1]
    for n in reversed(shape):
        steps.append(steps[-1] * n)
    return steps[-2::-1]


def _starts(shape: tuple[int, ...]) -> dict[tuple[int, int], int]:
    return {pair: d for d, pair in enumerate(zip(shape, _behind(shape), strict=True)) if pair[0] != 1}


def _generated(shapes: Shapes, attrs: Attributes) -> dict[str, Labels]:
    return {name: _broadcast(shape, len(shape)) for name, shape in _tiles(shapes).items()}


#: dimensions from the right are one axis; one of extent 1 runs along none
ELEMENTWISE = Relation("elementwise", _elementwise)
#: as of equal shapes once dimensions of 1 are left out; an index runs along the leading ones, others broadcast to dst
COPY = Relation("copy", _copy)
#: of what is updated in memory
UPDATE = Relation("update", _update)
#: each destination has the axes of its source that the attribute `axis` doesn't name
REDUCTION = Relation("reduction", _reduction)
#: acc (m, n), a (m, k), b (k, n), each laid out as its instruction wants it
PRODUCT = Relation("product", _product, are_alike=False)
#: row-major order is kept
RESHAPE = Relation("reshape", _reshape)
#: the destination's elements follow from their indices alone
GENERATED = Relation("generated", _generated)

RELATIONS = (ELEMENTWISE, COPY, UPDATE, REDUCTION, PRODUCT, RESHAPE, GENERATED)
