"""How messages say values and numbers."""

import numpy as np
import pytest

from tilejit.wording import counted, shown, typed, with_article

CLASS = type("Opaque", (), {})


@pytest.mark.parametrize(
    ("noun", "said"),
    [("ndarray", "an ndarray"), ("int", "an int"), ("uint8", "a uint8"), ("object", "an object"), ("tile", "a tile"),
     ("mbarrier", "an mbarrier"), ("NoneType", "a NoneType"), ("union", "a union"), ("Tensor", "a Tensor")],
)
def test_a_noun_has_its_article(noun, said):
    assert with_article(noun) == said


@pytest.mark.parametrize(
    ("number", "noun", "said"),
    [(1, "index", "1 index"), (3, "index", "3 indices"), (0, "argument", "0 arguments"), (1, "axis", "1 axis"),
     (2, "axis", "2 axes"), (1, "thread", "1 thread"), (2, "dimension", "2 dimensions")],
)
def test_a_count_has_its_noun(number, noun, said):
    assert counted(number, noun) == said


class Tensor:
    """What another library's array looks like; its interface raises."""

    shape, dtype = (4, 1), "torch.float32"

    def __repr__(self):
        raise AssertionError("arrays aren't dumped")

    @property
    def __cuda_array_interface__(self):
        raise KeyError("no interface")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.zeros((3, 4), np.float32), "ndarray of shape (3, 4) and float32"),
        (Tensor(), "Tensor of shape (4, 1) and torch.float32"),
        ((np.zeros(3), 1), "(ndarray of shape (3,) and float64, 1)"),
        ([np.zeros(3)], "[ndarray of shape (3,) and float64]"),
        ((np.zeros(3),), "(ndarray of shape (3,) and float64,)"),
        (np.float32(3), repr(np.float32(3))),
        (np.ndarray, "<class 'numpy.ndarray'>"),
        ("x" * 100, "'" + "x" * 59 + "…"),
        ((1, 2), "(1, 2)"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_is_shown_in_a_few_words(value, said):
    assert shown(value) == said


def test_a_value_may_be_said_with_its_type():
    assert typed(200) == "int 200" and typed("x") == "str 'x'"
    assert typed(np.zeros(3)) == "ndarray of shape (3,) and float64"
