"""The dispatcher's verdicts as text and as a table."""

import json
from dataclasses import dataclass, replace
from html.parser import HTMLParser

import numpy as np
import pytest

import tilejit as tj
from tests.support.programs import source_of
from tilejit.executable.census import Census
from tilejit.executable.encoding import decoded, encoded
from tilejit.explain_data import row
from tilejit.explanation import RECORDS, Decisions, Explanation, LocalTile
from tilejit.ir.nodes import TileOp
from tilejit.lower import Plan, Variant, Verdict
from tilejit.lower.plans import VectorPlan
from tilejit.source import Span


@dataclass(frozen=True)
class Vectors(VectorPlan):
    names: tuple

    @property
    def instructions(self):
        return tuple((name, self.rounds) for name in self.names)

    regions = ()

    def places(self, thread, trip):
        raise NotImplementedError


WIDE = Vectors(4, 2, 32, "rows start every 16 bytes", ("ld.global.v4.b32", "st.shared.v4.b32"))
NARROW = Vectors(1, 8, 32, "", ())


def verdict(plan=WIDE, name="gmem_smem", declines=None, line=7):
    text = "    tj.warp.copy(smem, A[0:32, 0:8])"
    span = Span("/home/user/kernel.py", line, 4, line, len(text), text)
    chosen = Variant[Plan](
        name=name,
        operations=("copy",),
        priority=10,
        operands=(),
        when=(),
        plan=lambda op, context: plan,
        emit=lambda plan, op, b: None,
    )
    return Verdict(TileOp("copy", "warp", (), span=span), chosen, plan, lambda: declines or {})


def explained(*verdicts):
    return Explanation("sqrt_tile", "sm_90a", Decisions(tuple(map(row, verdicts))))


def test_every_operation_is_a_line_with_its_numbers():
    lines = str(explained(verdict(), verdict(NARROW, "reg", line=9))).splitlines()
    assert lines[0] == "sqrt_tile for sm_90a: 2 tile operations"
    assert lines[2].split("  ")[0] == "line"
    first, second = lines[3:5]
    for text in ("kernel.py:7", "warp.copy", "gmem_smem", "4 elements", "2 x ld.global.v4.b32, 2 x st.shared.v4.b32"):
        assert text in first
    assert "1 element " in second and second.endswith("-")


def test_tiles_in_local_memory_follow_with_the_line_that_makes_them():
    shown = Explanation("sqrt_tile", "sm_90a", Decisions(local=(LocalTile("r", 4096, "kernel.py:7"),)))
    assert str(shown).splitlines()[-1].startswith("kernel.py:7: r is in local memory, 4,096 bytes per thread")
    assert "r is in local memory" in shown._repr_html_()


def test_columns_are_under_their_headings():
    lines = str(explained(verdict())).splitlines()
    assert lines[3].index("gmem_smem") == lines[2].index("variant")
    assert lines[3].index("4 elements") == lines[2].index("width")


def test_reasons_of_other_variants_follow_with_the_source_line():
    text = str(explained(verdict(declines={"ldstmatrix": ("moves local <-> shared", "needs 16 bits")})))
    assert "kernel.py:7: tj.warp.copy(smem, A[0:32, 0:8])" in text
    assert "  not wider: rows start every 16 bytes" in text
    assert "  not ldstmatrix: moves local <-> shared; needs 16 bits" in text


def test_matrix_and_tensor_memory_plans_show_their_shape():
    tiles = tj.S[(8, 12, 4, 2) : (4 @ tj.laneid, 2, 1 @ tj.laneid, 1)]
    columns = tj.operand("shared", (8, 96), tj.float16, tj.S[(8, 96) : (1, 8)])
    matrix = tj.dispatch("copy", "warp", tj.operand("local", (8, 96), tj.float16, tiles), columns, threads=32)
    threads = tj.S[(128, 12) : (1 @ tj.tid_in_wg, 1)]
    there = tj.operand("local", (128, 12), tj.float32, threads), tj.operand("tmem", (128, 12), tj.float32)
    tmem = tj.dispatch("copy_async", "warpgroup", *there, threads=128, target="sm_100a")
    rows = explained(matrix, tmem).rows
    assert [(r.variant, r.width, r.rounds) for r in rows] == [
        ("ldstmatrix", "x4.trans", "3"),
        ("tcgen05_ldst", "32x32b.x8", "2"),
    ]


class Checker(HTMLParser):
    def __init__(self):
        super().__init__()
        self.stack, self.cells = [], []

    def handle_starttag(self, tag, attributes):
        if tag != "br":
            self.stack.append(tag)

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        self.cells.append(data)


def test_in_jupyter_it_is_a_table_that_escapes_what_it_shows():
    checker = Checker()
    shown = explained(verdict(declines={"reg": ("moves local <-> shared & <b>back</b>",)}))
    checker.feed(shown._repr_html_())
    assert not checker.stack
    assert "gmem_smem" in checker.cells
    assert any("<b>back</b>" in cell for cell in checker.cells)


def test_a_kernel_without_tile_operations_says_so():
    assert str(explained()) == "sqrt_tile for sm_90a: 0 tile operations"


def test_instructions_per_byte_and_element_follow_as_data_and_text():
    density = Census({"ld.global.v4.b32": 2, "fma.rn.f32": 62}, loaded_bytes=32, stored_bytes=16, dtype=tj.float16)
    assert density.per_byte == 64 / 48 and density.per_element == 64 / 8
    shown = Explanation("sqrt_tile", "sm_90a", Decisions(), density)
    line = "64 PTX instructions for 48 bytes of global memory: 1.3 per byte, 8 per float16 written"
    assert str(shown).splitlines()[-1].startswith(line)
    assert line in shown._repr_html_()


def test_a_kernel_that_moves_no_global_memory_has_no_density():
    density = Census({"mov.u32": 3}, 0, 0)
    assert density.per_byte is None and density.per_element is None
    assert str(density) == "3 PTX instructions, none of which is a global load or store"


def test_a_kernel_that_copies_asynchronously_has_no_density():
    """Its other accesses are few: of attention's 1,094 instructions one stores 4 bytes, and TMA the result."""
    tma = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    copies = {tma: 2, "cp.async.cg.shared.global": 1, "cp.async.bulk.prefetch.tensor.2d.L2.global.tile": 1}
    others = {"cp.async.wait_all": 1, "cp.async.bulk.commit_group": 1, "st.global.b32": 4}
    density = Census({**copies, **others}, 0, 16, tj.float32)
    assert density.per_byte is None and density.per_element is None
    assert str(density) == "10 PTX instructions, 3 of which copy global memory asynchronously"


def test_a_compiled_kernel_knows_its_own():
    @tj.kernel(threads=32)
    def doubled(X: tj.Tensor, Y: tj.Tensor):
        tj.cta.store(Y[0:256], tj.cta.load(X[0:256]) * 2)

    density = doubled.explain(tj.spec((256,), tj.float16), tj.spec((256,), tj.float16)).density
    assert (density.loaded_bytes, density.stored_bytes, density.dtype) == (16, 16, tj.float16)
    assert density.per_element == density.instructions / 8


def test_elements_that_threads_access_alone_are_listed_with_their_widths():
    @tj.kernel(threads=32)
    def mixed(X: tj.Tensor, Y: tj.Tensor, n: tj.int32):
        i = tj.thread_id()
        s = tj.alloc_shared((32,), tj.float64)
        r = tj.thread.zeros((4,), tj.float32)
        s[i] = X[i]
        for k in tj.static_range(3):
            Y[i + k] = r[k] + X[i]
        tj.atomic.add(Y[n], 1.0)

    explanation = mixed.explain(tj.spec((64,), tj.float16), tj.spec((64,), tj.float32), tj.int32)
    assert [access.cells[1:] for access in explanation.elements] == [
        ("load", "X: global float16", "16 bits", "1"),
        ("store", "s: shared float64", "64 bits", "1"),
        ("load", "X: global float16", "16 bits", "3"),
        ("store", "Y: global float32", "32 bits", "3"),
        ("atomic add", "Y: global float32", "32 bits", "1"),
    ]
    first = mixed.source.node.lineno
    assert [int(access.line.partition(":")[2]) - first for access in explanation.elements] == [4, 4, 6, 6, 7]
    text = str(explanation)
    (heading,) = [line for line in text.splitlines() if line.split() == ["line", "element", "memory", "width", "times"]]
    assert "X: global float16" in text.partition(heading)[2]
    checker = Checker()
    checker.feed(explanation._repr_html_())
    assert not checker.stack and checker.cells.count("16 bits") == 2


def test_a_kernel_of_tiles_alone_lists_no_elements():
    @tj.kernel(threads=32)
    def copied(X: tj.Tensor, Y: tj.Tensor):
        tj.cta.store(Y[0:64], tj.cta.load(X[0:64]))

    explanation = copied.explain(tj.spec((64,), tj.float16), tj.spec((64,), tj.float16))
    assert explanation.elements == () and "element  " not in str(explanation).partition("\n\n")[2].partition("\n")[0]


@tj.kernel(threads=64, target="sm_90a")
def boxes(X: tj.Tensor, Y: tj.Tensor, n: tj.int32):
    s = tj.alloc_shared((2, 64, 128), X.dtype, swizzle="128B")
    full = tj.alloc_barrier()
    s[0, tj.thread_id(), 0] = 1.0
    tj.cta_sync()
    tj.cta.copy_async(s[0], X[0:64, 0:128], barrier=full)
    tj.cta.copy_async(s[1], X[0:64, 128:256], barrier=full)
    tj.cta.arrive(full)
    full.wait(0)
    if n > 0:
        full.expect(64)
        tj.cta.copy_async(s[0], X[0:64, 0:128], barrier=full)
    tj.cta.copy_async(Y.permute((1, 0))[0:64, 0:128], s[0])
    tj.bulk.wait(0)


def test_tensor_maps_and_what_the_compiler_inserted_for_copies_are_listed():
    matrix = tj.spec((512, 512), tj.float16)
    explanation = boxes.explain(matrix, tj.spec((512, 512), tj.float16, strides=(1, 512)), 1)
    assert [(spec.of, spec.axes) for spec in explanation.maps] == [("X", (1, 0)), ("Y", (0, 1))]
    maps = [("X", "float16", "1, 0", "64 x 64", "128B"), ("Y", "float16", "0, 1", "64 x 64", "128B")]
    first = boxes.source.node.lineno
    shown = [(int(x.line.partition(":")[2]) - first, *x.cells[1:]) for x in explanation.inserted]
    fence, awaits = "fence.proxy.async.shared::cta", "a phase of full awaits"
    # not the one of 64 bytes, which the user wrote
    assert shown == [
        (4, fence, "orders ordinary accesses to shared memory before asynchronous ones", "1"),
        (7, "mbarrier.arrive.expect_tx.shared::cta.b64", f"{awaits} 32,768 bytes", "1"),
        (11, "mbarrier.expect_tx.relaxed.cta.shared::cta.b64", f"{awaits} 16,384 bytes", "1"),
    ]
    text, page = str(explanation), explanation._repr_html_()
    for cells in (*maps, *(line.cells for line in explanation.inserted)):
        assert any(" ".join(row.split()) == " ".join(cells) for row in text.splitlines())
        assert all(f">{cell}<" in page for cell in cells)
    checker = Checker()
    checker.feed(page)
    assert not checker.stack


def test_a_kernel_without_copies_by_tma_lists_no_maps_and_insertions():
    @tj.kernel(threads=32)
    def copied(X: tj.Tensor, Y: tj.Tensor):
        tj.cta.store(Y[0:64], tj.cta.load(X[0:64]))

    explanation = copied.explain(tj.spec((64,), tj.float16), tj.spec((64,), tj.float16))
    assert explanation.maps == explanation.inserted == ()
    assert "tensor map" not in str(explanation) and "inserted" not in str(explanation)


@tj.kernel(threads=128)
def everything(X: tj.Tensor, Y: tj.Tensor, n: tj.int32):
    s = tj.alloc_shared((128, 9), X.dtype)
    r = tj.alloc_local((64,), tj.float32, layout=tj.S[(64,) : (1,)])
    tj.thread.fill(r, 1.0)
    x = tj.cta.load(X[0:128, 0:9])
    tj.cta.store(s, x)
    tj.cta_sync()
    Y[tj.thread_id()] = r[n] + s[tj.thread_id(), 0]
    tj.atomic.add(Y[n], tj.sum(x))


def test_what_was_decided_comes_back_from_json_as_it_was():
    arrays = tj.spec((128, 9), tj.float32), tj.spec((128,), tj.float32)
    decisions = [
        everything.compile(*arrays, 3, target="sm_90a").decisions,
        boxes.compile(tj.spec((512, 512), tj.float16), tj.spec((512, 512), tj.float16, strides=(1, 512)), 1).decisions,
    ]
    for name in Decisions.__match_args__:
        assert any(getattr(each, name) for each in decisions), f"no example has {name}"
    for each in decisions:
        again = decoded(json.loads(json.dumps(encoded(each, classes=RECORDS))), classes=RECORDS)
        assert again == each and repr(again) == repr(each)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("tj.atomic.add(S[0], total)", "each of 128 threads adds"),
        ("tj.atomic.sub(S[tj.cta_id(0)], total)", "each of 128 threads adds"),
        ("if tj.warp_id() == 0:\n        tj.atomic.add(S[0], total)", "each of 32 threads adds"),
        ("if tj.thread_id() == 0:\n        tj.atomic.add(S[0], total)", ""),
        ("if tj.elect():\n        tj.atomic.add(S[0], total)", "each of 4 threads adds"),
        ("tj.atomic.add(S[tj.thread_id()], total)", ""),
        ("tj.atomic.add(S[0], X[tj.thread_id()])", ""),
        ("tj.atomic.add(S[0:1], tj.sum(x, keepdims=True))", ""),
        ("if S[1] > 0.0:\n        tj.atomic.add(S[0], total)", "each of 128 threads adds"),
    ],
)
def test_additions_that_threads_repeat_are_reported(body, said):
    text = f"def k(X, S):\n    x = tj.cta.load(X[0:256])\n    total = tj.sum(x)\n    {body}\n"
    arrays = (tj.spec((256,), tj.float32),) * 2
    shown = str(tj.kernel(threads=128)(source_of(text)).explain(*arrays, target="sm_90a"))
    assert ("adds the same value to the same element of S" in shown) == bool(said)
    assert said in shown


LANES_APART = "r = tj.alloc_local((32, 8), X.dtype, layout=tj.S[(32, 8) : (1 @ laneid, 1)])"


def explained_kernel(*lines, of=None):
    text = "\n    ".join(["def k(X: tj.Tensor, Y: tj.Tensor):", *lines])
    array = of or tj.spec((64, 64), tj.float32)
    return tj.kernel(threads=32)(source_of(text + "\n", laneid=tj.laneid)).explain(array, array, target="sm_90a")


def test_variants_for_other_memory_spaces_are_left_out_unless_all_are_asked_for():
    verdicts = explained_kernel(LANES_APART, "tj.warp.copy(r, X[0:32, 0:8])", "tj.warp.copy(Y[0:32, 0:8], r)")
    assert {"ldstmatrix", "rename", "gmem_smem"} <= set(verdicts.rows[0].elsewhere)
    assert {"ldstmatrix", "fallback"} <= dict(verdicts.rows[0].declines).keys()
    for shown in (str(verdicts), verdicts._repr_html_()):
        assert "fallback" in shown and "ldstmatrix" not in shown
    for shown in (str(replace(verdicts, shows_all=True)), replace(verdicts, shows_all=True)._repr_html_()):
        assert "fallback" in shown and "ldstmatrix" in shown


@pytest.mark.parametrize(
    ("region", "array", "said"),
    [
        # each lane moves 16 bytes of a row of its own
        ("[0:32, 0:8]", tj.spec((64, 64), tj.float32), "at least 32 sectors of 32 bytes; its 512 bytes would fill 16"),
        ("[0:32, 0:8]", tj.spec((64, 64), tj.float32, strides=(1, 64)), ""),
        ("[0:32, 0:8]", tj.spec((64, 64), tj.uint8), "at least 16 sectors of 32 bytes; its 256 bytes would fill 8"),
    ],
)
def test_sectors_of_a_warps_access_are_shown_where_lanes_are_apart(region, array, said):
    verdicts = explained_kernel(LANES_APART, f"tj.warp.copy(r, X{region})", f"tj.warp.copy(Y{region}, r)", of=array)
    for row_of_copy, name in zip(verdicts.rows, "XY", strict=True):
        assert row_of_copy.sectors == (f"a warp's access to {name} touches {said}" if said else None)
    assert (said in str(verdicts)) and (not said or said in verdicts._repr_html_())


def test_sectors_of_pinned_arrays_are_exact():
    head = "def k(X: tj.Tensor = tj.spec((64, 64), tj.float32)):"
    text = "\n    ".join([head, LANES_APART, "tj.warp.copy(r, X[0:32, 0:8])\n"])
    (only,) = tj.kernel(threads=32)(source_of(text, laneid=tj.laneid)).compile(target="sm_90a").explain().rows
    assert only.sectors == "a warp's access to X touches 32 sectors of 32 bytes; its 512 bytes would fill 16"


def test_open_tiles_waste_no_sectors():
    verdicts = explained_kernel("tj.cta.store(Y[0:32, 0:8], tj.cta.load(X[0:32, 0:8]))")
    assert all(row_of_copy.sectors is None for row_of_copy in verdicts.rows)


def test_notes_of_an_installed_ptxas_are_shown_by_explain_alone(tmp_path, monkeypatch):
    """The ptxas here only prints, and leaves a mark each time that it is started."""
    started, folder = tmp_path / "started", tmp_path / "bin"
    folder.mkdir()
    note = "ptxas info    : (C7514) Potential Performance Loss: wgmma is serialized in the function 'k'"
    ptxas = folder / "ptxas"
    lines = f"echo x >> {started}", f"echo \"{note}\" >&2", "echo 'ptxas info    : Used 9 registers' >&2"
    lines += ("echo '    64 bytes stack frame, 72 bytes spill stores, 80 bytes spill loads' >&2",)
    ptxas.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    ptxas.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    kernel = tj.kernel(threads=32)(source_of("def k(X: tj.Tensor):\n    X[tj.thread_id()] = 1\n"))
    compiled = kernel.compile(tj.spec(32, tj.float32), target="sm_90a")
    tj.simulate(kernel, 1, np.zeros(32, np.float32))
    assert not started.exists()
    shown = str(compiled.explain())
    assert note in shown and "registers" not in shown and started.exists()
    assert "ptxas: 72 bytes spill stores, 80 bytes spill loads" in shown


def test_a_ptxas_that_fails_or_is_missing_changes_nothing(tmp_path, monkeypatch):
    kernel = tj.kernel(threads=32)(source_of("def k(X: tj.Tensor):\n    X[tj.thread_id()] = 1\n"))
    compiled = kernel.compile(tj.spec(32, tj.float32), target="sm_90a")
    monkeypatch.setattr("tilejit.executable.assembler.find_ptxas", lambda: None)
    silent = str(compiled.explain())
    monkeypatch.setattr("tilejit.executable.assembler.find_ptxas", lambda: str(tmp_path / "missing"))
    assert str(compiled.explain()) == silent
