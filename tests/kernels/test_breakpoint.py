"""`breakpoint()` in kernels: the values of names at every hit, hooks, and the prompt on the simulator."""

import bdb
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import tilejit as tj

ROWS_OF_THREE = tj.spec((256, 3), tj.float32)
SCALE, WEIGHTS = 3, {"a": 2, "b": (0.5, "text")}


@pytest.fixture(autouse=True)
def simulated(monkeypatch):
    monkeypatch.setenv("TILEJIT_DEVICE", "sim")
    monkeypatch.delenv("PYTHONBREAKPOINT", raising=False)
    # pytest has replaced `pdb.set_trace`
    monkeypatch.delitem(sys.modules, "pdb", raising=False)


@pytest.fixture
def hits(monkeypatch):
    """Each hit as a list of (function, line, names), innermost first."""
    found = []

    def hook():
        frame, functions = sys._getframe(1), []
        while frame.f_code.co_filename == __file__:
            functions.append((frame.f_code.co_name, frame.f_lineno, dict(frame.f_locals)))
            frame = frame.f_back
        found.append(functions)

    monkeypatch.setattr(sys, "breakpointhook", hook)
    return found


def names_of(hits):
    """The names of the kernel at each hit; no function was inlined."""
    return [names for ((_, _, names),) in hits]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def typed(monkeypatch, capsys):
    """Launch with lines typed at the prompt; return what was printed after each prompt."""

    def run(launch, *lines):
        monkeypatch.setattr(sys, "stdin", Terminal("".join(f"{line}\n" for line in lines)))
        launch()
        return capsys.readouterr().out.split("(tilejit) ")

    return run


DTYPES = [
    tj.bool_, tj.int8, tj.uint16, tj.int32, tj.uint64, tj.float16, tj.bfloat16, tj.float32, tj.float64,
    tj.float8_e4m3fn, tj.float8_e5m2,
]


@tj.kernel(threads=64)
def loaded(X: tj.Tensor, M: tj.constexpr, N: tj.constexpr):
    x = tj.cta.load(X[0:M, 0:N])
    s = tj.alloc_shared((M, N), X.dtype)
    tj.cta.store(s[:, :], x)
    tj.cta_sync()
    part = s[0:M, N - 1]  # noqa: F841
    turned = x.T
    breakpoint()
    tj.cta.store(X[0:M, 0:N], turned.T)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (64, 33), (16, 16)], ids=str)
def test_tiles_shared_memory_and_tensors_have_their_elements(hits, dtype, shape):
    x = np.random.default_rng(0).integers(0, 2 if dtype is tj.bool_ else 100, shape).astype(dtype.numpy)
    loaded[1](x, *shape)
    (names,) = names_of(hits)
    assert {name: names[name] for name in ("M", "N")} == dict(zip("MN", shape, strict=True))
    for name, wanted in {"x": x, "X": x, "s": x, "part": x[:, -1], "turned": x.T}.items():
        assert names[name].dtype == dtype.numpy and not isinstance(names[name], np.ma.MaskedArray)
        np.testing.assert_array_equal(names[name].astype(np.float64), wanted.astype(np.float64), err_msg=name)
        assert not names[name].flags.writeable


class Pair(NamedTuple):
    w: tj.Tensor
    n: tj.int32


@tj.kernel(threads=32)
def every_kind(X: tj.Tensor, out: tj.Tensor, P: Pair, flag: tj.bool_, none: tj.constexpr, kind: tj.constexpr):
    t = tj.thread_id()
    x = tj.warp.load(X[0:4, 0:8])
    row_sums = tj.sum(x, axis=1)
    total = tj.sum(x)
    column = row_sums[:, None]
    own = tj.alloc_local((4,), tj.int32)
    for k in range(4):
        own[k] = k * t
    region = X[2:4, 1]  # noqa: F841
    half, nested = tj.float16(1.5), (1, (x, "text"), none)
    scaled = SCALE * WEIGHTS["a"] * P.w[0] * P.n
    if t == 3:
        breakpoint()
    out[t] = scaled + own[t % 4] + half if flag else total + column[0, 0] + nested[0]


def test_names_of_every_kind_have_their_values(hits):
    x, w = np.arange(32, dtype=np.float32).reshape(4, 8), np.full(3, 2, np.float32)
    every_kind[1](x, np.zeros(32, np.float32), Pair(w, 5), True, None, tj.float16)
    (names,) = names_of(hits)
    assert names["SCALE"] == SCALE and names["WEIGHTS"] == WEIGHTS
    assert names["t"] == 3 and names["t"].dtype == np.int32
    assert names["none"] is None and names["kind"] is tj.float16 and names["flag"] == np.True_
    assert names["half"] == np.float16(1.5) and names["half"].dtype == np.float16
    assert names["scaled"] == SCALE * 2 * 2 * 5
    np.testing.assert_array_equal(names["own"], [0, 3, 6, 9])
    np.testing.assert_array_equal(names["region"], x[2:4, 1])
    assert names["P"].n == 5
    np.testing.assert_array_equal(names["P"].w, w)
    # only thread 3 is there: other elements are masked
    assert names["x"].count() == 1 and names["x"].compressed() == x[~np.ma.getmaskarray(names["x"])]
    assert names["nested"][0] == 1 and names["nested"][1][1] == "text" and names["nested"][2] is None
    # every lane has the sums
    assert names["total"] == x.sum()
    assert str(names["k"]).startswith("k has no value after its loop")


@tj.kernel(threads=128)
def product(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor):
    a = tj.alloc_shared((64, 64), tj.float16, swizzle="128B")
    b = tj.alloc_shared((64, 64), tj.float16, swizzle="128B")
    tj.cta.copy(a, A[0:64, 0:64])
    tj.cta.copy(b, B[0:64, 0:64])
    tj.cta_sync()
    acc = tj.alloc_local((64, 64), tj.float32, layout=tj.wgmma.layout_c((64, 64)))
    tj.wg.gemm_async(acc, a, b, accumulate=False)
    breakpoint()
    tj.wgmma.wait(0)
    breakpoint()
    tj.cta.store(C[0:64, 0:64], acc)


def test_registers_in_flight_are_not_read(hits):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (64, 64)).astype(np.float16) for _ in range(2))
    product[1](a, b, np.zeros((64, 64), np.float32))
    before, after = names_of(hits)
    assert repr(before["acc"]) == "in flight: an asynchronous operation fills it"
    np.testing.assert_array_equal(after["acc"], a.astype(np.float32) @ b)
    for names in (before, after):
        # swizzled shared memory
        np.testing.assert_array_equal(names["a"], a)
        np.testing.assert_array_equal(names["b"], b)


@tj.kernel(threads=64)
def flat(X: tj.Tensor = ROWS_OF_THREE, n: tj.int32 = 0):
    x = tj.cta.load(X[0:256, 0:3])
    y = x * 2
    chosen = y
    if n > 0:
        chosen = x + n
    breakpoint()
    tj.cta_sync()
    tj.cta.store(X[0:256, 0:3], chosen)


@pytest.mark.parametrize("n", [0, 5])
def test_flattened_tiles_and_tiles_of_either_path(hits, n):
    x = np.arange(768, dtype=np.float32).reshape(256, 3)
    flat[1](x.copy(), n)
    (names,) = names_of(hits)
    np.testing.assert_array_equal(names["y"], x * 2)
    np.testing.assert_array_equal(names["chosen"], x + n if n else x * 2)


@tj.kernel(threads=32)
def looped(A: tj.Tensor, B: tj.Tensor, n: tj.int32):
    last, count, previous = -1, 0, 0.5
    acc = tj.warp.zeros((32,), tj.int32)
    for i in range(n):
        breakpoint()
        count = count + 2
        acc = acc + i
        if i % 2 == 1:
            previous = previous + i
            continue
        last = i
    while count > 5:
        count -= 4
        for k in tj.static_range(2):  # noqa: B007
            breakpoint()
    A[tj.thread_id()] = last + previous
    tj.warp.store(B[0:32], acc)


def test_a_loop_of_hits_shows_the_values_of_each_iteration(hits):
    looped[1](np.zeros(32, np.float32), np.zeros(32, np.int32), 4)
    names = names_of(hits)
    seen = [(x["i"], x["last"], x["count"], x["previous"], *set(x["acc"].tolist())) for x in names[:4]]
    assert seen == [(0, -1, 0, 0.5, 0), (1, 0, 2, 0.5, 0), (2, 0, 4, 1.5, 1), (3, 2, 6, 1.5, 3)]
    assert [(x["count"], x["k"], x["last"], x["previous"]) for x in names[4:]] == [(4, 0, 2, 4.5), (4, 1, 2, 4.5)]


@tj.function
def inner(y, k):
    y = y * 2
    if k > 1:
        z = y + k
        breakpoint()
        return z
    return y


@tj.function
def outer(x, k):
    offset = 10

    def shift(v):
        moved = v + offset
        breakpoint()
        return moved

    return inner(shift(x), k)


@tj.kernel(threads=32)
def called(A: tj.Tensor):
    t = tj.thread_id()
    A[t] = outer(t, 5)


def test_functions_are_frames_at_their_lines(hits):
    a = np.zeros(32, np.int32)
    called[2](a[:])
    np.testing.assert_array_equal(a, (np.arange(32) + 10) * 2 + 5)
    shift, deepest = hits
    assert [name for name, _, _ in shift] == ["shift", "outer", "called"]
    assert [name for name, _, _ in deepest] == ["inner", "outer", "called"]
    lines = Path(__file__).read_text().splitlines()
    assert [lines[line - 1].strip() for _, line, _ in deepest] == [
        "breakpoint()", "return inner(shift(x), k)", "A[t] = outer(t, 5)"
    ]
    assert shift[0][2] == {"x": 0, "k": 5, "offset": 10, "v": 0, "moved": 10}
    (_, _, in_inner), (_, _, in_outer), (_, _, in_kernel) = deepest
    assert in_inner == {"y": 20, "k": 5, "z": 25} and in_outer == {"x": 0, "k": 5, "offset": 10}
    assert list(in_kernel) == ["A", "t"] and in_kernel["t"] == 0


@tj.function
def at(t, c):
    v = 100 * c + t
    breakpoint()
    return v


@tj.kernel(threads=64)
def divergent(A: tj.Tensor, B: tj.Tensor):
    t, c = tj.thread_id(), tj.cta_id(0)
    x = tj.cta.load(A[c * 64 : c * 64 + 64])
    if t % 8 == 2:
        B[c * 64 + t] = at(t, c)
    tj.cta_sync()
    tj.cta.store(A[c * 64 : c * 64 + 64], x + 1)


def launch_divergent():
    divergent[2](np.arange(128, dtype=np.float32), np.zeros(128, np.int32))


def test_the_prompt_goes_through_threads_ctas_and_callers(typed):
    lines = [
        "v", "thread 10", "v", "thread 10 1", "v", "thread 11", "thread 10 7", "thread x", "threads", "down", "up",
        "t + c", "x[42]", "p x[40:44]", "up", "down", "names", "help thread", "", "c",
    ]
    head, *answers = typed(launch_divergent, *lines)
    answers = dict(zip(range(len(lines)), answers, strict=True))
    assert f"{__file__}" in head and "in at, thread 0" not in head
    assert "in at, thread 2 (warp 0, lane 2) of CTA (0, 0, 0) and 15 more" in head and "-> breakpoint()" in head
    assert [answers[k] for k in (0, 2, 4)] == ["2\n", "10\n", "110\n"]
    assert "thread 10 (warp 0, lane 10) of CTA (1, 0, 0)" in answers[3]
    assert answers[5] == "*** thread 11 of CTA (1, 0, 0) isn't here\n"
    assert answers[6] == "*** thread 10 of CTA (7, 0, 0) isn't here\n"
    assert answers[7].startswith("*** thread takes")
    first, *elsewhere = answers[8].splitlines()
    assert first == "here: 2, 10, 18, 26, 34, 42, 50 and 58 of CTA (1, 0, 0), and 8 of other CTAs"
    assert "thread 0 (warp 0, lane 0) of CTA (0, 0, 0) and 111 more" in elsewhere[0]
    assert any("tj.cta_sync()" in line or "tj.cta.store" in line for line in elsewhere)
    assert answers[9] == "*** the threads are in this function\n"
    assert "in divergent, thread 10" in answers[10] and "-> B[c * 64 + t] = at(t, c)" in answers[10]
    # the threads that hold other elements are elsewhere
    assert [answers[k] for k in (11, 12, 13)] == ["11\n", "106.0\n", "float32 of shape (4,)\n    [-- -- 106.0 --]\n"]
    assert answers[14] == "*** no function calls this one\n"
    assert answers[16].splitlines() == ["t = 10", "c = 1", "v = 110"]
    assert "go to another thread" in answers[17] and answers[18] == ""


@tj.kernel(threads=32)
def shapes(X: tj.Tensor, N: tj.constexpr):
    x = tj.warp.load(X[0:4, 0:N])
    breakpoint()
    tj.warp_sync()
    tj.warp.store(X[0:4, 0:N], x + 1)
    breakpoint()


def test_expressions_are_evaluated_and_their_errors_shown(typed):
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    launch = lambda: shapes[1](x, 8)  # noqa: E731
    lines = ["np.sum(x) * N", "nothing", "1 +", "X[0, 0] = 7", "X.fill(7)", "x[9]", "p N", "c", "X.sum()", "continue"]
    _, *answers = typed(launch, *lines)
    assert answers[0] == "3968.0\n"
    errors = ["NameError", "SyntaxError", "SyntaxError", "ValueError", "IndexError"]
    assert [answer.split(":")[0] for answer in answers[1:6]] == [f"*** {name}" for name in errors]
    assert answers[6] == "8\n"
    # the second hit
    assert answers[7].startswith("> ") and answers[8] == f"{x.sum()}\n"
    np.testing.assert_array_equal(x, np.arange(1, 33, dtype=np.float32).reshape(4, 8))


@pytest.mark.parametrize("line", ["quit", "q", ""], ids=["quit", "q", "end of input"])
def test_quitting_ends_the_launch_and_the_next_one_works(typed, line):
    x = np.zeros((4, 8), np.float32)
    lines = [line] if line else []
    with pytest.raises(bdb.BdbQuit, match=r"quit at the breakpoint in .*test_breakpoint.py:\d+"):
        typed(lambda: shapes[1](x, 8), *lines)
    np.testing.assert_array_equal(x, 0)
    typed(lambda: shapes[1](x, 8), "c", "c")
    np.testing.assert_array_equal(x, 1)


def test_without_a_terminal_the_values_are_printed_once_per_hit(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("q\n"))
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    shapes[1](x, 8)
    shown = capsys.readouterr().out
    assert shown.count("-> breakpoint()\nX = float32 tensor of shape (4, 8), strides (8, 1)\nN = 8\nx = ") == 2
    assert shown.count("x = float32 of shape (4, 8)\n    [[ 0.  1.  2.") == 2
    launch_divergent()
    shown = capsys.readouterr().out
    # callers are shown, too
    assert "v = 2\n" in shown and "in divergent, thread 2" in shown and "c = 0\n" in shown


def test_hooks_and_pythonbreakpoint_are_respected(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", None)
    x = np.zeros((4, 8), np.float32)
    monkeypatch.setenv("PYTHONBREAKPOINT", "0")
    shapes[1](x, 8)
    monkeypatch.setenv("PYTHONBREAKPOINT", "builtins.locals")
    shapes[1](x, 8)
    assert capsys.readouterr().out == ""
    monkeypatch.setenv("PYTHONBREAKPOINT", "")
    shapes[1](x, 8)
    assert capsys.readouterr().out.count("-> breakpoint()") == 2


PROGRAM = """
import numpy as np
import tilejit as tj

@tj.function
def doubled(v):
    twice = v * 2
    breakpoint()
    return twice

@tj.kernel(threads=32)
def k(A: tj.Tensor):
    t = tj.thread_id() + 7
    A[t - 7] = doubled(t)

def test_k():
    with tj.use_device("sim"):
        k[1](np.zeros(32, np.int32))
"""


def test_pytest_s_debugger_stops_in_the_kernel(tmp_path):
    file = tmp_path / "test_program.py"
    file.write_text(PROGRAM)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)]
    typed = "p twice, v.dtype\nup\np t\nc\n"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    run = subprocess.run(command, input=typed, capture_output=True, text=True, timeout=120, env=environment)
    assert "(14, dtype('int32'))" in run.stdout or "(np.int32(14), dtype('int32'))" in run.stdout
    assert "-> A[t - 7] = doubled(t)" in run.stdout and "1 passed" in run.stdout


def test_a_breakpoint_in_a_host_function_is_python_s(monkeypatch):
    called = []
    monkeypatch.setattr(sys, "breakpointhook", lambda *args, **options: called.append((args, options)))

    def grid():
        breakpoint("host", at=1)
        return 1

    x = np.zeros(32, np.int32)
    called_without_one[grid()](x)
    assert called == [(("host",), {"at": 1})]
    np.testing.assert_array_equal(x, 1)


@tj.kernel(threads=32)
def called_without_one(A: tj.Tensor):
    A[tj.thread_id()] = 1


@tj.kernel(threads=32)
def with_arguments(A: tj.Tensor):
    breakpoint(A)


def test_arguments_are_refused():
    with pytest.raises(tj.KernelSyntaxError, match="breakpoint in a kernel takes no arguments") as caught:
        with_arguments[1](np.zeros(32, np.int32))
    assert "write breakpoint()" in str(caught.value) and "    breakpoint(A)" in str(caught.value)
