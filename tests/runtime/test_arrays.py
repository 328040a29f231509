"""Arrays of every owner become the same view."""

import ctypes
import sys
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.foreign_arrays import Exporter, Interface, Tensor
from tests.support.profiles import times
from tilejit import dtypes
from tilejit.errors import LaunchError
from tilejit.runtime import dlpack
from tilejit.runtime.arrays import SIMULATOR, DeviceArray, facts_of, row_major
from tilejit.runtime.readers import is_array, view_of
from tilejit.runtime.simulated import SimulatedMemory

try:
    from numpy.lib.array_utils import byte_bounds
except ImportError:
    from numpy import byte_bounds

needs_dlpack_1 = pytest.mark.skipif(
    tuple(map(int, np.__version__.split(".")[:2])) < (2, 1), reason="NumPy before 2.1 exports DLPack before 1"
)


def test_a_numpy_array_is_a_view_of_host_memory():
    a = np.zeros((3, 8), np.float32)
    view = view_of(a)
    assert view.pointer == a.ctypes.data
    assert view.facts.device is None
    assert (view.facts.shape, view.facts.strides) == ((3, 8), (8, 1))
    assert (view.facts.low_bytes, view.facts.high_bytes) == (0, 96)
    assert view.host is a and view.writable


def test_negative_strides_reach_below_the_first_element():
    a = np.zeros((3, 8), np.float32)[::-1]
    facts = view_of(a).facts
    assert facts.strides == (-8, 1)
    assert (facts.low_bytes, facts.high_bytes) == (-64, 32)


@given(
    shape=st.lists(st.integers(1, 5), min_size=0, max_size=3),
    steps=st.lists(st.sampled_from([-2, -1, 1, 2]), min_size=3, max_size=3),
    order=st.permutations(range(3)),
)
@settings(max_examples=times(2), deadline=None)
def test_bounds_are_those_that_numpy_computes(shape, steps, order):
    a = np.zeros([2 * n + 1 for n in shape], np.int16)
    permuted = a.transpose([d for d in order if d < len(shape)])
    a = np.asarray(permuted[tuple(slice(None, None, s) for s in steps[: len(shape)])])
    low, high = byte_bounds(a)
    facts = view_of(a).facts
    start = a.ctypes.data
    assert (start + facts.low_bytes, start + facts.high_bytes) == (low, high)


def test_an_empty_array_reaches_nothing():
    facts = view_of(np.zeros((3, 0), np.float32)[::-1]).facts
    assert (facts.low_bytes, facts.high_bytes) == (0, 0)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(-4, 4)), max_size=4))
def test_an_array_is_dense_if_its_elements_are_each_place_once(dims):
    shape, strides = tuple(n for n, _ in dims), tuple(s for _, s in dims)
    places = [sum(i * s for i, s in zip(index, strides, strict=True)) for index in np.ndindex(shape)]
    is_dense = len(set(places)) == len(places) == max(places) - min(places) + 1
    assert facts_of(dtypes.float32, shape, strides, None).is_dense == is_dense


@pytest.mark.parametrize("shape", [(0,), (0, 8), (8, 0), (0, 9), (2, 0, 3)])
def test_an_empty_array_without_strides_counts_as_aligned_rows(shape):
    # what NumPy says of one
    facts = facts_of(dtypes.float16, shape, (0,) * len(shape), None)
    assert (facts.unit_dim, facts.stride_align) == (len(shape) - 1, 32)
    assert (facts.low_bytes, facts.high_bytes) == (0, 0)


def test_the_stride_of_a_dimension_of_one_element_says_nothing_of_alignment():
    facts = facts_of(dtypes.float16, (1, 4, 8), (33, 8, 1), None)
    assert (facts.strides, facts.stride_align) == ((33, 8, 1), 16)
    # a kernel may take it for a multiple of the alignment
    assert facts.passed_strides == (48, 8, 1)
    assert facts_of(dtypes.float16, (2, 4, 8), (33, 8, 1), None).stride_align == 2
    # nothing else tells rows of one element apart from columns
    assert facts_of(dtypes.float16, (1,), (1,), None).passed_strides == (1,)


def test_the_same_shape_and_strides_share_their_facts():
    a, b = np.zeros((4, 4)), np.ones((4, 4))
    assert view_of(a).facts is view_of(b).facts
    assert view_of(a.T).facts is not view_of(b).facts


def test_alignment_is_the_largest_power_of_two_that_divides_address_and_strides():
    buffer = np.zeros(4096, np.uint8)
    start = -buffer.ctypes.data % 64
    base = buffer[start : start + 2048].view(np.float32)
    assert view_of(base).align == 32
    assert view_of(base[1:]).align == 4
    assert view_of(base[2:]).align == 8
    assert view_of(base[:96].reshape(4, 24)[:, :6]).align == 32
    assert view_of(base[:24].reshape(4, 6)).align == 8
    assert view_of(base[: 4 * 6].reshape(4, 6)).facts.extent_align == 8


def test_the_last_dimension_with_stride_1_is_the_unit_dimension():
    f32 = dtypes.float32
    assert facts_of(f32, (4, 1), (1, 1), None).unit_dim == 1
    assert facts_of(f32, (4, 8), (1, 4), None).unit_dim == 0
    assert facts_of(f32, (4, 8), (16, 2), None).unit_dim is None
    assert facts_of(f32, (4, 8), (16, 2), None).extent_align == 1


@pytest.mark.parametrize("dtype", dtypes.DTYPES.values(), ids=str)
def test_every_element_type_comes_in_from_numpy_and_from_a_tensor(dtype):
    a = np.zeros((2, 4), dtype.numpy)
    assert view_of(a).facts.dtype == dtype
    name = "bool" if dtype.name == "bool_" else dtype.name
    assert view_of(Tensor(a, dtype=f"torch.{name}")).facts.dtype == dtype


def test_a_tensor_on_a_gpu_has_its_ordinal_and_no_host_memory():
    view = view_of(Tensor(np.zeros((2, 3), np.float16), "cuda:1"))
    assert view.facts.device == 1
    assert view.host is None
    assert view_of(Tensor(np.zeros(2, np.float16), "cuda")).facts.device == 0


def test_a_tensor_in_host_memory_is_used_in_place():
    a = np.arange(12, dtype=np.int32).reshape(3, 4)[::-1, ::2]
    view = view_of(Tensor(a, "cpu"))
    np.testing.assert_array_equal(view.host, a)
    view.host[0, 0] = -7
    assert a[0, 0] == -7


def test_a_tensor_on_another_kind_of_device_is_refused():
    with pytest.raises(LaunchError, match="is on mps:0"):
        view_of(Tensor(np.zeros(2, np.float32), "mps:0"))


def test_the_cuda_array_interface_gives_strides_or_means_row_major():
    a = np.zeros((4, 6), np.float64)
    assert view_of(Interface(a)).facts.strides == (6, 1)
    assert view_of(Interface(a, strides=(8, 32))).facts.strides == (1, 4)
    assert not view_of(Interface(a, data=(1024, True))).writable
    assert view_of(Interface(a, stream=7)).producer == 7


class Refused:
    """An array whose library answers nothing. asked: what it has."""

    def __init__(self, asked):
        self.asked = asked

    def __getattr__(self, name):
        if name in self.asked:
            raise RuntimeError("no memory\nhere")
        raise AttributeError(name)


@pytest.mark.parametrize("asked", ["data_ptr", "__dlpack__", "__cuda_array_interface__", "dtype shape data_ptr"])
def test_what_an_arrays_own_library_refuses_is_a_launch_error(asked):
    # how an array is read is remembered for its class
    value = type("Refused", (Refused,), {})(asked.split())
    assert is_array(value)
    with pytest.raises(LaunchError, match="RuntimeError: no memory|AttributeError: "):
        view_of(value)


class Unreadable(Tensor):
    """A tensor of which one attribute can't be read."""

    def __init__(self, name):
        super().__init__(np.zeros(4, np.float32), "cpu")
        self.name = name

    def __getattribute__(self, name):
        if name == object.__getattribute__(self, "__dict__").get("name"):
            raise NotImplementedError("this layout has none")
        return object.__getattribute__(self, name)


@pytest.mark.parametrize("name", ["shape", "dtype", "device", "stride", "data_ptr"])
def test_each_attribute_of_a_tensor_may_be_unreadable(name):
    with pytest.raises(LaunchError, match="an Unreadable can't be passed: NotImplementedError: this layout has none"):
        view_of(Unreadable(name))


def test_an_address_of_0_is_no_memory_except_of_nothing():
    a, empty = np.zeros(4, np.float32), np.zeros((0, 4), np.float32)

    def tensor(array, device):
        found = Tensor(array, device)
        found.data_ptr = lambda: 0
        return found

    for device in ("cpu", "cuda:0"):
        assert view_of(tensor(empty, device)).pointer == 0
        with pytest.raises(LaunchError, match="a Tensor can't be passed: it has no memory"):
            view_of(tensor(a, device))
    for nothing in (0, None):
        assert view_of(Interface(empty, data=(nothing, False))).pointer == 0
        with pytest.raises(LaunchError, match="an Interface can't be passed: it has no memory"):
            view_of(Interface(a, data=(nothing, False)))


@pytest.mark.parametrize(("bit", "word"), [("is_neg", "resolve_neg"), ("is_conj", "resolve_conj")])
def test_bits_of_torchs_tensors_are_refused(bit, word):
    value = Tensor(np.zeros(4, np.float32), "cuda:0")
    assert view_of(value).writable
    setattr(value, bit, lambda: True)
    with pytest.raises(LaunchError, match=word):
        view_of(value)


def test_an_array_that_names_no_device_lies_where_the_driver_says(monkeypatch):
    pytest.importorskip("cuda.bindings")
    from tests.runtime.fake_driver import FakeDriver, install

    driver = install(FakeDriver(), monkeypatch.setattr)
    a = Interface(np.zeros(4, np.float32))
    pointer = a.__cuda_array_interface__["data"][0]
    assert view_of(a).facts.device == 0
    driver.ordinals[pointer] = 1
    assert view_of(a).facts.device == 1
    a.device = SimpleNamespace(id=0)
    assert view_of(a).facts.device == 0
    # JAX's arrays on several devices name a sharding
    a.device = object()
    assert view_of(a).facts.device == 1


def test_arrays_of_jax_are_never_writable(monkeypatch):
    a = np.zeros(4, np.float32)
    assert view_of(Exporter(a)).writable and view_of(Interface(a)).writable
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(Array=(Exporter, Interface)))
    assert not any(view_of(kind(a)).writable for kind in (Exporter, Interface))
    assert not view_of(Exporter(a)).host.flags.writeable


def test_a_type_that_has_no_typestr_is_read_from_the_object():
    a = Interface(np.zeros(4, np.uint16), typestr="<V2")
    a.dtype = np.dtype(ml_dtypes.bfloat16)
    assert view_of(a).facts.dtype == dtypes.bfloat16


@pytest.mark.parametrize("versioned", [pytest.param(True, marks=needs_dlpack_1), False])
def test_dlpack_capsules_of_both_kinds_are_read(versioned):
    a = np.arange(24, dtype=np.int64).reshape(4, 6)[:, ::2]
    view = view_of(Exporter(a, versioned))
    assert view.pointer == a.ctypes.data
    assert view.facts.strides == (6, 2)
    np.testing.assert_array_equal(view.host, a)


@needs_dlpack_1
def test_a_read_only_export_stays_read_only():
    a = np.zeros(4, np.float32)
    a.flags.writeable = False
    assert not view_of(Exporter(a)).writable
    assert not view_of(a).writable


@needs_dlpack_1
def test_what_is_written_to_an_exported_copy_would_be_lost():
    capsule = np.zeros(4, np.float32).__dlpack__(max_version=(1, 0))
    flags = ctypes.c_uint64.from_address(dlpack._get_pointer(capsule, b"dltensor_versioned") + 24)

    class Copied(Exporter):
        def __dlpack__(self, **_):
            return capsule

    value = Copied(np.zeros(4, np.float32))
    for bits, writable in ((0, True), (dlpack._READ_ONLY, False), (dlpack._IS_COPIED, False)):
        flags.value = bits
        assert view_of(value).writable is writable
    major = ctypes.c_uint32.from_address(ctypes.addressof(flags) - 24)
    major.value = 2
    with pytest.raises(LaunchError, match="Copied exports DLPack 2; only version 1 is supported"):
        view_of(value)
    major.value = 1


@pytest.mark.parametrize("bad", [np.zeros(2, ">f4"), np.zeros(2, np.complex64), np.zeros(2, "U3")])
def test_types_without_a_name_are_refused(bad):
    with pytest.raises(LaunchError, match="can't be passed"):
        view_of(bad)


def test_strides_that_are_no_multiple_of_the_element_are_refused():
    a = np.zeros(4, np.dtype([("a", np.uint8), ("b", np.float32)]))["b"]
    with pytest.raises(LaunchError, match="strides of .5,. bytes"):
        view_of(a)


def test_a_masked_array_is_refused():
    for masked in (np.ma.masked_array([1.0, 2.0], [True, False]), Interface(np.zeros(2), mask=Interface(np.ones(2)))):
        with pytest.raises(LaunchError, match="masked"):
            view_of(masked)


def test_numbers_are_no_arrays():
    assert not any(map(is_array, (1, 2.0, True, np.float32(3), "text", None)))
    assert all(map(is_array, (np.zeros(1), Tensor(np.zeros(1)), Interface(np.zeros(1)), Exporter(np.zeros(1)))))
    with pytest.raises(LaunchError, match="str is not an array"):
        view_of("text")


def test_a_device_array_copies_in_and_out():
    d = DeviceArray(SimulatedMemory(24), dtypes.float32, (2, 3))
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    d.copy_from(a)
    np.testing.assert_array_equal(d.numpy(), a)
    assert (d.shape, d.strides, d.size, d.nbytes, d.device) == ((2, 3), (3, 1), 6, 24, "sim")
    assert d.view().facts.device == SIMULATOR
    with pytest.raises(LaunchError, match="doesn't fit"):
        d.copy_from(a.astype(np.float64))


def test_a_freed_device_array_says_so():
    d = DeviceArray(SimulatedMemory(24), dtypes.float32, (2, 3))
    d.free()
    d.free()
    for use in (d.numpy, d.view):
        with pytest.raises(LaunchError, match="was freed"):
            use()


def on_device(array, dtype=None):
    made = DeviceArray(SimulatedMemory(array.nbytes), dtype or dtypes.from_numpy(array.dtype), array.shape)
    made.copy_from(array)
    return made


ASKED = [
    np.asarray, np.array, np.copy, np.sum, np.shape, np.ndim, np.size, np.zeros_like, np.transpose, np.isfinite, len,
    bool, lambda a: np.array(a, copy=True), lambda a: np.asarray(a, np.float64), lambda a: np.stack([a, a]),
    lambda a: np.concatenate([a, a], axis=None), lambda a: np.add(a, 1), lambda a: np.add(1, a), lambda a: a == a,
    lambda a: np.ones(a.shape, np.float32) * a, lambda a: a != a, lambda a: a == 1, lambda a: np.zeros(a.shape) == a,
    lambda a: a == [None], lambda a: a == np.zeros(a.shape), lambda a: a == "text", lambda a: a == a.shape,
    lambda a: a == [1.0], lambda a: np.array_equal(a, np.ones(a.shape)), lambda a: np.where(a, a, 2.0),
    lambda a: a == np.ones((7, 7)), lambda a: np.ones((7, 7)) != a,
]


@pytest.mark.parametrize("dtype", dtypes.DTYPES.values(), ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (6,), (2, 3), (0, 4), (2, 1, 3)], ids=str)
def test_a_device_array_answers_as_numpys_does(shape, dtype):
    a = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype.numpy)
    d = on_device(a, dtype)
    for ask in ASKED:
        results = []
        for asked in (a, d):
            try:
                with np.errstate(all="ignore"):
                    found = ask(asked)
                results.append((type(found), getattr(found, "dtype", None), np.asarray(found).tobytes()))
            except (TypeError, ValueError) as error:
                results.append(type(error))
        assert results[0] == results[1]
    np.testing.assert_array_equal(a, d)


def test_a_device_array_is_copied_even_where_numpy_asks_for_none():
    d = on_device(np.ones(3, np.float32))
    with pytest.raises(ValueError, match="leave copy=False out"):
        d.__array__(copy=False)
    np.asarray(d)[:] = 5
    assert (d == 1).all()
    other = on_device(np.zeros(3, np.float32))
    other.copy_from(d)
    assert (other == d).all() and not (other != d).any()


def test_a_device_array_is_hashed_by_identity():
    a, b = (on_device(np.ones(3, np.float32)) for _ in range(2))
    assert {a: 1, b: 2} == {b: 2, a: 1} and len({a, b, a}) == 2
    a.free()
    with pytest.raises(LaunchError, match="was freed"):
        _ = a == b


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("get", r"a\.numpy\(\)"), ("cpu", r"a\.numpy\(\)"), ("item", r"a\.numpy\(\)\.item"), ("sum", r"\(\)\.sum"),
        ("to", r"tj\.to_device\(a, 'cuda:1'\)"), ("detach", "no gradients"), ("set", r"a\.copy_from\(array\)"),
        ("numel", r"a\.size"), ("data_ptr", "kernels take the array itself"), ("half", r"a\.numpy\(\)\.astype"),
        ("fill_", r"a\.copy_from\(np\.full"), ("block_until_ready", r"tj\.synchronize\(\)"),
    ],
)
def test_names_of_other_libraries_say_what_to_write(name, instead):
    d = on_device(np.ones((2, 3), np.float32))
    assert not hasattr(d, name) and name not in dir(d) and {"numpy", "shape", "free"} < set(dir(d))
    with pytest.raises(AttributeError, match=f"^a DeviceArray has no '{name}': write .*{instead}"):
        getattr(d, name)


def test_what_nothing_wrote_reads_as_nan():
    assert np.isnan(DeviceArray(SimulatedMemory(16), dtypes.float32, (4,)).numpy()).all()


def test_row_major_strides():
    assert row_major((2, 3, 4)) == (12, 4, 1)
    assert row_major(()) == ()
    assert row_major((3, 0, 2)) == (2, 2, 1)
