"""Layouts for open tiles, whose layouts the user leaves to the compiler.

Layouts are chosen per axis rather than per tile. Tiles of one operation share axes (`axes`), and each tile's layout is
the projection of the grid of its axes (`layout.grid`). Fixed layouts, such as those of tensor cores, propagate to the
tiles around them (`fixed`). For the other tiles the cheapest of several grids is chosen (`choose`). If the tiles of an
operation still disagree, some are converted or recomputed (`repair`).

Costs are integers, and tiles are processed in program order, so a kernel gets the same layouts in every run. Regular
patterns in the results, such as few lanes per row, follow from `lower.weights` alone; `tests/golden/open` has examples.
"""

from .layouts import LaidOut, LayoutChoice, lay_out

__all__ = ["LaidOut", "LayoutChoice", "lay_out"]
