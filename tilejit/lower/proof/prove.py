"""Proof that a plan carries out its operation."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ...fast_unique import fast_unique
from ...ir.nodes import Expr, Region, Stmt, TileOp
from ...ops.fold import PAIRS
from ...ops.reduce import axes_of
from ...scopes import SCOPES
from ..builder import Builder
from ..plans import Folds, JointAccess, Moves, Plan
from ..schedule.iterations import launch_values
from .places import Contents, each_element, elements_of_threads, need_no_stray_write
from .traced import prove_traced

Array = np.ndarray


def prove(plan: Plan, op: TileOp, threads: int, b: Builder, body: Sequence[Stmt]) -> None:
    """Raise AssertionError unless the emitted lane IR carries out the operation.

    threads: number of threads of the operation's scope. b: the builder, whose head defines variables. body: the
    operation's lane IR.

    Each element of the destination is written exactly once in each place that holds it, from the corresponding elements
    of the inputs, by threads that own the registers. Nothing outside the destination is written, and memory accesses
    are aligned. A matrix product adds each product of elements of A and B to its accumulator element once. A reduction
    combines each element of a result once, in order if that matters.
    """
    if plan.is_traced:
        prove_traced(plan, op, threads, b, body)
        return
    match plan.moves():
        case Folds() as folds:
            prove_folds(folds, op)
        case Moves() as moves:
            prove_moves(moves, op)
            issues = int(moves.issue.max(initial=-1)) + 1
            assert issues <= plan.facts().rounds, f"{issues} rounds are moved; the plan says {plan.facts().rounds}"
        case unknown:
            raise AssertionError(f"{type(unknown).__name__} can't be compared; the plan must be traced")


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

    leads: True if the dimensions of `side` are the destination's first ones, False if they are its last ones.
    """
    elements = side.canonical()
    if len(elements) == prod(dst.shape):
        return elements
    trailing = (1,) * (len(dst.shape) - len(side.region.shape)) if leads else ()
    return np.broadcast_to(elements.reshape(side.region.shape + trailing), dst.shape).ravel()


def _need_contents(side: Contents, elements: Array, thread: Array, place: Array) -> None:
    none = np.flatnonzero(elements < 0)
    assert len(none) == 0, (
        f"thread {thread[none[0]]} reads place {place[none[0]]} of {side.region.buffer.name}, "
        "which holds no element of the region"
    )


def _aligned(moves: Moves, number: int, region: Region) -> None:
    """Raise AssertionError unless accesses are aligned to their size, as the buffer's alignment guarantees."""
    for access in _accesses(moves, number):
        wrong = access.starts[access.starts % access.align != 0]
        assert len(wrong) == 0, f"{access.width} elements of {region.buffer.name} are accessed at {wrong[0]}, unaligned"
        size, align = access.align * region.dtype.bytes, region.buffer.align
        assert align % size == 0, (
            f"{size} bytes of {region.buffer.name} are accessed at once; its base is aligned to {align}"
        )


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


def prove_folds(folds: Folds, op: TileOp) -> None:
    """Raise AssertionError unless each result is in all its places and combines its elements once, in their order."""
    result_of, threads = _results(op), len(folds.order)
    slots = folds.src.shape[2]
    pairs = [(to, of) for to, of in PAIRS if to in op.tiles]
    for (to, of), registers, sources in zip(pairs, folds.dst, folds.src, strict=True):
        dst, src = op.region(to), op.region(of)
        held_dst, held_src = elements_of_threads(dst, op.scope, threads), elements_of_threads(src, op.scope, threads)
        _need_written(registers, held_dst, dst, op.scope)
        for thread, order in enumerate(folds.order):
            taken = order[order >= 0]
            for register, column in zip(registers, sources, strict=True):
                result = held_dst[thread, register]
                if result >= 0:
                    elements = held_src[taken // slots, column[taken % slots]]
                    wanted = np.flatnonzero(result_of == result)
                    _need_all(elements, wanted, f"result {result} of {dst.buffer.name}")
                    assert np.array_equal(elements, wanted), (
                        f"result {result} of {dst.buffer.name} combines elements {elements.tolist()} out of order"
                    )


def _need_written(registers: Array, held: Array, dst: Region, scope: str) -> None:
    """Raise AssertionError unless each register that holds an element of a destination is written exactly once.

    All threads write these registers, so none may hold an element outside the destination there.
    """
    written = fast_unique(registers)
    assert len(written) == len(registers), "two results share a register"
    unwritten = np.setdiff1d(np.flatnonzero((held >= 0).any(axis=0)), written, assume_unique=True)
    assert len(unwritten) == 0, f"register {unwritten[0]} of {dst.buffer.name} isn't written"
    assert (written < held.shape[1]).all(), f"register {written[-1]} of {dst.buffer.name} doesn't exist"
    need_no_stray_write(dst, scope, *np.meshgrid(np.arange(len(held)), registers, indexing="ij"))


#: marks a register that a thread doesn't use; -1 marks a register that holds no element
_NONE = -2


def _need_all(elements: Array, wanted: Array, what: str) -> None:
    taken = np.sort(elements[elements != _NONE])
    assert (taken >= 0).all(), f"{what} is made of registers that hold no element"
    assert len(fast_unique(taken)) == len(taken), f"{what} has an element twice"
    assert np.array_equal(taken, wanted), f"{what} is made of elements {taken.tolist()} instead of {wanted.tolist()}"


def _results(op: TileOp) -> Array:
    """Return, for each element of the source, the element of the destination to which it contributes."""
    src = op.region("src")
    axes = axes_of(dict(op.attrs), len(src.shape))
    kept = [1 if d in axes else n for d, n in enumerate(src.shape)]
    return np.broadcast_to(np.arange(prod(kept)).reshape(kept), src.shape).ravel()
