"""Add up the 32-bit words of packets of bytes, which follow a header."""

import torch
import triton
import triton.language as tl

HEADER = 16


@triton.jit
def packet_sum_kernel(packet_ptr, sum_ptr, stride, header, words, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    word_ptr = (packet_ptr + pid * stride + header).to(tl.pointer_type(tl.int32))
    i = tl.arange(0, BLOCK)
    w = tl.load(word_ptr + i, mask=i < words, other=0)
    tl.store(sum_ptr + pid, tl.sum(w, axis=0))


def main():
    torch.manual_seed(0)
    packets = torch.randint(0, 256, (5, HEADER + 400), dtype=torch.uint8, device="cuda")
    sums = torch.empty(5, dtype=torch.int32, device="cuda")
    packet_sum_kernel[(5,)](packets, sums, packets.stride(0), HEADER, 100, BLOCK=128)
    words = packets[:, HEADER:].contiguous().view(torch.int32)
    torch.testing.assert_close(sums, words.sum(1, dtype=torch.int32))


if __name__ == "__main__":
    main()
