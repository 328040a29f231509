"""`python -m tilejit run --triton`: an unmodified program in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

pytest.importorskip("torch", reason="torch isn't installed")
pytest.importorskip("triton", reason="Triton isn't installed")

ROOT = Path(__file__).parent.parent.parent

PROGRAM = """
import sys

import torch
import triton
import triton.language as tl

from helper import cuda

@triton.jit
def copy(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)

def main():
    x = torch.arange(100, device=cuda())
    out = torch.zeros_like(x)
    copy[(1,)](x, out, int(sys.argv[1]), BLOCK=128)
    print("same" if torch.equal(x, out) else "different", sys.argv[1:], triton.testing.do_bench(main_again) > 0)
    sys.exit(len(sys.argv) - 2)

def main_again():
    copy[(1,)](torch.ones(128, device=cuda()), torch.ones(128, device=cuda()), 128, BLOCK=128)

if __name__ == "__main__":
    main()
"""


def run(folder: Path, *options: str) -> tuple[int, str, str]:
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    helper = "import torch\n\ndef cuda():\n    assert torch.cuda.is_available()\n    return torch.device('cuda')\n"
    (folder / "helper.py").write_text(helper, encoding="utf-8")
    command = (sys.executable, "-W", "ignore", "-m", "tilejit", "run", *options)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_a_program_runs_with_its_arguments_and_its_status(tmp_path: Path) -> None:
    program = str(tmp_path / "program.py")
    status, out, err = run(tmp_path, "--triton", "--arch", "sm_80", program, "100", "--more")
    assert (status, out.strip()) == (1, "same ['100', '--more'] True")
    assert "simulated sm_80: 1 kernel, 2 launches, 0 findings, " in err


def test_an_error_in_a_kernel_ends_the_program(tmp_path: Path) -> None:
    status, out, err = run(tmp_path, "--triton", str(tmp_path / "program.py"), "101")
    assert status == 1 and not out.strip()
    line = PROGRAM[: PROGRAM.index("    tl.store(")].count("\n") + 1
    assert "OutOfBoundsError: " in err and f"program.py:{line}" in err and "element 100 of int64[100]" in err
    assert "Traceback" not in err


def test_launches_and_findings_are_written_to_a_report(tmp_path: Path) -> None:
    program, report = tmp_path / "program.py", tmp_path / "report.json"
    run(tmp_path, "--triton", "--report", str(report), str(program), "101")
    data = json.loads(report.read_text(encoding="utf-8"))
    (kernel,) = data["kernels"]
    line = PROGRAM[: PROGRAM.index("    tl.store(")].count("\n") + 1
    assert data["verdict"] == "findings" and [x["grid"] for x in kernel["launches"]] == [[1, 1, 1]]
    # the load and the store
    for finding in kernel["findings"]:
        place = finding["places"][0]
        assert (finding["rule"], Path(place["file"]).name, place["line"]) == ("bounds", "program.py", line)
    assert len(kernel["findings"]) == 2
    log = tmp_path / "report.sarif"
    run(tmp_path, "--triton", "--report", str(log), str(program), "100")
    assert json.loads(log.read_text(encoding="utf-8"))["runs"][0]["results"] == []
    status, _, err = run(tmp_path, "--triton", "--report", str(tmp_path / "no" / "folder"), str(program), "100")
    assert status == 1 and "LaunchError: the report can't be written: " in err


def test_nothing_to_run_or_to_simulate(tmp_path: Path) -> None:
    status, _, err = run(tmp_path, "--triton", str(tmp_path / "missing.py"))
    assert status == 1 and "LaunchError: no such file: " in err
    status, _, err = run(tmp_path, str(tmp_path / "program.py"))
    assert status == 1 and "nothing to simulate was selected" in err
