"""Random C functions that nvcc and the host's compiler both take: scalars of all types, arrays, loops, switches.

Nothing in them is undefined in C: shifts are masked, divisors positive, conversions to integers clamped.
"""

from __future__ import annotations

import random

WIDTH = {
    "signed char": 8, "unsigned char": 8, "short": 16, "unsigned short": 16, "int": 32, "unsigned": 32,
    "long long": 64, "unsigned long long": 64,
}
UNSIGNED = {
    "signed char": "unsigned char", "short": "unsigned short", "int": "unsigned", "long long": "unsigned long long",
}
INTEGERS = tuple(WIDTH)
FLOATS = ("float", "double")
LARGEST = {8: 120, 16: 32000, 32: 2_000_000_000, 64: 9_000_000_000_000_000_000}

HEADER = """#include <math.h>
#ifdef __CUDACC__
#define HELPER static __device__ __forceinline__
#define POPC(x) __popc(x)
#define CLZ(x) __clz(x)
#define BREV(x) __brev(x)
#define FFS(x) __ffs(x)
#else
#define HELPER static inline
HELPER int POPC(unsigned x) { return __builtin_popcount(x); }
HELPER int CLZ(unsigned x) { return x ? __builtin_clz(x) : 32; }
HELPER int FFS(unsigned x) { return __builtin_ffs(x); }
HELPER unsigned BREV(unsigned x) {
    unsigned r = 0;
    for (int i = 0; i < 32; i++) r |= (x >> i & 1u) << (31 - i);
    return r;
}
#endif
"""

PARAMETERS = """
    const int* a, const unsigned long long* c, const float* f, const double* d, long long* oi, double* of, int n
"""
FUNCTION = """HELPER void {name}_one(int a, unsigned long long c, float f, double d, long long* oi, double* of) {{
    int array[8] = {{1, 2, 3, 4, 5, 6, 7, 8}};
    signed char v0 = (signed char)a; unsigned char v1 = (unsigned char)(a >> 8); short v2 = (short)a;
    unsigned short v3 = (unsigned short)(a >> 9); int v4 = a; unsigned v5 = (unsigned)a * 2654435761u;
    long long v6 = (long long)c; unsigned long long v7 = c * 3; float x0 = f, x1 = f * 0.5f; double x2 = d;
{body}    for (int q = 0; q < 8; q++) v7 = v7 * 31 + (unsigned)array[q];
    oi[0] = v0; oi[1] = v1; oi[2] = v2; oi[3] = v3; oi[4] = v4; oi[5] = v5; oi[6] = v6; oi[7] = (long long)v7;
    of[0] = x0; of[1] = x1; of[2] = x2;
}}
#ifdef __CUDACC__
extern "C" __global__ void {name}({parameters}) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {name}_one(a[i], c[i], f[i], d[i], oi + i * 8, of + i * 3);
}}
#else
void {name}({parameters}) {{
    for (int i = 0; i < n; i++) {name}_one(a[i], c[i], f[i], d[i], oi + i * 8, of + i * 3);
}}
#endif
"""


def program(seed: int, count: int) -> str:
    """A file with functions k0, k1, …: kernels for nvcc, loops over all elements for a C compiler."""
    functions = (_Function(random.Random(seed * 1000 + i)).text(f"k{i}") for i in range(count))
    return HEADER + "".join(functions)


class _Function:
    """Writes one function; expressions and statements get smaller as `depth` falls."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.variables = {f"v{i}": t for i, t in enumerate(INTEGERS)} | {"x0": "float", "x1": "float", "x2": "double"}
        self.loops = 0

    def text(self, name: str) -> str:
        body = "".join(self.statement(3, 1) for _ in range(6))
        return FUNCTION.format(name=name, body=body, parameters=PARAMETERS)

    def literal(self, t: str) -> str:
        if t in FLOATS:
            value = self.rng.choice([0.0, 1.0, -1.5, 3.25, 1e-3, 1e10, -7.0, 0.1])
            return f"{value!r}{'f' if t == 'float' else ''}"
        bits = WIDTH[t]
        value = self.rng.choice([0, 1, 2, 3, 5, 7, 8, 10, 31, 100, 127, 255, self.rng.getrandbits(bits - 1)])
        return f"(({t}){value & (1 << bits - 1) - 1}{'ull' if bits == 64 else ''})"

    def expression(self, t: str, depth: int = 3) -> str:
        if depth <= 0 or self.rng.random() < 0.15:
            names = [name for name, kind in self.variables.items() if kind == t]
            return self.rng.choice(names) if self.rng.random() < 0.8 else self.literal(t)
        if self.rng.random() < 0.1:
            return f"({self.condition(depth - 1)} ? {self.expression(t, depth - 1)} : {self.expression(t, depth - 1)})"
        return self.float_expression(t, depth - 1) if t in FLOATS else self.integer_expression(t, depth - 1)

    def float_expression(self, t: str, depth: int) -> str:
        suffix = "f" if t == "float" else ""
        a = self.expression(t, depth)
        kind = self.rng.randrange(8)
        if kind < 4:
            return f"({a} {'+-*/'[kind]} {self.expression(t, depth)})"
        if kind == 4:
            return f"sqrt{suffix}(fabs{suffix}({a}))"
        if kind == 5:
            source = self.rng.choice([x for x in (*INTEGERS, *FLOATS) if x != t])
            return f"(({t}){self.expression(source, depth)})"
        if kind == 6:
            # C leaves open which of two zeros is the smaller
            return f"{self.rng.choice(['fmin', 'fmax'])}{suffix}({a}, {self.expression(t, depth)} + ({t})1.0)"
        return f"{self.rng.choice(['floor', 'ceil', 'trunc', 'rint', 'fabs'])}{suffix}({a})"

    def integer_expression(self, t: str, depth: int) -> str:
        unsigned, bits = UNSIGNED.get(t, t), WIDTH[t]
        a, b = self.expression(t, depth), self.expression(t, depth)
        amount = f"({self.expression('unsigned', depth)} & {bits - 1})"
        kind = self.rng.randrange(12)
        if kind < 3:
            return f"(({t})(({unsigned}){a} {'+-*'[kind]} ({unsigned}){b}))"
        if kind < 6:
            return f"(({t})({a} {'&|^'[kind - 3]} {b}))"
        if kind == 6:
            divisor = f"({t})({b} | 1)" if t == unsigned else f"({t})(({b} & 63) + 1)"
            return f"(({t})({a} {self.rng.choice('/%')} {divisor}))"
        if kind == 7:
            return f"(({t})(({unsigned}){a} << {amount}))"
        if kind == 8:
            return f"(({t})({a} >> {amount}))"
        if kind == 9:
            return f"(({t}){self.expression(self.rng.choice(INTEGERS), depth)})"
        if kind == 10:
            suffix = self.rng.choice(["f", ""])
            value = self.expression("float" if suffix else "double", depth)
            lowest = 0 if t == unsigned else -LARGEST[bits]
            return f"(({t})fmin{suffix}(fmax{suffix}({value}, {lowest}.0{suffix}), {LARGEST[bits]}.0{suffix}))"
        count = self.rng.choice(["POPC", "CLZ", "BREV", "FFS"])
        return f"(({t}){count}({self.expression('unsigned', depth)}))"

    def condition(self, depth: int) -> str:
        if depth > 0 and self.rng.random() < 0.2:
            return f"({self.condition(depth - 1)} {self.rng.choice(['&&', '||'])} {self.condition(depth - 1)})"
        t = self.rng.choice((*INTEGERS, *FLOATS))
        relation = self.rng.choice(["<", ">", "<=", ">=", "==", "!="])
        return f"({self.expression(t, depth)} {relation} {self.expression(t, depth)})"

    def statements(self, depth: int, indent: int) -> str:
        return "".join(self.statement(depth, indent) for _ in range(self.rng.randint(2, 4)))

    def statement(self, depth: int, indent: int) -> str:
        tab, kind = "    " * indent, self.rng.random()
        if depth <= 0 or kind < 0.45:
            name, t = self.rng.choice(list(self.variables.items()))
            return f"{tab}{name} = {self.expression(t)};\n"
        if kind < 0.55:
            store = f"array[{self.expression('unsigned', 2)} & 7] = {self.expression('int', 2)};"
            return f"{tab}{store}\n{tab}v4 ^= array[{self.expression('unsigned', 2)} & 7];\n"
        if kind < 0.7:
            yes, no = self.statements(depth - 1, indent + 1), self.statements(depth - 1, indent + 1)
            return f"{tab}if ({self.condition(2)}) {{\n{yes}{tab}}} else {{\n{no}{tab}}}\n"
        return self.loop(depth, indent) if kind < 0.85 else self.switch(depth, indent)

    def loop(self, depth: int, indent: int) -> str:
        tab = "    " * indent
        self.loops += 1
        i = f"i{self.loops}"
        body = self.statements(depth - 1, indent + 1)
        body += f"{tab}    if ({self.condition(1)}) {self.rng.choice(['break', 'continue'])};\n"
        body += self.statements(depth - 2, indent + 1)
        return f"{tab}for (int {i} = 0; {i} < ({self.expression('int', 1)} & 7); {i}++) {{\n{body}{tab}}}\n"

    def switch(self, depth: int, indent: int) -> str:
        tab = "    " * indent
        text = f"{tab}switch ({self.expression('int', 2)} & {self.rng.choice([3, 7])}) {{\n"
        for value in self.rng.sample(range(8), self.rng.randint(3, 6)):
            leave = f"{tab}    break;\n" if self.rng.random() < 0.7 else ""
            text += f"{tab}case {value}:\n{self.statements(depth - 2, indent + 1)}{leave}"
        return text + f"{tab}default: v4 = 1;\n{tab}}}\n"
