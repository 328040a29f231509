"""What `autotune` was told, and what of that makes no sense."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from ..dataclass import dataclass
from ..errors import LaunchError
from ..frontend import Parameter, ParameterKind
from ..frontend.language import Function
from ..runtime.grid import GridArguments
from ..runtime.signature import freeze
from ..wording import shown
from .table import Config

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

    @property
    def functions(self) -> tuple[tuple[str, Any], ...]:
        """Values that are functions, or tuples of some, by the names of their parameters: what they capture changes."""
        named = [(name, value) for config in self.configs for name, value in config.values.items()]
        return tuple((name, value) for name, value in named if _has_function(value))

    def matching(self, given: Mapping[str, Any], threads: int | None) -> tuple[Config, ...]:
        """The configurations that have these values, and so many threads where they say how many."""
        frozen = {name: freeze(value, name) for name, value in given.items()}
        return tuple(
            config
            for config in self.configs
            if all(freeze(config.values[name], name) == value for name, value in frozen.items())
            and (threads is None or config.threads in (None, threads))
        )

    def worth_trying(self, kernel: str, values: Mapping[str, Any]) -> tuple[Config, ...]:
        """The configurations that prune leaves for arguments of these names and values. kernel: its name.

        raises: LaunchError for what prune may not return, and for what it raises.
        """
        if self.prune is None:
            return self.configs
        kept = self._pruned(kernel, GridArguments(values))
        if not isinstance(kept, (list, tuple)) or not all(isinstance(config, Config) for config in kept):
            raise LaunchError(
                f"prune of {kernel} returned {kept!r}", hint="return a list of those of its configurations to try"
            )
        if not kept:
            raise LaunchError(
                f"prune of {kernel} left none of its {len(self.configs)} configurations",
                hint="let it keep one that can run, if a slow one",
            )
        others = [str(config) for config in kept if config not in self.configs]
        if others:
            raise LaunchError(
                f"prune of {kernel} returned {others[0]}, which is none of its configurations",
                hint="return some of those that it gets, and name all that there may be in configs=",
            )
        return tuple(dict.fromkeys(kept))

    def _pruned(self, kernel: str, named: GridArguments) -> Any:
        assert self.prune is not None
        try:
            return self.prune(list(self.configs), named)
        except LaunchError:
            raise
        except Exception as error:
            # the user's function may raise anything
            raise LaunchError(
                f"prune of {kernel} raised {type(error).__name__}: {error}",
                hint=f"it gets the configurations, and by name {', '.join(named)}: a launch's arguments, and from "
                "compile and explain the specs that they are given",
            ) from error


def autotune_mode() -> str:
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


def captured_of(functions: Sequence[tuple[str, Any]]) -> Hashable:
    """What functions among the values of configurations capture now."""
    return tuple([freeze(value, name) for name, value in functions])


def _has_function(value: Any) -> bool:
    return isinstance(value, Function) or isinstance(value, tuple) and any(map(_has_function, value))


def check_configs(name: str, parameters: Sequence[Parameter], configs: Sequence[Config]) -> None:
    """Refuses configurations of which some aren't ones of this kernel."""
    if not isinstance(configs, (list, tuple)) or not all(isinstance(config, Config) for config in configs):
        raise LaunchError(
            f"configs of {name} is {shown(configs)}", hint='write configs=[tj.Config({"BM": 128}, threads=256), ...]'
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


def check_names(name: str, parameters: Sequence[Parameter], config: Config, what: str, names: Sequence[str]) -> None:
    """Refuses a key or a reset, which `what` says, that names what can't be one."""
    if not isinstance(names, (list, tuple)) or not all(isinstance(each, str) for each in names):
        hint = f'write {what}=["A", "B"], or {what}=[] for none'
        raise LaunchError(f"{what}={shown(names)} of {name} is no list of names", hint=hint)
    runtime = {p.name: p for p in parameters if p.name not in config.values}
    for each in names:
        if each in config.values:
            raise LaunchError(
                f"{what} of {name} names {each!r}, which the configurations give values to",
                hint="name parameters that launches give arguments to",
            )
        if each not in runtime:
            raise LaunchError(
                f"{what} of {name} names {each!r}, which is no parameter of it",
                hint=f"its parameters: {', '.join(runtime)}",
            )
        if what == "reset" and runtime[each].kind not in (ParameterKind.ARRAY, ParameterKind.ANY):
            raise LaunchError(f"reset of {name} names {each!r}, which is no array", hint="name arrays that it writes")
