"""The functions that kernels call, as PTX kernels of one thread an element, run on the simulator or a GPU."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from typing import Any

import numpy as np

from tests.codegen.math_host import LLVM_TYPES, call, has
from tilejit.codegen.operations import definition
from tilejit.ops.elementwise import ELEMENTWISE

__all__ = ["FUNCTIONS", "TARGETS", "Gpu", "entry", "ptx"]

#: every (operation, type) that kernels call
FUNCTIONS = tuple((op, dtype) for dtype in LLVM_TYPES for op in ELEMENTWISE if has(op, dtype))

#: target -> LLVM's feature for its PTX version
TARGETS = {"sm_75": "+ptx63", "sm_90": "+ptx80", "sm_100": "+ptx86"}

#: In a process of its own: LLVM ends the process where it can't select an instruction.
_COMPILE = """
import sys
import llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
target = llvm.Target.from_triple("nvptx64-nvidia-cuda")
machine = target.create_target_machine(cpu=sys.argv[1], features=sys.argv[2], opt=3)
module = llvm.parse_assembly(sys.stdin.read())
module.verify()
options = llvm.create_pipeline_tuning_options(speed_level=3)
options.loop_unrolling = False
builder = llvm.create_pass_builder(machine, options)
builder.getModulePassManager().run(module, builder)
sys.stdout.write(machine.emit_assembly(module))
"""


def entry(op: str, dtype: str) -> str:
    """The kernel's name; it takes pointers to x, y and the result, of one element a thread."""
    return f"{op}_{dtype}"


def _kernel(op: str, dtype: str) -> str:
    kind = LLVM_TYPES[dtype]
    pointer = "ptr addrspace(1)"
    return f"""{definition(op, dtype)}
define ptx_kernel void @{entry(op, dtype)}({pointer} %x, {pointer} %y, {pointer} %out) {{
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %c = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %w = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %first = mul i32 %c, %w
  %index = add i32 %first, %t
  %i = zext i32 %index to i64
  %px = getelementptr {kind}, {pointer} %x, i64 %i
  %py = getelementptr {kind}, {pointer} %y, i64 %i
  %po = getelementptr {kind}, {pointer} %out, i64 %i
  %a = load {kind}, {pointer} %px
  %b = load {kind}, {pointer} %py
  %r = {call(op, dtype)}
  store {kind} %r, {pointer} %po
  ret void
}}
"""


@cache
def ptx(target: str) -> str:
    """The kernels of all functions in one module."""
    text = 'target triple = "nvptx64-nvidia-cuda"\n' + "\n".join(_kernel(op, dtype) for op, dtype in FUNCTIONS)
    command = [sys.executable, "-c", _COMPILE, target, TARGETS[target]]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Gpu:
    """The kernels on the first GPU, through the driver alone."""

    def __init__(self) -> None:
        from cuda.bindings import driver

        self._driver = driver
        self._do(driver.cuInit(0))
        self._context = self._do(driver.cuDevicePrimaryCtxRetain(self._do(driver.cuDeviceGet(0))))
        self._do(driver.cuCtxSetCurrent(self._context))
        self._module = self._do(driver.cuModuleLoadData(ptx("sm_75").encode() + b"\0"))

    def _do(self, answer: tuple[Any, ...]) -> Any:
        assert answer[0] == self._driver.CUresult.CUDA_SUCCESS, answer[0].name
        return answer[1] if len(answer) > 1 else None

    def run(self, op: str, dtype: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The function's values; the number of elements is a multiple of 128."""
        driver, out = self._driver, np.empty_like(x)
        kernel = self._do(driver.cuModuleGetFunction(self._module, entry(op, dtype).encode()))
        pointers = [self._do(driver.cuMemAlloc(x.nbytes)) for _ in range(3)]
        for pointer, array in zip(pointers, (x, y), strict=False):
            self._do(driver.cuMemcpyHtoD(pointer, array.ctypes.data, x.nbytes))
        values = np.array([int(pointer) for pointer in pointers], np.uint64)
        addresses = np.array([values.ctypes.data + 8 * i for i in range(3)], np.uint64)
        self._do(driver.cuLaunchKernel(kernel, x.size // 128, 1, 1, 128, 1, 1, 0, 0, addresses.ctypes.data, 0))
        self._do(driver.cuMemcpyDtoH(out.ctypes.data, pointers[2], x.nbytes))
        for pointer in pointers:
            self._do(driver.cuMemFree(pointer))
        return out
