"""The planted faults fit the code: each names a line that is in its file once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import tilejit
from tests.faults.planted import FAULTS

PACKAGE = Path(tilejit.__file__).parent


def test_each_fault_changes_a_line_that_its_file_has_once() -> None:
    for fault in FAULTS:
        text = fault.applied((PACKAGE / fault.file).read_text())
        compile(text, fault.file, "exec")


def test_each_folder_of_the_package_has_two_faults() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()} | {""}
    per_folder = Counter(fault.file.rpartition("/")[0].partition("/")[0] for fault in FAULTS)
    assert set(per_folder) == folders
    assert min(per_folder.values()) >= 2
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) == 36
