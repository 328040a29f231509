"""examples/gemm_hopper.py against cuBLAS (through torch) on one GPU of sm_90a, in one process, alternating.

    python -m tests.bench.bench_hopper [--rounds 12] [--sizes 2048 4096 8192]

Two regimes, because a GPU's power limit sets its clock: in a *burst*, after 40 ms of idleness, it doesn't act;
*sustained*, contenders follow each other without a pause. The order turns from round to round; a figure is the median
over rounds of the library's time divided by ours, taken in the same round. Results are compared first.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from tests.bench.gpu import machine, milliseconds

LIBRARY = "cuBLAS"

IDLE_SECONDS = 0.04

Launch = Callable[[], object]


class Case(NamedTuple):
    """A product of (m, k) by (k, n). turned: B is stored as N x K. gelu: with a bias and gelu after it.

    C's rows are padded to multiples of 16 bytes.
    """

    m: int
    n: int
    k: int
    dtype: str = "float16"
    turned: bool = False
    gelu: bool = False

    def __str__(self) -> str:
        sizes = f"{self.m}" if self.m == self.n == self.k else f"{self.m}x{self.n}x{self.k}"
        return f"{sizes} {self.dtype}{' B as NxK' if self.turned else ''}{' bias+gelu' if self.gelu else ''}"


def cases(sizes: Sequence[int]) -> Iterator[Case]:
    """Square ones of both types and majors, those with an epilogue, and ragged ones."""
    for size, dtype, turned in product(sizes, ("float16", "bfloat16"), (False, True)):
        yield Case(size, size, size, dtype, turned)
    for size in sizes:
        yield Case(size, size, size, gelu=True)
    yield Case(8191, 8200, 8184)
    yield Case(4096, 50257, 4096, turned=True)


def contenders(torch: Any, example: ModuleType, case: Case) -> dict[str, Launch]:
    """name -> what multiplies; each is right, as far as the type holds sums of small integers, or as near as cuBLAS."""
    dtype = getattr(torch, case.dtype)
    a = torch.randint(-2, 3, (case.m, case.k), device="cuda").to(dtype)
    b = torch.randint(-2, 3, (case.n, case.k) if case.turned else (case.k, case.n), device="cuda").to(dtype)
    b = b.t() if case.turned else b
    bias = None
    made: dict[str, Launch] = {}
    if case.gelu:
        bias = torch.randn(case.n, device="cuda").to(dtype)
        # sums around 0, where gelu bends
        for factor in (a, b):
            factor.normal_(std=case.k**-0.25)
        made[LIBRARY] = lambda: torch._addmm_activation(bias, a, b, use_gelu=True)
    else:
        library = torch.empty(case.m, case.n, device="cuda", dtype=dtype)
        made[LIBRARY] = lambda: torch.matmul(a, b, out=library)
    wanted = made[LIBRARY]()
    for kernel in (example.gemm, example.gemm_with_producer):
        c = torch.zeros(case.m, -(-case.n // 8) * 8, device="cuda", dtype=dtype)[:, : case.n]
        launch = _launch(example, kernel, a, b, c, bias)
        launch()
        torch.cuda.synchronize()
        if bias is None:
            assert torch.equal(c, wanted), f"{kernel} is wrong at {case}"
        else:
            errors = _errors(torch, (wanted, c), a, b, bias)
            assert errors[1] <= 1.05 * errors[0], f"{kernel} errs by {errors[1]} at {case}, {LIBRARY} by {errors[0]}"
        made[kernel.name] = launch
    # what is multiplied decides how much power that takes: the values were for comparing
    for factor in (a, b):
        factor.normal_()
    return made


def _errors(torch: Any, results: Sequence[Any], a: Any, b: Any, bias: Any) -> list[float]:
    """The greatest error of each against gelu in float64, by the error function."""
    exact = torch.nn.functional.gelu(torch.addmm(bias.double(), a.double(), b.double()))
    return [float((result.double() - exact).abs().max()) for result in results]


def _launch(example: ModuleType, kernel: Any, a: Any, b: Any, c: Any, bias: Any) -> Launch:
    return example.multiplication(kernel, a, b, c, bias, None, None if bias is None else "gelu_tanh")


def rounds(
    torch: Any, made: Mapping[str, Launch], count: int, *, is_burst: bool, work: float
) -> list[dict[str, float]]:
    """Each contender's time in each round. work: seconds that a contender runs in a round, about."""
    names, measured = list(made), []
    for launch in made.values():
        # a process's first launches take the host longer than the GPU
        milliseconds(launch, 30)
    times = {name: max(1, round(1e3 * work / max(milliseconds(launch, 3), 1e-3))) for name, launch in made.items()}
    if not is_burst:
        for name in names * 4:
            milliseconds(made[name], 4 * times[name])
    for number in range(count):
        turned = names[number % len(names) :] + names[: number % len(names)]
        taken = {}
        for name in turned:
            if is_burst:
                torch.cuda.synchronize()
                time.sleep(IDLE_SECONDS)
                milliseconds(made[name])
            taken[name] = milliseconds(made[name], times[name]) / 1e3
        measured.append(taken)
    return measured


def report(case: Case, regime: str, measured: list[dict[str, float]]) -> list[str]:
    """One line a contender: TFLOP/s, and the median of the ratios with the library's."""
    work, lines = 2 * case.m * case.n * case.k / 1e12, []
    for name in measured[0]:
        speed = statistics.median(work / taken[name] for taken in measured)
        ratios = [taken[LIBRARY] / taken[name] for taken in measured]
        low, high = np.percentile(ratios, (10, 90))
        line = f"{case!s:34} {regime:9} {name:20} {speed:7.1f} TFLOP/s  {statistics.median(ratios):.3f} of {LIBRARY}'s"
        lines.append(f"{line} ({low:.3f} to {high:.3f})")
    return lines


def main() -> None:
    import torch

    from examples import gemm_hopper

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--sizes", type=int, nargs="*", default=[2048, 4096, 8192])
    chosen = parser.parse_args()
    print(machine())
    for case in cases(chosen.sizes):
        made = contenders(torch, gemm_hopper, case)
        for regime, work in (("burst", 0.002), ("sustained", 0.01)):
            measured = rounds(torch, made, chosen.rounds, is_burst=regime == "burst", work=work)
            print("\n".join(report(case, regime, measured)), flush=True)


if __name__ == "__main__":
    main()
