"""The pass pipeline, from open IR, which is tile IR in which tiles may lack layouts, to PTX.

```
open IR ─ limits, layouts ─▶
tile IR ─ initialized, in place, checks, lower ─▶
lane IR ─ registers, polls, expects, proxies, arrivals, clusters, storage, pending, packed, assertions, prune, unroll,
          split offsets, hoist ─▶
       ─ codegen ─▶ PTX
```
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from .codegen import Generated, generate, limits
from .codegen.expressions import specials_along
from .codegen.storage import allocations, local_memory
from .compiled import Compiled, Derivation
from .dataclass import dataclass, field, replace
from .errors import ResourceError, TilejitError
from .executable import Assertion, Executable
from .executable.reshapes import reshapes, scratch_of, specials_of
from .ir import walk
from .ir.analyses import initialized, polling
from .ir.analyses.precision import widened_scalars
from .ir.analyses.register_pool import sets_registers
from .ir.checks import checked, refuse_overlaps
from .ir.nodes import Assert, Buffer, Kernel, Open, Var
from .ir.params import AssertionsParam, Param
from .ir.placements import DYNAMIC, SHARED, MemoryPlacement, total, within
from .ir.types import Signature
from .ir.verify import Examined, examine, placement_faults
from .ir.watched import WatchedRegion
from .lower import lower
from .lower.open import lay_out
from .lower.passes import (
    arrivals,
    clusters,
    expects,
    fences,
    hoist,
    packed,
    pending,
    split_offsets,
    storage,
    unroll,
)
from .progress import report_step
from .target import MAX_THREADS, Target, entry_registers


@dataclass(slots=True)
class PassResults:
    """The target of one compilation, and the results of its passes other than the kernel."""

    target: Target
    record: Derivation
    #: names of the buffers that only checked builds have
    flags: frozenset[str] = frozenset()
    #: the regions whose accesses a checked build counts
    watched: tuple[WatchedRegion, ...] = ()
    #: the result of the last verification, None before the first
    examined: Examined | None = None
    generated: Generated | None = None
    timings: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pass:
    """A step of the pipeline.

    run: returns the resulting kernel, or None if the step leaves it unchanged.
    level: the IR level (see `ir.nodes`) of the resulting kernel.
    after: the passes that must precede this one, each with the reason.
    """

    name: str
    run: Callable[[Kernel, PassResults], Kernel | None]
    level: str
    after: tuple[tuple[str, str], ...] = ()


def _alone(function: Callable[[Kernel], Kernel | None]) -> Callable[[Kernel, PassResults], Kernel | None]:
    return lambda kernel, _: function(kernel)


def _check_limits(kernel: Kernel, results: PassResults) -> None:
    if not 1 <= kernel.threads <= MAX_THREADS:
        raise ResourceError(
            f"{kernel.name} has {kernel.threads} threads per CTA; the limit is {MAX_THREADS}",
            span=kernel.span,
            hint=f"use 1 to {MAX_THREADS} threads per CTA; for more work, launch more CTAs",
        )
    if kernel.cluster is not None and not results.target.has_clusters:
        raise ResourceError(
            f"{kernel.name} has clusters of {kernel.cluster}, which need sm_90 or newer; "
            f"the target is {results.target}",
            span=kernel.span,
            hint="leave cluster= out or compile for a newer target",
        )
    # check before lowering, whose memory use and time grow with the size of the buffers
    buffers = tuple(b for b in allocations(kernel.body) if not isinstance(b.layout, Open))
    _check_memory(kernel, results, buffers, storage.placements(buffers))


def _lay_out(kernel: Kernel, results: PassResults) -> Kernel:
    laid_out = lay_out(kernel)
    if laid_out.kernel is not kernel:
        # open tiles, whose size per thread follows from their layouts, were not checked before
        limits.check_local_memory(kernel, tuple(allocations(laid_out.kernel.body)))
    results.record.tile, results.record.layouts = laid_out.kernel, laid_out.choices
    return laid_out.kernel


def _insert_checks(kernel: Kernel, results: PassResults) -> Kernel | None:
    if not kernel.debug:
        return None
    tiles = set(allocations(kernel.body))
    made = checked(kernel)
    results.watched = made.watched
    results.flags = frozenset(b.name for b in allocations(made.kernel.body) if b not in tiles)
    return made.kernel


def _lower(kernel: Kernel, results: PassResults) -> Kernel:
    lowered = lower(kernel, results.target)
    results.record.verdicts, results.record.addressed = lowered.verdicts, lowered.addressed
    return lowered.kernel


def _count_registers(_: Kernel, results: PassResults) -> None:
    record = results.record
    record.pressure = limits.check_registers(record.tile, record.addressed)


def _place(kernel: Kernel, results: PassResults) -> Kernel:
    placed = storage.placed(kernel)
    buffers = tuple(allocations(placed.body))
    _check_memory(placed, results, buffers, placed.memory)
    # the verifier can't require placements, because there are none before this pass
    _refuse_broken("storage", placed, "lane", tuple(placement_faults(placed, buffers)))
    return placed


def _check_memory(
    kernel: Kernel, results: PassResults, buffers: tuple[Buffer, ...], memory: tuple[MemoryPlacement, ...]
) -> None:
    limits.check_shared_memory(kernel, results.target, memory, buffers)
    users = tuple([b for b in buffers if b.name not in results.flags] if results.flags else buffers)
    limits.check_local_memory(kernel, users, results.record.addressed)
    limits.check_tensor_memory(kernel, memory, buffers)


def _bind_assertions(kernel: Kernel) -> Kernel | None:
    """Add a parameter that points to the assertion record if the kernel is a checked build with assertions."""
    if kernel.debug and Assert in walk.inventory(kernel.body).kinds:
        return replace(kernel, params=(*kernel.params, AssertionsParam()))
    return None


def _prune(kernel: Kernel, results: PassResults) -> Kernel | None:
    used = results.examined
    assert used is not None
    kept = tuple(p for p in kernel.params if _is_used(p, used))
    return None if kept == kernel.params else replace(kernel, params=kept)


def _is_used(param: Param, used: Examined) -> bool:
    defined = param.defines
    return defined is None or defined.name in (used.vars if isinstance(defined, Var) else used.buffers)


def _generate(kernel: Kernel, results: PassResults) -> None:
    results.generated = generate(kernel, results.target)
    results.timings.update({f"codegen.{stage}": ms for stage, ms in results.generated.timings.items()})


PASSES: tuple[Pass, ...] = (
    Pass("limits", _check_limits, level="open"),
    Pass(
        "layouts", _lay_out, level="tile",
        after=(("limits", "a tile's axes are distributed over the threads of a valid CTA"),),
    ),
    Pass(
        "initialized", _alone(initialized.check), level="tile",
        after=(("layouts", "layout conversions add tiles and copies"),),
    ),
    Pass("in place", _alone(refuse_overlaps), level="tile"),
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
        "registers", _count_registers, level="lane",
        after=(
            ("layouts", "a tile's layout determines its number of registers"),
            ("lower", "it decides which local tiles are in local memory"),
        ),
    ),
    Pass("polls", _alone(polling.relaxed), level="lane", after=(("lower", "it decides how regions are loaded"),)),
    Pass(
        "expects", _alone(expects.lower_expects), level="lane",
        after=(("lower", "it decides how many bytes each copy transfers"),),
    ),
    Pass(
        "proxies", _alone(fences.with_fences), level="lane",
        after=(
            ("lower", "it decides which accesses are asynchronous"),
            ("expects", "a fence must precede the statements inserted before a copy"),
        ),
    ),
    Pass(
        "arrivals", _alone(arrivals.expand), level="lane",
        after=(
            ("lower", "its output shows the accesses that precede an arrival"),
            ("expects", "an arrival expects the bytes of the copies before it"),
            ("proxies", "a fence must precede the barrier that an arrival adds"),
        ),
    ),
    Pass(
        "clusters", _alone(clusters.synchronize_clusters), level="lane",
        after=(("arrivals", "its output shows the arrivals in other CTAs"),),
    ),
    Pass(
        "storage", _place, level="lane",
        after=(
            ("lower", "operations across warps allocate scratch memory when they are lowered"),
            ("arrivals", "an arrival may add a barrier of its scope, which needs a number"),
        ),
    ),
    Pass(
        "pending", _alone(pending.add_wait_registers), level="lane",
        after=(("lower", "it decides which registers an asynchronous operation reads or writes"),),
    ),
    Pass(
        "packed", _alone(packed.keep), level="lane",
        after=(("lower", "its output shows conversions of elements, and every barrier"),),
    ),
    Pass(
        "assertions", _alone(_bind_assertions), level="lane",
        after=(("lower", "lowering may prove an assertion and drop it"),),
    ),
    Pass(
        "prune", _prune, level="lane",
        after=(
            ("lower", "it decides which extents and strides are used by edges and addresses"),
            ("packed", "the verification after it provides the names in use"),
            ("assertions", "the parameter of the record is the last one and is always kept"),
        ),
    ),
    Pass(
        "unroll", _alone(unroll.unroll_loops), level="lane",
        after=(
            ("lower", "variants emit loops of uniform iterations"),
            ("packed", "the loops that it adds are unrolled, too"),
            ("prune", "the verification that pruning requires then covers fewer statements"),
        ),
    ),
    Pass(
        "split offsets", _alone(split_offsets.split_offsets), level="lane",
        after=(("unroll", "the offsets of unrolled iterations differ in constants and share the rest"),),
    ),
    Pass(
        "hoist", _alone(hoist.hoist), level="lane",
        after=(
            ("unroll", "differences between iterations are then constants"),
            ("split offsets", "views move out of loops along with the offsets that they add"),
        ),
    ),
    Pass(
        "codegen", _generate, level="lane",
        after=(
            ("polls", "LLVM assumes that other threads don't change a value that a plain load reads"),
            ("prune", "the parameters of the PTX are those that the launch passes"),
            ("unroll", "registers must be indexed by constants"),
            ("pending", "LLVM moves uses of registers above a wait that doesn't have them as operands"),
            ("storage", "LLVM needs addresses, and accepts more memory than a launch can have"),
        ),
    ),
)


def check_order(passes: tuple[Pass, ...]) -> None:
    """Raise ValueError unless each pass comes after all passes that it must follow."""
    seen: set[str] = set()
    for step in passes:
        for name, reason in step.after:
            if name not in seen:
                raise ValueError(f"pass {step.name} must come after {name}: {reason}")
        seen.add(step.name)


check_order(PASSES)


#: the passes after which plain builds verify the kernel: the last ones of open and tile level, and `packed`, because
#: later passes lengthen the body. Checked builds verify after every pass.
CHECKPOINTS = ("limits", "checks", "packed")


def compile(kernel: Kernel, signature: Signature, target: Target, *, sound: bool = False) -> Compiled:
    """Compile a kernel at open level for one target.

    sound: True if `kernel` has been verified already, like the result of `frontend.kernel.build`.
    raises: any TilejitError of a pass, such as DispatchError or ResourceError; AssertionError, with the pass's name, if
    a pass breaks the kernel.
    """
    results = PassResults(target, Derivation(open=kernel, tile=kernel, lane=kernel))
    verified: Kernel | None = kernel if sound else None
    #: the passes since the last verification, each with the kernel that it produced
    unverified: list[tuple[Pass, Kernel]] = []
    for step in PASSES:
        report_step(step.name)
        began = time.perf_counter()
        try:
            kernel = step.run(kernel, results) or kernel
        except TilejitError:
            raise
        except Exception:
            # a pass may have failed because an earlier one broke the kernel
            verify(unverified)
            raise
        ended = time.perf_counter()
        results.timings[step.name] = 1e3 * (ended - began)
        unverified.append((step, kernel))
        if step.name in CHECKPOINTS or VERIFY_EACH or kernel.debug:
            if kernel is not verified:
                results.examined = verify(unverified)
            verified, unverified = kernel, []
            results.timings["verify"] = results.timings.get("verify", 0.0) + 1e3 * (time.perf_counter() - ended)
    return _compiled(kernel, results, signature)


#: verify after every pass, as in checked builds
VERIFY_EACH = False


def verify(kernels: Sequence[tuple[Pass, Kernel]]) -> Examined | None:
    """Verify the last of the kernels that consecutive passes produced, and return the result; None if there are none.

    raises: AssertionError, with the name of the first pass that produced a broken kernel, if the last kernel is broken.
    """
    if not kernels:
        return None
    step, kernel = kernels[-1]
    examined = examine(kernel, step.level)
    if examined.violations:
        for step, kernel in kernels:
            _refuse_broken(step.name, kernel, step.level, examine(kernel, step.level).violations)
    return examined


def _refuse_broken(step: str, kernel: Kernel, level: str, faults: Sequence[object]) -> None:
    if faults:
        listed = "\n".join(map(str, faults))
        raise AssertionError(f"pass {step} left {kernel.name} at {level} level broken:\n{listed}")


def would_check(tile: Kernel) -> bool:
    """True if the checked build of a kernel with layouts differs from the plain one."""
    build = checked(tile)
    has_zeroed = any(each.zeroed for each in scratch_of(tile, tile.params))
    return bool(build.watched) or has_zeroed or Assert in walk.inventory(build.kernel.body).kinds


def _compiled(kernel: Kernel, results: PassResults, signature: Signature) -> Compiled:
    record, made = results.record, results.generated
    assert made is not None
    record.lane, record.llvm_ir = kernel, made.llvm_ir
    scratch = scratch_of(record.open, kernel.params)
    specials = made.specials | specials_of(scratch)
    executable = Executable(
        name=kernel.name, entry=made.entry, target=results.target, signature=signature, threads=kernel.threads,
        cluster=kernel.cluster, cooperative=kernel.cooperative, params=kernel.params,
        shared_bytes=total(kernel.memory, *SHARED), dynamic_shared=bool(within(kernel.memory, DYNAMIC)),
        local_bytes=sum(b.size_bytes for b in local_memory(kernel.body)), ptx=made.ptx, spans=made.spans,
        assertions=tuple([Assertion(a.rule, a.message, a.span) for a in made.assertions]), watched=results.watched,
        shared_map=made.shared_map,
        entry_registers=entry_registers(kernel.threads, kernel.max_registers) if sets_registers(kernel) else None,
        widened=widened_scalars(record.open), reshapes=reshapes(record.open),
        scratch=scratch, checks_zeroed=kernel.debug and any(each.zeroed for each in scratch),
        grid_axes=tuple([axis for axis in range(3) if specials & specials_along(axis, kernel.cluster)]),
    )
    return Compiled(executable, results.timings, record)
