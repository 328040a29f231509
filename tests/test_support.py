"""The helpers of the tests themselves."""

from __future__ import annotations

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
