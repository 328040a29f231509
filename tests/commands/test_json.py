"""`--format json`: data of the documented types, with the facts of the text."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilejit as tj
from tests.commands.programs import COPY, VARIED
from tests.support.typed_data import conforming, leaves
from tilejit.__main__ import _parser, main
from tilejit.commands import schema

Print = Callable[..., str]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Print:
    """Runs a command in a folder with programs, and returns what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEJIT_DEVICE", "sim")
    Path("copy.py").write_text(COPY, encoding="utf-8")
    Path("varied.py").write_text(VARIED, encoding="utf-8")

    def run(*options: str) -> str:
        assert main(options) == 0
        return capsys.readouterr().out

    return run


def flat(text: str) -> str:
    return " ".join(text.split())


#: command -> its type, and the words of its text that are labels
COMMANDS: dict[tuple[str, ...], tuple[Any, str]] = {
    ("doctor",): (
        schema.DoctorDocument, "python on not installed GPUs none simulator checks are kernels cached in not on disk "
        "will be used compiling for because compiler unusable which is not writable new",
    ),
    ("explain", "copy.py"): (
        schema.ExplanationDocument, "line operation operations variant width rounds instructions per thread for tile x "
        "not",
    ),
    ("explain", "varied.py", "--all", "--target", "sm_90a"): (
        schema.ExplanationDocument, "line operation operations variant width rounds instructions per thread for tile x "
        "not by elements wider uncoalesced element memory times bits tensor map of elements dimensions fastest first "
        "box swizzle inserted because",
    ),
    ("count", "copy.py", "--grid", "1"): (
        schema.CountDocument, "for grid block instructions summed over threads line shared wavefronts ideal global "
        "sectors",
    ),
    ("layouts", "S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)]", "--shape", "8,8"): (schema.LayoutDocument, "shape"),
    ("layouts", "S[(4, 8) : (8, 1)] + R[2 : 32]"): (schema.LayoutDocument, "shape copy"),
}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_json_and_text_have_the_same_facts(printed: Print, command: tuple[str, ...]) -> None:
    kind, labels = COMMANDS[command]
    data = json.loads(printed(*command, "--format", "json"))
    text = flat(printed(*command)).replace(",", "")
    assert conforming(data, kind) == []
    assert (data["version"], data["tilejit"]) == (schema.VERSION, tj.__version__)
    facts = {flat(str(leaf)).replace(",", "") for leaf in leaves(data) if leaf is not None and leaf != ""}
    missing = {fact for fact in facts if fact not in text} - {"True", "False"}
    assert not missing, f"the text lacks {missing}"
    words = {word for fact in facts for word in re.findall(r"\w+", fact)} | set(labels.split())
    # the text alone counts the operations
    counts = {str(len(kernel.get("operations", ()))) for kernel in data.get("kernels", ())}
    copies = {str(number) for number in range(1, 3)} if "copy" in labels.split() else set()
    lacking = set(re.findall(r"\w+", text)) - words - counts - copies
    assert not lacking, f"the JSON lacks {lacking}"


def test_the_explanations_that_are_compared_have_every_kind_of_fact(printed: Print) -> None:
    kernels = json.loads(printed("explain", "varied.py", "--all", "--format", "json"))["kernels"]
    assert [kernel["kernel"] for kernel in kernels] == ["boxes", "apart"]
    for key in ("operations", "elements", "tensor_maps", "inserted", "notes"):
        assert any(kernel[key] for kernel in kernels), key
    operations = [operation for kernel in kernels for operation in kernel["operations"]]
    for key in ("uncoalesced", "not_wider", "declined", "instructions"):
        assert any(operation[key] for operation in operations), key


def test_variants_for_other_memory_spaces_are_data_only_if_all_are_asked_for(printed: Print) -> None:
    some, every = (
        json.loads(printed("explain", "varied.py", *options, "--format", "json"))["kernels"][1]["operations"][0]
        for options in ((), ("--all",))
    )
    assert len(some["declined"]) < len(every["declined"])
    assert all(declined in every["declined"] for declined in some["declined"])


def test_places_of_a_layout_are_those_of_each_element_of_each_copy(printed: Print) -> None:
    data = json.loads(printed("layouts", "S[(2, 3) : (1 @ laneid, 4)] + R[2 : 32]", "--format", "json"))
    assert data["shape"] == [2, 3]
    assert data["axes"] == [
        {"axis": "laneid", "copies": [[0, 0, 0, 1, 1, 1]] * 2},
        {"axis": "m", "copies": [[0, 4, 8, 0, 4, 8], [32, 36, 40, 32, 36, 40]]},
    ]


def test_every_command_with_json_is_in_the_table_of_types() -> None:
    (commands,) = (a for a in _parser()._actions if isinstance(a, argparse._SubParsersAction))
    documented = re.findall(r"^\| `(\w+)` \|", schema.__doc__ or "", re.MULTILINE)
    assert {name for name, parser in commands.choices.items() if "--format" in parser.format_usage()} == {*documented}


@pytest.mark.parametrize("option", ["--ptx", "--tile-ir", "--lane-ir", "--llvm"])
def test_texts_of_kernels_are_those_that_are_printed(printed: Print, option: str) -> None:
    data = json.loads(printed("explain", "varied.py", option, "--format", "json"))
    assert conforming(data, schema.TextDocument) == []
    boxes, apart = data["kernels"]
    assert printed("explain", "varied.py", option) == f"{boxes['text']}\n\n{apart['text']}\n"
    assert (boxes["kernel"], boxes["target"], boxes["threads"]) == ("boxes", "sm_90a", 64)
    assert boxes["shared_bytes"] >= 64 * 128 * 2 and boxes["kind"] == option[2:].replace("-", "_").replace(
        "llvm", "llvm_ir"
    )


def test_instructions_of_the_simulator_are_those_of_its_table(printed: Print) -> None:
    data = json.loads(printed("simulator", "--format", "json"))
    assert conforming(data, schema.InstructionDocument) == []
    text = printed("simulator")
    assert text.startswith(data["notation"]) and data["unknown"] == []
    # the text breaks long modifiers and notes into lines
    joined = re.sub(r"\s", "", text)
    for row in data["instructions"]:
        opcodes = "|".join(row["opcodes"])
        assert re.sub(r"\s", "", row["topic"]) in joined and row["opcodes"]
        assert (f"({opcodes})" if len(row["opcodes"]) > 1 else opcodes)[:60] in joined
        assert row["fidelity"] in text and row["note"][:20] in text
    rows = text.removeprefix(data["notation"]).splitlines()
    started = [line for line in rows if re.match(r"\S.*  (exact|approximate|unsupported)", line)]
    assert len(started) == len(data["instructions"]) > 100


def test_counts_are_those_of_the_simulator(printed: Print) -> None:
    data = json.loads(printed("count", "copy.py", "--grid", "1", "--format", "json"))
    scope: dict[str, Any] = {}
    path = Path("copy.py")
    exec(compile(path.read_text(encoding="utf-8"), str(path.resolve()), "exec"), scope)
    arrays = [np.zeros((32, 8), np.float32) for _ in range(2)]
    report = tj.simulate(scope["copy"], 1, *arrays, profile=True)
    assert data["instructions"] == report.thread_instructions
    assert {each["instruction"]: each["times"] for each in data["by_instruction"]} == report.instructions
    # each of two copies moves 1,024 bytes through both memories: 8 wavefronts of 128 and 32 sectors of 32
    moved = {line["line"]: (line["wavefronts"], line["sectors"]) for line in data["lines"] if line["sectors"]}
    assert moved == {7: (8, 32), 9: (8, 32)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("count", "copy.py", "--grid", "x"), "--grid x is not one to three integers"),
        (("count", "copy.py", "--grid", "1,1,1,1"), "--grid 1,1,1,1 is not one to three integers"),
        (("count", "copy.py", "--grid", "1", "--spec", "C=3"), "copy has no parameter 'C'"),
        (("count", "scaled.py", "--grid", "1", "--spec", "A=float32[32]"), "to run scaled, n needs a value"),
        (("count", "scaled.py", "--grid", "1", "--spec", "A=float32[32]", "--spec", "n=int32"), "n needs a value"),
        (("count", "scaled.py", "--grid", "1", "--spec", "n=3"), "to run scaled, A needs a value"),
        (("count", "scaled.py", "--grid", "2", "--spec", "A=float32[32]", "--spec", "n=3"), "race in global memory"),
        (("count", "scaled.py", "--grid", "1", "--spec", f"A=int8[{'9' * 20}]", "--spec", "n=3"), "99 bytes; at most"),
        (("count", "copy.py", "--grid", "9" * 5000), "is not one to three integers"),
        (("layouts", "S[(4, 8)"), "S[(4, 8) raised SyntaxError"),
        (("layouts", "1 / 0"), "1 / 0 raised ZeroDivisionError"),
        (("layouts", "3"), "3 is an int"),
        (("layouts", "Swizzle(3, 3, 3)"), "is a swizzle, which needs a layout"),
        (("layouts", "S[(4, 8) : (8, 1)]", "--shape", "3,8"), "has 32 elements, but shape (3, 8) has 24"),
        (("layouts", "S[(4, 8) : (8, 1)]", "--shape", "a"), "--shape a is not integers"),
        (("layouts", "S[(512, 512) : (512, 1)]"), "has 262,144 places; at most 65,536"),
        (("layouts", "S[(4, 8) : (8, 1)]", "--shape", "9" * 5000), "is not integers"),
        (("layouts", "S[(4, 8) : (8, 1)]", "--shape=-4,-8"), "--shape -4,-8 is not integers"),
        (("layouts", "S[(4, 8) : (8, 10**5000)]"), "raised ValueError"),
        (("layouts", "S[(4, 8) : (8, 2**70)]"), "has places beyond 64 bits"),
    ],
)
def test_bad_input_is_refused_in_words(
    printed: Print, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    Path("scaled.py").write_text(
        "import tilejit as tj\n@tj.kernel(threads=32)\ndef scaled(A: tj.Tensor, n: tj.int32):\n"
        "    A[tj.thread_id()] = n + tj.cta_id()\n", encoding="utf-8",
    )
    assert main(arguments) == 1
    shown = capsys.readouterr()
    assert message in shown.err and "help: " in shown.err and not shown.out


PRINTING = """
import tilejit as tj

def prune(configs, arguments):
    print("pruning")
    return configs

@tj.autotune(configs=[tj.Config({"N": 1}), tj.Config({"N": 2})], key=[], prune=prune)
@tj.kernel(threads=32)
def k(A: tj.Tensor, N: tj.constexpr):
    if tj.thread_id() == 0:
        print("value", A[0])
"""


@pytest.mark.parametrize("command", [("explain",), ("explain", "--ptx"), ("count", "--grid", "1")], ids=" ".join)
def test_output_of_kernels_and_their_functions_is_not_mixed_with_data(printed: Print, command: tuple[str, ...]) -> None:
    Path("printing.py").write_text(PRINTING, encoding="utf-8")
    name, *options = command
    data = json.loads(printed(name, "printing.py", *options, "--spec", "A=float32[32]", "--format", "json"))
    assert data["version"] == schema.VERSION


def test_output_of_a_layout_s_expression_is_not_mixed_with_data(printed: Print) -> None:
    data = json.loads(printed("layouts", "print('a layout') or S[(4, 8) : (8, 1)]", "--format", "json"))
    assert data["shape"] == [4, 8]


def test_none_as_an_argument_replaces_a_default(printed: Print) -> None:
    Path("optional.py").write_text(
        "import tilejit as tj\n@tj.kernel(threads=32)\ndef k(A: tj.Tensor, c: tj.constexpr = 3):\n"
        "    if c is not None:\n        A[tj.thread_id()] = c\n", encoding="utf-8",
    )
    options = ("count", "optional.py", "--grid", "1", "--spec", "A=int32[32]", "--format", "json")
    assert "st.global" in printed(*options)
    assert "st.global" not in printed(*options, "--spec", "c=None")


@pytest.mark.parametrize("spec", ["A=float32[4, 8]:(1, -4)", "A=int8[3, 8]", "A=bool_[32]", "A=float16[0]"])
def test_arrays_of_any_strides_and_types_are_made(printed: Print, spec: str) -> None:
    Path("sums.py").write_text(
        "import tilejit as tj\n@tj.kernel(threads=32)\ndef nothing(A: tj.Tensor):\n    pass\n", encoding="utf-8"
    )
    data = json.loads(printed("count", "sums.py", "--grid", "2,3", "--spec", spec, "--format", "json"))
    assert data["grid"] == [2, 3, 1] and data["instructions"] >= 6 * 32
