"""Verdicts of the examples in all orders of their synchronizing events, and the time that the search takes.

    TILEJIT_DEVICE=sim python -m tests.bench.bench_orders [SECONDS [EXAMPLE…]]

Each example is checked at its smallest size. SECONDS: the limit for each launch, by default 120.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from typing import Any

import pytest

import tilejit as tj
from tests.examples.test_tiles import CASES, EARLY
from tilejit.launches import Launch
from tilejit.runtime.simulated import SimulatedFunction
from tilejit.simulator.checks.report import Report

LIMIT = 10_000


@contextmanager
def all_orders(seconds: float, reports: list[tuple[Report, float, float]]) -> Iterator[None]:
    """Let launches run in all orders; list their reports, and the seconds that all orders take and one schedule."""
    simulate = SimulatedFunction.simulate

    def timed(function: SimulatedFunction, launch: Launch, arguments: Any, **options: Any) -> Report:
        begin = time.perf_counter()
        simulate(function, launch, arguments, **{**options, "checks": True})
        middle = time.perf_counter()
        report = simulate(
            function, launch, arguments, checks=True, on_finding="collect", orders="all", limit=LIMIT, seconds=seconds)
        reports.append((report, time.perf_counter() - middle, middle - begin))
        return report

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SimulatedFunction, "simulate", timed)
        yield


def checked(name: str, seconds: float) -> list[tuple[Report, float, float]]:
    """Check an example at its smallest size; return the reports of its launches, with times."""
    reports: list[tuple[Report, float, float]] = []
    example = import_module(f"examples.{name}")
    check = partial(example.check, *CASES[name][0]) if name in CASES else example.main
    # launches that add, and so run twice, leave other sums
    with all_orders(seconds, reports), tj.use_device("sim"), suppress(AssertionError):
        check()
    return reports


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 120.0
    print(f"{'kernel':44} {'grid':16} {'verdict':11} {'orders':>14} {'s':>8} {'s in one':>8}")
    for name in sys.argv[2:] or (*CASES, *EARLY):
        for report, every, one in checked(name, seconds):
            orders = report.orders
            assert orders is not None, "the launch was asked for it"
            count = f"{orders.explored:,}" + (f" of {orders.at_least:,}" if orders.at_least > orders.explored else "")
            kernel = f"{name}: {report.entry}"[:44]
            row = f"{kernel:44} {str(report.grid):16} {orders.verdict:11} {count:>14} {every:8.2f} {one:8.2f}"
            print(row, flush=True)
            if orders.verdict != "clean":
                print(f"    {orders}")


if __name__ == "__main__":
    main()
