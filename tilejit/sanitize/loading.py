"""Files of kernels: PTX as it is, CUDA C++ compiled to PTX, and the kernels in them by readable names."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from ..dataclass import dataclass
from ..errors import LaunchError
from ..simulator import Device, DeviceModule
from ..wording import guessed
from .for_cuda import CudaSourceError, compile_cuda, declared_parameters
from .names import readable
from .schema import ListedKernel, ParameterData

_VERSION = re.compile(r"^\s*\.version\s+\d+\.\d+", re.MULTILINE)
_ANONYMOUS = re.compile(r"^(?:.*_)?param_(\d+)$")
_TEXTS = "write the path of a .ptx or .cu file"


@dataclass(frozen=True, slots=True)
class KernelFile:
    """A file whose kernels can be listed and run.

    source: CUDA C++, or "". instance: the name in the PTX of an instance of a template that was compiled, or "".
    """

    file: str
    ptx: str
    source: str
    module: DeviceModule
    instance: str = ""

    def entry(self, kernel: str) -> str:
        """Return the name in the PTX of the kernel for which the file was loaded.

        raises: LaunchError unless `kernel` names exactly one.
        """
        found = self._matching(kernel)
        if len(found) == 1:
            return found[0]
        if found:
            raise LaunchError(f"{kernel} names several kernels of {self.file}", hint=f"one of: {', '.join(found)}")
        names = [readable(each) for each in self.module.kernels]
        known = f"its kernels are: {', '.join(names)}" if names else "it has none"
        raise LaunchError(f"{self.file} has no kernel {kernel}", hint=guessed(kernel, names, known))

    def _matching(self, kernel: str) -> list[str]:
        """Return the entries with a name: those equal to it, else by readable name, else by the end of that."""
        wanted = _squeezed(kernel)
        tests: tuple[Callable[[str], bool], ...] = (
            lambda entry: entry in (self.instance, kernel),
            lambda entry: _squeezed(readable(entry)) == wanted,
            lambda entry: _squeezed(readable(entry)).endswith(f"::{wanted}"),
            # without the arguments of a template
            lambda entry: f"::{readable(entry).partition('<')[0]}".endswith(f"::{wanted}"),
        )
        found = ([entry for entry in self.module.kernels if test(entry)] for test in tests)
        return next(filter(None, found), [])

    def listed(self, entry: str) -> ListedKernel:
        """Return a kernel's parameters, and the statements that the simulator doesn't support."""
        lines = ["", *self.ptx.splitlines()]
        return {
            "kernel": readable(entry), "entry": entry, "parameters": self._parameters(entry),
            "unsupported": [
                {"line": line, "text": lines[line].strip(), "reason": reason}
                for line, reason in self.module.unsupported(entry)
            ],
        }

    def _parameters(self, entry: str) -> list[ParameterData]:
        parameters = self.module.parameters(entry)
        declared = [(x.name, x.text) for x in declared_parameters(self.source, readable(entry), len(parameters))]
        names = declared or [(_ANONYMOUS.sub(r"parameter \1", x.name), "") for x in parameters]
        return [
            {"name": name, "bytes": x.size_bytes, "offset": x.offset, "declaration": text}
            for x, (name, text) in zip(parameters, names, strict=True)
        ]


def _squeezed(name: str) -> str:
    """Return a name without the spaces around brackets and commas."""
    return re.sub(r"\s*([<>,*&])\s*", r"\1", name)


def load(file: str, arch: str | None, kernel: str | None) -> KernelFile:
    """Read a file, and compile it if it is CUDA C++.

    kernel: the kernel that will be run, which may be an instance of a template; None for all that are instantiated.
    raises: TilejitError if the file is unreadable or doesn't compile; UnsupportedInstructionError if the simulator
        doesn't support its PTX.
    """
    suffix = Path(file).suffix
    if suffix not in (".ptx", ".cu"):
        raise LaunchError(f"{file} is neither PTX nor CUDA C++", hint=_TEXTS)
    text = _text(file)
    if suffix == ".cu":
        ptx, instance = _compiled(file, text, "sm_90" if arch is None else arch, kernel)
        return KernelFile(file, ptx, text, Device().load(ptx), instance)
    if arch is not None:
        raise LaunchError(f"--arch {arch}: PTX is compiled already", hint="leave it out")
    if not _VERSION.search(text):
        raise LaunchError(f"{file} is not PTX: it has no .version directive", hint=_TEXTS)
    return KernelFile(file, text, "", Device().load(text))


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise LaunchError(f"no such file: {file}", hint=_TEXTS) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise LaunchError(f"can't read {file}: {reason}", hint=_TEXTS) from None


def _compiled(file: str, source: str, arch: str, kernel: str | None) -> tuple[str, str]:
    """Return the PTX and, if `kernel` is an instance of a template, its name there, else ""."""
    if kernel is not None and "<" in kernel:
        try:
            ptx, (instance,) = compile_cuda(source, file, arch, [kernel])
            return ptx, instance
        except CudaSourceError:
            # the next call raises it if the source is at fault; else `KernelFile.entry` shows which kernels it has
            pass
    return compile_cuda(source, file, arch)[0], ""
