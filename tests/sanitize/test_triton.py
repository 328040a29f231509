"""Programs of Triton on the simulator: right results of right kernels, and named faults of wrong ones."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilejit
from tilejit import sanitize

pytestmark = pytest.mark.integration

torch = pytest.importorskip("torch", reason="torch isn't installed")
triton = pytest.importorskip("triton", reason="Triton isn't installed")

from tests.sanitize import triton_programs as programs  # noqa: E402
from tilejit.sanitize import versions  # noqa: E402

ARCHS = ("sm_80", "sm_90")
each_arch = pytest.mark.parametrize("arch", ARCHS)


def line_of(text: str) -> str:
    """The file and line of the only line of the programs that contains `text`, as in messages."""
    lines = Path(programs.__file__).read_text(encoding="utf-8").splitlines()
    (number,) = [i for i, line in enumerate(lines, 1) if text in line]
    return f"triton_programs.py:{number}"


def on_gpu(*shape: int, dtype: Any = None) -> Any:
    return torch.randn(*shape, device="cuda", dtype=dtype or torch.float32)


@each_arch
def test_a_masked_vector_addition(arch: str) -> None:
    with sanitize.triton(arch) as session:
        x, y = on_gpu(1000), on_gpu(1000)
        out = programs.add(x, y)
        assert torch.equal(out, x + y)
    (launch,) = session.launches
    assert launch.kernel == "add_kernel" and launch.grid == (8, 1, 1) and launch.block == (128, 1, 1)
    assert launch.reports[0].checks and not session.findings


@each_arch
def test_softmax(arch: str) -> None:
    with sanitize.triton(arch, schedules=2) as session:
        x = on_gpu(5, 300)
        torch.testing.assert_close(programs.softmax(x), torch.softmax(x, -1))
    assert [len(x.reports) for x in session.launches] == [2]


@each_arch
def test_matmul_by_tensor_cores(arch: str) -> None:
    with sanitize.triton(arch) as session:
        a, b = on_gpu(100, 72, dtype=torch.float16), on_gpu(72, 80, dtype=torch.float16)
        # products are exact in float32; sums of 72 differ by their order
        torch.testing.assert_close(programs.matmul(a, b), a.float() @ b.float(), rtol=1e-4, atol=1e-4)
    instructions = " ".join(session.launches[0].reports[0].instructions)
    assert ("wgmma" if arch == "sm_90" else "mma.sync") in instructions


@each_arch
def test_matmul_by_tensor_descriptors(arch: str) -> None:
    with sanitize.triton(arch) as session:
        a, b = on_gpu(128, 64, dtype=torch.float16), on_gpu(64, 64, dtype=torch.float16)
        c = programs.matmul_by_descriptors(a, b)
        torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-4, atol=1e-4)
        # the copies have written all of c
        assert torch.equal(programs.add(c, c), 2 * c)
    instructions = " ".join(session.launches[0].reports[0].instructions)
    assert ("cp.async.bulk.tensor" in instructions) == (arch == "sm_90")


@each_arch
def test_layer_norm_forward_and_backward_with_locks(arch: str) -> None:
    with sanitize.triton(arch):
        x, weight, bias = (on_gpu(*shape).requires_grad_() for shape in ((6, 200), (200,), (200,)))
        exact = [value.detach().double().requires_grad_() for value in (x, weight, bias)]
        out = programs.layer_norm(x, weight, bias, 1e-5)
        expected = torch.nn.functional.layer_norm(exact[0], (200,), exact[1], exact[2], 1e-5)
        torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=1e-5)
        seeds = on_gpu(6, 200)
        out.backward(seeds)
        expected.backward(seeds.double())
        for ours, theirs in zip((x, weight, bias), exact, strict=True):
            assert ours.grad.is_cuda
            torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-5, atol=1e-5)


def test_a_table_of_pointers() -> None:
    with sanitize.triton():
        rows = [on_gpu(128) for _ in range(3)]
        table = torch.tensor([row.data_ptr() for row in rows], device="cuda")
        out = torch.empty(384, device="cuda")
        programs.gather_rows[(3,)](table, out, BLOCK=128)
        assert torch.equal(out, torch.cat(rows))


def test_scalars_have_the_types_that_triton_gives_them() -> None:
    with sanitize.triton():
        out = torch.empty(8, device="cuda", dtype=torch.float64)
        programs.store_scalars[(1,)](out, 0.1, 2.5, 0.1, 0.1, -7, 65535, -(2**40), True)
        tenths = [float(np.array(0.1, dtype)) for dtype in (np.float16, np.float32, np.float64)]
        assert out.tolist() == [tenths[0], 2.5, tenths[1], tenths[2], -7, 65535, -(2**40), 1]


@pytest.mark.parametrize("columns", [64, 100, 128, 256])
def test_replicas_that_round_differently_are_no_error(columns: int) -> None:
    with sanitize.triton() as session:
        x = on_gpu(3, columns)
        torch.testing.assert_close(programs.sums_of_squares(x), x.square().sum(1))
        assert all(finding.level == "warning" for finding in session.findings)


@pytest.mark.parametrize("n", [16, 50, 64])
def test_replicas_may_load_what_one_of_them_stores(n: int) -> None:
    with sanitize.triton():
        x = on_gpu(n)
        expected = 2 * x
        programs.double_in_place_kernel[(1,)](x, n, BLOCK=64)
        assert torch.equal(x, expected)


def test_autotuning_runs_and_checks_every_configuration() -> None:
    with sanitize.triton() as session:
        x = on_gpu(1000)
        assert torch.equal(programs.negated(x), -x)
        assert torch.equal(programs.negated(x), -x)
    # three configurations, the best one, and the second call
    assert len(session.launches) == 5
    assert {launch.block[0] for launch in session.launches[:3]} == {32, 64, 128}


def test_autotuning_may_take_the_first_configuration() -> None:
    with sanitize.triton(autotune="first") as session:
        x = on_gpu(1000)
        assert torch.equal(programs.negated(x), -x)
    assert {launch.block[0] for launch in session.launches} == {32}


def test_each_context_benchmarks_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    tuned = triton.autotune(programs.tuned_negation.configs, key=["n"], cache_results=True)(programs.tuned_negation.fn)
    former = dict(vars(tuned))
    for arch in ("sm_90", "sm_80", "sm_90"):
        with sanitize.triton(arch) as session:
            x = on_gpu(1000)
            tuned[lambda values: (triton.cdiv(1000, values["BLOCK"]),)](x, torch.empty_like(x), 1000)
            # three configurations and the best one
            assert len(session.launches) == 4
            times = [launch.reports[0].thread_instructions / 1e6 for launch in session.launches[:3]]
            assert [timings[0] for timings in tuned.configs_timings.values()] == pytest.approx(times)
    # nothing is left for launches on a GPU
    assert not list(tmp_path.rglob("*.autotune.json"))
    assert {name: vars(tuned).get(name) for name in ("cache", "do_bench", "cache_results")} == {
        "cache": former["cache"], "do_bench": None, "cache_results": True
    }


def test_memory_is_unwritten_at_the_start_of_each_schedule() -> None:
    with sanitize.triton(on_finding="collect", schedules=3) as session:
        x = torch.empty(128, device="cuda")
        programs.add(x, x, x)
    (launch,) = session.launches
    assert [{finding.rule for finding in report.findings} for report in launch.reports] == [{"undefined"}] * 3


def test_a_storage_that_is_resized_counts_as_written() -> None:
    with sanitize.triton() as session:
        for is_placed in (False, True):
            x, ones = torch.empty(4, device="cuda"), torch.ones(4, device="cuda")
            if is_placed:
                x.data_ptr()
            x.untyped_storage().resize_(64)
            assert torch.equal(programs.add(ones, ones, x), 2 * ones)
            x.untyped_storage().resize_(32)
            x.fill_(3)
            assert torch.equal(programs.add(x, ones), 4 * ones)
    assert not session.findings


def refused(kind: type[Exception], program: Callable[[], object], arch: str = "sm_90") -> str:
    with sanitize.triton(arch) as session:
        with pytest.raises(kind) as caught:
            program()
        assert session.errors
    return str(caught.value)


@each_arch
def test_a_missing_mask_is_named_with_its_line_and_element(arch: str) -> None:
    def program() -> None:
        programs.copy_without_mask[(8,)](on_gpu(1000), on_gpu(1024), BLOCK=128)

    text = refused(tilejit.OutOfBoundsError, program, arch)
    assert "x_ptr+4000 bytes, element 1000 of float32[1000]" in text
    assert line_of("tl.store(out_ptr + offsets, tl.load(x_ptr + offsets))") in text


def test_uninitialized_memory_is_named() -> None:
    text = refused(
        tilejit.UninitializedReadError, lambda: programs.add(torch.empty(4, 32, device="cuda"), on_gpu(4, 32))
    )
    assert "reads 4 bytes at x_ptr+0 bytes, element [0, 0] of float32[4, 32], which nothing has written" in text
    assert line_of("x = tl.load(x_ptr + offsets, mask=inside)") in text


def test_bytes_that_the_host_or_a_kernel_wrote_are_initialized() -> None:
    def partly_written(fill: Callable[[Any], object], count: int) -> None:
        x = torch.empty(256, device="cuda")
        fill(x)
        programs.add(x, x, torch.empty(count, device="cuda"))

    def by_kernel(x: Any) -> None:
        programs.add(on_gpu(200), on_gpu(200), x[:200])

    def by_host(x: Any) -> None:
        x[:100].zero_()
        x[100:200].copy_(on_gpu(100))

    fills: tuple[Callable[[Any], object], ...] = (by_kernel, by_host)
    for fill in fills:
        with sanitize.triton() as session:
            partly_written(fill, 200)
            assert not session.findings
        text = refused(tilejit.UninitializedReadError, lambda fill=fill: partly_written(fill, 201))  # type: ignore[misc]
        assert "element 200 of float32[256]" in text


def test_a_race_is_named_with_both_parties() -> None:
    out = None

    def program() -> None:
        nonlocal out
        out = torch.empty(128, device="cuda", dtype=torch.int32)
        programs.all_store_to_one_place[(2,)](out, BLOCK=128)

    text = refused(tilejit.RaceError, program)
    line = line_of("tl.store(out_ptr + offsets, offsets + tl.program_id(0))")
    assert text.count(line) == 2
    assert "out_ptr+0 bytes, element 0 of int32[128]" in text and "CTA (0, 0, 0)" in text and "CTA (1, 0, 0)" in text


def test_findings_can_be_collected() -> None:
    with sanitize.triton(on_finding="collect") as session:
        programs.copy_without_mask[(8,)](on_gpu(1000), on_gpu(1024), BLOCK=128)
        programs.add(on_gpu(10), on_gpu(10))
    assert [len(launch.findings) for launch in session.launches] == [1, 0]
    assert session.errors == session.findings and session.findings[0].rule == "bounds"


def test_memory_that_the_program_freed_is_out_of_bounds() -> None:
    def program() -> None:
        row = on_gpu(128)
        table = torch.tensor([row.data_ptr()], device="cuda")
        del row
        programs.gather_rows[(1,)](table, torch.empty(128, device="cuda"), BLOCK=128)

    assert line_of("tl.load(source + offsets)") in refused(tilejit.OutOfBoundsError, program)


def test_a_launch_from_another_thread_says_what_to_write() -> None:
    def launch_in_thread(session: Any, enters: bool) -> list[Exception]:
        raised: list[Exception] = []

        def work() -> None:
            try:
                if enters:
                    with session.thread():
                        programs.add(x, x)
                else:
                    programs.add(x, x)
            except tilejit.LaunchError as error:
                raised.append(error)

        thread = threading.Thread(target=work, name="helper")
        thread.start()
        thread.join()
        return raised

    with sanitize.triton() as session:
        x = on_gpu(100)
        (error,) = launch_in_thread(session, False)
        assert "add_kernel is launched by the thread helper" in str(error)
        assert "with session.thread():" in str(error)
        assert not launch_in_thread(session, True)
        assert len(session.launches) == 1


def test_tensors_of_other_devices_are_refused() -> None:
    with sanitize.triton(), pytest.raises(tilejit.LaunchError, match="a tensor is on the device meta"):
        programs.add(torch.empty(8, device="meta"), on_gpu(8), on_gpu(8))


def test_other_versions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "installed", lambda: "3.12.1")
    with pytest.raises(tilejit.LaunchError) as caught:
        sanitize.triton()
    assert str(caught.value) == "Triton 3.12.1 is not supported\nhelp: install Triton 3.7, 3.8 or 3.9"


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions.util, "find_spec", lambda name: None if name == "triton" else object())
    with pytest.raises(tilejit.LaunchError, match="needs triton, which isn't installed"):
        sanitize.triton()


@pytest.mark.parametrize(
    ("option", "value"),
    [("arch", "sm_1"), ("on_finding", "ignore"), ("checks", "no"), ("schedules", 0), ("autotune", "none")],
)
def test_bad_options_are_refused(option: str, value: Any) -> None:
    with pytest.raises(tilejit.LaunchError, match=option):
        sanitize.triton(**{option: value})


def test_contexts_are_not_nested() -> None:
    with (
        sanitize.triton(),
        pytest.raises(tilejit.LaunchError, match="can't be nested"),
        sanitize.triton(),
    ):
        pass


def test_a_kernel_runs_again_in_another_context() -> None:
    for arch in (*ARCHS, *ARCHS):
        with sanitize.triton(arch) as session:
            x = on_gpu(64)
            assert torch.equal(programs.add(x, x), x + x)
            assert len(session.launches) == 1
    assert not torch.cuda.is_available() or torch.version.cuda


STORE = """
import torch
import triton
import triton.language as tl

@triton.jit
def store(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)

def main():
    store[(1,)](torch.zeros(100, device="cuda"), BLOCK=128)
"""


def test_a_kernel_that_is_cached_for_a_file_of_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("first.py", "second.py"):
        path = tmp_path / name
        path.write_text(STORE, encoding="utf-8")
        spec = importlib.util.spec_from_file_location("kernels", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        with sanitize.triton(on_finding="collect") as session:
            module.main()
        (finding,) = session.findings
        assert f"from {path}:8" in finding.message
    assert len(list((tmp_path / "cache").rglob("store.ptx"))) == 1


def test_clusters_of_two_ctas() -> None:
    with sanitize.triton("sm_90") as session:
        a, b = on_gpu(64, 64, dtype=torch.float16), on_gpu(64, 128, dtype=torch.float16)
        c = programs.matmul(a, b, (64, 64, 32), num_ctas=2)
        torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-4, atol=1e-4)
    assert session.launches[0].grid == (2, 2, 1)


def test_a_program_at_another_place_is_named_although_its_kernel_is_cached(tmp_path: Path) -> None:
    text = Path(programs.__file__).read_text(encoding="utf-8")
    for folder in ("first", "second"):
        file = tmp_path / folder / "moved.py"
        file.parent.mkdir()
        file.write_text(text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location("moved", file)
        assert spec is not None and spec.loader is not None
        moved = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(moved)

        def program(moved: Any = moved) -> None:
            moved.copy_without_mask[(8,)](on_gpu(1000), on_gpu(1024), BLOCK=128)

        assert f"{folder}/moved.py:" in refused(tilejit.OutOfBoundsError, program)
