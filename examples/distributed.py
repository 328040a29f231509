"""A layer shared by several GPUs: y = x + gelu(x @ up + up_bias) @ down + down_bias, tensor-parallel.

Each of R ranks, a process with a GPU, has 1/R of the weights: columns of `up`, and the corresponding rows of `down`.
The columns of gelu(x @ up + up_bias) are independent of the other ranks, since gelu is elementwise. Their product with
the rank's rows of `down` is a partial sum of the size of the result; an all-reduce adds the partial sums.

    rank 0    x ── @ up[:, :half] ── gelu ── @ down[:half, :] ──┐
                                                              sum ── + x + down_bias ── y, on both
    rank 1    x ── @ up[:, half:] ── gelu ── @ down[half:, :] ──┘

The all-reduce is NCCL's, and streams need no attention: launches on PyTorch's tensors go to PyTorch's current stream,
in order with NCCL's work. Tokens are processed in CHUNKS, so that NCCL adds one chunk while the products of the next
are computed. Two H200 GPUs are 1.93 times as fast as one, and 1.86 times without chunks.

Run it: `torchrun --nproc-per-node 2 examples/distributed.py`. `python examples/distributed.py` runs the ranks one after
the other and adds their parts by NumPy; this needs no PyTorch, and also works on the simulator.
"""

import math
import os
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

import tilejit as tj

BM, BN, BK = 128, 128, 64
STAGES = 3
STEP = 16  # columns of A that one mma instruction multiplies
BLOCK = 2048  # elements that a CTA of `finish` adds
CHUNKS = 4


@tj.kernel(threads=256, max_registers=128)
def product(A: tj.Tensor, B: tj.Tensor, bias: tj.Tensor | None, C: tj.Tensor, activation: tj.constexpr) -> None:
    """C = activation(A @ B + bias). While a slice of K is multiplied, cp.async fetches the next two.

    Two CTAs fit on a multiprocessor: one multiplies while the other waits, or computes its activation.
    """
    row, column = tj.cta_id(0), tj.cta_id(1)
    a_stages = tj.alloc_shared((STAGES, BM, BK), A.dtype, swizzle="128B")
    b_stages = tj.alloc_shared((STAGES, BK, BN), B.dtype, swizzle="128B")
    for step in range(STAGES - 1):
        tj.cta.copy_async(a_stages[step], A.tile((BM, BK), (row, step)))
        tj.cta.copy_async(b_stages[step], B.tile((BK, BN), (step, column)))
        tj.cp_async.commit()
    acc = tj.cta.zeros((BM, BN), tj.float32)
    for step in range(tj.cdiv(A.shape[1], BK)):
        tj.cp_async.wait(STAGES - 2)
        tj.cta_sync()  # this step's slices have arrived for all threads, and all have read the last step's
        now, coming = step % STAGES, step + STAGES - 1
        tj.cta.copy_async(a_stages[coming % STAGES], A.tile((BM, BK), (row, coming)))
        tj.cta.copy_async(b_stages[coming % STAGES], B.tile((BK, BN), (coming, column)))
        tj.cp_async.commit()
        for k in tj.static_range(0, BK, STEP):
            acc += tj.cta.load(a_stages[now, :, k : k + STEP]) @ tj.cta.load(b_stages[now, k : k + STEP, :])
    if bias is not None:
        acc += tj.cta.load(bias.tile(BN, column))
    c = acc.astype(C.dtype)
    if activation == "gelu":
        c = tj.gelu(c)
    tj.cta.store(C.tile((BM, BN), (row, column)), c)


@tj.kernel(threads=256)
def finish(X: tj.Tensor, bias: tj.Tensor, Y: tj.Tensor) -> None:
    """Y += X + bias."""
    row, column = tj.cta_id(1), tj.cta_id(0)
    x = tj.cta.load(X[row].tile(BLOCK, column)).astype(tj.float32)
    y = tj.cta.load(Y[row].tile(BLOCK, column)) + x + tj.cta.load(bias.tile(BLOCK, column))
    tj.cta.store(Y[row].tile(BLOCK, column), y.astype(Y.dtype))


@dataclass(frozen=True)
class Weights:
    """The weights of a layer, or one rank's share of them: NumPy arrays or PyTorch tensors.

    up: width × inner. up_bias: inner. down: inner × width. down_bias: width, on each rank.
    """

    up: Any
    up_bias: Any
    down: Any
    down_bias: Any

    def share(self, rank: int, ranks: int) -> "Weights":
        """Return a rank's columns of `up` and `up_bias`, the corresponding rows of `down`, and `down_bias`."""
        inner = self.up.shape[1]
        first, last = rank * inner // ranks, (rank + 1) * inner // ranks
        return Weights(self.up[:, first:last], self.up_bias[first:last], self.down[first:last], self.down_bias)


def multiply(a: Any, b: Any, bias: Any, c: Any, activation: str | None) -> None:
    product[tj.cdiv(c.shape[0], BM), tj.cdiv(c.shape[1], BN)](a, b, bias, c, activation)


def part(x: Any, weights: Weights, hidden: Any, y: Any) -> None:
    """y = this share's part of the sum. hidden: room for tokens × the share's columns of `up`."""
    multiply(x, weights.up, weights.up_bias, hidden, "gelu")
    multiply(hidden, weights.down, None, y, None)


def add_input(x: Any, weights: Weights, y: Any) -> None:
    """y += x + down_bias, once all parts are in y."""
    finish[tj.cdiv(y.shape[1], BLOCK), y.shape[0]](x, weights.down_bias, y)


# without PyTorch: one rank after the other


def check(tokens: int, width: int, inner: int, ranks: int = 2, dtype: tj.DType = tj.float16) -> None:
    random = np.random.default_rng(inner)

    def drawn(*shape: int) -> npt.NDArray[Any]:
        values: npt.NDArray[Any] = (random.standard_normal(shape) / math.sqrt(shape[0])).astype(dtype.numpy)
        return values

    weights = Weights(drawn(width, inner), drawn(inner), drawn(inner, width), drawn(width))
    x = random.standard_normal((tokens, width)).astype(dtype.numpy)
    y = np.zeros_like(x)

    for rank in range(ranks):
        share = weights.share(rank, ranks)
        hidden = np.full((tokens, share.up.shape[1]), np.nan, x.dtype)
        parts = np.full_like(x, np.nan)
        part(x, share, hidden, parts)
        y += parts  # what NCCL does
    add_input(x, weights, y)

    expected = reference(x, weights)
    roundings: dict[tj.DType, float] = {tj.float16: 2e-3, tj.bfloat16: 16e-3}
    error = np.abs(y.astype(np.float64) - expected).max() / np.abs(expected).max()
    assert error < roundings[dtype], f"the result is wrong by {error:.1e} of the largest value"
    print(f"{tokens} x {width} x {inner} {dtype}, {ranks} ranks in turn on {tj.device()}: right")


def reference(x: npt.NDArray[Any], weights: Weights) -> npt.NDArray[Any]:
    """The whole layer by NumPy, in float64."""
    erf = np.vectorize(math.erf, otypes=[np.float64])
    x, up, up_bias, down, down_bias = (
        np.asarray(array, np.float64)
        for array in (x, weights.up, weights.up_bias, weights.down, weights.down_bias)
    )
    hidden = x @ up + up_bias
    hidden *= (1 + erf(hidden / math.sqrt(2))) / 2
    y: npt.NDArray[np.float64] = x + hidden @ down + down_bias
    return y


# with PyTorch: a process for each rank


class Layer:
    """This rank's share of a layer, with buffers for its results."""

    def __init__(self, torch: Any, weights: Weights, rank: int, ranks: int, tokens: int) -> None:
        self.distributed = torch.distributed
        self.ranks = ranks
        share = weights.share(rank, ranks)
        self.weights = Weights(share.up.contiguous(), share.up_bias, share.down.contiguous(), share.down_bias)
        self.hidden = share.up.new_empty(tokens, share.up.shape[1])
        self.y = share.up.new_empty(tokens, share.up.shape[0])

    def __call__(self, x: Any) -> Any:
        chunks = [slice(k * len(x) // CHUNKS, (k + 1) * len(x) // CHUNKS) for k in range(CHUNKS)]
        sums = [self.begin(x, rows) for rows in chunks]
        for rows, waits in zip(chunks, sums, strict=True):
            if waits is not None:
                waits.wait()  # PyTorch's stream waits, not this thread
            add_input(x[rows], self.weights, self.y[rows])
        return self.y

    def begin(self, x: Any, rows: slice) -> Any:
        """Compute this rank's part for these tokens, and start to add the ranks' parts."""
        part(x[rows], self.weights, self.hidden[rows], self.y[rows])
        return self.distributed.all_reduce(self.y[rows], async_op=True) if self.ranks > 1 else None


def milliseconds(torch: Any, run: Callable[[], Any], rounds: int = 15) -> float:
    """The median time of a call on this rank's GPU; all ranks begin each call together."""
    times: list[float] = []
    for _ in range(rounds):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.distributed.barrier()
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times[3:])


def run_on_gpus(tokens: int, width: int, inner: int) -> None:
    """Run one process of torchrun: compare and time its part of the layer against the whole on one GPU."""
    torch: Any = import_module("torch")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    torch.manual_seed(0)  # the same weights everywhere

    def drawn(*shape: int) -> Any:
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16).div_(math.sqrt(shape[0]))

    weights = Weights(drawn(width, inner), drawn(inner), drawn(inner, width), drawn(width))
    x = torch.randn(tokens, width, device="cuda", dtype=torch.bfloat16)
    shared, whole = Layer(torch, weights, rank, ranks, tokens), Layer(torch, weights, 0, 1, tokens)

    def by_pytorch() -> Any:
        hidden = torch.nn.functional.gelu(torch.addmm(weights.up_bias, x, weights.up))
        return x + torch.addmm(weights.down_bias, hidden, weights.down)

    expected = by_pytorch()
    errors = [float((layer(x) - expected).abs().max() / expected.abs().max()) for layer in (whole, shared)]
    assert max(errors) < 16e-3, f"rank {rank}: the results are wrong by {errors} of the largest value"

    slowest = torch.tensor(
        [milliseconds(torch, run) for run in (partial(whole, x), partial(shared, x), by_pytorch)], device="cuda"
    )
    torch.distributed.all_reduce(slowest, torch.distributed.ReduceOp.MAX)
    if rank == 0:
        print(f"{tokens} x {width} x {inner} bfloat16 on {ranks} x {torch.cuda.get_device_name()}: right")
        print(f"errors against PyTorch, of the largest value: one GPU {errors[0]:.1e}, {ranks} GPUs {errors[1]:.1e}")
        one, several, pytorch = slowest.tolist()
        print(f"one GPU {one:.2f} ms, {ranks} GPUs {several:.2f} ms: {one / several:.2f} times as fast")
        print(f"PyTorch's products on one GPU: {pytorch:.2f} ms")
    torch.distributed.destroy_process_group()


def main() -> None:
    if "LOCAL_RANK" in os.environ:  # torchrun sets it
        run_on_gpus(tokens=4096, width=8192, inner=28672)
        return
    check(33, 40, 64)
    check(7, 24, 48, 3, tj.bfloat16)
    x, up = tj.spec((4096, 8192), tj.bfloat16), tj.spec((8192, 14336), tj.bfloat16)
    bias, hidden = tj.spec((14336,), tj.bfloat16), tj.spec((4096, 14336), tj.bfloat16)
    print(product.explain(x, up, bias, hidden, "gelu"))


if __name__ == "__main__":
    main()
