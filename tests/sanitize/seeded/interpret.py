"""Run Triton programs, or what a seeded bug makes of them, by Triton's interpreter on CPU tensors.

`python -m tests.sanitize.seeded.interpret [NAME ...]` prints the outcome of each program and of each bug, or only of
the bugs with these names: "silent", "wrong result" (an assertion of the program fails), "crash" (another exception, or
a signal), or "hang" (it doesn't end within 60 s). The last line of the error output follows; a reader judges whether it
names the mistake.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from .bugs import FOLDER, TRITON, changed

SECONDS = 60


def outcome(text: str, folder: Path) -> str:
    """Return the outcome of a program and the last line of its error output."""
    program = folder / "program.py"
    program.write_text(text.replace('"cuda"', '"cpu"'), encoding="utf-8")
    command = [sys.executable, str(program)]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    try:
        run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return "hang"
    if run.returncode == 0:
        return "silent"
    if run.returncode < 0:
        return f"crash: signal {-run.returncode}"
    last = run.stderr.strip().rpartition("\n")[2]
    return f"wrong result: {last}" if "\nAssertionError" in run.stderr else f"crash: {last}"


def main(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        if not names:
            for path in sorted(FOLDER.glob("triton/*.py")):
                print(f"{path.name}: {outcome(path.read_text(encoding='utf-8'), Path(folder))}", flush=True)
        for bug in TRITON:
            if not names or bug.name in names:
                print(f"{bug.name}: {outcome(changed(bug), Path(folder))}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
