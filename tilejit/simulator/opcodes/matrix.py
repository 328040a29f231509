"""Matrix loads, stores and products of a warp (ldmatrix, stmatrix, mma, wmma)."""

from __future__ import annotations

from ..decode.emitter import BlockWriter, Entries, Fidelity, Match, approximated
from ..numerics.fragments import NARROW, Fragment, MatrixTile, fragment, is_exchanged, matrix_tile
from .memory import site
from .move import WINDOWS

_ROW_SHIFT = 4
_SHAPES_16 = ("m16n16k16", "m8n32k16", "m32n8k16")
_MMA_8_BITS = ("m16n8k16", "m16n8k32")
_8_BIT_INTEGERS, _8_BIT_FLOATS = ("s8", "u8"), ("e4m3", "e5m2")
# Opcode → type of A and B → shapes, types of C and D. source: PTX ISA, "Matrix Shape" and "Matrix Data-types" of warp
# level matrix instructions
_FORMS: dict[str, dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "mma": {
        "f16": (("m16n8k8", "m16n8k16"), ("f16", "f32")), "bf16": (("m16n8k8", "m16n8k16"), ("f32",)),
        "tf32": (("m16n8k4", "m16n8k8"), ("f32",)), **dict.fromkeys(_8_BIT_INTEGERS, (_MMA_8_BITS, ("s32",))),
        **dict.fromkeys(_8_BIT_FLOATS, (_MMA_8_BITS, ("f16", "f32"))),
    },
    "wmma": {
        "f16": (_SHAPES_16, ("f16", "f32")), "bf16": (_SHAPES_16, ("f32",)), "tf32": (("m16n16k8",), ("f32",)),
        "f64": (("m8n8k4",), ("f64",)), **dict.fromkeys(_8_BIT_INTEGERS, (_SHAPES_16, ("s32",))),
        "s4": (("m8n8k32",), ("s32",)), "u4": (("m8n8k32",), ("s32",)), "b1": (("m8n8k128",), ("s32",)),
    },
}
#: type of an accumulator → dtype of its registers
ELEMENT_DTYPE = {"f32": "f4", "f16": "u4", "s32": "i4"}


def shared_site(e: BlockWriter, m: Match, kind: str, operand: str, shift: int, dtype: str) -> tuple[str, str]:
    """Declare an access by a shared or generic address. Return (index of the access, shared-address expression)."""
    number, address = site(e, kind, {"space": "shared"}, operand, shift, dtype)
    if m["space"]:
        return number, address
    if e.names.sites[-1].address_dtype != "u8":
        e.fail("a generic address must have 64 bits; a 32-bit address needs .shared")
    window = e.names.constant(WINDOWS["shared"], "u8")
    return number, f"({address} - {window})"


def ldmatrix(e: BlockWriter, m: Match) -> None:
    targets, source = e.exactly(2)
    registers = e.vector(targets, int(m["num"]))
    number, address = shared_site(e, m, "load", source, _ROW_SHIFT, "V16")
    trans = m["trans"] is not None
    values = e.temp(f"S.ldmatrix({number}, {address}, {len(registers)}, {trans}, {e.pc})")
    e.write_each(registers, "u4", values)


def stmatrix(e: BlockWriter, m: Match) -> None:
    target, sources = e.exactly(2)
    values = e.sources(e.vector(sources, int(m["num"])), "u4")
    number, address = shared_site(e, m, "store", target, _ROW_SHIFT, "V16")
    e.stmt(f"S.stmatrix({number}, {address}, {values}, {m['trans'] is not None}, {e.pc})")


def tile_of(e: BlockWriter, m: Match, role: str) -> MatrixTile:
    """Return the tile of wmma.load or .store."""
    element, shape = m["t"], m["shape"]
    forms = _FORMS["wmma"].items()
    if not any(shape in shapes and (element in sums if role == "c" else element == a) for a, (shapes, sums) in forms):
        e.fail(f"{e.ins.root}{e.ins.suffix} doesn't exist: .{element} has no shape {shape}")
    if element in NARROW:
        check_order(e, element, role, m["layout"])
    return matrix_tile(role, m["layout"], shape, element)


def check_order(e: BlockWriter, element: str, role: str, layout: str) -> None:
    if layout != ("row" if role == "a" else "col"):
        e.fail(f"A of type .{element} must be in row-major order, and B in column-major order")


def named(e: BlockWriter, value: Fragment | MatrixTile) -> str:
    """Return the name of a fragment or tile in the generated code."""
    e.names.namespace[value.name] = value
    return value.name


def move(e: BlockWriter, m: Match, kind: str, tile: MatrixTile, place: str, more: str = "") -> str:
    """Declare a matrix's accesses. Return the call that moves it. more: further arguments."""
    if len(e.ins.operands) not in (2, 3):
        e.fail(f"the number of operands must be 2, or 3 with a stride, got {len(e.ins.operands)}")
    size = tile.chunk_bytes
    number, address = site(e, kind, m, place, size.bit_length() - 1, "V16" if size == 16 else f"u{size}")
    stride = e.source(e.ins.operands[2], "u4") if len(e.ins.operands) == 3 else e.names.constant(tile.stride, "u4")
    return f"S.tiles.{kind}({number}, {address}, {stride}, {named(e, tile)}{more})"


def load(e: BlockWriter, m: Match) -> None:
    """Emit wmma.load.a, .b or .c {...}, [address]{, stride}."""
    tile = tile_of(e, m, m["role"])
    registers = e.vector(e.ins.operands[0], tile.fragment.count)
    values = e.temp(move(e, m, "load", tile, e.ins.operands[1]))
    e.write_each(registers, tile.fragment.register, values)


def store(e: BlockWriter, m: Match) -> None:
    """Emit wmma.store.d [address], {...}{, stride}."""
    tile = tile_of(e, m, "c")
    values = e.sources(e.vector(e.ins.operands[1], tile.fragment.count), tile.fragment.register)
    e.stmt(move(e, m, "store", tile, e.ins.operands[0], f", {values}"))


def product(e: BlockWriter, m: Match) -> None:
    """Emit mma or wmma.mma. wmma's A and B have the same type, f16 if it has none; mma's C and D have the same type."""
    root, a, b, c, d = e.ins.root, m.get("a") or "f16", m.get("b") or "f16", m["c"], m["d"]
    shapes, sums = _FORMS[root][a]
    mixed = root == "mma" and any(a in types and b in types for types in (_8_BIT_INTEGERS, _8_BIT_FLOATS))
    if m["shape"] not in shapes or not {c, d} <= {*sums} or not (a == b or mixed) or (root == "mma" and c != d):
        e.fail(f"{root}{e.ins.suffix} doesn't exist for this shape and these types")
    for role, layout in (("a", m["la"]), ("b", m["lb"])) if a in NARROW else ():
        check_order(e, a, role, layout)
    end = f"{d!r}, {m.get('sat') is not None}"
    text = f"product({{0}}, {{1}}, {{2}}, {end})"
    if m.get("op") == "xor":
        # the bits that only B has, and those that only A has
        text = f"product({{0}}, 1 - {{1}}, product(1 - {{0}}, {{1}}, {{2}}, {end}), {end})"
    multiply(e, m["shape"], (d, a, b, c), text)


def doubles(e: BlockWriter, m: Match) -> None:
    """Emit wmma.mma or mma in double precision."""
    modes = {m["round"], m.get("last")} - {None}
    if len(modes) > 1:
        e.fail("the instruction has two modes of rounding")
    mode = modes.pop() if modes else "rn"
    multiply(e, m["shape"], ("f64",) * 4, f"fused_product({{0}}, {{1}}, {{2}}, {mode!r})")


def multiply(e: BlockWriter, shape: str, types: tuple[str, ...], text: str) -> None:
    """Emit D = A·B + C. types: of D, A, B and C. text: the expression of A, B and C, which are exchanged if needed."""
    fragments = [fragment(role, shape, t) for role, t in zip("cabc", types, strict=True)]
    vectors = [e.vector(x, f.count) for x, f in zip(e.exactly(4), fragments, strict=True)]
    e.stmt(f"S.warps.whole({e.pc})")
    is_transposed = is_exchanged(shape), not is_exchanged(shape)
    operands = [
        e.once(f"{named(e, f)}.doubles({e.sources(x, f.register)}, S.n, {transposed})")
        for f, x, transposed in zip(fragments[1:3], vectors[1:3], is_transposed, strict=True)
    ]
    left, right = operands[::-1] if is_exchanged(shape) else operands
    start = tuple(e.source(x, fragments[3].register) for x in vectors[3])
    # if C is the result of an earlier product in the basic block, it is available as a matrix
    total = e.computed.get((fragments[3].name, *start))
    total = total or e.temp(f"{named(e, fragments[3])}.matrix(({', '.join(start)},), S.n)")
    result = fragments[0]
    matrix = e.temp(text.format(left, right, total))
    values = e.temp(f"{named(e, result)}.registers({matrix})")
    e.write_each(vectors[0], result.register, values)
    key = (result.name, *(e.source(x, result.register) for x in vectors[0] if x != "_"))
    e.computed[key] = matrix


FLOATS = r"f16|bf16|tf32|e4m3|e5m2"
# A GPU may add the products in a different order and with less precision.
FLOAT_SUMS = approximated(
    "exact products, whose sum in float64 errs by at most 2^-44 of the sum of their magnitudes, rounded once; the "
    "lower 13 bits of tf32 are ignored"
)
_LANES = Fidelity("exact", "each lane has the elements that it has on sm_90; the ISA leaves them open")
_FUSED = approximated(
    "fused multiply-adds, each rounded, in ascending order of k as on sm_90; the ISA leaves the order open"
)
_FORM = r"\.sync\.aligned\.m8n8\.x(?P<num>[124])(?P<trans>\.trans)?(?P<space>\.shared(?:::cta)?)?\.b16"
_LAYOUT, _SPACE = r"\.(?P<layout>row|col)", r"(?:\.(?P<space>global|shared)(?:::cta)?)?"
_SHAPE = r"\.(?P<shape>m16n16k16|m8n32k16|m32n8k16"
_ANY_SHAPE = rf"{_SHAPE}|m16n16k8|m8n8k4|m8n8k32|m8n8k128)"
_PRODUCT = r"\.sync\.aligned\.(?P<la>row|col)\.(?P<lb>row|col)"
_ROUND = r"(?:\.(?P<round>rn|rz|rm|rp))?"
_F64 = r"\.f64\.f64\.f64\.f64"
ENTRIES: Entries = {
    "ldmatrix": ((_FORM, ldmatrix),),
    "stmatrix": ((_FORM, stmatrix),),
    "mma": (
        (r"\.sync\.aligned\.(?P<shape>m16n8k(?:16|32))\.row\.col(?P<sat>\.satfinite)?"
         r"\.(?P<d>s32)\.(?P<a>s8|u8)\.(?P<b>s8|u8)\.(?P<c>s32)", product),
        (r"\.sync\.aligned\.(?P<shape>m16n8k(?:4|8|16|32))\.row\.col"
         rf"\.(?P<d>f32|f16)\.(?P<a>{FLOATS})\.(?P<b>{FLOATS})\.(?P<c>f32|f16)", product, FLOAT_SUMS),
        (rf"\.sync\.aligned\.(?P<shape>m8n8k4|m16n8k(?:4|8|16))\.row\.col{_ROUND}{_F64}", doubles, _FUSED),
    ),
    "wmma": (
        (rf"\.load\.(?P<role>[abc])\.sync\.aligned{_LAYOUT}{_ANY_SHAPE}{_SPACE}"
         r"\.(?P<t>f16|bf16|tf32|f32|f64|[su]8|s32|[su]4|b1)", load, _LANES),
        (rf"\.store\.d\.sync\.aligned{_LAYOUT}{_ANY_SHAPE}{_SPACE}\.(?P<t>f16|f32|f64|s32)", store, _LANES),
        (rf"\.mma{_PRODUCT}{_SHAPE}|m8n8k32)\.(?P<d>s32)\.(?P<a>[su][48])\.(?P<b>[su][48])\.(?P<c>s32)"
         r"(?P<sat>\.satfinite)?", product),
        (rf"\.mma\.(?P<op>xor|and)\.popc{_PRODUCT}\.(?P<shape>m8n8k128)\.(?P<d>s32)\.(?P<a>b1)\.(?P<b>b1)\.(?P<c>s32)",
         product),
        (rf"\.mma{_PRODUCT}{_SHAPE}|m16n16k8)"
         r"\.(?P<d>f16|f32)(?:\.(?P<a>bf16|tf32)\.(?P<b>bf16|tf32))?\.(?P<c>f16|f32)", product, FLOAT_SUMS),
        (rf"\.mma{_PRODUCT}\.(?P<shape>m8n8k4){_ROUND}{_F64}(?:\.(?P<last>rn|rz|rm|rp))?", doubles, _FUSED),
    ),
}
