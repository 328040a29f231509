"""The kernels of a file, with their parameters and the instructions that the simulator doesn't support."""

from __future__ import annotations

from collections.abc import Iterator

from ..wording import counted
from .loading import KernelFile
from .names import readable
from .schema import VERSION, ListedKernel, Listing, UnsupportedData


def listing(loaded: KernelFile, version: str) -> Listing:
    """Return the kernels of a file as plain data. version: that of tilejit."""
    kernels = [_listed(loaded, entry) for entry in loaded.kernels]
    is_clean = not loaded.refusal and not any(kernel["unsupported"] for kernel in kernels)
    return {
        "version": VERSION, "tilejit": version, "file": loaded.file, "verdict": "clean" if is_clean else "incomplete",
        "kernels": kernels, "errors": [loaded.refusal] if loaded.refusal else [],
    }


def _listed(loaded: KernelFile, entry: str) -> ListedKernel:
    return {
        "kernel": readable(entry), "entry": entry, "parameters": loaded.parameters(entry),
        "unsupported": loaded.unsupported(entry),
    }


def supported(loaded: KernelFile) -> list[str]:
    """Return the readable names of the kernels that the simulator supports."""
    return [readable(entry) for entry in loaded.kernels if not loaded.unsupported(entry)]


def located(problem: UnsupportedData) -> str:
    """Return the reason for which an instruction is unsupported, after its PTX line."""
    where = f"PTX line {problem['line']}: {problem['text']}: " if problem["line"] else ""
    return where + problem["reason"]


def as_text(data: Listing) -> Iterator[str]:
    """Yield a line per kernel, parameter and unsupported instruction, then the number of kernels."""
    for kernel in data["kernels"]:
        alias = "" if kernel["entry"] == kernel["kernel"] else f", in the PTX {kernel['entry']}"
        yield f"{kernel['kernel']}{alias}"
        for position, parameter in enumerate(kernel["parameters"]):
            name = parameter["declaration"] or parameter["name"]
            yield f"  argument {position}: {name}, {counted(parameter['bytes'], 'byte')}"
        for problem in kernel["unsupported"]:
            yield f"  unsupported: {located(problem)}"
    yield from (f"{data['file']} is not supported: {error}" for error in data["errors"])
    able = sum(not kernel["unsupported"] for kernel in data["kernels"])
    yield f"{counted(len(data['kernels']), 'kernel')}, {able} supported"
