"""Random programs of integer instructions with branches and loops, against the same program run thread by thread."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulator.small_kernels import simulate
from tests.support.profiles import times

MASK = 2**32 - 1
OPS = {
    "add.u32": lambda x, y: x + y, "sub.u32": lambda x, y: x - y, "mul.lo.u32": lambda x, y: x * y,
    "xor.b32": lambda x, y: x ^ y, "and.b32": lambda x, y: x & y, "or.b32": lambda x, y: x | y,
    "min.u32": min, "max.u32": max, "shr.u32": lambda x, y: x >> y if y < 32 else 0,
    "shl.b32": lambda x, y: x << y if y < 32 else 0,
}

registers = st.integers(1, 6)
arithmetic = st.tuples(st.sampled_from(sorted(OPS)), registers, registers, registers)
moves = st.tuples(st.just("mov"), registers, registers)
statements = st.recursive(
    st.lists(arithmetic | moves, min_size=1, max_size=8),
    lambda inner: st.lists(
        arithmetic
        | moves
        | st.tuples(st.just("if"), registers, registers, inner, inner)
        | st.tuples(st.just("loop"), st.integers(1, 3), registers, inner),
        min_size=1,
        max_size=5,
    ),
    max_leaves=8,
)


class Writer:
    """PTX of a program; loops count in registers of their own, to a limit that depends on the thread."""

    def __init__(self):
        self.lines, self.labels, self.counters = [], 0, 20

    def write(self, block):
        for kind, *rest in block:
            if kind == "if":
                self.write_if(*rest)
            elif kind == "loop":
                self.write_loop(*rest)
            elif kind == "mov":
                self.lines.append(f"mov.u32 %r{rest[0]}, %r{rest[1]};")
            else:
                self.lines.append(f"{kind} %r{rest[0]}, %r{rest[1]}, %r{rest[2]};")

    def write_if(self, a, b, then, other):
        n = self.labels = self.labels + 1
        self.lines.append(f"setp.lt.u32 %p1, %r{a}, %r{b}; @!%p1 bra ELSE{n};")
        self.write(then)
        self.lines.append(f"bra JOIN{n}; ELSE{n}:")
        self.write(other)
        self.lines.append(f"JOIN{n}:")

    def write_loop(self, limit, register, body):
        n = self.labels = self.labels + 1
        c = self.counters = self.counters + 2
        self.lines.append(f"and.b32 %r{c}, %r{register}, {limit}; mov.u32 %r{c + 1}, 0;")
        self.lines.append(f"LOOP{n}: setp.ge.u32 %p2, %r{c + 1}, %r{c}; @%p2 bra DONE{n};")
        self.write(body)
        self.lines.append(f"add.u32 %r{c + 1}, %r{c + 1}, 1; bra LOOP{n}; DONE{n}:")


def interpret(block, r):
    for kind, *rest in block:
        if kind == "if":
            interpret(rest[2] if r[rest[0]] < r[rest[1]] else rest[3], r)
        elif kind == "loop":
            for _ in range(r[rest[1]] & rest[0]):
                interpret(rest[2], r)
        elif kind == "mov":
            r[rest[0]] = r[rest[1]]
        else:
            r[rest[0]] = OPS[kind](r[rest[1]], r[rest[2]]) & MASK


@given(statements, st.integers(1, 70))
@settings(max_examples=times(2))
def test_divergent_programs_give_each_thread_its_own_result(program, threads):
    writer = Writer()
    writer.write(program)
    start = "mov.u32 %r1, %tid.x; add.u32 %r2, %r1, 3; xor.b32 %r3, %r1, 5; mov.u32 %r4, 7; mul.lo.u32 %r5, %r1, %r1;\n"
    end = """
    ld.param.u64 %x1, [p0]; mov.u32 %r10, %tid.x; mad.wide.u32 %x2, %r10, 8, %x1;
    shl.b32 %r11, %r6, 1; add.u32 %r11, %r11, %r1; xor.b32 %r12, %r2, %r3;
    add.u32 %r12, %r12, %r4; add.u32 %r12, %r12, %r5;
    st.global.v2.u32 [%x2], {%r11, %r12}; ret;
    """
    out = np.zeros(2 * threads, "u4")
    simulate(start + "mov.u32 %r6, 1;" + "\n".join(writer.lines) + end, out, block=threads)
    expected = []
    for t in range(threads):
        r = {1: t, 2: t + 3, 3: t ^ 5, 4: 7, 5: t * t & MASK, 6: 1}
        interpret(program, r)
        expected += [(r[6] << 1) + r[1] & MASK, (r[2] ^ r[3]) + r[4] + r[5] & MASK]
    assert out.tolist() == expected
