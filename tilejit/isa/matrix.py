"""ldmatrix and stmatrix: moves of 8x8 tiles of 16-bit elements between shared memory and a warp's registers."""

from __future__ import annotations

from functools import partial

from ..dataclass import dataclass
from ..scopes import WARP
from ..wording import counted
from .row import B32, Direction, Family, Row, address, register

_ROW_BYTES = 16


@dataclass(frozen=True, slots=True)
class MatrixForm:
    """A form for `num` tiles. trans: True if a tile's columns, rather than its rows, are contiguous in memory."""

    num: int
    trans: bool = False

    @property
    def suffix(self) -> str:
        return f"x{self.num}{'.trans' if self.trans else ''}"


_FORMS = tuple(MatrixForm(num, trans) for num in (1, 2, 4) for trans in (False, True))

_row = partial(Row, scope=WARP, memory=True, convergent=True)


def _ldmatrix(form: MatrixForm) -> Row:
    return _row(
        name=f"ldmatrix.{form.suffix}", since=75, ptx=(6, 5),
        text=f"ldmatrix.sync.aligned.m8n8.{form.suffix}.shared.b16 {{$tiles}}, [$row];",
        meaning=f"loads {counted(form.num, '8x8 tile')}; lanes below {8 * form.num} have the rows' addresses",
        operands=(register("tiles", B32, Direction.OUT, form.num), address("row", "shared", Direction.IN, _ROW_BYTES)),
        source='PTX ISA, "Warp-level matrix load instruction: ldmatrix"',
    )


def _stmatrix(form: MatrixForm) -> Row:
    return _row(
        name=f"stmatrix.{form.suffix}", since=90, ptx=(7, 8),
        text=f"stmatrix.sync.aligned.m8n8.{form.suffix}.shared.b16 [$row], {{$tiles}};",
        meaning=f"stores {counted(form.num, '8x8 tile')}; lanes below {8 * form.num} have the rows' addresses",
        operands=(address("row", "shared", Direction.OUT, _ROW_BYTES), register("tiles", B32, count=form.num)),
        source='PTX ISA, "Warp-level matrix store instruction: stmatrix"',
    )


LDMATRIX = Family.of("ldmatrix", _FORMS, _ldmatrix)
STMATRIX = Family.of("stmatrix", _FORMS, _stmatrix)

ROWS = (*LDMATRIX.rows(), *STMATRIX.rows())
