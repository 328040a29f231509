"""Proof that emitted lane IR carries out an operation: it is carried out on tags, and compared with the layouts."""

from .places import addresses, owners_of
from .prove import prove

__all__ = ["addresses", "owners_of", "prove"]
