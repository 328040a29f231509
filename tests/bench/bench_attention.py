"""Attention of `examples/attention.py` against torch's back ends of scaled_dot_product_attention, forward, float16.

Run: `python tests/bench/bench_attention.py [rounds] [part of a case's name ...]` on a GPU of sm_90a with torch.
Contenders take turns in one process, in an order that turns: a GPU at its power limit inherits its clock from what ran
before. `burst`: each batch follows 40 ms of rest, so that the limit doesn't act; `sustained`: batches without rest.
Results are compared with float64 at some rows first. Printed: the median over rounds of the ratio within a round, ours
over the best back end of that round, and TFLOP/s (medians).
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

import tilejit as tj  # noqa: E402
from examples.attention import attention  # noqa: E402
from tests.bench.gpu import machine, milliseconds  # noqa: E402

#: (batch, heads, sequence, head's dimension, causal)
CASES = [
    (4, 32, 4096, 128, False), (1, 32, 16384, 128, False), (4, 32, 4096, 128, True), (1, 32, 16384, 128, True),
    (4, 32, 1024, 128, False), (4, 32, 4096, 64, False),
]
BACKENDS = (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION)
REST_S = {"burst": 0.04, "sustained": 0.0}

#: operations in a batch, enough for kernels to hide the launches
FLOPS_OF_A_BATCH = {"burst": 1e12, "sustained": 3e12}

Contender = Callable[[], Any]


def measured(contenders: dict[str, Contender], rounds: int, count: int, rest: float) -> dict[str, list[float]]:
    """Contender -> milliseconds of a launch in each round."""
    names = list(contenders)
    times: dict[str, list[float]] = {name: [] for name in names}
    for name in names:
        milliseconds(contenders[name], 2)
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            time.sleep(rest)
            times[name].append(milliseconds(contenders[name], count))
    return times


def error_of(out: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> float:
    """How far some rows of the last batch are from float64."""
    heads, sequence, d = q.shape[1:]
    rows = torch.tensor([0, 1, 127, 128, sequence // 2, sequence - 1], device=q.device)
    worst = 0.0
    for head in (0, heads - 1):
        scores = q[-1, head, rows].double() @ k[-1, head].double().T / math.sqrt(d)
        if causal:
            later = torch.arange(sequence, device=q.device)[None, :] > rows[:, None]
            scores = scores.masked_fill(later, -math.inf)
        expected = scores.softmax(1) @ v[-1, head].double()
        error = (out[-1, head, rows].double() - expected).abs().max().item()
        worst = error if math.isnan(error) else max(worst, error)
    return worst


def contenders_of(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> dict[str, Contender]:
    """Ours, and torch's back ends that take these."""
    out = torch.full_like(q, math.nan)
    lse = torch.empty(q.shape[:3], device=q.device)
    d, ctas = q.shape[3], tj.num_sms()

    def ours() -> torch.Tensor:
        attention[ctas](q, k, v, out, lse, D=d, causal=causal)
        return out

    def sdpa(backend: SDPBackend) -> torch.Tensor:
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    contenders: dict[str, Contender] = {"ours": ours}
    for backend in BACKENDS:
        contenders[backend.name] = lambda backend=backend: sdpa(backend)
    for name, contender in contenders.items():
        error = error_of(contender(), q, k, v, causal)
        assert error < 2e-3, f"{name} is off by {error}"
    return contenders


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    print(f"{machine()}, {rounds} rounds")
    for batch, heads, sequence, d, causal in CASES:
        name = f"{batch}x{heads}x{sequence}x{d} {'causal' if causal else 'full'}"
        if sys.argv[2:] and not any(part in name for part in sys.argv[2:]):
            continue
        q, k, v = (torch.randn(batch, heads, sequence, d, device="cuda", dtype=torch.float16) for _ in range(3))
        contenders = contenders_of(q, k, v, causal)
        flops = 4 * batch * heads * sequence**2 * d / (2 if causal else 1)
        for regime, rest in REST_S.items():
            times = measured(contenders, rounds, max(1, round(FLOPS_OF_A_BATCH[regime] / flops)), rest)
            ratios = [
                min(times[name][turn] for name in times if name != "ours") / times["ours"][turn]
                for turn in range(rounds)
            ]
            speeds = ", ".join(f"{n} {flops / statistics.median(t) / 1e9:.0f}" for n, t in times.items())
            print(f"{name:24} {regime:10}{statistics.median(ratios):7.3f} of the best; TFLOP/s {speeds}", flush=True)


if __name__ == "__main__":
    main()
