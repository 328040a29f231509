"""The CTAs that copies and releases reach, shares of a copy, and the barriers of the cluster that these need."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tests.support.programs import array, statements, tile_ir
from tilejit.dtypes import float16, int32
from tilejit.errors import DispatchError
from tilejit.ir import nodes as ir
from tilejit.ir.arithmetic.evaluate import evaluate
from tilejit.ir.clusters import Cluster
from tilejit.ir.text.parser import from_text
from tilejit.ir.text.printer import to_text
from tilejit.ir.verify import verify
from tilejit.isa.barriers import CLUSTER_ENTRY, CLUSTER_EXIT
from tilejit.isa.mbarrier import ARRIVE_AT_PEER
from tilejit.isa.tma import MULTICAST_LOADS
from tilejit.lower import lower
from tilejit.lower.passes import arrivals, clusters, expects, fences
from tilejit.target import target

CLUSTERS = [(2, 1, 1), (1, 3, 1), (2, 3, 1), (4, 2, 2), (1, 1, 5), (3, 2, 2)]
MULTICAST = {row.name for row in MULTICAST_LOADS.rows()}


def ranks(cluster: Cluster) -> list[tuple[int, int, int]]:
    """The coordinates of each CTA, in the order of their ranks."""
    return [(x, y, z) for z, y, x in itertools.product(*(range(n) for n in reversed(cluster)))]


def specials(cluster: Cluster, rank: int) -> dict[str, int]:
    return {"cluster_rank": rank, **{f"cluster_rank.{d}": at for d, at in enumerate(ranks(cluster)[rank])}}


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_mask_and_the_others_are_the_ctas_along_an_axis(cluster: Cluster, axis: int) -> None:
    every = ranks(cluster)
    for rank, at in enumerate(every):
        known = specials(cluster, rank)
        beside = {r for r, other in enumerate(every) if all(other[d] == at[d] for d in range(3) if d != axis)}
        mask = int(evaluate(clusters.multicast_mask(cluster, axis), known))
        assert {r for r in range(16) if mask >> r & 1} == beside
        others = [int(evaluate(other, known)) for other in clusters.peer_ranks(cluster, axis)]
        assert len(set(others)) == len(others) and {rank, *others} == beside
    if math.prod(cluster) == cluster[axis]:
        assert isinstance(clusters.multicast_mask(cluster, axis), ir.Const)


def lane(*body: str, cluster: Cluster | None, threads: int = 32, ring: str = "2, multicast=0") -> ir.Kernel:
    text = f"def k(A, B, n):\n    ring = tj.alloc_ring({ring})\n    i = 0\n"
    text += '    s = tj.alloc_shared((2, 64, 128), A.dtype, swizzle="128B")\n'
    text += "".join(f"    {line}\n" for part in body for line in part.splitlines())
    tile = tile_ir(text, array(float16, 2), array(float16, 2), int32, threads=threads, cluster=cluster)
    assert from_text(to_text(tile)) == tile
    made = arrivals.expand(fences.with_fences(expects.lower_expects(lower(tile, target("sm_90a")).kernel)))
    made = clusters.synchronize_clusters(made)
    assert verify(made, "lane") == [] and from_text(to_text(made)) == made
    return made


LOAD = "tj.warp.copy_async(s[0], A[0:64, 0:128], barrier=ring[i], multicast=0)\ntj.warp.commit(ring[i])"
RELEASE = "tj.warp.release(ring[i])"


def names(kernel: ir.Kernel) -> list[str]:
    """The instructions that involve other CTAs, by letter: E and X, cluster barriers; L, loads; r, releases."""
    letters = {CLUSTER_ENTRY.name: "E", CLUSTER_EXIT.name: "X", ARRIVE_AT_PEER.name: "r"}
    letters.update(dict.fromkeys(MULTICAST, "L"))
    every = statements(kernel.body, ir.Instruction)
    return [letters[each.name] for each in every if each.name in letters]


def test_ctas_that_copy_to_each_other_begin_and_end_together() -> None:
    assert sorted(names(lane(LOAD, cluster=(2, 1, 1)))) == ["E", "L", "X"]
    made = lane(LOAD, RELEASE, cluster=(2, 1, 1))
    assert made.body[0] == ir.Instruction(CLUSTER_ENTRY.name) and made.body[-1] == ir.Instruction(CLUSTER_EXIT.name)


@pytest.mark.parametrize("cluster", [None, (1, 1, 1), (1, 2, 1)])
def test_along_an_axis_of_one_cta_nothing_is_different(cluster: Cluster | None) -> None:
    made = lane(LOAD, RELEASE, cluster=cluster)
    plain = lane(LOAD.replace(", multicast=0", ""), RELEASE, cluster=cluster, ring="2")
    assert names(made) == [] and to_text(made).replace(" along 0", "") == to_text(plain)


def test_ctas_without_remote_arrivals_may_exit_before_the_others() -> None:
    roles = "if tj.warp_id() == 0:\n" + _inner(LOAD) + "else:\n" + _inner(RELEASE)
    made = lane(roles, cluster=(2, 1, 1), threads=64)
    branch = made.body[-1]
    assert isinstance(branch, ir.If) and branch.orelse[-1] == ir.Instruction(CLUSTER_EXIT.name)
    assert sorted(names(made)) == ["E", "L", "X", "r"]


@pytest.mark.parametrize("before", [RELEASE, "for k in range(n):\n    " + RELEASE])
def test_remote_arrivals_before_the_last_branch_make_all_synchronize(before: str) -> None:
    roles = [f"if tj.warp_id() == {w}:\n" + _inner(text) for w, text in enumerate((before, LOAD, RELEASE))]
    for order in itertools.permutations(roles):
        made = lane(*order, cluster=(2, 1, 1), threads=96)
        leaving = made.body[-1]
        if order[-1] == roles[1]:  # who doesn't copy
            assert isinstance(leaving, ir.If) and leaving.then[-1:] != leaving.orelse[-1:]
            leaving = leaving.orelse[-1]
        assert leaving == ir.Instruction(CLUSTER_EXIT.name) and names(made).count("X") == 1


@pytest.mark.parametrize(
    ("condition", "threads"), [("n == 0", 32), ("tj.cta_id(0) == 0", 32), ("tj.warp_id() == n", 64)]
)
def test_all_synchronize_if_no_thread_id_selects_the_path(condition: str, threads: int) -> None:
    made = lane(f"if {condition}:\n" + _inner(LOAD) + "else:\n" + _inner(RELEASE), cluster=(2, 1, 1), threads=threads)
    assert made.body[-1] == ir.Instruction(CLUSTER_EXIT.name)


def test_an_early_return_waits_for_the_others_too() -> None:
    made = lane("if n > 3:\n    return", LOAD, RELEASE, cluster=(2, 1, 1))
    (leaving,) = [stmt for stmt in statements(made.body, ir.If) if isinstance(stmt.then[-1], ir.Return)]
    assert leaving.then == (ir.Instruction(CLUSTER_EXIT.name), ir.Return())
    assert made.body[-1] == ir.Instruction(CLUSTER_EXIT.name)
    # no thread waits on a path without arrivals
    roles = "if tj.warp_id() == 0:\n    if n > 3:\n        return\n" + _inner(LOAD) + "else:\n" + _inner(RELEASE)
    assert names(lane(roles, cluster=(2, 1, 1), threads=64)).count("X") == 1


def _inner(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


@pytest.mark.parametrize("read", ["B[0, 0] = s[0, 0, 0]", "tj.warp.copy(B[0:64, 0:128], s[0])", "s[0, 0, 0] = 1.0"])
def test_threads_touch_nothing_that_others_copy_to_them(read: str) -> None:
    with pytest.raises(DispatchError, match="other CTAs copy to s with multicast=: only products") as error:
        lane(LOAD, "ring[i].wait()", read, cluster=(2, 1, 1))
    assert error.value.span is not None and read in error.value.span.text
    lane(LOAD, "ring[i].wait()", read, cluster=(1, 2, 1))


PART = "tj.warp.copy_async(s[0, 0:32], A[0:32, 0:128], barrier=ring[i], multicast=0)\ntj.warp.commit(ring[i])"


@pytest.mark.parametrize(
    "own", ["tj.warp.fill(s[1], 0.0)", "tj.warp.fill(s[0, 32:64], 0.0)", "s[0, 40, 3] = 1.0", "B[0, 0] = s[1, 0, 0]",
            "tj.warp.fill(s.permute(0, 2, 1)[0, :, 32:64], 0.0)"]
)
def test_threads_may_touch_what_no_copy_of_others_fills(own: str) -> None:
    lane(PART, own, cluster=(2, 1, 1))


@pytest.mark.parametrize(
    "other", ["tj.warp.fill(s, 0.0)", "tj.warp.fill(s[0, 31:63], 0.0)", "s[0, n, 3] = 1.0", "tj.warp.fill(s[i], 0.0)"]
)
def test_threads_touch_nothing_that_may_be_among_what_others_copy(other: str) -> None:
    with pytest.raises(DispatchError, match="no thread may write it"):
        lane(PART, other.replace("[i]", "[n]"), cluster=(2, 1, 1))


def test_a_release_at_a_stage_known_in_advance_finds_the_same_barrier_in_other_ctas() -> None:
    made = lane(LOAD, "tj.warp.release(ring[1])", cluster=(2, 1, 1))
    (remote,) = [each for each in statements(made.body, ir.Instruction) if each.name == ARRIVE_AT_PEER.name]
    assert isinstance(remote.inputs[0], ir.Vector) and isinstance(remote.inputs[0].offset, ir.Const)
    assert remote.inputs[0].offset.value == 1


def test_a_rank_counts_as_one_of_an_axis() -> None:
    # columns of 2 blocks: each of two CTAs copies one, from its own coordinates to its own place
    made = lane(LOAD, cluster=(2, 1, 1))
    (load,) = [each for each in statements(made.body, ir.Instruction) if each.name in MULTICAST]
    lets = {let.var.name: let.value for let in statements(made.body, ir.Let)}

    def value(expr: ir.Expr, rank: int) -> int:
        known: dict[str, int | np.ndarray] = dict(specials((2, 1, 1), rank))
        for name, defined in lets.items():
            known[name] = evaluate(defined, known)
        return int(evaluate(expr, known))

    box = load.inputs[0]
    assert isinstance(box, ir.Vector)
    assert [value(box.offset, rank) for rank in (0, 1)] == [0, 64 * 64]
    assert [value(load.inputs[2], rank) for rank in (0, 1)] == [0, 64]  # type: ignore[arg-type]
