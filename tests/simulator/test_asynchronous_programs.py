"""Random sequences of asynchronous operations and waits against a model that keeps them one by one."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulator import tensor_programs as t
from tests.simulator.small_kernels import aligned, simulate
from tests.support.profiles import times
from tilejit.errors import AsyncHazardError, OutOfBoundsError, SimulationError, UninitializedReadError

COLUMNS = 32
ACCESS = st.tuples(
    st.sampled_from(["ld", "st"]), st.sampled_from([(s, n) for s in t.NUMS for n in (1, 2, 4)]),
    st.sampled_from([0, 16]), st.integers(0, 26),
)
STEPS = st.lists(st.one_of(ACCESS, st.sampled_from(["wait_ld", "wait_st"])), min_size=1, max_size=9)


class Model:
    """One warp's tensor memory, cell by cell. flying: cells of operations not waited for yet."""

    def __init__(self):
        self.memory = {}
        self.flying = {"ld": set(), "st": {}}
        self.loaded = []

    def cells(self, shape, num, row, column):
        split = 3 if shape == "16x32bx2" else 0
        table = {}
        for lane in range(32):
            for register in range(t.registers_of(shape, num)):
                r, c = t.cell(shape, lane, register, split)
                table.setdefault((r + row, c + column), []).append((lane, register))
        return table

    def access(self, kind, form, row, column, value):
        """The error that this step is, or None."""
        shape, num = form
        row = 0 if shape == "32x32b" else row
        cells = self.cells(shape, num, row, column)
        if any(c >= COLUMNS for _, c in cells):
            return OutOfBoundsError
        if any(x in self.flying["st"] for x in cells) or (kind == "st" and any(x in self.flying["ld"] for x in cells)):
            return AsyncHazardError
        if kind == "st":
            if any(len(who) > 1 for who in cells.values()):
                return None
            self.flying["st"].update({x: value + who[0][1] * 32 + who[0][0] for x, who in cells.items()})
            return None
        if any(x not in self.memory for x in cells):
            return UninitializedReadError
        self.flying["ld"].update(cells)
        result = np.zeros((32, t.registers_of(shape, num)), np.uint32)
        for x, who in cells.items():
            for lane, register in who:
                result[lane, register] = self.memory[x]
        self.loaded.append(result)
        return None

    def wait(self, kind):
        if kind == "st":
            self.memory.update(self.flying["st"])
        self.flying[kind] = {} if kind == "st" else set()


def overlaps(step):
    """Whether both halves of a .16x32bx2 overlap, so that the order of their writes would matter."""
    return step[0] == "st" and step[1][0] == "16x32bx2" and step[1][1] > 3


@given(STEPS)
@settings(max_examples=times(2))
def test_tensor_memory_agrees_with_the_model(steps):
    steps = [x for x in steps if isinstance(x, str) or not overlaps(x)]
    model, text, error, free = Model(), t.START + t.allocate(COLUMNS), None, 16
    outputs = []
    # Half of the columns hold something from the start.
    text += "".join(f"mov.u32 %d{i}, {1000 + i};" for i in range(16)) + t.st("32x32b", 16, 0) + t.WAIT_ST
    model.memory = {(row, column): 1000 + column for row in range(32) for column in range(16)}
    for number, step in enumerate(steps):
        if isinstance(step, str):
            model.wait(step[-2:])
            text += t.WAIT_LD if step == "wait_ld" else t.WAIT_ST
            continue
        kind, (shape, num), row, column = step
        error = model.access(kind, (shape, num), row, column, 10000 * (number + 1))
        count, row = t.registers_of(shape, num), 0 if shape == "32x32b" else row
        first, free = free, free + count
        text += f"add.u32 %r9, %r5, {(row << 16) + column};"
        if kind == "st":
            values = (f"add.u32 %d{first + i}, %r1, {10000 * (number + 1) + 32 * i};" for i in range(count))
            text += "".join(values) + t.st(shape, num, first, "%r9", split=3)
        else:
            text += t.ld(shape, num, first, "%r9", split=3)
            outputs.append((first, count))
        if error:
            break
    text += t.WAIT_LD + t.WAIT_ST
    arrays = [np.zeros((32, count), np.uint32) for _, count in outputs]
    text += "".join(t.write_output(f"p{i}", *where) for i, where in enumerate(outputs)) + t.free(COLUMNS) + "ret;"
    if error:
        with pytest.raises(error):
            simulate(text, *arrays, registers=t.DATA)
        return
    simulate(text, *arrays, registers=t.DATA)
    for got, expected in zip(arrays, model.loaded, strict=True):
        assert (got == expected).all()


COPY_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("copy"), st.integers(0, 3), st.integers(0, 3)), st.tuples(st.just("read"), st.integers(0, 3)),
        st.tuples(st.just("write"), st.integers(0, 3)), st.tuples(st.just("change"), st.integers(0, 3)),
        st.just(("commit",)), st.tuples(st.just("wait"), st.integers(0, 2)), st.just(("wait_all",)),
    ), min_size=1, max_size=14)


def copied(steps):
    """(what the reads give, the error that a step is) for four slots of shared memory and four of global."""
    slots, sources, flying, groups, reads = [100, 101, 102, 103], [0, 1, 2, 3], [], 0, []
    for number, (what, *where) in enumerate(steps):
        if what == "commit":
            groups += 1
        elif what in ("wait", "wait_all"):
            if what == "wait_all":
                groups += 1
            done = groups - (where[0] if where else 0)
            for target, _, value, _ in (f for f in flying if f[3] < done):
                slots[target] = value
            flying = [f for f in flying if f[3] >= done]
        elif any(where[0] == f[1] if what == "change" else where[0] == f[0] for f in flying):
            return reads, AsyncHazardError
        elif what == "copy":
            flying.append((where[0], where[1], sources[where[1]], groups))
        elif what == "read":
            reads.append(slots[where[0]])
        elif what == "write":
            slots[where[0]] = 1000 + number
        else:
            sources[where[0]] = 2000 + number
    return reads, None


@given(COPY_STEPS)
@settings(max_examples=times(2.7))
def test_async_copies_agree_with_the_model(steps):
    reads, error = copied(steps)
    text = """
    .shared .align 16 .b8 tile[2048]; mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mad.lo.u32 %r3, %r1, 4, %r2;
    ld.param.u64 %x1, [p0]; mad.wide.u32 %x1, %r1, 4, %x1; ld.param.u64 %x2, [p1]; mad.wide.u32 %x2, %r1, 4, %x2;
    """
    text += "".join(f"mov.u32 %r5, {100 + i}; st.shared.b32 [%r3+{512 * i}], %r5;" for i in range(4))
    count = 0
    for number, (what, *where) in enumerate(steps):
        if what == "copy":
            text += f"cp.async.ca.shared.global [%r3+{512 * where[0]}], [%x1+{256 * where[1]}], 4;"
        elif what == "read":
            text += f"ld.shared.b32 %r5, [%r3+{512 * where[0]}]; st.global.b32 [%x2+{256 * count}], %r5;"
            count += 1
        elif what == "write":
            text += f"mov.u32 %r5, {1000 + number}; st.shared.b32 [%r3+{512 * where[0]}], %r5;"
        elif what == "change":
            text += f"mov.u32 %r5, {2000 + number}; st.global.b32 [%x1+{256 * where[0]}], %r5;"
        else:
            text += {"commit": "cp.async.commit_group;", "wait_all": "cp.async.wait_all;"}.get(
                what, f"cp.async.wait_group {where[0] if where else 0};"
            )
    source = aligned(np.repeat(np.arange(4, dtype=np.uint32), 64))
    out = aligned(np.zeros(64 * max(count, 1), np.uint32))
    if error:
        with pytest.raises(error):
            simulate(text + "ret;", source, out, block=64)
        return
    simulate(text + "ret;", source, out, block=64)
    assert (out.reshape(-1, 64)[:count] == np.array(reads, np.uint32).reshape(-1, 1)).all()


# Every seeded bug in a kernel of two warpgroups' loads and stores, with the source lines that its report names.
LINES = """
.loc 1 10 1
{alloc}
.loc 1 20 1
{store}
.loc 1 21 1
{wait_st}
.loc 1 30 1
{load}
.loc 1 31 1
{wait_ld}
.loc 1 40 1
add.u32 %d50, %d40, %d41;
.loc 1 50 1
{free}
ret;
"""
PARTS = {
    "alloc": t.allocate(32), "store": "mov.u32 %d0, 1; mov.u32 %d1, 2;" + t.st("32x32b", 2, 0), "wait_st": t.WAIT_ST,
    "load": t.ld("32x32b", 2, 40), "wait_ld": t.WAIT_LD, "free": t.free(32),
}
MUTATIONS = {
    "missing wait_ld": ({"wait_ld": ""}, (30, 40)),
    "missing wait_st": ({"wait_st": ""}, (20, 30)),
    "wait before the load": ({"load": t.WAIT_LD + t.ld("32x32b", 2, 40), "wait_ld": ""}, (30, 40)),
    "another warp's lanes": ({"load": "add.u32 %r9, %r5, 0x200000;" + t.ld("32x32b", 2, 40, "%r9")}, (30,)),
    "column off by one": ({"load": t.ld("32x32b", 2, 40, "%r5+1")}, (30,)),
    "column past the end": ({"load": t.ld("32x32b", 2, 40, "%r5+31")}, (10, 30)),
    "allocation too small": ({"store": PARTS["store"].replace("x2.b32 [%r5]", "x2.b32 [%r5+32]")}, (10, 20)),
    "missing dealloc": ({"free": ""}, (10,)),
    "allocation by two warps": (
        {"alloc": t.allocate(32).replace("@%p1 bra", "setp.gt.u32 %p1, %r2, 1; @%p1 bra")}, (10,)
    ),
    "dealloc before the wait": ({"wait_ld": "", "free": t.free(32) + t.WAIT_LD}, (30, 40)),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_every_seeded_bug_is_reported_with_its_lines(name):
    def run(parts):
        return simulate(t.START + LINES.format(**(PARTS | parts)), block=128, registers=t.DATA)

    run({})
    change, lines = MUTATIONS[name]
    with pytest.raises(SimulationError) as e:
        run(change)
    assert set(re.findall(r"file 1:(\d+)", str(e.value))) == {str(x) for x in lines}, str(e.value)
