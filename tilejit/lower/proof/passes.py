"""Proof of exchanges between lanes: each place of the destination receives its element exactly once."""

from __future__ import annotations

import numpy as np

from ...ir.nodes import TileOp
from ...target import WARP
from ..plans import Passes
from .places import elements_of_threads, need_no_stray_write


def prove_passes(passes: Passes, op: TileOp) -> None:
    """Raise AssertionError unless each place of the destination receives its element, from a lane of the same warp."""
    dst, src = op.region("dst"), op.region("src")
    rounds, threads = passes.sent.shape
    wanted, offered = (elements_of_threads(region, op.scope, threads) for region in (dst, src))
    iteration, thread = np.indices((rounds, threads))
    foreign = passes.sender // WARP != thread // WARP
    assert not foreign.any(), f"thread {thread[foreign][:1]} receives from another warp"
    every = np.arange(passes.width)
    register = passes.sent[iteration, passes.sender][..., None] + every
    place = passes.kept[..., None] + every
    assert register.max() < offered.shape[1], f"register {register.max()} of {src.buffer.name} doesn't exist"
    assert place.max() < wanted.shape[1], f"register {place.max()} of {dst.buffer.name} doesn't exist"
    need_no_stray_write(dst, op.scope, np.broadcast_to(thread[..., None], place.shape), place)
    brought, belongs = offered[passes.sender[..., None], register], wanted[thread[..., None], place]
    wrong = np.argwhere((belongs >= 0) & (brought != belongs))
    if len(wrong):
        at = tuple(wrong[0])
        raise AssertionError(
            f"thread {at[1]} receives element {brought[at]} in register {place[at]} of {dst.buffer.name}, "
            f"where {belongs[at]} belongs"
        )
    count = np.zeros(wanted.shape, np.int64)
    np.add.at(count, (np.broadcast_to(thread[..., None], place.shape), place), 1)
    assert (count[wanted >= 0] > 0).all(), f"a register of {dst.buffer.name} isn't written"
    assert (count <= 1).all(), f"a register of {dst.buffer.name} is written twice"
