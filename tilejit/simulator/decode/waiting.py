"""Which loops may wait for what other threads do: those in which a branch depends on what they read there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from ..opcodes.memory import Site
from .blocks import EXIT, BasicBlock
from .ptx import PtxFunction

# (the block that goes back, the block at the loop's head)
BackEdge = tuple[int, int]

_NAME = re.compile(r"[%$A-Za-z_][\w$]*")
_NO_RESULT = frozenset({"st", "red", "bra", "brx", "ret", "exit"})


class WaitingLoops:
    """The loops of one kernel that may wait for other threads.

    back_edges: where they go back. for_ctas: whether one may wait for what other CTAs do.
    """

    def __init__(self, function: PtxFunction, blocks: Sequence[BasicBlock], sites: Iterable[Site]) -> None:
        self._function = function
        self._blocks = blocks
        reads = [site for site in sites if site.kind != "store"]
        # accesses that look at what others change, with whether those may be other CTAs
        self._looks = {site.pc: site.space != "shared" for site in reads if site.strong}
        self._varying = {site.pc for site in reads if not site.constant and site.space not in ("param", "const")}
        self._names: dict[int, tuple[frozenset[str], frozenset[str]]] = {}
        waiting = dict(self._waiting()) if self._looks else {}
        self.back_edges = frozenset(waiting)
        self.for_ctas = any(waiting.values())

    def _waiting(self) -> Iterator[tuple[BackEdge, bool]]:
        """Each loop that may wait, and whether for other CTAs."""
        before: list[list[int]] = [[] for _ in self._blocks]
        for block in self._blocks:
            for target in block.targets:
                if target != EXIT:
                    before[target].append(block.index)
        for origin, block in enumerate(self._blocks):
            for head in block.targets:
                if not 0 <= head <= origin:
                    continue
                inside = _body(origin, head, before)
                looks = [self._looks[pc] for i in inside for pc in self._blocks[i].pcs if pc in self._looks]
                if looks and self._depends(inside):
                    yield (origin, head), any(looks)

    def _depends(self, inside: set[int]) -> bool:
        """Whether a branch of these blocks depends on what they read from memory, if through memory too."""
        branches = {self._blocks[i].predicate for i in inside} - {""}
        pcs = sorted(pc for i in inside for pc in self._blocks[i].pcs)
        read: set[str] = set()
        size = -1
        while len(read) > size:
            size = len(read)
            for pc in pcs:
                targets, sources = self._names_of(pc)
                if pc in self._varying or not read.isdisjoint(sources):
                    read |= targets
        return any(not read.isdisjoint(_NAME.findall(name)) for name in branches)

    def _names_of(self, pc: int) -> tuple[frozenset[str], frozenset[str]]:
        """The registers that an instruction writes, and those that it reads."""
        names = self._names.get(pc)
        if names is None:
            ins = self._function.body[pc]
            first = 0 if ins.root in _NO_RESULT else 1
            targets, sources = (
                frozenset(name for operand in part for name in _NAME.findall(operand))
                for part in (ins.operands[:first], ins.operands[first:])
            )
            names = self._names[pc] = targets, sources
        return names


def _body(origin: int, head: int, before: Sequence[Sequence[int]]) -> set[int]:
    """The blocks of the loop that goes back from `origin` to `head`. before: each block's predecessors."""
    inside = {origin, head}
    left = [origin] if origin != head else []
    while left:
        for index in before[left.pop()]:
            if index not in inside:
                inside.add(index)
                left.append(index)
    return inside
