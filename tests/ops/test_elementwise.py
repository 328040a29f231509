"""The table of elementwise operations: type rules, and references against plain formulas at special values."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilejit.dtypes import (
    DTYPES,
    DType,
    bfloat16,
    bool_,
    float8_e5m2,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    uint8,
    uint32,
)
from tilejit.ops.elementwise import ELEMENTWISE, RULES, reference, result_type

INF, NAN = math.inf, math.nan
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 1e-30, 1e30, -1e30, 1e-45, 88.7, -103.0, INF, -INF, NAN)

#: what each exact function of one float is, in float64, as anybody would write it
PLAIN: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sqrt": np.sqrt,
    "relu": lambda x: np.where(np.isnan(x), x, np.where(x > 0, x, 0.0)),
    "reciprocal": lambda x: 1 / x,
    "neg": lambda x: -x,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "trunc": np.trunc,
    "sign": lambda x: np.where(np.isnan(x), x, np.where(x > 0, 1.0, np.where(x < 0, -1.0, 0.0))),
}


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("dtype", [float32, float64, float16, bfloat16])
def test_exact_functions_of_floats_are_their_plain_formulas(name: str, dtype: DType) -> None:
    with np.errstate(all="ignore"):
        x = np.asarray(SPECIAL).astype(dtype.numpy)
        single = PLAIN[name](x.astype(np.float64))
        wanted = single if dtype == float64 else single.astype(np.float32).astype(dtype.numpy)
    found = reference(name, x)
    assert found.dtype == dtype.numpy
    np.testing.assert_array_equal(found.astype(np.float64), wanted.astype(np.float64))


def test_every_function_of_one_float_has_a_plain_formula_or_a_true_value() -> None:
    for name, op in ELEMENTWISE.items():
        if op.arity == 1 and op.kind in ("function", "exact"):
            assert (name in PLAIN) != (op.accuracy is not None), name


@pytest.mark.parametrize("dtype", [float32, float64, float16, bfloat16, int8, uint32, int64, bool_])
def test_tests_for_nan_and_infinity_are_pythons(dtype: DType) -> None:
    x = np.asarray(SPECIAL if dtype.is_float else [0, 1, 100]).astype(dtype.numpy)
    for name, plain in (("isnan", math.isnan), ("isinf", math.isinf), ("isfinite", math.isfinite)):
        found = reference(name, x)
        assert found.dtype == bool and found.tolist() == [plain(float(value)) for value in x], name


@pytest.mark.parametrize("dtype", [int8, uint8, int32, uint32, int64])
def test_integers_have_a_sign_and_are_truncated_already(dtype: DType) -> None:
    x = np.asarray([0, 1, 7, -1, -100]).astype(dtype.numpy)
    assert reference("trunc", x).tolist() == x.tolist() and reference("trunc", x).dtype == x.dtype
    assert reference("sign", x).tolist() == [(v > 0) - (v < 0) for v in x.tolist()]


PAIRS = np.asarray([(x, y) for x in SPECIAL for y in SPECIAL])

PLAIN_BINARY: dict[str, Callable[[float, float], float]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "maximum": lambda x, y: NAN if math.isnan(x) or math.isnan(y) else max(x, y),
    "minimum": lambda x, y: NAN if math.isnan(x) or math.isnan(y) else min(x, y),
    "equal": lambda x, y: x == y,
    "not_equal": lambda x, y: x != y,
    "less": lambda x, y: x < y,
    "less_equal": lambda x, y: x <= y,
    "greater": lambda x, y: x > y,
    "greater_equal": lambda x, y: x >= y,
}


@pytest.mark.parametrize("name", PLAIN_BINARY)
def test_binary_operations_on_floats_are_pythons(name: str) -> None:
    found = reference(name, PAIRS[:, 0], PAIRS[:, 1])
    wanted = np.asarray([PLAIN_BINARY[name](x, y) for x, y in PAIRS.tolist()])
    np.testing.assert_array_equal(found, wanted)


def test_division_remainder_and_power_have_numpys_special_values() -> None:
    x, y = PAIRS[:, 0], PAIRS[:, 1]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(reference("div", x, y), x / y)
        np.testing.assert_array_equal(reference("mod", x, y), x % y)
        np.testing.assert_array_equal(reference("floordiv", x, y), x // y)
        np.testing.assert_array_equal(reference("pow", x, y), x**y)


OF_TWO_FLOATS = [
    name for name, op in ELEMENTWISE.items()
    if len(op.operands) == 2 and result_type(name, (float64, float64)) == (float64, float64)
]


@pytest.mark.parametrize("name", OF_TWO_FLOATS)
def test_a_nan_that_signals_is_a_nan_as_any_other(name: str) -> None:
    signalling = np.array([0x7FF0_0000_0000_0001], np.uint64).view(np.float64)
    others = np.array([0.0, -0.0, 1.0, -1.0, INF, -INF, 2.0])
    for turn in (slice(None), slice(None, None, -1)):
        found, wanted = (reference(name, *(nan, others)[turn]) for nan in (signalling, np.array([NAN])))
        np.testing.assert_array_equal(found, wanted)


def test_division_in_float32_is_correctly_rounded() -> None:
    rng = np.random.default_rng(7)
    x, y = (rng.normal(size=500).astype(np.float32) for _ in range(2))
    exact = [np.float32(float(Fraction(float(a)) / Fraction(float(b)))) for a, b in zip(x, y, strict=True)]
    np.testing.assert_array_equal(reference("div", x, y), exact)


BYTES = np.asarray([(x, y) for x in range(-128, 128, 3) for y in range(-128, 128)])


def _byte(value: int) -> int:
    return (value + 128) % 256 - 128


def _truncated_power(x: int, y: int) -> int:
    if y >= 0:
        return x**y
    return {1: 1, -1: 1 if y % 2 == 0 else -1}.get(x, 0)


PLAIN_INTEGER: dict[str, Callable[[int, int], int]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "floordiv": lambda x, y: x // y if y else 0,
    "mod": lambda x, y: x % y if y else 0,
    "maximum": max,
    "minimum": min,
    "pow": _truncated_power,
    "bitwise_and": lambda x, y: x & y,
    "bitwise_or": lambda x, y: x | y,
    "bitwise_xor": lambda x, y: x ^ y,
    "left_shift": lambda x, y: x << y if 0 <= y < 8 else 0,
    "right_shift": lambda x, y: x >> y if 0 <= y < 8 else (-1 if x < 0 else 0),
}


@pytest.mark.parametrize("name", PLAIN_INTEGER)
def test_integer_operations_wrap_around_every_byte(name: str) -> None:
    x, y = BYTES[:, 0], BYTES[:, 1]
    found = reference(name, x.astype(np.int8), y.astype(np.int8))
    wanted = [_byte(PLAIN_INTEGER[name](int(a), int(b))) for a, b in BYTES]
    assert found.dtype == np.int8
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", PLAIN_INTEGER)
def test_unsigned_operations_wrap_around_every_byte(name: str) -> None:
    pairs = BYTES + 128
    found = reference(name, pairs[:, 0].astype(np.uint8), pairs[:, 1].astype(np.uint8))
    wanted = [PLAIN_INTEGER[name](int(a), int(b)) % 256 for a, b in pairs]
    np.testing.assert_array_equal(found, wanted)


def test_one_operand_integers() -> None:
    x = np.arange(-128, 128).astype(np.int8)
    np.testing.assert_array_equal(reference("neg", x), [_byte(-v) for v in range(-128, 128)])
    np.testing.assert_array_equal(reference("abs", x), [_byte(abs(v)) for v in range(-128, 128)])
    np.testing.assert_array_equal(reference("bitwise_not", x), [~v for v in range(-128, 128)])
    np.testing.assert_array_equal(reference("relu", x), [max(v, 0) for v in range(-128, 128)])
    np.testing.assert_array_equal(reference("sqrt", np.int32([4, 9])), np.float32([2, 3]))


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint64"])
def test_counts_of_bits(dtype: str) -> None:
    info = np.iinfo(dtype)
    x = np.asarray([0, 1, 6, 100, info.max, info.max - 1, info.min, info.min + 5], dtype)
    texts = [format(int(v) % 2**info.bits, f"0{info.bits}b") for v in x]
    reversed_ = np.asarray([int(text[::-1], 2) for text in texts], f"uint{info.bits}")
    np.testing.assert_array_equal(reference("popcount", x), [text.count("1") for text in texts])
    np.testing.assert_array_equal(reference("clz", x), [len(text.split("1")[0]) for text in texts])
    np.testing.assert_array_equal(reference("brev", x).view(reversed_.dtype), reversed_)
    assert all(reference(name, x).dtype == dtype for name in ("popcount", "clz", "brev"))


def test_logic_takes_any_number_and_gives_bool() -> None:
    x, y = np.asarray([0, 1, 2, 0]), np.asarray([0.0, NAN, 0.0, -1.5])
    np.testing.assert_array_equal(reference("logical_and", x, y), [False, True, False, False])
    np.testing.assert_array_equal(reference("logical_or", x, y), [False, True, True, True])
    np.testing.assert_array_equal(reference("logical_not", y), [True, False, True, False])
    np.testing.assert_array_equal(reference("bitwise_not", np.asarray([True, False])), [False, True])


def test_where_and_clamp() -> None:
    cond, x = np.asarray([True, False, True]), np.float32([1, NAN, -3])
    np.testing.assert_array_equal(reference("where", cond, x, np.float32([7, 8, 9])), np.float32([1, 8, -3]))
    np.testing.assert_array_equal(reference("clamp", x, np.float32(-1), np.float32(0.5)), np.float32([0.5, NAN, -1]))
    with pytest.raises(TypeError, match="condition of where must be bool_"):
        reference("where", x, x, x)


FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(FINITE, FINITE, FINITE)
def test_fma_of_float32_rounds_once(x: float, y: float, z: float) -> None:
    found = reference("fma", *(np.asarray([v], dtype=np.float32) for v in (x, y, z)))
    assert _same(found[0], _rounded(Fraction(x) * Fraction(y) + Fraction(z), x * y + z))


def _rounded(exact: Fraction, sign_of_zero: float) -> np.float32:
    """The float32 nearest to an exact value, ties to even, by comparison with its neighbours."""
    if exact == 0:
        return np.float32(sign_of_zero)
    limit = Fraction(2) ** 128 - Fraction(2) ** 103
    if abs(exact) >= limit:
        return np.float32(INF if exact > 0 else -INF)
    with np.errstate(all="ignore"):
        guess = np.float32(float(exact))
    if np.isinf(guess):
        guess = np.copysign(np.finfo(np.float32).max, guess)
    near = [np.nextafter(guess, np.float32(-INF)), guess, np.nextafter(guess, np.float32(INF))]
    near = [v for v in near if np.isfinite(v)]
    return min(near, key=lambda v: (abs(Fraction(float(v)) - exact), int(np.float32(v).view(np.uint32)) & 1))


def _same(a: np.float32, b: np.float32) -> bool:
    return bool(a == b) or bool(np.isnan(a) and np.isnan(b))


@given(*(st.floats(allow_nan=False, allow_infinity=False) for _ in range(3)))
def test_fma_of_float64_rounds_once(x: float, y: float, z: float) -> None:
    found = float(reference("fma", np.asarray([x]), np.asarray([y]), np.asarray([z]))[0])
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    try:
        wanted = float(exact)
    except OverflowError:
        wanted = INF if exact > 0 else -INF
    assert found == wanted


def test_fma_has_the_special_values_of_its_parts() -> None:
    x, y = np.float64([INF, 0.0, -0.0, 1.0, INF]), np.float64([0.0, INF, 5.0, 2.0, 1.0])
    z = [1.0, NAN, -0.0, -2.0, -INF]
    np.testing.assert_array_equal(reference("fma", x, y, np.float64(z)), [NAN, NAN, -0.0, 0.0, NAN])


@pytest.mark.parametrize(
    ("name", "dtypes", "wanted"),
    [
        ("add", (float16, float16), (float32, float16)),
        ("add", (float16, bfloat16), (float32, float32)),
        ("add", (bool_, bool_), (int32, int32)),
        ("add", (int8, int32), (int32, int32)),
        ("add", (int64, float16), (float32, float16)),
        ("maximum", (bfloat16, bfloat16), (bfloat16, bfloat16)),
        ("div", (int32, int32), (float32, float32)),
        ("div", (int64, int64), (float32, float32)),
        ("exp", (float64,), (float64, float64)),
        ("exp", (uint8,), (float32, float32)),
        ("exp", (float16,), (float32, float16)),
        ("less", (int32, float16), (float16, bool_)),
        ("equal", (bool_, bool_), (bool_, bool_)),
        ("logical_and", (int32, float32), (bool_, bool_)),
        ("bitwise_and", (bool_, bool_), (bool_, bool_)),
        ("left_shift", (uint32, int32), (uint32, uint32)),
        ("where", (bool_, float16, float32), (float32, float32)),
        ("fma", (float16, float16, float32), (float32, float32)),
    ],
)
def test_the_type_rule(name: str, dtypes: tuple[DType, ...], wanted: tuple[DType, DType]) -> None:
    assert result_type(name, dtypes) == wanted


@pytest.mark.parametrize(
    ("name", "dtypes", "message"),
    [
        ("add", (float8_e5m2, float32), "fp8 is a storage type; cast it first"),
        ("bitwise_and", (float32, int32), "takes integers or bool_; got float32"),
        ("left_shift", (int32, float16), "takes integers or bool_"),
        ("where", (int32, int32, int32), "must be bool_"),
        ("add", (int32,), "takes 2 operands; got 1"),
    ],
)
def test_what_an_operation_refuses_it_explains(name: str, dtypes: tuple[DType, ...], message: str) -> None:
    found = result_type(name, dtypes)
    assert isinstance(found, str) and message in found


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_references_give_the_type_that_the_rule_says(name: str) -> None:
    op = ELEMENTWISE[name]
    assert op.kind in RULES
    for dtype in DTYPES.values():
        rule = result_type(name, (dtype,) * op.arity)
        if isinstance(rule, str):
            continue
        found = reference(name, *(np.ones(3, dtype.numpy) for _ in range(op.arity)))
        assert found.dtype == rule[1].numpy
        assert ELEMENTWISE[name].value_type(rule[0]) == (bool_ if rule[1] == bool_ else rule[0])


def test_halves_round_once_from_float32() -> None:
    x = np.asarray([1.0, 2.0, 3.0]).astype(ml_dtypes.bfloat16)
    wanted = np.exp(x.astype(np.float64)).astype(np.float32).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(reference("exp", x), wanted)
