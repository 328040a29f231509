"""A product over stages that cp.async fills: each wait, commit, barrier and stage index that is off is reported."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit as tj
from tests.mutations.edits import Program, reports


def run_product(kernel: tj.Kernel, n: int) -> None:
    random = np.random.default_rng(n)
    a, b = (random.integers(-3, 4, shape).astype(np.float16) for shape in ((32, n), (n, 32)))
    c = np.zeros((32, 32), np.float32)
    kernel[1](a, b, c)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


PRODUCT = Program(
    """
@tj.kernel(threads=64)
def k(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor):
    a_stages = tj.alloc_shared((3, 32, 32), tj.float16, swizzle="64B")
    b_stages = tj.alloc_shared((3, 32, 32), tj.float16, swizzle="64B")
    sums = tj.alloc_local((32, 32), tj.float32, layout=tj.mma.layout_c((32, 32), warps=(2, 1)))
    tj.cta.fill(sums, 0)
    for step in tj.static_range(2):
        tj.cta.copy_async(a_stages[step], A.tile((32, 32), (0, step)))  # fetch-a
        tj.cta.copy_async(b_stages[step], B.tile((32, 32), (step, 0)))  # fetch-b
        tj.cp_async.commit()  # first-commits
    for step in range(tj.cdiv(A.shape[1], 32)):
        tj.cp_async.wait(1)  # wait
        tj.cta_sync()  # landed
        now = step % 3
        coming = step + 2
        tj.cta.copy_async(a_stages[coming % 3], A.tile((32, 32), (0, coming)))  # refill-a
        tj.cta.copy_async(b_stages[coming % 3], B.tile((32, 32), (coming, 0)))  # refill-b
        tj.cp_async.commit()  # commit
        a = tj.cta.load(a_stages[now], layout=tj.mma.layout_a((32, 32), tj.float16, warps=(2, 1)))  # read-a
        b = tj.cta.load(b_stages[now], layout=tj.mma.layout_b((32, 32), tj.float16, warps=(2, 1)))  # read-b
        tj.cta.gemm(sums, a, b)
    tj.cta.store(C[0:32, 0:32], sums)
""",
    run_product,
    (32, 8, 72, 160, 256),
)


@pytest.fixture(autouse=True)
def simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_DEVICE", "sim:sm_90a")
    monkeypatch.delenv("TILEJIT_SIM_CHECKS", raising=False)


@pytest.mark.parametrize("n", PRODUCT.sizes)
def test_the_product_is_right_without_a_report(n: int) -> None:
    run_product(PRODUCT.kernel(), n)


DROPPED = [
    ("wait", tj.AsyncHazardError, ("fetch-a", "read-a")),
    ("landed", tj.RaceError, ("fetch-a", "read-a")),
    ("first-commits", tj.AsyncHazardError, ("fetch-a", "read-a")),
    ("commit", tj.AsyncHazardError, ("fetch-a", "read-a")),
    ("fetch-b", tj.UninitializedReadError, ("read-b",)),
]


@pytest.mark.parametrize(("label", "kind", "lines"), DROPPED, ids=[d[0] for d in DROPPED])
def test_a_dropped_statement_of_the_pipeline_is_reported(
    label: str, kind: type[tj.SimulationError], lines: tuple[str, ...]
) -> None:
    reports(PRODUCT.without(label), kind, lines)


CHANGED = [
    ("wait(1)", "wait(2)", tj.AsyncHazardError, ("fetch-a", "read-a")),
    ("now = step % 3", "now = (step + 1) % 3", tj.AsyncHazardError, ("fetch-a", "read-a")),
    ("b_stages[coming % 3]", "b_stages[now]", tj.AsyncHazardError, ("refill-b", "read-b")),
    ("a_stages[coming % 3]", "a_stages[(step + 1) % 3]", tj.AsyncHazardError, ("fetch-a", "refill-a")),
]


@pytest.mark.parametrize(("old", "new", "kind", "lines"), CHANGED, ids=[c[1] for c in CHANGED])
def test_a_wrong_count_or_stage_is_reported(
    old: str, new: str, kind: type[tj.SimulationError], lines: tuple[str, ...]
) -> None:
    reports(PRODUCT.replaced((old, new)), kind, lines)


#: what makes two stages of the three, as right
TWO_STAGES = [
    ("(3, 32", "(2, 32"), ("% 3", "% 2"), ("step + 2", "step + 1"), ("range(2)", "range(1)"), ("wait(1)", "wait(0)"),
]


def test_a_stage_that_is_refilled_before_the_barrier_is_a_race_with_slower_warps() -> None:
    text = PRODUCT.text
    for old, new in TWO_STAGES:
        text = text.replace(old, new)
    run_product(Program(text, run_product, PRODUCT.sizes).kernel(), 160)
    late = text.replace("        tj.cta_sync()  # landed\n", "")
    late = late.replace("commit()  # commit\n", "commit()\n        tj.cta_sync()\n")
    reports(Program(late, run_product, PRODUCT.sizes), tj.RaceError, ("refill-a", "read-a"))
