"""Floating-point instructions against exact arithmetic."""

from fractions import Fraction
from itertools import product

import ml_dtypes
import numpy as np
import pytest

from tests.simulator.small_kernels import bits, evaluate, interesting, pairs, same_bits
from tilejit.simulator.numerics.floats import fma_f32
from tilejit.simulator.numerics.integer import sel

BF16 = ml_dtypes.bfloat16
FORMATS = {"f16": (np.dtype("f2"), 11, -14, 15), "bf16": (np.dtype("u2"), 8, -126, 127),
           "f32": (np.dtype("f4"), 24, -126, 127), "f64": (np.dtype("f8"), 53, -1022, 1023)}


def values_of(t, x):
    """The operand's values as Python floats."""
    with np.errstate(all="ignore"):
        return x.view(BF16).astype("f8") if t == "bf16" else x.astype("f8")


def encode(t, values):
    return np.array(values, "f4").astype(BF16).view("u2") if t == "bf16" else np.array(values, FORMATS[t][0])


def round_to(t, exact, mode="rn"):
    """A Fraction rounded to a format, by integer arithmetic only; returned as a Python float."""
    _, precision, low, high = FORMATS[t]
    if exact == 0:
        return 0.0
    sign, magnitude = (-1, -exact) if exact < 0 else (1, exact)
    e = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    e = e - 1 if Fraction(2) ** e > magnitude else e
    unit = Fraction(2) ** (max(e, low) - precision + 1)
    scaled = magnitude / unit
    n = scaled.numerator // scaled.denominator
    rest = scaled - n
    up = {"rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and n & 1), "rz": False,
          "rm": rest > 0 and sign < 0, "rp": rest > 0 and sign > 0}[mode]
    result = (n + bool(up)) * unit
    largest = (2 - Fraction(2) ** (1 - precision)) * Fraction(2) ** high
    if result > largest:
        overflow = mode == "rn" or (mode == "rm" and sign < 0) or (mode == "rp" and sign > 0)
        return sign * (float("inf") if overflow else float(largest))
    return sign * float(result)


def reference(t, function, *arrays, mode="rn"):
    """`function` on Fractions, rounded once; special values and zeros by float64 arithmetic."""
    out = []
    for row in zip(*(values_of(t, x).tolist() for x in arrays), strict=True):
        with np.errstate(all="ignore"):
            plain = function(*(np.float64(v) for v in row))
        if not np.isfinite(row).all():
            # A finite product can't turn an infinite summand into NaN by overflowing.
            out.append(row[2] if len(row) == 3 and np.isfinite(row[:2]).all() else float(plain))
            continue
        try:
            exact = function(*(Fraction(v) for v in row))
        except ZeroDivisionError:
            out.append(float(plain))
            continue
        if exact == 0:
            cancelled = mode == "rm" and not zero_result_is_exact(function, row)
            out.append(-0.0 if cancelled else float(plain) if plain == 0 else np.copysign(0.0, plain))
        else:
            rounded = round_to(t, exact, mode)
            out.append(rounded if rounded else (-0.0 if exact < 0 else 0.0))
    return encode(t, out)


def zero_result_is_exact(function, row):
    """Whether a zero is a product, or the sum of two +0: other zero sums are -0 when rounding down."""
    if len(row) == 2 and function is not ADD:
        return True
    first = row[0] if len(row) == 2 else np.float64(row[0]) * row[1] if 0 in row[:2] else row[0] * row[1]
    return not (np.signbit(first) or np.signbit(row[-1]))


def check(text, t, function, *arrays, mode="rn"):
    got = evaluate(text, *arrays, out=FORMATS[t][0])
    expected = reference(t, function, *arrays, mode=mode)
    if t == "bf16":
        got, expected = got.view(BF16).astype("f4"), expected.view(BF16).astype("f4")
    same_bits(got, expected)


def operands(t, n=600, seed=0):
    if t != "bf16":
        return pairs(FORMATS[t][0], n, seed)
    a, b = pairs("u2", n, seed)
    near = np.random.default_rng(seed).normal(size=n).astype("f4").astype(BF16).view("u2")
    return np.concatenate([a, near]), np.concatenate([b, np.roll(near, 1)])


ADD, SUB, MUL = (lambda x, y: x + y), (lambda x, y: x - y), (lambda x, y: x * y)
FMA = lambda x, y, z: x * y + z  # noqa: E731


@pytest.mark.parametrize("t", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("op, function", [("add", ADD), ("sub", SUB), ("mul", MUL)])
def test_arithmetic_rounds_once_to_nearest_even(t, op, function):
    check(f"{op}.rn.{t} {{d}}, {{a}}, {{b}};", t, function, *operands(t))


@pytest.mark.parametrize("t", ["f32", "f64"])
def test_division_and_reciprocal_are_correctly_rounded(t):
    a, b = operands(t)
    keep = values_of(t, b) != 0
    check(f"div.rn.{t} {{d}}, {{a}}, {{b}};", t, lambda x, y: x / y, a[keep], b[keep])
    check(f"rcp.rn.{t} {{d}}, {{a}};", t, lambda x: 1 / x, b[keep])


def hard_fma(t, seed):
    """Operands whose exact results lie next to rounding boundaries: a·b a midpoint of the format, c tiny."""
    dtype, precision, _, _ = FORMATS[t]
    rng = np.random.default_rng(seed)
    a = rng.integers(1, 2 ** (precision // 2 + 1), 400).astype("f8")
    b = rng.integers(2 ** (precision // 2), 2 ** (precision // 2 + 1), 400).astype("f8") * 2 + 1
    c = rng.choice([2.0**-20, -(2.0**-20), 2.0**-14, -(2.0**-14), 0.0, 1.0, 2.0**10, -0.5], 400)
    return encode(t, a), encode(t, b), encode(t, c)


@pytest.mark.parametrize("t", ["f16", "bf16", "f32", "f64"])
def test_fma_rounds_once(t):
    a, b = operands(t, 1500, seed=7)
    c = np.roll(a, 11)
    check(f"fma.rn.{t} {{d}}, {{a}}, {{b}}, {{c}};", t, FMA, a, b, c)
    check(f"fma.rn.{t} {{d}}, {{a}}, {{b}}, {{c}};", t, FMA, *hard_fma(t, 3))


def ties(exponent, seed=5):
    """float32 operands whose product is a midpoint of float32, and summands that tip it without changing float64's sum.

    exponent: of the product.
    """
    rng = np.random.default_rng(seed)
    odd = 2 * rng.integers(2**11, 2**12, (3000, 2)) + 1
    # 25 bits, of which the last is half of float32's last
    odd = odd[odd.prod(axis=1) < 2**25][:400].astype("f8")
    odd[0] = 4097
    scale = exponent - 24
    a, b = np.ldexp(odd[:, 0], scale // 2), np.ldexp(odd[:, 1], scale - scale // 2)
    # so that c may be far below it and be a float32 yet
    c = rng.choice([-1.0, 1.0], odd.shape[0]) * 2.0 ** max(exponent - 84, -149)
    return encode("f32", a), encode("f32", b), encode("f32", c)


#: products with all their bits below those of subnormals, and summands by which they are next to a midpoint of these:
#: in the midst of them, and next to the least normal number
SUBNORMAL_TIES = [
    (2.0**-75 * (1 + 2.0**-23), 2.0**-75 * (1 - 2.0**-23), summand)
    for summand in (2.0**-127 + 2.0**-149, 2.0**-126 - 2.0**-149)
]


@pytest.mark.parametrize("exponent", [0, 60, 100, -20, -64])
def test_fma_next_to_a_tie_rounds_the_exact_sum(exponent):
    a, b, c = ties(exponent)
    plain = (a.astype("f8") * b + c).astype("f4")
    assert (plain != reference("f32", FMA, a, b, c)).any(), "these don't tell it from a sum that is rounded twice"
    check("fma.rn.f32 {d}, {a}, {b}, {c};", "f32", FMA, a, b, c)
    for summand in np.unique(c):
        shared = np.full(a.size, summand)
        same_bits(fma_f32(a, b, summand), reference("f32", FMA, a, b, shared))


@pytest.mark.parametrize("row", SUBNORMAL_TIES)
def test_fma_next_to_a_tie_of_subnormals_rounds_the_exact_sum(row):
    a, b, c = (np.full(40, value, "f4") for value in row)
    expected = reference("f32", FMA, a, b, c)
    assert (expected != (a.astype("f8") * b + c).astype("f4")).all(), "these don't tell it from two roundings"
    check("fma.rn.f32 {d}, {a}, {b}, {c};", "f32", FMA, a, b, c)
    same_bits(fma_f32(a, b, c[0]), expected)
    same_bits(fma_f32(a[:1], b[:1], c[:1])[0], expected[0])
    same_bits(fma_f32(a[0], b[0], c[0]), expected[0])


@pytest.mark.parametrize("shared", [s for s in product((False, True), repeat=3) if any(s)])
def test_fma_takes_operands_that_all_threads_share(shared):
    a, b = operands("f32", 1500, seed=7)
    c = np.roll(a, 11)
    hard = hard_fma("f32", 3)
    for x, y, z in ((a, b, c), hard):
        for at in range(0, x.size, 97):
            each = [v[at] if one else v for one, v in zip(shared, (x, y, z), strict=True)]
            with np.errstate(all="ignore"):
                got = fma_f32(*each)
            # what is the same for all threads is so for a few
            few = [np.broadcast_to(v, x.shape)[:50] for v in each]
            same_bits(np.broadcast_to(got, x.shape)[:50], reference("f32", FMA, *few))


@pytest.mark.parametrize("exponent", [-20, -60, -69, -70, -71, -80, -100, -118, -126, -140])
def test_fma_that_cancels_a_shared_summand_is_exact_or_rounded_once(exponent):
    rng = np.random.default_rng(-exponent)
    c = np.float32(rng.uniform(1, 2) * 2.0**exponent)
    # products of c's size, of which many leave no more than their last bits
    a = np.ldexp(rng.uniform(1, 2, 4000), rng.integers(-40, 40, 4000)).astype("f4")
    b = np.nextafter((-c.astype("f8") / a).astype("f4"), np.float32(0))
    got = fma_f32(a, b, c)
    same_bits(got, reference("f32", FMA, a, b, np.full(a.size, c)))
    same_bits(got, fma_f32(a, b, np.full(a.size, c)))


@pytest.mark.parametrize("t", ["u4", "f4", "f8", "u2"])
@pytest.mark.parametrize("size", [3, 2048])
def test_a_selection_that_no_thread_or_every_thread_makes_is_the_one_operand(t, size):
    a, b = np.arange(size).astype(t), (np.arange(size) + 7).astype(t)
    for p in (np.zeros(size, bool), np.ones(size, bool), np.arange(size) % 3 == 0):
        for x, y in ((a, b), (a[1], b), (a, b[1]), (a[0], b[1])):
            selected = sel(p, x, y)
            assert selected.shape == (size,) and selected.dtype == a.dtype
            assert (selected == np.where(p, x, y)).all()


def test_a_selection_between_types_is_of_the_wider_one():
    never = np.zeros(4, bool)
    assert sel(never, np.zeros(4, "f8"), np.ones(4, "f4")).dtype == "f8"


def test_fma_f64_survives_extreme_exponents():
    rng = np.random.default_rng(2)
    scale = 2.0 ** rng.integers(-1070, 1023, 300).astype("f8")
    a, b = rng.normal(size=300) * scale, rng.normal(size=300) * 2.0 ** rng.integers(-1000, 500, 300).astype("f8")
    c = rng.normal(size=300) * 2.0 ** rng.integers(-1074, 1000, 300).astype("f8")
    check("fma.rn.f64 {d}, {a}, {b}, {c};", "f64", FMA, a, b, c)
    with np.errstate(all="ignore"):
        check("fma.rn.f64 {d}, {a}, {b}, {c};", "f64", FMA, a, b, -(a * b))


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
@pytest.mark.parametrize("t", ["f32", "f64"])
def test_directed_roundings(t, mode):
    a, b = operands(t, 400, seed=4)
    finite = np.isfinite(a) & np.isfinite(b) & (b != 0)
    a, b = a[finite], b[finite]
    check(f"add.{mode}.{t} {{d}}, {{a}}, {{b}};", t, ADD, a, b, mode=mode)
    check(f"mul.{mode}.{t} {{d}}, {{a}}, {{b}};", t, MUL, a, b, mode=mode)
    check(f"fma.{mode}.{t} {{d}}, {{a}}, {{b}}, {{c}};", t, FMA, a, b, np.roll(a, 5), mode=mode)
    check(f"div.{mode}.{t} {{d}}, {{a}}, {{b}};", t, lambda x, y: x / y, a, b, mode=mode)


@pytest.mark.parametrize("t", ["f32", "f64"])
def test_square_roots_in_every_rounding(t):
    dtype, precision, _, _ = FORMATS[t]
    a = np.abs(interesting(dtype))
    a = a[np.isfinite(a)]
    with np.errstate(all="ignore"):
        same_bits(evaluate(f"sqrt.rn.{t} {{d}}, {{a}};", a, out=dtype), np.sqrt(a))
    down, up = (evaluate(f"sqrt.{m}.{t} {{d}}, {{a}};", a, out=dtype) for m in ("rm", "rp"))
    for x, low, high in zip(a.tolist(), down.tolist(), up.tolist(), strict=True):
        assert Fraction(low) ** 2 <= Fraction(x) <= Fraction(high) ** 2
        assert low == high or np.nextafter(dtype.type(low), dtype.type(np.inf)) == dtype.type(high)


@pytest.mark.parametrize("t", ["f16", "bf16", "f32", "f64"])
def test_minimum_prefers_numbers_and_negative_zero(t):
    a, b = operands(t)
    x, y = values_of(t, a), values_of(t, b)
    for op, pick in (("min", np.fmin), ("max", np.fmax)):
        expected = pick(x, y)
        zeros = (x == 0) & (y == 0)
        sign = np.signbit(x) | np.signbit(y) if op == "min" else np.signbit(x) & np.signbit(y)
        expected = np.where(zeros, np.where(sign, -0.0, 0.0), expected)
        got = evaluate(f"{op}.{t} {{d}}, {{a}}, {{b}};", a, b, out=a.dtype)
        same_bits(values_of(t, got), expected)
        if t != "f64":
            got = evaluate(f"{op}.NaN.{t} {{d}}, {{a}}, {{b}};", a, b, out=a.dtype)
            same_bits(values_of(t, got), np.where(np.isnan(x) | np.isnan(y), np.nan, expected))


def test_minimum_of_two_nans_is_the_canonical_nan():
    a = np.array([0xFFC12345, 0x7F800001], "u4").view("f4")
    for opcode in ("min.f32", "max.f32", "min.NaN.f32", "max.NaN.f32"):
        assert bits(evaluate(f"{opcode} {{d}}, {{a}}, {{a}};", a, out="f4")).tolist() == [0x7FFFFFFF] * 2


@pytest.mark.parametrize("t", ["f16", "bf16", "f32", "f64"])
def test_sign_operations_touch_only_the_sign_bit(t):
    a = interesting(FORMATS[t][0])
    top = bits(a).dtype.type(1 << (8 * a.dtype.itemsize - 1))
    assert (bits(evaluate(f"neg.{t} {{d}}, {{a}};", a, out=a.dtype)) == bits(a) ^ top).all()
    assert (bits(evaluate(f"abs.{t} {{d}}, {{a}};", a, out=a.dtype)) == bits(a) & ~top).all()


@pytest.mark.parametrize("t, register, zero", [("f32", "%r20", "0f80000000"), ("f64", "%x20", "0d8000000000000000")])
def test_sign_operations_on_results_of_arithmetic_touch_only_the_sign_bit(t, register, zero):
    every = interesting(FORMATS[t][0])
    for a in (every, every[:7], every[:1]):
        top = bits(a).dtype.type(1 << (8 * a.dtype.itemsize - 1))
        add = f"add.rn.{t} {register}, {{a}}, {zero};"
        plain = bits(evaluate(f"{add} mov.b{t[1:]} {{d}}, {register};", a, out=a.dtype))
        assert (bits(evaluate(f"{add} neg.{t} {{d}}, {register};", a, out=a.dtype)) == plain ^ top).all()
        assert (bits(evaluate(f"{add} abs.{t} {{d}}, {register};", a, out=a.dtype)) == plain & ~top).all()


@pytest.mark.parametrize("t", ["f16", "bf16", "f32", "f64"])
def test_comparisons_treat_nan_as_unordered(t):
    a, b = operands(t, 300)
    x, y = values_of(t, a), values_of(t, b)
    nan = np.isnan(x) | np.isnan(y)
    for how, plain in {"eq": x == y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y, "ne": x != y}.items():
        got = evaluate(f"setp.{how}.{t} {{d}}, {{a}}, {{b}};", a, b, out="u2", predicate=True)
        same_bits(got, (plain & ~nan).astype("u2"))
        got = evaluate(f"setp.{how}u.{t} {{d}}, {{a}}, {{b}};", a, b, out="u2", predicate=True)
        same_bits(got, (plain | nan).astype("u2"))
    same_bits(evaluate(f"setp.nan.{t} {{d}}, {{a}}, {{b}};", a, b, out="u2", predicate=True), nan.astype("u2"))
    same_bits(evaluate(f"setp.num.{t} {{d}}, {{a}}, {{b}};", a, b, out="u2", predicate=True), (~nan).astype("u2"))


def test_flushing_turns_subnormal_inputs_and_results_to_zero():
    a = np.array([1e-39, -1e-39, 2.0**-126, 1.0, 2.0**-100, -(2.0**-126)], "f4")
    b = np.array([1.0, 1.0, 0.5, 1e-40, 2.0**-40, 0.75], "f4")
    same_bits(evaluate("mul.rn.ftz.f32 {d}, {a}, {b};", a, b, out="f4"), np.array([0, -0.0, 0, 0, 0, -0.0], "f4"))
    same_bits(evaluate("mul.rn.f32 {d}, {a}, {b};", a, b, out="f4"), a * b)
    same_bits(evaluate("add.ftz.f32 {d}, {a}, 0f00000000;", a, out="f4"), np.array([0, 0, *a[2:]], "f4"))


def test_saturation_clamps_to_the_unit_interval():
    a = np.array([-1, -0.0, 0.25, 1, 7, np.inf, -np.inf, np.nan], "f4")
    same_bits(evaluate("add.sat.f32 {d}, {a}, 0f00000000;", a, out="f4"), np.array([0, 0, 0.25, 1, 1, 1, 0, 0], "f4"))


@pytest.mark.parametrize("t, lane", [("f16", "f2"), ("bf16", "u2")])
@pytest.mark.parametrize("op", ["add", "sub", "mul", "min", "max", "fma"])
def test_packed_operations_work_on_each_half(t, lane, op):
    a, b = pairs("u4", 500)
    c = np.roll(a, 3)
    operands_text = "{a}, {b}, {c}" if op == "fma" else "{a}, {b}"
    arrays = (a, b, c) if op == "fma" else (a, b)
    dot = ".rn" if op == "fma" else ""
    got = evaluate(f"{op}{dot}.{t}x2 {{d}}, {operands_text};", *arrays, out="u4").view(lane)
    one = evaluate(f"{op}{dot}.{t} {{d}}, {operands_text};", *(x.view(lane) for x in arrays), out=lane)
    assert (bits(got) == bits(one)).all()


def test_packed_singles():
    a, b = pairs("u8", 400)
    c = np.roll(a, 3)
    for op in ("add", "mul"):
        got = evaluate(f"{op}.rn.f32x2 {{d}}, {{a}}, {{b}};", a, b, out="u8").view("f4")
        same_bits(got, evaluate(f"{op}.rn.f32 {{d}}, {{a}}, {{b}};", a.view("f4"), b.view("f4"), out="f4"))
    got = evaluate("fma.rn.f32x2 {d}, {a}, {b}, {c};", a, b, c, out="u8").view("f4")
    same_bits(got, evaluate("fma.rn.f32 {d}, {a}, {b}, {c};", *(x.view("f4") for x in (a, b, c)), out="f4"))


@pytest.mark.parametrize("op, function, low, high", [
    ("ex2", np.exp2, -120, 120), ("lg2", np.log2, 1e-30, 1e30), ("sin", np.sin, -3, 3), ("cos", np.cos, -3, 3),
    ("tanh", np.tanh, -10, 10), ("rsqrt", lambda x: 1 / np.sqrt(x), 1e-30, 1e30),
])
def test_approximations_stay_within_the_isas_error(op, function, low, high):
    a = np.random.default_rng(0).uniform(low, high, 1000).astype("f4")
    got = evaluate(f"{op}.approx.f32 {{d}}, {{a}};", a, out="f4").astype("f8")
    exact = function(a.astype("f8"))
    assert np.all(np.abs(got - exact) <= 2.0**-22 * np.abs(exact))


def test_copysign_takes_the_first_operands_sign():
    a, b = pairs("f4", 200)
    keep = ~np.isnan(b)
    same_bits(evaluate("copysign.f32 {d}, {a}, {b};", a[keep], b[keep], out="f4"), np.copysign(b[keep], a[keep]))


def test_testp_classifies():
    a = interesting("f4")
    tiny = (np.abs(a) < 2.0**-126) & (a != 0)
    cases = {"finite": np.isfinite(a), "infinite": np.isinf(a), "number": ~np.isnan(a), "notanumber": np.isnan(a),
             "subnormal": tiny}
    for how, expected in cases.items():
        same_bits(evaluate(f"testp.{how}.f32 {{d}}, {{a}};", a, out="u2", predicate=True), expected.astype("u2"))


def test_selection_moves_bits_whatever_the_type():
    a, b = pairs("f4", 200)
    got = evaluate("setp.lt.f32 %p5, {a}, {b}; selp.f32 {d}, {a}, {b}, %p5;", a, b, out="f4")
    assert (bits(got) == np.where(a < b, bits(a), bits(b))).all()
    c = np.arange(a.size, dtype="i4") - 99
    got = evaluate("slct.f32.s32 {d}, {a}, {b}, {c};", a, b, c, out="f4")
    assert (bits(got) == np.where(np.arange(a.size) >= 99, bits(a), bits(b))).all()
