"""The answer to the question whether a launch has findings in any order of its synchronizing events."""

from __future__ import annotations

from typing import Literal

from ...dataclass import dataclass
from ..checks.findings import Place


@dataclass(frozen=True, slots=True)
class OpenPair:
    """Two synchronizing instructions whose order is open; often both are the same."""

    first: Place
    second: Place

    def __str__(self) -> str:
        one, other = shown(self.first), shown(self.second)
        return f"{one} in two threads" if one == other else f"{one} and {other}"


def shown(place: Place) -> str:
    return place.location.text if place.location else f"PTX line {place.ptx_line} ({place.text})"


@dataclass(frozen=True, slots=True)
class Orders:
    """The orders in which a launch's synchronizing events can happen, and whether one of them has a finding.

    verdict: "clean" if no order has a finding; "finding"; "incomplete" if there are other orders, or may be.
    """

    verdict: Literal["clean", "finding", "incomplete"]
    #: the number of orders that have been run, and the number that there are at least
    explored: int
    at_least: int
    grid: tuple[int, int, int]
    #: name and size of each array
    shapes: str
    #: the number of different outputs
    results: int
    #: the pairs of instructions whose order is open
    races: tuple[OpenPair, ...]
    #: the events that lead to the finding, one line each
    story: tuple[str, ...]
    #: the order of the report; `orders="replay:…"` runs it again
    choices: str
    #: the choices of an order with another output; "" if there is none
    different: str = ""
    #: why there may be other orders, apart from `races`
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        launch = f"grid {self.grid}" + (f" with {self.shapes}" if self.shapes else "")
        count = f"{self.explored:,} order{'s' * (self.explored > 1)}"
        if self.verdict == "clean":
            return f"clean in all {count} of {launch}" if self.explored > 1 else f"clean in the one order of {launch}"
        if self.verdict == "finding":
            return f"a finding in {'order' if self.explored > 1 else 'the first order'}{self.number()} of {launch}:\n" \
                + self.narrative()
        of = f" of at least {self.at_least:,} orders" if self.at_least > self.explored else ""
        tried = f"{self.explored:,}{of}" if of else count
        lines = [*map(str, self.races), *self.reasons]
        return f"no finding in {tried} of {launch}: incomplete; open:\n" + "\n".join(f"  {x}" for x in lines)

    def number(self) -> str:
        return f" {self.explored:,}" if self.explored > 1 else ""

    def narrative(self) -> str:
        return "\n".join(["in this order:", *(f"  {x}" for x in self.story)])
