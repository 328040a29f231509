"""What must hold of a kernel at each level: `kernel` walks, the others say what is wrong with one node."""

from .kernel import Examined, Violation, examine, verify

__all__ = ["Examined", "Violation", "examine", "verify"]
