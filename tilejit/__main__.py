"""The command line: `python -m tilejit doctor | explain FILE[::KERNEL] | compile FILE[::KERNEL] -o OUT | …`."""

from __future__ import annotations

import argparse
import ast
import io
import os
import platform
import re
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import __version__
from .dataclass import replace
from .dtypes import DTYPES, int32
from .environment import VARIABLES
from .errors import DeviceError, LaunchError, TilejitError
from .frontend import NO_DEFAULT, ParameterKind
from .frontend.language import spec
from .jit import Kernel
from .ops.elementwise import ELEMENTWISE
from .runtime import devices, store
from .runtime.device import checks_wanted
from .runtime.store import EntryKind
from .runtime.variant_builder import BuildRequest
from .sanitize import command as check_command
from .sanitize import running
from .target import Target
from .target import target as find_target

if TYPE_CHECKING:
    from .compiled import Compiled

_PACKAGES = ("tilejit", "numpy", "ml_dtypes", "llvmlite", "cuda-bindings", "cuda-core", "platformdirs")

#: option -> the attribute of `Compiled` that it prints instead of the explanation
_TEXTS = {"--ptx": "ptx", "--tile-ir": "tile_ir", "--lane-ir": "lane_ir", "--llvm": "llvm_ir"}

#: maximum number of characters of an argument that a message shows
_SHOWN = 80

#: a compiled kernel, and remarks on its configuration if it is tuned, else ()
Remarked = tuple["Compiled", tuple[str, ...]]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status. raises: SystemExit for `--help`, `--version` and invalid options."""
    for stream in (sys.stdout, sys.stderr):
        # the output may contain characters that the terminal's encoding lacks
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    arguments = list(sys.argv[1:] if argv is None else argv)
    # `check` reports results with 1 and 2, the statuses of errors and invalid options elsewhere
    failed = check_command.BAD_INPUT if arguments[:1] == ["check"] else 1
    try:
        options = vars(_parser().parse_args(arguments))
    except SystemExit as ended:
        raise SystemExit(failed if ended.code and failed != 1 else ended.code) from None
    command = _COMMANDS[options.pop("command")]
    try:
        status = _printed(command(**options))
        _flush()
    except TilejitError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return failed
    except KeyboardInterrupt:
        # 128 + SIGINT, as a shell reports it
        return 130
    except OSError as error:
        with suppress(OSError):
            # the interpreter flushes stdout at exit, which would fail again
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            return failed
        # the reader closed the pipe, as `head` does
        return 0
    return status


def _printed(lines: Iterator[str]) -> int:
    """Print lines, and return the exit status: the value that a generator returns, if any, else 0."""
    while True:
        try:
            print(next(lines))
        except StopIteration as ended:
            return int(ended.value or 0)


def _flush() -> None:
    # sys.stdout is None if the process was started without a standard output, as by `>&-`
    if sys.stdout is not None:
        sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    listed = "".join(f"\n  {v.name:<22} {v.values}: {v.meaning}; else {v.unset}" for v in VARIABLES)
    parser = argparse.ArgumentParser(
        prog="python -m tilejit", description=sys.modules["tilejit"].__doc__,
        epilog=f"environment variables:{listed}", formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tilejit {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("doctor", help="report devices, driver, versions, and which device is used and why")
    explained = commands.add_parser("explain", help="show the variant of each tile operation and why others declined")
    explained.add_argument("place", metavar="FILE[::KERNEL]")
    _add_signature(explained)
    explained.add_argument("--run", action="store_true", help="run FILE as a program and explain what it launches")
    explained.add_argument(
        "--all", dest="shows_all", action="store_true",
        help="also list the variants for operands in other memory spaces",
    )
    texts = explained.add_mutually_exclusive_group()
    for option, attribute in _TEXTS.items():
        texts.add_argument(
            option, dest="text", action="store_const", const=attribute, help="print this instead of the explanation"
        )
    compiled = commands.add_parser("compile", help="compile a kernel ahead of time, for tilejit.load_compiled or C")
    compiled.add_argument("place", metavar="FILE[::KERNEL]")
    _add_signature(compiled)
    compiled.add_argument(
        "-o", "--output", dest="outputs", action="append", required=True, metavar="OUT",
        help="k.ptx, k.cubin or k.h; any other name writes OUT.tile, OUT.lane, OUT.ll and OUT.ptx; may be repeated",
    )
    commands.add_parser("operations", help="list the elementwise operations: operands, meaning, accuracy")
    commands.add_parser("simulator", help="list the PTX instructions that the simulator knows, and how exact each is")
    cached = commands.add_parser("cache", help="report on, clear or verify the cache of compiled kernels on disk")
    cached.add_argument("action", nargs="?", choices=tuple(_CACHE_ACTIONS), default="info")
    check_command.add_parser(commands)
    running.add_parser(commands)
    return parser


def _add_signature(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--spec", dest="specs", action="append", default=[], metavar="NAME=VALUE",
        help="the type or value of an argument: A=float32[1024, 64] for an array, A=float32[64, 1024]:(1, 64) for one "
        "with strides in elements, n=int32 for a scalar, n=7 for a scalar that selects a tuned configuration, N=64 "
        "for a compile-time or tuned value; parameters whose type or value follows from their annotation or default "
        "may be omitted",
    )
    command.add_argument("--target", help="target architecture, such as sm_100a")
    command.add_argument("--threads", type=int, help="threads per CTA")


def doctor() -> Iterator[str]:
    """Yield the lines of a report on the installation and on the device that launches use by default."""
    yield f"python         {platform.python_version()} on {platform.platform()}"
    for package in _PACKAGES:
        yield f"{package:<14} {_version(package)}"
    from .codegen.target_machine import llvm_problem

    unusable = llvm_problem()
    if unusable is not None:
        yield f"compiler       unusable: {unusable}"
    problem = devices.cuda_problem()
    gpus = devices.gpus()
    yield f"GPUs           {gpus[0] if gpus else 'none: ' + str(problem)}"
    yield from (f"               {gpu}" for gpu in gpus[1:])
    try:
        checks = "on" if checks_wanted() else "off (TILEJIT_SIM_CHECKS=0)"
    except LaunchError as error:
        checks = f"undetermined: {error.message}"
    yield f"simulator      checks are {checks}"
    asked = store.asked()
    if asked.store is None or asked.unused is not None:
        yield f"kernels        not cached on disk: {asked.unused}"
    else:
        yield f"kernels        cached in {asked.store.folder}{'' if asked.store.is_writable else _READ_ONLY}"
        if asked.problem is not None:
            yield f"               {asked.problem}"
    try:
        used = devices.default()
    except DeviceError as error:
        yield f"will be used   no device: {error}"
        return
    yield f"will be used   {used.name}, compiling for {used.target}, because {devices.reason()}"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def operations() -> Iterator[str]:
    """Yield a line for each elementwise operation: its operands, its meaning and, if there is one, its error bound."""
    for name, op in ELEMENTWISE.items():
        error = ""
        if op.accuracy is not None:
            error = "; within {:g} ulp in float32, {:g} in float64".format(*op.accuracy.ulp)
        elif op.approximation is not None:
            error = f"; within {op.approximation}"
        call = f"{name}({', '.join(op.operands)})"
        yield f"{call:<26} {op.meaning}{error}"


def simulator() -> Iterator[str]:
    """Return the lines of the simulator's instruction table, then the emitted instructions that it doesn't support."""
    from .isa import ROWS
    from .simulator.instructions import instruction_table

    opcode = re.compile(r"(?:^|[;{])\s*(?:@\S+\s+)?([a-z]\w*)([.\w:]*)")
    return instruction_table(found for row in ROWS.values() for found in opcode.findall(row.text))


_READ_ONLY = ", which is not writable: new kernels are not cached"


def cache_info() -> Iterator[str]:
    """Yield a report on the cache on disk: its location, its size limit and its contents, or why it is off."""
    kept, problem = asked = store.asked()
    if kept is None or asked.unused is not None:
        yield f"The cache on disk is off: {asked.unused}."
        yield "Compiled kernels are kept in the memory of the process that compiled them."
    else:
        meanings = {kind.label: kind.value for kind in EntryKind}
        sizes: dict[str, list[int]] = {}
        for entry in kept.entries():
            sizes.setdefault(entry.kind, []).append(entry.size_bytes)
        total = sum(map(sum, sizes.values()))
        if problem is not None:
            yield f"{problem}."
        end = "." if kept.is_writable else f"{_READ_ONLY}."
        yield f"Compiled kernels are kept in {kept.folder}: {total:,} of at most {kept.limit_bytes:,} bytes{end}"
        for kind, each in sorted(sizes.items()):
            meaning = f": {meanings[kind]}" if kind in meanings else ""
            yield f"{kind:<10} {_entries(len(each)):>13}, {sum(each):,} bytes{meaning}"
    yield "The CUDA driver has its own cache of code compiled from PTX; CUDA_CACHE_DISABLE=1 turns it off."


def cache_clear() -> Iterator[str]:
    """Remove this user's entries from the folder of the cache on disk, if the settings select one; yield a report."""
    kept, problem = store.asked()
    if kept is None:
        yield f"The cache on disk is off, so nothing was removed: {problem}."
        return
    count = kept.clear()
    yield f"{_entries(count)} {'was' if count == 1 else 'were'} removed from {kept.folder}."


def cache_verify() -> Iterator[str]:
    """Remove this user's unusable entries from the cache on disk, if possible, and yield a report."""
    kept, _ = asked = store.asked()
    if kept is None or asked.unused is not None:
        yield f"The cache on disk is off, so nothing was verified: {asked.unused}."
        return
    unsound = kept.verify()
    yield from (f"{'removed' if each.is_removed else 'left'} {each.name}: {each.problem}" for each in unsound)
    count = sum(1 for _ in kept.entries()) - sum(not each.is_removed for each in unsound)
    yield f"{_entries(count)} {'is' if count == 1 else 'are'} sound in {kept.folder}."


def _entries(count: int) -> str:
    return f"{count:,} {'entry' if count == 1 else 'entries'}"


_CACHE_ACTIONS = {"info": cache_info, "clear": cache_clear, "verify": cache_verify}


def compile_ahead(
    place: str, specs: Sequence[str], outputs: Sequence[str], target: str | None, threads: int | None
) -> Iterator[str]:
    """Compile one kernel of a file, save it to each of `outputs`, and yield the paths of the files written.

    place: `FILE` or `FILE::KERNEL`. specs: one `NAME=VALUE` per argument.
    """
    file, _, wanted = place.partition("::")
    chosen = find_target(target) if target else None
    compiled, remarks = _compiled_for(_one_kernel(file, wanted, _kernels(file, run=False)), specs, chosen, threads)
    for remark in remarks[:1]:
        # not to standard output, which lists only the files
        print(f"{compiled.name}: {remark}", file=sys.stderr)
    for output in outputs:
        yield from map(str, compiled.save(output))


def _one_kernel(file: str, wanted: str, kernels: dict[str, Kernel]) -> Kernel:
    """Return the kernel `wanted`, or the only kernel if `wanted` is empty; raise LaunchError if none is selected."""
    if not wanted and len(kernels) == 1:
        (wanted,) = kernels
    if wanted not in kernels:
        named = f"no kernel {wanted!r}" if wanted else f"{len(kernels)} kernels"
        hint = f"write {file}::KERNEL, one of: {', '.join(kernels)}"
        raise LaunchError(f"{file} has {named}", hint=hint if kernels else "decorate a function with @tj.kernel")
    return kernels[wanted]


def _compiled_for(kernel: Kernel, specs: Sequence[str], target: Target | None, threads: int | None) -> Remarked:
    """Compile a kernel for arguments written as `NAME=VALUE`; raise LaunchError if one is invalid.

    A tuned kernel uses the fastest known configuration that matches the arguments, else the first that matches; if none
    does, but the arguments set all tuned parameters, the kernel uses these values.
    """
    kinds = {p.name: p.kind for p in kernel.parameters}
    arguments: dict[str, Any] = {}
    for text in specs:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or name not in kinds:
            fault = f"{kernel.name} has no parameter {name!r}" if equals else f"--spec {text!r} has no value"
            raise LaunchError(fault, hint=f"write NAME=VALUE for: {', '.join(kinds)}" if kinds else "omit --spec")
        if name in arguments:
            raise LaunchError(f"--spec sets {name} twice", hint="remove one of the two")
        arguments[name] = _argument(name, kinds[name], value)
    scalars = {p.name: p.dtype or int32 for p in kernel.parameters if p.kind is ParameterKind.SCALAR}
    return _compiled_with(kernel, {**scalars, **arguments}, target, threads)


def _compiled_with(kernel: Kernel, named: dict[str, Any], target: Target | None, threads: int | None) -> Remarked:
    request, remarks = kernel.request((), named, target, threads, may_configure=True)
    return kernel.variants.variant(request).compiled, remarks


#: the VALUE of an array: its dtype, its extents and, optionally, its strides in elements
_ARRAY = re.compile(r"(\w+)\s*\[([\d\s,]*)\]\s*(?::\s*\(([-\d\s,]*)\))?")


def _argument(name: str, kind: ParameterKind, text: str) -> Any:
    """Return the spec, dtype or value that an argument's VALUE describes; raise LaunchError if it describes none."""
    array = _ARRAY.fullmatch(text)
    if array is not None and kind in (ParameterKind.ARRAY, ParameterKind.ANY):
        try:
            shape, strides = (None if part is None else _integers(part) for part in array.group(2, 3))
        except ValueError:
            raise LaunchError(
                f"--spec {name}={_cut(text)}: extents and strides are integers with commas between them",
                hint=f"write {name}=float32[64, 1024]:(1, 64)",
            ) from None
        return spec(shape or (), array[1], strides)
    if kind is ParameterKind.ARRAY:
        raise LaunchError(
            f"--spec {name}={_cut(text)}: {name} is an array; give its element type and shape",
            hint=f"write {name}=float32[1024, 64], or with strides in elements {name}=float32[64, 1024]:(1, 64)",
        )
    dtype = DTYPES.get(text)
    if dtype is not None:
        return dtype
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        # the errors of literal_eval, including those for input that is nested too deeply
        written = [f"{name}=float32[64, 64]"] if kind is ParameterKind.ANY else []
        other = "" if kind is ParameterKind.SCALAR else f" or {name}='text'"
        raise LaunchError(
            f"--spec {name}={_cut(text)} is neither {'an array nor ' if written else ''}a dtype nor a Python literal",
            hint=f"write {', '.join([*written, f'{name}=int32'])}, or a value such as {name}=64{other}",
        ) from None


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _integers(text: str) -> tuple[int, ...]:
    """Parse integers separated by commas, skipping empty parts. raises: ValueError if any other isn't an integer."""
    return tuple([int(part) for part in text.split(",") if part.strip()])


def explain(
    place: str, target: str | None, text: str | None, run: bool, specs: Sequence[str], threads: int | None,
    shows_all: bool,
) -> Iterator[str]:
    """Yield explanations of a file's kernels, or of one of them, or another text of each, such as its PTX.

    A kernel is compiled for the arguments in `specs`, else for its defaults if each parameter has one, such as
    a `tj.spec`, else for each signature that the file compiled it for, for example by launching it.

    place: `FILE` or `FILE::KERNEL`. text: an attribute of `Compiled`, or None for the explanation.
    run: run the file as a program, with the `__name__` "__main__", rather than as a module.
    specs: one `NAME=VALUE` per argument; these and `threads` require a single kernel.
    shows_all: also list the variants for operands in other memory spaces.
    """
    file, _, wanted = place.partition("::")
    made_for = find_target(target) if target else None
    kernels = _kernels(file, run)
    if specs or threads is not None:
        yield _shown(_compiled_for(_one_kernel(file, wanted, kernels), specs, made_for, threads), text, shows_all)
        return
    chosen = [_one_kernel(file, wanted, kernels)] if wanted else list(kernels.values())
    if not chosen:
        raise LaunchError(f"{file} has no kernels", hint="decorate a function with @tj.kernel")
    variants = [remarked for kernel in chosen for remarked in _compiled(kernel, made_for)]
    if not variants:
        way = "launch the kernel in the file"
        if not run:
            way = "pass --run to run the file as a program and explain what it launches"
        raise LaunchError(
            f"the arguments of {' and '.join(k.name for k in chosen)} in {file} are unknown",
            hint=f"pass --spec 'A=float32[32, 8]', declare `A: tj.Tensor = tj.spec((32, 8), tj.float32)`, or {way}",
        )
    yield "\n\n".join([_shown(remarked, text, shows_all) for remarked in variants])


def _shown(remarked: Remarked, text: str | None, shows_all: bool) -> str:
    compiled, remarks = remarked
    if text is not None:
        return str(getattr(compiled, text))
    explanation = compiled.explain()
    return str(replace(explanation, remarks=(*explanation.remarks, *remarks), shows_all=shows_all))


def _kernels(file: str, run: bool) -> dict[str, Kernel]:
    """Run a file and return its kernels by name; raise LaunchError if it is missing or fails without a TilejitError."""
    path = Path(file)
    if not os.path.isfile(file):
        raise LaunchError(f"no such file: {file}", hint="write FILE or FILE::KERNEL")
    before = sys.path[:], sys.argv
    sys.path.insert(0, os.fspath(path.resolve().parent))
    sys.argv = [file]
    try:
        with _printing_to_stderr():
            names = _names(file, "__main__" if run else path.stem)
    except TilejitError:
        raise
    except Exception as error:
        # a user's program may raise anything
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        where = f" at line {lines[-1]}" if lines else ""
        raise LaunchError(
            f"{file} raised {type(error).__name__}{where}: {error}", hint="fix the file so that Python can run it"
        ) from error
    finally:
        sys.path[:], sys.argv = before
    return {value.name: value for value in names.values() if isinstance(value, Kernel)}


#: name of a module's code object
_TOP = "<module>"


def _names(file: str, name: str) -> dict[str, Any]:
    """Run a file as the module `name` and return its globals, even if it calls `sys.exit`; exceptions propagate."""
    try:
        return runpy.run_path(file, run_name=name)
    except SystemExit as ended:
        # the program may end with `sys.exit(main())`
        if ended.code:
            print(f"{file} ended with {ended.code!r}", file=sys.stderr)
        frames = [frame for frame, _ in traceback.walk_tb(ended.__traceback__)]
        return next((f.f_globals for f in frames if f.f_code.co_filename == file and f.f_code.co_name == _TOP), {})


@contextmanager
def _printing_to_stderr() -> Iterator[None]:
    """Redirect standard output to standard error, also the output of GPUs if sys.stdout has a file descriptor."""
    _flush()
    try:
        number = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        # sys.stdout isn't an open file of the operating system
        with redirect_stdout(sys.stderr):
            yield
        return
    kept = os.dup(number)
    os.dup2(sys.stderr.fileno(), number)
    try:
        with redirect_stdout(sys.stderr):
            yield
            # output that a GPU prints appears on synchronization
            devices.synchronize()
    finally:
        os.dup2(kept, number)
        os.close(kept)


def _compiled(kernel: Kernel, target: Target | None) -> list[Remarked]:
    """Return the kernel compiled for its defaults or, if one is missing, for each signature that the file compiled."""
    if all(p.spec is not None or p.default is not NO_DEFAULT for p in kernel.open_parameters):
        return [_compiled_with(kernel, {}, target, None)]
    if target is None:
        return [(v.compiled, ()) for v in kernel.signatures]
    requests = [BuildRequest(v.signature, target, v.threads, kernel.options.debug) for v in kernel.signatures]
    return [(kernel.variants.builder.make(request), ()) for request in requests]


#: command -> the function that yields its output, called with the command's options
_COMMANDS: dict[str, Callable[..., Iterator[str]]] = {
    "doctor": doctor, "explain": explain, "compile": compile_ahead, "operations": operations, "simulator": simulator,
    "cache": lambda action: _CACHE_ACTIONS[action](), "run": running.run,
    "check": lambda **options: check_command.check(version=__version__, **options),
}


if __name__ == "__main__":
    sys.exit(main())
