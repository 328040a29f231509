"""The pass pipeline, from a kernel at tile level to PTX.

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
from .codegen.expressions import specials_along
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
from .lower import Verdict, lower
from .lower.open import LayoutChoice, lay_out
from .lower.passes import (
    arrivals,
    clusters,
    expects,
    hoist,
    packed,
    pending,
    proxies,
    split_offsets,
    storage,
    tensor_fences,
    unroll,
)
from .progress import report_step
from .remember import lasting
from .source import Span
from .target import MAX_THREADS, Target, entry_registers


@dataclass(slots=True)
class PassState:
    """The state that passes transform: the current kernel and the results of passes."""

    kernel: Kernel
    target: Target
    #: the kernel with layouts, before checks are inserted
    tile: Kernel | None = None
    layouts: tuple[LayoutChoice, ...] = ()
    verdicts: tuple[Verdict[Any], ...] = ()
    addressed: Mapping[str, Span | None] = field(default_factory=dict)
    #: names of the buffers that only checked builds have
    flags: frozenset[str] = frozenset()
    #: the regions whose accesses a checked build counts
    watched: tuple[WatchedRegion, ...] = ()
    #: register pressure of the local tiles, None if all of them fit in registers
    pressure: Pressure | None = None
    #: the result of the last verification, None before the first
    examined: Examined | None = None
    generated: Generated | None = None
    timings: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pass:
    """A step of the pipeline.

    level: the IR level (see `ir.nodes`) of the resulting kernel, which is verified; "" if the pass leaves the body
    unchanged, or only expands verified statements.
    after: the passes that must precede this one, each with the reason.
    """

    name: str
    run: Callable[[PassState], None]
    level: str = ""
    after: tuple[tuple[str, str], ...] = ()


def _rewriting(function: Callable[[Kernel], Kernel]) -> Callable[[PassState], None]:

    def run(state: PassState) -> None:
        state.kernel = function(state.kernel)

    return run


def _check_limits(state: PassState) -> None:
    kernel = state.kernel
    if not 1 <= kernel.threads <= MAX_THREADS:
        raise ResourceError(
            f"{kernel.name} has {kernel.threads} threads per CTA; the limit is {MAX_THREADS}",
            span=kernel.span,
            hint=f"@tj.kernel(threads=...) takes 1 to {MAX_THREADS}; for more work, launch more CTAs",
        )
    if kernel.cluster is not None and not state.target.has_clusters:
        raise ResourceError(
            f"{kernel.name} has clusters of {kernel.cluster}, which need sm_90 or newer; the target is {state.target}",
            span=kernel.span,
            hint="leave cluster= out or compile for a newer target",
        )
    # before lowering, whose memory and time are proportional to the size of buffers
    buffers = tuple(b for b in allocations(kernel.body) if not isinstance(b.layout, Open))
    _check_memory(state, buffers, storage.placements(buffers))


def _lay_out(state: PassState) -> None:
    laid_out = lay_out(state.kernel)
    if laid_out.kernel is not state.kernel:
        # open tiles, which have a size only now, were not checked before
        limits.check_local_memory(state.kernel, tuple(allocations(laid_out.kernel.body)))
    state.kernel = state.tile = laid_out.kernel
    state.layouts = laid_out.choices


def _check_initialized(state: PassState) -> None:
    initialized.check(state.kernel)


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


def _fence_proxies(state: PassState) -> None:
    state.kernel = tensor_fences.with_tensor_fences(proxies.with_fences(state.kernel))


def _count_registers(state: PassState) -> None:
    assert state.tile is not None
    state.pressure = limits.check_registers(state.tile, state.addressed)


def _place(state: PassState) -> None:
    state.kernel = storage.placed(state.kernel)
    buffers = tuple(allocations(state.kernel.body))
    _check_memory(state, buffers, state.kernel.memory)
    _refuse_broken("storage", state.kernel, "lane", tuple(placement_faults(state.kernel, buffers)))


def _check_memory(state: PassState, buffers: tuple[Buffer, ...], memory: tuple[MemoryPlacement, ...]) -> None:
    limits.check_shared_memory(state.kernel, state.target, memory, buffers)
    limits.check_local_memory(state.kernel, _users(state, buffers), state.addressed)
    limits.check_tensor_memory(state.kernel, memory, buffers)


def _users(state: PassState, buffers: Iterable[Buffer]) -> tuple[Buffer, ...]:
    return tuple([b for b in buffers if b.name not in state.flags] if state.flags else buffers)


def _bind_assertions(state: PassState) -> None:
    """Add the parameter that points to the assertion record, if a debug kernel has assertions."""
    kernel = state.kernel
    if kernel.debug and Assert in walk.inventory(kernel.body).kinds:
        state.kernel = replace(kernel, params=(*kernel.params, AssertionsParam()))


def _prune(state: PassState) -> None:
    kernel, used = state.kernel, state.examined
    assert used is not None
    kept = tuple(p for p in kernel.params if _is_used(p, used))
    if kept != kernel.params:
        state.kernel = replace(kernel, params=kept)


def _is_used(param: Param, used: Examined) -> bool:
    defined = param.defines
    return defined is None or defined.name in (used.vars if isinstance(defined, Var) else used.buffers)


def _generate(state: PassState) -> None:
    state.generated = generate(state.kernel, state.target)
    state.timings.update({f"codegen.{stage}": ms for stage, ms in state.generated.timings.items()})


PASSES: tuple[Pass, ...] = (
    Pass("limits", _check_limits, level="open"),
    Pass(
        "layouts", _lay_out, level="tile",
        after=(("limits", "a tile's axes are distributed over the threads of a valid CTA"),),
    ),
    Pass("initialized", _check_initialized, after=(("layouts", "layout conversions add tiles and copies"),)),
    Pass("in place", _check_in_place),
    Pass(
        "checks", _insert_checks, level="tile",
        after=(
            ("initialized", "reads that are certainly uninitialized are refused rather than checked"),
            ("in place", "operands that certainly overlap are refused rather than checked"),
        ),
    ),
    Pass(
        "lower", _lower, level="lane",
        after=(
            ("limits", "work is partitioned over the threads of a valid CTA"),
            ("layouts", "variants depend on layouts"),
            ("initialized", "lowered operations no longer access tiles as whole buffers"),
        ),
    ),
    Pass(
        "registers", _count_registers,
        after=(
            ("layouts", "a tile's layout determines its number of registers"),
            ("lower", "it decides which local tiles are in local memory"),
        ),
    ),
    Pass("polls", _rewriting(polling.relaxed), level="lane", after=(("lower", "it decides how regions are loaded"),)),
    Pass(
        "expects", _rewriting(expects.lower_expects), level="lane",
        after=(("lower", "it decides how many bytes each copy transfers"),),
    ),
    Pass(
        "proxies", _fence_proxies, level="lane",
        after=(
            ("lower", "it decides which accesses are asynchronous"),
            ("expects", "a fence must precede the statements inserted before a copy"),
        ),
    ),
    Pass(
        "arrivals", _rewriting(arrivals.expand), level="lane",
        after=(
            ("lower", "its output shows the accesses that precede an arrival"),
            ("expects", "an arrival expects the bytes of the copies before it"),
            ("proxies", "a fence must precede the barrier that an arrival adds"),
        ),
    ),
    Pass(
        "clusters", _rewriting(clusters.synchronize_clusters), level="lane",
        after=(("arrivals", "its output shows the arrivals in other CTAs"),),
    ),
    Pass(
        "storage", _place,
        after=(
            ("lower", "operations across warps allocate scratch memory when they are lowered"),
            ("arrivals", "an arrival may add a barrier of its scope, which needs a number"),
        ),
    ),
    Pass(
        "pending", _rewriting(pending.add_wait_registers), level="lane",
        after=(("lower", "it decides which registers an asynchronous operation reads or writes"),),
    ),
    Pass(
        "packed", _rewriting(packed.keep), level="lane",
        after=(("lower", "its output shows conversions of elements, and every barrier"),),
    ),
    Pass("assertions", _bind_assertions, after=(("lower", "lowering may prove an assertion and drop it"),)),
    Pass(
        "prune", _prune,
        after=(
            ("lower", "it decides which extents and strides are used by edges and addresses"),
            ("pending", "the last verification provides the names in use"),
            ("assertions", "the parameter of the record is the last one and is always kept"),
        ),
    ),
    Pass(
        "unroll", _rewriting(unroll.unroll_loops),
        after=(
            ("lower", "variants emit loops of uniform iterations"),
            ("packed", "the loops that it adds are unrolled, too"),
            ("prune", "the verification that it requires then covers fewer statements"),
        ),
    ),
    Pass(
        "split offsets", _rewriting(split_offsets.split_offsets),
        after=(("unroll", "the offsets of unrolled iterations differ in constants and share the rest"),),
    ),
    Pass(
        "hoist", _rewriting(hoist.hoist),
        after=(
            ("unroll", "differences between iterations are then constants"),
            ("split offsets", "views move out of loops along with the offsets that they add"),
        ),
    ),
    Pass(
        "codegen", _generate,
        after=(
            ("polls", "LLVM assumes that other threads don't change a value that a plain load reads"),
            ("prune", "the parameters of the PTX are those that the launch passes"),
            ("unroll", "registers are indexed by constants"),
            ("pending", "LLVM moves uses of registers above a wait that doesn't carry them"),
            ("storage", "LLVM needs addresses, and accepts more memory than a launch can have"),
        ),
    ),
)


def check_order(passes: tuple[Pass, ...]) -> None:
    """Raise ValueError if a pass precedes another that it must follow."""
    seen: set[str] = set()
    for step in passes:
        for name, reason in step.after:
            if name not in seen:
                raise ValueError(f"pass {step.name} must come after {name}: {reason}")
        seen.add(step.name)


check_order(PASSES)


@lasting
def last_of_levels(passes: tuple[Pass, ...]) -> frozenset[str]:
    """Return the name of the last pass of each level."""
    return frozenset({step.level: step.name for step in passes if step.level}.values())


def compile(kernel: Kernel, signature: Signature, target: Target, *, sound: bool = False) -> Compiled:
    """Compile a kernel at open level for one target.

    Only the last kernel of each level is verified; if it is broken, the earlier ones are, too, to find the faulty pass.

    sound: `kernel` has been verified already, such as the result of `frontend.build`.
    raises: any TilejitError of a pass, such as DispatchError or ResourceError; AssertionError for a broken kernel.
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
            # the body is unchanged
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
    """True if the checked build of a kernel with layouts differs from the plain one."""
    build = checked(tile)
    return bool(build.watched) or Assert in walk.inventory(build.kernel.body).kinds


def verify(left: Mapping[str, Kernel], level: str, state: PassState) -> None:
    """Verify the kernel of a state and record the result.

    left: name of a pass -> the kernel that it produced, for the passes of a level; the last kernel is the state's.
    raises: AssertionError that names the first pass with a broken kernel.
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
        name=kernel.name, entry=made.entry, target=state.target, signature=signature, threads=kernel.threads,
        cluster=kernel.cluster, cooperative=kernel.cooperative, params=kernel.params,
        shared_bytes=total(kernel.memory, *SHARED), dynamic_shared=bool(within(kernel.memory, DYNAMIC)),
        local_bytes=sum(b.size_bytes for b in local_memory(kernel.body)), ptx=made.ptx, spans=made.spans,
        assertions=tuple([Assertion(a.rule, a.message, a.span) for a in made.assertions]), watched=state.watched,
        shared_map=made.shared_map,
        entry_registers=entry_registers(kernel.threads, kernel.max_registers) if sets_registers(kernel) else None,
        widened=widened_scalars(open),
        grid_axes=tuple([axis for axis in range(3) if made.specials & specials_along(axis, kernel.cluster)]),
    )
    derivation = Derivation(
        open=open, tile=tile, lane=kernel, llvm_ir=made.llvm_ir, verdicts=state.verdicts, addressed=state.addressed,
        layouts=state.layouts, pressure=state.pressure,
    )
    return Compiled(executable, state.timings, derivation)
