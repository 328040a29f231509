"""Errors that need more than a statement: layouts that conflict, helpers, launches; tests/errors has the statements."""

from __future__ import annotations

import pytest

import tilejit as tj
from tests.support.programs import array, tile_ir
from tilejit import dtypes
from tilejit.errors import KernelTypeError, ResourceError


def plain(x):
    return x


IN_TWO_LAYOUTS = """def k(A, n):
    x = tj.warp.load(A[0:32, 0:4], layout=tj.S[(4, 8, 4) : (1 @ tj.laneid, 4 @ tj.laneid, 1)])
    y = tj.warp.load(A[0:32, 0:4], layout=tj.S[(32, 4) : (1 @ tj.laneid, 1)])
    {}
    tj.warp.store(A[0:32, 0:4], z)
"""


@pytest.mark.parametrize(
    ("join", "words"),
    [
        ("z = x if n > 2 else y", "is in layout {0} on one path, and in layout {1} on another"),
        (
            "z = x\n    if n > 2:\n        z = y",
            "is in layout {1} where line 6 assigns it, and in layout {0} where line 4 does",
        ),
    ],
    ids=["expression", "statement"],
)
def test_conflicting_layouts_are_named_in_full_and_the_help_changes_one(join: str, words: str) -> None:
    with pytest.raises(KernelTypeError) as caught:
        tile_ir(IN_TWO_LAYOUTS.format(join), array(rank=2), dtypes.int32)
    layouts = "S[(4, 8, 4) : (1 @ laneid, 4 @ laneid, 1)]", "S[(32, 4) : (1 @ laneid, 1)]"
    assert words.format(*layouts) in str(caught.value)
    assert "layout=" in (caught.value.hint or "")
    assert "astype" not in (caught.value.hint or "")


def test_an_error_in_a_helper_shows_the_call_too() -> None:
    text = "@tj.function\ndef f(x):\n    return x + y\n\ndef k(A):\n    A[0] = f(1)\n"
    with pytest.raises(KernelTypeError) as caught:
        tile_ir(text, array())
    assert (caught.value.span.line, caught.value.span.caller.line) == (3, 6)
    assert "called from" in str(caught.value)


def test_intrinsics_outside_a_kernel_say_so() -> None:
    for call in (lambda: tj.cta_id(0), lambda: tj.warp.copy(1, 2), lambda: tj.exp(1.0), lambda: tj.function(plain)(1)):
        with pytest.raises(KernelTypeError, match="inside a kernel"):
            call()


def test_too_many_threads_are_a_resource_error() -> None:
    with pytest.raises(ResourceError, match="2000 threads"):
        tile_ir("def k(A):\n    pass\n", array(), threads=2000)
