"""Configurations of a tuned kernel, and the table of their times."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from ..constants import mapped
from ..dataclass import dataclass, field
from ..errors import LaunchError, TilejitError, without_triton_options
from ..html_tables import aligned, box, escaped, rows_table, text_box
from ..runtime.grid import check_cluster, check_registers, check_threads
from ..runtime.signature import freeze

if TYPE_CHECKING:
    from ..jit import Kernel


class Config:
    """A configuration of a tuned kernel: values of constexpr parameters by name, and options in place of the kernel's.

    threads: None for the number that the launch specifies, by default the kernel's own.
    cluster, max_registers: as in `tj.kernel`; None for those of the kernel.

    Example:
        config = tj.Config({"BM": 128}, threads=256)
        other = tj.Config({"BM": 256}, threads=256, cluster=(2,), max_registers=168)
    """

    __slots__ = ("_frozen", "cluster", "max_registers", "threads", "values")

    @without_triton_options
    def __init__(
        self, values: Mapping[str, Any], *, threads: int | None = None, cluster: Sequence[int] | None = None,
        max_registers: int | None = None,
    ) -> None:
        if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
            raise LaunchError(
                f"{values!r} does not map parameter names to values", hint='write tj.Config({"BM": 128}, threads=256)'
            )
        self.values = {name: mapped(value) for name, value in values.items()}
        self.threads = None if threads is None else check_threads(threads)
        self.cluster = None if cluster is None else check_cluster(cluster)
        self.max_registers = None if max_registers is None else check_registers(max_registers)
        named = {name: freeze(value, name) for name, value in self.values.items()}
        self._frozen: tuple[Any, ...] = (*sorted(named.items()), *self._options())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._frozen == other._frozen

    def __hash__(self) -> int:
        return hash(self._frozen)

    @property
    def options(self) -> dict[str, Any]:
        """The options of `tj.kernel`, apart from the threads, that the configuration sets."""
        given = {"cluster": self.cluster, "max_registers": self.max_registers}
        return {name: value for name, value in given.items() if value is not None}

    def __str__(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in (*self.values.items(), *self._options()))

    def __repr__(self) -> str:
        return f"Config({', '.join([repr(self.values), *(f'{name}={value}' for name, value in self._options())])})"

    def _options(self) -> list[tuple[str, Any]]:
        threads = [] if self.threads is None else [("threads", self.threads)]
        return [*threads, *self.options.items()]


class KernelConfig(Config):
    """The configuration of a `choose` that represents one of its kernels, with the kernel's own options."""

    __slots__ = ("kernel",)

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        super().__init__({}, threads=kernel.options.threads)
        self._frozen = (kernel,)

    @property
    def options(self) -> dict[str, Any]:
        return {"cluster": self.kernel.options.cluster, "target": self.kernel.options.target}

    def __str__(self) -> str:
        return self.kernel.name

    __repr__ = __str__


@dataclass(slots=True)
class Trial:
    """The result of trying one configuration.

    samples: the time of each timed run, in `Tuning.unit`.
    is_out: timing stopped early, because the configuration was clearly slower than another one.
    reason: the error that keeps the configuration from running, else None.
    is_lasting: False if the error may not recur in another attempt.
    """

    config: Config
    samples: list[float] = field(default_factory=list)
    is_out: bool = False
    reason: str | None = None
    is_lasting: bool = True

    @property
    def median(self) -> float | None:
        return median(self.samples) if self.samples and self.reason is None else None

    def fail(self, error: TilejitError, is_lasting: bool) -> None:
        self.reason = f"{type(error).__name__}: {error.message}"
        self.is_lasting = is_lasting


@dataclass(slots=True)
class Tuning:
    """The table of a kernel's configurations for one key.

    key: names and values of the key's parameters, as text.
    untimed: the reason why the first configuration is used without timing; empty if the fastest is used.
    unit: the unit of the times; empty before timing.
    is_done: each configuration has a time or a reason, and at least one has a time.
    """

    kernel: str
    device: str
    target: str
    key: str
    unit: str
    trials: tuple[Trial, ...]
    is_done: bool = False
    untimed: str = ""

    @property
    def best(self) -> Trial:
        """The trial of the fastest configuration, or the first trial if `untimed` is set.

        raises: LaunchError if no configuration could be timed.
        """
        if self.untimed:
            return self.trials[0]
        best = self.best_of([trial.config for trial in self.trials])
        if best is None:
            raise self.none_runs()
        return best

    def best_of(self, configs: Sequence[Config]) -> Trial | None:
        """Return the trial of the fastest of `configs`, or None if none of them has a time."""
        timed = [
            (trial.median, number)
            for number, trial in enumerate(self.trials)
            if trial.median is not None and trial.config in configs
        ]
        return self.trials[min(timed)[1]] if timed else None

    def none_runs(self) -> LaunchError:
        rows = "\n".join(f"  {trial.config}: {trial.reason}" for trial in self.trials)
        return LaunchError(
            f"none of the {len(self.trials)} configurations of {self.kernel} can run:\n{rows}",
            hint="pass autotune a configuration that can run, or compile one without autotune to see its error",
        )

    @property
    def rows(self) -> Sequence[tuple[str, ...]]:
        """(configuration, time, ratio to best, number of timings, remark) per trial: fastest first, untimed last."""
        timed = sorted((t for t in self.trials if t.median is not None), key=lambda t: t.median or 0.0)
        rows = [
            (
                str(t.config), _number(t.median or 0.0), f"{(t.median or 0.0) / (timed[0].median or 1.0):.2f}",
                str(len(t.samples)), "out" if t.is_out else "",
            )
            for t in timed
        ]
        others = [t for t in self.trials if t.median is None]
        missing = f"not timed: {self.untimed}" if self.untimed else "not timed yet"
        return rows + [(str(t.config), "-", "-", "-", t.reason or missing) for t in others]

    @property
    def head(self) -> str:
        timed = [trial for trial in self.trials if trial.median is not None]
        best = f"best of {len(self.trials)}: {self.best.config}" if timed else f"none of {len(self.trials)} can run"
        if self.untimed:
            best = f"first of {len(self.trials)}: {self.best.config}"
        where = f"{self.kernel} on {self.device} for {self.target}"
        return f"{where}, {self.key}: {best}" if self.key else f"{where}: {best}"

    @property
    def headings(self) -> tuple[str, ...]:
        return "configuration", self.unit, "of best", "timings", ""

    def __str__(self) -> str:
        return "\n".join([self.head, "", *aligned([self.headings, *self.rows])])

    @property
    def is_final(self) -> bool:
        """True if the search is finished and no other process needs to try a configuration again."""
        return self.is_done and all(trial.is_lasting for trial in self.trials)

    def to_bytes(self) -> bytes:
        """Encode the table for the disk. It omits errors that may not recur, so a later run repeats these trials."""
        trials = [
            {"samples": t.samples, "is_out": t.is_out, "reason": t.reason if t.is_lasting else None}
            for t in self.trials
        ]
        return json.dumps({"is_done": self.is_final, "unit": self.unit, "trials": trials}).encode()

    def resume(self, stored: bytes) -> None:
        """Restore the times and reasons of an earlier run for the same configurations from `stored`.

        If that run timed none of them, ignore it, because the machine rather than the configurations may be at fault.
        """
        record = json.loads(stored)
        if not any(earlier["samples"] for earlier in record["trials"]):
            return
        self.unit = str(record["unit"])
        for trial, earlier in zip(self.trials, record["trials"], strict=True):
            trial.samples = [float(sample) for sample in earlier["samples"]]
            trial.is_out, trial.reason = bool(earlier["is_out"]), earlier["reason"]
        self.is_done = bool(record["is_done"])


class Tunings(tuple[Tuning, ...]):
    """The tuning tables of a kernel. Its `repr` shows the tables."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n\n".join(map(str, self)) or "nothing was tuned yet"

    def _repr_html_(self) -> str:
        return "".join(map(_table, self)) or text_box(repr(self))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _table(tuning: Tuning) -> str:
    return box(f"<b>{escaped(tuning.head)}</b>", rows_table(tuning.headings, tuning.rows))
