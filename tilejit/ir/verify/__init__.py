"""What must hold of a kernel at each level: `kernel` walks, the others say what is wrong with one node."""

from .kernel import Examined, examine, verify
from .placements import placement_faults
from .violation import Violation

__all__ = ["Examined", "Violation", "examine", "placement_faults", "verify"]
