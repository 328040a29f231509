"""Kernels of the corpus that don't run yet, and what the simulator says of them."""

#: what the error says -> the kernels
FAILING: dict[str, list[str]] = {
    "vabsdiff.u32.u32.u32 is not supported": [
        "nvcc/video_instructions",
    ],
}
