"""The CUDA device on a real GPU."""

import multiprocessing
import os
import threading

import numpy as np
import pytest

import tilejit as tj
from tilejit import S, tx

pytestmark = pytest.mark.gpu

ROW = S[(128,) : (1 @ tx,)]


@tj.kernel(threads=128)
def add_one(A: tj.Tensor, B: tj.Tensor, n: tj.int32):
    start = tj.cta_id(0) * 128
    r = tj.alloc_local((128,), A.dtype, layout=ROW)
    tj.cta.copy(r, A[start : start + 128])
    tj.cta.add(r, r, n)
    tj.cta.copy(B[start : start + 128], r)


@tj.kernel(threads=128)
def in_place(A: tj.Tensor, B: tj.Tensor):
    r = tj.alloc_local((128,), A.dtype, layout=ROW)
    tj.cta.copy(r, A[0:128])
    tj.cta.add(r, r, 1)
    tj.cta_sync()
    tj.cta.copy(B[0:128], r)


@tj.kernel(threads=32, debug=True)
def positive(A: tj.Tensor):
    assert A[tj.thread_id()] > 0, "must be positive"


@tj.kernel(threads=128)
def large_shared(A: tj.Tensor):
    smem = tj.alloc_shared((128, 200), tj.float32)
    tj.thread.fill(smem[0:1, 0:1], 0)
    tj.cta_sync()
    smem[tj.thread_id(), 199] = 3.0
    tj.cta_sync()
    A[tj.thread_id()] = smem[tj.thread_id(), 199]


def torch():
    return pytest.importorskip("torch")


def cupy():
    return pytest.importorskip("cupy")


@pytest.mark.parametrize("size", [128, 1000, 1])
def test_numpy_arrays_are_copied_in_and_back(size):
    a, b = np.arange(size, dtype=np.float32), np.full(size, -1, np.float32)
    add_one[tj.cdiv(size, 128)](a, b, 3)
    np.testing.assert_array_equal(b, a + 3)


def test_overlapping_numpy_arrays_see_each_other():
    memory = np.arange(256, dtype=np.float32)
    in_place[1](memory[:128], memory[64:192])
    np.testing.assert_array_equal(memory[64:192], np.arange(128) + 1)
    np.testing.assert_array_equal(memory[:64], np.arange(64))


def test_strided_numpy_arrays_keep_what_lies_between():
    memory = np.zeros(512, np.float32)
    b = memory[::-4]
    add_one[1](np.arange(128, dtype=np.float32), b, 1)
    np.testing.assert_array_equal(b, np.arange(128) + 1)
    assert np.count_nonzero(memory) == 128


def test_device_arrays_stay_on_the_device():
    a = tj.to_device(np.arange(300, dtype=np.int32))
    b = tj.empty((300,), tj.int32)
    add_one[3](a, b, 5)
    np.testing.assert_array_equal(b.numpy(), np.arange(300) + 5)
    a.free()
    with pytest.raises(tj.LaunchError, match="was freed"):
        add_one[3](a, b, 5)


def test_torch_tensors_of_every_layout():
    t = torch()
    a = t.arange(1000, device="cuda", dtype=t.float32)
    b = t.empty_like(a)
    add_one[8](a, b, 1)
    assert t.equal(b, a + 1)
    c = t.empty(2000, device="cuda")[::2]
    add_one[8](a, c, 2)
    assert t.equal(c, a + 2)


def test_the_current_stream_of_torch_is_used():
    t = torch()
    a, b = t.zeros(1 << 20, device="cuda"), t.empty(1 << 20, device="cuda")
    side = t.cuda.Stream()
    with t.cuda.stream(side):
        for n in range(20):
            a.fill_(n)
            add_one[8192](a, b, 1)
            assert t.all(b == n + 1)


def test_a_launch_in_a_torch_graph_is_captured_even_the_first():
    t = torch()
    a, b = (t.zeros(1024, device="cuda", dtype=t.float64) for _ in range(2))
    graph = t.cuda.CUDAGraph()
    with t.cuda.graph(graph):
        add_one[8](a, b, 7)
    a.fill_(1)
    graph.replay()
    assert t.all(b == 8)
    with pytest.raises(tj.LaunchError, match="graph is being captured"), t.cuda.graph(t.cuda.CUDAGraph()):
        add_one[8](np.zeros(1024), b, 1)


@pytest.mark.parametrize("form", ["torch", "int", "protocol", "cuda.core"])
def test_every_form_of_stream(form):
    t = torch()
    side = t.cuda.Stream()
    if form == "cuda.core":
        core = pytest.importorskip("cuda.core")
        device = core.Device(0)
        device.set_current()
        stream = device.create_stream()
    elif form == "protocol":
        stream = type("Wrapped", (), {"__cuda_stream__": lambda self: (0, side.cuda_stream)})()
    else:
        stream = side if form == "torch" else side.cuda_stream
    a, b = t.ones(1024, device="cuda"), t.empty(1024, device="cuda")
    t.cuda.synchronize()
    add_one[(8,), 128, stream](a, b, 1)
    tj.synchronize()
    assert t.all(b == 2)


def test_cupy_arrays_and_their_stream():
    cp = cupy()
    with cp.cuda.Stream(non_blocking=True):
        a = cp.arange(1000, dtype=cp.float16)
        b = cp.empty_like(a)
        add_one[8](a, b, 1)
        assert bool((b == a + 1).all())


def test_dlpack_alone_is_enough():
    t = torch()

    class Exporter:
        def __init__(self, tensor):
            self.tensor = tensor

        def __dlpack__(self, **options):
            return self.tensor.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.tensor.__dlpack_device__()

    a, b = t.ones(256, device="cuda"), t.zeros(256, device="cuda")
    add_one[2](Exporter(a), Exporter(b), 1)
    tj.synchronize()
    assert t.all(b == 2)


def test_an_assert_is_raised_at_the_next_synchronisation_and_the_context_survives():
    bad = tj.to_device(np.array([1] * 31 + [0], np.int32))
    positive[1](bad)
    with pytest.raises(AssertionError, match="thread 31 .*must be positive"):
        tj.synchronize()
    positive[1](tj.to_device(np.ones(32, np.int32)))
    tj.synchronize()
    with pytest.raises(tj.LaunchError, match="must be positive"):
        positive[1](bad)
        bad.numpy()


@tj.kernel(threads=32, debug=True)
def past_its_row(A: tj.Tensor, n):
    A[0, tj.thread_id() + n] = 1


@tj.kernel(threads=32, debug=True)
def maybe_written(A: tj.Tensor, n):
    r = tj.alloc_local((4,), tj.float32)
    if tj.thread_id() < n:
        r[2] = 1
    A[0, tj.thread_id()] = r[2]


@tj.kernel(threads=1, debug=True)
def shifted(A: tj.Tensor, n):
    tj.thread.copy(A[0, 0:16], A[0, n : n + 16])


CHECKED = [
    (past_its_row, 0, 3, r"index 3[2-4] is outside dimension 1 of A, whose extent is 32, in thread (29|30|31) "),
    (maybe_written, 32, 31, r"r\[2\] is read before anything has been written to it, in thread 31 "),
    (shifted, 16, 15, r"writes A\[0, 0:16\] and reads A\[0, 15 : 15 \+ 16\]: they overlap"),
]


@pytest.mark.parametrize(("kernel", "right", "wrong", "message"), CHECKED, ids=[k.name for k, *_ in CHECKED])
def test_a_debug_kernel_is_the_checked_build_and_tells_what_the_simulator_tells(kernel, right, wrong, message):
    a = tj.to_device(np.zeros((4, 32), np.float32))
    kernel[1](a, right)
    tj.synchronize()
    kernel[1](a, wrong)
    with pytest.raises(tj.LaunchError, match=message):
        tj.synchronize()
    kernel[1](a, right)
    tj.synchronize()
    with tj.use_device("sim"), pytest.raises(tj.SimulationError, match=message):
        kernel[1](np.zeros((4, 32), np.float32), wrong)


def test_more_than_48_kilobytes_of_shared_memory():
    a = np.zeros(128, np.float32)
    large_shared[1](a)
    assert (a == 3).all()


def test_a_bound_launch_repeats_and_takes_others():
    t = torch()
    a, b, c = (t.full((1024,), float(n), device="cuda") for n in range(3))
    p = add_one[8].bind(a, b, 1)
    p()
    assert t.all(b == 1)
    a.fill_(5)
    p()
    assert t.all(b == 6)
    p(b, c, 1)
    assert t.all(c == 7)


def test_a_target_of_another_architecture_is_a_device_error():
    @tj.kernel(threads=32, target="sm_75" if tj.runtime.devices.default().target.number < 75 else "sm_121a")
    def other(A: tj.Tensor):
        A[0] = 1

    with pytest.raises(tj.DeviceError, match="can't run code for"):
        other[1](np.zeros(4, np.float32))


def test_too_many_registers_or_threads_is_a_tilejit_error():
    with pytest.raises(tj.TilejitError):
        add_one[(1,), 4096](np.zeros(4, np.float32), np.zeros(4, np.float32), 1)


def test_threads_may_launch_the_same_kernel_at_once():
    arrays = [np.full(4096, n, np.float32) for n in range(8)]
    results = [np.empty_like(a) for a in arrays]
    workers = [threading.Thread(target=add_one[32], args=(a, b, 1)) for a, b in zip(arrays, results, strict=True)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    for n, b in enumerate(results):
        assert (b == n + 1).all()


def test_a_second_gpu_gets_its_own_launches():
    t = torch()
    if t.cuda.device_count() < 2:
        pytest.skip("one GPU only")
    a, b = t.ones(1024, device="cuda:1"), t.empty(1024, device="cuda:1")
    add_one[8](a, b, 1)
    assert t.all(b == 2)
    with pytest.raises(tj.LaunchError, match="two devices"):
        add_one[8](a, t.empty(1024, device="cuda:0"), 1)


def test_a_device_tensor_on_the_simulator_says_so():
    t = torch()
    with tj.use_device("sim"), pytest.raises(tj.LaunchError, match="simulator can't read a GPU's memory"):
        add_one[8](t.ones(1024, device="cuda"), np.empty(1024, np.float32), 1)


def test_a_launch_says_what_the_driver_made_of_the_kernel():
    a, b = np.zeros(128, np.float32), np.zeros(128, np.float32)
    launch = add_one[1].bind(a, b, 1)
    launch()
    made = launch.compiled
    assert not made.usage.is_estimate and made.spills == 0
    assert 8 <= made.registers <= 32 and made.occupancy == 1.0


def refused(launch, answers):
    """What a launch says in this process, which is a child."""
    try:
        launch()
        answers.put("it ran")
    except Exception as error:
        answers.put(f"{type(error).__name__}: {error}")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_launch_in_a_forked_child_says_that_contexts_do_not_survive():
    a, b = tj.to_device(np.zeros(128, np.float32)), tj.to_device(np.zeros(128, np.float32))
    host = np.zeros(128, np.float32)
    for _ in range(3):
        # the third launch is a generated function's
        add_one[1](a, b, 1)
    prepared = add_one[1].bind(a, b, 1)
    prepared()
    launches = [
        lambda: add_one[1](a, b, 1), lambda: add_one[1](host, host.copy(), 1), prepared, lambda: a.numpy(),
        lambda: tj.empty(8, "float32"), tj.synchronize,
    ]
    context = multiprocessing.get_context("fork")
    for launch in launches:
        answers = context.Queue()
        child = context.Process(target=refused, args=(launch, answers))
        child.start()
        said = answers.get(timeout=60)
        child.join()
        assert "do not survive a fork" in said and 'get_context("spawn")' in said, said
    add_one[1](a, b, 2)
    assert (b.numpy() == 2).all()
