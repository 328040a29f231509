"""Why a barrier is redundant, of small programs."""

from __future__ import annotations

import re

from . import events as ev
from .arguments import Orders
from .programs import LOOK, MINE, SET, TWO, Program, exchange, message
from .recorder import recorded
from .test_programs import attempt

PUT, GET = "mov.u32 %r10, 7;\nst.volatile.global.u32 [%x1], %r10;\n", "\nld.volatile.global.u32 %r11, [%x1];"


def orders_of(body: str, **launch: int) -> Orders:
    with recorded(lines=True) as recorder:
        attempt(Program("", body, {}, {}, **launch), {}, 0, "collect")
    return Orders(recorder.streams)


def test_a_barrier_beside_another() -> None:
    orders = orders_of(f"{MINE}\nbar.sync 0;\nbar.sync 0;\n{exchange(32)}")
    first, second = orders.lines(ev.MeetEvent)
    assert orders.argument(first) == f"orders 64 pairs, as others do: 64 by line {second}"
    assert orders.argument(second) == f"orders 64 pairs, as others do: 64 by line {first}"


def test_a_barrier_between_a_threads_own_accesses() -> None:
    orders = orders_of(f"{MINE}\nbar.sync 0;\nld.shared.u32 %r11, [%r5]; st.shared.u32 [%r5], %r11;")
    assert orders.argument(orders.lines(ev.MeetEvent)[0]) == "alone, it orders no conflicting accesses of two threads"
    assert orders.argument(1) == "no thread executes it"


def test_a_fence_of_a_proxy_beside_another() -> None:
    store = "cp.async.bulk.global.shared::cta.bulk_group [%x4], [s], 16; cp.async.bulk.commit_group;"
    orders = orders_of(
        f"{MINE}\nfence.proxy.async;\nbar.sync 0;\nfence.proxy.async;\nfence.proxy.async.global; "
        f"setp.ne.u32 %p1, %r1, 0; @%p1 bra E;\n{store}cp.async.bulk.wait_group 0;\nE:"
    )
    first, second, other = orders.lines(ev.ProxyFenceEvent)
    assert orders.argument(first) == f"shows proxies 4 pairs, as others do: 4 by line {second}"
    assert orders.argument(other) == "no proxy accesses what is accessed before it"


def test_a_fence_between_accesses_that_do_not_race() -> None:
    body = message(f"\n{SET.format('volatile')}", LOOK.format("volatile"), "\nmembar.gl;\n", "\nmembar.gl;\n")
    before = "mov.u32 %r10, 7; st.global.u32 [%x1], %r10;"
    assert before in body
    body = body.replace(before, PUT).replace("ld.global.u32 %r11, [%x1];", GET)
    orders = orders_of(body, **TWO)
    for line in orders.lines(ev.FenceEvent):
        found = re.fullmatch(
            r"orders only accesses that never race; without it, line (\d+) may read what was there before line (\d+)",
            orders.argument(line),
        )
        assert found and int(found[1]) > int(found[2])


def test_a_fence_that_keeps_reads_after_writes() -> None:
    orders = orders_of(
        "st.volatile.global.u32 [%x3], %r1;\nfence.sc.gpu;\nld.volatile.global.u32 %r11, [%x3+256];", block=32
    )
    (line,) = orders.lines(ev.FenceEvent)
    assert orders.argument(line) == (
        "orders only accesses that never race; without it, "
        f"line {line + 1} may read before others see what line {line - 1} wrote"
    )
