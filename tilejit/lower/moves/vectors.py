"""How vectors are moved: the statements, and what the instructions are called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...dtypes import DType, int32
from ...ir import build
from ...ir.nodes import TRUE, Buffer, Expr, Move, Region, TileOp, Vector
from ..builder import Builder
from ..schedule.addresses import all_inside, inside, moves_whole
from ..schedule.placement import Side
from ..schedule.schedule import Atom

__all__ = ["Edges", "Run", "access_name", "at_edges", "edges_of", "fill_value", "load", "pieces", "store"]


def access_name(verb: str, space: str, width: int, dtype: DType) -> str:
    """The PTX mnemonic of one access of `width` elements."""
    bits = width * dtype.bits
    lane = 64 if dtype.bits == 64 else min(bits, 32)
    count = bits // lane
    return f"{verb}.{space}" + (f".v{count}" if count > 1 else "") + f".b{lane}"


@dataclass(frozen=True, slots=True)
class Edges:
    """The edges of a global tensor that a region may pass.

    dims: dimensions of the buffer. whole: whether no vector straddles an edge.
    """

    dims: tuple[int, ...] = ()
    whole: bool = True


def edges_of(side: Side, dims: tuple[int, ...], atoms: Sequence[Atom], width: int) -> Edges:
    """The edges in `dims` for vectors of `width` along the last atom."""
    return Edges(dims, moves_whole(side, dims, atoms, width))


def pieces(count: int) -> list[tuple[int, int]]:
    """(start, width) of the widest aligned vectors that make up `count` elements from an aligned start."""
    found, start = [], 0
    while start < count:
        width = 1 << ((count - start).bit_length() - 1)
        found.append((start, width))
        start += width
    return found


def fill_value(op: TileOp) -> Expr:
    """What a copy reads outside its source."""
    if len(op.operands) > 2:
        value = op.operands[2]
        assert not isinstance(value, Region)
        return build.cast(value, op.operands[0].dtype)
    return build.const(0, op.operands[0].dtype)


@dataclass(frozen=True, slots=True)
class Run:
    """One vector on the memory side.

    address: of its first element, swizzled. values: the digits of `atoms` that lead to it, which count vectors.
    dim: the dimension of the region along which it runs.
    """

    side: Side
    edges: Edges
    address: Expr
    atoms: tuple[Atom, ...]
    values: tuple[Expr, ...]
    dim: int | None

    def within(self, step: Expr) -> Expr:
        """Whether the element `step` further lies inside the tensor."""
        return inside(self.side, self.edges.dims, self.atoms, self.values, step, self.dim)


def load(b: Builder, registers: Buffer, first: Expr, run: Run, start: int, width: int, fill: Expr) -> None:
    """Moves elements [start, start + width) of a run to registers from `first` + start."""

    def one(k: Expr, count: int, cond: Expr) -> None:
        to = Vector(registers, build.add(first, k), count)
        src = Vector(run.side.buffer, build.add(run.address, k), count)
        if cond == TRUE:
            b.append(Move(to, src, span=b.span))
        else:
            b.append(Move(to, src, cond, fill, span=b.span))

    _guarded(b, run, start, width, one)


def store(b: Builder, registers: Buffer, first: Expr, run: Run, start: int, width: int) -> None:
    """Moves registers from `first` + start to elements [start, start + width) of a run."""

    def one(k: Expr, count: int, cond: Expr) -> None:
        src = Vector(registers, build.add(first, k), count)
        to = Vector(run.side.buffer, build.add(run.address, k), count)
        b.append(Move(to, src, None if cond == TRUE else cond, span=b.span))

    _guarded(b, run, start, width, one)


def _guarded(b: Builder, run: Run, start: int, width: int, one: Callable[[Expr, int, Expr], None]) -> None:
    """One access of `width` elements, or one an element where a vector may straddle an edge."""
    if run.edges.whole or width == 1:
        first = build.const(start, int32)
        one(first, width, run.within(first))
        return
    with b.loop("element", width, unrolled=True) as k:
        at = build.add(k, start)
        one(at, 1, run.within(at))


#: So many vectors a thread just carry their predicates. Code without them beside it takes longer to compile (two
#: copies of 8 rounds: 14.0 ms instead of 10.6 from call to PTX) and gains nothing (1 GiB through shared memory on an
#: H100: 0.974 of the GPU's own copy instead of 0.986, `tests/bench/bench_copy.py`).
_FEW_ROUNDS = 8


def at_edges(
    b: Builder, sides: Sequence[tuple[Side, Edges]], rounds: int, write: Callable[[Sequence[Edges]], None]
) -> None:
    """Writes statements once for regions inside their tensors, without a predicate, and once for those at an edge.

    Few rounds of whole vectors are written once, with predicates.
    """
    edges = [e for _, e in sides]
    if not any(e.dims for e in edges) or (rounds <= _FEW_ROUNDS and all(e.whole for e in edges)):
        write(edges)
        return
    cond: Expr = TRUE
    for side, e in sides:
        cond = build.logical_and(cond, all_inside(side, e.dims))
    with b.either(cond) as otherwise:
        write([Edges() for _ in edges])
        with otherwise:
            write(edges)
