"""The C header, as C and C++ compilers read it."""

import re
import shutil
import subprocess

import pytest

from tests.executable.kernels import EXECUTABLES
from tilejit.dtypes import DTYPES
from tilejit.executable.header import C_TYPES, c_header
from tilejit.runtime.packing import Packing, field_of

COMPILERS = {"c": ("cc", "-std=c11", "-x", "c"), "c++": ("c++", "-std=c++11", "-x", "c++")}

PROGRAM = """
#include <stdio.h>
#include "k.h"
int main(void) {{
    {name}_arguments arguments;
    (void) arguments;
    {prints}
    printf("%zu %s %d %d\\n", sizeof arguments, {upper}_ENTRY, {upper}_THREADS, {upper}_SHARED_BYTES);
    return 0;
}}
"""


def compiles(language, source, folder):
    """Runs a program and gives its lines."""
    compiler, *options = COMPILERS[language]
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    command = [compiler, *options, "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-o", "program", "program.c"]
    (folder / "program.c").write_text(source)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return subprocess.run([folder / "program"], capture_output=True, text=True, check=True).stdout.splitlines()


def fields_of(header):
    struct = header[header.index("typedef struct {") : header.index("_arguments;")]
    return re.findall(r"^    \w+ (\w+);", struct, flags=re.MULTILINE)


@pytest.mark.parametrize("language", COMPILERS)
def test_a_compiler_puts_every_argument_where_the_kernel_reads_it(compiled, language, tmp_path):
    executable = compiled.executable
    header = c_header(executable)
    (tmp_path / "k.h").write_text(header)
    fields = fields_of(header)
    name = re.search(r"} (\w+)_arguments;", header)[1]
    shown = fields if executable.params else []
    prints = "\n    ".join(
        f'printf("%zu %zu\\n", offsetof({name}_arguments, {field}), sizeof arguments.{field});' for field in shown
    )
    *places, last = compiles(language, PROGRAM.format(name=name, upper=name.upper(), prints=prints), tmp_path)
    packing = Packing([field_of(param) for param in executable.params])
    expected = [f"{at} {param.size_bytes}" for at, param in zip(packing.offsets, executable.params, strict=True)]
    assert places == expected
    size, entry, threads, shared = last.split()
    dynamic = executable.shared_bytes if executable.dynamic_shared else 0
    assert (entry, int(threads), int(shared)) == (executable.entry, executable.threads, dynamic)
    assert int(size) >= packing.size_bytes


@pytest.mark.parametrize("language", COMPILERS)
def test_the_addresses_are_those_of_the_arguments(language, tmp_path):
    (tmp_path / "k.h").write_text(c_header(EXECUTABLES["scalars"]().executable))
    program = """
#include <stdio.h>
#include "k.h"
int main(void) {
    scalars_arguments arguments;
    void *parameters[sizeof(void *) * 16];
    scalars_parameters(&arguments, parameters);
    for (int i = 0; i < 10; ++i) printf("%d\\n", (int) ((char *) parameters[i] - (char *) &arguments));
    return 0;
}
"""
    offsets = EXECUTABLES["scalars"]().executable.offsets
    assert compiles(language, program, tmp_path) == [str(offset) for offset in offsets] and len(offsets) == 10


def test_a_struct_that_is_laid_out_otherwise_is_refused(tmp_path):
    header = c_header(EXECUTABLES["scalars"]().executable)
    (tmp_path / "k.h").write_text(header.replace("    int64_t n;", "    int64_t n[2];"))
    with pytest.raises(AssertionError, match="stands elsewhere"):
        compiles("c", PROGRAM.format(name="scalars", upper="SCALARS", prints=""), tmp_path)


def test_every_dtype_has_a_c_type_of_its_size():
    sizes = {"float": 4, "double": 8, **{f"{u}int{n}_t": n // 8 for n in (8, 16, 32, 64) for u in ("", "u")}}
    assert {name: sizes[C_TYPES[name]] for name in DTYPES} == {name: d.bytes for name, d in DTYPES.items()}


def test_the_parameters_stand_where_a_launch_packs_them(compiled):
    params = compiled.executable.params
    assert compiled.executable.offsets == Packing([field_of(param) for param in params]).offsets


def test_names_that_c_lacks_are_changed_and_stay_apart():
    fields = fields_of(c_header(EXECUTABLES["register"]().executable))
    assert len(set(fields)) == len(fields) and "int_" in fields and "gruf6uc3df" not in fields
    assert all(field.isascii() for field in fields) and {"A_extent_0", "A_extent_0_"} <= set(fields)
