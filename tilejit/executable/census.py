"""Static counts of a kernel's PTX: instructions by mnemonic, and bytes of global memory loaded and stored.

A loop body counts once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from ..dataclass import dataclass

_INSTRUCTION = re.compile(r"\t(?:@!?%\w+ )?([a-z][\w.:]*)[ \t;]")
_GLOBAL = re.compile(r"(ld|st)\.(?:[a-z_]+\.)*global\b(?:[.:]\w+)*?(?:\.v(\d))?\.[busf](\d+)$")
_COPY = re.compile(r"cp\.async\.(?!bulk\.prefetch).*\bglobal\b")


@dataclass(frozen=True, slots=True)
class Census:
    """Static instruction counts by mnemonic, and the bytes that a thread's global loads and stores move."""

    mnemonics: Mapping[str, int]
    loaded_bytes: int
    stored_bytes: int

    @property
    def instructions(self) -> int:
        """The number of instructions other than `ret`."""
        return sum(self.mnemonics.values())

    @property
    def copies(self) -> int:
        """The number of asynchronous copies from or to global memory, whose mnemonics don't contain sizes."""
        return sum([count for mnemonic, count in self.mnemonics.items() if _COPY.match(mnemonic)])


def census(ptx: str) -> Census:
    """Return the census of `ptx`, a module with one kernel."""
    body = ptx[ptx.index("{", ptx.index(".entry")) :]
    mnemonics = Counter(match[1] for match in _INSTRUCTION.finditer(body) if match[1] != "ret")
    moved = {"ld": 0, "st": 0}
    for mnemonic, count in mnemonics.items():
        access = _GLOBAL.match(mnemonic)
        if access is not None:
            moved[access[1]] += count * int(access[2] or 1) * int(access[3]) // 8
    return Census(mnemonics, moved["ld"], moved["st"])
