"""Upstream's cases as questions for the dispatcher."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np

from tilejit.dtypes import DTYPES
from tilejit.ir.nodes import Var
from tilejit.layout import Swizzle, TileLayout
from tilejit.lower.ask import OperandSpec, operand, sym

DATA = Path(__file__).parents[1] / "data"

Case = dict[str, Any]


def load(name: str) -> list[Case]:
    cases: list[Case] = json.loads((DATA / f"{name}.json").read_text())
    return cases


def layout_of(data: Case) -> TileLayout:
    swizzle = data.get("swizzle")
    found = None
    if swizzle is not None:
        order = (swizzle["swizzle_len"], swizzle["per_element"], swizzle["atom_len"])
        found = Swizzle(*order, inner=swizzle["inner"])
    shard = [tuple(it) for it in data["shard"]]
    replica = [tuple(it) for it in data.get("replica", [])]
    return TileLayout.from_iters(shard, replica, data.get("offset"), found)


def start_of(start: int | Case) -> int | Var:
    """A start; of a run-time one the greatest number that divides all of its terms."""
    if isinstance(start, int):
        return start
    text = start["sym"]
    factors = [[int(f) for f in term.split("*") if f.isdigit()] for term in text.split("+")]
    return sym(text, multiple_of=gcd(*(f[0] if f else 1 for f in factors)))


def operand_of(data: Case, align: int | None = None) -> OperandSpec:
    region = [(start_of(s), e) for s, e in data["region"]]
    space, dtype, layout = data["scope"], DTYPES[data["dtype"]], layout_of(data["layout"])
    if space != "local":
        return operand(space, data["shape"], dtype, layout, region=region, align=align)
    # some cases ask about threads that a warp doesn't have, which `operand` refuses already
    return replace(operand(space, data["shape"], dtype, region=region, align=align), layout=layout)


def digest(rows: np.ndarray) -> str:
    text = "\n".join(" ".join(str(x) for x in row) for row in rows.tolist())
    return hashlib.sha1(text.encode()).hexdigest()[:16]


def is_static(case: Case) -> bool:
    return '"sym"' not in json.dumps(case)
