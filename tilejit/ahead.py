"""Compiled kernels loaded from files that `Compiled.save` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .compiled import Compiled, Derivation
from .dataclass import replace
from .errors import LaunchError, TilejitError, assert_never, entry_point
from .executable import Executable
from .executable.encoding import saved
from .executable.files import SUFFIXES, read_executable
from .frontend import Parameter, ParameterKind
from .frontend.language import Spec
from .ir.types import ArgumentType, ArrayType, ConstexprType, ContainerType, ScalarType
from .launches import Launchable, Options
from .runtime import devices
from .runtime.captured import CapturedValues
from .runtime.signature import describe_one, freeze, signature
from .runtime.variant_builder import Compiler
from .runtime.variants import Request
from .wording import counted

_NOTHING_CAPTURED = CapturedValues(0, (), (), True)


@entry_point
def load_compiled(path: str | Path) -> CompiledKernel:
    """Load a kernel that `Compiled.save` wrote. A launch of it, `k[grid](*args)`, doesn't run tilejit's compiler.

    PTX is code: load only files that you trust.

    path: a .ptx or .cubin file.
    raises: LaunchError for another path, or if the file can't be read, contains no kernel in this version's format, or
    was modified after it was saved.
    Example:
        import os
        import tempfile

        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            A[tj.thread_id()] = 1

        a = np.zeros(32, np.float32)
        path = os.path.join(tempfile.mkdtemp(), "k.ptx")
        k.compile(a, target="sm_90a").save(path)
        tj.load_compiled(path)[1](a)
        assert (a == 1).all()
    """
    if not isinstance(path, (str, Path)) or Path(path).suffix not in SUFFIXES:
        hint = f"pass a str or Path that ends in {' or '.join(SUFFIXES)}"
        raise LaunchError(f"{path!r} is not the path of a compiled kernel", hint=hint)
    return CompiledKernel(read_executable(Path(path)), Path(path))


class CompiledKernel(Launchable):
    """A kernel that was compiled for one signature and loaded from a file; `k[grid](*args)` launches it.

    Compile-time arguments may be omitted; if passed, they must equal the values that the kernel was compiled for. A
    container is passed as a container of a class of the same name.

    Example:
        import os
        import tempfile

        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            A[tj.thread_id()] = 1

        a = np.zeros(32, np.float32)
        path = os.path.join(tempfile.mkdtemp(), "k.ptx")
        k.compile(a, target="sm_90a").save(path)
        loaded: tj.CompiledKernel = tj.load_compiled(path)
        loaded[1](a)
    """

    def __init__(self, executable: Executable, path: Path) -> None:
        e = executable
        self.path = path
        parameters = tuple(e.signature.fold(_parameter))
        options = Options(e.threads, e.target, cluster=e.cluster, cooperative=e.cooperative)
        super().__init__(e.name, parameters, options)
        self.compiled = Compiled(e, {}, self._underived, assemble=devices.machine_code)
        self._written = frozenset(e.written.values())

    def __repr__(self) -> str:
        return f"<kernel {self.name}({', '.join(p.name for p in self.parameters)}) from {self.path}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the kernel as the path of its file."""
        return load_compiled, (self.path.absolute(),)

    def capture(self) -> CapturedValues:
        """Return no values: the values that the kernel captured are constants in its code."""
        return _NOTHING_CAPTURED

    def compiled_for(self, request: Request, compiler: Compiler | None) -> tuple[Compiled, int]:
        """Return the kernel and `capture().number`; raise LaunchError if the threads or arguments don't fit it."""
        threads, call = request.threads, request.call
        if threads != self.options.threads:
            raise LaunchError(
                f"{self.name} was compiled for {counted(self.options.threads, 'thread')} per CTA; got {threads}",
                hint="launch it with that number, or compile and save the kernel for the new number",
            )
        pairs = [pair for pair in call.overlaps if not self._written.isdisjoint(pair)]
        typed = signature(call, self.compiled.target, pairs)
        # where a container differs, its items have no counterparts, so it is reported first
        for (name, compiled), (_, actual) in zip(self.compiled.signature.arguments, typed.arguments, strict=False):
            if not _fits(name, compiled, actual):
                raise LaunchError(
                    f"{self.name} was compiled for {describe_one(name, compiled)}; got {describe_one(name, actual)}",
                    hint="pass such an argument, or compile and save the kernel for this one",
                )
        return self.compiled, _NOTHING_CAPTURED.number

    def _underived(self) -> Derivation:
        raise TilejitError(
            f"{self.name} was loaded from {self.path}, which has no record of its compilation",
            hint="compile the original kernel again and query the result",
        )


def _parameter(name: str, kind: ArgumentType, items: list[Parameter]) -> Parameter:
    match kind:
        case ArrayType(shape=shape, strides=strides):
            spec = None if shape is None or strides is None else Spec(shape, kind.dtype, strides)
            return Parameter(name, ParameterKind.ARRAY, None, spec)
        case ScalarType(dtype=dtype):
            return Parameter(name, ParameterKind.SCALAR, dtype)
        case ConstexprType(value=value):
            return Parameter(name, ParameterKind.CONSTEXPR, None, None, value)
        case ContainerType():
            return Parameter(name, ParameterKind.CONTAINER, items=tuple(items))
        case _:
            return assert_never(kind)


def _fits(name: str, compiled: ArgumentType, actual: ArgumentType) -> bool:
    """True if code for an argument of type `compiled` accepts an argument of type `actual`."""
    if isinstance(compiled, ConstexprType) and isinstance(actual, ConstexprType):
        return bool(freeze(compiled.value, name) == freeze(saved(actual.value), name))
    if not isinstance(compiled, ArrayType) or not isinstance(actual, ArrayType):
        return compiled == actual
    if compiled.align > actual.align or compiled.extent_align > actual.extent_align:
        return False
    if actual.overlaps and not compiled.overlaps:
        return False
    assumed = replace(actual, align=compiled.align, extent_align=compiled.extent_align, overlaps=compiled.overlaps)
    return compiled == assumed
