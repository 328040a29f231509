"""What the compiler takes to be pending is what is pending on some path through the program."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ir.paths import programs, run
from tests.support.profiles import times
from tilejit.dtypes import float32, int32
from tilejit.errors import KernelTypeError
from tilejit.ir import nodes as ir
from tilejit.ir import walk
from tilejit.layout import TileLayout, datapath
from tilejit.lower.passes.pending import add_wait_registers

OUT = ir.Buffer("A", "global", float32, (8,), ir.Strided((1,), 16), 16)
TMEM = ir.Buffer("t", "tmem", float32, (128, 8), datapath("D", 128, 8), 4)
TILES = [ir.Buffer(name, "local", float32, (1,), TileLayout.row_major((1,)), 4) for name in ("q", "r")]
WAIT = ir.Instruction("tcgen05.wait.ld")


def only(buffer: ir.Buffer) -> ir.Vector:
    return ir.Vector(buffer, ir.Const(0, int32))


def load(tile: ir.Buffer) -> ir.Instruction:
    return ir.Instruction("tcgen05.ld.32x32b.x1", (only(tile),), (only(TMEM),))


LOADS = {load(tile): tile.name for tile in TILES}
USES = {ir.Move(only(OUT), only(tile)): tile.name for tile in TILES}

#: the tiles that are being loaded on one path
Loading = frozenset[str]


class Paths:
    """All paths through a program: the lines of uses that come too early, and what is loading at each wait's line."""

    def __init__(self, body: walk.Block) -> None:
        self.early: set[int] = set()
        self.loading: dict[int, Loading] = defaultdict(frozenset)
        run(body, {frozenset()}, self.step)

    def step(self, stmt: ir.Stmt, loading: Loading) -> Loading:
        assert stmt.span is not None
        if USES.get(stmt) in loading:
            self.early.add(stmt.span.line)
        if stmt == WAIT:
            self.loading[stmt.span.line] |= loading
            return frozenset()
        return loading | {LOADS[stmt]} if stmt in LOADS else loading


def kernel(body: walk.Block) -> ir.Kernel:
    return ir.Kernel("k", (), 128, "sm_100a", (*map(ir.Alloc, (*TILES, TMEM)), *body))


def carried(wait: ir.Instruction) -> Loading:
    return frozenset(vector.buffer.name for vector in wait.outputs)


bodies = programs(st.sampled_from([*LOADS, *USES, WAIT, WAIT]))


@given(bodies)
@settings(max_examples=times(5))
def test_a_use_is_refused_where_some_path_comes_to_it_before_a_wait(body: walk.Block) -> None:
    early = Paths(body).early
    try:
        add_wait_registers(kernel(body))
    except KernelTypeError as error:
        assert error.span is not None and error.span.line == min(early)
    else:
        assert not early


@given(bodies)
@settings(max_examples=times(5))
def test_a_wait_carries_what_is_loading_on_some_path(body: walk.Block) -> None:
    paths = Paths(body)
    if paths.early:
        return
    lines = {stmt.span.line for stmt in walk.statements(body) if stmt == WAIT and stmt.span is not None}
    kept: dict[int, Loading] = {}

    def original(stmt: ir.Stmt) -> tuple[ir.Stmt, ...]:
        """Of the user's waits without what they carry; without the compiler's."""
        if not isinstance(stmt, ir.Instruction) or stmt.name != WAIT.name:
            return (stmt,)
        if stmt.span is None or stmt.span.line not in lines:
            assert stmt.outputs, "a wait of the compiler's has something to wait for"
            return ()
        kept[stmt.span.line] = carried(stmt)
        return (replace(stmt, outputs=(), inputs=()),)

    made = add_wait_registers(kernel(body)).body[len(TILES) + 1 :]
    assert walk.rewrite(made, original) == body
    assert kept == {line: paths.loading[line] for line in lines}
