"""Headers of C and C++ that CUDA files often include and NVRTC lacks, as far as device code can use them."""

from __future__ import annotations

_TYPES = "".join(
    f"typedef {sign}{name} {prefix}int{bits}_t;\n"
    for sign, prefix in (("signed ", ""), ("unsigned ", "u"))
    for name, bits in (("char", 8), ("short", 16), ("int", 32), ("long long", 64))
)
_NAMES = [f"{prefix}int{bits}_t" for prefix in ("", "u") for bits in (8, 16, 32, 64)]


def _macros(values: dict[str, str]) -> str:
    return "".join(f"#ifndef {name}\n#define {name} {value}\n#endif\n" for name, value in values.items())


def _in_std(names: list[str]) -> str:
    return "namespace std {\n" + "".join(f"using ::{name};\n" for name in names) + "}\n"


def _widths(suffix: str) -> dict[str, str]:
    """Return the limits of the integer types with 8 to 64 bits. suffix: after `INT8`, such as "_"."""
    values = {}
    for bits in (8, 16, 32, 64):
        end = "LL" if bits == 64 else ""
        most = f"{(1 << bits - 1) - 1}{end}"
        values[f"INT{bits}{suffix}MAX"] = most
        values[f"INT{bits}{suffix}MIN"] = f"(-{most} - 1)"
        values[f"UINT{bits}{suffix}MAX"] = f"{(1 << bits) - 1}{'ULL' if bits == 64 else 'U' if bits == 32 else ''}"
    return values


_STDINT = "#pragma once\n" + _TYPES + _macros(_widths("_")) + _in_std(_NAMES)
_STDDEF = (
    "#pragma once\ntypedef decltype(sizeof(0)) size_t;\ntypedef decltype((char*)0 - (char*)0) ptrdiff_t;\n"
    + _macros({"NULL": "0"}) + _in_std(["size_t", "ptrdiff_t"])
)
_LIMITS = "#pragma once\n" + _macros({
    "CHAR_BIT": "8", "SCHAR_MIN": "(-128)", "SCHAR_MAX": "127", "UCHAR_MAX": "255", "SHRT_MIN": "(-32768)",
    "SHRT_MAX": "32767", "USHRT_MAX": "65535", "INT_MIN": "(-2147483647 - 1)", "INT_MAX": "2147483647",
    "UINT_MAX": "4294967295U", "LLONG_MAX": "9223372036854775807LL", "LLONG_MIN": "(-9223372036854775807LL - 1)",
    "ULLONG_MAX": "18446744073709551615ULL",
})
_FLOAT = "#pragma once\n" + _macros({
    "FLT_MAX": "3.402823466e+38F", "FLT_MIN": "1.175494351e-38F", "FLT_EPSILON": "1.192092896e-07F", "FLT_DIG": "6",
    "DBL_MAX": "1.7976931348623157e+308", "DBL_MIN": "2.2250738585072014e-308",
    "DBL_EPSILON": "2.2204460492503131e-16", "DBL_DIG": "15",
})
# NVRTC declares the functions of these itself
_BUILT_IN = "#pragma once\n"
_MATH = _BUILT_IN + _macros({
    "INFINITY": "__int_as_float(0x7f800000)", "NAN": "__int_as_float(0x7fffffff)",
    "HUGE_VALF": "__int_as_float(0x7f800000)", "M_PI": "3.14159265358979323846", "M_E": "2.7182818284590452354",
    "M_SQRT2": "1.41421356237309504880", "M_LN2": "0.69314718055994530942",
})

#: names of included files -> their contents
HEADERS = {
    "cstdint": _STDINT, "stdint.h": _STDINT, "cstddef": _STDDEF, "stddef.h": _STDDEF, "climits": _LIMITS,
    "limits.h": _LIMITS, "cfloat": _FLOAT, "float.h": _FLOAT,
    "cmath": _MATH, "math.h": _MATH,
    **dict.fromkeys(
        ("cstdio", "stdio.h", "cassert", "assert.h", "cstdlib", "stdlib.h", "cstring", "string.h"), _BUILT_IN
    ),
}

#: headers that every file may use without including them, as with nvcc
INCLUDED = ("math.h", "limits.h")

#: headers of the CUDA runtime that NVRTC does without
RUNTIME = {"cuda_runtime.h": _BUILT_IN, "device_launch_parameters.h": _BUILT_IN}
