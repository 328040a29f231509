"""Printer of the textual form of the IR, which `parser.from_text` parses.

Blocks are indented as in Python. Brackets [] enclose optional parts, except those of shapes, layouts and places:

    kernel NAME threads=N target=NAME [max_registers=N] [cluster=(X, Y, Z)] [cooperative] [debug]
      param BUFFER [of ARGUMENT] [written] [noalias]             a pointer
            [scratch(EXTENT, …) [zeroed]]                        to memory that the launch allocates
      param VAR extent AXIS of ARGUMENT                          also stride
      param VAR scalar of ARGUMENT
      param VAR address of ARGUMENT                              for comparisons in checked builds
      param assertions                                           address of the record of a failed assertion
      param BUFFER barrier                                       barrier of all CTAs of a cooperative launch
      param VAR tensormap of ARGUMENT DTYPE axes(AXIS, …) box(EXTENT, …) "SWIZZLE" [fetch "SIZE"] [written]
            [share(N, …) BYTES] …
      place NAME MEMORY FIRST +: COUNT [align N]                 MEMORY is static or dynamic (bytes of shared memory),
                                                                 tmem (columns) or barrier (ids; NAME is a scope)
      let VAR = EXPR              var VAR [= EXPR]               set NAME = EXPR
      alloc BUFFER [addressed] [arrivals N [by CALL [along A]]]  N arrivals (per CTA along A) complete a phase
      view BUFFER of NAME         store PLACE [@ ORDER] <- EXPR
      view NAME = NAME + EXPR align N                            EXPR is an offset in elements
      if EXPR … else …            loop …                         [unrolled] for VAR in EXPR .. EXPR step EXPR …
      atomic OPERATION PLACE @ ORDER <- EXPR, … [as VAR]         an update; VAR is the old value
      break    continue    return    pass                        SCOPE.sync
      SCOPE.arrive PLACE [bytes EXPR]                            at a barrier; SCOPE.expect PLACE bytes EXPR
      wait PLACE phase EXPR [as VAR]                             `as`: no wait; VAR is True if the phase is complete
      assert EXPR, "message" [RULE][, EXPR, …]                   EXPRs after the message are {0}, {1}, … in it
      print "text", EXPR, …
      breakpoint "names"[, OPERAND or of VECTOR, …]              "names" refers to the values by index
      SCOPE.OPERATION OPERAND, …[; ATTRIBUTE=VALUE, …]           a tile operation; an omitted operand is None
                                                                 a VALUE is a literal, (INTEGER, …) or a FUNCTION
      move VECTOR <- VECTOR [@ ORDER] [when EXPR] [otherwise EXPR] [cache HINT]
      instruction NAME [VECTOR, …] [<- INPUT, …] [as VAR]        VAR is a scalar result

    VAR      NAME: DTYPE [multiple_of N] [within LEAST..GREATEST] [uniform SCOPE] [data]
    BUFFER   NAME: SPACE DTYPE[EXTENT, …] [in [EXTENT, …]] LAYOUT align N       the second shape is `slots`
    LAYOUT   as in Python: S[(32, 8) : (8, 1)]; of a tensor with strides known only at launch:
             strides(STRIDE, …; align N; extent_align N);
             of a tile at open level: open SCOPE; of a view of one: open SCOPE (DIMENSION or None, …)
    REGION   NAME[START +: EXTENT, …] [inside]      a dimension without +: is dropped; inside: in bounds;
             START is at (EXTENT, …) for a gathered dimension, with the shape of the operation's `index`
    VECTOR   NAME[OFFSET +: WIDTH]                  ELEMENT  NAME[INDEX, …]      PLACE    ELEMENT or VECTOR
    INPUT    EXPR, VECTOR or descriptor VECTOR + BITS                            OPERAND  EXPR or REGION
    FUNCTION def (VAR, …), (VAR, …) [let VAR = EXPR, …] -> (EXPR, …)       without free variables
    EXPR     Python's operators, OPERATION(EXPR, …)[:DTYPE], DTYPE(EXPR[, saturate=False]) for a cast, %NAME for a
             special register, and PLACE [@ ORDER] for a load, parenthesized if a place would also be valid

A literal may specify its type, as in 4:int64. The type of any other literal follows from its context: the statement,
the variable or buffer that receives it, or the other operands; in an index, int64 for global memory and int32 for other
memory. Without context it is int32 or float32; True and False are bool_. A name is an identifier, perhaps with suffixes
such as `.1`; a reserved word or any other name is written in backquotes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator

from ...dtypes import DType, bool_, int32, int64
from ...errors import assert_never
from ...layout import TileLayout
from ...ops.record import AttributeValue
from .. import nodes as ir
from .. import params as ir_params
from ..combine import Combine
from ..placements import MemoryPlacement
from .grammar import ATOM, COMPARISON, INFIX, INVERT, NAME, NOT, RESERVED, default_dtype, literal_dtypes, says_its_type

INDENT = "  "


def to_text(kernel: ir.Kernel) -> str:
    """Return the text of a kernel, ending in a newline."""
    lines = [_header(kernel)]
    lines += [INDENT + _param(p) for p in kernel.params]
    lines += [INDENT + _placement(p) for p in kernel.memory]
    lines += _block(kernel.body, 1)
    return "\n".join(lines) + "\n"


def _header(kernel: ir.Kernel) -> str:
    words = [f"kernel {_name(kernel.name)}", f"threads={kernel.threads}", f"target={_name(kernel.target)}"]
    if kernel.max_registers is not None:
        words.append(f"max_registers={kernel.max_registers}")
    if kernel.cluster is not None:
        words.append(f"cluster=({', '.join(map(str, kernel.cluster))})")
    if kernel.cooperative:
        words.append("cooperative")
    if kernel.debug:
        words.append("debug")
    return " ".join(words)


def _param(param: ir_params.Param) -> str:
    match param:
        case ir_params.PointerParam():
            words = [f"param {buffer_text(param.buffer)}"]
            words += [f"of {_name(param.of)}"] if param.of != param.buffer.name else []
            words += [word for word, holds in (("written", param.written), ("noalias", param.noalias)) if holds]
            if param.scratch is not None:
                extents = ", ".join(expr_text(extent, int64) for extent in param.scratch.extents)
                words.append(f"scratch({extents})" + " zeroed" * param.scratch.zeroed)
            return " ".join(words)
        case ir_params.ScalarParam():
            return f"param {_definition(param.var)} scalar of {_name(param.of)}"
        case ir_params.ExtentParam():
            return f"param {_definition(param.var)} extent {param.axis} of {_name(param.of)}"
        case ir_params.StrideParam():
            return f"param {_definition(param.var)} stride {param.axis} of {_name(param.of)}"
        case ir_params.AddressParam():
            return f"param {_definition(param.var)} address of {_name(param.of)}"
        case ir_params.AssertionsParam():
            return "param assertions"
        case ir_params.BarrierParam():
            return f"param {buffer_text(param.buffer)} barrier"
        case ir_params.TensorMapParam(map=spec):
            axes, box = (", ".join(map(str, numbers)) for numbers in (spec.axes, spec.box))
            boxes = f"{spec.dtype} axes({axes}) box({box}) {json.dumps(spec.swizzle)}"
            boxes += "" if spec.fetch == spec.FETCH else f" fetch {json.dumps(spec.fetch)}"
            written = " written" if param.written else ""
            shares = "".join(f" share({', '.join(map(str, s.coordinates))}) {s.bytes}" for s in param.shares)
            return f"param {_definition(param.var)} tensormap of {_name(param.of)} {boxes}{written}{shares}"
        case _:
            return assert_never(param)


def _placement(placement: MemoryPlacement) -> str:
    text = f"place {_name(placement.name)} {placement.where} {placement.first} +: {placement.count}"
    return text if placement.align == 1 else f"{text} align {placement.align}"


def _block(body: Iterable[ir.Stmt], depth: int) -> Iterator[str]:
    for stmt in body:
        yield from _stmt(stmt, depth)


def _nested(body: tuple[ir.Stmt, ...], depth: int) -> Iterator[str]:
    if not body:
        yield INDENT * depth + "pass"
    yield from _block(body, depth)


def _stmt(stmt: ir.Stmt, depth: int) -> Iterator[str]:
    indent = INDENT * depth
    if isinstance(stmt, ir.If):
        yield f"{indent}if {expr_text(stmt.cond, bool_)}"
        yield from _nested(stmt.then, depth + 1)
        if stmt.orelse:
            yield f"{indent}else"
            yield from _block(stmt.orelse, depth + 1)
    elif isinstance(stmt, ir.For):
        start, stop, step = (expr_text(e, stmt.var.dtype) for e in (stmt.start, stmt.stop, stmt.step))
        word = "unrolled for" if stmt.unrolled else "for"
        yield f"{indent}{word} {_definition(stmt.var)} in {start} .. {stop} step {step}"
        yield from _nested(stmt.body, depth + 1)
    elif isinstance(stmt, ir.Loop):
        yield f"{indent}loop"
        yield from _nested(stmt.body, depth + 1)
    else:
        yield indent + _line(stmt)


def _line(stmt: ir.Simple | ir.Jump) -> str:
    match stmt:
        case ir.Let(var, value):
            return f"let {_definition(var)} = {expr_text(value, var.dtype)}"
        case ir.Declare(var, init):
            return f"var {_definition(var)}" + ("" if init is None else f" = {expr_text(init, var.dtype)}")
        case ir.Assign(var, value):
            return f"set {_name(var.name)} = {expr_text(value, var.dtype)}"
        case ir.Alloc(buffer, addressed, arrivals, call, along):
            options = (" addressed" if addressed else "") + (f" arrivals {arrivals}" if arrivals else "")
            options += (f" by {call}" if call else "") + ("" if along is None else f" along {along}")
            return f"alloc {buffer_text(buffer)}{options}"
        case ir.BufferView(buffer):
            return f"view {_view(buffer)}"
        case ir.Store(place, value):
            return f"store {place_text(place)}{_order(stmt.order)} <- {expr_text(value, place.buffer.dtype)}"
        case ir.Atomic():
            return _atomic(stmt)
        case ir.Sync(scope):
            return f"{scope}.sync"
        case ir.Arrive(place, scope, count):
            awaited = "" if count is None else f" bytes {expr_text(count, int32)}"
            return f"{scope}.arrive {place_text(place)}{awaited}"
        case ir.WaitPhase(place, phase, answer):
            text = f"wait {place_text(place)} phase {expr_text(phase, int32)}"
            return text if answer is None else f"{text} as {_definition(answer)}"
        case ir.Expect(place, count, scope):
            return f"{scope}.expect {place_text(place)} bytes {expr_text(count, int32)}"
        case ir.Assert(cond, message, rule, values):
            shown = ["" if rule == "assert" else f" {rule}", *(f", {expr_text(v, int64)}" for v in values)]
            return f"assert {expr_text(cond, bool_)}, {json.dumps(message)}" + "".join(shown)
        case ir.Print(parts):
            shown = [json.dumps(p) if isinstance(p, str) else expr_text(p) for p in parts]
            return f"print {', '.join(shown)}".rstrip()
        case ir.Breakpoint(names, values):
            shown = [f"of {place_text(x)}" if isinstance(x, ir.Vector) else _operand(x, None) for x in values]
            return f"breakpoint {', '.join([json.dumps(names), *shown])}"
        case ir.TileOp():
            return _tile_op(stmt)
        case ir.Move():
            return _move(stmt)
        case ir.Instruction():
            return _instruction(stmt)
        case ir.Break() | ir.Continue() | ir.Return():
            return type(stmt).__name__.lower()
        case _:
            raise assert_never(stmt)


def _atomic(stmt: ir.Atomic) -> str:
    operands = ", ".join(expr_text(operand, stmt.place.buffer.dtype) for operand in stmt.operands)
    result = "" if stmt.var is None else f" as {_definition(stmt.var)}"
    return f"atomic {_name(stmt.op)} {place_text(stmt.place)}{_order(stmt.order)} <- {operands}{result}"


def _tile_op(op: ir.TileOp) -> str:
    wanted = op.operands[0].dtype if op.operands and isinstance(op.operands[0], ir.Region) else None
    operands = ", ".join("None" if o is None else _operand(o, wanted) for o in op.operands)
    attrs = ", ".join(f"{name}={_value(value)}" for name, value in op.attrs)
    return f"{op.scope}.{op.name} {operands}".rstrip() + (f"; {attrs}" if attrs else "")


def _move(move: ir.Move) -> str:
    text = f"move {place_text(move.dst)} <- {place_text(move.src)}{_order(move.order)}"
    if move.predicate is not None:
        text += f" when {expr_text(move.predicate, bool_)}"
    if move.otherwise is not None:
        text += f" otherwise {expr_text(move.otherwise, move.dst.buffer.dtype)}"
    return text + (f" cache {move.cache}" if move.cache else "")


def _instruction(stmt: ir.Instruction) -> str:
    outputs = ", ".join(place_text(v) for v in stmt.outputs)
    inputs = ", ".join(_input(each) for each in stmt.inputs)
    text = f"instruction {_name(stmt.name)} {outputs}".rstrip() + (f" <- {inputs}" if inputs else "")
    return text if stmt.var is None else f"{text} as {_definition(stmt.var)}"


def _input(given: ir.Input) -> str:
    if isinstance(given, ir.Descriptor):
        return f"descriptor {place_text(given.place)} + {given.constant:#x}"
    return place_text(given) if isinstance(given, ir.Vector) else _operand(given, None)


def _operand(operand: ir.Region | ir.Expr, wanted: DType | None) -> str:
    if isinstance(operand, ir.Region):
        return place_text(operand)
    text = expr_text(operand, wanted)
    return f"({text})" if isinstance(operand, ir.Load) else text


def _value(value: AttributeValue) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(str, value))})"
    if isinstance(value, Combine):
        return _combine(value)
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _combine(combine: Combine) -> str:
    lower, higher = (", ".join(map(_definition, side)) for side in (combine.lower, combine.higher))
    steps = ", ".join(f"{_definition(step.var)} = {expr_text(step.value, step.var.dtype)}" for step in combine.steps)
    wanted = [*(var.dtype for var in combine.lower), *[None] * len(combine.results)]
    results = ", ".join(expr_text(result, dtype) for result, dtype in zip(combine.results, wanted, strict=False))
    return f"def ({lower}), ({higher})" + (f" let {steps}" if steps else "") + f" -> ({results})"


def _name(name: str) -> str:
    if NAME.fullmatch(name) and name not in RESERVED:
        return name
    return "`" + json.dumps(name)[1:-1].replace("`", "\\u0060") + "`"


def _definition(var: ir.Var) -> str:
    text = f"{_name(var.name)}: {var.dtype}"
    if var.multiple_of != 1:
        text += f" multiple_of {var.multiple_of}"
    if var.bounds is not None:
        text += f" within {var.bounds[0]}..{var.bounds[1]}"
    if var.uniform:
        text += f" uniform {var.uniform}"
    if var.data:
        text += " data"
    return text


def buffer_text(buffer: ir.Buffer) -> str:
    """Return the text of a buffer's definition, without the base of a view."""
    shape = ", ".join(_size(n) for n in buffer.shape)
    head = f"{_name(buffer.name)}: {buffer.space} {buffer.dtype}[{shape}]"
    slots = f" in [{', '.join(map(str, buffer.slots))}]" if buffer.slots else ""
    return f"{head}{slots} {_layout(buffer.layout)} align {buffer.align}"


def _view(buffer: ir.Buffer) -> str:
    if buffer.base is None:
        return buffer_text(buffer)
    base = _name(buffer.base.name)
    if buffer.offset is None:
        return f"{buffer_text(buffer)} of {base}"
    return f"{_name(buffer.name)} = {base} + {expr_text(buffer.offset, buffer.index_dtype)} align {buffer.align}"


def _size(size: int | ir.Var) -> str:
    return _name(size.name) if isinstance(size, ir.Var) else str(size)


def _layout(layout: TileLayout | ir.Strided | ir.Open) -> str:
    if isinstance(layout, ir.Open):
        dims = "" if layout.dims is None else f" ({', '.join(map(str, layout.dims))})"
        return f"open {layout.scope}{dims}"
    if not isinstance(layout, ir.Strided):
        return repr(layout)
    strides = ", ".join(_size(s) for s in layout.strides)
    return f"strides({strides}; align {layout.align}; extent_align {layout.extent_align})"


def place_text(place: ir.Region | ir.Vector | ir.Element) -> str:
    """Return the text of a region, a vector or an element."""
    name, wanted = _name(place.buffer.name), place.buffer.index_dtype
    if isinstance(place, ir.Vector):
        return f"{name}[{expr_text(place.offset, wanted)} +: {place.width}]"
    if isinstance(place, ir.Element):
        return f"{name}[{', '.join(expr_text(i, wanted) for i in place.indices)}]"
    dims = [
        expr_text(start, wanted) + ("" if extent is None else f" +: {extent}")
        for start, extent in zip(place.starts, place.extents, strict=True)
    ]
    if place.gathered is not None:
        dims[place.gathered.dim] = f"at ({', '.join(map(str, place.gathered.shape))})"
    return f"{name}[{', '.join(dims)}]" + (" inside" if place.in_bounds else "")


def expr_text(expr: ir.Expr, wanted: DType | None = None) -> str:
    """Return the text of an expression. wanted: the type of an untyped literal in this context, or None."""
    return _expr(expr, wanted)[0]


def _expr(expr: ir.Expr, wanted: DType | None) -> tuple[str, int]:
    match expr:
        case ir.Const():
            return _literal(expr, wanted), ATOM
        case ir.Var(name):
            return _name(name), ATOM
        case ir.Special(name):
            return f"%{name}", ATOM
        case ir.Cast(x, dtype, saturate):
            return f"{dtype}({expr_text(x)}{'' if saturate else ', saturate=False'})", ATOM
        case ir.Load(place, order):
            return f"{place_text(place)}{_order(order)}", ATOM
        case ir.Op():
            return _operation(expr)
        case _:
            raise assert_never(expr)


def _order(order: str) -> str:
    return f" @ {order}" if order else ""


def _operation(op: ir.Op) -> tuple[str, int]:
    parts = [_expr(a, wanted) for a, wanted in zip(op.args, literal_dtypes(op.name, op.args), strict=True)]
    if says_its_type(op):
        return f"{op.name}({', '.join(text for text, _ in parts)}):{op.dtype}", ATOM
    if op.name in INFIX and len(parts) == 2:
        sign, level = INFIX[op.name]
        left = _parenthesised(parts[0], level + (level == COMPARISON))
        return f"{left} {sign} {_parenthesised(parts[1], level + 1)}", level
    if op.name == "logical_not" and len(parts) == 1:
        return f"not {_parenthesised(parts[0], NOT)}", NOT
    if op.name == "bitwise_not" and len(parts) == 1:
        return f"~{_parenthesised(parts[0], INVERT)}", INVERT
    return f"{op.name}({', '.join(text for text, _ in parts)})", ATOM


def _parenthesised(part: tuple[str, int], least: int) -> str:
    text, precedence = part
    return text if precedence >= least else f"({text})"


def _literal(const: ir.Const, wanted: DType | None) -> str:
    text, is_float = _number(const)
    usual = bool_ if text in ("True", "False") else wanted or default_dtype(is_float)
    return text if const.dtype == usual else f"{text}:{const.dtype}"


def _number(const: ir.Const) -> tuple[str, bool]:
    """Return the text of a literal, and True if it has the form of a float."""
    value = const.value
    if const.dtype == bool_ and value in (0, 1):
        return str(bool(value)), False
    if isinstance(value, float) or const.dtype.is_float:
        number = float(value)
        return ("nan" if math.isnan(number) else repr(number)), True
    return str(int(value)), False
