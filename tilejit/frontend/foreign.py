"""Names that kernels can't use: errors and hints, and equivalents of names from other libraries and languages.

A test compiles every equivalent.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping
from enum import EnumMeta
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from ..dataclass import dataclass, replace
from ..dtypes import DTYPES, DType
from ..ops.elementwise import ELEMENTWISE
from ..ops.tile import TILE_OPERATIONS
from ..wording import guessed, shown
from .language import Intrinsic
from .words import ScopeNamespace, intrinsics

if TYPE_CHECKING:
    from .context import Context

#: the origins of the names; the names from NumPy are functions that can also be called outside kernels
HOST, CUDA, TRITON = "NumPy", "CUDA", "Triton"


@dataclass(frozen=True, slots=True)
class ForeignWord:
    """A name from another language or library, and its equivalent."""

    #: without the name of the library, but qualified if it would be ambiguous, as in `shared.array`
    name: str
    of: str
    #: an expression or a statement on values x, y, integers i, j, matrices a, b, an array A, and others such as shape
    instead: str
    note: str = ""

    @property
    def hint(self) -> str:
        written = f"at run time, write {self.instead}" if self.of == HOST else f"write {self.instead}"
        return f"{written}{f': {self.note}' if self.note else ''}"


#: component of a CUDA index -> axis
AXES = {"x": 0, "y": 1, "z": 2}


@functools.cache
def words() -> tuple[ForeignWord, ...]:
    """Return the words of foreign_words.json.

    The file maps each origin to a map from names, separated by spaces, to an equivalent or [equivalent, note].
    """
    # only errors need these modules
    import json
    from importlib.resources import files

    rows = json.loads(files(__package__).joinpath("foreign_words.json").read_text(encoding="utf-8"))
    return tuple([
        ForeignWord(name, of, *([row] if isinstance(row, str) else row))
        for of, listed in rows.items() for names, row in listed.items() for name in names.split()
    ])


@functools.cache
def _table() -> Mapping[str, ForeignWord]:
    return {word.name: word for word in words()}


def foreign_word(name: str) -> ForeignWord | None:
    """Return the equivalent of a name in the table or of a C or NumPy name of a tilejit function; None if unknown."""
    word = _table().get(name)
    if word is not None:
        return word
    if name in ELEMENTWISE:
        return ForeignWord(name, HOST, f"tj.{name}")
    if name in TILE_OPERATIONS and TILE_OPERATIONS[name].reduction:
        return ForeignWord(name, HOST, f"tj.{name}(x)", "of a tile, or along an axis")
    # CUDA names may have leading underscores, as in __syncthreads, or the suffix f, as in expf
    spelled = name.strip("_")
    if spelled != name:
        return foreign_word(spelled)
    if name[-1:] != "f":
        return None
    of_doubles = _table().get(name[:-1])
    if of_doubles is not None:
        return replace(of_doubles, name=name) if of_doubles.of == HOST else None
    return ForeignWord(name, CUDA, f"tj.{name[:-1]}") if name[:-1] in ELEMENTWISE else None


def foreign_word_in(written: str) -> ForeignWord | None:
    """Return the equivalent of a dotted name, such as `cuda.shared.array` or `cuda.threadIdx.x`; None if unknown."""
    parts = written.split(".")
    pairs = [".".join(parts[k : k + 2]) for k in range(len(parts) - 1)]
    word = next(filter(None, map(foreign_word, (*reversed(pairs), *reversed(parts)))), None)
    if word is None or parts[-1] not in AXES:
        return word
    return replace(word, instead=word.instead.replace("(axis)", f"({AXES[parts[-1]]})"))


_ONE_STREAM = "leave it out: launches on one stream run in order"
_OWN_MAPS = "write copy_async(shared, A[...], barrier=t): the launch creates the tensor maps of its arrays"

#: name that is not implemented yet -> its meaning and a hint; `dir(tilejit)` doesn't list it
NOT_YET = {
    "grid_trigger": ("which lets the next kernel start", _ONE_STREAM),
    "grid_wait": ("which waits for the previous kernel", _ONE_STREAM),
    "TensorMap": ("a tensor map that the caller creates", _OWN_MAPS),
    "tensor_map": ("a tensor map that a kernel uses", _OWN_MAPS),
}


#: packages whose functions can't be decorated with @tj.function
_LIBRARIES = frozenset(("cupy", "cutlass", "jax", "numba", "numpy", "scipy", "torch", "triton", "warp"))

#: the packages, their usual aliases, and the names of some of their modules
_ALIASES = _LIBRARIES | frozenset((
    "cp", "ct", "cuda", "cute", "gl", "jit", "jnp", "libdevice", "math", "nb", "np", "tl", "ttgl", "wp",
))


def _package(function: FunctionType) -> str:
    return function.__module__.partition(".")[0]


def instead(written: str) -> str | None:
    """Return the hint for a name from another library or language; None for other names."""
    word = foreign_word_in(written)
    return None if word is None else word.hint


def no_attribute(ctx: Context, node: ast.Attribute, value: Any) -> Exception:
    """Return the KernelTypeError for `node`, an attribute of the compile-time object `value` that kernels can't use."""
    if isinstance(value, Intrinsic):
        is_axis = value.names == ("axis",) and node.attr in AXES
        arguments = AXES[node.attr] if is_axis else ", ".join(value.names[: value.required])
        return ctx.type_error(node, f"{value!r} has no attribute {node.attr}", f"call it: {value!r}({arguments})")
    root = _first(node)
    is_in_library = isinstance(root, ast.Name) and isinstance(ctx.frame.source.lookup(root.id)[1], ModuleType)
    word = foreign_word_in(ast.unparse(node)) if is_in_library else None
    if word is not None and not isinstance(value, (str, int, float)):
        return ctx.type_error(node, f"{ast.unparse(node)} can't be used in a kernel", word.hint)
    if isinstance(value, DType):
        return ctx.type_error(node, f"{value} has no attribute {node.attr}", "it has name, kind, bits, bytes, is_float "
                              "and is_integer")
    if isinstance(value, EnumMeta):
        members = ", ".join(value.__members__)
        return ctx.type_error(node, f"{value.__name__} has no member {node.attr}", f"its members: {members}")
    owner = type(value).__module__.partition(".")[0]
    if owner not in ("builtins", "tilejit") and callable(getattr(value, node.attr, None)):
        return ctx.type_error(
            node, f"{node.attr} is a method of {shown(value)}: a kernel can't call it",
            "write it as a @tj.function outside the class, and pass what it needs",
        )
    return ctx.type_error(
        node, f"{shown(value)} has no attribute {node.attr} that a kernel can use",
        "compute it outside and capture the value, or pass it as a tj.constexpr",
    )


def not_in_module(ctx: Context, node: ast.Attribute, module: ModuleType) -> Exception:
    """Return the KernelTypeError for a name that a module lacks."""
    if module.__name__ == __package__.partition(".")[0] and node.attr in NOT_YET:
        meaning, hint = NOT_YET[node.attr]
        what = f"{module.__name__}.{node.attr}, {meaning}, is not available in this version"
        return ctx.type_error(node, what, hint)
    names = [n for n in dir(module) if n[0] != "_" and not isinstance(vars(module).get(n), ModuleType)]
    hint = guessed(node.attr, names, f"dir({module.__name__}) lists its names")
    members = [getattr(module, name, None) for name in names]
    namespaces = [member for member in members if isinstance(member, ScopeNamespace)]
    scopes = dict.fromkeys(str(namespace) for namespace in namespaces if node.attr in namespace)
    if scopes:
        hint = f"call it on the scope that executes it: {', '.join(f'{scope}.{node.attr}' for scope in scopes)}"
        return ctx.type_error(node, f"{module.__name__} has no {node.attr}", hint)
    return ctx.type_error(node, f"{module.__name__} has no {node.attr}", instead(node.attr) or hint)


def hint_for_name(ctx: Context, node: ast.Name) -> str | None:
    """Return the hint for an undefined name from another library or language, such as `blockIdx`; else None."""
    chains = (n for n in ast.walk(ctx.frame.source.node) if isinstance(n, ast.Attribute) and _first(n) is node)
    written = ast.unparse(next(chains, node))
    is_word = foreign_word(node.id) is not None
    if not is_word and node.id not in _ALIASES:
        return None
    word = foreign_word_in(written)
    return _of_ours(written) if word is None else word.hint


def _of_ours(written: str) -> str | None:
    name = written.rpartition(".")[2]
    if name in NOT_YET:
        meaning, hint = NOT_YET[name]
        return f"tj.{name}, {meaning}, is not available in this version; {hint}"
    return f"write tj.{name}" if name in DTYPES or name in intrinsics() else None


def _first(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node


def not_callable(ctx: Context, node: ast.Call, callee: Any) -> Exception:
    """Return the error for a call of a captured object that kernels can't call."""
    if isinstance(callee, FunctionType) and _package(callee) == __package__.partition(".")[0]:
        return ctx.syntax_error(
            node, f"{callee.__name__} is a host function of tilejit: a kernel can't call it",
            "call it outside, and pass or capture the result",
        )
    if is_kernel(callee):
        return launched(ctx, node, callee)
    if isinstance(callee, FunctionType) and callee.__name__ == "<lambda>":
        return ctx.syntax_error(
            node, "a kernel can't call a lambda that is defined outside it",
            "write it as a def, decorated with @tj.function",
        )
    if isinstance(callee, FunctionType) and _package(callee) not in _LIBRARIES:
        return ctx.syntax_error(
            node, f"{callee.__name__} is a plain Python function: a kernel can't call it",
            f"decorate {callee.__name__} with @tj.function, or call it outside and capture the result",
        )
    if callable(callee):
        name = ast.unparse(node.func) if isinstance(node.func, (ast.Name, ast.Attribute)) else shown(callee)
        word = foreign_word(getattr(callee, "__name__", "")) or foreign_word_in(name)
        hint = "compute it outside and capture the value"
        if word is not None:
            hint = f"{word.hint}; or {hint}" if word.of == HOST else word.hint
        else:
            hint = _of_ours(name) or hint
        return ctx.syntax_error(node, f"{name} can't be called in a kernel", hint)
    return ctx.type_error(node, f"{shown(callee)} can't be called", "call a @tj.function or an operation of tilejit")


def is_kernel(callee: Any) -> bool:
    """True for the result of `@tj.kernel`, whose class the frontend must not import."""
    return hasattr(callee, "signatures") and hasattr(callee, "source")


def launched(ctx: Context, node: ast.AST, callee: Any) -> Exception:
    """Return the KernelSyntaxError for a kernel that another kernel calls or launches."""
    return ctx.syntax_error(
        node, f"{callee.__name__} is a kernel: a kernel can't launch another",
        "launch the kernels one after the other, or make it a @tj.function, which kernels can call",
    )
