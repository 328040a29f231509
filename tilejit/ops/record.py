"""The record of a tile operation: operands, attributes, scopes, rules, reference semantics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ..dataclass import dataclass
from ..dtypes import DType
from ..forks import cached_property
from ..scopes import SCOPES, Scope
from ..wording import counted
from .elementwise import Elementwise

if TYPE_CHECKING:
    from .axes import Relation
    from .reduce import Reduction


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
    def __call__(self, lower: Sequence[np.ndarray], higher: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """Evaluate the function in NumPy, on arrays of one shape."""


AttributeValue = str | int | bool | tuple[int, ...] | CombineFunction | None

#: the shape of a region, None for a scalar
Shape = tuple[int, ...] | None

#: the shapes and types of an operation's tiles and scalars, and its attributes, by name
Shapes = Mapping[str, Shape]
DTypes = Mapping[str, DType]
Attributes = Mapping[str, AttributeValue]


@dataclass(frozen=True, slots=True)
class Fault:
    """A reason why the operands or attributes of an operation are invalid, and a hint on how to fix them."""

    message: str
    hint: str


#: the operations and calls that take bytes of two numbers, which they move as they are, apart from `unpack`
TAKES_PACKED = frozenset({
    "copy", "copy_async", "fill", "reshape", "broadcast_to", "split", "gather", "flip", "roll", "unpack",
})


def packed_fault(name: str, dtypes: Collection[DType]) -> Fault | None:
    """Return why the operation or call `name` doesn't take operands of these types, or None if none is packed."""
    packed = [dtype for dtype in dtypes if dtype.kind == "packed"]
    if not packed or name in TAKES_PACKED or (name == "cast" and len(set(dtypes)) == 1):
        return None
    return Fault(f"{name} of {packed[0]}: it is two numbers per byte", "unpack them: tj.unpack(x, tj.float16)")


@dataclass(frozen=True, slots=True, eq=False)
class OperandKind:
    """A kind of operand. is_region: True for a region of a buffer, False for an expression."""

    name: str
    is_region: bool


#: a region whose elements the operation reads or writes
TILE = OperandKind("tile", is_region=True)
#: one value for all elements
SCALAR = OperandKind("scalar", is_region=False)
#: a barrier in shared memory: a region of one element, which tile operations don't access as memory
BARRIER = OperandKind("barrier", is_region=True)
#: a condition that must be uniform across the threads that execute the operation together
CONDITION = OperandKind("condition", is_region=False)


@dataclass(frozen=True, slots=True)
class TileOperand:
    """One operand of a tile operation."""

    name: str
    #: description in messages and in the documentation, if it differs from `name`
    called: str = ""
    #: the kinds that it accepts: at most one kind of region, and at most one kind of expression
    kinds: tuple[OperandKind, ...] = (TILE,)
    optional: bool = False
    #: True if the operation reads (`read`) or writes (`written`) the elements of a region operand
    read: bool = True
    written: bool = False
    #: the name of the condition operand that decides whether a region with `read` is read; "" if it always is
    read_where: str = ""
    #: True if calls pass the operand as part of another one, like the index in the place X.at(index)
    is_part_of_place: bool = False

    def kind(self, *, is_region: bool) -> OperandKind | None:
        """Return the kind that accepts a region (if `is_region`) or an expression; None if the operand can't be one."""
        for kind in self.kinds:
            if kind.is_region is is_region:
                return kind
        return None


Given = TypeVar("Given")


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of a tile operation: a compile-time value. Tuples consist of integers."""

    name: str
    type: type[str] | type[int] | type[bool] | type[tuple[int, ...]] | type[CombineFunction]
    meaning: str
    default: AttributeValue = None
    #: all values that are allowed, other than None; empty if the type is the only restriction
    choices: tuple[AttributeValue, ...] = ()
    #: the operand whose dimensions a tuple lists, if any; calls may pass one integer; negative ones count from the end
    counts: str = ""

    def fault(self, value: object) -> str | None:
        """Return why the attribute can't have `value`; None if it can. An omitted attribute has the value None."""
        if value is None:
            return None
        # bool is a subclass of int
        if isinstance(value, self.type) and (self.type is bool or not isinstance(value, bool)):
            if self.choices and value not in self.choices:
                return f"{self.name}= is {' or '.join(map(repr, self.choices))}; got {value!r}"
            is_integers = not isinstance(value, tuple) or all(type(each) is int for each in value)
            return None if is_integers else f"{self.name}= takes integers; got {value!r}"
        return f"{self.name}= takes {self.type.__name__}; got {value!r}"


def dimensions(named: object, rank: int) -> object:
    """Return one or several dimensions as a tuple, sorted and nonnegative if valid; return other objects unchanged."""
    every = (named,) if type(named) is int else named
    if not isinstance(every, tuple) or any(type(d) is not int or not -rank <= d < rank for d in every):
        return every
    return tuple(sorted(d % rank for d in every))


def _takes_all(*_: object) -> None:
    """Accept all shapes or types: the default of `shape_fault` and `type_fault`."""


# without slots, for cached properties
@dataclass(frozen=True, eq=False, kw_only=True)
class TileOperation:
    """The record of one tile operation, from which the compiler and the documentation derive its rules."""

    name: str
    #: the operands in order, destination first
    operands: tuple[TileOperand, ...]
    attrs: tuple[Attribute, ...]
    #: one line for the documentation
    meaning: str
    #: two lines of a kernel, the second of which calls the operation; `A` is a matrix, `a` and `b` are tiles (gemm)
    example: str
    #: reference semantics in NumPy: (*operands, **attributes) -> new contents of the destination; takes the required
    #: operands, starting with the old contents of the destination, and some of the attributes
    reference: Callable[..., np.ndarray]
    relation: Relation
    #: functions of the shapes or types of the tiles and scalars in a call, by name in the order of `operands`, and of
    #: its attributes; they return why these are invalid, or None
    shape_fault: Callable[[Shapes, Attributes], Fault | None] = _takes_all
    type_fault: Callable[[DTypes, Attributes], Fault | None] = _takes_all
    #: the scopes on which the operation can be called
    scopes: tuple[Scope, ...] = tuple(SCOPES.values())
    #: the elementwise operation that is applied to each element, if any
    elementwise: Elementwise | None = None
    #: the reduction that is performed, if any
    reduction: Reduction | None = None
    #: True if users call the operation by its name on a scope
    is_called: bool = True

    def __reduce__(self) -> tuple[object, tuple[str]]:
        """Pickle the operation by name, because it compares by identity and some functions can't be pickled."""
        return (_by_name, (self.name,))

    @cached_property
    def arity(self) -> tuple[int, int]:
        """The minimum and maximum number of operands."""
        return sum(not o.optional for o in self.operands), len(self.operands)

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The names of a call's parameters, in order, without parts of places; optional tiles follow the attributes."""
        named = [o for o in self.operands if not o.is_part_of_place]
        options = [o.name for o in named if o.optional and TILE in o.kinds]
        first = [o.name for o in named if o.name not in options]
        return (*first, *(a.name for a in self.attrs), *options)

    @cached_property
    def required(self) -> int:
        return self.arity[0]

    @cached_property
    def positions(self) -> dict[str, int]:
        return {operand.name: k for k, operand in enumerate(self.operands)}

    @cached_property
    def tiles(self) -> tuple[tuple[str, int], ...]:
        """(name, position) of each operand that may be a tile."""
        return tuple((o.name, k) for k, o in enumerate(self.operands) if TILE in o.kinds)

    @cached_property
    def elements(self) -> tuple[tuple[str, int], ...]:
        """(name, position) of each operand that may be a tile or a scalar."""
        return tuple((o.name, k) for k, o in enumerate(self.operands) if TILE in o.kinds or SCALAR in o.kinds)

    @cached_property
    def inputs(self) -> tuple[tuple[str, int], ...]:
        """(name, position) of each operand that may be a tile or a scalar and is not written."""
        return tuple((name, k) for name, k in self.elements if not self.operands[k].written)

    @cached_property
    def conditions(self) -> tuple[str, ...]:
        return tuple([o.name for o in self.operands if CONDITION in o.kinds])

    @cached_property
    def barriers(self) -> tuple[str, ...]:
        return tuple([o.name for o in self.operands if BARRIER in o.kinds])

    @cached_property
    def options(self) -> tuple[tuple[str, int], ...]:
        """(name, position) of each optional operand."""
        return tuple((o.name, k) for k, o in enumerate(self.operands) if o.optional)

    def position(self, operand: str) -> int:
        """Return the position of an operand. raises: KeyError if it does not exist."""
        if operand not in self.positions:
            raise KeyError(f"{self.name} has no operand {operand!r}")
        return self.positions[operand]

    def ordered(self, operands: Mapping[str, Given]) -> tuple[Given | None, ...]:
        """Return operands in order up to the last, None for each omitted one. raises: KeyError for an unknown name."""
        last = max([self.position(name) for name in operands], default=-1)
        return tuple([operands.get(operand.name) for operand in self.operands[: last + 1]])

    def count_fault(self, operands: Sequence[object]) -> str | None:
        """Return why the number of `operands`, or the omission of some (given as None), is invalid; None if valid."""
        least, most = self.arity
        if not least <= len(operands) <= most:
            most -= sum(operand.is_part_of_place for operand in self.operands)
            taken = counted(most, "operand") if least == most else f"{least} to {most} operands"
            return f"takes {taken}; got {len(operands)}"
        missing = [rule for rule, operand in zip(self.operands, operands, strict=False) if operand is None]
        needed = [rule.name for rule in missing if not rule.optional]
        if needed:
            return f"needs {', '.join(needed)}"
        return f"ends with {missing[-1].name}, which is omitted" if missing and operands[-1] is None else None

    @cached_property
    def defaults(self) -> dict[str, AttributeValue]:
        return {attribute.name: attribute.default for attribute in self.attrs}

    def attribute(self, name: str) -> Attribute | None:
        for attribute in self.attrs:
            if attribute.name == name:
                return attribute
        return None

    def attribute_fault(self, name: str, value: object) -> str | None:
        """Return why the operation can't have the attribute `name` with `value`, or None."""
        attribute = self.attribute(name)
        if attribute is None:
            return f"{self.name} has no attribute {name!r}"
        fault = attribute.fault(value)
        return None if fault is None else f"{self.name}: {fault}"


def _by_name(name: str) -> TileOperation:
    # imported lazily, because the table imports this module
    from .tile import TILE_OPERATIONS

    return TILE_OPERATIONS[name]
