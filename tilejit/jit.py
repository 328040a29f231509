"""The `@kernel` decorator, kernels, and `simulate`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, overload

from .dataclass import replace
from .errors import KernelSyntaxError, LaunchError, entry_point, without_triton_options
from .forks import importing
from .frontend import KernelSource, Parameter, parameters
from .html_tables import box, facts_table, rows_table
from .ir.types import Signature
from .launches import Launchable, Launcher, Options
from .runtime import devices
from .runtime.captured import Captured, CapturedValues
from .runtime.grid import check_cluster, check_registers, check_threads
from .runtime.reshapes import check_reshapes
from .runtime.rounding import warn_of_rounding
from .runtime.signature import Call, bind, describe, hypothetical
from .runtime.variant_builder import Compiler, VariantBuilder
from .runtime.variants import CompiledVariant, Request, VariantCache, without_compiling
from .target import Target
from .target import target as find_target
from .wording import shown

if TYPE_CHECKING:
    from .compiled import Compiled
    from .explanation import Explanation
    from .ir.nodes import Kernel as TileKernel
    from .simulator import Checks, Report

#: maximum number of compiled variants in a kernel's notebook output
_SHOWN_VARIANTS = 8


def no_recompile() -> AbstractContextManager[None]:
    """Within the context, a call that would compile a kernel, such as a launch, raises a LaunchError.

    The message lists the differences from a compiled variant, if there is one. If one build of a variant, plain or
    checked, exists, the other may still be compiled, for example for a launch on the simulator after `k.compile`.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            A[tj.thread_id()] = 1

        a = np.zeros(32, np.float32)
        k[1](a)
        with tj.no_recompile():
            k[1](a)
    """
    return without_compiling("inside tj.no_recompile()")


class Kernel(Launchable):
    """A GPU kernel, created by decorating a function with `@tj.kernel`; `k[grid](*args)` launches it.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            A[tj.thread_id()] = 1

        a = np.zeros(32, np.float32)
        k[1](a)
        assert (a == 1).all()
    """

    __wrapped__: Callable[..., Any]

    def __init__(self, fn: Callable[..., Any], options: Options) -> None:
        functools.update_wrapper(self, fn)
        self.source = KernelSource.of(fn)
        super().__init__(fn.__name__, tuple(parameters(self.source)), options)
        # the parameters for which a launch may pass arguments: all, unless the kernel is tuned
        self.open_parameters = self.parameters
        self.captured = Captured(self.source)
        # not a bound method: a reference cycle would keep deleted kernels and their variants until a garbage collection
        builder = VariantBuilder(self.source, self.captured, functools.partial(_tile_ir, self.source))
        self.variants = VariantCache(self.name, self.captured, builder)

    def with_options(self, options: Options) -> Kernel:
        """Return a kernel with other options, which shares the source, captured values and compiled variants."""
        other = Kernel(self.__wrapped__, options)
        other.source, other.captured, other.variants = self.source, self.captured, self.variants
        other.memory.warned = self.memory.warned
        return other

    def __repr__(self) -> str:
        return f"<kernel {self.name}({', '.join(p.name for p in self.parameters)})>"

    def _repr_html_(self) -> str:
        options = [(name, getattr(self.options, name)) for name in ("target", "max_registers", "cluster")]
        named = {"threads": self.options.threads, **{name: value for name, value in options if value is not None}}
        made = [
            (describe(v.signature), str(v.target), str(v.threads), f"{v.compiled.milliseconds:.0f} ms")
            for v in self.signatures[-_SHOWN_VARIANTS:]
        ]
        headings = ("compiled for", "target", "threads", "took")
        parts = facts_table(named), rows_table(headings, made) if made else "not compiled yet"
        parameters = ", ".join(p.name for p in self.parameters)
        return box(f"<b>{self.name}</b>({parameters})", *parts)

    def __reduce__(self) -> str:
        """Pickle the kernel by reference, like a function; raise LaunchError if its name doesn't refer to it."""
        name: str = self.__wrapped__.__qualname__
        holder: Any = sys.modules.get(self.__module__)
        for part in name.split("."):
            holder = getattr(holder, part, None)
        if holder is not self:
            raise LaunchError(
                f"{self.name} can't be pickled: {self.__module__}.{name} isn't this kernel",
                hint="define it at the top level of a module, under its own name: kernels are pickled by reference",
            )
        return name

    @property
    def signatures(self) -> tuple[CompiledVariant, ...]:
        """Every compiled variant, oldest first."""
        return self.variants.all

    @entry_point
    def compile(
        self, *args: Any, target: str | Target | None = None, threads: int | None = None, **constexprs: Any
    ) -> Compiled:
        """Compile the kernel for these arguments without launching it.

        The result is the build that a GPU runs: a checked build with `debug=True`, else a plain one.

        args, constexprs: like those of a launch, but a `tj.spec` can replace an array, and a dtype a scalar. Parameters
        that have a default, such as a `tj.spec`, may be omitted.
        target: an architecture such as "sm_90a"; by default the kernel's own, else that of the device in use.
        threads: threads per CTA, by default the kernel's own.
        """
        variants, request, _ = self.request(args, constexprs, target, threads)
        return variants.variant(request).compiled

    @entry_point
    def precompile(
        self, specs: Iterable[Any], target: str | Target | None = None, workers: int | None = None
    ) -> tuple[Compiled, ...]:
        """Compile several variants in parallel, like `tj.compile_many`, so that launches find them compiled.

        specs: for each variant, a tuple of arguments of `compile`, with named ones in a mapping at the end, or only
        such a mapping.
        target: architecture of the variants whose mapping has no "target".
        workers: maximum number of processes; see `tj.compile_many`.
        returns: the compiled variants, in the order of `specs`.
        """
        # imported here, because `precompile` imports this module
        from .precompile import compile_many, jobs_of

        return compile_many(jobs_of(self, specs, target), workers)

    def request(
        self, args: tuple[Any, ...], named: Mapping[str, Any], target: str | Target | None, threads: int | None,
        may_configure: bool = False,
    ) -> tuple[VariantCache, Request, tuple[str, ...]]:
        """Return the cache and the request for the arguments of `compile`, and remarks on a tuned kernel's choice.

        may_configure: True if `named` and `threads` may select a configuration.
        """
        values = hypothetical_arguments(self.parameters, specified(self.name, self.parameters, args, named))
        call = Call(self.parameters, values)
        chosen = find_target(target) if target is not None else self.options.target or devices.default().target
        count = self.options.threads if threads is None else check_threads(threads)
        return self.variants, Request(chosen, count, call, self.options.debug, self.options.build_key), ()

    @entry_point
    def explain(
        self, *args: Any, target: str | Target | None = None, threads: int | None = None, **constexprs: Any
    ) -> Explanation:
        """Return `compile(...).explain()`: an explanation of the variant chosen for each tile operation.

        For a tuned kernel, it includes the reason for the choice of the configuration, and any timings.
        """
        variants, request, remarks = self.request(args, constexprs, target, threads)
        explanation = variants.variant(request).compiled.explain()
        return replace(explanation, remarks=(*explanation.remarks, *remarks))

    def launched(
        self, grid: Any, threads: int | None, args: tuple[Any, ...], named: Mapping[str, Any], target: Target
    ) -> tuple[Launcher, list[Any]]:
        """Return the launcher and the full list of arguments for a simulated launch on `target`."""
        return Launcher(self, grid, threads, None), bind(self.name, self.parameters, args, named)

    def capture(self) -> CapturedValues:
        return self.captured.current()

    def compiled_for(self, request: Request, compiler: Compiler | None) -> tuple[Compiled, int]:
        variant = self.variants.variant(request, compiler)
        return variant.compiled, variant.captured


def specified(
    name: str, declared: Sequence[Parameter], args: tuple[Any, ...], named: Mapping[str, Any]
) -> list[Any]:
    """Return the full list of arguments, some of which may be specs or dtypes, with defaults for omitted ones."""
    pinned = {p.name: p.spec for p in declared[len(args) :] if p.spec is not None}
    return bind(name, declared, args, {**pinned, **named})


def hypothetical_arguments(declared: Sequence[Parameter], values: Sequence[Any]) -> list[Any]:
    """Return arguments like those of a launch: hypothetical arrays replace specs, and numbers replace dtypes."""
    numbers = count(1)
    return [hypothetical(p, numbers, v) for p, v in zip(declared, values, strict=True)]


def _tile_ir(
    source: KernelSource, typed: Signature, target: Target, threads: int, debug: bool, options: tuple[Any, ...]
) -> TileKernel:
    # imported here, because the frontend takes as long to import as everything that a launch needs
    with importing:
        from .frontend.kernel import build

    max_registers, cluster, nonportable_cluster, cooperative = options
    return build(
        source, typed, threads=threads, target=target, max_registers=max_registers, cluster=cluster,
        nonportable_cluster=nonportable_cluster, cooperative=cooperative, debug=debug,
    )


@overload
def kernel(fn: Callable[..., Any], /) -> Kernel: ...


@overload
def kernel(
    *,
    threads: int = 128,
    target: str | Target | None = None,
    max_registers: int | None = None,
    cluster: Sequence[int] | None = None,
    nonportable_cluster: bool = False,
    cooperative: bool = False,
    debug: bool = False,
) -> Callable[[Callable[..., Any]], Kernel]: ...


@entry_point
@without_triton_options
def kernel(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    threads: int = 128,
    target: str | Target | None = None,
    max_registers: int | None = None,
    cluster: Sequence[int] | None = None,
    nonportable_cluster: bool = False,
    cooperative: bool = False,
    debug: bool = False,
) -> Kernel | Callable[[Callable[..., Any]], Kernel]:
    """Turn a function into a GPU kernel, which is compiled at its first launch with each signature.

    The annotation of a parameter is `tj.Tensor` for an array, `tj.constexpr` for a compile-time value, or an element
    type, such as `tj.int32`, for a scalar, which is converted to that type. `int` means int32 (int64 for a value that
    needs it), `float` means float32, and `bool` means bool_. Python numbers that are passed for parameters without
    annotation have these types, too.

    A tuple, a named tuple or a frozen dataclass of arrays, scalars, None and further containers is one argument, for a
    parameter without annotation or annotated with its class, `tuple` or `tuple[tj.Tensor, tj.int32]`. In the kernel,
    `P[0]`, `P.w`, `len(P)`, loops and unpacking give its items, which messages, signatures and keys of `tj.autotune`
    name in the same way. The annotations of the fields of its class have the same meaning as those of parameters. Its
    methods and properties can't be used in kernels.

    threads: threads per CTA.
    target: the architecture to compile for, instead of the device's own.
    max_registers: maximum number of 32-bit registers per thread.
    cluster: number of CTAs per cluster in each dimension.
    nonportable_cluster: allow clusters of more than 8 CTAs, which only some GPUs support.
    cooperative: run all CTAs of a launch concurrently, as `tj.grid_sync()` requires.
    debug: run the checked build on GPUs, too, as on the simulator.

    In a checked build on a GPU, a thread that fails an assertion or a check exits, and the next synchronization reports
    the failure. Barriers of a CTA, a warp or a cluster no longer wait for that thread. Threads that wait for it at a
    ring or at a barrier of `tj.alloc_barrier` exit, too, and so may those of later launches of the kernel. Threads that
    wait for it at a named barrier, at a barrier of a warpgroup or of the grid, or for a flag, hang, and nothing is
    reported: run such kernels on the simulator.

    On the simulator, `breakpoint()` in a kernel opens a prompt (`help` lists its commands): it evaluates expressions of
    the names in scope, in the threads that are there and in the callers of inlined functions. Quitting raises
    bdb.BdbQuit. PYTHONBREAKPOINT=0 disables it; other hooks, such as pytest's, stop at the kernel's line. Without a
    terminal, the values are printed.

    Example:
        @tj.kernel(threads=64)
        def k(A: tj.Tensor) -> None:
            A[tj.thread_id()] = 1

        k[1](np.zeros(64, np.float32))
    """
    options = Options(
        check_threads(threads), None if target is None else find_target(target),
        None if max_registers is None else check_registers(max_registers),
        None if cluster is None else check_cluster(cluster), nonportable_cluster, cooperative, debug,
    )
    if fn is None:
        return entry_point(lambda decorated: Kernel(_decorated(decorated), options))
    if isinstance(fn, int) and not isinstance(fn, bool):
        raise KernelSyntaxError(
            f"@tj.kernel({fn}): {fn} is not a Python function",
            hint=f"pass options by name, above a def: @tj.kernel(threads={fn})",
        )
    return Kernel(_decorated(fn), options)


def _decorated(fn: Callable[..., Any]) -> Callable[..., Any]:
    if isinstance(fn, Kernel):
        raise KernelSyntaxError(f"{fn.name} is already a kernel", hint="write one @tj.kernel above the def")
    return fn


@entry_point
def simulate(
    k: Kernel,
    grid: Any,
    *args: Any,
    target: str | Target | None = None,
    threads: int | None = None,
    checks: Checks = True,
    profile: bool = False,
    on_finding: Literal["raise", "collect"] = "raise",
    schedule: int = 0,
    delivery: str = "late",
    orders: int | str | None = None,
    limit: int = 10_000,
    seconds: float | None = None,
    resident: int | None = None,
    **constexprs: Any,
) -> Report:
    """Run a kernel on the simulator, whatever device is in use, and return a report.

    target: the architecture; by default the kernel's own, else sm_90a.
    threads: threads per CTA, by default the kernel's own.
    checks: True to run the checked build and detect errors; "strict" to assume also, as the PTX ISA does, that
    shuffles, votes, matches and redux don't order memory accesses; False to run the plain build without detecting
    races, uses of unwritten values, or hazards of asynchronous copies.
    profile: run the plain build instead, and count wavefronts and sectors per source line.
    on_finding: "raise" the first error, or "collect" errors in `report.findings` and continue.
    schedule: selects a legal order of the threads, on which no result may depend.
    delivery: when TMA copies and other bulk copies complete: "late" for as late as possible, "early" for
    immediately, "random:7" for random times with seed 7. No result may depend on it.
    orders: "all" to run the launch in all orders of its synchronizing events, up to the first finding; n to run at most
    n orders; "replay:" and the `choices` of an earlier report to run one order again. See below.
    limit, seconds: the limits of "all".
    resident: the number of CTAs, in whole clusters, that run at once; the next one starts when one ends, so a CTA that
    waits for one that can't start is a DeadlockError. None for all CTAs.
    raises: LaunchError for invalid arguments; SimulationError for an error in the kernel, unless it is collected.

    With "collect", accesses that are out of bounds or misaligned are skipped, and loads among them return zeros. A
    thread that fails an assertion or a check of the checked build exits; the others continue, even through barriers
    that it misses, which are findings of their own. Only the first failed check of a run is reported, after all other
    findings. Any other divergence, or a deadlock, ends the run.

    A loop counts as endless, which raises DeadlockError, if the values that determine its branches and the addresses of
    its stores equal those of an earlier iteration, no thread has since written the memory that they were loaded from,
    and every other thread waits or has exited. Values that the loop merely counts are ignored. A loop without an exit
    path is always endless. Any other loop in which a branch or a store address depends on a counter is assumed to end:
    in a checked build, a failed check may end `while True: A[i % n] = 1; i += 1`. TILEJIT_SIM_LIMIT bounds the number
    of thread instructions of a launch.

    With `orders`, `report.orders` has a `verdict`: "clean" if no order has a finding; "finding", with the events that
    lead to it as its `story`; or "incomplete" if orders are left: `at_least` is a lower bound of their number, and
    `races` are the pairs of source lines whose order is open. `results` is the number of different outputs.
    Synchronizing events are strong accesses, atomics, barriers and the ends of copies; orders that differ only in the
    order of independent events count once. So a kernel without flags, locks and tickets has one order, and n CTAs that
    take one lock have n!. The verdict holds for these arguments and this grid. Not examined: weaker orders of the
    memory model, which the race check covers; the order of the lanes of a warp; contention for `setmaxnreg`; the
    rounding of floating-point atomics.

    Races can be missed in two cases. Of the threads that read a location since the CTA's last barrier, only the first
    and the last are recorded and, in kernels with named barriers, fences or releases, the last of each of eight groups
    of warps. A write that is ordered after these, but not after another reader, is not reported. If threads stored
    equal values to a location, an access to it examines at most 16 million pairs of a storing and an accessing thread.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            A[tj.thread_id()] = 1

        report = tj.simulate(k, 1, np.zeros(32, np.float32), profile=True)
        assert report.bank_conflicts == 0
    """
    from .runtime.simulated import SimulatedFunction

    if not isinstance(k, Kernel):
        raise LaunchError(f"{shown(k)} is not a kernel", hint="pass a kernel made by @tj.kernel, without a grid")
    if not isinstance(schedule, int) or schedule < 0:
        raise LaunchError(f"schedule={shown(schedule)} is not the number of a schedule", hint="pass 0, 1, 2, ...")
    if resident is not None and (not isinstance(resident, int) or isinstance(resident, bool) or resident < 1):
        raise LaunchError(f"resident={shown(resident)} is not a number of CTAs", hint="pass 1, 2, ..., or None for all")
    if checks not in (True, False, "strict"):
        raise LaunchError(f"checks={shown(checks)} is not valid", hint='pass True, False or "strict"')
    chosen = find_target(target) if target is not None else k.options.target or devices.named("sim").target
    launcher, values = k.launched(grid, threads, args, constexprs, chosen)
    call = Call(k.parameters, values)
    launch = launcher.launch(values)
    assert isinstance(launcher.kernel, Kernel)
    checked, built = bool(checks) and not profile, launcher.kernel.options.build_key
    request = Request(chosen, launch.threads, call, checked, built)
    compiled = launcher.kernel.variants.variant(request).compiled
    warn_of_rounding(compiled.executable, call.flat, k.memory.warned)
    check_reshapes(compiled.executable, call)
    return SimulatedFunction(compiled).simulate(
        launch, call.arguments, checks=checks, profile=profile, on_finding=on_finding, schedule=schedule,
        delivery=delivery, orders=orders, limit=limit, seconds=seconds, resident=resident,
    )
