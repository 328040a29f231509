"""`python -m tilejit compile` and `explain` on tuned kernels: the configuration they take, and what they say of it."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

import tilejit as tj
from tests.tuning.kernels import Clock, adding, grid
from tilejit.__main__ import main
from tilejit.runtime import devices

KERNELS = """
import tilejit as tj

@tj.autotune([tj.Config({"B": block}) for block in (32, 64, 128)], key=["N"])
@tj.kernel(threads=32)
def add_one(A: tj.Tensor, T: tj.Tensor, N: tj.int32, B: tj.constexpr):
    start = tj.cta_id(0) * B
    T[0] = B
    tj.cta.store(A[start : start + B], tj.cta.load(A[start : start + B]) + 1.0)

@tj.autotune(
    [tj.Config({"B": b, "C": c}, threads=n) for b, c, n in ((32, 1, 32), (32, 2, 64), (64, 1, 32))], key=["A"],
    prune=lambda configs, named: configs if named["A"].shape[0] > 32 else configs[2:],
)
@tj.kernel
def filled(A: tj.Tensor, B: tj.constexpr, C: tj.constexpr):
    if tj.thread_id() < B:
        A[tj.thread_id()] = B + C

@tj.autotune([tj.Config({"B": 1}), tj.Config({"B": 2})], key=["A"])
@tj.kernel(threads=32)
def pinned(B: tj.constexpr, A: tj.Tensor = tj.spec((64,), tj.float32)):
    A[tj.thread_id()] = B
"""

ARRAYS = ("--spec", "A=float32[256]", "--spec", "T=int32[1]")


class CommandLine:
    """Runs commands on a file of kernels. folder: of the file, and of what they write."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys
        self.file = folder / "kernels.py"
        self.file.write_text(textwrap.dedent(KERNELS))

    def __call__(self, *argv: str) -> tuple[int, str, str]:
        """Status, and what was printed on both streams."""
        status = main(list(argv))
        said = self._capsys.readouterr()
        return status, said.out, said.err

    def compile(self, kernel: str, *argv: str) -> tuple[dict[str, Any], str]:
        """The compile-time values, and the threads, that a kernel was compiled with, and what was said of it."""
        out = self.folder / "k.ptx"
        status, printed, said = self("compile", f"{self.file}::{kernel}", *argv, "-o", str(out))
        assert (status, printed) == (0, f"{out}\n"), said
        compiled = tj.load_compiled(out).compiled
        values = {name: kind.value for name, kind in compiled.signature.arguments if hasattr(kind, "value")}
        return {**values, "threads": compiled.threads}, said


@pytest.fixture
def command(tmp_path: Path, disk: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, capsys)


@pytest.fixture
def tuned(command: CommandLine, clock: Clock, arrays: Any) -> CommandLine:
    """Where `add_one` was tuned by N=256, by another process as it were: B=64 is the fastest."""
    from runpy import run_path

    run_path(str(command.file))["add_one"][grid](*arrays, 256)
    assert arrays[1][0] == 64
    return command


def test_the_fastest_configuration_is_compiled_where_it_is_known(tuned: CommandLine) -> None:
    values, said = tuned.compile("add_one", *ARRAYS, "--spec", "N=256")
    assert values == {"B": 64, "threads": 32}
    assert said == "add_one: configuration B=64: the fastest of 3, for N=256 on sim:sm_90a\n"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("N=100", "the first of 3: not tuned for N=100 on sim:sm_90a yet"),
        ("N=int32", "the first of 3: no value is given for N, needed by the key"),
        # the placeholder for a number of a type is no number that it was tuned by
        ("N=0", "the first of 3: not tuned for N=0 on sim:sm_90a yet"),
    ],
)
def test_what_was_not_tuned_is_compiled_in_the_first_and_that_is_said(tuned: CommandLine, value: str, why: str) -> None:
    values, said = tuned.compile("add_one", *ARRAYS, "--spec", value)
    assert values == {"B": 32, "threads": 32} and said == f"add_one: configuration B=32: {why}\n"


def test_a_number_without_a_value_is_not_its_placeholder(clock: Clock, arrays: Any) -> None:
    k = adding()
    k[8](*arrays, 0)
    assert k.tuning[0].best.config.values == {"B": 64}
    specs = tj.spec((256,), tj.float32), tj.spec((1,), tj.int32)
    assert "configuration B=64: the fastest" in str(k.explain(*specs, 0))
    assert "configuration B=32: the first of 3: no value is given for N" in str(k.explain(*specs, tj.int32))


def test_what_prune_may_ask_has_to_have_a_value(clock: Clock, arrays: Any) -> None:
    k = adding(key=[], prune=lambda configs, named: configs if named["N"] < 200 else configs[2:])
    specs = tj.spec((256,), tj.float32), tj.spec((1,), tj.int32)
    assert "B=128: the only one of 3 that prune keeps" in str(k.explain(*specs, 256))
    assert "B=32: the first of 3: not tuned on sim:sm_90a yet" in str(k.explain(*specs, 100))
    assert "B=32: the first of 3: no value is given for N, which prune may read" in str(k.explain(*specs, tj.int32))


def test_a_value_of_the_configuration_chooses_it(tuned: CommandLine) -> None:
    values, said = tuned.compile("add_one", *ARRAYS, "--spec", "N=256", "--spec", "B=128")
    assert values == {"B": 128, "threads": 32} and said == "add_one: configuration B=128: the only one with B=128\n"
    # also one that isn't among them
    values, said = tuned.compile("add_one", *ARRAYS, "--spec", "N=256", "--spec", "B=16", "--threads", "64")
    assert values == {"B": 16, "threads": 64}
    assert said == "add_one: configuration B=16: none of the 3 tuned configurations has B=16, threads=64\n"


def test_some_values_choose_among_those_that_have_them(command: CommandLine, clock: Clock) -> None:
    def compiled(*argv: str) -> tuple[tuple[Any, ...], str]:
        values, said = command.compile("filled", "--spec", "A=float32[64]", *argv)
        return tuple(values.values()), said.partition(": ")[2]

    assert compiled("--spec", "B=64") == ((64, 1, 32), "configuration B=64, C=1, threads=32: the only one with B=64\n")
    where = "for A=(64,) on sim:sm_90a"
    assert compiled("--spec", "B=32") == (
        (32, 1, 32), f"configuration B=32, C=1, threads=32: the first of 2 with B=32: not tuned {where} yet\n"
    )
    assert compiled("--threads", "64") == (
        (32, 2, 64), "configuration B=32, C=2, threads=64: the only one with threads=64\n"
    )
    # it takes B + C by the clock
    from runpy import run_path

    a = np.zeros(64, np.float32)
    clock.table, clock.times = a, {33: 3.0, 34: 2.0, 65: 1.0}
    run_path(str(command.file))["filled"][1](a)
    assert compiled() == ((64, 1, 32), f"configuration B=64, C=1, threads=32: the fastest of 3, {where}\n")
    assert compiled("--spec", "B=32") == (
        (32, 2, 64), f"configuration B=32, C=2, threads=64: the fastest of 2 with B=32, {where}\n"
    )


def test_values_that_no_configuration_has_and_that_leave_some_open_are_refused(command: CommandLine) -> None:
    status, _, said = command(
        "compile", f"{command.file}::filled", "--spec", "A=float32[64]", "--spec", "B=16", "-o", "k.ptx"
    )
    assert status == 1 and "no configuration of filled has B=16\nhelp: pass a value for each of B, C, or" in said
    assert "  B=32, C=2, threads=64\n" in said and "filled.kernel" not in said


def test_prune_is_asked_with_specs_and_the_environment_counts(
    command: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, said = command.compile("filled", "--spec", "A=float32[16]")
    assert said == "filled: configuration B=64, C=1, threads=32: the only one of 3 that prune keeps\n"
    monkeypatch.setenv("TILEJIT_AUTOTUNE", "off")
    _, said = command.compile("filled", "--spec", "A=float32[64]")
    assert said == "filled: configuration B=32, C=1, threads=32: the first of 3, as requested by TILEJIT_AUTOTUNE=off\n"


def test_a_target_is_compiled_for_where_no_device_is(tuned: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> NoReturn:
        raise tj.DeviceError("no device cuda:0")

    monkeypatch.setattr(devices, "default", none)
    chosen, said = tuned.compile("add_one", *ARRAYS, "--spec", "N=256", "--target", "sm_90a")
    assert chosen["B"] == 32 and "B=32: the first of 3: no device cuda:0" in said
    assert "so the fastest is unknown" in said
    status, _, said = tuned("compile", f"{tuned.file}::add_one", *ARRAYS, "--spec", "N=256", "-o", "unwritten.ptx")
    assert status == 1 and "DeviceError: no device cuda:0" in said


def test_explain_says_it_too_and_shows_the_table(tuned: CommandLine) -> None:
    def explained(kernel: str, *argv: str) -> str:
        status, out, said = tuned("explain", f"{tuned.file}::{kernel}", *argv)
        assert status == 0, said
        return out

    out = explained("add_one", *ARRAYS, "--spec", "N=256")
    assert "configuration B=64: the fastest of 3, for N=256 on sim:sm_90a\n" in out
    assert re.search(r"^B=128 +1\.05 +1\.05 +30$", out, re.MULTILINE)
    assert "configuration B=32: the first of 3: no value is given for N" in explained("add_one", *ARRAYS)
    # what is pinned needs no specs
    assert "configuration B=1: the first of 2: not tuned for A=(64,) on sim:sm_90a yet" in explained("pinned")
    assert ".visible .entry" in explained("add_one", *ARRAYS, "--ptx")


def test_specs_find_what_arrays_were_tuned_by(arrays: Any, clock: Clock) -> None:
    k = adding(key=["A"])
    k[grid](*arrays, 256)
    specs = tj.spec((256,), tj.float32), tj.spec((1,), tj.int32), tj.int32
    assert "configuration B=64: the fastest of 3, for A=(256,)" in str(k.explain(*specs))
