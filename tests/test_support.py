"""The helpers of the tests themselves."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import tilejit as tj
from tests.support import goldens, ptxas
from tests.support.goldens import Golden
from tilejit import pipeline

GOOD = ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n"


def test_ptxas_accepts_an_empty_kernel() -> None:
    ptxas.ptxas_accepts(GOOD, "sm_90")


def test_ptxas_names_what_it_refuses() -> None:
    if ptxas.ptxas_path() is None:
        pytest.skip("no ptxas")
    assert "nonsense" in (ptxas.complaint_of(GOOD.replace("ret", "nonsense"), "sm_90") or "")
    emitted = ptxas.EmittedPtx()
    emitted.add(GOOD, "sm_90", "good")
    emitted.check()
    emitted.add(GOOD.replace("ret", "nonsense"), "sm_90", "bad one")
    with pytest.raises(AssertionError, match="bad one"):
        emitted.check()


@tj.kernel(threads=384)
def roles(A: tj.Tensor):
    if tj.warpgroup_id() == 0:
        tj.set_registers(24)
        A[0, 0] = 1.0
    else:
        tj.set_registers(240)
        A[0, 1] = 2.0


@tj.kernel(threads=128)
def product(A: tj.Tensor, C: tj.Tensor):
    a = tj.alloc_shared((64, 64), A.dtype, swizzle="128B")
    acc = tj.alloc_local((64, 64), tj.float32, layout=tj.wgmma.layout_c((64, 64)))
    tj.wg.copy(a, A[0:64, 0:64])
    tj.warpgroup_sync()
    tj.wg.gemm_async(acc, a, a, accumulate=False)
    tj.wgmma.wait(0)
    tj.wg.copy(C[0:64, 0:64], acc)


#: calls itself, so that it stays a call
FAR = """.func far(.param .b32 n)
{
.reg .b32 %r<2>; .reg .pred %p1;
ld.param.b32 %r1, [n]; setp.eq.u32 %p1, %r1, 0; @%p1 bra OUT; sub.u32 %r1, %r1, 1;
{ .param .b32 m; st.param.b32 [m], %r1; call far, (m); }
bar.sync 3;
OUT: ret;
}
"""
CALL = "{ .param .b32 m; st.param.b32 [m], 1; call far, (m); }"

#: what ptxas says -> the kernel of which it does, and the change after which it does
SLOW: dict[str, tuple[tj.Kernel, Callable[[str], str]]] = {
    "C7508": (roles, lambda ptx: ptx.replace(".minnctapersm 1", "")),
    "C7509": (product, lambda ptx: re.sub("commit_group[^;]*;", rf"\g<0> {CALL}", ptx).replace(
        ".visible .entry", f"{FAR}.visible .entry"
    )),
    "C7517": (product, lambda ptx: ptx.replace("wgmma.wait_group.sync.aligned 0;", "")),
}


@pytest.mark.parametrize("code", SLOW)
def test_what_ptxas_numbers_as_slow_fails_the_session_by_the_tests_name(code: str) -> None:
    if ptxas.ptxas_path() is None:
        pytest.skip("no ptxas")
    kernel, change = SLOW[code]
    half, single = tj.spec((64, 64), tj.float16), tj.spec((64, 64), tj.float32)
    ptx = kernel.compile(*((half, single) if kernel is product else (single,)), target="sm_90a").ptx
    for each in (False, True):
        emitted = ptxas.EmittedPtx()
        emitted.add(ptx, "sm_90a", "as it is")
        emitted.add(GOOD, "sm_90a", "one more of a module")
        emitted.check(each=each)
        emitted.add(change(ptx), "sm_90a", "slow one")
        with pytest.raises(AssertionError, match=rf"(?s)^slow one \(sm_90a\): .*{code}"):
            emitted.check(each=each)


BODY = "\t.reg .b32 %r<4>;\n\tadd.s32 \t%r1, %r2, 7;\n\tbar.sync 0;\n\tld.global.b32 \t%r3, [%rd1+8];\n"

#: what is written instead -> whether ptxas may answer otherwise
OTHER_FORMS = {
    ("%r1, %r2, 7", "%r3, %r3, 9"): False,
    ("[%rd1+8]", "[%rd2+4096]"): False,
    ("%r<4>", "%r<17>"): False,
    ("%r2, 7", "%r2, 7000000000"): True,
    ("[%rd1+8]", "[%rd1+9999999999]"): True,
    ("bar.sync 0", "bar.sync 17"): True,
    ("add.s32", "add.f32"): True,
    ("%r1, %r2", "%rd1, %r2"): True,
    ("b32 \t%r3", "v2.b32 \t%r3"): True,
    ("\t.reg", "\t.shared .align 4 .b8 shared0_x[50000];\n\t.reg"): True,
}


@pytest.mark.parametrize("change", OTHER_FORMS, ids=lambda change: change[1])
def test_ptxas_is_asked_of_a_program_that_has_a_form_of_line_of_its_own(change: tuple[str, str]) -> None:
    first, second = (BODY, "sm_90", "first"), (BODY.replace(*change), "sm_90", "second")
    assert first[0] != second[0]
    asked = {name for _, _, name in ptxas.covering([first, second])}
    assert (asked == {"first", "second"}) == OTHER_FORMS[change] and asked
    assert len(list(ptxas.covering([first, (first[0], "sm_100a", "another target")]))) == 2


@tj.kernel(threads=32)
def nothing(A: tj.Tensor):
    A[0] = 1.0


def test_all_that_the_pipeline_generates_is_recorded_under_the_tests_name() -> None:
    emitted, generate = ptxas.EmittedPtx(), pipeline.generate
    with emitted.recording():
        compiled = nothing.compile(tj.spec((4,), tj.float32), target="sm_80")
    assert pipeline.generate is generate
    assert emitted.programs[compiled.ptx, "sm_80"].endswith("is_recorded_under_the_tests_name")


def test_a_golden_file_is_compared_and_blessed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(goldens, "ROOT", tmp_path)
    text = goldens.joined("sm_90a", "kernel k()\n  cta.sync\n", "kernel k()\n")
    with pytest.raises(AssertionError, match="doesn't exist"):
        Golden(bless=False).check("copy/one.tile", text)
    Golden(bless=True).check("copy/one.tile", text)
    Golden(bless=False).check("copy/one.tile", text)
    with pytest.raises(AssertionError, match="bless"):
        Golden(bless=False).check("copy/one.tile", text.replace("sync", "stop"))
    assert goldens.read("copy/one.tile") == ("sm_90a", "kernel k()\n  cta.sync\n", "kernel k()\n")
    assert goldens.cases() == ["copy/one.tile"]
