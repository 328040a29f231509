"""Kernels of the corpus that don't run yet, and what the simulator says of them."""

#: what the error says -> the kernels
FAILING: dict[str, list[str]] = {
    "vabsdiff4.u32.u32.u32 is not supported": [
        "nvcc/dot_packed", "nvcc/simd_differences",
    ],
    "wmma.load.": [
        "nvcc/matmul_wmma", "nvcc/wmma_f16_f16_columns", "nvcc/wmma_f16_f32_rows", "nvcc/wmma_f16_m32n8k16",
        "nvcc/wmma_f16_m8n32k16", "nvcc/wmma_bf16", "nvcc/wmma_bf16_m8n32k16", "nvcc/wmma_int8",
        "nvcc/wmma_uint8_m32n8k16", "nvcc/wmma_int8_m8n32k16", "nvcc/wmma_int8_saturated", "nvcc/wmma_double",
        "nvcc/wmma_double_columns", "nvcc/wmma_tf32", "nvcc/wmma_int4", "nvcc/wmma_bits", "nvcc/wmma_shared_tiles",
        "nvcc/wmma_layer", "nvcc/wmma_twice",
    ],
    "device functions are not supported; inline them into the kernel": [
        "nvcc/calls_a_function", "nvcc/local_array_by_pointer", "nvcc/structures_by_value", "nvcc/factorials",
        "nvcc/fibonacci_numbers", "nvcc/ackermann_numbers", "nvcc/tree_walk", "nvcc/quicksort_rows",
        "nvcc/towers_of_hanoi", "nvcc/mutual_recursion", "nvcc/bezout", "nvcc/matrix_powers", "nvcc/count_queens",
        "nvcc/expression_tree", "nvcc/wide_call", "nvcc/function_with_barriers", "nvcc/function_with_shuffles",
        "nvcc/fold_rows", "nvcc/two_base_classes", "nvcc/functors", "nvcc/states_as_functions",
        "nvcc/sines_of_large_doubles", "nvcc/powers_of_doubles", "nvcc/logarithms_of_gamma", "nvcc/gamma_function",
        "nvcc/bessel_functions", "numba/double_functions",
    ],
    ": .callprototype": [
        "nvcc/chosen_operation", "nvcc/virtual_functions", "nvcc/virtual_functions_in_shared",
        "nvcc/pointer_in_a_loop", "nvcc/constant_table", "nvcc/table_of_layers", "nvcc/table_of_structures",
        "nvcc/table_of_states", "nvcc/table_in_shared", "nvcc/table_of_templates", "nvcc/stack_machine",
        "nvcc/table_turned", "nvcc/table_of_tables",
    ],
    "WARP_SZ is not declared": [
        "nvcc/wmma_gemm",
    ],
    "f16x2 is not supported": [
        "nvcc/half2_comparisons", "nvcc/half2_unordered_comparisons", "nvcc/half2_masks", "nvcc/half2_both",
        "nvcc/bfloat2_comparisons",
    ],
    "dp2a.lo.s32.s32": [
        "nvcc/dot_products_of_bytes", "nvcc/dot_products_of_vectors",
    ],
    "fns.b32": [
        "nvcc/nth_set_bits", "nvcc/partitioned_branches",
    ],
    "max.s32.relu is not supported": [
        "nvcc/dynamic_programming_steps",
    ],
    "vadd4.u32.u32.u32.add is not supported": [
        "nvcc/video_instructions",
    ],
    "cp.async.mbarrier.arrive.": [
        "nvcc/pipeline_of_a_block", "nvcc/pipeline_with_roles", "nvcc/pipeline_of_gathered_rows",
        "nvcc/barrier_of_gathered_structures", "nvcc/barriers_of_warps", "nvcc/barrier_of_own_copies",
        "nvcc/copies_by_hand", "nvcc/copies_by_hand_counted",
    ],
    "%envreg2 is neither declared nor a supported special register": [
        "nvcc/grid_sum", "nvcc/grid_jacobi", "nvcc/grid_scan", "nvcc/grid_bfs", "nvcc/grid_split_barrier",
    ],
    "%reserved_smem_offset_1 is neither declared nor a supported special register": [
        "nvcc/large_tiles",
    ],
    "atom.shared::cluster.": [
        "nvcc/cluster_histogram", "nvcc/cluster_sum",
    ],
    "ld.shared::cluster.": [
        "nvcc/cluster_ring", "nvcc/cluster_ranks",
    ],
    "cvta.to.shared::cluster": [
        "nvcc/cluster_stencil", "nvcc/cluster_split_barrier", "nvcc/cluster_transpose",
    ],
    "st.async.": [
        "nvcc/cluster_messages",
    ],
    "red.async.": [
        "nvcc/cluster_remote_additions",
    ],
    ".f64.f64.f64.f64 is not supported": [
        "nvcc/double_m8n8k4", "nvcc/double_m16n8k4", "nvcc/double_m16n8k8", "nvcc/double_m16n8k16",
        "nvcc/double_gemm", "nvcc/double_distances", "nvcc/double_matrix_power", "nvcc/double_mma_rounding",
    ],
    "cp.reduce.async.bulk.": [
        "nvcc/bulk_add", "nvcc/bulk_extremes", "nvcc/bulk_bits", "nvcc/bulk_add_floats", "nvcc/bulk_add_halves",
        "nvcc/bulk_add_in_cluster",
    ],
    "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes is not supported": [
        "nvcc/bulk_to_neighbour",
    ],
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster is not supported": [
        "nvcc/bulk_multicast",
    ],
    "cp.async.bulk.prefetch.L2.global is not supported": [
        "nvcc/bulk_prefetch",
    ],
    "tensormap.replace.tile.": [
        "nvcc/map_of_a_matrix", "nvcc/map_per_group", "nvcc/map_with_new_addresses", "nvcc/map_for_stores",
        "nvcc/map_with_swizzle", "nvcc/map_changed_in_global",
    ],
}
