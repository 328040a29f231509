"""Seeded bugs that the simulator doesn't name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Missed:
    #: "silent", or "wrong result" if the program's own comparison fails
    outcome: str
    reason: str


MISSED = {
    "load_without_other": Missed(
        "wrong result", "Triton's compiler puts zeros in place of the elements that the mask leaves out"
    ),
    "lanes_that_left_early": Missed(
        "silent",
        "a shuffle from a lane that has exited reads a value that the PTX ISA leaves undefined; the simulator doesn't "
        "report it",
    ),
}
