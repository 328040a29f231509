"""A kernel whose launches choose their configuration."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dataclass import dataclass, replace
from ..errors import LaunchError, entry_point
from ..frontend import Parameter, ParameterKind
from ..ir.types import compile_time
from ..jit import Kernel, specified
from ..launches import Launcher, PreparedLaunch
from ..runtime import devices
from ..runtime.device import Device
from ..runtime.disk import Shelf
from ..runtime.grid import GridArguments, GridFunction, check_threads, split
from ..runtime.once import Once
from ..runtime.signature import Call, bind, freeze, signature
from ..runtime.variants import Request, refuse_compiling
from ..target import Target
from ..target import target as find_target
from .search import Question, Search
from .trials import Config, Tuning, Tunings

if TYPE_CHECKING:
    from ..explanation import Explanation

_MODES = ("", "print", "off")

#: takes the configurations and the arguments by name, and returns those that are worth trying
Prune = Callable[[list[Config], Mapping[str, Any]], Sequence[Config]]


@dataclass(frozen=True, slots=True)
class Choices:
    """What `autotune` was told. names: of the parameters that the configurations give values to."""

    configs: tuple[Config, ...]
    names: frozenset[str]
    key: tuple[str, ...]
    prune: Prune | None
    reset: tuple[str, ...]


class TunedKernel(Kernel):
    """A kernel with configurations: `k[grid](*args)` launches it in the fastest, which the first launch finds out.

    kernel: without them; `k.kernel[grid](*args, BM=64)` launches one of your choice.
    """

    def __init__(self, kernel: Kernel, choices: Choices) -> None:
        # all that the kernel has is this one's, too: what is compiled for one is there for the other
        vars(self).update(vars(kernel))
        self.kernel = kernel
        self.choices = choices
        self.shelf = Shelf(kernel.source, kernel.options.made)
        self.open_parameters = tuple(p for p in kernel.parameters if p.name not in choices.names)
        self._launchers = {}
        self._tunings: Once[tuple[Any, ...], Tuning] = Once()
        self._chosen: dict[tuple[Any, ...], Config] = {}

    @property
    def tuning(self) -> Tunings:
        """What was tried so far, a table for each key."""
        return Tunings(self._tunings.values)

    def _configured(self, configuration: Any) -> Launcher:
        return TunedLauncher(self, *split(configuration))

    def launched(
        self, grid: Any, threads: int | None, args: tuple[Any, ...], named: Mapping[str, Any], target: Target
    ) -> tuple[Launcher, list[Any]]:
        values = self.open_values(args, named)
        with devices.use_device(f"sim:{target}"):
            launcher = TunedLauncher(self, grid, threads, None)
            config = self.choose(values, launcher)
        return launcher.of(config), self.complete(values, config)

    def request(
        self, args: tuple[Any, ...], named: Mapping[str, Any], target: str | Target | None, threads: int | None
    ) -> Request:
        """In the configuration that is known to be the fastest, else in the first."""
        question, tuning = self._asked(args, named, target, threads)
        config = question.candidates[0] if tuning is None else tuning.best.config
        values = self.complete(question.values, config)
        count = self.threads_of(config, threads)
        return Request(question.target, count, values, Call(self.parameters, values), self.options.debug)

    def _asked(
        self, args: tuple[Any, ...], named: Mapping[str, Any], target: str | Target | None, threads: int | None
    ) -> tuple[Question, Tuning | None]:
        """What a launch with arguments like these would ask, and the answer where it is known."""
        self._refuse_values(named)
        values = specified(self.name, self.open_parameters, args, named)
        device = devices.default()
        chosen = find_target(target) if target is not None else self.options.target or device.target
        count = self.options.threads if threads is None else check_threads(threads)
        question = self._question(device, chosen, count, values, Call(self.open_parameters, values))
        return question, self._answer(question)

    @entry_point
    def explain(
        self, *args: Any, target: str | Target | None = None, threads: int | None = None, **constexprs: Any
    ) -> Explanation:
        """As of any kernel, in the fastest configuration, with the table of all."""
        _, tuning = self._asked(args, constexprs, target, threads)
        explanation = self.compile(*args, target=target, threads=threads, **constexprs).explain()
        remark = "not tuned for these arguments yet: this is the first configuration" if tuning is None else str(tuning)
        return replace(explanation, remarks=(*explanation.remarks, remark))

    def open_values(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        """The arguments without the configuration's, in order."""
        if named:
            self._refuse_values(named)
        return bind(self.name, self.open_parameters, args, named)

    def _refuse_values(self, named: Mapping[str, Any]) -> None:
        for name in named:
            if name in self.choices.names:
                raise LaunchError(
                    f"{name} of {self.name} comes from its configurations and can't be an argument",
                    hint=f"leave it out, or use {self.name}.kernel, which isn't tuned",
                )

    def complete(self, values: Sequence[Any], config: Config) -> list[Any]:
        """All arguments, in order."""
        remaining = iter(values)
        return [config.values[p.name] if p.name in config.values else next(remaining) for p in self.parameters]

    def threads_of(self, config: Config, threads: int | None) -> int:
        """Threads of a CTA. threads: the launch's own, None for none."""
        if config.threads is None:
            return self.options.threads if threads is None else threads
        if threads is not None:
            raise LaunchError(
                f"the threads of {self.name} come from its configurations and can't be given",
                hint=f"leave them out, or use {self.name}.kernel, which isn't tuned",
            )
        return config.threads

    def choose(self, values: Sequence[Any], launcher: TunedLauncher) -> Config:
        """The fastest configuration for these arguments; tuned now, as `launcher` launches, where that isn't known."""
        call = Call(self.open_parameters, values)
        device = devices.of(call)
        quick = (device, launcher.threads, self.captured.number(), call.key, self._key(values))
        config = self._chosen.get(quick)
        return config if config is not None else self._choose(quick, device, values, call, launcher)

    def _choose(
        self, quick: tuple[Any, ...], device: Device, values: Sequence[Any], call: Call, launcher: TunedLauncher
    ) -> Config:
        mode = os.environ.get("TILEJIT_AUTOTUNE", "")
        if mode not in _MODES:
            raise LaunchError(
                f"TILEJIT_AUTOTUNE={mode!r} is none of print, off",
                hint="print shows what was tried, off takes the first configuration and times nothing",
            )
        question = self._question(device, self.options.target or device.target, launcher.threads, values, call)
        if mode == "off" or len(question.candidates) == 1:
            return question.candidates[0]
        tuning = self._tunings.get(
            question.identity,
            lambda: self._tuned(question, launcher),
            lambda: refuse_compiling(f"{self.name} would be tuned"),
        )
        if mode == "print":
            print(tuning, file=sys.stderr)
        config = self._chosen[quick] = tuning.best.config
        return config

    def _key(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The values of the parameters that `key` names; of an array its shape."""
        by_name = {p.name: value for p, value in zip(self.open_parameters, values, strict=True)}
        return tuple([_key_value(by_name[name], name) for name in self.choices.key])

    def _question(
        self, device: Device, target: Target, threads: int, values: Sequence[Any], call: Call
    ) -> Question:
        named = GridArguments({p.name: value for p, value in zip(self.open_parameters, values, strict=True)})
        aliased = frozenset(position for pair in call.overlaps for position in pair)
        typed = signature(self.open_parameters, values, call.arguments, target, aliased)
        key = ", ".join(f"{name}={_text(named[name])}" for name in self.choices.key)
        candidates = self._pruned(named)
        captured = self.captured.number()
        return Question(device, target, threads, tuple(values), call, typed, captured, key, candidates)

    def _pruned(self, named: Mapping[str, Any]) -> tuple[Config, ...]:
        choices = self.choices
        if choices.prune is None:
            return choices.configs
        kept = choices.prune(list(choices.configs), named)
        if not isinstance(kept, (list, tuple)) or not all(isinstance(config, Config) for config in kept):
            raise LaunchError(
                f"prune of {self.name} returned {kept!r}", hint="return a list of those of its configurations to try"
            )
        if not kept:
            raise LaunchError(
                f"prune of {self.name} left none of its {len(choices.configs)} configurations",
                hint="let it keep one that can run, if a slow one",
            )
        check_configs(self.name, self.kernel.parameters, tuple(kept))
        return tuple(kept)

    def _answer(self, question: Question) -> Tuning | None:
        """The finished table for a question, where there is one, here or on the disk."""
        tuning = self._tunings.peek(question.identity)
        if tuning is None:
            tuning = Search(self, question).table
            if tuning.is_done:
                tuning = self._tunings.put(question.identity, tuning)
        return tuning if tuning.is_done else None

    def _tuned(self, question: Question, launcher: TunedLauncher) -> Tuning:
        search = Search(self, question)
        if not search.table.is_done:
            search.run(launcher)
        # where nothing can run, the next launch looks again
        assert search.table.best
        return search.table


class TunedLauncher(Launcher):
    """A tuned kernel with its grid, threads and stream."""

    __slots__ = ("_by_config", "_threads")

    def __init__(self, kernel: TunedKernel, grid: Any, threads: int | None, stream: Any) -> None:
        super().__init__(kernel, grid, kernel.options.threads if threads is None else threads, stream)
        self._threads = None if threads is None else check_threads(threads)
        self._by_config: dict[Config, Launcher] = {}

    @entry_point
    def __call__(self, *args: Any, **constexprs: Any) -> None:
        """Launches in the fastest configuration, which the first launch with such arguments finds out."""
        launcher, values = self._chosen(args, constexprs)
        launcher(*values)

    @entry_point
    def bind(self, *args: Any, **constexprs: Any) -> PreparedLaunch:
        """Resolves everything now, so that `p()` only launches; the configuration stays what it is."""
        launcher, values = self._chosen(args, constexprs)
        return launcher.bind(*values)

    def _chosen(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Launcher, list[Any]]:
        kernel = self.kernel
        assert isinstance(kernel, TunedKernel)
        values = kernel.open_values(args, named)
        config = kernel.choose(values, self)
        return self.of(config), kernel.complete(values, config)

    def of(self, config: Config) -> Launcher:
        """What launches in one configuration."""
        launcher, kernel = self._by_config.get(config), self.kernel
        if launcher is None:
            assert isinstance(kernel, TunedKernel)
            grid = self.grid.function if isinstance(self.grid, GridFunction) else self.grid
            launcher = kernel.kernel[grid, kernel.threads_of(config, self._threads), self.stream]
            self._by_config[config] = launcher
        return launcher


def _key_value(value: Any, name: str) -> Any:
    return tuple(value.shape) if _is_array(value) else freeze(value, name)


def _text(value: Any) -> str:
    return str(tuple(value.shape)) if _is_array(value) else repr(compile_time(value))


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and not isinstance(value, np.generic)


def check_configs(name: str, parameters: Sequence[Parameter], configs: Sequence[Config]) -> None:
    """Refuses configurations of which some aren't ones of this kernel."""
    if not isinstance(configs, (list, tuple)) or not all(isinstance(config, Config) for config in configs):
        raise LaunchError(
            f"configs of {name} is {configs!r}", hint='write configs=[tj.Config({"BM": 128}, threads=256), ...]'
        )
    if not configs:
        raise LaunchError(f"{name} has no configurations to tune", hint="give configs= at least one tj.Config")
    constexprs = [p.name for p in parameters if p.kind is ParameterKind.CONSTEXPR]
    for number, config in enumerate(configs):
        for unknown in config.values.keys() - set(constexprs):
            raise LaunchError(
                f"configuration {number} of {name} ({config}) gives {unknown!r} a value, which is no constexpr of it",
                hint=f"its constexprs: {', '.join(constexprs) or 'none'}; one is annotated `{unknown}: tj.constexpr`",
            )
        if config.values.keys() != configs[0].values.keys():
            differing = ", ".join(sorted(config.values.keys() ^ configs[0].values.keys()))
            raise LaunchError(
                f"configurations 0 and {number} of {name} give values to different parameters: {differing}",
                hint="let each configuration name all parameters that any of them names",
            )
        if config in configs[:number]:
            raise LaunchError(
                f"configurations {configs.index(config)} and {number} of {name} are the same: {config}",
                hint="leave one of them out",
            )
