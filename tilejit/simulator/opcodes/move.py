"""Data movement between registers, comparison and selection, special registers, address conversion."""

from __future__ import annotations

from ..decode.emitter import BlockWriter, Entries, Match, approximated, expression, paired
from ..decode.names import PTX_DTYPE, SIZE, SPECIAL
from ..decode.ptx import vector
from ..machine.lanes import RANK_SHIFT
from .integer import LOGIC

ANY = r"\.(?P<t>b16|b32|b64|u16|u32|u64|s16|s32|s64|f16|bf16|f32|f64|f16x2|bf16x2)"

# State space → start of its window in the generic address space ("": generic). Device addresses exceed 32 bits, so that
# a truncated address is out of bounds.
WINDOWS = {"shared": 1 << 44, "local": 2 << 44, "const": 3 << 44, "param": 4 << 44, "global": 0, "": 0}

_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
            "lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
_INVERSE = {"ltu": ">=", "leu": ">", "gtu": "<=", "geu": "<"}


def mov(e: BlockWriter, m: Match) -> None:
    target, source = e.exactly(2)
    dtype = PTX_DTYPE[m["t"]]
    if target[0] == "{":
        unpack(e, vector(target), source, dtype)
    elif source[0] == "{":
        pack(e, target, vector(source), dtype)
    elif e.is_register(source):
        special = SPECIAL.get(source)
        if special is None and e.names.register_bits.get(target) == e.names.register_bits[source]:
            e.alias(target, source)
        else:
            # mov of a special register may truncate its value
            e.write(target, dtype, e.source(source, dtype))
    elif source[0] in "0123456789-+":
        bits = e.literal(source, dtype, m["t"])
        float_literal = source[:2].lower() in ("0f", "0d") and dtype[0] == "u" and SIZE[dtype] >= 4
        e.set_constant(target, bits, f"f{SIZE[dtype]}" if float_literal else dtype)
    else:
        e.write(target, dtype, e.source(source, dtype))


def pack(e: BlockWriter, target: str, parts: list[str], dtype: str) -> None:
    """Emit mov of a vector {a, b, ...} to a register: the first element becomes the lowest bits."""
    size = SIZE[dtype] // len(parts)
    total = f"u{SIZE[dtype]}"
    terms = []
    for i, part in enumerate(parts):
        value = e.source(part, f"u{size}")
        wide = f"{value}.astype({total})"
        terms.append(wide if i == 0 else f"({wide} << {e.names.constant(8 * size * i, total)})")
    e.write(target, total, " | ".join(terms))


def unpack(e: BlockWriter, parts: list[str], source: str, dtype: str) -> None:
    size = SIZE[dtype] // len(parts)
    total = f"u{SIZE[dtype]}"
    value = e.source(source, total)
    results = []
    for i in range(len(parts)):
        shifted = value if i == 0 else f"({value} >> {e.names.constant(8 * size * i, total)})"
        results.append(e.temp(f"{shifted}.astype(u{size})") if parts[i] != "_" else "")
    for part, result in zip(parts, results, strict=True):
        if part != "_":
            e.write(part, f"u{size}", result)


def cvta(e: BlockWriter, m: Match) -> None:
    """Emit cvta, which converts between an address in a state space and a generic address."""
    dtype = PTX_DTYPE[m["t"]]
    base = WINDOWS[m["space"]]
    check_cluster(e, m)
    operator = "-" if m["to"] else "+"
    if not base and e.is_register(e.ins.operands[1]):
        e.alias(e.ins.operands[0], e.ins.operands[1])
        return
    e.dst(dtype, f"{e.src(1, dtype)} {operator} {e.names.constant(base, dtype)}")


def check_cluster(e: BlockWriter, m: Match) -> None:
    if m["far"] and m["space"] != "shared":
        e.fail(f"{e.ins.root}{e.ins.suffix} is not supported")


def isspacep(e: BlockWriter, m: Match) -> None:
    check_cluster(e, m)
    address = e.src(1, "u8")
    if e.names.shared and m["space"] == "shared" and not m["far"]:
        # of the thread's own CTA only, whose addresses become offsets without a rank
        own = e.names.constant(WINDOWS["shared"] >> RANK_SHIFT, "u8")
        e.dst("p", f"S.clusters.generic_offset({address}) >> {e.names.constant(RANK_SHIFT, 'u8')} == {own}")
        return
    window = f"({address} >> {e.names.constant(44, 'u8')})"
    e.dst("p", f"{window} == {e.names.constant(WINDOWS[m['space']] >> 44, 'u8')}")


def selp(e: BlockWriter, m: Match) -> None:
    unsigned = f"u{SIZE[PTX_DTYPE[m['t']]]}"
    dtype = PTX_DTYPE[m["t"]]
    if dtype[0] in "ui":
        dtype = _held_dtype(e, unsigned)
    chosen, yes, no = e.src(3, "p"), e.src(1, dtype), e.src(2, dtype)
    e.stmt(f"S.selects({e.pc}, {chosen})")
    e.dst(dtype, f"sel({chosen}, {yes}, {no})")


def _held_dtype(e: BlockWriter, unsigned: str) -> str:
    """Return a float or signed dtype if every input register has a view of that dtype and no unsigned view.

    If no dtype fits, or no input is a register, return `unsigned`. A float dtype also requires that an input that isn't
    a register is a float literal.
    """
    for other in (f"f{unsigned[1]}", f"i{unsigned[1]}"):
        registers = [i for i in (1, 2) if e.is_register(e.ins.operands[i])]
        if registers and all(e.either(unsigned, other, i) == other for i in registers):
            literal = [i for i in (1, 2) if i not in registers]
            if other[0] == "i" or not literal or e.ins.operands[literal[0]][:2].lower() in ("0f", "0d"):
                return other
    return unsigned


def compare(e: BlockWriter, how: str, a: str, b: str, is_float: bool) -> str:
    """Return an expression for a comparison. If an operand is NaN, only `nan` and the unordered forms are true."""
    if how == "num":
        return f"(({a} == {a}) & ({b} == {b}))"
    if how == "nan":
        return f"(({a} != {a}) | ({b} != {b}))"
    if how in _INVERSE:
        return f"not_({a} {_INVERSE[how]} {b})"
    if how == "equ":
        return f"not_(({a} < {b}) | ({a} > {b}))"
    if how == "neu" or (how == "ne" and not is_float):
        return f"({a} != {b})"
    if how == "ne":
        return f"(({a} < {b}) | ({a} > {b}))"
    return f"({a} {_COMPARE[how]} {b})"


def setp(e: BlockWriter, m: Match) -> None:
    """Emit setp p|q: q is the opposite result or, for packed operands, that of the high halves."""
    targets, results = paired(e.ins.operands[0]), _compared(e, m)
    if len(targets) == 1 and not m.get("bool"):
        e.write(targets[0], "p", results[0])
        return
    if len(results) == 1:
        result = e.temp(results[0])
        results = [result, f"not_({result})"]
    values = [e.temp(x) for x in _combined(e, m, results)[: len(targets)]]
    for target, value in zip(targets, values, strict=True):
        if target != "_":
            e.write(target, "p", value)


def _compared(e: BlockWriter, m: Match) -> list[str]:
    """Return the expression of a comparison, or for packed operands those of the low and of the high halves."""
    t = m["t"]
    if t.endswith("x2"):
        words = e.src(1, "u4"), e.src(2, "u4")
        pairs = [[f"{t[:-2]}_{half}({x})" for x in words] for half in ("low", "high")]
    elif t == "bf16":
        pairs = [[f"bf16_to_f32({e.src(i, 'u2')})" for i in (1, 2)]]
    else:
        dtype = PTX_DTYPE[t]
        if m["how"] in ("eq", "ne") and dtype[0] in "ui":
            dtype = e.either(f"u{dtype[1]}", f"i{dtype[1]}", 1, 2)
        pairs = [[e.src(i, dtype) for i in (1, 2)]]
    if m.get("ftz"):
        pairs = [[f"ftz({x})" for x in pair] for pair in pairs]
    named = [[x if x.isidentifier() else e.temp(x) for x in pair] for pair in pairs]
    return [compare(e, m["how"], a, b, "f" in t) for a, b in named]


def _combined(e: BlockWriter, m: Match, results: list[str]) -> list[str]:
    """Return the results of comparisons, combined with the predicate of an instruction with .and, .or or .xor."""
    return [f"({x} {LOGIC[m['bool']]} {e.src(3, 'p')})" for x in results] if m.get("bool") else results


def set_(e: BlockWriter, m: Match) -> None:
    """Emit set, which is like setp, but writes a number to a register: all ones or 1.0 for true, 0 for false."""
    results, size = _combined(e, m, _compared(e, m)), SIZE[PTX_DTYPE[m["d"]]]
    one = _ONE.get(m["d"], (1 << 8 * size // len(results)) - 1)
    values = (e.names.constant(one << shift, f"u{size}") for shift in (0, 16)[: len(results)])
    e.dst(f"u{size}", " | ".join(f"{x}.astype(u{size}) * {y}" for x, y in zip(results, values, strict=True)))


INT_HOW = r"\.(?P<how>eq|ne|lt|le|gt|ge|lo|ls|hi|hs)"
FLOAT_HOW = r"\.(?P<how>eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan)"
BOOL = r"(?:\.(?P<bool>and|or|xor))?"
#: 1.0 as the bits of a number, or of each half of a pair
_ONE = {"f32": 0x3F800000, "f16": 0x3C00, "f16x2": 0x3C00, "bf16": 0x3F80, "bf16x2": 0x3F80}
SPACE = r"\.(?P<space>global|shared|local|const|param)(?:::cta|(?P<far>::cluster))?"
SET_D = r"\.(?P<d>u32|s32|f32)"
ENTRIES: Entries = {
    "mov": ((ANY, mov, approximated(
        "%clock, %clock64, %clock_hi, %globaltimer, %globaltimer_lo, %smid, %gridid and %dynamic_smem_size are 0, "
        "%nsmid is 1; exact otherwise"
    )), (r"\.(?P<t>pred)", mov)),
    "cvta": ((r"(?P<to>\.to)?" + SPACE + r"\.(?P<t>u32|u64)", cvta),),
    "isspacep": ((SPACE, isspacep),),
    "selp": ((ANY, selp),),
    "slct": ((r"\.(?P<t>[bus](?:16|32|64)|f32|f64)\.(?P<c>s32|f32)",
              expression("t", "sel({2} >= 0, {0}, {1})", "t", "t", "c")),),
    "setp": ((INT_HOW + BOOL + r"\.(?P<t>[bus](?:16|32|64))", setp),
             (FLOAT_HOW + BOOL + r"(?P<ftz>\.ftz)?\.(?P<t>f16|bf16|f32|f64)", setp),
             (FLOAT_HOW + BOOL + r"(?P<ftz>\.ftz)?\.(?P<t>f16x2|bf16x2)", setp)),
    "set": ((INT_HOW + BOOL + SET_D + r"\.(?P<t>[bus](?:16|32|64))", set_),
            (FLOAT_HOW + BOOL + r"(?P<ftz>\.ftz)?" + SET_D + r"\.(?P<t>f16|bf16|f32|f64)", set_),
            (FLOAT_HOW + BOOL + r"(?P<ftz>\.ftz)?\.(?P<d>f16|bf16|u16|s16)\.(?P<t>f16|bf16|f32|f64)", set_),
            (INT_HOW + BOOL + r"\.(?P<d>f16|bf16)\.(?P<t>[bus](?:16|32|64))", set_),
            (FLOAT_HOW + BOOL + r"(?P<ftz>\.ftz)?\.(?P<d>u32|s32|f16x2)\.(?P<t>f16x2)", set_),
            (FLOAT_HOW + BOOL + r"\.(?P<d>u32|s32|bf16x2)\.(?P<t>bf16x2)", set_)),
}
