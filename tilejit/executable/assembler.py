"""Performance notes of the driver's compiler or of ptxas, if that is installed; ptxas is used for nothing else."""

from __future__ import annotations

import os
import re
from pathlib import Path

#: seconds after which ptxas is killed
_PATIENCE = 60

# codes of ptxas's advisories on performance: waits and copies that it added, or instructions that it ignored
_IS_NOTE = re.compile(r"\(C75\d\d\)")

_SPILLS = re.compile(r"[1-9]\d* bytes spill stores, \d+ bytes spill loads")


def notes_in(output: str) -> tuple[str, ...]:
    """Return the distinct lines of the compiler's output that contain an advisory on performance."""
    return tuple(dict.fromkeys(line.strip() for line in output.splitlines() if _IS_NOTE.search(line)))


def find_ptxas() -> str | None:
    """Return the path of ptxas, from PATH or else from an NVIDIA wheel, or None if there is none."""
    import shutil
    import sysconfig

    found = shutil.which("ptxas")
    if found:
        return found
    wheels = sorted(Path(sysconfig.get_paths()["purelib"]).glob("nvidia/*/bin/ptxas"))
    return str(wheels[-1]) if wheels else None


def ptxas_notes(ptx: str, target: str) -> tuple[str, ...]:
    """Return ptxas's notes about lost performance and its spills; () if it has none, is missing, fails or times out."""
    # imported here because `cuda_driver` imports this module, and most processes never run ptxas
    import subprocess
    import tempfile

    ptxas = find_ptxas()
    if ptxas is None:
        return ()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(ptx)
        command = [ptxas, f"-arch={target}", "-v", str(source), "-o", os.path.join(folder, "kernel.cubin")]
        try:
            run = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_PATIENCE)
        except (OSError, subprocess.TimeoutExpired):
            return ()
    output = run.stderr + run.stdout
    return (*notes_in(output), *(f"ptxas: {spills}" for spills in _SPILLS.findall(output)))
