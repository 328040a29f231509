"""`tj.fast`: the hardware's approximations are within the bounds of their records, on the simulator and on a GPU."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit as tj
from tests.reference.functions import double
from tilejit.errors import KernelTypeError
from tilejit.ops.elementwise import ELEMENTWISE
from tilejit.runtime.device import Device

FAST = {name: op.approximation for name, op in ELEMENTWISE.items() if op.approximation is not None}


def kernel(name: str) -> tj.Kernel:
    """The function of each element, on tiles of 1024."""
    fast = getattr(tj.fast, name.removeprefix("fast_"))

    @tj.kernel(threads=128)
    def unary(X: tj.Tensor, Y: tj.Tensor, Z: tj.Tensor):
        i = tj.cta_id(0)
        tj.cta.store(Z.tile((1024,), (i,)), fast(tj.cta.load(Y.tile((1024,), (i,)))))

    @tj.kernel(threads=128)
    def binary(X: tj.Tensor, Y: tj.Tensor, Z: tj.Tensor):
        i = tj.cta_id(0)
        x, y = tj.cta.load(X.tile((1024,), (i,))), tj.cta.load(Y.tile((1024,), (i,)))
        tj.cta.store(Z.tile((1024,), (i,)), fast(x, y))

    return unary if ELEMENTWISE[name].arity == 1 else binary


def arguments(name: str, count: int, dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """Numbers around 1, and those of the domain: positive ones of all sizes where it has all of them."""
    low, high = FAST[name].domain
    rng = np.random.default_rng(count)
    if low > 0:
        drawn = np.exp2(rng.uniform(np.log2(low) + 1, np.log2(high) - 1, count // 2))
    else:
        drawn = rng.uniform(low, high, count // 2)
    y = np.concatenate([drawn, rng.uniform(max(low, -2), min(high, 2), count // 2)])
    return rng.normal(size=count).astype(dtype), y.astype(dtype)


@pytest.mark.parametrize("name", FAST)
def test_an_approximation_errs_by_no_more_than_its_record_says(name: str, device: Device) -> None:
    count = 1 << (20 if device.name.startswith("cuda") else 12)
    x, y = arguments(name, count, np.float32)
    z = np.zeros_like(y)
    with tj.use_device(device.name):
        kernel(name)[count // 1024](x, y, z)
    operands = (y,) if ELEMENTWISE[name].arity == 1 else (x, y)
    true = double(name, *operands)
    excess = np.abs(z - true) / FAST[name].error(true, y.astype(np.float64))
    worst = int(np.argmax(excess))
    assert excess[worst] <= 1, f"{name}({y[worst]!r}) is {z[worst]!r}, {excess[worst]:.3g} times what it may err"


@pytest.mark.parametrize("name", FAST)
def test_halves_are_approximated_in_float32_and_rounded_once(name: str) -> None:
    x, y = arguments(name, 1024, np.float32)
    inside = np.abs(y) < 11
    x, y = np.where(inside, x, 1).astype(np.float16), np.where(inside & (np.abs(y) > 0.01), y, 1).astype(np.float16)
    halves, single = np.zeros_like(y), np.zeros(1024, np.float32)
    with tj.use_device("sim"):
        kernel(name)[1](x, y, halves)
        kernel(name)[1](x.astype(np.float32), y.astype(np.float32), single)
    np.testing.assert_array_equal(halves, single.astype(np.float16))


@pytest.mark.parametrize("name", FAST)
def test_an_approximation_is_one_instruction_of_the_machine_and_a_product(name: str) -> None:
    array = tj.spec((1024,), tj.float32)
    ptx = kernel(name).compile(array, array, array, target="sm_90a").ptx
    approximate = [line for line in ptx.splitlines() if ".approx" in line]
    assert len(approximate) == 8
    products = sum("mul.rn.f32" in line for line in ptx.splitlines())
    assert products == (8 if name in ("fast_exp", "fast_log") else 0)


def test_float64_is_refused() -> None:
    @tj.kernel
    def of_double(X: tj.Tensor):
        X[0] = tj.fast.exp(X[0])

    with pytest.raises(KernelTypeError, match="fast_exp of float64: the hardware approximates float32 only"):
        of_double.compile(tj.spec((1,), tj.float64), target="sm_90a")
