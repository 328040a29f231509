"""The C header, as C and C++ compilers read it."""

import keyword
import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

import tilejit as tj
from tests.executable.kernels import EXECUTABLES
from tilejit.dataclass import replace
from tilejit.dtypes import DTYPES
from tilejit.executable.header import C_TYPES, c_header
from tilejit.ir.params import ScalarParam
from tilejit.ir.values import Var

#: language -> the compiler, which dialects it is asked for, and its name for the language
COMPILERS = {
    "c": ("cc", ("c11", "gnu17", "gnu2x"), "c"), "c++": ("c++", ("c++11", "gnu++17", "gnu++20", "gnu++23"), "c++"),
}

#: keywords of C23 and C++23, and C++'s alternative tokens
KEYWORDS = (
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class",
    "co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype",
    "default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int",
    "long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register",
    "reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast struct switch",
    "template this thread_local throw true try typedef typeid typename typeof typeof_unqual union unsigned using",
    "virtual void volatile wchar_t while xor xor_eq",
    "_Alignas _Alignof _Atomic _BitInt _Bool _Complex _Decimal128 _Decimal32 _Decimal64 _Generic _Imaginary _Noreturn",
    "_Static_assert _Thread_local _Float16 _Float32 _Float64 _Float128",
    "__asm__ __attribute__ __restrict __typeof__ __int128 __FILE__ __LINE__ __COUNTER__ __func__",
)

#: macros of the C library and of other systems, in C or in C++
MACROS = """
I A EOF NAN INFINITY NULL BUFSIZ M_PI B0 errno stdin stdout stderr complex imaginary noreturn linux unix st_atime
st_mtime s6_addr sa_handler si_pid ifr_map math_errhandling near far small interface signals cuMemAlloc cuCtxCreate
ERROR TRUE cudaHostAllocDefault True None Status windows
""".split()  # noqa: SIM905
HEADERS = """
complex tgmath assert ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdbool
stdint stdio stdlib string time wchar wctype unistd pthread termios netdb fcntl poll sys/stat sys/socket netinet/in
sys/resource sys/types sys/mman sys/wait sys/ioctl net/if dlfcn dirent
""".split()  # noqa: SIM905

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


def compiles(language, source, folder, dialect=None, include=None):
    """Runs a program and gives its lines. dialect: else the oldest."""
    compiler, (oldest, *_), name = COMPILERS[language]
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    options = [f"-std={dialect or oldest}", "-x", name, *([] if include is None else ["-isystem", include])]
    command = [compiler, *options, "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-o", "program", "program.c"]
    (folder / "program.c").write_text(source)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return subprocess.run([folder / "program"], capture_output=True, text=True, check=True).stdout.splitlines()


def knows(language, dialect):
    """Whether the compiler that is here knows a dialect."""
    compiler, _, name = COMPILERS[language]
    command = [compiler, f"-std={dialect}", "-x", name, "-E", os.devnull]
    return shutil.which(compiler) is None or not subprocess.run(command, capture_output=True, check=False).returncode


def macros(language, text="", ends=r"\b"):
    """The macros that a compiler defines, and those of a text. ends: what their names end with."""
    compiler, _, name = COMPILERS[language]
    if shutil.which(compiler) is None:
        return set()
    command = [compiler, "-dM", "-E", "-x", name, "-"]
    listed = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return set(re.findall(rf"^#define (\w+){ends}", listed, re.MULTILINE))


def with_parameters(names):
    """The kernel `scalars` with 32-bit integers of these names instead of its parameters."""
    params = tuple(ScalarParam(name, Var(name, DTYPES["int32"])) for name in names)
    return replace(EXECUTABLES["scalars"]().executable, params=params)


def fields_of(header):
    struct = header[header.index("typedef struct {") : header.index("_arguments;")]
    return re.findall(r"^    .*?(\w+)(?:\[16\])?;", struct, flags=re.MULTILINE)


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
    packing = executable.packing
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
    offsets = EXECUTABLES["scalars"]().executable.packing.offsets
    assert compiles(language, program, tmp_path) == [str(offset) for offset in offsets] and len(offsets) == 10


def test_a_struct_that_is_laid_out_otherwise_is_refused(tmp_path):
    header = c_header(EXECUTABLES["scalars"]().executable)
    (tmp_path / "k.h").write_text(header.replace("    int64_t n;", "    int64_t n[2];"))
    with pytest.raises(AssertionError, match="is at another offset"):
        compiles("c", PROGRAM.format(name="scalars", upper="SCALARS", prints=""), tmp_path)


def test_every_dtype_has_a_c_type_of_its_size():
    sizes = {"float": 4, "double": 8, **{f"{u}int{n}_t": n // 8 for n in (8, 16, 32, 64) for u in ("", "u")}}
    assert {name: sizes[C_TYPES[name]] for name in DTYPES} == {name: d.bytes for name, d in DTYPES.items()}


def test_parameters_have_the_offsets_at_which_a_launch_packs_them(compiled):
    params = compiled.executable.params
    offsets, end = [], 0
    for param in params:
        offsets.append(end + -end % param.align_bytes)
        end = offsets[-1] + param.size_bytes
    assert compiled.executable.packing.offsets == tuple(offsets)


def test_names_that_c_lacks_are_changed_and_stay_apart():
    fields = fields_of(c_header(EXECUTABLES["register"]().executable))
    assert len(set(fields)) == len(fields) and "int_" in fields and "gruf6uc3df" not in fields
    assert all(field.isascii() for field in fields) and {"A_extent_0", "A_extent_0_"} <= set(fields)


def test_items_of_containers_are_fields():
    header = c_header(EXECUTABLES["contained"]().executable)
    assert fields_of(header) == ["P_0_", "P_1_0_", "Q_w_", "Q_n_", "P_0__"]
    assert "address of P[0]: float32" in header and "Q.K = 3" in header


@pytest.mark.parametrize(
    ("language", "dialect"), [(language, dialect) for language, (_, all_, _) in COMPILERS.items() for dialect in all_]
)
def test_parameters_may_be_called_as_words_of_c_are(language, dialect, tmp_path):
    """Keywords that aren't Python's, what compilers, the header and its includes define, and types that it uses."""
    if not knows(language, dialect):
        pytest.skip(f"this compiler knows no {dialect}")
    defined = macros(language) | macros(language, "#include <stddef.h>\n#include <stdint.h>\n")
    own = re.findall(r"#define (\w+)", c_header(with_parameters(["n"])))
    others = ("int32_t", "uint64_t", "linux", "unix", "i386", "_Ours", "ours", *MACROS)
    wanted = {*" ".join(KEYWORDS).split(), *defined, *own, *others}
    names = sorted(name for name in wanted if not keyword.iskeyword(name))
    assert {"NULL", "INT8_MAX", "SCALARS_THREADS", "TILEJIT_SCALARS_H"} <= set(names) or not defined
    header = c_header(with_parameters(names))
    (tmp_path / "k.h").write_text(header)
    fields = fields_of(header)
    assert "ours" in fields and len(set(fields)) == len(names)
    places = compiles(language, PROGRAM.format(name="scalars", upper="SCALARS", prints=""), tmp_path, dialect)
    assert places == [f"{4 * len(names)} {EXECUTABLES['scalars']().executable.entry} 64 0"]


def included():
    """The headers of this machine's C library that a program can include all together."""
    return "".join(f"#include <{name}.h>\n" for name in HEADERS if knows_header(name))


def knows_header(name):
    if shutil.which("cc") is None:
        return False
    command = ["cc", "-E", "-x", "c", "-"]
    return subprocess.run(command, input=f"#include <{name}.h>\n", capture_output=True, text=True).returncode == 0


@pytest.mark.parametrize(("language", "dialect"), [("c", "gnu17"), ("c++", "gnu++17")])
def test_no_field_is_named_after_a_macro_of_an_earlier_header(language, dialect, tmp_path):
    """The names of all object-like macros of the C library, whatever they are on this machine."""
    headers = included().replace("#include <complex.h>\n#include <tgmath.h>\n" if language == "c++" else "\0", "")
    defined = macros(language, headers)
    names = sorted(name for name in {*defined, *MACROS} if not keyword.iskeyword(name))
    assert len(names) > 1000 or not headers or not defined
    header = c_header(with_parameters(names))
    (tmp_path / "k.h").write_text(header)
    fields = fields_of(header)
    # one with parameters is left alone where no parenthesis follows
    assert len(set(fields)) == len(names) and not macros(language, headers, r"(?!\w|\()") & set(fields)
    places = compiles(language, headers + PROGRAM.format(name="scalars", upper="SCALARS", prints=""), tmp_path, dialect)
    assert places == [f"{4 * len(names)} {EXECUTABLES['scalars']().executable.entry} 64 0"]


@pytest.mark.parametrize("value", ["*/ int x; /*", "*\\", "a /* b", "\n*/", "??/"])
def test_no_value_ends_the_comment_that_tells_of_it(value, tmp_path):
    kernel = tj.kernel(threads=32)(noted)
    compiled = kernel.compile(tj.spec((32,), tj.float32), value, target="sm_90a")
    (tmp_path / "k.h").write_text(c_header(compiled.executable))
    assert len(compiles("c", PROGRAM.format(name="noted", upper="NOTED", prints=""), tmp_path)) == 1


def noted(A: tj.Tensor, text: tj.constexpr):
    A[0] = 1


def boxes(A: tj.Tensor, CUDA_VERSION: tj.int32):
    s, full = tj.alloc_shared((8, 8), A.dtype), tj.alloc_barrier()
    tj.warp.copy_async(s, A[CUDA_VERSION : CUDA_VERSION + 8, 0:8], barrier=full)
    tj.warp.arrive(full)
    full.wait(0)


@pytest.mark.parametrize("language", COMPILERS)
def test_a_tensor_map_of_the_drivers_header_has_its_place(language, tmp_path):
    found = find_spec("nvidia.cu13") if find_spec("nvidia") else None
    folders = [Path(place) / "include" for place in (found.submodule_search_locations if found else ())]
    folders += [Path("/usr/local/cuda/include")]
    include = next((folder for folder in folders if (folder / "cuda.h").exists()), None)
    if include is None:
        pytest.skip("no cuda.h")
    array = tj.spec((64, 32), tj.float32)
    executable = tj.kernel(threads=32)(boxes).compile(array, tj.int32, target="sm_90a").executable
    (tmp_path / "k.h").write_text(c_header(executable))
    fields = fields_of(c_header(executable))
    assert {"A_map", "CUDA_VERSION_"} <= set(fields)
    prints = "CUtensorMap map; memset(&map, 7, sizeof map); memcpy(arguments.A_map, &map, sizeof arguments.A_map);\n"
    prints += 'printf("%zu %d\\n", sizeof map, (int) (arguments.A_map[15] & 255));\n'
    prints += "\n".join(f'printf("%zu\\n", offsetof(boxes_arguments, {field}));' for field in fields)
    program = "#include <string.h>\n#include <cuda.h>\n" + PROGRAM.format(name="boxes", upper="BOXES", prints=prints)
    size, *places, _ = compiles(language, program, tmp_path, None, include)
    assert size == "128 7" and tuple(map(int, places)) == executable.packing.offsets
