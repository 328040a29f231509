"""Imports go upwards in the table of CONTRIBUTING only, inside functions too."""

import ast
import sys
from functools import cache
from pathlib import Path

import pytest

import tilejit

PACKAGE = Path(tilejit.__file__).parent

BASE = {
    "errors", "source", "dtypes", "target", "scopes", "remember", "dataclass", "environment",
    "constants", "fast_unique", "progress", "svg", "wording", "html_tables", "gc_pause", "forks", "files", "callers",
    "nibbles",
}
COMPILER = BASE | {"layout", "isa", "ir", "ops"}

#: part of the package -> the parts that it may import
MAY_IMPORT: dict[str, set[str]] = {
    **dict.fromkeys(BASE, BASE),
    "layout": BASE,
    "isa": BASE | {"layout"},
    # the tables of operations are plain data and NumPy; the IR's verifier and constructors read them
    "ops": BASE | {"layout", "isa"},
    "ir": BASE | {"layout", "isa", "ops"},
    "frontend": COMPILER,
    "lower": COMPILER,
    "codegen": COMPILER | {"executable"},
    # what a launch needs of what the compiler made: the runtime knows no more of it
    "executable": COMPILER,
    # verdicts and counts as text: `Compiled.explain()` answers with it
    "explanation": COMPILER | {"executable"},
    # makes it of a compilation
    "explain_data": COMPILER | {"lower", "codegen", "compiled", "explanation"},
    "compiled": COMPILER | {"executable", "lower", "codegen", "explanation", "explain_data"},
    "pipeline": COMPILER | {"frontend", "lower", "codegen", "executable", "compiled"},
    "simulator": {"errors", "dataclass", "fast_unique", "progress", "html_tables", "gc_pause", "forks"},
    "runtime": COMPILER | {"frontend", "executable", "explanation", "compiled", "pipeline", "simulator"},
    "launches": COMPILER | {"frontend", "compiled", "runtime"},
    "sanitize": BASE | {"simulator"},
}
ABOVE = (
    "jit", "ahead", "precompile", "tuning", "testing", "kernels", "pytest_plugin", "commands", "__main__", "__init__",
)
ALL = set(MAY_IMPORT) | set(ABOVE)
MAY_IMPORT |= dict.fromkeys(ABOVE, ALL)

#: part of the IR -> the parts of the IR that it may import
IN_IR: dict[str, set[str]] = {
    "values": set(),
    "params": {"values"},
    "placements": set(),
    "nodes": {"values", "params", "placements"},
    "types": set(),
    "watched": set(),
    "allocation": set(),
    "clusters": set(),
    "walk": {"nodes"},
    "names": {"nodes", "walk"},
    "arithmetic": {"nodes", "walk"},
    "rewriting": {"nodes", "walk", "arithmetic"},
    "combine": {"nodes", "arithmetic"},
    "text": {"values", "nodes", "params", "placements", "walk", "combine"},
    "analyses": {"nodes", "walk", "names", "arithmetic"},
    "checks": {"nodes", "watched", "params", "walk", "arithmetic", "analyses", "text"},
    "verify": {"values", "nodes", "params", "placements", "walk", "arithmetic", "combine"},
}

#: what draws progress where it is installed
_PROGRESS = ("IPython", "tqdm")

#: packages of others -> the files that may import them
ONLY = {
    "llvmlite": lambda path: path.parts[0] == "codegen",
    "cuda": lambda path: path.parts == ("sanitize", "for_cuda.py")
    or (path.parts[0] == "runtime" and path.name.startswith("cuda")),
    "hypothesis": lambda path: path.parts[0] == "testing",
    "pytest": lambda path: path.name == "pytest_plugin.py" or path.parts == ("sanitize", "for_pytest.py"),
    "torch": lambda path: path.parts[0] == "sanitize" and path.name.startswith(("torch_", "for_triton")),
    "triton": lambda path: path.parts[0] == "sanitize" and path.name in ("for_triton.py", "versions.py"),
    "numba": lambda path: path.parts[0] == "sanitize" and path.name in ("for_numba.py", "numba_driver.py"),
    "platformdirs": lambda path: path.parts == ("runtime", "store.py"),
    **dict.fromkeys(_PROGRESS, lambda path: path.parts == ("progress.py",)),
    # six methods a class, compiled at import: half a second where nothing is cached
    "dataclasses": lambda path: path.name == "dataclass.py",
}
THIRD_PARTY = {
    "numpy", "ml_dtypes", "llvmlite", "cuda", "hypothesis", "pytest", "platformdirs", "torch", "triton", "numba",
    *_PROGRESS,
}

FILES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))


def part_of(path):
    """`runtime` of runtime/cuda.py, `jit` of jit.py."""
    return path.parts[0].removesuffix(".py")


#: part of the package -> its files
OF_PART = {part: [path for path in FILES if part_of(path) == part] for part in sorted(set(map(part_of, FILES)))}

each_part = pytest.mark.parametrize("part", OF_PART)


@cache
def import_statements(path):
    """All of a file's, at any depth."""
    tree = ast.parse((PACKAGE / path).read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]


def imported(path):
    """(line, absolute dotted name) of everything that a file imports, at any depth."""
    package = ["tilejit", *path.parts[:-1]]
    for node in import_statements(path):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        else:
            base = package[: len(package) - node.level + 1] if node.level else []
            base = [*base, *(node.module.split(".") if node.module else [])]
            names = [alias.name for alias in node.names]
            if "*" in names:
                yield node.lineno, "*"
            # `from . import cuda` names a module, `from .cuda import call` a name in one
            yield from ((node.lineno, ".".join([*base, name])) for name in names)


def imports_of(part):
    """(file, line, absolute dotted name) of everything that a part imports."""
    return [(path, line, name) for path in OF_PART[part] for line, name in imported(path)]


@each_part
def test_a_file_imports_only_from_above_its_part(part):
    assert part in MAY_IMPORT, f"{part} is not in the table"
    allowed = MAY_IMPORT[part] | {part}
    for path, line, name in imports_of(part):
        parts = name.split(".")
        if parts[0] == "tilejit" and len(parts) > 1 and parts[1] in ALL:
            assert parts[1] in allowed, f"{path}:{line}: {part} imports {name}"
        elif parts[0] == "tilejit":
            may = part in ("jit", "testing", "kernels", "pytest_plugin", "commands", "__main__")
            assert may, f"{path}:{line}: {part} imports the package's public names"


def test_a_file_of_the_ir_imports_only_from_above_its_topic():
    for path in [path for path in OF_PART["ir"] if path.name != "__init__.py"]:
        topic = path.parts[1].removesuffix(".py")
        for line, name in imported(path):
            parts = name.split(".")
            if parts[:2] == ["tilejit", "ir"]:
                assert parts[2] in IN_IR[topic] | {topic}, f"{path}:{line}: {topic} imports {name}"


@each_part
def test_imports_within_the_package_are_relative(part):
    for path, node in ((file, node) for file in OF_PART[part] for node in import_statements(file)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names.append(node.module)
        if part == "kernels" and names == ["tilejit"]:
            continue  # kernels are written as users write them: with `import tilejit as tj`
        for name in names:
            assert name.split(".")[0] != "tilejit", f"{path}:{node.lineno}: import {name} as `.{name[8:]}`"


@each_part
def test_only_one_part_imports_each_foreign_package_and_none_imports_everything(part):
    for path, line, name in imports_of(part):
        assert name != "*", f"{path}:{line}: import *"
        root = name.split(".")[0]
        if root in ONLY:
            assert ONLY[root](path), f"{path}:{line} imports {name}"
        assert root == "tilejit" or root in THIRD_PARTY or root in sys.stdlib_module_names, f"{path}:{line}: {name}"


def test_every_part_of_the_table_exists():
    assert set(MAY_IMPORT) - set(OF_PART) <= {"testing"}


#: names that a file may take from its own part: with more it can't be read without the others
MOST_FROM_SIBLINGS = 20


@each_part
def test_a_file_takes_few_names_from_its_own_part(part):
    # a table of contents is there to take names
    for path in [path for path in OF_PART[part] if path.name != "__init__.py"]:
        names = {name for _, name in imported(path) if name.startswith(f"tilejit.{part}.")}
        assert len(names) <= MOST_FROM_SIBLINGS, f"{path} takes {len(names)} names from {part}: {sorted(names)}"
