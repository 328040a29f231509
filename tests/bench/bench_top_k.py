"""`examples/top_k.py` on a GPU against torch.topk.

Run: `python tests/bench/bench_top_k.py [ROWSxCOLUMNSxK:CONFIGURATION,... ...]`. A configuration is threads / groups of
a thread / loads of a group at a time / room, as in `64x65536x64:1024/2/4/128,512/4/4/128`. Without arguments, those
below are measured.

Results are checked first, with and without ties. Times are medians of CUDA events around single launches, in turn;
before each, memory is read that fills L2. The speed is that of reading the array once.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import tilejit as tj  # noqa: E402
from examples import top_k  # noqa: E402
from tests.bench.bench_memory_bound import Run, measured  # noqa: E402

LAUNCHES = 15
DEFAULT = (
    "64x65536x64:1024/2/4/128,1024/2/8/128,1024/1/8/128,1024/1/16/128,512/4/4/128,512/2/8/128,1024/2/2/128",
    "64x65536x2048:1024/8/1/2048,1024/8/1/4096,512/16/1/2048,1024/4/2/2048",
    "8192x4096x64:128/2/4/128,64/4/4/128,32/8/4/128,64/4/4/96,256/1/4/128",
)


def numbers(text: str, separator: str) -> list[int]:
    return [int(part) for part in text.split(separator)]


def compile_all(cases: Sequence[str]) -> None:
    """Compile in parallel."""
    jobs: list[tuple[Any, ...]] = []
    for sizes, _, configurations in (case.partition(":") for case in cases):
        rows, columns, k = numbers(sizes, "x")
        specs = [tj.spec((rows, n), dtype) for n, dtype in ((columns, tj.float32), (k, tj.float32), (k, tj.int32))]
        for threads, *sizes in (numbers(name, "/") for name in configurations.split(",")):
            jobs.append((top_k.top_k, *specs, k, *sizes, {"threads": threads}))
    tj.compile_many(jobs)


def contender(values: Any, indices: Any, k: int, configuration: str) -> Callable[[Any], None]:
    threads, *sizes = numbers(configuration, "/")
    return lambda x: top_k.top_k[(len(x),), threads](x, values, indices, k, *sizes)


def check(torch: Any, name: str, run: Callable[[Any], None], x: Any, values: Any, indices: Any) -> None:
    """Compare with a stable sort."""
    values.fill_(torch.nan)
    indices.fill_(-1)
    run(x)
    wanted = torch.sort(x, dim=1, descending=True, stable=True).indices[:, : values.shape[1]]
    assert torch.equal(indices.long(), wanted), f"{name}: the indices are wrong"
    assert torch.equal(values, torch.gather(x, 1, wanted)), f"{name}: the values are wrong"


def measure(torch: Any, case: str) -> None:
    """Print a line for torch.topk and for each configuration."""
    sizes, _, configurations = case.partition(":")
    rows, columns, k = numbers(sizes, "x")
    x = torch.randn((rows, columns), device="cuda")
    ties = torch.randint(0, 1000, (rows, columns), device="cuda").float()
    values = torch.empty((rows, k), device="cuda")
    indices = torch.empty((rows, k), device="cuda", dtype=torch.int32)
    contenders: dict[str, Run] = {"torch.topk": lambda: torch.topk(x, k)}
    for name in configurations.split(","):
        run = contender(values, indices, k, name)
        for data in (x, ties):
            check(torch, name, run, data, values, indices)
        contenders[name] = partial(run, x)
    times = {name: statistics.median(each) for name, each in measured(torch, contenders, LAUNCHES).items()}
    for name, time in times.items():
        speed, ratio = x.nbytes / time / 1e6, times["torch.topk"] / time
        print(f"{sizes:16}{name:22}{time * 1e3:9.1f} us{speed:8.0f} GB/s{ratio:8.2f} x torch.topk", flush=True)


def main() -> None:
    import torch

    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    cases = sys.argv[1:] or DEFAULT
    compile_all(cases)
    for case in cases:
        measure(torch, case)


if __name__ == "__main__":
    main()
