"""Launches on the simulator under other orders of threads, in which copies and products land at other times."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partialmethod
from typing import NamedTuple

import pytest

from tilejit.runtime.simulated import SimulatedFunction

__all__ = ["EVERY_ORDER", "FEW_ORDERS", "Order", "simulated"]


class Order(NamedTuple):
    """The number of an order of the threads, and when operations in flight land."""

    schedule: int
    delivery: str


#: as late as they can, at once, and by five seeds
EVERY_ORDER = (Order(0, "late"), Order(1, "early"), *(Order(seed, f"random:{seed}") for seed in range(5)))
#: one of each kind, for tests that are many
FEW_ORDERS = (*EVERY_ORDER[:2], Order(2, "random:2"))


@contextmanager
def simulated(order: Order) -> Iterator[None]:
    """What is launched on the simulator inside runs so, with all checks."""
    in_order = partialmethod(SimulatedFunction.simulate, schedule=order.schedule, delivery=order.delivery)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEJIT_SIM_CHECKS", "1")
        patch.setattr(SimulatedFunction, "simulate", in_order)
        yield
