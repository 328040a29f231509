"""Kernels in notebook cells, each top-level statement of which is compiled as a module of its own."""

from __future__ import annotations

import ast
import itertools
import linecache

import pytest

import tilejit as tj
from tilejit.errors import KernelSyntaxError

_numbers = itertools.count()

CELL = """import tilejit as tj
from tilejit import S
@tj.kernel(threads=32)
def k(A):
    def twice(x):
        return x * 2
    A[tj.thread_id()] = tj.float32(twice(3))
last = 1
"""


def run_cell(text: str, shown: str | None = None) -> dict[str, object]:
    """Executes a cell as IPython does; `shown` is the text that is registered, the cell's own unless given."""
    file = f"<ipython-input-{next(_numbers)}-of-a-test>"
    registered = text if shown is None else shown
    linecache.cache[file] = (len(registered), None, registered.splitlines(keepends=True), file)
    names: dict[str, object] = {"__name__": "__main__"}
    for statement in ast.parse(text, file).body:
        exec(compile(ast.Module([statement], []), file, "exec", dont_inherit=True), names)
    return names


def test_a_cell_may_import_tilejit_and_define_a_kernel():
    kernel = run_cell(CELL)["k"]
    assert isinstance(kernel, tj.Kernel)
    assert "st.global" in kernel.compile(tj.spec(32, tj.float32), target="sm_90a").ptx


def test_another_cells_text_is_refused():
    with pytest.raises(KernelSyntaxError, match="differs from the compiled function"):
        run_cell(CELL, CELL.replace("x * 2", "x * 3"))
