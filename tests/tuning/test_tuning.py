"""`@autotune`: the fastest configuration is found, kept and shown, and what can't run is a row."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilejit as tj
from tests.tuning.kernels import Clock, adding, configs, grid
from tilejit.runtime import simulated
from tilejit.testing import do_bench
from tilejit.tuning import TunedKernel


def test_the_configuration_that_costs_least_is_launched(arrays: Any) -> None:
    k, (a, t) = adding(configs=configs(8, 128, 32), reset=["A"]), arrays
    k[grid](a, t, 256)
    (tuning,) = k.tuning
    assert tuning.best.config.values == {"B": 128} and t[0] == 128
    costs = {trial.config.values["B"]: trial.median for trial in tuning.trials}
    assert costs[128] < costs[32] < costs[8]
    assert costs[32] == do_bench(lambda: k.kernel[256 // 32](a, t, 256, 32))
    assert tuning.unit == "cycles (counted)"


def test_reset_restores_before_each_timing_and_in_the_end(arrays: Any) -> None:
    a, t = arrays
    adding(reset=["A"])[grid](a, t, 256)
    assert (a == 1).all(), "the launch isn't all that remains"
    a[:] = 0
    adding(reset=None)[grid](a, t, 256)
    assert (a == 4).all(), "three runs and the launch"


def test_a_key_is_tuned_once_and_another_anew(arrays: Any, clock: Clock) -> None:
    k, (a, t) = adding(), arrays
    for n in (256, 256, 100, 256, 100):
        k[grid](a, t, n)
    assert [tuning.key for tuning in k.tuning] == ["N=256", "N=100"]
    tried = len(clock.tried)
    # other grids and bound launches of the same key find it
    k[8](a, t, 256)
    k[grid].bind(a, t, 100)()
    assert len(clock.tried) == tried
    # another type is another question
    k[grid](a.astype(np.float16), t, 256)
    assert len(clock.tried) > tried and len(k.tuning) == 3


def test_an_array_in_the_key_counts_by_its_shape(arrays: Any, clock: Clock) -> None:
    k, (a, t) = adding(key=["A"]), arrays
    k[grid](a, t, 256)
    k[grid](a, t, 100)
    k[grid](a.copy(), t, 100)
    assert [tuning.key for tuning in k.tuning] == ["A=(256,)"]
    k[grid](a[:128], t, 100)
    assert [tuning.key for tuning in k.tuning] == ["A=(256,)", "A=(128,)"]


def test_timings_are_interleaved_and_clear_losers_leave(arrays: Any, clock: Clock) -> None:
    k, (a, t) = adding(), arrays
    k[grid](a, t, 256)
    # each once to warm up, then rounds of all, until one is out
    assert clock.rounds[:6] == [1, 1, 1, 3, 3, 2]
    rounds = [sorted(clock.tried[n : n + 3]) for n in (3, 6)]
    assert rounds == [[32, 64, 128]] * 2
    trials = {trial.config.values["B"]: trial for trial in k.tuning[0].trials}
    assert trials[32].is_out and len(trials[32].samples) == 2
    assert len(trials[64].samples) == len(trials[128].samples) == 30
    assert t[0] == 64, "the fastest is launched"


def test_a_killed_tuning_goes_on_where_it_was(arrays: Any, clock: Clock, disk: Path) -> None:
    a, t = arrays
    clock.limit = 3 + 6
    with pytest.raises(KeyboardInterrupt):
        adding()[grid](a, t, 256)
    assert len(list(disk.glob("*.tuning"))) == 1
    clock.limit, clock.rounds, clock.tried = 10**9, [], []
    k = adding()
    k[grid](a, t, 256)
    assert 32 not in clock.tried, "what is out was timed again"
    assert clock.rounds == [1, 1] + [2] * (30 - 6)
    trials = {trial.config.values["B"]: trial for trial in k.tuning[0].trials}
    assert trials[32].median == 3.0 and trials[64].samples == [1.0] * 30


def test_a_finished_table_stays_where_another_process_is_still_tuning(arrays: Any, disk: Path) -> None:
    fast, slow = adding(), adding()
    launches = 0

    def slowly(meta: Mapping[str, Any]) -> tuple[int]:
        nonlocal launches
        launches += 1
        if launches == 2:
            fast[grid](*arrays, 256)
        if launches == 3:
            raise KeyboardInterrupt
        return grid(meta)

    with pytest.raises(KeyboardInterrupt):
        slow[slowly](*arrays, 256)
    assert launches == 3 and len(fast.tuning) == 1 and len(slow.tuning) == 0
    late = adding()
    assert late.explain(*arrays, 256).remarks[-1] == str(fast.tuning[0])


def test_what_is_done_is_kept_as_it_is_done(arrays: Any, disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, t = arrays
    measured = simulated.CountingBench.round
    calls = 0

    def killed(self: Any, works: Any) -> list[float]:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return measured(self, works)

    monkeypatch.setattr(simulated.CountingBench, "round", killed)
    with pytest.raises(KeyboardInterrupt):
        adding()[grid](a, t, 256)
    k = adding()
    k[grid](a, t, 256)
    assert calls == 3 + 1, "each is counted once"
    assert all(len(trial.samples) == 1 for trial in k.tuning[0].trials)


def test_another_process_takes_the_table_from_the_disk(arrays: Any, clock: Clock, disk: Path) -> None:
    a, t = arrays
    first = adding()
    first[grid](a, t, 256)
    clock.limit = 0
    again = adding()
    again[grid](a, t, 256)
    assert t[0] == 64 and [len(k.signatures) for k in (first, again)] == [3, 1]
    assert str(again.tuning[0]) == str(first.tuning[0])
    assert "best of 3: B=64" in str(adding().explain(a, t, 256)), "explain looks on the disk, too"
    # what the table depends on
    for other in (adding(configs=configs(32, 64)), adding(reset=["A"]), adding(prune=lambda all, named: all[1:])):
        with pytest.raises(KeyboardInterrupt):
            other[grid](a, t, 256)
    with pytest.raises(KeyboardInterrupt):
        again[grid](a, t, 255)
    with pytest.raises(KeyboardInterrupt), tj.use_device("sim:sm_100a"):
        adding()[grid](a, t, 256)


def test_a_function_of_a_configuration_counts_by_its_text(arrays: Any, disk: Path) -> None:
    def tuned(by: Any) -> list[str | None]:
        @tj.autotune(configs=[tj.Config({"f": by}), tj.Config({"f": plain})], key=["N"])
        @tj.kernel(threads=32)
        def calling(A: tj.Tensor, N: tj.int32, f: tj.constexpr):
            A[tj.thread_id()] = f(A[tj.thread_id()])

        calling[1](arrays[0], 256)
        (tuning,) = calling.tuning
        return [trial.reason for trial in tuning.trials]

    @tj.function
    def plain(x):
        return x

    def broken() -> Any:
        @tj.function
        def by(x):
            return x + "text"

        return by

    def mended() -> Any:
        @tj.function
        def by(x):
            return x + 1

        return by

    assert str(broken()) == str(mended())
    assert "KernelTypeError" in str(tuned(broken())[0])
    assert tuned(mended()) == [None, None]


def test_what_can_not_run_is_a_row_with_its_reason(arrays: Any) -> None:
    a, t = arrays
    k = adding(configs=[*configs(64), *configs(1 << 22), tj.Config({"B": "text"})])
    k[grid](a, t, 64)
    (tuning,) = k.tuning
    assert tuning.best.config.values == {"B": 64}
    reasons = [trial.reason or "" for trial in tuning.trials]
    assert not reasons[0] and reasons[1].startswith("ResourceError: add_one needs")
    assert reasons[2] == "KernelTypeError: mul takes scalars and local tiles; got the constant 'text'"
    assert str(tuning).splitlines()[-2].startswith("B=4194304")


def test_all_that_can_not_run_is_one_error_that_lists_them(arrays: Any) -> None:
    a, t = arrays
    k = adding(configs=configs(1 << 22, 1 << 23))
    for _ in range(2):
        with pytest.raises(tj.LaunchError, match="none of the 2 configurations of add_one can run") as error:
            k[grid](a, t, 64)
    listed = str(error.value).splitlines()
    assert listed[1].startswith("  B=4194304: ResourceError: add_one needs") and listed[2].startswith("  B=8388608: ")
    assert not k.tuning and not a.any()


def test_a_mistake_of_ours_is_no_row(arrays: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Any, works: Any) -> list[float]:
        raise ZeroDivisionError

    monkeypatch.setattr(simulated.CountingBench, "round", broken)
    with pytest.raises(ZeroDivisionError):
        adding()[grid](*arrays, 64)


def test_prune_sees_the_arguments_and_chooses(arrays: Any, clock: Clock) -> None:
    a, t = arrays
    seen: list[Any] = []

    def prune(choices: list[tj.Config], named: Any) -> list[tj.Config]:
        seen.append((len(choices), named["N"], named.A is a, sorted(named)))
        return [config for config in choices if config.values["B"] != 64]

    k = adding(prune=prune)
    k[grid](a, t, 256)
    assert seen == [(3, 256, True, ["A", "N", "T"])]
    assert t[0] == 128 and len(k.tuning[0].trials) == 2
    twice = adding(prune=lambda choices, named: [*choices[1:], *choices])
    twice[grid](a, t, 256)
    assert [trial.config.values["B"] for trial in twice.tuning[0].trials] == [64, 128, 32]


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        ([], "prune removed all 3 configurations of add_one"),
        (None, "prune of add_one returned None"),
        ([32], r"prune of add_one returned \[32\]"),
        ([tj.Config({"C": 1})], "prune of add_one returned C=1, which is not one of its configurations"),
        ([tj.Config({"B": 32}, threads=64)], "prune of add_one returned B=32, threads=64, which is not one of its"),
    ],
)
def test_what_prune_may_not_return(arrays: Any, kept: Any, message: str) -> None:
    with pytest.raises(tj.LaunchError, match=message):
        adding(prune=lambda choices, named: kept)[grid](*arrays, 256)


def test_an_error_of_prune_is_reported_as_such(arrays: Any) -> None:
    def asking(choices: list[tj.Config], named: Any) -> list[tj.Config]:
        return choices if named["A"].nbytes % named["N"] else choices[:1]

    with pytest.raises(tj.LaunchError, match="prune of add_one raised ZeroDivisionError: ") as error:
        adding(prune=asking)[grid](*arrays, 0)
    assert "the arguments (A, T, N)" in str(error.value) and isinstance(error.value.__cause__, ZeroDivisionError)
    specs = tj.spec((256,), tj.float32), tj.spec((1,), tj.int32)
    with pytest.raises(tj.LaunchError, match="prune of add_one raised AttributeError: .*nbytes"):
        adding(prune=asking).explain(*specs, 256)
    # but what it says in tilejit's words
    with pytest.raises(tj.LaunchError, match="^the launch has no argument 'M'"):
        adding(prune=lambda choices, named: choices[: named["M"]])[grid](*arrays, 256)


def test_one_configuration_needs_no_timing(arrays: Any, clock: Clock) -> None:
    k = adding(configs=configs(64))
    k[grid](*arrays, 256)
    assert not clock.tried and not k.tuning and arrays[1][0] == 64


def test_threads_of_a_launch_are_tuned_apart(arrays: Any, clock: Clock) -> None:
    k = adding()
    k[grid](*arrays, 256)
    k[grid, 64](*arrays, 256)
    assert len(k.tuning) == 2


def test_the_threads_of_a_configuration(arrays: Any) -> None:
    a, t = arrays
    k = adding(configs=[tj.Config({"B": 128}, threads=n) for n in (32, 64)])
    k[grid](a, t, 256)
    assert {v.threads for v in k.signatures} == {32, 64}
    with pytest.raises(tj.LaunchError, match="the threads of add_one come from its configurations"):
        k[(2,), 64](a, t, 256)
    with pytest.raises(tj.LaunchError, match="the threads of add_one come from its configurations"):
        k.compile(a, t, 256, threads=64)
    free = adding()
    free[grid, 64](a, t, 256)
    assert {v.threads for v in free.signatures} == {64}


def test_values_of_configurations_are_no_arguments(arrays: Any) -> None:
    k = adding()
    for call in (lambda: k[8](*arrays, 256, B=32), lambda: k.compile(*arrays, 256, B=32)):
        with pytest.raises(tj.LaunchError, match="B of add_one comes from its configurations"):
            call()
    with pytest.raises(tj.LaunchError, match="takes 3 arguments; got 4 by position"):
        k[8](*arrays, 256, 32)
    with pytest.raises(tj.LaunchError, match="add_one is missing N"):
        k[8](*arrays)
    k.kernel[8](*arrays, 256, 32)
    assert arrays[1][0] == 32


def test_compile_and_explain_take_the_fastest_that_is_known(arrays: Any, clock: Clock) -> None:
    k, (a, t) = adding(), arrays
    assert "B=32: the first of 3: not tuned for N=256 on sim:sm_90a yet" in str(k.explain(a, t, 256))
    assert dict(k.compile(a, t, 256).signature.arguments)["B"].value == 32
    k[grid](a, t, 256)
    assert dict(k.compile(a, t, 256).signature.arguments)["B"].value == 64
    assert dict(k.compile(a, t, 100).signature.arguments)["B"].value == 32
    spec = tj.spec((256,), tj.float32), tj.spec((1,), tj.int32), tj.int32
    assert "B=64: the fastest of 3, for N=256 on sim:sm_90a" in str(k.explain(a, t, 256))
    assert "N=256: best of 3: B=64" in str(k.explain(a, t, 256)) and "of best" in k.explain(a, t, 256)._repr_html_()
    (compiled,) = k.precompile([spec])
    assert compiled.threads == 32


def test_simulate_and_bind_run_the_fastest(arrays: Any) -> None:
    k, (a, t) = adding(reset=["A"]), arrays
    report = tj.simulate(k, grid, a, t, 256)
    assert report.grid == (2, 1, 1) and t[0] == 128 and report.checks
    prepared = k[grid].bind(a, t, 256)
    prepared()
    prepared(a, t, 256)
    assert (a == 3).all()
    with pytest.raises(tj.LaunchError, match="threads of add_one|takes 3 arguments|add_one"):
        tj.simulate(k, grid, a, t)


def test_the_table_is_text_and_html(arrays: Any, clock: Clock) -> None:
    k = adding()
    assert repr(k.tuning) == "nothing was tuned yet"
    k[grid](*arrays, 256)
    assert repr(k.tuning).splitlines() == [
        "add_one on sim:sm_90a for sm_90a, N=256: best of 3: B=64",
        "",
        "configuration  ms    of best  timings",
        "B=64           1     1.00     30",
        "B=128          1.05  1.05     30",
        "B=32           3     3.00     2        out",
    ]
    assert "<td style='text-align:left'>1.05</td>" in k.tuning._repr_html_()


def test_the_environment_prints_or_turns_it_off(
    arrays: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    k = adding()
    monkeypatch.setenv("TILEJIT_AUTOTUNE", "off")
    k[grid](*arrays, 256)
    assert arrays[1][0] == 32 and not clock.tried
    # what prints the newest table goes on working
    assert len(k.tuning) == 1 and k.tuning[-1].best.config == k.choices.configs[0]
    assert "first of 3: B=32" in str(k.tuning[-1]) and "not timed: TILEJIT_AUTOTUNE=off" in str(k.tuning[-1])
    assert "not timed" in k.tuning._repr_html_()
    monkeypatch.setenv("TILEJIT_AUTOTUNE", "print")
    k[grid](*arrays, 256)
    assert arrays[1][0] == 64 and len(k.tuning) == 2 and k.tuning[-1].best.config == k.choices.configs[1]
    assert "best of 3: B=64" in capsys.readouterr().err
    monkeypatch.setenv("TILEJIT_AUTOTUNE", "no")
    with pytest.raises(tj.LaunchError, match="TILEJIT_AUTOTUNE='no' is not one of print, off"):
        k[grid](*arrays, 100)


def test_nothing_is_tuned_where_nothing_may_be_compiled(arrays: Any, clock: Clock) -> None:
    k = adding()
    with tj.no_recompile(), pytest.raises(tj.LaunchError, match=r"add_one would be tuned inside tj.no_recompile\(\)"):
        k[grid](*arrays, 256)
    k[grid](*arrays, 256)
    with tj.no_recompile():
        k[grid](*arrays, 256)


def test_threads_that_need_one_answer_tune_once(arrays: Any, clock: Clock) -> None:
    k, (a, t) = adding(), arrays
    barrier = threading.Barrier(4)

    def launch() -> None:
        with tj.use_device("sim:sm_90a"):
            barrier.wait()
            k[grid](a, t, 256)

    threads = [threading.Thread(target=launch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert clock.tried.count(32) == 3 and len(k.tuning) == 1


def test_a_captured_value_that_changes_is_tuned_anew(clock: Clock, arrays: Any) -> None:
    scale = 2.0

    @tj.autotune([tj.Config({"B": 32}), tj.Config({"B": 64})], ["N"])
    @tj.kernel(threads=32)
    def scaled(A: tj.Tensor, T: tj.Tensor, N: tj.int32, B: tj.constexpr):
        T[0] = B
        A[tj.thread_id()] = A[tj.thread_id()] * scale

    scaled[1](*arrays, 1)
    scaled[1](*arrays, 1)
    assert len(scaled.tuning) == 1
    scale = 3.0
    scaled[1](*arrays, 1)
    assert len(scaled.tuning) == 2


@tj.autotune(configs(32, 64), key=["N"])
@tj.kernel(threads=32)
def importable(A: tj.Tensor, N: tj.int32, B: tj.constexpr):
    A[tj.thread_id()] = B


def test_a_tuned_kernel_is_a_kernel() -> None:
    assert isinstance(importable, tj.Kernel) and isinstance(importable, TunedKernel)
    assert pickle.loads(pickle.dumps(importable)) is importable and copy.deepcopy(importable) is importable
    assert repr(importable) == "<kernel importable(A, N, B)>" and importable.__name__ == "importable"
    with pytest.raises(tj.LaunchError, match="needs a grid"):
        importable(1)


def test_autotune_goes_above_kernel() -> None:
    decorate = tj.autotune(configs(32), key=[])
    for wrong in (lambda A, B: None, importable, 3):
        with pytest.raises(tj.KernelSyntaxError, match="@tj.autotune is applied to"):
            decorate(wrong)
    with pytest.raises(tj.KernelSyntaxError, match="is already a kernel"):
        tj.kernel(importable)


def test_a_kernel_is_tuned_while_the_interpreter_ends(tmp_path: Path) -> None:
    program = tmp_path / "late.py"
    program.write_text("""
import atexit, numpy as np, tilejit as tj
from tilejit.runtime import workers

@tj.autotune(configs=[tj.Config({"B": b}, threads=t) for b in (16, 32, 64) for t in (32, 64)], key=["X"])
@tj.kernel(threads=32)
def k(X: tj.Tensor, B: tj.constexpr) -> None:
    tj.cta.store(X.tile(B, tj.cta_id(0)), tj.cta.zeros((B,), tj.float32))

def late() -> None:
    x = np.ones(64, np.float32)
    k[lambda m: tj.cdiv(64, m["B"])](x)
    print(x.any(), len(k.tuning[-1].trials))

# also where processes would be started
workers.processors, workers.START_SECONDS = lambda: 2, 0.0
atexit.register(late)
""")
    environment = {**os.environ, "TILEJIT_DEVICE": "sim", "TILEJIT_CACHE": "0", "PYTHONPATH": str(Path.cwd())}
    ended = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, env=environment)
    assert (ended.stdout, ended.returncode) == ("False 6\n", 0), ended.stderr
