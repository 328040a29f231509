"""Reductions on the simulator and in their plans: special values, types, padding, loops, orders, and wrong plans."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np
import pytest

from tests.support import running
from tilejit import dtypes
from tilejit.dtypes import DTYPES, DType, bfloat16, float16, float32, float64, int32
from tilejit.errors import DispatchError
from tilejit.ir.nodes import Kernel, TileOp
from tilejit.ir.text.parser import from_text
from tilejit.ir.walk import statements
from tilejit.lower import VARIANTS, DispatchContext
from tilejit.lower.engine import Verdict, dispatch
from tilejit.lower.moves.combining import Shuffles
from tilejit.ops.reduce import REDUCTIONS
from tilejit.ops.tile import TILE_OPERATIONS
from tilejit.runtime import devices
from tilejit.target import target

Array = np.ndarray
NAN, INF = float("nan"), float("inf")


@dataclass(frozen=True)
class Case:
    """A reduction of a tile that is loaded from A, of which the result is stored to B.

    src, dst: shape and layout of the local tiles, as text. is_voted: whether all threads share one result.
    """

    variant: str
    threads: int
    scope: str
    src: str
    dst: str
    axes: tuple[int, ...]
    is_voted: bool = False

    def variant_of(self, op: str) -> str:
        return "vote" if self.is_voted and op in ("any", "all") else self.variant

    def shape(self, tile: str) -> tuple[int, ...]:
        return tuple(int(n) for n in tile[1 : tile.index("]")].split(","))

    def kernel(self, op: str, source: DType, result: DType, *, loop: bool = False) -> Kernel:
        src, dst = self.shape(self.src), self.shape(self.dst)
        whole, kept = (", ".join(f"0 +: {n}" for n in shape) for shape in (src, dst))
        body = f"{self.scope}.{op} s[{kept}], x[{whole}]; axis=({', '.join(map(str, self.axes))})"
        looped = f"for i: int32 in 0 .. 3 step 1\n    {body}" if loop else body
        return from_text(
            f"kernel k threads={self.threads} target=sm_90a\n"
            f"  param A: global {source}{list(src)} S[{_row_major(src)}] align 16\n"
            f"  param B: global {result}{list(dst)} S[{_row_major(dst)}] align 16 written\n"
            f"  alloc x: local {source}{self.src} align 16\n"
            f"  alloc s: local {result}{self.dst} align 16\n"
            f"  {self.scope}.copy x[{whole}], A[{whole}]\n"
            f"  {looped}\n"
            f"  {self.scope}.copy B[{kept}], s[{kept}]\n"
        )

    def verdict(self, op: str, source: DType = float32) -> Verdict[object]:
        made = self.kernel(op, source, REDUCTIONS[op].result_type(source))
        (stmt,) = [s for s in statements(made.body) if isinstance(s, TileOp) and s.name == op]
        return dispatch(stmt, DispatchContext(target("sm_90a"), self.threads), VARIANTS)

    def run(self, op: str, x: Array, result: DType | None = None, *, loop: bool = False) -> Array:
        """What is left of `x`, on the simulator with all checks."""
        source = dtypes.from_numpy(x.dtype)
        assert source is not None
        to = result or REDUCTIONS[op].result_type(source)
        made = np.zeros(self.shape(self.dst), to.numpy)
        kernel = self.kernel(op, source, to, loop=loop)
        running.run(kernel, {"A": np.ascontiguousarray(x), "B": made}, {}, devices.named("sim"))
        return made

    def expected(self, op: str, x: Array, result: DType | None = None) -> Array:
        source = dtypes.from_numpy(x.dtype)
        assert source is not None
        to = result or REDUCTIONS[op].result_type(source)
        return TILE_OPERATIONS[op].reference(np.zeros(self.shape(self.dst), to.numpy), x, axis=self.axes)


def _row_major(shape: tuple[int, ...]) -> str:
    strides = [prod(shape[d + 1 :]) for d in range(len(shape))]
    return f"({', '.join(map(str, shape))},) : ({', '.join(map(str, strides))},)"


CASES = {
    "registers": Case(
        "registers", 32, "warp", "[32, 8] S[(32, 8) : (1 @ laneid, 1)]", "[32] S[32 : 1 @ laneid]", (1,)
    ),
    "thread": Case("registers", 1, "thread", "[3, 5] S[(3, 5) : (5, 1)]", "[5] S[5 : 1]", (0,)),
    "lanes": Case(
        "shuffle", 64, "warp", "[8, 4, 6] S[(8, 4, 2, 3) : (4 @ laneid, 1 @ laneid, 3, 1)]",
        "[4] S[4 : 1 @ laneid] + R[8 : 4 @ laneid]", (0, 2),
    ),
    "all lanes": Case(
        "shuffle", 32, "cta", "[64] S[(32, 2) : (1 @ tx, 1)]", "[1] S[1 : 1] + R[32 : 1 @ tx]", (0,), is_voted=True
    ),
    "lanes of two warps": Case(
        "shuffle", 64, "warp", "[2, 64] S[(2, 32, 2) : (1, 1 @ laneid, 2)]", "[2] S[2 : 1] + R[32 : 1 @ laneid]", (1,),
        is_voted=True,
    ),
    "one result of warpgroups": Case(
        "shared", 256, "warpgroup", "[3, 128] S[(3, 128) : (1, 1 @ tid_in_wg)]",
        "[1] S[1 : 1] + R[128 : 1 @ tid_in_wg]", (0, 1), is_voted=True,
    ),
    "warps": Case(
        "shared", 128, "cta", "[32, 12] S[(32, 4, 3) : (4 @ tx, 1 @ tx, 1)]",
        "[12] S[(4, 3) : (1 @ tx, 1)] + R[32 : 4 @ tx]", (0,),
    ),
    "16 warps": Case(
        "shared", 512, "cta", "[512, 2] S[(512, 2) : (1 @ tx, 1)]", "[2] S[2 : 1] + R[512 : 1 @ tx]", (0,)
    ),
    "halves": Case(
        "shuffle", 64, "cta", "[16, 64] S[(8, 2, 32, 2) : (2, 32 @ tx, 1 @ tx, 1)]",
        "[16] S[(8, 2) : (1, 32 @ tx)] + R[32 : 1 @ tx]", (1,),
    ),
    "partial warps": Case(
        "shared", 100, "cta", "[100, 3] S[(100, 3) : (1 @ tx, 1)]", "[3] S[3 : 1] + R[100 : 1 @ tx]", (0,)
    ),
    "three lanes": Case(
        "shared", 96, "cta", "[32, 3] S[(32, 3) : (3 @ tx, 1 @ tx)]", "[32] S[32 : 3 @ tx] + R[3 : 1 @ tx]", (1,)
    ),
    "warpgroups": Case(
        "shared", 256, "warpgroup", "[64, 2, 2] S[(64, 2, 2) : (2 @ tid_in_wg, 1 @ tid_in_wg, 1)]",
        "[2] S[2 : 1 @ tid_in_wg] + R[64 : 2 @ tid_in_wg]", (0, 2),
    ),
}

#: the same with fewer elements than slots
PADDED = {
    "registers": Case(
        "registers", 32, "warp", "[30, 5] in [32, 8] S[(32, 8) : (1 @ laneid, 1)]", "[30] in [32] S[32 : 1 @ laneid]",
        (1,),
    ),
    "lanes": Case(
        "shuffle", 32, "warp", "[7, 13] in [8, 16] S[(8, 4, 4) : (4 @ laneid, 1 @ laneid, 1)]",
        "[13] in [16] S[(4, 4) : (1 @ laneid, 1)] + R[8 : 4 @ laneid]", (0,),
    ),
    "lanes, along vectors": Case(
        "shuffle", 32, "warp", "[7, 13] in [8, 16] S[(8, 4, 4) : (4 @ laneid, 1 @ laneid, 1)]",
        "[7] in [8] S[8 : 4 @ laneid] + R[4 : 1 @ laneid]", (1,),
    ),
    "a row": Case(
        "shared", 256, "cta", "[1000] in [1024] S[(256, 4) : (1 @ tx, 1)]", "[1] S[1 : 1] + R[256 : 1 @ tx]", (0,),
        is_voted=True,
    ),
    "few of many threads": Case(
        "shared", 128, "cta", "[5] in [128] S[128 : 1 @ tx]", "[1] S[1 : 1] + R[128 : 1 @ tx]", (0,), is_voted=True
    ),
}

#: one of each variant
KINDS = {name: CASES[name] for name in ("registers", "lanes", "warps")}

each_kind = pytest.mark.parametrize("case", KINDS.values(), ids=KINDS)
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
each_padded = pytest.mark.parametrize("case", PADDED.values(), ids=PADDED)
each_operation = pytest.mark.parametrize("op", REDUCTIONS)
FLOATS = (float16, bfloat16, float32, float64)
NUMBERS = [t for t in DTYPES.values() if not t.is_fp8]


def small(case: Case, dtype: DType, seed: int = 0) -> Array:
    """Numbers of which sums and products are exact."""
    rng = np.random.default_rng(seed)
    return rng.choice([0, 1, 1, 1, 2], case.shape(case.src)).astype(dtype.numpy)


@each_case
@each_operation
def test_a_case_goes_to_its_variant(case: Case, op: str) -> None:
    assert case.verdict(op).variant == case.variant_of(op)


@each_case
@each_operation
def test_every_case_gives_numpys_result(case: Case, op: str) -> None:
    x = small(case, float16)
    np.testing.assert_array_equal(case.run(op, x), case.expected(op, x))


@each_kind
@each_operation
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_every_type_gives_numpys_result(case: Case, op: str, dtype: DType) -> None:
    x = small(case, dtype)
    np.testing.assert_array_equal(case.run(op, x), case.expected(op, x))


@each_kind
@each_operation
@pytest.mark.parametrize(
    ("dtype", "values"),
    [(t, (NAN, 1.0, -1.0)) for t in FLOATS]
    + [(float32, values) for values in ((INF, -INF, 2.0), (-INF,), (-0.0,), (NAN, -NAN, INF))],
    ids=str,
)
def test_special_values_are_numpys(case: Case, op: str, dtype: DType, values: tuple[float, ...]) -> None:
    rng = np.random.default_rng(1)
    x = rng.choice(values, case.shape(case.src)).astype(dtype.numpy)
    made, wanted = case.run(op, x), case.expected(op, x)
    # NumPy knows no nan of bfloat16
    made, wanted = (np.asarray(each, made.dtype if made.dtype == bool else np.float64) for each in (made, wanted))
    np.testing.assert_array_equal(made, wanted)
    if op in ("max", "min", "prod"):
        np.testing.assert_array_equal(np.signbit(made)[wanted == 0], np.signbit(wanted)[wanted == 0])


@each_padded
@each_operation
@pytest.mark.parametrize("dtype", [float32, dtypes.uint8], ids=str)
def test_padding_counts_as_nothing(case: Case, op: str, dtype: DType) -> None:
    assert case.verdict(op, dtype).variant == case.variant_of(op)
    for x in (small(case, dtype), np.full(case.shape(case.src), -INF if dtype.is_float else 1, dtype.numpy)):
        np.testing.assert_array_equal(case.run(op, x), case.expected(op, x))


@pytest.mark.parametrize("name", ["warps", "warpgroups", "16 warps"])
@pytest.mark.parametrize("op", ["sum", "argmin"])
def test_in_a_loop_no_reduction_overwrites_what_another_thread_still_reads(name: str, op: str) -> None:
    x = small(CASES[name], float32)
    np.testing.assert_array_equal(CASES[name].run(op, x, loop=True), CASES[name].expected(op, x))


@pytest.mark.parametrize(("source", "result"), [(float16, float32), (float32, float64), (int32, dtypes.int64)], ids=str)
@pytest.mark.parametrize("op", ["sum", "prod"])
def test_sums_and_products_in_a_wider_type(op: str, source: DType, result: DType) -> None:
    x = np.full(CASES["all lanes"].shape(CASES["all lanes"].src), 3, source.numpy)
    x[1::8] = 1000
    made = CASES["all lanes"].run(op, x, result)
    np.testing.assert_allclose(made, CASES["all lanes"].expected(op, x, result), rtol=1e-6)


def tree(values: list[Array]) -> Array:
    """Neighbours are added, and their sums, until one is left."""
    while len(values) > 1:
        values = [*(a + b for a, b in zip(values[::2], values[1::2], strict=False)), *values[len(values) & ~1 :]]
    return values[0]


def test_the_order_of_a_rows_sum_is_the_documented_one() -> None:
    case = Case(
        "shared", 256, "cta", "[4096] S[(4, 256, 4) : (4, 1 @ tx, 1)]", "[1] S[1 : 1] + R[256 : 1 @ tx]", (0,)
    )
    x = np.random.default_rng(2).normal(size=4096).astype(np.float32)
    of_thread = x.reshape(4, 256, 4).transpose(0, 2, 1).reshape(16, 256)
    sums = tree(list(of_thread))
    for distance in (1, 2, 4, 8, 16):
        sums = sums + sums[np.arange(256) ^ distance]
    wanted = tree(list(sums[::32].reshape(8, 1)))
    assert case.run("sum", x).view(np.uint32) == wanted.view(np.uint32)


@pytest.mark.parametrize(
    ("results", "distances", "count"),
    [
        (1, (1, 2, 4, 8, 16), 5), (4, (1, 2, 4), 12), (2, (1,), 2), (2, (1, 2), 4), (8, (1, 2, 4), 24), (3, (1, 2), 6),
        (4, (1, 2, 4, 8, 16), 9), (8, (1, 2, 4, 8, 16), 16), (16, (1, 2, 4, 8, 16), 31), (32, (1, 16), 64),
    ],
)
def test_lanes_share_results_out_where_that_costs_less(results: int, distances: tuple[int, ...], count: int) -> None:
    """A shuffle counts for two selections, of which each half that is sent or gathered takes one a result."""
    k = len(distances)
    h = min(k, (results & -results).bit_length() - 1)
    halved = results >> h
    shared_out, selections = 2 * (results - halved) + (k - h) * halved, 4 * (results - halved)
    separate = results * k
    assert Shuffles(results, distances).count == count
    assert count == (shared_out if 2 * shared_out + selections < 2 * separate else separate)


def test_shared_out_or_not_the_sums_have_the_same_bits() -> None:
    case = CASES["halves"]
    x = np.random.default_rng(3).normal(size=case.shape(case.src)).astype(np.float32)
    of_lane = x.reshape(16, 32, 2)
    sums = of_lane[:, :, 0] + of_lane[:, :, 1]
    for distance in (1, 2, 4, 8, 16):
        sums = sums + sums[:, np.arange(32) ^ distance]
    assert dict(case.verdict("sum").plan.instructions)["shfl.sync.bfly.b32"] == 16
    np.testing.assert_array_equal(case.run("sum", x).view(np.uint32), sums[:, 0].view(np.uint32))


def test_a_plan_counts_only_instructions_that_come() -> None:
    case = Case("shared", 128, "cta", "[128] S[128 : 1 @ tx]", "[1] S[1 : 1] + R[128 : 1 @ tx]", (0,), is_voted=True)
    assert case.verdict("any").plan.instructions == (("bar.red.or.pred", 1),)
    of_lanes = Case("shuffle", 32, "warp", "[32] S[32 : 1 @ laneid]", "[1] S[1 : 1] + R[32 : 1 @ laneid]", (0,))
    assert of_lanes.verdict("max", int32).plan.instructions == (("redux.sync.max.s32", 1),)


def test_ties_give_the_first_index_whatever_the_layout() -> None:
    for case in (*CASES.values(), *PADDED.values()):
        for op in ("argmax", "argmin"):
            x = np.zeros(case.shape(case.src), np.float32)
            assert not case.run(op, x).any(), case


def test_two_nans_give_the_first() -> None:
    case = CASES["all lanes"]
    for first, second in ((5, 40), (40, 41), (0, 63)):
        x = np.arange(64, dtype=np.float32)
        x[[first, second]] = NAN
        assert case.run("argmax", x) == case.run("argmin", x) == first


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dst": "[32] S[32 : 1]"}, "s has no thread axes"),
        (
            {"src": "[8, 4] S[(8, 4) : (4 @ laneid, 1 @ laneid)]", "dst": "[8] S[8 : 1 @ laneid] + R[4 : 8 @ laneid]"},
            "x and s distribute dimension 0 over threads differently",
        ),
        (
            {"src": "[8, 4] in [64] S[(32, 2) : (1 @ laneid, 1)]", "dst": "[8] S[8 : 1 @ laneid] + R[4 : 8 @ laneid]"},
            "x is laid out as one dimension",
        ),
        (
            {"dst": "[30] S[30 : 1 @ laneid]", "src": "[30, 8] S[(30, 8) : (1 @ laneid, 1)]"},
            "30 threads own the region of ",
        ),
    ],
)
def test_layouts_that_do_not_agree_are_declined_with_the_reason(changes: dict[str, str], message: str) -> None:
    with pytest.raises(DispatchError, match=message) as refused:
        replace(CASES["registers"], **changes).verdict("sum")
    assert refused.value.hint


def test_declines_say_how_many_threads_share_a_result() -> None:
    declines = CASES["warps"].verdict("sum").declines
    assert declines == {
        "registers": ("32 threads share a result",),
        "shuffle": ("shuffles don't reach the 4 partials of a result: 4 threads 32 apart",),
    }
    assert CASES["registers"].verdict("sum").declines["shuffle"] == (
        "registers comes first: its priority is 30",
    )


@pytest.mark.parametrize(("threads", "rows", "columns"), [(128, 32, 128), (128, 32, 100), (256, 1, 1000), (96, 7, 13)])
def test_a_softmax_of_open_tiles_is_numpys(threads: int, rows: int, columns: int) -> None:
    whole, kept, unit = f"0 +: {rows}, 0 +: {columns}", f"0 +: {rows}", f"0 +: {rows}, 0 +: 1"
    tile, column = f"local float32[{rows}, {columns}] open cta", f"local float32[{rows}] open cta"
    layout = f"S[({rows}, {columns}) : ({columns}, 1)] align 4"
    text = f"""kernel softmax threads={threads} target=sm_90a
  param A: global float32[{rows}, {columns}] {layout}
  param B: global float32[{rows}, {columns}] {layout} written
  alloc x: {tile} align 4
  alloc m: {column} align 4
  view c: local float32[{rows}, 1] open cta (0, None) align 4 of m
  alloc s: {column} align 4
  view d: local float32[{rows}, 1] open cta (0, None) align 4 of s
  cta.copy x[{whole}], A[{whole}]
  cta.max m[{kept}], x[{whole}]; axis=(1)
  cta.sub x[{whole}], x[{whole}], c[{unit}]
  cta.exp x[{whole}], x[{whole}]
  cta.sum s[{kept}], x[{whole}]; axis=(1)
  cta.div x[{whole}], x[{whole}], d[{unit}]
  cta.copy B[{whole}], x[{whole}]
"""
    A = np.random.default_rng(0).normal(size=(rows, columns)).astype(np.float32)
    B = np.zeros_like(A)
    running.run(from_text(text), {"A": A, "B": B}, {}, devices.named("sim"))
    e = np.exp(A - A.max(1, keepdims=True))
    np.testing.assert_allclose(B, e / e.sum(1, keepdims=True), rtol=1e-5)
