"""Elements of tiles at other places, against NumPy: gather, flip, roll, histogram, steps, parts at run-time places."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import tilejit as tj
from tests.support.programs import source_of
from tests.support.ptx import instructions
from tests.support.ptxas import ptxas_accepts
from tilejit.dtypes import DType
from tilejit.runtime.device import Device
from tilejit.testing import dtypes, register_layouts

EXTENTS = st.sampled_from((1, 2, 3, 5, 7, 8, 13, 16, 24, 32))
SCOPES = st.sampled_from((("thread", 33), ("warp", 32), ("warp", 64), ("warpgroup", 128), ("cta", 48), ("cta", 128)))
INTEGERS = ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64")
DTYPES = ("bool", "int8", "uint16", "int32", "int64", "float16", "float32", "float64")


def box(shape: tuple[int, ...]) -> str:
    return ", ".join(f"0:{extent}" for extent in shape)


class Case:
    """A tile of `values` on a scope, with a given layout unless that is None."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.scope, self.threads = draw(SCOPES)
        self.layout = None
        most = 40 if self.scope == "thread" else 512
        self.shape = draw(st.lists(EXTENTS, min_size=1, max_size=3).map(tuple).filter(lambda s: math.prod(s) <= most))
        if self.scope != "thread" and draw(st.integers(0, 2)) == 0:
            layouts = register_layouts(self.scope, threads=self.threads, max_registers=8, rank=draw(st.integers(1, 2)))
            self.layout, self.shape = draw(layouts)
        self.axis = draw(st.integers(0, len(self.shape) - 1))
        self.extent = self.shape[self.axis]
        random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        self.values: np.ndarray = random.integers(0, 100, self.shape)
        self.random = random

    def kernel(self, text: str, result: np.ndarray, *more: str) -> Any:
        """A kernel that stores the expression `text` of the tile x, of which `i` is the run-time number."""
        loaded = f"tj.{self.scope}.load(X[{box(self.shape)}]{'' if self.layout is None else ', layout=L'})"
        store = f"tj.{self.scope}.store(Y[{box(result.shape)}], {text})" if result.shape else f"Y[()] = {text}"
        lines = ["def moved(X, Y, J, i: tj.int32, L: tj.constexpr):", f"x = {loaded}", *more, store]
        return tj.kernel(threads=self.threads)(source_of("\n    ".join(lines) + "\n"))

    def check(
        self, text: str, expected: np.ndarray, dtype: np.dtype[Any], *more: str, j: np.ndarray | None = None,
        i: int = 0,
    ) -> None:
        result = np.zeros(expected.shape, expected.dtype)
        index = np.zeros(1, np.int32) if j is None else j
        kernel = self.kernel(text, result, *more)
        kernel[1](self.values.astype(dtype), result, index, i, self.layout)
        np.testing.assert_array_equal(result, expected)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    return Case(draw)


@given(case=cases(), dtype=dtypes(), wide=st.sampled_from(INTEGERS))
def test_gather_is_take_along_axis(case: Case, dtype: DType, wide: str) -> None:
    extent = case.draw(st.sampled_from((1, 2, 5, 8, case.extent)))
    shape = (*case.shape[: case.axis], extent, *case.shape[case.axis + 1 :])
    if case.scope == "thread" and math.prod(shape) > 64:
        return
    index = case.random.integers(0, min(case.extent, 128), shape).astype(wide)
    axis = case.axis - len(shape) if case.random.random() < 0.5 else case.axis
    expected = np.take_along_axis(case.values.astype(dtype.numpy), index.astype(np.int64), case.axis)
    load = f"j = tj.{case.scope}.load(J[{box(shape)}])"
    case.check(f"tj.gather(x, j, {axis})", expected, np.dtype(dtype.numpy), load, j=index)


@given(case=cases(), dtype=st.sampled_from(DTYPES).map(np.dtype), shift=st.integers(-70, 70),
       kind=st.sampled_from(("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")))
def test_flip_and_roll_are_numpy_s(case: Case, dtype: np.dtype[Any], shift: int, kind: str) -> None:
    values, axis = case.values.astype(dtype), case.axis
    case.check(f"tj.flip(x, {axis})", np.flip(values, axis), dtype)
    case.check(f"tj.roll(x, {shift}, {axis})", np.roll(values, shift, axis), dtype)
    case.check(f"tj.roll(x, i, {axis})", np.roll(values, shift, axis), dtype, i=shift)
    # a shift that its type wraps, or whose type is narrower than the extent
    wrapped = int(np.array(shift).astype(kind)) % case.extent
    case.check(f"tj.roll(x, tj.{kind}(i), {axis})", np.roll(values, wrapped, axis), dtype, i=shift)


@given(case=cases(), dtype=st.sampled_from(DTYPES).map(np.dtype), step=st.sampled_from((-9, -3, -2, -1, 2, 3, 5, 40)))
def test_slices_with_steps(case: Case, dtype: np.dtype[Any], step: int) -> None:
    first = case.draw(st.integers(0, case.extent - 1))
    last = case.draw(st.integers(first, case.extent - 1))
    ends = case.draw(st.sampled_from(((None, None), (first, None), (None, last), (first, last))))
    start, stop = ends if step > 0 else ends[::-1]
    taken = f"{'' if start is None else start}:{'' if stop is None else stop}:{step}"
    text = f"x[{', '.join([':'] * case.axis + [taken])}]"
    expected = eval(text, {"x": case.values.astype(dtype)})
    if expected.size:
        case.check(text, expected, dtype)


@given(case=cases(), dtype=st.sampled_from(DTYPES).map(np.dtype))
def test_parts_at_run_time_places(case: Case, dtype: np.dtype[Any]) -> None:
    items, place = [], case.draw(st.integers(0, min(case.shape) - 1))
    for extent in case.shape:
        width = case.draw(st.integers(1, extent - place))
        items.append(case.draw(st.sampled_from((":", "i", "i", f"i : i + {width}", str(extent // 2), "::2"))))
    if case.scope == "thread" and "i" not in items[0]:
        return
    text = f"x[{', '.join(items)}]"
    expected = np.asarray(eval(text, {"x": case.values.astype(dtype), "i": place}))
    case.check(text, expected, dtype, i=place)


@given(case=cases(), dtype=st.sampled_from(INTEGERS),
       bins=st.sampled_from((1, 2, 10, 99, 300)), is_masked=st.booleans())
def test_histogram_counts_values(case: Case, dtype: str, bins: int, is_masked: bool) -> None:
    # a thread holds all counts of its own histogram in registers
    assume(bins < 255 or case.scope != "thread")
    shift = 0 if dtype.startswith("u") else 7
    values = case.values - shift
    counted = values[(values >= 0) & (values < bins) & ((values != 1) if is_masked else True)]
    expected = np.bincount(counted.ravel(), minlength=bins).astype(np.int32)
    case.values = values
    case.check(f"tj.histogram(x, {bins}{', mask=x != 1' if is_masked else ''})", expected, np.dtype(dtype))


@st.composite
def steps(draw: st.DrawFn, space: str) -> tuple[str, str]:
    """A slice, and the same one in a grid of one CTA."""
    step, start = draw(st.integers(2, 5)), draw(st.integers(0, 9))
    stop = start + draw(st.integers(1, 7))
    if space == "global" and draw(st.booleans()):
        moved = f"{step} * tj.num_ctas(0)"
        return f"{moved} + {start} : {moved} + {stop} : {step}", f"{step + start} : {step + stop} : {step}"
    return (f"{start}:{stop}:{step}",) * 2


@pytest.mark.filterwarnings("ignore::tilejit.OutsideWarning")
@given(
    data=st.data(), shape=st.tuples(EXTENTS, EXTENTS), is_pinned=st.booleans(), is_transposed=st.booleans(),
    space=st.sampled_from(("global", "shared")),
)
def test_regions_with_steps(
    data: st.DataObject, shape: tuple[int, int], is_pinned: bool, is_transposed: bool, space: str
) -> None:
    slices = [data.draw(steps(space)) for _ in range(2)]
    key, numbers = (", ".join(each) for each in zip(*slices, strict=True))
    shape = (24, 24) if space == "shared" else shape
    a = np.random.default_rng(1).random(shape).astype(np.float32)
    a = np.asfortranarray(a) if is_transposed and not is_pinned else a
    padded = np.zeros((64, 64), np.float32)
    padded[: shape[0], : shape[1]] = a
    expected = eval(f"padded[{numbers}]", {"padded": padded})
    spec = f" = tj.spec({shape}, tj.float32)" if is_pinned else ""
    name, lines = "A", [f"def k(Y, A: tj.Tensor{spec}):"]
    if space == "shared":
        name = "s"
        lines += ["s = tj.alloc_shared((24, 24), tj.float32)", "tj.cta.copy(s, A[0:24, 0:24])", "tj.cta_sync()"]
    lines += [f"x = tj.cta.load({name}[{key}])", f"tj.cta.store(Y[{box(expected.shape)}], x)"]
    lines += [*(["tj.cta_sync()"] * (space == "shared")), f"tj.cta.store({name}[{key}], x + 1)"]
    lines += ["tj.cta_sync()", "tj.cta.copy(A[0:24, 0:24], s)"] * (space == "shared")
    y = np.zeros(expected.shape, np.float32)
    tj.kernel(threads=64)(source_of("\n    ".join(lines) + "\n"))[1](y, a)
    np.testing.assert_array_equal(y, expected)
    exec(f"padded[{numbers}] += 1", {"padded": padded})
    np.testing.assert_array_equal(a, padded[: shape[0], : shape[1]])


@tj.kernel(threads=128)
def every_way(X: tj.Tensor, Y: tj.Tensor, n: tj.int32):
    """The memory of one exchange is used again after all threads have read it: in a loop, and by later exchanges."""
    x = tj.cta.load(X[0:16, 0:32])
    y = tj.cta.zeros((32,), tj.float32)
    for i in range(n):
        y = y + x[i] * x[i, 3]
        x = tj.roll(tj.flip(x, 0), i, 1)
        if i % 2 == 0:
            y = y + x[n - 1 - i][::-1]
    w = tj.warp.load(X[tj.warp_id(), 0:32])
    w = tj.gather(w, tj.warp.indices((32,), 0) ^ 5, 0)
    counts = tj.histogram(w.astype(tj.int32), 7)
    tj.cta.store(Y[0, :32], y)
    tj.warp.store(Y[1 + tj.warp_id(), :32], w)
    tj.warp.store(Y[5 + tj.warp_id(), 0:7], counts.astype(tj.float32))


def test_exchanges_in_loops_branches_and_several_warps(device: Device) -> None:
    a = np.random.default_rng(1).integers(0, 9, (16, 32)).astype(np.float32)
    result = np.zeros((9, 32), np.float32)
    with tj.use_device(device.name):
        every_way[2](a, result, 5)
    x, y = a, np.zeros(32, np.float32)
    for i in range(5):
        y = y + x[i] * x[i, 3]
        x = np.roll(np.flip(x, 0), i, 1)
        if i % 2 == 0:
            y = y + x[4 - i][::-1]
    np.testing.assert_array_equal(result[0], y)
    np.testing.assert_array_equal(result[1:5], a[:4, np.arange(32) ^ 5])
    counts = [np.bincount(row.astype(int), minlength=9)[:7] for row in a[:4]]
    np.testing.assert_array_equal(result[5:, :7], counts)


@tj.kernel(threads=128)
def row_of_each_warp(X: tj.Tensor, Y: tj.Tensor):
    x = tj.warp.load(X[0:8, 0:32])
    tj.warp.store(Y[tj.warp_id(), 0:32], x[tj.warp_id()] + x[tj.warp_id() + 1, 2])


def test_each_warp_may_take_another_part(device: Device) -> None:
    a, result = np.random.default_rng(0).random((8, 32), np.float32), np.zeros((4, 32), np.float32)
    with tj.use_device(device.name):
        row_of_each_warp[1](a, result)
    np.testing.assert_array_equal(result, a[:4] + a[1:5, 2:3])


@tj.kernel(threads=128)
def row(X: tj.Tensor, Y: tj.Tensor, i: tj.int32):
    x = tj.cta.load(X[0:128, 0:64])
    tj.cta.store(Y[0:64], x[i] * 2)


def test_a_row_of_a_large_tile_is_cheap() -> None:
    specs = tj.spec((128, 64), tj.float32), tj.spec((64,), tj.float32)
    compiled = row.compile(*specs, 5, target="sm_90a")
    assert len(instructions(compiled.ptx)) <= 300
    assert compiled.shared_bytes == 64 * 4
    ptxas_accepts(compiled.ptx, "sm_90a")


def test_empty_tiles() -> None:
    text = """def k(X, Y):
    x = tj.cta.load(X[0:4, 0:0])
    y = tj.cta.load(X[0:4, 0:2])
    none = tj.cta.zeros((4, 0), tj.int32)
    tj.cta.store(Y[0:4, 0:0], tj.flip(x, 0) + tj.flip(x, 1) + tj.roll(x, 1, 1) + tj.roll(x, Y.shape[0], 0))
    tj.cta.store(Y[0:4, 0:0], tj.gather(y, none, 1) + tj.gather(x, none, 0) + x[::-1] + x[:, ::2])
    tj.cta.store(Y[0, 0:3], tj.histogram(none, 3).astype(tj.float32) + 1)
"""
    y = np.zeros((4, 3), np.float32)
    tj.kernel(threads=32)(source_of(text))[1](np.zeros((4, 2), np.float32), y)
    np.testing.assert_array_equal(y[0], 1)


@tj.kernel(threads=32)
def gathered(X: tj.Tensor, J: tj.Tensor, Y: tj.Tensor):
    x, j = tj.warp.load(X[0:4, 0:8]), tj.warp.load(J[0:4, 0:3])
    tj.warp.store(Y[0:4, 0:3], tj.gather(x, j, 1))


@tj.kernel(threads=32)
def element(X: tj.Tensor, J: tj.Tensor, Y: tj.Tensor):
    x = tj.warp.load(X[0:4, 0:8])
    Y[0, 0] = x[2, J[0, 0]]


@tj.kernel(threads=32)
def part(X: tj.Tensor, J: tj.Tensor, Y: tj.Tensor):
    x, j = tj.warp.load(X[0:4, 0:8]), J[0, 0]
    tj.warp.store(Y[0:4, 0:1], x[:, j : j + 1])


@pytest.mark.parametrize("kernel", [gathered, element, part])
@pytest.mark.parametrize("index", [-1, 8, 2**32, -(2**63)])
def test_an_index_outside_is_an_error(kernel: Any, index: int) -> None:
    j, y = np.zeros((4, 3), np.int64), np.zeros((4, 3), np.float32)
    j[0, 0] = index
    wanted = rf"index {index} is outside|\[{index} : \S+\] leaves"
    with tj.use_device("sim"), pytest.raises(tj.OutOfBoundsError, match=wanted):
        kernel[1](np.zeros((4, 8), np.float32), j, y)
    j[0, 0] = 7
    kernel[1](np.zeros((4, 8), np.float32), j, y)
