"""Programs for the table's rows of asynchronous operations, for `instruction_programs`: CASES and RACES.

A case is (its instructions, a function that runs and checks it, the fidelity for which it is evidence), a race (its
instruction, a function of the barrier without which it races).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.simulator import test_asynchronous_stores as stores
from tests.simulator import test_bulk_reductions as bulk
from tests.simulator import test_copy_arrivals as arrivals
from tests.simulator import test_tensor_map_changes as maps
from tests.simulator import tma_programs
from tests.simulator.small_kernels import aligned

NOINC = "cp.async.mbarrier.arrive.noinc.shared.b64"
SEND = f"cp.{bulk.COPY}"
REDUCE, REDUCE_FLOAT = (f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{x}" for x in ("add.u32", "add.f32"))
REDUCE_THERE = f"cp.reduce.{bulk.COPY}.add.u32"
STORE, REDUCE_ONE = f"st.async.{stores.SIGNAL}.u32", f"red.async.relaxed.cluster.{stores.SIGNAL}.add.u32"
PREFETCH, PREFETCH_BOX = "cp.async.bulk.prefetch.L2.global", "cp.async.bulk.prefetch.tensor.2d.L2.global.tile"
REPLACE = "tensormap.replace.tile.rank.shared::cta.b1024.b32"
PUBLISH = maps.PUBLISH.split()[0]
ACQUIRE, RELEASE = "fence.proxy.tensormap::generic.acquire.gpu", "fence.proxy.tensormap::generic.release.gpu"
CASES: list[tuple[tuple[str, ...], Callable[[], object], str]] = []


def case(*instructions: str, kind: str = "exact") -> Callable[[Callable[[], object]], Callable[[], object]]:
    def add(play: Callable[[], object]) -> Callable[[], object]:
        CASES.append((instructions, play, kind))
        return play

    return add


@case(NOINC)
def arrivals_after_copies() -> None:
    got = arrivals.attempt(arrivals.COPY + arrivals.NOINC + arrivals.WAIT + arrivals.OUT)
    assert (got == arrivals.mirrored(np.arange(1, 4 * arrivals.THREADS + 1))).all()


@case(SEND)
def copies_to_another_cta() -> None:
    values, out = bulk.exchange()
    assert (out == values[[1, 0, 3, 2]]).all()


@case(PREFETCH, PREFETCH_BOX)
def bulk_prefetches() -> None:
    array = aligned(np.arange(16 * 64, dtype="u4").reshape(16, 64))
    hints = f"{PREFETCH} [%x3], 64; {PREFETCH_BOX} [%x2, {{%r40, %r41}}];\n"
    text = tma_programs.load_text((32, 4), (0, 0), 4).replace("@%p1 bra WAIT;", hints + "@%p1 bra WAIT;")
    got = tma_programs.load(array, (32, 4), "none", (0, 0), text=text)
    assert (got.view("u4")[:128].reshape(4, 32) == array[:4, :32]).all()


def reduce(op: str, dtype: str, sync: str = "bar.sync 0;") -> None:
    values, target = aligned(np.arange(3 * 128).astype(dtype)), aligned(np.ones(128, dtype))
    text = bulk.FILL.replace("bar.sync 0;", sync) + "@%p1 bra DONE;\n" + bulk.reduce_text(op) + bulk.DONE
    bulk.launch(text, values, target)
    assert (target == values.reshape(3, 128).sum(0) + 1).all()


@case(REDUCE)
def reductions() -> None:
    reduce("add.u32", "u4")


@case(REDUCE_FLOAT, kind="approximate")
def reductions_of_floats() -> None:
    reduce("add.f32", "f4")


@case(REDUCE_THERE)
def reductions_in_another_cta() -> None:
    values, out = bulk.exchange(REDUCE_THERE.removeprefix("cp."))
    assert (out == values[[1, 0, 3, 2]] + np.uint32(7)).all()


@case(STORE, REDUCE_ONE)
def remote_stores() -> None:
    values = np.arange(4 * 32, dtype="u4").reshape(4, 32)
    out = stores.launch(stores.moved(STORE, "u32"), values, 4)
    assert (out == values[[1, 0, 3, 2]][:, ::-1]).all()
    out = stores.launch(stores.moved(REDUCE_ONE, "u32"), values, 4)
    assert (out == values[[1, 0, 3, 2]][:, ::-1] + np.uint32(7)).all()


@case(REPLACE, PUBLISH, ACQUIRE, RELEASE)
def maps_made_by_a_kernel() -> None:
    text = maps.MAKE + maps.PUBLISH + maps.RELEASE + maps.ACQUIRE + maps.BOX
    assert (maps.launch(text, aligned(maps.ARRAY), size=128).view("u4") == np.arange(32)).all()


def initialized(sync: str) -> None:
    start = arrivals.START.replace("READY: bar.sync 0;", f"READY: {sync}")
    arrivals.attempt(arrivals.COPY + arrivals.NOINC, start=start)


def sent(form: str) -> Callable[[str], object]:
    touch = "@%p1 st.shared.u32 [%r3], %r1; fence.proxy.async; SYNC\n"
    text = touch + bulk.EXPECT + "\n" + bulk.ISSUE.format(form=form) + "\n" + bulk.WAIT + bulk.LEAVE
    return lambda sync: bulk.exchange(body=text.replace("SYNC", sync))


def stored(text: str) -> Callable[[str], object]:
    """A program that needs a barrier of the cluster."""
    body = f"st.shared.u32 [%r11], %r1; SYNC\n{text}" + stores.WAIT + stores.LEAVE
    values = np.zeros((4, 32), "u4")
    return lambda sync: stores.launch(body.replace("SYNC", stores.LEAVE if sync else ""), values, 4)


def made(before: str, after: str) -> Callable[[str], object]:
    text = maps.MAKE + maps.PUBLISH + maps.ACQUIRE + maps.BOX
    return lambda sync: maps.launch(text.replace(before, after.replace("SYNC", sync)), aligned(maps.ARRAY), size=128)


BY_ANOTHER_THREAD = "setp.ne.u32 %p4, %r1, 5; @%p4 bra MADE;"
RACES: list[tuple[str, Callable[[str], object]]] = [
    (NOINC, initialized), (SEND, sent(bulk.COPY)), (REDUCE_THERE, sent(REDUCE_THERE.removeprefix("cp."))),
    (REDUCE, lambda sync: reduce("add.u32", "u4", sync)), (REDUCE_FLOAT, lambda sync: reduce("add.f32", "f4", sync)),
    (STORE, stored(stores.SEND)), (REDUCE_ONE, stored(stores.ADD)),
    (REPLACE, made(maps.ZERO, maps.ZERO.replace("bar.warp.sync -1;", "SYNC") + "@!%p1 " + maps.field("rank", 1))),
    (PUBLISH, made(maps.MAKE, maps.MAKE.replace("@%p1 bra MADE;", BY_ANOTHER_THREAD).replace(
        "MADE: bar.warp.sync -1;", "MADE: SYNC"))),
]
