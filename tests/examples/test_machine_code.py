"""The examples' kernels at the sizes that they are made for: no spills and no stack frame; few instructions."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

import tilejit as tj
from tests.support.example_sizes import EXAMPLES
from tests.support.ptxas import ptxas_path, usage

F16, F32 = tj.float16, tj.float32


def test_every_kernel_of_the_examples_has_a_size() -> None:
    sized = {example.kernel for example in EXAMPLES.values()}
    for path in sorted((Path(__file__).parents[2] / "examples").glob("*.py")):
        members = vars(import_module(f"examples.{path.stem}"))
        kernels = {name for name, value in members.items() if isinstance(value, tj.Kernel) and value not in sized}
        assert kernels == set(), path.stem


@pytest.mark.parametrize("name", EXAMPLES)
def test_nothing_is_spilled_and_there_is_no_stack_frame(name: str) -> None:
    if ptxas_path() is None:
        pytest.skip("no ptxas: install nvidia-cuda-nvcc")
    example = EXAMPLES[name]
    used = usage(example().ptx, example.target)
    assert (used.stack_frame, used.spill_stores, used.spill_loads) == (0, 0, 0), used


def test_ones_of_the_histogram_are_added_by_a_literal() -> None:
    added = re.findall(r"red\S*\.shared\S*\.add\S*\s+\[[^\]]*\], ([^;]+);", EXAMPLES["histogram"]().ptx)
    assert added and set(added) == {"1"}


@tj.kernel(threads=128)
def copied(X: tj.Tensor, Y: tj.Tensor):
    tj.cta.store(Y[0:4096], tj.cta.load(X[0:4096]))


@tj.kernel(threads=128)
def exponentials(X: tj.Tensor, Y: tj.Tensor):
    tj.cta.store(Y[0:4096], tj.exp(tj.cta.load(X[0:4096])))


@tj.kernel(threads=128)
def gelus(X: tj.Tensor, Y: tj.Tensor):
    tj.cta.store(Y[0:4096], tj.gelu(tj.cta.load(X[0:4096])))


def instructions_per_element(kernel: tj.Kernel, dtype: tj.DType) -> float:
    x = tj.spec((4096,), dtype)
    shown = kernel.explain(x, x, target="sm_90a")
    assert f"per {dtype} written" in str(shown) and "per byte" in str(shown)
    density = shown.density.per_element
    assert density is not None
    return density


@tj.kernel(threads=128)
def exponentials_inside(X: tj.Tensor, Y: tj.Tensor):
    x = tj.cta.load(tj.assume_in_bounds(X[0:4096]))
    tj.cta.store(tj.assume_in_bounds(Y[0:4096]), tj.exp(x))


@pytest.mark.parametrize(
    ("kernel", "dtype", "most"),
    [(exponentials_inside, F32, 14), (exponentials, F32, 16), (gelus, F16, 35)],
    ids=["exp", "exp at edges", "gelu"],
)
def test_a_function_takes_few_instructions_with_its_load_and_store(
    kernel: tj.Kernel, dtype: tj.DType, most: float
) -> None:
    assert instructions_per_element(kernel, dtype) <= most


def test_addresses_and_tests_of_edges_share_what_they_compute() -> None:
    """Of a copy's eight rounds: the address without its constant, and how far its edge lies ahead."""
    assert instructions_per_element(copied, F32) <= 3.25
    x = tj.spec((4096,), F32)
    ptx = copied.compile(x, x, target="sm_90a").ptx
    assert len(re.findall(r"sub\.s32", ptx)) == 2 and not re.findall(r"(or|add)\.[bs]32", ptx)
    loads, _ = ptx.split("st.global", 1)
    assert len(re.findall(r"add\.s64", loads)) == 2
