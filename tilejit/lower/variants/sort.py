"""Sorts of the rows of local tiles.

accepts: local sources and destinations, all owned by exactly the threads of the scope, with rows of 2^n elements whose
  positions consist of bits over registers and threads, equal in all tiles; the rows of destinations are the first 2^k
  elements, and all threads of a row hold them if bits from k on are over threads.
emits: a bitonic network (`moves/network.py`). Comparators between registers are a minimum and a maximum, or a compare
  and two selections per tile if other tiles are compared or move along. Between lanes, they follow a shuffle of each
  value; between other threads, an exchange through shared memory with two barriers.
source: K. E. Batcher, "Sorting networks and their applications", 1968; PTX ISA, "shfl.sync".
"""

from __future__ import annotations

from ...ops.sort import PAIRS, SORT
from ..moves.network import Network, plan_network
from ..variant import RULE_CONDITIONS, Variant, tiles_in

VARIANT = Variant(
    name="network",
    operations=(SORT.name,),
    priority=10,
    operands=(tiles_in("local", does="sorts local tiles"),),
    when=RULE_CONDITIONS,
    plan=plan_network,
    emit=Network.emit,
    # the destinations and sources of further values
    honours=tuple(name for pair in PAIRS[1:] for name in pair),
)
