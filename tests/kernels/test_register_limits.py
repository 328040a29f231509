"""Tiles around what a thread's registers hold: refused with names, sizes and lines, or compiled with few spills."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import tilejit as tj
from tests.support.marked import execute, kernel_text, points_at
from tests.support.ptxas import ptxas_path
from tilejit.codegen.limits import most_words
from tilejit.target import most_registers

#: bytes of a thread's stack for what is spilled: where tiles take all registers, and where they take all that is let
#: through; measured with ptxas 13.0: 344 and 1,944
AT_LIMIT, AT_MOST = 512, 2048


@tj.kernel
def held(A: tj.Tensor, B: tj.Tensor, n: tj.constexpr):
    x = tj.cta.load(A[0:n])
    tj.cta_sync()
    tj.cta.store(B[0:n], x)


@tj.kernel
def scaled(A: tj.Tensor, B: tj.Tensor, n: tj.constexpr):
    x = tj.cta.load(A[0:n])
    y = x * 2 + 1
    tj.cta.store(B[0:n], y)


@tj.kernel
def centred(A: tj.Tensor, B: tj.Tensor, n: tj.constexpr):
    x = tj.cta.load(A[0:n]).astype(tj.float32)
    tj.cta.store(B[0:n], x - tj.max(x))


@tj.kernel
def added(A: tj.Tensor, B: tj.Tensor, n: tj.constexpr):
    x = tj.cta.load(A[0 : n // 2])
    y = tj.cta.load(A[n // 2 : n])
    tj.cta.store(B[0 : n // 2], x + y)


@tj.kernel
def accumulated(A: tj.Tensor, B: tj.Tensor, n: tj.constexpr):
    total = tj.cta.zeros((n // 2,), tj.float32)
    for i in range(A.shape[0]):
        total = total + tj.cta.load(A[i : i + n // 2])
    tj.cta.store(B[0 : n // 2], total)


@tj.kernel
def one_after_the_other(A: tj.Tensor, B: tj.Tensor, n: tj.constexpr):
    for k in tj.static_range(4):
        x = tj.cta.load(A[k * n // 4 : (k + 1) * n // 4])
        tj.cta.store(B[k * n // 4 : (k + 1) * n // 4], x * x)


@tj.kernel
def elsewhere(A: tj.Tensor, B: tj.Tensor, n: tj.constexpr):
    x = tj.alloc_local((n // 128,), tj.float32)
    for i in range(n // 128):
        x[i] = A[i]
    B[0] = x[A.shape[0] // 2]


KERNELS = (held, scaled, centred, added, accumulated)


def compiled(kernel: tj.Kernel, threads: int, words: int, dtype: tj.DType = tj.float32) -> tj.Compiled:
    """A kernel whose threads each hold `words` elements at once."""
    array = tj.spec((threads * words,), dtype)
    return kernel.compile(array, array, n=threads * words, target="sm_90a", threads=threads)


def most(kernel: tj.Kernel, threads: int) -> int:
    """The elements that a thread of a kernel may have, in whole vectors."""
    limit = most_registers(threads, None)
    # `centred` has one more value, the maximum
    return (limit + limit // 8 - (kernel is centred)) // 8 * 8


@pytest.mark.parametrize("threads", [128, 512, 1024])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_a_kernel_is_refused_where_its_tiles_pass_the_registers(kernel, threads):
    elements, limit = most(kernel, threads), most_registers(threads, None)
    needed = elements + 8 + (kernel is centred)
    with pytest.raises(tj.ResourceError, match=rf"needs {needed} registers per thread .* the limit is {limit}\b"):
        compiled(kernel, threads, elements + 8)
    # what is let through is counted, too
    if threads == 1024 or kernel is held:
        made = compiled(kernel, threads, elements)
        pressure = made.derivation.pressure
        assert pressure is not None and needed - 8 == pressure.words <= most_words(made.derivation.tile)


def stack_bytes(made: tj.Compiled, folder: Path) -> int:
    """What ptxas puts on a thread's stack."""
    (folder / "k.ptx").write_text(made.ptx)
    command = [str(ptxas_path()), "-arch=sm_90a", "-v", "-o", str(folder / "k.cubin"), str(folder / "k.ptx")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    (stack,) = re.findall(r"(\d+) bytes stack frame", said)
    return int(stack)


@pytest.mark.skipif(ptxas_path() is None, reason="no ptxas: install nvidia-cuda-nvcc")
@pytest.mark.parametrize(
    ("kernel", "threads"), [(held, 128), (scaled, 128), (added, 512), (accumulated, 256), (centred, 1024)],
    ids=lambda value: value.name if isinstance(value, tj.Kernel) else str(value),
)
def test_what_is_let_through_spills_little(kernel, threads, tmp_path):
    at_limit = compiled(kernel, threads, most_registers(threads, None) // 8 * 8)
    assert stack_bytes(at_limit, tmp_path) <= AT_LIMIT
    assert stack_bytes(compiled(kernel, threads, most(kernel, threads)), tmp_path) <= AT_MOST


def test_tiles_that_follow_each_other_need_no_more_than_one_of_them():
    assert compiled(one_after_the_other, 128, 4 * 120).spills == 0


@tj.kernel
def normalized(A: tj.Tensor, B: tj.Tensor, n: tj.constexpr):
    x = tj.cta.load(A[0:n])
    centred = x - tj.sum(x) / n
    variance = tj.sum(centred * centred) / n
    tj.cta.store(B[0:n], centred * tj.rsqrt(variance))


def test_what_is_only_added_up_needs_no_registers_of_its_own(tmp_path):
    made = compiled(normalized, 128, 240)
    pressure = made.derivation.pressure
    assert pressure is not None and pressure.words == 241
    if ptxas_path() is not None:
        assert stack_bytes(made, tmp_path) <= 16


def test_two_elements_of_float16_share_a_register():
    compiled(held, 128, 2 * most(held, 128), tj.float16)
    with pytest.raises(tj.ResourceError, match="needs 288 registers"):
        compiled(held, 128, 2 * 288, tj.float16)


def test_what_lives_in_local_memory_takes_no_registers():
    assert compiled(elsewhere, 128, 1000).local_bytes == 4000


BODY = """
x = tj.cta.load(A[0:256, 0:64])
y = tj.cta.load(A[256:512, 0:64])
tj.cta_sync()
«tj.cta.store(B[0:256, 0:64], x)»
tj.cta.store(B[256:512, 0:64], y)
"""


@pytest.mark.parametrize(
    ("options", "limit", "hint"),
    [
        ("threads=64", "255", "use more threads, make the tiles smaller"),
        ("threads=64, max_registers=128", "128 (max_registers=128)", "use more threads, raise max_registers, make"),
        ("threads=256, max_registers=100", "100 (max_registers=100)", "use more threads, raise max_registers, make"),
    ],
)
def test_the_error_names_tiles_sizes_lines_and_what_to_do(options, limit, hint):
    array = tj.spec((512, 64), tj.float32)
    namespace, marked = execute(kernel_text(BODY, "A: tj.Tensor, B: tj.Tensor", options))
    with pytest.raises(tj.ResourceError) as caught:
        namespace["k"].compile(array, array, target="sm_90a")
    error, threads = caught.value, int(re.search(r"threads=(\d+)", options)[1])
    each = 256 * 64 // threads
    first = marked.text.split("\n").index("    x = tj.cta.load(A[0:256, 0:64])") + 1
    assert error.message == (
        f"k needs {2 * each} registers per thread for the tiles that are live at once; the limit is {limit}. "
        f"Largest: x {each} (line {first}), y {each} (line {first + 1})"
    )
    assert error.hint.startswith(hint)
    points_at(error, marked)


def test_more_threads_are_not_asked_for_where_they_have_no_more_registers():
    with pytest.raises(tj.ResourceError) as caught:
        compiled(held, 512, 160)
    assert "the limit is 128: 512 threads share 65,536" in caught.value.message
    assert "threads" not in caught.value.hint


GIVEN = """
x = tj.alloc_local((2560, 8), tj.float32, layout=S[(64, 40, 8) : (1 @ tx, 8, 1)])
tj.cta.copy(x, A[0:2560, 0:8])
tj.cta_sync()
tj.cta.copy(B[0:2560, 0:8], x)
"""


def test_given_layouts_are_counted_as_open_ones():
    array = tj.spec((2560, 8), tj.float32)
    namespace, _ = execute(kernel_text(GIVEN, "A: tj.Tensor, B: tj.Tensor"))
    with pytest.raises(tj.ResourceError, match=r"k needs 320 registers .* Largest: x 320 \(line \d+\)"):
        namespace["k"].compile(array, array, target="sm_90a")
