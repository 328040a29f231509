"""Kernels that can be launched, launchers (`k[grid]`) and prepared launches (`k[grid].bind(...)`)."""

from __future__ import annotations

import operator
import pickle
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from .dataclass import dataclass
from .errors import LaunchError, TilejitError, entry_point, for_users
from .forks import cached_property
from .frontend import Parameter, ParameterKind
from .runtime import devices
from .runtime.captured import CapturedValues
from .runtime.device import Device, Launch, LoadedKernel
from .runtime.fast_launch.generated import ABSENT, Choosing, GeneratedLauncher, GeneratedLaunchers, ResolvedLaunch
from .runtime.fast_launch.memory import LaunchMemory
from .runtime.grid import GridFunction, check_clustered, check_grid, check_threads, split, warn_of_unused_axes
from .runtime.once import Once
from .runtime.reshapes import check_reshapes
from .runtime.rounding import warn_of_rounding
from .runtime.signature import Call, bind, describe
from .runtime.variant_builder import Compiler
from .runtime.variants import Request, without_compiling
from .target import Target
from .wording import counted

if TYPE_CHECKING:
    from .compiled import Compiled

#: maximum number of launchers that a kernel caches, one per grid
_LAUNCHERS = 256
_TYPES_OF_GRIDS = frozenset((int,) * n for n in (1, 2, 3))


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `@kernel`."""

    threads: int = 128
    target: Target | None = None
    max_registers: int | None = None
    cluster: tuple[int, int, int] | None = None
    nonportable_cluster: bool = False
    cooperative: bool = False
    debug: bool = False

    @property
    def build_key(self) -> tuple[Hashable, ...]:
        """The options that affect compilation and that no launch overrides."""
        return self.max_registers, self.cluster, self.nonportable_cluster, self.cooperative


class LaunchBase(ABC):
    """The interface that generated launch functions use; see `runtime/fast_launch/text.py`.

    fixed: the grid in three dimensions, once a launch has checked it; None if a function computes it or it is empty.
    """

    __slots__ = ("kernel", "grid", "threads", "stream", "fixed", "memory", "states")

    def __init__(
        self, kernel: Launchable, grid: GridFunction | tuple[int, int, int], threads: int, stream: Any,
        memory: LaunchMemory,
    ) -> None:
        self.kernel = kernel
        self.grid = grid
        self.threads = threads
        self.stream = stream
        self.fixed: tuple[int, int, int] | None = None
        self.memory = memory
        self.states = memory.states

    def __copy__(self) -> LaunchBase:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> LaunchBase:
        return self

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise LaunchError(
            f"{self!r} can't be pickled: its arguments are in this process",
            hint=f"pickle {self.kernel.name}[grid], and call bind in the other process",
        )

    @abstractmethod
    def run(self, values: Sequence[Any], grid: tuple[int, int, int] | None) -> ResolvedLaunch:
        """Launch through the slow path, and return the resolved launch. grid: None for the launcher's own."""

    def prefer(self, generated: GeneratedLauncher) -> None:
        """Make later calls try the generated function first."""
        self.kernel.prefer(generated)

    @entry_point
    def grid_of(self, values: Sequence[Any]) -> tuple[int, int, int]:
        """Return the grid of a launch with the arguments `values`."""
        return self.launch(values).grid

    def launch(self, values: Sequence[Any], grid: tuple[int, int, int] | None = None) -> Launch:
        """Return the grid, threads and stream of a launch with the arguments `values`. grid: None for `self.grid`."""
        known = self.fixed if grid is None else grid
        if known is not None:
            return Launch(known, self.threads, self.stream)
        given = self.grid
        grid = given(self.kernel.parameter_names, values) if isinstance(given, GridFunction) else given
        cluster = self.kernel.options.cluster
        if cluster is not None:
            check_clustered(grid, cluster)
        if grid is given and all(grid):
            self.fixed = grid
        return Launch(grid, self.threads, self.stream)

    def bound(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        """Return the arguments in the order of the parameters; those that the launcher chooses are ABSENT."""
        return bind(self.kernel.name, self.kernel.parameters, args, named)

    def start(self, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Launch through the generated function for the arguments' types, or through the slow path if none exists."""
        kernel = self.kernel
        generated = kernel.generated.find(args, named)
        if generated is not None:
            self.memory.ready(generated)
            generated.launch(self, *args, **named)
            return
        values = self.bound(args, named)
        resolved = self.run(values, None)
        generated = kernel.generated.notice(args, named, values, resolved)
        if generated is not None:
            self._learn(generated, None, resolved)

    @entry_point
    def other(self, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Launch with arguments that a generated function doesn't accept. ABSENT values are omitted."""
        self.start(
            tuple(value for value in args if value is not ABSENT),
            {name: value for name, value in named.items() if value is not ABSENT},
        )

    @entry_point
    def missed(self, number: int, values: tuple[Any, ...], key: tuple[Any, ...] | None) -> None:
        """Launch through the slow path after a generated function's lookup missed, and add an entry if possible."""
        resolved = self.run(values, None)
        generated = self.kernel.generated.again(number, resolved.captured)
        if generated is not None:
            self._learn(generated, key, resolved)

    @entry_point
    def failed(self, values: tuple[Any, ...], grid: tuple[int, int, int]) -> None:
        """Launch through the slow path after the driver rejected a generated launch, for example in another context."""
        resolved = self.run(values, grid)
        direct = resolved.function.direct
        if direct is not None and not direct.is_current():
            self.memory.launch_in_context()

    def _learn(
        self, generated: GeneratedLauncher, key: tuple[Any, ...] | None, resolved: ResolvedLaunch
    ) -> None:
        self.memory.remember(generated, key, resolved)
        self.prefer(generated)


class Launcher(LaunchBase):
    """A kernel with a grid, `k[grid, threads, stream]`; a call launches it. threads: None for the kernel's own."""

    __slots__ = ()

    def __init__(self, kernel: Launchable, grid: Any, threads: int | None, stream: Any) -> None:
        count = kernel.options.threads if threads is None else check_threads(threads)
        if callable(grid) and not isinstance(grid, GridFunction):
            grid = GridFunction(grid)
        checked = grid if isinstance(grid, GridFunction) else check_grid(grid)
        super().__init__(kernel, checked, count, stream, kernel.memory)

    @entry_point
    def __call__(self, *args: Any, **constexprs: Any) -> None:
        """Launch the kernel, and return before it completes if the device works asynchronously."""
        self.start(args, constexprs)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_") or not hasattr(type(self.kernel), name):
            raise AttributeError(f"a kernel with a grid has no attribute {name!r}: call it, or use bind")
        raise AttributeError(
            f"a kernel with a grid has no attribute {name!r}: write {self.kernel.name}.{name}, without [...]"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the kernel, grid and threads; raise LaunchError for a stream or an unpicklable grid function."""
        if self.stream is not None:
            raise LaunchError(
                f"{self!r} can't be pickled: its stream is in this process", hint="leave the stream out of k[...]"
            )
        grid: Any = self.grid
        if isinstance(grid, GridFunction):
            grid = grid.function
            try:
                pickle.dumps(grid)
            except Exception as error:
                # pickling a user's callable may raise anything
                raise LaunchError(
                    f"{self!r} can't be pickled: {error}", hint="define the grid function at the top level of a module"
                ) from None
        return operator.getitem, (self.kernel, (grid, self.given_threads))

    @property
    def given_threads(self) -> int | None:
        """The number of threads to pickle; None if the configurations of a tuned kernel set it."""
        return self.threads

    def __repr__(self) -> str:
        grid = self.grid if isinstance(self.grid, tuple) else "a function"
        return f"<{self.kernel.name} with grid {grid}, {self.threads} threads>"

    @entry_point
    def bind(self, *args: Any, **constexprs: Any) -> PreparedLaunch:
        """Return a prepared launch, whose arguments are checked and resolved now rather than at each call."""
        return PreparedLaunch(self, bind(self.kernel.name, self.kernel.parameters, args, constexprs))

    def run(self, values: Sequence[Any], grid: tuple[int, int, int] | None) -> ResolvedLaunch:
        resolved = self.kernel.resolve(self.threads, values)
        launch = self.launch(values, grid)
        executable = resolved.function.compiled.executable
        warn_of_unused_axes(self.kernel.name, launch.grid, executable.grid_axes)
        warn_of_rounding(executable, resolved.call.flat, self.memory.warned)
        resolved.function.compiled.warn_of_lost_speed()
        resolved.function.launch(launch, resolved.call)
        return resolved if all(launch.grid) else resolved._replace(is_empty=True)


class PreparedLaunch(LaunchBase):
    """A launch `p` with resolved arguments: `p()` repeats it, `p(*args)` launches with others of the same signature.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            A[tj.thread_id()] += 1

        a = np.zeros(32, np.float32)
        launch = k[1].bind(a)
        launch()
        launch()
        assert (a == 2).all()
    """

    __slots__ = ("_launcher", "_resolved", "_generated", "_hold", "_quick", "_run")

    def __init__(self, launcher: Launcher, values: list[Any]) -> None:
        memory = LaunchMemory(launcher.memory.warned)
        super().__init__(launcher.kernel, launcher.grid, launcher.threads, launcher.stream, memory)
        self._launcher = launcher
        self._generated: GeneratedLauncher | None = None
        self._resolve(values)

    def _resolve(self, values: Sequence[Any]) -> None:
        self._resolved = self.kernel.resolve(self.threads, values)
        self._hold = self._resolved.captured.watch()
        launch = self.launch(values)
        executable = self.compiled.executable
        warn_of_unused_axes(self.kernel.name, launch.grid, executable.grid_axes)
        warn_of_rounding(executable, self._resolved.call.flat, self.memory.warned)
        self.compiled.warn_of_lost_speed()
        self._quick, self._run = self._resolved.function.prepare(launch, self._resolved.call)

    def __repr__(self) -> str:
        return f"<prepared launch: {self._launcher!r}>"

    @property
    def compiled(self) -> Compiled:
        """The compiled kernel."""
        return self._resolved.function.compiled

    def __call__(self, *args: Any) -> None:
        if args and self._generated is not None and len(args) == len(self.kernel.parameters):
            self._generated.launch(self, *args)
        elif args or not self._hold() or not self._quick():
            self._launch(args)

    @entry_point
    def _launch(self, args: tuple[Any, ...]) -> None:
        if args:
            self.start(self._rebind(args), {})
            return
        self._follow()
        self._run()

    def _follow(self) -> None:
        """Resolve the launch anew if a captured value has changed."""
        captured = self.kernel.capture()
        if captured.number != self._resolved.captured.number:
            self._resolve(self._resolved.call.values)
        else:
            self._resolved = self._resolved._replace(captured=captured)
            self._hold = captured.watch()

    def run(self, values: Sequence[Any], grid: tuple[int, int, int] | None) -> ResolvedLaunch:
        """Launch with other arguments; raise LaunchError if they need a different compiled kernel."""
        self._follow()
        with without_compiling("by a bound launch"):
            resolved = self.kernel.resolve(self.threads, values)
        if resolved.function.compiled is not self.compiled:
            raise LaunchError(
                f"these arguments of {self.kernel.name} need a different build from the bound ones; their signature is "
                f"{describe(resolved.function.compiled.signature)}",
                hint=f"call bind again, or launch {self.kernel.name}[grid](...)",
            )
        launch = self.launch(values, grid)
        warn_of_rounding(resolved.function.compiled.executable, resolved.call.flat, self.memory.warned)
        resolved.function.launch(launch, resolved.call)
        return resolved

    def prefer(self, generated: GeneratedLauncher) -> None:
        self._generated = generated

    def _rebind(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return all arguments; raise LaunchError unless `args` are all, or all except the compile-time ones."""
        parameters = self.kernel.parameters
        if len(args) == len(parameters):
            return args
        runtime = [i for i, p in enumerate(parameters) if p.kind is not ParameterKind.CONSTEXPR]
        if len(args) != len(runtime):
            which = "that is not a constexpr" if len(runtime) == 1 else "that aren't constexprs"
            raise LaunchError(
                f"{self.kernel.name} takes {counted(len(runtime), 'argument')} {which}; got {len(args)}",
                hint="pass all of them, or none to launch with the bound ones",
            )
        values = list(self._resolved.call.values)
        for i, value in zip(runtime, args, strict=True):
            values[i] = value
        return tuple(values)


class Launchable(ABC):
    """A kernel that launchers accept: one from source, or one loaded from a file.

    choosing: see `GeneratedLaunchers`. warned: parameters for which a PrecisionWarning was issued.
    """

    launcher_base: type[Launcher] = Launcher

    def __init__(
        self, name: str, parameters: tuple[Parameter, ...], options: Options, choosing: Choosing | None = None,
        warned: set[str] | None = None,
    ) -> None:
        self.name = name
        self.options = options
        self.parameters = parameters
        self.parameter_names = tuple([p.name for p in parameters])
        self.generated = GeneratedLaunchers(name, parameters, choosing)
        self.memory = LaunchMemory(warned)
        self._launchers: dict[int | tuple[int, ...], Launcher] = {}
        # loaded kernels: by device and compiled kernel; and by quick key, once the arguments have been checked
        self._loaded: Once[tuple[Device, Compiled], LoadedKernel] = Once()
        self._functions: dict[tuple[Any, ...], LoadedKernel] = {}

    def resolve(self, threads: int, values: Sequence[Any], compiler: Compiler | None = None) -> ResolvedLaunch:
        """Return the loaded kernel for a launch, with the launch's arguments and the captured values.

        compiler: compiles tile IR, by default `pipeline.compile`.
        """
        call = Call(self.parameters, values)
        device = devices.of(call)
        captured = self.capture()
        quick = (device, threads, captured.number, call.key, device.checks)
        function = self._functions.get(quick)
        if function is None:
            target = self.options.target or device.target
            device.check(target)
            devices.check_environment(call)
            device.prepare()
            debug = self.options.debug or device.checks
            request = Request(target, threads, call, debug, self.options.build_key)
            compiled, number = self.compiled_for(request, compiler)
            if number != captured.number:
                # another thread has changed a captured value in the meantime
                return self.resolve(threads, values, compiler)
            function = self._loaded.get((device, compiled), lambda: device.load(compiled))
            self._functions[quick] = function
        if function.compiled.executable.reshapes:
            check_reshapes(function.compiled.executable, call)
        return ResolvedLaunch(call, function, captured)

    @abstractmethod
    def compiled_for(self, request: Request, compiler: Compiler | None) -> tuple[Compiled, int]:
        """Return the compiled kernel for a launch, and the number of the captured values that it was compiled with."""

    @abstractmethod
    def capture(self) -> CapturedValues:
        """Return the current values of the variables that the kernel captures."""

    @cached_property
    def _launcher_type(self) -> type[Launcher]:
        """The kernel's own class of launchers. `prefer` sets its `__call__`, which saves 0.1 µs of lookup."""
        return type(self.launcher_base.__name__, (self.launcher_base,), {"__slots__": ()})

    def prefer(self, generated: GeneratedLauncher) -> None:
        """Install a generated function as the implementation of `k[grid](...)`."""
        # assign only a new function, because an assignment invalidates the interpreter's inline caches
        if self._launcher_type.__call__ is not generated.launch:
            self._launcher_type.__call__ = generated.launch  # type: ignore[method-assign]

    def __getitem__(self, configuration: Any) -> Launcher:
        # launchers are cached only for plain integers, because `True` and `1.0` equal `1`
        is_kept = type(configuration) is int or (
            type(configuration) is tuple and tuple(map(type, configuration)) in _TYPES_OF_GRIDS
        )
        launcher = self._launchers.get(configuration) if is_kept else None
        if launcher is not None:
            return launcher
        try:
            launcher = self._launcher_type(self, *split(configuration))
        except TilejitError as error:
            raise for_users(error) from None
        if is_kept:
            if len(self._launchers) >= _LAUNCHERS:
                self._launchers.clear()
            self._launchers[configuration] = launcher
        return launcher

    @entry_point
    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise LaunchError(
            f"{self.name} is a kernel and needs a grid",
            hint=f"write {self.name}[grid](...), where grid is an int, a tuple of one to three ints, or a function "
            "that returns one of these",
        )

    def __copy__(self) -> Launchable:
        """Return the kernel itself: kernels, like functions, are not copied."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Launchable:
        return self
