"""Containers that kernels take as arguments: tuples, named tuples and frozen dataclasses."""

from __future__ import annotations

import inspect
import sys
from typing import Any, ForwardRef

from ..constants import field_names
from ..ir.types import ContainerType


def is_container(value: Any) -> bool:
    """True for a tuple, a named tuple, and an instance of a frozen dataclass."""
    return type(value) is tuple or field_names(type(value)) is not None


def items_of(value: Any) -> tuple[Any, ...]:
    """Return the items of a container, in order."""
    if isinstance(value, tuple):
        return tuple(value)
    return tuple([getattr(value, name) for name in field_names(type(value)) or ()])


def with_items(value: Any, items: list[Any]) -> Any:
    """Return a container of the class of `value` with other items."""
    cls = type(value)
    if isinstance(value, tuple):
        return tuple(items) if cls is tuple else cls._make(items)
    other = object.__new__(cls)
    for name, item in zip(field_names(cls) or (), items, strict=True):
        # not `__init__`, which may check or convert its arguments
        object.__setattr__(other, name, item)
    return other


def container_type(value: Any) -> ContainerType:
    cls = type(value)
    if cls is tuple:
        return ContainerType("tuple", tuple([f"[{k}]" for k in range(len(value))]))
    return ContainerType(f"{cls.__module__}.{cls.__qualname__}", tuple([f".{name}" for name in field_names(cls) or ()]))


def annotations_of(cls: type) -> dict[str, Any]:
    """Return the annotations of a class's fields; strings are evaluated in the module of the class that has them.

    raises: an exception of evaluating a string.
    """
    found: dict[str, Any] = {}
    for owner in reversed(cls.__mro__):
        names = vars(sys.modules.get(owner.__module__, sys))
        for name, annotation in inspect.get_annotations(owner).items():
            # a named tuple has references in place of strings; a quoted annotation may be a string in a string
            for _ in range(2):
                text = annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else annotation
                annotation = eval(text, names, dict(vars(owner))) if isinstance(text, str) else annotation
            found[name] = annotation
    return found


def is_inside(leaf: str, name: str) -> bool:
    """True if `name` names the argument `leaf` or a container that contains it."""
    return leaf == name or leaf.startswith((f"{name}.", f"{name}["))


def parameter_of(leaf: str) -> str:
    """Return the name of the parameter that contains `leaf`."""
    return leaf.partition("[")[0].partition(".")[0]


def declaration(name: str, annotation: str) -> str:
    """Return a declaration for a hint: of the parameter `name`, of the field of `P.w`, or of a parameter for `P[0]`."""
    field = name.rpartition(".")[2]
    return f"{field if field.isidentifier() else 'p'}: {annotation}"
