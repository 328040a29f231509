"""cvt against exact arithmetic and ml_dtypes; exhaustive where the source has at most 16 bits."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tests.simulator.small_kernels import bits, evaluate, interesting, same_bits
from tests.simulator.test_float_instructions import round_to

BF16 = ml_dtypes.bfloat16
ALL16 = np.arange(2**16, dtype="u4").astype("u2")
INTS = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"]


def dtype_of(t):
    return np.dtype(("u" if t[0] == "u" else "i") + str(int(t[1:]) // 8))


@pytest.mark.parametrize("s", INTS)
@pytest.mark.parametrize("t", INTS)
def test_integers_truncate_extend_and_saturate(t, s):
    a = interesting(dtype_of(s))
    target = dtype_of(t)
    register = "%h20" if target.itemsize == 1 else "{d}"
    move = "mov.b16 {d}, %h20;" if target.itemsize == 1 else ""
    got = evaluate(f"cvt.{t}.{s} {register}, {{a}}; {move}", a, out=target)
    same_bits(got, a.astype(target))
    got = evaluate(f"cvt.sat.{t}.{s} {register}, {{a}}; {move}", a, out=target)
    info = np.iinfo(target)
    expected = np.array([max(info.min, min(info.max, int(x))) for x in a], target)
    same_bits(got, expected)


def test_narrow_results_are_extended_into_wide_registers():
    a = np.array([0x180, 0xFF7F], "u2")
    same_bits(evaluate("cvt.s8.s16 {d}, {a};", a, out="u4"), np.array([0xFFFFFF80, 0x7F], "u4"))
    same_bits(evaluate("cvt.u8.u16 {d}, {a};", a, out="u4"), np.array([0x80, 0x7F], "u4"))


@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
@pytest.mark.parametrize("t", INTS)
@pytest.mark.parametrize("s", ["f16", "bf16", "f32", "f64"])
def test_floats_to_integers_round_and_clamp(s, t, mode):
    source = {"f16": "f2", "bf16": "u2", "f32": "f4", "f64": "f8"}[s]
    a = interesting(source, n=150)
    with np.errstate(all="ignore"):
        x = a.view(BF16).astype("f8") if s == "bf16" else a.astype("f8")
    target = dtype_of(t)
    info = np.iinfo(target)
    with np.errstate(all="ignore"):
        rounded = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[mode](x)
    special = (1 << info.bits - 1 if info.min == 0 else info.min) if s == "f64" or info.bits == 64 else 0
    expected = []
    for v in rounded.tolist():
        if v != v:
            expected.append(special)
        elif abs(v) == np.inf:
            expected.append(info.max if v > 0 else info.min)
        else:
            expected.append(max(info.min, min(info.max, int(v))))
    register = "%h20" if target.itemsize == 1 else "{d}"
    move = "mov.b16 {d}, %h20;" if target.itemsize == 1 else ""
    same_bits(evaluate(f"cvt.{mode}.{t}.{s} {register}, {{a}}; {move}", a, out=target), np.array(expected, target))


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("s", ["u8", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("t", ["f16", "bf16", "f32", "f64"])
def test_integers_to_floats_round_once(t, s, mode):
    a = interesting(dtype_of(s), n=100)
    out = {"f16": "f2", "bf16": "u2", "f32": "f4", "f64": "f8"}[t]
    got = evaluate(f"cvt.{mode}.{t}.{s} {{d}}, {{a}};", a, out=out)
    got = got.view(BF16).astype("f8") if t == "bf16" else got.astype("f8")
    same_bits(got, np.array([round_to(t, Fraction(int(x)), mode) for x in a], "f8"))


def test_widening_is_exact_for_every_half():
    with np.errstate(all="ignore"):
        same_bits(evaluate("cvt.f32.f16 {d}, {a};", ALL16, out="f4"), ALL16.view("f2").astype("f4"))
        same_bits(evaluate("cvt.f64.f16 {d}, {a};", ALL16, out="f8"), ALL16.view("f2").astype("f8"))
    same_bits(evaluate("cvt.f32.bf16 {d}, {a};", ALL16, out="f4"), ALL16.view(BF16).astype("f4"))


def halves_and_midpoints(t):
    """Every finite value of a 16-bit format, the midpoints between neighbours and their neighbours in float32."""
    values = ALL16.view("f2").astype("f4") if t == "f16" else ALL16.view(BF16).astype("f4")
    values = values[np.isfinite(values)]
    values = np.sort(np.unique(values))
    middle = ((values[1:].astype("f8") + values[:-1]) / 2).astype("f4")
    above, below = (np.nextafter(middle, np.float32(limit)) for limit in (np.inf, -np.inf))
    around = np.concatenate([middle, above, below])
    return np.concatenate([values, around, np.array([np.inf, -np.inf, np.nan, 1e30, 65519.9, 65520], "f4")])


@pytest.mark.parametrize("t", ["f16", "bf16"])
def test_narrowing_rounds_correctly_at_every_boundary(t):
    a = halves_and_midpoints(t)
    got = evaluate(f"cvt.rn.{t}.f32 {{d}}, {{a}};", a, out="u2", threads=1024)
    with np.errstate(all="ignore"):
        expected = a.astype("f2") if t == "f16" else a.astype(BF16)
        number = ~np.isnan(a)
    assert (got[number] == expected.view("u2")[number]).all()
    assert (got[~number] == 0x7FFF).all()


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
@pytest.mark.parametrize("t", ["f16", "bf16"])
def test_narrowing_in_directed_roundings(t, mode):
    a = np.random.default_rng(0).choice(halves_and_midpoints(t), 1500)
    a = a[np.isfinite(a)]
    got = evaluate(f"cvt.{mode}.{t}.f32 {{d}}, {{a}};", a, out="u2")
    got = got.view("f2").astype("f4") if t == "f16" else got.view(BF16).astype("f4")
    expected = np.array([round_to(t, Fraction(float(x)), mode) for x in a], "f4")
    assert (got == expected).all()


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_doubles_to_singles_in_every_rounding(mode):
    a = interesting("f8", n=800)
    rng = np.random.default_rng(1)
    a = np.concatenate([a, rng.normal(size=800) * 10.0 ** rng.integers(-46, 39, 800)])
    a = a[np.isfinite(a)]
    got = evaluate(f"cvt.{mode}.f32.f64 {{d}}, {{a}};", a, out="f4")
    assert (got == np.array([round_to("f32", Fraction(float(x)), mode) for x in a], "f4")).all()


@pytest.mark.parametrize("t, out", [("f16", "u2"), ("bf16", "u2")])
def test_doubles_to_halves_round_once(t, out):
    rng = np.random.default_rng(0)
    a = rng.normal(size=1000)
    # Just beside a midpoint of the narrow format, closer than float32 can tell.
    middle = (1 + 2.0 ** (-11 if t == "f16" else -8)) * np.array([1 + 2.0**-50, 1 - 2.0**-50, 1.0])
    a = np.concatenate([a, middle, -middle])
    got = evaluate(f"cvt.rn.{t}.f64 {{d}}, {{a}};", a, out=out)
    got = got.view("f2").astype("f8") if t == "f16" else got.view(BF16).astype("f8")
    assert (got == [round_to(t, Fraction(float(x))) for x in a]).all()


@pytest.mark.parametrize("mode, function", [("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil)])
def test_rounding_to_integral_floats(mode, function):
    for t, dtype in (("f32", "f4"), ("f64", "f8"), ("f16", "f2")):
        a = interesting(dtype)
        with np.errstate(all="ignore"):
            same_bits(evaluate(f"cvt.{mode}.{t}.{t} {{d}}, {{a}};", a, out=dtype), function(a))


FP8 = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}


@pytest.mark.parametrize("form", ["e4m3", "e5m2"])
def test_every_8_bit_float_decodes_exactly(form):
    codes = ALL16
    got = evaluate(f"cvt.rn.f16x2.{form}x2 {{d}}, {{a}};", codes, out="u4", threads=1024)
    expected = codes.view("u1").view(FP8[form]).astype("f4").astype("f2")
    same_bits(got.view("f2"), expected)


@pytest.mark.parametrize("form", ["e4m3", "e5m2"])
def test_8_bit_floats_encode_by_nearest_even_and_saturate(form):
    every = ALL16.view("f2").astype("f4")
    finite = np.arange(256, dtype="u1").view(FP8[form]).astype("f4")
    largest = np.nanmax(finite[np.isfinite(finite)])
    near = np.random.default_rng(0).normal(size=4000).astype("f4") * 8
    a = np.concatenate([every, near])
    b = np.roll(a, 1)
    got = evaluate(f"cvt.rn.satfinite.{form}x2.f32 {{d}}, {{a}}, {{b}};", a, b, out="u2", threads=1024)
    with np.errstate(all="ignore"):
        expected = np.clip(a, -largest, largest).astype(FP8[form]).view("u1")
    number = ~np.isnan(a)
    assert ((got >> 8)[number] == expected[number]).all()
    assert ((got >> 8)[~number] == 0x7F).all()
    assert ((got & 0xFF)[1:] == (got >> 8)[:-1]).all()


@pytest.mark.parametrize("form", ["e4m3", "e5m2"])
def test_packed_halves_encode_like_singles(form):
    a = ALL16
    packed = a.astype("u4") | (np.roll(a, 5).astype("u4") << np.uint32(16))
    got = evaluate(f"cvt.rn.satfinite.{form}x2.f16x2 {{d}}, {{a}};", packed, out="u2", threads=1024)
    high, low = np.roll(a, 5).view("f2").astype("f4"), a.view("f2").astype("f4")
    expected = evaluate(f"cvt.rn.satfinite.{form}x2.f32 {{d}}, {{a}}, {{b}};", high, low, out="u2", threads=1024)
    assert (got == expected).all()


@pytest.mark.parametrize("t", ["f16", "bf16"])
def test_packing_two_singles_puts_the_first_in_the_upper_half(t):
    a = interesting("f4")
    b = np.roll(a, 1)
    got = evaluate(f"cvt.rn.{t}x2.f32 {{d}}, {{a}}, {{b}};", a, b, out="u4")
    one = evaluate(f"cvt.rn.{t}.f32 {{d}}, {{a}};", a, out="u2")
    assert (got >> 16 == one).all()
    assert ((got & 0xFFFF)[1:] == one[:-1]).all()
    relu = evaluate(f"cvt.rn.relu.{t}.f32 {{d}}, {{a}};", a, out="u2")
    negative = np.signbit(a) & ~np.isnan(a)
    assert (relu == np.where(negative, 0, one)).all()


def test_tf32_rounds_ties_away():
    a = np.array([1 + 2.0**-11, 1 + 3 * 2.0**-11, -1 - 2.0**-11, 1 + 2.0**-12], "f4")
    got = evaluate("cvt.rna.tf32.f32 {d}, {a};", a, out="u4").view("f4")
    assert got.tolist() == [1 + 2.0**-10, 1 + 2 * 2.0**-10, -1 - 2.0**-10, 1.0]
    assert (bits(got) & 0x1FFF == 0).all()
