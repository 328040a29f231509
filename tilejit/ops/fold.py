"""The operations `reduce` and `scan`, which combine elements along axes, in order, with a user-defined function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from ..dataclass import replace
from ..dtypes import DType, bool_
from ..wording import counted
from . import axes
from .broadcast import without_units
from .copies import DST, VARIANT_NAME
from .record import SCALAR, Attribute, Attributes, CombineFunction, DTypes, Fault, Shapes, TileOperand, TileOperation
from .reduce import AXIS, REDUCTIONS, Reduction, Value, axes_fault, axes_of, flattened

#: the order of combinations, for the documentation
GROUPING = (
    "The compiler chooses the grouping, such as (a + b) + (c + d) or ((a + b) + c) + d, once for each compiled kernel, "
    "so sums of floats may differ in the last bits from those of a loop"
)

COMBINE = Attribute("combine", CombineFunction, "the function that combines two values")

#: the operand names of (destination, source) pairs, one pair for each value that the function combines
PAIRS = (("dst", "src"), ("dst2", "src2"), ("dst3", "src3"), ("dst4", "src4"))

_OTHERS = tuple(
    operand
    for dst, src in PAIRS[1:]
    for operand in (
        TileOperand(dst, optional=True, read=False, written=True),
        TileOperand(src, optional=True),
    )
)


def _given(names: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    return ((dst, src) for dst, src in PAIRS if dst in names and src in names)


def _shape_fault(shapes: Shapes, attrs: Attributes) -> Fault | None:
    for dst, src in PAIRS:
        if (dst in shapes) != (src in shapes):
            one, other = (dst, src) if dst in shapes else (src, dst)
            return Fault(f"{one} is given without {other}", "give each source together with its destination")
    for dst, src in _given(shapes):
        if shapes[src] != shapes["src"]:
            return Fault(f"the tiles have shapes {shapes['src']} and {shapes[src]}", "give tiles of one shape")
        fault = axes_fault({"dst": shapes[dst], "src": shapes[src]}, attrs)
        if fault is not None:
            return fault
    return None


def _type_fault(name: str, dtypes: DTypes, attrs: Attributes) -> Fault | None:
    combine = attrs.get(COMBINE.name)
    if not isinstance(combine, CombineFunction):
        return Fault(f"{name} needs a function", "give combine=, a @tj.function that combines two values")
    pairs = list(_given(dtypes))
    types = tuple([dtypes[src] for _, src in pairs])
    for dst, src in pairs:
        if dtypes[src].is_fp8:
            return Fault(f"{name} of {dtypes[src]}: fp8 is a storage type", "cast it first, for example to float32")
        if dtypes[dst] != dtypes[src]:
            return Fault(
                f"{name} of {dtypes[src]} gives {dtypes[src]}; the destination is {dtypes[dst]}",
                "change the destination's type, or convert the source first",
            )
    if len(combine.gives) != len(types):
        return Fault(
            f"combine returns {counted(len(combine.gives), 'value')} for {counted(len(types), 'tile')}",
            "return one value for each tile",
        )
    if combine.takes != types:
        taken = ", ".join(map(str, combine.takes))
        return Fault(f"combine takes {taken}; the tiles are of {', '.join(map(str, types))}", "convert the tiles")
    for k, (given, dtype) in enumerate(zip(combine.gives, types, strict=True)):
        if given != dtype:
            which = f" of value {k}" if len(types) > 1 else ""
            return Fault(
                f"combine changes the dtype{which}: it returns {given} for {dtype}",
                f"convert what it returns, as in tj.{dtype}(...), or the tile, as in x.astype(tj.{given})",
            )
    return None


def folded(sources: Sequence[np.ndarray], axes: tuple[int, ...], combine: CombineFunction) -> tuple[np.ndarray, ...]:
    """Combine the elements of arrays of one shape from first to last, in row-major order over `axes`."""
    columns = [flattened(x, axes) for x in sources]
    made = tuple(column[..., 0] for column in columns)
    for k in range(1, columns[0].shape[-1]):
        made = combine(made, [column[..., k] for column in columns])
    return made


def _reference(
    dst: np.ndarray, src: np.ndarray, combine: CombineFunction, axis: tuple[int, ...] | None = None
) -> np.ndarray:
    (made,) = folded([src], axes_of({AXIS.name: axis}, src.ndim), combine)
    return np.asarray(made, dst.dtype).reshape(dst.shape)


REDUCE = TileOperation(
    name="reduce", operands=(DST, TileOperand("src", "the source"), *_OTHERS), attrs=(AXIS, COMBINE, VARIANT_NAME),
    meaning="dst, dst2, ... = src, src2, ..., reduced over axes by one function, in the order of the elements",
    example=(
        "def last(a, b): return tj.where(b != 0.0, b, a)\n"
        "x = tj.alloc_local((32,), tj.float32); tj.thread.reduce(x, tj.thread.load(A[0:32, 0:8]), 1, last)"
    ),
    reference=_reference, relation=axes.REDUCTION, shape_fault=_shape_fault,
    type_fault=partial(_type_fault, "reduce"),
)

REVERSE = Attribute("reverse", bool, "combine each element with the following ones, not the preceding ones", False)
EXCLUSIVE = Attribute("exclusive", bool, "leave out the element itself, which needs an initial value", False)

#: the operands that precede all elements of a scan, one for each value that the function combines
INITIAL = ("initial", "initial2", "initial3", "initial4")


#: the reductions of all prefixes of the elements along an axis
CUMULATIVE = {f"cum{name}": replace(REDUCTIONS[name], name=f"cum{name}") for name in ("sum", "prod", "max", "min")}


def exclusive_start(reduction: Reduction, dtype: DType, accumulates: DType) -> Value:
    """Return the first element of an exclusive cumulative reduction with results of type `dtype`."""
    value = reduction.of_nothing(accumulates)
    if value is not None:
        return value
    return reduction.combines == "minimum" if dtype == bool_ else reduction.identity(dtype)


def _scan_shape_fault(shapes: Shapes, attrs: Attributes) -> Fault | None:
    src = shapes["src"] or ()
    if len(axes_of(attrs, len(src))) != 1:
        return Fault("a scan is along one axis", "name it, as in axis=0")
    for dst, of in PAIRS:
        if (dst in shapes) != (of in shapes):
            return Fault(f"{dst} and {of} aren't both given", "give each source together with its destination")
    for name in [name for pair in _given(shapes) for name in pair]:
        if without_units(shapes[name] or ()) != without_units(src):
            return Fault(f"the tiles of a scan have shapes {src} and {shapes[name]}", "give tiles of one shape")
    return None


def _scan_type_fault(dtypes: DTypes, attrs: Attributes) -> Fault | None:
    fault = _type_fault("scan", dtypes, attrs)
    if fault is not None:
        return fault
    types = [dtypes[of] for _, of in _given(dtypes)]
    initial = [dtypes[name] for name in INITIAL if name in dtypes]
    if attrs.get(EXCLUSIVE.name) and not initial:
        return Fault("an exclusive scan needs initial=, the value of the first element", "give it, or scan inclusively")
    if initial and initial != types:
        given, taken = (", ".join(map(str, each)) for each in (initial, types))
        return Fault(f"initial= is of {given}; the scan combines {taken}", "give one value for each tile, of its type")
    return None


def scanned(
    sources: Sequence[np.ndarray], axis: int, combine: CombineFunction, *, reverse: bool = False,
    exclusive: bool = False, initial: Sequence[object] = (),
) -> tuple[np.ndarray, ...]:
    """Return the combinations of each element with all that precede it along an axis, from first to last."""
    step = -1 if reverse else 1
    columns = [np.moveaxis(x, axis, 0)[::step] for x in sources]
    rows: list[tuple[np.ndarray, ...]] = []
    before = tuple([np.full(c.shape[1:], x, c.dtype) for c, x in zip(columns, initial, strict=False)])
    for row in zip(*columns, strict=True):
        after = combine(before, row) if before else row
        rows.append(before if exclusive else after)
        before = after
    made = [np.asarray(each).reshape(c.shape) for each, c in zip(zip(*rows, strict=True), columns, strict=False)]
    return tuple([np.moveaxis(each[::step], 0, axis) for each in made or columns])


def _scan_reference(
    dst: np.ndarray, src: np.ndarray, combine: CombineFunction, axis: tuple[int, ...], *, initial: object = None,
    **attrs: bool,
) -> np.ndarray:
    first = () if initial is None else (initial,)
    (made,) = scanned([src], axis[0], combine, initial=first, **attrs)
    return np.asarray(made, dst.dtype).reshape(dst.shape)


SCAN = TileOperation(
    name="scan",
    operands=(
        DST, TileOperand("src", "the source"), *_OTHERS,
        *[TileOperand(name, kinds=(SCALAR,), optional=True) for name in INITIAL],
    ),
    attrs=(AXIS, COMBINE, REVERSE, EXCLUSIVE, VARIANT_NAME),
    meaning=(
        "dst = each element of src combined with all that precede it along an axis, by a function that must be "
        f"associative but needn't be commutative; for tuples of tiles, the function combines tuples. {GROUPING}. Costs "
        "per thread: for each run of its elements and each 32 bits at most log2(lanes) + log2(warps) + 1 shuffles, and "
        "one barrier if warps share rows"
    ),
    example=(
        "def last(a, b): return tj.where(b > 2.0, b, a)\n"
        "x = tj.alloc_shared((32, 8), tj.float32); tj.cta.scan(x, A[0:32, 0:8], 1, last)"
    ),
    reference=_scan_reference, relation=axes.SCAN, shape_fault=_scan_shape_fault, type_fault=_scan_type_fault,
    is_called=False,
)
