"""The examples: each checks itself, on the simulator in several orders of threads and of deliveries, and on a GPU.

Sizes are one element, primes, whole tiles, and one more or less than that; the early examples, of tiles with layouts,
have one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilejit as tj
from examples import attention_small, embedding, matmul_small, scan, transpose
from tests.support.orders import EVERY_ORDER, FEW_ORDERS, Order, simulated
from tilejit.frontend.containers import is_container, items_of
from tilejit.jit import Launcher
from tilejit.runtime.simulated import SimulatedFunction

F16, BF16, F32 = tj.float16, tj.bfloat16, tj.float32

#: example -> the arguments of its `check`
CASES: dict[str, list[tuple[Any, ...]]] = {
    "vector_add": [(1,), (1024,), (1023,), (10_007,)],
    "softmax": [(1, 1), (3, 997, F16), (2, 256, BF16), (2, 1025), (2, 40_009, F16)],
    "layernorm": [(1, 1), (5, 509, F16, 2), (7, 1000, F32, 3), (33, 64, BF16, 33)],
    "rmsnorm": [(1, 1), (5, 509, F16, 2), (7, 1000, F32, 3), (33, 64, BF16, 33)],
    "bias_gelu": [(1, 1), (3, 1021, BF16), (4, 2048), (5, 2049, F32)],
    "dropout": [(1,), (2048,), (10_007, BF16, 0.5), (2049, F16, 0.1)],
    "transpose": [(1, 1), (128, 64), (131, 67, F16), (129, 128, F16), (5, 300, BF16)],
    "matmul_small": [(1, 1, 1), (64, 64, 32), (101, 67, 131, BF16), (130, 72, 40)],
    "matmul_float32": [(1, 1, 1), (128, 128, 16), (131, 67, 83), (40, 261, 64, "tf32"), (17, 9, 30, "ieee")],
    "reduce": [(1, 1), (64, 128), (131, 1009), (65, 300, 2, 5)],
    "cross_entropy": [(1, 1), (3, 1009, F16), (2, 8192), (2, 40_009, BF16)],
    "embedding": [(1, 1, 1), (20, 7, 256, F32), (13, 100, 509, BF16)],
    "quantize": [
        (1, 1), (5, 1024), (3, 997, tj.int8, BF16), (3, 509, tj.float8_e4m3fn), (2, 256, tj.float8_e5m2, F32),
    ],
    "scan": [(1,), (16_384,), (40_009,), (40_009, 512, 128, 2)],
    "sort": [(1, 1), (300, 1), (1009, 2), (2609, 1)],
    "top_k": [
        (1, 1, 1, 0, 64), (1, 5, 5, 3, 64), (2, 4099, 64, 0, 64), (2, 700, 3, 4, 256, 1),
        (1, 2048, 130, 0, 64, 4, 1, 256), (2, 2051, 64, 60, 64, 1, 2, 64),
    ],
    "int4_weights": [(1, 1, 64), (7, 100, 192), (65, 64, 128)],
    "histogram": [(1,), (16,), (8192, 1), (30_011, 3)],
    "autotune": [(1, 1), (37, 300), (64, 130)],
    "attention_small": [
        (1, 1, 1, 64, True), (2, 64, 64, 64, False), (1, 101, 131, 64, True, BF16), (1, 67, 31, 32, False),
        (1, 45, 67, 40, True), (1, 33, 33, 13, False, BF16), (1, 5, 40, 1, True),
    ],
    "attention": [
        ((1, 2, 200, 3), 170, 1, 128, False), ((1, 2, 150, 2), 300, 2, 64, True, BF16),
        ((2, 1, 70, 2), 40, 1, 64, True), ((1, 1, 70, 1), 300, 1, 128, False, F16, 8.0),
        ((1, 1, 64, 1), 300, 1, 64, True, F16, 8.0), ((3, 1, 10, 1), 90, 1, 64, False),
    ],
    "tuples": [([(1,)],), ([(64, 129), (), (7,), (3, 5, 7, 11)],), ([(1021, 4), (2, 1021)], 512, BF16)],
    "pipeline": [(1,), (100,), (160,)],
    "gemm_hopper": [(8, 8, 16), (130, 264, 72), (72, 136, 200)],
    "distributed": [(1, 8, 8, 1), (33, 40, 64), (7, 24, 48, 3, BF16)],
}

#: examples whose `main` checks all
EARLY = (
    "copy_global_shared", "copy_registers", "copy_tma", "elementwise_registers", "matmul", "quickstart",
    "tensor_memory",
)

EACH_CASE = [
    pytest.param(name, case, id="-".join(map(str, (name, *case)))) for name, cases in CASES.items() for case in cases
]
EACH_CASE += [pytest.param(name, None, id=name) for name in EARLY]


def test_every_example_is_here() -> None:
    files = (Path(__file__).parents[2] / "examples").glob("*.py")
    assert {file.stem for file in files} == {*CASES, *EARLY}


def check(name: str, case: tuple[Any, ...] | None) -> None:
    example = import_module(f"examples.{name}")
    if case is None:
        example.main()
    else:
        example.check(*case)


#: adds float32 values by atomics, in any order; its integers are exact
ANY_ORDER = {"embedding"}


def leaves(value: Any) -> list[Any]:
    """The arguments in a container, and in those that it contains."""
    return [leaf for item in items_of(value) for leaf in leaves(item)] if is_container(value) else [value]


def left_by_launches(name: str, case: tuple[Any, ...] | None, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Run an example's check; the bits of all arrays of its launches, after each."""
    bits: list[bytes] = []
    launch = Launcher.__call__

    def noted(launcher: Launcher, *args: Any, **constexprs: Any) -> None:
        launch(launcher, *args, **constexprs)
        bits.extend(arg.tobytes() for arg in leaves(args) if isinstance(arg, np.ndarray))

    with monkeypatch.context() as patched:
        patched.setattr(Launcher, "__call__", noted)
        check(name, case)
    assert bits, f"{name} launches nothing"
    return bits


def in_any_order(run: Callable[[], list[bytes]], orders: Sequence[Order] = FEW_ORDERS) -> list[list[bytes]]:
    """What is left by launches on the simulator, with all checks, in each order of threads and of what lands."""
    results: list[list[bytes]] = []
    for order in orders:
        with simulated(order), tj.use_device("sim"):
            results.append(run())
    return results


def is_the_same(name: str, case: tuple[Any, ...] | None, orders: Sequence[Order], patch: pytest.MonkeyPatch) -> None:
    """Fails where an order gives a wrong result, or other bits than the first."""
    first, *others = in_any_order(lambda: left_by_launches(name, case, patch), orders)
    assert name in ANY_ORDER or all(bits == first for bits in others), "another order of threads gives other bits"


#: each case in one order: the sizes of an example go through the orders
IN_ONE_ORDER = [
    pytest.param(*case.values, FEW_ORDERS[k % len(FEW_ORDERS)], id=case.id) for k, case in enumerate(EACH_CASE)
]


@pytest.mark.parametrize(("name", "case", "order"), IN_ONE_ORDER)
def test_results_are_right_in_one_order_of_threads(
    name: str, case: tuple[Any, ...] | None, order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_any_order(lambda: left_by_launches(name, case, monkeypatch), [order])


@pytest.mark.long
@pytest.mark.parametrize(("name", "case"), EACH_CASE)
def test_results_are_the_same_bits_whenever_operations_land(
    name: str, case: tuple[Any, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_the_same(name, case, EVERY_ORDER, monkeypatch)


def added_rows() -> list[bytes]:
    """The gradient of an embedding of which all values are small integers."""
    random = np.random.default_rng(0)
    dy, tokens = random.integers(-9, 10, (40, 300)).astype(np.float32), random.integers(0, 7, 40)
    dtable, expected = np.zeros((7, 300), np.float32), np.zeros((7, 300), np.float32)
    embedding.embedding_backward[tj.cdiv(40, embedding.TOKENS)](dy, tokens, dtable, N=300)
    np.add.at(expected, tokens, dy)
    np.testing.assert_array_equal(dtable, expected)
    return [dtable.tobytes()]


def test_integers_that_atomics_add_are_the_same_bits_in_any_order() -> None:
    first, *others = in_any_order(added_rows, EVERY_ORDER)
    assert all(bits == first for bits in others)


def test_sums_are_the_same_bits_however_far_warps_look_back() -> None:
    x = np.random.default_rng(0).standard_normal(20_011, np.float32)
    blocks, results = tj.cdiv(len(x), 256), []
    with tj.use_device("sim"):
        for groups in (1, 3):
            y = np.full_like(x, np.nan)
            scan.inclusive_sum[(blocks,), 64](x, y, np.zeros(blocks, np.uint64), BLOCK=256, GROUPS=groups)
            results.append(y)
    np.testing.assert_allclose(results[0], np.cumsum(x, dtype=np.float64), rtol=1e-5, atol=1e-3)
    assert results[0].tobytes() == results[1].tobytes()


#: `tensor_memory` asks for a simulated sm_100a, whatever there is
ON_A_GPU = [name for name in (*CASES, *EARLY) if name != "tensor_memory"]


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "case"), [case for case in EACH_CASE if case.values[0] in ON_A_GPU])
def test_results_are_right_on_a_gpu(name: str, case: tuple[Any, ...] | None) -> None:
    with tj.use_device("cuda"):
        check(name, case)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ON_A_GPU)
def test_a_hundred_launches_give_the_same_bits_on_a_gpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with tj.use_device("cuda"):
        if name in ANY_ORDER:
            results = [added_rows() for _ in range(100)]
        else:
            case = CASES[name][:3][-1] if name in CASES else None
            results = [left_by_launches(name, case, monkeypatch) for _ in range(100)]
    differing = [k for k, bits in enumerate(results) if bits != results[0]]
    assert not differing, f"{name}: of 100 launches {differing} give other bits than the first"


@pytest.mark.parametrize("name", CASES)
def test_an_example_runs_and_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with tj.use_device("sim"):
        import_module(f"examples.{name}").main()
    said = capsys.readouterr().out
    assert "right" in said and "instructions per thread" in said


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_result_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where launches do nothing, the check fails."""
    monkeypatch.setattr(SimulatedFunction, "simulate", lambda *args, **options: None)
    monkeypatch.setenv("TILEJIT_AUTOTUNE", "off")
    with tj.use_device("sim"), pytest.raises(AssertionError):
        import_module(f"examples.{name}").check(*CASES[name][1])


@pytest.mark.parametrize("tile", [(48, 40, 24), (17, 9, 20), (1, 64, 32), (64, 1, 16), (80, 24, 1)], ids=str)
def test_a_product_in_tiles_of_any_size_is_right(
    tile: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, extent in zip(("BM", "BN", "BK"), tile, strict=True):
        monkeypatch.setattr(matmul_small, name, extent)
    with tj.use_device("sim"):
        matmul_small.check(101, 67, 50)


@pytest.mark.parametrize("block", [(16, 20), (48, 24), (1, 32), (20, 1)], ids=str)
def test_attention_in_blocks_of_any_size_is_right(
    block: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, extent in zip(("BM", "BN"), block, strict=True):
        monkeypatch.setattr(attention_small, name, extent)
    with tj.use_device("sim"):
        attention_small.check(1, 37, 45, 40, True)


@pytest.mark.parametrize("dtype", [F32, F16])
def test_transposing_has_no_bank_conflicts(dtype: tj.DType) -> None:
    transpose.profile(dtype)
