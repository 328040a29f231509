"""`tj.ptx`: right texts against NumPy, wrong ones with the column of the fault, what LLVM may do with either."""

import re

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tilejit as tj
from tests.support.programs import source_of
from tests.support.ptxas import ptxas_accepts
from tilejit import pipeline
from tilejit.codegen import generate
from tilejit.isa.inline import TextError, read

I32, U32, I64, U64, F32, F64 = np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64
BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
COUNT = 37


def bits(x, dtype):
    return np.ascontiguousarray(x).view(dtype)


def rotated(x, y):
    wide = x.astype(U64) << (y.astype(U64) & U64(31))
    return (wide | wide >> U64(32)).astype(U32)


def permuted(x, y):
    """`prmt` with the selector 0x5140: the low bytes of x and y in turn."""
    b = np.stack([x, y], 1).astype("<u4").view(np.uint8).reshape(-1, 8)
    return np.ascontiguousarray(b[:, [0, 4, 1, 5]]).view("<u4").ravel()


def collatz(x):
    steps = np.zeros(len(x), I32)
    for k, value in enumerate(x.tolist()):
        n = abs(value) % 100 + 1
        while n != 1:
            n, steps[k] = n // 2 if n % 2 == 0 else 3 * n + 1, steps[k] + 1
    return steps


COLLATZ = """{
    .reg .pred p;                 // an odd number, or the end
    .reg .s32 n, t;
    abs.s32 n, $1;
    rem.s32 n, n, 100;
    add.s32 n, n, 1;
    mov.s32 $0, 0;
  again:
    setp.eq.s32 p, n, 1;
    @p bra done;
    add.s32 $0, $0, 1;
    and.b32 t, n, 1;
    setp.ne.s32 p, t, 0;
    @p bra odd;
    shr.s32 n, n, 1;
    bra again;
  odd:
    mad.lo.s32 n, n, 3, 1;
    bra again;
  done:
}"""

#: (text, types of the outputs, types of the inputs, what NumPy says, whether it is pure)
RIGHT = [
    ("add.s32 $0, $1, $2;", (I32,), (I32, I32), lambda x, y: x + y, True),
    ("sub.u64 $0, $1, $2;", (U64,), (U64, U64), lambda x, y: x - y, True),
    ("mul.hi.u32 $0, $1, $2;", (U32,), (U32, U32), lambda x, y: (x.astype(U64) * y >> U64(32)).astype(U32), True),
    ("mad.lo.s32 $0, $1, $2, 7;", (I32,), (I32, I32), lambda x, y: x * y + I32(7), True),
    ("mul.wide.s32 $0, $1, $2;", (I64,), (I32, I32), lambda x, y: x.astype(I64) * y, True),
    ("min.s16 $0, $1, $2;", (np.int16,), (np.int16, np.int16), np.minimum, True),
    ("max.u16 $0, $1, $2;", (np.uint8,), (np.uint8, np.uint8), np.maximum, True),
    ("neg.s16 $0, $1;", (np.int8,), (np.int8,), lambda x: -x, True),
    ("abs.s64 $0, $1;", (I64,), (I64,), np.abs, True),
    ("popc.b32 $0, $1;", (U32,), (U32,), lambda x: np.array([v.bit_count() for v in x.tolist()], U32), True),
    ("clz.b32 $0, $1;", (I32,), (I32,), lambda x: np.array([32 - (v % 2**32).bit_length() for v in x.tolist()], I32),
     True),
    ("brev.b32 $0, $1;", (U32,), (U32,), lambda x: np.array([int(f"{v:032b}"[::-1], 2) for v in x.tolist()], U32),
     True),
    ("not.b64 $0, $1;", (U64,), (U64,), np.invert, True),
    ("and.b32 $0,$1,$2;", (U32,), (U32, U32), np.bitwise_and, True),
    ("lop3.b32 $0, $1, $2, $3, 0x96;", (U32,), (U32, U32, U32), lambda x, y, z: x ^ y ^ z, True),
    ("prmt.b32 $0, $1, $2, 0x5140;", (U32,), (U32, U32), permuted, True),
    ("shf.l.wrap.b32 $0, $1, $1, $2;", (U32,), (U32, U32), rotated, True),
    ("bfe.u32 $0, $1, 4, 8;", (U32,), (U32,), lambda x: x >> U32(4) & U32(255), True),
    ("add.f32 $0, $1, $2;", (F32,), (F32, F32), np.add, True),
    ("mul.rn.f64 $0, $1, $2;", (F64,), (F64, F64), np.multiply, True),
    ("fma.rn.f64 $0, $1, 0d4000000000000000, $2;", (F64,), (F64, F64), lambda x, y: x * 2 + y, True),
    ("add.f32 $0, $1, 0f3F800000;", (F32,), (F32,), lambda x: x + F32(1), True),
    ("sqrt.rn.f32 $0, $1;", (F32,), (F32,), np.sqrt, True),
    ("neg.f16 $0, $1;", (np.float16,), (np.float16,), np.negative, True),
    ("xor.b16 $0, $1, -32768;", (BF16,), (BF16,), lambda x: -x, True),
    ("xor.b16 $0, $1, 128;", (E4M3,), (E4M3,), lambda x: bits(bits(x, np.uint8) ^ np.uint8(128), E4M3), True),
    ("mov.b32 $0, $1;", (I32,), (F32,), lambda x: bits(x, I32), True),
    ("cvt.rzi.s32.f32 $0, $1;", (I32,), (F32,), lambda x: np.trunc(x).astype(I32), True),
    ("cvt.u64.u32 $0, $1;", (U64,), (U32,), lambda x: x.astype(U64), True),
    ("xor.b16 $0, $1, 1;", (np.bool_,), (np.bool_,), np.logical_not, True),
    ("shl.b16 $0, $1, 4;", (np.bool_,), (np.bool_,), lambda x: x, True),
    ("{ .reg .pred p; setp.lt.s32 p, $1, $2; selp.b32 $0, $1, $2, p; }", (I32,), (I32, I32), np.minimum, True),
    ("{ .reg .pred p, q; setp.gt.s32 p|q, $2, 0; mov.s32 $0, 5; mov.s32 $1, 5; @p mov.s32 $0, 1; @!p mov.s32 $1, $2; }",
     (I32, I32), (I32,), lambda x: (np.where(x > 0, 1, 5), np.where(x > 0, 5, x)), True),
    ("{ .reg .b32 t<3>; mov.b32 t0, $2; add.s32 t1, t0, $1; { .reg .b32 t0; mov.b32 t0, 1; add.s32 t2, t1, t0; } "
     "sub.s32 $0, t2, t0; }", (I32,), (I32, I32), lambda x, y: x + I32(1), True),
    ("{ .reg .b64 t; mul.wide.s32 t, $2, $3; mov.b64 {$0, $1}, t; }", (U32, I32), (I32, I32),
     lambda x, y: ((x.astype(I64) * y).astype(U32), (x.astype(I64) * y >> 32).astype(I32)), True),
    ("add.cc.u32 $0, $2, $4;\n\taddc.u32 $1, $3, $5;", (U32, U32), (U32,) * 4,
     lambda a, b, c, d: (a + c, b + d + (a.astype(U64) + c >> U64(32)).astype(U32)), True),
    ("mov.s32 $0, $2; mov.s32 $1, $3; add.s32 $0, $0, $3; sub.s32 $1, $2, $1;", (I32, I32), (I32, I32),
     lambda x, y: (x + y, x - y), True),
    ("{ .reg .b32 $$t; mov.b32 $$t, $1; /* a dollar */ add.s32 $0, $$t, $$t; }", (I32,), (I32,), lambda x: x + x, True),
    ("{ .reg .pred p; setp.ne.s32 p, $1, 0; @p bra $$end; mov.u32 $0, 1; $$end: @p mov.u32 $0, %ntid.z; }", (I32,),
     (I32,), lambda x: np.ones_like(x), False),
    (COLLATZ, (I32,), (I32,), collatz, False),
]


@pytest.fixture(params=["sim", pytest.param("cuda", marks=pytest.mark.gpu)])
def where(request):
    with tj.use_device(request.param):
        yield request.param


@tj.kernel(threads=32)
def on_tiles(A, B, C, D, Y, Z, TEXT: tj.constexpr, OUT: tj.constexpr, K: tj.constexpr, N: tj.constexpr):
    x = (tj.cta.load(A[0:N]),)
    if K == 2:
        x = (x[0], tj.cta.load(B[0:N]))
    if K == 3:
        x = (x[0], tj.cta.load(B[0:N]), tj.cta.load(C[0:N]))
    if K == 4:
        x = (x[0], tj.cta.load(B[0:N]), tj.cta.load(C[0:N]), tj.cta.load(D[0:N]))
    made = tj.ptx(TEXT, out=OUT, inputs=x)
    tj.cta.store(Y[0:N], made[0])
    if len(OUT) == 2:
        tj.cta.store(Z[0:N], made[1])


@tj.kernel(threads=32)
def on_scalars(A, B, C, D, Y, Z, TEXT: tj.constexpr, OUT: tj.constexpr, K: tj.constexpr, N: tj.constexpr):
    for i in range(tj.thread_id(), N, 32):
        x = (A[i],)
        if K == 2:
            x = (A[i], B[i])
        if K == 3:
            x = (A[i], B[i], C[i])
        if K == 4:
            x = (A[i], B[i], C[i], D[i])
        made = tj.ptx(TEXT, out=OUT, inputs=x)
        Y[i] = made[0]
        if len(OUT) == 2:
            Z[i] = made[1]


def random(dtype, seed):
    rng, kind = np.random.default_rng(seed), np.dtype(dtype)
    if kind == np.bool_:
        return rng.random(COUNT) < 0.5
    if kind.kind in "iu":
        return rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, COUNT, kind, endpoint=True)
    return rng.integers(1, 200, COUNT).astype(F32).astype(kind) / np.asarray(8, kind)


def arguments(case):
    """Return the arguments of a kernel, of which the last arrays are the outputs, and what the outputs must be."""
    text, outputs, inputs, oracle, _ = RIGHT[case]
    values = tuple(random(dtype, seed) for seed, dtype in enumerate(inputs))
    with np.errstate(all="ignore"):
        wanted = oracle(*values)
    made = [np.zeros(COUNT, dtype) for dtype in outputs]
    unused = (values[0],) * (4 - len(values)), (np.zeros(COUNT, I32),) * (2 - len(made))
    types = tuple(map(np.dtype, outputs))
    passed = (*values, *unused[0], *made, *unused[1], text, types, len(values), COUNT)
    return passed, made, wanted if len(outputs) > 1 else (wanted,)


@pytest.mark.parametrize("kernel", [on_tiles, on_scalars], ids=["tiles", "scalars"])
@pytest.mark.parametrize("case", range(len(RIGHT)), ids=[text.split()[0] for text, *_ in RIGHT])
def test_a_right_text_gives_numpys_bits(case, kernel, where):
    passed, made, wanted = arguments(case)
    kernel[1](*passed)
    for dtype, got, value in zip(RIGHT[case][1], made, wanted, strict=True):
        as_bytes = f"V{got.itemsize}"
        np.testing.assert_array_equal(got.view(as_bytes), np.ascontiguousarray(value, dtype).view(as_bytes))


@pytest.mark.parametrize("case", range(len(RIGHT)), ids=[text.split()[0] for text, *_ in RIGHT])
def test_ptxas_takes_a_right_text_and_explain_lists_it(case):
    passed, _, _ = arguments(case)
    compiled = on_tiles.compile(*passed, target="sm_90a")
    ptxas_accepts(compiled.ptx, "sm_90a")
    kind = "pure" if RIGHT[case][4] else "volatile"
    text = " ".join(re.sub(r"//[^\n]*|/\*.*?\*/", " ", RIGHT[case][0]).split())
    assert any(f"inline PTX, {kind}: " in line and line.endswith(text) for line in str(compiled.explain()).splitlines())


def test_there_are_enough_texts():
    assert len(RIGHT) >= 40 and len(WRONG) >= 100


#: texts with the output $0 and the inputs $1 and $2, each with one fault, which begins at ¦
WRONG = r"""
¦
  ¦
// nothing¦
/* nothing */¦
¦; add.s32 $0, $1, $2;
add.s32 $0, $1, $2;¦;
add.s32 $0, $1, ¦$foo;
add.s32 $0, $1, ¦$;
add.s32 $0, $1, ¦${2};
add.s32 $0, $1, ¦${2:x};
add.s32 $0, $1, ¦$x2;
add.s32 ¦$(0$|1$), $1, $2;
add.s32 $0, $1, ¦$-2;
add.s32 $0, $1, $2; ¦$
add.s32 $0, $1, ¦$3;
add.s32 $0, $1, ¦$4;
add.s32 $0, $1, ¦$99;
add.s32 $0, $1, ¦$4294967296;
add.s32 $0, $1, ¦$18446744073709551616;
add.s32 $0, $1, ¦$000002;
add.s32 $0, $1, $1;¦
add.s32 $0, $2, $2;¦
mov.s32 $1, $2;¦
add.s32 $0, $1, 2;¦
mov.s32 $0, 1; // $1, $2¦
¦ret; add.s32 $0, $1, $2;
add.s32 $0, $1, $2; ¦exit;
{ .reg .pred p; setp.eq.s32 p, $1, $2; mov.s32 $0, 1; @p ¦ret; }
{ .reg .pred p; setp.eq.s32 p, $1, $2; mov.s32 $0, 1; @!p ¦exit; }
¦ret.uni; add.s32 $0, $1, $2;
add.s32 $0, $1, $2¦
add.s32 $0, $1, $2 ¦
{ add.s32 $0, $1, $2 ¦}
add.s32¦
¦{ add.s32 $0, $1, $2;
¦{ { add.s32 $0, $1, $2; }
add.s32 $0, $1, $2; ¦}
{ add.s32 $0, $1, $2; } ¦}
¦} add.s32 $0, $1, $2; {
mov.b64 ¦{$0, $1, $2;
mov.b64 {$0, ¦($1, $2};
ld.global.s32 $0, ¦[$1; add.s32 $0, $0, $2;
ld.global.s32 $0, $1¦]; add.s32 $0, $0, $2;
add.s32 $0, $1, $2¦);
add.s32 ($0, ¦[$1), $2];
¦"add.s32 $0, $1, $2;"
add.s32 $0, $1, ¦"$2;
add.s32 $0, $1, ¦'$2';
add.s32 $0, $1, ¦'$2;
¦`add.s32 $0, $1, $2;`
add.s32 $0, $1, $2; ¦# a comment
add.s32 $0, $1, $2; ¦/* a comment
add.s32 $0, $1, $2; ¦/ a comment
add.s32 $0, $1, ¦é;
add.s32 $0, $1, $2¦；
.reg .b32 ¦t; mov.s32 t, $1; add.s32 $0, t, $2;
{ add.s32 $0, $1, $2; ¦.loc 1 1 1; }
¦.version 8.0; add.s32 $0, $1, $2;
¦.entry k() { add.s32 $0, $1, $2; }
¦.func f() { add.s32 $0, $1, $2; }
{ ¦.shared .b32 t; add.s32 $0, $1, $2; }
{ ¦.local .b32 t[4]; add.s32 $0, $1, $2; }
{ ¦.param .b32 t; add.s32 $0, $1, $2; }
{ .pragma ¦"nounroll"; add.s32 $0, $1, $2; }
{ ¦.branchtargets a, b; add.s32 $0, $1, $2; }
{ ¦.global .b32 t; add.s32 $0, $1, $2; }
{ ¦.b32 t; add.s32 $0, $1, $2; }
.reg .b32 ¦t; add.s32 $0, $1, $2;
{ .reg ¦t; add.s32 $0, $1, $2; }
{ .reg .b32¦; add.s32 $0, $1, $2; }
{ .reg .b32 ¦$0; add.s32 $0, $1, $2; }
{ .reg .b32 t, ¦; add.s32 $0, $1, $2; }
{ .reg .b32 t ¦add.s32 $0, $1, $2; }
{ .reg .b32 t, ¦t; add.s32 $0, $1, $2; }
{ .reg .b32 t<¦0>; add.s32 $0, $1, $2; }
{ .reg .b32 t<¦1025>; add.s32 $0, $1, $2; }
{ .reg .b32 t<¦99999999999>; add.s32 $0, $1, $2; }
{ .reg .b32 t<¦$1>; add.s32 $0, $1, $2; }
{ .reg .b32 t<4¦; add.s32 $0, $1, $2; }
{ .reg .b32 t<2>, ¦t1; add.s32 $0, $1, $2; }
{ .reg .b32 ¦%laneid; add.s32 $0, $1, $2; }
{ .reg .b32 ¦%r1; mov.b32 %r1, 5; add.s32 $0, $1, $2; }
{ .reg .b32 ¦%t<4>; mov.b32 %t1, 5; add.s32 $0, $1, $2; }
{ .reg .b32 ¦WARP_SZ; add.s32 $0, $1, $2; }
{ .reg .pred ¦_; add.s32 $0, $1, $2; }
¦again: add.s32 $0, $1, $2;
{ again: add.s32 $0, $1, $2; ¦again: }
{ ¦$0: add.s32 $0, $1, $2; }
add.s32 $0, $1, $2; bra ¦again;
{ add.s32 $0, $1, $2; } { .reg .b32 t; } mov.s32 $0, ¦t;
{ { .reg .b32 t; mov.s32 t, $1; } add.s32 $0, ¦t, $2; }
{ .reg .b32 t<2>; mov.s32 t1, $1; add.s32 $0, ¦t2, $2; }
add.s32 $0, $1, ¦%r1; add.s32 $0, $0, $2;
mov.s32 ¦%r1, $1; add.s32 $0, $1, $2;
mov.pred ¦%p0, 1; add.s32 $0, $1, $2;
mov.s32 $0, ¦%nothing; add.s32 $0, $1, $2;
ld.param.u64 $0, [¦k_param_0]; add.s32 $0, $1, $2;
call ¦printf, ($1, $2, $0);
call (¦retval0), printf, ($1, $2, $0);
@¦$0 add.s32 $0, $1, $2;
@! ¦$0 add.s32 $0, $1, $2;
@¦p add.s32 $0, $1, $2;
@¦; add.s32 $0, $1, $2;
add.s32 $0, $1, $2, a¦$1;
add.s32 $0, $1¦$2;
add.s32 $0, ¦$10, $2;
add.s32 $0, $1¦_, $2;
add.s32¦$0, $1, $2;
add.s32 $0, $1, 1¦a; add.s32 $0, $0, $2;
add.f32 $0, $1, 0¦f3F80; add.s32 $0, $0, $2;
add.s32 $0, $1, 0¦x; add.s32 $0, $0, $2;
¦Add.s32 $0, $1, $2;
¦%add.s32 $0, $1, $2;
¦5 add.s32 $0, $1, $2;
$0 ¦= $1 + $2;
add.s32 $0, ¦= $1, $2;
¦(add.s32 $0, $1, $2);
¦[$1] add.s32 $0, $1, $2;
¦, add.s32 $0, $1, $2;
add.s32 $0, $1, $2¦: nothing;
add.s32 $0, $1, ¦@p; add.s32 $0, $1, $2;
add.s32 $0, $1, $2; ¦\n
""".strip("\n").split("\n")


@tj.kernel(threads=32)
def wrong(TEXT: tj.constexpr):
    i = tj.thread_id()
    tj.ptx(TEXT, out=tj.int32, inputs=(i, 2))


def test_each_wrong_text_is_an_error_with_the_column_of_its_fault():
    for marked in WRONG:
        column, text = marked.index("¦") + 1, marked.replace("¦", "")
        with pytest.raises(tj.KernelTypeError, match=rf"\(column {column} of the text\)") as error:
            wrong.compile(TEXT=text, target="sm_90a")
        assert error.value.hint and error.value.span.text.strip().startswith("tj.ptx(TEXT")


#: texts with the place of an operand of a wrong type, the type of the output, and the inputs
MISTYPED = [
    ("add.f32 $0, $1, ¦$2;", tj.float32, "(x.astype(tj.float32), 1)", "number of type int32; add.f32 would take"),
    ("add.s32 $0, $1, ¦$2;", tj.int32, "(x, 1.5)", "number of type float32; add.s32 would"),
    ("{ .reg .f32 t; mul.rn.f32 t, ¦$1, $2; mov.f32 $0, t; }", tj.float32, "(2, x.astype(tj.float32))",
     "number of type int32; mul.f32"),
    ("add.s64 $0, ¦$1, $2;", tj.int64, "(x, 1)", "is int32, in a register of 32 bits; add.s64 needs 64 bits"),
    ("add.f64 ¦$0, $1, $1;", tj.float32, "(x.astype(tj.float32),)", "is float32, in a register of 32 bits; add.f64"),
    ("add.f32 ¦$0, $1, $1;", tj.float16, "(x.astype(tj.float16),)", "is float16, in a register of 16 bits; add.f32"),
    ("add.rn.f16x2 $0, ¦$1, $1;", tj.int32, "(x.astype(tj.float16),)", "add.f16x2 needs 32 bits"),
    ("selp.b32 $0, 1, 0, ¦$1;", tj.int32, "(x > 3,)", "is bool_, in a register of 16 bits, not a predicate"),
    ("setp.eq.s32 ¦$0, $1, 0;", tj.bool_, "(x,)", "not a predicate"),
    ("and.pred ¦$0, $1, $1;", tj.bool_, "(x > 3,)", "not a predicate"),
]


@pytest.mark.parametrize("form", ["tile", "scalar"])
@pytest.mark.parametrize(("marked", "out", "inputs", "message"), MISTYPED, ids=[case[0] for case in MISTYPED])
def test_an_operand_of_a_wrong_type_is_an_error_with_its_column(marked, out, inputs, message, form):
    load = {"tile": "x = tj.cta.load(X[0:32])", "scalar": "x = X[0]"}[form]
    text, column = marked.replace("¦", ""), marked.index("¦") + 1
    k = tj.kernel(threads=32)(source_of(
        f"def k(X):\n    {load}\n    y = tj.ptx({text!r}, out=tj.{out}, inputs={inputs})\n"
    ))
    with pytest.raises(tj.KernelTypeError, match=rf"{re.escape(message)}.*\(column {column} of the text\)") as error:
        k.compile(tj.spec(32, tj.int32), target="sm_90a")
    assert error.value.hint


def test_a_text_of_several_lines_has_the_line_too():
    with pytest.raises(tj.KernelTypeError, match=r"\$7 doesn't exist \(line 3, column 18 of the text\)"):
        wrong.compile(TEXT="{\n  .reg .b32 t;\n  add.s32 $0, t, $7;\n}", target="sm_90a")


@pytest.mark.parametrize("text", [
    "{" * 100_000, "{" * 60 + "add.s32 $0, $1, $2;" + "}" * 60, "(" * 50_000, "$" * 50_001,
    "{ .reg .b32 " + "t, " * 20_000,
])
def test_a_long_wrong_text_is_an_error(text):
    with pytest.raises(TextError):
        read(text, 1, 2)


#: parts of texts, which say something or nothing
PARTS = [
    "$0", "$1", "$2", "$$", "$", "{", "}", " ", ",", ";", "[", "]", "(", ")", ":", "@", "!", "%tid.x", "t", "t0", "p",
    ".reg", ".b32", "<2>", "add.s32", "bra", "1", "0x7", "-", "|", "// x\n", "/* x */", "\n",
]


@given(st.lists(st.sampled_from(PARTS), max_size=30).map("".join))
@example("t; t $0, $1, $2;")
@example("{t: bra t; a $0,$1,$2;}{a $0,{$1,$2};;}".replace(";;", ";"))
@example("{ .reg .b32 $$, $$1, t$$; a [$0], ($1), -$2, $$|$$1, t$$; }")
def test_what_the_reader_accepts_llvm_compiles(text):
    try:
        read(text, 1, 2)
    except TextError:
        return
    with pytest.MonkeyPatch.context() as patch:
        not_assembled(patch)
        wrong.compile(TEXT=text, target="sm_90a")


def not_assembled(patch):
    """Keep PTX that ptxas refuses from the programs that it assembles after the tests."""
    patch.setattr(pipeline, "generate", generate)


def compiled_ptx(kernel, *args):
    return kernel.compile(*args, target="sm_90a").ptx


@tj.kernel(threads=32)
def clocks(X: tj.Tensor, PURE: tj.constexpr):
    a = tj.ptx("mov.u32 $0, %clock;", out=tj.uint32, pure=PURE)
    b = tj.ptx("mov.u32 $0, %clock;", out=tj.uint32, pure=PURE)
    tj.ptx("mov.u32 $0, %clock;", out=tj.uint32, pure=PURE)
    X[tj.thread_id()] = b - a


def test_volatile_texts_are_neither_merged_nor_dropped():
    x = np.zeros(32, U32)
    assert compiled_ptx(clocks, x, None).count("%clock;") == compiled_ptx(clocks, x, False).count("%clock;") == 3
    assert compiled_ptx(clocks, x, True).count("%clock;") < 3


@tj.kernel(threads=32)
def written(A: tj.Tensor, B: tj.Tensor, address: tj.int64, PURE: tj.constexpr):
    i = tj.thread_id()
    before = A[i]
    if PURE:
        before += tj.ptx("cvt.u32.u64 $0, $1;", out=tj.int32, inputs=(address,))
    else:
        tj.ptx("st.global.s32 [$0], $1;", inputs=(address, 5))
    B[i] = A[i] - before


def test_loads_stay_after_a_volatile_text_that_may_write_what_they_read():
    arrays = tj.spec(32, tj.int32), tj.spec(32, tj.int32)
    volatile, pure = (written.compile(*arrays, 0, PURE=pure, target="sm_90a") for pure in (False, True))
    assert volatile.ptx.count("ld.global") == 2
    # LLVM reuses what it loads through such a pointer
    assert "noalias" not in volatile.llvm_ir and "noalias" in pure.llvm_ir


@tj.kernel(threads=32)
def exchanged(X: tj.Tensor, N: tj.int32):
    i = tj.thread_id()
    x = tj.ptx("shfl.sync.bfly.b32 $0, $1, 1, 31, -1;", out=tj.int32, inputs=(X[i],))
    if i < N:
        X[i] = x


def test_a_shuffle_does_not_sink_into_a_branch(where):
    x = np.arange(32, dtype=I32)
    exchanged[1](x, 5)
    np.testing.assert_array_equal(x, [1, 0, 3, 2, 5, *range(5, 32)])


@tj.kernel(threads=64)
def lanes(X: tj.Tensor, N: tj.constexpr):
    x = tj.cta.load(X[0:N])
    y = tj.ptx("activemask.b32 $0; add.u32 $0, $0, $1;", out=tj.uint32, inputs=(x,))
    tj.cta.store(X[0:N], y - x)


@pytest.mark.parametrize("n", [5, 32, 33, 45, 64])
def test_padding_runs_no_volatile_text(n, where):
    x = np.arange(n, dtype=U32)
    lanes[1](x, n)
    first = min(n, 32)
    assert set(x[:32].tolist()) == {2**first - 1}
    assert n <= 32 or set(x[32:].tolist()) == {2 ** (n - 32) - 1}


@tj.kernel(threads=32)
def broadcast(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, n: tj.int32):
    x, y = tj.warp.load(A[0:5, 0:7]), tj.warp.load(B[0:7])
    z = tj.ptx("mad.lo.s32 $0, $1, $2, $3;", out=tj.int32, inputs=(x, y, n))
    w = tj.ptx("sub.s32 $0, $1, $2;", out=tj.int32, inputs=(y[None, :], tj.max(x, axis=1)[:, None]))
    tj.warp.store(C[0, 0:5, 0:7], z)
    tj.warp.store(C[1, 0:5, 0:7], w)


def test_tiles_and_scalars_broadcast(where):
    a, b = np.arange(35, dtype=I32).reshape(5, 7), np.arange(7, dtype=I32) * 3
    c = np.zeros((2, 5, 7), I32)
    broadcast[1](a, b, c, 11)
    np.testing.assert_array_equal(c, [a * b + 11, b - a.max(1)[:, None]])


@tj.kernel(threads=32)
def unknown(X: tj.Tensor):
    X[0] = 1
    X[tj.thread_id()] = tj.ptx("frobnicate.s32 $0, $1;", out=tj.int32, inputs=(X[0],))


def test_an_unknown_instruction_compiles_and_the_simulator_refuses_it_before_anything_runs(monkeypatch):
    not_assembled(monkeypatch)
    x = np.zeros(32, I32)
    assert "frobnicate.s32 %r" in compiled_ptx(unknown, x)
    with tj.use_device("sim"), pytest.raises(tj.UnsupportedInstructionError, match="frobnicate") as error:
        unknown[1](x)
    assert x[0] == 0 and error.value.span.text.strip().startswith("X[tj.thread_id()] = tj.ptx(")


@tj.kernel(threads=32)
def bad(X: tj.Tensor, CASE: tj.constexpr):
    x = tj.warp.load(X[0:32])
    if CASE == "list":
        tj.ptx("neg.s32 $0, $1;", out=tj.int32, inputs=x)
    if CASE == "region":
        tj.ptx("neg.s32 $0, $1;", out=tj.int32, inputs=(X[0:32],))
    if CASE == "string":
        tj.ptx("neg.s32 $0, $1;", out=tj.int32, inputs=("a",))
    if CASE == "type":
        tj.ptx("neg.s32 $0, $1;", out=(tj.int32, int), inputs=(x,))
    if CASE == "text":
        tj.ptx(5, out=tj.int32, inputs=(x,))
    if CASE == "pure":
        tj.ptx("neg.s32 $0, $1;", out=tj.int32, inputs=(x,), pure=1)
    if CASE == "pure without outputs":
        tj.ptx("membar.gl;", pure=True)
    if CASE == "impure":
        tj.ptx("membar.gl; neg.s32 $0, $1;", out=tj.int32, inputs=(x,), pure=True)
    if CASE == "outputs":
        tj.ptx("nothing;", out=(tj.int32,) * 9)
    if CASE == "inputs":
        tj.ptx("nothing;", inputs=(1,) * 17)
    if CASE == "shapes":
        tj.ptx("add.s32 $0, $1, $2;", out=tj.int32, inputs=(x, tj.warp.load(X[0:31])))
    if CASE == "scopes":
        tj.ptx("add.s32 $0, $1, $2;", out=tj.int32, inputs=(x, tj.thread.load(X[0:32])))
    if CASE == "branch" and tj.thread_id() < 3:
        tj.ptx("neg.s32 $0, $1;", out=tj.int32, inputs=(x,))


@pytest.mark.parametrize(("case", "error", "message"), [
    ("list", tj.KernelTypeError, "inputs= takes a tuple; this is"),
    ("region", tj.KernelTypeError, "an input of tj.ptx is a scalar or a local tile; this is a global region"),
    ("string", tj.KernelTypeError, "an input of tj.ptx is a scalar or a local tile; this is"),
    ("type", tj.KernelTypeError, "<class 'int'> is not an element type"),
    ("text", tj.KernelTypeError, "the text must be a string; this is 5"),
    ("pure", tj.KernelTypeError, "pure= is True, False or None; got 1"),
    ("pure without outputs", tj.KernelTypeError, "a pure text without outputs would be dropped"),
    ("impure", tj.KernelTypeError, r"membar does more than compute.*column 1 of"),
    ("outputs", tj.KernelTypeError, "at most 8 outputs; got 9"),
    ("inputs", tj.KernelTypeError, "at most 16 inputs; got 17"),
    ("shapes", tj.KernelTypeError, "don't broadcast"),
    ("scopes", tj.KernelTypeError, "ptx can't combine a tile of a"),
    ("branch", tj.DispatchError, "warp.ptx at .* needs all threads of its warp"),
])
def test_bad_arguments(case, error, message):
    with pytest.raises(error, match=message) as raised:
        bad.compile(tj.spec(32, tj.int32), CASE=case, target="sm_90a")
    assert raised.value.hint and raised.value.span is not None
