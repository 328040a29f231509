"""What benchmarks on a GPU share: the card and its clock, and times of contenders in turn with a cold L2 cache.

The L2 is flushed by reading: a write leaves dirty lines, whose write-back the next launch pays for (13 of 90
microseconds on an H100).
"""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any

import tilejit as tj

SWEPT_BYTES = 2**28  # read before each launch, at least twice the L2 of any GPU
SLEEP_CYCLES = 500_000  # the host gets ahead meanwhile, so that no launch overhead is timed

_VERSIONS = ("tilejit", "torch", "triton", "cuda-bindings")


def machine() -> str:
    """Return the card with its present and its highest clock, and the versions of the driver and of what is installed.

    It calls nvidia-smi; without it, the device is named as `tj.device()` does.
    """
    query = ["nvidia-smi", "--query-gpu=name,clocks.sm,clocks.max.sm,driver_version", "--format=csv,noheader"]
    try:
        name, clock, highest, driver = subprocess.run(
            query, capture_output=True, text=True, check=True, timeout=60
        ).stdout.splitlines()[0].split(", ")
        card = f"{name}, SM clock {clock} of {highest}, driver {driver}"
    except (OSError, subprocess.SubprocessError, IndexError, ValueError):
        card = str(tj.device())
    return ", ".join([card, f"Python {platform.python_version()}", *filter(None, map(_version, _VERSIONS))])


def _version(package: str) -> str:
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return f"{package} {tj.__version__}" if package == "tilejit" else ""


def milliseconds(launch: Callable[[], object], count: int = 1) -> float:
    """Return the GPU's time of each of `count` launches in a row."""
    import torch

    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(SLEEP_CYCLES)
    begin.record()
    for _ in range(count):
        launch()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / count


def measured(
    contenders: Mapping[str, Callable[[], Any]], rounds: int, *, is_cold: bool = True
) -> dict[str, list[float]]:
    """Return milliseconds of single launches, the contenders in turn, in an order that rotates.

    is_cold: flush the L2 before each launch.
    """
    import torch

    swept = torch.zeros(SWEPT_BYTES // 4, device="cuda") if is_cold else None
    names = list(contenders)
    times: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds + 1):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            if swept is not None:
                swept.sum()
            time = milliseconds(contenders[name])
            if number:  # the first only warms up
                times[name].append(time)
    return times
