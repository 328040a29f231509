"""Second loads from global memory of tiles that an operation needs in two layouts.

    cta.copy x[...], X[...]             cta.copy x[...], X[...]
    view t of x (1, 0)                  cta.copy x.1[...], X[...]
    cta.add y[...], x[...], t[...]      view x.2 of x.1 (1, 0)
                                        cta.add y[...], x[...], x.2[...]

The second load directly follows the first, so nothing is written between them and both are in flight together. The
choice of the grid considers the axes of both tiles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ...dataclass import replace
from ...dtypes import DType
from ...ir import walk
from ...ir.names import FreshNames, defined_names
from ...ir.nodes import Alloc, Buffer, BufferView, Kernel, Open, Region, Stmt, TileOp
from ...ops.copies import COPY
from .axes import AxisJoin, Survey, TileUse, Use, base_of

#: tiles of more bytes aren't loaded again, since the caches may evict them before the second load
_MOST_BYTES = 64 * 1024


def reload_operands(kernel: Kernel, survey: Survey) -> Kernel:
    """Insert a second load of each operand whose axes were refused and whose tile is among `_loads`."""
    if not survey.refused:
        return kernel
    loads = _loads(survey)
    wanted = [(step, use) for step, use in survey.refused if use.tile in loads and step is not loads[use.tile]]
    if not wanted:
        return kernel
    rewriter = _Reloader(kernel, loads)
    operands: dict[int, dict[str, Region]] = {}
    for step, use in wanted:
        operands.setdefault(id(step.op), {})[use.name] = rewriter.operand(use)

    def changed(stmt: Stmt) -> tuple[Stmt, ...]:
        if isinstance(stmt, Alloc):
            return (stmt, *rewriter.definitions.get(stmt.buffer.name, ()))
        if isinstance(stmt, TileOp) and id(stmt) in operands:
            pairs = zip(stmt.record.operands, stmt.operands, strict=False)
            stmt = replace(stmt, operands=tuple(operands[id(stmt)].get(rule.name, o) for rule, o in pairs))
            return (stmt,)
        return (stmt, *rewriter.after.get(id(stmt), ()))

    return replace(kernel, body=walk.rewrite(kernel.body, changed))


def _loads(survey: Survey) -> dict[TileUse, AxisJoin]:
    """Return the load of each open tile that no other operation writes.

    Included are loads of whole tiles of at most `_MOST_BYTES`, from global memory, that use no other local tile.
    """
    loads: dict[TileUse, AxisJoin] = {}
    for step in survey.steps:
        if step.op.name != COPY.name or len(step.uses) != 1 or "dst" not in step.uses:
            continue
        use = step.uses["dst"]
        size = math.prod(use.tile.shape) * use.tile.buffer.dtype.bytes
        is_global = step.op.region("src").buffer.space == "global"
        is_once = survey.written.get(use.tile.buffer.name) == 1 and not use.cuts and use.tile.is_open
        if is_global and is_once and use.region.buffer is use.tile.buffer and size <= _MOST_BYTES:
            loads[use.tile] = step
    return loads


class _Reloader:
    """Makes second loads. definitions, after: what to insert after a tile's definition (by name) or a load (by id)."""

    def __init__(self, kernel: Kernel, loads: Mapping[TileUse, AxisJoin]) -> None:
        self.definitions: dict[str, list[Stmt]] = {}
        self.after: dict[int, list[Stmt]] = {}
        self._loads = loads
        self._made: dict[tuple[TileUse, tuple[int | None, ...], DType], Buffer] = {}
        self._names = FreshNames(defined_names(kernel.body), 1)

    def operand(self, use: Use) -> Region:
        """Return the operand as a region of a second load of its tile, or of a view of that."""
        _, along = base_of(use.region.buffer)
        key = use.tile, along, use.region.dtype
        if key not in self._made:
            self._made[key] = self._second(*key)
        return replace(use.region, buffer=self._made[key])

    def _second(self, tile: TileUse, along: tuple[int | None, ...], dtype: DType) -> Buffer:
        """Create a tile for a second load. Return it, or a view of it with dimensions `along` and type `dtype`."""
        load, layout = self._loads[tile].op, tile.buffer.layout
        assert isinstance(layout, Open)
        made = replace(tile.buffer, name=self._names.name(tile.buffer.name))
        definitions = self.definitions.setdefault(tile.buffer.name, [])
        definitions.append(Alloc(made, span=load.span))
        dst = replace(load.region("dst"), buffer=made)
        self.after.setdefault(id(load), []).append(replace(load, operands=(dst, *load.operands[1:])))
        if along == tuple(range(len(tile.shape))) and dtype == made.dtype:
            return made
        shape, name = tuple(1 if d is None else tile.shape[d] for d in along), self._names.name(tile.buffer.name)
        view = replace(made, name=name, dtype=dtype, shape=shape, layout=Open(layout.scope, along), base=made)
        definitions.append(BufferView(view, span=load.span))
        return view
