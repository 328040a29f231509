"""Small programs about mbarriers, bulk copies and the asynchronous proxy, each right and wrong way round.

They are as those of `programs.py`. An mbarrier is at `s`+960.
"""

from __future__ import annotations

from .programs import MINE, PROGRAMS, Program, exchange, when


def initialized(count: int, sync: str = "bar.sync 0;") -> str:
    return when("%r1", 0, f"mbarrier.init.shared.b64 [s+960], {count};") + sync


def waited(label: str, parity: int = 0) -> str:
    return f"{label}: mbarrier.try_wait.parity.shared.b64 %p6, [s+960], {parity}; @!%p6 bra {label};\n"


def filled() -> str:
    """Thread 0 starts a copy of 256 bytes to `s`."""
    return when(
        "%r1", 0,
        "mbarrier.arrive.expect_tx.shared.b64 _, [s+960], 256;"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%x1], 256, [s+960];",
    )


ARRIVE = "mbarrier.arrive.shared.b64 _, [s+960];"
STORE = "cp.async.bulk.global.shared::cta.bulk_group [%x4], [s], 256;"
COMMIT = "cp.async.bulk.commit_group;"
DONE = "cp.async.bulk.wait_group 0;"

ASYNCHRONOUS = [
    Program("an mbarrier is waited for", initialized(64) + MINE + ARRIVE + "WAIT" + exchange(32),
            {"WAIT": waited("W")}, {"WAIT": ""}, rule="race undefined"),
    Program("what a thread does before it arrives", initialized(64) + "BEFORE" + ARRIVE + "AFTER" + waited("W")
            + exchange(32), {"BEFORE": MINE, "AFTER": ""}, {"BEFORE": "", "AFTER": MINE}, rule="race undefined"),
    Program("a relaxed arrival releases nothing",
            initialized(64) + MINE + "mbarrier.arrive.SEM.cta.shared::cta.b64 _, [s+960];" + waited("W") + exchange(32),
            {"SEM": "release"}, {"SEM": "relaxed"}, rule="race undefined"),
    Program("a barrier is used after its initialization", initialized(64, "SYNC") + ARRIVE,
            {"SYNC": "bar.sync 0;"}, {"SYNC": "bar.warp.sync -1;"}, rule="race barrier"),
    Program("a bulk load is waited for", initialized(1) + filled() + "WAIT" + exchange(32) + waited("LAST"),
            {"WAIT": waited("W")}, {"WAIT": ""}, rule="in-flight undefined"),
    Program("a stage is filled again after it was read",
            initialized(1) + filled() + waited("W") + exchange(32) + "SYNC" + filled() + waited("V", 1),
            {"SYNC": "fence.proxy.async; bar.sync 0;"}, {"SYNC": "fence.proxy.async;"}, rule="race"),
    Program("a proxy reads what a fence has shown it", MINE + "FENCE bar.sync 0;" + when(
                "%r1", 0, STORE + COMMIT + DONE),
            {"FENCE": "fence.proxy.async;"}, {"FENCE": ""}, rule="in-flight"),
    Program("a fence for the proxy of the other memory", MINE + "fence.proxy.async.SPACE; bar.sync 0;" + when(
                "%r1", 0, STORE + COMMIT + DONE),
            {"SPACE": "shared::cta"}, {"SPACE": "global"}, rule="in-flight"),
    Program("the source of a bulk store is free after it was read", MINE + "fence.proxy.async; bar.sync 0;" + when(
                "%r1", 0, STORE + COMMIT + "WAIT") + "bar.sync 0;" + MINE + when("%r1", 0, DONE),
            {"WAIT": "cp.async.bulk.wait_group.read 0;"}, {"WAIT": ""}, rule="in-flight"),
    Program("a bulk store is complete when it has written", MINE + "fence.proxy.async; bar.sync 0;" + when(
                "%r1", 0, STORE + COMMIT + "WAIT ld.global.u32 %r11, [%x4+128];" + DONE),
            {"WAIT": DONE}, {"WAIT": "cp.async.bulk.wait_group.read 0;"}, rule="in-flight"),
    Program("a bulk store belongs to the group committed after it", MINE + "fence.proxy.async; bar.sync 0;" + when(
                "%r1", 0, "FIRST" + STORE + "SECOND" + DONE + "ld.global.u32 %r11, [%x4+128];" + COMMIT + DONE),
            {"FIRST": "", "SECOND": COMMIT}, {"FIRST": COMMIT, "SECOND": ""}, rule="in-flight"),
]
ALL = [*PROGRAMS, *ASYNCHRONOUS]
