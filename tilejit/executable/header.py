"""A C header for those who launch a kernel without Python: its arguments as a struct, and what the launch asks for.

The struct is laid out as the kernel's parameters are, which the header asserts; it may be passed whole
(CU_LAUNCH_PARAM_BUFFER_POINTER) or field by field (kernelParams).
"""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import assert_never
from ..ir.params import (
    AddressParam,
    AssertionsParam,
    BarrierParam,
    ExtentParam,
    Param,
    PointerParam,
    ScalarParam,
    StrideParam,
    TensorMapParam,
)
from ..ir.types import ConstexprType
from .record import Executable

__all__ = ["C_TYPES", "c_header"]

#: element type -> the C type with its bits; C has no types for floats of 8 and 16 bits
C_TYPES = {
    "bool_": "uint8_t", "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t",
    "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t",
    "float16": "uint16_t", "bfloat16": "uint16_t", "float32": "float", "float64": "double",
    "float8_e4m3fn": "uint8_t", "float8_e5m2": "uint8_t",
}

#: words of C and C++ that a parameter may be called in Python
_RESERVED = frozenset((
    "alignas", "alignof", "asm", "auto", "bool", "case", "catch", "char", "const", "constexpr", "default", "delete",
    "do", "double", "enum", "explicit", "export", "extern", "float", "friend", "goto", "inline", "int", "long",
    "mutable", "namespace", "new", "nullptr", "operator", "private", "protected", "public", "register", "restrict",
    "short", "signed", "sizeof", "static", "static_assert", "struct", "switch", "template", "this", "thread_local",
    "throw", "true", "false", "typedef", "typeid", "typename", "typeof", "union", "unsigned", "using", "virtual",
    "void", "volatile", "wchar_t",
))


def c_header(executable: Executable) -> str:
    """The header as text; C11 and C++11 take it."""
    e = executable
    name = _identifier(e.name)
    fields = _field_names(e.params)
    lines = [*_head(e, name), "typedef struct {"]
    for field, param in zip(fields, e.params, strict=True):
        kind, meaning = _declared(param)
        lines.append(f"    {kind} {field};".ljust(36) + f" /* {_comment(meaning)} */")
    if not fields:
        lines.append("    char nothing; /* the kernel has no parameters */")
    lines += [f"}} {name}_arguments;", ""]
    for field, offset in zip(fields, e.offsets, strict=True):
        check = f"offsetof({name}_arguments, {field}) == {offset}"
        lines.append(f'TILEJIT_ASSERT({check}, "{field} stands elsewhere");')
    if fields:
        each = ", ".join(f"&arguments->{field}" for field in fields)
        lines += [
            "", "/* the addresses that cuLaunchKernel takes as kernelParams */",
            f"static inline void {name}_parameters({name}_arguments *arguments, void *parameters[{len(fields)}]) {{",
            f"    void *each[{len(fields)}] = {{{each}}};",
            f"    for (int i = 0; i < {len(fields)}; ++i) parameters[i] = each[i];", "}",
        ]
    return "\n".join([*lines, "", f"#endif /* {_guard(name)} */", ""])


def _head(e: Executable, name: str) -> Iterator[str]:
    constants = [f"{n} = {kind.value!r}" for n, kind in e.signature.arguments if isinstance(kind, ConstexprType)]
    compiled_for = f"for {e.target}" + (f", {', '.join(constants)}" if constants else "")
    upper = name.upper()
    yield f"/* {_comment(f'Arguments of the kernel {e.name}, compiled {compiled_for}; written by tilejit.')} */"
    yield from (f"#ifndef {_guard(name)}", f"#define {_guard(name)}", "")
    yield from ("#include <stddef.h>", "#include <stdint.h>", "")
    if any(isinstance(p, TensorMapParam) for p in e.params):
        yield from ("#include <cuda.h>", "")
    yield from ("#ifndef TILEJIT_ASSERT", "#ifdef __cplusplus", "#define TILEJIT_ASSERT static_assert", "#else")
    yield from ("#define TILEJIT_ASSERT _Static_assert", "#endif", "#endif", "")
    yield f'#define {upper}_ENTRY "{e.entry}"'
    yield f"#define {upper}_THREADS {e.threads} /* of a CTA, all along x */"
    yield f"#define {upper}_SHARED_BYTES {e.shared_bytes if e.dynamic_shared else 0} /* that the launch asks for */"
    if e.cluster is not None:
        x, y, z = e.cluster
        yield f"/* the grid is a multiple of the cluster of {x} x {y} x {z} CTAs, which the kernel names itself */"
    if e.cooperative:
        yield "/* the launch is cooperative: cuLaunchCooperativeKernel */"
    yield ""


def _declared(param: Param) -> tuple[str, str]:
    """A parameter's C type and meaning."""
    match param:
        case PointerParam(of=of, buffer=buffer):
            written = "written" if param.written else "only read"
            return "uint64_t", f"address of {of}: {buffer.dtype.name}, a multiple of {buffer.align} bytes, {written}"
        case ScalarParam(of=of, var=var):
            return C_TYPES[var.dtype.name], f"{of}: {var.dtype.name}"
        case ExtentParam(of=of, var=var):
            return C_TYPES[var.dtype.name], f"extent {param.axis} of {of}"
        case StrideParam(of=of, var=var):
            return C_TYPES[var.dtype.name], f"stride {param.axis} of {of}, in elements"
        case AddressParam(of=of, var=var):
            return C_TYPES[var.dtype.name], f"address of {of} again, which checks compare"
        case AssertionsParam():
            return "uint64_t", f"address of {AssertionsParam.RECORD_BYTES} bytes of zeros, for what fails"
        case TensorMapParam(of=of):
            return "CUtensorMap", _map_meaning(param)
        case BarrierParam(buffer=buffer):
            return "uint64_t", f"address of {buffer.dtype.bytes} bytes of zeros, which no other launch uses meanwhile"
        case _:
            return assert_never(param)


def _map_meaning(param: TensorMapParam) -> str:
    """What the driver is told of it."""
    spec = param.map
    dims, box = (", ".join(map(str, numbers)) for numbers in (spec.axes, spec.box))
    how = f"{spec.dtype.name}, its dimensions in the order ({dims}), box ({box}), swizzle {spec.swizzle}"
    return f"of {param.of}, by cuTensorMapEncodeTiled: {how}"


def _field_names(params: tuple[Param, ...]) -> list[str]:
    """A name for each parameter that C takes, no two alike."""
    names: list[str] = []
    for param in params:
        match param:
            case AssertionsParam() | BarrierParam():
                wanted = "assertions" if isinstance(param, AssertionsParam) else "barrier"
            case ExtentParam():
                wanted = f"{param.of}_extent_{param.axis}"
            case StrideParam():
                wanted = f"{param.of}_stride_{param.axis}"
            case AddressParam():
                wanted = f"{param.of}_address"
            case TensorMapParam():
                wanted = f"{param.of}_map"
            case _:
                wanted = param.of
        name = _identifier(wanted)
        while name in names:
            name += "_"
        names.append(name)
    return names


def _identifier(name: str) -> str:
    """The name with only what C takes in one; another character becomes its code point."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c == "_") else f"u{ord(c):x}" for c in name)
    return f"{plain}_" if plain in _RESERVED else plain


def _guard(name: str) -> str:
    return f"TILEJIT_{name.upper()}_H"


def _comment(text: str) -> str:
    """Text that doesn't end a comment, on one line of ASCII."""
    return text.encode("ascii", "backslashreplace").decode().replace("*/", "* /").replace("\n", " ").replace("\\", "/")
