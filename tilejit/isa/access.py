"""Global loads and stores with cache hints or predicates, and the widths of accesses.

Without predicated rows, each such access would be a branch around a load or store, which takes longer to compile.
"""

from __future__ import annotations

from itertools import product

from ..dataclass import dataclass
from .row import B16, B32, B64, F32, F64, Capability, Direction, OpenFamily, Register, Row, address, predicate, register

#: Bits of the widest `ld` or `st` of one thread that all targets support in global and shared memory. From sm_100 on,
#: accesses to global memory can have 256 bits (`GLOBAL_256`), but schedules don't know the target.
#: source: PTX ISA, "Data Movement and Conversion Instructions: ld, st"
WIDEST_BITS = 128

#: ld.global and st.global of 32 bytes. source: PTX ISA, "Data Movement and Conversion Instructions: ld, st"
GLOBAL_256 = Capability(name="global.256", since=100, ptx=(8, 8))

_ANY = Capability(name="global", since=75, ptx=(6, 0))

#: hint -> PTX modifier, and the PTX version that it requires
_HINTS: dict[str, tuple[str, tuple[int, int]]] = {
    "evict_first": ("L1::evict_first", (7, 4)),
    "evict_last": ("L1::evict_last", (7, 4)),
    "streaming": ("cs", (6, 0)),
}

#: (bits, is float) -> kind of register that holds a word; 8-bit words use 16-bit registers
_REGISTERS: dict[tuple[int, bool], Register] = {
    (8, False): B16, (16, False): B16, (32, False): B32, (64, False): B64, (32, True): F32, (64, True): F64,
}


@dataclass(frozen=True, slots=True)
class GlobalAccess:
    """A load or store of `number` contiguous words of `bits` bits in global memory. guarded: it is predicated."""

    bits: int
    number: int = 1
    is_float: bool = False
    hint: str = ""
    guarded: bool = False

    @property
    def register(self) -> Register:
        return _REGISTERS[self.bits, self.is_float]

    @property
    def suffix(self) -> str:
        hint = f".{_HINTS[self.hint][0]}" if self.hint else ""
        vector = "" if self.number == 1 else f".v{self.number}"
        return f"global{hint}{vector}.b{self.bits}"

    @property
    def capability(self) -> Capability:
        return _ANY if self.bits * self.number <= WIDEST_BITS else GLOBAL_256

    def name(self, opcode: str) -> str:
        return f"{'guarded.' if self.guarded else ''}{opcode}.{self.suffix}{'.float' if self.is_float else ''}"


def _numbers(bits: int, widest: int) -> tuple[int, ...]:
    return tuple(number for number in (1, 2, 4, 8) if number == 1 or (bits >= 32 and bits * number <= widest))


#: the forms with a hint or a predicate; LLVM generates all other loads and stores
FORMS = tuple(
    GlobalAccess(bits, number, is_float, hint, guarded)
    for hint, guarded in product(("", *_HINTS), (False, True))
    if hint or guarded
    for bits, is_float in _REGISTERS
    for number in _numbers(bits, WIDEST_BITS if hint else 2 * WIDEST_BITS)
)


def _row(form: GlobalAccess, *, loads: bool) -> Row:
    words = "$words" if form.number == 1 else "{$words}"
    opcode = "ld" if loads else "st"
    text = f"{opcode}.{form.suffix} {words}, [$place];" if loads else f"{opcode}.{form.suffix} [$place], {words};"
    meaning = f"$words are {'read from' if loads else 'written to'} $place"
    meaning += f", with the cache hint {form.hint}" if form.hint else ""
    direction = Direction.IN if not loads else Direction.INOUT if form.guarded else Direction.OUT
    size = form.bits * form.number // 8
    place = address("place", "global", Direction.IN if loads else Direction.OUT, size, is_cut=form.guarded)
    values = register("words", form.register, direction, form.number)
    guard = (predicate("guard"),) if form.guarded else ()
    hint_ptx = _HINTS[form.hint][1] if form.hint else _ANY.ptx
    return Row(
        name=form.name(opcode),
        text=f"@$guard {text}" if form.guarded else text,
        meaning=f"{meaning}, if $guard is true" if form.guarded else meaning,
        operands=(values, place, *guard) if loads else (place, values, *guard),
        since=form.capability.since, ptx=max(form.capability.ptx, hint_ptx), memory=True,
        source='PTX ISA, "Data Movement and Conversion Instructions: ld, st" and "Cache Eviction Priority Hints"',
    )


_LOADS = {form.name("ld"): form for form in FORMS}
_STORES = {form.name("st"): form for form in FORMS}

LOAD = OpenFamily[GlobalAccess]("ld", _ANY, lambda form: _row(form, loads=True), _LOADS.get)
STORE = OpenFamily[GlobalAccess]("st", _ANY, lambda form: _row(form, loads=False), _STORES.get)

#: empty, because all rows are created at first use
ROWS: tuple[Row, ...] = ()
