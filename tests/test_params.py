"""Every kind of kernel parameter has all its parts: text, verification, code, and what each device passes."""

import json
import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from tests.support.lane_kernels import kernel
from tilejit import dtypes
from tilejit.codegen import generate
from tilejit.dtypes import float32, int8, int64
from tilejit.errors import assert_never
from tilejit.executable import Executable
from tilejit.executable.encoding import decoded, encoded
from tilejit.executable.header import c_header
from tilejit.executable.record import Field, Packing, field_of
from tilejit.ir import verify
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import (
    Assert,
    Buffer,
    Var,
)
from tilejit.ir.params import (
    AddressParam,
    AssertionsParam,
    BarrierParam,
    BoxShare,
    ExtentParam,
    Param,
    PointerParam,
    ScalarParam,
    StrideParam,
    TensorMapParam,
    TensorMapSpec,
    written_arguments,
)
from tilejit.ir.text.parser import from_text
from tilejit.ir.text.printer import to_text
from tilejit.ir.types import Signature
from tilejit.layout import TileLayout
from tilejit.lower.passes import grid_barrier
from tilejit.runtime.packing import Workspace, argument_of, getter
from tilejit.runtime.readers import view_of
from tilejit.runtime.simulated import parameter_value
from tilejit.runtime.tensor_maps import MappedArray, ParameterMaps
from tilejit.simulator import Pointer, TensorMap
from tilejit.simulator.decode.parser import parse
from tilejit.simulator.decode.ptx import PtxParam
from tilejit.target import target

A = Buffer("A", "global", float32, (4, 8), TileLayout.row_major((4, 8)), 16)

EXAMPLES: dict[type, Param] = {
    PointerParam: PointerParam("A", A, written=True),
    ScalarParam: ScalarParam("n", Var("n", int8)),
    ExtentParam: ExtentParam("A", Var("A.shape.1", int64), 1),
    StrideParam: StrideParam("A", Var("A.stride.0", int64), 0),
    AddressParam: AddressParam("A", Var("A.address", int64)),
    AssertionsParam: AssertionsParam(),
    BarrierParam: BarrierParam(grid_barrier.BARRIER),
    TensorMapParam: TensorMapParam(
        Var("A.map", int64), TensorMapSpec("A", float32, (1, 0), (8, 4), "32B"), written=True,
        shares=(BoxShare((0, 4), 128), BoxShare((8, 0), 1024)),
    ),
}
KINDS = pytest.mark.parametrize("kind", get_args(Param), ids=lambda kind: kind.__name__)

POSITIONS = {"A": 0, "n": 1}


def arguments():
    return view_of(np.zeros((4, 16), np.float32)[:, ::2]), 3


def declared(params: Sequence[Param]) -> tuple[PtxParam, ...]:
    """What the PTX says of the parameters."""
    text = generate(kernel([], params), target("sm_90a")).ptx
    (parsed,) = parse(text).kernels.values()
    return parsed.params


@KINDS
def test_it_has_an_example_here(kind):
    assert kind in EXAMPLES, f"add an example of {kind.__name__}"


@KINDS
def test_a_generated_launcher_knows_whether_it_is_written_at_each_launch(kind):
    example = EXAMPLES[kind]
    follows = kind in (PointerParam, AddressParam, ScalarParam, TensorMapParam)
    assert argument_of(example) == (example.of if follows else None)


@KINDS
def test_its_text_is_read_back(kind):
    made = kernel([], [EXAMPLES[kind]])
    assert from_text(to_text(made)) == made


@KINDS
def test_it_is_verified(kind):
    assert verify.verify(kernel([], [EXAMPLES[kind]]), "lane") == []


@KINDS
def test_it_is_declared_in_its_size_and_alignment(kind):
    before, param = EXAMPLES[ScalarParam], EXAMPLES[kind]
    if kind is ScalarParam:
        before = replace(before, var=Var("m", int8))
    _, parameter = declared([before, param])
    assert (parameter.offset, parameter.size_bytes) == (param.align_bytes, param.size_bytes)


@KINDS
def test_it_is_kept_and_declared_in_c(kind):
    param = EXAMPLES[kind]
    assert decoded(json.loads(json.dumps(encoded(param)))) == param
    offsets = Packing([field_of(param), field_of(EXAMPLES[PointerParam])]).offsets
    made = Executable(
        "k", "k", target("sm_90a"), Signature(()), 32, None, False, (param, EXAMPLES[PointerParam]), 0, False, 0, ""
    )
    assert made.packing.offsets == offsets and f"== {offsets[1]}," in c_header(made)


@KINDS
def test_a_gpu_gets_its_value_in_its_size(kind):
    param, (view, n) = EXAMPLES[kind], arguments()
    expected = {PointerParam: view.pointer, ScalarParam: n, ExtentParam: 8, StrideParam: 16, AssertionsParam: 77}
    expected[AddressParam] = view.pointer
    expected[BarrierParam] = 88
    expected[TensorMapParam] = bytes((0, 8, 4, 1)) * 32

    def encode(spec: TensorMapSpec, address: int, array: MappedArray) -> bytes:
        assert (spec.of, address, array.strides) == ("A", view.pointer, (64,))
        return bytes((0, *array.dims, 1)) * 32

    workspace = Workspace(77, lambda: 88, lambda of: ParameterMaps(of, encode))
    assert getter(param, POSITIONS, workspace)((view, n)) == expected[kind]
    assert struct.calcsize("<" + field_of(param).code) == param.size_bytes


@KINDS
def test_the_simulator_gets_its_value_in_its_size(kind):
    param, record, given = EXAMPLES[kind], np.zeros(AssertionsParam.RECORD_BYTES, np.uint8), arguments()
    value = parameter_value(param, POSITIONS, given, record, profile=False)
    if isinstance(value, Pointer):
        assert value.name == {AssertionsParam: "assertions", BarrierParam: "barrier"}.get(kind, "A")
        assert kind is not BarrierParam or bytes(value.memory) == bytes(4)
    elif isinstance(value, TensorMap):
        assert value.array.memory.size == 252 and value.array.writable
        assert (value.dims, value.strides, value.box, value.swizzle) == ((8, 4), (64,), (8, 4), "32B")
        assert (value.element_bytes, value.element_type) == (4, "float32")
    else:
        expected = {ScalarParam: np.int8(3), ExtentParam: np.int64(8), StrideParam: np.int64(16)}
        expected[AddressParam] = np.int64(given[0].pointer)
        assert value == expected[kind] and value.nbytes == param.size_bytes


@pytest.mark.parametrize("name", dtypes.DTYPES)
def test_a_scalar_of_every_type_is_declared_and_packed_in_its_size(name):
    param = ScalarParam("x", Var("x", dtypes.DTYPES[name]))
    (parameter,) = declared([param])
    assert parameter.size_bytes == param.size_bytes == struct.calcsize("<" + field_of(param).code)


def test_the_block_holds_parameters_of_any_size_and_alignment():
    fields = [Field("b", 1), Field("Q", 8), Field("b", 1), Field("128s", 64), Field("h", 2)]
    packing = Packing(fields)
    assert packing.offsets == (0, 8, 16, 64, 192) and packing.align_bytes == 64 and packing.size_bytes == 194
    block = bytearray(packing.size_bytes)
    packing.pack_into(block, 0, 1, 2, 3, bytes(range(128)), 4)
    assert block[64:192] == bytes(range(128)) and block[192:] == struct.pack("<h", 4)


def test_only_what_the_kernel_writes_through_names_its_argument():
    boxes = TensorMapSpec("C", float32, (0,), (4, 1), "none")
    params = [PointerParam("B", A), TensorMapParam(Var("C.map", int64), boxes)]
    assert written_arguments(params) == set()
    assert written_arguments([*params, *EXAMPLES.values()]) == {"A"}


def test_a_class_without_a_case_is_named():
    with pytest.raises(AssertionError, match="no case for int"):
        assert_never(3)


def test_an_array_called_assertions_is_no_record():
    check = Assert(build.greater(Var("n", int8), 0), "n must be positive")
    array = replace(A, name="assertions")
    made = generate(kernel([check], [PointerParam("assertions", array), EXAMPLES[ScalarParam]]), target("sm_90a"))
    assert made.assertions == () and "atom." not in made.ptx
