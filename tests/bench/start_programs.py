"""The programs whose start `bench_start.py` measures: each runs in a fresh process and prints its marks as JSON.

A mark is seconds since the parent started the process: both read the same monotonic clock. Nothing is imported before
the program that is asked for needs it. Run by the benchmark, which says when in
`BENCH_START_BEGAN`: `python start_programs.py PROGRAM`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SIZE = 4096
MATMUL = 2048

#: name -> seconds since the process was started, or a duration that the program took itself
MARKS: dict[str, float] = {}
BEGAN = float(os.environ.get("BENCH_START_BEGAN") or time.monotonic())


def mark(name: str) -> None:
    MARKS[name] = time.monotonic() - BEGAN


def took(name: str, act: Callable[[], object]) -> None:
    """Records how long something takes."""
    began = time.monotonic()
    act()
    MARKS[name] = time.monotonic() - began


def floor() -> None:
    """What a program on a GPU can't do without: NumPy, the driver's bindings and a context."""
    import numpy as np

    mark("numpy")
    from cuda.bindings import driver

    mark("bindings")
    driver.cuInit(0)
    mark("init")
    _, device = driver.cuDeviceGet(0)
    _, context = driver.cuDevicePrimaryCtxRetain(device)
    driver.cuCtxPushCurrent(context)
    mark("context")
    assert np.float32(1) == 1


def tilejit_host() -> None:
    """NumPy in, NumPy out: process start to the first result."""
    import numpy as np

    import tilejit as tj

    mark("imported")

    @tj.kernel(threads=128)
    def add(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor):
        i = tj.cta_id() * 128 + tj.thread_id()
        C[i] = A[i] + B[i]

    a = np.arange(SIZE, dtype=np.float32)
    c = np.empty_like(a)
    mark("decorated")
    took("call", lambda: add[SIZE // 128](a, a, c))
    mark("result")
    assert (c == 2 * a).all()


def torch_ready() -> Any:
    """PyTorch with a context: what a program of its users has before its first kernel."""
    import torch

    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    mark("torch")
    return torch


def tilejit_torch() -> None:
    """PyTorch's arrays: the first kernel and its second variant, from the call."""
    torch = torch_ready()
    import tilejit as tj

    @tj.kernel(threads=128)
    def add(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor):
        i = tj.cta_id() * 128 + tj.thread_id()
        C[i] = A[i] + B[i]

    def launch(dtype: Any) -> None:
        a, b, c = (torch.ones(SIZE, dtype=dtype, device="cuda") for _ in range(3))
        torch.cuda.synchronize()
        took(str(dtype), lambda: (add[SIZE // 128](a, b, c), torch.cuda.synchronize()))
        assert (c == 2).all()

    mark("imported")
    launch(torch.float32)
    mark("result")
    from tilejit.runtime import cuda_driver

    # as part of that call: once PyTorch has loaded more kernels, the driver takes a quarter less for the same PTX
    load = cuda_driver.load

    def timed(*args: Any) -> Any:
        began = time.perf_counter()
        loaded = load(*args)
        MARKS["driver"] = time.perf_counter() - began
        return loaded

    cuda_driver.load = timed
    launch(torch.float16)
    MARKS.update({f"stage {name}": ms / 1e3 for name, ms in add.signatures[-1].timings.items()})


def triton_torch() -> None:
    torch = torch_ready()
    import triton
    import triton.language as tl

    @triton.jit
    def add(a, b, c, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(c + i, tl.load(a + i) + tl.load(b + i))

    def launch(dtype: Any) -> None:
        a, b, c = (torch.ones(SIZE, dtype=dtype, device="cuda") for _ in range(3))
        torch.cuda.synchronize()
        took(str(dtype), lambda: (add[(SIZE // 128,)](a, b, c, BLOCK=128), torch.cuda.synchronize()))
        assert (c == 2).all()

    mark("imported")
    launch(torch.float32)
    mark("result")
    launch(torch.float16)


def cupy_raw() -> None:
    import cupy

    add = cupy.RawKernel(
        'extern "C" __global__ void add(const float* a, const float* b, float* c) {'
        " int i = blockIdx.x * 128 + threadIdx.x; c[i] = a[i] + b[i]; }",
        "add",
    )
    a, c = cupy.asarray([1.0] * SIZE, dtype="float32"), cupy.empty(SIZE, "float32")
    cupy.cuda.Device().synchronize()
    mark("imported")
    took("torch.float32", lambda: (add((SIZE // 128,), (128,), (a, a, c)), cupy.cuda.Device().synchronize()))
    mark("result")
    assert float(c[-1]) == 2


def matmul_operands(torch: Any) -> Any:
    a, b = (torch.randn(MATMUL, MATMUL, device="cuda", dtype=torch.float16) for _ in range(2))
    c = torch.empty_like(a)
    (a @ b).sum().item()
    mark("imported")
    return a, b, c


def tilejit_matmul() -> None:
    torch = torch_ready()
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from examples import matmul

    a, b, c = matmul_operands(torch)
    ours = matmul.matmul[matmul.grid(MATMUL, MATMUL)]
    took("call", lambda: (ours(a, b, None, c, None), torch.cuda.synchronize()))
    assert torch.allclose(c, a @ b, rtol=0.02, atol=0.5)


def triton_matmul() -> None:
    """One configuration: nothing is tuned."""
    torch = torch_ready()
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from tests.bench.bench_matmul import triton_matmul

    launch = triton_matmul(tuned=False)
    a, b, c = matmul_operands(torch)
    took("call", lambda: (launch(a, b, c), torch.cuda.synchronize()))
    assert torch.allclose(c, a @ b, rtol=0.02, atol=0.5)


def quickstart() -> None:
    """The example's picture on the simulator: to the first result, and to what `explain` says of it."""
    import runpy

    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "quickstart.py"), run_name="quickstart")
    mark("imported")
    height, width, tile, cdiv = example["HEIGHT"], example["WIDTH"], example["TILE"], example["tj"].cdiv
    image = example["picture"](height, width)
    arguments = image, example["np"].empty_like(image), 0.8, 1 / 2.2
    mark("picture")
    example["tone_map"][cdiv(width, tile[1]), cdiv(height, tile[0])](*arguments)
    mark("result")
    assert str(example["tone_map"].explain(*arguments)).startswith("tone_map for ")
    mark("explained")


PROGRAMS: dict[str, Callable[[], None]] = {
    program.__name__: program
    for program in (
        floor, tilejit_host, tilejit_torch, triton_torch, cupy_raw, tilejit_matmul, triton_matmul, quickstart
    )
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]]()
    print(json.dumps(MARKS))
