"""The passes: their order, their limits, and what they make of a whole kernel."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.support.ptxas import ptxas_accepts
from tilejit import pipeline
from tilejit.compiled import Compiled
from tilejit.dtypes import DType, float16, float32, int32, int64
from tilejit.errors import ResourceError, TilejitError
from tilejit.executable import Assertion
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import (
    Alloc,
    Assert,
    Buffer,
    Kernel,
    Let,
    Region,
    Stmt,
    Store,
    Sync,
    TileOp,
    Var,
    Vector,
)
from tilejit.ir.params import (
    AssertionsParam,
    ExtentParam,
    PointerParam,
)
from tilejit.ir.types import ArrayType, Signature
from tilejit.layout import S, TileLayout, laneid
from tilejit.lower.passes import storage
from tilejit.pipeline import CHECKPOINTS, PASSES, Pass, PassResults, check_order, compile
from tilejit.source import Span
from tilejit.target import target

SIGNATURE = Signature((("A", ArrayType(float32, 2, 1, 16, 16)), ("B", ArrayType(float32, 2, 1, 16, 16))))


def whole(buffer: Buffer) -> Region:
    shape = tuple(n for n in buffer.shape if isinstance(n, int))
    return Region(buffer, tuple(build.const(0, int64) for _ in shape), shape, in_bounds=True)


def sqrt_tile(dtype: DType = float32, columns: int = 8, **options: object) -> Kernel:
    """Global to shared to registers, square root, and back, by one warp."""
    layout = TileLayout.row_major((32, columns))
    a, b = (Buffer(name, "global", dtype, (32, columns), layout, 16) for name in "AB")
    smem = Buffer("smem", "shared", dtype, (32, columns), layout, 128)
    r = Buffer("r", "local", dtype, (32, columns), S[(32, columns) : (1 @ laneid, 1)], 16)

    def copy(dst: Buffer, src: Buffer, line: int) -> Stmt:
        return TileOp("copy", "warp", (whole(dst), whole(src)), span=Span("k.py", line, 4, line, 20, "    copy"))

    body = (
        Alloc(smem), Alloc(r), copy(smem, a, 2), Sync("cta"), copy(r, smem, 4),
        TileOp("sqrt", "warp", (whole(r), whole(r))), copy(smem, r, 6), Sync("cta"), copy(b, smem, 8),
    )
    extent = Var("A.shape.0", int64)
    params = (
        PointerParam("A", a),
        ExtentParam("A", extent, 0),
        PointerParam("B", b, written=True),
    )
    made = Kernel("sqrt_tile", params, 32, "sm_90a", body, span=Span("k.py", 1, 0, 1, 9, "def sqrt_tile"))
    return replace(made, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    return compile(sqrt_tile(), SIGNATURE, target("sm_90a"))


def test_a_pass_before_one_that_it_must_follow_is_an_error_with_the_reason() -> None:
    with pytest.raises(ValueError, match="pass registers must come after lower: it decides"):
        check_order(tuple(p for p in PASSES if p.name != "lower"))


def test_every_reason_names_a_pass() -> None:
    names = {p.name for p in PASSES}
    assert all(name in names and reason for p in PASSES for name, reason in p.after)
    assert len(names) == len(PASSES) and all(isinstance(p, Pass) for p in PASSES)


def test_a_tile_kernel_becomes_ptx_that_ptxas_accepts(compiled: Compiled) -> None:
    ptxas_accepts(compiled.ptx, "sm_90a")
    assert "ld.global.v4.b32" in compiled.ptx and "ld.shared.v4.b32" in compiled.ptx
    assert compiled.ptx.count("sqrt.rn.f32") == 8
    assert compiled.shared_bytes == 32 * 8 * 4 and not compiled.executable.dynamic_shared
    assert compiled.executable.entry == "sqrt_tile" and ".entry sqrt_tile(" in compiled.ptx


def test_parameters_that_nothing_uses_are_dropped(compiled: Compiled) -> None:
    assert [(type(p), p.of) for p in compiled.executable.params] == [(PointerParam, "A"), (PointerParam, "B")]
    assert "sqrt_tile_param_2" not in compiled.ptx


def test_every_stage_is_timed(compiled: Compiled) -> None:
    assert set(compiled.timings) >= {"lower", "verify", "codegen", "codegen.llvm_passes", "codegen.llvm_emit"}
    assert all(ms >= 0 for ms in compiled.timings.values())


def test_the_texts_are_those_of_their_level(compiled: Compiled) -> None:
    assert "warp.copy" in compiled.tile_ir and "warp.copy" not in compiled.lane_ir
    assert "move " in compiled.lane_ir and "define ptx_kernel void @sqrt_tile" in compiled.llvm_ir
    assert [v.variant for v in compiled.verdicts] == ["gmem_smem", "reg", "reg", "reg", "gmem_smem"]
    assert "gmem_smem" in str(compiled.explain())


def test_lane_ir_says_where_buffers_live(compiled: Compiled) -> None:
    assert "\n  place smem static 0 +: 1024 align 128\n" in compiled.lane_ir and "place" not in compiled.tile_ir
    assert [(p.name, p.first, p.bytes) for p in compiled.executable.shared_map] == [("smem", 0, 1024)]


def test_places_are_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    place = storage.placed
    monkeypatch.setattr(storage, "placed", lambda kernel: replace(place(kernel), memory=()))
    with pytest.raises(AssertionError, match="pass storage left sqrt_tile at lane level broken:\nsmem has no place"):
        compile(sqrt_tile(), SIGNATURE, target("sm_90a"))


def test_saving_writes_each_text(compiled: Compiled, tmp_path: Path) -> None:
    files = compiled.save(tmp_path / "kernel")
    assert sorted(f.name for f in files) == ["kernel.lane", "kernel.ll", "kernel.ptx", "kernel.tile"]
    assert (tmp_path / "kernel.ptx").read_text().startswith(compiled.ptx)


def test_saving_where_nothing_can_be_written_names_the_place(compiled: Compiled, tmp_path: Path) -> None:
    with pytest.raises(TilejitError, match="missing is not a folder: kernel can't be saved in it"):
        compiled.save(tmp_path / "missing" / "kernel")
    (tmp_path / "taken.tile").mkdir()
    with pytest.raises(TilejitError, match=r"taken\.tile can't be written: Is a directory"):
        compiled.save(str(tmp_path / "taken"))
    for nonsense in (3.5, None, ""):
        with pytest.raises(TilejitError, match="is not a file to save to"):
            compiled.save(nonsense)  # type: ignore[arg-type]


def test_half_rows_of_16_are_two_vectors_a_lane() -> None:
    ptx = compile(sqrt_tile(float16, 16), SIGNATURE, target("sm_90a")).ptx
    ptxas_accepts(ptx, "sm_90a")
    assert ptx.count("ld.shared.v4.b32") >= 2 and ptx.count("sqrt.rn.f32") == 16
    assert ".local" not in ptx


def test_too_much_shared_memory_names_the_largest_buffers() -> None:
    kernel = sqrt_tile()
    big = Buffer("stages", "shared", float32, (64, 1024), TileLayout.row_major((64, 1024)), 128)
    with pytest.raises(
        ResourceError, match=r"263,168 bytes of shared memory; sm_90a has 232,448 .*stages 262,144, smem"
    ):
        compile(replace(kernel, body=(Alloc(big), *kernel.body)), SIGNATURE, target("sm_90a"))


def test_too_much_local_memory_names_the_largest_buffers() -> None:
    kernel = sqrt_tile()
    layout = TileLayout.row_major((80, 64))
    big = Buffer("big", "local", float32, (80, 64), layout, 4)
    needs = r"sqrt_tile needs 20,480 bytes of local memory per thread; the limit is 16,384\. Largest: big 20,480"
    with pytest.raises(ResourceError, match=needs):
        compile(replace(kernel, body=(Alloc(big), *kernel.body)), SIGNATURE, target("sm_90a"))


def test_too_many_columns_of_tensor_memory_are_counted() -> None:
    kernel = sqrt_tile(target="sm_100a")
    layout = TileLayout.from_iters([(128, 1, "TLane"), (300, 1, "TCol")])
    first, second = (Buffer(name, "tmem", float32, (128, 300), layout, 32) for name in ("acc", "acc2"))
    needs = "needs 600 columns of tensor memory; a CTA has 512. Largest: acc 300, acc2 300"
    with pytest.raises(ResourceError, match=needs):
        compile(replace(kernel, body=(Alloc(first), Alloc(second), *kernel.body)), SIGNATURE, target("sm_100a"))


def test_too_many_threads_are_refused_before_anything_is_lowered() -> None:
    with pytest.raises(ResourceError, match="has 2048 threads per CTA; the limit is 1024"):
        compile(sqrt_tile(threads=2048), SIGNATURE, target("sm_90a"))


def test_clusters_need_a_target_that_has_them() -> None:
    with pytest.raises(ResourceError, match="need sm_90 or newer; the target is sm_80"):
        compile(sqrt_tile(cluster=(2, 1, 1)), SIGNATURE, target("sm_80"))


def test_an_assertion_gets_its_record_in_debug_only() -> None:
    kernel = sqrt_tile()
    check = Assert(build.less(Var("A.shape.0", int64), 100), "too tall", span=kernel.span)
    asserting = replace(kernel, body=(*kernel.body, check))
    debug = compile(replace(asserting, debug=True), SIGNATURE, target("sm_90a"))
    assert debug.executable.params[-1] == AssertionsParam()
    assert debug.lane_ir.count("param assertions") == 1
    assert debug.executable.assertions == (Assertion("assert", "too tall", kernel.span),)
    ptxas_accepts(debug.ptx, "sm_90a")
    plain = compile(asserting, SIGNATURE, target("sm_90a"))
    assert plain.executable.assertions == () and AssertionsParam() not in plain.executable.params


def test_a_broken_kernel_is_a_bug_that_names_the_pass() -> None:
    kernel = sqrt_tile()
    unknown = Store(Vector(kernel.params[0].buffer, Var("nowhere", int64)), build.const(1.0, float32))  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="pass limits left sqrt_tile at open level broken"):
        compile(replace(kernel, body=(*kernel.body, unknown)), SIGNATURE, target("sm_90a"))


def test_a_kernel_that_is_known_to_be_sound_is_verified_from_lane_level_on() -> None:
    kernel = sqrt_tile()
    unsound = replace(kernel, body=(*kernel.body, Let(Var("x", int32), Var("nowhere", int32))))
    with pytest.raises(AssertionError, match="pass lower left sqrt_tile at lane level broken:\nnowhere is used"):
        compile(unsound, SIGNATURE, target("sm_90a"), sound=True)


def test_plain_builds_verify_each_level_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [step.level for step in PASSES if step.name in CHECKPOINTS] == ["open", "tile", "lane"]
    examined, examine = [], pipeline.examine
    monkeypatch.setattr(pipeline, "VERIFY_EACH", False)
    monkeypatch.setattr(pipeline, "examine", lambda kernel, at: examined.append(at) or examine(kernel, at))
    compile(sqrt_tile(), SIGNATURE, target("sm_90a"))
    # the layouts of this kernel are given, so that its open level is its tile level
    assert examined == ["open", "lane"]
    compile(sqrt_tile(debug=True), SIGNATURE, target("sm_90a"))
    assert examined.count("lane") > 2


@pytest.mark.parametrize("name", [step.name for step in PASSES if step.level == "lane" and step.name != "codegen"])
@pytest.mark.parametrize("each", [True, False], ids=["each", "checkpoints"])
def test_the_first_pass_that_broke_a_kernel_is_named(name: str, each: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any pass, though plain builds verify only at checkpoints."""
    stray = Let(Var("stray", int32), Var("nowhere", int32))

    def breaking(step: Pass, kernel: Kernel, results: PassResults) -> Kernel:
        left = step.run(kernel, results) or kernel
        return replace(left, body=(*left.body, stray))

    broken = tuple(replace(step, run=partial(breaking, step)) if step.name == name else step for step in PASSES)
    monkeypatch.setattr(pipeline, "PASSES", broken)
    monkeypatch.setattr(pipeline, "VERIFY_EACH", each)
    with pytest.raises(AssertionError, match=f"pass {name} left sqrt_tile at lane level broken:\nnowhere is used"):
        compile(sqrt_tile(), SIGNATURE, target("sm_90a"))
