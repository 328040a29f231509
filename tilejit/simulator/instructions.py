"""The table of PTX instructions that the simulator knows, with the fidelity of each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from textwrap import wrap

from ..dataclass import dataclass
from .decode.emitter import Entries, Fidelity
from .opcodes import TOPICS, lookup

HEADER = """\
PTX instructions that the simulator knows. {x} is optional, (a|b) is one of several alternatives, [us] one of several
letters, {...} any modifiers. The modifiers of ld, ldu, st, atom, red and mbarrier may come in any order. An exact
result has the bits that the PTX ISA prescribes, except that the payload of a NaN is unspecified. The race check covers
all accesses to memory unless the fidelity says otherwise. Other instructions are rejected before the kernel starts."""

#: widths of the columns, in characters
_INSTRUCTION, _FIDELITY = 68, 50
_EXACT = Fidelity()


@dataclass(frozen=True, slots=True)
class InstructionRow:
    """Opcodes that share a pattern of modifiers and a fidelity."""

    opcodes: tuple[str, ...]
    pattern: str
    fidelity: Fidelity

    @property
    def modifiers(self) -> str:
        """The modifiers, in the notation of `HEADER`."""
        return _notation(self.pattern)

    def __str__(self) -> str:
        names = "|".join(self.opcodes)
        return (f"({names})" if len(self.opcodes) > 1 else names) + self.modifiers


def instruction_rows() -> dict[str, list[InstructionRow]]:
    """Return the rows of each topic. Opcodes of a topic share a row if their patterns and fidelities are equal."""
    topics: dict[str, list[InstructionRow]] = {}
    for module in TOPICS:
        entries: Entries = module.ENTRIES
        opcodes: dict[tuple[str, Fidelity], list[str]] = {}
        for opcode, forms in entries.items():
            for form in forms:
                opcodes.setdefault((form[0], form[2] if len(form) == 3 else _EXACT), []).append(opcode)
        title = (module.__doc__ or "").partition("\n")[0].rstrip(".")
        topics[title] = [InstructionRow(tuple(names), *row) for row, names in opcodes.items()]
    return topics


def instruction_table(emitted: Iterable[tuple[str, str]] = ()) -> Iterator[str]:
    """Yield the introduction and the lines of the table.

    emitted: (opcode, modifiers) pairs that a compiler may emit; those unknown to the simulator are listed last.
    """
    yield HEADER
    for title, rows in instruction_rows().items():
        yield f"\n{title}\n"
        for row in rows:
            lines = zip_longest(_broken(str(row)), wrap(str(row.fidelity), _FIDELITY), fillvalue="")
            yield from (f"{left:<{_INSTRUCTION}}  {right}".rstrip() for left, right in lines)
    unknown = unknown_instructions(emitted)
    if unknown:
        yield "\nEmitted by the compiler, unknown to the simulator\n"
        yield from (f"{name:<{_INSTRUCTION}}  unsupported" for name in unknown)


def unknown_instructions(emitted: Iterable[tuple[str, str]]) -> list[str]:
    """Return the instructions among (opcode, modifiers) pairs that the simulator doesn't know."""
    return sorted({opcode + modifiers for opcode, modifiers in emitted if lookup(opcode, modifiers) is None})


def _broken(text: str) -> list[str]:
    lines = [""]
    modifiers = re.findall(r"\{(?:[^{}]|\{[^{}]*\})*\}|\.*(?:\((?:[^()]|\([^()]*\))*\)|[^.{(])+", text)
    for modifier in modifiers:
        for piece in [modifier] if len(modifier) < _INSTRUCTION else re.split(r"(?<=\|)", modifier):
            if len(lines[-1] + piece) > _INSTRUCTION:
                lines.append("  ")
            lines[-1] += piece
    return lines


def _notation(pattern: str) -> str:
    """Convert a regular expression for modifiers to the notation of `HEADER`."""
    text = re.sub(r"\(\?P<(\w)>\\d\+\)", lambda m: m[1].upper(), pattern)
    text = re.sub(r"\(\?P<(?!part\d)\w+>", "(?:", text)
    # Patterns of `opcodes.memory.any_order` exclude duplicates by look-ahead, and test for required parts at the end.
    needed = re.findall(r"\(\?\(part(\d+)\)\|\(\?!\)\)", text)
    text = re.sub(
        r"\(\?P<part(\d+)>(.+?)\)\(\?!\.\*\2\(\?!\[\\w:\]\)\)",
        lambda m: f"\0(?:{m[2]})\0" if m[1] in needed else f"\0(?:{m[2]})?\0", text,
    )
    text = re.sub(r"\(\?:\0(.*)\0\)\*", lambda m: m[1].replace("\0|\0", ""), text)
    text = re.sub(r"\(\?\(part\d+\)\|\(\?!\)\)", "", text).replace(".*", "{...}").replace(r"\.", ".")
    while "(?:" in text:
        text = re.sub(r"\(\?:([^()]*)\)(\??)", _group, text)
    return text.translate({ord("<"): "(", ord(">"): ")"})


def _group(match: re.Match[str]) -> str:
    """Convert an innermost group. `_notation` finally replaces "<" and ">" with parentheses."""
    text = re.sub(r"^<([^<>]*)>$", r"\1", match[1])
    if match[2]:
        return "{" + text + "}"
    return f"<{text}>" if "|" in re.sub(r"<[^<>]*>|{[^{}]*}", "", text) else text
