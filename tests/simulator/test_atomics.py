"""Atomic updates: totals, the values that threads find, and every operation and type."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from tests.simulator.small_kernels import simulate

START = "mov.u32 %r1, %tid.x; ld.param.u64 %x1, [p0]; ld.param.u64 %x2, [p1]; ld.param.u64 %x3, [p2];\n"


def update(op, t, memory, index, values, second=None):
    """Thread i updates memory[index[i]] with values[i]; returns what each thread found."""
    size = memory.dtype.itemsize
    register = {2: "h", 4: "r", 8: "x"}[size]
    found = np.zeros(index.size, memory.dtype)
    extra = "" if second is None else f", %{register}11"
    load = "" if second is None else (
        f"ld.param.u64 %x8, [p4]; mad.wide.u32 %x8, %r1, {size}, %x8; ld.global.b{8 * size} %{register}11, [%x8];")
    body = START + f"""
    ld.param.u64 %x4, [p3]; {load}
    mad.wide.u32 %x5, %r1, 4, %x2; ld.global.u32 %r2, [%x5]; mad.wide.u32 %x5, %r2, {size}, %x1;
    mad.wide.u32 %x6, %r1, {size}, %x3; ld.global.b{8 * size} %{register}10, [%x6];
    atom.global.{op}.{t} %{register}12, [%x5], %{register}10{extra};
    mad.wide.u32 %x7, %r1, {size}, %x4; st.global.b{8 * size} [%x7], %{register}12; ret;
    """
    arrays = [memory, index.astype("u4"), values, found] + ([] if second is None else [second])
    simulate(body, *arrays, block=index.size)
    return found


OPERATIONS = [
    ("add", "u32", "u4"), ("add", "s32", "i4"), ("add", "u64", "u8"), ("add", "f32", "f4"), ("add", "f64", "f8"),
    ("min", "s32", "i4"), ("max", "u32", "u4"), ("min", "u64", "u8"), ("max", "s64", "i8"), ("and", "b32", "u4"),
    ("or", "b64", "u8"), ("xor", "b32", "u4"), ("exch", "b32", "u4"), ("exch", "b64", "u8"), ("inc", "u32", "u4"),
    ("dec", "u32", "u4"), ("add.noftz", "f16", "f2"),
]
STEP = {
    "add": lambda old, v: old + v, "min": min, "max": max, "and": lambda old, v: old & v, "or": lambda old, v: old | v,
    "xor": lambda old, v: old ^ v, "exch": lambda old, v: v, "inc": lambda old, v: 0 * old if old >= v else old + 1,
    "dec": lambda old, v: v if old == 0 or old > v else old - 1,
}


@pytest.mark.parametrize("op, t, dtype", OPERATIONS)
@pytest.mark.parametrize("places", [1, 5, 128])
def test_threads_update_one_by_one_in_ascending_order(op, t, dtype, places):
    rng = np.random.default_rng(0)
    n = 128
    index = rng.integers(0, places, n) if places < n else rng.permutation(n)
    memory = rng.integers(0, 50, max(places, n)).astype(dtype)
    values = rng.integers(0, 60, n).astype(dtype)
    expected, seen = memory.copy(), []
    for i, v in zip(index, values, strict=True):
        seen.append(expected[i])
        expected[i] = STEP[op.split(".")[0]](expected[i], v)
    found = update(op, t, memory, index, values)
    assert (memory == expected).all()
    assert found.tolist() == [x.item() for x in seen]


def test_compare_and_swap_succeeds_once():
    memory = np.zeros(4, "u4")
    index = np.zeros(64, int)
    found = update("cas", "b32", memory, index, np.zeros(64, "u4"), np.arange(100, 164, dtype="u4"))
    assert memory.tolist() == [100, 0, 0, 0]
    assert found.tolist() == [0] + [100] * 63


@pytest.mark.parametrize("t, kind", [("f16x2", "f2"), ("bf16x2", ml_dtypes.bfloat16)])
def test_packed_sums(t, kind):
    memory = np.arange(4).astype(kind).view("u4").copy()
    values = np.ones(2 * 32).astype(kind).view("u4").copy()
    update("add.noftz", t, memory, np.zeros(32, int), values)
    assert memory.view(kind).astype("f4").tolist() == [32, 33, 2, 3]


def test_reductions_without_result_to_shared_memory():
    body = """
    .shared .align 4 .b8 total[4];
    mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [total], 0; bar.sync 0;
    red.shared.add.u32 [total], %r1; bar.sync 0;
    ld.shared.u32 %r2, [total]; ld.param.u64 %x1, [p0]; mad.wide.u32 %x2, %r1, 4, %x1; st.global.u32 [%x2], %r2; ret;
    """
    out = np.zeros(256, "u4")
    simulate(body, out, block=256)
    assert out.tolist() == [sum(range(256))] * 256


def test_a_lock_is_taken_by_one_thread_at_a_time():
    body = """
    mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 31; ld.param.u64 %x1, [p0]; ld.param.u64 %x2, [p1];
    setp.ne.u32 %p1, %r2, 0; @%p1 bra END;
    SPIN: atom.acquire.gpu.global.cas.b32 %r3, [%x1], 0, 1; setp.ne.u32 %p2, %r3, 0; @%p2 bra SPIN;
    fence.acq_rel.gpu; ld.global.u32 %r4, [%x2]; add.u32 %r4, %r4, 1; st.global.u32 [%x2], %r4; fence.acq_rel.gpu;
    atom.release.gpu.global.exch.b32 %r5, [%x1], 0;
    END: ret;
    """
    lock, count = np.zeros(1, "u4"), np.zeros(1, "u4")
    simulate(body, lock, count, grid=7, block=128)
    assert (lock[0], count[0]) == (0, 28)


def test_the_last_cta_sums_what_the_others_left():
    body = """
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; ld.param.u64 %x1, [p0]; ld.param.u64 %x2, [p1]; ld.param.u64 %x3, [p2];
    setp.ne.u32 %p1, %r1, 0; @%p1 bra END;
    mad.wide.u32 %x4, %r2, 4, %x1; add.u32 %r3, %r2, 1; st.global.u32 [%x4], %r3; fence.acq_rel.gpu;
    atom.global.add.u32 %r4, [%x2], 1; setp.ne.u32 %p2, %r4, 9; @%p2 bra END;
    fence.acq_rel.gpu; mov.u32 %r5, 0; mov.u32 %r6, 0;
    LOOP: mad.wide.u32 %x5, %r5, 4, %x1; ld.global.u32 %r7, [%x5]; add.u32 %r6, %r6, %r7; add.u32 %r5, %r5, 1;
    setp.lt.u32 %p3, %r5, 10; @%p3 bra LOOP; st.global.u32 [%x3], %r6;
    END: ret;
    """
    parts, counter, total = np.zeros(10, "u4"), np.zeros(1, "u4"), np.zeros(1, "u4")
    simulate(body, parts, counter, total, grid=10)
    assert total[0] == 55


@pytest.mark.parametrize("op", ["add", "min", "max", "and", "or", "xor", "exch", "inc", "dec"])
@pytest.mark.parametrize("places", [1, 3, 100])
def test_contended_updates_are_those_of_the_threads_one_by_one(op, places):
    rng = np.random.default_rng(places)
    start, where = rng.integers(0, 2**32, 128, "u4"), rng.integers(0, places, 256, "u4")
    values = rng.integers(0, 2**32, 256, "u4")
    memory, old = start.copy(), np.zeros(256, "u4")
    body = f"""
    mov.u32 %r1, %tid.x; ld.param.u64 %x1, [p0]; ld.param.u64 %x2, [p1]; ld.param.u64 %x3, [p2]; ld.param.u64 %x4, [p3];
    mad.wide.u32 %x2, %r1, 4, %x2; mad.wide.u32 %x3, %r1, 4, %x3; mad.wide.u32 %x4, %r1, 4, %x4;
    ld.global.u32 %r2, [%x2]; ld.global.u32 %r3, [%x3]; mad.wide.u32 %x1, %r2, 4, %x1;
    atom.global.{op}.{"b32" if op in ("and", "or", "xor", "exch") else "u32"} %r4, [%x1], %r3;
    st.global.u32 [%x4], %r4; ret;
    """
    simulate(body, memory, where, values, old, block=256)
    update = {
        "add": lambda a, b: (a + b) % 2**32, "min": min, "max": max, "and": lambda a, b: a & b,
        "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "exch": lambda a, b: b,
        "inc": lambda a, b: 0 if a >= b else a + 1, "dec": lambda a, b: b if a == 0 or a > b else a - 1,
    }[op]
    longhand, seen = [int(x) for x in start], []
    for i, value in zip(where, values, strict=True):
        seen.append(longhand[i])
        longhand[i] = update(longhand[i], int(value))
    assert memory.tolist() == longhand
    assert old.tolist() == seen


@pytest.mark.parametrize("op", ["inc", "dec"])
def test_counts_go_round_at_the_bound_of_their_place(op):
    n = 96
    for bounds, start in itertools.product([[5], [0], [2**32 - 1], [3, 9]], [0, 4, 5, 6, 2**32 - 1]):
        index = np.arange(n) * 7 % len(bounds)
        memory = np.full(len(bounds), start, "u4")
        values = np.array(bounds, "u4")[index]
        now, seen = [start] * len(bounds), []
        for place, bound in zip(index, values.tolist(), strict=True):
            seen.append(now[place])
            now[place] = STEP[op](now[place], bound)
        found = update(op, "u32", memory, index, values)
        assert memory.tolist() == now, (bounds, start)
        assert found.tolist() == seen, (bounds, start)


@pytest.mark.parametrize("distance", [1, 1 << 10, 1 << 17])
def test_many_places_that_lie_far_apart(distance):
    """Old values come to their threads whatever the sort of the places takes for a key."""
    n = 1024
    rng = np.random.default_rng(distance)
    index = rng.integers(0, 60, n) * distance
    memory, values = np.zeros(60 * distance, "u4"), rng.integers(0, 1000, n, "u4")
    expected, seen = {}, []
    for place, value in zip(index.tolist(), values.tolist(), strict=True):
        seen.append(expected.get(place, 0))
        expected[place] = max(seen[-1], value)
    found = update("max", "u32", memory, index, values)
    assert found.tolist() == seen
    assert {i: int(memory[i]) for i in expected} == expected


@pytest.mark.parametrize("expected", [[7], [3], [7, 3], "mixed"])
@pytest.mark.parametrize("bring", [0, 1])
def test_contended_swaps_are_those_of_the_threads_one_by_one(expected, bring):
    """bring: how many of the first threads bring the value that is already there."""
    n = 96
    rng = np.random.default_rng(bring)
    index = rng.integers(0, 2, n)
    memory = np.full(2, 7, "u4")
    wanted = rng.integers(6, 9, n, "u4") if expected == "mixed" else np.array(expected, "u4")[index % len(expected)]
    new = rng.integers(6, 9, n, "u4")
    new[: 20 * bring] = 7
    now, seen = [7, 7], []
    for place, a, b in zip(index.tolist(), wanted.tolist(), new.tolist(), strict=True):
        seen.append(now[place])
        now[place] = b if now[place] == a else now[place]
    found = update("cas", "b32", memory, index, wanted, new)
    assert memory.tolist() == now
    assert found.tolist() == seen
