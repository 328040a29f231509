"""What generated launchers check, when they fall back to the slow path, and their text."""

import dis
import gc
import itertools
import linecache
import random
import sys
import threading
import traceback
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

import tilejit as tj
from tilejit.errors import LaunchError
from tilejit.runtime.fast_launch import memory

pytest.importorskip("cuda.bindings")

from tests.runtime.fake_driver import forget_devices  # noqa: E402
from tests.runtime.fast_launch.recording import (  # noqa: E402
    TensorGuards,
    TorchTensor,
    installed,
    is_quick,
    outcome,
    pair,
    tensor,
    torch_of,
)

HERE = sys.modules[__name__]
STEP, OTHER = 3, 4


def add(A: tj.Tensor, B: tj.Tensor, n: tj.int32):
    if n > 1_000_000:
        A[0, 0] = B[0, 0] + n + STEP


def warm(launch):
    for _ in range(4):
        launch()


def is_the_same(driver, quick, usual, *args, grid=4):
    results = [outcome(driver, lambda k=k: k[grid](*args)) for k in (quick, usual)]
    assert results[0] == results[1]
    return results[0]


def test_a_launch_that_compiles_makes_no_launcher(driver):
    quick, _ = pair(driver, add)
    for dtype in (np.float32, np.float64, np.int32):
        a, b = tensor(4, 8, dtype=dtype), tensor(4, 8, dtype=dtype)
        quick[4](a, b, 1)
        assert quick.generated.find((a, b, 1), {}) is None
    quick[4](a, b, 1)
    assert quick.generated.find((a, b, 1), {}) is not None


def test_a_captured_value_that_changes_is_seen_and_an_old_one_is_quick_again(driver, monkeypatch):
    quick, usual = pair(driver, add)
    a, b = tensor(4, 8), tensor(4, 8)
    seen = []
    for value in (3, 5, 3, 5, 7, 3):
        monkeypatch.setattr(HERE, "STEP", value)
        seen += [is_the_same(driver, quick, usual, a, b, 1)[0][-2] for _ in range(4)]
        assert is_quick(monkeypatch, quick, lambda: quick[4](a, b, 1))
        driver.taken()
    assert [len(set(group)) for group in zip(*[iter(seen)] * 4, strict=True)] == [1] * 6
    assert seen[0] == seen[8] == seen[20] != seen[4] == seen[12] != seen[16]


def test_captured_values_that_change_while_threads_launch(driver, monkeypatch):
    """Each launch runs what was compiled for one of the values that there were meanwhile."""
    monkeypatch.setattr(HERE, "STEP", 3)
    quick, _ = pair(driver, add)
    arrays = [[tensor(4 + n, 8), tensor(4 + n, 8)] for n in range(4)]
    ptx = {}
    for value in (3, 5, 7):
        HERE.STEP = value
        for a, b in arrays:
            warm(lambda a=a, b=b: quick[4](a, b, 0))
        ptx[value] = {launch[-2] for launch in driver.taken()}
        assert len(ptx[value]) == 1
    turns, failures = [threading.Event() for _ in range(4)], []

    def work(n):
        try:
            for i in range(300):
                value = HERE.STEP
                quick[4](*arrays[n], n)
                if value == HERE.STEP == 3 and i % 50 == 0:
                    turns[n].set()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    r = random.Random(3)
    while any(t.is_alive() for t in threads):
        HERE.STEP = r.choice([3, 5, 7])
    assert not failures
    assert {launch[-2] for launch in driver.taken()} <= set().union(*ptx.values())
    for value, texts in ptx.items():
        HERE.STEP = value
        for a, b in arrays:
            for _ in range(3):
                quick[4](a, b, 1)
        assert {launch[-2] for launch in driver.taken()} == texts


def make_closed():
    amount = 1

    def closed(A: tj.Tensor):
        A[0] = amount

    def change(value):
        nonlocal amount
        if value is None:
            del amount
        else:
            amount = value

    return closed, change


def test_a_closure_cell_that_changes_or_is_emptied_is_seen(driver, monkeypatch):
    function, change = make_closed()
    quick, usual = pair(driver, function)
    a = tensor(8)
    for value in (1, 2, 1, None, 2):
        change(value)
        for _ in range(4):
            is_the_same(driver, quick, usual, a)
        if value is not None:
            assert is_quick(monkeypatch, quick, lambda: quick[4](a))
            driver.taken()


@tj.function
def one_of_them():
    return STEP


@tj.function
def the_other():
    return OTHER


chosen = one_of_them


def by_helper(A: tj.Tensor):
    A[0] = chosen()


def test_a_helper_that_reads_from_elsewhere_gets_its_own_function(driver, monkeypatch):
    quick, usual = pair(driver, by_helper)
    a = tensor(8)
    for turn in range(3):
        for helper, name in ((one_of_them, "STEP"), (the_other, "OTHER")):
            monkeypatch.setattr(HERE, "chosen", helper)
            for value in (3, 4):
                monkeypatch.setattr(HERE, name, value)
                for _ in range(4):
                    is_the_same(driver, quick, usual, a)
                assert is_quick(monkeypatch, quick, lambda: quick[4](a)), (turn, name)
                driver.taken()
    assert len(quick.generated._all) == 2


def test_a_number_that_changes_in_place_takes_the_slow_path(driver, monkeypatch):
    quick, usual = pair(driver, add)
    a, b = tensor(4, 8), tensor(4, 8)
    warm(lambda: quick[4](a, b, 1))
    monkeypatch.setattr(HERE, "STEP", np.array(9))
    for value in (9, 8, 9):
        HERE.STEP[()] = value
        for _ in range(3):
            is_the_same(driver, quick, usual, a, b, 1)
    assert not is_quick(monkeypatch, quick, lambda: quick[4](a, b, 1))



@pytest.mark.parametrize("place", ["cuda", "cuda:0", "cuda:1"])
def test_a_device_that_is_asked_for_by_name_is_no_reason_to_go_back(driver, monkeypatch, place):
    quick, _ = pair(driver, add)
    a, b = tensor(4, 8), tensor(4, 8)
    warm(lambda: quick[4](a, b, 1))
    with tj.use_device(place):
        assert is_quick(monkeypatch, quick, lambda: quick[4](a, b, 1))


def test_the_simulator_is_refused(driver):
    quick, usual = pair(driver, add)
    a, b = tensor(4, 8), tensor(4, 8)
    warm(lambda: quick[4](a, b, 1))
    with tj.use_device("sim"):
        kind, message, *_ = is_the_same(driver, quick, usual, a, b, 1)
    assert kind is LaunchError and "the simulator can't read a GPU's memory" in message


@pytest.mark.parametrize("raw", [True, False])
def test_the_stream_is_asked_at_each_launch(monkeypatch, raw):
    torch = torch_of(guards=False, raw=raw)
    driver = installed(monkeypatch, torch)
    quick, usual = pair(driver, add)
    a, b = tensor(4, 8, device="cuda:1"), tensor(4, 8, device="cuda:1")
    warm(lambda: quick[4](a, b, 1))
    for handle in (5, 6, 5):
        torch.cuda.streams[1] = handle
        assert is_quick(monkeypatch, quick, lambda: quick[4](a, b, 1))
        assert driver.taken()[-1][3] == handle
    stream = SimpleNamespace(cuda_stream=12, is_closed=False)
    grid = (4,), 32, stream
    assert is_the_same(driver, quick, usual, a, b, 1, grid=grid)[0][3] == 12
    stream.cuda_stream = 13
    assert is_quick(monkeypatch, quick, lambda: quick[grid](a, b, 1)) and driver.taken()[-1][3] == 13
    stream.is_closed = True
    assert is_the_same(driver, quick, usual, a, b, 1, grid=grid)[:1] == (LaunchError,)
    forget_devices()


def test_a_thread_without_a_context_gets_it_and_is_quick_again(driver, monkeypatch):
    quick, _ = pair(driver, add)
    a, b = tensor(4, 8), tensor(4, 8)
    bound = quick[4].bind(a, b, 2)
    warm(lambda: quick[4](a, b, 1))
    bound()
    for launch in (lambda: quick[4](a, b, 1), bound):
        del driver.contexts[:], driver.calls[:], driver.launches[:]
        launch()
        assert [c[0] for c in driver.calls] == ["refused", "launch"] and driver.contexts == [100]
        assert len(driver.taken()) == 1
    assert is_quick(monkeypatch, quick, lambda: quick[4](a, b, 1))
    assert driver.calls[-2][0] == "launch", "it needn't ask again"


def test_another_context_stays_current_and_the_driver_is_not_tried_in_vain_for_ever(driver, monkeypatch):
    quick, usual = pair(driver, add)
    a, b = tensor(4, 8, device="cuda:1"), tensor(4, 8, device="cuda:1")
    warm(lambda: quick[4](a, b, 1))
    for _ in range(4):
        driver.contexts[:] = [100]
        is_the_same(driver, quick, usual, a, b, 1)
        assert driver.contexts == [100]
    del driver.calls[:]
    assert is_quick(monkeypatch, quick, lambda: quick[4](a, b, 1))
    assert [c[0] for c in driver.calls] == ["launch"] and driver.contexts == [100]


def test_a_launch_that_the_driver_refuses_says_what_it_always_said(driver):
    quick, usual = pair(driver, add)
    a, b = tensor(4, 8), tensor(4, 8)
    warm(lambda: quick[4](a, b, 1))
    driver.errors["cuLaunchKernel"] = driver.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    for _ in range(3):
        kind, message, *_ = is_the_same(driver, quick, usual, a, b, 1)
        assert kind is LaunchError and "CUDA_ERROR_ILLEGAL_ADDRESS from cuLaunchKernel" in message
    del driver.errors["cuLaunchKernel"]
    assert len(is_the_same(driver, quick, usual, a, b, 1)) == 1


def floats(A: tj.Tensor, h: tj.float16, w: tj.bfloat16, e: tj.float8_e5m2, s: tj.float32, d: tj.float64, n=1.0):
    if s > 1_000_000.0:
        A[0, 0] = tj.float32(h) + tj.float32(w) + tj.float32(e) + s + tj.float32(d) + tj.float32(n)


@pytest.mark.parametrize("kind", [float, np.float16, np.float32, np.float64])
def test_numbers_that_are_not_finite_are_no_reason_to_go_back(driver, monkeypatch, kind):
    quick, usual = pair(driver, floats)
    a = tensor(4, 8)
    warm(lambda: quick[4](a, *[kind(1)] * 6))
    for value in ("nan", "-nan", "inf", "-inf", "-0.0"):
        for place in range(6):
            arguments = [kind(value if n == place else 1) for n in range(6)]
            is_the_same(driver, quick, usual, a, *arguments)
            assert is_quick(monkeypatch, quick, lambda given=arguments: quick[4](a, *given)), (value, place)


def test_a_refused_launch_asks_the_grid_function_once(driver):
    quick, _ = pair(driver, add)
    a, b, asked = tensor(4, 8), tensor(4, 8), []

    def grid(launch):
        asked.append(launch)
        return 5

    kept = quick[grid]
    warm(lambda: kept(a, b, 1))
    del driver.contexts[:], asked[:], driver.launches[:]
    kept(a, b, 1)
    assert len(asked) == 1 and driver.taken()[0][0] == (5, 1, 1)


def test_a_grid_that_is_not_whole_clusters_is_refused_by_each_launcher(driver):
    quick, usual = pair(driver, add, cluster=2)
    a, b = tensor(4, 8), tensor(4, 8)
    warm(lambda: quick[4](a, b, 1))
    kind, message, *_ = is_the_same(driver, quick, usual, a, b, 1, grid=3)
    assert kind is LaunchError and "is not a multiple of the cluster" in message
    kind, message, *_ = is_the_same(driver, quick, usual, a, b, 1, grid=lambda a: 5)
    assert kind is LaunchError and "is not a multiple of the cluster" in message



def test_a_grid_function_may_launch_the_same_kernel(driver):
    quick, usual = pair(driver, add)
    a, b = tensor(4, 8), tensor(4, 8)
    depth = itertools.count()

    def grid(launch):
        if launch["n"] < 3:
            quick[grid](launch["B"], launch["A"], launch["n"] + 1)
        next(depth)
        return launch["n"] + 1

    warm(lambda: quick[4](a, b, 1))
    quick[grid](a, b, 0)
    launches = driver.taken()[-4:]
    for n, launch in zip((3, 2, 1, 0), launches, strict=True):
        x, y = (b, a) if n % 2 else (a, b)
        usual[n + 1](x, y, n)
        assert driver.taken() == [launch]


def test_a_finalizer_may_launch_the_same_kernel(driver):
    a, b, held = tensor(4, 8), tensor(4, 8), []

    def finish():
        quick[4](b, a, 2)

    launch = driver.cuLaunchKernel

    def launching(*args):
        if held:
            held.pop()
            gc.collect()
        return launch(*args)

    driver.cuLaunchKernel = launching
    quick, _ = pair(driver, add)
    for _ in range(4):
        quick[4](a, b, 1)
    victim = TorchTensor(np.zeros(1))
    weakref.finalize(victim, finish)
    held.append(victim)
    del victim
    driver.taken()
    quick[4](a, b, 7)
    first, second = driver.taken()
    assert first[-1][-1] == (2).to_bytes(4, "little") and second[-1][-1] == (7).to_bytes(4, "little")


def test_arguments_are_not_kept_alive(driver):
    quick, _ = pair(driver, add)
    b, dead = tensor(4, 8), []
    for n in range(6):
        a = tensor(4 + n % 2, 8)
        dead.append(weakref.ref(a))
        quick[4](a, b, 1)
    del a
    gc.collect()
    assert not any(ref() for ref in dead)


def test_slots_are_given_back(driver):
    quick, _ = pair(driver, add)
    a, b = tensor(4, 8), tensor(4, 8)
    warm(lambda: quick[4](a, b, 1))
    ((table, _),) = quick.memory._tables.values()
    entry = next(iter(table.values()))
    pool = entry[-4].__self__ if hasattr(entry[-4], "__self__") else None
    assert isinstance(pool, list)
    (slot,) = pool
    for value in (1, 2**31, 2, "x"):
        outcome(driver, lambda value=value: quick[4](a, b, value))
        assert len(pool) == 1 and pool[0] is slot, value
    fails = quick[lambda launch: 1 // 0]
    for _ in range(3):
        outcome(driver, lambda: fails(a, b, 1))
    warm(lambda: quick[4](a, b, 1))
    assert len(pool) == 1



def test_a_shape_that_never_comes_back_is_not_remembered(driver, monkeypatch):
    monkeypatch.setattr(memory, "_FIRST_KEYS", 4)
    quick, usual = pair(driver, add)
    arrays = [tensor(2 + n, 8) for n in range(12)]
    for _ in range(4):
        quick[4](arrays[0], arrays[0], 1)
    for a in arrays[1:]:
        is_the_same(driver, quick, usual, a, a, 1)
    ((table, _),) = quick.memory._tables.values()
    assert len(table) < 8 < len(arrays)
    for a in arrays[1:]:
        is_the_same(driver, quick, usual, a, a, 1)
    assert all(is_quick(monkeypatch, quick, lambda a=a: quick[4](a, a, 1)) for a in arrays)


def test_a_full_memory_begins_again(driver, monkeypatch):
    for name, limit in (("_FIRST_KEYS", 1), ("_ENTRIES", 3), ("_SEEN", 2), ("_TABLES", 2)):
        monkeypatch.setattr(memory, name, limit)
    quick, usual = pair(driver, add)
    arrays = [tensor(2 + n, 8) for n in range(7)]
    for turn in range(12):
        monkeypatch.setattr(HERE, "STEP", turn % 4)
        for a in arrays:
            is_the_same(driver, quick, usual, a, a, turn)
    assert len(quick.memory._tables) <= 2 and all(len(t) <= 4 for t, _ in quick.memory._tables.values())


def test_with_and_without_torchs_guards_the_same_is_launched(monkeypatch):
    results = []
    for has_guards in (True, False):
        driver = installed(monkeypatch, torch_of(guards=has_guards))
        quick, _ = pair(driver, add)
        TensorGuards.made = 0
        arrays = [*(tensor(4, 8) for _ in range(3)), tensor(8, 8), tensor(4, 8, offset=1)]
        for turn in range(40):
            r = random.Random(turn)
            quick[4](r.choice(arrays), r.choice(arrays), turn)
        launches = [(*launch[:-1], launch[-1][2:]) for launch in driver.taken()]
        results.append(launches)
        assert bool(TensorGuards.made) == has_guards == memory.has_guards()
        forget_devices()
    assert results[0] == results[1]


@pytest.mark.parametrize("broken", ["init", "check"])
def test_guards_that_want_something_else_are_not_used(monkeypatch, broken):
    class Changed(TensorGuards):
        def __init__(self, *tensors, **options):
            if broken == "init":
                raise TypeError("missing something=...")

        def check(self, *tensors):
            return "yes"

    torch = torch_of(guards=True)
    torch._C._dynamo.guards.TensorGuards = Changed
    driver = installed(monkeypatch, torch)
    quick, usual = pair(driver, add)
    a, b = tensor(4, 8), tensor(8, 8)
    for turn in range(6):
        is_the_same(driver, quick, usual, a if turn % 2 else b, b, turn)
    assert is_quick(monkeypatch, quick, lambda: quick[4](a, b, 1))
    forget_devices()



def test_bound_launches_are_the_same(driver, monkeypatch):
    quick, usual = pair(driver, add)
    a, b, c = tensor(4, 8), tensor(4, 8), tensor(16, 8)
    bound = [k[4].bind(a, b, 1) for k in (quick, usual)]

    def same(*args):
        results = [outcome(driver, lambda p=p: p(*args)) for p in bound]
        assert results[0] == results[1]
        return results[0]

    for turn in range(6):
        for args in ((), (b, a, turn), (), (c, a, turn), (a, a, 1), (a, b), (a, b, 2**40), (a, b, 1, 2), ("a", b, 1)):
            same(*args)
    driver.taken()
    assert is_quick(monkeypatch, quick, bound[0])
    assert is_quick(monkeypatch, quick, lambda: bound[0](c, a, 9))
    monkeypatch.setattr(HERE, "STEP", 11)
    for args in ((), (c, a, 3), (), (c, a, 3), (c, a, 4)):
        assert len(same(*args)) == 1


def scaled(A: tj.Tensor, K: tj.constexpr, n: tj.int32):
    if n > 1_000_000:
        A[0, 0] = K + n


def test_a_bound_launch_takes_arguments_without_its_constexprs(driver, monkeypatch):
    quick, usual = pair(driver, scaled)
    a, b = tensor(4, 8), tensor(4, 8)
    p, q = (k[4].bind(a, 5, 1) for k in (quick, usual))
    for turn in range(6):
        for args in ((b, turn), (b, 5, turn), (b, 6, turn), ()):
            assert outcome(driver, lambda args=args: p(*args)) == outcome(driver, lambda args=args: q(*args))
    assert is_quick(monkeypatch, quick, lambda: p(b, 3))


def test_a_bound_launch_asks_for_the_stream_each_time(driver, torch):
    quick, _ = pair(driver, add)
    bound = quick[4].bind(tensor(4, 8), tensor(4, 8), 1)
    for handle in (5, 6, 5, 7):
        torch.cuda.streams[0] = handle
        bound()
        assert driver.taken()[0][3] == handle


def test_what_other_threads_bind_is_not_mixed_up(driver):
    quick, _ = pair(driver, add)
    arrays = [tensor(4, 8) for _ in range(8)]
    bound = [quick[4].bind(a, a, n) for n, a in enumerate(arrays)]
    driver.taken()
    threads = [threading.Thread(target=lambda p=p: [p() for _ in range(200)]) for p in bound]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    seen = {(launch[-1][0], launch[-1][-1]) for launch in driver.taken()}
    assert seen == {(a.data_ptr().to_bytes(8, "little"), n.to_bytes(4, "little")) for n, a in enumerate(arrays)}



def test_our_own_arrays(driver, monkeypatch):
    quick, usual = pair(driver, add)
    a, b, c = tj.empty((4, 8), tj.float32), tj.empty((4, 8), tj.float32), tj.empty((8, 8), tj.float32)
    for turn in range(6):
        for args in ((a, b, turn), (c, b, turn), (a, a, turn), (tensor(4, 8), b, turn), (a, tensor(4, 8), turn)):
            is_the_same(driver, quick, usual, *args)
    assert all(is_quick(monkeypatch, quick, lambda x=x: quick[4](x, b, 1)) for x in (a, b, c, tensor(4, 8)))
    bound = quick[4].bind(a, b, 1)
    bound()
    b.free()
    driver.taken()
    results = [outcome(driver, lambda k=k: k[4](a, b, 1)) for k in (quick, usual)]
    assert results[0] == results[1] and "was freed" in results[0][1]
    assert "was freed" in outcome(driver, bound)[1]


def boxes(A: tj.Tensor, n: tj.int32, B: tj.Tensor, h: tj.float16):
    s, full = tj.alloc_shared((8, 8), A.dtype), tj.alloc_barrier()
    if n > 0:
        tj.warp.copy_async(s, A[0:8, 0:8], barrier=full)
        tj.warp.arrive(full)
        full.wait(0)
        tj.warp.copy_async(B[n : n + 8, 0:8], s)
        tj.warp.copy_async(A[n : n + 8, 0:8], s)
        tj.bulk.wait(0)
        B[0, 0] = A[0, 0] * h


def test_tensor_maps_are_those_of_the_arrays_of_each_launch(driver, monkeypatch):
    quick, usual = pair(driver, boxes, threads=32)
    tensors = [tensor(16, 8), tensor(16, 8), tensor(32, 8), tensor(16, 8, offset=16)]
    for a, b in [(0, 1)] * 4 + [(1, 0), (2, 1), (2, 1), (2, 0), (3, 2), (3, 2), (0, 1)]:
        is_the_same(driver, quick, usual, tensors[a], 1, tensors[b], 2.0)
    assert is_quick(monkeypatch, quick, lambda: quick[4](tensors[1], 1, tensors[0], 2.0))
    ready = quick[4].bind(tensors[0], 1, tensors[1], 2.0)
    driver.taken()
    ready()
    usual[4](tensors[0], 1, tensors[1], 2.0)
    first, second = driver.taken()
    assert first == second and [len(held) for held in first[-1]].count(128) == 2


@pytest.mark.parametrize("other", [lambda: tensor(4, 8), lambda: tj.empty((4, 8), tj.float32)], ids=["torch", "ours"])
def test_a_negative_bit_is_refused_however_often_such_arrays_were_launched(driver, monkeypatch, other):
    quick, usual = pair(driver, add)
    a, b = tensor(4, 8), other()
    bound = quick[4].bind(a, b, 1)
    for n in range(6):
        for args in ((a, b), (b, a)):
            is_the_same(driver, quick, usual, *args, n)
        bound(a, b, n)
        a.negative = True
        for args in ((a, b), (b, a), (a, a)):
            kind, message, launched, *_ = is_the_same(driver, quick, usual, *args, n)
            assert kind is LaunchError and "resolve_neg" in message and not launched
        with pytest.raises(LaunchError, match="resolve_neg"):
            bound(a, b, n)
        a.negative = False
    assert is_quick(monkeypatch, quick, lambda: quick[4](a, b, 1))


@pytest.mark.parametrize("aligned", [True, False])
def test_a_tensor_without_memory_is_refused_however_often_such_were_launched(driver, monkeypatch, aligned):
    quick, usual = pair(driver, add)
    a, b, c, none = tensor(4, 8), tensor(4, 8), tensor(4, 8, offset=1 - aligned), tensor(0, 8)
    none.is_freed = True
    for n in range(6):
        for args in ((a, b), (b, a), (a, c), (c, a), (none, c), (c, none), (none, none)):
            assert type(is_the_same(driver, quick, usual, *args, n)) is list
        a.is_freed = True
        for args in ((a, b), (b, a), (a, c), (c, a), (a, none)):
            kind, message, launched, *_ = is_the_same(driver, quick, usual, *args, n)
            assert kind is LaunchError and "it has no memory" in message and not launched
        a.is_freed = False
    assert is_quick(monkeypatch, quick, lambda: quick[4](a, c, 1))
    # no memory is right for arrays without elements
    assert is_quick(monkeypatch, quick, lambda: quick[4](none, c, 1))


class CupyArray:
    """A mock of CuPy's array."""

    runtime = SimpleNamespace(device=0)
    streams = {0: 0, 1: 30}

    def __init__(self, array, device=0):
        self.array, self.shape, self.strides, self.dtype = array, array.shape, array.strides, array.dtype
        self.data = SimpleNamespace(ptr=array.ctypes.data, device_id=device)
        self.device = SimpleNamespace(id=device)

    @property
    def __cuda_array_interface__(self):
        stream = self.streams[self.runtime.device] or 1
        strides = None if self.array.flags.c_contiguous else self.strides
        data = (self.data.ptr, False)
        return {"data": data, "shape": self.shape, "typestr": self.dtype.str, "strides": strides, "stream": stream}


def cupy_of():
    def current(ordinal):
        return SimpleNamespace(ptr=CupyArray.streams[ordinal])

    runtime = SimpleNamespace(getDevice=lambda: CupyArray.runtime.device)
    return SimpleNamespace(ndarray=CupyArray, cuda=SimpleNamespace(get_current_stream=current, runtime=runtime))


def test_cupys_arrays_and_the_stream_that_they_name(driver, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", cupy_of())
    monkeypatch.setattr(CupyArray, "streams", {0: 0, 1: 30})
    quick, usual = pair(driver, add)
    memory_of = np.zeros((16, 128), np.float32)
    a, b, c = (CupyArray(memory_of[n : n + 4, 8 * n : 8 * n + 8]) for n in (0, 5, 10))
    d, e = CupyArray(tensor(4, 8).array), CupyArray(tensor(8, 4).array.T)

    def same(*args, grid=4):
        calls = []
        for k in (quick, usual):
            del driver.calls[:]
            calls.append((outcome(driver, lambda k=k: k[grid](*args)), driver.calls[:]))
        assert calls[0] == calls[1]

    for handle in (0, 20, 2, 1, 0):
        CupyArray.streams[0] = handle
        for _ in range(5):
            for args in ((a, b, 1), (b, c, 2), (d, e, 3), (d, d, 4), (tensor(4, 8), d, 5), (d, tensor(4, 8), 6)):
                same(*args)
        same(a, b, 1, grid=((4,), 32, 9))
        CupyArray.runtime.device = 1
        same(a, b, 1)
        CupyArray.runtime.device = 0
    assert all(is_quick(monkeypatch, quick, lambda p=p: quick[4](*p, 1)) for p in ((a, b), (b, c), (d, e), (d, d)))
    bound = quick[4].bind(a, b, 1)
    assert is_quick(monkeypatch, quick, bound)


class Sharding(int):
    """Where an array of JAX's lies: on the device of this number."""

    @property
    def device_set(self):
        return [SimpleNamespace(id=int(self))]


class JaxArray:
    """A mock of JAX's array: read-only, and its sharding names its device."""

    def __init__(self, array):
        self.array, self.dtype, self.device = array, array.dtype, SimpleNamespace(id=0)
        self.sharding, self.is_gone = Sharding(0), False

    def is_deleted(self):
        return self.is_gone

    @property
    def __cuda_array_interface__(self):
        if self.is_gone:
            raise RuntimeError("Array has been deleted")
        data = (self.array.ctypes.data, True)
        return {"data": data, "shape": self.array.shape, "typestr": self.array.dtype.str, "version": 2}


def test_jaxs_arrays_are_read_by_their_interface(driver, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(Array=JaxArray))
    quick, usual = pair(driver, add)
    out = tj.empty((4, 8), tj.float32)
    arrays = [JaxArray(tensor(n, 8, dtype=t).array) for n, t in ((4, np.float32), (8, np.float32), (4, np.int32))]
    for turn in range(5):
        for a in arrays:
            is_the_same(driver, quick, usual, out, a, turn)
    assert all(is_quick(monkeypatch, quick, lambda a=a: quick[4](out, a, 1)) for a in arrays)
    driver.taken()
    kind, message, *_ = is_the_same(driver, quick, usual, arrays[0], out, 1)
    assert kind is LaunchError and "read-only" in message
    arrays[0].is_gone = True
    assert is_the_same(driver, quick, usual, out, arrays[0], 1)[0] is LaunchError


def test_a_bound_launch_refuses_what_was_deleted_or_freed(driver, monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(Array=JaxArray))
    for function, options in ((add, {}), (syncing, {"cooperative": True})):
        for owner in (lambda: tensor(4, 8), lambda: np.zeros((4, 8), np.float32)):
            quick, _ = pair(driver, function, **options)
            out, jax = tj.empty((4, 8), tj.float32), JaxArray(tensor(4, 8).array)
            of_ours, of_jax = quick[4].bind(out, owner(), 1), quick[4].bind(owner(), jax, 1)
            for bound in (of_ours, of_jax):
                assert type(outcome(driver, bound)) is list and type(outcome(driver, bound)) is list
            out.free()
            jax.is_gone = True
            for bound, words in ((of_ours, "was freed"), (of_jax, "it has been deleted")):
                kind, message, launched, *_ = outcome(driver, bound)
                assert kind is LaunchError and words in message and not launched


def anywhere(A: tj.Tensor, B: tj.Tensor, n: tj.int32):
    A[tj.cta_id(0) + tj.cta_id(1), 0] = B[0, 0] + n


@pytest.mark.parametrize("stream", [None, 7])
def test_a_grid_without_ctas_launches_nothing(driver, monkeypatch, stream):
    quick, usual = pair(driver, anywhere)
    driver.capturing.add(7)
    a, b = tensor(4, 8), tensor(4, 8)
    grids = [0, (4, 0), lambda m: m.n - 1, lambda m: (2, m.n - 1)]
    launchers = [(k, k[(g,) if g == 0 else g, 32, stream]) for g in grids for k in (quick, usual)]
    for turn in range(5):
        for k, launcher in launchers:
            assert outcome(driver, lambda launcher=launcher: launcher(a, b, 1)) == []
            kind, message, *_ = outcome(driver, lambda launcher=launcher: launcher(a, b, 2**40))
            assert kind is LaunchError and "holds" in message
            k[(4,), 32, stream](a, b, turn)
            assert len(driver.taken()) == 1
    for k in (quick, usual):
        for grid in grids:
            bound = k[(grid,) if grid == 0 else grid, 32, stream].bind(a, b, 1)
            for _ in range(4):
                assert outcome(driver, bound) == outcome(driver, lambda bound=bound: bound(b, a, 1)) == []
            fresh = tj.empty((4, 8), tj.float32)
            bound = k[(grid,) if grid == 0 else grid, 32, stream].bind(fresh, b, 1)
            fresh.free()
            assert outcome(driver, bound)[0] is LaunchError
    driver.taken()
    assert is_quick(monkeypatch, quick, lambda: quick[(4,), 32, stream](a, b, 1)) and len(driver.taken()) == 1


def test_a_tuned_kernel_remembers_no_launch_without_ctas(driver, monkeypatch):
    @tj.autotune(configs=[tj.Config({"B": 32}), tj.Config({"B": 64})], key=[])
    @tj.kernel(threads=32)
    def k(A: tj.Tensor, n: tj.int32, B: tj.constexpr):
        A[tj.cta_id(0), 0] = n + B

    driver.kernels.append(k)
    a = tensor(4, 8)
    for _ in range(5):
        k[lambda m: m.n](a, 0)
    assert not k.tuning and not driver.taken()
    k[4](a, 0)
    assert len(k.tuning) == 1
    warm(lambda: k[4](a, 0))
    driver.taken()
    assert is_quick(monkeypatch, k.kernel, lambda: k[4](a, 0)) and len(driver.taken()) == 1
    k[0](a, 0)
    assert not driver.taken()


def syncing(A: tj.Tensor, B: tj.Tensor, n: tj.int32):
    if n > 1_000_000:
        A[0, 0] = B[0, 0]
    tj.grid_sync()


def test_launches_that_wait_for_their_grid_take_the_slow_path(driver, monkeypatch):
    quick, _ = pair(driver, syncing, cooperative=True)
    a, b = tensor(4, 8), tensor(4, 8)
    warm(lambda: quick[4](a, b, 1))
    assert not is_quick(monkeypatch, quick, lambda: quick[4](a, b, 1))


def checked(A: tj.Tensor, B: tj.Tensor, n: tj.int32):
    assert n < 7
    A[n, 0] = B[0, n]


def test_a_checked_build_gets_its_record(driver, monkeypatch):
    quick, usual = pair(driver, checked, debug=True)
    a, b = tensor(4, 8), tensor(4, 8)
    for turn in range(5):
        quick[4](a, b, turn)
    ((parameters, *_),) = [[launch[-1] for launch in driver.taken()[-1:]]]
    usual[4](a, b, 4)
    ((*expected,),) = [launch[-1] for launch in driver.taken()]
    # each of the two kernels has a record of its own
    differ = [n for n, (x, y) in enumerate(zip(parameters, expected, strict=True)) if x != y]
    assert len(differ) == 1 and is_quick(monkeypatch, quick, lambda: quick[4](a, b, 1))


def test_arrays_in_host_memory_and_unknown_ones_take_the_slow_path(driver, monkeypatch):
    quick, _ = pair(driver, add)

    class Unknown:
        def __init__(self, inner):
            self.inner = inner

        def __getattr__(self, name):
            return getattr(self.inner, name)

    for make in (lambda: np.zeros((4, 8), np.float32), lambda: Unknown(tensor(4, 8))):
        a, b = make(), make()
        warm(lambda a=a, b=b: quick[4](a, b, 1))
        assert not is_quick(monkeypatch, quick, lambda a=a, b=b: quick[4](a, b, 1))


def test_the_simulators_arrays_take_the_slow_path(driver, monkeypatch):
    quick, _ = pair(driver, add)
    on_gpu = [tj.empty((4, 8), tj.float32) for _ in range(2)]
    warm(lambda: quick[1](*on_gpu, 1))
    with tj.use_device("sim"):
        on_sim = [tj.to_device(np.zeros((4, 8), np.float32)) for _ in range(2)]
    for _ in range(5):
        quick[1](*on_sim, 1)
    assert not is_quick(monkeypatch, quick, lambda: quick[1](*on_sim, 1))
    assert is_quick(monkeypatch, quick, lambda: quick[1](*on_gpu, 1))



def awkward(_self: tj.Tensor, type: tj.Tensor, __p0: tj.int32, key: tj.constexpr = "s"):
    if __p0 > 1_000_000:
        _self[0, 0] = type[0, 0] + __p0


def test_parameters_may_have_any_name(driver, monkeypatch):
    quick, usual = pair(driver, awkward)
    a, b = tensor(4, 8), tensor(4, 8)
    for turn in range(5):
        by_name = {"_self": a, "type": b, "__p0": 1}
        for args, kwargs in (((a, b, turn), {}), ((a,), {"type": b, "__p0": turn}), ((), by_name)):
            results = [outcome(driver, lambda k=k, a=args, n=kwargs: k[4](*a, **n)) for k in (quick, usual)]
            assert results[0] == results[1] and type(results[0]) is list
    assert is_quick(monkeypatch, quick, lambda: quick[4](_self=a, type=b, __p0=1))


def test_a_traceback_shows_the_text(driver):
    quick, _ = pair(driver, add)
    a, b = tensor(4, 8), tensor(4, 8)
    for _ in range(4):
        quick[4](a, b, 1)
    with pytest.raises(LaunchError) as caught:
        quick[4](a, b, 2**40)
    frames = [frame for frame in traceback.extract_tb(caught.value.__traceback__) if frame.name == "launch"]
    assert len(frames) == 1 and frames[0].line.startswith("return _self.missed(")
    file = frames[0].filename
    assert file in linecache.cache
    del quick, caught, frames
    driver.kernels.clear()
    gc.collect()
    assert file not in linecache.cache


def names_asked_for(function):
    """The global names that a function's code loads."""
    return {i.argval for i in dis.get_instructions(function) if i.opname == "LOAD_GLOBAL"}


def test_every_name_of_a_text_means_something(driver, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", cupy_of())
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(Array=JaxArray))
    jax = JaxArray(tensor(4, 8).array)
    function, _ = make_closed()
    for fn, *arguments in (
        (add, tensor(4, 8), tensor(4, 8), 1),
        (add, tensor(4, 8), tj.empty((4, 8), tj.float32), np.int32(1)),
        (add, CupyArray(tensor(4, 8).array), tensor(4, 8), 1),
        (add, tj.empty((4, 8), tj.float32), jax, 1),
        (all_kinds, tensor(4, 8), tensor(4, 8), 1, 2.0, 3, (4, 5), None),
        (function, tensor(8)),
    ):
        quick, _ = pair(driver, fn)
        for _ in range(3):
            quick[4](*arguments)
        ((_, generated),) = quick.generated._all
        missing = names_asked_for(generated.launch) - set(generated.launch.__globals__)
        assert not missing, f"{missing} in\n{generated.text.render()}"


def all_kinds(A: tj.Tensor, B: tj.Tensor, n: tj.int32, h: tj.bfloat16, m=1, K: tj.constexpr = (1, 2), c=None):
    if n > 1_000_000:
        A[0, 0] = B[0, 0] + h + m + K[0] + STEP


def test_the_text_is_what_it_was(driver, torch, golden):
    quick, _ = pair(driver, all_kinds)
    a, b = tensor(4, 8), tensor(4, 8)
    for _ in range(3):
        quick[4](a, b, 1, np.float32(2), K=(1, 2))
    name = "guarded" if memory.has_guards() else "keyed"
    golden.check(f"launcher/{name}.py.txt", quick.generated._all[0][1].text.render())
