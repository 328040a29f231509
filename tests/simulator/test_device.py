"""PTX of any compiler on a simulated device: arguments, memory that lives across launches, module variables."""

from __future__ import annotations

import inspect
import re
import struct
import textwrap

import numpy as np
import pytest

from tests.simulator.small_kernels import HEADER
from tilejit.errors import LaunchError, OutOfBoundsError, SimulationError, UninitializedReadError
from tilejit.simulator import Device

REGISTERS = ".reg .pred %p<4>; .reg .b32 %r<16>; .reg .f32 %f<8>; .reg .b64 %x<8>;"
INDEX = "mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.s32 %r1, %r2, %r3, %r1;"

SCALE = f"""
.visible .entry scale(.param .u64 x, .param .f32 by, .param .u32 n) {{
    {REGISTERS} {INDEX}
    ld.param.u64 %x1, [x]; ld.param.f32 %f1, [by]; ld.param.u32 %r4, [n];
    setp.ge.s32 %p1, %r1, %r4; @%p1 bra end;
    mad.wide.s32 %x1, %r1, 4, %x1;
    ld.global.f32 %f2, [%x1]; mul.f32 %f2, %f2, %f1; st.global.f32 [%x1], %f2;
    end: ret;
}}
"""

# copies x to y, both addresses in a structure, and counts its launches
TASKS = f"""
.global .u32 counter = 7;
.const .align 4 .f32 factor[2] = {{0f3F800000, 0f3F800000}};
.visible .entry scale_tasks(.param .align 8 .b8 task[24]) {{
    {REGISTERS} {INDEX}
    ld.param.u64 %x1, [task]; ld.param.u64 %x2, [task+8]; ld.param.u32 %r4, [task+16];
    setp.eq.u32 %p2, %r1, 0;
    @%p2 ld.global.u32 %r5, [counter]; @%p2 add.u32 %r5, %r5, 1; @%p2 st.global.u32 [counter], %r5;
    setp.ge.s32 %p1, %r1, %r4; @%p1 bra end;
    mad.wide.s32 %x1, %r1, 4, %x1; mad.wide.s32 %x2, %r1, 4, %x2;
    ld.f32 %f2, [%x1]; ld.const.f32 %f3, [factor+4]; mul.f32 %f2, %f2, %f3; st.f32 [%x2], %f2;
    end: ret;
}}
"""


@pytest.fixture
def device():
    return Device()


@pytest.fixture
def module(device):
    return device.load(HEADER + SCALE + TASKS)


def task(x, y, n):
    return struct.pack("QQi4x", x.address, y.address, n)


def test_the_example_of_the_documentation_runs(tmp_path, monkeypatch):
    code = re.search(r"```python\n(.*?)```", inspect.getdoc(Device), re.S)[1]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels.ptx").write_text(HEADER + SCALE + TASKS)
    names = {"Device": Device, "np": np, "struct": struct, "Path": type(tmp_path)}
    exec(textwrap.dedent(code), names)
    np.testing.assert_array_equal(names["x"], 2 * np.arange(1000, dtype=np.float32))
    np.testing.assert_array_equal(names["y"].array, names["x"])
    assert names["module"].variable("counter").view(np.int32) == [8]


def test_kernels_are_named(module):
    assert module.kernels == ("scale", "scale_tasks")


def test_an_array_is_used_in_place(module):
    x = np.arange(100, dtype=np.float32)
    module.launch("scale", (1,), (128,), [x, np.float32(3), np.int32(100)])
    np.testing.assert_array_equal(x, 3 * np.arange(100, dtype=np.float32))


@pytest.mark.parametrize("part", [np.s_[10:60], np.s_[::2]])
def test_a_part_of_an_array_has_its_own_bounds(module, part):
    x = np.ones(120, np.float32)[part]
    if x.strides == (4,):
        module.launch("scale", (1,), (128,), [x, np.float32(3), np.int32(x.size)])
        assert (x == 3).all() and (x.base == 3).sum() == x.size
    with pytest.raises(OutOfBoundsError, match="argument 0"):
        module.launch("scale", (1,), (128,), [x, np.float32(3), np.int32(121)])


def test_an_address_may_point_at_the_end_of_an_array(device):
    body = f"{REGISTERS} ld.param.u64 %x1, [x]; ld.global.u32 %r1, [%x1+-4]; st.global.u32 [%x1], %r1; ret;"
    module = device.load(f"{HEADER}.visible .entry back(.param .u64 x) {{ {body} }}")
    x = np.arange(3, dtype=np.uint32)
    module.launch("back", (1,), (1,), [x[::-1]])
    np.testing.assert_array_equal(x, [0, 1, 1])


def test_variables_live_across_launches_and_can_be_set(device, module):
    x, y = device.array(np.ones(4, np.float32)), device.array(np.zeros(4, np.float32))
    for count in (8, 9, 10):
        module.launch("scale_tasks", (1,), (32,), [task(x, y, 4)])
        assert module.variable("counter").view(np.uint32) == [count]
    module.variable("counter").view(np.uint32)[:] = 99
    module.variable("factor").view(np.float32)[1] = 2.5
    module.launch("scale_tasks", (1,), (32,), [task(x, y, 4)])
    assert module.variable("counter").view(np.uint32) == [100]
    np.testing.assert_array_equal(y.array, np.full(4, 2.5, np.float32))


def test_each_load_of_a_module_has_variables_of_its_own(device, module):
    other = device.load(HEADER + SCALE + TASKS)
    other.variable("counter").view(np.uint32)[:] = 1
    assert module.variable("counter").view(np.uint32) == [7]


def test_constant_variables_are_not_written_to(device):
    body = f"{REGISTERS} cvta.const.u64 %x1, c; st.u32 [%x1], 1; ret;"
    module = device.load(f"{HEADER}.const .u32 c;\n.visible .entry k() {{ {body} }}")
    with pytest.raises(SimulationError, match="read-only"):
        module.launch("k", (1,), (1,), [])


def test_addresses_stay_the_same(device, module):
    x = device.array(np.ones(4, np.float32))
    middle = device.empty(4, np.float32)
    y = device.empty(4, np.float32)
    module.launch("scale_tasks", (1,), (32,), [task(x, middle, 4)])
    module.launch("scale", (1,), (32,), [middle, np.float32(5), np.int32(4)])
    module.launch("scale_tasks", (1,), (32,), [task(middle, y, 4)])
    np.testing.assert_array_equal(y.array, np.full(4, 5, np.float32))


def test_what_was_never_written_is_reported(device, module):
    x, y = device.empty(4, np.float32), device.array(np.zeros(4, np.float32))
    with pytest.raises(UninitializedReadError):
        module.launch("scale_tasks", (1,), (32,), [task(x, y, 4)])
    module.launch("scale_tasks", (1,), (32,), [task(x, y, 4)], checks=False)


def test_what_was_freed_is_out_of_bounds(device, module):
    x, y = (device.array(np.zeros(4, np.float32)) for _ in range(2))
    device.free(x)
    with pytest.raises(OutOfBoundsError):
        module.launch("scale_tasks", (1,), (32,), [task(x, y, 4)])


def test_arrays_of_a_device_have_bounds(device, module):
    x, y = (device.array(np.zeros(4, np.float32)) for _ in range(2))
    with pytest.raises(OutOfBoundsError, match=r"DeviceArray\(float32\[4\]"):
        module.launch("scale_tasks", (1,), (32,), [task(x, y, 5)])


def test_a_read_only_array_is_not_written_to(module):
    x = np.zeros(4, np.float32)
    x.flags.writeable = False
    with pytest.raises(SimulationError, match="read-only"):
        module.launch("scale", (1,), (32,), [x, np.float32(1), np.int32(4)])


@pytest.mark.parametrize(("argument", "message"), [
    (2.0, "np.float32"), ("text", "is not a NumPy array"), (np.float64(2), "has 4 bytes; its argument has 8"),
])
def test_arguments_that_dont_fit_are_refused(module, argument, message):
    with pytest.raises(LaunchError, match=message):
        module.launch("scale", (1,), (32,), [np.zeros(4, np.float32), argument, np.int32(4)])


def test_an_unknown_variable_is_refused(module):
    with pytest.raises(LaunchError, match="it has: counter, factor"):
        module.variable("nothing")


def test_dynamic_shared_memory_has_the_size_of_the_launch(device):
    body = f"{REGISTERS} mov.u32 %r1, %tid.x; shl.b32 %r1, %r1, 2; mov.u32 %r2, buffer; add.u32 %r1, %r1, %r2;"
    module = device.load(
        f"{HEADER}.extern .shared .align 16 .b8 buffer[];\n"
        f".visible .entry k() {{ {body} st.shared.u32 [%r1], 1; ret; }}"
    )
    module.launch("k", (1,), (32,), [], shared_bytes=128)
    with pytest.raises(OutOfBoundsError):
        module.launch("k", (1,), (32,), [], shared_bytes=124)
