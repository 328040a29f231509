"""Generated launchers on a real GPU: results, streams, graphs, contexts, other frameworks' arrays."""

import threading
from typing import NamedTuple

import numpy as np
import pytest

import tilejit as tj
from tests.runtime.fast_launch.recording import is_quick
from tilejit.runtime.fast_launch import memory

pytestmark = pytest.mark.gpu

SHIFT = 1


def new_context():
    """Return the driver's error code and a new, current context of device 0."""
    from cuda import bindings
    from cuda.bindings import driver

    parameters = (None,) if int(bindings.__version__.split(".")[0]) >= 13 else ()
    return driver.cuCtxCreate(*parameters, 0, 0)


def make_add():
    """A fresh kernel, B = A + n."""

    @tj.kernel(threads=32)
    def add(A: tj.Tensor, B: tj.Tensor, n: tj.float32):
        i = tj.cta_id(0)
        if i < A.shape[0]:
            j = tj.thread_id()
            if j < A.shape[1]:
                B[i, j] = A[i, j] + n

    return add


@pytest.fixture
def t():
    return pytest.importorskip("torch")


@pytest.fixture(params=["keys", "guards"])
def add(request, monkeypatch):
    if request.param == "keys":
        monkeypatch.setattr(memory, "has_guards", lambda: False)
    return make_add()


def warm(launch):
    for _ in range(4):
        launch()


def test_tensors_of_every_layout_alternate(t, add, monkeypatch):
    memory = t.zeros(4096, device="cuda")
    pairs = [(t.rand(8, 32, device="cuda"), t.zeros(8, 32, device="cuda")) for _ in range(2)]
    pairs += [(t.rand(32, 8, device="cuda").t(), t.zeros(8, 64, device="cuda")[:, ::2])]
    pairs += [(memory[1:257].view(8, 32), memory[1000:1256].view(8, 32))]
    pairs += [(memory[:256].view(8, 32), memory[:256].view(8, 32))]
    pairs += [(t.rand(n, 32, device="cuda"), t.zeros(n, 32, device="cuda")) for n in (1, 3, 100)]
    pairs += [(t.zeros(0, 32, device="cuda"), t.zeros(0, 32, device="cuda"))]
    for turn in range(6):
        for a, b in pairs:
            expected = a + turn
            add[128](a, b, float(turn))
            assert t.equal(b, expected)
    for a, b in pairs:
        assert is_quick(monkeypatch, add, lambda a=a, b=b: add[128](a, b, 1.0))


def test_tensors_change_in_place(t, add):
    a, b = t.rand(16, 32, device="cuda"), t.zeros(16, 32, device="cuda")
    changes = [
        lambda: a.t_(), lambda: b.t_(), lambda: a.resize_(4, 8), lambda: b.resize_(4, 8),
        lambda: setattr(a, "data", t.rand(9, 31, device="cuda")), lambda: b.resize_(9, 31),
        lambda: setattr(a, "data", t.rand(9, 31, device="cuda", dtype=t.float16)),
    ]
    warm(lambda: add[64](a, b, 0.0))
    for change in changes:
        change()
        if a.shape != b.shape:
            continue
        for n in range(5):
            b.zero_()
            add[64](a, b, float(n))
            t.testing.assert_close(b, (a + n).to(b.dtype), rtol=1e-3, atol=1e-3)


def test_the_current_stream_is_asked_at_each_launch(t, add, monkeypatch):
    a, b = t.zeros(64, 32, device="cuda"), t.zeros(64, 32, device="cuda")
    streams = [t.cuda.Stream() for _ in range(3)]
    warm(lambda: add[64](a, b, 1.0))
    t.cuda.synchronize()
    for turn in range(30):
        with t.cuda.stream(streams[turn % 3]):
            t.cuda._sleep(100_000)
            a.fill_(turn)
            assert is_quick(monkeypatch, add, lambda: add[64](a, b, 1.0))
            assert t.all(b == turn + 1)
    for stream in (streams[0], streams[0].cuda_stream):
        warm(lambda s=stream: add[(64,), 32, s](a, b, 2.0))
        streams[0].synchronize()
        assert t.all(b == 31)


def test_launches_in_a_graph_are_captured(t, add, monkeypatch):
    a, b, c = (t.zeros(64, 32, device="cuda") for _ in range(3))
    bound = add[64].bind(b, c, 10.0)
    warm(lambda: add[64](a, b, 1.0))
    bound()
    t.cuda.synchronize()
    graph = t.cuda.CUDAGraph()
    with t.cuda.graph(graph):
        assert is_quick(monkeypatch, add, lambda: add[64](a, b, 1.0))
        bound()
        # overlaps: launched by the slow path, and compiled, inside the capture
        add[64](c, c, 100.0)
    b.fill_(-1)
    for n in range(3):
        a.fill_(n)
        graph.replay()
        assert t.all(b == n + 1) and t.all(c == n + 111)


def test_a_thread_without_a_context_gets_one(t, add):
    a, b = t.zeros(64, 32, device="cuda"), t.zeros(64, 32, device="cuda")
    own = [tj.to_device(np.zeros((64, 32), np.float32)) for _ in range(2)]
    kernel = make_add()
    bound = kernel[64].bind(*own, 2.0)
    warm(lambda: add[64](a, b, 1.0))
    warm(lambda: kernel[64](*own, 1.0))
    t.cuda.synchronize()
    failures = []

    def work():
        try:
            kernel[64](*own, 3.0)
            bound()
            add[64](a, b, 5.0)
        except BaseException as error:
            failures.append(error)

    for _ in range(3):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    t.cuda.synchronize()
    assert not failures and t.all(b == 5) and (own[1].numpy() == 2).all()


def test_another_context_of_the_device_is_left_current(t, add):
    from cuda.bindings import driver

    a, b = t.zeros(64, 32, device="cuda"), t.zeros(64, 32, device="cuda")
    bound = add[64].bind(a, b, 7.0)
    warm(lambda: add[64](a, b, 1.0))
    bound()
    t.cuda.synchronize()
    error, context = new_context()
    assert error == 0
    try:
        for n in range(6):
            add[64](a, b, float(n))
        (_, current), status = driver.cuCtxGetCurrent(), driver.cuCtxSynchronize()
        assert int(current) == int(context) and status[0] == 0
        assert add.memory._in_context
        bound()
    finally:
        driver.cuCtxDestroy(context)
    t.cuda.synchronize()
    assert t.all(b == 7)


def test_another_context_while_a_graph_is_captured(t, add):
    from cuda.bindings import driver

    a, b, c = (t.zeros(64, 32, device="cuda") for _ in range(3))
    bound = add[64].bind(b, c, 10.0)
    warm(lambda: add[64](a, b, 1.0))
    bound()
    t.cuda.synchronize()
    error, context = new_context()
    assert error == 0
    driver.cuCtxPopCurrent()
    graph = t.cuda.CUDAGraph()
    with t.cuda.graph(graph):
        driver.cuCtxPushCurrent(context)
        try:
            add[64](a, b, 1.0)
            bound()
            current = driver.cuCtxGetCurrent()[1]
        finally:
            driver.cuCtxPopCurrent()
    assert int(current) == int(context)
    for n in range(3):
        a.fill_(n)
        graph.replay()
        assert t.all(b == n + 1) and t.all(c == n + 11)
    driver.cuCtxDestroy(context)


def test_eight_threads_launch_at_once(t, add):
    arrays = [(t.full((64, 32), float(n), device="cuda"), t.zeros(64, 32, device="cuda")) for n in range(8)]
    warm(lambda: add[64](*arrays[0], 0.0))
    t.cuda.synchronize()

    def work(n):
        a, b = arrays[n]
        with t.cuda.stream(t.cuda.Stream()):
            for turn in range(300):
                add[64](a, b, float(turn))
                if turn % 50 == 0:
                    assert t.all(b == n + turn)
            assert t.all(b == n + 299)
        finished.append(n)

    finished = []
    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(finished) == list(range(8))


def test_cupys_arrays_take_the_generated_function(monkeypatch):
    cp = pytest.importorskip("cupy")
    add, a, b = make_add(), cp.random.rand(16, 32, dtype=cp.float32), cp.zeros((16, 32), cp.float32)
    other = cp.zeros((32, 64), cp.float32).T[::4]
    warm(lambda: add[64](a, b, 1.0))
    with cp.cuda.Stream(non_blocking=True):
        for n in range(5):
            a += 1
            add[64](a, b, float(n))
            assert bool((b == a + cp.float32(n)).all())
            add[64](a, other, float(n))
            assert bool((other == a + cp.float32(n)).all())
        assert is_quick(monkeypatch, add, lambda: add[64](a, b, 1.0))
        assert is_quick(monkeypatch, add, lambda: add[64](a, other, 1.0))


@pytest.mark.parametrize("grid", [0, (4, 0), lambda m: (m.A.shape[0] - 8, 1)], ids=["int", "tuple", "function"])
def test_a_grid_without_ctas_launches_nothing(t, add, grid):
    a, b = t.ones(8, 32, device="cuda"), t.zeros(8, 32, device="cuda")
    warm(lambda: add[8](a, b, 0.0))
    b.zero_()
    bound = add[grid].bind(a, b, 1.0)
    graph = t.cuda.CUDAGraph()
    with t.cuda.graph(graph):
        # the capture goes on: the driver has refused nothing
        add[grid](a, b, 1.0)
        bound()
        bound(a, b, 2.0)
        add[8](a, b, 3.0)
    for _ in range(3):
        warm(lambda: add[grid](a, b, 1.0))
        warm(bound)
        warm(lambda: bound(a, b, 2.0))
        assert not b.any()
    graph.replay()
    assert bool((b == 4).all())


def test_jaxs_arrays_take_the_generated_function(monkeypatch):
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX has no GPU here")
    add, b = make_add(), tj.to_device(np.zeros((16, 32), np.float32))
    arrays = [jax.block_until_ready(jax.numpy.full((16, 32), n, np.float32)) for n in range(3)]
    arrays.append(jax.block_until_ready(arrays[0].astype(np.float16)))
    for turn in range(5):
        for a in arrays:
            add[16](a, b, float(turn))
            np.testing.assert_array_equal(b.numpy(), np.asarray(a, np.float32) + turn)
    for a in arrays:
        assert is_quick(monkeypatch, add, lambda a=a: add[16](a, b, 1.0))


def test_nothing_keeps_tensors_alive(t, add):
    import gc
    import weakref

    a, b = t.zeros(64, 32, device="cuda"), t.zeros(64, 32, device="cuda")
    for _ in range(4):
        add[64](a, b, 1.0)
    alive = weakref.ref(a)
    del a
    gc.collect()
    assert alive() is None


def test_numbers_that_arent_finite_arrive(t, add, monkeypatch):
    a, b = t.zeros(1, 32, device="cuda"), t.zeros(1, 32, device="cuda")
    warm(lambda: add[1](a, b, 1.0))
    for n in (float("nan"), float("inf"), -float("inf")):
        with tj.use_device("cuda:0"):
            assert is_quick(monkeypatch, add, lambda n=n: add[1](a, b, n))
        assert t.equal(b, a + n) or (n != n and t.all(b.isnan()))


def test_two_gpus_launch_in_their_own_contexts(t, add, monkeypatch):
    if t.cuda.device_count() < 2:
        pytest.skip("one GPU only")
    arrays = [[t.zeros(64, 32, device=f"cuda:{n}") for _ in range(2)] for n in range(2)]
    bound = [add[64].bind(*pair, 50.0) for pair in arrays]
    for current in (0, 1):
        with t.cuda.device(current):
            for turn in range(6):
                for n, (a, b) in enumerate(arrays):
                    add[64](a, b, float(turn + 10 * n))
                    assert t.all(b == turn + 10 * n)
                    bound[n]()
                    assert t.all(b == 50) and t.cuda.current_device() == current
    with t.cuda.device(0):
        assert is_quick(monkeypatch, add, lambda: add[64](*arrays[1], 1.0))


class Scaled(NamedTuple):
    x: tj.Tensor
    by: tj.float32


@tj.kernel(threads=32)
def scale_all(P, Q: Scaled):
    i = tj.cta_id(0) * 32 + tj.thread_id()
    flat = Q.x.reshape(-1)
    for y in P:
        if i < flat.shape[0]:
            y.reshape(-1)[i] = flat[i] * Q.by


def test_containers_are_launched_like_their_items(t, monkeypatch):
    x = t.rand(8, 32, device="cuda")
    ys = tuple(t.zeros(8, 32, device="cuda") for _ in range(3))
    for turn in range(6):
        scale_all[8](ys, Scaled(x, float(turn)))
        assert all(t.equal(y, x * turn) for y in ys)
    assert is_quick(monkeypatch, scale_all, lambda: scale_all[8](ys, Scaled(x, 0.5)))
    scale_all[8]((x, ys[0]), Scaled(x, 2.0))
    prepared = scale_all[8].bind(ys[:2], Scaled(x, 3.0))
    prepared()
    assert t.equal(ys[1], x * 3)
    with pytest.raises(tj.LaunchError, match="can't be reshaped to"):
        scale_all[8]((t.zeros(8, 64, device="cuda")[:, :32],), Scaled(x, 1.0))
