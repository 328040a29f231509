"""Proof by enumeration that a plan's moves follow the layouts. It doesn't depend on how plans are made."""

from .places import addresses, owners_of
from .prove import prove

__all__ = ["addresses", "owners_of", "prove"]
