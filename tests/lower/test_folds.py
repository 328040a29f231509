"""Reductions by a function against NumPy folding in order: layouts, types, padding, loops, and wrong plans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import pytest

from tests.lower.test_reductions import CASES as LAYOUTS
from tests.lower.test_reductions import NUMBERS, Case
from tests.lower.test_reductions import PADDED as PADDED_LAYOUTS
from tests.support import running
from tests.support.proving import prove_edited, prove_verdict
from tilejit.dtypes import DType, bool_, float16, float32, int32, int64, uint8
from tilejit.errors import DispatchError
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import Kernel, Let, Stmt, Store, Sync, TileOp, Vector
from tilejit.ir.text.parser import from_text
from tilejit.ir.verify import verify
from tilejit.ir.walk import statements
from tilejit.lower import VARIANTS, DispatchContext, Folds
from tilejit.lower.engine import Verdict, dispatch
from tilejit.lower.proof.folds import prove_folds
from tilejit.runtime import devices
from tilejit.target import target

Array = np.ndarray
Values = tuple[Array, ...]


@dataclass(frozen=True)
class Function:
    """A function of the values of some tiles. text: as the IR has it. meaning: the same in NumPy."""

    dtypes: tuple[DType, ...]
    text: str
    meaning: Callable[[Values, Values], Values]


def _affine(f: Values, g: Values) -> Values:
    return g[0] * f[0], g[0] * f[1] + g[1]


def _welford(a: Values, b: Values) -> Values:
    n = a[2] + b[2]
    d = b[0] - a[0]
    return a[0] + d * (b[2] / n), a[1] + b[1] + d * d * (a[2] * b[2] / n), n


def _softmax(a: Values, b: Values) -> Values:
    m = np.maximum(a[0], b[0])
    return m, a[1] * np.exp(a[0] - m) + b[1] * np.exp(b[0] - m)


def _first_greatest(a: Values, b: Values) -> Values:
    takes = b[0] > a[0]
    return np.where(takes, b[0], a[0]), np.where(takes, b[1], a[1])


def _lasts(a: Values, b: Values) -> Values:
    return tuple(np.where(y != 0, y, x) for x, y in zip(a, b, strict=True))


def lasts(*dtypes: DType) -> Function:
    """The last value that isn't 0, of each tile separately."""
    lower, higher = (", ".join(f"{side}{k}: {t}" for k, t in enumerate(dtypes)) for side in "ab")
    results = ", ".join(f"where(b{k} != {'False' if t == bool_ else 0}, b{k}, a{k})" for k, t in enumerate(dtypes))
    return Function(dtypes, f"def ({lower}), ({higher}) -> ({results})", _lasts)


#: f before g, of f(x) = ax + b and g(x) = cx + d; in integers, so that every order of the right one gives the same bits
AFFINE = Function(
    (int32, int32), "def (a: int32, b: int32), (c: int32, d: int32) -> (c * a, c * b + d)", _affine
)
WELFORD = Function(
    (float32, float32, float32),
    "def (a: float32, s: float32, m: float32), (b: float32, t: float32, k: float32) "
    "let n: float32 = m + k, d: float32 = b - a -> (a + d * (k / n), s + t + d * d * (m * k / n), n)",
    _welford,
)
SOFTMAX = Function(
    (float32, float32),
    "def (m: float32, s: float32), (n: float32, t: float32) let g: float32 = maximum(m, n) "
    "-> (g, s * exp(m - g) + t * exp(n - g))",
    _softmax,
)
FIRST_GREATEST = Function(
    (float32, int32),
    "def (x: float32, i: int32), (y: float32, j: int32) let takes: bool_ = y > x "
    "-> (where(takes, y, x), where(takes, j, i))",
    _first_greatest,
)


@dataclass(frozen=True)
class Fold:
    """A reduction by a function: tiles are loaded from A0, A1, ..., results are stored to B0, B1, ..."""

    case: Case
    function: Function

    def kernel(self, *, loop: bool = False) -> Kernel:
        case, dtypes = self.case, self.function.dtypes
        src, dst = case.shape(case.src), case.shape(case.dst)
        whole, kept = (", ".join(f"0 +: {n}" for n in shape) for shape in (src, dst))
        pairs = ", ".join(f"s{k}[{kept}], x{k}[{whole}]" for k in range(len(dtypes)))
        axis = f"({', '.join(map(str, case.axes))})"
        body = f"{case.scope}.reduce {pairs}; axis={axis}, combine={self.function.text}"
        lines = [
            *(f"param A{k}: global {t}{list(src)} S[{_row_major(src)}] align 16" for k, t in enumerate(dtypes)),
            *(f"param B{k}: global {t}{list(dst)} S[{_row_major(dst)}] align 16 written" for k, t in enumerate(dtypes)),
            *(f"alloc x{k}: local {t}{case.src} align 16" for k, t in enumerate(dtypes)),
            *(f"alloc s{k}: local {t}{case.dst} align 16" for k, t in enumerate(dtypes)),
            *(f"{case.scope}.copy x{k}[{whole}], A{k}[{whole}]" for k in range(len(dtypes))),
            *(("for i: int32 in 0 .. 3 step 1", f"  {body}") if loop else (body,)),
            *(f"{case.scope}.copy B{k}[{kept}], s{k}[{kept}]" for k in range(len(dtypes))),
        ]
        text = "".join(f"  {line}\n" for line in lines)
        return from_text(f"kernel k threads={case.threads} target=sm_90a\n{text}")

    def op(self) -> TileOp:
        (stmt,) = [s for s in statements(self.kernel().body) if isinstance(s, TileOp) and s.name == "reduce"]
        return stmt

    def verdict(self) -> Verdict[object]:
        return dispatch(self.op(), DispatchContext(target("sm_90a"), self.case.threads), VARIANTS)

    def run(self, sources: Sequence[Array], *, loop: bool = False) -> list[Array]:
        """What is left, on the simulator with all checks."""
        made = [np.zeros(self.case.shape(self.case.dst), t.numpy) for t in self.function.dtypes]
        arguments = {f"A{k}": np.ascontiguousarray(x) for k, x in enumerate(sources)}
        arguments |= {f"B{k}": each for k, each in enumerate(made)}
        running.run(self.kernel(loop=loop), arguments, {}, devices.named("sim"))
        return made

    def expected(self, sources: Sequence[Array]) -> list[Array]:
        """From the first element to the last, one after the other."""
        rank, axes = sources[0].ndim, self.case.axes
        kept = [d for d in range(rank) if d not in axes]
        flat = [x.transpose(*kept, *axes).reshape(*(x.shape[d] for d in kept), -1) for x in sources]
        made: Values = tuple(x[..., 0] for x in flat)
        for k in range(1, flat[0].shape[-1]):
            made = self.function.meaning(made, tuple(x[..., k] for x in flat))
        return [np.asarray(each).reshape(self.case.shape(self.case.dst)) for each in made]

    def draw(self, seed: int = 0) -> list[Array]:
        """Values that differ, some of them 0; factors of affine maps are odd, so that nothing gets lost."""
        rng, shape = np.random.default_rng(seed), self.case.shape(self.case.src)
        made = [rng.integers(0, 2 if t == bool_ else 100, shape).astype(t.numpy) for t in self.function.dtypes]
        made = [x * (rng.integers(0, 3, shape) > 0).astype(x.dtype) for x in made]
        return [made[0] * 2 + 1, *made[1:]] if self.function is AFFINE else made


def _row_major(shape: tuple[int, ...]) -> str:
    strides = [prod(shape[d + 1 :]) for d in range(len(shape))]
    return f"({', '.join(map(str, shape))},) : ({', '.join(map(str, strides))},)"


#: layouts in which registers, lanes and warps lie in other orders than the elements
ORDERS = {
    "registers slower than lanes": Case(
        "", 32, "warp", "[64] S[(2, 32) : (1, 1 @ laneid)]", "[1] S[1 : 1] + R[32 : 1 @ laneid]", (0,)
    ),
    "registers between lanes": Case(
        "", 32, "warp", "[128] S[(8, 4, 4) : (4 @ laneid, 1, 1 @ laneid)]", "[1] S[1 : 1] + R[32 : 1 @ laneid]", (0,)
    ),
    "lanes backwards": Case(
        "", 32, "warp",
        "[2, 32] S[(2, 2, 2, 2, 2, 2) : (1, 1 @ laneid, 2 @ laneid, 4 @ laneid, 8 @ laneid, 16 @ laneid)]",
        "[2] S[2 : 1] + R[32 : 1 @ laneid]", (1,),
    ),
    "registers backwards": Case("", 1, "thread", "[3, 8] S[(3, 2, 2, 2) : (8, 1, 2, 4)]", "[3] S[3 : 1]", (1,)),
    "warps faster than lanes": Case(
        "", 128, "cta", "[128, 2] S[(32, 4, 2) : (1 @ tx, 32 @ tx, 1)]", "[2] S[2 : 1] + R[128 : 1 @ tx]", (0,)
    ),
    "warps, registers, lanes, warps": Case(
        "", 128, "cta", "[256] S[(2, 32, 2, 2) : (64 @ tx, 1 @ tx, 1, 32 @ tx)]", "[1] S[1 : 1] + R[128 : 1 @ tx]", (0,)
    ),
    "few threads twice": Case(
        "", 6, "cta", "[12] S[(3, 2, 2) : (2 @ tx, 1, 1 @ tx)]", "[1] S[1 : 1] + R[6 : 1 @ tx]", (0,)
    ),
    "kept between reduced": Case(
        "", 64, "cta", "[4, 8, 6] S[(4, 8, 2, 3) : (16 @ tx, 2 @ tx, 1 @ tx, 1)]",
        "[8] S[8 : 2 @ tx] + R[(4, 2) : (16 @ tx, 1 @ tx)]", (0, 2),
    ),
    "replicated": Case(
        "", 128, "cta", "[32] S[32 : 1 @ tx] + R[4 : 32 @ tx]", "[1] S[1 : 1] + R[128 : 1 @ tx]", (0,)
    ),
    "replicated in partial warps": Case(
        "", 48, "cta", "[16] S[16 : 3 @ tx] + R[3 : 1 @ tx]", "[1] S[1 : 1] + R[48 : 1 @ tx]", (0,)
    ),
}
#: the same with fewer elements than slots
PADDED_ORDERS = {
    "both axes": Case(
        "", 32, "warp", "[7, 13] in [8, 16] S[(8, 4, 4) : (4 @ laneid, 1 @ laneid, 1)]",
        "[1] S[1 : 1] + R[32 : 1 @ laneid]", (0, 1),
    ),
    "both axes among warps": Case(
        "", 96, "cta", "[5, 7] in [6, 32] S[(3, 2, 8, 4) : (32 @ tx, 1, 4 @ tx, 1 @ tx)]",
        "[1] S[1 : 1] + R[96 : 1 @ tx]", (0, 1),
    ),
    "registers slower than lanes": Case(
        "", 32, "warp", "[33] in [64] S[(2, 32) : (1, 1 @ laneid)]", "[1] S[1 : 1] + R[32 : 1 @ laneid]", (0,)
    ),
    "few of many threads in each row": Case(
        "", 64, "cta", "[2, 3] in [2, 64] S[(2, 64) : (1, 1 @ tx)]", "[2] S[2 : 1] + R[64 : 1 @ tx]", (1,)
    ),
}

EVERY = {
    **{f"{name}, as of sums": case for name, case in LAYOUTS.items()},
    **{f"{name}, padded, as of sums": case for name, case in PADDED_LAYOUTS.items()},
    **ORDERS,
    **{f"{name}, padded": case for name, case in PADDED_ORDERS.items()},
}
each_case = pytest.mark.parametrize("case", EVERY.values(), ids=EVERY)
#: in registers, among lanes, through shared memory
KINDS = {name: LAYOUTS[name] for name in ("registers", "lanes", "warps")}
each_kind = pytest.mark.parametrize("case", KINDS.values(), ids=KINDS)


@each_case
def test_maps_are_composed_in_the_order_of_the_elements(case: Case) -> None:
    fold = Fold(case, AFFINE)
    assert verify(fold.kernel(), "tile") == []
    sources = fold.draw()
    for made, wanted in zip(fold.run(sources), fold.expected(sources), strict=True):
        np.testing.assert_array_equal(made, wanted)


@each_case
def test_the_order_is_proved(case: Case) -> None:
    verdict = Fold(case, AFFINE).verdict()
    assert verdict.variant == "in_order"
    prove_verdict(verdict)  # type: ignore[arg-type]


@each_kind
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_values_of_every_type_travel(case: Case, dtype: DType) -> None:
    fold = Fold(case, lasts(dtype))
    sources = fold.draw()
    np.testing.assert_array_equal(fold.run(sources)[0], fold.expected(sources)[0])


@each_kind
def test_four_values_of_different_types_travel_together(case: Case) -> None:
    fold = Fold(case, lasts(bool_, float16, int64, uint8))
    sources = fold.draw(1)
    for made, wanted in zip(fold.run(sources), fold.expected(sources), strict=True):
        np.testing.assert_array_equal(made, wanted)


CLOSE = {"registers": LAYOUTS["registers"], "lanes": PADDED_LAYOUTS["lanes"], "a row": PADDED_LAYOUTS["a row"]}


@pytest.mark.parametrize("case", CLOSE.values(), ids=CLOSE)
def test_means_and_variances_by_welford(case: Case) -> None:
    x = np.random.default_rng(2).normal(3, 2, case.shape(case.src)).astype(np.float32)
    mean, squares, count = Fold(case, WELFORD).run([x, np.zeros_like(x), np.ones_like(x)])
    shape = mean.shape
    assert (count == prod(x.shape[d] for d in case.axes)).all()
    np.testing.assert_allclose(mean, x.mean(case.axes).reshape(shape), rtol=1e-5)
    np.testing.assert_allclose(squares / count, x.var(case.axes).reshape(shape), rtol=1e-5)


@pytest.mark.parametrize("case", CLOSE.values(), ids=CLOSE)
def test_greatest_and_sum_of_exponentials_at_once(case: Case) -> None:
    x = np.random.default_rng(3).normal(0, 5, case.shape(case.src)).astype(np.float32)
    greatest, total = Fold(case, SOFTMAX).run([x, np.ones_like(x)])
    assert (greatest == x.max(case.axes).reshape(greatest.shape)).all()
    wanted = np.exp(x - x.max(case.axes, keepdims=True)).sum(case.axes)
    np.testing.assert_allclose(total, wanted.reshape(total.shape), rtol=1e-5)


@each_case
def test_where_the_first_of_the_greatest_lies(case: Case) -> None:
    shape = case.shape(case.src)
    x = np.random.default_rng(4).integers(0, 3, shape).astype(np.float32)
    at = np.arange(prod(shape), dtype=np.int32).reshape(shape)
    fold = Fold(case, FIRST_GREATEST)
    for made, wanted in zip(fold.run([x, at]), fold.expected([x, at]), strict=True):
        np.testing.assert_array_equal(made, wanted)


@pytest.mark.parametrize("name", ["warps, registers, lanes, warps", "few threads twice", "warps faster than lanes"])
def test_in_a_loop_no_thread_overwrites_what_another_still_reads(name: str) -> None:
    fold = Fold(ORDERS[name], AFFINE)
    sources = fold.draw()
    for made, wanted in zip(fold.run(sources, loop=True), fold.expected(sources), strict=True):
        np.testing.assert_array_equal(made, wanted)


def test_the_plan_counts_what_is_done() -> None:
    def counted(name: str) -> dict[str, int]:
        return dict(Fold(ORDERS[name], AFFINE).verdict().plan.instructions)  # type: ignore[attr-defined]

    # five lanes for each of two registers, and these
    assert counted("registers slower than lanes") == {"reduce.int32.int32": 11, "shfl.sync.bfly.b32": 20}
    assert counted("few threads twice") == {"reduce.int32.int32": 2 + 1 + 2, "bar.sync": 2}


def test_the_order_is_the_documented_one() -> None:
    """Differences aren't associative: each order of combining gives another result."""
    minus = Function((int32,), "def (a: int32), (b: int32) -> (a * 3 - b)", lambda a, b: (a[0] * 3 - b[0],))
    x = np.random.default_rng(5).integers(0, 50, 128).astype(np.int32)
    digits = x.reshape(8, 4, 4)

    def tree(values: Array) -> Array:
        """Along the last axis, neighbours first."""
        while values.shape[-1] > 1:
            values = values[..., ::2] * 3 - values[..., 1::2]
        return values[..., 0]

    made = Fold(ORDERS["registers between lanes"], minus).run([x])
    assert made[0] == tree(tree(tree(digits)))


def test_sources_in_different_threads_are_refused() -> None:
    case = LAYOUTS["registers"]
    op = Fold(case, AFFINE).op()
    other = from_text(
        "kernel k threads=32 target=sm_90a\n"
        "  alloc x1: local int32[32, 8] S[(2, 2, 8, 8) : (16 @ laneid, 1 @ laneid, 2 @ laneid, 1)] align 16\n"
    ).body[0].buffer  # type: ignore[union-attr]
    moved = replace(op, operands=(*op.operands[:3], replace(op.operands[3], buffer=other)))  # type: ignore[arg-type]
    with pytest.raises(DispatchError, match="over threads differently|in incompatible ways"):
        dispatch(moved, DispatchContext(target("sm_90a"), 32), VARIANTS)


def swapped(moves: Folds) -> Folds:
    order = moves.order.copy()
    order[:, [0, 1]] = order[:, [1, 0]]
    return replace(moves, order=order)


def backwards(moves: Folds) -> Folds:
    return replace(moves, order=moves.order[:, ::-1])


def one_too_few(moves: Folds) -> Folds:
    return replace(moves, order=moves.order[:, 1:])


def one_twice(moves: Folds) -> Folds:
    return replace(moves, order=np.concatenate([moves.order[:, :1], moves.order], axis=1))


def anothers_register(moves: Folds) -> Folds:
    src = moves.src.copy()
    src[1] = src[1][::-1]
    return replace(moves, src=src)


def results_swapped(moves: Folds) -> Folds:
    return replace(moves, dst=moves.dst[:, ::-1])


def a_result_too_few(moves: Folds) -> Folds:
    return replace(moves, dst=moves.dst[:, :-1], src=moves.src[:, :-1])


def of_other_threads(moves: Folds) -> Folds:
    return replace(moves, order=np.roll(moves.order, 1, axis=0))


WRONG = {
    swapped: "out of order",
    backwards: "out of order",
    one_too_few: "is made of elements",
    one_twice: "has an element twice",
    anothers_register: "is made of elements",
    results_swapped: "is made of elements",
    a_result_too_few: "isn't written",
    of_other_threads: "is made of elements",
}


@pytest.mark.parametrize("change", WRONG, ids=lambda change: change.__name__)
def test_the_proof_finds_a_wrong_plan(change: Callable[[Folds], Folds]) -> None:
    fold = Fold(LAYOUTS["warps"], AFFINE)
    op, moves = fold.op(), fold.verdict().plan.combined_order()  # type: ignore[attr-defined]
    prove_folds(moves, op)
    with pytest.raises(AssertionError, match=WRONG[change]):
        prove_folds(change(moves), op)


def test_the_proof_finds_padding_that_is_taken() -> None:
    fold = Fold(PADDED_LAYOUTS["lanes, along vectors"], AFFINE)
    op, moves = fold.op(), fold.verdict().plan.combined_order()  # type: ignore[attr-defined]
    prove_folds(moves, op)
    taken = replace(moves, order=np.where(moves.order < 0, moves.order.max(axis=1, keepdims=True), moves.order))
    with pytest.raises(AssertionError):
        prove_folds(taken, op)


def other_lanes(stmt: Stmt) -> tuple[Stmt, ...]:
    """A lane takes the value of the other half of a pair of lanes for its own."""
    if isinstance(stmt, Let) and stmt.var.name.startswith("upper"):
        return (replace(stmt, value=build.logical_not(stmt.value)),)
    return (stmt,)


def of_the_next_register(stmt: Stmt) -> tuple[Stmt, ...]:
    if isinstance(stmt, Store) and stmt.place.buffer.name == "s0":
        assert isinstance(stmt.place, Vector)
        return (replace(stmt, place=replace(stmt.place, offset=build.sub(1, stmt.place.offset))),)
    return (stmt,)


def unsynchronized(stmt: Stmt) -> tuple[Stmt, ...]:
    return () if isinstance(stmt, Sync) else (stmt,)


@pytest.mark.parametrize("change", [other_lanes, of_the_next_register, unsynchronized])
def test_the_proof_finds_a_wrong_emitter(change: Callable[[Stmt], tuple[Stmt, ...]]) -> None:
    verdict = Fold(LAYOUTS["warps"], AFFINE).verdict()
    with pytest.raises(AssertionError):
        prove_edited(verdict.chosen, verdict.plan, verdict.op, change)  # type: ignore[arg-type]
