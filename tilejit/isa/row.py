"""What the instruction table is made of: rows, their operands, what they start, and families of rows."""

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

__all__ = [
    "ANOTHER_TARGET", "B16", "B32", "B64", "F32", "F64", "Direction", "Capability", "Family", "Kind", "OpenFamily",
    "Operand", "Register", "Row", "AsyncWork", "address", "carried", "constant", "descriptor", "predicate", "register",
]


#: what helps where a target has no such instruction
ANOTHER_TARGET = "compile for a target that has it"


class Kind(Enum):
    """What an operand is."""

    REGISTER = "register"
    CONSTANT = "constant"
    PREDICATE = "predicate"
    ADDRESS = "address"
    DESCRIPTOR = "descriptor"


class Direction(Enum):
    """What happens to a register, or to the memory at an address."""

    IN = "in"
    OUT = "out"
    INOUT = "inout"


class Register(NamedTuple):
    """A kind of register. constraint: its letter in LLVM's inline assembly."""

    constraint: str
    bits: int
    is_float: bool = False


B16, B32, B64 = Register("h", 16), Register("r", 32), Register("l", 64)
F32 = Register("f", 32, is_float=True)
F64 = Register("d", 64, is_float=True)

#: in registers that tiles are made of a predicate is a bool_
_PREDICATE = Register("b", bool_.bits)
_CONSTANT = Register("n", 32)


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand: a list of registers of one kind, a constant, a predicate, an address, or a descriptor.

    name: it stands in the row's text as `$name`. register: the kind of register, an address's too.
    count: registers; None for any number. element: the type of the elements in the registers, or None for any.
    space: the memory of an address. access_bytes: how many bytes there one thread names; 0 where there is no number.
    is_cut: whether other operands may leave a part of these bytes, or all of them, alone.
    is_bits: it is the bits of a value of any type, in as many registers as the operands beside it are; a narrower one's
    are extended by zeros.
    is_immediate: an integer known at compile time stands there as it is, and not in a register.
    is_common: all threads that execute the instruction together give the same.
    among: the values that a constant may have; None for any.
    """

    name: str
    kind: Kind
    register: Register
    direction: Direction = Direction.IN
    count: int | None = 1
    element: DType | None = None
    space: str = ""
    access_bytes: int = 0
    is_cut: bool = False
    is_immediate: bool = False
    is_bits: bool = False
    is_common: bool = False
    among: range | None = None

    def __hash__(self) -> int:
        # few have the same name, and code generation looks each product's accumulators up
        return hash(self.name)

    @property
    def is_result(self) -> bool:
        """Whether the instruction writes its registers; of an address it never does."""
        return self.kind is not Kind.ADDRESS and self.direction is not Direction.IN

    @property
    def is_argument(self) -> bool:
        """Whether the instruction reads its registers."""
        return self.kind is Kind.ADDRESS or self.direction is not Direction.OUT


def register(
    name: str, kind: Register, direction: Direction = Direction.IN, count: int = 1, element: DType | None = None,
    *, is_immediate: bool = False, is_bits: bool = False, is_common: bool = False,
) -> Operand:
    """`count` registers of one kind."""
    return Operand(
        name, Kind.REGISTER, kind, direction, count, element, is_immediate=is_immediate, is_bits=is_bits,
        is_common=is_common,
    )


def carried(name: str) -> Operand:
    """Any number of 32-bit registers that are taken and returned, so that what uses them stays behind."""
    return Operand(name, Kind.REGISTER, B32, Direction.INOUT, None)


def constant(name: str, among: range | None = None) -> Operand:
    """A constant of 32 bits. among: the values that it may have; None for any."""
    return Operand(name, Kind.CONSTANT, _CONSTANT, among=among)


def descriptor(name: str) -> Operand:
    """What says where a tile lies in shared memory, which the instruction reads."""
    return Operand(name, Kind.DESCRIPTOR, B64, space="shared")


def predicate(name: str, direction: Direction = Direction.IN) -> Operand:
    """A predicate register."""
    return Operand(name, Kind.PREDICATE, _PREDICATE, direction)


def address(
    name: str, space: str, direction: Direction, access_bytes: int = 0, *, is_cut: bool = False
) -> Operand:
    """An address; `direction` says what happens to the memory there. Only those of global memory have 64 bits."""
    kind = B64 if space == "global" else B32
    return Operand(name, Kind.ADDRESS, kind, direction, space=space, access_bytes=access_bytes, is_cut=is_cut)


@dataclass(frozen=True, slots=True, eq=False)
class AsyncWork:
    """Work that goes on after the instruction that starts it.

    started_by: the tile operation that starts it. wait: what users call, after `tj.`, to wait for it; commit: to make a
    group of what was started, where they do.
    fills: it fills results after the instruction. reads: it reads the registers that it takes after the instruction.
    settles_at_joins: where control flow joins nothing may be in flight, as LLVM may copy the registers there.
    is_awaited: the kernel may not end before it has been waited for.
    """

    name: str
    started_by: str
    wait: str
    commit: str = ""
    fills: bool = False
    reads: bool = False
    settles_at_joins: bool = False
    is_awaited: bool = False

    @property
    def holds_registers(self) -> bool:
        """Whether it uses registers after the instruction that starts it."""
        return self.fills or self.reads


@dataclass(frozen=True, eq=False, kw_only=True)
class Capability:
    """What targets have from some version on.

    since: the oldest target, as 90 for sm_90. ptx: the oldest PTX version, as (major, minor).
    only: the targets that have it, where that isn't all since `since`.
    """

    name: str
    since: int
    ptx: tuple[int, int]
    only: tuple[str, ...] = ()

    def missing(self, target: Target) -> str | None:
        """Why `target` doesn't have it, or None where it does."""
        if self.only and target.name not in self.only:
            return f"needs {' or '.join(self.only)}; target is {target}"
        if target.number < self.since:
            return f"needs sm_{self.since} or newer; target is {target}"
        return None

    def need(self, target: Target, span: Span | None) -> None:
        """Raise DispatchError where `target` doesn't have it."""
        missing = self.missing(target)
        if missing is not None:
            raise DispatchError(f"{self.name}: {missing}", span=span, hint=ANOTHER_TARGET)


@dataclass(frozen=True, eq=False, kw_only=True)
class Row(Capability):
    """One instruction, or a short sequence that belongs together.

    text: in LLVM's inline assembly syntax, but that `$name` stands for an operand, its registers separated by commas.
    An address in shared memory stands alone in its brackets, `[$name]`, where a constant may follow it.
    operands: those that are taken and returned first, then results, then arguments, each as the IR lists them.
    scope: the threads that must execute it together.
    starts: the work that it starts; its results are there, and its registers free, after the wait.
    commits: the work of which it makes a group: all that was started since the last one.
    completes: the work that it waits for. What it carries are registers of such work. A constant says how many of the
    latest groups it leaves unfinished.
    accumulates: it adds to the registers that it takes and returns, which its text may have by PTX's names.
    agrees: its result is the same for all threads that execute it together.
    elides_sync: it waits, or issues what is no thread's own, such as a copy or a product that completes later: threads
    that did nothing else needn't meet before one arrives at a barrier for all of them.
    asynchronous: it accesses memory by the asynchronous proxy, which ordinary accesses are ordered with by a fence.
    called: what users call it, where that isn't its name.
    memory: it reads, writes or orders memory. convergent: it may not be moved into or out of divergent code.
    """

    text: str
    meaning: str
    operands: tuple[Operand, ...] = ()
    scope: Scope = THREAD
    starts: AsyncWork | None = None
    commits: AsyncWork | None = None
    completes: AsyncWork | None = None
    memory: bool = False
    convergent: bool = False
    accumulates: bool = False
    agrees: bool = False
    elides_sync: bool = False
    asynchronous: bool = False
    called: str = ""
    source: str = ""

    @cached_property
    def mnemonic(self) -> str:
        """The opcode with its modifiers, as PTX spells it: of a block with registers of its own, of the last one."""
        text = re.sub(r"^@\$\w+ ", "", self.text)
        instructions = text.strip("{ };").split("; ") if text.startswith("{") else [text]
        return re.split("[ ;]", instructions[-1], maxsplit=1)[0]

    @property
    def spelling(self) -> str:
        """What users call it: of a wait or a commit, the call."""
        if self.called:
            return self.called
        if self.completes is not None:
            return self.completes.wait
        return self.commits.commit if self.commits is not None and self.commits.commit else self.name

    @cached_property
    def leaves(self) -> int | None:
        """Which of the arguments says how many groups a wait leaves unfinished; None where it leaves none."""
        constants = [k for k, o in enumerate(self.arguments) if o.kind is Kind.CONSTANT]
        return constants[0] if self.completes is not None and constants else None

    @cached_property
    def carries(self) -> Operand | None:
        """The operand of any number of registers, if there is one."""
        return next((o for o in self.operands if o.count is None), None)

    @cached_property
    def returned(self) -> Operand | None:
        """The first operand whose registers it takes and returns, where it has no other results."""
        results = [o for o in self.operands if o.is_result]
        return results[0] if results and all(o.is_argument for o in results) else None

    @cached_property
    def takes_immediates(self) -> bool:
        """Whether some of its operands may stand in the text as integers."""
        return any(o.is_immediate for o in self.operands)

    @cached_property
    def limits_constants(self) -> bool:
        """Whether some constant may have some values only."""
        return any(o.among is not None for o in self.operands)

    @cached_property
    def cuts(self) -> bool:
        """Whether other operands may have it leave some of the bytes alone whose address it takes."""
        return any(o.is_cut for o in self.operands)

    @cached_property
    def results(self) -> tuple[Operand, ...]:
        """For each register that it writes its operand, without what it carries."""
        return tuple(o for o in self.operands if o.is_result for _ in range(o.count or 0))

    @cached_property
    def arguments(self) -> tuple[Operand, ...]:
        """For each register that it reads its operand, without what it carries."""
        return tuple(o for o in self.operands if o.is_argument for _ in range(o.count or 0))

    @cached_property
    def results_beside_sums(self) -> tuple[Operand, ...]:
        """The results without the registers to which it adds."""
        return tuple(o for o in self.results if not o.is_argument)

    @cached_property
    def arguments_beside_sums(self) -> tuple[Operand, ...]:
        """The arguments without the registers to which it adds."""
        return tuple(o for o in self.arguments if not o.is_result)

    def assembly(self, number_carried: int = 0, named: Sequence[str] = ()) -> str:
        """The text with its operands numbered as in inline assembly: `$0` is the first one, results first.

        A register that is taken and returned has the number of the result; as an argument it has one more.
        named: the registers to which it adds, where they stand in the text by their names.
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
        return re.sub(r"\$(\w+)", lambda match: ", ".join(texts[match[1]]), self.text)


def _registers(operand: Operand, number_carried: int) -> int:
    return number_carried if operand.count is None else operand.count


Form = TypeVar("Form", bound=Hashable)


class OpenFamily(Generic[Form]):
    """Instructions of so many forms that each row is made when it is asked for.

    target: what has them. make: a form's row. called: the form that a row's name says; None of a name that is no row's.
    """

    def __init__(
        self, name: str, target: Capability, make: Callable[[Form], Row], called: Callable[[str], Form | None]
    ) -> None:
        self.name, self.target = name, target
        self.row = cache(make)
        self.named = cache(self._named)
        self._called = called

    def _named(self, name: str) -> Row | None:
        """The row of this name, None where there is none."""
        form = self._called(name)
        return None if form is None else self.row(form)


@dataclass(frozen=True, eq=False)
class Family(Generic[Form]):
    """Instructions of many forms. made: form -> row, in the order of preference."""

    name: str
    made: Mapping[Form, Row]

    @staticmethod
    def of(name: str, forms: tuple[Form, ...], make: Callable[[Form], Row]) -> Family[Form]:
        """The family whose rows `make` makes."""
        return Family(name, {form: make(form) for form in forms})

    def forms(self) -> tuple[Form, ...]:
        return tuple(self.made)

    def rows(self) -> tuple[Row, ...]:
        return tuple(self.made.values())

    def row(self, form: Form) -> Row:
        return self.made[form]

    def among(self, name: str, keep: Callable[[Form], bool]) -> Family[Form]:
        """Those of its forms that `keep` keeps, under a name of their own."""
        return Family(name, {form: row for form, row in self.made.items() if keep(form)})

    def on(self, target: Target) -> Iterator[Form]:
        """The forms that `target` has."""
        return (form for form, row in self.made.items() if row.missing(target) is None)

    def missing(self, target: Target) -> str | None:
        """Why `target` has none of its forms, or None where it has one."""
        reasons = [row.missing(target) for row in sorted(self.made.values(), key=lambda row: row.since)]
        return None if None in reasons or not reasons else reasons[0]
