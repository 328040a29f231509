"""`python -m tilejit check`: verdicts, exit statuses, arguments and bad input."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.sanitize.kernels_ptx import ONE, PTX, SCALE, SCALE_ARGS, Run, line_of
from tests.sanitize.test_report import conforming, sarif_problems
from tilejit import __version__
from tilejit.__main__ import main
from tilejit.sanitize.schema import Document, Listing
from tilejit.simulator import DeviceModule


def test_a_clean_kernel_ends_with_0(run: Run) -> None:
    status, out, err = run(*SCALE, *SCALE_ARGS)
    assert (status, err) == (0, "")
    assert out.splitlines()[0].startswith("app::scale, grid (4, 1, 1), block (256, 1, 1), schedule 0: clean, ")
    assert out.splitlines()[1:] == ["verdict: clean"]


def test_a_race_ends_with_1_and_names_both_lines_and_the_array(run: Run) -> None:
    status, out, _ = run("k.ptx", "reverse", *ONE, "--arg", "result:u32[256]")
    assert status == 1
    assert "kernels.cu:4: y[i] = tile[255 - threadIdx.x];" in out
    assert "error [race] 256 times: race in shared memory" in out and " tile+1020 bytes" in out
    assert "from kernels.cu:4\n" in out and "from kernels.cu:3\n" in out
    assert f"PTX line {line_of('st.shared.u32 [%r3]')}:" in out
    assert out.endswith("verdict: findings\n")


def test_an_array_has_the_name_that_the_user_or_the_ptx_gives_it(run: Run) -> None:
    wrong = ("--arg", "i32:1001", "--arg", "f32:2")
    assert "parameter 0+4000 bytes" in run(*SCALE, "--arg", "f32[1000]", *wrong)[1]
    assert "; speeds has 4000 bytes" in run(*SCALE, "--arg", "speeds:f32[1000]", *wrong)[1]
    assert "; y has 4 bytes" in run("k.ptx", "reverse", *ONE, "--arg", "u32[1]")[1]


def test_an_unsupported_kernel_ends_with_2_and_names_the_instruction_and_the_others(run: Run) -> None:
    status, out, _ = run("k.ptx", "surface", *ONE, "--arg", "u64:0")
    assert status == 2
    line = line_of("suld.b.1d")
    assert re.search(rf"^surface: not checked: .*\n  PTX line {line}: suld\.b\.1d.*not supported", out)
    assert "kernels of k.ptx that are supported: reverse, app::scale, no_lines, structure\n" in out
    assert out.endswith("verdict: incomplete\n")


def test_an_unsupported_file_ends_with_2(run: Run) -> None:
    Path("k.ptx").write_text(PTX + "\n.frobnicate 7;\n")
    for options in ((), ("scale", *ONE)):
        status, out, _ = run("k.ptx", *options)
        assert status == 2
        assert f"PTX line {len(PTX.splitlines()) + 2}: .frobnicate 7;" in out


def test_without_a_kernel_it_lists_kernels_parameters_and_unsupported_instructions(run: Run) -> None:
    status, out, _ = run("k.ptx")
    assert status == 2
    assert out.splitlines() == [
        "reverse", "  argument 0: y, 8 bytes",
        "app::scale, in the PTX _ZN3app5scaleEPfif",
        *(f"  argument {k}: parameter {k}, {size} bytes" for k, size in enumerate((8, 4, 4))),
        "no_lines", "  argument 0: y, 8 bytes",
        "surface", "  argument 0: s, 8 bytes",
        f"  unsupported: PTX line {line_of('suld.b.1d')}: suld.b.1d.b32.trap %r2, [%x1, {{%r1}}];: "
        "suld.b.1d.b32.trap is not supported",
        "structure", "  argument 0: s, 16 bytes",
        "5 kernels, 4 supported",
    ]
    listed = json.loads(run("k.ptx", "--format", "json")[1])
    assert conforming(listed, Listing) == []
    assert [kernel["entry"] for kernel in listed["kernels"]] == re.findall(r"\.entry (\w+)", PTX)
    assert [kernel["kernel"] for kernel in listed["kernels"] if kernel["unsupported"]] == ["surface"]
    Path("k.ptx").write_text(PTX[: PTX.index(".visible .entry surface")])
    status, out, _ = run("k.ptx")
    assert status == 0 and out.endswith("\n3 kernels, 3 supported\n")


def test_formats_have_the_same_findings(run: Run) -> None:
    options = ("k.ptx", "reverse", *ONE, "--arg", "u32[200]", "--schedules", 3)
    data, log, text = (run(*options, "--format", style) for style in ("json", "sarif", "text"))
    assert data[0] == log[0] == text[0] == 1
    document, sarif = json.loads(data[1]), json.loads(log[1])
    assert conforming(document, Document) == [] and document["tilejit"] == __version__
    assert sarif_problems(sarif) == []
    (kernel,) = document["kernels"]
    assert [launch["schedule"] for launch in kernel["launches"]] == [0, 1, 2]
    found = [(finding["rule"], finding["level"], finding["count"]) for finding in kernel["findings"]]
    assert found == [(x["ruleId"], x["level"], x["occurrenceCount"]) for x in sarif["runs"][0]["results"]]
    shown = re.findall(r"^  (\w+) \[([\w-]+)\] ([\d,]+) times?", text[1], re.MULTILINE)
    assert found == [(rule, level, int(count.replace(",", ""))) for level, rule, count in shown]
    assert {rule for rule, _, _ in found} >= {"race", "bounds"}


def test_schedules_run_on_equal_data(run: Run) -> None:
    """A kernel that changes its argument, and traps if an earlier launch did."""
    Path("once.ptx").write_text(
        ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry once(.param .u64 x)\n{\n"
        ".reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %x<4>;\nld.param.u64 %x1, [x]; ld.global.u32 %r1, [%x1];\n"
        "setp.ne.u32 %p1, %r1, 5; @%p1 trap;\nst.global.u32 [%x1], 6;\nret;\n}\n"
    )
    assert run("once.ptx", "once", "--grid", 1, "--block", 1, "--arg", "u32[1]=5", "--schedules", 3)[0] == 0
    assert run("once.ptx", "once", "--grid", 1, "--block", 1, "--arg", "u32[1]=6", "--schedules", 3)[0] == 1


def test_an_output_is_uninitialized(run: Run) -> None:
    others = ("--arg", "i32:1000", "--arg", "f32:2")
    status, out, _ = run(*SCALE, "--arg", "out:f32[1000]", *others)
    assert status == 1 and "error [undefined]" in out and "parameter 0" in out
    status, out, _ = run(*SCALE, "--arg", "out:speeds:f32[1000]", *others)
    assert status == 1 and "speeds" in out


def test_a_file_is_copied(run: Run) -> None:
    values = np.arange(1000, dtype=np.float32).reshape(20, 50)
    np.save("x.npy", np.asfortranarray(values))
    assert run(*SCALE, "--arg", "x.npy", "--arg", "i32:1000", "--arg", "f32:2")[0] == 0
    assert np.array_equal(np.load("x.npy"), values)
    status, out, _ = run(*SCALE, "--arg", "speeds:x.npy", "--arg", "i32:1001", "--arg", "f32:2")
    assert status == 1 and "speeds has 4000 bytes" in out


def test_strict_checks_are_passed_on(run: Run) -> None:
    """A shuffle between a store and a load of shared memory orders them unless the checks are strict."""
    Path("s.ptx").write_text(
        ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry s()\n{\n.reg .pred %p<2>; .reg .b32 %r<9>;\n"
        ".shared .align 4 .b8 tile[128];\nmov.u32 %r1, %tid.x; mov.u32 %r2, tile; mad.lo.u32 %r3, %r1, 4, %r2;\n"
        "st.shared.u32 [%r3], %r1; shfl.sync.idx.b32 %r4|%p1, %r1, 0, 31, -1; xor.b32 %r5, %r3, 4;\n"
        "ld.shared.u32 %r6, [%r5]; st.shared.u32 [%r5], %r6;\nret;\n}\n"
    )
    options = ("s.ptx", "s", "--grid", 1, "--block", 32)
    lenient, strict = run(*options)[1], run(*options, "--checks", "strict")[1]
    times = [sum(int(x) for x in re.findall(r"\[race\] (\d+) times", out)) for out in (lenient, strict)]
    assert times[0] < times[1]


def test_grids_and_blocks_may_have_three_extents(run: Run) -> None:
    options = ("k.ptx", "scale", "--grid", "2,2,1", "--block", "16,4,4", *SCALE_ARGS)
    assert "grid (2, 2, 1), block (16, 4, 4)" in run(*options)[1]


@pytest.mark.parametrize("name", ["scale", "app::scale", "_ZN3app5scaleEPfif"])
def test_a_kernel_has_several_names(run: Run, name: str) -> None:
    assert run("k.ptx", name, "--grid", 4, "--block", 256, *SCALE_ARGS)[0] == 0


def test_prints_of_a_kernel_do_not_disturb_the_report(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    launch = DeviceModule.launch

    def printing(self: DeviceModule, *args: Any, write: Callable[[str], object], **options: Any) -> Any:
        write("from the kernel\n")
        return launch(self, *args, write=write, **options)

    monkeypatch.setattr(DeviceModule, "launch", printing)
    status, out, err = run(*SCALE, *SCALE_ARGS, "--format", "json")
    assert status == 0 and json.loads(out)["verdict"] == "clean" and err == "from the kernel\n"


def test_a_fault_of_the_simulator_is_incomplete_and_no_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*args: Any, **options: Any) -> Any:
        raise IndexError("no such thing")

    monkeypatch.setattr(DeviceModule, "launch", failing)
    status, out, _ = run(*SCALE, *SCALE_ARGS)
    assert status == 2
    fault = "the simulator failed with IndexError: no such thing; this is a fault of tilejit"
    assert out.startswith(f"app::scale: not checked: {fault}\n")


def test_help_ends_with_0(run: Run) -> None:
    status, out, _ = run("--help")
    assert status == 0 and "exit status: 0 clean, 1 errors found, 2 something was not checked, 3 bad input" in out


def test_other_commands_keep_their_statuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "none.py"]) == 1
    with pytest.raises(SystemExit) as ended:
        main(["explain", "--frob"])
    assert ended.value.code == 2
    capsys.readouterr()
