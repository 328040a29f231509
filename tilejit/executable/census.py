"""How many instructions a kernel's PTX has, and how many bytes of global memory they move.

Both are counted in the text, a loop's body once: of a kernel that is bound by memory or by arithmetic, the quotient of
the two is that of its longest loop or of its straight line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from ..dataclass import dataclass

__all__ = ["Census", "census"]

_INSTRUCTION = re.compile(r"\t(?:@!?%\w+ )?([a-z][\w.:]*)[ \t;]")
_GLOBAL = re.compile(r"(ld|st)\.(?:[a-z_]+\.)*global\b(?:[.:]\w+)*?(?:\.v(\d))?\.[busf](\d+)$")
_COPY = re.compile(r"cp\.async\.(?!bulk\.prefetch).*\bglobal\b")


@dataclass(frozen=True, slots=True)
class Census:
    """The instructions of a kernel by mnemonic, and the bytes of global memory that a thread reads and writes."""

    mnemonics: Mapping[str, int]
    loaded_bytes: int
    stored_bytes: int

    @property
    def instructions(self) -> int:
        """All but the return."""
        return sum(self.mnemonics.values())

    @property
    def copies(self) -> int:
        """The asynchronous copies from and to global memory, of which the text doesn't say how many bytes they move."""
        return sum([count for mnemonic, count in self.mnemonics.items() if _COPY.match(mnemonic)])


def census(ptx: str) -> Census:
    """Counts the instructions of a module with one kernel."""
    body = ptx[ptx.index("{", ptx.index(".entry")) :]
    mnemonics = Counter(match[1] for match in _INSTRUCTION.finditer(body) if match[1] != "ret")
    moved = {"ld": 0, "st": 0}
    for mnemonic, count in mnemonics.items():
        access = _GLOBAL.match(mnemonic)
        if access is not None:
            moved[access[1]] += count * int(access[2] or 1) * int(access[3]) // 8
    return Census(mnemonics, moved["ld"], moved["st"])
