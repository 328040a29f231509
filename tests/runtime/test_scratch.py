"""Scratch of launches on a fake driver: blocks by stream and capture, growth, clearing, errors, and release."""

import threading

import numpy as np
import pytest

import tilejit as tj
from tests.support.foreign_arrays import Tensor
from tilejit.errors import DeviceCheckError, LaunchError

pytest.importorskip("cuda.bindings")

from tests.runtime.fake_driver import FakeDriver, forget_devices, install, real  # noqa: E402
from tests.runtime.test_cuda_calls import array_at  # noqa: E402
from tilejit.runtime import cuda, devices  # noqa: E402
from tilejit.runtime.arrays import facts_of, row_major  # noqa: E402
from tilejit.runtime.cuda_scratch import ScratchBlock, unpin  # noqa: E402
from tilejit.runtime.scratch import ALIGN_BYTES, ScratchLayout  # noqa: E402

OUT_OF_MEMORY = real.CUresult.CUDA_ERROR_OUT_OF_MEMORY


def word(address):
    return int(array_at(address, (1,), np.int64)[0])


def number_of(kernel, name):
    """The number of the parameter with the address of `name`, or of the record of assertions."""
    params = kernel.signatures[0].compiled.executable.params
    return [getattr(p, "of", "record") for p in params].index(name)


class ScratchDriver(FakeDriver):
    """Records allocations, and the addresses that are the first `words` parameters of each launch."""

    def __init__(self):
        super().__init__()
        self.seen = []
        self.kernel = self.note
        self.words = 1
        self.events = []

    def note(self, p):
        self.seen.append([word(p[n]) for n in range(self.words)])

    def cuMemAllocAsync(self, size, stream):
        if self.errors.get("cuMemAllocAsync"):
            return self.errors["cuMemAllocAsync"], 0
        self.events.append(("allocate", size, int(stream)))
        return super().cuMemAllocAsync(size, stream)

    def cuMemFreeAsync(self, pointer, stream):
        self.events.append(("free", pointer, stream))
        return super().cuMemFreeAsync(pointer, stream)


@pytest.fixture
def fake(monkeypatch):
    driver = install(ScratchDriver(), monkeypatch.setattr)
    forget_devices()
    monkeypatch.setattr(devices, "_used", {})
    monkeypatch.setattr(devices, "_has_driver", lambda: True)
    monkeypatch.delenv("TILEJIT_DEVICE", raising=False)
    driver.cuCtxPushCurrent(100)
    yield driver
    forget_devices()


@pytest.fixture
def pool(fake):
    return cuda.CudaDevice(0).scratch


def partial_sums():
    @tj.kernel(threads=32)
    def sums(A: tj.Tensor):
        W = tj.scratch((tj.num_ctas(0), 32), tj.float32)
        Z = tj.scratch(4, tj.int32, zeroed=True)
        W[tj.cta_id(0), tj.thread_id()] = A[tj.thread_id()]
        Z[tj.thread_id() % 4] = 0
        A[tj.thread_id()] = W[0, tj.thread_id()]

    return sums


def launched(fake, sums, grid, stream=0):
    """The addresses of W and Z that a launch received."""
    fake.words = 3
    sums[(grid,), 32, stream](Tensor(np.zeros(32, np.float32)))
    return fake.seen[-1][1:]


def test_launches_of_one_stream_share_blocks_and_streams_have_their_own(fake):
    sums = partial_sums()
    first = launched(fake, sums, 4, 5)
    assert fake.events == [("allocate", 512, 5), ("allocate", 256, 5)]
    assert [c for c in fake.calls if c[0] == "clear"] == [("clear", 256, 5)]
    assert (array_at(first[1], (4,), np.int32) == 0).all() and (array_at(first[0], (4,), np.uint8) == 0xFF).all()
    assert launched(fake, sums, 2, 5) == first and launched(fake, sums, 4, 5) == first
    other = launched(fake, sums, 4, 6)
    assert not set(other) & set(first) and launched(fake, sums, 4, 5) == first
    assert [c[0] for c in fake.calls].count("clear") == 2
    # another stream at the same handle
    fake.stream_ids[5] = 77
    assert not set(launched(fake, sums, 4, 5)) & {*first, *other}


def test_a_block_grows_on_its_stream_and_only_the_part_that_is_too_small(fake):
    sums = partial_sums()
    w, z = launched(fake, sums, 1, 5)
    fake.events.clear()
    wider, same = launched(fake, sums, 100, 5)
    assert fake.events == [("free", w, 5), ("allocate", 100 * 128, 5)] and same == z
    assert launched(fake, sums, 1, 5) == [wider, z] and w not in fake.memory and wider in fake.memory


def test_a_block_in_use_by_another_thread_is_freed_later(fake, pool):
    (block, _) = pool.pin(5, (256, 0))
    (larger, _) = pool.pin(5, (512, 0))
    assert block.pointer in fake.memory and larger is not block
    unpin([block, larger])
    unpin(pool.pin(5, (768, 0)))
    assert block.pointer not in fake.memory and larger.pointer not in fake.memory


def test_a_block_that_is_replaced_between_lookup_and_use_is_not_used(fake, pool, monkeypatch):
    unpin(pool.pin(5, (256, 0)))
    replaced = []

    class Users(list):
        def append(self, item):
            super().append(item)
            if not replaced:
                replaced.append(item)
                super().pop()
                unpin(pool.pin(5, (512, 0)))
                super().append(item)

    (old,) = pool._blocks.values()
    old.users = Users()
    (block, _) = pool.pin(5, (256, 0))
    assert replaced and block is not old and block.size == 512 and old.pointer not in fake.memory
    assert not old.users and block.pointer in fake.memory


def test_threads_on_one_stream_always_get_memory_that_is_theirs_until_they_unpin(fake, pool):
    failures = []

    def work(seed):
        random = np.random.default_rng(seed)
        for size in random.integers(1, 200, 200) * ALIGN_BYTES:
            blocks = pool.pin(5, (int(size), 256))
            if any(b.pointer not in fake.memory or b.size < s for b, s in zip(blocks, (size, 256), strict=True)):
                failures.append(size)
            unpin(blocks)
            if size % 7 == 0:
                pool.release()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    pool.release()
    assert not pool._blocks and not fake.memory


def test_a_capture_has_blocks_of_its_own_that_are_never_freed(fake):
    sums = partial_sums()
    eager = launched(fake, sums, 4, 5)
    fake.events.clear()
    fake.calls.clear()
    fake.capturing.add(5)
    captured = launched(fake, sums, 4, 5)
    # not on stream 5: that would be part of the graph
    assert fake.events == [("allocate", 512, 900), ("allocate", 256, 900)]
    assert [c for c in fake.calls if c[0] in ("clear", "stream synchronize")] == [
        ("stream synchronize", 900), ("clear", 256, 900), ("stream synchronize", 900)
    ]
    relaxed = real.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    assert [c[1] for c in fake.calls if c[0] == "capture mode"] == [relaxed, "previous"] * 2
    assert not set(captured) & set(eager) and launched(fake, sums, 4, 5) == captured
    wider = launched(fake, sums, 9, 5)
    fake.captures[5] = 2
    second = launched(fake, sums, 4, 5)
    fake.capturing.clear()
    assert launched(fake, sums, 4, 5) == eager
    assert len({*eager, *captured, *wider, *second}) == 7 and wider[1] == captured[1]
    tj.release_scratch()
    kept = {*captured, *wider, *second}
    assert kept <= set(fake.memory) and not set(eager) & set(fake.memory)
    assert not set(launched(fake, sums, 4, 5)) & kept


@pytest.mark.parametrize("captures", [False, True])
def test_without_memory_nothing_is_launched_and_the_error_says_what_was_needed(fake, captures):
    sums = partial_sums()
    launched(fake, sums, 1, 5)
    fake.errors["cuMemAllocAsync"] = OUT_OF_MEMORY
    if captures:
        fake.capturing.add(5)
    count = len(fake.seen)
    message = r"sums needs 128,256 bytes of scratch.*W of shape \(1000, 32\) and type float32, Z of shape \(4,\)"
    with pytest.raises(LaunchError, match=message) as error:
        launched(fake, sums, 1000, 5)
    assert error.value.span.text.strip().startswith("W = tj.scratch") and "release_scratch" in str(error.value)
    assert len(fake.seen) == count
    fake.errors.clear()
    launched(fake, sums, 1000, 5)
    assert len(fake.seen) == count + 1


def test_other_errors_of_the_driver_are_its_own(fake):
    fake.errors["cuMemAllocAsync"] = real.CUresult.CUDA_ERROR_NOT_SUPPORTED
    with pytest.raises(LaunchError, match="CUDA_ERROR_NOT_SUPPORTED from cuMemAllocAsync"):
        launched(fake, partial_sums(), 1, 5)


def test_a_launch_that_fails_has_the_zeroed_block_cleared(fake):
    sums = partial_sums()
    _, z = launched(fake, sums, 1, 5)
    launched(fake, sums, 1, 6)
    fake.calls.clear()
    fake.errors["cuLaunchKernel"] = real.CUresult.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(LaunchError, match="CUDA_ERROR_INVALID_VALUE"):
        launched(fake, sums, 1, 5)
    fake.errors.clear()
    assert launched(fake, sums, 1, 5)[1] == z and launched(fake, sums, 1, 6) and launched(fake, sums, 1, 5)
    assert [c for c in fake.calls if c[0] == "clear"] == [("clear", 256, 5)]


def test_a_failed_assertion_has_all_zeroed_blocks_cleared(fake):
    @tj.kernel(threads=32, debug=True)
    def positive(A: tj.Tensor):
        Z = tj.scratch(4, tj.int32, zeroed=True)
        assert A[tj.thread_id()] > 0, "positive"
        Z[tj.thread_id() % 4] = 0

    sums, a = partial_sums(), Tensor(np.zeros(32, np.float32))
    launched(fake, sums, 1, 5)
    positive.compile(a, target="sm_90a")
    number = number_of(positive, "record")

    def fail(p):
        array_at(word(p[number]), (1,), np.int32)[0] = 1

    fake.kernel = fail
    with pytest.raises(DeviceCheckError, match="index 0 is outside"):
        positive[(1,), 32, 6](a)
    fake.kernel = fake.note
    fake.calls.clear()
    launched(fake, sums, 1, 5)
    assert [c for c in fake.calls if c[0] == "clear"] == [("clear", 256, 5)]


def test_a_checked_build_finds_what_is_left_nonzero(fake):
    @tj.kernel(threads=32, debug=True)
    def counted(A: tj.Tensor):
        Z = tj.scratch(4, tj.int32, zeroed=True)
        A[tj.thread_id()] = 1
        Z[tj.thread_id() % 4] = 0

    a = Tensor(np.zeros(32, np.float32))
    counted.compile(a, target="sm_90a")
    z = number_of(counted, "Z")

    def leave(p):
        array_at(word(p[z]), (4,), np.int32)[2] = 7

    fake.kernel = lambda p: None
    counted[(1,), 32, 5](a)
    fake.kernel = leave
    with pytest.raises(DeviceCheckError, match="counted left element 2 of Z nonzero"):
        counted[(1,), 32, 5](a)
    fake.kernel = lambda p: None
    counted[(1,), 32, 5](a)
    fake.capturing.add(5)
    fake.kernel = leave
    counted[(1,), 32, 5](a)


def test_a_plain_build_is_not_waited_for(fake):
    sums = partial_sums()
    launched(fake, sums, 1, 5)
    assert not [c for c in fake.calls if "synchronize" in c[0]]


def test_host_arrays_prepared_launches_and_empty_grids(fake):
    sums, a = partial_sums(), np.zeros(32, np.float32)
    fake.words = 3
    sums[2](a)
    eager = fake.seen[-1][1:]
    prepared = sums[(2,), 32, 0].bind(Tensor(np.zeros(32, np.float32)))
    prepared()
    prepared()
    assert [each[1:] for each in fake.seen] == [eager] * 3
    count = len(fake.seen)
    sums[0](Tensor(np.zeros(32, np.float32)))
    assert len(fake.seen) == count


def test_release_frees_what_is_not_in_use_after_the_gpu_is_idle(fake, pool):
    (block, _) = pool.pin(5, (256, 0))
    unpin(pool.pin(6, (256, 0)))
    fake.calls.clear()
    pool.release()
    assert list(fake.memory) == [block.pointer]
    assert [c[0] for c in fake.calls] == ["capture mode", "synchronize", "capture mode"]
    unpin([block])
    pool.release()
    pool.release()
    assert not fake.memory and [c[0] for c in fake.calls].count("synchronize") == 2


def test_each_array_is_at_a_multiple_of_256_bytes_and_apart_from_the_others():
    facts = tuple([facts_of(tj.float32, (n,), row_major((n,)), 0) for n in (1, 64, 65, 0)])
    layout = ScratchLayout(tuple(zip(facts, (0, 1, 0, 0), (0, 0, 256, 768), strict=True)), (768, 256))
    blocks = ScratchBlock(1024, 768), ScratchBlock(4096, 256)
    assert [v.pointer for v in layout.views(blocks)] == [1024, 4096, 1280, 1792]
