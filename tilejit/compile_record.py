"""The record of a compilation: the kernel at each level, and the decisions taken."""

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


@dataclass(slots=True)
class Derivation:
    """The record of a compilation, filled in by the passes."""

    #: the kernel as the frontend built it, in which tiles may have no layouts yet
    open: Kernel
    #: the kernel with layouts, before dispatch
    tile: Kernel
    #: the input of code generation
    lane: Kernel
    llvm_ir: str = ""
    verdicts: tuple[Verdict[Any], ...] = ()
    #: name of a buffer in local memory -> location of an access with run-time indices that requires it to be there
    addressed: Mapping[str, Span | None] = field(default_factory=dict)
    layouts: tuple[LayoutChoice, ...] = ()
    #: register pressure of the local tiles; None if they would fit in registers even if all were live at once
    pressure: Pressure | None = None
