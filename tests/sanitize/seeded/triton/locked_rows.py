"""Add the rows of a matrix to one row, guarded by a spin lock."""

import torch
import triton
import triton.language as tl


@triton.jit
def locked_rows_kernel(x_ptr, sum_ptr, lock_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    mask = c < cols
    x = tl.load(x_ptr + row * cols + c, mask=mask, other=0)
    while tl.atomic_cas(lock_ptr, 0, 1, sem="acquire") == 1:
        pass
    tl.debug_barrier()
    old = tl.load(sum_ptr + c, mask=mask, other=0)
    tl.store(sum_ptr + c, old + x, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0, sem="release")


def main():
    torch.manual_seed(0)
    x = torch.randint(-9, 10, (8, 200), dtype=torch.int32, device="cuda")
    total = torch.zeros(200, dtype=torch.int32, device="cuda")
    lock = torch.zeros(1, dtype=torch.int32, device="cuda")
    locked_rows_kernel[(8,)](x, total, lock, 200, BLOCK=256)
    torch.testing.assert_close(total, x.sum(0, dtype=torch.int32))


if __name__ == "__main__":
    main()
