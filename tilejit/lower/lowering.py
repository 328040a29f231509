"""The walk over a kernel: tile operations are dispatched, element accesses become vectors, all else stays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import DispatchError, LayoutError
from ..ir import build, walk
from ..ir.nodes import Const, Element, Expr, Instruction, Kernel, Let, Load, Stmt, Store, TileOp, Vector
from ..ir.walk import Block
from ..isa import ROWS
from ..target import Target
from .builder import Builder
from .elements import element_offset, possible_starts
from .engine import Context, Variant, Verdict, dispatch
from .proof import prove

__all__ = ["Lowered", "lower"]


@dataclass(frozen=True, slots=True)
class Lowered:
    """A kernel at lane level, and the verdict on each tile operation in the order of the program."""

    kernel: Kernel
    verdicts: tuple[Verdict[Any], ...]


def lower(kernel: Kernel, target: Target, variants: Sequence[Variant[Any]]) -> Lowered:
    """The kernel at lane level, its operations carried out by `variants`; of a debug kernel each plan is proved."""
    walk = _Walk(Context(target, kernel.threads), variants, kernel.debug, Builder(frozenset(_names(kernel.body))))
    walk.block(kernel.body)
    # last: a refused operation comes with every variant's reasons
    for stmt in walk.instructions:
        ROWS[stmt.name].need(target, stmt.span)
    body = (*walk.builder.head, *walk.builder.take())
    return Lowered(replace(kernel, body=body), tuple(walk.verdicts))


def _names(body: Block) -> Iterator[str]:
    """The names that statements give to variables and buffers; only these can end in a number as new ones do."""
    for stmt in walk.statements(body):
        named = walk.defines(stmt)
        if named is not None:
            yield named.name


class _Walk:
    def __init__(self, context: Context, variants: Sequence[Variant[Any]], debug: bool, builder: Builder) -> None:
        self.context = context
        self.debug = debug
        self.variants = variants
        self.builder = builder
        self.verdicts: list[Verdict[Any]] = []
        self.instructions: list[Instruction] = []

    def block(self, body: Block) -> None:
        for stmt in body:
            self.stmt(stmt)

    def inner(self, body: Block) -> Block:
        with self.builder.block() as found:
            self.block(body)
        return tuple(found)

    def stmt(self, stmt: Stmt) -> None:
        self.builder.span = stmt.span
        if isinstance(stmt, TileOp):
            self.operation(stmt)
        elif isinstance(stmt, Let) and isinstance(stmt.value, Load) and isinstance(stmt.value.place, Element):
            self.read(stmt, stmt.value.place)
        elif isinstance(stmt, Store) and isinstance(stmt.place, Element):
            self.write(stmt, stmt.place)
        elif isinstance(stmt, Instruction):
            self.instructions.append(stmt)
            self.builder.append(stmt)
        else:
            self.builder.append(walk.with_blocks(stmt, self.inner))

    def operation(self, op: TileOp) -> None:
        verdict = dispatch(op, self.context, self.variants)
        self.verdicts.append(verdict)
        if self.debug:
            prove(verdict.plan, op)
        verdict.emit(self.builder)

    def offset(self, place: Element) -> Expr:
        try:
            return element_offset(place.buffer, place.indices)
        except LayoutError as error:
            raise DispatchError(error.message, span=place.span, hint=error.hint) from None

    def read(self, stmt: Let, place: Element) -> None:
        offset = self.offset(place)
        if place.buffer.space != "local" or isinstance(offset, Const):
            self.builder.append(replace(stmt, value=Load(Vector(place.buffer, offset), span=stmt.value.span)))
            return
        value: Expr | None = None
        first = self.builder.let("register", offset)
        for start in possible_starts(place.buffer, first, 1):
            here = Load(Vector(place.buffer, build.const(start, offset.dtype)))
            value = here if value is None else build.where(build.equal(first, start), here, value)
        if value is None:
            raise DispatchError(
                f"{place.buffer.name} has no register at this index",
                span=place.span,
                hint=f"keep the index inside its shape, {place.buffer.shape}",
            )
        self.builder.append(replace(stmt, value=value))

    def write(self, stmt: Store, place: Element) -> None:
        offset = self.offset(place)
        if place.buffer.space != "local" or isinstance(offset, Const):
            self.builder.append(replace(stmt, place=Vector(place.buffer, offset, span=place.span)))
            return
        first = self.builder.let("register", offset)
        for start in possible_starts(place.buffer, first, 1):
            with self.builder.when(build.equal(first, start)):
                target = Vector(place.buffer, build.const(start, offset.dtype), span=place.span)
                self.builder.append(replace(stmt, place=target))
