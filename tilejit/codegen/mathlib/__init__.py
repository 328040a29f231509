"""Mathematical functions as LLVM text, made of IEEE operations only, so that every target gives the same bits."""

from .catalogue import definition, dependencies, has, symbol

__all__ = ["definition", "dependencies", "has", "symbol"]
