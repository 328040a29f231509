"""Scans against NumPy on the simulator with all checks, the proof of what they emit, and the costs that they state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import pytest

from tests.lower.test_folds import AFFINE, EVERY, KINDS, Function, lasts
from tests.lower.test_folds import Case as Layout
from tests.support import running
from tests.support.proving import prove_edited, prove_verdict
from tilejit.dtypes import bool_, float16, int32, int64, uint8
from tilejit.errors import DispatchError
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import TRUE, Instruction, Kernel, Let, Stmt, Store, Sync, TileOp, Vector
from tilejit.ir.text.parser import from_text
from tilejit.ir.verify import verify
from tilejit.ir.walk import statements
from tilejit.lower import VARIANTS, DispatchContext
from tilejit.lower.engine import Verdict, dispatch
from tilejit.lower.moves.scan import ScanOrder
from tilejit.ops.fold import COMBINE, scanned
from tilejit.runtime import devices
from tilejit.target import target

Array = np.ndarray


@dataclass(frozen=True)
class Scan:
    """A scan of tiles that are loaded from A0, A1, ...; results are stored to B0, B1, ... initial: "" for none."""

    layout: Layout
    axis: int
    function: Function = AFFINE
    is_reverse: bool = False
    is_exclusive: bool = False
    initial: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return self.layout.shape(self.layout.src)

    def kernel(self, *, loop: bool = False) -> Kernel:
        layout, dtypes = self.layout, self.function.dtypes
        whole = ", ".join(f"0 +: {n}" for n in self.shape)
        extents, strides = ", ".join(map(str, self.shape)), ", ".join(self._strides())
        memory = f"{list(self.shape)} S[({extents},) : ({strides},)] align 16"
        count = range(len(dtypes))
        operands = [f"{name}{k}[{whole}]" for k in count for name in "sx"]
        if self.initial:
            operands += ["None"] * (8 - len(operands))
            operands += [f"{x}:{t}" for x, t in zip(self.initial, dtypes, strict=True)]
        flags = f", reverse={self.is_reverse}, exclusive={self.is_exclusive}"
        body = f"{layout.scope}.scan {', '.join(operands)}; axis=({self.axis}), combine={self.function.text}{flags}"
        lines = [
            *(f"param A{k}: global {t}{memory}" for k, t in enumerate(dtypes)),
            *(f"param B{k}: global {t}{memory} written" for k, t in enumerate(dtypes)),
            *(f"alloc {name}{k}: local {t}{layout.src} align 16" for name in "xs" for k, t in enumerate(dtypes)),
            *(f"{layout.scope}.copy x{k}[{whole}], A{k}[{whole}]" for k in count),
            *(("for i: int32 in 0 .. 3 step 1", f"  {body}") if loop else (body,)),
            *(f"{layout.scope}.copy B{k}[{whole}], s{k}[{whole}]" for k in count),
        ]
        text = "".join(f"  {line}\n" for line in lines)
        return from_text(f"kernel k threads={layout.threads} target=sm_90a\n{text}")

    def _strides(self) -> list[str]:
        return [str(prod(self.shape[d + 1 :])) for d in range(len(self.shape))]

    def op(self) -> TileOp:
        (stmt,) = [s for s in statements(self.kernel().body) if isinstance(s, TileOp) and s.name == "scan"]
        return stmt

    def verdict(self) -> Verdict[object]:
        return dispatch(self.op(), DispatchContext(target("sm_90a"), self.layout.threads), VARIANTS)

    def check(self, *, loop: bool = False) -> None:
        """Compare with the elements combined one after the other."""
        rng = np.random.default_rng(0)
        sources = [rng.integers(0, 2 if t == bool_ else 100, self.shape).astype(t.numpy) for t in self.function.dtypes]
        sources = [x * (rng.integers(0, 3, self.shape) > 0).astype(x.dtype) for x in sources]
        made = [np.zeros_like(x) for x in sources]
        kernel, arrays = self.kernel(loop=loop), {"A": sources, "B": made}
        assert verify(kernel, "tile") == []
        arguments = {f"{name}{k}": x for name, each in arrays.items() for k, x in enumerate(each)}
        running.run(kernel, arguments, {}, devices.named("sim"))
        combine = self.op().attr(COMBINE.name)
        with np.errstate(all="ignore"):
            wanted = scanned(sources, self.axis, combine, reverse=self.is_reverse,  # type: ignore[arg-type]
                             exclusive=self.is_exclusive, initial=self.initial)
        for x, y in zip(made, wanted, strict=True):
            np.testing.assert_array_equal(x, y)


#: whether a scan is reverse and exclusive, and its initial values
WAYS = [(is_reverse, *rest) for rest in ((False, ()), (False, (3, 5)), (True, (3, 5))) for is_reverse in (False, True)]
#: every axis of every layout of the tests of reductions, forward and in reverse, in one of three ways
AXES = [(name, each, axis) for name, each in EVERY.items() for axis in range(len(each.shape(each.src)))]
CASES = [(*case, *WAYS[2 * (k % 3) + is_reverse]) for k, case in enumerate(AXES) for is_reverse in (0, 1)]
each_kind = pytest.mark.parametrize("layout", KINDS.values(), ids=KINDS)


@pytest.mark.parametrize(
    ("layout", "axis", "is_reverse", "is_exclusive", "initial"), [case[1:] for case in CASES],
    ids=[f"{case[0]}, axis {case[2]}, {'reverse' if case[3] else 'forward'}" for case in CASES],
)
def test_maps_are_composed_in_order_and_that_is_proved(
    layout: Layout, axis: int, is_reverse: bool, is_exclusive: bool, initial: tuple[int, ...]
) -> None:
    scan = Scan(layout, axis, AFFINE, is_reverse, is_exclusive, initial)
    scan.check()
    prove_verdict(scan.verdict())  # type: ignore[arg-type]


@each_kind
@pytest.mark.parametrize("is_reverse", [False, True], ids=["forward", "reverse"])
def test_four_values_of_different_types_travel_together(layout: Layout, is_reverse: bool) -> None:
    for axis in range(len(layout.shape(layout.src))):
        Scan(layout, axis, lasts(bool_, float16, int64, uint8), is_reverse).check()


@pytest.mark.parametrize("name", ["warps, registers, lanes, warps", "few threads twice", "warps faster than lanes"])
def test_in_a_loop_no_thread_overwrites_what_another_still_reads(name: str) -> None:
    Scan(EVERY[name], 0).check(loop=True)


SUM = Function((int32,), "def (a: int32), (b: int32) -> (a + b)", lambda a, b: (a[0] + b[0],))

#: layout of a row -> combinations, shuffles (exchanges and broadcasts) and barriers of each thread
COSTS = {
    "[8] S[8 : 1]": (1, (7, 0, 0, 0)),
    # totals of lanes, less that of all; prefixes of lanes; elements
    "[32] S[32 : 1 @ laneid]": (32, (4 + 4 + 1, 5, 0, 0)),
    "[128] S[(32, 4) : (1 @ laneid, 1)]": (32, (3 + 4 + 4 + 4, 5, 0, 0)),
    "[512] S[(128, 4) : (1 @ tx, 1)]": (128, (3 + 5 + 2 + 5 + 4, 5, 0, 1)),
    # each lane reads the total of one warp
    "[4096] S[(1024, 4) : (1 @ tx, 1)]": (1024, (3 + 5 + 4 + 5 + 4 + 4, 5 + 5, 1, 1)),
}


@pytest.mark.parametrize("text", COSTS)
def test_a_scan_takes_one_shuffle_per_bit_of_the_lane_and_of_the_warp_and_one_barrier(text: str) -> None:
    threads, (combinations, shuffles, broadcasts, barriers) = COSTS[text]
    scope = "thread" if threads == 1 else "warp" if threads == 32 else "cta"
    scan = Scan(Layout("", threads, scope, text, "", (0,)), 0, SUM)
    verdict = scan.verdict()
    counted = {"scan.int32": combinations, "shfl.sync.bfly.b32": shuffles, "shfl.sync.idx.b32": broadcasts,
               "bar.sync": barriers}
    instructions = dict(verdict.plan.instructions)  # type: ignore[attr-defined]
    assert instructions == {name: count for name, count in counted.items() if count}


def test_the_grouping_is_the_documented_one() -> None:
    """Differences aren't associative: each grouping gives another result."""
    minus = Function((int32,), "def (a: int32), (b: int32) -> (a * 3 - b)", lambda a, b: (a[0] * 3 - b[0],))
    scan = Scan(Layout("", 32, "warp", "[128] S[(32, 4) : (1 @ laneid, 1)]", "", (0,)), 0, minus)
    x = np.random.default_rng(5).integers(0, 50, 128).astype(np.int32)
    out = np.zeros_like(x)
    running.run(scan.kernel(), {"A0": x, "B0": out}, {}, devices.named("sim"))

    runs = x.reshape(32, 4)
    total = runs[:, 0]
    for column in runs.T[1:]:
        total = total * 3 - column
    # lane 3 is preceded by lanes 0 and 1, combined, and by lane 2
    before = (total[0] * 3 - total[1]) * 3 - total[2]
    assert out[13] == before * 3 - (runs[3, 0] * 3 - runs[3, 1])


def test_tiles_in_different_layouts_are_refused() -> None:
    layout = EVERY["registers, as of sums"]
    op = Scan(layout, 1).op()
    other = from_text(
        "kernel k threads=32 target=sm_90a\n"
        "  alloc x1: local int32[32, 8] S[(2, 2, 8, 8) : (16 @ laneid, 1 @ laneid, 2 @ laneid, 1)] align 16\n"
    ).body[0].buffer  # type: ignore[union-attr]
    moved = replace(op, operands=(*op.operands[:3], replace(op.operands[3], buffer=other)))  # type: ignore[arg-type]
    with pytest.raises(DispatchError, match="over threads differently|in incompatible ways"):
        dispatch(moved, DispatchContext(target("sm_90a"), 32), VARIANTS)


def of_the_wrong_lane(stmt: Stmt) -> Iterable[Stmt]:
    if isinstance(stmt, Instruction) and stmt.name == "shfl.bfly":
        return (replace(stmt, inputs=(stmt.inputs[0], build.const(1, int32))),)
    return (stmt,)


def other_lanes(stmt: Stmt) -> Iterable[Stmt]:
    """A lane takes the value of the other half of a pair of lanes for its own."""
    if isinstance(stmt, Let) and stmt.var.name.startswith("upper"):
        return (replace(stmt, value=build.logical_not(stmt.value)),)
    return (stmt,)


def always_preceded(stmt: Stmt) -> Iterable[Stmt]:
    """The first thread combines the values that follow it with its own."""
    if isinstance(stmt, Let) and stmt.var.name.startswith("counts"):
        return (replace(stmt, value=TRUE),)
    return (stmt,)


def from_the_second(stmt: Stmt) -> Iterable[Stmt]:
    """The first element of each thread isn't part of the scan."""
    if isinstance(stmt, Let) and stmt.var.name.startswith("combined") and "value.1" in repr(stmt.value):
        return (replace(stmt, value=build.const(0, stmt.value.dtype)),)
    return (stmt,)


def of_the_next_register(stmt: Stmt) -> Iterable[Stmt]:
    if isinstance(stmt, Store) and stmt.place.buffer.name == "s0":
        assert isinstance(stmt.place, Vector)
        return (replace(stmt, place=replace(stmt.place, offset=build.sub(3, stmt.place.offset))),)
    return (stmt,)


def unsynchronized(stmt: Stmt) -> Iterable[Stmt]:
    return () if isinstance(stmt, Sync) else (stmt,)


WRONG_EMITTERS = (
    of_the_wrong_lane, other_lanes, always_preceded, from_the_second, of_the_next_register, unsynchronized,
)
ROW = Layout("", 64, "cta", "[256] S[(64, 4) : (1 @ tx, 1)]", "", (0,))
#: each lane reads the total of one of eight warps
BY_LANES = {
    "a row": Layout("", 256, "cta", "[512] S[(256, 2) : (1 @ tx, 1)]", "", (0,)),
    "runs": Layout("", 256, "cta", "[2, 1024] S[(2, 2, 256, 2) : (4, 2, 1 @ tx, 1)]", "", (0,)),
    "warps faster than lanes": Layout("", 256, "cta", "[256, 2] S[(32, 8, 2) : (1 @ tx, 32 @ tx, 1)]", "", (0,)),
    "padded": Layout("", 256, "cta", "[700] in [1024] S[(2, 256, 2) : (2, 1 @ tx, 1)]", "", (0,)),
}


@pytest.mark.parametrize("layout", BY_LANES.values(), ids=BY_LANES)
@pytest.mark.parametrize("is_reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("is_exclusive", [False, True])
def test_lanes_combine_the_totals_of_many_warps(layout: Layout, is_reverse: bool, is_exclusive: bool) -> None:
    for axis in range(len(layout.shape(layout.src))):
        scan = Scan(layout, axis, AFFINE, is_reverse, is_exclusive, (3, 5) if is_exclusive else ())
        scan.check(loop=True)
        prove_verdict(scan.verdict())  # type: ignore[arg-type]


@pytest.mark.parametrize("change", WRONG_EMITTERS)
@pytest.mark.parametrize("layout", [ROW, BY_LANES["a row"]], ids=["two warps", "eight warps"])
@pytest.mark.parametrize("is_reverse", [False, True], ids=["forward", "reverse"])
def test_the_proof_finds_a_wrong_emitter(
    change: Callable[[Stmt], Iterable[Stmt]], layout: Layout, is_reverse: bool
) -> None:
    verdict = Scan(layout, 0, SUM, is_reverse).verdict()
    prove_verdict(verdict)  # type: ignore[arg-type]
    with pytest.raises(AssertionError):
        prove_edited(verdict.chosen, verdict.plan, verdict.op, change)  # type: ignore[arg-type]


def backwards(order: ScanOrder) -> ScanOrder:
    return replace(order, is_reverse=not order.is_reverse)


def exclusively(order: ScanOrder) -> ScanOrder:
    return replace(order, is_exclusive=True)


def without_a_step(order: ScanOrder) -> ScanOrder:
    """Two lanes don't combine their totals."""
    return replace(order, steps=(*order.steps[:2], *order.steps[3:]))


def slowest_first(order: ScanOrder) -> ScanOrder:
    return replace(order, steps=order.steps[::-1])


@pytest.mark.parametrize("change", [backwards, exclusively, without_a_step, slowest_first])
def test_the_proof_finds_a_wrong_plan(change: Callable[[ScanOrder], ScanOrder]) -> None:
    """The emitter does what the plan says, which isn't a scan."""
    verdict = Scan(ROW, 0, SUM, initial=(7,)).verdict()
    plan = replace(verdict.plan, order=change(verdict.plan.order))  # type: ignore[type-var, attr-defined]
    with pytest.raises(AssertionError, match="combines .* instead of|each partial must be written"):
        prove_edited(verdict.chosen, plan, verdict.op, lambda stmt: (stmt,))  # type: ignore[arg-type]
