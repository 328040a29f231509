"""Add up matrices that may be transposed, by a table of the addresses of contiguous copies."""

import torch
import triton
import triton.language as tl


@triton.jit
def sum_tables_kernel(table_ptr, count, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for k in range(count):
        x_ptr = tl.load(table_ptr + k).to(tl.pointer_type(tl.float32))
        acc += tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(out_ptr + i, acc, mask=i < n)


def main():
    torch.manual_seed(0)
    matrices = [torch.randn(40, 50, device="cuda").t() for _ in range(3)]
    copies = [x.contiguous() for x in matrices]
    table = torch.tensor([x.data_ptr() for x in copies], dtype=torch.int64, device="cuda")
    out = torch.empty(50, 40, device="cuda")
    n = out.numel()
    sum_tables_kernel[(triton.cdiv(n, 256),)](table, len(matrices), out, n, BLOCK=256)
    torch.testing.assert_close(out, matrices[0] + matrices[1] + matrices[2])


if __name__ == "__main__":
    main()
