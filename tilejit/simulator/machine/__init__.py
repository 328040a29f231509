"""The simulated GPU: threads, memory, warps, barriers, asynchronous copies and tensor memory."""
