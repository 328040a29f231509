"""Candidates that a comparison of one result accepts, each with an honest twin, as kernels of tilejit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import tilejit as tj

THREADS = 64


class Case(NamedTuple):
    """A fooled judgement. rules: of the reasons for which `fooled` is refused; `honest` is accepted.

    scale: standard deviation of the inputs.
    """

    name: str
    rules: set[str]
    fooled: Callable[..., Any]
    honest: Callable[..., Any]
    reference: Callable[..., Any]
    shape: tuple[int, ...] = (128,)
    scale: float = 1.0


def grid(x: np.ndarray) -> int:
    return tj.cdiv(x.shape[0], THREADS)


@tj.kernel(threads=THREADS)
def squared(X: tj.Tensor, Y: tj.Tensor) -> None:
    i = tj.cta_id(0) * THREADS + tj.thread_id()
    if i < X.shape[0]:
        Y[i] = X[i] * X[i]


def square(x: np.ndarray) -> np.ndarray:
    out = np.empty_like(x)
    squared[grid(x)](x, out)
    return out


def reference_square(x: np.ndarray) -> np.ndarray:
    return x * x


@tj.kernel(threads=THREADS)
def scaled(X: tj.Tensor, Y: tj.Tensor, factor: tj.float32) -> None:
    i = tj.cta_id(0) * THREADS + tj.thread_id()
    if i < X.shape[0]:
        Y[i] = X[i] * factor


def scale(x: np.ndarray, factor: float) -> np.ndarray:
    out = np.empty_like(x)
    scaled[grid(x)](x, out, factor)
    return out


class KeptOutput:
    """Keeps its output for each shape. skips: write only the first CTA's part if an earlier call has written all."""

    def __init__(self, skips: bool) -> None:
        self.skips = skips
        self.outputs: dict[tuple[int, ...], np.ndarray] = {}

    def __call__(self, x: np.ndarray) -> np.ndarray:
        is_known = x.shape in self.outputs
        out = self.outputs.setdefault(x.shape, np.empty_like(x))
        squared[1 if is_known and self.skips else grid(x)](x, out)
        return out


def square_half(x: np.ndarray) -> np.ndarray:
    out = np.empty_like(x)
    squared[tj.cdiv(grid(x), 2)](x, out)
    return out


def square_whole_ctas(x: np.ndarray) -> np.ndarray:
    out = np.empty_like(x)
    squared[max(x.size // THREADS, 1)](x, out)
    return out


@tj.kernel(threads=THREADS)
def reversed_blocks(X: tj.Tensor, Y: tj.Tensor, SYNC: tj.constexpr) -> None:
    shared = tj.alloc_shared(THREADS, X.dtype)
    first = tj.cta_id(0) * THREADS
    count = min(X.shape[0] - first, THREADS)
    i = tj.thread_id()
    if i < count:
        shared[i] = X[first + i]
    if SYNC:
        tj.cta_sync()
    if i < count:
        Y[first + i] = shared[count - 1 - i]


def reverse(x: np.ndarray, sync: bool = True) -> np.ndarray:
    out = np.empty_like(x)
    reversed_blocks[grid(x)](x, out, SYNC=sync)
    return out


def reference_reverse(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x[i : i + THREADS][::-1] for i in range(0, x.size, THREADS)])


@tj.kernel(threads=THREADS)
def added_next(X: tj.Tensor, Y: tj.Tensor, GUARD: tj.constexpr) -> None:
    i = tj.cta_id(0) * THREADS + tj.thread_id()
    n = X.shape[0]
    if i < n:
        y = X[i]
        if not GUARD or i + 1 < n:
            y = y + X[i + 1]
        Y[i] = y


def add_next(x: np.ndarray, guard: bool = True) -> np.ndarray:
    out = np.empty_like(x)
    added_next[grid(x)](x, out, GUARD=guard)
    return out


def reference_add_next(x: np.ndarray) -> np.ndarray:
    return x + np.append(x[1:], x[:1] * 0)


@tj.kernel(threads=THREADS)
def soft(X: tj.Tensor, Y: tj.Tensor, N: tj.constexpr, HOW: tj.constexpr) -> None:
    row = tj.cta_id(0)
    x = tj.cta.load(X[row, 0:N], fill=-tj.inf)
    if HOW == "half":
        x = x.astype(tj.float16).astype(tj.float32)
    e = tj.exp(x - tj.max(x))
    if HOW == "constant":
        e = x * 0.0 + 1.0
    tj.cta.store(Y[row, 0:N], e / tj.sum(e))


def softmax(x: np.ndarray, how: str = "") -> np.ndarray:
    out = np.empty_like(x)
    soft[x.shape[0]](x, out, N=x.shape[1], HOW=how)
    return out


def reference_softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def softmax_by_the_reference(x: np.ndarray) -> np.ndarray:
    softmax(x)
    return reference_softmax(x)


def softmax_by_numpy(x: np.ndarray) -> np.ndarray:
    softmax(x)
    e = np.exp(np.asarray(x) - np.max(np.asarray(x), 1, keepdims=True))
    return e / np.sum(e, 1, keepdims=True)


class Cached:
    """Returns a copy of the result of an earlier call with an equal key, after a launch whose result it drops."""

    def __init__(self, key: Callable[[np.ndarray], Any]) -> None:
        self.key = key
        self.results: dict[Any, np.ndarray] = {}

    def __call__(self, x: np.ndarray) -> np.ndarray:
        result = square(x)
        return self.results.setdefault(self.key(x), result.copy()).copy()


def by_pointer(x: np.ndarray) -> int:
    return x.__array_interface__["data"][0]


def by_shape(x: np.ndarray) -> tuple[int, ...]:
    return x.shape


@tj.kernel(threads=THREADS)
def cleared(X: tj.Tensor) -> None:
    i = tj.cta_id(0) * THREADS + tj.thread_id()
    if i < X.shape[0]:
        X[i] = 0


def square_of_cleared(x: np.ndarray) -> np.ndarray:
    cleared[grid(x)](x)
    return square(x)


@tj.kernel(threads=THREADS)
def chosen(X: tj.Tensor, Y: tj.Tensor, HOW: tj.constexpr) -> None:
    i = tj.cta_id(0) * THREADS + tj.thread_id()
    if i < X.shape[0]:
        x = X[i]
        if HOW == "relu":
            Y[i] = tj.where(x < 0, 0.0, x)
        elif HOW == "relu that drops NaN":
            Y[i] = tj.where(x > 0, x, 0.0)
        elif HOW == "relu by a product":
            Y[i] = x * (x >= 0).astype(tj.float32)
        elif HOW == "abs":
            Y[i] = tj.abs(x)
        else:
            Y[i] = tj.where(x < 0, -x, x)


def choose(how: str) -> Callable[[np.ndarray], np.ndarray]:
    def candidate(x: np.ndarray) -> np.ndarray:
        out = np.empty_like(x)
        chosen[grid(x)](x, out, HOW=how)
        return out

    return candidate


def reference_relu(x: np.ndarray) -> np.ndarray:
    return np.where(x < 0, x.dtype.type(0), x)


def square_2d(x: np.ndarray, order: Any = "C") -> np.ndarray:
    """Square the elements of a matrix. order: "K" for those in the order of memory, which differs for a transposed one.
    """
    flat = x.ravel(order=order)
    return square(flat).reshape(x.shape)


CASES = [
    Case("output of an earlier call", {"stale"}, KeptOutput(True), KeptOutput(False), reference_square),
    Case("freed memory", {"unwritten"}, square_half, square, reference_square),
    Case("tested shape", {"shape"}, square_whole_ctas, square, reference_square),
    Case("race", {"race", "undefined", "value"}, lambda x: reverse(x, False), reverse, reference_reverse),
    Case("read past the end", {"bounds", "unwritten"}, lambda x: add_next(x, False), add_next, reference_add_next),
    Case("constant", {"accuracy"}, lambda x: softmax(x, "constant"), softmax, reference_softmax, (3, 1000), 0.25),
    Case("low precision", {"accuracy"}, lambda x: softmax(x, "half"), softmax, reference_softmax, (3, 1000), 0.25),
    Case("reference called", {"foreign"}, softmax_by_the_reference, softmax, reference_softmax, (3, 100)),
    Case("NumPy called", {"foreign"}, softmax_by_numpy, softmax, reference_softmax, (3, 100)),
    Case("cached by pointer", {"cached"}, Cached(by_pointer), square, reference_square),
    Case("cached by shape", {"cached"}, Cached(by_shape), square, reference_square),
    Case("changed input", {"inputs", "value"}, square_of_cleared, square, reference_square),
    Case("NaN", {"special"}, choose("relu that drops NaN"), choose("relu"), reference_relu),
    Case("infinity", {"special"}, choose("relu by a product"), choose("relu"), reference_relu),
    Case("negative zero", {"special"}, choose("abs by a choice"), choose("abs"), np.abs),
    Case("layout", {"layout"}, lambda x: square_2d(x, "K"), square_2d, reference_square, (6, 10)),
]
