"""Axes: the named coordinates of places, and the nesting of thread axes.

```
thread     in a warp     in a warpgroup     in a CTA
           laneid        tid_in_wg          tx
warp                     wid_in_wg          warpid
warpgroup                                   wgid
```
CTAs are counted by cbx, cby and cbz in a cluster, and by bx, by and bz in a grid.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from ..dataclass import dataclass, field
from ..errors import LayoutError
from ..scopes import CTA, LEVELS
from ..wording import shown
from .arguments import integer

# axis name -> (unit, within)
_THREAD_AXES = {axis: (unit, scope.name) for scope in LEVELS.values() for axis, unit in scope.axes.items()}
_THREADS = {scope.name: scope.size for scope in LEVELS.values() if scope.size is not None}
_EXPORTED = frozenset(("laneid", "warpid", "wgid", "tid_in_wg", "wid_in_wg", "tx", "m", "TLane", "TCol"))


@dataclass(frozen=True, slots=True, repr=False)
class Axis:
    """A named axis along which elements have coordinates. Axes of equal names are equal.

    Thread axes (`laneid`, `tx`, …) count a `unit` within a larger one; every other name is a
    memory axis. `3 @ axis` is a stride or an offset along the axis.

    unit: the unit that this axis counts: "thread", "warp", …; "" for memory.
    within: the level within which it counts: "warp", "warpgroup", "cta", …; "" for memory.

    Example:
        layout = S[(32, 8) : (1 @ laneid, 1)]
        assert layout(3, 5) == {"laneid": 3, "m": 5}
    """

    name: str
    is_thread: bool = field(init=False, compare=False, repr=False)
    unit: str = field(init=False, compare=False, repr=False)
    within: str = field(init=False, compare=False, repr=False)

    #: makes NumPy arrays defer `array @ axis` to the axis
    __array_ufunc__: ClassVar[None] = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise LayoutError(f"an axis name is an identifier; got {shown(self.name)}", hint="write laneid, tx or m")
        unit, within = _THREAD_AXES.get(self.name, ("", ""))
        object.__setattr__(self, "is_thread", self.name in _THREAD_AXES)
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "within", within)

    @property
    def limit(self) -> int | None:
        """The number of values of a thread axis, such as 32 lanes; None if it isn't fixed, or for memory."""
        fixed = self.unit in _THREADS and self.within in _THREADS
        return _THREADS[self.within] // _THREADS[self.unit] if fixed else None

    def __rmatmul__(self, value: int) -> Term:
        return Term(integer(value, f"a multiple of axis {self.name}", "write 4 @ laneid"), self)

    def __matmul__(self, value: object) -> Term:
        raise LayoutError(
            f"{self.name} @ {shown(value)} is not a stride", hint=f"the number comes first: 4 @ {self.name}"
        )

    def __repr__(self) -> str:
        return self.name

    def source(self) -> str:
        """Return Python source that evaluates to this axis, given tilejit's exported axes."""
        return self.name if self.name in _EXPORTED else f"Axis({self.name!r})"


@dataclass(frozen=True, slots=True, repr=False)
class Term:
    """`value @ axis`: a stride or an offset along one axis."""

    value: int
    axis: Axis

    def __repr__(self) -> str:
        return f"{self.value} @ {self.axis.source()}"


laneid, warpid, wgid, tid_in_wg, wid_in_wg = map(Axis, ("laneid", "warpid", "wgid", "tid_in_wg", "wid_in_wg"))
tx, m, TLane, TCol = map(Axis, ("tx", "m", "TLane", "TCol"))


def threads_in(level: str) -> int:
    """Return the number of threads in a thread, warp or warpgroup."""
    return _THREADS[level]


def axis_between(unit: str, within: str) -> Axis:
    """Return the axis that counts a unit within a larger one, such as `warpid` for warps within a CTA."""
    return next(Axis(name) for name, pair in _THREAD_AXES.items() if pair == (unit, within))


def _rank(level: str) -> int:
    return LEVELS[level].level


def scope_of(axes: Iterable[Axis]) -> tuple[str, str] | None:
    """Return the finest unit that the thread axes among `axes` count, and the level that they span.

    returns: None if there is no thread axis.
    raises: LayoutError if two axes count the same unit within different levels, or a level is skipped.
    """
    outer: dict[str, Axis] = {}
    for axis in axes:
        if not axis.is_thread:
            continue
        other = outer.setdefault(axis.unit, axis)
        if other.within != axis.within:
            raise LayoutError(
                f"axes {other} and {axis} both count {axis.unit}s, one within a {other.within}, "
                f"the other within a {axis.within}",
                hint="use axes that nest, such as laneid with warpid, or tx alone",
            )
    if not outer:
        return None
    first = level = min(outer, key=_rank)
    used = 0
    while level in outer:
        level, used = outer[level].within, used + 1
    if used != len(outer):
        names = ", ".join(sorted(a.name for a in outer.values()))
        raise LayoutError(
            f"axes {names} leave a gap: from a {first} they reach a {level}, and no axis counts {level}s",
            hint="add the missing axis, such as warpid between laneid and a CTA",
        )
    return first, level


def fusion(axes: Iterable[Axis]) -> dict[Axis, tuple[Axis, int]]:
    """Return how thread axes up to a CTA fuse into one: axis -> (fused axis, factor for its strides).

    For laneid and warpid, it is {laneid: (tx, 1), warpid: (tx, 32)}; without such axes, it is empty.
    """
    inside = {a: (a.unit, a.within) for a in axes if a.unit in _THREADS and _rank(a.within) <= CTA.level}
    if not inside:
        return {}
    unit = min((pair[0] for pair in inside.values()), key=_rank)
    within = max((pair[1] for pair in inside.values()), key=_rank)
    target = axis_between(unit, within)
    return {a: (target, _THREADS[own] // _THREADS[unit]) for a, (own, _) in inside.items()}
