"""Control of counted loops, correct for any bounds and step, even if the index overflows after the last iteration."""

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
    """The values that control a counted loop, and how they are compared. kind: the LLVM type of the index."""

    kind: str
    #: the condition under which a first iteration runs, "" if one provably does
    has_one: str
    step: str
    #: the bound to compare the index with, if the step's sign is known; else |step|, compared with the distance left
    limit: str
    #: the `icmp` predicate of the comparison, "" if the step's sign is unknown
    before: str = ""
    #: True if the index after the last iteration fits its type, so the test can use the next index, not the current one
    stays_inside: bool = False
    #: LLVM flags of the addition that advances the index
    flags: str = ""
    #: the word that holds the distance left to the end, loop-carried like the index; () if the step's sign is known
    words: tuple[Word, ...] = ()

    def goes_on(self, w: Writer, index: str) -> str:
        return w.value(f"icmp {self.before} {self.kind} {index}, {self.limit}")

    def advance(self, w: Writer, index: str) -> tuple[str, str]:
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
    """True if known bounds show that the step isn't zero and that the index after the last iteration fits the type."""
    if step_may_be_zero(stmt):
        return False
    low, high = facts.full_range(dtype)
    (least_step, greatest_step), (least_stop, greatest_stop) = ends(stmt.step), ends(stmt.stop)
    if is_descending(stmt):
        return least_stop + 1 + least_step >= low
    return greatest_stop - 1 + greatest_step <= high


def counted(w: Writer, stmt: For, dtype: DType, start: str, stop: str, step: str, threads: int) -> Counting:
    """Emit the values that control a `for` loop in a CTA of `threads` threads, and return them.

    If the step's sign is unknown, the distance left, which fits an unsigned integer of the same width, is compared with
    |step|. Otherwise, if the next index can't overflow, it is compared with `stop`, which LLVM and ptxas optimize best;
    if it can, the current index is compared with `stop - step`, or with `start` if there is at most one iteration.
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
    # `fresh` doesn't reuse an equal test of another loop, whose result would occupy a predicate register until here
    has_one = "" if surely_iterates(stmt, threads) else w.fresh(f"icmp {before} {kind} {start}, {stop}")
    if _stays_inside(stmt, dtype):
        return Counting(kind, has_one, step, stop, before, True, "" if is_falling and sign == "u" else f"n{sign}w ")
    distance, stride = (minus(start, stop), minus("0", step)) if is_falling else (minus(stop, start), step)
    if step_may_be_zero(stmt):
        is_step = compare("ne", step, "0")
        has_one = w.value(f"and i1 {has_one}, {is_step}") if has_one else is_step
    last_to_go_on = select(compare("ugt", distance, stride), kind, minus(stop, step), start)
    return Counting(kind, has_one, step, last_to_go_on, before)
