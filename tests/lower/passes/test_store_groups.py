"""Waits that leave the latest stores from shared memory unfinished: these must be of one scope."""

from __future__ import annotations

import pytest

from tests.support.programs import tile_ir
from tilejit.dtypes import float16, int32
from tilejit.errors import KernelTypeError
from tilejit.ir.types import ArrayType
from tilejit.lower import lower
from tilejit.target import target

MATRIX = ArrayType(float16, 2, 1, 16, 16, shape=(128, 64), strides=(64, 1))
TEXT = """def k(A, B, n):
    a, line = tj.alloc_shared((64, 64), A.dtype, swizzle="128B"), tj.alloc_shared((64,), A.dtype)
    full = tj.alloc_barrier()
"""
CTA, WARP = "tj.cta.copy_async(B[0:64, 0:64], a)", "tj.warp.copy_async(B[64:128, 0:64], a)"
# one run of bytes, without a tensor map
BULK = "tj.warp.copy_async(B[8, 0:64], line, variant='bulk')"
LOAD = "tj.warp.copy_async(a, A[0:64, 0:64], barrier=full)\ntj.warp.arrive(full)"


def lowered(*body: str) -> None:
    text = TEXT + "".join(f"    {line}\n" for part in body for line in part.splitlines())
    lower(tile_ir(text, MATRIX, MATRIX, int32, threads=64), target("sm_90a"))


@pytest.mark.parametrize(
    "body",
    [
        (CTA, CTA, "tj.bulk.wait_read(1)", "tj.bulk.wait(1)"),
        # a load is no store
        (CTA, LOAD, CTA, "tj.bulk.wait_read(1)"),
        (CTA, WARP, "tj.bulk.wait_read(0)", "tj.bulk.wait(0)"),
        (CTA, "tj.bulk.wait(0)", WARP, "tj.bulk.wait(1)"),
        (CTA, "tj.bulk.wait_read(0)", WARP, WARP, "tj.bulk.wait_read(1)"),
        ("tj.bulk.wait_read(1)", CTA, WARP),
    ],
)
def test_stores_of_one_scope_are_counted(body: tuple[str, ...]) -> None:
    lowered(*body)


@pytest.mark.parametrize(
    "body, line, call",
    [
        ((CTA, WARP, "tj.bulk.wait_read(1)"), 6, r"wait_read\(1\)"),
        ((CTA, WARP, "tj.bulk.wait(2)"), 6, r"wait\(2\)"),
        # read, but not landed
        ((CTA, "tj.bulk.wait_read(0)", WARP, "tj.bulk.wait(1)"), 7, r"wait\(1\)"),
        ((CTA, "tj.bulk.wait(1)", WARP, "tj.bulk.wait_read(1)"), 7, r"wait_read\(1\)"),
        ((f"for i in range(n):\n    tj.bulk.wait_read(1)\n    {CTA}\n    {WARP}",), 5, r"wait_read\(1\)"),
        ((f"if n > 3:\n    {CTA}", WARP, "tj.bulk.wait_read(1)"), 7, r"wait_read\(1\)"),
        ((CTA, BULK, "tj.bulk.wait_read(1)"), 6, r"wait_read\(1\)"),
    ],
)
def test_where_stores_of_two_scopes_may_be_pending_a_count_is_refused(
    body: tuple[str, ...], line: int, call: str
) -> None:
    with pytest.raises(KernelTypeError, match=rf"tj.bulk.{call} counts the stores of one thread") as refused:
        lowered(*body)
    error = refused.value
    assert "tj.cta at" in error.message and "tj.warp at" in error.message
    assert error.span is not None and error.span.line == line
    assert "^" in str(error) and "one scope, or wait for all of them" in (error.hint or "")
