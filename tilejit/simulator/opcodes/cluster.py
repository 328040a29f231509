"""Cluster barriers, and shared-memory addresses of a cluster's CTAs.

A module of its own, because each module here is a heading of the instruction table.
"""

from __future__ import annotations

from ..decode.emitter import BlockWriter, Entries, Match, expression, statement
from ..decode.names import PTX_DTYPE


def mapa(e: BlockWriter, m: Match) -> None:
    target, address, rank = e.exactly(3)
    dtype = PTX_DTYPE[m["t"]]
    e.write(target, dtype, f"S.clusters.mapped({e.source(address, dtype)}, {e.source(rank, 'u4')})")


_ALIGNED = r"(?P<aligned>\.aligned)?"
_TYPE = r"(?:\.shared::cluster)?\.(?P<t>u32|u64)"
ENTRIES: Entries = {
    "barrier": ((r"\.cluster\.arrive(?P<sem>\.release|\.relaxed)?" + _ALIGNED,
                 statement("S.clusters.arrive({sem!r}, {aligned!r}, {pc})")),
                (r"\.cluster\.wait(?:\.acquire)?" + _ALIGNED, statement("S.clusters.wait({aligned!r}, {pc})"))),
    "mapa": ((_TYPE, mapa),),
    "getctarank": ((_TYPE, expression("u4", "S.clusters.rank_of({0})", "t")),),
}
