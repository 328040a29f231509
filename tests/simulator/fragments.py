"""The matrix element in each element of a lane's fragment, as in the PTX ISA's sections on mma fragments.

Each function takes the lane and the index i of an element a0, a1, … within the lane's fragment, and gives
(row, column). source: PTX ISA, "Matrix Fragments for mma.m16n8k4", "… m16n8k8", "… m16n8k16", "… m16n8k32".
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


#: (shape, bits of an element) -> (A's table, B's table)
TABLES = {
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
