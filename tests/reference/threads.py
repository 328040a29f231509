"""Lane IR carried out with NumPy: all threads of one CTA in step, one statement at a time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tests.reference.instructions import AsyncCopies, matrix
from tilejit.ir import nodes as ir
from tilejit.layout import TileLayout
from tilejit.ops.cast import convert
from tilejit.ops.elementwise import ELEMENTWISE

Array = np.ndarray


class Machine:
    """One CTA.

    memory: flat arrays of global and shared buffers by name. registers: arrays (threads, registers) by name.
    """

    def __init__(
        self,
        kernel: ir.Kernel,
        memory: Mapping[str, Array],
        scalars: Mapping[str, int],
        registers: Mapping[str, Array] | None = None,
    ) -> None:
        self.threads = kernel.threads
        self.memory = dict(memory)
        self.registers: dict[str, Array] = dict(registers or {})
        self.values: dict[str, Array] = {k: np.full(self.threads, v) for k, v in scalars.items()}
        self.accesses = 0
        self.copies = AsyncCopies()
        self.run(kernel.body, np.ones(self.threads, bool))

    def run(self, body: tuple[ir.Stmt, ...], active: Array) -> None:
        for stmt in body:
            getattr(self, f"do_{type(stmt).__name__.lower()}")(stmt, active)

    def do_alloc(self, stmt: ir.Alloc, active: Array) -> None:
        buffer = stmt.buffer
        assert isinstance(buffer.layout, TileLayout)
        if buffer.space == "local":
            count = buffer.layout.storage().span()
            self.registers.setdefault(buffer.name, np.zeros((self.threads, count), buffer.dtype.numpy))
        else:
            self.memory.setdefault(buffer.name, np.zeros(buffer.layout.footprint(), buffer.dtype.numpy))

    def do_let(self, stmt: ir.Let, active: Array) -> None:
        old = self.values.get(stmt.var.name, np.zeros(self.threads, stmt.var.dtype.numpy))
        self.values[stmt.var.name] = np.where(active, self.value(stmt.value, active), old).astype(stmt.var.dtype.numpy)

    def do_for(self, stmt: ir.For, active: Array) -> None:
        start, stop, step = (int(self.value(e, active)[0]) for e in (stmt.start, stmt.stop, stmt.step))
        for i in range(start, stop, step):
            self.values[stmt.var.name] = np.full(self.threads, i, stmt.var.dtype.numpy)
            self.run(stmt.body, active)

    def do_if(self, stmt: ir.If, active: Array) -> None:
        cond = self.value(stmt.cond, active)
        self.run(stmt.then, active & cond)
        self.run(stmt.orelse, active & ~cond)

    def do_sync(self, stmt: ir.Sync, active: Array) -> None:
        pass

    def do_store(self, stmt: ir.Store, active: Array) -> None:
        assert isinstance(stmt.place, ir.Vector)
        self.put(stmt.place, [self.value(stmt.value, active)], active)

    def do_move(self, stmt: ir.Move, active: Array) -> None:
        reads = active if stmt.predicate is None else active & self.value(stmt.predicate, active)
        found = self.get(stmt.src, reads)
        if stmt.otherwise is None:
            self.put(stmt.dst, found, reads)
            return
        fill = self.value(stmt.otherwise, active)
        self.put(stmt.dst, [np.where(reads, v, fill) for v in found], active)

    def do_instruction(self, stmt: ir.Instruction, active: Array) -> None:
        if stmt.name.startswith(("ldmatrix", "stmatrix")):
            matrix(self, stmt, active)
        elif stmt.name == "cp.async.commit":
            self.copies.commit()
        elif stmt.name == "cp.async.wait":
            (count,) = stmt.inputs
            assert isinstance(count, ir.Const)
            self.copies.wait(int(count.value))
        elif stmt.name.startswith("cp.async"):
            self.copies.start(self, stmt, active)
        else:
            self.pair(stmt, active)

    def pair(self, stmt: ir.Instruction, active: Array) -> None:
        """Instructions that compute a pair of elements, each as the operation by itself."""
        name = "cast" if stmt.name.startswith("cvt") else stmt.name.split(".")[0]
        inputs = [self.get(v, active) for v in stmt.inputs if isinstance(v, ir.Vector)]
        (output,) = stmt.outputs
        pairs = list(zip(*inputs, strict=True))
        if name == "cast":
            self.put(output, [convert(x, output.buffer.dtype) for (x,) in pairs], active)
        else:
            self.put(output, [np.asarray(ELEMENTWISE[name].formula(*pair)) for pair in pairs], active)

    # ---- places ----

    def get(self, place: ir.Vector, active: Array) -> list[Array]:
        store, at = self.locate(place, active)
        places = [np.minimum(at + k, store.shape[-1] - 1) for k in range(place.width)]
        return [store[(np.arange(self.threads), p) if store.ndim == 2 else p] for p in places]

    def put(self, place: ir.Vector, values: list[Array], active: Array) -> None:
        store, at = self.locate(place, active)
        for k, value in enumerate(values):
            value = value.astype(store.dtype)
            if store.ndim == 2:
                store[active, (at + k)[active]] = value[active]
            else:
                store[(at + k)[active]] = value[active]

    def locate(self, place: ir.Vector, active: Array) -> tuple[Array, Array]:
        """The array and each thread's first index in it, 0 for those that aren't active."""
        at = np.where(active, self.value(place.offset, active), 0)
        local = place.buffer.space == "local"
        store = self.registers[place.buffer.root.name] if local else self.memory[place.buffer.root.name]
        used = at[active]
        assert ((used >= 0) & (used + place.width <= store.shape[-1])).all(), f"{place} leaves the buffer"
        if not local:
            assert not (at % place.width).any(), f"{place} is misaligned"
            self.accesses += 1
        return store, at

    # ---- expressions ----

    def value(self, expr: ir.Expr, active: Array) -> Array:
        if isinstance(expr, ir.Const):
            return np.full(self.threads, expr.value).astype(expr.dtype.numpy)
        if isinstance(expr, ir.Var):
            return self.values[expr.name]
        if isinstance(expr, ir.Special):
            return self.special(expr.name)
        if isinstance(expr, ir.Cast):
            return convert(self.value(expr.x, active), expr.dtype, expr.saturate)
        if isinstance(expr, ir.Load):
            assert isinstance(expr.place, ir.Vector)
            return self.get(expr.place, active)[0]
        args = [self.value(a, active) for a in expr.args]
        with np.errstate(all="ignore"):
            return np.asarray(ELEMENTWISE[expr.name].formula(*args))

    def special(self, name: str) -> Array:
        thread = np.arange(self.threads)
        unit = {"thread_id": thread, "lane_id": thread % 32, "warp_id": thread // 32, "tid_in_wg": thread % 128}
        return np.asarray(unit.get(name, thread // 128)).astype(np.int32)
