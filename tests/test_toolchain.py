"""The helpers of the tests themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import golden_files, toolchain
from tests.golden_files import Golden

GOOD = ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n"


def test_ptxas_accepts_an_empty_kernel() -> None:
    toolchain.ptxas_accepts(GOOD, "sm_90")


def test_ptxas_names_what_it_refuses() -> None:
    if toolchain.ptxas_path() is None:
        pytest.skip("no ptxas")
    assert "nonsense" in (toolchain.complaint_of(GOOD.replace("ret", "nonsense"), "sm_90") or "")
    emitted = toolchain.EmittedPtx()
    emitted.add(GOOD, "sm_90", "good")
    emitted.check()
    emitted.add(GOOD.replace("ret", "nonsense"), "sm_90", "bad one")
    with pytest.raises(AssertionError, match="bad one"):
        emitted.check()


def test_a_golden_file_is_compared_and_blessed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golden_files, "ROOT", tmp_path)
    text = golden_files.joined("sm_90a", "kernel k()\n  cta.sync\n", "kernel k()\n")
    with pytest.raises(AssertionError, match="doesn't exist"):
        Golden(bless=False).check("copy/one.tile", text)
    Golden(bless=True).check("copy/one.tile", text)
    Golden(bless=False).check("copy/one.tile", text)
    with pytest.raises(AssertionError, match="bless"):
        Golden(bless=False).check("copy/one.tile", text.replace("sync", "stop"))
    assert golden_files.read("copy/one.tile") == ("sm_90a", "kernel k()\n  cta.sync\n", "kernel k()\n")
    assert golden_files.cases() == ["copy/one.tile"]
