"""Numbers of examples that follow hypothesis's profile."""

from __future__ import annotations

from hypothesis import settings

__all__ = ["times"]


def times(factor: float) -> int:
    """Return the profile's number of examples times a factor."""
    return max(1, round(factor * settings.default.max_examples))
