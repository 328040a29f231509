"""cp.async: copies from global to shared memory that bypass registers."""

from __future__ import annotations

from functools import partial
from typing import Literal

from ..dataclass import dataclass
from .row import B32, AsyncWork, Direction, Family, Operand, Row, address, constant, predicate, register

CP_ASYNC = AsyncWork("copies to shared memory", "copy_async", wait="cp_async.wait", commit="cp_async.commit")

_row = partial(
    Row, since=80, memory=True, source='PTX ISA, "Data Movement and Conversion Instructions: cp.async"'
)

#: bytes of one copy -> cache operator
_CACHES = {4: "ca", 8: "ca", 16: "cg"}


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of `size` bytes.

    edge: "zfill" copies a run-time number of bytes and zeroes the rest; "ignore" writes zeros if a predicate is true.
    """

    size: int
    edge: Literal["", "zfill", "ignore"] = ""


def _copy(form: Copy) -> Row:
    size, name = form.size, f"cp.async.{form.size}"
    if form.edge == "zfill":
        bytes_inside = (register("bytes", B32),)
        return _start(f"{name}.zfill", size, bytes_inside, f"$bytes bytes, and zeros up to {size},")
    if form.edge == "ignore":
        # ptxas rejects the predicate before PTX 7.5
        ignored = (predicate("ignored"),)
        return _start(f"{name}.ignore", size, ignored, f"{size} bytes, or zeros if $ignored,", (7, 5))
    return _start(name, size, (), f"{size} bytes")


def _start(name: str, size: int, edge: tuple[Operand, ...], what: str, ptx: tuple[int, int] = (7, 0)) -> Row:
    to = address("to", "shared", Direction.OUT, size)
    read = address("source", "global", Direction.IN, size, is_cut=bool(edge))
    listed = ", ".join(["[$to]", "[$source]", str(size), *(f"${operand.name}" for operand in edge)])
    return _row(
        name=name,
        text=f"cp.async.{_CACHES[size]}.shared.global {listed};",
        meaning=f"starts to copy {what} from global $source to shared $to",
        operands=(to, read, *edge), ptx=ptx, starts=CP_ASYNC,
    )


_FORMS = tuple(form for size in _CACHES for form in (Copy(size), Copy(size, "zfill"), Copy(size, "ignore")))

COPIES = Family.of("cp.async", _FORMS, _copy)

COMMIT = _row(
    name="cp.async.commit", text="cp.async.commit_group;", ptx=(7, 0), commits=CP_ASYNC,
    meaning="commits the copies since the last commit as a group",
)
WAIT = _row(
    name="cp.async.wait", text="cp.async.wait_group $groups;", ptx=(7, 0), completes=CP_ASYNC,
    meaning="waits until at most $groups groups are unfinished",
    operands=(constant("groups"),),
)

ROWS = (*COPIES.rows(), COMMIT, WAIT)
