"""The verdict of `judge`: accepted or refused, with reasons as data and as text."""

from __future__ import annotations

from ..dataclass import dataclass

#: rule of a reason -> its meaning
RULES = {
    "value": "a result is wrong",
    "accuracy": "a result's error exceeds the bound, although a comparison with loose tolerances would accept it",
    "unwritten": "an element of a result was not written",
    "stale": "a result depends on an earlier call with equal data",
    "cached": "a result is that of an earlier call with other data",
    "shape": "a result is wrong for another shape",
    "special": "a result is wrong for NaN, an infinity or -0.0",
    "layout": "a result is wrong for a strided or misaligned array",
    "inputs": "the candidate changed an input",
    "foreign": "the candidate calls the reference, or another library's function that computes",
    "idle": "the candidate launched no kernel",
    "result": "the results have another number, shape or element type than those of the reference",
    "error": "the candidate raised an error",
    "reference": "the reference has the same result for other data, so that a constant would be accepted",
}


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a candidate is refused.

    rule: a key of `tilejit.testing.verdicts.RULES`, or the rule of a finding of the simulator, such as "race".
    trial: the run that showed it. message: the numbers and the place.
    """

    rule: str
    trial: str
    message: str

    def __str__(self) -> str:
        return f"[{self.rule}] {self.trial}: {self.message}"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result of `judge`. It is true if the candidate is accepted.

    reasons: why it is refused; empty if it is accepted. trials: the runs. launches: number of launches of kernels.
    notes: what was not judged, and why.
    """

    reasons: tuple[Reason, ...]
    trials: tuple[str, ...]
    launches: int
    notes: tuple[str, ...] = ()

    @property
    def is_accepted(self) -> bool:
        return not self.reasons

    @property
    def rules(self) -> frozenset[str]:
        """The rules of the reasons."""
        return frozenset(reason.rule for reason in self.reasons)

    def __bool__(self) -> bool:
        return self.is_accepted

    def __str__(self) -> str:
        counts = f"{len(self.trials)} trials, {self.launches} launches"
        head = f"accepted: {counts}" if self.is_accepted else f"refused: {counts}"
        return "\n".join([head, *map(str, self.reasons), *(f"not judged: {note}" for note in self.notes)])

    def as_data(self) -> dict[str, object]:
        """Return the verdict as values for JSON."""
        return {
            "accepted": self.is_accepted,
            "reasons": [{"rule": x.rule, "trial": x.trial, "message": x.message} for x in self.reasons],
            "trials": list(self.trials), "launches": self.launches, "notes": list(self.notes),
        }
