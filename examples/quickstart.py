"""Tone-map a full-HD image: global memory → shared memory → registers and back, checked against NumPy.

Run it: `python examples/quickstart.py`. With a GPU the kernel runs there; without one, the PTX for a GPU runs on
the simulator, with checks that a GPU doesn't make.
"""

import numpy as np
import numpy.typing as npt

import tilejit as tj
from tilejit import S, tx

HEIGHT, WIDTH = 1080, 1920
TILE = (8, 128)

# Thread t of 128 owns row t // 16, columns 8 * (t % 16) to 8 * (t % 16) + 7: eight registers per thread.
OWNERS = S[(8, 16, 8) : (16 @ tx, 1 @ tx, 1)]


@tj.kernel(threads=128)
def tone_map(image: tj.Tensor, out: tj.Tensor, exposure: tj.float32, gamma: tj.float32) -> None:
    """out = (x / (x + 1)) ** gamma, with x = image * exposure: Reinhard's curve, then gamma."""
    row, column = tj.cta_id(1), tj.cta_id(0)
    staged = tj.alloc_shared(TILE, image.dtype)
    x = tj.alloc_local(TILE, tj.float32, layout=OWNERS)
    y = tj.alloc_local(TILE, tj.float32, layout=OWNERS)

    # 1080 rows are 135 tiles of 8, 1920 columns are 15 of 128; a ragged edge would read 0 and write nothing.
    tj.cta.copy(staged, image.tile(TILE, (row, column)))
    tj.cta_sync()
    tj.cta.copy(x, staged)
    tj.cta.mul(x, x, exposure)
    tj.cta.add(y, x, 1.0)
    tj.cta.div(x, x, y)
    tj.cta.pow(x, x, gamma)
    tj.cta.copy(staged, x)
    tj.cta_sync()
    tj.cta.copy(out.tile(TILE, (row, column)), staged)


def picture(height: int, width: int) -> npt.NDArray[np.float32]:
    """A bright disc over a gradient with sensor noise: float32, values from 0 to about 9."""
    y = np.arange(height, dtype=np.float32)[:, None]
    x = np.arange(width, dtype=np.float32)
    disc = 8 * np.exp(-((x - 0.7 * width) ** 2 + (y - 0.3 * height) ** 2) / (0.02 * width * height))
    noise = 0.01 * np.random.default_rng(0).standard_normal((height, width), np.float32)
    bright: npt.NDArray[np.float32] = np.maximum(disc + y / height + noise, 0)
    return bright


def main() -> None:
    image = picture(HEIGHT, WIDTH)
    out = np.empty_like(image)
    exposure, gamma = 0.8, 1 / 2.2
    grid = (tj.cdiv(WIDTH, TILE[1]), tj.cdiv(HEIGHT, TILE[0]))

    tone_map[grid](image, out, exposure, gamma)

    x = image.astype(np.float64) * np.float32(exposure)
    expected = (x / (x + 1)) ** np.float64(np.float32(gamma))
    error = np.abs(out - expected).max()

    print(f"device          {tj.device()}")
    print(f"image           {HEIGHT} x {WIDTH} float32, {grid[0] * grid[1]} CTAs of 128 threads")
    print(tone_map.explain(image, out, exposure, gamma))
    print(f"largest error   {error:.1e} against NumPy in float64")
    assert error < 1e-6, "the result is wrong"


if __name__ == "__main__":
    main()
