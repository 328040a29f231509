"""Equal operations reuse the code of the first of them: the same lane IR, for less work."""

from __future__ import annotations

from typing import Any

import pytest

import tilejit as tj
from tilejit import remember
from tilejit.compiled import Compiled
from tilejit.dtypes import float32
from tilejit.ir import nodes as ir
from tilejit.ir.combine import Combine
from tilejit.lower import engine, lowering
from tilejit.lower.builder import Builder


@tj.kernel(threads=64)
def chained(X: tj.Tensor, Y: tj.Tensor, TURNS: tj.constexpr):
    x = tj.cta.load(X[0:8, 0:32])
    s = tj.sum(x, axis=1)
    y = x * 0.0 + x
    for k in tj.static_range(TURNS):
        y = y + x
        y = y * -0.0
        y = tj.exp(y - s[:, None])
        y = y + tj.float32(k % 2)
        y = x - y
        y = y - y
    t = tj.sum(y, axis=1)
    y = y / t[:, None] + tj.max(y)
    tj.cta.store(Y[0:8, 0:32], y)


@tj.kernel(threads=64)
def staged(X: tj.Tensor, Y: tj.Tensor, TURNS: tj.constexpr):
    s = tj.alloc_shared((2, 8, 32), tj.float32)
    x = tj.cta.load(X[0:8, 0:32])
    i = tj.cta.indices((8, 32), 1)
    for n in range(X.shape[0]):
        stage = n % 2
        for k in tj.static_range(TURNS):
            tj.cta.store(s[stage], x)
            tj.cta_sync()
            x += tj.cta.load(s[stage])
            y = tj.cta.load(s[stage], mask=i < n + k)
            tj.cta_sync()
            if n > k:
                tj.cta.store(s[stage], y, mask=i < n + k)
            else:
                tj.cta.store(s[stage], y + x, mask=i < n + k)
            tj.cta_sync()
            x -= tj.cta.load(s[1 - stage])
            tj.cta.fill(s[stage], 0.0)
            tj.cta_sync()
    tj.cta.store(Y[0:8, 0:32], x)


def compiled(debug: bool = False, turns: int = 3, kernel: tj.Kernel = chained) -> Compiled:
    array = tj.spec((8, 32), tj.float32)
    return tj.kernel(threads=64, debug=debug)(kernel.__wrapped__).compile(array, array, turns, target="sm_90a")


@pytest.mark.parametrize("kernel", [chained, staged], ids=["registers", "shared memory"])
@pytest.mark.parametrize("debug", [False, True])
def test_it_is_what_each_alone_would_be(kernel: tj.Kernel, debug: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    made = compiled(debug, kernel=kernel)
    monkeypatch.setattr(lowering, "reuse_key", lambda op, b: None)
    alone = compiled(debug, kernel=kernel)
    assert made.lane_ir == alone.lane_ir
    assert made.ptx == alone.ptx
    assert str(made.explain()) == str(alone.explain())
    assert [(v.op, v.variant, v.declines) for v in made.verdicts] == [
        (v.op, v.variant, v.declines) for v in alone.verdicts
    ]
    assert [v.plan for v in made.verdicts] == [v.plan for v in alone.verdicts]


@pytest.mark.parametrize("turns", [3, 12])
def test_each_kind_of_operation_is_dispatched_once(turns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured: 16 of 30 operations, and 16 of 93."""
    dispatched: list[str] = []

    def counted(op: Any, *arguments: Any) -> Any:
        dispatched.append(op.name)
        return engine.dispatch(op, *arguments)

    monkeypatch.setattr(lowering, "dispatch", counted)
    assert len(compiled(turns=turns).verdicts) >= 6 * turns
    assert len(dispatched) < 20, dispatched


def test_functions_that_differ_in_the_sign_of_a_zero_are_not_equal() -> None:
    x, y = ir.Var("x", float32), ir.Var("y", float32)
    functions = [
        Combine((x,), (y,), (), (ir.Op("add", (x, ir.Const(zero, float32)), float32),)) for zero in (0.0, -0.0, 0.0)
    ]
    assert functions[0] == functions[2] != functions[1]
    one, other, again = (
        lowering.reuse_key(ir.TileOp("reduce", "cta", (), (("combine", function),)), Builder())
        for function in functions
    )
    assert one == again != other


def test_code_does_not_depend_on_what_was_remembered_before() -> None:
    """Tables that are nearly full would be cleared during the compilation, and equal expressions would be two."""
    expected = compiled(kernel=staged)
    for count in range(remember.LIMIT - 256, remember.LIMIT, 32):
        for table in remember._tables:
            table.update({(-k, -k): (None, None, None) for k in range(1, count)})
        assert compiled(kernel=staged).lane_ir == expected.lane_ir
