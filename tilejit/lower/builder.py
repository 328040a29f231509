"""The builder of lane IR that emitters use: statements, fresh names, scratch registers and shared buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import lru_cache
from itertools import product
from math import prod

from ..dataclass import lean, replace
from ..dtypes import DType, bool_, int32, int64, uint8, uint32
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
    Instruction,
    Let,
    Load,
    Move,
    Special,
    Stmt,
    Store,
    Sync,
    Var,
    Vector,
)
from ..ir.params import BoxShare, TensorMapParam, TensorMapSpec
from ..ir.walk import Block
from ..isa.opaque import CTA_DEPTH
from ..isa.warp import ELECT
from ..layout import TileLayout
from ..remember import LIMIT
from ..scopes import CTA, SCOPES, THREAD, WARP, WARPGROUP
from ..source import Span
from ..target import WARP as WARP_THREADS

#: Loops of at most this many iterations are unrolled. Unrolling two copies of 64 iterations each, to local memory and
#: back, gives 326 lines of PTX instead of 79, and quadruples the time from lowering to PTX.
_UNROLLED = 32

#: maximum number of a scope's exchange buffers that differ only in name; further operations reuse these after a barrier
_OWN_BUFFERS = 8

#: Once there are `_OWN_BUFFERS` kinds of exchange buffers, with this many bytes or more in all, further kinds may share
#: pools; otherwise each `tj.cat` of a growing tile would add a buffer. Smaller pools have power-of-two sizes.
_OWN_BYTES = 16 * 1024

#: Maximum number of copies of an operation's code, one per combination of starts. With 8 starts a read takes 26
#: instructions (25 through local memory), a write 35 (40), and a copy of a row of 16 elements 100 (79), 33 of them
#: executed. The copy compiles in 10 ms (8), and with 16 starts in 25 ms (12). Measured with `compile` of `r[n]`,
#: `r[n] = x` and `copy(s, r[n : n + 1, :])` for sm_90a, with this constant set to 100 and to 1.
_MOST_COPIES = 8


def instances_of(scope: str, threads: int) -> tuple[int, Expr]:
    """Return the number of instances of `scope` in a CTA of `threads` threads, and the index of the thread's own."""
    number = SCOPES[scope].number_id
    count = 1 if number is None else -(-threads // SCOPES[scope].threads(threads))
    return count, build.const(0, int32) if number is None or count == 1 else Special(number.name)


#: `each_round` emits up to this many iterations as straight-line code: LLVM compiles two copies of a body in a third
#: less time than a loop, and the `unroll` pass is slower (0.3 ms in `square_root` of `tests/bench/bench_compile.py`).
WRITTEN_OUT = 2


def filled(registers: Vector, value: Expr, span: Span | None) -> list[Stmt]:
    """Return statements that store `value` to each register of the vector `registers`."""
    each = [build.add(registers.offset, at) for at in range(registers.width)]
    return [Store(Vector(registers.buffer, offset), value, span=span) for offset in each]


_ZERO, _ONE = (build.const(number, int32) for number in (0, 1))


@lru_cache(LIMIT)
def _linear(count: int) -> TileLayout:
    return TileLayout.row_major((count,))


def opaque_zero(name: str) -> tuple[Vector, Block]:
    """Return a register whose value, 0, is opaque to LLVM and ptxas, and the statements that initialize it."""
    buffer = Buffer(name, "local", uint32, (1,), TileLayout.row_major((1,)), uint32.bytes)
    zero = Vector(buffer, build.const(0, int32))
    one_less = build.op("sub", Load(zero), build.const(1, uint32))
    return zero, (Alloc(buffer), Instruction(CTA_DEPTH.name, (zero,), ()), Store(zero, one_less))


@lean(frozen=True, slots=True)
class RegisterRun:
    """The registers of a local buffer that an operation accesses: `reach` of them from `first` on."""

    buffer: Buffer
    first: Expr
    reach: int

    def possible(self) -> range:
        """Return the registers at which the run may start without leaving the buffer."""
        low, high = facts.bounds(self.first)
        last = self.buffer.tile_layout.span() - self.reach
        step = max(facts.multiple_of(self.first), 1)
        lowest = -(-max(low or 0, 0) // step) * step
        return range(lowest, min(last, last if high is None else high) + 1, step)


class Builder:
    """Collects the statements of one kernel's lowering. taken: the names that the kernel already uses."""

    def __init__(
        self, taken: Set[str] = frozenset(), addressed: Mapping[str, Span | None] | None = None, *,
        has_checks: bool = False,
    ) -> None:
        #: takes a stem, and returns a name that is unique in the kernel: `stem.number`
        self.name = FreshNames(taken).name
        #: name of each local buffer whose address is needed -> the place in the source that needs it
        self.addressed = dict(addressed or {})
        #: statements at the kernel's beginning, such as allocations of scratch buffers and `Let`s of thread indices
        self.head: list[Stmt] = []
        self.span: Span | None = None
        #: True inside a loop of the kernel
        self.is_repeated = False
        #: True in a checked build
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
        return tuple(self._maps.values())

    def tensor_map(self, spec: TensorMapSpec, *, written: bool, share: BoxShare | None = None) -> Var:
        """Return the variable that holds the address of a tensor map. Copies with equal `spec` share one parameter.

        written: True if this copy writes global memory. share: the distance between the boxes of CTAs that share it.
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
        return self._open[-1]

    def append(self, stmt: Stmt) -> None:
        self._open[-1].append(stmt)

    def move(
        self, dst: Vector, src: Vector, cond: Expr = TRUE, otherwise: Expr | None = None, order: str = ""
    ) -> None:
        """Move `src` to `dst` if `cond` holds; if not, fill `dst` with `otherwise`, unless that is None."""
        if not isinstance(cond, Const):
            self._open[-1].append(Move(dst, src, cond, otherwise, order, span=self.span))
        elif cond.value:
            self._open[-1].append(Move(dst, src, None, None, order, span=self.span))
        elif otherwise is not None:
            self._open[-1] += filled(dst, otherwise, self.span)

    @contextmanager
    def block(self) -> Iterator[list[Stmt]]:
        """Collect the statements appended inside the context in a separate list."""
        self._open.append([])
        try:
            yield self._open[-1]
        finally:
            self._open.pop()

    def let(self, stem: str, value: Expr, within: tuple[int, int] | None = None) -> Expr:
        """Return a fresh variable, bound to `value`, with its known facts; return constants and variables unchanged.

        within: (least, greatest) value, if tighter than the derivable bounds; a variable is then bound to a fresh one.
        """
        if isinstance(value, Const) or (isinstance(value, Var) and within is None):
            return value
        dtype = value.dtype
        if dtype.is_float:
            # no facts are tracked for floats
            var = Var(self.name(stem), dtype)
        else:
            low, high = within or facts.bounds(value)
            bounds = None if low is None or high is None or high >= 2**63 else (low, high)
            multiple, data = facts.multiple_of(value), facts.flagged(value, bounds)
            var = Var(self.name(stem), dtype, multiple, bounds, data=data)
        self._open[-1].append(Let(var, value, span=self.span))
        return var

    def thread(self, scope: str, threads: int) -> Expr:
        """Return the thread's index in its instance of `scope`, of `threads` threads. Each scope has one variable."""
        if threads == 1:
            return build.const(0, int32)
        if scope not in self._threads:
            var = self._threads[scope] = Var(self.name("thread"), int32, bounds=(0, threads - 1))
            counter = SCOPES[scope].thread_id
            assert counter is not None, f"a {scope} has no id that counts its threads"
            self.head.append(Let(var, Special(counter.name), span=self.span))
        return self._threads[scope]

    def leads(self, scope: str, threads: int) -> Expr:
        """Return a predicate that is true only in the leader of each instance of `scope`.

        The leader is the thread that does work to be done once per instance; all threads must compute the predicate. A
        warp's leader is the lane that `elect.sync` elects; the leader of a warpgroup or a CTA is that of its first
        warp. In a CTA with a partial warp, an instance's leader is its first thread instead. Leaders don't change
        during a launch. ptxas emits a quarter fewer instructions for `elect.sync` than for a test of the lane.
        threads: number of threads of the CTA.
        """
        if SCOPES[scope] is THREAD or threads == 1:
            return TRUE
        if threads % WARP_THREADS:
            # the result of `elect.sync` in a partial warp is unspecified
            counter = SCOPES[scope].thread_id
            assert counter is not None, f"a {scope} has no id that counts its threads"
            return build.equal(Special(counter.name), _ZERO)
        elected = Var(self.name("leads"), bool_)
        self.append(Instruction(ELECT.name, (), (), self.span, elected))
        if SCOPES[scope] is WARP:
            return elected
        assert SCOPES[scope] in (WARPGROUP, CTA), f"a {scope} has no leader"
        warp: Expr = Special("warp_id")
        if SCOPES[scope] is WARPGROUP:
            warp = build.mod(warp, WARPGROUP.threads(threads) // WARP_THREADS)
        return build.logical_and(build.equal(warp, _ZERO), elected)

    def scratch(self, stem: str, dtype: DType, count: int) -> Buffer:
        buffer = Buffer(self.name(stem), "local", dtype, (count,), _linear(count), dtype.bytes)
        self.head.append(Alloc(buffer, span=self.span))
        return buffer

    def opaque_zero(self) -> Vector:
        """Return the kernel's register whose value, 0, is opaque to LLVM and ptxas."""
        if self._zero is None:
            self._zero, made = opaque_zero(self.name("zero"))
            self.head.extend(made)
        return self._zero

    def exchange(
        self, scope: str, threads: int, stem: str, dtype: DType, layout: TileLayout, *, is_idle: bool = False
    ) -> tuple[Buffer, Expr]:
        """Return shared memory for exchanges between the threads of a scope, and their instance's offset, in elements.

        The memory is an `exchange_buffer`; the caller synchronizes between writing and reading.
        threads: number of threads of the CTA. layout: that of one instance's part. is_idle: as in `exchange_buffer`.
        """
        part = layout.footprint()
        instances, number = instances_of(scope, threads)
        whole = _linear(instances * part)
        made = Buffer(self.name(stem), "shared", dtype, whole.shape, whole, alignment("shared", dtype, layout))
        buffer = self.exchange_buffer(scope, made, is_idle=is_idle)
        return buffer, build.mul(self.let("instance", number, (0, instances - 1)), part)

    def exchange_buffer(self, scope: str, buffer: Buffer, *, is_idle: bool = False) -> Buffer:
        """Allocate a shared buffer through which the threads of a scope exchange values, or reuse an earlier one.

        Emit a barrier if other threads might still be reading the previous contents: in an earlier iteration of
        a loop, or in the operation whose buffer is reused.
        is_idle: True if a barrier already precedes the use in each iteration of a loop.
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
        """Like `exchange_buffer`, but return a view of a pool for a new kind past `_OWN_BUFFERS` and `_OWN_BYTES`.

        The operation must use a single exchange buffer. If a scope has several `instances`, no pool is used: instances
        don't wait for each other, and an instance's part may overlap another instance's part of an earlier view.
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
        """Emit the barrier that `exchange_buffer` describes. is_reused: True if another operation used the buffer."""
        if (self.is_repeated and not is_idle) or (is_reused and not self.is_repeated):
            self.append(Sync(scope, span=self.span))

    def passage(self, stem: str, dtype: DType, count: int, via: Buffer) -> Buffer:
        """Return a per-thread buffer for `count` elements that a loop then stores to `via`.

        If a loop of `count` iterations would be unrolled, the buffer is in registers. Otherwise it is in local memory,
        and operations share it, so its contents don't outlive an operation.
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
        """Place a local buffer in local memory, because the current statement needs its address."""
        self.addressed.setdefault(buffer.root.name, self.span)

    def is_addressed(self, buffer: Buffer) -> bool:
        """True if a local buffer is in local memory, not in registers."""
        return buffer.root.name in self.addressed or buffer in self._passages.values()

    def each_start(self, *runs: RegisterRun) -> Iterator[tuple[Expr, ...]]:
        """Yield each combination of starts that the runs may have, in a branch that only these starts execute."""
        firsts = tuple([run.first for run in runs])
        if {Const}.issuperset(map(type, firsts)):
            yield firsts
            return
        self._address_runs(runs)
        choices = {run: self.choice(run) for run in runs}
        for starts in product(*(starts for _, starts in choices.values())):
            chosen = dict(zip(choices, starts, strict=True))
            with ExitStack() as conditions:
                for run, start in chosen.items():
                    conditions.enter_context(self.when(build.equal(choices[run][0], start)))
                yield tuple(chosen[run] for run in runs)

    def choice(self, run: RegisterRun) -> tuple[Expr, Sequence[Expr]]:
        """Return a run's start, and the starts for which code must be emitted: constants, or the start itself.

        The start equals one of the constants if it is in bounds. If there would be too many, the buffer is moved to
        local memory, and the start is assumed to keep the run inside the buffer; other starts are undefined behavior.
        So addresses don't wrap around, and a run's accesses have constant offsets from a common base.
        """
        if isinstance(run.first, Const):
            return run.first, (run.first,)
        self._address_runs((run,))
        possible = run.possible()
        if self.is_addressed(run.buffer):
            first = self.let("register", run.first, (possible[0], possible[-1]) if possible else None)
            return first, (first,)
        first = self.let("register", run.first)
        return first, [build.const(start, first.dtype) for start in possible]

    def _address_runs(self, runs: Sequence[RegisterRun]) -> None:
        """Move buffers with the most starts to local memory, until at most `_MOST_COPIES` combinations remain."""
        counts = {run: len(run.possible()) for run in runs if not isinstance(run.first, Const)}
        for run in sorted(counts, key=lambda run: -counts[run]):
            if prod(count for each, count in counts.items() if not self.is_addressed(each.buffer)) <= _MOST_COPIES:
                return
            self.address(run.buffer)

    @contextmanager
    def repeated(self) -> Iterator[None]:
        """Set `is_repeated` inside the context, whose statements are part of a loop of the kernel."""
        outer, self.is_repeated = self.is_repeated, True
        try:
            yield
        finally:
            self.is_repeated = outer

    @contextmanager
    def loop(self, stem: str, trips: int, *, unrolled: bool) -> Iterator[Expr]:
        """Emit the context's statements in a loop and yield its index; for a single iteration, no loop and index 0."""
        if trips == 1:
            yield _ZERO
            return
        var = Var(self.name(stem), int32, bounds=(0, trips - 1))
        with self.block() as body:
            yield var
        self.append(For(var, _ZERO, build.const(trips, int32), _ONE, tuple(body), unrolled, span=self.span))

    def rounds(self, trips: int, *buffers: Buffer) -> AbstractContextManager[Expr]:
        """Like `loop`, unrolled as `unrolls` decides for a body that accesses `buffers`."""
        return self.loop("round", trips, unrolled=self.unrolls(trips, *buffers))

    def each_round(self, trips: int, *buffers: Buffer) -> Iterator[Expr]:
        """Like `rounds`, but an iterator: a very short loop is written out, and each index is a constant."""
        if trips <= WRITTEN_OUT and self.unrolls(trips, *buffers):
            for iteration in range(trips):
                yield build.const(iteration, int32)
        else:
            with self.rounds(trips, *buffers) as each:
                yield each

    def unrolls(self, trips: int, *buffers: Buffer) -> bool:
        """True if a loop is unrolled, because it is short or a buffer is in registers, which need constant indices."""
        return trips <= _UNROLLED or any(b.space == "local" and not self.is_addressed(b) for b in buffers)

    @contextmanager
    def when(self, cond: Expr) -> Iterator[None]:
        """Emit the context's statements in an `If` on `cond`; if it is a constant, emit all statements or none."""
        if isinstance(cond, Const) and cond.value:
            yield
            return
        with self.block() as body:
            yield
        if not isinstance(cond, Const):
            self.append(If(cond, tuple(body), span=self.span))

    @contextmanager
    def either(self, cond: Expr) -> Iterator[AbstractContextManager[None]]:
        """Emit a branch: the context's statements run if `cond` holds, those of the yielded context otherwise.

        If `cond` is a constant, only the statements of one side are emitted.
        """
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
        """Remove and return the statements appended so far; no block may be open."""
        assert len(self._open) == 1
        taken, self._open[0] = tuple(self._open[0]), []
        return taken
