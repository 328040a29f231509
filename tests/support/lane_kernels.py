"""Lane-level kernels that tests of code generation share: one thread an element, operations straight on memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilejit.dtypes import DTYPES, DType, bool_, int32
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import (
    Buffer,
    Const,
    Expr,
    For,
    Kernel,
    Let,
    Load,
    Special,
    Stmt,
    Store,
    Strided,
    Var,
    Vector,
)
from tilejit.ir.params import (
    Param,
    PointerParam,
)
from tilejit.layout import TileLayout
from tilejit.lower.passes.hoist import hoist
from tilejit.lower.passes.split_offsets import split_offsets
from tilejit.lower.passes.storage import placed
from tilejit.lower.passes.unroll import unroll_loops
from tilejit.ops.elementwise import ELEMENTWISE, result_type

THREADS = 128
THREAD = Special("thread_id")


def array(name: str, dtype: DType, size: int, align: int = 16) -> Buffer:
    """A one-dimensional global buffer."""
    return Buffer(name, "global", dtype, (size,), Strided((1,), align), align)


def local(name: str, dtype: DType, size: int) -> Buffer:
    return Buffer(name, "local", dtype, (size,), TileLayout.row_major((size,)), dtype.bytes)


def shared(name: str, dtype: DType, size: int, align: int = 128) -> Buffer:
    return Buffer(name, "shared", dtype, (size,), TileLayout.row_major((size,)), align)


def pointer(buffer: Buffer, written: bool = False) -> Param:
    """The parameter that passes a buffer's address."""
    return PointerParam(buffer.name, buffer, written=written)


def kernel(body: Sequence[Stmt], params: Sequence[Param], target: str = "sm_90", **options: object) -> Kernel:
    """A kernel named `k` of 128 threads, unless the options say otherwise; its buffers have their places, unrolled
    loops are written out, offsets split, and invariant code moved before its loops."""
    made = Kernel(**{"name": "k", "threads": THREADS, **options}, params=tuple(params), target=target, body=tuple(body))  # type: ignore[arg-type]
    return hoist(split_offsets(unroll_loops(placed(made))))


def const(value: float, dtype: DType = int32) -> Const:
    return Const(value, dtype)


def unrolled(var: Var, count: int, *body: Stmt) -> For:
    return For(var, const(0), const(count), const(1), body, unrolled=True)


@dataclass(frozen=True)
class Case:
    """One scalar operation on one type, or a cast."""

    name: str
    dtypes: tuple[DType, ...]
    result: DType
    saturate: bool = True

    def apply(self, *args: Expr) -> Expr:
        if self.name == "cast":
            return build.cast(args[0], self.result, self.saturate)
        return build.op(self.name, *args)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.dtypes))}) -> {self.result}"


def operation_cases(dtype: DType) -> list[Case]:
    """Every operation of the table that takes `dtype`."""
    found: list[Case] = []
    for name, op in ELEMENTWISE.items():
        dtypes = (bool_,) * op.conditions + (dtype,) * (op.arity - op.conditions)
        rule = result_type(name, dtypes)
        if not isinstance(rule, str):
            found.append(Case(name, dtypes, rule[1]))
    return found


def cast_cases(dtype: DType) -> list[Case]:
    """Conversion of `dtype` to every type."""
    found = [Case("cast", (dtype,), to) for to in DTYPES.values()]
    return found + [Case("cast", (dtype,), to, saturate=False) for to in DTYPES.values() if to.is_fp8]


def elementwise_kernel(cases: Sequence[Case], target: str, inputs: int = THREADS) -> Kernel:
    """Case c writes elements [c * inputs, (c + 1) * inputs) of the output of its result's type.

    Parameters: `in<k>_<dtype>` for operand k, each of `inputs` elements, then `out_<dtype>`, each for all cases.
    """
    operands = {(k, d): array(f"in{k}_{d}", d, inputs) for case in cases for k, d in enumerate(case.dtypes)}
    results = {d: array(f"out_{d}", d, inputs * len(cases)) for d in dict.fromkeys(c.result for c in cases)}
    thread = Special("thread_id")
    body: list[Stmt] = []
    variables: dict[tuple[int, DType], Var] = {}
    for (k, dtype), buffer in operands.items():
        variables[k, dtype] = Var(f"x{k}_{dtype}", dtype)
        body.append(Let(variables[k, dtype], Load(Vector(buffer, thread))))
    for c, case in enumerate(cases):
        place = Vector(results[case.result], build.add(thread, Const(c * inputs, int32)))
        body.append(Store(place, case.apply(*(variables[k, d] for k, d in enumerate(case.dtypes)))))
    params = [pointer(b) for b in operands.values()] + [pointer(b, written=True) for b in results.values()]
    return kernel(body, params, target, threads=inputs)


def arguments(cases: Sequence[Case], inputs: dict[tuple[int, DType], np.ndarray]) -> list[np.ndarray]:
    """Arrays for `elementwise_kernel`'s parameters, the outputs zeroed."""
    size = len(next(iter(inputs.values())))
    keys = dict.fromkeys((k, d) for case in cases for k, d in enumerate(case.dtypes))
    results = dict.fromkeys(c.result for c in cases)
    return [inputs[key] for key in keys] + [np.zeros(size * len(cases), d.numpy) for d in results]
