"""What each tile operation means: which values the storage of its destination holds afterwards, element by element."""

from __future__ import annotations

import numpy as np

from tests.reference.functions import INEXACT, rounded64
from tests.support.operands import Operand
from tilejit.dtypes import DType, float64, from_numpy
from tilejit.ir.nodes import TileOp
from tilejit.ops.cast import convert
from tilejit.ops.elementwise import ELEMENTWISE, result_type

#: threads of one instance of a scope; a CTA is all of them
SCOPE_THREADS = {"thread": 1, "warp": 32, "warpgroup": 128}


def instances(operand: Operand, scope: str) -> range:
    """The first thread of each instance of a scope."""
    return range(0, operand.threads, SCOPE_THREADS.get(scope, operand.threads))


def copied(
    dst: Operand,
    src: Operand,
    scope: str,
    before: np.ndarray,
    source: np.ndarray,
    fill: int = 0,
    mask: tuple[Operand, np.ndarray] | None = None,
) -> np.ndarray:
    """What the destination's storage must hold after the copy, longhand.

    fill: bits of what lies outside, or is masked off. mask: an operand and its storage; registers get the fill where it
    is false, memory stays as it is.
    """
    after = before.copy()
    for first in instances(dst, scope):
        if first and dst.is_common and src.is_common:
            break
        to, at = dst.slots(dst.indices(first), first), src.slots(src.indices(first), first)
        allowed = np.True_ if mask is None else gathered(mask[0], first, mask[1])
        is_allowed = np.broadcast_to(allowed, dst.region().shape).ravel()
        values = np.where(is_allowed & (at[:, 0] >= 0), source[at[:, 0]], after.dtype.type(fill))
        if dst.space != "local":
            to = np.where(is_allowed[:, None], to, -1)
        put(after, to, values)
    return after


def put(storage: np.ndarray, slots: np.ndarray, values: np.ndarray) -> None:
    """Puts each value into all places of its element but those outside."""
    for owner in slots.T:
        storage[owner[owner >= 0]] = values[owner >= 0]


def agreed(operand: Operand, scope: str, storage: np.ndarray) -> np.ndarray:
    """The storage with one value in all places of a replicated element of a local tile."""
    if operand.space != "local" or not operand.data["layout"].get("replica"):
        return storage
    whole = np.indices(operand.data["shape"]).reshape(len(operand.data["shape"]), -1)
    agreeing = storage.copy()
    for first in instances(operand, scope):
        slots = operand.slots(whole, first)
        put(agreeing, slots, agreeing[slots[:, 0]])
    return agreeing


def computed(
    name: str,
    dst: Operand,
    inputs: list[Operand | np.generic],
    scope: str,
    before: np.ndarray,
    held: dict[str, np.ndarray],
) -> np.ndarray:
    """What the destination's storage must hold after an elementwise operation on tiles and scalars, longhand."""
    after = before.copy()
    for first in instances(dst, scope):
        if first and all(o.is_common for o in (dst, *inputs) if isinstance(o, Operand)):
            break
        values = [gathered(i, first, held[i.name]) if isinstance(i, Operand) else np.asarray(i) for i in inputs]
        value, _ = np.broadcast_arrays(meaning(name, dst.dtype, values), np.zeros(dst.region().shape))
        flat = np.ascontiguousarray(value).view(after.dtype).ravel()
        put(after, dst.slots(dst.indices(first), first), flat)
    return after


def filled(dst: Operand, values: np.ndarray, scope: str, before: np.ndarray) -> np.ndarray:
    """What the destination's storage must hold once every instance of the scope has put these values there."""
    after = before.copy()
    flat = convert(values, dst.dtype).view(after.dtype).ravel()
    for first in instances(dst, scope):
        put(after, dst.slots(dst.indices(first), first), flat)
    return after


def reduced(
    op: TileOp, dst: Operand, src: Operand, before: np.ndarray, source: np.ndarray, **scalars: object
) -> np.ndarray:
    """What the destination's storage must hold after a reduction or a scan."""
    after = before.copy()
    for first in instances(dst, op.scope):
        value = op.record.reference(np.zeros(dst.region().shape, dst.dtype.numpy), gathered(src, first, source),
                                    **{name: value for name, value in op.attrs if name != "variant"}, **scalars)
        flat = np.ascontiguousarray(value).view(after.dtype).ravel()
        put(after, dst.slots(dst.indices(first), first), flat)
    return after


def equal_in_instances(operand: Operand, scope: str, storage: np.ndarray) -> np.ndarray:
    """A local tile's storage with the same values in each instance of a scope."""
    repeated = storage.reshape(len(instances(operand, scope)), -1).copy()
    repeated[:] = repeated[0]
    return repeated.ravel()


def meaning(name: str, dtype: DType, values: list[np.ndarray]) -> np.ndarray:
    """An elementwise operation, a fill or a cast in NumPy: computed in its own type, rounded once to `dtype`."""
    if name in ("cast", "fill"):
        return convert(values[0], dtype)
    assert name in ELEMENTWISE, f"no expected result for {name}"
    types = tuple(from_numpy(v.dtype) for v in values)
    rule = result_type(name, types)
    assert not isinstance(rule, str), rule
    conditions = ELEMENTWISE[name].conditions
    converted = [*values[:conditions], *(convert(v, rule[0]) for v in values[conditions:])]
    with np.errstate(all="ignore"):
        value = np.asarray(ELEMENTWISE[name].formula(*converted))
    if rule[0] == float64 and name in INEXACT:
        # NumPy's own errors would count
        value = rounded64(name, *np.broadcast_arrays(value, *converted))
    return convert(value, dtype)


def gathered(operand: Operand, first: int, storage: np.ndarray) -> np.ndarray:
    """The region's values, for the instance that starts at a thread; 0 outside a tensor."""
    places = operand.slots(operand.indices(first), first)[:, 0]
    values = np.where(places >= 0, storage[places], storage.dtype.type(0))
    return values.view(operand.dtype.numpy).reshape(operand.region().shape)
