"""Parameters by annotation and default, what the IR makes of them, and captured values as a key."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilejit as tj
from tests.support.programs import array, source_of, tile_ir
from tilejit import dtypes
from tilejit.errors import KernelSyntaxError, KernelTypeError
from tilejit.frontend import NO_DEFAULT, KernelSource, ParameterKind, captures, parameters
from tilejit.frontend.kernel import with_overlaps
from tilejit.ir.nodes import (
    Strided,
    Var,
)
from tilejit.ir.params import (
    ExtentParam,
    PointerParam,
    ScalarParam,
    StrideParam,
)
from tilejit.ir.types import ScalarType, Signature
from tilejit.layout import S


def of(text: str, **names: Any) -> list[Any]:
    return list(parameters(KernelSource.of(source_of(text, **names))))


def test_annotations_say_the_kind_of_each_parameter() -> None:
    found = of("def k(A: tj.Tensor, B, N: tj.constexpr, n: tj.int32, m: tj.float16 = 2, j=3):\n    pass\n")
    assert [(p.kind, p.dtype) for p in found] == [
        (ParameterKind.ARRAY, None), (ParameterKind.ANY, None), (ParameterKind.CONSTEXPR, None),
        (ParameterKind.SCALAR, dtypes.int32), (ParameterKind.SCALAR, dtypes.float16),
        (ParameterKind.ANY, None),
    ]
    assert [p.default for p in found] == [NO_DEFAULT] * 4 + [2, 3]


def test_an_array_that_may_be_left_out_is_annotated_so() -> None:
    (parameter,) = of("def k(A: tj.Tensor | None = None):\n    pass\n")
    assert (parameter.kind, parameter.default) == (ParameterKind.ANY, None)


@pytest.mark.parametrize("head", ["", "from __future__ import annotations\n"])
def test_annotations_of_python_numbers_are_types_of_scalars(head: str) -> None:
    found = of(head + "def k(n: int, x: float = 2, b: bool = False, d: np.dtype('float64') = 1):\n    pass\n", np=np)
    assert [p.kind for p in found] == [ParameterKind.SCALAR] * 4
    # that of an int depends on its value
    assert [p.dtype for p in found] == [None, dtypes.float32, dtypes.bool_, dtypes.float64]


def test_string_annotations_are_evaluated_where_the_kernel_was_defined() -> None:
    found = of(
        "from __future__ import annotations\ndef make(half):\n"
        "    def k(A: tj.Tensor, n: half):\n        A[0] = half(n)\n"
        "    return k\nk = make(tj.float16)\n"
    )
    assert [p.kind for p in found] == [ParameterKind.ARRAY, ParameterKind.SCALAR]
    assert found[1].dtype == dtypes.float16


def test_a_spec_as_default_pins_the_array() -> None:
    (found,) = of("def k(A: tj.Tensor = tj.spec((32, 8), tj.float32)):\n    pass\n")
    assert found.spec == tj.spec((32, 8), dtypes.float32)
    assert found.spec.strides == (8, 1)
    assert found.default is NO_DEFAULT


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("def k(*A):\n    pass\n", KernelSyntaxError, "name every parameter"),
        ("def k(A, **more):\n    pass\n", KernelSyntaxError, r"\*more"),
        ("def k(A: 'nowhere'):\n    pass\n", KernelTypeError, "can't be evaluated"),
        ("def k(A: dict):\n    pass\n", KernelTypeError, "write tj.Tensor"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(text: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        of(text)


def test_array_parameters_are_pointer_extents_then_strides_but_the_one() -> None:
    kernel = tile_ir("def k(A, n, B):\n    A[0, 0] = n\n", array(rank=2), dtypes.int32, array(dtypes.float16, 1))
    assert [(type(p), p.of, getattr(p, "axis", None)) for p in kernel.params] == [
        (PointerParam, "A", None), (ExtentParam, "A", 0), (ExtentParam, "A", 1), (StrideParam, "A", 0),
        (ScalarParam, "n", None), (PointerParam, "B", None), (ExtentParam, "B", 0),
    ]
    names = [p.defines.name for p in kernel.params]
    assert names == ["A", "A.shape.0", "A.shape.1", "A.stride.0", "n", "B", "B.shape.0"]
    assert [p.writes for p in kernel.params if isinstance(p, PointerParam)] == ["A", None]
    strides = kernel.params[0].buffer.layout
    assert isinstance(strides, Strided) and strides.unit_dim == 1


def test_extents_and_strides_know_what_the_signature_promises() -> None:
    kernel = tile_ir("def k(A):\n    pass\n", array(dtypes.float16, 2, align=8, extent_align=4))
    numbers = [p.defines for p in kernel.params if isinstance(p.defines, Var)]
    facts = {var.name: (var.multiple_of, var.bounds) for var in numbers}
    assert facts == {"A.shape.0": (1, (0, 2**40)), "A.shape.1": (2, (0, 2**40)), "A.stride.0": (4, None)}


def test_a_pinned_array_has_no_extent_or_stride_parameters() -> None:
    kernel = tile_ir("def k(A):\n    tj.warp.fill(A, 0)\n", array(rank=2, shape=(32, 8), strides=(8, 1)))
    assert [type(p) for p in kernel.params] == [PointerParam]
    assert kernel.params[0].buffer.layout == S[(32, 8) : (8, 1)]


def test_arrays_that_overlap_are_not_noalias() -> None:
    kernel = tile_ir("def k(A, B):\n    A[0] = B[0]\n", array(overlaps=True), array())
    assert [p.noalias for p in kernel.params if isinstance(p, PointerParam)] == [False, True]


def test_a_constexpr_is_a_python_value_and_no_parameter() -> None:
    kernel = tile_ir("def k(A, N):\n    A[0] = N[1] + len(N)\n", array(), (3, 4))
    assert all(p.of == "A" for p in kernel.params)


HELPER = "@tj.function\ndef h(x):\n    return x * FACTOR\n\ndef k(A, n):\n    A[0] = h(n) + LAYOUT.size()\n"


def test_captures_follow_a_value_that_changes_in_a_helper() -> None:
    kernel = source_of(HELPER, FACTOR=1, LAYOUT=S[4])
    source = KernelSource.of(kernel)
    first = captures(source)
    assert captures(source) == first and hash(first) == hash(captures(source))
    for other in (1.0, True, 2, -0.0, 0.0, tj.float32):
        before = captures(source)
        kernel.__globals__["FACTOR"] = other
        assert captures(source) != before
    kernel.__globals__["FACTOR"] = 1
    assert captures(source) == first
    kernel.__globals__["LAYOUT"] = S[8]
    assert captures(source) != first


def test_captures_hold_the_text_of_helpers() -> None:
    keys = {
        captures(KernelSource.of(source_of(HELPER.replace("x *", f"x {op}"), FACTOR=2, LAYOUT=S[4]))) for op in "*+-"
    }
    assert len(keys) == 3


def test_captures_of_a_closure_are_its_cells() -> None:
    text = "def make(n):\n    def k(A):\n        A[0] = n\n    return k\nk = make(VALUE)\n"
    one, two = (captures(KernelSource.of(source_of(text, VALUE=v))) for v in (1, 2))
    assert one != two


def test_captures_end_for_helpers_that_call_themselves() -> None:
    source = KernelSource.of(source_of("@tj.function\ndef f(x):\n    return f(x)\n\ndef k(A):\n    A[0] = f(1)\n"))
    assert hash(captures(source)) is not None


def test_what_cannot_be_captured_counts_by_its_type_only() -> None:
    kernel = source_of("def k(A):\n    if A.ndim > 5:\n        A[0] = data[0]\n", data=[1])
    source = KernelSource.of(kernel)
    first = captures(source)
    kernel.__globals__["data"] = [2]
    assert captures(source) == first


def test_a_kernel_for_other_overlaps_is_the_one_that_would_be_read() -> None:
    text = "def k(A, B, n):\n    A[n] = B[n]\n"
    apart = tile_ir(text, array(), array(), dtypes.int32)
    types = (array(overlaps=True), array(), ScalarType(dtypes.int32))
    together = Signature(tuple(zip("ABn", types, strict=True)))
    other = tile_ir(text, array(overlaps=True), array(), dtypes.int32)
    assert other != apart and with_overlaps(apart, together) == other
    assert with_overlaps(other, together) is other
