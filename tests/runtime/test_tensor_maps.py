"""What a launch makes of arrays for copies of their boxes, seen by a fake driver."""

import numpy as np
import pytest

from tilejit import dtypes
from tilejit.errors import LaunchError
from tilejit.ir.nodes import Var
from tilejit.ir.params import TensorMapParam, TensorMapSpec
from tilejit.isa.hints import SIZES
from tilejit.runtime.arrays import facts_of
from tilejit.runtime.tensor_maps import mapped

pytest.importorskip("cuda.bindings")

from tests.runtime.fake_driver import FakeDriver, install, real  # noqa: E402
from tests.runtime.test_cuda_calls import GRID, array_at, call, compiled  # noqa: E402
from tests.support.foreign_arrays import Tensor  # noqa: E402
from tilejit.runtime import cuda  # noqa: E402


@pytest.fixture
def fake(monkeypatch):
    return install(FakeDriver(), monkeypatch.setattr)


@pytest.fixture
def device(fake):
    return cuda.CudaDevice(0)


def boxes_of_a(axes=(1, 0), box=(8, 4), dtype=dtypes.float32, swizzle="32B", fetch=TensorMapSpec.FETCH):
    return TensorMapParam(Var("A.map", dtypes.int64), TensorMapSpec("A", dtype, axes, box, swizzle, fetch))


def maps_seen(fake):
    """What launches get as their first parameter, the maps that the fake driver made, without what is 0 at the end."""
    seen = []
    fake.kernel = lambda p: seen.append(tuple(np.trim_zeros(array_at(p[0], 16, np.int64), "b")))
    return seen


def encoded(fake):
    return [c for c in fake.calls if c[0] == "encode"]


def test_a_launch_makes_the_map_of_an_array_once(fake, device):
    seen = maps_seen(fake)
    f = device.load(compiled(boxes_of_a()))
    a, b = Tensor(np.zeros((4, 64), np.float32)), Tensor(np.zeros((4, 64), np.float32)[:, 4:])
    for each in (a, b, a, b):
        f.launch(GRID, call(each))
    # dims and strides in the order of the hardware, the box, the swizzle
    of_a, of_b = (a.data_ptr(), 64, 4, 256, 8, 4, 1), (b.data_ptr(), 60, 4, 256, 8, 4, 1)
    assert seen == [of_a, of_b, of_a, of_b]
    assert encoded(fake) == [("encode", "FLOAT32", of_a), ("encode", "FLOAT32", of_b)]
    assert fake.promotions == ["L2_256B"] * 2


@pytest.mark.parametrize("fetch", SIZES)
def test_a_map_promotes_to_the_bytes_of_its_copies(fake, device, fetch):
    maps_seen(fake)
    device.load(compiled(boxes_of_a(fetch=fetch))).launch(GRID, call(Tensor(np.zeros((4, 64), np.float32))))
    assert fake.promotions == [f"L2_{fetch}"]


def test_at_most_256_maps_of_a_parameter_are_kept(fake, device):
    maps_seen(fake)
    f = device.load(compiled(boxes_of_a()))
    memory = np.zeros(1 << 17, np.float32)
    arrays = [Tensor(memory[16 * k : 16 * k + 256].reshape(4, 64)) for k in range(257)]
    for each in (*arrays, *arrays[1:]):
        f.launch(GRID, call(each))
    assert len(encoded(fake)) == 257
    f.launch(GRID, call(arrays[0]))
    assert len(encoded(fake)) == 258


@pytest.mark.parametrize(
    "name, expected", [("float16", "FLOAT16"), ("bfloat16", "BFLOAT16"), ("int8", "UINT8"), ("bool_", "UINT8"),
                       ("float8_e5m2", "UINT8"), ("int16", "UINT16"), ("uint32", "UINT32"), ("float64", "FLOAT64")],
)
def test_a_map_names_the_type_or_one_of_its_size(fake, device, name, expected):
    maps_seen(fake)
    dtype = dtypes.DTYPES[name]
    f = device.load(compiled(boxes_of_a(dtype=dtype)))
    f.launch(GRID, call(Tensor(np.zeros((4, 64), dtype.numpy))))
    assert [kind for _, kind, _ in encoded(fake)] == [expected]


def test_of_an_array_without_elements_the_map_is_zeros(fake, device):
    seen = maps_seen(fake)
    device.load(compiled(boxes_of_a())).launch(GRID, call(Tensor(np.zeros((0, 64), np.float32))))
    assert seen == [()] and encoded(fake) == []


def test_dimensions_of_one_element_count_as_packed(fake, device):
    seen = maps_seen(fake)
    odd = np.lib.stride_tricks.as_strided(np.zeros(512, np.float32), (1, 4, 64), (4, 256, 4))
    line = Tensor(np.zeros(64, np.float32))
    device.load(compiled(boxes_of_a((2, 1, 0), (8, 4, 1)))).launch(GRID, call(Tensor(odd)))
    device.load(compiled(boxes_of_a((0,), (8, 1)))).launch(GRID, call(line))
    assert [map[1:] for map in seen] == [(64, 4, 1, 256, 1024, 8, 4, 1, 1), (64, 1, 256, 8, 1, 1)]


@pytest.mark.parametrize(
    "shape, strides, message",
    [
        ((2**31, 16), (0, 1), "dimension 0 of A has 2,147,483,648 elements; TMA supports at most 2,147,483,631"),
        ((2, 16), (2**40 // 4, 1), "dimension 0 of A has a stride of 1,099,511,627,776 bytes; TMA"),
        ((2, 16), (-16, 1), "dimension 0 of A has a stride of -64 bytes; TMA supports no negative strides"),
    ],
)
def test_what_a_map_cant_tell_is_a_launch_error(shape, strides, message):
    facts = facts_of(dtypes.float32, shape, strides, 0)
    with pytest.raises(LaunchError, match=message):
        mapped(boxes_of_a().map, facts)


def test_a_map_that_the_driver_refuses_is_a_launch_error(fake, device):
    fake.errors["cuTensorMapEncodeTiled"] = real.CUresult.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(LaunchError, match="CUDA_ERROR_INVALID_VALUE from cuTensorMapEncodeTiled"):
        device.load(compiled(boxes_of_a())).launch(GRID, call(Tensor(np.zeros((4, 64), np.float32))))


def test_a_prepared_launch_makes_its_map_once(fake, device):
    seen = maps_seen(fake)
    a = Tensor(np.zeros((4, 64), np.float32))
    run = device.load(compiled(boxes_of_a())).prepare(GRID, call(a)).run
    run()
    run()
    assert len(seen) == 2 and seen[0] == seen[1] and len(encoded(fake)) == 1
