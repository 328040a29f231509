"""Proof by enumeration: what a plan moves, against what the layouts say. Nothing here knows how plans are made."""

from .places import addresses, owners_of
from .prove import prove

__all__ = ["addresses", "owners_of", "prove"]
