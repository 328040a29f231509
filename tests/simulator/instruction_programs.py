"""Small programs for each row of the simulator's table of instructions, with the results that NumPy gives.

A case names the instructions that it is for, and runs them; a bound of an approximate row is the number in its text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.simulator import asynchronous_instruction_programs as asynchronous
from tests.simulator import matrix_programs, tma_programs, wgmma_programs, wmma_programs
from tests.simulator import ring_kernels as rings
from tests.simulator import tensor_programs as tensor
from tests.simulator.cluster_kernels import module as cluster_module
from tests.simulator.small_kernels import aligned, evaluate, kernel, pairs, pointer, same_bits, simulate
from tilejit.errors import SimulationError
from tilejit.simulator import Report, run
from tilejit.simulator.instructions import InstructionRow, instruction_rows

BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Case:
    """A program for some instructions, each written as opcode and modifiers; `play` runs and checks it.

    kind: the fidelity for which its results are evidence.
    """

    instructions: tuple[str, ...]
    play: Callable[[], object]
    kind: str = "exact"


CASES: list[Case] = []


def row_of(instruction: str) -> tuple[InstructionRow, str]:
    """Return the row of an instruction, and its opcode."""
    opcode, dot, modifiers = instruction.partition(".")
    rows = [row for rows in instruction_rows().values() for row in rows if opcode in row.opcodes]
    return next(row for row in rows if re.fullmatch(row.pattern, dot + modifiers)), opcode


def case(*instructions: str, kind: str = "exact") -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Make a case of a function that runs and checks a program."""

    def add(play: Callable[[], object]) -> Callable[[], object]:
        CASES.append(Case(instructions, play, kind))
        return play

    return add


# instructions on the registers of one thread

def drawn(dtypes: str, seed: int = 0) -> Arrays:
    """Return operands of these types: edge cases and random bits, but of floats small multiples of 1/8."""
    rng = np.random.default_rng(seed)
    result = []
    for i, dtype in enumerate(dtypes.split()):
        if dtype[0] == "f":
            result.append((rng.integers(-64, 64, 1200) / 8).astype(dtype))
        elif dtype == "bf16":
            result.append((rng.integers(-64, 64, 1200) / 8).astype(BF16).view("u2"))
        else:
            result.append(pairs(dtype, 1200, seed)[i % 2][:1200] if i < 2 else rng.permutation(result[0]).astype(dtype))
    return tuple(result)


def elementwise(
    text: str, dtypes: str, out: str, reference: Callable[..., Any], *more: str, predicate: bool = False,
    operands: Callable[..., Arrays] = lambda *x: x,
) -> None:
    """Add a case for the first instruction of a text, and for `more`.

    reference: operands to results, in the types of both. operands: changes what is drawn.
    """
    def play() -> None:
        arrays = operands(*drawn(dtypes))
        got = evaluate(text, *arrays, out="u2" if out == "bf16" or predicate else out, predicate=predicate)
        with np.errstate(all="ignore"):
            typed = zip(arrays, dtypes.split(), strict=True)
            expected = reference(*(x.view(BF16) if t == "bf16" else x for x, t in typed))
        if out == "bf16":
            got, expected = got.view(BF16).astype("f4"), expected.astype(BF16).astype("f4")
        same_bits(got, np.asarray(expected).astype("u2" if predicate else got.dtype))

    CASES.append(Case((text.split()[0], *more), play))


def halves(function: Callable[..., Any], dtype: str) -> Callable[..., Any]:
    """A function of packed operands from one of their elements."""
    return lambda *x: np.ascontiguousarray(function(*(v.view(dtype) for v in x)).astype(dtype)).view(x[0].dtype)


def packed(dtypes: str, dtype: str) -> Callable[..., Arrays]:
    """Operands of 32 or 64 bits whose halves are small multiples of 1/8."""
    def draw(*arrays: np.ndarray) -> Arrays:
        rng = np.random.default_rng(3)
        kind = BF16 if dtype == "bf16" else dtype
        return tuple((rng.integers(-64, 64, 2 * x.size) / 8).astype(kind).view(x.dtype) for x in arrays)

    return draw


TWO, THREE = "{d}, {a}, {b};", "{d}, {a}, {b}, {c};"
for _name, _function in {
    "add.s32": lambda a, b: a + b, "sub.s32": lambda a, b: a - b, "mul.lo.s32": lambda a, b: a * b,
    "min.s32": np.minimum, "max.s32": np.maximum, "and.b32": np.bitwise_and, "or.b32": np.bitwise_or,
    "xor.b32": np.bitwise_xor, "mul.hi.s32": lambda a, b: a.astype("i8") * b >> 32,
    "add.sat.s32": lambda a, b: np.clip(a.astype("i8") + b, -(2**31), 2**31 - 1),
    "sub.sat.s32": lambda a, b: np.clip(a.astype("i8") - b, -(2**31), 2**31 - 1),
    "min.relu.s32": lambda a, b: np.maximum(np.minimum(a, b), 0),
    "max.relu.s32": lambda a, b: np.maximum(np.maximum(a, b), 0),
    "max.s32.relu": lambda a, b: np.maximum(np.maximum(a, b), 0),
}.items():
    elementwise(f"{_name} {TWO}", "i4 i4", "i4", _function)
for _name, _function in {
    "div.u32": lambda a, b: a // b, "rem.u32": lambda a, b: a % b,
    "mul24.lo.u32": lambda a, b: (a & 0xFFFFFF).astype("u8") * (b & 0xFFFFFF) & 0xFFFFFFFF,
}.items():
    elementwise(f"{_name} {TWO}", "u4 u4", "u4", _function, operands=lambda a, b: (a, b | 1))
for _name, _function in {
    "mad.lo.s32": lambda a, b, c: a * b + c, "mad.hi.s32": lambda a, b, c: (a.astype("i8") * b >> 32) + c,
    "sad.s32": lambda a, b, c: c + np.maximum(a, b) - np.minimum(a, b),
    "mad.hi.sat.s32": lambda a, b, c: np.clip((a.astype("i8") * b >> 32) + c, -(2**31), 2**31 - 1),
    "dp4a.s32.s32": lambda a, b, c: c + (a.view("i1").astype("i4") * b.view("i1")).reshape(-1, 4).sum(axis=1),
}.items():
    elementwise(f"{_name} {THREE}", "i4 i4 i4", "i4", lambda *x, f=_function: f(*x).astype("i8").astype("i4"))
elementwise(f"dp2a.hi.s32.u32 {THREE}", "i4 u4 i4", "i4", lambda a, b, c: (
    c + (a.view("i2").reshape(-1, 2).astype("i8") * b.view("u1").reshape(-1, 4)[:, 2:]).sum(axis=1)).astype("i4"))
for _name, _simd in {
    "add": np.add, "sub": np.subtract, "absdiff": lambda a, b: abs(a - b), "min": np.minimum, "max": np.maximum,
}.items():
    for _n, _bits in ((2, 16), (4, 8)):
        elementwise(f"v{_name}{_n}.u32.u32.u32.sat {THREE}", "u4 u4 u4", "u4", lambda a, b, c, f=_simd, n=_bits: (
            np.clip(f(a.view(f"u{n // 8}").astype("i8"), b.view(f"u{n // 8}").astype("i8")), 0, (1 << n) - 1)
            .astype(f"u{n // 8}").view("u4")))
        elementwise(f"v{_name}{_n}.s32.s32.u32.add {THREE}", "i4 u4 i4", "i4", lambda a, b, c, f=_simd, n=_bits: (
            c + f(a.view(f"i{n // 8}").astype("i8"), b.view(f"u{n // 8}").astype("i8")).reshape(-1, 32 // n)
            .sum(axis=1)).astype("i4"))
        elementwise(f"v{_name}{_n}.s32.s32.s32 {THREE}", "i4 i4 i4", "i4", lambda a, b, c, f=_simd, n=_bits: (
            f(a.view(f"i{n // 8}").astype("i8"), b.view(f"i{n // 8}").astype("i8")).astype(f"i{n // 8}").view("i4")))


def nth_set_bit(mask: int, base: int, offset: int) -> int:
    """fns, bit by bit."""
    steps = range(base, 32) if offset > 0 else range(base, -1, -1) if offset < 0 else [base]
    found = [i for i in steps if mask >> i & 1]
    return found[max(abs(offset), 1) - 1] if len(found) >= max(abs(offset), 1) else -1


elementwise(f"fns.b32 {THREE}", "u4 u4 i4", "i4", lambda a, b, c: np.vectorize(nth_set_bit)(a, b, c),
            operands=lambda a, b, c: (a, b % 32, c % 17 - 8))
elementwise(f"mad24.lo.u32 {THREE}", "u4 u4 u4", "u4",
            lambda a, b, c: ((a & 0xFFFFFF).astype("u8") * (b & 0xFFFFFF) + c & 0xFFFFFFFF))
elementwise(f"mul.wide.s32 {TWO}", "i4 i4", "i8", lambda a, b: a.astype("i8") * b)
elementwise(f"mad.wide.s32 {THREE}", "i4 i4 i8", "i8", lambda a, b, c: a.astype("i8") * b + c)
elementwise("add.cc.u32 %r20, {a}, {b}; addc.u32 {d}, {c}, 0;", "u4 u4 u4", "u4",
            lambda a, b, c: c + (a.astype("u8") + b >> 32).astype("u4"), "addc.u32")
elementwise("sub.cc.u32 %r20, {a}, {b}; subc.u32 {d}, {c}, 0;", "u4 u4 u4", "u4",
            lambda a, b, c: c - (a < b).astype("u4"), "subc.u32")
elementwise("mad.lo.cc.u32 %r20, {a}, {b}, {c}; madc.hi.u32 {d}, {a}, {b}, 0;", "u4 u4 u4", "u4",
            lambda a, b, c: a.astype("u8") * b + c >> 32, "madc.hi.u32")
elementwise(f"add.u16x2 {TWO}", "u4 u4", "u4", halves(np.add, "u2"))
for _op, _pick in (("min", np.minimum), ("max", np.maximum)):
    elementwise(f"{_op}.u16x2 {TWO}", "u4 u4", "u4", halves(_pick, "u2"))
    elementwise(f"{_op}.s16x2 {TWO}", "u4 u4", "u4", halves(_pick, "i2"))
    elementwise(f"{_op}.s16x2.relu {TWO}", "u4 u4", "u4", halves(lambda a, b, f=_pick: np.maximum(f(a, b), 0), "i2"))
for _name, _function in {
    "neg.s32": lambda a: -a, "abs.s32": abs, "not.b32": lambda a: ~a, "cnot.b32": lambda a: a == 0,
    "popc.b32": lambda a: np.unpackbits(a.view("u1")).reshape(-1, 32).sum(axis=1),
    "clz.b32": lambda a: [32 - int(x).bit_length() for x in a.view("u4")],
    "brev.b32": lambda a: np.packbits(np.unpackbits(a.view("u1"), bitorder="little").reshape(-1, 32)).view(">u4"),
    "bfind.u32": lambda a: [int(x).bit_length() - 1 for x in a.view("u4")],
}.items():
    elementwise(f"{_name} {{d}}, {{a}};", "i4", "i4", _function)
elementwise(f"shl.b32 {TWO}", "u4 u4", "u4", lambda a, b: a << b, operands=lambda a, b: (a, b & 31))
elementwise(f"shr.s32 {TWO}", "i4 u4", "i4", lambda a, b: a >> b.astype("i4"), operands=lambda a, b: (a, b & 31))
elementwise(f"shf.l.wrap.b32 {THREE}", "u4 u4 u4", "u4",
            lambda a, b, c: ((b.astype("u8") << 32 | a) << (c & 31).astype("u8")) >> np.uint64(32))
elementwise("lop3.b32 {d}, {a}, {b}, {c}, 0x96;", "u4 u4 u4", "u4", lambda a, b, c: a ^ b ^ c)
elementwise(f"bfe.u32 {THREE}", "u4 u4 u4", "u4", lambda a, b, c: a >> b & (1 << c) - 1,
            operands=lambda a, b, c: (a, b % 20, c % 12))
elementwise("bfi.b32 {d}, {a}, {b}, 5, 7;", "u4 u4", "u4", lambda a, b: b & ~np.uint32(127 << 5) | (a & 127) << 5)
elementwise(f"bmsk.clamp.b32 {TWO}", "u4 u4", "u4", lambda a, b: ((1 << b) - 1) << a,
            operands=lambda a, b: (a % 16, b % 16))
elementwise("prmt.b32 {d}, {a}, {b}, 0x5410;", "u4 u4", "u4", lambda a, b: a & 0xFFFF | b << 16)

FMA = lambda a, b, c: a * b + c  # noqa: E731
for _t in ("f4", "f8"):
    _ptx = f"f{8 * int(_t[1])}"
    for _op, _function in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide)):
        elementwise(f"{_op}.rn.{_ptx} {TWO}", f"{_t} {_t}", _t, _function)
    for _op in ("fma", "mad"):
        elementwise(f"{_op}.rn.{_ptx} {THREE}", f"{_t} {_t} {_t}", _t, FMA)
    elementwise(f"copysign.{_ptx} {TWO}", f"{_t} {_t}", _t, lambda a, b: np.copysign(b, a))
    for _op, _function in (("neg", np.negative), ("abs", np.abs)):
        elementwise(f"{_op}.{_ptx} {{d}}, {{a}};", _t, _t, _function)
    elementwise(f"sqrt.rn.{_ptx} {{d}}, {{a}};", _t, _t, np.sqrt)
    elementwise(f"rcp.rn.{_ptx} {{d}}, {{a}};", _t, _t, lambda a: 1 / a)
    elementwise(f"testp.normal.{_ptx} {{d}}, {{a}};", _t, "u2", np.isfinite, predicate=True)
for _op, _pick in (("min", np.fmin), ("max", np.fmax)):
    for _ptx, _t in (("f32", "f4"), ("f64", "f8"), ("f16", "f2")):
        elementwise(f"{_op}.{_ptx} {TWO}", f"{_t} {_t}", _t, _pick)
for _op, _function in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply)):
    elementwise(f"{_op}.rn.f16 {TWO}", "f2 f2", "f2", _function)
    elementwise(f"{_op}.rn.bf16 {TWO}", "bf16 bf16", "bf16", _function)
    elementwise(f"{_op}.rn.f32x2 {TWO}", "u8 u8", "u8", halves(_function, "f4"), operands=packed("u8 u8", "f4"))
elementwise(f"fma.rn.f32x2 {THREE}", "u8 u8 u8", "u8", halves(FMA, "f4"), operands=packed("u8 u8 u8", "f4"))
elementwise(f"fma.rn.f16 {THREE}", "f2 f2 f2", "f2", lambda *x: FMA(*(v.astype("f8") for v in x)))
elementwise(f"fma.rn.bf16 {THREE}", "bf16 bf16 bf16", "bf16", lambda *x: FMA(*(v.astype("f8") for v in x)))
elementwise(f"add.f32.f16 {TWO}", "f2 f4", "f4", lambda a, b: a.astype("f4") + b)
elementwise(f"sub.f32.bf16 {TWO}", "bf16 f4", "f4", lambda a, b: a.astype("f4") - b)
elementwise(f"fma.rn.f32.f16 {THREE}", "f2 f2 f4", "f4", lambda a, b, c: a.astype("f4") * b.astype("f4") + c)

elementwise("cvt.u16.u32 {d}, {a};", "u4", "u2", lambda a: a)
elementwise("cvt.rzi.s32.f32 {d}, {a};", "f4", "i4", np.trunc)
elementwise("cvt.rn.f32.s32 {d}, {a};", "i4", "f4", lambda a: a)
elementwise("cvt.rn.f16.f32 {d}, {a};", "f4", "f2", lambda a: a)
elementwise("cvt.rn.relu.f16.f32 {d}, {a};", "f4", "f2", lambda a: np.maximum(a, 0))
elementwise("cvt.rn.f16x2.f32 {d}, {a}, {b};", "f4 f4", "u4",
            lambda a, b: b.astype("f2").view("u2").astype("u4") | a.astype("f2").view("u2").astype("u4") << 16)
elementwise("cvt.rn.satfinite.e4m3x2.f32 {d}, {a}, {b};", "f4 f4", "u2",
            lambda a, b: b.astype(E4M3).view("u1").astype("u2") | a.astype(E4M3).view("u1").astype("u2") << 8)
elementwise("cvt.rn.satfinite.e4m3x2.f16x2 {d}, {a};", "u4", "u2",
            lambda a: a.view("f2").astype(E4M3).view("u2"), operands=packed("u4", "f2"))
elementwise("cvt.rn.f16x2.e4m3x2 {d}, {a};", "u2", "u4", lambda a: a.view(E4M3).astype("f2").view("u4"),
            operands=lambda a: (np.arange(a.size, dtype="u2") % 120 * 257,))
elementwise("cvt.rna.tf32.f32 {d}, {a};", "f4", "u4", lambda a: a.view("u4") + 0x1000 & 0xFFFFE000)

elementwise("mov.pred %p6, %p5; selp.u32 {d}, 1, 0, %p6;".join(["setp.lt.s32 %p5, {a}, {b}; ", ""]), "i4 i4", "u4",
            lambda a, b: a < b, "mov.pred", "selp.u32")
elementwise("cvta.shared.u64 %x20, {a}; isspacep.shared %p5, %x20; cvta.to.shared.u64 %x21, %x20; "
            "selp.b64 {d}, %x21, 0, %p5;", "u8", "u8", lambda a: a, "isspacep.shared", operands=lambda a: (a & 0xFFFF,))
elementwise(f"slct.f32.s32 {THREE}", "f4 f4 i4", "f4", lambda a, b, c: np.where(c >= 0, a, b))
elementwise(f"setp.lt.f32 {TWO}", "f4 f4", "u2", np.less, predicate=True)
elementwise("setp.lt.f16x2 %p5|%p6, {a}, {b}; selp.u32 %r20, 1, 0, %p5; selp.u32 %r21, 2, 0, %p6; "
            "or.b32 {d}, %r20, %r21;", "u4 u4", "u4",
            lambda a, b: (a.view("f2") < b.view("f2")).reshape(-1, 2) @ np.array([1, 2]),
            operands=packed("u4 u4", "f2"))
elementwise(f"set.lt.u32.s32 {TWO}", "i4 i4", "u4", lambda a, b: np.where(a < b, 0xFFFFFFFF, 0))
elementwise(f"set.lt.u32.f32 {TWO}", "f4 f4", "u4", lambda a, b: np.where(a < b, 0xFFFFFFFF, 0))
elementwise(f"set.ge.f16.f16 {TWO}", "f2 f2", "f2", lambda a, b: a >= b)
elementwise(f"set.ge.s16.bf16 {TWO}", "bf16 bf16", "i2", lambda a, b: -(a >= b).astype("i2"))
elementwise(f"set.le.bf16.s32 {TWO}", "i4 i4", "bf16", lambda a, b: a <= b)
for _t, _kind in (("f16x2", "f2"), ("bf16x2", "bf16")):
    _view = BF16 if _kind == "bf16" else _kind
    elementwise(f"set.neu.{_t}.{_t} {TWO}", "u4 u4", "u4",
                lambda a, b, v=_view: (a.view(v) != b.view(v)).astype(v).view("u4"), operands=packed("u4 u4", _kind))
    elementwise(f"setp.gt.s32 %p5, {{a}}, {{b}}; set.lt.or.u32.{_t} {{d}}, {{a}}, {{b}}, %p5;", "u4 u4", "u4",
                lambda a, b, v=_view: np.where(
                    (a.view(v) < b.view(v)) | (a.view("i4") > b.view("i4")).repeat(2), 0xFFFF, 0
                ).astype("u2").view("u4"), f"set.lt.or.u32.{_t}", operands=packed("u4 u4", _kind))


@case("mov.u32", kind="approximate")
def special_registers() -> None:
    """Registers of clocks and of places on the GPU hold what the row says; moves copy bits."""
    how = row_of("mov.u32")[0].fidelity.how
    zeros = [x for x in re.findall(r"%\w+", how) if x != "%nsmid"]
    for name, value in [*((x, 0) for x in zeros), ("%nsmid", 1)]:
        wide = name.endswith(("64", "timer"))
        text = f"mov.u64 %x20, {name}; cvt.u32.u64 {{d}}, %x20;" if wide else f"mov.u32 {{d}}, {name};"
        same_bits(evaluate(text, np.zeros(9, "u4"), out="u4"), np.full(9, value, "u4"))
    a = pairs("f4", 500)[0]
    assert (evaluate("mov.f32 {d}, {a};", a, out="f4").view("u4") == a.view("u4")).all()


# approximations: float64 or longer is the true value

def within_bound(instruction: str, got: np.ndarray, true: np.ndarray, precision: int) -> None:
    """Check results of a type with `precision` bits against the bound in the text of the instruction's row."""
    how = row_of(instruction)[0].fidelity.how
    finite = np.isfinite(true) & (true != 0)
    got, true = got.astype(np.longdouble)[finite], true[finite]
    if ulps := re.search(r"within ([\d.]+) ulp", how):
        unit = np.ldexp(np.longdouble(1), (np.frexp(true)[1] - precision).astype(int))
        bound = np.longdouble(ulps[1]) * unit
    else:
        bound = np.longdouble(2) ** -int(re.findall(r"2\^-(\d+)", how)[0]) * abs(true)
    error = abs(got - true)
    assert error.size and (error <= bound).all() and (error > 0).any()


def approximation(instruction: str, function: Callable[..., Any], low: float, high: float, count: int = 1) -> None:
    """Add a case for an approximate function of `count` operands."""
    dtype, precision = {"f32": ("f4", 24), "f64": ("f8", 53), "f16": ("f2", 11), "bf16": ("u2", 8)}[
        instruction.rpartition(".")[2]
    ]

    def play() -> None:
        rng = np.random.default_rng(1)
        kind = BF16 if dtype == "u2" else dtype
        arrays = [rng.uniform(low, high, 4000).astype(kind) for _ in range(count)]
        got = evaluate(f"{instruction} {{d}}, {', '.join(['{a}', '{b}'][:count])};",
                       *(x.view("u2") if dtype == "u2" else x for x in arrays), out=dtype)
        true = function(*(x.astype("f8").astype(np.longdouble) for x in arrays))
        within_bound(instruction, got.view(BF16).astype("f8") if dtype == "u2" else got, true, precision)

    CASES.append(Case((instruction,), play, "approximate"))


approximation("div.approx.f32", np.divide, 0.1, 9, 2)
approximation("div.full.f32", np.divide, 0.1, 9, 2)
approximation("sqrt.approx.f32", np.sqrt, 0.1, 9)
approximation("rcp.approx.f32", lambda x: 1 / x, 0.1, 9)
approximation("rcp.approx.ftz.f64", lambda x: 1 / x, 0.1, 9)
approximation("rsqrt.approx.ftz.f64", lambda x: 1 / np.sqrt(x), 0.1, 9)
approximation("rsqrt.approx.f64", lambda x: 1 / np.sqrt(x), 0.1, 9)
for _name, _function in {
    "rsqrt": lambda x: 1 / np.sqrt(x), "ex2": np.exp2, "lg2": np.log2, "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
}.items():
    approximation(f"{_name}.approx.f32", _function, 0.1, 9)
for _name in ("ex2", "tanh"):
    approximation(f"{_name}.approx.f16", getattr(np, _name.replace("ex2", "exp2")), -4, 4)
    approximation(f"{_name}.approx.bf16", getattr(np, _name.replace("ex2", "exp2")), -4, 4)


@case("div.approx.f32", kind="approximate")
def large_divisors() -> None:
    a = np.full(2, 2.0**120, "f4")
    same_bits(evaluate("div.approx.f32 {d}, {a}, {b};", a, np.array([2.0**127, 2.0**126], "f4"), out="f4"),
              np.array([0, 2.0**-6], "f4"))


# memory

OWN = "mov.u32 %r1, %tid.x; ld.param.u64 %x1, [p0]; mad.wide.u32 %x2, %r1, 4, %x1;\n"
SHARED = ".shared .align 16 .b8 tile[1024];"
MINE = OWN + "mov.u32 %r3, tile; shl.b32 %r4, %r1, 2; add.u32 %r4, %r4, %r3;\n"


def results(body: str, *more: np.ndarray, block: int = 64, **options: Any) -> list[int]:
    """Run a body in whose end each thread's %r10 is its result."""
    out = np.zeros(block, "u4")
    text = f"{MINE}{body}\nEND: st.global.u32 [%x2], %r10; ret;"
    simulate(text, out, *more, block=block, registers=SHARED, **options)
    return out.tolist()


@case("ld.global.u32", "st.global.u32", "ldu.global.u32")
def loads_and_stores() -> None:
    load = "ld.param.u64 %x3, [p1]; mad.wide.u32 %x3, %r1, 4, %x3; {}.global.u32 %r10, [%x3];"
    for opcode in ("ld", "ldu"):
        assert results(load.format(opcode), np.arange(100, 164, dtype="u4")) == list(range(100, 164))


@case("atom.shared.add.u32", "red.shared.add.u32")
def integer_updates() -> None:
    body = "mov.u32 %r10, 0; @%p1 bra GO; st.shared.u32 [tile], 5; GO: bar.sync 0; {} bar.sync 0;"
    start = "setp.ne.u32 %p1, %r1, 0;" + body
    assert results(start.format("atom.shared.add.u32 %r10, [tile], 2;")) == [5 + 2 * i for i in range(64)]
    assert results(start.format("red.shared.add.u32 [tile], 2; bar.sync 0; ld.shared.u32 %r10, [tile];")) == [133] * 64


@case("atom.global.add.f32", "red.global.add.f32", kind="approximate")
def floating_point_updates() -> None:
    values = np.concatenate([[1e-40], np.random.default_rng(0).normal(size=63)]).astype("f4")
    body = "ld.param.u64 %x3, [p1]; mad.wide.u32 %x3, %r1, 4, %x3; ld.global.b32 %r5, [%x3]; ld.param.u64 %x4, [p2];"
    for text in ("atom.global.add.f32 %r10, [%x4], %r5;", "red.global.add.f32 [%x4], %r5;"):
        total = np.full(1, 1e-41, "f4")
        got = np.array(results(body + "mov.u32 %r10, 0;" + text, values, total), "u4").view("f4")
        chain = np.add.accumulate(np.concatenate([np.full(1, 1e-41, "f4"), values]))
        assert total[0] == chain[-1] and 0 < chain[1] < np.finfo("f4").tiny
        assert text[0] == "r" or (got == chain[:-1]).all()


@case("ld.global.b128", "ldu.global.b128", "st.global.b128", "atom.global.exch.b128", kind="unsupported")
def refused_widths() -> None:
    for text in ("ld.global.b128 %x3, [%x1];", "ldu.global.b128 %x3, [%x1];", "st.global.b128 [%x1], %x1;",
                 "atom.global.exch.b128 %x3, [%x1], %x1;", "ld.param.b128 %x3, [p0];"):
        refused(text, row_of("ld.global.b128")[0])


def refused(text: str, row: InstructionRow) -> None:
    assert row.fidelity.kind == "unsupported"
    with pytest.raises(SimulationError, match=re.escape(f"{row.fidelity.how}\n  PTX line")):
        simulate(OWN + text + "ret;", np.zeros(4, "u4"))


HINTS = (
    "membar.gl", "fence.acq_rel.gpu", "fence.mbarrier_init.release.cluster", "fence.proxy.async", "fence.proxy.alias",
    "prefetch.global.L2", "prefetch.global.L2::evict_last", "prefetchu.L1", "applypriority.global.L2::evict_normal",
    "nanosleep.u32", "pmevent", "griddepcontrol.wait",
)


@case(*HINTS)
def hints_and_fences() -> None:
    for hint in HINTS:
        without_effect(hint)


@case("discard.global.L2", "brkpt", kind="approximate")
def ignored_instructions() -> None:
    without_effect("discard.global.L2")
    without_effect("brkpt")


def without_effect(instruction: str) -> None:
    """Check that an instruction changes no value, neither in registers nor in memory."""
    operands = {"prefe": "[%x2]", "disca": "[%x2], 128", "apply": "[%x2], 128", "nanos": "20", "pmeve": "3"}
    body = f"add.u32 %r10, %r1, 7; st.global.u32 [%x2], %r10; {instruction} {operands.get(instruction[:5], '')};"
    assert results(body + "ld.global.u32 %r10, [%x2];") == list(range(7, 71)), instruction


@case("createpolicy.fractional.L2::evict_first.b64", kind="approximate")
def policies() -> None:
    body = "createpolicy.fractional.L2::evict_first.b64 %x5, 1.0; cvt.u32.u64 %r10, %x5;"
    assert results(body) == [0] * 64


@case("cp.async.ca.shared.global", "cp.async.commit_group", "cp.async.wait_group", "cp.async.wait_all")
def asynchronous_copies() -> None:
    copy = "ld.param.u64 %x3, [p1]; mad.wide.u32 %x3, %r1, 4, %x3; cp.async.ca.shared.global [%r4], [%x3], 4;"
    for wait in ("cp.async.commit_group; cp.async.wait_group 0;", "cp.async.wait_all;"):
        assert results(copy + wait + "ld.shared.u32 %r10, [%r4];", np.arange(9, 73, dtype="u4")) == list(range(9, 73))


# copies by TMA and mbarriers

READY = """mov.u32 %r1, %tid.x; mov.u32 %r2, sm; ld.param.u64 %x1, [out]; mad.wide.u32 %x2, %r1, 4, %x1;
add.u32 %r3, %r2, 1024;
setp.ne.u32 %p1, %r1, 0; @%p1 bra READY; mbarrier.init.shared::cta.b64 [%r3], 1; READY: bar.sync 0; mov.u32 %r10, 0;
"""
BULK_LOAD = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
BULK_STORE = "cp.async.bulk.global.shared::cta.bulk_group"
BOX_LOAD = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
BOX_STORE = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"
EXPECT, TRY_WAIT = "mbarrier.arrive.expect_tx.shared::cta.b64", "mbarrier.try_wait.parity.shared::cta.b64"


@case("mbarrier.init.shared::cta.b64", "mbarrier.arrive.shared::cta.b64", "mbarrier.pending_count.b64",
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64", "mbarrier.complete_tx.relaxed.cta.shared::cta.b64",
      "mbarrier.test_wait.parity.shared::cta.b64", "mbarrier.inval.shared::cta.b64")
def mbarriers() -> None:
    """Phase 0 completes with its arrival and its 64 bytes, and not before."""
    test = "mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r3], 0; @%p2 add.u32 %r10, %r10, {};"
    body = "@%p1 bra END;" + test.format(1) + """
    mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r3], 64; mbarrier.arrive.shared::cta.b64 %x5, [%r3];
    mbarrier.pending_count.b64 %r12, %x5; mad.lo.u32 %r10, %r12, 100, %r10;
    """ + test.format(2) + "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r3], 64;" + test.format(4)
    out = np.zeros(32, "u4")
    end = "mbarrier.inval.shared::cta.b64 [%r3]; st.shared.u32 [%r3], %r10; ld.shared.u32 %r10, [%r3];"
    rings.launch(rings.module(READY + body + end + "END: st.global.u32 [%x2], %r10; ret;"), out, block=32)
    assert out.tolist() == [104] + [0] * 31


@case(BULK_LOAD, BULK_STORE, "cp.async.bulk.commit_group", "cp.async.bulk.wait_group.read")
def bulk_copies() -> None:
    body = f"""@%p1 bra END; ld.param.u64 %x3, [src]; {BULK_LOAD} [%r2], [%x3], 512, [%r3]; {EXPECT} _, [%r3], 512;
    W: {TRY_WAIT} %p2, [%r3], 0; @!%p2 bra W;
    {BULK_STORE} [%x1], [%r2], 512; cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; END: ret;"""
    source, out = aligned(np.arange(128, dtype="u4")), aligned(np.zeros(128, "u4"))
    rings.launch(rings.module(READY + body, ".param .u64 out, .param .u64 src"), out, source, block=32)
    assert (out == source).all()


@case(BOX_LOAD, BOX_STORE, "prefetch.tensormap")
def boxes() -> None:
    array = aligned(np.arange(1, 16 * 64 + 1, dtype="u4").reshape(16, 64))
    got = tma_programs.load(array, (32, 4), "128B", (32, 2))
    assert all(got[at] == value for at, value in tma_programs.box_bytes(array, (32, 4), "128B", (32, 2)).items())
    back = aligned(np.zeros_like(array))
    memory = aligned(np.arange(tma_programs.SHARED // 4, dtype="u4").view("u1"))
    tma_programs.store(back, (32, 4), "none", (32, 2), memory)
    assert (back[2:6, 32:] == np.arange(128).reshape(4, 32)).all() and back.sum() == np.arange(128).sum()


@case("setmaxnreg.dec.sync.aligned.u32")
def register_pool() -> None:
    out = np.zeros(128, "u4")
    body = READY + "setmaxnreg.dec.sync.aligned.u32 24; mov.u32 %r10, %r1; st.global.u32 [%x2], %r10; ret;"
    rings.launch(rings.module(body, directives=".maxntid 128\n.minnctapersm 1\n.maxnreg 168"), out, block=128)
    assert out.tolist() == list(range(128))


# threads together

@case("bar.sync", "bar.red.popc.u32", "bar.red.and.pred", "bar.warp.sync", "barrier.sync", "barrier.red.popc.u32",
      "barrier.red.and.pred")
def barriers() -> None:
    for opcode in ("bar", "barrier"):
        body = f"""st.shared.u32 [%r4], %r1; {opcode}.sync 0; xor.b32 %r5, %r4, 252; ld.shared.u32 %r10, [%r5];
        setp.lt.u32 %p1, %r1, 40; {opcode}.red.popc.u32 %r6, 0, %p1; {opcode}.red.and.pred %p2, 0, %p1;
        bar.warp.sync -1; mad.lo.u32 %r10, %r6, 1000, %r10; @%p2 add.u32 %r10, %r10, 7;"""
        assert results(body, block=64) == [40000 + (63 - i) for i in range(64)]


@case("shfl.sync.bfly.b32", "vote.sync.any.pred", "vote.sync.ballot.b32", "activemask.b32", "match.any.sync.b32",
      "redux.sync.add.u32", "redux.sync.or.b32", "redux.sync.min.f32", "elect.sync")
def warps() -> None:
    lane = np.arange(32)
    for text, expected in {
        "shfl.sync.bfly.b32 %r10, %r1, 5, 31, -1;": lane ^ 5,
        "setp.eq.u32 %p1, %r1, 3; vote.sync.any.pred %p2, %p1, -1; selp.u32 %r10, 1, 0, %p2;": lane * 0 + 1,
        "setp.lt.u32 %p1, %r1, 3; vote.sync.ballot.b32 %r10, %p1, -1;": lane * 0 + 7,
        "activemask.b32 %r10;": lane * 0 + 0xFFFFFFFF,
        "and.b32 %r5, %r1, 3; match.any.sync.b32 %r10, %r5, -1;": [0x11111111 << i % 4 for i in lane],
        "redux.sync.add.u32 %r10, %r1, -1;": lane * 0 + lane.sum(),
        "redux.sync.or.b32 %r10, %r1, -1;": lane * 0 + 31,
        "cvt.rn.f32.u32 %r5, %r1; redux.sync.min.f32 %r6, %r5, -1; cvt.rzi.u32.f32 %r10, %r6;": lane * 0,
        "elect.sync _|%p1, -1; selp.u32 %r10, 1, 0, %p1;": lane == 0,
    }.items():
        assert results(text, block=32) == list(map(int, expected)), text


@case("redux.sync.min.f32", "redux.sync.min.NaN.f32", "redux.sync.max.f32", "redux.sync.max.NaN.f32",
      "redux.sync.max.abs.NaN.f32")
def redux_of_floats() -> None:
    numbers = np.arange(32, dtype="f4") - 40
    some_nan, zeros = numbers.copy(), np.zeros(32, "f4")
    some_nan[[0, 5]] = np.nan, -np.float32(np.nan)
    zeros[7] = -0.0
    nan = np.full(32, np.nan, "f4")
    for op, a, expected in (
        ("min", numbers, -40), ("max", numbers, -9), ("min.NaN", numbers, -40), ("max.NaN", numbers, -9),
        ("min", some_nan, -39), ("max", some_nan, -9), ("min.NaN", some_nan, np.nan), ("max.NaN", some_nan, np.nan),
        ("max.abs.NaN", numbers, 40), ("max.abs", some_nan, 39), ("max.abs.NaN", some_nan, np.nan),
        ("min", zeros, -0.0), ("max", zeros, 0), ("min", nan, np.nan), ("max", nan, np.nan),
    ):
        got = evaluate(f"redux.sync.{op}.f32 {{d}}, {{a}}, -1;", a, out="f4")
        same_bits(got, np.full(32, expected, "f4"))


@case("bra", "brx.idx", "exit", "ret")
def branches() -> None:
    body = """and.b32 %r5, %r1, 1; ts: .branchtargets EVEN, ODD; brx.idx %r5, ts;
    EVEN: mov.u32 %r10, 2; bra END; ODD: mov.u32 %r10, 3; setp.ne.u32 %p1, %r1, 5; @%p1 bra END; exit;"""
    assert results(body) == [0 if i == 5 else 2 + i % 2 for i in range(64)]


@case("trap")
def traps() -> None:
    with pytest.raises(SimulationError, match="thread 0 .* executed trap"):
        results("trap; mov.u32 %r10, 1;")


PRINT = """{{ .param .b64 a; .param .b64 b; .param .b32 r; mov.u64 %x10, form; cvta.global.u64 %x11, %x10;
st.param.b64 [a], %x11; mov.u64 %x12, args; cvta.local.u64 %x13, %x12; st.local.u64 [%x12], {};
st.param.b64 [b], %x13; call.uni (r), vprintf, (a, b); }}
"""


def printing(body: str) -> str:
    declared = ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
    declared += ".global .align 1 .b8 form[3] = {37, 115, 0};"
    text = kernel(body, ".param .u64 p0", ".local .align 8 .b8 args[8];" + SHARED)
    return text.replace(".visible .entry", f"{declared}\n.visible .entry")


@case("call.uni")
def calls() -> None:
    """vprintf prints; a call of a function that the PTX doesn't define is refused."""
    printed: list[str] = []
    text = np.frombuffer(b"hello\0\0\0", "u4").copy()
    run(printing(OWN + PRINT.format("%x1") + "ret;"), "k", (1,), (2,), [pointer(text)], write=printed.append)
    assert "".join(printed) == "hellohello"
    stops: list[tuple[str, list[list[int]]]] = []
    stopping = printing(OWN + PRINT.format("%x1").replace("vprintf", "__breakpoint") + "ret;")
    run(stopping.replace("vprintf", "__breakpoint"), "k", (1,), (2,), [pointer(text)],
        stop=lambda stop: stops.append((stop.text, stop.values.view("u8").tolist())))
    assert [name for name, _ in stops] == ["%s"] and len({row[0] for row in stops[0][1]}) == 1
    with pytest.raises(SimulationError, match="call of f, which the PTX doesn't define"):
        results("call f, (); mov.u32 %r10, 0;")


# clusters

@case("barrier.cluster.arrive", "barrier.cluster.wait", "mapa.shared::cluster.u32", "getctarank.shared::cluster.u32")
def clusters() -> None:
    body = """mov.u32 %r1, sm; mapa.shared::cluster.u32 %r2, %r1, 1; getctarank.shared::cluster.u32 %r3, %r2;
    barrier.cluster.arrive; barrier.cluster.wait; mov.u32 %r4, %cluster_ctarank; mad.lo.u32 %r3, %r3, 10, %r4;
    ld.param.u64 %x1, [out]; mad.wide.u32 %x1, %r4, 4, %x1; st.global.u32 [%x1], %r3; ret;"""
    out = np.zeros(2, "u4")
    run(cluster_module(body, ".param .u64 out", (2, 1, 1)), "k", (2,), (1,), [pointer(out)])
    assert out.tolist() == [10, 11]


@case("barrier.arrive", "bar.arrive")
def arrivals() -> None:
    for opcode in ("bar", "barrier"):
        body = f"""mov.u32 %r10, 0; setp.ge.u32 %p1, %r1, 32; @%p1 bra WAIT; st.shared.u32 [%r4], %r1;
        {opcode}.arrive 1, 64; bra END; WAIT: {opcode}.sync 1, 64; ld.shared.u32 %r10, [%r4+-128];"""
        assert results(body) == [max(0, i - 32) for i in range(64)]


# matrices

@case("ldmatrix.sync.aligned.m8n8.x4.shared.b16", "stmatrix.sync.aligned.m8n8.x4.shared.b16")
def fragments() -> None:
    rng, offsets = np.random.default_rng(0), matrix_programs.row_offsets(4, 0)
    tile, words = aligned(rng.integers(0, 256, 2048, np.uint8)), np.zeros((32, 4), "u4")
    simulate(matrix_programs.ldmatrix_text(4, False), tile, offsets, words)
    assert (words.view("u2").reshape(32, 4, 2) == matrix_programs.ldmatrix_expected(tile, offsets, 4, False)).all()
    out = aligned(np.zeros(2048, np.uint8))
    simulate(matrix_programs.stmatrix_text(4, False), words, offsets, out)
    assert (out.view("u2") == matrix_programs.stmatrix_expected(words, offsets, 4, False)).all()


@case("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32")
def integer_products() -> None:
    program, expected = matrix_programs.product_of("m16n8k32", "s8", "s8", "s32")
    simulate(program.text, *program.arrays)
    assert (program.result() == expected).all()


def sums_within_bound(got: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray, row: InstructionRow) -> None:
    """Check a product in float32 against one of longer floats: the sum's bound, then half a unit of rounding."""
    a, b, c = (x.astype("f8").astype(np.longdouble) for x in (a, b, c))
    bound = np.longdouble(2) ** -int(re.findall(r"2\^-(\d+)", row.fidelity.how)[0]) * (abs(a) @ abs(b) + abs(c))
    true = a @ b + c
    assert (abs(got - true) <= bound + abs(true) * np.longdouble(2) ** -24).all() and (got != true).any()


def cancelling(rows: int, columns: int) -> Arrays:
    """Return A and B, 16 products deep in bfloat16, of whose product only rounding errors are left, and C."""
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=s) * 2.0 ** rng.integers(0, 30, s) for s in ((rows, 8), (8, columns)))
    left, right = np.hstack([a, -a]), np.vstack([b, b])
    return left.astype(BF16), right.astype(BF16), rng.normal(size=(rows, columns)).astype("f4")


MMA = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"


@case(MMA, kind="approximate")
def products() -> None:
    a, b, c = cancelling(16, 8)
    program = matrix_programs.Product("m16n8k16", "bf16", "bf16", "f32", a, b, c)
    simulate(program.text, *program.arrays)
    sums_within_bound(program.result(), a, b, c, row_of(MMA)[0])


WMMA, WMMA_BITS = "wmma.mma.sync.aligned.row.col.{}", "wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32"


@case("wmma.load.a.sync.aligned.row.m16n16k16.global.s8", "wmma.store.d.sync.aligned.row.m16n16k16.global.s32",
      WMMA.format("m16n16k16.s32.s8.s8.s32"), WMMA_BITS)
def integer_wmma() -> None:
    for shape, t, op in (("m16n16k16", "s8", ""), ("m8n8k128", "b1", "xor")):
        program = wmma_programs.Program(shape, t, "s32", "s32", op=op)
        program.arrays = [aligned(x) for x in program.arrays]
        simulate(program.text, *program.arrays)
        assert (program.result() == program.expected(op)).all()


def wmma_product(t: str, d: str, shape: str, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return D of a program with these matrices."""
    program = wmma_programs.Program(shape, t, d, d)
    program.arrays = [aligned(wmma_programs.words(x, y)) for x, y in ((a, t), (b.T, t), (c, d), (np.zeros_like(c), d))]
    simulate(program.text, *program.arrays)
    return program.result()


@case(WMMA.format("m16n16k16.f32.bf16.bf16.f32"), kind="approximate")
def wmma_of_floats() -> None:
    a, b, c = cancelling(16, 16)
    row = row_of(WMMA.format("m16n16k16.f32.bf16.bf16.f32"))[0]
    sums_within_bound(wmma_product("bf16", "f32", "m16n16k16", a, b, c), a, b, c, row)


@case(WMMA.format("m8n8k4.f64.f64.f64.f64"), "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", kind="approximate")
def double_products() -> None:
    """Four sums, each rounded once."""
    a, b, c = wmma_programs.double_matrices("m8n8k4", 0)
    program = wmma_programs.DoubleProduct("m8n8k4", "", a, b, c)
    simulate(program.text, *program.arrays)
    x, y, z = (v.astype(np.longdouble) for v in (a, b, c))
    bound = 4 * np.longdouble(2) ** -53 * (abs(x) @ abs(y) + abs(z))
    for got in (program.result(), wmma_product("f64", "f64", "m8n8k4", a, b, c)):
        assert (abs(got - (x @ y + z)) <= bound).all() and (got != x @ y + z).any()


WGMMA = "wgmma.mma_async.sync.aligned.m64n8k{}.{}"


@case(WGMMA.format(32, "s32.s8.s8"), "wgmma.fence.sync.aligned", "wgmma.commit_group.sync.aligned",
      "wgmma.wait_group.sync.aligned")
def integer_products_of_warpgroups() -> None:
    got, expected = wgmma_programs.Product("s8", "s8", "s32", 8, 32).run()
    assert (got == expected).all()


@case(WGMMA.format(16, "f32.bf16.bf16"), kind="approximate")
def products_of_warpgroups() -> None:
    product = wgmma_programs.Product("bf16", "bf16", "f32", 8, 16)
    product.a, b, product.c = cancelling(64, 8)
    product.b = np.ascontiguousarray(b.T)
    registers, _ = product.run()
    got = np.zeros((64, 8), "f4")
    for register, thread in np.ndindex(registers.shape):
        got[product.accumulator(register, thread)] = registers.view("f4")[register, thread]
    sums_within_bound(got, product.a, b, product.c, row_of(WGMMA.format(16, "f32.bf16.bf16"))[0])


TCGEN05 = (
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32",
    "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned",
    "tcgen05.dealloc.cta_group::1.sync.aligned.b32", "tcgen05.ld.sync.aligned.32x32b.x1.b32",
    "tcgen05.st.sync.aligned.32x32b.x1.b32", "tcgen05.wait::ld.sync.aligned", "tcgen05.fence::before_thread_sync",
)


@case(*TCGEN05)
def tensor_memory() -> None:
    body = tensor.START + tensor.allocate(32) + "mov.u32 %d0, %r1;" + tensor.st("32x32b", 1, 0) + tensor.WAIT_ST
    body += "tcgen05.fence::before_thread_sync;" + tensor.ld("32x32b", 1, 1) + tensor.WAIT_LD
    out = np.zeros(128, "u4")
    simulate(body + tensor.write_output("p0", 1, 1) + tensor.free(32) + "ret;", out, block=128, registers=tensor.DATA)
    assert out.tolist() == list(range(128))


# races: each program takes its barrier as an argument

@dataclass(frozen=True)
class Race:
    """A program that is correct, and without its barrier a race of one instruction."""

    instruction: str
    play: Callable[[str], object]


def _on_tile(body: str, **options: Any) -> Callable[[str], object]:
    """A program of two warps; %p1 holds in those of the second one."""
    start = "setp.ge.u32 %p1, %r1, 32; mov.u32 %r10, 0;"
    return lambda sync: results(start + body.replace("SYNC", sync), np.zeros(64, "u4"), **options)


def _on_barrier(body: str) -> Callable[[str], object]:
    """A program that makes an mbarrier of two arrivals; %p1 holds in all threads but the first."""
    text = READY.replace("READY: bar.sync 0;", "READY: SYNC").replace("[%r3], 1;", "[%r3], 64;") + body + "END: ret;"
    return lambda sync: rings.launch(rings.module(text.replace("SYNC", sync)), np.zeros(64, "u4"), block=64)


def _tma(text: str, play: Callable[..., object], box: tuple[int, int], at: tuple[int, int]) -> Callable[[str], object]:
    array = aligned(np.arange(1, 16 * 64 + 1, dtype="u4").reshape(16, 64))
    program = tma_programs.kernel(tma_programs.filled(text, box, at, 4))
    return lambda sync: play(array, box, "none", at, text=program.replace("SYNC", sync), checks=True)


STORE_FIRST = "@%p1 bra SECOND; st.shared.u32 [%r4], %r1; SECOND: SYNC @!%p1 bra END;"
_FAR = "setp.lt.u32 %p2, %r1, 32; @%p2 bra END;"
_LOAD = tma_programs.START.replace(
    "READY: bar.sync 0;", "READY: bar.sync 0; mad.lo.u32 %r8, %r1, 4, %r2; st.shared.u32 [%r8], %r1; "
    "fence.proxy.async.shared::cta; SYNC",
) + tma_programs.LOAD
_STORE = tma_programs.START + tma_programs.IN.replace("bar.sync 0;", "SYNC") + tma_programs.STORE


def _warpgroup(types: tuple[Any, ...]) -> Callable[[str], object]:
    product = wgmma_programs.Product(*types)
    before, _, after = product.text.partition("fence.proxy.async.shared::cta; bar.sync 0;")
    return lambda sync: product.run(text=f"{before}fence.proxy.async.shared::cta; {sync}{after}")


def _tensor(body: str) -> Callable[[str], object]:
    return lambda sync: simulate(
        body.replace("SYNC", sync) + "ret;", np.zeros(256, "u4"), block=256, registers=tensor.DATA
    )


_HALVES = (
    "setp.ge.u32 %p2, %r2, 4; mov.u32 %d0, 1; @%p2 bra LATER;" + tensor.st("32x32b", 1, 0) + tensor.WAIT_ST
    + "LATER: tcgen05.fence::before_thread_sync; SYNC tcgen05.fence::after_thread_sync; @!%p2 bra DONE;\nBODYDONE:\n"
)
_IN_HALVES = tensor.START + tensor.allocate(32) + _HALVES + tensor.free(32)


def _bulk(body: str) -> Callable[[str], object]:
    text = rings.module(READY + body + "END: ret;", ".param .u64 out, .param .u64 src")
    source = aligned(np.arange(128, dtype="u4"))
    return lambda sync: rings.launch(text.replace("SYNC", sync), aligned(np.zeros(128, "u4")), source, block=64)


_TOUCH = "mad.lo.u32 %r5, %r1, 4, %r2; st.shared.u32 [%r5], %r1; st.shared.u32 [%r5+256], %r1; " \
         "fence.proxy.async.shared::cta; SYNC @%p1 bra END;"


def _printed(sync: str) -> Report:
    body = f"setp.ge.u32 %p1, %r1, 32; @%p1 bra SECOND; st.global.u8 [%x1], 65; SECOND: {sync} @!%p1 bra END;"
    text = printing(OWN + body + PRINT.format("%x1") + "END: ret;")
    return run(text, "k", (1,), (64,), [pointer(np.zeros(4, "u4"))], write=lambda text: None)


RACES = [
    Race("ld.shared.u32", _on_tile(STORE_FIRST + "ld.shared.u32 %r10, [%r4+-128];")),
    Race("st.shared.u32", _on_tile(STORE_FIRST + "st.shared.u32 [%r4+-128], 5;")),
    Race("ldu.global.u32", _on_tile(
        "ld.param.u64 %x3, [p1]; mad.wide.u32 %x3, %r1, 4, %x3; @%p1 bra SECOND; st.global.u32 [%x3], %r1; SECOND: "
        "SYNC @!%p1 bra END; ldu.global.u32 %r10, [%x3+-128];")),
    Race("atom.shared.add.u32", _on_tile(STORE_FIRST + "atom.shared.add.u32 %r10, [%r4+-128], 1;")),
    Race("atom.shared.add.f32", _on_tile(STORE_FIRST + "atom.shared.add.f32 %r10, [%r4+-128], 0f3F800000;")),
    Race("cp.async.ca.shared.global", _on_tile(
        STORE_FIRST + "ld.param.u64 %x3, [p1]; cp.async.ca.shared.global [%r4+-128], [%x3], 4; cp.async.wait_all;"
    )),
    Race(BULK_LOAD, _bulk(_TOUCH + f"ld.param.u64 %x3, [src];\n{BULK_LOAD} [%r2], [%x3], 512, [%r3];\n"
                          f"{EXPECT} _, [%r3], 512; W: {TRY_WAIT} %p2, [%r3], 0; @!%p2 bra W;")),
    Race(BULK_STORE, _bulk(_TOUCH + f"\n{BULK_STORE} [%x1], [%r2], 512;\ncp.async.bulk.commit_group; "
                           "cp.async.bulk.wait_group.read 0;")),
    Race(BOX_LOAD, _tma(_LOAD, tma_programs.load, (32, 4), (32, 2))),
    Race(BOX_STORE, _tma(_STORE, lambda array, *x, **o: tma_programs.store(
        array, *x, aligned(np.zeros(tma_programs.SHARED, "u1")), **o), (32, 4), (32, 2))),
    Race("mbarrier.init.shared::cta.b64", _on_barrier(_FAR + "mbarrier.arrive.shared::cta.b64 _, [%r3];")),
    Race("mbarrier.arrive.shared::cta.b64", _on_barrier(_FAR + "mbarrier.arrive.shared::cta.b64 _, [%r3];")),
    Race("mbarrier.expect_tx.relaxed.cta.shared::cta.b64",
         _on_barrier(_FAR + "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r3], 16;")),
    Race("mbarrier.complete_tx.relaxed.cta.shared::cta.b64",
         _on_barrier(_FAR + "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r3], 16;")),
    Race("mbarrier.test_wait.parity.shared::cta.b64",
         _on_barrier(_FAR + "mbarrier.test_wait.parity.shared::cta.b64 %p3, [%r3], 0;")),
    Race("mbarrier.inval.shared::cta.b64", lambda sync: rings.launch(rings.module(
        READY.replace("[%r3], 1;", "[%r3], 64;") + f"mbarrier.arrive.shared::cta.b64 _, [%r3]; {sync} @%p1 bra END; "
        "mbarrier.inval.shared::cta.b64 [%r3]; END: ret;"), np.zeros(64, "u4"), block=64)),
    Race("ldmatrix.sync.aligned.m8n8.x1.shared.b16", _on_tile(
        STORE_FIRST + "and.b32 %r5, %r1, 7; mad.lo.u32 %r5, %r5, 16, %r3; "
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r5];")),
    Race("stmatrix.sync.aligned.m8n8.x1.shared.b16", _on_tile(
        STORE_FIRST + "and.b32 %r5, %r1, 7; mad.lo.u32 %r5, %r5, 16, %r3; "
        "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r5], {%r10};")),
    Race("wmma.load.a.sync.aligned.row.m8n8k32.shared.s4", _on_tile(
        STORE_FIRST + "wmma.load.a.sync.aligned.row.m8n8k32.shared.s4 {%r10}, [%r3];")),
    Race("wmma.store.d.sync.aligned.row.m8n8k32.shared.s32", _on_tile(
        STORE_FIRST + "wmma.store.d.sync.aligned.row.m8n8k32.shared.s32 [%r3], {%r10, %r10};")),
    Race(WGMMA.format(32, "s32.s8.s8"), _warpgroup(("s8", "s8", "s32", 8, 32))),
    Race(WGMMA.format(16, "f32.f16.f16"), _warpgroup(("f16", "f16", "f32", 8, 16))),
    Race(TCGEN05[0], _tensor(tensor.START + tensor.allocate(32).replace("bar.sync 0;", "SYNC") + tensor.free(32))),
    Race(TCGEN05[2], _tensor(tensor.START + tensor.allocate(32) + "mov.u32 %d0, 1;" + tensor.st("32x32b", 1, 0)
                             + tensor.WAIT_ST + tensor.free(32).replace("bar.sync 0;", "SYNC"))),
    Race(TCGEN05[3], _tensor(_IN_HALVES.replace("BODY", tensor.ld("32x32b", 1, 8) + tensor.WAIT_LD))),
    Race(TCGEN05[4], _tensor(_IN_HALVES.replace("BODY", tensor.st("32x32b", 1, 0) + tensor.WAIT_ST))),
    Race("discard.global.L2", _on_tile("ld.param.u64 %x3, [p1]; @%p1 bra SECOND; st.global.u32 [%x3], 1; bra END; "
                                       "SECOND: SYNC discard.global.L2 [%x3], 128;")),
    Race("call.uni", _printed),
    *(Race(*x) for x in asynchronous.RACES),
]
CASES.extend(Case(*x) for x in asynchronous.CASES)
