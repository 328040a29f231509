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
    "64x65536x2048:1024/8/1/2048,1024/8/1/4096,512/16/1/2048,512/16/1/4096",
    "8192x4096x64:128/2/4/128,64/4/4/128,32/8/4/128,64/4/4/96,256/1/4/128",
    "1024x65536x64:1024/2/4/128,512/4/4/128,256/8/4/128",
)


def numbers(text: str, separator: str) -> list[int]:
    return [int(part) for part in text.split(separator)]


def compile_all(cases: Sequence[str]) -> None:
    """Compile in parallel."""
    jobs: list[tuple[Any, ...]] = []
    for sizes, _, configurations in (case.partition(":") for case in cases):
        rows, columns, k = numbers(sizes, "x")
        specs = [tj.spec((rows, n), dtype) for n, dtype in ((columns, tj.float32), (k, tj.float32), (k, tj.int32))]
        for threads, *options in (numbers(name, "/") for name in configurations.split(",")):
            jobs.append((top_k.top_k, *specs, k, *options, {"threads": threads}))
    tj.compile_many(jobs)


def contender(values: Any, indices: Any, k: int, configuration: str) -> Callable[[Any], None]:
    threads, *sizes = numbers(configuration, "/")
    return lambda x: top_k.top_k[(len(x),), threads](x, values, indices, k, *sizes)


def measure(torch: Any, case: str) -> bool:
    """Print a line for torch.topk and for each configuration; return True if all results are right."""
    sizes, _, configurations = case.partition(":")
    rows, columns, k = numbers(sizes, "x")
    x = torch.randn((rows, columns), device="cuda")
    inputs = (x, torch.randint(0, 1000, (rows, columns), device="cuda").float())
    wanted = [torch.sort(each, dim=1, descending=True, stable=True).indices[:, :k].clone() for each in inputs]
    values = torch.empty((rows, k), device="cuda")
    indices = torch.empty((rows, k), device="cuda", dtype=torch.int32)
    contenders: dict[str, Run] = {"torch.topk": lambda: torch.topk(x, k)}
    names = configurations.split(",")
    for name in names:
        run, is_right = contender(values, indices, k, name), True
        for each, expected in zip(inputs, wanted, strict=True):
            values.fill_(torch.nan)
            indices.fill_(-1)
            run(each)
            is_right &= torch.equal(indices.long(), expected)
            is_right &= torch.equal(values, torch.gather(each, 1, expected))
        if is_right:
            contenders[name] = partial(run, x)
        else:
            print(f"{sizes:16}{name:22} gives a wrong result", flush=True)
    times = {name: statistics.median(each) for name, each in measured(torch, contenders, LAUNCHES).items()}
    for name, time in times.items():
        speed, ratio = x.nbytes / time / 1e6, times["torch.topk"] / time
        print(f"{sizes:16}{name:22}{time * 1e3:9.1f} us{speed:8.0f} GB/s{ratio:8.2f} x torch.topk", flush=True)
    return len(contenders) == 1 + len(names)


def main() -> None:
    import torch

    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    cases = sys.argv[1:] or DEFAULT
    compile_all(cases)
    results = [measure(torch, case) for case in cases]
    if not all(results):
        sys.exit("some results are wrong")


if __name__ == "__main__":
    main()
