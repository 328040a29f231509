"""`tj.set_registers(n)`: reallocation of registers between warpgroups."""

from __future__ import annotations

import ast

from ..dtypes import int32
from ..ir.arithmetic import build
from ..ir.nodes import Declare, Instruction, Let
from ..isa.registers import LEAST, MOST, SET_REGISTERS, STEP
from ..target import entry_registers
from .arguments import Arguments
from .context import Context
from .enclosures import Construct
from .values import Constant, Value

__all__ = ["set_registers"]


def set_registers(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.set_registers(n)`; the total for the CTA is checked once all warpgroups are known."""
    argument = arguments["n"]
    count = ctx.integer(ctx.evaluate(argument), argument, "the number of registers")
    if not LEAST <= count <= MOST or count % STEP:
        raise ctx.type_error(
            argument, f"{count} registers; a thread has {LEAST} to {MOST}, in steps of {STEP}", "give a multiple of 8"
        )
    if any(each.construct is Construct.LOOP for each in ctx.enclosures):
        raise ctx.type_error(node, "a warpgroup sets its registers once, outside loops", "move it before the loop")
    if any(not isinstance(stmt, (Let, Declare)) for stmt in ctx.block):
        raise ctx.type_error(
            node, "set_registers must be the first statement of its branch", "move it to the start of the branch"
        )
    row = SET_REGISTERS[count > entry_registers(ctx.threads, ctx.max_registers)]
    row.need(ctx.target, ctx.span(node))
    ctx.emit(Instruction(row.name, (), (build.const(count, int32),), ctx.span(node)))
    return Constant(None)
