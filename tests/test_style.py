"""The linter and the type checker run as tests, so that what CONTRIBUTING asks for stays true."""

import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parent.parent

Trees = dict[Path, ast.Module]


def tool(name: str) -> str:
    """The program beside this Python, else on the path."""
    return shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name) or ""


def check(name: str, *arguments: str) -> None:
    if not tool(name):
        pytest.skip(f"{name} is not installed: pip install -e .[test]")
    run = subprocess.run([tool(name), *arguments], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, f"{name} {' '.join(arguments)}\n{run.stdout}{run.stderr}"


def test_ruff_finds_nothing() -> None:
    check("ruff", "check", "--no-cache", "tilejit", "tests", "examples")


def test_mypy_finds_nothing() -> None:
    numpy = tuple(map(int, version("numpy").split(".")[:2]))
    if numpy < (2, 3):
        pytest.skip("stubs of NumPy before 2.3 ask for the type arguments of each `ndarray`")
    # stubs since 2.5 are written for Python 3.12
    options = ("--python-version", f"{sys.version_info[0]}.{sys.version_info[1]}") if numpy >= (2, 5) else ()
    # its cache in .mypy_cache makes the next run take 1 s instead of 15
    check("mypy", *options)


#: the names at the top of the repository, except those that begin with a dot
TOP = {
    "tilejit", "examples", "tests", "pyproject.toml", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE",
}


def test_nothing_else_is_at_the_top() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout of git's")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    # what was deleted is still listed until it is committed
    names = {line.partition("/")[0] for line in listed.splitlines() if (ROOT / line).exists()}
    assert names - {".ci", ".gitignore"} == TOP


FILES = sorted((ROOT / "tilejit").rglob("*.py"))


@pytest.fixture(scope="module")
def trees() -> Iterator[Trees]:
    """Every file of the package, parsed once."""
    parsed = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
    yield parsed
    # for one module they needn't stay
    parsed.clear()


#: classes of one name in several files, and why: each variant has its `Plan`; a `Kernel` is the user's, and its IR;
#: `Region`, `Scalar` and `Tile` are annotations, and the compiler's records of their values
SEVERAL = {"Barrier", "NamedBarrier", "Plan", "Kernel", "Region", "Ring", "RingStep", "Scalar", "Tile"}


#: errors that users are to mend
REFUSALS = {
    "DeviceError", "DispatchError", "KernelSyntaxError", "KernelTypeError", "LaunchError", "LayoutError",
    "ResourceError",
}


def test_there_are_no_rulers() -> None:
    ruler = re.compile(r"^\s*# ?(-{3,}|={3,}|#{3,})")
    rulers = [
        f"{path.relative_to(ROOT)}:{number}"
        for folder in ("tilejit", "tests", "examples")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if ruler.match(line)
    ]
    assert not rulers, f"a file that wants rulers wants to be two: {', '.join(rulers)}"


def test_who_catches_everything_says_why(trees: Trees) -> None:
    """By a comment as the first line of the handler."""
    silent = []
    for path, tree in trees.items():
        lines = path.read_text(encoding="utf-8").splitlines()
        for node in ast.walk(tree):
            if not isinstance(node, ast.ExceptHandler):
                continue
            caught = {ast.unparse(each) for each in ast.walk(node.type)} if node.type is not None else {"BaseException"}
            if caught & {"Exception", "BaseException"} and not lines[node.lineno].strip().startswith("#"):
                silent.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not silent, f"narrow it, or say why anything may come there: {', '.join(silent)}"


def test_every_refusal_says_what_to_do(trees: Trees) -> None:
    """By a hint. Those of lowering are reasons of a refusal that has one; the simulator's are of any compiler's PTX."""
    silent = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, tree in trees.items()
        if not {"lower", "simulator"} & set(path.relative_to(ROOT).parts)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in REFUSALS
        and "hint" not in {keyword.arg for keyword in node.keywords}
    ]
    assert not silent, f"say what to do: {', '.join(silent)}"


def test_no_named_tuple_has_another_base(trees: Trees) -> None:
    """Python 3.10 refuses the class."""
    bases = [
        (f"{path.relative_to(ROOT)}:{node.lineno}", [ast.unparse(base) for base in node.bases])
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]
    assert not [place for place, names in bases if "NamedTuple" in names and len(names) > 1]


def test_a_class_name_means_one_thing(trees: Trees) -> None:
    homes: dict[str, list[str]] = {}
    for path, tree in trees.items():
        if "simulator" in path.parts:  # it shares no words with the compiler, so that it shares no mistakes
            continue
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name not in SEVERAL:
                homes.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    twice = {name: files for name, files in homes.items() if len(files) > 1}
    assert not twice, f"rename one of each: {twice}"


#: what plain English avoids -> what to write instead. Both parts of a name count as words: `is_behind` is a hit
GLOSSARY = {
    "behind": "after",
    "in front of": "before",
    "whoever|nobody|whom": "name the waiter, the reader, the caller",
    "who (is|are|was|has|have|had|does|did|can|may|must|will|would|only|waits?|asks?|reads?|writes?|wrote|wants?|needs?"
    "|comes?|calls?|uses?|knows?|holds?|owns?|takes?|gets?|makes?|loads?|stores?|arrives?|starts?|started)":
        "name the waiter, the reader, the caller",
    "so many": "say how many: `count` elements, n registers per thread",
    "told( of)?": "reported, recorded, distinguished",
    "stands?|standing|stood|stand ins?": "is, comes, represents",
    "alike": "say what is equal",
    "besides": "also, except",
    "at hand|as ever|by itself|of such|of its own accord": "leave it out",
    "hang together": "form a connected component",
    "comes? round": "wraps",
    "found out": "computed",
    "(computed|found out|written) again": "recomputed, cloned, reused",
    "goes by": "uses",
    "take[sn]? part|taking part": "is active, participates",
    "meets?|meeting|meetings|met": "synchronize, join, combine, overlap",
    "none where": "None if",
    "there (isn't|aren't)": "does not exist",
    "usual way": "slow path",
    "hardware's numbers": "special registers",
    "where it leads": "offset, address",
    "is of all": "is collective",
    "the house": "leave it out",
    "(each|every|one|first|last|next|per|this|other|another|a|no) turns?|turns? of": "iteration",
}

#: (file, word) that stay, and why
EXCEPTIONS = {
    ("tests/test_style.py", "*"): "the table itself",
    ("README.md", "who want"): "of engineers, not of code",
    ("tilejit/ir/checks/aliases.py", "met"): "part of a name in tile IR",
}

#: what separates the words of a phrase, in names and across the lines of a comment
BETWEEN = r"[\s_#]+"
PHRASES = re.compile(rf"(?<![a-z])(?:{'|'.join(GLOSSARY)})(?![a-z])".replace(" ", BETWEEN))


def hits(name: str, text: str) -> Iterator[str]:
    """The words of the glossary in a text, as `file:line: word (what to write)`."""
    for match in PHRASES.finditer(text.lower()):
        word = re.sub(BETWEEN, " ", match[0])
        if not {(name, word), (name, "*")} & EXCEPTIONS.keys():
            better = next(better for phrase, better in GLOSSARY.items() if re.fullmatch(phrase, word))
            yield f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {word} ({better})"


def prose(path: Path) -> str:
    """A file's text; of a notebook, the sources of its cells."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        return "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
    return text


#: part of the repository -> the kinds of files that the glossary applies to
WRITTEN = {"tilejit": (".py", ".pyi", ".md"), "examples": (".py", ".md", ".ipynb"), "tests": (".py", ".md")}


@pytest.mark.parametrize("part", [*WRITTEN, "README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_glossary(part: str) -> None:
    paths = sorted((ROOT / part).rglob("*")) if part in WRITTEN else [ROOT / part]
    texts = (path for path in paths if path.suffix in WRITTEN.get(part, (".md",)))
    found = [hit for path in texts for hit in hits(path.relative_to(ROOT).as_posix(), prose(path))]
    assert not found, "write plainly:\n" + "\n".join(found)


def test_glossary_has_few_exceptions() -> None:
    assert len(EXCEPTIONS) <= 10
    for name, word in EXCEPTIONS:
        text = re.sub(BETWEEN, " ", prose(ROOT / name)).lower()
        assert word == "*" or word in text, f"{name} has no {word!r} any more: remove the exception"


def test_few_docstrings_open_with_a_question_word() -> None:
    opener = re.compile(r"^\s*r?\"\"\"(What|Where|Which|Who|Whether)\b", re.MULTILINE)
    count = sum(len(opener.findall(path.read_text(encoding="utf-8"))) for path in FILES)
    assert count <= 60, f"{count} docstrings: write Return the ..., True if ..., or a noun phrase"
