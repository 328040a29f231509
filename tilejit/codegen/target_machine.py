"""LLVM behind one function: text in, PTX out."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

from ..target import Target

TRIPLE = "nvptx64-nvidia-cuda"


@cache
def _machine(cpu: str, ptx: tuple[int, int]) -> Any:
    """The target machine for an architecture and a PTX version.

    llvmlite is imported here and not at the top because it takes longer to import than all of tilejit.
    """
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    features = f"+ptx{ptx[0]}{ptx[1]}"
    return llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=cpu, features=features, opt=3)


def _optimise(module: Any, machine: Any) -> None:
    """Runs the passes: registers from memory, constants folded, common code once, invariants out of loops.

    Loops are left as they are written: unrolling is ptxas's, and its `nounroll` pragma would bind it.
    """
    import llvmlite.binding as llvm

    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_unrolling = False
    options.loop_vectorization = False
    options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)


def compile_text(text: str, target: Target, ptx: tuple[int, int]) -> tuple[str, dict[str, float]]:
    """The PTX of an LLVM module.

    returns: the PTX, and how many milliseconds parsing, passes and emission took.
    raises: RuntimeError from LLVM's parser and verifier, which is a bug of the code that wrote the text.
    """
    import llvmlite.binding as llvm

    machine = _machine(target.name, ptx)
    times = [time.perf_counter()]
    module = llvm.parse_assembly(text)
    times.append(time.perf_counter())
    _optimise(module, machine)
    times.append(time.perf_counter())
    assembly = machine.emit_assembly(module)
    times.append(time.perf_counter())
    parse, passes, emit = (1e3 * (b - a) for a, b in zip(times, times[1:], strict=False))
    return assembly, {"llvm_parse": parse, "llvm_passes": passes, "llvm_emit": emit}
