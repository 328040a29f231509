"""The records of scopes agree with the hardware's nesting, and with all their readers."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit as tj
from tests.support.programs import array, statements, tile_ir
from tilejit.ir import nodes as ir
from tilejit.ir.text.parser import from_text
from tilejit.ir.text.printer import to_text
from tilejit.isa.barriers import BARRIERS
from tilejit.layout import Axis
from tilejit.scopes import CTA, LEVELS, SCOPES, THREAD, THREAD_IDS, WARP, WARPGROUP, Scope

EVERY = pytest.mark.parametrize("scope", SCOPES.values(), ids=str)


def test_scopes_nest() -> None:
    assert [s.level for s in LEVELS.values()] == list(range(len(LEVELS)))
    sizes = [s.threads(1024) for s in SCOPES.values()]
    assert sizes == [1, 32, 128, 1024]
    assert all(larger % smaller == 0 for smaller, larger in zip(sizes, sizes[1:], strict=False))


def test_steps_along_thread_axes_are_those_of_the_hardware() -> None:
    assert THREAD.steps == {}
    assert WARP.steps == {"laneid": 1}
    assert WARPGROUP.steps == {"laneid": 1, "wid_in_wg": 32, "tid_in_wg": 1}
    assert CTA.steps == {"laneid": 1, "wid_in_wg": 32, "tid_in_wg": 1, "warpid": 32, "wgid": 128, "tx": 1}


def test_every_axis_of_a_scope_is_a_thread_axis_that_counts_within_it() -> None:
    for scope in LEVELS.values():
        for name, unit in scope.axes.items():
            axis = Axis(name)
            assert axis.is_thread and (axis.unit, axis.within) == (unit, scope.name)


@EVERY
def test_the_ids_of_a_scope_number_its_threads_and_its_instances(scope: Scope) -> None:
    threads = np.arange(384)
    size = scope.threads(384)
    if scope.thread_id is not None:
        np.testing.assert_array_equal(scope.thread_id.of(threads), threads % size)
        assert scope.thread_id.greatest == scope.threads(1024) - 1
    if scope.number_id is not None:
        np.testing.assert_array_equal(scope.number_id.of(threads), threads // size)
        assert scope.number_id.greatest == 1024 // size - 1


def test_every_thread_id_is_a_special_value() -> None:
    for name, number in THREAD_IDS.items():
        assert ir.SPECIALS[name].greatest == number.greatest


@pytest.mark.parametrize("threads", [1, 32, 48, 128, 200, 1024])
def test_what_is_left_over_is_less_than_an_instance(threads: int) -> None:
    for scope in SCOPES.values():
        assert scope.left_over(threads) == threads % scope.threads(threads)
    assert CTA.left_over(threads) == THREAD.left_over(threads) == 0


def test_every_barrier_is_a_call_and_a_statement() -> None:
    for scope in BARRIERS:
        kernel = tile_ir(f"def k(A):\n    tj.{scope}_sync()\n", array(), threads=128)
        (sync,) = statements(kernel.body, ir.Sync)
        assert sync.scope == scope.name and BARRIERS[scope].scope is scope
        assert getattr(tj, f"{scope}_sync").meaning
        assert from_text(to_text(kernel)) == kernel
