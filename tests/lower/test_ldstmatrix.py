"""copy through ldmatrix and stmatrix: upstream's cases, what is refused and why, all else against a longhand oracle."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import gcd, prod

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.lower.test_emitted_copies import outcome
from tests.reference.threads import Threads
from tests.support.proving import prove_verdict
from tests.support.upstream import Case, digest, layout_of, load, operand_of
from tilejit.dtypes import DTYPES, DType, float16, int16
from tilejit.ir.nodes import Alloc, Kernel, Region, TileOp
from tilejit.layout import Swizzle, TileLayout
from tilejit.lower import lower
from tilejit.lower.ask import OperandSpec, dispatch, operand, sym
from tilejit.lower.engine import Verdict
from tilejit.lower.variants.copy_ldstmatrix import Plan
from tilejit.target import target

CASES = [c for c in load("copy_ldstmatrix") if "expect" in c]
(DEFECT,) = (c for c in load("copy_ldstmatrix") if "setup" in c)
TYPES = [DTYPES[n] for n in ("float16", "bfloat16", "int16", "uint16")]


def ask(scope: str, dst: OperandSpec, src: OperandSpec, threads: int = 32, arch: str = "sm_90a") -> Verdict:
    return dispatch("copy", scope, dst, src, threads=threads, target=arch)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["id"])
def test_a_case_takes_upstreams_instructions_and_addresses(case: Case) -> None:
    dst, src = (operand_of(case[k]) for k in ("dst", "src"))
    found = ask(case["scope"], dst, src, case["cta_threads"], case["arch"])
    plan, expect = found.plan, case["expect"]
    assert f"copy.{found.variant}" == case["variant"]
    assert (plan.num, plan.trans, plan.issues) == (expect["num"], expect["trans"], expect["issues"])
    assert plan.words() == expect["reg_words_per_issue"]
    assert plan.instructions == tuple((i["op"], i["trips"]) for i in expect["instructions"])
    if "schedule" in expect:
        assert digest(plan.schedule()) == expect["schedule"]["sha1_16"]
        rows = {tuple(r) for r in plan.schedule().tolist()}
        assert {tuple(s) for s in expect["schedule"]["samples"]} <= rows
    outcome(found.op, case["cta_threads"])


def test_the_case_file_is_complete() -> None:
    assert len(CASES) == 42


@pytest.mark.parametrize("dtype", DEFECT["setup"]["dtypes"])
def test_elements_of_another_size_are_left_to_reg(dtype: str) -> None:
    tile, place = (layout_of(DEFECT["setup"][k]) for k in ("reg", "mem"))
    dst, src = (operand(s, (8, 4, 2, 2), DTYPES[dtype], y) for s, y in (("local", tile), ("shared", place)))
    refused(ask("warp", dst, src), f"needs 16-bit elements; {dtype} has {DTYPES[dtype].bits} bits")


def fragment(n: int = 2, dtype: DType = float16, **strides: int) -> OperandSpec:
    """n tiles in registers; strides of the digits row, quad, tile and pair may be given."""
    step = {"row": 4, "quad": 1, "tile": 2, "pair": 1} | strides
    shard = [(8, step["row"], "laneid"), (4, step["quad"], "laneid"), (n, step["tile"], "m"), (2, step["pair"], "m")]
    return operand("local", (8, 4, n, 2), dtype, TileLayout.from_iters(shard))


def rows(
    n: int = 2, dtype: DType = float16, offset: int = 0, swizzle: Swizzle | None = None, **strides: int
) -> OperandSpec:
    """The same tiles in shared memory, row-major but for what is given."""
    step = {"row": 8 * n, "quad": 2, "tile": 8, "pair": 1} | strides
    shard = [(8, step["row"], "m"), (4, step["quad"], "m"), (n, step["tile"], "m"), (2, step["pair"], "m")]
    layout = TileLayout.from_iters(shard, (), {"m": offset}, swizzle)
    return operand("shared", (8, 4, n, 2), dtype, layout)


def columns(n: int = 2, **strides: int) -> OperandSpec:
    return rows(n, **({"row": 1, "quad": 16 * n, "tile": 8, "pair": 8 * n} | strides))


def refused(found: Verdict, reason: str, threads: int = 32) -> None:
    """`ldstmatrix` says `reason`; what carries it out instead copies right."""
    assert found.variant in ("reg", "fallback")
    assert any(reason in given for given in found.declines["ldstmatrix"]), found.declines["ldstmatrix"]
    prove_verdict(found)
    outcome(found.op, threads)


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("trans", [False, True])
def test_lane_l_supplies_row_l_mod_8_of_tile_l_div_8(n: int, trans: bool) -> None:
    found = ask("warp", fragment(n), columns(n) if trans else rows(n))
    assert (found.plan.num, found.plan.trans, found.plan.issues) == (n, trans, 1)
    addresses = found.plan.schedule()[: 8 * n, 2]
    assert addresses.tolist() == [8 * (lane // 8) + (lane % 8) * 8 * n for lane in range(8 * n)]
    assert found.plan.words() == [list(range(n))]


@pytest.mark.parametrize(("n", "num", "issues"), [(3, 1, 3), (6, 2, 3), (8, 4, 2), (12, 4, 3), (5, 1, 5), (16, 4, 4)])
def test_the_widest_instruction_that_fits_is_repeated(n: int, num: int, issues: int) -> None:
    found = ask("warp", fragment(n), rows(n))
    assert (found.plan.num, found.plan.issues) == (num, issues)
    outcome(found.op, 32)


def test_before_sm_80_all_lanes_have_valid_addresses() -> None:
    # PTX ISA, "ldmatrix": on sm_75 every thread's address must be valid, also where it isn't used
    for n in (1, 2):
        found = ask("warp", fragment(n), rows(n), arch="sm_75")
        assert found.variant == "ldstmatrix"
        addresses = found.plan.schedule()[:, 2].reshape(-1, 8 * n)
        assert (addresses == addresses[0]).all()


@pytest.mark.parametrize(
    ("tile", "place", "reason"),
    [
        (fragment(), rows(row=17), "rows of src start every 34 bytes; needs a multiple of 16"),
        (fragment(), rows(row=36), "rows of src start every 72 bytes; needs a multiple of 16 (use 80 bytes"),
        (fragment(), rows(row=-16, offset=112), "rows of src start every -32 bytes"),
        (fragment(), columns(pair=17, quad=34), "columns of src start every 34 bytes; needs a multiple of 16"),
        (fragment(), columns(quad=40), "columns of src are 16 elements apart, and pairs of columns 40; needs 32"),
        (fragment(), rows(tile=4), "rows of src start every 8 bytes; needs a multiple of 16"),
        (fragment(), rows(tile=9), "rows of src start every 18 bytes; needs a multiple of 16"),
        (fragment(), rows(offset=4), "offset of src is a multiple of 8 bytes; needs a multiple of 16"),
        (fragment(), rows(quad=3), "are 1 apart in src, pairs of them 3, and rows 16"),
        (fragment(), rows(pair=16, quad=32, row=2), "are 16 apart in src, pairs of them 32, and rows 2"),
        (fragment(), rows(swizzle=Swizzle(2, 2, 3)), "the swizzle of src keeps 4 elements together; needs 8"),
        (fragment(pair=2, tile=4), rows(), "each thread has no two consecutive elements of dst"),
        (fragment(tile=3), rows(), "pairs of dst start every 3 elements; needs a multiple of 2"),
        (fragment(row=1, quad=8), rows(), "in src"),
        (fragment(dtype=DTYPES["int8"]), rows(dtype=DTYPES["int8"]), "needs 16-bit elements; int8 has 8 bits"),
    ],
)
def test_a_near_miss_is_refused_with_its_reason_and_copied_right(
    tile: OperandSpec, place: OperandSpec, reason: str
) -> None:
    refused(ask("warp", tile, place), reason)


def test_a_base_aligned_to_less_than_a_row_is_refused() -> None:
    found = ask("warp", fragment(), replace(rows(), align=8))
    refused(found, "the base of src is aligned to 8 bytes; needs 16")


def test_a_row_start_off_by_eight_bytes_is_refused() -> None:
    tile = operand("local", (8, 4, 1, 2), float16, fragment(1).layout)
    for start, accepted in ((8, True), (4, False)):
        wide = operand("shared", (8, 32), float16, region=((0, 8), (start, 8)))
        flat = TileLayout.from_iters([(8, 4, "laneid"), (4, 1, "laneid"), (2, 1, "m")])
        found = ask("warp", replace(tile, shape=(8, 8), layout=flat), wide)
        assert (found.variant == "ldstmatrix") == accepted
        if not accepted:
            refused(found, "start 1 of src is a multiple of 8 bytes; needs a multiple of 16")


@pytest.mark.parametrize(("factor", "variant"), [(8, "ldstmatrix"), (4, "reg")])
def test_a_start_known_only_at_run_time_needs_a_divisor(factor: int, variant: str) -> None:
    flat = TileLayout.from_iters([(8, 4, "laneid"), (4, 1, "laneid"), (2, 1, "m")])
    place = operand("shared", (8, 64), float16, region=((0, 8), (sym("c", multiple_of=factor), 8)))
    found = ask("warp", operand("local", (8, 8), float16, flat), place)
    assert found.variant == variant


def test_replicas_over_lanes_are_refused_and_over_warps_taken() -> None:
    halves = TileLayout.from_iters([(4, 4, "laneid"), (4, 1, "laneid"), (2, 1, "m")], [(2, 16, "laneid")])
    found = ask("warp", operand("local", (4, 8), float16, halves), operand("shared", (4, 8), float16))
    refused(found, "2 threads hold the same elements of dst")
    for loads in (True, False):
        warps = TileLayout.from_iters([(8, 4, "tx"), (4, 1, "tx"), (2, 1, "m")], [(2, 32, "tx")])
        pair = operand("local", (8, 8), float16, warps), operand("shared", (8, 8), float16)
        found = ask("cta", *(pair if loads else pair[::-1]), threads=64)
        assert found.variant == "ldstmatrix"
        outcome(found.op, 64)


def test_a_part_of_a_warp_is_refused() -> None:
    layout = TileLayout.from_iters([(12, 4, "tx"), (4, 1, "tx"), (2, 1, "m")])
    found = ask("cta", operand("local", (12, 8), float16, layout), operand("shared", (12, 8), float16), 48)
    refused(found, "needs whole warps; the cta has 48 threads", 48)


def test_other_memory_gets_one_reason() -> None:
    found = ask("warp", operand("shared", (32, 32), float16), operand("global", (32, 32), float16))
    assert found.declines["ldstmatrix"] == ("moves local <-> shared; got global -> shared",)


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89"])
def test_stmatrix_waits_for_sm_90(arch: str) -> None:
    assert ask("warp", fragment(), rows(), arch=arch).variant == "ldstmatrix"
    refused(ask("warp", rows(), fragment(), arch=arch), f"stmatrix needs sm_90 or newer; target is {arch}")


def test_the_region_of_a_swizzled_stage_keeps_its_rows() -> None:
    """What a pipelined product loads: 16x16 pieces of a swizzled tile, at a stage and a step of k."""
    swizzle = Swizzle(3, 3, 3)
    layout = TileLayout.row_major((3, 64, 64), swizzle)
    tile = TileLayout.from_iters([(2, 2, "m"), (8, 4, "laneid"), (2, 4, "m"), (4, 1, "laneid"), (2, 1, "m")])
    registers = operand("local", (16, 16), float16, tile)
    region = ((sym("stage", multiple_of=1), 1), (16, 16), (sym("k", multiple_of=16), 16))
    found = ask("warp", registers, operand("shared", (3, 64, 64), float16, layout, region))
    assert (found.variant, found.plan.num, found.plan.issues) == ("ldstmatrix", 4, 1)
    fixed = ((2, 1), (16, 16), (32, 16))
    found = ask("warp", registers, operand("shared", (3, 64, 64), float16, layout, fixed))
    outcome(found.op, 32)


def test_tiles_are_in_an_instruction_in_the_order_of_their_registers() -> None:
    tile = [(8, 4, "laneid"), (4, 1, "laneid"), (2, 2, "m"), (2, 4, "m"), (2, 1, "m")]
    place = [(8, 8, "m"), (4, 2, "m"), (2, 128, "m"), (2, 64, "m"), (2, 1, "m")]
    sides = [
        operand(space, (8, 4, 2, 2, 2), float16, TileLayout.from_iters(shard))
        for space, shard in (("local", tile), ("shared", place))
    ]
    found = ask("warp", *sides)
    assert found.plan.words() == [[0, 1, 2, 3]]
    assert found.plan.schedule()[::8, 2].tolist() == [0, 128, 64, 192]
    outcome(found.op, 32)


@dataclass(frozen=True)
class Copy:
    """Tiles in registers and in shared memory by the strides of their digits, nothing of ours.

    warps: of the scope, each with its own tiles; or with the same ones where `replicated`.
    tiles: extents. word: for each of these its stride in elements of registers, and place: in memory.
    row, quad, pair: strides in memory.
    """

    dtype: DType
    scope: str
    axis: str
    threads: int
    warps: int
    replicated: bool
    tiles: tuple[int, ...]
    word: tuple[int, ...]
    place: tuple[int, ...]
    warp_place: int
    row: int
    quad: int
    pair: int
    first_word: int
    first_place: int
    swizzle: Swizzle | None

    @property
    def shape(self) -> tuple[int, ...]:
        return (1 if self.replicated else self.warps, 8, 4, *self.tiles, 2)

    def operands(self) -> tuple[OperandSpec, OperandSpec]:
        own = [(e, s, "m") for e, s in zip(self.tiles, self.word, strict=True)]
        shard = [(self.shape[0], 32, self.axis), (8, 4, self.axis), (4, 1, self.axis), *own, (2, 1, "m")]
        replica = [(self.warps, 32, self.axis)] if self.replicated and self.warps > 1 else []
        tile = TileLayout.from_iters(shard, replica, {"m": self.first_word})
        there = [(e, s, "m") for e, s in zip(self.tiles, self.place, strict=True)]
        shard = [(self.shape[0], self.warp_place, "m"), (8, self.row, "m"), (4, self.quad, "m"), *there]
        memory = TileLayout.from_iters([*shard, (2, self.pair, "m")], (), {"m": self.first_place}, self.swizzle)
        return operand("local", self.shape, self.dtype, tile), operand("shared", self.shape, self.dtype, memory)

    def places(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(thread of the scope, register, shared element) of every element a thread holds."""
        shape = (self.warps, 8, 4, *self.tiles, 2)
        w, row, quad, *tiles, pair = np.indices(shape).reshape(len(shape), -1)
        thread = 32 * w + 4 * row + quad
        register = self.first_word + pair + sum(t * s for t, s in zip(tiles, self.word, strict=True))
        own = 0 if self.replicated else w * self.warp_place
        at = self.first_place + own + row * self.row + quad * self.quad + pair * self.pair
        at = at + sum(t * s for t, s in zip(tiles, self.place, strict=True))
        return thread, register, at if self.swizzle is None else swapped(at, self.swizzle)


def swapped(at: np.ndarray, swizzle: Swizzle) -> np.ndarray:
    """XOR the chunk number, of 2**base elements, with bits further up, or further down."""
    chunk, inside = at >> swizzle.base, at & ((1 << swizzle.base) - 1)
    mask = (1 << swizzle.bits) - 1
    moved = (chunk >> swizzle.shift) & mask if swizzle.inner else (chunk & mask) << swizzle.shift
    return np.asarray(((chunk ^ moved) << swizzle.base) | inside)


@st.composite
def copies(draw: st.DrawFn) -> Copy:
    scope, axis, threads, warps = draw(
        st.sampled_from(
            [
                ("warp", "laneid", 32, 1),
                ("warp", "laneid", 64, 1),
                ("warpgroup", "tid_in_wg", 128, 4),
                ("cta", "tx", 64, 2),
                ("cta", "tx", 96, 3),
            ]
        )
    )
    extents_of_tiles = st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=3)
    tiles = tuple(draw(extents_of_tiles.filter(lambda t: prod(t) <= 16)))
    word, size = [0] * len(tiles), 2
    for k in draw(st.permutations(range(len(tiles)))):
        word[k] = size
        size = size * tiles[k] + draw(st.sampled_from([0, 0, 2, 6]))
    # rows (or columns) of 8 elements, and then all other digits in any order, with padding
    extents = [8, warps, *tiles]
    strides, size = [0] * len(extents), 8
    for k in draw(st.permutations(range(len(extents)))):
        strides[k] = size
        size = size * extents[k] + draw(st.sampled_from([0, 0, 0, 8, 16]))
    pitch = strides[0]
    row, quad, pair = (1, 2 * pitch, pitch) if draw(st.booleans()) else (pitch, 2, 1)
    swizzle = None
    if draw(st.booleans()):
        bits = draw(st.integers(1, 3))
        swizzle = Swizzle(bits, draw(st.integers(3, 4)), draw(st.integers(bits, 4)), inner=draw(st.booleans()))
    return Copy(
        draw(st.sampled_from(TYPES)),
        scope,
        axis,
        threads,
        warps,
        draw(st.booleans()),
        tiles,
        tuple(word),
        tuple(strides[2:]),
        strides[1],
        row,
        quad,
        pair,
        draw(st.sampled_from([0, 0, 2])),
        draw(st.sampled_from([0, 0, 8, 64])),
        swizzle,
    )


def carried_out(copy: Copy, loads: bool) -> tuple[Verdict, Threads, dict[str, np.ndarray]]:
    """The verdict, the machine after the kernel, and what memory and registers must hold."""
    tile, memory = copy.operands()
    pair = (tile, memory) if loads else (memory, tile)
    op = TileOp("copy", copy.scope, (pair[0].named("dst"), pair[1].named("src")))
    regions = [r for r in op.operands if isinstance(r, Region)]
    kernel = Kernel("case", (), copy.threads, "sm_90a", (*(Alloc(r.buffer) for r in regions), op))
    made = lower(kernel, target("sm_90a"))
    thread, register, at = copy.places()
    names = ("dst", "src") if loads else ("src", "dst")
    random = np.random.default_rng(3)
    registers = random.integers(0, 2000, (copy.threads, register.max() + 1)).astype(copy.dtype.numpy)
    footprint = memory.named("s").buffer.layout
    assert isinstance(footprint, TileLayout)
    shared = random.integers(0, 2000, footprint.footprint()).astype(copy.dtype.numpy)
    machine = Threads(made.kernel, {names[1]: shared.copy()}, {}, {names[0]: registers.copy()})
    for first in range(0, copy.threads, 32 * copy.warps):
        if loads:
            registers[first + thread, register] = shared[at]
        elif copy.replicated:
            lowest = thread < 32
            shared[at[lowest]] = registers[first + thread, register][lowest]
        else:
            shared[at] = registers[first + thread, register]
    return made.verdicts[0], machine, {names[0]: registers, names[1]: shared}


@given(copies(), st.booleans())
def test_every_register_and_element_has_the_value_that_the_layouts_say(copy: Copy, loads: bool) -> None:
    verdict, machine, expected = carried_out(copy, loads)
    assert verdict.variant == "ldstmatrix", verdict.declines
    plan = verdict.plan
    assert isinstance(plan, Plan)
    assert plan.num == gcd(4, prod(copy.tiles)) and plan.num * plan.issues == prod(copy.tiles)
    assert plan.trans == (copy.row == 1)
    prove_verdict(verdict)
    for name, values in {**machine.memory, **machine.registers}.items():
        assert values.view(np.uint16).tolist() == expected[name].view(np.uint16).tolist(), f"{name} differs"


@st.composite
def near_misses(draw: st.DrawFn) -> tuple[Copy, str]:
    """A copy that fits but for one thing, and what is to be said of it."""
    copy, off = draw(copies()), draw(st.integers(1, 7))
    kinds = ["start", "pitch", "swizzle", "bits"] + ["tile"] * (max(copy.tiles) > 1)
    kind = draw(st.sampled_from(kinds))
    if kind == "start":
        return replace(copy, first_place=copy.first_place + off), r"offset of s is a multiple of \d+ bytes; needs .* 16"
    if kind == "bits":
        dtype = draw(st.sampled_from([DTYPES[n] for n in ("int8", "uint8", "float8_e4m3fn", "float32", "int64")]))
        return replace(copy, dtype=dtype), f"needs 16-bit elements; {dtype} has {dtype.bits} bits"
    if kind == "swizzle":
        chunk = draw(st.integers(0, 2))
        return replace(copy, swizzle=Swizzle(1, chunk, 2)), f"swizzle of s keeps {1 << chunk} elements together"
    if kind == "tile":
        k = copy.tiles.index(max(copy.tiles))
        place = (*copy.place[:k], copy.place[k] + off, *copy.place[k + 1 :])
        return replace(copy, place=place), r"rows of s start every \d+ bytes; needs a multiple of 16"
    if copy.row == 1:
        pitch = copy.pair + off
        return replace(copy, pair=pitch, quad=2 * pitch), rf"columns of s start every {2 * pitch} bytes; needs .* 16"
    return replace(copy, row=copy.row + off), rf"rows of s start every {2 * (copy.row + off)} bytes; needs .* 16"


@given(near_misses(), st.booleans())
def test_a_copy_that_just_misses_says_by_what_and_is_carried_out_right(near: tuple[Copy, str], loads: bool) -> None:
    copy, reason = near
    _, _, at = copy.places()
    own = at[: len(at) // copy.warps] if copy.replicated else at
    # two registers that go to one place have no one result
    assume(loads or len(np.unique(own)) == len(own))
    verdict, machine, expected = carried_out(copy, loads)
    assert verdict.variant == "reg"
    assert re.search(reason, verdict.declines["ldstmatrix"][0].replace("src", "s").replace("dst", "s"))
    for name, values in {**machine.memory, **machine.registers}.items():
        assert values.tobytes() == expected[name].tobytes(), f"{name} differs"


def test_int16_goes_as_any_16_bits() -> None:
    assert ask("warp", fragment(dtype=int16), rows(dtype=int16)).variant == "ldstmatrix"
