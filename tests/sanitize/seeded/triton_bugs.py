"""Seeded bugs of Triton programs."""

from __future__ import annotations

from .bug import Bug

BUGS: tuple[Bug, ...] = (
    Bug(
        name="store_without_mask",
        file="triton/add.py",
        old="tl.store(out_ptr + offsets, x + y, mask=mask)",
        new="tl.store(out_ptr + offsets, x + y)",
        line="tl.store(out_ptr + offsets, x + y)",
        rule="bounds",
        kind="a store whose mask is left out",
        interpreter="silent",
    ),
)
