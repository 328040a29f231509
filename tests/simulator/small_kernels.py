"""Small PTX kernels for tests: one thread per element, operands loaded, one or more instructions, result stored."""

from __future__ import annotations

import numpy as np

from tilejit.simulator import Pointer, run

HEADER = ".version 8.6\n.target sm_100a\n.address_size 64\n"


def pointer(array, name="", **options):
    """The whole of an array as a kernel argument."""
    return Pointer(array.reshape(-1).view(np.uint8), name=name, **options)


def aligned(array, unit=256):
    """A copy of an array that starts at a multiple of `unit` bytes, as arrays on a device do."""
    raw = np.zeros(array.nbytes + unit, np.uint8)
    start = -raw.__array_interface__["data"][0] % unit
    copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def kernel(body, params="", registers="", header=HEADER):
    """A module with one kernel `k`; registers %p, %h (16), %r (32), %x (64) are declared."""
    return (
        f"{header}.visible .entry k({params})\n{{\n.reg .pred %p<32>;\n.reg .b16 %h<64>;\n.reg .b32 %r<64>;\n"
        f".reg .b64 %x<64>;\n{registers}\n{body}\n}}\n"
    )


def simulate(body, *arrays, grid=1, block=32, registers="", **options):
    """Run a kernel whose parameters p0, p1, … are the arrays."""
    params = ", ".join(f".param .u64 p{i}" for i in range(len(arrays)))
    args = [a if isinstance(a, Pointer) else pointer(a, f"p{i}") for i, a in enumerate(arrays)]
    return run(kernel(body, params, registers), "k", (grid,), (block,), args, **options)


PREFIX = {1: "h", 2: "h", 4: "r", 8: "x"}


def elementwise(text, inputs, out, predicate=False):
    """(body, arrays, elements) of a kernel that applies `text` to one element of each array per thread."""
    n = max(x.size for x in inputs)
    inputs = [np.ascontiguousarray(np.broadcast_to(x, (n,))) for x in inputs]
    result = np.zeros(n, np.dtype(out))
    lines = [
        "mov.u32 %r60, %tid.x; mov.u32 %r61, %ctaid.x; mov.u32 %r62, %ntid.x; mad.lo.u32 %r60, %r61, %r62, %r60;",
        f"setp.ge.u32 %p30, %r60, {n}; @%p30 bra END; cvt.u64.u32 %x60, %r60;",
    ]
    names = {}
    for i, x in enumerate(inputs):
        size = x.dtype.itemsize
        names["abc"[i]] = register = f"%{PREFIX[size]}{i + 1}"
        lines.append(f"ld.param.u64 %x61, [p{i}]; mad.lo.u64 %x61, %x60, {size}, %x61;")
        lines.append(f"ld.global.b{8 * size} {register}, [%x61];")
    size = result.dtype.itemsize
    names["d"] = f"%{PREFIX[size]}10" if not predicate else "%p1"
    lines.append(text.format(**names))
    if predicate:
        names["d"] = "%h10"
        lines.append("selp.b16 %h10, 1, 0, %p1;")
    lines.append(f"ld.param.u64 %x61, [p{len(inputs)}]; mad.lo.u64 %x61, %x60, {size}, %x61;")
    lines.append(f"st.global.b{8 * size} [%x61], {names['d']};\nEND:\nret;")
    return "\n".join(lines), [*inputs, result], n


def evaluate(text, *inputs, out, threads=256, predicate=False, checks=False):
    """Apply `text`, with {d}, {a}, {b}, {c} for destination and sources, to whole arrays; returns the results."""
    body, arrays, n = elementwise(text, inputs, out, predicate)
    simulate(body, *arrays, grid=-(-n // threads), block=threads, checks=checks)
    return arrays[-1]


def bits(array):
    """An array's bits as unsigned integers."""
    return array.view(f"u{array.dtype.itemsize}")


def same_bits(got, expected):
    """Assert equal bits; NaNs of floats count as equal whatever their payload."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.dtype == expected.dtype, (got.dtype, expected.dtype)
    equal = bits(got) == bits(expected)
    if got.dtype.kind == "f":
        equal |= np.isnan(got) & np.isnan(expected)
    wrong = np.flatnonzero(~equal)
    assert not wrong.size, f"{wrong.size} differ; first at {wrong[0]}: {got[wrong[0]]!r}, not {expected[wrong[0]]!r}"


def interesting(dtype, seed=0, n=400):
    """Edge cases and random bit patterns of a type."""
    dtype = np.dtype(dtype)
    rng = np.random.default_rng(seed)
    random = rng.integers(0, 256, n * dtype.itemsize, dtype=np.uint8).view(dtype)
    if dtype.kind == "f":
        info = np.finfo(dtype)
        edges = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, info.max, info.min, info.tiny,
                 -info.tiny, info.smallest_subnormal, -info.smallest_subnormal, info.eps, 1 + info.eps, 3.0,
                 100.0]
        moderate = rng.normal(size=n).astype(dtype)
        return np.concatenate([np.array(edges, dtype), random, moderate])
    info = np.iinfo(dtype)
    edges = [0, 1, 2, 3, 31, 32, 33, info.max, info.min, info.max - 1, info.min + 1, info.max // 2]
    small = rng.integers(0, 40, 50).astype(dtype)
    return np.concatenate([np.array(edges, dtype), small, random])


def pairs(dtype, n=3000, seed=0):
    """Two arrays of operands in many combinations."""
    values = interesting(dtype, seed)
    rng = np.random.default_rng(seed + 1)
    edges = values[:21]
    a, b = (x.reshape(-1) for x in np.meshgrid(edges, edges))
    return np.concatenate([a, rng.choice(values, n)]), np.concatenate([b, rng.choice(values, n)])
