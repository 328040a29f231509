"""What the simulator counts in a checked build; a launch imports it without the IR."""

from __future__ import annotations

from ..dataclass import dataclass
from ..source import Span

__all__ = ["WatchedRegion"]


@dataclass(frozen=True, slots=True)
class WatchedRegion:
    """A region that an operation reads or writes, and that isn't sure to have an element inside its tensor.

    text: the region as messages name it. threads: that carry out one instance of the operation.
    instances, inside: the events of its instances, and of those whose region lies at least partly inside.
    tensor: the argument of which it is a region, if all regions of that are watched, else "".
    """

    text: str
    span: Span | None
    threads: int
    instances: int
    inside: int
    tensor: str = ""
