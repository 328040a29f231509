"""Distribution of products over the warps of a scope, and the resulting layouts of the products' operands.

By extents of the sums (M x N):

    64 x 40 on 4 warps    16 rows each                48 x 40 on 4 warps    the last warp has padding only
    16 x 8 on 4 warps     every warp holds all of it  13 x 1 on 1 warp      3 rows of padding; 4 lanes hold each row
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from ...dataclass import dataclass
from ...errors import LayoutError
from ...ir.nodes import Kernel
from ...isa.mma import MMA_M, MMA_N, products
from ...layout.fragments import fragment_layout
from ...layout.grid import Projection, same_owners
from ...ops import axes
from ...scopes import SCOPES
from ...target import WARP, target
from ..weights import ACCESS, BARRIER, WAVEFRONT
from .axes import AxisJoin, Survey, TileUse, Use

#: cost of a warp's instruction in quarter cycles of a multiprocessor: 2,048 products of 16 bits, at 1,024 per cycle
_MMA = 8


@dataclass(frozen=True, slots=True)
class _Split:
    """A distribution of warps. warps: along M and N. copies: number of groups of warps that compute the same sums."""

    warps: tuple[int, int]
    copies: int


class ProductLayouts:
    """Layouts of operands, given the distribution of a kernel's products over the warps of each scope.

    by_hand: the user's layouts, and those that propagate from them to other tiles.
    """

    def __init__(self, kernel: Kernel, survey: Survey, by_hand: Mapping[TileUse, Projection]) -> None:
        self._by_hand, self._target = by_hand, target(kernel.target)
        self._splits: dict[str, _Split] = {}
        steps = _products(survey)
        self._lefts = {step.uses["a"].tile.axes for step in steps if "a" in step.uses}
        self._reductions = Counter(axis for step in survey.steps for axis in _reduced(step))
        for scope in dict.fromkeys(step.op.scope for step in steps):
            warps, rest = divmod(SCOPES[scope].threads(kernel.threads), WARP)
            if not rest:
                same = [step for step in steps if step.op.scope == scope]
                self._splits[scope] = min(_splits(warps), key=lambda split: self._order(same, split))

    def layout(self, step: AxisJoin, name: str) -> Projection | None:
        """Return the layout that products require for an operand, over its own dimensions; None if there is none."""
        split = self._splits.get(step.op.scope)
        return None if split is None else self._fragment(step, name, split)

    def of_tile(self, step: AxisJoin, use: Use) -> Projection | None:
        """Return the layout that a product requires for a tile; None if it uses only a part, or requires none."""
        return None if use.cuts else _over_tile(step, use, self.layout(step, use.name))

    def _order(self, steps: Iterable[AxisJoin], split: _Split) -> tuple[int, ...]:
        """Return a sort key: least time, fewest warps with distinct work, least traffic of factors, most warps on M."""
        time = traffic = 0
        (wm, wn), copies = split.warps, split.copies
        for step in steps:
            (m, n), k = step.op.region("acc").shape, step.op.region("a").shape[1]
            issues = -(-m // (MMA_M * wm)) * -(-n // (MMA_N * wn)) * self._depth(step)[1]
            time += step.iterations * (_MMA * issues + sum(self._conversions(step, split)))
            traffic += copies * (m * k * wn + k * n * wm)
        return time, wm * wn, traffic, -wm

    def _conversions(self, step: AxisJoin, split: _Split) -> Iterable[int]:
        """Yield the costs per warp of converting operands with another layout, and sums that are also left factors."""
        for name, use in step.uses.items():
            there = self._by_hand.get(use.tile)
            is_cut = name == "acc" and split.warps[1] > 1 and use.tile.axes in self._lefts
            wanted = self._fragment(step, name, split) if is_cut or there is not None else None
            if wanted is None:
                continue
            if there is not None and not _fits(_over_tile(step, use, wanted), there, use.tile):
                yield (2 if name == "acc" else 1) * _conversion(wanted, use)
            elif is_cut:
                # only whole rows can be another product's left factor in registers, and be reduced within a warp
                axes = zip(use.tile.axes, use.labels, strict=True)
                crossed = sum(self._reductions[axis] for axis, label in axes if label == 1)
                yield _conversion(wanted, use) + 2 * BARRIER * crossed

    def _fragment(self, step: AxisJoin, name: str, split: _Split) -> Projection | None:
        region, (multiple, _) = step.op.region(name), self._depth(step)
        scope = "warpgroup" if step.op.scope == "warpgroup" else "cta"
        try:
            return fragment_layout(name, region.shape, region.dtype, split.warps, split.copies, multiple, scope)
        except LayoutError:
            return None

    def _depth(self, step: AxisJoin) -> tuple[int, int]:
        """Return (the multiple to which K is padded, instructions along K), or (1, 1) without an instruction."""
        k = step.op.region("a").shape[1]
        acc, a, b = (step.op.region(name).dtype for name in ("acc", "a", "b"))
        depths = [form.k for form in products(a, b, acc).on(self._target)]
        if not depths:
            return 1, 1
        multiple = min(depths)
        slots = -(-k // multiple) * multiple
        return multiple, slots // next(depth for depth in depths if slots % depth == 0)


def has_products(survey: Survey) -> bool:
    """True if the surveyed operations include products."""
    return bool(_products(survey))


def _products(survey: Survey) -> list[AxisJoin]:
    return [step for step in survey.steps if step.op.record.relation is axes.PRODUCT]


def _reduced(step: AxisJoin) -> Iterator[int | None]:
    if step.op.record.relation is not axes.REDUCTION or "src" not in step.uses:
        return
    use = step.uses["src"]
    for axis, label in zip(use.tile.axes, use.labels, strict=True):
        if label is not None and label not in step.labels["dst"]:
            yield axis


def _splits(warps: int) -> list[_Split]:
    every = range(1, warps + 1)
    return [_Split((wm, wn), warps // (wm * wn)) for wm in every for wn in every if warps % (wm * wn) == 0]


def _over_tile(step: AxisJoin, use: Use, wanted: Projection | None) -> Projection | None:
    """Return the layout `wanted` over the dimensions of the operand's tile; None if the tile has further ones."""
    labels = step.labels[use.name]
    if wanted is None or any(label is not None and label not in labels for label in use.labels):
        return None
    dims = [None if label is None else labels.index(label) for label in use.labels]
    return wanted.along(step.op.region(use.name).shape, dims).concise(use.tile.shape)


def _fits(wanted: Projection | None, there: Projection, tile: TileUse) -> bool:
    if wanted is None:
        return False
    sides = [
        (each.layout, [n for n, extent in zip(each.padded(tile.shape), tile.shape, strict=True) if extent > 1])
        for each in (wanted, there)
    ]
    return same_owners(*sides[0], *sides[1])


def _conversion(wanted: Projection, use: Use) -> int:
    words = -(-wanted.layout.storage().size() * use.region.dtype.bytes // 4)
    return 2 * BARRIER + 2 * words * (ACCESS + WAVEFRONT)
