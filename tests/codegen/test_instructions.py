"""The instruction table: every entry is what ptxas takes on the oldest target that has it, and no older."""

from __future__ import annotations

import pytest

from tests.codegen.kernels import array, kernel, pointer
from tests.toolchain import complaints, ptxas_path
from tilejit.codegen import generate
from tilejit.codegen.instructions import TABLE, WIDE_ACCESS, MachineInstruction
from tilejit.dtypes import DType, bool_, float32, float64, int16, int32, int64, uint32
from tilejit.ir.nodes import (
    Alloc,
    Buffer,
    Const,
    Expr,
    Instruction,
    Kernel,
    Let,
    Load,
    Special,
    Stmt,
    Store,
    Var,
    Vector,
)
from tilejit.layout import TileLayout
from tilejit.target import TARGETS, target

_DTYPES: dict[str, DType] = {"r": int32, "l": int64, "h": int16, "f": float32, "d": float64, "n": int32, "b": bool_}
_BITS = {"r": 32, "l": 64, "h": 16, "f": 32, "d": 64, "b": 8}


def oldest(entry: MachineInstruction) -> str:
    """The first target that has the instruction."""
    return next(name for name, t in TARGETS.items() if entry.missing(t) is None)


def using(entry: MachineInstruction, name: str) -> Kernel:
    """A kernel that carries out the instruction on loaded values and stores what it gives."""
    letters = sorted(set(entry.inputs) - {"n"})
    sources = {letter: array(f"in_{letter}", _DTYPES[letter], 4096) for letter in letters}
    variables = {letter: Var(f"x_{letter}", _DTYPES[letter]) for letter in letters}
    body: list[Stmt] = [
        Let(variables[letter], Load(Vector(sources[letter], Special("thread_id")))) for letter in letters
    ]
    inputs: tuple[Expr, ...] = tuple(Const(2, int32) if c == "n" else variables[c] for c in entry.inputs)
    words = sum(max(1, _BITS[c] // 32) for c in entry.outputs)
    params = [pointer(b) for b in sources.values()]
    if not words:
        return kernel([*body, Instruction(entry.name, (), inputs)], params, name)
    dtype = bool_ if entry.outputs == "b" else int16 if entry.outputs == "h" else uint32
    registers = Buffer("r", "local", dtype, (words,), TileLayout.row_major((words,)), dtype.bytes)
    out = array("out", dtype, 4096)
    body += [Alloc(registers), Instruction(entry.name, (Vector(registers, Const(0, int32), words),), inputs)]
    for n in range(words):
        body.append(Store(Vector(out, Const(n, int32)), Load(Vector(registers, Const(n, int32)))))
    return kernel(body, [*params, pointer(out, written=True)], name)


def entries() -> list[MachineInstruction]:
    """Those with a text of their own, one of each family of tensor memory transfers among them."""
    return [e for e in TABLE.values() if e.name != WIDE_ACCESS]


def test_ptxas_takes_every_instruction_on_the_oldest_target_that_has_it() -> None:
    if ptxas_path() is None:
        pytest.skip("no ptxas: install nvidia-cuda-nvcc")
    programs = []
    for entry in entries():
        name = oldest(entry)
        programs.append((generate(using(entry, name), target(name)).ptx, name, entry.name))
    assert complaints(programs) == []


@pytest.mark.parametrize("entry", entries(), ids=lambda e: e.name)
def test_an_instruction_stands_in_the_ptx_as_in_the_table(entry: MachineInstruction) -> None:
    name = oldest(entry)
    ptx = generate(using(entry, name), target(name)).ptx
    assert entry.text.split("$")[0].strip() in ptx
    assert f".version {'.'.join(map(str, max(entry.ptx, target(name).ptx)))}\n" in ptx


def test_entries_say_what_they_are() -> None:
    for name, entry in TABLE.items():
        assert entry.name == name and entry.meaning
        operands = len(entry.outputs) + len(entry.inputs)
        assert all(f"${n}" in entry.text for n in range(operands)), name
        assert f"${operands}" not in entry.text, name
