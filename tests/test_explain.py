"""The dispatcher's verdicts as text and as a table."""

from dataclasses import dataclass
from html.parser import HTMLParser
from types import SimpleNamespace

from tilejit.explain import Explanation
from tilejit.ir.nodes import TileOp
from tilejit.lower import Verdict
from tilejit.source import Span
from tilejit.target import target


@dataclass(frozen=True)
class VectorPlan:
    vector_width: int = 4
    rounds: int = 2
    limit: str | None = "rows start every 16 bytes"
    instructions: tuple = (("ld.global.v4.b32", 2), ("st.shared.v4.b32", 2))


def verdict(plan, variant="gmem_smem", declines=None, line=7):
    text = "    tj.warp.copy(smem, A[0:32, 0:8])"
    span = Span("/home/user/kernel.py", line, 4, line, len(text), text)
    return Verdict(TileOp("copy", "warp", (), span=span), variant, plan, declines or {})


def explained(*verdicts):
    return Explanation.of("sqrt_tile", target("sm_90a"), verdicts)


def test_every_operation_is_a_line_with_its_numbers():
    lines = str(explained(verdict(VectorPlan()), verdict(VectorPlan(1, 8, None, ()), "reg", line=9))).splitlines()
    assert lines[0] == "sqrt_tile for sm_90a: 2 tile operations"
    assert lines[2].split("  ")[0] == "line"
    first, second = lines[3:5]
    for text in ("kernel.py:7", "warp.copy", "gmem_smem", "4 elements", "2 x ld.global.v4.b32, 2 x st.shared.v4.b32"):
        assert text in first
    assert "1 element " in second and second.endswith("-")


def test_columns_stand_under_their_headings():
    lines = str(explained(verdict(VectorPlan()))).splitlines()
    assert lines[3].index("gmem_smem") == lines[2].index("variant")
    assert lines[3].index("4 elements") == lines[2].index("width")


def test_reasons_of_other_variants_follow_with_the_source_line():
    text = str(explained(verdict(VectorPlan(), declines={"ldstmatrix": ("moves local <-> shared", "needs 16 bits")})))
    assert "kernel.py:7: tj.warp.copy(smem, A[0:32, 0:8])" in text
    assert "  not wider: rows start every 16 bytes" in text
    assert "  not ldstmatrix: moves local <-> shared; needs 16 bits" in text


def test_matrix_and_tensor_memory_plans_show_their_shape():
    matrix = SimpleNamespace(num=4, trans=True, issues=3, instructions=(("ldmatrix", 3),))
    tmem = SimpleNamespace(num=8, shape="32x32b", slabs=2, issues=2, instructions=(("tcgen05.ld", 2),))
    rows = explained(verdict(matrix, "ldstmatrix"), verdict(tmem, "tcgen05_ldst")).rows
    assert [(r.width, r.rounds) for r in rows] == [("x4.trans", "3"), ("32x32b.x8", "2")]


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
    shown = explained(verdict(VectorPlan(), declines={"reg": ("moves local <-> shared & <b>back</b>",)}))
    checker.feed(shown._repr_html_())
    assert not checker.stack
    assert "gmem_smem" in checker.cells
    assert any("<b>back</b>" in cell for cell in checker.cells)


def test_a_kernel_without_tile_operations_says_so():
    assert str(explained()) == "sqrt_tile for sm_90a: 0 tile operations"
