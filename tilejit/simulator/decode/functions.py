"""Linking of device functions into the kernel that calls them.

The linked kernel is one function without calls: its body contains the bodies of all functions that it may call, with
their registers renamed. A call is a jump, and a return is an indexed jump to the instruction after the call. Each call
site sets the callee's *link* register to the index of that instruction in the callee's table of returns.

Parameters, results and local variables of functions are in stack frames in local memory. `%fp` is the address of the
current function's frame:

    0                         results and parameters, in the order of the declaration
    after these               local variables, then registers that must survive a call (`Frame.saved`)
    Frame.size                the frame of the next callee; a caller stores arguments there, and loads results

Functions that can't call themselves have registers of their own, so that nothing is saved around their calls. A
function whose address is taken may be called by each indirect call with parameters of the same sizes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ...dataclass import dataclass, field, replace
from ...errors import UnsupportedInstructionError
from .blocks import live_after, liveness, split
from .control_flow import reached
from .ptx import NAME, Module, PtxFunction, PtxInstruction, Variable
from .roles import all_roles
from .statements import parse_kernel

#: functions that the simulator provides
BUILT_IN = frozenset({"vprintf", "__assertfail"})
#: bytes of local memory per thread for the frames of functions that may call themselves
STACK_BYTES = 1 << 13
STACK = "__stack"
_PLACE = re.compile(r"\[\s*([%\w$.@]+)\s*(?:\+\s*(\d+))?\s*\]")
_NAMES = re.compile(r"[%\w$.@]+")
_PARAM = re.compile(r"\.param(?:::\w+)?")


def align(offset: int, to: int) -> int:
    return -(-offset // to) * to


@dataclass(slots=True)
class Frame:
    """The layout of a function's stack frame, in bytes from its start."""

    #: parameter, result or variable → its offset
    offsets: dict[str, int] = field(default_factory=dict)
    #: register that is saved around calls → its offset
    saved: dict[str, int] = field(default_factory=dict)
    size: int = 0

    def place(self, name: str, size: int, to: int) -> None:
        self.offsets[name] = align(self.size, to)
        self.size = self.offsets[name] + size


@dataclass(slots=True)
class CallSite:
    """A call: the index of the instruction in the caller's parsed body, and its operands."""

    caller: str
    pc: int
    #: the name of a function, or the register with its address
    target: str
    results: tuple[str, ...]
    arguments: tuple[str, ...]
    is_indirect: bool
    #: the sizes of results and parameters, which a callee must share
    sizes: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    #: its number, which names labels
    number: int = 0
    #: the index of the jump in the linked kernel's body
    linked_pc: int = 0


def call_operands(ins: PtxInstruction) -> tuple[tuple[str, ...], str, tuple[str, ...], str]:
    """Return the results, the target, the arguments and the prototype ("" for a direct call) of a call."""
    operands = list(ins.operands)
    results = tuple(_NAMES.findall(operands.pop(0))) if operands and operands[0][0] == "(" else ()
    target = operands.pop(0) if operands else ""
    arguments = tuple(_NAMES.findall(operands.pop(0))) if operands and operands[0][0] == "(" else ()
    return results, target, arguments, operands[0] if operands else ""


@dataclass(slots=True)
class Callee:
    """A function of the linked kernel."""

    function: PtxFunction
    #: the suffix of its names in the linked kernel, "" for the kernel itself
    suffix: str
    frame: Frame
    sites: list[CallSite]
    #: True if it may call itself, directly or through others
    is_recursive: bool = False
    #: the call sites to which it may return; the index of one is the value of the link register
    returns: list[int] = field(default_factory=list)

    @property
    def link(self) -> str:
        return f"%link{self.suffix}"

    def is_own(self, name: str) -> bool:
        """True for names that are local to the function."""
        f = self.function
        return any(name in names for names in (f.registers, f.call_params, f.labels, f.branch_tables, f.variables))

    def place(self, name: str) -> int | None:
        """Return the offset from the frame's start of a parameter, a variable or a parameter of a call; None otherwise.

        Parameters of calls of functions that the simulator provides aren't in the frame.
        """
        return self.frame.offsets.get(name)


@dataclass(frozen=True, slots=True)
class Linked:
    """The functions of a linked kernel, for messages about its stack."""

    callees: dict[str, Callee]
    sites: tuple[CallSite, ...]
    #: the offset in the stack up to which a frame may begin
    last_frame: int

    def chain(self, site: int, link: int, frame: int, read: Callable[[int], int]) -> list[int]:
        """Return the numbers of the calls that led to a call, this one first.

        link, frame: the link register and the frame's address of the function with call site `site`.
        read: an address in local memory → the four bytes there.
        """
        result = [site]
        while caller := self.callees[self.sites[result[-1]].caller]:
            if not caller.suffix:
                break
            result.append(caller.returns[link])
            outer = self.callees[self.sites[result[-1]].caller]
            frame -= outer.frame.size
            if outer.link not in outer.frame.saved:
                break
            link = read(frame + outer.frame.saved[outer.link])
        return result


def load_kernel(module: Module, name: str) -> PtxFunction:
    """Parse a kernel, and link the functions that it may call; raise UnsupportedInstructionError if that fails."""
    kernel = parse_kernel(module, module.kernel(name))
    if not any(is_call(ins) for ins in kernel.body):
        return kernel
    return _Linker(module, kernel).linked()


def is_call(ins: PtxInstruction) -> bool:
    return ins.root == "call" and call_operands(ins)[1] not in BUILT_IN


class _Linker:
    def __init__(self, module: Module, kernel: PtxFunction) -> None:
        self.module = module
        self.sites: list[CallSite] = []
        self.callees: dict[str, Callee] = {}
        self.taken = {symbol.name for v in module.variables.values() for symbol in v.symbols} & set(module.functions)
        self.kernel = kernel
        self.result = PtxFunction(
            kernel.name, kernel.params, registers={"%fp": 64}, variables=dict(kernel.variables), bounds=kernel.bounds
        )
        self.out, self.labels = self.result.body, self.result.labels
        self.collect(kernel)

    def refuse(self, what: str, ins: PtxInstruction) -> UnsupportedInstructionError:
        return self.module.source.refusal(what, ins.line)

    def collect(self, kernel: PtxFunction) -> None:
        """Parse all functions that may be called, and find out which may call themselves."""
        left = [kernel]
        while left:
            function = left.pop()
            self.enter(function)
            for name in {x for ins in function.body for x in ins.names()} & set(self.module.functions):
                if any(ins.root != "call" and name in ins.names() for ins in function.body):
                    self.taken.add(name)
            wanted = {site.target for site in self.sites if not site.is_indirect}
            if any(site.is_indirect for site in self.sites):
                wanted |= {name for name in self.taken if name in self.module.texts}
            known = {*self.callees, *(f.name for f in left)}
            left.extend(parse_kernel(self.module, self.module.texts[name]) for name in sorted(wanted - known))
        self.edges = {name: [t for site in x.sites for t in self.targets(site)] for name, x in self.callees.items()}
        for name, callee in self.callees.items():
            callee.is_recursive = name in reached(self.edges[name], self.edges)
        # an indirect call's index is the same for all functions that it may call
        for site in sorted(self.sites, key=lambda x: not x.is_indirect):
            for name in self.targets(site):
                self.callees[name].returns.append(site.number)
        for callee in self.callees.values():
            self.lay_out(callee)

    def enter(self, function: PtxFunction) -> None:
        suffix = f"@f{len(self.callees)}" if self.callees else ""
        callee = self.callees[function.name] = Callee(function, suffix, Frame(), [])
        for pc, ins in enumerate(function.body):
            if not is_call(ins):
                continue
            results, target, arguments, prototype = call_operands(ins)
            unknown = [x for x in (*results, *arguments) if x not in function.call_params]
            if unknown or not target:
                raise self.refuse("cannot parse this call" if not unknown else f"{unknown[0]} is not declared", ins)
            if not prototype and target not in self.module.texts:
                raise self.refuse(f"call of {target}, which the PTX doesn't define", ins)
            result_sizes, sizes = (
                tuple(function.call_params[x].size_bytes for x in each) for each in (results, arguments)
            )
            site = CallSite(
                function.name, pc, target, results, arguments, bool(prototype), (result_sizes, sizes), len(self.sites)
            )
            self.sites.append(site)
            callee.sites.append(site)

    def targets(self, site: CallSite) -> list[str]:
        """Return the functions that a call may reach."""
        if not site.is_indirect:
            return [site.target]
        texts = self.module.texts
        fitting = [x for x in sorted(self.taken) if x in texts and texts[x].sizes == site.sizes]
        if not fitting:
            ins = self.callees[site.caller].function.body[site.pc]
            raise self.refuse("no function whose address is taken has parameters of these sizes", ins)
        return fitting

    def lay_out(self, callee: Callee) -> None:
        """Place results, parameters, variables and saved registers in the frame."""
        frame, function = callee.frame, callee.function
        if callee.suffix:
            for x in (*function.results, *function.params):
                frame.place(x.name, x.size_bytes, x.align)
            for v in function.variables.values():
                if v.space == "local":
                    frame.place(v.name, v.size_bytes, v.align)
        if callee.is_recursive:
            names = {x for site in callee.sites for x in self.saved(callee, site)}
            for name in sorted(names):
                size = max(self.bits(callee, name) // 8, 4)
                frame.saved[name] = align(frame.size, size)
                frame.size = frame.saved[name] + size
        frame.size = align(frame.size, 16)
        for site in callee.sites:
            outer = Frame(size=frame.size)
            for name in (*site.results, *site.arguments):
                v = function.call_params[name]
                outer.place(name, v.size_bytes, v.align)
            frame.offsets.update(outer.offsets)

    def bits(self, callee: Callee, name: str) -> int:
        return 32 if name == callee.link else callee.function.registers[name]

    def saved(self, callee: Callee, site: CallSite) -> list[str]:
        """Return the registers of a function that must survive a call."""
        if callee.function.name not in reached(self.targets(site), self.edges):
            return []
        return [*sorted(_live_after_call(callee.function, site.pc)), callee.link]

    def linked(self) -> PtxFunction:
        kernel, result = self.kernel, self.result
        self.out.append(replace(kernel.body[0], root="bra", suffix="", operands=("%entry",), guard=None))
        # functions come first, because the scheduler prefers blocks in program order: callers then wait for all callees
        for callee in sorted(self.callees.values(), key=lambda x: not x.suffix):
            function, suffix = callee.function, callee.suffix
            result.registers.update({name + suffix: bits for name, bits in function.registers.items()})
            result.call_params.update({name + suffix: v for name, v in function.call_params.items()})
            result.undefined.update(x + suffix for x in function.undefined)
            for v in function.variables.values() if suffix else ():
                if v.space != "local":
                    result.variables[v.name + suffix] = replace(v, name=v.name + suffix)
            result.registers[callee.link] = 32
            self.write(callee)
        # room for the callee, for functions that it calls and that don't call themselves, and for parameters
        room = 2 * sum(x.frame.size for x in self.callees.values())
        size = self.depth(kernel.name) + room
        result.variables[STACK] = Variable(STACK, "local", size, 16)
        result.linked = Linked(self.callees, tuple(self.sites), size - room)
        return result

    def depth(self, name: str) -> int:
        """Return the bytes of stack that a function needs, with those that it calls."""
        callee = self.callees[name]
        if callee.is_recursive:
            return STACK_BYTES
        inner = [self.depth(t) for site in callee.sites for t in self.targets(site)]
        return callee.frame.size + max(inner, default=0)

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
                self.call(callee, sites[pc], ins)
            elif suffix and ins.root == "ret":
                skip = self.jump_over(ins, suffix)
                self.emit(ins, "brx", ".idx", callee.link, f"%returns{suffix}")
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
            self.emit(function.body[-1], "brx", ".idx", callee.link, f"%returns{suffix}")
            tables[f"%returns{suffix}"] = tuple(f"%after{i}" for i in callee.returns)

    def emit(self, like: PtxInstruction, root: str, suffix: str, *operands: str) -> None:
        self.out.append(PtxInstruction(root, suffix, operands, like.line, like.loc))

    def jump_over(self, ins: PtxInstruction, suffix: str) -> str:
        """Return a new label; if `ins` has a predicate, emit a jump to it for the lanes that don't execute `ins`."""
        skip = f"%skip{len(self.out)}"
        if ins.guard:
            guard, negated = ins.guard + suffix, not ins.guard_negated
            self.out.append(PtxInstruction("bra", "", (skip,), ins.line, ins.loc, guard, negated))
        return skip

    def call(self, callee: Callee, site: CallSite, ins: PtxInstruction) -> None:
        """Emit a call: save registers, set the link register, jump, and restore them at the place of return."""
        skip = self.jump_over(ins, callee.suffix)
        targets = [self.callees[name] for name in self.targets(site)]
        saved = self.saved(callee, site)
        if any(x.is_recursive for x in targets):
            self.emit(ins, "call", ".%stack", "[%fp]", callee.link, str(site.number), str(callee.frame.size))
        for name in saved:
            self.move(callee, name, ins, "st")
        if site.is_indirect:
            self.result.registers["%callee"] = 32
            names = ", ".join(x.function.name for x in targets)
            self.emit(ins, "call", ".%index", "%callee", site.target + callee.suffix, f"({names})")
            self.result.branch_tables[f"%callees{site.number}"] = tuple(f"%enter{x.suffix}" for x in targets)
        self.emit(ins, "add", ".u64", "%fp", "%fp", str(callee.frame.size))
        site.linked_pc = len(self.out)
        for x in targets:
            self.emit(ins, "mov", ".u32", x.link, str(x.returns.index(site.number)))
        if site.is_indirect:
            self.emit(ins, "brx", ".idx", "%callee", f"%callees{site.number}")
        else:
            self.emit(ins, "bra", "", f"%enter{targets[0].suffix}")
        self.labels[f"%after{site.number}"] = len(self.out)
        self.emit(ins, "sub", ".u64", "%fp", "%fp", str(callee.frame.size))
        for name in saved:
            self.move(callee, name, ins, "ld")
        self.labels[skip] = len(self.out)

    def move(self, callee: Callee, name: str, ins: PtxInstruction, root: str) -> None:
        """Emit a store or load of a register that is saved in the frame."""
        bits = self.bits(callee, name)
        register = name if name == callee.link else name + callee.suffix
        place = f"[%fp+{callee.frame.saved[name]}]"
        through = register
        if bits == 1:
            # predicates are saved as 0 or 1
            bits, through = 32, "%saved"
            self.result.registers[through] = bits
        if root == "st" and through != register:
            self.emit(ins, "selp", ".b32", through, "1", "0", register)
        operands = (place, through) if root == "st" else (through, place)
        self.emit(ins, root, f".local.b{bits}", *operands)
        if root == "ld" and through != register:
            self.emit(ins, "setp", ".ne.b32", register, through, "0")

    def copy(self, callee: Callee, ins: PtxInstruction) -> None:
        """Append an instruction of a function, with its names in the linked kernel and its places in the frame."""
        suffix, modifiers = callee.suffix, ins.suffix
        operands: list[str] = []
        for operand in ins.operands:
            place = _PLACE.fullmatch(operand)
            at = callee.place(place[1] if place else operand)
            if at is not None and place:
                modifiers = _PARAM.sub(".local", modifiers)
                operand = f"[%fp+{at + int(place[2] or 0)}]"
            elif at is not None:
                # the address of a variable, or of a parameter
                self.result.registers["%place"] = 64
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

    def before(pcs: Sequence[int], live: int) -> int:
        for x in (roles[pc] for pc in reversed(pcs)):
            for name in x.writes:
                live &= ~of(name)
            for name in (*x.reads, *x.addresses, *x.updates):
                live |= of(name)
        return live

    def of(name: str) -> int:
        return 1 << number[name] if name in number else 0

    uses = [before(block.pcs, of(block.predicate)) for block in blocks]
    defs = [sum({of(name) for pc in block.pcs for name in roles[pc].writes}) for block in blocks]
    live = liveness(blocks, uses, defs)
    block = next(x for x in blocks if pc in x.pcs)
    after = block.pcs[block.pcs.index(pc) + 1 :]
    bits = before(after, live_after(block, live) | of(block.predicate))
    return {name for name, i in number.items() if bits >> i & 1}
