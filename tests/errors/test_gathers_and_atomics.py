"""Statements about gathered regions and atomic updates that are refused, each with a hint."""

from __future__ import annotations

import pytest

import tilejit as tj
from tests.support.programs import source_of

INDEX = "i = tj.cta.load(I[0:8])\n"
VALUE = "x = tj.cta.load(V[0:8])\n"

# the statements of a kernel, and what the message says
BAD = [
    (INDEX + "tj.cta.load(X.at(i.astype(tj.float32)))", "the index of .at must be an integer or a local tile"),
    ("tj.cta.load(X.at(1.5))", "an index must be an integer; this is the constant 1.5"),
    ("tj.cta.load(X.at(I[0:8]))", "this is a global region of shape (8) and int32"),
    ("tj.cta.load(X.at(-1)[0:4])", "index -1 is negative: indices don't count from the end"),
    (INDEX + "tj.cta.load(X.at(i, axis=2))", "axis 2 is out of range for 2 dimensions"),
    (INDEX + "tj.cta.load(X[2:6].at(i)[:, 0:4])", "this region covers part of dimension 0 of X"),
    (INDEX + "tj.cta.load(X.at(i)[0:4, 0:4])", "dimension 0 of a gathered region of shape (8, ?)"),
    (INDEX + "tj.cta.load(X.at(i)[:, 0:4, 0])", "2 indices for 1 dimension of X"),
    (INDEX + "tj.cta.load(X.at(i))", "dimension 1 of X has a run-time extent"),
    (INDEX + "tj.cta.load(i.at(i))", ".at takes global or shared memory; this is a local tile"),
    (INDEX + "tj.cta.copy(X[0:8, 0:4], X.at(i)[:, 0:4])", "the source can't be a gathered region of shape (8, 4)"),
    (INDEX + "y = X.at(i)[:, 0:4] + 1", "a gathered region of shape (8, 4)"),
    (INDEX + "tj.cta.store(X.at(i)[:, 0:4], tj.cta.zeros((4, 8), X.dtype))", "the destination has (8, 4)"),
    (INDEX + "tj.warp.load(X.at(i)[:, 0:4])", "warp.copy can't take i, a tile of a cta"),
    ("tj.cta.load(X.at(I[tj.thread_id()])[0:4])", "its index may differ between threads"),
    (VALUE + "tj.atomic.xor(P[0:8], x)", "atomic xor does not support float32"),
    ("tj.atomic.add(P[0:7], 2.5)", "pass tj.cta.full((7,), 2.5, tj.float32) as the value"),
    ("tj.atomic.max(X[0:7, 0:2], 2.5)", "loop over the elements, as in tj.atomic.max(X[i, j], 2.5)"),
    ("tj.atomic.add(X.at(1)[0:4], V[0])", "of a region of shape (4,) and a scalar doesn't say how often to update it"),
    (VALUE + "tj.atomic.add(P[0:8], x.astype(tj.float16))", "the place is float32, the value float16"),
    (VALUE + "tj.atomic.add(P[0:4], x)", "a value of shape (8,) doesn't broadcast to (4,)"),
    (VALUE + "tj.atomic.add(P[0:8], V[0:8])", "atomic.add takes local tiles"),
    (VALUE + "tj.atomic.add(x, 1.0)", "is the result of an expression: it can't be written"),
    (VALUE + "tj.atomic.add(P[0], x)", "one element takes a scalar; this is a local tile of shape (8)"),
    (VALUE + "tj.atomic.add(P[0:8], x, mask=x)", "the mask is float32; it must be bool_"),
    (VALUE + "tj.atomic.add(P[0:8], tj.warp.load(V[0:8]), mask=x > 0)", "a tile of a cta and a tile of a warp"),
    (VALUE + "tj.atomic.cas(P[0:8], x, x)", "atomic cas does not support float32"),
    (VALUE + "tj.atomic.add(P.at(x), x)", "the index of .at must be an integer or a local tile"),
]


@pytest.mark.parametrize(("body", "message"), BAD, ids=[f"{k} {message[:40]}" for k, (_, message) in enumerate(BAD)])
def test_what_makes_no_sense_is_refused(body: str, message: str) -> None:
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    kernel = tj.kernel(threads=64)(source_of(f"def k(X, I, V, P):\n{lines}"))
    vector = tj.spec((16,), tj.float32)
    with pytest.raises((tj.KernelTypeError, tj.DispatchError)) as caught:
        kernel.compile(tj.spec((16, 8), tj.float32), tj.spec((64,), tj.int32), vector, vector, target="sm_90a")
    assert message in str(caught.value)
    assert "help: " in str(caught.value)
