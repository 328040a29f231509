"""Compilation of several variants of one or more kernels in parallel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from functools import partial
from typing import Any

from .compiled import Compiled
from .errors import DeviceError, LaunchError, entry_point
from .jit import Kernel
from .progress import Progress
from .runtime import devices
from .runtime.variants import CompiledVariant
from .runtime.workers import Task, run_all
from .target import Target
from .wording import shown, with_article

#: a kernel, followed by the arguments of its `compile`, with named ones in a mapping at the end
Job = tuple[Any, ...]


def jobs_of(kernel: Kernel, specs: Iterable[Any], target: str | Target | None) -> list[Job]:
    """Return a job for each of the specs described in `Kernel.precompile`; raise LaunchError if they are malformed."""
    if isinstance(specs, (str, Mapping)) or not isinstance(specs, Iterable):
        raise LaunchError(
            f"{kernel.name}.precompile takes a list of specs; got {type(specs).__name__}",
            hint="write [(tj.spec(...), tj.spec(...)), ...]: a tuple of arguments for each variant",
        )
    default = {} if target is None else {"target": target}
    parts = [_parts(kernel, (spec,) if isinstance(spec, Mapping) else spec) for spec in specs]
    return [(kernel, *positional, {**default, **named}) for positional, named in parts]


def _parts(kernel: Kernel, spec: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and the named arguments in `spec`; raise LaunchError if it isn't a tuple or a list."""
    if not isinstance(spec, (tuple, list)):
        raise LaunchError(
            f"a spec of {kernel.name}.precompile is a tuple or a mapping; got {with_article(type(spec).__name__)}",
            hint="write a tuple of arguments, as in [(tj.spec(...),)], or a mapping by name, for each variant",
        )
    if spec and isinstance(spec[-1], Mapping):
        return tuple(spec[:-1]), dict(spec[-1])
    return tuple(spec), {}


def _task(job: Any) -> Task[CompiledVariant]:
    if not isinstance(job, tuple) or not job or not isinstance(job[0], Kernel):
        raise LaunchError(
            f"{shown(job)} is not a job: a job is a tuple that begins with a kernel",
            hint="write (kernel, argument, ...), with a mapping of arguments by name at the end",
        )
    kernel = job[0]
    args, named = _parts(kernel, job[1:])
    target, threads = named.pop("target", None), named.pop("threads", None)
    variants, request, _ = kernel.request(args, named, target, threads)
    return partial(variants.variant, request._replace(debug=request.debug or _launches_checked()))


def _launches_checked() -> bool:
    """True if launches on the device in use run checked builds; False if no device is available."""
    try:
        return devices.default().checks
    except DeviceError:
        return False


@entry_point
def compile_many(jobs: Iterable[Job], workers: int | None = None) -> tuple[Compiled, ...]:
    """Compile variants of several kernels in parallel, in separate processes, so that launches find them compiled.

    If launches on the device in use run checked builds, as on the simulator by default, these are compiled, whatever
    the target. `Kernel.compile` returns the build that a GPU runs, which is the one to save.

    jobs: tuples of a kernel and arguments of its `compile`, with named ones in a mapping at the end, such as
    `(softmax, tj.spec((64, 1000), tj.float32), {"N": 1000, "threads": 128})`.
    workers: maximum number of processes; 0 to compile in this process, None for one per processor, up to 8, if that
    saves time.
    returns: the compiled variants, in the order of the jobs.
    raises: LaunchError for a malformed job, before any is started; the error of the first job in `jobs` that fails,
    after all others are done.

    Example:
        @tj.kernel(threads=32)
        def k(A: tj.Tensor) -> None:
            A[tj.thread_id()] = 1

        specs = [tj.spec(32, dtype) for dtype in (tj.float32, tj.int32)]
        compiled = tj.compile_many([(k, spec) for spec in specs], workers=0)
    """
    if workers is not None and (type(workers) is not int or workers < 0):
        raise LaunchError(f"workers={workers!r} is not a number of processes", hint="pass 0, 1, ... or leave it out")
    if not isinstance(jobs, Iterable):
        raise LaunchError(f"{shown(jobs)} is not a list of jobs", hint="pass a list of tuples (kernel, argument, ...)")
    listed = list(jobs)
    tasks = [_task(job) for job in listed]
    outcomes = {}
    with Progress("compiling", len(tasks)) as progress, closing(run_all(tasks, workers)) as done:
        for number, outcome in done:
            outcomes[number] = outcome
            progress.advance(listed[number][0].name)
    return tuple(outcomes[number].result().compiled for number in range(len(tasks)))
