"""Kernels bound by memory against a copy of as many bytes, torch and Triton: the share of the copy's bytes a second.

Run on a machine with a GPU and torch: `python tests/bench/bench_memory_bound.py [--quick] [CASE ...]`, where a CASE is
a part of names in the first column. Triton's kernels (`triton_memory_bound.py`) are included where it can be imported.

Results are checked first, against float64, in outputs that were poisoned with NaN. Then all contenders of a case launch
in turn, so that all find the same clocks. Before each launch the L2 is flushed (`tests/bench/gpu.py`). Times are
medians of CUDA events round single launches; `spread` is the distance of the quartiles.
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
from examples import (  # noqa: E402
    bias_gelu,
    cross_entropy,
    histogram,
    layernorm,
    reduce,
    rmsnorm,
    softmax,
    transpose,
)
from tests.bench.gpu import machine, measured  # noqa: E402

LAUNCHES, QUICK_LAUNCHES = 40, 9
BLOCK = 1024
STRIPS = 16  # of rows, for sums along columns
EPSILON = 1e-5

#: relative and absolute error that a result may have against float64
TOLERANCES = {"torch.float32": (1e-5, 1e-5), "torch.float16": (2e-3, 1e-3)}

Run = Callable[[], Any]


@dataclass
class Case:
    """One computation.

    moved: bytes that it must read and write. expected: in float64, one result or a tuple of them.
    contenders: name -> launches and returns as many results. outputs: what they write, to be poisoned.
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


def norm_threads(columns: int, item_bytes: int) -> int:
    """Two vectors of 16 bytes a thread."""
    return min(max(tj.next_power_of_2(tj.cdiv(columns * item_bytes, 32)), 32), 1024)


def backward_place(columns: int) -> tuple[int, int]:
    """CTAs that share the rows out, and their threads: two vectors of 16 bytes each, 512 on each multiprocessor."""
    return (132, 512) if columns > 4096 else (2 * 132, 256)


def returning(launch: Run, result: Any) -> Run:
    def run() -> Any:
        launch()
        return result

    return run


class Cases:
    """The cases, made one after the other: their arrays don't fit together."""

    def __init__(self, torch: Any, triton: Any, compile: Callable[[Run], Run] | None) -> None:
        self.torch, self.triton, self.compile = torch, triton, compile

    def __iter__(self) -> Iterator[tuple[str, Callable[[], Case]]]:
        torch = self.torch
        half, single = torch.float16, torch.float32
        yield "softmax f16 16384x4096", lambda: self.softmax(16384, 4096, half)
        yield "softmax f16 16384x4095", lambda: self.softmax(16384, 4095, half)
        yield "softmax f16 4096x65536", lambda: self.softmax(4096, 65536, half)
        yield "softmax f32 16384x16384", lambda: self.softmax(16384, 16384, single)
        for columns in (4096, 8192):
            yield f"layernorm f16 16384x{columns}", lambda columns=columns: self.layernorm(16384, columns)
            yield f"rmsnorm f16 16384x{columns}", lambda columns=columns: self.rmsnorm(16384, columns)
        for columns in (4096, 8192):
            yield f"layernorm backward f16 16384x{columns}", lambda columns=columns: self.layernorm_back(16384, columns)
            yield f"rmsnorm backward f16 16384x{columns}", lambda columns=columns: self.rmsnorm_back(16384, columns)
        yield "cross entropy bf16 8192x128256", lambda: self.cross_entropy(8192, 128256)
        yield "cross entropy backward", lambda: self.cross_entropy_backward(8192, 128256)
        yield "cross entropy fused", lambda: self.cross_entropy_fused(8192, 128256)
        yield "histogram u8 2^28, random", lambda: self.histogram(2**28, equal=False)
        yield "histogram u8 2^28, all equal", lambda: self.histogram(2**28, equal=True)
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
        place = (rows,), softmax.threads_for(columns * x.element_size())
        fits = softmax.launch_for(x, y)
        contenders = {
            "tilejit": returning(fits.func.bind(*fits.args, **fits.keywords), y),
            "tilejit, accurate": returning(softmax.softmax[place].bind(x, y, N=columns), y),
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

    def layernorm_back(self, rows: int, columns: int) -> Case:
        torch = self.torch
        x, dy = (self.random(rows, columns, dtype=torch.float16) for _ in range(2))
        gain, bias = (self.random(columns, dtype=torch.float16) for _ in range(2))
        wide = x.double()
        means = wide.mean(1)
        scales = torch.rsqrt((wide - means[:, None]).square().mean(1) + EPSILON)
        means, scales = means.float(), scales.float()
        del wide
        ctas, threads = backward_place(columns)
        dx, parts, totals = torch.empty_like(x), self.empty(2, ctas, columns), self.empty(2, columns, dtype=x.dtype)
        back = layernorm.layernorm_backward[(ctas,), threads].bind(x, gain, means, scales, dy, dx, *parts, N=columns)
        sums = layernorm.sum_of_rows[tj.cdiv(columns, layernorm.WIDE), 2].bind(parts, totals)

        def formula(x: Any, dy: Any, gain: Any, means: Any, scales: Any) -> tuple[Any, Any, Any]:
            normal, d = (x - means[:, None]) * scales[:, None], dy * gain
            along = (d * normal).mean(1, keepdim=True)
            dx = (d - d.mean(1, keepdim=True) - normal * along) * scales[:, None]
            return dx, (dy * normal).sum(0), dy.sum(0)

        def by_torch() -> Any:
            return torch.ops.aten.native_layer_norm_backward(
                dy, x, (columns,), means[:, None], scales[:, None], gain, bias, [True, True, True]
            )

        contenders: dict[str, Run] = {
            "tilejit": returning(lambda: (back(), sums()), (dx, *totals)),
            "torch": by_torch,
        }
        if self.compile:
            compiled = self.compile(
                lambda: tuple(each.half() for each in formula(x.float(), dy.float(), gain.float(), means, scales))
            )
            contenders["torch.compile"] = compiled
        operands = (x, dy, gain, means, scales)
        return Case(
            3 * x.nbytes,
            lambda: formula(*(each.double() for each in operands)),
            contenders,
            (dx, parts, totals),
            (2e-3, 4e-3),
        )

    def rmsnorm_back(self, rows: int, columns: int) -> Case:
        torch = self.torch
        x, dy = (self.random(rows, columns, dtype=torch.float16) for _ in range(2))
        gain = self.random(columns, dtype=torch.float16)
        scales = torch.rsqrt(x.double().square().mean(1) + EPSILON).float()
        ctas, threads = backward_place(columns)
        dx, dgain, dgains = torch.empty_like(x), torch.empty_like(gain), self.empty(ctas, columns)
        back = rmsnorm.rmsnorm_backward[(ctas,), threads].bind(x, gain, scales, dy, dx, dgains, N=columns)
        total = rmsnorm.sum_of_rows[tj.cdiv(columns, rmsnorm.WIDE)].bind(dgains, dgain)

        def formula(x: Any, dy: Any, gain: Any, scales: Any) -> tuple[Any, Any]:
            normal, d = x * scales[:, None], dy * gain
            dx = (d - normal * (d * normal).mean(1, keepdim=True)) * scales[:, None]
            return dx, (dy * normal).sum(0)

        def by_torch() -> Any:
            x_, gain_ = x.detach().requires_grad_(), gain.detach().requires_grad_()
            y = torch.nn.functional.rms_norm(x_, (columns,), gain_, EPSILON)
            return lambda: torch.autograd.grad(y, (x_, gain_), dy, retain_graph=True)

        contenders: dict[str, Run] = {"tilejit": returning(lambda: (back(), total()), (dx, dgain))}
        if hasattr(torch.nn.functional, "rms_norm"):
            contenders["torch"] = by_torch()
        if self.compile:
            contenders["torch.compile"] = self.compile(
                lambda: tuple(each.half() for each in formula(x.float(), dy.float(), gain.float(), scales))
            )
        operands = (x, dy, gain, scales)
        return Case(
            3 * x.nbytes,
            lambda: formula(*(each.double() for each in operands)),
            contenders,
            (dx, dgain, dgains),
            (2e-3, 4e-3),
        )

    def logits(self, rows: int, columns: int) -> tuple[Any, Any]:
        torch = self.torch
        x = torch.empty(rows, columns, device="cuda", dtype=torch.bfloat16).normal_(std=3)
        return x, torch.randint(columns, (rows,), device="cuda", dtype=torch.int32)

    def log_sums(self, x: Any) -> Any:
        """In float64, some rows at a time."""
        return self.torch.cat([self.torch.logsumexp(rows.double(), 1) for rows in x.split(512)])

    def losses(self, x: Any, targets: Any) -> Any:
        return self.log_sums(x) - x.gather(1, targets.long()[:, None])[:, 0].double()

    def cross_entropy(self, rows: int, columns: int) -> Case:
        torch = self.torch
        x, targets = self.logits(rows, columns)
        losses, log_sums = self.empty(rows), self.empty(rows)
        ours = cross_entropy.cross_entropy[rows].bind(x, targets, losses, log_sums)
        indices = targets.long()

        def by_torch() -> Any:
            return torch.nn.functional.cross_entropy(x, indices, reduction="none")

        contenders = {"tilejit": returning(ours, losses), "torch": by_torch}
        if self.compile:
            contenders["torch.compile"] = self.compile(by_torch)
        # torch rounds losses to bfloat16
        return Case(x.nbytes, lambda: self.losses(x, targets), contenders, (losses, log_sums), (1e-2, 1e-2))

    def cross_entropy_backward(self, rows: int, columns: int) -> Case:
        torch = self.torch
        x, targets = self.logits(rows, columns)
        log_sums, dlosses, dx = self.log_sums(x).float(), self.random(rows), torch.empty_like(x)
        grid = tj.cdiv(columns, cross_entropy.WIDE), rows
        ours = cross_entropy.cross_entropy_backward[grid].bind(x, targets, log_sums, dlosses, dx)
        indices = targets.long()[:, None]

        def by_torch() -> Any:
            p = torch.exp(x.float() - log_sums[:, None])
            one = torch.arange(columns, device="cuda") == indices
            return (torch.where(one, p - 1, p) * dlosses[:, None]).to(x.dtype)

        contenders = {"tilejit": returning(ours, dx)}
        if self.compile:
            contenders["torch.compile"] = self.compile(by_torch)
        return Case(2 * x.nbytes, by_torch, contenders, (dx,), (2e-2, 1e-6))

    def cross_entropy_fused(self, rows: int, columns: int) -> Case:
        torch = self.torch
        x, targets = self.logits(rows, columns)
        losses, dx = self.empty(rows), torch.empty_like(x)
        ours = cross_entropy.cross_entropy_fused[rows].bind(x, targets, losses, dx, 1 / rows)
        indices = targets.long()[:, None]

        def by_torch() -> Any:
            wide = x.float()
            log_sums = torch.logsumexp(wide, 1, keepdim=True)
            one = torch.arange(columns, device="cuda") == indices
            p = torch.exp(wide - log_sums)
            dx = (torch.where(one, p - 1, p) * (1 / rows)).to(x.dtype)
            return log_sums[:, 0] - wide.gather(1, indices)[:, 0], dx

        contenders = {"tilejit": returning(ours, (losses, dx))}
        if self.compile:
            contenders["torch.compile"] = self.compile(by_torch)
        return Case(2 * x.nbytes, by_torch, contenders, (losses, dx), (2e-2, 1e-6))

    def histogram(self, count: int, equal: bool) -> Case:
        torch = self.torch
        x = torch.full((count,), 77, device="cuda", dtype=torch.uint8)
        if not equal:
            x.random_(256)
        counts = torch.zeros(histogram.BINS, device="cuda", dtype=torch.int32)
        ours = histogram.histogram[4 * 132].bind(x, counts)
        contenders = {
            "tilejit": returning(lambda: (counts.zero_(), ours()), counts),
            "torch.bincount": lambda: torch.bincount(x, minlength=histogram.BINS),
        }
        if find_spec("cupy") is not None:
            import cupy

            of_cupy, edges = cupy.asarray(x), cupy.arange(257)
            contenders["CuPy"] = lambda: torch.as_tensor(cupy.histogram(of_cupy, edges)[0], device="cuda")
        return Case(count, lambda: torch.bincount(x, minlength=histogram.BINS).double(), contenders, (), (0.0, 0.0))

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


def tupled(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def check(torch: Any, case: Case) -> None:
    """Every contender's result, in poisoned outputs."""
    expected = case.expected()
    for name, run in case.contenders.items():
        for output in case.outputs:
            output.fill_(float("nan"))
        results = run()
        for result, right in zip(tupled(results), tupled(expected), strict=True):
            rtol, atol = case.tolerance or TOLERANCES[str(result.dtype)]
            torch.testing.assert_close(
                result.double(), right.double(), rtol=rtol, atol=atol, msg=lambda text, name=name: f"{name}: {text}"
            )


def measure(torch: Any, label: str, case: Case, launches: int) -> None:
    """Prints one row a contender."""
    check(torch, case)
    source = torch.empty(case.moved // 2, device="cuda", dtype=torch.uint8).random_()
    target = torch.empty_like(source)
    times = measured({"copy": lambda: target.copy_(source), **case.contenders}, launches)
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
    parser.add_argument("--compile", action="store_true", help="with torch.compile, which takes seconds a case")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_LAUNCHES} launches instead of {LAUNCHES}")
    arguments = parser.parse_args()
    triton = None
    if find_spec("triton") is not None:
        from tests.bench import triton_memory_bound as triton  # type: ignore[no-redef]
    launches = QUICK_LAUNCHES if arguments.quick else LAUNCHES
    print(machine())
    print(f"{'':36}{'':26}{'median':>13}{'spread':>8}{'moved':>13}{'share':>8}")
    for label, make in Cases(torch, triton, torch.compile if arguments.compile else None):
        if arguments.cases and not any(part in label for part in arguments.cases):
            continue
        measure(torch, label, make(), launches)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
