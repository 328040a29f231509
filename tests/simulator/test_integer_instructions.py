"""Integer, logic and bit-field instructions against Python's integers."""

import numpy as np
import pytest

from tests.simulator.small_kernels import evaluate, interesting, pairs, same_bits

INTS = ["u16", "s16", "u32", "s32", "u64", "s64"]


def dtype_of(t):
    return np.dtype(("u" if t[0] in "ub" else "i") + str(int(t[1:]) // 8))


def wrap(values, dtype):
    n = 8 * dtype.itemsize
    return np.array([(int(v) + (1 << (n - 1))) % (1 << n) - (1 << (n - 1)) if dtype.kind == "i" else int(v) % (1 << n)
                     for v in values], dtype)


def python(function, *arrays, dtype):
    return wrap([function(*map(int, values)) for values in zip(*arrays, strict=True)], dtype)


def truncated(a, b):
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


@pytest.mark.parametrize("t", INTS)
@pytest.mark.parametrize("op", ["add", "sub", "mul.lo", "mul.hi", "min", "max", "div", "rem"])
def test_binary_arithmetic_equals_python_integers(op, t):
    dtype = dtype_of(t)
    a, b = pairs(dtype)
    if op in ("div", "rem"):
        a, b = a[b != 0], b[b != 0]
    width = 8 * dtype.itemsize
    function = {
        "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul.lo": lambda x, y: x * y,
        "mul.hi": lambda x, y: x * y >> width, "min": min, "max": max, "div": truncated,
        "rem": lambda x, y: x - y * truncated(x, y),
    }[op]
    same_bits(evaluate(f"{op}.{t} {{d}}, {{a}}, {{b}};", a, b, out=dtype), python(function, a, b, dtype=dtype))


@pytest.mark.parametrize(("op", "extreme"), [("min", np.minimum), ("max", np.maximum)])
def test_extremes_with_relu_are_at_least_zero(op, extreme):
    for t, dtype in (("s32", "i4"), ("s16x2", "i2")):
        a, b = (np.ascontiguousarray(x) for x in pairs("i4"))
        found = evaluate(f"{op}.relu.{t} {{d}}, {{a}}, {{b}};", a.view("u4"), b.view("u4"), out="u4")
        same_bits(found.view(dtype), np.maximum(extreme(a.view(dtype), b.view(dtype)), 0))


@pytest.mark.parametrize("t", ["u16", "s16", "u32", "s32"])
def test_wide_products_keep_every_bit(t):
    dtype = dtype_of(t)
    wide = np.dtype(f"{dtype.kind}{2 * dtype.itemsize}")
    a, b = pairs(dtype)
    same_bits(evaluate(f"mul.wide.{t} {{d}}, {{a}}, {{b}};", a, b, out=wide),
              python(lambda x, y: x * y, a, b, dtype=wide))
    c = interesting(wide, n=a.size)[: a.size]
    same_bits(evaluate(f"mad.wide.{t} {{d}}, {{a}}, {{b}}, {{c}};", a, b, c, out=wide),
              python(lambda x, y, z: x * y + z, a, b, c, dtype=wide))


@pytest.mark.parametrize("t", INTS)
def test_multiply_add_wraps(t):
    dtype = dtype_of(t)
    a, b = pairs(dtype)
    c = np.roll(a, 7)
    same_bits(evaluate(f"mad.lo.{t} {{d}}, {{a}}, {{b}}, {{c}};", a, b, c, out=dtype),
              python(lambda x, y, z: x * y + z, a, b, c, dtype=dtype))
    width = 8 * dtype.itemsize
    same_bits(evaluate(f"mad.hi.{t} {{d}}, {{a}}, {{b}}, {{c}};", a, b, c, out=dtype),
              python(lambda x, y, z: (x * y >> width) + z, a, b, c, dtype=dtype))


def test_saturating_sums_clamp():
    a, b = pairs("i4")
    clamp = lambda x: max(-(2**31), min(2**31 - 1, x))  # noqa: E731
    for op, f in (("add", lambda x, y: clamp(x + y)), ("sub", lambda x, y: clamp(x - y))):
        same_bits(evaluate(f"{op}.sat.s32 {{d}}, {{a}}, {{b}};", a, b, out="i4"), python(f, a, b, dtype=np.dtype("i4")))


@pytest.mark.parametrize("t", ["b16", "b32", "b64"])
@pytest.mark.parametrize("op", ["and", "or", "xor"])
def test_logic_equals_python(op, t):
    dtype = dtype_of(t)
    a, b = pairs(dtype)
    function = {"and": lambda x, y: x & y, "or": lambda x, y: x | y, "xor": lambda x, y: x ^ y}[op]
    same_bits(evaluate(f"{op}.{t} {{d}}, {{a}}, {{b}};", a, b, out=dtype), python(function, a, b, dtype=dtype))


@pytest.mark.parametrize("t", INTS)
def test_unary_arithmetic(t):
    dtype = dtype_of(t)
    a = interesting(dtype)
    bits = f"b{t[1:]}"
    same_bits(evaluate(f"not.{bits} {{d}}, {{a}};", a, out=dtype), ~a)
    same_bits(evaluate(f"cnot.{bits} {{d}}, {{a}};", a, out=dtype), (a == 0).astype(dtype))
    if t[0] == "s":
        same_bits(evaluate(f"neg.{t} {{d}}, {{a}};", a, out=dtype), python(lambda x: -x, a, dtype=dtype))
        same_bits(evaluate(f"abs.{t} {{d}}, {{a}};", a, out=dtype), python(abs, a, dtype=dtype))


@pytest.mark.parametrize("t", ["b16", "b32", "b64"])
def test_left_shifts_past_the_width_give_zero(t):
    dtype = dtype_of(t)
    width = 8 * dtype.itemsize
    a = interesting(dtype)
    n = np.resize(np.array([0, 1, 5, width - 1, width, width + 1, 255, 2**31], "u4"), a.size)
    expected = python(lambda x, s: x << s if s < width else 0, a, n, dtype=dtype)
    same_bits(evaluate(f"shl.{t} {{d}}, {{a}}, {{b}};", a, n, out=dtype), expected)
    same_bits(evaluate(f"shl.{t} {{d}}, {{a}}, {width};", a, out=dtype), np.zeros_like(a))
    same_bits(evaluate(f"shl.{t} {{d}}, {{a}}, 3;", a, out=dtype), python(lambda x: x << 3, a, dtype=dtype))


@pytest.mark.parametrize("t", INTS)
def test_right_shifts_past_the_width_give_zero_or_the_sign(t):
    dtype = dtype_of(t)
    width = 8 * dtype.itemsize
    a = interesting(dtype)
    n = np.resize(np.array([0, 1, 5, width - 1, width, width + 1, 255, 2**31], "u4"), a.size)
    expected = python(lambda x, s: x >> min(s, 100), a, n, dtype=dtype)
    same_bits(evaluate(f"shr.{t} {{d}}, {{a}}, {{b}};", a, n, out=dtype), expected)
    same_bits(evaluate(f"shr.{t} {{d}}, {{a}}, {width + 3};", a, out=dtype), python(lambda x: x >> 100, a, dtype=dtype))
    same_bits(evaluate(f"shr.{t} {{d}}, {{a}}, 7;", a, out=dtype), python(lambda x: x >> 7, a, dtype=dtype))


@pytest.mark.parametrize("amount", ["010", "8U", "0x8", "0b1000"])
def test_constants_are_written_as_the_isa_has_them(amount):
    a, b = pairs("u4", 500)
    c = np.roll(b, 3)
    same_bits(evaluate(f"shl.b32 {{d}}, {{a}}, {amount};", a, out="u4"), a << np.uint32(8))
    same_bits(evaluate(f"shr.u32 {{d}}, {{a}}, {amount};", a, out="u4"), a >> np.uint32(8))
    same_bits(evaluate(f"lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {amount};", a, b, c, out="u4"), ~a & b & c)


@pytest.mark.parametrize("mode", ["wrap", "clamp"])
def test_funnel_shifts_take_the_bits_of_both_words(mode):
    a, b = pairs("u4")
    n = np.resize(np.array([0, 1, 5, 31, 32, 33, 64, 2**31], "u4"), a.size)
    amount = (lambda s: s & 31) if mode == "wrap" else (lambda s: min(s, 32))
    left = python(lambda x, y, s: ((y << 32 | x) << amount(s)) >> 32, a, b, n, dtype=np.dtype("u4"))
    right = python(lambda x, y, s: (y << 32 | x) >> amount(s), a, b, n, dtype=np.dtype("u4"))
    same_bits(evaluate(f"shf.l.{mode}.b32 {{d}}, {{a}}, {{b}}, {{c}};", a, b, n, out="u4"), left)
    same_bits(evaluate(f"shf.r.{mode}.b32 {{d}}, {{a}}, {{b}}, {{c}};", a, b, n, out="u4"), right)


@pytest.mark.parametrize("table", [0x00, 0x01, 0x6A, 0x80, 0xCA, 0xFF, 0x96])
def test_lop3_looks_up_its_table(table):
    a, b = pairs("u4", 500)
    c = np.roll(b, 3)
    def look_up(x, y, z):
        return sum((table >> ((x >> i & 1) * 4 + (y >> i & 1) * 2 + (z >> i & 1)) & 1) << i for i in range(32))
    same_bits(evaluate(f"lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {table};", a, b, c, out="u4"),
              python(look_up, a, b, c, dtype=np.dtype("u4")))


@pytest.mark.parametrize("t", ["u32", "s32", "u64", "s64"])
def test_bit_fields_are_extracted_as_the_isa_says(t):
    dtype = dtype_of(t)
    top = 8 * dtype.itemsize - 1
    a = interesting(dtype)
    rng = np.random.default_rng(5)
    pos = rng.choice([0, 1, 7, 31, 32, 40, 63, 64, 255], a.size).astype("u4")
    length = rng.choice([0, 1, 5, 8, 31, 32, 33, 64, 255], a.size).astype("u4")

    def extract(x, p, n):
        x %= 1 << (top + 1)
        if t[0] == "u" or n == 0:
            sign = 0
        else:
            sign = x >> min(p + n - 1, top) & 1
        return sum((x >> p + i & 1 if i < n and p + i <= top else sign) << i for i in range(top + 1))

    same_bits(evaluate(f"bfe.{t} {{d}}, {{a}}, {{b}}, {{c}};", a, pos, length, out=dtype),
              python(extract, a, pos, length, dtype=dtype))


@pytest.mark.parametrize("t", ["b32", "b64"])
def test_bit_fields_are_inserted_as_the_isa_says(t):
    dtype = dtype_of(t)
    top = 8 * dtype.itemsize - 1
    a, b = pairs(dtype, 300)
    for pos, length in ((0, 8), (5, 0), (20, 40), (31, 1), (63, 3), (0, 255)):
        def insert(x, y, pos=pos, length=length):
            for i in range(length):
                if pos + i <= top:
                    y = y & ~(1 << pos + i) | (x >> i & 1) << pos + i
            return y
        same_bits(evaluate(f"bfi.{t} {{d}}, {{a}}, {{b}}, {pos}, {length};", a, b, out=dtype),
                  python(insert, a, b, dtype=dtype))


@pytest.mark.parametrize("t", ["b32", "b64"])
def test_counting_and_reversing_bits(t):
    dtype = dtype_of(t)
    width = 8 * dtype.itemsize
    a = interesting(dtype)
    count = np.dtype("u4")
    same_bits(evaluate(f"popc.{t} {{d}}, {{a}};", a, out="u4"), python(lambda x: bin(x).count("1"), a, dtype=count))
    same_bits(evaluate(f"clz.{t} {{d}}, {{a}};", a, out="u4"), python(lambda x: width - x.bit_length(), a, dtype=count))
    same_bits(evaluate(f"brev.{t} {{d}}, {{a}};", a, out=dtype),
              python(lambda x: int(f"{x:0{width}b}"[::-1], 2), a, dtype=dtype))


@pytest.mark.parametrize("t", ["u32", "s32", "u64", "s64"])
def test_bfind_finds_the_top_bit_that_differs_from_the_sign(t):
    a = interesting(dtype_of(t))
    expected = python(lambda x: (x if x >= 0 else ~x).bit_length() - 1, a, dtype=np.dtype("u4"))
    same_bits(evaluate(f"bfind.{t} {{d}}, {{a}};", a, out="u4"), expected)


def test_prmt_picks_bytes_and_replicates_signs():
    a, b = pairs("u4", 1000)
    c = np.random.default_rng(3).integers(0, 2**16, a.size).astype("u4")

    def permute(x, y, s):
        pool = (y << 32 | x).to_bytes(8, "little")
        out = []
        for i in range(4):
            nibble = s >> 4 * i & 15
            byte = pool[nibble & 7]
            out.append((0xFF if byte & 0x80 else 0) if nibble & 8 else byte)
        return int.from_bytes(bytes(out), "little")

    same_bits(evaluate("prmt.b32 {d}, {a}, {b}, {c};", a, b, c, out="u4"),
              python(permute, a, b, c, dtype=np.dtype("u4")))


@pytest.mark.parametrize("t", INTS + ["b32"])
def test_integer_comparisons_of_every_kind(t):
    dtype = dtype_of(t)
    a, b = pairs(dtype, 500)
    hows = {"eq": a == b, "ne": a != b}
    if t[0] != "b":
        hows |= {"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}
    if t[0] == "u":
        hows |= {"lo": a < b, "ls": a <= b, "hi": a > b, "hs": a >= b}
    for how, expected in hows.items():
        got = evaluate(f"setp.{how}.{t} {{d}}, {{a}}, {{b}};", a, b, out="u2", predicate=True)
        same_bits(got, expected.astype("u2"))


def test_setp_writes_the_complement_and_combines_with_a_third_predicate():
    a, b = pairs("i4", 300)
    text = (
        "setp.lt.s32 %p2|%p3, {a}, {b}; setp.gt.and.s32 %p4|%p5, {a}, 0, %p2; setp.eq.or.s32 %p6, {a}, {b}, %p4;\n"
        "selp.u32 %r20, 1, 0, %p2; selp.u32 %r21, 2, 0, %p3; selp.u32 %r22, 4, 0, %p4; selp.u32 %r23, 8, 0, %p5;\n"
        "selp.u32 %r24, 16, 0, %p6; or.b32 %r20, %r20, %r21; or.b32 %r20, %r20, %r22; or.b32 %r20, %r20, %r23;\n"
        "or.b32 {d}, %r20, %r24;"
    )
    less = a < b
    expected = less * 1 + ~less * 2 + ((a > 0) & less) * 4 + (~(a > 0) & less) * 0
    expected = expected + (~(a > 0) & less) * 8 + ((a == b) | ((a > 0) & less)) * 16
    same_bits(evaluate(text, a, b, out="u4"), expected.astype("u4"))


def test_extended_precision_sums_carry():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 2**63, 300, dtype=np.uint64) * 2 + 1, rng.integers(0, 2**63, 300, dtype=np.uint64)
    text = (
        "mov.b64 {{%r20, %r21}}, {a}; mov.b64 {{%r22, %r23}}, {b};\n"
        "{op}.cc.u32 %r24, %r20, %r22; {op}c.u32 %r25, %r21, %r23; mov.b64 {d}, {{%r24, %r25}};"
    )
    for op, expected in (("add", a + b), ("sub", a - b)):
        one = text.replace("{op}", op)
        same_bits(evaluate(one, a, b, out="u8"), expected)


def test_packing_puts_the_first_element_lowest():
    a, b = pairs("u4", 100)
    both = a.astype("u8") | b.astype("u8") << np.uint64(32)
    same_bits(evaluate("mov.b64 {d}, {{{a}, {b}}};", a, b, out="u8"), both)
    same_bits(evaluate("mov.b64 {{{d}, %r20}}, {a};", both, out="u4"), a)
    same_bits(evaluate("mov.b64 {{_, {d}}}, {a};", both, out="u4"), b)
    halves = evaluate("mov.b32 {{%h20, %h21}}, {a}; mov.b32 {d}, {{%h21, %h20}};", a, out="u4")
    same_bits(halves, a >> np.uint32(16) | a << np.uint32(16))


def test_dot_products_of_bytes():
    a, b = pairs("u4", 300)
    c = np.roll(a, 1)
    sa, sb = a.view("i1").reshape(-1, 4).astype("i8"), b.view("i1").reshape(-1, 4).astype("i8")
    ua = a.view("u1").reshape(-1, 4).astype("i8")
    same_bits(evaluate("dp4a.s32.s32 {d}, {a}, {b}, {c};", a, b, c, out="u4"), ((sa * sb).sum(1) + c).astype("u4"))
    same_bits(evaluate("dp4a.u32.s32 {d}, {a}, {b}, {c};", a, b, c, out="u4"), ((ua * sb).sum(1) + c).astype("u4"))


def test_division_by_zero_gives_all_ones_and_doesnt_raise():
    a = np.array([5, 0], "u4")
    same_bits(evaluate("div.u32 {d}, {a}, 0;", a, out="u4"), np.array([2**32 - 1] * 2, "u4"))
    same_bits(evaluate("rem.s32 {d}, {a}, 0;", a, out="u4"), a)
