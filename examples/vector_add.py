"""Z = X + Y: the first kernel to read.

A kernel describes the work of one CTA (a Triton program); a launch `vector_add[grid]` sets the number of CTAs. CTA i
takes the i-th tile of BLOCK elements. `tj.cta.load` reads it into registers, distributed over the CTA's 256 threads.
The compiler decides which thread holds which elements, and uses 16-byte accesses if the arrays allow them.

There is no mask: the last tile may extend past the end, and elements outside the arrays are neither read nor written.

Run it: `python examples/vector_add.py`. Without a GPU the simulator runs the same PTX.
"""

import numpy as np

import tilejit as tj

BLOCK = 1024


@tj.kernel(threads=256)
def vector_add(X: tj.Tensor, Y: tj.Tensor, Z: tj.Tensor) -> None:
    i = tj.cta_id(0)
    x = tj.cta.load(X.tile(BLOCK, i))
    y = tj.cta.load(Y.tile(BLOCK, i))
    tj.cta.store(Z.tile(BLOCK, i), x + y)


def check(count: int) -> None:
    random = np.random.default_rng(count)
    x, y = random.standard_normal(count, np.float32), random.standard_normal(count, np.float32)
    z = np.full_like(x, np.nan)

    vector_add[tj.cdiv(count, BLOCK)](x, y, z)

    assert np.array_equal(z, x + y), "the result is wrong"
    print(f"{count} sums on {tj.device()}: right")


def main() -> None:
    check(10_007)
    x = tj.spec((10_007,), tj.float32)
    print(vector_add.explain(x, x, x))


if __name__ == "__main__":
    main()
