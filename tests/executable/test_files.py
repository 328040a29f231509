"""Executables in files: read as they were written, or refused."""

import contextlib
import json
import subprocess
from dataclasses import replace

import pytest

import tilejit as tj
from tests.executable.kernels import EXECUTABLES
from tests.support.ptxas import ptxas_accepts, ptxas_path
from tilejit.executable import MachineCode
from tilejit.executable import files as executable_files
from tilejit.executable.files import read_executable, saved

#: any bytes will do
CODE = MachineCode(b"\x7fELF" + bytes(range(256)) * 4, 90)


def written(executable, folder):
    path = folder / ("k.ptx" if executable.machine_code is None else "k.cubin")
    path.write_bytes(saved(executable))
    return path


@pytest.mark.parametrize("code", [None, CODE], ids=["ptx", "cubin"])
def test_a_file_is_read_back_as_it_was_saved(compiled, code, tmp_path):
    executable = replace(compiled.executable, machine_code=code)
    assert read_executable(written(executable, tmp_path)) == executable


def test_other_programs_read_the_files_as_what_they_are(compiled, tmp_path):
    executable = compiled.executable
    ptx = written(executable, tmp_path).read_text()
    ptxas_accepts(ptx, executable.target.name)
    assert ptx.startswith(executable.ptx)


@pytest.mark.skipif(ptxas_path() is None, reason="no ptxas: install nvidia-cuda-nvcc")
def test_a_cubin_comes_before_what_is_added(tmp_path):
    executable = EXECUTABLES["large"]().executable
    (tmp_path / "x.ptx").write_text(executable.ptx)
    command = [str(ptxas_path()), f"-arch={executable.target.name}", "-o", "x.cubin", "x.ptx"]
    subprocess.run(command, cwd=tmp_path, check=True)
    image = (tmp_path / "x.cubin").read_bytes()
    path = written(replace(executable, machine_code=MachineCode(image, 80)), tmp_path)
    assert path.read_bytes().startswith(image) and read_executable(path).machine_code.image == image


@pytest.mark.parametrize("code", [None, CODE], ids=["ptx", "cubin"])
def test_a_file_that_was_altered_or_cut_anywhere_is_refused(code, tmp_path):
    executable = replace(EXECUTABLES["nothing"]().executable, machine_code=code)
    path = written(executable, tmp_path)
    whole = path.read_bytes()
    for place in {*range(0, len(whole), 7), *range(len(whole) - 7, len(whole))}:
        altered = bytearray(whole)
        altered[place] ^= 1
        for content in (bytes(altered), whole[:place]):
            path.write_bytes(content)
            with pytest.raises(tj.LaunchError, match="contains no kernel|was damaged or edited"):
                read_executable(path)
    path.write_bytes(whole)
    assert read_executable(path) == executable


@pytest.mark.parametrize("name", ["k.ptx", "k.cubin"])
def test_files_of_others_are_refused(name, tmp_path):
    path = tmp_path / name
    with pytest.raises(tj.LaunchError, match=r"can't be read: No such file"):
        read_executable(path)
    for content in (b"", b"\n", b".version 8.0\n.target sm_90\n", b"\x7fELF" + bytes(1000), b"\ntilejit a 1 2\n"):
        path.write_bytes(content)
        with pytest.raises(tj.LaunchError, match="contains no kernel saved by tilejit"):
            read_executable(path)


def forged(path, change, executable):
    """A file whose record was changed, with a digest of what it holds now."""
    ptx, _, comment = saved(executable).rpartition(executable_files._COMMENT)
    record = json.loads(comment.partition(b" ")[2])
    change(record)
    text = json.dumps(record).encode()
    digest = executable_files._digest(ptx, text)
    path.write_bytes(ptx + executable_files._COMMENT + digest + b" " + text + b"\n")
    return path


NAMES = [
    "a b", "x=1", "f()", "", "class", "None", "*a", "a\n", "@a", "\N{LATIN SMALL LIGATURE FI}", 7, None, ["a"], "B",
    "__debug__",
]


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_names_that_are_not_identifiers_are_refused(name, tmp_path):
    executable = EXECUTABLES["scalars"]().executable

    def change(record):
        # `B` is there twice
        record["signature"][0][0] = name
        record["signature"][1][0] = "B"

    with pytest.raises(tj.LaunchError, match="record that tilejit didn't write: .* can't be used as a name"):
        read_executable(forged(tmp_path / "k.ptx", change, executable))
    with pytest.raises(tj.LaunchError, match="can't be used as a name"):
        read_executable(forged(tmp_path / "k.ptx", lambda record: record.update(name="a\0b"), executable))


@pytest.mark.parametrize("name", ["P[0]", "P[2]", "P", "P[1] or f()", "P.x", "P[1][0]"])
def test_items_of_containers_are_named_by_their_positions(name, tmp_path):
    executable = EXECUTABLES["contained"]().executable

    def change(record):
        names = [name for name, _ in record["signature"]]
        record["signature"][names.index("P[1]")][0] = name

    with pytest.raises(tj.LaunchError, match="record that tilejit didn't write"):
        read_executable(forged(tmp_path / "k.ptx", change, executable))


@pytest.mark.parametrize("fields", [[".w", ".f()", ".K"], [".w", "n", ".K"], [".w", ".n"], [".w", ".w", ".K"], ["[0]"]])
def test_fields_of_containers_are_identifiers(fields, tmp_path):
    executable = EXECUTABLES["contained"]().executable

    def change(record):
        arguments = record["signature"]
        start = [name for name, _ in arguments].index("Q")
        arguments[start][1]["ContainerType"][1] = fields
        for argument, field in zip(arguments[start + 1 :], fields, strict=False):
            argument[0] = f"Q{field}"

    with pytest.raises(tj.LaunchError, match="record that tilejit didn't write"):
        read_executable(forged(tmp_path / "k.ptx", change, executable))


@pytest.mark.parametrize("entry", ['k"\n#include "k.h"', "a b", "", "$\n"])
def test_entries_that_are_no_names_of_ptx_are_refused(entry, tmp_path):
    executable = EXECUTABLES["scalars"]().executable
    with pytest.raises(tj.LaunchError, match="can't be used as a name"):
        read_executable(forged(tmp_path / "k.ptx", lambda record: record.update(entry=entry), executable))


def record_of(content):
    return json.loads(content.splitlines()[-1].split(b" ", 3)[3])


@pytest.mark.parametrize("key", record_of(saved(EXECUTABLES["scalars"]().executable)))
@pytest.mark.parametrize("value", [None, -1, "x", ["x"], {}], ids=repr)
def test_a_record_of_others_is_read_or_refused(key, value, tmp_path):
    path = forged(tmp_path / "k.ptx", lambda record: record.update({key: value}), EXECUTABLES["scalars"]().executable)
    with contextlib.suppress(tj.LaunchError):
        read_executable(path)


def test_a_file_of_another_format_says_so(tmp_path, monkeypatch):
    path = written(EXECUTABLES["nothing"]().executable, tmp_path)
    monkeypatch.setattr(executable_files, "FORMAT", 99)
    with pytest.raises(tj.LaunchError, match="another version of tilejit, in format 9; this one reads 99"):
        read_executable(path)


def test_the_record_is_one_line_of_plain_text(tmp_path):
    content = saved(EXECUTABLES["register"]().executable)
    last = content.splitlines()[-1]
    assert content.isascii() or b"gr" in content
    assert json.loads(last.split(b" ", 3)[3])["format"] == 9
