"""Local tiles at places that are known only at run time, few and many, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilejit as tj
from tests.support.ptxas import ptxas_accepts
from tilejit import S, laneid, tid_in_wg
from tilejit.dtypes import DTYPES, DType, from_numpy
from tilejit.ir.text.printer import to_text
from tilejit.lower import lower

Array = np.ndarray
ALL = sorted(DTYPES)


@pytest.fixture(params=["sim", pytest.param("cuda", marks=pytest.mark.gpu)])
def where(request: pytest.FixtureRequest) -> str:
    """The device that a test runs on, by name."""
    return str(request.param)


def numbers(dtype: DType, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Small integers, which every type holds and which add up exactly."""
    return np.random.default_rng(seed).integers(0, 2 if dtype.kind == "bool" else 4, shape).astype(dtype.numpy)


def same(got: Array, expected: Array) -> bool:
    return got.tobytes() == expected.tobytes()


@tj.kernel(threads=32)
def shuffled(A: tj.Tensor, P: tj.Tensor, Q: tj.Tensor, B: tj.Tensor, N: tj.constexpr):
    """B[lane, i] is the element that was last written to place Q[lane, i] of r."""
    lane = tj.lane_id()
    r = tj.alloc_local((N,), A.dtype)
    for i in range(N):
        r[P[lane, i]] = A[lane, i]
    for i in range(N):
        B[lane, i] = r[Q[lane, i]]


@pytest.mark.parametrize("count", [5, 8, 9, 40])
@pytest.mark.parametrize("name", ALL)
def test_elements_are_written_and_read_in_any_order(where: str, name: str, count: int):
    rng = np.random.default_rng(count)
    a, b = numbers(DTYPES[name], (32, count)), numbers(DTYPES[name], (32, count), 1)
    p, q = (rng.permuted(np.tile(np.arange(count, dtype=np.int32), (32, 1)), axis=1) for _ in range(2))
    with tj.use_device(where):
        shuffled[1](a, p, q, b, N=count)
    r = np.empty_like(a)
    np.put_along_axis(r, p, a, axis=1)
    assert same(b, np.take_along_axis(r, q, axis=1))


@tj.kernel(threads=32)
def through_memory(A: tj.Tensor, B: tj.Tensor, n: tj.int32, m: tj.int32, o: tj.int32):
    t = tj.alloc_local((64, 64), A.dtype)
    s = tj.alloc_shared((8, 64), A.dtype)
    tj.thread.copy(t, A[0:64, 0:64])
    tj.thread.copy(s, t[n : n + 8, :])
    tj.thread.copy(t[m : m + 8, :], s)
    tj.thread.copy(t[o : o + 8, 8:16], A[n : n + 8, 1:9])
    tj.thread.copy(B[64:72, 0:64], t[m + 1 : m + 9, :])
    tj.thread.copy(B[0:64, 0:64], t)


@pytest.mark.parametrize("name", ["bool_", "int8", "bfloat16", "float32", "float8_e4m3fn"])
def test_rows_of_a_large_tile_move_to_and_from_memory(where: str, name: str):
    dtype = DTYPES[name]
    a, b = numbers(dtype, (64, 64)), numbers(dtype, (72, 64), 1)
    with tj.use_device(where):
        through_memory[1](a, b, 3, 41, 56)
    t = a.copy()
    t[41:49] = t[3:11].copy()
    t[56:64, 8:16] = a[3:11, 1:9]
    assert same(b, np.concatenate([t, t[42:50]]))


@tj.kernel(threads=32)
def in_registers(A: tj.Tensor, B: tj.Tensor, n: tj.int32, m: tj.int32, o: tj.int32, H: tj.constexpr, D: tj.constexpr):
    """Overlapping places of one tile as destination and inputs, and a second tile between them."""
    t = tj.alloc_local((H, 4), A.dtype)
    u = tj.alloc_local((D, 4), A.dtype)
    tj.thread.copy(t, A[0:H, 0:4])
    tj.thread.copy(u, t[n : n + D, :])
    tj.thread.maximum(t[n : n + D, :], t[m : m + D, :], t[o : o + D, :])
    tj.thread.copy(t[o : o + D, :], t[m : m + D, :])
    tj.thread.minimum(t[m : m + D, :], t[m : m + D, :], u)
    tj.thread.fill(t[n : n + 1, 1:3], 1)
    tj.thread.copy(B[0:H, 0:4], t)


@given(
    st.sampled_from([n for n in ALL if not n.startswith("float8") and n != "bool_"]),
    st.integers(1, 40), st.integers(1, 24), st.data(),
)
def test_operations_on_rows_at_any_places_give_numpys_result(name: str, spare: int, rows: int, data: st.DataObject):
    height = rows + spare
    n, m, o = (data.draw(st.integers(0, spare)) for _ in range(3))
    a = numbers(DTYPES[name], (height, 4), height)
    b = np.zeros_like(a)
    with tj.use_device("sim"):
        in_registers[1](a, b, n, m, o, H=height, D=rows)
    t, u = a.copy(), a[n : n + rows].copy()
    t[n : n + rows] = np.maximum(t[m : m + rows], t[o : o + rows])
    t[o : o + rows] = t[m : m + rows].copy()
    t[m : m + rows] = np.minimum(t[m : m + rows], u)
    t[n : n + 1, 1:3] = 1
    assert same(b, t)


OWNED = S[(32, 20, 4) : (1 @ laneid, 4, 1)]


@tj.kernel(threads=32)
def owned(A: tj.Tensor, B: tj.Tensor, n: tj.int32, m: tj.int32):
    """A tile spread over a warp: places within what each lane holds, by region and by register."""
    t = tj.alloc_local((32, 20, 4), A.dtype, layout=OWNED)
    s = tj.alloc_shared((32, 8, 4), A.dtype)
    tj.warp.copy(t, A[0:32, 0:20, 0:4])
    tj.warp.copy(s, t[:, n : n + 8, :])
    tj.warp_sync()
    tj.warp.copy(t[:, m : m + 8, :], s)
    mine = t.registers
    flat = mine.view((40, 2))
    first = 22 + tj.lane_id() % 8
    tj.thread.copy(flat[first : first + 1, 1:2], flat[n : n + 1, 0:1])
    mine[7] = mine[79]
    tj.thread.copy(flat[m : m + 6, :], flat[n : n + 6, :])
    tj.warp.copy(B[0:32, 0:20, 0:4], t)


@pytest.mark.parametrize("name", ["bool_", "float8_e5m2", "float16", "int32", "float64"])
def test_tiles_spread_over_a_warp(where: str, name: str):
    a = numbers(DTYPES[name], (32, 20, 4))
    b = np.zeros_like(a)
    with tj.use_device(where):
        owned[1](a, b, 3, 11)
    t = a.copy()
    t[:, 11:19] = t[:, 3:11].copy()
    mine = t.reshape(32, 80)
    mine[np.arange(32), 45 + np.arange(32) % 8 * 2] = mine[:, 6]
    mine[:, 7] = mine[:, 79]
    mine[:, 22:34] = mine[:, 6:18].copy()
    assert same(b, t)


@tj.kernel(threads=32)
def as_bytes(A: tj.Tensor, B: tj.Tensor, n: tj.int32):
    r = tj.alloc_local((24,), tj.float32)
    tj.thread.copy(r, A[0:24])
    seen = r.view(tj.uint8)
    seen[n] = seen[n + 40]
    tj.thread.copy(B[0:24], r)


def test_a_view_of_another_type_sees_the_same_local_memory(where: str):
    a, b = np.random.default_rng(0).random(24, np.float32), np.zeros(24, np.float32)
    with tj.use_device(where):
        as_bytes[1](a, b, 5)
    expected = a.copy()
    expected.view(np.uint8)[5] = expected.view(np.uint8)[45]
    assert same(b, expected)


@tj.kernel(threads=32)
def narrowed(A: tj.Tensor, B: tj.Tensor, n: tj.int32):
    """Pairs of 16-bit elements that begin in the middle of a 32-bit word."""
    t = tj.alloc_local((3, 21), tj.float32)
    h = tj.alloc_local((21, 8), tj.float16)
    tj.thread.fill(h, 2)
    tj.thread.copy(t[0:1, 0:16], A[0:1, 0:16])
    tj.thread.fill(t[1:3, :], 1)
    wide = t[n : n + 1, 0:8]
    tj.thread.cast(h[n : n + 1, :], wide)
    tj.thread.cast(t[n + 1 : n + 2, 3:11], h[n : n + 1, :])
    tj.thread.copy(B[0:1, 0:8], t[n + 1 : n + 2, 3:11])


def test_pairs_may_begin_anywhere(where: str):
    a, b = np.arange(16, dtype=np.float32)[None], np.zeros((1, 8), np.float32)
    with tj.use_device(where):
        narrowed[1](a, b, 0)
    assert same(b, a[:, 0:8])


@tj.kernel(threads=128)
def tensor_memory(A: tj.Tensor, B: tj.Tensor, n: tj.int32, m: tj.int32):
    """Columns of tensor memory to and from registers at any of 33 places; the tile is read without a wait between."""
    r = tj.alloc_local((128, 40), A.dtype, layout=S[(128, 40) : (1 @ tid_in_wg, 1)])
    t = tj.alloc_tmem((128, 8), A.dtype)
    tj.wg.copy(r, A[0:128, 0:40])
    tj.wg.copy_async(t, r[:, n : n + 8])
    tj.tcgen05.wait_st()
    tj.wg.copy_async(r[:, m : m + 8], t)
    tj.tcgen05.wait_ld()
    tj.wg.copy(B[0:128, 0:40], r)


def test_tensor_memory_goes_through_registers():
    a = numbers(tj.float32, (128, 40))
    b = np.zeros_like(a)
    with tj.use_device("sim:sm_100a"):
        tensor_memory[1](a, b, 3, 22)
    expected = a.copy()
    expected[:, 22:30] = a[:, 3:11]
    assert same(b, expected)
    compiled = tensor_memory.compile(a, b, 3, 22, target="sm_100a")
    assert "tcgen05.ld.32x32b.x8 tcgen05" in compiled.lane_ir, compiled.lane_ir
    ptxas_accepts(compiled.ptx, "sm_100a")


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a", "sm_100a"])
def test_ptxas_accepts_local_memory(target: str):
    for dtype in (tj.bool_, tj.bfloat16, tj.float32):
        whole, part = tj.spec((64, 64), dtype), tj.spec((72, 64), dtype)
        compiled = through_memory.compile(whole, part, 3, 41, 56, target=target)
        assert "ld.local" in compiled.ptx and "st.local" in compiled.ptx
        ptxas_accepts(compiled.ptx, target)


def test_an_index_outside_all_local_memory_is_reported():
    a, b = np.zeros((32, 40), np.float32), np.zeros((32, 40), np.float32)
    p = np.tile(np.arange(40, dtype=np.int32), (32, 1))
    for outside in (-1, 40, 1 << 28):
        q = p.copy()
        q[7, 3] = outside
        with tj.use_device("sim"), pytest.raises(tj.OutOfBoundsError, match="local"):
            shuffled[1](a, p, q, b, N=40)


def test_an_element_that_nothing_wrote_is_reported():
    a, b = np.zeros((32, 40), np.float32), np.zeros((32, 40), np.float32)
    q = np.tile(np.arange(40, dtype=np.int32), (32, 1))
    p = q.copy()
    p[7, 3] = 4
    with tj.use_device("sim"), pytest.raises(tj.UninitializedReadError, match="local"):
        shuffled[1](a, p, q, b, N=40)


def lowered(compiled: tj.Compiled) -> list[str]:
    """The lines of lane IR as it is lowered, before unrolled loops are written out."""
    return to_text(lower(compiled.derivation.tile, compiled.target).kernel).splitlines()


# from 32 tests a thread on a mask's window is clamped first: the sizes of one row are on one side of that
@pytest.mark.parametrize("heights", [(18, 20), (100, 300, 1000)])
def test_a_tiles_size_does_not_decide_how_much_code_there_is(heights: tuple[int, ...]):
    lengths = set()
    for height in heights:
        spec = tj.spec((height, 4), tj.float32)
        compiled = in_registers.compile(spec, spec, 3, 7, 9, H=height, D=9, target="sm_90a")
        lengths.add(len(lowered(compiled)))
        assert len(compiled.ptx.splitlines()) < 1500
        assert from_numpy(np.dtype(np.float32)).bytes * height * 4 <= compiled.local_bytes
    assert len(lengths) == 1


def test_a_product_of_a_few_starts_is_not_many_copies():
    spec = tj.spec((13, 4), tj.float32)
    compiled = in_registers.compile(spec, spec, 3, 4, 0, H=13, D=8, target="sm_90a")
    assert len(lowered(compiled)) < 120


def test_explain_names_the_line_and_the_bytes():
    spec = tj.spec((32, 40), tj.float32)
    index = tj.spec((32, 40), tj.int32)
    compiled = shuffled.compile(spec, index, index, spec, N=40, target="sm_90a")
    assert compiled.local_bytes == 160
    assert "r is in local memory, 160 bytes per thread" in str(compiled.explain())
    few = shuffled.compile(spec, index, index, spec, N=8, target="sm_90a")
    assert few.local_bytes == 0 and ".local" not in few.ptx and "local memory" not in str(few.explain())


@tj.kernel(threads=32)
def too_large(A: tj.Tensor, n: tj.int32):
    small = tj.alloc_local((500,), tj.float32)
    large = tj.alloc_local((4000,), tj.float32)
    small[n] = 1
    large[n] = 2
    A[0] = small[n + 1] + large[n + 1]


def test_more_local_memory_than_a_thread_has_names_the_buffers():
    with pytest.raises(tj.ResourceError, match=r"18,000 bytes of local memory .* Largest: large 16,000, small 2,000"):
        too_large.compile(tj.spec((4,), tj.float32), 3, target="sm_90a")
