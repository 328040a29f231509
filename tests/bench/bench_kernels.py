"""`tilejit.kernels` against cuBLAS (through torch) on one GPU, in one process, alternating.

    python -m tests.bench.bench_kernels [--rows few,drawn,cubes] [--rounds 11]

    few      (N, K) of four layers of language models, with M from 1 to 512
    drawn    40 shapes by seed: M, N, K multiples of 8, log-uniform from 8 to 16384, at most 10**12 operations
    cubes    2048, 4096, 8192, and those with a bias and gelu (by tanh on both sides)

Weights are stored N × K. Each result is compared with float64 first. Before each call the L2 cache is flushed by
reading 256 MiB: lines that a memset leaves dirty would be written back during the call. A ratio is the median over
rounds of the library's time divided by ours in that round, above 1 if ours is faster. If a call takes less than 100 us,
both are also timed in a CUDA graph of 20 calls, with as many copies of the weights as don't fit the L2 cache.

--small computes few small products once, without timing them, on whatever device torch and tilejit have.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import tilejit as tj
from tilejit import kernels

Launch = Callable[[], object]

#: bytes and operations per microsecond that count as an H100's limit
BYTES, OPERATIONS = 3.0e6, 7.9e8
FLUSHED_BYTES = 256 << 20
#: of the GPU, in which the host gets ahead: no launch's overhead is timed
SLEEP_CYCLES = 200_000
GRAPH_CALLS, SHORT_US = 20, 100


class Case(NamedTuple):
    """A product of (m, k) by (k, n), of float16. gelu: with a bias and gelu after it."""

    m: int
    n: int
    k: int
    gelu: bool = False

    def __str__(self) -> str:
        return f"{self.m} x {self.n} x {self.k}{' bias+gelu' if self.gelu else ''}"

    @property
    def operations(self) -> int:
        return 2 * self.m * self.n * self.k

    @property
    def bytes(self) -> int:
        return 2 * (self.m * self.k + self.n * self.k + self.m * self.n)


def few() -> Iterator[Case]:
    for n, k in ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)):
        for m in (1, 16, 64, 128, 256, 512):
            yield Case(m, n, k)


def drawn(count: int = 40, most: int = 16384) -> Iterator[Case]:
    """Shapes that depend on nothing but the seed."""
    source = random.Random(0)
    while count:
        case = Case(*(round(2 ** source.uniform(0, (most // 8).bit_length() - 1)) * 8 for _ in range(3)))
        if case.operations <= 1e12:
            count -= 1
            yield case


def cubes(sizes: Sequence[int] = (2048, 4096, 8192)) -> Iterator[Case]:
    for gelu in (False, True):
        yield from (Case(n, n, n, gelu) for n in sizes)


ROWS: dict[str, Callable[[], Iterator[Case]]] = {"few": few, "drawn": drawn, "cubes": cubes}
SMALL = (Case(1, 96, 64), Case(70, 40, 136), Case(136, 136, 72), Case(136, 136, 72, True))


class Contest:
    """The arrays of a case, and both contenders on any copy of the weights."""

    def __init__(self, torch: Any, case: Case, device: str, copies: int = 1) -> None:
        new = {"device": device, "dtype": torch.float16}
        self.torch, self.case = torch, case
        self.a, self.bias = torch.randn(case.m, case.k, **new), torch.randn(case.n, **new)
        self.weights = [torch.randn(case.n, case.k, **new) * case.k**-0.5 for _ in range(copies)]
        self.out, self.theirs = (torch.full((case.m, case.n), float("nan"), **new) for _ in range(2))

    def ours(self, copy: int = 0) -> Any:
        b = self.weights[copy % len(self.weights)].t()
        if not self.case.gelu:
            return kernels.matmul(self.a, b, out=self.out)
        return kernels.matmul(self.a, b, bias=self.bias, activation=kernels.gelu_tanh, out=self.out)

    def library(self, copy: int = 0) -> Any:
        b = self.weights[copy % len(self.weights)].t()
        if not self.case.gelu:
            return self.torch.matmul(self.a, b, out=self.theirs)
        return self.torch._addmm_activation(self.bias, self.a, b, use_gelu=True)

    def check(self) -> None:
        """Raise AssertionError if ours differs from float64 by more than its bound."""
        a, b = self.a.double(), self.weights[0].double().t()
        wanted = a @ b
        bound = (self.case.k / 8 + 8) * 2**-23 * (a.abs() @ b.abs())
        if self.case.gelu:
            wanted, bound = wanted + self.bias.double(), bound + 2**-22 * self.bias.double().abs()
            bound = 1.13 * bound + 0.0005 + 0.0003 * wanted.abs()
            wanted = self.torch.nn.functional.gelu(wanted, approximate="tanh")
        bound += 2**-11 * (wanted.abs() + bound) + 2**-25
        error = (self.ours().double() - wanted).abs()
        assert bool((error <= bound).all()), f"{self.case} is wrong: {float((error / bound).max())} times the bound"


def timed(torch: Any, works: Sequence[Launch], rounds: int, flush: Any) -> list[tuple[float, ...]]:
    """Return the microseconds of each piece of work in each round. flush: memory that is read before each."""
    for work in works:
        work(), work()
    measured = []
    for number in range(rounds):
        taken = [0.0] * len(works)
        for i in range(len(works)):
            which = (i + number) % len(works)
            torch.amax(flush)
            torch.cuda._sleep(SLEEP_CYCLES)
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            works[which]()
            end.record()
            end.synchronize()
            taken[which] = begin.elapsed_time(end) * 1e3
        measured.append(tuple(taken))
    return measured


def graph_of(torch: Any, call: Callable[[int], object]) -> Launch:
    """Return the launch of GRAPH_CALLS calls in one graph."""
    call(0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    # `torch.cuda.graph` would collect garbage and empty torch's cache each time
    with torch.cuda.stream(torch.cuda.Stream()):
        graph.capture_begin()
        for i in range(GRAPH_CALLS):
            call(i)
        graph.capture_end()
    return graph.replay  # type: ignore[no-any-return]


def ratio(measured: Sequence[tuple[float, ...]]) -> float:
    return statistics.median(library / ours for library, ours in measured)


def report(torch: Any, case: Case, rounds: int, flush: Any) -> tuple[float, float | None]:
    """Print a line; return the ratio, and that in a graph if the case is short."""
    contest = Contest(torch, case, "cuda")
    contest.check()
    measured = timed(torch, (contest.library, contest.ours), rounds, flush)
    library, ours = (statistics.median(each) for each in zip(*measured, strict=True))
    is_memory = case.bytes / BYTES > case.operations / OPERATIONS
    rate = f"{case.bytes / ours / 1e6:6.2f} TB/s" if is_memory else f"{case.operations / ours / 1e6:6.0f} TF  "
    line = f"{case!s:32} cuBLAS {library:8.1f} us, ours {ours:8.1f} us, {rate} ratio {ratio(measured):.3f}"
    in_graph = None
    if min(library, ours) < SHORT_US:
        copies = min(GRAPH_CALLS, -(-FLUSHED_BYTES // (2 * case.n * case.k)))
        cold = Contest(torch, case, "cuda", copies)
        graphs = [graph_of(torch, call) for call in (cold.library, cold.ours)]
        in_graph = ratio(timed(torch, graphs, max(3, rounds // 2), flush))
        line += f", in a graph {in_graph:.3f}"
    print(line, flush=True)
    return ratio(measured), in_graph


def summary(ratios: Sequence[float]) -> str:
    tenth = sorted(ratios)[len(ratios) // 10]
    return f"least {min(ratios):.3f}, a tenth below {tenth:.3f}, median {statistics.median(ratios):.3f}"


def compiled(torch: Any, cases: Sequence[Case]) -> None:
    """Compile the kernels of all cases, by several threads: the driver's compiler doesn't hold Python's lock."""
    def launch(case: Case) -> None:
        Contest(torch, case, "cuda").ours()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(launch, cases))
    torch.cuda.synchronize()


def machine(torch: Any) -> str:
    query = ["nvidia-smi", "--query-gpu=name,clocks.sm,clocks.max.sm,driver_version", "--format=csv,noheader"]
    try:
        card = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        card = torch.cuda.get_device_name()
    return f"{card}, torch {torch.__version__}, CUDA {torch.version.cuda}, tilejit {tj.__version__}"


def main() -> None:
    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", default=",".join(ROWS), help=f"some of {','.join(ROWS)}")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    if options.small:
        for case in SMALL:
            Contest(torch, case, "cuda" if torch.cuda.is_available() else "cpu").check()
            print(case, "is right")
        return
    names = options.rows.split(",")
    cases = {name: list(ROWS[name]()) for name in names}
    compiled(torch, [case for each in cases.values() for case in each])
    flush = torch.zeros(FLUSHED_BYTES // 4, device="cuda")
    torch.amax(flush)
    print(machine(torch))
    for name, each in cases.items():
        ratios = [report(torch, case, options.rounds, flush) for case in each]
        print(f"{name}: {summary([eager for eager, _ in ratios])}")
        graphs = [in_graph for _, in_graph in ratios if in_graph is not None]
        if graphs:
            print(f"{name} in graphs: {summary(graphs)}")
        print(machine(torch), flush=True)


if __name__ == "__main__":
    main()
