"""Kernels of wmma for simulator and GPU, with the results that longhand tables demand."""

import numpy as np

from tests.simulator.fragments import BITS, TABLES, c_m8n8, c_m16n8, gather, spread, wmma_places
from tests.simulator.matrix_programs import ELEMENTS

WIDE = ("m16n16k16", "m8n32k16", "m32n8k16")
#: type of A and B -> shapes, types of C and D
FORMS = {
    "f16": (WIDE, ("f16", "f32")), "bf16": (WIDE, ("f32",)), "tf32": (("m16n16k8",), ("f32",)),
    "f64": (("m8n8k4",), ("f64",)), "s8": (WIDE, ("s32",)), "u8": (WIDE, ("s32",)),
    "s4": (("m8n8k32",), ("s32",)), "u4": (("m8n8k32",), ("s32",)), "b1": (("m8n8k128",), ("s32",)),
}
#: (shape, A and B, D, C) of every wmma.mma
PRODUCTS = [(shape, t, d, c) for t, (shapes, sums) in FORMS.items() for shape in shapes for d in sums for c in sums]
#: (matrix, shape, type) of every wmma.load
LOADS = [(role, shape, t) for t, (shapes, _) in FORMS.items() for shape in shapes for role in "ab"]
LOADS += list(dict.fromkeys(("c", shape, t) for shape, _, t, _ in PRODUCTS))
SUB_BYTE = ("b1", "s4", "u4")
ORDER = {"a": "row", "b": "col"}


def extents(role, shape):
    m, n, k = (int(x) for x in shape[1:].replace("n", " ").replace("k", " ").split())
    return {"a": (m, k), "b": (k, n), "c": (m, n)}[role]


def orders(role, t):
    """The orders in memory that a matrix may have."""
    return (ORDER[role],) if t in SUB_BYTE else ("row", "col")


def words(numbers, t):
    """Pack numbers, the first in the lowest bits, into 32-bit words."""
    flat = np.asarray(numbers).reshape(-1)
    if t in SUB_BYTE:
        bits = (flat.astype(np.int64)[:, None] >> np.arange(BITS[t])) & 1
        return np.packbits(bits.astype(np.uint8).reshape(-1), bitorder="little").view(np.uint32)
    kind = np.float64 if t == "f64" else ELEMENTS[t]
    return np.ascontiguousarray(flat.astype(kind)).view(np.uint32)


def drawn(shape, t, seed):
    """Numbers whose products and sums are exact in every type."""
    low, high = {"b1": (0, 2), "u4": (0, 16), "s4": (-8, 8), "u8": (0, 256), "s8": (-128, 128)}.get(t, (-3, 4))
    return np.random.default_rng(seed).integers(low, high, shape)


def stored(matrix, order, stride, t):
    """The words of a matrix in memory; `stride` elements from one row or column to the next."""
    lines = matrix if order == "row" else matrix.T
    padded = np.zeros((lines.shape[0], stride), lines.dtype)
    padded[:, : lines.shape[1]] = lines
    return words(padded, t)


def read_back(memory, order, stride, t, shape):
    """Invert `stored`, for types of accumulators."""
    kind = np.float64 if t == "f64" else ELEMENTS[t]
    lines = memory.view(kind).reshape(-1, stride)
    return lines[:, : shape[1]] if order == "row" else lines[:, : shape[0]].T


def vector(role, shape, t, first):
    """The registers of a fragment, %r or %x from `first` on."""
    elements = len(wmma_places(role, shape, t)[0])
    size = 64 if t == "f64" else 32
    return [f"%{'x' if size == 64 else 'r'}{first + i}" for i in range(elements * BITS[t] // size)]


def load_text(role, shape, t, order, stride):
    """PTX that loads a fragment from p0 and stores its registers, lane by lane, to p1."""
    registers = vector(role, shape, t, 10)
    size = 8 if t == "f64" else 4
    return "\n".join([
        f"mov.u32 %r1, %tid.x; ld.param.u64 %x1, [p0]; ld.param.u64 %x2, [p1]; "
        f"mad.wide.u32 %x2, %r1, {size * len(registers)}, %x2; mov.u32 %r2, {stride};",
        f"wmma.load.{role}.sync.aligned.{order}.{shape}.global.{t} {{{', '.join(registers)}}}, [%x1], %r2;",
        *[f"st.global.b{8 * size} [%x2+{size * i}], {r};" for i, r in enumerate(registers)], "ret;",
    ])


def fragments_of(matrix, role, shape, t):
    """What each lane's registers hold, in 32-bit words: 32 lanes × words."""
    places = wmma_places(role, shape, t)
    return words([[matrix[place] for place in lane] for lane in places], t).reshape(32, -1)


class Program:
    """D = A·B + C: its arrays and text. orders: of A, B, and both C and D. pad: elements between lines."""

    def __init__(self, shape, t, d, c, orders=("row", "col", "row"), space="global", pad=None, end="", op="", seed=0):
        self.shape, self.types, self.orders = shape, (t, t, c, d), (*orders, orders[2])
        self.space, self.given = space, pad is not None
        roles = list(zip("abcc", self.types, self.orders, strict=True))
        self.matrices = [drawn(extents(role, shape), x, seed + i) for i, (role, x, _) in enumerate(roles[:3])]
        self.strides = [
            extents(role, shape)[order == "row"] + (pad or 0) * 128 // BITS[x] for role, x, order in roles
        ]
        self.arrays = [
            stored(matrix, order, stride, x)
            for matrix, stride, (_, x, order) in zip(self.matrices, self.strides[:3], roles[:3], strict=True)
        ]
        rows, columns = extents("c", shape)
        lines = rows if orders[2] == "row" else columns
        self.arrays.append(np.zeros(lines * self.strides[3] * BITS[d] // 32, np.uint32))
        op = f".{op}.popc" if op else ""
        types = f"{d}.{c}" if t == "f16" else f"{d}.{t}.{t}.{c}"
        form = f"wmma.mma{op}.sync.aligned.{orders[0]}.{orders[1]}.{shape}.{types}{end}"
        self.text = self.program(form)

    def program(self, form):
        lines, where = ["mov.u32 %r1, %tid.x;"], []
        shared = "shared" in self.space
        offset = 0
        for i, array in enumerate(self.arrays):
            lines.append(f"ld.param.u64 %x{i + 1}, [p{i}];")
            if not shared:
                where.append(f"%x{i + 1}")
                continue
            lines.append(f"mov.u32 %r2, tile; add.u32 %r{40 + i}, %r2, {offset};")
            offset += 4 * array.size
            lines.append(self.copied(array, f"%x{i + 1}", f"%r{40 + i}", to_shared=True))
            if self.space == "generic shared":
                lines.append(f"cvt.u64.u32 %x{10 + i}, %r{40 + i}; cvta.shared.u64 %x{10 + i}, %x{10 + i};")
            where.append(f"%{'x' if self.space == 'generic shared' else 'r'}{(10 if 'g' in self.space else 40) + i}")
        space = "" if "generic" in self.space else f".{self.space}"
        if shared:
            lines.insert(0, f".shared .align 32 .b8 tile[{offset}];")
            lines.append("bar.sync 0;")
        fragments = []
        for i, (role, t) in enumerate(zip("abc", self.types[:3], strict=True)):
            registers = vector(role, self.shape, t, 10 + 8 * i if t != "f64" else 20 + 8 * i)
            fragments.append("{" + ", ".join(registers) + "}")
            lines.append(f"wmma.load.{role}.sync.aligned.{self.orders[i]}.{self.shape}{space}.{t} "
                         f"{fragments[i]}, [{where[i]}]{self.stride(i)};")
        d = self.types[3]
        results = "{" + ", ".join(vector("c", self.shape, d, 50)) + "}"
        lines.append(f"{form} {results}, {', '.join(fragments)};")
        lines.append(f"wmma.store.d.sync.aligned.{self.orders[3]}.{self.shape}{space}.{d} [{where[3]}], {results}"
                     f"{self.stride(3)};")
        if shared:
            lines.append("bar.sync 0;" + self.copied(self.arrays[3], "%x4", "%r43", to_shared=False))
        return "\n".join([*lines, "ret;"])

    def stride(self, i):
        return f", {self.strides[i]}" if self.given else ""

    def copied(self, array, wide, near, to_shared):
        """PTX that copies an array to or from shared memory, word by word."""
        text = f"mad.wide.u32 %x9, %r1, 4, {wide}; mad.lo.u32 %r3, %r1, 4, {near};"
        move = "{1}ld.global.b32 %r4, [%x9+{0}]; {1}st.shared.b32 [%r3+{0}], %r4;" if to_shared else \
            "{1}ld.shared.b32 %r4, [%r3+{0}]; {1}st.global.b32 [%x9+{0}], %r4;"
        steps, rest = divmod(array.size, 32)
        text += "".join(move.format(128 * i, "") for i in range(steps))
        return text + (f"setp.lt.u32 %p1, %r1, {rest};" + move.format(128 * steps, "@%p1 ") if rest else "")

    def expected(self, op=""):
        """D in float64, or integers, before it is rounded."""
        a, b, c = (x.astype(np.int64) for x in self.matrices)
        if op == "xor":
            return (a[:, :, None] ^ b[None]).sum(1) + c
        return a @ b + c

    def result(self):
        return read_back(self.arrays[3], self.orders[3], self.strides[3], self.types[3], extents("c", self.shape))


def double_matrices(shape, seed):
    """Matrices of float64 whose products and sums are rounded, and partly cancel."""
    rng = np.random.default_rng(seed)
    m, n, k = (int(x) for x in shape[1:].replace("n", " ").replace("k", " ").split())
    return [rng.normal(size=x) * 2.0 ** rng.integers(-4, 5, x) for x in ((m, k), (k, n), (m, n))]


class DoubleProduct:
    """One mma in double precision: the kernel and its arrays, fragments of A, B, C and D."""

    def __init__(self, shape, mode, a, b, c):
        tables = [*TABLES[shape, 64], c_m8n8 if shape == "m8n8k4" else c_m16n8]
        self.table, self.extents = tables[2], c.shape
        self.arrays = [spread(*x) for x in zip((a, b, c), tables, strict=True)]
        self.arrays.append(np.zeros_like(self.arrays[2]))
        counts = [x.shape[1] for x in self.arrays]
        names = [[f"%x{first + i}" for i in range(n)] for first, n in zip((10, 20, 30, 40), counts, strict=True)]
        lines = ["mov.u32 %r60, %tid.x;"]
        place = "ld.param.u64 %x1, [p{0}]; mad.wide.u32 %x1, %r60, {1}, %x1;"
        for i, registers in enumerate(names[:3]):
            lines.append(place.format(i, 8 * counts[i]))
            lines.extend(f"ld.global.b64 {r}, [%x1+{8 * j}];" for j, r in enumerate(registers))
        a_text, b_text, c_text, d_text = ("{" + ", ".join(x) + "}" for x in names)
        form = f"mma.sync.aligned.{shape}.row.col{'.' if mode else ''}{mode}.f64.f64.f64.f64"
        lines.append(f"{form} {d_text}, {a_text}, {b_text}, {c_text};" + place.format(3, 8 * counts[3]))
        lines.extend(f"st.global.b64 [%x1+{8 * j}], {r};" for j, r in enumerate(names[3]))
        self.text = "\n".join([*lines, "ret;"])

    def result(self):
        return gather(self.arrays[3], self.table, self.extents)
