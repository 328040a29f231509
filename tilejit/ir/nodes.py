"""Statements and kernels. Tile operations and lane operations form one language at three levels.

Scalar expressions, memory and places are in `values`, kernel parameters in `params`.

*Open level*, from the frontend: `TileOp`s on `Region`s, reads and writes of `Element`s, scalar control flow. Local
tiles without an explicit layout are `Open`.
*Tile level*: the same, but every tile has a layout.
*Lane level*, after lowering: the code of one thread, without `TileOp`, `Region` and `Element`. Memory is accessed
through `Vector`s, contiguous elements of a buffer's storage. Local buffers are in registers, or in local memory if
`Alloc.addressed` is set.

Nodes are frozen and compare structurally, ignoring spans, derived fields and fields used only in messages. Blocks are
tuples of statements. A `Var` carries facts about its value.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..dataclass import field, lean
from ..dtypes import DType
from ..ops.copies import INDEX
from ..ops.record import AttributeValue, TileOperation
from ..ops.tile import TILE_OPERATIONS
from ..source import Span
from .params import Param
from .placements import MemoryPlacement
from .values import (
    FALSE,
    ORDERS,
    SPECIALS,
    TRUE,
    Buffer,
    Cast,
    Const,
    Element,
    Expr,
    Gathered,
    Load,
    Op,
    Open,
    Region,
    Special,
    Strided,
    Var,
    Vector,
)

__all__ = [
    "Alloc", "Arrive", "Assert", "Assign", "Atomic", "Break", "Buffer", "BufferView", "Cast", "Const", "Continue",
    "Declare", "Descriptor", "Element", "Expect", "Expr", "FALSE", "For", "Gathered", "If", "Input", "Instruction",
    "Jump", "Kernel", "Let", "Load", "Loop", "Move", "ORDERS", "Op", "Open", "Print", "RULES", "Region", "Return",
    "SPECIALS", "Simple", "Special", "Stmt", "Store", "Strided", "Sync", "TRUE", "TileOp", "Var", "Vector",
    "WaitPhase",
]


@lean(frozen=True, slots=True)
class Let:
    """Defines `var`, which isn't reassigned."""

    var: Var
    value: Expr
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class Declare:
    """Defines a variable that `Assign` may change and that carries no facts. init: None leaves its value undefined."""

    var: Var
    init: Expr | None
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class Assign:
    """Changes a declared variable."""

    var: Var
    value: Expr
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class Alloc:
    """Allocates a shared, local or tmem buffer that lives as long as the kernel."""

    buffer: Buffer
    #: the local buffer is in local memory instead of registers, so that run-time values can index it (lane level)
    addressed: bool = False
    #: for a buffer of barriers, which are initialized at kernel entry: the number of arrivals that complete a phase,
    #: or for "release" along an axis (see `along`), the number from each CTA
    arrivals: int = 0
    #: for a ring's barriers, the name of the method that arrives at them: "commit" or "release"
    call: str = ""
    #: for a ring's barriers, the cluster axis of its multicast copies, or None. Such a copy fills a stage in all CTAs
    #: along the axis, and the stage is free only when all of them have released it, so each "release" arrives in each
    along: int | None = None
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def reach(self) -> int | None:
        """The cluster axis along which an arrival is delivered to all CTAs, or None if arrivals are local."""
        return self.along if self.call == "release" else None


@lean(frozen=True, slots=True)
class BufferView:
    """Defines `buffer`, a view of `buffer.base`."""

    buffer: Buffer
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class Store:
    """Writes one element: a `Vector` of width 1 at lane level, else an `Element`.

    order: one of `ORDERS["store"]`.
    """

    place: Element | Vector
    value: Expr
    order: str = ""
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class Atomic:
    """Updates one element of global or shared memory atomically.

    op: one of `tilejit.isa.atomics.OPERATIONS`. place: a `Vector` of width 1 at lane level, else an `Element`.
    operands: of the element's type; `exch` of a float exchanges its bits.
    order: one of `ORDERS["atomic"]`. var: defined as the old value; None if it isn't used.
    """

    op: str
    place: Element | Vector
    operands: tuple[Expr, ...]
    order: str = "relaxed.gpu"
    var: Var | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class If:
    cond: Expr
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class For:
    """Iterates `var` from start to stop (exclusive) by step, like Python's range; with step 0, there are no iterations.

    Variable, start, stop and step have the same type, but the step of an unsigned variable may have the signed type of
    the same width.
    unrolled: a pass unrolls the loop completely, with a constant for `var` in each copy of the body. Start, stop and
    step are then constants (lane level only).
    """

    var: Var
    start: Expr
    stop: Expr
    step: Expr
    body: tuple[Stmt, ...]
    unrolled: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class Loop:
    """Repeats its body until the thread executes a `Break` of this loop or a `Return`."""

    body: tuple[Stmt, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class Break:
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class Continue:
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class Return:
    """Ends the thread that executes it."""

    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class Sync:
    """Synchronizes the threads of each instance of the named scope."""

    scope: str
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class Arrive:
    """Each instance of a scope arrives once at a barrier in shared memory (of each CTA along `Alloc.reach`).

    The instance's leader executes the arrival. Everything that the instance's threads did earlier is ordered before
    everything that threads do after waiting for the phase.
    place: a `Vector` of width 1 at lane level, else an `Element`.
    bytes: additional bytes of asynchronous copies that the phase waits for, an int32; or None.
    word: the operation's name in messages.
    """

    place: Element | Vector
    scope: str
    bytes: Expr | None = None
    span: Span | None = field(default=None, compare=False, repr=False)
    word: str = field(default="arrive", compare=False, repr=False)


@lean(frozen=True, slots=True)
class WaitPhase:
    """Waits, in each thread, until a phase of a barrier is complete. A negative phase counts as complete.

    place: as in `Arrive`. phase: the phase's number, an int32; the barrier is in this phase or the next one.
    var: if not None, the statement doesn't wait, but defines this bool_: true if the phase is complete.
    """

    place: Element | Vector
    phase: Expr
    var: Var | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class Expect:
    """Each instance of a scope adds to the number of bytes of asynchronous copies that a barrier's phase waits for.

    The phase is the current one. The leader of each instance executes the statement.
    place: as in `Arrive`. bytes: an int32.
    """

    place: Element | Vector
    bytes: Expr
    scope: str = "thread"
    span: Span | None = field(default=None, compare=False, repr=False)


#: kinds of assertions: "assert" for `assert` statements and arguments of `range`, the others for the compiler's checks
RULES = ("assert", "bounds", "front", "overlap", "unwritten", "uniform", "division")


@lean(frozen=True, slots=True)
class Assert:
    """Ends the thread if the condition is false; the first failure of a launch is recorded.

    It has no effect unless the kernel has an `AssertionsParam`.
    rule: one of `RULES`.
    values: int64 expressions for the record, at most `AssertionsParam.VALUES`. Unless the rule is "assert", the message
    refers to them as `{0}`, `{1}`, …
    """

    cond: Expr
    message: str
    rule: str = "assert"
    values: tuple[Expr, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class Print:
    """Prints text and scalars in order; `parts` includes all separators."""

    parts: tuple[str | Expr, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class Breakpoint:
    """Passes the values of names in scope to a debugger on the simulator.

    names: the names, as JSON text that refers to `values` by index (see `frontend.breakpoints`).
    values: scalars, local buffers, and the first elements of other buffers; at lane level, buffers are vectors.
    """

    names: str
    values: tuple[Expr | Region | Vector, ...]
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def registers(self) -> tuple[Region | Vector, ...]:
        """The local buffers, whose elements are passed; of other buffers, the address is passed."""
        return tuple([x for x in self.values if isinstance(x, (Region, Vector)) and x.buffer.space == "local"])


@lean(frozen=True, slots=True)
class TileOp:
    """A tile operation that the threads of each instance of a scope execute together (open and tile level)."""

    #: name of the operation's record in `tilejit.ops.tile`
    name: str
    #: name of a record in `tilejit.scopes`
    scope: str
    #: in the record's order, the destination first; None for an omitted operand that precedes one that is present
    operands: tuple[Region | Expr | None, ...]
    #: (name, value) pairs in the record's order
    attrs: tuple[tuple[str, AttributeValue], ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)
    record: TileOperation = field(init=False, compare=False, repr=False)
    #: the tiles among the operands (regions, but not of barriers), by name, in order
    tiles: Mapping[str, Region] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        # the verifier rejects a name without a record
        record, given = TILE_OPERATIONS.get(self.name), self.operands
        named = () if record is None else record.tiles
        tiles = {n: o for n, k in named if k < len(given) and isinstance(o := given[k], Region)}
        object.__setattr__(self, "record", record)
        object.__setattr__(self, "tiles", tiles)

    def operand(self, name: str) -> Region | Expr | None:
        """Return the named operand, or None if it is omitted."""
        position = self.record.position(name)
        return self.operands[position] if position < len(self.operands) else None

    def region(self, name: str) -> Region:
        """Return the named operand, which must be a region."""
        tile = self.tiles.get(name)
        if tile is not None:
            return tile
        operand = self.operand(name)
        assert isinstance(operand, Region), f"{name} of {self.name} isn't a region"
        return operand

    @property
    def index(self) -> Region | Expr | None:
        """The operand that positions the gathered region, or None."""
        return self.operand(INDEX.name) if INDEX.name in self.record.positions else None

    @property
    def gathered(self) -> Region | None:
        """The gathered region, or None."""
        return next((o for o in self.tiles.values() if o.gathered is not None), None)

    def value(self, name: str) -> Expr | None:
        """Return the named operand, which must be a scalar, or None if it is omitted."""
        operand = self.operand(name)
        assert not isinstance(operand, Region), f"{name} of {self.name} isn't a scalar"
        return operand

    @property
    def given(self) -> tuple[Region | Expr, ...]:
        """The operands that are present."""
        return tuple([o for o in self.operands if o is not None])

    @property
    def written(self) -> tuple[Region, ...]:
        """The regions that the operation writes."""
        pairs = zip(self.operands, self.record.operands, strict=False)
        return tuple([o for o, rule in pairs if rule.written and isinstance(o, Region)])

    @property
    def read(self) -> tuple[Region, ...]:
        """The regions that the operation may read, including those that it updates."""
        return tuple([region for region, cond in self._reads() if cond != FALSE])

    @property
    def surely_read(self) -> tuple[Region, ...]:
        """The regions that the operation always reads."""
        return tuple([region for region, cond in self._reads() if cond == TRUE])

    def _reads(self) -> list[tuple[Region, Expr]]:
        """Return the regions among the operands that may be read, each with the condition under which it is read."""
        return [
            (o, self.condition(rule.read_where) if rule.read_where else TRUE)
            for o, rule in zip(self.operands, self.record.operands, strict=False)
            if rule.read and isinstance(o, Region)
        ]

    def condition(self, name: str) -> Expr:
        """Return the named operand, a condition, or `TRUE` if it is omitted."""
        value = self.value(name)
        return TRUE if value is None else value

    @property
    def options(self) -> tuple[str, ...]:
        """The names of the optional operands that are present."""
        given = self.operands
        if len(given) <= self.record.required:
            return ()
        return tuple([n for n, k in self.record.options if k < len(given) and given[k] is not None])

    @property
    def elements(self) -> dict[str, Region | Expr]:
        """The tiles and scalars among the operands, without conditions and barriers, by name, in order."""
        given = self.operands
        return {n: o for n, k in self.record.elements if k < len(given) and (o := given[k]) is not None}

    @property
    def inputs(self) -> dict[str, Region | Expr]:
        """The members of `elements` that the operation doesn't write, by name, in order."""
        given = self.operands
        return {n: o for n, k in self.record.inputs if k < len(given) and (o := given[k]) is not None}

    @property
    def shapes(self) -> dict[str, tuple[int, ...] | None]:
        """The shape of each tile in `elements`, and None for each scalar, by name."""
        return {name: o.shape if isinstance(o, Region) else None for name, o in self.elements.items()}

    @property
    def dtypes(self) -> dict[str, DType]:
        """The types of the tiles and scalars in `elements`, by name."""
        return {name: o.dtype for name, o in self.elements.items()}

    def attr(self, name: str) -> AttributeValue:
        """Return the value of an attribute: its default if it isn't set, None without a default."""
        value = dict(self.attrs).get(name)
        return self.record.defaults.get(name) if value is None else value


@lean(frozen=True, slots=True)
class Move:
    """Moves one vector in one access: memory to registers, registers to memory, or registers to registers (lane level).

    predicate: the condition of the access. otherwise: the value of each destination register if the predicate is false;
    if None, the registers keep their values.
    order: one of `ORDERS["move"]`, for the memory access.
    cache: a cache hint for global memory, one of the choices of `ops.copies.CACHE`, or "".
    """

    dst: Vector
    src: Vector
    predicate: Expr | None = None
    otherwise: Expr | None = None
    order: str = ""
    cache: str = ""
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def memory(self) -> Vector:
        """The operand in memory, or the source if both are registers."""
        return self.src if self.dst.buffer.space == "local" else self.dst


@lean(frozen=True, slots=True)
class Descriptor:
    """The 64-bit descriptor by which tensor cores access a tile in shared memory (lane level).

    Its value is `constant`, which contains all other fields, plus bits 4 to 17 of the address of `place`, shifted to
    bit 0. In a cluster, the higher address bits contain the CTA's rank and would corrupt other fields.
    """

    place: Vector
    constant: int


#: an input of an instruction
Input = Expr | Vector | Descriptor


@lean(frozen=True, slots=True)
class Instruction:
    """One instruction from the instruction table (`tilejit.isa`), by name.

    Above lane level, instructions (such as `cp.async.wait` and `vote.any`) have only scalar inputs and no `outputs`.
    outputs: local vectors. inputs: scalars, descriptors, and vectors, whose address (shared, global, tmem) or registers
    (local) the instruction takes. Registers that are both read and written come first in outputs and in inputs.
    var: defined as the scalar result, or None.
    """

    name: str
    outputs: tuple[Vector, ...] = ()
    inputs: tuple[Input, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)
    var: Var | None = None

    @property
    def registers(self) -> tuple[Vector, ...]:
        """The registers among the inputs."""
        return tuple([x for x in self.inputs if isinstance(x, Vector) and x.buffer.space == "local"])

    @property
    def places(self) -> tuple[Vector, ...]:
        """The places among the inputs: registers, and memory whose address is taken."""
        places = [x.place if isinstance(x, Descriptor) else x for x in self.inputs]
        return tuple([place for place in places if isinstance(place, Vector)])


#: a statement without nested statements, after which (unless an `Assert` fails) control continues with the next
Simple = (
    Let | Declare | Assign | Alloc | BufferView | Store | Atomic | Sync | Arrive | WaitPhase | Expect | Assert | Print
    | Breakpoint | TileOp | Move | Instruction
)

#: a statement after which control doesn't reach the next one
Jump = Break | Continue | Return

Stmt = Simple | Jump | If | For | Loop


@lean(frozen=True, slots=True)
class Kernel:
    """A whole kernel, at any level."""

    name: str
    params: tuple[Param, ...]
    #: number of threads per CTA
    threads: int
    #: name of the target architecture
    target: str
    body: tuple[Stmt, ...]
    #: maximum number of registers per thread, if the user set one, else None
    max_registers: int | None = None
    #: CTAs per cluster in each dimension; None without clusters
    cluster: tuple[int, int, int] | None = None
    #: checked build: assertions are compiled in
    debug: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)
    #: all CTAs of a launch run at the same time, so that they may wait for each other
    cooperative: bool = False
    #: placement of shared and tmem buffers and of numbered barriers; empty until they are placed
    memory: tuple[MemoryPlacement, ...] = ()

