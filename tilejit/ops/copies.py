"""Operations that move elements: copies, fills, casts and reshapes; also tiles of indices."""

from __future__ import annotations

import math

import numpy as np

from ..dtypes import DType, bool_, from_numpy
from ..isa.hints import CACHES, SIZES
from . import axes
from .broadcast import broadcast_fault, broadcasts, without_units
from .cast import convert
from .record import BARRIER, SCALAR, TILE, Attribute, Attributes, DTypes, Fault, Shapes, TileOperand, TileOperation

DST = TileOperand("dst", "the destination", read=False, written=True)
_SRC = TileOperand("src", "the source")
_FILL = TileOperand("fill", kinds=(SCALAR,), optional=True)
MASK = TileOperand("mask", optional=True)
BARRIER_OPERAND = TileOperand(
    "barrier", "the barrier whose phase also waits for the operation; the kernel still arrives at it",
    kinds=(BARRIER,), optional=True, read=False,
)

#: the indices of a gathered or scattered place, X.at(index)
INDEX = TileOperand("index", kinds=(TILE, SCALAR), optional=True, is_part_of_place=True)

VARIANT_NAME = Attribute("variant", str, "the variant to use")
REQUIRE_BITS = Attribute("require_bits", int, "the minimum width of a transfer in bits")
CACHE = Attribute(
    "cache", str, "the cache eviction policy of the data", choices=("evict_first", "evict_last", "streaming")
)
L2_CACHE = Attribute("cache", str, "the eviction priority of the data in L2", choices=CACHES)
FETCH = Attribute(
    "l2", str, "the number of bytes that a load fetches into L2 together; TMA's default is 256B", choices=SIZES
)
MULTICAST = Attribute(
    "multicast", int, "the axis of the cluster along which all CTAs receive the region; each copies a part of it",
    choices=(0, 1, 2),
)
_SATURATE = Attribute("saturate", bool, "for fp8: saturate like the hardware rather than overflow like ml_dtypes", True)


def _copy_shapes(shapes: Shapes, attrs: Attributes) -> Fault | None:
    dst, src = shapes["dst"], shapes["src"]
    if dst == src or without_units(dst) == without_units(src):
        return None
    hint = "slice the larger one; dimensions of extent 1 don't count"
    to, of = without_units(dst), without_units(src)
    if to == of[::-1]:
        hint = "transpose the tile: x.T"
    elif sorted(to) == sorted(of):
        hint = "reorder the axes of the tile: x.permute(...)"
    elif dst is not None and 1 in (len(to), len(of)) and math.prod(to) == math.prod(of):
        hint = f"reshape the tile: x.reshape({dst})"
    elif dst is not None and src is not None and broadcasts(src, dst):
        hint = f"a copy doesn't broadcast: store x + tj.cta.zeros({dst}, x.dtype), where x is the source tile"
    return Fault(f"shapes differ: the destination has {dst}, the source {src}", hint)


def _masked_shapes(shapes: Shapes, attrs: Attributes) -> Fault | None:
    mask, dst, src = shapes.get("mask"), shapes["dst"] or (), shapes["src"]
    if "index" in shapes and dst != src:
        message = f"shapes differ: the destination has {dst}, the source {src}"
        return _copy_shapes(shapes, attrs) or Fault(message, "reshape the tile: x.reshape(...)")
    if mask is not None and not broadcasts(mask, dst):
        return Fault(f"a mask of shape {mask} doesn't broadcast to {dst}", "slice the mask, or use x[:, None]")
    return _copy_shapes(shapes, attrs)


def mask_fault(dtype: DType) -> Fault:
    """Return the fault of a mask whose type is not bool_."""
    return Fault(f"the mask is {dtype}; it must be bool_", "compare it, as in x != 0")


def _copy_types(dtypes: DTypes, attrs: Attributes) -> Fault | None:
    dst, src, fill, mask = dtypes["dst"], dtypes["src"], dtypes.get("fill"), dtypes.get("mask")
    if mask is not None and mask != bool_:
        return mask_fault(mask)
    if dst != src:
        return Fault(
            f"types differ: the destination is {dst}, the source {src}",
            f"convert in registers: x.astype(tj.{dst})",
        )
    if fill is not None and fill != dst:
        return Fault(f"types differ: the elements are {dst}, the fill {fill}", f"convert the fill to {dst}")
    return None


def into(dst: np.ndarray, values: np.ndarray, saturate: bool = True) -> np.ndarray:
    """Return `values` converted and broadcast to the type and shape of the destination."""
    dtype = from_numpy(dst.dtype)
    assert dtype is not None
    return np.array(np.broadcast_to(convert(np.asarray(values), dtype, saturate), dst.shape))


def _moved(dst: np.ndarray, src: np.ndarray) -> np.ndarray:
    return np.array(src.reshape(dst.shape))


COPY = TileOperation(
    name="copy",
    operands=(DST, _SRC, _FILL, MASK, INDEX),
    attrs=(VARIANT_NAME, REQUIRE_BITS, CACHE),
    meaning="dst = src, of one dtype; elements outside a global tensor or a mask read as fill and are not written",
    example="x = tj.alloc_shared((32, 8), tj.float32)\ntj.cta.copy(x, A[0:32, 0:8])",
    reference=_moved,
    relation=axes.COPY,
    shape_fault=_masked_shapes,
    type_fault=_copy_types,
)

COPY_ASYNC = TileOperation(
    name="copy_async",
    operands=(DST, _SRC, _FILL, BARRIER_OPERAND),
    attrs=(MULTICAST, VARIANT_NAME, REQUIRE_BITS, L2_CACHE, FETCH),
    meaning="like copy, but complete only after the kernel has waited for it",
    example="x = tj.alloc_shared((32, 8), tj.float32)\ntj.cta.copy_async(x, A[0:32, 0:8])",
    reference=_moved,
    relation=axes.COPY,
    shape_fault=_copy_shapes,
    type_fault=_copy_types,
)

FILL = TileOperation(
    name="fill",
    operands=(DST, TileOperand("value", kinds=(SCALAR,))),
    attrs=(VARIANT_NAME,),
    meaning="dst = one value",
    example="x = tj.alloc_shared((32, 8), tj.float32)\ntj.cta.fill(x, 1.5)",
    reference=into,
    relation=axes.GENERATED,
)

CAST = TileOperation(
    name="cast",
    operands=(DST, TileOperand("src", "the source of cast")),
    attrs=(VARIANT_NAME, _SATURATE),
    meaning="dst = src converted to dst's dtype",
    example="x = tj.alloc_shared((32, 8), tj.float16)\ntj.cta.cast(x, A[0:32, 0:8])",
    reference=into,
    relation=axes.ELEMENTWISE,
    shape_fault=broadcast_fault,
)


def _reshape_shapes(shapes: Shapes, attrs: Attributes) -> Fault | None:
    dst, src = shapes["dst"] or (), shapes["src"] or ()
    if math.prod(dst) == math.prod(src):
        return None
    return Fault(
        f"shape {dst} has {math.prod(dst)} elements; a tile of shape {src} has {math.prod(src)}",
        "give a shape with the same number of elements",
    )


def _reshape_types(dtypes: DTypes, attrs: Attributes) -> Fault | None:
    dst, src = dtypes["dst"], dtypes["src"]
    return None if dst == src else Fault(
        f"types differ: the destination is {dst}, the source {src}", "convert the source: x.astype(...)"
    )


RESHAPE = TileOperation(
    name="reshape",
    operands=(DST, TileOperand("src", "the source of reshape")),
    attrs=(VARIANT_NAME,),
    meaning="dst = the elements of src in row-major order, in another shape",
    example="x = tj.alloc_local((32, 8), tj.float32, layout=tj.S[(32, 8) : (1 @ tj.laneid, 1)])\n"
    "tj.warp.reshape(x, tj.warp.load(A[0:32, 0:8]).reshape((4, 64)))",
    reference=_moved,
    relation=axes.RESHAPE,
    shape_fault=_reshape_shapes,
    type_fault=_reshape_types,
)


def _index_types(dtypes: DTypes, attrs: Attributes) -> Fault | None:
    dst = dtypes["dst"]
    return None if dst.is_integer else Fault(
        f"indices are integers; the destination is {dst}", "make integer indices and convert them: x.astype(...)"
    )


def _indices(dst: np.ndarray, axis: int = 0) -> np.ndarray:
    along = np.arange(dst.shape[axis]).reshape(-1, *(1,) * (dst.ndim - axis - 1))
    return np.array(np.broadcast_to(along, dst.shape), dst.dtype)


ALONG = Attribute("axis", int, "the axis whose indices are the elements", 0)

INDICES = TileOperation(
    name="indices",
    operands=(DST,),
    attrs=(ALONG, VARIANT_NAME),
    meaning="a local tile of int32: each element's index along an axis",
    example="rows = tj.S[(32, 8) : (1 @ tj.laneid, 1)]\nx = tj.warp.indices((32, 8), 0, layout=rows)",
    reference=_indices,
    relation=axes.GENERATED,
    type_fault=_index_types,
)
