"""Layouts for the tiles that nobody laid out.

Not tiles get layouts but axes get a grid: tiles that meet in an operation share axes (`axes`), and each tile's layout
is the projection of its axes' grid (`layout.grid`). Layouts that are fixed, as those of tensor cores, spread from where
they stand (`anchors`). For what they don't reach the cheapest grid is chosen (`choose`) for what the operations ask
(`demand`), by `cost`. Where an operation's tiles still disagree, one of them is converted (`repair`).
"""

from .layouts import LaidOut, LayoutChoice, lay_out

__all__ = ["LaidOut", "LayoutChoice", "lay_out"]
