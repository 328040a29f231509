"""The functions of the language as records: ids, memory, barriers, functions of tiles and scalars, atomics, votes.

Handlers, `help(tj.exp)` and the stub for type checkers have their parameters from here.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..isa import ASYNC_CALLS
from ..isa.atomics import OPERATIONS
from ..isa.barriers import BARRIERS, CLUSTER_SYNC, USERS
from ..isa.warp import VOTE
from ..ops.elementwise import ELEMENTWISE, Elementwise
from ..ops.gemm_async import GEMM_ASYNC
from ..ops.reduce import REDUCTIONS
from ..ops.reduction import Reduction
from .language import REQUIRED, CallParameter, Intrinsic

__all__ = ["ATOMICS", "EACH", "OLD", "REDUCED", "SAME", "SHUFFLES", "VOTES", "parameter", "words"]

# what calls give whose arguments decide
#: a scalar of scalars, else a tile
EACH = "a scalar of scalars, a tile of tiles"
#: a scalar, or a tile where some axes are left
REDUCED = "a scalar of all axes, else a tile"
#: what its first argument is
SAME = "as its first argument"
#: a scalar of an element, else a tile
OLD = "a scalar of an element, a tile of a region"

_TYPES = "DType | DTypeLike"
_SHAPE = "int | Sequence[int]"
_ORDERS = 'Literal["relaxed", "acquire", "release", "acq_rel"]'
_SCOPES = 'Literal["cta", "cluster", "gpu", "sys"]'
_CACHES = 'Literal["evict_first", "evict_last", "streaming"] | None'
_SWIZZLES = 'Literal["32B", "64B", "128B"] | Swizzle | None'

#: name -> the parameter of that name, of whatever call has it; those of operands are made from their records
_PARAMETERS: dict[str, CallParameter] = {
    p.name: p
    for p in (
        CallParameter("a", "Tile"),
        CallParameter("barrier", "_Barrier", "one barrier"),
        CallParameter("step", "_RingStep", "ring[i]"),
        CallParameter("axis", "int", "counted from the end where it is negative"),
        CallParameter("b", "Tile"),
        CallParameter("cache", _CACHES, "how long caches should keep what is moved", None),
        CallParameter("combine", "Callable[..., Any]", "a @tj.function of two values, or of two tuples of them"),
        CallParameter("condition", "bool | Scalar"),
        CallParameter("desired", "float | Tile", "what is stored"),
        CallParameter("distance", "int", "how many lanes away"),
        CallParameter("dtype", _TYPES, "an element type"),
        CallParameter("expected", "float | Tile", "what must be there"),
        CallParameter("fill", "float", "what is read outside a tensor or a mask", 0),
        CallParameter("keepdims", "bool", "whether reduced axes stay, as extents of 1", False),
        CallParameter("lane", "int", "from 0 to 31"),
        CallParameter("layout", "TileLayout | None", "who holds what; chosen for you where it is left out", None),
        CallParameter("mask", "Tile | bool | None", "which elements are touched: a tile of bool_, broadcast", None),
        CallParameter("n", "int", "how many groups may be unfinished"),
        CallParameter("order", _ORDERS, "how it is ordered with other accesses", "relaxed"),
        CallParameter("parts", "int", "how many"),
        CallParameter("place", "Region | _Gather", "an element or a region of global or shared memory"),
        CallParameter("region", "Region"),
        CallParameter("scope", _SCOPES, "the threads that see it", "gpu"),
        CallParameter("shape", _SHAPE, "extents known at compile time"),
        CallParameter("swizzle", _SWIZZLES, '"32B", "64B", "128B" or a tj.Swizzle', None),
        CallParameter("tile", "Tile", "a local tile"),
        CallParameter("value", "float | Tile"),
        CallParameter("variant", "str | None", "the variant that carries it out", None),
    )
}


def parameter(name: str, *, optional: bool = False) -> CallParameter:
    """The parameter of this name; where it is optional and has no default of its own, None."""
    usual = _PARAMETERS[name]
    if not optional:
        return CallParameter(name, usual.type, usual.meaning)
    if usual.default is not REQUIRED:
        return usual
    return CallParameter(name, f"{usual.type} | None", usual.meaning, None)


def _word(name: str, meaning: str, gives: str, example: str, required: str = "", optional: str = "") -> Intrinsic:
    """A call whose parameters are all usual ones. required, optional: their names."""
    listed = (*map(parameter, required.split()), *(parameter(o, optional=True) for o in optional.split()))
    return Intrinsic(name, meaning, listed, gives, example)


_AXIS = CallParameter("axis", "int", "of the grid", 0)
_CLUSTER_AXIS = CallParameter("axis", "int | None", "of the cluster; None for all", None)
_THREAD = "i = tj.thread_id()\n"
_LOAD = "x = tj.cta.load(A[0:32, 0:8])\n"

_BARRIERS = (
    Intrinsic("alloc_barrier", "a barrier in shared memory, or several of them, b[i]", (
        CallParameter("arrivals", "int", "how many complete a phase", 1),
        CallParameter("stages", "int | None", "how many barriers; one that has no index where it is left out", None),
    ), "_Barrier", "b = tj.alloc_barrier(arrivals=4)\ntj.warp.arrive(b)"),
    Intrinsic("alloc_ring", "stages that producers fill and consumers empty, of two barriers each; ring[i] is step i", (
        CallParameter("stages", "int", "how many steps may be under way"),
        CallParameter("producers", "int", "how many commit each step", 1),
        CallParameter("consumers", "int", "how many release each step, of each CTA", 1),
        CallParameter("multicast", "int | None", "the cluster's axis whose CTAs fill each step together", None),
    ), "_Ring", "ring = tj.alloc_ring(2)\nring[0].acquire()"),
    Intrinsic("named_barrier", "one of a CTA's barriers by its number, for some of its warps", (
        CallParameter("id", "int", f"from {USERS[0]} to {USERS[-1]}"),
        CallParameter("threads", "int", "how many meet there, of whole warps"),
    ), "_NamedBarrier", "A[tj.thread_id(), 0] = 1.0\ntj.named_barrier(1, 128).sync()"),
    Intrinsic("set_registers", "how many registers each thread of the warpgroup has from here on, of the CTA's pool", (
        CallParameter("n", "int", "a multiple of 8 from 24 to 256"),
    ), "None", "if tj.warpgroup_id() == 0:\n    tj.set_registers(24)"),
)

_MEMORY = (
    _word("alloc_shared", "shared memory", "Region",
          "x = tj.alloc_shared((32, 8), tj.float32)\ntj.cta.copy(x, A[0:32, 0:8])", "shape dtype", "layout swizzle"),
    _word("alloc_local", "registers", "Tile",
          "x = tj.alloc_local((8,), tj.float32)\ntj.thread.copy(x, A[0, 0:8])", "shape dtype", "layout"),
    _word("alloc_tmem", "tensor memory", "Region",
          "x = tj.alloc_tmem((128, 8), tj.float32)\ny = x[0:128, 0:4]", "shape dtype", "layout"),
    _word("assume_in_bounds", "the region, known not to pass its tensor's edge", "Region",
          "i = tj.cta_id(0)\nx = tj.cta.load(tj.assume_in_bounds(A.tile((32, 8), (i, 0))))", "region"),
)


def _id(name: str, meaning: str, *parameters: CallParameter, gives: str = "Scalar") -> Intrinsic:
    call = f"tj.{name}({', '.join('0' for _ in parameters)})"
    return Intrinsic(name, meaning, parameters, gives, f"i = {call}\nA[i, 0] = 1.0")


_IDS = (
    _id("cta_id", "index of this CTA in the grid, along an axis", _AXIS),
    _id("num_ctas", "CTAs of the grid, along an axis", _AXIS),
    _id("cluster.id", "index of this CTA's cluster among those of the grid, along an axis", _AXIS),
    Intrinsic("cluster.rank", "index of this CTA in its cluster, along an axis or in all; 0 without cluster=",
              (_CLUSTER_AXIS,), "Scalar", "i = tj.cluster.rank()\nA[i, 0] = 1.0"),
    Intrinsic("cluster.size", "CTAs of a cluster, along an axis or in all, known at compile time", (_CLUSTER_AXIS,),
              "int", "i = tj.cta_id(0) // tj.cluster.size(0)\nA[i, 0] = 1.0"),
    _id("thread_id", "index of this thread in its CTA"),
    Intrinsic("num_threads", "threads of a CTA, known at compile time", (), "int",
              "i = tj.cta_id(0) * tj.num_threads() + tj.thread_id()\nA[i, 0] = 1.0"),
    _id("lane_id", "index of this thread in its warp"),
    _id("warp_id", "index of this warp in its CTA"),
    _id("warpgroup_id", "index of this warpgroup in its CTA"),
    Intrinsic(
        "static_range", "as range, but unrolled: the index is known at compile time",
        (CallParameter("start", "int", "or the end, where there is one argument"),
         CallParameter("stop", "int | None", "", None), CallParameter("step", "int | None", "", None)),
        "range", "for k in tj.static_range(8):\n    A[0, k] = 1.0",
    ),
    Intrinsic(
        "elect", "whether this is the one thread of its warp that is elected", (), "bool",
        "if tj.elect():\n    A[tj.warp_id(), 0] = 1.0",
    ),
)
_TILES = (
    _word("cat", "two tiles side by side along an axis", "Tile", f"{_LOAD}y = tj.cat(x, x, axis=1)", "a b axis"),
    Intrinsic("split", "a tuple of equal parts of a tile along an axis",
              (CallParameter("x", "Tile"), parameter("parts"), parameter("axis")), "tuple[Tile, ...]",
              f"{_LOAD}left, right = tj.split(x, 2, axis=1)"),
    Intrinsic(
        "reduce", "elements of a tile, or of a tuple of tiles, combined along axes by a function, in their order",
        (CallParameter("x", "Tile | tuple[Tile, ...]"),
         CallParameter("axis", "int | tuple[int, ...] | None", "the axes that are combined; None for all"),
         parameter("combine"), parameter("keepdims", optional=True)),
        SAME, "def last(a, b): return tj.where(b != 0.0, b, a)\nx = tj.reduce(tj.cta.load(A[0:32, 0:8]), 1, last)",
    ),
)
_ORDERED = (
    _word("load_acquire", "an element, whose last release is acquired: what was done before it comes before what "
          "follows", "Scalar", 'ready = tj.load_acquire(H[0, 0])\nlater = tj.load_acquire(H[0, 1], scope="sys")',
          "place", "scope"),
    _word("store_release", "writes an element; who acquires it sees what this thread did before", "None",
          "if tj.thread_id() == 0:\n    tj.store_release(H[0, 0], 1)", "place value", "scope"),
    _word("load_volatile", "an element, read anew each time", "Scalar",
          "x = tj.load_volatile(H[0, 0])\ny = tj.load_volatile(H[0, 0])", "place"),
    _word("fence", "orders this thread's accesses for those that learn of them by a flag", "None",
          'A[tj.thread_id(), 0] = 1.0\ntj.fence("gpu")', "scope"),
)
_SYNC_EXAMPLE = "A[tj.thread_id(), 0] = 1.0\ntj.{}()"
_SYNCS = (
    *(Intrinsic(f"{scope}_sync", barrier.meaning, example=_SYNC_EXAMPLE.format(f"{scope}_sync"))
      for scope, barrier in BARRIERS.items()),
    Intrinsic("cluster_sync", CLUSTER_SYNC.meaning, example=_SYNC_EXAMPLE.format("cluster_sync")),
    Intrinsic("grid_sync", "waits for all threads of a cooperative launch; orders their memory accesses",
              example=_SYNC_EXAMPLE.format("grid_sync")),
)
#: name -> the mode in the instruction table, and what the call names beside the value
SHUFFLES = {
    "shuffle": ("idx", "lane"), "shuffle_xor": ("bfly", "mask"), "shuffle_up": ("up", "distance"),
    "shuffle_down": ("down", "distance"),
}
#: name -> what is asked of the lanes
VOTES = {"vote_any": "any", "vote_all": "all", "vote_ballot": "ballot"}
_SHUFFLED = {
    "shuffle": "the value of another lane of the warp",
    "shuffle_xor": "the value of the lane whose index differs in the bits of a mask",
    "shuffle_up": "the value of the lane some lanes below, or its own where there is none",
    "shuffle_down": "the value of the lane some lanes above, or its own where there is none",
}


def _lanes() -> Iterator[Intrinsic]:
    value = CallParameter("x", "float", "a thread's own value")
    for name, meaning in _SHUFFLED.items():
        by = SHUFFLES[name][1]
        other = CallParameter(by, "int", "the bits") if by == "mask" else parameter(by)
        yield Intrinsic(name, meaning, (value, other), "Scalar", f"{_THREAD}x = tj.{name}(A[i, 0], 1)")
    for name, asked in VOTES.items():
        gives = "Scalar" if asked == "ballot" else "bool"
        yield _word(name, VOTE[asked].meaning, gives, f"{_THREAD}x = tj.{name}(A[i, 0] > 0)", "condition")
    yield Intrinsic(
        "uniform", "the value, which all threads of the scope hold",
        (value, CallParameter("scope", "Any", "tj.warp, tj.warpgroup or tj.cta")), "Scalar",
        f"{_THREAD}w = tj.uniform(i // 32, tj.warp)",
    )


#: `tj.atomic.<name>` -> the operation in the instruction table; what is subtracted is added with the other sign
ATOMICS = {
    "add": "add", "sub": "add", "max": "max", "min": "min", "and_": "and", "or_": "or", "xor": "xor", "exch": "exch",
    "cas": "cas",
}


_WHO = (
    "An element: by each thread that comes, so `if tj.thread_id() == 0:` where one should; "
    "a region by a tile: once for each element"
)


def _atomics() -> Iterator[Intrinsic]:
    for name, op in ATOMICS.items():
        operation = OPERATIONS[op]
        meaning = operation.meaning.replace("added", "subtracted") if name == "sub" else operation.meaning
        values = ", ".join(("0", "i") if len(operation.operands) == 2 else "i")
        yield _word(
            f"atomic.{name}", f"the place {meaning.replace('$', '')}; gives what was there. {_WHO}", OLD,
            f"{_THREAD}before = tj.atomic.{name}(H[0, 0], {values})",
            " ".join(("place", *operation.operands)), "order scope mask",
        )


_ASYNCHRONOUS = {
    "bulk.wait": "tj.bulk.wait_read(1)\ntj.bulk.wait(0)",
    "bulk.wait_read": "tj.bulk.wait_read(0)\ntj.cta_sync()",
    "cp_async.commit": "tj.cta.copy_async(tj.alloc_shared((32, 8), tj.float32), A[0:32, 0:8])\ntj.cp_async.commit()",
    "cp_async.wait": "tj.cp_async.commit()\ntj.cp_async.wait(0)",
    "wgmma.wait": GEMM_ASYNC.example.replace("\n", "; ").replace("; tj.wgmma.wait", "\ntj.wgmma.wait"),
    "tcgen05.wait_ld": "x = tj.alloc_tmem((128, 8), tj.float32)\ntj.tcgen05.wait_ld()",
    "tcgen05.wait_st": "x = tj.alloc_tmem((128, 8), tj.float32)\ntj.tcgen05.wait_st()",
}


def _asynchronous() -> Iterator[Intrinsic]:
    for name, row in ASYNC_CALLS.items():
        parameters = () if row.leaves is None else (parameter("n"),)
        yield Intrinsic(name, row.meaning.replace("$", ""), parameters, "None", _ASYNCHRONOUS.get(name, ""))


def _elementwise(name: str, op: Elementwise) -> Intrinsic:
    """Of scalars and tiles. name: as it is called."""
    parameters = tuple(CallParameter(each, "Tile | float") for each in op.operands)
    converted = "" if op.takes_floats else ".astype(tj.int32)"
    arguments = ("x > 0",) * op.conditions + ("x",) * (op.arity - op.conditions)
    example = f"x = tj.cta.load(A[0:32, 0:8]){converted}\ny = tj.{name}({', '.join(arguments)})"
    return Intrinsic(name, op.meaning, parameters, EACH, example)


def _reduction(reduction: Reduction) -> Intrinsic:
    axis = CallParameter("axis", "int | tuple[int, ...] | None", "the axes that are reduced; all unless given", None)
    of_result = CallParameter("dtype", f"{_TYPES} | None", "of the result, in which elements are combined", None)
    dtype = (of_result,) if reduction.grows else ()
    parameters = (CallParameter("x", "Tile"), axis, *dtype, parameter("keepdims", optional=True))
    meaning = f"over axes of a tile: {reduction.meaning}"
    return Intrinsic(reduction.name, meaning, parameters, REDUCED, f"{_LOAD}y = tj.{reduction.name}(x, axis=1)")


def words() -> Iterator[Intrinsic]:
    """Every function that is called as `tj.<name>`, or `tj.<group>.<name>`."""
    yield from (*_MEMORY, *_BARRIERS, *_IDS, *_TILES, *_ORDERED, *_SYNCS, *_lanes(), *_atomics(), *_asynchronous())
    for name, op in ELEMENTWISE.items():
        yield _elementwise(name, op)
        if op.approximation is not None:
            # `tj.fast.exp` is the operation fast_exp
            yield _elementwise(name.replace("_", ".", 1), op)
    yield from map(_reduction, REDUCTIONS.values())
