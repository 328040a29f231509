"""`judge_modules`: judges sources in the form of KernelBench, with classes `Model` and `ModelNew`."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import LaunchError
from .candidates import PreparedCandidate
from .judging import judge
from .verdicts import Judgement, Reason

#: imported sources: compiled kernels of Triton, when they are freed, call its driver, which ends with the session
_kept: list[ModuleType] = []
_NEEDS = "define Model, ModelNew, get_inputs and, if Model takes arguments, get_init_inputs"


class ModuleCandidate(PreparedCandidate):
    """A `ModelNew` with the weights of a `Model`, constructed on the simulated GPU."""

    def __init__(self, make: Callable[[], Any], reference: Any) -> None:
        self.make, self.reference = make, reference
        self.model: Any = None

    def prepare(self) -> None:
        if self.model is not None:
            return
        model = self.make()
        weights = self.reference.state_dict()
        if model.state_dict().keys() == weights.keys():
            model.load_state_dict(weights)
        self.model = model.to("cuda")

    def __call__(self, *args: Any) -> Any:
        return self.model(*args)


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
    with tempfile.TemporaryDirectory() as folder:
        try:
            made = _imported(candidate, "candidate", folder)
        except Exception as error:
            # the candidate is a program's code
            return Judgement((Reason("error", "import", f"{type(error).__name__}: {error}"),), (), 0)
        given = made if reference is None else _imported(reference, "reference", folder)
        new = getattr(made, "ModelNew", None)
        if new is None:
            return Judgement((Reason("error", "import", "the source doesn't define ModelNew"),), (), 0)
        for name in ("Model", "get_inputs"):
            if not hasattr(given, name):
                raise LaunchError(f"the source of the reference doesn't define {name}", hint=_NEEDS)
        from ..sanitize.torch_judging import seed_torch

        arguments = given.get_init_inputs() if hasattr(given, "get_init_inputs") else []

        def seeded(number: int, function: Callable[..., Any], *args: Any) -> Any:
            seed_torch(number)
            return function(*args)

        def draw(number: int) -> list[Any]:
            return list(seeded(number, given.get_inputs))

        model = seeded(seed, given.Model, *arguments)
        # weights and arguments fix the other extents
        fixed = {n for x in model.state_dict().values() for n in x.shape} | {n for n in arguments if isinstance(n, int)}
        inputs = [x for x in draw(seed) if hasattr(x, "shape")]
        options.setdefault("edges", {n for x in inputs for n in x.shape} - fixed)
        prepared = ModuleCandidate(lambda: seeded(seed, new, *arguments), model)
        return judge(prepared, model, draw, kind="triton", special=special, seed=seed, **options)


def _imported(source: str, name: str, folder: str) -> ModuleType:
    """Import a source from a file, as Triton needs it."""
    path = Path(folder, f"{name}.py")
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    _kept.append(module)
    spec.loader.exec_module(module)
    return module
