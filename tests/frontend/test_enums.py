"""Members of enums as compile-time values: distinguished by class and member, whatever their class says."""

from __future__ import annotations

import enum
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilejit as tj
from tilejit.executable.encoding import encoded
from tilejit.frontend import token
from tilejit.runtime.disk import _encoded, _NoKey


class Act(enum.Enum):
    relu = 1
    gelu = 2


class Level(enum.IntEnum):
    low = 2
    high = 5


class Flags(enum.Flag):
    a = 1
    b = 2


class Sloppy(enum.Enum):
    """Members that all compare equal, and can't be hashed."""

    one = 1
    two = [2]

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


MODE = Act.gelu


@pytest.fixture(autouse=True)
def simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_DEVICE", "sim")


def ran(kernel: Any, *args: Any, **named: Any) -> Any:
    y = np.zeros(8, np.float32)
    kernel[1](y, *args, **named)
    return y.tolist()


@tj.kernel(threads=1)
def chosen(Y: tj.Tensor, act: tj.constexpr, level: tj.constexpr = Level.low) -> None:
    if act == Act.relu:
        Y[0] = 1
    if act is MODE:
        Y[1] = 1
    if act in (Act.relu, Act.gelu):
        Y[2] = act.value
    Y[level] = level + level * 10
    Y[3] = level == Level.high
    Y[4] = level == 2
    for i in range(Level.low, level):
        Y[6] += i
    Y[7] = len(act.name)


def test_members_are_compared_and_numbers_among_them_are_computed_with() -> None:
    k = tj.kernel(threads=1)(chosen.__wrapped__)
    assert ran(k, Act.relu) == [1, 0, 22, 0, 1, 0, 0, 4]
    assert ran(k, act=Act.gelu, level=Level.high) == [0, 1, 2, 1, 0, 55, 9, 4]
    assert len(k.signatures) == 2


@tj.kernel(threads=1)
def named(Y: tj.Tensor, x: tj.constexpr) -> None:
    Y[0] = len(x.name) if x.name else 0


def test_members_differ_by_class_and_name_whatever_their_equality_says() -> None:
    class Act(enum.Enum):
        relu = 1

    members = [Sloppy.one, Sloppy.two, Level.low, globals()["Act"].relu, Act.relu, 2, Flags.a | Flags.b, Flags.a, 1]
    before = len(named.signatures)
    for _ in range(2):
        for member in members:
            if isinstance(member, enum.Enum):
                named[1](np.zeros(1, np.float32), member)
            else:
                with pytest.raises(tj.KernelTypeError, match="no attribute name"):
                    named[1](np.zeros(1, np.float32), member)
    assert len(named.signatures) - before == 7


def test_a_tuned_kernel_and_a_generated_key_take_them() -> None:
    tuned = tj.autotune(configs=[tj.Config({"act": act}) for act in Act], key=[])(chosen)
    assert ran(tuned)[2] == 22 and len(tuned.tuning) == 1
    assert tj.Config({"x": Sloppy.one}) != tj.Config({"x": Sloppy.two})


def test_a_kernel_from_a_file_takes_the_member_that_it_was_compiled_for(tmp_path: Path) -> None:
    chosen.compile(np.zeros(8, np.float32), Act.gelu, target="sm_90a").save(tmp_path / "k.ptx")
    loaded = tj.load_compiled(tmp_path / "k.ptx")
    assert ran(loaded) == ran(loaded, Act.gelu) == ran(loaded, act=Act.gelu, level=Level.low)
    with pytest.raises(tj.LaunchError, match=r"was compiled for act = .*Act\.gelu = 2; got act = <Act\.relu: 1>"):
        ran(loaded, Act.relu)


def test_a_member_that_does_not_exist_is_refused_by_name() -> None:
    @tj.kernel(threads=1)
    def k(Y: tj.Tensor) -> None:
        Y[0] = Act.silu.value  # type: ignore[attr-defined]

    with pytest.raises(tj.KernelTypeError, match="Act has no member silu") as caught:
        ran(k)
    assert caught.value.hint == "its members: relu, gelu"


def test_a_captured_member_and_class_that_change_recompile(monkeypatch: pytest.MonkeyPatch) -> None:
    @tj.kernel(threads=1)
    def k(Y: tj.Tensor) -> None:
        Y[0] = MODE.value
        Y[1] = Act.relu.value

    here = sys.modules[__name__]
    assert ran(k)[:2] == [2, 1]
    monkeypatch.setattr(here, "MODE", Act.relu)
    assert ran(k)[:2] == [1, 1]
    monkeypatch.setattr(here, "Act", enum.Enum("Act", {"relu": 7}))
    assert ran(k)[:2] == [1, 7]
    with tj.no_recompile(), pytest.raises(tj.LaunchError, match=r"MODE.value Flags\.a, compiled with Act\."):
        monkeypatch.setattr(here, "MODE", Flags.a)
        ran(k)


def test_on_disk_members_are_known_by_module_class_name_and_value(monkeypatch: pytest.MonkeyPatch) -> None:
    def written(value: Any) -> str:
        return json.dumps(encoded(token(value), _encoded))

    assert written(Act.relu) == written(globals()["Act"]["relu"]) != written(Act.gelu)
    assert "tests.frontend.test_enums" in written(Act.relu) and written(Level.low) != written(2)
    before, old = written(Act.relu), Act
    # a class that another process wouldn't find
    monkeypatch.setattr(sys.modules[__name__], "Act", enum.Enum("Act", {"relu": 7}, module=__name__))
    assert written(Act.relu) != before
    for value in (old.relu, enum.Enum("Local", {"a": 1}).a):  # type: ignore[attr-defined]
        with pytest.raises(_NoKey):
            written(value)
