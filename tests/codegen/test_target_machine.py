"""LLVM's options, and its version."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from tilejit.codegen import target_machine
from tilejit.errors import DeviceError
from tilejit.target import target as find_target

ROOT = Path(__file__).parents[2]
#: one kernel; in its loop is something for every pass to look at
MODULE = f"""target triple = "{target_machine.TRIPLE}"
define ptx_kernel void @k(ptr addrspace(1) %a, i32 %n) {{
entry:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %loop ]
  %at = getelementptr float, ptr addrspace(1) %a, i32 %i
  store float 0.0, ptr addrspace(1) %at
  %next = add i32 %i, 1
  %more = icmp slt i32 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}}
"""


def printed(program: str) -> str:
    """What a program and LLVM, in a process of their own, write."""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_llvm_has_each_option() -> None:
    """One that it doesn't have it ignores, without a word."""
    listed = printed(
        "import llvmlite.binding as llvm\nllvm.initialize_all_targets()\nllvm.set_option('', '-help-hidden')"
    )
    options = {word.partition("=")[0] for word in listed.split() if word.startswith("-")}
    names = {f"-{option.partition('=')[0].lstrip('-')}" for option in target_machine._OPTIONS}
    missing = sorted(names - {f"-{option.lstrip('-')}" for option in options})
    assert not missing, f"LLVM doesn't have {', '.join(missing)}"


def test_llvm_has_each_pass_that_is_turned_off_by_its_name() -> None:
    report = printed(
        "from tilejit.codegen import target_machine as t\n"
        "from tilejit.target import target\n"
        "t._OPTIONS = [x.replace('verbosity=0', 'verbosity=1') for x in t._OPTIONS]\n"
        f"t.compile_text({MODULE!r}, target('sm_90'), (7, 8), t.FrontPasses())"
    )
    for option in target_machine._OPTIONS:
        what, _, name = option.partition("=")
        if what == "-opt-disable":
            assert f"NOT running pass {name} on function (k)" in report


@pytest.fixture
def another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm, "llvm_version_info", (20, 1, 8))
    target_machine._prepare.cache_clear()
    target_machine._machine.cache_clear()


@pytest.mark.usefixtures("another_version")
def test_an_llvm_of_another_version_is_refused_by_name() -> None:
    with pytest.raises(DeviceError, match="has LLVM 20.1.8; tilejit generates code for LLVM 22") as caught:
        target_machine.compile_text(MODULE, find_target("sm_90"), (7, 8), target_machine.FrontPasses())
    assert caught.value.hint == f"pip install '{target_machine._PACKAGE}'"


def test_what_is_to_be_installed_is_what_the_project_depends_on() -> None:
    assert f'    "{target_machine._PACKAGE}",\n' in (ROOT / "pyproject.toml").read_text("utf-8")
    assert target_machine.llvm_problem() is None
