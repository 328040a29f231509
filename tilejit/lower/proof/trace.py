"""Lane IR carried out on tags, by all threads of one instance of a scope at once.

Thread indices, loop variables and starts are numbers; data are tags (`tags.py`). Statements that decide on data, or
that `instructions.py` doesn't know, raise AssertionError: a plan that can't be traced isn't proved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.arithmetic.evaluate import evaluate
from ...ir.nodes import (
    Alloc,
    Assert,
    Assign,
    Atomic,
    Buffer,
    BufferView,
    Cast,
    Const,
    Declare,
    Expect,
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
from ...ir.params import TensorMapSpec
from . import tags
from .networks import Comparisons
from .sums import Decision, Sums, stored
from .tags import TAG, Array, Value, is_tag, mixed, tag

#: distance between lanes in the numbers of places in tensor memory; greater than every column
TMEM_PITCH = 1 << 12

#: threads, as a mask; None for all of them
Active = Array | None


class TaggedMemory:
    """A buffer in global or shared memory: places hold tags of their own until they are written.

    Places are numbered in `unit` bytes from `low` on.
    """

    def __init__(self, seed: Array, low: int, high: int) -> None:
        self.seed, self.low, self.high = seed, low, high
        self.count = 0
        self._size = high - low
        self._written: Array | None = None
        self._contents: Array | None = None
        self.writer: Array | None = None

    def initial(self, places: Array) -> Array:
        return mixed(places.astype(np.int64).view(TAG) + self.seed)

    def read(self, places: Array) -> Array:
        values = self.initial(places)
        if self._written is None or self._contents is None:
            return values
        at = np.clip(places - self.low, 0, self._size - 1)
        return np.where(self._written[at], self._contents[at], values)

    def write(self, places: Array, values: Array) -> None:
        at = (places - self.low).ravel()
        if len(at) == 0:
            return
        assert at.min() >= 0 and at.max() < self._size, f"place {places.max()} is outside what the operation writes"
        if self._written is None or self._contents is None:
            self._written, self._contents = np.zeros(self._size, bool), np.empty(self._size, TAG)
        self._written[at], self._contents[at] = True, values.ravel()
        self.count += len(at)

    def note_writers(self, places: Array, thread: Array) -> None:
        """Note the threads that write places between two barriers."""
        if self.writer is None:
            self.writer = np.full(self._size, -1)
        self.writer[places - self.low] = thread

    def writers(self, places: Array) -> Array:
        """Return the thread that wrote each place since the last barrier, or -1."""
        assert self.writer is not None
        return np.asarray(self.writer[np.clip(places - self.low, 0, self._size - 1)])

    def written(self, places: Array) -> Array:
        """Return whether each place was written."""
        return np.zeros(places.shape, bool) if self._written is None else np.asarray(self._written[places - self.low])


class Trace:
    """Lane IR carried out. numbers: values of variables by name; others are taken as `evaluate` does."""

    def __init__(self, threads: int, numbers: Mapping[str, Any]) -> None:
        self.thread = np.arange(threads)
        self.values: dict[str, Value] = dict(numbers)
        self.values |= {
            "thread_id": self.thread, "lane_id": self.thread % 32, "tid_in_wg": self.thread % 128,
            "warp_id": self.thread // 32, "warpgroup_id": self.thread // 128,
        }
        #: variable of a tensor map -> the map, and the operation's buffers by name
        self.maps: dict[str, TensorMapSpec] = {}
        self.roots: dict[str, Buffer] = {}
        #: the operations on elements, if results are sums of elements
        self.sums: Sums | None = None
        #: the operations on elements, if they are sorted
        self.comparisons: Comparisons | None = None
        #: a value keeps its tag when it is converted, as between a type and that in which its values are exchanged
        self.has_plain_casts = False
        #: root of a buffer in registers -> the values of each register, by its offset in units
        self.registers: dict[str, dict[int, Value]] = {}
        #: root of a buffer in memory -> its contents
        self.memory: dict[str, TaggedMemory] = {}
        #: root of a buffer -> the bytes of the narrowest elements by which it is accessed
        self.units: dict[str, int] = {}
        #: roots of buffers in registers that were written
        self.changed: set[str] = set()
        #: roots of shared buffers that were written since the threads last waited for each other
        self.unsynchronized: set[str] = set()

    def block(self, body: Sequence[Stmt], active: Active = None) -> None:
        for stmt in body:
            step = _STEPS.get(type(stmt))
            assert step is not None, f"the proof can't trace {type(stmt).__name__}"
            step(self, stmt, active)

    def value(self, expr: Expr) -> Value:
        if isinstance(expr, Const):
            return tags.of_float(expr.value) if expr.dtype.is_float else tags.wrapped(expr.value, expr.dtype)
        if isinstance(expr, (Var, Special)):
            found = self.values.get(expr.name)
            if found is None:
                found = self.values[expr.name] = _free(expr)
            return found
        if isinstance(expr, Load):
            assert isinstance(expr.place, Vector)
            return self.read(expr.place)[0]
        if isinstance(expr, Cast):
            return self.cast(expr, self.value(expr.x))
        args = [self.value(a) for a in expr.args]
        dtype = expr.args[-1].dtype
        if dtype.kind == "uint" and expr.name in tags.ORDERED:
            args = [tags.ordered(a, dtype) for a in args]
        made = self.operation(expr.name, args)
        return made if dtype.kind == "int" and dtype.bits > 16 else tags.wrapped(made, expr.dtype)

    def cast(self, cast: Cast, x: Value) -> Value:
        dtype = cast.dtype
        if is_tag(x) and (self.sums is not None or self.has_plain_casts):
            return x
        if is_tag(x):
            return tags.combined(f"{cast.x.dtype} to {dtype}{'' if cast.saturate else ' unsaturated'}", [tag(x)])
        if dtype.is_float:
            return tags.of_float(x)
        return x != 0 if dtype.kind == "bool" else tags.wrapped(x, dtype)

    def operation(self, name: str, args: list[Value]) -> Value:
        special = self.sums or self.comparisons
        return tags.computed(name, args) if special is None else special.operation(name, args)

    def number(self, expr: Expr) -> Any:
        """Return the value of an expression that mustn't depend on data."""
        value = self.value(expr)
        depends = is_tag(value) or isinstance(value, Decision)
        assert not depends, f"an address or a condition depends on data: {expr}"
        return value

    def condition(self, expr: Expr | None, active: Active) -> tuple[Active, bool]:
        """Return the active threads for which a condition holds, and whether there are any."""
        cond = True if expr is None else self.number(expr)
        if isinstance(cond, np.ndarray):
            cond = cond.astype(bool, copy=False)
            both = cond if active is None else cond & active
            if both.all():
                return None, True
            return np.broadcast_to(both, self.thread.shape), bool(both.any())
        return active, bool(cond)

    def places(self, vector: Vector) -> tuple[str, Any, int, int]:
        """Return (root, start, parts, unit): the first place of a vector, and the number of places of an element."""
        at, buffer, view = self.number(vector.offset), vector.buffer, vector.buffer
        while view.base is not None:
            if view.offset is not None:
                at = at + self.number(view.offset)
            view = view.base
        size, root = buffer.dtype.bytes, view.name
        unit = self.units.setdefault(root, size)
        if size < unit:
            raise Finer(root, size)
        return root, at * (size // unit), size // unit, unit

    def read(self, vector: Vector) -> list[Value]:
        """Return the value of each element of a vector."""
        root, start, parts, _ = self.places(vector)
        if vector.buffer.space == "local":
            columns, start = self._columns(root), _uniform(start)
            if parts == 1:
                return [self._column(root, columns, start + k) for k in range(vector.width)]
            return [
                self._packed([self._column(root, columns, start + k * parts + p) for p in range(parts)])
                for k in range(vector.width)
            ]
        start = np.atleast_1d(start)
        self.check(vector, start // parts)
        values = self.read_memory(vector, start + np.arange(vector.width * parts)[:, None])
        return list(values) if parts == 1 else list(values.reshape(vector.width, parts, -1))

    def memory_of(self, vector: Vector) -> TaggedMemory:
        return self._memory(vector.buffer.root.name, vector)

    def read_memory(self, vector: Vector, places: Array) -> Array:
        """Return the tags of places of the buffer of `vector`."""
        root = vector.buffer.root.name
        memory = self._memory(root, vector)
        if root in self.unsynchronized:
            writer = memory.writers(places)
            seen = (writer >= 0) & (writer != self.thread)
            assert not seen.any(), f"{root} is read before threads wait for those that wrote it"
        return memory.read(places)

    def write_memory(self, vector: Vector, places: Array, values: Array, active: Active) -> None:
        """Write tags to places of the buffer of `vector`. places, values: of shape (..., threads)."""
        root = vector.buffer.root.name
        thread = self.thread
        if active is not None:
            places, values, thread = places[..., active], values[..., active], thread[active]
        memory = self._memory(root, vector)
        memory.write(places, values)
        if vector.buffer.space == "shared":
            self.unsynchronized.add(root)
            memory.note_writers(places, thread)

    def check(self, vector: Vector, starts: Array) -> None:
        """Raise AssertionError unless a vector's accesses are aligned to their size, as its buffer's base is."""
        # a vector of any width is accessed in parts of powers of two, the widest first, each aligned to its size
        width, buffer = 1 << (vector.width.bit_length() - 1), vector.buffer
        if width > 1:
            wrong = starts[starts % width != 0]
            assert len(wrong) == 0, f"{width} elements of {buffer.name} are accessed at {wrong[0]}, unaligned"
            size, align = width * buffer.dtype.bytes, buffer.align
            assert align % size == 0, (
                f"{size} bytes of {buffer.name} are accessed at once; its base is aligned to {align}"
            )

    def write(self, vector: Vector, values: list[Value], active: Active) -> None:
        root, start, parts, _ = self.places(vector)
        # a number is data once it is stored
        values = [stored(v, self.sums is not None and self.sums.reduction.picks) for v in values]
        if vector.buffer.space == "local":
            columns, start = self._columns(root), _uniform(start)
            self.changed.add(root)
            for k, value in enumerate(values):
                for p, each in enumerate([value] if parts == 1 else self._unpacked(value, parts)):
                    at = start + k * parts + p
                    if active is not None:
                        each = tags.chosen(active, each, self._column(root, columns, at))
                    columns[at] = each
            return
        start = np.broadcast_to(start, self.thread.shape)
        self.check(vector, (start if active is None else start[active]) // parts)
        wide = max(len(v) if v.ndim > 1 else 1 for v in values)
        if wide > parts:
            raise Finer(root, vector.buffer.dtype.bytes // wide)
        made = [tag(v) if parts == 1 else np.stack(self._unpacked(v, parts)) for v in values]
        made = [np.broadcast_to(v, (*v.shape[:-1], len(self.thread))) for v in made]
        places = start + np.arange(vector.width * parts)[:, None]
        self.write_memory(vector, places, np.stack(made).reshape(places.shape), active)

    def _columns(self, root: str) -> dict[int, Value]:
        return self.registers.setdefault(root, {})

    def _column(self, root: str, columns: dict[int, Value], at: int) -> Value:
        found = columns.get(at)
        if found is None:
            # registers that nothing was written to
            seed = tags.of_name(f"{root}.{at}")
            found = columns[at] = mixed(self.thread.view(TAG) + seed)
        return found

    def _packed(self, parts: list[Value]) -> Value:
        if any(isinstance(p, np.ndarray) and p.ndim > 1 for p in parts):
            raise AssertionError("parts of a register are wider than the register")
        made = [tag(p) for p in parts]
        return np.stack(np.broadcast_arrays(*made))

    def _unpacked(self, value: Value, parts: int) -> list[Value]:
        if isinstance(value, np.ndarray) and value.ndim > 1 and len(value) == parts:
            return list(value)
        whole = tag(value)
        return [tags.part(whole, p) for p in range(parts)]

    def _memory(self, root: str, vector: Vector) -> TaggedMemory:
        found = self.memory.get(root)
        if found is None:
            # scratch memory
            size = vector.buffer.root.size_bytes // self.units[root]
            found = self.memory[root] = TaggedMemory(tags.of_name(root), 0, size)
        return found

    def _let(self, stmt: Let, active: Active) -> None:
        self.values[stmt.var.name] = self.value(stmt.value)

    def _declare(self, stmt: Declare, active: Active) -> None:
        if stmt.init is not None:
            self.values[stmt.var.name] = self.value(stmt.init)

    def _assign(self, stmt: Assign, active: Active) -> None:
        value, before = self.value(stmt.value), self.values.get(stmt.var.name, 0)
        self.values[stmt.var.name] = value if active is None else tags.chosen(active, value, before)

    def _store(self, stmt: Store, active: Active) -> None:
        assert isinstance(stmt.place, Vector)
        self.write(stmt.place, [self.value(stmt.value)], active)

    def _move(self, stmt: Move, active: Active) -> None:
        accessing, some = self.condition(stmt.predicate, active)
        if not some and stmt.otherwise is None:
            return
        values = self.read(stmt.src)
        if stmt.otherwise is not None and (accessing is not active or not some):
            fill = self.value(stmt.otherwise)
            holds = False if not some else True if accessing is None else accessing
            values = [tags.chosen(holds, v, fill) for v in values]
            accessing = active
        self.write(stmt.dst, values, accessing)

    def _atomic(self, stmt: Atomic, active: Active) -> None:
        assert isinstance(stmt.place, Vector)
        old = self.update(stmt.op, stmt.place, [[self.value(each)] for each in stmt.operands], active)
        if stmt.var is not None:
            self.values[stmt.var.name] = old[0]

    def update(self, op: str, place: Vector, operands: list[list[Value]], active: Active) -> list[Value]:
        """Update the elements of a place atomically, and return their old values. operands: of each element."""
        _, start, parts, _ = self.places(place)
        at = np.broadcast_to(start, self.thread.shape) + np.arange(place.width)[:, None]
        assert parts == 1, f"{place.buffer.name} is updated in parts of elements"
        self.check(place, at[0] if active is None else at[0][active])
        old = list(self.memory_of(place).read(at))
        made = [tags.combined(f"atomic {op}", [x, *map(tag, each)]) for x, *each in zip(old, *operands, strict=True)]
        self.write_memory(place, at, np.stack(made), active)
        return old

    def _if(self, stmt: If, active: Active) -> None:
        holds = self.number(stmt.cond)
        if not isinstance(holds, np.ndarray):
            self.block(stmt.then if holds else stmt.orelse, active)
            return
        for body, cond in ((stmt.then, holds), (stmt.orelse, ~holds)):
            mask = cond if active is None else cond & active
            if body and mask.any():
                self.block(body, None if mask.all() else np.broadcast_to(mask, self.thread.shape))

    def _for(self, stmt: For, active: Active) -> None:
        start, stop, step = (_uniform(self.number(e)) for e in (stmt.start, stmt.stop, stmt.step))
        for at in range(start, stop, step):
            self.values[stmt.var.name] = at
            self.block(stmt.body, active)

    def _instruction(self, stmt: Instruction, active: Active) -> None:
        # imported late, because instructions are traced by this class
        from .instructions import carry_out

        carry_out(self, stmt, active)

    def _sync(self, stmt: Sync, active: Active) -> None:
        for root in self.unsynchronized:
            self.memory[root].writer = None
        self.unsynchronized.clear()

    def _nothing(self, stmt: Stmt, active: Active) -> None:
        pass


class Finer(Exception):
    """A buffer is accessed by narrower elements than before: it must be traced in units of `size` bytes."""

    def __init__(self, root: str, size: int) -> None:
        super().__init__(root, size)
        self.root, self.size = root, size


def _uniform(value: Any) -> int:
    if isinstance(value, np.ndarray):
        first = value.ravel()[0]
        assert (value == first).all(), "a register's index differs between threads"
        return int(first)
    return int(value)


def _free(leaf: Var | Special) -> Value:
    """Return the value of a variable that no statement defines: as `evaluate` does, or a tag for a float."""
    if leaf.dtype.is_float:
        return mixed(tags.of_name(leaf.name))
    return evaluate(leaf, {}).item()


_STEPS: dict[type, Callable[[Any, Any, Active], None]] = {
    Let: Trace._let, Declare: Trace._declare, Assign: Trace._assign, Store: Trace._store, Move: Trace._move,
    Atomic: Trace._atomic, If: Trace._if, For: Trace._for, Instruction: Trace._instruction, Sync: Trace._sync,
    Alloc: Trace._nothing, BufferView: Trace._nothing, Assert: Trace._nothing, Expect: Trace._nothing,
}
