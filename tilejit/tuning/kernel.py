"""A kernel whose launches choose their configuration."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dataclass import dataclass, replace
from ..errors import LaunchError, entry_point
from ..ir.types import compile_time
from ..jit import Kernel, specified, standing_in
from ..launches import Launcher
from ..runtime import devices
from ..runtime.arrays import ArrayView
from ..runtime.device import Device
from ..runtime.disk import Shelf
from ..runtime.grid import GridArguments, check_threads, split
from ..runtime.launcher.generated import Choosing, GeneratedLaunchers
from ..runtime.launcher.memory import LaunchMemory
from ..runtime.once import Once
from ..runtime.signature import Call, bind, freeze, signature
from ..runtime.variants import Request, refuse_compiling
from ..target import Target
from ..target import target as find_target
from .launcher import TunedLauncher
from .options import Choices, captured_of
from .search import Question, Search
from .trials import Config, Tuning, Tunings

if TYPE_CHECKING:
    from ..compiled import Compiled
    from ..explanation import Explanation

_MODES = ("", "print", "off")

#: launches whose configurations are remembered
_CHOSEN = 4096

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Pick:
    """A configuration, and in words why it is this one. tuning: the table that says so, where one does."""

    config: Config
    why: str
    tuning: Tuning | None = None

    @property
    def remarks(self) -> tuple[str, ...]:
        """Which it is and why, and the table."""
        table = () if self.tuning is None else (str(self.tuning),)
        return f"configuration {self.config}: {self.why}", *table


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
        # but not what launches it
        vars(self).pop("_launcher_type", None)
        self._functions_of_configs = choices.functions
        self._besides = _besides(self._functions_of_configs)
        choosing = Choosing(frozenset(choices.key), self._besides)
        self.generated = GeneratedLaunchers(self.name, self.parameters, choosing)
        self.memory = LaunchMemory()
        self._launchers = {}
        self._tunings: Once[tuple[Any, ...], Tuning] = Once()
        self._chosen: dict[tuple[Any, ...], Config] = {}

    @functools.cached_property
    def _launcher_type(self) -> type[Launcher]:
        return type("TunedLauncher", (TunedLauncher,), {"__slots__": ()})

    def _configured(self, configuration: Any) -> Launcher:
        return self._launcher_type(self, *split(configuration))

    @property
    def tuning(self) -> Tunings:
        """What was tried so far, a table for each key."""
        return Tunings(self._tunings.values)

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
        self._refuse_values(named)
        self.refuse_threads(threads)
        return self._request(self.pick(args, named, target, threads), args, named, target, threads)

    def _compiled(
        self, pick: Pick, args: tuple[Any, ...], named: Mapping[str, Any], target: str | Target | None,
        threads: int | None,
    ) -> Compiled:
        return self.variants.variant(self._request(pick, args, named, target, threads)).compiled

    def _request(
        self, pick: Pick, args: tuple[Any, ...], named: Mapping[str, Any], target: str | Target | None,
        threads: int | None,
    ) -> Request:
        config = pick.config
        values = self.complete(specified(self.name, self.open_parameters, args, named), config)
        return self.kernel.request(tuple(values), {}, target, threads if config.threads is None else config.threads)

    @entry_point
    def explain(
        self, *args: Any, target: str | Target | None = None, threads: int | None = None, **constexprs: Any
    ) -> Explanation:
        """As of any kernel, in the fastest configuration, with the table of all."""
        self._refuse_values(constexprs)
        self.refuse_threads(threads)
        pick = self.pick(args, constexprs, target, threads)
        explanation = self._compiled(pick, args, constexprs, target, threads).explain()
        return replace(explanation, remarks=(*explanation.remarks, *pick.remarks))

    def compile_named(
        self, arguments: Mapping[str, Any], target: Target | None, threads: int | None
    ) -> tuple[Compiled, tuple[str, ...]]:
        """Values of the configurations' parameters, and threads, say which of them may be chosen."""
        given = {name: value for name, value in arguments.items() if name in self.choices.names}
        others = {name: value for name, value in arguments.items() if name not in given}
        pick = self.pick((), others, target, threads, given)
        return self._compiled(pick, (), others, target, threads), pick.remarks

    def pick(
        self, args: tuple[Any, ...], named: Mapping[str, Any], target: str | Target | None, threads: int | None,
        given: Mapping[str, Any] = _NOTHING,
    ) -> Pick:
        """The configuration for arguments like these, which may be specs: the fastest that is known, else the first.

        given: values that it must have; and so many threads where configurations say them.
        """
        matching = self.choices.matching(given, threads)
        if not matching:
            return self._of_its_own(given, threads)
        limits = [f"{name}={value!r}" for name, value in given.items()]
        limits += [] if threads is None or matching == self.choices.matching(given, None) else [f"threads={threads}"]
        among = f"of {len(matching)}" + (f" with {', '.join(limits)}" if limits else "")
        if len(matching) == 1:
            return Pick(matching[0], f"the only one {'with ' + ', '.join(limits) if limits else 'that there is'}")
        values = specified(self.name, self.open_parameters, args, named)
        unknown = self._unknown(values)
        if unknown:
            asks = "which it is tuned by" if set(unknown) <= set(self.choices.key) else "which prune may ask"
            return Pick(matching[0], f"the first {among}: no value is given for {', '.join(unknown)}, {asks}")
        question = self._question_without_launch(values, target, threads)
        left = [config for config in matching if config in question.candidates] or matching
        if len(left) == 1:
            return Pick(left[0], f"the only one {among} that prune leaves")
        if _mode() == "off":
            return Pick(left[0], f"the first {among}, as TILEJIT_AUTOTUNE=off says")
        where = f"for {question.key} on {question.device.name}" if question.key else f"on {question.device.name}"
        tuning = self._answer(question)
        best = None if tuning is None else tuning.best_of(left)
        if best is not None:
            return Pick(best.config, f"the fastest {among}, {where}", tuning)
        return Pick(left[0], f"the first {among}: not tuned {where} yet")

    def _of_its_own(self, given: Mapping[str, Any], threads: int | None) -> Pick:
        """A configuration that isn't one of the kernel's.

        raises: LaunchError where values are missing.
        """
        wanted = Config(dict(given))
        text = ", ".join([*filter(None, [str(wanted)]), *([] if threads is None else [f"threads={threads}"])])
        if given.keys() == self.choices.names:
            return Pick(wanted, f"none of the {len(self.choices.configs)} that are tuned has {text}")
        raise LaunchError(
            f"no configuration of {self.name} has {text}",
            hint=f"give a value to each of {', '.join(sorted(self.choices.names))}, or choose one of:\n"
            + "\n".join(f"  {config}" for config in self.choices.configs),
        )

    def _unknown(self, values: Sequence[Any]) -> list[str]:
        """Names of numbers that only have a type, where their values decide. values: as they are specified."""
        likes = standing_in(self.open_parameters, values)
        open_ones = [
            p.name
            for p, value, like in zip(self.open_parameters, values, likes, strict=True)
            if like is not value and not isinstance(like, ArrayView)
        ]
        return [name for name in open_ones if self.choices.prune is not None or name in self.choices.key]

    def _question_without_launch(
        self, values: Sequence[Any], target: str | Target | None, threads: int | None
    ) -> Question:
        """What a launch with arguments like these would ask. values: as they are specified."""
        device = devices.default()
        chosen = find_target(target) if target is not None else self.options.target or device.target
        count = self.options.threads if threads is None else check_threads(threads)
        likes = standing_in(self.open_parameters, values)
        return self._question(device, chosen, count, values, likes, Call(self.open_parameters, likes))

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

    def refuse_threads(self, threads: int | None) -> None:
        """Raises LaunchError for a launch's own threads where configurations say how many there are."""
        if threads is not None and any(config.threads is not None for config in self.choices.configs):
            raise LaunchError(
                f"the threads of {self.name} come from its configurations and can't be given",
                hint=f"leave them out, or use {self.name}.kernel, which isn't tuned",
            )

    def complete(self, values: Sequence[Any], config: Config) -> list[Any]:
        """All arguments, in order."""
        remaining = iter(values)
        return [config.values[p.name] if p.name in config.values else next(remaining) for p in self.parameters]

    def choose(self, values: Sequence[Any], launcher: TunedLauncher) -> Config:
        """The configuration for these arguments; tuned now, as `launcher` launches, where the fastest isn't known."""
        call = Call(self.open_parameters, values)
        device = devices.of(call)
        by_name = {p.name: value for p, value in zip(self.open_parameters, values, strict=True)}
        key = tuple([_key_value(by_name[name], name) for name in self.choices.key])
        quick = (device, launcher.threads, self.captured.number(), call.key, key, self._besides())
        config = self._chosen.get(quick)
        if config is None:
            config = self._choose(device, values, call, launcher)
            if len(self._chosen) >= _CHOSEN:
                self._chosen.clear()
            self._chosen[quick] = config
        return config

    def _choose(self, device: Device, values: Sequence[Any], call: Call, launcher: TunedLauncher) -> Config:
        mode = _mode()
        target = self.options.target or device.target
        question = self._question(device, target, launcher.threads, values, values, call)
        if mode == "off" or len(question.candidates) == 1:
            return question.candidates[0]
        # what is wrong with the launch and not with a configuration, as any launch says it
        device.check(target)
        devices.check_environment(call)
        tuning = self._tunings.get(
            question.identity,
            lambda: self._tuned(question, launcher),
            lambda: refuse_compiling(f"{self.name} would be tuned"),
        )
        if mode == "print":
            print(tuning, file=sys.stderr)
        return tuning.best.config

    def _question(
        self, device: Device, target: Target, threads: int, values: Sequence[Any], likes: Sequence[Any], call: Call
    ) -> Question:
        """likes: the values, with what stands for them where they are specs. call: of these."""
        named = GridArguments({p.name: value for p, value in zip(self.open_parameters, values, strict=True)})
        aliased = frozenset(position for pair in call.overlaps for position in pair)
        typed = signature(self.open_parameters, likes, call.arguments, target, aliased)
        key = ", ".join(f"{name}={_text(named[name])}" for name in self.choices.key)
        captured = self.captured.number(), captured_of(self._functions_of_configs)
        return Question(device, target, threads, tuple(likes), call, typed, captured, key, self._pruned(named))

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
        others = [str(config) for config in kept if config not in choices.configs]
        if others:
            raise LaunchError(
                f"prune of {self.name} returned {others[0]}, which is none of its configurations",
                hint="return some of those that it gets, and name all that there may be in configs=",
            )
        return tuple(dict.fromkeys(kept))

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
        return search.table


def _mode() -> str:
    """What the environment says of tuning.

    raises: LaunchError where that makes no sense.
    """
    mode = os.environ.get("TILEJIT_AUTOTUNE", "")
    if mode not in _MODES:
        raise LaunchError(
            f"TILEJIT_AUTOTUNE={mode!r} is none of print, off",
            hint="print shows what was tried, off takes the first configuration and times nothing",
        )
    return mode


def _besides(functions: Sequence[tuple[str, Any]]) -> Callable[[], Hashable]:
    """What else than a launch and what its kernel captures decides which configuration it takes."""
    # 1 us, which tells at each launch that the variable was set meanwhile
    mode = functools.partial(os.environ.get, "TILEJIT_AUTOTUNE")
    return (lambda: (mode(), captured_of(functions))) if functions else mode


def _key_value(value: Any, name: str) -> Any:
    return tuple(value.shape) if _has_shape(value) else freeze(value, name)


def _text(value: Any) -> str:
    return str(tuple(value.shape)) if _has_shape(value) else repr(compile_time(value))


def _has_shape(value: Any) -> bool:
    """Whether it is an array, or a spec of one."""
    return hasattr(value, "shape") and not isinstance(value, np.generic)
