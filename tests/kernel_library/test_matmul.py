"""`tilejit.kernels.matmul` against float64: any shape, stride, batch and epilogue, in every order of its threads."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tilejit as tj
from tests.kernel_library.products import Array, check, drawn, inside
from tests.support.orders import Order, simulated
from tests.support.profiles import times
from tests.support.ptxas import ptxas_path, usage
from tilejit import kernels
from tilejit.kernels.heuristics import Problem, choose
from tilejit.runtime.simulated import SimulatedDevice, SimulatedFunction

F16, BF16 = tj.float16, tj.bfloat16

#: (m, n, k, K is contiguous in a, in b): by each kernel, with an odd and an even number of slices of K, over all edges
CASES = {
    "wide": (5, 44, 320, True, True),
    "wide, 2 warpgroups": (100, 136, 392, False, True),
    "wide, swapped": (150, 3, 136, True, False),
    "flex": (131, 264, 192, True, True),
    "flex, turned": (136, 132, 72, False, False),
    "plain": (66, 35, 75, True, False),
}


@pytest.fixture(params=["sim", pytest.param("cuda", marks=pytest.mark.gpu)])
def where(request: pytest.FixtureRequest) -> Any:
    with tj.use_device(request.param):
        yield request.param


@pytest.fixture
def on_simulator() -> Any:
    with tj.use_device("sim"):
        yield


def operands(name: str, dtype: tj.DType = F16) -> tuple[Array, Array]:
    m, n, k, a_by_k, b_by_k = CASES[name]
    pad = 1 if name == "plain" else 8
    a = inside(drawn(1, m, k), dtype, by_rows=a_by_k, pad=pad)
    return a, inside(drawn(2, k, n), dtype, by_rows=not b_by_k, pad=pad)


extents = st.one_of(st.integers(0, 17), st.sampled_from((31, 63, 64, 65, 127, 128, 129, 131, 192, 257)))


@settings(max_examples=times(0.2))
@given(
    m=extents, n=extents, k=extents, by_rows=st.tuples(st.booleans(), st.booleans()), pad=st.sampled_from((8, 8, 1)),
    dtype=st.sampled_from((F16, BF16)), out_dtype=st.sampled_from((None, "float16", "bfloat16", tj.float32)),
    activation=st.sampled_from((None, "relu", "gelu", "silu")), has_bias=st.booleans(), has_residual=st.booleans(),
    sms=st.sampled_from((4, 132)),
)
@example(129, 257, 65, (True, False), 8, F16, tj.float32, "silu", True, True, 4)
@example(3, 150, 130, (True, True), 8, BF16, None, "gelu", False, False, 132)
def test_every_shape_is_within_the_bound(
    m: int, n: int, k: int, by_rows: tuple[bool, bool], pad: int, dtype: tj.DType, out_dtype: Any, activation: Any,
    has_bias: bool, has_residual: bool, sms: int,
) -> None:
    a = inside(drawn(1, m, k), dtype, by_rows=by_rows[0], pad=pad)
    b = inside(drawn(2, k, n), dtype, by_rows=by_rows[1], pad=pad)
    bias = inside(drawn(3, 1, n), dtype)[0] if has_bias else None
    residual = inside(drawn(4, m, n), BF16) if has_residual else None
    with tj.use_device("sim"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(SimulatedDevice, "multiprocessors", sms)
        # the plans of another number of multiprocessors
        patch.setattr("tilejit.kernels.products._plans", {})
        c = kernels.matmul(a, b, bias=bias, activation=activation, residual=residual, out_dtype=out_dtype)
    assert c.dtype == (a.dtype if out_dtype is None else tj.empty(0, out_dtype, "sim").dtype.numpy)
    check(c, a, b, bias, activation, residual)


class Call:
    """A call with a bias, an activation and a residual, and memory for its result inside NaN: one variant per case."""

    def __init__(self, name: str) -> None:
        self.a, self.b = operands(name)
        m, n = self.a.shape[0], self.b.shape[1]
        self.bias, self.residual = drawn(3, n).astype(np.float32), inside(drawn(4, m, n), F16)
        self.out = inside(np.zeros((m, n)), F16)

    def run(self) -> Array:
        added = {"bias": self.bias, "activation": "relu", "residual": self.residual}
        assert kernels.matmul(self.a, self.b, out=self.out, **added) is self.out
        return self.out.copy()


@pytest.mark.parametrize("name", CASES)
def test_each_kernel_computes_all_epilogues_and_writes_inside_only(name: str, where: str) -> None:
    call = Call(name)
    whole = call.out.base
    assert whole is not None
    undefined = np.isnan(whole).sum()
    check(call.run(), call.a, call.b, call.bias, "relu", call.residual)
    assert np.isnan(whole).sum() == undefined


@pytest.mark.parametrize(
    ("name", "schedule", "delivery"), [*product(CASES, range(3), ("late", "early"))]
)
def test_the_bits_are_equal_in_every_order(name: str, schedule: int, delivery: str, on_simulator: None) -> None:
    """A finding, such as a race or a read of what isn't there yet, would be raised."""
    call = Call(name)
    wanted = call.run()
    with simulated(Order(schedule, delivery)):
        assert np.array_equal(call.run(), wanted)


@pytest.mark.parametrize("name", ["wide", "wide, 2 warpgroups", "flex", "flex, turned"])
def test_no_bank_conflicts(name: str, on_simulator: None, monkeypatch: pytest.MonkeyPatch) -> None:
    reports = []
    original = SimulatedFunction.simulate

    def profiled(function: Any, *args: Any, **how: Any) -> Any:
        reports.append(original(function, *args, **how | {"profile": True}))
        return reports[-1]

    monkeypatch.setattr(SimulatedFunction, "simulate", profiled)
    Call(name).run()
    assert [report.bank_conflicts for report in reports] == [0]


@pytest.mark.parametrize(
    ("a_shape", "b_shape"),
    [
        ((2, 3, 5, 16), (16, 8)), ((2, 1, 5, 16), (3, 16, 8)), ((3, 5, 16), (1, 16, 8)), ((0, 5, 16), (16, 8)),
        ((1, 5, 16), (7, 16, 8)), ((16, 130, 8), (16, 8, 136)),
    ],
)
def test_leading_dimensions_broadcast(a_shape: tuple[int, ...], b_shape: tuple[int, ...], where: str) -> None:
    a, b = inside(drawn(1, *a_shape), F16), inside(drawn(2, *b_shape), F16)
    residual = inside(drawn(3, *np.broadcast_shapes(a_shape[:-2], b_shape[:-2]), a_shape[-2], b_shape[-1]), F16)
    check(kernels.matmul(a, b, residual=residual), a, b, residual=residual)


def test_rows_of_a_batch_are_one_matrix_if_b_is(on_simulator: None, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    monkeypatch.setattr("tilejit.kernels.products._plans", {})
    monkeypatch.setattr("tilejit.kernels.products.choose", lambda p: sizes.append((p.batch, p.m)) or choose(p))
    a, b = drawn(1, 2, 3, 5, 16).astype(F16.numpy), drawn(2, 8, 16).astype(F16.numpy).T
    check(kernels.matmul(a, b), a, b)
    assert sizes == [(1, 30)]


def test_a_residual_is_updated_in_place(on_simulator: None) -> None:
    a, b = operands("flex")
    c = inside(drawn(4, a.shape[0], b.shape[1]), F16)
    residual = c.copy()
    kernels.matmul(a, b, residual=c, out=c)
    check(c, a, b, residual=residual)


def test_a_column_is_contiguous_along_k(on_simulator: None, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = []
    monkeypatch.setattr("tilejit.kernels.products._plans", {})
    monkeypatch.setattr("tilejit.kernels.products.choose", lambda p: chosen.append(choose(p)) or chosen[-1])
    a, b = drawn(1, 12, 64).astype(F16.numpy), drawn(2, 64, 1).astype(F16.numpy)
    check(kernels.matmul(a, b), a, b)
    assert [choice.kernel.name for choice in chosen] == ["wide"]


@tj.function
def squared(x: Any) -> Any:
    return x * x


def test_an_activation_is_a_function_of_a_tile(where: str) -> None:
    a, b = operands("plain")
    wanted = np.square(a.astype(np.float64) @ b.astype(np.float64))
    np.testing.assert_allclose(kernels.matmul(a, b, activation=squared, out_dtype=tj.float32), wanted, 1e-4, 1e-3)
    got = kernels.matmul(a, b, activation=kernels.gelu_tanh, out_dtype=tj.float32)
    x = a.astype(np.float64) @ b.astype(np.float64)
    wanted = x / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))
    assert (abs(got - wanted) <= 0.0005 + 0.0003 * abs(x) + 1e-4).all()


def test_other_targets_take_the_plain_kernel() -> None:
    a, b = operands("wide")
    with tj.use_device("sim:sm_80"):
        check(kernels.matmul(a, b, bias=b[0], activation="relu"), a, b, b[0], "relu")


def test_an_own_array_gives_an_own_array(where: str) -> None:
    a, b = (np.ascontiguousarray(x) for x in operands("plain"))
    c = kernels.matmul(tj.to_device(a), tj.to_device(b))
    assert isinstance(c, tj.DeviceArray)
    check(c.numpy(), a, b)


def spec(shape: tuple[int, int], dtype: tj.DType, by_rows: bool = True) -> tj.Spec:
    return tj.spec(shape, dtype, strides=None if by_rows else (1, shape[0]))


@pytest.mark.parametrize(
    ("m", "n", "k", "by_k", "dtype", "activation"),
    [
        (1, 4096, 4096, (True, True), F16, None), (4096, 4096, 4096, (True, True), F16, "gelu"),
        (64, 28672, 4096, (True, True), BF16, "silu"), (128, 28672, 4096, (True, True), F16, "gelu"),
        (256, 4096, 14336, (True, True), F16, None), (16384, 104, 4096, (True, False), F16, "silu"),
        (4096, 4100, 512, (False, True), BF16, "silu"), (16384, 16, 72, (False, False), BF16, "relu"),
    ],
)
def test_nothing_is_spilled(
    m: int, n: int, k: int, by_k: tuple[bool, bool], dtype: tj.DType, activation: str | None
) -> None:
    """On an H100, with and without an epilogue."""
    if ptxas_path() is None:
        pytest.skip("no ptxas: install nvidia-cuda-nvcc")
    is_added = activation is not None
    function = getattr(tj, activation) if activation is not None else None
    problem = Problem(1, m, n, k, *by_k, True, n % 8 == 0, out_bytes=2, bias_bytes=4 * is_added, sms=132)
    choice = choose(problem)
    constexprs = {**choice.constexprs, "activation": function}
    compiled = choice.kernel.compile(
        spec((m, k), dtype, by_k[0]), spec((k, n), dtype, not by_k[1]), spec((m, n), dtype),
        tj.spec(n, tj.float32) if is_added else None, spec((m, n), dtype) if is_added else None,
        target="sm_90a", threads=choice.threads, **constexprs,
    )
    used = usage(compiled.ptx, "sm_90a")
    assert (used.stack_frame, used.spill_stores, used.spill_loads) == (0, 0, 0), used


def test_tiles_fill_whole_waves() -> None:
    def chosen(m: int, n: int, k: int = 4096, batch: int = 1) -> tuple[str, int, int]:
        choice = choose(Problem(batch, m, n, k, *[True] * 4, out_bytes=2, bias_bytes=0, sms=132))
        return choice.kernel.name, choice.grid, choice.constexprs["BN"]

    assert chosen(1, 4096) == ("wide", 128, 32) and chosen(64, 28672) == ("wide", 128, 224)
    assert chosen(4096, 1) == ("wide", 128, 32) and chosen(100, 8, batch=33) == ("wide", 132, 32)
    assert chosen(256, 4096) == ("flex", 128, 64) and chosen(4096, 4096) == ("flex", 128, 256)
    assert chosen(129, 129, batch=100) == ("flex", 100, 160)
