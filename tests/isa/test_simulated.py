"""The simulator's own tables contain every instruction that the compiler may emit."""

from __future__ import annotations

import pytest

from tests.isa.rows import EVERY
from tests.isa.uses import use
from tilejit.isa import Row
from tilejit.simulator.decode.translate import translate


@pytest.mark.parametrize("row", EVERY.values(), ids=lambda row: row.name)
def test_the_simulator_translates_the_row(row: Row) -> None:
    made = use(row)
    assert translate(made.ptx(), made.kernel().name, 0).blocks
