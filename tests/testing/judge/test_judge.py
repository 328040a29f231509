"""Judgements of kernels: fooled candidates are refused for the right reason, and their honest twins are accepted."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tilejit as tj
from tests.testing.judge import programs
from tests.testing.judge.programs import CASES, Case, reference_square, square
from tilejit.testing import judge

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def drawn(seed: int, case: Case) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(case.shape) * case.scale).astype(np.float32)


def drawing(case: Case) -> Callable[[int], list[np.ndarray]]:
    return lambda seed: [drawn(seed, case)]


@each_case
def test_an_honest_candidate_is_accepted(case: Case) -> None:
    verdict = judge(case.honest, case.reference, drawing(case))
    assert verdict, str(verdict)
    assert verdict.launches >= len(verdict.trials)


@each_case
def test_a_fooled_judgement_is_refused(case: Case) -> None:
    verdict = judge(case.fooled, case.reference, drawing(case))
    assert not verdict and verdict.rules == case.rules, str(verdict)


def test_a_verdict_is_data_and_text() -> None:
    case = next(case for case in CASES if case.name == "tested shape")
    verdict = judge(case.fooled, case.reference, drawing(case), layouts=False, special=())
    data = json.loads(json.dumps(verdict.as_data()))
    assert data["accepted"] is False and len(data["trials"]) == 6 and data["launches"] == 6
    (reason,) = data["reasons"]
    assert reason["rule"] == "shape" and reason["trial"] == "extent 128 changed to 127"
    head, line = str(verdict).splitlines()
    assert head == "refused: 6 trials, 6 launches"
    assert line.startswith("[shape] extent 128 changed to 127: result 0[64] is nan, expected ")


def test_outputs_may_be_arguments() -> None:
    def candidate(x: np.ndarray, out: np.ndarray) -> None:
        programs.squared[programs.grid(x)](x, out)

    inputs = [np.arange(100, dtype=np.float32)]
    assert judge(candidate, reference_square, inputs, outputs="written")
    verdict = judge(lambda x, out: programs.squared[1](x, out), reference_square, inputs, outputs="written")
    assert verdict.rules == {"unwritten"}


def test_lists_are_permuted_and_integers_compared_exactly() -> None:
    assert judge(square, reference_square, [np.arange(100, dtype=np.int32)])
    verdict = judge(square, lambda x: x * x + (x == 7), [np.arange(100, dtype=np.int32)])
    assert verdict.rules == {"value"} and "is 49, expected 50" in str(verdict)


def test_inputs_may_differ_in_shape_and_in_scalars() -> None:
    def draw(seed: int) -> list[np.ndarray]:
        return [np.random.default_rng(seed).random(64 + 36 * seed, np.float32)]

    verdict = judge(programs.square_whole_ctas, reference_square, draw, edges=False, layouts=False, special=())
    (reason,) = verdict.reasons
    assert reason.rule == "shape" and reason.trial == "changed data of another shape"
    assert judge(square, reference_square, draw, edges=False)

    def draw_with_factor(seed: int) -> list[object]:
        return [np.random.default_rng(seed).random(64, np.float32), 1.5 + seed]

    assert judge(programs.scale, lambda x, factor: x * x.dtype.type(factor), draw_with_factor)


def test_scalars_of_numpy_change_with_equal_extents() -> None:
    def reference(x: np.ndarray, n: np.int32) -> np.ndarray:
        assert x.size == n and isinstance(n, np.int32)
        return x * x

    verdict = judge(lambda x, n: square(x), reference, [np.arange(20, dtype=np.float32), np.int32(20)])
    assert verdict and not verdict.notes and "extent 20 changed to 21" in verdict.trials


def test_extents_that_are_not_changed_are_noted() -> None:
    sizes = (13, 17, 19, 23, 29)
    verdict = judge(
        lambda *arrays: square(arrays[0]), lambda *arrays: arrays[0] ** 2,
        [np.arange(n, dtype=np.float32) for n in sizes], special=(), layouts=False,
    )
    assert verdict and len(verdict.trials) == 15 and verdict.notes == ("3 further changes of extents",)


def test_what_the_reference_refuses_is_not_judged() -> None:
    def reference(x: np.ndarray) -> np.ndarray:
        if x.size % 2:
            raise ValueError("odd")
        return x * x

    verdict = judge(programs.square_whole_ctas, reference, [np.arange(128, dtype=np.float32)])
    assert verdict and len(verdict.notes) == 3
    assert verdict.notes[0] == "extent 128 changed to 127: the reference fails with ValueError"
    with pytest.raises(tj.LaunchError, match="the reference fails: ValueError"):
        judge(square, reference, [np.arange(127, dtype=np.float32)])


def test_a_reference_without_influence_of_its_inputs_is_refused() -> None:
    verdict = judge(square, lambda x: x * 0, [np.zeros(100, np.float32)], special=())
    assert verdict.rules == {"reference"}


def test_a_candidate_that_fails_or_returns_something_else_is_refused() -> None:
    def fails(x: np.ndarray) -> np.ndarray:
        square(x)
        raise RuntimeError("no")

    verdict = judge(fails, reference_square, [np.ones(10, np.float32)])
    assert verdict.rules >= {"error"} and "RuntimeError: no at test_judge.py:" in str(verdict)
    wrong = judge(lambda x: (square(x), square(x)), reference_square, [np.arange(10, dtype=np.float32)])
    assert wrong.rules == {"result"} and "2 results" in str(wrong)
    assert judge(lambda x: [square(x), 1.5][1], reference_square, [np.arange(9, dtype=np.float32)]).rules == {"result"}
    objects = judge(lambda x: [square(x), np.empty(9, object)][1], reference_square, [np.arange(9, dtype=np.float32)])
    assert "result" in objects.rules and "not arrays of numbers" in str(objects)
    idle = judge(lambda x: np.zeros_like(x), reference_square, [np.arange(10, dtype=np.float32)])
    assert "idle" in idle.rules


def test_functions_may_be_allowed() -> None:
    def candidate(x: np.ndarray) -> np.ndarray:
        return square(np.abs(x))

    inputs = [np.arange(-50, 50, dtype=np.float32)]
    verdict = judge(candidate, reference_square, inputs)
    assert verdict.rules == {"foreign"} and "it calls numpy.absolute at test_judge.py:" in str(verdict)
    assert judge(candidate, reference_square, inputs, allow=("numpy.absolute",))


def squared_items(x: np.ndarray) -> np.ndarray:
    out = np.empty_like(x)
    for i in range(x.size):
        out[i] = float(x[i]) ** 2
    return out


def squared_copy(x: np.ndarray) -> np.ndarray:
    copied = np.zeros(x.shape, x.dtype)
    copied[:] = x
    return copied * copied


def squared_in_a_thread(x: np.ndarray) -> np.ndarray:
    results: list[np.ndarray] = []
    thread = threading.Thread(target=lambda: results.append(np.square(x)))
    thread.start()
    thread.join()
    return results[0]


def square_of(values: list[float]) -> np.ndarray:
    out = np.zeros(len(values), np.float32)
    out[:] = [x * x for x in values]
    return out


WAYS = {
    "a ufunc": lambda x: np.multiply(x, x),
    "a ufunc's out": lambda x: np.multiply(x, x, out=np.empty_like(x)),
    "an operator": lambda x: x * x,
    "a function": lambda x: np.einsum("i,i->i", x, x),
    "a list": lambda x: np.array([v * v for v in x.tolist()], np.float32),
    "items": squared_items,
    "bytes": lambda x: np.frombuffer(x.tobytes(), np.float32) ** 2,
    "a view of NumPy's class": lambda x: x.view(np.ndarray) ** 2,
    "a copy": squared_copy,
    "a contiguous copy": lambda x: np.ascontiguousarray(x) ** 2,
    "the base": lambda x: square(x) if x.base is None else (x.base**2)[: x.size].reshape(x.shape),
    "a thread": squared_in_a_thread,
    "an iterator": lambda x: square_of(list(x.flat)),
    "a buffer": lambda x: square_of(x.data.cast("B").cast("f").tolist()),
}


@pytest.mark.parametrize("way", WAYS)
def test_ways_to_compute_with_numpy_are_found(way: str) -> None:
    def candidate(x: np.ndarray) -> np.ndarray:
        square(x)
        return WAYS[way](x)

    verdict = judge(candidate, reference_square, [np.arange(20, dtype=np.float32)], special=())
    assert "foreign" in verdict.rules, str(verdict)


def test_a_candidate_may_allocate_copy_and_compute_sizes() -> None:
    def candidate(x: np.ndarray) -> np.ndarray:
        count = int(np.prod(x.shape))
        flat = np.ascontiguousarray(x).reshape(count)
        out = np.zeros(x.shape, x.dtype)
        programs.squared[tj.cdiv(count, programs.THREADS)](flat, out.reshape(-1))
        return out.copy()

    verdict = judge(candidate, reference_square, [np.linspace(-1, 1, 60, dtype=np.float32).reshape(3, 20)])
    assert verdict, str(verdict)


def test_a_candidate_that_disables_the_observation_is_refused() -> None:
    def candidate(x: np.ndarray) -> np.ndarray:
        sys.setprofile(None)
        return square(x)

    assert judge(candidate, reference_square, [np.arange(9, dtype=np.float32)]).rules == {"foreign"}


@pytest.mark.parametrize(
    "option",
    [
        {"special": ("big",)}, {"kind": "cuda"}, {"outputs": "both"}, {"precision": "tf32"}, {"schedules": 0},
        {"slack": 0.5},
    ],
)
def test_invalid_options_are_refused(option: dict[str, object]) -> None:
    with pytest.raises(tj.LaunchError, match=next(iter(option))):
        judge(square, reference_square, [np.ones(3, np.float32)], **option)


def test_a_reference_may_refuse_float64() -> None:
    def reference(x: np.ndarray) -> np.ndarray:
        if x.dtype != np.float32:
            raise TypeError("float32 only")
        return x * x

    inputs = [np.linspace(-1, 1, 128, dtype=np.float32)]
    verdict = judge(square, reference, inputs)
    assert verdict and verdict.notes == ("results in float64: the reference fails with TypeError",)
    verdict = judge(lambda x: square(x * np.float32(1 + 1e-4)), reference, inputs, allow=("multiply",), special=())
    assert verdict.rules == {"accuracy"}


def test_a_candidate_that_exits_is_refused() -> None:
    (reason,) = judge(lambda x: sys.exit(0), reference_square, [np.ones(4, np.float32)], edges=False).reasons[:1]
    assert reason.rule == "error" and reason.message.startswith("SystemExit: 0")


def test_a_candidate_that_protects_its_input_is_refused() -> None:
    def candidate(x: np.ndarray) -> np.ndarray:
        x.flags.writeable = False
        return square(x)

    assert "inputs" in judge(candidate, reference_square, [np.arange(9, dtype=np.float32)]).rules


def test_an_error_has_a_place_in_a_folder_of_any_name(tmp_path: Path) -> None:
    path = tmp_path / "tilejit" / "program.py"
    path.parent.mkdir()
    path.write_text("def fails(x):\n    raise RuntimeError('no')\n")
    namespace: dict[str, Callable[..., np.ndarray]] = {}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    verdict = judge(namespace["fails"], reference_square, [np.arange(9, dtype=np.float32)])
    assert "RuntimeError: no at program.py:2" in str(verdict)
