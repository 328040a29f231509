"""Tile IR is pickled for the processes that compile: what comes back is the same kernel, of the same records."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest
from hypothesis import given, settings

import tilejit as tj
from tests.frontend.test_random_programs import deep_programs, programs
from tests.ir.examples import EXPRESSIONS, PARAMETERS, PLACES, STATEMENTS, Example
from tests.ops.test_tile import GIVEN, type_of
from tests.support.drafts import Operation
from tests.support.example_sizes import EXAMPLES, Make
from tests.support.operations import operations
from tests.support.programs import array, tile_ir
from tilejit import dtypes
from tilejit.ir import nodes as ir
from tilejit.ir import walk
from tilejit.ops.tile import TILE_OPERATIONS
from tilejit.runtime.workers import _question, _Unpickler
from tilejit.target import target

NODES = {**STATEMENTS, **EXPRESSIONS, **PLACES, **PARAMETERS}


class Noting(pickle.Pickler):
    """Notes what it pickles that compares by identity, but for what pickle itself finds by its name."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), pickle.HIGHEST_PROTOCOL)
        self.unique: list[Any] = []

    def reducer_override(self, value: Any) -> Any:
        # pickle asks only of what isn't a plain value
        if type(value).__eq__ is object.__eq__ and not isinstance(value, type) and not callable(value):
            self.unique.append(value)
        return NotImplemented


def by_identity(value: object) -> list[Any]:
    pickler = Noting()
    pickler.dump(value)
    return pickler.unique


def spans(kernel: ir.Kernel) -> Iterator[object]:
    """The places of its statements and of their memory, which count for nothing in a comparison."""
    for stmt in walk.statements(kernel.body):
        yield getattr(stmt, "span", None)
        yield from ((place.span, place.buffer.span) for place in (*walk.reads(stmt), *walk.writes(stmt)))


class Read(Exception):
    """A kernel was read, and isn't compiled."""

    def __init__(self, tile: ir.Kernel) -> None:
        super().__init__(tile.name)
        self.tile = tile


def reading(tile: ir.Kernel, *_: object) -> NoReturn:
    raise Read(tile)


def travels(kernel: ir.Kernel) -> None:
    question = _question(kernel, target(kernel.target))
    assert question is not None
    arrived, name = _Unpickler(io.BytesIO(question)).load()
    # as text, because a NaN differs from itself
    assert repr(arrived) == repr(kernel) and name == kernel.target
    assert list(spans(arrived)) == list(spans(kernel))
    for one in by_identity(kernel):
        assert pickle.loads(pickle.dumps(one)) is one, f"another {type(one).__name__} arrives: {one}"


@pytest.mark.parametrize("name", TILE_OPERATIONS)
def test_the_record_of_an_operation_is_found_by_its_name(name: str) -> None:
    record = TILE_OPERATIONS[name]
    assert pickle.loads(pickle.dumps(record)) is record and copy.deepcopy(record) is record
    lines = "".join(f"    {line}\n" for line in record.example.splitlines())
    head = GIVEN if name == "gemm" else "def k(A, B):\n"
    travels(tile_ir(head + lines, array(type_of(name), rank=2), array(dtypes.float16, rank=2), threads=128))


@pytest.mark.parametrize("example", NODES.values(), ids=NODES)
def test_every_class_of_nodes_travels(example: Example) -> None:
    travels(example.sound)


@pytest.mark.parametrize("make", EXAMPLES.values(), ids=EXAMPLES)
def test_the_kernels_of_the_examples_travel(make: Make) -> None:
    kernel = tj.Kernel(make.kernel.__wrapped__, make.kernel.options)
    variants, request, _ = kernel.request(make.arguments, make.constexprs, make.target, make.threads)
    with pytest.raises(Read) as read:
        variants.variant(request, reading)
    travels(read.value.tile)


@given(programs())
def test_random_programs_travel(text: str) -> None:
    travels(tile_ir(text, array(dtypes.int32), dtypes.int32))


@settings(max_examples=settings.default.max_examples // 3)
@given(deep_programs())
def test_deeply_nested_programs_travel(text: str) -> None:
    travels(tile_ir(text, array(dtypes.int32), dtypes.int32))


@given(operations())
def test_random_operations_travel(operation: Operation) -> None:
    travels(ir.Kernel("k", (), operation.threads, operation.target.name, (operation.op,)))
