"""PTX of any compiler on a simulated device: arguments, memory that lives across launches, module variables."""

from __future__ import annotations

import inspect
import re
import struct
import textwrap

import numpy as np
import pytest

from tests.simulator import tma_programs
from tests.simulator.small_kernels import HEADER
from tilejit.dataclass import replace
from tilejit.errors import LaunchError, OutOfBoundsError, SimulationError, UninitializedReadError
from tilejit.simulator import Device, TensorMap

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


# copies n elements of x to y; elements that are copied from unwritten memory are undefined
COPY = f"""
.visible .entry copy(.param .u64 x, .param .u64 y, .param .u32 n) {{
    {REGISTERS} {INDEX}
    ld.param.u64 %x1, [x]; ld.param.u64 %x2, [y]; ld.param.u32 %r4, [n];
    setp.ge.s32 %p1, %r1, %r4; @%p1 bra end;
    mul.wide.s32 %x3, %r1, 4; add.u64 %x1, %x1, %x3; add.u64 %x2, %x2, %x3;
    ld.global.f32 %f2, [%x1]; st.global.f32 [%x2], %f2;
    end: ret;
}}
.visible .entry copy_bytes(.param .u64 x, .param .u64 y, .param .u32 n) {{
    {REGISTERS} {INDEX} .reg .b16 %h;
    ld.param.u64 %x1, [x]; ld.param.u64 %x2, [y]; ld.param.u32 %r4, [n];
    setp.ge.s32 %p1, %r1, %r4; @%p1 bra end;
    cvt.s64.s32 %x3, %r1; add.u64 %x1, %x1, %x3; add.u64 %x2, %x2, %x3;
    ld.global.u8 %h, [%x1]; st.global.u8 [%x2], %h;
    end: ret;
}}
.visible .entry discard(.param .u64 x) {{
    .reg .b64 %x<2>; ld.param.u64 %x1, [x]; discard.global.L2 [%x1], 128; ret;
}}
"""


@pytest.fixture
def copies(device):
    return device.load(HEADER + COPY)


def test_bytes_that_a_launch_leaves_unwritten_stay_unwritten(device, copies):
    x, y = device.array(np.arange(8, dtype="f4")), device.empty(8, "f4", "y")
    copies.launch("copy", (1,), (32,), [x, y, np.int32(5)])
    assert y.written.tolist() == [True] * 20 + [False] * 12
    copies.launch("copy", (1,), (32,), [y, device.empty(8, "f4"), np.int32(5)])
    with pytest.raises(UninitializedReadError, match=r"y\+20 bytes, element 5 of float32\[8\], which nothing has wri"):
        copies.launch("copy", (1,), (32,), [y, device.empty(8, "f4"), np.int32(6)])
    copies.launch("copy", (1,), (32,), [x, y, np.int32(8)])
    assert y.written is None


def test_elements_of_a_vector_are_defined_one_by_one(device):
    """A kernel whose only access to memory is by vectors stores what it selects from a vector, or all of it."""
    vectors = device.load(HEADER + f"""
    .visible .entry select(.param .u64 x, .param .u64 y) {{
        {REGISTERS} {INDEX}
        ld.param.u64 %x1, [x]; ld.param.u64 %x2, [y]; mul.wide.s32 %x3, %r1, 16; add.u64 %x1, %x1, %x3;
        add.u64 %x2, %x2, %x3; ld.global.v4.b32 {{%r4, %r5, %r6, %r7}}, [%x1]; setp.gt.s32 %p1, %r1, 0;
        selp.b32 %r6, %r6, 0, %p1; selp.b32 %r7, 0, %r7, %p1; st.global.v4.b32 [%x2], {{%r4, %r5, %r6, %r7}};
        ret;
    }}""")
    x, y = device.empty((2, 4), "f4", "x"), device.empty((2, 4), "f4", "y")
    x.array[0, [0, 1, 3]] = x.array[1, :3] = 1
    vectors.launch("select", (1,), (2,), [x, y])
    assert y.array.tolist() == [[1, 1, 0, 1], [1, 1, 1, 0]]
    z = device.empty((2, 4), "f4", "z")
    z.array[:, :3] = 1
    with pytest.raises(UninitializedReadError, match=r"reads 16 bytes at z\+12 bytes, element \[0, 3\]"):
        vectors.launch("select", (1,), (2,), [z, y])


def test_a_word_is_undefined_until_all_of_its_bytes_are_written(device, copies):
    x, y = device.array(np.arange(8, dtype="u1")), device.empty(2, "f4", "y")
    copies.launch("copy_bytes", (1,), (32,), [x, y, np.int32(7)])
    assert y.written.tolist() == [True] * 7 + [False]
    copies.launch("copy", (1,), (32,), [y, device.empty(2, "f4"), np.int32(1)])
    with pytest.raises(UninitializedReadError, match=r"reads 4 bytes at y\+7 bytes"):
        copies.launch("copy", (1,), (32,), [y, device.empty(2, "f4"), np.int32(2)])
    y.define(7, 1)
    copies.launch("copy", (1,), (32,), [y, device.empty(2, "f4"), np.int32(2)])


@pytest.mark.parametrize("n", range(9))
@pytest.mark.parametrize("kernel, width", [("copy", 4), ("copy_bytes", 1)])
def test_written_bytes_are_those_that_launches_and_the_host_wrote(device, copies, n, kernel, width):
    x, y = device.array(np.zeros(8, "f4")), device.empty(8, "f4")
    y.array[6] = 1
    copies.launch(kernel, (1,), (32,), [x, y, np.int32(n)])
    expected = np.zeros(32, bool)
    expected[: n * width] = expected[24:28] = True
    # the bytes of the host's 1.0 differ from those of fresh memory
    assert (np.ones(32, bool) if y.written is None else y.written).tolist() == expected.tolist()


def test_an_array_of_the_host_is_placed_and_used_in_place(device, copies):
    x, y = np.arange(8, dtype="f4"), np.zeros(8, "f4")
    placed = device.place(x, name="x"), device.place(y, initialized=False, name="y")
    assert placed[0].address % 512 == placed[1].address % 512 == 0
    copies.launch("copy", (1,), (32,), [np.uint64(placed[0].address + 4), placed[1], np.int32(7)])
    assert y[:7].tolist() == x[1:].tolist()
    with pytest.raises(OutOfBoundsError, match=r"x\+32 bytes, element 8 of float32\[8\]; x has 32 bytes"):
        copies.launch("copy", (1,), (32,), [np.uint64(placed[0].address + 8), placed[1], np.int32(7)])
    with pytest.raises(ValueError, match="contiguous"):
        device.place(x[::2])


def test_labels_name_parts_of_an_array_until_they_are_removed(device, copies):
    x, y = device.array(np.arange(24, dtype="f4")), device.empty(24, "f4")
    y.label("rows", "float32", 4, (3, 4), 48)
    outside = [x, np.uint64(y.address), np.int32(32)]
    with pytest.raises(OutOfBoundsError):
        copies.launch("copy", (1,), (32,), outside)
    z = device.empty(24, "f4")
    with pytest.raises(UninitializedReadError, match=r"rows\+20 bytes, element \[1, 1\] of float32\[3, 4\]"):
        y.define(0, 48 + 20)
        copies.launch("copy", (1,), (32,), [y, z, np.int32(24)])
    y.unlabel()
    with pytest.raises(UninitializedReadError, match=r"DeviceArray.* element 17 of float32\[24\]"):
        copies.launch("copy", (1,), (32,), [y, z, np.int32(24)])


def test_a_verdict_is_clean_incomplete_or_findings(device, copies):
    x, y = device.array(np.arange(128, dtype="f4")), device.empty(128, "f4", "y")
    report = copies.launch("copy", (1,), (32,), [x, y, np.int32(8)])
    assert (report.verdict, report.not_checked) == ("clean", ())
    assert str(report).startswith("copy: grid (1, 1, 1), block (32, 1, 1), checked: clean\n")
    report = copies.launch("copy", (1,), (32,), [y, x, np.int32(9)], on_finding="collect")
    assert report.verdict == "findings"
    report = copies.launch("copy", (1,), (32,), [x, y, np.int32(8)], checks=False)
    assert report.verdict == "incomplete" and "checks are off" in report.not_checked[0]
    report = copies.launch("discard", (1,), (32,), [x])
    line = (HEADER + COPY).split("discard.global.L2")[0].count("\n") + 1
    assert (report.verdict, report.not_checked) == ("incomplete", (f"races of discard.global.L2, PTX line {line}",))
    assert f"not checked: races of discard.global.L2, PTX line {line}" in str(report)


def test_parameters_and_unsupported_statements_are_listed(device):
    ptx = HEADER + COPY + """
.visible .entry odd(.param .u64 x, .param .align 16 .b8 y[24]) {
    .reg .b32 %r<3>;
    mov.u32 %r1, 5;
    frob.u32 %r1, %r1;
    tex.1d.v4.s32.s32 {%r1, %r1, %r1, %r1}, [x, {%r1}];
    ret;
}
.visible .entry wide() {
    .reg .b32 %r<3>;
    add.u64 %r1, %r2, 5;
    ret;
}
"""
    module = device.load(ptx)
    at = ptx.split("frob")[0].count("\n") + 1
    assert [(p.name, p.offset, p.size_bytes) for p in module.parameters("odd")] == [("x", 0, 8), ("y", 16, 24)]
    assert module.unsupported("copy") == ()
    assert module.unsupported("odd") == (
        (at, "frob.u32 is not supported"), (at + 1, "tex.1d.v4.s32.s32 is not supported"))
    (wrong,) = module.unsupported("wide")
    assert wrong.ptx_line == ptx.split("add.u64 %r1")[0].count("\n") + 1
    assert wrong.reason == "register %r2 has width 32; the operand needs width 64"
    with pytest.raises(SimulationError, match="the PTX has no kernel none; it has: copy, copy_bytes, discard, odd, w"):
        module.unsupported("none")


@pytest.mark.parametrize("first_row", [0, 3])
def test_a_tensor_map_covers_part_of_a_device_array(device, first_row):
    x = device.array(np.arange(8 * 16, dtype="f4").reshape(8, 16), "x")
    out = device.empty(tma_programs.SHARED, "u1")
    tensor = x.array[first_row:]
    box = TensorMap(x, tensor.shape[::-1], (64,), (16, 2), 4, "float32", offset_bytes=64 * first_row)
    module = device.load(tma_programs.load_text((16, 2), (0, 1), 4))
    # the program stores all of shared memory, most of which nothing has written
    module.launch("k", (1,), (32,), [box, out], checks=False)
    np.testing.assert_array_equal(out.array[: 2 * 64].view("f4").reshape(2, 16), tensor[1:3])
    with pytest.raises(LaunchError, match="cannot create a tensor map of x: .*multiple of 16"):
        module.launch("k", (1,), (32,), [replace(box, offset_bytes=4), out])


def test_an_array_that_a_launch_writes_in_part_is_a_warning(device, copies):
    x, y, z = device.array(np.arange(8, dtype="f4")), device.empty((2, 4), "f4", "y"), device.empty(8, "f4", "z")
    report = copies.launch("copy", (1,), (32,), [x, y, np.int32(5)])
    assert [str(f) for f in report.findings] == [
        "warning [unwritten] (3 times): 3 of 8 elements were not written, although others were: "
        "first y+20 bytes, element [1, 1] of float32[2, 4]"
    ]
    assert report.verdict == "clean"
    # neither a launch that writes nothing more of y, nor one that completes it, nor z, which none writes
    assert not copies.launch("copy", (1,), (32,), [x, y, np.int32(5)]).findings
    assert not copies.launch("copy", (1,), (32,), [x, y, np.int32(8)]).findings
    y, z = device.empty(8, "f4", "y"), device.empty(8, "f4", "z")
    y.label("head", "float32", 4, (4,))
    assert not copies.launch("copy", (1,), (32,), [x, y, np.int32(4)]).findings
    (finding,) = copies.launch("copy", (1,), (32,), [x, np.uint64(z.address), np.int32(3)]).findings
    assert finding.message.startswith("5 of 8 elements")
