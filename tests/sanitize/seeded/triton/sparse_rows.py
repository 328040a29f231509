"""Multiply a sparse matrix in CSR form by a vector."""

import torch
import triton
import triton.language as tl


@triton.jit
def csr_kernel(start_ptr, col_ptr, value_ptr, x_ptr, y_ptr):
    row = tl.program_id(0)
    start = tl.load(start_ptr + row)
    end = tl.load(start_ptr + row + 1)
    acc = 0.0
    for j in range(start, end):
        col = tl.load(col_ptr + j)
        value = tl.load(value_ptr + j)
        acc += value * tl.load(x_ptr + col)
    tl.store(y_ptr + row, acc)


def main():
    torch.manual_seed(0)
    dense = torch.randn(30, 20)
    dense[torch.rand(30, 20) < 0.7] = 0
    sparse = dense.to_sparse_csr()
    start = sparse.crow_indices().to(device="cuda", dtype=torch.int32)
    col = sparse.col_indices().to(device="cuda", dtype=torch.int32)
    value = sparse.values().to(device="cuda")
    x = torch.randn(20, device="cuda")
    y = torch.empty(30, device="cuda")
    csr_kernel[(30,)](start, col, value, x, y)
    torch.testing.assert_close(y, dense.to(device="cuda") @ x, rtol=1e-5, atol=1e-5)


if __name__ == "__main__":
    main()
