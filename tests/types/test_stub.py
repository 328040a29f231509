"""`tilejit/__init__.pyi` is what the records say, and names all that there is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tilejit as tj
from tests.types.stub import STUB, stub
from tilejit.frontend import annotations
from tilejit.frontend.annotations import members
from tilejit.frontend.intrinsics import HANDLERS
from tilejit.frontend.methods import METHODS
from tilejit.frontend.words import intrinsics, words

pytestmark = pytest.mark.integration

PACKAGE = Path(tj.__file__).parent


def defined(body: list[ast.stmt]) -> set[str]:
    """The names that statements define for a type checker."""
    names: set[str] = set()
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            names.add(ast.unparse(node.target))
        elif isinstance(node, ast.Assign):
            names |= {ast.unparse(target) for target in node.targets}
        elif isinstance(node, ast.ImportFrom) and node.level:
            names |= {alias.asname for alias in node.names if alias.asname}
    return names


def need_public(text: str) -> None:
    """Every public name is defined in the stub."""
    missing = {*tj.__all__, *intrinsics()} - defined(ast.parse(text).body)
    assert not missing, f"the stub lacks {', '.join(sorted(missing))}: pytest tests/types --bless writes it"


def test_the_package_is_marked_as_typed() -> None:
    assert (PACKAGE / "py.typed").exists()


def test_the_stub_is_what_the_records_say(request: pytest.FixtureRequest) -> None:
    made = stub()
    if request.config.getoption("--bless"):
        STUB.write_text(made, encoding="utf-8")
    need_public(STUB.read_text(encoding="utf-8"))
    assert STUB.read_text(encoding="utf-8") == made, "pytest tests/types --bless writes the stub anew"


def test_all_is_sorted_and_each_of_its_names_exists() -> None:
    assert tj.__all__ == sorted(set(tj.__all__)) and all(hasattr(tj, name) for name in tj.__all__)


def test_each_method_that_type_checkers_offer_has_a_translation() -> None:
    kinds = [n for n, kind in vars(annotations).items() if getattr(kind, "__module__", "") == annotations.__name__]
    kinds.remove("members")
    offered = {name for kind in kinds for name in members(kind) if callable(getattr(getattr(annotations, kind), name))}
    assert offered == set(METHODS)
    assert members("Tensor") == members("Region")
    # a part of each row is gathered, an element is one of its tile's or memory's
    assert set(members("Gather")) < set(members("Region")) & set(members("Tile"))


def test_every_call_that_kernels_handle_is_a_word_and_the_other_way_round() -> None:
    # a loop reads `tj.static_range`
    assert {word.name for word in words()} - {"static_range"} == set(HANDLERS)


def test_a_name_that_is_forgotten_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tj, "__all__", [*tj.__all__, "forgotten"])
    with pytest.raises(AssertionError, match="the stub lacks forgotten"):
        need_public(STUB.read_text(encoding="utf-8"))
