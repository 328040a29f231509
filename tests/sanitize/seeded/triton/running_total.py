"""Running totals of blocks: each program waits for the total of the one before it."""

import torch
import triton
import triton.language as tl


@triton.jit
def running_kernel(x_ptr, prefix_ptr, ready_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0)
    before = 0
    if pid > 0:
        while tl.atomic_add(ready_ptr + pid - 1, 0, sem="acquire") == 0:
            pass
        before = tl.load(prefix_ptr + pid - 1)
    tl.store(prefix_ptr + pid, before + tl.sum(x, axis=0))
    tl.debug_barrier()
    tl.atomic_xchg(ready_ptr + pid, 1, sem="release")
    tl.store(out_ptr + offsets, before + tl.cumsum(x, axis=0), mask=offsets < n)


def main():
    torch.manual_seed(0)
    n = 1000
    x = torch.randint(-50, 50, (n,), dtype=torch.int32, device="cuda")
    blocks = triton.cdiv(n, 256)
    prefix = torch.zeros(blocks, dtype=torch.int32, device="cuda")
    ready = torch.zeros(blocks, dtype=torch.int32, device="cuda")
    out = torch.empty_like(x)
    running_kernel[(blocks,)](x, prefix, ready, out, n, BLOCK=256)
    torch.testing.assert_close(out, torch.cumsum(x, 0, dtype=torch.int32))


if __name__ == "__main__":
    main()
