"""From a kernel at tile level to PTX: the passes in order, and what they make.

```
open IR ─ limits, layouts ─▶
tile IR ─ initialized, polls, in place, checks, lower ─▶
lane IR ─ expects, proxies, arrivals, clusters, storage, pending, packed, assertions, prune, unroll, split offsets,
          hoist ─▶
       ─ codegen ─▶ PTX
```
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .codegen import Generated, generate, limits
from .codegen.expressions import asked_along
from .codegen.storage import allocations, local_memory
from .compile_record import Derivation
from .compiled import Compiled
from .dataclass import dataclass, field, replace
from .errors import ResourceError
from .executable import Assertion, Executable
from .ir import walk
from .ir.analyses import initialized, polling
from .ir.analyses.precision import widened_scalars
from .ir.analyses.pressure import Pressure
from .ir.analyses.register_pool import sets_registers
from .ir.checks import checked, refuse_overlaps
from .ir.nodes import Assert, Buffer, Kernel, Open, Var
from .ir.params import AssertionsParam, Param
from .ir.placements import DYNAMIC, SHARED, MemoryPlacement, total, within
from .ir.types import Signature
from .ir.verify import Examined, examine, placement_faults
from .ir.watched import WatchedRegion
from .lower import (
    Verdict,
    arrivals,
    clusters,
    expects,
    hoist,
    lower,
    packed,
    pending,
    proxies,
    split_offsets,
    storage,
    tensor_fences,
    unroll,
)
from .lower.open import LayoutChoice, lay_out
from .progress import report_step
from .remember import lasting
from .source import Span
from .target import MAX_THREADS, Target, entry_registers

__all__ = ["PASSES", "Pass", "compile", "would_check"]


@dataclass(slots=True)
class PassState:
    """What the passes hand on: the kernel as it stands, and what they found out.

    tile: with layouts, before anything is checked or lowered. layouts: how they were chosen.
    flags: the buffers that checked builds have besides. watched: the regions that they count.
    pressure: of the local tiles, None where all of them together fit in registers.
    examined: what the last verification saw, None before the first. generated: None until code generation.
    """

    kernel: Kernel
    target: Target
    tile: Kernel | None = None
    layouts: tuple[LayoutChoice, ...] = ()
    verdicts: tuple[Verdict[Any], ...] = ()
    addressed: Mapping[str, Span | None] = field(default_factory=dict)
    flags: frozenset[str] = frozenset()
    watched: tuple[WatchedRegion, ...] = ()
    pressure: Pressure | None = None
    examined: Examined | None = None
    generated: Generated | None = None
    timings: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pass:
    """One step of the pipeline.

    level: of the kernel that it leaves, a level of `ir.nodes`; "" where the pass leaves the kernel's body alone, or
    only writes out what was verified.
    after: the passes that must have run, each with the reason.
    """

    name: str
    run: Callable[[PassState], None]
    level: str = ""
    after: tuple[tuple[str, str], ...] = ()


def _check_limits(state: PassState) -> None:
    kernel = state.kernel
    if not 1 <= kernel.threads <= MAX_THREADS:
        raise ResourceError(
            f"{kernel.name} asks for {kernel.threads} threads in a CTA; the limit is {MAX_THREADS}",
            span=kernel.span,
            hint=f"@tj.kernel(threads=...) takes 1 to {MAX_THREADS}; more work goes to more CTAs",
        )
    if kernel.cluster is not None and not state.target.has_clusters:
        raise ResourceError(
            f"{kernel.name} asks for clusters of {kernel.cluster}; they need sm_90 or newer, target is {state.target}",
            span=kernel.span,
            hint="leave cluster= out or compile for a newer target",
        )
    # before lowering, which takes memory and time in proportion to a buffer's size
    buffers = tuple(b for b in allocations(kernel.body) if not isinstance(b.layout, Open))
    _check_memory(state, buffers, storage.placements(buffers))


def _lay_out(state: PassState) -> None:
    laid_out = lay_out(state.kernel)
    if laid_out.kernel is not state.kernel:
        # those that were open have a size only now
        limits.check_local_memory(state.kernel, tuple(allocations(laid_out.kernel.body)))
    state.kernel = state.tile = laid_out.kernel
    state.layouts = laid_out.choices


def _check_initialized(state: PassState) -> None:
    initialized.check(state.kernel)


def _relax_polls(state: PassState) -> None:
    state.kernel = polling.relaxed(state.kernel)


def _check_in_place(state: PassState) -> None:
    refuse_overlaps(state.kernel)


def _insert_checks(state: PassState) -> None:
    if state.kernel.debug:
        tiles = set(allocations(state.kernel.body))
        made = checked(state.kernel)
        state.kernel, state.watched = made.kernel, made.watched
        state.flags = frozenset(b.name for b in allocations(state.kernel.body) if b not in tiles)


def _lower(state: PassState) -> None:
    lowered = lower(state.kernel, state.target)
    state.kernel, state.verdicts, state.addressed = lowered.kernel, lowered.verdicts, lowered.addressed


def _tell_arrivals(state: PassState) -> None:
    state.kernel = expects.with_arrivals(state.kernel)


def _fence_proxies(state: PassState) -> None:
    state.kernel = tensor_fences.with_tensor_fences(proxies.with_fences(state.kernel))


def _expand_arrivals(state: PassState) -> None:
    state.kernel = arrivals.expand(state.kernel)


def _meet_in_clusters(state: PassState) -> None:
    state.kernel = clusters.with_meetings(state.kernel)


def _count_registers(state: PassState) -> None:
    assert state.tile is not None
    state.pressure = limits.check_registers(state.tile, state.addressed)


def _carry_pending(state: PassState) -> None:
    state.kernel = pending.carry(state.kernel)


def _keep_packed(state: PassState) -> None:
    state.kernel = packed.keep(state.kernel)


def _place(state: PassState) -> None:
    """Only where buffers live is new, so only that is verified."""
    state.kernel = storage.placed(state.kernel)
    buffers = tuple(allocations(state.kernel.body))
    _check_memory(state, buffers, state.kernel.memory)
    _refuse_broken("storage", state.kernel, "lane", tuple(placement_faults(state.kernel, buffers)))


def _check_memory(state: PassState, buffers: tuple[Buffer, ...], memory: tuple[MemoryPlacement, ...]) -> None:
    limits.check_shared_memory(state.kernel, state.target, memory, buffers)
    limits.check_local_memory(state.kernel, _users(state, buffers), state.addressed)
    limits.check_tensor_memory(state.kernel, memory, buffers)


def _users(state: PassState, buffers: Iterable[Buffer]) -> tuple[Buffer, ...]:
    """The buffers without those that only checked builds have."""
    return tuple([b for b in buffers if b.name not in state.flags] if state.flags else buffers)


def _bind_assertions(state: PassState) -> None:
    """Gives a debug kernel that asserts something the parameter that points at its record."""
    kernel = state.kernel
    if kernel.debug and Assert in walk.inventory(kernel.body).kinds:
        state.kernel = replace(kernel, params=(*kernel.params, AssertionsParam()))


def _prune(state: PassState) -> None:
    """Drops the parameters that nothing names."""
    kernel, used = state.kernel, state.examined
    assert used is not None
    kept = tuple(p for p in kernel.params if _is_used(p, used))
    if kept != kernel.params:
        state.kernel = replace(kernel, params=kept)


def _is_used(param: Param, used: Examined) -> bool:
    """Whether anything names what a parameter defines; one that defines nothing stays."""
    defined = param.defines
    return defined is None or defined.name in (used.vars if isinstance(defined, Var) else used.buffers)


def _unroll(state: PassState) -> None:
    state.kernel = unroll.written_out(state.kernel)


def _split_offsets(state: PassState) -> None:
    state.kernel = split_offsets.split_offsets(state.kernel)


def _hoist(state: PassState) -> None:
    state.kernel = hoist.hoist(state.kernel)


def _generate(state: PassState) -> None:
    state.generated = generate(state.kernel, state.target)
    state.timings.update({f"codegen.{stage}": ms for stage, ms in state.generated.timings.items()})


PASSES: tuple[Pass, ...] = (
    Pass("limits", _check_limits, level="open"),
    Pass(
        "layouts",
        _lay_out,
        level="tile",
        after=(("limits", "threads are spread over axes of a CTA that exists"),),
    ),
    Pass(
        "initialized",
        _check_initialized,
        after=(("layouts", "conversions are further tiles and copies"),),
    ),
    Pass("in place", _check_in_place),
    Pass(
        "checks",
        _insert_checks,
        level="tile",
        after=(
            ("initialized", "what certainly reads registers that nothing wrote is refused, not checked"),
            ("in place", "operands that certainly overlap are refused, not checked"),
        ),
    ),
    Pass(
        "lower",
        _lower,
        level="lane",
        after=(
            ("limits", "partitions count on a CTA that exists"),
            ("layouts", "variants go by layouts"),
            ("initialized", "afterwards a tile is no longer one buffer that an operation writes or reads"),
        ),
    ),
    Pass(
        "registers",
        _count_registers,
        after=(
            ("layouts", "a tile's layout says how many registers it takes"),
            ("lower", "only then is it known which local tiles live in local memory"),
        ),
    ),
    Pass(
        "polls",
        _relax_polls,
        level="lane",
        after=(("lower", "only then is it known how regions are loaded"),),
    ),
    Pass(
        "expects",
        _tell_arrivals,
        level="lane",
        after=(("lower", "only then is it known how many bytes each copy brings"),),
    ),
    Pass(
        "proxies",
        _fence_proxies,
        level="lane",
        after=(
            ("lower", "only then is it known which accesses are asynchronous"),
            ("expects", "whatever stands in front of a copy, the fence stands there too"),
        ),
    ),
    Pass(
        "arrivals",
        _expand_arrivals,
        level="lane",
        after=(
            ("lower", "only then does the text show what the threads did before they arrive"),
            ("expects", "an arrival tells of the bytes of the copies in front of it"),
            ("proxies", "a fence stands in front of the barrier that comes with an arrival"),
        ),
    ),
    Pass(
        "clusters",
        _meet_in_clusters,
        level="lane",
        after=(("arrivals", "only then does the text show who arrives in other CTAs"),),
    ),
    Pass(
        "storage",
        _place,
        after=(
            ("lower", "operations that cross warps allocate scratch when they are lowered"),
            ("arrivals", "an arrival may bring its scope's barrier, which has a number"),
        ),
    ),
    Pass(
        "pending",
        _carry_pending,
        level="lane",
        after=(("lower", "only then is it known which registers an asynchronous operation fills or reads"),),
    ),
    Pass(
        "packed",
        _keep_packed,
        level="lane",
        after=(("lower", "only then does the text show where a tile's elements are converted, and every barrier"),),
    ),
    Pass(
        "assertions",
        _bind_assertions,
        after=(("lower", "lowering may prove an assertion and drop it"),),
    ),
    Pass(
        "prune",
        _prune,
        after=(
            ("lower", "only then is it known which extents and strides edges and addresses need"),
            ("pending", "the names in use are those that the last verification saw"),
            ("assertions", "the record's parameter is the last one and always stays"),
        ),
    ),
    Pass(
        "unroll",
        _unroll,
        after=(
            ("lower", "variants write loops whose turns are alike"),
            ("packed", "what it adds is unrolled, too"),
            ("prune", "the verification that it asks is of fewer statements"),
        ),
    ),
    Pass(
        "split offsets",
        _split_offsets,
        after=(("unroll", "turns differ in the constants of their offsets, and share the rest"),),
    ),
    Pass(
        "hoist",
        _hoist,
        after=(
            ("unroll", "what differs from turn to turn is a constant then"),
            ("split offsets", "views move in front of loops with what they add"),
        ),
    ),
    Pass(
        "codegen",
        _generate,
        after=(
            ("polls", "LLVM takes a plain load for one whose value other threads don't change"),
            ("prune", "the PTX's parameters are those that the launch passes"),
            ("unroll", "a register is named by a constant"),
            ("pending", "LLVM moves what uses a register in front of a wait that doesn't carry it"),
            ("storage", "LLVM gets addresses; and it writes any amount of memory, only the launch would fail"),
        ),
    ),
)


def check_order(passes: tuple[Pass, ...]) -> None:
    """Raises ValueError where a pass stands before one that it must follow."""
    seen: set[str] = set()
    for step in passes:
        for name, reason in step.after:
            if name not in seen:
                raise ValueError(f"pass {step.name} must come after {name}: {reason}")
        seen.add(step.name)


check_order(PASSES)


@lasting
def last_of_levels(passes: tuple[Pass, ...]) -> frozenset[str]:
    """The passes that leave their level's last kernel, by name."""
    return frozenset({step.level: step.name for step in passes if step.level}.values())


def compile(kernel: Kernel, signature: Signature, target: Target, *, sound: bool = False) -> Compiled:
    """Compiles a kernel at open level for one target.

    Of each level the last kernel is verified, and where that is broken, those before: so that a pass is named.
    sound: it has been verified, as what `frontend.build` makes.
    raises: DispatchError, KernelTypeError, ResourceError as the passes find.
    """
    state = PassState(kernel, target)
    verified: Kernel | None = kernel if sound else None
    last, left = last_of_levels(PASSES), dict[str, Kernel]()
    for step in PASSES:
        report_step(step.name)
        before, began = state.kernel, time.perf_counter()
        step.run(state)
        ended = time.perf_counter()
        state.timings[step.name] = 1e3 * (ended - began)
        if not step.level and before is verified:
            # its body is the same
            verified = state.kernel
        if step.level:
            left[step.name] = state.kernel
        if step.name in last:
            if state.kernel is not verified:
                verify(left, step.level, state)
            verified, left = state.kernel, {}
            state.timings["verify"] = state.timings.get("verify", 0.0) + 1e3 * (time.perf_counter() - ended)
    return _compiled(kernel, state, signature)


def would_check(tile: Kernel) -> bool:
    """Whether the checked build of a kernel with layouts would differ from the plain one."""
    build = checked(tile)
    return bool(build.watched) or Assert in walk.inventory(build.kernel.body).kinds


def verify(left: Mapping[str, Kernel], level: str, state: PassState) -> None:
    """Notes what is seen of the state's kernel; AssertionError that names the first pass whose kernel is broken.

    left: the kernels of a level, each by the pass that left it; the last one is the state's.
    """
    state.examined = examine(state.kernel, level)
    if state.examined.violations:
        for step, kernel in left.items():
            _refuse_broken(step, kernel, level, examine(kernel, level).violations)


def _refuse_broken(step: str, kernel: Kernel, level: str, faults: Sequence[object]) -> None:
    if faults:
        listed = "\n".join(map(str, faults))
        raise AssertionError(f"pass {step} left {kernel.name} at {level} level broken:\n{listed}")


def _compiled(open: Kernel, state: PassState, signature: Signature) -> Compiled:
    kernel, tile, made = state.kernel, state.tile, state.generated
    assert tile is not None and made is not None
    executable = Executable(
        name=kernel.name,
        entry=made.entry,
        target=state.target,
        signature=signature,
        threads=kernel.threads,
        cluster=kernel.cluster,
        cooperative=kernel.cooperative,
        params=kernel.params,
        shared_bytes=total(kernel.memory, *SHARED),
        dynamic_shared=bool(within(kernel.memory, DYNAMIC)),
        local_bytes=sum(b.size_bytes for b in local_memory(kernel.body)),
        ptx=made.ptx,
        spans=made.spans,
        assertions=tuple([Assertion(a.rule, a.message, a.span) for a in made.assertions]),
        watched=state.watched,
        shared_map=made.shared_map,
        entry_registers=entry_registers(kernel.threads, kernel.max_registers) if sets_registers(kernel) else None,
        widened=widened_scalars(open),
        grid_axes=tuple([axis for axis in range(3) if made.asked & asked_along(axis, kernel.cluster)]),
    )
    derivation = Derivation(
        open=open,
        tile=tile,
        lane=kernel,
        llvm_ir=made.llvm_ir,
        verdicts=state.verdicts,
        addressed=state.addressed,
        layouts=state.layouts,
        pressure=state.pressure,
    )
    return Compiled(executable, state.timings, derivation)
