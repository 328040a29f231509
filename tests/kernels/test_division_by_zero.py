"""Integers divided by zero: scalars are an error of checked builds, tiles give 0, and so does all without checks."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tilejit as tj
from tests.support.marked import default_arguments, kernel_text, points_at, refused
from tests.support.programs import source_of

PARAMETERS = "O, m: tj.int32, n: tj.int32, d: tj.uint8"

# statements, with the place of the error between « and », and the words; n and d are 0, m is 7
DIVIDED = [
    ("O[0] = «m // n»", "7 // 0"),
    ("O[0] = 1 + «m % n» * 2", "7 % 0"),
    ("O[0] = «-m // n»", "-7 // 0"),
    ("O[0] = «m // d»", "7 // 0"),
    ("O[0] = tj.int64(«m // n»)", "7 // 0"),
    ("x = «m // n»\n    if n != 0:\n        O[0] = x", "7 // 0"),
    ("O[«m // n»] = 1", "7 // 0"),
    ("O[0] = O[«m // n»]", "7 // 0"),
    ("O[0] = O[O[«m // n» + 1]] + 1", "7 // 0"),
    ("O[0] = «m // O[3]»", "7 // 0"),
    ("for i in range(«m // n»):\n        O[0] = 1", "7 // 0"),
    ("if «m % n» == 0:\n        O[0] = 1", "7 % 0"),
    ("O[0] = n // 5 if m == 0 else «m // n»", "7 // 0"),
    ("O[0] = 1 if m > 0 and «m // n» > 2 else 3", "7 // 0"),
    ("x = m\n    x //= n\n    O[0] = x", "7 // 0"),
]

GUARDED = [
    "O[0] = m // n if n != 0 else 5",
    "O[0] = 5 if n == 0 else m % n",
    "O[0] = 3 if n != 0 and m // n > 2 else 5",
    "O[0] = 5 if n == 0 or m // n > 2 else 3",
    "O[0] = 5\n    if n != 0:\n        O[0] = m // n",
    "O[0] = 5\n    if n > 0:\n        O[0] = m % (n + 1)",
    "O[0] = 5 + m // 8 + (m // 3) // 8",
]


def compiled(statement: str, **options: object) -> tj.Kernel:
    text = f"def k({PARAMETERS}):\n    {statement.replace('«', '').replace('»', '')}\n"
    return tj.kernel(threads=1, **options)(source_of(text))  # type: ignore[arg-type]


@pytest.mark.parametrize(("statement", "words"), DIVIDED, ids=[s for s, _ in DIVIDED])
def test_a_scalar_divided_by_zero_is_found_at_its_location(statement: str, words: str) -> None:
    k, out = compiled(statement), np.zeros(8, np.int32)
    with tj.use_device("sim"), pytest.raises(ZeroDivisionError, match=f"integer division by zero: {words}") as found:
        k[1](out, 7, 0, np.uint8(0))
    assert isinstance(found.value, tj.SimulationError)
    if "«" in statement:
        marked = statement[statement.index("«") + 1 : statement.index("»")]
        lines = str(found.value).splitlines()
        source, carets = next((a, b) for a, b in zip(lines, lines[1:], strict=False) if "^" in b)
        assert source[carets.index("^") : carets.rindex("^") + 1] == marked


@pytest.mark.parametrize("expression", ["n // 0", "n % 0", "d // False"])
def test_a_divisor_that_is_zero_is_refused(expression: str) -> None:
    error, marked = refused(kernel_text(f"d = tj.uint8(n)\nx = «{expression}»"), default_arguments())
    assert isinstance(error, tj.KernelTypeError) and error.message == "integer division by zero"
    points_at(error, marked)


@pytest.mark.parametrize("statement", GUARDED)
def test_what_isnt_computed_is_not_examined(statement: str) -> None:
    k, out = compiled(statement), np.zeros(8, np.int32)
    with tj.use_device("sim"):
        k[1](out, 7, 0, np.uint8(0))
    assert out[0] == 5


def test_a_place_that_divides_compiles_without_a_warning() -> None:
    moved = "x = tj.warp.load(A[8 // n : 8 // n + 4])\n    tj.warp.store(A[8 % n : 8 % n + 4], x + 1)"
    text = f"def k(A, n):\n    {moved}\n"
    k, a = tj.kernel(threads=32)(source_of(text)), np.arange(8, dtype=np.float32)
    with warnings.catch_warnings(), tj.use_device("sim"):
        warnings.simplefilter("error")
        k[1](a, 2)
    np.testing.assert_array_equal(a, [5, 6, 7, 8, 4, 5, 6, 7])


def test_without_checks_the_result_is_zero() -> None:
    out = np.full(8, -1, np.int32)
    k = compiled("O[0] = m // n\n    O[1] = m % n\n    O[2] = 10 ** (n - 1)\n    O[3] = (n - 1) ** (n - 3)")
    tj.simulate(k, 1, out, 7, 0, np.uint8(0), checks=False)
    assert out[:4].tolist() == [0, 0, 0, -1]


@tj.kernel(threads=32)
def of_tiles(X: tj.Tensor, Y: tj.Tensor, O: tj.Tensor):  # noqa: E741
    x, y = tj.cta.load(X[0:8]), tj.cta.load(Y[0:8])
    tj.cta.store(O[0, 0:8], x // y)
    tj.cta.store(O[1, 0:8], tj.where(y != 0, x % y, -1))


def test_tiles_are_numpys() -> None:
    x, y, out = np.arange(8, dtype=np.int32), np.arange(8, dtype=np.int32) % 3, np.zeros((2, 8), np.int32)
    with tj.use_device("sim"):
        of_tiles[1](x, y, out)
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(out, [x // y, np.where(y != 0, x % y, -1)])


def test_divisors_that_are_known_not_to_be_zero_are_not_examined() -> None:
    k = compiled("O[0] = m // 8 + m % (tj.thread_id() + 1)\n    if n > 0:\n        O[1] = m // n", debug=True)
    made = k.compile(tj.spec((8,), tj.int32), 1, 1, np.uint8(1), target="sm_90a")
    assert "division by zero" not in str(made.lane_ir)
