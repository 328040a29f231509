"""The choice of a configuration for `compile` and `explain` of a tuned kernel, with its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import DeviceError, LaunchError
from ..jit import hypothetical_arguments, specified
from ..runtime import devices
from ..runtime.arrays import ArrayView
from ..runtime.grid import check_threads
from ..runtime.signature import Call
from ..target import Target
from ..target import target as find_target
from .choices import autotune_mode
from .search import Question
from .table import Config, Tuning

if TYPE_CHECKING:
    from .kernel import TunedKernel


#: a configuration, and remarks on its choice: the reason and, if it depends on a table, the table
Pick = tuple[Config, tuple[str, ...]]


def pick(
    kernel: TunedKernel, args: tuple[Any, ...], named: Mapping[str, Any], target: str | Target | None,
    threads: int | None, given: Mapping[str, Any],
) -> Pick:
    """Return the `Pick` of the fastest known configuration for the arguments, which may be specs, else of the first.

    given: values that the configuration must have. threads: the count that it must have if it sets one; None for any.
    raises: LaunchError if no configuration matches, unless `given` has a value for each tuned parameter;
        DeviceError if the choice needs a device, none is available, and no target is given.
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
        asks = "needed by the key" if set(unknown) <= set(choices.key) else "which prune may read"
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
    open_ones = [
        p.name
        for p, value, placeholder in zip(kernel.open_parameters, values, placeholders, strict=True)
        if placeholder is not value and not isinstance(placeholder, ArrayView)
    ]
    return [name for name in open_ones if kernel.choices.prune is not None or name in kernel.choices.key]


def question_for(
    kernel: TunedKernel, values: Sequence[Any], target: str | Target | None, threads: int | None,
    candidates: tuple[Config, ...],
) -> Question:
    """Return the `Question` of a launch on the default device; raise DeviceError if none is available."""
    device = devices.default()
    chosen = find_target(target) if target is not None else kernel.options.target or device.target
    count = kernel.options.threads if threads is None else check_threads(threads)
    call = Call(kernel.open_parameters, hypothetical_arguments(kernel.open_parameters, values))
    return kernel.question(device, chosen, count, values, call, candidates)
