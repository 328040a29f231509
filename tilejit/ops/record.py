"""What there is to say of one tile operation: operands, attributes, scopes, rules, meaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..dtypes import DType
from ..scopes import SCOPES, Scope
from .elementwise import Elementwise

__all__ = ["Attribute", "AttributeValue", "Fault", "TileOperand", "Shape", "TileOperation"]

Array = np.ndarray
AttributeValue = str | int | bool | None

#: of a region; None for a scalar
Shape = tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Fault:
    """Why an operation can't take its operands. hint: what to change."""

    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class TileOperand:
    """One operand of a tile operation.

    called: what messages call it, where that isn't its name.
    region, value: whether it may be a region of a buffer; a scalar expression. optional: it may be left out.
    read, written: what happens to a region.
    """

    name: str
    called: str = ""
    region: bool = True
    value: bool = False
    optional: bool = False
    read: bool = True
    written: bool = False


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of a tile operation: a compile-time value. default: what it is where it isn't given."""

    name: str
    type: type[str] | type[int] | type[bool]
    meaning: str
    default: AttributeValue = None

    def fault(self, value: object) -> str | None:
        """Why it can't be `value`, or None; None is as if it weren't given."""
        if value is None or type(value) is self.type:
            return None
        return f"{self.name}= takes {self.type.__name__}; got {value!r}"


def _takes_all(*_: object) -> None:
    """The rule of operations that take everything."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TileOperation:
    """One tile operation: all that is to be said of it. Whatever needs a list of operations collects these.

    operands: in order, the destination first. attrs: the attributes it may carry, in order.
    reserved: parameters of a call that stand between them and aren't supported yet.
    scopes: on which it can be called. meaning: one line. example: two lines of a kernel, of which the second calls it;
    `A` is an array, `a` and `b` are factors.
    shape_fault: why it can't take operands of these shapes. type_fault: why it can't take these types, and attributes
    by name. Both take the operands that are given, in order.
    reference: its meaning in NumPy, from the arrays of all operands but a fill, the destination's old one first, to
    the destination's new one.
    elementwise: the operation on each element, where it is one of those.
    """

    name: str
    operands: tuple[TileOperand, ...]
    attrs: tuple[Attribute, ...]
    meaning: str
    example: str
    reference: Callable[..., Array]
    shape_fault: Callable[[Sequence[Shape]], Fault | None] = _takes_all
    type_fault: Callable[[Sequence[DType], Mapping[str, AttributeValue]], Fault | None] = _takes_all
    reserved: tuple[str, ...] = ()
    scopes: tuple[Scope, ...] = tuple(SCOPES.values())
    elementwise: Elementwise | None = None

    @property
    def arity(self) -> tuple[int, int]:
        """The least and the greatest number of operands."""
        return sum(not o.optional for o in self.operands), len(self.operands)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters of a call, in order."""
        return (*(o.name for o in self.operands), *self.reserved, *(a.name for a in self.attrs))

    @property
    def required(self) -> int:
        """How many of the parameters, the first ones, must be given."""
        return self.arity[0]

    def position(self, operand: str) -> int:
        """Which operand is called `operand`. raises: KeyError where none is."""
        for k, candidate in enumerate(self.operands):
            if candidate.name == operand:
                return k
        raise KeyError(f"{self.name} has no operand {operand!r}")

    def attribute(self, name: str) -> Attribute | None:
        """The attribute of this name, or None."""
        return next((a for a in self.attrs if a.name == name), None)
