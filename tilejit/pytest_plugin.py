"""A pytest plugin for tests of kernels: options for the device and the number of schedules, and the marker `gpu`.

With `--gpu-sim`, kernels of Triton and Numba run on the simulator, whose findings fail the tests: see
`sanitize/for_pytest.py`.

pytest imports it at startup if tilejit is installed; this takes two milliseconds. It imports other parts of
tilejit only when an option or a marked test needs them.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Generator

import pytest

_GPU = "gpu: runs on a CUDA GPU; skipped if none is available or --tilejit-device is the simulator"
_GPU_SIM, _ARCH = "--gpu-sim", "sm_90"
_is_arch = re.compile(r"sm_\d+a?").fullmatch


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tilejit")
    group.addoption(
        "--tilejit-device", metavar="NAME",
        help="device of tests that choose none: cuda, cuda:1, sim or sim:sm_100a",
    )
    group.addoption(
        "--tilejit-schedules", metavar="N", type=_count,
        help="number of thread orders in which tilejit.testing.check runs each kernel on the simulator",
    )
    group.addoption(
        "--tilejit-orders", metavar="N", type=_orders,
        help="orders of synchronizing events in which tilejit.testing.check runs each kernel on the simulator, or all",
    )
    group.addoption(
        _GPU_SIM, metavar="ARCH", nargs="?", const=_ARCH, type=_arch_or_path,
        help="run Triton's and Numba's kernels on the simulator, compiled for ARCH (sm_90); findings fail tests",
    )
    group.addoption(
        "--gpu-sim-schedules", metavar="N", type=_count, default=1,
        help="number of thread orders in which each of these kernels runs",
    )
    group.addoption(
        "--gpu-sim-orders", metavar="N", type=_orders,
        help="orders of synchronizing events in which each of these kernels runs, or all",
    )
    group.addoption(
        "--gpu-sim-checks", choices=("default", "strict"), default="default",
        help="strict: shuffles, votes, matches and warp reductions don't order memory accesses",
    )
    group.addoption(
        "--gpu-sim-autotune", choices=("all", "first"), default="all",
        help="run all configurations of an autotuned kernel, or only the first",
    )
    group.addoption("--gpu-sim-sarif", metavar="FILE", help="file for the findings, in SARIF")


def _arch_or_path(text: str) -> str:
    """Accept paths of tests, too: in `pytest --gpu-sim tests` the parser takes them as the architecture."""
    if not _is_arch(text) and not os.path.exists(text.partition("::")[0]):
        raise argparse.ArgumentTypeError(f"{text!r} is not an architecture: write {_GPU_SIM}={_ARCH}")
    return text


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of schedules: pass 1, 2, ...")
    return int(text)


def _orders(text: str) -> int | str:
    if text != "all" and (not text.isdecimal() or int(text) < 1):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of orders: pass 1, 2, ... or all")
    return text if text == "all" else int(text)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """Begin to simulate before a conftest.py or a test module asks for a GPU."""
    known = early_config.known_args_namespace
    if known.gpu_sim is None:
        return
    if not _is_arch(known.gpu_sim):
        _separate(known, args)
    from . import __version__
    from .sanitize import for_pytest

    for_pytest.begin(early_config, __version__)


def _separate(known: argparse.Namespace, args: list[str]) -> None:
    """Give a path that follows `--gpu-sim` back to pytest, which parses `args` once more."""
    path = known.gpu_sim
    for index, pair in enumerate(zip(args, args[1:], strict=False)):
        if pair == (_GPU_SIM, path):
            args[index] = f"{_GPU_SIM}={_ARCH}"
            known.file_or_dir.append(path)
            known.gpu_sim = _ARCH


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _GPU)
    changes = pytest.MonkeyPatch()
    config.add_cleanup(changes.undo)
    for name in ("device", "schedules", "orders"):
        value = config.getoption(f"--tilejit-{name}")
        if value is not None:
            changes.setenv(f"TILEJIT_{name.upper()}", str(value))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Open the device of --tilejit-device; skip tests marked `gpu` if they can't run, and report one per function."""
    name = config.getoption("--tilejit-device")
    if name is not None:
        from .errors import DeviceError
        from .runtime import devices

        try:
            devices.named(name).open()
        except DeviceError as error:
            raise pytest.UsageError(f"--tilejit-device={name}: {error}") from None
    marked = [item for item in items if item.get_closest_marker("gpu")]
    reason = _why_not(name) if marked else None
    if reason is None:
        return
    functions: dict[str, list[pytest.Item]] = {}
    for item in marked:
        functions.setdefault(item.nodeid.split("[")[0], []).append(item)
    for first, *others in functions.values():
        cases = f" ({len(others)} more case{'s' * (len(others) > 1)})" if others else ""
        first.add_marker(pytest.mark.skip(reason=f"{reason}{cases}"))
    # reporting thousands of skipped cases takes half a minute
    silent = {item for _, *others in functions.values() for item in others}
    config.hook.pytest_deselected(items=list(silent))
    items[:] = [item for item in items if item not in silent]


def _why_not(name: str | None) -> str | None:
    """Return the reason why tests can't run on a GPU, or None if they can. name: the value of --tilejit-device."""
    from .runtime import devices

    if name is not None and devices.is_simulator(name):
        return f"needs a GPU, and --tilejit-device is {name}"
    return devices.cuda_problem()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Run a test marked `gpu` on a GPU, unless the test itself chooses another device."""
    with pytest.MonkeyPatch.context() as changes:
        if item.get_closest_marker("gpu") and not os.environ.get("TILEJIT_DEVICE", "").startswith("cuda"):
            changes.setenv("TILEJIT_DEVICE", "cuda")
        return (yield)
