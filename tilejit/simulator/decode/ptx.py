"""PTX text → modules, functions, instructions. Strict: what it doesn't know is an error with its PTX line."""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from dataclasses import dataclass, field

from ...errors import UnsupportedInstructionError

Loc = tuple[int, int, int]

TYPE_BYTES = {
    "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2,
    "b32": 4, "u32": 4, "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4,
    "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16, "pred": 0,
}


@dataclass(frozen=True, slots=True)
class PtxInstruction:
    """One PTX instruction; `root` + `suffix` is the opcode with its modifiers.

    operands: their text, registers of inner scopes renamed so that names are unique in the function.
    line: in the PTX text, from 1.
    loc: (file, line, column) of the `.loc` in force, or None.
    """

    root: str
    suffix: str
    operands: tuple[str, ...]
    line: int
    loc: Loc | None
    guard: str | None = None
    guard_negated: bool = False


@dataclass(frozen=True, slots=True)
class Variable:
    """A named piece of memory: its state space, layout and initial bytes.

    symbols: (offset in bytes, name, generic) for initial values that are addresses.
    """

    name: str
    space: str
    size_bytes: int
    align: int
    data: bytes | None = None
    external: bool = False
    symbols: tuple[tuple[int, str, bool], ...] = ()


@dataclass(frozen=True, slots=True)
class PtxParam:
    """A kernel parameter: where it lies in the parameter space, in bytes."""

    name: str
    offset: int
    size_bytes: int


@dataclass(slots=True)
class PtxFunction:
    """A kernel: parameters, registers (name → bits, 1 for predicates), variables and code.

    body: instructions, with the labels that precede each position in `labels`.
    undefined: registers that LLVM marked as holding an undefined value on purpose.
    """

    name: str
    params: list[PtxParam]
    registers: dict[str, int] = field(default_factory=dict)
    call_params: dict[str, int] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    body: list[PtxInstruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    branch_tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    undefined: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Module:
    """A parsed PTX file."""

    text: str
    functions: dict[str, PtxFunction] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    externals: set[str] = field(default_factory=set)
    files: dict[int, str] = field(default_factory=dict)

    def line_text(self, line: int) -> str:
        lines = self.text.splitlines()
        return " ".join(lines[line - 1].split()) if 0 < line <= len(lines) else ""


_COMMENT = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/', re.S)
_IMPLICIT = re.compile(r"//\s*implicit-def:\s*(%[\w$]+)")
_SPACE = re.compile(r"\s*")
_STATEMENT = re.compile(
    r"(?:@(?P<neg>!?)\s*(?P<guard>[%\w$]+)\s+)?(?P<root>[a-z]\w*)(?P<suffix>[.\w:]*)(?=[\s;])\s*(?P<ops>[^;]*);"
    r"|(?P<label>[\w$%]+)\s*:(?!:)|(?P<open>\{)|(?P<close>\})|(?P<directive>\.\w+)|(?P<stray>;)"
)
_OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|\([^)]*\)|[^,\s]+(?:\s*\+\s*[^,\s]+)?")
_NAME = re.compile(r"[%$A-Za-z_][\w$]*")
_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"[^\n]*')
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)[^\n]*")
_REG = re.compile(r"\.reg\s+\.(\w+)\s+([^;]*);")
_VARIABLE = re.compile(
    r"(?P<external>\.extern\s+|\.visible\s+|\.weak\s+|\.common\s+)?\.(?P<space>global|const|shared|local|param)\s+"
    r"(?:\.align\s+(?P<align>\d+)\s+)?(?:\.(?P<vector>v[248])\s+)?\.(?P<type>\w+)\s+"
    r"(?P<name>[%\w$]+)\s*(?P<dims>(?:\[\s*\d*\s*\]\s*)*)(?:=\s*(?P<init>\{[^}]*\}|[^;{]+?)\s*)?;"
)
_ENTRY = re.compile(r"(?:\.(?:visible|weak)\s+)?\.entry\s+([\w$]+)\s*(?:\(([^)]*)\))?([^{;]*)\{")
_FUNC = re.compile(r"(?:\.(?:visible|extern|weak)\s+)*\.func\b")
_TARGETS = re.compile(r"\.branchtargets\s+([^;]*);")
_TUNING = re.compile(
    r"\s+|\.(?:maxntid|reqntid|reqnctapercluster)\s+\d+(?:\s*,\s*\d+)*"
    r"|\.(?:minnctapersm|maxnreg|maxclusterrank)\s+\d+|\.explicitcluster|\.noreturn|\.blocksareclusters"
    r'|\.pragma\s+"[^"]*"\s*;?'
)
_LINE_DIRECTIVE = re.compile(r"\.(?:version|target|address_size|section|pragma)\b[^\n]*")
_PARAM = re.compile(
    r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+"
    r"(?:\.ptr\s*(?:\.(?:global|const|shared|local)\s*)?(?:\.align\s+\d+\s*)?)?([\w$%]+)\s*(?:\[\s*(\d+)\s*\])?"
)


def parse(text: str) -> Module:
    """Parse a PTX file; raises UnsupportedInstructionError on the first thing that is not understood."""
    return _Parser(text).module_()


def parse_number(text: str, type_name: str = "b64") -> int:
    """The bits of a PTX literal read as `type_name`, as a non-negative integer."""
    bits = 8 * TYPE_BYTES.get(type_name, 8) or 1
    if text[:2] in ("0f", "0F"):
        value = int(text[2:], 16)
        return value if type_name != "f64" else _double_bits(struct.unpack("<f", value.to_bytes(4, "little"))[0])
    if text[:2] in ("0d", "0D"):
        value = int(text[2:], 16)
        if type_name != "f32":
            return value
        return _single_bits(struct.unpack("<d", value.to_bytes(8, "little"))[0])
    if type_name in ("f64", "f32") and re.fullmatch(r"-?\d+\.\d*(?:[eE][-+]?\d+)?", text):
        return _double_bits(float(text)) if type_name == "f64" else _single_bits(float(text))
    return _integer(text) & ((1 << bits) - 1)


def _integer(text: str) -> int:
    body = text.rstrip("U")
    negative = body.startswith("-")
    body = body.lstrip("-+")
    if body.startswith("0") and body[1:].isdigit():
        value = int(body, 8)
    else:
        value = int(body, 0)
    return -value if negative else value


def _double_bits(value: float) -> int:
    return int.from_bytes(struct.pack("<d", value), "little")


def _single_bits(value: float) -> int:
    return int.from_bytes(struct.pack("<f", value), "little")


class _Parser:
    def __init__(self, text: str) -> None:
        self.source = text
        self.text = _COMMENT.sub(_blank_comment, text)
        self.newlines = [match.start() for match in re.finditer("\n", text)]
        self.module = Module(text)
        self.pos = 0

    def line_at(self, pos: int) -> int:
        return bisect_right(self.newlines, pos - 1) + 1

    def fail(self, what: str, pos: int) -> UnsupportedInstructionError:
        line = self.line_at(pos)
        return UnsupportedInstructionError(f"{what}\n  PTX line {line}: {self.module.line_text(line)}")

    def skip(self) -> int:
        match = _SPACE.match(self.text, self.pos)
        self.pos = match.end() if match else self.pos
        return self.pos

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.text, self.pos)
        if match:
            self.pos = match.end()
        return match

    def module_(self) -> Module:
        while self.skip() < len(self.text):
            if not self.module_item():
                raise self.fail("this directive is not supported", self.pos)
        return self.module

    def module_item(self) -> bool:
        if match := self.take(_FILE):
            self.module.files[int(match[1])] = match[2]
            return True
        if self.take(_LINE_DIRECTIVE):
            return True
        if match := self.take(_ENTRY):
            self.entry(match)
            return True
        if _FUNC.match(self.text, self.pos):
            self.function_declaration()
            return True
        if match := self.take(_VARIABLE):
            variable = self.variable(match)
            self.module.variables[variable.name] = variable
            return True
        return False

    def function_declaration(self) -> None:
        """Accept a declaration such as vprintf's; a device function with a body is not supported."""
        start = self.pos
        end = min(i for i in (self.text.find(";", start), self.text.find("{", start), len(self.text)) if i >= 0)
        header = self.text[start:end]
        if self.text[end : end + 1] == "{":
            raise self.fail("device functions are not supported: inline them into the kernel", start)
        names = re.sub(r"\([^)]*\)", " ", header).split()
        self.module.externals.update(n for n in names if not n.startswith("."))
        self.pos = end + 1

    def variable(self, match: re.Match[str]) -> Variable:
        type_name = match["type"]
        if type_name not in TYPE_BYTES:
            raise self.fail(f"unknown type .{type_name}", match.start())
        unit = TYPE_BYTES[type_name] * int((match["vector"] or "v1")[1:])
        count = 1
        for dim in re.findall(r"\[\s*(\d*)\s*\]", match["dims"]):
            count *= int(dim or 0)
        symbols: list[tuple[int, str, bool]] = []
        data = self.initial(match, type_name, unit * count, symbols) if match["init"] else None
        external = (match["external"] or "").startswith(".extern")
        align = int(match["align"] or unit)
        return Variable(
            match["name"], match["space"], unit * count, align, data, external, tuple(symbols)
        )

    def initial(
        self, match: re.Match[str], type_name: str, size: int, symbols: list[tuple[int, str, bool]]
    ) -> bytes:
        width = TYPE_BYTES[type_name]
        out = bytearray(size)
        for i, item in enumerate(x.strip() for x in match["init"].strip("{} \n\t").split(",")):
            if not item:
                continue
            name = re.fullmatch(r"(generic\()?\s*([A-Za-z_$%][\w$]*)\s*\)?", item)
            if name and not re.match(r"0[fFdD]", item):
                symbols.append((i * width, name[2], name[1] is not None))
                continue
            try:
                value = parse_number(item, type_name)
            except ValueError:
                raise self.fail(f"initial value {item!r} is not understood", match.start()) from None
            out[i * width : (i + 1) * width] = value.to_bytes(width, "little")
        return bytes(out)

    def entry(self, match: re.Match[str]) -> None:
        if _TUNING.sub("", match[3]):
            raise self.fail(f"unknown directive {_TUNING.sub('', match[3])!r}", match.start(3))
        function = PtxFunction(match[1], self.params(match[2] or "", match.start()))
        self.module.functions[function.name] = function
        begin = self.pos
        _Body(self, function).parse()
        function.undefined.update(_IMPLICIT.findall(self.source, begin, self.pos))

    def params(self, text: str, pos: int) -> list[PtxParam]:
        params: list[PtxParam] = []
        offset = 0
        for item in (p.strip() for p in text.split(",")):
            if not item:
                continue
            match = _PARAM.fullmatch(item)
            if not match or match[2] not in TYPE_BYTES:
                raise self.fail(f"parameter {item!r} is not understood", pos)
            size = TYPE_BYTES[match[2]]
            align = int(match[1] or size)
            size *= int(match[4] or 1)
            offset = -(-offset // align) * align
            params.append(PtxParam(match[3], offset, size))
            offset += size
        return params


class _Body:
    """The statements between a kernel's braces."""

    def __init__(self, parser: _Parser, function: PtxFunction) -> None:
        self.parser = parser
        self.function = function
        self.scopes: list[dict[str, str]] = [{}]
        self.renamed = False
        self.loc: Loc | None = None
        self.serial = 0

    def parse(self) -> None:
        p = self.parser
        text = p.text
        match_statement = _STATEMENT.match
        skip = _SPACE.match
        while True:
            gap = skip(text, p.pos)
            p.pos = gap.end() if gap else p.pos
            match = match_statement(text, p.pos)
            if match is None:
                raise p.fail("this is not understood", p.pos)
            kind = match.lastgroup
            if kind == "ops":
                self.instruction(match)
                p.pos = match.end()
            elif kind == "directive":
                self.directive()
            else:
                p.pos = match.end()
                if self.bracket_or_label(match, str(kind)):
                    return

    def bracket_or_label(self, match: re.Match[str], kind: str) -> bool:
        """Handle braces and labels; true at the kernel's closing brace."""
        if kind == "open":
            self.scopes.append({})
        elif kind == "close":
            self.scopes.pop()
            self.renamed = any(self.scopes)
            return not self.scopes
        elif kind == "label":
            self.label(match["label"])
        return False

    def label(self, name: str) -> None:
        p = self.parser
        p.skip()
        if targets := p.take(_TARGETS):
            self.function.branch_tables[name] = tuple(x.strip() for x in targets[1].split(","))
            return
        name = self.scopes[-1].get(name, name) if len(self.scopes) > 1 else name
        if name in self.function.labels:
            if len(self.scopes) == 1:
                raise p.fail(f"label {name} is defined twice", p.pos)
            raise p.fail(f"label {name} of an inner scope clashes with another: make it unique", p.pos)
        self.function.labels[name] = len(self.function.body)

    def instruction(self, match: re.Match[str]) -> None:
        neg, guard, root, suffix, ops = match.group("neg", "guard", "root", "suffix", "ops")
        if "{" in ops or "[" in ops or "(" in ops or "+" in ops:
            operands = tuple(_OPERAND.findall(ops))
        else:
            operands = tuple([x.strip() for x in ops.split(",")]) if ops else ()
        if self.renamed:
            operands = tuple(_NAME.sub(self.rename, x) for x in operands)
            guard = _NAME.sub(self.rename, guard) if guard else guard
        line = bisect_right(self.parser.newlines, match.start("root") - 1) + 1
        self.function.body.append(
            PtxInstruction(root, suffix, operands, line, self.loc, guard, neg == "!")
        )

    def rename(self, match: re.Match[str]) -> str:
        name = match[0]
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name

    def directive(self) -> None:
        p = self.parser
        if match := p.take(_LOC):
            self.loc = (int(match[1]), int(match[2]), int(match[3]))
        elif match := p.take(_REG):
            self.registers(match)
        elif match := p.take(_VARIABLE):
            self.variable(p.variable(match))
        elif match := p.take(_FILE):
            p.module.files[int(match[1])] = match[2]
        elif not p.take(re.compile(r'\.pragma\s+"[^"]*"\s*;')):
            raise p.fail("this directive is not supported", p.pos)

    def variable(self, variable: Variable) -> None:
        if variable.space == "param":
            unique = self.declare(variable.name)
            self.function.call_params[unique] = variable.size_bytes
        else:
            self.function.variables[variable.name] = variable

    def registers(self, match: re.Match[str]) -> None:
        if match[1] not in TYPE_BYTES:
            raise self.parser.fail(f"unknown register type .{match[1]}", match.start())
        bits = 8 * TYPE_BYTES[match[1]] or 1
        for item in (x.strip() for x in match[2].split(",")):
            many = re.fullmatch(r"([%\w$]+?)<(\d+)>", item)
            names = [f"{many[1]}{i}" for i in range(int(many[2]))] if many else [item]
            for name in names:
                self.function.registers[self.declare(name)] = bits

    def declare(self, name: str) -> str:
        """The function-wide name of something declared in the current scope."""
        if len(self.scopes) == 1:
            return name
        self.serial += 1
        self.renamed = True
        unique = f"{name}@{self.serial}" if name.startswith("%") else f"%{name}@{self.serial}"
        self.scopes[-1][name] = unique
        return unique


def _blank_comment(match: re.Match[str]) -> str:
    """Strings stay; comments become blanks of the same shape, so that positions keep their lines."""
    text = match[0]
    if text[0] == '"':
        return text
    return re.sub(r"[^\n]", " ", text)
