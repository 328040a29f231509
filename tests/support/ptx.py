"""What PTX text says: whether ptxas accepts it, its instructions, their lines, and registers read before their wait."""

from __future__ import annotations

import re
from collections import defaultdict

from tests.support.ptxas import ptxas_accepts
from tilejit.codegen import Generated, generate
from tilejit.executable.census import census
from tilejit.ir.nodes import Kernel
from tilejit.target import target

_REGISTER = re.compile(r"%[a-z]+\d+")
#: a product names its registers by a tile's name and a number
_MOVE = re.compile(r"\bmov\.b32 (?:%\w+_\d+, \S+|\S+, %\w+_\d+);")
_JUMP = re.compile(r"(@!?%p\d+\s+)?bra(?:\.uni)?\s+(\$?\w+);")


def made(k: Kernel) -> Generated:
    """The kernel's PTX for its target, which ptxas accepts."""
    generated = generate(k, target(k.target))
    ptxas_accepts(generated.ptx, k.target)
    return generated


def instructions(ptx: str) -> list[str]:
    """The instructions, without directives, labels and comments."""
    lines = (line.strip() for line in ptx.splitlines())
    return [line for line in lines if line.endswith(";") and not line.startswith((".", "//"))]


def length(ptx: str) -> int:
    """How many instructions there are but for moves from and to registers of products, which ptxas makes none of."""
    return census(ptx).instructions - len(_MOVE.findall(ptx))


def locations(ptx: str, mnemonic: str) -> list[tuple[str, int, int]]:
    """File number, line and column that apply to each instruction `mnemonic`."""
    found: list[tuple[str, int, int]] = []
    current = ("0", 0, 0)
    for line in ptx.splitlines():
        if match := re.match(r"\s*\.loc\s+(\d+) (\d+) (\d+)", line):
            current = (match[1], int(match[2]), int(match[3]))
        elif line.strip().startswith(mnemonic):
            found.append(current)
    return found


def early_uses(ptx: str) -> list[str]:
    """Instructions that touch what a tcgen05.ld may not have filled yet, along any path.

    It is filled from tcgen05.wait::ld on.
    """
    lines = _code(ptx)
    labels = {line[:-1]: n for n, line in enumerate(lines) if line.endswith(":")}
    pending: dict[int, frozenset[str]] = defaultdict(frozenset)
    found: dict[int, str] = {}
    seen: set[int] = set()
    waiting = [0]
    while waiting:
        at = waiting.pop()
        seen.add(at)
        after = _after(lines[at], pending[at])
        if _touched(lines[at]) & pending[at]:
            found[at] = lines[at]
        for then in _followers(lines, labels, at):
            if then not in seen or not after <= pending[then]:
                pending[then] |= after
                waiting.append(then)
    return [found[at] for at in sorted(found)]


def _code(ptx: str) -> list[str]:
    """Labels and instructions of the one function, in order."""
    body = ptx[ptx.index("\n{") : ptx.rindex("}")]
    lines = (line.strip() for line in body.splitlines())
    return [line for line in lines if line.endswith((";", ":")) and not line.startswith((".", "//"))]


def _touched(line: str) -> set[str]:
    return set(_REGISTER.findall(line))


def _after(line: str, before: frozenset[str]) -> frozenset[str]:
    if "tcgen05.wait::ld" in line:
        return frozenset()
    if "tcgen05.ld." in line:
        return before | set(_REGISTER.findall(line[line.index("{") : line.index("}")]))
    return before


def _followers(lines: list[str], labels: dict[str, int], at: int) -> list[int]:
    line = lines[at]
    jump = _JUMP.search(line)
    following = [at + 1] if at + 1 < len(lines) else []
    if jump is not None:
        return [labels[jump[2]], *(following if jump[1] else [])]
    return [] if re.match(r"(ret|exit|trap)\b", line) else following
