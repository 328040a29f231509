"""Reductions by a user's function that is associative, but possibly not commutative.

accepts: local sources and destinations, all owned by exactly the threads of the scope; the sources' elements of one
    index in the same threads; kept axes in the same threads in source and destination.
emits: the function for each digit of the reduced index, fastest first, so that the left operand always comes from
    earlier elements than the right one: a balanced tree over registers, shuffles between lanes whose numbers differ in
    single bits, and otherwise shared memory, which all threads read. Padding is skipped: if the right operand holds no
    element, the left one is kept.
source: tilejit/lower/README.md, "Reductions"; PTX ISA, "shfl.sync".
"""

from __future__ import annotations

from ...ops.fold import PAIRS, REDUCE
from ..moves.fold import Folding, plan_fold
from ..moves.reduction import REDUCTION_CONDITIONS, REDUCTION_OPERANDS
from ..variant import Variant

Plan = Folding

VARIANT = Variant(
    name="in_order",
    operations=(REDUCE.name,),
    priority=10,
    operands=REDUCTION_OPERANDS,
    when=REDUCTION_CONDITIONS,
    plan=plan_fold,
    emit=Plan.emit,
    honours=tuple(name for pair in PAIRS[1:] for name in pair),
)
