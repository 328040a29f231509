"""ptxas, where there is one: the assembler's word on emitted PTX."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import pytest

from tilejit import pipeline
from tilejit.codegen import Generated
from tilejit.ir.nodes import Kernel
from tilejit.target import Target

CACHE = Path(tempfile.gettempdir()) / f"tilejit-ptxas-{os.getuid()}"


@lru_cache(maxsize=1)
def ptxas_path() -> Path | None:
    """ptxas of the nvidia-cuda-nvcc wheel, else the one on PATH, else None."""
    wheel = Path(sysconfig.get_paths()["purelib"]) / "nvidia" / "cu13" / "bin" / "ptxas"
    if wheel.exists():
        return wheel
    found = shutil.which("ptxas")
    return Path(found) if found else None


def ptxas_accepts(ptx: str, target: str) -> None:
    """Fails with ptxas's words where it refuses `ptx` for `target`; skips the test where there is no ptxas."""
    if ptxas_path() is None:
        pytest.skip("no ptxas: install nvidia-cuda-nvcc")
    complaint = complaint_of(ptx, target)
    assert complaint is None, f"ptxas -arch={target}:\n{complaint}\n{_numbered(ptx)}"


def complaint_of(ptx: str, target: str) -> str | None:
    """What ptxas says against `ptx`, or None. Acceptance is remembered by content."""
    ptxas = ptxas_path()
    if ptxas is None:
        return None
    seen = CACHE / hashlib.sha256(f"{ptxas}\n{target}\n{ptx}".encode()).hexdigest()
    if seen.exists():
        return None
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(ptx)
        done = subprocess.run(
            [str(ptxas), f"-arch={target}", "-o", os.devnull, str(source)], capture_output=True, text=True, check=False
        )
    if done.returncode != 0:
        return done.stderr + done.stdout
    CACHE.mkdir(exist_ok=True)
    seen.touch()
    return None


def local_memory_of(ptx: str, target: str) -> tuple[int, int]:
    """(bytes of a thread's stack frame, bytes of spilled stores) of one kernel; skips where there is no ptxas."""
    ptxas = ptxas_path()
    if ptxas is None:
        pytest.skip("no ptxas: install nvidia-cuda-nvcc")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(ptx)
        command = [str(ptxas), f"-arch={target}", "-v", "-o", os.devnull, str(source)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    (counts,) = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores", said)
    return int(counts[0]), int(counts[1])


def complaints(programs: Iterable[tuple[str, str, str]], workers: int = 4) -> list[str]:
    """Each refusal among (ptx, target, name)s, checked a few at a time."""
    listed = list(programs)
    with ThreadPoolExecutor(workers) as pool:
        found = list(pool.map(lambda p: complaint_of(p[0], p[1]), listed))
    return [f"{name} ({target}): {c}" for (_, target, name), c in zip(listed, found, strict=True) if c is not None]


class EmittedPtx:
    """PTX that tests emitted, for one check at the end."""

    def __init__(self) -> None:
        self.programs: dict[tuple[str, str], str] = {}

    def add(self, ptx: str, target: str, name: str) -> None:
        """Remembers one program; `name` says where it came from."""
        self.programs.setdefault((ptx, target), name)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Remembers what the pipeline generates meanwhile, by the test that runs."""
        original = pipeline.generate

        def generate(kernel: Kernel, target: Target) -> Generated:
            made = original(kernel, target)
            self.add(made.ptx, target.name, os.environ.get("PYTEST_CURRENT_TEST", "no test").rsplit(" ", 1)[0])
            return made

        pipeline.generate = generate
        try:
            yield
        finally:
            pipeline.generate = original

    def check(self) -> None:
        """Fails with every refusal."""
        refused = complaints((ptx, target, name) for (ptx, target), name in self.programs.items())
        assert not refused, "\n".join(refused)


def _numbered(ptx: str) -> str:
    return "\n".join(f"{n:4} {line}" for n, line in enumerate(ptx.splitlines(), 1))
