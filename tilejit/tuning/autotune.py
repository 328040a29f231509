"""The `autotune` decorator."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..errors import KernelSyntaxError, LaunchError, entry_point
from ..jit import Kernel
from .choices import Choices, Prune, check_configs, check_names
from .kernel import TunedKernel
from .table import Config


@entry_point
def autotune(
    configs: Sequence[Config],
    key: Sequence[str],
    prune: Prune | None = None,
    reset: Sequence[str] | None = None,
) -> Callable[[Kernel], TunedKernel]:
    """Return a decorator that tunes a kernel: launches use the fastest of several configurations for each key.

    configs: `[tj.Config({"BM": 128}, threads=256), ...]`. They set constexpr parameters, which launches leave out; a
    grid function receives their values (`lambda meta: (tj.cdiv(meta["M"], meta["BM"]),)`).
    key: names of parameters. The kernel is tuned once for each combination of their values; for an array, its shape
    counts. Other signatures (types, alignment), devices and kernel sources are also tuned separately.
    prune: takes the configurations and the arguments by name, returns those to try; launches keep the answer per key.
    reset: names of arrays that a run changes and the next run reads, such as accumulators. They are restored before
    each timing and at the end. Other arrays keep the results of the last run.

    All configurations are compiled in parallel, then timed in rotation on the arguments of the launch, as
    `tilejit.testing.do_bench` does; on the simulator, a modelled cost replaces the time. The table is kept on disk;
    `k.tuning` and `k.explain` show it. A configuration that can't be compiled, needs too many resources or has an empty
    grid gets a row with the reason. Any other error is raised by the launch, and the next launch resumes the tuning.
    TILEJIT_AUTOTUNE=print prints each table; TILEJIT_AUTOTUNE=off uses the first configuration without timing.

    Example:
        @tj.autotune(configs=[tj.Config({"BM": 32}), tj.Config({"BM": 64}, threads=64)], key=["A"])
        @tj.kernel(threads=32)
        def k(A: tj.Tensor, BM: tj.constexpr) -> None:
            tj.cta.store(A.tile(BM, tj.cta_id(0)), tj.cta.zeros((BM,), A.dtype))

        k[lambda meta: (tj.cdiv(100, meta["BM"]),)](np.ones(100, np.float32))
        print(k.tuning)
    """

    @entry_point
    def decorate(kernel: Kernel) -> TunedKernel:
        if not isinstance(kernel, Kernel) or isinstance(kernel, TunedKernel):
            raise KernelSyntaxError(
                f"@tj.autotune is applied to {kernel!r}, which is not a kernel or is already tuned",
                hint="write @tj.autotune(...) once, above @tj.kernel",
            )
        check_configs(kernel.name, kernel.parameters, configs)
        restored = () if reset is None else reset
        for what, names in (("key", key), ("reset", restored)):
            check_names(kernel.name, kernel.parameters, configs[0], what, names)
        if prune is not None and not callable(prune):
            raise LaunchError(
                f"prune={prune!r} is not a function",
                hint="it takes the configurations and the arguments by name, and returns configurations",
            )
        chosen = frozenset(configs[0].values)
        return TunedKernel(kernel, Choices(tuple(configs), chosen, tuple(key), prune, tuple(restored)))

    return decorate
