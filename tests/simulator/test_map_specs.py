"""Boxes by any maps: longhand, the simulator, the driver's encoder and the hardware say the same."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.simulator.map_specs import BEFORE, ELEMENTS, MEMORY, OTHER, SHOWN, WIDTH, Spec, drawn, program
from tests.simulator.small_kernels import aligned
from tilejit.dtypes import DTYPES
from tilejit.errors import LaunchError
from tilejit.ir.params import TensorMapSpec
from tilejit.runtime.tensor_maps import MappedArray
from tilejit.simulator.machine.tensor_map import MapShape

Array = np.ndarray

SPECS = 10_000
FEW = 60


@pytest.fixture(scope="module")
def memory() -> Array:
    return aligned(np.random.default_rng(0).integers(0, 256, MEMORY, dtype=np.uint8))


def differing(spec: Spec, memory: Array, got: tuple[Array, Array]) -> list[str]:
    """What of (shared memory, second tensor) isn't as it should be. Between short rows anything may lie."""
    wanted = spec.left(memory)
    whole = spec.box[0] * spec.size >= WIDTH[spec.swizzle]
    where = [np.ones(SHOWN, bool) if whole else wanted[0] != BEFORE, np.ones(MEMORY, bool)]
    pairs = zip(("shared memory", "the second tensor"), got, wanted, where, strict=True)
    return [f"{name}: {int((g != w)[at].sum())} bytes" for name, g, w, at in pairs if (g != w)[at].any()]


def test_the_drawn_boxes_hang_over_every_edge() -> None:
    over = {(d, side): 0 for d in range(5) for side in ("before", "after")}
    for spec in map(drawn, range(500)):
        for d, (at, extent, dim) in enumerate(zip(spec.at, spec.box, spec.dims, strict=True)):
            over[d, "before"] += at < 0 < at + extent
            over[d, "after"] += at < dim < at + extent
    assert min(over.values()) > 10, over


def agrees(numbers: range, memory: Array) -> None:
    for number in numbers:
        assert not (wrong := differing(drawn(number), memory, drawn(number).simulated(memory))), (number, wrong)


def test_the_simulator_moves_boxes_as_the_isa_says(memory: Array) -> None:
    agrees(range(FEW), memory)


@pytest.mark.long
@pytest.mark.parametrize("start", range(0, SPECS, 1000))
def test_the_simulator_moves_any_box_as_the_isa_says(memory: Array, start: int) -> None:
    agrees(range(start, start + 1000), memory)


def encoded(shape: MapShape, address: int) -> bytes | None:
    """The bytes that the driver encodes; None if it refuses."""
    from tilejit.runtime.cuda_function import encode_map

    axes = tuple(range(len(shape.dims)))
    spec = TensorMapSpec("t", DTYPES[ELEMENTS[shape.element_bytes]], axes, shape.box, shape.swizzle)
    try:
        return encode_map(spec, address, MappedArray(shape.dims, shape.strides))
    except LaunchError:
        return None


def any_map(number: int) -> tuple[MapShape, int]:
    """A map and an address, of which one in two is taken: numbers lie at what limits them, and beside it."""
    draw = np.random.default_rng(number)

    def near(*values: int) -> int:
        return int(draw.choice(values))

    spec = drawn(number)
    dims, strides, box = list(spec.dims), list(spec.strides), list(spec.box)
    swizzle, address = spec.swizzle, 1 << 20
    for _ in range(int(draw.integers(0, 3))):
        d = int(draw.integers(0, len(dims)))
        match int(draw.integers(0, 6)):
            case 0:
                dims[d] = near(0, 1, (1 << 31) - 16, (1 << 32) - 1, 1 << 32, (1 << 32) + 1)
            case 1 if d:
                strides[d - 1] = near(0, 8, 16, 24, (1 << 40) - 16, 1 << 40, (1 << 40) + 16)
            case 2:
                box[d] = near(0, 1, 8, 255, 256, 257)
            case 3:
                box[0] = near(8, 16, 32, 64, 128, 256, 512) // spec.size
            case 4:
                address += near(0, 8, 16, 1)
            case _:
                swizzle = str(draw.choice(list(WIDTH)))
    return MapShape(tuple(dims), tuple(strides), tuple(box), spec.size, swizzle), address


@pytest.mark.gpu
def test_the_driver_takes_the_maps_that_the_simulator_takes(on_gpu: None) -> None:
    taken = 0
    for number in range(SPECS):
        shape, address = any_map(number)
        refusal = shape.refusal(address)
        taken += refusal is None
        assert (encoded(shape, address) is None) == (refusal is not None), (number, shape, address, refusal)
    assert SPECS // 4 < taken < SPECS * 9 // 10


@pytest.fixture(scope="module")
def on_gpu() -> Iterator[None]:
    """A current context."""
    from cuda.bindings import driver

    from tests.simulator.conftest import ok

    ok(driver.cuInit(0))
    device = ok(driver.cuDeviceGet(0))
    ok(driver.cuCtxSetCurrent(ok(driver.cuDevicePrimaryCtxRetain(device))))
    yield
    driver.cuDevicePrimaryCtxRelease(device)


class Hardware:
    """Carries out specs on the GPU."""

    def __init__(self, memory: Array) -> None:
        from cuda.bindings import driver

        from tests.simulator.conftest import ok

        self.driver, self.ok = driver, ok
        self.functions = {
            rank: ok(driver.cuModuleGetFunction(ok(driver.cuModuleLoadData(program(rank).encode() + b"\0")), b"k"))
            for rank in range(2, 6)
        }
        self.source, self.other, self.out = (int(ok(driver.cuMemAlloc(n))) for n in (MEMORY, MEMORY, SHOWN))
        ok(driver.cuMemcpyHtoD(self.source, memory.ctypes.data, MEMORY))

    def run(self, spec: Spec) -> tuple[Array, Array]:
        """What is left, as `Spec.left` has it."""
        driver, ok = self.driver, self.ok
        ok(driver.cuMemsetD8(self.other, OTHER, MEMORY))
        sides = ((self.source, spec.dims, spec.strides), (self.other, spec.target, spec.packed))
        maps = [encoded(MapShape(dims, strides, spec.box, spec.size, spec.swizzle), at) for at, dims, strides in sides]
        assert None not in maps, spec
        values = [np.frombuffer(m or b"", np.uint8).copy() for m in maps]
        values += [np.array([self.out], np.uint64), np.array([spec.box_bytes], np.uint32)]
        values += [np.array([c], np.int32) for c in (*spec.at, *spec.to)]
        table = np.array([v.ctypes.data for v in values], np.uint64)
        ok(driver.cuLaunchKernel(self.functions[len(spec.box)], 1, 1, 1, 32, 1, 1, 0, 0, table.ctypes.data, 0))
        shown, other = np.empty(SHOWN, np.uint8), np.empty(MEMORY, np.uint8)
        ok(driver.cuMemcpyDtoH(shown.ctypes.data, self.out, SHOWN))
        ok(driver.cuMemcpyDtoH(other.ctypes.data, self.other, MEMORY))
        return shown, other


@pytest.mark.gpu
def test_the_hardware_moves_any_box_as_the_isa_says(on_gpu: None, memory: Array) -> None:
    hardware = Hardware(memory)
    for number in range(SPECS):
        spec = drawn(number)
        assert not (wrong := differing(spec, memory, hardware.run(spec))), (number, spec, wrong)
