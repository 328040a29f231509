"""Mistakes in calls of `tilejit.kernels.matmul`: each is refused before a launch, and the error says what to pass."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilejit as tj
from tilejit import kernels

A, W = np.ones((4, 16), np.float16), np.ones((8, 16), np.float16)
B = W.T
MEMORY = np.ones((5, 8), np.float16)


def negated(x: Any) -> Any:
    return -x


def options(a: Any = A, b: Any = B, **others: Any) -> dict[str, Any]:
    return {"a": a, "b": b, **others}


MISTAKES = {
    "no array": (options(a=[[1.0]]), "a: list is not an array", "pass a NumPy array"),
    "float64": (options(a=A.astype(np.float64)), "a is float64; matmul multiplies float16 and bfloat16", "convert it"),
    "two dtypes": (options(b=B.astype(tj.bfloat16.numpy)), "a is float16 and b is bfloat16", "convert one of them"),
    "a vector": (options(a=A[0]), "a has shape (16,), which is no matrix", "pass a[None]"),
    "a vector as b": (options(b=W[0]), "b has shape (16,), which is no matrix", "pass b[:, None]"),
    "weights N x K": (options(b=W), "a has K = 16 and b has K = 8", "pass b.T"),
    "another K": (options(a=A[:, :5]), "a has K = 5 and b has K = 16", "the last extent of a"),
    "batches": (
        options(a=np.ones((2, 4, 16), np.float16), b=np.ones((3, 16, 8), np.float16)),
        "the leading dimensions of a, (2,), and b, (3,), don't broadcast", "make them equal",
    ),
    "bias of M": (options(bias=A[:, 0]), "bias has shape (4,), not (8,)", "pass one number per column"),
    "integer bias": (options(bias=np.ones(8, np.int32)), "bias is int32", "convert it to float16"),
    "residual": (options(residual=A), "residual has shape (4, 16), not (4, 8)", "pass an array of the result's shape"),
    "name": (options(activation="tanh"), "activation is 'tanh'", "pass 'relu', 'gelu', 'silu' or a @tj.function"),
    "undecorated": (options(activation=negated), "activation is <function negated", "decorate it with @tj.function"),
    "out_dtype": (options(out_dtype="int8"), "out_dtype is 'int8'", "pass float16, bfloat16 or float32"),
    "out's shape": (
        options(out=np.ones((8, 4), np.float16)), "out has shape (8, 4), not (4, 8)", "pass an array of the result's",
    ),
    "out's dtype": (options(out=np.ones((4, 8), int)), "out is int64", "convert it to float16, bfloat16 or float32"),
    "two results": (
        options(out=np.ones((4, 8), np.float32), out_dtype="float16"), "out is float32 and out_dtype float16",
        "pass one of them",
    ),
    "out in a": (options(out=A[:, :8]), "out overlaps a, which is read while out is written", "pass another array"),
    "out over residual": (
        options(out=MEMORY[:4], residual=MEMORY[1:5]), "out overlaps residual, which is read", "pass another array",
    ),
    "read-only out": (
        options(out=np.broadcast_to(np.float16(1), (4, 8))), "C is a read-only array", "pass a copy, or a writable",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_explained(name: str) -> None:
    passed, message, hint = MISTAKES[name]
    before = A.copy()
    with tj.use_device("sim"), pytest.raises(tj.LaunchError, match=re.escape(message)) as caught:
        kernels.matmul(**passed)
    assert caught.value.hint is not None and hint in caught.value.hint
    assert np.array_equal(A, before)


def test_a_gradient_is_not_lost_silently(monkeypatch: pytest.MonkeyPatch) -> None:
    class Parameter(np.ndarray):  # type: ignore[type-arg]
        requires_grad = True

    is_enabled = [True]
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(is_grad_enabled=lambda: is_enabled[0], Tensor=str))
    with tj.use_device("sim"):
        with pytest.raises(tj.LaunchError, match="b requires a gradient, which matmul doesn't compute") as caught:
            kernels.matmul(A, B.view(Parameter))
        assert caught.value.hint == "call it under torch.no_grad(), or pass b.detach()"
        is_enabled[0] = False
        assert (kernels.matmul(A, B.view(Parameter)) == 16).all()


def test_an_array_of_an_unknown_library_needs_out() -> None:
    class Wrapped:
        def __init__(self, array: Any) -> None:
            self.array = array

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    a, out = Wrapped(A), np.zeros((4, 8), np.float16)
    with tj.use_device("sim"):
        with pytest.raises(tj.LaunchError, match="a is Wrapped, of a library in which") as caught:
            kernels.matmul(a, B)
        assert caught.value.hint == "pass out=, a writable array"
        assert (kernels.matmul(a, B, out=out) == 16).all()
