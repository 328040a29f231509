"""Kernels for Hopper with one mistake: what is said, where, and what to do; and doing it works."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

import tilejit as tj
from tests.support.programs import source_of
from tilejit.errors import (
    AsyncHazardError,
    DeadlockError,
    DispatchError,
    KernelTypeError,
    RaceError,
    ResourceError,
    TilejitError,
)

Array = np.ndarray
Arrays = Callable[[], tuple[Array, ...]]


def numbers(*shape: int) -> Array:
    return np.random.default_rng(1).integers(-2, 3, shape).astype(np.float16)


def arrays() -> tuple[Array, ...]:
    """A, B, C, D."""
    return numbers(64, 128), numbers(128, 64), np.zeros((64, 64), np.float32), np.zeros((64, 64), np.float16)


#: two stages of both factors, sums
PREPARED = """
a = tj.alloc_shared((2, 64, 64), A.dtype, swizzle="128B")
b = tj.alloc_shared((2, 64, 64), A.dtype, swizzle="128B")
acc = tj.alloc_local((64, 64), tj.float32, layout=tj.wgmma.layout_c((64, 64)))
full = tj.alloc_barrier()
"""
LOADED = PREPARED + """
tj.cta.copy_async(a[0], A[0:64, 0:64], barrier=full)
tj.cta.copy_async(b[0], B[0:64, 0:64], barrier=full)
tj.cta.arrive(full)
full.wait(0)
"""
SHOWN = """
tj.cta.store(C[0:64, 0:64], tj.cta.load(a[0]).astype(tj.float32))
"""
#: warp 0 fills a ring of four warps' width, warp 1 empties it
RING = """
ring = tj.alloc_ring(2)
s = tj.alloc_shared((2, 32), tj.float32)
i = 0
if tj.warp_id() == 0:
    for k in range(4):
        ring[i].acquire()
        s[ring[i].stage, tj.lane_id()] = tj.float32(k)
        tj.warp.commit(ring[i])
        i += 1
else:
    for k in range(4):
        ring[i].wait()
        C[k, tj.lane_id()] = s[ring[i].stage, tj.lane_id()]
        tj.warp.release(ring[i])
        i += 1
"""
FILLED = "for k in range(4):\n        ring[i].acquire()"
STORED = PREPARED + """
tj.wg.copy(a[0], tj.wg.load(A[0:64, 0:64]))
tj.warpgroup_sync()
tj.wg.copy_async(D[0:64, 0:64], a[0])
"""


def without(text: str, part: str, instead: str = "pass") -> str:
    """A program with another part; it must be there."""
    assert part in text, part
    return text.replace(part, instead)


@dataclass(frozen=True)
class Mistake:
    """A program, and what is said of it. at: what the caret is under. help: what to do."""

    text: str
    error: type[TilejitError]
    says: str
    at: str
    help: str
    threads: int = 128
    target: str = "sm_90a"
    given: Arrays = arrays

    def run(self) -> None:
        lines = "".join(f"    {line}\n" for line in self.text.strip("\n").splitlines())
        kernel = tj.kernel(threads=self.threads)(source_of(f"def k(A, B, C, D):\n{lines}"))
        tj.simulate(kernel, 1, *self.given(), target=self.target)


def narrow() -> tuple[Array, ...]:
    """Rows of 130 bytes."""
    return numbers(64, 65), *arrays()[1:]


def ragged() -> tuple[Array, ...]:
    """Rows that end after 100 bytes, 112 apart."""
    return *arrays()[:3], np.zeros((64, 56), np.float16)[:, :50]


PRODUCT = "tj.wg.gemm_async(acc, a[0], b[0], accumulate=False)"

MISTAKES: dict[str, Mistake] = {
    # barriers
    "no wait for the copy": Mistake(
        without(LOADED, "full.wait(0)") + SHOWN, AsyncHazardError, "before the copy that writes it was waited for",
        "tj.cta.load(a[0])", "the phase of its mbarrier",
    ),
    "another kind of wait": Mistake(
        without(LOADED, "full.wait(0)", "tj.cp_async.wait(0)\ntj.cta_sync()") + SHOWN, AsyncHazardError,
        "before the copy that writes it was waited for", "tj.cta.load(a[0])", "the phase of its mbarrier",
    ),
    "a copy after the arrival": Mistake(
        without(
            without(LOADED, "tj.cta.arrive(full)\n", ""), "tj.cta.copy_async(b",
            "tj.cta.arrive(full)\ntj.cta.copy_async(b",
        ),
        AsyncHazardError, "expected bytes in phase 0 of mbarrier full",
        "tj.cta.copy_async(b[0], B[0:64, 0:64], barrier=full)", "start the copy before the last arrival",
    ),
    "no thread arrives": Mistake(
        without(LOADED, "tj.cta.arrive(full)"), DeadlockError, "it is in phase 0: 0 of 1 arrivals", "full.wait(0)",
        "producers must commit",
    ),
    "the same phase twice": Mistake(
        LOADED + "tj.cta.copy_async(a[0], A[0:64, 64:128], barrier=full)\ntj.cta.arrive(full)\nfull.wait(0)\n" + SHOWN,
        AsyncHazardError, "before the copy that writes it was waited for", "tj.cta.load(a[0])", "the phase",
    ),
    "each warp arrives": Mistake(
        without(LOADED, "tj.cta.arrive", "tj.warp.arrive"), AsyncHazardError,
        "gets more arrivals than the 1 of phase 0", "tj.warp.arrive(full)", "initialize the barrier with",
    ),
    "each warp copies the same": Mistake(
        without(without(LOADED, "tj.cta.", "tj.warp."), "alloc_barrier()", "alloc_barrier(4)"), AsyncHazardError,
        "before the copy that writes it was waited for", "tj.warp.copy_async(a[0]", "wait for it",
    ),
    "one barrier, made anew in each iteration": Mistake(
        "for k in range(3):\n    full = tj.alloc_barrier()\n    tj.cta.arrive(full)\n    full.wait(0)",
        AsyncHazardError, "is in phase 2 when its phase 0 is waited for", "full.wait(0)", "count the same phases",
    ),
    "a barrier instead of a step": Mistake(
        PREPARED + "tj.warp.commit(full)", KernelTypeError, "commit takes a step of a ring; matrix products on sm_100a "
        "or sm_103a or sm_110a that report to a barrier are", "full", "tj.warp.arrive(b)",
    ),
    "arrivals known at run time": Mistake(
        "b = tj.alloc_barrier(arrivals=tj.cta_id(0))", KernelTypeError, "the number of arrivals", "tj.cta_id(0)",
        "use a literal, a captured constant",
    ),
    "a hardware barrier that isn't there": Mistake(
        "tj.named_barrier(9, 128).sync()", ResourceError, "barriers are 1 to 7", "tj.named_barrier(9, 128).sync()",
        "use a barrier in shared memory, tj.alloc_barrier()",
    ),
    # rings
    "a consumer that doesn't count": Mistake(
        RING.rpartition("        i += 1\n")[0], AsyncHazardError, "ring.full[0] is in phase 2 when its phase 0 is "
        "waited for", "ring[i].wait()", "count the same phases, from 0", threads=64,
    ),
    "a stage overwritten": Mistake(
        without(RING, "        ring[i].acquire()\n", ""), RaceError, "race in shared memory",
        "C[k, tj.lane_id()] = s[ring[i].stage, tj.lane_id()]", "put a barrier between them", threads=64,
    ),
    "another stage than the step's": Mistake(
        without(without(RING, "s[ring[i].stage", "s[k % 2"), "alloc_ring(2)", "alloc_ring(3)"), RaceError,
        "race in shared memory", "s[k % 2, tj.lane_id()] = tj.float32(k)", "put a barrier between them", threads=64,
    ),
    "fewer steps are consumed": Mistake(
        without(RING, "else:\n    for k in range(4)", "else:\n    for k in range(1)"), DeadlockError,
        "waits for phase 0 of mbarrier ring.empty[1]", "ring[i].acquire()", "consumers release, once per step",
        threads=64,
    ),
    "a step that is kept": Mistake(
        "ring = tj.alloc_ring(2)\ni = 0\nt = ring[i]\nfor k in range(4):\n    tj.cta.commit(t)\n    i += 1",
        KernelTypeError, "i has been reassigned since this step", "tj.cta.commit(t)", "write ring[i] again",
    ),
    "two consumers, one announced": Mistake(
        without(RING, "alloc_ring(2)", "alloc_ring(2, consumers=1)"), KernelTypeError,
        "2 warps release each step of ring, which was allocated with consumers=1", "tj.warp.release(ring[i])",
        "consumers=2", threads=96,
    ),
    # products
    "sums before their wait": Mistake(
        f"{LOADED}{PRODUCT}\ntj.wg.store(C[0:64, 0:64], acc)\ntj.wgmma.wait(0)", KernelTypeError,
        "acc is used before tj.wgmma.wait(0)", "tj.wg.store(C[0:64, 0:64], acc)", "call tj.wgmma.wait(0) between",
    ),
    "a factor overwritten": Mistake(
        f"{LOADED}{PRODUCT}\ntj.wg.fill(a[0], 1)\ntj.wgmma.wait(0)", AsyncHazardError,
        "before the product that reads it was waited for", "tj.wg.fill(a[0], 1)", "wait for it (wgmma.wait_group)",
    ),
    "a factor that isn't there yet": Mistake(
        f"{PREPARED}tj.wg.copy(a[0], A[0:64, 0:64])\ntj.wg.copy(b[0], B[0:64, 0:64])\n{PRODUCT}\ntj.wgmma.wait(0)",
        RaceError, "starts a product that reads", PRODUCT, "put a barrier between",
    ),
    "sums of nothing": Mistake(
        f"{LOADED}tj.wg.gemm_async(acc, a[0], b[0])\ntj.wgmma.wait(0)", KernelTypeError,
        "acc is read before anything has been written", "acc", "fill it first",
    ),
    "a product of one warp": Mistake(
        f"{LOADED}if tj.warp_id() == 0:\n    {PRODUCT}\ntj.wgmma.wait(0)", DispatchError,
        "needs all threads of its warpgroup", "tj.warp_id() == 0", "move it out of the branch",
    ),
    "a product of the CTA": Mistake(
        f"{LOADED}{PRODUCT.replace('wg', 'cta')}\ntj.wgmma.wait(0)", DispatchError, "needs the scope warpgroup",
        PRODUCT.replace("wg", "cta"), "call it on tj.wg",
    ),
    "a target without the a": Mistake(
        f"{LOADED}{PRODUCT}\ntj.wgmma.wait(0)", DispatchError, "wgmma needs sm_90a; target is sm_90", PRODUCT,
        'target="sm_90a"', target="sm_90",
    ),
    # TMA
    "rows that aren't at steps of 16 bytes": Mistake(
        LOADED, DispatchError, "A is aligned to 2 bytes; TMA needs 16",
        "tj.cta.copy_async(a[0], A[0:64, 0:64], barrier=full)", "at a multiple of 8 elements", given=narrow,
    ),
    "columns between two steps of 16 bytes": Mistake(
        without(LOADED, "A[0:64, 0:64]", "A[0:64, 4:68]"), DispatchError, "starts at a multiple of 8 bytes",
        "tj.cta.copy_async(a[0], A[0:64, 4:68], barrier=full)", "start at multiples of 8 elements",
    ),
    "rows that end between two steps of 16 bytes": Mistake(
        STORED, DispatchError, "rows of D end at a multiple of 4 bytes; TMA writes whole chunks of 16",
        "tj.wg.copy_async(D[0:64, 0:64], a[0])", "store the tiles at the edge by copy", given=ragged,
    ),
    "half a row of the swizzle": Mistake(
        without(LOADED, "a[0], A[0:64, 0:64]", "a[0, :, 0:32], A[0:64, 0:32]"), DispatchError,
        "the tile is 32 columns wide; a row of the 128B swizzle holds 64", "tj.cta.copy_async(a[0, :, 0:32]",
        "take whole rows of the swizzle",
    ),
    "a store without a wait": Mistake(
        STORED, AsyncHazardError, "exits before its TMA store was waited for", "tj.wg.copy_async(D[0:64, 0:64], a[0])",
        "wait with cp.async.bulk.wait_group.read 0",
    ),
    "a store whose source changes": Mistake(
        STORED + "tj.wg.fill(a[0], 3)\ntj.bulk.wait(0)", AsyncHazardError,
        "before the copy that reads it was waited for", "tj.wg.fill(a[0], 3)", "wait for it",
    ),
    "a store of what others write": Mistake(
        without(STORED, "tj.warpgroup_sync()") + "tj.bulk.wait(0)", RaceError, "starts a TMA store that reads",
        "tj.wg.copy_async(D[0:64, 0:64], a[0])", "put a barrier between",
    ),
    "a store with a barrier": Mistake(
        without(STORED, "D[0:64, 0:64], a[0]", "D[0:64, 0:64], a[0], barrier=full"), DispatchError,
        "tma_store: completes on tj.bulk.wait; needs no barrier, got full",
        "tj.wg.copy_async(D[0:64, 0:64], a[0], barrier=full)", "leave barrier= out, and wait with tj.bulk.wait(0)",
    ),
    # what other libraries and languages have
    "an arrival as a method": Mistake(
        without(LOADED, "tj.cta.arrive(full)", "full.arrive()"), KernelTypeError, "a barrier has no attribute arrive",
        "full.arrive", "tj.cta.arrive(full)",
    ),
    "a barrier without its name": Mistake(
        without(LOADED, "A[0:64, 0:64], barrier=full", "A[0:64, 0:64], full"), KernelTypeError,
        "a scalar is needed here; this is a barrier", "full", "by keyword: barrier=",
    ),
    "a count of arrivals": Mistake(
        without(PREPARED, "alloc_barrier()", "alloc_barrier(count=1)"), KernelTypeError, "has no parameter count",
        "count=1", "write arrivals=",
    ),
    "a wait of a whole ring": Mistake(
        without(RING, "ring[i].wait()", "ring.wait(i)"), KernelTypeError, "a ring of 2 stages has no attribute wait",
        "ring.wait", "ring[i].wait()",
    ),
    "an arrival of a step": Mistake(
        without(RING, "tj.warp.commit(ring[i])", "ring[i].arrive()"), KernelTypeError, "has no attribute arrive",
        "ring[i].arrive", "tj.warp.commit(ring[i])",
    ),
    "a loop over a ring": Mistake(
        without(RING, FILLED, "for k, t in enumerate(ring):\n        t.acquire()"),
        KernelTypeError, "enumerate takes tuples; this is a ring of 2 stages", "ring",
        "for i in range(n), with t = ring[i]",
    ),
    "the length of a ring": Mistake(
        without(RING, FILLED, FILLED.replace("4", "len(ring)")),
        KernelTypeError, "a ring of 2 stages has no length", "len(ring)", "with t = ring[i]",
    ),
    "a ring as a condition": Mistake(
        RING + "while ring:\n    i += 1", KernelTypeError, "this is a ring of 2 stages", "ring", "ring[i].stage",
    ),
    "a step is printed": Mistake(
        RING + "print(ring[i])", KernelTypeError, "this is a step of ring", "ring[i]", "ring[i].stage",
    ),
    "a commit as a method": Mistake(
        without(RING, "tj.warp.commit(ring[i])", "ring[i].commit()"), KernelTypeError, "has no attribute commit",
        "ring[i].commit", "tj.warp.commit(ring[i])",
    ),
    "a release as a method": Mistake(
        without(RING, "tj.warp.release(ring[i])", "ring.release(i)"), KernelTypeError, "has no attribute release",
        "ring.release", "tj.warp.release(ring[i])",
    ),
    "a step as an index": Mistake(
        without(RING, "s[ring[i].stage, tj.lane_id()] =", "s[ring[i], tj.lane_id()] ="), KernelTypeError,
        "this is a step of ring", "ring[i]", "ring[i].stage",
    ),
    "a step that the whole CTA commits": Mistake(
        without(RING, "tj.warp.commit(ring[i])", "tj.cta.commit(ring[i])"), DispatchError,
        "cta.commit at", "tj.warp_id() == 0", "move it out of the branch",
    ),
    "a shape that isn't a tuple": Mistake(
        without(LOADED, "layout_c((64, 64))", "layout_c(64, 64)"), KernelTypeError, "takes 1 positional argument",
        "tj.wgmma.layout_c(64, 64)", "its parameters: shape; a shape is a tuple",
    ),
    "several steps at once": Mistake(
        without(RING, "ring[i].acquire()", "ring[0:2].acquire()"), KernelTypeError, "takes one index", "ring[0:2]",
        "ring[i]",
    ),
    "a group of products is closed": Mistake(
        f"{LOADED}{PRODUCT}\ntj.wgmma.commit()", KernelTypeError, "tj.wgmma has no attribute commit",
        "tj.wgmma.commit", "tj.wgmma.wait(0): each gemm_async is a group of its own",
    ),
    "a group of products by its PTX name": Mistake(
        f"{LOADED}{PRODUCT}\ntj.wgmma.commit_group()", KernelTypeError, "tj.wgmma has no attribute commit_group",
        "tj.wgmma.commit_group", "tj.wgmma.wait(0): each gemm_async is a group of its own",
    ),
    "a wait for a group of stores": Mistake(
        STORED + "tj.bulk.wait_group(0)", KernelTypeError, "tj.bulk has no attribute wait_group", "tj.bulk.wait_group",
        "tj.bulk.wait(0)",
    ),
    "a group of stores is closed": Mistake(
        STORED + "tj.bulk.commit()", KernelTypeError, "tj.bulk has no attribute commit", "tj.bulk.commit",
        "tj.bulk.wait(0): each copy_async is a group of its own",
    ),
    "a fence that is put in": Mistake(
        without(STORED, "tj.warpgroup_sync()", "tj.fence_async()"), KernelTypeError, "tilejit has no fence_async",
        "tj.fence_async", "tj.cta_sync(): the compiler inserts the fences",
    ),
    "a module for TMA": Mistake(
        PREPARED + "tj.tma.load(a[0], A[0:64, 0:64], full)", KernelTypeError, "tilejit has no tma", "tj.tma",
        "tj.cta.copy_async(s, A[0:16, 0:16], barrier=full)",
    ),
    "a barrier by its PTX name": Mistake(
        "bar = tj.mbarrier(1)", KernelTypeError, "tilejit has no mbarrier", "tj.mbarrier", "tj.alloc_barrier()",
    ),
    # registers
    "more registers than there are": Mistake(
        "if tj.warpgroup_id() == 0:\n    tj.set_registers(32)\nelse:\n    tj.set_registers(240)", ResourceError,
        "32 + 240 + 240 = 512 registers per thread; a CTA of 384 threads starts with 3 × 168 = 504",
        "tj.set_registers(240)", "request 24 in warpgroups that only copy", threads=384,
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_reported_with_its_location_and_a_remedy(name: str) -> None:
    mistake = MISTAKES[name]
    with pytest.raises(mistake.error) as raised:
        mistake.run()
    error = raised.value
    assert mistake.says in error.message, str(error)
    assert mistake.help and mistake.help in (error.hint or ""), str(error)
    assert error.span is not None and mistake.at in error.span.text, error.span
    shown = str(error).splitlines()
    (caret,) = (k for k, line in enumerate(shown) if set(line.strip()) == {"^"})
    under = shown[caret - 1][shown[caret].index("^") :][: shown[caret].count("^")]
    assert under and (under in mistake.at or mistake.at in under), under


def test_without_its_mistake_each_program_runs() -> None:
    for text, threads in ((LOADED + SHOWN, 128), (RING, 64), (f"{LOADED}{PRODUCT}\ntj.wgmma.wait(0)", 128),
                          (STORED + "tj.bulk.wait(0)", 128)):
        Mistake(text, TilejitError, "", "", "", threads=threads).run()


#: refused in each way in which a product can be, and right but for that
REFUSED = """
a = tj.alloc_shared((64, 64), A.dtype)
b = tj.alloc_shared((64, 64), A.dtype)
acc = tj.alloc_local((64, 64), tj.float32)
tj.cta.copy(a, A[0:64, 0:64])
tj.cta.copy(b, B[0:64, 0:64])
tj.cta_sync()
tj.warp.gemm_async(acc, a, b, accumulate=False)
tj.wgmma.wait(0)
tj.wg.copy(C[0:64, 0:64], acc)
"""

#: what is advised -> how one does it
ADVICE: dict[str, Callable[[str, re.Match[str]], str]] = {
    r"call it on (tj\.\w+)": lambda text, m: text.replace("tj.warp.gemm_async", f"{m[1]}.gemm_async"),
    r"(layout=tj\.wgmma\.layout_c\(.*\))": lambda text, m: text.replace("tj.float32)", f"tj.float32, {m[1]})", 1),
    r'(\w+) = tj\.alloc_shared\(\.\.\., (swizzle="\w+")\)': lambda text, m: text.replace(
        f"{m[1]} = tj.alloc_shared((64, 64), A.dtype)", f"{m[1]} = tj.alloc_shared((64, 64), A.dtype, {m[2]})"
    ),
}


def test_following_the_advice_leads_to_a_working_product() -> None:
    text, target, turns = REFUSED, "sm_90", 0
    a, b, c, d = arrays()
    while True:
        lines = "".join(f"    {line}\n" for line in text.strip().splitlines())
        kernel = tj.kernel(threads=128)(source_of(f"def k(A, B, C, D):\n{lines}"))
        try:
            assert "wgmma" in str(kernel.explain(a, b, c, d, target=target))
            break
        except DispatchError as error:
            hint, turns = str(error.hint), turns + 1
        assert turns < 6, hint
        if found := re.search(r'target="(\w+)"', hint):
            target = found[1]
            continue
        before = text
        for pattern, done in ADVICE.items():
            if found := re.search(pattern, hint):
                text = done(text, found)
        assert text != before, f"nothing to do is said: {hint}"
    assert turns == 5 and target == "sm_90a"
    tj.simulate(kernel, 1, a, b, c, d, target=target)
    np.testing.assert_array_equal(c, a[:, :64].astype(np.float32) @ b[:64].astype(np.float32))
