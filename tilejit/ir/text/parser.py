"""Parser for the IR's text. The grammar is in the docstring of `printer`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ...dataclass import replace
from ...dtypes import DType, bool_, int32, int64
from ...errors import KernelSyntaxError, LayoutError
from ...layout import TileLayout
from ...ops.record import AttributeValue
from ...scopes import LEVELS, SCOPES
from .. import nodes as ir
from .. import params as ir_params
from ..combine import Combine
from ..placements import PLACES, MemoryPlacement
from ..values import SPACES
from .expressions import Names, dtype_name, ends_after_place, expression, looked_up, order, place, region
from .layout_text import layout_from_text
from .tokens import Line, lines_of

T = TypeVar("T")


def from_text(text: str) -> ir.Kernel:
    """Parse the text of a kernel. raises: KernelSyntaxError at the first error."""
    lines = lines_of(text)
    if not lines:
        return Line("", 1).fail("expected a kernel; got nothing")
    reader = _Reader(lines[1:])
    head = lines[0]
    head.expect("kernel")
    name = head.name()
    options = _options(head)
    params = reader.params()
    memory = reader.memory()
    body = reader.block(0)
    if reader.remaining:
        reader.remaining[0].fail("expected an indented line or the end of the text")
    return ir.Kernel(name, params, body=body, memory=memory, **options)  # type: ignore[arg-type]


def _options(line: Line) -> dict[str, object]:
    options: dict[str, object] = {}
    while not line.is_done:
        word = line.name()
        if word in ("debug", "cooperative"):
            options[word] = True
            continue
        line.expect("=")
        if word == "target":
            options[word] = line.name()
        elif word == "cluster":
            line.expect("(")
            options[word] = tuple(line.separated(line.integer, ")"))
        elif word in ("threads", "max_registers"):
            options[word] = line.integer()
        else:
            line.fail(f"unknown kernel option {word!r}")
    for word in ("threads", "target"):
        if word not in options:
            line.fail(f"missing kernel option {word}=")
    return options


class _Reader:
    def __init__(self, lines: list[Line]) -> None:
        self.remaining = lines
        self.names = Names()

    def params(self) -> tuple[ir_params.Param, ...]:
        """Parse the parameters, buffers last, because the text lists a tensor before its extents and strides."""
        lines: list[Line] = []
        while self.remaining and self.remaining[0].accept("param"):
            lines.append(self.remaining.pop(0))
        params: dict[int, ir_params.Param] = {}
        for scalar in (True, False):
            for number, line in enumerate(lines):
                if _is_scalar(line) == scalar:
                    params[number] = self._number(line) if scalar else self._pointer(line)
                    self._end(line)
        return tuple(params[n] for n in range(len(lines)))

    def memory(self) -> tuple[MemoryPlacement, ...]:
        memory: list[MemoryPlacement] = []
        while self.remaining and self.remaining[0].accept("place"):
            memory.append(self._placement(self.remaining.pop(0)))
        return tuple(memory)

    def _placement(self, line: Line) -> MemoryPlacement:
        name, where = line.name(), line.name()
        if where not in PLACES:
            line.fail(f"{where!r} isn't a kind of placement; expected one of {', '.join(PLACES)}")
        first = line.integer()
        line.expect("+:")
        placement = MemoryPlacement(name, where, first, line.integer(), line.integer() if line.accept("align") else 1)
        self._end(line)
        return placement

    def _number(self, line: Line) -> ir_params.Param:
        if line.peek.text == "assertions" and len(line.tokens) == line.at + 2:
            line.name()
            return ir_params.AssertionsParam()
        var = self._definition(line)
        kind = line.name()
        axis = [line.integer()] if kind in ("extent", "stride") else []
        line.expect("of")
        if kind == "tensormap":
            return self._tensor_map(line, var)
        kinds: dict[str, Callable[..., ir_params.Param]] = {
            "scalar": ir_params.ScalarParam, "extent": ir_params.ExtentParam, "stride": ir_params.StrideParam,
            "address": ir_params.AddressParam,
        }
        if kind not in kinds:
            line.fail(f"unknown kind of parameter {kind!r}")
        return kinds[kind](line.name(), var, *axis)

    def _tensor_map(self, line: Line, var: ir.Var) -> ir_params.Param:
        of, dtype = line.name(), dtype_name(line)
        line.expect("axes")
        axes = self._integers(line)
        line.expect("box")
        spec = ir_params.TensorMapSpec(of, dtype, axes, self._integers(line), line.string())
        if line.accept("fetch"):
            spec = replace(spec, fetch=line.string())
        written, shares = line.accept("written"), list[ir_params.BoxShare]()
        while line.accept("share"):
            shares.append(ir_params.BoxShare(self._integers(line), line.integer()))
        return ir_params.TensorMapParam(var, spec, written, tuple(shares))

    def _integers(self, line: Line) -> tuple[int, ...]:
        line.expect("(")
        return tuple(line.separated(line.integer, ")"))

    def _pointer(self, line: Line) -> ir_params.Param:
        buffer = self._buffer(line)
        if line.accept("barrier"):
            return ir_params.BarrierParam(buffer)
        of = line.name() if line.accept("of") else buffer.name
        written, noalias, scratch = line.accept("written"), line.accept("noalias"), None
        if line.accept("scratch"):
            line.expect("(")
            extents = tuple(line.separated(lambda: expression(line, self.names, int64), ")"))
            scratch = ir_params.ScratchShape(extents, line.accept("zeroed"))
        return ir_params.PointerParam(of, buffer, written, noalias, scratch)

    def block(self, outside: int) -> tuple[ir.Stmt, ...]:
        """Parse lines up to the first one that isn't indented by more than `outside` columns."""
        body: list[ir.Stmt] = []
        indent = self.remaining[0].indent if self.remaining else 0
        while self.remaining and self.remaining[0].indent > outside:
            line = self.remaining.pop(0)
            if line.indent != indent:
                line.fail("unexpected indentation")
            stmt = self._stmt(line)
            if stmt is not None:
                body.append(stmt)
        return tuple(body)

    def _inner(self, line: Line) -> tuple[ir.Stmt, ...]:
        self._end(line)
        if not self.remaining or self.remaining[0].indent <= line.indent:
            line.fail("expected an indented block; write `pass` for an empty one")
        return self.block(line.indent)

    def _end(self, line: Line) -> None:
        if not line.is_done:
            line.fail(f"unexpected {line.peek.text!r}")

    def _stmt(self, line: Line) -> ir.Stmt | None:
        if line.accept("pass"):
            self._end(line)
            return None
        for word, block in (("if", self._if), ("loop", self._loop), ("for", self._for), ("unrolled", self._for)):
            if line.sees(word) and not line.sees(word, "."):
                return block(line)
        stmt = self._simple(line)
        self._end(line)
        return stmt

    def _if(self, line: Line) -> ir.Stmt:
        line.expect("if")
        cond = expression(line, self.names, bool_)
        then = self._inner(line)
        if self.remaining and self.remaining[0].indent == line.indent and self.remaining[0].accept("else"):
            return ir.If(cond, then, self._inner(self.remaining.pop(0)))
        return ir.If(cond, then)

    def _loop(self, line: Line) -> ir.Stmt:
        line.expect("loop")
        return ir.Loop(self._inner(line))

    def _for(self, line: Line) -> ir.Stmt:
        unrolled = line.accept("unrolled")
        line.expect("for")
        var = self._definition(line)
        line.expect("in")
        start = expression(line, self.names, var.dtype)
        line.expect("..")
        stop = expression(line, self.names, var.dtype)
        line.expect("step")
        step = expression(line, self.names, var.dtype)
        return ir.For(var, start, stop, step, self._inner(line), unrolled)

    def _simple(self, line: Line) -> ir.Stmt:
        word = line.name()
        scope, _, name = word.partition(".")
        if scope in LEVELS and name == "sync":
            return ir.Sync(scope)
        if scope in SCOPES and name == "arrive":
            at = place(line, self.names)
            return ir.Arrive(at, scope, expression(line, self.names, int32) if line.accept("bytes") else None)
        if scope in SCOPES and name == "expect":
            at = place(line, self.names)
            line.expect("bytes")
            return ir.Expect(at, expression(line, self.names, int32), scope)
        if scope in SCOPES and name:
            return self._tile_op(line, scope, name)
        match word:
            case "break":
                return ir.Break()
            case "continue":
                return ir.Continue()
            case "return":
                return ir.Return()
            case "let":
                return self._let(line)
            case "var":
                var = self._definition(line)
                return ir.Declare(var, expression(line, self.names, var.dtype) if line.accept("=") else None)
            case "set":
                var = looked_up(line, self.names.vars, "variable")
                line.expect("=")
                return ir.Assign(var, expression(line, self.names, var.dtype))
            case "alloc":
                buffer, addressed = self._buffer(line), line.accept("addressed")
                arrivals = line.integer() if line.accept("arrivals") else 0
                call = line.name() if line.accept("by") else ""
                return ir.Alloc(buffer, addressed, arrivals, call, line.integer() if line.accept("along") else None)
            case "view":
                return self._view(line)
            case "store":
                at = place(line, self.names)
                ordered = order(line)
                line.expect("<-")
                return ir.Store(at, expression(line, self.names, at.buffer.dtype), ordered)
            case "atomic":
                return self._atomic(line)
            case "wait":
                at = place(line, self.names)
                line.expect("phase")
                phase = expression(line, self.names, int32)
                return ir.WaitPhase(at, phase, self._definition(line) if line.accept("as") else None)
            case "assert":
                cond = expression(line, self.names, bool_)
                line.expect(",")
                message = line.string()
                rule = next((rule for rule in ir.RULES[1:] if line.accept(rule)), ir.RULES[0])
                values = []
                while line.accept(","):
                    values.append(expression(line, self.names, int64))
                return ir.Assert(cond, message, rule, tuple(values))
            case "print":
                return ir.Print(tuple(self._list(line, lambda: self._part(line))))
            case "breakpoint":
                names, shown = line.string(), list[ir.Expr | ir.Region | ir.Vector]()
                while line.accept(","):
                    shown.append(self._vector(line) if line.accept("of") else self._operand(line, None))
                return ir.Breakpoint(names, tuple(shown))
            case "move":
                return self._move(line)
            case "instruction":
                return self._instruction(line)
        return line.fail(f"unknown statement {word!r}", line.indent)

    def _let(self, line: Line) -> ir.Let:
        var = self._definition(line)
        line.expect("=")
        return ir.Let(var, expression(line, self.names, var.dtype))

    def _view(self, line: Line) -> ir.Stmt:
        if line.is_done or line.tokens[line.at + 1].text != "=":
            return ir.BufferView(self._buffer(line))
        name = line.name()
        line.expect("=")
        base = looked_up(line, self.names.buffers, "buffer")
        line.expect("+")
        offset = expression(line, self.names, base.index_dtype)
        line.expect("align")
        view = replace(base, name=name, base=base, offset=offset, align=line.integer())
        self.names.buffers[name] = view
        return ir.BufferView(view)

    def _atomic(self, line: Line) -> ir.Stmt:
        op = line.name()
        at = place(line, self.names)
        ordered = order(line)
        line.expect("<-")
        operands = self._list(line, lambda: expression(line, self.names, at.buffer.dtype))
        return ir.Atomic(op, at, tuple(operands), ordered, self._definition(line) if line.accept("as") else None)

    def _move(self, line: Line) -> ir.Stmt:
        dst = self._vector(line)
        line.expect("<-")
        src = self._vector(line)
        ordered = order(line)
        predicate = expression(line, self.names, bool_) if line.accept("when") else None
        otherwise = expression(line, self.names, dst.buffer.dtype) if line.accept("otherwise") else None
        cache = line.name() if line.accept("cache") else ""
        return ir.Move(dst, src, predicate, otherwise, ordered, cache)

    def _instruction(self, line: Line) -> ir.Stmt:
        name = line.name()
        outputs = [] if line.sees("<-") or line.sees("as") else self._list(line, lambda: self._vector(line))
        inputs = self._list(line, lambda: self._input(line)) if line.accept("<-") else []
        var = self._definition(line) if line.accept("as") else None
        return ir.Instruction(name, tuple(outputs), tuple(inputs), var=var)

    def _tile_op(self, line: Line, scope: str, name: str) -> ir.Stmt:
        operands: list[ir.Region | ir.Expr | None] = []
        while not line.is_done and not line.sees(";"):
            if operands:
                line.expect(",")
            first = operands[0] if operands else None
            wanted = first.dtype if isinstance(first, ir.Region) else None
            operands.append(None if line.accept("None") else self._operand(line, wanted))
        attrs = self._list(line, lambda: self._attr(line)) if line.accept(";") else []
        return ir.TileOp(name, scope, tuple(operands), tuple(attrs))

    def _part(self, line: Line) -> str | ir.Expr:
        return line.string() if line.peek.kind == "string" else expression(line, self.names)

    def _operand(self, line: Line, wanted: DType | None) -> ir.Region | ir.Expr:
        if not ends_after_place(line):
            return expression(line, self.names, wanted)
        return region(line, self.names)

    def _input(self, line: Line) -> ir.Input:
        if line.accept("descriptor"):
            at = self._vector(line)
            line.expect("+")
            return ir.Descriptor(at, line.integer())
        return self._vector(line) if ends_after_place(line) else expression(line, self.names)

    def _vector(self, line: Line) -> ir.Vector:
        at = place(line, self.names)
        if not isinstance(at, ir.Vector):
            line.fail("expected a vector: NAME[OFFSET +: WIDTH]")
        return at

    def _list(self, line: Line, read: Callable[[], T]) -> list[T]:
        """Parse a comma-separated list, which is empty if the line ends here or continues with `;`."""
        if line.is_done or line.sees(";"):
            return []
        items = [read()]
        while line.accept(","):
            items.append(read())
        return items

    def _attr(self, line: Line) -> tuple[str, AttributeValue]:
        name = line.name()
        line.expect("=")
        if line.peek.kind == "string":
            return name, line.string()
        if line.accept("("):
            return name, tuple(line.separated(line.integer, ")"))
        if line.accept("def"):
            return name, self._combine(line)
        for word, value in (("True", True), ("False", False), ("None", None)):
            if line.accept(word):
                return name, value
        return name, line.integer()

    def _combine(self, line: Line) -> Combine:
        """Parse the part of a combine function after `def`; the kernel's variables aren't visible in it."""
        outer, self.names.vars = self.names.vars, {}
        lower = self._parameters(line)
        line.expect(",")
        higher = self._parameters(line)
        steps: list[ir.Let] = []
        if line.accept("let"):
            steps.append(self._let(line))
            while line.accept(","):
                steps.append(self._let(line))
        line.expect("->")
        line.expect("(")
        wanted = iter(lower)

        def result() -> ir.Expr:
            var = next(wanted, None)
            return expression(line, self.names, None if var is None else var.dtype)

        results = line.separated(result, ")")
        self.names.vars = outer
        return Combine(lower, higher, tuple(steps), tuple(results))

    def _parameters(self, line: Line) -> tuple[ir.Var, ...]:
        line.expect("(")
        return tuple(line.separated(lambda: self._definition(line), ")"))

    def _definition(self, line: Line) -> ir.Var:
        """Parse a variable's NAME: DTYPE and facts, and define the variable."""
        name = line.name()
        line.expect(":")
        dtype = dtype_name(line)
        multiple = line.integer() if line.accept("multiple_of") else 1
        bounds = None
        if line.accept("within"):
            low = line.integer()
            line.expect("..")
            bounds = (low, line.integer())
        uniform = line.name() if line.accept("uniform") else ""
        var = ir.Var(name, dtype, multiple, bounds, uniform=uniform, data=line.accept("data"))
        self.names.vars[name] = var
        return var

    def _buffer(self, line: Line) -> ir.Buffer:
        name = line.name()
        line.expect(":")
        space = line.name()
        if space not in SPACES:
            line.fail(f"{space!r} isn't a memory space; expected one of {', '.join(SPACES)}")
        dtype = dtype_name(line)
        line.expect("[")
        shape = tuple(line.separated(lambda: self._size(line), "]"))
        slots: tuple[int, ...] = ()
        if line.accept("in"):
            line.expect("[")
            slots = tuple(line.separated(line.integer, "]"))
        layout = self._layout(line)
        line.expect("align")
        align = line.integer()
        is_view = line.tokens[0].text == "view"
        base = looked_up(line, self.names.buffers, "buffer") if is_view and line.accept("of") else None
        buffer = ir.Buffer(name, space, dtype, shape, layout, align, base, slots=slots)
        self.names.buffers[name] = buffer
        return buffer

    def _size(self, line: Line) -> int | ir.Var:
        is_number = line.peek.kind == "int" or line.sees("-")
        return line.integer() if is_number else looked_up(line, self.names.vars, "variable")

    def _layout(self, line: Line) -> TileLayout | ir.Strided | ir.Open:
        if line.sees("strides", "("):
            return self._strided(line)
        return _open(line) if line.accept("open") else _tile_layout(line)

    def _strided(self, line: Line) -> ir.Strided:
        line.expect("strides")
        line.expect("(")
        strides = tuple(line.separated(lambda: self._size(line), ";"))
        line.expect("align")
        align = line.integer()
        line.expect(";")
        line.expect("extent_align")
        extent_align = line.integer()
        line.expect(")")
        return ir.Strided(strides, align, extent_align)


def _is_scalar(line: Line) -> bool:
    """True unless a parameter's line defines a buffer (NAME: SPACE DTYPE)."""
    return len(line.tokens) <= line.at + 2 or line.tokens[line.at + 2].text not in SPACES


def _open(line: Line) -> ir.Open:
    scope = line.name()
    if not line.accept("("):
        return ir.Open(scope)
    return ir.Open(scope, tuple(line.separated(lambda: None if line.accept("None") else line.integer(), ")")))


def _tile_layout(line: Line) -> TileLayout:
    start = line.peek.column
    while not line.is_done and not line.sees("align"):
        line.take()
    try:
        return layout_from_text(line.text[start : line.peek.column].strip())
    except (KernelSyntaxError, LayoutError) as error:
        line.fail(error.message, start)
