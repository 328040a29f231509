"""Kernels for these tests: from functions or from text to tile IR, and tile IR on one thread."""

from __future__ import annotations

import ast
import itertools
import linecache
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tilejit as tj
from tilejit import dtypes, frontend
from tilejit.dtypes import DType
from tilejit.frontend.context import Context, Trial
from tilejit.frontend.statements import STATEMENTS
from tilejit.ir import nodes as ir
from tilejit.ir.types import ArrayType, ConstexprType, ScalarType, Signature
from tilejit.ops.cast import convert
from tilejit.ops.elementwise import ELEMENTWISE, value_type
from tilejit.target import target

_numbers = itertools.count()


def array(dtype: DType = dtypes.float32, rank: int = 1, **changes: Any) -> ArrayType:
    """The type of an aligned C-contiguous array."""
    given: dict[str, Any] = {"unit_dim": rank - 1 if rank else None, "align": 16, "extent_align": 16}
    return ArrayType(dtype, rank, **(given | changes))


def source_of(text: str, **names: Any) -> Callable[..., Any]:
    """The function that `text` defines last, with a source that linecache knows."""
    file = f"<kernel {next(_numbers)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"tj": tj, "np": np, **names}
    exec(compile(text, file, "exec", dont_inherit=True), scope)
    functions = [v for v in scope.values() if getattr(getattr(v, "__code__", None), "co_filename", "") == file]
    return functions[-1]


def tile_ir(
    fn: Callable[..., Any] | str, *types: Any, threads: int = 32, on: str = "sm_90a", **names: Any
) -> ir.Kernel:
    """The tile IR of a kernel; argument types in order: array and scalar types, a DType, or a constexpr's value."""
    function = source_of(fn, **names) if isinstance(fn, str) else fn
    source = frontend.KernelSource.of(function)
    arguments = [p.arg for p in source.node.args.args]
    signature = Signature(tuple(zip(arguments, map(_argument, types), strict=True)))
    return frontend.build(source, signature, threads=threads, target=target(on))


def _argument(value: Any) -> Any:
    if isinstance(value, DType):
        return ScalarType(value)
    return value if isinstance(value, (ArrayType, ScalarType)) else ConstexprType.of(value)


def statements(body: tuple[ir.Stmt, ...], kind: type[Any]) -> list[Any]:
    """All statements of a kind, those of nested bodies too, in order."""
    found: list[Any] = []
    for s in body:
        if isinstance(s, kind):
            found.append(s)
        for inner in ("then", "orelse", "body"):
            found += statements(getattr(s, inner, ()), kind)
    return found


# ---- how it is read -----------------------------------------------------------------------------------------


@dataclass
class Counted:
    """How often the frontend read each statement; one that is read for each call or round counts by those."""

    of_each: Counter[tuple[Any, ...]] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        return self.of_each.total()

    @property
    def most(self) -> int:
        return max(self.of_each.values())


@contextmanager
def counted_statements() -> Iterator[Counted]:
    """Counts the statements that the frontend reads, with what encloses each."""
    counted = Counted()

    def counting(handler: Callable[..., bool]) -> Callable[..., bool]:
        def read(ctx: Context, node: ast.stmt) -> bool:
            counted.of_each[(*(enclosure.step for enclosure in ctx.enclosures), node)] += 1
            return handler(ctx, node)

        return read

    with pytest.MonkeyPatch.context() as patch:
        for kind, handler in STATEMENTS.items():
            patch.setitem(STATEMENTS, kind, counting(handler))
        yield counted


@contextmanager
def dropped_trials() -> Iterator[list[bool]]:
    """For each trial that the frontend drops, whether what it had made before has changed."""
    changed: list[bool] = []
    trial = Context.trial

    def made(ctx: Context) -> Any:
        exits = [(list(e.exits), dict(e.passing)) for e in ctx.enclosures]
        env = list(ctx.frame.env.items())
        return [list(ctx.block), list(ctx.allocations), dict(ctx.used), dict(ctx.definitions), env, exits]

    @contextmanager
    def watched(ctx: Context) -> Iterator[Trial]:
        before = made(ctx)
        with trial(ctx) as opened:
            yield opened
        if not opened.kept:
            changed.append(made(ctx) != before)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Context, "trial", watched)
        yield changed


# ---- one thread ---------------------------------------------------------------------------------------------


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


class _Return(Exception):
    pass


class Thread:
    """Runs a kernel's scalar code as thread 0 of CTA 0 would; arrays are NumPy's, changed in place."""

    def __init__(self, kernel: ir.Kernel, arguments: dict[str, Any], specials: dict[str, int] | None = None) -> None:
        self.kernel = kernel
        self.arrays: dict[str, np.ndarray] = {}
        self.values: dict[str, Any] = {}
        self.specials = specials or {}
        self.printed = ""
        self.steps = 0
        for param in kernel.params:
            assert not isinstance(param, ir.AssertionsParam)
            value = arguments[param.of]
            match param:
                case ir.PointerParam():
                    self.arrays[param.of] = value
                case ir.ExtentParam():
                    self.values[param.var.name] = np.int64(value.shape[param.axis])
                case ir.StrideParam():
                    self.values[param.var.name] = np.int64(value.strides[param.axis] // value.itemsize)
                case ir.ScalarParam():
                    self.values[param.var.name] = np.asarray(value).astype(param.var.dtype.numpy)[()]

    def run(self) -> Thread:
        with suppress(_Return):
            self.body(self.kernel.body)
        return self

    def body(self, body: tuple[ir.Stmt, ...]) -> None:
        for statement in body:
            self.steps += 1
            assert self.steps < 100_000, "the kernel doesn't end"
            self.statement(statement)

    def statement(self, s: ir.Stmt) -> None:
        if isinstance(s, ir.Let):
            assert s.var.name not in self.values or s.var.dtype == s.value.dtype
            self.values[s.var.name] = self.typed(s.value, s.var.dtype)
            self.check_facts(s.var)
        elif isinstance(s, ir.Declare):
            self.values.pop(s.var.name, None)
            if s.init is not None:
                self.values[s.var.name] = self.typed(s.init, s.var.dtype)
        elif isinstance(s, ir.Assign):
            self.values[s.var.name] = self.typed(s.value, s.var.dtype)
        elif isinstance(s, ir.Store):
            array, index = self.place(s.place)
            array[index] = self.typed(s.value, s.place.buffer.dtype)
        elif isinstance(s, ir.Alloc):
            self.arrays[s.buffer.name] = np.zeros(s.buffer.shape, s.buffer.dtype.numpy)
        elif isinstance(s, ir.Print):
            self.printed += "".join(p if isinstance(p, str) else str(self.value(p)) for p in s.parts)
        elif isinstance(s, ir.Assert):
            assert self.value(s.cond), s.message
        elif isinstance(s, ir.Sync):
            pass
        else:
            self.control(s)

    def control(self, s: ir.Stmt) -> None:
        if isinstance(s, ir.If):
            cond = self.typed(s.cond, dtypes.bool_)
            self.body(s.then if cond else s.orelse)
        elif isinstance(s, ir.For):
            assert s.start.dtype == s.stop.dtype == s.step.dtype == s.var.dtype
            for i in range(*(int(self.value(e)) for e in (s.start, s.stop, s.step))):
                self.values[s.var.name] = s.var.dtype.numpy.type(i)
                self.check_facts(s.var)
                if self.once(s.body):
                    break
        elif isinstance(s, ir.Loop):
            while not self.once(s.body):
                pass
        else:
            raise {ir.Break: _Break, ir.Continue: _Continue, ir.Return: _Return}[type(s)]

    def once(self, body: tuple[ir.Stmt, ...]) -> bool:
        """One round; whether it broke out of the loop."""
        try:
            self.body(body)
        except _Break:
            return True
        except _Continue:
            pass
        return False

    def check_facts(self, var: ir.Var) -> None:
        if not var.dtype.is_integer:
            return
        value = int(self.values[var.name])
        assert value == 0 if var.multiple_of == 0 else value % var.multiple_of == 0, (var, value)
        assert var.bounds is None or var.bounds[0] <= value <= var.bounds[1], (var, value)

    def typed(self, expr: ir.Expr, dtype: DType) -> Any:
        assert expr.dtype == dtype, f"{expr} is {expr.dtype}, not {dtype}"
        return self.value(expr)

    def place(self, place: ir.Element | ir.Vector) -> tuple[np.ndarray, tuple[int, ...]]:
        assert isinstance(place, ir.Element)
        index = tuple(int(self.value(i)) for i in place.indices)
        array = self.arrays[place.buffer.root.name]
        assert all(0 <= i < n for i, n in zip(index, array.shape, strict=True)), f"{index} is outside {array.shape}"
        return array, index

    def value(self, e: ir.Expr) -> Any:
        if isinstance(e, ir.Const):
            return np.asarray(e.value).astype(e.dtype.numpy)[()]
        if isinstance(e, ir.Var):
            return self.values[e.name]
        if isinstance(e, ir.Special):
            return e.dtype.numpy.type(self.specials.get(e.name, 0))
        if isinstance(e, ir.Cast):
            return convert(np.asarray(self.value(e.x)), e.dtype, e.saturate)[()]
        if isinstance(e, ir.Load):
            array, index = self.place(e.place)
            return array[index]
        kinds = {a.dtype for a in e.args[1 if e.name == "where" else 0 :]}
        assert len(kinds) == 1, f"{e} mixes {kinds}"
        assert e.dtype == value_type(e.name, e.args[-1].dtype)
        with np.errstate(all="ignore"):
            found = np.asarray(ELEMENTWISE[e.name].formula(*(np.asarray(self.value(a)) for a in e.args)))
        return found.astype(e.dtype.numpy)[()]


def run(fn: Callable[..., Any] | str, *arguments: Any, **names: Any) -> Thread:
    """Build a kernel for these arguments (arrays, or int32 and float32 scalars) and run it on one thread."""
    function = source_of(fn, **names) if isinstance(fn, str) else fn
    types = [_type_of(a) for a in arguments]
    kernel = tile_ir(function, *types)
    names_ = [p.arg for p in frontend.KernelSource.of(function).node.args.args]
    return Thread(kernel, dict(zip(names_, arguments, strict=True))).run()


def _type_of(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        dtype = dtypes.from_numpy(value.dtype)
        assert dtype is not None
        return array(dtype, value.ndim, align=dtype.bytes, extent_align=dtype.bytes)
    if isinstance(value, np.generic):
        found = dtypes.from_numpy(value.dtype)
        assert found is not None
        return found
    return {bool: dtypes.bool_, int: dtypes.int32, float: dtypes.float32}[type(value)]
