"""Seeded bugs of Numba programs."""

from __future__ import annotations

from .bug import Bug

BUGS: tuple[Bug, ...] = (
    Bug(
        name="tree_without_barrier",
        file="numba/block_sums.py",
        old="            partial[tid] += partial[tid + half]\n        cuda.syncthreads()\n",
        new="            partial[tid] += partial[tid + half]\n",
        line="partial[tid] += partial[tid + half]",
        rule="race",
        kind="the barrier between two rounds of a reduction is missing",
        interpreter="wrong result",
    ),
    Bug(
        name="count_without_atomic",
        file="numba/in_degrees.py",
        old="cuda.atomic.add(degrees, targets[edge], 1)",
        new="degrees[targets[edge]] += 1",
        line="degrees[targets[edge]] += 1",
        rule="race",
        kind="a counter of several threads is updated without an atomic",
        interpreter="silent",
    ),
    Bug(
        name="last_block_without_fence",
        file="numba/mean.py",
        old="        partial[cuda.blockIdx.x] = total[0]\n        cuda.threadfence()\n",
        new="        partial[cuda.blockIdx.x] = total[0]\n",
        line="partial[cuda.blockIdx.x] = total[0]",
        also=("everything += partial[block]",),
        rule="race",
        kind="a result is announced by an atomic without a fence after its store",
        interpreter="silent",
    ),
    Bug(
        name="shared_bins_without_zeros",
        file="numba/level_histogram.py",
        old=(
            "    for level in range(cuda.threadIdx.x, BINS, cuda.blockDim.x):\n        bins[level] = 0\n"
            "    cuda.syncthreads()\n"
        ),
        new="",
        line="cuda.atomic.add(bins, image[i], 1)",
        also=("cuda.atomic.add(counts, b, bins[b])",),
        rule="undefined",
        kind="counters in shared memory are not set to zero",
        interpreter="wrong result",
    ),
    Bug(
        name="barrier_in_branch",
        file="numba/reverse_tiles.py",
        old="        tile[tid] = x[i]\n    cuda.syncthreads()\n",
        new="        tile[tid] = x[i]\n        cuda.syncthreads()\n",
        line="cuda.syncthreads()",
        rule="divergence",
        kind="syncthreads in a branch that some threads of the last block skip",
        interpreter="silent",
    ),
    Bug(
        name="shared_bytes_in_elements",
        file="numba/row_differences.py",
        old="64, 0, width * values.itemsize](",
        new="64, 0, width](",
        line="row[j] = x[cuda.blockIdx.x, j]",
        also=("out[cuda.blockIdx.x, j] = row[(j + 1) % width] - row[j]",),
        rule="bounds",
        kind="the size of dynamic shared memory is given in elements, not bytes",
        interpreter="named",
    ),
    Bug(
        name="one_row_too_many",
        file="numba/sparse_product.py",
        old="if row < y.size:",
        new="if row <= y.size:",
        line="for k in range(row_start[row], row_start[row + 1]):",
        also=("y[row] = total",),
        rule="bounds",
        kind="the guard of the last thread is off by one",
        interpreter="named",
    ),
    Bug(
        name="stencil_in_place",
        file="numba/blur.py",
        old=(
            "    out = cuda.device_array_like(x)\n    blur_kernel[-(-signal.size // 128), 128](x, out)\n"
            "    return out.copy_to_host()\n"
        ),
        new="    blur_kernel[-(-signal.size // 128), 128](x, x)\n    return x.copy_to_host()\n",
        line="out[i] = (x[i - 1] + x[i] + x[i + 1]) // 3",
        also=("out[i] = x[i]",),
        rule="race",
        kind="a stencil is launched with one array as its input and its output",
        interpreter="wrong result",
    ),
)
