"""The text of the reference page: what the package says of its public names and of the language, in one place."""

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
from tilejit.__main__ import _parser, simulator
from tilejit.dtypes import DType
from tilejit.environment import VARIABLES
from tilejit.errors import TilejitError
from tilejit.explanation import Explanation, VerdictRow
from tilejit.frontend.language import REQUIRED, Intrinsic
from tilejit.frontend.vocabulary import Namespace, intrinsics
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

All names, made from the library's own records and docstrings: `help(tj.cta.copy)` shows the same in Python. A test
keeps this page true. `import tilejit as tj`, and in the examples also `import numpy as np` and
`from tilejit import S, laneid`.
"""

#: heading -> the modules of `tilejit._PUBLIC` whose names stand below it
HOST: dict[str, tuple[str, ...]] = {
    "Kernels and launches": ("jit", "launches", "compiled", "ahead", "precompile", "tuning"),
    "Devices and arrays": ("runtime.devices", "runtime.arrays"),
    "Parameters and helpers": ("frontend.language", "frontend.annotations"),
    "Element types": ("dtypes",),
    "Layouts": ("layout",),
    "Asking the dispatcher": ("lower.ask",),
}

#: class -> those of its members that users need; of other classes all that have docstrings
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

#: class -> its members: what calls give that has no name in `tj`
RESULTS: dict[type, tuple[str, ...]] = {
    Verdict: ("declines", "draw", "plan", "span", "variant"),
    Explanation: ("notes", "rows"),
    VerdictRow: ("line", "source", "operation", "variant", "width", "rounds", "instructions", "limit", "declines"),
    Picture: ("save", "svg"),
    Tuning: ("best", "rows", "trials"),
    Trial: ("config", "median"),
}

#: module -> what it has for users
MODULES = {
    "tilejit.testing": "strategies of hypothesis for layouts, types and arrays, and a kernel against NumPy",
    "tilejit.simulator": "the simulator for PTX of any compiler",
}

INDENTED_BY = " " * 4
#: characters of a default that a signature shows
LONGEST_DEFAULT = 60


def reference() -> str:
    """The whole page."""
    sections = (_host, _words, _operations, _results, _errors, _modules, _environment, _command_line)
    body = "\n".join(part for section in sections for part in section())
    return f"{HEADER}\n{_contents(body)}\n{body}".rstrip("\n") + "\n"


def _contents(body: str) -> str:
    """Each section with links to what stands in it."""
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
    """As code hosts make them of headings: letters are small, and what was there before gets a number."""
    plain = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
    before = [plain[:k].count(anchor) for k, anchor in enumerate(plain)]
    return [f"{anchor}-{count}" if count else anchor for anchor, count in zip(plain, before, strict=True)]


def _host() -> Iterator[str]:
    for heading, modules in HOST.items():
        yield f"## {heading}\n"
        names = sorted((name for module in modules for name in tj._PUBLIC[module]), key=_order)
        # of what there are several of, one is enough
        types, axes = ([name for name in names if isinstance(getattr(tj, name), kind)] for kind in (DType, Axis))
        yield from (_public(name) for name in names if name not in (*types, *axes))
        rows = [(f"`tj.{n}`", t.kind, t.bits, f"`{t.numpy}`") for n, t in ((n, getattr(tj, n)) for n in types)]
        yield from [_table(("type", "kind", "bits", "in NumPy"), rows)] if rows else ()
        if axes:
            listed = ", ".join(f"`tj.{name}`" for name in axes)
            yield f"### Axes\n\n{listed}.\n\n{_prose(inspect.getdoc(Axis) or '')}"


def _order(name: str) -> tuple[bool, str]:
    """Functions before classes."""
    return isinstance(getattr(tj, name), type), name.lower()


def _public(name: str, home: object = tj, prefix: str = "tj.") -> str:
    """A public name of the host: how it is called, its docstring, its example, its members."""
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
    """Parameters with their defaults; the types stand in the stub."""
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
    """What a class has for users, in a table."""
    needed = MEMBERS.get(cls.__name__) if getattr(tj, cls.__name__, None) is cls else RESULTS.get(cls)
    rows: list[tuple[str, str]] = []
    for name in [name for name in dir(cls) if not name.startswith("_")] if needed is None else needed:
        member = inspect.getattr_static(cls, name, None)
        doc = inspect.getdoc(member) if isinstance(member, (*_CALLED, property, cached_property)) else None
        if doc or needed is not None:
            called = _signature(getattr(cls, name)) if isinstance(member, _CALLED) else ""
            rows.append((f"`.{name}{called}`", _escaped((doc or "").split("\n\n")[0].replace("\n", " "))))
    told = [row for row in rows if row[1]]
    also = ", ".join(name for name, doc in rows if not doc)
    return "\n".join([*([_table(("member", "is"), told)] if told else ()), *([f"Also {also}.\n"] if also else ())])


_CALLED = FunctionType, classmethod, staticmethod


def _words() -> Iterator[str]:
    """What is called in kernels without a scope: one by one, and elementwise functions and reductions as tables."""
    words = intrinsics()
    plain = [w for n, w in words.items() if isinstance(w, Intrinsic) and n not in ELEMENTWISE and n not in REDUCTIONS]
    yield "## Words of kernels\n"
    yield from map(_word, plain)
    yield "## Functions of each element\n"
    yield "Of scalars and of tiles: `y = tj.exp(x)`. `tj.cta.exp(dst, src)` writes a place, on each scope.\n"
    for family in FAMILIES:
        records = [record for record in vars(family).values() if isinstance(record, Elementwise)]
        yield f"### {family.__name__.rpartition('.')[2].replace('_', ' ').capitalize()}\n"
        yield _table(("call", "meaning", "takes and gives", "error"), map(_elementwise, records))
    yield "## Reductions\n"
    yield "Over all axes they give a scalar: `tj.max(x)`. `tj.cta.max(dst, src, axis)` writes a place, on each scope.\n"
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
    """names: of parameters, which stay as they are."""
    begun = text if text.partition(" ")[0] in names else text[:1].upper() + text[1:]
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
    """What is called on a scope; functions of each element and reductions are tables above."""
    scopes = ", ".join(" or ".join(f"`tj.{n}`" for n in (scope.name, *scope.aliases)) for scope in SCOPES.values())
    yield "## Operations on a scope\n"
    yield f"The threads of a scope carry an operation out together: {scopes}.\n"
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
    """Classes whose objects users get and never make."""
    yield "## What calls give\n"
    for cls in RESULTS:
        yield "\n".join([f"### {cls.__name__}\n", _prose(inspect.getdoc(cls) or ""), _members(cls)])


def _errors() -> Iterator[str]:
    yield "## Errors\n"
    for name in tj._PUBLIC["errors"]:
        error = getattr(tj, name)
        base = "" if error is TilejitError else f"A `{error.__bases__[0].__name__}`. "
        yield f"### tj.{name}\n\n{base}{_prose(inspect.getdoc(error) or '')}"


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
    yield _table(("variable", "values", "meaning", "where it isn't set"), rows)


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
        if action.dest == "simulator":
            yield "```\n" + "\n".join(simulator()) + "\n```\n"


def _prose(doc: str) -> str:
    """A docstring as Markdown: parameters as a list, what is indented as it is, and its example as code."""
    text, _, example = doc.partition("Example:\n")
    # what stands between fences is code already
    pieces = re.split(r"^(```.*?^```)$", text.strip(), flags=re.DOTALL | re.MULTILINE)
    blocks = ([piece] if k % 2 else map(_paragraph, piece.strip().split("\n\n")) for k, piece in enumerate(pieces))
    parts = [*(block for each in blocks for block in each), _code(textwrap.dedent(example).strip()) if example else ""]
    return "\n\n".join(filter(None, parts)).rstrip("\n") + "\n"


def _paragraph(block: str) -> str:
    if block.startswith(INDENTED_BY):
        return _code(textwrap.dedent(block)).rstrip("\n")
    return "\n".join(re.sub(r"^(\w+(?:, \w+)*): ", r"- \1: ", _escaped(line)) for line in block.splitlines())


def _escaped(text: str) -> str:
    """Text in which Markdown sees nothing but what stands between backticks."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([*<|\[\]])", r"\\\1", p) for p in parts)


def _code(text: str) -> str:
    return f"```python\n{text}\n```\n"


def _table(headings: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    lines = [headings, ("---",) * len(headings), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines) + "\n"
