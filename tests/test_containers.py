"""Tuples, named tuples and frozen dataclasses as parameters of kernels."""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilejit as tj
from tests.support.programs import source_of
from tilejit.testing import check

N = 32


class Pair(NamedTuple):
    x: tj.Tensor
    n: tj.int32

    def norm(self) -> int:
        return 1


@dataclass(frozen=True)
class Weights:
    w: tj.Tensor
    pair: Pair
    BM: tj.constexpr = 8
    bias: tj.Tensor | None = None
    scale: float = 1.0

    @property
    def rows(self) -> int:
        return 3


@dataclass(frozen=True)
class Wide(Weights):
    more: tuple[tj.Tensor, tj.float64] = ()  # type: ignore[assignment]


@dataclass
class Loose:
    x: Any


def array(value: float = 1.0, count: int = N, dtype: Any = np.float32) -> Any:
    return np.full(count, value, dtype)


def kernel(text: str, **names: Any) -> tj.Kernel:
    return tj.kernel(threads=N)(source_of(text, Pair=Pair, Weights=Weights, Wide=Wide, **names))


def test_items_and_fields_are_arguments() -> None:
    k = kernel(
        "def k(P, W: Weights):\n"
        "    i = tj.thread_id()\n"
        "    out, m = P\n"
        "    x, n = W.pair\n"
        "    if i < n:\n"
        "        out[i] = x[i] + W.w[i] * W.scale + W.BM + len(P) + len(W) + W.pair[1] + W.pair.n + m\n"
        "        if W.bias is not None:\n"
        "            out[i] += W.bias[i]\n"
    )
    out = array(0)
    k[1]((out, 100), Weights(array(2), Pair(array(3), 4), scale=0.5))
    assert (out[:4] == 3 + 1 + 8 + 2 + 5 + 4 + 4 + 100).all() and not out[4:].any()
    k[1]((out, 100), Weights(array(2), Pair(array(3), 4), 16, array(1000), scale=0.5))
    assert (out[:4] == 3 + 1 + 16 + 2 + 5 + 4 + 4 + 100 + 1000).all()
    assert len(k.signatures) == 2


def test_containers_go_through_names_calls_and_branches() -> None:
    k = kernel(
        "@tj.function\n"
        "def of(p):\n"
        "    return p.x[tj.thread_id()] * p.n\n"
        "def k(Y, P, Q):\n"
        "    R = P\n"
        "    if tj.cta_id(0) > 0:\n"
        "        R = Q\n"
        "    y = of(R)\n"
        "    for item in (P, Q):\n"
        "        y += of(item)\n"
        "    for n in range(2):\n"
        "        R = P\n"
        "    x, n = R\n"
        "    Y[tj.cta_id(0), tj.thread_id()] = y + n + (P + (Q.n,))[2]\n"
    )
    x, y = array(2), np.zeros((2, N), np.float32)
    k[2](y, Pair(x, 3), Pair(x, 5))
    assert (y[0] == 6 + 16 + 3 + 5).all() and (y[1] == 10 + 16 + 3 + 5).all()


class Line(NamedTuple):
    slope: float
    start: float


def test_an_argument_and_a_constant_of_one_class_keep_their_names_in_branches() -> None:
    k = kernel(
        "def k(Y, P: Line, Q: tj.constexpr):\n"
        "    R = P\n"
        "    if tj.cta_id(0) > 0:\n"
        "        R = Q\n"
        "    Y[tj.cta_id(0), tj.thread_id()] = tj.thread_id() * R.slope + R.start\n",
        Line=Line,
    )
    y = np.zeros((2, N), np.float32)
    k[2](y, Line(2.0, 1.0), Line(3.0, 4.0))
    assert (y == np.arange(N) * [[2], [3]] + [[1], [4]]).all()


def test_dicts_in_containers_are_copied_at_the_call() -> None:
    k = kernel("def k(W: Weights):\n    W.w[tj.thread_id()] = W.BM['a']\n")
    w, entries = array(0), {"a": 1}
    value = Weights(w, Pair(array(), 1), entries)  # type: ignore[arg-type]
    prepared = k[1].bind(value)
    for number in (5, 6):
        entries["a"] = number
        k[1](value)
        assert (w == number).all()
        prepared()
        assert (w == 1).all()
    assert len(k.signatures) == 3


def test_an_inherited_field_and_a_field_that_is_a_tuple_are_annotated() -> None:
    k = kernel("def k(W: Wide):\n    W.w[0] = W.more[1]\n    W.more[0][0] = W.scale\n")
    x, w = array(), array(0, dtype=np.float64)
    k[1](Wide(w, Pair(x, 1), more=(x, 0.1), scale=2))
    assert w[0] == 0.1 and x[0] == 2
    assert "W.more[1]: float64" in repr(k.signatures[0])
    with pytest.raises(tj.LaunchError, match=r"W.more is a tuple of 0; expected W.more\[0\], W.more\[1\]"):
        k[1](Wide(w, Pair(x, 1)))


def test_the_structure_is_part_of_the_signature() -> None:
    k = kernel("def k(P):\n    pass\n")
    Other = namedtuple("Other", "x n")
    values = [(), ((),), (1,), (1, 2), (1.0, 2), ((1, 2),), ((1,), 2), Pair(array(), 2), Other(array(), 2), (None, 2)]
    for value in values:
        k[1](value)
    assert len(k.signatures) == len(values)
    with tj.no_recompile():
        for value in values:
            k[1](value)
        k[1](Pair(array(5, 64), 7))
    assert [repr(v).partition(") for")[0] for v in k.signatures[:4]] == [
        "<variant (P: tuple of 0", "<variant (P: tuple of 1, P[0]: tuple of 0", "<variant (P: tuple of 1, P[0]: int32",
        "<variant (P: tuple of 2, P[0]: int32, P[1]: int32",
    ]
    assert "P: Pair(x, n), P.x: float32[:1] align" in repr(k.signatures[7])
    with pytest.raises(tj.LaunchError, match=r"P\[1\]: float32 instead of P\[1\]: int32"), tj.no_recompile():
        k[1]((1, 2.0))


def test_items_overlap_and_are_written_as_arrays_do() -> None:
    text = "def k(P, Q):\n    i = tj.thread_id()\n    P[0][i] = Q[0][i]\n    P[0][i] += Q[0][i] + P[1][i]\n"
    k = kernel(text)
    x, y, z = array(1), array(2), array(3)
    k[1]((x, z), (y,))
    k[1]((x, x), (y,))
    k[1]((x, z), (x,))
    kinds = [dict(v.signature.arguments) for v in k.signatures]
    assert [[name for name, kind in each.items() if getattr(kind, "overlaps", False)] for each in kinds] == [
        [], ["P[0]", "P[1]"], ["P[0]", "Q[0]"],
    ]
    x.flags.writeable = False
    with pytest.raises(tj.LaunchError, match=r"P\[0\]"):
        k[1]((x, z), (y,))
    k[1]((y, z), (x,))


def test_specs_and_grids_reach_into_containers() -> None:
    k = kernel("def k(P: Pair, t):\n    P.x[tj.cta_id(0)] = P.n\n    t[0][tj.cta_id(0)] = P.n\n")
    compiled = k.compile(Pair(tj.spec(N, tj.float32), tj.int32), (tj.spec(N, tj.float32),), target="sm_90a")
    assert "P.x" in str(compiled.tile_ir) and len(k.signatures) == 1
    k.precompile([(Pair(tj.spec(N, tj.float64), 1), (tj.spec(N, tj.float32),))], workers=0)
    assert len(k.signatures) == 2
    p, t = Pair(array(0), 7), (array(0),)
    for grid in (lambda a: a["P"].n, lambda a: a.P[1], lambda P, t: P.n):
        p.x[:] = 0
        k[grid](p, t)
        assert (p.x[:7] == 7).all() and not p.x[7:].any()
    launch = k[2].bind(p, t)
    launch()
    launch(Pair(array(), 2), (array(),))
    with pytest.raises(tj.LaunchError, match="need a different build|would be compiled"):
        launch(Pair(array(0, dtype=np.int32), 7), t)


@pytest.mark.parametrize(
    ("value", "message", "hint"),
    [
        ([1], "P can't be a list", "or a tuple"),
        ({"x": 1}, "P can't be a dict", "a frozen dataclass"),
        (([1],), "P[0] can't be a list", "or a tuple"),
        ((1, ({},)), "P[1][0] can't be a dict", "a frozen dataclass"),
        (Loose(1), "P can't be a Loose", "@dataclass(frozen=True)"),
        (Pair("x", 1), "P.x: str is not an array", ""),  # type: ignore[arg-type]
        (Pair(3, 1), "P.x is an array parameter; got int 3", "`x: tj.int32`"),  # type: ignore[arg-type]
        (Pair(array(), 2.5), "P.n is int32; got float 2.5", "pass ints"),  # type: ignore[arg-type]
        (("x",), "P[0] can't be a str", "tj.constexpr"),
        ((tj.float32,), "P[0] can't be a DType", "tj.constexpr"),
    ],
)
def test_wrong_items_are_named(value: Any, message: str, hint: str) -> None:
    k = kernel("def k(P):\n    pass\n")
    with pytest.raises(tj.LaunchError) as caught:
        k[1](value)
    assert caught.value.message.startswith(message) and hint in (caught.value.hint or "")


def test_another_class_than_the_annotated_one_is_refused() -> None:
    k = kernel("def k(P: Pair, t: tuple = ()):\n    pass\n")
    for value in ((array(), 1), None, array(), namedtuple("Pair", "x n")(array(), 1)):
        with pytest.raises(tj.LaunchError, match="P is a Pair; got "):
            k[1](value)
    with pytest.raises(tj.LaunchError, match="t is a tuple; got int 3"):
        k[1](Pair(array(), 1), 3)
    k[1](Pair(array(), 1), (array(),))


def test_annotations_of_fields_that_cannot_be_used_are_named() -> None:
    bad = dataclasses.make_dataclass("Bad", [("x", list)], frozen=True)
    unknown = dataclasses.make_dataclass("Unknown", [("x", "nowhere.Tensor")], frozen=True)
    k = kernel("def k(P):\n    pass\n")
    with pytest.raises(tj.LaunchError, match="the annotation of P.x is <class 'list'>, which tilejit doesn't support"):
        k[1](bad([1]))
    with pytest.raises(tj.LaunchError, match="an annotation of Unknown, the class of P, can't be evaluated"):
        k[1](unknown(1))


def test_a_spec_pins_a_field() -> None:
    pinned = dataclasses.make_dataclass("Pinned", [("x", Any, tj.spec((4, 8), tj.float32))], frozen=True)
    k = kernel("def k(P):\n    P.x[3, 7] = len(P.x.layout.shape)\n")
    x = np.zeros((4, 8), np.float32)
    k[1](pinned(x))
    assert x[3, 7] == 2
    with pytest.raises(tj.LaunchError, match=r"P.x is pinned to shape \(4, 8\); got \(8, 4\)"):
        k[1](pinned(x.reshape(8, 4)))


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("W.norm()", "a Weights(w, pair, BM, bias, scale) has no attribute norm", "not its methods and properties"),
        ("W.pair.norm()", "a Pair(x, n) has no attribute norm", "not its methods and properties"),
        ("W.rows", "a Weights(w, pair, BM, bias, scale) has no attribute rows", "not its methods and properties"),
        ("W.pair._replace(n=1)", "a Pair(x, n) has no attribute _replace", "not its methods and properties"),
        ("P.x", "a tuple of 1 item has no attribute x", "index it"),
        ("P[1]", "index 1 is outside a tuple of length 1", "-1 <= i < 1"),
        ("W.w", "dimension 0 of W.w has a run-time extent", "pin the shape: w: tj.Tensor = tj.spec("),
        ("P[0]", "dimension 0 of P[0] has a run-time extent", "pin the shape: p: tj.Tensor = tj.spec("),
    ],
)
def test_other_members_are_refused_by_name(text: str, message: str, hint: str) -> None:
    k = kernel(f"def k(P, W: Weights):\n    y = tj.cta.load({text})\n")
    with pytest.raises(tj.KernelTypeError) as caught:
        k[1]((array(),), Weights(array(), Pair(array(), 1)))
    error = caught.value
    assert message in error.message and hint in (error.hint or "") and error.span is not None


def test_findings_name_the_item() -> None:
    k = kernel("def k(P):\n    P[0][P[1]] = 1\n")
    with tj.use_device("sim"), pytest.raises(tj.OutOfBoundsError, match=r"P\[0\]"):
        k[1]((array(), 99))


def test_a_rounded_item_is_reported() -> None:
    k = kernel("def k(P):\n    P[0][tj.thread_id()] *= P[1]\n")
    with pytest.warns(tj.PrecisionWarning, match=r"P\[1\] of k is 0.1"):
        k[1]((array(dtype=np.float64), 0.1))


def test_check_compares_the_arrays_in_containers() -> None:
    k = kernel("def k(P, W: Pair):\n    i = tj.thread_id()\n    P[0][i] = tj.sqrt(W.x[i]) * P[1]\n")
    p, w = (array(0), 0.1), Pair(array(2), 1)

    def expected(p: Any, w: Any) -> Any:
        p[0][:] = np.sqrt(w.x) * p[1]

    check(k, 1, p, w, expected=expected, ulp=1.5)
    check(k, 1, p, w, expected={"P[0]": np.sqrt(array(2)) * np.float32(0.1)}, schedules=2)
    check(k, 1, p, w, expected=[np.sqrt(array(2)) * np.float32(0.1), array(2)])
    assert not p[0].any()
    with pytest.raises(AssertionError, match=r"P\[0\]"):
        check(k, 1, p, w, expected=lambda p, w: p[0].fill(1))
    with pytest.raises(ValueError, match=r"the arguments are P\[0\], P\[1\], W.x, W.n"):
        check(k, 1, p, w, expected={"P": array(2)})


_LEAVES = st.sampled_from(["array", "int", "float", "none"])
_TREES = st.recursive(_LEAVES, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=8)


@given(tree=st.lists(_TREES, max_size=4).map(tuple), kinds=st.integers(0, 2**16))
def test_random_trees_arrive_as_they_are(tree: Any, kinds: int) -> None:
    """Each leaf is written to its own place, through the names that Python gives it."""
    lines: list[str] = []
    expected: list[float] = []

    def value_of(tree: Any, path: str, depth: int) -> Any:
        if isinstance(tree, str):
            number = len(expected) + 1
            form = {"array": f"{path}[0]", "none": f"({number} if {path} is None else -1)"}.get(tree, path)
            lines.append(f"    Y[{len(expected)}] = {form}")
            expected.append(number)
            return {"array": array(number), "int": number, "float": float(number), "none": None}[tree]
        if kinds >> (len(lines) + depth) & 1:
            names = [f"f{n}" for n in range(len(tree))]
            items = [value_of(item, f"{path}.{name}", depth + 1) for name, item in zip(names, tree, strict=True)]
            if kinds >> (len(lines) + depth + 1) & 1:
                return namedtuple("Random", names)(*items)
            return dataclasses.make_dataclass("Random", [(name, Any) for name in names], frozen=True)(*items)
        return tuple([value_of(item, f"{path}[{n}]", depth + 1) for n, item in enumerate(tree)])

    value = value_of(tree, "P", 0)
    y = np.zeros(len(expected) + 1, np.float32)
    kernel("\n".join(["def k(Y, P):", *lines, f"    Y[{len(expected)}] = len(P)", ""]))[1](y, value)
    assert y.tolist() == [*expected, len(tree)]


def test_a_dataclass_that_is_not_frozen_is_refused_with_what_to_write() -> None:
    @dataclasses.dataclass
    class Loose:
        x: tj.Tensor

    with pytest.raises(tj.KernelTypeError, match="p is annotated Loose, a dataclass that isn't frozen") as error:
        tj.kernel(threads=32)(source_of("def k(p: Loose):\n    p.x[0] = 1\n", Loose=Loose))
    assert error.value.hint == "write @dataclass(frozen=True) above Loose"
