"""Kernels of the corpus that don't run yet, or not rightly, and what the simulator says of them."""

#: what the error says -> the kernels
FAILING: dict[str, list[str]] = {
    "'NoneType' object has no attribute 'memory'": [
        "nvcc/struct_argument",
    ],
    "argument 0: 2 differ; at (np.int64(1),): 0, not 101": [
        "nvcc/count_launches",
    ],
    "vabsdiff4.u32.u32.u32 is not supported": [
        "nvcc/dot_packed",
    ],
    "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 is not supported": [
        "nvcc/matmul_wmma",
    ],
    "argument 1: 1341 differ; at (np.int64(0), np.int64(0)): 0.0, not 42.0": [
        "nvcc/convolve_5x5",
    ],
    "call of _Z11not_inlinedfi: device functions are not supported: inline them into the kernel": [
        "nvcc/calls_a_function",
    ],
    "wgmma.fence.sync.aligned is not supported": [
        "triton/matmul_wgmma",
    ],
    "call of __internal_trig_reduction_slowpathd: device functions are not supported: inline them into the kernel": [
        "numba/double_functions",
    ],
    "reads 4 bytes out of bounds": [
        "numba/strided_and_tuple",
    ],
}
