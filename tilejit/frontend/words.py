"""The names of the language that kernels use: `tj.cta_id`, `tj.warp.copy`, `tj.exp` and others.

The translator, `help`, the stub, the reference and the messages take names, parameters and meanings from here.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from ..dataclass import dataclass, field, replace
from ..ir.values import MEMORY_ORDERS, MEMORY_SCOPES
from ..isa import ASYNC_CALLS
from ..isa.atomics import OPERATIONS
from ..isa.barriers import BARRIERS, USERS
from ..layout import atom_layout, datapath, layout_a, layout_b, layout_c, warpgroup
from ..nibbles import ORDERS
from ..ops.axes import REDUCTION
from ..ops.copies import CACHE
from ..ops.elementwise import ELEMENTWISE, Elementwise
from ..ops.fold import CUMULATIVE, GROUPING, REVERSE, SCAN
from ..ops.gemm import GEMM_ASYNC
from ..ops.record import BARRIER, CONDITION, SCALAR, TILE, Attribute, Fault, TileOperation
from ..ops.reduce import REDUCTIONS, Reduction
from ..ops.tile import CALLS, Shorthand
from ..scopes import SCOPES, THREAD, Scope
from ..target import TENSOR_MEMORY_TARGETS
from ..wording import guessed, with_article
from .language import REQUIRED, CallParameter, Intrinsic, LanguageName
from .value_words import EACH, LOAD, SAME, TYPES, WORDS

# more descriptions of result types that depend on the arguments
REDUCED = "Scalar over all axes, else Tile"
OLD = "Scalar for an element, Tile for a region"

_SHAPE = "int | Sequence[int]"
_SWIZZLES = 'Literal["32B", "64B", "128B"] | Swizzle | None'


def _literal(choices: Iterable[object]) -> str:
    return f"Literal[{', '.join(json.dumps(choice) for choice in choices)}]"


#: name -> parameter, except operands of tile operations other than `fill` and `mask` (see `_parameter`)
_PARAMETERS: dict[str, CallParameter] = {
    p.name: p
    for p in (
        CallParameter("a", "Tile", "the first tile"),
        CallParameter("b", "Tile", "the second tile"),
        CallParameter("barrier", "_Barrier", "one barrier, from tj.alloc_barrier"),
        CallParameter("step", "_RingStep", "a step of a ring, ring[i]"),
        CallParameter("axis", "int", "the axis; negative values count from the last"),
        CallParameter("cache", f"{_literal(CACHE.choices)} | None", "a hint for how long caches keep the data", None),
        CallParameter("combine", "Callable[..., Any]", "a @tj.function, a nested function or a lambda of two values, "
                      "or of two tuples of values"),
        CallParameter("condition", "bool | Scalar", "this lane's condition; any nonzero number is true"),
        CallParameter("desired", "float | Tile", "the value to store"),
        CallParameter("dst", "Region | Tile | tuple[Any, ...]", "the destination, or a tuple; may be the source"),
        CallParameter("src", "Region | Tile | tuple[Any, ...]", "the source, or a tuple of up to four of one shape"),
        CallParameter("reverse", "bool", REVERSE.meaning, False),
        CallParameter("exclusive", "bool", "leave out the element itself; the first result is that of nothing", False),
        CallParameter("initial", "float | tuple[float, ...] | None", "the value that precedes all elements, combined "
                      "first; an exclusive scan needs it", None),
        CallParameter("distance", "int", "the distance in lanes"),
        CallParameter("dtype", TYPES, "the element type"),
        CallParameter("expected", "float | Tile", "the value to compare with"),
        CallParameter("fill", "float", "the value read outside a tensor or where the mask is false", 0),
        CallParameter("keepdims", "bool", "keep reduced axes, with extent 1", False),
        CallParameter("lane", "int", "the source lane, from 0 to 31"),
        CallParameter("layout", "TileLayout | None", "the owner of each element; chosen by the compiler if None", None),
        CallParameter("mask", "Tile | bool | None", "the elements to access: a tile of bool_ that broadcasts", None),
        CallParameter("n", "int", "the largest number of groups that may still be pending"),
        CallParameter("order", _literal(MEMORY_ORDERS), "the memory order", "relaxed"),
        CallParameter("parts", "int", "the number of parts"),
        CallParameter("place", "Region | _Gather", "an element, a region or X.at(index) of global or shared memory"),
        CallParameter("region", "Region", "the region"),
        CallParameter("scope", _literal(MEMORY_SCOPES), "the threads among which the access is ordered", "gpu"),
        CallParameter("shape", _SHAPE, "the extents, known at compile time"),
        CallParameter("swizzle", _SWIZZLES, 'the swizzle: "32B", "64B", "128B" or a tj.Swizzle', None),
        CallParameter("tile", "Tile", "a local tile"),
        CallParameter("value", "float | Tile", "a scalar, or a tile with one value per element"),
        CallParameter("variant", "str | None", "the variant to use; chosen by the compiler if None", None),
    )
}


def parameter(name: str, *, optional: bool = False) -> CallParameter:
    """Return the shared parameter `name`, without a default or, if `optional`, with its own default or None."""
    shared = _PARAMETERS[name]
    if not optional:
        return CallParameter(name, shared.type, shared.meaning)
    if shared.default is not REQUIRED:
        return shared
    return CallParameter(name, f"{shared.type} | None", shared.meaning, None)


def _word(name: str, meaning: str, gives: str, example: str, required: str = "", optional: str = "") -> Intrinsic:
    """Return an intrinsic whose parameters, named in `required` and `optional`, are all in `_PARAMETERS`."""
    listed = (*map(parameter, required.split()), *(parameter(o, optional=True) for o in optional.split()))
    return Intrinsic(name, meaning, listed, gives, example)


_AXIS = CallParameter("axis", "int", "the axis of the grid: 0, 1 or 2", 0)
_CLUSTER_AXIS = CallParameter("axis", "int | None", "the axis of the cluster: 0, 1 or 2; all if None", None)
_PLACE = CallParameter("place", "Region | _Gather", "an element, or a static region, of global or shared memory")
_OWN_TILE = ". A region becomes a tile of the calling thread, loaded an element at a time"
_THREAD = "i = tj.thread_id()\n"

_BARRIERS = (
    Intrinsic("alloc_barrier", "Allocate a barrier in shared memory, or several, used as b[i]; needs sm_90 or newer", (
        CallParameter("arrivals", "int", "the number of arrivals that complete a phase", 1),
        CallParameter("stages", "int | None", "the number of barriers; if None, one that takes no index", None),
    ), "_Barrier", "b = tj.alloc_barrier(arrivals=4)\ntj.warp.arrive(b)"),
    Intrinsic("alloc_ring", "Allocate a ring of stages that producers fill and consumers empty; ring[i] is step i, "
              "which uses stage i % stages; needs sm_90 or newer", (
        CallParameter("stages", "int", "the number of stages, each with two barriers"),
        CallParameter("producers", "int", "the number of commits that complete a step", 1),
        CallParameter("consumers", "int", "the number of releases by each CTA that free the stage of a step", 1),
        CallParameter("multicast", "int | None", "the cluster axis whose CTAs fill each step together", None),
    ), "_Ring", "ring = tj.alloc_ring(2)\nring[0].acquire()"),
    Intrinsic("named_barrier", "Return the CTA's barrier number `id`, at which some of its warps can synchronize", (
        CallParameter("id", "int", f"the number, from {USERS[0]} to {USERS[-1]}"),
        CallParameter("threads", "int", "the number of threads that synchronize, a multiple of 32"),
    ), "_NamedBarrier", "A[tj.thread_id(), 0] = 1.0\ntj.named_barrier(1, 128).sync()"),
    Intrinsic("set_registers", "Set the number of registers of each thread of the warpgroup from here on", (
        CallParameter("n", "int", "the number of registers, a multiple of 8 from 24 to 256"),
    ), "None", "if tj.warpgroup_id() == 0:\n    tj.set_registers(24)"),
)


def _alloc(name: str, meaning: str, gives: str, layout: str, example: str, *more: CallParameter) -> Intrinsic:
    """Return the intrinsic of an allocation. layout: the meaning of `layout`. more: the parameters after `layout`."""
    given = CallParameter("layout", "TileLayout | None", layout, None)
    return Intrinsic(name, meaning, (parameter("shape"), parameter("dtype"), given, *more), gives, example)


_MEMORY = (
    _alloc("alloc_shared", "Allocate shared memory", "Region", "the layout; row-major if None",
           "x = tj.alloc_shared((32, 8), tj.float32)\ntj.cta.copy(x, A[0:32, 0:8])",
           parameter("swizzle", optional=True)),
    _alloc("alloc_local", "Allocate a tile in registers", "Tile",
           "the owner of each element; if None, each thread has a row-major tile of its own",
           "x = tj.alloc_local((8,), tj.float32)\ntj.thread.copy(x, A[0, 0:8])"),
    _alloc("alloc_tmem", f"Allocate tensor memory; needs {' or '.join(TENSOR_MEMORY_TARGETS)}", "Region",
           "the layout; if None, row r is in lane r",
           "x = tj.alloc_tmem((128, 8), tj.float32)\ny = x[0:128, 0:4]"),
    Intrinsic("scratch", "Return an array in global memory that each launch allocates, with undefined contents; "
              "launches on one stream share the memory, but the calls in a kernel don't", (
        CallParameter("shape", _SHAPE, "the extents, computed from constants, scalar parameters, X.shape and "
                      "tj.num_ctas"),
        parameter("dtype"),
        CallParameter("zeroed", "bool", "all elements are 0 at the start, and the kernel must leave them 0", False),
    ), "Region", "x = tj.scratch((tj.num_ctas(0) * 32, 8), tj.float32)\ntj.cta.copy(x[0:32, 0:8], A[0:32, 0:8])"),
    _word("assume_in_bounds", "Return the region, assumed to lie within its tensor; accesses are not masked", "Region",
          "i = tj.cta_id(0)\nx = tj.cta.load(tj.assume_in_bounds(A.tile((32, 8), (i, 0))))", "region"),
)


def _id(name: str, meaning: str, *parameters: CallParameter, gives: str = "Scalar") -> Intrinsic:
    call = f"tj.{name}({', '.join('0' for _ in parameters)})"
    return Intrinsic(name, meaning, parameters, gives, f"i = {call}\nA[i, 0] = 1.0")


_IDS = (
    _id("cta_id", "Return the index of this CTA in the grid along an axis", _AXIS),
    _id("num_ctas", "Return the number of CTAs in the grid along an axis", _AXIS),
    _id("cluster.id", "Return the index of this CTA's cluster in the grid of clusters along an axis", _AXIS),
    Intrinsic("cluster.rank", "Return the index of this CTA in its cluster, along one axis or over all; 0 in a kernel "
              "without cluster=", (_CLUSTER_AXIS,), "Scalar", "i = tj.cluster.rank()\nA[i, 0] = 1.0"),
    Intrinsic("cluster.size", "Return the number of CTAs in a cluster, along one axis or in total, at compile time",
              (_CLUSTER_AXIS,), "int", "i = tj.cta_id(0) // tj.cluster.size(0)\nA[i, 0] = 1.0"),
    _id("thread_id", "Return the index of this thread in its CTA"),
    Intrinsic("num_threads", "Return the number of threads in a CTA, at compile time", (), "int",
              "i = tj.cta_id(0) * tj.num_threads() + tj.thread_id()\nA[i, 0] = 1.0"),
    _id("lane_id", "Return the index of this thread in its warp"),
    _id("warp_id", "Return the index of this warp in its CTA"),
    _id("warpgroup_id", "Return the index of this warpgroup in its CTA"),
    Intrinsic(
        "static_range", "Return a range whose loop is unrolled; the index is known at compile time",
        (CallParameter("start", "int", "the first index; with one argument, the end"),
         CallParameter("stop", "int | None", "the end, exclusive", None),
         CallParameter("step", "int | None", "the step, which is 1 if None", None)),
        "range", "for k in tj.static_range(8):\n    A[0, k] = 1.0",
    ),
    Intrinsic(
        "elect", "Return True in exactly one thread of each warp", (), "bool",
        "if tj.elect():\n    A[tj.warp_id(), 0] = 1.0",
    ),
)
_AXES = CallParameter("axis", "int | tuple[int, ...] | None", "the axes to reduce; all if None", None)


def _statistic(name: str, meaning: str) -> Intrinsic:
    ddof = CallParameter("ddof", "int", "the number that is subtracted from the number of elements to divide by it", 0)
    tile, keepdims = CallParameter("x", "Tile", "the tile"), parameter("keepdims", optional=True)
    parameters = (tile, _AXES, *(() if name == "mean" else (ddof,)), keepdims)
    meaning = (
        f"over axes of a tile: {meaning}; float32 for integers and bool_; float16 and bfloat16 are computed in float32 "
        "and rounded once"
    )
    return Intrinsic(name, meaning, parameters, REDUCED, f"{LOAD}y = tj.{name}(x, axis=1)")


_TILES = (
    _statistic("mean", "the sum divided by the number of elements"),
    _statistic("var", "the mean square of the differences from the mean, in two passes"),
    _statistic("std", "the square root of var"),
    Intrinsic("broadcast_to", "Repeat a tile along axes of extent 1 and new leading axes, as NumPy does", (
        CallParameter("x", "Tile", "the tile"), parameter("shape"),
    ), "Tile", f"{LOAD}y = tj.broadcast_to(tj.max(x, axis=1, keepdims=True), (32, 8))"),
    _word("cat", "Concatenate two tiles along an axis", "Tile", f"{LOAD}y = tj.cat(x, x, axis=1)", "a b axis"),
    Intrinsic("split", "Split a tile into equal parts along an axis",
              (CallParameter("x", "Tile", "the tile"), parameter("parts"), parameter("axis")), "tuple[Tile, ...]",
              f"{LOAD}left, right = tj.split(x, 2, axis=1)"),
    Intrinsic(
        "unpack", "Return the 4-bit numbers of a tile of int4x2, uint4x2 or float4_e2m1fn_x2, exactly; the last axis "
        "doubles, and the low half of a byte comes first",
        (CallParameter("x", "Tile", "a tile of packed numbers, loaded from X.view(tj.int4x2)"),
         CallParameter("dtype", TYPES, "int8 (of integers), float16, bfloat16 or float32 (of float4_e2m1fn_x2)"),
         CallParameter("order", _literal(ORDERS), "interleaved for bytes in the order of tj.interleave4, which takes "
                       "fewer instructions", "natural")),
        "Tile", "x = tj.cta.load(A[0:32, 0:8]).astype(tj.uint8).view(tj.int4x2)\ny = tj.unpack(x, tj.float16)",
    ),
    Intrinsic(
        "reduce", "Combine the elements of a tile, or of a tuple of tiles, along axes with a function, which must be "
        f"associative but needn't be commutative: elements stay in order. {GROUPING}",
        (CallParameter("x", "Tile | tuple[Tile, ...]", "a tile, or up to four tiles of one shape"),
         replace(_AXES, default=REQUIRED),
         parameter("combine"), parameter("keepdims", optional=True)),
        SAME, "def last(a, b): return tj.where(b != 0.0, b, a)\nx = tj.reduce(tj.cta.load(A[0:32, 0:8]), 1, last)",
    ),
    Intrinsic(
        "scan", f"Scan a tile, or a tuple of tiles, by a function: {SCAN.meaning}",
        (CallParameter("x", "Tile | tuple[Tile, ...]", "a tile, or up to four tiles of one shape"), parameter("axis"),
         parameter("combine"), *[parameter(name, optional=True) for name in ("reverse", "exclusive", "initial")]),
        SAME, "def last(a, b): return tj.where(b != 0.0, b, a)\nx = tj.scan(tj.cta.load(A[0:32, 0:8]), 1, last)",
    ),
)
_SCOPE = parameter("scope", optional=True)
_ORDERED = (
    Intrinsic("load_acquire", "Load an element with acquire semantics: writes before the release that stored it are "
              f"visible after this load{_OWN_TILE}", (_PLACE, _SCOPE), OLD,
              'ready = tj.load_acquire(H[0, 0])\nlater = tj.load_acquire(H[0, 1], scope="sys")'),
    Intrinsic("store_release", "Store an element with release semantics: a thread that acquires it sees the earlier "
              "writes of this thread. A region takes a tile of the calling thread, an element at a time",
              (_PLACE, CallParameter("value", "Tile | float", "the scalar or the tile to store"), _SCOPE),
              "None", "if tj.thread_id() == 0:\n    tj.store_release(H[0, 0], 1)"),
    Intrinsic("load_volatile", "Load an element from memory at every call; loads of it are never merged"
              f"{_OWN_TILE}", (_PLACE,), OLD,
              "x = tj.load_volatile(H[0, 0])\ny = tj.load_volatile(H[0, 0])"),
    Intrinsic("wait", "Load an element until the condition holds for it, and return it. After the timeout, return the "
              "last value, for which the condition may not hold. On the simulator, time passes only while no thread "
              "can do anything else, and a wait that never ends is reported as a deadlock",
              (CallParameter("place", "Region", "an element of global or shared memory"),
               CallParameter("condition", "Callable[[Any], Any]", "a @tj.function or nested function of the value"),
               CallParameter("order", _literal(("acquire", "relaxed")), "the memory order of the loads", "acquire"),
               _SCOPE, CallParameter("timeout", "int | None", "nanoseconds; if None, the wait has no limit", None)),
              "Scalar", "def is_set(x): return x >= 0\ny = tj.wait(H[0, 0], is_set)"),
    _word("fence", "Order this thread's accesses for the threads of a scope that synchronize with it through a flag",
          "None", 'A[tj.thread_id(), 0] = 1.0\ntj.fence("gpu")', "scope"),
)


def _sync(scope: str, note: str = "") -> Intrinsic:
    threads = scope.replace("cta", "CTA")
    meaning = f"Wait for all threads of the {threads} and order their memory accesses{note}"
    return Intrinsic(f"{scope}_sync", meaning, example=f"A[tj.thread_id(), 0] = 1.0\ntj.{scope}_sync()")


_SYNCS = (*(_sync(str(scope)) for scope in BARRIERS), _sync("cluster"), _sync("grid", "; needs cooperative=True"))
_FLIPPED = CallParameter("mask", "int", "the bits to flip in the lane index")
#: name of a shuffle -> its second parameter, and the end of its meaning
_SHUFFLES = {
    "shuffle": (parameter("lane"), "in another lane of the warp"),
    "shuffle_xor": (_FLIPPED, "in the lane whose index is this lane's index XOR mask"),
    "shuffle_up": (parameter("distance"), "in the lane `distance` lower, or this lane's x if no such lane exists"),
    "shuffle_down": (parameter("distance"), "in the lane `distance` higher, or this lane's x if no such lane exists"),
}
_VOTES = {
    "vote_any": "Return True if the condition holds in any lane of the warp",
    "vote_all": "Return True if the condition holds in every lane of the warp",
    "vote_ballot": "Return a uint32 whose bit i is the condition of lane i",
}


def _lanes() -> Iterator[Intrinsic]:
    value = CallParameter("x", "float", "this thread's value")
    for name, (by, place) in _SHUFFLES.items():
        meaning, example = f"Return the value of x {place}", f"{_THREAD}x = tj.{name}(A[i, 0], 1)"
        yield Intrinsic(name, meaning, (value, by), "Scalar", example)
    for name, meaning in _VOTES.items():
        gives = "Scalar" if name == "vote_ballot" else "bool"
        yield _word(name, meaning, gives, f"{_THREAD}x = tj.{name}(A[i, 0] > 0)", "condition")
    yield Intrinsic(
        "uniform", "Return x, which must be equal in all threads of the scope; checked builds test that",
        (CallParameter("x", "float", "an integer or a bool_"),
         CallParameter("scope", "Any", "tj.warp, tj.warpgroup or tj.cta")), "Scalar",
        f"{_THREAD}w = tj.uniform(i // 32, tj.warp)",
    )


#: `tj.atomic.<name>` -> the update, as a phrase
_UPDATES = {
    "add": "add value to the place", "sub": "subtract value from the place",
    "max": "set the place to the greater of it and value, nan if either is nan, where 0.0 > -0.0",
    "min": "set the place to the lesser of it and value, nan if either is nan, where -0.0 < 0.0",
    "and_": "set the place to its bitwise AND with value", "or_": "set the place to its bitwise OR with value",
    "xor": "set the place to its bitwise XOR with value", "exch": "set the place to value",
    "cas": "set the place to desired if it equals expected",
}
#: `tj.atomic.<name>` -> its operation in `isa.atomics.OPERATIONS`; sub adds the negated value
ATOMICS = {name: "add" if name == "sub" else name.rstrip("_") for name in _UPDATES}
_ONCE_PER = (
    "Every thread that executes the call updates a single element, so guard the call with `if tj.thread_id() == 0:` "
    "for one update; a tile updates each element of a region once. Integers have 16 bits or more; on floats of 16 bits "
    "or more add, sub, max, min and exch work"
)


def _atomics() -> Iterator[Intrinsic]:
    for name, op in ATOMICS.items():
        operands = OPERATIONS[op].operands
        values = ", ".join(("0", "i") if len(operands) == 2 else "i")
        yield _word(
            f"atomic.{name}", f"Atomically {_UPDATES[name]}, and return the old value. {_ONCE_PER}", OLD,
            f"{_THREAD}before = tj.atomic.{name}(H[0, 0], {values})",
            " ".join(("place", *operands)), "order scope mask",
        )


_ASYNCHRONOUS = {
    "bulk.wait": ("Wait until at most n groups of bulk copies of this thread are unfinished",
                  "tj.bulk.wait_read(1)\ntj.bulk.wait(0)"),
    "bulk.wait_read": ("Wait until at most n groups of bulk copies of this thread have yet to read their source",
                       "tj.bulk.wait_read(0)\ntj.cta_sync()"),
    "cp_async.commit": ("Group the copies that this thread has started since the last commit",
                        "tj.cta.copy_async(tj.alloc_shared((32, 8), tj.float32), A[0:32, 0:8])\ntj.cp_async.commit()"),
    "cp_async.wait": ("Wait until at most n of the groups that this thread committed are unfinished",
                      "tj.cp_async.commit()\ntj.cp_async.wait(0)"),
    "wgmma.wait": ("Wait until at most the n latest gemm_async calls of this warpgroup are unfinished",
                   GEMM_ASYNC.example.replace("\n", "; ").replace("; tj.wgmma.wait", "\ntj.wgmma.wait")),
    "tcgen05.wait_ld": ("Wait for this thread's loads from tensor memory",
                        "x = tj.alloc_tmem((128, 8), tj.float32)\ntj.tcgen05.wait_ld()"),
    "tcgen05.wait_st": ("Wait for this thread's stores to tensor memory",
                        "x = tj.alloc_tmem((128, 8), tj.float32)\ntj.tcgen05.wait_st()"),
}


def _asynchronous() -> Iterator[Intrinsic]:
    for name, row in ASYNC_CALLS.items():
        meaning, example = _ASYNCHRONOUS[name]
        yield Intrinsic(name, meaning, () if row.leaves is None else (parameter("n"),), "None", example)


def _elementwise(name: str, op: Elementwise) -> Intrinsic:
    parameters = tuple(CallParameter(each, "Tile | float") for each in op.operands)
    converted = "" if op.takes_floats else ".astype(tj.int32)"
    arguments = ("x > 0",) * op.conditions + ("x",) * (op.arity - op.conditions)
    example = f"x = tj.cta.load(A[0:32, 0:8]){converted}\ny = tj.{name}({', '.join(arguments)})"
    return Intrinsic(name, op.meaning, parameters, EACH, example)


_OF_RESULT = CallParameter("dtype", f"{TYPES} | None", "the type of the result; elements are accumulated as in a "
                           "reduction of elements of this type", None)


def _reduction(reduction: Reduction) -> Intrinsic:
    first = CallParameter("initial", "float | None", "a number or scalar that is combined with the elements, and is "
                          "the result if there are none; converted to the type in which they are combined", None)
    dtype = (_OF_RESULT,) if reduction.grows else ()
    initial = () if reduction.tests or reduction.picks else (first,)
    tile, keepdims = CallParameter("x", "Tile", "the tile"), parameter("keepdims", optional=True)
    parameters = (tile, _AXES, *dtype, keepdims, *initial)
    meaning = f"over axes of a tile: {reduction.meaning}"
    return Intrinsic(reduction.name, meaning, parameters, REDUCED, f"{LOAD}y = tj.{reduction.name}(x, axis=1)")


def _cumulative(reduction: Reduction) -> Intrinsic:
    dtype = (_OF_RESULT,) if reduction.grows else ()
    parameters = (CallParameter("x", "Tile", "the tile"), parameter("axis"), *dtype, *[
        parameter(name, optional=True) for name in ("reverse", "exclusive")
    ])
    meaning = f"for each prefix of the elements along an axis of a tile: {reduction.meaning}"
    return Intrinsic(reduction.name, meaning, parameters, "Tile", f"{LOAD}y = tj.{reduction.name}(x, axis=1)")


def words() -> Iterator[Intrinsic]:
    """Yield the intrinsics `tj.<name>` and `tj.<group>.<name>`, without the operations of scopes."""
    yield from (*_MEMORY, *_BARRIERS, *_IDS, *_TILES, *WORDS)
    yield from (*_ORDERED, *_SYNCS, *_lanes(), *_atomics(), *_asynchronous())
    for name, op in ELEMENTWISE.items():
        yield _elementwise(name, op)
        if op.approximation is not None:
            # `tj.fast.exp` is recorded as the operation `fast_exp`
            yield _elementwise(name.replace("_", ".", 1), op)
    yield from map(_reduction, REDUCTIONS.values())
    yield from map(_cumulative, CUMULATIVE.values())


#: operand -> its meaning, which is the same in every call; other operands are described by their `TileOperand`
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
    region = "Tile" if call.relation is REDUCTION and not operand.written else "Region | Tile"
    kinds = {TILE: region, SCALAR: "float", BARRIER: "_Barrier | _RingStep", CONDITION: "bool"}
    takes = " | ".join(kinds[kind] for kind in operand.kinds)
    meaning = _OPERANDS.get(name) or operand.called.removesuffix(f" of {call.name}")
    meaning = "" if meaning == name else meaning
    if operand.optional:
        return CallParameter(name, f"{takes} | None", meaning, None)
    return CallParameter(name, takes, meaning)


def _type_of(attribute: Attribute) -> str:
    types = {str: "str", int: "int", bool: "bool", tuple: "int | tuple[int, ...]"}
    named = _literal(attribute.choices) if attribute.choices else types.get(attribute.type, "Callable[..., Any]")
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
        return tuple([name for name, call in CALLS.items() if self.scope in call.scopes])

    def __contains__(self, operation: str) -> bool:
        return operation in CALLS and self.scope in CALLS[operation].scopes

    def missing(self, operation: str) -> Fault:
        if operation in CALLS:
            others = [str(scope) for scope in CALLS[operation].scopes]
            return Fault(f"{self} has no {operation}", f"call it on a {' or '.join(others)}")
        # only errors need the names of other libraries
        from .foreign import instead

        hint = instead(operation) or (f"write tj.{operation}(...)" if operation in intrinsics() else "")
        hint = hint or guessed(operation, self.operations, f"it has {', '.join(self.operations)}")
        return Fault(f"{self} has no attribute {operation}", hint)

    def __getattr__(self, operation: str) -> Intrinsic:
        if operation.startswith("__"):
            # NumPy probes for names such as `__array__`, for which suggestions would be slow to compute
            raise AttributeError(operation)
        if operation in self:
            return _operation(self.scope, operation)
        fault = self.missing(operation)
        raise AttributeError(f"{fault.message}: {fault.hint}")

    def __dir__(self) -> list[str]:
        return sorted(self.operations)

    def __repr__(self) -> str:
        return f"tj.{self.scope}"


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
        raise AttributeError(f"tj.{self.name} has no attribute {member}: it has {', '.join(self.members)}")

    def __dir__(self) -> list[str]:
        return sorted(self.members)

    def __repr__(self) -> str:
        return f"tj.{self.name}"


def _group(group: object, what: str, members: str, example: str) -> str:
    example = "\n".join(["Example:", *(f"    {line}" for line in example.splitlines())])
    return "\n\n".join([f"{group!r}: {what}" if what else f"{group!r}", members, example])


#: namespace -> its plain functions
LAYOUTS: dict[str, tuple[Callable[..., Any], ...]] = {
    "tcgen05": (atom_layout,),
    "tmem": (datapath,),
    "mma": (layout_a, layout_b, layout_c),
    "wgmma": (warpgroup.layout_a, warpgroup.layout_c),
}


@functools.cache
def intrinsics() -> Mapping[str, Intrinsic | ScopeNamespace | Namespace]:
    """Return the intrinsics and namespaces, by the name that follows `tj.`."""
    table: dict[str, Intrinsic | ScopeNamespace | Namespace] = {}
    groups: dict[str, dict[str, Callable[..., Any]]] = {name: {} for name in LAYOUTS}
    for word in words():
        group, _, member = word.name.rpartition(".")
        if group:
            groups.setdefault(group, {})[member] = word
        else:
            table[word.name] = word
    for scope in SCOPES.values():
        table.update(dict.fromkeys((scope.name, *scope.aliases), ScopeNamespace(scope)))
    for group, members in groups.items():
        functions = {function.__name__: function for function in LAYOUTS.get(group, ())}
        table[group] = Namespace(group, MappingProxyType({**members, **functions}))
    return table
