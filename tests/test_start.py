"""What a program imports, and when: each part of its start waits for nothing that it doesn't need."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parent.parent

#: what reads and compiles kernels
COMPILER = {
    "tilejit.isa", "tilejit.ops", "tilejit.ir.nodes", "tilejit.ir.verify", "tilejit.frontend.words",
    "tilejit.frontend.kernel", "tilejit.lower", "tilejit.codegen", "tilejit.pipeline", "tilejit.explain_data",
    "llvmlite",
}
GPU = {"cuda", "tilejit.runtime.cuda"}
SIMULATOR = {"tilejit.simulator", "tilejit.runtime.simulated"}
#: slow to import, and nothing of ours needs them
NEVER = {"torch", "cupy", "numpy.ma", "numpy.testing", "hypothesis", "tilejit.testing", "tilejit.kernels"}

KERNEL = """
import numpy as np
import tilejit as tj
from tilejit import S, tx

@tj.kernel(threads=32)
def double(A: tj.Tensor, B: tj.Tensor, n: tj.int32 = 2):
    staged = tj.alloc_shared((32,), tj.float32)
    x = tj.alloc_local((32,), tj.float32, layout=S[(32,) : (1 @ tx,)])
    tj.cta.copy(staged, A.tile((32,), (tj.cta_id(),)))
    tj.cta_sync()
    tj.cta.copy(x, staged)
    tj.cta.mul(x, x, n)
    tj.cta.copy(B.tile((32,), (tj.cta_id(),)), x)
"""
LAUNCH = "a, b = np.ones(64, np.float32), np.zeros(64, np.float32); double[2](a, b)"
FAKE_GPU = """
from tilejit.runtime import devices
devices._COMPILER = ()
from tests.bench.bench_launch import fake_driver
fake_driver()
"""


def imported(program: str, **environment: str) -> set[str]:
    """The modules that are there when a program ends, in a fresh process."""
    text = textwrap.dedent(program) + "\nimport sys; print(*sys.modules)"
    variables = {name: value for name, value in os.environ.items() if name != "TILEJIT_DEVICE"} | environment
    # from a file, whose text the kernel is read from
    file = Path(os.environ["PYTEST_START_FOLDER"], "program.py")
    file.write_text(text, encoding="utf-8")
    variables["PYTHONPATH"] = str(ROOT)
    ended = subprocess.run([sys.executable, str(file)], cwd=ROOT, env=variables, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return set(ended.stdout.splitlines()[-1].split())


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_START_FOLDER", str(tmp_path))


def test_importing_tilejit_imports_nothing_else() -> None:
    modules = imported("import tilejit")
    assert {m for m in modules if m.startswith("tilejit")} == {"tilejit"}
    assert not modules & {"numpy", "llvmlite", "cuda", "torch"}


def test_the_kernel_library_is_imported_on_demand_and_imports_no_framework() -> None:
    modules = imported("import tilejit as tj\ntj.kernels")
    assert "tilejit.kernels.products" in modules and not modules & (NEVER - {"tilejit.kernels"})


def test_decorating_a_kernel_imports_nothing_that_compiles_or_runs_it() -> None:
    assert not imported(KERNEL) & (COMPILER | GPU | SIMULATOR | NEVER | {"dataclasses"})


@pytest.mark.parametrize(("device", "others"), [("cuda", SIMULATOR), ("simulated", GPU)])
def test_what_runs_a_compiled_kernel_needs_no_compiler(device: str, others: set[str]) -> None:
    if device == "cuda":
        pytest.importorskip("cuda.bindings")
    assert not imported(f"{KERNEL}\nimport tilejit.runtime.{device}") & (COMPILER | others | NEVER)


def test_a_launch_on_a_gpu_imports_the_compiler_and_no_simulator() -> None:
    pytest.importorskip("cuda.bindings")
    modules = imported(KERNEL + FAKE_GPU + LAUNCH)
    assert {"llvmlite", "tilejit.pipeline", "tilejit.runtime.cuda"} <= modules
    assert not modules & (SIMULATOR | NEVER | {"tilejit.explain_data"})


def test_a_launch_on_the_simulator_never_touches_the_driver() -> None:
    loads = "import ctypes; load = ctypes.CDLL\ndef refuse(name, *rest, **named):\n    assert 'cuda' not in str(name)\n"
    loads += "    return load(name, *rest, **named)\nctypes.CDLL = refuse\n"
    modules = imported(loads + KERNEL + LAUNCH, TILEJIT_DEVICE="sim")
    assert "tilejit.simulator" in modules
    assert not modules & (GPU | NEVER | {"cuda.bindings", "tilejit.explain_data"})


def test_a_simulated_launch_imports_only_the_units_that_its_kernel_uses() -> None:
    units = {f"tilejit.simulator.machine.{name}" for name in ("bulk", "clusters", "copies", "tensor_memory", "wgmma")}
    modules = imported(KERNEL + LAUNCH, TILEJIT_DEVICE="sim")
    assert "tilejit.simulator.machine.units" in modules and not modules & units


def test_without_a_driver_its_bindings_are_not_imported() -> None:
    absent = "import ctypes\ndef refuse(name, *rest, **named):\n    raise OSError(name)\nctypes.CDLL = refuse\n"
    ask = "from tilejit.runtime import devices\nassert 'cuda' in devices.cuda_problem().lower()\nprint(tj.device())"
    assert not imported(KERNEL + absent + ask) & (COMPILER | {"cuda.bindings", "tilejit.runtime.cuda"})
