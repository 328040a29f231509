"""Golden files of passes: what each changes in a small kernel, as a diff of the IR before and after it."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import partial

import pytest

import tilejit as tj
from tests.support.goldens import Golden
from tilejit import pipeline
from tilejit.dataclass import replace
from tilejit.ir.nodes import Kernel
from tilejit.ir.text.printer import to_text
from tilejit.pipeline import PASSES, Pass, PassResults

HALVES, FLOATS = (tj.spec((256, 1024), dtype) for dtype in (tj.float16, tj.float32))
LONG_ROWS = tj.spec((4, 65536), tj.float16)


def scaled(A: tj.Tensor, B: tj.Tensor, n: tj.int32):
    assert n > 0
    tj.warp.store(B[tj.cta_id(), :128], tj.warp.load(A[tj.cta_id(), :128]) * 2.0)


def waits(A: tj.Tensor, B: tj.Tensor):
    while A[0, 0] == 0:
        pass
    B[0, tj.thread_id()] = A[1, tj.thread_id()]


def through_a_ring(A: tj.Tensor, B: tj.Tensor):
    stages = tj.alloc_shared((2, 8, 64), A.dtype)
    ring = tj.alloc_ring(2, consumers=1)
    if tj.warp_id() == 0:
        for i in range(4):
            t = ring[i]
            t.acquire()
            tj.warp.copy_async(stages[t.stage], A[8 * i : 8 * i + 8, :64], barrier=t)
    else:
        for i in range(4):
            t = ring[i]
            t.wait()
            x = tj.warp.load(stages[t.stage])
            tj.warp.release(t)
            tj.warp.store(B[8 * i : 8 * i + 8, :64], x)


def multiplies(A: tj.Tensor, B: tj.Tensor):
    a = tj.alloc_shared((64, 64), A.dtype, swizzle="128B")
    acc = tj.alloc_local((64, 64), tj.float32, layout=tj.wgmma.layout_c((64, 64)))
    tj.cta.copy(a, A[:64, :64])
    tj.cta_sync()
    tj.wg.gemm_async(acc, a, a, accumulate=False)
    tj.wgmma.wait(0)
    tj.wg.copy(B[:64, :64], acc)


def shares_a_copy(A: tj.Tensor, B: tj.Tensor):
    s = tj.alloc_shared((64, 64), A.dtype, swizzle="128B")
    acc = tj.alloc_local((64, 64), tj.float32, layout=tj.wgmma.layout_c((64, 64)))
    ring = tj.alloc_ring(1, consumers=8, multicast=0)
    t = ring[0]
    if tj.warp_id() == 0:
        t.acquire()
        tj.warp.copy_async(s, A[:64, :64], barrier=t, multicast=0)
    t.wait()
    tj.wg.gemm_async(acc, s, s, accumulate=False)
    tj.wgmma.wait(0)
    tj.warp.release(t)
    tj.wg.copy(B[64 * tj.cta_id() : 64 * tj.cta_id() + 64, :64], acc)


def reads_a_row_twice(A: tj.Tensor, B: tj.Tensor):
    s = tj.alloc_shared((1024,), tj.float32)
    x = tj.cta.load(A[0, :65536])
    s[tj.thread_id()] = tj.max(x.astype(tj.float32))
    tj.cta_sync()
    tj.cta.store(B[0, :65536], (x.astype(tj.float32) * s[0]).astype(A.dtype))


def copies_rows(A: tj.Tensor, B: tj.Tensor, n: tj.int32):
    for i in range(n):
        tj.warp.store(B[i, :1024], tj.warp.load(A[i, :1024]) * tj.float32(n * 3))


#: pass -> a kernel that it changes, and the arguments
CASES: dict[str, tuple[Callable[..., tj.Kernel], Callable[..., None], tuple[object, ...]]] = {
    "layouts": (tj.kernel(threads=32), scaled, (FLOATS, FLOATS, tj.int32)),
    "checks": (tj.kernel(threads=32, debug=True), scaled, (FLOATS, FLOATS, tj.int32)),
    "lower": (tj.kernel(threads=32), scaled, (FLOATS, FLOATS, tj.int32)),
    "polls": (tj.kernel(threads=32), waits, (FLOATS, FLOATS)),
    "expects": (tj.kernel(threads=64), through_a_ring, (HALVES, HALVES)),
    "proxies": (tj.kernel(threads=128), multiplies, (HALVES, FLOATS)),
    "arrivals": (tj.kernel(threads=64), through_a_ring, (HALVES, HALVES)),
    "clusters": (tj.kernel(threads=128, cluster=2), shares_a_copy, (HALVES, FLOATS)),
    "storage": (tj.kernel(threads=64), through_a_ring, (HALVES, HALVES)),
    "pending": (tj.kernel(threads=128), multiplies, (HALVES, FLOATS)),
    "packed": (tj.kernel(threads=1024), reads_a_row_twice, (LONG_ROWS, LONG_ROWS)),
    "assertions": (tj.kernel(threads=32, debug=True), scaled, (FLOATS, FLOATS, tj.int32)),
    "prune": (tj.kernel(threads=32), waits, (FLOATS, FLOATS)),
    "unroll": (tj.kernel(threads=32), copies_rows, (FLOATS, FLOATS, tj.int32)),
    "split offsets": (tj.kernel(threads=32), copies_rows, (FLOATS, FLOATS, tj.int32)),
    "hoist": (tj.kernel(threads=32), copies_rows, (FLOATS, FLOATS, tj.int32)),
}

#: passes that only check or measure a kernel, or emit its PTX
KEEPING = {"limits", "initialized", "in place", "registers", "codegen"}


def test_each_pass_has_a_golden_file_or_changes_no_kernel() -> None:
    assert {*CASES, *KEEPING} == {step.name for step in PASSES} and not KEEPING & set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_pass_changes_a_kernel_as_stored(name: str, golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    decorate, function, arguments = CASES[name]
    texts: dict[str, tuple[str, str]] = {}

    def recorded(step: Pass, before: Kernel, results: PassResults) -> Kernel:
        after = step.run(before, results) or before
        if step.name in KEEPING:
            assert after is before
        texts[step.name] = to_text(before), to_text(after)
        return after

    monkeypatch.setattr(
        pipeline, "PASSES", tuple(replace(step, run=partial(recorded, step)) for step in PASSES)
    )
    decorate(function).compile(*arguments, target="sm_90a")
    before, after = (text.splitlines() for text in texts[name])
    changed = list(difflib.unified_diff(before, after, "before", "after", lineterm="", n=2))
    assert changed
    golden.check(f"passes/{name.replace(' ', '_')}.diff", "\n".join(changed))
