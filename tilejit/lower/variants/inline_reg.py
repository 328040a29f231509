"""Inline PTX on the elements of local tiles, and on scalars, which are the elements of tiles of a thread.

accepts: local destinations owned by exactly the threads of the scope; scalars, and local inputs that broadcast to them
  and have the same owners.
emits: the instructions once per element, those of padding included if they are pure.

source: tilejit/lower/README.md, "Elementwise operations and indices".
"""

from __future__ import annotations

from collections.abc import Mapping

from ...dataclass import dataclass
from ...dtypes import DType, bool_, int8, int16, int32, uint16
from ...ir.arithmetic import build
from ...ir.nodes import TRUE, Expr, Instruction, Load, Store, TileOp, Vector
from ...isa.inline import INLINE, InlineForm
from ...ops.inline import OUTPUTS, PTX, form_of
from ..builder import Builder
from ..moves.vectors import OwnedPlan
from ..variant import RULE_CONDITIONS, DispatchContext, Variant, tiles_in
from .elementwise import inputs_of, placed_tiles, plan_tiles

#: types narrower than a register -> the type to which an input is extended; others are extended by zeros
_EXTENDED = {bool_: uint16, int8: int16}


@dataclass(frozen=True, slots=True)
class InlinePlan(OwnedPlan):
    """In iteration r each thread runs the instructions on its element r, counted along the destination's registers."""

    form: InlineForm

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]:
        return ((INLINE.row(self.form).mnemonic, self.rounds),)

    def emit(self, op: TileOp, b: Builder) -> None:
        inputs, scratch = inputs_of(op, b), [_scratch(dtype, b) for dtype in self.form.outputs]
        local = [view.buffer for view in self.owned.vectors.views]
        for starts in self.owned.starts(b):
            with b.rounds(self.rounds, *local) as iteration:
                runs = {name: start.after(iteration).run for name, start in starts.items()}
                values = [Load(runs[each]) if isinstance(each, str) else each for each in inputs]
                self._emit_element(op, b, runs, values, scratch, self._is_element(op, b, iteration))

    def _is_element(self, op: TileOp, b: Builder, iteration: Expr) -> Expr:
        """Return the condition that a thread's element isn't padding; it is true for pure instructions."""
        share, vectors = self.owned.threads_share, self.owned.vectors
        if self.form.is_pure or not vectors.padded:
            return TRUE
        digits = [*share["dst"].of_thread(b.thread(op.scope, self.threads)), *vectors.digits_of(iteration)]
        every = share.then(vectors)["dst"]
        holds: Expr = TRUE
        for dim in vectors.padded:
            index = every.coordinate(dim, digits, int32)
            holds = build.logical_and(holds, build.less(index, vectors.extents[dim]))
        return b.let("is_element", holds)

    def _emit_element(
        self, op: TileOp, b: Builder, runs: Mapping[str, Vector], values: list[Expr], scratch: list[Vector | None],
        is_element: Expr,
    ) -> None:
        """Emit the instructions, and the conversions of types narrower than a register."""
        destinations = [runs[name] for name in OUTPUTS if name in runs]
        for dst in destinations if is_element != TRUE or not scratch else ():
            b.append(Store(dst, build.const(0, dst.buffer.dtype), span=b.span))
        outputs = tuple([dst if wide is None else wide for dst, wide in zip(destinations, scratch, strict=False)])
        extended = tuple([build.cast(value, _EXTENDED.get(value.dtype, value.dtype)) for value in values])
        with b.when(is_element):
            b.append(Instruction(self.form.name, outputs, extended, span=b.span))
            for dst, wide in zip(destinations, scratch, strict=False):
                if wide is not None:
                    low = Load(Vector(wide.buffer, wide.offset))
                    b.append(Store(dst, build.cast(low, dst.buffer.dtype), span=b.span))


def _scratch(dtype: DType, b: Builder) -> Vector | None:
    """Return 16-bit registers for an output of fewer bits, the low bits of which are its value; None for others."""
    if dtype.bits >= 16:
        return None
    held, width = (uint16, 1) if dtype is bool_ else (dtype, 2)
    return Vector(b.scratch(PTX.name, held, width), build.const(0, int32), width)


def _plan(op: TileOp, context: DispatchContext) -> InlinePlan:
    plan = plan_tiles(op, placed_tiles(op), context.count(op.scope))
    return InlinePlan(1, plan.rounds, plan.threads, "", plan.owned, form_of(op.dtypes, dict(op.attrs)))


VARIANT = Variant(
    name="reg",
    operations=(PTX.name,),
    priority=10,
    operands=(tiles_in("local", does="works on local tiles", remedy=" (load it first)"),),
    when=RULE_CONDITIONS,
    honours=tuple(operand.name for operand in PTX.operands if operand.optional),
    plan=_plan,
    emit=InlinePlan.emit,
)
