"""How a tuned kernel launches once its answer is known: what a plain one tells the driver, and hardly later."""

from __future__ import annotations

import gc
import random
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import tilejit as tj
from tilejit.tuning import kernel, search

pytest.importorskip("cuda.bindings")

from tests.runtime.fake_driver import SUCCESS, forget_devices  # noqa: E402
from tests.runtime.fast_launch.recording import (  # noqa: E402
    RecordingDriver,
    installed,
    is_quick,
    outcome,
    tensor,
    torch_of,
)
from tilejit.runtime import cuda_bench  # noqa: E402

HERE = sys.modules[__name__]
STEP = 3
Patch = pytest.MonkeyPatch


class TimingDriver(RecordingDriver):
    """A recording driver on which launches take time.

    fastest: the value of X, or else the threads, with which they take the least. is_idle: it does nothing.
    """

    fastest: Any = 2
    is_idle = False

    def __init__(self) -> None:
        super().__init__()
        self.kernel = lambda _: None

    def cuLaunchKernel(self, function: Any, *args: Any) -> Any:
        if self.is_idle or function[1] == "flush":
            return (SUCCESS,)
        variants = [v for each in self.kernels for v in each.signatures if v.compiled.ptx == function[0]]
        arguments = dict(variants[0].signature.arguments)
        is_fastest = arguments["X"].value == self.fastest if "X" in arguments else variants[0].threads == self.fastest
        self.clock += 1.0 if is_fastest else 2.0
        return super().cuLaunchKernel(function, *args)


@pytest.fixture(autouse=True)
def on_the_simulator() -> None:
    """Not here."""


@pytest.fixture(params=["keys", "guards"])
def driver(request: pytest.FixtureRequest, monkeypatch: Patch) -> Iterator[TimingDriver]:
    from tests.runtime.fast_launch import recording

    monkeypatch.setattr(recording, "RecordingDriver", TimingDriver)
    monkeypatch.setattr(cuda_bench, "_FLUSH_BYTES", 4096)
    monkeypatch.setattr(cuda_bench, "_LEAST_BYTES", 1024)
    monkeypatch.setattr(search, "_MOST", 2)
    monkeypatch.delenv("TILEJIT_AUTOTUNE", raising=False)
    yield installed(monkeypatch, torch_of(guards=request.param == "guards"))
    forget_devices()


def values(*choices: Any, threads: int | None = None) -> list[tj.Config]:
    return [tj.Config({"X": x}, threads=threads) for x in choices]


def add(A: tj.Tensor, X: tj.constexpr, B: tj.Tensor, n: tj.int32):
    if n > 1_000_000:
        A[0, 0] = B[0, 0] + n + X + STEP


def tuned(
    driver: TimingDriver, configs: list[tj.Config], key: Any = ("n",), function: Any = add, **options: Any
) -> Any:
    made = tj.autotune(configs, key, **options)(tj.kernel(threads=32)(function))
    driver.kernels.append(made)
    return made


def x_of(driver: TimingDriver, launch: Callable[[], object]) -> Any:
    """The value of X in the last launch."""
    driver.taken()
    launch()
    ptx = driver.taken()[-1][5]
    (found,) = {
        dict(v.signature.arguments)["X"].value
        for each in driver.kernels
        for v in each.signatures
        if v.compiled.ptx == ptx
    }
    return found


def warm(launch: Callable[[], object]) -> None:
    for _ in range(4):
        launch()


def test_generated_launches_have_the_cluster_of_the_configuration(driver: TimingDriver) -> None:
    configs = [tj.Config({"X": 1}, cluster=(1,)), tj.Config({"X": 2}, cluster=(2,))]
    made: Any = tj.autotune(configs, ["n"])(tj.kernel(threads=32, cluster=(4,))(add))
    driver.kernels.append(made)
    a, b = tensor(4, 8), tensor(4, 8)
    for grid in (2, lambda meta: 2 * meta["X"]):
        warm(lambda grid=grid: made[grid](a, b, 1))
        assert x_of(driver, lambda grid=grid: made[grid](a, b, 1)) == 2
    driver.taken()
    made[6](a, b, 1)
    (launch,) = driver.taken()
    assert launch[0] == (6, 1, 1) and ".reqnctapercluster 2" in " ".join(launch[5].split())


def test_generated_launches_of_a_choice_follow_what_every_kernel_captures(
    driver: TimingDriver, monkeypatch: Patch
) -> None:
    def first(A: tj.Tensor, B: tj.Tensor, n: tj.int32):
        if n > 1_000_000:
            A[0, 0] = B[0, 0] + n

    def second(A: tj.Tensor, B: tj.Tensor, n: tj.int32):
        if n > 1_000_000:
            A[0, 0] = B[0, 0] + n + STEP

    kernels = [tj.kernel(threads=32)(first), tj.kernel(threads=64)(second)]
    driver.kernels += kernels
    driver.fastest = 64
    chosen, a, b = tj.choose(kernels, key=["n"]), tensor(4, 8), tensor(4, 8)

    def launched(n: int) -> tuple[Any, Any]:
        driver.taken()
        chosen[4](a, b, n)
        last = driver.taken()[-1]
        return last[1], last[5]

    warm(lambda: chosen[4](a, b, 1))
    assert is_quick(monkeypatch, kernels[1], lambda: chosen[4](a, b, 1))
    before = launched(1)
    assert before[0] == (64, 1, 1)
    driver.fastest = 32
    for n, threads in ((2, 32), (1, 64), (2, 32), (1, 64)):
        warm(lambda n=n: chosen[4](a, b, n))
        assert launched(n)[0] == (threads, 1, 1)
        assert is_quick(monkeypatch, kernels[threads == 64], lambda n=n: chosen[4](a, b, n))
    driver.fastest = 64
    monkeypatch.setitem(globals(), "STEP", 7)
    after = launched(1)
    assert after[0] == (64, 1, 1) and after[1] != before[1]


def calls(driver: TimingDriver, launch: Callable[[], object]) -> int:
    """How many functions a launch calls, without the driver's, and those of the mocks of torch's tensors."""
    count, others = 0, (str(Path(__file__).parents[1]), str(Path(np.__file__).parent))

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call") and not frame.f_code.co_filename.startswith(others)

    warm(launch)
    driver.is_idle = True
    # hypothesis has a callback for collections, whose calls would be counted
    gc.disable()
    sys.setprofile(profile)
    try:
        launch()
    finally:
        sys.setprofile(None)
        gc.enable()
        driver.is_idle = False
    return count


def first(configs: list[tj.Config], named: Mapping[str, Any]) -> list[tj.Config]:
    return configs[:1]


#: kernels whose configuration needs no timing, or is known, by what decides it
KNOWN: dict[str, tuple[list[tj.Config], dict[str, Any], str | None]] = {
    "tuned": (values(1, 2), {}, None),
    "one configuration": (values(1), {}, None),
    "pruned to one": (values(1, 2), {"prune": first}, None),
    "off": (values(1, 2), {}, "off"),
    "threads alone": ([tj.Config({}, threads=n) for n in (32, 64)], {}, None),
    "many values": (values(*range(24)), {}, None),
}


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("grid", [4, lambda meta: meta["n"] * 4], ids=["numbers", "function"])
def test_a_known_answer_takes_hardly_more_calls_than_a_plain_launch(
    name: str, grid: Any, driver: TimingDriver, monkeypatch: Patch
) -> None:
    configs, options, mode = KNOWN[name]

    def without_x(A: tj.Tensor, B: tj.Tensor, n: tj.int32, X: tj.constexpr = 1):
        if n > 1_000_000:
            A[0, 0] = B[0, 0] + n + X + STEP

    function = without_x
    plain, a, b = tj.kernel(threads=32)(function), tensor(4, 8), tensor(4, 8)
    driver.kernels.append(plain)
    if mode is not None:
        monkeypatch.setenv("TILEJIT_AUTOTUNE", mode)
    k = tuned(driver, configs, function=function, **options)
    warm(lambda: k[grid](a, b, 1))
    assert is_quick(monkeypatch, k.kernel, lambda: k[grid](a, b, 1))
    # reading the environment takes five, or seven where the variable isn't set
    assert calls(driver, lambda: k[grid](a, b, 1)) <= calls(driver, lambda: plain[grid](a, b, 1)) + 10
    kept, plain_kept = k[grid], plain[grid]
    assert calls(driver, lambda: kept(a, b, 1)) <= calls(driver, lambda: plain_kept(a, b, 1)) + 10


def test_a_grid_function_of_each_launch_is_looked_at_once(driver: TimingDriver) -> None:
    a, b = tensor(4, 8), tensor(4, 8)
    plain, k = tj.kernel(threads=32)(add), tuned(driver, values(1, 2))
    driver.kernels.append(plain)
    of_plain = calls(driver, lambda: plain[lambda meta: meta["n"] * 4](a, 1, b, 1))
    assert calls(driver, lambda: k[lambda meta: meta["n"] * 4](a, b, 1)) <= 1.2 * of_plain + 10


def test_prune_is_asked_once_for_each_key(driver: TimingDriver, monkeypatch: Patch) -> None:
    asked = []

    def prune(configs: list[tj.Config], named: Mapping[str, Any]) -> list[tj.Config]:
        asked.append(named["n"])
        return configs[: named["n"]]

    k, a, b, host = tuned(driver, values(1, 2), prune=prune), tensor(4, 8), tensor(4, 8), np.zeros((4, 8), np.float32)
    for n in (1, 2, 1, 1, 2, 1, 2):
        assert x_of(driver, lambda n=n: k[4](a, b, n)) == n
        k[lambda meta: 4](tensor(4, 8), b, n)
    assert asked == [1, 2]
    # arrays in host memory take the slow path
    for _ in range(4):
        k[4](host, host, 1)
    assert asked == [1, 2, 1]


def test_each_key_gets_its_own_configuration_however_they_alternate(driver: TimingDriver, monkeypatch: Patch) -> None:
    k, a, b = tuned(driver, values(1, 2, 3)), tensor(4, 8), tensor(4, 8)
    expected = {7: 1, -7: 2, 2**31 - 1: 3, 0: 2}
    for n, driver.fastest in expected.items():
        k[4](a, b, n)
    driver.fastest = None
    for _ in range(6):
        for n, x in expected.items():
            assert x_of(driver, lambda n=n: k[4](a, b, n)) == x
    assert is_quick(monkeypatch, k.kernel, lambda: [k[4](a, b, n) for n in expected])
    # a number of another type is passed as the same one
    for _ in range(4):
        assert x_of(driver, lambda: k[4](a, b, np.int64(7))) == 1
    assert [tuning.key for tuning in k.tuning] == ["n=7", "n=-7", "n=2147483647", "n=0"]


def test_numbers_of_a_key_are_distinguished_as_constexprs_are(driver: TimingDriver) -> None:
    def scaled(A: tj.Tensor, s: tj.float32, X: tj.constexpr, m=1):
        if s > 1e30:
            A[0, 0] = s + X + m

    k, a = tuned(driver, values(1, 2, 3), ["s", "m"], scaled), tensor(4, 8)
    # as equal as they may be
    expected = [(0.0, 1, 1), (-0.0, 1, 2), (float("nan"), 1, 3), (0.0, True, 2), (0.0, 2, 3), (0.0, 1.0, 3)]
    for s, m, driver.fastest in expected:
        k[1](a, s, m=m)
    driver.fastest = None
    for _ in range(4):
        for s, m, x in expected:
            assert x_of(driver, lambda s=s, m=m: k[1](a, s, m=m)) == x, (s, m)
    assert len(k.tuning) == 6


def test_of_many_keys_some_are_forgotten_and_asked_for_again(driver: TimingDriver, monkeypatch: Patch) -> None:
    asked = []

    def prune(configs: list[tj.Config], named: Mapping[str, Any]) -> list[tj.Config]:
        asked.append(named["n"])
        return configs[:1]

    monkeypatch.setattr(kernel, "_CHOSEN", 2)
    k, a = tuned(driver, values(1, 2), prune=prune), np.zeros((4, 8), np.float32)
    for n in (1, 2, 2, 3, 3, 1):
        k[4](a, a, n)
    assert asked == [1, 2, 3, 1]


def test_an_array_of_the_key_counts_by_its_shape(driver: TimingDriver) -> None:
    k, b = tuned(driver, values(1, 2), ["A"]), tensor(4, 8)
    for shape, driver.fastest in (((4, 8), 1), ((8, 8), 2)):
        k[4](tensor(*shape), b, 1)
    driver.fastest = None
    for n in range(4):
        assert [x_of(driver, lambda s=s, n=n: k[4](tensor(*s), b, n)) for s in ((4, 8), (8, 8))] == [1, 2]
    assert len(k.tuning) == 2


def test_the_environment_counts_at_each_launch(
    driver: TimingDriver, monkeypatch: Patch, capsys: pytest.CaptureFixture[str]
) -> None:
    k, a, b = tuned(driver, values(1, 2)), tensor(4, 8), tensor(4, 8)

    def launched() -> set[Any]:
        return {x_of(driver, lambda: k[4](a, b, 1)) for _ in range(4)}

    for _ in range(3):
        monkeypatch.setenv("TILEJIT_AUTOTUNE", "off")
        assert launched() == {1}
        monkeypatch.delenv("TILEJIT_AUTOTUNE")
        assert launched() == {2}
        monkeypatch.setenv("TILEJIT_AUTOTUNE", "nonsense")
        with pytest.raises(tj.LaunchError, match="TILEJIT_AUTOTUNE='nonsense' is not one of print, off"):
            k[4](a, b, 1)
        assert not capsys.readouterr().err
    monkeypatch.setenv("TILEJIT_AUTOTUNE", "print")
    assert launched() == {2}
    assert capsys.readouterr().err.count("best of 2: X=2") == 1, "a table is printed once"


def test_a_captured_value_that_changes_is_tuned_anew_and_an_old_one_is_quick_again(
    driver: TimingDriver, monkeypatch: Patch
) -> None:
    k, a, b = tuned(driver, values(1, 2)), tensor(4, 8), tensor(4, 8)
    seen = []
    for step, driver.fastest in ((3, 1), (5, 2), (3, None), (5, None), (3, None)):
        monkeypatch.setattr(HERE, "STEP", step)
        seen.append({x_of(driver, lambda: k[4](a, b, 1)) for _ in range(4)})
        assert is_quick(monkeypatch, k.kernel, lambda: k[4](a, b, 1))
    assert seen == [{1}, {2}, {1}, {2}, {1}] and len(k.tuning) == 2


def test_what_functions_of_a_configuration_capture_counts(driver: TimingDriver, monkeypatch: Patch) -> None:
    scale = 2.0

    @tj.function
    def scaled(x):
        return x * scale

    @tj.function
    def plain(x):
        return x

    def calling(A: tj.Tensor, X: tj.constexpr):
        A[0, 0] = X(A[0, 0])

    k, a, driver.fastest = tuned(driver, values(plain, scaled), [], calling), tensor(4, 8), scaled
    warm(lambda: k[1](a))
    driver.taken()
    k[1](a)
    before = driver.taken()[-1][5]
    assert is_quick(monkeypatch, k.kernel, lambda: k[1](a))
    scale = 3.0
    warm(lambda: k[1](a))
    assert driver.taken()[-1][5] != before and len(k.tuning) == 2
    assert is_quick(monkeypatch, k.kernel, lambda: k[1](a))


def test_threads_and_streams_of_a_launch_are_its_own(driver: TimingDriver) -> None:
    k, a, b = tuned(driver, values(1, 2)), tensor(4, 8), tensor(4, 8)
    for threads, driver.fastest in ((None, 1), (64, 2), (96, 1)):
        k[(4,), threads](a, b, 1)
    driver.fastest = None
    for _ in range(4):
        for threads, x in ((None, 1), (64, 2), (96, 1), (32, 1)):
            assert x_of(driver, lambda n=threads: k[(4,), n, 5](a, b, 1)) == x
            k[(4,), threads, 5](a, b, 1)
            (launched,) = driver.taken()
            assert launched[1] == (threads or 32, 1, 1) and launched[3] == 5
    fixed = tuned(driver, values(1, 2, threads=64))
    for _ in range(4):
        fixed[4](a, b, 1)
        # also where they are as many as the configuration's, or the kernel's
        for threads in (32, 64):
            with pytest.raises(tj.LaunchError, match="the threads of add come from its configurations"):
                fixed[(4,), threads](a, b, 1)


def test_threads_of_the_configuration_that_was_chosen_are_launched(driver: TimingDriver) -> None:
    k, a, b = tuned(driver, [tj.Config({"X": 1}, threads=n) for n in (32, 96, 64)]), tensor(4, 8), tensor(4, 8)
    driver.taken()
    for _ in range(4):
        k[lambda meta: meta["X"] + 1](a, b, 1)
    assert {(grid, threads) for grid, threads, *_ in driver.taken()[-3:]} == {((2, 1, 1), (32, 1, 1))}


def test_another_device_is_tuned_anew(driver: TimingDriver) -> None:
    k = tuned(driver, values(1, 2))
    arrays = {n: (tensor(4, 8, device=f"cuda:{n}"), tensor(4, 8, device=f"cuda:{n}")) for n in (0, 1)}
    for n, driver.fastest in ((0, 1), (1, 2)):
        k[4](*arrays[n], 1)
    driver.fastest = None
    for _ in range(4):
        assert [x_of(driver, lambda n=n: k[4](*arrays[n], 1)) for n in (0, 1)] == [1, 2]
    with tj.use_device("sim"), pytest.raises(tj.LaunchError, match="the simulator can't read a GPU's memory"):
        k[4](*arrays[0], 1)


def test_a_kernel_that_was_launched_before_it_was_tuned_shares_what_is_compiled_and_no_launcher(
    driver: TimingDriver, monkeypatch: Patch
) -> None:
    def named(A: tj.Tensor, X: tj.constexpr):
        A[0, 0] = 1 if X == "on" else 2

    plain, a, driver.fastest = tj.kernel(threads=32)(named), tensor(4, 8), "on"
    driver.kernels.append(plain)
    # what one of the two asks the environment is what the other one gets
    monkeypatch.setenv("TILEJIT_AUTOTUNE", "off")
    warm(lambda: plain[4](a, "off"))
    k = tj.autotune(values("on", "off"), [])(plain)
    for _ in range(4):
        assert x_of(driver, lambda: k[4](a)) == "on"
        assert x_of(driver, lambda: plain[4](a, "off")) == "off"
    assert len(plain.signatures) == 2


def mixed(X: tj.constexpr, A: tj.Tensor, Y: tj.constexpr, B: tj.Tensor, n: tj.int32, m=1, K: tj.constexpr = 2):
    if n > 1_000_000:
        A[0, 0] = B[0, 0] + n + m + K + X + Y + STEP
        # loaded again where the two overlap
        A[0, 1] = B[0, 0]


def random_arguments(r: random.Random, pool: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Arguments by position and by name, most of them right."""
    named = {"A": r.choice(pool), "B": r.choice(pool), "n": r.choice([1, 1, 2, np.int32(1)])}
    if r.random() < 0.3:
        named["m"] = r.choice([1, 2.5, 2**40])
    if r.random() < 0.3:
        named["K"] = r.choice([2, 3, -0.0])
    if r.random() < 0.1:
        named[r.choice(["A", "B", "n", "m", "K", "X", "Z"])] = r.choice([None, "1", 1.5, 2**31, [1], object])
    is_in_order = list(named) == ["A", "B", "n", "m", "K"][: len(named)]
    count = r.choice([3, 3, 1, len(named)]) if is_in_order else 3
    return list(named.values())[:count], dict(list(named.items())[count:])


def test_random_launches_are_those_of_the_slow_path(driver: TimingDriver) -> None:
    configs = [tj.Config({"X": x, "Y": y}, threads=32 * x) for x, y in ((1, 0), (2, 1), (2, 2))]
    plain = tj.kernel(threads=32)(mixed)
    quick, usual = (tj.autotune(configs, ["n", "B"])(plain) for _ in range(2))
    usual._tunings = quick._tunings
    usual.generated.notice = lambda *_: None
    driver.kernels.append(quick)
    resolved, resolve, r = [], plain.resolve, random.Random(7)
    plain.resolve = lambda *args: (resolved.append(args), resolve(*args))[1]  # type: ignore[method-assign]
    memory = np.zeros(4096, np.uint8)
    near = [tensor(4, 8, memory=memory, offset=offset) for offset in (0, 8, 64)]
    pools = [[*near, tensor(8, 8)]] * 6 + [[tensor(4, 8, device="cuda:1") for _ in range(2)], [*near, tensor(4, 8)]]
    pools += [[near[0], tensor(4, 8, device="cuda:1")]]
    grids = [4, (2, 3), lambda meta: meta["X"] + meta["Y"] + 1, lambda A, X: (A.shape[0], X), lambda meta: meta["Z"]]
    kept, different, quick_ones = set(), 0, 0
    for _ in range(600):
        args, named = random_arguments(r, r.choice(pools))
        place, grid = r.choice([None] * 18 + ["cuda:1", "sim"]), r.choice(grids[:4] * 6 + grids)
        results = []
        # the first may have to tune
        for k in (quick, quick, usual):
            resolved.clear()
            with nullcontext() if place is None else tj.use_device(place):
                results.append(outcome(driver, lambda k=k, g=grid, a=args, n=named: k[g](*a, **n)))
            quick_ones += k is quick and len(results) == 2 and not resolved
        assert results[1] == results[2], (grid, args, named, place)
        different += type(results[1]) is tuple
        kept.add(repr(results[1]))
    assert len(quick.tuning) > 30 and len(kept) > 200 and different > 50 and quick_ones - different > 300


def test_what_is_reset_may_be_a_number_in_another_launch(driver: TimingDriver) -> None:
    def either(A: tj.Tensor, B, X: tj.constexpr):
        A[0, 0] = X

    k, a, b = tuned(driver, values(1, 2), [], either, reset=["B"]), tensor(4, 8), tensor(4, 8)
    assert x_of(driver, lambda: k[1](a, 3)) == x_of(driver, lambda: k[1](a, b)) == 2
    assert [c for c in driver.calls if c[0] == "on the device"], "the array is restored"


def test_a_driver_that_is_broken_is_no_configuration_s_fault(driver: TimingDriver) -> None:
    k, a, b = tuned(driver, values(1, 2)), tensor(4, 8), tensor(4, 8)
    driver.errors["cuStreamSynchronize"] = driver.CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    for _ in range(2):
        with pytest.raises(tj.LaunchError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
            k[4](a, b, 1)
    driver.errors.clear()
    assert x_of(driver, lambda: k[4](a, b, 1)) == 2
    assert [trial.reason for trial in k.tuning[0].trials] == [None, None] and not driver.contexts[1:]


def test_a_launch_that_takes_too_much_is_a_row(driver: TimingDriver, monkeypatch: Patch) -> None:
    k, a, b = tuned(driver, [tj.Config({"X": x}, threads=32 * x) for x in (1, 2, 3)]), tensor(4, 8), tensor(4, 8)
    launch = driver.cuLaunchKernel

    def limited(function: Any, *args: Any) -> Any:
        return (driver.CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,) if args[3] == 64 else launch(function, *args)

    monkeypatch.setattr(driver, "cuLaunchKernel", limited)
    driver.fastest = 3
    assert x_of(driver, lambda: k[4](a, b, 1)) == 3
    reasons = [trial.reason for trial in k.tuning[0].trials]
    assert reasons[::2] == [None, None] and "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES from cuLaunchKernel" in str(reasons[1])


class Pair(NamedTuple):
    B: tj.Tensor
    n: tj.int32


def of_containers(P, Q: Pair, X: tj.constexpr):
    if Q.n > 1_000_000:
        P[0][0, 0] = Q.B[0, 0] + Q.n + X + P[1]


def test_keys_and_reset_name_items_of_containers(driver: TimingDriver, monkeypatch: Patch) -> None:
    k = tuned(driver, values(1, 2), ["Q.n", "P[0]"], of_containers, reset=["P", "Q.B"])
    a, b, c = tensor(4, 8), tensor(4, 8), tensor(8, 8)
    for _ in range(5):
        for p, q in (((a, 1), Pair(b, 1)), ((a, 2), Pair(c, 1)), ((a, 1), Pair(b, 2)), ((c, 1), Pair(b, 2))):
            k[1](p, q)
    assert [t.key for t in k.tuning] == ["Q.n=1, P[0]=(4, 8)", "Q.n=2, P[0]=(4, 8)", "Q.n=2, P[0]=(8, 8)"]
    assert is_quick(monkeypatch, k.kernel, lambda: k[1]((a, 9), Pair(b, 2)))
    driver.fastest = 1
    assert x_of(driver, lambda: k[1]((a, 1), Pair(b, 5))) == 1 and x_of(driver, lambda: k[1]((a, 1), Pair(b, 2))) == 2
    whole = tuned(driver, values(1, 2), ["Q"], of_containers)
    for p, q in (((a, 1), Pair(b, 1)), ((a, 2), Pair(c, 1)), ((c, 2), Pair(tensor(8, 8), 1))):
        whole[1](p, q)
    assert [t.key for t in whole.tuning] == ["Q.B=(4, 8), Q.n=1", "Q.B=(8, 8), Q.n=1"]
    for key, reset, message in ((["P[2]"], [], "key of of_containers names 'P[2]'"), ([], ["Q.C"], "reset of")):
        with pytest.raises(tj.LaunchError, match=re.escape(message)):
            tuned(driver, values(1, 2), key, of_containers, reset=reset)[1]((a, 1), Pair(b, 1))
    with pytest.raises(tj.LaunchError, match=r"names 'R\[0\]', which is not one of its parameters"):
        tuned(driver, values(1, 2), ["R[0]"], of_containers)
    assert "P[0]=(4, 8)" in str(k.explain((a, 1), Pair(b, 1), target="sm_90a"))
