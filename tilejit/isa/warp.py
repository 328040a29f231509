"""What the lanes of a warp say to each other."""

from __future__ import annotations

from dataclasses import dataclass

from ..dtypes import DType, int32, uint32
from ..scopes import WARP
from .row import B32, Direction, Family, Operand, Row, predicate, register

__all__ = ["ELECT", "REDUX", "ROWS", "SHUFFLE_XOR", "Redux"]


def _warp(name: str, text: str, operands: tuple[Operand, ...], meaning: str) -> Row:
    return Row(
        name=name,
        text=text,
        meaning=meaning,
        operands=operands,
        since=75,
        ptx=(6, 0),
        scope=WARP,
        convergent=True,
        source='PTX ISA, "shfl.sync" and "vote.sync"',
    )


_SHUFFLED = (register("result", B32, Direction.OUT), register("value", B32), register("by", B32))
_PREDICATE = predicate("predicate")

SHUFFLE_XOR = _warp(
    "shfl.bfly", "shfl.sync.bfly.b32 $result, $value, $by, 31, -1;", _SHUFFLED, "$value of lane (own xor $by)"
)

_SHUFFLES = (
    _warp("shfl.idx", "shfl.sync.idx.b32 $result, $value, $by, 31, -1;", _SHUFFLED, "$value of lane $by"),
    SHUFFLE_XOR,
    _warp("shfl.up", "shfl.sync.up.b32 $result, $value, $by, 0, -1;", _SHUFFLED, "$value of lane (own - $by), or own"),
    _warp(
        "shfl.down", "shfl.sync.down.b32 $result, $value, $by, 31, -1;", _SHUFFLED, "$value of lane (own + $by), or own"
    ),
)

_VOTES = (
    _warp(
        "vote.any",
        "vote.sync.any.pred $result, $predicate, -1;",
        (predicate("result", Direction.OUT), _PREDICATE),
        "whether any lane's predicate holds",
    ),
    _warp(
        "vote.all",
        "vote.sync.all.pred $result, $predicate, -1;",
        (predicate("result", Direction.OUT), _PREDICATE),
        "whether every lane's predicate holds",
    ),
    _warp(
        "vote.ballot",
        "vote.sync.ballot.b32 $result, $predicate, -1;",
        (register("result", B32, Direction.OUT), _PREDICATE),
        "bit i is lane i's predicate",
    ),
)

ELECT = Row(
    name="elect",
    text="elect.sync _|$leader, -1;",
    meaning="true in one lane of the warp",
    operands=(predicate("leader", Direction.OUT),),
    since=90,
    ptx=(8, 0),
    scope=WARP,
    convergent=True,
    source='PTX ISA, "elect.sync"',
)


@dataclass(frozen=True, slots=True)
class Redux:
    """What is combined: by an elementwise operation, values of one type."""

    operation: str
    dtype: DType


_BY = {"add": "add", "minimum": "min", "maximum": "max"}
_TYPES = {int32: "s32", uint32: "u32"}
_BITWISE = {"bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor"}

_REDUX = {
    **{Redux(name, dtype): f"{op}.{t}" for name, op in _BY.items() for dtype, t in _TYPES.items()},
    **{Redux(name, int32): f"{op}.b32" for name, op in _BITWISE.items()},
}


def _redux(form: Redux) -> Row:
    name = f"redux.sync.{_REDUX[form]}"
    return Row(
        name=name,
        text=f"{name} $result, $value, -1;",
        meaning=f"$value of all lanes combined by {form.operation}",
        operands=(
            register("result", B32, Direction.OUT, element=form.dtype), register("value", B32, element=form.dtype)
        ),
        since=80,
        ptx=(7, 0),
        scope=WARP,
        convergent=True,
        source='PTX ISA, "Parallel Synchronization and Communication Instructions: redux.sync"',
    )


REDUX = Family.of("redux", tuple(_REDUX), _redux)

ROWS = (*_SHUFFLES, *_VOTES, ELECT, *REDUX.rows())
