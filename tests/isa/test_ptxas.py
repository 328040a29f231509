"""Every form of every row is what ptxas takes on the oldest target and PTX version that have it, and not below."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.isa.rows import EVERY
from tests.isa.uses import oldest, use
from tests.support.ptxas import complaints, notes_of, ptxas_path
from tilejit.isa import Row
from tilejit.isa.wgmma import PRODUCTS, WGMMA, WgmmaForm, products
from tilejit.target import TARGETS, target

Version = tuple[int, int]

#: PTX versions that ptxas knows
VERSIONS: tuple[Version, ...] = (
    (6, 3), (6, 4), (6, 5), *((7, k) for k in range(9)), *((8, k) for k in range(9)), (9, 0),
)

_HEADER = re.compile(r"\.version .*\n\.target .*\n\.address_size 64\n")


@cache
def kernel_text(name: str) -> str:
    """The PTX of a row's kernel without the module's header, its names unlike other kernels'."""
    ptx = use(EVERY[name]).ptx()
    header = _HEADER.search(ptx)
    assert header is not None
    return ptx[header.end() :].replace("tmem_address", f"tmem_address_{list(EVERY).index(name)}")


def least(row: Row) -> tuple[str, Version]:
    """The oldest target, and the oldest PTX version for it, that have a row."""
    name = oldest(row)
    return name, max(row.ptx, target(name).ptx)


def below(row: Row) -> Iterator[tuple[str, Version]]:
    """The target just older than the oldest, and the version just older: one of both each, where there is one."""
    name, version = least(row)
    lower = "sm_100" if row.only else next((t for t in reversed(TARGETS) if TARGETS[t].number < row.since), None)
    if lower is not None:
        yield lower, version
    if row.ptx > target(name).ptx:
        yield name, VERSIONS[VERSIONS.index(row.ptx) - 1]


def module(rows: list[Row], arch: str, version: Version) -> str:
    head = f".version {version[0]}.{version[1]}\n.target {arch}\n.address_size 64\n"
    return head + "\n".join(kernel_text(row.name) for row in rows)


@pytest.fixture(scope="module", autouse=True)
def need_ptxas() -> None:
    if ptxas_path() is None:
        pytest.skip("no ptxas: install nvidia-cuda-nvcc")


def test_ptxas_takes_every_row_on_the_oldest_target_and_version_that_have_it() -> None:
    groups: dict[tuple[str, Version], list[Row]] = defaultdict(list)
    for row in EVERY.values():
        groups[least(row)].append(row)
    programs = [(module(rows, *at), at[0], f"{at}: {len(rows)} rows") for at, rows in groups.items()]
    assert complaints(programs) == []


@pytest.mark.parametrize("row", EVERY.values(), ids=lambda row: row.name)
def test_the_ptx_contains_a_row_as_the_table_does(row: Row) -> None:
    ptx = use(row).ptx()
    assert row.mnemonic in ptx
    assert f".version {'.'.join(map(str, least(row)[1]))}\n" in ptx


def test_ptxas_refuses_every_row_just_below_its_target_and_its_version() -> None:
    groups: dict[tuple[str, Version], list[Row]] = defaultdict(list)
    for row in EVERY.values():
        for at in below(row):
            groups[at].append(row)
    taken = [f"{row.name} {at}" for at, rows in groups.items() for row in accepted(rows, *at)]
    assert taken == []


def accepted(rows: list[Row], arch: str, version: Version) -> list[Row]:
    """The rows whose instruction is in no line that ptxas complains of."""
    text = module(rows, arch, version)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "rows.ptx"
        source.write_text(text)
        command = [str(ptxas_path()), f"-arch={arch}", "-o", str(Path(folder) / "rows.cubin"), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = text.splitlines()
    refused = [lines[int(number) - 1] for number in re.findall(r"rows\.ptx, line (\d+); error", done.stderr)]
    return [row for row in rows if not any(re.search(_pattern(row), line) for line in refused)]


def _pattern(row: Row) -> str:
    """What the row's line in PTX looks like, with any operands."""
    return re.sub(r"\\\$\w+", r"[^;]+", re.escape(row.text))


@pytest.mark.long
def test_ptxas_takes_every_product_of_a_warpgroup_and_changes_none() -> None:
    forms = [WgmmaForm(product) for product in products()]
    for first in range(0, len(forms), 100):
        rows = [WGMMA.row(form) for form in forms[first : first + 100]]
        groups: dict[tuple[str, Version], list[Row]] = defaultdict(list)
        for row in rows:
            groups[least(row)].append(row)
        for (name, version), same in groups.items():
            head = f".version {version[0]}.{version[1]}\n.target {name}\n.address_size 64\n"
            text = head + "\n".join(_HEADER.sub("", use(row).ptx()) for row in same)
            assert complaints([(text, name, f"{len(same)} products from {same[0].name}")]) == []
            assert notes_of(text, name) == []


def test_ptxas_changes_no_product_of_the_sample() -> None:
    rows = [row for row in EVERY.values() if row.starts is PRODUCTS]
    assert notes_of(module(rows, "sm_90a", (8, 4)), "sm_90a") == []
