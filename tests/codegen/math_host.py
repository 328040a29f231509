"""Runs the LLVM text of operations on the host: one loop over NumPy arrays per function."""

from __future__ import annotations

import ctypes
from functools import cache

import llvmlite.binding as llvm
import numpy as np

from tilejit.codegen.operations import definition, function_code, symbol
from tilejit.dtypes import DTYPES
from tilejit.ops.elementwise import ELEMENTWISE

__all__ = ["LLVM_TYPES", "call", "computed", "has", "run"]

#: functions for halves compute on float32
LLVM_TYPES = {"float32": "float", "float64": "double", "float16": "float", "bfloat16": "float"} | {
    f"{sign}int{bits}": f"i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}


def has(op: str, dtype: str) -> bool:
    """True if an operation on a type is a function that is called, rather than inline code."""
    code, _ = function_code(op, DTYPES[dtype])
    return code is not None and code.called


def computed(dtype: str) -> np.dtype:
    """The type of the arrays that the functions for a type take and give."""
    return np.dtype(np.float32 if DTYPES[dtype].is_half else dtype)


def call(op: str, dtype: str) -> str:
    """The LLVM text of the function applied to %a, and %b where it takes two."""
    kind = LLVM_TYPES[dtype]
    arguments = ", ".join(f"{kind} %{name}" for name in "abc"[: ELEMENTWISE[op].arity])
    return f"call {kind} @{symbol(op, dtype)}({arguments})"


def _loop(op: str, dtype: str) -> str:
    """The function and `loop(ptr x, ptr y, ptr out, i64 n)`, which applies it to arrays."""
    kind = LLVM_TYPES[dtype]
    return f"""{definition(op, dtype)}
define void @loop(ptr %x, ptr %y, ptr %out, i64 %n) {{
entry:
  br label %body
body:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %px = getelementptr {kind}, ptr %x, i64 %i
  %py = getelementptr {kind}, ptr %y, i64 %i
  %po = getelementptr {kind}, ptr %out, i64 %i
  %a = load {kind}, ptr %px
  %b = load {kind}, ptr %py
  %r = {call(op, dtype)}
  store {kind} %r, ptr %po
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %body, label %exit
exit:
  ret void
}}
"""


@cache
def _compiled(op: str, dtype: str) -> tuple[object, object]:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(_loop(op, dtype))
    module.verify()
    target = llvm.Target.from_default_triple()
    features = llvm.get_host_cpu_features().flatten()
    machine = target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=3)
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    return engine, prototype(engine.get_function_address("loop"))


def run(op: str, x: np.ndarray, y: np.ndarray | None = None, dtype: str = "") -> np.ndarray:
    """The function's values; x and y are of one type and shape. dtype: for which the function is, if not for theirs."""
    second = x if y is None else y
    assert x.dtype == second.dtype and x.shape == second.shape and x.flags.c_contiguous and second.flags.c_contiguous
    out = np.empty_like(x)
    _, loop = _compiled(op, dtype or x.dtype.name)
    loop(x.ctypes.data, second.ctypes.data, out.ctypes.data, x.size)  # type: ignore[operator]
    return out
