"""Signatures of launches, and the keys under which compiled kernels are found.

The *quick key*, a tuple of array properties, scalar types and compile-time values, is computed at every launch on the
slow path. The `Signature`, which contains exactly what the compiler may know, is made only if the quick key isn't
cached. Several quick keys may map to the same signature.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np

from ..constants import compile_time, fields_of, is_simple, mapped, parts_of
from ..dtypes import DType, as_dtype, bool_, float32, from_numpy, int32, int64, uint8
from ..errors import TRITON_OPTIONS, LaunchError
from ..frontend import NO_DEFAULT, Parameter, ParameterKind, fields, token
from ..frontend.containers import container_type, declaration, is_container, items_of, with_items
from ..frontend.language import Spec
from ..ir.types import ArgumentType, ArrayType, ConstexprType, ContainerType, ScalarType, Signature
from ..target import Target
from ..wording import counted, shown, typed, with_article
from .arrays import Argument, ArrayView, device_name, facts_of, row_major
from .readers import is_array, readers, view_of

_NO_ARGUMENT = object()

# globals, which are faster to read at every launch than attributes
_ANY, _ARRAY, _CONSTEXPR, _SCALAR, _CONTAINER = (
    ParameterKind.ANY, ParameterKind.ARRAY, ParameterKind.CONSTEXPR, ParameterKind.SCALAR, ParameterKind.CONTAINER
)

#: dtype codes of NumPy scalars that equal a Python value but aren't real numbers: bytes, str, complex64, complex128
_TEXT_AND_COMPLEX = "SUFD"

#: name of a dtype -> its largest finite value, above which `struct` may raise an error
_LARGEST = {"float16": 65504.0, "float32": float(np.finfo(np.float32).max)}

#: (Python type, dtype) -> inclusive range of the values that are passed unchanged
_PLAIN: dict[tuple[type, DType], tuple[float, float]] = {
    (int, int32): (-(2**31), 2**31 - 1),
    (int, int64): (-(2**63), 2**63 - 1),
    (float, float32): (-_LARGEST["float32"], _LARGEST["float32"]),
}


def bind(name: str, parameters: Sequence[Parameter], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return a call's arguments and defaults in the order of the parameters; raise LaunchError if they don't match."""
    if not kwargs and len(args) == len(parameters):
        return list(args)
    if len(args) > len(parameters):
        raise LaunchError(
            f"{name} takes {counted(len(parameters), 'argument')}; got {len(args)} by position",
            hint=f"its parameters: {', '.join(p.name for p in parameters) or 'none'}",
        )
    values = list(args) + [_NO_ARGUMENT] * (len(parameters) - len(args))
    names = [p.name for p in parameters]
    unknown = next((key for key in kwargs if key not in names), None)
    if unknown is not None:
        hint = TRITON_OPTIONS.get(unknown, f"its parameters: {', '.join(names) or 'none'}")
        raise LaunchError(f"{name} has no parameter {unknown!r}", hint=hint)
    # report errors in the order of the parameters, because a generated launcher loses the order of the keywords
    for i, parameter in enumerate(parameters):
        is_named = parameter.name in kwargs
        if is_named and values[i] is not _NO_ARGUMENT:
            raise LaunchError(f"{name} got {parameter.name!r} twice", hint="pass it either by position or by keyword")
        if is_named:
            values[i] = kwargs[parameter.name]
        elif values[i] is _NO_ARGUMENT and parameter.default is not NO_DEFAULT:
            values[i] = parameter.default
    missing = [p.name for p, v in zip(parameters, values, strict=True) if v is _NO_ARGUMENT]
    if missing:
        raise LaunchError(f"{name} is missing {', '.join(missing)}", hint="pass every parameter that has no default")
    return values


def kind_with(parameter: Parameter, value: Any) -> ParameterKind:
    """Return how `value` is passed for a parameter: as array, scalar, compile-time value or container of these."""
    kind = parameter.kind
    if kind is not _ANY:
        return kind
    if is_array(value):
        return _ARRAY
    if value is None:
        return _CONSTEXPR
    return _CONTAINER if is_container(value) else _SCALAR


def flattened(
    parameters: Sequence[Parameter], values: Sequence[Any]
) -> tuple[Sequence[Parameter], Sequence[Any], Sequence[ParameterKind]]:
    """Return the parameters and values of a call with each container followed by its items, and how they are passed."""
    kinds = [kind_with(p, v) for p, v in zip(parameters, values, strict=True)]
    if _CONTAINER not in kinds:
        return parameters, values, kinds
    flat = list(_flat(zip(parameters, values, kinds, strict=True)))
    return [p for p, _, _ in flat], [v for _, v, _ in flat], [k for _, _, k in flat]


def _flat(each: Iterable[tuple[Parameter, Any, ParameterKind]]) -> Iterator[tuple[Parameter, Any, ParameterKind]]:
    for parameter, value, kind in each:
        yield parameter, value, kind
        if kind is _CONTAINER:
            yield from _flat([(p, v, kind_with(p, v)) for p, v in _items(parameter, value)])


def _items(parameter: Parameter, value: Any) -> list[tuple[Parameter, Any]]:
    """Return the items of a container with their parameters; raise LaunchError if it isn't as declared."""
    name, wanted, declared = parameter.name, parameter.container, parameter.items
    is_wanted = is_container(value) and (wanted is None or type(value) is wanted)
    if not is_wanted:
        what = "a container" if wanted is None else with_article(wanted.__name__)
        raise LaunchError(f"{name} is {what}; got {typed(value)}", hint=f"pass {what}, or change its annotation")
    names = tuple([name + suffix for suffix in container_type(value).items])
    if declared is None:
        cls: Any = type(value)
        declared = tuple([Parameter(each, _ANY) for each in names]) if cls is tuple else fields(cls, name)
    elif tuple([p.name for p in declared]) != names:
        expected = ", ".join([p.name for p in declared]) or "an empty tuple"
        raise LaunchError(
            f"{name} is {with_article(str(container_type(value)))}; expected {expected}",
            hint="pass a container with these items",
        )
    return list(zip(declared, items_of(value), strict=True))


class Call:
    """The arguments of a launch, read in one pass.

    values: as passed, one per parameter, with copies of dicts. parameters, flat, kinds: the results of `flattened`.
    arguments: those of `flat` as devices receive them; None for a compile-time value or a container.
    key: the quick key.
    overlaps: pairs of positions of arrays whose byte ranges overlap. first: the first array in device memory, or None.
    has_host: True if an array is in host memory. waits: True if an array's producer stream may still write it.
    """

    __slots__ = ("arguments", "first", "flat", "has_host", "key", "kinds", "overlaps", "parameters", "values", "waits")

    def __init__(self, parameters: Sequence[Parameter], values: Sequence[Any]) -> None:
        self.values = values
        self.parameters, flat, self.kinds = flattened(parameters, values)
        self.flat = list(flat)
        self.arguments: list[Argument] = []
        self.first: ArrayView | None = None
        self.has_host = self.waits = has_dicts = False
        key: list[Any] = []
        ranges: list[tuple[int, int, int]] = []
        for parameter, value, kind in zip(self.parameters, self.flat, self.kinds, strict=True):
            if kind is _ARRAY:
                key.append(self._add_array(parameter, value, ranges))
            elif kind is _CONSTEXPR:
                key.append(freeze(value, parameter.name))
                if not is_simple(value):
                    # dicts may change after the call
                    self.flat[len(self.arguments)] = mapped(value)
                    has_dicts = True
                self.arguments.append(None)
            elif kind is _CONTAINER:
                self.arguments.append(None)
                key.append(container_type(value))
            else:
                dtype = parameter.dtype or scalar_dtype(parameter, value)
                limits = _PLAIN.get((type(value), dtype))
                is_plain = limits is not None and limits[0] <= value <= limits[1]
                self.arguments.append(value if is_plain else scalar(parameter, value, dtype))
                key.append(dtype)
        if has_dicts:
            self.values = [mapped(value) for value in values]
        self.overlaps = overlaps(ranges) if len(ranges) > 1 else ()
        self.key = (self.overlaps, *key)

    def _add_array(self, parameter: Parameter, value: Any, ranges: list[tuple[int, int, int]]) -> tuple[Any, ...]:
        arguments = self.arguments
        try:
            reader = readers.get(type(value))
            view = reader(value) if reader is not None else view_of(value)
        except LaunchError as error:
            if isinstance(value, (int, float, np.generic)):
                raise LaunchError(
                    f"{parameter.name} is an array parameter; got {typed(value)}",
                    hint="annotate it with a scalar type, as in "
                    f"`{declaration(parameter.name, 'tj.int32')}`, or `tj.constexpr`",
                ) from None
            raise LaunchError(f"{parameter.name}: {error.message}", hint=error.hint) from None
        pointer, facts, _, _, _, producer = view
        if facts.high_bytes:
            ranges.append((pointer + facts.low_bytes, pointer + facts.high_bytes, len(arguments)))
        arguments.append(view)
        first, device = self.first, facts.device
        if device is None:
            self.has_host = True
        elif first is None:
            self.first = view
        elif first.facts.device != device:
            raise LaunchError(
                f"the arguments are on two devices, {device_name(first.facts.device)} and {device_name(device)}",
                hint="copy them to one device first",
            )
        if producer is not None:
            self.waits = True
        if parameter.spec is None:
            return facts.key, view.align
        # the check of a pinned array depends on its shape and strides, which the facts' number determines
        return facts.number, view.pointer_align


def overlaps(ranges: list[tuple[int, int, int]]) -> tuple[tuple[int, int], ...]:
    """Return the pairs of positions whose byte ranges overlap. ranges: (start, end, position); sorted in place."""
    ranges.sort()
    reached = 0
    for low, high, _ in ranges:
        if low < reached:
            break
        reached = high
    else:
        return ()
    pairs = [(min(a[2], b[2]), max(a[2], b[2])) for n, a in enumerate(ranges) for b in ranges[n + 1 :] if b[0] < a[1]]
    return tuple(sorted(pairs))


def freeze(value: Any, name: str) -> Any:
    """Return a hashable key for a constexpr, or raise LaunchError; `1`, `1.0` and `True` have different keys."""
    if type(value) is int or type(value) is str:
        return value
    try:
        if is_simple(value):
            return token(value)
        _check_constexpr(value, name, name)
        return token(compile_time(value))
    except RecursionError:
        raise LaunchError(
            f"{name} is a constexpr nested several hundred levels deep, beyond Python's recursion limit",
            hint="pass a flat tuple",
        ) from None


def _check_constexpr(value: Any, name: str, path: str) -> None:
    kind, parts = type(value), parts_of(value)
    is_text = isinstance(value, np.generic) and value.dtype.char in _TEXT_AND_COMPLEX
    if isinstance(value, np.generic) and not is_text and not _is_number(value.dtype):
        raise LaunchError(f"{name} is a constexpr; got {typed(value)}", hint="pass a number or a string")
    if isinstance(value, Enum):
        return
    if kind is dict:
        wrong = next((key for key in value if not isinstance(key, (str, int, float))), None)
        if wrong is not None:
            raise LaunchError(
                f"{name} is a constexpr; its dict has the key {shown(wrong)}", hint="use strings or numbers as keys"
            )
    elif kind.__hash__ is None and fields_of(value) is None:
        part = "" if path == name else f", {path},"
        raise LaunchError(
            f"{name} is a constexpr; {with_article(kind.__name__)}{part} can't be one because it isn't hashable",
            hint="make the dataclass frozen: @dataclass(frozen=True)" if hasattr(kind, "__dataclass_params__")
            else "pass numbers, strings, dtypes, layouts, enum members, frozen dataclasses, tuples or dicts of these",
        )
    for suffix, part in parts:
        _check_constexpr(part, name, path + suffix)


def hypothetical(parameter: Parameter, numbers: Iterator[int], value: Any) -> Any:
    """Return an argument of a hypothetical launch: an array for a spec, a number for a scalar's dtype, else `value`.

    A container is returned with such items. numbers: yields positive integers that no other array uses.
    """
    if is_container(value) and kind_with(parameter, value) is _CONTAINER:
        return with_items(value, [hypothetical(p, numbers, v) for p, v in _items(parameter, value)])
    if isinstance(value, Spec):
        # with the largest alignment, and far from all other arrays
        return ArrayView(next(numbers) << 48, facts_of(value.dtype, value.shape, value.strides, None), True, value)
    dtype = None if parameter.kind is _CONSTEXPR or isinstance(value, str) else as_dtype(value)
    if dtype is None:
        return value
    if parameter.kind is _SCALAR and parameter.dtype is None and dtype.is_integer:
        # an `int` parameter gets int32 if that holds the greatest value of `dtype`, else int64
        return min(int(np.iinfo(dtype.numpy).max), 2**63 - 1)
    return dtype.numpy.type(0)


def scalar_dtype(parameter: Parameter, value: Any) -> DType:
    """Return the type in which `value` is passed for an unannotated or `int` parameter, or raise LaunchError."""
    if parameter.kind is _SCALAR:
        number = value.item() if isinstance(value, np.generic) else value
        return int32 if not isinstance(number, int) or -(2**31) <= number < 2**31 else int64
    if isinstance(value, (bool, np.bool_)):
        return bool_
    if isinstance(value, np.generic):
        found = from_numpy(value.dtype)
        if found is not None:
            return found
    elif isinstance(value, int):
        return int32 if -(2**31) <= value < 2**31 else int64
    elif isinstance(value, float):
        return float32
    hint = f"pass an array or a number, or annotate it: `{declaration(parameter.name, 'tj.constexpr')}`"
    if isinstance(value, list):
        hint = "pass np.array(...), or a tuple"
    elif isinstance(value, dict):
        hint = "pass its values as separate arguments, or a frozen dataclass"
    elif hasattr(type(value), "__dataclass_params__") and not type(value).__dataclass_params__.frozen:
        hint = "make its class frozen, @dataclass(frozen=True): then the fields are arguments"
    raise LaunchError(f"{parameter.name} can't be {with_article(type(value).__name__)}", hint=hint)


def scalar(parameter: Parameter, value: Any, dtype: DType) -> bool | int | float:
    """Return `value` as a Python number to pass as `dtype`, or raise LaunchError."""
    if isinstance(value, np.generic) and not _is_number(value.dtype):
        return _no_number(parameter, value, dtype)
    number = value.item() if isinstance(value, np.generic) else value
    if not isinstance(number, (bool, int, float)):
        # `item` returns some scalars unchanged, such as np.longdouble
        number = float(number) if isinstance(value, np.generic) else _no_number(parameter, value, dtype)
    if dtype.is_float:
        try:
            return _rounded(float(number), dtype)
        except OverflowError:
            raise LaunchError(
                f"{parameter.name} is {dtype.name}; got an integer of {number.bit_length()} bits, too large for it",
                hint="pass a smaller number, or float('inf') for infinity",
            ) from None
    if isinstance(number, float):
        return _no_number(parameter, value, dtype)
    if dtype.kind == "bool":
        return bool(number)
    low, high = (0, 2**dtype.bits) if dtype.kind == "uint" else (-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1))
    if not low <= number < high:
        raise LaunchError(
            f"{parameter.name} is {dtype.name}, which holds {low} to {high - 1}; got "
            + (str(number) if number.bit_length() < 256 else f"an integer of {number.bit_length()} bits"),
            hint=f"annotate {parameter.name} with a signed type" if -(2**63) <= number < low == 0
            else f"annotate {parameter.name} with {'an unsigned' if dtype.bits == 64 else 'a wider'} type"
            if -(2**63) <= number < 2**64
            else "no integer type holds it: pass parts of it, or a float",
        )
    return int(number)


def _is_number(dtype: np.dtype[Any]) -> bool:
    """True for bools and real numbers, also of ml_dtypes; False for text, bytes, records, dates and complex numbers."""
    return dtype.isbuiltin != 0 and "complex" not in dtype.name


def _rounded(number: float, dtype: DType) -> float:
    """Return the number, rounded as by NumPy if it is finite but exceeds the range of a float16 or float32 `dtype`."""
    if not _LARGEST.get(dtype.name, math.inf) < abs(number) < math.inf:
        return number
    with np.errstate(over="ignore"):
        return float(dtype.numpy.type(number))


def _no_number(parameter: Parameter, value: Any, dtype: DType) -> float:
    raise LaunchError(
        f"{parameter.name} is {dtype.name}; got {typed(value)}",
        hint=f"leave the annotation out: {parameter.name} = None is then a compile-time value" if value is None
        else f"pass {'int' if dtype.is_integer else dtype.kind}s, or change its annotation",
    )


def signature(call: Call, target: Target, overlapping: Sequence[tuple[int, int]]) -> Signature:
    """Return the signature, which contains what the compiler may know about the arguments.

    overlapping: pairs of positions of the arrays to mark as overlapping.
    raises: LaunchError for an array that doesn't match its parameter's spec, or isn't aligned to its element size.
    """
    aliased = {position for pair in overlapping for position in pair}
    types: list[tuple[str, ArgumentType]] = []
    arguments = zip(call.parameters, call.flat, call.kinds, call.arguments, strict=True)
    for i, (parameter, value, kind, argument) in enumerate(arguments):
        if kind is _CONSTEXPR:
            types.append((parameter.name, ConstexprType.of(value)))
        elif kind is _CONTAINER:
            types.append((parameter.name, container_type(value)))
        elif isinstance(argument, ArrayView):
            types.append((parameter.name, _array_type(parameter, argument, target, i in aliased)))
        else:
            types.append((parameter.name, ScalarType(parameter.dtype or scalar_dtype(parameter, value))))
    return Signature(tuple(types))


def _array_type(parameter: Parameter, view: ArrayView, target: Target, aliased: bool) -> ArrayType:
    most = target.array_align
    facts = view.facts
    if view.align < facts.dtype.bytes:
        raise LaunchError(
            f"the address of {parameter.name} is not a multiple of its element size, {facts.dtype.bytes} bytes",
            hint="pass a copy, such as a.copy()",
        )
    spec = parameter.spec
    shape, strides = (None, None) if spec is None else _pinned(parameter.name, spec, view)
    return ArrayType(
        # the spec's, since arrays of bytes may be pinned to a packed type
        facts.dtype if spec is None else spec.dtype,
        len(facts.shape),
        facts.unit_dim,
        # the type contains pinned strides, so the alignment is that of the address alone
        min(view.align if spec is None else view.pointer_align, most),
        min(facts.extent_align, most),
        aliased,
        shape,
        strides,
    )


def _pinned(name: str, spec: Spec, view: ArrayView) -> tuple[tuple[int, ...], tuple[int, ...]]:
    facts = view.facts
    hint = f"pass a matching array, or annotate `{declaration(name, 'tj.Tensor')}` without a spec"
    is_packed = spec.dtype.kind == "packed" and facts.dtype is uint8
    if facts.dtype != spec.dtype and not is_packed:
        raise LaunchError(f"{name} is pinned to {spec.dtype.name}; got {facts.dtype.name}", hint=hint)
    shape, strides = spec.shape, spec.strides
    if facts.shape != shape:
        raise LaunchError(f"{name} is pinned to shape {shape}; got {facts.shape}", hint=hint)
    # the stride of a dimension of extent 1 is never used, and in NumPy it is arbitrary
    differs = any(n != 1 and a != b for n, a, b in zip(shape, facts.strides, strides, strict=True))
    if differs and 0 not in shape:
        wanted = "row-major strides" if strides == row_major(shape) else "strides"
        raise LaunchError(f"{name} is pinned to {wanted} {strides} (elements); got {facts.strides}", hint=hint)
    return shape, strides


def describe(signature: Signature) -> str:
    """Return a signature as one line: `A: float32[:, :1] align 16, N = 8`."""
    return ", ".join(describe_one(name, kind) for name, kind in signature.arguments)


def describe_one(name: str, kind: ArgumentType) -> str:
    """Return one argument of a signature as text: `A: float32[:, :1] align 16`."""
    if isinstance(kind, ConstexprType):
        return f"{name} = {kind.value!r}"
    if isinstance(kind, ContainerType):
        return f"{name}: {kind}"
    if isinstance(kind, ScalarType):
        return f"{name}: {kind.dtype.name}"
    if kind.shape is not None:
        dims = ", ".join(map(str, kind.shape))
    else:
        dims = ", ".join(":1" if d == kind.unit_dim else ":" for d in range(kind.rank))
    text = f"{name}: {kind.dtype.name}[{dims}] align {kind.align}"
    if kind.extent_align != 1:
        text += f" extent {kind.extent_align}"
    return text + (" overlaps" if kind.overlaps else "")
