"""What `autotune` was told, and what of that makes no sense."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from ..dataclass import dataclass
from ..errors import LaunchError
from ..frontend import Parameter, ParameterKind
from ..frontend.language import Function
from ..runtime.signature import freeze
from ..wording import shown
from .trials import Config

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
