"""Tiles as values, whole kernels on the simulator against NumPy: layouts are the compiler's."""

from __future__ import annotations

import numpy as np
import pytest

import tilejit as tj
from tests.support.programs import source_of


@tj.kernel(threads=128)
def softmax(X: tj.Tensor, Y: tj.Tensor, N: tj.constexpr):
    row = tj.cta_id(0)
    x = tj.cta.load(X[row, 0:N], fill=-tj.inf).astype(tj.float32)
    e = tj.exp(x - tj.max(x))
    tj.cta.store(Y[row, 0:N], (e / tj.sum(e)).astype(Y.dtype))


@pytest.mark.parametrize(
    ("count", "dtype"), [(1000, np.float16), (997, np.float32), (3, np.float32), (128, np.float16)]
)
def test_softmax_of_rows_of_any_length(count, dtype):
    x = np.random.default_rng(count).standard_normal((3, count)).astype(dtype)
    y = np.full_like(x, np.nan)
    with tj.use_device("sim"):
        softmax[3](x, y, N=count)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=2e-3 if dtype == np.float16 else 1e-5, atol=1e-6)


@tj.kernel(threads=128)
def normalised(X: tj.Tensor, gain: tj.Tensor, Y: tj.Tensor, totals: tj.Tensor):
    x = tj.cta.load(X[0:32, 0:48])
    mean = tj.sum(x, axis=1, keepdims=True) / 48
    d = x - mean
    y = d * tj.rsqrt(tj.sum(d * d, axis=-1, keepdims=True) / 48 + 1e-5) * tj.cta.load(gain[0:48])
    tj.cta.store(Y[0:32, 0:48], y)
    total = tj.sum(y * y)
    if total > 10:
        totals[0] = total
        totals[1] = tj.max(mean)


def test_rows_are_normalised_and_single_values_stored():
    random = np.random.default_rng(0)
    x, gain = random.standard_normal((32, 48), np.float32), random.random(48, np.float32)
    y, totals = np.zeros_like(x), np.zeros(2, np.float32)
    with tj.use_device("sim"):
        normalised[1](x, gain, y, totals)
    mean = x.mean(1, keepdims=True)
    d = x - mean
    wanted = d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5) * gain
    np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(totals, [(wanted * wanted).sum(), mean.max()], rtol=1e-5)


@tj.kernel(threads=64)
def masked(X: tj.Tensor, Y: tj.Tensor, n: tj.int32):
    column = tj.cta.indices((7, 13), axis=1)
    x = tj.cta.load(X[0:7, 0:13], mask=column < n, fill=-1)
    row = tj.cta.indices((7, 13), 0)
    tj.cta.store(Y[0:7, 0:13], x + row * 100, mask=(row != 2) & (column > 0))


@pytest.mark.parametrize("n", [0, 5, 13])
def test_masks_and_indices(n):
    x, y = np.arange(91, dtype=np.int32).reshape(7, 13), np.full((7, 13), -7, np.int32)
    with tj.use_device("sim"):
        masked[1](x, y, n)
    row, column = np.indices((7, 13))
    wanted = np.where((row != 2) & (column > 0), np.where(column < n, x, -1) + row * 100, -7)
    np.testing.assert_array_equal(y, wanted)


@tj.kernel(threads=64)
def conditioned(X: tj.Tensor, Y: tj.Tensor, n: tj.int32):
    x = tj.cta.load(X[0:100], mask=n > 0, fill=7)
    tj.cta.store(Y[0:100], x, mask=tj.any(x == 7))
    tj.cta.store(Y[100:200], x + 1, mask=False)
    tj.cta.store(Y[200:300], x - 1, mask=None)


@pytest.mark.parametrize("n", [0, 1])
def test_one_condition_is_a_mask(n):
    x, y = np.arange(100, dtype=np.int32) + 8 * n, np.zeros(300, np.int32)
    with tj.use_device("sim"):
        conditioned[1](x, y, n)
    loaded = x if n else np.full(100, 7)
    np.testing.assert_array_equal(y, [*(loaded if 7 in loaded else [0] * 100), *[0] * 100, *(loaded - 1)])


@tj.kernel(threads=32)
def in_a_given_layout(X: tj.Tensor, Y: tj.Tensor, n: tj.int32):
    x = tj.warp.load(X[0:32, 0:8], layout=tj.S[(32, 8) : (1 @ tj.laneid, 1)])
    for _ in range(n):
        x = x * 2
    tj.warp.store(Y[0:32, 0:8], x)


def test_registers_that_only_change_their_names_are_not_explained():
    x, y = np.arange(256, dtype=np.int32).reshape(32, 8), np.zeros((32, 8), np.int32)
    with tj.use_device("sim"):
        in_a_given_layout[1](x, y, 3)
    np.testing.assert_array_equal(y, 8 * x)
    compiled = in_a_given_layout.compile(x, y, 3, target="sm_90a")
    assert [row.operation for row in compiled.explain().rows] == ["warp.copy", "warp.mul", "warp.copy"]
    assert [verdict.op.name for verdict in compiled.verdicts] == ["copy", "cast", "mul", "copy"]


@tj.kernel(threads=64)
def loops(X: tj.Tensor, Y: tj.Tensor, n: tj.int32):
    x = tj.cta.load(X[0:9, 0:20])
    old, y = x, x * 2
    for i in range(n):
        if i == 3:
            break
        old, y = y, old + y
        x += tj.where(y > 100, y, 0)
    tj.cta.store(Y[0:9, 0:20], x)
    tj.cta.store(Y[9:18, 0:20], y if n > 1 else old)


@pytest.mark.parametrize("n", [0, 1, 2, 9])
def test_values_round_a_loop(n):
    x, y = np.arange(180, dtype=np.int32).reshape(9, 20), np.zeros((18, 20), np.int32)
    with tj.use_device("sim"):
        loops[1](x, y, n)
    new, old, z = x, x, x * 2
    for _ in range(min(n, 3)):
        old, z = z, old + z
        new = new + np.where(z > 100, z, 0)
    np.testing.assert_array_equal(y, np.concatenate([new, z if n > 1 else old]))


@tj.kernel(threads=64)
def counted(X: tj.Tensor, Y: tj.Tensor):
    x = tj.cta.load(X[0:100])
    most = tj.max(x)
    print("most", most)
    for k in range(most):
        Y[k] = min(k, tj.sum(x))
    while tj.any(x > 1):
        x -= 1
    tj.cta.store(Y[8:108], x)


def test_single_values_bound_loops_and_are_printed(capsys):
    x, y = np.arange(100, dtype=np.int32) % 8 - 3, np.full(108, -9, np.int32)
    with tj.use_device("sim"):
        counted[1](x, y)
    np.testing.assert_array_equal(y, [*range(4), *[-9] * 4, *(x - 3)])
    assert set(capsys.readouterr().out.splitlines()) == {"most 4"}


@tj.kernel(threads=128)
def product(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, K: tj.constexpr):
    acc = tj.cta.zeros((32, 32), tj.float32)
    for k in range(0, K, 16):
        acc += tj.cta.load(A[0:32, k : k + 16]) @ tj.cta.load(B[k : k + 16, 0:32])
    tj.cta.store(C[0:32, 0:32], acc)


def test_a_product_of_open_tiles():
    random = np.random.default_rng(0)
    a, b = random.integers(-3, 4, (32, 48)).astype(np.float16), random.integers(-3, 4, (48, 32)).astype(np.float16)
    c = np.zeros((32, 32), np.float32)
    with tj.use_device("sim"):
        product[1](a, b, c, K=48)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
    tiles = [op.operation for op in product.explain(a, b, c, K=48, target="sm_90a").rows]
    assert tiles == ["cta.fill", "cta.copy", "cta.copy", "cta.gemm", "cta.copy"]


@tj.kernel(threads=32)
def asked(X: tj.Tensor, Y: tj.Tensor):
    x = tj.warp.load(X[0:32, 0:4])
    tj.static_assert(x.scope == tj.warp)
    tj.static_assert(x.layout.size() == 128)
    own = x.registers
    total = own[0]
    for k in tj.static_range(1, 4):
        total += own[k]
    Y[tj.lane_id()] = total
    tj.warp.store(X[0:32, 0:4], x.T.T + 1)


def test_a_tile_that_is_asked_for_its_registers_is_laid_out():
    x, y = np.arange(128, dtype=np.float32).reshape(32, 4), np.zeros(32, np.float32)
    wanted = x.copy()
    with tj.use_device("sim"):
        asked[1](x, y)
    np.testing.assert_array_equal(y, wanted.sum(1))
    np.testing.assert_array_equal(x, wanted + 1)


@tj.kernel(threads=64)
def parts(X: tj.Tensor, Y: tj.Tensor):
    x = tj.cta.load(X[0:16, 0:32])
    a, b = tj.split(x, 2, axis=1)
    tj.cta.store(Y[0:16, 0:32], tj.cat(a - b, b * a, 1))
    tj.cta.store(Y[16:32, 0:16], x[:, 16:32] + x[:, 0:1])
    tj.cta.store(Y[16:32, 16:32], tj.cat(a, b, 0)[8:24, :].reshape((16, 1, 16))[:, 0])


def test_parts_and_tiles_side_by_side():
    x, y = np.arange(512, dtype=np.float32).reshape(16, 32), np.zeros((32, 32), np.float32)
    with tj.use_device("sim"):
        parts[1](x, y)
    a, b = np.split(x, 2, axis=1)
    np.testing.assert_array_equal(y[:16], np.concatenate([a - b, b * a], 1))
    np.testing.assert_array_equal(y[16:, :16], x[:, 16:] + x[:, :1])
    np.testing.assert_array_equal(y[16:, 16:], np.concatenate([a, b])[8:24])


@tj.kernel(threads=64)
def online(X: tj.Tensor, Y: tj.Tensor, n: tj.int32):
    greatest, total, halves = -1e30, tj.float32(0), 0.0
    least = tj.min(tj.cta.load(X[0:100]))
    for k in range(n):
        x = tj.cta.load(X[k * 100 : k * 100 + 100])
        before, greatest = greatest, max(greatest, tj.max(x))
        total = total * tj.exp(before - greatest) + tj.sum(tj.exp(x - greatest))
        halves += tj.sum(x.astype(tj.float16))
        least = min(least, tj.min(x))
    if n > 1:
        first = tj.sum(tj.cta.load(X[0:100]))
    else:
        first = -1.0
    tj.cta.store(Y[0:100], tj.exp(tj.cta.load(X[0:100]) - greatest) / total)
    Y[100] = greatest
    Y[101] = halves
    Y[102] = least
    Y[103] = first


@pytest.mark.parametrize("n", [1, 3])
def test_tiles_of_one_element_combine_with_numbers(n):
    x, y = np.random.default_rng(n).standard_normal(300, np.float32), np.zeros(104, np.float32)
    with tj.use_device("sim"):
        online[1](x, y, n)
    seen = x[: 100 * n]
    e = np.exp(seen - seen.max())
    np.testing.assert_allclose(y[:100], e[:100] / e.sum(), rtol=1e-5)
    halves = sum(seen[k : k + 100].astype(np.float16).sum(dtype=np.float32) for k in range(0, 100 * n, 100))
    np.testing.assert_allclose(
        y[100:], [seen.max(), halves, seen.min(), x[:100].sum() if n > 1 else -1], rtol=2e-3, atol=2e-3
    )


@tj.kernel(threads=64)
def either(X: tj.Tensor, Y: tj.Tensor, n: tj.int32):
    total = tj.sum(tj.cta.load(X[0:64]))
    Y[0] = total if n > 1 else n
    Y[1] = -1 if n > 1 else total
    for k in range(n):
        Y[2 + k] = total if k % 2 == 0 else k


@pytest.mark.parametrize("n", [1, 3])
def test_a_tile_of_one_element_or_a_number_is_chosen_in_an_expression(n):
    x, y = np.arange(64, dtype=np.int32), np.zeros(5, np.int32)
    with tj.use_device("sim"):
        either[1](x, y, n)
    assert y.tolist() == [2016 if n > 1 else n, -1 if n > 1 else 2016, *[2016, 1, 2016][:n], *[0] * (3 - n)]


@tj.kernel(threads=32)
def of_one_warp(X: tj.Tensor, Y: tj.Tensor, n: tj.int32):
    given = tj.cta.load(X[0:32, 0:8], layout=tj.S[(32, 8) : (1 @ tj.laneid, 1)])
    own, all = tj.warp.load(X[32:64, 0:8]), tj.cta.load(X[64:96, 0:8])
    tj.cta.store(Y[0:32, 0:8], given if n > 1 else all)
    first, second = (own, all) if n > 1 else (all, own)
    tj.cta.store(Y[32:64, 0:8], first - 2 * second)
    if n > 1:
        found = given
    else:
        found = all
    for k in range(n):
        if k == 2:
            found = own
            continue
        found, own = own, found + k
    tj.cta.store(Y[64:96, 0:8], found)
    tj.cta.store(Y[0:32, 8:9], tj.sum(own if n > 1 else all, axis=1, keepdims=True))


@pytest.mark.parametrize("n", [1, 4])
def test_tiles_of_a_warp_and_of_its_cta_combine(n):
    x, y = np.arange(96 * 8, dtype=np.int32).reshape(96, 8), np.zeros((96, 9), np.int32)
    with tj.use_device("sim"):
        of_one_warp[1](x, y, n)
    given, own, all = x[:32], x[32:64], x[64:]
    first, second = (own, all) if n > 1 else (all, own)
    found = given if n > 1 else all
    for k in range(n):
        found, own = (own, own) if k == 2 else (own, found + k)
    np.testing.assert_array_equal(y[:32, :8], given if n > 1 else all)
    np.testing.assert_array_equal(y[32:64, :8], first - 2 * second)
    np.testing.assert_array_equal(y[64:, :8], found)
    np.testing.assert_array_equal(y[:32, 8], (own if n > 1 else all).sum(axis=1))


@tj.kernel(threads=32)
def by_one_warp(X: tj.Tensor, Y: tj.Tensor):
    x = tj.cta.load(X[0:32, 0:8])
    tj.warp.store(Y[0:32, 0:8], x + tj.warp.full((32, 8), 2, tj.int32), mask=tj.warp.indices((32, 8), 0) < 30)
    tj.warp.store(Y[0:32, 8:9], tj.sum(x * tj.warp.load(X[32:64, 0:8]), axis=1)[:, None])


def test_a_warp_operates_on_tiles_of_its_cta():
    x, y = np.arange(64 * 8, dtype=np.int32).reshape(64, 8), np.zeros((32, 9), np.int32)
    with tj.use_device("sim"):
        by_one_warp[1](x, y)
    np.testing.assert_array_equal(y[:, :8], np.where(np.arange(32)[:, None] < 30, x[:32] + 2, 0))
    np.testing.assert_array_equal(y[:, 8], (x[:32] * x[32:]).sum(axis=1))


@tj.kernel(threads=1)
def of_one_thread(X: tj.Tensor, Y: tj.Tensor, n: tj.int32):
    own = tj.alloc_local((2, 8), X.dtype)
    tj.thread.copy(own, X[0:2, 0:8])
    tj.cta.store(Y[0:2, 0:8], own if n > 1 else tj.cta.load(X[2:4, 0:8]))


@pytest.mark.parametrize("n", [1, 2])
def test_tiles_of_a_thread_and_of_its_cta_combine(n):
    x, y = np.arange(32, dtype=np.int32).reshape(4, 8), np.zeros((2, 8), np.int32)
    with tj.use_device("sim"):
        of_one_thread[1](x, y, n)
    np.testing.assert_array_equal(y, x[:2] if n > 1 else x[2:])


@tj.kernel(threads=64)
def placed(X: tj.Tensor, Y: tj.Tensor, places: tj.Tensor):
    found, given = tj.argmax(tj.cta.load(X[0:64])), tj.cta.load(places[1])
    x, twice = tj.cta.load(X[0:64]), given * 2
    tj.cta.store(Y[0:4], tj.cta.load(X[found : found + 4]))
    tj.cta.store(Y[4:8], tj.cta.load(X[found - 4 : found]))
    tj.cta.store(Y[8:12], tj.cta.load(X[4 * given : 4 * (given + 1)]))
    tj.cta.store(Y[12:16], x[twice + 1 : 4 + twice + 1])
    tj.cta.store(Y[given + 13 : given + 17], x[given : given + 4])
    tj.cta.store(Y[26 + given - found : 30 + given - found], x[0:4])


def test_a_tile_of_one_element_places_a_slice():
    x, y = np.arange(64, dtype=np.int32), np.zeros(24, np.int32)
    x[9], places = 99, np.array([7, 3], np.int64)
    with tj.use_device("sim"):
        placed[1](x, y, places)
    expected = np.zeros(24, np.int32)
    expected[:16] = [*x[9:13], *x[5:9], *x[12:16], *x[7:11]]
    expected[16:20] = x[3:7]
    expected[20:24] = x[0:4]
    np.testing.assert_array_equal(y, expected)


@tj.kernel(threads=64)
def widened(X: tj.Tensor, Y: tj.Tensor, n: tj.int32, scale: tj.float32):
    total = 0.0
    for _ in range(n):
        total += tj.sum(tj.cta.load(X[0:64]))
    Y[0] = total
    single = tj.max(tj.cta.load(X[0:64])) * scale
    tj.static_assert(single.dtype == tj.float32)
    tj.static_assert((tj.cta.load(X[0:64]) * scale).dtype == tj.float16)
    Y[1] = single


def test_tiles_of_one_element_promote_with_scalars_as_scalars_do():
    x, y = np.full(64, 33, np.float16), np.zeros(2, np.float32)
    with tj.use_device("sim"):
        widened[1](x, y, 101, 1 / 3)
    # float16 would stop at 65504, and round to multiples of 32 before that
    np.testing.assert_array_equal(y, [101 * 64 * 33, np.float32(33) * np.float32(1 / 3)])


@tj.kernel(threads=128)
def thin_parts(X: tj.Tensor, Y: tj.Tensor, most: tj.Tensor):
    x = tj.cta.load(X[0:67, 0:33])
    _, b, c = tj.split(x, 3, axis=1)
    tj.cta.store(Y[0:67, 0:1], tj.sum(b, axis=1, keepdims=True))
    tj.cta.store(Y[0:67, 1:12], c, mask=tj.cta.indices((67, 11), 1) < 5)
    tj.cta.store(Y[0:67, 12:15], x[:, 5:8])
    tj.cta.store(most[0:3], tj.max(x[:, 7:10], axis=0))
    tj.cta.store(most[3:4], tj.argmax(x[:, 7]).astype(tj.float32)[None])


def test_parts_that_some_threads_have_alone_are_converted():
    x = np.random.default_rng(0).integers(-8, 9, (67, 33)).astype(np.float32)
    y, most = np.zeros((67, 15), np.float32), np.zeros(4, np.float32)
    with tj.use_device("sim"):
        thin_parts[1](x, y, most)
    wanted = np.zeros_like(y)
    wanted[:, 0], wanted[:, 1:6], wanted[:, 12:] = x[:, 11:22].sum(1), x[:, 22:27], x[:, 5:8]
    np.testing.assert_array_equal(y, wanted)
    np.testing.assert_array_equal(most, [*x[:, 7:10].max(0), x[:, 7].argmax()])


@tj.kernel(threads=32)
def other_shapes(X: tj.Tensor, Y: tj.Tensor):
    x = tj.cta.load(X[0:24, 0:10])
    tj.cta.store(Y[0:240], x.reshape((240,)) + x[:, 0:5].reshape((2, -1)).T.reshape((120,)).reshape((1, 120))[0, 7:8])
    own = tj.thread.load(X[0:3, 0:4])
    tj.thread.store(Y[240:244], own[1:2, :].reshape((4, 1, 1)))
    tj.thread.store(Y[244:245], tj.sum(own, keepdims=True))


def test_other_shapes_are_conversions():
    x, y = np.arange(240, dtype=np.float32).reshape(24, 10), np.zeros(245, np.float32)
    with tj.use_device("sim"):
        other_shapes[1](x, y)
    seventh = x[:, :5].reshape(2, -1).T.reshape(120)[7]
    np.testing.assert_array_equal(y, [*(x.ravel() + seventh), *x[1, :4], x[:3, :4].sum()])


@tj.kernel(threads=32)
def half_matrices(X: tj.Tensor, Y: tj.Tensor):
    staged = tj.alloc_shared((12, 4), X.dtype)
    tj.warp.copy(staged, X[0:12, 0:4])
    tj.warp_sync()
    tj.warp.store(staged[0:11, :], tj.warp.load(X[0:11, 0:4]) * 2)
    tj.warp_sync()
    tj.warp.store(Y[0:11, 0:4], tj.warp.load(staged[0:11, :]) + 1)
    tj.warp.copy(Y[11:12, 0:4], staged[11:12, :])


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_memory_after_a_tile_with_padding_stays_unchanged(target):
    x, y = np.arange(48, dtype=np.float16).reshape(12, 4), np.zeros((12, 4), np.float16)
    with tj.use_device(f"sim:{target}"):
        half_matrices[1](x, y)
    np.testing.assert_array_equal(y, [*(2 * x[:11] + 1), x[11]])


@tj.kernel(threads=128)
def indices_in_parts_and_turned(Out: tj.Tensor):
    x, v = tj.cta.indices((16, 16), 1), tj.cta.indices((16,), 0)
    tj.cta.store(Out[0, 0:16, 0:16], x + x.T * 100)
    tj.cta.store(Out[1, 0:16, 0:16], x - x[:, 12:13])
    tj.cta.store(Out[2, 0:16, 0:16], v[:, None] * 100 + v[None, :])
    tj.cta.store(Out[3, 0:16, 0:16], x * v[5:6])


def test_indices_that_are_made_again_are_those_of_the_part():
    o, i = np.zeros((4, 16, 16), np.int32), np.arange(16)
    with tj.use_device("sim"):
        indices_in_parts_and_turned[1](o)
    row, column = i[:, None], np.broadcast_to(i, (16, 16))
    wanted = np.stack([column + 100 * row, column - 12, 100 * row + i, column * 5])
    np.testing.assert_array_equal(o, wanted)


@tj.kernel(threads=64)
def squares(X: tj.Tensor, Y: tj.Tensor):
    Y[0, tj.thread_id()] = X[tj.thread_id()] ** 2
    tj.cta.store(Y[1, 0:64], tj.cta.load(X[0:64]) ** 2)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.uint16, np.int32, np.int64])
def test_a_square_is_a_product(dtype):
    bits = np.random.default_rng(7).integers(0, 256, 64 * np.dtype(dtype).itemsize, dtype=np.uint8)
    x = bits.view(dtype)
    x[:3] = 0, 1, 3
    if np.dtype(dtype).kind == "f":
        x[3:8] = -0.0, np.inf, -np.inf, np.nan, np.finfo(dtype).smallest_subnormal
    y = np.zeros((2, 64), dtype)
    with tj.use_device("sim"):
        squares[1](x, y)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(y, np.stack([x * x, x * x]))
    instructions = squares.compile(x, y, target="sm_90a").ptx.count(";\n")
    assert instructions < 60


ZEROS = (0.0, -0.0)
#: statements that give x and y one of two zeros each, by a run-time condition
JOINS = (
    "x = tj.float32(0.0)\n    y = tj.float32(-0.0)\n    if n > 0:\n"
    "        x = tj.float32(-0.0)\n        y = tj.float32(0.0)",
    "x = 0.0\n    y = -0.0\n    for _ in range(n):\n        x = -0.0\n        y = 0.0",
    "x = tj.where(n > 0, -0.0, 0.0)\n    y = tj.where(n > 0, 0.0, -0.0)",
    "x = F * (-0.0 if n > 0 else 0.0)\n    y = F * (0.0 if n > 0 else -0.0)",
    "x = tj.where(n > 0, F * -0.0, F * 0.0)\n    y = tj.where(n > 0, F * 0.0, F * -0.0)",
    "c = P\n    if n > 0:\n        c = Q\n    x = c[0]\n    y = c[1]",
    "x = tj.float64(0.0)\n    y = tj.float64(-0.0)\n    if n > 0:\n"
    "        x = tj.float64(-0.0)\n        y = tj.float64(0.0)",
)


@pytest.mark.parametrize("statements", JOINS)
@pytest.mark.parametrize("n", [0, 1])
def test_signed_zeros_differ_where_paths_join(statements: str, n: int) -> None:
    text = f"""
def k(O, n: tj.int32):
    F = tj.float32(n * n + 1)
    {statements}
    O[0] = x
    O[1] = y
"""
    out = np.ones(2)
    with tj.use_device("sim"):
        tj.kernel(threads=1)(source_of(text, P=ZEROS, Q=ZEROS[::-1]))[1](out, n)
    assert np.signbit(out).tolist() == [n > 0, n == 0]
