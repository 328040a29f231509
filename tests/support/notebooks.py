"""Notebooks: their cells as a program, run from top to bottom, and what they show as it is stored and compared."""

from __future__ import annotations

import ast
import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from tests.support.pages import PLACE

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "examples" / "guide"

#: a cell's tags: what it shows differs from run to run; what is stored was shown by a GPU; it is a mistake to type
#: checkers, and meant to be
VARIES, GPU, MISTAKE = "varies", "gpu", "mistake"

#: what code hosts show of an output
SHOWN = ("text/plain", "text/html", "text/markdown", "image/svg+xml")

#: (pattern, replacement) for output that differs between runs or machines
UNSTABLE = (
    (re.compile(r"\x1b\[[0-9;]*m"), ""),
    (PLACE, "?"),
    (re.compile(r"\b0x[0-9a-f]{6,}\b"), "0x?"),
    (re.compile(r"\b\d+(\.\d+)?(?= ?(ms|µs|ns)\b)|\b\d+\.\d+(?= ?s\b)|(?<=milliseconds</th><td>)[\d.]+"), "?"),
)

#: notebook → distribution of a package that it needs → the version whose compiler or reports it shows.
#: Type checkers leave these notebooks out, since their packages have no types
NEEDS: dict[str, dict[str, str]] = {
    "15_checking_triton_numba_cuda": {
        "torch": "", "triton": "3.9.", "numba": "0.68.", "numba-cuda": "0.30.", "nvidia-cuda-nvrtc": "13.5.",
    },
}

#: seconds for one cell
LIMIT = 120

#: what every stored notebook says of itself: no version of what ran it last
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def notebooks() -> list[Path]:
    """Those of the guide, in its order."""
    return sorted(GUIDE.glob("*.ipynb"))


def missing(notebook: Path) -> str | None:
    """Return a package that a notebook needs, in a version that it shows, and that isn't installed; None if all are."""
    for package, version in NEEDS.get(notebook.stem, {}).items():
        try:
            found = metadata.version(package)
        except metadata.PackageNotFoundError:
            found = None
        if found is None or not found.startswith(version):
            return f"{package} {version}*" if version else package
    return None


@dataclass(frozen=True)
class Cell:
    """A cell of code, as it is stored. number: in the notebook's order, from 1. outputs: nbformat's mappings."""

    number: int
    source: str
    tags: frozenset[str]
    outputs: tuple[Mapping[str, Any], ...]

    @property
    def shown(self) -> str:
        """What it shows, but for what differs from run to run: nothing of a cell with the tag `varies` or `gpu`."""
        return "" if self.tags & {VARIES, GPU} else "\n".join(stable(part) for part in each_shown(self.outputs))


def each_shown(outputs: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """A heading for each output, and its text; of an error its message, since the traceback is IPython's."""
    for output in outputs:
        kind = output["output_type"]
        if kind == "stream":
            yield f"[{output['name']}]\n{joined(output['text'])}"
        elif kind == "error":
            yield f"[error]\n{output['ename']}: {joined(output['evalue'])}"
        else:
            for mime, text in sorted(output["data"].items()):
                yield f"[{mime}]\n{joined(text)}"


def joined(text: str | list[str]) -> str:
    """Files may hold texts as lists of lines."""
    return text if isinstance(text, str) else "".join(text)


def stable(text: str) -> str:
    for pattern, sign in UNSTABLE:
        text = pattern.sub(sign, text)
    return text


def code_cells(text: str) -> list[Cell]:
    """Of a notebook's file."""
    each = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    return [
        Cell(number, joined(cell["source"]), frozenset(cell["metadata"].get("tags", ())), tuple(cell["outputs"]))
        for number, cell in enumerate(each, 1)
    ]


def prose(text: str) -> str:
    """All that a notebook's file says beside its code."""
    return "\n\n".join(joined(c["source"]) for c in json.loads(text)["cells"] if c["cell_type"] == "markdown")


def program(text: str) -> str:
    """A notebook's file as a file of Python for type checkers, without the cells that are mistakes to them."""
    cells = [cell for cell in code_cells(text) if MISTAKE not in cell.tags]
    return "\n\n".join(f"# cell {cell.number}\n{as_statements(cell.source)}" for cell in cells) + "\n"


def as_statements(source: str) -> str:
    """A cell with its last expression printed, as a notebook shows it; calls are statements in programs too."""
    body = ast.parse(source).body
    if not body or not isinstance(body[-1], ast.Expr) or isinstance(body[-1].value, ast.Call):
        return source
    lines = source.splitlines()
    first, last = body[-1].lineno - 1, body[-1].end_lineno or len(lines)
    return "\n".join([*lines[:first], f"print({ast.unparse(body[-1].value)})", *lines[last:]])


def write_notebooks(folder: Path) -> list[Path]:
    """The programs of notebooks that need only tilejit as files: `01_tour.ipynb` becomes `guide_01_tour.py`."""
    folder.mkdir(parents=True, exist_ok=True)
    for notebook in notebooks():
        if notebook.stem in NEEDS:
            continue
        text = program(notebook.read_text(encoding="utf-8"))
        (folder / f"guide_{notebook.stem}.py").write_text(text, encoding="utf-8")
    return sorted(folder.glob("*.py"))


def executed(text: str, environment: Mapping[str, str]) -> str:
    """A notebook's file after a run from top to bottom in a Python of its own, as it is stored.

    raises: nbclient's CellExecutionError where a cell fails that hasn't the tag `raises-exception`.
    """
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.reads(text, as_version=4)
    client = NotebookClient(notebook, timeout=LIMIT, resources={"metadata": {"path": str(GUIDE)}})
    client.execute(env=dict(environment))
    return canonical(nbformat.writes(notebook))


def blessed(stored: str, run: str, on_a_gpu: bool) -> str:
    """A notebook's file with what a run shows: in cells with the tag `gpu` if it was on a GPU, else in all others."""
    import nbformat

    notebook, other = (nbformat.reads(text, as_version=4) for text in (run, stored))
    for cell, before in zip(notebook.cells, other.cells, strict=True):
        if cell.cell_type == "code" and (GPU in cell.metadata.get("tags", ())) != on_a_gpu:
            cell.outputs = before.outputs
    return canonical(nbformat.writes(notebook))


def canonical(text: str) -> str:
    """A notebook's file as it is stored: no versions, no times, nothing of standard error, no paths of a machine."""
    import nbformat

    notebook = nbformat.reads(text, as_version=4)
    notebook.metadata = nbformat.from_dict(METADATA)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for number, cell in enumerate(notebook.cells, 1):
        cell.id = f"cell-{number}"
        cell.metadata = nbformat.from_dict({"tags": cell.metadata["tags"]} if cell.metadata.get("tags") else {})
        if cell.cell_type == "code":
            shown = [without_paths(output) for output in cell.outputs if output.get("name") != "stderr"]
            cell.outputs = list(streams_joined(shown))
    return nbformat.writes(notebook).rstrip("\n") + "\n"


def streams_joined(outputs: Iterable[Any]) -> Iterator[Any]:
    """Outputs with what a cell printed as one: into how many messages it was cut is a matter of time."""
    before: Any = None
    for output in outputs:
        if before is not None and before.get("name") == output.get("name") == "stdout":
            before.text += output.text
            continue
        if before is not None:
            yield before
        before = output
    if before is not None:
        yield before


def without_paths(output: Any) -> Any:
    """An output whose texts name files of this tree from its root on."""
    import nbformat

    escaped = [json.dumps(f"{path}/")[1:-1] for path in (GUIDE, ROOT)]
    text = json.dumps(output, ensure_ascii=False)
    for path in escaped:
        text = text.replace(path, "")
    return nbformat.from_dict(json.loads(text))


def differences(name: str, stored: str, run: str) -> str:
    """What cells show in a run that isn't stored, as unified diffs; empty where a notebook is up to date."""
    pairs = zip(code_cells(stored), code_cells(run), strict=True)
    return "\n".join(line for old, new in pairs for line in of_cell(name, old, new))


def of_cell(name: str, old: Cell, new: Cell) -> Iterator[str]:
    place = f"{name} cell {old.number}"
    yield from difflib.unified_diff(
        old.shown.splitlines(), new.shown.splitlines(), f"{place}, stored", f"{place}, this run", lineterm=""
    )
