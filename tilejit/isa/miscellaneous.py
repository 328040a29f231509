"""Reallocation of registers between the warpgroups of a CTA, events for performance tools, and the time."""

from __future__ import annotations

from ..scopes import WARPGROUP
from ..target import THREAD_UNIT
from .row import B64, Direction, Row, constant, register

#: minimum and maximum registers per thread that setmaxnreg accepts; the number must be a multiple of `STEP`
LEAST, MOST, STEP = 24, 256, THREAD_UNIT

_TARGETS = ("sm_90a", "sm_100a", "sm_103a", "sm_110a", "sm_120a", "sm_121a")


def _set(action: str, meaning: str) -> Row:
    return Row(
        name=f"setmaxnreg.{action}",
        text=f"setmaxnreg.{action}.sync.aligned.u32 $registers;",
        meaning=meaning,
        operands=(constant("registers", range(LEAST, MOST + 1, STEP)),),
        since=90, ptx=(8, 0), only=_TARGETS, scope=WARPGROUP, memory=True, convergent=True, elides_sync=True,
        called="set_registers",
        source='PTX ISA, "Miscellaneous Instructions: setmaxnreg"',
    )


_INC = _set("inc", "waits until each thread of the warpgroup can get $registers registers, and takes them")
_DEC = _set("dec", "reduces each thread of the warpgroup to $registers registers, and releases the others to the pool")

#: True -> the instruction that requests more registers than at the kernel's entry; False -> the one for at most as many
SET_REGISTERS = {True: _INC, False: _DEC}

PMEVENT = Row(
    name="pmevent.mask",
    text="pmevent.mask $events;",
    meaning="triggers the performance monitor events whose bits are set in the 16 bits of $events",
    operands=(constant("events"),), since=75, ptx=(6, 0),
    # a convergent row is also marked as having side effects, so LLVM doesn't change how often it is executed
    convergent=True,
    source='PTX ISA, "Miscellaneous Instructions: pmevent"',
)

TIME = Row(
    name="mov.globaltimer",
    text="mov.u64 $time, %globaltimer;",
    meaning="$time = the time in nanoseconds",
    # with side effects, so that LLVM reads the time where the program does
    operands=(register("time", B64, Direction.OUT),), since=75, ptx=(6, 0), memory=True,
    source='PTX ISA, "Special Registers: %globaltimer"',
)

ROWS = (PMEVENT, TIME, _INC, _DEC)
