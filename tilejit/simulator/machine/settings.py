"""Settings of a launch: thread order, delivery of asynchronous operations, and names for messages."""

from __future__ import annotations

from collections.abc import Sequence

from .operations import Delivery
from .shared_names import SharedName


class Settings:
    """Settings of a launch. schedule: the seed of the thread order. shared_map: names of shared memory locations."""

    def __init__(self, schedule: int, delivery: str, shared_map: Sequence[SharedName]) -> None:
        self.schedule = schedule
        self.delivery = Delivery(delivery)
        self.shared_map = shared_map
