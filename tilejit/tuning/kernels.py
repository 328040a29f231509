"""`choose`: one of several kernels, the fastest for the arguments of each launch."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import LaunchError, entry_point
from ..jit import Kernel
from ..wording import shown
from .choices import Choices, check_names
from .kernel import TunedKernel
from .table import KernelConfig


@entry_point
def choose(kernels: Sequence[Kernel], key: Sequence[str], reset: Sequence[str] | None = None) -> TunedKernel:
    """Return a kernel whose launches use the fastest of several kernels with the same parameters.

    The first launch for each key times all kernels, as `tj.autotune` times configurations: with the same table, kept on
    disk and shown by `.tuning`, and the same environment variable. A grid function receives the arguments; each kernel
    has its own threads and other options.

    key, reset: as in `tj.autotune`.

    Example:
        @tj.kernel(threads=32)
        def narrow(A: tj.Tensor) -> None:
            tj.cta.store(A[0:256], tj.cta.load(A[0:256]) * 2)

        @tj.kernel(threads=128)
        def wide(A: tj.Tensor) -> None:
            tj.cta.store(A[0:256], tj.cta.load(A[0:256]) * 2)

        double = tj.choose([narrow, wide], key=["A"], reset=["A"])
        double[1](np.ones(256, np.float32))
        print(double.tuning)
    """
    if not isinstance(kernels, (list, tuple)) or not kernels or not all(type(each) is Kernel for each in kernels):
        raise LaunchError(
            f"choose takes a list of kernels; got {shown(kernels)}",
            hint="write tj.choose([k1, k2], key=[...]) with kernels of @tj.kernel that aren't tuned",
        )
    first = kernels[0]
    for number, each in enumerate(kernels):
        if each in kernels[:number]:
            raise LaunchError(f"choose got {each.name} twice", hint="leave one out")
        if each.parameters != first.parameters:
            raise LaunchError(
                f"{each.name} has other parameters than {first.name}: {_listed(each)} instead of {_listed(first)}",
                hint="give them the same parameters, with the same annotations and defaults",
            )
    name = f"choose({', '.join(each.name for each in kernels)})"
    configs = tuple(map(KernelConfig, kernels))
    restored = () if reset is None else reset
    for what, names in (("key", key), ("reset", restored)):
        check_names(name, first.parameters, configs[0], what, names)
    return TunedKernel(first, Choices(configs, frozenset(), tuple(key), None, tuple(restored)), name)


def _listed(kernel: Kernel) -> str:
    return f"({', '.join(f'{p.name}: {p.dtype or p.kind.name.lower()}' for p in kernel.parameters)})"
