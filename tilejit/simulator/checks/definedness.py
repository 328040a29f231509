"""Propagation of undefined values through registers and memory, and reports of their uses.

Loading unwritten memory isn't an error: the padding of tiles is often loaded and never used. It only marks the
destination registers. The error is the first use of a marked register as an address, in a branch, in a store to global
memory, in an atomic update or as an argument of a collective. A store of a marked value to shared or local memory makes
that location unwritten again. A register is also marked when a thread reads it after having skipped the predicated
instruction or load that writes it, and when it is the result of a shuffle from a lane that doesn't execute the shuffle
or isn't in the member mask.

Most launches have no marks and do no work here. Otherwise the marks are updated after each basic block.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass
from ..decode.blocks import BasicBlock, live_after
from ..decode.roles import LOAD_ROOTS, Roles
from ..decode.translate import Program
from ..machine.lanes import Index, Lanes
from ..machine.memory import MemoryRegion
from .findings import Findings
from .records import UNWRITTEN, LocalShadow, Shadow

# For each thread, the index in `origins` of the instruction that left its value undefined; 0 if it is defined.
Marks = NDArray[np.int32]

UNWRITTEN_HINT = "write it first: memory that a kernel allocates is uninitialized, not zero"
_SKIPPED_HINT = "write it on every path to the read"
_SHUFFLE_HINT = "all lanes that a shuffle reads must execute it with the same member mask, which includes them"

# These instructions may pack elements into vectors, whose unused elements compilers may leave unwritten.
_PACKS = frozenset({"mov", "prmt", "bfi"})
#: instructions whose arguments are visible to other lanes, threads or units
_COLLECTIVES = frozenset({"shfl", "vote", "match", "redux", "elect", "mma", "wmma", "wgmma", "ldmatrix", "stmatrix",
                          "tcgen05", "bar", "barrier", "call", "atom", "red", "cp"})


@dataclass(slots=True)
class StoreNote:
    """A store to checked memory."""

    region: MemoryRegion
    #: a row for each thread of `positions`
    cells: Index
    positions: Index
    view: NDArray[Any]
    index: Index
    #: the elements `view[index]` before the store
    old: NDArray[Any]


class Definedness:
    """The marks of the current chunk's registers. active: True if there may be any."""

    def __init__(self, program: Program, findings: Findings) -> None:
        self.program = program
        self.function = program.function
        self.findings = findings
        #: (message, instruction, hint)
        self.origins: list[tuple[str, int, str]] = [("", 0, "")]
        #: register whose write was skipped, or shuffle → its index in `origins`
        self.partial: dict[str | int, int] = {}

    def select(self, lanes: Lanes) -> None:
        self.lanes = lanes
        self.active = False
        self.marks: dict[str, Marks] = {}
        self.reads: dict[int, list[tuple[Index, NDArray[np.bool_], int]]] = {}
        self.stores: dict[int, list[StoreNote]] = {}
        # For each selp of the current basic block, its predicate's value, if there are marks.
        self.selected: dict[int, Any] = {}
        # For each shuffle of the current basic block, a function that moves marks between lanes, if there are marks.
        self.shuffles: dict[int, Callable[[Marks], Marks]] = {}

    def read(self, pc: int, message: str, positions: Index, unwritten: NDArray[np.bool_]) -> None:
        self.origins.append((message, pc, UNWRITTEN_HINT))
        self.reads.setdefault(pc, []).append((positions, unwritten, len(self.origins) - 1))
        self.active = True

    def skipped(self, name: str, positions: Index) -> None:
        """Record that threads are about to read a register that they have not written."""
        fresh = positions[self.marks[name][positions] == 0] if name in self.marks else positions
        if not fresh.size:
            return
        what = f"reads register {name}, which nothing has written, because it skipped"
        origin = self.partial_origin(name, int(fresh[0]), what, self.program.skippable[name], _SKIPPED_HINT)
        self.marks.setdefault(name, np.zeros(self.lanes.total, np.int32))[fresh] = origin

    def shuffle(self, pc: int, masks: NDArray[np.uint32], move: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
        """Record a shuffle. masks: each thread's member mask. move: shuffles values; other lanes have 0."""
        moved = masks if self.lanes.whole_warps() and np.count_nonzero(masks != 0xFFFFFFFF) == 0 else move(masks)
        lost = np.flatnonzero(moved != masks)
        if lost.size:
            what = "shuffles from a lane that has exited, doesn't execute the shuffle or isn't in its member mask"
            origin = self.partial_origin(pc, int(self.lanes.positions()[lost[0]]), what, pc, _SHUFFLE_HINT)

        def move_marks(marks: Marks) -> Marks:
            result = move(marks)
            if lost.size:
                result[lost] = origin
            return result

        if self.active:
            self.shuffles[pc] = move_marks

    def partial_origin(self, key: str | int, position: int, what: str, pc: int, hint: str) -> int:
        """Return the index in `origins` of an instruction that leaves a register undefined in some lanes of a warp."""
        if key not in self.partial:
            self.partial[key] = len(self.origins)
            self.origins.append((f"{self.lanes.describe_position(position)} {what}", pc, hint))
        self.active = True
        return self.partial[key]

    def storing(self, pc: int, region: MemoryRegion, cells: Index, view: NDArray[Any], index: Index) -> None:
        positions = self.lanes.positions()
        note = StoreNote(region, cells.reshape(positions.size, -1), positions, view, index, view[index])
        self.stores.setdefault(pc, []).append(note)

    def finish(self, block: BasicBlock, positions: Index) -> None:
        for pc in block.pcs:
            self.follow(self.program.control_flow.roles[pc], positions)
        if block.predicate and block.predicate in self.marks:
            self.use(block.predicate, block.end_pc, positions, "branches on it")
        self.reads.clear()
        self.stores.clear()
        self.selected.clear()
        self.shuffles.clear()
        if positions.size == self.lanes.total:
            self.drop_dead(block)
        self.active = bool(self.marks)

    def drop_dead(self, block: BasicBlock) -> None:
        slots, live = self.program.control_flow.slots, live_after(block, self.program.control_flow.live)
        self.marks = {x: marks for x, marks in self.marks.items() if x in slots and live >> slots[x] & 1}

    def follow(self, instruction: Roles, positions: Index) -> None:
        for name in instruction.addresses:
            self.use(name, instruction.pc, positions, "uses it as an address")
        if instruction.root in _COLLECTIVES:
            # A value that no lane receives may be undefined; lanes that receive the value get its mark.
            ignored = self.partial.values() if instruction.root == "shfl" else ()
            for name in instruction.reads:
                self.use(name, instruction.pc, positions, "passes it on", ignored)
        if instruction.root == "st":
            self.follow_store(instruction, positions)
            return
        if instruction.pc in self.reads:
            self.follow_read(instruction, positions)
            return
        if instruction.pc in self.shuffles:
            # the second result, a predicate, doesn't depend on values
            marks = self.combined(instruction.reads[:1], positions)
            marks = self.shuffles[instruction.pc](np.zeros(positions.size, np.int32) if marks is None else marks)
            self.mark(instruction.writes[0], positions, marks)
            return
        marks = None
        if instruction.root not in LOAD_ROOTS and instruction.root not in _COLLECTIVES:
            marks = self.selection(instruction, positions) if instruction.root == "selp" else \
                self.combined(instruction.reads, positions, instruction.root in _PACKS)
        for name in instruction.writes:
            self.mark(name, positions, marks)

    def combined(self, names: tuple[str, ...], positions: Index, packs: bool = False) -> Marks | None:
        """Return, for each thread, a mark of one of these registers, or 0; None if no register has marks.

        packs: the registers are elements of a vector, which gets a mark of `partial` only if all are marked.
        """
        marked = [self.marks[name][positions] for name in names if name in self.marks]
        if not marked:
            return None
        result: Marks = np.maximum.reduce(marked)
        if packs and self.partial:
            partly = np.minimum.reduce(marked) == 0 if len(marked) == len(names) else True
            result[partly & np.isin(result, list(self.partial.values()))] = 0
        return result

    def selection(self, instruction: Roles, positions: Index) -> Marks | None:
        """Return each thread's mark of a selp's predicate or chosen source; None if no thread has a mark.

        If the choice is unknown, the mark of either source counts.
        """
        sources = [x.strip().lstrip("!") for x in self.function.body[instruction.pc].operands[1:]]
        sides = [self.combined((name,), positions) for name in sources]
        if all(x is None for x in sides):
            return None
        yes, no, predicate = (np.zeros(positions.size, np.int32) if x is None else x for x in sides)
        chosen = self.selected.get(instruction.pc)
        either: Marks = np.maximum(yes, no) if chosen is None else np.where(chosen, yes, no)
        return np.maximum(either, predicate)

    def mark(self, name: str, positions: Index, marks: Marks | None) -> None:
        old = self.marks.get(name)
        if marks is None or not np.count_nonzero(marks) or name == "_":
            if old is not None:
                old[positions] = 0
                if not np.count_nonzero(old):
                    del self.marks[name]
            return
        if old is None:
            old = self.marks[name] = np.zeros(self.lanes.total, np.int32)
        old[positions] = marks

    def follow_read(self, instruction: Roles, executing: Index) -> None:
        for name in instruction.writes:
            self.mark(name, executing, None)
        for positions, unwritten, origin in self.reads[instruction.pc]:
            count = len(instruction.writes)
            per_thread = unwritten.shape[1]
            for i, name in enumerate(instruction.writes):
                # The cells of this register; if a cell is wider than a register, all cells.
                share = unwritten[:, i * per_thread // count : (i + 1) * per_thread // count] if per_thread >= count \
                    else unwritten
                self.mark(name, positions, np.where(share.any(axis=1), origin, 0).astype(np.int32))

    def follow_store(self, instruction: Roles, positions: Index) -> None:
        """Report a store of marked values to global or unknown memory; elsewhere mark the target cells as unwritten."""
        is_vector = self.function.body[instruction.pc].operands[1].startswith("{")
        marks = self.combined(instruction.reads, positions, packs=is_vector)
        if marks is None or not np.count_nonzero(marks):
            return
        notes = self.stores.get(instruction.pc, [])
        if any(note.region.space == "global" for note in notes) or not notes:
            if not self.findings.collect:
                # Undo the store, so that the outputs contain no undefined values when the error is raised.
                for note in notes:
                    note.view[note.index] = note.old
            for name in instruction.reads:
                self.use(name, instruction.pc, positions[marks > 0], "stores it")
            return
        whole = np.zeros(self.lanes.total, np.int32)
        whole[positions] = marks
        for note in notes:
            cells = note.cells[whole[note.positions] > 0].reshape(-1)
            shadow: Shadow | LocalShadow = note.region.shadow
            if isinstance(shadow, LocalShadow):
                shadow.written[cells] = False
            else:
                shadow.writes[cells] = UNWRITTEN

    def use(self, name: str, pc: int, positions: Index, how: str, ignored: Collection[int] = ()) -> None:
        """If any of these threads has a mark not in `ignored`, report the use of the register and clear their marks."""
        if name not in self.marks:
            return
        marks = self.marks[name][positions]
        at = np.flatnonzero(np.where(np.isin(marks, list(ignored)), 0, marks) if ignored else marks)
        if not at.size:
            return
        first = int(positions[at[0]])
        origin = int(marks[at[0]])
        message, read_pc, hint = self.origins[origin]
        threads = self.lanes.numbers(positions[at])
        self.findings.add(
            "undefined", message, read_pc, pc, threads, at.size,
            hint=hint, then=f"and {self.lanes.describe_position(first)} {how}",
        )
        # The value of this register is reported only once.
        self.mark(name, positions, None)
