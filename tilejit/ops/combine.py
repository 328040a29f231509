"""The interface of functions that combine two elements; the IR implements it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from ..dtypes import DType

Array = np.ndarray


class CombineFunction(ABC):
    """A pure, associative function from two tuples of values, the lower and the higher ones, to a tuple.

    It need not be commutative: the elements combined in the lower values precede those combined in the higher ones.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def takes(self) -> tuple[DType, ...]:
        """The types of the lower values, which are also those of the higher ones."""

    @property
    @abstractmethod
    def gives(self) -> tuple[DType, ...]:
        """The types of the results."""

    @abstractmethod
    def __call__(self, lower: Sequence[Array], higher: Sequence[Array]) -> tuple[Array, ...]:
        """Evaluate the function in NumPy, on arrays of one shape."""
