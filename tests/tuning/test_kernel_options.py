"""Configurations that set the cluster or the limit of registers of a kernel."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilejit as tj
from tests.tuning.kernels import Clock, adding, grid

CONFIGS = [tj.Config({"B": 32}), tj.Config({"B": 64}, max_registers=40), tj.Config({"B": 128}, cluster=(2,))]


def built(compiled: tj.CompiledKernel | Any) -> tuple[Any, list[str]]:
    return compiled.executable.cluster, re.findall(r"\.maxnreg\s+(\d+)", compiled.ptx)


def test_each_configuration_is_built_with_its_options(arrays: Any, clock: Clock) -> None:
    k, (a, t) = adding(configs=CONFIGS), arrays
    k[grid](a, t, 256)
    assert set(clock.tried) == {32, 64, 128}
    found = {dict(v.signature.arguments)["B"].value: built(v.compiled) for v in k.signatures}
    assert found == {32: (None, []), 64: (None, ["40"]), 128: ((2, 1, 1), [])}


@pytest.mark.parametrize(("fastest", "expected"), [(64, (None, ["40"])), (128, ((2, 1, 1), []))])
def test_launches_and_explanations_have_the_options_of_the_fastest(
    arrays: Any, clock: Clock, fastest: int, expected: tuple[Any, list[str]]
) -> None:
    clock.times = dict.fromkeys((32, 64, 128), 3.0) | {fastest: 1.0}
    k, (a, t) = adding(configs=CONFIGS), arrays
    k[grid](a, t, 256)
    a[:] = 0
    for _ in range(3):
        k[grid](a, t, 256)
    assert (a == 3).all() and t[0] == fastest
    assert built(k.compile(a, t, 256)) == expected
    assert built(k[grid].bind(a, t, 256).compiled) == expected
    assert str(k.tuning[0].best.config) in str(k.explain(a, t, 256))
    tj.simulate(k, grid, a, t, 256)
    assert (a == 4).all()


def test_the_options_of_the_kernel_hold_where_a_configuration_has_none(arrays: Any, clock: Clock) -> None:
    def add(A: tj.Tensor, T: tj.Tensor, N: tj.int32, B: tj.constexpr):
        start = tj.cta_id(0) * B
        T[0] = B
        tj.cta.store(A[start : start + B], tj.cta.load(A[start : start + B]) + 1.0)

    configs = [tj.Config({"B": 64}), tj.Config({"B": 128}, cluster=(1,))]
    k, (a, t) = tj.autotune(configs, ["N"])(tj.kernel(threads=32, cluster=(4,), max_registers=40)(add)), arrays
    k[grid](a, t, 256)
    found = {dict(v.signature.arguments)["B"].value: built(v.compiled) for v in k.signatures}
    assert found == {64: ((4, 1, 1), ["40"]), 128: ((1, 1, 1), ["40"])}


def test_a_grid_that_clusters_do_not_divide_is_a_row_and_is_tried_again(arrays: Any, clock: Clock) -> None:
    k, (a, t) = adding(configs=CONFIGS), arrays
    k[grid](a, t, 100)
    rows = {trial.config.values["B"]: (trial.reason, trial.is_lasting) for trial in k.tuning[0].trials}
    assert rows[32] == rows[64] == (None, True)
    assert rows[128] == ("LaunchError: grid (1, 1, 1) is not a multiple of the cluster of (2, 1, 1) CTAs", False)
    assert t[0] == 64


def test_a_limit_that_the_kernel_cannot_have_is_a_row(arrays: Any, clock: Clock) -> None:
    configs = [tj.Config({"B": 32}), tj.Config({"B": 64}, cluster=(32,))]
    k, (a, t) = adding(configs=configs), arrays
    k[64](a, t, 256)
    assert k.tuning[0].best.config == configs[0] and "cluster" in str(k.tuning[0].trials[1].reason)
    assert np.all(a[:256] > 0)
