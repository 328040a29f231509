"""What of a call's arguments the compiled kernel depends on, and nothing else."""

import math
from itertools import count
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilejit as tj
from tilejit import dtypes
from tilejit.errors import LaunchError
from tilejit.frontend import Parameter, ParameterKind
from tilejit.ir.types import ConstexprType
from tilejit.runtime.signature import Call, bind, describe, freeze, hypothetical, scalar, signature
from tilejit.target import target

A, B = Parameter("A", ParameterKind.ARRAY), Parameter("B", ParameterKind.ARRAY)
N = Parameter("N", ParameterKind.CONSTEXPR)


def aligned(shape, dtype=np.float32, offset=0):
    """An array whose address is a multiple of 64, plus `offset` bytes."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + 128, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    return memory[start : start + size].view(dtype).reshape(shape)


def types(parameters, *values, architecture="sm_90a", aliased=()):
    call, overlapping = Call(parameters, values), [(position, position) for position in aliased]
    return dict(signature(call, target(architecture), overlapping).arguments)


def test_arguments_bind_by_position_and_keyword_with_defaults():
    x = Parameter("x", ParameterKind.SCALAR, dtypes.float32, default=2.0)
    assert bind("k", (A, N, x), (1,), {"N": 3}) == [1, 3, 2.0]
    assert bind("k", (A, N, x), (1, 2, 3), {}) == [1, 2, 3]


SCALARS = st.one_of(
    st.booleans(), st.integers(-(2**65), 2**65), st.floats(),
    st.sampled_from([None, "1", (1,), 1j, [1], 10**400, -(10**400)]),
    st.sampled_from([np.bool_, np.int8, np.uint16, np.int32, np.uint32, np.int64, np.uint64]).flatmap(
        lambda kind: st.builds(kind, st.just(1) if kind is np.bool_ else st.sampled_from(
            [np.iinfo(kind).min, 1, np.iinfo(kind).max]
        ))
    ),
    st.builds(np.float64, st.floats()), st.builds(np.float32, st.floats(width=32)),
    st.just(np.ones(1)), st.just(np.array(2)),
)


def bits(parameter, value):
    """The type and the bits that an argument is passed as, or how it is refused."""
    try:
        call = Call((parameter,), (value,))
    except LaunchError as error:
        return error.message
    (dtype,) = call.key[1:]
    with np.errstate(over="ignore"):
        return dtype, dtype.numpy.type(call.arguments[0]).tobytes()


@given(SCALARS)
def test_a_scalar_annotated_by_a_python_type_is_passed_as_one_of_that_type(value):
    """As `tj.int32` (`tj.int64` if that doesn't hold it), `tj.float32` and `tj.bool_` convert and refuse it."""
    plain, given = tj.kernel(threads=1), {}
    for kind, dtype in ((int, dtypes.int32), (float, dtypes.float32), (bool, dtypes.bool_)):
        def k(x):
            pass

        k.__annotations__["x"] = kind
        (annotated,) = plain(k).parameters
        given[kind] = bits(annotated, value)
        number = value.item() if isinstance(value, np.generic) else value
        if kind is int and isinstance(number, int) and not -(2**31) <= number < 2**31:
            dtype = dtypes.int64
        assert given[kind] == bits(Parameter("x", ParameterKind.SCALAR, dtype), value)


@pytest.mark.parametrize("dtype", [dtypes.int8, dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64])
def test_an_int_of_which_only_the_type_is_given_holds_all_of_that_type(dtype):
    parameter = Parameter("n", ParameterKind.SCALAR)
    expected = dtypes.int32 if dtype in (dtypes.int8, dtypes.int32) else dtypes.int64
    assert Call((parameter,), (hypothetical(parameter, count(1), dtype),)).key[1:] == (expected,)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((1,), {}, "k is missing N"),
        ((1, 2, 3), {}, "takes 2 arguments; got 3 by position"),
        ((1,), {"M": 2}, "no parameter 'M'"),
        ((1, 2), {"N": 2}, "got 'N' twice"),
    ],
)
def test_arguments_that_do_not_bind_are_named(args, kwargs, message):
    with pytest.raises(LaunchError, match=message):
        bind("k", (A, N), args, kwargs)


def test_shapes_and_strides_are_no_part_of_the_signature():
    first = types((A,), aligned((8, 16)))
    assert first == types((A,), aligned((24, 32)))
    assert first != types((A,), aligned((8, 8, 2)))
    assert first != types((A,), aligned((8, 16)).T)
    assert first != types((A,), aligned((8, 16), np.int32))


@pytest.mark.parametrize(("architecture", "most"), [("sm_75", 16), ("sm_90a", 16), ("sm_100a", 32), ("sm_120", 32)])
def test_alignment_counts_up_to_what_the_target_can_use(architecture, most):
    kind = types((A,), aligned((8, 16)), architecture=architecture)["A"]
    assert (kind.align, kind.extent_align) == (most, most)


@given(st.sampled_from([1, 2, 4, 8, 16, 32]), st.integers(1, 40))
def test_alignment_divides_address_and_rows(offset, columns):
    a = aligned((4, columns), np.uint8, offset)
    kind = types((A,), a, architecture="sm_100a")["A"]
    for number in (a.ctypes.data, columns):
        assert number % kind.align == 0
    assert kind.align == min(math.gcd(offset, columns, 32) & -math.gcd(offset, columns, 32), 32)
    assert columns % kind.extent_align == 0


def test_a_quick_key_is_at_least_as_fine_as_the_signature():
    arrays = [aligned((n, m), dtype, o) for n in (1, 2) for m in (1, 3, 4) for dtype in (np.int8, np.int32)
              for o in (0, 4, 32)]
    seen: dict[Any, Any] = {}
    for a in [*arrays, *(x.T for x in arrays)]:
        key = Call((A,), (a,)).key
        for architecture in ("sm_90a", "sm_100a"):
            kind = types((A,), a, architecture=architecture)["A"]
            assert seen.setdefault((key, architecture), kind) == kind


def test_overlapping_arrays_are_found_in_pairs():
    memory = np.zeros(100, np.float32)
    arrays = [memory[:50], memory[50:], memory[40:60], np.zeros(3), memory[:0]]
    x = Parameter("x", ParameterKind.ANY)
    assert Call([x] * 5, arrays).overlaps == ((0, 2), (1, 2))
    assert Call([x] * 2, arrays[:2]).overlaps == ()
    assert Call([x, x, N, x], [arrays[0], 3, 4, arrays[0]]).overlaps == ((0, 3),)


def test_the_overlap_bit_is_part_of_the_signature():
    a = aligned((4, 4))
    assert types((A, B), a, a)["A"] != types((A, B), a, a, aliased=(0, 1))["A"]


def test_none_for_a_parameter_without_annotation_is_a_value_known_to_the_compiler():
    x = Parameter("x", ParameterKind.ANY)
    assert Call((A, x), (aligned((4, 4)), None)).key != Call((A, x), (aligned((4, 4)), aligned((4, 4)))).key
    assert types((x,), None)["x"] == ConstexprType.of(None)


def test_none_is_no_array_where_one_is_asked_for():
    with pytest.raises(LaunchError, match="A"):
        Call((A,), (None,))


def pinned(shape=(4, 8), dtype=dtypes.float32, strides=None):
    return Parameter("A", ParameterKind.ARRAY, spec=tj.spec(shape, dtype, strides))


def test_a_pinned_array_is_static():
    kind = types((pinned(),), aligned((4, 8)))["A"]
    assert (kind.shape, kind.strides) == ((4, 8), (8, 1))
    kind = types((pinned(strides=(16, 1)),), aligned((4, 16))[:, :8])["A"]
    assert (kind.shape, kind.strides) == ((4, 8), (16, 1))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((4, 8)), "A is pinned to float32; got float64"),
        (np.zeros((8, 4), np.float32), r"A is pinned to shape \(4, 8\); got \(8, 4\)"),
        (np.zeros((8, 4), np.float32).T, r"A is pinned to row-major strides \(8, 1\) \(elements\); got \(1, 4\)"),
        (np.zeros(32, np.float32), r"got \(32,\)"),
    ],
)
def test_an_array_unlike_its_pin_is_refused_with_expected_and_got(array, message):
    with pytest.raises(LaunchError, match=message):
        types((pinned(),), array)


@pytest.mark.parametrize(("offset", "align"), [(0, 16), (4, 4), (8, 8), (64, 16)])
def test_a_pinned_array_is_aligned_as_its_address_is_whatever_its_rows(offset, align):
    a, parameter = aligned((4, 3), np.float32, offset), pinned((4, 3))
    assert types((parameter,), a)["A"].align == align
    assert types((A,), a)["A"].align == 4
    assert (Call((parameter,), (a,)).key == Call((parameter,), (aligned((4, 3)),)).key) == (align == 16)


def test_the_stride_of_a_single_row_does_not_matter():
    a = aligned((4, 8))[::4]
    assert a.strides == (128, 4)
    assert types((pinned((1, 8)),), a)["A"].strides == (8, 1)


def test_shapes_of_pinned_arrays_are_in_the_quick_key():
    assert Call((pinned(),), (aligned((4, 8)),)).key != Call((pinned(),), (aligned((8, 8)),)).key


def test_a_number_for_an_array_is_refused():
    with pytest.raises(LaunchError, match="A is an array parameter; got int 3"):
        Call((A,), (3,))


def test_a_spec_is_no_argument_of_a_launch():
    with pytest.raises(LaunchError, match="Spec is not an array"):
        Call((A,), (tj.spec((4,), dtypes.float32),))


def test_a_spec_represents_an_array_of_the_best_alignment():
    values = [hypothetical(A, count(1), tj.spec((4, 8), dtypes.float32)), hypothetical(B, count(2), dtypes.int64)]
    call = Call((A, Parameter("n", ParameterKind.ANY)), values)
    found = signature(call, target("sm_90a"), ())
    assert describe(found) == "A: float32[:, :1] align 16 extent 16, n: int64"


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (3, "int32"), (-(2**31), "int32"), (2**31, "int64"), (1.5, "float32"), (True, "bool_"),
        (np.float16(1), "float16"), (np.uint8(1), "uint8"), (np.bool_(True), "bool_"), (np.float64(1), "float64"),
    ],
)
def test_an_unannotated_scalar_has_its_natural_type(value, dtype):
    assert types((Parameter("x", ParameterKind.ANY),), value)["x"].dtype.name == dtype


@pytest.mark.parametrize("value", ["text", 1j, 2**63])
def test_what_has_no_type_is_refused(value):
    with pytest.raises(LaunchError, match=r"can't be a|holds"):
        types((Parameter("x", ParameterKind.ANY),), value)


def test_an_annotated_scalar_must_fit():
    p = Parameter("n", ParameterKind.SCALAR, dtypes.int8)
    assert scalar(p, 127, dtypes.int8) == 127
    with pytest.raises(LaunchError, match="n is int8, which holds -128 to 127; got 128"):
        scalar(p, 128, dtypes.int8)
    with pytest.raises(LaunchError, match=r"n is int8; got float 1\.5"):
        scalar(p, 1.5, dtypes.int8)
    with pytest.raises(LaunchError, match="n is int8; got str"):
        scalar(p, "1", dtypes.int8)


#: a scalar of each type of NumPy's and ml_dtypes' that is no real number
NO_NUMBERS = [
    np.str_("3"), np.bytes_(b"3"), np.void(b"ab"), np.array([(1, 2)], "i4,i4")[0], np.datetime64("2020"),
    np.datetime64("NaT"), np.timedelta64(5, "ns"), np.complex64(1), np.complex128(1), np.clongdouble(1),
]


@pytest.mark.parametrize("dtype", [None, *dtypes.DTYPES.values()], ids=str)
@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_numpy_scalars_that_are_no_numbers_are_refused(value, dtype):
    p = Parameter("x", ParameterKind.ANY if dtype is None else ParameterKind.SCALAR, dtype)
    with pytest.raises(LaunchError, match=r"x (is|can't be)"):
        types((p,), value)


@pytest.mark.parametrize("value", [v for v in NO_NUMBERS if v.dtype.char not in "SUFD"], ids=repr)
def test_a_constexpr_that_equals_no_python_value_is_refused(value):
    with pytest.raises(LaunchError, match="N is a constexpr; got"):
        freeze((1, value), "N")
    assert freeze(np.str_("a"), "N") == freeze("a", "N")


NUMBERS = [*(t.numpy.type for t in dtypes.DTYPES.values()), np.longdouble, ml_dtypes.float8_e4m3]


@pytest.mark.parametrize("kind", NUMBERS)
def test_numpy_scalars_that_are_numbers_are_taken(kind):
    for dtype in (dtypes.float32, dtypes.float16):
        assert scalar(Parameter("x", ParameterKind.SCALAR, dtype), kind(1), dtype) == 1.0


def test_an_integer_that_is_too_long_to_print_is_refused():
    with pytest.raises(LaunchError, match=r"n is int64, which holds .*; got an integer of 20000 bits"):
        types((Parameter("n", ParameterKind.ANY),), 2**20000 - 1)


def test_floats_beyond_a_type_become_infinite_as_in_numpy():
    p = Parameter("x", ParameterKind.SCALAR, dtypes.float32)
    assert scalar(p, 1e300, dtypes.float32) == math.inf
    assert scalar(p, -1e300, dtypes.float32) == -math.inf
    assert scalar(p, 3.40282350e38, dtypes.float32) == float(np.finfo(np.float32).max)
    assert scalar(p, 65519.0, dtypes.float16) == 65504.0
    assert scalar(p, 1e300, dtypes.float64) == 1e300


def test_constexprs_differ_by_type_and_value():
    frozen = [freeze(v, "N") for v in (1, 1.0, True, 0.0, -0.0, (1,), (1.0,), (True,), "1", None)]
    assert len(set(frozen)) == len(frozen)
    assert freeze(math.nan, "N") == freeze(-math.nan, "N") or math.copysign(1, math.nan) == 1
    assert freeze((1, (2, "x")), "N") == freeze((1, (2, "x")), "N")


def test_a_constexpr_that_can_change_is_refused():
    with pytest.raises(LaunchError, match="N is a constexpr; a list can't be one"):
        freeze([1], "N")
    with pytest.raises(LaunchError, match="N is a constexpr"):
        freeze((1, [2]), "N")
