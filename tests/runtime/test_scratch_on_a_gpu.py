"""Scratch on a real GPU: streams, threads, captured graphs, growth, failures, and too little memory."""

import threading

import numpy as np
import pytest

import tilejit as tj

pytestmark = pytest.mark.gpu

ROWS = 64


@tj.kernel(threads=128)
def column_sums(A: tj.Tensor, C: tj.Tensor, width: tj.constexpr = 128):
    """Each CTA stores its part of the sums to scratch; the last one adds the parts. width: elements of a part."""
    W = tj.scratch((tj.num_ctas(0), width), tj.float32)
    Z = tj.scratch(1, tj.int32, zeroed=True)
    last = tj.alloc_shared(1, tj.int32)
    part, column = tj.cta_id(0), tj.thread_id()
    total = 0.0
    for i in range(ROWS):
        total += A[part * ROWS + i, column]
    W[part, column] = total
    tj.fence("gpu")
    tj.cta_sync()
    if tj.thread_id() == 0:
        last[0] = tj.atomic.add(Z[0], 1, order="acq_rel")
    tj.cta_sync()
    if last[0] == tj.num_ctas(0) - 1:
        tj.fence("gpu")
        total = 0.0
        for i in range(tj.num_ctas(0)):
            total += W[i, column]
        C[column] = total
        if tj.thread_id() == 0:
            Z[0] = 0


@pytest.fixture
def t():
    return pytest.importorskip("torch")


def whole(t, parts, seed=0):
    """Integers, so that all orders of addition give one sum."""
    t.manual_seed(seed)
    return t.randint(-8, 9, (parts * ROWS, 128), device="cuda").float()


def test_launches_of_any_grid_and_dtype_are_right(t):
    for parts in (1, 7, 132, 3, 1000, 2):
        a, c = whole(t, parts), t.zeros(128, device="cuda")
        for _ in range(5):
            column_sums[parts](a, c)
            assert t.equal(c, a.sum(0))
    a, c = np.ones((3 * ROWS, 128), np.float32), np.zeros(128, np.float32)
    column_sums[3](a, c)
    assert (c == 3 * ROWS).all()


def test_four_threads_on_four_streams(t):
    """Threads share streams: no launch sees another's scratch while it runs, also while blocks grow."""
    streams = [t.cuda.Stream() for _ in range(4)]
    inputs = {parts: whole(t, parts, parts) for parts in (1, 5, 40, 132, 300)}
    sums = {parts: a.sum(0) for parts, a in inputs.items()}
    t.cuda.synchronize()
    wrong, errors = [], []

    def work(seed):
        random = np.random.default_rng(seed)
        try:
            for _ in range(100):
                stream, parts = streams[random.integers(4)], int(random.choice(list(inputs)))
                with t.cuda.stream(stream):
                    results = [t.zeros(128, device="cuda") for _ in range(4)]
                    for c in results:
                        column_sums[parts](inputs[parts], c)
                    wrong.extend(parts for c in results if not t.equal(c, sums[parts]))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and not wrong


def test_a_block_grows_while_launches_are_in_flight(t):
    tj.release_scratch()
    stream, results = t.cuda.Stream(), []
    inputs = [whole(t, parts, parts) for parts in (1, 8, 64, 256, 700)]
    t.cuda.synchronize()
    with t.cuda.stream(stream):
        for a in [*inputs, *reversed(inputs)]:
            c = t.zeros(128, device="cuda")
            for _ in range(20):
                column_sums[a.shape[0] // ROWS](a, c)
            results.append((c, a))
    t.cuda.synchronize()
    assert all(t.equal(c, a.sum(0)) for c, a in results)


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_captured_launches_beside_eager_ones(t, mode):
    a, b = whole(t, 50, 1), whole(t, 300, 2)
    c, d = t.zeros(2, 128, device="cuda"), t.zeros(128, device="cuda")
    side = t.cuda.Stream()
    column_sums[50](a, d)
    t.cuda.synchronize()
    graphs = []
    for k in range(2):
        graph = t.cuda.CUDAGraph()
        with t.cuda.graph(graph, capture_error_mode=mode):
            for _ in range(3):
                column_sums[50](a, c[k])
            column_sums[60](whole_of(t, a), c[k])
            column_sums[50](a, c[k])
        graphs.append(graph)
    tj.release_scratch()
    for _ in range(50):
        # the two graphs and the eager launches run at the same time
        c.zero_()
        t.cuda.synchronize()
        with t.cuda.stream(side):
            graphs[0].replay()
        graphs[1].replay()
        for _ in range(3):
            column_sums[300](b, d)
        t.cuda.synchronize()
        assert t.equal(c[0], a.sum(0)) and t.equal(c[1], a.sum(0)) and t.equal(d, b.sum(0))


def whole_of(t, a):
    """Ten more parts of zeros after those of `a`; captured, as its result is not read by the last launch."""
    return t.cat([a, t.zeros(10 * ROWS, 128, device="cuda")])


def test_an_eager_launch_while_another_stream_is_captured(t):
    a, c, d = whole(t, 20), t.zeros(128, device="cuda"), t.zeros(128, device="cuda")
    side = t.cuda.Stream()
    t.cuda.synchronize()
    graph = t.cuda.CUDAGraph()
    with t.cuda.graph(graph, capture_error_mode="relaxed"):
        column_sums[20](a, c)
        with t.cuda.stream(side):
            column_sums[(20,), 128, side](a, d)
    side.synchronize()
    assert t.equal(d, a.sum(0)) and not c.any()
    graph.replay()
    t.cuda.synchronize()
    assert t.equal(c, a.sum(0))


def test_too_little_memory_launches_nothing_and_leaves_the_gpu_usable(t):
    a, c = whole(t, 2), t.full((128,), -1.0, device="cuda")
    with pytest.raises(tj.LaunchError, match=r"column_sums needs [\d,]+ bytes of scratch.*W of shape \(2, 68"):
        column_sums[2](a, c, width=1 << 36)
    t.cuda.synchronize()
    assert (c == -1).all()
    column_sums[2](a, c)
    assert t.equal(c, a.sum(0))


def test_a_checked_build_that_leaves_scratch_nonzero_is_an_error_and_later_launches_are_right(t):
    @tj.kernel(threads=32, debug=True)
    def leaves(A: tj.Tensor, n: tj.int32):
        Z = tj.scratch(4, tj.int32, zeroed=True)
        if tj.thread_id() == 0:
            A[0] = Z[3]
            Z[3] = n

    a = t.ones(4, device="cuda", dtype=t.int32)
    for _ in range(2):
        with pytest.raises(tj.DeviceCheckError, match="leaves left element 3 of Z nonzero"):
            leaves[1](a, 5)
        assert a[0] == 0
        leaves[1](a, 0)


def test_a_failed_assertion_has_scratch_cleared(t):
    @tj.kernel(threads=32, debug=True)
    def fails(A: tj.Tensor, n: tj.int32):
        Z = tj.scratch(4, tj.int32, zeroed=True)
        if tj.thread_id() == 0:
            A[0] = Z[3]
            Z[3] = n
            assert n == 0, "stops before Z is cleared"

    a = t.ones(4, device="cuda", dtype=t.int32)
    with pytest.raises(tj.DeviceAssertionError, match="stops before"):
        fails[1](a, 5)
    fails[1](a, 0)
    assert a[0] == 0


def test_release_gives_memory_back(t):
    a, c = whole(t, 2), t.zeros(128, device="cuda")
    column_sums[2](a, c, width=1 << 26)
    t.cuda.synchronize()
    before = t.cuda.mem_get_info()[0]
    tj.release_scratch()
    t.cuda.synchronize()
    assert t.cuda.mem_get_info()[0] > before
    column_sums[2](a, c)
    assert t.equal(c, a.sum(0))
