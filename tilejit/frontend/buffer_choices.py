"""Names that refer to different buffers or regions on different paths.

Local tiles are copied into a slot (see `slots`) on each path. Regions of one buffer may differ only in their starts,
which are kept in variables. Regions of several buffers of one memory space and dtype are represented by a *buffer
phi*, a placeholder buffer that can only be read. A variable with the name of the phi holds the index of the actual
buffer in `Context.alternatives`; `selected` replaces a read by a branch per buffer. The buffers have one shape and
layout, or are tensors whose extents and strides are kept in variables where they may differ.

A read of a copy or a phi is an error after a write to one of its buffers, where a copy would differ from a reference.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..dataclass import dataclass, field, replace
from ..dtypes import int32, int64
from ..errors import KernelTypeError
from ..ir import walk
from ..ir.analyses.flow import Analysis, solve
from ..ir.arithmetic import build
from ..ir.arithmetic.facts import is_data
from ..ir.nodes import (
    Alloc,
    Assign,
    Breakpoint,
    Buffer,
    BufferView,
    Const,
    Declare,
    Expr,
    For,
    If,
    Jump,
    Kernel,
    Let,
    Loop,
    Region,
    Simple,
    Stmt,
    Strided,
    TileOp,
    Var,
)
from ..ir.rewriting import Rewriting
from ..ir.walk import Block
from ..ops.copies import CAST
from ..source import Span
from .values import Memory, describe

if TYPE_CHECKING:
    from .context import Context

ONE_BUFFER = "use one buffer with a stage dimension, as in s[k % 2], or tj.static_range"
REMEDY = f"{ONE_BUFFER}, or another name"

#: the memory spaces of buffers to which a phi may refer; local tiles are copied into slots instead
_SPACES = ("global", "shared")

#: the name of a buffer, and the location of its allocation or, for a parameter, of the assignment that refers to it
Source = tuple[str, Span | None]


@dataclass(frozen=True, slots=True)
class PlaceKind:
    """Regions that are equal to `like` except in the parts listed in `varying` and, for a phi, in the buffer."""

    like: Memory
    #: positions in `parts_of`
    varying: tuple[int, ...]
    is_phi: bool
    in_bounds: bool
    #: True if the start of any region may be data (see `is_data`)
    data: bool
    sources: tuple[Source, ...] = field(compare=False, repr=False)

    def moving(self) -> PlaceKind:
        """Return the kind with `varying` extended by each part that isn't a constant."""
        parts = enumerate(parts_of(self.like, is_phi=self.is_phi))
        return replace(self, varying=tuple([k for k, e in parts if k in self.varying or not isinstance(e, Const)]))


def difference(a: Memory, b: Memory) -> tuple[str, str] | None:
    """Return descriptions of two regions if a name can't hold both; else None. The caller must reject views of phis."""
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
    columns = zip(*[parts_of(place, is_phi=is_phi) for place in places], strict=False)
    varying = tuple([k for k, values in enumerate(columns) if len(set(values)) > 1])
    in_bounds = all(place.in_bounds for place in places)
    data = any(is_data(start) for place in places for start in place.starts)
    return PlaceKind(places[0], varying, is_phi, in_bounds, data, tuple(sources))


#: the names of the parts of a region, each of which has as many values as the region's buffer has dimensions
PARTS = ("start", "extent", "stride")


def parts_of(place: Memory, *, is_phi: bool) -> list[Expr]:
    """Return the starts of a region and, for a phi, the extents and the strides, if any, of its buffer."""
    sizes = _sizes(place.buffer) if is_phi else ()
    return [*place.starts, *[build.const(size, int64) if isinstance(size, int) else size for size in sizes]]


def _sizes(buffer: Buffer) -> tuple[int | Var, ...]:
    return (*buffer.shape, *(buffer.layout.strides if isinstance(buffer.layout, Strided) else ()))


def with_parts(kind: PlaceKind, name: str, held: Sequence[Var], span: Span) -> Memory:
    """Return a region of `kind`. name: the name of its phi, or "". held: a variable for each part in `kind.varying`."""
    like, buffer, rank = kind.like, kind.like.buffer, len(kind.like.starts)
    parts: list[Any] = [*like.starts, *_sizes(buffer)]
    for position, var in zip(kind.varying, held, strict=True):
        parts[position] = var
    starts, shape, strides = (tuple(parts[k : k + rank]) for k in (0, rank, 2 * rank))
    if kind.is_phi:
        layout = replace(buffer.layout, strides=strides) if isinstance(buffer.layout, Strided) else buffer.layout
        buffer = Buffer(name, buffer.space, buffer.dtype, shape, layout, buffer.align, None, span)
    extents = tuple(
        whole if isinstance(extent, Var) and extent == before else extent
        for extent, before, whole in zip(like.extents, like.buffer.shape, shape, strict=True)
    )
    return Memory(buffer, starts, extents, like.writable and not kind.is_phi, kind.in_bounds)


@dataclass(frozen=True, slots=True)
class BufferChoice:
    """A slot into which the sources are copied, or a phi that may refer to any of them."""

    name: str
    sources: tuple[Source, ...]
    is_phi: bool = False

    def __str__(self) -> str:
        listed = [f"{name} (line {span.line})" if span else name for name, span in self.sources]
        return f"{self.name} is {' on one path, '.join(listed)} on {'another' if len(listed) > 1 else 'one path only'}"


#: a fact on some path. (slot, buffer, None): a slot holds a copy of the buffer, or a phi or a variable holds its index.
#: (slot, buffer, line): the statement on this line has written the buffer since then
_Held = tuple[str, str, int | None]


def check_copies(ctx: Context, kernel: Kernel) -> None:
    """Raise KernelTypeError for a read of a slot or phi that was assigned before one of its buffers was last written.

    A copy from such a slot into another slot is allowed, but a read of the other slot is an error too.
    """
    if not ctx.buffer_choices:
        return
    copies = _Copies(ctx.buffer_choices, ctx.allocated_in, tuple(ctx.alternatives.values()))
    states = solve(copies, kernel.body, frozenset[_Held]())
    for stmt, state in zip(walk.statements(kernel.body), states, strict=True):
        stale = {(slot, buffer, line) for slot, buffer, line in state or () if line is not None}
        if not stale or copies.target(stmt) is not None or isinstance(stmt, Breakpoint):
            continue
        for place in walk.reads(stmt):
            for slot, buffer, line in sorted(entry for entry in stale if entry[0] == place.buffer.root.name):
                choice = ctx.buffer_choices[slot]
                raise KernelTypeError(
                    f"{choice}, and line {line} writes {buffer} before {choice.name} is read here: a name that differs "
                    "between paths can be read only until one of its buffers is written",
                    span=place.span or stmt.span, hint=REMEDY,
                )


@dataclass(frozen=True, slots=True)
class _Copies(Analysis[frozenset[_Held]]):
    """Data-flow analysis of the buffers that were copied to slots or assigned to phis; a state is a set of `_Held`."""

    buffer_choices: Mapping[str, BufferChoice]
    allocated_in: Mapping[str, tuple[Span, ...]]
    alternatives: Sequence[Buffer]

    def target(self, stmt: Stmt) -> str | None:
        """Return the name of the slot into which the statement copies a tile; None for any other statement."""
        if not isinstance(stmt, TileOp) or stmt.name != CAST.name:
            return None
        name = stmt.region("dst").buffer.root.name
        return name if name in self.buffer_choices else None

    def join(self, first: frozenset[_Held], second: frozenset[_Held]) -> frozenset[_Held]:
        return first | second

    def step(self, stmt: Simple | Jump, state: frozenset[_Held]) -> frozenset[_Held]:
        slot = self.target(stmt)
        if slot is not None:
            assert isinstance(stmt, TileOp)
            source = stmt.region("src").buffer.root.name
            return _given(state, slot, source, is_new=source in self.allocated_in)
        match _copied(stmt):
            case var, Const() as number if self.is_phi(var.name):
                return _given(state, var.name, self.alternatives[int(number.value)].root.name, is_new=True)
            case var, Var() as other:
                return _given(state, var.name, other.name, is_new=False)
        written = {place.buffer.root.name for place in walk.writes(stmt)}
        line = stmt.span.line if stmt.span is not None else 0
        return state | {(slot, buffer, line) for slot, buffer, last in state if last is None and buffer in written}

    def is_phi(self, name: str) -> bool:
        return name in self.buffer_choices and self.buffer_choices[name].is_phi

    def repeat(self, loop: For | Loop, head: frozenset[_Held], ends: frozenset[_Held]) -> frozenset[_Held]:
        # each iteration allocates a new buffer, so writes to it leave copies of the old one valid; phis aren't copies
        return frozenset([
            (slot, buffer, line) for slot, buffer, line in ends
            if line is not None or slot not in self.buffer_choices or self.is_phi(slot)
            or loop.span not in self.allocated_in.get(buffer, ())
        ])


def _given(state: frozenset[_Held], slot: str, source: str, *, is_new: bool) -> frozenset[_Held]:
    """Return the state after an assignment to a slot or variable. is_new: True if `source` itself is the buffer."""
    kept = [entry for entry in state if entry[0] != slot]
    copied = [(slot, buffer, line) for name, buffer, line in state if name == source]
    return frozenset([*kept, *copied, *([(slot, source, None)] if is_new else [])])


def _copied(stmt: Stmt) -> tuple[Var, Expr | None] | None:
    """Return the variable that a statement sets, with its value if it has one; None for any other statement."""
    match stmt:
        case Declare(var, value) | Assign(var, value) | Let(var, value):
            return var, value
    return None


def selected(ctx: Context, body: Block) -> Block:
    """Return a kernel's body with reads of phis replaced by branches. body: begins with the allocations and views."""
    phis = {name for name, choice in ctx.buffer_choices.items() if choice.is_phi}
    if not phis:
        return body
    selection = _Selection(ctx, _possible(body, phis))
    body = walk.rewrite(body, selection.rewritten)
    first = next((k for k, stmt in enumerate(body) if not isinstance(stmt, (Alloc, BufferView))), len(body))
    return (*body[:first], *selection.views, *body[first:])


def _possible(body: Block, phis: Collection[str]) -> dict[str, list[int]]:
    """Return, for each phi, the ascending indices in `Context.alternatives` of the buffers to which it may refer."""
    # the indices that variables may hold, and the copies between variables
    held: dict[str, set[int]] = defaultdict(set)
    copies: list[tuple[str, str]] = []
    for stmt in walk.statements(body):
        match _copied(stmt):
            case var, Const() as number if var.name in phis:
                held[var.name].add(int(number.value))
            case var, Var() as source:
                copies.append((var.name, source.name))
    is_complete = False
    while not is_complete:
        missing = [(name, copied) for name, copied in copies if not held[copied] <= held[name]]
        for name, copied in missing:
            held[name] |= held[copied]
        is_complete = not missing
    return {name: sorted(held[name]) for name in phis}


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
        assert isinstance(stmt, (TileOp, Breakpoint)), f"{type(stmt).__name__} reads {phi.name}"
        # an operation may read several phis; `walk.rewrite` also rewrites the branches, which resolves the next phi
        return self._branches(phi, stmt)

    def _branches(self, phi: Buffer, stmt: TileOp | Let | Breakpoint) -> tuple[Stmt, ...]:
        *numbers, last = self.possible[phi.name]
        chain = self._of(phi, last, stmt)
        for number in reversed(numbers):
            cond = build.op("equal", Var(phi.name, int32), build.const(number, int32))
            chain = (If(cond, self._of(phi, number, stmt), chain, phi.span),)
        return chain

    def _of(self, phi: Buffer, number: int, stmt: TileOp | Let | Breakpoint) -> tuple[Stmt, ...]:
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
            pairs = zip(_sizes(phi), _sizes(alternative), strict=False)
            sizes: dict[int | Var, int | Var] = {before: after for before, after in pairs if isinstance(before, Var)}
            shape = tuple(sizes.get(e, e) for e in old.shape)
            # prefer the base's own representation of the layout, because equal layouts may have several
            layout = base.layout if old.layout == old.base.layout else old.layout
            if isinstance(layout, Strided):
                layout = replace(layout, strides=tuple(sizes.get(s, s) for s in layout.strides))
            name = self.ctx.unique(f"{alternative.root.name}.view")
            self.replaced[key] = replace(old, name=name, shape=shape, layout=layout, align=base.align, base=base)
            self.views.append(BufferView(self.replaced[key], old.span))
        return self.replaced[key]
