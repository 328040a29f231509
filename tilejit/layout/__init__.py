"""Layouts: integer functions from the elements of a tile to memory offsets, threads and registers."""

from .axes import Axis, TCol, Term, TLane, laneid, m, tid_in_wg, tx, warpid, wgid, wid_in_wg
from .build import R, S
from .fragments import layout_a, layout_b, layout_c
from .grouping import common_refinement, group_many
from .iters import Iter, digits, weights
from .stock import (
    TCGEN05_SHAPES,
    Tcgen05Atom,
    Tcgen05Shape,
    swizzled_atom_layout,
    tcgen05_atom,
    tcgen05_atom_layout,
    tmem_datapath_layout,
    wg_local,
)
from .swizzle import Swizzle
from .tensor_memory import TMEM_LANES, atom_layout, datapath
from .tile_layout import Replica, TileLayout

__all__ = [
    "TCGEN05_SHAPES", "TMEM_LANES", "Axis", "Iter", "R", "Replica", "S", "Swizzle", "TCol", "TLane", "Tcgen05Atom",
    "Tcgen05Shape", "Term", "TileLayout", "atom_layout", "common_refinement", "datapath", "digits", "group_many",
    "laneid", "layout_a", "layout_b", "layout_c", "m", "swizzled_atom_layout", "tcgen05_atom", "tcgen05_atom_layout",
    "tid_in_wg", "tmem_datapath_layout", "tx", "warpid", "weights", "wg_local", "wgid", "wid_in_wg",
]
