"""How vectors are moved: the statements with their masks, and what the instructions are called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...dtypes import DType, int32
from ...ir.arithmetic import build
from ...ir.nodes import TRUE, Buffer, Expr, Move, TileOp, Vector
from ..builder import Builder
from ..schedule.views import View
from ..schedule.windows import NO_EDGES, Edges, Mask

__all__ = ["Run", "at_edges", "fill_value", "load", "pieces", "store"]


def pieces(count: int) -> list[tuple[int, int]]:
    """(start, width) of the widest aligned vectors that make up `count` elements from an aligned start."""
    vectors, start = [], 0
    while start < count:
        width = 1 << ((count - start).bit_length() - 1)
        vectors.append((start, width))
        start += width
    return vectors


def fill_value(op: TileOp) -> Expr:
    """What a copy reads outside its source."""
    dtype = op.region("dst").dtype
    fill = op.value("fill")
    return build.const(0, dtype) if fill is None else build.cast(fill, dtype)


@dataclass(frozen=True, slots=True)
class Run:
    """One vector in memory.

    view: its operand over the digits that count vectors, whose `values` lead to it. mask: what of it is inside.
    address: of its first element, swizzled.
    """

    view: View
    mask: Mask
    address: Expr
    values: Sequence[Expr]

    def coordinate(self, dim: int, dtype: DType) -> Expr:
        """The index of its first element in a dimension of the space."""
        return self.view.coordinate(dim, self.values, dtype)

    def inside(self, step: Expr) -> Expr:
        """Whether the element `step` further lies inside the tensor."""
        return self.mask.inside(self.coordinate, step)


def load(b: Builder, registers: Buffer, first: Expr, run: Run, start: int, width: int, fill: Expr) -> None:
    """Moves elements [start, start + width) of a run to registers from `first` + start."""

    def one(k: Expr, count: int, cond: Expr) -> None:
        to = Vector(registers, build.add(first, k), count)
        src = Vector(run.view.buffer, build.add(run.address, k), count)
        if cond == TRUE:
            b.append(Move(to, src, span=b.span))
        else:
            b.append(Move(to, src, cond, fill, span=b.span))

    _guarded(b, run, start, width, one)


def store(b: Builder, registers: Buffer, first: Expr, run: Run, start: int, width: int) -> None:
    """Moves registers from `first` + start to elements [start, start + width) of a run."""

    def one(k: Expr, count: int, cond: Expr) -> None:
        src = Vector(registers, build.add(first, k), count)
        to = Vector(run.view.buffer, build.add(run.address, k), count)
        b.append(Move(to, src, None if cond == TRUE else cond, span=b.span))

    _guarded(b, run, start, width, one)


def _guarded(b: Builder, run: Run, start: int, width: int, one: Callable[[Expr, int, Expr], None]) -> None:
    """One access of `width` elements, or one an element where a vector may straddle an edge."""
    if run.mask.whole or width == 1:
        first = build.const(start, int32)
        one(first, width, run.inside(first))
        return
    with b.loop("element", width, unrolled=True) as k:
        at = build.add(k, start)
        one(at, 1, run.inside(at))


#: So many vectors a thread just carry their predicates. Code without them beside it takes longer to compile (two
#: copies of 8 rounds: 14.0 ms instead of 10.6 from call to PTX) and gains nothing (1 GiB through shared memory on an
#: H100: 0.974 of the GPU's own copy instead of 0.986, `tests/bench/bench_copy.py`).
_FEW_ROUNDS = 8


def at_edges(
    b: Builder, views: Sequence[View], width: int, rounds: int, write: Callable[[Mapping[str, Mask]], None]
) -> None:
    """Writes statements once for operands inside their tensors, without a mask, and once for those at an edge.

    Few rounds of whole vectors are written once, with masks.
    views: the operands over the digits of elements, of which a vector has `width` along the last.
    """
    edges = {view.name: Edges.of(view, width) for view in views}
    few = rounds <= _FEW_ROUNDS and all(each.whole for each in edges.values())
    if few or not any(each.dims for each in edges.values()):
        write({name: each.mask(b, rounds) for name, each in edges.items()})
        return
    cond: Expr = TRUE
    for each in edges.values():
        cond = build.logical_and(cond, each.all_inside)
    with b.either(cond) as otherwise:
        write(dict.fromkeys(edges, NO_EDGES))
        with otherwise:
            write({name: each.mask(b, rounds) for name, each in edges.items()})
