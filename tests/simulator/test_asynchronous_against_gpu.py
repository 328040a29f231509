"""Tests of asynchronous operations and of clusters whose expected values a GPU gives, too."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simulator import (
    small_kernels,
    test_asynchronous_stores,
    test_bulk_reductions,
    test_copy_arrivals,
    test_far_accesses,
)

pytestmark = pytest.mark.gpu
OUTER = [(op, t) for t, (_, ops) in test_bulk_reductions.OUTER.items() for op in ops.split()]
INNER = [(op, t) for t, ops in test_bulk_reductions.INNER.items() for op in ops.split()]


@pytest.fixture(autouse=True)
def on_the_gpu(gpu, monkeypatch):
    """Let the tests' programs run on a GPU, as its compute capability allows."""

    def run(text, entry, grid, block, args, **options):
        arrays = [np.asarray(x.memory) for x in args]
        gpu(text.replace(".target sm_100a", ".target sm_90a"), arrays, grid[0], block[0])

    for module in (small_kernels, test_asynchronous_stores, test_bulk_reductions, test_far_accesses):
        monkeypatch.setattr(module, "run", run)


@pytest.mark.parametrize(("op", "t"), OUTER)
def test_reductions_in_global_memory(op, t):
    test_bulk_reductions.test_reductions_in_global_memory(op, t, {})


@pytest.mark.parametrize(("op", "t"), INNER)
def test_reductions_in_another_cta(op, t):
    test_bulk_reductions.test_a_reduction_in_another_cta(op, t, {})
    test_asynchronous_stores.test_reductions(op, t, {})


@pytest.mark.parametrize("t", ["b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"])
def test_remote_stores(t):
    for count in (1, 2, 4) if t[1:] == "32" else (1, 2):
        test_asynchronous_stores.test_stores(t, count, {})


def test_copies_to_other_ctas():
    test_bulk_reductions.test_a_copy_to_another_cta({})
    for mask in (1, 2, 3):
        test_bulk_reductions.test_a_multicast_copy(mask, {})


@pytest.mark.parametrize("arrive", [test_copy_arrivals.NOINC, test_copy_arrivals.COUNTED])
def test_arrivals_of_copies(arrive):
    test_copy_arrivals.test_a_wait_finds_the_copies(arrive, {})
    test_copy_arrivals.test_two_stages_in_turn({})


@pytest.mark.parametrize("way", test_far_accesses.WAYS)
def test_accesses_to_other_ctas(way):
    test_far_accesses.test_a_permutation_of_a_clusters_words((2, 1, 1), way, 0, True)
    test_far_accesses.test_atomics_on_other_ctas(way, 0)
    test_far_accesses.test_windows_of_the_own_and_of_any_cta()
