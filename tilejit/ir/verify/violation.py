"""Violations of the IR's invariants."""

from __future__ import annotations

from ...dataclass import dataclass
from ...source import Span


@dataclass(frozen=True, slots=True)
class Violation:
    """One violated invariant. span: the location in the user's source, or None if the node has none."""

    message: str
    span: Span | None = None

    def __str__(self) -> str:
        return self.message if self.span is None else f"{self.message}\n{self.span.render()}"


class Violations(list[Violation]):
    """The violations of a kernel, in the order in which they are found."""

    def fault(self, message: str | None, span: Span | None) -> None:
        """Record a violation, unless the message is None."""
        if message is not None:
            self.append(Violation(message, span))
