"""What is remembered is what would be computed, for as many objects as there are."""

from __future__ import annotations

import gc

import pytest

import tilejit as tj
from tilejit import remember
from tilejit.dtypes import int32
from tilejit.ir.arithmetic import build
from tilejit.ir.arithmetic.intern import operation
from tilejit.ir.nodes import Op, Var
from tilejit.remember import LIMIT, forget, lasting, remembered, remembered_pair

X, Y = Var("i", int32), Var("j", int32)


def test_a_function_computes_each_objects_result_once() -> None:
    calls: list[object] = []

    @remembered
    def named(var: Var) -> str:
        calls.append(var)
        return var.name

    assert [named(X), named(Y), named(X)] == ["i", "j", "i"]
    assert calls == [X, Y]


def test_a_function_of_two_objects_tells_their_order_apart() -> None:
    @remembered_pair
    def joined(a: Var, b: Var) -> str:
        return a.name + b.name

    assert [joined(X, Y), joined(Y, X), joined(X, Y)] == ["ij", "ji", "ij"]


def test_more_objects_than_are_kept_get_their_own_results() -> None:
    @remembered
    def named(var: Var) -> str:
        return var.name

    # each goes away once its entry does, so that its identity may come back
    assert [named(Var(f"v{n}", int32)) for n in range(2 * LIMIT)] == [f"v{n}" for n in range(2 * LIMIT)]


def test_equal_operations_on_the_same_arguments_are_one_object() -> None:
    assert operation("add", (X, Y), int32) is operation("add", (X, Y), int32)
    assert operation("add", (X, Y), int32) == Op("add", (X, Y), int32) != operation("add", (Y, X), int32)
    assert build.add(build.mul(X, 4), Y) is build.add(build.mul(X, 4), Y)


def test_what_is_remembered_of_kernels_is_forgotten_and_the_rest_lasts() -> None:
    calls: list[tuple[str, object]] = []

    @remembered
    def of_a_kernel(var: Var) -> str:
        calls.append(("kernel", var))
        return var.name

    @lasting
    def of_a_layout(var: Var) -> str:
        calls.append(("layout", var))
        return var.name

    for _ in range(2):
        assert of_a_kernel(X) == of_a_layout(X) == "i"
    forget()
    assert of_a_kernel(X) == of_a_layout(X) == "i"
    assert calls == [("kernel", X), ("layout", X), ("kernel", X)]


@tj.kernel(threads=32)
def double(A: tj.Tensor):
    tj.cta.store(A[0:32], tj.cta.load(A[0:32]) * 2)


def test_a_compilation_keeps_none_of_its_expressions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_CACHE", "0")
    double.compile(tj.spec(32, tj.float32), target="sm_90a")
    assert len(remember._tables) > 20 and not any(remember._tables)
    assert gc.isenabled()
