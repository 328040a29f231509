"""Emission of a basic block's Python source: registers become local variables, and instructions become statements.

Within a block, a register's value is kept in each dtype of its width in which it has been accessed since its last write
(its *views*), so that a `.b32` register that holds a float is not reinterpreted between float instructions. Between
blocks it has its *home* dtype, usually that of the first access.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NoReturn

from ...dataclass import dataclass
from .names import DTYPES, PTX_DTYPE, SIZE, SPECIAL, KernelNames
from .ptx import Module, PtxInstruction, parse_number, vector


@dataclass(frozen=True, slots=True)
class Touched:
    """The registers of wgmma products that a sequence of other instructions in a block accesses."""

    #: rows in the tables of `machine.wgmma.ProductRegisters`
    read: tuple[int, ...]
    wrote: tuple[int, ...]
    #: the index of the first instruction that reads each row of `read`, then of the first that writes each of `wrote`
    at: tuple[int, ...]


# Above this number of generated lines, `drop_dead` applies: the values of shorter blocks usually fit in the cache.
LONG_BLOCK = 24
_LOCAL = re.compile(r"(?<![%'@])\bv\d+\b")


class BlockWriter:
    """Collects the statements of one block; the functions of opcode entries call its methods."""

    def __init__(self, names: KernelNames, module: Module) -> None:
        self.names = names
        self.module = module
        self.lines: list[str] = []
        #: slot → dtype → variable
        self.views: dict[int, dict[str, str]] = {}
        #: variable → (vector variable of which it is an element, its index, the vector's length)
        self.parts: dict[str, tuple[str, int, int]] = {}
        #: expression, or tuple of the variables that hold a matrix's registers → the variable with its value
        self.computed: dict[str | tuple[str, ...], str] = {}
        self.inputs: dict[int, None] = {}
        self.written: dict[int, None] = {}
        self.count = 0
        self.ins: PtxInstruction
        #: the previous instruction, None at the start of the block
        self.before: PtxInstruction | None = None
        self.pc = -1
        self.highest = -1
        self.extra = "None"
        self.result_slot: int | None = None
        # register that holds D or A of a wgmma → index of the first other instruction to read it since the last wgmma
        self.product_reads: dict[str, int] = {}
        # such a register → index of the first other instruction to write it since the last wgmma
        self.product_writes: dict[str, int] = {}

    def fail(self, what: str) -> NoReturn:
        raise self.module.source.refusal(what, self.ins.line)

    def temp(self, expression: str) -> str:
        self.count += 1
        name = f"v{self.count}"
        self.lines.append(f" {name} = {expression}")
        return name

    def once(self, expression: str) -> str:
        """Return the variable with the value of an expression, which is emitted only once per block."""
        if expression not in self.computed:
            self.computed[expression] = self.temp(expression)
        return self.computed[expression]

    def stmt(self, text: str) -> None:
        self.lines.append(" " + text)

    def view_map(self, slot: int) -> dict[str, str]:
        views = self.views.get(slot)
        if views is None:
            self.inputs[slot] = None
            views = self.views[slot] = {self.names.home[slot]: f"r{slot}"}
        return views

    def read(self, name: str, dtype: str) -> str:
        """Emit checks of the read; return the variable that holds register `name` as `dtype`, truncated if wider."""
        names = self.names
        try:
            slot = names.slot(name)
        except KeyError:
            self.fail(f"{name} is neither declared nor a supported special register")
        if name in names.never_written and not self.may_be_undefined():
            self.stmt(f"S.report_register(0, {name!r}, {self.pc})")
        self.note_read(name, slot)
        bits = names.bits[slot]
        size = SIZE[dtype]
        if (dtype == "p") != (bits == 1) or 8 * size > max(bits, 8):
            needed = f"width {8 * size}" if dtype != "p" else "a predicate"
            self.fail(f"register {name} has width {bits}; the operand needs {needed}")
        full = dtype if 8 * size == bits or bits == 1 else f"u{bits // 8}"
        if not names.home[slot]:
            names.home[slot] = full
        views = self.views.get(slot) or self.view_map(slot)
        if dtype in views:
            return views[dtype]
        if full not in views:
            views[full] = self.temp(f"{next(iter(views.values()))}.view({full})")
        if full != dtype:
            tail = f".view({dtype})" if dtype[0] == "f" else ""
            return self.temp(f"{views[full]}.astype({dtype if not tail else f'u{size}'}){tail}")
        return views[full]

    def may_be_undefined(self) -> bool:
        """True if LLVM may leave operands of this instruction undefined, such as unused elements of a vector."""
        root = self.ins.root
        return root in ("mov", "selp", "prmt", "bfi") or (root == "st" and ".v" in self.ins.suffix)

    def is_register(self, operand: str) -> bool:
        return operand in self.names.register_bits or operand in SPECIAL

    def source(self, operand: str, dtype: str, ptx_type: str = "") -> str:
        """Return the variable that holds a source operand: a register, negated predicate, literal or symbol address."""
        if not operand:
            self.fail("an operand is empty")
        first = operand[0]
        if first == "%" and "+" not in operand:
            return self.read(operand, dtype)
        if first in "0123456789-+":
            return self.names.constant(self.literal(operand, dtype, ptx_type), dtype)
        if first == "!" and dtype == "p":
            return self.temp(f"not_({self.read(operand[1:].strip(), 'p')})")
        if operand in self.names.register_bits:
            return self.read(operand, dtype)
        constant = self.names.constant(self.symbol(operand), dtype)
        is_own = operand.partition("+")[0].strip() in self.names.shared
        return self.once(f"S.clusters.own({constant})") if is_own else constant

    def literal(self, operand: str, dtype: str, ptx_type: str) -> int:
        try:
            if dtype == "p":
                return int(parse_number(operand) != 0)
            return parse_number(operand, ptx_type or f"{'f' if dtype[0] == 'f' else 'b'}{8 * SIZE[dtype]}")
        except ValueError:
            self.fail(f"cannot parse literal {operand!r}")

    def symbol(self, operand: str) -> int:
        name, _, offset = (x.strip() for x in operand.partition("+"))
        if name not in self.names.addresses:
            self.fail(f"{name} is not declared")
        return self.names.addresses[name] + (parse_number(offset) if offset else 0)

    def src(self, index: int, dtype: str, ptx_type: str = "") -> str:
        if index >= len(self.ins.operands):
            self.fail("an operand is missing")
        self.highest = max(self.highest, index)
        return self.source(self.ins.operands[index], dtype, ptx_type)

    def sources(self, operands: Iterable[str], dtype: str) -> str:
        """Return a tuple expression of source operands."""
        return f"({', '.join(self.source(x, dtype) for x in operands)},)"

    def vector(self, operand: str, count: int) -> list[str]:
        """Return the elements of `{a, b}`, or the operand alone; fail unless there are `count` of them."""
        elements = vector(operand)
        if len(elements) != count:
            self.fail(f"expected a vector of length {count}, got {len(elements)}")
        return elements

    def exactly(self, count: int) -> tuple[str, ...]:
        if len(self.ins.operands) != count:
            self.fail(f"the number of operands must be {count}, got {len(self.ins.operands)}")
        return self.ins.operands

    def begin(self, ins: PtxInstruction, pc: int) -> None:
        self.before = self.ins if pc == self.pc + 1 and pc else None
        self.ins, self.pc, self.highest = ins, pc, -1
        if ins.root == "wgmma":
            self.emit_touched()

    def end(self) -> None:
        """Fail if operands follow the last one that `src` has read; do nothing if it has read none."""
        if 0 <= self.highest < len(self.ins.operands) - 1:
            got, opcode = len(self.ins.operands), self.ins.root + self.ins.suffix
            self.fail(f"got {got} operands, but {opcode} takes {self.highest + 1}")

    def either(self, unsigned: str, signed: str, *indices: int) -> str:
        """Return `signed` if an operand at `indices` is held as that dtype but not as `unsigned`, else `unsigned`."""
        for i in indices:
            dtypes = self.dtypes_held(self.ins.operands[i])
            if signed in dtypes and unsigned not in dtypes:
                return signed
        return unsigned

    def dtypes_held(self, operand: str) -> Collection[str]:
        """Return the dtypes of a register's views, or its home dtype if it has none yet; nothing if it has no slot."""
        slot = self.names.slots.get(operand)
        if slot is None:
            return ()
        views = self.views.get(slot)
        return (self.names.home[slot],) if views is None else views

    def dst(self, dtype: str, expression: str) -> None:
        """Assign to the first operand. A narrower value is sign-extended if it is signed, else zero-extended."""
        self.write(self.ins.operands[0], dtype, expression)

    def write(self, name: str, dtype: str, expression: str) -> None:
        if name == "_":
            self.stmt(expression)
            return
        slot = self.destination(name)
        bits = self.names.bits[slot]
        size = 8 * SIZE[dtype]
        if (dtype == "p") != (bits == 1) or (dtype != "p" and size > bits):
            self.fail(f"register {name} has width {bits}; the result has width {size if dtype != 'p' else 1}")
        if dtype != "p" and size < bits:
            if dtype[0] == "f":
                expression, dtype = f"({expression}).view(u{size // 8})", f"u{size // 8}"
            wide = f"{'i' if dtype[0] == 'i' else 'u'}{bits // 8}"
            expression, dtype = f"({expression}).astype({wide})", wide
        self.views[slot] = {dtype: expression if expression.isidentifier() else self.temp(expression)}
        self.mark(slot, name)
        if not self.names.home[slot]:
            self.names.home[slot] = dtype

    def write_each(self, names: Iterable[str], dtypes: str | Sequence[str], values: str) -> None:
        """Assign the elements of the variable `values` to registers. dtypes: one for all, or one per element."""
        for i, name in enumerate(names):
            if name != "_":
                self.write(name, dtypes if isinstance(dtypes, str) else dtypes[i], f"{values}[{i}]")

    def write_part(self, name: str, dtype: str, whole: str, parts: str, index: int, count: int) -> None:
        """Assign element `index` of `whole`, whose elements are in `parts`, and record its origin for `whole_of`."""
        self.write(name, dtype, f"{parts}[{index}]")
        variable = self.views[self.names.slots[name]].get(dtype)
        if variable is not None:
            self.parts[variable] = (whole, index, count)

    def whole_of(self, variables: list[str]) -> str | None:
        """Return the vector variable that has exactly these elements in this order, or None."""
        whole = self.parts.get(variables[0], ("", 0, 0))[0]
        every = all(self.parts.get(x) == (whole, i, len(variables)) for i, x in enumerate(variables))
        return whole if every else None

    def destination(self, name: str) -> int:
        names = self.names
        slot = names.slots.get(name)
        if slot is None:
            if name in SPECIAL or name not in names.register_bits:
                self.fail(f"{name} is not a declared register")
            slot = names.slot(name)
        return slot

    def alias(self, name: str, source: str) -> None:
        """Emit a copy of register `source` to register `name`, of equal width; they then share their views."""
        target = self.destination(name)
        origin = self.names.slot(source)
        self.note_read(source, origin)
        if not self.names.home[origin]:
            self.names.home[origin] = f"u{self.names.bits[origin] // 8}"
        self.views[target] = self.view_map(origin)
        if source in self.names.maybe_undefined and name in self.names.maybe_undefined:
            self.write(self.define_flag(name), "p", self.read(self.define_flag(source), "p"))
            self.written[target] = None
        else:
            self.mark(target, name)
        if not self.names.home[target]:
            self.names.home[target] = self.names.home[origin]

    def set_constant(self, name: str, bits: int, dtype: str) -> None:
        """Emit the assignment of a constant to a register, without setting the register's home dtype."""
        slot = self.destination(name)
        home = self.names.home[slot]
        dtype = home if home and SIZE[home] == SIZE[dtype] else dtype
        self.views[slot] = {dtype: self.names.constant(bits, dtype)}
        self.mark(slot, name)

    def mark(self, slot: int, name: str) -> None:
        self.written[slot] = None
        if name in self.names.loaded_later:
            self.stmt(f"S.tmem.touch({name!r}, {self.pc}, 'writes')")
        if name in self.names.product_rows:
            self.touch_product(self.product_writes, name)
        if name in self.names.maybe_undefined:
            self.set_constant(self.define_flag(name), 1, "p")

    def touch_product(self, accesses: dict[str, int], name: str) -> None:
        if self.ins.root != "wgmma":
            accesses.setdefault(name, self.pc)

    def emit_touched(self) -> None:
        """If registers of products were accessed since the last wgmma, emit a call that reports this to the machine."""
        if not (self.product_reads or self.product_writes):
            return
        rows = self.names.product_rows
        read, wrote = ([rows[x] for x in names] for names in (self.product_reads, self.product_writes))
        at = [*self.product_reads.values(), *self.product_writes.values()]
        self.stmt(f"S.products.touched({self.names.value(Touched(tuple(read), tuple(wrote), tuple(at)))})")
        self.product_reads, self.product_writes = {}, {}

    def param_slot(self, offset: int, dtype: str) -> int:
        name = f"%param:{offset}:{dtype}"
        names = self.names
        if name not in names.slots:
            names.register_bits[name] = 8 * SIZE[dtype]
            names.home[names.slot(name)] = dtype
            names.loaded_params.append((names.slots[name], DTYPES[dtype], offset))
        slot = names.slots[name]
        self.view_map(slot)
        return slot

    def barrier_result(self, name: str, dtype: str) -> None:
        """Declare a register that the machine writes when the block's barrier completes."""
        self.write(name, dtype, self.names.constant(0, dtype))
        self.result_slot = self.names.slots[name]

    def define_flag(self, name: str) -> str:
        """Declare and return a predicate register that is true in threads that have written register `name`."""
        flag = f"%defined:{name}"
        self.names.register_bits[flag] = 1
        return flag

    def note_read(self, name: str, slot: int) -> None:
        """Emit the checks of a read of a register that may be unwritten or still loading.

        If the register holds D or A of a wgmma, record the read, unless a wgmma reads it.
        """
        # once per block, and only before the block's first write of the register
        if name in self.names.skippable and slot not in self.written:
            self.once(f"S.skipped({self.read(self.define_flag(name), 'p')}, {name!r})")
        if name in self.names.loaded_later:
            self.stmt(f"S.tmem.touch({name!r}, {self.pc}, 'reads')")
        if name in self.names.product_rows:
            self.touch_product(self.product_reads, name)

    def check_defined(self, name: str) -> None:
        """If some path reads register `name` unwritten, emit a check that all executing threads have written it."""
        if name in self.names.maybe_undefined:
            self.stmt(f"S.check_defined({self.read(self.define_flag(name), 'p')}, {name!r}, {self.pc})")

    def finish(self, name: str, outputs: Iterable[int]) -> str:
        """Return the source of the block's function, `def name(S, inputs...)`, which returns (extra, outputs...)."""
        self.emit_touched()
        results = []
        for slot in outputs:
            home = self.names.home[slot]
            if not home:
                home = self.names.home[slot] = f"u{self.names.bits[slot] // 8}"
            views = self.views[slot]
            if home not in views:
                views[home] = self.temp(f"{next(iter(views.values()))}.view({home})")
            results.append(views[home])
        head = "".join(f", r{slot}" for slot in self.inputs)
        if len(self.lines) > LONG_BLOCK:
            self.drop_dead({*results, self.extra})
        body = "\n".join(self.lines)
        return f"def {name}(S{head}):\n{body}\n return ({self.extra}, {', '.join(results)})\n"

    def drop_dead(self, kept: set[str]) -> None:
        """Emit `del` after the last use of each variable that doesn't occur in `kept`.

        NumPy can then reuse memory that is in the cache.
        """
        last: dict[str, int] = {}
        for i, line in enumerate(self.lines):
            for name in _LOCAL.findall(line):
                last[name] = i
        for text in kept:
            for name in _LOCAL.findall(text):
                last.pop(name, None)
        dead: dict[int, list[str]] = {}
        for name, i in last.items():
            dead.setdefault(i, []).append(name)
        for i, names in dead.items():
            self.lines[i] += f"; del {', '.join(names)}"


#: named groups of an opcode's pattern → the strings that they match
Match = dict[str, str]
Entry = Callable[[BlockWriter, Match], None]


@dataclass(frozen=True, slots=True)
class Fidelity:
    """The accuracy of an instruction, relative to the PTX ISA."""

    #: "exact", "approximate" or "unsupported"
    kind: str = "exact"
    #: a note, such as the difference from the ISA or a bound on it; for unsupported instructions, the error message
    how: str = ""
    #: False if the race check ignores some of its memory accesses
    races: bool = True

    def __str__(self) -> str:
        text = f"{self.kind}: {self.how}" if self.how else self.kind
        return text if self.races else f"{text}; not checked for races"


#: (pattern of an opcode's modifiers, function that emits the instruction, its fidelity: exact by default)
Form = tuple[str, Entry] | tuple[str, Entry, Fidelity]

#: opcode → its forms
Entries = dict[str, tuple[Form, ...]]


def approximated(how: str, races: bool = True) -> Fidelity:
    return Fidelity("approximate", how, races)


def expression(result: str, text: str, *operands: str) -> Entry:
    """Return an entry that assigns the expression `text`, in which {0}, {1}, ... are the source operands.

    result, operands: dtypes, or names of groups of the pattern that match a PTX type. In `text`, {x} is group x of the
    pattern, {root} the opcode, and {dtype} the dtype of the result.
    """

    def emit(e: BlockWriter, m: Match) -> None:
        target, *sources = (PTX_DTYPE[m[x]] if x in m else x for x in (result, *operands))
        values = [e.src(i, dtype) for i, dtype in enumerate(sources, 1)]
        e.dst(target, text.format(*values, root=e.ins.root, dtype=target, **m))

    return emit


def nothing(e: BlockWriter, m: Match) -> None:
    """Emit nothing. This is for jumps, which end a block, and for instructions without effect on results."""


def statement(text: str) -> Entry:
    """Return an entry for an opcode without operands; it emits `text`: {pc} is the instruction's index, {x} group x."""

    def emit(e: BlockWriter, m: Match) -> None:
        e.exactly(0)
        e.stmt(text.format(pc=e.pc, **m))

    return emit


def flags(m: Match, *groups: str) -> str:
    """Return a tuple expression of the names of those `groups` of a pattern that match."""
    return repr(tuple(x for x in groups if m.get(x)))


def paired(operand: str) -> list[str]:
    """Return the elements of `p|q`, or the operand alone."""
    return [x.strip() for x in operand.split("|")]
