"""A stored program to PTX: all that the corpus needs of tilejit, so that a renaming there changes this file only."""

from __future__ import annotations

import linecache
import re
import warnings
from dataclasses import dataclass
from typing import Any

import tilejit as tj
from tilejit import pipeline
from tilejit.ir.text.parser import from_text
from tilejit.ir.types import Signature
from tilejit.target import target as find_target

#: in `.file`, in carets and in linecache: the same on every machine
FILE = "/corpus/program.py"

TARGETS = ("sm_80", "sm_90a", "sm_100a")

#: LLVM's comment beside a call of vprintf, and the calls that it has compiled since the process began
CALL_NUMBER = re.compile(r"(callseq )\d+")


@dataclass(frozen=True)
class Outcome:
    """What became of a program for one target.

    refusal: the error's class and text; then the others are empty.
    from_tile: the PTX that the text of `tile` compiles to, where it isn't `ptx` without its references to source
    lines: LLVM merges no blocks whose lines differ.
    """

    tile: str = ""
    ptx: str = ""
    refusal: str = ""
    from_tile: str = ""


def kernel_of(source: str, name: str, file: str = FILE) -> tuple[tj.Kernel, dict[str, Any]]:
    """The kernel that a program's source defines, and the source's namespace."""
    # without a time of change linecache doesn't look for the file
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"__name__": "program"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(source, file, "exec", dont_inherit=True), scope)
    return scope[name], scope


def from_source(source: str, name: str, call: str, target: str, file: str = FILE) -> Outcome:
    """Compiles as `name.compile<call>` for a target."""
    try:
        kernel, scope = kernel_of(source, name, file)
        args, constexprs = eval(f"(lambda *args, **constexprs: (args, constexprs)){call}", scope)
        made = kernel.compile(*args, target=target, **constexprs)
    except (tj.TilejitError, SyntaxError) as error:
        return Outcome(refusal=refusal(error))
    return Outcome(made.tile_ir, without_call_numbers(made.ptx))


def from_tile_ir(text: str, target: str) -> Outcome:
    """Compiles tile IR for a target, whatever target its first line names; there are no source lines in its PTX."""
    first, _, rest = text.partition("\n")
    words = [f"target={target}" if word.startswith("target=") else word for word in first.split(" ")]
    try:
        made = pipeline.compile(from_text(" ".join(words) + "\n" + rest), Signature(()), find_target(target))
    except tj.TilejitError as error:
        return Outcome(refusal=refusal(error))
    return Outcome(ptx=without_call_numbers(made.ptx))


def without_call_numbers(ptx: str) -> str:
    """The PTX with each number of a call as 0: it says what else was compiled before."""
    return CALL_NUMBER.sub(r"\g<1>0", ptx)


def refusal(error: Exception) -> str:
    """The class of an error and its text."""
    return f"{type(error).__name__}: {error}"
