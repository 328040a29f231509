"""How a kernel was made: what the compiler had of it at each level, and what it found out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .dataclass import dataclass, field
from .source import Span

if TYPE_CHECKING:
    from .ir.analyses.pressure import Pressure
    from .ir.nodes import Kernel
    from .lower import Verdict
    from .lower.open import LayoutChoice

__all__ = ["Derivation"]


@dataclass(frozen=True, slots=True)
class Derivation:
    """How an executable was made.

    open: the kernel as it came. tile: with layouts. lane: what code generation gets.
    addressed: the local buffers that live in local memory, each with the place in the source that makes them.
    layouts: how those of open tiles were chosen.
    pressure: of the local tiles, None where all of them together fit in registers.
    """

    open: Kernel
    tile: Kernel
    lane: Kernel
    llvm_ir: str
    verdicts: tuple[Verdict[Any], ...]
    addressed: Mapping[str, Span | None] = field(default_factory=dict)
    layouts: tuple[LayoutChoice, ...] = ()
    pressure: Pressure | None = None
