"""Kernels of matrix instructions for simulator and GPU, with the results that the PTX ISA's tables demand."""

import ml_dtypes
import numpy as np

from tests.simulator.fragments import TABLES, c_m16n8, gather, spread

#: PTX type -> NumPy type of elements
ELEMENTS = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "s8": np.int8, "u8": np.uint8,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "f32": np.float32, "s32": np.int32,
}

#: (shape, A, B, accumulator) of every mma
PRODUCTS = [
    *[("m16n8k16", t, t, acc) for t in ("f16", "bf16") for acc in ("f32", "f16") if (t, acc) != ("bf16", "f16")],
    *[("m16n8k8", t, t, acc) for t in ("f16", "bf16") for acc in ("f32", "f16") if (t, acc) != ("bf16", "f16")],
    ("m16n8k8", "tf32", "tf32", "f32"), ("m16n8k4", "tf32", "tf32", "f32"),
    *[(shape, a, b, "s32") for shape in ("m16n8k16", "m16n8k32") for a in ("s8", "u8") for b in ("s8", "u8")],
    *[("m16n8k32", a, b, "f32") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")],
]

#: those that only newer devices or PTX versions have
NEW_PRODUCTS = [("m16n8k16", "e4m3", "e5m2", "f32"), ("m16n8k32", "e4m3", "e4m3", "f16")]


def small_integers(shape, element, seed):
    """Values whose products and sums are exact in every type."""
    low = 0 if element == "u8" else -3
    return np.random.default_rng(seed).integers(low, 4, shape).astype(ELEMENTS[element])


def mma_text(shape, a, b, acc, counts, saturate=False):
    """PTX that loads fragments from p0, p1, p2, multiplies, and stores to p3; counts: words of A, B and C a lane."""
    lines = ["mov.u32 %r60, %tid.x;"]
    vectors = []
    first = 1
    for i, count in enumerate(counts):
        registers = [f"%r{first + j}" for j in range(count)]
        first += count
        vectors.append("{" + ", ".join(registers) + "}")
        lines.append(f"ld.param.u64 %x1, [p{i}]; mad.wide.u32 %x1, %r60, {4 * count}, %x1;")
        lines.extend(f"ld.global.b32 {r}, [%x1+{4 * j}];" for j, r in enumerate(registers))
    results = [f"%r{40 + j}" for j in range(counts[2])]
    form = f"mma.sync.aligned.{shape}.row.col{'.satfinite' if saturate else ''}.{acc}.{a}.{b}.{acc}"
    lines.append(f"{form} {{{', '.join(results)}}}, {vectors[0]}, {vectors[1]}, {vectors[2]};")
    lines.append(f"ld.param.u64 %x1, [p3]; mad.wide.u32 %x1, %r60, {4 * counts[2]}, %x1;")
    lines.extend(f"st.global.b32 [%x1+{4 * j}], {r};" for j, r in enumerate(results))
    return "\n".join([*lines, "ret;"])


class Product:
    """One mma on given matrices: the kernel, its arrays, and the matrix that they hold afterwards."""

    def __init__(self, shape, a_type, b_type, acc, a, b, c, saturate=False):
        bits = 8 * np.dtype(ELEMENTS[a_type]).itemsize
        tables = TABLES[shape, bits]
        fragments = [spread(a, tables[0]), spread(b, tables[1]), spread(c, c_m16n8)]
        self.arrays = [np.ascontiguousarray(x).view(np.uint32) for x in fragments]
        self.arrays.append(np.zeros_like(self.arrays[2]))
        self.text = mma_text(shape, a_type, b_type, acc, [x.shape[1] for x in self.arrays[:3]], saturate)
        self.acc = acc

    def result(self):
        return gather(self.arrays[3].view(ELEMENTS[self.acc]), c_m16n8, (16, 8))


def product_of(shape, a_type, b_type, acc, seed=0):
    """(program, expected matrix) of a product of small integers."""
    k = int(shape.split("k")[1])
    a = small_integers((16, k), a_type, seed)
    b = small_integers((k, 8), b_type, seed + 1)
    c = small_integers((16, 8), acc, seed + 2)
    exact = a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)
    return Product(shape, a_type, b_type, acc, a, b, c), exact.astype(ELEMENTS[acc])


def row_offsets(num, seed):
    """Where each lane's row starts: 16-byte rows of 2048 bytes in any order, no row twice."""
    return np.random.default_rng(seed).permutation(128)[:32].astype(np.uint32) * 16


def ldmatrix_text(num, trans):
    """PTX: copy p0 (2048 bytes) to shared memory, ldmatrix rows at the offsets p1, store words to p2."""
    registers = [f"%r{10 + i}" for i in range(num)]
    form = f"ldmatrix.sync.aligned.m8n8.x{num}{'.trans' if trans else ''}.shared.b16"
    return "\n".join([
        ".shared .align 16 .b8 tile[2048];",
        "mov.u32 %r1, %tid.x; mov.u32 %r2, tile; ld.param.u64 %x1, [p0]; mad.wide.u32 %x1, %r1, 64, %x1;",
        "mad.lo.u32 %r3, %r1, 64, %r2;",
        *[f"ld.global.v4.b32 {{%r20, %r21, %r22, %r23}}, [%x1+{i}];"
          f"st.shared.v4.b32 [%r3+{i}], {{%r20, %r21, %r22, %r23}};" for i in (0, 16, 32, 48)],
        "bar.sync 0; ld.param.u64 %x1, [p1]; mad.wide.u32 %x1, %r1, 4, %x1; ld.global.b32 %r4, [%x1];",
        f"add.u32 %r4, %r4, %r2; {form} {{{', '.join(registers)}}}, [%r4];",
        f"ld.param.u64 %x1, [p2]; mad.wide.u32 %x1, %r1, {4 * num}, %x1;",
        *[f"st.global.b32 [%x1+{4 * i}], {r};" for i, r in enumerate(registers)], "ret;",
    ])


def ldmatrix_expected(tile, offsets, num, trans):
    """PTX ISA, "Warp-level matrix load instruction: ldmatrix", element by element: 32 lanes × num × 2 halves."""
    halves = tile.view(np.uint16)
    out = np.zeros((32, num, 2), np.uint16)
    for matrix in range(num):
        rows = [halves[offsets[8 * matrix + i] // 2 :][:8] for i in range(8)]
        for lane in range(32):
            for j in (0, 1):
                row, column = lane // 4, 2 * (lane % 4) + j
                out[lane, matrix, j] = rows[column][row] if trans else rows[row][column]
    return out


def stmatrix_text(num, trans):
    """PTX: clear 2048 bytes of shared memory, stmatrix words of p0 to the offsets p1, copy all to p2."""
    registers = [f"%r{10 + i}" for i in range(num)]
    form = f"stmatrix.sync.aligned.m8n8.x{num}{'.trans' if trans else ''}.shared.b16"
    return "\n".join([
        ".shared .align 16 .b8 tile[2048];",
        "mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mad.lo.u32 %r3, %r1, 64, %r2; mov.u32 %r5, 0;",
        *[f"st.shared.v4.b32 [%r3+{i}], {{%r5, %r5, %r5, %r5}};" for i in (0, 16, 32, 48)],
        f"bar.sync 0; ld.param.u64 %x1, [p0]; mad.wide.u32 %x1, %r1, {4 * num}, %x1;",
        *[f"ld.global.b32 {r}, [%x1+{4 * i}];" for i, r in enumerate(registers)],
        "ld.param.u64 %x1, [p1]; mad.wide.u32 %x1, %r1, 4, %x1; ld.global.b32 %r4, [%x1];",
        f"add.u32 %r4, %r4, %r2; {form} [%r4], {{{', '.join(registers)}}}; bar.sync 0;",
        "ld.param.u64 %x1, [p2]; mad.wide.u32 %x1, %r1, 64, %x1;",
        *[f"ld.shared.v4.b32 {{%r20, %r21, %r22, %r23}}, [%r3+{i}];"
          f"st.global.v4.b32 [%x1+{i}], {{%r20, %r21, %r22, %r23}};" for i in (0, 16, 32, 48)], "ret;",
    ])


def stmatrix_expected(words, offsets, num, trans):
    """What stmatrix leaves in 2048 bytes of zeros. words: 32 lanes × num."""
    out = np.zeros(1024, np.uint16)
    halves = words.view(np.uint16).reshape(32, num, 2)
    for matrix in range(num):
        for lane in range(32):
            for j in (0, 1):
                row, column = lane // 4, 2 * (lane % 4) + j
                row, column = (column, row) if trans else (row, column)
                out[offsets[8 * matrix + row] // 2 + column] = halves[lane, matrix, j]
    return out
