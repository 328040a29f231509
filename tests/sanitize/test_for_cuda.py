"""CUDA C++ in `python -m tilejit check`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.sanitize.kernels_ptx import ONE, Run
from tilejit.sanitize.for_cuda import declared_parameters


def test_parameters_are_those_of_the_source() -> None:
    source = """
    // __global__ void add(int wrong, int n)
    extern "C" __global__ void __launch_bounds__(256, f(2)) add(const float *__restrict__ x,
        Pair<int, 2> p, int n /* elements, all of them */, float y[4]);
    template <typename T, int K = 3> __global__ void fill(T* x = nullptr) { }
    __global__ void twice(int a) { } namespace b { __global__ void twice(int c) { } }
    __global__ void none() { }
    void add(int a, int b, int c, int d) { }
    """
    names = {
        kernel: [x.name for x in declared_parameters(source, kernel, count)]
        for kernel, count in (("add", 4), ("a::fill<float, 3>", 1), ("twice", 1), ("none", 0), ("missing", 1))
    }
    assert names == {"add": ["x", "p", "n", "y"], "a::fill<float, 3>": ["x"], "twice": [], "none": [], "missing": []}
    assert declared_parameters(source, "add", 3) == ()
    assert declared_parameters(source, "add", 4)[0].text == "const float *__restrict__ x"
    assert declared_parameters("__global__ void add(int x", "add", 1) == ()


CUDA = """\
#include <cooperative_groups.h>
#include "helper.h"

extern "C" __global__ void reverse(const float* x, float* y, int n) {
    __shared__ float tile[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    tile[threadIdx.x] = i < n ? scaled(x[i]) : 0.0f;
    y[i] = tile[255 - threadIdx.x];
}
template <typename T, int K> __global__ void fill(T* x) { x[threadIdx.x] = K; }
namespace app { __global__ void step(float* x, int n, float f) { if (threadIdx.x < n) x[threadIdx.x] += f; } }
"""
HELPER = "__device__ inline float scaled(float v) {\n  return 2 * v;\n}\n"


def nvrtc_works() -> bool:
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError, OSError):
        return False
    return True


@pytest.fixture
def cuda(run: Run) -> Run:
    if not nvrtc_works():
        pytest.skip("NVRTC is not installed: pip install -e '.[cuda]'")
    Path("k.cu").write_text(CUDA)
    Path("helper.h").write_text(HELPER)
    return run


@pytest.mark.integration
def test_cuda_is_compiled_and_its_lines_are_named(cuda: Run) -> None:
    arguments = ("--arg", "f32[1000]", "--arg", "out:f32[1000]", "--arg", "i32:1000")
    status, out, _ = cuda("k.cu", "reverse", "--grid", 4, "--block", 256, *arguments)
    assert status == 1
    assert "k.cu:8: y[i] = tile[255 - threadIdx.x];\n  error [race]" in out
    assert " reverse::tile+1020 bytes" in out and "from k.cu:7\n" in out
    assert "error [bounds] 24 times" in out and "; y has 4000 bytes" in out


@pytest.mark.integration
def test_the_callers_of_inlined_functions_are_named(cuda: Run) -> None:
    Path("helper.h").write_text("__device__ inline float scaled(const float& v) {\n  return 2 * v;\n}\n")
    arguments = ("--arg", "f32[16]", "--arg", "out:f32[999]", "--arg", "i32:32")
    options = ("k.cu", "reverse", "--grid", 1, "--block", 32, *arguments)
    status, out, _ = cuda(*options)
    assert status == 1
    assert "helper.h:2: return 2 * v;\n  error [bounds] 16 times" in out
    assert "        from helper.h:2\n          called from k.cu:7\n" in out
    status, out, _ = cuda(*options, "--format", "sarif")
    (result,) = (x for x in json.loads(out)["runs"][0]["results"] if x["ruleId"] == "bounds")
    (caller,) = result["relatedLocations"]
    assert caller["message"]["text"] == "this access is inlined here"
    physical = caller["physicalLocation"]
    assert (physical["artifactLocation"]["uri"], physical["region"]) == ("k.cu", {"startLine": 7})


@pytest.mark.integration
def test_a_finding_in_a_library_is_shown_at_the_user_s_line(cuda: Run) -> None:
    Path("k.cu").write_text(
        "#include <cuda/atomic>\n"
        'extern "C" __global__ void k(int* x) {\n'
        "  cuda::atomic_ref<int, cuda::thread_scope_block>(*x).fetch_add(1);\n"
        "}\n"
    )
    options = ("k.cu", "k", "--grid", 2, "--block", 1, "--arg", "x:i32[1]")
    status, out, _ = cuda(*options)
    assert status == 1
    call = "cuda::atomic_ref<int, cuda::thread_scope_block>(*x).fetch_add(1);"
    assert f"k.cu:3: {call}\n  error [scope] " in out
    (result,) = json.loads(cuda(*options, "--format", "sarif")[1])["runs"][0]["results"]
    (location,) = result["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "k.cu"
    assert location["physicalLocation"]["region"] == {"startLine": 3}
    others = [x["physicalLocation"]["artifactLocation"]["uri"] for x in result["relatedLocations"]]
    assert others[0].startswith("file:///") and "k.cu" in others


@pytest.mark.integration
def test_cuda_kernels_are_listed_with_their_declarations(cuda: Run) -> None:
    status, out, _ = cuda("k.cu", "--arch", "sm_80")
    assert status == 0
    assert out.splitlines() == [
        "reverse", "  argument 0: const float* x, 8 bytes", "  argument 1: float* y, 8 bytes",
        "  argument 2: int n, 4 bytes",
        "app::step, in the PTX _ZN3app4stepEPfif", "  argument 0: float* x, 8 bytes", "  argument 1: int n, 4 bytes",
        "  argument 2: float f, 4 bytes",
        "2 kernels, 2 supported",
    ]


@pytest.mark.integration
@pytest.mark.parametrize("kernel, arguments, status", [
    ("fill<int, 7>", ("i32[256]",), 0), ("fill<double,3>", ("out:f64[256]",), 0), ("fill<int, 7>", ("i32[255]",), 1),
    ("fill<unsigned int, sizeof(float)>", ("u32[256]",), 0),
    ("step", ("f32[256]", "i32:256", "f32:1"), 0), ("app::step", ("x:f32[256]", "n:i32:256", "f:f32:1"), 0),
])
def test_cuda_kernels_have_readable_names(cuda: Run, kernel: str, arguments: tuple[str, ...], status: int) -> None:
    assert cuda("k.cu", kernel, *ONE, *(x for a in arguments for x in ("--arg", a)))[0] == status


#: a kernel that uses what headers of C and C++ declare; it traps if a value is wrong
STANDARD = """\
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdint.h>
#include <stdlib.h>
#include <cuda_runtime.h>
extern "C" __global__ void standard(int64_t n, std::size_t size) {
    assert(n == INT_MIN);
    if (sizeof(int8_t) != 1 || sizeof(uint16_t) != 2 || sizeof(uint64_t) != 8 || sizeof(ptrdiff_t) != 8) __trap();
    if (INT64_MIN >= 0 || INT64_MAX != ~INT64_MIN || UINT32_MAX + 1 != 0 || INT8_MIN != -128) __trap();
    if (!isinf(2 * FLT_MAX) || isinf(FLT_MAX) || 1 + FLT_EPSILON == 1.0f || 1 + FLT_EPSILON / 2 != 1.0f) __trap();
    if (!isinf(INFINITY) || !isnan(NAN) || fabs(sin(M_PI)) > 1e-15 || size != 3) __trap();
}
"""


@pytest.mark.integration
@pytest.mark.parametrize("others", [(), ("cuda/std/cstdint", "cuda/atomic", "cuda_fp16.h")])
def test_headers_of_c_may_be_included(cuda: Run, others: tuple[str, ...]) -> None:
    Path("standard.cu").write_text("".join(f"#include <{name}>\n" for name in others) + STANDARD)
    arguments = ("--arg", f"i64:{-(2**31)}", "--arg", "u64:3")
    status, out, err = cuda("standard.cu", "standard", "--grid", 1, "--block", 1, *arguments)
    assert (status, err) == (0, ""), out


@pytest.mark.integration
def test_what_a_cuda_kernel_prints_goes_to_standard_error(cuda: Run) -> None:
    Path("k.cu").write_text('extern "C" __global__ void k(int n) { printf("%d threads\\n", n); }')
    status, out, err = cuda("k.cu", "k", "--grid", 1, "--block", 1, "--arg", "i32:7")
    assert err == "7 threads\n" and "threads" not in out and status != 1


@pytest.mark.integration
def test_cuda_arguments_in_another_order_are_refused(cuda: Run) -> None:
    options = ("k.cu", "step", *ONE, "--arg", "x:f32[256]", "--arg", "f:f32:1", "--arg", "n:i32:256")
    status, _, err = cuda(*options)
    assert status == 3
    assert "--arg f:f32:1 is argument 1, which is n; the parameters of app::step are:\n  0: float* x, 8 bytes\n" in err


@pytest.mark.integration
@pytest.mark.parametrize("change, expected", [
    (("return 2", "return undefined * 2"), 'k.cu does not compile at helper.h:2: identifier "undefined" is undefined'),
    (("2 * v;", "2 * v"), "k.cu does not compile at helper.h:3: expected a \";\""),
    (('"helper.h"', '"missing.h"'), "k.cu does not compile at k.cu:2: cannot open source file \"missing.h\""),
    (("template", "int main() { }\ntemplate"), "put host code between #ifndef __CUDACC_RTC__ and #endif"),
])
def test_cuda_that_does_not_compile_shows_the_log(cuda: Run, change: tuple[str, str], expected: str) -> None:
    for file in ("k.cu", "helper.h"):
        Path(file).write_text(Path(file).read_text().replace(*change))
    status, out, err = cuda("k.cu", "reverse", *ONE)
    assert (status, out) == (3, "")
    assert err.startswith("CudaSourceError: k.cu does not compile at ") and expected in err
    assert "error" in err.partition("\n")[2] and "\nhelp: " in err


@pytest.mark.integration
@pytest.mark.parametrize("arch, expected", [
    ("sm_33", "NVRTC does not compile for sm_33\nhelp: one of sm_75, "), ("gfx942", "unknown architecture 'gfx942'"),
    ("", "unknown architecture ''"),
])
def test_unknown_architectures_are_refused(cuda: Run, arch: str, expected: str) -> None:
    status, out, err = cuda("k.cu", "--arch", arch)
    assert (status, out) == (3, "") and expected in err


@pytest.mark.integration
@pytest.mark.parametrize("kernel", ["frob", "frob<int>", "fill", "fill<int", "fill<int, x>", "); int x = ("])
def test_missing_cuda_kernels_are_refused(cuda: Run, kernel: str) -> None:
    status, out, err = cuda("k.cu", kernel, *ONE)
    assert (status, out) == (3, "") and f"k.cu has no kernel {kernel}\nhelp: " in err


def test_without_nvrtc_it_says_what_to_install(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    # an import of a module that is None raises ImportError
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    Path("k.cu").write_text(CUDA)
    status, out, err = run("k.cu")
    assert (status, out) == (3, "")
    assert err.splitlines() == [
        "DeviceError: NVRTC, which compiles CUDA C++, is not installed",
        "help: install it with: pip install 'tilejit[cuda]'",
    ]
