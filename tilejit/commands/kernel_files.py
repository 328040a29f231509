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
from ..wording import cut

if TYPE_CHECKING:
    from ..compiled import Compiled

#: a compiled kernel, and remarks on its configuration if it is tuned, else ()
Remarked = tuple["Compiled", tuple[str, ...]]


def kernels_of(place: str, run: bool = False) -> list[Kernel]:
    """Run a file and return its kernels, or only the named one; raise LaunchError if it has none or if it fails.

    place: `FILE` or `FILE::KERNEL`. run: run the file as a program, with the `__name__` "__main__", not as a module.
    """
    file, _, wanted = place.partition("::")
    values = _run(file, "__main__" if run else Path(file).stem).values()
    kernels = {value.name: value for value in values if isinstance(value, Kernel)}
    if not kernels:
        raise LaunchError(f"{file} has no kernels", hint="decorate a function with @tj.kernel")
    if wanted and wanted not in kernels:
        raise LaunchError(f"{file} has no kernel {wanted!r}", hint=f"the kernels are: {', '.join(kernels)}")
    return [kernels[wanted]] if wanted else list(kernels.values())


def one_kernel(place: str, run: bool = False) -> Kernel:
    """Return the only kernel that `kernels_of` returns; raise LaunchError if there are several."""
    kernels = kernels_of(place, run)
    if len(kernels) > 1:
        names = ", ".join(kernel.name for kernel in kernels)
        raise LaunchError(f"{place} has {len(kernels)} kernels", hint=f"write {place}::KERNEL, one of: {names}")
    return kernels[0]


def _run(file: str, name: str) -> dict[str, Any]:
    """Run a file as the module `name` and return its globals, even if it calls `sys.exit`.

    raises: LaunchError if the file is missing or raises an exception other than a TilejitError.
    """
    if not os.path.isfile(file):
        raise LaunchError(f"no such file: {file}", hint="write FILE or FILE::KERNEL")
    before = sys.path[:], sys.argv
    sys.path.insert(0, os.fspath(Path(file).resolve().parent))
    sys.argv = [file]
    try:
        return runpy.run_path(file, run_name=name)
    except TilejitError:
        raise
    except SystemExit as ended:
        # the program may end with `sys.exit(main())`
        if ended.code:
            print(f"{file} ended with {ended.code!r}", file=sys.stderr)
        codes = [(frame.f_code, frame.f_globals) for frame, _ in traceback.walk_tb(ended.__traceback__)]
        return next((names for code, names in codes if (code.co_filename, code.co_name) == (file, "<module>")), {})
    except Exception as error:
        # a user's program may raise anything
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        where = f" at line {lines[-1]}" if lines else ""
        raise LaunchError(
            f"{file} raised {type(error).__name__}{where}: {error}", hint="fix the file so that Python can run it"
        ) from error
    finally:
        sys.path[:], sys.argv = before


@contextmanager
def printing_to_stderr() -> Iterator[None]:
    """Redirect what a user's program and kernels print to standard error, so that it doesn't mix with the results.

    Also redirect the output of GPUs if both streams have a file descriptor.
    """
    # sys.stdout is None if the process was started without a standard output, as by `>&-`
    if sys.stdout is not None:
        sys.stdout.flush()
    try:
        number, other = sys.stdout.fileno(), sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        # one of them isn't an open file of the operating system
        with redirect_stdout(sys.stderr):
            yield
        return
    kept = os.dup(number)
    os.dup2(other, number)
    try:
        with redirect_stdout(sys.stderr):
            yield
            # output that a GPU prints appears on synchronization
            devices.synchronize()
    finally:
        os.dup2(kept, number)
        os.close(kept)


def compiled_for(kernel: Kernel, specs: Sequence[str], target: str | None, threads: int | None) -> Remarked:
    """Compile a kernel for arguments written as `NAME=VALUE`; raise LaunchError if one is invalid.

    A tuned kernel uses the fastest known configuration that matches the arguments, else the first that matches; if none
    does, but the arguments set all tuned parameters, the kernel uses these values.
    """
    scalars = {
        p.name: p.dtype or int32 for p in kernel.parameters
        if p.kind is ParameterKind.SCALAR and p.default is NO_DEFAULT
    }
    named = {**scalars, **arguments_of(kernel, specs)}
    variants, request, remarks = kernel.request((), named, target, threads, may_configure=True)
    return variants.variant(request).compiled, remarks


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
                f"--spec {name}={cut(text)}: extents and strides are integers with commas between them",
                hint=f"write {name}=float32[64, 1024]:(1, 64)",
            ) from None
        return spec(shape or (), array[1], strides)
    if kind is ParameterKind.ARRAY:
        raise LaunchError(
            f"--spec {name}={cut(text)}: {name} is an array; give its element type and shape",
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
            f"--spec {name}={cut(text)} is neither {'an array nor ' if written else ''}a dtype nor a Python literal",
            hint=f"write {', '.join([*written, f'{name}=int32'])}, or a value such as {name}=64{other}",
        ) from None


def extents_of(option: str, text: str, kind: str = "integers", most: int = sys.maxsize) -> tuple[int, ...]:
    """Return the extents in an option's value; raise LaunchError unless it is one to `most` integers of at least 0.

    kind: their name in the message.
    """
    try:
        extents = _integers(text)
    except ValueError:
        extents = ()
    if not 0 < len(extents) <= most or min(extents) < 0:
        hint = f"write {option} 8, or {option} 8,4"
        raise LaunchError(f"{option} {cut(text)} is not {kind} with commas between them", hint=hint)
    return extents


def _integers(text: str) -> tuple[int, ...]:
    """Parse integers separated by commas, skipping empty parts. raises: ValueError if any other isn't an integer."""
    return tuple([int(part) for part in text.split(",") if part.strip()])
