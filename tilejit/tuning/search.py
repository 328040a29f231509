"""Finding the fastest configuration: all are compiled, timed in turn, and written down at every step."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from ..dataclass import dataclass
from ..errors import (
    DeviceError,
    DispatchError,
    KernelSyntaxError,
    KernelTypeError,
    LaunchError,
    LayoutError,
    ResourceError,
    TilejitError,
    for_users,
)
from ..ir.types import ConstexprType, Signature
from ..progress import Progress
from ..runtime.arrays import ArrayView
from ..runtime.device import Bench, Device, Launch
from ..runtime.entry_kinds import EntryKind
from ..runtime.signature import Call
from ..runtime.timing import Contender, race
from ..runtime.variant_builder import Compiler
from ..runtime.workers import WorkerError, run_all
from ..target import Target
from .table import Config, Trial, Tuning

if TYPE_CHECKING:
    from .kernel import TunedKernel
    from .tuned_launcher import TunedLauncher

#: timings of a configuration at most, and the sum of its times, in ms, from which on five do
_MOST, _ENOUGH = 30, 100.0

#: what says that a configuration can't be compiled, by us or by the driver, or takes more than there is
_UNFIT = (KernelSyntaxError, KernelTypeError, LayoutError, DispatchError, ResourceError, DeviceError)

#: as the driver says at the launch that it takes more than a multiprocessor has
_TOO_MUCH = ("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "CUDA_ERROR_INVALID_CLUSTER_SIZE")


def is_unfit(error: TilejitError) -> bool:
    """Whether an error is the configuration's own, so that it comes whenever that is tried.

    What is wrong with the call (its grid, its arrays, the environment) or with the machine isn't: another launch may
    be right.
    """
    return isinstance(error, _UNFIT) or isinstance(error, LaunchError) and error.message.startswith(_TOO_MUCH)


@dataclass(frozen=True, slots=True)
class Question:
    """Which configuration is the fastest, for what, among which.

    values, call, signature: of the arguments without the configuration's. key: as text.
    threads: of a CTA, where the configurations leave them open. captured: equal where captured values are.
    """

    device: Device
    target: Target
    threads: int
    values: tuple[Any, ...]
    call: Call
    signature: Signature
    captured: Hashable
    key: str
    candidates: tuple[Config, ...]

    @property
    def identity(self) -> tuple[Any, ...]:
        """Equal for questions of one process that have one answer."""
        device, target = self.device.name, self.target.name
        return device, target, self.threads, self.signature, self.captured, self.key, self.candidates

    @property
    def extended(self) -> Signature:
        """The signature with the values of all candidates, so that functions among them count by their texts."""
        values = [(name, ConstexprType.of(v)) for config in self.candidates for name, v in config.values.items()]
        return Signature((*self.signature.arguments, *values))


class EmptyGrid(LaunchError):
    """A configuration launches nothing, so it can't be timed; another launch may have CTAs."""


def _empty_grid() -> EmptyGrid:
    return EmptyGrid("the grid has no CTAs", hint="round it up, so that each configuration does all the work")


class Search:
    """Tries the candidates of one question. table: what is known so far, also from earlier runs."""

    def __init__(self, kernel: TunedKernel, question: Question) -> None:
        self._kernel = kernel
        self._question = question
        # of this run, by which a mistake that is in every configuration is shown in its place
        self._errors: list[TilejitError] = []
        self._launches: dict[Config, Launch] = {}
        trials = tuple(Trial(config) for config in question.candidates)
        self.table = Tuning(kernel.name, question.device.name, question.target.name, question.key, "", trials)
        # all that the variants depend on, and what else their times do
        self._place = kernel.shelf.place(question.extended, question.target, question.threads, kernel.options.debug)
        parts = (question.device.identity, question.key, *question.candidates, kernel.choices.reset)
        self._key = EntryKind.TUNING.key("\n".join(map(str, (self._place.digest if self._place else "", *parts))))
        # apart from what is finished, which another process may have finished meanwhile
        self._key_so_far = f"{self._key}\nso far"
        if self._place is not None:
            store = self._place.store
            stored = store.get(self._key) or store.get(self._key_so_far)
            if stored is not None:
                self.table.resume(stored)

    def run(self, launcher: TunedLauncher) -> None:
        """Times what isn't timed yet; what is known is kept on the disk at every step.

        raises: LaunchError where no configuration can run; EmptyGrid where none has CTAs; and what is wrong with the
        launch itself.
        """
        kernel, question, trials = self._kernel, self._question, self.table.trials
        if not any(trial.samples for trial in trials) and all(self._is_empty(t.config, launcher) for t in trials):
            raise _empty_grid()
        names = [p.name for p in kernel.parameters]
        call = Call(kernel.parameters, kernel.complete(question.values, question.candidates[0]))
        # a parameter that isn't annotated may be a number in this launch
        positions = [names.index(name) for name in kernel.choices.reset]
        kept = [position for position in positions if isinstance(call.arguments[position], ArrayView)]
        with question.device.bench(call, launcher.stream, kept) as bench:
            self.table.unit = bench.unit
            waiting = [t for t in trials if t.reason is None and not t.is_out and not (bench.is_exact and t.samples)]
            running = self._running(bench, launcher, waiting)
            race(bench, [contender for _, contender in running], _MOST, _ENOUGH, lambda: self._note(running))
        if self.table.best_of(question.candidates) is None:
            raise self.table.none_runs() from for_users(self._errors[0])
        self.table.is_done = True
        self._keep()

    def _running(
        self, bench: Bench, launcher: TunedLauncher, waiting: Sequence[Trial]
    ) -> list[tuple[Trial, Contender]]:
        """Those of the trials that can run, compiled at the same time, each launched once."""
        running = []
        tasks = [functools.partial(self._work, bench, launcher, trial.config) for trial in waiting]
        with Progress(f"tuning {self._kernel.name}", len(tasks)) as progress, closing(run_all(tasks)) as done:
            for outcome in done:
                trial = waiting[outcome.number]
                progress.advance(str(trial.config))
                try:
                    contender = Contender(outcome.value, trial.samples)
                    first = bench.round([contender.work])
                except TilejitError as error:
                    # a process that has ended may have been too much for the machine, or the kernel for LLVM
                    is_lost = isinstance(error, (WorkerError, EmptyGrid))
                    if not is_lost and not is_unfit(error):
                        raise
                    trial.fail(error, is_lasting=not is_lost)
                    self._errors.append(error)
                else:
                    running.append((trial, contender))
                    # else it warmed up
                    trial.samples.extend(first if bench.is_exact else ())
                self._keep()
        return running

    def _work(
        self, bench: Bench, tuned: TunedLauncher, config: Config, compiler: Compiler | None
    ) -> Callable[[], None]:
        """What launches the kernel in one configuration."""
        kernel, launcher = self._kernel.kernel, tuned.of(config)
        values = self._kernel.complete(self._question.values, config)
        resolved = kernel.resolve(launcher.threads, values, compiler)
        launch = self._launch(config, tuned)
        if 0 in launch.grid:
            raise _empty_grid()
        return resolved.function.prepare(launch, bench.staged(resolved.call)).run

    def _launch(self, config: Config, tuned: TunedLauncher) -> Launch:
        """How a configuration is launched; its grid function is called once."""
        if config not in self._launches:
            self._launches[config] = tuned.of(config).launch(self._kernel.complete(self._question.values, config))
        return self._launches[config]

    def _is_empty(self, config: Config, tuned: TunedLauncher) -> bool:
        """True if the grid has no CTAs in a configuration."""
        try:
            return 0 in self._launch(config, tuned).grid
        except LaunchError:
            # trying the configuration reports it
            return False

    def _note(self, running: Sequence[tuple[Trial, Contender]]) -> None:
        """After a round."""
        for trial, contender in running:
            trial.is_out = contender.is_out
        self._keep()

    def _keep(self) -> None:
        if self._place is not None:
            key = self._key if self.table.is_final else self._key_so_far
            self._place.put(key, self.table.to_bytes())
