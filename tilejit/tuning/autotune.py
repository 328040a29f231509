"""The decorator: what a kernel's configurations are, and by what they are chosen."""

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
    """Makes launches of the kernel below it find the fastest of several configurations, once for each key.

    configs: `[tj.Config({"BM": 128}, threads=256), ...]`. They give the values of constexpr parameters, which launches
    leave out; grid functions see them (`lambda meta: (tj.cdiv(meta["M"], meta["BM"]),)`).
    key: names of parameters: other values are tuned anew; of an array it is its shape that counts. So are other
    signatures (types, alignment), devices and texts of the kernel.
    prune: takes the configurations and the arguments by name, returns the configurations to try; it is asked once for
    each key.
    reset: names of arrays that each run changes for the next one, such as those that are added to: they are restored
    before each timing and in the end. Others are left as the last run wrote them.

    All configurations are compiled at the same time, then timed in turn on the arguments of the launch, as
    `tilejit.testing.do_bench` does; on the simulator their cost is counted. The table is kept on the disk; `k.tuning`
    and `k.explain` show it. One that can't be compiled, or takes more than the device has, is a row with the reason;
    whatever else goes wrong, the launch raises, and the next one goes on where it was.
    TILEJIT_AUTOTUNE=print prints each table, TILEJIT_AUTOTUNE=off takes the first configuration and times nothing.

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
                f"@tj.autotune stands above {kernel!r}, which is not a kernel, or tuned already",
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
