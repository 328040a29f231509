"""What the compiler writes for rings of clusters, with a mistake: 28 to 31, 43 and 45 of `hopper_bugs`' list."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pytest

from tests.kernels.test_clusters import K, M, kernel, ones_and_twos, product
from tests.mutations.edits import run_edited
from tests.support.orders import FEW_ORDERS, Order, simulated
from tilejit.errors import AsyncHazardError, DeadlockError, RaceError, SimulationError

STEPS, N = 6, 128
ENTRY = r"barrier\.cluster\.arrive\.relaxed\.aligned; barrier\.cluster\.wait\.acquire\.aligned;"
EXIT = r"barrier\.cluster\.arrive\.release; barrier\.cluster\.wait\.acquire;"
#: at `empty`, 2 of each CTA
ARRIVALS = r"mov\.b32 (\t%r\d+), 4;(?=[^f]*mbarrier\.init)"
RELEASE = r"\{ \.reg \.b32 a; mapa[^}]*\}"
#: of two CTAs, of which either may be reported first
OTHER_REGIONS = r"name different regions: thread \d+ .* of CTA(?=(.|\n)*B from \(0, 0\))(?=(.|\n)*B from \({}\))"
SHARED_LOAD = r"(cp\.async\.bulk\.tensor.*multicast::cluster \[%r\d+\], \[%rd\d+, )\{(%r\d+), (%r\d+)\}(.*;)"


def from_other(compute: str, coordinates: str) -> str:
    """The copy with other coordinates. compute: makes one, `c`, of the rank that it holds."""
    return f"{{ .reg .b32 c; mov.u32 c, %cluster_ctarank; {compute}; \\1{{{coordinates}}}\\4 }}"


@dataclass(frozen=True)
class Bug:
    """What becomes what in the PTX, as patterns; the errors, and what one says."""

    old: str
    new: str
    kinds: type[SimulationError] | tuple[type[SimulationError], ...]
    says: str


BUGS = {
    "28 no fence after the initialization of the barriers": Bug(
        r"fence\.mbarrier_init\.release\.cluster;", "", (AsyncHazardError, RaceError), "fence.mbarrier_init|order"),
    "28 no wait for the others' barriers": Bug(
        ENTRY, "", (AsyncHazardError, RaceError), "order|initiali[sz]ed|copies to CTA"),
    "29 a mask without the own bit": Bug(
        r"mov\.b16 (\t%rs\d+), 3;", r"mov.b16 \1, 2;", (DeadlockError, AsyncHazardError, RaceError), "bytes|phase|CTA"),
    "30 descriptors with the bits that say which CTA it is": Bug(
        r"bfe\.u32 (\t%r\d+, %r\d+), 4, 14;", r"shr.u32 \1, 4;", SimulationError,
        r"CTA \(1, 0, 0\) starts a product|descriptor|outside|nothing has written"),
    "31 no wait for the others at the end": Bug(
        EXIT, "", AsyncHazardError, "exits without being ordered after the arrival|which has exited"),
    "43 half the releases make a stage free": Bug(
        ARRIVALS, r"mov.b32 \1, 2;", (AsyncHazardError, RaceError), "waited for|arrival more|in phase|lags|order"),
    "43 a release stays in the CTA": Bug(RELEASE, "", DeadlockError, r"of 4 arrivals"),
    "45 the CTAs copy shares of other columns": Bug(
        SHARED_LOAD, from_other("mad.lo.u32 c, c, 64, \\2", "c, \\3"), AsyncHazardError,
        OTHER_REGIONS.format("0, 64")),
    "45 the CTAs copy shares of other steps": Bug(
        SHARED_LOAD, from_other("mad.lo.u32 c, c, 64, \\3", "\\2, c"), AsyncHazardError,
        OTHER_REGIONS.format("64, 0")),
}


def arrays() -> tuple[np.ndarray, ...]:
    a, b = ones_and_twos(1, 2 * M, STEPS * K), ones_and_twos(2, STEPS * K, N)
    return a, b, np.zeros((2 * M, N), np.float32)


@pytest.mark.parametrize("order", FEW_ORDERS)
@pytest.mark.parametrize("name", BUGS)
def test_each_bug_is_reported(name: str, order: Order) -> None:
    bug, given = BUGS[name], (*arrays(), 0, False, 2, N)

    def edit(ptx: str) -> str:
        assert re.search(bug.old, ptx), name
        return re.sub(bug.old, bug.new, ptx)

    with simulated(order), pytest.raises(bug.kinds) as error:
        run_edited(kernel(product, 288, (2, 1)), edit, 2, given, 288)
    assert re.search(bug.says, str(error.value)), str(error.value)
