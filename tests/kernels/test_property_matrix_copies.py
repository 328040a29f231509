"""Random copies through ldmatrix and stmatrix as PTX: all of the destination's storage against the longhand oracle."""

from __future__ import annotations

from math import gcd, prod
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.lower.test_ldstmatrix import Copy, copies
from tests.reference import tiles
from tests.support.operands import Operand, bits
from tests.support.running import launch
from tilejit.ir import nodes
from tilejit.runtime.device import Device


def tile_and_memory(copy: Copy) -> list[dict[str, Any]]:
    """The two sides as plain numbers."""
    whole = {"dtype": copy.dtype.name, "shape": list(copy.shape), "region": [[0, n] for n in copy.shape]}
    held = [[e, s, "m"] for e, s in zip(copy.tiles, copy.word, strict=True)]
    there = [[e, s, "m"] for e, s in zip(copy.tiles, copy.place, strict=True)]
    warps = [copy.shape[0], 32, copy.axis]
    tile = {
        "shard": [warps, [8, 4, copy.axis], [4, 1, copy.axis], *held, [2, 1, "m"]],
        "replica": [[copy.warps, 32, copy.axis]] if copy.replicated else [],
        "offset": {"m": copy.first_word},
    }
    memory = {
        "shard": [[copy.shape[0], copy.warp_place, "m"], [8, copy.row, "m"], [4, copy.quad, "m"], *there,
                  [2, copy.pair, "m"]],
        "offset": {"m": copy.first_place},
        "swizzle": swizzle_of(copy),
    }
    return [{**whole, "scope": "local", "layout": tile}, {**whole, "scope": "shared", "layout": memory}]


def swizzle_of(copy: Copy) -> dict[str, Any] | None:
    s = copy.swizzle
    if s is None:
        return None
    return {"per_element": s.base, "swizzle_len": s.bits, "atom_len": s.shift, "inner": s.inner}


@given(copies(), st.booleans())
def test_a_matrix_copy_of_any_tiles_moves_every_element_and_no_other(device: Device, copy: Copy, loads: bool) -> None:
    sides = tile_and_memory(copy)
    dst, src = (
        Operand(name, data, copy.threads)
        for name, data in zip(("dst", "src"), sides if loads else sides[::-1], strict=True)
    )
    random = np.random.default_rng(prod(copy.shape))
    held = {o.name: bits(o, random) for o in (dst, src)}
    if not loads:
        # every instance writes to one place, which is no race where the values are equal
        held["src"] = tiles.equal_in_instances(src, copy.scope, held["src"])
    operation = nodes.TileOp("copy", copy.scope, (dst.region(), src.region()))
    found, made = launch(operation, [dst, src], held, device)
    np.testing.assert_array_equal(found, tiles.copied(dst, src, copy.scope, held["dst"], held["src"]))
    num = gcd(4, prod(copy.tiles))
    name = f"{'ld' if loads else 'st'}matrix.sync.aligned.m8n8.x{num}{'.trans' * (copy.row == 1)}.shared.b16 "
    assert made.ptx.count(name) == made.ptx.count("matrix.sync") == prod(copy.tiles) // num
