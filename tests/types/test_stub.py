"""`tilejit/__init__.pyi` is what the records say, and names all that there is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tilejit as tj
from tests.types.stub import STUB, stub
from tilejit.frontend import annotations, attributes, barriers
from tilejit.frontend.intrinsics import HANDLERS
from tilejit.frontend.words import intrinsics, words
from tilejit.ops.elementwise import ELEMENTWISE
from tilejit.ops.reduce import REDUCTIONS

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


def test_all_is_literal_and_names_whatever_has_a_home() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    (literal,) = (n.value for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "__all__")
    named, homes = ast.literal_eval(literal), set(tj._HOME)
    assert named == sorted(named)
    assert not homes - set(named), f"__all__ lacks {sorted(homes - set(named))}"
    assert not set(named) - homes, f"no module in _PUBLIC has {sorted(set(named) - homes)}"
    assert all(hasattr(tj, name) for name in named)


def members(cls: type) -> set[str]:
    """What a type checker lets users write after a dot."""
    return {name for name in dir(cls) if not name.startswith("_")}


def test_annotations_have_the_members_that_kernels_have() -> None:
    # a member of any memory is one of its kinds'
    both = members(annotations.Tile) | members(annotations.Region)
    assert both == set(attributes.OF_MEMORY)
    assert members(annotations.Tensor) == members(annotations.Region)
    assert members(annotations.Gather) == set(attributes.OF_ROWS)
    assert members(annotations.Scalar) == set(attributes.OF_SCALAR)
    assert members(annotations.Barrier) == set(barriers.OF_BARRIER)
    assert members(annotations.RingStep) == set(barriers.OF_STEP)
    assert members(annotations.NamedBarrier) == set(barriers.OF_NAMED)
    assert members(annotations.Ring) == set(barriers.OF_RING)


def test_every_call_that_kernels_handle_is_a_word_and_the_other_way_round() -> None:
    recorded = {word.name for word in words() if word.name not in ELEMENTWISE}
    grouped = {name for name in recorded if name.startswith("fast.")}
    # a loop reads `tj.static_range`; the reductions have one handler
    assert recorded - grouped - {"static_range", *REDUCTIONS} == set(HANDLERS)


def test_a_name_that_is_forgotten_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tj._HOME, "forgotten", "jit")
    with pytest.raises(AssertionError, match="forgotten"):
        test_all_is_literal_and_names_whatever_has_a_home()
    monkeypatch.delitem(tj._HOME, "forgotten")
    monkeypatch.setattr(tj, "__all__", [*tj.__all__, "forgotten"])
    with pytest.raises(AssertionError, match="the stub lacks forgotten"):
        need_public(STUB.read_text(encoding="utf-8"))
