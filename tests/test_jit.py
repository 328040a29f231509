"""`@tj.kernel`: launching, compiling once for each signature, and what is refused."""

import gc
import threading
import weakref
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

import tilejit as tj
from tests.support.foreign_arrays import Exporter, Tensor
from tilejit import S, pipeline, tx
from tilejit.frontend import kernel as reading

ROW = S[(32,) : (1 @ tx,)]
STEP = 1


@pytest.fixture(autouse=True)
def simulator(monkeypatch):
    monkeypatch.setenv("TILEJIT_DEVICE", "sim")
    monkeypatch.delenv("TILEJIT_SIM_CHECKS", raising=False)


def make_add(**options):
    """A fresh kernel, B = A + n, without compiled variants."""

    @tj.kernel(**{"threads": 32, **options})
    def add(A: tj.Tensor, B: tj.Tensor, n=0):
        i = tj.cta_id(0) * 32 + tj.thread_id()
        if i < A.shape[0]:
            B[i] = A[i] + n

    return add


def make_scale():
    @tj.kernel(threads=32)
    def scale(A: tj.Tensor, K: tj.constexpr):
        A[tj.thread_id()] = A[tj.thread_id()] * K

    return scale


def numbers(n=64, dtype=np.float32):
    return np.arange(n, dtype=dtype)


def aligned(n, offset=0, dtype=np.float32):
    """`n` elements at an address that is a multiple of 64, plus `offset` elements."""
    item = np.dtype(dtype).itemsize
    memory = np.zeros((n + offset) * item + 64, np.uint8)
    start = -memory.ctypes.data % 64 + offset * item
    return memory[start : start + n * item].view(dtype)


def test_the_decorator_works_bare_and_with_options():
    @tj.kernel
    def bare(A: tj.Tensor):
        """Doc."""
        A[tj.thread_id()] = 1

    a = np.zeros(128, np.float32)
    bare[1](a)
    assert (a == 1).all()
    assert (bare.__name__, bare.__doc__) == ("bare", "Doc.")
    assert repr(bare) == "<kernel bare(A)>"


@pytest.mark.parametrize("grid", [2, np.int64(2), (2,), (2, 1), (2, 1, 1), lambda a: tj.cdiv(a["A"].shape[0], 32)])
def test_every_form_of_grid(grid):
    a, b = numbers(), np.zeros(64, np.float32)
    make_add()[grid](a, b, 3)
    np.testing.assert_array_equal(b, a + 3)


BAD_GRIDS = [-1, (1, -1), (0, -1), (1, 1, 1, 1), 1.5, "2", None, True, (), 2**31, (1, 65536), lambda a: -1]


@pytest.mark.parametrize("grid", BAD_GRIDS)
def test_a_grid_that_is_none_is_refused(grid):
    b = np.zeros(64, np.float32)
    with pytest.raises(tj.LaunchError, match=r"grid|fit"):
        make_add()[grid](numbers(), b, 3)
    assert not b.any()


@pytest.mark.parametrize("grid", [True, (True, 2), (1.0, 2), (1, True), (np.float64(1),)])
def test_a_grid_that_equals_a_kept_one_is_still_refused(grid):
    add, b = make_add(), np.zeros(64, np.float32)
    for kept in (1, (1,), (1, 2), (1, 1)):
        assert add[kept] is add[kept]
    with pytest.raises(tj.LaunchError, match="is not a (grid|number of threads)"):
        add[grid](numbers(), b, 3)


def test_a_launch_without_a_grid_says_what_to_write():
    with pytest.raises(tj.LaunchError, match=r"add is a kernel and needs a grid(.|\n)*add\[grid\]"):
        make_add()(numbers(), numbers())


def test_threads_can_be_overridden():
    a = np.zeros(128, np.float32)

    @tj.kernel(threads=32)
    def mark(A: tj.Tensor):
        A[tj.thread_id()] = 1

    mark[(1,), 64](a)
    assert a.sum() == 64
    mark[lambda _: 1, 128, None](a)
    assert a.sum() == 128
    with pytest.raises(tj.ResourceError, match="CTA of 2048 threads exceeds the limit of 1024"):
        mark[(1,), 2048](a)
    for threads in (0, "32", 1.5):
        with pytest.raises(tj.LaunchError, match="not a number of threads"):
            mark[(1,), threads](a)
    with pytest.raises(tj.LaunchError, match="takes a grid, threads and a stream"):
        mark[(1,), 32, None, 4](a)


def test_options_are_checked_where_they_are_given():
    with pytest.raises(tj.ResourceError, match="exceeds the limit of 1024"):
        make_add(threads=1025)
    with pytest.raises(tj.DeviceError, match="unknown target 'sm_1'"):
        make_add(target="sm_1")
    with pytest.raises(tj.LaunchError, match="is not a cluster"):
        make_add(cluster=(0,))
    with pytest.raises(tj.LaunchError, match=r"grid \(3, 1, 1\) is not a multiple of the cluster of \(2, 1, 1\)"):
        make_add(cluster=2)[3](numbers(), numbers())


def test_arguments_go_by_position_keyword_and_default():
    add, a, b = make_add(), numbers(), np.zeros(64, np.float32)
    add[2](a, B=b, n=2)
    np.testing.assert_array_equal(b, a + 2)
    add[2](a, b)
    np.testing.assert_array_equal(b, a)
    scale = make_scale()
    scale[1](b, 2)
    scale[1](b, K=3)
    np.testing.assert_array_equal(b[:32], 6 * a[:32])


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float64", "int8", "uint16", "int64"])
def test_arrays_of_every_width_are_launched(name):
    dtype = getattr(tj, name).numpy
    a, b = numbers(64).astype(dtype), np.zeros(64, dtype)
    make_add()[2](a, b, 1)
    np.testing.assert_array_equal(b, (numbers(64) + 1).astype(dtype))


def test_shapes_share_a_variant_and_types_do_not():
    add = make_add()
    for n in (64, 128, 192):
        add[n // 32](aligned(n), aligned(n), 1)
    assert len(add.signatures) == 1
    add[2](aligned(64, dtype=np.int32), aligned(64, dtype=np.int32), 1)
    assert len(add.signatures) == 2
    add[2](aligned(64), aligned(64), 1.0)
    assert len(add.signatures) == 3


def test_constexprs_differ_by_value_and_type():
    scale, a = make_scale(), aligned(32)
    for value in (2, 2.0, 3, True, 2, 2.0):
        scale[1](a, value)
    assert len(scale.signatures) == 4


def test_a_signature_says_where_it_was_compiled_and_how_long_it_took():
    add = make_add()
    add[2](aligned(64), aligned(64), 1)
    (made,) = add.signatures
    assert "test_jit.py:" in made.call
    assert made.timings["frontend"] > 0 and "codegen" in made.timings
    assert "A: float32[:1] align 16" in str(made)
    assert made.compiled.ptx


def test_no_recompile_says_what_differs():
    add = make_add()
    with tj.no_recompile(), pytest.raises(tj.LaunchError, match="compiled for the first time"):
        add[2](aligned(64), aligned(64), 1)
    add[2](aligned(64), aligned(64), 1)
    with tj.no_recompile():
        add[4](aligned(128), aligned(128), 7)
        with pytest.raises(tj.LaunchError, match=r"A: float32\[:1\] align 4 .*instead of A: float32\[:1\] align 16"):
            add[2](aligned(64, offset=1), aligned(64), 1)
        with pytest.raises(tj.LaunchError, match="threads 64 instead of 32"):
            add[(1,), 64](aligned(64), aligned(64), 1)


def test_only_overlap_with_a_written_array_is_in_the_signature():
    @tj.kernel(threads=32)
    def add(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor):
        i = tj.thread_id()
        C[i] = A[i] + B[i]

    a, b, c = aligned(32), aligned(32), aligned(32)
    add[1](a, b, c)
    add[1](a, a, c)
    assert len(add.signatures) == 1
    add[1](a, b, a)
    assert len(add.signatures) == 2
    kinds = dict(add.signatures[1].signature.arguments)
    assert [kinds[n].overlaps for n in "ABC"] == [True, False, True]


def test_a_kernel_is_read_once_for_a_signature_whose_arrays_overlap(monkeypatch):
    @tj.kernel(threads=32)
    def add(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor):
        i = tj.thread_id()
        C[i] = A[i] + B[i]

    readings, build = [], reading.build
    monkeypatch.setattr(reading, "build", lambda *args, **options: readings.append(1) or build(*args, **options))
    a, b, c = aligned(32), aligned(32), aligned(32)
    add[1](a, a, c)
    add[1](b, b, c)
    assert len(readings) == 1
    add[1](a, b, c)
    assert len(readings) == 1
    add[1](a, b, a)
    assert len(readings) == 2
    add[1](c, b, c)
    assert len(readings) == 2


def test_arguments_that_overlap_give_numpys_result():
    add, memory = make_add(), numbers(65)
    expected = memory[:32] + 1
    add[1](memory[:32], memory[32:64], 1)
    np.testing.assert_array_equal(memory[32:64], expected)


def test_every_option_of_a_launch_is_in_the_key():
    add, a = make_add(), aligned(64)
    add[2](a, aligned(64), 1)
    with tj.use_device("sim:sm_100a"):
        add[2](a, aligned(64), 1)
    assert [v.target.name for v in add.signatures] == ["sm_90a", "sm_100a"]


def test_threads_that_launch_at_once_compile_once():
    add, results = make_add(), [np.zeros(64, np.float32) for _ in range(4)]
    workers = [threading.Thread(target=add[2], args=(aligned(64), b, n)) for n, b in enumerate(results)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert [b[0] for b in results] == [0, 1, 2, 3]
    assert len({v.signature for v in add.signatures}) == len(add.signatures)


def test_a_captured_global_that_changes_recompiles(monkeypatch):
    @tj.kernel(threads=32)
    def step(A: tj.Tensor):
        A[tj.thread_id()] = STEP

    a = np.zeros(32, np.float32)
    step[1](a)
    assert (a == 1).all()
    monkeypatch.setitem(globals(), "STEP", 5)
    step[1](a)
    assert (a == 5).all()
    monkeypatch.setitem(globals(), "STEP", 1)
    with tj.no_recompile():
        step[1](a)
    assert (a == 1).all()


def test_no_recompile_names_the_captured_value_with_its_old_and_its_new_value(monkeypatch):
    factors = (2.0, 3)
    unit = "mm"

    @tj.function
    def scaled(x):
        return x * factors[0] + STEP

    helper = scaled

    @tj.kernel(threads=32)
    def measure(A: tj.Tensor):
        if unit == "mm":
            A[tj.thread_id()] = helper(1.0)

    a = np.zeros(32, np.float32)
    measure[1](a)

    def refusal():
        with tj.no_recompile(), pytest.raises(tj.LaunchError) as caught:
            measure[1](a)
        return caught.value.message

    unit = "cm"
    assert refusal().endswith("captured unit 'cm', compiled with 'mm'")
    unit = "mm"
    factors = (2.5, 3)
    assert refusal().endswith("captured factors (2.5, 3), compiled with (2.0, 3) (in helper)")
    factors = (2.0, 3)
    monkeypatch.setitem(globals(), "STEP", 7)
    assert refusal().endswith("captured STEP 7, compiled with 1 (in helper)")
    monkeypatch.delitem(globals(), "STEP")
    assert refusal().endswith("captured STEP without a value, compiled with 1 (in helper)")

    @tj.function
    def doubled(y):
        return y * 2

    helper = doubled
    assert refusal().endswith("captured helper def doubled(y), compiled with def scaled(x)")


def test_a_closure_and_what_a_helper_captures_are_followed():
    offset = 2

    @tj.function
    def shifted(x):
        return x + offset

    @tj.kernel(threads=32)
    def shift(A: tj.Tensor):
        A[tj.thread_id()] = shifted(A[tj.thread_id()])

    a = np.zeros(32, np.float32)
    shift[1](a)
    prepared = shift[1].bind(a)
    offset = 10
    shift[1](a)
    prepared()
    assert (a == 22).all()


def test_a_captured_number_in_an_array_is_not_cached():
    value = np.array(3)

    @tj.kernel(threads=32)
    def store(A: tj.Tensor):
        A[tj.thread_id()] = value

    from tilejit.runtime.captured import Captured

    captured = Captured(store.source)
    before = captured.number()
    assert captured.number() == before
    value[()] = 4
    assert captured.number() != before


def test_a_refused_launch_writes_nothing():
    add, a = make_add(), numbers()
    b = np.full(64, -1, np.float32)
    read_only = b.view()
    read_only.flags.writeable = False
    with pytest.raises(tj.LaunchError, match="B is a read-only array, but the kernel writes it"):
        add[2](a, read_only, 1)
    with pytest.raises(tj.KernelTypeError, match="None"):
        add[2](a, b, None)
    for bad in ((a,), (a, b, "x"), (a, b, 1, 2), (a, 3.0), (a.astype(complex), b), ([1, 2], b)):
        with pytest.raises(tj.LaunchError):
            add[2](*bad)
    assert (b == -1).all()


def test_a_read_only_array_may_be_read():
    a, b = numbers(), np.zeros(64, np.float32)
    a.flags.writeable = False
    make_add()[2](a, b, 1)
    np.testing.assert_array_equal(b, a + 1)


def test_a_pinned_parameter_takes_nothing_else():
    @tj.kernel(threads=32)
    def pinned(A: tj.Tensor = tj.spec((4, 8), tj.float32)):  # noqa: B008
        A[tj.thread_id() // 8, tj.thread_id() % 8] = 1

    a = np.zeros((4, 8), np.float32)
    pinned[1](a)
    assert (a == 1).all()
    with pytest.raises(tj.LaunchError, match=r"A is pinned to shape \(4, 8\); got \(8, 4\)"):
        pinned[1](np.zeros((8, 4), np.float32))
    with pytest.raises(tj.LaunchError, match="strides"):
        pinned[1](np.zeros((8, 4), np.float32).T)
    assert pinned.compile().ptx
    with pytest.raises(tj.LaunchError, match="is missing A"):
        pinned[1]()


def test_a_spec_can_not_be_launched():
    with pytest.raises(tj.LaunchError, match="Spec is not an array"):
        make_add()[1](tj.spec((32,), tj.float32), numbers())


@pytest.mark.parametrize("target", ["sm_75", "sm_90a", "sm_100a"])
def test_compile_needs_neither_arrays_nor_the_target(target):
    vector = tj.spec((64,), tj.float16)
    compiled = make_add().compile(vector, vector, tj.int32, target=target, threads=64)
    assert f".target {target}" in compiled.ptx
    assert compiled.threads == 64


def test_what_was_compiled_for_specs_is_launched_with_arrays():
    add, vector = make_add(), tj.spec((64,), tj.float32)
    add.compile(vector, vector, 1)
    with tj.no_recompile():
        add[2](aligned(64), aligned(64), 1)
    assert len({variant.signature for variant in add.signatures}) == 1
    assert [variant.debug for variant in add.signatures] == [False, True]


def test_arrays_of_other_frameworks_in_host_memory_are_launched_in_place():
    a, b = numbers(), np.zeros(64, np.float32)
    make_add()[2](Tensor(a, "cpu"), Exporter(b), 1)
    np.testing.assert_array_equal(b, a + 1)


def test_explain_is_short_for_compile_and_explain():
    explained = make_add().explain(tj.spec((64,), tj.float32), tj.spec((64,), tj.float32), target="sm_80")
    assert str(explained).startswith("add for sm_80")


def test_the_target_comes_from_the_call_then_the_kernel_then_the_device():
    vector = tj.spec((64,), tj.float32)
    assert make_add().compile(vector, vector).target.name == "sm_90a"
    add = make_add(target="sm_100a")
    assert add.compile(vector, vector).target.name == "sm_100a"
    assert add.compile(vector, vector, target="sm_80").target.name == "sm_80"
    add[2](numbers(), np.zeros(64, np.float32))
    with tj.use_device("sim:sm_90a"), pytest.raises(tj.DeviceError, match="can't run code for sm_100a"):
        add[2](numbers(), np.zeros(64, np.float32))


def test_a_bound_launch_repeats_and_takes_others_of_its_signature():
    add, a, b, c = make_add(), aligned(64), aligned(64), aligned(96)
    p = add[lambda v: v["A"].shape[0] // 32].bind(a, b, 1)
    p()
    assert (b == 1).all()
    a[:] = 5
    p()
    assert (b == 6).all()
    p(c, aligned(96), 2)
    p(c[:32], c[32:], 2)
    assert (c[32:64] == 2).all()
    with pytest.raises(tj.LaunchError, match=r"compiled again by a bound launch: A: int32.*instead of A: float32"):
        p(aligned(64, dtype=np.int32), b, 1)
    with pytest.raises(tj.LaunchError, match="compiled again by a bound launch: A: float32.* overlaps"):
        p(c, c, 2)
    add[1](c, c, 2)
    with pytest.raises(tj.LaunchError, match="a different build .* their signature is A: float32.* overlaps"):
        p(c, c, 2)
    with pytest.raises(tj.LaunchError, match="takes 3 arguments"):
        p(a)


def test_a_bound_launch_keeps_its_constexprs():
    scale, a = make_scale(), np.ones(32, np.float32)
    p = scale[1].bind(a, K=3)
    b = np.ones(32, np.float32)
    p(b)
    assert (b == 3).all()
    assert p.compiled.ptx


def test_simulate_reports_what_ran():
    a, b = numbers(), np.zeros(64, np.float32)
    report = tj.simulate(make_add(), 2, a, b, n=1, target="sm_80", profile=True)
    np.testing.assert_array_equal(b, a + 1)
    assert sum(report.instructions.values()) > 0


def test_the_simulators_checks_can_be_turned_off(monkeypatch):
    @tj.kernel(threads=32)
    def beyond(A: tj.Tensor, B: tj.Tensor):
        B[tj.thread_id()] = A[tj.thread_id()]

    memory = numbers(64)
    with pytest.raises(tj.OutOfBoundsError):
        beyond[1](memory[:16], np.zeros(32, np.float32))

    @tj.kernel(threads=32)
    def racing(A: tj.Tensor):
        A[0] = tj.thread_id()

    a = np.zeros(1, np.int32)
    with pytest.raises(tj.RaceError):
        racing[1](a)
    monkeypatch.setenv("TILEJIT_SIM_CHECKS", "0")
    racing[1](a)
    tj.simulate(racing, 1, a, checks=False)


def test_an_error_on_the_simulator_names_the_python_line():
    @tj.kernel(threads=32)
    def beyond(A: tj.Tensor):
        A[tj.thread_id() + 8] = 1

    with pytest.raises(tj.OutOfBoundsError, match=r"A\[tj\.thread_id\(\) \+ 8\] = 1") as caught:
        beyond[1](np.zeros(32, np.float32))
    span = caught.value.span
    assert span.file == __file__
    assert span.text[span.column : span.end_column].startswith("A[tj.thread_id() + 8]")


def test_a_race_names_both_python_lines():
    @tj.kernel(threads=64)
    def racing(A: tj.Tensor):
        smem = tj.alloc_shared((64,), tj.float32)
        smem[tj.thread_id()] = 1
        A[tj.thread_id()] = smem[63 - tj.thread_id()]

    with pytest.raises(tj.RaceError) as caught:
        racing[1](np.zeros(64, np.float32))
    assert "smem[tj.thread_id()] = 1" in str(caught.value)
    assert "A[tj.thread_id()] = smem[63 - tj.thread_id()]" in str(caught.value)
    assert caught.value.span is not None


def test_an_assert_holds_on_the_simulator_without_debug():
    @tj.kernel(threads=32)
    def positive(A: tj.Tensor):
        assert A[tj.thread_id()] > 0, "must be positive"

    a = np.ones(32, np.float32)
    positive[1](a)
    a[7] = 0
    with pytest.raises(AssertionError, match=r"thread 7 of CTA \(0, 0, 0\): must be positive"):
        positive[1](a)
    with pytest.raises(tj.SimulationError, match="assert A"):
        positive[1](a)


@pytest.mark.parametrize("view", [np.s_[::-1], np.s_[::2], np.s_[60:2:-3], np.s_[5:40]])
def test_arrays_of_any_strides_are_used_in_place(view):
    a, memory = numbers(), np.zeros(64, np.float32)
    b = memory[view]
    make_add()[2](a[view], b, 1)
    np.testing.assert_array_equal(b, a[view] + 1)
    assert np.count_nonzero(memory) == b.size


def test_empty_arrays_can_be_passed():
    empty = np.zeros(0, np.float32)
    make_add()[1](empty, empty[::-1], 1)
    make_add()[1](tj.empty(0, tj.float32), empty, 1)


def test_device_arrays_of_the_simulator_hold_data_between_launches():
    add = make_add()
    a, b = tj.to_device(numbers()), tj.empty(64, tj.float32)
    add[2](a, b, 1)
    add[2](b, a, 1)
    np.testing.assert_array_equal(a.numpy(), numbers() + 2)
    with pytest.raises(tj.UninitializedReadError):
        add[2](tj.empty(64, tj.float32), a, 1)


def test_a_kernel_does_not_keep_its_arguments_alive():
    add, a = make_add(), np.zeros(64, np.float32)
    tensor = a.view(type("Array", (np.ndarray,), {}))
    alive = weakref.ref(tensor)
    add[2](tensor, np.zeros(64, np.float32))
    del tensor
    gc.collect()
    assert alive() is None


def test_an_error_leaves_without_the_frames_of_the_library(monkeypatch):
    @tj.kernel
    def past_the_end(A):
        A[A.shape[0]] = 1

    def frames():
        with pytest.raises(tj.OutOfBoundsError) as caught:
            past_the_end[1](np.zeros(4, np.float32))
        return [Path(str(entry.path)).name for entry in caught.traceback]

    assert frames() == ["test_jit.py", "errors.py"]
    monkeypatch.setenv("TILEJIT_FULL_TRACEBACK", "1")
    assert "simulated.py" in frames()


def test_a_grid_that_is_refused_shows_one_frame_of_the_library(monkeypatch):
    def frames():
        with pytest.raises(tj.LaunchError) as caught:
            make_add()[1.5]
        return [Path(str(entry.path)).name for entry in caught.traceback]

    assert frames() == ["test_jit.py", "launches.py"]
    monkeypatch.setenv("TILEJIT_FULL_TRACEBACK", "1")
    assert "grid.py" in frames()


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_the_collector_is_paused_during_a_compilation_and_restored_after_it(monkeypatch, enabled, fails):
    def compile(*args, **options):
        assert not gc.isenabled()
        if fails:
            raise tj.ResourceError("made up")
        return made(*args, **options)

    made = pipeline.compile
    monkeypatch.setattr(pipeline, "compile", compile)
    vector = tj.spec((64,), tj.float32)
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with pytest.raises(tj.ResourceError) if fails else nullcontext():
            make_add().compile(vector, vector)
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_a_compiled_kernel_says_how_long_each_stage_took():
    @tj.kernel(threads=32)
    def one(A):
        A[tj.lane_id()] = 1

    timings = one.compile(tj.spec((32,), tj.float32)).timings
    assert {"frontend", "lower", "codegen", "codegen.llvm_emit"} <= set(timings)
    assert all(ms >= 0 for ms in timings.values()) and timings["frontend"] > 0


@pytest.mark.parametrize("apart", [True, False], ids=["apart", "overlapping"])
def test_a_captured_value_that_changes_while_its_kernel_is_read_is_never_stale(monkeypatch, apart):
    @tj.kernel(threads=32)
    def k(A: tj.Tensor, B: tj.Tensor):
        A[tj.thread_id()] = B[tj.thread_id()] * 0 + STEP

    a = np.ones(32, np.float32)
    b = np.ones(32, np.float32) if apart else a
    build = reading.build

    def changing(*args, **named):
        monkeypatch.setitem(globals(), "STEP", 4)
        return build(*args, **named)

    monkeypatch.setitem(globals(), "STEP", 3)
    monkeypatch.setattr(reading, "build", changing)
    k[1](a, b)
    assert a[0] == 4
    monkeypatch.setattr(reading, "build", build)
    for value in (3, 4):
        monkeypatch.setitem(globals(), "STEP", value)
        k[1](a, b)
        assert a[0] == value


def test_a_captured_value_that_is_another_for_a_moment_is_never_stale(monkeypatch):
    @tj.kernel(threads=32)
    def k(A: tj.Tensor):
        A[tj.thread_id()] = STEP

    a = np.zeros(32, np.float32)
    monkeypatch.setitem(globals(), "STEP", 3)
    variant, values = k.variants.variant, iter((4, 3))

    def meanwhile(*args):
        globals()["STEP"] = next(values)
        made = variant(*args)
        globals()["STEP"] = 3
        return made

    monkeypatch.setattr(k.variants, "variant", meanwhile)
    k[1](a)
    assert a[0] == 3
    monkeypatch.undo()
    monkeypatch.setenv("TILEJIT_DEVICE", "sim")
    monkeypatch.setitem(globals(), "STEP", 3)
    k[1](a)
    assert a[0] == 3


def launches(kernel, folder):
    """The ways to run a kernel on one array and further arguments."""

    def saved(y, *args):
        path = folder / "k.ptx"
        kernel.compile(y, *args).save(path)
        tj.load_compiled(path)[1](y, *args)

    def twice(y, *args):
        for _ in range(2):
            kernel[1](y, *args)

    def replaced(y, *args):
        kernel[1].bind(np.zeros_like(y), *args)(y, *args)

    tuned = tj.autotune(configs=[tj.Config({"X": 1}), tj.Config({"X": 2})], key=["n", "a"])(kernel)
    return {
        "launch": twice, "bind": lambda y, *args: kernel[1].bind(y, *args)(), "bind with others": replaced,
        "saved": saved, "simulate": lambda y, *args: tj.simulate(kernel, 1, y, *args),
        "autotune": lambda y, *args: tuned[1](y, *args),
    }


def test_python_annotations_mean_the_same_in_every_launch(tmp_path):
    @tj.kernel(threads=1)
    def k(Y: tj.Tensor, n: int, a: float, b: "bool", X: tj.constexpr = 1):
        Y[0] = n // 2
        Y[1] = a // 7 * 0.5 + a * a
        Y[2] = b + b

    for name, launch in launches(k, tmp_path).items():
        for n, a, b in ((7, 100000, 2), (np.int64(7), np.float64(1e5), np.bool_(1)), (True * 7, 1e5, True)):
            y = np.zeros(3, np.float64)
            launch(y, n, a, b)
            assert y.tolist() == [3, np.float32(1e5) // 7 * 0.5 + np.float32(1e5) ** 2, 2], name
        y = np.zeros(3)
        launch(y, 2**40, 1, 0)
        assert y[0] == 2**39
        for wrong in ((2.0, 1.0, True), (1, "1.0", True), (1, 1.0, 0.5), (None, 1.0, True), (2**63, 1.0, True)):
            with pytest.raises(tj.LaunchError, match=r"[nab] is (int32|int64|float32|bool_)"):
                launch(y, *wrong)


def test_a_tuned_kernel_has_one_table_for_numbers_that_are_passed_as_the_same():
    @tj.autotune(configs=[tj.Config({"X": 1}), tj.Config({"X": 2})], key=["a"])
    @tj.kernel(threads=1)
    def k(Y: tj.Tensor, a: float, X: tj.constexpr):
        Y[0] = a

    for a in (2, 2.0, np.float64(2), np.int8(2)):
        k[1](np.zeros(1, np.float32), a)
    assert len(k.tuning) == 1
