"""Plain accesses: how wide they are, which of them not every target has, and those that tell caches what to keep.

LLVM writes those without a hint.
"""

from __future__ import annotations

from ..dataclass import dataclass
from .row import B16, B32, B64, Capability, Direction, Family, Row, address, register

__all__ = ["CACHED_LOAD", "CACHED_STORE", "GLOBAL_256", "ROWS", "WIDEST_BITS", "Cached"]

#: of one thread's access, on every target and of every memory. From sm_100 on global memory has 256 (`GLOBAL_256`);
#: schedules don't know the target. source: PTX ISA, "Data Movement and Conversion Instructions: ld, st"
WIDEST_BITS = 128

#: ld.global and st.global of 32 bytes. source: PTX ISA, "Data Movement and Conversion Instructions: ld, st"
GLOBAL_256 = Capability(name="global.256", since=100, ptx=(8, 8))

#: hint -> PTX's modifier, and the oldest PTX version that has it
_HINTS: dict[str, tuple[str, tuple[int, int]]] = {
    "evict_first": ("L1::evict_first", (7, 4)),
    "evict_last": ("L1::evict_last", (7, 4)),
    "streaming": ("cs", (6, 0)),
}

#: PTX has no registers of 8 bits
_REGISTERS = {8: B16, 16: B16, 32: B32, 64: B64}


@dataclass(frozen=True, slots=True)
class Cached:
    """`number` words of `bits` bits in global memory; hint: what caches should do with them."""

    hint: str
    bits: int
    number: int = 1

    @property
    def suffix(self) -> str:
        vector = "" if self.number == 1 else f".v{self.number}"
        return f"global.{_HINTS[self.hint][0]}{vector}.b{self.bits}"


_FORMS = tuple(
    Cached(hint, bits, number)
    for hint in _HINTS
    for bits, numbers in {8: (1,), 16: (1,), 32: (1, 2, 4), 64: (1, 2)}.items()
    for number in numbers
)


def _row(form: Cached, *, loads: bool) -> Row:
    words = "$words" if form.number == 1 else "{$words}"
    name = f"{'ld' if loads else 'st'}.{form.suffix}"
    direction = Direction.OUT if loads else Direction.IN
    place = address("place", "global", Direction.IN if loads else Direction.OUT, form.bits * form.number // 8)
    values = register("words", _REGISTERS[form.bits], direction, form.number)
    return Row(
        name=name,
        text=f"{name} {words}, [$place];" if loads else f"{name} [$place], {words};",
        meaning=f"$words are {'read from' if loads else 'written to'} $place, which caches keep as said",
        operands=(values, place) if loads else (place, values),
        since=75,
        ptx=_HINTS[form.hint][1],
        memory=True,
        source='PTX ISA, "Data Movement and Conversion Instructions: ld, st" and "Cache Eviction Priority Hints"',
    )


CACHED_LOAD = Family.of("ld with a hint", _FORMS, lambda form: _row(form, loads=True))
CACHED_STORE = Family.of("st with a hint", _FORMS, lambda form: _row(form, loads=False))

ROWS = (*CACHED_LOAD.rows(), *CACHED_STORE.rows())
