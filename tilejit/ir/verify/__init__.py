"""The IR verifier: `kernel` walks over a kernel, `placements` checks its placements, other modules its nodes."""

from .kernel import Examined, examine, verify
from .placements import placement_faults
from .values import Violation

__all__ = ["Examined", "Violation", "examine", "placement_faults", "verify"]
