"""Regions side by side: the digits that all of them share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ...dtypes import int64
from ...errors import LayoutError
from ...ir.nodes import Const
from ...layout.grouping import common_refinement
from .placement import Folded, Scaled, Side, Step, Stride, Thread, need_slice

__all__ = ["Atom", "chained", "joined", "reach", "refine", "split", "vectors"]


@dataclass(frozen=True, slots=True)
class Atom:
    """One digit of an index that several regions share.

    extent: how many values. strides: how far a step moves, one entry a region.
    dim: the dimension of the regions that it belongs to, and weight what a step is worth in that dimension's
    index; dim is None where it spans dimensions.
    """

    extent: int
    strides: tuple[Stride, ...]
    dim: int | None
    weight: int

    @property
    def is_folded(self) -> bool:
        return any(isinstance(s, Folded) for s in self.strides)


def refine(sides: Sequence[Side]) -> tuple[Atom, ...]:
    """The coarsest digits in which every side moves by one stride each, slowest first.

    A dimension whose sides split it so differently that no common digits exist becomes one folded atom.
    accepts: sides of one shape.
    raises: LayoutError where such a dimension is spread over threads.
    """
    atoms: list[Atom] = []
    for dim, extent in enumerate(sides[0].shape):
        columns = [side.dims[dim] for side in sides]
        found = _common_digits(columns, dim)
        if found is None:
            _need_no_threads(sides, dim)
            found = [Atom(extent, tuple(_fold(steps) for steps in columns), dim, 1)]
        atoms.extend(found)
    return tuple(atoms)


def _common_digits(columns: Sequence[tuple[Step, ...]], dim: int) -> list[Atom] | None:
    if any(isinstance(s.stride, Folded) for steps in columns for s in steps):
        return None
    try:
        extents, marks = common_refinement([[s.extent for s in steps] for steps in columns])
    except LayoutError:
        return None
    strides = [_spread(steps, extents, at) for steps, at in zip(columns, marks, strict=True)]
    return [
        Atom(e, tuple(column[k] for column in strides), dim, prod(extents[k + 1 :]))
        for k, e in enumerate(extents)
        if e > 1
    ]


def _need_no_threads(sides: Sequence[Side], dim: int) -> None:
    """Raise LayoutError where a dimension without common digits is spread over threads."""
    if not any(isinstance(s.stride, Thread) for side in sides for s in side.dims[dim]):
        return
    for given in sides:
        need_slice(given)
    shown = " and ".join(f"{given.buffer.name} as {_split(given.dims[dim])}" for given in sides)
    raise LayoutError(
        f"threads share a dimension that the operands split without common digits: {shown}",
        hint="choose layouts and regions whose extents divide each other",
    )


def _split(steps: tuple[Step, ...]) -> str:
    return "·".join(str(s.extent) for s in steps)


def _spread(steps: tuple[Step, ...], extents: tuple[int, ...], marks: tuple[int, ...]) -> list[Stride]:
    """The stride of each of the finer `extents`; step k covers those from marks[k] to marks[k + 1]."""
    found: list[Stride] = []
    for k, step in enumerate(steps):
        inner = extents[marks[k] : marks[k + 1]]
        found.extend(_times(step.stride, prod(inner[j + 1 :])) for j in range(len(inner)))
    return found


def _times(stride: Stride, factor: int) -> Stride:
    if isinstance(stride, int):
        return stride * factor
    if isinstance(stride, Thread):
        return Thread(stride.stride * factor)
    if isinstance(stride, Scaled):
        return Scaled(stride.var, stride.factor * factor)
    assert factor == 1, "a folded dimension is one atom"
    return stride


def _fold(steps: tuple[Step, ...]) -> Stride:
    if len(steps) == 1 and isinstance(steps[0].stride, (int, Scaled, Folded)):
        return steps[0].stride
    parts = []
    for k, step in enumerate(steps):
        assert isinstance(step.stride, int)
        parts.append((prod(s.extent for s in steps[k + 1 :]), step.extent, step.stride))
    return Folded(Const(0, int64), tuple(parts))


def joined(atoms: Sequence[Atom], free: Sequence[bool]) -> tuple[Atom, ...]:
    """The same digits with neighbours merged where every side goes on evenly.

    free: for each dimension whether its index is of no further interest, so that it may merge with others.
    """
    run: list[Atom] = []
    for atom in atoms:
        while run and _continues(run[-1], atom, free):
            before = run.pop()
            same = before.dim == atom.dim and before.weight == atom.extent * atom.weight
            atom = Atom(before.extent * atom.extent, atom.strides, atom.dim if same else None, atom.weight)
        run.append(atom)
    return tuple(run)


def _continues(before: Atom, atom: Atom, free: Sequence[bool]) -> bool:
    if not all(_chains(a, b, atom.extent) for a, b in zip(before.strides, atom.strides, strict=True)):
        return False
    if before.dim is not None and before.dim == atom.dim and before.weight == atom.extent * atom.weight:
        return True
    return all(a.dim is None or free[a.dim] for a in (before, atom))


def chained(atoms: Sequence[Atom], column: int) -> tuple[Atom, ...]:
    """The digits merged as far as one side alone goes on evenly; of use for that side's addresses only."""
    run: list[Atom] = []
    for atom in atoms:
        while run and _chains(run[-1].strides[column], atom.strides[column], atom.extent):
            atom = Atom(run.pop().extent * atom.extent, atom.strides, None, 1)
        run.append(atom)
    return tuple(run)


def _chains(slow: Stride, fast: Stride, extent: int) -> bool:
    if isinstance(slow, int) and isinstance(fast, int):
        return slow == extent * fast
    if isinstance(slow, Thread) and isinstance(fast, Thread):
        return slow.stride == extent * fast.stride
    return False


def vectors(atoms: Sequence[Atom], width: int) -> tuple[Atom, ...]:
    """The digits that count vectors of `width` elements along the last atom, whose end may hold a part of one."""
    if width == 1:
        return tuple(atoms)
    last = atoms[-1]
    count = -(-last.extent // width)
    counted = Atom(count, tuple(_times(s, width) for s in last.strides), last.dim, last.weight * width)
    return (*atoms[:-1], *([counted] if count > 1 else []))


def split(atom: Atom, inner: int) -> tuple[Atom, Atom]:
    """The digit as two, the faster of which has `inner` values; these divide the digit's."""
    outer = tuple(_times(s, inner) for s in atom.strides)
    slow = Atom(atom.extent // inner, outer, atom.dim, atom.weight * inner)
    return slow, Atom(inner, atom.strides, atom.dim, atom.weight)


def reach(atoms: Sequence[Atom], column: int) -> int:
    """How far the last digits lead from the first on one side."""
    return sum((a.extent - 1) * s for a in atoms if isinstance(s := a.strides[column], int) and s > 0)
