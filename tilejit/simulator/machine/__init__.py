"""What runs the program: threads, memory, warps, barriers, asynchronous copies, tensor memory."""
