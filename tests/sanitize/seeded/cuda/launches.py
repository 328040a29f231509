"""Launches of the CUDA C++ programs.

The sources are compiled for `compute_90`, with the CUDA toolkit's `include` and `include/cccl` on the include path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

f4, i4, u4 = np.float32, np.int32, np.uint32


@dataclass(frozen=True)
class Launch:
    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    #: the kernel's arguments: arrays are copied to the device, scalars are passed as they are
    arguments: tuple[Any, ...]
    #: index of an argument → the exact contents of that array after the launch
    expected: Mapping[int, NDArray[Any]]
    #: bytes of dynamic shared memory
    shared_bytes: int = 0


def unwritten(shape: int | tuple[int, ...], dtype: type) -> NDArray[Any]:
    """Return an output array whose contents before the launch don't matter."""
    return np.full(shape, 77, dtype)


def launch(name: str) -> Launch:
    """Return the launch of `cuda/NAME.cu`, with new arrays."""
    return _LAUNCHES[name](np.random.default_rng(0))


def _column_sums(rng: np.random.Generator) -> Launch:
    x = rng.integers(-100, 100, (2, 10, 128)).astype(f4)
    return Launch("column_sums", (2,), (128,), (x, unwritten((2, 128), f4), i4(10)), {1: x.sum(axis=1)})


def _row_products(rng: np.random.Generator) -> Launch:
    a, b = rng.integers(-100, 100, (2, 4, 256)).astype(i4)
    products = (a * b).sum(axis=1, dtype=i4)
    return Launch("row_products", (4,), (128,), (a, b, unwritten(4, i4)), {2: products})


def _scale_rows(rng: np.random.Generator) -> Launch:
    x = rng.normal(size=(5, 130)).astype(f4)
    scales = rng.normal(size=5).astype(f4)
    arguments = (x, scales, unwritten((5, 130), f4), i4(130))
    return Launch("scale_rows", (5,), (64,), arguments, {2: x * scales[:, None]})


def _block_scan(rng: np.random.Generator) -> Launch:
    x = rng.integers(-100, 100, 700).astype(i4)
    sums = np.concatenate([x[start : start + 256].cumsum(dtype=i4) for start in range(0, 700, 256)])
    return Launch("block_scan", (3,), (256,), (x, unwritten(700, i4), i4(700)), {1: sums})


def _resample(rng: np.random.Generator) -> Launch:
    n, step = 20_000, 5 << 15
    x = rng.normal(size=n * 5 // 2).astype(f4)
    y = x[np.arange(n, dtype=np.int64) * step >> 16]
    return Launch("resample", (-(-n // 256),), (256,), (x, unwritten(n, f4), i4(n), i4(step)), {1: y})


def _running_sums(rng: np.random.Generator) -> Launch:
    x = rng.integers(-100, 100, 6 * 64).astype(i4)
    sums = x.cumsum(dtype=i4)
    arguments = (x, unwritten(x.size, i4), unwritten(6, i4), np.zeros(6, i4))
    return Launch("running_sums", (6,), (64,), arguments, {1: sums, 2: sums[63::64], 3: np.ones(6, i4)})


def _row_maxima(rng: np.random.Generator) -> Launch:
    x = rng.integers(-1000, 1000, (12, 20)).astype(i4)
    return Launch("row_maxima", (3,), (32, 4), (x, unwritten(12, i4), i4(20)), {1: x.max(axis=1)})


def _normalize(rng: np.random.Generator) -> Launch:
    x = rng.integers(1, 1000, 1000).astype(i4)
    arguments = (x, unwritten(4, i4), np.zeros(1, u4), unwritten(1000, f4), i4(1000))
    return Launch("normalize", (4,), (128,), arguments, {3: x.astype(f4) / f4(x.max())})


#: name of a program → a function that makes its launch
_LAUNCHES = {
    "column_sums": _column_sums,
    "row_products": _row_products,
    "scale_rows": _scale_rows,
    "block_scan": _block_scan,
    "resample": _resample,
    "running_sums": _running_sums,
    "row_maxima": _row_maxima,
    "normalize": _normalize,
}
