"""Instruction counts and the memory profile."""

import numpy as np
import pytest

from tests.simulator.small_kernels import simulate
from tilejit.errors import TilejitError

THREAD = "mov.u32 %r1, %tid.x; ld.param.u64 %x1, [p0];\n"
TILE = ".shared .align 128 .b8 tile[8192];"


def shared(stride_bytes, access, register="%r2"):
    body = THREAD + f".loc 1 40 0\nmov.u32 %r3, tile; mad.lo.u32 %r4, %r1, {stride_bytes}, %r3;\n.loc 1 41 0\n"
    body = "mov.u32 %r2, 1;" + body + f"st.shared.{access} [%r4], {register};\nret;"
    report = simulate(body, np.zeros(1, "u4"), registers=TILE, profile=True)
    return report.line(41)


@pytest.mark.parametrize("stride, wavefronts", [(4, 1), (8, 2), (16, 4), (128, 32), (132, 1), (0, 1)])
def test_bank_conflicts_of_word_accesses(stride, wavefronts):
    line = shared(stride, "u32")
    assert line.traffic.wavefronts == wavefronts
    assert line.bank_conflicts == wavefronts - 1


@pytest.mark.parametrize("stride, wavefronts", [(16, 4), (32, 8), (128, 32), (144, 4)])
def test_bank_conflicts_of_16_byte_accesses_count_quarter_warps(stride, wavefronts):
    line = shared(stride, "v4.u32", "{%r2, %r2, %r2, %r2}")
    assert line.traffic.wavefronts == wavefronts
    assert line.bank_conflicts == wavefronts - 4


@pytest.mark.parametrize("stride, sectors, ideal", [(4, 4, 4), (8, 8, 4), (32, 32, 4), (0, 1, 1)])
def test_global_sectors(stride, sectors, ideal):
    body = THREAD + f".loc 1 9 0\nmad.wide.u32 %x2, %r1, {stride}, %x1; ld.global.u32 %r2, [%x2]; ret;"
    raw = np.zeros(2048, "u1")
    start = -raw.__array_interface__["data"][0] % 32
    report = simulate(body, raw[start : start + 1024].view("u4"), profile=True)
    assert (report.line(9).traffic.sectors, report.line(9).traffic.ideal_sectors) == (sectors, ideal)
    assert report.excess_sectors == sectors - ideal


def test_instructions_are_counted_per_thread_and_line():
    body = THREAD + ".loc 1 3 0\nsetp.lt.u32 %p1, %r1, 10; @!%p1 bra SKIP;\n"
    body += ".loc 1 4 0\nadd.u32 %r2, %r1, 1;\nSKIP: ret;\n.loc 1 6 0\nadd.u32 %r2, %r1, 2; ret;"
    report = simulate(body, np.zeros(1, "u4"), grid=2)
    assert report.instructions["add.u32"] == 20
    assert report.instructions["ret"] == 64
    assert report.line(4).instructions == 20 + 64
    assert report.line(6).instructions == 0
    with pytest.raises(TilejitError, match="line 5 has no code in .*\n.*lines with code: 3, 4, 6"):
        report.line(5)
    assert "add.u32" in str(report)
