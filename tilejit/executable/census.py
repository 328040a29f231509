"""Static counts of a kernel's PTX: instructions by mnemonic, and bytes of global memory loaded and stored.

A loop body counts once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from ..dataclass import dataclass
from ..dtypes import DType

_INSTRUCTION = re.compile(r"\t(?:@!?%\w+ )?([a-z][\w.:]*)[ \t;]")
_GLOBAL = re.compile(r"(ld|st)\.(?:[a-z_]+\.)*global\b(?:[.:]\w+)*?(?:\.v(\d))?\.[busf](\d+)$")
_COPY = re.compile(r"cp\.async\.(?!bulk\.prefetch).*\bglobal\b")


#: machine instructions per byte of global memory above which a copy slows down on an H100: it ran at full speed with 24
#: arithmetic instructions per float16 or 56 per float32, and was 4 to 6 % slower with 32 or 64
KNEE = 7


@dataclass(frozen=True, slots=True)
class Census:
    """Static instruction counts by mnemonic, and the bytes that a thread's global loads and stores move.

    dtype: the widest element type of the arrays that the kernel writes, None if it writes none.
    """

    mnemonics: Mapping[str, int]
    loaded_bytes: int
    stored_bytes: int
    dtype: DType | None = None

    @property
    def instructions(self) -> int:
        """The number of instructions other than `ret`."""
        return sum(self.mnemonics.values())

    @property
    def copies(self) -> int:
        """The number of asynchronous copies from or to global memory, whose mnemonics don't contain sizes."""
        return sum([count for mnemonic, count in self.mnemonics.items() if _COPY.match(mnemonic)])

    @property
    def bytes(self) -> int:
        return self.loaded_bytes + self.stored_bytes

    @property
    def per_byte(self) -> float | None:
        """Instructions per byte of global memory; None if no bytes are counted, or asynchronous copies move others."""
        return self.instructions / self.bytes if self.bytes and not self.copies else None

    @property
    def per_element(self) -> float | None:
        """Instructions per element stored; None if no stores are counted, or asynchronous copies may write others."""
        if self.dtype is None or not self.stored_bytes or self.copies:
            return None
        return self.instructions * self.dtype.bytes / self.stored_bytes

    def __str__(self) -> str:
        if self.copies:
            copies = f"{self.copies} of which {'copies' if self.copies == 1 else 'copy'} global memory"
            return f"{self.instructions} PTX instructions, {copies} asynchronously"
        if self.per_byte is None:
            return f"{self.instructions} PTX instructions, none of which is a global load or store"
        elements = f", {self.per_element:.3g} per {self.dtype} written" if self.per_element is not None else ""
        return (
            f"{self.instructions} PTX instructions for {self.bytes} bytes of global memory: "
            f"{self.per_byte:.2g} per byte{elements} (memory traffic hides arithmetic up to about {KNEE} per byte)"
        )


def census(ptx: str, dtype: DType | None = None) -> Census:
    """Return the census of `ptx`, a module with one kernel. dtype: see `Census`."""
    body = ptx[ptx.index("{", ptx.index(".entry")) :]
    mnemonics = Counter(match[1] for match in _INSTRUCTION.finditer(body) if match[1] != "ret")
    moved = {"ld": 0, "st": 0}
    for mnemonic, count in mnemonics.items():
        access = _GLOBAL.match(mnemonic)
        if access is not None:
            moved[access[1]] += count * int(access[2] or 1) * int(access[3]) // 8
    return Census(mnemonics, moved["ld"], moved["st"], dtype)
