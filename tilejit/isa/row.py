"""The types of the instruction table: rows, operands, asynchronous work, and families of rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

from ..dataclass import dataclass
from ..dtypes import DType, bool_
from ..errors import DispatchError
from ..forks import cached_property
from ..scopes import THREAD, Scope
from ..source import Span
from ..target import Target

ANOTHER_TARGET = "compile for a target that has it"


class Kind(Enum):
    """The kind of an operand."""

    REGISTER = "register"
    CONSTANT = "constant"
    PREDICATE = "predicate"
    ADDRESS = "address"
    DESCRIPTOR = "descriptor"


class Direction(Enum):
    """The access of an instruction to a register, or to the memory at an address: a read, a write, or both."""

    IN = "in"
    OUT = "out"
    INOUT = "inout"


class Register(NamedTuple):
    """A kind of register. constraint: its constraint letter in LLVM's inline assembly."""

    constraint: str
    bits: int
    is_float: bool = False


B16, B32, B64 = Register("h", 16), Register("r", 32), Register("l", 64)
F32 = Register("f", 32, is_float=True)
F64 = Register("d", 64, is_float=True)

#: as wide as `bool_`, the element type in which tiles hold predicates
_PREDICATE = Register("b", bool_.bits)
_CONSTANT = Register("n", 32)


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand: registers of one kind, a constant, a predicate, an address, or a descriptor."""

    #: the operand is `$name` in the row's text
    name: str
    kind: Kind
    #: the kind of register; for an address, that of the register that holds it
    register: Register
    direction: Direction = Direction.IN
    #: number of registers; None for any number
    count: int | None = 1
    #: type of the elements in the registers; None for any
    element: DType | None = None
    space: str = ""
    #: number of bytes that a thread accesses at the address; 0 if it isn't fixed
    access_bytes: int = 0
    #: True if other operands may exclude some or all of the bytes at the address from the access
    is_cut: bool = False
    #: True if an integer constant may be an immediate in place of a register
    is_immediate: bool = False
    #: True if the register holds bits of a value of any type, zero-extended; two such operands hold a 64-bit value
    is_bits: bool = False
    #: True if all threads that execute the instruction together must pass the same value
    is_common: bool = False
    #: allowed values of a constant; None for any
    among: range | None = None
    #: True if a result may be written before all arguments are read, so that it must not share a register with one
    is_early: bool = False

    def __hash__(self) -> int:
        # hashing only the name is fast, and code generation often uses operands as keys
        return hash(self.name)

    @property
    def is_result(self) -> bool:
        """True if the instruction writes the operand's registers; False for an address, whose register is only read."""
        return self.kind is not Kind.ADDRESS and self.direction is not Direction.IN

    @property
    def is_argument(self) -> bool:
        return self.kind is Kind.ADDRESS or self.direction is not Direction.OUT


def register(
    name: str, kind: Register, direction: Direction = Direction.IN, count: int = 1, element: DType | None = None,
    *, is_immediate: bool = False, is_bits: bool = False, is_common: bool = False, is_early: bool = False,
) -> Operand:
    return Operand(
        name, Kind.REGISTER, kind, direction, count, element, is_immediate=is_immediate, is_bits=is_bits,
        is_common=is_common, is_early=is_early,
    )


def carried(name: str) -> Operand:
    """Return a read-write operand of any number of 32-bit registers, whose later uses therefore stay after the row."""
    return Operand(name, Kind.REGISTER, B32, Direction.INOUT, None)


def constant(name: str, among: range | None = None) -> Operand:
    return Operand(name, Kind.CONSTANT, _CONSTANT, among=among)


def descriptor(name: str) -> Operand:
    """Return an operand that is the descriptor of a tile in shared memory that the instruction reads."""
    return Operand(name, Kind.DESCRIPTOR, B64, space="shared")


def predicate(name: str, direction: Direction = Direction.IN) -> Operand:
    return Operand(name, Kind.PREDICATE, _PREDICATE, direction)


def address(
    name: str, space: str, direction: Direction, access_bytes: int = 0, *, is_cut: bool = False
) -> Operand:
    """Return an address operand; `direction` says how its memory is accessed. Only global addresses have 64 bits."""
    kind = B64 if space == "global" else B32
    return Operand(name, Kind.ADDRESS, kind, direction, space=space, access_bytes=access_bytes, is_cut=is_cut)


@dataclass(frozen=True, slots=True, eq=False)
class AsyncWork:
    """A kind of asynchronous work, which continues after the instruction that starts it."""

    name: str
    started_by: str
    #: user-visible names (after `tj.`) of the wait, and of the commit of a group; "" if users commit no groups
    wait: str
    commit: str = ""
    #: True if it writes result registers after the instruction that starts it
    fills: bool = False
    #: True if it reads argument registers after the instruction that starts it
    reads: bool = False
    #: True if it must be complete where control flow joins, because LLVM may copy the registers there
    settles_at_joins: bool = False
    #: True if it must be waited for before the kernel exits
    is_awaited: bool = False

    @property
    def holds_registers(self) -> bool:
        return self.fills or self.reads


@dataclass(frozen=True, eq=False, kw_only=True)
class Capability:
    """A feature of targets.

    since: the oldest target, such as 90 for sm_90. ptx: the oldest PTX version, as (major, minor).
    only: the targets that have it, if not all from `since` on.
    """

    name: str
    since: int
    ptx: tuple[int, int]
    only: tuple[str, ...] = ()

    def missing(self, target: Target) -> str | None:
        """Return why `target` lacks the capability, or None if it has it."""
        if self.only and target.name not in self.only:
            return f"needs {' or '.join(self.only)}; target is {target}"
        if target.number < self.since:
            return f"needs sm_{self.since} or newer; target is {target}"
        return None

    def need(self, target: Target, span: Span | None) -> None:
        missing = self.missing(target)
        if missing is not None:
            raise DispatchError(f"{self.name}: {missing}", span=span, hint=ANOTHER_TARGET)


@dataclass(frozen=True, eq=False, kw_only=True)
class Row(Capability):
    """One instruction, or a sequence of instructions."""

    #: LLVM inline assembly in which `$name` is an operand: its registers, separated by commas; `$$` is a dollar. An
    #: address in brackets is alone in them, `[$name]`, so that a constant offset can follow it.
    text: str
    meaning: str
    #: read-write operands first, then results, then arguments, in the order of the IR
    operands: tuple[Operand, ...] = ()
    scope: Scope = THREAD
    #: the work that it starts, which may write results (`fills`) or read arguments (`reads`) until the wait
    starts: AsyncWork | None = None
    #: the work that it commits: all such work that was started since the last commit becomes a group
    commits: AsyncWork | None = None
    #: The work that it waits for. Operand `carries`, if any, holds registers of that work; a constant operand is the
    #: number of most recent groups that may remain unfinished.
    completes: AsyncWork | None = None
    memory: bool = False
    #: True if it must not be moved into or out of divergent code
    convergent: bool = False
    #: True if its read-write registers are accumulators, which its text may reference by their PTX names
    accumulates: bool = False
    #: True if its result is uniform over the threads that execute it together
    agrees: bool = False
    #: True if one thread may arrive at an mbarrier for all threads that have executed it, without a barrier before the
    #: arrival, as for waits, arrivals and fences; `lower/passes/arrivals.py` excepts TMA copies and expect_tx
    elides_sync: bool = False
    #: True if it accesses memory through the async proxy; a fence is needed to order ordinary accesses with it
    asynchronous: bool = False
    #: the user-visible name, if it is neither `name` nor that of the wait or commit of the work; see `spelling`
    called: str = ""
    source: str = ""

    @cached_property
    def mnemonic(self) -> str:
        """The first instruction's opcode with its modifiers; the last one's if the text is a block in braces."""
        text = re.sub(r"^@\$\w+ ", "", self.text)
        instructions = text.strip("{ };").split("; ") if text.startswith("{") else [text]
        return re.split("[ ;]", instructions[-1], maxsplit=1)[0]

    @property
    def spelling(self) -> str:
        """The user-visible name: `called`, or the name of the wait or commit, or else the row's name."""
        if self.called:
            return self.called
        if self.completes is not None:
            return self.completes.wait
        return self.commits.commit if self.commits is not None and self.commits.commit else self.name

    @cached_property
    def leaves(self) -> int | None:
        """The index of a wait's argument that is the number of groups that may remain unfinished, or None."""
        constants = [k for k, o in enumerate(self.arguments) if o.kind is Kind.CONSTANT]
        return constants[0] if self.completes is not None and constants else None

    @cached_property
    def carries(self) -> Operand | None:
        """The operand with any number of registers, or None."""
        return next((o for o in self.operands if o.count is None), None)

    @cached_property
    def returned(self) -> Operand | None:
        """The first read-write operand if there are results and all are read-write; else None."""
        results = [o for o in self.operands if o.is_result]
        return results[0] if results and all(o.is_argument for o in results) else None

    @cached_property
    def takes_immediates(self) -> bool:
        return any(o.is_immediate for o in self.operands)

    @cached_property
    def limits_constants(self) -> bool:
        return any(o.among is not None for o in self.operands)

    @cached_property
    def cuts(self) -> bool:
        return any(o.is_cut for o in self.operands)

    @cached_property
    def results(self) -> tuple[Operand, ...]:
        """The operand of each register that the instruction writes, except the registers of `carries`."""
        return tuple(o for o in self.operands if o.is_result for _ in range(o.count or 0))

    @cached_property
    def arguments(self) -> tuple[Operand, ...]:
        """The operand of each register or constant that the instruction reads, except the registers of `carries`."""
        return tuple(o for o in self.operands if o.is_argument for _ in range(o.count or 0))

    @cached_property
    def results_without_sums(self) -> tuple[Operand, ...]:
        return tuple(o for o in self.results if not o.is_argument)

    @cached_property
    def arguments_without_sums(self) -> tuple[Operand, ...]:
        return tuple(o for o in self.arguments if not o.is_result)

    def assembly(self, number_carried: int = 0, named: Sequence[str] = ()) -> str:
        """Return the text with operands numbered as in inline assembly, results first.

        A read-write register appears with the number of its result; its tied argument takes another number.
        number_carried: the number of registers of `carries`.
        named: the PTX names of the read-write registers, which then get no numbers; empty to number them.
        """
        names, after = iter(named), 0
        texts: dict[str, list[str]] = {}
        results = [o for o in self.operands if o.is_result]
        tied = [o for o in results if o.is_argument]
        if named:
            texts = {o.name: list(islice(names, o.count)) for o in tied}
            results, tied = [o for o in results if not o.is_argument], []
        for operand in results:
            first, after = after, after + _registers(operand, number_carried)
            texts[operand.name] = [f"${n}" for n in range(first, after)]
        after += sum(_registers(o, number_carried) for o in tied)
        for operand in self.operands:
            if not operand.is_result:
                first, after = after, after + _registers(operand, number_carried)
                texts[operand.name] = [f"${n}" for n in range(first, after)]
        return re.sub(r"\$(\$|\w+)", lambda match: "$$" if match[1] == "$" else ", ".join(texts[match[1]]), self.text)


def _registers(operand: Operand, number_carried: int) -> int:
    return number_carried if operand.count is None else operand.count


Form = TypeVar("Form", bound=Hashable)


class OpenFamily(Generic[Form]):
    """Instructions with too many forms to list. make: creates a form's row. called: maps its name to a form or None."""

    def __init__(
        self, name: str, target: Capability, make: Callable[[Form], Row], called: Callable[[str], Form | None]
    ) -> None:
        self.name, self.target = name, target
        self.row = cache(make)
        self.named = cache(self._named)
        self._called = called

    def _named(self, name: str) -> Row | None:
        form = self._called(name)
        return None if form is None else self.row(form)


@dataclass(frozen=True, eq=False)
class Family(Generic[Form]):
    """Instructions with a fixed list of forms. made: form -> row, in the order in which `on` yields the forms."""

    name: str
    made: Mapping[Form, Row]

    @staticmethod
    def of(name: str, forms: tuple[Form, ...], make: Callable[[Form], Row]) -> Family[Form]:
        return Family(name, {form: make(form) for form in forms})

    def forms(self) -> tuple[Form, ...]:
        return tuple(self.made)

    def rows(self) -> tuple[Row, ...]:
        return tuple(self.made.values())

    def row(self, form: Form) -> Row:
        return self.made[form]

    def among(self, name: str, keep: Callable[[Form], bool]) -> Family[Form]:
        """Return the family of the forms for which `keep` holds, under a new name."""
        return Family(name, {form: row for form, row in self.made.items() if keep(form)})

    def on(self, target: Target) -> Iterator[Form]:
        return (form for form, row in self.made.items() if row.missing(target) is None)

    def missing(self, target: Target) -> str | None:
        """Return why `target` has none of the forms; None if it has one, or the family is empty."""
        reasons = [row.missing(target) for row in sorted(self.made.values(), key=lambda row: row.since)]
        return None if None in reasons or not reasons else reasons[0]
