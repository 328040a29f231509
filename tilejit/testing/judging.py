"""`judge`, which accepts or refuses a kernel that a program has written."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..errors import LaunchError, SimulationError, TilejitError
from ..runtime.devices import use_device
from ..wording import counted, is_array
from . import bans
from .bounds import FLOATS, Array, Bounded, bounded, is_float, widened
from .candidates import CudaCandidate, Deferred, NumpyRunner, Runner
from .trials import SPECIAL, JudgeTrial, TrialData, planned
from .verdicts import Judgement, Reason

_PACKAGE = str(Path(__file__).parents[1])


def judge(
    candidate: Callable[..., Any] | CudaCandidate | Deferred,
    reference: Callable[..., Any],
    inputs: Callable[..., Sequence[Any]] | Sequence[Any],
    *,
    kind: Literal["tilejit", "triton"] = "tilejit",
    arch: str = "sm_90a",
    outputs: Literal["returned", "written"] = "returned",
    edges: bool | Collection[int] = True,
    layouts: bool = True,
    special: Sequence[str] = ("nan", "inf", "-0.0"),
    schedules: int = 3,
    slack: float = 32.0,
    precision: str | None = None,
    allow: Collection[str] = (),
    seed: int = 0,
) -> Judgement:
    """Judge a kernel on the simulator against a reference, and return a verdict with reasons.

    The verdict refuses candidates that a comparison of one result with tolerances accepts: those that return what an
    earlier call or freed memory holds, call the reference or another library, cache results, change inputs, are right
    for the tested shape or ordinary numbers only, race, or read out of bounds. All launches are checked, in several
    thread orders. Fresh buffers contain NaNs, and the reference's results aren't freed while the candidate runs.
    Nothing is timed.

    candidate: a function of arrays that launches kernels and returns an array or several, or writes to outputs; or a
    `CudaCandidate`.
    reference: a function that returns the right results. It is also called with float64 arrays.
    inputs: a function of a seed, whose results may differ in shape; or a list of arrays and scalars, of which the judge
    permutes elements for other data. Arrays are NumPy's or torch's.
    kind: "triton" runs the candidate with torch tensors in the context of `tilejit.sanitize.triton`.
    arch: the architecture to simulate.
    outputs: with "written", as always for CUDA C++, the candidate gets the outputs after the inputs.
    edges: also judge other extents: each extent of the inputs, or only those listed, decreased and increased by 1, and
    1, if the reference accepts them; equal extents change together.
    layouts: also judge strided and misaligned inputs, except for CUDA C++.
    special: the special values of floats to judge. Leave out "-0.0" if the sign of a zero is unspecified.
    schedules: number of thread orders.
    slack: the error bound as a multiple of the effect of rounding all inputs to `precision`.
    precision: the element type of the computation, by default float32, or float64 for results of that type; it may be
    "tfloat32", in which tensor cores multiply float32.
    allow: names of foreign functions that the candidate may call, such as "torch.aten::mm".
    raises: LaunchError if an option is invalid, or the reference fails for the given inputs.

    Example:
        from tilejit.testing import judge

        @tj.kernel(threads=32)
        def doubled(A: tj.Tensor, B: tj.Tensor) -> None:
            i = tj.cta_id(0) * 32 + tj.thread_id()
            if i < A.shape[0]:
                B[i] = A[i] * 2

        def candidate(x):
            out = np.empty_like(x)
            doubled[-(-x.size // 32)](x, out)
            return out

        assert judge(candidate, lambda x: x * 2, [np.arange(100, dtype=np.float32)])
        verdict = judge(lambda x: x * 2, lambda x: x * 2, [np.arange(100, dtype=np.float32)])
        assert verdict.rules == {"foreign", "idle"}
    """
    for name, chosen, choices, hint in (
        ("special", special, SPECIAL, 'pass some of "nan", "inf" and "-0.0"'),
        ("kind", [kind], ("tilejit", "triton"), 'pass "tilejit" or "triton", and CUDA C++ as a CudaCandidate'),
        ("outputs", [outputs], ("returned", "written"), 'pass "returned" or "written"'),
        ("precision", [precision], (None, *FLOATS), f"pass one of {', '.join(FLOATS)}"),
    ):
        for unknown in set(chosen) - set(choices):
            raise LaunchError(f"{name} has the unknown value {unknown!r}", hint=hint)
    if schedules < 1 or slack < 1:
        raise LaunchError("schedules and slack are at least 1", hint="leave them out for the defaults")
    if isinstance(candidate, CudaCandidate):
        # a kernel gets pointers without strides
        candidate, outputs, layouts = Deferred(partial(candidate.compiled, arch)), "written", False
    source = _Source(reference, inputs)
    try:
        trials, notes = planned(source.draw, source.compute, seed, edges, layouts, special)
    except Exception as error:
        # the reference is the user's code
        hint = "pass inputs that the reference accepts"
        raise LaunchError(f"the reference fails: {error!r}", hint=hint) from error
    with _running(kind, arch, schedules, bans.Ban(bans.codes(reference), allow)) as runner:
        judging = _Judging(candidate, runner, outputs == "written")
        for number, trial in enumerate(trials):
            judging.run(trial, number % schedules)

    @cache
    def right(data: TrialData) -> list[Bounded]:
        return bounded(data.results, lambda wide: source.exactly(wide, data.values), data.values, slack, precision)

    for number, (trial, _) in enumerate(judging.ran):
        judging.compare(number, right(trial.data))
    pairs = zip(right(trials[0].data), right(trials[1].data), strict=False)
    if all(x.native.shape == y.native.shape and not x.wrong(y.native).any() for x, y in pairs):
        judging.refuse("reference", "changed data", "its results for two sets of data agree within the bounds")
    names = tuple(x.name for x in trials)
    return Judgement(tuple(judging.reasons.values()), names, judging.launches, (*notes, *source.notes))


@contextmanager
def _running(kind: str, arch: str, schedules: int, ban: bans.Ban) -> Iterator[Runner]:
    if kind == "triton":
        from ..sanitize import triton
        from ..sanitize.torch_judging import TorchRunner

        with triton(arch.removesuffix("a"), "collect", schedules=schedules) as session:
            yield TorchRunner(session, ban)
    else:
        with use_device(f"sim:{arch}"):
            yield NumpyRunner(ban)


class _Source:
    """The inputs, and the reference as a function of arrays of NumPy. notes: what is not judged."""

    def __init__(self, reference: Callable[..., Any], inputs: Any) -> None:
        self.reference, self.inputs = reference, inputs
        self.notes: dict[str, None] = {}
        #: all results: memory that is freed may be what a candidate returns
        self.kept: list[Any] = []
        #: the module that converts tensors of torch, or None if there are none
        self.torch: Any = None
        if any(type(x).__module__.partition(".")[0] == "torch" for x in (inputs(0) if callable(inputs) else inputs)):
            from ..sanitize import torch_judging

            self.torch = torch_judging

    def draw(self, seed: int) -> list[Any]:
        """Return inputs as arrays of NumPy and scalars."""
        read = np.array if self.torch is None else self.torch.to_numpy
        drawn = self.inputs(seed) if callable(self.inputs) else self.inputs
        values = [read(x) if is_array(x) else x for x in drawn]
        if callable(self.inputs) or not seed:
            return values
        random = np.random.default_rng(seed)
        is_permuted = is_float if any(map(is_float, values)) else lambda x: isinstance(x, np.ndarray)
        return [random.permutation(x.reshape(-1)).reshape(x.shape) if is_permuted(x) else x for x in values]

    def compute(self, values: Sequence[Any]) -> list[Array]:
        """Return the reference's results."""
        self.kept.append(self._called(self.reference, values))
        return [np.array(x) for x in self.kept[-1]]

    def exactly(self, wide: Sequence[Any], values: Sequence[Any]) -> list[Array]:
        """Return the results for `wide`, in float64 if the reference accepts it, or else in the types of `values`."""
        try:
            return widened(self._called(self._wide_reference, wide))
        except Exception as error:
            # the reference is the user's code; it may use arrays of its own that have another type
            self.notes[f"results in float64: the reference fails with {type(error).__name__}"] = None
            narrow = [x.astype(y.dtype) if is_float(y) else x for x, y in zip(wide, values, strict=True)]
            return widened(self._called(self.reference, narrow))

    @cached_property
    def _wide_reference(self) -> Any:
        return self.reference if self.torch is None else self.torch.in_float64(self.reference)

    def _called(self, function: Callable[..., Any], values: Sequence[Any]) -> list[Array]:
        copies = [x.copy() if isinstance(x, np.ndarray) else x for x in values]
        with np.errstate(all="ignore"):
            results = function(*copies) if self.torch is None else self.torch.call(function, copies)
        return [np.asarray(x) for x in _listed(results)]


class _Judging:
    """The candidate's runs, and the reasons so far."""

    def __init__(self, candidate: Callable[..., Any] | Deferred, runner: Runner, is_written: bool) -> None:
        self.candidate, self.runner, self.is_written = candidate, runner, is_written
        self.reasons: dict[str, Reason] = {}
        self.launches = 0
        #: the trials with copies of the results
        self.ran: list[tuple[JudgeTrial, list[Array]]] = []
        #: the arrays of the inputs, by position
        self.buffers: dict[int, Any] = {}
        #: all arrays, so that none is at the address of another one
        self.kept: list[Any] = []

    def refuse(self, rule: str, trial: str, message: str) -> None:
        self.reasons.setdefault(rule, Reason(rule, trial, message))

    def run(self, trial: JudgeTrial, schedule: int) -> None:
        """Run the candidate; refuse it for what it does apart from its results, which `compare` compares."""
        values, runner = trial.data.values, self.runner
        arrays = {i: x for i, x in enumerate(values) if isinstance(x, np.ndarray)}
        if trial.kind != "changed":
            self.buffers = {i: self._array(trial, x, False) for i, x in arrays.items()}
        for i, x in arrays.items():
            runner.write(self.buffers[i], x)
        inputs = [self.buffers.get(i, x) for i, x in enumerate(values)]
        outputs = [self._array(trial, x, True) for x in trial.data.results] if self.is_written else []
        calls = runner.ban.calls
        calls.clear()
        try:
            if isinstance(self.candidate, Deferred):
                self.candidate = self.candidate.make()
            answer, launches = runner.run(self.candidate, [*inputs, *outputs], schedule)
        except (Exception, SystemExit) as error:
            # the candidate is a program's code
            self.refuse(_rule_of_error(error), trial.name, f"{type(error).__name__}: {error}{_place(error)}")
            return
        finally:
            for call in calls:
                self.refuse("foreign", trial.name, call)
        self.launches += len(launches)
        for finding in (x for launch in launches for x in launch.findings if x.level == "error"):
            self.refuse(finding.rule, trial.name, finding.message)
        if not launches:
            self.refuse("idle", trial.name, "no kernel was launched")
        for i, x in arrays.items():
            if runner.read(self.buffers[i]).tobytes() != x.tobytes():
                self.refuse("inputs", trial.name, f"input {i} was changed")
        results = outputs if self.is_written else _listed(answer)
        if not all(map(runner.is_array, results)):
            self.refuse("result", trial.name, f"it returned {type(answer).__name__}, not arrays of numbers")
            return
        self.kept.append(results)
        copies = [runner.read(x) for x in results]
        for result, copy in zip(results, copies, strict=True):
            runner.write(result, bans.filled(copy.shape, copy.dtype, bans.STALE))
        self.ran.append((trial, copies))

    def _array(self, trial: JudgeTrial, like: Array, is_output: bool) -> Any:
        def allocate(shape: tuple[int, ...]) -> Any:
            return self.runner.array(bans.filled(shape, like.dtype, bans.FRESH), is_output)

        self.kept.append(trial.array(like.shape, allocate))
        return self.kept[-1]

    def compare(self, number: int, known: list[Bounded]) -> None:
        """Compare the results of a run with those of the reference."""
        trial, results = self.ran[number]
        shapes, wanted = _described(results), _described([x.native for x in known])
        if shapes != wanted:
            self.refuse("result", trial.name, f"it has {shapes}, expected {wanted}")
            return
        for index, (got, right) in enumerate(zip(results, known, strict=True)):
            wrong = right.wrong(got, signs=trial.name == "inputs with -0.0")
            if wrong.any():
                rule = self._rule_of_result(number, index, right, wrong)
                self.refuse(rule, trial.name, _message(index, got, right, wrong, rule))

    def _rule_of_result(self, number: int, index: int, right: Bounded, wrong: Array) -> str:
        """Return the rule for a wrong result."""
        trial, got = self.ran[number][0], self.ran[number][1][index]
        if (wrong & bans.consists_of(got, bans.STALE)).any():
            return "stale"
        is_fresh = (wrong & bans.consists_of(got, bans.FRESH)).any()
        plain = "unwritten" if is_fresh else "accuracy" if right.is_near(got) else "value"
        # data, shape or layout is the cause only if the first call was right
        if trial.kind in ("first", "repeated") or {"value", "accuracy", "unwritten"} & self.reasons.keys():
            return plain
        earlier = [x for other, x in self.ran[:number] if other.data is not trial.data and index < len(x)]
        if any(np.array_equal(x[index], got) for x in earlier):
            return "cached"
        return plain if trial.kind == "changed" else trial.kind


def _rule_of_error(error: BaseException) -> str:
    from ..simulator.checks.findings import rule_of

    return rule_of(error) if isinstance(error, SimulationError) else "error"


def _place(error: BaseException) -> str:
    """Return the innermost place of an error outside of this package."""
    if isinstance(error, TilejitError):
        return ""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_PACKAGE)]
    return f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


def _message(index: int, got: Array, right: Bounded, wrong: Array, rule: str) -> str:
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    text = f"result {index}{list(at)} is {got[at]!s}, expected {right.exact[at]!s}"
    if is_float(right.native):
        text += f" with an error of at most {right.bound[at]:.3g}"
    text += f"; wrong elements: {int(wrong.sum())} of {got.size}"
    return text + ("; numpy.allclose(rtol=atol=0.01) would accept it" if rule == "accuracy" else "")


def _described(results: Sequence[Array]) -> str:
    return ", ".join([counted(len(results), "result"), *(f"{x.dtype}{list(x.shape)}" for x in results)])


def _listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (tuple, list)) else [results]
