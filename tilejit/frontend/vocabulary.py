"""The words of the language, the names that users write in kernels: `tj.cta_id`, `tj.warp.copy`, `tj.exp`, others."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..dataclass import dataclass
from ..isa import ASYNC_CALLS
from ..isa.barriers import BARRIERS
from ..isa.warp import VOTE
from ..layout import atom_layout, datapath, layout_a, layout_b, layout_c
from ..ops.elementwise import ELEMENTWISE
from ..ops.record import Fault
from ..ops.tile import CALLS, TILE_OPERATIONS
from ..scopes import SCOPES, Scope
from .language import Intrinsic, LanguageName

__all__ = ["ATOMICS", "NOT_YET", "Namespace", "SHUFFLES", "ScopeNamespace", "VOTES", "intrinsics"]


@dataclass(frozen=True, slots=True)
class ScopeNamespace(LanguageName):
    """The operations that can be called on the threads of one scope: `tj.cta`, `tj.warp` and the others."""

    scope: Scope

    @property
    def operations(self) -> tuple[str, ...]:
        """The names of those that work."""
        return _operations(self.scope)

    def missing(self, operation: str) -> Fault:
        """Why it has no operation of this name."""
        if operation in CALLS:
            others = [str(scope) for scope in CALLS[operation].scopes]
            return Fault(f"{self} has no {operation}", f"it is called on a {' or '.join(others)}")
        close = difflib.get_close_matches(operation, self.operations, 1)
        hint = f"did you mean {close[0]}?" if close else f"it has {', '.join(self.operations)}"
        return Fault(f"{self} has no attribute {operation}", hint)

    def __getattr__(self, operation: str) -> Intrinsic:
        if operation.startswith("__"):
            # who asks whether this is an array needs no suggestions, which take as long as reading a kernel
            raise AttributeError(operation)
        if operation in self.operations:
            return Intrinsic(f"{self.scope}.{operation}", CALLS[operation].meaning)
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
    """A group of intrinsics, such as `tj.cp_async`.

    calls: members that stand in kernels only. functions: members that are plain functions, which the host may call too.
    """

    name: str
    calls: tuple[str, ...]
    functions: tuple[Callable[..., Any], ...] = ()

    @property
    def members(self) -> tuple[str, ...]:
        return (*self.calls, *(function.__name__ for function in self.functions))

    def __getattr__(self, member: str) -> Any:
        for function in self.functions:
            if function.__name__ == member:
                return function
        if member in self.calls:
            return Intrinsic(f"{self.name}.{member}", "")
        raise AttributeError(f"tj.{self.name} has no member {member!r}")

    def __dir__(self) -> list[str]:
        return sorted(self.members)

    def __repr__(self) -> str:
        return f"tj.{self.name}"


_MEMORY = {
    "alloc_shared": "shared memory",
    "alloc_local": "registers",
    "alloc_tmem": "tensor memory",
    "assume_in_bounds": "the region, known not to pass its tensor's edge",
}
_IDS = {
    "cta_id": "index of this CTA in the grid, along an axis",
    "num_ctas": "CTAs of the grid, along an axis",
    "thread_id": "index of this thread in its CTA",
    "lane_id": "index of this thread in its warp",
    "warp_id": "index of this warp in its CTA",
    "warpgroup_id": "index of this warpgroup in its CTA",
    "static_range": "as range, but unrolled: the index is known at compile time",
    "elect": "whether this is the one thread of its warp that is elected",
}
_TILES = {
    "cat": "two tiles side by side along an axis",
    "split": "a tuple of equal parts of a tile along an axis",
    "reduce": "elements of a tile, or of a tuple of tiles, combined along axes by a function, in their order",
}
_ORDERED = {
    "load_acquire": "an element, whose last release is acquired: what was done before it comes before what follows",
    "store_release": "writes an element; who acquires it sees what this thread did before",
    "load_volatile": "an element, read anew each time",
    "fence": "orders this thread's accesses for those that learn of them by a flag",
}
_SYNCS = {
    **{f"{scope}_sync": barrier.meaning for scope, barrier in BARRIERS.items()},
    "grid_sync": "waits for all threads of a cooperative launch; orders their memory accesses",
}
#: name -> the mode in the instruction table, and what the call names beside the value
SHUFFLES = {
    "shuffle": ("idx", "lane"), "shuffle_xor": ("bfly", "mask"), "shuffle_up": ("up", "distance"),
    "shuffle_down": ("down", "distance"),
}
#: name -> what is asked of the lanes
VOTES = {"vote_any": "any", "vote_all": "all", "vote_ballot": "ballot"}
_LANES = {
    "shuffle": "the value of another lane of the warp",
    "shuffle_xor": "the value of the lane whose index differs in the bits of a mask",
    "shuffle_up": "the value of the lane some lanes below, or its own where there is none",
    "shuffle_down": "the value of the lane some lanes above, or its own where there is none",
    "uniform": "the value, which all threads of the scope hold",
    **{name: VOTE[asked].meaning for name, asked in VOTES.items()},
}
#: names of the language that aren't built yet: refused by name, and not among those that `dir(tilejit)` lists
NOT_YET = {
    "alloc_barrier": "an mbarrier",
    "named_barrier": "a barrier among some threads of the CTA",
    "scan": "what stands before each element and itself, combined by a function",
    "cumsum": "the sums of each element and those before it",
    "sort": "the elements in order",
    "top_k": "the greatest elements with their indices",
    "gather": "elements of a tile by a tile of indices",
    "rand": "uniform random numbers",
    "randn": "normal random numbers",
    "randint": "random integers",
}

#: `tj.atomic.<name>` -> the operation in the instruction table; what is subtracted is added with the other sign
ATOMICS = {
    "add": "add", "sub": "add", "max": "max", "min": "min", "and_": "and", "or_": "or", "xor": "xor", "exch": "exch",
    "cas": "cas",
}

#: intrinsics with a dot in their names; what stands before it is a namespace
_GROUPED = (
    *(f"atomic.{name}" for name in ATOMICS),
    *ASYNC_CALLS,
    # `tj.fast.exp` is the operation fast_exp
    *(name.replace("_", ".", 1) for name, op in ELEMENTWISE.items() if op.approximation is not None),
)
#: namespace -> plain functions in it
_LAYOUTS: dict[str, tuple[Callable[..., Any], ...]] = {
    "tcgen05": (atom_layout,),
    "tmem": (datapath,),
    "mma": (layout_a, layout_b, layout_c),
}


def _namespaces() -> Iterator[Namespace]:
    calls: dict[str, list[str]] = {name: [] for name in _LAYOUTS}
    for call in _GROUPED:
        name, _, member = call.partition(".")
        calls.setdefault(name, []).append(member)
    for name, members in calls.items():
        yield Namespace(name, tuple(members), _LAYOUTS.get(name, ()))


@functools.cache
def intrinsics() -> Mapping[str, Intrinsic | ScopeNamespace | Namespace]:
    """Every name of the language that is looked up as `tj.<name>`, but for types and host helpers."""
    table: dict[str, Intrinsic | ScopeNamespace | Namespace] = {}
    for names in (_MEMORY, _IDS, _TILES, _ORDERED, _SYNCS, _LANES):
        table.update({name: Intrinsic(name, meaning) for name, meaning in names.items()})
    table.update({name: Intrinsic(name, op.meaning) for name, op in ELEMENTWISE.items()})
    table.update({name: Intrinsic(name, op.meaning) for name, op in TILE_OPERATIONS.items() if op.reduction})
    for scope in SCOPES.values():
        table.update(dict.fromkeys((scope.name, *scope.aliases), ScopeNamespace(scope)))
    table.update({space.name: space for space in _namespaces()})
    return table
