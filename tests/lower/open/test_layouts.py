"""Kernels with open tiles: the layouts that they get, what they compute, and what doesn't change any."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import tilejit as tj
from tests.lower.open.kernels import kernel, tensor, tile, whole
from tests.reference import layouts
from tests.support.goldens import Golden
from tests.support.running import run
from tilejit import S, laneid
from tilejit.ir.nodes import Alloc, Kernel, Open
from tilejit.ir.text.parser import from_text
from tilejit.ir.text.printer import to_text
from tilejit.ir.verify import verify
from tilejit.ir.walk import statements
from tilejit.lower.open import lay_out
from tilejit.runtime import devices

F16, F32 = "float16", "float32"


def elementwise(threads: int, shape: tuple[int, ...], *, multiple: int = 16) -> Kernel:
    """Y = float(X) + Z, of float16 and float32."""
    rank, each = len(shape), lambda name: whole(name, shape)
    return kernel(
        threads,
        tensor("X", rank, F16, 2 * min(multiple, 8), multiple),
        *(tensor(name, rank, F32, 4 * min(multiple, 4), multiple) for name in "ZY"),
        *(tile(name, shape, F16 if name == "x" else F32) for name in ("x", "z", "w", "y")),
        f"cta.copy {each('x')}, {each('X')}",
        f"cta.copy {each('z')}, {each('Z')}",
        f"cta.cast {each('w')}, {each('x')}",
        f"cta.add {each('y')}, {each('w')}, {each('z')}",
        f"cta.copy {each('Y')}, {each('y')}",
    )


def broadcast(threads: int, rows: int, columns: int, along: int, *, multiple: int = 16) -> Kernel:
    """X += B along the columns (1), or along the rows (0), of float16 with a bias of float32."""
    shape = (rows, columns)
    bias = (shape[along],)
    view = [f"view c: local float32[{rows}, 1] open cta (0, None) align 16 of b"] if along == 0 else []
    operand = whole("b", bias) if along else whole("c", (rows, 1))
    x, y = whole("x", shape), whole("X", shape)
    return kernel(
        threads,
        tensor("X", 2, F16, 2 * min(multiple, 8), multiple),
        tensor("B", 1, F32, 4 * min(multiple, 4), multiple),
        tile("x", shape, F16),
        tile("b", bias),
        tile("f", shape),
        tile("o", shape, F16),
        *view,
        f"cta.copy {x}, {y}",
        f"cta.copy {whole('b', bias)}, {whole('B', bias)}",
        f"cta.cast {whole('f', shape)}, {x}",
        f"cta.add {whole('f', shape)}, {whole('f', shape)}, {operand}",
        f"cta.cast {whole('o', shape)}, {whole('f', shape)}",
        f"cta.copy {y}, {whole('o', shape)}",
    )


def swapped(threads: int) -> Kernel:
    """Two tiles that change places in a loop, through a third."""
    shape = (64, 32)
    a, b, c = (whole(name, shape) for name in "abc")
    return kernel(
        threads,
        tensor("X", 2),
        tensor("Y", 2),
        *(tile(name, shape) for name in "abc"),
        f"cta.copy {a}, {whole('X', shape)}",
        f"cta.copy {b}, {whole('Y', shape)}",
        "for i: int32 in 0 .. 3 step 1",
        f"    cta.copy {c}, {a}",
        f"    cta.copy {a}, {b}",
        f"    cta.copy {b}, {c}",
        f"cta.copy {whole('X', shape)}, {a}",
        f"cta.copy {whole('Y', shape)}, {b}",
    )


def halves(threads: int, columns: int) -> Kernel:
    """The halves of rows change signs and places: z = [-x2, x1]."""
    shape, half = (32, columns), columns // 2
    first, second = (f"{{}}[0 +: 32, {start} +: {half}]".format for start in (0, half))
    return kernel(
        threads,
        tensor("X", 2),
        *(tile(name, shape) for name in "xz"),
        tile("n", (32, half)),
        f"cta.copy {whole('x', shape)}, {whole('X', shape)}",
        f"cta.neg {whole('n', (32, half))}, {second('x')}",
        f"cta.copy {first('z')}, {whole('n', (32, half))}",
        f"cta.copy {second('z')}, {first('x')}",
        f"cta.copy {whole('X', shape)}, {whole('z', shape)}",
    )


def to_given(threads: int) -> Kernel:
    """A tile that is laid out by hand, and open ones beside it: they go as it does."""
    shape = (32, 16)
    layout = "S[(32, 16) : (1 @ tx, 1)]"
    g, x, y, b = whole("g", shape), whole("x", shape), whole("y", shape), whole("b", (16,))
    return kernel(
        threads,
        tensor("X", 2),
        tensor("B", 1),
        f"alloc g: local float32[32, 16] {layout} align 16",
        tile("x", shape),
        tile("y", shape),
        tile("b", (16,)),
        f"cta.copy {g}, {whole('X', shape)}",
        f"cta.copy {x}, {whole('X', shape)}",
        f"cta.copy {b}, {whole('B', (16,))}",
        f"cta.add {y}, {g}, {x}",
        f"cta.add {y}, {y}, {b}",
        f"cta.copy {whole('X', shape)}, {y}",
    )


def products(threads: int, rows: int, columns: int, depth: int, multiple: int = 16) -> Kernel:
    """C = A @ B."""
    a, b, c = whole("a", (rows, depth)), whole("b", (depth, columns)), whole("c", (rows, columns))
    return kernel(
        threads,
        tensor("A", 2, F16, multiple=multiple),
        tensor("B", 2, F16, multiple=multiple),
        tensor("C", 2, multiple=multiple),
        tile("a", (rows, depth), F16),
        tile("b", (depth, columns), F16),
        tile("c", (rows, columns)),
        f"cta.copy {a}, {whole('A', (rows, depth))}",
        f"cta.copy {b}, {whole('B', (depth, columns))}",
        f"cta.fill {c}, 0.0",
        f"cta.gemm {c}, {a}, {b}",
        f"cta.copy {whole('C', (rows, columns))}, {c}",
    )


def with_transpose(threads: int, extent: int, *, doubled: bool = False, dtype: str = F32) -> Kernel:
    """Y = X + X.T; doubled: of 2 X."""
    shape = (extent, extent)
    x, t, y = (whole(name, shape) for name in "xty")
    return kernel(
        threads,
        tensor("X", 2, dtype),
        tensor("Y", 2, dtype),
        tile("x", shape, dtype),
        tile("y", shape, dtype),
        f"view t: local {dtype}{list(shape)} open cta (1, 0) align 16 of x",
        f"cta.copy {x}, {whole('X', shape)}",
        *([f"cta.add {x}, {x}, {x}"] if doubled else []),
        f"cta.add {y}, {x}, {t}",
        f"cta.copy {whole('Y', shape)}, {y}",
    )


def transposed(threads: int, extent: int, dtype: str = F32) -> Kernel:
    """Y = X.T."""
    shape = (extent, extent)
    return kernel(
        threads,
        tensor("X", 2, dtype),
        tensor("Y", 2, dtype),
        tile("x", shape, dtype),
        f"view t: local {dtype}{list(shape)} open cta (1, 0) align 16 of x",
        f"cta.copy {whole('x', shape)}, {whole('X', shape)}",
        f"cta.copy {whole('Y', shape)}, {whole('t', shape)}",
    )


def softmax(threads: int, *shape: int, dtype: str = F32) -> Kernel:
    """Of each row."""
    row = shape[:-1] or (1,)
    one = (*shape[:-1], 1)
    dims = f"({', '.join([*(str(d) for d in range(len(shape) - 1)), 'None'])})"
    of = {name: whole(name, shape) for name in "xfdeqy"}
    greatest, total = (whole(f"{name}v", one) if len(shape) > 1 else whole(name, row) for name in "ms")
    views = [f"view {name}v: local float32{list(one)} open cta {dims} align 16 of {name}" for name in "ms"]
    return kernel(
        threads,
        tensor("X", len(shape), dtype),
        tensor("Y", len(shape), dtype),
        *(tile(name, shape, dtype if name in "xy" else F32) for name in of),
        *(tile(name, row) for name in "ms"),
        *(views if len(shape) > 1 else ()),
        f"cta.copy {of['x']}, {whole('X', shape)}",
        f"cta.cast {of['f']}, {of['x']}",
        f"cta.max {whole('m', row)}, {of['f']}; axis=({len(shape) - 1})",
        f"cta.sub {of['d']}, {of['f']}, {greatest}",
        f"cta.exp {of['e']}, {of['d']}",
        f"cta.sum {whole('s', row)}, {of['e']}; axis=({len(shape) - 1})",
        f"cta.div {of['q']}, {of['e']}, {total}",
        f"cta.cast {of['y']}, {of['q']}",
        f"cta.copy {whole('Y', shape)}, {of['y']}",
    )


def prefixes(threads: int, rows: int, columns: int) -> Kernel:
    shape = (rows, columns)
    return kernel(
        threads, tensor("X", 2), tensor("Y", 2), tile("x", shape), tile("y", shape),
        f"cta.copy {whole('x', shape)}, {whole('X', shape)}",
        f"cta.scan {whole('y', shape)}, {whole('x', shape)}; axis=(1), "
        "combine=def (before: float32), (value: float32) -> (before + value)",
        f"cta.copy {whole('Y', shape)}, {whole('y', shape)}",
    )


def composed(threads: int, rows: int, columns: int) -> Kernel:
    """The maps y = ax + b of each row, in one reduction of both tiles."""
    shape, kept = (rows, columns), (rows,)
    pairs = ", ".join(f"{whole(to, kept)}, {whole(of, shape)}" for to, of in ("sa", "tb"))
    function = (
        "def (slope: float32, shift: float32), (factor: float32, offset: float32) "
        "-> (factor * slope, factor * shift + offset)"
    )
    return kernel(
        threads,
        *(tensor(name, 2) for name in "AB"),
        *(tensor(name, 1) for name in "ST"),
        *(tile(name, shape) for name in "ab"),
        *(tile(name, kept) for name in "st"),
        *(f"cta.copy {whole(name, shape)}, {whole(name.upper(), shape)}" for name in "ab"),
        f"cta.reduce {pairs}; axis=(1), combine={function}",
        *(f"cta.copy {whole(name.upper(), kept)}, {whole(name, kept)}" for name in "st"),
    )


def sums(threads: int, rows: int, columns: int, axis: int, dtype: str = F32) -> Kernel:
    """Of the columns (0) or the rows (1)."""
    shape, kept = (rows, columns), ((rows, columns)[1 - axis],)
    return kernel(
        threads,
        tensor("X", 2, dtype),
        tensor("S", 1, dtype),
        tile("x", shape, dtype),
        tile("s", kept, dtype),
        f"cta.copy {whole('x', shape)}, {whole('X', shape)}",
        f"cta.sum {whole('s', kept)}, {whole('x', shape)}; axis=({axis})",
        f"cta.copy {whole('S', kept)}, {whole('s', kept)}",
    )


def attention(threads: int, rows: int, block: int, depth: int, blocks: int) -> Kernel:
    """O = softmax(Q @ K.T) @ V, a block of K and V at a time."""
    scores, out, row, column = (rows, block), (rows, depth), (rows,), (rows, 1)
    halves = {"q": out, "k": (block, depth), "v": (block, depth), "h": scores, "o": out}
    floats = {"s": scores, "p": scores, "acc": out, "top": row, "new": row, "fall": row, "part": row, "sum": row}
    of = {name: whole(name, shape) for name, shape in (halves | floats).items()}
    views = {"newv": "new", "fallv": "fall", "sumv": "sum"}
    at = f"[j * {block} +: {block}, 0 +: {depth}]"
    turn = [
        f"cta.copy {of['k']}, K{at}",
        f"cta.copy {of['v']}, V{at}",
        f"cta.fill {of['s']}, 0.0",
        f"cta.gemm {of['s']}, {of['q']}, {whole('kt', (depth, block))}",
        f"cta.max {of['part']}, {of['s']}; axis=(1)",
        f"cta.maximum {of['new']}, {of['top']}, {of['part']}",
        f"cta.sub {of['fall']}, {of['top']}, {of['new']}",
        f"cta.exp {of['fall']}, {of['fall']}",
        f"cta.sub {of['p']}, {of['s']}, {whole('newv', column)}",
        f"cta.exp {of['p']}, {of['p']}",
        f"cta.sum {of['part']}, {of['p']}; axis=(1)",
        f"cta.mul {of['sum']}, {of['sum']}, {of['fall']}",
        f"cta.add {of['sum']}, {of['sum']}, {of['part']}",
        f"cta.mul {of['acc']}, {of['acc']}, {whole('fallv', column)}",
        f"cta.cast {of['h']}, {of['p']}",
        f"cta.gemm {of['acc']}, {of['h']}, {of['v']}",
        f"cta.copy {of['top']}, {of['new']}",
    ]
    return kernel(
        threads,
        *(tensor(name, 2, F16) for name in "QKVO"),
        *(tile(name, shape, F16) for name, shape in halves.items()),
        *(tile(name, shape) for name, shape in floats.items()),
        f"view kt: local float16[{depth}, {block}] open cta (1, 0) align 16 of k",
        *(f"view {v}: local float32[{rows}, 1] open cta (0, None) align 16 of {name}" for v, name in views.items()),
        f"cta.copy {of['q']}, {whole('Q', out)}",
        f"cta.fill {of['top']}, -inf",
        f"cta.fill {of['sum']}, 0.0",
        f"cta.fill {of['acc']}, 0.0",
        f"for j: int32 in 0 .. {blocks} step 1",
        *(f"    {line}" for line in turn),
        f"cta.div {of['acc']}, {of['acc']}, {whole('sumv', column)}",
        f"cta.cast {of['o']}, {of['acc']}",
        f"cta.copy {whole('O', out)}, {of['o']}",
    )


def outer(threads: int, extent: int) -> Kernel:
    """Y = v[:, None] * v[None, :]."""
    shape = (extent, extent)
    return kernel(
        threads,
        tensor("V", 1),
        tensor("Y", 2),
        tile("v", (extent,)),
        tile("y", shape),
        f"view r: local float32[{extent}, 1] open cta (0, None) align 16 of v",
        f"view c: local float32[1, {extent}] open cta (None, 0) align 16 of v",
        f"cta.copy {whole('v', (extent,))}, {whole('V', (extent,))}",
        f"cta.mul {whole('y', shape)}, {whole('r', (extent, 1))}, {whole('c', (1, extent))}",
        f"cta.copy {whole('Y', shape)}, {whole('y', shape)}",
    )


def to_parts_of_given(threads: int) -> Kernel:
    """Open tiles beside parts of tiles that are laid out by hand: they go as the parts do, in fewer registers."""
    shape, half = (64, 16), (64, 8)
    layout = "S[(2, 32, 16) : (16, 1 @ tx, 1)]"
    x, y, b = whole("x", half), whole("y", half), whole("b", (8,))
    right = "[0 +: 64, 8 +: 8]"
    return kernel(
        threads,
        tensor("X", 2),
        tensor("B", 1),
        f"alloc g: local float32[64, 16] {layout} align 16",
        f"alloc h: local float32[64, 16] {layout} align 16",
        tile("x", half),
        tile("y", half),
        tile("b", (8,)),
        f"cta.copy {whole('g', shape)}, {whole('X', shape)}",
        f"cta.copy {whole('h', shape)}, {whole('X', shape)}",
        f"cta.copy {b}, {whole('B', (8,))}",
        f"cta.add {x}, g{right}, {b}",
        f"cta.exp {y}, {x}",
        f"cta.neg h{right}, {y}",
        f"cta.copy {whole('X', shape)}, {whole('h', shape)}",
    )


CASES: dict[str, Callable[[], Kernel]] = {
    "row_of_1024": lambda: elementwise(128, (1024,)),
    "mixed_widths": lambda: elementwise(64, (32, 48)),
    "mixed_widths_96_threads": lambda: elementwise(96, (64, 48)),
    "odd_extents": lambda: elementwise(128, (7, 13), multiple=1),
    "odd_threads": lambda: elementwise(100, (7, 13), multiple=1),
    "bias": lambda: broadcast(64, 32, 48, 1),
    "column": lambda: broadcast(64, 32, 48, 0),
    "swapped_in_a_loop": lambda: swapped(128),
    "halves": lambda: halves(64, 64),
    "halves_of_odd_rows": lambda: halves(64, 40),
    "to_given": lambda: to_given(32),
    "to_parts_of_given": lambda: to_parts_of_given(32),
    "transpose_loaded_again": lambda: with_transpose(128, 64),
    "transpose_converted": lambda: with_transpose(128, 64, doubled=True),
    "outer_product": lambda: outer(64, 32),
    "softmax_of_rows": lambda: softmax(128, 32, 128),
    "softmax_of_1000": lambda: softmax(256, 1000, dtype=F16),
    "sums_of_rows": lambda: sums(128, 64, 48, 1),
    "sums_of_columns": lambda: sums(128, 64, 128, 0),
    "maps_of_rows": lambda: composed(128, 64, 48),
    "scan_of_rows": lambda: prefixes(128, 64, 48),
    "attention": lambda: attention(128, 64, 64, 128, 16),
    "product": lambda: products(128, 64, 64, 32),
    "product_of_deep_factors": lambda: products(128, 64, 128, 128),
    "product_of_odd_extents": lambda: products(128, 45, 39, 20),
    "product_of_one_tile": lambda: products(128, 16, 8, 8),
    "product_of_a_row": lambda: products(96, 1, 24, 5),
    "outer_product_of_a_column": lambda: products(64, 17, 8, 1),
    "transposed_float32": lambda: transposed(128, 64),
    "transposed_float16": lambda: transposed(128, 64, F16),
}


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_gets_its_golden_layouts(name: str, golden: Golden) -> None:
    open_kernel = CASES[name]()
    assert verify(open_kernel, "open") == []
    laid_out = lay_out(open_kernel)
    assert verify(laid_out.kernel, "tile") == []
    notes = "\n".join(f"# {choice}" for choice in laid_out.choices)
    golden.check(f"open/{name}.open", f"{to_text(open_kernel)}---\n{to_text(laid_out.kernel)}---\n{notes}")


def ran(made: Kernel, **arrays: np.ndarray) -> None:
    run(replace(made, debug=True), arrays, {}, devices.named("sim"))


@pytest.mark.parametrize(
    ("threads", "shape", "multiple"),
    [(64, (32, 48), 16), (96, (64, 48), 16), (128, (7, 13), 1), (100, (7, 13), 1), (128, (5,), 1), (16, (3, 40), 1)],
)
def test_elementwise_operations_run(threads: int, shape: tuple[int, ...], multiple: int) -> None:
    rng = np.random.default_rng(1)
    x, z = rng.standard_normal(shape).astype(np.float16), rng.standard_normal(shape).astype(np.float32)
    y = np.zeros_like(z)
    ran(elementwise(threads, shape, multiple=1), X=x, Z=z, Y=y)
    assert np.array_equal(y, x.astype(np.float32) + z)


@pytest.mark.parametrize("along", [0, 1])
@pytest.mark.parametrize(("threads", "rows", "columns"), [(64, 32, 48), (100, 7, 13), (96, 5, 40)])
def test_broadcasts_run(threads: int, rows: int, columns: int, along: int) -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((rows, columns)).astype(np.float16)
    b = rng.standard_normal((rows, columns)[along]).astype(np.float32)
    expected = (x.astype(np.float32) + (b if along else b[:, None])).astype(np.float16)
    ran(broadcast(threads, rows, columns, along, multiple=1), X=x, B=b)
    assert np.array_equal(x, expected)


def test_tiles_that_change_places_run() -> None:
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal((64, 32)).astype(np.float32) for _ in "xy")
    first, second = x.copy(), y.copy()
    ran(swapped(128), X=x, Y=y)
    assert np.array_equal(x, second) and np.array_equal(y, first)


def test_a_tile_beside_its_transpose_runs() -> None:
    x = np.random.default_rng(6).standard_normal((64, 64)).astype(np.float32)
    y = np.zeros_like(x)
    ran(with_transpose(128, 64), X=x, Y=y)
    assert np.array_equal(y, x + x.T)


def test_an_outer_product_runs() -> None:
    v = np.random.default_rng(7).standard_normal(32).astype(np.float32)
    y = np.zeros((32, 32), np.float32)
    ran(outer(64, 32), V=v, Y=y)
    assert np.array_equal(y, v[:, None] * v)


def test_what_an_operation_made_is_converted_and_not_loaded_again() -> None:
    text = to_text(lay_out(CASES["transpose_converted"]()).kernel)
    assert text.count(", X[") == 1 and "cta.copy x.1" in text
    assert to_text(lay_out(CASES["transpose_loaded_again"]()).kernel).count(", X[") == 2


def test_open_tiles_beside_a_given_one_run() -> None:
    rng = np.random.default_rng(4)
    x, b = rng.standard_normal((32, 16)).astype(np.float32), rng.standard_normal(16).astype(np.float32)
    expected = x + x + b
    ran(to_given(32), X=x, B=b)
    assert np.array_equal(x, expected)


def test_open_tiles_beside_parts_of_given_ones_run_and_nothing_is_converted() -> None:
    rng = np.random.default_rng(4)
    x, b = rng.standard_normal((64, 16)).astype(np.float32), rng.standard_normal(8).astype(np.float32)
    expected = x.copy()
    expected[:, 8:] = -np.exp(x[:, 8:] + b)
    ran(to_parts_of_given(32), X=x, B=b)
    np.testing.assert_allclose(x, expected, rtol=1e-6)
    laid_out = lay_out(to_parts_of_given(32)).kernel
    assert [str(s.buffer.layout) for s in statements(laid_out.body) if isinstance(s, Alloc)][2:4] == [
        "S[(2, 32, 8) : (8, 1 @ tx, 1)]"
    ] * 2
    assert to_text(laid_out).count("cta.copy") == 4


@pytest.mark.parametrize(("threads", "shape"), [(128, (32, 128)), (256, (1000,)), (64, (7, 40)), (96, (5, 48))])
def test_a_softmax_runs(threads: int, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(8).standard_normal(shape).astype(np.float32)
    y = np.zeros_like(x)
    ran(softmax(threads, *shape), X=x, Y=y)
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    assert np.abs(y - e / e.sum(-1, keepdims=True)).max() < 1e-6


def test_attention_is_laid_out_without_a_conversion() -> None:
    text = to_text(lay_out(CASES["attention"]()).kernel)
    # but for the two factors that are loaded wide
    assert re.findall(r"alloc (\w+\.\d+)", text) == ["k.1", "v.2"]
    assert {layout for name, layout in re.findall(r"alloc (\w+): local \S+\[64\] (.*) align", text)} == {
        "S[(4, 2, 8) : (1 @ warpid, 1, 4 @ laneid)] + R[4 : 1 @ laneid]"
    }


@pytest.mark.parametrize("extents", [(45, 39, 20), (16, 8, 8), (1, 24, 5), (17, 8, 1), (5, 1, 3), (1, 1, 1)], ids=str)
@pytest.mark.parametrize("threads", [32, 96, 128])
def test_a_product_of_any_extents_runs(threads: int, extents: tuple[int, int, int]) -> None:
    m, n, k = extents
    random = np.random.default_rng(0)
    a, b = (random.integers(-4, 5, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, np.float32)
    ran(products(threads, m, n, k, multiple=1), A=a, B=b, C=c)
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


def test_a_product_runs() -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((64, 32), (32, 64)))
    c = np.zeros((64, 64), np.float32)
    ran(products(128, 64, 64, 32), A=a, B=b, C=c)
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


def test_a_kernel_without_open_tiles_stays_the_same_object() -> None:
    made = lay_out(CASES["bias"]()).kernel
    assert lay_out(made).kernel is made and lay_out(made).choices == ()


@pytest.mark.parametrize("name", CASES)
def test_names_change_no_layout(name: str) -> None:
    text = to_text(CASES[name]())
    # in the opposite order of the alphabet
    renamed = re.sub(r"\b([abcfgnowxyz])(?=[\[:]|$)", lambda m: chr(ord("z") - ord(m[1]) + ord("a")), text, flags=re.M)
    one, other = (lay_out(from_text(each)).kernel for each in (text, renamed))
    assert [b.layout for b in local_tiles(one)] == [b.layout for b in local_tiles(other)]
    assert text != renamed


@pytest.mark.parametrize("name", CASES)
def test_a_statement_that_shares_no_tile_changes_no_layout(name: str) -> None:
    made = CASES[name]()
    extents = (8, 24)
    copy = f"cta.copy {whole('other', extents)}, {whole('Other', extents)}"
    further = kernel(made.threads, tensor("Other", 2), tile("other", extents), copy)
    both = replace(made, params=(*made.params, *further.params), body=(*further.body, *made.body))
    one, other = lay_out(made).kernel, lay_out(both).kernel
    assert local_tiles(one) == [b for b in local_tiles(other) if b.name != "other"]


def local_tiles(made: Kernel) -> list[object]:
    return [s.buffer for s in statements(made.body) if isinstance(s, Alloc) and s.buffer.space == "local"]


def test_every_open_tile_is_laid_out_for_all_threads() -> None:
    for make in CASES.values():
        made = make()
        allocated = [s.buffer for s in statements(made.body) if isinstance(s, Alloc)]
        names = {buffer.name for buffer in allocated if isinstance(buffer.layout, Open)}
        decided = {buffer.layout: buffer for buffer in local_tiles(lay_out(made).kernel) if buffer.name in names}
        for layout, buffer in decided.items():
            places = layouts.places(layouts.plain(layout), np.arange(layout.size()))
            assert set(np.unique([thread for thread, _ in places])) == set(range(made.threads)), buffer


def chain(count: int) -> Kernel:
    """`count` additions, each to the previous sum."""
    shape = (32, 48)
    names = [f"t{k}" for k in range(count + 1)]
    lines = [tile(name, shape) for name in names]
    lines.append(f"cta.copy {whole('t0', shape)}, {whole('X', shape)}")
    lines += [f"cta.add {whole(b, shape)}, {whole(a, shape)}, {whole('t0', shape)}" for a, b in pairwise(names)]
    return kernel(64, tensor("X", 2), *lines, f"cta.copy {whole('X', shape)}, {whole(names[-1], shape)}")


def calls(made: Kernel) -> int:
    """How many functions the pass calls, which doesn't depend on the machine's load."""
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(counted)
    try:
        lay_out(made)
    finally:
        sys.setprofile(None)
    return count


def test_the_pass_is_linear() -> None:
    ten, hundred, thousand = (calls(chain(count)) for count in (10, 100, 1000))
    assert (thousand - hundred) < 1.1 * 10 * (hundred - ten)


def test_an_explanation_says_how_threads_are_spread_and_what_the_next_grid_would_have_cost() -> None:
    arrays = {"X": np.zeros((32, 48), np.float16), "B": np.zeros(48, np.float32)}
    made = run(CASES["bias"](), arrays, {}, devices.named("sim"))
    line = "x, b, f, o over (32, 48): lanes (4, 8), warps (2, 1), vectors (1, 8); cost 560, the next 600"
    assert line in str(made.explain()).splitlines()
    assert line in made.explain()._repr_html_()
    assert "local float16[32, 48] open cta" in made.open_ir and "open" not in made.tile_ir


def test_a_layout_propagates_through_a_reduction_as_it_is_written() -> None:
    """The lanes that share a sum are replicas in the order of the given layout, although another order is equal."""
    given = S[(2,) * 6 : (2 @ laneid, 1 @ laneid, 4 @ laneid, 8 @ laneid, 16 @ laneid, 1)]

    @tj.kernel(threads=256)
    def sums(A: tj.Tensor, B: tj.Tensor) -> None:
        x = tj.warp.load(A[0:4, 0:16], layout=given)
        tj.warp.store(B[0:16], tj.sum(x, axis=0, dtype=tj.uint16))

    compiled = sums.compile(tj.spec((4, 16), tj.uint16), tj.spec(16, tj.uint16), target="sm_90a")
    assert "+ R[(2, 2) : (2 @ laneid, 1 @ laneid)]" in compiled.tile_ir
