"""Random C functions by seeds of the day: what nvcc makes of them, simulated, computes what gcc's code does."""

from __future__ import annotations

import ctypes
import datetime
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pytest

from tests.simulator.foreign.random_c import program
from tilejit.simulator import Device

pytestmark = pytest.mark.long

DAY = int(os.environ.get("TILEJIT_SEED") or datetime.date.today().strftime("%Y%m%d"))
FILES, FUNCTIONS, N = 20, 8, 128


def compiler() -> list[str]:
    """nvcc of the test requirements, else of the path; without fused multiply-adds, which the host doesn't make."""
    packaged = Path(sysconfig.get_paths()["purelib"]) / "nvidia" / "cu13" / "bin" / "nvcc"
    nvcc = str(packaged) if packaged.exists() else shutil.which("nvcc")
    if nvcc is None or shutil.which("gcc") is None:
        pytest.skip("needs nvcc and gcc")
    return [nvcc, "-w", "-ptx", "-arch=sm_90", "-fmad=false"]


def inputs() -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    a = rng.integers(-(2**31), 2**31, N).astype(np.int32)
    a[:40] = np.arange(40) - 8
    c = rng.integers(0, 2**64, N, np.uint64)
    c[:20] = np.arange(20)
    d = rng.normal(size=N) * 10.0 ** rng.integers(-3, 6, N)
    return [a, c, (d[::-1] * 1.5).astype(np.float32), d]


@pytest.mark.parametrize("number", range(FILES))
def test_random_functions_compute_the_same_on_the_host(tmp_path: Path, number: int) -> None:
    seed = DAY * FILES + number
    (tmp_path / "f.c").write_text(program(seed, FUNCTIONS))
    shutil.copy(tmp_path / "f.c", tmp_path / "f.cu")
    host = "gcc -std=gnu11 -O1 -w -fwrapv -ffp-contract=off -shared -fPIC f.c -o f.so -lm"
    subprocess.run(host.split(), cwd=tmp_path, check=True)
    subprocess.run([*compiler(), "f.cu", "-o", "f.ptx"], cwd=tmp_path, check=True)
    library = ctypes.CDLL(str(tmp_path / "f.so"))
    module = Device().load((tmp_path / "f.ptx").read_text())
    for i in range(FUNCTIONS):
        arguments = inputs()
        expected = [np.zeros((N, 8), np.int64), np.zeros((N, 3))]
        addresses = [x.ctypes.data_as(ctypes.c_void_p) for x in (*arguments, *expected)]
        getattr(library, f"k{i}")(*addresses, ctypes.c_int(N))
        got = [np.zeros_like(x) for x in expected]
        module.launch(f"k{i}", (1,), (N,), [*arguments, *got, np.int32(N)])
        for mine, theirs in zip(got, expected, strict=True):
            np.testing.assert_array_equal(mine, theirs, err_msg=f"k{i} of program({seed}, {FUNCTIONS})")
