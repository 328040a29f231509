"""Errors of `@autotune` and `Config`, and how configurations are distinguished."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tilejit as tj
from tests.tuning.kernels import adding, configs

NOT_TUNED = [
    ({"configs": []}, "add_one has no configurations to tune"),
    ({"configs": 3}, "configs of add_one is not a list of tj.Config: 3"),
    ({"configs": [{"B": 3}]}, r"configs of add_one is not a list of tj.Config: \[\{'B': 3\}\]"),
    ({"configs": configs(32, 64, 32)}, "configurations 0 and 2 of add_one are the same: B=32"),
    ({"configs": [tj.Config({"C": 1})]}, "configuration 0 of add_one .C=1. sets 'C', which is not a constexpr"),
    ({"configs": [tj.Config({"N": 1})]}, "sets 'N', which is not a constexpr parameter"),
    ({"configs": [*configs(1), tj.Config({})]}, "configurations 0 and 1 of add_one set different .*: B"),
    ({"key": ["M"]}, "key of add_one names 'M', which is not one of its parameters"),
    ({"key": ["B"]}, "key of add_one names 'B', which the configurations set"),
    ({"key": "N"}, "key='N' of add_one is not a list of names"),
    ({"key": None}, "key=None of add_one is not a list of names"),
    ({"key": 3}, "key=3 of add_one is not a list of names"),
    ({"key": {"N"}}, "key={'N'} of add_one is not a list of names"),
    ({"key": ["N", 3]}, r"key=\['N', 3\] of add_one is not a list of names"),
    ({"reset": "A"}, "reset='A' of add_one is not a list of names"),
    ({"reset": ["N"]}, "reset of add_one names 'N', which is not an array"),
    ({"reset": ["Z"]}, "reset of add_one names 'Z', which is not one of its parameters"),
    ({"prune": 3}, "prune=3 is not a function"),
]


@pytest.mark.parametrize(("options", "message"), NOT_TUNED)
def test_what_makes_no_sense_is_refused_where_it_is_written(options: dict[str, Any], message: str) -> None:
    with pytest.raises(tj.LaunchError, match=message):
        adding(**options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tj.Config(3), "3 does not map parameter names to values"),
        (lambda: tj.Config({1: 2}), "does not map parameter names to values"),
        (lambda: tj.Config({"B": 1}, threads=0), "0 is not a number of threads"),
        (lambda: tj.Config({"B": 1}, num_warps=4), "there is no option num_warps=\n.*threads= to .*, 32 per warp"),
        (lambda: tj.kernel(num_warps=4), "there is no option num_warps="),
        (lambda: tj.Config({"B": 1}, num_stages=3), "there is no option num_stages="),
        (lambda: tj.Config({"B": []}), "B is a constexpr; a list can't be one"),
        (lambda: tj.Config({"B": 1}, cluster=(0,)), r"\(0,\) is not a cluster"),
        (lambda: tj.Config({"B": 1}, cluster=True), "True is not a cluster"),
    ],
)
def test_what_is_no_configuration(make: Callable[[], object], message: str) -> None:
    with pytest.raises(tj.LaunchError, match=message):
        make()


def test_a_limit_of_registers_is_checked_as_a_kernels_is() -> None:
    with pytest.raises(tj.ResourceError, match="max_registers=0 is not between 1 and 255"):
        tj.Config({"B": 1}, max_registers=0)


def test_configurations_are_distinguished_as_constexprs_are() -> None:
    assert tj.Config({"B": 1, "C": 2}) == tj.Config({"C": 2, "B": 1})
    assert len({tj.Config({"B": value}) for value in (1, 1.0, True, -0.0, 0.0)}) == 5
    assert tj.Config({"B": 1}) != tj.Config({"B": 1}, threads=128) != 3
    assert len({tj.Config({"B": 1}, **each) for each in ({}, {"cluster": (2,)}, {"max_registers": 2})}) == 3
    assert tj.Config({"B": 1}, cluster=(2,)) == tj.Config({"B": 1}, cluster=(2, 1, 1))
    whole = tj.Config({"B": 1}, threads=64, cluster=(2,), max_registers=40)
    assert str(whole) == "B=1, threads=64, cluster=(2, 1, 1), max_registers=40"
    assert repr(whole) == "Config({'B': 1}, threads=64, cluster=(2, 1, 1), max_registers=40)"
    assert str(tj.Config({"B": 1, "C": "x"}, threads=64)) == "B=1, C='x', threads=64"
    assert repr(tj.Config({"B": 1}, threads=64)) == "Config({'B': 1}, threads=64)"
