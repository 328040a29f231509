"""What helps tell the user to write: each mistake, words of its help, and a program that follows it and works."""

from __future__ import annotations

from collections import Counter
from textwrap import indent
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilejit as tj
from tests.support.programs import source_of
from tilejit.frontend.words import intrinsics

NAMES: dict[str, Any] = {
    "CONFIG": SimpleNamespace(relu=1), "RELU": 1, "LIST": [1, 2], "TUPLE": (1, 2), "DICT": {"a": 1},
    "COUNTER": Counter("a"),
    "outside": lambda x: x + 1,
}
NAMES["inside"] = tj.function(source_of("def inside(x):\n    return x + 1\n"))
X = "x = tj.cta.load(A[0:16, 0:16])\n"
ROW = "x = tj.cta.load(A[0, 0:16])\n"

# statements that are refused, what the help says, and statements that follow it
HELPS = {
    "a loop over an array": (
        "for r in A:\n    pass", "range(len(A)) and index: A[i]", "for i in range(len(A)):\n    A[i, 0] = 1.0",
    ),
    "a loop over a number": ("for i in n:\n    pass", "range(n)", "for i in range(n):\n    pass"),
    "a row for all rows": (
        ROW + "tj.cta.store(B[0:16, 0:16], x[None, :])", "x + tj.cta.zeros((16, 16), x.dtype)",
        ROW + "tj.cta.store(B[0:16, 0:16], x + tj.cta.zeros((16, 16), x.dtype))",
    ),
    "a column for all columns": (
        ROW + "tj.cta.store(B[0:16, 0:16], x[:, None])", "x + tj.cta.zeros((16, 16), x.dtype)",
        ROW + "x = x[:, None]\ntj.cta.store(B[0:16, 0:16], x + tj.cta.zeros((16, 16), x.dtype))",
    ),
    "another shape": (
        X + "tj.cta.store(B[0:256, 0], x)", "x.reshape((256,))", X + "tj.cta.store(B[0:256, 0], x.reshape((256,)))",
    ),
    "a transposed shape": (
        X + "tj.cta.store(B[0:16, 0:8], x[0:8])", "transpose the tile: x.T", X + "tj.cta.store(B[0:16, 0:8], x[0:8].T)",
    ),
    "axes in another order": (
        "x = tj.cta.load(T[0:2, 0:4, 0:8])\ntj.cta.store(T[0:2, 0:8, 0:4], x)", "x.permute(...)",
        "x = tj.cta.load(T[0:2, 0:4, 0:8])\ntj.cta.store(T[0:2, 0:8, 0:4], x.permute(0, 2, 1))",
    ),
    "as many elements": (X + "tj.cta.store(B[0:8, 0:16], x[0:4].reshape((2, 32)))", "slice the larger one", X),
    "a call as combine=": (
        ROW + "y = tj.scan(x, 0, tj.maximum)", "lambda a, b: tj.maximum(a, b)",
        ROW + "y = tj.scan(x, 0, lambda a, b: tj.maximum(a, b))",
    ),
    "a method for a call": (ROW + "y = x.cumsum(0)", "write tj.cumsum(x, ...)", ROW + "y = tj.cumsum(x, 0)"),
    "a sort in place": (ROW + "x.sort()", "write tj.sort(x, ...)", ROW + "x = tj.sort(x)"),
    "a sort on a scope": (ROW + "y = tj.cta.sort(x)", "write tj.sort(...)", ROW + "y = tj.sort(x)"),
    "a tile as an index": (
        ROW + "y = x[tj.cta.indices((16,), 0)]", "tj.gather(x, indices, axis)",
        ROW + "y = tj.gather(x, tj.cta.indices((16,), 0), 0)",
    ),
    ".at of a tile": (
        ROW + "y = x.at(tj.cta.indices((16,), 0))", "tj.gather(x, indices, axis)",
        ROW + "y = tj.gather(x, tj.cta.indices((16,), 0), 0)",
    ),
    "two results stored as one": (
        ROW + "v = tj.top_k(x, 4)\ntj.cta.store(B[0, 0:4], v)", "store its items one by one: a, b = v",
        ROW + "v = tj.top_k(x, 4)\na, b = v\ntj.cta.store(B[0, 0:4], a)",
    ),
    "random numbers by shape": (
        "x = tj.rand(1, (16,))", "tj.cta.indices(shape, axis)", "x = tj.rand(1, tj.cta.indices((16,), 0))",
    ),
    "a shift for each thread": (
        ROW + "y = tj.roll(x, tj.thread_id(), 0)", "a shift that is the same for the whole cta",
        ROW + "y = tj.roll(x, n, 0)",
    ),
    "a list that grows": (
        "items = []\nfor i in tj.static_range(3):\n    items.append(tj.cta.load(A[i, 0:4]))", "`items += (x,)` extends",
        "items = ()\nfor i in tj.static_range(3):\n    items += (tj.cta.load(A[i, 0:4]),)",
    ),
    "a part": (X + "tj.cta.store(B[0:4, 0:16], x)", "slice the larger one", X + "tj.cta.store(B[0:4, 0:16], x[0:4])"),
    "float32 factors": (
        "x = tj.cta.load(A[0:8, 0:8])\ny = x @ x", "a.astype(tj.float16) @ b.astype(tj.float16)",
        X + "y = x.astype(tj.float16) @ x.astype(tj.float16)",
    ),
    "a batch of products": (
        "x = tj.cta.load(T[0:2, 0:16, 0:8])\ny = x @ x", ".permute(0, 2, 1) for batches",
        "x = tj.cta.load(T[0:2, 0:16, 0:8])\ny = x @ x.permute(0, 2, 1)",
    ),
    "a vector as a factor": (
        X + ROW.replace("x", "y") + "z = x @ y", "x[:, None] or x[None, :]",
        "x, y = tj.cta.load(T[0, 0:16, 0:16]), tj.cta.load(T[0, 0, 0:16])\n"
        "z = x @ (y[:, None] + tj.cta.zeros((16, 8), y.dtype))",
    ),
    "+= of a region": (
        "A[0:16, 0:16] += 1", "tj.cta.store(A[0:16, 0:16], tj.cta.load(A[0:16, 0:16]) + 1)",
        "tj.cta.store(A[0:16, 0:16], tj.cta.load(A[0:16, 0:16]) + 1)",
    ),
    "//= of a region": (
        "A[0:16, 0:16] //= 2", "tj.cta.load(A[0:16, 0:16]) // 2)",
        "tj.cta.store(A[0:16, 0:16], tj.cta.load(A[0:16, 0:16]) // 2)",
    ),
    "a part of a value": (
        X + "x[0:4] = 1", "x = tj.where(condition, value, x)",
        X + "x = tj.where(tj.cta.indices((16, 1), 0) < 4, 1.0, x)",
    ),
    "a part of a buffer": (
        "b = tj.alloc_local((8, 8), tj.float32)\nb[0:4] += 1", "tj.thread.copy(b[0:4], b[0:4] + 1)",
        "b = tj.alloc_local((8, 8), tj.float32)\ntj.thread.fill(b, 0)\ntj.thread.copy(b[0:4], b[0:4] + 1)",
    ),
    "a dimension of memory": ("x = A[0, None]", "tj.cta.load(region)[None]", "x = tj.cta.load(A[0, 0:8])[None]"),
    "a captured list": ("x = LIST[0]", "make it a tuple", "x = TUPLE[0]"),
    "a captured counter": ("x = COUNTER['a']", "make it a dict", "x = DICT['a']"),
    "an attribute named like a function": ("x = CONFIG.relu", "capture the value", "x = RELU"),
    "a lambda from outside": ("x = outside(n)", "a def, decorated with @tj.function", "x = inside(n)"),
    "a lambda inside": ("f = lambda *x: x[0]", "name the parameters", "f = lambda x: x\nx = f(n)"),
    "bytes of a type": ("x = A.dtype.itemsize", "it has name, kind, bits, bytes", "x = A.dtype.bytes"),
    "a tuple of numbers": ("x = any((n > 0, n > 1))", "index its items", "t = (n > 0, n > 1)\nx = t[0] or t[1]"),
}


def compiled(text: str) -> None:
    kernel = tj.kernel(threads=128)(source_of(f"def k(A, B, T, V, n):\n{indent(text, '    ')}\n", **NAMES))
    matrix, batch, vector = (tj.spec(shape, tj.float32) for shape in ((512, 64), (2, 16, 16), (64,)))
    kernel.compile(matrix, matrix, tj.spec(batch.shape, tj.float16), vector, tj.int32, target="sm_90a")


@pytest.mark.parametrize("name", HELPS)
def test_a_help_names_what_works(name: str) -> None:
    mistake, words, instead = HELPS[name]
    with pytest.raises(tj.TilejitError) as caught:
        compiled(mistake)
    assert words in (caught.value.hint or ""), caught.value
    compiled(instead)


def test_helps_about_arguments_name_what_works() -> None:
    def refused(annotation: Any, value: Any) -> str:
        with pytest.raises(tj.LaunchError) as caught:
            launched(annotation, value)
        return caught.value.hint or ""

    def launched(annotation: Any, value: Any) -> None:
        def k(Y, x):  # type: ignore[no-untyped-def]
            if x is not None:
                Y[0] = 1

        if annotation is not None:
            k.__annotations__["x"] = annotation
        with tj.use_device("sim"):
            tj.kernel(threads=1)(k)[1](np.zeros(1, np.float32), value)

    assert "`tj.Tensor | None`" in refused(tj.Tensor, None)
    launched(tj.Tensor | None, None)
    assert "leave the annotation out" in refused(float, None)
    launched(None, None)
    assert "signed type" in refused(tj.uint32, -1)
    launched(tj.int32, -1)
    assert "an unsigned type" in refused(int, 2**63)
    launched(tj.uint64, 2**63)
    assert "pass ints" in refused(tj.uint8, 1.5)
    launched(tj.uint8, 1)


def test_a_word_as_an_attribute_is_refused_with_a_help() -> None:
    for name in intrinsics():
        for value in ("A", "A[0, 0]", "tj.cta.load(A[0:8, 0:8])", "tj", "tj.cta", "tj.warp", "tj.atomic"):
            made = tj.kernel(threads=32)(source_of(f"def k(A):\n    y = {value}.{name}.missing\n"))
            with pytest.raises(tj.TilejitError) as caught:
                made.compile(tj.spec((16, 16), tj.float32), target="sm_90a")
            assert caught.value.hint, (value, name)
