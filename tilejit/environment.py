"""The environment variables that tilejit reads, as `python -m tilejit --help` and the reference list them."""

from __future__ import annotations

from .dataclass import dataclass

__all__ = ["VARIABLES", "EnvironmentVariable"]


@dataclass(frozen=True, slots=True)
class EnvironmentVariable:
    """One environment variable. values: what it may be. unset: what holds where it isn't set."""

    name: str
    values: str
    meaning: str
    unset: str


VARIABLES = (
    EnvironmentVariable(
        "TILEJIT_DEVICE", "cuda, cuda:1, sim, sim:sm_100a", "where launches run whose arguments don't decide",
        "a GPU if there is one, else the simulator",
    ),
    EnvironmentVariable(
        "TILEJIT_SIM_CHECKS", "0, 1, strict", "what the simulator checks: nothing, the usual, or more: shuffles, votes "
        "and matches are no memory barriers", "1",
    ),
    EnvironmentVariable(
        "TILEJIT_SIM_LIMIT", "a number", "thread instructions that a simulated launch may take", "1e11",
    ),
    EnvironmentVariable(
        "TILEJIT_SCHEDULES", "a number", "orders of the threads under which tilejit.testing.check runs a kernel", "1"
    ),
    EnvironmentVariable("TILEJIT_CACHE", "0, 1", "whether compiled kernels are kept on disk", "1"),
    EnvironmentVariable("TILEJIT_CACHE_DIR", "a folder", "where kernels are kept", "the user's folder for caches"),
    EnvironmentVariable(
        "TILEJIT_CACHE_MAXSIZE", "bytes", "how much is kept; what wasn't used for longest goes first", "512 MiB",
    ),
    EnvironmentVariable(
        "TILEJIT_PROGRESS", "0", "no line says how far long work has come", "on terminals and in notebooks",
    ),
    EnvironmentVariable(
        "TILEJIT_AUTOTUNE", "print, off", "print each table of what was tried, or take the first configuration",
        "tunes and says nothing",
    ),
    EnvironmentVariable(
        "TILEJIT_FULL_TRACEBACK", "1", "errors show the library's own frames too", "only the user's frames",
    ),
)
