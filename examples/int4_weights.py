"""Y = X @ W.T with 4-bit weights: float16 activations, int4 weights with a float16 scale for each group of 64.

`tj.pack` stores two weights per byte. `X.view(tj.int4x2)` gives the bytes their type, and `tj.unpack` makes exact
float16 numbers of a tile of them, a pair at a time: in interleaved order by 1.1 instructions per weight. A product of
one group is scaled when it is added to the accumulator, so the tensor cores multiply by whole numbers.

Run it: `python examples/int4_weights.py`.
"""

import numpy as np

import tilejit as tj

BM, BN, GROUP = 32, 64, 64


@tj.kernel(threads=128)
def linear(X: tj.Tensor, W: tj.Tensor, scales: tj.Tensor, Y: tj.Tensor) -> None:
    """X: (M, K). W: bytes, (N, K / 2). scales: (N, K / GROUP). Y: (M, N)."""
    row, column = tj.cta_id(1), tj.cta_id(0)
    weights = W.view(tj.int4x2)
    acc = tj.cta.zeros((BM, BN), tj.float32)
    for k in range(scales.shape[1]):
        x = tj.cta.load(X.tile((BM, GROUP), (row, k)))
        packed = tj.cta.load(weights.tile((BN, GROUP // 2), (column, k)))
        w = tj.unpack(packed, tj.float16, order="interleaved")
        scale = tj.cta.load(scales.tile((BN, 1), (column, k))).astype(tj.float32)
        acc = acc + (x @ w.T) * scale.T
    tj.cta.store(Y.tile((BM, BN), (row, column)), acc.astype(Y.dtype))


def grid(m: int, n: int) -> tuple[int, int]:
    return tj.cdiv(n, BN), tj.cdiv(m, BM)


def quantized(w: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (bytes in interleaved order, scales, the weights that these represent)."""
    groups = w.reshape(len(w), -1, GROUP)
    scales = (np.abs(groups).max(-1) / 7).astype(np.float16)
    numbers = np.clip(np.rint(groups / np.maximum(scales, np.float16(1e-4))[..., None]), -8, 7)
    packed = tj.pack(numbers.reshape(w.shape), tj.int4x2, order="interleaved")
    return packed, scales, (numbers * scales[..., None].astype(np.float64)).reshape(w.shape)


def check(m: int, n: int, k: int) -> None:
    random = np.random.default_rng(k)
    x, w = (random.standard_normal(shape).astype(np.float16) for shape in ((m, k), (n, k)))
    packed, scales, weights = quantized(w)
    y = np.full((m, n), np.nan, np.float16)

    linear[grid(m, n)](x, packed, scales, y)

    expected = x.astype(np.float64) @ weights.T
    np.testing.assert_allclose(y.astype(np.float64), expected, rtol=2e-3, atol=2e-2)
    print(f"{m} x {n} x {k} on {tj.device()}: right")


def main() -> None:
    check(32, 64, 128)
    check(7, 100, 192)
    x, scales = tj.spec((16, 4096), tj.float16), tj.spec((4096, 64), tj.float16)
    print(linear.explain(x, tj.spec((4096, 2048), tj.uint8), scales, x))


if __name__ == "__main__":
    main()
