"""`judge`, which accepts or refuses a kernel that a program has written."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import CodeType
from typing import Any, Literal

import numpy as np

from ..dataclass import dataclass
from ..errors import LaunchError, SimulationError, TilejitError
from ..wording import counted
from .bans import POISON, Ban
from .bounds import Array, Bounded, bounded, is_float
from .candidates import CudaCandidate, CudaRunner, NumpyRunner, PreparedCandidate, Ran, Runner
from .trials import JudgeTrial, planned
from .verdicts import Judgement, Reason

Kind = Literal["tilejit", "triton"]
Outputs = Literal["returned", "written"]
#: trials that have run, with the candidate's results
Results = list[tuple[JudgeTrial, list[Array]]]


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """See the parameters of `judge`."""

    outputs: Outputs
    edges: bool | Collection[int]
    layouts: bool
    special: Sequence[str]
    schedules: int
    slack: float
    precision: str | None
    allow: Collection[str]
    variants: int
    seed: int


def judge(
    candidate: Callable[..., Any] | CudaCandidate,
    reference: Callable[..., Any],
    inputs: Callable[..., Sequence[Any]] | Sequence[Any],
    *,
    kind: Kind = "tilejit",
    arch: str = "sm_90a",
    outputs: Outputs = "returned",
    variants: int = 1,
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
    thread orders. The candidate runs before the reference, on buffers that contain NaNs. Nothing is timed.

    candidate: a function of arrays that launches kernels and returns an array or several, or writes to outputs; or a
    `CudaCandidate`.
    reference: a function that returns the right results. It is also called with float64 arrays.
    inputs: a function of a seed and, if it has two parameters, of the number of a shape variant; or a list of arrays
    and scalars, of which the judge permutes elements for other data. Arrays are NumPy's or torch's.
    kind: "triton" runs the candidate with torch tensors in the context of `tilejit.sanitize.triton`.
    arch: the architecture to simulate.
    outputs: with "written", the candidate gets the outputs after the inputs.
    variants: number of shape variants that `inputs` has.
    edges: also judge other extents: each extent of the inputs, or only those listed, decreased and increased by 1, and
    1, if the reference accepts them; equal extents change together.
    layouts: also judge strided and misaligned inputs.
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
    chosen = JudgeOptions(
        outputs, edges, layouts, tuple(special), schedules, slack, precision, allow, variants, seed
    )
    _check(chosen, kind)
    return _Judging(candidate, reference, inputs, chosen, _runner(candidate, kind, arch, schedules)).verdict()


def _check(options: JudgeOptions, kind: str) -> None:
    unknown = set(options.special) - {"nan", "inf", "-0.0"}
    if unknown:
        raise LaunchError(f"special has {sorted(unknown)}", hint='pass some of "nan", "inf" and "-0.0"')
    if kind not in ("tilejit", "triton"):
        raise LaunchError(f"kind is {kind!r}", hint='pass "tilejit" or "triton", and CUDA C++ as a CudaCandidate')
    if options.outputs not in ("returned", "written"):
        raise LaunchError(f"outputs is {options.outputs!r}", hint='pass "returned" or "written"')
    if options.schedules < 1 or options.variants < 1 or options.slack < 1:
        raise LaunchError("schedules, variants and slack are at least 1", hint="leave them out for the defaults")


def _runner(candidate: object, kind: Kind, arch: str, schedules: int) -> Runner:
    if isinstance(candidate, CudaCandidate):
        return CudaRunner()
    if kind == "triton":
        from ..sanitize import triton
        from ..sanitize.torch_judging import TorchRunner

        return TorchRunner(triton(arch.removesuffix("a"), "collect", schedules=schedules))
    return NumpyRunner(f"sim:{arch}")


def codes(function: Any) -> frozenset[CodeType]:
    """Return the code that a call of a reference runs: of a function, a method, or a module of torch."""
    named = (getattr(function, name, None) for name in ("__func__", "__wrapped__", "forward", "func"))
    own = vars(type(function)).get("__call__")
    is_shared = str(getattr(own, "__module__", "")).startswith("torch.")
    found = [function, *named, *([] if is_shared else [own])]
    return frozenset(x.__code__ for x in found if isinstance(getattr(x, "__code__", None), CodeType))


class _Judging:
    """One run of `judge`."""

    def __init__(self, candidate: Any, reference: Any, inputs: Any, options: JudgeOptions, runner: Runner) -> None:
        self.candidate, self.reference, self.options, self.runner = candidate, reference, options, runner
        self.reasons: dict[str, Reason] = {}
        self.notes: dict[str, None] = {}
        self.launches = 0
        self.ban = Ban(codes(reference), options.allow)
        self.torch = _torch_of(inputs(*([0] * _arity(inputs))) if callable(inputs) else inputs)
        self.draw = self._drawing(inputs)
        #: everything that was computed: freed memory may hold no right result
        self.kept: list[Any] = []
        #: the addresses of all results, and the trials whose results are at such an address
        self.addresses: set[int] = set()
        self.reusing: set[str] = set()

    def _drawing(self, inputs: Any) -> Callable[[int, int], list[Any]]:
        """Return a function of seed and variant that returns the inputs as arrays of NumPy and scalars."""
        read = self.torch.to_numpy if self.torch is not None else np.array
        if callable(inputs):
            arity = _arity(inputs)
            return lambda seed, variant: _read(inputs(*(seed, variant)[:arity]), read)
        given = _read(inputs, read)
        return lambda seed, variant: _permuted(given, seed)

    def compute(self, values: Sequence[Any]) -> list[Array]:
        """Return the reference's results for copies of the inputs."""
        copies = [x.copy() if isinstance(x, np.ndarray) else x for x in values]
        with np.errstate(all="ignore"):
            if self.torch is not None:
                results = self.torch.call(self.reference, copies)
            else:
                answer = self.reference(*copies)
                results = [np.asarray(x) for x in (answer if isinstance(answer, (tuple, list)) else [answer])]
        self.kept.append(results)
        return [np.array(x) for x in results]

    def bounds(self, values: Sequence[Any]) -> list[Bounded]:
        """Return the reference's results with their bounds, computed in float64 if the reference accepts it."""

        def exactly(wide: Sequence[Any]) -> list[Array]:
            try:
                with self.torch.double(self.reference) if self.torch is not None else nullcontext():
                    return self.compute(wide)
            except Exception as error:
                # the reference is the user's code; it may use arrays of its own that have another type
                self.notes.setdefault(f"results in float64: the reference fails with {type(error).__name__}")
                pairs = zip(wide, values, strict=True)
                return self.compute([x.astype(y.dtype) if is_float(y) else x for x, y in pairs])

        return bounded(self.compute, exactly, values, self.options.slack, self.options.precision)

    def verdict(self) -> Judgement:
        try:
            trials = planned(self.draw, self.options, self.compute)
        except Exception as error:
            # the reference is the user's code
            hint = "pass inputs that the reference accepts"
            raise LaunchError(f"the reference fails: {error!r}", hint=hint) from error
        self.notes.update(dict.fromkeys(trials.notes))
        ran: list[tuple[JudgeTrial, list[Array] | None]] = []
        buffers: list[Any] = []
        with self.runner.session():
            for number, trial in enumerate(trials.trials):
                if not trial.reuses:
                    buffers = [self._array(x, trial) for x in trial.values]
                ran.append((trial, self._run(trial, buffers, number)))
        bounds: dict[int, list[Bounded]] = {}
        earlier: Results = []
        for trial, results in ran:
            known = bounds.get(id(trial.values))
            if known is None:
                known = bounds[id(trial.values)] = self.bounds(trial.values)
            if results is not None:
                self._compare(trial, results, known, earlier)
                earlier.append((trial, results))
        self._check_reference([bounds[id(t.values)] for t in trials.trials if t.kind in ("first", "changed")])
        names = tuple(t.name for t in trials.trials)
        return Judgement(tuple(self.reasons.values()), names, self.launches, tuple(self.notes))

    def _array(self, value: Any, trial: JudgeTrial) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        array = self.runner.array(*trial.room(value))
        self.kept.append(array)
        return array

    def _refuse(self, rule: str, trial: JudgeTrial, message: str) -> None:
        self.reasons.setdefault(rule, Reason(rule, trial.name, message))

    def _run(self, trial: JudgeTrial, buffers: list[Any], number: int) -> list[Array] | None:
        """Run the candidate; note what it does apart from its results, which are returned as copies."""
        for buffer, value in zip(buffers, trial.values, strict=True):
            if isinstance(value, np.ndarray):
                self.runner.write(buffer, value)
        outputs = self._outputs(trial)
        self.ban.calls.clear()
        try:
            if isinstance(self.candidate, PreparedCandidate):
                self.candidate.prepare()
            ran = self.runner.run(self.candidate, [*buffers, *outputs], self.ban, number % self.options.schedules)
        except (Exception, SystemExit) as error:
            # the candidate is a program's code
            self._refuse(_rule(error), trial, f"{type(error).__name__}: {error}{_place(error)}")
            return None
        finally:
            for call in self.ban.calls:
                self._refuse("foreign", trial, call)
        self._note_run(trial, ran, buffers)
        results = outputs if self.options.outputs == "written" else _listed(ran.results)
        if not all(map(self.runner.is_array, results)):
            self._refuse("result", trial, f"it returned {type(ran.results).__name__}, not arrays")
            return None
        self.kept.append(results)
        addresses = {self.runner.address(x) for x in results if x.shape}
        if addresses & self.addresses:
            self.reusing.add(trial.name)
        self.addresses |= addresses
        copies = [self.runner.read(x) for x in results]
        for result in results:
            self.runner.poison(result)
        return copies

    def _outputs(self, trial: JudgeTrial) -> list[Any]:
        if self.options.outputs == "returned":
            return []
        made = []
        for result in self.compute(trial.values):
            array = self._array(np.full(result.shape, 0, result.dtype), trial)
            self.runner.poison(array)
            if hasattr(array, "is_output"):
                array.is_output = True
            made.append(array)
        return made

    def _note_run(self, trial: JudgeTrial, ran: Ran, buffers: list[Any]) -> None:
        self.launches += ran.launches
        for finding in ran.findings:
            if finding.level == "error":
                self._refuse(finding.rule, trial, finding.message)
        if not ran.launches:
            self._refuse("idle", trial, "no kernel was launched")
        for index, (buffer, value) in enumerate(zip(buffers, trial.values, strict=True)):
            if isinstance(value, np.ndarray) and self.runner.read(buffer).tobytes() != value.tobytes():
                self._refuse("inputs", trial, f"input {index} was changed")

    def _compare(self, trial: JudgeTrial, results: list[Array], known: list[Bounded], earlier: Results) -> None:
        shapes = [(x.shape, x.dtype) for x in results]
        wanted = [(x.native.shape, x.native.dtype) for x in known]
        if shapes != wanted:
            self._refuse("result", trial, f"it has {_described(shapes)}, expected {_described(wanted)}")
            return
        for index, (got, right) in enumerate(zip(results, known, strict=True)):
            wrong = right.wrong(got, signs=trial.kind == "special" and "-0.0" in trial.name)
            if wrong.any():
                is_poison = bool((wrong & _poisoned(got)).any())
                if is_poison and trial.name in self.reusing:
                    rule = "stale"
                else:
                    # of data, shapes and layouts is the fault only if the first call was right
                    is_wrong = bool({"value", "accuracy", "unwritten"} & self.reasons.keys())
                    rule = _rule_of_values(trial, index, got, right, is_poison, is_wrong, earlier)
                self._refuse(rule, trial, _message(index, got, right, wrong, rule))

    def _check_reference(self, both: list[list[Bounded]]) -> None:
        first, changed = both[:2]
        if not any(x.wrong(y.native).any() for x, y in zip(first, changed, strict=True)):
            message = "its results for two sets of data agree within the bounds"
            self.reasons.setdefault("reference", Reason("reference", "changed data", message))


def _rule(error: BaseException) -> str:
    from ..simulator.checks.findings import rule_of

    return rule_of(error) if isinstance(error, SimulationError) else "error"


def _place(error: BaseException) -> str:
    """Return the innermost place of an error outside of this package."""
    if isinstance(error, TilejitError):
        return ""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "tilejit" not in Path(f.filename).parts]
    return f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


def _poisoned(array: Array) -> Array:
    """Return a mask of the elements that consist of bytes of fresh buffers."""
    parts = np.ascontiguousarray(array).reshape(-1, 1).view(np.uint8)
    return np.asarray((parts == POISON).all(1).reshape(array.shape))


def _rule_of_values(
    trial: JudgeTrial, index: int, got: Array, right: Bounded, is_poison: bool, is_wrong: bool, earlier: Results
) -> str:
    """Return the rule for a wrong result. is_wrong: if an earlier trial had one, so that this trial isn't the cause."""
    plain = "unwritten" if is_poison else "accuracy" if right.is_near(got) else "value"
    if is_wrong or trial.kind in ("first", "repeated"):
        return plain
    for other, results in earlier:
        same = index < len(results) and other.values is not trial.values
        if same and np.array_equal(results[index].astype(np.float64), got.astype(np.float64)):
            return "cached"
    return plain if trial.kind == "changed" else trial.kind


def _message(index: int, got: Array, right: Bounded, wrong: Array, rule: str) -> str:
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    text = f"result {index}{list(at)} is {got[at]!s}, expected {right.exact[at]!s}"
    if is_float(right.native):
        text += f" with an error of at most {right.bound[at]:.3g}"
    text += f"; wrong elements: {int(wrong.sum())} of {got.size}"
    return text + ("; numpy.allclose(rtol=atol=0.01) would accept it" if rule == "accuracy" else "")


def _described(shapes: Sequence[tuple[tuple[int, ...], Any]]) -> str:
    listed = ", ".join(f"{dtype}{list(shape)}" for shape, dtype in shapes)
    return f"{counted(len(shapes), 'result')}, {listed}" if shapes else "no results"


def _listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (tuple, list)) else [results]


def _arity(inputs: Callable[..., Any]) -> int:
    return min(len(inspect.signature(inputs).parameters), 2)


def _torch_of(values: Sequence[Any]) -> Any:
    """Return the module that converts tensors of torch, or None if there are none."""
    if any(type(x).__module__.partition(".")[0] == "torch" for x in values):
        from ..sanitize import torch_judging

        return torch_judging
    return None


def _read(values: Sequence[Any], read: Callable[[Any], Array]) -> list[Any]:
    return [read(x) if hasattr(x, "dtype") and getattr(x, "shape", ()) != () else x for x in values]


def _permuted(values: Sequence[Any], seed: int) -> list[Any]:
    """Return the values; for another seed than 0, floats are permuted, or all arrays if there are no floats."""
    random = np.random.default_rng(seed)
    some = any(map(is_float, values))
    if not seed:
        return [x.copy() if isinstance(x, np.ndarray) else x for x in values]
    return [
        random.permutation(x.reshape(-1)).reshape(x.shape) if isinstance(x, np.ndarray) and (is_float(x) or not some)
        else x.copy() if isinstance(x, np.ndarray) else x
        for x in values
    ]
