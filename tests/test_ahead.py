"""Kernels from files: the same launches, the same checks, and nothing that compiles."""

import os
import re
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import tilejit as tj
from tilejit import pipeline
from tilejit.__main__ import main

ROOT = Path(tj.__file__).parent.parent


@tj.function
def helper(x, by):
    return x * by


@tj.kernel(threads=64)
def scaled(A: tj.Tensor, B: tj.Tensor, n, s: tj.float32, K: tj.constexpr, f: tj.constexpr = helper):
    i = tj.cta_id(0) * 64 + tj.thread_id()
    if i < n:
        B[i] = f(A[i], s) + K


@pytest.fixture(autouse=True)
def simulator(monkeypatch):
    monkeypatch.setenv("TILEJIT_DEVICE", "sim")


@pytest.fixture(params=["k.ptx", "texts"])
def kernel(request, tmp_path):
    array = tj.spec((128,), tj.float32)
    compiled = scaled.compile(array, array, tj.int32, tj.float32, K=3)
    compiled.save(tmp_path / request.param)
    return tj.load_compiled(tmp_path / Path(request.param).with_suffix(".ptx"))


def arrays(count=128, dtype=np.float32):
    return np.arange(count, dtype=dtype), np.zeros(count, dtype)


def test_it_is_launched_as_the_kernel_is(kernel):
    a, b = arrays()
    kernel[2](a, b, 128, 2.0)
    np.testing.assert_array_equal(b, a * 2 + 3)
    kernel[2](a, B=b, n=128, s=0.5, K=3)
    np.testing.assert_array_equal(b, a * 0.5 + 3)
    kernel[lambda args: tj.cdiv(args.n, 64)](a, b, 100, 4.0)
    np.testing.assert_array_equal(b, np.where(np.arange(128) < 100, a * 4 + 3, a * 0.5 + 3))
    kernel[(2,), 64](a, b, 128, -1.0)
    prepared = kernel[2].bind(a, b, 128, 1.0)
    prepared()
    np.testing.assert_array_equal(b, a + 3)
    prepared(a, b, 128, 5.0)
    np.testing.assert_array_equal(b, a * 5 + 3)
    assert prepared.compiled is kernel.compiled and kernel.compiled.name == "scaled"


def test_other_sizes_and_better_aligned_arrays_are_taken(kernel):
    a, b = arrays(512)
    kernel[8](a, b, 512, 2.0)
    np.testing.assert_array_equal(b, a * 2 + 3)


def shifted(array):
    return array.view(np.uint8)[4:-12].view(array.dtype)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda a, b: (a[1:], b, 1, 2.0), r"compiled for A: float32\[:1\] align 16 .*; got A: float32\[:1\] align 4"),
        (lambda a, b: (a[:126], b, 1, 2.0), r"extent 16; got A: float32\[:1\] align 16 extent 8"),
        (lambda a, b: (a.astype(np.float64), b, 1, 2.0), r"got A: float64\[:1\]"),
        (lambda a, b: (a[::2], b, 1, 2.0), r"got A: float32\[:\]"),
        (lambda a, b: (a.reshape(2, 64), b, 1, 2.0), r"got A: float32\[:, :1\]"),
        (lambda a, b: (a, a, 1, 2.0), r"got A: .* overlaps"),
        (lambda a, b: (a, b, 1.5, 2.0), "n is int32; got float 1.5"),
        (lambda a, b: (a, b, 2**31, 2.0), "n is int32, which holds"),
        (lambda a, b: (a, b, 1, 2.0, 4), "compiled for K = 3; got K = 4"),
        (lambda a, b: (a, b, 1, 2.0, 3.0), "compiled for K = 3; got K = 3.0"),
        (lambda a, b: (a, b, 1, 2.0, True), "compiled for K = 3; got K = True"),
        (lambda a, b: (a, b, 1, 2.0, 3, helper), r"compiled for f = <tj.function helper>; got f = <tj.f"),
        (lambda a, b: (a, b, 1), "scaled is missing s"),
        (lambda a, b: (a, b, 1, 2.0, 3, None, 5), "takes 6 arguments; got 7 by position"),
    ],
)
def test_arguments_that_it_was_not_compiled_for_are_refused(kernel, arguments, message):
    a, b = arrays()
    with pytest.raises(tj.LaunchError, match=message):
        kernel[2](*arguments(a, b))
    assert not b.any()


def test_arrays_that_overlap_are_taken_where_nothing_overlapping_is_written(tmp_path):
    @tj.kernel(threads=32)
    def added(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor):
        C[tj.lane_id()] = A[tj.lane_id()] + B[tj.lane_id()]

    array = tj.spec((32,), tj.float32)
    added.compile(array, array, array).save(tmp_path / "k.ptx")
    a, c = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    tj.load_compiled(tmp_path / "k.ptx")[1](a, a, c)
    np.testing.assert_array_equal(c, 2 * a)


def test_arrays_that_overlap_are_taken_where_it_was_compiled_for_that(tmp_path):
    a, b = arrays()
    fresh = tj.Kernel(scaled.__wrapped__, scaled.options)
    fresh[2](a, a, 128, 2.0, 3)
    (variant,) = fresh.signatures
    variant.compiled.save(tmp_path / "k.ptx")
    kernel = tj.load_compiled(tmp_path / "k.ptx")
    for first, second in ((np.arange(128, dtype=np.float32),) * 2, arrays()):
        kernel[2](first, second, 128, 2.0)
        np.testing.assert_array_equal(second, np.arange(128, dtype=np.float32) * 2 + 3)


def test_an_array_that_is_pinned_is_checked(tmp_path):
    @tj.kernel(threads=32)
    def pinned(A: tj.Tensor = tj.spec((4, 8), tj.float32)):  # noqa: B008
        A[0, tj.lane_id() % 8] = 1

    pinned.compile().save(tmp_path / "k.ptx")
    kernel = tj.load_compiled(tmp_path / "k.ptx")
    kernel[1](np.zeros((4, 8), np.float32))
    with pytest.raises(tj.LaunchError, match=r"A is pinned to shape \(4, 8\); got \(8, 4\)"):
        kernel[1](np.zeros((8, 4), np.float32))


def test_what_is_fixed_cant_be_asked_otherwise(kernel):
    a, b = arrays()
    with pytest.raises(tj.LaunchError, match="compiled for 64 threads per CTA; got 32"):
        kernel[(2,), 32](a, b, 1, 2.0)
    with pytest.raises(tj.LaunchError, match="is a kernel and needs a grid"):
        kernel(a, b, 1, 2.0)
    with tj.use_device("sim:sm_80"), pytest.raises(tj.DeviceError, match="can't run code for sm_90a"):
        kernel[2](a, b, 1, 2.0)
    with pytest.raises(tj.TilejitError, match=r"was loaded from .*\.ptx, which has no record of its compilation"):
        kernel.compiled.explain()
    assert "scaled(A, B, n, s, K, f) from" in repr(kernel)


def test_it_is_launched_where_nothing_may_be_compiled(kernel):
    a, b = arrays()
    with tj.no_recompile():
        kernel[2](a, b, 128, 2.0)
    assert b[1] == 5


def test_its_resources_are_those_that_were_saved(kernel):
    array = tj.spec((128,), tj.float32)
    made = scaled.compile(array, array, tj.int32, tj.float32, K=3)
    assert kernel.compiled.usage == made.usage and kernel.compiled.occupancy == made.occupancy
    assert kernel.compiled.ptx == made.ptx and kernel.compiled.shared_bytes == made.shared_bytes


def test_a_checked_build_says_what_it_found(tmp_path):
    @tj.kernel(threads=32, debug=True)
    def asserts(A: tj.Tensor, n: tj.int32):
        assert n < 5, "n is too large"
        A[n] = 1

    asserts.compile(tj.spec((8,), tj.float32), tj.int32).save(tmp_path / "k.ptx")
    kernel = tj.load_compiled(tmp_path / "k.ptx")
    kernel[1](np.zeros(8, np.float32), 4)
    with pytest.raises(AssertionError, match=r"n is too large(.|\n)*test_ahead.py"):
        kernel[1](np.zeros(8, np.float32), 5)
    with pytest.raises(tj.OutOfBoundsError):
        kernel[1](np.zeros(4, np.float32), 4)


def test_a_cluster_is_kept(tmp_path):
    @tj.kernel(threads=32, cluster=(2,))
    def clustered(A: tj.Tensor):
        A[tj.cta_id(0)] = 1

    clustered.compile(tj.spec((8,), tj.float32)).save(tmp_path / "k.ptx")
    kernel = tj.load_compiled(tmp_path / "k.ptx")
    kernel[2](np.zeros(8, np.float32))
    with pytest.raises(tj.LaunchError, match="cluster"):
        kernel[3](np.zeros(8, np.float32))


class Pair(NamedTuple):
    x: tj.Tensor
    n: tj.int64
    K: tj.constexpr = 5


Other = namedtuple("Other", "x n K")


@tj.kernel(threads=32)
def of_containers(P, Q: Pair):
    i = tj.thread_id()
    if i < Q.n:
        P[0][i] = Q.x[i] * P[1][0] + Q.K


def test_containers_are_passed_as_containers_of_the_same_structure(tmp_path):
    spec = tj.spec((128,), tj.float32)
    compiled = of_containers.compile((spec, (tj.float32,)), Pair(spec, tj.int64), target="sm_90a")
    compiled.save(tmp_path / "k.ptx")
    kernel = tj.load_compiled(tmp_path / "k.ptx")
    a, b = arrays()
    kernel[1]((b, (2.0,)), Pair(a, 20))
    np.testing.assert_array_equal(b, np.where(np.arange(128) < 20, a * 2 + 5, 0))
    kernel[lambda args: args["Q"].n](Q=Pair(a, 1), P=(b, (3,)))
    assert b[0] == 5 and kernel.compiled.signature == compiled.signature
    for wrong, message in (
        (((b, (2.0,)), (a, 20, 5)), "Q is a tuple of 3; expected Q.x, Q.n, Q.K"),
        (((b, (2.0,)), Other(a, 20, 5)), "of_containers was compiled for Q: Pair(x, n, K); got Q: Other(x, n, K)"),
        (((b, 2.0), Pair(a, 20)), r"P[1] is a container; got float 2.0"),
        (((b, (2.0, 1)), Pair(a, 20)), "P[1] is a tuple of 2; expected P[1][0]"),
        (((b, (2.0,)), Pair(a, 20, 6)), "of_containers was compiled for Q.K = 5; got Q.K = 6"),
    ):
        with pytest.raises(tj.LaunchError, match=re.escape(message)):
            kernel[1](*wrong)


def test_machine_code_needs_a_gpu(kernel, tmp_path):
    with pytest.raises(tj.DeviceError, match="needs a GPU's driver, and sim is in use: TILEJIT_DEVICE=sim"):
        kernel.compiled.save(tmp_path / "k.cubin")
    assert not (tmp_path / "k.cubin").exists()


@pytest.mark.parametrize("path", ["k.txt", "k", 3, None])
def test_a_file_of_another_kind_is_refused(path):
    words = r"is not the path of a compiled kernel\nhelp: pass a str or Path that ends in .ptx or .cubin"
    with pytest.raises(tj.LaunchError, match=words):
        tj.load_compiled(path)


def test_another_process_needs_neither_the_source_nor_the_compiler(kernel, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nimport numpy as np\nimport tilejit as tj\n"
        f"k = tj.load_compiled({str(kernel.path)!r})\n"
        "a = np.arange(128, dtype=np.float32); b = np.zeros_like(a)\n"
        "k[2](a, b, 128, 2.0)\nassert (b == a * 2 + 3).all()\n"
        "print(*(m for m in ('llvmlite', 'tilejit.pipeline', 'tilejit.ir.nodes', 'tilejit.isa') if m in sys.modules))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.strip() == "", done.stdout + done.stderr


PROGRAM = """
import tilejit as tj

@tj.kernel(threads=64)
def k(A: tj.Tensor, B: tj.Tensor, n, s: tj.float32, K: tj.constexpr, C=None):
    x = tj.cta.load(A[0:64])
    tj.cta.store(B[0:64], tj.exp(x) * s + K)
"""

SPECS = ("--spec", "A=float32[64]", "--spec", "B=float32[64]", "--spec", "n=int32", "--spec", "K=3")


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A file with a kernel, and an empty cache that is on."""
    monkeypatch.setenv("TILEJIT_CACHE", "1")
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path / "kept"))
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def compiled_tiles(monkeypatch):
    """Names of the kernels that were compiled."""
    made, compile = [], pipeline.compile

    def noted(tile, *rest, **named):
        made.append(tile.name)
        return compile(tile, *rest, **named)

    monkeypatch.setattr(pipeline, "compile", noted)
    return made


@pytest.mark.parametrize("output", ["k.ptx", "texts"])
def test_one_command_twice_writes_the_same_files(program, tmp_path, compiled_tiles, output):
    written = []
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        assert main(["compile", str(program), *SPECS, "-o", str(tmp_path / folder / output)]) == 0
        written.append({path.name: path.read_bytes() for path in (tmp_path / folder).iterdir()})
    assert written[0] == written[1] and len(written[0]) == (1 if output == "k.ptx" else 4)
    # the second time it was there, and only the texts tell how it was made
    assert len(compiled_tiles) == (1 if output == "k.ptx" else 2)


def test_a_kernel_that_was_kept_or_made_elsewhere_is_saved_with_what_it_takes(program, tmp_path, compiled_tiles):
    def saved(compiled, name):
        compiled.save(tmp_path / name)
        return tj.load_compiled(tmp_path / name).compiled

    array = tj.spec((64,), tj.float32)
    jobs = [(array, array, 64, tj.float32, K) for K in (3, 4, 5)]
    expected = pressing().compile(*jobs[0], target="sm_90a")
    kept = pressing().compile(*jobs[0], target="sm_90a")
    assert not kept.is_derived and len(compiled_tiles) == 1
    elsewhere = pressing().precompile(jobs, target="sm_90a", workers=2)
    alone = pressing().precompile(jobs, target="sm_90a", workers=0)
    assert not elsewhere[1].is_derived
    pairs = [(expected, kept), (expected, saved(kept, "kept.ptx")), (expected, saved(expected, "made.ptx"))]
    pairs += [(b, a) for a, b in zip(elsewhere, alone, strict=True)]
    pairs += [(b, saved(a, f"{n}.ptx")) for n, (a, b) in enumerate(zip(elsewhere, alone, strict=True))]
    compiled_tiles.clear()
    for one, other in pairs:
        assert one.usage == other.usage and one.usage.is_estimate and one.registers == other.registers > 16
        assert one.spills == other.spills and one.occupancy == other.occupancy
        assert re.search(rf"registers\W.*?>{one.registers}<", other._repr_html_())
    assert compiled_tiles == []
    assert (tmp_path / "kept.ptx").read_bytes() == (tmp_path / "made.ptx").read_bytes()


def pressing():
    """A new kernel with tiles in registers."""

    @tj.kernel(threads=64)
    def k(A: tj.Tensor, B: tj.Tensor, n, s: tj.float32, K: tj.constexpr):
        x = tj.cta.load(A[0:64])
        tj.cta.store(B[0:64], tj.exp(x) * s + K)

    return k


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        (("B=float32[64]", "K=4"), r"--spec sets K twice\nhelp: remove one of the two"),
        (("B=float32[64]", "B = float32[64]"), r"--spec sets B twice"),
        (("B=float32",), r"--spec B=float32: B is an array; .*\nhelp: write B=float32\[1024, 64\], or with strides"),
        (("B=3",), r"--spec B=3: B is an array"),
        (("B=None",), r"--spec B=None: B is an array"),
        (("B=float32[3",), r"--spec B=float32\[3: B is an array"),
        (("B=float32[64]", "s=float32[3]"), r"s=float32\[3\] is neither .*\nhelp: write s=int32, or a value such as s"),
        (("B=float32[64]", "C=float32[3"), r"C=float32\[3 is neither .*\nhelp: write C=float32\[64, 64\], C=int32, or"),
        (("B=float32[64]:(1,)", "C=float32[4]"), ""),
        (("B=float32[64]", "C=None"), ""),
    ],
)
def test_specs_on_the_command_line_that_cant_be_meant_are_refused(program, tmp_path, capsys, specs, message):
    given = [part for text in ("A=float32[64]", "n=int32", "K=3", *specs) for part in ("--spec", text)]
    status = main(["compile", str(program), *given, "-o", str(tmp_path / "k.ptx")])
    assert status == (1 if message else 0) and re.search(message, capsys.readouterr().err)
