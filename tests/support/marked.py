"""Kernels from marked text: the place that an error must point at is between « and »."""

from __future__ import annotations

import itertools
import linecache
from dataclasses import dataclass

import pytest

import tilejit as tj

HEADER = """\
import math
from collections import deque
import numpy as np
import tilejit as tj
from tilejit import R, S, TileLayout, laneid, tid_in_wg, tx, warpid

LANES = S[(32, 8) : (1 @ laneid, 1)]
THREADS = S[(64, 4) : (1 @ tx, 1)]
WORDS = ["a", "b"]
QUEUE = deque(WORDS)
WEIGHTS = np.ones(3)

def plain(x):
    return x

@tj.function
def helper(x):
    return x + 1

@tj.function
def recursive(x):
    return recursive(x)
"""

_numbers = itertools.count()


@dataclass(frozen=True)
class Marked:
    """Source text without its mark, and where that was, if on one line: 1-based line, 0-based columns."""

    text: str
    line: int = 0
    column: int = 0
    end_column: int = 0

    @staticmethod
    def of(text: str) -> Marked:
        if "«" not in text:
            return Marked(text)
        before, rest = text.split("«")
        inside, after = rest.split("»")
        column = len(before) - before.rfind("\n") - 1
        return Marked(before + inside + after, before.count("\n") + 1, column, column + len(inside))


def execute(text: str, header: str = HEADER, registered: bool = True) -> tuple[dict[str, object], Marked]:
    """Run marked source as a module; inspect finds its lines unless it isn't registered."""
    marked = Marked.of(header + text)
    name = f"<marked {next(_numbers)}>"
    if registered:
        linecache.cache[name] = (len(marked.text), None, marked.text.splitlines(True), name)
    namespace: dict[str, object] = {"__name__": "marked"}
    exec(compile(marked.text, name, "exec"), namespace)
    return namespace, marked


def kernel_text(body: str, parameters: str = "A: tj.Tensor, B: tj.Tensor, n: tj.int32", options: str = "") -> str:
    """A kernel `k` of 64 threads around some statements."""
    lines = "".join(f"    {line}\n" if line else "\n" for line in body.strip("\n").split("\n"))
    return f"\n@tj.kernel({options or 'threads=64'})\ndef k({parameters}):\n{lines}"


def default_arguments() -> tuple[object, ...]:
    """What the kernel of `kernel_text` takes."""
    return (tj.spec((64, 64), tj.float32), tj.spec((64, 64), tj.float32), tj.int32)


def refused(
    text: str, arguments: tuple[object, ...], target: str = "sm_90a", header: str = HEADER
) -> tuple[tj.TilejitError, Marked]:
    """The error that compiling `k` raises, and the text with its mark."""
    namespace, marked = execute(text, header)
    with pytest.raises(tj.TilejitError) as caught:
        namespace["k"].compile(*arguments, target=target)
    return caught.value, marked


def points_at(error: tj.TilejitError, marked: Marked) -> None:
    """Assert that the error's span is the mark, and that its text shows the line with carets under the place."""
    span = error.span
    assert span is not None, f"the error has no place:\n{error}"
    line = marked.text.split("\n")[marked.line - 1]
    # of what goes on for several lines the first is shown
    shown = (span.line, span.column, span.end_column if span.end_line == span.line else len(line))
    assert shown == (marked.line, marked.column, marked.end_column), f"{shown} is marked, in\n{error}"
    lines = str(error).split("\n")
    at = lines.index(f"  at {span.file}:{span.line}:{span.column + 1}")
    indented = len(line) - len(line.lstrip())
    assert lines[at + 1] == "    " + line.lstrip()
    before, carets = marked.column - indented, marked.end_column - marked.column
    assert lines[at + 2] == "    " + " " * before + "^" * carets
