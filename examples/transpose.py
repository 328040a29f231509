"""Y = X.T twice: in registers alone, and through shared memory without a bank conflict.

`transpose` has three lines. For 16-byte accesses to both arrays, the compiler gives each thread square blocks of the
tile, 4 × 4 elements of float32: a thread loads four row vectors and stores four column vectors, and `x.T` itself moves
nothing.

`transpose_staged` goes through shared memory, which has 32 banks of 4 bytes: accesses to different words of one
bank are serialized. A *swizzle* permutes the 16-byte pieces of each row, differently in each row, so that neither the
pieces of a row nor those of a column share a bank; `staged.T` is a view. A barrier must separate the store by some
threads from the load by others; you write it, and without it the simulator reports the race.

`tj.simulate(..., profile=True)` counts a GPU's memory traffic for each line: wavefronts of shared memory compared with
the fewest possible (the excess are conflicts), and likewise 32-byte sectors of global memory.

Run it: `python examples/transpose.py`.
"""

import numpy as np

import tilejit as tj

ROWS, COLUMNS = 128, 64


@tj.kernel(threads=256)
def transpose(X: tj.Tensor, Y: tj.Tensor) -> None:
    row, column = tj.cta_id(1), tj.cta_id(0)
    x = tj.cta.load(X.tile((ROWS, COLUMNS), (row, column)))
    tj.cta.store(Y.tile((COLUMNS, ROWS), (column, row)), x.T)


@tj.kernel(threads=256)
def transpose_staged(X: tj.Tensor, Y: tj.Tensor) -> None:
    row, column = tj.cta_id(1), tj.cta_id(0)
    staged = tj.alloc_shared((ROWS, COLUMNS), X.dtype, swizzle="128B")
    tj.cta.copy(staged, X.tile((ROWS, COLUMNS), (row, column)))
    tj.cta_sync()
    tj.cta.store(Y.tile((COLUMNS, ROWS), (column, row)), tj.cta.load(staged.T))


def grid(rows: int, columns: int) -> tuple[int, int]:
    return tj.cdiv(columns, COLUMNS), tj.cdiv(rows, ROWS)


def check(rows: int, columns: int, dtype: tj.DType = tj.float32) -> None:
    x = np.random.default_rng(columns).integers(-99, 99, (rows, columns)).astype(dtype.numpy)
    for kernel in (transpose, transpose_staged):
        y = np.zeros((columns, rows), x.dtype)
        kernel[grid(rows, columns)](x, y)
        assert np.array_equal(y, x.T), "the result is wrong"
    print(f"{rows} x {columns} {dtype} on {tj.device()}: right")


def profile(dtype: tj.DType = tj.float32) -> None:
    """Assert that whole tiles are moved without bank conflicts and without excess sectors."""
    x = np.zeros((2 * ROWS, 2 * COLUMNS), dtype.numpy)
    y = np.zeros_like(x.T)
    for kernel in (transpose, transpose_staged):
        report = tj.simulate(kernel, grid(*x.shape), x, y, profile=True)
        for number, line in report.lines.items():
            assert line.bank_conflicts == 0, f"line {number} has {line.bank_conflicts} bank conflicts"
            assert line.traffic.sectors == line.traffic.ideal_sectors
        passes = sum(line.traffic.wavefronts for line in report.lines.values())
        print(f"{kernel.name} of {x.shape[0]} x {x.shape[1]} {dtype}: {passes} wavefronts, no conflicts")


def main() -> None:
    check(256, 128)
    check(131, 67, tj.float16)
    profile()
    x = tj.spec((8192, 8192), tj.float32)
    print(transpose.explain(x, x))


if __name__ == "__main__":
    main()
