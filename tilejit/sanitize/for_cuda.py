"""CUDA C++ to PTX by NVRTC, and the parameters of kernels as their source declares them."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import DeviceError, TilejitError
from .standard_headers import HEADERS, INCLUDED, RUNTIME

_ARCH = re.compile(r"(?:sm|compute)_(\d+[af]?)")
#: an error in NVRTC's log: file, line and message
_ERROR = re.compile(r"^(.+?)\((\d+)\): (?:catastrophic |fatal )?error\b(?:\s*#[\w-]+)?: (.*)$", re.MULTILINE)
_NO_NVRTC = "install it with: pip install 'tilejit[cuda]'"
_DEVICE_ONLY = (
    "NVRTC compiles device code only: put host code between #ifndef __CUDACC_RTC__ and #endif, "
    "or compile the file with nvcc -ptx -lineinfo and check the PTX"
)


class CudaSourceError(TilejitError):
    """NVRTC rejects CUDA C++ source. The message contains its log."""


def compile_cuda(source: str, name: str, arch: str = "sm_90", kernels: Sequence[str] = ()) -> tuple[str, list[str]]:
    """Compile CUDA C++ and return PTX with line information, and the names in it of `kernels`.

    name: path of the source, for messages and includes. The folders of the headers of NVIDIA's wheels are searched too.
    kernels: C++ expressions such as `reduce<float, 4>`, which are instantiated.
    raises: CudaSourceError if NVRTC rejects the source; DeviceError for an unknown `arch` or without NVRTC.
    """
    nvrtc = _nvrtc()
    matched = _ARCH.fullmatch(arch)
    known = ", ".join(f"sm_{number}" for number in _called(nvrtc, "GetSupportedArchs"))
    if matched is None:
        raise DeviceError(f"unknown architecture {arch!r}", hint=f"one of {known}")
    folders = [os.path.dirname(name) or ".", *_header_folders()]
    options = [f"--gpu-architecture=compute_{matched[1]}", "--generate-line-info", *(f"-I{x}" for x in folders)]
    options += [f"--pre-include={header}" for header in INCLUDED]
    missing = {x: text for x, text in RUNTIME.items() if not any(Path(folder, x).is_file() for folder in folders)}
    headers = HEADERS | missing
    texts = [[text.encode() for text in column] for column in (headers.values(), headers)]
    program = _called(nvrtc, "CreateProgram", source.encode(), name.encode(), len(headers), *texts)
    try:
        for kernel in kernels:
            _called(nvrtc, "AddNameExpression", program, kernel.encode())
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            log = _text(nvrtc, "ProgramLog", program)
            if "--gpu-architecture" in log:
                raise DeviceError(f"NVRTC does not compile for {arch}", hint=f"one of {known}")
            raise _refusal(name, log or status.name)
        names = [_called(nvrtc, "GetLoweredName", program, kernel.encode()).decode() for kernel in kernels]
        return _text(nvrtc, "PTX", program), names
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _nvrtc() -> Any:
    """Return NVRTC's bindings, whose library is loaded. raises: DeviceError if either isn't installed."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError, OSError) as error:
        raise DeviceError("NVRTC, which compiles CUDA C++, is not installed", hint=_NO_NVRTC) from error
    return nvrtc


def _called(nvrtc: Any, name: str, *args: object) -> Any:
    """Call a function of NVRTC and return its result. raises: DeviceError if it fails."""
    status, *result = getattr(nvrtc, f"nvrtc{name}")(*args)
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise DeviceError(f"nvrtc{name} failed: {status.name}", hint="check the installation of NVRTC")
    return result[0] if result else None


def _text(nvrtc: Any, what: str, program: object) -> str:
    text = b" " * _called(nvrtc, f"Get{what}Size", program)
    _called(nvrtc, f"Get{what}", program, text)
    return str(text.rstrip(b"\0 "), "utf-8", "replace")


def _refusal(name: str, log: str) -> CudaSourceError:
    found = _ERROR.search(log)
    where = f" at {found[1]}:{found[2]}: {found[3]}" if found else ""
    is_host = "host" in log or "cannot open source file" in log
    hint = _DEVICE_ONLY if is_host else "correct the source, or compile the file to PTX and check that"
    return CudaSourceError(f"{name} does not compile{where}\n{log.strip()}", hint=hint)


def _header_folders() -> list[str]:
    """Return the folders of headers that NVIDIA's wheels installed."""
    spec = importlib.util.find_spec("nvidia")
    roots = list(spec.submodule_search_locations or ()) if spec is not None else []
    includes = [path for root in roots for path in sorted(Path(root).glob("*/include"))]
    return [str(path) for include in includes for path in (include, include / "cccl") if path.is_dir()]


class Declaration(NamedTuple):
    """A parameter as the source declares it."""

    name: str
    text: str


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_BOUNDS = re.compile(r"__launch_bounds__\s*\([^()]*(?:\([^()]*\)[^()]*)*\)|__cluster_dims__\s*\([^()]*\)")
_NAME = re.compile(r"([A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)*(?:=.*)?$", re.DOTALL)


def declared_parameters(source: str, kernel: str, count: int) -> tuple[Declaration, ...]:
    """Return the parameters that the source of `kernel` declares, or () unless their names are certain.

    They are uncertain if several kernels have the name and `count` parameters. kernel: the readable name. Macros and
    included files are not expanded.
    """
    name = re.escape(re.sub(r"<.*", "", kernel).rpartition("::")[2])
    text = _BOUNDS.sub(" ", _COMMENT.sub(" ", source))
    # a macro may contain __global__
    for start in (rf"__global__\b[^;{{}}()]*\b{name}\s*\(", rf"^\s*[A-Z]\w*\s+{name}\s*\("):
        lists = [_declarations(text, match.end()) for match in re.finditer(start, text, re.MULTILINE)]
        # by names, because a declaration and the definition may differ otherwise
        found = {tuple(each.name for each in declared): declared for declared in lists if len(declared) == count}
        if len(found) == 1:
            return next(iter(found.values()))
    return ()


def _declarations(text: str, start: int) -> tuple[Declaration, ...]:
    """Return the declarations in a list of parameters, or () if it has no end or one of them has no name.

    start: the index after its opening parenthesis.
    """
    found: list[Declaration] = []
    depth, begin = 0, start
    for index in range(start, len(text)):
        letter = text[index]
        if depth == 0 and letter in ",)":
            part = text[begin:index].strip()
            named = _NAME.search(part)
            if named is None:
                return ()
            found.append(Declaration(named[1], " ".join(part.split())))
            if letter == ")":
                return tuple(found)
            begin = index + 1
        depth += (letter in "([{<") - (letter in ")]}>")
    return ()
