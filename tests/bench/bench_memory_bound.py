"""Kernels bound by memory against a copy of as many bytes, torch and Triton: the share of the copy's bytes a second.

Run on a machine with a GPU and torch: `python tests/bench/bench_memory_bound.py [--quick] [CASE ...]`, where a CASE is
a part of names in the first column. Triton's kernels (`triton_memory_bound.py`) take part where it can be imported.

Results are checked first, against float64, in outputs that were poisoned with NaN. Then all contenders of a case launch
in turn, so that all find the same clocks, and the last one's arrays in L2 rather than their own; inputs are larger than
L2 besides. Times are medians of CUDA events round single launches; `spread` is the distance of the quartiles.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import tilejit as tj  # noqa: E402
from examples import bias_gelu, layernorm, reduce, rmsnorm, softmax, transpose  # noqa: E402

LAUNCHES, QUICK_LAUNCHES = 40, 9
SLEEP_CYCLES = 500_000  # the host gets ahead meanwhile, so that no launch overhead is timed
BLOCK = 1024
STRIPS = 16  # of rows, for sums along columns
EPSILON = 1e-5

#: relative and absolute error that a result may have against float64
TOLERANCES = {"torch.float32": (1e-5, 1e-5), "torch.float16": (2e-3, 1e-3)}

Run = Callable[[], Any]


@dataclass
class Case:
    """One computation.

    moved: bytes that it must read and write. expected: in float64; None where only time counts.
    contenders: name -> launches and returns the result. outputs: what they write, to be poisoned.
    tolerance: relative and absolute error; None: that of the result's type.
    """

    moved: int
    expected: Callable[[], Any]
    contenders: dict[str, Run]
    outputs: tuple[Any, ...]
    tolerance: tuple[float, float] | None = None


@tj.kernel(threads=256)
def axpy(X: tj.Tensor, Y: tj.Tensor, Z: tj.Tensor, a: tj.float32):
    i = tj.cta_id(0)
    tj.cta.store(Z.tile(BLOCK, i), a * tj.cta.load(X.tile(BLOCK, i)) + tj.cta.load(Y.tile(BLOCK, i)))


@tj.kernel(threads=256)
def square_root(X: tj.Tensor, Y: tj.Tensor):
    i = tj.cta_id(0)
    tj.cta.store(Y.tile(BLOCK, i), tj.sqrt(tj.cta.load(X.tile(BLOCK, i))))


@tj.kernel(threads=256)
def softmax_by_reciprocal(X: tj.Tensor, Y: tj.Tensor, N: tj.constexpr):
    """As the example, with one division a row and a product an element."""
    row = tj.cta_id(0)
    x = tj.cta.load(X[row, 0:N], fill=-tj.inf).astype(tj.float32)
    e = tj.exp(x - tj.max(x))
    tj.cta.store(Y[row, 0:N], (e * (1 / tj.sum(e))).astype(Y.dtype))


@tj.kernel(threads=256)
def softmax_by_hardware(X: tj.Tensor, Y: tj.Tensor, N: tj.constexpr):
    """The same with the hardware's exp."""
    row = tj.cta_id(0)
    x = tj.cta.load(X[row, 0:N], fill=-tj.inf).astype(tj.float32)
    e = tj.fast.exp(x - tj.max(x))
    tj.cta.store(Y[row, 0:N], (e * (1 / tj.sum(e))).astype(Y.dtype))


def norm_threads(columns: int, item_bytes: int) -> int:
    """Two vectors of 16 bytes a thread."""
    return min(max(tj.next_power_of_2(tj.cdiv(columns * item_bytes, 32)), 32), 1024)


def returning(launch: Run, result: Any) -> Run:
    def run() -> Any:
        launch()
        return result

    return run


class Cases:
    """The cases, made one after the other: their arrays don't fit together."""

    def __init__(self, torch: Any, triton: Any) -> None:
        self.torch, self.triton = torch, triton

    def __iter__(self) -> Iterator[tuple[str, Callable[[], Case]]]:
        torch = self.torch
        half, single = torch.float16, torch.float32
        yield "softmax f16 16384x4096", lambda: self.softmax(16384, 4096, half)
        yield "softmax f16 16384x4095", lambda: self.softmax(16384, 4095, half)
        yield "softmax f32 16384x16384", lambda: self.softmax(16384, 16384, single)
        for columns in (4096, 8192):
            yield f"layernorm f16 16384x{columns}", lambda columns=columns: self.layernorm(16384, columns)
            yield f"rmsnorm f16 16384x{columns}", lambda columns=columns: self.rmsnorm(16384, columns)
        yield "bias+gelu+residual f16 16384x8192", lambda: self.bias_gelu(16384, 8192)
        yield "transpose f32 8192x8192", lambda: self.transpose(8192, single)
        yield "transpose f16 8192x8192", lambda: self.transpose(8192, half)
        yield "sum of rows f32 16384x16384", lambda: self.sum_rows(16384)
        yield "sum of columns f32 16384x16384", lambda: self.sum_columns(16384)
        yield "sum of all f32 16384x16384", lambda: self.sum_all(16384)
        yield "a*x+y f32 1 GiB", lambda: self.axpy(2**28)
        yield "sqrt f32 1 GiB", lambda: self.sqrt(2**28)

    def random(self, *shape: int, dtype: Any = None) -> Any:
        torch = self.torch
        return torch.randn(*shape, device="cuda", dtype=torch.float32).to(dtype or torch.float32)

    def empty(self, *shape: int, dtype: Any = None) -> Any:
        return self.torch.empty(*shape, device="cuda", dtype=dtype or self.torch.float32)

    def softmax(self, rows: int, columns: int, dtype: Any) -> Case:
        torch, triton = self.torch, self.triton
        x = self.random(rows, columns, dtype=dtype)
        y = torch.empty_like(x)
        place = (rows,), softmax.threads_for(x)
        contenders = {
            "tilejit": returning(softmax.softmax[place].bind(x, y, N=columns), y),
            "tilejit, e * (1 / sum)": returning(softmax_by_reciprocal[place].bind(x, y, N=columns), y),
            "tilejit, and tj.fast.exp": returning(softmax_by_hardware[place].bind(x, y, N=columns), y),
            "torch": lambda: torch.softmax(x, 1),
        }
        if triton:
            contenders["Triton"] = lambda: triton.softmax(x, y)
        moved = 2 * x.nbytes
        # probabilities are about 1 / columns
        tolerance = (2e-3 if dtype == torch.float16 else 5e-6, 1e-7)
        return Case(moved, lambda: torch.softmax(x.double(), 1), contenders, (y,), tolerance)

    def layernorm(self, rows: int, columns: int) -> Case:
        torch, triton = self.torch, self.triton
        x = self.random(rows, columns, dtype=torch.float16)
        gain, bias = (self.random(columns, dtype=torch.float16) for _ in range(2))
        y, means, scales = torch.empty_like(x), self.empty(rows), self.empty(rows)
        place = (rows,), norm_threads(columns, x.element_size())
        ours = layernorm.layernorm[place].bind(x, gain, bias, y, means, scales, N=columns, epsilon=EPSILON)
        normal = torch.nn.functional.layer_norm
        contenders = {"tilejit": returning(ours, y), "torch": lambda: normal(x, (columns,), gain, bias, EPSILON)}
        if triton:
            contenders["Triton"] = lambda: triton.layernorm(x, gain, bias, y, means, scales)

        def expected() -> Any:
            return normal(x.double(), (columns,), gain.double(), bias.double(), EPSILON)

        return Case(2 * x.nbytes, expected, contenders, (y, means, scales))

    def rmsnorm(self, rows: int, columns: int) -> Case:
        torch, triton = self.torch, self.triton
        x, gain = self.random(rows, columns, dtype=torch.float16), self.random(columns, dtype=torch.float16)
        y, scales = torch.empty_like(x), self.empty(rows)
        place = (rows,), norm_threads(columns, x.element_size())
        ours = rmsnorm.rmsnorm[place].bind(x, gain, y, scales, N=columns, epsilon=EPSILON)
        contenders = {"tilejit": returning(ours, y)}
        if hasattr(torch.nn.functional, "rms_norm"):
            contenders["torch"] = lambda: torch.nn.functional.rms_norm(x, (columns,), gain, EPSILON)
        if triton:
            contenders["Triton"] = lambda: triton.rmsnorm(x, gain, y, scales)

        def expected() -> Any:
            wide = x.double()
            return wide * torch.rsqrt(wide.square().mean(1, keepdim=True) + EPSILON) * gain.double()

        return Case(2 * x.nbytes, expected, contenders, (y, scales))

    def bias_gelu(self, rows: int, columns: int) -> Case:
        torch, triton = self.torch, self.triton
        h, x = (self.random(rows, columns, dtype=torch.float16) for _ in range(2))
        bias, y = self.random(columns), torch.empty_like(x)
        gelu = torch.nn.functional.gelu
        contenders = {
            "tilejit": returning(bias_gelu.bias_gelu[bias_gelu.grid(rows, columns)].bind(h, bias, x, y), y),
            "torch": lambda: x + gelu((h + bias).to(h.dtype)),
        }
        if triton:
            contenders["Triton"] = lambda: triton.bias_gelu(h, bias, x, y)

        def expected() -> Any:
            return x.double() + gelu((h + bias).to(h.dtype).double())

        return Case(3 * x.nbytes, expected, contenders, (y,), (2e-3, 8e-3))

    def transpose(self, size: int, dtype: Any) -> Case:
        triton = self.triton
        x = self.random(size, size, dtype=dtype)
        y, grid = self.torch.empty_like(x), transpose.grid(size, size)
        contenders = {
            "tilejit, registers": returning(transpose.transpose[grid].bind(x, y), y),
            "tilejit, shared": returning(transpose.transpose_staged[grid].bind(x, y), y),
            "torch": lambda: x.t().contiguous(),
        }
        if triton:
            contenders["Triton"] = lambda: triton.transpose(x, y)
        return Case(2 * x.nbytes, lambda: x.t().double(), contenders, (y,), (0.0, 0.0))

    def sum_rows(self, size: int) -> Case:
        triton = self.triton
        x, y = self.random(size, size), self.empty(size)
        contenders = {
            "tilejit": returning(reduce.sum_rows[size].bind(x, y, N=size), y),
            "torch": lambda: x.sum(1),
        }
        if triton:
            contenders["Triton"] = lambda: triton.sum_rows(x, y)
        tolerance = (1e-5, 1e-5 * size**0.5)
        return Case(x.nbytes, lambda: x.double().sum(1), contenders, (y,), tolerance)

    def sum_columns(self, size: int) -> Case:
        triton = self.triton
        x, parts, y = self.random(size, size), self.empty(STRIPS, size), self.empty(1, size)
        strips = reduce.sum_columns[tj.cdiv(size, reduce.WIDE), STRIPS].bind(x, parts)
        sums = reduce.sum_columns[tj.cdiv(size, reduce.WIDE), 1].bind(parts, y)
        contenders = {
            "tilejit": returning(lambda: (strips(), sums()), y[0]),
            "torch": lambda: x.sum(0),
        }
        if triton:
            contenders["Triton"] = lambda: triton.sum_columns(x, parts, y)[0]
        tolerance = (1e-5, 1e-5 * size**0.5)
        return Case(x.nbytes, lambda: x.double().sum(0), contenders, (parts, y), tolerance)

    def sum_all(self, size: int) -> Case:
        torch, triton = self.torch, self.triton
        x, parts, y = self.random(size * size), self.empty(reduce.CTAS), self.empty(1)
        counter = torch.zeros(1, device="cuda", dtype=torch.int32)
        each, total = reduce.sum_all[reduce.CTAS].bind(x, parts), reduce.sum_all[1].bind(parts, y)
        at_once = reduce.sum_in_one_launch[reduce.CTAS].bind(x, parts, counter, y)
        contenders = {
            "tilejit, two launches": returning(lambda: (each(), total()), y.reshape(())),
            "tilejit, one launch": returning(at_once, y.reshape(())),
            "torch": lambda: x.sum(),
        }
        if triton:
            contenders["Triton"] = lambda: triton.sum_all(x, parts, y).reshape(())
        tolerance = (1e-5, 1e-5 * size)
        return Case(x.nbytes, lambda: x.double().sum(), contenders, (parts, y), tolerance)

    def axpy(self, count: int) -> Case:
        torch, triton = self.torch, self.triton
        x, y, z, a = self.random(count), self.random(count), self.empty(count), 0.7
        contenders = {
            "tilejit": returning(axpy[tj.cdiv(count, BLOCK)].bind(x, y, z, a), z),
            "torch": lambda: torch.add(y, x, alpha=a, out=z),
        }
        if triton:
            contenders["Triton"] = lambda: triton.axpy(x, y, z, a)
        return Case(3 * x.nbytes, lambda: torch.add(y.double(), x.double(), alpha=a), contenders, (z,))

    def sqrt(self, count: int) -> Case:
        torch, triton = self.torch, self.triton
        x, y = self.random(count).abs_(), self.empty(count)
        contenders = {
            "tilejit": returning(square_root[tj.cdiv(count, BLOCK)].bind(x, y), y),
            "torch": lambda: torch.sqrt(x, out=y),
        }
        if triton:
            contenders["Triton"] = lambda: triton.sqrt(x, y)
        return Case(2 * x.nbytes, lambda: x.double().sqrt_(), contenders, (y,))


def check(torch: Any, case: Case) -> None:
    """Every contender's result, in poisoned outputs."""
    expected = case.expected()
    for name, run in case.contenders.items():
        for output in case.outputs:
            output.fill_(float("nan"))
        result = run()
        rtol, atol = case.tolerance or TOLERANCES[str(result.dtype)]
        torch.testing.assert_close(
            result.double(), expected, rtol=rtol, atol=atol, msg=lambda text, name=name: f"{name}: {text}"
        )


def measured(torch: Any, contenders: dict[str, Run], launches: int) -> dict[str, list[float]]:
    """Milliseconds of single launches, the contenders in turn."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(launches + 1):
        for name, run in contenders.items():
            start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda._sleep(SLEEP_CYCLES)
            start.record()
            run()
            stop.record()
            stop.synchronize()
            if turn:  # the first only warms up
                times[name].append(start.elapsed_time(stop))
    return times


def measure(torch: Any, label: str, case: Case, launches: int) -> None:
    """Prints one row a contender."""
    check(torch, case)
    source = torch.empty(case.moved // 2, device="cuda", dtype=torch.uint8).random_()
    target = torch.empty_like(source)
    times = measured(torch, {"copy": lambda: target.copy_(source), **case.contenders}, launches)
    copy = statistics.median(times["copy"])
    for name, each in times.items():
        low, median, high = statistics.quantiles(each, n=4)
        rate = case.moved / median / 1e9
        print(
            f"{label:36}{name:26}{median * 1e3:10.1f} us{(high - low) / median:8.1%}{rate:8.3f} TB/s"
            f"{copy / median:8.3f}",
            flush=True,
        )
        label = ""


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description="memory-bound kernels against a copy, torch and Triton")
    parser.add_argument("cases", nargs="*", help="parts of the names of cases; all where none is given")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_LAUNCHES} launches instead of {LAUNCHES}")
    arguments = parser.parse_args()
    triton = None
    if find_spec("triton") is not None:
        from tests.bench import triton_memory_bound as triton  # type: ignore[no-redef]
    launches = QUICK_LAUNCHES if arguments.quick else LAUNCHES
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {'with' if triton else 'without'} Triton")
    print(f"{'':36}{'':26}{'median':>13}{'spread':>8}{'moved':>13}{'share':>8}")
    for label, make in Cases(torch, triton):
        if arguments.cases and not any(part in label for part in arguments.cases):
            continue
        measure(torch, label, make(), launches)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
