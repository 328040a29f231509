"""Means of sequences of several lengths that are packed into one vector."""

import torch
import triton
import triton.language as tl


@triton.jit
def packed_means_kernel(x_ptr, start_ptr, mean_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    start = tl.load(start_ptr + pid)
    end = tl.load(start_ptr + pid + 1)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for base in range(start, end, BLOCK):
        i = base + tl.arange(0, BLOCK)
        acc += tl.load(x_ptr + i, mask=i < end, other=0.0)
    tl.store(mean_ptr + pid, tl.sum(acc, axis=0) / (end - start))


def main():
    torch.manual_seed(0)
    lengths = torch.tensor([5, 130, 64, 17], dtype=torch.int32, device="cuda")
    starts = torch.zeros(len(lengths) + 1, dtype=torch.int32, device="cuda")
    starts[1:] = torch.cumsum(lengths, dim=0)
    x = torch.randn(int(lengths.sum()), device="cuda")
    means = torch.empty(len(lengths), device="cuda")
    packed_means_kernel[(len(lengths),)](x, starts, means, BLOCK=64)
    expected = torch.stack([part.mean() for part in x.split(lengths.tolist())])
    torch.testing.assert_close(means, expected, rtol=1e-5, atol=1e-5)


if __name__ == "__main__":
    main()
