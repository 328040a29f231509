"""Integer, logic, shift and bit-field instructions."""

from __future__ import annotations

from ..decode.emitter import BlockWriter, Entries, Entry, Match, expression, flags
from ..decode.names import PTX_DTYPE, SIZE

INT = r"\.(?P<t>[us](?:16|32|64))"
BITS = r"\.(?P<t>b(?:16|32|64))"
ANY_BITS = r"\.(?P<t>b16|b32|b64|pred)"
SIMD = r"\.(?P<d>[us]32)\.(?P<a>[us]32)\.(?P<b>[us]32)(?:(?P<sat>\.sat)|(?P<add>\.add))?"
PART = r"\.(?P<part>hi|lo)\.(?P<t>[us]32)"
LOGIC = {"and": "&", "or": "|", "xor": "^"}


def _unsigned(t: str) -> str:
    return f"u{SIZE[PTX_DTYPE[t]]}"


def wrapping(text: str, count: int = 2) -> Entry:
    """Like `expression`, with `count` operands of type t, for results whose bits don't depend on signedness."""

    def emit(e: BlockWriter, m: Match) -> None:
        t, indices = m["t"], range(1, count + 1)
        dtype = "p" if t == "pred" else e.either(f"u{SIZE[PTX_DTYPE[t]]}", f"i{SIZE[PTX_DTYPE[t]]}", *indices)
        e.dst(dtype, text.format(*(e.src(i, dtype) for i in indices)))

    return emit


def mul_wide(e: BlockWriter, m: Match) -> None:
    dtype = PTX_DTYPE[m["t"]]
    wide = dtype[0] + str(2 * SIZE[dtype])
    product = f"{_widened(e, 1, dtype, wide)} * {_widened(e, 2, dtype, wide)}"
    e.dst(wide, product if e.ins.root == "mul" else f"{product} + {e.src(3, wide)}")


def _widened(e: BlockWriter, index: int, dtype: str, wide: str) -> str:
    """Return an expression for a source operand extended to twice its width. Literals are extended at translation."""
    value = e.src(index, dtype)
    operand = e.ins.operands[index]
    if operand[0] not in "0123456789-":
        return f"{value}.astype({wide})"
    bits, width = e.literal(operand, dtype, ""), 8 * SIZE[dtype]
    if dtype[0] == "i" and bits >> (width - 1):
        bits -= 1 << width
    return e.names.constant(bits & ((1 << 2 * width) - 1), wide)


def minmax_x2(e: BlockWriter, m: Match) -> None:
    """Emit min or max of two packed 16-bit integers, with or without .relu."""
    half = m["t"][0].replace("s", "i") + "2"
    result = f"halves({e.ins.root}imum, {half}, {e.src(1, 'u4')}, {e.src(2, 'u4')})"
    if m.get("relu"):
        result = f"halves(maximum, {half}, {result}, {e.names.constant(0, 'u4')})"
    e.dst("u4", result)


def carry_add(e: BlockWriter, m: Match) -> None:
    """Emit add.cc, addc, mad.cc or madc. The pseudo-register %carry holds the carry of the addition."""
    d = _unsigned(m["t"])
    first, addend = e.src(1, d), 2
    if e.ins.root[0] == "m":
        product, addend = f"{first} * {e.src(2, d)}", 3
        if m["part"] == "hi":
            dtype = PTX_DTYPE[m["t"]]
            product = f"mul_hi({e.src(1, dtype)}, {e.src(2, dtype)}).view({d})"
        first = e.temp(product)
    total = e.temp(f"{first} + {e.src(addend, d)}")
    carry = f" + {e.read('%carry', 'u4')}.astype({d})" if e.ins.root[-1] == "c" else ""
    result = e.temp(f"{total}{carry}")
    if m["cc"]:
        e.write("%carry", "u4", f"(({total} < {first}) | ({result} < {total})).astype(u4)")
    e.dst(d, result)


def borrow_sub(e: BlockWriter, m: Match) -> None:
    """Emit sub.cc or subc. The pseudo-register %carry holds the borrow."""
    d = _unsigned(m["t"])
    a, b = e.src(1, d), e.src(2, d)
    total = e.temp(f"{a} - {b}")
    result = e.temp(f"{total} - {e.read('%carry', 'u4')}.astype({d})" if e.ins.root == "subc" else total)
    if m["cc"]:
        e.write("%carry", "u4", f"(({a} < {b}) | ({total} < {result})).astype(u4)")
    e.dst(d, result)


def shift(e: BlockWriter, m: Match) -> None:
    """Emit shl or shr, whose amount has 32 bits for all types."""
    dtype = PTX_DTYPE[m["t"]]
    amount = e.ins.operands[2]
    e.highest = 2
    width = 8 * SIZE[dtype]
    if amount[0].isdigit():
        n = e.literal(amount, "u4", "")
        clamped = min(n, width - 1) if dtype[0] == "i" else n
        operator = "<<" if e.ins.root == "shl" else ">>"
        if n < width or dtype[0] == "i":
            if operator == "<<":
                dtype = e.either(dtype, f"i{width // 8}", 1)
            e.dst(dtype, f"{e.src(1, dtype)} {operator} {e.names.constant(clamped, dtype)}")
            return
    e.dst(dtype, f"{e.ins.root}({e.src(1, dtype)}, {e.src(2, 'u4')})")


def lop3(e: BlockWriter, m: Match) -> None:
    a, b, c, _ = (e.src(i, "u4") for i in (1, 2, 3, 4))
    e.dst("u4", f"lop3({a}, {b}, {c}, {e.literal(e.ins.operands[4], 'u4', '')})")


def dot(e: BlockWriter, m: Match) -> None:
    """Emit dp4a, or dp2a, which multiplies halves by two of four bytes."""
    a, b = (e.src(i, PTX_DTYPE[m[t]]) for i, t in ((1, "a"), (2, "b")))
    c = e.src(3, "i4" if "s" in m["a"] + m["b"] else "u4")
    size, first = {None: (1, 0), "lo": (2, 0), "hi": (2, 2)}[m.get("mode")]
    e.dst("u4", f"dot({a}, {b}, {c}, {size}, {first})")


def simd(e: BlockWriter, m: Match) -> None:
    """Emit a SIMD video instruction, whose destination and sources are whole registers."""
    root = e.ins.root
    a, b = (e.src(i, "i4" if m[t] == "s32" else "u4") for i, t in ((1, "a"), (2, "b")))
    signed = m["d"] == "s32"
    how = f"{root[1:-1]!r}, {4 // int(root[-1])}, {signed}, {flags(m, 'sat', 'add')}"
    e.dst("u4", f"simd({a}, {b}, {e.src(3, 'u4')}, {how})")


add_sat = expression("i4", "{root}_sat({0}, {1})", "i4", "i4")
divide = expression("t", "{root}({0}, {1})", "t", "t")
minmax = expression("t", "{root}imum({0}, {1})", "t", "t")
count = expression("u4", "{root}({0})", "t")
MINMAX = (
    (INT, minmax),
    # a negative result is replaced by 0
    (r"(?:\.relu\.s32|\.s32\.relu)", expression("i4", "maximum({root}imum({0}, {1}), i4.type(0))", "i4", "i4")),
    (r"\.(?P<t>u16)x2", minmax_x2),
    (r"(?P<relu>\.relu)?\.(?P<t>s16)x2", minmax_x2), (r"\.(?P<t>s16)x2(?P<relu>\.relu)", minmax_x2),
)

ENTRIES: Entries = {
    "add": ((INT, wrapping("{0} + {1}")), (r"\.sat\.(?P<t>s32)", add_sat),
            (r"\.[us]16x2", expression("u4", "halves(add, u2, {0}, {1})", "u4", "u4")),
            (r"\.(?P<cc>cc)\.(?P<t>[us](?:32|64))", carry_add)),
    "addc": ((r"(?:\.(?P<cc>cc))?\.(?P<t>[us](?:32|64))", carry_add),),
    "sub": ((INT, wrapping("{0} - {1}")), (r"\.sat\.(?P<t>s32)", add_sat),
            (r"\.(?P<cc>cc)\.(?P<t>[us](?:32|64))", borrow_sub)),
    "subc": ((r"(?:\.(?P<cc>cc))?\.(?P<t>[us](?:32|64))", borrow_sub),),
    "mul": ((r"\.lo" + INT, wrapping("{0} * {1}")), (r"\.hi" + INT, expression("t", "mul_hi({0}, {1})", "t", "t")),
            (r"\.wide\.(?P<t>[us](?:16|32))", mul_wide)),
    "mad": ((r"\.lo" + INT, wrapping("{0} * {1} + {2}", 3)),
            (r"\.hi" + INT, expression("t", "mul_hi({0}, {1}) + {2}", "t", "t", "t")),
            (r"\.hi\.sat\.s32", expression("i4", "mulhi_sat({0}, {1}, {2})", "i4", "i4", "i4")),
            (r"\.wide\.(?P<t>[us](?:16|32))", mul_wide),
            (r"\.(?P<part>hi|lo)\.(?P<cc>cc)\.(?P<t>[us](?:32|64))", carry_add)),
    "madc": ((r"\.(?P<part>hi|lo)(?:\.(?P<cc>cc))?\.(?P<t>[us](?:32|64))", carry_add),),
    "mul24": ((PART, expression("t", "mul24({0}, {1}, {part!r})", "t", "t")),),
    "mad24": ((PART, expression("t", "mul24({0}, {1}, {part!r}) + {2}", "t", "t", "t")),),
    "div": ((INT, divide),),
    "rem": ((INT, divide),),
    "min": MINMAX,
    "max": MINMAX,
    "neg": ((r"\.(?P<t>s(?:16|32|64))", expression("t", "-{0}", "t")),),
    "abs": ((r"\.(?P<t>s(?:16|32|64))", expression("t", "abs({0})", "t")),),
    "sad": ((INT, expression("t", "{2} + maximum({0}, {1}) - minimum({0}, {1})", "t", "t", "t")),),
    **{root: ((ANY_BITS, wrapping(f"{{0}} {operator} {{1}}")),) for root, operator in LOGIC.items()},
    "not": ((ANY_BITS, expression("t", "~{0}", "t")),),
    "cnot": ((BITS, expression("t", "({0} == 0).astype({dtype})", "t")),),
    "shl": ((BITS, shift),),
    "shr": ((r"\.(?P<t>[bus](?:16|32|64))", shift),),
    "shf": ((r"\.(?P<dir>[lr])\.(?P<mode>wrap|clamp)\.b32",
             expression("u4", "shf({0}, {1}, {2}, {dir!r}, {mode!r})", "u4", "u4", "u4")),),
    "lop3": ((r"\.b32", lop3),),
    "bfe": ((r"\.(?P<t>[us](?:32|64))", expression("t", "bfe({0}, {1}, {2})", "t", "u4", "u4")),),
    "bfi": ((r"\.(?P<t>b(?:32|64))", expression("t", "bfi({0}, {1}, {2}, {3})", "t", "t", "u4", "u4")),),
    "bmsk": ((r"\.(?P<mode>wrap|clamp)\.b32", expression("u4", "bmsk({0}, {1}, {mode!r})", "u4", "u4")),),
    "popc": ((r"\.(?P<t>b(?:32|64))", count),),
    "clz": ((r"\.(?P<t>b(?:32|64))", count),),
    "bfind": ((r"(?P<shift>\.shiftamt)?\.(?P<t>[us](?:32|64))", expression("u4", "bfind({0}, {shift!r})", "t")),),
    "brev": ((r"\.(?P<t>b(?:32|64))", expression("t", "brev({0})", "t")),),
    "prmt": ((r"\.b32(?:\.(?P<mode>f4e|b4e|rc8|ecl|ecr|rc16))?",
              expression("u4", "prmt({0}, {1}, {2}, {mode!r})", "u4", "u4", "u4")),),
    "dp4a": ((r"\.(?P<a>[us]32)\.(?P<b>[us]32)", dot),),
    "dp2a": ((r"\.(?P<mode>lo|hi)\.(?P<a>[us]32)\.(?P<b>[us]32)", dot),),
    "fns": ((r"\.b32", expression("u4", "fns({0}, {1}, {2})", "u4", "u4", "i4")),),
    **{f"v{name}{n}": ((SIMD, simd),) for name in ("add", "sub", "absdiff", "min", "max") for n in (2, 4)},
}
