"""Where the local tiles take most registers, compared with all paths through small programs."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ir.paths import ONE, ZERO, I, numbered, programs
from tests.support.profiles import times
from tilejit.dtypes import bool_, float16, float32, float64, int32
from tilejit.ir import nodes as ir
from tilejit.ir import walk
from tilejit.ir.analyses.pressure import most_live, words
from tilejit.layout import TileLayout

TYPES = (float32, float16, float64, float32)


def tile(number: int, size: int = 4) -> ir.Buffer:
    dtype = TYPES[number % len(TYPES)]
    return ir.Buffer(f"t{number}", "local", dtype, (size,), TileLayout.row_major((size,)), dtype.bytes)


#: of different sizes, so that sums differ
TILES = tuple(tile(number, size) for number, size in enumerate((2, 4, 6, 9)))
MEMORY = ir.Buffer("g", "global", float32, (64,), ir.Strided((1,), 16), 16)


def region(buffer: ir.Buffer, extent: int | None = None) -> ir.Region:
    size = buffer.shape[0]
    assert isinstance(size, int)
    return ir.Region(buffer, (ZERO,), (extent or size,))


def op(name: str, *operands: ir.Region | ir.Expr) -> ir.TileOp:
    return ir.TileOp(name, "thread", operands)


def written(buffer: ir.Buffer) -> ir.TileOp:
    return op("copy", region(buffer), region(MEMORY, extent=region(buffer).extents[0]))


def read(buffer: ir.Buffer) -> ir.TileOp:
    return op("copy", region(MEMORY, extent=region(buffer).extents[0]), region(buffer))


def half_written(buffer: ir.Buffer) -> ir.TileOp:
    return op("copy", region(buffer, extent=1), region(MEMORY, extent=1))


LEAVES = st.builds(lambda make, buffer: make(buffer), st.sampled_from((written, read, read)), st.sampled_from(TILES))
PARTS = st.one_of(LEAVES, st.builds(half_written, st.sampled_from(TILES)))
ALLOCATED = tuple(ir.Alloc(buffer) for buffer in TILES)


def every_path(body: walk.Block, turns: int) -> list[tuple[list[ir.Stmt], str]]:
    """The statements of each path, whatever conditions say, and how it ends."""
    paths: list[tuple[list[ir.Stmt], str]] = [([], "end")]
    for stmt in body:
        ends = [path for path, way in paths if way == "end"]
        parts = _parts(stmt, turns)
        paths = [path for path in paths if path[1] != "end"]
        paths += [([*path, *part], way) for path in ends for part, way in parts]
    return paths


def _parts(stmt: ir.Stmt, turns: int) -> list[tuple[list[ir.Stmt], str]]:
    if isinstance(stmt, ir.If):
        return every_path(stmt.then, turns) + every_path(stmt.orelse, turns)
    if not isinstance(stmt, (ir.For, ir.Loop)):
        is_jump = isinstance(stmt, (ir.Break, ir.Continue, ir.Return))
        return [([stmt], type(stmt).__name__ if is_jump else "end")]
    done: list[tuple[list[ir.Stmt], str]] = []
    going: list[list[ir.Stmt]] = [[]]
    for _ in range(turns):
        done += [(path, "end") for path in going if isinstance(stmt, ir.For)]
        body = every_path(stmt.body, turns)
        done += [([*path, *turn], "end") for path in going for turn, way in body if way == "Break"]
        done += [([*path, *turn], "Return") for path in going for turn, way in body if way == "Return"]
        going = [[*path, *turn] for path in going for turn, way in body if way in ("end", "Continue")]
    return done + [(path, "end") for path in going if isinstance(stmt, ir.For)]


def live_at_most(body: walk.Block) -> int:
    """The words of the elements that are written on some path to a point and read on some path from there, at most."""
    written_before: dict[int, set[tuple[str, int]]] = {}
    read_after: dict[int, set[tuple[str, int]]] = {}
    at_end: dict[int, set[tuple[str, int]]] = {}
    read_after: dict[int, set[tuple[str, int]]] = {}
    for path, _ in every_path(body, 2):
        begun: set[tuple[str, int]] = set()
        for stmt in path:
            key = id(stmt)
            written_before.setdefault(key, set()).update(begun)
            begun |= elements(walk.writes(stmt))
            at_end.setdefault(key, set()).update(begun)
        live: set[tuple[str, int]] = set()
        for stmt in reversed(path):
            key = id(stmt)
            read_after.setdefault(key, set()).update(live)
            live = live - elements(walk.writes(stmt)) | elements(walk.reads(stmt))
            read_after.setdefault(key, set()).update(live)
    points = [(written_before[key], read_after[key]) for key in written_before]
    points += [(at_end[key], read_after[key]) for key in at_end]
    return max((counted(begun & live) for begun, live in points), default=0)


def elements(places: object) -> set[tuple[str, int]]:
    return {
        (place.buffer.name, place.starts[0].value + k)
        for place in places  # type: ignore[attr-defined]
        if place.buffer.space == "local"
        for k in range(place.extents[0])
    }


def counted(live: set[tuple[str, int]]) -> int:
    total = 0
    for buffer in TILES:
        held = sum(name == buffer.name for name, _ in live)
        total += -(-held * buffer.dtype.bits // 32)
    return total


@settings(max_examples=times(5))
@given(st.lists(LEAVES, max_size=12).map(tuple).map(numbered))
def test_straight_text_is_counted_exactly(body: walk.Block) -> None:
    assert most_live((*ALLOCATED, *body)).words == live_at_most(body)


@settings(max_examples=times(5))
@given(programs(PARTS, depth=1))
def test_no_path_has_more(body: walk.Block) -> None:
    everything = sum(map(words, TILES))
    assert live_at_most(body) <= most_live((*ALLOCATED, *body)).words <= everything


def test_tiles_that_follow_each_other_are_not_added_up() -> None:
    body = tuple(make(buffer) for buffer in TILES for make in (written, read))
    made = most_live((*ALLOCATED, *body))
    assert made.words == max(map(words, TILES)) == 12
    assert [buffer.name for buffer, _ in made.tiles] == ["t2"]


def test_what_a_loop_carries_counts_in_all_of_it() -> None:
    a, b, c, _ = TILES
    loop = ir.For(I, ZERO, ir.Var("n", int32), ONE, (written(c), read(c), read(b)))
    made = most_live((*ALLOCATED, written(a), read(a), written(b), loop))
    assert {buffer.name: count for buffer, count in made.tiles} == {"t1": 2, "t2": 12}


def test_operands_are_live_before_an_operation_and_its_result_after() -> None:
    x, y, z = (tile(number, 8) for number in (4, 8, 12))
    body = (written(x), written(y), op("add", region(z), region(x), region(y)), read(z))
    made = most_live((*(ir.Alloc(buffer) for buffer in (x, y, z)), *body))
    assert made.words == 16 and {buffer.name for buffer, _ in made.tiles} == {"t4", "t8"}
    assert made.stmt is body[2] or made.stmt is body[1]


def test_constants_and_what_is_elsewhere_take_no_registers() -> None:
    a, b = tile(4, 8), tile(8, 8)
    body = (ir.Alloc(a), ir.Alloc(b), op("fill", region(a), ir.Const(0.0, float32)), written(b), read(a), read(b))
    assert [buffer.name for buffer, _ in most_live(body).tiles] == ["t8"]
    assert most_live(body, {"t8"}).tiles == ()


def test_packed_elements_share_a_register() -> None:
    for dtype, count in ((float16, 4), (bool_, 2), (float32, 7), (float64, 14)):
        buffer = ir.Buffer("t", "local", dtype, (7,), TileLayout.row_major((7,)), dtype.bytes)
        assert words(buffer) == count


def test_what_is_only_reduced_passes_through() -> None:
    x, y, z, s = tile(4, 8), tile(8, 8), tile(12, 8), tile(16, 1)
    allocated = tuple(ir.Alloc(buffer) for buffer in (x, y, z, s))
    chain = (written(x), op("exp", region(y), region(x)), op("mul", region(z), region(y), region(x)))
    reduced = ir.TileOp("sum", "thread", (region(s), region(z)), (("axis", (0,)),))
    assert most_live((*allocated, *chain, reduced, read(x))).words == 8
    # after a barrier it must have been kept
    barrier = ir.Sync("cta")
    assert most_live((*allocated, *chain, barrier, reduced, read(x))).words == 16
    # and so must what is stored as well
    assert most_live((*allocated, *chain, reduced, read(z), read(x))).words == 16
