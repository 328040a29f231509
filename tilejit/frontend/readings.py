"""The results of a trial translation of a loop body: above all, the kinds of the loop-carried names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..dataclass import dataclass, replace
from ..dtypes import bool_, int64
from ..ir.nodes import Assign, Cast, Declare, Expr, Let, Op, Var
from .carried import Carried, is_literal, loop_type
from .context import Context
from .drafts import Draft, drafted
from .enclosures import Enclosure
from .joins import can_take, merge
from .kinds import Kind, ScalarKind
from .slots import ScalarSlot, Slot, value_of
from .values import Binding, Scalar, Unset, is_number


@dataclass(frozen=True, slots=True)
class LoopTrial:
    """One trial translation of a loop body."""

    loop: Enclosure
    block: Draft
    slots: Mapping[str, Slot]
    before: Mapping[str, Binding]
    #: the bindings on each path to the code after the loop
    ends: Sequence[Mapping[str, Binding]]
    #: the bindings on each path to the next iteration
    continues: Sequence[Mapping[str, Binding]]
    carried: Mapping[str, Carried]

    def changes(self, name: str) -> list[Binding]:
        """Return the bindings of a name, at ends of iterations and exits, whose values differ from that at the head."""
        head = value_of(self.slots[name])
        # an Unset value at the head counts as a change: the name remains unset
        kept = None if isinstance(head, Unset) else head
        return [env[name] for env in (*self.continues, *self.ends) if env[name].value != kept]

    def shown(self, ctx: Context, entry: Mapping[str, Binding]) -> dict[str, Kind]:
        return {name: self.kind(ctx, name, entry[name], self.changes(name)) for name in entry}

    def kind(self, ctx: Context, name: str, entry: Binding, changes: Sequence[Binding]) -> Kind:
        kind = self._merged(ctx, name, entry, changes)
        if isinstance(kind, ScalarKind) and kind.dtype is int64 and not kind.data and self._grows(name, changes):
            return replace(kind, data=True)
        return kind

    def _grows(self, name: str, changes: Sequence[Binding]) -> bool:
        """True if a name may grow exponentially, because the `_degree` of its new value in its old one exceeds 1."""
        slot = self.slots[name]
        if not isinstance(slot, ScalarSlot):
            return False
        degrees, defined = {slot.var.name: 1}, list(self._definitions())
        before: dict[str, int] = {}
        while before != degrees:
            before = dict(degrees)
            for var, value in defined:
                degrees[var.name] = max(degrees.get(var.name, 0), _degree(value, degrees))
        return any(isinstance(b.value, Scalar) and _degree(b.value.expr, degrees) > 1 for b in changes)

    def _definitions(self) -> Iterator[tuple[Var, Expr]]:
        for stmt in drafted(self.block):
            if isinstance(stmt, (Let, Assign)) or isinstance(stmt, Declare) and stmt.init is not None:
                value = stmt.init if isinstance(stmt, Declare) else stmt.value
                if isinstance(value, (Var, Op, Cast)):
                    yield stmt.var, value
        for name, slot in self.slots.items():
            if isinstance(slot, ScalarSlot):
                yield from ((slot.var, b.value.expr) for b in self.changes(name) if isinstance(b.value, Scalar))

    def _merged(self, ctx: Context, name: str, entry: Binding, changes: Sequence[Binding]) -> Kind:
        assigned = self.carried[name].assigned if name in self.carried else None
        if assigned is not None and all(isinstance(b.value, Scalar) or is_number(b.value) for b in changes):
            literals = [b.value for b in (entry, *changes) if is_literal(b.value)]
            types = {*assigned, *(b.value.dtype for b in changes if isinstance(b.value, Scalar) and not b.value.weak)}
            dtype = loop_type(literals, types) if types else None
            if dtype is not None and all(can_take(literal, dtype) for literal in literals):
                for literal in literals:
                    ctx.takes_type(literal, dtype)
                return ScalarKind.holding(dtype, [b.value for b in changes])
        return merge(ctx, name, [entry, *changes])


def through_copies(
    ctx: Context, shown: Mapping[str, Kind], entry: Mapping[str, Binding], result: LoopTrial
) -> dict[str, Kind]:
    """Return the observed kinds, propagated through copies, so that a chain of copies takes only one more trial."""
    heads: dict[Expr, str] = {slot.var: name for name, slot in result.slots.items() if isinstance(slot, ScalarSlot)}
    sources = {
        name: [heads.get(b.value.expr) if isinstance(b.value, Scalar) else None for b in result.changes(name)]
        for name in entry
    }
    takers: dict[str, list[str]] = {}
    for name, copied in sources.items():
        for source in filter(None, copied):
            takers.setdefault(source, []).append(name)
    kinds = dict(shown)
    pending = list(takers)
    while pending:
        for name in takers.get(pending.pop(), ()):
            changes = [
                _as_shown(binding, kinds[source] if source else None)
                for binding, source in zip(result.changes(name), sources[name], strict=True)
            ]
            kind = result.kind(ctx, name, entry[name], changes)
            # a conflict is final, so the loop terminates
            if isinstance(kinds[name], ScalarKind) and kind != kinds[name]:
                kinds[name] = kind
                pending.append(name)
    return kinds


def _as_shown(binding: Binding, kind: Kind | None) -> Binding:
    """Return the binding, with the type of `kind` if its value is a variable and `kind` is a `ScalarKind`."""
    value = binding.value
    if not isinstance(kind, ScalarKind) or not isinstance(value, Scalar) or not isinstance(value.expr, Var):
        return binding
    if kind.dtype == value.dtype and kind.data == value.expr.data:
        return binding
    return Binding(Scalar(Var(value.expr.name, kind.dtype, data=kind.data), kind.weak), binding.span)


#: operations whose result needs no more bits than their widest operand
_SHRINKING = ("floordiv", "mod", "right_shift", "minimum", "maximum", "where", "bitwise_and")


def _degree(expr: Expr, degrees: Mapping[str, int]) -> int:
    """Estimate the degree of a value in the loop-carried variable, capped at 2.

    The degree of a sum or difference is the sum of its operands' degrees; of a `_SHRINKING` operation, their maximum;
    of any other operation, twice the maximum. Bools have degree 0.
    """
    if isinstance(expr, Var):
        return degrees.get(expr.name, 0)
    if isinstance(expr, Cast):
        return _degree(expr.x, degrees)
    if not isinstance(expr, Op) or expr.dtype is bool_:
        return 0
    of_operands = [_degree(x, degrees) for x in expr.args]
    if expr.name in _SHRINKING:
        return max(of_operands)
    return min(2, sum(of_operands) if expr.name in ("add", "sub") else 2 * max(of_operands))
