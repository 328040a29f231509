"""What each operation, instruction, variant and node lacks, by name: `missing(REAL)` is a list of sentences."""

from __future__ import annotations

import importlib
import math
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, get_args

import numpy as np

import tilejit as tj
from tests.codegen.math_host import run
from tests.ir import examples
from tests.ir.examples import Example, held
from tests.support import goldens
from tests.support.operations import ways_to_draw
from tilejit import isa, lower
from tilejit.__main__ import operations
from tilejit.codegen import generate
from tilejit.codegen.statements import EMITTERS
from tilejit.dtypes import DTYPES, float32, float64
from tilejit.ir import nodes as ir
from tilejit.ir import verify, walk
from tilejit.ir.params import Param
from tilejit.ir.text import printer
from tilejit.ir.text.parser import from_text
from tilejit.isa import ROWS, Family, OpenFamily, Row
from tilejit.lower import VARIANTS, Variant, lowering
from tilejit.lower.passes.storage import placed
from tilejit.ops.elementwise import ELEMENTWISE, Elementwise
from tilejit.ops.tile import TILE_OPERATIONS, TileOperation
from tilejit.simulator.opcodes import INSTRUCTIONS
from tilejit.target import target


@dataclass(frozen=True)
class Golden:
    """A golden file: a kernel at both levels, and for what it is compiled."""

    arch: str
    tile: ir.Kernel
    lane: ir.Kernel


@dataclass(frozen=True)
class Tables:
    """All that is listed somewhere, each by name.

    ways_to_draw: how the strategy for operations draws one's operands. listing: the lines of
    `python -m tilejit operations`. topics: the modules of the instruction table. opcodes: of the simulator,
    a name -> the patterns of its modifiers. variant_modules: those that hold variants.
    nodes: kind of node -> its classes. examples: name of a class -> its example. walk, printer: modules, or what
    replaces them. parse: text -> kernel. verify: (kernel, level) -> violations. emitters: class of statement -> what
    writes it. generate: a lane kernel to PTX.
    """

    elementwise: Mapping[str, Elementwise]
    tile_operations: Mapping[str, TileOperation]
    ways_to_draw: Callable[[TileOperation], Sequence[object]]
    listing: tuple[str, ...]
    rows: Mapping[str, Row]
    topics: tuple[ModuleType, ...]
    opcodes: Mapping[str, Any]
    variants: tuple[Variant[Any], ...]
    variant_modules: tuple[ModuleType, ...]
    goldens: Mapping[str, Golden]
    nodes: Mapping[str, tuple[type, ...]]
    examples: Mapping[str, Example]
    walk: Any
    printer: Any
    parse: Callable[[str], ir.Kernel]
    verify: Callable[[ir.Kernel, str], list[Any]]
    emitters: Mapping[type, object]
    generate: Callable[[ir.Kernel], object]


def missing(tables: Tables) -> list[str]:
    """What lacks what, one sentence each; only what isn't in its table at all, where there is any such thing.

    What is in no table makes whatever uses it incomplete, too.
    """
    unlisted = [*_unlisted_operations(tables), *_unlisted_rows(tables), *_unlisted_variants(tables)]
    parts = (_elementwise, _tile_operations, _rows, _families, _variants, _nodes)
    return unlisted or [sentence for part in parts for sentence in part(tables)]


def _unlisted_operations(tables: Tables) -> Iterator[str]:
    variants = [variant for module in tables.variant_modules for variant in _variants_of(module)]
    for name in dict.fromkeys(name for variant in variants for name in variant.operations):
        if name not in tables.tile_operations:
            listed = ", ".join(sorted(v.name for v in variants if name in v.operations))
            yield f"tile operation {name!r}: no record in TILE_OPERATIONS; variants of it: {listed}"


def _unlisted_rows(tables: Tables) -> Iterator[str]:
    yield from (
        f"instruction {name!r}: no row in the table" for name in _topic_rows(tables.topics) if name not in tables.rows
    )


def _unlisted_variants(tables: Tables) -> Iterator[str]:
    for module in tables.variant_modules:
        for variant in _variants_of(module):
            if not any(listed is variant for listed in tables.variants):
                yield f"{_called(variant)}: no line in VARIANTS"


def _variants_of(module: ModuleType) -> list[Variant[Any]]:
    return [value for value in vars(module).values() if isinstance(value, Variant)]


def _called(variant: Variant[Any]) -> str:
    return f"variant {variant.name!r} of {', '.join(variant.operations[:2])}"


def _elementwise(tables: Tables) -> Iterator[str]:
    for name, op in tables.elementwise.items():
        lacks = [*_meaning_of(op), *_code_of(op), *_accuracy_of(op)]
        if not any(line.startswith(f"{name}(") and op.meaning in line for line in tables.listing):
            lacks.append("no line in `python -m tilejit operations`")
        if getattr(getattr(tj, name, None), "meaning", None) != op.meaning:
            lacks.append("no tj function that says what it means")
        yield from (f"elementwise operation {name!r}: {what}" for what in lacks)


def _meaning_of(op: Elementwise) -> Iterator[str]:
    if not callable(op.formula):
        yield "no NumPy reference"
    if not op.meaning:
        yield "no meaning"
    if op.accuracy is not None and not op.special:
        yield "no special values"


def _code_of(op: Elementwise) -> Iterator[str]:
    """Scalar code for each type in which its type rule lets it compute."""
    computed = set()
    for dtype in DTYPES.values():
        rule = op.result_type((DTYPES["bool_"],) * op.conditions + (dtype,) * (op.arity - op.conditions))
        if not isinstance(rule, str):
            computed.add(rule[0])
    for dtype in sorted(computed, key=str):
        is_half = dtype.is_float and dtype.bits < 32
        if op.code(dtype) is None and not (is_half and op.floats is not None):
            yield f"no scalar code for {dtype}"


def _accuracy_of(op: Elementwise) -> Iterator[str]:
    """A bound for each type of float, or NumPy's bits."""
    for column, dtype in enumerate((float32, float64)):
        if op.approximation is not None:
            is_bound = 0 < op.approximation.error(np.ones(1), np.ones(1))[0] < 1
        elif op.accuracy is not None:
            bounds = op.accuracy.ulp
            is_bound = column < len(bounds) and math.isfinite(bounds[column]) and bounds[column] > 0
        else:
            is_bound = op.name not in ELEMENTWISE or _gives_numpys_bits(op.name, dtype.name)
        if not is_bound:
            yield f"no accuracy bound for {dtype}"


@cache
def _gives_numpys_bits(name: str, dtype: str) -> bool:
    """Whether scalar code, run on the host, and NumPy agree on every sample; True where there is nothing to run."""
    op = ELEMENTWISE[name]
    if op.floats is None or op.gives_bool or op.arity > 2:
        return True
    rng = np.random.default_rng(0)
    samples = [(2 * rng.normal(size=2000)).astype(dtype) for _ in range(op.arity)]
    with np.errstate(all="ignore"):
        wanted = op.formula(*samples)
    return np.array_equal(run(name, *samples), wanted, equal_nan=True)


def _tile_operations(tables: Tables) -> Iterator[str]:
    """Elementwise ones have the goldens of their variants."""
    accepted = {name for variant in tables.variants for name in variant.operations}
    lowered = _named(ir.TileOp, (golden.tile for golden in tables.goldens.values()))
    for name, op in tables.tile_operations.items():
        lacks = []
        if not callable(op.reference):
            lacks.append("no NumPy reference")
        if not op.example:
            lacks.append("no example")
        if not op.meaning:
            lacks.append("no meaning")
        for scope in op.scopes if op.is_called else ():
            if getattr(getattr(getattr(tj, scope.name), name, None), "meaning", None) != op.meaning:
                lacks.append(f"no function of tj.{scope.name} that says what it means")
        if name not in accepted:
            lacks.append("no variant")
        if not tables.ways_to_draw(op):
            lacks.append("no way to draw its operands in tests/support/operations.py")
        if name not in tables.elementwise and name not in lowered:
            lacks.append("no golden")
        yield from (f"tile operation {name!r}: {what}" for what in lacks)


def _named(kind: type[ir.TileOp] | type[ir.Instruction], kernels: Iterable[ir.Kernel]) -> set[str]:
    """The names of the statements of one class in kernels."""
    return {stmt.name for kernel in kernels for stmt in walk.statements(kernel.body) if isinstance(stmt, kind)}


def _topic_rows(topics: tuple[ModuleType, ...]) -> dict[str, Row]:
    """Every row that a topic holds, in a name of its own, a tuple or a family."""
    made: dict[str, Row] = {}
    for topic in topics:
        for value in vars(topic).values():
            rows = value.rows() if isinstance(value, Family) else value if isinstance(value, tuple) else (value,)
            made |= {row.name: row for row in rows if isinstance(row, Row)}
    return made


def _rows(tables: Tables) -> Iterator[str]:
    for name, row in _topic_rows(tables.topics).items():
        lacks = []
        if not row.meaning:
            lacks.append("no meaning")
        if not row.source:
            lacks.append("no source")
        lacks += [f"no opcode in the simulator for {text}" for text in _unknown_opcodes(row, tables.opcodes)]
        yield from (f"instruction {name!r}: {what}" for what in lacks)


def _unknown_opcodes(row: Row, opcodes: Mapping[str, Any]) -> Iterator[str]:
    """What of the row's text the simulator doesn't know."""
    for statement in row.text.split(";"):
        opcode = re.match(r"\s*([a-z]\w*)([.\w:]*)", statement)
        if opcode and not any(re.fullmatch(form[0], opcode[2]) for form in opcodes.get(opcode[1], ())):
            yield opcode[0].strip()


def _families(tables: Tables) -> Iterator[str]:
    lowered = _named(ir.Instruction, (golden.lane for golden in tables.goldens.values()))
    for topic in tables.topics:
        for family in vars(topic).values():
            if isinstance(family, OpenFamily) and all(family.named(name) is None for name in lowered):
                yield f"family of instructions {family.name!r}: no golden"
            if isinstance(family, Family) and lowered.isdisjoint(row.name for row in family.rows()):
                yield f"family of instructions {family.name!r}: no golden"


#: in the docstring of a module of variants, once for each variant
WORDS = ("accepts:", "emits:")


def _variants(tables: Tables) -> Iterator[str]:
    chosen = [variant for golden in tables.goldens.values() for variant in _chosen(golden, tables.variants)]
    for module in tables.variant_modules:
        variants, said = _variants_of(module), module.__doc__ or ""
        for variant in variants:
            lacks = [] if any(v is variant for v in chosen) else ["no golden"]
            lacks += [f"no {word!r} in its docstring" for word in WORDS if said.count(word) < len(variants)]
            if len(variants) > 1 and not re.search(rf"^{variant.name}: ", said, re.MULTILINE):
                lacks.append("no paragraph in its docstring")
            yield from (f"{_called(variant)}: {what}" for what in lacks)


def _chosen(golden: Golden, variants: tuple[Variant[Any], ...]) -> list[Variant[Any]]:
    """The variants of a golden's operations; none if some operation has no variant."""
    with suppress(tj.DispatchError):
        return [v.chosen for v in lowering.lower(golden.tile, target(golden.arch), variants).verdicts]
    return []


def _nodes(tables: Tables) -> Iterator[str]:
    for kind, classes in tables.nodes.items():
        for cls in classes:
            example = tables.examples.get(cls.__name__)
            lacks = ["no example"] if example is None else _lacks(tables, kind, cls, example)
            yield from (f"{kind} {cls.__name__!r}: {what}" for what in lacks)


def _lacks(tables: Tables, kind: str, cls: type, example: Example) -> Iterator[str]:
    assert type(example.node) is cls
    text = _attempt(tables.printer.to_text, example.sound)
    if not isinstance(text, str):
        yield "no case in the printer"
    elif _attempt(tables.parse, text) != example.sound:
        yield "no case in the parser"
    if _attempt(tables.verify, example.sound, example.level) != []:
        yield "no case in the verifier"
    elif example.broken is None or not tables.verify(example.broken, example.level):
        yield "no violation where it is broken"
    if isinstance(text, str) and not _is_documented(tables, kind, example.node):
        yield "no line in the grammar"
    if kind != "parameter":
        yield from (f"no case in walk.{function}" for function in _not_walked(tables.walk, kind, example.node))
    is_lane = example.level == "lane"
    if (kind == "statement" and cls not in tables.emitters) or (
        is_lane and isinstance(_attempt(tables.generate, example.sound), Exception)
    ):
        yield "no emitter"


def _attempt(function: Callable[..., object], *args: object) -> object:
    """What the function gives, or what it raises, which a case that doesn't exist may be anything."""
    try:
        return function(*args)
    except Exception as error:
        return error


def _not_walked(walk: Any, kind: str, node: Any) -> Iterator[str]:
    """The functions of the walk that don't give what the node's fields hold, or raise."""
    parts = list(held(node))
    blocks = [part for part in parts if isinstance(part, tuple)]
    values = [part for part in parts if not isinstance(part, tuple)]
    wanted = {
        "statement": {"blocks": blocks, "expressions": values},
        "expression": {"operands": values},
        "place": {"indices": values},
    }
    for function, expected in wanted[kind].items():
        if _attempt(lambda f=function: list(getattr(walk, f)(node))) != expected:
            yield function
    if kind != "statement":
        return
    answers = {
        "reads": _attempt(lambda: list(walk.reads(node))),
        "writes": _attempt(lambda: list(walk.writes(node))),
        "defines": _attempt(walk.defines, node),
    }
    yield from (function for function, answer in answers.items() if isinstance(answer, Exception))


def _is_documented(tables: Tables, kind: str, node: Any) -> bool:
    """Whether the grammar has the word with which a statement begins, or the name of a place or a parameter."""
    grammar = tables.printer.__doc__ or ""
    if kind == "expression":
        return not (type(node).__doc__ or "").startswith(f"{type(node).__name__}(")
    if kind == "place":
        return type(node).__name__.upper() in grammar
    if kind == "parameter":
        return type(node).__name__.removesuffix("Param").lower() in grammar
    word = next(tables.printer._stmt(node, 0)).split()[0]
    scope, _, name = word.partition(".")
    if name:
        word = "SCOPE.OPERATION" if name in tables.tile_operations else f"SCOPE.{name}"
    return re.search(rf"(?<!\S){re.escape(word)}(?!\S)", grammar) is not None


def _modules(package: ModuleType) -> tuple[ModuleType, ...]:
    """The modules in a package and in the packages within it."""
    names = [info.name for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    return tuple(importlib.import_module(name) for name in names)


def _golden(path: str) -> Golden:
    arch, tile, lane = goldens.read(path)
    return Golden(arch, from_text(tile), from_text(lane))


@cache
def _generated(kernel: ir.Kernel) -> object:
    return generate(placed(kernel), target(kernel.target))


REAL = Tables(
    elementwise=ELEMENTWISE,
    tile_operations=TILE_OPERATIONS,
    ways_to_draw=ways_to_draw,
    listing=tuple(operations()),
    rows=ROWS,
    topics=tuple(module for module in _modules(isa) if hasattr(module, "ROWS")),
    opcodes=INSTRUCTIONS,
    variants=VARIANTS,
    variant_modules=tuple(m for m in _modules(lower) if _variants_of(m)),
    goldens={path: _golden(path) for path in goldens.cases()},
    nodes={
        "statement": get_args(ir.Stmt),
        "expression": get_args(ir.Expr),
        "place": get_args(walk.Place),
        "parameter": get_args(Param),
    },
    examples={**examples.STATEMENTS, **examples.EXPRESSIONS, **examples.PLACES, **examples.PARAMETERS},
    walk=walk,
    printer=printer,
    parse=from_text,
    verify=verify.verify,
    emitters=EMITTERS,
    generate=_generated,
)
