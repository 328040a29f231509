"""Wavefronts and sectors of whole access patterns against sets counted longhand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilejit as tj
from tests.simulator.small_kernels import aligned
from tilejit.simulator.checks.profile import Profiler
from tilejit.simulator.machine.lanes import Lanes
from tilejit.simulator.machine.memory import MemoryPart, MemoryRegion
from tilejit.simulator.opcodes.memory import Site


def longhand(addresses, width, space):
    """(count, ideal) of one warp: its executing lanes' addresses by lane."""
    if space == "global":
        sectors = {a // 32 for a in addresses.values()}
        return len(sectors), -(-len(set(addresses.values())) * width // 32)
    count = ideal = 0
    per_pass = 128 // max(width, 4)
    for first in range(0, 32, per_pass):
        mine = [a for lane, a in addresses.items() if first <= lane < first + per_pass]
        words = {a // 4 + i for a in mine for i in range(max(width // 4, 1))}
        banks = [sum(1 for w in words if w % 32 == bank) for bank in range(32)]
        count += max(banks)
        ideal += -(-len(words) // 32)
    return count, ideal


def measured(lanes, index, shift, space, base, lead):
    region = MemoryRegion(space, base, 1 << 20, np.zeros(0, np.uint8), [MemoryPart("array", 0, 1)])
    profiler = Profiler()
    profiler.access(lanes, Site(0, 0, space, 0, shift, "u4", "u8", "load"), region, index, lead)
    t = profiler.traffic[0]
    return (t.sectors, t.ideal_sectors) if space == "global" else (t.wavefronts, t.ideal_wavefronts)


def expected(lanes, index, shift, space, base, lead):
    total = np.zeros(2, int)
    warp, lane = lanes.get("chunk_warp"), lanes.get("lane")
    for w in np.unique(warp):
        mine = {int(lane[i]): (int(index[i]) << shift) + base + lead for i in np.flatnonzero(warp == w)}
        total += longhand(mine, 1 << shift, space)
    return tuple(total)


def patterns(draw, lanes):
    """The elements that the executing threads access: regular, swizzled or at random."""
    lane, warp, n = lanes.get("lane"), lanes.get("chunk_warp"), lanes.n
    step, pitch = draw(st.integers(0, 40)), draw(st.integers(0, 70))
    kind = draw(st.sampled_from(["strided", "swizzled", "rows", "random"]))
    if kind == "strided":
        return lane * step + warp * pitch
    if kind == "swizzled":
        return (lane ^ (step & 31)) + warp * 32
    if kind == "rows":
        return lane // 4 * step + lane % 4 + warp % 2 * pitch
    return np.random.default_rng(step).integers(0, 500, n)


@given(st.data())
def test_traffic_is_what_sets_of_words_and_sectors_give(data):
    draw = data.draw
    threads, ctas = draw(st.sampled_from([20, 32, 64, 96, 100])), draw(st.integers(1, 3))
    lanes = Lanes((ctas, 1, 1), (threads, 1, 1), 0, ctas)
    who = draw(st.sampled_from(["all", "some warps", "some threads"]))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    if who == "some warps":
        lanes.select(np.flatnonzero(np.isin(lanes.full["chunk_warp"], [0, lanes.full["chunk_warp"][-1]])))
    elif who == "some threads":
        lanes.select(np.union1d(np.flatnonzero(random.random(lanes.total) < 0.6), [0]))
    shift, space = draw(st.integers(0, 4)), draw(st.sampled_from(["shared", "global"]))
    index = patterns(draw, lanes)
    base = 1024 + 16 * draw(st.integers(0, 9))
    lead = draw(st.integers(0, 3)) << shift if space == "global" else 0
    assert measured(lanes, index, shift, space, base, lead) == expected(lanes, index, shift, space, base, lead)


def test_lanes_of_two_warps_are_no_whole_warp():
    lanes = Lanes((1, 1, 1), (64, 1, 1), 0, 1)
    lanes.select(np.r_[0:16, 48:64])
    assert not lanes.whole_warps()
    lanes.select(np.r_[32:64])
    assert lanes.whole_warps()


@tj.kernel(threads=32)
def copy_line(A: tj.Tensor, B: tj.Tensor):
    B[tj.thread_id()] = A[tj.thread_id()]


@pytest.mark.parametrize("host_offset", [0, 16, 48, 208])
def test_counts_dont_depend_on_where_the_host_put_an_array(host_offset):
    raw = aligned(np.zeros(256, np.float32))
    line = np.frombuffer(memoryview(raw)[host_offset // 4 :], np.float32)
    traffic = tj.simulate(copy_line, 1, line, np.zeros(64, np.float32), profile=True).lines.values()
    assert sum(x.traffic.sectors for x in traffic) == 8


def test_a_views_own_offset_in_its_base_counts():
    line = np.zeros(256, np.float32)
    traffic = tj.simulate(copy_line, 1, line[4:], np.zeros(64, np.float32), profile=True).lines.values()
    assert sum(x.traffic.sectors for x in traffic) == 9
