"""Layouts: integer functions from the indices of a tile's elements to memory offsets, threads and registers."""

from .axes import Axis, TCol, Term, TLane, laneid, m, tid_in_wg, tx, warpid, wgid, wid_in_wg
from .build import R, S, swizzled_atom_layout
from .fragments import layout_a, layout_b, layout_c
from .iters import Iter, common_refinement, digits, weights
from .swizzle import Swizzle
from .tensor_memory import TCGEN05_SHAPES, TMEM_LANES, Tcgen05Shape, atom_layout, datapath
from .tile_layout import Replica, TileLayout

__all__ = [
    "TCGEN05_SHAPES", "TMEM_LANES", "Axis", "Iter", "R", "Replica", "S", "Swizzle", "TCol", "TLane", "Tcgen05Shape",
    "Term", "TileLayout", "atom_layout", "common_refinement", "datapath", "digits", "laneid", "layout_a", "layout_b",
    "layout_c", "m", "swizzled_atom_layout", "tid_in_wg", "tx", "warpid", "weights", "wgid", "wid_in_wg",
]
