"""Generated launchers whose arguments are containers make the same driver calls as the slow path."""

import random
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import tilejit as tj

pytest.importorskip("cuda.bindings")

from tests.runtime.fast_launch.recording import TorchTensor, is_quick, outcome, pair, tensor  # noqa: E402


class Weights(NamedTuple):
    w: tj.Tensor
    n: tj.int32 = 3
    K: tj.constexpr = 2


@dataclass(frozen=True)
class Layer:
    x: tj.Tensor
    inner: Any = None
    scale: float = 1.0


def nested(P, Q: Layer, m):
    if m > 1_000_000:
        if Q.inner is not None:
            P[0][0, 0] = Q.inner.w[0, 0] + Q.inner.n + Q.inner.K
            P[0][0, 1] = Q.inner.w[0, 0]
        P[0][0, 2] = Q.x[0, 0] * Q.scale + P[1] + m + len(P)
        P[0][0, 3] = Q.x[0, 0]


def test_the_fourth_launch_takes_the_generated_function(driver, monkeypatch):
    quick, _ = pair(driver, nested)
    p, q = (tensor(4, 8), 1), Layer(tensor(4, 8), Weights(tensor(4, 8)))
    assert [is_quick(monkeypatch, quick, lambda: quick[2](p, q, m=1)) for _ in range(5)] == [False] * 3 + [True] * 2
    other = (tensor(8, 8), 7), Layer(tensor(16, 8), Weights(tensor(4, 8), -1), 0.5)
    assert [is_quick(monkeypatch, quick, lambda: quick[2](*other, m=2)) for _ in range(3)] == [False, True, True]
    assert len(set(map(repr, driver.taken()))) == 2


def random_arguments(r):
    memory = np.zeros(4096, np.uint8)
    near = [tensor(4, 8, memory=memory, offset=offset) for offset in (0, 8, 16, 48, 64, 96)]
    pool = r.choice([near, [tensor(4, 8), tensor(8, 8), tensor(4, 8, offset=1), TorchTensor(tensor(8, 4).array.T)]])
    pool += [tensor(4, 8, dtype=np.float64)] * (r.random() < 0.1) + [tensor(4, 8, device="cuda:1")] * (r.random() < 0.1)
    number = r.choice([1, 1, 2**40, 2.5, True, np.int64(3)])
    weights = Weights(r.choice(pool), r.choice([1, 5, 5, 2**31, None]), r.choice([2, 2, 3, 2.0, (1, 2)]))
    inner = r.choice([None, weights, weights, weights, (1, 2), r.choice(pool)])
    p = r.choice([(r.choice(pool), number)] * 8 + [(r.choice(pool),), (r.choice(pool), 1, 2), [r.choice(pool), 1]])
    q = r.choice([Layer(r.choice(pool), inner, r.choice([1.0, 0.5, 3]))] * 12 + [weights, None, r.choice(pool)])
    return p, q, r.choice([1, 2, 1.5])


@pytest.mark.parametrize("seed", range(3))
def test_random_launches_are_the_same(driver, seed):
    quick, usual = pair(driver, nested)
    r, refused = random.Random(seed), 0
    calls = [random_arguments(r) for _ in range(60)]
    grids = 4, lambda a: a.P[0].shape[0], lambda P, Q: (P[0].shape[1], 2)
    for turn in range(400):
        call, grid = r.choice(calls), r.choice(grids)
        results = [outcome(driver, lambda k=k, c=call, g=grid: k[g](*c)) for k in (quick, usual)]
        assert results[0] == results[1], (turn, call)
        refused += type(results[0]) is tuple
    assert 0 < refused < 300 and len(quick.generated._all) > 3


def test_prepared_launches_take_containers(driver):
    quick, usual = pair(driver, nested)
    p, q = (tensor(4, 8), 1), Layer(tensor(4, 8), Weights(tensor(4, 8)))
    expected = outcome(driver, lambda: usual[4](p, q, 1))
    prepared = quick[4].bind(p, q, 1)
    others = (tensor(8, 8), 2), Layer(tensor(4, 8), Weights(tensor(4, 8))), 3
    for _ in range(5):
        assert outcome(driver, prepared) == expected
        assert outcome(driver, lambda: prepared(*others)) == outcome(driver, lambda: usual[4](*others))
    with pytest.raises(tj.LaunchError, match="P: tuple of 1 instead of P: tuple of 2"), tj.no_recompile():
        quick[4](p[:1], q, 1)
    with pytest.raises(tj.LaunchError, match="P: tuple of 1 instead of P: tuple of 2"):
        prepared(p[:1], q, 1)


def plain(A: tj.Tensor, B: tj.Tensor):
    A[0, 0] = B[0, 0]


def of_tuple(P):
    P[0][0, 0] = P[1][0, 0]


def test_a_tuple_adds_only_its_own_checks_to_the_text(driver):
    a, b = tensor(4, 8), tensor(4, 8)
    texts = []
    for function, args in ((plain, (a, b)), (of_tuple, ((a, b),))):
        kernel, _ = pair(driver, function)
        for _ in range(2):
            kernel[1](*args)
        text = kernel.generated.find(args, {}).text.render()
        texts.append(text.replace("P[0]", "A").replace("P[1]", "B").splitlines())
    checks = {"_type(P) is not _type0", "_len(P) != 2"}
    added = [line.strip().removeprefix("or ") for line in texts[1] if line not in texts[0]]
    assert checks <= set(added) and len(texts[1]) == len(texts[0]) + 2


def by_shape(A, n):
    A.reshape(-1, 2)[n, 0] = 1


def by_number(A, n):
    A.reshape(n, -1)[0, 0] = 1


def test_shapes_that_depend_on_numbers_are_checked_at_each_launch(driver, monkeypatch):
    a, b = tensor(4, 8), tensor(3, 5)
    for function, is_fast in ((by_shape, True), (by_number, False)):
        quick, usual = pair(driver, function)
        for n in (2, 3, 2, 4, 4, 5, 4):
            for array in (a, b, a):
                results = [outcome(driver, lambda k=k, x=array, n=n: k[1](x, n)) for k in (quick, usual)]
                assert results[0] == results[1]
        assert is_quick(monkeypatch, quick, lambda k=quick: k[1](a, 4)) == is_fast
        with pytest.raises(tj.LaunchError, match="A of shape .* can't be reshaped to"):
            quick[1](b, 4)
