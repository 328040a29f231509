"""cvt: conversions between integers, floats and packed narrow floats."""

from __future__ import annotations

from ..decode.emitter import BlockWriter, Entries, Match, expression
from ..decode.names import PTX_DTYPE


def int_to_int(e: BlockWriter, m: Match) -> None:
    source, target = PTX_DTYPE[m["s"]], PTX_DTYPE[m["t"]]
    value = e.src(1, source)
    if m["sat"]:
        e.dst(target, f"int_sat({value}, {target})")
    elif source == target or (source[1] == target[1]):
        e.dst(target, value if source == target else f"{value}.view({target})")
    else:
        e.dst(target, f"{value}.astype({target})")


def _float_source(e: BlockWriter, m: Match) -> str:
    t = m["s"]
    value = e.src(1, PTX_DTYPE[t])
    if t == "bf16":
        value = f"bf16_to_f32({value})"
    return f"ftz({value})" if m.get("ftz") and t == "f32" else value


def float_to_int(e: BlockWriter, m: Match) -> None:
    target = PTX_DTYPE[m["t"]]
    value = _float_source(e, m)
    e.dst(target, f"float_to_int({value}, {target}, {m['round']!r}, {m['s'] == 'f64'})")


def int_to_float(e: BlockWriter, m: Match) -> None:
    source, t = PTX_DTYPE[m["s"]], m["t"]
    value = e.src(1, source)
    if m["round"] == "rn" and (t == "f64" or (t == "f32" and source[1] in "1248")):
        expression = f"{value}.astype({PTX_DTYPE[t]})"
    else:
        expression = f"int_to_float({value}, {t!r}, {m['round']!r})"
    e.dst(PTX_DTYPE[t], f"saturate({expression})" if m["sat"] and t != "bf16" else expression)


def float_to_float(e: BlockWriter, m: Match) -> None:
    t, s = m["t"], m["s"]
    mode = m["round"] or ""
    value = _float_source(e, m)
    if mode in ("rni", "rzi", "rmi", "rpi"):
        if t != s:
            e.fail("rounding to an integral value must keep the type")
        expression = f"round_integral({value}, {mode!r})"
        if t == "bf16":
            expression = f"f32_to_bf16({expression})"
    else:
        narrows = {"f64": 3, "f32": 2, "f16": 1, "bf16": 1}
        if narrows[t] < narrows[s] and not mode:
            e.fail("a narrowing conversion needs a rounding mode")
        expression = f"float_to_float({value}, {t!r}, {mode or 'rn'!r})"
    if m["ftz"] and t == "f32":
        expression = f"ftz({expression})"
    if m["sat"]:
        expression = f"saturate({expression})"
    e.dst(PTX_DTYPE[t], expression)


INT = "[us](?:8|16|32|64)"
FLOAT = "f16|bf16|f32|f64"
INTEGRAL = r"\.(?P<round>rni|rzi|rmi|rpi)"
ROUND = r"\.(?P<round>rn|rz|rm|rp)"
FP8 = r"(?P<{}>e4m3|e5m2)x2"
ENTRIES: Entries = {
    "cvt": (
        (rf"(?P<sat>\.sat)?\.(?P<t>{INT})\.(?P<s>{INT})", int_to_int),
        (INTEGRAL + rf"(?P<ftz>\.ftz)?(?P<sat>\.sat)?\.(?P<t>{INT})\.(?P<s>{FLOAT})", float_to_int),
        (ROUND + rf"(?P<sat>\.sat)?\.(?P<t>{FLOAT})\.(?P<s>{INT})", int_to_float),
        (rf"(?:\.(?P<round>rn|rz|rm|rp|rni|rzi|rmi|rpi))?(?P<ftz>\.ftz)?(?P<sat>\.sat)?\.(?P<t>{FLOAT})\.(?P<s>{FLOAT})",
         float_to_float),
        (ROUND + r"(?P<relu>\.relu)?(?P<satfinite>\.satfinite)?\.(?P<t>f16|bf16)\.f32",
         expression("t", "narrow({0}, {t!r}, {round!r}, {relu!r}, {satfinite!r})", "f4")),
        (ROUND + r"(?P<relu>\.relu)?(?P<satfinite>\.satfinite)?\.(?P<t>f16|bf16)x2\.f32",
         expression("u4", "pack_f16x2({0}, {1}, {t!r}, {round!r}, {relu!r}, {satfinite!r})", "f4", "f4")),
        (r"\.rn\.satfinite(?P<relu>\.relu)?\." + FP8.format("t") + r"\.f32",
         expression("u2", "pack_fp8({0}, {1}, {t!r}, {relu!r})", "f4", "f4")),
        (r"\.rn\.satfinite(?P<relu>\.relu)?\." + FP8.format("t") + r"\.f16x2",
         expression("u2", "f16x2_to_fp8({0}, {t!r}, {relu!r})", "u4")),
        (r"\.rn(?P<relu>\.relu)?\.f16x2\." + FP8.format("s"),
         expression("u4", "fp8_to_f16x2({0}, {s!r}, {relu!r})", "u2")),
        (r"\.(?P<round>rna|rn|rz)(?:\.satfinite)?\.tf32\.f32", expression("u4", "to_tf32({0}, {round!r})", "f4")),
    ),
}
