"""LLVM doesn't end the process, and ptxas takes the PTX, for every operation, type and target."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.lane_kernels import Case, cast_cases, elementwise_kernel, operation_cases
from tests.support.ptxas import complaints, ptxas_path
from tilejit.codegen import generate
from tilejit.dtypes import DTYPES
from tilejit.errors import DeviceError
from tilejit.target import TARGETS, for_capability, target

#: one target of each generation and each kind of fp8, bfloat16 and stmatrix support goes through ptxas
ASSEMBLED = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_120a")


def batches() -> Iterator[tuple[str, list[Case]]]:
    """Every scalar operation and every cast, by the type that it takes."""
    for dtype in DTYPES.values():
        for kind, cases in (("operations", operation_cases(dtype)), ("casts", cast_cases(dtype))):
            if cases:
                yield f"{kind} of {dtype}", cases


def compile_all(names: list[str], one_by_one: bool) -> None:
    """The child process: a line on stdout before each kernel, and one with its PTX after."""
    for name in names:
        for title, cases in batches():
            for group in ([c] for c in cases) if one_by_one else [cases]:
                print(json.dumps({"target": name, "title": str(group[0]) if one_by_one else title}), flush=True)
                ptx = generate(elementwise_kernel(group, name), target(name)).ptx
                if not one_by_one:
                    print(json.dumps({"ptx": ptx}), flush=True)
    print(json.dumps({"title": "done"}), flush=True)


def run_child(names: list[str], one_by_one: bool = False) -> tuple[int, list[dict[str, str]], str]:
    """Exit status, what it printed, and what it said on stderr."""
    code = f"from tests.codegen.test_targets import compile_all; compile_all({names!r}, {one_by_one})"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


@pytest.fixture(scope="module")
def compiled() -> list[tuple[str, str, str]]:
    """(PTX, target, title) of every batch, made in a process of its own."""
    status, lines, errors = run_child(list(TARGETS))
    if status != 0 or lines[-1]["title"] != "done":
        started = [line for line in lines if "target" in line][-1]
        _, single, _ = run_child([started["target"]], one_by_one=True)
        last = [line for line in single if "title" in line][-1]
        pytest.fail(f"ended with {status} in {started['title']} for {started['target']}, at {last}:\n{errors[-2000:]}")
    pairs = zip(lines[0:-1:2], lines[1:-1:2], strict=True)
    return [(made["ptx"], named["target"], named["title"]) for named, made in pairs]


@pytest.mark.integration
def test_every_operation_of_every_type_compiles_for_every_target_without_ending_the_process(
    compiled: list[tuple[str, str, str]],
) -> None:
    assert {name for _, name, _ in compiled} == set(TARGETS)


@pytest.mark.integration
def test_ptxas_accepts_every_operation_of_every_type(compiled: list[tuple[str, str, str]]) -> None:
    if ptxas_path() is None:
        pytest.skip("no ptxas: install nvidia-cuda-nvcc")
    assert complaints(program for program in compiled if program[1] in ASSEMBLED) == []


@pytest.mark.integration
def test_the_ptx_version_is_the_targets_own_or_what_an_instruction_needs(compiled: list[tuple[str, str, str]]) -> None:
    for ptx, name, title in compiled:
        converts_fp8 = "cvt.rn.f16x2.e" in ptx or "cvt.rn.satfinite" in ptx
        needed = (8, 1) if converts_fp8 else (7, 0) if "tanh.approx" in ptx else (0, 0)
        major, minor = max(target(name).ptx, needed)
        assert f".version {major}.{minor}\n" in ptx, (name, title, ptx[:120])


@pytest.mark.integration
def test_no_ptx_calls_a_function(compiled: list[tuple[str, str, str]]) -> None:
    for ptx, name, title in compiled:
        assert "call" not in ptx and ".extern .func" not in ptx, (name, title)


@pytest.mark.parametrize(
    ("capability", "name"),
    [((7, 5), "sm_75"), ((8, 8), "sm_87"), ((9, 0), "sm_90a"), ((9, 9), "sm_90"), ((12, 1), "sm_121a"),
     ((13, 0), "sm_121")],
)
def test_a_device_gets_the_newest_target_that_it_runs(capability: tuple[int, int], name: str) -> None:
    assert for_capability(*capability).name == name


def test_a_device_older_than_all_targets_is_refused() -> None:
    with pytest.raises(DeviceError, match="compute capability 7.0 is too old"):
        for_capability(7, 0)
