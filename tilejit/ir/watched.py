"""Regions whose accesses the simulator counts in a checked build. Executables import this module, but not `nodes`."""

from __future__ import annotations

from ..dataclass import dataclass
from ..source import Span


@dataclass(frozen=True, slots=True)
class WatchedRegion:
    """A region that an operation accesses and that can't be proved to overlap its tensor.

    text: the region's name in messages. threads: number of threads of one instance of the operation.
    instances, inside: event numbers, operands of `pmevent.mask`. Event `instances` counts the threads of all executed
    instances, event `inside` those of instances whose region overlaps the tensor.
    tensor: the name of the tensor argument if all operations' regions of that argument are watched, else "".
    """

    text: str
    span: Span | None
    threads: int
    instances: int
    inside: int
    tensor: str = ""
