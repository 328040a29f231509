"""Reuse of lane IR between operations that differ only in the names of their local tiles.

    cta.add y[…], x[…], x[…]       unrolled for round.3: store y[round.3] <- x[round.3] + x[round.3]
    cta.add z[…], y[…], y[…]       unrolled for round.4: store z[round.4] <- y[round.4] + y[round.4]

The second operation reuses the lane IR of the first, renamed. In long unrolled kernels this is four times as fast as
planning and emitting the operation.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from ..dataclass import dataclass
from ..forks import cached_property
from ..ir.nodes import Buffer, Const, Expr, Region, TileOp, Var
from ..ir.rewriting import Renaming
from ..ir.walk import Block
from ..ops.elementwise.random import RANDOM_BITS
from .builder import Builder
from .engine import Verdict


def reuse_key(op: TileOp, b: Builder) -> Hashable | None:
    """Return a key that is equal only for operations with the same lane IR up to renaming, or None if there is none.

    An operation has a key if each operand is a region of a local tile that starts at constants, a scalar variable or
    constant, or, if no optional operand is given, a region of shared memory that starts at such scalars. Random numbers
    have none: their lane IR depends on how the offset was computed.
    """
    if op.name == RANDOM_BITS.name:
        return None
    roots: dict[str, int] = {}
    operands: list[Hashable] = []
    for operand in op.operands:
        if isinstance(operand, Region):
            starts = tuple([start.value for start in operand.starts if isinstance(start, Const)])
            if operand.buffer.space == "local" and len(starts) == len(operand.starts):
                operands.append((_buffer_key(operand.buffer, roots, b), starts, operand.extents))
            elif operand.buffer.space == "shared" and not op.options and all(map(_is_scalar, operand.starts)):
                operands.append((operand.buffer, tuple(map(_scalar, operand.starts)), operand.extents))
            else:
                return None
        elif operand is None or _is_scalar(operand):
            operands.append(_scalar(operand))
        else:
            return None
    # attributes as a string: the constants of a user's function may be 0.0 or -0.0, which compare equal
    return op.name, op.scope, repr(op.attrs), tuple(operands)


def _buffer_key(buffer: Buffer, roots: dict[str, int], b: Builder) -> Hashable:
    """Return a key of a local tile: its root's number in `roots`, and properties. Layouts are compared by identity."""
    base = buffer.base
    storage = _buffer_key(base, roots, b) if base is not None else roots.setdefault(buffer.name, len(roots))
    layout = id(buffer.layout)
    return storage, b.is_addressed(buffer), buffer.dtype, buffer.shape, layout, buffer.slots, buffer.align


def _is_scalar(operand: Expr) -> bool:
    return isinstance(operand, (Const, Var))


def _scalar(operand: Expr | None) -> Hashable:
    # as a string: 0.0 and -0.0 compare equal, and a NaN differs from itself
    return (operand.dtype, repr(operand.value)) if isinstance(operand, Const) else operand


Dispatch = Callable[[TileOp], Verdict[Any]]


class _ReusedVerdict(Verdict[Any]):
    """The verdict on an operation with reused lane IR. Its plan and declines are computed on demand."""

    def __init__(self, op: TileOp, first: Verdict[Any], dispatch: Dispatch) -> None:
        self.__dict__.update(op=op, chosen=first.chosen, _dispatch=dispatch)

    @cached_property
    def _verdict(self) -> Verdict[Any]:
        dispatch: Dispatch = self.__dict__["_dispatch"]
        return dispatch(self.op)

    @property
    def plan(self) -> Any:
        return self._verdict.plan

    @property
    def declines(self) -> dict[str, tuple[str, ...]]:
        return self._verdict.declines

    @property
    def elsewhere(self) -> tuple[str, ...]:
        return self._verdict.elsewhere


@dataclass(frozen=True, slots=True)
class LoweredOperation:
    """An operation's verdict and lane IR."""

    verdict: Verdict[Any]
    statements: Block

    def reuse_for(self, op: TileOp, b: Builder, dispatch: Dispatch) -> Verdict[Any]:
        """Emit the lane IR, renamed for `op`, and return the verdict on `op`, which must have the same `reuse_key`."""
        first = self.verdict.op
        pairs = zip(first.operands, op.operands, strict=True)
        buffers: dict[str, Buffer] = {}
        for one, other in pairs:
            if isinstance(one, Region) and isinstance(other, Region):
                buffers |= _matching_buffers(one.buffer, other.buffer)
        renaming = Renaming(
            buffers, lambda name: b.name(name.rpartition(".")[0]), lambda span: op.span if span is first.span else span
        )
        for stmt in renaming.block(self.statements):
            b.append(stmt)
        return _ReusedVerdict(op, self.verdict, dispatch)


def _matching_buffers(one: Buffer, other: Buffer) -> dict[str, Buffer]:
    """Map the name of `one` to `other`, and the names of its bases to the corresponding bases of `other`."""
    pairs = {one.name: other}
    if one.base is not None and other.base is not None:
        pairs |= _matching_buffers(one.base, other.base)
    return pairs
