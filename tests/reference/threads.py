"""What statements mean, at tile and at lane level: the threads of one CTA in step, each with values of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tests.reference import expressions, layouts
from tests.reference.instructions import AsyncCopies, carry_out
from tilejit.dtypes import DType, bool_, signed
from tilejit.ir import nodes as ir
from tilejit.layout import TileLayout

Array = np.ndarray

#: statements that a kernel of a test carries out at most
MOST_STEPS = 100_000


class Threads:
    """A kernel, carried out at once, and what it leaves.

    memory: arrays of global and shared buffers by name: flat, those of run-time strides of their shape; changed in
    place. registers: arrays (threads, registers) by name. scalars, specials: values by name, the same in all threads.
    numbers: the active threads of the CTA; by default all. A set of threads is a mask.
    """

    def __init__(
        self,
        kernel: ir.Kernel,
        memory: Mapping[str, Array],
        scalars: Mapping[str, int | float],
        registers: Mapping[str, Array] | None = None,
        specials: Mapping[str, int] | None = None,
        numbers: Sequence[int] | None = None,
    ) -> None:
        self.numbers = np.arange(kernel.threads) if numbers is None else np.array(numbers)
        self.threads = len(self.numbers)
        self.memory = dict(memory)
        self.registers = dict(registers or {})
        self.specials = specials or {}
        everyone = np.ones(self.threads, bool)
        self.values: dict[str, Array] = {name: np.full(self.threads, v) for name, v in scalars.items()}
        self.has_value = dict.fromkeys(self.values, everyone)
        self.copies = AsyncCopies()
        self.printed = ""
        #: the barriers that each thread came to, in order: (scope, id of the statement)
        self.barriers: list[list[tuple[str, int]]] = [[] for _ in self.numbers]
        self.steps = 0
        self._exits: list[_Exits] = []
        self.block(kernel.body, everyone)

    def block(self, body: tuple[ir.Stmt, ...], active: Array) -> Array:
        """The threads that come to its end."""
        for stmt in body:
            if not active.any():
                break
            self.steps += 1
            assert self.steps < MOST_STEPS, "the kernel doesn't end"
            active = self.statement(stmt, active)
        return active

    def statement(self, stmt: ir.Stmt, active: Array) -> Array:
        """The threads that go on after it."""
        match stmt:
            case ir.If():
                cond = self.typed(stmt.cond, bool_, active)
                return self.block(stmt.then, active & cond) | self.block(stmt.orelse, active & ~cond)
            case ir.For():
                return self._counted(stmt, active)
            case ir.Loop():
                return self._loop(stmt.body, active)
            case ir.Break():
                self._exits[-1].broke |= active
                return np.zeros_like(active)
            case ir.Continue():
                self._exits[-1].goes_on |= active
                return np.zeros_like(active)
            case ir.Return():
                return np.zeros_like(active)
        self.simple(stmt, active)
        return active

    def simple(self, stmt: ir.Stmt, active: Array) -> None:
        """A statement after which all threads go on."""
        match stmt:
            case ir.Let() | ir.Assign():
                self.assign(stmt.var, self.typed(stmt.value, stmt.var.dtype, active), active)
            case ir.Declare():
                self.has_value[stmt.var.name] = self.has_value.get(stmt.var.name, np.zeros_like(active)) & ~active
                if stmt.init is not None:
                    self.assign(stmt.var, self.typed(stmt.init, stmt.var.dtype, active), active)
            case ir.Alloc():
                self._allocate(stmt.buffer)
            case ir.Store():
                self.put(stmt.place, [self.typed(stmt.value, stmt.place.buffer.dtype, active)], active)
            case ir.Atomic():
                self._update(stmt, active)
            case ir.Move():
                self._move(stmt, active)
            case ir.Instruction():
                carry_out(self, stmt, active)
            case ir.Sync():
                for thread in np.flatnonzero(active):
                    self.barriers[thread].append((stmt.scope, id(stmt)))
            case ir.Assert():
                assert self.typed(stmt.cond, bool_, active)[active].all(), stmt.message
            case ir.Print():
                self._print(stmt, active)
            case ir.BufferView() | ir.Breakpoint():
                pass
            case _:
                raise AssertionError(f"one thread at a time can't carry out {stmt}")

    def _allocate(self, buffer: ir.Buffer) -> None:
        assert isinstance(buffer.layout, TileLayout)
        if buffer.space == "local":
            count = buffer.layout.storage().span()
            self.registers.setdefault(buffer.name, np.zeros((self.threads, count), buffer.dtype.numpy))
        else:
            self.memory.setdefault(buffer.name, np.zeros(buffer.layout.footprint(), buffer.dtype.numpy))

    def _move(self, stmt: ir.Move, active: Array) -> None:
        reads = active if stmt.predicate is None else active & self.typed(stmt.predicate, bool_, active)
        values = self.get(stmt.src, reads)
        if stmt.otherwise is None:
            self.put(stmt.dst, values, reads)
            return
        fill = self.value(stmt.otherwise, active)
        self.put(stmt.dst, [np.where(reads, v, fill) for v in values], active)

    def _update(self, stmt: ir.Atomic, active: Array) -> None:
        """One thread after another."""
        operands = [self.typed(operand, stmt.place.buffer.dtype, active) for operand in stmt.operands]
        for thread in np.flatnonzero(active):
            alone = np.arange(self.threads) == thread
            (before,) = self.get(stmt.place, alone)
            self.put(stmt.place, [updated(stmt.op, before, operands)], alone)
            if stmt.var is not None:
                self.assign(stmt.var, before, alone)

    def _print(self, stmt: ir.Print, active: Array) -> None:
        parts = [p if isinstance(p, str) else self.value(p, active) for p in stmt.parts]
        for thread in np.flatnonzero(active):
            self.printed += "".join(p if isinstance(p, str) else str(p[thread]) for p in parts)

    def _loop(self, body: tuple[ir.Stmt, ...], active: Array) -> Array:
        left = np.zeros_like(active)
        while active.any():
            active, broke = self._turn(body, active)
            left |= broke
        return left

    def _counted(self, stmt: ir.For, active: Array) -> Array:
        kind = stmt.var.dtype
        start, stop = (self.typed(e, kind, active) for e in (stmt.start, stmt.stop))
        # what counts an unsigned index down is signed
        step = self.typed(stmt.step, kind if stmt.step.dtype == kind else signed(kind), active)
        indices: list[Iterator[int]] = [iter(())] * self.threads
        for thread in np.flatnonzero(active & (step != 0)):
            indices[thread] = iter(range(int(start[thread]), int(stop[thread]), int(step[thread])))
        left = np.zeros_like(active)
        while active.any():
            nexts = [next(index, None) if goes else None for index, goes in zip(indices, active, strict=True)]
            goes_on = np.array([index is not None for index in nexts])
            left |= active & ~goes_on
            values = np.array([index or 0 for index in nexts]).astype(kind.numpy)
            self.assign(stmt.var, values, goes_on)
            active, broke = self._turn(stmt.body, goes_on)
            left |= broke
        return left

    def _turn(self, body: tuple[ir.Stmt, ...], active: Array) -> tuple[Array, Array]:
        """One iteration of a loop: the threads that go on with the next, and those that broke out."""
        self._exits.append(_Exits(active))
        ended = self.block(body, active)
        exits = self._exits.pop()
        return ended | exits.goes_on, exits.broke

    def assign(self, var: ir.Var, values: Array, active: Array) -> None:
        """Gives the variable of the active threads these values, which its facts must allow."""
        before = self.values.get(var.name, np.zeros(self.threads, var.dtype.numpy))
        self.values[var.name] = np.where(active, values, before).astype(var.dtype.numpy)
        self.has_value[var.name] = self.has_value.get(var.name, np.zeros_like(active)) | active
        if var.dtype.is_integer:
            for number in {int(v) for v in values[active]}:
                assert number == 0 if var.multiple_of == 0 else number % var.multiple_of == 0, (var, number)
                assert var.bounds is None or var.bounds[0] <= number <= var.bounds[1], (var, number)

    def typed(self, expr: ir.Expr, dtype: DType, active: Array) -> Array:
        """The values of an expression that must be of a type."""
        assert expr.dtype == dtype, f"{expr} is {expr.dtype}, not {dtype}"
        return self.value(expr, active)

    def value(self, expr: ir.Expr, active: Array) -> Array:
        """The values of an expression; those of threads that aren't active mean nothing."""

        def read(leaf: expressions.Leaf) -> Array:
            match leaf:
                case ir.Load():
                    (values,) = self.get(leaf.place, active)
                    return values
                case ir.Special():
                    return self.special(leaf.name).astype(leaf.dtype.numpy)
            has_value = self.has_value.get(leaf.name)
            assert has_value is not None and has_value[active].all(), f"{leaf.name} has no value"
            return self.values[leaf.name].astype(leaf.dtype.numpy, copy=False)

        return np.broadcast_to(expressions.value(expr, read), self.threads)

    def special(self, name: str) -> Array:
        numbers = self.numbers
        ids = {
            "thread_id": numbers, "lane_id": numbers % 32, "warp_id": numbers // 32, "tid_in_wg": numbers % 128,
            "warpgroup_id": numbers // 128,
        }
        return ids[name] if name in ids else np.full(self.threads, self.specials[name])

    def get(self, place: ir.Element | ir.Vector, active: Array) -> list[Array]:
        """What the active threads read, an array for each element of the place."""
        storage, cells = self.cells(place, active)
        values = [np.zeros(self.threads, storage.dtype) for _ in cells]
        for value, cell in zip(values, cells, strict=True):
            value[active] = storage[cell]
        return values

    def put(self, place: ir.Element | ir.Vector, values: list[Array], active: Array) -> None:
        """The active threads write; of several at one place the last wins."""
        storage, cells = self.cells(place, active)
        for value, cell in zip(values, cells, strict=True):
            storage[cell] = value[active].astype(storage.dtype)

    def cells(self, place: ir.Element | ir.Vector, active: Array) -> tuple[Array, list[tuple[Array, ...]]]:
        """A buffer's storage, and the index in it of each element of the place, in the active threads."""
        root, local = place.buffer.root.name, place.buffer.space == "local"
        storage = self.registers[root] if local else self.memory[root]
        rows = (np.flatnonzero(active),) if local else ()
        if isinstance(place, ir.Vector):
            at = self.value(place.offset, active)[active]
            view = place.buffer
            while view.base is not None:
                if view.offset is not None:
                    at = at + self.value(view.offset, active)[active]
                view = view.base
            assert (at >= 0).all() and (at + place.width <= storage.shape[-1]).all(), f"{place} leaves the buffer"
            assert local or not (at % place.width).any(), f"{place} is misaligned"
            return storage, [(*rows, at + k) for k in range(place.width)]
        indices = tuple(self.value(i, active)[active] for i in place.indices)
        layout = place.buffer.layout
        if not isinstance(layout, TileLayout):
            assert _inside(indices, storage.shape), f"{place} leaves the tensor of {storage.shape}"
            return storage, [indices]
        shape = tuple(int(n) for n in place.buffer.shape if isinstance(n, int))
        assert _inside(indices, shape), f"{place} leaves the buffer of {shape}"
        return storage, [(*rows, _in_layout(layout, indices, shape))]


def updated(op: str, before: Array, operands: Sequence[Array]) -> Array:
    """What an atomic operation leaves in a place."""
    if op == "cas":
        return np.where(before == operands[0], operands[1], before)
    (value,) = operands
    if op == "exch":
        return value
    functions = {
        "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }
    return np.asarray(functions[op](before, value))


class _Exits:
    """The threads that left an iteration of a loop before its end."""

    def __init__(self, active: Array) -> None:
        self.broke, self.goes_on = np.zeros_like(active), np.zeros_like(active)


def _inside(indices: tuple[Array, ...], shape: tuple[int, ...]) -> bool:
    return all(((i >= 0) & (i < n)).all() for i, n in zip(indices, shape, strict=True))


def _in_layout(layout: TileLayout, indices: tuple[Array, ...], shape: tuple[int, ...]) -> Array:
    """Where elements lie in one memory, or in registers that each thread has for itself."""
    plain = layouts.plain(layout)
    elements = []
    for index in zip(*indices, strict=True):
        ((thread, element),) = layouts.places(plain, layouts.flat([int(i) for i in index], shape))
        assert thread == 0, f"element {index} belongs to one thread"
        elements.append(element)
    return np.array(elements, np.int64)
