"""Tuning and tuned launches on a real GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilejit as tj
from tests.runtime.fast_launch.recording import is_quick
from tests.tuning.kernels import adding, grid

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def on_the_simulator() -> None:
    """Not here."""


@pytest.fixture
def on_the_gpu() -> tuple[Any, Any]:
    return tj.to_device(np.zeros(256, np.float32)), tj.to_device(np.zeros(1, np.int32))


def test_a_tuning_times_on_the_gpu_and_leaves_one_launch_s_result(on_the_gpu: Any) -> None:
    (a, t), k = on_the_gpu, adding(reset=["A"])
    k[grid](a, t, 256)
    (tuning,) = k.tuning
    assert tuning.unit == "ms" and all(trial.median and trial.reason is None for trial in tuning.trials)
    assert (a.numpy() == 1).all() and t.numpy()[0] == tuning.best.config.values["B"]


def test_known_answers_are_launched_at_once_whatever_alternates(
    on_the_gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (a, t), k = on_the_gpu, adding(reset=["A"])
    for n in (256, 128):
        k[grid](a, t, n)
    best = {tuning.key: tuning.best.config.values["B"] for tuning in k.tuning}
    for turn in range(4):
        for n in (256, 128):
            k[lambda meta: grid(meta)](a, t, n)
            assert t.numpy()[0] == best[f"N={n}"]
        monkeypatch.setenv("TILEJIT_AUTOTUNE", "off")
        k[grid](a, t, 256)
        assert t.numpy()[0] == 32
        monkeypatch.delenv("TILEJIT_AUTOTUNE")
        assert (a.numpy()[:128] == 2 + 3 * (turn + 1)).all() and (a.numpy()[128:] == 1 + 2 * (turn + 1)).all()
    assert is_quick(monkeypatch, k.kernel, lambda: [k[grid](a, t, n) for n in (256, 128)])


def test_arrays_of_the_host_are_tuned_on_copies_and_changed_once() -> None:
    a, t = np.zeros(256, np.float32), np.zeros(1, np.int32)
    k = adding()
    for turn in range(3):
        k[grid](a, t, 256)
        assert (a == turn + 1).all() and t[0] == k.tuning[0].best.config.values["B"]
