"""Barriers of the corpus without which both checks find nothing, in any of the orders tried.

A fence between volatile accesses or atomics is one: what it orders can't race, although the order may matter.
So is a barrier after the last round of a loop, and one before a vote or shuffle of what was just read.
"""

#: the kernel -> the PTX lines of its redundant barriers
REDUNDANT: dict[str, list[int]] = {
    "nvcc/sum_last_block": [397, 408, 431],
    "nvcc/warp_collectives": [1798],
    "nvcc/spin_lock": [1921, 1935, 1942],
    "nvcc/barrier_votes": [2054, 2064, 2074],
    "nvcc/async_copy_rows": [1959, 2019],
    "nvcc/heat_steps": [2200, 2231],
    "nvcc/libcu_maximum": [1260, 1281],
    "nvcc/scan_tree": [515],
    "nvcc/reduce_unrolled": [1017],
    "nvcc/compact_in_order": [1430],
    "nvcc/stencil_of_planes": [2568],
    "nvcc/forward_substitution": [2875],
    "nvcc/split_sort": [713, 748, 783, 818, 853, 888, 919, 923, 953, 957],
    "nvcc/odd_even_sort": [1296],
    "nvcc/unique_of_sorted": [3027],
    "nvcc/word_count": [2769, 2778, 2787],
    "nvcc/fourier_transform": [2358],
    "nvcc/haar_wavelet": [2614],
    "triton/matmul_tf32": [563, 564, 836, 837, 868],
    "triton/sort_rows": [429, 577, 615],
    "triton/histogram": [140, 149],
    "triton/scatter_atomics": [126, 139, 155, 168, 171, 184, 197, 210],
    "triton/locked_sum": [92, 94, 101],
    "numba/sum_shared": [183],
    "numba/warp_votes": [86],
}
