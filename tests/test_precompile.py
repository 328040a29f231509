"""Compiling ahead: in this process and in others, and what becomes of kernels that can't be compiled."""

from __future__ import annotations

import enum
import gc
import io
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import pytest

import tilejit as tj
from tests.ops.test_tile import GIVEN, type_of
from tests.support.programs import array, tile_ir
from tilejit import dtypes, errors, pipeline, precompile
from tilejit.ir import nodes as ir
from tilejit.ir.types import Signature
from tilejit.ops.tile import TILE_OPERATIONS
from tilejit.progress import Progress
from tilejit.remember import forget
from tilejit.runtime import variants, workers
from tilejit.runtime.variant_builder import Compiler
from tilejit.target import target

pytestmark = pytest.mark.integration

ROOT = Path(tj.__file__).parent.parent

ROW = tj.spec((64,), tj.float32)

NO_SIGNALS = pytest.mark.skipif(sys.platform == "win32", reason="it has no such signals")


def scale() -> tj.Kernel:
    """A new kernel, for which nothing is compiled yet."""

    @tj.kernel(threads=32)
    def scaled(A: tj.Tensor, K: tj.constexpr):
        i = tj.thread_id()
        if K < 0:
            A[i] = A[i] + "text"
        A[i] = A[i] * K

    return scaled


def test_precompile_leaves_nothing_to_compile() -> None:
    k = scale()
    specs = [(ROW, 2), (ROW, {"K": 3}), {"A": ROW, "K": 4, "threads": 64}, (ROW, {"K": 3, "target": "sm_80"})]
    compiled = k.precompile(specs, target="sm_90a")
    assert [c.threads for c in compiled] == [32, 32, 64, 32]
    assert [c.target.name for c in compiled] == ["sm_90a", "sm_90a", "sm_90a", "sm_80"]
    assert {v.compiled.ptx for v in k.signatures} == {c.ptx for c in compiled}
    with tj.use_device("sim:sm_90a"), tj.no_recompile():
        a = np.ones(64, np.float32)
        k[1](a, 3)
        with pytest.raises(tj.LaunchError, match="would be compiled again"):
            k[1](a, 5)
    assert a[:32].tolist() == [3.0] * 32


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that this process has compiled, by name."""
    made: list[str] = []
    compile = pipeline.compile

    def noted(tile: ir.Kernel, *rest: Any, **named: Any) -> tj.Compiled:
        made.append(tile.name)
        return compile(tile, *rest, **named)

    monkeypatch.setattr(pipeline, "compile", noted)
    return made


@pytest.mark.parametrize("checks", ["0", "1", "strict"])
@pytest.mark.parametrize("name", ["", "sm_80"], ids=["its own target", "another target"])
def test_launches_find_what_was_compiled_ahead(
    name: str, checks: str, counted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEJIT_SIM_CHECKS", checks)
    k = scale()
    with tj.use_device("sim"):
        compiled = k.precompile([(ROW, 2), (ROW, 3)], target=name or None, workers=0)
        assert [c.executable.is_checked for c in compiled] == [checks != "0"] * 2
        assert len(counted) == 2
    device = f"sim:{name}" if name else "sim"
    with tj.use_device(device), tj.no_recompile():
        for number in (2, 3):
            a = np.ones(64, np.float32)
            k[1](a, number)
            assert a[0] == number
    assert len(counted) == 2 == len(k.signatures)
    # what is shown of a kernel is what a GPU runs
    assert not k.compile(ROW, 2, target=name or None).executable.is_checked


def test_what_processes_compiled_is_launched_without_compiling(counted: list[str]) -> None:
    k = scale()
    with tj.use_device("sim:sm_90a"):
        k.precompile([(ROW, number) for number in range(3)], workers=2)
        for number in range(3):
            k[1](np.ones(64, np.float32), number)
    assert counted == [] and len(k.signatures) == 3


@pytest.mark.parametrize("problem", ["no GPU", "no checks"])
def test_for_a_gpu_the_plain_build_is_compiled(problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def default() -> Any:
        if problem == "no GPU":
            raise tj.DeviceError("no device cuda:0")
        return SimpleNamespace(checks=False)

    monkeypatch.setattr(precompile.devices, "default", default)
    (compiled,) = scale().precompile([(ROW, 2)], target="sm_90a")
    assert not compiled.executable.is_checked

    @tj.kernel(threads=32, debug=True)
    def debugged(A: tj.Tensor):
        A[tj.thread_id()] = 1

    (compiled,) = debugged.precompile([(ROW,)], target="sm_90a")
    assert compiled.executable.is_checked


def test_processes_compile_what_this_one_would() -> None:
    here, there = scale(), scale()
    jobs = [(ROW, {"K": n}) for n in range(3)]
    expected = here.precompile(jobs, workers=0)
    compiled = tj.compile_many([(there, *job) for job in jobs], workers=2)
    for a, b in zip(expected, compiled, strict=True):
        assert a.executable_to_keep == b.executable and not b.is_derived
        assert a.tile_ir == b.tile_ir and a.lane_ir == b.lane_ir
        assert str(a.explain()) == str(b.explain()) and a.usage == b.usage
        assert b.target is a.target
        assert {"frontend", "lower", "codegen"} <= set(b.timings)
    assert {v.call.rpartition(":")[0] for v in there.signatures} == {__file__}
    a = np.ones(64, np.float32)
    tj.simulate(there, 1, a, 2)
    assert a[0] == 2


def test_all_others_are_compiled_when_one_fails() -> None:
    for count in (0, 2):
        k = scale()
        with pytest.raises(tj.KernelTypeError, match="text") as failed:
            tj.compile_many([(k, ROW, n) for n in (1, -1, 2, 3)], workers=count)
        assert "A[i] + " in str(failed.value), "the line is lost"
        assert len(k.signatures) == 3


def example_of(name: str) -> ir.Kernel:
    """The tile IR of an operation's example."""
    lines = "".join(f"    {line}\n" for line in TILE_OPERATIONS[name].example.splitlines())
    head = GIVEN if name == "gemm" else "def k(A, B):\n"
    return tile_ir(head + lines, array(type_of(name), rank=2), array(tj.float16, rank=2), threads=128)


def compiled_from(tile: ir.Kernel) -> workers.Task[tj.Compiled]:
    def task(compiler: Compiler | None) -> tj.Compiled:
        return (compiler or pipeline.compile)(tile, Signature(()), target(tile.target))

    return task


def test_processes_compile_every_tile_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    tiles = [example_of(name) for name in TILE_OPERATIONS]
    here = [pipeline.compile(tile, Signature(()), target(tile.target)).executable_to_keep for tile in tiles]
    monkeypatch.setattr(pipeline, "compile", refused)
    outcomes = list(workers.run_all([compiled_from(tile) for tile in tiles], 2))
    assert len(outcomes) == len(tiles)
    for number, outcome in outcomes:
        assert outcome.result().executable == here[number], tiles[number]


def refused(*_: object, **__: object) -> NoReturn:
    raise AssertionError("compiled in this process")


class Rows(enum.IntEnum):
    FEW = 4


def rows(few: enum.IntEnum) -> tj.Kernel:
    """A new kernel whose tile IR holds a number of a class of the user's."""

    @tj.kernel(threads=32)
    def staged(A: tj.Tensor, K: tj.constexpr):
        s = tj.alloc_shared((few, 8), A.dtype)
        s[tj.thread_id() // 8, tj.thread_id() % 8] = A[tj.thread_id()] * K
        A[tj.thread_id()] = s[tj.thread_id() // 8, tj.thread_id() % 8]

    return staged


def test_what_no_process_can_read_is_compiled_in_this_one(counted: list[str]) -> None:
    class Local(enum.IntEnum):
        FEW = 4

    for few in (Rows.FEW, Local.FEW):
        here, there = rows(few), rows(few)
        jobs = [(ROW, number) for number in range(3)]
        expected = [compiled.executable for compiled in here.precompile(jobs, workers=0)]
        assert len(counted) == 3
        found = tj.compile_many([(there, *job) for job in jobs], workers=2)
        assert [compiled.executable for compiled in found] == expected and len(counted) == 6
        counted.clear()
    # pickle recurses, as all of the compiler does
    assert workers._question(deep(10_000), target("sm_90a")) is None
    assert pickle.loads(workers._answer(b"what another version sends")) is None


def deep(levels: int) -> ir.Kernel:
    """A kernel with an expression of `levels` levels."""
    expr: ir.Expr = ir.Const(1, dtypes.int32)
    for _ in range(levels):
        expr = ir.Op("negative", (expr,), dtypes.int32)
    return ir.Kernel("deep", (), 32, "sm_90a", (ir.Let(ir.Var("x", dtypes.int32), expr),))


def test_processes_import_nothing_of_the_users(tmp_path: Path) -> None:
    (tmp_path / "sizes.py").write_text(
        "import enum\nprint('imported')\nclass Rows(enum.IntEnum):\n    FEW = 4\nFEW = Rows.FEW\n"
    )
    # names of Python's own modules: the program's folder is where it looks first, and another folder never
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "json.py").write_text("raise SystemExit('imported')\n")
    (tmp_path / "elsewhere" / "signal.py").write_text("raise SystemExit('imported')\n")
    program = tmp_path / "program.py"
    program.write_text(
        "import tilejit as tj\nfrom sizes import FEW\n"
        "@tj.kernel(threads=32)\n"
        "def k(A: tj.Tensor, K: tj.constexpr):\n"
        "    s = tj.alloc_shared((FEW, 8), A.dtype)\n"
        "    s[0, 0] = A[0] + K\n"
        "    A[0] = s[0, 0]\n"
        "print(len(k.precompile([(tj.spec((32,), tj.int32), n) for n in range(3)], 'sm_90a', workers=2)))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TILEJIT_CACHE": "0"}
    run = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, timeout=120, env=environment,
        cwd=tmp_path / "elsewhere",
    )
    assert run.stdout.split() == ["imported", "3"] and run.stderr == "", run.stderr


ORPHANING = """
import os, pickle, signal, sys
from tilejit.runtime import workers
from tests.test_precompile import deep, example_of
process = workers.WorkerProcess()
assert process.is_ready()
question = workers._question(example_of("exp"), workers.find_target("sm_90a"))
process.ask(question, "k")
if sys.argv[1] == "compiling":
    workers._send(process._process.stdin, question)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("doing", ["waiting", "compiling"])
@NO_SIGNALS
def test_a_process_ends_without_a_word_when_what_started_it_is_killed(doing: str) -> None:
    # it inherits the standard error, which ends when both have ended
    command = [sys.executable, "-c", ORPHANING, doing]
    run = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=120, cwd=ROOT, stdout=subprocess.DEVNULL)
    assert run.returncode == -signal.SIGKILL and run.stderr == ""


def test_errors_name_the_cells_of_a_notebook_as_this_process_does(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = tj.S[(128, 8) : (1 @ tj.tid_in_wg, 1)]

    @tj.kernel(threads=128, target="sm_100a")
    def early(A: tj.Tensor, K: tj.constexpr):
        r = tj.alloc_local((128, 8), tj.float32, layout=rows)
        t = tj.alloc_tmem((128, 8), tj.float32)
        tj.wg.fill(r, K)
        tj.wg.copy_async(t, r)
        tj.wg.fill(r, 0.0)
        tj.tcgen05.wait_st()

    shell = SimpleNamespace(compile=SimpleNamespace(format_code_name=lambda file: ("Cell", "In[3]")))
    monkeypatch.setattr(errors, "running_shell", lambda: shell)
    texts = []
    for count in (0, 2):
        with pytest.raises(tj.TilejitError) as error:
            tj.compile_many([(early, ROW, n) for n in range(3)], workers=count)
        texts.append(error.value.message)
    assert texts[0] == texts[1] and "Cell In[3]" in texts[0]


def test_what_dispatch_refuses_in_another_process_keeps_its_reasons() -> None:
    @tj.kernel(threads=32)
    def refused(A: tj.Tensor, K: tj.constexpr):
        s = tj.alloc_shared((32,), A.dtype)
        tj.warp.copy(s, A[0:32], variant="ldstmatrix")

    errors = []
    for count in (0, 2):
        with pytest.raises(tj.DispatchError) as error:
            tj.compile_many([(refused, ROW, n) for n in range(3)], workers=count)
        errors.append((str(error.value), error.value.declines))
    assert errors[0] == errors[1] and errors[0][1]


@NO_SIGNALS
def test_a_process_that_ends_fails_its_kernel_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    is_ready = workers.WorkerProcess.is_ready
    count = 0

    def broken(self: workers.WorkerProcess) -> bool:
        nonlocal count
        count += 1
        ready = is_ready(self)
        if count == 1:
            self._process.kill()
        return ready

    monkeypatch.setattr(workers.WorkerProcess, "is_ready", broken)
    k = scale()
    with pytest.raises(tj.TilejitError, match=r"the process that compiled scaled was ended by signal 9 \(Killed\)"):
        tj.compile_many([(k, ROW, n) for n in range(3)], workers=1)
    assert len(k.signatures) == 2 and count == 2


def test_a_process_leaves_no_garbage_of_the_kernels_that_it_compiled() -> None:
    def garbage(count: int) -> int:
        """The number of unreachable objects in cycles after `count` kernels."""
        questions, answers = io.BytesIO(), io.BytesIO()
        for _ in range(count):
            question = workers._question(example_of("max"), target("sm_90a"))
            assert question is not None
            workers._send(questions, question)
        questions.seek(0)
        # what reading them here has left
        forget()
        gc.collect()
        try:
            workers.serve(questions, answers, time.time())
        finally:
            gc.enable()
        assert answers.tell() > 1000 * count
        return gc.collect()

    garbage(1)
    assert garbage(9) <= garbage(1) + 9


def test_where_no_process_can_be_started_this_one_compiles(
    counted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(*_: object, **__: object) -> NoReturn:
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(workers.subprocess, "Popen", refusing)
    assert len(scale().precompile([(ROW, n) for n in range(3)], workers=2)) == 3 == len(counted)


@NO_SIGNALS
@pytest.mark.parametrize("host", ["ends", "stays open", "leaves the pipe open"])
def test_where_another_program_runs_python_this_process_compiles(
    host: str, counted: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program, started = tmp_path / "host", []
    what = {"ends": "exit 1", "stays open": "exec sleep 600", "leaves the pipe open": "sleep 20; exit 1"}[host]
    program.write_text(f"#!/bin/sh\necho hello\n{what}\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    if host != "ends":
        monkeypatch.setattr(workers, "_READY_SECONDS", 0.2)
    start = workers.WorkerProcess.__init__
    monkeypatch.setattr(workers.WorkerProcess, "__init__", lambda self: started.append(self) or start(self))
    k, began = scale(), time.perf_counter()
    assert len(k.precompile([(ROW, n) for n in range(9)], workers=2)) == 9 == len(counted) == len(k.signatures)
    assert time.perf_counter() - began < 15 and 1 <= len(started) <= 2
    # and it isn't tried again
    k.precompile([(ROW, n) for n in range(9, 12)], workers=2)
    assert len(started) <= 2 and len(counted) == 12
    assert all(process._process.returncode is not None for process in started)


def test_a_program_that_starts_itself_again_starts_no_processes(tmp_path: Path, counted: list[str]) -> None:
    # `sys.executable` of a program that has Python in it is that program
    program = tmp_path / "program.py"
    program.write_text(
        f"#!{sys.executable}\n"
        "import os, sys\n"
        "with open(sys.argv[0] + '.runs', 'a') as file: print(os.getpid(), file=file)\n"
        "sys.executable = os.path.abspath(sys.argv[0])\n"
        "import tilejit as tj\n"
        "@tj.kernel(threads=32)\n"
        "def k(A: tj.Tensor, K: tj.constexpr):\n"
        "    A[tj.thread_id()] = K\n"
        "print(len(k.precompile([(tj.spec((32,), tj.int32), n) for n in range(3)], 'sm_90a', workers=2)))\n"
    )
    program.chmod(0o700)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TILEJIT_CACHE": "0"}
    run = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120, env=environment)
    assert run.stdout == "3\n", run.stderr
    assert len((tmp_path / "program.py.runs").read_text().split()) <= 3


def test_no_process_starts_others(counted: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_WORKER", "1")
    assert len(scale().precompile([(ROW, n) for n in range(3)], workers=2)) == 3 == len(counted)


def test_what_python_prints_at_its_start_is_no_answer(
    counted: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('Welcome')\nprint('to this cluster', end='', flush=True)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert len(scale().precompile([(ROW, n) for n in range(3)], workers=2)) == 3 and counted == []


def test_processes_of_another_version_compile_nothing(counted: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert workers.is_as_imported(workers.IMPORTED), "a file of tilejit was changed while the tests ran"
    # as where the files that they would import were written later
    monkeypatch.setattr(workers, "IMPORTED", 0.0)
    monkeypatch.setattr(workers, "_unable", set())
    assert len(scale().precompile([(ROW, n) for n in range(3)], workers=2)) == 3 == len(counted)


def test_processes_end_with_what_started_them() -> None:
    started: list[subprocess.Popen[bytes]] = []
    with pytest.MonkeyPatch.context() as patch:
        began = workers.WorkerProcess.__init__

        def noted(self: workers.WorkerProcess) -> None:
            began(self)
            started.append(self._process)

        patch.setattr(workers.WorkerProcess, "__init__", noted)
        scale().precompile([(ROW, n) for n in range(3)], workers=2)

        def interrupted(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        patch.setattr(Progress, "advance", interrupted)
        with pytest.raises(KeyboardInterrupt):
            scale().precompile([(ROW, n) for n in range(3)], workers=2)
    assert started and all(process.returncode is not None for process in started)


def test_a_kernel_of_a_program_without_a_guard_is_compiled_elsewhere(tmp_path: Path) -> None:
    # nothing of the program is imported by the processes: else it would start itself again
    program = tmp_path / "program.py"
    program.write_text(
        "import tilejit as tj\n"
        "print('runs')\n"
        "@tj.kernel(threads=32)\n"
        "def k(A: tj.Tensor, K: tj.constexpr):\n"
        "    A[tj.thread_id()] = K\n"
        "print(len(k.precompile([(tj.spec((32,), tj.int32), n) for n in range(3)], 'sm_90a', workers=2)))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120, env=environment)
    assert run.stdout.split() == ["runs", "3"], run.stderr


def test_a_path_that_is_no_text_stops_no_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", [tmp_path, *sys.path])
    k = scale()
    compiled = tj.compile_many([(k, ROW, number) for number in (2, 3, 4)], workers=2)
    assert len(compiled) == 3


def test_processes_are_started_only_where_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []

    class Pool:
        def __init__(self, count: int) -> None:
            counts.append(count)

        def __enter__(self) -> Pool:
            return self

        def __exit__(self, *_: object) -> None: ...

        def run(self, tasks: Any) -> Any:
            return (workers._here(number, task) for number, task in tasks)

    monkeypatch.setattr(workers, "Workers", Pool)
    monkeypatch.setattr(workers, "processors", lambda: 3)
    tasks = [lambda compile, n=n: n + 1 for n in range(5)]
    assert [outcome.result() for _, outcome in workers.run_all(tasks)] == [1, 2, 3, 4, 5]
    assert list(workers.run_all([])) == [] == counts
    monkeypatch.setattr(workers, "START_SECONDS", 0)

    def failing(compile: object) -> int:
        raise ValueError

    outcomes = list(workers.run_all([failing, *tasks]))
    assert counts == [3] and [number for number, _ in outcomes] == list(range(6))
    assert isinstance(outcomes[0][1].exception(), ValueError) and outcomes[5][1].result() == 5
    list(workers.run_all(tasks, 9))
    assert counts == [3, 5]
    list(workers.run_all(tasks, 0))
    # the caller's own work between two outcomes is no part of the estimate
    monkeypatch.setattr(workers, "START_SECONDS", 0.05)
    for _ in workers.run_all(tasks):
        time.sleep(0.03)
    assert counts == [3, 5]

    def slow(compile: object) -> int:
        time.sleep(0.06)
        return 0

    # a kernel that came from the disk says nothing of the others
    outcomes = list(workers.run_all([*tasks[:2], *[slow] * 4]))
    assert counts == [3, 5, 3] and [number for number, _ in outcomes] == list(range(6))
    # one processor has nothing to gain, but a caller that asks for processes gets them
    monkeypatch.setattr(workers, "processors", lambda: 1)
    list(workers.run_all([slow] * 4))
    assert counts == [3, 5, 3]
    list(workers.run_all(tasks, 1))
    assert counts == [3, 5, 3, 1]
    # a program that was frozen would start itself
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    list(workers.run_all(tasks, 1))
    assert counts == [3, 5, 3, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda k: k.precompile({"A": ROW, "K": 1}), r"scaled.precompile takes a list of specs; got dict"),
        (lambda k: k.precompile(3), r"scaled.precompile takes a list of specs; got int"),
        (lambda k: k.precompile([ROW]), r"a spec of scaled.precompile is a tuple or a mapping; got a Spec"),
        (lambda k: k.precompile([(ROW,)]), r"scaled is missing K"),
        (lambda k: k.precompile([(ROW, {"K": 1, "L": 2})]), r"scaled has no parameter 'L'"),
        (lambda k: tj.compile_many(3), r"3 is not a list of jobs"),
        (lambda k: tj.compile_many([k]), r"<kernel scaled\(A, K\)> is not a job"),
        (lambda k: tj.compile_many([("k", ROW)]), r"is not a job: a job is a tuple that begins with a kernel"),
        (lambda k: tj.compile_many([(k, ROW, 1)], workers=-1), r"workers=-1 is not a number of processes"),
        (lambda k: tj.compile_many([(k, ROW, 1)], workers=True), r"workers=True is not a number of processes"),
    ],
)
def test_what_is_no_job_is_said(call: Callable[[tj.Kernel], object], message: str) -> None:
    with pytest.raises(tj.LaunchError, match=message):
        call(scale())


FORKING = """
import gc, os, signal, threading
import numpy as np
import tilejit as tj
from tilejit.frontend import kernel as frontend

@tj.kernel(threads=32)
def k(A: tj.Tensor):
    A[tj.thread_id()] = 1

build, began, forked = frontend.build, threading.Event(), threading.Event()

def slow(*args, **named):
    began.set()
    forked.wait()
    return build(*args, **named)

frontend.build = slow
a = np.zeros(32, np.float32)
thread = threading.Thread(target=lambda: k[1](np.zeros(32, np.float32)))
thread.start()
began.wait()
if child := os.fork():
    forked.set()
    thread.join()
    raise SystemExit(os.waitpid(child, 0)[1])
signal.alarm(60)
frontend.build = build
k[1](a)
os._exit(0 if (a == 1).all() and gc.isenabled() else 1)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system doesn't fork")
def test_a_process_that_is_forked_while_a_thread_compiles_does_not_wait_for_it(tmp_path: Path) -> None:
    program = tmp_path / "forking.py"
    program.write_text(FORKING)
    root = str(Path(tj.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": root, "TILEJIT_DEVICE": "sim", "TILEJIT_CACHE": "0"}
    command = [sys.executable, "-W", "ignore", str(program)]
    assert subprocess.run(command, env=environment, timeout=120).returncode == 0


def test_threads_that_need_one_variant_compile_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    k, made, barrier = scale(), [], threading.Barrier(6)
    make = variants.VariantCache._new

    def slow(self: variants.VariantCache, key: Any, *rest: Any) -> Any:
        made.append(key)
        time.sleep(0.05)
        return make(self, key, *rest)

    monkeypatch.setattr(variants.VariantCache, "_new", slow)
    arrays = [np.ones(64, np.float32) for _ in range(6)]

    def launch(number: int) -> None:
        barrier.wait()
        with tj.use_device("sim:sm_90a"):
            k[1](arrays[number], 2 + number % 2)

    threads = [threading.Thread(target=launch, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(made) == 2 == len(k.signatures)
    assert [a[0] for a in arrays] == [2, 3, 2, 3, 2, 3]


def test_variants_that_threads_compile_side_by_side_are_those_of_one_thread() -> None:
    @tj.kernel(threads=64)
    def rows(A: tj.Tensor, B: tj.Tensor, N: tj.constexpr):
        x = tj.cta.load(A[tj.cta_id(0), 0:N])
        y = tj.exp(x - tj.max(x))
        tj.cta.store(B[tj.cta_id(0), 0:N], y / tj.sum(y))

    sizes, a = (32, 100, 128, 200), tj.spec((4, 256), tj.float32)
    expected = {n: rows.compile(a, a, n, target="sm_80").ptx for n in sizes}
    texts: dict[int, str] = {}

    def compile(number: int) -> None:
        texts[number] = rows.compile(a, a, number, target="sm_80", threads=64).ptx

    rows.variants._variants._values.clear()
    threads = [threading.Thread(target=compile, args=(n,)) for n in sizes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert texts == expected
