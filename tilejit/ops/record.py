"""What there is to say of one tile operation: operands, attributes, scopes, rules, meaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from ..dataclass import dataclass
from ..dtypes import DType
from ..forks import cached_property
from ..scopes import SCOPES, Scope
from .axes import Relation
from .combine import CombineFunction
from .elementwise import Elementwise
from .reduction import Reduction

__all__ = [
    "BARRIER", "CONDITION", "SCALAR", "TILE", "Attribute", "AttributeValue", "Fault", "OperandKind", "Shape",
    "TileOperand", "TileOperation", "dimensions",
]

Array = np.ndarray
AttributeValue = str | int | bool | tuple[int, ...] | CombineFunction | None

#: of a region; None for a scalar
Shape = tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Fault:
    """Why an operation can't take its operands. hint: what to change."""

    message: str
    hint: str


@dataclass(frozen=True, slots=True, eq=False)
class OperandKind:
    """What an operand may be. is_region: it's a region of a buffer; else an expression."""

    name: str
    is_region: bool


#: a region whose elements the operation reads or writes
TILE = OperandKind("tile", is_region=True)
#: one value, the same for every element
SCALAR = OperandKind("scalar", is_region=False)
#: one barrier in shared memory: a region of one element, which no tile operation reads or writes as memory
BARRIER = OperandKind("barrier", is_region=True)
#: whether something happens, for all threads alike
CONDITION = OperandKind("condition", is_region=False)


@dataclass(frozen=True, slots=True)
class TileOperand:
    """One operand of a tile operation.

    called: what messages call it, where that isn't its name.
    kinds: what it may be, of which at most one is a region and at most one an expression. optional: it may be left out.
    read, written: what happens to a region. read_where: the operand, a condition, where which doesn't hold it isn't
    read; "" where it is in any case.
    is_part_of_place: no call names it; the place that another operand is has it with it, as X.at(index) has.
    """

    name: str
    called: str = ""
    kinds: tuple[OperandKind, ...] = (TILE,)
    optional: bool = False
    read: bool = True
    written: bool = False
    read_where: str = ""
    is_part_of_place: bool = False

    def kind(self, *, is_region: bool) -> OperandKind | None:
        """What a region, or an expression, is here; None where it can't be one."""
        for kind in self.kinds:
            if kind.is_region is is_region:
                return kind
        return None


Given = TypeVar("Given")


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of a tile operation: a compile-time value; a tuple is one of integers.

    default: what it is where it isn't given. choices: all that it can be; empty where that is no matter of a list.
    counts: the operand whose dimensions a tuple names; calls may name one by an integer, and count from the end.
    """

    name: str
    type: type[str] | type[int] | type[bool] | type[tuple[int, ...]] | type[CombineFunction]
    meaning: str
    default: AttributeValue = None
    choices: tuple[AttributeValue, ...] = ()
    counts: str = ""

    def fault(self, value: object) -> str | None:
        """Why it can't be `value`, or None; None is as if it weren't given."""
        if value is None:
            return None
        # to Python a bool is an int
        if isinstance(value, self.type) and (self.type is bool or not isinstance(value, bool)):
            if self.choices and value not in self.choices:
                return f"{self.name}= is {' or '.join(map(repr, self.choices))}; got {value!r}"
            is_integers = not isinstance(value, tuple) or all(type(each) is int for each in value)
            return None if is_integers else f"{self.name}= takes integers; got {value!r}"
        return f"{self.name}= takes {self.type.__name__}; got {value!r}"


def dimensions(named: object, rank: int) -> object:
    """Dimensions in order, from how calls name them: one integer, or a tuple of some; negative ones from the end.

    What names none is left as it is.
    """
    every = (named,) if type(named) is int else named
    if not isinstance(every, tuple) or any(type(d) is not int or not -rank <= d < rank for d in every):
        return every
    return tuple(sorted(d % rank for d in every))


def _takes_all(*_: object) -> None:
    """The rule of operations that take everything."""


# without slots, so that its tables can be cached
@dataclass(frozen=True, eq=False, kw_only=True)
class TileOperation:
    """One tile operation: all that is to be said of it. Whatever needs a list of operations collects these.

    operands: in order, the destination first, optional ones last. attrs: the attributes it may carry, in order.
    scopes: on which it can be called. meaning: one line. example: two lines of a kernel, of which the second calls it;
    `A` is an array, `a` and `b` are factors.
    shape_fault, type_fault: why it can't take operands of these shapes, or types, with these attributes.
    Both are asked about the tiles and scalars that are given, by name, in order.
    reference: its meaning in NumPy, from the arrays of all operands that must be given, the destination's old one
    first, and from attributes by name where they matter, to the destination's new one.
    relation: how its operands' axes relate.
    elementwise: the operation on each element, where it is one of those. reduction: how it makes one element of many,
    where it does. is_called: whether users call it by its name, on a scope.
    """

    name: str
    operands: tuple[TileOperand, ...]
    attrs: tuple[Attribute, ...]
    meaning: str
    example: str
    reference: Callable[..., Array]
    relation: Relation
    shape_fault: Callable[[Mapping[str, Shape], Mapping[str, AttributeValue]], Fault | None] = _takes_all
    type_fault: Callable[[Mapping[str, DType], Mapping[str, AttributeValue]], Fault | None] = _takes_all
    scopes: tuple[Scope, ...] = tuple(SCOPES.values())
    elementwise: Elementwise | None = None
    reduction: Reduction | None = None
    is_called: bool = True

    def __reduce__(self) -> tuple[object, tuple[str]]:
        """Where it is found: it compares by identity, and its functions can't be pickled."""
        return (_by_name, (self.name,))

    @cached_property
    def arity(self) -> tuple[int, int]:
        """The least and the greatest number of operands."""
        return sum(not o.optional for o in self.operands), len(self.operands)

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The parameters of a call, in order: tiles that may be left out come behind the attributes."""
        named = [o for o in self.operands if not o.is_part_of_place]
        options = [o.name for o in named if o.optional and TILE in o.kinds]
        first = [o.name for o in named if o.name not in options]
        return (*first, *(a.name for a in self.attrs), *options)

    @cached_property
    def required(self) -> int:
        """How many of the parameters, the first ones, must be given."""
        return self.arity[0]

    @cached_property
    def positions(self) -> dict[str, int]:
        """Name of an operand -> where it stands."""
        return {operand.name: k for k, operand in enumerate(self.operands)}

    @cached_property
    def tiles(self) -> tuple[tuple[str, int], ...]:
        """(name, position) of the operands that may be tiles."""
        return tuple((o.name, k) for k, o in enumerate(self.operands) if TILE in o.kinds)

    @cached_property
    def elements(self) -> tuple[tuple[str, int], ...]:
        """(name, position) of the operands that are tiles or scalars."""
        return tuple((o.name, k) for k, o in enumerate(self.operands) if TILE in o.kinds or SCALAR in o.kinds)

    @cached_property
    def inputs(self) -> tuple[tuple[str, int], ...]:
        """(name, position) of the tiles and scalars that it doesn't write."""
        return tuple((name, k) for name, k in self.elements if not self.operands[k].written)

    @cached_property
    def conditions(self) -> tuple[str, ...]:
        """The operands that are conditions."""
        return tuple([o.name for o in self.operands if CONDITION in o.kinds])

    @cached_property
    def barriers(self) -> tuple[str, ...]:
        """The operands that are barriers."""
        return tuple([o.name for o in self.operands if BARRIER in o.kinds])

    @cached_property
    def options(self) -> tuple[tuple[str, int], ...]:
        """(name, position) of the operands that may be left out."""
        return tuple((o.name, k) for k, o in enumerate(self.operands) if o.optional)

    def position(self, operand: str) -> int:
        """Which operand is called `operand`. raises: KeyError where none is."""
        if operand not in self.positions:
            raise KeyError(f"{self.name} has no operand {operand!r}")
        return self.positions[operand]

    def ordered(self, operands: Mapping[str, Given]) -> tuple[Given | None, ...]:
        """Operands by name as a `TileOp` holds them: None for one that is left out before one that isn't."""
        last = max([self.position(name) for name in operands], default=-1)
        return tuple([operands.get(operand.name) for operand in self.operands[: last + 1]])

    def count_fault(self, operands: Sequence[object]) -> str | None:
        """Why `operands`, in order and None where one is left out, are too many or too few; or None."""
        least, most = self.arity
        if not least <= len(operands) <= most:
            most -= sum(operand.is_part_of_place for operand in self.operands)
            return f"takes {least if least == most else f'{least} to {most}'} operands; got {len(operands)}"
        missing = [rule for rule, operand in zip(self.operands, operands, strict=False) if operand is None]
        needed = [rule.name for rule in missing if not rule.optional]
        if needed:
            return f"needs {', '.join(needed)}"
        return f"ends with {missing[-1].name}, which isn't given" if missing and operands[-1] is None else None

    @cached_property
    def defaults(self) -> dict[str, AttributeValue]:
        """The attributes' values where they aren't given, by name."""
        return {attribute.name: attribute.default for attribute in self.attrs}

    def attribute(self, name: str) -> Attribute | None:
        """The attribute of this name, or None."""
        for attribute in self.attrs:
            if attribute.name == name:
                return attribute
        return None

    def attribute_fault(self, name: str, value: object) -> str | None:
        """Why it can't carry the attribute `name` with `value`, or None."""
        attribute = self.attribute(name)
        if attribute is None:
            return f"{self.name} has no attribute {name!r}"
        fault = attribute.fault(value)
        return None if fault is None else f"{self.name}: {fault}"


def _by_name(name: str) -> TileOperation:
    # the table is made of these records
    from .tile import TILE_OPERATIONS

    return TILE_OPERATIONS[name]
