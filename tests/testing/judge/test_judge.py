"""Judgements of kernels: fooled candidates are refused for the right reason, and their honest twins are accepted."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

import tilejit as tj
from tests.testing.judge import programs
from tests.testing.judge.programs import CASES, Case, reference_square, square
from tilejit.testing import judge

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def drawn(seed: int, case: Case) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(case.shape) * case.scale).astype(np.float32)


def drawing(case: Case) -> Callable[[int], list[np.ndarray]]:
    return lambda seed: [drawn(seed, case)]


@each_case
def test_an_honest_candidate_is_accepted(case: Case) -> None:
    verdict = judge(case.honest, case.reference, drawing(case))
    assert verdict, str(verdict)
    assert verdict.launches >= len(verdict.trials)


@each_case
def test_a_fooled_judgement_is_refused(case: Case) -> None:
    verdict = judge(case.fooled, case.reference, drawing(case))
    assert not verdict and verdict.rules == case.rules, str(verdict)
