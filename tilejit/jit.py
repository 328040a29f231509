"""`@kernel`: from a decorated function to a kernel, compiled once for each signature."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, NoReturn, overload

from .errors import (
    KernelSyntaxError,
    LaunchError,
    TilejitError,
    entry_point,
    for_users,
    without_triton_options,
)
from .forks import cached_property, importing
from .frontend import KernelSource, Parameter, parameters
from .html_tables import box, facts_table, rows_table
from .ir.types import Signature
from .launches import Launcher, Options, no_grid
from .runtime import devices
from .runtime.captured import Captured, CapturedValues
from .runtime.device import Device, LoadedKernel
from .runtime.fast_launch.generated import GeneratedLauncher, GeneratedLaunchers, ResolvedLaunch
from .runtime.fast_launch.memory import LaunchMemory
from .runtime.grid import (
    check_cluster,
    check_registers,
    check_threads,
    split,
)
from .runtime.once import Once
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

#: compiled variants that a notebook shows of a kernel
_SHOWN_VARIANTS = 8

#: grids whose launchers a kernel keeps
_LAUNCHERS = 256
_TYPES_OF_GRIDS = frozenset((int,) * n for n in (1, 2, 3))

@contextmanager
def no_recompile() -> Iterator[None]:
    """Inside, a launch that would compile raises a LaunchError that says what differs.

    The other build of what is compiled, checked or plain, may be made: a launch on the simulator after `k.compile`.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            A[tj.thread_id()] = 1

        a = np.zeros(32, np.float32)
        k[1](a)
        with tj.no_recompile():
            k[1](a)
    """
    with without_compiling("inside tj.no_recompile()"):
        yield


class Kernel:
    """A decorated function: `k[grid](*args)` launches it.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            A[tj.thread_id()] = 1

        a = np.zeros(32, np.float32)
        k[1](a)
        assert (a == 1).all()
    """

    #: the function that was decorated
    __wrapped__: Callable[..., Any]

    def __init__(self, fn: Callable[..., Any], options: Options) -> None:
        functools.update_wrapper(self, fn)
        self.options = options
        self.source = KernelSource.of(fn)
        self.parameters = tuple(parameters(self.source))
        self.parameter_names = tuple(p.name for p in self.parameters)
        # those that launches give arguments to
        self.open_parameters = self.parameters
        self.captured = Captured(self.source)
        self.name: str = fn.__name__
        # no method of this object: a dropped kernel, with all that was compiled for it, would wait for the collector
        build = functools.partial(_tile_ir, self.source, options)
        maker = VariantBuilder(self.source, self.captured, build, options.made)
        self.variants = VariantCache(self.name, self.parameters, self.captured, maker)
        self._functions: Once[tuple[Any, ...], LoadedKernel] = Once()
        self.generated = GeneratedLaunchers(self.name, self.parameters)
        self.memory = LaunchMemory()
        self._launchers: dict[int | tuple[int, ...], Launcher] = {}

    @cached_property
    def _launcher_type(self) -> type[Launcher]:
        """A class of its own, whose calls are those of the newest generated function: 0.1 us less than asking."""
        return type("Launcher", (Launcher,), {"__slots__": ()})

    def __getitem__(self, configuration: Any) -> Launcher:
        is_kept = type(configuration) is int or _is_kept(configuration)
        launcher = self._launchers.get(configuration) if is_kept else None
        if launcher is not None:
            return launcher
        try:
            return self._launcher(configuration)
        except TilejitError as error:
            raise for_users(error) from None

    def _launcher(self, configuration: Any) -> Launcher:
        """A new launcher; that of plain numbers is kept, which launches in a loop find again."""
        launcher = self._configured(configuration)
        if _is_kept(configuration):
            if len(self._launchers) >= _LAUNCHERS:
                self._launchers.clear()
            self._launchers[configuration] = launcher
        return launcher

    def _configured(self, configuration: Any) -> Launcher:
        grid, threads, stream = split(configuration)
        count = self.options.threads if threads is None else check_threads(threads)
        return self._launcher_type(self, grid, count, stream)

    @entry_point
    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise no_grid(self.name)

    def __repr__(self) -> str:
        return f"<kernel {self.name}({', '.join(p.name for p in self.parameters)})>"

    def _repr_html_(self) -> str:
        """Its parameters and options, and the newest of its compiled variants."""
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

    def __copy__(self) -> Kernel:
        """Itself, as a function's copy is."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Kernel:
        return self

    def __reduce__(self) -> str:
        """Where it is found again, as a function is pickled.

        raises: LaunchError where that isn't by its module and name.
        """
        name: str = self.__wrapped__.__qualname__
        holder: Any = sys.modules.get(self.__module__)
        for part in name.split("."):
            holder = getattr(holder, part, None)
        if holder is not self:
            raise LaunchError(
                f"{self.name} can't be pickled: {self.__module__}.{name} isn't this kernel",
                hint="define it at the top of a module, under its own name: what is pickled is where to find it",
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
        """Compiles for these arguments without launching; takes `tj.spec`s for arrays and dtypes for scalars.

        Parameters whose annotation pins them may be left out. It is the build that a GPU runs, with `debug=True` the
        checked one.
        """
        return self.variants.variant(self.request(args, constexprs, target, threads)).compiled

    def compile_named(
        self, arguments: Mapping[str, Any], target: Target | None, threads: int | None
    ) -> tuple[Compiled, tuple[str, ...]]:
        """Compiles for arguments by name; and what is to be said of what was chosen for them, a text each."""
        return self.compile(target=target, threads=threads, **arguments), ()

    @entry_point
    def precompile(
        self, specs: Iterable[Any], target: str | Target | None = None, workers: int | None = None
    ) -> tuple[Compiled, ...]:
        """Compiles several variants at the same time, as `compile_many` does: launches find them compiled.

        specs: what `compile` takes, each as a tuple of its arguments, of which the last may be a mapping with those
        given by name; or that mapping alone. target: of those that don't name their own.
        """
        # what starts processes takes 10 ms to import
        from .precompile import compile_many, jobs_of

        return compile_many(jobs_of(self, specs, target), workers)

    def request(
        self, args: tuple[Any, ...], named: Mapping[str, Any], target: str | Target | None, threads: int | None
    ) -> Request:
        """What compiling for these arguments means, which may be specs."""
        values = standing_in(self.parameters, specified(self.name, self.parameters, args, named))
        call = Call(self.parameters, values)
        chosen = find_target(target) if target is not None else self.options.target or devices.default().target
        count = self.options.threads if threads is None else check_threads(threads)
        return Request(chosen, count, values, call, self.options.debug)

    @entry_point
    def explain(
        self, *args: Any, target: str | Target | None = None, threads: int | None = None, **constexprs: Any
    ) -> Explanation:
        """Which variant each tile operation got and why: short for `compile(...).explain()`."""
        return self.compile(*args, target=target, threads=threads, **constexprs).explain()

    def compile_signature(self, typed: Signature, target: Target, threads: int) -> Compiled:
        """Compiles for a signature that another target's variant has; not kept."""
        return self.variants.compile_signature(typed, target, threads, self.options.debug)

    def launched(
        self, grid: Any, threads: int | None, args: tuple[Any, ...], named: Mapping[str, Any], target: Target
    ) -> tuple[Launcher, list[Any]]:
        """What a launch on the simulator launches, and all its arguments in order. target: of the simulator."""
        launcher = Launcher(self, grid, self.options.threads if threads is None else check_threads(threads), None)
        return launcher, bind(self.name, self.parameters, args, named)

    def resolve(self, threads: int, values: Sequence[Any], compiler: Compiler | None = None) -> ResolvedLaunch:
        """The loaded kernel for a launch, by its quick key where that was seen before.

        compiler: what makes it of tile IR, else `pipeline.compile`.
        """
        call = Call(self.parameters, values)
        device = devices.of(call)
        captured = self.captured.current()
        quick = (device, threads, captured.number, call.key, device.checks)
        function = self._functions.peek(quick)
        if function is None:
            variant = self._variant(device, threads, values, call, compiler)
            if variant.captured != captured.number:
                # another thread has changed a captured value meanwhile
                return self.resolve(threads, values, compiler)
            function = self._functions.get(quick, lambda: device.load(variant.compiled))
        return ResolvedLaunch(call, function, captured)

    def capture(self) -> CapturedValues:
        """What it captures now."""
        return self.captured.current()

    def prefer(self, generated: GeneratedLauncher) -> None:
        """Makes a generated function what `k[grid](...)` calls."""
        # setting it makes the interpreter forget what it knows of calls
        if self._launcher_type.__call__ is not generated.launch:
            self._launcher_type.__call__ = generated.launch  # type: ignore[method-assign]

    def _variant(
        self, device: Device, threads: int, values: Sequence[Any], call: Call, compiler: Compiler | None
    ) -> CompiledVariant:
        target = self.options.target or device.target
        device.check(target)
        devices.check_environment(call)
        request = Request(target, threads, values, call, self.options.debug or device.checks)
        device.prepare()
        return self.variants.variant(request, compiler)


def specified(
    name: str, declared: Sequence[Parameter], args: tuple[Any, ...], named: Mapping[str, Any]
) -> list[Any]:
    """Arguments in order where nothing is launched, which may be specs and dtypes; pins are those that aren't given."""
    pinned = {p.name: p.spec for p in declared[len(args) :] if p.spec is not None}
    return bind(name, declared, args, {**pinned, **named})


def standing_in(declared: Sequence[Parameter], values: Sequence[Any]) -> list[Any]:
    """Arguments of a launch that could be: arrays for specs, and numbers for dtypes."""
    return [hypothetical(p, n, v) for n, (p, v) in enumerate(zip(declared, values, strict=True))]


def _is_kept(configuration: Any) -> bool:
    """Whether a launcher is found again by this: `True` and `1.0` are other grids than `1`, though they are equal."""
    return type(configuration) is int or (
        type(configuration) is tuple and tuple(map(type, configuration)) in _TYPES_OF_GRIDS
    )


def _tile_ir(
    source: KernelSource, options: Options, typed: Signature, target: Target, threads: int, debug: bool
) -> TileKernel:
    # what reads kernels takes as long to import as all that launches them
    with importing:
        from .frontend.kernel import build

    return build(
        source,
        typed,
        threads=threads,
        target=target,
        max_registers=options.max_registers,
        cluster=options.cluster,
        nonportable_cluster=options.nonportable_cluster,
        cooperative=options.cooperative,
        debug=debug,
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
    """Makes a kernel of the function below it; nothing is compiled before the first launch.

    threads: of a CTA. target: an architecture instead of the device's own. max_registers: a limit per thread.
    cluster: CTAs of a cluster in each dimension. nonportable_cluster: it may have more CTAs than every GPU runs.
    cooperative: all CTAs of a launch run at the same time, which `tj.grid_sync()` needs.
    debug: a GPU runs the checked build, as the simulator does. A thread that fails an assertion or a check ends there,
    which is told at the next synchronisation. Barriers of a CTA, a warp and a cluster don't wait for it, and who waits
    for it at a ring or a barrier of `tj.alloc_barrier` ends, too, as may those of the kernel's launches behind it. Who
    waits at a named barrier, at one of a warpgroup or of the grid, or for a flag, waits for ever, and nothing is told:
    use the simulator for such kernels.

    A parameter annotated `tj.Tensor` is an array, `tj.constexpr` a compile-time value, `tj.int32` and the like a scalar
    of that type, to which the argument is converted. `int` means int32 (int64 for a value that needs it), `float`
    float32, `bool` bool_; Python numbers for parameters without an annotation have these types too.

    Example:
        @tj.kernel(threads=64)
        def k(A: tj.Tensor) -> None:
            A[tj.thread_id()] = 1

        k[1](np.zeros(64, np.float32))
    """
    options = Options(
        check_threads(threads),
        None if target is None else find_target(target),
        None if max_registers is None else check_registers(max_registers),
        None if cluster is None else check_cluster(cluster),
        nonportable_cluster,
        cooperative,
        debug,
    )
    if fn is None:
        return entry_point(lambda decorated: Kernel(_decorated(decorated), options))
    if isinstance(fn, int):
        raise KernelSyntaxError(
            f"@tj.kernel({fn}): {fn} is not a Python function",
            hint=f"give options by name, above a def: @tj.kernel(threads={fn})",
        )
    return Kernel(_decorated(fn), options)


def _decorated(fn: Callable[..., Any]) -> Callable[..., Any]:
    if isinstance(fn, Kernel):
        raise KernelSyntaxError(f"{fn.name} is a kernel already", hint="write one @tj.kernel above the def")
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
    **constexprs: Any,
) -> Report:
    """Runs a kernel on the simulator and returns what it saw, whatever device is in use.

    target: else the kernel's own, else sm_90a. profile: run what a GPU runs, and count wavefronts and sectors per
    source line.
    checks: run the checked build, and watch it; deadlocks, and copies that are in flight at an exit, are found without,
    too. "strict" takes shuffles, votes and matches for no memory barriers, as the PTX ISA does.
    on_finding: "raise" the first error, or "collect" what the checks find in `report.findings` and go on. An access out
    of bounds or misaligned is then left out, and a load gives zeros. A thread that fails an assertion, or a check of
    the checked build, ends, as ever; the others go on, also through barriers that it misses, which is a finding of its
    own. Of failed checks the first of the run is told, behind all other findings. Any other divergence and a deadlock
    end the run.
    schedule: each number is another legal order of the threads; no result may depend on it.
    delivery: when copies by TMA and other operations in flight land: "late", as late as they can, "early", at once, or
    "random:7", by chance; no result may depend on it.

    A loop is endless, a DeadlockError, where what decides how it goes on (branches, and the places of stores) is as in
    an earlier turn, no thread has written since what that was loaded from, and every other thread waits or has ended.
    What a loop merely counts makes no difference. A loop that no path leaves is endless whatever it does. Any other of
    which a branch or the place of a store depends on a count is taken for one that ends: in a checked build a failed
    check is a path out of `while True: A[i % n] = 1; i += 1`. TILEJIT_SIM_LIMIT bounds the thread instructions of a
    launch.
    Races may be missed in two cases. Of the threads that read a place since the CTA's last barrier, the first and the
    last are kept, and in kernels with named barriers, fences or releases the last of each of eight groups of warps: a
    write that is ordered behind all of these, and not behind another reader, passes. Of threads that stored equal
    values to one place, 16 million pairs of a writer and one who asks for the order are looked at in each access.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            A[tj.thread_id()] = 1

        report = tj.simulate(k, 1, np.zeros(32, np.float32), profile=True)
        assert report.bank_conflicts == 0
    """
    from .runtime.simulated import SimulatedFunction

    if not isinstance(k, Kernel):
        raise LaunchError(f"{shown(k)} is not a kernel", hint="pass what @tj.kernel made, without a grid")
    if not isinstance(schedule, int) or schedule < 0:
        raise LaunchError(f"schedule={shown(schedule)} is not the number of a schedule", hint="write 0, 1, 2, ...")
    chosen = find_target(target) if target is not None else k.options.target or devices.named("sim").target
    launcher, values = k.launched(grid, threads, args, constexprs, chosen)
    call = Call(k.parameters, values)
    launch = launcher.launch(values)
    request = Request(chosen, launch.threads, values, call, debug=bool(checks) and not profile)
    compiled = k.variants.variant(request).compiled
    warn_of_rounding(compiled.executable, values, k.memory.warned)
    return SimulatedFunction(compiled).simulate(
        launch, call.arguments, checks=checks, profile=profile, on_finding=on_finding, schedule=schedule,
        delivery=delivery,
    )
