"""An executable as text is the executable."""

import json
from dataclasses import fields, replace

import pytest

import tilejit as tj
from tests.executable.kernels import EXECUTABLES
from tilejit.dtypes import MEMORY_TYPES
from tilejit.executable import Executable, Usage
from tilejit.executable.encoding import decoded, encoded, executable_from_json, executable_to_json, moved_ptx
from tilejit.ir.types import ConstexprType, Signature
from tilejit.layout import S, Swizzle, laneid


def through_text(value):
    return json.loads(json.dumps(value))


def read_back(signature):
    return Signature(decoded(through_text(encoded(signature.arguments))))


def test_an_executable_is_read_back_as_it_was(compiled):
    executable = compiled.executable
    record = through_text(executable_to_json(executable))
    assert executable_from_json(record, executable.signature, executable.ptx) == executable
    assert read_back(executable.signature) == executable.signature


def test_every_part_of_an_executable_differs_somewhere():
    """Else the test above could miss a part that isn't written."""
    executables = [make().executable for make in EXECUTABLES.values()]
    never = {"usage", "machine_code"}
    for part in fields(Executable):
        seen = [getattr(executable, part.name) for executable in executables]
        assert part.name in never or any(value != seen[0] for value in seen), part.name


def test_what_a_driver_said_is_read_back(compiled):
    executable = replace(compiled.executable, usage=Usage(40, 16, False))
    record = through_text(executable_to_json(executable))
    assert executable_from_json(record, executable.signature, executable.ptx) == executable


def test_every_place_keeps_the_calls_through_which_it_was_inlined():
    executable = EXECUTABLES["checked"]().executable
    (assertion,) = [a for a in executable.assertions if a.message == "nothing to do"]
    assert assertion.span.caller is not None and assertion.span.caller.text.strip().startswith("B[row")
    again = executable_from_json(executable_to_json(executable), executable.signature, executable.ptx)
    assert assertion in again.assertions
    assert executable.watched and again.watched == executable.watched


def test_a_file_that_has_moved_is_named_as_it_is_now():
    executable = EXECUTABLES["checked"]().executable
    record = executable_to_json(executable)
    (file,) = record["files"]
    moved = executable_from_json(record, executable.signature, executable.ptx, ["/elsewhere.py"])
    assert {span.file for span in moved.spans} == {"/elsewhere.py"} and moved.assertions[0].span.file == "/elsewhere.py"
    assert moved.spans[0] == replace(executable.spans[0], file="/elsewhere.py")
    ptx = moved_ptx(executable.ptx, [file], ["/elsewhere.py"])
    assert ptx == executable.ptx.replace(f'"{file}"', '"/elsewhere.py"') != executable.ptx


def test_files_that_change_places_keep_their_numbers():
    ptx = '\t.file\t1 "/a.py"\n\t.file\t2 "/b.py"\n\tmov "/a.py"\n'
    expected = '\t.file\t1 "/b.py"\n\t.file\t2 "/a.py"\n\tmov "/a.py"\n'
    assert moved_ptx(ptx, ["/a.py", "/b.py"], ["/b.py", "/a.py"]) == expected
    # a name that LLVM would have to escape isn't written
    assert moved_ptx(ptx, ["/a.py"], ['/with"quote.py']) == ptx


@pytest.mark.parametrize(
    "value",
    [
        None, True, 1, -(2**80), 1.5, -0.0, float("inf"), float("nan"), "text\nü", (), (1, (2.0, "x")), tj.bfloat16,
        S[(32, 8) : (1 @ laneid, 1)], S[(8, 64) : (64, 1)].swizzled(Swizzle(3, 3, 3)), Swizzle(3, 4, 3, inner=False),
    ],
    ids=repr,
)
def test_a_compile_time_value_is_read_back_with_its_type(value):
    signature = Signature((("N", ConstexprType.of(value)),))
    again = read_back(signature)
    assert again == signature
    ((_, kind),) = again.arguments
    assert type(kind.value) is type(value) and repr(kind.value) == repr(value)


def test_a_value_that_only_a_process_has_equals_no_other():
    signature = Signature((("f", ConstexprType.of(print)),))
    again = read_back(signature)
    ((_, kind),) = again.arguments
    assert repr(kind.value) == repr(print) and kind.value != print and kind.value != repr(print)


@pytest.mark.parametrize("dtype", MEMORY_TYPES.values(), ids=str)
def test_every_type_that_memory_holds_is_restored(dtype):
    assert decoded(through_text(encoded(dtype))) is dtype
