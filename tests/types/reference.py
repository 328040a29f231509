"""The generator of the reference page, from the docstrings of public names and the records of the language."""

from __future__ import annotations

import argparse
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from types import FunctionType
from typing import get_origin

import tilejit as tj
from tests.support.notebooks import GUIDE
from tests.types import subset
from tilejit.__main__ import _parser, simulator
from tilejit.dtypes import DType
from tilejit.environment import VARIABLES
from tilejit.errors import TilejitError
from tilejit.explanation import Explanation, VerdictRow
from tilejit.frontend.language import REQUIRED, Intrinsic
from tilejit.frontend.words import Namespace, intrinsics
from tilejit.layout.axes import Axis
from tilejit.lower import Verdict
from tilejit.ops.elementwise import ELEMENTWISE, FAMILIES, RULES, Elementwise
from tilejit.ops.reduce import REDUCTIONS
from tilejit.ops.tile import CALLS, Shorthand
from tilejit.scopes import SCOPES
from tilejit.svg import Picture
from tilejit.tuning.table import Trial, Tuning

REFERENCE = GUIDE / "reference.md"

HEADER = """# Reference

All public names, generated from docstrings and from the library's records; `help(tj.cta.copy)` shows the same text. A
test compares this page with them. The examples assume `import tilejit as tj`, `import numpy as np` and
`from tilejit import S, laneid`.
"""

#: heading -> the modules of `tilejit._PUBLIC` whose names are listed under it
HOST: dict[str, tuple[str, ...]] = {
    "Kernels and launches": ("jit", "launches", "compiled", "ahead", "precompile", "tuning"),
    "Devices and arrays": ("runtime.devices", "runtime.arrays"),
    "Parameters and helpers": ("frontend.language", "frontend.annotations"),
    "Element types": ("dtypes", "nibbles"),
    "Layouts": ("layout",),
    "Asking the dispatcher": ("lower.ask",),
}

#: heading -> the text below it
NOTES = {
    "Parameters and helpers": (
        "An annotation of `tj.Tensor` makes a parameter an array and `tj.constexpr` makes it a compile-time value, "
        "which is part of the signature. All other parameters are scalars, whose type is part of the signature and "
        "whose value is not: a launch with another value runs the same compiled kernel. An element type such as "
        "`tj.int32` fixes the type of a scalar. `int` means int32, or int64 if the value needs it, `float` means "
        "float32, and `bool` bool_; a Python number for a parameter without an annotation gets the same types, and a "
        "NumPy scalar keeps its own. A launch converts the argument to the type of the parameter. It raises "
        "LaunchError for a float where an integer is needed and for an integer that the type can't hold, and warns "
        "(PrecisionWarning) if float32 rounds a number with which the kernel computes in float64."
    ),
    "Element types": (
        "int4x2, uint4x2 and float4_e2m1fn_x2 are bytes of two 4-bit numbers; shapes, strides and slices count bytes. "
        "Arguments are arrays of uint8, of which a kernel takes a view, `X.view(tj.int4x2)`. Packed tiles are loaded, "
        "stored, copied, sliced, reshaped, transposed, gathered, flipped, rolled and split, viewed as uint8 by "
        "`.view(tj.uint8)`, and unpacked by `tj.unpack`, which gives the numbers; `tj.pack` makes packed tiles. "
        "Arithmetic, comparisons, `astype`, reductions, fill values, atomics, `tj.where` and `tj.cat` refuse them."
    ),
    "Functions of each element": (
        "**Promotion.** The kinds of types are ordered: bool_, integers, floats. An operation on two types computes "
        "in the type of the higher kind, and within a kind in the wider type; float16 with bfloat16 computes in "
        "float32. Signed with unsigned integers compute in the narrowest signed type that holds both; for uint64 "
        "with a signed type there is none, which is a KernelTypeError. Comparisons of signed with unsigned values "
        "are exact, `&`, `|` and `^` compute in the unsigned type of the larger width, and shifts in the type of the "
        "left operand. Unlike NumPy, an integer never widens a float: int32 with float32 gives float32, and int64 "
        "with float16 gives float16. A literal has no type of its own and takes that of the other operand, if its "
        "kind is not higher: `x + 1.0` of an integer x gives float32. A literal that the type can't hold is a "
        "KernelTypeError. A scalar takes the type of a tile in the same way, and wraps. Without another operand a "
        "literal is int32, float32 or bool_. `/` of integers gives float32, arithmetic on bool_ gives int32, and "
        "float8 values must be converted before arithmetic."
    ),
    "Reductions": (
        "Sums and products of bool_ and of integers under 32 bits are accumulated in int32, which is also the type "
        "of the result. Those of float16 and bfloat16 are accumulated in float32 and rounded once, to the type of "
        "the tile. All other types are accumulated in their own type, in which integers wrap. `dtype=` sets the type "
        "of the result; elements are then accumulated as elements of that type are. `initial=`, a number or a scalar, "
        "is combined with the elements of each result, and is the result if there are none. It is converted to the "
        "type in which they are combined; a float for integers is refused."
    ),
}

#: exception -> its causes; classes without a name in `tj`
OTHER_ERRORS = {
    "tilejit.runtime.workers.WorkerError": "A `TilejitError`: a process that compiles has ended, or was stopped.",
    "tilejit.tuning.search.EmptyGrid": "A `LaunchError`: a launch that is timed has a grid without CTAs.",
    "AttributeError": "A module, a namespace, a scope or a kernel has no such name, or an object is immutable.",
    "TypeError": (
        "`len` of a `DeviceArray` of rank 0; an argument of `tilejit.testing` that isn't an element type; `tj.pack` on "
        "the host to a type that isn't packed."
    ),
    "ValueError": (
        "An argument of `tilejit.testing` out of range; `np.asarray` of a `DeviceArray` with `copy=False`; a shape or "
        "an order that `tj.pack` or `tj.interleave4` can't take on the host."
    ),
    "ImportError": "A strategy of `tilejit.testing` needs hypothesis, which isn't installed.",
}

#: class -> the members that users need; for other classes, all members with docstrings
MEMBERS: dict[str, tuple[str, ...]] = {
    "Kernel": ("compile", "explain", "precompile", "signatures"),
    "Compiled": (
        "explain", "lane_ir", "llvm_ir", "local_bytes", "name", "occupancy", "ptx", "registers", "save", "shared_bytes",
        "signature", "spills", "target", "threads", "tile_ir", "timings", "usage", "verdicts",
    ),
    "CompiledKernel": (),
    "PreparedLaunch": (),
    "DeviceArray": ("copy_from", "device", "dtype", "free", "nbytes", "ndim", "numpy", "shape", "size", "strides"),
}

#: class of results without a name in `tj` -> its members
RESULTS: dict[type, tuple[str, ...]] = {
    Verdict: ("declines", "draw", "plan", "span", "variant"),
    Explanation: ("notes", "rows"),
    VerdictRow: ("line", "source", "operation", "variant", "width", "rounds", "instructions", "limit", "declines"),
    Picture: ("save", "svg"),
    Tuning: ("best", "rows", "trials"),
    Trial: ("config", "median"),
}

#: module -> its contents for users
MODULES = {
    "tilejit.testing": (
        "hypothesis strategies for layouts, types and arrays, comparisons of a kernel with NumPy, a judge of kernels"
    ),
    "tilejit.kernels": "kernels for the operations of language models; `import tilejit` doesn't load them",
    "tilejit.simulator": "the simulator, for PTX of any compiler",
}

INDENTED_BY = " " * 4
#: the most characters of a default in a signature
LONGEST_DEFAULT = 60


def reference() -> str:
    sections = (_host, _python, _words, _operations, _results, _errors, _modules, _environment, _command_line)
    body = "\n".join(part for section in sections for part in section())
    return f"{HEADER}\n{_contents(body)}\n{body}".rstrip("\n") + "\n"


def _contents(body: str) -> str:
    """Return the table of contents: each section with links to its subsections."""
    lines: list[str] = []
    headings = re.findall(r"^(##|###) (.*)$", without_code(body), re.MULTILINE)
    for (marks, title), anchor in zip(headings, anchors([title for _, title in headings]), strict=True):
        if marks == "##":
            lines.append(f"- [{title}](#{anchor})")
        else:
            joint = ": " if lines[-1].count("](") == 1 else ", "
            lines[-1] += f"{joint}[{title}](#{anchor})"
    wrapped = (textwrap.wrap(line, 120, subsequent_indent="  ", break_on_hyphens=False) for line in lines)
    return "\n".join(line for lines in wrapped for line in lines) + "\n"


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(titles: list[str]) -> list[str]:
    """Return the anchors that code hosts derive from headings: lower case, with a number for a repeated one."""
    plain = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
    before = [plain[:k].count(anchor) for k, anchor in enumerate(plain)]
    return [f"{anchor}-{count}" if count else anchor for anchor, count in zip(plain, before, strict=True)]


def _host() -> Iterator[str]:
    for heading, modules in HOST.items():
        yield f"## {heading}\n"
        yield from [_note(heading)] if heading in NOTES else ()
        names = sorted((name for module in modules for name in tj._PUBLIC[module]), key=_order)
        # one entry describes all types, and one all axes
        types, axes = ([name for name in names if isinstance(getattr(tj, name), kind)] for kind in (DType, Axis))
        yield from (_public(name) for name in names if name not in (*types, *axes))
        rows = [(f"`tj.{n}`", t.kind, t.bits, f"`{t.numpy}`") for n, t in ((n, getattr(tj, n)) for n in types)]
        yield from [_table(("type", "kind", "bits", "in NumPy"), rows)] if rows else ()
        if axes:
            listed = ", ".join(f"`tj.{name}`" for name in axes)
            yield f"### Axes\n\n{listed}.\n\n{_prose(inspect.getdoc(Axis) or '')}"


def _filled(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False) + "\n"


def _note(heading: str) -> str:
    return _filled(NOTES[heading])


def _order(name: str) -> tuple[bool, str]:
    return isinstance(getattr(tj, name), type), name.lower()


def _public(name: str, home: object = tj, prefix: str = "tj.") -> str:
    """Return the entry of a public name of the host: its signature, docstring, example and members."""
    value = getattr(home, name)
    parts = [f"### {prefix}{name}\n"]
    if isinstance(value, float):
        return f"{parts[0]}\n`float({str(value)!r})`.\n"
    if get_origin(value) is not None:
        return f"{parts[0]}\n`{value}`, for annotations.\n"
    if callable(value) and (home is not tj or name not in MEMBERS):
        signature = _signature(value)
        parts += [] if signature.startswith("(*args, **") else [_code(f"{prefix}{name}{signature}")]
    parts += [_prose(doc) for doc in [inspect.getdoc(value)] if doc]
    if isinstance(value, type) and not issubclass(value, Exception):
        parts.append(_members(value))
    return "\n".join(filter(None, parts))


def _signature(value: Callable[..., object]) -> str:
    """Return the parameters with their defaults; their types are in the stub."""
    if isinstance(value, Intrinsic) or not callable(value):
        return str(inspect.signature(value))
    try:
        parameters = list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        return "(...)"
    shown: list[str] = []
    for k, p in enumerate(parameters):
        if p.name == "self":
            continue
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        before = parameters[k - 1].kind if k else p.POSITIONAL_OR_KEYWORD
        if p.kind is p.KEYWORD_ONLY and before not in (p.KEYWORD_ONLY, p.VAR_POSITIONAL):
            shown.append("*")
        shown.append(star + p.name + ("" if p.default is p.empty else f"={_default(p.default)}"))
    return f"({', '.join(shown)})"


def _default(value: object) -> str:
    text = repr(value)
    return "..." if text.startswith("<") or len(text) > LONGEST_DEFAULT else text


def _members(cls: type) -> str:
    """Return a table of the members of a class."""
    needed = MEMBERS.get(cls.__name__) if getattr(tj, cls.__name__, None) is cls else RESULTS.get(cls)
    rows: list[tuple[str, str]] = []
    for name in [name for name in dir(cls) if not name.startswith("_")] if needed is None else needed:
        member = inspect.getattr_static(cls, name, None)
        doc = inspect.getdoc(member) if isinstance(member, (*_CALLED, property, cached_property)) else None
        if doc or needed is not None:
            called = _signature(getattr(cls, name)) if isinstance(member, _CALLED) else ""
            rows.append((f"`.{name}{called}`", _escaped((doc or "").split("\n\n")[0].replace("\n", " "))))
    described = [row for row in rows if row[1]]
    also = ", ".join(name for name, doc in rows if not doc)
    table = [_table(("member", "is"), described)] if described else []
    return "\n".join([*table, *([f"Also {also}.\n"] if also else ())])


_CALLED = FunctionType, classmethod, staticmethod


def _python() -> Iterator[str]:
    """Yield the features of Python that kernels can use, and those that the compiler refuses, with its hints."""
    yield "## Python in kernels\n"
    yield _filled(subset.INTRODUCTION)
    yield _table(("works", "example"), ((feature, subset.shown(code)) for feature, code in subset.WORKS))
    rows = ((feature, subset.shown(code), _escaped(subset.remedy(code))) for feature, code in subset.REFUSED)
    yield _table(("is refused", "example", "the error's help"), rows)


def _words() -> Iterator[str]:
    """Yield the calls without a scope: one by one, but elementwise functions and reductions in tables."""
    words = intrinsics()
    plain = [w for n, w in words.items() if isinstance(w, Intrinsic) and n not in ELEMENTWISE and n not in REDUCTIONS]
    yield "## Words of kernels\n"
    yield from map(_word, plain)
    yield "## Functions of each element\n"
    yield "They take scalars and tiles: `y = tj.exp(x)`. `tj.cta.exp(dst, src)` writes to `dst`, on each scope.\n"
    yield _note("Functions of each element")
    for family in FAMILIES:
        records = [record for record in vars(family).values() if isinstance(record, Elementwise)]
        yield f"### {family.__name__.rpartition('.')[2].replace('_', ' ').capitalize()}\n"
        yield _table(("call", "meaning", "takes and gives", "error"), map(_elementwise, records))
    yield "## Reductions\n"
    yield _filled("Over all axes they give a scalar: `tj.max(x)`. On each scope, `tj.cta.max(dst, src)` reduces a "
                  "local tile to `dst`, a local tile or a region of shared or global memory.")
    yield _note("Reductions")
    rows = [(f"`tj.{name}{words[name].__signature__}`", _escaped(words[name].meaning)) for name in REDUCTIONS]
    yield _table(("call", "meaning"), rows)
    for space in (w for w in words.values() if isinstance(w, Namespace) and w.name != "fast"):
        yield f"## tj.{space.name}\n"
        for name in dir(space):
            member = getattr(space, name)
            is_word = isinstance(member, Intrinsic)
            yield _word(member) if is_word else _public(name, space, f"tj.{space.name}.")


def _word(word: Intrinsic) -> str:
    parts = [f"### tj.{word.name}\n", _called(word), f"{_escaped(_sentence(word.meaning, word.names))}\n"]
    return "\n".join([*parts, *_parameters(word), _code(word.example)])


def _called(word: Intrinsic) -> str:
    gives = "" if word.gives == "None" else f" → {word.gives}"
    return f"`tj.{word.name}{word.__signature__}`{gives}\n"


def _sentence(text: str, names: Iterable[str] = ()) -> str:
    """names: of parameters, which keep their case."""
    first = re.match(r"\w*", text)
    begun = text if first and first[0] in names else text[:1].upper() + text[1:]
    return f"{begun.removesuffix('.')}."


def _parameters(word: Intrinsic) -> Iterator[str]:
    rows = [
        (f"`{p.name}`", f"`{p.type}`".replace("|", "\\|"), _escaped(p.meaning),
         "" if p.default is REQUIRED else f"`{p.default!r}`")
        for p in word.parameters
    ]
    if rows:
        yield _table(("parameter", "type", "is", "default"), rows)


def _elementwise(record: Elementwise) -> tuple[str, ...]:
    operands = ", ".join(record.operands)
    called = f"`tj.{record.name}({operands})`"
    if record.approximation is not None:
        called = f"`tj.{record.name.replace('_', '.', 1)}({operands})`, also `tj.{record.name}({operands})`"
    error = ""
    if record.accuracy is not None:
        error = "{:g} ulp in float32, {:g} in float64".format(*record.accuracy.ulp)
    elif record.approximation is not None:
        error = str(record.approximation)
    return called, *map(_escaped, (record.meaning, RULES[record.kind], error))


def _operations() -> Iterator[str]:
    """Yield the operations on a scope, except elementwise functions and reductions."""
    scopes = ", ".join(" or ".join(f"`tj.{n}`" for n in (scope.name, *scope.aliases)) for scope in SCOPES.values())
    yield "## Operations on a scope\n"
    yield f"The threads of a scope execute an operation together: {scopes}.\n"
    for name, call in CALLS.items():
        if name in ELEMENTWISE or name in REDUCTIONS:
            continue
        word = getattr(getattr(tj, str(call.scopes[-1])), name)
        meaning = _escaped(_sentence(word.meaning, word.names))
        parts = [f"### tj.{word.name}\n", _called(word), f"{meaning}\n", *_parameters(word)]
        if len(call.scopes) < len(SCOPES):
            parts.append(f"On {' and '.join(f'`tj.{scope}`' for scope in call.scopes)}.\n")
        if isinstance(call, Shorthand) and call.operation is not None:
            parts.append(f"Short for the operation {call.operation.name}.\n")
        yield "\n".join([*parts, _code(word.example)])


def _results() -> Iterator[str]:
    """Yield the classes of results, which users don't construct."""
    yield "## Results of calls\n"
    for cls in RESULTS:
        yield "\n".join([f"### {cls.__name__}\n", _prose(inspect.getdoc(cls) or ""), _members(cls)])


def _errors() -> Iterator[str]:
    yield "## Errors\n"
    for name in tj._PUBLIC["errors"]:
        error = getattr(tj, name)
        base = "" if error is TilejitError else f"A `{error.__bases__[0].__name__}`. "
        yield f"### tj.{name}\n\n{base}{_prose(inspect.getdoc(error) or '')}"
    rows = [(f"`{name}`", causes) for name, causes in OTHER_ERRORS.items()]
    yield f"### Other exceptions\n\n{_table(('class', 'raised for'), rows)}"


def _modules() -> Iterator[str]:
    from importlib import import_module

    for name, meaning in MODULES.items():
        yield f"## {name}\n\n{_sentence(meaning)}\n"
        module = import_module(name)
        prefix = name.rpartition(".")[2] + "."
        yield from (_public(each, module, prefix) for each in module.__all__ if callable(getattr(module, each)))


def _environment() -> Iterator[str]:
    yield "## Environment variables\n"
    rows = [(f"`{v.name}`", v.values, v.meaning, v.unset) for v in VARIABLES]
    yield _table(("variable", "values", "meaning", "if unset"), rows)


def _command_line() -> Iterator[str]:
    yield "## Command line\n"
    (commands,) = (a for a in _parser()._actions if isinstance(a, argparse._SubParsersAction))
    for action in commands._choices_actions:
        yield f"### python -m tilejit {action.dest}\n\n{_escaped(_sentence(action.help or ''))}\n"
        rows = [
            (" ".join(f"`{o}`" for o in a.option_strings) or f"`{a.metavar or a.dest}`",
             _escaped(a.help or " or ".join(a.choices or ())))
            for a in commands.choices[action.dest]._actions
            if not isinstance(a, argparse._HelpAction)
        ]
        if rows:
            yield _table(("argument", "is"), rows)
        epilog = commands.choices[action.dest].epilog
        if epilog:
            yield f"```\n{epilog.strip()}\n```\n"
        if action.dest == "simulator":
            yield "```\n" + "\n".join(simulator()) + "\n```\n"


def _prose(doc: str) -> str:
    """Convert a docstring to Markdown: parameters to a list, indented text and the example to code."""
    text, _, example = doc.partition("Example:\n")
    # text between fences is code already
    pieces = re.split(r"^(```.*?^```)$", text.strip(), flags=re.DOTALL | re.MULTILINE)
    blocks = ([piece] if k % 2 else map(_paragraph, piece.strip().split("\n\n")) for k, piece in enumerate(pieces))
    parts = [*(block for each in blocks for block in each), _code(textwrap.dedent(example).strip()) if example else ""]
    return "\n\n".join(filter(None, parts)).rstrip("\n") + "\n"


def _paragraph(block: str) -> str:
    if block.startswith(INDENTED_BY):
        return _code(textwrap.dedent(block)).rstrip("\n")
    return "\n".join(re.sub(r"^(\w+(?:, \w+)*): ", r"- \1: ", _escaped(line)) for line in block.splitlines())


def _escaped(text: str) -> str:
    """Escape Markdown, except between backticks."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([*<|\[\]])", r"\\\1", p) for p in parts)


def _code(text: str) -> str:
    return f"```python\n{text}\n```\n"


def _table(headings: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    lines = [headings, ("---",) * len(headings), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines) + "\n"
