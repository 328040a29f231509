"""Shuffles, votes, matches, reductions and elections against the PTX ISA's pseudocode, lane by lane."""

import numpy as np
import pytest

from tests.simulator.small_kernels import evaluate, simulate
from tilejit.errors import DivergenceError

LANES = np.arange(64)


def shuffled(mode, values, b, c):
    """PTX ISA, "shfl.sync", pseudocode."""
    out, valid = [], []
    for i in range(len(values)):
        lane, warp = i % 32, i - i % 32
        b_val, clamp, segment = b & 31, c & 31, c >> 8 & 31
        top = (lane & segment) | (clamp & ~segment & 31)
        if mode == "up":
            j = lane - b_val
            p = j >= top
        elif mode == "down":
            j = lane + b_val
            p = j <= top
        elif mode == "bfly":
            j = lane ^ b_val
            p = j <= top
        else:
            j = (lane & segment) | (b_val & ~segment)
            p = j <= top
        out.append(values[warp + (j if p else lane)])
        valid.append(int(p))
    return out, valid


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("b", [0, 1, 5, 16, 31])
@pytest.mark.parametrize("width", [32, 16, 4])
def test_shuffles_follow_the_pseudocode(mode, b, width):
    a = np.random.default_rng(0).integers(0, 2**32, 64).astype("u4")
    c = (32 - width) << 8 | (0 if mode == "up" else 31)
    text = f"shfl.sync.{mode}.b32 {{d}}|%p5, {{a}}, {b}, {c}, -1;"
    values, valid = shuffled(mode, a.tolist(), b, c)
    assert evaluate(text, a, out="u4", threads=64).tolist() == values
    got = evaluate(text.replace("{d}", "%r20") + "selp.u32 {d}, 1, 0, %p5;", a, out="u4", threads=64)
    assert got.tolist() == valid


def test_shuffles_among_the_lanes_of_a_branch():
    text = """
    mov.u32 %r20, %laneid; and.b32 %r21, %r20, 1; setp.eq.u32 %p5, %r21, 1; mov.u32 {d}, 7; @!%p5 bra SKIP;
    shfl.sync.bfly.b32 {d}, {a}, 2, 31, 0xAAAAAAAA;
    SKIP:
    """
    a = np.arange(32, dtype="u4") * 10
    got = evaluate(text, a, out="u4", threads=32)
    assert got.tolist() == [a[i ^ 2] if i % 2 else 7 for i in range(32)]


def test_lanes_that_arrive_at_different_times_join_at_a_shuffle():
    text = """
    mov.u32 %r20, %laneid; mov.u32 %r21, 0;
    LOOP: add.u32 %r21, %r21, 1; setp.le.u32 %p5, %r21, %r20; @%p5 bra LOOP;
    shfl.sync.idx.b32 {d}, %r21, 31, 31, -1;
    """
    assert evaluate(text, np.zeros(32, "u4"), out="u4", threads=32).tolist() == [32] * 32


def test_votes():
    a = np.arange(64, dtype="u4")
    ballot = "setp.gt.u32 %p5, {a}, 40; vote.sync.ballot.b32 {d}, %p5, -1;"
    assert evaluate(ballot, a, out="u4", threads=64).tolist() == [0] * 32 + [0xFFFFFE00] * 32
    for mode, expected in (("all", [0, 0]), ("any", [0, 1]), ("uni", [1, 0])):
        text = f"setp.gt.u32 %p5, {{a}}, 40; vote.sync.{mode}.pred {{d}}, %p5, -1;"
        got = evaluate(text, a, out="u2", threads=64, predicate=True).tolist()
        assert got == [expected[0]] * 32 + [expected[1]] * 32, mode


def test_reductions_in_one_instruction():
    a = np.random.default_rng(1).integers(0, 2**32, 64).astype("u4")
    rows = a.reshape(2, 32)
    cases = {
        "add.u32": rows.sum(1, dtype="u4"), "min.u32": rows.min(1), "max.u32": rows.max(1),
        "min.s32": rows.view("i4").min(1).view("u4"), "max.s32": rows.view("i4").max(1).view("u4"),
        "and.b32": np.bitwise_and.reduce(rows, 1), "or.b32": np.bitwise_or.reduce(rows, 1),
        "xor.b32": np.bitwise_xor.reduce(rows, 1),
    }
    for op, expected in cases.items():
        got = evaluate(f"redux.sync.{op} {{d}}, {{a}}, -1;", a, out="u4", threads=64)
        assert got.tolist() == np.repeat(expected, 32).tolist(), op


def test_matching_lanes():
    a = (np.arange(64, dtype="u4") // 3) % 4
    got = evaluate("match.any.sync.b32 {d}, {a}, -1;", a, out="u4", threads=64)
    expected = [sum(1 << j for j in range(32) if a[w + j] == a[w + i]) for w in (0, 32) for i in range(32)]
    assert got.tolist() == expected
    got = evaluate("match.all.sync.b32 {d}|%p5, {a}, -1;", np.zeros(32, "u4"), out="u4", threads=32)
    assert got.tolist() == [0xFFFFFFFF] * 32


def test_one_lane_is_elected():
    got = evaluate("elect.sync %r20|%p5, 0xFFFFFFF0; selp.u32 {d}, 1, 0, %p5;".join(
        ["mov.u32 %r21, %laneid; setp.lt.u32 %p6, %r21, 4; mov.u32 {d}, 5; @%p6 bra SKIP;", "SKIP:"]),
        np.zeros(32, "u4"), out="u4", threads=32)
    assert got.tolist() == [5] * 4 + [1] + [0] * 27


def test_the_active_mask_shows_the_branch():
    text = "mov.u32 {d}, 0; setp.lt.u32 %p5, {a}, 5; @!%p5 bra SKIP; activemask.b32 {d};\nSKIP:"
    got = evaluate(text, np.arange(32, dtype="u4"), out="u4", threads=32)
    assert got.tolist() == [31] * 5 + [0] * 27


def test_partial_warps_vote_among_their_threads():
    out = np.zeros(40, "u4")
    body = """
    mov.u32 %r1, %tid.x; ld.param.u64 %x1, [p0]; mad.wide.u32 %x2, %r1, 4, %x1;
    setp.ge.u32 %p1, %r1, 0; vote.sync.ballot.b32 %r2, %p1, -1; st.global.u32 [%x2], %r2; ret;
    """
    simulate(body, out, block=40)
    assert out.tolist() == [0xFFFFFFFF] * 32 + [0xFF] * 8


def test_a_shuffle_that_some_named_lanes_never_reach_is_reported():
    text = "setp.lt.u32 %p5, {a}, 5; mov.u32 {d}, 0; @!%p5 bra SKIP; shfl.sync.idx.b32 {d}, {a}, 0, 31, -1;"
    text += "\nSKIP: bar.warp.sync -1;"
    with pytest.raises(DivergenceError, match="an instruction waits forever for lanes "):
        evaluate(text, np.arange(32, dtype="u4"), out="u4", threads=32)


def test_a_mask_that_leaves_out_the_caller_is_reported():
    with pytest.raises(DivergenceError, match="excludes it"):
        evaluate("shfl.sync.idx.b32 {d}, {a}, 0, 31, 0xFF;", np.arange(32, dtype="u4"), out="u4", threads=32)


def test_warp_barriers_at_different_places_synchronize():
    text = """
    mov.u32 {d}, 1; setp.lt.u32 %p5, {a}, 5; @%p5 bra OTHER; bar.warp.sync -1; bra JOIN;
    OTHER: bar.warp.sync -1; mov.u32 {d}, 2;
    JOIN:
    """
    assert evaluate(text, np.arange(32, dtype="u4"), out="u4", threads=32).tolist() == [2] * 5 + [1] * 27
