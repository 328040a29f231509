"""Random programs of many kinds by seeds of the day: NumPy = simulator = GPU. As many as fit into some seconds:

    python -m tests.long.random_programs --seconds 130 --jobs 16
    python -m tests.long.random_programs --seed 20260101 --only trees:17

prints the seed, how many programs of each kind there were, what failed and what took long to compile, each with the
command that runs it again.
"""

from __future__ import annotations

import argparse
import datetime
import faulthandler
import itertools
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing import active_children, get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from hypothesis import strategies as st

import tilejit as tj
from tests.frontend.test_random_programs import by_python, deep_programs, programs
from tests.kernels import chained_products, cluster_programs, mixed_programs, ring_programs, test_trees, tile_programs
from tests.kernels import test_property_copies as copies
from tests.kernels import test_property_elementwise as elementwise
from tests.kernels.test_gemm import multiplies
from tests.kernels.test_rings import Shape, hands_over, shapes, turns
from tests.lower.running import Run
from tests.support.operands import Operand
from tests.support.operations import Operation, operations
from tests.support.orders import EVERY_ORDER, Order, simulated
from tests.support.programs import source_of
from tilejit import pipeline
from tilejit.dtypes import DTYPES
from tilejit.errors import DispatchError
from tilejit.isa.mma import MMA
from tilejit.lower import VARIANTS, DispatchContext
from tilejit.lower.engine import dispatch
from tilejit.runtime import devices, variants
from tilejit.runtime.device import Device
from tilejit.target import target as find_target

DAY = int(os.environ.get("TILEJIT_SEED") or datetime.date.today().strftime("%Y%m%d"))

#: programs of one batch of `main`
BATCH = 40

#: seconds from which on a compilation is reported
SLOW = 3.0


def all_devices() -> list[Device]:
    return [devices.named(name) for name in (["sim"] if devices.cuda_problem() else ["sim", "cuda"])]


def named(device: Device) -> str:
    return "cuda" if device.number >= 0 else "sim"


@dataclass(frozen=True)
class Compilation:
    """What one compilation took, the reading of the source included.

    seconds: by the clock. busy: of this process. stages: ms by stage, none of one that was refused.
    place: the innermost calls after `SLOW` seconds, "" where it took less.
    """

    seconds: float
    busy: float
    stages: dict[str, float]
    place: str

    def __str__(self) -> str:
        largest = sorted(self.stages.items(), key=lambda stage: -stage[1])[:6]
        stages = ", ".join(f"{name} {ms:,.0f}" for name, ms in largest) or "refused"
        return f"{self.seconds:.1f} s to compile, {self.busy:.1f} s of them busy; ms: {stages}\n{self.place}"


def _innermost_calls(thread: int) -> list[str]:
    frame = sys._current_frames().get(thread)
    return ["most recent call first:\n", *traceback.format_stack(frame)[:-13:-1]]


@contextmanager
def compilations() -> Iterator[list[Compilation]]:
    """What each compilation inside takes."""
    made: list[Compilation] = []

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            stages: dict[str, float] = {}
            place: list[str] = []
            # not `faulthandler`: it reads the calls while they change, and ends the process if that goes wrong
            watch = threading.Timer(SLOW, lambda: place.extend(_innermost_calls(thread)))
            thread, watch.daemon = threading.get_ident(), True
            watch.start()
            began, busy = time.perf_counter(), time.process_time()
            try:
                result = function(*args, **options)
                stages = result.timings
                return result
            finally:
                seconds, busy = time.perf_counter() - began, time.process_time() - busy
                watch.cancel()
                made.append(Compilation(seconds, busy, stages, "".join(place)))

        return call

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(variants.VariantCache, "_new", timed(variants.VariantCache._new))
        patch.setattr("tests.support.running.compile", timed(pipeline.compile))
        yield made


def scalar_program(case: tuple[str, int]) -> None:
    text, n = case
    wanted = by_python(text, n)
    for device in all_devices():
        array = np.zeros(8, np.int32)
        with tj.use_device(named(device)):
            tj.kernel(threads=1)(source_of(text))[1](array, n)
        np.testing.assert_array_equal(array, wanted, named(device))


def copy(case: tuple[copies.Copy, str]) -> None:
    made, target = case
    for device in all_devices():
        made.run(device, None if device.number >= 0 else target)


def copy_async(case: tuple[copies.Copy, str]) -> None:
    made, target = case
    made.operation = replace(made.operation, name="copy_async", operands=made.operation.operands[:2])
    made.fill = np.zeros_like(made.fill)
    for device in all_devices():
        try:
            made.run(device, None if device.number >= 0 else target)
        except DispatchError as error:
            assert "ldgsts" in error.declines


def computation(case: tuple[elementwise.Computation, str, bool]) -> None:
    made, target, at_run_time = case
    # fp8 has no arithmetic, and scalars of it no parameters
    assume(not any(not isinstance(i, Operand) and DTYPES[elementwise._name(i)].is_fp8 for i in made.inputs))
    for device in all_devices():
        made.run(device, None if device.number >= 0 else target, at_run_time)


def product(case: tuple[Any, tuple[int, int, int], tuple[int, int], int]) -> None:
    form, tiles, warps, number = case
    for device in all_devices():
        if device.number < 0 or MMA.row(form).missing(device.target) is None:
            multiplies(form, tiles, warps, device, number)


def tree(case: tuple[tile_programs.Program, str, int]) -> None:
    program, target, schedule = case
    for device in all_devices():
        simulated = device.number < 0
        test_trees.runs(program, device, target if simulated else None, schedule if simulated else 0)


def with_hopper() -> list[Device]:
    return [device for device in all_devices() if device.number < 0 or device.target.name == "sm_90a"]


def asynchronous(case: tuple[Operation, Order]) -> None:
    """What TMA moves or wgmma multiplies; it is asked of others, too, which aren't carried out."""
    operation, order = replace(case[0], target=find_target("sm_90a")), case[1]
    try:
        chosen = dispatch(operation.op, DispatchContext(operation.target, operation.threads), VARIANTS).variant
    except DispatchError:
        chosen = None
    assume(chosen in ("tma_load", "tma_store", "bulk", "wgmma"))
    for device in with_hopper():
        with simulated(order):
            Run(operation).check(device)


def in_order(case: tuple[chained_products.Chain | ring_programs.Ring | cluster_programs.ClusterProgram, Order]) -> None:
    program, order = case
    for device in with_hopper():
        program.runs(device, order)


def handed_over(case: tuple[Shape, list[int], Order]) -> None:
    for device in with_hopper():
        hands_over(*case, device)


TARGETS = st.sampled_from(copies.TARGETS)
ORDERS = st.sampled_from(EVERY_ORDER)
ANY_MEMORY = tuple(pair for pair in copies.ANY_PAIR if "local" not in pair)

#: name -> (how a case is drawn, what is done with it, number of programs in the tests)
KINDS: dict[str, tuple[st.SearchStrategy[Any], Callable[[Any], None], int]] = {
    "scalars": (st.tuples(programs() | deep_programs(), st.integers(-3, 9)), scalar_program, 24),
    "copies": (
        st.tuples(
            copies.memory_copies(copies.MEMORY_PAIRS)
            | copies.memory_copies(ANY_MEMORY, "fallback")
            | copies.register_copies()
            | copies.register_copies("fallback", windowed=True)
            | copies.local_copies()
            | copies.matrix_copies(),
            TARGETS,
        ),
        copy,
        24,
    ),
    "cp.async": (st.tuples(copies.memory_copies((("shared", "global"),)), TARGETS), copy_async, 8),
    "elementwise": (
        st.tuples(elementwise.computations() | elementwise.memory_computations(), TARGETS, st.booleans()),
        computation,
        20,
    ),
    "trees": (
        st.tuples(tile_programs.programs(12), TARGETS, st.sampled_from([0] * 9 + [1])),
        tree,
        24,
    ),
    "mixed": (
        st.tuples(mixed_programs.programs(), TARGETS, st.sampled_from([0] * 9 + [1])),
        tree,
        20,
    ),
    "products": (
        st.tuples(
            st.sampled_from(MMA.forms()),
            st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3)),
            st.sampled_from([(1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (3, 1), (1, 4), (4, 2)]),
            st.integers(0, 99),
        ),
        product,
        4,
    ),
    "boxes": (st.tuples(operations(("copy_async",)), ORDERS), asynchronous, 4),
    "wgmma": (st.tuples(operations(("gemm_async",)), ORDERS), asynchronous, 4),
    "chains": (st.tuples(chained_products.chains(), ORDERS), in_order, 2),
    "rings": (st.tuples(ring_programs.rings(), ORDERS), in_order, 4),
    "clusters": (st.tuples(cluster_programs.cluster_programs(), ORDERS), in_order, 2),
    "handovers": (st.tuples(shapes(), turns(), ORDERS), handed_over, 2),
}


@dataclass
class Batch:
    """Programs of one kind by one seed: how many have run, what each compilation took, and which were slow."""

    kind: str
    seed: int
    programs: int = 0
    compiled: list[Compilation] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)

    def run(self, most: int, *, simplest: bool = True) -> Batch:
        """Raises what a program raises; simplest: which is looked for, for up to five minutes."""
        strategy, run, _ = KINDS[self.kind]

        @seed(self.seed)
        @settings(
            max_examples=most, database=None, deadline=None, suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink] if simplest else [Phase.generate],
        )
        @given(strategy)
        def case_by_case(case: Any) -> None:
            before = len(self.compiled)
            if _running is not None:
                _running.write_text(f"{self.kind}, seed {self.seed}: {case}")
            try:
                run(case)
            finally:
                self.slow += [f"{made}of {case}" for made in self.compiled[before:] if made.seconds > SLOW]
            self.programs += 1

        with compilations() as self.compiled:
            case_by_case()
        return self

    @property
    def longest(self) -> float:
        """Seconds of the longest compilation."""
        return max((made.seconds for made in self.compiled), default=0.0)


@dataclass(frozen=True)
class Outcome:
    """What one batch came to; failure: the traceback, or nothing. slow: each compilation that was."""

    kind: str
    number: int
    programs: int
    longest: float
    failure: str
    slow: tuple[str, ...]


def outcome(day: int, kind: str, number: int, *, simplest: bool = False) -> Outcome:
    batch, failure = Batch(kind, day * 100_000 + number), ""
    try:
        batch.run(BATCH, simplest=simplest)
    except Exception:
        failure = traceback.format_exc()
    return Outcome(kind, number, batch.programs, batch.longest, failure, tuple(batch.slow))


def in_turn(kinds: Sequence[str]) -> Iterator[tuple[str, int]]:
    """(kind, number) of one batch after another, as often as `KINDS` says."""
    counts: Counter[str] = Counter()
    for turn in itertools.count(1):
        for kind in kinds:
            # the largest kind has a batch in each iteration
            while counts[kind] * max(KINDS[k][2] for k in kinds) < turn * KINDS[kind][2]:
                yield kind, counts[kind]
                counts[kind] += 1


def outcomes(day: int, kinds: Sequence[str], seconds: float, jobs: int) -> Iterator[Outcome]:
    """Of as many batches as are begun in some seconds."""
    ends = time.monotonic() + seconds
    batches = in_turn(kinds)
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(jobs, get_context("spawn"), _begin, (folder,)) as pool,
    ):
        running: set[Future[Outcome]] = set()
        workers: dict[int | None, BaseProcess] = {}
        while running or time.monotonic() < ends:
            while len(running) < jobs + 2 and time.monotonic() < ends:
                running.add(pool.submit(outcome, day, *next(batches)))
            workers |= {process.pid: process for process in active_children()}
            done, running = wait(running, return_when=FIRST_COMPLETED)
            try:
                yield from (future.result() for future in done)
            except BrokenProcessPool:
                raise SystemExit(_endings(Path(folder), workers)) from None


def _endings(folder: Path, workers: Mapping[int | None, BaseProcess]) -> str:
    """How each process that the pool didn't terminate ended, and the program that it ran."""
    said = []
    for path in folder.iterdir():
        process = workers[int(path.name)]
        process.join()
        # where the pool's thread took the status first, it is about to say so
        given_up = time.monotonic() + 10
        while process.exitcode is None and time.monotonic() < given_up:
            time.sleep(0.01)
        if process.exitcode != -signal.SIGTERM:
            said.append(f"a process ended with {process.exitcode}; it ran {path.read_text()}")
    return "\n\n".join(said)


#: where this process says which program it runs, in case that ends it
_running: Path | None = None


def _begin(folder: str) -> None:
    global _running
    faulthandler.enable()
    _running = Path(folder, str(os.getpid()))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=DAY)
    parser.add_argument("--seconds", type=float, default=130, help="a batch that has begun is finished")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--only", metavar="KIND:NUMBER", help="a batch again, to its simplest failure")
    options = parser.parse_args(arguments)
    began, counts, longest, failed = time.monotonic(), Counter[str](), 0.0, 0
    if options.only:
        kind, number = options.only.split(":")
        made: Iterator[Outcome] = iter([outcome(options.seed, kind, int(number), simplest=True)])
    else:
        made = outcomes(options.seed, options.kinds, options.seconds, options.jobs)
    for batch in made:
        counts[batch.kind] += batch.programs
        longest = max(longest, batch.longest)
        again = f"again: python -m tests.long.random_programs --seed {options.seed} --only {batch.kind}:{batch.number}"
        failed += bool(batch.failure)
        for said in (*batch.slow, *filter(None, [batch.failure])):
            print(f"{said}\n{again}\n", flush=True)
    machines = " and ".join(named(device) for device in all_devices())
    kinds = ", ".join(f"{kind} {counts[kind]:,}" for kind in KINDS if counts[kind])
    print(
        f"seed {options.seed}: {counts.total():,} programs on {machines} in {time.monotonic() - began:.0f} s "
        f"({kinds}); the longest compilation {longest:.2f} s; {failed} batches failed"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
