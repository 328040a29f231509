"""Code generation: kernels at lane level to LLVM text and PTX."""

from .module import Generated, generate

__all__ = ["Generated", "generate"]
