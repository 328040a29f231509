"""Add up cached values whose pages are found by a table; a table has unused entries at its end."""

import torch
import triton
import triton.language as tl


@triton.jit
def paged_sum_kernel(cache_ptr, table_ptr, pages_ptr, out_ptr, table_stride, PAGE: tl.constexpr):
    sequence = tl.program_id(0)
    pages = tl.load(pages_ptr + sequence)
    acc = tl.zeros((PAGE,), dtype=tl.float32)
    for p in range(pages):
        page = tl.load(table_ptr + sequence * table_stride + p)
        acc += tl.load(cache_ptr + page * PAGE + tl.arange(0, PAGE))
    tl.store(out_ptr + sequence, tl.sum(acc, axis=0))


def main():
    torch.manual_seed(0)
    page_size, longest = 32, 6
    used = [2, 5, 1]
    cache = torch.randn(8, page_size, device="cuda")
    order = torch.randperm(8, dtype=torch.int32, device="cuda")
    table = torch.empty(len(used), longest, dtype=torch.int32, device="cuda")
    first = 0
    for s, count in enumerate(used):
        table[s, :count] = order[first:first + count]
        first += count
    pages = torch.tensor(used, dtype=torch.int32, device="cuda")
    out = torch.empty(len(used), device="cuda")
    paged_sum_kernel[(len(used),)](cache, table, pages, out, table.stride(0), PAGE=page_size)
    expected = torch.stack([cache[table[s, :count].long()].sum() for s, count in enumerate(used)])
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)


if __name__ == "__main__":
    main()
