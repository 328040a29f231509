"""Cross entropy of rows of logits; rows whose target is -100 do not count."""

import torch
import triton
import triton.language as tl


@triton.jit
def cross_entropy_kernel(logit_ptr, target_ptr, loss_ptr, classes, ignored, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    target = tl.load(target_ptr + row)
    counts = target != ignored
    x = tl.load(logit_ptr + row * classes + c, mask=c < classes, other=-float("inf"))
    top = tl.max(x, axis=0)
    log_sum = tl.log(tl.sum(tl.exp(x - top), axis=0)) + top
    picked = tl.load(logit_ptr + row * classes + target, mask=counts, other=0.0)
    tl.store(loss_ptr + row, tl.where(counts, log_sum - picked, 0.0))


def main():
    torch.manual_seed(0)
    logits = torch.randn(16, 50, device="cuda")
    target = torch.randint(0, 50, (16,), dtype=torch.int64, device="cuda")
    target[0] = -100
    target[7] = -100
    loss = torch.empty(16, device="cuda")
    cross_entropy_kernel[(16,)](logits, target, loss, 50, -100, BLOCK=64)
    expected = torch.nn.functional.cross_entropy(logits, target, ignore_index=-100, reduction="none")
    torch.testing.assert_close(loss, expected)


if __name__ == "__main__":
    main()
