"""CONTRIBUTING's recipes, carried out on a copy of the package: what they leave out is not needed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tilejit
from tests.support.pages import BLOCK, patched
from tests.support.ptxas import ptxas_path

pytestmark = pytest.mark.integration

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


#: what a new variant's file, line and golden bring
OF_A_VARIANT = {
    "lower/test_every_variant.py": {
        "test_a_variant_answers_ties_with_none_and_does_what_numpy_does",
        "test_some_golden_file_chooses_a_variant",
        "test_a_decent_share_of_the_drawn_operations_is_accepted",
        "test_an_optional_operand_is_carried_out_or_declined_by_its_name",
        "test_what_a_variant_honours_are_optional_operands_of_its_operations",
    },
    "lower/test_golden.py": {"test_the_tile_ir_of_every_golden_file_lowers_to_its_lane_ir"},
}

#: what a new row and its opcode bring
OF_AN_INSTRUCTION = {
    "isa/test_rows.py": {
        "test_a_row_says_what_it_is",
        "test_what_code_generation_and_the_passes_assume_of_a_row_holds",
    },
    "isa/test_simulated.py": {"test_the_simulator_translates_the_row"},
    "isa/test_ptxas.py": {"test_the_ptx_contains_a_row_as_the_table_does"},
    "isa/test_verified.py": {"test_a_rows_own_instruction_is_sound"},
}

#: what says for every row at once
OF_ALL_INSTRUCTIONS = {
    "isa/test_rows.py": {"test_every_row_of_every_topic_is_in_the_table_once"},
    "isa/test_ptxas.py": {
        "test_ptxas_takes_every_row_on_the_oldest_target_and_version_that_have_it",
        "test_ptxas_refuses_every_row_just_below_its_target_and_its_version",
    },
    "isa/test_verified.py": {"test_the_verifier_refuses_every_row_for_a_target_without_it"},
}

COMPLETE = {"test_complete.py": {"test_nothing_is_missing_but_what_needs_not_be_there"}}

#: a file's path in the text before it
PATH = re.compile(r"`([\w/]+\.(?:py|tile))`")


def follow(heading: str, folder: Path) -> None:
    """Does to a copy of the package what the blocks of code under a heading of CONTRIBUTING say.

    A block is for the file whose path comes last in the text before it: a `diff` changes it, any other is its text,
    or its end where there is one. Paths are from the package, those of tests from the repository.
    """
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.split(f"## {heading}\n")[1].split("\n## ")[0]
    before = 0
    for block in BLOCK.finditer(section):
        path = PATH.findall(section[before : block.start()])[-1]
        before = block.end()
        file = folder / path if path.startswith("tests/") else folder / "tilejit" / path
        held = file.read_text(encoding="utf-8") if file.exists() else ""
        if block[1] == "diff":
            file.write_text(patched(held, block[2]), encoding="utf-8")
        else:
            file.write_text(held + ("\n\n" if held else "") + block[2], encoding="utf-8")
    assert before, f"no code under {heading!r}"


def copied(folder: Path) -> Path:
    """A copy of the package and of the tests, without what they have written."""
    ignored = shutil.ignore_patterns("__pycache__", "corpus", ".*")
    shutil.copytree(Path(tilejit.__file__).parent, folder / "tilejit", ignore=ignored)
    shutil.copytree(TESTS, folder / "tests", ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def run(folder: Path, *arguments: str) -> str:
    """What pytest prints in a copy of the package; properties are tried on few examples."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "--tb=short", "--all-cases",
         *arguments],
        cwd=folder, capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": str(folder), "HYPOTHESIS_PROFILE": "few"},
    )
    return done.stdout + done.stderr


def check(folder: Path, *wanted: dict[str, set[str]], keyword: str) -> None:
    """Run what has the keyword in some files of tests: just these tests run, and all of them pass.

    Where there is no ptxas, what it says is left out.
    """
    files = sorted({file for tests in wanted for file in tests if file != "isa/test_ptxas.py" or ptxas_path()})
    printed = run(folder, "-k", keyword, *(f"tests/{file}" for file in files))
    made: dict[str, set[str]] = {}
    for outcome, test in re.findall(r"^(PASSED|FAILED|ERROR) tests/(\S+?::\w+)", printed, re.MULTILINE):
        made.setdefault(outcome, set()).add(test)
    names = {f"{file}::{test}" for tests in wanted for file in files for test in tests.get(file, ())}
    assert made == {"PASSED": names}, printed


def test_the_recipes_name_all_that_is_needed(tmp_path: Path) -> None:
    """All in one copy: of each what it brings runs and passes, and no more."""
    folder = copied(tmp_path)
    for what in ("an operation", "a variant", "an instruction"):
        follow(f"How to add {what}", folder)
    run(folder, "--bless", "-k", "within_demo", "tests/lower/test_golden.py")
    wanted = (OF_AN_OPERATION, OF_A_VARIANT, OF_AN_INSTRUCTION, OF_ALL_INSTRUCTIONS, COMPLETE)
    names = ("softplus_demo", "within_demo", "szext", "every_row", "nothing_is_missing")
    check(folder, *wanted, keyword=" or ".join(names))
