"""Linking of device functions into the kernel that calls them.

The linked kernel is one function without calls: its body contains the bodies of all functions that it may call, with
their registers renamed. Calls have numbers. A call is a jump, after it has set the callee's *link* register to its
number; a return is a jump, indexed by the link register, to the instruction after the call.

Parameters, results and local variables of functions are in stack frames in local memory. `%fp` is the address of the
current function's frame:

    0                         results and parameters, in the order of the declaration
    after these               local variables, then registers that must survive a call (`Callee.saved`)
    Callee.size               the frame of the next callee; a caller stores arguments there, and loads results

Functions that can't call themselves have registers of their own, so that nothing is saved around their calls. A
function whose address is taken may be called by each indirect call with parameters of the same sizes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from ...dataclass import dataclass, field, replace
from ...errors import UnsupportedInstructionError
from .blocks import live_after, liveness, split
from .control_flow import reached
from .ptx import NAME, Module, PtxFunction, PtxInstruction, PtxParam, Variable, call_operands, parse_address
from .roles import all_roles
from .statements import parse_kernel

#: functions that the simulator provides
BUILT_IN = frozenset({"vprintf", "__assertfail", "__breakpoint"})
#: bytes of local memory per thread for the frames of functions that may call themselves
STACK_BYTES = 1 << 13
STACK, LINK = "__stack", "%link"
_PARAM = re.compile(r"\.param(?:::\w+)?")


def align(offset: int, to: int) -> int:
    return -(-offset // to) * to


@dataclass(slots=True, eq=False)
class Callee:
    """A function of the linked kernel, and the layout of its stack frame, in bytes from its start."""

    function: PtxFunction
    #: the suffix of its names in the linked kernel, "" for the kernel itself
    suffix: str
    #: its calls of other functions
    sites: list[CallSite] = field(default_factory=list)
    #: the calls to which it may return
    returns: list[int] = field(default_factory=list)
    #: True if it may call itself, directly or through others
    is_recursive: bool = False
    #: parameter, result, variable, or parameter of a call (unless the simulator provides the callee) → its offset
    offsets: dict[str, int] = field(default_factory=dict)
    #: register that is saved around calls → its offset
    saved: dict[str, int] = field(default_factory=dict)
    size: int = 0

    def place(self, offsets: dict[str, int], name: str, size: int, to: int) -> None:
        offsets[name] = align(self.size, to)
        self.size = offsets[name] + size

    def is_own(self, name: str) -> bool:
        """True for names that are local to the function."""
        f = self.function
        return any(name in names for names in (f.registers, f.call_params, f.labels, f.branch_tables, f.variables))


@dataclass(slots=True, eq=False)
class CallSite:
    """A call of a function that the simulator doesn't provide."""

    caller: Callee
    #: the index of the instruction in the caller's parsed body
    pc: int
    number: int
    #: the name of a function, or the register with its address
    target: str
    is_indirect: bool
    results: tuple[Variable, ...]
    arguments: tuple[Variable, ...]
    #: the functions that it may reach
    targets: list[Callee] = field(default_factory=list)
    #: the caller's registers that it saves
    saved: tuple[str, ...] = ()
    #: the index of the jump in the linked kernel's body
    linked_pc: int = 0


@dataclass(frozen=True, slots=True)
class Linked:
    """The calls in a linked kernel, for messages about its stack."""

    sites: list[CallSite]
    #: the offset in the stack up to which a frame may begin
    last_frame: int

    def chain(self, number: int, link: int, frame: int, read: Callable[[int], int]) -> list[CallSite]:
        """Return the calls that led to call `number`, this one first.

        link, frame: the link register and the frame's address of its caller.
        read: an address in local memory → the four bytes there.
        """
        result = [self.sites[number]]
        while result[-1].caller.suffix:
            result.append(self.sites[link])
            caller = result[-1].caller
            frame -= caller.size
            if LINK not in caller.saved:
                break
            link = read(frame + caller.saved[LINK])
        return result


def load_kernel(module: Module, name: str) -> PtxFunction:
    """Parse a kernel, and link the functions that it may call; raise UnsupportedInstructionError if that fails."""
    kernel = parse_kernel(module, module.kernel(name))
    return _Linker(module, kernel).linked() if any(is_call(ins) for ins in kernel.body) else kernel


def is_call(ins: PtxInstruction) -> bool:
    return ins.root == "call" and call_operands(ins)[1] not in BUILT_IN


def sizes(values: Iterable[PtxParam | Variable]) -> tuple[int, ...]:
    return tuple(x.size_bytes for x in values)


class _Linker:
    def __init__(self, module: Module, kernel: PtxFunction) -> None:
        self.module = module
        self.sites: list[CallSite] = []
        self.callees: dict[str, Callee] = {}
        #: names of functions whose addresses are taken
        self.taken = {symbol.name for v in module.variables.values() for symbol in v.symbols}
        self.kernel = kernel
        # %place: the address of a variable or parameter; %callee: the index of an indirect call's target; %saved: a
        # predicate, as 0 or 1
        self.result = PtxFunction(
            kernel.name, kernel.params, registers={"%fp": 64, "%place": 64, "%callee": 32, "%saved": 32},
            variables=dict(kernel.variables), bounds=kernel.bounds,
        )
        self.out, self.labels = self.result.body, self.result.labels
        self.enter(kernel)
        while missing := self.wanted() - self.callees.keys():
            self.enter(parse_kernel(module, module.texts[min(missing)]))
        for site in self.sites:
            site.targets = self.targets(site)
            for x in site.targets:
                x.returns.append(site.number)
        every = self.callees.items()
        self.edges = {name: [t.function.name for site in x.sites for t in site.targets] for name, x in every}
        for name, callee in every:
            callee.is_recursive = name in reached(self.edges[name], self.edges)
            self.lay_out(callee)

    def refuse(self, what: str, ins: PtxInstruction) -> UnsupportedInstructionError:
        return self.module.source.refusal(what, ins.line)

    def enter(self, function: PtxFunction) -> None:
        """Add a function and its calls."""
        callee = self.callees[function.name] = Callee(function, f"@f{len(self.callees)}" if self.callees else "")
        function.registers[LINK] = 32
        self.taken.update(x for ins in function.body if ins.root != "call" for x in ins.names())
        for pc, ins in enumerate(function.body):
            if not is_call(ins):
                continue
            results, target, arguments, prototype = call_operands(ins)
            unknown = [x for x in (*results, *arguments) if x not in function.call_params]
            if unknown or not target:
                raise self.refuse("cannot parse this call" if not unknown else f"{unknown[0]} is not declared", ins)
            if not prototype and target not in self.module.texts:
                raise self.refuse(f"call of {target}, which the PTX doesn't define", ins)
            given, passed = (tuple(function.call_params[x] for x in each) for each in (results, arguments))
            site = CallSite(callee, pc, len(self.sites), target, bool(prototype), given, passed)
            callee.sites.append(site)
            self.sites.append(site)

    def wanted(self) -> set[str]:
        """Return the names of the functions that may be called."""
        by_address = self.taken & self.module.texts.keys() if any(site.is_indirect for site in self.sites) else set()
        return by_address | {site.target for site in self.sites if not site.is_indirect}

    def targets(self, site: CallSite) -> list[Callee]:
        if not site.is_indirect:
            return [self.callees[site.target]]
        here = sizes(site.results), sizes(site.arguments)
        taken = [self.callees[name] for name in sorted(self.taken & self.callees.keys())]
        fitting = [x for x in taken if x.suffix and (sizes(x.function.results), sizes(x.function.params)) == here]
        if not fitting:
            ins = site.caller.function.body[site.pc]
            raise self.refuse("no function whose address is taken has parameters of these sizes", ins)
        return fitting

    def lay_out(self, callee: Callee) -> None:
        """Choose the registers that calls save, and lay out the frame."""
        function = callee.function
        if callee.suffix:
            for x in (*function.results, *function.params):
                callee.place(callee.offsets, x.name, x.size_bytes, x.align)
            for v in function.variables.values():
                if v.space == "local":
                    callee.place(callee.offsets, v.name, v.size_bytes, v.align)
        for site in callee.sites:
            if function.name in reached([x.function.name for x in site.targets], self.edges):
                site.saved = *sorted(_live_after_call(function, site.pc)), LINK
        for name in sorted({x for site in callee.sites for x in site.saved}):
            size = max(function.registers[name] // 8, 4)
            callee.place(callee.saved, name, size, size)
        callee.size = align(callee.size, 16)
        for site in callee.sites:
            end = callee.size
            for v in (*site.results, *site.arguments):
                callee.offsets[v.name] = align(end, v.align)
                end = callee.offsets[v.name] + v.size_bytes

    def linked(self) -> PtxFunction:
        kernel, result = self.kernel, self.result
        self.emit(kernel.body[0], "bra", "", "%entry")
        # functions come first, because the scheduler prefers blocks in program order: callers then wait for all callees
        for callee in sorted(self.callees.values(), key=lambda x: not x.suffix):
            function, suffix = callee.function, callee.suffix
            result.registers.update({name + suffix: bits for name, bits in function.registers.items()})
            result.call_params.update({name + suffix: v for name, v in function.call_params.items()})
            result.undefined.update(x + suffix for x in function.undefined)
            for v in function.variables.values() if suffix else ():
                if v.space != "local":
                    result.variables[v.name + suffix] = replace(v, name=v.name + suffix)
            self.write(callee)
        # room for the callee, for functions that it calls and that don't call themselves, and for parameters
        room = 2 * sum(x.size for x in self.callees.values())
        size = self.depth(self.callees[kernel.name]) + room
        result.variables[STACK] = Variable(STACK, "local", size, 16)
        result.linked = Linked(self.sites, size - room)
        return result

    def depth(self, callee: Callee) -> int:
        """Return the bytes of stack that a function needs, with those that it calls."""
        if callee.is_recursive:
            return STACK_BYTES
        return callee.size + max((self.depth(t) for site in callee.sites for t in site.targets), default=0)

    def write(self, callee: Callee) -> None:
        """Append a function to the linked body."""
        function, suffix = callee.function, callee.suffix
        self.labels[f"%enter{suffix}" if suffix else "%entry"] = len(self.out)
        if not suffix:
            self.emit(function.body[0], "mov", ".u64", "%fp", STACK)
        sites = {site.pc: site for site in callee.sites}
        at: list[int] = []
        for pc, ins in enumerate(function.body):
            at.append(len(self.out))
            if pc in sites:
                self.call(sites[pc], ins)
            elif suffix and ins.root == "ret":
                skip = self.jump_over(ins, suffix)
                self.emit(ins, "brx", ".idx", LINK + suffix, f"%returns{suffix}")
                self.labels[skip] = len(self.out)
            else:
                self.copy(callee, ins)
        at.append(len(self.out))
        for name, pc in function.labels.items():
            self.labels[name + suffix] = at[pc]
        tables = self.result.branch_tables
        tables.update({name + suffix: tuple(x + suffix for x in t) for name, t in function.branch_tables.items()})
        if suffix:
            # the end of a body is a return
            self.emit(function.body[-1], "brx", ".idx", LINK + suffix, f"%returns{suffix}")
            numbers = range(max(callee.returns, default=-1) + 1)
            after = (x if x in callee.returns else callee.returns[0] for x in numbers)
            tables[f"%returns{suffix}"] = tuple(f"%after{x}" for x in after)

    def emit(self, like: PtxInstruction, root: str, suffix: str, *operands: str) -> None:
        self.out.append(PtxInstruction(root, suffix, operands, like.line, like.loc))

    def jump_over(self, ins: PtxInstruction, suffix: str) -> str:
        """Return a new label; if `ins` has a predicate, emit a jump to it for the lanes that don't execute `ins`."""
        skip = f"%skip{len(self.out)}"
        if ins.guard:
            guard, negated = ins.guard + suffix, not ins.guard_negated
            self.out.append(PtxInstruction("bra", "", (skip,), ins.line, ins.loc, guard, negated))
        return skip

    def call(self, site: CallSite, ins: PtxInstruction) -> None:
        """Emit a call: save registers, set the link register, jump, and restore them at the place of return."""
        suffix, size, number = site.caller.suffix, str(site.caller.size), str(site.number)
        skip = self.jump_over(ins, suffix)
        if any(x.is_recursive for x in site.targets):
            self.emit(ins, "call", ".%stack", "[%fp]", LINK + suffix if suffix else "0", number, size)
        for name in site.saved:
            self.move(site.caller, name, ins, "st")
        if site.is_indirect:
            names = ", ".join(x.function.name for x in site.targets)
            self.emit(ins, "call", ".%index", "%callee", site.target + suffix, f"({names})")
            self.result.branch_tables[f"%callees{number}"] = tuple(f"%enter{x.suffix}" for x in site.targets)
        self.emit(ins, "add", ".u64", "%fp", "%fp", size)
        site.linked_pc = len(self.out)
        for x in site.targets:
            self.emit(ins, "mov", ".u32", LINK + x.suffix, number)
        if site.is_indirect:
            self.emit(ins, "brx", ".idx", "%callee", f"%callees{number}")
        else:
            self.emit(ins, "bra", "", f"%enter{site.targets[0].suffix}")
        self.labels[f"%after{number}"] = len(self.out)
        self.emit(ins, "sub", ".u64", "%fp", "%fp", size)
        for name in site.saved:
            self.move(site.caller, name, ins, "ld")
        self.labels[skip] = len(self.out)

    def move(self, callee: Callee, name: str, ins: PtxInstruction, root: str) -> None:
        """Emit a store or load of a register that is saved in the frame."""
        bits, register, place = callee.function.registers[name], name + callee.suffix, f"[%fp+{callee.saved[name]}]"
        value, kind = ("%saved", ".local.b32") if bits == 1 else (register, f".local.b{bits}")
        if root == "st":
            if bits == 1:
                self.emit(ins, "selp", ".b32", value, "1", "0", register)
            self.emit(ins, root, kind, place, value)
            return
        self.emit(ins, root, kind, value, place)
        if bits == 1:
            self.emit(ins, "setp", ".ne.b32", register, value, "0")

    def copy(self, callee: Callee, ins: PtxInstruction) -> None:
        """Append an instruction of a function, with its names in the linked kernel and its places in the frame."""
        suffix, modifiers = callee.suffix, ins.suffix
        operands: list[str] = []
        for operand in ins.operands:
            place = parse_address(operand)
            at = callee.offsets.get(place[0] if place else operand)
            if at is not None and place:
                modifiers = _PARAM.sub(".local", modifiers)
                operand = f"[%fp+{at + place[1]}]"
            elif at is not None:
                self.emit(ins, "add", ".u64", "%place", "%fp", str(at))
                operand = "%place"
            elif suffix:
                operand = NAME.sub(lambda m: m[0] + suffix if callee.is_own(m[0]) else m[0], operand)
            operands.append(operand)
        guard = ins.guard and ins.guard + suffix
        self.out.append(replace(ins, suffix=modifiers, operands=tuple(operands), guard=guard))


def _live_after_call(function: PtxFunction, pc: int) -> set[str]:
    """Return the registers of a function that are read after the instruction at `pc` before they are written."""
    blocks, roles = split(function), all_roles(function)
    number = {name: i for i, name in enumerate(function.registers)}

    def of(*names: str) -> int:
        return sum({1 << number[name] for name in names if name in number})

    def before(pcs: Sequence[int], live: int) -> int:
        for x in (roles[pc] for pc in reversed(pcs)):
            live = live & ~of(*x.writes) | of(*x.reads, *x.addresses, *x.updates)
        return live

    uses = [before(block.pcs, of(block.predicate)) for block in blocks]
    defs = [of(*(name for pc in block.pcs for name in roles[pc].writes)) for block in blocks]
    live = liveness(blocks, uses, defs)
    block = next(x for x in blocks if pc in x.pcs)
    after = block.pcs[block.pcs.index(pc) + 1 :]
    bits = before(after, live_after(block, live) | of(block.predicate))
    return {name for name, i in number.items() if bits >> i & 1}
