"""Kernels of the corpus that don't run yet, or not rightly, and what the simulator says of them."""

#: what the error says -> the kernels
FAILING: dict[str, list[str]] = {
    "initial value 'generic(second_table)+4' is not understood": [
        "nvcc/vector_add", "nvcc/saxpy", "nvcc/scale_float4", "nvcc/polynomial", "nvcc/tables_of_addresses",
        "nvcc/count_launches", "nvcc/integer_division", "nvcc/bit_tricks", "nvcc/dot_int8", "nvcc/dot_packed",
        "nvcc/half_arithmetic", "nvcc/conversions", "nvcc/double_arithmetic", "nvcc/float_rounding",
        "nvcc/library_functions", "nvcc/fast_functions", "nvcc/switch_operations", "nvcc/collatz",
        "nvcc/sort_local_array",
    ],
    "'NoneType' object has no attribute 'memory'": [
        "nvcc/struct_argument",
    ],
    "this directive is not supported": [
        "nvcc/sum_shuffle", "nvcc/sum_tree", "nvcc/sum_last_block", "nvcc/softmax_rows", "nvcc/layernorm_rows",
        "nvcc/histogram", "nvcc/scan_block", "nvcc/scan_lookback", "nvcc/maximum_by_cas", "nvcc/argmax_packed",
        "nvcc/compact", "nvcc/warp_collectives", "nvcc/aggregated_count", "nvcc/spin_lock", "nvcc/vector_atomics",
        "nvcc/barrier_votes", "triton/vector_add", "triton/vector_add_sm100", "triton/gelu", "triton/sigmoid_bf16",
        "triton/softmax", "triton/layernorm", "triton/matmul_f16", "triton/matmul_bf16", "triton/matmul_tf32",
        "triton/matmul_wgmma", "triton/matmul_int8", "triton/attention", "triton/row_argmax", "triton/cumulative_sum",
        "triton/linear_recurrence", "triton/sort_rows", "triton/histogram", "triton/transpose", "triton/gather_rows",
        "triton/random_numbers", "triton/dropout", "triton/scatter_atomics", "triton/locked_sum",
        "triton/persistent_relu", "triton/gcd", "triton/integer_arithmetic", "triton/casts", "triton/quantize_rows",
        "triton/convolve",
    ],
    "device functions are not supported: inline them into the kernel": [
        "nvcc/transpose", "nvcc/matmul_tiled", "nvcc/matmul_wmma", "nvcc/convolve_5x5", "nvcc/bitonic_sort",
        "nvcc/gather_scatter", "nvcc/async_copy_rows", "nvcc/calls_a_function", "nvcc/heat_steps",
        "numba/double_functions",
    ],
    "reads 4 bytes out of bounds": [
        "numba/strided_and_tuple",
    ],
}
