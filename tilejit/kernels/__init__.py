"""Kernels for the operations of language models. `import tilejit` does not load this package.

`matmul` chooses among kernels, each of which has a file that explains it; `heuristics.py` is the choice.
"""

from .parts import gelu_tanh
from .products import matmul

__all__ = ["gelu_tanh", "matmul"]
