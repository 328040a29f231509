"""Run ptxas, if it is installed, for its performance notes. Compilation and launches don't need it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path

from ..register_usage import notes_in

#: seconds after which ptxas is killed
_PATIENCE = 60


def find_ptxas() -> str | None:
    """Return the path of ptxas, from PATH or else from an NVIDIA wheel, or None if there is none."""
    found = shutil.which("ptxas")
    if found:
        return found
    wheels = sorted(Path(sysconfig.get_paths()["purelib"]).glob("nvidia/*/bin/ptxas"))
    return str(wheels[-1]) if wheels else None


def ptxas_notes(ptx: str, target: str) -> tuple[str, ...]:
    """Return ptxas's notes about lost performance; empty if ptxas is missing, fails to start or times out."""
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
    return notes_in(run.stderr + run.stdout)
