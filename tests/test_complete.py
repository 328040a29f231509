"""Nothing lacks anything; and whatever is taken away is missed, by its kind and its name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import pytest

import tilejit
from tests.completeness import REAL, Tables, missing
from tests.support.operations import ways_to_draw
from tilejit.dtypes import DTYPES
from tilejit.ir import nodes as ir
from tilejit.ir import walk
from tilejit.ir.text import parser, printer
from tilejit.ir.verify import kernel as verifier

#: what is missing -> why that is right
ABSENT = {
    "family of instructions 'cvt to fp8': no golden": "code generation writes casts: tests/codegen/test_ptx.py has it",
    "family of instructions 'cvt from fp8': no golden": "as above",
    "family of instructions 'atom': no golden": "code generation chooses them: tests/kernels/test_atomics.py has them",
    "family of instructions 'red': no golden": "as above",
    "family of instructions 'ld': no golden": "as above: tests/codegen/test_ptx.py has them",
    "family of instructions 'st': no golden": "as above",
    "statement 'TileOp': no emitter": "lowering leaves none",
    "statement 'Expect': no emitter": "as above",
    "statement 'Arrive': no emitter": "the pass `arrivals` leaves none",
    "statement 'Return': no violation where it is broken": "it is allowed anywhere and says nothing",
    "parameter 'AssertionsParam': no violation where it is broken": "it says nothing",
}

K, V = TypeVar("K"), TypeVar("V")


def test_nothing_is_missing_but_what_needs_not_be_there() -> None:
    assert [sentence for sentence in missing(REAL) if sentence not in ABSENT] == []


def test_what_needs_not_be_there_is_not_there() -> None:
    assert set(ABSENT) <= set(missing(REAL))


def without(table: Mapping[K, V], *names: K) -> dict[K, V]:
    assert set(names) <= set(table)
    return {name: value for name, value in table.items() if name not in names}


def changed(module: ModuleType, old: str, new: str) -> ModuleType:
    """The module as it were with other text in one place."""
    text = inspect.getsource(module)
    assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times in {module.__name__}"
    made = ModuleType(module.__name__)
    made.__package__ = module.__package__
    exec(compile(text.replace(old, new), module.__name__, "exec"), vars(made))
    return made


def record(name: str, **fields: Any) -> Tables:
    """With another record of an elementwise operation."""
    return replace(REAL, elementwise={**REAL.elementwise, name: replace(REAL.elementwise[name], **fields)})


def tile_record(name: str, **fields: Any) -> Tables:
    """With another record of a tile operation."""
    return replace(REAL, tile_operations={**REAL.tile_operations, name: replace(REAL.tile_operations[name], **fields)})


def but_goldens(*parts: str) -> Tables:
    kept = {path: golden for path, golden in REAL.goldens.items() if not any(part in path for part in parts)}
    return replace(REAL, goldens=kept)


#: of `assert` in the verifier and in the walk
ASKS = 'self.value(stmt.cond, bool_, stmt.span, "an assertion")'
WALKED = '    ir.Assert: Fields(("cond", "values")),'

EXP2 = "elementwise operation 'exp2': "
TAKEN: dict[str, tuple[Callable[[], Tables], set[str]]] = {
    "the reference of an elementwise operation": (
        lambda: record("exp2", formula=None),
        {EXP2 + "no NumPy reference"},
    ),
    "its accuracy": (
        lambda: record("exp2", accuracy=None),
        {EXP2 + "no accuracy bound for float32", EXP2 + "no accuracy bound for float64"},
    ),
    "one of its bounds": (
        lambda: record("exp2", accuracy=replace(REAL.elementwise["exp2"].accuracy, ulp=(1.0,))),  # type: ignore[type-var]
        {EXP2 + "no accuracy bound for float64"},
    ),
    "its special values": (lambda: record("exp2", special=()), {EXP2 + "no special values"}),
    "its scalar code": (
        lambda: record("exp2", floats=None),
        {EXP2 + "no scalar code for float32", EXP2 + "no scalar code for float64"},
    ),
    "its scalar code for integers": (
        lambda: record("bitwise_and", integers=None),
        {f"elementwise operation 'bitwise_and': no scalar code for {t}" for t in DTYPES.values() if t.is_integer},
    ),
    "its line in the documentation": (
        lambda: replace(REAL, listing=tuple(line for line in REAL.listing if not line.startswith("exp2("))),
        {EXP2 + "no line in `python -m tilejit operations`"},
    ),
    "a row of the instruction table": (
        lambda: replace(REAL, rows=without(REAL.rows, "elect")),
        {"instruction 'elect': no row in the table"},
    ),
    "a topic of the instruction table": (
        lambda: replace(REAL, rows=without(REAL.rows, "fence.proxy.async")),
        {"instruction 'fence.proxy.async': no row in the table"},
    ),
    "an opcode of the simulator": (
        lambda: replace(REAL, opcodes=without(REAL.opcodes, "elect")),
        {"instruction 'elect': no opcode in the simulator for elect.sync"},
    ),
    "a form of an opcode": (
        lambda: replace(REAL, opcodes={**REAL.opcodes, "vote": REAL.opcodes["vote"][:1]}),
        {"instruction 'vote.ballot': no opcode in the simulator for vote.sync.ballot.b32"},
    ),
    "the goldens of a family": (
        lambda: but_goldens("stmatrix"),
        {"family of instructions 'stmatrix': no golden"},
    ),
    "the golden of a variant": (lambda: but_goldens("fallback"), {"variant 'fallback' of copy: no golden"}),
    "a variant's line": (
        lambda: replace(REAL, variants=tuple(v for v in REAL.variants if v.name != "fallback")),
        {"variant 'fallback' of copy: no line in VARIANTS"},
    ),
    "the record of a tile operation": (
        lambda: replace(REAL, tile_operations=without(REAL.tile_operations, "gemm")),
        {"tile operation 'gemm': no record in TILE_OPERATIONS; variants of it: mma"},
    ),
    "that of one with many variants": (
        lambda: replace(REAL, tile_operations=without(REAL.tile_operations, "copy_async")),
        {
            "tile operation 'copy_async': no record in TILE_OPERATIONS; "
            "variants of it: bulk, ldgsts, tcgen05_ldst, tma_load, tma_store"
        },
    ),
    "the ways to draw a tile operation": (
        lambda: replace(REAL, ways_to_draw=lambda op: () if op.name == "gemm" else ways_to_draw(op)),
        {"tile operation 'gemm': no way to draw its operands in tests/support/operations.py"},
    ),
    "the reference of a tile operation": (
        lambda: tile_record("gemm", reference=None),
        {"tile operation 'gemm': no NumPy reference"},
    ),
    "the example of a tile operation": (
        lambda: tile_record("gemm", example=""),
        {"tile operation 'gemm': no example"},
    ),
    "the reference of a reduction": (
        lambda: tile_record("argmax", reference=None),
        {"tile operation 'argmax': no NumPy reference"},
    ),
    "the golden of a reduction": (
        lambda: but_goldens("registers_argmax"),
        {"tile operation 'argmax': no golden"},
    ),
    "the golden of a tile operation": (lambda: but_goldens("fill"), {"tile operation 'fill': no golden"}),
    "the example of a node": (
        lambda: replace(REAL, examples=without(REAL.examples, "Assert")),
        {"statement 'Assert': no example"},
    ),
    "a case in the printer": (
        lambda: replace(REAL, printer=changed(printer, "case ir.Assert(cond, message, rule, values):", "case str():")),
        {"statement 'Assert': no case in the printer"},
    ),
    "a parameter's case in the printer": (
        lambda: replace(REAL, printer=changed(printer, "case ir_params.StrideParam():", "case str():")),
        {"parameter 'StrideParam': no case in the printer"},
    ),
    "a case in the parser": (
        lambda: replace(REAL, parse=changed(parser, 'case "assert":', 'case "":').from_text),
        {"statement 'Assert': no case in the parser"},
    ),
    "a case in the verifier": (
        lambda: replace(REAL, verify=changed(verifier, "    ir.Assert: _Statements.assertion,", "").verify),
        {"statement 'Assert': no case in the verifier"},
    ),
    "what the verifier asks": (
        lambda: replace(REAL, verify=changed(verifier, ASKS, "pass").verify),
        {"statement 'Assert': no violation where it is broken"},
    ),
    "a case in the walk": (
        lambda: replace(REAL, walk=changed(walk, WALKED, "")),
        {
            f"statement 'Assert': no case in walk.{function}"
            for function in ("blocks", "expressions", "reads", "writes", "defines")
        },
    ),
    "a part in the walk": (
        lambda: replace(REAL, walk=changed(walk, WALKED, WALKED.replace(', "values"', ","))),
        {"statement 'Assert': no case in walk.expressions"},
    ),
    "an emitter": (
        lambda: replace(REAL, emitters=without(REAL.emitters, ir.Assert)),
        {"statement 'Assert': no emitter"},
    ),
    "a line of the grammar": (
        lambda: replace(REAL, printer=changed(printer, '      assert EXPR, "message" [', "      [")),
        {"statement 'Assert': no line in the grammar"},
    ),
}


@pytest.mark.parametrize("what", TAKEN)
def test_whatever_is_taken_away_is_missed_by_its_name_and_nothing_else_is(what: str) -> None:
    take, sentences = TAKEN[what]
    assert set(missing(take())) - set(ABSENT) == sentences


PACKAGE = Path(tilejit.__file__).parent


def folders(folder: Path) -> list[str]:
    """Its packages."""
    return sorted(f"{path.name}/" for path in folder.iterdir() if (path / "__init__.py").exists())


def test_the_map_of_contributing_names_every_folder_once() -> None:
    text = (PACKAGE.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.split("## The map\n")[1].split("\n## ")[0]
    assert sorted(re.findall(r"^\| `(\w+/)`", table, re.MULTILINE)) == folders(PACKAGE)
