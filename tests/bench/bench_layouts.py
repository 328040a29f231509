"""The weights by which layouts are chosen, measured; and whether what is chosen is the fastest.

Run on a machine with a GPU and torch: `python tests/bench/bench_layouts.py [--check] [PART ...]`, where a PART is one
of `weights`, `accesses`, `transposes`, `rows`. `--check` only compiles everything, for sm_90a, and needs neither.

weights: what `tilejit.lower.weights` names, each from a loop of little else. accesses: a warp's loads of global memory
by vector width and by how its lanes are spread over rows, out of L2. Both in quarter cycles: the unit is an addition of
a warp, of which a multiprocessor starts four a cycle. transposes: tiles loaded and stored transposed, by the cheapest
grid with vectors along both axes, along one, and through shared memory. rows: kernels with the three cheapest grids
that cost differently. Of the last two, times and costs are printed side by side, as shares of the chosen one's.

Results are checked first. Times are medians of CUDA events round single launches, contenders in turn.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[2]))

import tilejit as tj  # noqa: E402
from tests.bench.gpu import machine, measured  # noqa: E402
from tilejit import S, laneid  # noqa: E402
from tilejit.layout import TileLayout  # noqa: E402
from tilejit.layout.grid import WIDEST_BYTES, Grid  # noqa: E402
from tilejit.lower import weights  # noqa: E402
from tilejit.lower.open import layouts  # noqa: E402
from tilejit.lower.open.choose import AccessCost, Chosen, Demand, Prices, candidates, choose, touched  # noqa: E402
from tilejit.lower.variant import DispatchContext  # noqa: E402
from tilejit.lower.variants import copy_through_shared  # noqa: E402
from tilejit.target import WARP, target  # noqa: E402

TARGET = "sm_90a"
LAUNCHES = 15
WARPS = 8  # of a CTA
THREADS = WARP * WARPS
RESIDENT = 4  # CTAs of a multiprocessor
ROUNDS = 400
REPEATS = 8  # of an instruction in a round of a loop
BEST_OF = 3  # grids of each kernel
TOLERATED = 1.05  # how much slower than the fastest the chosen one may be

@dataclass
class Probe:
    """A kernel of little but one instruction.

    arrays: shape and type of each argument, the last one written. issued: how often a warp issues the instruction.
    """

    name: str
    kernel: tj.Kernel
    arrays: tuple[tuple[tuple[int, ...], tj.DType], ...]
    scalars: tuple[int, ...]
    issued: int
    weight: int


@dataclass
class Way:
    """One way to do something: a kernel and what the cost says.

    is_chosen: it is the pass's. choose: what chooses its grids.
    """

    name: str
    kernel: tj.Kernel
    cost: int
    is_chosen: bool = False
    choose: Callable[..., Chosen] = choose

    def first(self, run: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """What compiles it: later launches find that."""
        with mock.patch.object(layouts, "choose", self.choose):
            return run(*args, **options)


@dataclass
class Choice:
    """Ways to do the same. arrays: as of `Probe`. expected: of the arrays, what the last one then is."""

    name: str
    ways: list[Way]
    arrays: tuple[tuple[tuple[int, ...], tj.DType], ...]
    grid: tuple[int, ...]
    expected: Callable[..., Any]
    constants: dict[str, int] = field(default_factory=dict)


# what a warp issues


@tj.kernel(threads=THREADS)
def additions(X: tj.Tensor, Y: tj.Tensor, rounds: tj.int32):
    x, a = tj.cta.load(X[0 : 8 * THREADS]), X[0]
    for _ in range(rounds):
        for _ in tj.static_range(REPEATS):
            x = x + a
    tj.cta.store(Y[0 : 8 * THREADS], x)


@tj.kernel(threads=THREADS)
def selections(X: tj.Tensor, Y: tj.Tensor, rounds: tj.int32):
    x, a, b = tj.cta.load(X[0 : 8 * THREADS]), X[0], X[1]
    for _ in range(rounds):
        for _ in tj.static_range(REPEATS):
            x = tj.where(x < a, x + b, a)
    tj.cta.store(Y[0 : 8 * THREADS], x)


@tj.kernel(threads=THREADS)
def shuffles(X: tj.Tensor, Y: tj.Tensor, rounds: tj.int32):
    x = X[tj.thread_id()]
    y = x
    for _ in range(rounds):
        for _ in tj.static_range(REPEATS // 2):
            x = x + tj.shuffle_xor(x, 1)
            y = y + tj.shuffle_xor(y, 2)
    Y[tj.thread_id()] = x + y


@tj.kernel(threads=THREADS)
def barriers(X: tj.Tensor, Y: tj.Tensor, rounds: tj.int32):
    for _ in range(rounds):
        for _ in tj.static_range(REPEATS):
            tj.cta_sync()
    Y[tj.thread_id()] = X[tj.thread_id()]


def shared_loads(stride: int) -> tj.Kernel:
    """Of words that lie `stride` apart from lane to lane."""

    @tj.kernel(threads=THREADS)
    def shared_loads(X: tj.Tensor, Y: tj.Tensor, rounds: tj.int32):
        s = tj.alloc_shared((2048,), tj.float32)
        for k in tj.static_range(2048 // THREADS):
            s[tj.thread_id() + k * THREADS] = X[tj.thread_id()]
        tj.cta_sync()
        first = tj.lane_id() * stride
        total = X[0]
        for r in range(rounds):
            for k in tj.static_range(REPEATS):
                total = total + s[first + r % 4 + k * 33]
        Y[tj.thread_id()] = total

    return shared_loads


def weight_probes() -> Iterator[Probe]:
    """Those of instructions; first the unit."""
    tiles = (((8 * THREADS,), tj.float32), ((8 * THREADS,), tj.float32))
    count = ROUNDS * REPEATS
    yield Probe("ELEMENT (an addition)", additions, tiles, (ROUNDS,), 8 * count, weights.ELEMENT)
    both = 2 * weights.ELEMENT + weights.SELECT
    yield Probe("SELECT, a comparison and an addition", selections, tiles, (ROUNDS,), 8 * count, both)
    yield Probe("SHUFFLE, with an addition", shuffles, tiles, (ROUNDS,), count, weights.SHUFFLE)
    yield Probe(f"BARRIER of {WARPS} warps", barriers, tiles, (ROUNDS,), count, weights.BARRIER)
    for stride in (1, 2, 4, 8, 32):
        weight = weights.ACCESS + stride * weights.WAVEFRONT
        name = f"ACCESS + {stride} WAVEFRONT"
        yield Probe(name, shared_loads(stride), tiles, (ROUNDS,), count, weight)


# what a warp loads from global memory

ACCESS_ROWS, ACCESS_BYTES = 4096, 4096  # 16 MiB: in L2, not in L1
PASSES = 4
IN_FLIGHT = 4


def global_loads(rows: int, lanes: int, vector: int, dtype: tj.DType) -> Probe:
    """Loads of tiles of which a warp has `lanes` lanes along rows, each with `vector` elements."""
    width, columns = ACCESS_BYTES // dtype.bytes, lanes * vector
    layout = S[(rows, lanes, vector) : (lanes @ laneid, 1 @ laneid, 1)]
    strip = IN_FLIGHT * columns
    across, down = width // strip, ACCESS_ROWS // rows
    ctas = across * down // WARPS

    @tj.kernel(threads=THREADS)
    def global_loads(X: tj.Tensor, Y: tj.Tensor, passes: tj.int32):
        number = tj.cta_id(0) * WARPS + tj.warp_id()
        total = tj.warp.zeros((rows, columns), dtype, layout=layout)
        for turn in range(passes):
            # each time another strip, which L1 doesn't have
            row, column = (number // across + turn * 5) % down * rows, number % across * strip
            for k in tj.static_range(IN_FLIGHT):
                first = column + k * columns
                total = total + tj.warp.load(X[row : row + rows, first : first + columns], layout=layout)
        tj.warp.store(Y[number % down * rows : number % down * rows + rows, 0:columns], total)

    run, digits = vector * dtype.bytes, ((lanes, vector * dtype.bytes), (rows, None))
    arrays = (((ACCESS_ROWS, width), dtype), ((ACCESS_ROWS, width), dtype))
    name = f"{dtype.name} {rows:2} rows x {lanes:2} lanes x {run:2} bytes"
    issued = ctas * WARPS * PASSES * IN_FLIGHT
    return Probe(name, global_loads, arrays, (PASSES, ctas), issued, touched(run, digits))


def access_probes() -> Iterator[Probe]:
    """By vector width and spread of lanes."""
    for dtype, widths in ((tj.float32, (1, 2, 4)), (tj.float16, (1, 2, 8))):
        for vector in widths:
            for rows in (1, 4, 8, 32):
                yield global_loads(rows, WARP // rows, vector, dtype)


# transposes


def by_registers(shape: tuple[int, int], threads: int, layout: TileLayout | None) -> tj.Kernel:
    """A tile that is loaded and stored in one layout; in the pass's where none is given."""

    @tj.kernel(threads=threads)
    def by_registers(X: tj.Tensor, Y: tj.Tensor):
        row, column = tj.cta_id(1), tj.cta_id(0)
        x = tj.cta.load(X.tile(shape, (row, column)), layout=layout)
        tj.cta.store(Y.tile((shape[1], shape[0]), (column, row)), x.T)

    @tj.kernel(threads=threads)
    def openly(X: tj.Tensor, Y: tj.Tensor):
        row, column = tj.cta_id(1), tj.cta_id(0)
        x = tj.cta.load(X.tile(shape, (row, column)))
        tj.cta.store(Y.tile((shape[1], shape[0]), (column, row)), x.T)

    return openly if layout is None else by_registers


def by_shared(shape: tuple[int, int], threads: int, loaded: TileLayout, stored: TileLayout) -> tj.Kernel:
    """A tile that is converted between its load and its store."""

    @tj.kernel(threads=threads)
    def by_shared(X: tj.Tensor, Y: tj.Tensor):
        row, column = tj.cta_id(1), tj.cta_id(0)
        x = tj.cta.load(X.tile(shape, (row, column)), layout=loaded)
        y = tj.alloc_local(shape, X.dtype, layout=stored)
        tj.cta.copy(y, x)
        tj.cta.store(Y.tile((shape[1], shape[0]), (column, row)), y.T)

    return by_shared


def both_ways(shape: tuple[int, int], dtype: tj.DType) -> tuple[AccessCost, AccessCost]:
    """The load along rows and the store along columns."""
    tile, size = ((0, shape[0]), (1, shape[1])), dtype.bytes
    width = WIDEST_BYTES // size
    return AccessCost(tile, (None, size), 1, width, size, False), AccessCost(tile, (size, None), 0, width, size, True)


def kind(grid: Grid) -> str:
    """Along which axes of a tile that is stored transposed a thread has neighbours."""
    rows, columns = (spread.vector > 1 for spread in grid.spreads)
    if rows and columns:
        return "blocks"
    return "rows" if columns else "columns" if rows else "elements"


def cheapest(
    shape: tuple[int, int], threads: int, demand: Demand, wanted: Callable[[Grid], bool] = lambda grid: True
) -> tuple[TileLayout, int]:
    """The layout of the cheapest grid without padding, and its cost."""
    pool = candidates("cta", threads, shape, (0, 1), Prices(demand))
    grids = [grid for grid in pool if wanted(grid) and not grid.project((0, 1), shape).slots]
    best = min(grids, key=pool.__getitem__)
    return best.project((0, 1), shape).layout, pool[best]


def transpose_of(shape: tuple[int, int], dtype: tj.DType, threads: int, extent: int) -> Choice:
    """extent: of the matrix."""
    load, store = both_ways(shape, dtype)
    both = Demand({load: 1, store: 1})
    ways: list[Way] = []
    for name in ("blocks", "rows", "columns"):
        layout, cost = cheapest(shape, threads, both, lambda grid, name=name: kind(grid) == name)
        ways.append(Way(name, by_registers(shape, threads, layout), cost))
    sides = [cheapest(shape, threads, Demand({access: 1})) for access in (load, store)]
    kernel = by_shared(shape, threads, *(layout for layout, _ in sides))
    array = tj.spec((extent, extent), dtype)
    verdict = next(v for v in kernel.compile(array, array, target=TARGET).verdicts if v.variant == "through_shared")
    exchanged = copy_through_shared.cost(verdict.op, DispatchContext(target(TARGET), threads))
    ways.append(Way("through shared", kernel, sum(cost for _, cost in sides) + exchanged * (threads // WARP)))
    chosen = choose("cta", threads, shape, (0, 1), both)
    ways.append(Way(f"open: {kind(chosen.grid)}", by_registers(shape, threads, None), chosen.cost, is_chosen=True))
    arrays = (((extent, extent), dtype), ((extent, extent), dtype))
    name = f"transpose of {shape[0]} x {shape[1]} {dtype.name}, {extent}²"
    return Choice(name, ways, arrays, (extent // shape[1], extent // shape[0]), lambda x: x.T)


def transposes() -> Iterator[Choice]:
    # in L2, and far larger
    for extent in (2048, 8192):
        for dtype in (tj.float32, tj.float16):
            for shape in ((64, 64), (32, 128), (128, 64)):
                yield transpose_of(shape, dtype, 128, extent)


# kernels whose layouts are chosen among many


def softmax(X: tj.Tensor, Y: tj.Tensor, M: tj.constexpr, N: tj.constexpr):
    i = tj.cta_id(0)
    x = tj.cta.load(X[i * M : (i + 1) * M, 0:N])
    e = tj.exp(x - tj.max(x, axis=1)[:, None])
    tj.cta.store(Y[i * M : (i + 1) * M, 0:N], e / tj.sum(e, axis=1)[:, None])


def sums_of_rows(X: tj.Tensor, Y: tj.Tensor, M: tj.constexpr, N: tj.constexpr):
    i = tj.cta_id(0)
    tj.cta.store(Y[i * M : (i + 1) * M], tj.sum(tj.cta.load(X[i * M : (i + 1) * M, 0:N]), axis=1))


def sums_of_columns(X: tj.Tensor, Y: tj.Tensor, M: tj.constexpr, N: tj.constexpr):
    i = tj.cta_id(0)
    tj.cta.store(Y[i, 0:N], tj.sum(tj.cta.load(X[i * M : (i + 1) * M, 0:N]), axis=0))


def with_transpose(X: tj.Tensor, Y: tj.Tensor, M: tj.constexpr, N: tj.constexpr):
    i, j = tj.cta_id(0) // (X.shape[1] // N), tj.cta_id(0) % (X.shape[1] // N)
    x = tj.cta.load(X.tile((M, N), (i, j)))
    tj.cta.store(Y.tile((M, N), (i, j)), x + tj.cta.load(X.tile((N, M), (j, i))).T)


def doubled(X: tj.Tensor, Y: tj.Tensor, M: tj.constexpr, N: tj.constexpr):
    i = tj.cta_id(0)
    tj.cta.store(Y[i * M : (i + 1) * M, 0:N], 2 * tj.cta.load(X[i * M : (i + 1) * M, 0:N]))


class Pick:
    """In place of `choose`: the grid with a given place among those that cost differently."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.cost = 0

    def __call__(
        self, scope: str, threads: int, extents: Sequence[int], columns: Sequence[int], demand: Demand
    ) -> Chosen:
        best = choose(scope, threads, extents, columns, demand)
        pool = candidates(scope, threads, extents, columns, Prices(demand))
        costs = sorted(set(pool.values()))
        self.cost = costs[min(self.place, len(costs) - 1)]
        grid = best.grid if self.place == 0 else next(g for g, cost in pool.items() if cost == self.cost)
        return Chosen(grid, self.cost, None)


def row(
    function: Callable[..., None], threads: int, m: int, n: int, arrays: Any, grid: int, expected: Callable[..., Any]
) -> Choice:
    """A kernel with each of its cheapest grids."""
    ways = []
    for place in range(BEST_OF):
        pick = Pick(place)
        way = Way(f"number {place + 1}", tj.kernel(threads=threads)(function), 0, place == 0, pick)
        way.first(way.kernel.compile, *(tj.spec(*array) for array in arrays), M=m, N=n, target=TARGET)
        way.cost = pick.cost
        ways.append(way)
    name = f"{function.__name__} of {m} x {n} {arrays[0][1].name}, {threads} threads"
    return Choice(name, ways, arrays, (grid,), expected, {"M": m, "N": n})


def rows() -> Iterator[Choice]:
    """Of the worked examples those of which many can run beside each other."""
    count = 32 * 1024
    single, half = tj.float32, tj.float16
    wide = (((count, 128), single), ((count, 128), single))
    yield row(softmax, 128, 32, 128, wide, count // 32, lambda x: x.softmax(1))
    for dtype, m, n, threads in ((half, 32, 48, 64), (single, 64, 48, 128), (single, 32, 128, 128)):
        arrays = (((count, n), dtype), ((count,), dtype))
        yield row(sums_of_rows, threads, m, n, arrays, count // m, lambda x: x.float().sum(1).to(x.dtype))
    arrays = (((count, 128), single), ((count // 64, 128), single))
    yield row(sums_of_columns, 128, 64, 128, arrays, count // 64, lambda x: x.reshape(-1, 64, 128).sum(1))
    square = (((4096, 4096), single), ((4096, 4096), single))
    yield row(with_transpose, 128, 64, 64, square, 64 * 64, lambda x: x + x.T)
    for dtype in (single, half):
        arrays = (((count, 128), dtype), ((count, 128), dtype))
        yield row(doubled, 128, 32, 128, arrays, count // 32, lambda x: 2 * x)


PARTS = ("weights", "accesses", "transposes", "rows")


def check(parts: Sequence[str]) -> int:
    """Compiles everything; returns how many kernels these were."""
    count = 0
    probes = {"weights": weight_probes, "accesses": access_probes}
    for part in (part for part in parts if part in probes):
        for probe in probes[part]():
            probe.kernel.compile(*(tj.spec(*array) for array in probe.arrays), probe.scalars[0], target=TARGET)
            count += 1
    for part, choices in (("transposes", transposes), ("rows", rows)):
        for choice in choices() if part in parts else ():
            for way in choice.ways:
                specs = [tj.spec(*array) for array in choice.arrays]
                way.first(way.kernel.compile, *specs, target=TARGET, **choice.constants)
                count += 1
    return count


class Measuring:
    """All that needs a GPU."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.units = torch.cuda.get_device_properties(0).multi_processor_count
        #: milliseconds of an addition of one warp, on a multiprocessor
        self.unit = 0.0

    def arrays(self, described: Sequence[tuple[tuple[int, ...], tj.DType]]) -> list[Any]:
        """Random numbers, and NaN for what is written."""
        torch = self.torch
        types = {tj.float32: torch.float32, tj.float16: torch.float16}
        made = [torch.randn(shape, device="cuda").to(types[dtype]) for shape, dtype in described]
        made[-1].fill_(float("nan"))
        return made

    def milliseconds(self, runs: dict[str, Callable[[], Any]]) -> dict[str, float]:
        """Medians, in turn; what fits in L2 stays there from one launch to the next."""
        times = measured(runs, LAUNCHES, is_cold=False)
        return {name: statistics.median(each) for name, each in times.items()}

    def probe(self, probe: Probe) -> None:
        """Prints what an instruction takes, in quarter cycles, beside its weight."""
        arrays = self.arrays(probe.arrays)
        rounds, *ctas = probe.scalars
        # for accesses the count is that of all warps together, else of each warp of a grid that fills the GPU
        grid = ctas[0] if ctas else self.units * RESIDENT
        issued = probe.issued if ctas else probe.issued * grid * WARPS
        run = functools.partial(probe.kernel[grid], *arrays, rounds)
        each = self.milliseconds({"run": run})["run"] * self.units / issued
        self.unit = self.unit or each
        cycles = each / self.unit
        print(f"{probe.name:44}{cycles:8.1f}{probe.weight:8}{cycles / probe.weight:8.2f}", flush=True)

    def choice(self, choice: Choice) -> None:
        """Prints time and cost of each way."""
        *inputs, output = self.arrays(choice.arrays)
        expected = choice.expected(*inputs)
        runs: dict[str, Callable[[], Any]] = {}
        for way in choice.ways:
            launch = way.kernel[choice.grid]
            output.fill_(float("nan"))
            way.first(launch, *inputs, output, **choice.constants)
            tolerance = 1e-4 if output.dtype == self.torch.float32 else 2e-2
            self.torch.testing.assert_close(output, expected, rtol=tolerance, atol=tolerance)
            runs[way.name] = functools.partial(launch, *inputs, output, **choice.constants)
        times = self.milliseconds(runs)
        chosen = next(way for way in choice.ways if way.is_chosen)
        fastest = min(times, key=times.__getitem__)
        print(choice.name)
        for way in choice.ways:
            time, cost = times[way.name] / times[chosen.name], way.cost / chosen.cost
            print(f"    {way.name:40}{times[way.name] * 1e3:8.1f} us{time:8.2f}{way.cost:8}{cost:8.2f}")
        slowdown = times[chosen.name] / times[fastest]
        verdict = "is among the fastest" if slowdown <= TOLERATED else f"is {slowdown - 1:.0%} slower than {fastest}"
        print(f"    the chosen one {verdict}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="the weights of layouts' costs, measured")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all where none is given")
    parser.add_argument("--check", action="store_true", help="compile everything, measure nothing")
    arguments = parser.parse_args()
    parts = arguments.parts or PARTS
    if arguments.check:
        print(f"{check(parts)} kernels compiled")
        return
    import torch

    measuring = Measuring(torch)
    print(machine())
    print(f"{'':44}{'measured':>8}{'weight':>8}{'ratio':>8}")
    for number, probe in enumerate(weight_probes()):
        # the first is the unit of all others
        if number == 0 or "weights" in parts:
            measuring.probe(probe)
    for probe in access_probes() if "accesses" in parts else ():
        measuring.probe(probe)
    print(f"{'':44}{'median':>8}{'time':>11}{'cost':>8}{'ratio':>8}")
    for part, choices in (("transposes", transposes), ("rows", rows)):
        for choice in choices() if part in parts else ():
            measuring.choice(choice)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
