"""The environment variables that configure tilejit, listed by `python -m tilejit --help` and in the reference."""

from __future__ import annotations

from .dataclass import dataclass


@dataclass(frozen=True, slots=True)
class EnvironmentVariable:
    """An environment variable. unset: the behavior or the value if it isn't set."""

    name: str
    values: str
    meaning: str
    unset: str


VARIABLES = (
    EnvironmentVariable(
        "TILEJIT_DEVICE", "cuda, cuda:1, sim, sim:sm_100a", "device of launches whose arguments do not determine it",
        "a GPU if one is available, else the simulator",
    ),
    EnvironmentVariable(
        "TILEJIT_SIM_CHECKS", "0, 1, strict", "checks of the simulator: none, the default ones, or strict ones, under "
        "which shuffles, votes, matches and warp reductions do not order memory accesses", "1",
    ),
    EnvironmentVariable(
        "TILEJIT_SIM_LIMIT", "a number", "maximum number of thread instructions of a simulated launch", "1e11",
    ),
    EnvironmentVariable(
        "TILEJIT_SCHEDULES", "a number", "number of thread orders in which tilejit.testing.check runs each kernel", "1"
    ),
    EnvironmentVariable(
        "TILEJIT_ORDERS", "a number, all", "orders of synchronizing events in which tilejit.testing.check runs each "
        "kernel on the simulator", "one schedule",
    ),
    EnvironmentVariable("TILEJIT_CACHE", "0, 1", "whether compiled kernels are cached on disk", "1"),
    EnvironmentVariable("TILEJIT_CACHE_DIR", "a folder", "location of the kernel cache", "the user's cache folder"),
    EnvironmentVariable(
        "TILEJIT_CACHE_MAXSIZE", "bytes", "size limit of the cache; the least recently used entries are evicted first",
        "512 MiB",
    ),
    EnvironmentVariable(
        "TILEJIT_PROGRESS", "0", "disables progress lines", "shown on terminals and in notebooks",
    ),
    EnvironmentVariable(
        "TILEJIT_AUTOTUNE", "print, off", "print the table of each tuning, or use the first configuration untuned",
        "tune without printing",
    ),
    EnvironmentVariable(
        "TILEJIT_FULL_TRACEBACK", "1", "tracebacks include the library's own frames", "only the user's frames",
    ),
)
