"""The reference page is what the records and docstrings say, and names all that there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tilejit as tj
from tests.types import subset
from tests.types.llms import LLMS, llms
from tests.types.reference import HOST, MEMBERS, MODULES, REFERENCE, RESULTS, anchors, reference, without_code
from tilejit.environment import VARIABLES
from tilejit.frontend.language import Intrinsic
from tilejit.frontend.words import Namespace, ScopeNamespace, intrinsics
from tilejit.runtime.store import DEFAULT_LIMIT

pytestmark = pytest.mark.integration

PACKAGE = Path(tj.__file__).parent


def names() -> set[str]:
    """All names that users write after `tj.`."""
    every = set(tj.__all__)
    for name, word in intrinsics().items():
        if isinstance(word, Intrinsic):
            every.add(name)
        elif isinstance(word, Namespace):
            every |= {f"{name}.{member}" for member in dir(word)}
        elif name == word.scope.name:
            every.add(name)
    return every


def need(text: str) -> None:
    """The page has every name."""
    missing = {name for name in names() if not re.search(rf"\btj\.{re.escape(name)}\b", text)}
    called: set[str] = set()
    for scope in (word for word in intrinsics().values() if isinstance(word, ScopeNamespace)):
        called |= set(dir(scope))
    missing |= {name for name in called if not re.search(rf"\btj\.(\w+\.)?{name}\(", text)}
    missing |= {variable.name for variable in VARIABLES if variable.name not in text}
    assert not missing, f"the reference lacks {', '.join(sorted(missing))}: pytest tests/types --bless writes it"


def test_the_reference_is_what_the_records_say(request: pytest.FixtureRequest) -> None:
    made = reference()
    if request.config.getoption("--bless"):
        REFERENCE.write_text(made, encoding="utf-8")
    held = REFERENCE.read_text(encoding="utf-8")
    need(held)
    assert held == made, "pytest tests/types --bless writes the reference anew"


def test_the_page_for_language_models_is_what_the_records_say(request: pytest.FixtureRequest) -> None:
    made = llms()
    if request.config.getoption("--bless"):
        LLMS.write_text(made, encoding="utf-8")
    held = LLMS.read_text(encoding="utf-8")
    missing = {name for name in names() if not re.search(rf"\b{re.escape(name)}\b", held)}
    assert not missing, f"the page lacks {', '.join(sorted(missing))}"
    assert held == made, "pytest tests/types --bless writes the page anew"
    links = re.findall(r"^- \[.*?\]\((.*?)\)", held, re.MULTILINE)
    assert len(links) > 20 and all((LLMS.parent / link).exists() for link in links)
    # one line for each name, and no more than a model reads at once
    assert len(held) < 30_000


def test_a_name_that_is_forgotten_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tj, "__all__", [*tj.__all__, "forgotten"])
    with pytest.raises(AssertionError, match="the reference lacks forgotten"):
        need(reference())


@pytest.mark.parametrize("code", [code for _, code in subset.WORKS])
def test_python_that_the_page_lists_compiles(code: str) -> None:
    assert ".entry" in subset.compiled(code).ptx


@pytest.mark.parametrize("code", [code for _, code in subset.REFUSED])
def test_python_that_the_page_refuses_has_a_remedy(code: str) -> None:
    assert subset.remedy(code)


def test_every_module_with_public_names_has_a_section() -> None:
    listed = [module for modules in HOST.values() for module in modules]
    assert {*listed, "errors"} == set(tj._PUBLIC) and len(listed) == len(set(listed))


def test_every_member_that_is_listed_exists() -> None:
    classes = {getattr(tj, name): members for name, members in MEMBERS.items()} | RESULTS
    # a field without a default is no attribute of the class, but is in its annotations
    listed = ((cls, name) for cls, members in classes.items() for name in members)
    assert all(hasattr(cls, name) or name in cls.__annotations__ for cls, name in listed)
    assert all(module.startswith("tilejit.") for module in MODULES)


def test_links_lead_to_headings() -> None:
    text = without_code(REFERENCE.read_text(encoding="utf-8"))
    headings = anchors(re.findall(r"^#+ (.*)$", text, re.MULTILINE))
    links = re.findall(r"\]\(#(.*?)\)", text)
    assert set(links) <= set(headings) and len(links) > 100
    assert len(set(links)) == len(links) and len(set(headings)) == len(headings)


def test_every_environment_variable_is_recorded() -> None:
    """No name is read that has no record, and none has a record that nothing reads."""
    read: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.name != "environment.py" and "environ" in text:
            read |= set(re.findall(r'environ(?:ment)?\.get\(\s*"(\w+)"', text))
    # what programs of terminals say, and Python's own
    read -= {"TERM", "PYTHONPATH", "PYTHONBREAKPOINT"}
    assert read == {variable.name for variable in VARIABLES}
    (limit,) = (v.unset for v in VARIABLES if v.name == "TILEJIT_CACHE_MAXSIZE")
    assert limit == f"{DEFAULT_LIMIT >> 20} MiB"
