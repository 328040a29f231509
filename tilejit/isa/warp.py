"""What the lanes of a warp say to each other."""

from __future__ import annotations

from ..scopes import WARP
from .row import B32, Direction, Operand, Row, predicate, register

__all__ = ["ELECT", "ROWS"]


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

_SHUFFLES = (
    _warp("shfl.idx", "shfl.sync.idx.b32 $result, $value, $by, 31, -1;", _SHUFFLED, "$value of lane $by"),
    _warp("shfl.bfly", "shfl.sync.bfly.b32 $result, $value, $by, 31, -1;", _SHUFFLED, "$value of lane (own xor $by)"),
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

ROWS = (*_SHUFFLES, *_VOTES, ELECT)
