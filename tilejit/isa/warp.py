"""Communication between the lanes of a warp."""

from __future__ import annotations

from functools import partial

from ..dataclass import dataclass
from ..dtypes import DType, int32, uint32
from ..scopes import WARP
from .row import B32, Direction, Family, Operand, Row, predicate, register

_warp = partial(
    Row, since=75, ptx=(6, 0), scope=WARP, convergent=True, source='PTX ISA, "shfl.sync" and "vote.sync"'
)

#: mode of a shuffle -> (description of the source lane, clamp operand of the PTX instruction)
_MODES = {
    "idx": ("lane $by", 31), "bfly": ("lane (laneid xor $by)", 31), "up": ("lane (laneid - $by), or laneid", 0),
    "down": ("lane (laneid + $by), or laneid", 31),
}


@dataclass(frozen=True, slots=True)
class Shuffle:
    """A shuffle of `words` registers. mode: "idx", "bfly", "up" or "down", as in PTX."""

    mode: str
    words: int = 1


def _shuffle(form: Shuffle) -> Row:
    lane, bound = _MODES[form.mode]
    parts = ("",) if form.words == 1 else ("_low", "_high")
    one = f"shfl.sync.{form.mode}.b32"
    return _warp(
        name=f"shfl.{form.mode}{'' if form.words == 1 else '.b64'}",
        text=" ".join(f"{one} $result{part}, $value{part}, $by, {bound}, -1;" for part in parts),
        meaning=" and ".join(f"$value{part}" for part in parts) + f" of {lane}",
        operands=(
            *(register(f"result{part}", B32, Direction.OUT, is_bits=True) for part in parts),
            *(register(f"value{part}", B32, is_bits=True) for part in parts),
            register("by", B32),
        ),
    )


SHUFFLE = Family.of("shfl", tuple(Shuffle(mode, words) for mode in _MODES for words in (1, 2)), _shuffle)
SHUFFLE_INDEX, SHUFFLE_XOR = SHUFFLE.row(Shuffle("idx")), SHUFFLE.row(Shuffle("bfly"))


def _vote(name: str, type: str, result: Operand, meaning: str) -> Row:
    return _warp(
        name=f"vote.{name}", text=f"vote.sync.{name}.{type} $result, $predicate, -1;", meaning=meaning,
        operands=(result, predicate("predicate")), agrees=True,
    )


_VOTES = (
    _vote("any", "pred", predicate("result", Direction.OUT), "whether any lane's predicate holds"),
    _vote("all", "pred", predicate("result", Direction.OUT), "whether every lane's predicate holds"),
    _vote("ballot", "b32", register("result", B32, Direction.OUT), "bit i is lane i's predicate"),
)

VOTE = {row.name.removeprefix("vote."): row for row in _VOTES}

ELECT = Row(
    name="elect", text="elect.sync _|$leader, -1;", meaning="true in one lane of the warp",
    operands=(predicate("leader", Direction.OUT),), since=90, ptx=(8, 0), scope=WARP, convergent=True,
    source='PTX ISA, "elect.sync"',
)


@dataclass(frozen=True, slots=True)
class Redux:
    """A reduction of one value per lane of a warp."""

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
        since=80, ptx=(7, 0), scope=WARP, convergent=True,
        source='PTX ISA, "Parallel Synchronization and Communication Instructions: redux.sync"',
    )


REDUX = Family.of("redux", tuple(_REDUX), _redux)

ROWS = (*SHUFFLE.rows(), *_VOTES, ELECT, *REDUX.rows())
