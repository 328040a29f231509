"""`python -m tilejit doctor` and `simulator`: reports on the installation, and on the simulator's instructions."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from importlib import metadata

from ..errors import DeviceError, LaunchError
from ..isa import ROWS
from ..runtime import devices, store
from ..runtime.device import checks_wanted
from .schema import VERSIONS, CacheData, DoctorDocument, InstructionDocument, formatted

_PACKAGES = ("tilejit", "numpy", "ml_dtypes", "llvmlite", "cuda-bindings", "cuda-core", "platformdirs")

READ_ONLY = ", which is not writable: new kernels are not cached"

_OPCODE = re.compile(r"(?:^|[;{])\s*(?:@\S+\s+)?([a-z]\w*)([.\w:]*)")


def doctor(style: str) -> Iterator[str]:
    """Return the lines of a report on the installation and on the device that launches use by default."""
    from ..codegen.target_machine import llvm_problem

    gpus = devices.gpus()
    device = target = None
    try:
        used = devices.default()
    except DeviceError as error:
        reason = str(error)
    else:
        device, target, reason = used.name, str(used.target), devices.reason()
    data: DoctorDocument = {
        **VERSIONS, "python": platform.python_version(), "platform": platform.platform(),
        "packages": [{"name": name, "installed": _installed(name)} for name in _PACKAGES],
        "compiler_problem": llvm_problem(), "gpus": gpus, "gpu_problem": None if gpus else devices.cuda_problem(),
        "checks": _checks(), "cache": _cache(), "device": device, "target": target, "reason": reason,
    }
    return formatted(style, data, _installation(data))


def _installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _checks() -> str:
    try:
        return "on" if checks_wanted() else "off (TILEJIT_SIM_CHECKS=0)"
    except LaunchError as error:
        return f"undetermined: {error.message}"


def _cache() -> CacheData:
    asked = store.asked()
    if asked.store is None or asked.unused is not None:
        return {"folder": None, "is_writable": False, "problem": asked.unused}
    return {"folder": str(asked.store.folder), "is_writable": asked.store.is_writable, "problem": asked.problem}


def _installation(data: DoctorDocument) -> Iterator[str]:
    yield f"python         {data['python']} on {data['platform']}"
    for package in data["packages"]:
        yield f"{package['name']:<14} {package['installed'] or 'not installed'}"
    if data["compiler_problem"] is not None:
        yield f"compiler       unusable: {data['compiler_problem']}"
    first, *others = data["gpus"] or [f"none: {data['gpu_problem']}"]
    yield f"GPUs           {first}"
    yield from (f"               {gpu}" for gpu in others)
    yield f"simulator      checks are {data['checks']}"
    cache = data["cache"]
    if cache["folder"] is None:
        yield f"kernels        not cached on disk: {cache['problem']}"
    else:
        yield f"kernels        cached in {cache['folder']}{'' if cache['is_writable'] else READ_ONLY}"
        if cache["problem"] is not None:
            yield f"               {cache['problem']}"
    used = f"{data['device']}, compiling for {data['target']}, because" if data["device"] else "no device:"
    yield f"will be used   {used} {data['reason']}"


def simulator(style: str = "text") -> Iterator[str]:
    """Return the lines of the simulator's instruction table, then the emitted instructions that it doesn't support."""
    # takes 0.2 s to import
    from ..simulator.instructions import HEADER, instruction_rows, instruction_table, unknown_instructions

    emitted = [found for row in ROWS.values() for found in _OPCODE.findall(row.text)]
    data: InstructionDocument = {
        **VERSIONS, "notation": HEADER,
        "instructions": [
            {
                "topic": topic, "opcodes": list(row.opcodes), "modifiers": row.modifiers,
                "fidelity": row.fidelity.kind, "note": row.fidelity.how, "is_checked_for_races": row.fidelity.races,
            }
            for topic, rows in instruction_rows().items()
            for row in rows
        ],
        "unknown": unknown_instructions(emitted),
    }
    return formatted(style, data, instruction_table(emitted))
