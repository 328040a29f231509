"""Inline PTX: a reader of the text that `tj.ptx` takes, and the family of its rows.

The reader accepts less than ptxas: the text must not end the thread, name registers of the surrounding code, or contain
a `$` that LLVM, which substitutes the operands, can't resolve. Of instructions it only knows which opcodes are pure.

source: PTX ISA, "Syntax", "Variables", "Special Registers"; LLVM Language Reference, "Inline Assembler Expressions".
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from typing import NoReturn

from ..dataclass import dataclass, field
from ..dtypes import DTYPES, DType, float32, float64
from .row import B16, B32, B64, F32, F64, Capability, Direction, OpenFamily, Operand, Register, Row, register

#: the largest numbers of outputs and inputs
MOST_OUTPUTS, MOST_INPUTS = 8, 16

#: Opcodes whose results depend only on their operands: arithmetic, logic, conversion, selection, moves of registers.
PURE = frozenset((
    "abs", "add", "addc", "and", "bfe", "bfi", "bfind", "bmsk", "brev", "clz", "cnot", "copysign", "cos",
    "cvt", "div", "dp2a", "dp4a", "ex2", "fma", "lg2", "lop3", "mad", "mad24", "madc", "max", "min", "mov",
    "mul", "mul24", "neg", "not", "or", "popc", "prmt", "rcp", "rem", "rsqrt", "sad", "selp", "set", "setp",
    "shf", "shl", "shr", "sin", "slct", "sqrt", "sub", "subc", "szext", "tanh", "testp", "xor",
))

#: opcodes that write memory, synchronize or end threads: no text with one only computes
IMPURE = frozenset((
    "atom", "bar", "barrier", "brkpt", "cp", "discard", "fence", "griddepcontrol", "mbarrier", "membar", "nanosleep",
    "prefetch", "red", "setmaxnreg", "st", "stmatrix", "trap",
))

#: opcodes whose operands all have the type of the instruction, if it names only one and isn't `.wide`
_OF_ONE_TYPE = frozenset((
    "abs", "add", "and", "copysign", "cos", "div", "ex2", "fma", "lg2", "mad", "max", "min", "mul", "neg", "not", "or",
    "rcp", "rem", "rsqrt", "sad", "sin", "sqrt", "sub", "tanh", "xor",
))
_TYPE = r"\.(b|s|u|f|bf)(16|32|64)(x2)?"

#: opcodes that read the carry, which is only known if the text sets it
_CARRYING = ("addc", "subc", "madc")

#: opcodes that end the thread, which the compiler must know of
_LEAVING = ("ret", "exit")

#: identifiers that need no declaration: constants, the sink, and the special registers
_PREDEFINED = (
    r"WARP_SZ|_|%(?:(?:n?tid|n?ctaid|clusterid|nclusterid|cluster_n?ctaid)|laneid|n?warpid|n?smid|gridid"
    r"|is_explicit_cluster|cluster_n?ctarank|lanemask_(?:eq|le|lt|ge|gt)|clock|clock_hi|clock64|pm[0-7](?:_64)?"
    r"|envreg(?:[12]?\d|3[01])|globaltimer(?:_lo|_hi)?|(?:total|aggr|dynamic)_smem_size"
    r"|reserved_smem_offset_(?:begin|end|cap|[01])|current_graph_exec)"
)

# patterns are compiled at first use, because most programs have no inline PTX
_TOKEN = r"""
    (?P<blank>(?:\s|//[^\n]*|/\*.*?\*/)+)
  | (?P<operand>\$\d+)
  | (?P<number>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?
        |\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+U?)
  | (?P<name>(?:[A-Za-z_%]|\$\$)(?:[A-Za-z0-9_]|\$\$)*)
  | (?P<suffix>\.[A-Za-z0-9_]+(?:::[A-Za-z0-9_]+)*)
  | (?P<sign>[][{}();,:@!+|~<>-])
"""
_CLOSING = {"(": ")", "[": "]", "{": "}"}
#: the most registers that a declaration such as `.reg .b32 t<4>;` makes
_MOST_REGISTERS = 1024
_DEEPEST = 50


class TextError(ValueError):
    """A fault in the text of inline PTX. place: where it is, such as "column 3"."""

    def __init__(self, message: str, hint: str, text: str, offset: int) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint
        line = text.count("\n", 0, offset)
        column = offset - (text.rfind("\n", 0, offset) + 1) + 1
        self.place = f"line {line + 1}, column {column}" if "\n" in text else f"column {column}"


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


@dataclass(slots=True)
class _Scope:
    """The names that a block in braces declares, and those that it uses so far."""

    declared: set[str] = field(default_factory=set)
    used: list[_Token] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class InlineText:
    """A text without faults. text: with single spaces and without comments. is_pure: all that it does is compute."""

    text: str
    is_pure: bool


def read(
    text: str, outputs: int, inputs: int, types: Sequence[DType] = (), numbers: Container[int] = (),
    *, needs_pure: bool = False,
) -> InlineText:
    """Read the text for these numbers of operands; raise TextError if it has a fault.

    types: those of all operands, if they are to be checked. numbers: the operands that are Python's numbers, whose
    kind must be that of the instruction. needs_pure: True if an opcode that is `IMPURE` is a fault.
    """
    reader = _TextReader(text, outputs + inputs)
    reader.types, reader.numbers, reader.needs_pure = types, numbers, needs_pure
    return reader.read()


class _TextReader:
    types: Sequence[DType] = ()
    numbers: Container[int] = ()
    needs_pure = False

    def __init__(self, text: str, operands: int) -> None:
        self.text, self.operands = text, operands
        self.pieces: list[str] = []
        self.tokens = self._scan()
        self.at = 0
        self.scopes = [_Scope()]
        self.is_empty = True
        self.is_pure = True
        self.sets_carry = False

    def fail(self, message: str, hint: str, token: _Token | int) -> NoReturn:
        raise TextError(message, hint, self.text, token if isinstance(token, int) else token.at)

    def read(self) -> InlineText:
        self._statements()
        if self.peek.kind != "end":
            self.fail("this `}` closes nothing", "remove it, or write the `{` before it", self.peek)
        self._resolve()
        if self.is_empty:
            self.fail("the text has no instruction", 'write one, such as "add.s32 $0, $1, $2;"', self.peek)
        used = {int(token.text[1:]) for token in self.tokens if token.kind == "operand"}
        for number in range(self.operands):
            if number not in used:
                self.fail(
                    f"the text doesn't use ${number}", "use each output and each input, or leave it out of the call",
                    self.peek,
                )
        return InlineText("".join(self.pieces).strip(), self.is_pure)

    def _scan(self) -> list[_Token]:
        """Return the tokens; an identifier, number or operand must not directly follow another one or a modifier."""
        tokens: list[_Token] = []
        at, was_word = 0, False
        pattern = re.compile(_TOKEN, re.VERBOSE | re.DOTALL | re.ASCII)
        while at < len(self.text):
            match = pattern.match(self.text, at)
            if match is None:
                self._unknown(at)
            kind = match.lastgroup or ""
            is_word = kind in ("operand", "number", "name")
            if is_word and was_word:
                self.fail(f"{match[0]!r} is joined to the word before it", "write a space or a comma between them", at)
            was_word = is_word or kind == "suffix"
            self.pieces.append(" " if kind == "blank" else match[0])
            if kind == "operand" and (len(match[0]) > 6 or int(match[0][1:]) >= self.operands):
                last = f"the operands are $0 to ${self.operands - 1}" if self.operands else "the call has no operands"
                self.fail(f"{match[0]} doesn't exist", f"{last}: the outputs, then the inputs", at)
            if kind != "blank":
                tokens.append(_Token(kind, match[0], at))
            at = match.end()
        return [*tokens, _Token("end", "", at)]

    def _unknown(self, at: int) -> NoReturn:
        sign = self.text[at]
        if sign == "$":
            self.fail("`$` isn't followed by the number of an operand", "write $0, or $$ for a dollar", at)
        if sign in "\"'":
            closed = self.text.find(sign, at + 1) >= 0
            self.fail(
                f"{sign} opens a string" if closed else f"{sign} isn't closed", "instructions have no strings", at
            )
        if self.text.startswith("/*", at):
            self.fail("this comment isn't closed", "write */ after it", at)
        self.fail(f"{sign!r} isn't part of PTX instructions", "write ASCII, as in the PTX ISA", at)

    @property
    def peek(self) -> _Token:
        return self.tokens[self.at]

    def take(self) -> _Token:
        token = self.peek
        self.at += 1
        return token

    def expect(self, sign: str, after: str) -> None:
        if self.peek.text != sign:
            got = f"got {self.peek.text!r}" if self.peek.text else "the text ends"
            self.fail(f"expected {sign!r} after {after}; {got}", f"write {sign}", self.peek)
        self.take()

    def _statements(self) -> None:
        """Read statements up to a `}` or the end of the text."""
        while self.peek.kind != "end" and self.peek.text != "}":
            token = self.peek
            if token.text == "{":
                self.take()
                self.scopes.append(_Scope())
                if len(self.scopes) > _DEEPEST:
                    self.fail(f"braces are nested more than {_DEEPEST - 1} deep", "remove some", token)
                self._statements()
                if self.peek.kind == "end":
                    self.fail("this `{` isn't closed", "write the `}`", token)
                self._resolve()
                self.take()
            elif token.kind == "suffix":
                self._registers()
            elif token.kind == "name" and self.tokens[self.at + 1].text == ":":
                self._declare(self.take(), "label")
                self.take()
                self.is_pure = False
            else:
                self._instruction()

    def _registers(self) -> None:
        directive = self.take()
        if directive.text != ".reg":
            self.fail(f"{directive.text} isn't allowed here", "the only directive in inline PTX is .reg", directive)
        if self.peek.kind != "suffix":
            self.fail("this .reg has no type", "write .reg .b32 t;", self.peek)
        while self.peek.kind == "suffix":
            self.take()
        while True:
            if self.peek.kind != "name":
                self.fail("expected the name of a register", "write .reg .b32 t;", self.peek)
            name = self.take()
            if self.peek.text == "<":
                self.take()
                count = self.take()
                is_count = re.fullmatch(r"[1-9]\d{0,3}", count.text) is not None
                if not is_count or int(count.text) > _MOST_REGISTERS:
                    self.fail(
                        f"expected a number of registers, 1 to {_MOST_REGISTERS}", "write .reg .b32 t<4>;", count
                    )
                self.expect(">", "the number of registers")
                for k in range(int(count.text)):
                    self._declare(_Token("name", f"{name.text}{k}", name.at), "register")
            else:
                self._declare(name, "register")
            if self.peek.text != ",":
                break
            self.take()
        self.expect(";", "a declaration")

    def _declare(self, name: _Token, what: str) -> None:
        if len(self.scopes) == 1:
            self.fail(
                f"the {what} {name.text} is declared outside braces",
                "enclose the text in { }: names in braces are local", name,
            )
        if name.text in self.scopes[-1].declared:
            self.fail(f"{name.text} is declared twice", "choose another name", name)
        # an operand is substituted by a name that begins with %, which a local name must not hide
        if name.text.startswith("%") or re.fullmatch(_PREDEFINED, name.text):
            self.fail(f"{name.text} is reserved", "choose a name that doesn't begin with %", name)
        self.scopes[-1].declared.add(name.text)

    def _instruction(self) -> None:
        if self.peek.text == "@":
            self.take()
            if self.peek.text == "!":
                self.take()
            if self.peek.kind != "name":
                self.fail(
                    "a guard names a predicate",
                    "declare one in braces: { .reg .pred p; setp.ne.s32 p, $1, 0; @p ... }", self.peek,
                )
            self.scopes[-1].used.append(self.take())
        opcode = self.take()
        if opcode.kind != "name" or not re.fullmatch("[a-z][a-z0-9_]*", opcode.text):
            got = repr(opcode.text) if opcode.text else "the text ends"
            self.fail(f"expected an instruction; {got}", 'write one, such as "add.s32 $0, $1, $2;"', opcode)
        if opcode.text in _LEAVING:
            self.fail(f"{opcode.text} isn't allowed", "return from the kernel in Python", opcode)
        if self.needs_pure and opcode.text in IMPURE:
            self.fail(f"{opcode.text} does more than compute, so the text isn't pure", "leave out pure=True", opcode)
        self.is_empty = False
        self.is_pure = self.is_pure and opcode.text in PURE and (self.sets_carry or opcode.text not in _CARRYING)
        suffixes = []
        while self.peek.kind == "suffix":
            suffixes.append(self.take().text)
        self.sets_carry = ".cc" in suffixes or self.sets_carry
        if self.types:
            self._check_types(opcode, suffixes)
        self._operands(opcode)

    def _check_types(self, opcode: _Token, suffixes: Sequence[str]) -> None:
        """Fail unless the operands that the next instruction names fit its type."""
        end = next(k for k in range(self.at, len(self.tokens)) if self.tokens[k].text in (";", ""))
        operands = enumerate(self.tokens[self.at : end])
        places = [(k, int(token.text[1:])) for k, token in operands if token.kind == "operand"]
        found = [match for match in (re.fullmatch(_TYPE, suffix) for suffix in suffixes) if match is not None]
        of_predicate = {"selp": 6, "setp": 0}.get(opcode.text, -1)
        for k, number in places:
            token, dtype = self.tokens[self.at + k], self.types[number]
            if k == of_predicate or ".pred" in suffixes:
                self.fail(
                    f"{token.text} is {dtype}, in a register of {_width(dtype)} bits, not a predicate",
                    "declare one in braces: { .reg .pred p; setp.ne.b16 p, $1, 0; ... }", token,
                )
            if opcode.text not in _OF_ONE_TYPE or ".wide" in suffixes or len(found) != 1:
                continue
            kind, bits, pair = found[0].groups()
            needed, name = int(bits) * (2 if pair else 1), opcode.text + found[0][0]
            if _width(dtype) != needed:
                self.fail(
                    f"{token.text} is {dtype}, in a register of {_width(dtype)} bits; {name} needs {needed} bits",
                    "convert the value, as in tj.float32(x), or choose another instruction", token,
                )
            if number in self.numbers and kind != "b" and dtype.is_float != (kind in ("f", "bf")):
                self.fail(
                    f"{token.text} is a number of type {dtype}; {name} would take its bits",
                    f"pass {'an int' if dtype.is_float else 'a float, such as 1.0'}", token,
                )

    def _operands(self, opcode: _Token) -> None:
        """Read the operands of an instruction, and the `;` after them."""
        waiting: list[_Token] = []
        while self.peek.text != ";" or waiting:
            token = self.take()
            if token.text in _CLOSING:
                waiting.append(token)
                self.is_pure = self.is_pure and token.text != "["
            elif token.kind == "end" or token.text in (";", ":", "@", *_CLOSING.values()):
                if waiting and token.text == _CLOSING[waiting[-1].text]:
                    waiting.pop()
                elif waiting:
                    opening = waiting[-1]
                    self.fail(f"this `{opening.text}` isn't closed", f"write the `{_CLOSING[opening.text]}`", opening)
                else:
                    what = f"got {token.text!r}" if token.text else "the text ends"
                    self.fail(f"expected ';' after {opcode.text}; {what}", "end each instruction with ;", token)
            elif token.kind == "name":
                self.scopes[-1].used.append(token)
                self.is_pure = self.is_pure and not token.text.startswith("%")
        self.take()

    def _resolve(self) -> None:
        """Check the names that the innermost block uses but doesn't declare, or pass them to the enclosing block."""
        scope = self.scopes.pop()
        free = [name for name in scope.used if name.text not in scope.declared]
        if self.scopes:
            self.scopes[-1].used += free
            return
        for name in free:
            if not re.fullmatch(_PREDEFINED, name.text):
                self.fail(
                    f"{name.text} isn't declared",
                    "declare it in braces, such as { .reg .b32 t; ... }, or pass the value as an input", name,
                )


@dataclass(frozen=True, slots=True)
class InlineForm:
    """Inline PTX with its operands: the key of a row. text: as `InlineText.text`."""

    text: str
    outputs: tuple[DType, ...]
    inputs: tuple[DType, ...]
    is_pure: bool

    @property
    def name(self) -> str:
        sides = [",".join(map(str, side)) or "none" for side in (self.outputs, self.inputs)]
        return f"ptx.{'pure' if self.is_pure else 'volatile'} {sides[0]} <- {sides[1]}: {self.text}"

    @staticmethod
    def called(name: str) -> InlineForm | None:
        """Parse a row's name; return None if it isn't the name of a form whose text is without faults."""
        match = re.fullmatch(_NAME, name)
        if match is None:
            return None
        outputs, inputs = (_types(side) for side in (match[2], match[3]))
        try:
            text = read(match[4], len(outputs), len(inputs)).text
        except TextError:
            return None
        form = InlineForm(text, outputs, inputs, match[1] == "pure")
        return form if form.name == name else None


_TYPES = rf"none|(?:{'|'.join(DTYPES)})(?:,(?:{'|'.join(DTYPES)}))*"
_NAME = rf"ptx\.(pure|volatile) ({_TYPES}) <- ({_TYPES}): (.*)"


def _types(side: str) -> tuple[DType, ...]:
    return () if side == "none" else tuple(DTYPES[name] for name in side.split(","))


def _width(dtype: DType) -> int:
    """Return the number of bits of the register that holds a value."""
    return max(dtype.bits, 16)


def _register(dtype: DType) -> Register:
    """Return the kind of register that holds a value, which has at least 16 bits."""
    if dtype in (float32, float64):
        return F32 if dtype is float32 else F64
    return {32: B32, 64: B64}.get(dtype.bits, B16)


def _operand(k: int, dtype: DType, direction: Direction, *, is_early: bool = False) -> Operand:
    return register(f"v{k}", _register(dtype), direction, is_bits=True, is_early=is_early)


def _row(form: InlineForm) -> Row:
    # one instruction may write an output before a later one has read all inputs
    is_early, outputs = form.text.count(";") > 1, len(form.outputs)
    operands = [_operand(k, dtype, Direction.OUT, is_early=is_early) for k, dtype in enumerate(form.outputs)]
    operands += [_operand(k, dtype, Direction.IN) for k, dtype in enumerate(form.inputs, outputs)]
    return Row(
        name=form.name, text=re.sub(r"\$(\d+)", r"$v\1", form.text), meaning="inline PTX", operands=tuple(operands),
        since=75, ptx=_VERSION, memory=not form.is_pure, convergent=not form.is_pure, called="ptx",
        source="the user's text",
    )


#: the PTX version of a kernel with inline PTX, unless its target or another instruction needs a newer one
_VERSION = (8, 1)

INLINE = OpenFamily("inline PTX", Capability(name="ptx", since=75, ptx=_VERSION), _row, InlineForm.called)

ROWS: tuple[Row, ...] = ()


def is_inline(row: Row) -> bool:
    return row.called == INLINE.target.name
