"""Bad input to `python -m tilejit check`: the exit status is 3, and the message says what is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.sanitize.kernels_ptx import ONE, SCALE, SCALE_ARGS, Run
from tilejit.sanitize import command


def scale_with(*arguments: str) -> tuple[str, ...]:
    return (*SCALE, *(x for argument in arguments for x in ("--arg", argument)))


#: name -> options, and what standard error must say
BAD: dict[str, tuple[tuple[object, ...], str]] = {
    "no file": ((), "the following arguments are required: FILE"),
    "missing file": (("none.ptx",), "no such file: none.ptx"),
    "folder": (("folder.ptx",), "can't read folder.ptx: "),
    "binary": (("binary.ptx",), "can't read binary.ptx: it is not UTF-8 text"),
    "empty": (("empty.ptx",), "empty.ptx is not PTX: it has no .version directive"),
    "text": (("text.ptx", "scale", *ONE), "text.ptx is not PTX: it has no .version directive"),
    "other suffix": (("k.py",), "k.py is neither PTX nor CUDA C++"),
    "no suffix": (("Makefile", "k"), "Makefile is neither PTX nor CUDA C++"),
    "missing kernel": (("k.ptx", "frob", *ONE), "k.ptx has no kernel frob\nhelp: its kernels are: reverse, "),
    "misspelled kernel": (("k.ptx", "revers", *ONE), "k.ptx has no kernel revers\nhelp: did you mean reverse?"),
    "arguments without kernel": (("k.ptx", "--arg", "f32[8]"), "--grid, --block and --arg require a kernel"),
    "SARIF without kernel": (("k.ptx", "--format", "sarif"), "a list of kernels is not SARIF"),
    "no grid": (("k.ptx", "scale", "--block", 4), "--grid is missing"),
    "no block": (("k.ptx", "scale", "--grid", 4), "--block is missing"),
    "too many extents": (("k.ptx", "scale", "--grid", "1,2,3,4", "--block", 4), "--grid 1,2,3,4 is not one to three"),
    "grid of zero": (("k.ptx", "scale", "--grid", 0, "--block", 4), "--grid 0 has an extent of 0"),
    "negative grid": (("k.ptx", "scale", "--grid=-1", "--block", 4), "--grid -1 is not one to three integers"),
    "word for a grid": (("k.ptx", "scale", "--grid", "many", "--block", 4), "--grid many is not one to three integers"),
    "part of an extent": (("k.ptx", "scale", "--grid", "1.5", "--block", 4), "--grid 1.5 is not one to three integers"),
    "empty extents": (("k.ptx", "scale", "--grid", "", "--block", "4,"), "--grid  is not one to three integers"),
    "large block": (("k.ptx", "scale", "--grid", 1, "--block", "64,32", *SCALE_ARGS), "a CTA has at most 1024"),
    "large grid": (("k.ptx", "scale", "--grid", 1 << 40, "--block", 1, *SCALE_ARGS), "--grid 1099511627776 exceeds"),
    "long block": (("k.ptx", "scale", "--grid", 1, "--block", 1025, *SCALE_ARGS), "--block 1025 exceeds the limits of"),
    "no arguments": (SCALE, "app::scale takes 3 arguments, got 0; the parameters of app::scale are:\n  0: "),
    "too few arguments": (scale_with("f32[8]", "i32:8"), "app::scale takes 3 arguments, got 2; the parameters of"),
    "too many arguments": (scale_with("f32[8]", "i32:8", "f32:1", "f32:2"), "app::scale takes 3 arguments, got 4"),
    "array for a scalar": (
        scale_with("f32[8]", "f32[8]", "f32:1"),
        "--arg f32[8], argument 1, is an address of 8 bytes, but parameter 1 has 4; the parameters of app::scale are:",
    ),
    "scalar for an array": (
        scale_with("i32:8", "i32:8", "f32:1"), "argument 0, is a value of 4 bytes, but parameter 0 has 8; the"
    ),
    "short structure": (("k.ptx", "structure", *ONE, "--arg", "bytes:00ff"), "a value of 2 bytes, but s has 16"),
    "words": (scale_with("hello", "i32:8", "f32:1"), "--arg hello: it has none of the known forms\nhelp: write "),
    "unknown type": (scale_with("q32[8]", "i32:8", "f32:1"), "--arg q32[8]: q32 is not an element type; these are: "),
    "unknown type of a scalar": (scale_with("f32[8]", "n:q32:8", "f32:1"), "--arg n:q32:8: q32 is not an element type"),
    "two names": (scale_with("f32[8]", "n:m:i32:8", "f32:1"), "--arg n:m:i32:8: it has two names, n and m"),
    "words as extents": (scale_with("f32[n]", "i32:8", "f32:1"), "--arg f32[n]: the extents [n] are not integers"),
    "negative extent": (scale_with("f32[-8]", "i32:8", "f32:1"), "--arg f32[-8]: an extent is negative"),
    "huge array": (scale_with("f32[99999999999]", "i32:8", "f32:1"), "the array has 399,999,999,996 bytes; at most "),
    "open bracket": (scale_with("f32[8", "i32:8", "f32:1"), "--arg f32[8: it has none of the known forms"),
    "words as a value": (scale_with("f32[8]", "i32:many", "f32:1"), "--arg i32:many: many is not a value of int32"),
    "too large a value": (scale_with("f32[8]", "i32:2147483648", "f32:1"), "2147483648 is not a value of int32"),
    "negative unsigned value": (scale_with("f32[8]", "u32:-1", "f32:1"), "--arg u32:-1: -1 is not a value of uint32"),
    "fraction": (scale_with("f32[8]", "i32:1.5", "f32:1"), "--arg i32:1.5: 1.5 is not a value of int32"),
    "third truth value": (scale_with("f32[8]", "b8:2", "f32:1"), "--arg b8:2: 2 is not a value of bool"),
    "bad fill": (scale_with("f32[8]=x", "i32:8", "f32:1"), "--arg f32[8]=x: x is not a value of float32"),
    "output with a value": (scale_with("out:f32[8]=0", "i32:8", "f32:1"), "only an array without a value can be an"),
    "output scalar": (scale_with("f32[8]", "out:i32:8", "f32:1"), "only an array without a value can be an output"),
    "odd digits": (("k.ptx", "structure", *ONE, "--arg", "bytes:0"), "the bytes must be pairs of hexadecimal digits"),
    "missing array": (scale_with("none.npy", "i32:8", "f32:1"), "--arg none.npy: NumPy can't load none.npy: "),
    "text as an array": (scale_with("text.npy", "i32:8", "f32:1"), "--arg text.npy: NumPy can't load text.npy: "),
    "empty array file": (scale_with("empty.npy", "i32:8", "f32:1"), "--arg empty.npy: NumPy can't load empty.npy: "),
    "pickled array": (scale_with("pickled.npy", "i32:8", "f32:1"), "--arg pickled.npy: NumPy can't load pickled.npy: "),
    "several arrays": (scale_with("several.npy", "i32:8", "f32:1"), "--arg several.npy: several.npy holds several"),
    "no schedules": ((*SCALE, *SCALE_ARGS, "--schedules", 0), "--schedules 0 is not an integer of at least 1"),
    "word for schedules": ((*SCALE, *SCALE_ARGS, "--schedules", "x"), "--schedules x is not an integer of at least 1"),
    "bad shared": ((*SCALE, *SCALE_ARGS, "--shared", "4K"), "--shared 4K is not an integer of at least 0"),
    "bad seed": ((*SCALE, *SCALE_ARGS, "--seed", "1e3"), "--seed 1e3 is not an integer of at least 0"),
    "unknown checks": ((*SCALE, *SCALE_ARGS, "--checks", "some"), "argument --checks: invalid choice: 'some'"),
    "unknown format": (("k.ptx", "--format", "xml"), "argument --format: invalid choice: 'xml'"),
    "unknown option": (("k.ptx", "--frob"), "unrecognized arguments: --frob"),
    "architecture of PTX": (("k.ptx", "--arch", "sm_80"), "--arch sm_80: PTX is compiled already"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_ends_with_3_and_says_what_is_wrong(run: Run, case: str) -> None:
    Path("folder.ptx").mkdir()
    Path("binary.ptx").write_bytes(b"\x7fELF\xff\xfe\x00")
    Path("empty.ptx").touch()
    Path("text.ptx").write_text("hello, world\n")
    Path("text.npy").write_text("hello, world\n")
    Path("empty.npy").touch()
    np.save("pickled.npy", np.array([{}], dtype=object), allow_pickle=True)
    with open("several.npy", "wb") as file:
        np.savez(file, a=np.zeros(8), b=np.zeros(8))
    options, expected = BAD[case]
    status, out, err = run(*options)
    assert expected in err
    assert (status, out) == (command.BAD_INPUT, "")
