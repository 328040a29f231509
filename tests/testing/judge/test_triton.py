"""Judgements of Triton's kernels, in the integration tier: fooled ones are refused, honest ones accepted."""

from __future__ import annotations

import pytest

from tests.testing.judge import modules
from tilejit.errors import LaunchError
from tilejit.testing import judge, judge_modules

pytestmark = pytest.mark.integration

torch = pytest.importorskip("torch", reason="torch isn't installed")
pytest.importorskip("triton", reason="Triton isn't installed")

from tests.testing.judge.test_judge import drawn  # noqa: E402
from tests.testing.judge.triton_programs import CASES, reference_square, square  # noqa: E402

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def drawing(case):
    return lambda seed: [torch.from_numpy(drawn(seed, case))]


@each_case
def test_an_honest_candidate_is_accepted(case):
    verdict = judge(case.honest, case.reference, drawing(case), kind="triton")
    assert verdict, str(verdict)
    assert verdict.launches >= len(verdict.trials)


@each_case
def test_a_fooled_judgement_is_refused(case):
    verdict = judge(case.fooled, case.reference, drawing(case), kind="triton")
    assert not verdict and verdict.rules == case.rules, str(verdict)


def test_sources_of_modules_are_judged():
    verdict = judge_modules(modules.HONEST, modules.REFERENCE)
    assert verdict, str(verdict)
    # the weights have 100 elements
    changed = [f"extent 4 changed to {n}" for n in (3, 5, 1)]
    assert [name for name in verdict.trials if "extent" in name] == changed
    assert judge_modules(modules.ONLY_TESTED, modules.REFERENCE, layouts=False).rules == {"bounds", "shape"}
    verdict = judge_modules(modules.REFERENCE + modules.BY_TORCH)
    assert verdict.rules == {"foreign"} and "torch.aten::mul at candidate.py:" in str(verdict)
    assert judge_modules("import torch", modules.REFERENCE).rules == {"error"}
    assert judge_modules("class", modules.REFERENCE).rules == {"error"}
    assert judge_modules("import sys; sys.exit(0)", modules.REFERENCE).rules == {"error"}
    with pytest.raises(LaunchError, match="doesn't define get_inputs"):
        judge_modules(modules.HONEST, "class Model: pass")
    with pytest.raises(LaunchError, match="the source of the reference fails: SyntaxError"):
        judge_modules(modules.HONEST, "class")


def test_sources_may_define_dataclasses():
    source = modules.WITH_A_DATACLASS
    verdict = judge_modules(source, modules.REFERENCE, edges=False, special=(), layouts=False)
    assert verdict, str(verdict)


def test_sparse_results_are_refused():
    verdict = judge(lambda x: square(x).to_sparse(), reference_square, drawing(CASES[0]), kind="triton", edges=False)
    assert "result" in verdict.rules


def test_results_may_be_expanded():
    def reference(x):
        return (x[:1] ** 2).expand(x.shape)

    verdict = judge(lambda x: square(x[:1]).expand(x.shape), reference, drawing(CASES[0]), kind="triton")
    assert verdict, str(verdict)


def test_bfloat16_is_judged_by_the_rounding_of_its_results():
    pytest.importorskip("ml_dtypes", reason="NumPy has no bfloat16")

    def draw(seed):
        return [x.bfloat16() for x in drawing(CASES[0])(seed)]

    assert judge(square, reference_square, draw, kind="triton")
    verdict = judge(lambda x: square(x * 1.01), reference_square, draw, kind="triton", allow=("aten::mul",))
    assert verdict.rules == {"value", "accuracy"}, str(verdict)
