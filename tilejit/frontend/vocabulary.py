"""The names of the language that kernels use: `tj.cta_id`, `tj.warp.copy`, `tj.exp` and others."""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from ..dataclass import dataclass, field, replace
from ..layout import atom_layout, datapath, layout_a, layout_b, layout_c, warpgroup
from ..ops.record import BARRIER, CONDITION, SCALAR, TILE, Attribute, Fault, TileOperation
from ..ops.tile import CALLS, Shorthand
from ..scopes import SCOPES, THREAD, Scope
from ..wording import guessed, with_article
from .foreign_words import foreign_word
from .language import CallParameter, Intrinsic, LanguageName
from .words import parameter, words


@dataclass(frozen=True, slots=True)
class ScopeNamespace(LanguageName):
    # the operations of one scope, such as `tj.cta`; no docstring, because `help` shows the `__doc__` of each instance

    scope: Scope

    @property
    def __name__(self) -> str:
        return self.scope.name

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        what = f"operations that the threads of {with_article(self.scope.name)} execute together"
        if self.scope is THREAD:
            what = "operations that each thread executes separately"
        listed = ", ".join(self.operations)
        return _group(self, f"{what}; see help({self}.load)", listed, _operation(self.scope, "store").example)

    @property
    def operations(self) -> tuple[str, ...]:
        return _operations(self.scope)

    def missing(self, operation: str) -> Fault:
        if operation in CALLS:
            others = [str(scope) for scope in CALLS[operation].scopes]
            return Fault(f"{self} has no {operation}", f"call it on a {' or '.join(others)}")
        word = foreign_word(operation)
        hint = word.hint if word else guessed(operation, self.operations, f"it has {', '.join(self.operations)}")
        return Fault(f"{self} has no attribute {operation}", hint)

    def __getattr__(self, operation: str) -> Intrinsic:
        if operation.startswith("__"):
            # NumPy probes for names such as `__array__`, for which suggestions would be slow to compute
            raise AttributeError(operation)
        if operation in self.operations:
            return _operation(self.scope, operation)
        fault = self.missing(operation)
        raise AttributeError(f"{fault.message}: {fault.hint}")

    def __dir__(self) -> list[str]:
        return sorted(self.operations)

    def __repr__(self) -> str:
        return f"tj.{self.scope}"


@functools.cache
def _operations(scope: Scope) -> tuple[str, ...]:
    return tuple(name for name, call in CALLS.items() if scope in call.scopes)


@dataclass(frozen=True, slots=True)
class Namespace(LanguageName):
    # a group of intrinsics, such as `tj.cp_async`; no docstring, because `help` shows the `__doc__` of each instance

    name: str
    #: intrinsics, which only kernels can call, and plain functions, which the host can call too
    members: Mapping[str, Callable[..., Any]] = field(compare=False)

    @property
    def __name__(self) -> str:
        return self.name

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        calls = [f"{name}{inspect.signature(call)}" for name, call in self.members.items()]
        example = next(iter(self.members.values())).__doc__ or ""
        return _group(self, "", "\n".join(calls), inspect.cleandoc(example.partition("Example:\n")[2]))

    def __getattr__(self, member: str) -> Any:
        if member in self.members:
            return self.members[member]
        raise AttributeError(f"tj.{self.name} has no member {member!r}")

    def __dir__(self) -> list[str]:
        return sorted(self.members)

    def __repr__(self) -> str:
        return f"tj.{self.name}"


def _group(group: object, what: str, members: str, example: str) -> str:
    example = "\n".join(["Example:", *(f"    {line}" for line in example.splitlines())])
    return "\n\n".join([f"{group!r}: {what}" if what else f"{group!r}", members, example])


@dataclass(frozen=True, slots=True)
class NotYet:
    """A name that is not implemented yet, and a substitute for it."""

    meaning: str
    instead: str = "dir(tilejit) lists the available names"


_ONE_STREAM = "leave it out: launches on one stream run in order"
_OWN_MAPS = "write copy_async(shared, A[...], barrier=t): the launch creates the tensor maps of its arrays"
_OWN_NUMBERS = "pass an array of random numbers"
_REDUCE = "tj.reduce(x, axis, combine) gives the result over a whole axis"

#: names that are not implemented yet; they have a specific error, and `dir(tilejit)` doesn't list them
NOT_YET = {
    "grid_trigger": NotYet("which lets the next kernel start", _ONE_STREAM),
    "grid_wait": NotYet("which waits for the previous kernel", _ONE_STREAM),
    "TensorMap": NotYet("a tensor map that the caller creates", _OWN_MAPS),
    "tensor_map": NotYet("a tensor map that a kernel uses", _OWN_MAPS),
    "associative_scan": NotYet("the inclusive scan of a tile by a function", _REDUCE),
    "scan": NotYet("the inclusive scan of a tile by a function", _REDUCE),
    "cumsum": NotYet("the cumulative sum of a tile"),
    "cumprod": NotYet("the cumulative product of a tile"),
    "sort": NotYet("the sorted elements of a tile"),
    "argsort": NotYet("the indices that sort a tile"),
    "top_k": NotYet("the largest elements and their indices"),
    "topk": NotYet("the largest elements and their indices"),
    "gather": NotYet("the elements of a tile at a tile of indices"),
    "rand": NotYet("uniform random numbers", _OWN_NUMBERS),
    "randn": NotYet("normal random numbers", _OWN_NUMBERS),
    "randint": NotYet("random integers", _OWN_NUMBERS),
}

#: namespace -> its plain functions
LAYOUTS: dict[str, tuple[Callable[..., Any], ...]] = {
    "tcgen05": (atom_layout,),
    "tmem": (datapath,),
    "mma": (layout_a, layout_b, layout_c),
    "wgmma": (warpgroup.layout_a, warpgroup.layout_c),
}


def _namespaces(grouped: Iterable[Intrinsic]) -> Iterator[Namespace]:
    calls: dict[str, dict[str, Intrinsic]] = {name: {} for name in LAYOUTS}
    for call in grouped:
        name, _, member = call.name.partition(".")
        calls.setdefault(name, {})[member] = call
    for name, members in calls.items():
        functions = {function.__name__: function for function in LAYOUTS.get(name, ())}
        yield Namespace(name, MappingProxyType({**members, **functions}))


@functools.cache
def intrinsics() -> Mapping[str, Intrinsic | ScopeNamespace | Namespace]:
    """Return the intrinsics and namespaces, by the name that follows `tj.`."""
    every = {word.name: word for word in words()}
    table: dict[str, Intrinsic | ScopeNamespace | Namespace] = {n: w for n, w in every.items() if "." not in n}
    for scope in SCOPES.values():
        table.update(dict.fromkeys((scope.name, *scope.aliases), ScopeNamespace(scope)))
    table.update({space.name: space for space in _namespaces(w for n, w in every.items() if "." in n)})
    return table


#: operand -> its meaning, the same in every call; other operands are described by their `TileOperand`
_OPERANDS = {
    "acc": "the accumulator, of shape (M, N)",
    "a": "the left operand, of shape (M, K)",
    "b": "the right operand, of shape (K, N)",
    "accumulate": "if false, overwrite acc instead of adding to it",
    "value": "the value of every element",
    "scale_a": "the scale factors of a",
    "scale_b": "the scale factors of b",
    **{f"dst{k}": f"the destination of tile {k}" for k in (2, 3, 4)},
    **{f"src{k}": f"the source of tile {k}" for k in (2, 3, 4)},
}


def _parameter(call: TileOperation | Shorthand, name: str) -> CallParameter:
    if isinstance(call, Shorthand):
        shared = parameter(name, optional=name not in call.parameters[: call.required])
        return replace(shared, meaning=_OPERANDS[name]) if name in _OPERANDS else shared
    attribute = call.attribute(name)
    if attribute is not None:
        return CallParameter(name, _type_of(attribute), attribute.meaning, attribute.default)
    operand = call.operands[call.position(name)]
    if operand.optional and name in ("fill", "mask"):
        return parameter(name, optional=True)
    kinds = {TILE: "Region | Tile", SCALAR: "float", BARRIER: "_Barrier | _RingStep", CONDITION: "bool"}
    takes = " | ".join(kinds[kind] for kind in operand.kinds)
    meaning = _OPERANDS.get(name) or operand.called.removesuffix(f" of {call.name}")
    meaning = "" if meaning == name else meaning
    if operand.optional:
        return CallParameter(name, f"{takes} | None", meaning, None)
    return CallParameter(name, takes, meaning)


def _type_of(attribute: Attribute) -> str:
    if attribute.choices:
        named = f"Literal[{', '.join(json.dumps(choice) for choice in attribute.choices)}]"
    elif attribute.type is tuple:
        named = "int | tuple[int, ...]"
    else:
        named = {str: "str", int: "int", bool: "bool"}.get(attribute.type, "Callable[..., Any]")
    return f"{named} | None" if attribute.default is None else named


#: matches examples that are valid only on their own scope, because of the owners of a tile or the producers of a ring
_REGISTERS = re.compile(r"layout|alloc_local|alloc_ring")


@functools.cache
def _operation(scope: Scope, name: str) -> Intrinsic:
    call = CALLS[name]
    parameters = tuple(_parameter(call, p) for p in call.parameters)
    gives = "Tile" if isinstance(call, Shorthand) and call.makes_tile else "None"
    return Intrinsic(f"{scope}.{name}", call.meaning, parameters, gives, _example(scope, call))


def _example(scope: Scope, call: TileOperation | Shorthand) -> str:
    if _REGISTERS.search(call.example):
        return call.example
    example = re.sub(r"tj\.(?:thread|warp|warpgroup|cta)\.", f"tj.{scope}.", call.example)
    is_of_any_shape = scope is THREAD and "(32, 8)" not in example
    return example.replace("A[0:32, 0:8]", "A[tj.thread_id(), 0:8]") if is_of_any_shape else example
