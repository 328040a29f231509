"""The rows that tests of the instruction table take: all that are listed, and some that are made when asked for."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from tilejit.dtypes import float16, float32
from tilejit.isa import ROWS, Row
from tilejit.isa.access import FORMS, LOAD, STORE
from tilejit.isa.hints import FORMS as HINTED_FORMS
from tilejit.isa.hints import HINTED
from tilejit.isa.wgmma import WGMMA, FactorPlace, Product, WgmmaForm, products


def _spread(count: int) -> Iterable[Product]:
    """Some products of every kind of type and side."""
    every = tuple(products())
    return islice(every, 0, None, len(every) // count)


#: wgmma: single products of all kinds, and several in one gemm_async
SAMPLE = (
    *(WgmmaForm(product) for product in _spread(24)),
    WgmmaForm(Product(24, float16, float16, float32, FactorPlace.K_MAJOR, FactorPlace.MN_MAJOR), 2, 3, 2),
    WgmmaForm(Product(8, float16, float16, float16, FactorPlace.REGISTERS, FactorPlace.K_MAJOR), 2, 1, 3),
)

#: accesses of every width and kind of register, guarded or with each hint
_ACCESSES = (*(form for form in FORMS if not form.hint), *islice((form for form in FORMS if form.hint), 0, None, 5))

#: every fifth copy with hints, and all copies of runs of bytes
_COPIES = (*islice(HINTED_FORMS, 0, None, 5), *(form for form in HINTED_FORMS if form.copy.startswith("bulk.")))

_MADE = (
    *(HINTED.row(form) for form in _COPIES),
    *(WGMMA.row(form) for form in SAMPLE), *(LOAD.row(form) for form in _ACCESSES),
    *(STORE.row(form) for form in _ACCESSES),
)

EVERY: dict[str, Row] = {**ROWS, **{row.name: row for row in _MADE}}
