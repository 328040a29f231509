"""Kernels with TMA and wgmma: right ones are silent under every delivery; each seeded bug is reported, or seen."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest

from tests.mutations.hopper_bugs import REPORTED, RIGHT, SEEN
from tests.mutations.hopper_programs import copy, double, multiply
from tilejit.errors import SimulationError

DELIVERIES = ("late", "early", *(f"random:{seed}" for seed in range(5)))
LONG = pytest.mark.long

#: the numbers of bugs that are to be reported; those of clusters and dependent launches aren't built
NUMBERS = {*range(1, 21), 28, 32, *range(34, 43), 44}
#: of those that are to be reported, or else seen in the result
SEEN_NUMBERS = set(range(21, 28))


def test_no_number_is_missing():
    assert {int(name.split()[0]) for name in REPORTED} == NUMBERS
    assert {int(name.split()[0]) for name in SEEN} == SEEN_NUMBERS


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_right_programs_are_silent_and_equal_whenever_operations_land(delivery):
    schedule = DELIVERIES.index(delivery)
    c, expected = multiply(m=72, n=136, k=136, grid=2, delivery=delivery, schedule=schedule)
    assert (c == expected).all()
    for run in (double, copy):
        c, expected = run(delivery=delivery, schedule=schedule)
        assert (c == expected).all()


def cases(names):
    """(name, delivery, schedule): each name as late as can be, and by turns in other ways."""
    others = DELIVERIES[1:]
    return [x for i, name in enumerate(names) for x in ((name, "late", 0), (name, others[i % len(others)], i % 5))]


def check_reported(name, **options):
    bug = REPORTED[name]
    with pytest.raises(bug.kinds) as error:
        bug.run(**options)
    assert re.search(bug.says, str(error.value)), str(error.value)


@pytest.mark.parametrize(("name", "delivery", "schedule"), cases(REPORTED))
def test_each_bug_is_reported(name, delivery, schedule):
    check_reported(name, delivery=delivery, schedule=schedule)


@LONG
@pytest.mark.parametrize("name", REPORTED)
def test_each_bug_is_reported_in_every_order(name):
    for delivery, schedule in product(DELIVERIES, range(5)):
        check_reported(name, delivery=delivery, schedule=schedule)


@pytest.mark.parametrize("name", SEEN)
def test_a_wrong_layout_is_reported_or_changes_the_result(name):
    try:
        c, expected = multiply(**SEEN[name], m=128, n=128, k=128, grid=1)
    except SimulationError:
        return
    assert (c != expected).any()


# -- right programs that look wrong


def check_right(name, **options):
    text, run = RIGHT[name]
    sizes = {"m": 64, "n": 256, "k": 192, "grid": 1} if run is multiply else {}
    c, expected = run(text, **sizes, **options)
    assert (c == expected).all()


@pytest.mark.parametrize(("name", "delivery", "schedule"), cases(RIGHT))
def test_right_programs_stay_silent(name, delivery, schedule):
    check_right(name, delivery=delivery, schedule=schedule)


@LONG
@pytest.mark.parametrize("name", RIGHT)
def test_right_programs_stay_silent_in_every_order(name):
    for delivery, schedule in product(DELIVERIES, range(5)):
        check_right(name, delivery=delivery, schedule=schedule)


@LONG
def test_a_product_takes_a_few_seconds_with_all_checks():
    c, expected = multiply(m=256, n=512, k=256)
    assert (c == expected).all()
    assert np.isfinite(c).all()
