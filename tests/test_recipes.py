"""CONTRIBUTING's recipes, carried out on a copy of the package: what they leave out is not needed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import tilejit

ROOT = Path(tilejit.__file__).parent.parent
TESTS = Path(__file__).parent

#: what a new elementwise operation's record brings: test file -> tests that run for it
OF_AN_OPERATION = {
    # the frontend, constant folding, the list of operations
    "ops/test_records.py": {
        "test_a_record_says_what_its_kind_needs",
        "test_the_frontend_has_it_on_scalars_on_tiles_and_on_every_scope",
        "test_constants_fold_where_every_machine_gives_numpys_bits_and_nowhere_else",
        "test_it_is_a_tile_operation_and_has_a_line_in_the_list_of_operations",
    },
    "ops/test_elementwise.py": {"test_references_give_the_type_that_the_rule_says"},
    # lowering, by each variant
    "lower/test_emitted_elementwise.py": {"test_every_operation_runs_on_registers"},
    "lower/test_elementwise_memory.py": {"test_every_operation_runs_on_memory"},
    # accuracy, special values, symmetry
    "codegen/test_math_accuracy.py": {
        "test_float32_errs_by_no_more_than_its_record_says",
        "test_float64_errs_by_no_more_than_its_record_says",
        "test_no_record_says_more_than_the_language_promises",
        "test_the_numpy_meaning_is_the_true_value",
        "test_the_order_of_neighbouring_ranges_is_kept",
    },
    "codegen/test_math_special_values.py": {
        "test_special_arguments_have_the_values_of_the_record_and_numpy_the_same"
    },
    # from Python to PTX, on the simulator
    "kernels/test_property_elementwise.py": {"test_an_operation_gives_what_numpy_gives_on_special_values_too"},
}


def code_block(heading: str) -> str:
    """The first block of Python under a heading of CONTRIBUTING."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.split(f"## {heading}\n")[1].split("\n## ")[0]
    match = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert match is not None, f"no code under {heading!r}"
    return match[1]


def copied(folder: Path) -> Path:
    """A copy of the package and of the tests, without what they have written."""
    ignored = shutil.ignore_patterns("__pycache__", "corpus", ".*")
    shutil.copytree(Path(tilejit.__file__).parent, folder / "tilejit", ignore=ignored)
    shutil.copytree(TESTS, folder / "tests", ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def outcomes(folder: Path, files: list[str], keyword: str) -> dict[str, set[str]]:
    """Outcome -> the tests ("file::function") that had it, of those whose name has the keyword."""
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "-k", keyword, "--tb=short"]
    done = subprocess.run(
        [*command, *(f"tests/{f}" for f in files)], cwd=folder, capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": str(folder)},
    )  # fmt: skip
    made: dict[str, set[str]] = {}
    for outcome, file, function in re.findall(r"^(PASSED|FAILED|ERROR) tests/(\S+?)::(\w+)", done.stdout, re.MULTILINE):
        made.setdefault(outcome, set()).add(f"{file}::{function}")
    assert made.keys() == {"PASSED"}, done.stdout + done.stderr
    return made


def test_an_elementwise_operation_is_one_record(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    with (folder / "tilejit/ops/elementwise/logarithm.py").open("a", encoding="utf-8") as module:
        module.write("\n\n" + code_block("How to add an operation"))
    wanted = {f"{file}::{function}" for file, functions in OF_AN_OPERATION.items() for function in functions}
    assert outcomes(folder, list(OF_AN_OPERATION), "softplus_demo")["PASSED"] == wanted
