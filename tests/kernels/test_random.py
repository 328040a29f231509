"""`tj.random_bits`, `tj.rand`, `tj.randn` and `tj.randint`: Random123's vectors, an oracle in Python, any layout."""

from __future__ import annotations

import re
from enum import IntEnum
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilejit as tj
from tests.kernels.test_statistics import SCOPES
from tests.support.profiles import times
from tests.support.programs import source_of
from tilejit.dtypes import DTYPES, DType
from tilejit.errors import KernelTypeError, SimulationError
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import Expr
from tilejit.lower.moves.vectors import OwnedVectors
from tilejit.lower.variants import elementwise
from tilejit.ops.elementwise.random import philox
from tilejit.runtime.device import Device
from tilejit.testing import register_layouts

Array = np.ndarray

#: the vectors for philox4x32 with 10 rounds in tests/kat_vectors of Random123: counter, key, block
VECTORS = [
    ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


def block_of(counter: tuple[int, ...], key: tuple[int, ...]) -> tuple[int, ...]:
    """Philox 4x32-10 on Python's integers."""
    a, b, c, d = counter
    k, m = key
    for _ in range(10):
        one, two = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (two >> 32) ^ b ^ k, two % 2**32, (one >> 32) ^ d ^ m, one % 2**32
        k, m = (k + 0x9E3779B9) % 2**32, (m + 0xBB67AE85) % 2**32
    return a, b, c, d


def bits_of(seed: int, offset: int) -> int:
    seed, offset = seed % 2**64, offset % 2**64
    at = offset // 4
    return block_of((at % 2**32, at >> 32, 0, 0), (seed % 2**32, seed >> 32))[offset % 4]


def normal_of(seed: int, offset: int) -> float:
    first, second = (bits_of(seed, offset & ~1 | k) >> 8 for k in range(2))
    u, v = (first + 1) * 2.0**-24, second * 2.0**-24
    return float(np.sqrt(-2 * np.log(u)) * (np.sin if offset % 2 else np.cos)(2 * np.pi * v))


@pytest.mark.parametrize(("counter", "key", "block"), VECTORS)
def test_blocks_are_those_that_random123_publishes(
    counter: tuple[int, ...], key: tuple[int, ...], block: tuple[int, ...]
) -> None:
    assert block_of(counter, key) == block
    words = (tuple(np.array(word, np.uint64) for word in given) for given in (counter, key))
    assert tuple(int(word) for word in philox(*words)) == block


def test_the_first_block_in_a_kernel_is_the_published_one(device: Device) -> None:
    b = np.zeros(4, np.uint32)
    with tj.use_device(device.name):
        tj.kernel(threads=32)(source_of(
            "def k(B):\n    tj.cta.store(B[0:4], tj.random_bits(0, tj.cta.indices(4, 0)))\n"
        ))[1](b)
    block = VECTORS[0][2]
    np.testing.assert_array_equal(b, np.array(block, np.uint32))


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, int, tuple[int, ...], object, str]:
    """Scope, threads, shape, a layout or None, and a target."""
    scope, threads = draw(SCOPES)
    shape, layout = tuple(draw(st.lists(st.sampled_from((1, 2, 3, 4, 7, 8, 16, 31)), min_size=1, max_size=2))), None
    if scope != "thread" and draw(st.booleans()):
        layout, shape = draw(register_layouts(scope, threads=threads, max_registers=8))
    while prod(shape) > 8 * threads:
        shape = shape[:-1] if len(shape) > 1 else (shape[0] // 2,)
    return scope, threads, shape, layout, draw(st.sampled_from(("sm_80", "sm_90a", "sm_100a")))


SEEDS = st.sampled_from((0, 1, 7, -1, 2**32 - 1, 2**40 + 5, -(2**63))) | st.integers(-(2**63), 2**63 - 1)
STARTS = st.sampled_from((0, 2, 4, 1023, 2**31 - 40, 2**32 - 6, 2**34 - 8, 2**63 - 50, -3, -64))
RESULTS = {
    "random_bits": (np.uint32, bits_of), "rand": (np.float32, lambda s, o: (bits_of(s, o) >> 8) * 2.0**-24),
    "randn": (np.float32, normal_of), "randint": (np.int32, lambda s, o: -5 + (bits_of(s, o) * 1000 >> 32)),
}


def drawn(call: tuple, name: str, seed: int, start: int, kind: str, step: int) -> tuple[Array, Array]:
    """The numbers of a kernel at offsets start + step * index, integers of type `kind`, and those offsets."""
    scope, threads, shape, layout, target = call
    box = ", ".join(f"0:{n}" for n in shape)
    index = "".join(f"i = i * {n} + tj.{scope}.indices({shape}, {d})\n    " for d, n in enumerate(shape))
    if layout is not None:
        index = index.replace(")\n", ", layout=LAYOUT)\n")
    more = ", -5, 995" if name == "randint" else ""
    text = (
        f"def k(B, seed: tj.int64, start: tj.{kind}):\n    i = 0\n    {index}"
        f"tj.{scope}.store(B[{box}], tj.{name}(seed, i.astype(tj.{kind}) * {step} + start{more}))\n"
    )
    b = np.zeros(shape, RESULTS[name][0])
    at = DTYPES[kind].numpy.type(start)
    with tj.use_device(f"sim:{target}"):
        tj.kernel(threads=threads)(source_of(text, LAYOUT=layout))[1](b, np.int64(seed), at)
    with np.errstate(over="ignore"):
        offsets = np.arange(prod(shape)).astype(DTYPES[kind].numpy) * DTYPES[kind].numpy.type(step) + at
    return b.ravel(), offsets


@settings(max_examples=times(0.6))
@given(
    call=calls(), name=st.sampled_from(tuple(RESULTS)), seed=SEEDS, start=STARTS, step=st.sampled_from((1, 1, 1, 3, 4)),
    kind=st.sampled_from(("int32", "int64", "uint32", "uint64", "int16")),
)
def test_numbers_depend_on_the_seed_and_the_offset_alone(
    call: tuple, name: str, seed: int, start: int, step: int, kind: str
) -> None:
    info = np.iinfo(DTYPES[kind].numpy)
    found, offsets = drawn(call, name, seed, start if info.min <= start <= info.max else 5, kind, step)
    wanted = np.array([RESULTS[name][1](seed, int(offset)) for offset in offsets])
    if name == "randn":
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-9)
    else:
        np.testing.assert_array_equal(found, wanted.astype(found.dtype))


class Seed(IntEnum):
    THREE = 3


def test_scalars_and_constants_are_offsets_too() -> None:
    text = """def k(B, seed: tj.uint64, n):
    B[0] = tj.random_bits(seed, n)
    B[1] = tj.random_bits(Seed.THREE, 6)
    for i in range(2, 6):
        B[i] = tj.random_bits(seed, i * 4 + 1)
    tj.cta.store(B[6:14], tj.random_bits(tj.cta.indices((8,), 0), 9))
"""
    b = np.zeros(14, np.uint32)
    seed = 2**64 - 12345
    with tj.use_device("sim"):
        tj.kernel(threads=1)(source_of(text, Seed=Seed))[1](b, np.uint64(seed), -9)
    wanted = [bits_of(seed, -9), bits_of(3, 6), *(bits_of(seed, i * 4 + 1) for i in range(2, 6))]
    assert b.tolist() == wanted + [bits_of(k, 9) for k in range(8)]


def test_equal_calls_with_other_offsets_have_other_numbers() -> None:
    """The offsets have equal types and layouts, and the seed is a constant, so that nothing else tells them apart."""
    text = "def k(B):\n    i = tj.cta.indices((64,), 0)\n"
    text += "".join(f"    tj.cta.store(B[{k}, 0:64], tj.random_bits(5, i + {k}))\n" for k in range(4))
    b = np.zeros((4, 64), np.uint32)
    with tj.use_device("sim"):
        tj.kernel(threads=32)(source_of(text))[1](b)
    assert b.tolist() == [[bits_of(5, i + k) for i in range(64)] for k in range(4)]


BLOCKS = """def k(B, seed: tj.int64):
    start = tj.cta_id(0) * 1024
    tj.cta.store(B[start : start + 1024], tj.{name}(seed, start + tj.cta.indices((1024,), 0){more}))
"""
ROWS = """def k(B, seed: tj.int64):
    i = (tj.cta_id(0) * 32 + tj.cta.indices((32, 32), 0)) * 32 + tj.cta.indices((32, 32), 1)
    tj.cta.store(B.tile((32, 32), (tj.cta_id(0), 0)), tj.{name}(seed, i{more}))
"""


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("text", [BLOCKS, ROWS], ids=["blocks", "rows"])
@pytest.mark.parametrize(("name", "dtype", "more"), [
    ("random_bits", tj.uint32, ""), ("rand", tj.float32, ""), ("randint", tj.int32, ", 0, 10"),
    ("randn", tj.float32, ""),
])
def test_four_offsets_of_one_block_cost_one_philox(
    name: str, dtype: tj.DType, more: str, text: str, target: str
) -> None:
    """The whole kernel has at most 32 instructions for each of a thread's 8 elements, except that of randn."""
    shape = (128, 32) if text is ROWS else (4096,)
    made = tj.kernel(threads=128)(source_of(text.format(name=name, more=more)))
    ptx = made.compile(np.zeros(shape, dtype.numpy), np.int64(1), target=target).ptx
    lines = [line.strip() for line in ptx.splitlines()]
    instructions = [line for line in lines if re.match(r"(@\S+ )?[a-z]+[.\w:]* .*;$|ret;", line) and line[0] != "."]
    products = sum("mul.hi.u32" in line for line in instructions)
    if name == "randn":
        # each element has one in sin
        assert products <= 2 * 2 * 10 + 8
    else:
        own = 8 if name == "randint" else 0
        assert products <= 2 * 2 * 10 + own and len(instructions) <= 32 * 8, f"{len(instructions)} instructions"


def test_numbers_are_uniform_and_normal() -> None:
    text = """def k(U, N):
    i = tj.cta_id(0) * 1024 + tj.cta.indices((1024,), 0)
    tj.cta.store(U.tile((1024,), (tj.cta_id(0),)), tj.rand(11, i))
    tj.cta.store(N.tile((1024,), (tj.cta_id(0),)), tj.randn(12, i))
"""
    u, n = np.zeros(2**15, np.float32), np.zeros(2**15, np.float32)
    with tj.use_device("sim"):
        tj.kernel(threads=128)(source_of(text))[32](u, n)
    assert u.min() >= 0 and u.max() < 1 and np.isfinite(n).all()
    counts = np.histogram(u, 64, (0, 1))[0]
    assert abs(((counts - 512) ** 2 / 512).sum() - 63) < 5 * np.sqrt(126)
    assert abs(n.mean()) < 5 / np.sqrt(len(n)) and abs(n.var() - 1) < 5 * np.sqrt(2 / len(n))
    assert abs(np.corrcoef(n[::2], n[1::2])[0, 1]) < 5 / np.sqrt(len(n) / 2)


def test_the_proof_finds_a_wrong_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    right = elementwise._coordinate

    def wrong(owned: OwnedVectors, dim: int, thread: Expr, iteration: Expr) -> Expr:
        return right(owned, dim, thread, build.add(iteration, 1))

    text = "def k(B, n):\n    tj.cta.store(B[0:128], tj.random_bits(7, tj.cta.indices((128,), 0) * 3 + n))\n"
    monkeypatch.setattr(elementwise, "_coordinate", wrong)
    with tj.use_device("sim"), pytest.raises(AssertionError, match="aren't those of the operation"):
        tj.kernel(threads=32, debug=True)(source_of(text))[1](np.zeros(128, np.uint32), 9)


def test_empty_tiles_have_no_numbers() -> None:
    b = np.ones(1, np.float32)
    with tj.use_device("sim"):
        tj.kernel(threads=32)(source_of(
            "def k(B):\n    x = tj.randn(1, tj.cta.zeros((0, 3), tj.int32))\n    B[0] = tj.sum(x)\n"
        ))[1](b)
    assert b[0] == 0


def test_limits_of_randint_are_checked() -> None:
    made = tj.kernel(threads=32)(source_of("def k(B, low, high):\n    B[0] = tj.randint(1, 2, low, high)\n"))
    b = np.zeros(1, np.int32)
    with tj.use_device("sim"):
        made[1](b, -(2**31), 2**31)
        assert b[0] == bits_of(1, 2) - 2**31
        with pytest.raises(SimulationError, match="randint: low must be less than high"):
            made[1](b, 3, 3)


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES.values() if dtype.is_integer], ids=str)
def test_limits_of_every_type_are_exact_or_refused(dtype: DType) -> None:
    made = tj.kernel(threads=32)(source_of(
        f"def k(B, low: tj.{dtype}, high: tj.{dtype}):\n    B[0] = tj.randint(1, 2, low, high)\n"
    ))
    ends = np.iinfo(dtype.numpy)
    edges = {ends.min, -(2**31) - 1, -(2**31), -(2**31) + 1, 0, 1, 2**31 - 1, 2**31, 2**31 + 1, 2**32, ends.max}
    b, numbers = np.zeros(1, np.int32), sorted(n for n in edges if ends.min <= n <= ends.max)
    with tj.use_device("sim"):
        for low, high in zip(numbers[:-1], numbers[1:], strict=True):
            if low >= -(2**31) and high <= 2**31:
                made[1](b, low, high)
                assert b[0] == low + (bits_of(1, 2) * (high - low) >> 32)
            else:
                with pytest.raises(SimulationError, match="randint: (low|high) must be from -214748364"):
                    made[1](b, low, high)


@pytest.mark.parametrize(("line", "words"), [
    ("tj.randint(1, 2, 3, 3)", "low must be less than high"),
    ("tj.randint(1, 2, 0, 2**31 + 1)", "high must be from -2147483647 to 2147483648"),
    ("tj.randint(1, 2, -2**31 - 1, 0)", "low must be from -2147483648 to 2147483647"),
    ("tj.randint(1, 2, 0, 2**64 - 1)", "high must be from -2147483647 to 2147483648"),
    ("tj.randint(1, 2, 0.5, 3)", "low must be an integer"),
    ("tj.randint(1, 2, 0, tj.cta.indices((8,), 0))", "high must be an integer"),
    ("tj.rand(1.5, 2)", "seed must be of integers"),
    ("tj.randn(1, tj.cta.load(A[0:8]))", "offset must be of integers; this is a local tile"),
    ("tj.random_bits(1, A)", "offset must be of integers"),
    ("tj.random_bits(1, True)", "offset must be of integers"),
    ("tj.rand(1)", "needs offset"),
])
def test_bad_calls_are_refused_with_a_place_and_a_hint(line: str, words: str) -> None:
    with pytest.raises(KernelTypeError) as caught:
        made = tj.kernel(threads=32)(source_of(f"def k(A):\n    x = {line}\n"))
        made.compile(tj.spec((32,), tj.float32), target="sm_90a")
    assert words in caught.value.message and caught.value.hint and caught.value.span is not None, str(caught.value)
