"""`@autotune`: a kernel in several configurations, of which each launch gets the fastest for its arguments.

```
arguments ─ Question ─ answered before? ─▶ configuration ─▶ the kernel's own launch
                       └─ no: Search compiles all, times them in turn, keeps the table
```
"""

from .autotune import autotune
from .kernel import TunedKernel
from .table import Config, Trial, Tuning, Tunings

__all__ = ["Config", "Trial", "TunedKernel", "Tuning", "Tunings", "autotune"]
