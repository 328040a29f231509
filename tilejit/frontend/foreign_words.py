"""Names that tilejit lacks, and what to write instead: those of other libraries, and those of later versions.

A test compiles every equivalent.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from ..dataclass import dataclass, replace
from ..ops.elementwise import ELEMENTWISE
from ..ops.tile import TILE_OPERATIONS

#: origins: functions that Python can also run outside kernels (NumPy), and names that exist only in kernels
HOST, CUDA, TRITON = "NumPy", "CUDA", "Triton"


@dataclass(frozen=True, slots=True)
class ForeignWord:
    """A name from another language or library, and its equivalent."""

    #: without the library, but qualified if it is ambiguous alone, as in `shared.array`
    name: str
    of: str
    #: an expression or a statement in which x and y are values, a and b matrices, and A an array
    instead: str
    note: str = ""

    @property
    def hint(self) -> str:
        written = f"at run time, write {self.instead}" if self.of == HOST else f"write {self.instead}"
        return f"{written}{f': {self.note}' if self.note else ''}"


#: component of a CUDA index -> axis
AXES = {"x": 0, "y": 1, "z": 2}


@functools.cache
def words() -> tuple[ForeignWord, ...]:
    """Return the words of foreign_words.json.

    The file maps each origin to a map from names, separated by spaces, to an equivalent or [equivalent, note].
    """
    # only errors need these modules
    import json
    from importlib.resources import files

    rows = json.loads(files(__package__).joinpath("foreign_words.json").read_text(encoding="utf-8"))
    return tuple([
        ForeignWord(name, of, *([row] if isinstance(row, str) else row))
        for of, listed in rows.items() for names, row in listed.items() for name in names.split()
    ])


@functools.cache
def _table() -> Mapping[str, ForeignWord]:
    return {word.name: word for word in words()}


def foreign_word(name: str) -> ForeignWord | None:
    """Return the equivalent of an unqualified name or of a C spelling of a tilejit function; None for other names."""
    word = _table().get(name)
    if word is not None:
        return word
    if name in ELEMENTWISE:
        return ForeignWord(name, HOST, f"tj.{name}")
    if name in TILE_OPERATIONS and TILE_OPERATIONS[name].reduction:
        return ForeignWord(name, HOST, f"tj.{name}(x)", "of a tile, or along an axis")
    # CUDA spellings have leading underscores, as in __syncthreads, or the suffix f, as in expf
    spelled = name.strip("_")
    if spelled != name:
        return foreign_word(spelled)
    if name[-1:] != "f":
        return None
    of_doubles = _table().get(name[:-1])
    if of_doubles is not None:
        return replace(of_doubles, name=name) if of_doubles.of == HOST else None
    return ForeignWord(name, CUDA, f"tj.{name[:-1]}") if name[:-1] in ELEMENTWISE else None


def foreign_word_in(written: str) -> ForeignWord | None:
    """Return the equivalent of a dotted name, such as `cuda.shared.array` or `cuda.threadIdx.x`; None if unknown."""
    parts = written.split(".")
    pairs = [".".join(parts[k : k + 2]) for k in range(len(parts) - 1)]
    word = next(filter(None, map(foreign_word, (*reversed(pairs), *reversed(parts)))), None)
    if word is None or parts[-1] not in AXES:
        return word
    return replace(word, instead=word.instead.replace("(axis)", f"({AXES[parts[-1]]})"))


@dataclass(frozen=True, slots=True)
class NotYet:
    """A name that is not implemented yet, and a substitute for it."""

    meaning: str
    instead: str = "dir(tilejit) lists the available names"


_ONE_STREAM = "leave it out: launches on one stream run in order"
_OWN_MAPS = "write copy_async(shared, A[...], barrier=t): the launch creates the tensor maps of its arrays"
_OWN_NUMBERS = "pass an array of random numbers"
_REDUCE = "tj.reduce(x, axis, combine) gives the result over a whole axis"

#: names that are not implemented yet; they have a specific error, and `dir(tilejit)` doesn't list them
NOT_YET = {
    "grid_trigger": NotYet("which lets the next kernel start", _ONE_STREAM),
    "grid_wait": NotYet("which waits for the previous kernel", _ONE_STREAM),
    "TensorMap": NotYet("a tensor map that the caller creates", _OWN_MAPS),
    "tensor_map": NotYet("a tensor map that a kernel uses", _OWN_MAPS),
    "associative_scan": NotYet("the inclusive scan of a tile by a function", _REDUCE),
    "scan": NotYet("the inclusive scan of a tile by a function", _REDUCE),
    "cumsum": NotYet("the cumulative sum of a tile"),
    "cumprod": NotYet("the cumulative product of a tile"),
    "sort": NotYet("the sorted elements of a tile"),
    "argsort": NotYet("the indices that sort a tile"),
    "top_k": NotYet("the largest elements and their indices"),
    "topk": NotYet("the largest elements and their indices"),
    "gather": NotYet("the elements of a tile at a tile of indices"),
    "rand": NotYet("uniform random numbers", _OWN_NUMBERS),
    "randn": NotYet("normal random numbers", _OWN_NUMBERS),
    "randint": NotYet("random integers", _OWN_NUMBERS),
}
