"""Why a kernel needs no barrier, fence or wait of one PTX line: what else orders what it orders.

The events of the whole kernel are followed again without those of the line, and with those of single lines alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import events as ev
from .events import Stream
from .happens_before import Comparison, Semantics, follow, memory_events

Mask = NDArray[np.bool_]
#: how many strong accesses of each place in memory are compared with all others
MOST_STRONG = 100
NEVER_RACE = "orders only accesses that never race; without it, "


class Orders:
    """All pairs of conflicting accesses of launches, but those that a thread's own order puts one after the other."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        self.streams = [x for x in streams if any(e.kind != "load" for e in memory_events(x))]
        self.removable = [e for x in self.streams for e in x.events if isinstance(e, ev.Removable)]
        self.whole = self.comparisons(lambda event: True)
        self.pairs: list[tuple[Any, Any]] = []
        for comparison in self.whole:
            each = [np.zeros((2, 0), np.int64), *(np.stack(x) for x in comparison.pairs(MOST_STRONG))]
            earlier, later = np.concatenate(each, axis=1)
            open_ = ~comparison.program(earlier, later)
            self.pairs.append((earlier[open_], later[open_]))
        self.all = self.happened(self.whole)
        #: what is ordered by nothing that can be left out
        self.anyway = self.happened(self.comparisons(lambda event: False), proxies=False)
        self.masks: dict[tuple[type, int], Mask] = {}

    def comparisons(self, counts: Callable[[ev.Removable], bool]) -> list[Comparison]:
        """The accesses with the clocks that they have if only some of the events count."""
        result = []
        for stream in self.streams:
            events = memory_events(stream)
            accesses, table = follow(stream, events, counts)
            result.append(Comparison(accesses, events, table, stream))
        return result

    def happened(self, comparisons: Sequence[Comparison], proxies: bool = True) -> Mask:
        """Of each pair, whether the first access has happened before the second. proxies: and the second's has seen it.
        """
        each = [c.happened(*pair, proxies) for c, pair in zip(comparisons, self.pairs, strict=True)]
        return np.concatenate([np.zeros(0, bool), *each])

    def lines(self, kinds: Any) -> list[int]:
        return sorted({line for e in self.removable if isinstance(e, kinds) for line in e.lines})

    def alone(self, line: int) -> Mask:
        """The pairs that the events of a line order alone, what proxies see aside."""
        if (ev.MeetEvent, line) not in self.masks:
            comparisons = self.comparisons(lambda event: line in event.lines)
            self.masks[ev.MeetEvent, line] = self.happened(comparisons, proxies=False) & ~self.anyway
        return self.masks[ev.MeetEvent, line]

    def shown(self, line: int) -> Mask:
        """The pairs for which, of all fences of proxies, those of a line suffice; 0: those that need none."""
        if (ev.ProxyFenceEvent, line) not in self.masks:
            comparisons = self.comparisons(
                lambda event: not isinstance(event, ev.ProxyFenceEvent) or line in event.lines
            )
            self.masks[ev.ProxyFenceEvent, line] = self.happened(comparisons)
        return self.masks[ev.ProxyFenceEvent, line]

    def argument(self, line: int) -> str:
        """Why nothing can race without a line's barrier, fence or wait."""
        mine = [e for e in self.removable if line in e.lines]
        if not mine:
            return "no thread executes it"
        lost = self.all & ~self.happened(self.comparisons(lambda event: line not in event.lines))
        if lost.any():
            return NEVER_RACE + "; ".join(self.describe(lost))
        if isinstance(mine[0], ev.FenceEvent):
            passed = sorted({text for x in self.streams for text in overtaking(x, line)})
            return NEVER_RACE + "; ".join(passed) if passed else "no access needs it to be ordered after another"
        if isinstance(mine[0], ev.ProxyFenceEvent):
            others = {x: self.shown(x) for x in self.lines(ev.ProxyFenceEvent) if x != line}
            helpers = share(self.shown(line) & ~self.shown(0) & self.all, others)
            return f"shows proxies {helpers}" if helpers else "no proxy accesses what is accessed before it"
        others = {x: self.alone(x) for x in self.lines(ev.Removable) if x != line}
        helpers = share(self.alone(line), others)
        return f"orders {helpers}" if helpers else "alone, it orders no conflicting accesses of two threads"

    def describe(self, which: Mask) -> list[str]:
        """What may happen if nothing orders pairs of accesses that don't race: strong ones, equal stores."""
        found: set[str] = set()
        at = 0
        for comparison, (earlier, later) in zip(self.whole, self.pairs, strict=True):
            some = np.flatnonzero(which[at : at + earlier.size])
            at += earlier.size
            a, b = earlier[some], later[some]
            assert (comparison.strongly(a, b) | comparison.equally(a, b)).all(), "what can race, races"
            first, second = (comparison.accesses.event[x] for x in (a, b))
            lines, writes, reads = comparison.line, comparison.writes[first], comparison.reads[second]
            columns = (x.tolist() for x in (lines[first], lines[second], writes, reads))
            found.update(outcome(*each) for each in zip(*columns, strict=True))
        return sorted(found)


def outcome(first: int, second: int, writes: bool, reads: bool) -> str:
    """What may happen if two accesses aren't in order."""
    if writes and reads:
        return f"line {second} may read what was there before line {first}"
    return f"line {second} may be overwritten by line {first}" if writes else f"line {first} may read of line {second}"


def overtaking(stream: Stream, line: int) -> Iterator[str]:
    """What sequentially consistent fences of a line forbid: that a thread reads before others see what it wrote."""
    #: per thread: the line and the address of its last strong write; the same of the one before its last fence
    wrote, fenced = np.zeros((2, 2, stream.threads), np.int64)
    for event in stream.events:
        if isinstance(event, ev.FenceEvent) and line in event.lines and event.sem == "sc":
            fenced[:, event.threads] = wrote[:, event.threads]
        if not isinstance(event, ev.MemoryEvent) or not Semantics.of(event.opcode).strong:
            continue
        who, where = (x[event.threads < stream.threads] for x in (event.threads, event.addresses))
        if event.kind != "store":
            for other in np.unique(fenced[0, who[fenced[1, who] != where]]).tolist():
                if other:
                    yield f"line {event.line} may read before others see what line {other} wrote"
            fenced[:, who] = 0
        if event.kind != "load":
            wrote[0, who], wrote[1, who] = event.line, where


def share(pairs: Mask, others: dict[int, Mask]) -> str:
    """How many pairs there are, and how many of them the events of other lines order; "" if there are none."""
    left, helpers = pairs.copy(), []
    while left.any():
        best = max(others, key=lambda x: int(np.count_nonzero(others[x] & left)), default=0)
        covered = left & others.pop(best, left)
        if not covered.any():
            covered, best = left, 0
        helpers.append(f"{np.count_nonzero(covered)} by " + (f"line {best}" if best else "several lines together"))
        left = left & ~covered
    return f"{np.count_nonzero(pairs)} pairs, as others do: {', '.join(helpers)}" if helpers else ""
