"""Arguments of kernels as the command line writes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilejit.errors import LaunchError
from tilejit.sanitize.arguments import LARGEST, parsed


def test_random_data_depends_on_the_seed_the_position_the_type_and_the_shape() -> None:
    def made(text: str, seed: int = 0, position: int = 0) -> Any:
        return parsed(text).make(seed, position)

    first = made("f32[10, 20]")
    assert first.shape == (10, 20) and first.dtype == np.float32
    assert np.array_equal(first, made("x:f32[10,20]"))
    assert not np.array_equal(first, made("f32[10, 20]", seed=1))
    assert not np.array_equal(first, made("f32[10, 20]", position=1))
    many = made("f64[100000]")
    # within 5 standard errors of the mean and of the standard deviation
    assert abs(many.mean()) < 5 / many.size**0.5 and abs(many.std() - 1) < 5 / (2 * many.size) ** 0.5
    for letter in "iu":
        for bits in (8, 16, 32, 64):
            values = made(f"{letter}{bits}[5000]")
            assert values.dtype == np.dtype(f"{letter}{bits // 8}")
            assert set(values.tolist()) == set(range(100))
    assert set(made("b8[100]").tolist()) == {False, True}


@pytest.mark.parametrize("text, value", [
    ("i32:7", np.int32(7)), ("n:i32:-7", np.int32(-7)), ("u64:0xff", np.uint64(255)), ("i8:-128", np.int8(-128)),
    ("u64:18446744073709551615", np.uint64(2**64 - 1)), ("f32:1.5", np.float32(1.5)), ("f64:1e-3", np.float64(1e-3)),
    ("f16:0.1", np.float16(0.1)), ("f32:-inf", np.float32("-inf")), ("int32:3", np.int32(3)),
    ("b8:true", np.bool_(True)), (" i32 : 7 ", np.int32(7)), ("bool:0", np.bool_(False)),
])
def test_scalars_have_their_type(text: str, value: np.generic) -> None:
    made = parsed(text).make(0, 0)
    assert isinstance(made, np.generic) and made.dtype == value.dtype and made == value


def test_arrays_may_have_one_value_or_none() -> None:
    filled = parsed("counts:i32[4]=-3").make(0, 0)
    assert isinstance(filled, np.ndarray) and filled.tolist() == [-3] * 4
    output = parsed("out:u16[2,3]")
    made = output.make(0, 0)
    assert isinstance(made, np.ndarray) and output.kind == "output"
    assert (made.dtype, made.shape) == (np.uint16, (2, 3))
    assert (parsed("out:f32[4]").name, parsed("out:y:f32[4]").name, parsed("y:f32[4]").name) == ("", "y", "y")
    empty = parsed("f32[0]").make(0, 0)
    assert isinstance(empty, np.ndarray) and empty.size == 0
    assert parsed("bytes:00ff").make(0, 0) == b"\x00\xff"
    with pytest.raises(LaunchError, match="at most"):
        parsed(f"u8[{LARGEST + 1}]")
