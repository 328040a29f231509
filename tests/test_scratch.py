"""`tj.scratch`: shapes, contents, disjointness, refusals, and what is passed where no GPU is needed."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilejit as tj
from tests.support.programs import array, source_of, tile_ir
from tilejit.dataclass import replace
from tilejit.executable.header import c_header
from tilejit.ir import verify
from tilejit.ir.params import TensorMapParam
from tilejit.ir.text.parser import from_text
from tilejit.ir.text.printer import to_text

#: an extent as kernels write it, and its value for an array of shape (a, b), the scalar n and the grid (x, y)
EXTENTS = {
    "3": lambda a, b, n, x, y: 3, "X.shape[0]": lambda a, b, n, x, y: a, "X.shape[1] + 1": lambda a, b, n, x, y: b + 1,
    "n": lambda a, b, n, x, y: n, "tj.num_ctas(0)": lambda a, b, n, x, y: x,
    "tj.num_ctas(1) * N": lambda a, b, n, x, y: 5 * y, "tj.cdiv(X.size, n)": lambda a, b, n, x, y: -(-a * b // n),
    "max(X.shape[0], n) * 2": lambda a, b, n, x, y: 2 * max(a, n), "1": lambda a, b, n, x, y: 1,
    "tj.num_ctas(0) * tj.num_ctas(1)": lambda a, b, n, x, y: x * y,
}
KERNELS: dict[tuple[str, ...], tj.Kernel] = {}
SMALL = st.integers(1, 5)


def kernel(text: str, **options: Any) -> tj.Kernel:
    return tj.kernel(threads=32, **options)(source_of(text))


def filler(written: tuple[str, ...]) -> tj.Kernel:
    """A kernel whose first CTA stores the index of each element to scratch and to its transposed neighbour, then reads
    both, and copies the shape."""
    if written not in KERNELS:
        index, indices = "i", []
        for d in reversed(range(len(written))):
            indices.insert(0, f"{index} % W.shape[{d}]" if d else index)
            index = f"({index} // W.shape[{d}])"
        place = ", ".join(indices)
        sizes = "\n    ".join(f"S[{d}] = W.shape[{d}]" for d in range(len(written)))
        KERNELS[written] = kernel(
            f"def k(X, Y, S, n, N: tj.constexpr = 5):\n    W = tj.scratch(({', '.join(written)},), tj.int32)\n"
            f"    V = tj.scratch(({', '.join(written)},), tj.int32)\n    if tj.cta_id(0) + tj.cta_id(1) > 0:\n"
            f"        return\n    for i in range(tj.thread_id(), Y.shape[0], 32):\n        W[{place}] = i\n"
            f"        V[{place}] = -i\n    for i in range(tj.thread_id(), Y.shape[0], 32):\n"
            f"        Y[i] = W[{place}] * 1000 + V[{place}]\n    {sizes}\n"
        )
    return KERNELS[written]


@given(
    written=st.lists(st.sampled_from(sorted(EXTENTS)), min_size=1, max_size=3).map(tuple),
    a=SMALL, b=SMALL, n=SMALL, x=SMALL, y=SMALL,
)
def test_the_shape_is_that_of_its_expressions_and_two_calls_are_two_arrays(
    written: tuple[str, ...], a: int, b: int, n: int, x: int, y: int
) -> None:
    shape = [EXTENTS[each](a, b, n, x, y) for each in written]
    out, sizes = np.zeros(math.prod(shape), np.int32), np.zeros(len(shape), np.int32)
    with tj.use_device("sim"):
        filler(written)[x, y](np.zeros((a, b), np.float32), out, sizes, n)
    assert sizes.tolist() == shape
    np.testing.assert_array_equal(out, np.arange(out.size) * 999)


@pytest.mark.parametrize("index", ["W[0, X.shape[1]]", "W[n, 0]", "W[X.shape[0] - 10, 0]"])
def test_indices_are_checked_by_dimension(index: str) -> None:
    k = kernel(f"def k(X, n):\n    W = tj.scratch((X.shape[0], X.shape[1]), tj.float32)\n    {index} = 1.0\n")
    with tj.use_device("sim"), pytest.raises(tj.OutOfBoundsError, match="dimension . of W"):
        k[1](np.zeros((4, 4), np.float32), 4)


def test_what_nothing_wrote_is_an_undefined_read_also_where_an_earlier_launch_wrote_it() -> None:
    k = kernel(
        "def k(X, w):\n    W = tj.scratch(32, tj.float32)\n    if w == 1:\n        W[tj.thread_id()] = w\n"
        "    X[tj.thread_id()] = W[tj.thread_id()]\n"
    )
    x = np.ones(32, np.float32)
    with tj.use_device("sim"):
        k[1](x, 1)
        with pytest.raises(tj.UninitializedReadError, match="W"):
            k[1](x, 0)


COUNTER = """
def k(X, leave):
    Z = tj.scratch((2, 3), tj.int32, zeroed=True)
    if tj.thread_id() == 0:
        old = tj.atomic.add(Z[1, 2], 1, order="acq_rel")
        X[tj.cta_id(0)] = old
        if old == tj.num_ctas(0) - 1:
            Z[1, 2] = leave
"""


@pytest.mark.parametrize("checks", [True, False])
def test_zeroed_scratch_is_zero_at_entry_and_must_be_left_zero(checks: bool) -> None:
    x, k = np.zeros(4, np.int32), kernel(COUNTER)
    for _ in range(2):
        tj.simulate(k, 4, x, 0, checks=checks)
        assert sorted(x) == [0, 1, 2, 3]
    with pytest.raises(tj.SimulationError, match="k left element 5 of Z nonzero") as error:
        tj.simulate(k, 4, x, 7, checks=checks)
    assert error.value.span is not None and "zeroed=True" in error.value.span.text
    report = tj.simulate(k, 4, x, 7, checks=checks, on_finding="collect")
    (finding,) = report.findings
    assert (finding.rule, finding.level) == ("failure", "error") and "element 5 of Z" in finding.message


def test_another_error_is_not_followed_by_one_about_what_it_left() -> None:
    k = kernel(
        "def k(X):\n    Z = tj.scratch(1, tj.int32, zeroed=True)\n    if tj.thread_id() == 0:\n        Z[0] = 1\n"
        "    tj.cta_sync()\n    assert X[0] > 0, 'positive'\n    if tj.thread_id() == 0:\n        Z[0] = 0\n"
    )
    report = tj.simulate(k, 1, np.zeros(1, np.float32), on_finding="collect")
    assert {finding.rule for finding in report.findings} >= {"failure"}
    assert all("nonzero" not in finding.message for finding in report.findings)


SPLIT = """
def k(A, C, BK: tj.constexpr):
    W = tj.scratch((tj.num_ctas(0), 128), tj.float32)
    Z = tj.scratch(1, tj.int32, zeroed=True)
    last = tj.alloc_shared(1, tj.int32)
    part = tj.cta_id(0)
    x = tj.cta.load(A[part * BK : part * BK + BK, 0:128])
    tj.cta.store(W[part, 0:128], tj.sum(x, axis=0))
    tj.fence("gpu")
    tj.cta_sync()
    if tj.thread_id() == 0:
        last[0] = tj.atomic.add(Z[0], 1, order="acq_rel")
    tj.cta_sync()
    if last[0] == tj.num_ctas(0) - 1:
        tj.fence("gpu")
        total = tj.cta.zeros(128, tj.float32)
        for i in range(tj.num_ctas(0)):
            total = total + tj.cta.load(W[i, 0:128])
        tj.cta.store(C[0:128], total)
        if tj.thread_id() == 0:
            Z[0] = 0
"""


@pytest.mark.parametrize("parts", [1, 3, 8])
@pytest.mark.parametrize("schedule", range(3))
def test_the_last_cta_adds_what_all_have_stored(parts: int, schedule: int) -> None:
    a, c = np.random.default_rng(1).standard_normal((parts * 16, 128), np.float32), np.zeros(128, np.float32)
    k = tj.kernel(threads=128)(source_of(SPLIT))
    for resident in (None, 1, 2):
        c[:] = 0
        tj.simulate(k, parts, a, c, 16, schedule=schedule, resident=resident)
        np.testing.assert_allclose(c, a.sum(0, dtype=np.float64), rtol=1e-4, atol=1e-5)


BOXES = """
def k(A, B):
    W = tj.scratch((tj.num_ctas(0) * 64, 64), tj.float16)
    s = tj.alloc_shared((64, 64), tj.float16, swizzle="128B")
    full = tj.alloc_barrier()
    rows = tj.cta_id(0) * 64
    tj.cta.copy(s, A[rows : rows + 64, 0:64])
    tj.cta_sync()
    tj.cta.copy_async(W[rows : rows + 64, 0:64], s)
    tj.bulk.wait(0)
    tj.cta_sync()
    tj.cta.fill(s, 0)
    tj.cta_sync()
    tj.cta.copy_async(s, W[rows : rows + 64, 0:64], barrier=full)
    tj.cta.arrive(full)
    full.wait(0)
    tj.cta.copy(B[rows : rows + 64, 0:64], s)
"""


def test_scratch_is_copied_by_tma() -> None:
    k = tj.kernel(threads=128)(source_of(BOXES))
    a = np.arange(128 * 64).reshape(128, 64).astype(np.float16)
    b = np.zeros_like(a)
    executable = k.compile(a, b, target="sm_90a").executable
    assert [p.of for p in executable.params if isinstance(p, TensorMapParam)] == ["W"]
    tj.simulate(k, 2, a, b, target="sm_90a")
    np.testing.assert_array_equal(a, b)


REFUSED = {
    "W = tj.scratch(int(X[0]), tj.float32)": "an extent of scratch must be known when the kernel is launched",
    "W = tj.scratch((4, tj.cta_id(0)), tj.float32)": "an extent of scratch must be known when the kernel is launched",
    "W = tj.scratch((n, tj.thread_id()), tj.float32)": "an extent of scratch must be known when the kernel is launched",
    "for i in range(n):\n        W = tj.scratch(i, tj.float32)": "must be known when the kernel is launched",
    "W = tj.scratch(2.5, tj.float32)": "an extent of a shape must be an integer",
    "W = tj.scratch(X.shape[0] / 2, tj.float32)": "an extent of a shape must be an integer",
    "W = tj.scratch((), tj.float32)": "memory needs at least one dimension",
    "W = tj.scratch((4, 0), tj.float32)": "extents must be positive",
    "W = tj.scratch(-1, tj.float32)": "extents must be positive",
    "W = tj.scratch(4, 5)": "5 is not an element type",
    "W = tj.scratch(4)": "needs dtype",
    "W = tj.scratch(4, tj.float32, zeroed=3)": "zeroed must be a bool; got 3",
    "W = tj.scratch(4, tj.float32, zeroed=n)": "zeroed must be known at compile time",
    "W = tj.scratch((n, 2), tj.float32).reshape(-1)": "memory from tj.scratch with run-time extents can't be reshaped",
}


@pytest.mark.parametrize("written", REFUSED)
def test_a_bad_call_is_refused_at_its_argument(written: str) -> None:
    with pytest.raises(tj.TilejitError, match=REFUSED[written]) as error:
        tile_ir(f"def k(X, n):\n    {written}\n", array(tj.float32), tj.int32)
    assert error.value.span is not None and error.value.hint


def test_the_caret_is_at_the_extent_that_is_wrong() -> None:
    with pytest.raises(tj.KernelTypeError) as error:
        tile_ir("def k(X, n):\n    W = tj.scratch((n, X[0], 4), tj.int32)\n", array(tj.int32), tj.int32)
    span = error.value.span
    assert span is not None and span.text[span.column : span.end_column] == "X[0]"


@pytest.mark.parametrize("n", [-1, -5])
def test_a_negative_extent_is_refused_at_the_launch(n: int) -> None:
    k = kernel("def k(X, n):\n    W = tj.scratch((4, n), tj.float32)\n    W[0, 0] = X[0]\n")
    with tj.use_device("sim"), pytest.raises(tj.LaunchError, match=rf"W, scratch of k, can't have shape \(4, {n}\)"):
        k[1](np.zeros(4, np.float32), n)


def test_scratch_that_no_memory_holds_is_refused_with_its_shape_and_bytes() -> None:
    k = kernel("def k(X, n):\n    W = tj.scratch((n, n), tj.float64)\n    W[0, 0] = X[0]\n")
    with tj.use_device("sim"), pytest.raises(tj.LaunchError, match="k needs 12,800,[0-9,]+ bytes of scratch"):
        k[1](np.zeros(4, np.float32), 40_000_000)
    with tj.use_device("sim"), pytest.raises(tj.LaunchError, match=r"W of shape \(4\d+, 4\d+\) and type float64"):
        k[1](np.zeros(4, np.float32), 2**40 * 4)


def test_an_empty_array_and_an_empty_grid_need_no_memory() -> None:
    k = kernel("def k(X, n):\n    W = tj.scratch((tj.num_ctas(0), n), tj.float32)\n    X[0] = W.shape[1]\n")
    x = np.ones(4, np.float32)
    with tj.use_device("sim"):
        k[1](x, 0)
        k[0](x, 3)
    assert x[0] == 0


def test_its_name_doesnt_collide_with_arguments() -> None:
    x = np.zeros(3, np.float32)
    k = kernel(
        "def k(W, V):\n    W[0] = V[0]\n    if True:\n        V = tj.scratch(3, tj.float32)\n"
        "    V[1] = W[0] + 1\n    W[1] = V[1]\n"
    )
    with tj.use_device("sim"):
        k[1](x, np.full(3, 5, np.float32))
    assert x.tolist() == [5, 6, 0]


def test_a_grid_axis_that_only_a_shape_reads_is_read() -> None:
    k = kernel("def k(X):\n    W = tj.scratch(tj.num_ctas(1), tj.float32)\n    W[0] = X[0]\n")
    assert k.compile(tj.spec(4, tj.float32), target="sm_90a").executable.grid_axes == (1,)


def test_what_a_kernel_doesnt_use_isnt_allocated() -> None:
    k = kernel("def k(X, n):\n    W = tj.scratch(n, tj.float32)\n    X[0] = 1\n")
    executable = k.compile(tj.spec(4, tj.float32), tj.int32, target="sm_90a").executable
    assert executable.scratch == () and [p.of for p in executable.params] == ["X"]


def test_the_tile_ir_states_it_and_the_lane_ir_has_a_pointer_only() -> None:
    text = "def k(X, n):\n    W = tj.scratch((tj.num_ctas(0), n + 1), tj.int32, zeroed=True)\n    W[0, n] = X[0]\n"
    made = tile_ir(text, array(tj.int32), tj.int32)
    assert "scratch(%num_ctas.0, int64(n + 1)) zeroed" in to_text(made)
    assert from_text(to_text(made)) == made and verify.verify(made, "open") == []
    compiled = kernel(text).compile(tj.spec(4, tj.int32), tj.int32, target="sm_90a")
    assert "scratch(" in compiled.tile_ir and "scratch(" not in compiled.lane_ir


def test_an_undefined_name_in_an_extent_is_a_fault() -> None:
    made = tile_ir("def k(X, n):\n    W = tj.scratch(n, tj.int32)\n    W[0] = X[0]\n", array(tj.int32), tj.int32)
    without = [p for p in made.params if getattr(p, "of", "") != "n"]
    (first, *_) = verify.verify(replace(made, params=tuple(without)), "open")
    assert "n" in str(first)


def test_checked_builds_differ_only_where_something_must_be_left_zero() -> None:
    for zeroed in (False, True):
        k = kernel(f"def k(X):\n    W = tj.scratch(4, tj.int32, zeroed={zeroed})\n    W[0] = 0\n", debug=True)
        executable = k.compile(tj.spec(4, tj.int32), target="sm_90a").executable
        assert (executable.is_checked, executable.checks_zeroed) == (zeroed, zeroed)


def test_shapes_arguments_and_grids_share_one_variant() -> None:
    k = kernel("def k(X, n):\n    W = tj.scratch((tj.num_ctas(0), X.shape[0], n), tj.float32)\n    W[0, 0, 0] = X[0]\n")
    with tj.use_device("sim"):
        for size, n, grid in ((4, 1, 1), (8, 2, 3), (12, 5, 2)):
            k[grid](np.zeros(size, np.float32), n)
    assert len(k.signatures) == 1


def test_a_saved_kernel_and_one_from_the_disk_allocate_the_same(tmp_path: Path) -> None:
    x = np.zeros(4, np.int32)
    k = kernel(COUNTER)
    for debug in (False, True):
        k = kernel(COUNTER, debug=debug)
        k.compile(x, 0, target="sm_90a").save(tmp_path / "k.ptx")
        loaded = tj.load_compiled(tmp_path / "k.ptx")
        with tj.use_device("sim"):
            loaded[4](x, 0)
            assert sorted(x) == [0, 1, 2, 3]
            with pytest.raises(tj.SimulationError, match="k left element 5 of Z nonzero"):
                loaded[4](x, 1)


PROGRAM = """
import numpy as np, tilejit as tj

@tj.kernel(threads=32)
def k(X: tj.Tensor, leave: tj.int32):
    Z = tj.scratch((2, 3), tj.int32, zeroed=True)
    W = tj.scratch((tj.num_ctas(0), X.shape[0]), tj.int32)
    if tj.thread_id() == 0:
        W[tj.cta_id(0), 3] = tj.cta_id(0) + 5
        X[tj.cta_id(0)] = W[tj.cta_id(0), 3]
        Z[1, 2] = leave

x = np.zeros(4, np.int32)
with tj.use_device("sim"):
    k[4](x, 0)
    try:
        k[1](x, 1)
    except tj.SimulationError as error:
        print(error.message)
(variant,) = k.signatures
print(x, sorted(variant.compiled.timings)[0])
"""


def test_a_later_process_reads_it_from_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TILEJIT_CACHE", "1")
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(Path(tj.__file__).parents[1])}
    command = [sys.executable, str(tmp_path / "program.py")]
    runs = [subprocess.run(command, env=environment, capture_output=True, text=True, check=True) for _ in range(2)]
    outputs = [run.stdout for run in runs]
    expected = "k left element 5 of Z nonzero\n[5 6 7 8] "
    assert outputs[0].startswith(expected) and outputs[1] == f"{expected}disk\n" != outputs[0]


def test_processes_compile_it() -> None:
    k = kernel("def k(X, n: tj.int32):\n    W = tj.scratch((tj.num_ctas(0), n), tj.int32)\n    W[0, 0] = X[0]\n")
    here = kernel("def k(X, n: tj.int32):\n    W = tj.scratch((tj.num_ctas(0), n), tj.int32)\n    W[0, 0] = X[0]\n")
    jobs = [(tj.spec((4,), dtype), tj.int32) for dtype in (tj.int32, tj.int16)]
    for there, ours in zip(k.precompile(jobs, workers=0), here.precompile(jobs, workers=0), strict=True):
        (mine,), (other,) = there.executable.scratch, ours.executable.scratch
        assert mine == replace(other, span=mine.span) and mine.of == "W"


def test_a_header_says_what_to_allocate() -> None:
    k = kernel("def k(X, n):\n    W = tj.scratch((tj.num_ctas(0), n), tj.int32, zeroed=True)\n    W[0, n - 1] = 0\n")
    header = c_header(k.compile(tj.spec(4, tj.int32), tj.int32, target="sm_90a").executable)
    (line,) = [line for line in header.splitlines() if "scratch" in line]
    assert line.strip().startswith("uint64_t W_;") and "extents (%num_ctas.0, int64(n)), all 0 at the first" in line


def test_release_without_a_gpu_does_nothing() -> None:
    assert tj.release_scratch() is None


def test_regions_transposes_and_steps_of_scratch_need_no_check_at_a_launch() -> None:
    k = kernel(
        "def k(A, n):\n    X = tj.scratch((n, 8), tj.int32)\n"
        "    tj.warp.store(X[0:4, 0:8], tj.warp.load(A[0:4, 0:8]))\n"
        "    tj.warp_sync()\n    tj.warp.store(A[4:8, 0:8], tj.warp.load(X.T[0:8, 0:4]).T)\n"
        "    tj.warp.store(A[8:10, 0:8], tj.warp.load(X[0:4:2, 0:8]))\n"
    )
    a = np.zeros((10, 8), np.int32)
    a[:4] = np.arange(32).reshape(4, 8)
    with tj.use_device("sim"):
        k[1](a, 4)
    np.testing.assert_array_equal(a[4:8], a[:4])
    np.testing.assert_array_equal(a[8:10], a[:4:2])
    assert k.signatures[0].compiled.executable.reshapes == ()


def test_each_call_of_a_helper_and_each_unrolled_iteration_has_its_own() -> None:
    k = tj.kernel(threads=32)(source_of(
        "@tj.function\ndef helper(n):\n    return tj.scratch((n, 2), tj.int32)\n\n"
        "def k(A, n):\n    X = helper(n)\n    Y = helper(n)\n    i = tj.thread_id()\n"
        "    if i < 2:\n        X[0, i] = 1\n"
        "        Y[0, i] = 2\n    total = 0\n    for j in tj.static_range(2):\n        Q = tj.scratch(32, tj.int32)\n"
        "        Q[i] = j + 3\n        total += Q[i]\n"
        "    if i < 2:\n        A[i] = X[0, i] * 10 + Y[0, i] + total * 100\n"
    ))
    a = np.zeros(2, np.int32)
    with tj.use_device("sim"):
        k[1](a, 3)
    assert a.tolist() == [712, 712] and len(k.signatures[0].compiled.executable.scratch) == 4
