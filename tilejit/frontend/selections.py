"""Resolution of buffer phis (see `places`): each read of a phi becomes one branch for each possible buffer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..dataclass import dataclass, field, replace
from ..dtypes import int32
from ..ir import walk
from ..ir.arithmetic import build
from ..ir.nodes import Alloc, Assign, Buffer, BufferView, Const, Declare, If, Let, Region, Stmt, Strided, TileOp, Var
from ..ir.rewriting import Rewriting
from ..ir.walk import Block
from .context import Context


def selected(ctx: Context, body: Block) -> Block:
    """Return the statements of a kernel, with phis resolved. body: begins with the allocations and views."""
    phis = {name for name, choice in ctx.buffer_choices.items() if choice.is_phi}
    if not phis:
        return body
    selection = _Selection(ctx, _possible(body, phis, tuple(ctx.alternatives.values())))
    body = walk.rewrite(body, selection.rewritten)
    first = next((k for k, stmt in enumerate(body) if not isinstance(stmt, (Alloc, BufferView))), len(body))
    return (*body[:first], *selection.views, *body[first:])


def _possible(body: Block, phis: Iterable[str], alternatives: tuple[Buffer, ...]) -> dict[str, list[int]]:
    """Return the indices in `alternatives` of the buffers that each phi can be, in ascending order."""
    possible: dict[str, set[int]] = {name: set() for name in phis}
    # variable -> the variables that are copied to it, which may hold the index of a buffer
    sources: dict[str, set[str]] = {}
    for stmt in walk.statements(body):
        match stmt:
            case Declare(var, Const() as number) | Assign(var, Const() as number) if var.name in possible:
                possible[var.name].add(int(number.value))
            case Declare(var, Var() as source) | Assign(var, Var() as source) | Let(var, Var() as source):
                sources.setdefault(var.name, set()).add(source.name)
    for name in possible:
        waiting, reached = [name], {name}
        while waiting:
            onward = sources.get(waiting.pop(), set()) - reached
            reached |= onward
            waiting.extend(onward)
        # the set of another phi may already be extended, but only with indices that also reach this phi
        possible[name] |= {number for other in reached & set(possible) for number in possible[other]}
    return {name: sorted(numbers) for name, numbers in possible.items()}


@dataclass(slots=True)
class _Selection:
    ctx: Context
    possible: Mapping[str, list[int]]
    #: the views that replace views of phis
    views: list[BufferView] = field(default_factory=list)
    replaced: dict[tuple[str, int], Buffer] = field(default_factory=dict)

    def rewritten(self, stmt: Stmt) -> tuple[Stmt, ...]:
        """Replace a statement that reads a phi by one branch per possible buffer; drop views of phis."""
        if isinstance(stmt, BufferView):
            return () if stmt.buffer.root.name in self.possible else (stmt,)
        phi = next((p.buffer.root for p in walk.reads(stmt) if p.buffer.root.name in self.possible), None)
        if phi is None:
            return (stmt,)
        if isinstance(stmt, Let):
            return Declare(stmt.var, None, stmt.span), *self._branches(phi, stmt)
        assert isinstance(stmt, TileOp), f"{type(stmt).__name__} reads {phi.name}"
        # an operation may read several phis; `walk.rewrite` also rewrites the branches, which resolves the next phi
        return self._branches(phi, stmt)

    def _branches(self, phi: Buffer, stmt: TileOp | Let) -> tuple[Stmt, ...]:
        *numbers, last = self.possible[phi.name]
        chain = self._of(phi, last, stmt)
        for number in reversed(numbers):
            cond = build.op("equal", Var(phi.name, int32), build.const(number, int32))
            chain = (If(cond, self._of(phi, number, stmt), chain, phi.span),)
        return chain

    def _of(self, phi: Buffer, number: int, stmt: TileOp | Let) -> tuple[Stmt, ...]:
        places = [o for o in stmt.given if isinstance(o, Region)] if isinstance(stmt, TileOp) else walk.reads(stmt)
        loaded = replace(stmt.var, name=self.ctx.unique(stmt.var.name)) if isinstance(stmt, Let) else None
        old = [place.buffer for place in places if place.buffer.root.name == phi.name]
        made = Rewriting({buffer.name: self._instead(buffer, phi, number) for buffer in old}).stmt(stmt)
        if not isinstance(made, Let) or loaded is None:
            return (made,)
        return replace(made, var=loaded), Assign(made.var, loaded, made.span)

    def _instead(self, old: Buffer, phi: Buffer, number: int) -> Buffer:
        alternative = list(self.ctx.alternatives.values())[number]
        if old.base is None:
            return alternative
        key = old.name, number
        if key not in self.replaced:
            base = self._instead(old.base, phi, number)
            extents = _pairs(phi, alternative)
            shape = tuple(extents.get(e, e) for e in old.shape)
            # layouts that are equal as functions may have different representations
            layout = base.layout if old.layout == old.base.layout else old.layout
            if isinstance(layout, Strided):
                layout = replace(layout, strides=tuple(extents.get(s, s) for s in layout.strides))
            name = self.ctx.unique(f"{alternative.root.name}.view")
            self.replaced[key] = replace(old, name=name, shape=shape, layout=layout, align=base.align, base=base)
            self.views.append(BufferView(self.replaced[key], old.span))
        return self.replaced[key]


def _pairs(phi: Buffer, alternative: Buffer) -> dict[int | Var, int | Var]:
    pairs: dict[int | Var, int | Var] = dict(zip(phi.shape, alternative.shape, strict=True))
    if isinstance(phi.layout, Strided) and isinstance(alternative.layout, Strided):
        pairs |= dict(zip(phi.layout.strides, alternative.layout.strides, strict=True))
    return {old: new for old, new in pairs.items() if isinstance(old, Var)}
