"""Facts about the memory ordering of a program's instructions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...dataclass import dataclass
from ..opcodes.memory import Site
from .blocks import BARRIER_ROOTS
from .ptx import PtxInstruction


@dataclass(frozen=True, slots=True)
class Ordering:
    """Facts about a program. Each array has one element per instruction, and one more for "no instruction"."""

    #: a strong memory access
    strong: NDArray[np.bool_]
    #: a strong access whose scope includes other clusters
    wide: NDArray[np.bool_]
    #: a load with .nc
    constant: NDArray[np.bool_]
    #: an id of the instruction's source location, or of the instruction if that is unknown
    operation: NDArray[np.int64]
    any_constant: bool
    #: some strong access or fence has a scope no wider than a cluster
    narrow: bool
    #: some strong access or fence has a scope no wider than a CTA
    within: bool
    #: some fence is sequentially consistent
    consistent: bool
    #: `clocks` is true, or releases or fences may order a part of a CTA or threads of several CTAs
    partial: bool
    #: vector clocks may be needed for mbarriers, barriers of a part of a CTA or of a cluster, or the asynchronous proxy
    clocks: bool
    proxies: bool
    #: some mbarrier instruction other than expect_tx has .relaxed, and so orders no memory accesses
    relaxed: bool

    @classmethod
    def of(cls, body: Sequence[PtxInstruction], sites: Sequence[Site]) -> Ordering:
        strong, wide, constant = (np.zeros(len(body) + 1, bool) for _ in range(3))
        for site in sites:
            strong[site.pc] |= site.strong
            wide[site.pc] |= site.wide
            constant[site.pc] |= site.constant
        numbers: dict[Any, int] = {}
        operation = [numbers.setdefault(x.loc or ("pc", i), len(numbers)) for i, x in enumerate(body)]
        fences = [x for x in body if x.root == "membar" or is_memory_fence(x)]
        parts = any(x.root in BARRIER_ROOTS and ("arrive" in x.suffix or len(x.operands) > 1) for x in body)
        parts |= any(site.kind == "barrier" for site in sites)
        parts |= any(x.root == "barrier" and x.suffix.startswith(".cluster") for x in body)
        proxies = any(is_proxy(x) for x in body)
        narrow = [x for x in fences if not x.suffix.endswith((".gpu", ".sys", ".gl"))]
        narrow += [body[site.pc] for site in sites if site.strong and not site.wide]
        return cls(
            strong, wide, constant, np.array([*operation, -1]), bool(constant.any()),
            narrow=bool(narrow),
            within=any("cta" in x.suffix.split(".") for x in narrow),
            consistent=any(x.root == "membar" or ".sc" in x.suffix for x in fences),
            partial=parts or proxies or bool(fences) or any(site.release for site in sites),
            clocks=parts or proxies,
            proxies=proxies,
            relaxed=any(
                x.root == "mbarrier" and ".relaxed" in x.suffix and not x.suffix.startswith(".expect_tx") for x in body
            ),
        )


def is_memory_fence(ins: PtxInstruction) -> bool:
    """True for a fence that orders ordinary accesses."""
    return ins.root == "fence" and ".proxy" not in ins.suffix and ".mbarrier_init" not in ins.suffix


def is_proxy(ins: PtxInstruction) -> bool:
    """True for wgmma and bulk instructions, which use the asynchronous proxy, and for that proxy's fences."""
    return ins.root == "wgmma" or ".bulk" in ins.suffix or (ins.root == "fence" and ".proxy.async" in ins.suffix)
