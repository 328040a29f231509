"""Reductions: what their records say of types and values is what NumPy says, and calls name axes as NumPy does."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.programs import array, source_of, statements, tile_ir
from tilejit import kernel
from tilejit.dtypes import DTYPES, DType, bfloat16, bool_, float16, float32, from_numpy, int32
from tilejit.errors import KernelTypeError
from tilejit.ir import nodes as ir
from tilejit.ops.elementwise import ELEMENTWISE
from tilejit.ops.elementwise import reference as elementwise
from tilejit.ops.reduce import REDUCTIONS, reduced
from tilejit.ops.tile import TILE_OPERATIONS

EVERY = pytest.mark.parametrize("name", REDUCTIONS)
NAN, INF = float("nan"), float("inf")

NUMPY = {
    "sum": np.sum, "max": np.max, "min": np.min, "prod": np.prod, "any": np.any, "all": np.all, "argmax": np.argmax,
    "argmin": np.argmin,
}


@EVERY
def test_the_tile_operation_has_the_record(name: str) -> None:
    assert TILE_OPERATIONS[name].reduction is REDUCTIONS[name]
    assert [o.name for o in TILE_OPERATIONS[name].operands] == ["dst", "src"]
    assert REDUCTIONS[name].combines in ELEMENTWISE


@EVERY
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_result_types_are_the_languages(name: str, dtype: DType) -> None:
    reduction = REDUCTIONS[name]
    wanted = dtype
    if name in ("any", "all"):
        wanted = bool_
    elif name in ("argmax", "argmin") or (name in ("sum", "prod") and not dtype.is_float and dtype.bits < 32):
        wanted = int32
    assert reduction.result_type(dtype) == wanted
    fault = reduction.type_fault(dtype, wanted)
    assert (fault is not None) == dtype.is_fp8
    if name in ("sum", "prod") and dtype in (float16, bfloat16):
        assert reduction.combines_in(dtype, wanted) == float32


def test_sums_and_products_take_a_wider_type_and_others_take_none() -> None:
    wide = DTYPES["float64"]
    assert REDUCTIONS["sum"].type_fault(float16, wide) is None
    assert REDUCTIONS["sum"].combines_in(float16, wide) == wide
    assert REDUCTIONS["sum"].combines_in(int32, DTYPES["int64"]) == DTYPES["int64"]
    assert REDUCTIONS["sum"].type_fault(float32, int32) == "sum of float32 gives float32; the destination is int32"
    assert REDUCTIONS["max"].type_fault(float32, wide) is not None
    assert REDUCTIONS["any"].type_fault(float32, int32) is not None


@EVERY
@pytest.mark.parametrize("dtype", [t for t in DTYPES.values() if not t.is_fp8], ids=str)
def test_the_identity_changes_nothing(name: str, dtype: DType) -> None:
    reduction = REDUCTIONS[name]
    compute = reduction.accumulates_in(dtype)
    special = [-0.0, 0.0, 1.5, -INF, INF, NAN] if compute.is_float else [0, 1, 5, np.iinfo(compute.numpy).max]
    values = np.array([0, 1] if reduction.tests else special, compute.numpy)
    identity = np.full_like(values, reduction.identity(compute))
    with np.errstate(all="ignore"):
        for both in ((values, identity), (identity, values)):
            made = elementwise(reduction.combines, *both)
            # the extremes of a negative and a positive zero are either
            np.testing.assert_array_equal(made, values)
            if name in ("sum", "prod") and compute.is_float:
                np.testing.assert_array_equal(np.signbit(made)[:-1], np.signbit(values)[:-1])


@EVERY
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1), (0, 2), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("dtype", [t for t in DTYPES.values() if not t.is_fp8], ids=str)
def test_the_reference_is_numpys(name: str, axes: tuple[int, ...], dtype: DType) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 4, (3, 4, 5)).astype(dtype.numpy)
    shape = tuple(n for d, n in enumerate(x.shape) if d not in axes)
    reduction = REDUCTIONS[name]
    made = reduced(reduction, np.zeros(shape, reduction.result_type(dtype).numpy), x, axes)
    if name in ("argmax", "argmin"):
        flat = np.moveaxis(x, axes, range(-len(axes), 0)).reshape(*shape, -1)
        wanted = NUMPY[name](flat.astype(np.float64), axis=-1)
    else:
        wanted = NUMPY[name](x.astype(np.int64), axis=axes)
    assert from_numpy(made.dtype) == reduction.result_type(dtype)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(made, wanted.astype(made.dtype))


@pytest.mark.parametrize(
    ("axis", "wanted"), [("1", (1,)), ("-1", (2,)), ("(2, 0)", (0, 2)), ("(-3, 1)", (0, 1)), ("(1,)", (1,))]
)
def test_a_call_names_axes_as_numpy_does(axis: str, wanted: tuple[int, ...]) -> None:
    kept = [n for d, n in enumerate((2, 3, 4)) if d not in wanted]
    text = f"""def k(A):
    x = tj.alloc_local((2, 3, 4), tj.float32)
    tj.thread.fill(x, 1)
    y = tj.alloc_local({(*kept,)}, tj.float32)
    tj.thread.sum(y, x, {axis})
"""
    (op,) = [s for s in statements(tile_ir(text, array()).body, ir.TileOp) if s.name == "sum"]
    assert op.attr("axis") == wanted


def test_without_axes_all_are_reduced() -> None:
    text = """def k(A):
    x = tj.alloc_local((2, 3), tj.float32)
    tj.thread.fill(x, 1)
    y = tj.alloc_local((1,), tj.float32)
    tj.thread.sum(y, x)
"""
    (op,) = [s for s in statements(tile_ir(text, array()).body, ir.TileOp) if s.name == "sum"]
    assert op.attr("axis") is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("sum(y, x, 2)", r"axes \(2,\) are invalid for a tile with 2 dimensions"),
        ("sum(y, x, (0, 0))", r"axes \(0, 0\) are invalid for a tile with 2 dimensions"),
        ("sum(y, x, 0)", r"shapes differ: \(2, 3\) without axes \(0,\) is \(3,\); the destination has \(2,\)"),
        ("sum(y, x, 1.0)", "axis= takes tuple; got 1.0"),
        ("sum(y, x, True)", "axis= takes tuple; got True"),
        ("argmax(y, x, 1)", "argmax of float32 gives int32; the destination is float32"),
    ],
)
def test_a_wrong_call_is_refused(call: str, message: str) -> None:
    text = f"""def k(A):
    x = tj.alloc_local((2, 3), tj.float32)
    y = tj.alloc_local((2,), tj.float32)
    tj.thread.{call}
"""
    with pytest.raises(KernelTypeError, match=message):
        tile_ir(text, array())


@EVERY
def test_the_example_computes_what_the_record_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_DEVICE", "sim")
    record = TILE_OPERATIONS[name]
    lines = "".join(f"    {line}\n" for line in [*record.example.splitlines(), "tj.thread.store(OUT[0:32], x)"])
    A = (np.arange(256).reshape(32, 8) * 7 % 30 / 2 - 3).astype(np.float32)
    out = np.zeros(32, REDUCTIONS[name].result_type(float32).numpy)
    kernel(threads=1)(source_of(f"def k(A, OUT):\n{lines}"))[1](A, out)
    wanted = record.reference(np.zeros_like(out), A, axis=(1,))
    np.testing.assert_allclose(out, wanted, rtol=1e-6)
