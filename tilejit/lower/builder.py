"""What emitters write lane IR with: statements in order, fresh names, scratch registers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache

from ..dataclass import replace
from ..dtypes import DType, int32, int64, uint8
from ..ir.allocation import alignment
from ..ir.arithmetic import build, facts
from ..ir.names import FreshNames
from ..ir.nodes import (
    TRUE,
    Alloc,
    Buffer,
    BufferView,
    Const,
    Expr,
    For,
    If,
    Let,
    Move,
    Special,
    Stmt,
    Store,
    Sync,
    Var,
    Vector,
)
from ..ir.params import BoxShare, TensorMapParam, TensorMapSpec
from ..layout import TileLayout
from ..remember import LIMIT
from ..scopes import SCOPES
from ..source import Span
from .opaque import opaque_zero

__all__ = ["WRITTEN_OUT", "Builder", "filled", "instances_of"]

#: So many rounds are unrolled where they needn't be. 64 rounds of a copy to local memory and 64 back are 326 lines of
#: PTX instead of 79 for loops, and take four times as long from lowering to PTX.
_UNROLLED = 32

#: So many operations of a kind hand values over through memory of their own; further ones wait, and take it again.
_OWN_BUFFERS = 8

#: Where operations of many kinds have more bytes of their own, further kinds take turns in rooms, of powers of two up
#: to as many bytes: a tile that grows in a chain of `tj.cat` is another kind each time.
_OWN_BYTES = 16 * 1024


def instances_of(scope: str, threads: int) -> tuple[int, Expr]:
    """How many instances of a scope a CTA of so many threads has, and which of them a thread belongs to."""
    number = SCOPES[scope].number_id
    count = 1 if number is None else -(-threads // SCOPES[scope].threads(threads))
    return count, build.const(0, int32) if number is None or count == 1 else Special(number.name)


#: as many rounds are written out: LLVM needs a third less time for two rounds than for a loop of two; and to write both
#: takes less than a loop that is unrolled afterwards (0.3 ms in `square_root` of `tests/bench/bench_compile.py`)
WRITTEN_OUT = 2


def filled(registers: Vector, value: Expr, span: Span | None) -> list[Stmt]:
    """The statements that give each of some registers a value."""
    each = [build.add(registers.offset, at) for at in range(registers.width)]
    return [Store(Vector(registers.buffer, offset), value, span=span) for offset in each]


_ZERO, _ONE = (build.const(number, int32) for number in (0, 1))


@lru_cache(LIMIT)
def _linear(count: int) -> TileLayout:
    """The layout of so many elements one after the other; most of what is allocated has few."""
    return TileLayout.row_major((count,))


class Builder:
    """Collects the statements of one kernel's lowering; names are fresh within it.

    taken: names that the kernel has already.
    addressed: local buffers by name that live in local memory, each with the place in the source that makes them.
    head: what stands at the kernel's beginning: scratch buffers and the threads' indices, which all of it may use.
    is_repeated: whether what is being written stands in a loop of the kernel's.
    has_checks: whether it is a checked build.
    """

    def __init__(
        self, taken: Set[str] = frozenset(), addressed: Mapping[str, Span | None] | None = None, *,
        has_checks: bool = False,
    ) -> None:
        #: a stem with a number, which no other name of the kernel is
        self.name = FreshNames(taken).name
        self.addressed = dict(addressed or {})
        self.head: list[Stmt] = []
        self.span: Span | None = None
        self.is_repeated = False
        self.has_checks = has_checks
        self._open: list[list[Stmt]] = [[]]
        self._threads: dict[str, Var] = {}
        self._passages: dict[tuple[DType, int], Buffer] = {}
        self._zero: Vector | None = None
        self._maps: dict[TensorMapSpec, TensorMapParam] = {}
        self._exchange_buffers: dict[tuple[str, Buffer], list[Buffer]] = {}
        self._own_bytes = 0
        self._pools: dict[str, list[Buffer]] = {}

    @property
    def params(self) -> tuple[TensorMapParam, ...]:
        """The parameters that the kernel has besides its own."""
        return tuple(self._maps.values())

    def tensor_map(self, spec: TensorMapSpec, *, written: bool, share: BoxShare | None = None) -> Var:
        """The address of a tensor map: one parameter for all copies of such boxes. written: this copy writes them.

        share: where several CTAs of a cluster make the copy.
        """
        made = self._maps.get(spec)
        var = Var(self.name(f"{spec.of}.map"), int64) if made is None else made.var
        shares = () if made is None else made.shares
        if share is not None and share not in shares:
            shares = (*shares, share)
        self._maps[spec] = TensorMapParam(var, spec, written or made is not None and made.written, shares)
        return var

    @property
    def made(self) -> list[Stmt]:
        """The statements of the block that is being written."""
        return self._open[-1]

    def append(self, stmt: Stmt) -> None:
        self._open[-1].append(stmt)

    def move(
        self, dst: Vector, src: Vector, cond: Expr = TRUE, otherwise: Expr | None = None, order: str = ""
    ) -> None:
        """A vector moved where `cond` holds; elsewhere registers get `otherwise`, and memory stays."""
        if not isinstance(cond, Const):
            self._open[-1].append(Move(dst, src, cond, otherwise, order, span=self.span))
        elif cond.value:
            self._open[-1].append(Move(dst, src, None, None, order, span=self.span))
        elif otherwise is not None:
            self._open[-1] += filled(dst, otherwise, self.span)

    @contextmanager
    def block(self) -> Iterator[list[Stmt]]:
        """Statements appended inside go to the list that it gives."""
        self._open.append([])
        try:
            yield self._open[-1]
        finally:
            self._open.pop()

    def let(self, stem: str, value: Expr, within: tuple[int, int] | None = None) -> Expr:
        """A name for `value`, with what is known of it; constants and names stay as they are.

        within: (least, greatest) value, where that is more than what is known of it.
        """
        if isinstance(value, Const) or (isinstance(value, Var) and within is None):
            return value
        dtype = value.dtype
        if dtype.is_float:
            # nothing is known of floats
            var = Var(self.name(stem), dtype)
        else:
            low, high = within or facts.bounds(value)
            bounds = None if low is None or high is None or high >= 2**63 else (low, high)
            multiple, data = facts.multiple_of(value), facts.flagged(value, bounds)
            var = Var(self.name(stem), dtype, multiple, bounds, data=data)
        self._open[-1].append(Let(var, value, span=self.span))
        return var

    def thread(self, scope: str, threads: int) -> Expr:
        """The thread's index in its scope, known to be below `threads`: one variable for the whole kernel."""
        if threads == 1:
            return build.const(0, int32)
        if scope not in self._threads:
            var = self._threads[scope] = Var(self.name("thread"), int32, bounds=(0, threads - 1))
            counter = SCOPES[scope].thread_id
            assert counter is not None, f"a {scope} has no id that counts its threads"
            self.head.append(Let(var, Special(counter.name), span=self.span))
        return self._threads[scope]

    def scratch(self, stem: str, dtype: DType, count: int) -> Buffer:
        """Registers of each thread's own."""
        buffer = Buffer(self.name(stem), "local", dtype, (count,), _linear(count), dtype.bytes)
        self.head.append(Alloc(buffer, span=self.span))
        return buffer

    def opaque_zero(self) -> Vector:
        """A register that holds 0, of which neither LLVM nor ptxas knows that: one for the whole kernel."""
        if self._zero is None:
            self._zero, made = opaque_zero(self.name("zero"))
            self.head.extend(made)
        return self._zero

    def exchange(
        self, scope: str, threads: int, stem: str, dtype: DType, layout: TileLayout, *, is_idle: bool = False
    ) -> tuple[Buffer, Expr]:
        """Shared memory through which the threads of one scope hand values to each other, and where theirs begins.

        A barrier of the scope stands in front where what was there before may still be read. Between writing and
        reading the caller puts another.
        threads: of the CTA. layout: of one instance's part, in elements from where it begins. is_idle: such a barrier
        stands there already.
        """
        part = layout.footprint()
        instances, number = instances_of(scope, threads)
        whole = _linear(instances * part)
        made = Buffer(self.name(stem), "shared", dtype, whole.shape, whole, alignment("shared", dtype, layout))
        buffer = self.exchange_buffer(scope, made, is_idle=is_idle)
        return buffer, build.mul(self.let("instance", number, (0, instances - 1)), part)

    def exchange_buffer(self, scope: str, buffer: Buffer, *, is_idle: bool = False) -> Buffer:
        """Makes a shared buffer through which the threads of one scope hand values to each other.

        A barrier of the scope stands here where what was there before may still be read: by a turn of a loop before, or
        by an earlier operation that many like it have followed, whose buffer it is.
        is_idle: such a barrier stands in front of each turn already.
        returns: the buffer, or that earlier one.
        """
        earlier = self._exchange_buffers.setdefault((scope, replace(buffer, name="")), [])
        is_reused = len(earlier) >= _OWN_BUFFERS
        made = earlier[len(earlier) % _OWN_BUFFERS] if is_reused else buffer
        earlier.append(made)
        if not is_reused:
            self._own_bytes += made.size_bytes
            self.head.append(Alloc(made, span=self.span))
        self._guard_reuse(scope, is_reused=is_reused, is_idle=is_idle)
        return made

    def pooled_exchange_buffer(self, scope: str, buffer: Buffer, instances: int) -> Buffer:
        """As `hand_over`, for an operation that has one such buffer, of so many instances of the scope.

        Where many kinds have much already, it is a view of a room that others have had, whatever the size of theirs.
        Instances don't wait for each other, and would have other parts of a room each time: they keep their own.
        """
        is_known = (scope, replace(buffer, name="")) in self._exchange_buffers
        if instances > 1 or is_known or len(self._exchange_buffers) < _OWN_BUFFERS or self._own_bytes < _OWN_BYTES:
            return self.exchange_buffer(scope, buffer)
        pools = self._pools.setdefault(scope, [])
        needed, align = buffer.size_bytes, buffer.align
        fitting = [pool for pool in pools if pool.size_bytes >= needed and pool.align >= align]
        if not fitting:
            size = 1 << (needed - 1).bit_length() if needed <= _OWN_BYTES else needed
            pools.append(Buffer(self.name("room"), "shared", uint8, (size,), _linear(size), align))
            self.head.append(Alloc(pools[-1], span=self.span))
        pool = fitting[0] if fitting else pools[-1]
        self._guard_reuse(scope, is_reused=bool(fitting))
        view = replace(buffer, base=pool)
        self.head.append(BufferView(view, span=self.span))
        return view

    def _guard_reuse(self, scope: str, *, is_reused: bool, is_idle: bool = False) -> None:
        """Puts a barrier where others may still read what a buffer held. is_again: another operation's."""
        if (self.is_repeated and not is_idle) or (is_reused and not self.is_repeated):
            self.append(Sync(scope, span=self.span))

    def passage(self, stem: str, dtype: DType, count: int, via: Buffer) -> Buffer:
        """What elements go through on their way to `via`: registers, or local memory where that is.

        Local memory is the same for all operations, none of which leaves anything in it.
        """
        if self.unrolls(count, via):
            return self.scratch(stem, dtype, count)
        key = (dtype, count)
        if key not in self._passages:
            buffer = Buffer(self.name(stem), "local", dtype, (count,), _linear(count), dtype.bytes)
            self.head.append(Alloc(buffer, addressed=True, span=self.span))
            self._passages[key] = buffer
        return self._passages[key]

    def address(self, buffer: Buffer) -> None:
        """Has a local buffer live in local memory, because of what is being lowered."""
        self.addressed.setdefault(buffer.root.name, self.span)

    def is_addressed(self, buffer: Buffer) -> bool:
        """Whether a local buffer lives in local memory."""
        return buffer.root.name in self.addressed or buffer in self._passages.values()

    @contextmanager
    def repeated(self) -> Iterator[None]:
        """What is written inside stands in a loop of the kernel's."""
        outer, self.is_repeated = self.is_repeated, True
        try:
            yield
        finally:
            self.is_repeated = outer

    @contextmanager
    def loop(self, stem: str, trips: int, *, unrolled: bool) -> Iterator[Expr]:
        """A counted loop; of one trip only its body, with the constant 0."""
        if trips == 1:
            yield _ZERO
            return
        var = Var(self.name(stem), int32, bounds=(0, trips - 1))
        with self.block() as body:
            yield var
        self.append(For(var, _ZERO, build.const(trips, int32), _ONE, tuple(body), unrolled, span=self.span))

    def rounds(self, trips: int, *buffers: Buffer) -> AbstractContextManager[Expr]:
        """A loop whose turns touch `buffers`."""
        return self.loop("round", trips, unrolled=self.unrolls(trips, *buffers))

    def each_round(self, trips: int, *buffers: Buffer) -> Iterator[Expr]:
        """As `rounds`; the caller writes its code once, or for each of few rounds that would be unrolled."""
        if trips <= WRITTEN_OUT and self.unrolls(trips, *buffers):
            for round in range(trips):
                yield build.const(round, int32)
        else:
            with self.rounds(trips, *buffers) as each:
                yield each

    def unrolls(self, trips: int, *buffers: Buffer) -> bool:
        """Whether so many turns are unrolled: few, or where some buffer is registers, which only constants name."""
        return trips <= _UNROLLED or any(b.space == "local" and not self.is_addressed(b) for b in buffers)

    @contextmanager
    def when(self, cond: Expr) -> Iterator[None]:
        """Statements that run where `cond` holds; no branch where it always does, and nothing where it never does."""
        if isinstance(cond, Const) and cond.value:
            yield
            return
        with self.block() as body:
            yield
        if not isinstance(cond, Const):
            self.append(If(cond, tuple(body), span=self.span))

    @contextmanager
    def either(self, cond: Expr) -> Iterator[AbstractContextManager[None]]:
        """Statements that run where `cond` holds; those inside the context that it gives run where it doesn't."""
        with self.block() as then:
            orelse: list[Stmt] = []
            yield self._orelse(orelse)
        if isinstance(cond, Const):
            for stmt in then if cond.value else orelse:
                self.append(stmt)
            return
        self.append(If(cond, tuple(then), tuple(orelse), span=self.span))

    @contextmanager
    def _orelse(self, orelse: list[Stmt]) -> Iterator[None]:
        with self.block() as inner:
            yield
        orelse.extend(inner)

    def take(self) -> tuple[Stmt, ...]:
        """What has been appended since, outside of any block."""
        assert len(self._open) == 1
        taken, self._open[0] = tuple(self._open[0]), []
        return taken
