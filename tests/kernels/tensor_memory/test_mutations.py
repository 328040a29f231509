"""Bugs seeded into emitted PTX: the simulator reports each with the Python lines, the sixth rung of the evidence."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import tilejit as tj
from tests.mutations.edits import Program, names_lines, run_edited

Edit = Callable[[str], str]


def run_round(kernel: tj.Kernel, columns: int) -> None:
    a, b = arrays(columns)
    kernel[1](a, b)
    np.testing.assert_array_equal(a, b)


def arrays(columns: int) -> list[np.ndarray]:
    numbers = np.random.default_rng(columns).permutation(128 * columns).reshape(128, columns)
    return [numbers.astype(np.float32) + 1, np.zeros((128, columns), np.float32)]


ROUND = Program(
    """
@tj.kernel(threads=128)
def k(A: tj.Tensor = tj.spec((128, 32), tj.float32), B: tj.Tensor = tj.spec((128, 32), tj.float32)):  # kernel
    r = tj.alloc_local((128, 32), tj.float32, layout=tj.tcgen05.atom_layout("32x32b", 32, tj.float32))
    q = tj.alloc_local((128, 32), tj.float32, layout=tj.tcgen05.atom_layout("16x256b", 4, tj.float32))
    m = tj.alloc_tmem((128, 32), tj.float32)
    tj.wg.copy(r, A)
    tj.wg.copy_async(m, r)  # put
    tj.tcgen05.wait_st()
    tj.wg.copy_async(q, m)  # get
    tj.tcgen05.wait_ld()
    tj.wg.copy(B, q)  # use
""",
    run_round,
    (32,),
)

#: fills one of four tiles, which together take 64 columns
NARROW = Program(
    """
@tj.kernel(threads=128)
def k(A: tj.Tensor = tj.spec((128, 8), tj.float32), B: tj.Tensor = tj.spec((128, 8), tj.float32)):  # kernel
    r = tj.alloc_local((128, 8), tj.float32, layout=tj.tcgen05.atom_layout("16x64b", 4, tj.float32))
    q = tj.alloc_local((128, 8), tj.float32, layout=tj.tcgen05.atom_layout("16x128b", 2, tj.float32))
    m = tj.alloc_tmem((128, 64), tj.float32)
    tj.wg.copy(r, A)
    tj.wg.copy_async(m[0:128, 40:48], r)  # put
    tj.tcgen05.wait_st()
    tj.wg.copy_async(q, m[0:128, 40:48])  # get
    tj.tcgen05.wait_ld()
    tj.wg.copy(B, q)  # use
""",
    run_round,
    (8,),
)

#: two tiles, and registers that are loaded twice
REUSED = Program(
    """
@tj.kernel(threads=128)
def k(A: tj.Tensor = tj.spec((128, 4), tj.float32), B: tj.Tensor = tj.spec((128, 4), tj.float32)):  # kernel
    r = tj.alloc_local((128, 4), tj.float32, layout=tj.tcgen05.atom_layout("16x64b", 2, tj.float32))
    m = tj.alloc_tmem((128, 4), tj.float32)
    n = tj.alloc_tmem((128, 4), tj.float32)
    tj.wg.copy(r, A)
    tj.wg.copy_async(m, r)  # put
    tj.wg.copy_async(n, r)  # again
    tj.tcgen05.wait_st()
    tj.wg.copy_async(r, n)  # get
    tj.tcgen05.wait_ld()
    tj.wg.copy_async(r, m)  # second
    tj.tcgen05.wait_ld()
    tj.wg.copy(B, r)  # use
""",
    run_round,
    (4,),
)

#: two warpgroups, the second of which loads what the first has stored
HANDED = Program(
    """
@tj.kernel(threads=256)
def k(A: tj.Tensor = tj.spec((128, 16), tj.float32), B: tj.Tensor = tj.spec((128, 16), tj.float32)):  # kernel
    r = tj.alloc_local((128, 16), tj.float32, layout=tj.tcgen05.atom_layout("32x32b", 16, tj.float32))
    q = tj.alloc_local((128, 16), tj.float32, layout=tj.tcgen05.atom_layout("16x64b", 8, tj.float32))
    m = tj.alloc_tmem((128, 16), tj.float32)
    if tj.warpgroup_id() == 0:
        tj.wg.copy(r, A)
        tj.wg.copy_async(m, r)  # put
        tj.tcgen05.wait_st()
    tj.cta_sync()  # sync
    if tj.warpgroup_id() == 1:
        tj.wg.copy_async(q, m)  # get
        tj.tcgen05.wait_ld()
        tj.wg.copy(B, q)  # use
""",
    run_round,
    (16,),
)

PROGRAMS = {"round": ROUND, "narrow": NARROW, "reused": REUSED, "handed": HANDED}
THREADS = {HANDED: 256}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_the_programs_are_right_before_anything_is_seeded(program: Program) -> None:
    program.run(program.kernel(), program.sizes[0])


def reported(program: Program, edit: Edit, kind: type[tj.SimulationError], labels: Sequence[str]) -> str:
    with pytest.raises(tj.SimulationError) as caught:
        run_edited(program.kernel(), edit, 1, arrays(program.sizes[0]), THREADS.get(program, 128))
    names_lines(caught.value, kind, program.file, {program.line(label) for label in labels})
    return caught.value.message


def replaced(old: str, new: str | Callable[[re.Match[str]], str], count: int = 0) -> Edit:
    """An edit: all matches of a pattern, or the first `count`; there must be one."""

    def edit(ptx: str) -> str:
        found, changes = re.subn(old, new, ptx, count=count)
        assert changes, f"{old} isn't in\n{ptx}"
        return found

    return edit


def both(*edits: Edit) -> Edit:
    def edit(ptx: str) -> str:
        for each in edits:
            ptx = each(ptx)
        return ptx

    return edit


WAIT = {kind: rf"tcgen05\.wait::{kind}\.sync\.aligned;" for kind in ("ld", "st")}
#: all instructions of one kind, as one piece of text
GROUP = {kind: rf"(tcgen05\.{kind}\.[^;]*;(?s:.)*?)tcgen05\.wait::{kind}\.sync\.aligned;" for kind in ("ld", "st")}


@pytest.mark.parametrize("program", [ROUND, NARROW], ids=["round", "narrow"])
def test_a_missing_wait_for_loads_is_reported_where_their_registers_are_used(program: Program) -> None:
    message = reported(program, replaced(WAIT["ld"], ""), tj.AsyncHazardError, ("get", "use"))
    assert "before the" in message or "wait" in message


@pytest.mark.parametrize("program", [ROUND, NARROW], ids=["round", "narrow"])
def test_a_missing_wait_for_stores_is_reported_where_their_columns_are_loaded(program: Program) -> None:
    reported(program, replaced(WAIT["st"], ""), tj.AsyncHazardError, ("put", "get"))


def test_a_wait_of_the_other_kind_is_none() -> None:
    swapped = replaced(WAIT["ld"], "tcgen05.wait::st.sync.aligned;")
    reported(ROUND, swapped, tj.AsyncHazardError, ("get", "use"))
    swapped = replaced(WAIT["st"], "tcgen05.wait::ld.sync.aligned;")
    reported(ROUND, swapped, tj.AsyncHazardError, ("put", "get"))


def test_a_wait_before_the_load_is_none() -> None:
    early = replaced(GROUP["ld"], r"tcgen05.wait::ld.sync.aligned; \1")
    reported(ROUND, early, tj.AsyncHazardError, ("get", "use"))


def test_a_wait_before_the_store_is_none() -> None:
    early = replaced(GROUP["st"], r"tcgen05.wait::st.sync.aligned; \1")
    reported(ROUND, early, tj.AsyncHazardError, ("put", "get"))


def test_a_wait_between_the_two_halves_of_a_tile_leaves_the_second_one_pending() -> None:
    half = both(replaced(WAIT["ld"], ""), replaced(r"(tcgen05\.ld\.[^;]*;)", r"\1 tcgen05.wait::ld.sync.aligned;", 1))
    reported(ROUND, half, tj.AsyncHazardError, ("get", "use"))


def test_a_load_into_registers_of_an_earlier_load_that_isnt_waited_for_is_reported() -> None:
    def edit(ptx: str) -> str:
        first, _, second, _ = re.findall(r"tcgen05\.ld\.[^;]*\{([^}]*)\}", ptx)
        return re.sub(WAIT["ld"], "", ptx, count=1).replace(second, first)

    reported(REUSED, edit, tj.AsyncHazardError, ("get", "second"))


def test_a_missing_wait_is_reported_for_the_store_whose_columns_are_loaded() -> None:
    reported(REUSED, replaced(WAIT["st"], ""), tj.AsyncHazardError, ("again", "get"))


def shifted(kind: str, offset: int) -> Edit:
    """Adds to the addresses of all loads or of all stores."""
    return replaced(rf"(tcgen05\.{kind}\.[^;]*\[%r\d+)\]", rf"\1+{offset}]")


@pytest.mark.parametrize(("kind", "label"), [("st", "put"), ("ld", "get")])
@pytest.mark.parametrize("lanes", [32, 64])
def test_another_warps_lanes_are_out_of_bounds(kind: str, label: str, lanes: int) -> None:
    message = reported(ROUND, shifted(kind, lanes << 16), tj.OutOfBoundsError, (label,))
    assert re.search(r"warp \d reaches lanes \d+ to \d+", message), message


@pytest.mark.parametrize(("kind", "label"), [("st", "put"), ("ld", "get")])
def test_all_warps_at_the_first_ones_lanes_are_out_of_bounds(kind: str, label: str) -> None:
    def edit(ptx: str) -> str:
        base = re.search(r"ld\.shared\.b32 \t(%r\d+), \[tmem_address\]", ptx)
        assert base is not None
        return re.sub(rf"(tcgen05\.{kind}\.[^;]*\[)%r\d+\]", rf"\g<1>{base[1]}]", ptx)

    message = reported(ROUND, edit, tj.OutOfBoundsError, (label,))
    assert "thread 32 (warp 1, lane 0)" in message and "warp 1 reaches lanes 32 to 63" in message


@pytest.mark.parametrize(("kind", "label"), [("st", "put"), ("ld", "get")])
@pytest.mark.parametrize("columns", [1, -1])
def test_a_column_off_by_one_at_the_allocations_edge_is_out_of_bounds(kind: str, label: str, columns: int) -> None:
    message = reported(ROUND, shifted(kind, columns), tj.OutOfBoundsError, (label, "kernel"))
    assert "not all allocated" in message


@pytest.mark.parametrize("kind", ["st", "ld"])
@pytest.mark.parametrize("columns", [1, -1, 4])
def test_a_column_off_by_one_inside_the_allocation_loads_what_nothing_has_written(kind: str, columns: int) -> None:
    message = reported(NARROW, shifted(kind, columns), tj.UninitializedReadError, ("get",))
    assert "which nothing has written" in message


def test_sixteen_lanes_off_is_reported() -> None:
    with pytest.raises((tj.OutOfBoundsError, tj.UninitializedReadError)) as caught:
        run_edited(NARROW.kernel(), shifted("st", 16 << 16), 1, arrays(8), 128)
    assert f"{NARROW.file}:{NARROW.line('put')}" in caught.value.message


SIZE = r"(tcgen05\.{}\.[^;]*, )%r\d+;"
KERNEL = ("kernel",)


def test_an_allocation_that_is_too_small_is_reported_where_it_is_passed() -> None:
    small = both(*(replaced(SIZE.format(what), r"\g<1>32;") for what in ("alloc", "dealloc")))
    message = reported(NARROW, small, tj.OutOfBoundsError, ("put", "kernel"))
    assert "not all allocated" in message


@pytest.mark.parametrize("columns", [0, 16, 48, 1024])
def test_an_allocation_of_no_power_of_two_is_reported(columns: int) -> None:
    message = reported(ROUND, replaced(SIZE.format("alloc"), rf"\g<1>{columns};"), tj.SimulationError, KERNEL)
    assert f"allocates {columns} columns" in message


def test_a_missing_dealloc_is_reported() -> None:
    message = reported(ROUND, replaced(r"tcgen05\.dealloc\.[^;]*;", ""), tj.SimulationError, KERNEL)
    assert "the kernel exits without freeing 32 columns of tensor memory" in message


def test_freeing_another_number_of_columns_is_reported() -> None:
    message = reported(NARROW, replaced(SIZE.format("dealloc"), r"\g<1>32;"), tj.SimulationError, KERNEL)
    assert "frees 32 columns of an allocation of 64" in message


def test_an_allocation_by_two_warps_is_reported() -> None:
    # the branch around the allocation lets the warps 0 and 1 in; the permit is kept, so that it isn't what is missed
    def edit(ptx: str) -> str:
        ptx = re.sub(r"tcgen05\.relinquish_alloc_permit[^;]*;", "", ptx)
        return re.sub(r"setp\.ne\.b32 \t(%p\d+), (%r\d+), 0;", r"setp.gt.u32 \1, \2, 1;", ptx, count=1)

    message = reported(ROUND, edit, tj.SimulationError, KERNEL)
    assert "one warp of a CTA must make all its allocations" in message


def test_an_allocation_after_the_permit_was_given_up_is_reported() -> None:
    def edit(ptx: str) -> str:
        give_up = re.search(r"tcgen05\.relinquish_alloc_permit[^;]*;", ptx)
        assert give_up is not None
        return ptx.replace(give_up[0], "").replace("tcgen05.alloc.", f"{give_up[0]} tcgen05.alloc.", 1)

    message = reported(ROUND, edit, tj.SimulationError, KERNEL)
    assert "although its CTA has relinquished the permit" in message


def test_an_address_that_is_read_before_the_barrier_is_a_race() -> None:
    message = reported(ROUND, replaced(r"bar\.sync 0;", "", 1), tj.RaceError, KERNEL)
    assert "race in shared memory" in message


def test_columns_freed_before_all_warps_are_done_are_reported() -> None:
    def edit(ptx: str) -> str:
        head, tail = ptx.rsplit("bar.sync 0;", 1)
        return head + tail

    with pytest.raises(tj.RaceError, match="but no barrier follows their use") as caught:
        run_edited(ROUND.kernel(), edit, 1, arrays(32), 128)
    names_lines(caught.value, tj.RaceError, ROUND.file, {ROUND.line("kernel"), ROUND.line("get")})


def test_an_instruction_that_half_a_warp_skips_is_reported() -> None:
    guard = "{ .reg .pred %q; .reg .b32 %w; mov.u32 %w, %laneid; setp.lt.u32 %q, %w, 16; @!%q bra PAST;"
    edit = replaced(WAIT["st"], f"{guard} tcgen05.wait::st.sync.aligned; }}\nPAST:")
    with pytest.raises(tj.DivergenceError) as caught:
        run_edited(ROUND.kernel(), edit, 1, arrays(32), 128)
    assert f"{ROUND.file}:" in caught.value.message


SYNC = r"tcgen05\.fence::before_thread_sync;(?s:.){1,200}?bar\.sync 0;(?s:.){1,200}?tcgen05\.fence::after_thread_sync;"


def at_the_sync(pattern: str) -> Edit:
    """Takes something away at the second of the three barriers: the one that the program asks for."""

    def edit(ptx: str) -> str:
        first, second, *_ = re.finditer(SYNC, ptx)
        return ptx[: second.start()] + re.sub(pattern, "", second[0]) + ptx[second.end() :]

    return edit


@pytest.mark.parametrize("which", ["before", "after"])
def test_a_missing_fence_around_the_barrier_between_two_warpgroups_is_a_race(which: str) -> None:
    edit = at_the_sync(rf"tcgen05\.fence::{which}_thread_sync;")
    message = reported(HANDED, edit, tj.RaceError, ("put", "get"))
    assert "race in tensor memory" in message and "tcgen05.fence" in message


def test_a_missing_barrier_between_two_warpgroups_is_a_race() -> None:
    message = reported(HANDED, at_the_sync(r"bar\.sync 0;"), tj.RaceError, ("put", "get"))
    assert "with no barrier in between" in message


def test_a_missing_wait_before_the_barrier_is_reported() -> None:
    reported(HANDED, replaced(WAIT["st"], ""), tj.AsyncHazardError, ("put", "get"))
