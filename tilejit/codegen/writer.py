"""Writes the body of one LLVM function as text."""

from __future__ import annotations

from ..source import Span
from .debug import LineTable

#: instructions whose text says their value: written again where an equal one is known, they are the same
_PURE = frozenset({
    "add", "and", "ashr", "bitcast", "extractelement", "getelementptr", "icmp", "insertelement", "lshr", "mul", "or",
    "ptrtoint", "select", "sext", "shl", "sub", "trunc", "udiv", "urem", "xor", "zext",
})  # fmt: skip


class Writer:
    """Lines of LLVM instructions, with fresh names, basic blocks and the current source location.

    After a terminator the block is closed: callers start a new one with `start` before they write on.
    """

    def __init__(self, lines: LineTable) -> None:
        self.line_table = lines
        self.body: list[str] = []
        self.entry: list[str] = []
        self.declarations: dict[str, None] = {}
        self.block = "entry"
        self.open = True
        #: where a thread that ends goes, if the kernel has something to do there
        self.exit: str | None = None
        self._names = 0
        self._location = ""
        self._known: dict[str, str] = {}

    def at(self, span: Span | None) -> str:
        """Makes `span` the location of what is written next, unless it is None; returns the one before."""
        before = self._location
        if span is not None:
            self._location = self.line_table.attachment(span)
        return before

    def restore(self, location: str) -> None:
        """Goes back to a location that `at` returned."""
        self._location = location

    def value(self, text: str, constant: bool = False) -> str:
        """Writes an instruction that has a result, unless it is known; returns the result's name.

        LLVM would find the equal ones, too, but only after it has read them and tried to make each cheaper.
        constant: it gives the same wherever it stands, whatever it is.
        """
        found = self._known.get(text)
        if found is not None:
            return found
        self._names += 1
        name = f"%v{self._names}"
        self.body.append(f"  {name} = {text}{self._location}")
        if constant or text[: text.find(" ")] in _PURE:
            self._known[text] = name
        return name

    def effect(self, text: str) -> None:
        """Writes an instruction without a result."""
        self.body.append(f"  {text}{self._location}")

    def intrinsic(self, result: str, name: str, *arguments: tuple[str, str]) -> str:
        """Calls an LLVM intrinsic or a function of the module; arguments are (type, value) pairs."""
        types = ", ".join(kind for kind, _ in arguments)
        self.declarations[f"declare {result} @{name}({types})"] = None
        return self.call(result, name, *arguments)

    def call(self, result: str, name: str, *arguments: tuple[str, str]) -> str:
        """Calls a function that the module defines."""
        return self.value(f"call {result} @{name}({', '.join(f'{kind} {value}' for kind, value in arguments)})")

    def alloca(self, kind: str, align: int) -> str:
        """Reserves stack space in the entry block, which LLVM turns into registers; returns its address."""
        self._names += 1
        name = f"%a{self._names}"
        self.entry.append(f"  {name} = alloca {kind}, align {align}")
        return name

    def label(self, hint: str) -> str:
        """A fresh block name."""
        self._names += 1
        return f"{hint}{self._names}"

    def jump(self, target: str) -> None:
        """Ends the block with a jump, unless it has ended already."""
        if self.open:
            self.effect(f"br label %{target}")
            self.open = False

    def branch(self, condition: str, then: str, orelse: str) -> None:
        """Ends the block with a conditional jump."""
        self.effect(f"br i1 {condition}, label %{then}, label %{orelse}")
        self.open = False

    def leave(self) -> None:
        """Ends the block and the thread."""
        if self.exit is not None:
            self.jump(self.exit)
        elif self.open:
            self.effect("ret void")
            self.open = False

    def known(self) -> dict[str, str]:
        """The names of the values that are known where the writer stands, by the text that made them."""
        return dict(self._known)

    def start(self, label: str, known: dict[str, str] | None = None) -> None:
        """Opens a new block; the one before it must have ended.

        known: what a block knew through which all ways to this one go.
        """
        self.body.append(f"{label}:")
        self.block = label
        self.open = True
        self._known = dict(known or ())
