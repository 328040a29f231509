"""Generated code against the machine that it calls, and emitted accesses to registers against the table of roles."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from tests.simulator.instruction_programs import CASES, row_of
from tilejit.simulator.decode import translate as translation
from tilejit.simulator.decode.emitter import BlockWriter
from tilejit.simulator.decode.ptx import PtxInstruction
from tilejit.simulator.decode.roles import roles_of
from tilejit.simulator.machine.machine import Machine

#: opcodes that emit nothing, or whose policy is a constant, although they have operands
HINTS = {"prefetch", "prefetchu", "discard", "applypriority", "createpolicy", "nanosleep", "brkpt", "pmevent"}
Calls = dict[str, set[int]]


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Machine]]:
    """The machines of the launches from now on; kernels are translated anew."""
    made: list[Machine] = []
    run = Machine.run

    def watched(self: Machine) -> None:
        made.append(self)
        run(self)

    translation.translate.cache_clear()
    monkeypatch.setattr(Machine, "run", watched)
    yield made
    translation.translate.cache_clear()


def play_all() -> None:
    for case in CASES:
        if row_of(case.instructions[0])[0].fidelity.kind != "unsupported":
            case.play()


def calls_in(source: str) -> Iterator[tuple[str, int]]:
    """Yield (function, number of arguments) of each call, such as ("S.tmem.wait_ld", 1)."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            assert not node.keywords and not any(isinstance(x, ast.Starred) for x in node.args)
            yield ast.unparse(node.func), len(node.args)


def problems(machine: Any, calls: Calls) -> list[str]:
    """Return the calls of methods of `S` that don't exist or take another number of arguments."""
    found = []
    for name, counts in sorted(calls.items()):
        method: Any = machine
        for part in name.split(".")[1:]:
            method = getattr(method, part, None)
        for count in sorted(counts):
            try:
                inspect.signature(method).bind(*[None] * count)
            except TypeError as error:
                found.append(f"{name} with {count} arguments: {error}")
    return found


def test_generated_code_calls_methods_that_exist(machines: list[Machine], monkeypatch: pytest.MonkeyPatch) -> None:
    finish = BlockWriter.finish
    calls: Calls = {}

    def watched(self: BlockWriter, name: str, outputs: Iterable[int]) -> str:
        source = finish(self, name, outputs)
        for function, count in calls_in(source):
            if function.startswith("S."):
                calls.setdefault(function, set()).add(count)
        return source

    monkeypatch.setattr(BlockWriter, "finish", watched)
    play_all()
    assert len(calls) > 50
    machine = machines[-1]
    assert problems(machine, calls) == []
    # the check notices an unknown method, an unknown unit, and other numbers of arguments
    wrong: Calls = {"S.nothing": {0}, "S.tmem.nothing": {1}, "S.nowhere.load": {2}, "S.load": {1}, "S.trap": {2}}
    assert [x.partition(" ")[0] for x in problems(machine, wrong)] == sorted(wrong)


def test_emitted_accesses_to_registers_are_those_of_the_roles(
    machines: list[Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: set[str] = set()
    written: set[str] = set()
    wrong: list[str] = []
    seen: set[str] = set()
    read_, destination_, alias_ = BlockWriter.read, BlockWriter.destination, BlockWriter.alias
    lookup = translation.lookup

    def watched_read(self: BlockWriter, name: str, dtype: str) -> str:
        if name not in written:
            read.add(name)
        return read_(self, name, dtype)

    def watched_destination(self: BlockWriter, name: str) -> int:
        written.add(name)
        return destination_(self, name)

    def watched_alias(self: BlockWriter, name: str, source: str) -> None:
        read.add(source)
        alias_(self, name, source)

    def compare(e: BlockWriter, ins: PtxInstruction) -> None:
        roles = roles_of(e.pc, ins)
        is_register = e.is_register
        reads = {x for x in (*roles.reads, *roles.addresses, *roles.updates) if is_register(x)}
        writes = {x for x in roles.writes if is_register(x)}
        got_reads = {x for x in read if is_register(x) and not x.startswith("%defined:")}
        got_writes = {x for x in written if is_register(x) and not x.startswith("%defined:")}
        unread = e.names.unread if ins.root == "atom" else frozenset()
        # the register of a call's parameter is named "parameter+offset"
        if ins.root in HINTS or ins.root == "call" or "+" in "".join((*got_reads, *got_writes)):
            return
        if ins.root == "mbarrier" and "_wait" in ins.suffix:
            # a wait may read the number from which its parity was computed
            got_reads = reads
        seen.add(ins.root)
        if (got_reads, got_writes) != (reads, writes - unread):
            wrong.append(f"{ins.root}{ins.suffix} {ins.operands}: {got_reads} {got_writes} {reads} {writes}")

    def watched_lookup(root: str, suffix: str) -> Any:
        found = lookup(root, suffix)
        if found is None:
            return None
        entry, match = found

        def emit(e: BlockWriter, m: dict[str, str]) -> None:
            read.clear()
            written.clear()
            entry(e, m)
            compare(e, e.ins)

        return emit, match

    monkeypatch.setattr(BlockWriter, "read", watched_read)
    monkeypatch.setattr(BlockWriter, "destination", watched_destination)
    monkeypatch.setattr(BlockWriter, "alias", watched_alias)
    monkeypatch.setattr(translation, "lookup", watched_lookup)
    play_all()
    assert wrong == []
    assert {"add", "ld", "st", "atom", "red", "mma", "wgmma", "tcgen05", "cp", "mbarrier", "bar", "shfl"} <= seen
