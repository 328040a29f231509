"""Members of values: each that type checkers offer works in a kernel, and what gathered rows lack has a help."""

from __future__ import annotations

import pytest

from tests.support.programs import array, tile_ir
from tilejit import dtypes
from tilejit.errors import KernelTypeError
from tilejit.frontend import annotations

#: what values are called in the kernel below -> their annotation
VALUES: dict[str, type] = {
    "n": annotations.Scalar, "A": annotations.Tensor, "s": annotations.Region, "x": annotations.Tile,
    "rows": annotations.Gather, "barrier": annotations.Barrier, "ring": annotations.Ring,
    "ring[0]": annotations.RingStep, "named": annotations.NamedBarrier,
}
KERNEL = """
def k(A, n):
    s = tj.alloc_shared((64, 32), A.dtype)
    x = tj.alloc_local((8, 4), A.dtype)
    rows = A.at(tj.cta.indices((16,), 0))
    barrier, named = tj.alloc_barrier(), tj.named_barrier(1, 128)
    ring = tj.alloc_ring(2)
    {}
"""
#: method -> a call of it, of one value or of all that have it; what isn't here is an attribute
CALLS = {
    "at": "at(n)", "astype": "astype(tj.float16)", "permute": "permute(1, 0)", "tile": "tile((8, 4), (0, 0))",
    "reshape": "reshape(-1, 2)", "view": "view(tj.int32)", "wait": "wait(0)", "test": "test(0)", "expect": "expect(16)",
    "sync": "sync()", "arrive": "arrive()", "acquire": "acquire()",
    "ring[0].wait": "wait()",
}
STATEMENTS = "wait", "expect", "sync", "arrive", "acquire"


def members(cls: type) -> list[str]:
    return [name for name in dir(cls) if not name.startswith("_")]


def read(line: str) -> None:
    pinned = array(dtypes.float32, 2, shape=(64, 32), strides=(32, 1))
    tile_ir(KERNEL.format(line), pinned, dtypes.int32, threads=128)


@pytest.mark.parametrize(
    ("value", "member"), [(value, member) for value, kind in VALUES.items() for member in members(kind)]
)
def test_a_kernel_has_each_member_that_a_type_checker_offers(value: str, member: str) -> None:
    element = "[0, 0]" if member == "astype" and value in "As" else ""
    call = CALLS.get(f"{value}.{member}", CALLS.get(member, member))
    read(f"{'' if member in STATEMENTS else 'y = '}{value}{element}.{call}")


def test_rows_have_the_size_and_length_that_numpys_have() -> None:
    read("tj.static_assert((rows.size, len(rows), rows[:, 0:4].size) == (512, 16, 64))")


@pytest.mark.parametrize("member", ["T", "reshape", "astype", "tile", "view"])
def test_what_tiles_have_and_rows_lack_has_a_help_that_works(member: str) -> None:
    call = CALLS.get(member, member)
    with pytest.raises(KernelTypeError, match=f"a gathered region .* has no attribute {member}") as caught:
        read(f"y = rows.{call}")
    assert caught.value.hint == f"load it first: x = tj.cta.load(rows), and write x.{member}"
    read(f"x = tj.cta.load(rows)\n    y = x.{call}")
