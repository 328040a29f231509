"""The matrix element in each element of a lane's fragment, as in the PTX ISA's sections on mma fragments.

Each function takes the lane and the index i of an element a0, a1, … within the lane's fragment, and gives
(row, column). source: PTX ISA, "Matrix Fragments for mma.m8n8k4", "… m8n8k32", "… m8n8k128", "… m16n8k4", "… m16n8k8",
"… m16n8k16", "… m16n8k32".
"""

import numpy as np


def a_m16n8k8_16bit(lane, i):
    group, thread = lane >> 2, lane % 4
    return (group if i < 2 else group + 8), thread * 2 + (i & 1)


def b_m16n8k8_16bit(lane, i):
    return (lane % 4) * 2 + i, lane >> 2


def a_m16n8k16_16bit(lane, i):
    group, thread = lane >> 2, lane % 4
    row = group if 0 <= i < 2 or 4 <= i < 6 else group + 8
    column = thread * 2 + (i & 1) if i < 4 else thread * 2 + (i & 1) + 8
    return row, column


def b_m16n8k16_16bit(lane, i):
    thread = lane % 4
    return (thread * 2 + (i & 1) if i < 2 else thread * 2 + (i & 1) + 8), lane >> 2


def a_m16n8k4_tf32(lane, i):
    return ((lane >> 2) if i == 0 else (lane >> 2) + 8), lane % 4


def b_m16n8k4_tf32(lane, i):
    return lane % 4, lane >> 2


def a_m16n8k8_tf32(lane, i):
    group, thread = lane >> 2, lane % 4
    return (group if i in (0, 2) else group + 8), (thread if i in (0, 1) else thread + 4)


def b_m16n8k8_tf32(lane, i):
    return (lane % 4 if i == 0 else lane % 4 + 4), lane >> 2


def a_m16n8k16_8bit(lane, i):
    return ((lane >> 2) if i < 4 else (lane >> 2) + 8), (lane % 4) * 4 + (i & 3)


def b_m16n8k16_8bit(lane, i):
    return (lane % 4) * 4 + i, lane >> 2


def a_m16n8k32_8bit(lane, i):
    group, thread = lane >> 2, lane % 4
    row = group if 0 <= i < 4 or 8 <= i < 12 else group + 8
    return row, (thread * 4 + (i & 3) if i < 8 else thread * 4 + (i & 3) + 16)


def b_m16n8k32_8bit(lane, i):
    thread = lane % 4
    return (thread * 4 + (i & 3) if i < 4 else thread * 4 + (i & 3) + 16), lane >> 2


def c_m16n8(lane, i):
    return ((lane >> 2) if i < 2 else (lane >> 2) + 8), (lane % 4) * 2 + (i & 1)


def a_m8n8k4_f64(lane, i):
    return lane >> 2, lane % 4


def b_m8n8k4_f64(lane, i):
    return lane % 4, lane >> 2


def a_m16n8k4_f64(lane, i):
    return ((lane >> 2) if i == 0 else (lane >> 2) + 8), lane % 4


def a_m16n8k8_f64(lane, i):
    group, thread = lane >> 2, lane % 4
    return (group if i in (0, 2) else group + 8), (thread if i < 2 else thread + 4)


def b_m16n8k8_f64(lane, i):
    return (lane % 4 if i == 0 else lane % 4 + 4), lane >> 2


def a_m16n8k16_f64(lane, i):
    return ((lane >> 2) if i % 2 == 0 else (lane >> 2) + 8), (i * 2) - (i % 2) * 2 + (lane % 4)


def b_m16n8k16_f64(lane, i):
    return (lane % 4) + 4 * i, lane >> 2


def a_m8n8k32_4bit(lane, i):
    return lane >> 2, (lane % 4) * 8 + i


def b_m8n8k32_4bit(lane, i):
    return (lane % 4) * 8 + i, lane >> 2


def a_m8n8k128_1bit(lane, i):
    return lane >> 2, (lane % 4) * 32 + i


def b_m8n8k128_1bit(lane, i):
    return (lane % 4) * 32 + i, lane >> 2


def c_m8n8(lane, i):
    return lane >> 2, (lane % 4) * 2 + i


#: (shape, bits of an element) -> (A's table, B's table)
TABLES = {
    ("m8n8k4", 64): (a_m8n8k4_f64, b_m8n8k4_f64),
    ("m16n8k4", 64): (a_m16n8k4_f64, b_m8n8k4_f64),
    ("m16n8k8", 64): (a_m16n8k8_f64, b_m16n8k8_f64),
    ("m16n8k16", 64): (a_m16n8k16_f64, b_m16n8k16_f64),
    ("m8n8k32", 4): (a_m8n8k32_4bit, b_m8n8k32_4bit),
    ("m8n8k128", 1): (a_m8n8k128_1bit, b_m8n8k128_1bit),
    ("m16n8k8", 16): (a_m16n8k8_16bit, b_m16n8k8_16bit),
    ("m16n8k16", 16): (a_m16n8k16_16bit, b_m16n8k16_16bit),
    ("m16n8k4", 32): (a_m16n8k4_tf32, b_m16n8k4_tf32),
    ("m16n8k8", 32): (a_m16n8k8_tf32, b_m16n8k8_tf32),
    ("m16n8k16", 8): (a_m16n8k16_8bit, b_m16n8k16_8bit),
    ("m16n8k32", 8): (a_m16n8k32_8bit, b_m16n8k32_8bit),
}


def spread(matrix, table):
    """The elements of a matrix as lanes × elements of each lane's fragment."""
    each = matrix.size // 32
    return np.array([[matrix[table(lane, i)] for i in range(each)] for lane in range(32)], matrix.dtype)


def gather(fragments, table, shape):
    """The reverse of `spread`."""
    out = np.zeros(shape, fragments.dtype)
    for lane in range(32):
        for i in range(fragments.shape[1]):
            out[table(lane, i)] = fragments[lane, i]
    return out


#: shape of wmma -> the shape of mma whose fragments it consists of, by their tables
BLOCKS = {
    "m16n16k16": "m16n8k16", "m32n8k16": "m16n8k16", "m8n32k16": "m16n8k16", "m16n16k8": "m16n8k8",
    "m8n8k4": "m8n8k4", "m8n8k32": "m8n8k32", "m8n8k128": "m8n8k128",
}


#: type of elements -> bits
BITS = {"b1": 1, "s4": 4, "u4": 4, "s8": 8, "u8": 8, "f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "s32": 32, "f64": 64}


def wmma_places(role, shape, t):
    """(row, column) of each element of each lane's fragment of wmma, on sm_90.

    role: "a", "b" or "c". The fragment consists of those of one or two mma; in m8n32k16, of mma with A and B exchanged.
    """
    block = BLOCKS[shape]
    exchanged, tall = shape == "m8n32k16", shape == "m32n8k16"
    if exchanged:
        other = {"a": "b", "b": "a", "c": "c"}[role]
        return [[(column, row) for row, column in lane] for lane in wmma_places(other, "m32n8k16", t)]
    c_table = c_m8n8 if block.startswith("m8") else c_m16n8
    table = c_table if role == "c" else TABLES[block, BITS[t]][role == "b"]
    m, n, k = (int(x) for x in block[1:].replace("n", " ").replace("k", " ").split())
    each = {"a": m * k, "b": k * n, "c": m * n}[role] // 32
    one = [[table(lane, i) for i in range(each)] for lane in range(32)]
    down, right = (16, 0) if tall else (0, 8)
    two = block.startswith("m16") and role != ("b" if tall else "a")
    places = [x + [(i + down, j + right) for i, j in x] if two else x for x in one]
    # half precision repeats elements if there are fewer than 16
    return [x * (16 // len(x)) for x in places] if t == "f16" and role != "c" else places
