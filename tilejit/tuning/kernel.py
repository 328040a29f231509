"""The `autotune` decorator, the kernel that it returns, its launches, and the choice of its configuration."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from ..constants import compile_time
from ..dataclass import replace
from ..errors import DeviceError, KernelSyntaxError, LaunchError, entry_point
from ..frontend import ParameterKind
from ..frontend.containers import is_inside
from ..jit import Kernel, hypothetical_arguments, specified
from ..launches import Launchable, Launcher, PreparedLaunch
from ..runtime import devices
from ..runtime.arrays import ArrayView
from ..runtime.device import Device
from ..runtime.fast_launch.generated import ABSENT, Choosing, ResolvedLaunch
from ..runtime.grid import check_threads
from ..runtime.once import Once
from ..runtime.signature import Call, bind, flattened, freeze, signature
from ..runtime.variants import Request, VariantCache, refuse_compiling
from ..target import Target
from ..target import target as find_target
from .choices import Choices, Prune, autotune_mode, captured_of, check_configs, check_names, require_argument
from .search import EmptyGrid, Question, Search
from .table import Config, KernelConfig, Trial, Tuning, Tunings

#: maximum number of chosen configurations, and of untimed tables, that a kernel caches
_CHOSEN = 4096


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
        """Launch the fastest configuration, after tuning if it is unknown. values: one per parameter."""
        tuned = self._tuned
        names = tuned.choices.names
        given = [value for p, value in zip(tuned.parameters, values, strict=True) if p.name not in names]
        config = tuned.choose(given, self)
        launcher = self.of(config)
        resolved = launcher.run(tuned.complete(given, config), grid)
        if isinstance(launcher.kernel, Kernel) and launcher.kernel.captured is not tuned.captured:
            # generated launchers compare the captured values of the first kernel, and those of the others by a key
            resolved = resolved._replace(captured=tuned.capture())
        return resolved._replace(picked=tuple(config.values[p.name] for p in tuned.parameters if p.name in names))

    def of(self, config: Config) -> Launcher:
        launcher = self._by_config.get(config)
        if launcher is None:
            threads = self.threads if config.threads is None else config.threads
            kernel = self._tuned.configured(config)
            launcher = self._by_config[config] = Launcher(kernel, self.grid, threads, self.stream)
        return launcher


class TunedKernel(Kernel):
    """A kernel with configurations. `k[grid](*args)` launches the fastest; the first launch for a key tunes the kernel.

    kernel: the kernel without configurations; `k.kernel[grid](*args, BM=64)` launches it in any configuration.
    """

    launcher_base = TunedLauncher

    def __init__(self, kernel: Kernel, choices: Choices, name: str = "") -> None:
        functools.update_wrapper(self, kernel.__wrapped__)
        self._functions_of_configs = choices.functions
        self._extra_key = _extra_key_of(self._functions_of_configs, choices.kernels[1:])
        choosing = Choosing(frozenset(choices.key), self._extra_key)
        # None for options in which configurations differ: launches use those of the chosen one
        given = {"cluster": kernel.options.cluster, "target": kernel.options.target}
        same = {name for name in given if all(c.options.get(name, given[name]) == given[name] for c in choices.configs)}
        unset: dict[str, Any] = dict.fromkeys(given.keys() - same)
        options = replace(kernel.options, **unset)
        Launchable.__init__(self, name or kernel.name, kernel.parameters, options, choosing, kernel.memory.warned)
        # the two kernels share their compiled variants
        self.source, self.captured = kernel.source, kernel.captured
        self.variants = kernel.variants
        self.kernel = kernel
        self.choices = choices
        self.open_parameters = tuple(p for p in kernel.parameters if p.name not in choices.names)
        self._tunings: Once[tuple[Any, ...], Tuning] = Once()
        self._untimed: dict[str, Tuning] = {}
        self._chosen: dict[tuple[Any, ...], Config] = {}
        self._configured = {kernel.options: kernel}

    def configured(self, config: Config) -> Kernel:
        """Return the kernel with the options of a configuration, or the kernel that is the configuration."""
        if isinstance(config, KernelConfig):
            return config.kernel
        options = replace(self.kernel.options, **config.options)
        if options not in self._configured:
            self._configured.setdefault(options, self.kernel.with_options(options))
        return self._configured[options]

    @property
    def tuning(self) -> Tunings:
        """The tables that this process has used; untimed tables come first."""
        return Tunings((*self._untimed.values(), *self._tunings.values))

    def launched(
        self, grid: Any, threads: int | None, args: tuple[Any, ...], named: Mapping[str, Any], target: Target
    ) -> tuple[Launcher, list[Any]]:
        values = self.open_values(args, named)
        with devices.use_device(f"sim:{target}"):
            launcher = TunedLauncher(self, grid, threads, None)
            config = self.choose(values, launcher)
        return launcher.of(config), self.complete(values, config)

    def request(
        self, args: tuple[Any, ...], named: Mapping[str, Any], target: str | Target | None, threads: int | None,
        may_configure: bool = False,
    ) -> tuple[VariantCache, Request, tuple[str, ...]]:
        """Return the cache and a request for the configuration that `pick` chooses, and remarks on the choice."""
        if not may_configure:
            self._refuse_values(named)
            self.refuse_threads(threads)
        given = {name: value for name, value in named.items() if name in self.choices.names}
        others = {name: value for name, value in named.items() if name not in given}
        config, remarks = pick(self, args, others, target, threads, given)
        values = self.complete(specified(self.name, self.open_parameters, args, others), config)
        count = threads if config.threads is None else config.threads
        variants, request, _ = self.configured(config).request(tuple(values), {}, target, count)
        return variants, request, remarks

    def open_values(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
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
        if threads is not None and any(config.threads is not None for config in self.choices.configs):
            raise LaunchError(
                f"the threads of {self.name} come from its configurations and can't be passed",
                hint=f"leave them out, or use {self.name}.kernel, which isn't tuned",
            )

    def complete(self, values: Sequence[Any], config: Config) -> list[Any]:
        remaining = iter(values)
        return [config.values[p.name] if p.name in config.values else next(remaining) for p in self.parameters]

    def choose(self, values: Sequence[Any], launcher: TunedLauncher) -> Config:
        """Return the fastest configuration for the arguments `values`, after tuning the kernel if it is unknown.

        With TILEJIT_AUTOTUNE=off, a single candidate, or only empty grids, return the first candidate without timing.
        """
        call = Call(self.open_parameters, values)
        device = devices.of(call)
        keyed = self._keyed(values, call)
        key = tuple([tuple(value.shape) if _has_shape(value) else freeze(value, name) for name, value in keyed])
        quick = (device, launcher.threads, self.captured.number(), call.key, key, self._extra_key())
        config = self._chosen.get(quick)
        if config is None:
            config = self._choose(device, values, call, launcher)
            if config is None:
                return self.choices.worth_trying(self.name, self.by_name(values))[0]
            if len(self._chosen) >= _CHOSEN:
                self._chosen.clear()
            self._chosen[quick] = config
        return config

    def _choose(self, device: Device, values: Sequence[Any], call: Call, launcher: TunedLauncher) -> Config | None:
        mode = autotune_mode()
        target = self.options.target or device.target
        candidates = self.choices.worth_trying(self.name, self.by_name(values))
        if mode == "off":
            trials = tuple([Trial(config) for config in candidates])
            key = self._key_text(values, call)
            table = Tuning(self.name, device.name, target.name, key, "", trials, untimed="TILEJIT_AUTOTUNE=off")
            if len(self._untimed) >= _CHOSEN:
                self._untimed.clear()
            self._untimed[table.head] = table
        if mode == "off" or len(candidates) == 1:
            return candidates[0]
        question = self.question(device, target, launcher.threads, values, call, candidates)
        # Errors of these checks don't depend on the configuration, so the launch raises them before it tries any.
        device.check(target)
        devices.check_environment(call)
        try:
            tuning = self._tunings.get(
                question.identity,
                lambda: self._tuned(question, launcher),
                lambda: refuse_compiling(f"{self.name} would be tuned"),
            )
        except EmptyGrid:
            first = candidates[0]
            if 0 in launcher.of(first).launch(self.complete(values, first)).grid:
                return None
            # The empty grid was that of another thread's launch, whose search this thread waited for.
            return self._choose(device, values, call, launcher)
        if mode == "print":
            print(tuning, file=sys.stderr)
        return tuning.best.config

    def question(
        self, device: Device, target: Target, threads: int, values: Sequence[Any], call: Call,
        candidates: tuple[Config, ...],
    ) -> Question:
        """Return the `Question` of a launch. values: those of `call`, with specs in place of hypothetical arrays."""
        typed = signature(call, target, call.overlaps)
        captured = self.captured.number(), captured_of(self._functions_of_configs, self.choices.kernels[1:])
        key = self._key_text(values, call)
        return Question(device, target, threads, tuple(call.values), typed, captured, key, candidates)

    def _key_text(self, values: Sequence[Any], call: Call) -> str:
        return ", ".join(f"{name}={_text(value)}" for name, value in self._keyed(values, call))

    def by_name(self, values: Sequence[Any]) -> dict[str, Any]:
        return {p.name: value for p, value in zip(self.open_parameters, values, strict=True)}

    def _keyed(self, values: Sequence[Any], call: Call) -> list[tuple[str, Any]]:
        """Return the names and values of the arguments that the key names, with the items of a container in its place.

        Numbers have the values that are passed. values: as in `question`.
        raises: LaunchError if the key names an item that this launch's container doesn't have.
        """
        parameters, flat, kinds = flattened(self.open_parameters, values)
        passed = [
            (p.name, value if argument is None or not isinstance(value, (bool, int, float, np.generic)) else argument)
            for p, value, kind, argument in zip(parameters, flat, kinds, call.arguments, strict=True)
            if kind is not ParameterKind.CONTAINER
        ]
        for name in self.choices.key:
            require_argument(self.name, [p.name for p in parameters], "key", name)
        return [each for name in self.choices.key for each in passed if is_inside(each[0], name)]

    def answer(self, question: Question) -> Tuning | None:
        """Return the finished table for `question` from memory or disk, or None if there is none."""
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


def _extra_key_of(functions: Sequence[tuple[str, Any]], kernels: Sequence[Kernel]) -> Callable[[], Hashable]:
    """Return a function that returns a key of TILEJIT_AUTOTUNE and of what `functions` and `kernels` capture."""
    # Each launch reads the variable, which takes 1 µs, so that a change takes effect.
    mode = functools.partial(os.environ.get, "TILEJIT_AUTOTUNE")
    return (lambda: (mode(), captured_of(functions, kernels))) if functions or kernels else mode


def _text(value: Any) -> str:
    return str(tuple(value.shape)) if _has_shape(value) else repr(compile_time(value))


def _has_shape(value: Any) -> bool:
    return hasattr(value, "shape") and not isinstance(value, np.generic)


#: a configuration, and remarks on its choice: the reason and, if it depends on a table, the table
Pick = tuple[Config, tuple[str, ...]]


def pick(
    kernel: TunedKernel, args: tuple[Any, ...], named: Mapping[str, Any], target: str | Target | None,
    threads: int | None, given: Mapping[str, Any],
) -> Pick:
    """Return the `Pick` of the fastest known configuration for the arguments, which may be specs, else of the first.

    given: values that the configuration must have. threads: the count that it must have if it sets one; None for any.
    raises: LaunchError if no configuration matches, unless `given` has a value for each tuned parameter;
        DeviceError if the choice needs a device, none is available, and neither `target` nor the kernel sets a target.
    """
    choices = kernel.choices
    matching = choices.matching(given, threads)
    if not matching:
        return _of_its_own(kernel, given, threads)
    limits = [f"{name}={value!r}" for name, value in given.items()]
    limits += [] if threads is None or matching == choices.matching(given, None) else [f"threads={threads}"]
    among = f"of {len(matching)}" + (f" with {', '.join(limits)}" if limits else "")
    if len(matching) == 1:
        return _picked(matching[0], "the only one" + (f" with {', '.join(limits)}" if limits else ""))
    values = specified(kernel.name, kernel.open_parameters, args, named)
    unknown = _unknown(kernel, values)
    if unknown:
        is_keyed = all(any(is_inside(name, each) for each in choices.key) for name in unknown)
        asks = "needed by the key" if is_keyed else "which prune may read"
        return _picked(matching[0], f"the first {among}: no value is given for {', '.join(unknown)}, {asks}")
    candidates = choices.worth_trying(kernel.name, kernel.by_name(values))
    left = [config for config in matching if config in candidates] or matching
    if len(left) == 1:
        return _picked(left[0], f"the only one {among} that prune keeps")
    if autotune_mode() == "off":
        return _picked(left[0], f"the first {among}, as requested by TILEJIT_AUTOTUNE=off")
    try:
        question = question_for(kernel, values, target, threads, candidates)
    except DeviceError as error:
        # compiling for an explicit target needs no device
        if target is None and kernel.options.target is None:
            raise
        return _picked(left[0], f"the first {among}: {error.message}, so the fastest is unknown")
    where = f"for {question.key} on {question.device.name}" if question.key else f"on {question.device.name}"
    tuning = kernel.answer(question)
    best = None if tuning is None else tuning.best_of(left)
    if best is not None:
        return _picked(best.config, f"the fastest {among}, {where}", tuning)
    return _picked(left[0], f"the first {among}: not tuned {where} yet")


def _picked(config: Config, why: str, tuning: Tuning | None = None) -> Pick:
    return config, (f"configuration {config}: {why}", *(() if tuning is None else (str(tuning),)))


def _of_its_own(kernel: TunedKernel, given: Mapping[str, Any], threads: int | None) -> Pick:
    """Return a pick with the values `given`; raise LaunchError if a parameter that configurations set is missing."""
    wanted, choices = Config(dict(given)), kernel.choices
    text = ", ".join([*filter(None, [str(wanted)]), *([] if threads is None else [f"threads={threads}"])])
    if given.keys() == choices.names:
        return _picked(wanted, f"none of the {len(choices.configs)} tuned configurations has {text}")
    raise LaunchError(
        f"no configuration of {kernel.name} has {text}",
        hint=f"pass a value for each of {', '.join(sorted(choices.names))}, or choose one of:\n"
        + "\n".join(f"  {config}" for config in choices.configs),
    )


def _unknown(kernel: TunedKernel, values: Sequence[Any]) -> list[str]:
    """Return the scalars that `values` specify only by type, although the key or prune may depend on their values."""
    placeholders = hypothetical_arguments(kernel.open_parameters, values)
    leaves = [flattened(kernel.open_parameters, each)[1] for each in (values, placeholders)]
    parameters, _, kinds = flattened(kernel.open_parameters, values)
    open_ones = [
        p.name
        for p, kind, value, placeholder in zip(parameters, kinds, *leaves, strict=True)
        if placeholder is not value and kind is not ParameterKind.CONTAINER and not isinstance(placeholder, ArrayView)
    ]
    keyed = kernel.choices.key
    return [
        name for name in open_ones if kernel.choices.prune is not None or any(is_inside(name, each) for each in keyed)
    ]


def question_for(
    kernel: TunedKernel, values: Sequence[Any], target: str | Target | None, threads: int | None,
    candidates: tuple[Config, ...],
) -> Question:
    """Return the `Question` of a launch on the default device; raise DeviceError if the device isn't available."""
    device = devices.default()
    chosen = find_target(target) if target is not None else kernel.options.target or device.target
    count = kernel.options.threads if threads is None else check_threads(threads)
    call = Call(kernel.open_parameters, hypothetical_arguments(kernel.open_parameters, values))
    return kernel.question(device, chosen, count, values, call, candidates)


@entry_point
def autotune(
    configs: Sequence[Config],
    key: Sequence[str],
    prune: Prune | None = None,
    reset: Sequence[str] | None = None,
) -> Callable[[Kernel], TunedKernel]:
    """Return a decorator that tunes a kernel: launches use the fastest of several configurations for each key.

    configs: `[tj.Config({"BM": 128}, threads=256), ...]`. They set constexpr parameters, which launches leave out; a
    grid function receives their values (`lambda meta: (tj.cdiv(meta["M"], meta["BM"]),)`). They may also set the
    threads, the cluster and the limit of registers.
    key: names of parameters, or of items of containers, such as "P[0]" and "P.w". The kernel is tuned once for each
    combination of their values (for an array, of its shape; for a container, of its items). Different signatures
    (types, alignment), devices and kernel sources are also tuned separately.
    prune: a function that takes the list of configurations and a mapping of the launch's arguments, and returns the
    configurations to try. Launches call it until a configuration is chosen for the key.
    reset: names of arrays, or of containers of arrays, that a run changes and the next run reads, such as accumulators.
    They are restored before each timed run and at the end. Other arrays keep the results of the last run.

    The configurations are compiled in parallel, then timed in rotation on the arguments of the launch, as
    `tilejit.testing.do_bench` does; on the simulator, a modeled cost replaces the time. The table is kept on disk;
    `k.tuning` and `k.explain` show it. A configuration that can't be compiled, needs too many resources or has an empty
    grid gets a row with the reason. Any other error is raised by the launch, and the next launch resumes the tuning.
    TILEJIT_AUTOTUNE=print prints each table; TILEJIT_AUTOTUNE=off uses the first configuration without timing.

    Example:
        @tj.autotune(configs=[tj.Config({"BM": 32}), tj.Config({"BM": 64}, threads=64)], key=["A"])
        @tj.kernel(threads=32)
        def k(A: tj.Tensor, BM: tj.constexpr) -> None:
            tj.cta.store(A.tile(BM, tj.cta_id(0)), tj.cta.zeros((BM,), A.dtype))

        k[lambda meta: (tj.cdiv(100, meta["BM"]),)](np.ones(100, np.float32))
        print(k.tuning)
    """

    @entry_point
    def decorate(kernel: Kernel) -> TunedKernel:
        if not isinstance(kernel, Kernel) or isinstance(kernel, TunedKernel):
            raise KernelSyntaxError(
                f"@tj.autotune is applied to {kernel!r}, which is not a kernel or is already tuned",
                hint="write @tj.autotune(...) once, above @tj.kernel",
            )
        check_configs(kernel.name, kernel.parameters, configs)
        restored = () if reset is None else reset
        for what, names in (("key", key), ("reset", restored)):
            check_names(kernel.name, kernel.parameters, configs[0], what, names)
        if prune is not None and not callable(prune):
            raise LaunchError(
                f"prune={prune!r} is not a function",
                hint="pass a function that takes the list of configurations and a mapping of the launch's arguments, "
                "and returns the configurations to try",
            )
        chosen = frozenset(configs[0].values)
        return TunedKernel(kernel, Choices(tuple(configs), chosen, tuple(key), prune, tuple(restored)))

    return decorate
