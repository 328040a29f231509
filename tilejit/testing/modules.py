"""`judge_modules`: judges sources in the form of KernelBench, with classes `Model` and `ModelNew`."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import LaunchError
from .candidates import Deferred
from .judging import judge
from .verdicts import Judgement, Reason

_numbers = count()
_NEEDS = "define Model, ModelNew, get_inputs and, if Model takes arguments, get_init_inputs"


def judge_modules(
    candidate: str, reference: str | None = None, *, special: Sequence[str] = ("nan", "inf"), seed: int = 0,
    **options: Any,
) -> Judgement:
    """Judge the class `ModelNew` of a source against the class `Model`, which is torch's, on the simulator.

    candidate: source with `ModelNew`, whose kernels are Triton's; without `reference` also with the rest.
    reference: source with `Model`, `get_inputs()` and `get_init_inputs()`. Both models are constructed with the same
    seed, and `ModelNew` gets the weights of `Model` if all names agree. Extents that neither a weight nor an argument
    of the constructor has are changed, too.
    special, seed, options: see `judge`. The signs of zeros aren't compared by default.
    raises: LaunchError if a class or function is missing, or the reference fails.
    """
    from ..sanitize.torch_judging import seeded

    with tempfile.TemporaryDirectory() as folder:
        try:
            made = _imported(candidate, "candidate", folder)
            new = made.ModelNew
        except (Exception, SystemExit) as error:
            # the candidate is a program's code
            return Judgement((Reason("error", "import", f"{type(error).__name__}: {error}"),), (), 0)
        try:
            given = made if reference is None else _imported(reference, "reference", folder)
        except Exception as error:
            # the reference is the user's code
            raise LaunchError(f"the source of the reference fails: {error!r}", hint=_NEEDS) from error
        for name in ("Model", "get_inputs"):
            if not hasattr(given, name):
                raise LaunchError(f"the source of the reference doesn't define {name}", hint=_NEEDS)
        arguments = given.get_init_inputs() if hasattr(given, "get_init_inputs") else []
        model = seeded(seed, given.Model, *arguments)

        weights = model.state_dict()

        def construct() -> Any:
            model_new = seeded(seed, new, *arguments)
            if model_new.state_dict().keys() == weights.keys():
                model_new.load_state_dict(weights)
            return model_new.to("cuda")

        def draw(number: int) -> Any:
            return seeded(number, given.get_inputs)

        # weights and arguments fix the other extents
        fixed = {n for x in weights.values() for n in x.shape} | {n for n in arguments if isinstance(n, int)}
        options.setdefault("edges", {n for x in draw(seed) for n in getattr(x, "shape", ())} - fixed)
        return judge(Deferred(construct), model, draw, kind="triton", special=special, seed=seed, **options)


def _imported(source: str, name: str, folder: str) -> ModuleType:
    """Import a source from a file, as Triton needs it.

    The module remains imported: compiled kernels of Triton, when they are freed, call its driver, which ends with the
    session.
    """
    path = Path(folder, f"{name}.py")
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"judged_{name}_{next(_numbers)}", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
