"""Check kernels of other compilers on the simulator: unmodified programs run on a machine without a GPU."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..simulator import Checks
    from .for_triton import TritonSession
    from .session import Autotune, OnFinding, Session

__all__ = ["numba", "triton"]


def triton(
    arch: str = "sm_90",
    on_finding: OnFinding = "raise",
    checks: Checks = True,
    schedules: int = 1,
    autotune: Autotune = "all",
    orders: int | str | None = None,
) -> AbstractContextManager[TritonSession]:
    """Return a context in which Triton's kernels run on the simulator, and CPU tensors represent CUDA tensors.

    The context manager returns the session, whose `launches` and `findings` are data:

    ```python
    with tilejit.sanitize.triton(arch="sm_90", on_finding="collect") as session:
        x = torch.rand(1000, device="cuda")
        double[(8,)](x, 1000, BLOCK=128)
    for finding in session.findings:
        print(finding)
    ```

    arch: the architecture that Triton compiles for.
    on_finding: "raise" the first error of a launch when it ends, or "collect" all of them.
    checks: False disables the checks for races, unwritten memory and asynchronous copies; "strict" is stricter: see
        `tilejit.simulator.run`.
    schedules: number of thread orders in which each kernel runs, each on the same data.
    autotune: run "all" configurations of an autotuned kernel, or only the "first".
    orders: the orders of synchronizing events in which each kernel runs; see `tilejit.simulator.run`.
    raises: LaunchError if an option is invalid, torch or Triton is missing, or Triton's version isn't supported.
    """
    from . import session, versions

    chosen = session.options(arch, on_finding, checks, schedules, autotune, orders)
    versions.require_triton()
    from .for_triton import simulated_triton

    return simulated_triton(chosen)


def numba(
    arch: str = "sm_90", on_finding: OnFinding = "raise", checks: Checks = True, schedules: int = 1,
    orders: int | str | None = None,
) -> AbstractContextManager[Session]:
    """Return a context in which the arrays and kernels of Numba-CUDA belong to a simulated device.

    The context manager returns the session, whose `launches` and `findings` are data. Programs are unmodified; arrays
    that a program created before the context can't be used in it.

    ```python
    with tilejit.sanitize.numba(on_finding="collect") as session:
        x = cuda.to_device(np.arange(1000))
        double[8, 128](x)
    for finding in session.findings:
        print(finding)
    ```

    The parameters are those of `triton`.
    raises: LaunchError if an option is invalid, Numba-CUDA is missing, or its version isn't supported.
    """
    from . import session, versions

    chosen = session.options(arch, on_finding, checks, schedules, "all", orders)
    versions.require_numba()
    from .for_numba import simulated_numba

    return simulated_numba(chosen)
