"""Correct kernels as text with labelled lines, ways to break them, and what the simulator must then say."""

from __future__ import annotations

import linecache
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

import tilejit as tj
from tilejit.runtime.device import Launch
from tilejit.runtime.signature import Call
from tilejit.runtime.simulated import SimulatedFunction

HEADER = "import tilejit as tj\nfrom tilejit import S, tx\n"

WHO = r"thread \d+ \(warp \d+, lane \d+\) of CTA \(\d+, \d+, \d+\)"


@dataclass(frozen=True)
class Program:
    """Source of a kernel `k`; a line that a test names ends in `# name`.

    run: launches it on arrays of a size and compares with NumPy. sizes: for which it is correct.
    """

    text: str
    run: Callable[[tj.Kernel, int], None]
    sizes: Sequence[int]

    def kernel(self) -> tj.Kernel:
        source = HEADER + self.text
        linecache.cache[self.file] = (len(source), None, source.splitlines(True), self.file)
        namespace: dict[str, object] = {}
        exec(compile(source, self.file, "exec"), namespace)
        return namespace["k"]

    @property
    def file(self) -> str:
        return f"<program {zlib.crc32(self.text.encode())}>"

    def line(self, label: str) -> int:
        """The number of the line with a label."""
        (found,) = [n for n, line in enumerate((HEADER + self.text).split("\n"), 1) if line.endswith(f"# {label}")]
        return found

    def replaced(self, *edits: tuple[str, str]) -> Program:
        """With each old text, which must occur once, replaced by the new one."""
        text = self.text
        for old, new in edits:
            assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times in\n{text}"
            text = text.replace(old, new)
        return replace(self, text=text)

    def without(self, label: str) -> Program:
        """With the labelled statement replaced by `pass`, so that the other lines keep their numbers."""
        lines = self.text.split("\n")
        (at,) = [n for n, line in enumerate(lines) if line.endswith(f"# {label}")]
        indent = len(lines[at]) - len(lines[at].lstrip())
        lines[at] = " " * indent + "pass"
        return replace(self, text="\n".join(lines))


def reports(program: Program, kind: type[tj.SimulationError], labels: Sequence[str], size: int | None = None) -> str:
    """Assert that a broken program is reported with a thread, its CTA and the labelled lines; returns the message."""
    with pytest.raises(tj.SimulationError) as caught:
        program.run(program.kernel(), program.sizes[-1] if size is None else size)
    error = caught.value
    names_lines(error, kind, program.file, {program.line(label) for label in labels})
    return error.message


def names_lines(error: tj.SimulationError, kind: type[tj.SimulationError], file: str, lines: set[int]) -> None:
    assert type(error) is kind, error
    assert re.search(WHO, error.message), error
    named = {int(n) for n in re.findall(re.escape(file) + r":(\d+)", str(error))}
    assert named == lines, f"{named} are named, not {lines}:\n{error}"
    assert error.span is not None and error.span.line in lines, error


def run_edited(
    kernel: tj.Kernel, edit: Callable[[str], str], grid: int, args: Sequence[np.ndarray], threads: int
) -> None:
    """Run what `kernel` compiles to for these arrays, with its PTX edited."""
    compiled = kernel.compile(*args)
    edited = edit(compiled.ptx)
    assert edited != compiled.ptx
    call = Call(kernel.parameters, list(args))
    launch = Launch((grid, 1, 1), threads)
    changed = replace(compiled, executable=replace(compiled.executable, ptx=edited))
    SimulatedFunction(changed).simulate(launch, call.arguments, checks=True)
