"""No register of a pending load is touched before its wait, at any level of LLVM that allocates registers.

At level 0 the code generator copies an operand that is tied to a result, and the copy comes before the wait: that
level can't be used for kernels with tensor memory. What the other tests here emit is checked in conftest.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import llvmlite.binding as llvm
import pytest

from tests.kernels.tensor_memory.moves import WAITS, Move, check
from tests.kernels.tensor_memory.published_places import FORMS, SIZES
from tests.kernels.tensor_memory.test_properties import tile
from tests.support.ptx import early_uses
from tilejit.codegen import target_machine
from tilejit.dtypes import float32
from tilejit.layout import atom_layout, datapath

#: (level of code generation, level of the pass pipeline, or None for the passes in use)
LEVELS = [(1, None), (2, None), (3, None), (2, 1), (2, 2), (3, 3)]


@pytest.fixture(params=LEVELS, ids=lambda p: f"codegen{p[0]}-passes{p[1]}")
def other_level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    level, speed = request.param
    def whole_pipeline(module: Any, machine: Any, passes: target_machine.FrontPasses) -> None:
        builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=speed))
        builder.getModulePassManager().run(module, builder)

    monkeypatch.setattr(target_machine, "_LEVEL", level)
    if speed is not None:
        monkeypatch.setattr(target_machine, "_optimise", whole_pipeline)
    target_machine._machine.cache_clear()
    yield
    target_machine._machine.cache_clear()


def several_loads(shape: str, num: int) -> str:
    """PTX of two tiles that are stored, loaded back into others before one wait, and written out; run as well."""
    step = SIZES[shape][0] * num
    rows, path = (128, "D") if shape == "32x32b" else (64, "F")
    layout = atom_layout(shape, num, float32, rows)
    memory = tile("t", "tmem", "float32", (rows, 2 * step), datapath(path, rows, 2 * step))
    tiles = [tile(f"r{i}", "local", "float32", (rows, step), layout) for i in range(4)]
    whole = ([0, rows], [0, step])
    there = [([0, rows], [i * step, step]) for i in range(2)]
    stores = [Move(memory, there[i], tiles[i], whole) for i in range(2)]
    loads = [Move(tiles[2 + i], whole, memory, there[i]) for i in range(2)]
    return check([*stores, WAITS[1], *loads, WAITS[0]], [memory, *tiles], num).ptx




@pytest.mark.parametrize(("shape", "num"), [f for f in FORMS if f[1] in (1, 4)], ids=lambda v: str(v))
def test_no_pass_of_llvm_moves_a_use_before_the_wait(shape: str, num: int, other_level: None) -> None:
    ptx = several_loads(shape, num)
    assert ptx.count(f"tcgen05.ld.sync.aligned.{shape}.x{num}.b32") >= 2
    assert early_uses(ptx) == []
