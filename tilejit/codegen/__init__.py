"""Code generation: lane-level kernels to LLVM IR and PTX."""

from .module import Generated, generate

__all__ = ["Generated", "generate"]
