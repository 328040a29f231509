"""Floating-point arithmetic."""

from __future__ import annotations

from ..decode.emitter import BlockWriter, Entries, Form, Match, approximated, expression, flags
from ..decode.names import PTX_DTYPE, SIZE

_OPERATOR = {"add": "+", "sub": "-", "mul": "*", "div": "/"}


def _ftz(e: BlockWriter, m: Match, values: list[str]) -> list[str]:
    return [e.temp(f"ftz({x})") for x in values] if m.get("ftz") else values


def _result(e: BlockWriter, m: Match, dtype: str, expression: str) -> None:
    if m.get("ftz"):
        expression = f"ftz({expression})"
    if m.get("sat"):
        expression = f"saturate({expression})"
    e.dst(dtype, expression)


def _rounded(root: str, t: str, mode: str, values: list[str]) -> str:
    """Return the expression of an operation in f32 or f64. NumPy's operators round to nearest even."""
    if mode == "rn":
        return f"fma_{t}({', '.join(values)})" if root == "fma" else f"{values[0]} {_OPERATOR[root]} {values[1]}"
    if root == "sub":
        root, values = "add", [values[0], f"-{values[1]}"]
    return f"{root}_dir_{t}({', '.join(values)}, {mode!r})"


def arithmetic(e: BlockWriter, m: Match) -> None:
    """Emit add, sub, mul, div, fma or mad in f32 or f64."""
    dtype, mode = PTX_DTYPE[m["t"]], m.get("round") or "rn"
    root = "fma" if e.ins.root == "mad" else e.ins.root
    values = _ftz(e, m, [e.src(i, dtype) for i in range(1, 4 if root == "fma" else 3)])
    if mode == "approx":
        _result(e, m, dtype, f"div_approx({', '.join(values)})")
    else:
        _result(e, m, dtype, _rounded(root, m["t"], "rn" if mode == "full" else mode, values))


def mixed(e: BlockWriter, m: Match) -> None:
    """Emit add, sub or fma of f16 or bf16 with f32: all operands but the last are converted to f32."""
    narrow, last = PTX_DTYPE[m["a"]], len(e.ins.operands) - 1
    wide = "bf16_to_f32({})" if m["a"] == "bf16" else "{}.astype(f4)"
    values = [e.temp(wide.format(e.src(i, narrow))) for i in range(1, last)] + [e.src(last, "f4")]
    _result(e, m, "f4", _rounded(e.ins.root, "f32", m.get("round") or "rn", values))


def half(e: BlockWriter, m: Match) -> None:
    t, base = m["t"], m["t"].removesuffix("x2")
    n = 3 if e.ins.root == "fma" else 2
    dtype = PTX_DTYPE[t]
    operands = [e.src(i + 1, dtype) for i in range(n)]
    name = f"{e.ins.root}_{base}"
    if m.get("ftz") or m.get("sat") or m.get("relu"):
        modifiers = flags(m, "ftz", "sat", "relu")
        e.dst(dtype, f"half_modified({name}, {t!r}, {PTX_DTYPE[base]}, {modifiers}, {', '.join(operands)})")
        return
    e.dst(dtype, _each_half(name, t, *operands))


def _each_half(name: str, t: str, *operands: str) -> str:
    base, arguments = t.removesuffix("x2"), ", ".join(operands)
    return f"{name}({arguments})" if t == base else f"halves({name}, {PTX_DTYPE[base]}, {arguments})"


def f32x2(e: BlockWriter, m: Match) -> None:
    operands = ", ".join(e.src(i, "u8") for i in range(1, 4 if e.ins.root == "fma" else 3))
    e.dst("u8", f"{e.ins.root}{'_ftz' if m['ftz'] else ''}_f32x2({operands})")


def minmax(e: BlockWriter, m: Match) -> None:
    t, base = m["t"], m["t"].removesuffix("x2")
    dtype = PTX_DTYPE[t]
    name = f"{e.ins.root}_nan" if m.get("nan") else f"{e.ins.root}_float"
    if base == "bf16":
        name = name.replace("_float", "") + "_bf16"
    operands = _ftz(e, m, [e.src(i, dtype) for i in range(1, len(e.ins.operands))])
    result = operands[0]
    for other in operands[1:]:
        result = _each_half(name, t, result, other)
    e.dst(dtype, result)


def sign(e: BlockWriter, m: Match) -> None:
    """Emit neg or abs as an operation on the sign bit.

    In f32 and f64 without .ftz, emit a float operation if the operand has a float view and no unsigned view.
    """
    t = m["t"]
    unsigned = f"u{SIZE[PTX_DTYPE[t]]}"
    if t in ("f32", "f64") and not m.get("ftz"):
        dtype = e.either(unsigned, PTX_DTYPE[t], 1)
        if dtype != unsigned:
            value = e.src(1, dtype)
            e.dst(dtype, f"-{value}" if e.ins.root == "neg" else f"abs({value})")
            return
    mask = {"f16": 0x8000, "bf16": 0x8000, "f32": 1 << 31, "f64": 1 << 63}.get(t, 0x80008000)
    bits = 8 * int(unsigned[1])
    value = e.src(1, unsigned, t if t in ("f32", "f64") else "")
    if m.get("ftz"):
        value = e.temp(f"ftz({e.src(1, 'f4')}).view(u4)")
    if e.ins.root == "neg":
        e.dst(unsigned, f"{value} ^ {e.names.constant(mask, unsigned)}")
    else:
        e.dst(unsigned, f"{value} & {e.names.constant(~mask & ((1 << bits) - 1), unsigned)}")


def unary(e: BlockWriter, m: Match) -> None:
    dtype = PTX_DTYPE[m["t"]]
    (a,) = _ftz(e, m, [e.src(1, dtype)])
    mode = m["round"]
    one = e.source("1.0", dtype)
    if mode in ("rn", "approx"):
        _result(e, m, dtype, f"sqrt({a})" if e.ins.root == "sqrt" else f"{one} / {a}")
    elif e.ins.root == "sqrt":
        _result(e, m, dtype, f"sqrt_dir_{m['t']}({a}, {mode!r})")
    else:
        _result(e, m, dtype, f"div_dir_{m['t']}({one}, {a}, {mode!r})")


def approximate(e: BlockWriter, m: Match) -> None:
    """Emit ex2, lg2, sin, cos, tanh or rsqrt in f32, within the ISA's error bounds."""
    (a,) = _ftz(e, m, [e.src(1, "f4")])
    _result(e, m, "f4", f"{e.ins.root}({a})")


def approximate_half(e: BlockWriter, m: Match) -> None:
    t, dtype = m["t"], PTX_DTYPE[m["t"]]
    e.dst(dtype, _each_half(f"{e.ins.root}_{t.removesuffix('x2')}", t, e.src(1, dtype)))


APPROXIMATE_FTZ_F64 = expression("f8", "{root}_ftz_f64({0})", "f8")
ROUND = r"(?:\.(?P<round>rn|rz|rm|rp))?"
F32 = ROUND + r"(?P<ftz>\.ftz)?(?P<sat>\.sat)?\.(?P<t>f32)"
F64 = ROUND + r"\.(?P<t>f64)"
HALF = r"(?:\.rn)?(?P<ftz>\.ftz)?(?P<sat>\.sat)?\.(?P<t>f16|f16x2)"
BF16 = r"(?:\.rn)?\.(?P<t>bf16|bf16x2)"
MIXED = ROUND + r"(?P<sat>\.sat)?\.f32\.(?P<a>f16|bf16)"
X2 = r"(?:\.rn)?(?P<ftz>\.ftz)?\.f32x2"
ARITHMETIC = ((F32, arithmetic), (F64, arithmetic), (HALF, half), (BF16, half), (X2, f32x2))
MINMAX = (
    (r"(?P<ftz>\.ftz)?(?P<nan>\.NaN)?\.(?P<t>f32)", minmax), (r"\.(?P<t>f64)", minmax),
    (r"(?P<nan>\.NaN)?\.(?P<t>f16|f16x2|bf16|bf16x2)", minmax),
)
SIGN = ((r"(?P<ftz>\.ftz)?\.(?P<t>f32)", sign), (r"\.(?P<t>f64|f16|f16x2|bf16|bf16x2)", sign))
# A GPU's results may have larger errors, which the PTX ISA bounds for each form.
ROUNDED = approximated("correctly rounded, within 0.5 ulp")
DOUBLE = approximated("computed in float64, then rounded: within 0.51 ulp")
UNARY: tuple[Form, ...] = (
    (r"\.(?P<round>rn|rz|rm|rp)(?P<ftz>\.ftz)?\.(?P<t>f32)", unary),
    (r"\.(?P<round>rn|rz|rm|rp)\.(?P<t>f64)", unary),
    (r"\.(?P<round>approx)(?P<ftz>\.ftz)?\.(?P<t>f32)", unary, ROUNDED),
)
APPROX: tuple[Form, ...] = ((r"\.approx(?P<ftz>\.ftz)?\.f32", approximate, DOUBLE),)
APPROX_HALF: tuple[Form, ...] = (
    (r"\.approx\.(?P<t>f16|f16x2)", approximate_half, DOUBLE),
    (r"\.approx(?:\.ftz)?\.(?P<t>bf16|bf16x2)", approximate_half, approximated(f"{DOUBLE.how}; .ftz is ignored")),
)
UPPER = approximated("reads and writes only the upper 32 bits: relative error at most 2^-19")
ENTRIES: Entries = {
    "add": (*ARITHMETIC, (MIXED, mixed)),
    "sub": (*ARITHMETIC, (MIXED, mixed)),
    "mul": ARITHMETIC,
    "div": ((F32, arithmetic), (F64, arithmetic),
            (r"\.(?P<round>approx)(?P<ftz>\.ftz)?(?P<sat>\.sat)?\.(?P<t>f32)", arithmetic,
             approximated(f"{ROUNDED.how}; 0, or NaN for infinite dividends, if 2^126 < |divisor| < infinity")),
            (r"\.(?P<round>full)(?P<ftz>\.ftz)?(?P<sat>\.sat)?\.(?P<t>f32)", arithmetic, ROUNDED)),
    "fma": ((F32, arithmetic), (F64, arithmetic),
            (r"\.rn(?P<ftz>\.ftz)?(?P<sat>\.sat)?(?P<relu>\.relu)?\.(?P<t>f16|f16x2)", half),
            (r"\.rn(?P<relu>\.relu)?\.(?P<t>bf16|bf16x2)", half), (X2, f32x2),
            (MIXED, mixed)),
    "mad": ((F32, arithmetic), (F64, arithmetic)),
    "min": MINMAX,
    "max": MINMAX,
    "neg": SIGN,
    "abs": SIGN,
    "sqrt": UNARY,
    "rcp": (*UNARY, (r"\.approx\.ftz\.f64", APPROXIMATE_FTZ_F64, UPPER)),
    "rsqrt": (*APPROX, (r"\.approx\.ftz\.f64", APPROXIMATE_FTZ_F64, UPPER),
              (r"\.approx\.f64", expression("f8", "rsqrt_f64({0})", "f8"),
               approximated("rounded twice: within 1.5 ulp"))),
    "ex2": (*APPROX, *APPROX_HALF),
    "tanh": ((r"\.approx\.f32", approximate, DOUBLE), *APPROX_HALF),
    "lg2": APPROX,
    "sin": APPROX,
    "cos": APPROX,
    # the sign of the first operand with the magnitude of the second
    "copysign": ((r"\.(?P<t>f32|f64)", expression("t", "copysign({1}, {0})", "t", "t")),),
    "testp": ((r"\.(?P<how>finite|infinite|number|notanumber|normal|subnormal)\.(?P<t>f32|f64)",
               expression("p", "testp({0}, {how!r})", "t")),),
}
