"""Matrix loads, stores and products of a warp by wmma; products in double precision by mma."""

from __future__ import annotations

from ..decode.emitter import BlockWriter, Entries, Fidelity, Match, approximated
from ..numerics.fragments import Fragment, MatrixTile, fragment, is_exchanged, matrix_tile
from .matrix import FLOAT_SUMS
from .memory import site

_16 = ("m16n16k16", "m8n32k16", "m32n8k16")
# Type of A and B → shapes, types of C and D: PTX ISA, "Matrix Shape" and "Matrix Data-types" of wmma.
_FORMS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "f16": (_16, ("f16", "f32")), "bf16": (_16, ("f32",)), "tf32": (("m16n16k8",), ("f32",)),
    "f64": (("m8n8k4",), ("f64",)), "s8": (_16, ("s32",)), "u8": (_16, ("s32",)),
    "s4": (("m8n8k32",), ("s32",)), "u4": (("m8n8k32",), ("s32",)), "b1": (("m8n8k128",), ("s32",)),
}
_SUB_BYTE = ("s4", "u4", "b1")


def tile_of(e: BlockWriter, m: Match, role: str) -> MatrixTile:
    element, shape = m["t"], m["shape"]
    forms = _FORMS.items()
    shapes = [x for a, (some, sums) in forms for x in some if (element in sums if role == "c" else element == a)]
    if shape not in shapes:
        e.fail(f"{e.ins.root}{e.ins.suffix} doesn't exist: .{element} has no shape {shape}")
    if element in _SUB_BYTE and m["layout"] != ("row" if role == "a" else "col"):
        e.fail(f"A of type .{element} must be in row-major order, and B in column-major order")
    return matrix_tile(role, m["layout"], shape, element)


def named(e: BlockWriter, value: Fragment | MatrixTile) -> str:
    """Return the name of a fragment or tile in the generated code."""
    e.names.namespace[value.name] = value
    return value.name


def accesses(e: BlockWriter, m: Match, kind: str, operand: str, tile: MatrixTile) -> str:
    """Declare a matrix's accesses. Return the first arguments of the machine's method."""
    size = tile.chunk_bytes
    number, address = site(e, kind, m, operand, size.bit_length() - 1, "V16" if size == 16 else f"u{size}")
    stride = e.source(e.ins.operands[2], "u4") if len(e.ins.operands) == 3 else e.names.constant(tile.stride, "u4")
    return f"{number}, {address}, {stride}"


def load(e: BlockWriter, m: Match) -> None:
    targets, source, *_ = two_or_three(e)
    tile = tile_of(e, m, m["role"])
    registers = e.vector(targets, tile.fragment.count)
    arguments = accesses(e, m, "load", source, tile)
    values = e.temp(f"S.tiles.load({arguments}, {named(e, tile)})")
    e.write_each(registers, tile.fragment.register, values)


def store(e: BlockWriter, m: Match) -> None:
    target, sources, *_ = two_or_three(e)
    tile = tile_of(e, m, "c")
    values = e.sources(e.vector(sources, tile.fragment.count), tile.fragment.register)
    arguments = accesses(e, m, "store", target, tile)
    e.stmt(f"S.tiles.store({arguments}, {values}, {named(e, tile)})")


def two_or_three(e: BlockWriter) -> tuple[str, ...]:
    if len(e.ins.operands) not in (2, 3):
        e.fail(f"the number of operands must be 2, or 3 with a stride, got {len(e.ins.operands)}")
    return e.ins.operands


def wmma(e: BlockWriter, m: Match) -> None:
    """Emit wmma.mma. A and B have the same type; without one, it is f16."""
    a, c, d = m.get("a") or "f16", m["c"], m["d"]
    shapes, sums = _FORMS[a]
    if m["shape"] not in shapes or c not in sums or d not in sums or a != (m.get("b") or "f16"):
        e.fail("wmma.mma doesn't exist for this shape and these types")
    if a in _SUB_BYTE and (m["la"], m["lb"]) != ("row", "col"):
        e.fail(f"A of type .{a} must be in row-major order, and B in column-major order")
    end = f"{d!r}, {m.get('sat') is not None}"
    text = f"product({{0}}, {{1}}, {{2}}, {end})"
    if m.get("op") == "xor":
        # the bits that only B has, and those that only A has
        text = f"product({{0}}, 1 - {{1}}, product(1 - {{0}}, {{1}}, {{2}}, {end}), {end})"
    multiply(e, m["shape"], (d, a, a, c), text)


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
    operands = [
        e.once(f"{named(e, f)}.doubles({e.sources(x, f.register)}, S.n)")
        for f, x in zip(fragments[1:3], vectors[1:3], strict=True)
    ]
    left, right = operands[::-1] if is_exchanged(shape) else operands
    start = tuple(e.source(x, fragments[3].register) for x in vectors[3])
    # if C is the result of an earlier product in the basic block, it is available as a matrix
    total = e.computed.get((fragments[3].name, *start))
    total = total or e.temp(f"{named(e, fragments[3])}.matrix(({', '.join(start)},), S.n)")
    result = fragments[0]
    matrix = e.temp(text.format(left, f"{right}.swapaxes(-1, -2)", total))
    values = e.temp(f"{named(e, result)}.registers({matrix})")
    e.write_each(vectors[0], result.register, values)
    key = (result.name, *(e.source(x, result.register) for x in vectors[0] if x != "_"))
    e.computed[key] = matrix


_LAYOUT, _SPACE = r"\.(?P<layout>row|col)", r"(?:\.(?P<space>global|shared)(?:::cta)?)?"
_SHAPE = r"\.(?P<shape>m16n16k16|m8n32k16|m32n8k16"
_ANY_SHAPE = rf"{_SHAPE}|m16n16k8|m8n8k4|m8n8k32|m8n8k128)"
_PRODUCT = r"\.sync\.aligned\.(?P<la>row|col)\.(?P<lb>row|col)"
_ROUND = r"(?:\.(?P<round>rn|rz|rm|rp))?"
_F64 = r"\.f64\.f64\.f64\.f64"
_LANES = Fidelity("exact", "each lane has the elements that it has on sm_90; the ISA leaves them open")
FUSED = approximated(
    "fused multiply-adds, each rounded, in ascending order of k as on sm_90; the ISA leaves the order open"
)
ENTRIES: Entries = {
    "wmma": (
        (rf"\.load\.(?P<role>[abc])\.sync\.aligned{_LAYOUT}{_ANY_SHAPE}{_SPACE}"
         r"\.(?P<t>f16|bf16|tf32|f32|f64|[su]8|s32|[su]4|b1)", load, _LANES),
        (rf"\.store\.d\.sync\.aligned{_LAYOUT}{_ANY_SHAPE}{_SPACE}\.(?P<t>f16|f32|f64|s32)", store, _LANES),
        (rf"\.mma{_PRODUCT}{_SHAPE}|m8n8k32)\.(?P<d>s32)\.(?P<a>[su][48])\.(?P<b>[su][48])\.(?P<c>s32)"
         r"(?P<sat>\.satfinite)?", wmma),
        (rf"\.mma\.(?P<op>xor|and)\.popc{_PRODUCT}\.(?P<shape>m8n8k128)\.(?P<d>s32)\.(?P<a>b1)\.(?P<b>b1)\.(?P<c>s32)",
         wmma),
        (rf"\.mma{_PRODUCT}{_SHAPE}|m16n16k8)"
         r"\.(?P<d>f16|f32)(?:\.(?P<a>bf16|tf32)\.(?P<b>bf16|tf32))?\.(?P<c>f16|f32)", wmma, FLOAT_SUMS),
        (rf"\.mma{_PRODUCT}\.(?P<shape>m8n8k4){_ROUND}{_F64}(?:\.(?P<last>rn|rz|rm|rp))?", doubles, FUSED),
    ),
    "mma": ((rf"\.sync\.aligned\.(?P<shape>m8n8k4|m16n8k(?:4|8|16))\.row\.col{_ROUND}{_F64}", doubles, FUSED),),
}
