"""Kernels of the corpus that don't run yet, and what the simulator says of them."""

#: what the error says -> the kernels
FAILING: dict[str, list[str]] = {
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s32 is not supported": [
        "nvcc/bulk_add",
    ],
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.min.s32 is not supported": [
        "nvcc/bulk_extremes",
    ],
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.and.b32 is not supported": [
        "nvcc/bulk_bits",
    ],
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 is not supported": [
        "nvcc/bulk_add_floats",
    ],
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16 is not supported": [
        "nvcc/bulk_add_halves",
    ],
    "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.s32 is not supported": [
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
    "tensormap.replace.tile.global_address.shared::cta.b1024.b64 is not supported": [
        "nvcc/map_of_a_matrix", "nvcc/map_per_group", "nvcc/map_with_new_addresses", "nvcc/map_for_stores",
        "nvcc/map_with_swizzle", "nvcc/map_changed_in_global",
    ],
    "vabsdiff.u32.u32.u32 is not supported": [
        "nvcc/video_instructions",
    ],
    "cp.async.mbarrier.arrive.shared.b64 is not supported": [
        "nvcc/pipeline_of_a_block", "nvcc/pipeline_with_roles", "nvcc/pipeline_of_gathered_rows",
        "nvcc/barrier_of_gathered_structures", "nvcc/barriers_of_warps", "nvcc/barrier_of_own_copies",
        "nvcc/copies_by_hand_counted",
    ],
    "cp.async.mbarrier.arrive.noinc.shared.b64 is not supported": [
        "nvcc/copies_by_hand",
    ],
    "%envreg2 is neither declared nor a supported special register": [
        "nvcc/grid_sum", "nvcc/grid_jacobi", "nvcc/grid_scan", "nvcc/grid_bfs", "nvcc/grid_split_barrier",
    ],
    "%reserved_smem_offset_1 is neither declared nor a supported special register": [
        "nvcc/large_tiles",
    ],
    "atom.shared::cluster.add.u32 is not supported": [
        "nvcc/cluster_histogram", "nvcc/cluster_sum",
    ],
    "ld.shared::cluster.f32 is not supported": [
        "nvcc/cluster_ring",
    ],
    "ld.shared::cluster.u32 is not supported": [
        "nvcc/cluster_ranks",
    ],
    "cvta.to.shared::cluster.u64 is not supported": [
        "nvcc/cluster_stencil", "nvcc/cluster_split_barrier", "nvcc/cluster_transpose",
    ],
    "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 is not supported": [
        "nvcc/cluster_messages",
    ],
    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.s32 is not supported": [
        "nvcc/cluster_remote_additions",
    ],
}
