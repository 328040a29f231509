"""Functions of other libraries: each one that has a match in kernels is refused with its name there."""

from __future__ import annotations

import builtins
import math
import re

import numpy as np
import pytest

import tilejit as tj
from tests.support.programs import array, tile_ir
from tilejit import dtypes
from tilejit.errors import TilejitError
from tilejit.frontend.foreign import INSTEAD
from tilejit.ops.elementwise import ELEMENTWISE

LIBRARIES = {"builtins": builtins, "math": math, "np": np}
#: what a kernel calls itself, by another way
CALLED = {"builtins.abs"}
CALLS = [
    f"{library}.{name}"
    for library, module in LIBRARIES.items() for name in (*INSTEAD, *ELEMENTWISE) if hasattr(module, name)
]


def test_the_table_has_only_what_no_operation_of_its_name_is_and_what_some_library_has() -> None:
    assert not [name for name, written in INSTEAD.items() if written == f"tj.{name}"]
    assert set(INSTEAD) <= {call.partition(".")[2] for call in CALLS}


def test_what_is_written_instead_exists() -> None:
    for name in re.findall(r"tj\.(?:\w+\.)*\w+", " ".join(INSTEAD.values())):
        owner: object = tj
        for part in name.split(".")[1:]:
            assert part in dir(owner) or hasattr(owner, part), name
            owner = getattr(owner, part)


@pytest.mark.parametrize("call", sorted({*CALLS} - CALLED))
def test_a_call_names_what_there_is_at_run_time(call: str) -> None:
    with pytest.raises(TilejitError) as caught:
        tile_ir(f"def k(A, x):\n    y = {call}(x)\n", array(), dtypes.float32, **LIBRARIES)
    library, _, alias = call.partition(".")
    name = getattr(LIBRARIES[library], alias).__name__
    assert f"at run time there is {INSTEAD.get(name, f'tj.{name}')}" in (caught.value.hint or "")
    assert caught.value.span is not None
