"""The table of `python -m tilejit simulator`, row by row, against what the simulator does."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.simulator.instruction_programs import CASES, RACES, Case, Race, row_of
from tilejit.errors import RaceError
from tilejit.simulator.decode import translate as translation
from tilejit.simulator.instructions import InstructionRow, instruction_rows, instruction_table

ROWS = [row for rows in instruction_rows().values() for row in rows]
#: rows that access memory without an entry in the list of a program's memory instructions
UNLISTED = {"tcgen05.dealloc", "tcgen05.ld", "tcgen05.st", "discard", "call"}


@pytest.fixture
def translated(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bool]]:
    """The instructions that are translated from now on, and whether each is an access to memory."""
    seen: dict[str, bool] = {}

    def watched(opcode: str, modifiers: str, lookup=translation.lookup):
        found = lookup(opcode, modifiers)
        if found is None:
            return None
        entry, match = found

        def emit(e, m) -> None:
            before = len(e.names.sites)
            seen[opcode + modifiers] = seen.get(opcode + modifiers, False)
            entry(e, m)
            seen[opcode + modifiers] |= len(e.names.sites) > before

        return emit, match

    translation.translate.cache_clear()
    monkeypatch.setattr(translation, "lookup", watched)
    yield seen
    translation.translate.cache_clear()


def test_every_opcode_of_every_row_has_a_program() -> None:
    have = {(str(row), opcode) for row, opcode in (row_of(x) for case in CASES for x in case.instructions)}
    lacking = {(str(row), opcode) for row in ROWS for opcode in row.opcodes} - have
    assert not lacking, f"add programs to tests/simulator/instruction_programs.py for {sorted(lacking)}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.instructions[0])
def test_an_instruction_does_what_its_row_says(case: Case, translated: dict[str, bool]) -> None:
    assert {row_of(x)[0].fidelity.kind for x in case.instructions} == {case.kind}
    case.play()
    # branches emit no code
    jumps = ("bra", "brx", "ret", "exit")
    assert {x for x in case.instructions if x.partition(".")[0] not in jumps} <= translated.keys()


def test_kinds_of_fidelity() -> None:
    assert {row.fidelity.kind for row in ROWS} == {"exact", "approximate", "unsupported"}
    assert all(row.fidelity.how for row in ROWS if row.fidelity.kind != "exact")


@pytest.mark.parametrize("race", RACES, ids=lambda race: race.instruction)
def test_a_race_is_reported_unless_the_row_says_otherwise(race: Race, translated: dict[str, bool]) -> None:
    row, _ = row_of(race.instruction)
    race.play("bar.sync 0;")
    if row.fidelity.races:
        with pytest.raises(RaceError) as caught:
            race.play("")
        assert race.instruction in str(caught.value)
    else:
        race.play("")
    assert race.instruction in translated


def test_every_row_that_accesses_memory_has_a_race(translated: dict[str, bool]) -> None:
    for case in CASES:
        if row_of(case.instructions[0])[0].fidelity.kind != "unsupported":
            case.play()
    accesses = {str(row_of(x)[0]) for x, is_access in translated.items() if is_access}
    accesses |= {str(row_of(x)[0]) for x in translated if x.startswith(tuple(UNLISTED))}
    assert accesses == {str(row_of(race.instruction)[0]) for race in RACES}
    assert all(row.fidelity.races or str(row) in accesses for row in ROWS)


def column(lines: list[str], begin: int, end: int | None) -> str:
    return " ".join(line[begin:end].strip() for line in lines)


def test_the_table_shows_all_of_each_row() -> None:
    lines = [line for text in instruction_table() for line in text.split("\n")]
    assert all(len(line) <= 120 for line in lines)
    starts = [i for i, line in enumerate(lines) if len(line) > 70 and line[68:70] == "  " and line[70:].startswith(
        ("exact", "approximate", "unsupported"))]
    assert len(starts) == len(ROWS) <= 200
    for row, start, end in zip(ROWS, starts, [*starts[1:], len(lines)], strict=True):
        shown = lines[start : next(i for i in range(start, end + 1) if i == end or not lines[i])]
        assert column(shown, 0, 68).replace(" ", "") == str(row)
        assert column(shown, 70, None).rstrip() == str(row.fidelity)


@pytest.mark.parametrize(("pattern", "text"), [
    (r"\.(?P<t>[us](?:16|32))", ".[us](16|32)"), (r"(?:\.(?P<round>rn|rz))?\.f32", "{.(rn|rz)}.f32"),
    (r"(?P<sem>\.a|\.b)?\.(?P<t>b16)x2", "{.a|.b}.b16x2"), (r"\.m64n(?P<n>\d+)", ".m64nN"), (r".*\.b128", "{...}.b128"),
])
def test_the_notation_of_patterns(pattern: str, text: str) -> None:
    assert str(InstructionRow(("op",), pattern, ROWS[0].fidelity)) == "op" + text


def test_a_compilers_instruction_that_is_unknown_is_listed() -> None:
    assert list(instruction_table([("add", ".s32")])) == list(instruction_table())
    *_, title, last = instruction_table([("add", ".s32"), ("foo", ".bar")])
    assert "unknown to the simulator" in title and re.fullmatch(r"foo\.bar +unsupported", last)
