"""Parser of kernel bodies. Names that are declared in inner scopes are made unique in the kernel."""

from __future__ import annotations

import re

from ...dataclass import replace
from .parser import FILE, VARIABLE, variable
from .ptx import NAME, TYPE_BYTES, Cursor, KernelText, Loc, Module, PtxFunction, PtxInstruction, Variable

_STATEMENT = re.compile(
    r"(?:@(?P<neg>!?)\s*(?P<guard>[%\w$]+)\s+)?(?P<root>[a-z]\w*)(?P<suffix>(?:(?:\.|::)\w+)*)(?=[\s;])"
    r"\s*(?P<ops>(?!\s*:)[^;]*);"
    r"|(?P<label>[\w$%]+)\s*:(?!:)|(?P<open>\{)|(?P<close>\})|(?P<directive>\.\w+)|(?P<stray>;)"
)
_IMPLICIT = re.compile(r"//\s*implicit-def:\s*(%[\w$]+)")
_OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|\([^)]*\)|[^,\s]+(?:\s*\+\s*[^,\s]+)?")
_LOC = re.compile(
    r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)"
    r"(?:\s*,\s*function_name\s+[\w$.]+(?:\s*\+\s*\d+)?\s*,\s*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?"
)
_ASM = re.compile(r"//\s*begin inline asm.*?//\s*end inline asm", re.S)
_REG = re.compile(r"\.reg\s*\.(\w+)\s+([^;]*);")
_TARGETS = re.compile(r"\.branchtargets\s+([^;]*);")
_PROTOTYPE = re.compile(r"\.callprototype\s+[^;]*;")
_PRAGMA = re.compile(r'\.pragma\s+"[^"]*"\s*;')
_BRANCHES = frozenset({"bra", "brx"})


def parse_kernel(module: Module, kernel: KernelText) -> PtxFunction:
    """Parse the body of a kernel or function. raises: UnsupportedInstructionError for unknown syntax."""
    function = PtxFunction(kernel.name, kernel.params, bounds=kernel.bounds, results=kernel.results)
    _Body(module, function, kernel).parse()
    function.undefined.update(_IMPLICIT.findall(module.source.text, kernel.begin, kernel.end))
    return function


class _Scope:
    """The declarations between a pair of braces."""

    def __init__(self, first: int) -> None:
        #: index of its first instruction in the kernel's body
        self.first = first
        #: name as written → name that is unique in the kernel
        self.names: dict[str, str] = {}
        self.labels: dict[str, str] = {}
        self.tables: list[str] = []


class _Body(Cursor):
    def __init__(self, module: Module, function: PtxFunction, kernel: KernelText) -> None:
        super().__init__(module.source, kernel.begin)
        # Positions of `.loc`s to ignore: LLVM increments the line number for each line of inline assembly.
        self.wrong_locs = {
            match.start()
            for assembly in _ASM.finditer(module.source.text, kernel.begin, kernel.end)
            for match in _LOC.finditer(self.code, *assembly.span())
            if self.code[assembly.start() : match.start()].strip()
        }
        self.module = module
        self.function = function
        self.scopes = [_Scope(0)]
        self.renamed = False
        self.loc: Loc | None = None
        self.locations: dict[tuple[int, int, int], Loc] = {}
        self.serial = 0

    def parse(self) -> None:
        while True:
            match = _STATEMENT.match(self.code, self.skip())
            if match is None:
                raise self.refusal("cannot parse this statement", self.pos)
            kind = match.lastgroup
            if kind == "ops":
                self.instruction(match)
                self.pos = match.end()
            elif kind == "directive":
                self.directive()
            else:
                self.pos = match.end()
                if self.bracket_or_label(match, str(kind)):
                    return

    def bracket_or_label(self, match: re.Match[str], kind: str) -> bool:
        """Handle a brace, a label or a stray semicolon. Return True at the closing brace of the kernel."""
        if kind == "open":
            self.scopes.append(_Scope(len(self.function.body)))
        elif kind == "close":
            self.resolve_labels(self.scopes.pop())
            self.renamed = any(scope.names for scope in self.scopes)
            return not self.scopes
        elif kind == "label":
            self.label(match["label"], match.start())
        return False

    def label(self, name: str, pos: int) -> None:
        scope = self.scopes[-1]
        if name in scope.labels:
            raise self.refusal(f"label {name} is defined twice", pos)
        self.skip()
        if self.take(_PROTOTYPE):
            # a call's own parameters tell all that its prototype does
            return
        scope.labels[name] = unique = name if len(self.scopes) == 1 else self.unique(name)
        if targets := self.take(_TARGETS):
            self.function.branch_tables[unique] = tuple(x.strip() for x in targets[1].split(","))
            scope.tables.append(unique)
            return
        self.function.labels[unique] = len(self.function.body)

    def resolve_labels(self, scope: _Scope) -> None:
        """At the end of an inner scope, replace labels with their unique names in its branches and branch tables."""
        if not self.scopes:
            return
        # a table may also name labels of the scopes around it
        self.scopes[-1].tables.extend(scope.tables)
        if not scope.labels:
            return
        body = self.function.body
        for pc in range(scope.first, len(body)):
            if body[pc].root in _BRANCHES:
                body[pc] = replace(body[pc], operands=tuple(scope.labels.get(x, x) for x in body[pc].operands))
        tables = self.function.branch_tables
        for name in scope.tables:
            tables[name] = tuple(scope.labels.get(x, x) for x in tables[name])

    def instruction(self, match: re.Match[str]) -> None:
        neg, guard, root, suffix, ops = match.group("neg", "guard", "root", "suffix", "ops")
        if "{" in ops or "[" in ops or "(" in ops or "+" in ops:
            operands = tuple(_OPERAND.findall(ops))
        else:
            operands = tuple([x.strip() for x in ops.split(",")]) if ops else ()
        if self.renamed:
            operands = tuple(NAME.sub(self.rename, x) for x in operands)
            guard = NAME.sub(self.rename, guard) if guard else guard
        line = self.source.line_at(match.start("root"))
        self.function.body.append(PtxInstruction(root, suffix, operands, line, self.loc, guard, neg == "!"))

    def rename(self, match: re.Match[str]) -> str:
        name = match[0]
        for scope in reversed(self.scopes):
            if name in scope.names:
                return scope.names[name]
        return name

    def directive(self) -> None:
        if match := self.take(_LOC):
            self.location(match)
        elif match := self.take(_REG):
            self.registers(match)
        elif match := self.take(VARIABLE):
            self.variable(variable(self.source, match))
        elif match := self.take(FILE):
            self.module.files[int(match[1])] = match[2]
        elif not self.take(_PRAGMA):
            raise self.refusal("this directive is malformed or not supported", self.pos)

    def location(self, match: re.Match[str]) -> None:
        """Handle a `.loc`. If its caller is itself in an inlined function, an earlier `.loc` has the caller's caller.

        nvcc 13.5 omits `inlined_at` when it repeats a location, so the `inlined_at` of the earlier `.loc` is used.
        """
        if match.start() in self.wrong_locs:
            return
        file, line, column = (int(x) for x in match.groups()[:3])
        if match[4]:
            place = (int(match[4]), int(match[5]), int(match[6]))
            caller = self.locations.get(place) or Loc(*place)
            self.locations[file, line, column] = Loc(file, line, column, caller)
        self.loc = self.locations.setdefault((file, line, column), Loc(file, line, column))

    def variable(self, parsed: Variable) -> None:
        if parsed.space == "param":
            name = self.declare(parsed.name)
            self.function.call_params[name] = replace(parsed, name=name)
        else:
            name = self.declare(parsed.name, "")
            self.function.variables[name] = replace(parsed, name=name)

    def registers(self, match: re.Match[str]) -> None:
        if match[1] not in TYPE_BYTES:
            raise self.refusal(f"unknown register type .{match[1]}", match.start())
        bits = 8 * TYPE_BYTES[match[1]] or 1
        for item in (x.strip() for x in match[2].split(",")):
            many = re.fullmatch(r"([%\w$]+?)<(\d+)>", item)
            names = [f"{many[1]}{i}" for i in range(int(many[2]))] if many else [item]
            declared = self.function.registers if len(self.scopes) == 1 else self.scopes[-1].names
            for name in names:
                if name in declared:
                    raise self.refusal(f"{name} is declared twice in one scope", match.start())
                self.function.registers[self.declare(name)] = bits

    def declare(self, name: str, prefix: str = "%") -> str:
        """Declare a name in the current scope; return its unique name. prefix: for names without % in inner scopes."""
        if len(self.scopes) == 1:
            return name
        self.renamed = True
        self.scopes[-1].names[name] = unique = self.unique(name if name.startswith("%") else prefix + name)
        return unique

    def unique(self, name: str) -> str:
        self.serial += 1
        return f"{name}@{self.serial}"
