"""The relation between the dimensions of an operation's operands.

A relation labels the dimensions of each tile; dimensions with equal labels form one axis. The label is None if a
dimension belongs to no axis, because its extent is 1 or nothing is known about it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from ..dataclass import dataclass
from ..layout.iters import weights
from ..remember import LIMIT
from .record import Attributes, Shapes

#: the label of each dimension of a tile
Labels = tuple[int | None, ...]

Tiles = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Relation:
    """The relation between the dimensions of an operation's tiles.

    of_tiles: (shapes of the tiles, attributes) -> labels of each tile's dimensions, by operand; the destination comes
    first. Tiles without labels are unrelated.
    share_layouts: True if tiles should be distributed in the same way along a common axis. If False, as for a product,
    each tile has its own layout, and labels only relate extents.
    """

    of_tiles: Callable[[Tiles, Attributes], dict[str, Labels]]
    share_layouts: bool = True

    def labels(self, shapes: Shapes, attrs: Attributes) -> dict[str, Labels]:
        """Return the labels of each tile's dimensions, by operand; shapes are None for scalars."""
        return self.of_tiles({name: shape for name, shape in shapes.items() if shape is not None}, attrs)


@lru_cache(LIMIT)
def _broadcast(shape: tuple[int, ...], rank: int) -> Labels:
    """Label dimensions like those of a destination of rank `rank`, aligned on the right; None for an extent of 1."""
    return tuple(None if n == 1 else rank - len(shape) + d for d, n in enumerate(shape))


def _elementwise(tiles: Tiles, attrs: Attributes) -> dict[str, Labels]:
    rank = max(map(len, tiles.values()), default=0)
    return {name: _broadcast(shape, rank) for name, shape in tiles.items()}


def _copy(tiles: Tiles, attrs: Attributes) -> dict[str, Labels]:
    labels = _placed(tiles, "dst")
    along = iter([label for label in labels["dst"] if label is not None])
    labels["src"] = tuple(None if n == 1 else next(along) for n in tiles["src"])
    return labels


def _placed(tiles: Tiles, place: str) -> dict[str, Labels]:
    """Label an index like the leading dimensions of the tile `place`; other operands broadcast to that tile."""
    labels = {name: _broadcast(shape, len(tiles[place])) for name, shape in tiles.items()}
    if "index" in tiles:
        labels["index"] = labels[place][: len(tiles["index"])]
    return labels


def _reduction(tiles: Tiles, attrs: Attributes) -> dict[str, Labels]:
    """Label each destination and the source that follows it; all sources are reduced over the same axes."""
    names, axis = list(tiles), attrs.get("axis")
    labels: dict[str, Labels] = {}
    for to, of in zip(names[::2], names[1::2], strict=True):
        dst, src = tiles[to], tiles[of]
        reduced = axis if isinstance(axis, tuple) else range(len(src)) if axis is None else (axis,)
        kept = iter([d for d, n in enumerate(src) if d not in reduced and n != 1])
        labels[to] = tuple(None if n == 1 else next(kept) for n in dst)
        labels[of] = tuple(None if n == 1 else d for d, n in enumerate(src))
    return labels


def _product(tiles: Tiles, attrs: Attributes) -> dict[str, Labels]:
    along = {"acc": (0, 1), "a": (0, 2), "b": (2, 1)}
    return {
        name: tuple(None if n == 1 else label for label, n in zip(labels, tiles[name], strict=True))
        for name, labels in along.items()
    }


def _reshape(tiles: Tiles, attrs: Attributes) -> dict[str, Labels]:
    """Give equal labels to dimensions of equal extent and row-major stride; None to dst's others and extents of 1."""
    pairs = {name: list(zip(shape, weights(shape), strict=True)) for name, shape in tiles.items()}
    label = {pair: d for d, pair in enumerate(pairs["src"]) if pair[0] != 1}
    return {name: tuple(map(label.get, pairs[name])) for name in ("dst", "src")}


def _sorted(tiles: Tiles, attrs: Attributes) -> dict[str, Labels]:
    """Label the dimensions that are kept; the last one is sorted."""
    return {name: (*_broadcast(shape, len(shape))[:-1], None) for name, shape in tiles.items()}


def _generated(tiles: Tiles, attrs: Attributes) -> dict[str, Labels]:
    return {name: _broadcast(shape, len(shape)) for name, shape in tiles.items()}


#: dimensions correspond from the right; those of extent 1 belong to no axis
ELEMENTWISE = Relation(_elementwise)
#: all tiles have the same dimensions, which an operation may distinguish
SCAN = Relation(_elementwise)
#: dst and src have equal extents other than 1; an index has dst's leading dimensions, and a mask broadcasts to dst
COPY = Relation(_copy)
#: an index has the leading dimensions of the updated place, and other operands broadcast to the place
UPDATE = Relation(lambda tiles, attrs: _placed(tiles, "place"))
#: a destination has the axes of its source that aren't reduced
REDUCTION = Relation(_reduction)
#: acc (m, n), a (m, k), b (k, n), each in the layout that its instruction requires
PRODUCT = Relation(_product, share_layouts=False)
#: row-major order is preserved
RESHAPE = Relation(_reshape)
#: rows are sorted along their last dimension; each tile has its own layout
SORTED = Relation(_sorted, share_layouts=False)
#: elements of the destination depend only on their indices and on scalars
GENERATED = Relation(_generated)
