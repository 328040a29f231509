"""The kernels of a user's file, compiled for arguments that are written as `NAME=VALUE`."""

from __future__ import annotations

import ast
import os
import re
import runpy
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..dtypes import DTYPES, int32
from ..errors import LaunchError, TilejitError
from ..frontend import NO_DEFAULT, ParameterKind
from ..frontend.language import spec
from ..jit import Kernel
from ..runtime import devices
from ..runtime.variant_builder import BuildRequest
from ..target import Target

if TYPE_CHECKING:
    from ..compiled import Compiled

#: maximum number of characters of an argument that a message shows
_SHOWN = 80

#: a compiled kernel, and remarks on its configuration if it is tuned, else ()
Remarked = tuple["Compiled", tuple[str, ...]]


def kernels_of(file: str, run: bool) -> dict[str, Kernel]:
    """Run a file and return its kernels by name; raise LaunchError if it is missing or fails without a TilejitError."""
    path = Path(file)
    if not os.path.isfile(file):
        raise LaunchError(f"no such file: {file}", hint="write FILE or FILE::KERNEL")
    before = sys.path[:], sys.argv
    sys.path.insert(0, os.fspath(path.resolve().parent))
    sys.argv = [file]
    try:
        with printing_to_stderr():
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
def printing_to_stderr() -> Iterator[None]:
    """Redirect standard output to standard error, also the output of GPUs if sys.stdout has a file descriptor."""
    # sys.stdout is None if the process was started without a standard output, as by `>&-`
    if sys.stdout is not None:
        sys.stdout.flush()
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


def one_kernel(file: str, wanted: str, kernels: dict[str, Kernel]) -> Kernel:
    """Return the kernel `wanted`, or the only kernel if `wanted` is empty; raise LaunchError if none is selected."""
    if not wanted and len(kernels) == 1:
        (wanted,) = kernels
    if wanted not in kernels:
        named = f"no kernel {wanted!r}" if wanted else f"{len(kernels)} kernels"
        hint = f"write {file}::KERNEL, one of: {', '.join(kernels)}"
        raise LaunchError(f"{file} has {named}", hint=hint if kernels else "decorate a function with @tj.kernel")
    return kernels[wanted]


def compiled_for(kernel: Kernel, specs: Sequence[str], target: Target | None, threads: int | None) -> Remarked:
    """Compile a kernel for arguments written as `NAME=VALUE`; raise LaunchError if one is invalid.

    A tuned kernel uses the fastest known configuration that matches the arguments, else the first that matches; if none
    does, but the arguments set all tuned parameters, the kernel uses these values.
    """
    scalars = {p.name: p.dtype or int32 for p in kernel.parameters if p.kind is ParameterKind.SCALAR}
    return compiled_with(kernel, {**scalars, **arguments_of(kernel, specs)}, target, threads)


def arguments_of(kernel: Kernel, specs: Sequence[str]) -> dict[str, Any]:
    """Return the spec, dtype or value of each argument written as `NAME=VALUE`; raise LaunchError if one is invalid."""
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
    return arguments


def compiled_with(kernel: Kernel, named: dict[str, Any], target: Target | None, threads: int | None) -> Remarked:
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


def compiled_variants(kernel: Kernel, target: Target | None) -> list[Remarked]:
    """Return the kernel compiled for its defaults or, if one is missing, for each signature that the file compiled."""
    if all(p.spec is not None or p.default is not NO_DEFAULT for p in kernel.open_parameters):
        return [compiled_with(kernel, {}, target, None)]
    if target is None:
        return [(v.compiled, ()) for v in kernel.signatures]
    requests = [BuildRequest(v.signature, target, v.threads, kernel.options.debug) for v in kernel.signatures]
    return [(kernel.variants.builder.make(request), ()) for request in requests]
