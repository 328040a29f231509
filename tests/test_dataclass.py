"""Dataclasses that write their methods late do what the standard library's do."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from threading import Barrier, Thread
from typing import Any, ClassVar

import pytest

import tilejit
from tilejit import dataclass as ours
from tilejit.target import target as find_target

OPTIONS = [
    {"frozen": frozen, "slots": slots, **more}
    for frozen in (False, True)
    for slots in (False, True)
    for more in ({}, {"eq": False}, {"kw_only": True}, {"repr": False}, {"eq": False, "kw_only": True})
]
each = pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(f"{k}={v}" for k, v in o.items()))


def pair(options: dict[str, bool]) -> tuple[type, type]:
    """One class made by the standard library and by us."""
    return tuple(made(module, options) for module in (dataclasses, ours))  # type: ignore[return-value]


def made(module: Any, options: dict[str, bool]) -> type:
    @module.dataclass(**options)
    class Base:
        first: int
        shared: ClassVar[int] = 7

        def double(self) -> int:
            return 2 * self.first

    @module.dataclass(**options)
    class Point(Base):
        x: float
        label: str = "here"
        tags: list[str] = module.field(default_factory=list, compare=False)
        hidden: int = module.field(default=3, repr=False, hash=False)
        size: float = module.field(init=False, default=0.0)
        derived: float = module.field(init=False, compare=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "derived", self.x + self.first)

    return Point


@each
def test_help_shows_the_parameters_before_the_first_object_is_made(options: dict[str, bool]) -> None:
    theirs, mine = ([(p.name, p.kind) for p in inspect.signature(cls).parameters.values()] for cls in pair(options))
    assert mine == theirs and mine[0][0] == "first"


def test_a_class_with_an_init_of_its_own_has_that_ones_parameters() -> None:
    @ours.dataclass()
    class Own:
        x: int

        def __init__(self, y: str) -> None:
            self.x = len(y)

    class Derived(made(ours, {})):  # type: ignore[misc]
        def __init__(self, z: int) -> None:
            super().__init__(z, 1.0)

    assert [list(inspect.signature(cls).parameters) for cls in (Own, Derived)] == [["y"], ["z"]]


def outcome(act: Any) -> Any:
    """What an action gives, or its error's type."""
    try:
        return act()
    except Exception as error:
        return type(error)


@each
def test_objects_are_made_shown_compared_and_hashed_the_same(options: dict[str, bool]) -> None:
    def observed(cls: type) -> list[Any]:
        a, b, c = (cls(first=1, x=x, label="l", tags=["t"], hidden=h) for x, h in ((2.0, 3), (2.0, 4), (2.0, 4)))
        shown = repr(a) if options.get("repr", True) else type(a).__repr__ is object.__repr__
        hashed = [outcome(lambda o=o: hash(o)) for o in (a, b, c)] if options.get("eq", True) else []
        return [
            shown, a == b, b == c, b != c, a == 1, hashed, a.double(), a.shared, a.tags, a.size, a.derived,
            outcome(lambda: setattr(a, "x", 5.0)), a.x, outcome(lambda: delattr(a, "label")),
            outcome(lambda: setattr(a, "unknown", 1)) if options["slots"] and not options["frozen"] else None,
            hasattr(a, "__dict__"), cls(first=1, x=2.0).tags is cls(first=1, x=2.0).tags,
            outcome(lambda: cls(1, 2.0)) if options.get("kw_only") else repr(cls(1, 2.0).__class__.__match_args__),
            outcome(lambda: cls()), outcome(lambda: cls(first=1, x=1, size=2.0)), outcome(lambda: cls(first=1, y=1)),
        ]

    standard, late = map(observed, pair(options))
    assert late == standard


@each
def test_the_standard_library_knows_the_fields(options: dict[str, bool]) -> None:
    standard, late = pair(options)
    described = ("name", "init", "repr", "hash", "compare", "kw_only", "default")
    rows = [[[getattr(f, d) for d in described] for f in dataclasses.fields(cls)] for cls in (standard, late)]
    assert rows[0] == rows[1]
    assert dataclasses.is_dataclass(late)
    a = late(first=1, x=2.0)
    assert dataclasses.asdict(a) == dataclasses.asdict(standard(first=1, x=2.0))
    for replace in (dataclasses.replace, ours.replace):
        changed = replace(a, x=4.0)
        assert (changed.x, changed.first, changed.derived, type(changed)) == (4.0, 1, 5.0, late)
    with pytest.raises(TypeError, match="nothing"):
        ours.replace(a, nothing=1)


def test_a_lean_one_is_a_frozen_one_that_refuses_nothing() -> None:
    @ours.dataclass(frozen=True, slots=True)
    class Base:
        first: int

    def derived(decorate: Any) -> Any:
        class Lean(Base):
            second: tuple[int, ...] = ()
            total: int = ours.field(init=False, compare=False)

            def __post_init__(self) -> None:
                object.__setattr__(self, "total", self.first + sum(self.second))

        return decorate(frozen=True, slots=True)(Lean)

    frozen, lean = map(derived, (ours.dataclass, ours.lean))
    for cls in (frozen, lean):
        a, b = cls(1, (2,)), ours.replace(cls(5, (2,)), first=1)
        assert (a, hash(a), a.total, repr(a)) == (b, hash(b), b.total, repr(b)) and not hasattr(a, "__dict__")
        assert copy.copy(a) == copy.deepcopy(a) == a and cls.__dataclass_params__.frozen
    with pytest.raises(dataclasses.FrozenInstanceError):
        frozen(1).first = 2
    made = lean(1)
    made.first = 2
    assert made.first == 2


@pytest.mark.parametrize(
    "value", [tilejit.spec(8, tilejit.float32), tilejit.float32, tilejit.S[8:1], find_target("sm_90a")], ids=repr
)
def test_what_users_hold_refuses_to_be_changed(value: Any) -> None:
    for described in dataclasses.fields(value):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, described.name, None)


@ours.dataclass(frozen=True, slots=True)
class Frozen:
    number: int
    items: tuple[int, ...] = ()


def test_frozen_objects_with_slots_are_pickled_and_copied() -> None:
    value = Frozen(1, (2,))
    assert pickle.loads(pickle.dumps(value)) == copy.copy(value) == copy.deepcopy(value) == value
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'number'"):
        value.number = 2  # type: ignore[misc]


def test_the_standard_librarys_dataclasses_inherit_from_ours() -> None:
    @dataclasses.dataclass(frozen=True)
    class Labelled(Frozen):
        label: str = "x"

    assert Labelled(1, (2,)) == Labelled(1, (2,), "x") != Labelled(1, (2,), "y")
    assert [f.name for f in dataclasses.fields(Labelled)] == ["number", "items", "label"]


def test_what_a_class_defines_itself_stays() -> None:
    @ours.dataclass(frozen=True, slots=True)
    class Own:
        a: int

        def __repr__(self) -> str:
            return "own"

        def __hash__(self) -> int:
            return 5

        def __eq__(self, other: object) -> bool:
            return True

    assert (repr(Own(1)), hash(Own(1)), Own(1) == 3) == ("own", 5, True)


def test_a_shared_default_is_refused() -> None:
    with pytest.raises(ValueError, match="items"):

        @ours.dataclass()
        class Shared:
            items: list[int] = []  # noqa: RUF012


def test_no_method_is_compiled_before_it_is_called_and_then_once() -> None:
    @ours.dataclass(frozen=True, slots=True)
    class Late:
        a: int

    late = Late.__init__
    assert inspect.signature(late).parameters.keys() == {"self", "args", "named"}
    Late(1)
    first = Late.__init__
    assert first is not late
    Late(2)
    assert Late.__init__ is first
    # a caller with the old method, such as a second thread, makes the same object
    value = object.__new__(Late)
    late(value, 3)
    assert value == Late(3)


def test_threads_may_use_a_class_for_the_first_time_at_once() -> None:
    for _ in range(50):
        cls = made(ours, {"frozen": True, "slots": True})
        start, results = Barrier(4), []

        def use(cls: type = cls, start: Barrier = start, results: list[Any] = results) -> None:
            start.wait()
            results.append(cls(1, 2.0) == cls(1, 2.0))

        threads = [Thread(target=use) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [True] * 4
