"""Proof that a plan carries out its operation. This module proves `Moves` and delegates the other kinds of moves."""

from __future__ import annotations

from itertools import pairwise
from math import prod

import numpy as np

from ...errors import assert_never
from ...fast_unique import fast_unique
from ...ir.nodes import Expr, Region, Special, TileOp, Var
from ...ir.walk import subexpressions
from ...scopes import SCOPES
from ..plans import Folds, JointAccess, Moves, Passes, Plan, Products, Reductions, Staged, WarpgroupProducts
from ..schedule.iterations import launch_values
from .passes import prove_passes
from .places import Contents, addresses, each_element, need_no_stray_write
from .products import prove_products
from .reductions import prove_folds, prove_reductions
from .warpgroup_products import prove_warpgroup_products

Array = np.ndarray


def prove(plan: Plan, op: TileOp) -> None:
    """Raise AssertionError unless the plan carries out the operation.

    Each element of the destination is written exactly once in each place that holds it, from the corresponding elements
    of the inputs, by threads that own the registers. Nothing outside the destination is written, and memory accesses
    are aligned. A matrix product adds each product of elements of A and B to its accumulator element once. A reduction
    combines each element of a result once, in order if that matters.
    """
    match plan.moves():
        case Products() as products:
            prove_products(products, op)
        case WarpgroupProducts() as products:
            prove_warpgroup_products(products, op)
        case Reductions() as reductions:
            prove_reductions(reductions, op)
        case Folds() as folds:
            prove_folds(folds, op)
        case Passes() as passes:
            prove_passes(passes, op)
        case Staged() as staged:
            prove_staged(staged, op)
        case Moves() as moves:
            prove_moves(moves, op)
            issues = int(moves.issue.max(initial=-1)) + 1
            assert issues <= plan.facts().rounds, f"{issues} rounds are moved; the plan says {plan.facts().rounds}"
        case unknown:
            assert_never(unknown)


def prove_staged(moves: Staged, op: TileOp) -> None:
    """Like `prove`, for consecutive steps: each later one reads the destination of the one before."""
    steps = [step for step, _ in moves.steps]
    assert steps[0].region("src") == op.region("src"), "the first step reads something else"
    assert steps[-1].region("dst") == op.region("dst"), "the last step writes something else"
    for before, after in pairwise(steps):
        assert _is_same(before.region("dst"), after.region("src")), "a step doesn't read what the one before wrote"
    for step, plan in moves.steps:
        prove(plan, step)


def _is_same(one: Region, other: Region) -> bool:
    if one.buffer.root != other.buffer.root:
        return False
    # compare for two values of each variable, such as an instance's index
    names = {e.name for r in (one, other) for x in r.starts for e in subexpressions(x) if isinstance(e, (Var, Special))}
    values = (dict.fromkeys(names, number) for number in range(2))
    return all(np.array_equal(addresses(one, each), addresses(other, each)) for each in values)


def prove_moves(moves: Moves, op: TileOp) -> None:
    """Like `prove`, for a plan that moves or computes elements one by one."""
    tiles = op.tiles
    assert len(tiles) == len(moves.steps), f"{len(moves.steps)} sides are moved; {op.name} has {len(tiles)} tiles"
    values = launch_values(tuple(tiles.values()))
    sides = [Contents.of(r, op.scope, values) for r in tiles.values()]
    threads = SCOPES[op.scope].size
    assert (moves.thread >= 0).all(), "a thread outside the scope moves elements"
    assert threads is None or (moves.thread < threads).all(), "a thread outside the scope moves elements"
    if sides[0].region.buffer.space == "local":
        _, thread, places = each_element(moves)
        need_no_stray_write(sides[0].region, op.scope, thread, places[:, 0])
    _each_once(moves, sides, op.index)
    for number, side in enumerate(sides):
        if side.region.buffer.space in ("global", "shared"):
            _aligned(moves, number, side.region)
            _inside(moves, number, side)


def _each_once(moves: Moves, sides: list[Contents], index: Region | Expr | None) -> None:
    """Raise AssertionError unless each element is written once per place, from the right elements of the inputs."""
    dst, *inputs = sides
    thread, places = _without_padding(*each_element(moves)[1:], sides)
    moved = [dst.keys(thread, places[:, 0])]
    wanted = [dst.every.ravel()]
    for k, side in enumerate(inputs, 1):
        moved.append(side.held(side.keys(thread, places[:, k])))
        _need_contents(side, moved[-1], thread, places[:, k])
        each = _for_each(side, dst.region, leads=side.region is index)
        wanted.append(np.broadcast_to(each, dst.every.shape).ravel())
    assert len(thread) == dst.every.size, f"{len(thread)} elements are moved; {dst.every.size} should be"
    a, b = (table[np.lexsort(table.T[::-1])] for table in (np.stack(moved, axis=1), np.stack(wanted, axis=1)))
    wrong = np.flatnonzero((a != b).any(axis=1))
    assert len(wrong) == 0, (
        f"(place in {dst.region.buffer.name}, elements of {', '.join(s.region.buffer.name for s in inputs) or 'none'}) "
        f"{a[wrong[0]].tolist()} is moved where {b[wrong[0]].tolist()} should be"
    )


def _without_padding(thread: Array, places: Array, sides: list[Contents]) -> tuple[Array, Array]:
    kept = np.ones(len(thread), bool)
    for k, side in enumerate(sides):
        if side.region.buffer.slots:
            kept &= side.held(side.keys(thread, places[:, k])) >= 0
    return thread[kept], places[kept]


def _for_each(side: Contents, dst: Region, *, leads: bool) -> Array:
    """Return the element of `side`, as returned by `held`, for each element of the destination.

    leads: True if the dimensions of `side` are the destination's first ones; otherwise they broadcast.
    """
    elements = side.canonical()
    if len(elements) == prod(dst.shape):
        return elements
    trailing = (1,) * (len(dst.shape) - len(side.region.shape)) if leads else ()
    return np.broadcast_to(elements.reshape(side.region.shape + trailing), dst.shape).ravel()


def _need_contents(side: Contents, elements: Array, thread: Array, place: Array) -> None:
    none = np.flatnonzero(elements < 0)
    assert len(none) == 0, (
        f"thread {thread[none[0]]} takes place {place[none[0]]} of {side.region.buffer.name}, "
        "which holds no element of the region"
    )


def _aligned(moves: Moves, number: int, region: Region) -> None:
    """Raise AssertionError unless accesses are aligned to their size, as the buffer's alignment guarantees."""
    for access in _accesses(moves, number):
        wrong = access.starts[access.starts % access.align != 0]
        assert len(wrong) == 0, f"{access.width} elements of {region.buffer.name} are accessed at {wrong[0]}"
        size, align = access.align * region.dtype.bytes, region.buffer.align
        assert align % size == 0, f"{size} bytes of {region.buffer.name} at once; its base is aligned to {align}"


def _inside(moves: Moves, number: int, side: Contents) -> None:
    """Raise AssertionError if joint accesses of lanes cover anything but elements of the region."""
    for access in moves.accesses:
        if access.side == number:
            covered = fast_unique(access.starts[:, None] + np.arange(access.width))
            outside = covered[side.held(covered) < 0]
            name = side.region.buffer.name
            assert len(outside) == 0, f"place {outside[0]} of {name} is accessed, but holds no element of the region"


def _accesses(moves: Moves, number: int) -> list[JointAccess]:
    places = moves.places[:, number]
    joint = [access for access in moves.accesses if access.side == number]
    if joint:
        _need_covered(joint[0], moves, number)
        return joint
    if not moves.steps[number]:
        return [JointAccess(number, places, width=1, align=1)]
    # a vector of any width is accessed in parts of powers of two, the widest first, each aligned to its size
    widths = 1 << (np.frexp(moves.width)[1] - 1)
    return [JointAccess(number, places[widths == w], width=int(w), align=int(w)) for w in fast_unique(widths)]


def _need_covered(access: JointAccess, moves: Moves, number: int) -> None:
    covered = fast_unique(access.starts[:, None] + np.arange(access.width))
    _, _, places = each_element(moves)
    outside = np.setdiff1d(fast_unique(places[:, number]), covered, assume_unique=True)
    assert len(outside) == 0, f"element {outside[0]} is moved, but not accessed"
