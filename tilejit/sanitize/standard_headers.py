"""Headers of C and C++ that CUDA files often include and NVRTC lacks, as far as device code can use them."""

from __future__ import annotations

from collections.abc import Iterable

#: bits of an integer type -> its name in C
_INTEGERS = {8: "char", 16: "short", 32: "int", 64: "long long"}


def _types(types: dict[str, str]) -> str:
    """Return definitions of types in the global namespace and in std. types: name -> C type."""
    return "".join(f"typedef {c} {name};\nnamespace std {{ using ::{name}; }}\n" for name, c in types.items())


def _macros(values: dict[str, str]) -> str:
    return "".join(f"#ifndef {name}\n#define {name} {value}\n#endif\n" for name, value in values.items())


def _limits(names: Iterable[tuple[str, str, int]]) -> str:
    """Return macros for the limits of integer types. names: of the signed and the unsigned type, and their bits."""
    values: dict[str, str] = {}
    for signed, unsigned, bits in names:
        most = f"{(1 << bits - 1) - 1}{'LL' if bits == 64 else ''}"
        suffix = {32: "U", 64: "ULL"}.get(bits, "")
        values |= {f"{signed}_MAX": most, f"{signed}_MIN": f"(-{most} - 1)"}
        values[f"{unsigned}_MAX"] = f"{(1 << bits) - 1}{suffix}"
    return _macros(values)


# NVRTC declares the functions of several headers itself
_BUILT_IN = "#pragma once\n"
_STDINT = (
    _BUILT_IN + _types({f"int{bits}_t": f"signed {name}" for bits, name in _INTEGERS.items()})
    + _types({f"uint{bits}_t": f"unsigned {name}" for bits, name in _INTEGERS.items()})
    + _limits((f"INT{bits}", f"UINT{bits}", bits) for bits in _INTEGERS)
)
_STDDEF = (
    _BUILT_IN + _types({"size_t": "decltype(sizeof(0))", "ptrdiff_t": "decltype((char*)0 - (char*)0)"})
    + _macros({"NULL": "0"})
)
_LIMITS = _BUILT_IN + _macros({"CHAR_BIT": "8"}) + _limits(
    [("SCHAR", "UCHAR", 8), ("SHRT", "USHRT", 16), ("INT", "UINT", 32), ("LLONG", "ULLONG", 64)]
)
_FLOAT = _BUILT_IN + _macros({
    "FLT_MAX": "3.402823466e+38F", "FLT_MIN": "1.175494351e-38F", "FLT_EPSILON": "1.192092896e-07F", "FLT_DIG": "6",
    "DBL_MAX": "1.7976931348623157e+308", "DBL_MIN": "2.2250738585072014e-308",
    "DBL_EPSILON": "2.2204460492503131e-16", "DBL_DIG": "15",
})
_MATH = _BUILT_IN + _macros({
    "INFINITY": "__int_as_float(0x7f800000)", "NAN": "__int_as_float(0x7fffffff)",
    "HUGE_VALF": "__int_as_float(0x7f800000)", "M_PI": "3.14159265358979323846", "M_E": "2.7182818284590452354",
    "M_SQRT2": "1.41421356237309504880", "M_LN2": "0.69314718055994530942",
})

#: names of included files -> their contents
HEADERS = {
    f"{prefix}{name}{suffix}": text
    for name, text in {
        "stdint": _STDINT, "stddef": _STDDEF, "limits": _LIMITS, "float": _FLOAT, "math": _MATH,
        **dict.fromkeys(("stdio", "assert", "stdlib", "string"), _BUILT_IN),
    }.items()
    for prefix, suffix in (("c", ""), ("", ".h"))
}

#: headers that every file may use without including them, as with nvcc
INCLUDED = ("math.h", "limits.h")

#: headers of the CUDA runtime that NVRTC does without
RUNTIME = {"cuda_runtime.h": _BUILT_IN, "device_launch_parameters.h": _BUILT_IN}
