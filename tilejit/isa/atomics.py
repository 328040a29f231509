"""Atomic operations on memory.

Rows have PTX's default order and scope: relaxed, GPU. `qualified` derives the rows of other orders and scopes, so that
the table needn't list all 1,200.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from ..dataclass import dataclass, replace
from ..dtypes import DType
from ..target import Target
from .row import B16, B32, B64, F32, F64, Direction, Family, Operand, Register, Row, address, register


@dataclass(frozen=True, slots=True)
class _Atomic:
    """An atomic operation. types: its PTX types. meaning: completes the sentence "the element ..."."""

    types: tuple[str, ...]
    meaning: str
    operands: tuple[str, ...] = ("value",)


_MINMAX = ("u32", "s32", "u64", "s64")
_BITS = ("b32", "b64")

OPERATIONS: dict[str, _Atomic] = {
    "add": _Atomic(("u32", "u64", "f16", "bf16", "f32", "f64"), "has $value added"),
    "min": _Atomic(_MINMAX, "becomes $value if that is less"),
    "max": _Atomic(_MINMAX, "becomes $value if that is greater"),
    "and": _Atomic(_BITS, "keeps the bits that are set in $value"),
    "or": _Atomic(_BITS, "gets the bits that are set in $value"),
    "xor": _Atomic(_BITS, "has the bits that are set in $value inverted"),
    "exch": _Atomic(_BITS, "becomes $value"),
    "cas": _Atomic(("b16", *_BITS), "becomes $desired if it was $expected", ("expected", "desired")),
}

#: PTX type -> kind of register; 16-bit floats use untyped registers
_REGISTERS: dict[str, Register] = {
    "u32": B32, "s32": B32, "b32": B32, "u64": B64, "s64": B64, "b64": B64, "b16": B16, "f16": B16, "bf16": B16,
    "f32": F32, "f64": F64,
}


@dataclass(frozen=True, slots=True)
class AtomicForm:
    """An atomic operation on one PTX type in one state space."""

    op: str
    type: str
    space: str

    @property
    def modifiers(self) -> str:
        rounding = ".noftz" if self.type.endswith("f16") else ""
        return f"{self.space}.{self.op}{rounding}.{self.type}"


def form_of(op: str, dtype: DType, space: str) -> AtomicForm | None:
    """Return the form of `op` on elements of `dtype` in state space `space`; None if PTX has none."""
    return next((AtomicForm(op, t, space) for t in _types_of(op, dtype) if t in OPERATIONS[op].types), None)


def has_type(op: str, dtype: DType) -> bool:
    """True if `op` updates elements of `dtype`, by an instruction or by a loop of compare-and-swaps."""
    is_looped = dtype.bits >= 16 and (dtype.is_integer or (dtype.is_float and op in ("add", "min", "max", "exch")))
    return is_looped or form_of(op, dtype, "global") is not None


def _types_of(op: str, dtype: DType) -> Iterator[str]:
    if dtype.is_float and not dtype.is_fp8:
        yield f"{'bf' if dtype.name == 'bfloat16' else 'f'}{dtype.bits}"
    if dtype.is_integer:
        yield f"{'s' if dtype.kind == 'int' else 'u'}{dtype.bits}"
    if dtype.is_integer and op == "add":
        # signed and unsigned addition are the same in two's complement
        yield f"u{dtype.bits}"
    if dtype.is_integer or (dtype.is_float and op == "exch"):
        yield f"b{dtype.bits}"


def _row(form: AtomicForm, *, returns: bool) -> Row:
    operation, bank = OPERATIONS[form.op], _REGISTERS[form.type]
    # ptxas accepts no literals for 16-bit floats
    literals = not form.type.endswith("f16")
    sources: tuple[Operand, ...] = tuple(register(name, bank, is_immediate=literals) for name in operation.operands)
    before = (register("before", bank, Direction.OUT),) if returns else ()
    name = f"{'atom' if returns else 'red'}.{form.modifiers}"
    listed = ", ".join(["[$place]", *(f"${name}" for name in operation.operands)])
    previous = "; $before is the previous one" if returns else ""
    # PTX ISA: the "current implementation" of float32 `add` on global memory flushes subnormals to zero
    return Row(
        name=name,
        text=f"{name} {'$before, ' if returns else ''}{listed};",
        meaning=f"the element at $place {operation.meaning}{previous}",
        operands=(*before, address("place", form.space, Direction.INOUT, bank.bits // 8), *sources),
        since=90 if form.type == "bf16" else 75, ptx=(7, 8) if form.type == "bf16" else (6, 3), memory=True,
        source='PTX ISA, "Parallel Synchronization and Communication Instructions: atom, red"',
    )


_FORMS = tuple(
    AtomicForm(op, t, space) for op, what in OPERATIONS.items() for t in what.types for space in ("global", "shared")
)

ATOM = Family.of("atom", _FORMS, lambda form: _row(form, returns=True))

RED = Family.of(
    "red", tuple(f for f in _FORMS if f.op not in ("exch", "cas")), lambda form: _row(form, returns=False)
)


@dataclass(frozen=True, slots=True)
class VectorForm:
    """An addition of `count` registers of one or two elements each to consecutive elements, atomic for each element."""

    type: str
    count: int
    space: str

    @property
    def bits(self) -> int:
        return 32 * self.count

    @property
    def name(self) -> str:
        rounding = ".noftz" if self.type.endswith("16x2") else ""
        vector = f".v{self.count}" if self.count > 1 else ""
        return f"red.{self.space}.add{rounding}{vector}.{self.type}"


def _vector_row(form: VectorForm) -> Row:
    registers = F32 if form.type == "f32" else B32
    listed = "$values" if form.count == 1 else "{$values}"
    is_new = form.count > 1 or form.type == "bf16x2"
    return Row(
        name=form.name,
        text=f"{form.name} [$place], {listed};",
        meaning="the elements from $place on have $values added, each element atomically",
        operands=(
            address("place", form.space, Direction.INOUT, form.bits // 8),
            register("values", registers, count=form.count),
        ),
        since=90 if is_new else 75, ptx=(8, 1) if form.count > 1 else (7, 8) if is_new else (6, 3), memory=True,
        source='PTX ISA, "Parallel Synchronization and Communication Instructions: red"',
    )


#: additions to several elements that don't return the old values; for each type and space, the widest first
RED_VECTOR = Family.of(
    "red of vectors",
    (
        *(VectorForm("f32", count, "global") for count in (4, 2)),
        *(VectorForm(t, count, "global") for t in ("f16x2", "bf16x2") for count in (4, 2)),
        *(VectorForm(t, 1, space) for t in ("f16x2", "bf16x2") for space in ("global", "shared")),
    ),
    _vector_row,
)


def vectors_of(op: str, dtype: DType, space: str) -> tuple[VectorForm, ...]:
    """Return the forms that apply `op` to several elements of `dtype` at once, widest first; () if there are none."""
    if op != "add" or not dtype.is_float or dtype.bits not in (16, 32):
        return ()
    (scalar,) = list(_types_of(op, dtype))
    wanted = scalar if dtype.bits == 32 else f"{scalar}x2"
    return tuple(form for form in RED_VECTOR.made if form.type == wanted and form.space == space)


COMPARE_AND_SWAP = ATOM.row(AtomicForm("cas", "b32", "global"))

ROWS = (*ATOM.rows(), *RED.rows(), *RED_VECTOR.rows())


@cache
def qualified(row: Row, order: str) -> Row:
    """Return `row` with memory order and scope `order`: one of `ir.values.ORDERS["atomic"]`, such as "acquire.cta"."""
    kind, scope = order.split(".")
    if order == "relaxed.gpu":
        return row
    mnemonic, _, modifiers = row.name.partition(".")
    name = f"{mnemonic}.{kind}.{scope}.{modifiers}"
    of_clusters = scope == "cluster"
    return replace(
        row,
        name=name,
        text=row.text.replace(row.name, name, 1),
        since=max(row.since, 90) if of_clusters else row.since,
        ptx=max(row.ptx, (7, 8)) if of_clusters else row.ptx,
    )


def row_of(op: str, dtype: DType, space: str, order: str, target: Target, *, returns: bool) -> Row | None:
    """Return the instruction that updates one element; None if `target` has none, and a loop around `swap_of` does it.

    It is a `red` if no result is needed and `red` supports the operation and the order, else an `atom`.
    """
    form = form_of(op, dtype, space)
    if form is None or ATOM.row(form).missing(target) is not None:
        return None
    # `red` returns no value that an acquire could observe, so PTX has no such form
    is_reduction = not returns and form in RED.made and not order.startswith(("acquire", "acq_rel"))
    return qualified((RED if is_reduction else ATOM).row(form), order)


def swap_of(dtype: DType, space: str, order: str) -> Row:
    """Return the compare-and-swap of an element's bits."""
    return qualified(ATOM.row(AtomicForm("cas", f"b{dtype.bits}", space)), order)
