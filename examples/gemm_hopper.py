"""C = activation(A @ B + bias) + residual on Hopper's tensor cores: TMA → swizzled shared memory → wgmma → TMA.

A is M × K and B is K × N, of float16 or bfloat16, row-major or column-major; an optional leading dimension is a batch.
M, N and K are run-time values, and tiles may extend past every edge. Rows (columns, if column-major) must start at
multiples of 16 bytes, as TMA requires; `matmul.py` accepts multiples of 4. bias is a row of N, residual has C's shape.

One CTA per multiprocessor works on tiles of 128 × 256 one after the other, with two warpgroups of 64 rows each. It
takes K in slices of 64, in a ring of STAGES stages:

    warp 0        copies slices of A and B into free stages, STAGES - 1 ahead
    warpgroups    wait for a slice, start its product, and wait for the previous one, whose stage is free then

So the tensor cores always have a product in flight. In `gemm` warp 0 belongs to a warpgroup that also multiplies. In
`gemm_with_producer` a third warpgroup copies, and gives its registers to the others, which use them to keep a finished
tile and write it during the next tile's first products. Either kernel takes up to 225 KB of shared memory.

TMA reads 128 bytes of a row at a time. If rows don't start at multiples of 128 bytes, most of these reads span two
cache lines, and the L2 cache limits the speed. So `multiplication` then uses clusters of two CTAs with vertically
adjacent tiles: each loads half of their common B for both. This makes 8191 × 8200 × 8184 1.4 times as fast.

The activation "gelu" is exact. "gelu_tanh" uses the hardware's tanh, as cuBLASLt's epilogue does, and has the same
error: at most 0.0005 + 0.0003 * |x| before the rounding of C. It takes 6 instructions per element; the exact one takes
more than 50.

Needs sm_90a; on other machines it runs on the simulator: `python examples/gemm_hopper.py`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import tilejit as tj

BM, BN, BK = 128, 256, 64
STAGES = 4
GROUPS = (8, 12, 16)  # rows of tiles that are processed together, so that their part of B stays in L2
WARPS = 4  # of a warpgroup: each releases a stage separately
SLICE = 64  # columns of sums that an activation processes at a time
HALF = BN // 2  # columns of C that are written at a time
PAIR = (2, 1)  # shape of a cluster, whose CTAs share B
MANY_ROWS = 2048  # of C, from which on pairs are used; they may add a row of tiles past the end of C


@tj.function
def place_of(tile: Any, shape: tuple[Any, Any], group: int, is_batch: bool) -> tuple[Any, Any, Any]:
    """The index of a tile's product in the batch, and its row and column among that product's tiles."""
    z = tj.uint32(0)
    if is_batch:  # for a single product the first load needn't wait for these divisions
        z = tile // (shape[0] * shape[1])
        tile = tile % (shape[0] * shape[1])
    row, column = tj.tile_order(tile, shape, group=group)
    return z, row, column


@tj.function
def target_of(place: tuple[Any, Any, Any], w: Any, h: Any) -> tuple[Any, Any, Any]:
    """The position in C at which half `h` of the columns of warpgroup `w` begins, for the tile at `place`."""
    return place[0], place[1] * BM + w * 64, place[2] * BN + h * HALF


@tj.function
def load(A: Any, B: Any, a: Any, b: Any, t: Any, place: tuple[Any, Any, Any], k: Any) -> None:
    """Copy slice k of a tile's rows of A and columns of B into a stage, row-major or column-major as in memory."""
    z, row, column, depth = place[0], place[1] * BM, place[2] * BN, k * BK
    t.acquire()
    if a.shape[1] == BM:
        tj.warp.copy_async(a[t.stage], A[z, row : row + BM, depth : depth + BK], barrier=t)
    else:
        tj.warp.copy_async(a[t.stage], A[z, depth : depth + BK, row : row + BM], barrier=t)
    if b.shape[1] == BK:
        tj.warp.copy_async(b[t.stage], B[z, depth : depth + BK, column : column + BN], barrier=t, multicast=0)
    else:
        tj.warp.copy_async(b[t.stage], B[z, column : column + BN, depth : depth + BK], barrier=t, multicast=0)
    tj.warp.commit(t)


@tj.function
def multiply(acc: Any, a: Any, b: Any, t: Any, w: Any, accumulate: Any) -> None:
    """Start a warpgroup's product of a slice."""
    rows = a[t.stage, w * 64 : w * 64 + 64, :] if a.shape[1] == BM else a[t.stage, :, w * 64 : w * 64 + 64].T
    columns = b[t.stage] if b.shape[1] == BK else b[t.stage].T
    tj.wg.gemm_async(acc, rows, columns, accumulate=accumulate)


@tj.function
def tiles_of(C: Any) -> tuple[Any, Any]:
    """Rows and columns of tiles, as unsigned numbers, whose division is cheaper. All CTAs of a cluster have tiles."""
    together = tj.cluster.size(0)
    return tj.uint32(tj.cdiv(C.shape[1], BM * together) * together), tj.uint32(tj.cdiv(C.shape[2], BN))


@tj.function
def gelu_tanh(x: tj.Tile) -> tj.Tile:
    """x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))."""
    t = tj.fast.tanh(x * tj.fma(x * x, 0.0356774081, 0.7978845608))
    half = x * 0.5
    return tj.fma(half, t, half)


@tj.function
def finish(y: Any, x: Any, bias: Any, residual: Any, activation: str | None, at: tuple[Any, Any, Any]) -> None:
    """Convert half of a warpgroup's sums to values of C, for the region at `at`. bias: that of its columns.

    An activation is computed slice by slice, so that intermediate values take few registers.
    """
    width = x.shape[1] if activation is None else SLICE
    for s in tj.static_range(0, x.shape[1], width):
        v = x[:, s : s + width]
        if bias is not None:
            v = v + tj.wg.load(bias[s : s + width]).astype(tj.float32)[None, :]
        if activation == "relu":
            v = tj.relu(v)
        elif activation == "gelu":
            v = tj.gelu(v)
        elif activation == "gelu_tanh":
            v = gelu_tanh(v)
        if residual is not None:
            z, row, column = at[0], at[1], at[2] + s
            v = v + tj.wg.load(residual[z, row : row + 64, column : column + width]).astype(tj.float32)
        tj.wg.cast(y[:, s : s + width], v)


@tj.function
def store(C: Any, c_whole: bool, out: Any, y: Any, at: tuple[Any, Any, Any]) -> None:
    """Write half of a warpgroup's part of a tile through shared memory."""
    z, row, column = at
    tj.bulk.wait_read(0)
    tj.warpgroup_sync()  # the last store has read `out`
    tj.wg.copy(out, y)
    tj.warpgroup_sync()
    to = C[z, row : row + 64, column : column + out.shape[1]]
    if c_whole:
        tj.wg.copy_async(to, out)
    elif row + 64 <= C.shape[1] and column + out.shape[1] <= C.shape[2]:
        tj.wg.copy_async(tj.assume_in_bounds(to), out)
    else:  # TMA would write past the end of a row, up to a multiple of 16 bytes
        tj.wg.copy(to, out)


@tj.kernel(threads=256)
def gemm(
    A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, bias: tj.Tensor | None, residual: tj.Tensor | None, group: tj.constexpr,
    a_rows: tj.constexpr, b_rows: tj.constexpr, activation: tj.constexpr, c_whole: tj.constexpr, is_batch: tj.constexpr,
) -> None:
    """A: (batch, M, K), or (batch, K, M) without a_rows. B: (batch, K, N), or (batch, N, K) without b_rows.

    group: rows of tiles that are processed together. c_whole: the rows of C end at multiples of 16 bytes.
    is_batch: there are several products.
    """
    a = tj.alloc_shared((STAGES, BM, BK) if a_rows else (STAGES, BK, BM), A.dtype, swizzle="128B")
    b = tj.alloc_shared((STAGES, BK, BN) if b_rows else (STAGES, BN, BK), B.dtype, swizzle="128B")
    out = tj.alloc_shared((2, 64, HALF), C.dtype, swizzle="128B")
    near = None if bias is None else tj.alloc_shared((2, BN), bias.dtype)  # the bias of each warpgroup's columns
    ring = tj.alloc_ring(STAGES, consumers=2 * WARPS, multicast=0)
    acc = tj.alloc_local((64, BN), tj.float32, layout=tj.wgmma.layout_c((64, BN)))
    y = tj.alloc_local((64, HALF), C.dtype, layout=tj.wgmma.layout_c((64, HALF)))
    shape = tiles_of(C)
    tiles = tj.uint32(C.shape[0]) * shape[0] * shape[1]
    steps = max(tj.int32(tj.cdiv(A.shape[2] if a_rows else A.shape[1], BK)), 1)  # tells the compiler that it is never 0
    stride = tj.uint32(tj.num_ctas(0))
    w = tj.warpgroup_id()
    # what is loaded next: slice `ahead` of tile `coming`, as step `j`
    coming, j, ahead = tj.uint32(tj.cta_id(0)), 0, 0
    ahead_place = place_of(min(coming, tiles - 1), shape, group, is_batch)
    if tj.warp_id() == 0 and coming < tiles:
        while j < min(STAGES - 1, steps):
            load(A, B, a, b, ring[j], ahead_place, j)
            j += 1
    j = ahead = min(STAGES - 1, steps)  # all threads count, though one warp copies
    i = 0
    place = tj.uint32(0), tj.uint32(0), tj.uint32(0)
    for tile in range(tj.uint32(tj.cta_id(0)), tiles, stride):
        for k in range(steps):
            t = ring[i]
            t.wait()
            multiply(acc, a, b, t, w, k > 0)
            if k == 0:  # while the first product runs
                place = place_of(tile, shape, group, is_batch)
                if bias is not None and near is not None:
                    tj.wg.copy(near[w], bias[place[2] * BN : place[2] * BN + BN])
                    tj.warpgroup_sync()
            tj.wgmma.wait(1)  # the previous step is done: its stage is free
            if k > 0:
                tj.warp.release(ring[i - 1])
            if ahead == steps:
                ahead, coming = 0, tj.uint32(coming + stride)
                ahead_place = place_of(min(coming, tiles - 1), shape, group, is_batch)
            if coming < tiles:
                if tj.warp_id() == 0:
                    load(A, B, a, b, ring[j], ahead_place, ahead)
                ahead, j = ahead + 1, j + 1
            i += 1
        tj.wgmma.wait(0)
        tj.warp.release(ring[i - 1])
        for h in tj.static_range(2):
            s, at = h * HALF, target_of(place, w, h)
            added = None if near is None else near[w, s : s + HALF]
            finish(y, acc[:, s : s + HALF], added, residual, activation, at)
            store(C, c_whole, out[w], y, at)
    tj.bulk.wait_read(0)


@tj.kernel(threads=384)
def gemm_with_producer(
    A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, bias: tj.Tensor | None, residual: tj.Tensor | None, group: tj.constexpr,
    a_rows: tj.constexpr, b_rows: tj.constexpr, activation: tj.constexpr, c_whole: tj.constexpr, is_batch: tj.constexpr,
) -> None:
    """As `gemm`, but the first warp of another warpgroup copies, and a tile is written during later products."""
    a = tj.alloc_shared((STAGES, BM, BK) if a_rows else (STAGES, BK, BM), A.dtype, swizzle="128B")
    b = tj.alloc_shared((STAGES, BK, BN) if b_rows else (STAGES, BN, BK), B.dtype, swizzle="128B")
    out = tj.alloc_shared((2, 64, HALF), C.dtype, swizzle="128B")
    near = None if bias is None else tj.alloc_shared((2, BN), bias.dtype)  # the bias of each warpgroup's columns
    ring = tj.alloc_ring(STAGES, consumers=2 * WARPS, multicast=0)
    shape = tiles_of(C)
    tiles = tj.uint32(C.shape[0]) * shape[0] * shape[1]
    steps = max(tj.int32(tj.cdiv(A.shape[2] if a_rows else A.shape[1], BK)), 1)  # tells the compiler that it is never 0
    stride = tj.uint32(tj.num_ctas(0))
    i = 0
    if tj.warpgroup_id() == 0:
        tj.set_registers(24)
        if tj.warp_id() == 0:
            for tile in range(tj.uint32(tj.cta_id(0)), tiles, stride):
                place = place_of(tile, shape, group, is_batch)
                for k in range(steps):
                    load(A, B, a, b, ring[i], place, k)
                    i += 1
    else:
        tj.set_registers(240)
        w = tj.warpgroup_id() - 1
        acc = tj.alloc_local((64, BN), tj.float32, layout=tj.wgmma.layout_c((64, BN)))
        y = tj.alloc_local((64, BN), C.dtype, layout=tj.wgmma.layout_c((64, BN)))
        place = tj.uint32(0), tj.uint32(0), tj.uint32(0)
        second = min(1, steps - 1)  # the step that the second half is written in: by then `out` has been read
        for tile in range(tj.uint32(tj.cta_id(0)), tiles, stride):
            has_kept = tile >= stride  # `y` and `place` are those of the previous tile
            for k in range(steps):
                t = ring[i]
                t.wait()
                multiply(acc, a, b, t, w, k > 0)
                if k == 0 and has_kept:
                    store(C, c_whole, out[w], y[:, :HALF], target_of(place, w, 0))
                if k == second:
                    if has_kept:
                        store(C, c_whole, out[w], y[:, HALF:], target_of(place, w, 1))
                    place = place_of(tile, shape, group, is_batch)
                    if bias is not None and near is not None:
                        tj.wg.copy(near[w], bias[place[2] * BN : place[2] * BN + BN])
                        tj.warpgroup_sync()
                tj.wgmma.wait(1)
                if k > 0:
                    tj.warp.release(ring[i - 1])
                i += 1
            tj.wgmma.wait(0)
            tj.warp.release(ring[i - 1])
            is_last = tile + stride >= tiles
            for h in tj.static_range(2):
                s, at = h * HALF, target_of(place, w, h)
                added = None if near is None else near[w, s : s + HALF]
                finish(y[:, s : s + HALF], acc[:, s : s + HALF], added, residual, activation, at)
                if is_last:  # no product follows
                    store(C, c_whole, out[w], y[:, s : s + HALF], at)
        tj.bulk.wait_read(0)


#: either kernel for clusters of two CTAs
PAIRED = {
    gemm.name: tj.kernel(threads=256, cluster=PAIR)(gemm.__wrapped__),
    gemm_with_producer.name: tj.kernel(threads=384, cluster=PAIR)(gemm_with_producer.__wrapped__),
}


def rows_of(name: str, x: Any) -> tuple[Any, bool]:
    """An array as a batch of row-major matrices, transposed if it is column-major; and True if it is row-major."""
    x = x if x.ndim == 3 else x[None]
    size = x.element_size() if hasattr(x, "element_size") else x.itemsize
    if size != 2:
        raise ValueError(
            f"{name} holds {x.dtype}; here float16 and bfloat16 are multiplied: convert it, or use tj.cta.gemm, which "
            "takes int8, float8 and, as tf32, float32, too"
        )
    steps = [s * size for s in x.stride()] if hasattr(x, "element_size") else list(x.strides)
    # the step along a dimension of one element, or none, means nothing
    is_rows = steps[1] != size or (steps[2] == size and (x.shape[1] < 2 or x.shape[2] > 1))
    if is_rows and steps[2] != size and 0 not in x.shape:
        raise ValueError(f"{name} has no contiguous dimension: its strides are {steps[1:]} bytes")
    step = steps[1] if is_rows else steps[2]
    if step % 16 and x.shape[1 if is_rows else 2] > 1:
        raise ValueError(
            f"{name}: {'rows' if is_rows else 'columns'} begin every {step} bytes, and TMA takes multiples of 16: pad "
            "them, or use examples/matmul.py"
        )
    return (x if is_rows else x.swapaxes(1, 2)), is_rows


def zeros(like: Any, *shape: int) -> Any:
    """An array of zeros of the same library and type."""
    return like.new_zeros(shape) if hasattr(like, "new_zeros") else np.zeros(shape, like.dtype)


def wave(least: int, most: int) -> tuple[int, int]:
    """Return the number of CTAs and, from GROUPS, the height of the block of tiles that they compute at a time.

    Compact blocks read the least. On 132 multiprocessors 128 CTAs in 16 rows are 1 to 2 % faster at 8192 than 132 CTAs
    in 16 rows; at 8191 x 8200 x 8184, by pairs, 132 are 3 % faster than 128.
    """
    blocks = [(rows, tj.cdiv(least, rows)) for rows in GROUPS]
    full = [(rows, columns) for rows, columns in blocks if rows * columns <= most]
    if not full:
        return least, GROUPS[0]
    rows, columns = min(full, key=lambda block: block[0] * BM + block[1] * BN)
    return rows * columns, rows


def arranged(
    a: Any, b: Any, c: Any, bias: Any = None, residual: Any = None, activation: str | None = None, together: int = 1
) -> tuple[int, tuple[Any, ...]]:
    """The grid and the arguments of either kernel for c = activation(a @ b + bias) + residual.

    together: CTAs of a cluster.
    """
    if a.shape[-1] == 0:  # an empty sum is 0, as is one of zeros
        a, b = zeros(a, *a.shape[:-1], 8), zeros(b, *b.shape[:-2], b.shape[-1], 8).swapaxes(-1, -2)
    (A, a_rows), (B, b_rows), (C, c_rows) = (rows_of(name, x) for name, x in (("a", a), ("b", b), ("c", c)))
    if not c_rows:
        raise ValueError("c: rows must be contiguous; transpose the product: c.T = b.T @ a.T")
    added = None if residual is None else rows_of("residual", residual)[0]
    clusters = int(C.shape[0]) * tj.cdiv(C.shape[1], BM * together) * tj.cdiv(C.shape[2], BN)
    most = max(1, tj.num_sms() // together)
    # the fewest CTAs that need no more iterations than one per multiprocessor would
    share = tj.cdiv(clusters, tj.cdiv(clusters, most))
    ctas, group = wave(share * together, min(most, clusters) * together)
    whole = C.shape[2] % 8 == 0  # of 2 bytes each
    return ctas, (A, B, C, bias, added, group, a_rows, b_rows, activation, whole, C.shape[0] > 1)


def is_aligned(name: str, x: Any) -> bool:
    """True if rows (columns, if column-major) start at cache lines."""
    rows = rows_of(name, x)[0]
    step = rows.stride(1) * rows.element_size() if hasattr(rows, "element_size") else rows.strides[1]
    return int(step) % 128 == 0


def multiplication(
    kernel: Any, a: Any, b: Any, c: Any, bias: Any = None, residual: Any = None, activation: str | None = None
) -> Callable[[], None]:
    """Return a function that computes c = activation(a @ b + bias) + residual by either kernel."""
    if 0 in c.shape:
        return lambda: None
    together = 1
    if c.shape[-2] >= MANY_ROWS and a.shape[-1] and not (is_aligned("a", a) and is_aligned("b", b)):
        kernel, together = PAIRED[kernel.name], PAIR[0]
    grid, arguments = arranged(a, b, c, bias, residual, activation, together)
    return lambda: kernel[grid](*arguments)


def check(m: int, n: int, k: int) -> None:
    """Both kernels, with a bias, relu and a residual, against NumPy in float64."""
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n)))
    bias, residual = random.standard_normal(n).astype(np.float16), random.standard_normal((m, n)).astype(np.float16)
    expected = np.maximum(a.astype(np.float64) @ b.astype(np.float64) + bias, 0) + residual
    for kernel in (gemm, gemm_with_producer):
        c = np.empty((m, n), np.float16)
        multiplication(kernel, a, b, c, bias, residual, "relu")()
        error = np.abs(c - expected).max() / np.abs(expected).max()
        print(f"{kernel.name}, {m} x {n} x {k} on {tj.device()}: right, the largest error {error:.1e}")
        assert error < 1e-3, "the result is wrong"


def main() -> None:
    check(300, 520, 200)  # ragged: tiles extend past all edges
    batch = tj.spec((1, 4096, 4096), tj.float16)
    print(gemm.explain(batch, batch, batch, None, None, 16, True, True, "relu", True, False))


if __name__ == "__main__":
    main()
