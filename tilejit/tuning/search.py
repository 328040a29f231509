"""The search for the fastest configuration: compile all, time them in rotation, store the results after each step."""

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
from ..frontend.containers import is_inside
from ..ir.types import ConstexprType, Signature
from ..progress import Progress
from ..runtime.arrays import ArrayView
from ..runtime.device import Bench, Device, Launch
from ..runtime.disk import cache_entry
from ..runtime.grid import UNEVEN
from ..runtime.signature import Call
from ..runtime.store import EntryKind
from ..runtime.timing import Contender, race
from ..runtime.variant_builder import Compiler
from ..runtime.workers import WorkerError, run_all
from ..target import Target
from .choices import require_argument
from .table import Config, Trial, Tuning

if TYPE_CHECKING:
    from .kernel import TunedKernel, TunedLauncher

#: maximum number of timings of a configuration, and the total time in ms after which `timing.LEAST` timings suffice
_MOST, _ENOUGH = 30, 100.0

#: errors that a configuration causes: it can't be compiled by tilejit or the driver, or needs too many resources
_UNFIT = (KernelSyntaxError, KernelTypeError, LayoutError, DispatchError, ResourceError, DeviceError)

#: driver errors of a launch that needs more resources than the GPU has
_TOO_MUCH = ("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "CUDA_ERROR_INVALID_CLUSTER_SIZE")


def is_unfit(error: TilejitError) -> bool:
    """True if `error` is due to the configuration, and so would recur, rather than to the call or the machine."""
    return isinstance(error, _UNFIT) or isinstance(error, LaunchError) and error.message.startswith(_TOO_MUCH)


@dataclass(frozen=True, slots=True)
class Question:
    """The inputs of a search for the fastest of `candidates`.

    values, signature: of the parameters that configurations don't set. key: the key's names and values, as text.
    threads: per CTA, for configurations that don't set them. captured: a key of the captured values.
    """

    device: Device
    target: Target
    threads: int
    values: tuple[Any, ...]
    signature: Signature
    captured: Hashable
    key: str
    candidates: tuple[Config, ...]

    @property
    def identity(self) -> tuple[Any, ...]:
        """A key for answers in this process: equal keys imply equal answers."""
        device, target = self.device.name, self.target.name
        return device, target, self.threads, self.signature, self.captured, self.key, self.candidates

    @property
    def extended(self) -> Signature:
        """The signature followed by the values of all candidates, for the key on disk."""
        values = [(name, ConstexprType.of(v)) for config in self.candidates for name, v in config.values.items()]
        return Signature((*self.signature.arguments, *values))


class EmptyGrid(LaunchError):
    """The grid of a configuration, or of all of them, has no CTAs in this launch, so it can't be timed."""

    def __init__(self) -> None:
        super().__init__("the grid has no CTAs", hint="round it up, so that each configuration does all the work")


class Search:
    """Times the candidates of one question. table: the results so far, including those of earlier runs."""

    def __init__(self, kernel: TunedKernel, question: Question) -> None:
        self._kernel = kernel
        self._question = question
        # Errors of this run. If no configuration can run, the first error is the cause of the one that `run` raises.
        self._errors: list[TilejitError] = []
        self._launches: dict[Config, Launch] = {}
        trials = tuple(Trial(config) for config in question.candidates)
        self.table = Tuning(kernel.name, question.device.name, question.target.name, question.key, "", trials)
        # The key contains what determines the variants and what affects their times.
        entries = [
            cache_entry(
                each.source, each.options.build_key, question.extended, question.target, question.threads,
                each.options.debug,
            )
            for each in kernel.choices.kernels or (kernel.kernel,)
        ]
        self._entry = entries[0] if all(entries) else None
        digests = [entry.digest for entry in entries if entry is not None]
        parts = (*digests, question.device.identity, question.key, *question.candidates, kernel.choices.reset)
        self._key = EntryKind.TUNING.key("\n".join(map(str, parts)))
        # A key of its own, so that an unfinished table doesn't replace a finished one of another process.
        self._key_so_far = f"{self._key}\nso far"
        if self._entry is not None:
            store = self._entry.store
            stored = store.get(self._key) or store.get(self._key_so_far)
            if stored is not None:
                self.table.resume(stored)

    def run(self, launcher: TunedLauncher) -> None:
        """Time the remaining candidates, and store the table after each step.

        raises: LaunchError if no candidate can run; errors of a launch that aren't due to its configuration.
        """
        kernel, question, trials = self._kernel, self._question, self.table.trials
        if not any(trial.samples for trial in trials) and all(self._is_empty(t.config, launcher) for t in trials):
            raise EmptyGrid
        call = Call(kernel.parameters, kernel.complete(question.values, question.candidates[0]))
        names = [p.name for p in call.parameters]
        for name in kernel.choices.reset:
            require_argument(kernel.name, names, "reset", name)
        # `reset` may name a container, or an unannotated parameter whose argument is a number in this launch
        kept = [
            n
            for n, leaf in enumerate(names)
            if any(is_inside(leaf, name) for name in kernel.choices.reset) and isinstance(call.arguments[n], ArrayView)
        ]
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
        """Compile the trials in parallel, launch each once, record failures, and return those that can run."""
        running = []
        tasks = [functools.partial(self._work, bench, launcher, trial.config) for trial in waiting]
        with Progress(f"tuning {self._kernel.name}", len(tasks)) as progress, closing(run_all(tasks)) as done:
            for number, outcome in done:
                trial = waiting[number]
                progress.advance(str(trial.config))
                try:
                    contender = Contender(outcome.result(), trial.samples)
                    first = bench.round([contender.work])
                except TilejitError as error:
                    # Another attempt may succeed, with more free memory, without a crash of LLVM, or with another grid.
                    is_lost = isinstance(error, (WorkerError, EmptyGrid)) or UNEVEN in error.message
                    if not is_lost and not is_unfit(error):
                        raise
                    trial.fail(error, is_lasting=not is_lost)
                    self._errors.append(error)
                else:
                    running.append((trial, contender))
                    # On a real clock, the first run includes the warm-up, so its time isn't kept.
                    trial.samples.extend(first if bench.is_exact else ())
                self._keep()
        return running

    def _work(
        self, bench: Bench, tuned: TunedLauncher, config: Config, compiler: Compiler | None
    ) -> Callable[[], None]:
        launcher = tuned.of(config)
        values = self._kernel.complete(self._question.values, config)
        resolved = launcher.kernel.resolve(launcher.threads, values, compiler)
        launch = self._launch(config, tuned)
        if 0 in launch.grid:
            raise EmptyGrid
        return resolved.function.prepare(launch, bench.staged(resolved.call)).run

    def _launch(self, config: Config, tuned: TunedLauncher) -> Launch:
        """Return the launch of a configuration, cached so that the grid function is called once."""
        if config not in self._launches:
            self._launches[config] = tuned.of(config).launch(self._kernel.complete(self._question.values, config))
        return self._launches[config]

    def _is_empty(self, config: Config, tuned: TunedLauncher) -> bool:
        try:
            return 0 in self._launch(config, tuned).grid
        except LaunchError:
            # `_running` gets the error again when it tries the configuration, and records or raises it.
            return False

    def _note(self, running: Sequence[tuple[Trial, Contender]]) -> None:
        for trial, contender in running:
            trial.is_out = contender.is_out
        self._keep()

    def _keep(self) -> None:
        if self._entry is not None:
            key = self._key if self.table.is_final else self._key_so_far
            self._entry.put(key, self.table.to_bytes())
