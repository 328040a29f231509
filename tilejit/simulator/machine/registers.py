"""The registers of a chunk's threads: for each slot an array of one element per thread, or a uniform scalar."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..decode.names import DTYPES, SPECIAL
from ..decode.translate import Program
from ..decode.variables import RESERVED
from .lanes import WARP, Index, Lanes, thread_coordinate
from .memory import SHARED_BASE


class Registers:
    """The registers of all threads. The results of a partial group are kept separately until written back."""

    def __init__(self, program: Program, lanes: Lanes, params: bytes, workspace: int) -> None:
        """params: the parameter space. workspace: `AddressMap.workspace`."""
        self.lanes = lanes
        self.all: list[Any] = list(program.initial)
        for slot, dtype, offset in program.params:
            self.all[slot] = np.frombuffer(params, dtype, 1, offset)[0]
        for name, slot in program.special:
            self.all[slot] = special_register(name, lanes, program, workspace)
        #: slots whose array no other slot shares
        self.owned: set[int] = set()
        #: the partial group that ran last, slot → its value for this group, and the slots not yet written to `all`
        self.kept_group: Index | None = None
        self.kept: dict[int, Any] = {}
        self.changed: set[int] = set()

    def of_all(self) -> list[Any]:
        """Return all threads' registers by slot, to run all threads together. The caller may replace list elements."""
        self.write_back()
        self.owned.clear()
        return self.all

    def of(self, group: Index, slots: Iterable[int]) -> list[Any]:
        if self.kept_group is not group:
            if self.kept_group is None or not np.array_equal(self.kept_group, group):
                self.write_back()
            self.kept_group = group
        kept = self.kept
        for slot in slots:
            if slot not in kept:
                kept[slot] = self.value(slot, group)
        return [kept[slot] for slot in slots]

    def keep(self, slots: Sequence[int], values: Sequence[Any]) -> None:
        self.kept.update(zip(slots, values, strict=True))
        self.changed.update(slots)

    def write_back(self) -> None:
        if self.kept_group is None:
            return
        for slot in self.changed:
            self.scatter(slot, self.kept_group, self.kept[slot])
        self.kept_group = None
        self.kept.clear()
        self.changed.clear()

    def scatter(self, slot: int, group: Index, value: Any) -> None:
        whole = self.all[slot]
        if slot not in self.owned:
            # Another register may share the array: for all threads together, `mov` and reinterpretation don't copy.
            whole = np.full(self.lanes.total, whole) if not whole.ndim else whole.copy()
            self.all[slot] = whole
            self.owned.add(slot)
        whole[group] = value

    def value(self, slot: int, group: Index | None) -> Any:
        whole = self.all[slot]
        return whole if group is None or not whole.ndim else whole[group]

    def values(self, slots: Iterable[int], group: Index | None) -> list[tuple[int, Any]]:
        """Return [(slot, value)] of the registers `slots` for a group's threads, including values kept separately."""
        kept = self.kept if group is not None and group is self.kept_group else {}
        if not kept:
            self.write_back()
        return [(s, kept[s] if s in kept else self.value(s, group)) for s in slots]


def special_register(name: str, lanes: Lanes, program: Program, workspace: int) -> Any:
    """Return a special register's values for a chunk's threads, as an array or one scalar.

    Without clusters, each CTA is a cluster. Registers about time and hardware that aren't listed here are 0.
    """
    kind, _, axis = name.partition(".")
    number = "xyz".find(axis)
    uniform = {
        "%ntid": lanes.block[number], "%nctaid": lanes.grid[number], "%nwarpid": lanes.warps_per_cta, "%nsmid": 1,
        "%cluster_nctaid": lanes.cluster[number], "%nclusterid": lanes.clusters[number],
        "%cluster_nctarank": lanes.ranks, "%total_smem_size": program.shared_bytes,
        "%is_explicit_cluster": program.function.bounds.cluster is not None, "%envreg1": workspace >> 32,
        "%envreg2": workspace & 0xFFFFFFFF,
    }
    if kind.startswith("%reserved_smem_offset_"):
        uniform[kind] = {"end": RESERVED.size_bytes, "cap": SHARED_BASE}.get(kind.rpartition("_")[2], 0)
    of_cta: dict[str, Callable[[Index], Index]] = {
        "%ctaid": lambda cta: lanes.along(cta, number), "%cluster_ctarank": lambda cta: cta % lanes.ranks,
        "%cluster_ctaid": lambda cta: lanes.rank_along(cta, number),
        "%clusterid": lambda cta: lanes.cluster_along(cta, number),
    }
    if kind == "%tid":
        return thread_coordinate(lanes.block, lanes.ctas, number)
    if kind in of_cta:
        return lanes.each_cta(of_cta[kind])
    if kind in ("%laneid", "%warpid"):
        return (lanes.full["lane"] if kind == "%laneid" else lanes.full["thread"] // WARP).astype(np.uint32)
    if kind.startswith("%lanemask_"):
        return _lane_mask(kind[-2:], lanes.full["lane"].astype(np.uint64))
    return DTYPES[SPECIAL[name]].type(uniform.get(kind, 0))


def _lane_mask(relation: str, lane: NDArray[np.uint64]) -> Any:
    one = np.uint64(1)
    equal = one << lane
    below = equal - one
    masks = {"eq": equal, "lt": below, "le": below | equal, "gt": ~(below | equal), "ge": ~below}
    return (masks[relation] & np.uint64(0xFFFFFFFF)).astype(np.uint32)
