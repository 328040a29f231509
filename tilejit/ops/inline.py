"""The tile operation `ptx`, which runs inline PTX on each element."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

import numpy as np

from ..dtypes import DType
from ..isa.inline import MOST_INPUTS, MOST_OUTPUTS, InlineForm, TextError, read
from . import axes
from .broadcast import broadcast_fault
from .copies import DST, VARIANT_NAME
from .record import SCALAR, TILE, Attribute, Attributes, DTypes, Fault, Shapes, TileOperand, TileOperation

TEXT = Attribute("text", str, "the instructions, without comments, and with single spaces")
COUNT = Attribute("outputs", int, "the number of outputs; if it is 0, dst becomes 0")
IS_PURE = Attribute("is_pure", bool, "True if the text only computes its outputs from its inputs")

#: the names of the outputs and of the inputs
OUTPUTS = ("dst", *(f"dst{k}" for k in range(2, MOST_OUTPUTS + 1)))
INPUTS = ("src", *(f"src{k}" for k in range(2, MOST_INPUTS + 1)))


def _operands() -> Iterator[TileOperand]:
    """Yield outputs and inputs in turn, so that calls with few operands omit few."""
    yield DST
    for dst, src in zip_longest(OUTPUTS[1:], INPUTS):
        yield TileOperand(src, kinds=(TILE, SCALAR), optional=True)
        if dst is not None:
            yield TileOperand(dst, optional=True, read=False, written=True)


def form_of(dtypes: DTypes, attrs: Attributes) -> InlineForm:
    """Return the form of an operation's instruction. dtypes: the operands' types, by name."""
    types: list[tuple[DType, ...]] = [tuple([dtypes[n] for n in names if n in dtypes]) for names in (OUTPUTS, INPUTS)]
    count = attrs.get(COUNT.name)
    assert isinstance(count, int)
    return InlineForm(str(attrs.get(TEXT.name)), types[0][:count], types[1], bool(attrs.get(IS_PURE.name)))


def _shapes(shapes: Shapes, attrs: Attributes) -> Fault | None:
    for name in OUTPUTS:
        if name in shapes and shapes[name] != shapes["dst"]:
            return Fault(f"{name} has shape {shapes[name]}, dst {shapes['dst']}", "give the outputs one shape")
    return broadcast_fault(shapes, attrs)


def _types(dtypes: DTypes, attrs: Attributes) -> Fault | None:
    missing = [each.name for each in (TEXT, COUNT) if not isinstance(attrs.get(each.name), each.type)]
    if missing:
        return Fault(f"ptx needs {' and '.join(missing)}", "give the text and the number of its outputs")
    form, present = form_of(dtypes, attrs), sum(name in dtypes for name in OUTPUTS)
    if present != max(len(form.outputs), 1):
        return Fault(f"{present} destinations are given for {len(form.outputs)} outputs", "give one for each output")
    try:
        read(form.text, len(form.outputs), len(form.inputs))
    except TextError as error:
        return Fault(f"{error.message} at {error.place} of the text", error.hint)
    return None


def _reference(dst: np.ndarray, text: str = "", outputs: int = 1, is_pure: bool = True) -> np.ndarray:
    """Return the result without outputs; NumPy has no meaning for the text of a call with outputs."""
    assert outputs == 0, f"only PTX defines the outputs of {text!r}"
    return np.zeros_like(dst)


PTX = TileOperation(
    name="ptx", operands=tuple(_operands()), attrs=(TEXT, COUNT, IS_PURE, VARIANT_NAME),
    meaning="dst, dst2, ... = the outputs of inline PTX for the elements of src, src2, ...",
    example='x = tj.cta.load(A[0:32, 0:8])\ny = tj.ptx("rcp.approx.f32 $0, $1;", out=tj.float32, inputs=(x,))',
    reference=_reference, relation=axes.ELEMENTWISE, shape_fault=_shapes, type_fault=_types, is_called=False,
)
