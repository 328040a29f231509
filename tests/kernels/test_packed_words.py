"""Every call of the language on packed numbers, tiles and elements: it takes them, or refuses them by name."""

from __future__ import annotations

import re
import textwrap

import numpy as np
import pytest

import tilejit as tj
from tests.support.programs import source_of
from tests.types.test_docs import FACTORS, WORDS
from tilejit.dtypes import DTYPES, PACKED_TYPES, DType
from tilejit.ops.record import TAKES_PACKED

#: calls whose examples only move packed numbers, or don't access them; a cast between equal types is a copy
ONLY_MOVES = frozenset({
    "alloc_shared", "alloc_local", "alloc_tmem", "scratch", "assume_in_bounds", "load", "store", "commit", "cast",
})


def example(name: str, dtype: DType) -> str:
    """The example of a word with memory and tiles of packed numbers in place of others."""
    word = WORDS[name]
    lines = re.sub(r"\.astype\([^()]*\)", "", word.example)
    lines = re.sub(r"tj\.(float32|float16|int32)\b", f"tj.{dtype}", lines)
    given = FACTORS if word.__name__ == "gemm" else ""
    views = "".join(f"    {to} = {of}.view(tj.{dtype})\n" for to, of in (("A", "X"), ("H", "Y"), ("F", "Z")))
    return f"def k(X, Y, Z):\n{views}{given}{textwrap.indent(lines, '    ')}\n"


@pytest.mark.parametrize("number", range(len(PACKED_TYPES)))
def test_every_call_takes_packed_numbers_or_refuses_them(number: int) -> None:
    # each call with one of the types
    for name in list(WORDS)[number :: len(PACKED_TYPES)]:
        text = example(name, PACKED_TYPES[number])
        k = tj.kernel(threads=128, cooperative=True)(source_of(text))
        shapes = tj.spec((128, 8), tj.uint8), tj.spec((128, 8), tj.uint8), tj.spec((16, 16), tj.uint8)
        try:
            k.compile(*shapes, target="sm_90a" if "wgmma" in text else "sm_100a")
        except (tj.KernelTypeError, tj.LayoutError) as error:
            assert str(PACKED_TYPES[number]) in str(error) and "help: " in str(error), (name, str(error))
        else:
            has_numbers = re.search(r"\b[AHF]\b", WORDS[name].example) is not None
            is_taken = {name, WORDS[name].__name__} & (TAKES_PACKED | ONLY_MOVES)
            assert is_taken or not has_numbers, f"{name} takes packed numbers\n{text}"


REFUSED = (
    "print(x)", "print(V[0])", "print('a', (x, 1))", "V[0] = V[1]", "X[0] = V[0]", "V[0] = 3",
    "y = V[0].astype(tj.uint8)", "y = -x", "y = x + x", "y = x @ x", "y = x == x", "y = abs(x)", "y = x[0] + 1",
    "y = x << 1", "y = ~x", "y = tj.uint8(x)", "y = tj.cta.load(V[0:8], mask=x)", "y = tj.cta.load(X.at(x))",
    "y = tj.ptx('mov.b16 $0, $1;', out=tj.uint16, inputs=(x,))", "y = tj.ptx('mov.b16 $0, 1;', out=tj.int4x2)",
    "y = tj.ptx('mov.b16 $0, $1;', out=tj.uint16, inputs=(V[0],))", "y = tj.scan(x, 0, lambda a, b: b)",
    "y = tj.reduce(x, 0, lambda a, b: b)", "y = tj.sort(x)", "y = tj.argsort(x)",
    "y = tj.sort((tj.cta.indices((8,), 0), x))", "y = tj.top_k(x, 2)", "y = tj.cumsum(x, 0)", "y = tj.mean(x)",
    "y = tj.where(x == x, x, x)", "y = tj.cat(x, x, 0)", "y = tj.shuffle(V[0], 0)",
    "y = tj.wait(V[0], lambda v: True)", "tj.atomic.add(V[0:8], x)", "y = tj.load_acquire(V[0])",
    "tj.store_release(V[0], 1)", "tj.store_release(V[0:8], x)", "y = tj.load_volatile(V[0:4])",
    "y = tj.uniform(V[0])", "y = tj.vote_any(V[0])", "y = tj.rand(1, x)", "y = tj.histogram(x, 4)",
    "y = tj.pack(x, tj.uint4x2)", "for i in range(V[0]):\n        X[i] = 0", "if V[0]:\n        X[0] = 1",
    "assert V[0]", "y = tj.gather(X, x, 0)", "r = tj.alloc_local((4,), tj.int4x2)\n    y = r[0] + 1",
    "tj.static_assert(V[0])",
)


@pytest.mark.parametrize("statement", REFUSED)
def test_what_computes_with_packed_numbers_is_refused(statement: str) -> None:
    k = tj.kernel(threads=32)(source_of(
        f"def k(X):\n    V = X.view(tj.int4x2)\n    x = tj.cta.load(V[0:8])\n    {statement}\n"
    ))
    with pytest.raises(tj.KernelTypeError, match="help: "):
        k.compile(tj.spec((16,), tj.uint8), target="sm_90a")


MOVED = {
    "x": lambda a: a, "tj.flip(x, 0)": np.flip, "tj.roll(x, 3, 0)": lambda a: np.roll(a, 3, 0),
    "tj.split(x, 2, 0)[1]": lambda a: a[8:], "x[4:8]": lambda a: a[4:8],
    "tj.gather(x, 15 - tj.cta.indices((16,), 0), 0)": np.flip,
    "x.reshape((4, 4)).T.reshape(16)": lambda a: a.reshape(4, 4).T.ravel(),
    "tj.broadcast_to(x[:, None], (16, 2)).reshape(32)": lambda a: np.repeat(a, 2),
}


@pytest.mark.parametrize("expression", MOVED)
def test_packed_numbers_are_moved(expression: str) -> None:
    a, out = np.arange(16, dtype=np.uint8) * 37 % 251, np.zeros(32, np.uint8)
    expected = MOVED[expression](a)
    text = f"""def k(X, Y):
    x = tj.cta.load(X.view(tj.int4x2)[0:16])
    tj.cta.store(Y.view(tj.int4x2)[0:{len(expected)}], {expression})
"""
    tj.simulate(tj.kernel(threads=32)(source_of(text)), 1, a, out)
    np.testing.assert_array_equal(out[: len(expected)], expected)


@pytest.mark.parametrize("dtype", [*DTYPES.values(), *PACKED_TYPES], ids=str)
def test_an_array_of_the_numpy_type_of_a_spec_fits_it(dtype: DType) -> None:
    text = "def k(A: tj.Tensor = tj.spec(8, T), B: tj.Tensor = tj.spec(8, T)):\n    tj.cta.copy(B[0:8], A[0:8])\n"
    k = tj.kernel(threads=32)(source_of(text, T=dtype))
    a = np.arange(8, dtype=np.uint8).astype(dtype.numpy)
    for _ in range(2):
        b = np.zeros(8, dtype.numpy)
        with tj.use_device("sim"):
            k[1](a, b)
        assert a.tobytes() == b.tobytes()
    with pytest.raises(tj.LaunchError, match=f"pinned to {dtype}; got"):
        k[1](a.astype(np.int8 if dtype.name == "uint64" else np.uint64), b)


def test_a_scalar_parameter_is_not_packed() -> None:
    with pytest.raises(tj.KernelTypeError, match="n is annotated int4x2, which is two numbers"):
        tj.kernel(threads=32)(source_of("def k(A, n: tj.int4x2):\n    A[0] = 1\n"))
