"""The registers of a tile's parts, as sets."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from tilejit.dtypes import float32, int32
from tilejit.ir.analyses.bitsets import members
from tilejit.ir.analyses.elements import offsets
from tilejit.ir.analyses.local_registers import LocalRegisters
from tilejit.ir.nodes import Alloc, Buffer, Const, Region
from tilejit.testing.layouts import layouts, regions_of, register_layouts, shapes_of


@given(st.data())
def test_a_box_names_the_registers_of_its_elements(data: st.DataObject) -> None:
    layout = data.draw(layouts())
    shape = data.draw(shapes_of(layout))
    windows = data.draw(regions_of(shape))
    tile = Buffer("r", "local", float32, shape, layout, 4)
    starts, counts = zip(*windows, strict=True)
    held = offsets(tile, starts, counts)
    assume(offsets(tile, (0,) * len(shape), shape).min() >= 0)
    registers = LocalRegisters((Alloc(tile),))
    touched = registers.of(Region(tile, tuple(Const(start, int32) for start in starts), counts))
    assert touched.surely == touched.possibly
    if counts != shape:
        assert set(members(touched.surely)) == set(held.ravel().tolist())


@given(st.data())
def test_registers_of_padding_alone_are_none_of_a_tiles(data: st.DataObject) -> None:
    layout, slots = data.draw(register_layouts("warp"))
    shape = tuple(data.draw(st.integers(1, n)) for n in slots)
    assume(shape != slots)
    tile = Buffer("r", "local", float32, shape, layout, 4, slots=slots)
    held = offsets(tile, (0,) * len(shape), shape)
    registers = LocalRegisters((Alloc(tile),))
    touched = registers.of(Region(tile, (Const(0, int32),) * len(shape), shape))
    assert set(members(touched.surely)) == set(members(touched.possibly)) == set(held.ravel().tolist())
    assert registers.whole("r") == registers.all == touched.surely
