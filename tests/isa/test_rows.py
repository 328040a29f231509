"""The instruction table says of each row what its readers rely on."""

from __future__ import annotations

import re

import pytest

from tests.isa.rows import EVERY
from tilejit import scopes
from tilejit.dtypes import float16, float32
from tilejit.isa import (
    ROWS,
    TOPICS,
    WAITS,
    AsyncWork,
    Direction,
    Family,
    Kind,
    Row,
    cp_async,
    matrix,
    mma,
    nearest,
    row_called,
    tcgen05,
    tma,
    wgmma,
)
from tilejit.isa.row import B32, carried, constant, predicate, register
from tilejit.layout import TCGEN05_SHAPES
from tilejit.target import TARGETS, target

FAMILIES = [x for topic in TOPICS for x in vars(topic).values() if isinstance(x, Family)]


def test_every_row_of_every_topic_is_in_the_table_once() -> None:
    rows = [row for topic in TOPICS for row in topic.ROWS]
    assert [row.name for row in rows if ROWS[row.name] is not row] == []
    assert len(rows) == len(ROWS)


def test_every_form_of_every_family_is_in_the_table() -> None:
    assert {f.name for f in FAMILIES} >= {"mma", "ldmatrix", "stmatrix", "cp.async", "tcgen05.ld", "tcgen05.st"}
    for family in FAMILIES:
        assert [ROWS[row.name] for row in family.rows()] == [family.row(form) for form in family.forms()]


@pytest.mark.parametrize("row", EVERY.values(), ids=lambda row: row.name)
def test_a_row_says_what_it_is(row: Row) -> None:
    assert row.meaning and row.source and row.text.endswith((";", "}"))
    names = [operand.name for operand in row.operands]
    assert len(set(names)) == len(names)
    assert set(re.findall(r"\$(\w+)", row.text)) == {o.name for o in row.operands if o.count is not None}
    assert set(re.findall(r"\$(\w+)", row.meaning)) <= set(names)
    assert any(row.missing(t) is None for t in TARGETS.values())


@pytest.mark.parametrize("row", EVERY.values(), ids=lambda row: row.name)
def test_what_code_generation_and_the_passes_assume_of_a_row_holds(row: Row) -> None:
    # registers that are taken and returned come first, results before arguments in their numbering
    order = [0 if o.is_result and o.is_argument else 1 for o in row.operands if o.kind is not Kind.ADDRESS]
    assert order == sorted(order)
    assert row.carries is None or not row.results
    # what threads do together mustn't be moved into a branch, and LLVM mustn't see memory as unchanged
    assert row.convergent or row.scope is scopes.THREAD
    reaches = any(o.kind is Kind.ADDRESS for o in row.operands)
    assert row.memory or not (reaches or row.starts or row.completes)


def test_a_token_has_work_that_starts_it_and_a_wait_that_completes_it() -> None:
    started = {row.starts for row in EVERY.values()} - {None}
    completed = {row.completes for row in EVERY.values()} - {None}
    works = {cp_async.CP_ASYNC, tcgen05.TMEM_LOAD, tcgen05.TMEM_STORE, wgmma.PRODUCTS, tma.BULK_STORES}
    assert started == completed == works
    waits = [row for row in EVERY.values() if row.completes and row.spelling == row.completes.wait]
    assert {row.completes: row for row in waits} == WAITS and len(waits) == len(WAITS)


@pytest.mark.parametrize("work", WAITS, ids=lambda work: work.name)
def test_work_says_of_registers_and_groups_what_its_rows_have(work: AsyncWork) -> None:
    starts = [row for row in EVERY.values() if row.starts is work]
    commits = [row for row in EVERY.values() if row.commits is work]
    listed = [o for row in starts for o in row.operands if o.kind is Kind.REGISTER and o.element is None]
    assert all(any(o.is_result for o in row.operands) for row in starts) == work.fills
    if work.reads:
        assert all(o.is_argument for o in listed)
    # what is waited for carries its registers, and waits at joins leave nothing unfinished
    assert (WAITS[work].carries is not None) == work.holds_registers
    assert WAITS[work].leaves is None or not work.settles_at_joins
    # groups are made where waits count them: by a call, or each by what starts it
    assert (WAITS[work].leaves is not None) == bool(commits)
    assert commits == starts or bool(work.commit) == any(row.spelling == work.commit for row in commits)


def test_rows_of_an_open_family_are_made_when_they_are_asked_for() -> None:
    for product in wgmma.products():
        form = wgmma.WgmmaForm(product, 1, 2, 3)
        assert wgmma.WgmmaForm.called(form.name) == form
        assert ROWS[form.name] is wgmma.WGMMA.row(form) and form.name not in ROWS
    name = "wgmma.m64n{}k16.f32.f16.f16.a_k.b_{}.1x1x1"
    assert row_called(name.format(8, "mn")) is not None
    for no_such in (name.format(12, "k"), name.format(264, "k"), name.format(8, "r"), name.format("08", "k")):
        assert row_called(no_such) is None
    assert row_called("wgmma.m64n8k32.f32.e4m3.e5m2.a_mn.b_k.1x1x1") is None
    assert row_called("wgmma.m64n8k32.s32.s8.e5m2.a_k.b_k.1x1x1") is None


def test_operands_are_numbered_as_inline_assembly_does_results_first() -> None:
    matrix_row = matrix.LDMATRIX.row(matrix.MatrixForm(2))
    assert matrix_row.assembly() == "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {$0, $1}, [$2];"
    row = Row(
        name="made.up",
        text="made.up {$sums}, $done, $wide, [$at], $by;",
        meaning="",
        operands=(
            register("sums", B32, Direction.INOUT, 2),
            predicate("done", Direction.OUT),
            register("wide", B32),
            register("at", B32),
            constant("by"),
        ),
        since=90,
        ptx=(8, 0),
    )
    # $3 and $4 are the sums once more, as arguments
    assert row.assembly() == "made.up {$0, $1}, $2, $5, [$6], $7;"


def test_registers_that_a_wait_carries_come_before_its_other_operands() -> None:
    row = Row(
        name="made.up",
        text="made.up.wait $groups;",
        meaning="",
        operands=(carried("registers"), constant("groups")),
        since=90,
        ptx=(8, 0),
    )
    assert [row.assembly(n) for n in (0, 1, 3)] == ["made.up.wait $0;", "made.up.wait $2;", "made.up.wait $6;"]


def test_a_mnemonic_is_the_text_up_to_the_operands() -> None:
    assert mma.MMA.row(mma.MMA.forms()[0]).mnemonic == mma.MMA.forms()[0].name
    assert cp_async.COMMIT.mnemonic == "cp.async.commit_group"
    assert cp_async.COPIES.row(cp_async.Copy(16, "zfill")).mnemonic == "cp.async.cg.shared.global"


def test_transfers_of_tensor_memory_come_in_every_size_of_every_shape() -> None:
    sizes = {(shape.name, 1 << k) for shape in TCGEN05_SHAPES.values() for k in range(shape.max_num.bit_length())}
    for family in (tcgen05.LD, tcgen05.ST):
        assert {(form.shape, form.num) for form in family.forms()} == sizes


def test_a_family_is_missing_where_all_its_forms_are() -> None:
    assert mma.MMA.missing(target("sm_75")) is None
    assert matrix.STMATRIX.missing(target("sm_80")) == "needs sm_90 or newer; target is sm_80"
    assert mma.MMA.among("none", lambda form: False).missing(target("sm_75")) is None
    assert list(mma.MMA.on(target("sm_75"))) == [mma.Mma(8, float16, float16, acc) for acc in (float32, float16)]
    assert tcgen05.LD.missing(target("sm_100")) == "needs sm_100a or sm_103a or sm_110a; target is sm_100"


def test_a_name_that_nearly_exists_has_neighbours() -> None:
    assert "ldmatrix.x4" in nearest("ldmatrix.4")
    assert nearest("zzz") == []
