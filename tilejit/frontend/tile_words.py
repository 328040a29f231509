"""The handlers of the words on tiles that have modules of their own: scans, sorts, rearrangements, and others."""

from __future__ import annotations

from functools import partial

from ..ops.fold import CUMULATIVE
from . import inline, nibbles, products, random, rearranging, scans, scratch, sorting
from .arguments import Handler

HANDLERS: dict[str, Handler] = {
    "scan": scans.scan,
    **{name: partial(scans.cumulative, name) for name in CUMULATIVE},
    **sorting.HANDLERS,
    "gather": rearranging.gather,
    "flip": rearranging.flip,
    "roll": rearranging.roll,
    "histogram": rearranging.histogram,
    **random.HANDLERS,
    "unpack": nibbles.unpack,
    "ptx": inline.ptx,
    "matmul": products.matmul,
    "scratch": scratch.scratch,
}
