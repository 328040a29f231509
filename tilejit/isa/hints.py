"""Asynchronous copies with hints: an eviction priority of the data in L2, and the number of bytes fetched into L2.

A row of this family is that of a copy with `.L2::cache_hint`, whose policy it creates, or with `.L2::64B` and so on.
ptxas replaces the creation of a policy by a constant.

    cp.async.16.evict_first.128B    tma.load.2d.evict_last
"""

from __future__ import annotations

from itertools import product

from ..dataclass import dataclass, replace
from . import cp_async, tma
from .row import Capability, OpenFamily, Row

CACHES = ("evict_first", "evict_last")
SIZES = ("64B", "128B", "256B")

_HINTS = Capability(name="cache hints of asynchronous copies", since=80, ptx=(7, 4))

_COPIES = {row.name: row for row in cp_async.COPIES.rows()}
#: a tensor map has the number of bytes that are fetched, and other bulk copies have none
_BULK_COPIES = {row.name: row for row in (*tma.LOADS.rows(), *tma.STORES.rows(), tma.BULK_LOAD, tma.BULK_STORE)}


@dataclass(frozen=True, slots=True)
class HintedCopy:
    """The copy of the row `copy` with hints. cache: of `CACHES`, or "". fetch: of `SIZES`, or ""."""

    copy: str
    cache: str = ""
    fetch: str = ""

    @property
    def name(self) -> str:
        return ".".join(filter(None, (self.copy, self.cache, self.fetch)))


FORMS = tuple(
    HintedCopy(copy, cache, fetch)
    for copies, sizes in ((_COPIES, ("", *SIZES)), (_BULK_COPIES, ("",)))
    for copy, cache, fetch in product(copies, ("", *CACHES), sizes)
    if cache or fetch
)


def _row(form: HintedCopy) -> Row:
    row = (_COPIES | _BULK_COPIES)[form.copy]
    opcode, operands = row.text.split(" ", 1)
    fetch = f".L2::{form.fetch}" if form.fetch else ""
    text = f"{opcode}{fetch} {operands}"
    if form.cache:
        create = f"createpolicy.fractional.L2::{form.cache}.b64 policy, 1.0;"
        text = f"{opcode}.L2::cache_hint{fetch} {operands.removesuffix(';')}, policy;"
        text = f"{{ .reg .b64 policy; {create} {text} }}"
    hints = " and ".join(filter(None, (form.cache, form.fetch and f"{form.fetch} fetched into L2")))
    return replace(
        row, name=form.name, text=text, ptx=max(row.ptx, _HINTS.ptx), meaning=f"{row.meaning}; hints: {hints}"
    )


_NAMED = {form.name: form for form in FORMS}

HINTED = OpenFamily[HintedCopy]("copies with cache hints", _HINTS, _row, _NAMED.get)


def hinted(copy: str, cache: str, fetch: str) -> str:
    """Return the name of the row of a copy with hints; `copy` itself if it isn't a copy that takes them."""
    form = HintedCopy(copy, cache, fetch if copy in _COPIES else "")
    return form.name if form.name in _NAMED else copy


def with_hints(copies: tuple[Row, ...]) -> frozenset[str]:
    """Return the names of rows, and of the same copies with hints."""
    names = {row.name for row in copies}
    return frozenset(names.union(form.name for form in FORMS if form.copy in names))


#: empty, because all rows are created at first use
ROWS: tuple[Row, ...] = ()
