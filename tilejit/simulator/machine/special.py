"""Values of special registers and kernel parameters for the threads of a chunk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..decode.translate import Program
from .lanes import WARP, Lanes, thread_coordinate


def initial_values(program: Program, lanes: Lanes, params: bytes) -> Iterator[tuple[int, Any]]:
    """Yield (slot, value) of each special register and parameter that a program uses."""
    for slot, dtype, offset in program.params:
        yield slot, np.frombuffer(params, dtype, 1, offset)[0]
    for name, slot in program.special:
        yield slot, special_register(name, lanes, program)


def special_register(name: str, lanes: Lanes, program: Program) -> Any:
    """Return the value of a special register for each thread of a chunk, or a scalar for all threads."""
    kind, _, axis = name.partition(".")
    number = "xyz".find(axis) if axis else 0
    if kind in ("%ntid", "%nctaid"):
        return np.uint32((lanes.block if kind == "%ntid" else lanes.grid)[number])
    if kind == "%tid":
        return thread_coordinate(lanes.block, lanes.ctas, number)
    if kind == "%ctaid":
        return lanes.cta_coordinate(number)
    if "cluster" in kind:
        return cluster_register(kind, number, lanes, program)
    if kind == "%laneid":
        return _narrow(lanes.full["lane"])
    if kind == "%warpid":
        return _narrow(lanes.full["thread"] // WARP)
    if kind.startswith("%lanemask_"):
        return _lane_mask(kind[-2:], lanes.full["lane"].astype(np.uint64))
    fixed = {
        "%nwarpid": lanes.warps_per_cta, "%nsmid": 1, "%smid": 0, "%gridid": 0, "%clock": 0, "%clock_hi": 0,
        "%dynamic_smem_size": 0, "%total_smem_size": program.shared_bytes, "%globaltimer_lo": 0,
    }
    if kind in fixed:
        return np.uint32(fixed[kind])
    return np.uint64(0) if kind in ("%clock64", "%globaltimer") else None


def cluster_register(kind: str, axis: int, lanes: Lanes, program: Program) -> Any:
    """Like `special_register`, for registers about clusters. Without clusters, each CTA is a cluster."""
    if kind == "%is_explicit_cluster":
        return np.bool_(program.function.bounds.cluster is not None)
    if kind in ("%cluster_nctaid", "%nclusterid", "%cluster_nctarank"):
        sizes = {"%cluster_nctaid": lanes.cluster[axis], "%nclusterid": lanes.clusters[axis]}
        return np.uint32(sizes.get(kind, lanes.ranks))
    if kind == "%cluster_ctarank":
        return lanes.each_cta(lambda cta: cta % lanes.ranks)
    along = lanes.rank_along if kind == "%cluster_ctaid" else lanes.cluster_along
    return lanes.each_cta(lambda cta: along(cta, axis))


def _narrow(values: NDArray[Any]) -> NDArray[np.uint32]:
    return values.astype(np.uint32)


def _lane_mask(relation: str, lane: NDArray[np.uint64]) -> NDArray[np.uint32]:
    one = np.uint64(1)
    equal = one << lane
    below = equal - one
    masks = {"eq": equal, "lt": below, "le": below | equal, "gt": ~(below | equal), "ge": ~below}
    return _narrow(masks[relation] & np.uint64(0xFFFFFFFF))
