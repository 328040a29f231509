"""How a launch runs where the hardware leaves a choice, and what its messages call things."""

from __future__ import annotations

from collections.abc import Sequence

from .operations import Delivery
from .shared_names import SharedName


class Settings:
    """schedule: the number of an order of the threads. delivery: when asynchronous operations land."""

    def __init__(self, schedule: int, delivery: str, shared_map: Sequence[SharedName]) -> None:
        """shared_map: names of places in shared memory."""
        self.schedule = schedule
        self.delivery = Delivery(delivery)
        self.shared_map = shared_map
