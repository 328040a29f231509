"""A generated launcher tells the driver what the usual way tells it, and fails with the same words."""

import random
import threading

import numpy as np
import pytest

import tilejit as tj

pytest.importorskip("cuda.bindings")

from tests.runtime.launcher.recording import (  # noqa: E402
    TorchTensor,
    installed,
    is_quick,
    outcome,
    pair,
    tensor,
    torch_of,
    uninstall,
)

STEP = 3


@pytest.fixture(params=["keys", "guards"])
def torch(request):
    return torch_of(guards=request.param == "guards")


@pytest.fixture
def driver(monkeypatch, torch):
    yield installed(monkeypatch, torch)
    uninstall()


def mixed(A: tj.Tensor, B: tj.Tensor, n: tj.int32, s: tj.float32, m=1, K: tj.constexpr = 2):
    if n > 1_000_000:
        A[0, 0] = B[0, 0] * s + n + m + K + STEP


def test_the_fourth_launch_takes_the_generated_function(driver, monkeypatch):
    quick, usual = pair(driver, mixed)
    a, b = tensor(4, 8), tensor(4, 8)
    assert [is_quick(monkeypatch, quick, lambda: quick[2](a, b, 1, 2.0)) for _ in range(5)] == [False] * 3 + [True] * 2
    assert [is_quick(monkeypatch, usual, lambda: usual[2](a, b, 1, 2.0)) for _ in range(5)] == [False] * 5
    assert len(set(map(repr, driver.taken()))) == 1


def arrays():
    """Arrays of several shapes, strides and alignments, some of which overlap, on three devices."""
    memory = np.zeros(4096, np.uint8)
    near = [tensor(4, 8, memory=memory, offset=offset) for offset in (0, 8, 16, 17, 40, 48)]
    shapes = [tensor(4, 8), tensor(8, 8), tensor(8, 4), tensor(4, 6), tensor(4, 8, offset=1), tensor(4, 8, offset=4)]
    strided = [
        TorchTensor(tensor(4, 16).array[:, ::2]), TorchTensor(tensor(8, 4).array.T), TorchTensor(tensor(8, 8).array[1:5])
    ]
    others = [tensor(4, 8, dtype=np.float64), tensor(4, 8, dtype=np.int32), tensor(0, 8), tensor(4, 0)]
    away = [tensor(4, 8, device="cuda:1"), tensor(8, 8, device="cuda:1")]
    return near, shapes + strided, others, away


NUMBERS = [0, 1, -1, 7, 2**31 - 1, -(2**31), True, np.int32(5), np.uint8(255), np.int64(-3), np.bool_(True)]
WRONG_NUMBERS = [2**31, -(2**31) - 1, 2**70, 1.5, "1", None, np.int64(2**40), np.float32(1), [1], (1, 2), object]
FLOATS = [
    0.0, -0.0, 1.5, float("nan"), -float("nan"), float("inf"), -float("inf"), 1e-46, 3.4028234663852886e38, 1,
    -7, True, np.float64(0.1), np.float32(np.nan), np.float16(np.inf), np.int8(-1),
]
ROUNDED = [3.4028235e38, -3.4028235e38, 3.5e38, 1e300, 10**39, np.float64(1e300)]
WRONG_FLOATS = [10**400, "x", None, 1j]
ANY = [1, 2.5, 2**40, -(2**63), np.float64(1), np.int16(3), True, 2**31 - 1, 2**31]
WRONG_ANY = [2**63, "s", 1j]
CONSTEXPRS = [2, 3, True, 1, 1.0, 2.0, np.int64(2), np.float32(3)]
WRONG_CONSTEXPRS = [[1], {}, None, "a"]


def random_call(r, pools):
    """Arguments by position and by name, most of them right."""
    near, usual, others, away = pools
    pool = r.choices([near, usual, others, away, [*near, *usual, *others, *away]], [6, 8, 2, 2, 1])[0]
    a, b = r.choice(pool), r.choice(pool)
    wrong = r.random() < 0.08

    def number(right, rare):
        return r.choice(rare if wrong and r.random() < 0.4 else right)

    values = {
        "A": a if not wrong or r.random() < 0.8 else r.choice([None, 1, "A", np.float32(1), TorchTensor(a.array, "cpu")]),
        "B": b,
        "n": number(NUMBERS, WRONG_NUMBERS),
        "s": r.choice(ROUNDED) if r.random() < 0.05 else number(FLOATS, WRONG_FLOATS),
        "m": number(ANY[: r.choice([2, 9])], WRONG_ANY),
        "K": number(CONSTEXPRS[: r.choice([2, 8])], WRONG_CONSTEXPRS),
    }
    count = r.choice([4, 4, 4, 5, 6, 2])
    positional, named = list(values)[:count], list(values)[count:]
    named = [name for name in named if name in "ABns" or r.random() < 0.7]
    args, kwargs = [values[name] for name in positional], {name: values[name] for name in r.sample(named, len(named))}
    if wrong and r.random() < 0.3:
        kwargs |= r.choice([{"n": 1}, {"x": 2}, {"A": a}])
    if wrong and r.random() < 0.2:
        args = args[: r.randrange(4)] if r.random() < 0.5 else args + [1] * r.randrange(5)
    return args, kwargs


class Stream:
    def __init__(self, handle, is_closed=False):
        self.cuda_stream, self.is_closed = handle, is_closed


def random_configuration(r):
    grid = r.choice([1, 4, 4, (2, 3), (1, 2, 3), lambda a: a["n"] % 7 + 1, lambda A, n: (A.shape[0], 2)])
    if r.random() < 0.03:
        grid = r.choice([0, (1, 2, 3, 4), "4", (1, 70000), lambda a: a["nothing"], lambda a: -1])
    if r.random() < 0.6:
        return grid
    stream = r.choice([None, 5, Stream(9), Stream(8), *([Stream(1, True), "stream"] if r.random() < 0.1 else [])])
    grid = (grid,) if isinstance(grid, int) else grid
    return grid, r.choice([32, 64, None]), stream


def test_thousands_of_random_launches_are_the_same(driver, torch):
    quick, usual = pair(driver, mixed)
    r, pools = random.Random(5), arrays()
    kept = {}
    different = 0
    for turn in range(3000):
        args, kwargs = random_call(r, pools)
        configuration = random_configuration(r) if turn % 3 else 4
        torch.cuda.streams[0] = r.choice([70, 70, 75])
        place = r.choice([None] * 12 + ["cuda:0", "cuda:1", "sim"])
        results = []
        for kernel in (quick, usual):

            def launch(kernel=kernel):
                if place is None:
                    kernel[configuration](*args, **kwargs)
                    return
                with tj.use_device(place):
                    kernel[configuration](*args, **kwargs)

            results.append(outcome(driver, launch))
        assert repr(results[0])[:300] == repr(results[1])[:300] and results[0] == results[1], (turn, configuration, args, kwargs, place)
        different += type(results[0]) is tuple
        kept[repr(results[0])] = turn
    assert len(kept) > 500 and 100 < different < 2000
    assert len(quick.generated._all) > 20
    print(len(quick.signatures), different, len(kept))


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


def five(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, D: tj.Tensor, E: tj.Tensor):
    if A.shape[0] > 1_000_000:
        A[0] = B[0] + C[0] + D[0] + E[0]


def two(A: tj.Tensor, B: tj.Tensor):
    if A.shape[0] > 1_000_000:
        A[0] = B[0]


def three(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor):
    if A.shape[0] > 1_000_000:
        A[0] = B[0] + C[0]


@pytest.mark.parametrize("function", [two, three, five])
def test_alternating_overlaps_and_alignments(driver, monkeypatch, function):
    quick, usual = pair(driver, function)
    count = function.__code__.co_argcount
    memory = np.zeros(65536, np.uint8)
    r, layouts = random.Random(count), []
    for _ in range(12 if count < 5 else 6):
        starts = [256 * n + r.choice([0, 0, 0, 1, 4, 8, -1 if n else 0, -4 if n else 0, -64 if n else 0]) for n in range(count)]
        r.shuffle(starts)
        backwards = r.random() < 0.2
        layouts.append([tensor(64, memory=memory, offset=start // 4 * 4 + start % 4) for start in starts])
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
    """Another thread changes it between the generated function's look and the usual way's."""
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
