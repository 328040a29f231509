"""Paths of source files in PTX that Triton compiled from the same source in another folder."""

from __future__ import annotations

import re
from pathlib import Path

from tilejit.sanitize.triton_paths import with_path

PTX = """
.visible .entry kernel()
{
    .loc 3 9 0 // kernels.py:9:0
    .loc 1 4 1, function_name $L__info_string0, inlined_at 3 11 5
}
    .file 1 "/old/project/ops/helpers.py"
    .file 2 "/old/project/gone.py"
    .file 3 "/old/project/ops/kernels.py"
    .file 4 "/lib/triton/language/standard.py"
"""


def files(ptx: str) -> list[str]:
    return re.findall(r'\.file \d "(.*)"', ptx)


def test_a_project_that_has_moved(tmp_path: Path) -> None:
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "helpers.py").touch()
    kernels = str(tmp_path / "ops" / "kernels.py")
    assert files(with_path(PTX, kernels)) == [
        str(tmp_path / "ops" / "helpers.py"), "/old/project/gone.py", kernels, "/lib/triton/language/standard.py"
    ]


def test_a_file_of_another_name() -> None:
    others = files(PTX)
    assert files(with_path(PTX, "/new/copy.py")) == [*others[:2], "/new/copy.py", others[3]]


def test_nothing_changes_without_a_line_of_the_kernel() -> None:
    assert with_path(PTX, "/old/project/ops/kernels.py") == PTX
    only_inlined = PTX.replace("    .loc 3 9 0 // kernels.py:9:0\n", "")
    assert with_path(only_inlined, "/new/ops/kernels.py") == only_inlined
