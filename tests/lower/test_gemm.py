"""gemm by mma.sync: upstream's cases, near misses and their reasons, golden files, PTX."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import tilejit as tj
from tests.lower.test_golden import kernel
from tests.reference.threads import Threads
from tests.support.goldens import Golden, joined
from tests.support.proving import prove_verdict
from tests.support.ptxas import EmittedPtx
from tests.support.upstream import Case, load, operand_of
from tilejit.dtypes import (
    DTYPES,
    DType,
    bfloat16,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int8,
    int32,
    uint8,
)
from tilejit.errors import DispatchError, KernelTypeError
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import Alloc, Kernel, Region, TileOp
from tilejit.ir.text.printer import to_text
from tilejit.ir.types import Signature
from tilejit.ir.verify import verify
from tilejit.isa.mma import MMA, Mma
from tilejit.layout import TileLayout, layout_a, layout_b, layout_c
from tilejit.lower import lower
from tilejit.lower.ask import OperandSpec, dispatch, operand, sym
from tilejit.lower.engine import Verdict
from tilejit.lower.proof import owners_of
from tilejit.ops.gemm import reference
from tilejit.pipeline import compile
from tilejit.target import target

CASES = load("gemm_mma")
FORMS = {f.name: f for f in MMA.forms()}


def multiplied(
    acc: OperandSpec, a: OperandSpec, b: OperandSpec, scope: str = "warp", threads: int = 32, arch: str = "sm_90a",
    precision: str | None = None,
) -> Verdict:
    """Lowers one product, carries it out on small integers and compares with NumPy's, replicas included."""
    regions = tuple(o.named(n) for o, n in zip((acc, a, b), ("acc", "a", "b"), strict=True))
    attrs = () if precision is None else (("precision", precision),)
    allocs = (Alloc(r.buffer) for r in regions)
    tile = Kernel("case", (), threads, arch, (*allocs, TileOp("gemm", scope, regions, attrs)))
    assert verify(tile, "tile") == []
    made = lower(tile, target(arch))
    assert verify(made.kernel, "lane") == []
    random = np.random.default_rng(0)
    values = [random.integers(0 if r.dtype.kind == "uint" else -4, 5, r.shape) for r in regions]
    held = {r.buffer.name: spread(r, v, scope, threads) for r, v in zip(regions, values, strict=True)}
    prove_verdict(made.verdicts[0])
    machine = Threads(made.kernel, {}, {}, {name: array.copy() for name, array in held.items()})
    wanted = reference(*(v.astype(r.dtype.numpy) for r, v in zip(regions, values, strict=True)))
    held["acc"] = spread(regions[0], wanted, scope, threads, held["acc"])
    for name, array in held.items():
        assert np.array_equal(machine.registers[name].astype(np.float64), array.astype(np.float64)), name
    return made.verdicts[0]


def spread(region: Region, values: np.ndarray, scope: str, threads: int, onto: np.ndarray | None = None) -> np.ndarray:
    """The registers of all threads of a CTA with the region's values, by what the layout says of owners."""
    layout = region.buffer.layout
    assert isinstance(layout, TileLayout)
    shape = (threads, layout.storage().span())
    held = np.full(shape, 3, region.dtype.numpy) if onto is None else onto.copy()
    owners, registers = owners_of(region, scope)
    size = {"warp": 32, "warpgroup": 128, "cta": threads}[scope]
    for first in range(0, threads, size):
        held[first + owners, registers] = np.broadcast_to(values.ravel().astype(region.dtype.numpy), owners.shape)
    return held


def factors(
    m: int, n: int, k: int, form: Mma, warps: tuple[int, int] = (1, 1), scope: str = "cta"
) -> list[OperandSpec]:
    """Accumulator, A and B in the layouts of `tj.mma`."""
    return [
        operand("local", (m, n), form.acc, layout_c((m, n), form.acc, warps, scope)),
        operand("local", (m, k), form.a, layout_a((m, k), form.a, warps, scope)),
        operand("local", (k, n), form.b, layout_b((k, n), form.b, warps, scope)),
    ]


def transposed(given: OperandSpec) -> OperandSpec:
    """The same registers under swapped indices."""
    assert given.layout is not None
    layout, ends = given.layout.group(given.shape)
    assert given.region == tuple((0, n) for n in given.shape)
    return replace(given, shape=given.shape[::-1], region=None, layout=layout.permute_groups(ends, (1, 0)))


def operands(case: Case) -> list[OperandSpec]:
    acc, a, b = (operand_of(case[name]) for name in "DAB")
    return [acc, transposed(a) if case["transpose_a"] else a, transposed(b) if case["transpose_b"] else b]


def test_the_case_file_is_complete() -> None:
    assert len(CASES) == 45 and all(c["expect"]["result"] == "ok" for c in CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["id"])
def test_a_product_is_upstreams_instruction_as_often_and_right(case: Case) -> None:
    # upstream writes D = A @ B + beta * C; ours adds to the accumulator, which the user may fill with zeros
    arch = "sm_90a" if case["arch"] == "unspecified" else case["arch"]
    found = multiplied(*operands(case), case["scope"], case["cta_threads"], arch)
    expect = case["expect"]
    assert found.variant == "mma"
    assert found.plan.instructions == tuple((i["op"], i["trips"]) for i in expect["instructions"])
    assert found.plan.tiles == tuple(expect["tiles"][d] for d in "mnk")
    assert len(found.plan.schedule()) == found.plan.issues == expect["issues"]


@pytest.mark.parametrize("form", MMA.forms(), ids=lambda f: f.name)
def test_every_form_multiplies_one_tile_and_several(form: Mma) -> None:
    # on sm_75 alone the smaller of two forms is chosen where the larger divides k, too
    precision = "tf32" if form.a == float32 else None
    for m, n, k in ((16, 8, form.k), (32, 24, 3 * form.k)):
        found = multiplied(*factors(m, n, k, form), precision=precision, arch="sm_80" if form.m == 8 else "sm_90a")
        name, times = found.plan.instructions[-1]
        assert (name, times) == (form.name, m // form.m * n // 8 * k // form.k)


@pytest.mark.parametrize("acc", [float16, float32], ids=str)
def test_the_oldest_target_multiplies_float16_in_steps_of_8(acc: DType) -> None:
    form = FORMS[f"mma.sync.aligned.m16n8k8.row.col.{'f16' if acc == float16 else 'f32'}.f16.f16."
                 f"{'f16' if acc == float16 else 'f32'}"]
    found = multiplied(*factors(16, 8, 32, form), arch="sm_75")
    assert found.plan.instructions == ((form.name, 4),)


@pytest.mark.parametrize(
    ("form", "arch", "reason"),
    [
        ((bfloat16, bfloat16, float32), "sm_75", "mma of bfloat16 by bfloat16 into float32 needs sm_80"),
        ((float32, float32, float32), "sm_75", "needs sm_80 or newer; target is sm_75"),
        ((int8, uint8, int32), "sm_75", "needs sm_80 or newer; target is sm_75"),
        ((float64, float64, float64), "sm_75", "mma of float64 by float64 into float64 needs sm_80"),
        ((float8_e4m3fn, float8_e5m2, float32), "sm_86", "needs sm_89 or newer; target is sm_86"),
        ((float8_e5m2, float8_e5m2, float16), "sm_80", "needs sm_89 or newer; target is sm_80"),
    ],
)
def test_a_target_without_the_instruction_says_which_has_it(
    form: tuple[DType, DType, DType], arch: str, reason: str
) -> None:
    known = next(f for f in MMA.forms() if (f.a, f.b, f.acc) == form)
    precision = "tf32" if form[0] == float32 else None
    with pytest.raises(DispatchError) as refused:
        dispatch("gemm", "warp", *factors(16, 8, 32, known), threads=32, target=arch, precision=precision)
    assert reason in refused.value.declines["mma"][0]


@pytest.mark.parametrize(
    ("types", "precision", "reason"),
    [
        ((float32, float32, float32), None, 'float32 operands need precision="tf32"'),
        ((float32, float16, float16), "tf32", "precision='tf32' is for float32 operands; got float16 and float16"),
        ((float32, float16, float16), "bf16x3", 'precision is "tf32" or "tf32x3" or None; got \'bf16x3\''),
        ((float32, float16, bfloat16), None, "products of float16 by bfloat16 aren't supported"),
        ((float16, bfloat16, bfloat16), None, "bfloat16 by bfloat16 accumulates in float32; got float16"),
        ((float32, int8, int8), None, "int8 by int8 accumulates in int32; got float32"),
        ((int32, float16, float16), None, "float16 by float16 accumulates in float32 or float16; got int32"),
    ],
)
def test_types_that_no_tensor_core_takes_are_refused(
    types: tuple[DType, DType, DType], precision: str | None, reason: str
) -> None:
    acc, a, b = (operand("local", (32, 32), t, layout_c((32, 32))) for t in types)
    with pytest.raises(DispatchError) as refused:
        dispatch("gemm", "warp", acc, a, b, threads=32, precision=precision)
    assert any(reason in r for r in refused.value.declines["mma"])


HALF = FORMS["mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"]
SHORT = FORMS["mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16"]


def with_layout(column: int, *shard: tuple[int, int, str], form: Mma = HALF) -> list[OperandSpec]:
    """A product of 16 x 8 x 16 whose operand `column` has this layout instead."""
    given = factors(16, 8, 16, form)
    given[column] = replace(given[column], layout=TileLayout.from_iters(shard))
    return given


A_16X16 = ((2, 2, "m"), (8, 4, "laneid"), (2, 4, "m"), (4, 1, "laneid"), (2, 1, "m"))
B_16X8 = ((2, 2, "m"), (4, 1, "laneid"), (2, 1, "m"), (8, 4, "laneid"))
C_16X8 = ((2, 2, "m"), (8, 4, "laneid"), (4, 1, "laneid"), (2, 1, "m"))

NEAR_MISSES: dict[str, tuple[Callable[[], list[OperandSpec]], str]] = {
    "lanes of A's rows 1 apart": (
        lambda: with_layout(1, (2, 2, "m"), (8, 1, "laneid"), (2, 4, "m"), (4, 8, "laneid"), (2, 1, "m")),
        "a is not a fragment: dimension 0 is spread over 8:1@laneid; needs lanes 8:4@laneid",
    ),
    "a row a lane": (
        lambda: with_layout(1, (16, 2, "laneid"), (2, 1, "laneid"), (8, 1, "m")),
        "a is not a fragment: dimension 0 is spread over 16:2@laneid; needs lanes 8:4@laneid",
    ),
    "columns of B 1 lane apart": (
        lambda: with_layout(2, (2, 2, "m"), (4, 8, "laneid"), (2, 1, "m"), (8, 1, "laneid")),
        "b is not a fragment: dimension 0 is spread over 4:8@laneid; needs lanes 4:1@laneid",
    ),
    "B as A": (
        lambda: with_layout(2, (4, 1, "laneid"), (4, 1, "m"), (8, 4, "laneid")),
        "a and b",
    ),
    "A's pairs apart": (
        lambda: with_layout(1, (2, 1, "m"), (8, 4, "laneid"), (2, 4, "m"), (4, 1, "laneid"), (2, 2, "m")),
        "a 32-bit register holds 2 consecutive elements along k; the runs common to a and b have 1",
    ),
    "an accumulator whose columns 4 lanes share otherwise": (
        lambda: with_layout(0, (2, 2, "m"), (8, 4, "laneid"), (2, 1, "m"), (4, 1, "laneid")),
        "acc and b distribute n differently",
    ),
    "halves of a pair of float16 sums apart": (
        lambda: with_layout(0, (2, 1, "m"), (8, 4, "laneid"), (4, 1, "laneid"), (2, 2, "m"), form=SHORT),
        "are 2 elements apart; must be 1 apart",
    ),
    "rows in no two registers": (
        lambda: with_layout(1, (16, 4, "laneid"), (2, 4, "m"), (4, 1, "laneid"), (2, 1, "m")),
        "64 threads own the region of a; the warp has 32",
    ),
    "k over A's lanes in another order": (
        lambda: with_layout(
            1, (2, 2, "m"), (8, 4, "laneid"), (2, 4, "m"), (2, 1, "laneid"), (2, 2, "laneid"), (2, 1, "m")
        ),
        "a and b distribute k differently: over 2:1@laneid in one, over 2:2@laneid in the other",
    ),
    "rows over A's lanes in another order": (
        lambda: with_layout(
            1, (2, 2, "m"), (2, 4, "laneid"), (4, 8, "laneid"), (2, 4, "m"), (4, 1, "laneid"), (2, 1, "m")
        ),
        "acc and a distribute m differently: over 2:16@laneid in one, over 2:4@laneid in the other",
    ),
    "columns over the accumulator's lanes in another order": (
        lambda: with_layout(0, (2, 2, "m"), (8, 4, "laneid"), (2, 1, "laneid"), (2, 2, "laneid"), (2, 1, "m")),
        "acc and b distribute n differently: over 2:1@laneid in one, over 2:16@laneid in the other",
    ),
    "no lanes": (
        lambda: with_layout(1, (16, 16, "m"), (16, 1, "m")),
        "a is not a fragment: dimension 0 is spread over no lanes; needs lanes 8:4@laneid",
    ),
    "every second register": (
        lambda: with_layout(1, (2, 3, "m"), (8, 4, "laneid"), (2, 6, "m"), (4, 1, "laneid"), (2, 1, "m")),
        "tiles of a start every 3 elements of a lane (2:3); needs a multiple of 2",
    ),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_a_layout_that_is_no_fragment_says_what_is_in_the_way_and_what_fits(name: str) -> None:
    made, reason = NEAR_MISSES[name]
    with pytest.raises(DispatchError) as refused:
        dispatch("gemm", "warp", *made(), threads=32)
    (given,) = refused.value.declines["mma"]
    assert reason in given
    multiplied(*following(refused.value, made()))


def following(refused: DispatchError, given: list[OperandSpec]) -> list[OperandSpec]:
    """The operands with the layouts that the hint names."""
    assert refused.hint is not None and refused.hint.startswith("use layout=")
    pattern = r"layout=(tj\.mma\.layout_\w\(.*?\)) for (acc|a|b)"
    for call, name in re.findall(pattern, refused.hint):
        column = ("acc", "a", "b").index(name)
        given[column] = replace(given[column], layout=eval(call, {"tj": tj}))  # noqa: S307 - our own text
    return given


@pytest.mark.parametrize("column", [0, 1, 2])
@pytest.mark.parametrize("scope", ["warpgroup", "cta"])
def test_the_hint_has_the_warps_of_the_other_operands(scope: str, column: int) -> None:
    given = factors(64, 64, 32, HALF, (2, 2), scope)
    good = multiplied(*given, scope, 128)
    wrong = list(given)
    wrong[column] = replace(wrong[column], layout=TileLayout.row_major(wrong[column].shape))
    with pytest.raises(DispatchError) as refused:
        dispatch("gemm", scope, *wrong, threads=128)
    assert "warps=(2, 2)" in str(refused.value.hint)
    assert dispatch("gemm", scope, *following(refused.value, wrong), threads=128).plan == good.plan


def test_a_sum_split_over_warps_is_refused() -> None:
    a = TileLayout.from_iters([*A_16X16[:2], (2, 1, "warpid"), *A_16X16[2:]])
    b = TileLayout.from_iters([(2, 1, "warpid"), *B_16X8])
    acc = TileLayout.from_iters(C_16X8, [(2, 1, "warpid")])
    message = "k is spread over 2:1@warpid in a: each warp has only a part of each dot product"
    with pytest.raises(DispatchError, match=message):
        dispatch(
            "gemm", "cta", operand("local", (16, 8), float32, acc), operand("local", (16, 32), float16, a),
            operand("local", (32, 8), float16, b), threads=64,
        )


def test_sizes_and_shapes_that_dont_fit_are_said_with_numbers() -> None:
    lanes = TileLayout.from_iters([(32, 1, "laneid"), (12, 1, "m")])
    acc, a, b = (operand("local", s, t) for s, t in (((24, 12), float32), ((24, 20), float16), ((20, 12), float16)))
    with pytest.raises(DispatchError) as refused:
        dispatch("gemm", "warp", acc, a, b, threads=32)
    (reason,) = refused.value.declines["mma"]
    assert reason == "M is 24; needs a multiple of 16; N is 12; needs a multiple of 8; K is 20; needs a multiple of 8"
    with pytest.raises(DispatchError, match=r"\(32, 12\) by \(20, 12\) isn't \(24, 12\)"):
        dispatch("gemm", "warp", acc, replace(a, shape=(32, 12), layout=lanes), b, threads=32)


def test_operands_elsewhere_scopes_without_warps_and_shared_registers_are_refused() -> None:
    given = factors(16, 8, 16, HALF)
    shared = operand("shared", (16, 16), float16)
    for operands, scope, threads, reason in (
        ([given[0], shared, given[2]], "warp", 32, "a is shared (load it first"),
        (given, "thread", 32, "needs whole warps; called on one thread"),
        (given, "cta", 48, "needs whole warps; the cta has 48 threads"),
    ):
        with pytest.raises(DispatchError) as refused:
            dispatch("gemm", scope, *operands, threads=threads)
        assert any(reason in r for r in refused.value.declines["mma"])


def test_parts_of_tiles_multiply_where_they_start_at_registers_known_at_compile_time() -> None:
    acc, a, b = factors(64, 32, 48, HALF)
    part = replace(a, region=((0, 64), (16, 16))), replace(b, region=((16, 16), (0, 32)))
    assert multiplied(acc, *part).plan.tiles == (4, 4, 1)
    rows = replace(acc, region=((32, 16), (0, 32))), replace(a, region=((32, 16), (0, 48)))
    assert multiplied(*rows, b).plan.tiles == (1, 4, 3)
    with pytest.raises(DispatchError, match="starts at a register known only at run time: loop with tj.static_range"):
        moving = replace(a, region=((0, 64), (sym("i", multiple_of=16), 16)))
        dispatch("gemm", "warp", acc, moving, part[1], threads=32)


def product(
    form: Mma, m: int, n: int, k: int, warps: tuple[int, int] = (1, 1), arch: str = "sm_90a", filled: bool = False,
    precision: str = "tf32",
) -> Kernel:
    """acc += a @ b by one warp, or by a CTA of several; of zeros where they are to be filled."""
    threads = 32 * warps[0] * warps[1]
    regions = [o.named(x) for o, x in zip(factors(m, n, k, form, warps), ("acc", "a", "b"), strict=True)]
    attrs = (("precision", precision),) if form.a == float32 else ()
    scope = "warp" if threads == 32 else "cta"
    fills = [TileOp("fill", scope, (r, build.const(0, r.dtype))) for r in regions] if filled else []
    return kernel("product", threads, regions, *fills, TileOp("gemm", scope, tuple(regions), attrs), target=arch)


GOLDEN: dict[str, Callable[[], Kernel]] = {
    "gemm/mma_float16_16x8x16.tile": lambda: product(HALF, 16, 8, 16),
    "gemm/mma_float16_32x32x24.tile": lambda: product(HALF, 32, 32, 24),
    "gemm/mma_float16_cta_of_4_warps.tile": lambda: product(HALF, 64, 32, 32, (2, 2)),
    "gemm/mma_float16_sm_75.tile": lambda: product(HALF, 16, 8, 16, arch="sm_75"),
    "gemm/mma_tf32.tile": lambda: product(FORMS["mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"], 16, 16, 16),
    "gemm/mma_tf32x3.tile": lambda: product(
        FORMS["mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"], 16, 16, 16, precision="tf32x3"
    ),
    "gemm/mma_float64.tile": lambda: product(FORMS["mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64"], 16, 8, 8),
    "gemm/mma_float64_sm_80.tile": lambda: product(
        FORMS["mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"], 16, 8, 8, arch="sm_80"
    ),
    "gemm/mma_int8.tile": lambda: product(FORMS["mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32"], 16, 16, 64),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_a_product_lowers_to_its_golden_lane_ir(name: str, golden: Golden) -> None:
    tile = GOLDEN[name]()
    lane = lower(tile, target(tile.target)).kernel
    golden.check(name, joined(tile.target, to_text(tile), to_text(lane)))


@tj.kernel(threads=32)
def multiply(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, SIZES: tj.constexpr, PRECISION: tj.constexpr):
    M, N, K = SIZES
    a = tj.warp.load(tj.assume_in_bounds(A[0:M, 0:K]), layout=tj.mma.layout_a((M, K), A.dtype))
    b = tj.warp.load(tj.assume_in_bounds(B[0:K, 0:N]), layout=tj.mma.layout_b((K, N), B.dtype))
    acc = tj.alloc_local((M, N), C.dtype, layout=tj.mma.layout_c((M, N), C.dtype))
    tj.warp.fill(acc, 0)
    tj.warp.gemm(acc, a, b, precision=PRECISION)
    tj.warp.store(tj.assume_in_bounds(C[0:M, 0:N]), acc)


def test_the_accumulator_is_read_so_it_must_have_been_written() -> None:
    made = product(HALF, 16, 8, 16, filled=True)
    fills = [s for s in made.body if isinstance(s, TileOp) and s.name == "fill"]
    body = tuple(s for s in made.body if s is not fills[0])
    with pytest.raises(KernelTypeError, match="acc is read before anything has been written to it"):
        compile(replace(made, body=body), Signature(()), target("sm_90a"))


ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a")


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("form", MMA.forms(), ids=lambda f: f.name)
def test_ptxas_accepts_every_form_where_the_target_has_it(form: Mma, arch: str, emitted_ptx: EmittedPtx) -> None:
    row = MMA.row(form)
    if row.missing(target(arch)) is not None or (form.m == 8 and target(arch).number >= 90):
        return
    made = compile(product(form, 16, 8, form.k, arch=arch, filled=True), Signature(()), target(arch))
    assert made.ptx.count(form.name) == 16 // form.m
    version = re.search(r"\.version (\d+)\.(\d+)", made.ptx)
    assert version is not None and (int(version[1]), int(version[2])) == max(row.ptx, target(arch).ptx)
    emitted_ptx.add(made.ptx, arch, form.name)


@pytest.mark.parametrize("form", MMA.forms(), ids=lambda f: f.name)
def test_a_whole_kernel_of_every_form_compiles_without_a_stack_frame(form: Mma, emitted_ptx: EmittedPtx) -> None:
    shapes = ((32, 2 * form.k), (2 * form.k, 16), (32, 16))
    specs = [tj.spec(s, t) for s, t in zip(shapes, (form.a, form.b, form.acc), strict=True)]
    # where a form with twice the depth exists, it is chosen for an even number of steps
    has_deeper = Mma(2 * form.k, form.a, form.b, form.acc) in MMA.forms()
    sizes, arch = (32, 16, (3 if has_deeper else 2) * form.k), "sm_80" if form.m == 8 else "sm_90a"
    made = multiply.compile(*specs, SIZES=sizes, PRECISION="tf32" if form.a == float32 else None, target=arch)
    assert len(re.findall(re.escape(form.name), made.ptx)) == 64 // form.m * sizes[2] // form.k
    assert ".local" not in made.ptx
    emitted_ptx.add(made.ptx, arch, form.name)


@tj.kernel(threads=32)
def staged(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor):
    sa = tj.alloc_shared((64, 64), A.dtype, swizzle="128B")
    sb = tj.alloc_shared((32, 64), A.dtype, swizzle="128B")
    tj.warp.copy(sa, A[0:64, 0:64])
    tj.warp.copy(sb, B[0:32, 0:64])
    tj.warp_sync()
    acc = tj.alloc_local((64, 64), tj.float32, layout=tj.mma.layout_c((64, 64)))
    tj.warp.fill(acc, 0)
    a = tj.warp.load(sa[:, 0:32], layout=tj.mma.layout_a((64, 32), A.dtype))
    b = tj.warp.load(sb, layout=tj.mma.layout_b((32, 64), A.dtype))
    tj.warp.gemm(acc, a, b)
    tj.warp.store(C[0:64, 0:64], acc)


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=str)
def test_between_ldmatrix_and_mma_no_register_is_taken_apart(dtype: DType, emitted_ptx: EmittedPtx) -> None:
    specs = (tj.spec((64, 64), dtype), tj.spec((32, 64), dtype), tj.spec((64, 64), float32))
    made = staged.compile(*specs, target="sm_90a")
    lines = [" ".join(line.split()) for line in made.ptx.splitlines() if line.startswith("\t") and line[1].isalpha()]
    names = [line.split(".")[0] for line in lines]
    products = [i for i, name in enumerate(names) if name == "mma"]
    loads = [i for i, name in enumerate(names) if name == "ldmatrix"]
    assert (len(loads), len(products)) == (16, 64) and all(".x4." in lines[i] for i in loads)
    assert products == list(range(products[0], products[0] + 64))
    # all other instructions compute addresses, and the single zero that the sums begin with
    between = [lines[i] for i in range(loads[0], products[0]) if i not in loads]
    address = re.compile(r"(add\.s32|xor\.b32|or\.b32|shl\.b32|cvt\.u32\.u64) |mov\.b32 \S+ 0;")
    assert [line for line in between if not address.match(line)] == []
    assert len(between) <= 3 * len(loads)
    emitted_ptx.add(made.ptx, "sm_90a", "staged")


def test_the_table_of_dtypes_is_covered() -> None:
    assert {f.a.name for f in MMA.forms()} | {f.acc.name for f in MMA.forms()} <= set(DTYPES)
