"""Array arguments of a launch, regardless of the library that owns them.

An array is represented by a pointer and its `ArrayFacts`, which are cached by dtype, shape, strides and device.
Attributes are read directly if an object has them (on an H100 host, reading a torch tensor takes 0.7 us this way,
3.2 us by `__cuda_array_interface__`, 5.3 us by DLPack).
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..dataclass import dataclass
from ..dtypes import DTYPES, DType, from_numpy
from ..errors import LaunchError
from ..html_tables import box, facts_table, text_box
from ..wording import with_article
from . import dlpack, interface
from .array_protocols import ArrayProtocols

#: the device number of arrays in the simulator's memory; CUDA devices are 0, 1, …; None is host memory
SIMULATOR = -1

#: a notebook shows the values of arrays of up to `_SHOWN_BYTES`, but only the outermost of more than `_SHOWN_VALUES`
_SHOWN_BYTES = 1 << 20
_SHOWN_VALUES = 64

#: the largest alignment, in bytes, that a signature states
MAX_ALIGN = 32


def device_name(number: int | None) -> str:
    """Return the name of a device number, such as `cuda:0`, `sim` or `host memory`."""
    if number is None:
        return "host memory"
    return "sim" if number == SIMULATOR else f"cuda:{number}"


@dataclass(frozen=True, slots=True)
class ArrayFacts:
    """The properties of an array that follow from its dtype, shape, strides and device."""

    dtype: DType
    shape: tuple[int, ...]
    #: in elements
    strides: tuple[int, ...]
    #: strides passed to kernels, which may assume that all but unit_dim's are multiples of stride_align. So the stride
    #: of any other dimension of extent 1, which is never used, is rounded up to a multiple of `MAX_ALIGN` bytes
    passed_strides: tuple[int, ...]
    #: CUDA ordinal, `SIMULATOR`, or None for host memory
    device: int | None
    unit_dim: int | None
    #: in bytes, up to `MAX_ALIGN`; see `ArrayType`
    stride_align: int
    extent_align: int
    #: offsets from the first element to the lowest byte, and to the end of the highest byte
    low_bytes: int
    high_bytes: int
    #: unique to this instance
    number: int
    #: the properties that a signature states, other than the alignments of address and strides
    key: tuple[Any, ...]

    @property
    def is_dense(self) -> bool:
        """True if no elements overlap and no bytes lie between them, in any order of the dimensions."""
        dense = 1
        for stride, extent in sorted((abs(s), n) for s, n in zip(self.strides, self.shape, strict=True) if n > 1):
            if stride != dense:
                return False
            dense *= extent
        return True


class ArrayView(NamedTuple):
    """An array argument. host: its NumPy view, or None. producer: a stream that may still write it, or None."""

    pointer: int
    facts: ArrayFacts
    writable: bool
    owner: Any
    host: np.ndarray[Any, Any] | None = None
    producer: int | None = None

    @property
    def align(self) -> int:
        """The largest power of two that divides both the address and stride_align, in bytes."""
        together = self.pointer | self.facts.stride_align
        return together & -together

    @property
    def pointer_align(self) -> int:
        """The largest power of two up to `MAX_ALIGN` that divides the address, in bytes."""
        together = self.pointer | MAX_ALIGN
        return together & -together


#: an argument in the form that devices take; None for a constexpr
Argument = ArrayView | bool | int | float | None


def is_host(argument: Argument) -> bool:
    return type(argument) is ArrayView and argument.facts.device is None


_FACTS_LIMIT = 8192
_facts: dict[tuple[Any, ...], ArrayFacts] = {}
#: type of array -> the function that returns its view, for some of the types that have been passed
readers: dict[type, Callable[[Any], ArrayView]] = {}
_numbers = itertools.count()


def facts_of(dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...], device: int | None) -> ArrayFacts:
    """Return the facts of an array, which are cached. strides: in elements."""
    key = (dtype.name, shape, strides, device)
    found = _facts.get(key)
    return found if found is not None else _remember(key, _new_facts(dtype, shape, strides, device))


def _remember(key: tuple[Any, ...], facts: ArrayFacts) -> ArrayFacts:
    if len(_facts) >= _FACTS_LIMIT:
        _facts.clear()
    _facts[key] = facts
    return facts


def _new_facts(dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...], device: int | None) -> ArrayFacts:
    shape, strides = tuple(map(int, shape)), tuple(map(int, strides))
    item = dtype.bytes
    if 0 in shape and 1 not in strides:
        # an empty array's strides are never used, so choose the ones that kernels are specialized for
        strides = (*[MAX_ALIGN] * (len(shape) - 1), 1)
    units = [d for d, s in enumerate(strides) if s == 1]
    unit_dim = units[-1] if units else None
    whole = MAX_ALIGN // item
    passed = tuple([
        -(-s // whole) * whole if n == 1 and d != unit_dim else s
        for d, (n, s) in enumerate(zip(shape, strides, strict=True))
    ])
    others = MAX_ALIGN
    for d, stride in enumerate(passed):
        if d != unit_dim:
            others |= stride * item
    extent = MAX_ALIGN | shape[unit_dim] * item if unit_dim is not None else 1
    extent_align = extent & -extent
    ends = [] if 0 in shape else [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    high = (sum(e for e in ends if e > 0) + 1) * item if 0 not in shape else 0
    return ArrayFacts(
        dtype, shape, strides, passed, device, unit_dim, others & -others, extent_align,
        low_bytes=sum(e for e in ends if e < 0) * item, high_bytes=high, number=next(_numbers),
        key=(dtype.name, len(shape), unit_dim, extent_align),
    )


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, of a dense row-major array."""
    strides = [1] * len(shape)
    for d in range(len(shape) - 2, -1, -1):
        strides[d] = strides[d + 1] * max(shape[d + 1], 1)
    return tuple(strides)


def is_array(value: object) -> bool:
    """True if the value looks like an array, which `view_of` may still refuse."""
    if type(value) in readers or isinstance(value, (ArrayView, DeviceArray, np.ndarray)):
        return True
    if isinstance(value, (np.generic, int, float)):
        return False
    # checked last, because objects compute their interface when it is read
    return _has(value, "data_ptr") or _has(value, "__dlpack__") or _has(value, interface.NAME)


def _has(value: object, name: str) -> bool:
    try:
        return hasattr(value, name)
    except Exception:
        # the object's own code can raise anything; reading the array reports it
        return True


def view_of(value: Any) -> ArrayView:
    """Return the view of an array argument.

    accepts: NumPy arrays; objects with `data_ptr`, `shape`, `stride`, `dtype` and `device`; `DeviceArray`; `ArrayView`;
    anything with `__cuda_array_interface__` or DLPack.
    raises: LaunchError for anything else, and for arrays that kernels can't use, such as those of unsupported dtypes.
    """
    reader = readers.get(type(value))
    if reader is not None:
        return reader(value)
    if _has(value, "data_ptr"):
        return _remembered(value, _view_of_tensor)
    if isinstance(value, np.ndarray) and hasattr(value, "mask"):
        raise LaunchError("a masked array can't be passed", hint="pass the data and the mask as two arrays")
    if isinstance(value, np.ndarray):
        return _remembered(value, _view_of_numpy)
    found = interface.of(value)
    if found is not None:
        return _view_of_interface(value, found)
    if _has(value, "__dlpack__"):
        return _view_of_dlpack(value)
    if isinstance(value, DeviceArray):
        return _remembered(value, DeviceArray.view)
    if isinstance(value, ArrayView):
        return value
    if value is None:
        raise LaunchError(
            "None is not an array",
            hint="annotate a parameter that may be None as `tj.Tensor | None`; the kernel can then test it",
        )
    raise LaunchError(
        f"{type(value).__name__} is not an array",
        hint="pass a NumPy array, a tensor of PyTorch, CuPy or JAX, or a tj.DeviceArray",
    )


def _remembered(value: Any, reader: Callable[[Any], ArrayView]) -> ArrayView:
    if len(readers) >= _FACTS_LIMIT:
        readers.clear()
    readers[type(value)] = reader
    return reader(value)


def _view_of_numpy(array: np.ndarray[Any, Any]) -> ArrayView:
    key = (array.dtype, array.shape, array.strides)
    facts = _facts.get(key) or _remember(key, numpy_facts(array.dtype, array.shape, array.strides, None))
    return ArrayView(array.ctypes.data, facts, array.flags.writeable, array, array)


def numpy_facts(
    dtype: np.dtype[Any], shape: tuple[int, ...], strides_bytes: tuple[int, ...], device: int | None
) -> ArrayFacts:
    """Return the facts of an array from its NumPy attributes; raise LaunchError for unsupported dtypes and strides."""
    if not dtype.isnative and dtype.isbuiltin == 0 and from_numpy(dtype.newbyteorder("=")) is not None:
        native = dtype.newbyteorder("=").name
        raise LaunchError(
            f"an array of dtype {dtype!r} can't be passed: its byte order is not native",
            hint=f"pass a.astype(np.{native})",
        )
    found = from_numpy(dtype) if dtype.isnative else None
    if found is None:
        raise LaunchError(
            f"an array of dtype {dtype!r} can't be passed", hint=f"convert it to one of {', '.join(DTYPES)}"
        )
    if any(s % found.bytes for s in strides_bytes):
        raise LaunchError(
            f"an array has strides of {strides_bytes} bytes, which aren't multiples of its element size, {found.bytes}",
            hint="pass a copy: np.ascontiguousarray(a)",
        )
    return facts_of(found, shape, tuple(s // found.bytes for s in strides_bytes), device)


def unreadable(value: Any, why: str | Exception) -> LaunchError:
    """Return the error for an array whose memory a kernel can't use, or whose library raised an error."""
    if isinstance(why, Exception):
        why = f"{type(why).__name__}: {str(why).partition(chr(10))[0]}"
    return LaunchError(
        f"{with_article(type(value).__name__)} can't be passed: {why}",
        hint="pass a dense array that owns memory, outside of transformations that trace or map functions",
    )


def _refuse_bits(tensor: Any) -> None:
    if getattr(tensor, "is_neg", bool)():
        raise LaunchError(
            "a tensor has its negative bit set: its memory holds the negatives of its values",
            hint="pass a.resolve_neg(), a copy that holds the values",
        )
    if getattr(tensor, "is_conj", bool)():
        raise LaunchError(
            "a tensor has its conjugate bit set: its memory holds the conjugates of its values",
            hint="pass torch.view_as_real(a.resolve_conj()), the real and imaginary parts of a copy",
        )


def _view_of_tensor(tensor: Any) -> ArrayView:
    try:
        _refuse_bits(tensor)
        key = (tensor.dtype, tensor.shape, tensor.stride(), tensor.device)
        facts = _facts.get(key) or _remember(key, tensor_facts(*key))
        pointer = tensor.data_ptr()
    except LaunchError:
        raise
    except Exception as error:
        # the tensor's library can raise anything
        raise unreadable(tensor, error) from error
    return _view_of_memory(tensor, pointer, facts, True)


def tensor_facts(dtype: Any, shape: Any, strides: Any, device: Any) -> ArrayFacts:
    """Return the facts of an array from its torch attributes; raise LaunchError if dtype or device is unsupported."""
    return facts_of(_dtype_of_name(str(dtype)), tuple(shape), tuple(strides), _ordinal(device))


def _dtype_of_name(text: str) -> DType:
    name = text.rsplit(".", 1)[-1]
    found = DTYPES.get("bool_" if name == "bool" else name)
    if found is None:
        raise LaunchError(
            f"an array of dtype {text} can't be passed", hint=f"convert it to one of {', '.join(DTYPES)}"
        )
    return found


def _ordinal(device: Any) -> int | None:
    kind, _, index = str(device).partition(":")
    if kind == "cpu":
        return None
    if kind == "cuda":
        return int(index or 0)
    raise LaunchError(f"a tensor is on {device}", hint="tilejit launches on CUDA devices and on the simulator")


def _view_of_interface(value: Any, found: Any) -> ArrayView:
    pointer, read_only, dtype, shape, strides = interface.read(value, found)
    if dtype.kind == "V" or from_numpy(dtype) is None:
        # bfloat16 and fp8 have no typestr, so read the object's dtype
        dtype = np.dtype(getattr(value, "dtype", dtype))
    if found.get("mask") is not None:
        raise LaunchError("a masked array can't be passed", hint="pass the data and the mask as two arrays")
    ordinal = getattr(getattr(value, "device", None), "id", None)
    if not isinstance(ordinal, int):
        ordinal = _ordinal_at(pointer)
    facts = interface_facts(dtype, shape, strides, ordinal)
    return _view_of_memory(value, pointer, facts, not (read_only or _is_immutable(value)), found.get("stream"))


def _ordinal_at(pointer: int) -> int:
    try:
        # cuda-python may be missing if no GPU is used
        from .cuda_driver import ordinal_at
    except ImportError:
        return 0
    return ordinal_at(pointer)


def _is_immutable(value: Any) -> bool:
    """True for JAX arrays, which share memory and must not be written, although their interface doesn't say so."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.Array)


def interface_facts(dtype: np.dtype[Any], shape: tuple[int, ...], strides_bytes: Any, ordinal: int) -> ArrayFacts:
    """Return the facts of an array from its `__cuda_array_interface__`. strides_bytes: None for row-major."""
    dense = [stride * dtype.itemsize for stride in row_major(shape)]
    return numpy_facts(dtype, shape, tuple(strides_bytes or dense), ordinal)


def _view_of_dlpack(value: Any) -> ArrayView:
    try:
        tensor = dlpack.read(value)
    except LaunchError:
        raise
    except Exception as error:
        # the array's library can raise anything
        raise unreadable(value, error) from error
    strides = row_major(tensor.shape) if tensor.strides is None else tensor.strides
    facts = facts_of(tensor.dtype, tensor.shape, strides, tensor.device)
    producer = None if tensor.device is None else dlpack.LEGACY_STREAM
    return _view_of_memory(value, tensor.pointer, facts, tensor.writable and not _is_immutable(value), producer, tensor)


def _view_of_memory(
    value: Any, pointer: int, facts: ArrayFacts, writable: bool, producer: int | None = None, owner: Any = None
) -> ArrayView:
    """Return the view of another library's array; raise LaunchError if it has elements but no memory."""
    if not pointer and facts.high_bytes:
        raise unreadable(value, "it has no memory")
    owner, host = value if owner is None else owner, None
    if facts.device is None:
        host = _host_array(pointer, facts, owner)
        host.flags.writeable = writable
    return ArrayView(pointer, facts, writable, owner, host, producer)


class _HostMemory:
    def __init__(self, pointer: int, size: int, owner: object) -> None:
        self.owner = owner
        self.__array_interface__ = {"data": (pointer, False), "shape": (size,), "typestr": "|u1", "version": 3}


def offset_in_base(view: ArrayView) -> int:
    """Return the offset in bytes of an array's lowest byte in the base of its NumPy view; 0 if it has no such view."""
    root = view.host
    while root is not None and isinstance(root.base, np.ndarray):
        root = root.base
    lowest = view.pointer + view.facts.low_bytes
    return lowest - int(root.__array_interface__["data"][0]) if root is not None else 0


def host_bytes(pointer: int, size: int, owner: object) -> np.ndarray[Any, Any]:
    """Return a uint8 array of `size` bytes of host memory at `pointer`, which keeps `owner` alive."""
    found: np.ndarray[Any, Any] = np.asarray(_HostMemory(pointer, size, owner))
    return found


def _host_array(pointer: int, facts: ArrayFacts, owner: object) -> np.ndarray[Any, Any]:
    size = facts.high_bytes - facts.low_bytes
    if size == 0:
        return np.empty(facts.shape, facts.dtype.numpy)
    memory = host_bytes(pointer + facts.low_bytes, size, owner)
    item = facts.dtype.bytes
    strides = tuple(s * item for s in facts.strides)
    found: np.ndarray[Any, Any] = np.ndarray(facts.shape, facts.dtype.numpy, memory, -facts.low_bytes, strides)
    return found


class DeviceMemory(Protocol):
    """Device memory that a `DeviceArray` owns."""

    @property
    def pointer(self) -> int: ...

    @property
    def device(self) -> int: ...

    @property
    def host(self) -> np.ndarray[Any, Any] | None: ...

    def copy_in(self, array: np.ndarray[Any, Any]) -> None: ...

    def copy_out(self, array: np.ndarray[Any, Any]) -> None: ...

    def free(self) -> None: ...


class DeviceArray(ArrayProtocols):
    """A row-major array in device memory, made by `tj.to_device` or `tj.empty`.

    Its memory is released by `free`, or when it is garbage-collected.

    Example:
        with tj.use_device("sim"):
            a = tj.to_device(np.ones((4, 8), np.float32))
        assert a.shape == (4, 8) and (a.numpy() == 1).all()
    """

    __slots__ = ("shape", "dtype", "_facts", "_memory")

    def __init__(self, memory: DeviceMemory, dtype: DType, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.dtype = dtype
        self._memory: DeviceMemory | None = memory
        self._facts = facts_of(dtype, shape, row_major(shape), memory.device)

    @property
    def strides(self) -> tuple[int, ...]:
        """The distance between adjacent elements along each dimension, as a number of elements."""
        return self._facts.strides

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.bytes

    @property
    def device(self) -> str:
        """The name of the device: `cuda:0`, `sim`, …"""
        return device_name(self._facts.device)

    @property
    def memory(self) -> DeviceMemory:
        """The array's memory. raises: LaunchError if it was freed."""
        if self._memory is None:
            raise LaunchError(f"{self!r} was freed", hint="make another with tj.to_device or tj.empty")
        return self._memory

    def check(self) -> None:
        """Raise LaunchError if the array was freed."""
        _ = self.memory

    def view(self) -> ArrayView:
        # try the slot first: the property is too slow for each array of each launch
        memory = self._memory or self.memory
        host = memory.host
        shaped = None if host is None else host.view(self.dtype.numpy).reshape(self.shape)
        return ArrayView(memory.pointer, self._facts, True, self, shaped)

    def numpy(self) -> np.ndarray[Any, Any]:
        """Wait for the device and return a copy in host memory; raise errors that the device reports."""
        out = np.empty(self.shape, self.dtype.numpy)
        self.memory.copy_out(out)
        return out

    def copy_from(self, array: Any) -> None:
        """Overwrite the contents with a NumPy array; raise LaunchError if its shape or dtype differs."""
        source = np.asarray(array)
        if source.shape != self.shape or from_numpy(source.dtype) != self.dtype:
            raise LaunchError(
                f"{source.dtype}{list(source.shape)} doesn't fit into {self!r}",
                hint="convert or reshape it first; tj.to_device(array) makes a new array",
            )
        self.memory.copy_in(np.ascontiguousarray(source))

    def free(self) -> None:
        """Release the memory now; later reads, writes and launches raise LaunchError."""
        memory, self._memory = self._memory, None
        if memory is not None:
            memory.free()

    def __repr__(self) -> str:
        return f"DeviceArray({list(self.shape)}, {self.dtype.name}, {self.device!r})"

    def _repr_html_(self) -> str:
        facts = {"shape": list(self.shape), "type": self.dtype, "device": self.device, "bytes": f"{self.nbytes:,}"}
        if self._memory is None:
            return box("<b>DeviceArray</b>, freed", facts_table(facts))
        is_small = self.nbytes <= _SHOWN_BYTES
        values = np.array2string(self.numpy(), threshold=_SHOWN_VALUES, edgeitems=3) if is_small else "..."
        return box("<b>DeviceArray</b>", facts_table(facts), text_box(values))
