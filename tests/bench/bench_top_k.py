"""`examples/top_k.py` on a GPU against torch.topk.

Run: `python tests/bench/bench_top_k.py [ROWSxCOLUMNSxK[:CONFIGURATION,...] ...]`. A configuration is threads / groups
of a thread / loads of a group at a time / room, and perhaps the most registers of a thread: `64x65536x64:1024/2/4/128,
512/4/4/128/64`. Without arguments, those below are measured.

Results are checked first, with and without ties. Times are medians of CUDA events around single launches, in turn;
before each, memory is read that fills L2. The speed is that of reading the array once.
"""

from __future__ import annotations

import statistics
import sys
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


def contender(x: Any, values: Any, indices: Any, k: int, configuration: str) -> Run:
    threads, parts, loads, room, *registers = map(int, configuration.split("/"))
    function = top_k.top_k.__wrapped__  # type: ignore[attr-defined]
    kernel = tj.kernel(threads=threads, max_registers=registers[0] if registers else None)(function)
    return partial(kernel[len(x)], values=values, indices=indices, K=k, PARTS=parts, LOADS=loads, ROOM=room)


def check(torch: Any, name: str, run: Run, x: Any, values: Any, indices: Any) -> None:
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
    rows, columns, k = map(int, sizes.split("x"))
    x = torch.randn((rows, columns), device="cuda")
    ties = torch.randint(0, 1000, (rows, columns), device="cuda").float()
    values = torch.empty((rows, k), device="cuda")
    indices = torch.empty((rows, k), device="cuda", dtype=torch.int32)
    contenders: dict[str, Run] = {"torch.topk": lambda: torch.topk(x, k)}
    for name in configurations.split(",") if configurations else []:
        run = contender(x, values, indices, k, name)
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
    for case in sys.argv[1:] or DEFAULT:
        measure(torch, case)


if __name__ == "__main__":
    main()
