"""What measures the bounds measures every argument, and the greatest error."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from tests.codegen import measure_accuracy
from tests.reference.functions import accuracy


def test_every_float32_is_measured_once() -> None:
    starts, length = measure_accuracy.STRETCHES, measure_accuracy.STRETCHES.step
    assert starts[0] == 0 and starts[-1] + length == 2**32
    first, second = islice(measure_accuracy.every_float32(), 2)
    measured = np.concatenate([first, second]).view(np.uint32)
    np.testing.assert_array_equal(measured, np.arange(2 * length, dtype=np.uint32))


def test_the_greatest_error_is_found_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def off_at_3(name: str, x: np.ndarray) -> np.ndarray:
        return (np.exp(x.astype(np.float64)) * np.where(x == 3, 1 + 2**-18, 1)).astype(x.dtype)

    monkeypatch.setattr(measure_accuracy, "run", off_at_3)
    parts = [np.arange(n, n + 4, dtype=np.float32) for n in (-4, 0, 4)]
    monkeypatch.setattr(measure_accuracy, "every_float32", lambda: iter(parts))
    error, at = measure_accuracy.worst32("exp")
    assert at == (3.0,) and 32 < error < 65


@pytest.mark.parametrize("names", [(), ("add",), ("exp", "colour")])
def test_what_has_no_bound_is_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit, match="functions that have a bound: .*exp"):
        measure_accuracy.main(*names)


def test_each_format_is_printed_with_its_bound(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measure_accuracy, "every_float32", lambda: iter([np.linspace(-80, 80, 9999, dtype=np.float32)]))
    monkeypatch.setattr(measure_accuracy, "COUNT64", 100)
    measure_accuracy.main("exp")
    printed = zip(capsys.readouterr().out.splitlines(), ("float32", "float64"), accuracy("exp").ulp, strict=True)
    for line, dtype, bound in printed:
        assert line.startswith(f"exp {dtype}: ") and line.endswith(f"; the record says {bound:g}")
        assert 0.5 < float(line.split()[2]) <= bound
