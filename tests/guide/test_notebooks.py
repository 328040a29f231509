"""The guide: each notebook runs from top to bottom without a GPU, and shows what it has stored.

`pytest tests/guide --bless` stores what this run shows. Cells with the tag `gpu` keep what they have stored; with
`-m gpu`
they alone get what a run on a GPU shows.
"""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.notebooks import (
    GUIDE,
    NEEDS,
    ROOT,
    SHOWN,
    blessed,
    canonical,
    code_cells,
    differences,
    executed,
    missing,
    notebooks,
    program,
    prose,
    stable,
)

pytestmark = pytest.mark.integration

#: notebooks that take longer than a default run has time for: `-m long` runs them
LONG = {"06_why_is_this_copy_slow", "10_testing_with_hypothesis", "12_several_gpus", "14_roles_and_rings"}

#: characters of one output, and of a notebook's file: code hosts show no more, and no reader gets that far
LONGEST_OUTPUT, LONGEST_FILE = 60_000, 600_000

NOTEBOOKS = [
    pytest.param(path, id=path.stem, marks=pytest.mark.long if path.stem in LONG else ()) for path in notebooks()
]
EACH = pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)


def run(path: Path, device: str, home: Path) -> tuple[str, str]:
    """(what is stored, what a run on this device stores)."""
    for package in ("nbclient", "nbformat", "ipykernel"):
        if find_spec(package) is None:
            pytest.skip(f"no {package}")
    lacking = missing(path)
    if lacking is not None:
        pytest.skip(f"no {lacking}: pip install -r tests/sanitize/requirements.txt")
    stored = path.read_text(encoding="utf-8")
    places = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    settings = {"PYTHONPATH": places, "TILEJIT_DEVICE": device, "IPYTHONDIR": str(home), "PYTHONHASHSEED": "0"}
    # how long something takes differs
    settings["TILEJIT_PROGRESS"] = "0"
    return stored, executed(stored, os.environ | settings)


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_a_notebook_runs_and_shows_what_it_has_stored(
    path: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    stored, ran = run(path, "sim", tmp_path)
    different = differences(path.name, stored, ran)
    if request.config.getoption("--bless"):
        if different or canonical(stored) != stored:
            path.write_text(blessed(stored, ran, on_a_gpu=False), encoding="utf-8")
        return
    assert not different, f"{different}\n`pytest tests/guide --bless` stores this"
    assert canonical(stored) == stored, f"{path.name} isn't as `pytest tests/guide --bless` stores it"


# kernels of other packages run on the simulator only
@pytest.mark.gpu
@pytest.mark.parametrize("path", [case for case in NOTEBOOKS if case.id not in NEEDS])
def test_a_notebook_runs_on_a_gpu(path: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    stored, ran = run(path, "cuda", tmp_path)
    if request.config.getoption("--bless"):
        path.write_text(blessed(stored, ran, on_a_gpu=True), encoding="utf-8")


@EACH
def test_what_is_stored_is_what_code_hosts_show(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text) < LONGEST_FILE
    for cell in code_cells(text):
        place = f"{path.name} cell {cell.number}"
        assert len(cell.shown) < LONGEST_OUTPUT, place
        for output in cell.outputs:
            assert set(output.get("data", ())) <= set(SHOWN), place
        assert cell.source.isascii() or not re.search(r"^\s*[%!]", cell.source), f"{place} has a magic"


@EACH
def test_a_notebook_has_a_title_and_checks_what_it_says(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert prose(text).startswith("# "), f"{path.name} has no title"
    assert re.search(r"\bassert\b|assert_allclose", program(text)), f"{path.name} claims and doesn't check"


def test_the_guides_page_lists_every_notebook_by_its_title() -> None:
    page = (GUIDE / "README.md").read_text(encoding="utf-8")
    titles = {path.name: prose(path.read_text(encoding="utf-8")).splitlines()[0][2:] for path in notebooks()}
    listed = {name: title for title, name in re.findall(r"^\d+\. \[(.*)\]\((.*\.ipynb)\)", page, re.MULTILINE)}
    assert listed == titles and list(listed) == sorted(listed)
    assert "examples/guide/" in (ROOT / "README.md").read_text(encoding="utf-8")


def notebook(*sources: str, shows: str = "", tags: tuple[str, ...] = ()) -> str:
    """A notebook's file with these cells of code; the last one has stored that it prints something."""
    import nbformat
    from nbformat import v4

    cells = [v4.new_code_cell(source) for source in sources]
    cells[-1].outputs = [v4.new_output("stream", name="stdout", text=shows)]
    cells[-1].metadata["tags"] = list(tags)
    return str(nbformat.writes(v4.new_notebook(cells=cells)))


def test_an_output_that_is_out_of_date_is_named() -> None:
    pytest.importorskip("nbformat")
    now = notebook("x = 1", "print(x)", shows="1\n")
    assert differences("a.ipynb", now, now) == ""
    assert "a.ipynb cell 2, stored" in differences("a.ipynb", notebook("x = 1", "print(x)", shows="2\n"), now)
    for tag in ("varies", "gpu"):
        assert differences("a.ipynb", *(notebook("print(x)", shows=text, tags=(tag,)) for text in "12")) == ""


def test_what_a_gpu_showed_is_stored_by_a_run_on_a_gpu_alone() -> None:
    pytest.importorskip("nbformat")
    for tags, on_a_gpu in ((("gpu",), True), ((), False)):
        stored, ran = (notebook("x = 1", "print(x)", shows=text, tags=tags) for text in ("before\n", "after\n"))
        assert "after" in blessed(stored, ran, on_a_gpu) and "before" not in blessed(stored, ran, on_a_gpu)
        assert blessed(stored, ran, not on_a_gpu) == canonical(stored)


def test_what_differs_from_run_to_run_isnt_compared() -> None:
    assert stable("in 1.98s") == stable("in 0.30s")
    assert stable("in 12.5 ms") == stable("in 9 ms") and stable("at 0x7f12a4c0") == stable("at 0x55d1aa10")
    assert stable("\x1b[31mred\x1b[0m") == "red" and stable("PTX line 7: %r1") == stable("PTX line 12: %r3")
    assert stable("12 registers") != stable("13 registers")


def test_stored_notebooks_say_nothing_of_the_machine() -> None:
    pytest.importorskip("nbformat")
    text = canonical(notebook("1", shows=f"in {GUIDE}/a.py and {ROOT}/tilejit/jit.py"))
    assert "in a.py and tilejit/jit.py" in text and str(ROOT) not in text
    assert canonical(text) == text
    assert not [path.name for path in notebooks() if str(ROOT) in path.read_text(encoding="utf-8")]


def test_what_a_cell_prints_is_stored_as_one() -> None:
    nbformat = pytest.importorskip("nbformat")
    parts = nbformat.reads(notebook("1", shows="a\n"), as_version=4)
    (cell,) = parts.cells
    cell.outputs += [*nbformat.from_dict([dict(cell.outputs[0], text="b\n"), dict(cell.outputs[0], name="stderr")])]
    (stored,) = code_cells(canonical(nbformat.writes(parts)))
    assert stored.shown == "[stdout]\na\nb\n"


def test_type_checkers_get_the_cells_as_one_program() -> None:
    pytest.importorskip("nbformat")
    assert program(notebook("x = 1\nx", "y = x")) == "# cell 1\nx = 1\nprint(x)\n\n# cell 2\ny = x\n"
    assert program(notebook("f(1)", "tj.laod", tags=("mistake",))) == "# cell 1\nf(1)\n"
