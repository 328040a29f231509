"""Operations in flight: which may be delivered when."""

from __future__ import annotations

import pytest

from tilejit.errors import LaunchError
from tilejit.simulator.machine.operations import Delivery, Operation, Operations


def flying(delivery, names):
    """(operations, the names of those that have been carried out); names with the same letter share a pipe."""
    done: list[str] = []
    flights = Operations(Delivery(delivery), lambda operation: done.append(operation.what + "."))
    for name in names:
        pipe = None if name[0] == "x" else name[0]
        flights.issue(Operation(0, 0, name, lambda name=name: done.append(name), pipe=pipe))
    return flights, done


def test_late_delivers_the_newest_first_but_pipes_in_order():
    flights, done = flying("late", ["x1", "a1", "a2", "x2", "b1"])
    assert done == []
    while flights.deliver_one():
        pass
    assert done[::2] == ["b1", "x2", "a1", "a2", "x1"]
    assert done[1::2] == [x + "." for x in done[::2]]


def test_early_delivers_at_issue():
    flights, done = flying("early", ["x1", "a1", "a2"])
    assert done[::2] == ["x1", "a1", "a2"]
    assert not flights.deliver_one()


def test_chance_keeps_pipes_in_order_and_finds_several_orders():
    names = [f"{pipe}{i}" for i in range(4) for pipe in "xab"]
    orders = set()
    for seed in range(20):
        flights, done = flying(f"random:{seed}", names)
        while flights.deliver_one():
            pass
        assert sorted(done[::2]) == sorted(names)
        for pipe in "ab":
            assert [x for x in done[::2] if x[0] == pipe] == [f"{pipe}{i}" for i in range(4)]
        orders.add(tuple(done))
    assert len(orders) > 10


def test_a_wait_forces_all_but_the_newest_of_a_pipe():
    flights, done = flying("late", ["x1", "a1", "a2", "a3", "b1"])
    flights.drain("a", 1)
    assert done[::2] == ["a1", "a2"]
    flights.drain("a", 5)
    assert done[::2] == ["a1", "a2"]
    flights.drain("a")
    assert done[::2] == ["a1", "a2", "a3"]


@pytest.mark.parametrize("text", ["soon", "random", "random:", "random:x", "late:1", ""])
def test_other_schedules_are_refused(text):
    with pytest.raises(LaunchError, match="delivery must be"):
        Delivery(text)
