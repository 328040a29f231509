"""Random copies between tensor memory and registers: any regions, types and shapes, several in flight at a time."""

from __future__ import annotations

from hypothesis import given, reject, settings
from hypothesis import strategies as st

from tests.kernels.tensor_memory.moves import WAITS, Move, Tile, check
from tests.kernels.tensor_memory.published_places import SIZES
from tests.support.profiles import times
from tests.support.ptx import early_uses
from tilejit.dtypes import DTYPES
from tilejit.errors import ResourceError
from tilejit.ir.nodes import Stmt
from tilejit.layout import TileLayout, atom_layout, datapath

TYPES = ("float32", "int32", "float16", "bfloat16", "uint8", "int8", "float8_e4m3fn")
WAIT_LOADS, WAIT_STORES = WAITS

#: data path -> (rows, half, shapes that reach it)
PATHS = {
    "D": (128, 0, tuple(SIZES)),
    "F": (64, 0, ("16x64b", "16x128b", "16x256b")),
    "F upper": (64, 1, ("16x64b", "16x128b", "16x256b")),
}


def tile(name: str, scope: str, dtype: str, shape: tuple[int, int], layout: TileLayout) -> Tile:
    shard = [[it.extent, it.stride, it.axis.name] for it in layout.shard]
    offset = {axis.name: value for axis, value in layout.offset}
    layout_data = {"shard": shard, "offset": offset}
    return Tile(name, {"scope": scope, "dtype": dtype, "shape": list(shape), "layout": layout_data})


@st.composite
def memories(draw: st.DrawFn, dtype: str) -> list[tuple[Tile, str]]:
    """One to three allocations, each with its data path; tensor memory has room for all."""
    packed = 32 // DTYPES[dtype].bits
    found = []
    for i in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(sorted(PATHS)))
        rows, half, _ = PATHS[path]
        shape = (rows, draw(st.integers(8, 60)) * packed)
        found.append((tile(f"t{i}", "tmem", dtype, shape, datapath(path[0], *shape, half)), path))
    return found


@st.composite
def local(draw: st.DrawFn, name: str, dtype: str, path: str, most: int) -> tuple[Tile, int, int]:
    """A register tile for a data path, and a window of its columns that has at most `most` words: (tile, at, extent).

    The window starts and ends where the shape's units do: it need not be a power of two.
    """
    rows, _, shapes = PATHS[path]
    shape = draw(st.sampled_from([s for s in shapes if SIZES[s][0] <= most]))
    step = SIZES[shape][0]
    num = draw(st.sampled_from([1 << k for k in range(6) if step << k <= 64]))
    at = draw(st.integers(0, num - 1))
    units = draw(st.integers(1, min(num - at, most // step)))
    packed = 32 // DTYPES[dtype].bits
    made = tile(name, "local", dtype, (rows, num * step * packed), atom_layout(shape, num, DTYPES[dtype], rows))
    return made, at * step * packed, units * step * packed


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[Move | Stmt], list[Tile]]:
    """Batches of copies in any order, then the waits: within a batch no two touch the same columns or registers."""
    dtype = draw(st.sampled_from(TYPES))
    packed = 32 // DTYPES[dtype].bits
    places = draw(memories(dtype))
    tiles = [t for t, _ in places]
    steps: list[Move | Stmt] = []
    for _ in range(draw(st.integers(1, 3))):
        moves = []
        for memory, path in places:
            columns = memory.shape[1] // packed
            cuts = sorted(draw(st.sets(st.integers(1, columns - 1), max_size=2)))
            for start, end in zip([0, *cuts], [*cuts, columns], strict=True):
                if end - start < 2 or draw(st.integers(0, 3)) == 0:
                    continue
                held, at, extent = draw(local(f"r{len(tiles)}", dtype, path, end - start))
                tiles.append(held)
                rows = [0, held.shape[0]]
                column = start + draw(st.integers(0, end - start - extent // packed))
                there, here = (memory, (rows, [column * packed, extent])), (held, (rows, [at, extent]))
                moves.append(Move(*there, *here) if draw(st.booleans()) else Move(*here, *there))
        for move in draw(st.permutations(moves)):
            steps.append(move)
            if draw(st.integers(0, 4)) == 0:
                steps.append(draw(st.sampled_from(WAITS)))
        steps += draw(st.permutations(WAITS))
    return steps, tiles


@settings(max_examples=times(0.8))
@given(programs(), st.integers(0, 1 << 16))
def test_any_copies_in_flight_together_move_each_element_to_its_place(
    program: tuple[list[Move | Stmt], list[Tile]], seed: int
) -> None:
    try:
        made = check(*program, seed)
    except ResourceError as refused:
        assert "registers per thread" in refused.message
        reject()
    assert early_uses(made.ptx) == []
