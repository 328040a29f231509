"""Reductions by a user's function, which is associative and needn't be commutative.

accepts: local sources and local destinations, all owned by exactly the threads of the scope; the sources' elements of
    one index in the same threads; kept axes in the same threads in source and destination.
emits: the function for each digit of the reduced index, from the fastest to the slowest, so that the lower of two
    values comes from elements before those of the higher: registers in a balanced tree; lanes whose numbers differ in
    single bits by shuffles; other threads through shared memory, which everyone reads. Padding is skipped: where the
    higher of two values holds no element, the lower one stays.
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
