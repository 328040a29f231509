"""Runs a kernel of a file on the simulator, once per thread order, or lists the kernels."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence

import numpy as np

from ..errors import LaunchError, SimulationError, UnsupportedInstructionError
from ..simulator import Device, Report
from ..wording import counted
from .arguments import described, fitting
from .loading import KernelFile, load
from .report import Result
from .schema import VERSION, ListedKernel, Listing, UnsupportedData

# source: CUDA Programming Guide, "Technical Specifications per Compute Capability"
_LIMITS = {"--grid": (2**31 - 1, 65535, 65535), "--block": (1024, 1024, 64)}


def listing(file: str, arch: str | None, version: str) -> Listing:
    """Return the kernels of a file as plain data. version: that of tilejit. raises: TilejitError for bad input."""
    kernels: list[ListedKernel] = []
    errors = []
    try:
        loaded = load(file, arch, None)
        kernels = [loaded.listed(entry) for entry in loaded.module.kernels]
    except UnsupportedInstructionError as error:
        errors = [error.message]
    is_clean = not errors and not any(kernel["unsupported"] for kernel in kernels)
    return {
        "version": VERSION, "tilejit": version, "file": file, "verdict": "clean" if is_clean else "incomplete",
        "kernels": kernels, "errors": errors,
    }


def as_text(data: Listing) -> Iterator[str]:
    """Yield a line per kernel, parameter and unsupported instruction, then the number of kernels."""
    for kernel in data["kernels"]:
        alias = "" if kernel["entry"] == kernel["kernel"] else f", in the PTX {kernel['entry']}"
        yield f"{kernel['kernel']}{alias}"
        yield from (f"  argument {i}: {described(parameter)}" for i, parameter in enumerate(kernel["parameters"]))
        yield from (f"  unsupported: {_located(problem)}" for problem in kernel["unsupported"])
    yield from (f"{data['file']} is not supported: {error}" for error in data["errors"])
    able = sum(not kernel["unsupported"] for kernel in data["kernels"])
    yield f"{counted(len(data['kernels']), 'kernel')}, {able} supported"


def _located(problem: UnsupportedData) -> str:
    where = f"PTX line {problem['line']}: {problem['text']}: " if problem["line"] else ""
    return where + problem["reason"]


def checked(
    file: str, kernel: str, arch: str | None, grid: str | None, block: str | None, arguments: Sequence[str],
    shared: str, schedules: str, checks: str, seed: str,
) -> Result:
    """Run a kernel with each schedule on equal arguments. The parameters are the options of the command.

    A kernel that the simulator doesn't support, or fails to run, gives a result with errors.
    raises: TilejitError for bad input.
    """
    try:
        loaded = load(file, arch, kernel)
    except UnsupportedInstructionError as error:
        return Result(kernel, file, (), errors=(error.message,))
    extents = _extents("--grid", grid), _extents("--block", block)
    shared_bytes, runs = _number("--shared", shared), range(_number("--schedules", schedules, 1))
    random_seed = _number("--seed", seed)
    listed = loaded.listed(loaded.entry(kernel))
    parameters = listed["parameters"]
    written = fitting(listed["kernel"], parameters, arguments)
    if listed["unsupported"]:
        return Result(listed["entry"], file, (), errors=(_refusal(loaded, listed),))

    def launch(schedule: int) -> Report:
        device = Device()
        values: list[object] = []
        for position, (argument, parameter) in enumerate(zip(written, parameters, strict=True)):
            value = argument.make(random_seed, position)
            if isinstance(value, np.ndarray):
                name = argument.name or parameter["name"]
                values.append(device.place(value, initialized=argument.kind != "output", name=name))
            else:
                values.append(value)
        return device.load(loaded.ptx).launch(
            listed["entry"], *extents, values, shared_bytes=shared_bytes, on_finding="collect", schedule=schedule,
            checks="strict" if checks == "strict" else True, write=sys.stderr.write,
        )

    reports: list[Report] = []
    errors = []
    try:
        for schedule in runs:
            reports.append(launch(schedule))
    except LaunchError:
        raise
    except SimulationError as error:
        errors = [error.message]
    except Exception as error:
        # a fault of the simulator, which the user must not take for one of the kernel
        errors = [f"the simulator failed with {type(error).__name__}: {error}; this is a fault of tilejit"]
    return Result(listed["entry"], file, tuple(reports), tuple(runs), tuple(errors))


def _refusal(loaded: KernelFile, refused: ListedKernel) -> str:
    lines = "".join(f"\n  {_located(problem)}" for problem in refused["unsupported"])
    kernels = [loaded.listed(entry) for entry in loaded.module.kernels]
    others = ", ".join(kernel["kernel"] for kernel in kernels if not kernel["unsupported"]) or "none"
    return f"the simulator does not support it:{lines}\n  kernels of {loaded.file} that are supported: {others}"


def _extents(option: str, text: str | None) -> tuple[int, ...]:
    hint = f"write {option} 8, or {option} 8,4 or {option} 8,4,2"
    if text is None:
        raise LaunchError(f"{option} is missing", hint=hint)
    if re.fullmatch(r" *\d+ *(, *\d+ *){0,2}", text, re.ASCII) is None:
        raise LaunchError(f"{option} {text} is not one to three integers with commas between them", hint=hint)
    extents = tuple(map(int, text.split(",")))
    if min(extents) < 1:
        raise LaunchError(f"{option} {text} has an extent of 0", hint=hint)
    limits = _LIMITS[option]
    if any(extent > limit for extent, limit in zip(extents, limits, strict=False)):
        raise LaunchError(f"{option} {text} exceeds the limits of CUDA, {limits}", hint=hint)
    return extents


def _number(option: str, text: str, least: int = 0) -> int:
    if not (text.isascii() and text.isdigit()) or not least <= int(text) < 1 << 31:
        raise LaunchError(f"{option} {text} is not an integer of at least {least}", hint=f"write {option} {least}")
    return int(text)
