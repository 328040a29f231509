"""C headers for launches without Python: a struct of the kernel's arguments, and constants for the launch.

The struct has the layout of the kernel's parameters, which the header asserts. It can be passed whole
(CU_LAUNCH_PARAM_BUFFER_POINTER) or field by field (kernelParams).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ..dtypes import int64
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
from ..ir.text.printer import expr_text
from ..ir.types import ConstexprType
from ..wording import counted
from .record import Executable, ScratchArray

#: element type -> C type of the same size; C11 and C++11 have no floating-point types of 8 or 16 bits
C_TYPES = {
    "bool_": "uint8_t", "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t",
    "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t",
    "float16": "uint16_t", "bfloat16": "uint16_t", "float32": "float", "float64": "double",
    "float8_e4m3fn": "uint8_t", "float8_e5m2": "uint8_t",
}

#: keywords of C23 and C++26, and alternative tokens of C++, that aren't Python keywords
_KEYWORDS = frozenset((
    "alignas", "alignof", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "case", "catch", "char", "char16_t",
    "char32_t", "char8_t", "co_await", "co_return", "co_yield", "compl", "concept", "const", "const_cast",
    "consteval", "constexpr", "constinit", "contract_assert", "decltype", "default", "delete", "do", "double",
    "dynamic_cast", "enum", "explicit", "export", "extern", "false", "float", "friend", "goto", "inline", "int",
    "long", "mutable", "namespace", "new", "noexcept", "not_eq", "nullptr", "operator", "or_eq", "private",
    "protected", "public", "register", "reinterpret_cast", "requires", "restrict", "short", "signed", "sizeof",
    "static", "static_assert", "static_cast", "struct", "switch", "template", "this", "thread_local", "throw",
    "true", "typedef", "typeid", "typename", "typeof", "typeof_unqual", "union", "unsigned", "using", "virtual",
    "void", "volatile", "wchar_t", "xor", "xor_eq",
))

#: lower-case words that a platform or framework defines as macros
_DEFINED = frozenset((
    "arm", "cdecl", "complex", "emit", "errno", "far", "foreach", "forever", "hpux", "huge", "hyper", "i386",
    "imaginary", "interface", "linux", "m68k", "mips", "near", "nil", "noreturn", "pascal", "powerpc", "sgi", "signals",
    "slots", "small", "sparc", "stderr", "stdin", "stdout", "sun", "unix", "vax",
))

#: Field names that need no trailing underscore, unless they are in `_KEYWORDS` or `_DEFINED`. A program may include any
#: header before this one, whose macros would replace fields of the same name. Macros may be upper-case (`I`, `EOF`) or
#: contain underscores (`st_mtime`), but are rarely single lower-case words. Only reserved ones (`__unix__`) end in one.
_KEPT = re.compile(r"[a-z][a-z0-9]*|\w+_(extent|stride)_\d+|(?!ifr_)\w+_(map|address)")

#: suffixes of the header's constants; the kernel's name precedes them
_MACROS = ("_ENTRY", "_THREADS", "_SHARED_BYTES")


def c_header(executable: Executable) -> str:
    """Return a header, valid in C11 and C++11, for launches of `executable`."""
    e = executable
    name = _identifier(e.name)
    own = ("TILEJIT_ASSERT", "TILEJIT_ALIGNAS", _guard(name), *(name.upper() + end for end in _MACROS))
    scratch = {each.of: each for each in e.scratch}
    described = [_described(param, scratch) for param in e.params]
    fields = _field_names([wanted for wanted, _, _ in described], own)
    lines = [*_head(e, name), "typedef struct {"]
    for field, (_, declared, meaning) in zip(fields, described, strict=True):
        lines.append(f"    {declared.format(field)};".ljust(36) + f" /* {_comment(meaning)} */")
    if not fields:
        lines.append("    char nothing; /* the kernel has no parameters */")
    lines += [f"}} {name}_arguments;", ""]
    for field, offset in zip(fields, e.packing.offsets, strict=True):
        check = f"offsetof({name}_arguments, {field}) == {offset}"
        lines.append(f'TILEJIT_ASSERT({check}, "{field} is at another offset");')
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
    entry, threads, shared = (name.upper() + end for end in _MACROS)
    yield f"/* {_comment(f'Arguments of the kernel {e.name}, compiled {compiled_for}; written by tilejit.')} */"
    yield from (f"#ifndef {_guard(name)}", f"#define {_guard(name)}", "")
    yield from ("#include <stddef.h>", "#include <stdint.h>", "")
    yield from ("#ifndef TILEJIT_ASSERT", "#ifdef __cplusplus", "#define TILEJIT_ASSERT static_assert")
    yield from ("#define TILEJIT_ALIGNAS alignas", "#else", "#define TILEJIT_ASSERT _Static_assert")
    yield from ("#define TILEJIT_ALIGNAS _Alignas", "#endif", "#endif", "")
    yield f'#define {entry} "{e.entry}"'
    # `:d` rejects strings, which a file that tilejit did not write could contain
    yield f"#define {threads} {e.threads:d} /* per CTA, all along x */"
    yield f"#define {shared} {e.shared_bytes if e.dynamic_shared else 0:d} /* dynamic shared memory of the launch */"
    if e.cluster is not None:
        cluster = " x ".join(f"{n:d}" for n in e.cluster)
        yield f"/* the grid must be a multiple of the cluster of {cluster} CTAs; the kernel itself sets the cluster */"
    if e.cooperative:
        yield "/* launch with cuLaunchCooperativeKernel */"
    yield ""


def _described(param: Param, scratch: Mapping[str, ScratchArray]) -> tuple[str, str, str]:
    """Return a name for the parameter's field, its declaration with `{}` in place of the name, and its meaning.

    scratch: see `Executable.scratch`, by name.
    """
    match param:
        case PointerParam(of=of, buffer=buffer):
            written = "written" if param.written else "only read"
            meaning = f"address of {of}: {buffer.dtype.name}, a multiple of {counted(buffer.align, 'byte')}, {written}"
            if of in scratch:
                extents = ", ".join(expr_text(extent, int64) for extent in scratch[of].extents)
                contents = "all 0 at the first launch" if scratch[of].zeroed else "with any contents"
                meaning += f", scratch of extents ({extents}), {contents}, that no concurrent launch uses"
            return of, "uint64_t {}", meaning
        case ScalarParam(of=of, var=var):
            return of, f"{C_TYPES[var.dtype.name]} {{}}", f"{of}: {var.dtype.name}"
        case ExtentParam(of=of, var=var, axis=axis):
            return f"{of}_extent_{axis}", f"{C_TYPES[var.dtype.name]} {{}}", f"extent {axis} of {of}"
        case StrideParam(of=of, var=var, axis=axis):
            return f"{of}_stride_{axis}", f"{C_TYPES[var.dtype.name]} {{}}", f"stride {axis} of {of}, in elements"
        case AddressParam(of=of, var=var):
            meaning = f"address of {of} again, for the kernel's checks"
            return f"{of}_address", f"{C_TYPES[var.dtype.name]} {{}}", meaning
        case AssertionsParam():
            meaning = f"address of {AssertionsParam.RECORD_BYTES} zero bytes for failed assertions"
            return "assertions", "uint64_t {}", meaning
        case TensorMapParam(map=spec):
            # not a CUtensorMap, because its alignment is 64 or 128 bytes depending on the version of cuda.h
            declared = f"TILEJIT_ALIGNAS({param.align_bytes}) uint64_t {{}}[{param.size_bytes // 8}]"
            dims, box = (", ".join(map(str, numbers)) for numbers in (spec.axes, spec.box))
            how = f"{spec.dtype.name}, its dimensions in the order ({dims}), box ({box}), swizzle {spec.swizzle}"
            how += f", L2 promotion {spec.fetch}"
            return f"{param.of}_map", declared, f"the CUtensorMap of {param.of}, by cuTensorMapEncodeTiled: {how}"
        case BarrierParam(buffer=buffer):
            meaning = f"address of {buffer.dtype.bytes} zero bytes that no concurrent launch uses"
            return "barrier", "uint64_t {}", meaning
        case _:
            return assert_never(param)


def _field_names(wanted: Sequence[str], macros: Sequence[str]) -> list[str]:
    taken = set(macros)
    names: list[str] = []
    for each in wanted:
        name = _identifier(each)
        if not _KEPT.fullmatch(name) or name in _KEYWORDS or name in _DEFINED:
            name += "_"
        while name in taken:
            name += "_"
        taken.add(name)
        names.append(name)
    return names


def _identifier(name: str) -> str:
    """Return `name` as a C identifier or keyword that isn't reserved for any use.

    For example, é becomes ue9, P[0] becomes P_0, and P.w becomes P_w.
    """
    name = name.replace("[", "_").replace(".", "_").replace("]", "")
    plain = "".join(c if c.isascii() and (c.isalnum() or c == "_") else f"u{ord(c):x}" for c in name)
    # C reserves all names that start with an underscore and a capital or a second underscore.
    if plain[:1] == "_" and (plain[1:2] == "_" or plain[1:2].isupper()):
        return f"arg{plain}"
    return plain


def _guard(name: str) -> str:
    return f"TILEJIT_{name.upper()}_H"


def _comment(text: str) -> str:
    plain = text.encode("ascii", "backslashreplace").decode().replace("\n", " ").replace("\\", "/")
    return plain.replace("*/", "* /").replace("/*", "/ *")
