"""Layouts: where each element of a tile lives, in plain integers."""

from tilejit.layout.axes import (
    Axis,
    TCol,
    Term,
    TLane,
    laneid,
    m,
    tid_in_wg,
    tx,
    warpid,
    wgid,
    wid_in_wg,
)
from tilejit.layout.build import R, S
from tilejit.layout.draw import svg
from tilejit.layout.fragments import layout_a, layout_b, layout_c
from tilejit.layout.grouping import common_refinement, group_many
from tilejit.layout.iters import Iter, digits, weights
from tilejit.layout.stock import (
    TCGEN05_SHAPES,
    Tcgen05Atom,
    Tcgen05Shape,
    swizzled_atom_layout,
    tcgen05_atom,
    tcgen05_atom_layout,
    tmem_datapath_layout,
    wg_local,
)
from tilejit.layout.swizzle import Swizzle
from tilejit.layout.tensor_memory import atom_layout, datapath
from tilejit.layout.tile_layout import Replica, TileLayout

__all__ = [
    "TCGEN05_SHAPES",
    "Axis",
    "Iter",
    "R",
    "Replica",
    "S",
    "Swizzle",
    "TCol",
    "TLane",
    "Tcgen05Atom",
    "Tcgen05Shape",
    "Term",
    "TileLayout",
    "atom_layout",
    "common_refinement",
    "datapath",
    "digits",
    "group_many",
    "laneid",
    "layout_a",
    "layout_b",
    "layout_c",
    "m",
    "svg",
    "swizzled_atom_layout",
    "tcgen05_atom",
    "tcgen05_atom_layout",
    "tid_in_wg",
    "tmem_datapath_layout",
    "tx",
    "warpid",
    "weights",
    "wg_local",
    "wgid",
    "wid_in_wg",
]
