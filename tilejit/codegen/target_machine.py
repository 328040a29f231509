"""LLVM behind one function: text in, PTX out."""

from __future__ import annotations

import time
from ctypes import byref, c_char_p, string_at
from functools import cache
from typing import Any, NamedTuple

from ..errors import DeviceError
from ..forks import await_at_fork, importing
from ..target import Target

__all__ = ["TRIPLE", "FrontPasses", "compile_text", "llvm_problem"]

TRIPLE = "nvptx64-nvidia-cuda"

#: LLVM's version, which decides what text, options and instructions it takes, and the package that has it
_LLVM, _PACKAGE = 22, "llvmlite>=0.50,<0.51"

#: options of LLVM that turn off passes of the back end which cost more than they bring. What these passes do for
#: addresses has been done: passes on lane IR move them in front of loops, and the writer writes equal values once. LLVM
#: ignores an option that it doesn't have, without a word.
#: Together the passes took half of the 52 ms that emission of the matmul kernel took. Without them the SASS of 316
#: kernels is 1.4 % longer in all (of 33 kernels by more than 5 %), and that of all their loops 7 % shorter; rolled
#: loops of copies have 22 instructions instead of 18.
_OPTIONS = (
    "-opt-disable-enable-verbosity=0",
    # An instruction that it moves loses its source line. ptxas moves code by itself: with and without this pass, seven
    # kernels need the same numbers of registers, and six of them have as many instructions (one has 58 for 57).
    "-disable-machine-sink",
    # Straight-line strength reduction took 11 ms of the 52, and loop strength reduction 8.
    "-opt-disable=slsr",
    "-disable-lsr",
    "-opt-disable=nary-reassociate",
    "-disable-cgp",
    # It ran three times, for 8 % to 14 % of all instructions that LLVM takes. What it would find the writer has found.
    "-opt-disable=early-cse",
    # Of these there is nothing to do in what the writer writes: PTX is the same without, and emission 4 % faster. Those
    # that have an option of their own aren't made at all: of 7.7 million instructions that emission of vector_add took,
    # the making of all passes took 1.7.
    "-disable-constant-hoisting",
    "-disable-early-taildup",
    "-disable-expand-reductions",
    "-disable-mergeicmps",
    "-disable-nvptx-ir-peephole",
    "-disable-nvptx-load-store-vectorizer",
    "-disable-partial-libcall-inlining",
    "-disable-ssc",
    "-opt-disable=opt-phis",
    # Without these two some operands are exchanged and some blocks have other numbers. Of the 68 kernels of examples
    # SASS has as many instructions (2 differ by one) and registers; attention's emission takes 3 % less.
    "-disable-branch-fold",
    "-disable-peephole",
    # The parser would verify each module that has debug information, which `compile_text` does by itself: a fifth of
    # the time that parsing took.
    "-disable-auto-upgrade-debug-info",
    # `-opt-disable` doesn't reach speculative execution. That pass moves addresses of masked accesses in front of the
    # branch with their constants, which become additions instead of parts of the accesses. Without it, and with
    # addresses that the writer puts there without their constants, the PTX of the 65 kernels of examples is 1.8 %
    # shorter, their SASS 0.3 %.
    "-spec-exec-max-not-hoisted=0",
)


#: of code generation. Level 3 would number all values once more, which costs 5 % of emission. Of 1,300 kernels 1,037
#: come out the same. Of the others 97 were compared: 88 need as many registers, 5 more and 4 fewer, with 0.2 % more
#: SASS in all.
_LEVEL = 2


def llvm_problem() -> str | None:
    """Why the LLVM that is installed can't compile anything; None where it can."""
    try:
        import llvmlite.binding as llvm
    except (ImportError, OSError) as error:
        return f"llvmlite can't be imported: {error}"
    version = llvm.llvm_version_info
    if version[0] == _LLVM:
        return None
    return f"the llvmlite that is installed has LLVM {'.'.join(map(str, version))}; tilejit writes for LLVM {_LLVM}"


def _c(name: str, *args: Any) -> Any:
    """Call a function of llvmlite's C interface; the caller holds `_lock`.

    llvmlite's Python objects can't be used where an interrupt may arrive between any two calls: its lock stays taken
    where one arrives while it is taken or released, and a text is freed twice where one arrives as it is freed. Here
    whatever is freed is freed in one place that is run once; an interrupt may leave it, but never frees it again.
    """
    from llvmlite.binding import ffi

    return getattr(ffi.lib, name)._cfn(*args)


def _taken(text: c_char_p) -> str:
    """Return a text that LLVM allocated, and free it."""
    value = (text.value or b"").decode(errors="replace")
    _c("LLVMPY_DisposeString", text)
    return value


@cache
def _prepare() -> Any:
    """Return llvmlite's lock, once LLVM is ready, which has one set of options in a process.

    The lock is a plain one: `with` takes and releases it in one step of the interpreter. A fork waits for it.
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
    """Return the target machine for an architecture and a PTX version, which is never freed."""
    message = c_char_p()
    target = _c("LLVMPY_GetTargetFromTriple", TRIPLE.encode(), byref(message))
    if not target:
        raise RuntimeError(_taken(message))
    features = f"+ptx{ptx[0]}{ptx[1]}".encode()
    texts = (b"default", b"jitdefault", 0, 0, b"")
    return _c("LLVMPY_CreateTargetMachine", target, TRIPLE.encode(), cpu.encode(), features, _LEVEL, *texts)


class FrontPasses(NamedTuple):
    """The passes in front of the back end that would find something to do in a module.

    inlines: of functions. folds: of branches, and of loops whose test is in front, which gets behind their statements.
    """

    inlines: bool
    folds: bool


NO_PASSES = FrontPasses(inlines=False, folds=False)


@cache
def _manager(passes: FrontPasses) -> Any:
    """Return what runs the passes that the back end doesn't run by itself.

    Measured on a copy loop: O3's pipeline takes 4 ms for 51 instructions of PTX, these passes 0.4 ms for 53. Its
    instruction combiner also takes vector loads apart, which the back end then puts together again: 45 ms of emission
    instead of 10 for sixteen exponentials. Loops are left rolled, as they are written: unrolling is ptxas's.
    """
    manager = _c("LLVMPY_CreateNewModulePassManager")
    if passes.inlines:
        _c("LLVMPY_module_AddAlwaysInlinerPass", manager)
    if passes.folds:
        _c("LLVMPY_module_AddSimplifyCFGPass", manager)
        # gives all loops back the blocks in front of them and behind that the pass before it took away
        _c("LLVMPY_module_AddLoopRotatePass", manager)
    return manager


def _optimise(module: Any, machine: Any, passes: FrontPasses) -> None:
    """Run passes on a module.

    Without any it costs nothing: the builder and what goes with it took the tenth part of vector_add's time in LLVM.
    """
    if not any(passes):
        return
    tuning = _c("LLVMPY_CreatePipelineTuningOptions")
    # a builder serves one run: it keeps callbacks into the objects that llvmlite makes for that
    builder = _c("LLVMPY_CreatePassBuilder", machine, tuning)
    try:
        _c("LLVMPY_RunNewModulePassManager", _manager(passes), module, builder)
    finally:
        _c("LLVMPY_DisposePassBuilder", builder)
        _c("LLVMPY_DisposePipelineTuningOptions", tuning)


def _parsed(text: str, context: Any) -> Any:
    """Return the module of a text, which the context owns."""
    message = c_char_p()
    module = _c("LLVMPY_ParseAssembly", context, text.encode(), byref(message))
    if not module:
        raise RuntimeError(f"LLVM IR parsing error\n{_taken(message)}")
    return module


def _verify(module: Any) -> None:
    message = c_char_p()
    is_wrong = _c("LLVMPY_VerifyModule", module, byref(message))
    text = _taken(message)
    if is_wrong:
        raise RuntimeError(text)


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
    text: str, target: Target, ptx: tuple[int, int], passes: FrontPasses = NO_PASSES
) -> tuple[str, dict[str, float]]:
    """Return the PTX of an LLVM module.

    passes: those that find something to do which the back end wouldn't do.
    returns: the PTX, and how many milliseconds parsing, passes and emission took.
    raises: RuntimeError from LLVM's parser and verifier, which is a bug of the code that wrote the text.
    """
    with _prepare():
        machine = _machine(target.name, ptx)
        times = [time.perf_counter()]
        # a context of its own is freed with its module; LLVM's global one keeps every type and location for ever
        context = _c("LLVMPY_ContextCreate")
        try:
            module = _parsed(text, context)
            # What the verifier would refuse can end the process in the passes.
            _verify(module)
            times.append(time.perf_counter())
            _optimise(module, machine, passes)
            times.append(time.perf_counter())
            assembly = _assembly(machine, module)
            times.append(time.perf_counter())
        finally:
            _c("LLVMPY_ContextDispose", context)
    parsed, optimised, emitted = (1e3 * (b - a) for a, b in zip(times, times[1:], strict=False))
    return assembly, {"llvm_parse": parsed, "llvm_passes": optimised, "llvm_emit": emitted}
