"""The words of the language, the names that users write in kernels: `tj.cta_id`, `tj.warp.copy`, `tj.exp`, others."""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from ..dataclass import dataclass, field
from ..layout import atom_layout, datapath, layout_a, layout_b, layout_c, warpgroup
from ..ops.record import BARRIER, CONDITION, SCALAR, TILE, Attribute, Fault, TileOperation
from ..ops.tile import CALLS, Shorthand
from ..scopes import SCOPES, THREAD, Scope
from ..wording import guessed, with_article
from .foreign_words import foreign_word
from .language import CallParameter, Intrinsic, LanguageName
from .words import parameter, words

__all__ = ["LAYOUTS", "NOT_YET", "Namespace", "ScopeNamespace", "intrinsics"]


@dataclass(frozen=True, slots=True)
class ScopeNamespace(LanguageName):
    # its docstring is that of each one: the operations that can be called on the threads of one scope, as `tj.cta`

    scope: Scope

    @property
    def __name__(self) -> str:
        return self.scope.name

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        what = f"what the threads of {with_article(self.scope.name)} carry out together; help({self}.load) tells of one"
        if self.scope is THREAD:
            what = f"what each thread carries out by itself; help({self}.load) tells of one"
        return _group(self, what, ", ".join(self.operations), _operation(self.scope, "store").example)

    @property
    def operations(self) -> tuple[str, ...]:
        """The names of those that work."""
        return _operations(self.scope)

    def missing(self, operation: str) -> Fault:
        """Why it has no operation of this name."""
        if operation in CALLS:
            others = [str(scope) for scope in CALLS[operation].scopes]
            return Fault(f"{self} has no {operation}", f"it is called on a {' or '.join(others)}")
        hint = guessed(operation, self.operations, f"it has {', '.join(self.operations)}")
        word = foreign_word(operation)
        hint = hint if word is None else word.hint
        return Fault(f"{self} has no attribute {operation}", hint)

    def __getattr__(self, operation: str) -> Intrinsic:
        if operation.startswith("__"):
            # who asks whether this is an array needs no suggestions, which take as long as reading a kernel
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
    # its docstring is that of each one: a group of intrinsics, such as `tj.cp_async`
    # members: calls that stand in kernels only, and plain functions, which the host may call too

    name: str
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
    """The docstring of a group of words."""
    example = "\n".join(["Example:", *(f"    {line}" for line in example.splitlines())])
    return "\n\n".join([f"{group!r}: {what}" if what else f"{group!r}", members, example])


@dataclass(frozen=True, slots=True)
class NotYet:
    """A name that isn't built yet. instead: what there is."""

    meaning: str
    instead: str = "dir(tilejit) lists what there is"


_ONE_STREAM = "leave it out: launches on one stream follow each other"
_OWN_MAPS = "write copy_async(shared, A[...], barrier=t): the launch makes the maps of its arrays"
_OWN_NUMBERS = "pass an array of random numbers"
_REDUCE = "tj.reduce(x, axis, combine) gives the last one, for a whole axis"

#: names of the language that aren't built yet: refused by name, and not among those that `dir(tilejit)` lists
NOT_YET = {
    "grid_trigger": NotYet("which lets the next kernel start", _ONE_STREAM),
    "grid_wait": NotYet("which waits for the kernel before", _ONE_STREAM),
    "TensorMap": NotYet("a tensor map that others have made", _OWN_MAPS),
    "tensor_map": NotYet("a tensor map that a kernel names", _OWN_MAPS),
    "associative_scan": NotYet("what stands before each element and itself, combined by a function", _REDUCE),
    "scan": NotYet("what stands before each element and itself, combined by a function", _REDUCE),
    "cumsum": NotYet("the sums of each element and those before it"),
    "cumprod": NotYet("the products of each element and those before it"),
    "sort": NotYet("the elements in order"),
    "argsort": NotYet("the indices of the elements in order"),
    "top_k": NotYet("the greatest elements with their indices"),
    "topk": NotYet("the greatest elements with their indices"),
    "gather": NotYet("elements of a tile by a tile of indices"),
    "rand": NotYet("uniform random numbers", _OWN_NUMBERS),
    "randn": NotYet("normal random numbers", _OWN_NUMBERS),
    "randint": NotYet("random integers", _OWN_NUMBERS),
}

#: namespace -> plain functions in it
LAYOUTS: dict[str, tuple[Callable[..., Any], ...]] = {
    "tcgen05": (atom_layout,),
    "tmem": (datapath,),
    "mma": (layout_a, layout_b, layout_c),
    "wgmma": (warpgroup.layout_a, warpgroup.layout_c),
}


def _namespaces(grouped: Iterable[Intrinsic]) -> Iterator[Namespace]:
    """grouped: intrinsics with a dot in their names; what stands before it is a namespace."""
    calls: dict[str, dict[str, Intrinsic]] = {name: {} for name in LAYOUTS}
    for call in grouped:
        name, _, member = call.name.partition(".")
        calls.setdefault(name, {})[member] = call
    for name, members in calls.items():
        functions = {function.__name__: function for function in LAYOUTS.get(name, ())}
        yield Namespace(name, MappingProxyType({**members, **functions}))


@functools.cache
def intrinsics() -> Mapping[str, Intrinsic | ScopeNamespace | Namespace]:
    """Every name of the language that is looked up as `tj.<name>`, but for types and host helpers."""
    every = {word.name: word for word in words()}
    table: dict[str, Intrinsic | ScopeNamespace | Namespace] = {n: w for n, w in every.items() if "." not in n}
    for scope in SCOPES.values():
        table.update(dict.fromkeys((scope.name, *scope.aliases), ScopeNamespace(scope)))
    table.update({space.name: space for space in _namespaces(w for n, w in every.items() if "." in n)})
    return table


def _parameter(call: TileOperation | Shorthand, name: str) -> CallParameter:
    """A parameter of a call on a scope: an operand, an attribute, or one of those that many calls have."""
    if isinstance(call, Shorthand):
        return parameter(name, optional=name not in call.parameters[: call.required])
    attribute = call.attribute(name)
    if attribute is not None:
        return CallParameter(name, _type_of(attribute), attribute.meaning, attribute.default)
    operand = call.operands[call.position(name)]
    if operand.optional and name in ("fill", "mask"):
        return parameter(name, optional=True)
    kinds = {TILE: "Region | Tile", SCALAR: "float", BARRIER: "_Barrier | _RingStep", CONDITION: "bool"}
    takes = " | ".join(kinds[kind] for kind in operand.kinds)
    meaning = operand.called if operand.called != operand.name else ""
    if operand.optional:
        return CallParameter(name, f"{takes} | None", meaning, None)
    return CallParameter(name, takes, meaning)


def _type_of(attribute: Attribute) -> str:
    """In a type checker's words."""
    if attribute.choices:
        named = f"Literal[{', '.join(json.dumps(choice) for choice in attribute.choices)}]"
    elif attribute.type is tuple:
        named = "int | tuple[int, ...]"
    else:
        named = {str: "str", int: "int", bool: "bool"}.get(attribute.type, "Callable[..., Any]")
    return f"{named} | None" if attribute.default is None else named


#: what is for certain threads: a layout, a tile without one, which is a thread's own; a ring counts its producers
_REGISTERS = re.compile(r"layout|alloc_local|alloc_ring")


@functools.cache
def _operation(scope: Scope, name: str) -> Intrinsic:
    """`tj.<scope>.<name>`."""
    call = CALLS[name]
    parameters = tuple(_parameter(call, p) for p in call.parameters)
    gives = "Tile" if isinstance(call, Shorthand) and call.makes_tile else "None"
    return Intrinsic(f"{scope}.{name}", call.meaning, parameters, gives, _example(scope, call))


def _example(scope: Scope, call: TileOperation | Shorthand) -> str:
    """The record's; on this scope, unless what it has in registers is other threads'; each thread has its own place."""
    if _REGISTERS.search(call.example):
        return call.example
    example = re.sub(r"tj\.(?:thread|warp|warpgroup|cta)\.", f"tj.{scope}.", call.example)
    is_of_any_shape = scope is THREAD and "(32, 8)" not in example
    return example.replace("A[0:32, 0:8]", "A[tj.thread_id(), 0:8]") if is_of_any_shape else example
