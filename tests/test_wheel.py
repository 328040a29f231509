"""The wheel: it holds the whole package, says what an index shows, and alone runs the quickstart."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from email import message_from_bytes
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest

import tilejit as tj

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parent.parent
QUICKSTART = ROOT / "examples" / "quickstart.py"


def run(*arguments: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """The output of a program that sees only those parts of this tree that are passed to it."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | environment
    ended = subprocess.run(arguments, cwd=cwd, env=variables, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel from the source distribution, as `python -m build` makes both."""
    absent = [name for name in ("build", "hatchling", "pip") if find_spec(name) is None]
    if absent:
        pytest.skip(f"no {' and no '.join(absent)}: pip install -e .[test]")
    folder = tmp_path_factory.mktemp("dist")
    # what is installed here builds it, without a network
    build = (sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    run(*build, PYTHONPATH=os.environ.get("PYTHONPATH", ""))
    (path,) = folder.glob("*.whl")
    return path


def test_it_holds_the_whole_package(wheel: Path) -> None:
    sources = (path for path in (ROOT / "tilejit").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    package = {path.relative_to(ROOT).as_posix() for path in sources}
    assert {"tilejit/py.typed", "tilejit/__init__.pyi"} <= package
    held = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert held == package


def test_it_is_for_every_python_and_machine_and_nothing_in_it_is_compiled(wheel: Path) -> None:
    assert wheel.name == f"tilejit-{tj.__version__}-py3-none-any.whl"
    archive = ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/WHEEL"))
    headers = message_from_bytes(archive.read(name))
    assert headers.get_all("Tag") == ["py3-none-any"] and headers["Root-Is-Purelib"] == "true"
    # whatever it is called: what isn't text isn't source
    contents = {name: archive.read(name) for name in archive.namelist()}
    assert not [name for name, content in contents.items() if not _is_text(content)]


def _is_text(content: bytes) -> bool:
    try:
        return "\0" not in content.decode("utf-8")
    except UnicodeDecodeError:
        return False


def test_pytest_finds_its_plugin(wheel: Path) -> None:
    archive = ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith("/entry_points.txt"))
    assert "[pytest11]\ntilejit.pytest_plugin = tilejit.pytest_plugin" in archive.read(name).decode()


def test_it_says_what_an_index_shows(wheel: Path) -> None:
    archive = ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
    headers = message_from_bytes(archive.read(name))
    assert (headers["Name"], headers["Version"]) == ("tilejit", tj.__version__)
    assert all(headers[key] for key in ("Summary", "Keywords", "Author"))
    assert headers["License-Expression"] == "Apache-2.0"
    assert headers["License-File"] == "LICENSE" and name.replace("METADATA", "licenses/LICENSE") in archive.namelist()
    assert "Typing :: Typed" in headers.get_all("Classifier", [])
    # an index splits each at its first comma
    links = dict(link.split(", ", 1) for link in headers.get_all("Project-URL", []))
    assert set(links) == {"PTX ISA", "llvmlite", "CUDA Python", "Apache TVM"}
    assert all(address.startswith("https://") for address in links.values())
    page = headers.get_payload(decode=True)
    assert isinstance(page, bytes) and page.decode().strip() == (ROOT / "README.md").read_text("utf-8").strip()


def test_it_says_all_that_the_project_says(wheel: Path) -> None:
    said = pytest.importorskip("tomllib").loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    archive = ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
    headers = message_from_bytes(archive.read(name))
    assert headers["Summary"] == said["description"]
    assert headers["Keywords"].split(",") == sorted(said["keywords"])
    assert headers.get_all("Classifier") == said["classifiers"]
    assert headers.get_all("Project-URL") == [f"{label}, {address}" for label, address in said["urls"].items()]
    assert headers["Requires-Python"] == said["requires-python"]


def test_a_clean_environment_with_it_runs_the_quickstart_and_its_plugin(wheel: Path, tmp_path: Path) -> None:
    """Only the dependencies come from here: a `.pth` file adds their folder, without the `.pth` files in it.

    The plugin is there once, also where `-p` asks for what pytest has found.
    """
    environment, programs = tmp_path / "environment", tmp_path / "programs"
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    python = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel)
    packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (packages / "dependencies.pth").write_text("\n".join(sorted(folders)), encoding="utf-8")

    programs.mkdir()
    shutil.copy(QUICKSTART, programs)
    where = run(python, "-c", "import tilejit; print(tilejit.__file__)", cwd=programs)
    assert Path(where.strip()).is_relative_to(packages)
    printed = run(python, QUICKSTART.name, cwd=programs, TILEJIT_DEVICE="sim")
    assert "largest error" in printed
    (programs / "test_it.py").write_text("import tilejit as tj\n\ndef test():\n    assert tj.device() == 'sim:sm_80'\n")
    pytest_there = (python, "-m", "pytest", "-p", "no:cacheprovider", "-p", "tilejit.pytest_plugin")
    assert "1 passed" in run(*pytest_there, "--tilejit-device", "sim:sm_80", cwd=programs)
