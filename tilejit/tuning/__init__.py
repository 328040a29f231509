"""`@autotune`: kernels with several configurations; each launch uses the fastest for its arguments.

```
arguments ─ Question ─ answered? ─▶ configuration ─▶ a launch of the underlying kernel
                       └─ no: Search compiles all candidates, times them in rotation and stores the table
```
"""

from .kernel import TunedKernel, autotune
from .kernels import choose
from .table import Config, Trial, Tuning, Tunings

__all__ = ["Config", "Trial", "TunedKernel", "Tuning", "Tunings", "autotune", "choose"]
