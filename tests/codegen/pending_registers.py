"""A reader of PTX text that knows one rule: what tcgen05.ld fills is untouched until tcgen05.wait::ld."""

from __future__ import annotations

import re
from collections import defaultdict

_REGISTER = re.compile(r"%[a-z]+\d+")
_JUMP = re.compile(r"(@!?%p\d+\s+)?bra(?:\.uni)?\s+(\$?\w+);")


def early_uses(ptx: str) -> list[str]:
    """Instructions that touch a register which a load may not have filled yet, along any path."""
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
