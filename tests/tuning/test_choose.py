"""`choose`: the fastest of several kernels is launched, explained and kept; its own options hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilejit as tj
from tests.tuning.kernels import Clock

STEP = 1


def kernel(number: int, **options: Any) -> tj.Kernel:
    """A kernel whose CTAs add to 64 elements, and which says in T which one it was: the number of its threads."""

    @tj.kernel(threads=number, **options)
    def add(A: tj.Tensor, T: tj.Tensor, N: tj.int32):
        T[0] = number
        i = tj.cta_id(0)
        tj.cta.store(A.tile(64, i), tj.cta.load(A.tile(64, i)) + STEP)

    return add


def three(**options: Any) -> tuple[Any, list[tj.Kernel]]:
    kernels = [kernel(32), kernel(64, max_registers=40), kernel(128, cluster=(2,))]
    return tj.choose(kernels, **{"key": ["N"], **options}), kernels


def test_each_key_gets_its_fastest_kernel(arrays: Any, clock: Clock) -> None:
    chosen, (_, second, third) = three()
    a, t = arrays
    chosen[2](a, t, 1)
    assert t[0] == 64 and set(clock.tried) == {32, 64, 128}
    clock.times[128] = 0.5
    chosen[2](a, t, 2)
    assert t[0] == 128
    tried = len(clock.tried)
    a[:] = 0
    for n, fastest in ((1, 64), (2, 128), (1, 64)):
        chosen[2](a, t, n)
        assert t[0] == fastest
    chosen[2].bind(a, t, 2)()
    assert t[0] == 128 and len(clock.tried) == tried
    assert [tuning.key for tuning in chosen.tuning] == ["N=1", "N=2"]
    assert {trial.config.kernel for trial in chosen.tuning[0].trials} >= {second, third}


def test_compile_explain_and_simulate_take_the_fastest(arrays: Any, clock: Clock) -> None:
    chosen, (_, second, _) = three()
    a, t = arrays
    chosen[2](a, t, 1)
    compiled = chosen.compile(a, t, 1)
    assert compiled.threads == 64 and ".maxnreg 40" in " ".join(compiled.ptx.split())
    assert compiled is second.compile(a, t, 1)
    assert "the fastest of 3, for N=1" in str(chosen.explain(a, t, 1))
    t[0] = 0
    tj.simulate(chosen, 2, a, t, 1)
    assert t[0] == 64


def test_reset_restores_and_a_kernel_that_cannot_run_is_a_row(arrays: Any) -> None:
    chosen = tj.choose([kernel(32), kernel(64, target="sm_100a")], key=[], reset=["A"])
    a, t = arrays
    chosen[1](a, t, 1)
    assert (a[:64] == 1).all() and t[0] == 32
    (tuning,) = chosen.tuning
    assert tuning.trials[0].reason is None and "sm_100a" in str(tuning.trials[1].reason)


def test_a_grid_that_clusters_do_not_divide_leaves_the_others(arrays: Any, clock: Clock) -> None:
    chosen, _ = three()
    clock.times[128] = 0.1
    a, t = arrays
    chosen[3](a, t, 1)
    assert t[0] == 64
    assert "is not a multiple of the cluster" in str(chosen.tuning[0].trials[2].reason)


def test_values_that_any_kernel_captures_are_part_of_the_question(
    arrays: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen, _ = three()
    a, t = arrays
    chosen[2](a, t, 1)
    a[:] = 0
    chosen[2](a, t, 1)
    monkeypatch.setitem(globals(), "STEP", 5)
    before, tables = a.copy(), len(chosen.tuning)
    chosen[2](a, t, 1)
    assert len(chosen.tuning) == tables + 1
    assert ((a - before)[:128] % 5 == 0).all() and (a > before)[:128].all()


def test_the_table_is_kept_on_disk_for_these_kernels(arrays: Any, clock: Clock, disk: Path) -> None:
    a, t = arrays
    three()[0][2](a, t, 1)
    tried = len(clock.tried)
    three()[0][2](a, t, 1)
    assert len(clock.tried) == tried and t[0] == 64
    tj.choose([kernel(32), kernel(128)], key=["N"])[2](a, t, 1)
    assert len(clock.tried) > tried


def test_without_timing_the_first_is_launched(arrays: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_AUTOTUNE", "off")
    a, t = arrays
    three()[0][2](a, t, 1)
    assert t[0] == 32


def test_what_makes_no_choice_is_refused() -> None:
    one = kernel(32)

    @tj.kernel(threads=32)
    def other(A: tj.Tensor, T: tj.Tensor, N: tj.int64):
        T[0] = A[0] + N

    refused: list[tuple[Any, Any, str]] = [
        ([], ["N"], r"choose takes a list of kernels; got \[\]"),
        (one, ["N"], "choose takes a list of kernels; got <kernel add"),
        ([one, 3], ["N"], "choose takes a list of kernels"),
        ([one, tj.choose([one], key=["N"])], ["N"], "choose takes a list of kernels"),
        ([one, one], ["N"], "choose got add twice"),
        ([one, other], ["N"], r"other has other parameters than add: \(A: array, T: array, N: int64\) instead of"),
        ([one], ["M"], r"key of choose\(add\) names 'M', which is not one of its parameters"),
        ([one], "N", r"key='N' of choose\(add\) is not a list of names"),
    ]
    for kernels, key, message in refused:
        with pytest.raises(tj.LaunchError, match=message):
            tj.choose(kernels, key=key)
    with pytest.raises(tj.LaunchError, match=r"reset of choose\(add\) names 'N', which is not an array"):
        tj.choose([one], key=[], reset=["N"])
    with pytest.raises(tj.LaunchError, match=r"threads of choose\(add\) come from its configurations"):
        tj.choose([one], key=[])[(1,), 64](np.zeros(256, np.float32), np.zeros(1, np.int32), 1)
