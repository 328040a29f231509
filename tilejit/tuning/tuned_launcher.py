"""Launches of a tuned kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import entry_point
from ..launches import Launcher, PreparedLaunch
from ..runtime.fast_launch.generated import ABSENT, ResolvedLaunch
from .table import Config

if TYPE_CHECKING:
    from .kernel import TunedKernel


class TunedLauncher(Launcher):
    """A tuned kernel with its grid, threads and stream.

    Generated launchers (`runtime/fast_launch`) look up configurations that were already chosen; this class is the slow
    path, which chooses one.
    """

    __slots__ = ("_by_config", "_tuned")

    def __init__(self, kernel: TunedKernel, grid: Any, threads: int | None, stream: Any) -> None:
        kernel.refuse_threads(threads)
        super().__init__(kernel, grid, threads, stream)
        self._tuned = kernel
        self._by_config: dict[Config, Launcher] = {}

    @property
    def given_threads(self) -> int | None:
        """The threads per CTA, or None if a configuration sets threads."""
        return None if any(config.threads is not None for config in self._tuned.choices.configs) else self.threads

    @entry_point
    def bind(self, *args: Any, **constexprs: Any) -> PreparedLaunch:
        """Return a prepared launch, fixed to the configuration that is fastest for these arguments."""
        values = self._tuned.open_values(args, constexprs)
        config = self._tuned.choose(values, self)
        return self.of(config).bind(*self._tuned.complete(values, config))

    def bound(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        values = iter(self._tuned.open_values(args, named))
        names = self._tuned.choices.names
        return [ABSENT if p.name in names else next(values) for p in self._tuned.parameters]

    def run(self, values: Sequence[Any], grid: tuple[int, int, int] | None) -> ResolvedLaunch:
        """Launch in the fastest configuration; tune the kernel if it is unknown. values: of all parameters."""
        tuned = self._tuned
        names = tuned.choices.names
        given = [value for p, value in zip(tuned.parameters, values, strict=True) if p.name not in names]
        config = tuned.choose(given, self)
        resolved = self.of(config).run(tuned.complete(given, config), grid)
        return resolved._replace(picked=tuple(config.values[p.name] for p in tuned.parameters if p.name in names))

    def of(self, config: Config) -> Launcher:
        launcher = self._by_config.get(config)
        if launcher is None:
            threads = self.threads if config.threads is None else config.threads
            launcher = self._by_config[config] = Launcher(self._tuned.kernel, self.grid, threads, self.stream)
        return launcher
