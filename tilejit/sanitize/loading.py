"""Files of kernels: PTX as it is, CUDA C++ compiled to PTX, and the kernels in them by readable names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ..dataclass import dataclass
from ..errors import LaunchError, UnsupportedInstructionError
from ..simulator import Device, DeviceModule
from ..wording import guessed
from .for_cuda import CudaSourceError, compile_cuda, declared_parameters
from .names import readable
from .schema import ParameterData, UnsupportedData

_VERSION = re.compile(r"^\s*\.version\s+\d+\.\d+", re.MULTILINE)
_ANONYMOUS = re.compile(r"(?:^|_)param_(\d+)$")
_DEFAULT_ARCH = "sm_90"
_TEXTS = "write the path of a .ptx or .cu file"


@dataclass(frozen=True, slots=True)
class KernelFile:
    """A file whose kernels can be listed and run.

    source: CUDA C++, or "". refusal: why the PTX as a whole is unsupported, or "".
    """

    file: str
    ptx: str
    source: str
    module: DeviceModule | None
    refusal: str

    @property
    def kernels(self) -> tuple[str, ...]:
        return self.module.kernels if self.module is not None else ()

    def entry(self, kernel: str) -> str:
        """Return the name in the PTX of a kernel. raises: LaunchError unless `kernel` names exactly one."""
        found = _matching(kernel, self.kernels)
        if len(found) == 1:
            return found[0]
        names = [readable(each) for each in self.kernels]
        if found:
            raise LaunchError(f"{kernel} names several kernels of {self.file}", hint=f"one of: {', '.join(found)}")
        known = f"its kernels are: {', '.join(names)}" if names else "it has none"
        raise LaunchError(f"{self.file} has no kernel {kernel}", hint=guessed(kernel, names, known))

    def parameters(self, entry: str) -> list[ParameterData]:
        found = self._module.parameters(entry)
        declared = declared_parameters(self.source, readable(entry), len(found))
        result: list[ParameterData] = []
        for index, parameter in enumerate(found):
            anonymous = _ANONYMOUS.search(parameter.name)
            name, text = f"parameter {anonymous[1]}" if anonymous else parameter.name, ""
            if declared:
                name, text = declared[index].name, declared[index].text
            size, offset = parameter.size_bytes, parameter.offset
            result.append({"name": name, "bytes": size, "offset": offset, "declaration": text})
        return result

    def unsupported(self, entry: str) -> list[UnsupportedData]:
        """Return the statements of a kernel that the simulator doesn't support."""
        lines = self.ptx.splitlines()
        return [
            {"line": line, "text": lines[line - 1].strip() if line else "", "reason": reason}
            for line, reason in self._module.unsupported(entry)
        ]

    @property
    def _module(self) -> DeviceModule:
        assert self.module is not None, "a refused file has no kernels"
        return self.module


def _matching(kernel: str, entries: Sequence[str]) -> list[str]:
    """Return the entries with a name: those equal to it, else by readable name, else by the end of that."""
    wanted = re.sub(r"\s*([<>,*&])\s*", r"\1", kernel)
    names = {entry: re.sub(r"\s*([<>,*&])\s*", r"\1", readable(entry)) for entry in entries}
    plain = {entry: re.sub(r"<.*", "", name) for entry, name in names.items()}
    for found in (
        [entry for entry in entries if entry == kernel],
        [entry for entry in entries if names[entry] == wanted],
        [entry for entry in entries if names[entry].endswith(f"::{wanted}")],
        [entry for entry in entries if wanted in (plain[entry], plain[entry].rpartition("::")[2])],
    ):
        if found:
            return found
    return []


def load(file: str, arch: str | None, kernel: str | None) -> KernelFile:
    """Read a file, and compile it if it is CUDA C++. raises: TilejitError if it is unreadable or doesn't compile.

    kernel: the kernel that will be run, which may be an instance of a template; None for all that are instantiated.
    """
    suffix = Path(file).suffix
    if suffix not in (".ptx", ".cu"):
        raise LaunchError(f"{file} is neither PTX nor CUDA C++", hint=_TEXTS)
    text = _text(file)
    if suffix == ".cu":
        return _compiled(file, text, _DEFAULT_ARCH if arch is None else arch, kernel)
    if arch is not None:
        raise LaunchError(f"--arch {arch}: PTX is compiled already", hint="leave it out")
    if not _VERSION.search(text):
        raise LaunchError(f"{file} is not PTX: it has no .version directive", hint=_TEXTS)
    return _loaded(file, text, "")


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise LaunchError(f"no such file: {file}", hint=_TEXTS) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise LaunchError(f"can't read {file}: {reason}", hint=_TEXTS) from None


def _compiled(file: str, source: str, arch: str, kernel: str | None) -> KernelFile:
    if kernel is not None and "<" in kernel:
        try:
            # instantiates a template
            return _loaded(file, compile_cuda(source, file, arch, [kernel])[0], source)
        except CudaSourceError:
            # the next call raises it if the source is at fault; else `KernelFile.entry` shows which kernels it has
            pass
    return _loaded(file, compile_cuda(source, file, arch)[0], source)


def _loaded(file: str, ptx: str, source: str) -> KernelFile:
    try:
        return KernelFile(file, ptx, source, Device().load(ptx), "")
    except UnsupportedInstructionError as error:
        return KernelFile(file, ptx, source, None, error.message)

