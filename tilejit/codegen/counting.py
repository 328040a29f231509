"""How far a counted loop goes: computed so that nothing overflows, whatever its ends and its step are."""

from __future__ import annotations

from ..dataclass import dataclass
from ..dtypes import DType
from ..ir.arithmetic import facts
from ..ir.arithmetic.iterations import ends, is_ascending, is_descending, step_may_be_zero, surely_iterates
from ..ir.nodes import For
from .registers import Word
from .writer import Writer


@dataclass(frozen=True, slots=True)
class Counting:
    """A loop's turns, as LLVM values of type `kind`.

    has_one: whether there is one, "" where there surely is. step, flags: of the addition that makes the next index.
    Where the sign of the step is known, another turn follows while an index is `before` (a comparison) `limit`: the
    next one where that `stays_inside` its type, else the present one. Where it isn't, another turn follows while more
    than `limit` is left.
    words: what changes from turn to turn besides the index: how much is left.
    """

    kind: str
    has_one: str
    step: str
    limit: str
    before: str = ""
    stays_inside: bool = False
    flags: str = ""
    words: tuple[Word, ...] = ()

    def goes_on(self, w: Writer, index: str) -> str:
        """Writes whether an index is before the limit."""
        return w.value(f"icmp {self.before} {self.kind} {index}, {self.limit}")

    def advance(self, w: Writer, index: str) -> tuple[str, str]:
        """Writes the next turn's index, and whether there is one: behind a turn of this index."""
        more = ""
        for word in self.words:
            left = w.read(word, self.kind)
            more = w.value(f"icmp ugt {self.kind} {left}, {self.limit}")
            w.write(word, self.kind, w.value(f"sub {self.kind} {left}, {self.limit}"))
        if not self.words and not self.stays_inside:
            more = self.goes_on(w, index)
        following = w.value(f"add {self.flags}{self.kind} {index}, {self.step}")
        return following, more or self.goes_on(w, following)


def _stays_inside(stmt: For, dtype: DType) -> bool:
    """Whether the step is known not to be zero, with its sign, and the index one step past the end fits a type."""
    if step_may_be_zero(stmt):
        return False
    low, high = facts.full_range(dtype)
    (least_step, greatest_step), (least_stop, greatest_stop) = ends(stmt.step), ends(stmt.stop)
    if is_descending(stmt):
        return least_stop + 1 + least_step >= low
    return greatest_stop - 1 + greatest_step <= high


def counted(w: Writer, stmt: For, dtype: DType, start: str, stop: str, step: str, threads: int) -> Counting:
    """The turns of a loop in a CTA of so many threads.

    A distance between two numbers of a type fits the unsigned type of that width.
    """
    kind, sign = f"i{dtype.bits}", "u" if dtype.kind == "uint" else "s"

    def compare(comparison: str, x: str, y: str) -> str:
        return w.value(f"icmp {comparison} {kind} {x}, {y}")

    def minus(x: str, y: str) -> str:
        return w.value(f"sub {kind} {x}, {y}")

    def select(condition: str, of: str, yes: str, no: str) -> str:
        return w.value(f"select i1 {condition}, {of} {yes}, {of} {no}")

    is_falling = is_descending(stmt)
    if not is_ascending(stmt) and not is_falling:
        up, down = compare("sgt", step, "0"), compare("slt", step, "0")
        below, above = compare(f"{sign}lt", start, stop), compare(f"{sign}gt", start, stop)
        left = Word(kind)
        w.write(left, kind, select(up, kind, minus(stop, start), minus(start, stop)))
        stride = select(up, kind, step, minus("0", step))
        has_one = select(up, "i1", below, w.value(f"and i1 {down}, {above}"))
        return Counting(kind, has_one, step, stride, words=(left,))
    before = f"{sign}gt" if is_falling else f"{sign}lt"
    # of its own, even where another loop has the same: else it would hold one of seven predicate registers up to there
    has_one = "" if surely_iterates(stmt, threads) else w.fresh(f"icmp {before} {kind} {start}, {stop}")
    if _stays_inside(stmt, dtype):
        return Counting(kind, has_one, step, stop, before, True, "" if is_falling and sign == "u" else f"n{sign}w ")
    distance, stride = (minus(start, stop), minus("0", step)) if is_falling else (minus(stop, start), step)
    if step_may_be_zero(stmt):
        is_step = compare("ne", step, "0")
        has_one = w.value(f"and i1 {has_one}, {is_step}") if has_one else is_step
    last_to_go_on = select(compare("ugt", distance, stride), kind, minus(stop, step), start)
    return Counting(kind, has_one, step, last_to_go_on, before)
