"""The LLVM back end: LLVM IR to PTX."""

from __future__ import annotations

import time
from ctypes import byref, c_char_p, string_at
from functools import cache
from typing import Any, NamedTuple

from ..errors import DeviceError
from ..forks import await_at_fork, importing
from ..target import Target

TRIPLE = "nvptx64-nvidia-cuda"

#: the major version of LLVM for which the generated IR and the options are written, and a package that contains it
_LLVM, _PACKAGE = 22, "llvmlite>=0.50,<0.51"

#: Options that disable work, mostly back-end passes, that costs more than it gains: our passes on lane IR hoist
#: addresses out of loops, and `Writer` reuses equal values. The disabled passes took half of the 52 ms of emission of
#: the matmul kernel. Without them the SASS of 316 kernels is 1.4 % longer in total, but their loops are 7 % shorter;
#: rolled loops of copies have 22 instructions instead of 18. LLVM silently ignores unknown options.
_OPTIONS = (
    "-opt-disable-enable-verbosity=0",
    # Instructions that this pass moves lose their source lines. ptxas schedules anyway: in seven kernels the number of
    # registers is the same with and without the pass, and so is the number of instructions, except in one (57 or 58).
    "-disable-machine-sink",
    # Straight-line strength reduction took 11 of the 52 ms, and loop strength reduction 8.
    "-opt-disable=slsr",
    "-disable-lsr",
    "-opt-disable=nary-reassociate",
    "-disable-cgp",
    # This pass ran three times and took 8 % to 14 % of the instructions that LLVM executed. `Writer` already reuses
    # equal values.
    "-opt-disable=early-cse",
    # Without these passes the PTX is unchanged, and emission is 4 % faster.
    "-disable-constant-hoisting",
    "-disable-early-taildup",
    "-disable-expand-reductions",
    "-disable-mergeicmps",
    "-disable-nvptx-ir-peephole",
    "-disable-nvptx-load-store-vectorizer",
    "-disable-partial-libcall-inlining",
    "-disable-ssc",
    "-opt-disable=opt-phis",
    # Without these two passes, the examples' 68 kernels use the same numbers of registers, and all but 2 of them have
    # the same numbers of SASS instructions; emission of attention takes 3 % less time.
    "-disable-branch-fold",
    "-disable-peephole",
    # The parser would spend a fifth of its time on verifying modules with debug information. `compile_text` verifies
    # all modules.
    "-disable-auto-upgrade-debug-info",
    # Disables the SpeculativeExecution pass. It hoists the address of a masked access above the branch, constant offset
    # included, so that the offset costs an addition instead of being part of the access. We already emit addresses
    # above the branch, without the offsets. Without the pass the examples' PTX is 1.8 % shorter, their SASS 0.3 %.
    "-spec-exec-max-not-hoisted=0",
)

#: The optimization level. Level 3 would also run GVN, which takes 5 % of the time of emission and leaves 1,037 of 1,300
#: kernels unchanged. Of 97 changed ones that were compared, 88 need the same number of registers at both levels; at
#: level 2, 5 need more and 4 fewer, and the SASS of the 97 is 0.2 % longer in total.
_LEVEL = 2


def llvm_problem() -> str | None:
    """Return the reason why the installed LLVM can't be used, or None if it can."""
    try:
        import llvmlite.binding as llvm
    except (ImportError, OSError) as error:
        return f"llvmlite can't be imported: {error}"
    version = llvm.llvm_version_info
    if version[0] == _LLVM:
        return None
    return f"the installed llvmlite has LLVM {'.'.join(map(str, version))}; tilejit generates code for LLVM {_LLVM}"


def _c(name: str, *args: Any) -> Any:
    """Call a function of llvmlite's C interface. The caller must hold the lock that `_prepare` returns.

    llvmlite's Python objects aren't safe against a KeyboardInterrupt: one that arrives while their lock is acquired or
    released may leave it locked, and one that arrives while a string is freed may cause a double free. Here each
    resource is freed in exactly one place; an interrupt may leak it, but can't cause a double free.
    """
    from llvmlite.binding import ffi

    return getattr(ffi.lib, name)._cfn(*args)


def _taken(text: c_char_p) -> str:
    value = (text.value or b"").decode(errors="replace")
    _c("LLVMPY_DisposeString", text)
    return value


@cache
def _prepare() -> Any:
    """Initialize LLVM and return llvmlite's lock; forks wait until it is free.

    The lock is the `RLock` in llvmlite's wrapper: its methods are C code, so a KeyboardInterrupt can't abort them
    halfway. raises: DeviceError if LLVM can't be used.
    """
    with importing:
        problem = llvm_problem()
        if problem is not None:
            raise DeviceError(problem, hint=f"pip install '{_PACKAGE}'")
        from llvmlite.binding import ffi
    lock = ffi.lib._lock._lock
    await_at_fork(lock)
    with lock:
        for what in ("TargetInfos", "Targets", "TargetMCs", "AsmPrinters"):
            _c(f"LLVMPY_InitializeAll{what}")
        for option in _OPTIONS:
            _c("LLVMPY_SetCommandLine", b"tilejit", option.encode())
    return lock


@cache
def _machine(cpu: str, ptx: tuple[int, int]) -> Any:
    message = c_char_p()
    target = _c("LLVMPY_GetTargetFromTriple", TRIPLE.encode(), byref(message))
    if not target:
        raise RuntimeError(_taken(message))
    features = f"+ptx{ptx[0]}{ptx[1]}".encode()
    texts = (b"default", b"jitdefault", 0, 0, b"")
    return _c("LLVMPY_CreateTargetMachine", target, TRIPLE.encode(), cpu.encode(), features, _LEVEL, *texts)


class FrontPasses(NamedTuple):
    """The passes to run before the back end. inlines: the always-inliner. folds: SimplifyCFG and loop rotation."""

    inlines: bool = False
    folds: bool = False


@cache
def _manager(passes: FrontPasses) -> Any:
    """Return the pass manager for the passes before the back end.

    LLVM's O3 pipeline isn't used: for a copy loop it takes 4 ms instead of 0.4, and the PTX has 51 instructions instead
    of 53. It also splits vector loads, which makes the back end take 45 ms instead of 10 for sixteen exponentials.
    """
    manager = _c("LLVMPY_CreateNewModulePassManager")
    if passes.inlines:
        _c("LLVMPY_module_AddAlwaysInlinerPass", manager)
    if passes.folds:
        _c("LLVMPY_module_AddSimplifyCFGPass", manager)
        # also restores the preheaders and dedicated exit blocks that the previous pass removed
        _c("LLVMPY_module_AddLoopRotatePass", manager)
    return manager


def _optimise(module: Any, machine: Any, passes: FrontPasses) -> None:
    """Run passes on a module. With none, no builder is created, which saves 10 % of vector_add's time in LLVM."""
    if not any(passes):
        return
    tuning = _c("LLVMPY_CreatePipelineTuningOptions")
    # a builder is good for one run only: it keeps callbacks into objects that llvmlite creates for that run
    builder = _c("LLVMPY_CreatePassBuilder", machine, tuning)
    try:
        _c("LLVMPY_RunNewModulePassManager", _manager(passes), module, builder)
    finally:
        _c("LLVMPY_DisposePassBuilder", builder)
        _c("LLVMPY_DisposePipelineTuningOptions", tuning)


def _parsed(text: str, context: Any) -> Any:
    """Return the module that `text` defines, verified."""
    message = c_char_p()
    module = _c("LLVMPY_ParseAssembly", context, text.encode(), byref(message))
    if not module:
        raise RuntimeError(f"LLVM IR parsing error\n{_taken(message)}")
    # A module that fails verification could crash the process in the passes.
    is_wrong = _c("LLVMPY_VerifyModule", module, byref(message))
    fault = _taken(message)
    if is_wrong:
        raise RuntimeError(fault)
    return module


def _assembly(machine: Any, module: Any) -> str:
    message = c_char_p()
    memory = _c("LLVMPY_TargetMachineEmitToMemory", machine, module, 0, byref(message))
    if not memory:
        raise RuntimeError(_taken(message))
    try:
        return string_at(_c("LLVMPY_GetBufferStart", memory), _c("LLVMPY_GetBufferSize", memory)).decode()
    finally:
        _c("LLVMPY_DisposeMemoryBuffer", memory)


def compile_text(
    text: str, target: Target, ptx: tuple[int, int], passes: FrontPasses
) -> tuple[str, dict[str, float]]:
    """Compile an LLVM module to PTX.

    returns: the PTX, and the milliseconds that parsing (with verification), passes and emission took, by stage.
    raises: DeviceError if LLVM can't be used; RuntimeError if LLVM reports an error, which is a bug in tilejit.
    """
    with _prepare():
        machine = _machine(target.name, ptx)
        times = [time.perf_counter()]
        # a separate context is freed with its module; LLVM's global one keeps every type and location forever
        context = _c("LLVMPY_ContextCreate")
        try:
            module = _parsed(text, context)
            times.append(time.perf_counter())
            _optimise(module, machine, passes)
            times.append(time.perf_counter())
            assembly = _assembly(machine, module)
            times.append(time.perf_counter())
        finally:
            _c("LLVMPY_ContextDispose", context)
    parsed, optimised, emitted = (1e3 * (b - a) for a, b in zip(times, times[1:], strict=False))
    return assembly, {"llvm_parse": parsed, "llvm_passes": optimised, "llvm_emit": emitted}
