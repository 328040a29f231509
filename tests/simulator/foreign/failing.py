"""Kernels of the corpus that don't run yet, and what the simulator says of them."""

#: what the error says -> the kernels
FAILING: dict[str, list[str]] = {
    "vabsdiff4.u32.u32.u32 is not supported": [
        "nvcc/dot_packed",
    ],
    "call of _Z11not_inlinedfi: device functions are not supported; inline them into the kernel": [
        "nvcc/calls_a_function",
    ],
    "call of __internal_trig_reduction_slowpathd: device functions are not supported; inline them into the kernel": [
        "numba/double_functions",
    ],
}
