"""A generated launcher makes the same driver calls as the slow path, and fails with the same messages."""

import random
import threading
import warnings
from contextlib import nullcontext

import numpy as np
import pytest

import tilejit as tj
from tilejit.runtime.fast_launch import entries, memory

pytest.importorskip("cuda.bindings")

from tests.runtime.fast_launch.recording import (  # noqa: E402
    TorchTensor,
    is_quick,
    outcome,
    pair,
    tensor,
)

STEP = 3


def mixed(A: tj.Tensor, B: tj.Tensor, n: tj.int32, s: tj.float32, m=1, K: tj.constexpr = 2):
    if n > 1_000_000:
        A[0, 0] = B[0, 0] * s + n + m + K + STEP
        # loaded again where the two overlap
        A[0, 1] = B[0, 0]


def annotated(A: tj.Tensor, B: tj.Tensor, n: int, s: float, m: bool = True, K: tj.constexpr = 2):
    if n > 1_000_000:
        A[0, 0] = B[0, 0] * s + n + m + K + STEP
        A[0, 1] = B[0, 0]


def test_the_fourth_launch_takes_the_generated_function(driver, monkeypatch):
    quick, usual = pair(driver, mixed)
    a, b = tensor(4, 8), tensor(4, 8)
    assert [is_quick(monkeypatch, quick, lambda: quick[2](a, b, 1, 2.0)) for _ in range(5)] == [False] * 3 + [True] * 2
    assert [is_quick(monkeypatch, usual, lambda: usual[2](a, b, 1, 2.0)) for _ in range(5)] == [False] * 5
    assert len(set(map(repr, driver.taken()))) == 1


def arrays():
    """Arrays of several shapes, strides and alignments, some of which overlap, on three devices."""
    memory = np.zeros(4096, np.uint8)
    near = [tensor(4, 8, memory=memory, offset=offset) for offset in (0, 8, 16, 48, 64, 96)]
    shapes = [tensor(4, 8), tensor(8, 8), tensor(16, 8), tensor(4, 8, offset=8), tensor(4, 8, offset=1)]
    strided = [TorchTensor(tensor(8, 4).array.T), TorchTensor(tensor(8, 8).array[1:5])]
    others = [tensor(4, 8, dtype=np.float64), tensor(0, 8)]
    away = [tensor(4, 8, device="cuda:1"), tensor(8, 8, device="cuda:1")]
    return near, shapes + strided, others, away


#: what goes into `n`, `s`, `m` and `K`, so that each form has one generated function
NUMBERS = {
    int: [0, 1, -1, 7, 2**31 - 1, -(2**31)], bool: [True, False], np.int32: [np.int32(5), np.int32(-(2**31))],
    np.uint8: [np.uint8(255)], np.int64: [np.int64(-3), np.int64(2**31 - 1)],
}
#: further values of `n` where it is an `int`: int64s
WIDE = {int: [1, 2**40, 7, -(2**31) - 1], np.int64: [np.int64(3), np.int64(2**31)]}
FLOATS = {
    float: [
        0.0, -0.0, 1.5, float("nan"), -float("nan"), float("inf"), -float("inf"), 1e-46, 3.4028234663852886e38,
        3.4028235e38, -3.4028235e38,
    ],
    int: [1, -7, 10**38], bool: [True], np.float64: [np.float64(0.1), np.float64(np.nan)], np.int8: [np.int8(-1)],
    np.float32: [np.float32(np.nan), np.float32(0.1)], np.float16: [np.float16(np.inf)],
}
EITHER = {int: [1, 1, 1, 2**40], float: [2.5, float("nan")], np.float64: [np.float64(1)], bool: [True]}
CONSTEXPRS = {int: [2, 3], bool: [True, False], float: [1.0, -0.0, 0.0], tuple: [(1, 2), (1, True), (1.0, 2)]}
#: types of n, s, m and K, None if omitted; number of positional arguments
FORMS = [
    (int, float, None, None, 4), (int, float, int, int, 4), (int, float, int, int, 6), (bool, int, None, int, 3),
    (np.int32, np.float64, int, bool, 4), (np.uint8, np.float32, float, int, 4), (np.int64, np.float16, None, float, 2),
    (int, np.int8, np.float64, tuple, 5), (int, bool, bool, int, 4),
]
WRONG = {
    "A": [None, 1, "A", np.float32(1), TorchTensor(np.zeros((4, 8), np.float32), "cpu")],
    "n": [2**31, -(2**31) - 1, 2**70, 1.5, "1", None, np.int64(2**40), np.float32(1), [1], (1, 2), object],
    "s": [3.5e38, 1e300, 10**39, np.float64(1e300), 10**400, "x", None, 1j],
    "m": [2**63, "s", 1j, -(2**63), np.int16(3)],
    "K": [[1], {}, None, "a", np.int64(2), np.float32(3)],
}


def random_call(r, pools, numbers=NUMBERS):
    """Arguments by position and by name, most of them right."""
    near, usual, others, away = pools
    pool = r.choices([near, usual, others, away, [*near, *usual, *others, *away]], [6, 8, 2, 2, 1])[0]
    *types, count = r.choices(FORMS, [9, 9, 9, 2, 2, 2, 2, 2, 2])[0]
    values = {"A": r.choice(pool), "B": r.choice(pool)}
    for name, kind, choices in zip("nsmK", types, (numbers, FLOATS, EITHER, CONSTEXPRS), strict=True):
        if kind is not None:
            values[name] = r.choice(choices[kind][:3] if r.random() < 0.5 else choices[kind])
    if r.random() < 0.08:
        name = r.choice(list(WRONG))
        values[name] = r.choice(WRONG[name])
    args, kwargs = list(values.values())[:count], dict(list(values.items())[count:])
    if r.random() < 0.03:
        kwargs |= r.choice([{"n": 1}, {"x": 2}, {"A": values["A"]}, {"x": 1, "y": 2, "B": 3}])
    if r.random() < 0.02:
        args = r.choice([args[: r.randrange(4)], args + [1] * r.randrange(5)])
    return args, kwargs


class Stream:
    def __init__(self, handle, is_closed=False):
        self.cuda_stream, self.is_closed = handle, is_closed


def random_configuration(r):
    grid = r.choice([1, 4, 4, (2, 3), (1, 2, 3), lambda a: int(a["n"]) % 7 + 1, lambda A, n: (A.shape[0] + 1, 2)])
    if r.random() < 0.03:
        grid = r.choice([0, (1, 2, 3, 4), "4", (1, 70000), lambda a: a["nothing"], lambda a: -1])
    if r.random() < 0.6:
        return grid
    stream = r.choice([None, 5, Stream(9), Stream(8), *([Stream(1, True), "stream"] if r.random() < 0.1 else [])])
    grid = (grid,) if isinstance(grid, int) else grid
    return grid, r.choice([32, 64, None]), stream


@pytest.mark.parametrize("function", [mixed, annotated])
def test_thousands_of_random_launches_are_the_same(driver, torch, function):
    quick, usual = pair(driver, function)
    r, pools = random.Random(5), arrays()
    kept, different, resolved, resolve = set(), 0, [], quick.resolve
    quick.resolve = lambda *args: (resolved.append(args), resolve(*args))[1]
    for turn in range(2500):
        args, kwargs = random_call(r, pools, NUMBERS if function is mixed else {**NUMBERS, **WIDE})
        configuration = random_configuration(r) if turn % 3 else 4
        torch.cuda.streams[0] = r.choice([70, 70, 75])
        place = r.choice([None] * 12 + ["cuda:0", "cuda:1", "sim"])
        results = []
        for kernel in (quick, usual):
            with nullcontext() if place is None else tj.use_device(place):
                results.append(outcome(driver, lambda k=kernel, c=configuration, a=args, n=kwargs: k[c](*a, **n)))
        assert results[0] == results[1], (turn, configuration, args, kwargs, place)
        different += type(results[0]) is tuple
        kept.add(repr(results[0]))
    assert len(kept) > 500 and different > 100
    refused = 0 if function is mixed else sum(form[2] in (float, np.float64) for form in FORMS)
    assert len(quick.generated._all) >= len(FORMS) - refused and len(resolved) < 1500


def test_eight_threads_see_their_own_parameters(driver):
    quick, usual = pair(driver, mixed)
    shapes = [(4, 8), (8, 8), (4, 6), (16, 8)]
    expected, failures = {}, []
    calls = [(tensor(*shapes[n % 4]), tensor(*shapes[n % 4]), 100 * n, n / 4) for n in range(8)]
    for call in calls:
        usual[4](*call)
        expected[call[2]] = driver.taken()
        for _ in range(4):
            quick[4](*call)
        driver.taken()

    def work(n):
        try:
            for _ in range(200):
                quick[4](*calls[n])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
    seen = sorted(map(repr, driver.taken()))
    assert seen == sorted(repr(launch) for launches in expected.values() for launch in launches * 200)


# what is stored last is loaded again where an array overlaps the one that is written


def five(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, D: tj.Tensor, E: tj.Tensor):
    if A.shape[0] > 1_000_000:
        A[0] = B[0] + C[0] + D[0] + E[0]
        A[1] = B[0] + C[0] + D[0] + E[0]


def two(A: tj.Tensor, B: tj.Tensor):
    if A.shape[0] > 1_000_000:
        A[0] = B[0]
        A[1] = B[0]


def three(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor):
    if A.shape[0] > 1_000_000:
        A[0] = B[0] + C[0]
        A[1] = B[0] + C[0]


@pytest.mark.parametrize("function", [two, three, five])
def test_alternating_overlaps_and_alignments(driver, monkeypatch, function):
    quick, usual = pair(driver, function)
    count = function.__code__.co_argcount
    memory = np.zeros(65536, np.uint8)
    r, layouts = random.Random(count), []
    for _ in range(12 if count < 5 else 6):
        starts = [256 * n + r.choice([0, 0, 0, 1, 4, 8, *([-1, -4, -64] if n else [])]) for n in range(count)]
        r.shuffle(starts)
        backwards = r.random() < 0.2
        layouts.append([tensor(64, memory=memory, offset=start) for start in starts])
        if backwards:
            layouts[-1][0].array = layouts[-1][0].array[::-1]
    layouts += [[layouts[0][0]] * count, [*layouts[0][:-1], TorchTensor(layouts[0][-1].array[:0])]]
    for turn in range(6):
        for layout in layouts if turn % 2 else layouts[::-1]:
            results = [outcome(driver, lambda k=k, a=layout: k[4](*a)) for k in (quick, usual)]
            assert results[0] == results[1]
    assert len(quick.signatures) > 3
    assert all(is_quick(monkeypatch, quick, lambda a=layout: quick[4](*a)) for layout in layouts)


def change(how, a):
    {
        "t_": lambda: a.t_(),
        "resize_": lambda: a.resize_(2, 6),
        "data": lambda: setattr(a, "data", tensor(4, 8, offset=3)),
        "dtype": lambda: setattr(a, "data", tensor(4, 8, dtype=np.float64)),
        "device": lambda: setattr(a, "device", "cuda:1"),
    }[how]()


def matrices(A: tj.Tensor, B: tj.Tensor):
    if A.shape[0] > 1_000_000:
        A[0, A.shape[1] - 1] = B[1, 0]


@pytest.mark.parametrize("how", ["t_", "resize_", "data", "dtype", "device"])
def test_a_tensor_that_changes_in_place_is_seen_as_it_is(driver, how):
    quick, usual = pair(driver, matrices)
    a, b = tensor(4, 8), tensor(4, 8)
    for _ in range(6):
        assert outcome(driver, lambda: quick[1](a, b)) == outcome(driver, lambda: usual[1](a, b))
    before = outcome(driver, lambda: quick[1](a, b))
    change(how, a)
    for _ in range(5):
        after = outcome(driver, lambda: quick[1](a, b))
        assert after == outcome(driver, lambda: usual[1](a, b)) != before
        assert type(after) is (tuple if how == "device" else list)


def test_an_array_that_changes_while_it_is_launched_is_not_remembered(driver):
    """Another thread changes it after the generated function has read it and before the slow path does."""
    quick, usual = pair(driver, matrices)
    a, b = tensor(4, 8), tensor(4, 8)
    for _ in range(2):
        quick[1](tensor(6, 8), b)
    resolve = quick.resolve

    def changing(threads, values):
        a.resize_(8, 4)
        return resolve(threads, values)

    quick.resolve = changing
    quick[1](a, b)
    quick.resolve = resolve
    driver.taken()
    for shape in ((4, 8), (8, 4), (4, 8)):
        a.resize_(*shape)
        for _ in range(3):
            assert outcome(driver, lambda: quick[1](a, b)) == outcome(driver, lambda: usual[1](a, b))


@pytest.mark.parametrize("first", [0, 1])
def test_arrays_that_share_one_element_at_either_end_overlap(driver, monkeypatch, first):
    quick, usual = pair(driver, two)
    memory = np.zeros(4096, np.uint8)
    a, next_to_it, on_its_last = (tensor(65, memory=memory, offset=offset) for offset in (0, 72, 64))
    for args in ([a, next_to_it], [a, on_its_last], [on_its_last, a], [next_to_it, a]):
        warm = args[::-1] if first else args
        for _ in range(4):
            results = [outcome(driver, lambda k=k, w=warm: k[4](*w)) for k in (quick, usual)]
            assert results[0] == results[1]
    assert len(quick.signatures) == 2 and is_quick(monkeypatch, quick, lambda: quick[4](a, on_its_last))


def test_an_array_that_changes_while_its_guard_is_made_is_not_remembered(driver, monkeypatch):
    quick, usual = pair(driver, matrices)
    a, b, make = tensor(4, 8), tensor(4, 8), memory.guard_of

    def changing(arrays):
        a.resize_(8, 4)
        return make(arrays)

    for _ in range(2):
        quick[1](tensor(6, 8), b)
    with monkeypatch.context() as patched:
        patched.setattr(memory, "guard_of", changing)
        quick[1](a, b)
    for shape in ((8, 4), (4, 8), (8, 4)):
        a.resize_(*shape)
        for _ in range(3):
            assert outcome(driver, lambda: quick[1](a, b)) == outcome(driver, lambda: usual[1](a, b))


def widening(A: tj.Tensor, s: float, t: float):
    A[0, 0] = A[0, 1] * s + tj.int32(t)


def test_a_generated_function_reports_a_number_that_is_rounded_and_widened_once(driver, monkeypatch):
    quick, _ = pair(driver, widening)
    a = tensor(4, 8, dtype=np.float64)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert [is_quick(monkeypatch, quick, lambda: quick[2](a, 0.5, 0.1)) for _ in range(5)][3:] == [True, True]
        assert not caught
        assert all(is_quick(monkeypatch, quick, lambda s=s: quick[2](a, s, 0.1)) for s in (0.1, 0.2))
    assert [(each.category, each.filename) for each in caught] == [(tj.PrecisionWarning, __file__)]


def test_only_kernels_that_widen_a_number_pay_for_the_check(driver, monkeypatch):
    monkeypatch.setattr(entries, "checked_packer", lambda *_: pytest.fail("the numbers of every launch are checked"))
    quick, _ = pair(driver, widening)
    a = tensor(4, 8, dtype=np.float32)
    assert [is_quick(monkeypatch, quick, lambda: quick[2](a, 0.1, 0.1)) for _ in range(5)][3:] == [True, True]
