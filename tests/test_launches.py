"""A kernel with its grid is copied and pickled as the kernel is; what can't be sent says so."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilejit as tj


@pytest.fixture(autouse=True)
def simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_DEVICE", "sim")


@tj.kernel(threads=32)
def count(A: tj.Tensor) -> None:
    A[tj.thread_id()] = tj.num_ctas(0) + 100 * tj.num_ctas(1)


@tj.autotune(configs=[tj.Config({"R": 1}), tj.Config({"R": 1}, threads=32)], key=["A"])
@tj.kernel(threads=32)
def tuned(A: tj.Tensor, R: tj.constexpr) -> None:
    A[tj.thread_id()] = R


@tj.autotune(configs=[tj.Config({"R": 1}), tj.Config({"R": 2})], key=["A"])
@tj.kernel(threads=64)
def tuned_by_values(A: tj.Tensor, R: tj.constexpr) -> None:
    A[tj.thread_id()] = R


def grid(meta: Mapping[str, Any]) -> tuple[int, int]:
    return meta["A"].shape[0] // 16, 1


LAUNCHERS: dict[str, Any] = {
    "int": count[3], "tuple": count[3, 2], "threads": count[(3,), 32], "function": count[grid], "tuned": tuned[1],
    "tuned with threads": tuned_by_values[(1,), 32],
}


def launched(launcher: Any) -> list[float]:
    a = np.zeros(32, np.float32)
    launcher(a)
    return a.tolist()


@pytest.mark.parametrize("name", LAUNCHERS)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickled_launcher_launches_as_before(name: str, protocol: int) -> None:
    launcher = LAUNCHERS[name]
    again = pickle.loads(pickle.dumps(launcher, protocol))
    assert launched(again) == launched(launcher)
    assert (again.kernel, again.threads, repr(again)) == (launcher.kernel, launcher.threads, repr(launcher))


@pytest.mark.parametrize("name", LAUNCHERS)
def test_a_copy_is_the_launcher_itself(name: str) -> None:
    launcher = LAUNCHERS[name]
    assert copy.copy(launcher) is launcher and copy.deepcopy([launcher])[0] is launcher


def test_what_cannot_be_sent_says_so() -> None:
    prepared = count[1].bind(np.zeros(32, np.float32))
    assert copy.copy(prepared) is prepared and copy.deepcopy(prepared) is prepared
    local = tj.kernel(threads=32)(count.__wrapped__)
    unsent = {"arguments are in": prepared, "isn't this kernel": local[1], "stream is in": count[(1,), 32, 7]}
    for message, launcher in {**unsent, "lambda": count[lambda meta: 1]}.items():
        with pytest.raises(tj.LaunchError, match=message) as caught:
            pickle.dumps(launcher)
        assert caught.value.hint


def test_a_kernel_from_a_file_is_loaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    count.compile(tj.spec(32, "float32"), target="sm_90a").save("k.ptx")
    loaded = tj.load_compiled("k.ptx")
    assert copy.copy(loaded) is loaded and copy.deepcopy(loaded) is loaded
    text = pickle.dumps(loaded[2])
    monkeypatch.chdir("/")
    assert launched(pickle.loads(text)) == launched(loaded[2])
