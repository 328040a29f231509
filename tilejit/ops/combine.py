"""What an operation asks of a function that makes one element of two; what it computes, the IR says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from ..dtypes import DType

__all__ = ["CombineFunction"]

Array = np.ndarray


class CombineFunction(ABC):
    """A pure, associative function of two tuples of values, the lower and the higher ones, to a tuple.

    It needn't be commutative: the lower values come from elements that all lie before those of the higher ones.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def takes(self) -> tuple[DType, ...]:
        """The types of the lower values, and of the higher ones."""

    @property
    @abstractmethod
    def gives(self) -> tuple[DType, ...]:
        """The types of the results."""

    @abstractmethod
    def __call__(self, lower: Sequence[Array], higher: Sequence[Array]) -> tuple[Array, ...]:
        """Its meaning in NumPy, on arrays of one shape."""
