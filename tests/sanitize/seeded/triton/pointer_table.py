"""Scale tensors of several sizes in one launch, by tables of their addresses and sizes."""

import torch
import triton
import triton.language as tl


@triton.jit
def scale_all_kernel(in_ptr, out_ptr, size_ptr, factor, BLOCK: tl.constexpr):
    which = tl.program_id(0)
    x_ptr = tl.load(in_ptr + which).to(tl.pointer_type(tl.float32))
    y_ptr = tl.load(out_ptr + which).to(tl.pointer_type(tl.float32))
    size = tl.load(size_ptr + which)
    for start in range(0, size, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < size)
        tl.store(y_ptr + i, x * factor, mask=i < size)


def main():
    torch.manual_seed(0)
    xs = [torch.randn(size, device="cuda") for size in (300, 20, 700, 128)]
    ys = [torch.empty_like(x) for x in xs]
    in_table = torch.tensor([x.data_ptr() for x in xs], dtype=torch.int64, device="cuda")
    out_table = torch.tensor([y.data_ptr() for y in ys], dtype=torch.int64, device="cuda")
    sizes = torch.tensor([x.numel() for x in xs], dtype=torch.int32, device="cuda")
    scale_all_kernel[(len(xs),)](in_table, out_table, sizes, 3.0, BLOCK=256)
    for x, y in zip(xs, ys, strict=True):
        torch.testing.assert_close(y, 3.0 * x)


if __name__ == "__main__":
    main()
