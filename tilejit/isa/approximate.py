"""Hardware approximations of float32 functions."""

from __future__ import annotations

from ..dtypes import float32
from .row import F32, Direction, Row, register


def _fast(name: str, meaning: str, ptx: tuple[int, int] = (6, 0), arguments: tuple[str, ...] = ("x",)) -> Row:
    return Row(
        name=name,
        text=f"{name} $result, {', '.join(f'${argument}' for argument in arguments)};",
        meaning=meaning,
        operands=(
            register("result", F32, Direction.OUT, element=float32),
            *(register(argument, F32, element=float32) for argument in arguments),
        ),
        since=75, ptx=ptx, source='PTX ISA, "Floating Point Instructions"',
    )


#: each is one PTX instruction; all but TANH flush subnormals to zero
EX2 = _fast("ex2.approx.ftz.f32", "2 to the power $x")
LG2 = _fast("lg2.approx.ftz.f32", "logarithm to base 2")
SIN = _fast("sin.approx.ftz.f32", "sine")
COS = _fast("cos.approx.ftz.f32", "cosine")
TANH = _fast("tanh.approx.f32", "hyperbolic tangent", (7, 0))
RCP = _fast("rcp.approx.ftz.f32", "1 / $x")
SQRT = _fast("sqrt.approx.ftz.f32", "square root")
RSQRT = _fast("rsqrt.approx.ftz.f32", "1 / square root")
DIV = _fast("div.approx.ftz.f32", "$x / $y", arguments=("x", "y"))

ROWS = (
    EX2, LG2, SIN, COS, TANH, RCP, SQRT, RSQRT, DIV,
    _fast("ex2.approx.f32", "2 to the power $x"),
    _fast("lg2.approx.f32", "logarithm to base 2"),
    _fast("sin.approx.f32", "sine"),
    _fast("cos.approx.f32", "cosine"),
    _fast("rcp.approx.f32", "1 / $x"),
    _fast("sqrt.approx.f32", "square root"),
    _fast("rsqrt.approx.f32", "1 / square root"),
    _fast("div.approx.f32", "$x / $y", arguments=("x", "y")),
)
