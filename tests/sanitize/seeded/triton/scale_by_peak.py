"""Divide a vector by its largest element in one launch, with a barrier between all programs."""

import torch
import triton
import triton.language as tl


@triton.jit
def scale_by_peak_kernel(x_ptr, peak_ptr, arrived_ptr, out_ptr, n, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(peak_ptr + pid, tl.max(x, axis=0))
    tl.debug_barrier()
    tl.atomic_add(arrived_ptr, 1, sem="acq_rel")
    while tl.atomic_add(arrived_ptr, 0, sem="acquire") < PROGRAMS:
        pass
    peaks = tl.load(peak_ptr + tl.arange(0, PROGRAMS))
    tl.store(out_ptr + i, x / tl.max(peaks, axis=0), mask=i < n)


def main():
    torch.manual_seed(0)
    n, programs = 900, 4
    x = torch.rand(n, device="cuda") + 1.0
    peaks = torch.zeros(programs, device="cuda")
    arrived = torch.zeros(1, dtype=torch.int32, device="cuda")
    out = torch.empty_like(x)
    scale_by_peak_kernel[(programs,)](x, peaks, arrived, out, n, BLOCK=256, PROGRAMS=programs)
    torch.testing.assert_close(out, x / x.max())


if __name__ == "__main__":
    main()
