"""A verdict draws what one instruction moves: each element beside itself, with the threads that the layouts name."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilejit as tj
from tests.support.operations import Operation, operations
from tests.support.pictures import DrawnCell, cells, lines
from tilejit.errors import DispatchError
from tilejit.layout import R, S, Swizzle, TileLayout, laneid, tid_in_wg, tx
from tilejit.lower import VARIANTS, DispatchContext, Verdict
from tilejit.lower.engine import dispatch
from tilejit.svg import ABSENT, colour_of
from tilejit.testing.layouts import dense_layouts


def panels(svg: str) -> list[list[DrawnCell]]:
    """The cells of each table; within one, indices rise."""
    tables: list[list[DrawnCell]] = []
    for cell in cells(svg):
        if not tables or cell.index <= tables[-1][-1].index:
            tables.append([])
        tables[-1].append(cell)
    return tables


def moved(panel: list[DrawnCell]) -> dict[tuple[int, ...], str]:
    """index -> label, of what is moved; other cells have neither a label nor a colour."""
    for cell in panel:
        assert (cell.label == "") == (cell.fill == ABSENT)
    return {cell.index: cell.label for cell in panel if cell.label}


def all_moves(verdict: Verdict[Any]) -> list[list[dict[tuple[int, ...], str]]]:
    """What each issue of the first warp moves, in each table."""
    (line,) = (line for line in " ".join(lines(verdict.draw().svg)).split(", ") if line.startswith("issue 0 of "))
    issues = int(line.split()[-1])
    with pytest.raises(DispatchError, match=f"{verdict.variant} has {issues} issues?, .*; got issue {issues}"):
        verdict.draw(issues)
    return [[moved(panel) for panel in panels(verdict.draw(issue).svg)] for issue in range(issues)]


def matrix_load() -> Verdict[Any]:
    src = tj.operand("shared", (16, 16), tj.float16, S[(16, 16)])
    dst = tj.operand("local", (16, 16), tj.float16, tj.mma.layout_a((16, 16), tj.float16))
    return tj.dispatch("copy", "warp", dst, src, threads=32)


def test_ldmatrix_gives_each_lane_two_elements_of_a_row_of_each_tile() -> None:
    verdict = matrix_load()
    source, destination = panels(verdict.draw().svg)
    assert verdict.variant == "ldstmatrix"
    # source: PTX ISA, "ldmatrix": lane l gets elements 2(l%4) and 2(l%4)+1 of row l//4
    lanes = {(r, c): 4 * (r % 8) + c % 8 // 2 for r, c in product(range(16), range(16))}
    assert moved(source) == {index: f"{lane}" for index, lane in lanes.items()}
    assert {index: label.split(":")[0] for index, label in moved(destination).items()} == moved(source)
    assert {cell.index: cell.fill for cell in source} == {index: colour_of(lane) for index, lane in lanes.items()}


def test_the_first_threads_elements_have_borders_on_both_sides() -> None:
    for panel in panels(matrix_load().draw().svg):
        bordered = {cell.index for cell in panel if "#1b1f24" in cell.stripes}
        assert bordered == set(product((0, 8), (0, 1))) | set(product((0, 8), (8, 9)))


def test_the_lines_below_name_the_instruction_the_issue_and_the_layouts() -> None:
    text = lines(matrix_load().draw().svg)
    assert "warp.copy by ldstmatrix: ldmatrix.sync.aligned.m8n8.x4.shared.b16, issue 0 of 1, warp 0" in text
    assert "labels: thread in shared memory; thread:register in local memory; borders: all that thread 0 moves" in text
    assert "src: shared float16[16, 16]" in text and "src: S[(16, 16) : (16, 1)]" in text


@given(st.data(), dense_layouts(most_register_bits=2), st.booleans(), st.sampled_from([None, Swizzle(2, 2, 3)]))
def test_a_copy_of_any_registers_shows_each_element_once_with_its_owner(
    data: st.DataObject, layout: TileLayout, loads: bool, swizzle: Swizzle | None
) -> None:
    rows = 1 << data.draw(st.integers(3, 4))
    shape = rows, layout.size() // rows
    registers = tj.operand("local", shape, tj.float32, layout)
    memory = tj.operand("shared", shape, tj.float32, TileLayout.row_major(shape, swizzle))
    verdict = tj.dispatch("copy", "warp", *((registers, memory) if loads else (memory, registers)), threads=32)
    shown: dict[tuple[int, ...], str] = {}
    for source, destination in all_moves(verdict):
        local, shared = (destination, source) if loads else (source, destination)
        assert {index: label.split(":")[0] for index, label in local.items()} == shared
        assert not shown.keys() & local.keys()
        shown |= local
    owners = {index: layout.owners(*index, shape=shape) for index in product(*map(range, shape))}
    assert shown == {index: f"{thread}:{register}" for index, ((thread, register),) in owners.items()}


@given(st.data(), dense_layouts(most_register_bits=2))
def test_a_copy_between_registers_shows_each_element_where_each_side_has_it(
    data: st.DataObject, src: TileLayout
) -> None:
    dst = data.draw(dense_layouts(most_register_bits=2).filter(lambda other: other.size() == src.size()))
    shape = 8, src.size() // 8
    both = (tj.operand("local", shape, tj.float32, layout) for layout in (dst, src))
    verdict = tj.dispatch("copy", "warp", *both, threads=32)
    stages = all_moves(verdict)
    seen: tuple[dict[tuple[int, ...], str], ...] = {}, {}
    for source, destination in stages:
        seen[0].update({index: label for index, label in source.items() if ":" in label})
        seen[1].update({index: label for index, label in destination.items() if ":" in label})
    for layout, shown in zip((src, dst), seen, strict=True):
        owners = {index: layout.owners(*index, shape=shape) for index in product(range(shape[0]), range(shape[1]))}
        assert shown == {index: f"{thread}:{register}" for index, ((thread, register),) in owners.items()}


@pytest.mark.parametrize("warp", [0, 1])
def test_each_warp_has_its_own_picture(warp: int) -> None:
    dst, src = (tj.operand(space, (8, 32), tj.float32) for space in ("shared", "global"))
    verdict = tj.dispatch("copy", "cta", dst, src, threads=64)
    threads = {cell.label for panel in panels(verdict.draw(0, warp).svg) for cell in panel if cell.label}
    assert threads <= {str(32 * warp + lane) for lane in range(32)} and str(32 * warp) in threads


def test_a_warp_that_moves_nothing_has_a_picture_that_says_so() -> None:
    dst, src = (tj.operand(space, (8, 8), tj.float32) for space in ("shared", "global"))
    picture = tj.dispatch("copy", "cta", dst, src, threads=64).draw(0, 1)
    assert "this warp moves nothing in this issue" in " ".join(lines(picture.svg))
    assert not any(cell.label for cell in cells(picture.svg))


def test_tensor_memory_shows_threads_with_lane_and_column() -> None:
    dst = tj.operand("local", (128, 8), tj.float32, S[(128, 8) : (1 @ tid_in_wg, 1)])
    src = tj.operand("tmem", (128, 8), tj.float32, tj.tmem.datapath("D", 128, 8))
    verdict = tj.dispatch("copy_async", "warpgroup", dst, src, threads=128, target="sm_100a")
    source, destination = panels(verdict.draw(0, 2).svg)
    assert moved(source)[(64, 3)] == "64,64,3" and moved(destination)[(64, 3)] == "64:3"


def test_replicas_that_are_loaded_have_a_plus_and_stripes() -> None:
    dst = tj.operand("local", (8,), tj.float32, S[8 : 1 @ laneid] + R[4 : 8 @ laneid])
    verdict = tj.dispatch("copy", "warp", dst, tj.operand("shared", (8,), tj.float32), threads=32)
    (_, destination) = panels(verdict.draw().svg)
    assert moved(destination)[(3,)] == "3:0+"
    assert set(map(colour_of, (11, 19, 27))) <= set(destination[3].stripes)


def test_a_large_copy_shows_what_is_moved_and_counts_what_is_left_out() -> None:
    dst, src = (tj.operand(space, (256, 64), tj.float32) for space in ("shared", "global"))
    verdict = tj.dispatch("copy", "cta", dst, src, threads=128)
    picture = verdict.draw(verdict.plan.facts().rounds - 1, 3)
    source, destination = (moved(panel) for panel in panels(picture.svg))
    assert source == destination and {row for row, _ in source} == {254, 255}
    assert any("of 256 rows" in line and "of 64 columns" in line for line in lines(picture.svg))


@pytest.mark.parametrize("issue", [-1, 2, 99])
def test_an_issue_that_the_plan_lacks_is_refused_with_those_it_has(issue: int) -> None:
    dst = tj.operand("local", (32, 8), tj.float32, S[(32, 8) : (1 @ laneid, 1)])
    verdict = tj.dispatch("copy", "warp", dst, tj.operand("shared", (32, 8), tj.float32), threads=32)
    with pytest.raises(DispatchError, match=f"reg has 2 issues, numbered from 0; got issue {issue}"):
        verdict.draw(issue)


def test_what_reduces_has_no_moves_to_draw() -> None:
    dst = tj.operand("local", (32,), tj.float32, S[32 : 1 @ tx])
    src = tj.operand("local", (32, 4), tj.float32, S[(32, 4) : (1 @ tx, 1)])
    with pytest.raises(DispatchError, match="doesn't move the elements of sum one by one"):
        tj.dispatch("sum", "cta", dst, src, threads=32, axis=(1,)).draw()


def test_elements_that_share_a_place_are_moved_together() -> None:
    src = tj.operand("global", (4,), tj.float32, S[4:0])
    verdict = tj.dispatch("copy", "warp", tj.operand("shared", (4,), tj.float32), src, threads=32)
    source, destination = panels(verdict.draw().svg)
    assert moved(source) == {(k,): "0+" for k in range(4)}
    assert moved(destination) == {(k,): f"{k}" for k in range(4)}


@given(operations(("copy", "copy_async", "reshape", "add", "cast")))
def test_whatever_is_dispatched_is_drawn_with_a_table_for_each_tile(operation: Operation) -> None:
    op = operation.op
    try:
        verdict = dispatch(op, DispatchContext(operation.target, operation.threads), VARIANTS)
    except DispatchError:
        return
    svg = verdict.draw().svg
    step = op if verdict.variant != "through_shared" else verdict.plan.store.op
    for region in step.tiles.values():
        name = region.buffer.name
        assert f"{name}: {region.buffer.space} {region.dtype}{list(region.shape)}" in lines(svg)
    if op.name in ("copy", "copy_async") and len(op.tiles) == 2 and verdict.variant != "through_shared":
        each = panels(svg)
        shown = [{cell.index for cell in panel} for panel in each]
        both = set.intersection(*shown)
        source, destination = (moved(panel).keys() & both for panel in each)
        # of a place that elements of the source share, all of them are shown
        assert len(each) == 2 and destination <= source
