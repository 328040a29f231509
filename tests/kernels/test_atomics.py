"""Atomic updates of elements: every operation on every type against NumPy, old values, orders, errors."""

import re

import ml_dtypes
import numpy as np
import pytest

import tilejit as tj
from tests.support.ptxas import ptxas_accepts

INTEGERS = [np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
FLOATS = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
ADDED = INTEGERS + FLOATS


def name(dtype):
    return np.dtype(dtype).name


@pytest.fixture(params=["sim", pytest.param("cuda", marks=pytest.mark.gpu)])
def where(request):
    with tj.use_device(request.param):
        yield request.param


@tj.kernel(threads=64)
def added(X: tj.Tensor, Y: tj.Tensor):
    s = tj.alloc_shared((4,), X.dtype)
    t = tj.thread_id()
    if t < 4:
        s[t] = 0
    tj.cta_sync()
    tj.atomic.add(s[t % 4], X[t])
    tj.atomic.sub(Y[t % 4, 1], X[t])
    tj.cta_sync()
    if t < 4:
        tj.atomic.add(Y[t, 0], s[t])


@pytest.mark.parametrize("dtype", ADDED, ids=name)
def test_sums_are_numpys(dtype, where):
    # small whole numbers, whose sums no order rounds
    x = np.random.default_rng(1).integers(0, 4, 64).astype(dtype)
    y = np.zeros((4, 2), dtype)
    added[2](x, y)
    sums = 2 * x.astype(np.int64).reshape(16, 4).sum(0)
    np.testing.assert_array_equal(y.astype(np.float64), np.stack([sums, -sums], 1).astype(dtype).astype(np.float64))


@tj.kernel(threads=64)
def extremes(X: tj.Tensor, Y: tj.Tensor):
    s = tj.alloc_shared((2,), X.dtype)
    t = tj.thread_id()
    if t < 2:
        s[t] = Y[t]
    tj.cta_sync()
    tj.atomic.max(s[0], X[t])
    before = tj.atomic.min(s[1], X[t])
    tj.atomic.max(Y[2], before)
    tj.cta_sync()
    if t < 2:
        Y[t] = s[t]


#: the arguments of the updates, and the resulting maximum and minimum of these and 0.0
EXTREMES = [
    ([-0.0], -0.0, -0.0), ([0.0], 0.0, -0.0), ([1, -2.5, -0.0], 1, -2.5), ([1, np.nan, -1], np.nan, np.nan),
    ([np.inf, 3, -np.inf], np.inf, -np.inf),
]


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a"])
@pytest.mark.parametrize("dtype", FLOATS, ids=name)
@pytest.mark.parametrize("case", EXTREMES, ids=str)
def test_extremes_of_floats_propagate_nan_and_order_zeros(case, dtype, target):
    values, greatest, least = case
    x, y = np.resize(np.array(values, dtype), 64), np.array([-0.0, -0.0, -0.0], dtype)
    with tj.use_device(f"sim:{target}"):
        extremes[1](x, y)
    wanted = np.array([greatest, least], np.float64)
    np.testing.assert_array_equal(y[:2].astype(np.float64), wanted)
    np.testing.assert_array_equal(np.signbit(y[:2][wanted == wanted]), np.signbit(wanted[wanted == wanted]))
    ptxas_accepts(extremes.compile(x, y, target=target).ptx, target)


@pytest.mark.parametrize("dtype", FLOATS, ids=name)
def test_extremes_of_floats_are_numpys(dtype, where):
    x = np.random.default_rng(4).normal(size=64).astype(dtype)
    y = np.zeros(3, dtype)
    extremes[1](x, y)
    assert [y[0], y[1]] == [max(x.max(), 0), min(x.min(), 0)]


@pytest.mark.parametrize("target", ["sm_75", "sm_90a"])
@pytest.mark.parametrize("dtype", [np.int16, np.uint16], ids=name)
def test_integers_of_16_bits_are_updated_by_compare_and_swap(dtype, target):
    limits = np.iinfo(dtype)
    x = np.random.default_rng(5).integers(limits.min, limits.max, 64, dtype=dtype, endpoint=True)
    y = np.zeros(8, dtype)
    with tj.use_device(f"sim:{target}"):
        bitwise[1](x, y)
    assert y[2] == np.bitwise_xor.reduce(x)
    ptx = bitwise.compile(x, y, target=target).ptx
    assert ptx.count("atom.global.cas.b16") == 5 and "red." not in ptx
    ptxas_accepts(ptx, target)


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a"])
def test_a_sum_of_bfloat16_needs_no_instruction(target):
    x, y = np.arange(64).astype(ml_dtypes.bfloat16), np.zeros((4, 2), ml_dtypes.bfloat16)
    with tj.use_device(f"sim:{target}"):
        added[1](x % ml_dtypes.bfloat16(3), y)
    sums = (np.arange(64) % 3).reshape(16, 4).sum(0)
    np.testing.assert_array_equal(y.astype(np.int64), np.stack([sums, -sums], 1))
    ptx = added.compile(x, y, target=target).ptx
    assert ("red.global.add.noftz.bf16" in ptx) == (target == "sm_90a")
    assert ("atom.global.cas.b16" in ptx) == (target != "sm_90a")
    ptxas_accepts(ptx, target)


@pytest.mark.parametrize("dtype", [tj.float16, tj.bfloat16, tj.float32, tj.float64], ids=str)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_a_float_that_is_known_at_compile_time_is_added(dtype, target):
    @tj.kernel(threads=32)
    def counted(X: tj.Tensor, Old: tj.Tensor):
        tj.atomic.add(X[0], X.dtype(1))
        Old[tj.thread_id()] = tj.atomic.add(X[1], X.dtype(2))

    x, old = np.zeros(2, dtype.numpy), np.zeros(32, dtype.numpy)
    ptxas_accepts(counted.compile(x, old, target=target).ptx, target)
    tj.simulate(counted, 1, x, old, target=target)
    assert x.tolist() == [32, 64] and sorted(old.tolist()) == list(range(0, 64, 2))


def test_a_sum_of_nans_by_compare_and_swap_ends():
    y = np.full((4, 2), np.nan, ml_dtypes.bfloat16)
    with tj.use_device("sim:sm_80"):
        added[1](np.ones(64, ml_dtypes.bfloat16), y)
    assert np.isnan(y.astype(np.float32)).all()


@tj.kernel(threads=32)
def repeated(X: tj.Tensor, Y: tj.Tensor):
    for turn in range(3):
        before = tj.atomic.add(Y[turn % 2], X[tj.thread_id()])
        if before > 1000:
            Y[2] = before


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_an_old_value_from_a_loop_of_swaps_is_used_in_a_loop(target):
    y = np.zeros(4, ml_dtypes.bfloat16)
    with tj.use_device(f"sim:{target}"):
        repeated[1](np.ones(32, ml_dtypes.bfloat16), y)
    np.testing.assert_array_equal(y.astype(np.float32), [64, 32, 0, 0])


@tj.kernel(threads=64)
def bitwise(X: tj.Tensor, Y: tj.Tensor):
    t = tj.thread_id()
    tj.atomic.and_(Y[0], X[t])
    tj.atomic.or_(Y[1], X[t])
    tj.atomic.xor(Y[2], X[t])
    tj.atomic.min(Y[3], X[t])
    tj.atomic.max(Y[4], X[t])


@pytest.mark.parametrize("dtype", INTEGERS, ids=name)
def test_bits_and_extremes_are_numpys(dtype, where):
    bits = np.iinfo(dtype)
    x = np.random.default_rng(2).integers(bits.min, bits.max, 64, dtype=dtype, endpoint=True)
    y = np.array([-1 if bits.min else bits.max, 0, 0, bits.max, bits.min], dtype)
    bitwise[1](x, y)
    wanted = [np.bitwise_and.reduce(x), np.bitwise_or.reduce(x), np.bitwise_xor.reduce(x), x.min(), x.max()]
    np.testing.assert_array_equal(y, np.array(wanted, dtype))


@tj.kernel(threads=96)
def tickets(C: tj.Tensor, B: tj.Tensor, X: tj.Tensor):
    ticket = tj.atomic.add(C[0], 1)
    B[ticket] = tj.thread_id()
    last = tj.atomic.exch(X[0], X.dtype(tj.thread_id() + 1))
    tj.atomic.add(C[1], tj.int32(last))
    if tj.atomic.cas(C[2], 0, tj.thread_id() + 1) == 0:
        tj.atomic.add(C[3], 1)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint64, np.float64], ids=name)
def test_old_values_are_each_somebodys(dtype, where):
    c, b, x = np.zeros(4, np.int32), np.full(96, -1, np.int32), np.zeros(1, dtype)
    tickets[1](c, b, x)
    assert c[0] == 96 and sorted(b) == list(range(96))
    # all but the last that was put there have been taken out
    assert c[1] + int(x[0]) == 96 * 97 // 2
    assert 1 <= c[2] <= 96 and c[3] == 1


@tj.kernel(threads=256)
def histogram(X: tj.Tensor, H: tj.Tensor):
    counts = tj.alloc_shared((256,), tj.uint32)
    t = tj.thread_id()
    counts[t] = 0
    tj.cta_sync()
    for i in range(t + tj.cta_id(0) * 256, X.shape[0], tj.num_ctas(0) * 256):
        tj.atomic.add(counts[X[i]], 1)
    tj.cta_sync()
    tj.atomic.add(H[t], counts[t])


def test_a_histogram_is_numpys(where):
    x = np.random.default_rng(3).integers(0, 256, 5000).astype(np.uint8)
    h = np.zeros(256, np.uint32)
    histogram[3](x, h)
    np.testing.assert_array_equal(h, np.bincount(x, minlength=256))


def updates(kernel, *args, target="sm_90a"):
    """The atomic instructions in a kernel's PTX, which ptxas accepts."""
    ptx = kernel.compile(*args, target=target).ptx
    ptxas_accepts(ptx, target)
    return re.findall(r"\b((?:red|atom)\.[^;]*);", ptx)


def test_a_count_of_ones_is_a_reduction_by_a_literal():
    # ptxas makes ATOMS.POPC.INC of it, which merges equal addresses; of an increment in a register ATOMS.ADD
    first, second = updates(histogram, np.zeros(9, np.uint8), np.zeros(256, np.uint32))
    assert re.fullmatch(r"red\.shared\.add\.u32 \t?\[%r\d+\], 1", first)
    assert re.fullmatch(r"red\.global\.add\.u32 \t?\[%rd\d+\], %r\d+", second)


def test_only_old_values_that_are_read_are_fetched():
    @tj.kernel(threads=32)
    def kernel(C: tj.Tensor):
        unread = tj.atomic.add(C[0], 5)  # noqa: F841 - it's never read
        tj.atomic.exch(C[1], 6)
        C[2] = tj.atomic.max(C[3], 7)
        tj.atomic.or_(C[4], -8, order="release", scope="sys")
        tj.atomic.or_(C[5], 9, order="acquire", scope="cta")

    found = [re.sub(r"%\w+|\t", "", line) for line in updates(kernel, np.zeros(8, np.int32))]
    assert found == [
        "red.global.add.u32 [], 5", "atom.global.exch.b32 , [+4], 6", "atom.global.max.s32 , [+12], 7",
        "red.release.sys.global.or.b32 [+16], -8", "atom.acquire.cta.global.or.b32 , [+20], 9",
    ] or found == [
        "red.global.add.u32 [], 5", "atom.global.exch.b32 , [], 6", "atom.global.max.s32 , [], 7",
        "red.release.sys.global.or.b32 [], -8", "atom.acquire.cta.global.or.b32 , [], 9",
    ]


@pytest.mark.parametrize("order", ["relaxed", "acquire", "release", "acq_rel"])
@pytest.mark.parametrize("scope", ["cta", "cluster", "gpu", "sys"])
def test_every_order_and_scope_is_what_ptxas_takes(order, scope):
    @tj.kernel(threads=32)
    def kernel(C: tj.Tensor):
        s = tj.alloc_shared((1,), tj.int32)
        s[0] = 0
        tj.cta_sync()
        C[1] = tj.atomic.add(C[0], 1, order=order, scope=scope)
        C[2] = tj.atomic.add(s[0], 1, order=order, scope=scope)
        tj.atomic.min(C[3], 1, order=order, scope=scope)

    found = updates(kernel, np.zeros(4, np.int32))
    words = "" if (order, scope) == ("relaxed", "gpu") else f".{order}.{scope}"
    assert [line.split()[0].split(".add")[0] for line in found[:2]] == [f"atom{words}.global", f"atom{words}.shared"]
    assert found[2].startswith(f"{'red' if order in ('relaxed', 'release') else 'atom'}{words}.global.min.s32")


@tj.kernel(threads=32)
def by_counter(C: tj.Tensor, A: tj.Tensor, B: tj.Tensor, order: tj.constexpr):
    i = tj.thread_id()
    A[tj.cta_id(0), i] = i + 5
    tj.warp_sync()
    done = tj.alloc_shared((1,), tj.int32)
    if i == 0:
        done[0] = tj.atomic.add(C[0], 1, order=order)
    tj.warp_sync()
    if done[0] == 1:
        B[i] = A[0, i] + A[1, i]


def test_the_last_that_counts_sees_what_the_others_wrote(where):
    c, a, b = np.zeros(1, np.int32), np.zeros((2, 32), np.int32), np.zeros(32, np.int32)
    by_counter[2](c, a, b, order="acq_rel")
    np.testing.assert_array_equal(b, 2 * (np.arange(32) + 5))


def test_a_count_without_order_is_a_race():
    arrays = np.zeros(1, np.int32), np.zeros((2, 32), np.int32), np.zeros(32, np.int32)
    with pytest.raises(tj.RaceError, match="A"):
        tj.simulate(by_counter, 2, *arrays, order="relaxed")


def test_an_update_beside_a_plain_write_is_a_race():
    @tj.kernel(threads=64)
    def kernel(C: tj.Tensor):
        if tj.thread_id() == 0:
            C[0] = 1
        else:
            tj.atomic.add(C[0], 1)

    with pytest.raises(tj.RaceError, match="C"):
        tj.simulate(kernel, 1, np.zeros(1, np.int32))


def test_a_lock_by_compare_and_swap_holds(where):
    @tj.kernel(threads=32)
    def locked(L: tj.Tensor, Y: tj.Tensor):
        if tj.thread_id() == 0:
            while tj.atomic.cas(L[0], 0, 1, order="acquire") != 0:
                pass
            Y[0] = Y[0] + 1
            tj.store_release(L[0], 0)

    y = np.zeros(1, np.int32)
    locked[4](np.zeros(1, np.int32), y)
    assert y[0] == 4


def test_a_product_by_compare_and_swap_reads_memory_in_each_iteration(where):
    @tj.kernel(threads=32)
    def doubled(Y: tj.Tensor):
        while True:
            old = Y[0]
            if tj.atomic.cas(Y[0], old, old * 3) == old:
                break

    y = np.ones(1, np.int64)
    doubled[1](y)
    assert y[0] == 3**32
    assert "ld.relaxed.gpu" in doubled.compile(y, target="sm_90a").ptx


def test_indices_are_held_against_their_dimension():
    @tj.kernel(threads=32)
    def kernel(H: tj.Tensor, n: tj.int32):
        tj.atomic.add(H[0, n], 1)

    h = np.zeros((4, 4), np.int32)
    with tj.use_device("sim"):
        kernel[1](h, 3)
        with pytest.raises(tj.OutOfBoundsError, match="index 5 is outside dimension 1 of H, whose extent is 4"):
            kernel[1](h, 5)
    assert h[0, 3] == 32


def test_what_was_there_differs_from_thread_to_thread():
    @tj.kernel(threads=64)
    def kernel(C: tj.Tensor):
        if tj.atomic.add(C[0], 1) == 0:
            tj.cta_sync()

    with pytest.raises(tj.DispatchError, match="cta_sync"):
        kernel.compile(np.zeros(1, np.int32))


def test_an_array_that_only_atomics_write_is_written():
    a = np.zeros(32, np.int32)
    a.flags.writeable = False

    @tj.kernel(threads=32)
    def kernel(C: tj.Tensor):
        tj.atomic.add(C[0], 1)

    with tj.use_device("sim"), pytest.raises(tj.LaunchError, match="read-only"):
        kernel[1](a)


def refused(words, statement, dtype=np.int32, error=tj.KernelTypeError, target="sm_90a"):
    with pytest.raises(error, match=words):
        statement.compile(np.zeros((4, 4), dtype), target=target)


@tj.kernel(threads=32)
def add(X: tj.Tensor):
    tj.atomic.add(X[0, 0], 1)


@tj.kernel(threads=32)
def maximum(X: tj.Tensor):
    tj.atomic.max(X[0, 0], 1)


@tj.kernel(threads=32)
def swap(X: tj.Tensor):
    tj.atomic.cas(X[0, 0], 1, 2)


NARROW = [np.int8, np.uint8, ml_dtypes.float8_e5m2, np.bool_]


@pytest.mark.parametrize("dtype", NARROW, ids=name)
def test_types_without_an_update_are_refused(dtype):
    kind = {"bool": "bool_"}.get(np.dtype(dtype).name, np.dtype(dtype).name)
    refused(f"atomic add does not support {kind}", add, dtype)
    refused(f"atomic max does not support {kind}", maximum, dtype)
    refused(f"atomic cas does not support {kind}", swap, dtype)
    refused("those around a byte may lie past the array", add, dtype)


def test_floats_have_no_compare_and_swap():
    refused("atomic cas does not support float64", swap, np.float64)


def test_a_place_is_one_element_that_others_see():
    @tj.kernel(threads=32)
    def local(X: tj.Tensor):
        r = tj.alloc_local((4,), tj.int32)
        tj.atomic.add(r[0], 1)

    @tj.kernel(threads=32)
    def number(X: tj.Tensor):
        tj.atomic.add(X.shape[0], 1)

    @tj.kernel(threads=32)
    def tile(X: tj.Tensor):
        tj.atomic.add(X[0, 0], tj.warp.load(X[0:4, 0:4], layout=tj.S[(4, 4) : (4 @ tj.laneid, 1 @ tj.laneid)]))

    refused("r is a local buffer; atomics and ordered accesses need", local)
    refused("must be a buffer or a region", number)
    refused("one element takes a scalar", tile)


def test_orders_scopes_and_arguments_that_there_arent_are_refused():
    @tj.kernel(threads=32)
    def order(X: tj.Tensor):
        tj.atomic.add(X[0, 0], 1, order="seq_cst")

    @tj.kernel(threads=32)
    def scope(X: tj.Tensor):
        tj.atomic.add(X[0, 0], 1, scope="warp")

    @tj.kernel(threads=32)
    def cluster(X: tj.Tensor):
        tj.atomic.add(X[0, 0], 1, scope="cluster")

    @tj.kernel(threads=32)
    def few(X: tj.Tensor):
        tj.atomic.cas(X[0, 0], 1)

    @tj.kernel(threads=32)
    def wide(X: tj.Tensor):
        tj.atomic.add(X[0, 0], 2**40)

    refused("'seq_cst' is not a memory order", order)
    refused("'warp' is not a memory scope", scope)
    refused("needs sm_90", cluster, error=tj.DispatchError, target="sm_80")
    refused("needs desired", few)
    refused("doesn't fit in int32", wide)


def test_the_names_are_there():
    assert dir(tj.atomic) == ["add", "and_", "cas", "exch", "max", "min", "or_", "sub", "xor"]
