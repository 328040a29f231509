"""The text of `tilejit/__init__.pyi`, made from what the package says of its public names and of the language."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import tilejit
from tilejit.dtypes import DTYPES
from tilejit.frontend.language import REQUIRED, CallParameter, Intrinsic
from tilejit.frontend.words import EACH, OLD, REDUCED, SAME, Namespace, ScopeNamespace, intrinsics

STUB = Path(tilejit.__file__).with_suffix(".pyi")

HEADER = '''"""Made by `pytest tests/types --bless`, from the records of the language: don't edit it."""

# mypy: disable-error-code="overload-overlap"
# ruff: noqa
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, TypeVar, overload

from numpy.typing import DTypeLike

'''

VARIABLES = """
_Same = TypeVar("_Same")
_Value = TypeVar("_Value", bound=Tile | float)

__version__: str
"""

#: what isn't imported from its home: to a type checker it is something else than at run time
DECLARED = {"constexpr": "constexpr: TypeAlias = Any\n", "DType": "DType: TypeAlias = _ElementType\n"}


def stub() -> str:
    """The whole file."""
    parts = [HEADER, *_imports(), VARIABLES, _all(), "\n"]
    parts += [*DECLARED.values(), "\n", *_types(), "\n"]
    words = intrinsics()
    parts += _scopes({n: w for n, w in words.items() if isinstance(w, ScopeNamespace)})
    parts += [_namespace(word) for word in words.values() if isinstance(word, Namespace)]
    parts += [_function(word) for word in words.values() if isinstance(word, Intrinsic)]
    return "".join(parts)


def _imports() -> Iterator[str]:
    yield from (f"from . import {part} as {part}\n" for part in tilejit._PARTS)
    kinds = "Barrier", "ElementType", "Gather", "NamedBarrier", "RegionElement", "Ring", "RingStep", "TypedScalar"
    private = {"frontend.annotations": kinds}
    functions = {f for word in intrinsics().values() if isinstance(word, Namespace) for f in _plain(word)}
    for module, names in sorted(tilejit._PUBLIC.items()):
        shown = [f"{name} as {name}" for name in names if name not in DECLARED and name not in DTYPES]
        shown += [f"{name} as _{name}" for name in private.get(module, ())]
        shown += [f"{f.__name__} as _{f.__name__}" for f in functions] if module == "layout" else []
        if shown:
            yield f"from .{module} import (\n{''.join(f'    {name},{chr(10)}' for name in sorted(shown))})\n"


def _all() -> str:
    names = ", ".join(f'"{name}"' for name in tilejit.__all__)
    return f"__all__ = [\n{textwrap.fill(names + ',', 118, initial_indent='    ', subsequent_indent='    ')}\n]\n"


def _types() -> Iterator[str]:
    for name in DTYPES:
        yield f"class {name}(_TypedScalar): ...\n"


def _plain(space: Namespace) -> list[Callable[..., object]]:
    """Its functions that the host may call too."""
    return [member for member in space.members.values() if not isinstance(member, Intrinsic)]


def _namespace(space: Namespace) -> str:
    calls = "".join(_function(member, "self") for member in space.members.values() if isinstance(member, Intrinsic))
    functions = "".join(f"{f.__name__} = staticmethod(_{f.__name__})\n" for f in _plain(space))
    name = f"_{space.name.capitalize()}"
    return f"class {name}:\n{textwrap.indent(functions + calls, '    ')}\n{space.name}: {name}\n\n"


def _scopes(scopes: dict[str, ScopeNamespace]) -> Iterator[str]:
    """A class of the operations that all scopes have, and one for each scope with its further ones."""
    one = next(iter(scopes.values()))
    common = [name for name in one.operations if all(name in s.operations for s in scopes.values())]
    yield from _class("_Operations", (_call_on(one, name) for name in common))
    for name, scope in scopes.items():
        own = f"_{scope.scope.name.capitalize()}"
        if name == scope.scope.name:
            more = [operation for operation in scope.operations if operation not in common]
            yield from _class(f"{own}(_Operations)", (_call_on(scope, operation) for operation in more))
        yield f"{name}: {own}\n\n"


def _class(name: str, calls: Iterable[Intrinsic]) -> Iterator[str]:
    body = "".join(_function(call, "self") for call in calls)
    yield f"class {name}:\n{textwrap.indent(body or '...' + chr(10), '    ')}\n"


def _call_on(scope: ScopeNamespace, operation: str) -> Intrinsic:
    call = getattr(scope, operation)
    assert isinstance(call, Intrinsic)
    return call


def _function(call: Intrinsic, *receiver: str) -> str:
    """Its definition; where the arguments decide what it gives, one for each kind of arguments."""
    forms = list(_forms(call))
    name = call.name.rpartition(".")[2]
    made = []
    for k, (parameters, gives) in enumerate(forms):
        listed = ", ".join((*receiver, *_listed(parameters)))
        doc = _docstring(call) if k == len(forms) - 1 else " ..."
        made.append(f"{'@overload' + chr(10) if len(forms) > 1 else ''}def {name}({listed}) -> {gives}:{doc}\n")
    return "".join(made)


def _docstring(call: Intrinsic) -> str:
    example = textwrap.indent("\n".join(["", "Example:", *(f"    {e}" for e in call.example.splitlines())]), "    ")
    return f'\n    """{call.meaning}.\n{example}\n    """'


def _listed(parameters: Iterable[CallParameter]) -> Iterator[str]:
    by_name = False
    for p in parameters:
        if p.by_name and not by_name:
            by_name = True
            yield "*"
        yield f"{p.name}: {p.type}" + ("" if p.default is REQUIRED else f" = {p.default!r}")


def _forms(call: Intrinsic) -> Iterator[tuple[list[CallParameter], str]]:
    """(parameters, what it gives) for each kind of arguments."""
    first, *others = call.parameters or [CallParameter("", "")]
    if call.gives == EACH and not others:
        yield [_as(first, "_Value")], "_Value"
    elif call.gives == EACH:
        yield [CallParameter(p.name, "float") for p in call.parameters], "Scalar"
        yield list(call.parameters), "Tile"
    elif call.gives == REDUCED:
        scalar = {"axis": "None", "keepdims": "Literal[False]"}
        yield [_as(p, scalar.get(p.name, p.type)) for p in call.parameters], "Scalar"
        yield list(call.parameters), "Tile"
    elif call.gives == OLD:
        yield [_as(first, "_RegionElement"), *others], "Scalar"
        yield [first, *others], "Tile"
    elif call.gives == SAME:
        yield [_as(first, "_Same"), *others], "_Same"
    else:
        yield list(call.parameters), call.gives


def _as(p: CallParameter, type_: str) -> CallParameter:
    return CallParameter(p.name, type_, p.meaning, p.default, p.by_name)
