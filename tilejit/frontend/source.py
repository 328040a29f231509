"""The source of a kernel or `@tj.function`, read when the decorator runs and checked against the code object."""

from __future__ import annotations

import ast
import linecache
import warnings
from collections.abc import Callable
from functools import cached_property, lru_cache
from types import CodeType, FunctionType, MethodType
from typing import Any

from ..dataclass import dataclass, field
from ..errors import KernelSyntaxError
from ..source import Span
from ..wording import shown, with_article

COMPREHENSIONS = (ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)

# the bits of `co_flags` for `from __future__ import …`
_FUTURES = 0x1FF0000


@dataclass(frozen=True, eq=False)
class KernelSource:
    """The text and the syntax tree of one function."""

    function: FunctionType
    file: str
    lines: tuple[str, ...] = field(repr=False)
    node: ast.FunctionDef = field(repr=False)
    #: the names that the function captures, as tuples (name, *attributes), without duplicates
    references: tuple[tuple[str, ...], ...] = field(repr=False)

    @cached_property
    def is_ascii(self) -> bool:
        """True if the text is ASCII, so that columns in bytes are columns in characters."""
        return self.text.isascii()

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def text(self) -> str:
        first = self.function.__code__.co_firstlineno
        return "\n".join(self.lines[first - 1 : self.node.end_lineno])

    @property
    def defaults(self) -> dict[str, Any]:
        fn, values = self.function, self.function.__defaults__ or ()
        positional = fn.__code__.co_varnames[: fn.__code__.co_argcount]
        return dict(zip(positional[len(positional) - len(values) :], values, strict=True)) | (fn.__kwdefaults__ or {})

    @staticmethod
    def of(fn: Callable[..., Any]) -> KernelSource:
        """Return the source of `fn`.

        raises: KernelSyntaxError unless `fn` is a plain `def` whose source is available and unedited since the import.
        """
        if not isinstance(fn, FunctionType):
            raise _no_function(fn)
        code = fn.__code__
        if code.co_name == "<lambda>":
            raise KernelSyntaxError("a kernel or tj.function can't be a lambda", hint="write it with def")
        lines, text = _read(fn)
        try:
            tree = _parse(text, code.co_filename)
        except SyntaxError:
            raise KernelSyntaxError(
                f"the source of {fn.__name__} in {code.co_filename} is no longer valid Python",
                hint="the file was edited after it was imported: correct it, then import it again or restart",
            ) from None
        node = _definition(tree, code)
        if isinstance(node, ast.AsyncFunctionDef):
            raise KernelSyntaxError(f"{code.co_name} is an async function; GPU code can't be async", hint="write def")
        if node is None or not _is_compiled_from(code, text):
            raise KernelSyntaxError(
                f"the source of {code.co_name} in {code.co_filename} differs from the compiled function",
                hint="the file was edited after it was imported: import it again, or restart",
            )
        return KernelSource(fn, code.co_filename, lines, node, _references(node))

    def span(self, node: ast.AST, caller: Span | None = None) -> Span:
        """Return the location of a node, which must have one. caller: the location of the inlined call, if any."""
        # a parsed node with a location has all four attributes, which `ast.AST` doesn't declare
        placed: Any = node
        line, column, end_line, end_column = placed.lineno, placed.col_offset, placed.end_lineno, placed.end_col_offset
        text = self.lines[line - 1]
        if not self.is_ascii:
            column, end_column = _characters(text, column), _characters(self.lines[end_line - 1], end_column)
        return Span(self.file, line, column, end_line, end_column, text, caller)

    def segment(self, node: ast.AST) -> str:
        """Return the source of a node; if it spans several lines, the whole line where it starts, stripped."""
        span = self.span(node)
        return span.text[span.column : span.end_column] if span.line == span.end_line else span.text.strip()

    def lookup(self, name: str) -> tuple[bool, Any]:
        """Return (True, value) for a name in the closure, globals or builtins; (False, None) if it has no value."""
        fn = self.function
        if name in fn.__code__.co_freevars and fn.__closure__ is not None:
            cell = fn.__closure__[fn.__code__.co_freevars.index(name)]
            try:
                return True, cell.cell_contents
            except ValueError:
                return False, None
        if name in fn.__globals__:
            return True, fn.__globals__[name]
        builtins = fn.__globals__.get("__builtins__", {})
        table = builtins if isinstance(builtins, dict) else vars(builtins)
        return name in table, table.get(name)


def _no_function(value: Any) -> KernelSyntaxError:
    if isinstance(value, MethodType):
        return KernelSyntaxError(
            f"{value.__qualname__} is a method: a kernel or tj.function has no self", hint="define it outside the class"
        )
    if isinstance(value, (staticmethod, classmethod)):
        kind = type(value).__name__
        return KernelSyntaxError(
            f"{value.__qualname__} is {with_article(kind)}, not a Python function",
            hint="write tilejit's decorator below @staticmethod, directly above the def"
            if kind == "staticmethod" else "define it outside the class",
        )
    return KernelSyntaxError(f"{shown(value)} is not a Python function", hint="put the decorator directly above a def")


def _characters(text: str, utf8_column: int) -> int:
    return len(text.encode()[:utf8_column].decode(errors="ignore"))


def _read(fn: FunctionType) -> tuple[tuple[str, ...], str]:
    file = fn.__code__.co_filename
    linecache.checkcache(file)
    lines = linecache.getlines(file, fn.__globals__)
    if not lines:
        raise KernelSyntaxError(
            f"the source of {fn.__name__} is not available (its file is {file!r})",
            hint="define it in a file or a Jupyter cell, or register the text with linecache before exec",
        )
    return _text(tuple(lines))


@lru_cache(maxsize=64)
def _text(lines: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    bare = tuple([line.rstrip("\n") for line in lines])
    return bare, "\n".join(bare) + "\n"


@lru_cache(maxsize=64)
def _parse(text: str, file: str) -> ast.Module:
    return ast.parse(text, file)


@lru_cache(maxsize=256)
def _definition(tree: ast.Module, code: CodeType) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    name, line = code.co_name, code.co_firstlineno
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and (node.name, _first_line(node)) == (name, line):
            return node
    return None


@lru_cache(maxsize=128)
def _compiled(text: str, file: str, flags: int, line: int | None = None) -> CodeType:
    """Compile a file, or only the statement at a line, as IPython compiles the statements of a cell.

    The results may differ: since CPython 3.11, `a.b()` compiles differently if the same module imports `a`.
    """
    # Python already showed the warnings when the file was imported
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree: Any = text
        if line is not None:
            there = [n for n in ast.parse(text, file).body if _first_line(n) <= line <= (n.end_lineno or n.lineno)]
            tree = ast.Module(there, [])
        code: CodeType = compile(tree, file, "exec", flags=flags, dont_inherit=True)
    return code


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(d.lineno for d in decorators)])


@lru_cache(maxsize=256)
def _is_compiled_from(code: CodeType, text: str) -> bool:
    file, flags = code.co_filename, code.co_flags & _FUTURES
    modules = (_compiled(text, file, flags, line) for line in (None, code.co_firstlineno))
    namesakes = (c for module in modules for c in _codes(module) if c.co_name == code.co_name)
    return any(c.co_firstlineno == code.co_firstlineno and _same(code, c) for c in namesakes)


@lru_cache(maxsize=64)
def _codes(module: CodeType) -> tuple[CodeType, ...]:
    inner = [constant for constant in module.co_consts if isinstance(constant, CodeType)]
    return (module, *[code for each in inner for code in _codes(each)])


def _same(actual: CodeType, expected: CodeType) -> bool:
    if actual.co_varnames[: actual.co_argcount] != expected.co_varnames[: expected.co_argcount]:
        return False
    if "@pytest_ar" in actual.co_names:
        return _same_but_for_asserts(actual, expected)
    parts = ("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_firstlineno")
    if any(getattr(actual, p) != getattr(expected, p) for p in parts):
        return False
    a, b = actual.co_consts, expected.co_consts
    return len(a) == len(b) and all(map(_same_constant, a, b))


def _same_constant(a: object, b: object) -> bool:
    if isinstance(a, CodeType) and isinstance(b, CodeType):
        return _same(a, b)
    # repr distinguishes 0.0 from -0.0, and makes nan equal to itself
    return type(a) is type(b) and repr(a) == repr(b)


def _same_but_for_asserts(actual: CodeType, expected: CodeType) -> bool:
    """True if `actual`, as pytest rewrote it, has all names (but AssertionError) and plain constants of `expected`."""
    plain = [c for c in expected.co_consts if not isinstance(c, CodeType)]
    there = {(type(c), repr(c)) for c in actual.co_consts}
    names = set(expected.co_names) - {"AssertionError"}
    return names <= set(actual.co_names) and all((type(c), repr(c)) in there for c in plain)


@lru_cache(maxsize=256)
def _references(node: ast.FunctionDef) -> tuple[tuple[str, ...], ...]:
    chains: dict[tuple[str, ...], None] = {}
    # each part is paired with the names bound around it; a stack, because expressions may be nested more deeply than
    # Python's recursion limit
    pending = _body(node, frozenset())
    while pending:
        part, bound = pending.pop()
        chain = _chain(part) if isinstance(part, (ast.Name, ast.Attribute)) else None
        if isinstance(part, ast.FunctionDef):
            a = part.args
            outside = [*part.decorator_list, *a.defaults, *[default for default in a.kw_defaults if default]]
            pending += [*_body(part, bound), *[(each, bound) for each in reversed(outside)]]
        elif isinstance(part, ast.Lambda):
            pending += [(child, bound) for child in (*part.args.defaults, *filter(None, part.args.kw_defaults))]
            pending.append((part.body, bound | local_names(as_function(part))))
        elif isinstance(part, COMPREHENSIONS):
            # the first iterable is evaluated outside the comprehension
            inside = bound | local_names(as_function(part))
            first = part.generators[0]
            pending += [(child, inside) for each in part.generators for child in ast.iter_child_nodes(each)
                        if child is not first.iter]
            pending += [(child, inside) for child in ast.iter_child_nodes(part) if child not in part.generators]
            pending.append((first.iter, bound))
        elif chain is None:
            pending += [(child, bound) for child in reversed(list(ast.iter_child_nodes(part)))]
        elif chain[0] not in bound:
            chains[chain] = None
    return tuple(chains)


def _body(node: ast.FunctionDef, outer: frozenset[str]) -> list[tuple[ast.AST, frozenset[str]]]:
    """Return the statements of a function, last to first, each with the names bound in it. outer: those around it."""
    bound = outer | local_names(node)
    return [(statement, bound) for statement in reversed(node.body)]


@lru_cache(maxsize=256)
def local_names(node: ast.FunctionDef) -> frozenset[str]:
    """Return the names that a function binds, including its parameters, but not those that nested functions bind."""
    a = node.args
    names = [arg.arg for arg in (*parameter_nodes(node), a.vararg, a.kwarg) if arg is not None]
    return frozenset(names).union(*map(assigned_names, node.body))


@lru_cache(maxsize=256)
def as_function(node: ast.Lambda | ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp) -> ast.FunctionDef:
    """Return a lambda as a nested function, or a comprehension as one whose parameters are the names that it binds."""
    if isinstance(node, ast.Lambda):
        result = ast.copy_location(ast.Return(node.body), node.body)
        return ast.copy_location(ast.FunctionDef("lambda", node.args, [result], []), node)
    targets = [part for each in node.generators for part in ast.walk(each.target) if isinstance(part, ast.Name)]
    args = ast.arguments([], [ast.arg(name.id) for name in targets], None, [], [], None, [])
    return ast.copy_location(ast.FunctionDef("comprehension", args, [], []), node)


def parameter_nodes(node: ast.FunctionDef) -> tuple[ast.arg, ...]:
    """Return the parameters of a function, in order, without *args and **kwargs."""
    a = node.args
    return (*a.posonlyargs, *a.args, *a.kwonlyargs)


@lru_cache(maxsize=1024)
def assigned_names(statement: ast.stmt) -> frozenset[str]:
    """Return the names that a statement binds, but not those that nested functions or comprehensions bind."""
    names: set[str] = set()
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
            continue
        if isinstance(node, (ast.Lambda, *COMPREHENSIONS)):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        pending.extend(ast.iter_child_nodes(node))
    return frozenset(names)


def _chain(node: ast.expr) -> tuple[str, ...] | None:
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    return (node.id, *reversed(attributes)) if isinstance(node, ast.Name) else None
