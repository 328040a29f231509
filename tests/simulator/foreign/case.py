"""One kernel of the corpus: how it is launched, and what NumPy says it computes."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent


@lru_cache
def stored_ptx(family: str, file: str) -> str:
    """The PTX of one file, as the compiler wrote it."""
    return lzma.decompress((HERE / family / f"{file}.ptx.xz").read_bytes()).decode()


@lru_cache
def triton_metadata() -> dict[str, dict[str, Any]]:
    """What Triton's launcher reads: entry, threads and bytes of shared memory, by file."""
    result: dict[str, dict[str, Any]] = json.loads((HERE / "triton" / "metadata.json").read_text())
    return result


@dataclass(frozen=True)
class Launch:
    """Arguments of a launch and what they hold afterwards.

    args: arrays, NumPy scalars or bytes, one per parameter.
    expected: array as it must be afterwards, by the argument's position.
    rtol, atol: 0 where the result must be equal; the ISA's or library's stated error where it is approximate.
    variables: what module variables hold before the first launch.
    reached: arrays that the kernel reaches through structures, and as what they must be afterwards.
    """

    args: list[Any]
    expected: Mapping[int, Any]
    rtol: float = 0.0
    atol: float = 0.0
    variables: Mapping[str, Any] = field(default_factory=dict)
    reached: Sequence[tuple[Any, Any]] = ()


@dataclass(frozen=True)
class Case:
    """A kernel of the corpus.

    entry: the kernel's name in the PTX; "" for the only one of its file.
    make: makes the arguments of one launch, in a device's memory where structures hold addresses.
    launches: how often it is launched with the same arguments.
    cooperative: launched with cuLaunchCooperativeKernel, since the threads of the grid wait for each other.
    """

    family: str
    file: str
    entry: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared_bytes: int
    make: Callable[[Any], Launch]
    launches: int = 1
    cooperative: bool = False

    @property
    def name(self) -> str:
        return f"{self.family}/{self.make.__name__}"


def check(launch: Launch) -> None:
    """Assert that the arguments hold what NumPy says."""
    results = {f"argument {at}": (launch.args[at], np.asarray(x)) for at, x in launch.expected.items()}
    results |= {f"array {i}": (got, np.asarray(x)) for i, (got, x) in enumerate(launch.reached)}
    for name, (got, expected) in results.items():
        assert got.shape == expected.shape and got.dtype == expected.dtype, (name, got.dtype, expected.dtype)
        if launch.rtol or launch.atol:
            close = np.isclose(got, expected, launch.rtol, launch.atol, equal_nan=True)
        else:
            close = (got == expected) | ((got != got) & (expected != expected))
        wrong = np.argwhere(~close)
        where = tuple(wrong[0]) if len(wrong) else ()
        assert not len(wrong), f"{name}: {len(wrong)} differ; at {where}: {got[where]}, not {expected[where]}"
