"""Names from other languages and libraries, and their equivalents in tilejit; a test compiles every equivalent."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from ..dataclass import dataclass, replace
from ..ops.elementwise import ELEMENTWISE
from ..ops.tile import TILE_OPERATIONS

#: origins: functions that Python can also run outside kernels (NumPy), and names that exist only in kernels
HOST, CUDA, TRITON = "NumPy", "CUDA", "Triton"


@dataclass(frozen=True, slots=True)
class ForeignWord:
    """A name from another language or library, and its equivalent."""

    #: without the library, but with the name before it if it is ambiguous alone, as in `shared.array`
    name: str
    of: str
    #: an expression or a statement; x and y are values, a and b matrices, A an array
    instead: str
    note: str = ""

    @property
    def hint(self) -> str:
        written = f"at run time, write {self.instead}" if self.of is HOST else f"write {self.instead}"
        return f"{written}{f': {self.note}' if self.note else ''}"


#: component of a CUDA index -> axis
AXES = {"x": 0, "y": 1, "z": 2}

_ONE_INDEX = "the threads of a CTA have one index; split it with % and //"
_REGION = "a region of the array; its part outside reads as 0 and isn't written, so it needs no mask"
_FENCES = "the compiler inserts the fences between ordinary and asynchronous accesses"
_PRODUCTS, _COPIES = "each gemm_async is a group of its own", "each copy_async is a group of its own"
_BROADCAST = "shapes broadcast as in NumPy"
_COUNTED = "with H.at(x) as the place, each element of x increments its bin"
_ANEW = "a gather from memory along its first axis"
_OF_THE_CTA = "on a tile of the CTA; it needs no barriers"
_OF_THE_WARP = "on a tile of the warp: x = tj.warp.load(...)"
_VECTOR = "four elements in one instruction if the array is aligned"
_KNOWN = "the launch determines the alignment of addresses and strides"
_FAST = "the approximate instruction"
_BITS = "the same bits, of a scalar or a tile"

# names, separated by spaces -> equivalent, or (equivalent, note)
_HOST = {
    "absolute fabs": "tj.abs(x)",
    "add": "x + y",
    "amax": "tj.max(x)",
    "amin": "tj.min(x)",
    "arange": "tj.cta.indices(shape, axis)",
    "around rint": "tj.round(x)",
    "arctan2": "tj.atan2(x, y)",
    "bitwise_and": "x & y",
    "bitwise_count": ("tj.popcount(x)", "which counts the two's complement bits of a negative x"),
    "bitwise_or": "x | y",
    "bitwise_xor": "x ^ y",
    "broadcast_to": ("x[:, None]", _BROADCAST),
    "clip": "tj.clamp(x, low, high)",
    "concatenate": "tj.cat(x, y, axis)",
    "divide": "x / y",
    "dot matmul tensordot": "a @ b",
    "empty": "tj.alloc_local(shape, dtype)",
    "expand_dims": "x[:, None]",
    "floor_divide": "x // y",
    "full": "tj.cta.full(shape, value, dtype)",
    "full_like": "tj.cta.full(x.shape, value, x.dtype)",
    "invert": "~x",
    "isnan": "x != x",
    "mean average": ("tj.sum(x) / n", "n is the number of elements"),
    "multiply": "x * y",
    "negative": "-x",
    "ones": "tj.cta.full(shape, 1, dtype)",
    "pow power": "x ** y",
    "remainder": "x % y",
    "square": "x * x",
    "subtract": "x - y",
    "transpose": "x.T",
    "trunc": "tj.where(x < 0, tj.ceil(x), tj.floor(x))",
    "size": "A.size",
    "std": ("tj.sqrt(tj.sum((x - tj.sum(x) / n) ** 2) / n)", "n is the number of elements"),
    "var": ("tj.sum((x - tj.sum(x) / n) ** 2) / n", "n is the number of elements"),
    "isinf": "tj.abs(x) == tj.inf",
    "ravel": "x.reshape(-1)",
    "arctan atan": "tj.atan2(x, 1.0)",
    "arcsin asin": "tj.atan2(x, tj.sqrt(1 - x * x))",
    "arccos acos": "tj.atan2(tj.sqrt(1 - x * x), x)",
    "allclose": "tj.all(tj.abs(x - y) <= 1e-5)",
    "array_equal": "tj.all(x == y)",
    "bincount": ("tj.atomic.add(place, 1)", _COUNTED),
    "cbrt": ("x ** (1 / 3)", "for x >= 0"),
    "copysign": "tj.where(y < 0, -tj.abs(x), tj.abs(x))",
    "cosh": "(tj.exp(x) + tj.exp(-x)) / 2",
    "count_nonzero": "tj.sum(x != 0)",
    "deg2rad radians": "x * 0.017453292519943295",
    "degrees rad2deg": "x * 57.29577951308232",
    "einsum": ("a @ b", "or tj.sum(x * y, axis)"),
    "empty_like": "tj.alloc_local(x.shape, x.dtype)",
    "eye identity": "tj.where(tj.cta.indices((8, 8), 0) == tj.cta.indices((8, 8), 1), 1.0, 0.0)",
    "flip": ("tj.cta.load(A.at(7 - tj.cta.indices((8,), 0)))", _ANEW),
    "fmax": ("tj.maximum(x, y)", "which returns NaN if either is NaN"),
    "fmin": ("tj.minimum(x, y)", "which returns NaN if either is NaN"),
    "fmod": ("x % y", "which has the sign of y"),
    "hstack": "tj.cat(x, y, 1)",
    "inner vdot": "tj.sum(x * y)",
    "isclose": "(tj.abs(x - y) <= 1e-5) | (x == y)",
    "isfinite": "tj.abs(x) < tj.inf",
    "linspace": ("tj.cta.indices(shape, axis) * 0.5", "the index times the step"),
    "log10": "tj.log(x) * 0.4342944819032518",
    "logical_xor": "(x != 0) != (y != 0)",
    "moveaxis swapaxes": "x.permute(1, 0)",
    "nan_to_num": ("tj.where(x == x, x, 0)", "which keeps infinities"),
    "nanmax": "tj.max(tj.where(x == x, x, -tj.inf))",
    "nanmin": "tj.min(tj.where(x == x, x, tj.inf))",
    "nansum": "tj.sum(tj.where(x == x, x, 0))",
    "ones_like": "tj.cta.full(x.shape, 1, x.dtype)",
    "outer": "x[:, None] * y[None, :]",
    "pad": ("tj.cta.load(A[0:16, 0:16], fill=0)", "elements outside the array read as fill"),
    "ptp": "tj.max(x) - tj.min(x)",
    "reshape squeeze": "x.reshape(shape)",
    "roll": ("tj.cta.load(A.at((tj.cta.indices((8,), 0) + 7) % 8))", _ANEW),
    "sign": "tj.where(x > 0, 1, tj.where(x < 0, -1, x))",
    "sinh": "(tj.exp(x) - tj.exp(-x)) / 2",
    "take": ("tj.cta.load(A.at(tj.cta.indices((8,), 0)))", "with your own tile of indices"),
    "tan": "tj.sin(x) / tj.cos(x)",
    "tril": "tj.where(tj.cta.indices((8, 8), 0) >= tj.cta.indices((8, 8), 1), x, 0)",
    "triu": "tj.where(tj.cta.indices((8, 8), 0) <= tj.cta.indices((8, 8), 1), x, 0)",
    "vstack": "tj.cat(x, y, 0)",
    "zeros": "tj.cta.zeros(shape, dtype)",
    "zeros_like": "tj.cta.zeros(x.shape, x.dtype)",
}

_CUDA = {
    "threadIdx thread_idx tid": ("tj.thread_id()", _ONE_INDEX),
    "blockIdx block_idx block_id bid": "tj.cta_id(axis)",
    "blockDim block_dim": "tj.num_threads()",
    "gridDim grid_dim num_blocks": "tj.num_ctas(axis)",
    "grid": "tj.cta_id(0) * tj.num_threads() + tj.thread_id()",
    "gridsize": "tj.num_ctas(0) * tj.num_threads()",
    "warpSize warpsize": "32",
    "lane_idx laneid": "tj.lane_id()",
    "warp_idx": "tj.warp_id()",
    "syncthreads sync_threads barrier this_thread_block": "tj.cta_sync()",
    "syncwarp sync_warp tiled_partition": "tj.warp_sync()",
    "threadfence": 'tj.fence(scope="gpu")',
    "shared shared.array shared_memory": "tj.alloc_shared(shape, dtype)",
    "local local.array": "tj.alloc_local(shape, dtype)",
    "ldg": "A[i, j]",
    "printf": "print(i)",
    "shfl_sync": "tj.shuffle(i, lane)",
    "shfl_xor_sync": "tj.shuffle_xor(i, mask)",
    "shfl_up_sync": "tj.shuffle_up(i, distance)",
    "shfl_down_sync": "tj.shuffle_down(i, distance)",
    "any_sync": "tj.vote_any(i > 0)",
    "all_sync": "tj.vote_all(i > 0)",
    "ballot_sync": "tj.vote_ballot(i > 0)",
    "atomicAdd atomic.add": "tj.atomic.add(A[i, j], value)",
    "atomicSub atomic.sub": "tj.atomic.sub(A[i, j], value)",
    "atomicMax atomic.max": "tj.atomic.max(place, value)",
    "atomicMin atomic.min": "tj.atomic.min(place, value)",
    "atomicAnd atomic.and_": "tj.atomic.and_(place, value)",
    "atomicOr atomic.or_": "tj.atomic.or_(place, value)",
    "atomicXor atomic.xor": "tj.atomic.xor(place, value)",
    "atomicExch atomic.exch": "tj.atomic.exch(place, value)",
    "atomicCAS compare_and_swap": "tj.atomic.cas(place, value, value)",
    "mbarrier": "tj.alloc_barrier()",
    "elect_one elect_sync": "tj.elect()",
    "tma": ("tj.cta.copy_async(s, A[0:16, 0:16], barrier=full)", "into shared memory; a copy back takes no barrier="),
    "wgmma.commit wgmma.commit_group": ("tj.wgmma.wait(0)", _PRODUCTS),
    "wgmma.wait_group": "tj.wgmma.wait(0)",
    "wgmma.fence": ("tj.wgmma.wait(0)", "the compiler inserts the fences before products"),
    "bulk.commit bulk.commit_group": ("tj.bulk.wait(0)", _COPIES),
    "bulk.wait_group": ("tj.bulk.wait(0)", "or tj.bulk.wait_read(0), for the source alone"),
    "fence_async fence_proxy_async fence_view_async_shared": ("tj.cta_sync()", _FENCES),
    "num_warps": "tj.num_threads() // 32",
    "syncthreads_or": ("tj.any(x > 0)", _OF_THE_CTA),
    "syncthreads_and": ("tj.all(x > 0)", _OF_THE_CTA),
    "syncthreads_count": ("tj.sum(x > 0)", _OF_THE_CTA),
    "threadfence_block": 'tj.fence(scope="cta")',
    "threadfence_system": 'tj.fence(scope="sys")',
    "this_grid": ("tj.grid_sync()", "in a kernel with cooperative=True"),
    "this_cluster": ("tj.cluster_sync()", "tj.cluster has ranks and sizes"),
    "cluster.sync": "tj.cluster_sync()",
    "cluster.block_rank cluster_rank cluster_ctarank": "tj.cluster.rank()",
    "cluster.block_index cluster_ctaid": "tj.cluster.rank(axis)",
    "cluster.num_blocks cluster_size": "tj.cluster.size()",
    "cluster.dim_blocks": "tj.cluster.size(axis)",
    "clusterIdx cluster_id": "tj.cluster.id(axis)",
    "cluster_arrive cluster_wait": ("tj.cluster_sync()", "which arrives and waits"),
    "array_like": ("A[i, j]", "pass the array as an argument"),
    "activemask": ("tj.vote_ballot(i > 0)", "over all lanes"),
    "reduce_add_sync": ("tj.sum(x)", _OF_THE_WARP),
    "reduce_max_sync": ("tj.max(x)", _OF_THE_WARP),
    "reduce_min_sync": ("tj.min(x)", _OF_THE_WARP),
    "memcpy_async async_copy": "tj.cta.copy_async(s, A[0:16, 0:16])",
    "ldmatrix load_matrix_sync": ("a @ b", "of tiles from tj.cta.load"),
    "mma_sync tile_matmul": "a @ b",
    "float4 make_float4": ("tj.thread.load(A[i, j : j + 4])", _VECTOR),
    "selp": "tj.where(i > 0, i, j)",
    "select": "tj.where(x > 0, x, y)",
    "trap": "assert i > 0",
    "popc popcll": "tj.popcount(x)",
    "clzll": "tj.clz(x)",
    "brevll": "tj.brev(x)",
    "ffs": ("32 - tj.clz(x & -x)", "for 32 bits"),
    "ffsll": ("64 - tj.clz(x & -x)", "for 64 bits"),
    "umulhi": "(x.astype(tj.uint64) * y.astype(tj.uint64)) >> 32",
    "saturatef": "tj.clamp(x, 0, 1)",
    "float2half": "x.astype(tj.float16)",
    "half2float int2float_rn": "x.astype(tj.float32)",
    "float2int_rn": "tj.round(x).astype(tj.int32)",
    "float2int_rz": "x.astype(tj.int32)",
    "float_as_int": ("x.view(tj.int32)", _BITS),
    "int_as_float": ("x.view(tj.float32)", _BITS),
    "__expf": ("tj.fast.exp(x)", _FAST),
    "__logf": ("tj.fast.log(x)", _FAST),
    "__log2f": ("tj.fast.log2(x)", _FAST),
    "__sinf": ("tj.fast.sin(x)", _FAST),
    "__cosf": ("tj.fast.cos(x)", _FAST),
    "__fdividef": ("tj.fast.div(x, y)", _FAST),
    "frcp_rn": "1.0 / x",
    "frsqrt_rn": "tj.rsqrt(x)",
    "fsqrt_rn": "tj.sqrt(x)",
    "atomicInc atomic.inc": ("tj.atomic.add(A[i, j], 1)", "which doesn't wrap"),
    "atomicDec atomic.dec": ("tj.atomic.sub(A[i, j], 1)", "which doesn't wrap"),
    "tile_load": ("tj.cta.load(A.tile(shape, (i, j)))", _REGION),
    "tile_store": ("tj.cta.store(A.tile(shape, (i, j)), x)", _REGION),
    "tile_zeros": "tj.cta.zeros(shape, dtype)",
    "tile_ones": "tj.cta.full(shape, 1, dtype)",
    "tile_full": "tj.cta.full(shape, value, dtype)",
    "tile_arange": "tj.cta.indices(shape, axis)",
    "tile_map": ("tj.exp(x)", "functions take whole tiles, as do those with @tj.function"),
    "tile_sum": "tj.sum(x)",
    "tile_max": "tj.max(x)",
    "tile_min": "tj.min(x)",
    "tile_reduce": ("tj.sum(x)", "tj.reduce(x, axis, combine) takes your own function"),
    "tile_transpose": "x.T",
    "tile_broadcast": ("x[:, None]", _BROADCAST),
}

_TRITON = {
    "range": "for k in range(i): pass",
    "cast to": "x.astype(dtype)",
    "fdiv div_rn": "x / y",
    "sqrt_rn": "tj.sqrt(x)",
    "join": "tj.cat(x[:, None], y[:, None], 1)",
    "interleave": "tj.cat(x[:, None], y[:, None], 1).reshape(-1)",
    "swizzle2d": "tj.tile_order(i, shape)",
    "assume": ("tj.assume_in_bounds(A.tile(shape, (i, j)))", "for a region"),
    "multiple_of max_contiguous max_constancy": ("A.tile(shape, (i, j))", _KNOWN),
    "load_tensor_descriptor load": ("tj.cta.load(A.tile(shape, (i, j)))", _REGION),
    "store_tensor_descriptor store": ("tj.cta.store(A.tile(shape, (i, j)), x)", _REGION),
    "masked_fill": "tj.where(y > 0, value, x)",
    "addmm mm": "a @ b",
    "bmm": ("a @ b", "for each matrix A[i, 0:16, 0:16] of the batch"),
    "program_id": "tj.cta_id(axis)",
    "num_programs": "tj.num_ctas(axis)",
    "make_block_ptr make_tensor_descriptor": ("A.tile(shape, (i, j))", _REGION),
    "advance": ("A.tile(shape, (i, j + 1))", "a region is selected by its index"),
    "trans": "x.T",
    "permute": "x.permute(1, 0)",
    "view": "x.reshape(shape)",
    "histogram": ("tj.atomic.add(place, 1)", _COUNTED),
    "softmax": "tj.exp(x - tj.max(x)) / tj.sum(tj.exp(x - tj.max(x)))",
    "libdevice": ("tj.exp(x)", "tj.tanh(x) and the others have NumPy's names"),
    "numel": "x.size",
    "debug_barrier": "tj.cta_sync()",
    "device_print": "print(i)",
    "static_print": "print(shape)",
    "device_assert": "assert i > 0",
    "atomic_add": "tj.atomic.add(A[i, j], value)",
    "atomic_max": "tj.atomic.max(place, value)",
    "atomic_min": "tj.atomic.min(place, value)",
    "atomic_and": "tj.atomic.and_(place, value)",
    "atomic_or": "tj.atomic.or_(place, value)",
    "atomic_xor": "tj.atomic.xor(place, value)",
    "atomic_xchg": "tj.atomic.exch(place, value)",
    "atomic_cas": "tj.atomic.cas(place, value, value)",
}

WORDS: tuple[ForeignWord, ...] = tuple([
    ForeignWord(name, of, *((row,) if isinstance(row, str) else row))
    for of, rows in ((HOST, _HOST), (CUDA, _CUDA), (TRITON, _TRITON))
    for names, row in rows.items() for name in names.split()
])


@functools.cache
def _table() -> Mapping[str, ForeignWord]:
    return {word.name: word for word in WORDS}


def foreign_word(name: str) -> ForeignWord | None:
    """Return the equivalent of a name without its library, or of a C spelling of a tilejit function; else None."""
    word = _table().get(name)
    if word is not None:
        return word
    if name in ELEMENTWISE:
        return ForeignWord(name, HOST, f"tj.{name}")
    if name in TILE_OPERATIONS and TILE_OPERATIONS[name].reduction:
        return ForeignWord(name, HOST, f"tj.{name}(x)", "of a tile, or along an axis")
    # CUDA spellings have leading underscores, as in __syncthreads, or the suffix f, as in expf
    spelled = name.strip("_")
    if spelled != name:
        return foreign_word(spelled)
    if name[-1:] != "f":
        return None
    of_doubles = _table().get(name[:-1])
    if of_doubles is not None:
        return replace(of_doubles, name=name) if of_doubles.of is HOST else None
    return ForeignWord(name, CUDA, f"tj.{name[:-1]}") if name[:-1] in ELEMENTWISE else None


def foreign_word_in(written: str) -> ForeignWord | None:
    """Return the equivalent of a dotted name, such as `cuda.shared.array` or `cuda.threadIdx.x`; else None."""
    parts = written.split(".")
    pairs = [".".join(parts[k : k + 2]) for k in range(len(parts) - 1)]
    word = next(filter(None, map(foreign_word, (*reversed(pairs), *reversed(parts)))), None)
    if word is None or parts[-1] not in AXES:
        return word
    return replace(word, instead=word.instead.replace("(axis)", f"({AXES[parts[-1]]})"))
