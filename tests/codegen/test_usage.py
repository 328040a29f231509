"""Registers, spills and occupancy of a compiled kernel, before a driver has said."""

from __future__ import annotations

import re
import subprocess

import pytest

import tilejit as tj
from tests.support.ptxas import ptxas_path
from tilejit.target import TARGETS, target


@tj.kernel(threads=128)
def doubled(X: tj.Tensor, Y: tj.Tensor, N: tj.constexpr):
    tj.cta.store(Y[0:N], tj.exp(tj.cta.load(X[0:N])))


def compiled(elements: int, name: str = "sm_90a") -> tj.Compiled:
    """A kernel whose threads hold `elements` float32 values twice."""
    array = tj.spec((128 * elements,), tj.float32)
    return doubled.compile(array, array, N=128 * elements, target=name)


@pytest.mark.parametrize(
    ("name", "threads", "registers", "shared_bytes", "resident", "occupancy"),
    [
        ("sm_90a", 256, 32, 0, 8, 1.0),
        ("sm_90a", 256, 128, 0, 2, 0.25),
        ("sm_90a", 256, 129, 0, 1, 0.125),
        ("sm_90a", 1024, 64, 0, 1, 0.5),
        ("sm_90a", 32, 16, 0, 32, 0.5),
        ("sm_90a", 128, 32, 100 * 1024, 2, 0.125),
        ("sm_86", 128, 40, 0, 12, 1.0),
        ("sm_75", 1024, 64, 0, 1, 1.0),
    ],
)
def test_residency_is_that_of_cudas_occupancy_calculator(name, threads, registers, shared_bytes, resident, occupancy):
    unit = target(name).multiprocessor
    assert unit.resident(threads, registers, shared_bytes) == resident
    assert unit.occupancy(threads, registers, shared_bytes) == occupancy


def test_every_target_has_a_multiprocessor():
    for name in TARGETS:
        unit = target(name).multiprocessor
        assert unit.shared_bytes - unit.reserved_bytes >= target(name).shared_bytes


def test_tiles_are_counted_where_most_are_needed_at_once():
    small, large = compiled(8), compiled(64)
    assert small.usage.is_estimate and small.spills == 0
    assert small.registers == 16 + 2 * 8 and large.registers == 16 + 2 * 64
    assert small.occupancy == 1.0 and large.occupancy == 3 * 4 / 64


def test_what_the_registers_of_a_thread_cant_hold_is_spilled():
    # each result takes the register of its argument
    assert compiled(128).registers == 255 and compiled(128).spills == 0
    assert compiled(256).registers == 255 and compiled(256).spills == 4 * (16 + 256 - 255)


@pytest.mark.parametrize("elements", [1, 16, 64, 128, 192])
def test_the_estimate_is_rather_too_much_than_too_little(elements, tmp_path):
    if ptxas_path() is None:
        pytest.skip("no ptxas: install nvidia-cuda-nvcc")
    made = compiled(elements)
    (tmp_path / "k.ptx").write_text(made.ptx)
    command = [str(ptxas_path()), "-arch=sm_90a", "-v", "-o", str(tmp_path / "k.cubin"), str(tmp_path / "k.ptx")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    used = int(re.search(r"Used (\d+) registers", said)[1])
    assert used <= made.registers <= 3 * used, (used, made.registers)
    spilled = int(re.search(r"(\d+) bytes stack frame", said)[1])
    assert spilled == made.spills == 0
