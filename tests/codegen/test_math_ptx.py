"""What LLVM makes of the functions for GPUs: accepted by ptxas, and of IEEE instructions only."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache

import pytest

from tests.codegen.math_host import LLVM_TYPES, wrap
from tests.toolchain import ptxas_accepts
from tilejit.codegen.mathlib import has

OPS = (
    "exp", "exp2", "log", "log2", "sin", "cos", "tanh", "erf", "sigmoid", "silu", "gelu", "rsqrt", "reciprocal", "pow",
    "mod", "floordiv", "left_shift", "right_shift",
)  # fmt: skip
#: target -> PTX version feature
TARGETS = {"sm_75": "+ptx63", "sm_90": "+ptx80", "sm_100": "+ptx86"}

#: In a process of its own: LLVM ends the process where it can't select an instruction.
COMPILE = """
import sys
import llvmlite.binding as llvm
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
target = llvm.Target.from_triple("nvptx64-nvidia-cuda")
machine = target.create_target_machine(cpu=sys.argv[1], features=sys.argv[2], opt=3)
module = llvm.parse_assembly(sys.stdin.read())
module.verify()
options = llvm.create_pipeline_tuning_options(speed_level=2)
options.loop_unrolling = False
builder = llvm.create_pass_builder(machine, options)
builder.getModulePassManager().run(module, builder)
sys.stdout.write(machine.emit_assembly(module))
"""


@cache
def ptx(target: str) -> str:
    """Every function of the library, each in a kernel of its own."""
    kernels = [
        wrap(op, dtype, "ptx_kernel", " addrspace(1)").replace("@loop", f"@{op}_{dtype}")
        for dtype in LLVM_TYPES
        for op in OPS
        if has(op, dtype)
    ]
    text = 'target triple = "nvptx64-nvidia-cuda"\n' + "\n".join(kernels)
    command = [sys.executable, "-c", COMPILE, target, TARGETS[target]]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("target", TARGETS)
def test_ptxas_accepts_every_function(target: str) -> None:
    assert ptx(target).count(".entry") == sum(has(op, dtype) for dtype in LLVM_TYPES for op in OPS)
    ptxas_accepts(ptx(target), target)


@pytest.mark.parametrize("target", TARGETS)
def test_no_function_calls_approximates_flushes_or_reads_tables(target: str) -> None:
    forbidden = r"^\s*(?:call\b.*|\S*\.(?:approx|ftz|full)\b\S*|ld\.(?:const|local)\S*)"
    assert re.findall(forbidden, ptx(target), re.M) == []


@pytest.mark.parametrize("target", TARGETS)
def test_float32_functions_compute_in_float32(target: str) -> None:
    kernels = re.split(r"^\.visible \.entry ", ptx(target), flags=re.M)[1:]
    single = {k.split("(")[0]: k for k in kernels if "_float32(" in k.split("\n")[0]}
    assert len(single) == 16
    assert [name for name, text in single.items() if ".f64" in text] == []


@pytest.mark.parametrize("target", TARGETS)
def test_every_float_operation_names_its_rounding(target: str) -> None:
    """Without `.rn` ptxas may contract a product and a sum."""
    assert re.findall(r"^\s*(?:add|sub|mul|fma|div|rcp|sqrt)\.f(?:32|64)\b.*", ptx(target), re.M) == []
