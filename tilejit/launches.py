"""A kernel with its grid, and launches that are repeated: what `k[grid]` and `k[grid].bind(...)` give."""

from __future__ import annotations

import operator
import pickle
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from .dataclass import dataclass
from .errors import LaunchError, entry_point
from .frontend import Parameter, ParameterKind
from .runtime.captured import CapturedValues
from .runtime.device import Launch
from .runtime.fast_launch.generated import ABSENT, GeneratedLauncher, GeneratedLaunchers, ResolvedLaunch
from .runtime.fast_launch.memory import LaunchMemory
from .runtime.grid import GridFunction, check_clustered, check_grid, warn_of_unused_axes
from .runtime.rounding import warn_of_rounding
from .runtime.signature import bind, describe
from .runtime.variants import without_compiling
from .target import Target
from .wording import counted

if TYPE_CHECKING:
    from .compiled import Compiled


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
    def made(self) -> tuple[Hashable, ...]:
        """Those that decide what a variant becomes, and that no call overrides."""
        return self.max_registers, self.cluster, self.nonportable_cluster, self.cooperative


class Launchable(Protocol):
    """What `k[grid]` needs of a kernel: one of Python source, or one from a file."""

    name: str
    options: Options
    parameters: tuple[Parameter, ...]
    parameter_names: tuple[str, ...]
    generated: GeneratedLaunchers
    memory: LaunchMemory

    def resolve(self, threads: int, values: Sequence[Any]) -> ResolvedLaunch:
        """The loaded kernel for a launch."""
        ...

    def capture(self) -> CapturedValues:
        """What it captures now."""
        ...

    def prefer(self, generated: GeneratedLauncher) -> None:
        """Makes a generated function what `k[grid](...)` calls, where that takes less than asking."""
        ...


def no_grid(name: str) -> LaunchError:
    """What a call of a kernel without a grid gets."""
    return LaunchError(
        f"{name} is a kernel and needs a grid",
        hint=f"write {name}[grid](...): an int, a tuple of up to three, or a function that returns one",
    )


class LaunchBase(ABC):
    """What a generated function may ask of who calls it; see `runtime/fast_launch/text.py`.

    fixed: the grid in three dimensions, or None if a function makes it or it has no CTAs. states: of the memory.
    """

    __slots__ = ("kernel", "threads", "stream", "fixed", "memory", "states")

    def __init__(self, kernel: Launchable, threads: int, stream: Any, memory: LaunchMemory) -> None:
        self.kernel = kernel
        self.threads = threads
        self.stream = stream
        self.fixed: tuple[int, int, int] | None = None
        self.memory = memory
        self.states = memory.states

    def __copy__(self) -> LaunchBase:
        """Return itself, as a function's copy is."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> LaunchBase:
        return self

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise LaunchError(
            f"{self!r} can't be pickled: its arguments are in this process",
            hint=f"pickle {self.kernel.name}[grid], and bind it there",
        )

    @abstractmethod
    def run(self, values: Sequence[Any], grid: tuple[int, int, int] | None) -> ResolvedLaunch:
        """Launches the usual way. grid: else the launcher's own."""

    @abstractmethod
    def grid_of(self, values: Sequence[Any]) -> tuple[int, int, int]:
        """The grid, where it isn't fixed; a grid function is called with the arguments by name."""

    def bound(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        """The arguments in the order of the parameters; ABSENT for those that the launcher chooses."""
        return bind(self.kernel.name, self.kernel.parameters, args, named)

    def start(self, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Launches by the generated function for arguments of these types, else the usual way."""
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
            self._learn(generated, values, None, resolved)

    @entry_point
    def other(self, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Launches what a generated function got that it isn't for; ABSENT is what it didn't get."""
        self.start(
            tuple(value for value in args if value is not ABSENT),
            {name: value for name, value in named.items() if value is not ABSENT},
        )

    @entry_point
    def missed(self, number: int, values: tuple[Any, ...], key: tuple[Any, ...] | None) -> None:
        """Launches the usual way what a generated function has nothing for, and remembers it for the next time."""
        resolved = self.run(values, None)
        generated = self.kernel.generated.again(number, resolved.captured)
        if generated is not None:
            self._learn(generated, values, key, resolved)

    @entry_point
    def failed(self, number: int, values: tuple[Any, ...], grid: tuple[int, int, int]) -> None:
        """Launches the usual way what the driver refused, as it does where the thread's context is another one."""
        resolved = self.run(values, grid)
        direct = resolved.function.direct
        if direct is not None and not direct.is_current():
            self.memory.launch_in_context()

    def _warn_of_rounding(self, resolved: ResolvedLaunch, values: Sequence[Any]) -> None:
        executable = resolved.function.compiled.executable
        if executable.widened:
            warn_of_rounding(executable, values, self.memory.warned)

    def _learn(
        self, generated: GeneratedLauncher, values: Sequence[Any], key: tuple[Any, ...] | None, resolved: ResolvedLaunch
    ) -> None:
        self.memory.remember(generated, values, key, resolved)


class Launcher(LaunchBase):
    """A kernel with its grid: `k[grid, threads, stream]`."""

    __slots__ = ("grid",)

    def __init__(self, kernel: Launchable, grid: Any, threads: int, stream: Any) -> None:
        super().__init__(kernel, threads, stream, kernel.memory)
        if callable(grid) and not isinstance(grid, GridFunction):
            grid = GridFunction(grid)
        self.grid: GridFunction | tuple[int, int, int] = grid if isinstance(grid, GridFunction) else check_grid(grid)

    @entry_point
    def __call__(self, *args: Any, **constexprs: Any) -> None:
        """Launches; returns before the kernel ends where the device works on its own."""
        self.start(args, constexprs)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_") or not hasattr(type(self.kernel), name):
            raise AttributeError(f"a kernel with a grid has no attribute {name!r}: it has bind, and is called")
        raise AttributeError(
            f"a kernel with a grid has no attribute {name!r}: write {self.kernel.name}.{name}, without [...]"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what makes it again: the kernel, its grid and its threads.

        raises: LaunchError for a stream, and for a grid function that isn't found by its module and name.
        """
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
                # a user's object that is called may raise anything
                raise LaunchError(
                    f"{self!r} can't be pickled: {error}", hint="define the grid function at the top of a module"
                ) from None
        return operator.getitem, (self.kernel, (grid, self.given_threads))

    @property
    def given_threads(self) -> int | None:
        """Return the call that makes an equal launcher, for `copy` and `pickle`."""
        return self.threads

    def __repr__(self) -> str:
        grid = self.grid if isinstance(self.grid, tuple) else "a function"
        return f"<{self.kernel.name} with grid {grid}, {self.threads} threads>"

    @entry_point
    def bind(self, *args: Any, **constexprs: Any) -> PreparedLaunch:
        """Resolves everything now, so that `p()` only launches."""
        return PreparedLaunch(self, bind(self.kernel.name, self.kernel.parameters, args, constexprs))

    def run(self, values: Sequence[Any], grid: tuple[int, int, int] | None) -> ResolvedLaunch:
        resolved = self.kernel.resolve(self.threads, values)
        launch = self.launch(values) if grid is None else Launch(grid, self.threads, self.stream)
        warn_of_unused_axes(self.kernel.name, launch.grid, resolved.function.compiled.executable.grid_axes)
        self._warn_of_rounding(resolved, values)
        resolved.function.launch(launch, resolved.call)
        return resolved if all(launch.grid) else resolved._replace(is_empty=True)

    @entry_point
    def grid_of(self, values: Sequence[Any]) -> tuple[int, int, int]:
        return self.launch(values).grid

    def launch(self, values: Sequence[Any]) -> Launch:
        """Grid, threads and stream; a grid function is called with the arguments by name."""
        if self.fixed is not None:
            return Launch(self.fixed, self.threads, self.stream)
        if isinstance(self.grid, GridFunction):
            return self._on(self.grid(self.kernel.parameter_names, values))
        launch = self._on(self.grid)
        if all(launch.grid):
            self.fixed = launch.grid
        return launch

    def _on(self, grid: tuple[int, int, int]) -> Launch:
        cluster = self.kernel.options.cluster
        if cluster is not None:
            check_clustered(grid, cluster)
        return Launch(grid, self.threads, self.stream)

    def _learn(
        self, generated: GeneratedLauncher, values: Sequence[Any], key: tuple[Any, ...] | None, resolved: ResolvedLaunch
    ) -> None:
        super()._learn(generated, values, key, resolved)
        self.kernel.prefer(generated)


class PreparedLaunch(LaunchBase):
    """A launch that has been resolved: `p()` repeats it, `p(*args)` takes others of the same signature.

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

    __slots__ = ("_launcher", "_values", "_resolved", "_generated", "_hold", "_quick", "_run")

    def __init__(self, launcher: Launcher, values: list[Any]) -> None:
        super().__init__(launcher.kernel, launcher.threads, launcher.stream, LaunchMemory(launcher.memory.warned))
        self._launcher = launcher
        self._generated: GeneratedLauncher | None = None
        self._resolve(values)

    def _resolve(self, values: list[Any]) -> None:
        launcher = self._launcher
        self._values = values
        self._resolved = self.kernel.resolve(launcher.threads, values)
        self._hold = self._resolved.captured.watch()
        launch = launcher.launch(values)
        warn_of_unused_axes(self.kernel.name, launch.grid, self._resolved.function.compiled.executable.grid_axes)
        self._warn_of_rounding(self._resolved, values)
        self._quick, self._run = self._resolved.function.prepare(launch, self._resolved.call)
        self.fixed = launcher.fixed

    def __repr__(self) -> str:
        return f"<prepared launch: {self._launcher!r}>"

    @property
    def compiled(self) -> Compiled:
        """What it launches."""
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
        """Resolves again where a captured value has changed."""
        captured = self.kernel.capture()
        if captured.number != self._resolved.captured.number:
            self._resolve(self._values)
        else:
            self._resolved = self._resolved._replace(captured=captured)
            self._hold = captured.watch()

    def run(self, values: Sequence[Any], grid: tuple[int, int, int] | None) -> ResolvedLaunch:
        """As a launcher, for arguments that may differ in what the signature leaves out, such as more alignment."""
        self._follow()
        with without_compiling("by a bound launch"):
            resolved = self.kernel.resolve(self.threads, values)
        if resolved.function.compiled is not self.compiled:
            raise LaunchError(
                f"these arguments of {self.kernel.name} have another signature than those it was bound with: "
                f"{describe(resolved.function.compiled.signature)}",
                hint=f"bind again, or launch {self.kernel.name}[grid](...)",
            )
        launch = self._launcher.launch(values) if grid is None else Launch(grid, self.threads, self.stream)
        self._warn_of_rounding(resolved, values)
        resolved.function.launch(launch, resolved.call)
        return resolved

    @entry_point
    def grid_of(self, values: Sequence[Any]) -> tuple[int, int, int]:
        return self._launcher.launch(values).grid

    def _learn(
        self, generated: GeneratedLauncher, values: Sequence[Any], key: tuple[Any, ...] | None, resolved: ResolvedLaunch
    ) -> None:
        super()._learn(generated, values, key, resolved)
        self._generated = generated

    def _rebind(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """New values; constexprs may be left out."""
        parameters = self.kernel.parameters
        if len(args) == len(parameters):
            return args
        runtime = [i for i, p in enumerate(parameters) if p.kind is not ParameterKind.CONSTEXPR]
        if len(args) != len(runtime):
            which = "that is no constexpr" if len(runtime) == 1 else "that aren't constexprs"
            raise LaunchError(
                f"{self.kernel.name} takes {counted(len(runtime), 'argument')} {which}; got {len(args)}",
                hint="pass all of them, or none to launch with those it was bound with",
            )
        values = list(self._values)
        for i, value in zip(runtime, args, strict=True):
            values[i] = value
        return tuple(values)
