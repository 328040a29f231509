"""Local tiles made from others: the same threads, other registers or fewer dimensions."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.kernels.drawn_operands import Data


@st.composite
def rearranged(draw: st.DrawFn, tile: Data) -> Data:
    """The same tile in the same threads, the registers in another order."""
    shard = tile["layout"]["shard"]
    own = draw(st.permutations([k for k, (_, _, axis) in enumerate(shard) if axis == "m"]))
    return {**tile, "layout": {**tile["layout"], "shard": _packed(shard, own)}}


@st.composite
def broadcast(draw: st.DrawFn, tile: Data) -> Data:
    """A tile that broadcasts to `tile`: some dimensions have one element, the first ones may be missing.

    Threads that held different elements along these hold the same now.
    """
    groups = _groups(tile)
    single = [draw(st.booleans()) for _ in groups]
    replica = list(tile["layout"].get("replica") or [])
    shape, shard = [], []
    for group, extent, is_single in zip(groups, tile["shape"], single, strict=True):
        if is_single:
            replica += [place for place in group if place[2] != "m"]
        else:
            shard += group
        shape.append(1 if is_single else extent)
    while shape and single[0] and draw(st.booleans()):
        shape, single = shape[1:], single[1:]
    shard = _packed(shard, [k for k, (_, _, axis) in enumerate(shard) if axis == "m"]) or [(1, 1, "m")]
    return {
        **tile,
        "shape": shape or [1],
        "region": [(0, n) for n in shape or [1]],
        "layout": {"shard": shard, "replica": replica},
    }


def _groups(tile: Data) -> list[list[tuple[int, int, str]]]:
    """The digits of each dimension of a tile whose dimensions are whole digits."""
    left = list(tile["layout"]["shard"])
    found = []
    for extent in tile["shape"]:
        group, size = [], 1
        while size < extent:
            group.append(left.pop(0))
            size *= group[-1][0]
        found.append(group)
    return found


def _packed(shard: list[tuple[int, int, str]], order: list[int]) -> list[tuple[int, int, str]]:
    """The digits with new strides for those in `order`, the nearest first."""
    strides, step = {}, 1
    for k in order:
        strides[k], step = step, step * shard[k][0]
    return [(e, strides.get(k, s), axis) for k, (e, s, axis) in enumerate(shard)]
