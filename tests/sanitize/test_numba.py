"""Unmodified programs of Numba-CUDA on the simulator."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilejit import sanitize
from tilejit.__main__ import main
from tilejit.errors import (
    LaunchError,
    OutOfBoundsError,
    RaceError,
    UninitializedReadError,
    UnsupportedInstructionError,
)
from tilejit.sanitize.report import as_text, document, results_of

pytestmark = pytest.mark.integration

HAS_NUMBA = importlib.util.find_spec("numba_cuda") is not None
needs_numba = pytest.mark.skipif(not HAS_NUMBA, reason="numba-cuda is not installed: pip install -e '.[numba]'")

SCRIPT = """\
import sys

import numpy as np
from numba import cuda

@cuda.jit
def double(x):
    x[cuda.grid(1)] *= 2

if __name__ == "__main__":
    x = np.ones(int(sys.argv[1]), np.float32)
    double[1, 64](x)
    assert (x == 2).all()
"""
NAMES = (
    "vectors", "arrays_of_the_host", "reduction", "dynamic_shared_memory", "matrices", "kinds_of_scalars", "records",
    "signatures_and_device_functions", "streams_and_events", "mapped_memory", "random_numbers", "atomics", "library",
    "properties_of_the_device",
)
SOURCE = Path(__file__).with_name("numba_programs.py")


@pytest.fixture(scope="module")
def programs() -> Any:
    """The programs, imported in a context, because one of them compiles a kernel at once."""
    with sanitize.numba():
        from tests.sanitize import numba_programs
    return numba_programs


def line_of(text: str) -> int:
    (number,) = (i for i, line in enumerate(SOURCE.read_text().splitlines(), 1) if line.endswith(text))
    return number


@needs_numba
def test_every_program_is_tested(programs: Any) -> None:
    assert tuple(program.__name__ for program in programs.PROGRAMS) == NAMES


@needs_numba
@pytest.mark.parametrize("name", NAMES)
def test_programs_are_right_and_clean(programs: Any, name: str) -> None:
    with sanitize.numba(schedules=2) as session:
        getattr(programs, name)()
    assert session.findings == ()
    assert all(len(launch.reports) == 2 for launch in session.launches)
    assert bool(session.launches) == (name != "properties_of_the_device")


@needs_numba
def test_a_race_names_both_lines(programs: Any) -> None:
    stored = line_of("# the race") - 1
    with sanitize.numba(), pytest.raises(RaceError) as raised:
        programs.racy_reverse[1, 128](np.zeros(128, np.float32))
    lines = re.findall(rf"{re.escape(str(SOURCE))}:(\d+)", str(raised.value))
    assert lines == [str(stored + 1), str(stored)]


@needs_numba
def test_findings_are_collected(programs: Any) -> None:
    with sanitize.numba(on_finding="collect", schedules=3) as session:
        programs.racy_reverse[1, 128](np.zeros(128, np.float32))
        programs.count[1, 64](np.zeros(1, np.int64))
    first, second = session.launches
    assert (first.kernel, first.grid, first.block) == ("racy_reverse", (1, 1, 1), (128, 1, 1))
    assert {finding.rule for finding in first.findings} >= {"race"}
    assert {finding.rule for finding in second.findings} == {"race"}
    assert f":{line_of('# not atomic')}" in second.findings[0].message
    assert "out+0 bytes, element 0 of int64[1]" in second.findings[0].message


@needs_numba
def test_a_session_has_a_report(programs: Any) -> None:
    with sanitize.numba(on_finding="collect", schedules=2) as session:
        programs.vectors()
        programs.racy_reverse[1, 128](np.zeros(128, np.float32))
        programs.vectors()
    data = document(results_of(session.launches), "0")
    clean, racy = data["kernels"]
    assert (clean["kernel"], clean["verdict"], len(clean["launches"])) == ("add", "clean", 4)
    assert (racy["kernel"], racy["verdict"], len(racy["launches"])) == ("racy_reverse", "findings", 2)
    assert [launch["schedule"] for launch in racy["launches"]] == [0, 1]
    places = [finding["places"][0] for finding in racy["findings"] if finding["rule"] == "race"]
    assert {Path(place["file"]).resolve() for place in places} == {SOURCE}
    assert {place["line"] for place in places} == {line_of("# the race"), line_of("# the race") - 1}
    file = places[0]["file"]
    assert f"{file}:{line_of('# the race')}: x[thread] = tile[127 - thread]  # the race" in list(as_text(data))


@needs_numba
def test_a_script_runs_unmodified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    assert main(["run", "--numba", str(script), "64"]) == 0
    assert capsys.readouterr().err.startswith("simulated sm_90: 1 kernel, 1 launch, 0 findings, ")
    assert main(["run", "--numba", str(script), "63"]) == 1
    shown = capsys.readouterr().err
    assert "OutOfBoundsError: " in shown and f"{script}:8" in shown and "; x has 252 bytes" in shown
    assert main(["run", str(script)]) == 1
    assert "nothing to simulate was selected" in capsys.readouterr().err


@needs_numba
def test_an_array_has_its_parameter_s_name_and_index(programs: Any) -> None:
    from numba import cuda

    with sanitize.numba(), pytest.raises(OutOfBoundsError) as raised:
        programs.too_far[2, 32](cuda.to_device(np.zeros((50,), np.int32)), cuda.device_array(64, np.int32))
    assert "x+200 bytes, element 50 of int32[50]; x has 200 bytes" in str(raised.value)
    assert f"{SOURCE}:{line_of('# out of bounds')}" in str(raised.value)


@needs_numba
def test_unwritten_arrays_are_uninitialized(programs: Any) -> None:
    from numba import cuda

    with sanitize.numba():
        x = cuda.to_device(np.ones(32, np.float32))
        with pytest.raises(UninitializedReadError) as raised:
            programs.accumulate[1, 32](x, cuda.device_array(32, np.float32))
        assert f"{SOURCE}:{line_of('# unwritten')}" in str(raised.value) and " out+" in str(raised.value)
        # a copy of unwritten memory is unwritten
        copy = cuda.device_array(32, np.float32)
        copy.copy_to_device(cuda.device_array(32, np.float32))
        with pytest.raises(UninitializedReadError):
            programs.accumulate[1, 32](x, copy)
        # what the host or a kernel wrote is written, whatever its bytes are
        out = cuda.to_device(np.full(32, -1, np.int32).view(np.float32))
        programs.accumulate[1, 32](x, out)
        copy.copy_to_device(x)
        programs.accumulate[1, 32](x, copy)
        assert copy.copy_to_host().tolist() == [2] * 32
        with pytest.raises(UninitializedReadError):
            programs.accumulate[1, 32](x, cuda.Out(np.zeros(32, np.float32)))


@needs_numba
def test_freed_arrays_are_out_of_bounds(programs: Any) -> None:
    from numba import cuda

    with sanitize.numba() as session:
        before = len(session.device.allocations())
        x = cuda.to_device(np.ones(32, np.float32))
        part = x[5:]
        del x
        assert len(session.device.allocations()) == before + 1
        del part
        assert len(session.device.allocations()) == before


@needs_numba
def test_exceptions_of_debug_kernels_are_raised(programs: Any) -> None:
    with sanitize.numba():
        x, out = np.arange(1, 41), np.zeros(40, np.int64)
        try:
            programs.divide[2, 32](x, out)
        except UnsupportedInstructionError as error:
            pytest.skip(f"debug code isn't supported: {error.message.splitlines()[0]}")
        assert np.array_equal(out, 7 // x)
        x[35] = 0
        with pytest.raises(ValueError, match=r"thread \[3, 0, 0\] of CTA \[1, 0, 0\]: a zero"):
            programs.divide[2, 32](x, out)


@needs_numba
def test_the_context_leaves_numba_as_it_was(programs: Any) -> None:
    from numba import cuda
    from numba.cuda import dispatcher
    from numba.cuda.cudadrv import devicearray, devices, driver

    def state() -> list[object]:
        kernel = dispatcher._Kernel
        return [
            kernel.launch, kernel.bind, kernel.__init__, vars(driver.driver).copy(),
            devicearray._to_strided_memory_view, vars(devices._runtime).copy(), vars(devices._DeviceList).copy(),
            cuda.is_available(),
        ]

    before = state()
    with sanitize.numba():
        kept = cuda.to_device(np.zeros(3))
        assert cuda.is_available()
    assert state() == before
    # memory may be freed afterwards, and its address is unknown to a later context
    with sanitize.numba(), pytest.raises(LaunchError, match="create all device arrays in the context"):
        kept.copy_to_host()
    del kept


@needs_numba
def test_bad_use_is_refused(programs: Any) -> None:
    from numba import cuda

    with sanitize.numba():
        with pytest.raises(LaunchError, match="is active\nhelp: don't nest contexts"), sanitize.numba():
            pass
        with pytest.raises(LaunchError, match="managed arrays can't be simulated"):
            cuda.managed_array(3)
        with pytest.raises(LaunchError, match="cuIpcGetMemHandle of CUDA's driver can't be simulated\nhelp: "):
            cuda.to_device(np.zeros(3)).get_ipc_handle()
        with pytest.raises(LaunchError, match="a CTA has at most 1024 threads"):
            programs.too_far[1, 2000](np.zeros(1), np.zeros(1))
    with pytest.raises(LaunchError, match="unknown arch 'sm_1'"):
        sanitize.numba(arch="sm_1")


def test_other_versions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilejit.sanitize import versions

    monkeypatch.setattr(versions.metadata, "version", lambda name: "0.29.1")
    with pytest.raises(LaunchError, match=r"numba-cuda 0\.29\.1 is not supported\nhelp: install numba-cuda 0\.30"):
        sanitize.numba()

    def missing(name: str) -> str:
        raise versions.metadata.PackageNotFoundError

    monkeypatch.setattr(versions.metadata, "version", missing)
    with pytest.raises(LaunchError, match=r"numba-cuda, which isn't installed\nhelp: pip install 'tilejit\[numba\]'"):
        sanitize.numba()


@needs_numba
def test_simulated_kernels_are_those_of_the_architecture(programs: Any) -> None:
    with sanitize.numba(arch="sm_80") as session:
        programs.vectors()
        assert session.launches[-1].reports[0].entry in "".join(session._modules)
        assert all(".target sm_80" in ptx for ptx in session._modules)
    assert "numba" in sys.modules
