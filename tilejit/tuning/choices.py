"""The arguments of `autotune`, and their validation."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..dataclass import dataclass
from ..errors import LaunchError
from ..frontend import Parameter, ParameterKind
from ..frontend.containers import parameter_of
from ..frontend.language import Function
from ..runtime.grid import GridArguments
from ..runtime.signature import freeze
from ..wording import shown
from .table import Config, KernelConfig

if TYPE_CHECKING:
    from ..jit import Kernel

_MODES = ("", "print", "off")

#: takes the configurations and a mapping of the arguments, and returns the configurations to try
Prune = Callable[[list[Config], Mapping[str, Any]], Sequence[Config]]


@dataclass(frozen=True, slots=True)
class Choices:
    """The arguments of `autotune`. names: the parameters that the configurations set."""

    configs: tuple[Config, ...]
    names: frozenset[str]
    key: tuple[str, ...]
    prune: Prune | None
    reset: tuple[str, ...]

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels among which `choose` chooses; () for `autotune`."""
        return tuple(config.kernel for config in self.configs if isinstance(config, KernelConfig))

    @property
    def functions(self) -> tuple[tuple[str, Any], ...]:
        """(parameter name, value) for each configured value that is a function or a tuple that contains one."""
        named = [(name, value) for config in self.configs for name, value in config.values.items()]
        return tuple((name, value) for name, value in named if _has_function(value))

    def matching(self, given: Mapping[str, Any], threads: int | None) -> tuple[Config, ...]:
        """Return the configurations with the values `given` that allow `threads` threads (None: any number)."""
        frozen = {name: freeze(value, name) for name, value in given.items()}
        return tuple(
            config
            for config in self.configs
            if all(freeze(config.values[name], name) == value for name, value in frozen.items())
            and (threads is None or config.threads in (None, threads))
        )

    def worth_trying(self, kernel: str, values: Mapping[str, Any]) -> tuple[Config, ...]:
        """Return the configurations that `prune` keeps, by default all; raise LaunchError unless it returns some."""
        if self.prune is None:
            return self.configs
        kept = self._pruned(kernel, GridArguments(values))
        if not isinstance(kept, (list, tuple)) or not all(isinstance(config, Config) for config in kept):
            raise LaunchError(f"prune of {kernel} returned {kept!r}", hint="return a list of the configurations to try")
        if not kept:
            raise LaunchError(
                f"prune removed all {len(self.configs)} configurations of {kernel}",
                hint="keep at least one that can run, even if it is slow",
            )
        others = [str(config) for config in kept if config not in self.configs]
        if others:
            raise LaunchError(
                f"prune of {kernel} returned {others[0]}, which is not one of its configurations",
                hint="return only configurations that prune received; add others to configs=",
            )
        return tuple(dict.fromkeys(kept))

    def _pruned(self, kernel: str, named: GridArguments) -> Any:
        assert self.prune is not None
        try:
            return self.prune(list(self.configs), named)
        except LaunchError:
            raise
        except Exception as error:
            # the user's function can raise anything
            raise LaunchError(
                f"prune of {kernel} raised {type(error).__name__}: {error}",
                hint="it receives the list of configurations and a mapping of the arguments "
                f"({', '.join(named) or 'none'}), which may be specs in compile and explain",
            ) from error


def autotune_mode() -> str:
    """Return the value of TILEJIT_AUTOTUNE, "" if unset; raise LaunchError if it is unknown."""
    mode = os.environ.get("TILEJIT_AUTOTUNE", "")
    if mode not in _MODES:
        raise LaunchError(
            f"TILEJIT_AUTOTUNE={mode!r} is not one of print, off",
            hint="print prints each table; off uses the first configuration without timing; unset it to tune silently",
        )
    return mode


def captured_of(functions: Sequence[tuple[str, Any]], kernels: Sequence[Kernel]) -> Hashable:
    """Return a key of the values that `functions` and `kernels` capture now. functions: as `Choices.functions`."""
    return (*[freeze(value, name) for name, value in functions], *[kernel.captured.number() for kernel in kernels])


def _has_function(value: Any) -> bool:
    return isinstance(value, Function) or isinstance(value, tuple) and any(map(_has_function, value))


def check_configs(name: str, parameters: Sequence[Parameter], configs: Sequence[Config]) -> None:
    """Raise LaunchError unless `configs` lists one or more distinct configurations that set the same constexprs."""
    if not isinstance(configs, (list, tuple)) or not all(isinstance(config, Config) for config in configs):
        raise LaunchError(
            f"configs of {name} is not a list of tj.Config: {shown(configs)}",
            hint='write configs=[tj.Config({"BM": 128}, threads=256), ...]',
        )
    if not configs:
        raise LaunchError(f"{name} has no configurations to tune", hint="pass at least one tj.Config in configs=")
    constexprs = [p.name for p in parameters if p.kind is ParameterKind.CONSTEXPR]
    for number, config in enumerate(configs):
        for unknown in config.values.keys() - set(constexprs):
            raise LaunchError(
                f"configuration {number} of {name} ({config}) sets {unknown!r}, which is not a constexpr parameter",
                hint=f"set its constexprs ({', '.join(constexprs) or 'none'}), or declare `{unknown}: tj.constexpr`",
            )
        if config.values.keys() != configs[0].values.keys():
            differing = ", ".join(sorted(config.values.keys() ^ configs[0].values.keys()))
            raise LaunchError(
                f"configurations 0 and {number} of {name} set different parameters: {differing}",
                hint="set the same parameters in each configuration",
            )
        if config in configs[:number]:
            raise LaunchError(
                f"configurations {configs.index(config)} and {number} of {name} are the same: {config}",
                hint="leave one of them out",
            )


def check_names(name: str, parameters: Sequence[Parameter], config: Config, what: str, names: Sequence[str]) -> None:
    """Raise LaunchError unless launches pass all parameters in `names` and, for "reset", each can be an array."""
    if not isinstance(names, (list, tuple)) or not all(isinstance(each, str) for each in names):
        hint = f'write {what}=["A", "B"], or {what}=[] for none'
        raise LaunchError(f"{what}={shown(names)} of {name} is not a list of names", hint=hint)
    runtime = {p.name: p for p in parameters if p.name not in config.values}
    for each in names:
        if each in config.values:
            raise LaunchError(
                f"{what} of {name} names {each!r}, which the configurations set",
                hint="leave it out: launches don't pass it",
            )
        parameter = parameter_of(each)
        if parameter not in runtime:
            raise LaunchError(
                f"{what} of {name} names {each!r}, which is not one of its parameters",
                hint=f"the parameters that launches pass: {', '.join(runtime) or 'none'}",
            )
        if what == "reset" and runtime[parameter].kind in (ParameterKind.SCALAR, ParameterKind.CONSTEXPR):
            hint = "name arrays that the kernel writes"
            raise LaunchError(f"reset of {name} names {each!r}, which is not an array", hint=hint)


def require_argument(kernel: str, names: Sequence[str], what: str, name: str) -> None:
    """Raise LaunchError unless a launch with the arguments `names` has the argument that `what` names."""
    if name not in names:
        raise LaunchError(
            f"{what} of {kernel} names {name!r}, which this launch doesn't pass",
            hint=f"its arguments: {', '.join(names)}",
        )
